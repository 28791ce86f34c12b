//! Left-looking LU with threshold partial pivoting (Gilbert and Peierls 1988).
//!
//! For each column of B: a depth-first search through the finished columns of L finds the pattern of
//! the column and an order in which to subtract them, so the time is proportional to the arithmetic;
//! the search is shortened by symmetric pruning (Eisenstat and Liu 1992). Among the rows that are
//! not pivots yet, the diagonal is taken if its magnitude is at least `threshold` times the largest,
//! else the largest. When a column takes the diagonal row of another, that one gets the displaced
//! row as its diagonal.
//!
//! # When a matrix is singular
//!
//! A candidate x(i) is the sum of b(i) and of products −l(i,k)·u(k). Rounding alone can make it as
//! large as a few ε·s(i), s(i) being the sum of the magnitudes of these terms. If every candidate of
//! a column is at most [`Options::singular`] · ε · s(i), nothing in the column is known to differ
//! from zero, and the matrix is refused with that column. The test is invariant under scaling of
//! rows and columns and never refuses a triangular matrix with a nonzero diagonal, however
//! ill-conditioned.
//!
//! Reports progress by events with target `luge::progress` and the fields `done` and `total`.
//!
//! Cost: O(flops) time; memory for L and U as found, and O(n).

use luge_sparse::{CancelFlag, CompressedPattern, RowPerm, Scalar};

use crate::error::NumericError;
use crate::pattern::LuPattern;
use crate::pivots::{LuValues, PivotMonitor};

/// How pivots are chosen and when the matrix counts as singular.
#[derive(Debug, Clone)]
pub struct Options {
    /// The diagonal is taken if it is at least this times the largest candidate, 0 to 1; 1 is
    /// partial pivoting.
    pub threshold: f64,
    /// A column is singular if all its candidates are below this many ε times the sum of the
    /// magnitudes of their terms.
    pub singular: f64,
    /// Stops the phase at the next column when raised.
    pub cancel: CancelFlag,
    /// Largest size of L and U in bytes; `None`: no limit.
    pub max_bytes: Option<u64>,
}

impl Default for Options {
    /// Threshold 0.1; singular below 8 ε; no limits.
    fn default() -> Self {
        Self {
            threshold: 0.1,
            singular: 8.0,
            cancel: CancelFlag::new(),
            max_bytes: None,
        }
    }
}

/// The factors of P·B for the row permutation that pivoting chose.
#[derive(Debug, Clone)]
pub struct PivotedLu<T> {
    /// Row `i` of P·B is row `row_perm[i]` of B.
    pub row_perm: RowPerm,
    /// The pattern of L+U of P·B. Entries that cancel stay in it.
    pub pattern: LuPattern,
    /// The values.
    pub values: LuValues<T>,
}

const NONE: u32 = u32::MAX;

