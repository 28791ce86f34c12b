//! Partial LDLᵀ of a symmetric front, LDLᴴ of a Hermitian one, with threshold partial pivoting; pivots that are not acceptable are delayed.
//!
//! Pivots of order 1 and 2 are accepted if no entry of L gets larger than 1/u (I. S. Duff and J. K. Reid, "The
//! multifrontal solution of indefinite sparse symmetric linear equations", ACM TOMS 9, 1983). Candidates are tried in the
//! order of SSIDS's `ldlt_tpp` (J. Hogg, E. Ovtchinnikov and J. Scott, "A sparse symmetric indefinite direct solver for
//! GPU architectures", ACM TOMS 42, 2016): see [`ldlt_tpp`].
//!
//! O(k·m²) for k candidates of a front of order m, and as much again for each search that finds nothing. The front is
//! stored whole.

use luge_sparse::num_traits::{Float, One, Zero};
use luge_sparse::{Form, Permutation, RealScalar, Scalar};

use crate::dense::Dense;
use crate::ldlt::{Block, Inertia, LdltError, set, spread, whole};

/// Which pivots are acceptable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LdltRule<R> {
    /// u, from 0 to 0.5: entries of L are at most 1/u in magnitude. Up to 0.5, a nonsingular front without rows below
    /// has always an acceptable pivot.
    pub threshold: R,
    /// What is smaller in magnitude counts as zero: a column without larger entries becomes a zero pivot, and no pivot
    /// of order 1 is smaller.
    pub small: R,
}

/// The factors of a front of order m, of which q pivots were eliminated:
///
/// ```text
/// P·A·Pᵀ = [L₁ 0] [D 0] [L₁ᵀ L₂ᵀ]
///          [L₂ I] [0 S] [0   I  ]
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LdltFront<T: Scalar> {
    /// Row and column `i` of P·A·Pᵀ are row and column `perm[i]` of A: pivots, delayed candidates, rows below.
    pub perm: Permutation,
    /// L₁ above L₂, m × q: unit lower trapezoidal, zero below the diagonal inside a block of order 2.
    pub lower: Dense<T>,
    /// The blocks of D in order of their columns.
    pub blocks: Vec<Block<T>>,
    /// S, the contribution block of order m − q: delayed candidates, then the rows below.
    pub contribution: Dense<T>,
    /// Candidates that were not eliminated.
    pub num_delay: usize,
    /// Pivots of order 2.
    pub num_two: usize,
    /// Eigenvalues of D by their signs, unless it is complex symmetric. Zero are the columns without entries of size.
    pub inertia: Inertia,
    /// Largest magnitude in D and in the contribution block.
    pub max_d: T::Real,
    /// What counterparts are: in L·D·Lᴴ for a Hermitian front.
    pub form: Form,
}

/// What the search for the next pivot found.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Choice {
    /// A column in which all counts as zero.
    Zero(usize),
    One(usize),
    Two(usize, usize),
}

/// A front under elimination.
struct Elimination<T: Scalar> {
    /// The front; what belongs to pivots is not looked at any more.
    w: Dense<T>,
    /// L, with a column for each candidate.
    lower: Dense<T>,
    perm: Vec<u32>,
    /// Pivots so far.
    done: usize,
    /// Number of candidates.
    pivots: usize,
    form: Form,
    rule: LdltRule<T::Real>,
}

