//! Left-looking LU on a given filled pattern, pivots on the diagonal.
//!
//! Column j: scatter B(·, j) into a dense vector, subtract U(k, j)·L(·, k) for every k of U(·, j) in
//! increasing order, divide what is below the diagonal by the pivot. The summation order of an entry
//! is that of increasing k, so the factors are the same bit for bit from run to run.
//!
//! Cost: the flops of the filled pattern, O(n) memory beside the values.

use luge_sparse::{CancelFlag, Scalar};

use crate::error::NumericError;
use crate::pattern::LuPattern;
use crate::pivots::{LuValues, PivotMonitor, TinyPivots};

/// Factorizes B on `pattern`. `positions[p]` is the place of `b[p]` among the values of L+U, as
/// [`LuPattern::positions_of`] gives it; places that no entry of B names are zero.
///
/// # Errors
///
/// [`NumericError::ZeroPivot`] if a pivot is zero and not replaced (with [`TinyPivots::Perturb`]
/// only where B itself is zero); [`NumericError::NotFinite`] with the first column in which a value
/// overflows, or B holds a value that is not finite; [`NumericError::Cancelled`].
///
/// # Panics
///
/// If `positions` and `b` differ in length, or a position is beyond the pattern.
#[track_caller]
pub fn factorize<T: Scalar>(
    pattern: &LuPattern,
    positions: &[u64],
    b: &[T],
    tiny_pivots: TinyPivots,
    cancel: &CancelFlag,
) -> Result<LuValues<T>, NumericError> {
    assert_eq!(positions.len(), b.len(), "one position for each value of B");
    let n = pattern.n();
    let span = tracing::debug_span!("factorize_static", n, entries = pattern.nnz());
    let _entered = span.enter();

    let mut values = vec![T::zero(); pattern.nnz()];
    for (&position, &value) in positions.iter().zip(b) {
        values[position as usize] = value;
    }
    let mut monitor = PivotMonitor::new(b);
    let smallest = match tiny_pivots {
        TinyPivots::Perturb { threshold } => T::from_f64(threshold * monitor.max_b()),
        TinyPivots::Keep => T::zero(),
    };
    let rows = pattern.row_idx();
    let mut work = vec![T::zero(); n];

    for j in 0..n {
        cancel.check()?;
        let column = pattern.cols().range(j);
        for p in column.clone() {
            work[rows[p] as usize] = values[p];
        }
        for p in pattern.upper(j) {
            let k = rows[p] as usize;
            let u = work[k];
            values[p] = u;
            if u == T::zero() {
                continue;
            }
            monitor.upper(u);
            let below = pattern.lower(k);
            for (&i, &l) in rows[below.clone()].iter().zip(&values[below]) {
                work[i as usize] -= l * u;
            }
        }
        let mut pivot = work[j];
        if pivot.abs() < smallest {
            pivot = if pivot < T::zero() {
                -smallest
            } else {
                smallest
            };
            monitor.perturbed(j);
        }
        if pivot == T::zero() {
            return Err(NumericError::ZeroPivot { column: j });
        }
        monitor.pivot(pivot);
        let mut finite = pivot.is_finite();
        values[pattern.diag_pos()[j] as usize] = pivot;
        for p in pattern.upper(j) {
            finite &= values[p].is_finite();
        }
        for p in pattern.lower(j) {
            let l = work[rows[p] as usize] / pivot;
            finite &= l.is_finite();
            values[p] = l;
        }
        if !finite {
            return Err(NumericError::NotFinite { column: j });
        }
    }
    Ok(LuValues {
        values,
        pivots: monitor.finish(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_sparse::{CompressedPattern, FilledPattern};

    /// A dense matrix by rows, every entry stored.
    fn factorize_dense<T: Scalar>(
        n: usize,
        b: &[T],
        tiny_pivots: TinyPivots,
    ) -> Result<(LuPattern, LuValues<T>), NumericError> {
        let ptr = (0..=n).map(|i| (i * n) as u64).collect();
        let idx = (0..n * n).map(|p| (p % n) as u32).collect();
        let rows = CompressedPattern::new(n, ptr, idx).unwrap();
        let pattern = LuPattern::new(&FilledPattern::new(rows.clone()).unwrap());
        let positions = pattern.positions_of(&rows);
        let values = factorize(&pattern, &positions, b, tiny_pivots, &CancelFlag::new())?;
        Ok((pattern, values))
    }

    #[test]
    fn a_known_factorization() {
        // [2 1; 4 5] = [1 0; 2 1] [2 1; 0 3], stored by columns.
        let (_, lu) = factorize_dense(2, &[2.0, 1.0, 4.0, 5.0], TinyPivots::Keep).unwrap();
        assert_eq!(lu.values, [2.0, 2.0, 1.0, 3.0]);
        assert_eq!(lu.pivots.growth, 3.0 / 5.0);
        assert_eq!((lu.pivots.min_pivot, lu.pivots.max_pivot), (2.0, 3.0));
    }

    #[test]
    fn tiny_pivots_are_replaced_with_their_sign_and_counted() {
        let perturb = TinyPivots::Perturb { threshold: 0.25 };
        let (_, lu) = factorize_dense(2, &[-1e-9, 0.0, 0.0, 4.0], perturb).unwrap();
        assert_eq!(lu.values, [-1.0, 0.0, 0.0, 4.0]);
        assert_eq!(
            (lu.pivots.num_perturbed, lu.pivots.first_perturbed),
            (1, Some(0))
        );
        let (_, lu) = factorize_dense(2, &[0.0f32, 4.0, 4.0, 0.0], perturb).unwrap();
        assert_eq!(lu.values[0], 1.0);
    }

    #[test]
    fn zero_pivots_name_their_column() {
        let keep = factorize_dense(2, &[1.0, 1.0, 1.0, 1.0], TinyPivots::Keep);
        assert!(matches!(keep, Err(NumericError::ZeroPivot { column: 1 })));
        let zero = factorize_dense(1, &[0.0], TinyPivots::perturb_default::<f64>());
        assert!(matches!(zero, Err(NumericError::ZeroPivot { column: 0 })));
    }

    #[test]
    fn overflow_and_nan_name_their_column() {
        let overflow = factorize_dense(2, &[1e-30f32, 1.0, 1e30, 1.0], TinyPivots::Keep);
        assert!(matches!(
            overflow,
            Err(NumericError::NotFinite { column: 0 })
        ));
        let nan = factorize_dense(2, &[1.0, f64::NAN, 1.0, 2.0], TinyPivots::Keep);
        assert!(matches!(nan, Err(NumericError::NotFinite { column: 1 })));
    }

    #[test]
    fn the_flag_stops_the_phase() {
        let pattern =
            LuPattern::from_columns(CompressedPattern::new(1, vec![0, 1], vec![0]).unwrap())
                .unwrap();
        let cancel = CancelFlag::new();
        cancel.cancel();
        let stopped = factorize(&pattern, &[0], &[1.0], TinyPivots::Keep, &cancel);
        assert!(matches!(stopped, Err(NumericError::Cancelled(_))));
    }
}
