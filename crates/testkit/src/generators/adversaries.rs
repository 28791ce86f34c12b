//! Matrices made to break a solver: growth, missing and tiny pivots, bad scaling, singularity.

use rand::Rng;
use rand::seq::SliceRandom;
use sprs::CsMat;

use super::{rng, signed_unit, triplets};

/// Wilkinson's matrix: 1 on the diagonal and in the last column, −1 below the diagonal. With partial
/// pivoting, and with none, the last column doubles at each step: element growth 2^(n−1).
pub fn wilkinson_growth(n: usize) -> CsMat<f64> {
    let mut a = triplets(n);
    for i in 0..n {
        for j in 0..i {
            a.add_triplet(i, j, -1.0);
        }
        a.add_triplet(i, i, 1.0);
        if i + 1 < n {
            a.add_triplet(i, n - 1, 1.0);
        }
    }
    a.to_csr()
}

/// Wilkinson's matrices of order 40 down the diagonal (the last one smaller), each coupled to the next by small random
/// entries: element growth 2³⁹ in each, at any order. With rows in another order, and in exact arithmetic, nothing is wrong.
pub fn growth_blocks(n: usize, seed: u64) -> CsMat<f64> {
    const ORDER: usize = 40;
    let mut rng = rng(seed);
    let mut a = triplets(n);
    for first in (0..n).step_by(ORDER) {
        let order = ORDER.min(n - first);
        for (&value, (i, j)) in &wilkinson_growth(order) {
            a.add_triplet(first + i, first + j, value);
        }
        for _ in 0..order.min(4) {
            let (i, j) = (rng.random_range(0..order), rng.random_range(0..ORDER));
            if first + ORDER + j < n {
                let value = 1e-2 * signed_unit(&mut rng);
                a.add_triplet(first + i, first + ORDER + j, value);
                a.add_triplet(first + ORDER + j, first + i, value);
            }
        }
    }
    a.to_csr()
}

/// A matrix whose elimination on the diagonal grows by 1/`small` and loses as many digits: its rows in
/// other places would do.
pub fn needs_other_rows(n: usize, small: f64) -> CsMat<f64> {
    let mut a = triplets(n);
    for i in 0..n {
        a.add_triplet(i, i, if i % 2 == 0 { small } else { 1.0 });
        a.add_triplet(i, (i + n / 2) % n, 1.0 + (i % 3) as f64);
        a.add_triplet((i + 1) % n, i, 0.5);
    }
    a.to_csr()
}

/// A well-conditioned matrix whose diagonal is `tiny`: off the diagonal a dominant cycle and a few
/// small entries. Pivots taken from the diagonal lose all digits.
///
/// # Panics
///
/// If `n` is 1, where nothing but the tiny pivot would be left.
#[track_caller]
pub fn tiny_diagonal(n: usize, tiny: f64, seed: u64) -> CsMat<f64> {
    assert_ne!(n, 1, "a matrix of order 1 is its diagonal");
    let mut rng = rng(seed);
    let mut a = triplets(n);
    for i in 0..n {
        a.add_triplet(i, i, tiny);
        a.add_triplet(i, (i + 1) % n, signed_unit(&mut rng));
        let j = rng.random_range(0..n);
        if j != i {
            a.add_triplet(i, j, rng.random_range(-0.3..0.3));
        }
    }
    a.to_csr()
}

/// A matrix whose entries fall by `decades` powers of ten from the first row and column to the last:
/// entry (i, j) has size 10^(−decades·(i+j)/(2n)). Diagonally dominant up to that scaling.
pub fn graded(n: usize, decades: f64, seed: u64) -> CsMat<f64> {
    let size = |i: usize| 10f64.powf(-decades * i as f64 / (2.0 * n as f64));
    scaled_dominant(n, seed, |i, j| size(i) * size(j))
}

/// A well-conditioned matrix whose rows and columns are multiplied by random powers of ten up to
/// 10^(±decades). Needs equilibration.
pub fn badly_scaled(n: usize, decades: f64, seed: u64) -> CsMat<f64> {
    let mut rng = rng(seed.wrapping_add(1));
    let mut factors = || -> Vec<f64> {
        (0..n)
            .map(|_| 10f64.powf(rng.random_range(-decades..decades)))
            .collect()
    };
    let (rows, cols) = (factors(), factors());
    scaled_dominant(n, seed, |i, j| rows[i] * cols[j])
}

