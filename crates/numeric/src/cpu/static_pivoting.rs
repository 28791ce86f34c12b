//! Left-looking LU on a given filled pattern, pivots on the diagonal.
//!
//! Column j: scatter B(·, j) into a dense vector, subtract U(k, j)·L(·, k) for every k of U(·, j) in
//! increasing order, divide what is below the diagonal by the pivot. Eight columns that subtract
//! nearly the same ones go together, so that a column of L is read once for all of them. The summation
//! order of an entry is that of increasing k in any case, so the factors are the same from run to run.
//!
//! Reports progress by events with target `luge::progress` and the fields `done` and `total`.
//!
//! Cost: the flops of the filled pattern, O(n) memory beside the values (8 values a row).

use luge_sparse::{CancelFlag, PivotPolicy, RealScalar};

use crate::error::NumericError;
use crate::pattern::LuPattern;
use crate::pivots::{LuValues, PivotMonitor};

/// Factorizes B on `pattern`. `positions[p]` is the place of `b[p]` among the values of L+U, as
/// [`LuPattern::positions_of`] gives it; places that no entry of B names are zero.
///
/// # Errors
///
/// [`NumericError::ZeroPivot`] if a pivot is zero and not replaced (if small pivots are replaced,
/// only where B itself is zero); [`NumericError::NotFinite`] with the first column in which a value
/// overflows, or B holds a value that is not finite; [`NumericError::Cancelled`].
///
/// # Panics
///
/// If `positions` and `b` differ in length, a position is beyond the pattern, or the policy is refused by
/// [`PivotPolicy::check`] or not static.
#[track_caller]
pub fn factorize<T: RealScalar>(
    pattern: &LuPattern,
    positions: &[u64],
    b: &[T],
    pivots: PivotPolicy,
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
    let pivots = pivots.resolve_static::<T>(|| monitor.max_b());
    let rows = pattern.row_idx();
    let mut work = vec![[T::zero(); PANEL]; n];
    let mut panel = Panel::new(n);

    let mut first = 0;
    while first < n {
        cancel.check()?;
        tracing::debug!(target: "luge::progress", done = first as u64, total = n as u64);
        let width = panel.choose(pattern, first);
        let columns = first..first + width;
        for j in columns.clone() {
            for p in pattern.cols().range(j) {
                work[rows[p] as usize][j - first] = values[p];
            }
        }
        // Columns before the panel, for all of its columns at once. Where U(k, j) is not in the
        // pattern, `u` is zero and so is what is subtracted.
        for &k in &panel.earlier {
            let u = work[k as usize];
            if u == [T::zero(); PANEL] {
                continue;
            }
            let below = pattern.lower(k as usize);
            if width == 1 {
                for (&i, &l) in rows[below.clone()].iter().zip(&values[below]) {
                    work[i as usize][0] -= l * u[0];
                }
            } else {
                for (&i, &l) in rows[below.clone()].iter().zip(&values[below]) {
                    for (x, &u) in work[i as usize].iter_mut().zip(&u) {
                        *x -= l * u;
                    }
                }
            }
        }
        for j in columns {
            let c = j - first;
            // Columns of the panel itself.
            let upper = pattern.upper(j);
            let within = rows[upper.clone()].partition_point(|&k| (k as usize) < first);
            for p in upper.start + within..upper.end {
                let k = rows[p] as usize;
                let u = work[k][c];
                if u == T::zero() {
                    continue;
                }
                let below = pattern.lower(k);
                for (&i, &l) in rows[below.clone()].iter().zip(&values[below]) {
                    work[i as usize][c] -= l * u;
                }
            }
            let mut finite = true;
            for p in upper {
                let u = std::mem::take(&mut work[rows[p] as usize][c]);
                finite &= u.is_finite();
                monitor.upper(u);
                values[p] = u;
            }
            let mut pivot = std::mem::take(&mut work[j][c]);
            if let Some(replacement) = pivots.replacement(pivot) {
                pivot = replacement;
                monitor.perturbed(j);
            }
            if pivot == T::zero() {
                return Err(NumericError::ZeroPivot { column: j });
            }
            monitor.pivot(pivot);
            finite &= pivot.is_finite();
            values[pattern.diag_pos()[j] as usize] = pivot;
            for p in pattern.lower(j) {
                let l = std::mem::take(&mut work[rows[p] as usize][c]) / pivot;
                finite &= l.is_finite();
                values[p] = l;
            }
            if !finite {
                return Err(NumericError::NotFinite { column: j });
            }
        }
        first += width;
    }
    Ok(LuValues {
        values,
        pivots: monitor.finish(),
    })
}