/// Eliminates as many of the first `pivots` rows and columns of a front of this form as have acceptable pivots. Only the
/// lower triangle is read. Sizes |·| of complex numbers are [magnitudes](Scalar::magnitude).
///
/// With q pivots done, the search goes on as follows. Candidates p = q + 1, q + 2, … are tried one after the other: first
/// the pivot of order 2 of p and that t from q to p − 1 where |a(p, t)| is largest, the first of equal ones, then the
/// pivot of order 1 of p. If none will do, the pivot of order 1 of q is tried, and if that will not do either, the candidates left are
/// delayed. A column that counts as zero is taken as a zero pivot as soon as its turn comes.
///
/// A pivot of order 1 is acceptable if |a(p, p)| ≥ u · max |a(i, p)| over all i ≠ p not eliminated; one of order 2 if
/// |E⁻¹|·(max |a(i, t)|, max |a(i, p)|)ᵀ ≤ 1/u for its block E and i other than t and p, provided that E has an entry that
/// does not count as zero, and its determinant is at least half as large as the larger of the two products it is
/// the difference of, so that it is not just the rounding error of them.
///
/// # Errors
///
/// [`LdltError::NotFinite`] at the first candidate with an entry that is not finite, counted in the permuted front.
///
/// # Panics
///
/// If the front is not square, or has fewer rows than candidates.
#[track_caller]
pub fn ldlt_tpp<T: Scalar>(
    front: &Dense<T>,
    pivots: usize,
    form: Form,
    rule: &LdltRule<T::Real>,
) -> Result<LdltFront<T>, LdltError> {
    let m = front.nrows();
    assert_eq!(m, front.ncols(), "a front is square");
    assert!(pivots <= m, "{pivots} candidates in a front of order {m}");
    let mut elimination = Elimination {
        w: whole(front, form),
        lower: Dense::from_fn(m, pivots, |i, j| if i == j { T::one() } else { T::zero() }),
        perm: (0..m as u32).collect(),
        done: 0,
        pivots,
        form,
        rule: *rule,
    };
    let (mut blocks, mut inertia, mut num_two) = (Vec::new(), Inertia::default(), 0);
    elimination.check()?;
    while let Some(choice) = elimination.choose() {
        let block = elimination.eliminate(choice);
        count_signs(block, form, &mut inertia);
        num_two += usize::from(matches!(block, Block::Two { .. }));
        blocks.push(block);
        elimination.check()?;
    }
    let Elimination {
        w,
        lower,
        perm,
        done,
        ..
    } = elimination;
    let contribution = Dense::from_fn(m - done, m - done, |i, j| w[(done + i, done + j)]);
    let of_blocks = blocks.iter().map(|block| match *block {
        Block::One(d) => d.magnitude(),
        Block::Two { d11, d21, d22 } => largest_of([d11, d21, d22]),
    });
    Ok(LdltFront {
        perm: Permutation::new(perm).expect("exchanges keep a permutation"),
        lower: Dense::from_fn(m, done, |i, j| lower[(i, j)]),
        max_d: of_blocks.fold(contribution.max_abs(), Float::max),
        blocks,
        contribution,
        num_delay: pivots - done,
        num_two,
        inertia,
        form,
    })
}

/// Counts the eigenvalues of a block of D, as far as they have signs.
fn count_signs<T: Scalar>(block: Block<T>, form: Form, inertia: &mut Inertia) {
    let has_signs = T::COMPONENTS == 1 || form == Form::Hermitian;
    let zero = T::Real::zero();
    match block {
        Block::One(d) if d == T::zero() => inertia.zero += 1,
        _ if !has_signs => {}
        Block::One(d) if d.real() > zero => inertia.positive += 1,
        Block::One(_) => inertia.negative += 1,
        Block::Two { d11, d21, d22 } => {
            let (_, left, right) = products_of_two(form, d11, d21, d22);
            if left.real() < right.real() {
                inertia.positive += 1;
                inertia.negative += 1;
            } else if d11.real() > zero {
                inertia.positive += 2;
            } else {
                inertia.negative += 2;
            }
        }
    }
}

/// The largest magnitude.
fn largest_of<T: Scalar>(entries: [T; 3]) -> T::Real {
    let sizes = entries.map(|entry| entry.magnitude());
    sizes[0].max(sizes[1]).max(sizes[2])
}