/// One growing set of compressed columns.
struct Columns<T> {
    ptr: Vec<usize>,
    idx: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> Columns<T> {
    fn with_capacity(n: usize, nnz: usize) -> Self {
        let mut ptr = Vec::with_capacity(n + 1);
        ptr.push(0);
        Self {
            ptr,
            idx: Vec::with_capacity(nnz),
            values: Vec::with_capacity(nnz),
        }
    }

    fn push(&mut self, row: u32, value: T) {
        self.idx.push(row);
        self.values.push(value);
    }

    fn range(&self, j: usize) -> std::ops::Range<usize> {
        self.ptr[j]..self.ptr[j + 1]
    }
}

/// Factorizes the square matrix B, given by columns: `values[p]` stands in row `cols.idx()[p]`.
///
/// # Errors
///
/// [`NumericError::ZeroPivot`] with the first column without a usable pivot (see the module's
/// page); [`NumericError::NotFinite`]; [`NumericError::OutOfMemory`]; [`NumericError::Cancelled`].
///
/// # Panics
///
/// If B is not square, `values` has another length than B has entries, or the threshold is not in
/// 0 to 1.
#[track_caller]
pub fn factorize<T: Scalar>(
    cols: &CompressedPattern,
    values: &[T],
    options: &Options,
) -> Result<PivotedLu<T>, NumericError> {
    let n = cols.major_dim();
    assert_eq!(n, cols.minor_dim(), "only square matrices are factorized");
    assert_eq!(cols.nnz(), values.len(), "one value for each entry of B");
    assert!(
        (0.0..=1.0).contains(&options.threshold),
        "the pivot threshold is a fraction of the largest candidate"
    );
    let span = tracing::debug_span!("factorize_threshold", n, nnz = cols.nnz());
    let _entered = span.enter();

    let mut monitor = PivotMonitor::new(values);
    let mut lower: Columns<T> = Columns::with_capacity(n, 2 * cols.nnz());
    let mut upper: Columns<T> = Columns::with_capacity(n, 2 * cols.nnz());
    let mut reach = Reach::new(n);
    // pivot_of[row] is the column whose pivot the row is, or NONE; row_of is its inverse.
    let mut pivot_of = vec![NONE; n];
    let mut row_of = vec![NONE; n];
    // The row that each column regards as its diagonal, and the other way round.
    let mut diagonal_of: Vec<u32> = (0..n as u32).collect();
    let mut column_of: Vec<u32> = (0..n as u32).collect();
    let mut work = vec![T::zero(); n];
    let mut terms = vec![0.0f64; n];

    for j in 0..n {
        options.cancel.check()?;
        if j % 64 == 0 {
            tracing::debug!(target: "luge::progress", done = j as u64, total = n as u64);
        }
        reach.find(cols.lane(j), j, &lower, &pivot_of);
        for (&i, &value) in cols.lane(j).iter().zip(&values[cols.range(j)]) {
            work[i as usize] = value;
        }
        let mut largest_term = cols
            .range(j)
            .fold(0.0, |max, p| f64::max(max, values[p].to_f64().abs()));
        for &k in reach.order() {
            let k = k as usize;
            let u = work[row_of[k] as usize];
            monitor.upper(u);
            upper.push(k as u32, u);
            work[row_of[k] as usize] = T::zero();
            if u == T::zero() {
                continue;
            }
            largest_term = largest_term.max(u.to_f64().abs());
            let below = lower.range(k);
            for (&i, &l) in lower.idx[below.clone()].iter().zip(&lower.values[below]) {
                work[i as usize] -= l * u;
            }
        }

        let diagonal = diagonal_of[j];
        let (mut largest, mut at) = (T::zero(), NONE);
        let mut finite = upper.values[upper.ptr[j]..].iter().all(|v| v.is_finite());
        for &i in &reach.below {
            let x = work[i as usize];
            finite &= x.is_finite();
            if x.abs() > largest || at == NONE {
                (largest, at) = (x.abs(), i);
            }
        }
        if !finite {
            return Err(NumericError::NotFinite { column: j });
        }
        if at == NONE || largest == T::zero() {
            return Err(NumericError::ZeroPivot { column: j });
        }
        // No product exceeds |l|·|u| ≤ largest_term / threshold, so columns whose candidate is clear
        // of all the rounding that could be in it skip the exact sums.
        let noise = options.singular * T::epsilon().to_f64();
        let bound = largest_term * (1.0 + reach.order().len() as f64) / options.threshold;
        if largest.to_f64() <= noise * bound {
            sum_terms(&mut terms, cols, values, j, &upper, &lower);
            let is_noise = |&i: &u32| work[i as usize].to_f64().abs() <= noise * terms[i as usize];
            let singular = reach.below.iter().all(is_noise);
            clear_terms(&mut terms, cols, j, &upper, &lower);
            if singular {
                return Err(NumericError::ZeroPivot { column: j });
            }
        }
        if reach.has_below(diagonal) {
            let x = work[diagonal as usize].abs();
            if x > T::zero() && x >= T::from_f64(options.threshold) * largest {
                at = diagonal;
            }
        }
        if at != diagonal {
            monitor.off_diagonal();
            if pivot_of[diagonal as usize] == NONE {
                let robbed = column_of[at as usize];
                diagonal_of[robbed as usize] = diagonal;
                column_of[diagonal as usize] = robbed;
            }
        }

        let pivot = work[at as usize];
        monitor.pivot(pivot);
        pivot_of[at as usize] = j as u32;
        row_of[j] = at;
        upper.push(j as u32, pivot);
        upper.ptr.push(upper.idx.len());
        for &i in &reach.below {
            let x = std::mem::take(&mut work[i as usize]);
            if i != at {
                let l = x / pivot;
                if !l.is_finite() {
                    return Err(NumericError::NotFinite { column: j });
                }
                lower.push(i, l);
            }
        }
        lower.ptr.push(lower.idx.len());
        reach.prune(j, at, &mut lower, &upper, &pivot_of);

        let asked = (lower.idx.len() + upper.idx.len()) as u64 * (4 + size_of::<T>() as u64);
        if let Some(available) = options.max_bytes.filter(|&available| asked > available) {
            return Err(NumericError::OutOfMemory {
                column: j,
                asked,
                available,
            });
        }
    }

    let (pattern, values) = merge(n, &lower, &upper, &pivot_of);
    Ok(PivotedLu {
        row_perm: RowPerm::new(row_of)
            .unwrap_or_else(|e| unreachable!("each column took another row: {e}")),
        pattern,
        values: LuValues {
            values,
            pivots: monitor.finish(),
        },
    })
}

/// Adds up the magnitudes of the terms of column `j`: of B and of every product.
fn sum_terms<T: Scalar>(
    terms: &mut [f64],
    cols: &CompressedPattern,
    values: &[T],
    j: usize,
    upper: &Columns<T>,
    lower: &Columns<T>,
) {
    for p in cols.range(j) {
        terms[cols.idx()[p] as usize] += values[p].to_f64().abs();
    }
    for q in upper.ptr[j]..upper.idx.len() {
        let u = upper.values[q].to_f64().abs();
        for p in lower.range(upper.idx[q] as usize) {
            terms[lower.idx[p] as usize] += lower.values[p].to_f64().abs() * u;
        }
    }
}

/// Sets what [`sum_terms`] touched back to zero.
fn clear_terms<T: Scalar>(
    terms: &mut [f64],
    cols: &CompressedPattern,
    j: usize,
    upper: &Columns<T>,
    lower: &Columns<T>,
) {
    for &i in cols.lane(j) {
        terms[i as usize] = 0.0;
    }
    for q in upper.ptr[j]..upper.idx.len() {
        for p in lower.range(upper.idx[q] as usize) {
            terms[lower.idx[p] as usize] = 0.0;
        }
    }
}

/// The depth-first search through L.
struct Reach {
    /// mark[row] == j + 1: the row is in the pattern of column j.
    mark: Vec<u32>,
    /// Columns of L on the path of the search, each with the next position to look at.
    path: Vec<(u32, usize)>,
    /// Columns to subtract, in reverse order of need: filled from the front in postorder.
    postorder: Vec<u32>,
    /// Rows of the pattern that are not pivots yet.
    below: Vec<u32>,
    current: u32,
    /// The walk through column k of L looks at positions up to here only.
    walk_end: Vec<usize>,
    pruned: Vec<bool>,
}

impl Reach {
    fn new(n: usize) -> Self {
        Self {
            mark: vec![0; n],
            path: Vec::new(),
            postorder: Vec::new(),
            below: Vec::new(),
            current: 0,
            walk_end: Vec::with_capacity(n),
            pruned: vec![false; n],
        }
    }

