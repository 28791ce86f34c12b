//! Dense indefinite factorization P·A·Pᵀ = L·D·Lᵀ of a symmetric matrix, L·D·Lᴴ of a Hermitian one.
//!
//! Bunch and Kaufman's partial pivoting (1977): D has blocks of order 1 and 2, L is unit lower
//! triangular. O(n³) time; the symmetric matrix is stored whole.

use std::cmp::Ordering;

use luge_sparse::num_traits::Zero;
use luge_sparse::{Form, Permutation, RealScalar, Scalar};

use crate::dense::Dense;

/// One block of D.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Block<T> {
    /// A pivot of order 1.
    One(T),
    /// A pivot `[d11 d12; d21 d22]` of order 2, with the counterpart d12 of d21, which takes this and the next column.
    Two {
        /// First diagonal entry.
        d11: T,
        /// Entry off the diagonal.
        d21: T,
        /// Second diagonal entry.
        d22: T,
    },
}

/// Numbers of positive, negative and zero eigenvalues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inertia {
    /// Positive eigenvalues.
    pub positive: usize,
    /// Negative eigenvalues.
    pub negative: usize,
    /// Eigenvalues that are zero, as far as exactly zero pivots tell.
    pub zero: usize,
}

/// The factors of P·A·Pᵀ = L·D·Lᵀ, or L·D·Lᴴ.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseLdlt<T> {
    /// Unit lower triangular; zero below the diagonal inside a block of order 2.
    pub lower: Dense<T>,
    /// The blocks of D in order of their columns.
    pub blocks: Vec<Block<T>>,
    /// Row and column `i` of P·A·Pᵀ are row and column `perm[i]` of A.
    pub perm: Permutation,
    /// Whether A is symmetric or Hermitian.
    pub form: Form,
}

/// The factorization met a pivot that is infinite or not a number, or the system is singular.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LdltError {
    /// A pivot is infinite or not a number.
    NotFinite {
        /// Column of the permuted matrix.
        column: usize,
    },
    /// D has a zero block of order 1, so the system has no unique solution.
    Singular {
        /// Column of the permuted matrix.
        column: usize,
    },
}

impl std::fmt::Display for LdltError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFinite { column } => write!(f, "the pivot of column {column} is not finite"),
            Self::Singular { column } => write!(f, "the pivot of column {column} is zero"),
        }
    }
}

impl std::error::Error for LdltError {}

