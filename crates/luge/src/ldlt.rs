//! L and D of a symmetric or Hermitian matrix, each by itself.

use luge_sparse::num_traits::{Float, One, Zero};
use luge_sparse::{Form, Inertia, Scalar};

use crate::engine::{Engine, check_right_hand_sides};
use crate::error::Error;

/// The factors of a symmetric or Hermitian matrix taken apart, as [`Factors::ldlt`](crate::Factors::ldlt) lends them.
///
/// A = F·D·Fᵀ, where D is block diagonal with pivots of order 1 and 2 in the order of elimination, and F = S⁻¹·Pᵀ·L is the
/// unit lower triangle L with its rows where they are in A, S the scaling of rows and columns by powers of two. Of a complex
/// [Hermitian](crate::MatrixKind::Hermitian) matrix it is A = F·D·Fᴴ, and Fᴴ stands for Fᵀ below. A
/// [positive definite](crate::MatrixKind::PositiveDefinite) matrix has a D of positive numbers.
///
/// D is a copy on the host that [`set_d`](Self::set_d) replaces; [`Factors`](crate::Factors) keep theirs. Nothing here is
/// refined or measured: that is for those who know what they replaced.
///
/// L may be on a device. Then each solve with it or its transpose is a launch, and right-hand sides are copied there and back;
/// [`solve_diagonal`](Self::solve_diagonal) is on the host. A [`solve`](Self::solve) is two launches where one with all of the
/// factors, as [`Factors`](crate::Factors) do it, is one.
///
/// ```
/// use luge::{MatrixKind, MatrixRef, Options, Solver};
///
/// // 4 2
/// // 2 -3
/// let (offsets, columns, values) = ([0u32, 1, 3], [0u32, 0, 1], [4.0, 2.0, -3.0]);
/// let a: MatrixRef<'_, f64, u32> = MatrixRef::by_rows(2, 2, &offsets, &columns, &values);
/// let solver = Solver::new(Options::default().kind(MatrixKind::Symmetric))?;
/// let factors = solver.analyze(a)?.factorize(a)?;
///
/// // The matrix with the magnitudes of its pivots is positive definite, and as good a preconditioner.
/// let mut ldlt = factors.ldlt()?.expect("the matrix is symmetric");
/// let magnitudes: Vec<f64> = ldlt.d().iter().map(|d| d.abs()).collect();
/// assert!(ldlt.d().iter().any(|&d| d < 0.0));
/// ldlt.set_d(&magnitudes);
/// let mut x = [8.0_f64, 4.0];
/// ldlt.solve(&mut x)?;
/// assert!((x[0] - 2.0).abs() < 1e-14 && x[1].abs() < 1e-14);
/// # Ok::<(), luge::Error>(())
/// ```
pub struct Ldlt<'a, T: Scalar> {
    engine: &'a dyn Engine<T::Wide>,
    n: usize,
    form: Form,
    order: Vec<usize>,
    d: Vec<T>,
}

impl<'a, T: Scalar> Ldlt<'a, T> {
    /// The parts of these factors of order `n`, if they are those of a symmetric matrix.
    pub(crate) fn of(engine: &'a dyn Engine<T::Wide>, n: usize) -> Result<Option<Self>, Error> {
        let Some(report) = engine.report().symmetric else {
            return Ok(None);
        };
        Ok(engine.pivots()?.map(|pivots| Self {
            engine,
            n,
            form: report.form,
            order: pivots.order,
            d: pivots.d.into_iter().map(T::narrow).collect(),
        }))
    }

    /// The order of elimination: entry i is the column of the matrix whose pivot is the i-th.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// D in the order of elimination, 2 n numbers: number 2 i is D(i, i), number 2 i + 1 is D(i + 1, i), zero unless
    /// pivots i and i + 1 are one of order 2; D(i, i + 1) is the same number, or in a Hermitian matrix the conjugate of that. A zero
    /// pivot, with which
    /// [`SingularAction::Continue`](crate::SingularAction::Continue) went on, is zero.
    pub fn d(&self) -> &[T] {
        &self.d
    }

    /// How many eigenvalues of D are positive, negative and zero: D as it is now, [replaced](Self::set_d) or not. `None` for
    /// a complex symmetric matrix, whose eigenvalues have no signs.
    pub fn inertia(&self) -> Option<Inertia> {
        if T::COMPONENTS > 1 && self.form == Form::Symmetric {
            return None;
        }
        let mut inertia = Inertia::default();
        let zero = T::Real::zero();
        let mut count = |eigenvalue: T::Real| {
            if eigenvalue > zero {
                inertia.positive += 1;
            } else if eigenvalue < zero {
                inertia.negative += 1;
            } else {
                inertia.zero += 1;
            }
        };
        let mut i = 0;
        while i < self.n {
            let (d, off) = (self.d[2 * i].real(), self.d[2 * i + 1].modulus());
            if off == zero {
                count(d);
                i += 1;
                continue;
            }
            let next = self.d[2 * i + 2].real();
            // Scaled, so that no product of two entries overflows.
            let size = d.abs().max(off.abs()).max(next.abs());
            let determinant = (d / size) * next - (off / size) * off;
            // One eigenvalue has the sign of the trace, and their product is the determinant.
            let trace = d / size + next / size;
            let one = T::Real::one();
            let larger = if trace < zero { -one } else { one };
            count(larger);
            count(larger * determinant);
            i += 2;
        }
        Some(inertia)
    }