/// The largest magnitude of `[d11 d12; d21 d22]`, and the two products that its determinant is the difference of, divided by
/// that, so that nothing overflows.
fn products_of_two<T: Scalar>(form: Form, d11: T, d21: T, d22: T) -> (T::Real, T, T) {
    let size = largest_of([d11, d21, d22]);
    let left = d11.over_real(size) * d22;
    let right = d21.over_real(size) * form.counterpart(d21);
    (size, form.on_diagonal(left), form.on_diagonal(right))
}

/// E⁻¹ for E = `[d11 d12; d21 d22]`, as (11), (21), (22).
fn inverse_of_two<T: Scalar>(form: Form, d11: T, d21: T, d22: T) -> [T; 3] {
    let (size, left, right) = products_of_two(form, d11, d21, d22);
    [d22, -d21, d11].map(|v| v.over_real(size).quotient(left - right))
}

impl<T: Scalar> Elimination<T> {
    /// Fails where a candidate has an entry that is not finite.
    fn check(&self) -> Result<(), LdltError> {
        let m = self.w.nrows();
        let is_broken = |&p: &usize| (self.done..m).any(|i| !self.w[(i, p)].is_number());
        match (self.done..self.pivots).find(is_broken) {
            Some(column) => Err(LdltError::NotFinite { column }),
            None => Ok(()),
        }
    }

    /// The largest magnitude in what is left of column `p`, in rows other than these.
    fn largest(&self, p: usize, except: &[usize]) -> T::Real {
        let rows = (self.done..self.w.nrows()).filter(|i| !except.contains(i));
        rows.fold(T::Real::zero(), |most, i| {
            most.max(self.w[(i, p)].magnitude())
        })
    }

    fn counts_as_zero(&self, p: usize) -> bool {
        let largest = self.largest(p, &[]);
        largest == T::Real::zero() || largest < self.rule.small
    }

    fn choose(&self) -> Option<Choice> {
        let first = self.done;
        if first == self.pivots {
            return None;
        }
        if self.counts_as_zero(first) {
            return Some(Choice::Zero(first));
        }
        for p in first + 1..self.pivots {
            if self.counts_as_zero(p) {
                return Some(Choice::Zero(p));
            }
            let size = |t: usize| self.w[(p, t)].magnitude();
            let best = (first..p).fold(first, |t, i| if size(i) > size(t) { i } else { t });
            if self.may_be_two(best, p) {
                return Some(Choice::Two(best, p));
            }
            if self.may_be_one(p) {
                return Some(Choice::One(p));
            }
        }
        self.may_be_one(first).then_some(Choice::One(first))
    }

    fn may_be_one(&self, p: usize) -> bool {
        let pivot = self.w[(p, p)].magnitude();
        let is_zero = pivot == T::Real::zero() || pivot < self.rule.small;
        !is_zero && pivot >= self.rule.threshold * self.largest(p, &[p])
    }

    fn may_be_two(&self, t: usize, p: usize) -> bool {
        let (d11, d21, d22) = (self.w[(t, t)], self.w[(p, t)], self.w[(p, p)]);
        let (size, left, right) = products_of_two(self.form, d11, d21, d22);
        if d21 == T::zero() || size < self.rule.small {
            return false;
        }
        let half = T::Real::from_f64(0.5);
        if (left - right).magnitude() < half * left.magnitude().max(right.magnitude()) {
            return false;
        }
        let [e11, e21, e22] = inverse_of_two(self.form, d11, d21, d22).map(T::magnitude);
        let (of_t, of_p) = (self.largest(t, &[t, p]), self.largest(p, &[t, p]));
        let largest = (e11 * of_t + e21 * of_p).max(e21 * of_t + e22 * of_p);
        self.rule.threshold * largest <= T::Real::one()
    }

    /// Makes row and column `from` row and column `to`.
    fn exchange(&mut self, to: usize, from: usize) {
        self.w.swap_rows(to, from);
        self.w.swap_cols(to, from);
        self.perm.swap(to, from);
        for j in 0..self.done {
            let (upper, lower) = (self.lower[(to, j)], self.lower[(from, j)]);
            self.lower[(to, j)] = lower;
            self.lower[(from, j)] = upper;
        }
    }