/// Factorizes a symmetric or Hermitian matrix, of which only the lower triangle is read. Sizes of complex numbers are
/// [magnitudes](Scalar::magnitude).
///
/// A column that is zero from the diagonal down becomes a zero block of order 1; the factorization
/// goes on.
///
/// # Errors
///
/// [`LdltError::NotFinite`] at the first column in which the pivot search meets an entry that is not
/// finite.
///
/// # Panics
///
/// If `a` is not square.
#[track_caller]
pub fn ldlt_dense<T: Scalar>(a: &Dense<T>, form: Form) -> Result<DenseLdlt<T>, LdltError> {
    let n = a.nrows();
    assert_eq!(n, a.ncols(), "the matrix must be square");
    // Balances the growth of one step of order 2 against two steps of order 1.
    let alpha = T::Real::from_f64((1.0 + 17f64.sqrt()) / 8.0);
    let zero = T::Real::zero();
    let mut w = whole(a, form);
    let mut lower = Dense::identity(n);
    let mut perm: Vec<u32> = (0..n as u32).collect();
    let mut blocks = Vec::new();
    let mut k = 0;
    while k < n {
        if (k..n).any(|i| !w[(i, k)].is_number()) {
            return Err(LdltError::NotFinite { column: k });
        }
        let largest_off_diagonal = |w: &Dense<T>, column: usize| {
            let candidates = (k..n).filter(|&i| i != column);
            candidates.fold((column, zero), |(at, size), i| {
                if w[(i, column)].magnitude() > size {
                    (i, w[(i, column)].magnitude())
                } else {
                    (at, size)
                }
            })
        };
        let diagonal = w[(k, k)].magnitude();
        let (r, lambda) = largest_off_diagonal(&w, k);
        if lambda == zero && diagonal == zero {
            blocks.push(Block::One(T::zero()));
            k += 1;
            continue;
        }
        // Which row and column to move up, and the order of the pivot.
        let (chosen, size) = if diagonal >= alpha * lambda {
            (k, 1)
        } else {
            let (_, sigma) = largest_off_diagonal(&w, r);
            if diagonal >= alpha * lambda * (lambda / sigma) {
                (k, 1)
            } else if w[(r, r)].magnitude() >= alpha * sigma {
                (r, 1)
            } else {
                (r, 2)
            }
        };
        let target = k + size - 1;
        w.swap_rows(target, chosen);
        w.swap_cols(target, chosen);
        perm.swap(target, chosen);
        for j in 0..k {
            let (top, bottom) = (lower[(target, j)], lower[(chosen, j)]);
            lower[(target, j)] = bottom;
            lower[(chosen, j)] = top;
        }
        if size == 1 {
            let d = w[(k, k)];
            if !d.is_number() {
                return Err(LdltError::NotFinite { column: k });
            }
            for i in k + 1..n {
                lower[(i, k)] = w[(i, k)].quotient(d);
            }
            for i in k + 1..n {
                for j in k + 1..=i {
                    let updated = w[(i, j)] - lower[(i, k)] * w[(k, j)];
                    set(&mut w, form, [i, j], updated);
                }
            }
            blocks.push(Block::One(d));
        } else {
            let (d11, d21, d22) = (w[(k, k)], w[(k + 1, k)], w[(k + 1, k + 1)]);
            if !(d21.is_number() && d22.is_number()) {
                return Err(LdltError::NotFinite { column: k + 1 });
            }
            for i in k + 2..n {
                // The row of L times the block is the row of W, so it is the transpose that is solved with.
                let transposed = [[d11, d21], [form.counterpart(d21), d22]];
                let [x, y] = solve_two(transposed, [w[(i, k)], w[(i, k + 1)]]);
                lower[(i, k)] = x;
                lower[(i, k + 1)] = y;
            }
            for i in k + 2..n {
                for j in k + 2..=i {
                    let updated =
                        w[(i, j)] - (lower[(i, k)] * w[(k, j)] + lower[(i, k + 1)] * w[(k + 1, j)]);
                    set(&mut w, form, [i, j], updated);
                }
            }
            blocks.push(Block::Two { d11, d21, d22 });
        }
        k += size;
    }
    Ok(DenseLdlt {
        lower,
        blocks,
        perm: Permutation::new(perm).expect("exchanges keep a permutation"),
        form,
    })
}

/// The matrix of which `a` has the lower triangle.
pub(crate) fn whole<T: Scalar>(a: &Dense<T>, form: Form) -> Dense<T> {
    Dense::from_fn(a.nrows(), a.nrows(), |i, j| match i.cmp(&j) {
        Ordering::Greater => a[(i, j)],
        Ordering::Equal => form.on_diagonal(a[(i, j)]),
        Ordering::Less => form.counterpart(a[(j, i)]),
    })
}

/// Sets an entry and its counterpart.
pub(crate) fn set<T: Scalar>(w: &mut Dense<T>, form: Form, [i, j]: [usize; 2], value: T) {
    if i == j {
        w[(i, j)] = form.on_diagonal(value);
    } else {
        w[(i, j)] = value;
        w[(j, i)] = form.counterpart(value);
    }
}

/// The blocks of D, whose rows begin at `rows`, written into a matrix.
pub(crate) fn spread<T: Scalar>(blocks: &[Block<T>], form: Form, d: &mut Dense<T>) {
    let mut k = 0;
    for block in blocks {
        match *block {
            Block::One(v) => {
                d[(k, k)] = v;
                k += 1;
            }
            Block::Two { d11, d21, d22 } => {
                d[(k, k)] = d11;
                set(d, form, [k + 1, k], d21);
                d[(k + 1, k + 1)] = d22;
                k += 2;
            }
        }
    }
}

