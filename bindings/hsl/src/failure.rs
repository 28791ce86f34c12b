//! INFO(1) and INFO(2): why a call did nothing.

use luge::Error;

/// A negative INFO(1), and what goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    /// INFO(1).
    pub flag: i32,
    /// INFO(2).
    pub detail: i32,
    /// The length that suffices, of FACT in INFO(17), of IFACT in INFO(18), if that was too small.
    suffices: i32,
}

impl Failure {
    /// N is out of range.
    pub(crate) const ORDER: i32 = -1;
    /// NE is out of range.
    pub(crate) const ENTRIES: i32 = -2;
    /// LFACT is too small.
    pub(crate) const REALS: i32 = -3;
    /// LIFACT is too small.
    pub(crate) const INTEGERS: i32 = -4;
    /// There is no pivot in column INFO(2).
    pub(crate) const PIVOT: i32 = -5;
    /// The pivots have different signs.
    pub(crate) const SIGN: i32 = -6;
    /// The new array is shorter than the old one.
    pub(crate) const SHORTER: i32 = -7;
    /// KEEP has no permutation.
    pub(crate) const PERMUTATION: i32 = -9;
    /// ICNTL(7) has no meaning.
    pub(crate) const STRATEGY: i32 = -10;
    /// LRHS is less than N.
    pub(crate) const LEADING: i32 = -11;
    /// An array that should be there is not, or has not what an earlier call left in it; or the call failed for a reason that
    /// the other numbers do not have.
    pub(crate) const STATE: i32 = -14;
    /// LKEEP is too small.
    pub(crate) const KEEP: i32 = -15;
    /// NRHS is less than 1.
    pub(crate) const SIDES: i32 = -16;
    /// LWORK is too small.
    pub(crate) const WORK: i32 = -17;

    pub(crate) fn new(flag: i32, detail: i32) -> Self {
        Self {
            flag,
            detail,
            suffices: 0,
        }
    }

    /// What INFO says of it.
    pub(crate) fn entries(&self) -> Vec<(usize, i32)> {
        let mut entries = vec![(1, self.flag), (2, self.detail)];
        match self.flag {
            Self::REALS => entries.push((17, self.suffices)),
            Self::INTEGERS => entries.push((18, self.suffices)),
            _ => {}
        }
        entries
    }

    /// An array of this length is too short.
    pub(crate) fn short(flag: i32, given: i32, suffices: i32) -> Self {
        Self {
            suffices,
            ..Self::new(flag, given)
        }
    }

    /// What no other number says.
    pub(crate) fn state() -> Self {
        Self::new(Self::STATE, 0)
    }

    /// Of an error that is none of a singular matrix.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::NotFinite { column, .. } | Error::Overflow { column } => {
                Self::new(Self::PIVOT, saturated(column + 1))
            }
            _ => Self::state(),
        }
    }
}

/// A count as INFO has it.
pub(crate) fn saturated(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
