//! LU factorization: dense under any pivot policy, and sparse on a given filled pattern with static pivots.
//!
//! All variants subtract the products L(i, k)·U(k, j) from an entry one after the other with `k`
//! increasing, multiplication and subtraction rounded apart. So the sparse ones, and the dense one
//! without row exchanges, agree bit for bit.

use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{CompressedPattern, FilledPattern, PivotPolicy, RealScalar, RowPerm, Scalar};

use crate::dense::Dense;
use crate::primitives::transpose;

/// A pivot with which the factorization cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PivotError {
    /// Every admissible pivot is exactly zero.
    Zero {
        /// The column.
        column: usize,
    },
    /// The pivot is infinite or not a number.
    NotFinite {
        /// The column.
        column: usize,
    },
}

impl std::fmt::Display for PivotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Zero { column } => write!(f, "the pivot of column {column} is zero"),
            Self::NotFinite { column } => write!(f, "the pivot of column {column} is not finite"),
        }
    }
}

impl std::error::Error for PivotError {}

/// Dense factors: P·A = L·U with unit lower L and upper U stored in one matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseLu<T> {
    /// L below the diagonal, U on and above it.
    pub factors: Dense<T>,
    /// Row `i` of P·A is row `row_perm[i]` of A.
    pub row_perm: RowPerm,
    /// Columns whose pivot was replaced, in increasing order.
    pub perturbed: Vec<u32>,
}

impl<T: Scalar> DenseLu<T> {
    /// L with its unit diagonal.
    pub fn lower(&self) -> Dense<T> {
        let n = self.factors.nrows();
        Dense::from_fn(n, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Greater => self.factors[(i, j)],
            std::cmp::Ordering::Equal => T::one(),
            std::cmp::Ordering::Less => T::zero(),
        })
    }

    /// U.
    pub fn upper(&self) -> Dense<T> {
        let n = self.factors.nrows();
        Dense::from_fn(n, n, |i, j| {
            if i <= j {
                self.factors[(i, j)]
            } else {
                T::zero()
            }
        })
    }

    /// Element growth max|U| / max|A|; zero if A has no nonzero entry.
    pub fn element_growth(&self, a: &Dense<T>) -> f64 {
        element_growth(self.upper().max_abs(), a.max_abs())
    }

    /// ‖P·A − L·U‖∞ / ‖A‖∞, computed in `f64`; zero for a zero matrix factorized exactly.
    pub fn factor_error(&self, a: &Dense<T>) -> f64 {
        let n = a.nrows();
        let wide = |m: &Dense<T>| Dense::from_fn(n, n, |i, j| m[(i, j)].widen());
        let product = wide(&self.lower()).mul(&wide(&self.upper()));
        let difference = Dense::from_fn(n, n, |i, j| {
            a[(self.row_perm.as_slice()[i] as usize, j)].widen() - product[(i, j)]
        });
        match (difference.norm_inf(), a.norm_inf()) {
            (0.0, _) => 0.0,
            (error, norm) => error / norm,
        }
    }
}

fn element_growth<R: RealScalar>(max_u: R, max_a: R) -> f64 {
    if max_a == R::zero() {
        0.0
    } else {
        max_u.to_f64() / max_a.to_f64()
    }
}

/// What becomes of a pivot that is replaced below `bound`: the value to use, and whether it was replaced.
pub(crate) fn static_pivot<T: Scalar>(
    pivot: T,
    bound: T::Real,
    column: usize,
) -> Result<(T, bool), PivotError> {
    if !pivot.is_number() {
        return Err(PivotError::NotFinite { column });
    }
    if pivot.magnitude() < bound {
        return Ok((pivot.with_magnitude(bound), true));
    }
    if pivot == T::zero() {
        return Err(PivotError::Zero { column });
    }
    Ok((pivot, false))
}