/// Solves `[[e11, e12], [e21, e22]]·x = b`, divided through by the entries off the diagonal, the largest of a pivot of order
/// 2 up to a small factor, so that no square overflows.
fn solve_two<T: Scalar>([[e11, e12], [e21, e22]]: [[T; 2]; 2], b: [T; 2]) -> [T; 2] {
    let (p, q) = (e11.quotient(e21), e22.quotient(e12));
    let denominator = p * q - T::one();
    let x = q * b[0].quotient(e21) - b[1].quotient(e21);
    let y = p * b[1].quotient(e12) - b[0].quotient(e12);
    [x.quotient(denominator), y.quotient(denominator)]
}

impl<T: Scalar> DenseLdlt<T> {
    /// D spread out.
    pub fn diagonal(&self) -> Dense<T> {
        let n = self.lower.nrows();
        let mut d = Dense::zeros(n, n);
        spread(&self.blocks, self.form, &mut d);
        d
    }

    /// ‖P·A·Pᵀ − L·D·Lᵀ‖∞ / ‖A‖∞, with Lᴴ if A is Hermitian; zero for a zero matrix. `a` is the whole matrix.
    pub fn factor_error(&self, a: &Dense<T>) -> f64 {
        let product = self
            .lower
            .mul(&self.diagonal())
            .mul(&self.lower.reflected(self.form));
        let p = self.perm.as_slice();
        let n = p.len();
        let difference = Dense::from_fn(n, n, |i, j| {
            a[(p[i] as usize, p[j] as usize)] - product[(i, j)]
        });
        match (difference.norm_inf(), a.norm_inf()) {
            (0.0, _) => 0.0,
            (error, norm) => error / norm,
        }
    }

    /// The inertia of D, by Sylvester's law that of A.
    ///
    /// # Panics
    ///
    /// If the matrix is complex symmetric: its eigenvalues have no signs.
    #[track_caller]
    pub fn inertia(&self) -> Inertia {
        assert!(
            T::COMPONENTS == 1 || self.form == Form::Hermitian,
            "a complex symmetric matrix has no inertia"
        );
        let zero = T::Real::zero();
        let mut inertia = Inertia::default();
        for block in &self.blocks {
            match *block {
                Block::One(d) if d.real() > zero => inertia.positive += 1,
                Block::One(d) if d.real() < zero => inertia.negative += 1,
                Block::One(_) => inertia.zero += 1,
                // Bunch and Kaufman take a block of order 2 only if its determinant is negative.
                Block::Two { .. } => {
                    inertia.positive += 1;
                    inertia.negative += 1;
                }
            }
        }
        inertia
    }

