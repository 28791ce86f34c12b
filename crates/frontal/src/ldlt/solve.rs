//! Triangular solves, front by front.
//!
//! Values travel in slots named by columns of the matrix, and stay there: forward with L, then with D, then backward with
//! Lᵀ, or with Lᴴ by way of conjugates before and after, so delayed columns and exchanges need nothing special. Several right-hand sides travel side by side in blocks, and
//! the products become those of matrices.

use luge_dense::{FrontalScalar, inverse_of_two};
use luge_sparse::{CancelFlag, Cancelled, Form};
use rayon::prelude::*;

use super::{FrontView, FrontalLdlt};
use crate::sweep::{Sweep, scratch_bytes};
use crate::triangular::{BLOCK, Panel, Steps, pack, unpack};

/// Factors to solve with.
#[derive(Clone, Copy)]
struct Parts {
    lower: bool,
    diagonal: bool,
    upper: bool,
}

const NONE: Parts = Parts {
    lower: false,
    diagonal: false,
    upper: false,
};

impl<F: FrontalScalar> FrontalLdlt<F> {
    /// Solves B·X = R in place: `x` has `nrhs` columns of n values, on entry the right-hand sides, on return the
    /// solutions, both in the order of the pattern.
    ///
    /// The unknown of a zero pivot is zero before the backward substitution, so a consistent singular system is solved.
    ///
    /// With `threads > 1` the threads of the current rayon pool share subtrees, large fronts and blocks of right-hand sides; the
    /// result does not depend on it. O(lnz) for each right-hand side.
    ///
    /// # Errors
    ///
    /// [`Cancelled`], soon after `cancel` is raised; `x` is then of no use.
    ///
    /// # Panics
    ///
    /// If `x` has not `nrhs` times n values, or the last refactorization failed.
    #[track_caller]
    pub fn solve(
        &self,
        x: &mut [F],
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let all = Parts {
            lower: true,
            diagonal: true,
            upper: true,
        };
        self.blocks(x, nrhs, threads, all, cancel)
    }

    /// Solves L·X = P·R in place: the entry of X for a pivot takes the place of its column, so that this,
    /// [`solve_diagonal`](Self::solve_diagonal) and [`solve_upper`](Self::solve_upper) one after the other are
    /// [`solve`](Self::solve).
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_lower(
        &self,
        x: &mut [F],
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let parts = Parts {
            lower: true,
            ..NONE
        };
        self.blocks(x, nrhs, threads, parts, cancel)
    }

    /// Solves D·X = R in place, each pivot's entry in the place of its column; zero where the pivot is zero.
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_diagonal(
        &self,
        x: &mut [F],
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let parts = Parts {
            diagonal: true,
            ..NONE
        };
        self.blocks(x, nrhs, threads, parts, cancel)
    }

    /// Solves Lᵀ·P·X = R in place, or Lᴴ·P·X = R with a Hermitian matrix, R with each pivot's entry in the place of its column.
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_upper(
        &self,
        x: &mut [F],
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let parts = Parts {
            upper: true,
            ..NONE
        };
        self.blocks(x, nrhs, threads, parts, cancel)
    }

    /// Bytes that a solve with so many right-hand sides works in.
    pub fn solve_scratch_bytes(&self, nrhs: usize, threads: usize) -> u64 {
        let solves = self.symbolic.solves();
        scratch_bytes::<F>(
            solves,
            [nrhs, threads],
            [self.n(), self.store.largest(&self.symbolic.tree)],
        )
    }

    #[track_caller]
    fn blocks(
        &self,
        x: &mut [F],
        nrhs: usize,
        threads: usize,
        parts: Parts,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let n = self.n();
        self.check_valid();
        assert_eq!(
            x.len(),
            nrhs * n,
            "right-hand sides of a matrix of order {n}"
        );
        if x.is_empty() {
            return Ok(());
        }
        let threads = if self.spread.is_some() { 1 } else { threads };
        let work = |block: &mut [F]| self.some(block, [block.len() / n, threads], parts, cancel);
        if threads > 1 {
            x.par_chunks_mut(BLOCK * n).try_for_each(work)
        } else {
            x.chunks_mut(BLOCK * n).try_for_each(work)
        }
    }

