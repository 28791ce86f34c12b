//! A first look at the values: are they finite, how large are rows and columns, is the diagonal fit to
//! pivot on.
//!
//! Everything is read off the exponents of the values, in two passes over them, so that it costs less
//! than anything that follows.

use luge_sparse::{CancelFlag, CompressedPattern, Scaling};
use smallvec::{SmallVec, smallvec};

use crate::equilibrate::LARGEST_EXPONENT;
use crate::error::{OrderingError, not_finite};

/// Exponent of zero.
const ZERO: i16 = i16::MIN;

/// Rows between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

/// A scaled diagonal entry below 2 to this power of the largest of its column is a poor pivot:
/// threshold pivoting with the usual threshold of a thousandth would leave it.
const POOR: i16 = -10;

/// What the values look like.
pub(crate) struct Survey {
    /// Largest exponent of each row; zero for a row of zeros.
    rows: Exponents,
    /// Largest exponent of each column once the rows are scaled by theirs; zero for a column of zeros.
    cols: Exponents,
    /// Diagonal entries that are not there, or zero.
    pub num_missing: usize,
    /// Diagonal entries that are there, but small in their columns.
    pub num_poor: usize,
    /// Whether an entry is zero.
    pub has_zeros: bool,
}

/// One for each row or column.
type Exponents = SmallVec<[i16; 32]>;

/// The exponent e of 2^e ≤ |x| < 2^(e+1), for finite x.
fn exponent(x: f64) -> i16 {
    const SUBNORMAL: i16 = -1023;
    let bits = x.to_bits() & (u64::MAX >> 1);
    let e = (bits >> 52) as i16 - 1023;
    if e > SUBNORMAL {
        e
    } else if bits == 0 {
        ZERO
    } else {
        // The leading one of a subnormal number stands `leading_zeros` places further down; the
        // highest of its 52 bits is worth 2^-1023.
        SUBNORMAL - (bits.leading_zeros() as i16 - 12)
    }
}

/// Looks at the values of the square CSR matrix.
///
/// # Errors
///
/// [`NotFinite`](OrderingError::NotFinite) naming the first such value; [`Cancelled`](OrderingError::Cancelled).
pub(crate) fn survey(
    a: &CompressedPattern,
    values: &[f64],
    cancel: &CancelFlag,
) -> Result<Survey, OrderingError> {
    let n = a.major_dim();
    let mut rows: Exponents = smallvec![0; n];
    let mut cols: Exponents = smallvec![ZERO; n];
    let mut diagonal: Exponents = smallvec![ZERO; n];
    let mut has_zeros = false;
    let (cols_of, diagonal_of) = (&mut cols[..], &mut diagonal[..]);
    for (i, row) in rows.iter_mut().enumerate() {
        if i.is_multiple_of(STRIDE) {
            cancel.check()?;
        }
        let range = a.range(i);
        // Bits of magnitudes order like the magnitudes; those that are not finite come last.
        let largest = values[range.clone()]
            .iter()
            .fold(0, |max, x| u64::max(max, x.to_bits() & (u64::MAX >> 1)));
        if largest >= f64::INFINITY.to_bits() {
            return Err(not_finite(a, values));
        }
        *row = match exponent(f64::from_bits(largest)) {
            ZERO => {
                has_zeros |= !range.is_empty();
                continue;
            }
            e => e,
        };
        for (&j, &x) in a.idx()[range.clone()].iter().zip(&values[range]) {
            let e = exponent(x);
            if e == ZERO {
                has_zeros = true;
                continue;
            }
            let scaled = e - *row;
            let col = &mut cols_of[j as usize];
            *col = scaled.max(*col);
            if j as usize == i {
                diagonal_of[i] = scaled;
            }
        }
    }
    let (mut num_missing, mut num_poor) = (0, 0);
    for (col, &diagonal) in cols.iter_mut().zip(&diagonal) {
        if diagonal == ZERO {
            num_missing += 1;
        } else if diagonal < *col + POOR {
            num_poor += 1;
        }
        if *col == ZERO {
            *col = 0;
        }
    }
    Ok(Survey {
        rows,
        cols,
        num_missing,
        num_poor,
        has_zeros,
    })
}

/// 2^e, the exponent clamped as in [`exp2_clamped`](crate::equilibrate::exp2_clamped).
fn power_of_two(e: i16) -> f64 {
    let limit = LARGEST_EXPONENT as i16;
    f64::from_bits(((i64::from(e.clamp(-limit, limit)) + 1023) as u64) << 52)
}

impl Survey {
    /// The largest values of the rows lie within 2 to this power, and so do those of the columns of
    /// what is left when the rows are scaled by them.
    pub fn span(&self) -> i16 {
        let span = |exponents: &[i16]| {
            let (least, most) = exponents
                .iter()
                .fold((i16::MAX, i16::MIN), |(least, most), &e| {
                    (least.min(e), most.max(e))
                });
            most.saturating_sub(least)
        };
        span(&self.rows).max(span(&self.cols))
    }

    /// Factors, powers of two, that bring the largest value of every row and of every column to at
    /// least one and below two: first the rows, then the columns.
    pub fn scaling(&self) -> Scaling {
        let factors = |exponents: &[i16]| -> Vec<f64> {
            exponents.iter().map(|&e| power_of_two(-e)).collect()
        };
        Scaling {
            rows: factors(&self.rows),
            cols: factors(&self.cols),
        }
    }
}
