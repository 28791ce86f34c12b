//! Partial LU of a front: the columns of its pivots are eliminated, the rest becomes the contribution block.
//!
//! Plain right-looking elimination, O(k·m²) for k pivots of a front of order m. Each entry is one chain of operations:
//! the products of the pivots are subtracted from it one after the other.

use luge_sparse::{Permutation, RealScalar, ResolvedPivots};

use super::{Front, Rounded};
use crate::dense::Dense;
use crate::numeric::{PivotError, static_pivot};

/// The factors of a front.
#[derive(Debug, Clone, PartialEq)]
pub struct LuFront<T> {
    /// In the columns of the pivots L below the diagonal, in their rows U on and right of it, else the contribution
    /// block.
    pub entries: Front<T>,
    /// Number of pivots.
    pub pivots: usize,
    /// The row that changed places with row j before pivot j was eliminated.
    pub exchanges: Vec<usize>,
    /// Pivots that were replaced, ascending.
    pub perturbed: Vec<usize>,
}

/// Eliminates the first `pivots` columns of a front, each of them there: `policy` is static.
///
/// The pivots are cut into blocks of `block` rows, the last one shorter: candidates for a pivot are its own row and those
/// after it in its block. Of equal candidates the first is taken.
///
/// # Errors
///
/// [`PivotError`] at the first pivot that is not finite, or zero and not replaced; its column is counted in the front.
///
/// # Panics
///
/// If the front has fewer rows than pivots, a block of candidates has none, or the policy is not static.
#[track_caller]
pub fn lu_front<T: RealScalar>(
    front: &Front<T>,
    pivots: usize,
    policy: &ResolvedPivots<T>,
    block: usize,
) -> Result<LuFront<T>, PivotError> {
    let m = front.order();
    assert!(pivots <= m, "{pivots} pivots in a front of order {m}");
    assert!(block > 0, "a pivot is a candidate for itself");
    assert!(policy.is_static, "a front alone delays no pivots");
    let mut w = front.clone();
    let (mut exchanges, mut perturbed) = (Vec::new(), Vec::new());
    for j in 0..pivots {
        let size = |w: &Front<T>, i: usize| w.values[(i, j)].abs();
        let end = ((j / block + 1) * block).min(pivots);
        let mut row = j;
        for i in j..end {
            if size(&w, i) > size(&w, row) {
                row = i;
            }
        }
        if size(&w, j) >= policy.threshold * size(&w, row) {
            row = j;
        }
        w.swap_rows(j, row);
        exchanges.push(row);
        let (pivot, is_replaced) = static_pivot(w.values[(j, j)], policy.small, j)?;
        if is_replaced {
            w.set(j, j, Rounded::exact(pivot));
            perturbed.push(j);
        }
        let pivot = w.get(j, j);
        for i in j + 1..m {
            let multiplier = w.get(i, j).over(pivot);
            w.set(i, j, multiplier);
            for q in j + 1..m {
                let updated = w.get(i, q).minus_product(multiplier, w.get(j, q));
                w.set(i, q, updated);
            }
        }
    }
    Ok(LuFront {
        entries: w,
        pivots,
        exchanges,
        perturbed,
    })
}