    /// Replaces D by another one of the same form. Its blocks of order 2 may be others than those of the factorization.
    ///
    /// # Panics
    ///
    /// If there are not 2 n numbers, one is not finite, a pivot is in two blocks of order 2, or the diagonal for a Hermitian matrix is
    /// not real.
    #[track_caller]
    pub fn set_d(&mut self, d: &[T]) {
        let n = self.n;
        assert!(
            d.len() == 2 * n,
            "D has {} numbers; a matrix of order {n} has {}",
            d.len(),
            2 * n
        );
        assert!(
            d.iter().all(|v| v.is_number()),
            "D has a number that is not finite"
        );
        let is_real = |d: &T| self.form.on_diagonal(*d) == *d;
        assert!(
            d.iter().step_by(2).all(is_real),
            "D has a number on its diagonal that is not real"
        );
        let is_second = |i: usize| i > 0 && d[2 * i - 1] != T::zero();
        let overlap = (0..n).find(|&i| d[2 * i + 1] != T::zero() && (is_second(i) || i + 1 == n));
        if let Some(i) = overlap {
            panic!("the block of order 2 at pivot {i} of D overlaps another one, or the end");
        }
        self.d.copy_from_slice(d);
    }

    /// Replaces b by F⁻¹·b, or each of several right-hand sides, stored one after another. The entry of pivot i is in the
    /// place of its column, `order()[i]`.
    ///
    /// # Errors
    ///
    /// [`Error::RightHandSideNotFinite`] and [`Error::SolutionNotFinite`], `x` being as it was; [`Error::OutOfMemory`];
    /// [`Error::Cancelled`].
    ///
    /// # Panics
    ///
    /// If the length of `x` is not a multiple of n.
    #[track_caller]
    pub fn solve_lower(&self, x: &mut [T]) -> Result<(), Error> {
        self.solve_triangle(x, false)
    }

    /// Replaces b by F⁻ᵀ·b, where entry `order()[i]` of b is that of pivot i; otherwise as
    /// [`solve_lower`](Self::solve_lower).
    ///
    /// # Errors
    ///
    /// As [`solve_lower`](Self::solve_lower).
    ///
    /// # Panics
    ///
    /// As [`solve_lower`](Self::solve_lower).
    #[track_caller]
    pub fn solve_upper(&self, x: &mut [T]) -> Result<(), Error> {
        self.solve_triangle(x, true)
    }

    /// Replaces b by D⁻¹·b, where entry `order()[i]` is that of pivot i, zero where the pivot is zero; otherwise as
    /// [`solve_lower`](Self::solve_lower).
    ///
    /// # Errors
    ///
    /// As [`solve_lower`](Self::solve_lower).
    ///
    /// # Panics
    ///
    /// As [`solve_lower`](Self::solve_lower).
    #[track_caller]
    pub fn solve_diagonal(&self, x: &mut [T]) -> Result<(), Error> {
        self.check(x)?;
        let mut solution = x.to_vec();
        for x in solution.chunks_exact_mut(self.n.max(1)) {
            let mut i = 0;
            while i < self.n {
                let [d, off] = [self.d[2 * i], self.d[2 * i + 1]];
                let first = self.order[i];
                if off == T::zero() {
                    x[first] = if d == T::zero() {
                        d
                    } else {
                        x[first].quotient(d)
                    };
                    i += 1;
                    continue;
                }
                let second = self.order[i + 1];
                let block = [d, off, self.d[2 * i + 2]];
                let [e11, e21, e22] = luge_frontal::inverse_of_two(self.form, block);
                let e12 = self.form.counterpart(e21);
                let [a, b] = [x[first], x[second]];
                x[first] = e11 * a + e12 * b;
                x[second] = e21 * a + e22 * b;
                i += 2;
            }
        }
        self.accept(x, &solution)
    }

    /// Replaces b by F⁻ᵀ·D⁻¹·F⁻¹·b: the solution of A·x = b, as far as one pass of solves goes, unless D was
    /// [replaced](Self::set_d); otherwise as [`solve_lower`](Self::solve_lower).
    ///
    /// # Errors
    ///
    /// As [`solve_lower`](Self::solve_lower).
    ///
    /// # Panics
    ///
    /// As [`solve_lower`](Self::solve_lower).
    #[track_caller]
    pub fn solve(&self, x: &mut [T]) -> Result<(), Error> {
        let mut solution = x.to_vec();
        self.solve_lower(&mut solution)?;
        self.solve_diagonal(&mut solution)?;
        self.solve_upper(&mut solution)?;
        x.copy_from_slice(&solution);
        Ok(())
    }

    #[track_caller]
    fn solve_triangle(&self, x: &mut [T], transpose: bool) -> Result<(), Error> {
        self.check(x)?;
        if x.is_empty() {
            return Ok(());
        }
        let mut wide = T::in_wide(x).into_owned();
        self.engine.solve_triangle(&mut wide, transpose)?;
        let solution: Vec<T> = wide.into_iter().map(T::narrow).collect();
        self.accept(x, &solution)
    }

    /// Refuses right-hand sides that are none.
    #[track_caller]
    fn check(&self, x: &[T]) -> Result<(), Error> {
        let n = self.n;
        assert!(
            x.len().is_multiple_of(n.max(1)) && (n > 0 || x.is_empty()),
            "the right-hand sides have {} entries; the matrix has order {n}",
            x.len()
        );
        check_right_hand_sides(x, n)
    }

    fn accept(&self, x: &mut [T], solution: &[T]) -> Result<(), Error> {
        if let Some(at) = solution.iter().position(|v| !v.is_number()) {
            return Err(Error::SolutionNotFinite { row: at % self.n });
        }
        x.copy_from_slice(solution);
        Ok(())
    }
}

impl<T: Scalar> std::fmt::Debug for Ldlt<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ldlt")
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}