    /// Finds the pattern of column `j`, whose entries in B are `rows`.
    fn find<T: Scalar>(&mut self, rows: &[u32], j: usize, lower: &Columns<T>, pivot_of: &[u32]) {
        self.current = j as u32 + 1;
        self.postorder.clear();
        self.below.clear();
        for &row in rows {
            if !self.enter(row, lower, pivot_of) {
                continue;
            }
            while let Some(&mut (k, ref mut at)) = self.path.last_mut() {
                if *at == self.walk_end[k as usize] {
                    self.postorder.push(k);
                    self.path.pop();
                } else {
                    let next = lower.idx[*at];
                    *at += 1;
                    self.enter(next, lower, pivot_of);
                }
            }
        }
        self.postorder.reverse();
    }

    /// Marks `row`; true if it is new and a pivot, so that its column is now on the path.
    fn enter<T: Scalar>(&mut self, row: u32, lower: &Columns<T>, pivot_of: &[u32]) -> bool {
        if self.mark[row as usize] == self.current {
            return false;
        }
        self.mark[row as usize] = self.current;
        let k = pivot_of[row as usize];
        if k == NONE {
            self.below.push(row);
            return false;
        }
        self.path.push((k, lower.ptr[k as usize]));
        true
    }

    /// Columns to subtract, each before those that it changes.
    fn order(&self) -> &[u32] {
        &self.postorder
    }

