//! Gilbert and Peierls with symmetric pruning (Eisenstat and Liu 1992).
//!
//! For each column of B: a depth-first search through the finished columns of L finds the pattern of
//! the column and an order in which to subtract them, so the time is proportional to the arithmetic.
//! Among the rows that are not pivots yet, the diagonal is taken if its magnitude is at least
//! `threshold` times the largest, else the largest. When a column takes the diagonal row of another,
//! that one gets the displaced row as its diagonal.

use luge_sparse::{CompressedPattern, Quality, RowPerm, Scalar};

use super::check::{ColumnCheck, Report, Sums, weight};
use super::{ColumnLu, Columns, Options};
use crate::error::NumericError;
use crate::pivots::TinyPivots;

const NONE: u32 = u32::MAX;

/// Columns between two looks at the cancel flag and two progress events.
const STRIDE: usize = 256;

impl<F: Scalar> ColumnLu<F> {
    /// Factorizes the square matrix B, given by columns: `values[p]` stands in row `cols.idx()[p]`.
    ///
    /// # Errors
    ///
    /// [`NumericError::ZeroPivot`] with the first column without a usable pivot (see the module's
    /// page; with static pivots, one whose pivot is zero and not replaced);
    /// [`NumericError::NotFinite`]; [`NumericError::OutOfMemory`]; [`NumericError::Cancelled`].
    ///
    /// # Panics
    ///
    /// If B is not square, `values` has another length than B has entries, or the threshold is not
    /// in 0 to 1.
    #[track_caller]
    pub fn factorize(
        cols: &CompressedPattern,
        values: &[F],
        options: &Options,
    ) -> Result<(Self, Quality), NumericError> {
        let n = cols.major_dim();
        assert_eq!(n, cols.minor_dim(), "only square matrices are factorized");
        assert_eq!(cols.nnz(), values.len(), "one value for each entry of B");
        assert!(
            (0.0..=1.0).contains(&options.threshold),
            "the pivot threshold is a fraction of the largest candidate"
        );
        let span = tracing::debug_span!("factorize_columns", n, nnz = cols.nnz());
        let _entered = span.enter();

        let smallest = smallest_pivot(values, options.static_pivots);
        let mut report = Report::new();
        let mut lower: Columns<F> = Columns::with_capacity(n, 2 * cols.nnz());
        let mut upper: Columns<F> = Columns::with_capacity(n, 2 * cols.nnz());
        let mut pivots: Vec<F> = Vec::with_capacity(n);
        let mut sums: Vec<Sums> = Vec::with_capacity(n);
        let mut reach = Reach::new(n);
        // pivot_of[row] is the column whose pivot the row is, or NONE; row_of is its inverse.
        let mut pivot_of = vec![NONE; n];
        let mut row_of = vec![NONE; n];
        // The row that each column regards as its diagonal, and the other way round.
        let mut diagonal_of: Vec<u32> = (0..n as u32).collect();
        let mut column_of: Vec<u32> = (0..n as u32).collect();
        let mut work = vec![F::zero(); n];
        let mut terms: Vec<f64> = Vec::new();
        let mut flops = 0u64;

        for j in 0..n {
            if j % STRIDE == 0 {
                options.cancel.check()?;
                tracing::debug!(target: "luge::progress", done = j as u64, total = n as u64);
            }
            reach.find(cols.lane(j), j, &lower, &pivot_of);
            let mut check = ColumnCheck::default();
            for (&i, &value) in cols.lane(j).iter().zip(&values[cols.range(j)]) {
                work[i as usize] = value;
                check.entry(i, value.to_f64());
            }
            for &k in reach.order() {
                let k = k as usize;
                let u = std::mem::take(&mut work[row_of[k] as usize]);
                upper.push(k as u32, u);
                check.upper(sums[k], u.to_f64());
                let (rows, below) = lower.column(k);
                flops += 2 * rows.len() as u64;
                for (&i, &l) in rows.iter().zip(below) {
                    work[i as usize] -= l * u;
                }
            }

            let diagonal = diagonal_of[j];
            let mut at = NONE;
            if options.static_pivots.is_some() {
                at = diagonal;
                if reach.mark[diagonal as usize] != reach.current {
                    reach.mark[diagonal as usize] = reach.current;
                    reach.below.push(diagonal);
                }
                let x = &mut work[diagonal as usize];
                if x.abs() < smallest {
                    *x = if *x < F::zero() { -smallest } else { smallest };
                    report.perturbed(j);
                }
                if *x == F::zero() {
                    return Err(NumericError::ZeroPivot { column: j });
                }
            } else {
                let mut largest = F::zero();
                for &i in &reach.below {
                    let x = work[i as usize].abs();
                    if x > largest || at == NONE {
                        (largest, at) = (x, i);
                    }
                }
                // What is not finite ends up in the sums of U or among the candidates.
                if !check.growth.is_finite() || !check.norm.is_finite() {
                    let finite = |v: &F| v.is_finite();
                    if !values[cols.range(j)].iter().all(finite)
                        || !upper.values[upper.ptr[j]..].iter().all(finite)
                    {
                        return Err(NumericError::NotFinite { column: j });
                    }
                }
                if !reach.below.iter().all(|&i| work[i as usize].is_finite()) {
                    return Err(NumericError::NotFinite { column: j });
                }
                if at == NONE || largest == F::zero() {
                    return Err(NumericError::ZeroPivot { column: j });
                }
                // No candidate's terms exceed those of the whole column, so columns whose candidate
                // is clear of all the rounding that could be in it skip the exact sums.
                let noise = options.singular * F::epsilon().to_f64();
                if largest.to_f64() <= noise * (check.norm + check.growth) {
                    terms.resize(n, 0.0);
                    sum_terms(&mut terms, cols, values, j, &upper, &lower);
                    let is_noise =
                        |&i: &u32| work[i as usize].to_f64().abs() <= noise * terms[i as usize];
                    let singular = reach.below.iter().all(is_noise);
                    clear_terms(&mut terms, cols, j, &upper, &lower);
                    if singular {
                        return Err(NumericError::ZeroPivot { column: j });
                    }
                }
                if at != diagonal && reach.mark[diagonal as usize] == reach.current {
                    let x = work[diagonal as usize].abs();
                    // A pivot of an earlier column is not a candidate: its place was taken to U.
                    if pivot_of[diagonal as usize] == NONE
                        && x > F::zero()
                        && x >= F::from_f64(options.threshold) * largest
                    {
                        at = diagonal;
                    }
                }
            }
            if at != diagonal {
                report.0.num_off_diagonal += 1;
                if pivot_of[diagonal as usize] == NONE {
                    let robbed = column_of[at as usize];
                    diagonal_of[robbed as usize] = diagonal;
                    column_of[diagonal as usize] = robbed;
                }
            }

            let pivot = std::mem::take(&mut work[at as usize]);
            pivot_of[at as usize] = j as u32;
            row_of[j] = at;
            pivots.push(pivot);
            upper.ptr.push(upper.idx.len());
            let mut sum = Sums {
                magnitude: 1.0,
                weighted: weight(at),
            };
            for &i in &reach.below {
                if i != at {
                    let l = std::mem::take(&mut work[i as usize]) / pivot;
                    sum.magnitude += l.to_f64().abs();
                    sum.weighted += weight(i) * l.to_f64();
                    lower.push(i, l);
                }
            }
            flops += reach.below.len() as u64 - 1;
            lower.ptr.push(lower.idx.len());
            check.upper(sum, pivot.to_f64());
            report.column(j, &check, pivot.to_f64());
            sums.push(sum);
            if !(sum.magnitude.is_finite() && check.growth.is_finite()) {
                let finite = |v: &F| v.is_finite();
                if !pivot.is_finite()
                    || !lower.values[lower.ptr[j]..].iter().all(finite)
                    || !upper.values[upper.ptr[j]..].iter().all(finite)
                {
                    return Err(NumericError::NotFinite { column: j });
                }
            }
            reach.prune(j, at, &mut lower, &upper, &pivot_of);

            if let Some(available) = options.max_bytes {
                let (lnz, unz) = (lower.idx.len() as u64, upper.idx.len() as u64);
                let asked = Self::estimate_bytes(n, lnz, unz);
                if asked > available {
                    return Err(NumericError::OutOfMemory {
                        column: j,
                        asked,
                        available,
                    });
                }
            }
        }

        for i in &mut lower.idx {
            *i = pivot_of[*i as usize];
        }
        lower.idx.shrink_to_fit();
        lower.values.shrink_to_fit();
        upper.idx.shrink_to_fit();
        upper.values.shrink_to_fit();
        let quality = report.finish(n);
        let lu = Self {
            row_perm: RowPerm::new(row_of)
                .unwrap_or_else(|e| unreachable!("each column took another row: {e}")),
            lower,
            upper,
            pivots,
            flops,
            num_off_diagonal: quality.num_off_diagonal,
            plan: None,
        };
        Ok((lu, quality))
    }
}