impl<T: RealScalar> LuFront<T> {
    /// L, m × k: unit lower triangular in the rows of the pivots.
    pub fn lower(&self) -> Dense<T> {
        let m = self.entries.order();
        Dense::from_fn(m, self.pivots, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Greater => self.entries.values[(i, j)],
            std::cmp::Ordering::Equal => T::one(),
            std::cmp::Ordering::Less => T::zero(),
        })
    }

    /// U, k × m: upper triangular in the columns of the pivots.
    pub fn upper(&self) -> Dense<T> {
        let m = self.entries.order();
        Dense::from_fn(self.pivots, m, |i, j| {
            if i <= j {
                self.entries.values[(i, j)]
            } else {
                T::zero()
            }
        })
    }

    /// The contribution block, of order m − k.
    pub fn contribution(&self) -> Front<T> {
        let k = self.pivots;
        let mut block = Front::zeros(self.entries.order() - k);
        for i in 0..block.order() {
            for j in 0..block.order() {
                block.set(i, j, self.entries.get(k + i, k + j));
            }
        }
        block
    }

    /// The exchanges put together: row `i` after them is row `row_perm()[i]` of the front as it came.
    pub fn row_perm(&self) -> Permutation {
        let mut rows: Vec<u32> = (0..self.entries.order() as u32).collect();
        for (j, &row) in self.exchanges.iter().enumerate() {
            rows.swap(j, row);
        }
        Permutation::new(rows).expect("exchanges keep a permutation")
    }

    /// Element growth: the largest magnitude in U and in the contribution block, as a multiple of `max_a`, that of the
    /// front as it came; zero if that is zero.
    pub fn element_growth(&self, max_a: T) -> f64 {
        let largest = self
            .upper()
            .max_abs()
            .max(self.contribution().values.max_abs());
        if max_a == T::zero() {
            0.0
        } else {
            largest.to_f64() / max_a.to_f64()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::lu_dense;
    use luge_sparse::PivotPolicy;
    use proptest::prelude::*;

    /// No rows are cut into blocks.
    const WHOLE: usize = usize::MAX;

    fn diagonal() -> ResolvedPivots<f64> {
        PivotPolicy::STATIC.resolve(|| 1.0)
    }

    fn within_front(threshold: f64) -> ResolvedPivots<f64> {
        PivotPolicy::STATIC.in_fronts(threshold).resolve(|| 1.0)
    }

    fn dense(max_n: usize) -> impl Strategy<Value = Dense<f64>> {
        (1..=max_n).prop_flat_map(|n| {
            proptest::collection::vec(-1.0..1.0f64, n * n)
                .prop_map(move |v| Dense::from_fn(n, n, |i, j| v[i * n + j]))
        })
    }

    /// A front, its number of pivots, a policy and a number of candidates.
    fn fronts() -> impl Strategy<Value = (Dense<f64>, usize, PivotPolicy, usize)> {
        let threshold = prop_oneof![Just(0.01), Just(0.1), Just(1.0)];
        let static_pivots =
            prop_oneof![Just(PivotPolicy::STATIC), Just(PivotPolicy::replacing(0.2))];
        (dense(24), threshold, static_pivots, 1usize..9).prop_flat_map(
            |(a, threshold, static_pivots, block)| {
                let policy = static_pivots.in_fronts(threshold);
                (0..=a.nrows()).prop_map(move |k| (a.clone(), k, policy, block))
            },
        )
    }

    fn in_f64<T: RealScalar>(a: &Dense<T>) -> Dense<f64> {
        Dense::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].to_f64())
    }

    #[test]
    fn the_diagonal_is_preferred_and_of_equal_candidates_the_first() {
        let a = Dense::from_fn(4, 4, |i, j| {
            [
                [1.0, 0.0, 0.0, 1.0],
                [2.0, 1.0, 0.0, 1.0],
                [-2.0, 0.0, 1.0, 1.0],
                [9.0, 1.0, 1.0, 1.0],
            ][i][j]
        });
        let exchanges = |threshold, block| {
            lu_front(&Front::exact(a.clone()), 3, &within_front(threshold), block)
                .unwrap()
                .exchanges
        };
        // Row 3 is no candidate, though its entry is the largest.
        assert_eq!(exchanges(1.0, 3)[0], 1);
        assert_eq!(exchanges(0.5, 3)[0], 0);
        assert_eq!(exchanges(0.51, 3)[0], 1);
        assert_eq!(exchanges(1.0, 1), [0, 1, 2]);
        assert_eq!(exchanges(1.0, 2)[0], 1);
    }

    #[test]
    fn small_pivots_are_replaced_with_their_sign() {
        let diagonal = [0.0, -0.1, 4.0, 0.1];
        let a = Dense::from_fn(4, 4, |i, j| if i == j { diagonal[i] } else { 0.0 });
        let policy = PivotPolicy::replacing(0.5).resolve(|| 1.0);
        let lu = lu_front(&Front::exact(a), 3, &policy, WHOLE).unwrap();
        assert_eq!(lu.perturbed, [0, 1]);
        let pivots = [0, 1, 2].map(|j| lu.entries.values()[(j, j)]);
        assert_eq!(pivots, [0.5, -0.5, 4.0]);
        assert_eq!(lu.contribution().values()[(0, 0)], 0.1);
        assert_eq!(lu.element_growth(4.0), 1.0);
        assert_eq!(lu.element_growth(0.0), 0.0);
    }

    #[test]
    fn useless_pivots_are_named() {
        for (value, error) in [
            (0.0, PivotError::Zero { column: 1 }),
            (f64::NAN, PivotError::NotFinite { column: 1 }),
            (f64::INFINITY, PivotError::NotFinite { column: 1 }),
        ] {
            let a = Dense::from_fn(2, 2, |i, j| if i != j { 0.0 } else { [1.0, value][i] });
            let front = Front::exact(a);
            assert_eq!(lu_front(&front, 2, &diagonal(), WHOLE), Err(error));
            // What is not eliminated is not looked at.
            assert!(lu_front(&front, 1, &diagonal(), WHOLE).is_ok());
        }
    }

    proptest! {
        /// P·A = [L₁ 0; L₂ I]·[U₁ U₂; 0 S], within Higham's bound γ|L||U| of theorem 9.3.
        #[test]
        fn factors_and_contribution_multiply_back((a, k, policy, block) in fronts()) {
            prop_assume!(!policy.replaces());
            let policy = policy.resolve(|| 1.0);
            let lu = lu_front(&Front::exact(a.clone()), k, &policy, block).unwrap();
            let product = lu.lower().mul(&lu.upper());
            let abs = |m: Dense<f64>| Dense::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)].abs());
            let size = abs(lu.lower()).mul(&abs(lu.upper()));
            let (perm, contribution) = (lu.row_perm(), lu.contribution());
            for i in 0..a.nrows() {
                for j in 0..a.nrows() {
                    let rest = if i < k || j < k { 0.0 } else { contribution.values()[(i - k, j - k)] };
                    let error = a[(perm.as_slice()[i] as usize, j)] - product[(i, j)] - rest;
                    let bound = (2 * k + 2) as f64 * f64::EPSILON * (size[(i, j)] + rest.abs());
                    prop_assert!(error.abs() <= bound, "({i}, {j}): {error:e}, at most {bound:e}");
                }
            }
            let largest = |i, j| if i < k && j < k && i > j { lu.entries.values()[(i, j)] } else { 0.0 };
            let lower = Dense::from_fn(a.nrows(), a.nrows(), largest);
            if block >= k {
                prop_assert!(lower.max_abs() <= (1.0 + 1e-15) / policy.threshold);
            }
        }

        #[test]
        fn a_front_of_pivots_alone_is_dense_lu(a in dense(24)) {
            let n = a.nrows();
            let front = Front::exact(a.clone());
            let lu = lu_front(&front, n, &within_front(1.0), WHOLE).unwrap();
            let expected = lu_dense(&a, PivotPolicy::PARTIAL).unwrap();
            prop_assert_eq!(lu.entries.values(), &expected.factors);
            let (perm, expected_perm) = (lu.row_perm(), expected.row_perm);
            prop_assert_eq!(perm.as_slice(), expected_perm.as_slice());
            let replacing = PivotPolicy::replacing(0.3);
            let lu = lu_front(&front, n, &replacing.resolve(|| a.max_abs()), WHOLE).unwrap();
            let expected = lu_dense(&a, replacing).unwrap();
            prop_assert_eq!(lu.entries.values(), &expected.factors);
            let perturbed: Vec<u32> = lu.perturbed.iter().map(|&j| j as u32).collect();
            prop_assert_eq!(perturbed, expected.perturbed);
        }

        /// Pivots may be eliminated block by block: each sees the contribution block that those before it leave.
        #[test]
        fn blocks_of_candidates_are_fronts_of_their_own((a, k, policy, block) in fronts()) {
            let policy = policy.resolve(|| 1.0);
            let whole = lu_front(&Front::exact(a.clone()), k, &policy, block).unwrap();
            let (mut rest, mut done) = (Front::exact(a), 0);
            let mut exchanges = Vec::new();
            while done < k {
                let pivots = block.min(k - done);
                let lu = lu_front(&rest, pivots, &policy, block).unwrap();
                exchanges.extend(lu.exchanges.iter().map(|row| done + row));
                rest = lu.contribution();
                done += pivots;
            }
            prop_assert_eq!(rest, whole.contribution());
            prop_assert_eq!(exchanges, whole.exchanges);
        }

        /// The same exchanges in double precision, where errors hardly count.
        #[test]
        fn errors_stay_within_their_bounds((a, k, policy, block) in fronts()) {
            prop_assume!(!policy.replaces());
            let a = Dense::from_fn(a.nrows(), a.nrows(), |i, j| a[(i, j)] as f32);
            let policy = policy.resolve::<f32>(|| 1.0);
            let single = lu_front(&Front::exact(a.clone()), k, &policy, block).unwrap();
            let mut moved = in_f64(&a);
            for (j, &row) in single.exchanges.iter().enumerate() {
                moved.swap_rows(j, row);
            }
            let double = lu_front(&Front::exact(moved), k, &diagonal(), WHOLE).unwrap();
            for i in 0..a.nrows() {
                for j in 0..a.nrows() {
                    let (found, exact) = (single.entries.get(i, j), double.entries.get(i, j));
                    let error = (f64::from(found.value) - exact.value).abs();
                    let bound = found.error + exact.error;
                    prop_assert!(error <= bound, "({i}, {j}): {error:e}, at most {bound:e}");
                }
            }
        }

        /// Two fronts below a third one are the elimination of the whole matrix in this order.
        #[test]
        fn a_tree_of_fronts_is_dense_lu(values in proptest::collection::vec(-1.0..1.0f64, 81)) {
            // Pivots 0 and 1 reach rows 4 to 6, pivots 2 and 3 rows 5 to 8; the root has rows 4 to 8.
            let fronts: [&[usize]; 3] = [&[0, 1, 4, 5, 6], &[2, 3, 5, 6, 7, 8], &[4, 5, 6, 7, 8]];
            let is_there = |i: usize, j: usize| fronts.iter().any(|f| f.contains(&i) && f.contains(&j));
            let a = Dense::from_fn(9, 9, |i, j| match (is_there(i, j), i == j) {
                (true, true) => 5.0 + values[i * 9 + j],
                (true, false) => values[i * 9 + j],
                (false, _) => 0.0,
            });
            let expected = lu_dense(&a, PivotPolicy::STATIC).unwrap();
            let entries_of = |rows: &[usize], k: usize| {
                let mut front = Front::zeros(rows.len());
                for (i, &row) in rows.iter().enumerate() {
                    for (j, &column) in rows.iter().enumerate() {
                        if i < k || j < k {
                            front.set(i, j, Rounded::exact(a[(row, column)]));
                        }
                    }
                }
                front
            };
            let first = lu_front(&entries_of(fronts[0], 2), 2, &diagonal(), WHOLE).unwrap();
            let second = lu_front(&entries_of(fronts[1], 2), 2, &diagonal(), WHOLE).unwrap();
            let mut root = entries_of(fronts[2], 5);
            root.extend_add(&[
                (first.contribution(), vec![0, 1, 2]),
                (second.contribution(), vec![1, 2, 3, 4]),
            ]);
            let root = lu_front(&root, 5, &diagonal(), WHOLE).unwrap();
            for (lu, rows) in [&first, &second, &root].iter().zip(fronts) {
                for (i, &row) in rows.iter().enumerate() {
                    for (j, &column) in rows.iter().enumerate() {
                        if i < lu.pivots || j < lu.pivots {
                            let found = lu.entries.get(i, j);
                            prop_assert!(found.agrees_with(expected.factors[(row, column)]));
                        }
                    }
                }
            }
        }
    }
}