/// Columns that are factorized together if they are alike.
const PANEL: usize = 8;

/// Chooses the panels, and finds the columns that a panel subtracts.
struct Panel {
    /// Columns before the panel with an entry of U in it, in increasing order.
    earlier: Vec<u32>,
    seen: Vec<bool>,
}

impl Panel {
    fn new(n: usize) -> Self {
        Self {
            earlier: Vec::new(),
            seen: vec![false; n],
        }
    }

    /// Sets [`earlier`](Self::earlier) and gives the width of the panel that begins at `first`:
    /// [`PANEL`] if its columns subtract nearly the same ones, else 1.
    fn choose(&mut self, pattern: &LuPattern, first: usize) -> usize {
        let rows = pattern.row_idx();
        let own = pattern.upper(first);
        if own.len() >= 4 * PANEL && first + PANEL <= pattern.n() {
            self.earlier.clear();
            let mut entries = 0;
            for j in first..first + PANEL {
                for &k in &rows[pattern.upper(j)] {
                    if (k as usize) < first {
                        entries += 1;
                        if !std::mem::replace(&mut self.seen[k as usize], true) {
                            self.earlier.push(k);
                        }
                    }
                }
            }
            for &k in &self.earlier {
                self.seen[k as usize] = false;
            }
            // Half of the products of a panel may be with zeros: one pass over a column of L for all
            // costs little more than one for a single column.
            if 2 * entries >= PANEL * self.earlier.len() {
                self.earlier.sort_unstable();
                return PANEL;
            }
        }
        self.earlier.clear();
        self.earlier.extend_from_slice(&rows[own]);
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_sparse::{CompressedPattern, FilledPattern};

    /// A dense matrix by rows, every entry stored.
    fn factorize_dense<T: RealScalar>(
        n: usize,
        b: &[T],
        pivots: PivotPolicy,
    ) -> Result<(LuPattern, LuValues<T>), NumericError> {
        let ptr = (0..=n).map(|i| (i * n) as u64).collect();
        let idx = (0..n * n).map(|p| (p % n) as u32).collect();
        let rows = CompressedPattern::new(n, ptr, idx).unwrap();
        let pattern = LuPattern::new(&FilledPattern::new(rows.clone()).unwrap());
        let positions = pattern.positions_of(&rows);
        let values = factorize(&pattern, &positions, b, pivots, &CancelFlag::new())?;
        Ok((pattern, values))
    }

    #[test]
    fn a_known_factorization() {
        // [2 1; 4 5] = [1 0; 2 1] [2 1; 0 3], stored by columns.
        let (_, lu) = factorize_dense(2, &[2.0, 1.0, 4.0, 5.0], PivotPolicy::STATIC).unwrap();
        assert_eq!(lu.values, [2.0, 2.0, 1.0, 3.0]);
        assert_eq!(lu.pivots.element_growth, 3.0 / 5.0);
        assert_eq!((lu.pivots.min_pivot, lu.pivots.max_pivot), (2.0, 3.0));
    }

    #[test]
    fn small_pivots_are_replaced_with_their_sign_and_counted() {
        let perturb = PivotPolicy::replacing(0.25);
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
        let keep = factorize_dense(2, &[1.0, 1.0, 1.0, 1.0], PivotPolicy::STATIC);
        assert!(matches!(keep, Err(NumericError::ZeroPivot { column: 1 })));
        let zero = factorize_dense(1, &[0.0], PivotPolicy::replacing_by_default(f64::EPSILON));
        assert!(matches!(zero, Err(NumericError::ZeroPivot { column: 0 })));
    }

    #[test]
    fn overflow_and_nan_name_their_column() {
        let overflow = factorize_dense(2, &[1e-30f32, 1.0, 1e30, 1.0], PivotPolicy::STATIC);
        assert!(matches!(
            overflow,
            Err(NumericError::NotFinite { column: 0 })
        ));
        let nan = factorize_dense(2, &[1.0, f64::NAN, 1.0, 2.0], PivotPolicy::STATIC);
        assert!(matches!(nan, Err(NumericError::NotFinite { column: 1 })));
    }

    #[test]
    fn the_flag_stops_the_phase() {
        let pattern =
            LuPattern::from_columns(CompressedPattern::new(1, vec![0, 1], vec![0]).unwrap())
                .unwrap();
        let cancel = CancelFlag::new();
        cancel.cancel();
        let stopped = factorize(&pattern, &[0], &[1.0], PivotPolicy::STATIC, &cancel);
        assert!(matches!(stopped, Err(NumericError::Cancelled(_))));
    }
}