    /// Whether `row` is in the pattern; for a row that is not a pivot yet.
    fn has_below(&self, row: u32) -> bool {
        self.mark[row as usize] == self.current && self.below.contains(&row)
    }

    /// After column `j` took row `at`: a column k of U(·, j) whose L has row `at` need be walked only
    /// through its rows that are pivots by now, for column j leads on to the rest.
    fn prune<T: Scalar>(
        &mut self,
        j: usize,
        at: u32,
        lower: &mut Columns<T>,
        upper: &Columns<T>,
        pivot_of: &[u32],
    ) {
        for &k in &upper.idx[upper.ptr[j]..upper.ptr[j + 1] - 1] {
            let k = k as usize;
            let whole = lower.range(k);
            if self.pruned[k] || !lower.idx[whole.clone()].contains(&at) {
                continue;
            }
            let mut end = whole.start;
            for p in whole {
                if pivot_of[lower.idx[p] as usize] != NONE {
                    lower.idx.swap(p, end);
                    lower.values.swap(p, end);
                    end += 1;
                }
            }
            self.walk_end[k] = end;
            self.pruned[k] = true;
        }
        self.walk_end.push(lower.ptr[j + 1]);
    }
}

/// One sorted CSC of L+U in final row numbers.
fn merge<T: Scalar>(
    n: usize,
    lower: &Columns<T>,
    upper: &Columns<T>,
    pivot_of: &[u32],
) -> (LuPattern, Vec<T>) {
    let nnz = lower.idx.len() + upper.idx.len();
    let mut ptr = Vec::with_capacity(n + 1);
    ptr.push(0u64);
    let mut idx = Vec::with_capacity(nnz);
    let mut values = Vec::with_capacity(nnz);
    let mut column: Vec<(u32, T)> = Vec::new();
    for j in 0..n {
        column.clear();
        column.extend(upper.range(j).map(|p| (upper.idx[p], upper.values[p])));
        column.extend(
            lower
                .range(j)
                .map(|p| (pivot_of[lower.idx[p] as usize], lower.values[p])),
        );
        column.sort_unstable_by_key(|&(row, _)| row);
        idx.extend(column.iter().map(|&(row, _)| row));
        values.extend(column.iter().map(|&(_, value)| value));
        ptr.push(idx.len() as u64);
    }
    let cols = CompressedPattern::new(n, ptr, idx)
        .unwrap_or_else(|e| unreachable!("columns are sorted and in range: {e}"));
    let pattern = LuPattern::from_columns(cols)
        .unwrap_or_else(|j| unreachable!("column {j} has its pivot on the diagonal"));
    (pattern, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense<T: Scalar>(n: usize, by_columns: &[T]) -> (CompressedPattern, Vec<T>) {
        let ptr = (0..=n).map(|j| (j * n) as u64).collect();
        let idx = (0..n * n).map(|p| (p % n) as u32).collect();
        (
            CompressedPattern::new(n, ptr, idx).unwrap(),
            by_columns.to_vec(),
        )
    }

    #[test]
    fn the_threshold_decides_between_diagonal_and_largest() {
        let (cols, values) = dense(2, &[0.3, 1.0, 1.0, 0.0]);
        let lu = factorize(&cols, &values, &Options::default()).unwrap();
        assert_eq!(lu.row_perm, RowPerm::identity(2));
        assert_eq!(lu.values.pivots.num_off_diagonal, 0);
        let partial = Options {
            threshold: 1.0,
            ..Options::default()
        };
        let lu = factorize(&cols, &values, &partial).unwrap();
        assert_eq!(lu.row_perm.as_slice(), [1, 0]);
        assert_eq!(lu.values.values, [1.0, 0.3, 0.0, 1.0]);
    }

    #[test]
    fn the_displaced_row_becomes_a_diagonal() {
        // Rows 0 and 1 swap; both columns then count as one exchange each, the rest stays.
        let (cols, values) = dense(3, &[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        let lu = factorize(&cols, &values, &Options::default()).unwrap();
        assert_eq!(lu.row_perm.as_slice(), [1, 0, 2]);
        assert_eq!(lu.values.pivots.num_off_diagonal, 1);
    }

    #[test]
    fn a_dependent_column_is_named() {
        let (cols, values) = dense(3, &[0.1, 0.2, 0.3, 0.7, 0.1, 0.9, 0.8, 0.3, 1.2]);
        let singular = factorize(&cols, &values, &Options::default());
        assert!(matches!(
            singular,
            Err(NumericError::ZeroPivot { column: 2 })
        ));
        let (cols, values) = dense(1, &[0.0f32]);
        let zero = factorize(&cols, &values, &Options::default());
        assert!(matches!(zero, Err(NumericError::ZeroPivot { column: 0 })));
        let empty = CompressedPattern::new(2, vec![0, 1, 1], vec![0]).unwrap();
        let unreachable = factorize(&empty, &[1.0], &Options::default());
        assert!(matches!(
            unreachable,
            Err(NumericError::ZeroPivot { column: 1 })
        ));
    }

    #[test]
    fn an_ill_conditioned_triangle_is_not_singular() {
        let cols = CompressedPattern::new(2, vec![0, 1, 3], vec![0, 0, 1]).unwrap();
        let lu = factorize(&cols, &[1.0, 1.0, 1e-40], &Options::default()).unwrap();
        assert_eq!(lu.values.pivots.min_pivot, 1e-40);
    }

    #[test]
    fn nan_overflow_and_limits_are_reported() {
        let (cols, values) = dense(2, &[1.0, f64::NAN, 1.0, 1.0]);
        assert!(matches!(
            factorize(&cols, &values, &Options::default()),
            Err(NumericError::NotFinite { column: 0 })
        ));
        let (cols, values) = dense(2, &[1.0, 1.0, -3e38f32, 3e38]);
        assert!(matches!(
            factorize(&cols, &values, &Options::default()),
            Err(NumericError::NotFinite { column: 1 })
        ));
        let limited = Options {
            max_bytes: Some(24),
            ..Options::default()
        };
        let (cols, values) = dense(2, &[1.0, 0.5, 0.5, 1.0]);
        assert!(matches!(
            factorize(&cols, &values, &limited),
            Err(NumericError::OutOfMemory {
                column: 1,
                asked: 48,
                available: 24
            })
        ));
        let cancelled = Options::default();
        cancelled.cancel.cancel();
        assert!(matches!(
            factorize(&cols, &values, &cancelled),
            Err(NumericError::Cancelled(_))
        ));
    }

    #[test]
    fn nothing_is_factorized_at_once() {
        let cols = CompressedPattern::new(0, vec![0], vec![]).unwrap();
        let lu = factorize::<f64>(&cols, &[], &Options::default()).unwrap();
        assert_eq!((lu.pattern.n(), lu.values.pivots.growth), (0, 1.0));
    }
}
