//! Scalings that keep a symmetric matrix symmetric, by their base-two logarithms.

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};

use crate::averages::symmetric_averages;
use crate::equilibrate::{MAX_SWEEPS, TOLERANCE, exp2_clamped};
use crate::matching::logarithms_of;
use crate::parts::collected;

/// Rows that a thread looks at, at least. Few in tests, so that small matrices are shared.
const LEAST_PART: usize = if cfg!(test) { 2 } else { 256 };

/// Logarithms of factors that bring the largest entry of every row, and so of every column, near one: the sweeps of
/// [`equilibrate`](crate::equilibrate()), with one factor for row and column, if `averaged` from those of [`symmetric_averages`]. Rows
/// without a nonzero value keep zero. On the current rayon pool if `parallel`.
///
/// # Errors
///
/// [`Cancelled`].
pub(super) fn equilibrium(
    a: &CompressedPattern,
    values: &[f64],
    averaged: bool,
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<Vec<f64>, Cancelled> {
    let logs = logarithms_of(values, parallel);
    let mut scale = match averaged {
        true => symmetric_averages(a, &logs, cancel)?,
        false => vec![0.0; a.major_dim()],
    };
    for _ in 0..MAX_SWEEPS {
        cancel.check()?;
        let largest = |row: usize| {
            let range = a.range(row);
            let entries = a.idx()[range.clone()].iter().zip(&logs[range]);
            let max = entries.fold(f64::NEG_INFINITY, |max, (&col, &log)| {
                let log = log + scale[col as usize];
                if log > max { log } else { max }
            });
            // Minus infinity: nothing but zeros, which no factor changes.
            if max.is_finite() {
                max + scale[row]
            } else {
                0.0
            }
        };
        let largest = collected(scale.len(), LEAST_PART, parallel, largest);
        let mut worst = 0.0;
        for (scale, &largest) in scale.iter_mut().zip(&largest) {
            *scale -= largest / 2.0;
            worst = f64::max(worst, largest.abs());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_undo_a_symmetric_scaling() {
        // Ones beside the diagonal of a cycle, whose rows and columns are then scaled, and a diagonal of zeros.
        let n = 5;
        let power = |i: usize| ((i * 7919 + 3) * 31 % 801) as i32 - 400;
        let line = |i: usize| {
            let mut line = [(i + n - 1) % n, i, (i + 1) % n];
            line.sort_unstable();
            line
        };
        let value = |i: usize, j: usize| {
            if i == j {
                0.0
            } else {
                2f64.powi(power(i) + power(j))
            }
        };
        let entries: Vec<[usize; 2]> = (0..n).flat_map(|i| line(i).map(|j| [i, j])).collect();
        let ptr = (0..=n as u64).map(|i| 3 * i).collect();
        let idx = entries.iter().map(|e| e[1] as u32).collect();
        let pattern = CompressedPattern::new(n, ptr, idx).unwrap();
        let values: Vec<f64> = entries.iter().map(|&[i, j]| value(i, j)).collect();
        let smallest = |scale: Vec<f64>| {
            let beside = entries.iter().filter(|[i, j]| i != j);
            let logs = beside.map(|&[i, j]| value(i, j).log2() + scale[i] + scale[j]);
            logs.fold(0.0, f64::min)
        };
        let cancel = CancelFlag::new();
        let equilibrated = |averaged, parallel| {
            equilibrium(&pattern, &values, averaged, parallel, &cancel).unwrap()
        };
        let averaged = equilibrated(true, false);
        assert_eq!(equilibrated(true, true), averaged);
        let least = smallest(averaged);
        assert!(least >= -2.0, "{least}");
        // The largest entries alone leave some that are all but zero.
        let by_largest = equilibrated(false, false);
        assert_eq!(equilibrated(false, true), by_largest);
        let least = smallest(by_largest);
        assert!(least < -30.0, "{least}");
    }
}