    /// Some right-hand sides: value q of row i at `i * width + q`.
    fn some(
        &self,
        x: &mut [F],
        [width, threads]: [usize; 2],
        parts: Parts,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let (perm, n) = (&self.symbolic.tree.perm, self.n());
        let labels = |s: usize| self.store.labels(&self.symbolic.tree, s).1;
        let spread = self.spread.as_ref();
        let sweep = Sweep::new(&self.symbolic, &self.store, spread, [width, threads]);
        let mut values = pack(perm, x, n, width, threads);
        if parts.lower || parts.diagonal {
            sweep.forward(&mut values, labels, |s, local, is_shared| {
                cancel.check()?;
                let (f, steps) = (self.front(s), self.steps(is_shared));
                if parts.lower {
                    // SAFETY: the panel of a front, and values for its rows.
                    unsafe { steps.lower(f.pivots_panel(), local.as_mut_ptr(), width) };
                }
                if parts.diagonal {
                    f.solve_diagonal(self.form, local, width);
                }
                Ok(())
            })?;
        }
        self.conjugate(&mut values, parts.upper);
        // Without Lᵀ the ranks tell each other their values all the same.
        if parts.upper || self.spread.is_some() {
            sweep.backward(&mut values, labels, |s, local, is_shared| {
                cancel.check()?;
                if parts.upper {
                    let (f, steps) = (self.front(s), self.steps(is_shared));
                    // SAFETY: as above.
                    unsafe { steps.lower_transposed(f.pivots_panel(), local.as_mut_ptr(), width) };
                }
                Ok(())
            })?;
        }
        self.conjugate(&mut values, parts.upper);
        unpack(&values, perm, x, n, width, threads);
        Ok(())
    }

    fn steps(&self, is_shared: bool) -> Steps<'_, F> {
        Steps {
            kernels: self.kernels,
            is_shared,
        }
    }

    /// Conjugates values before and after Lᵀ, if the matrix is Hermitian: L⁻ᴴ·y is the conjugate of L⁻ᵀ·ȳ.
    fn conjugate(&self, y: &mut [F], is_used: bool) {
        if is_used && self.form.conjugates::<F>() {
            y.iter_mut().for_each(|v| *v = v.conjugate());
        }
    }
}

impl<F: FrontalScalar> FrontView<'_, F> {
    /// Columns of L.
    fn pivots_panel(&self) -> Panel<F> {
        Panel {
            entries: self.lp.as_ptr(),
            rows: self.m,
            cols: self.pivots,
            ld: self.m,
        }
    }

    /// Solves with the front's part of D: `width` values for each pivot, one after the other.
    fn solve_diagonal(&self, form: Form, x: &mut [F], width: usize) {
        let mut j = 0;
        while j < self.pivots {
            let d = self.lp[j * (self.m + 1)];
            let off = self.off_diagonal(j);
            if off == F::zero() {
                for v in &mut x[j * width..(j + 1) * width] {
                    *v = if d == F::zero() { d } else { v.quotient(d) };
                }
                j += 1;
                continue;
            }
            let second = self.lp[(j + 1) * (self.m + 1)];
            let [e11, e21, e22] = inverse_of_two(form, [d, off, second]);
            let e12 = form.counterpart(e21);
            let (upper, lower) = x[j * width..(j + 2) * width].split_at_mut(width);
            for (a, b) in upper.iter_mut().zip(lower) {
                let (x, y) = (*a, *b);
                *a = e11 * x + e12 * y;
                *b = e21 * x + e22 * y;
            }
            j += 2;
        }
    }
}