/// Gaussian elimination on a dense matrix, which is one front.
///
/// Where pivots are searched, the pivot row of column `k` is row `k` of A if that is still a candidate and acceptable, else
/// that of the largest candidate in absolute value; of equal ones the one whose row stands first in A.
///
/// # Errors
///
/// [`PivotError`] at the first column whose pivot is zero or not finite.
///
/// # Panics
///
/// If `a` is not square, or [`PivotPolicy::check`] refuses the policy.
#[track_caller]
pub fn lu_dense<T: Scalar>(a: &Dense<T>, policy: PivotPolicy) -> Result<DenseLu<T>, PivotError> {
    let n = a.nrows();
    assert_eq!(n, a.ncols(), "the matrix must be square");
    let pivots = policy.resolve::<T::Real>(|| a.max_abs().to_f64());
    let mut w = a.clone();
    let mut rows: Vec<u32> = (0..n as u32).collect();
    let mut perturbed = Vec::new();
    for k in 0..n {
        let chosen = if pivots.search {
            let best = largest(&w, &rows, k);
            let bound = pivots.threshold * w[(best, k)].magnitude();
            (k..n)
                .find(|&i| rows[i] as usize == k)
                .filter(|&i| w[(i, k)] != T::zero() && w[(i, k)].magnitude() >= bound)
                .unwrap_or(best)
        } else {
            k
        };
        w.swap_rows(k, chosen);
        rows.swap(k, chosen);
        let (pivot, replaced) = static_pivot(w[(k, k)], pivots.small, k)?;
        w[(k, k)] = pivot;
        if replaced {
            perturbed.push(k as u32);
        }
        for i in k + 1..n {
            w[(i, k)] = w[(i, k)].quotient(pivot);
            for j in k + 1..n {
                w[(i, j)] = w[(i, j)] - w[(i, k)] * w[(k, j)];
            }
        }
    }
    Ok(DenseLu {
        factors: w,
        row_perm: RowPerm::new(rows).expect("exchanges keep a permutation"),
        perturbed,
    })
}

/// Position at or below `k` of the largest entry of column `k`. An entry that is not a number is
/// taken as the largest, so that it is found out.
fn largest<T: Scalar>(w: &Dense<T>, rows: &[u32], k: usize) -> usize {
    let mut best = k;
    for i in k..rows.len() {
        let (candidate, leader) = (w[(i, k)].magnitude(), w[(best, k)].magnitude());
        if leader.is_nan() {
            break;
        }
        let wins = candidate.is_nan()
            || candidate > leader
            || (candidate == leader && rows[i] < rows[best]);
        if wins {
            best = i;
        }
    }
    best
}

/// Sparse factors: B = L·U with the values of both in CSC order of the filled pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseLu<T> {
    /// Line `j` lists the rows of column `j` of L+U in increasing order, the diagonal among them.
    pub cols: CompressedPattern,
    /// One value per entry of `cols`: U down to the diagonal, L (whose unit diagonal is not stored)
    /// below it.
    pub values: Vec<T>,
    /// Position of each diagonal entry in `values`.
    pub diag_pos: Vec<u64>,
    /// Columns whose pivot was replaced, in increasing order.
    pub perturbed: Vec<u32>,
}

impl<T: Scalar> SparseLu<T> {
    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.cols.major_dim()
    }

    /// Positions of the entries of U(·, j) above the diagonal.
    pub fn above(&self, j: usize) -> std::ops::Range<usize> {
        self.cols.range(j).start..self.diag_pos[j] as usize
    }

    /// Positions of the entries of L(·, j) below the diagonal.
    pub fn below(&self, j: usize) -> std::ops::Range<usize> {
        self.diag_pos[j] as usize + 1..self.cols.range(j).end
    }

    /// The pivot U(j, j).
    pub fn pivot(&self, j: usize) -> T {
        self.values[self.diag_pos[j] as usize]
    }

    /// Element growth max|U| / `max_a`, with `max_a` the largest absolute value of the matrix; zero
    /// if that is zero.
    pub fn element_growth(&self, max_a: T::Real) -> f64 {
        let mut max_u = T::Real::zero();
        for j in 0..self.n() {
            for p in self.cols.range(j).start..=self.diag_pos[j] as usize {
                max_u = max_u.max(self.values[p].magnitude());
            }
        }
        element_growth(max_u, max_a)
    }

    /// The factors as a dense matrix: L below the diagonal, U on and above it.
    pub fn to_dense(&self) -> Dense<T> {
        let mut w = Dense::zeros(self.n(), self.n());
        for j in 0..self.n() {
            for p in self.cols.range(j) {
                w[(self.cols.idx()[p] as usize, j)] = self.values[p];
            }
        }
        w
    }

    /// Position of entry (i, j), if the pattern has it.
    fn position(&self, i: usize, j: usize) -> Option<usize> {
        let at = self.cols.line(j).binary_search(&(i as u32)).ok()?;
        Some(self.cols.range(j).start + at)
    }
}