/// A random matrix of three off-diagonal entries a row, dominated by its diagonal, with entry (i, j)
/// multiplied by `scale(i, j)`.
fn scaled_dominant(n: usize, seed: u64, scale: impl Fn(usize, usize) -> f64) -> CsMat<f64> {
    let mut rng = rng(seed);
    let mut a = triplets(n);
    for i in 0..n {
        a.add_triplet(i, i, 4.0 * scale(i, i));
        for _ in 0..3 {
            let j = rng.random_range(0..n);
            if j != i {
                a.add_triplet(i, j, rng.random_range(-1.0..1.0) * scale(i, j));
            }
        }
    }
    a.to_csr()
}

/// A diagonal matrix with its rows shuffled: every pivot must be found off the diagonal, and there is
/// exactly one choice for each.
pub fn permuted_diagonal(n: usize, seed: u64) -> CsMat<f64> {
    let mut rng = rng(seed);
    let mut cols: Vec<usize> = (0..n).collect();
    cols.shuffle(&mut rng);
    let mut a = triplets(n);
    for (i, &j) in cols.iter().enumerate() {
        a.add_triplet(
            i,
            j,
            signed_unit(&mut rng) * 10f64.powi(rng.random_range(-3..=3)),
        );
    }
    a.to_csr()
}

/// A matrix of full structural rank whose last row is the sum of the first two plus `epsilon` in its
/// last entry: condition about 1/`epsilon`, and exactly singular of rank n−1 for `epsilon` 0.
///
/// All other entries are small integers, so that elimination of the dependent rows is exact.
///
/// # Panics
///
/// If `n` is less than 4.
#[track_caller]
pub fn near_singular(n: usize, epsilon: f64, seed: u64) -> CsMat<f64> {
    assert!(n >= 4, "three dependent rows and one more");
    let mut rng = rng(seed);
    let last = n - 1;
    let mut a = triplets(n);
    for i in 0..last {
        a.add_triplet(i, i, 8.0);
        a.add_triplet(i, last, 1.0);
        let j = rng.random_range(0..last);
        if j != i {
            a.add_triplet(i, j, f64::from(rng.random_range(1..=3)));
        }
    }
    let upper = a.to_csr::<usize>();
    for i in [0, 1] {
        for (j, &v) in upper.outer_view(i).expect("row").iter() {
            a.add_triplet(last, j, v);
        }
    }
    a.add_triplet(last, last, epsilon);
    a.to_csr()
}

/// A matrix of structural rank `n − deficiency`, with nonzero values.
///
/// 2·`deficiency` + 1 rows (or all) share their entries among `deficiency` fewer columns (Hall's
/// condition fails by that much); the others have their own diagonal. Rows and columns are shuffled.
///
/// # Panics
///
/// If `deficiency` is not less than `n`.
#[track_caller]
pub fn structurally_singular(n: usize, deficiency: usize, seed: u64) -> CsMat<f64> {
    assert!(deficiency < n, "a matrix with entries has a rank");
    let mut rng = rng(seed);
    let mut shuffled = || {
        let mut order: Vec<usize> = (0..n).collect();
        order.shuffle(&mut rng);
        order
    };
    let (rows, cols) = (shuffled(), shuffled());
    let crowd = (2 * deficiency + 1).min(n);
    let seats = crowd - deficiency;
    let mut a = triplets(n);
    for (i, &row) in rows.iter().enumerate() {
        let (own, reach) = if i < crowd {
            (i % seats, seats)
        } else {
            (i, n)
        };
        a.add_triplet(row, cols[own], signed_unit(&mut rng));
        for _ in 0..2 {
            let j = rng.random_range(0..reach);
            if j != own {
                a.add_triplet(row, cols[j], signed_unit(&mut rng));
            }
        }
    }
    a.to_csr()
}

/// Where an arrow matrix has its full row and column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrowHead {
    /// First: eliminating it fills the whole matrix.
    First,
    /// Last: no fill at all.
    Last,
}