/// Below which a static pivot is replaced.
pub(super) fn smallest_pivot<F: Scalar>(values: &[F], pivots: Option<TinyPivots>) -> F {
    match pivots {
        Some(TinyPivots::Perturb { threshold }) => {
            let max = values.iter().fold(F::zero(), |max, v| max.max(v.abs()));
            F::from_f64(threshold * max.to_f64())
        }
        Some(TinyPivots::Keep) | None => F::zero(),
    }
}

/// Adds up the magnitudes of the terms of column `j`: of B and of every product.
fn sum_terms<F: Scalar>(
    terms: &mut [f64],
    cols: &CompressedPattern,
    values: &[F],
    j: usize,
    upper: &Columns<F>,
    lower: &Columns<F>,
) {
    for p in cols.range(j) {
        terms[cols.idx()[p] as usize] += values[p].to_f64().abs();
    }
    for q in upper.ptr[j]..upper.idx.len() {
        let u = upper.values[q].to_f64().abs();
        let (rows, below) = lower.column(upper.idx[q] as usize);
        for (&i, &l) in rows.iter().zip(below) {
            terms[i as usize] += l.to_f64().abs() * u;
        }
    }
}

/// Sets what [`sum_terms`] touched back to zero.
fn clear_terms<F: Scalar>(
    terms: &mut [f64],
    cols: &CompressedPattern,
    j: usize,
    upper: &Columns<F>,
    lower: &Columns<F>,
) {
    for &i in cols.lane(j) {
        terms[i as usize] = 0.0;
    }
    for q in upper.ptr[j]..upper.idx.len() {
        for &i in lower.column(upper.idx[q] as usize).0 {
            terms[i as usize] = 0.0;
        }
    }
}

/// The depth-first search through L.
struct Reach {
    /// mark[row] == j + 1: the row is in the pattern of column j.
    mark: Vec<u32>,
    /// Columns of L on the path of the search, each with the next position to look at.
    path: Vec<(u32, usize)>,
    /// Columns to subtract, filled in postorder, then sorted.
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
    fn find<F: Scalar>(&mut self, rows: &[u32], j: usize, lower: &Columns<F>, pivot_of: &[u32]) {
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
        self.postorder.sort_unstable();
    }

    /// Marks `row`; true if it is new and a pivot, so that its column is now on the path.
    fn enter<F: Scalar>(&mut self, row: u32, lower: &Columns<F>, pivot_of: &[u32]) -> bool {
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

    /// After column `j` took row `at`: a column k of U(·, j) whose L has row `at` need be walked only
    /// through its rows that are pivots by now, for column j leads on to the rest.
    fn prune<F: Scalar>(
        &mut self,
        j: usize,
        at: u32,
        lower: &mut Columns<F>,
        upper: &Columns<F>,
        pivot_of: &[u32],
    ) {
        for &k in &upper.idx[upper.ptr[j]..upper.ptr[j + 1]] {
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