    /// Eliminates a pivot: its block of D.
    fn eliminate(&mut self, choice: Choice) -> Block<T> {
        let (q, m) = (self.done, self.w.nrows());
        match choice {
            Choice::Zero(p) => {
                self.exchange(q, p);
                self.done += 1;
                Block::One(T::zero())
            }
            Choice::One(p) => {
                self.exchange(q, p);
                let d = self.w[(q, q)];
                for i in q + 1..m {
                    self.lower[(i, q)] = self.w[(i, q)].quotient(d);
                }
                self.update(1);
                Block::One(d)
            }
            Choice::Two(t, p) => {
                // t comes before p, so the first exchange leaves p where it is.
                self.exchange(q, t);
                self.exchange(q + 1, p);
                let (d11, d21, d22) = (self.w[(q, q)], self.w[(q + 1, q)], self.w[(q + 1, q + 1)]);
                let [e11, e21, e22] = inverse_of_two(self.form, d11, d21, d22);
                let e12 = self.form.counterpart(e21);
                for i in q + 2..m {
                    let (x, y) = (self.w[(i, q)], self.w[(i, q + 1)]);
                    self.lower[(i, q)] = e11 * x + e21 * y;
                    self.lower[(i, q + 1)] = e12 * x + e22 * y;
                }
                self.update(2);
                Block::Two { d11, d21, d22 }
            }
        }
    }

    /// Subtracts what a pivot of this order means for the rows and columns behind it.
    fn update(&mut self, order: usize) {
        let (q, m) = (self.done, self.w.nrows());
        for i in q + order..m {
            for j in q + order..=i {
                let mut updated = self.w[(i, j)];
                for p in q..q + order {
                    updated -= self.lower[(i, p)] * self.w[(p, j)];
                }
                set(&mut self.w, self.form, [i, j], updated);
            }
        }
        self.done += order;
    }
}

impl<T: Scalar> LdltFront<T> {
    /// The largest magnitude in L off its unit diagonal; zero if there is nothing.
    pub fn max_l(&self) -> T::Real {
        let (m, q) = (self.lower.nrows(), self.lower.ncols());
        let off_diagonal = Dense::from_fn(m, q, |i, j| {
            if i == j {
                T::zero()
            } else {
                self.lower[(i, j)]
            }
        });
        off_diagonal.max_abs()
    }

    /// Element growth: the largest magnitude in D and in the contribution block, as a multiple of `max_a`, that of the
    /// front as it came; zero if that is zero.
    pub fn element_growth(&self, max_a: T::Real) -> f64 {
        if max_a == T::Real::zero() {
            0.0
        } else {
            self.max_d.to_f64() / max_a.to_f64()
        }
    }