/// A diagonal matrix with one full row and column, all off-diagonal entries 1 and the diagonal large
/// enough to dominate: the extremes of fill.
pub fn arrow(n: usize, head: ArrowHead) -> CsMat<f64> {
    let at = match head {
        ArrowHead::First => 0,
        ArrowHead::Last => n.saturating_sub(1),
    };
    let mut a = triplets(n);
    for i in 0..n {
        a.add_triplet(i, i, if i == at { n as f64 } else { 2.0 });
        if i != at {
            a.add_triplet(i, at, 1.0);
            a.add_triplet(at, i, 1.0);
        }
    }
    a.to_csr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::pattern_of;
    use luge_reference::Dense;
    use luge_reference::matching::structural_rank;
    use luge_reference::numeric::{PivotError, lu_dense};
    use luge_reference::symbolic::fill1;
    use luge_sparse::PivotPolicy;

    fn dense(a: &CsMat<f64>) -> Dense<f64> {
        Dense::from_csr(&pattern_of(a), a.data())
    }

    #[test]
    fn wilkinsons_matrix_grows_as_told() {
        let a = dense(&wilkinson_growth(33));
        let lu = lu_dense(&a, PivotPolicy::PARTIAL).unwrap();
        assert_eq!(lu.element_growth(&a), 2f64.powi(32));
        assert_eq!(wilkinson_growth(1).nnz(), 1);
    }

    #[test]
    fn a_tiny_diagonal_is_useless_for_pivots() {
        let a = dense(&tiny_diagonal(40, 1e-20, 2));
        let without = lu_dense(&a, PivotPolicy::STATIC).unwrap();
        assert!(without.factor_error(&a) > 1e-3 || without.element_growth(&a) > 1e10);
        assert!(lu_dense(&a, PivotPolicy::PARTIAL).unwrap().factor_error(&a) < 1e-14);
    }

    #[test]
    fn graded_and_badly_scaled_matrices_span_their_decades() {
        let span = |a: &CsMat<f64>| {
            let sizes = a.data().iter().map(|v| v.abs().log10());
            let (low, high) = sizes.fold((f64::MAX, f64::MIN), |(l, h), s| (l.min(s), h.max(s)));
            high - low
        };
        assert!(span(&graded(50, 60.0, 1)) > 55.0);
        assert!(span(&badly_scaled(50, 100.0, 1)) > 200.0);
        assert!(
            badly_scaled(50, 100.0, 1)
                .data()
                .iter()
                .all(|v| v.is_normal())
        );
    }

    #[test]
    fn a_permuted_diagonal_has_one_entry_a_row() {
        for n in [0usize, 1, 31, 32, 33, 1025] {
            let a = permuted_diagonal(n, 3);
            assert_eq!(a.nnz(), n);
            assert_eq!(structural_rank(&pattern_of(&a)), n);
        }
    }

    #[test]
    fn epsilon_decides_whether_a_matrix_is_singular() {
        for n in [4usize, 31, 32, 33] {
            let singular = near_singular(n, 0.0, 5);
            assert_eq!(structural_rank(&pattern_of(&singular)), n);
            let found = lu_dense(&dense(&singular), PivotPolicy::STATIC);
            // The first two rows are pivots of their own columns; what is left of the last row is
            // exactly nothing, unless quotients by 8 rounded.
            match found {
                Err(error) => assert_eq!(error, PivotError::Zero { column: n - 1 }),
                Ok(lu) => assert!(lu.factors[(n - 1, n - 1)].abs() < 1e-14),
            }
            let a = dense(&near_singular(n, 1e-6, 5));
            let last = lu_dense(&a, PivotPolicy::STATIC).unwrap();
            assert!((last.factors[(n - 1, n - 1)] / 1e-6 - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn the_structural_rank_is_what_was_asked_for() {
        for n in [2usize, 10, 31, 32, 33] {
            for deficiency in [0, 1, n / 3, n - 1] {
                let a = structurally_singular(n, deficiency, 11);
                assert_eq!(
                    structural_rank(&pattern_of(&a)),
                    n - deficiency,
                    "n = {n}, {deficiency}"
                );
            }
        }
    }

    #[test]
    fn arrows_are_the_extremes_of_fill() {
        for n in [0usize, 1, 2, 33] {
            let first = pattern_of(&arrow(n, ArrowHead::First));
            let last = pattern_of(&arrow(n, ArrowHead::Last));
            assert_eq!(fill1(&first).nnz(), n * n);
            assert_eq!(fill1(&last).nnz(), last.nnz());
        }
    }
}
