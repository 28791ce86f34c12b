//! Scalings that keep a symmetric matrix symmetric, by their base-two logarithms.

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};

use crate::equilibrate::{MAX_SWEEPS, TOLERANCE, exp2_clamped};
use crate::matching::logarithms;

/// Logarithms of factors that bring the largest entry of every row, and so of every column, near one: the sweeps of
/// [`equilibrate`](crate::equilibrate()), with one factor for row and column. Rows without a nonzero value keep zero.
///
/// # Errors
///
/// [`Cancelled`].
pub(super) fn equilibrium(
    a: &CompressedPattern,
    values: &[f64],
    cancel: &CancelFlag,
) -> Result<Vec<f64>, Cancelled> {
    let n = a.major_dim();
    let mut logs = vec![0.0; values.len()];
    logarithms(values, &mut logs);
    let mut scale = vec![0.0; n];
    let mut largest = vec![0.0; n];
    for _ in 0..MAX_SWEEPS {
        cancel.check()?;
        let mut worst = 0.0;
        for (row, largest) in largest.iter_mut().enumerate() {
            let range = a.range(row);
            let entries = a.idx()[range.clone()].iter().zip(&logs[range]);
            let max = entries.fold(f64::NEG_INFINITY, |max, (&col, &log)| {
                let log = log + scale[col as usize];
                if log > max { log } else { max }
            });
            // Minus infinity: nothing but zeros, which no factor changes.
            *largest = if max.is_finite() {
                max + scale[row]
            } else {
                0.0
            };
            worst = f64::max(worst, largest.abs());
        }
        for (scale, &largest) in scale.iter_mut().zip(&largest) {
            *scale -= largest / 2.0;
        }
        if worst <= TOLERANCE {
            break;
        }
    }
    Ok(scale)
}

/// The factors with these logarithms, rounded to powers of two.
pub(super) fn rounded(logs: impl Iterator<Item = f64>) -> Vec<f64> {
    logs.map(|log| exp2_clamped(log.round())).collect()
}