/// Scatters the values of the matrix into the filled pattern, zero where it filled in; also answers
/// the largest absolute value.
#[track_caller]
fn scatter<T: Scalar>(
    filled: &FilledPattern,
    b: &CompressedPattern,
    values: &[T],
) -> (SparseLu<T>, T::Real) {
    assert_eq!(b.nnz(), values.len(), "one value per entry");
    assert_eq!(
        b.major_dim(),
        filled.n(),
        "matrix and filled pattern differ in order"
    );
    let cols = transpose(filled.rows());
    let diag_pos = (0..filled.n())
        .map(|j| {
            let above = cols.line(j).iter().filter(|&&i| (i as usize) < j).count();
            (cols.range(j).start + above) as u64
        })
        .collect();
    let mut lu = SparseLu {
        values: vec![T::zero(); cols.nnz()],
        cols,
        diag_pos,
        perturbed: Vec::new(),
    };
    let mut max_b = T::Real::zero();
    for i in 0..b.major_dim() {
        for p in b.range(i) {
            let j = b.idx()[p] as usize;
            let at = lu
                .position(i, j)
                .unwrap_or_else(|| panic!("entry ({i}, {j}) is not in the filled pattern"));
            lu.values[at] = values[p];
            max_b = max_b.max(values[p].magnitude());
        }
    }
    (lu, max_b)
}

/// The hybrid right-looking factorization (GLU 3.0, Algorithm 2), columns in order, with static
/// pivots.
///
/// `b` is the matrix in CSR with its `values`.
///
/// # Errors
///
/// [`PivotError`] at the first column whose pivot is zero or not finite.
///
/// # Panics
///
/// If the lengths do not match, an entry of `b` is missing in `filled`, `filled` lacks a fill-in, or the policy is refused
/// by [`PivotPolicy::check`] or not static.
#[track_caller]
pub fn lu_right_looking<T: Scalar>(
    filled: &FilledPattern,
    b: &CompressedPattern,
    values: &[T],
    policy: PivotPolicy,
) -> Result<SparseLu<T>, PivotError> {
    let (mut lu, max_b) = scatter(filled, b, values);
    let pivots = policy.resolve_static::<T::Real>(|| max_b.to_f64());
    for j in 0..lu.n() {
        let (pivot, replaced) = static_pivot(lu.pivot(j), pivots.small, j)?;
        lu.values[lu.diag_pos[j] as usize] = pivot;
        if replaced {
            lu.perturbed.push(j as u32);
        }
        for p in lu.below(j) {
            lu.values[p] = lu.values[p].quotient(pivot);
        }
        for &k in filled.upper(j) {
            let k = k as usize;
            let u_jk = lu.values[lu.position(j, k).expect("U(j, k) is in the pattern")];
            for p in lu.below(j) {
                let i = lu.cols.idx()[p] as usize;
                let at = lu
                    .position(i, k)
                    .unwrap_or_else(|| panic!("fill-in ({i}, {k}) is not in the filled pattern"));
                lu.values[at] = lu.values[at] - lu.values[p] * u_jk;
            }
        }
    }
    Ok(lu)
}