    /// `[D 0; 0 S]`, of order m.
    pub fn diagonal(&self) -> Dense<T> {
        let (m, q) = (self.lower.nrows(), self.lower.ncols());
        let mut d = Dense::from_fn(m, m, |i, j| {
            if i < q || j < q {
                T::zero()
            } else {
                self.contribution[(i - q, j - q)]
            }
        });
        spread(&self.blocks, self.form, &mut d);
        d
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ldlt::ldlt_dense;
    use proptest::prelude::*;

    const RULE: LdltRule<f64> = LdltRule {
        threshold: 0.01,
        small: 1e-20,
    };

    /// The symmetric matrix with these rows of a lower triangle.
    fn lower_triangle(rows: &[&[f64]]) -> Dense<f64> {
        Dense::from_fn(rows.len(), rows.len(), |i, j| rows[i.max(j)][i.min(j)])
    }

    fn inertia(positive: usize, negative: usize, zero: usize) -> Inertia {
        Inertia {
            positive,
            negative,
            zero,
        }
    }

    /// A symmetric front, half of whose entries are zeros if `sparse`, and a number of candidates.
    fn fronts(max_m: usize) -> impl Strategy<Value = (Dense<f64>, usize)> {
        (1..=max_m, any::<bool>()).prop_flat_map(|(m, sparse)| {
            let kept = move |v: f64| if sparse && v.abs() < 0.5 { 0.0 } else { v };
            let values = proptest::collection::vec(-1.0..1.0f64, m * m);
            let a = values
                .prop_map(move |v| Dense::from_fn(m, m, |i, j| kept(v[i.max(j) * m + i.min(j)])));
            (a, 0..=m)
        })
    }

    /// The factors multiply back to within Higham's bound of theorem 11.3, as far as |L||D||Lᵀ| goes.
    fn check_product<T: RealScalar>(a: &Dense<T>, ldlt: &LdltFront<T>) {
        let (m, q) = (ldlt.lower.nrows(), ldlt.lower.ncols());
        let p = ldlt.perm.as_slice();
        let lower = Dense::from_fn(m, m, |i, j| {
            let unit = f64::from(u8::from(i == j));
            if j < q {
                ldlt.lower[(i, j)].to_f64()
            } else {
                unit
            }
        });
        let in_f64 = ldlt.diagonal();
        let diagonal = Dense::from_fn(m, m, |i, j| in_f64[(i, j)].to_f64());
        let product = lower.mul(&diagonal).mul(&lower.transpose());
        let abs = |d: &Dense<f64>| Dense::from_fn(m, m, |i, j| d[(i, j)].abs());
        let size = abs(&lower)
            .mul(&abs(&diagonal))
            .mul(&abs(&lower).transpose());
        let most = size.max_abs();
        for i in 0..m {
            for j in 0..=i {
                let (row, column) = (p[i].max(p[j]) as usize, p[i].min(p[j]) as usize);
                let error = (a[(row, column)].to_f64() - product[(i, j)]).abs();
                let bound = 8.0 * m as f64 * T::epsilon().to_f64() * most;
                assert!(error <= bound, "({i}, {j}): {error:e}, at most {bound:e}");
            }
        }
    }

    #[test]
    fn pivots_that_would_grow_are_delayed() {
        // The row below is a thousand times as large as the diagonal.
        let a = lower_triangle(&[&[1e-3], &[1.0, 1.0]]);
        let delayed = ldlt_tpp(&a, 1, Form::Symmetric, &RULE).unwrap();
        assert_eq!((delayed.num_delay, delayed.blocks.len()), (1, 0));
        assert_eq!(delayed.contribution, a);
        // In the parent the row is a candidate, and the two are a pivot of order 2.
        let parent = ldlt_tpp(&delayed.contribution, 2, Form::Symmetric, &RULE).unwrap();
        assert_eq!((parent.num_delay, parent.num_two), (0, 1));
        assert_eq!(parent.inertia, inertia(1, 1, 0));
        let lenient = LdltRule {
            threshold: 1e-3,
            ..RULE
        };
        let taken = ldlt_tpp(&a, 1, Form::Symmetric, &lenient).unwrap();
        assert_eq!((taken.num_delay, taken.max_l()), (0, 1000.0));
        assert_eq!(taken.element_growth(1.0), 999.0);
    }

    #[test]
    fn candidates_without_pivots_among_them_are_all_delayed() {
        // [0 Bᵀ; B C] with candidates in the zero block.
        let a = lower_triangle(&[&[0.0], &[0.0, 0.0], &[1.0, 2.0, 5.0], &[3.0, 4.0, 1.0, 5.0]]);
        let ldlt = ldlt_tpp(&a, 2, Form::Symmetric, &RULE).unwrap();
        assert_eq!((ldlt.num_delay, ldlt.num_two), (2, 0));
        assert_eq!(ldlt.inertia, inertia(0, 0, 0));
        assert_eq!(ldlt.contribution, a);
        let whole = ldlt_tpp(&a, 4, Form::Symmetric, &RULE).unwrap();
        assert_eq!((whole.num_delay, whole.inertia), (0, inertia(2, 2, 0)));
        check_product(&a, &whole);
    }

    #[test]
    fn a_candidate_may_wait_for_others() {
        // 0 and 2 are a pivot of order 2; 1 has none before.
        let a = lower_triangle(&[&[0.0], &[0.0, 2.0], &[1.0, 0.0, 0.0], &[0.5, 1.0, 0.5, 1.0]]);
        let ldlt = ldlt_tpp(&a, 3, Form::Symmetric, &RULE).unwrap();
        assert_eq!(ldlt.perm.as_slice(), [1, 0, 2, 3]);
        assert_eq!((ldlt.num_two, ldlt.num_delay), (1, 0));
        assert_eq!(ldlt.inertia, inertia(2, 1, 0));
        check_product(&a, &ldlt);
        // Delayed rows stand behind the pivots and keep their part of L.
        let a = lower_triangle(&[&[1e-9], &[0.0, 2.0], &[1.0, 1.0, 0.0]]);
        let ldlt = ldlt_tpp(&a, 2, Form::Symmetric, &RULE).unwrap();
        assert_eq!(ldlt.perm.as_slice(), [1, 0, 2]);
        assert_eq!((ldlt.num_delay, ldlt.lower[(2, 0)]), (1, 0.5));
        assert_eq!(ldlt.contribution, lower_triangle(&[&[1e-9], &[1.0, -0.5]]));
    }

    #[test]
    fn pivots_of_order_two_may_have_one_sign() {
        for sign in [1.0, -1.0] {
            let a = lower_triangle(&[&[2.0 * sign], &[1.0, 2.0 * sign]]);
            let ldlt = ldlt_tpp(&a, 2, Form::Symmetric, &RULE).unwrap();
            assert_eq!(ldlt.num_two, 1);
            let positive = if sign > 0.0 { 2 } else { 0 };
            assert_eq!(ldlt.inertia, inertia(positive, 2 - positive, 0));
        }
        // The determinant 1 − (1 − ε) would be rounding error: two pivots of order 1.
        let a = lower_triangle(&[&[1.0], &[1.0 - f64::EPSILON / 2.0, 1.0]]);
        let ldlt = ldlt_tpp(&a, 2, Form::Symmetric, &RULE).unwrap();
        assert_eq!((ldlt.num_two, ldlt.num_delay), (0, 0));
        assert_eq!(ldlt.perm.as_slice(), [1, 0]);
    }

    #[test]
    fn columns_of_small_entries_are_zero_pivots() {
        let a = lower_triangle(&[&[1e-30], &[1e-25, 4.0], &[-1e-21, 2.0, 3.0]]);
        let ldlt = ldlt_tpp(&a, 2, Form::Symmetric, &RULE).unwrap();
        assert_eq!(ldlt.blocks, [Block::One(0.0), Block::One(4.0)]);
        assert_eq!((ldlt.num_delay, ldlt.inertia), (0, inertia(1, 0, 1)));
        assert_eq!(ldlt.contribution[(0, 0)], 2.0);
        assert_eq!(ldlt.lower[(2, 0)], 0.0);
        // With nothing that counts as small, exact zeros still do.
        let zeros = Dense::<f64>::zeros(3, 3);
        let none = LdltRule { small: 0.0, ..RULE };
        let ldlt = ldlt_tpp(&zeros, 2, Form::Symmetric, &none).unwrap();
        assert_eq!((ldlt.num_delay, ldlt.inertia), (0, inertia(0, 0, 2)));
        assert_eq!(ldlt.element_growth(0.0), 0.0);
    }

    #[test]
    fn what_is_not_finite_is_named() {
        let a = |value: f64| lower_triangle(&[&[1.0], &[0.0, value], &[0.0, 0.0, f64::NAN]]);
        for value in [f64::NAN, f64::INFINITY] {
            let broken = Err(LdltError::NotFinite { column: 1 });
            assert_eq!(ldlt_tpp(&a(value), 2, Form::Symmetric, &RULE), broken);
        }
        // The contribution block is not looked at.
        assert!(ldlt_tpp(&a(1.0), 2, Form::Symmetric, &RULE).is_ok());
    }

    proptest! {
        #[test]
        fn factors_multiply_back_and_stay_bounded(
            (a, k) in fronts(24),
            threshold in prop_oneof![Just(1e-8), Just(0.01), Just(0.1), Just(0.5)],
        ) {
            let ldlt = ldlt_tpp(&a, k, Form::Symmetric, &LdltRule { threshold, ..RULE }).unwrap();
            check_product(&a, &ldlt);
            prop_assert!(ldlt.max_l() <= (1.0 + 1e-12) / threshold);
            prop_assert_eq!(ldlt.num_delay + ldlt.lower.ncols(), k);
            // Rows below stay where they are.
            let below = &ldlt.perm.as_slice()[k..];
            prop_assert!(below.iter().enumerate().all(|(i, &row)| row as usize == k + i));
        }

        #[test]
        fn factors_of_single_precision_multiply_back((a, k) in fronts(16)) {
            let a = Dense::from_fn(a.nrows(), a.nrows(), |i, j| a[(i, j)] as f32);
            let rule = LdltRule { threshold: 0.1f32, small: 1e-20 };
            let ldlt = ldlt_tpp(&a, k, Form::Symmetric, &rule).unwrap();
            check_product(&a, &ldlt);
            prop_assert!(ldlt.max_l() <= 10.001);
        }

        /// With nothing below, one of the largest entries is, or is part of, an acceptable pivot.
        #[test]
        fn nothing_is_delayed_at_a_root((a, _) in fronts(24), threshold in prop_oneof![Just(0.01), Just(0.499)]) {
            let ldlt = ldlt_tpp(&a, a.nrows(), Form::Symmetric, &LdltRule { threshold, ..RULE }).unwrap();
            prop_assert_eq!(ldlt.num_delay, 0);
        }

        /// Haynsworth: the inertia of a matrix is that of its pivots and that of their Schur complement. M·D·Mᵀ has that of
        /// D for every nonsingular M (Sylvester).
        #[test]
        fn inertia_is_that_of_a_known_spectrum(
            signs in proptest::collection::vec(prop_oneof![Just(-1.0), Just(1.0)], 1..12),
            noise in proptest::collection::vec(-2i32..=2, 144),
            k in 0usize..12,
        ) {
            let n = signs.len();
            // Unit lower triangular with small integers: the product is exact and stays moderate.
            let m = Dense::from_fn(n, n, |i, j| match i.cmp(&j) {
                std::cmp::Ordering::Equal => 1.0,
                std::cmp::Ordering::Greater if i - j <= 2 => f64::from(noise[i * 12 + j]),
                _ => 0.0,
            });
            let d = Dense::from_fn(n, n, |i, j| if i == j { signs[i] } else { 0.0 });
            let a = m.mul(&d).mul(&m.transpose());
            // Reversed, so that elimination does not just undo M.
            let a = Dense::from_fn(n, n, |i, j| a[(n - 1 - i, n - 1 - j)]);
            let ldlt = ldlt_tpp(&a, k.min(n), Form::Symmetric, &RULE).unwrap();
            let rest = ldlt_dense(&ldlt.contribution, Form::Symmetric).unwrap().inertia();
            let positive = signs.iter().filter(|&&s| s > 0.0).count();
            let found = inertia(
                ldlt.inertia.positive + rest.positive,
                ldlt.inertia.negative + rest.negative,
                ldlt.inertia.zero + rest.zero,
            );
            prop_assert_eq!(found, inertia(positive, n - positive, 0));
        }
    }
}