    /// Solves A·x = b.
    ///
    /// # Errors
    ///
    /// [`LdltError::Singular`] at the first zero block of D.
    ///
    /// # Panics
    ///
    /// If `b` is not as long as the matrix has rows.
    #[track_caller]
    pub fn solve(&self, b: &[T]) -> Result<Vec<T>, LdltError> {
        let n = self.lower.nrows();
        let form = self.form;
        let mut x = self.perm.gather(b);
        for i in 0..n {
            for j in 0..i {
                x[i] = x[i] - self.lower[(i, j)] * x[j];
            }
        }
        let mut k = 0;
        for block in &self.blocks {
            match *block {
                Block::One(d) => {
                    if d == T::zero() {
                        return Err(LdltError::Singular { column: k });
                    }
                    x[k] = x[k].quotient(d);
                    k += 1;
                }
                Block::Two { d11, d21, d22 } => {
                    let block = [[d11, form.counterpart(d21)], [d21, d22]];
                    let [first, second] = solve_two(block, [x[k], x[k + 1]]);
                    x[k] = first;
                    x[k + 1] = second;
                    k += 2;
                }
            }
        }
        for i in (0..n).rev() {
            for j in i + 1..n {
                x[i] = x[i] - form.counterpart(self.lower[(j, i)]) * x[j];
            }
        }
        Ok(self.perm.scatter(&x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::lu_dense;
    use crate::solve::dense_solve;
    use luge_sparse::PivotPolicy;
    use num_complex::Complex;
    use proptest::prelude::*;

    fn symmetric(max_n: usize) -> impl Strategy<Value = Dense<f64>> {
        (0..=max_n).prop_flat_map(|n| {
            let value = prop_oneof![1 => -1.0..1.0f64, 1 => Just(0.0)];
            proptest::collection::vec(value, n * n)
                .prop_map(move |v| Dense::from_fn(n, n, |i, j| v[i.max(j) * n + i.min(j)]))
        })
    }

    #[test]
    fn a_zero_diagonal_needs_a_block_of_order_two() {
        let a = Dense::from_fn(2, 2, |i, j| if i == j { 0.0 } else { 3.0 });
        let ldlt = ldlt_dense(&a, Form::Symmetric).unwrap();
        let expected = Block::Two {
            d11: 0.0,
            d21: 3.0,
            d22: 0.0,
        };
        assert_eq!(ldlt.blocks, [expected]);
        assert_eq!(
            ldlt.inertia(),
            Inertia {
                positive: 1,
                negative: 1,
                zero: 0
            }
        );
        assert_eq!(ldlt.solve(&[6.0, 9.0]).unwrap(), [3.0, 2.0]);
    }

    #[test]
    fn zero_and_broken_matrices() {
        let zero = ldlt_dense(&Dense::<f64>::zeros(3, 3), Form::Symmetric).unwrap();
        assert_eq!(
            zero.inertia(),
            Inertia {
                positive: 0,
                negative: 0,
                zero: 3
            }
        );
        assert_eq!(
            zero.solve(&[1.0; 3]),
            Err(LdltError::Singular { column: 0 })
        );
        assert!(
            ldlt_dense(&Dense::<f64>::zeros(0, 0), Form::Symmetric)
                .unwrap()
                .blocks
                .is_empty()
        );
        let nan = Dense::from_fn(2, 2, |i, j| if i + j == 2 { f64::NAN } else { 1.0 });
        assert_eq!(
            ldlt_dense(&nan, Form::Symmetric),
            Err(LdltError::NotFinite { column: 1 })
        );
    }

    #[test]
    fn a_saddle_point_has_as_many_negative_eigenvalues_as_constraints() {
        // [I Bᵀ; B 0] with n = 31, 32, 33 and a third of them constraints.
        for n in [31usize, 32, 33] {
            let m = n / 3;
            let free = n - m;
            let a = Dense::from_fn(n, n, |i, j| {
                let (row, col) = (i.max(j), i.min(j));
                if row < free {
                    f64::from(u8::from(row == col))
                } else if col < free {
                    f64::from(u8::from(col % m == row - free))
                        + f64::from(u8::from(col == row - free))
                } else {
                    0.0
                }
            });
            let ldlt = ldlt_dense(&a, Form::Symmetric).unwrap();
            assert_eq!(
                ldlt.inertia(),
                Inertia {
                    positive: free,
                    negative: m,
                    zero: 0
                }
            );
            assert!(ldlt.factor_error(&a) <= 8.0 * n as f64 * f64::EPSILON);
        }
    }

    /// The complex matrix with these parts in its lower triangle, of this form.
    fn complex(re: &Dense<f64>, form: Form) -> Dense<Complex<f64>> {
        let n = re.nrows();
        let part = |i: usize, j: usize| re[((7 * i + j + 3) % n, (5 * j + i) % n)];
        let entries = Dense::from_fn(n, n, |i, j| Complex::new(re[(i, j)], part(i, j)));
        whole(&entries, form)
    }

    proptest! {
        #[test]
        fn complex_factors_multiply_back_and_solve(a in symmetric(20)) {
            let n = a.nrows();
            for form in [Form::Symmetric, Form::Hermitian] {
                let mut a = complex(&a, form);
                for i in 0..n {
                    a[(i, i)] += [3.0, -3.0][i % 2];
                }
                let ldlt = ldlt_dense(&a, form).unwrap();
                let abs = |m: &Dense<Complex<f64>>| {
                    Dense::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)].magnitude())
                };
                let l = abs(&ldlt.lower);
                let scale = l.mul(&abs(&ldlt.diagonal())).mul(&l.transpose()).norm_inf();
                let error = ldlt.factor_error(&a) * a.norm_inf();
                prop_assert!(error <= 16.0 * n as f64 * f64::EPSILON * scale);
                let b: Vec<_> = (0..n).map(|i| Complex::new(1.0, i as f64)).collect();
                let x = ldlt.solve(&b).unwrap();
                let norm = |v: &[Complex<f64>]| v.iter().fold(0.0, |m: f64, v| m.max(v.magnitude()));
                let r: Vec<_> = a.mul_vec(&x).iter().zip(&b).map(|(ax, b)| b - ax).collect();
                let scale = a.norm_inf() * norm(&x) + norm(&b);
                prop_assert!(norm(&r) <= 128.0 * n as f64 * f64::EPSILON * scale);
                if form == Form::Hermitian {
                    let real_diagonal = ldlt.blocks.iter().all(|block| match *block {
                        Block::One(d) => d.im == 0.0,
                        Block::Two { d11, d22, .. } => d11.im == 0.0 && d22.im == 0.0,
                    });
                    prop_assert!(real_diagonal);
                }
            }
        }

        #[test]
        fn factors_multiply_back(a in symmetric(30)) {
            let n = a.nrows() as f64;
            let ldlt = ldlt_dense(&a, Form::Symmetric).unwrap();
            let abs = |m: &Dense<f64>| Dense::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)].abs());
            let l = abs(&ldlt.lower);
            let scale = l.mul(&abs(&ldlt.diagonal())).mul(&l.transpose()).norm_inf();
            let error = ldlt.factor_error(&a) * a.norm_inf();
            prop_assert!(error <= 8.0 * n * f64::EPSILON * scale, "{error} against {scale}");
        }

        /// Sylvester's law: M·D·Mᵀ has the inertia of D for every nonsingular M.
        #[test]
        fn inertia_survives_congruence(
            signs in proptest::collection::vec(prop_oneof![Just(-1.0), Just(1.0)], 0..12),
            noise in proptest::collection::vec(-2i32..=2, 144),
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
            let positive = signs.iter().filter(|&&s| s > 0.0).count();
            let expected = Inertia { positive, negative: n - positive, zero: 0 };
            prop_assert_eq!(ldlt_dense(&a, Form::Symmetric).unwrap().inertia(), expected);
        }

        #[test]
        fn solves_what_lu_solves(a in symmetric(20)) {
            let n = a.nrows();
            // A shift keeps most of these matrices indefinite and far from singular ones.
            let a = Dense::from_fn(n, n, |i, j| {
                a[(i, j)] + if i == j { [3.0, -3.0][i % 2] } else { 0.0 }
            });
            let b: Vec<f64> = (0..n).map(|i| 1.0 + i as f64).collect();
            let x = ldlt_dense(&a, Form::Symmetric).unwrap().solve(&b).unwrap();
            let y = dense_solve(&lu_dense(&a, PivotPolicy::PARTIAL).unwrap(), &b);
            // Compare through the residual: both must be backward stable whatever the condition.
            let norm = |v: &[f64]| v.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            for x in [x, y] {
                let r: Vec<f64> = a.mul_vec(&x).iter().zip(&b).map(|(ax, b)| b - ax).collect();
                let scale = a.norm_inf() * norm(&x) + norm(&b);
                prop_assert!(norm(&r) <= 64.0 * n as f64 * f64::EPSILON * scale);
            }
        }
    }
}
