//! CNTL and ICNTL: what a caller chooses.

use luge::ordering::Method;

use crate::failure::Failure;

/// Numbers in CNTL.
pub(crate) const NUM_CNTL: usize = 5;

/// Numbers in ICNTL.
pub(crate) const NUM_ICNTL: usize = 20;

/// CNTL as MA57ID sets it: the threshold u, what is zero, and three numbers that choose nothing here.
pub(crate) const CNTL: [f64; NUM_CNTL] = [0.01, 1e-20, 0.5, 0.0, 0.0];

/// ICNTL as MA57ID sets it.
pub(crate) const ICNTL: [i32; NUM_ICNTL] = [
    6, 6, 6, -1, 2, 5, 1, 0, 10, 0, 16, 16, 10, 100, 1, 0, 0, 0, 0, 0,
];

/// How a matrix is ordered: ICNTL(6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Whichever is predicted to be faster.
    Auto,
    /// By minimum degree: 0, 2 and 3.
    MinimumDegree,
    /// By nested dissection: 4.
    NestedDissection,
    /// By the caller: 1.
    Given,
}

impl Order {
    /// Numbers without a meaning choose as 5 does.
    pub(crate) fn of(icntl: &[i32]) -> Self {
        match icntl[5] {
            0 | 2 | 3 => Self::MinimumDegree,
            1 => Self::Given,
            4 => Self::NestedDissection,
            _ => Self::Auto,
        }
    }

    /// A number that chooses it.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::MinimumDegree => 0,
            Self::Given => 1,
            Self::NestedDissection => 4,
            Self::Auto => 5,
        }
    }

    pub(crate) fn of_code(code: i32) -> Self {
        let mut icntl = ICNTL;
        icntl[5] = code;
        Self::of(&icntl)
    }

    /// The method where no permutation is given.
    pub(crate) fn method(self) -> Method {
        match self {
            Self::Auto | Self::Given => Method::Auto,
            Self::MinimumDegree => Method::Amd,
            Self::NestedDissection => Method::NestedDissection,
        }
    }
}

/// What a factorization is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Numeric {
    /// u of CNTL(1), from 0 to 0.5.
    pub threshold: f64,
    /// CNTL(2): a column is zero if all that is left in it is at most this in magnitude; at least 0.
    pub zero: f64,
    /// ICNTL(15): whether the matrix is scaled.
    pub is_scaled: bool,
    /// ICNTL(7).
    pub signs: Signs,
}

/// What is expected of the signs of the pivots: ICNTL(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signs {
    /// Nothing: 1.
    Any,
    /// All are the same, else there are no factors: 2.
    Same,
    /// All are the same, else the caller is told: 3.
    SameOrTold,
}

impl Numeric {
    /// # Errors
    ///
    /// -10 with ICNTL(7), if that is not 1, 2 or 3.
    pub(crate) fn of(icntl: &[i32], cntl: &[f64]) -> Result<Self, Failure> {
        let signs = match icntl[6] {
            1 => Signs::Any,
            2 => Signs::Same,
            3 => Signs::SameOrTold,
            other => return Err(Failure::new(Failure::STRATEGY, other)),
        };
        // Not a number chooses the default, too.
        let threshold = if cntl[0].is_nan() { CNTL[0] } else { cntl[0] };
        Ok(Self {
            threshold: threshold.clamp(0.0, 0.5),
            zero: cntl[1].max(0.0),
            is_scaled: icntl[14] == 1,
            signs,
        })
    }

    /// All but the numbers of CNTL in a number.
    pub(crate) fn flags(&self) -> u64 {
        let signs = match self.signs {
            Signs::Any => 1,
            Signs::Same => 2,
            Signs::SameOrTold => 3,
        };
        signs | u64::from(self.is_scaled) << 8
    }

    pub(crate) fn of_flags(flags: u64, threshold: f64, zero: f64) -> Option<Self> {
        let mut icntl = ICNTL;
        icntl[6] = (flags & 0xff) as i32;
        icntl[14] = i32::from(flags >> 8 == 1);
        let found = Self::of(&icntl, &[threshold, zero]).ok()?;
        let is_same = found.flags() == flags && found.threshold == threshold && found.zero == zero;
        is_same.then_some(found)
    }
}