/// The left-looking factorization (Gilbert and Peierls; GLU 3.0, Algorithm 1) with static pivots.
/// Arguments, errors and panics as in [`lu_right_looking`].
///
/// # Errors
///
/// [`PivotError`] at the first column whose pivot is zero or not finite.
///
/// # Panics
///
/// If the lengths do not match, an entry of `b` is missing in `filled`, `filled` lacks a fill-in, or the policy is refused
/// by [`PivotPolicy::check`] or not static.
#[track_caller]
pub fn lu_left_looking<T: Scalar>(
    filled: &FilledPattern,
    b: &CompressedPattern,
    values: &[T],
    policy: PivotPolicy,
) -> Result<SparseLu<T>, PivotError> {
    let (mut lu, max_b) = scatter(filled, b, values);
    let pivots = policy.resolve_static::<T::Real>(|| max_b.to_f64());
    for j in 0..lu.n() {
        // Solve with the columns of L found so far; rows of U(·, j) come in increasing order.
        for q in lu.above(j) {
            let k = lu.cols.idx()[q] as usize;
            let u_kj = lu.values[q];
            for p in lu.below(k) {
                let i = lu.cols.idx()[p] as usize;
                let at = lu
                    .position(i, j)
                    .unwrap_or_else(|| panic!("fill-in ({i}, {j}) is not in the filled pattern"));
                lu.values[at] = lu.values[at] - lu.values[p] * u_kj;
            }
        }
        let (pivot, replaced) = static_pivot(lu.pivot(j), pivots.small, j)?;
        lu.values[lu.diag_pos[j] as usize] = pivot;
        if replaced {
            lu.perturbed.push(j as u32);
        }
        for p in lu.below(j) {
            lu.values[p] = lu.values[p].quotient(pivot);
        }
    }
    Ok(lu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::{matrices, pattern_of};
    use crate::symbolic::fill1;
    use proptest::prelude::*;

    const EXACT: PivotPolicy = PivotPolicy::STATIC;

    /// Wilkinson's matrix: 1 on the diagonal and in the last column, −1 below the diagonal.
    fn wilkinson(n: usize) -> Dense<f64> {
        Dense::from_fn(n, n, |i, j| {
            if i > j {
                -1.0
            } else if i == j || j + 1 == n {
                1.0
            } else {
                0.0
            }
        })
    }

    #[test]
    fn wilkinsons_matrix_grows_by_two_a_step() {
        for n in [2usize, 31, 32, 33] {
            let a = wilkinson(n);
            let lu = lu_dense(&a, PivotPolicy::PARTIAL).unwrap();
            assert_eq!(lu.row_perm, RowPerm::identity(n));
            assert_eq!(lu.element_growth(&a), 2f64.powi(n as i32 - 1));
            // All numbers are small integers: no rounding.
            assert_eq!(lu.factor_error(&a), 0.0);
        }
    }

    #[test]
    fn a_tiny_diagonal_ruins_the_static_rule_but_not_the_others() {
        let a = Dense::from_fn(2, 2, |i, j| [[1e-20, 1.0], [1.0, 1.0]][i][j]);
        assert!(lu_dense(&a, EXACT).unwrap().factor_error(&a) > 0.1);
        for policy in [PivotPolicy::PARTIAL, PivotPolicy::threshold(0.1)] {
            let lu = lu_dense(&a, policy).unwrap();
            assert_eq!(lu.row_perm.as_slice(), [1, 0]);
            assert!(lu.factor_error(&a) < 1e-15);
        }
        let lazy = lu_dense(&a, PivotPolicy::threshold(0.0)).unwrap();
        assert_eq!(lazy.row_perm.as_slice(), [0, 1]);
    }

    #[test]
    fn small_pivots_are_replaced_with_their_sign() {
        // max|A| = 4, so the bound is 4e-8; the pivots 0 and −1e-9 are below it.
        let a = Dense::from_fn(3, 3, |i, j| {
            [[0.0, 0.0, 0.0], [0.0, -1e-9, 0.0], [0.0, 0.0, 4.0]][i][j]
        });
        let lu = lu_dense(&a, PivotPolicy::replacing(1e-8)).unwrap();
        assert_eq!(lu.perturbed, [0, 1]);
        assert_eq!([lu.factors[(0, 0)], lu.factors[(1, 1)]], [4e-8, -4e-8]);
    }

    #[test]
    fn bad_pivots_are_named() {
        let at = |v: f64| Dense::from_fn(2, 2, |i, j| if i != j { 0.0 } else { [1.0, v][i] });
        for policy in [EXACT, PivotPolicy::PARTIAL, PivotPolicy::threshold(0.1)] {
            assert_eq!(
                lu_dense(&at(0.0), policy),
                Err(PivotError::Zero { column: 1 })
            );
            let broken = Err(PivotError::NotFinite { column: 1 });
            assert_eq!(lu_dense(&at(f64::NAN), policy), broken);
            assert_eq!(lu_dense(&at(f64::INFINITY), policy), broken);
        }
        let diagonal = pattern_of(2, [(0, 0), (1, 1)]);
        let filled = fill1(&diagonal);
        for factorize in [lu_right_looking::<f64>, lu_left_looking] {
            let zero = factorize(&filled, &diagonal, &[1.0, 0.0], EXACT);
            assert_eq!(zero, Err(PivotError::Zero { column: 1 }));
            let nan = factorize(
                &filled,
                &diagonal,
                &[1.0, f64::NAN],
                PivotPolicy::replacing(1e-8),
            );
            assert_eq!(nan, Err(PivotError::NotFinite { column: 1 }));
        }
    }

    #[test]
    fn nothing_factorizes_to_nothing() {
        assert!(lu_dense(&Dense::<f64>::zeros(0, 0), PivotPolicy::PARTIAL).is_ok());
        let none = pattern_of(0, []);
        let lu = lu_right_looking::<f32>(&fill1(&none), &none, &[], EXACT).unwrap();
        assert_eq!((lu.n(), lu.element_growth(0.0)), (0, 0.0));
    }

    #[test]
    #[should_panic(expected = "fill-in (2, 1) is not in the filled pattern")]
    fn a_pattern_without_its_fill_in_is_refused() {
        // Column 0 of row 2 and column 1 of row 0 fill (2, 1).
        let a = pattern_of(3, [(0, 0), (0, 1), (1, 1), (2, 0), (2, 2)]);
        let unfilled = FilledPattern::new(a.clone()).unwrap();
        let _ = lu_right_looking(&unfilled, &a, &[1.0; 5], EXACT);
    }

    proptest! {
        #[test]
        fn sparse_and_dense_agree_bit_for_bit((a, values) in matrices(30), policy in prop_oneof![
            Just(EXACT), Just(PivotPolicy::replacing(1e-8)), Just(PivotPolicy::replacing(0.3))
        ]) {
            let filled = fill1(&a);
            let dense = lu_dense(&Dense::from_csr(&a, &values), policy);
            let right = lu_right_looking(&filled, &a, &values, policy);
            let left = lu_left_looking(&filled, &a, &values, policy);
            prop_assert_eq!(&right, &left);
            match (dense, right) {
                (Ok(dense), Ok(sparse)) => {
                    prop_assert_eq!(&sparse.to_dense(), &dense.factors);
                    prop_assert_eq!(&sparse.perturbed, &dense.perturbed);
                    let max_a = values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
                    let growth = dense.element_growth(&Dense::from_csr(&a, &values));
                    prop_assert_eq!(sparse.element_growth(max_a), growth);
                }
                (dense, sparse) => prop_assert_eq!(dense.err(), sparse.err()),
            }
        }

        #[test]
        fn sparse_and_dense_agree_in_single_precision((a, values) in matrices(20)) {
            let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
            let filled = fill1(&a);
            let policy = PivotPolicy::replacing(1e-4);
            let dense = lu_dense(&Dense::from_csr(&a, &values), policy).map(|lu| lu.factors);
            let sparse = lu_right_looking(&filled, &a, &values, policy).map(|lu| lu.to_dense());
            prop_assert_eq!(sparse, dense);
        }

        #[test]
        fn pivoted_factors_multiply_back(
            (a, values) in matrices(30),
            threshold in prop_oneof![Just(0.001), Just(0.1), Just(1.0)],
        ) {
            let a = Dense::from_csr(&a, &values);
            let n = a.nrows() as f64;
            let lu = lu_dense(&a, PivotPolicy::threshold(threshold));
            prop_assume!(lu.is_ok());
            let lu = lu.unwrap();
            // Higham, Theorem 9.3: |PA − LU| ≤ γ|L||U|.
            let l_times_u = {
                let abs = |m: Dense<f64>| Dense::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)].abs());
                abs(lu.lower()).mul(&abs(lu.upper())).norm_inf()
            };
            let error = lu.factor_error(&a) * a.norm_inf();
            prop_assert!(error <= 2.0 * n * f64::EPSILON * l_times_u, "{error} against {l_times_u}");
            prop_assert!(lu.lower().max_abs() <= (1.0 + 1e-15) / threshold);
        }

        /// A matrix that is one front: rows are exchanged first, and what is left to be small is replaced.
        #[test]
        fn within_a_front_rows_move_before_pivots_are_replaced((a, values) in matrices(20)) {
            let a = Dense::from_csr(&a, &values);
            let below = 1e-12;
            let policy = PivotPolicy::replacing(below).in_fronts(0.5);
            let searched = lu_dense(&a, PivotPolicy::threshold(0.5));
            let is_usable = |lu: &DenseLu<f64>| {
                (0..a.nrows()).all(|k| lu.factors[(k, k)].abs() >= below * a.max_abs())
            };
            if searched.as_ref().is_ok_and(is_usable) {
                prop_assert_eq!(lu_dense(&a, policy), searched);
            } else if let Ok(lu) = lu_dense(&a, policy) {
                prop_assert!(!lu.perturbed.is_empty());
            }
        }
    }
}
