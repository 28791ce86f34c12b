//! Triangular solves, front by front.
//!
//! Forward, values are named by rows of B; backward, by its columns: a pivot's result stays in the place of its row until the
//! backward sweep fetches it, so delayed and off-diagonal pivots need nothing special. Several right-hand sides travel side by
//! side in blocks, and the products become those of matrices.

use luge_dense::FrontalScalar;
use luge_sparse::{CancelFlag, Cancelled};
use rayon::prelude::*;

use super::{FrontView, FrontalLu};
use crate::sweep::{Sweep, gather, scratch_bytes};
use crate::triangular::{BLOCK, Panel, Steps, pack, unpack};

impl<F: FrontalScalar> FrontalLu<F> {
    /// Solves B·X = R in place: column q of `x` is `x[q * ld..q * ld + n]`, on entry the right-hand
    /// side in the order of B's rows, on return the solution in the order of its columns.
    ///
    /// With `threads > 1` the threads of the current rayon pool share subtrees, large fronts and blocks of right-hand sides; the
    /// result does not depend on it.
    ///
    /// # Panics
    ///
    /// If `x` is too short, `ld < n`, or the last refactorization failed; or if another rank gives up, which
    /// [`solve_within`](Self::solve_within) returns.
    #[track_caller]
    pub fn solve(&self, x: &mut [F], ld: usize, nrhs: usize, threads: usize) {
        let never = CancelFlag::new();
        let solved = self.blocks(x, ld, nrhs, threads, false, &never);
        solved.unwrap_or_else(|_| unreachable!("nobody raises the flag"));
    }

    /// As [`solve`](Self::solve), stopping soon after `cancel` is raised; `x` is then of no use.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_within(
        &self,
        x: &mut [F],
        ld: usize,
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        self.blocks(x, ld, nrhs, threads, false, cancel)
    }

    /// Solves Bᵀ·X = R in place; see [`solve`](Self::solve). The right-hand side comes in the order
    /// of B's columns, the solution in that of its rows.
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_transpose(&self, x: &mut [F], ld: usize, nrhs: usize, threads: usize) {
        let never = CancelFlag::new();
        let solved = self.blocks(x, ld, nrhs, threads, true, &never);
        solved.unwrap_or_else(|_| unreachable!("nobody raises the flag"));
    }

    /// As [`solve_transpose`](Self::solve_transpose), stopping soon after `cancel` is raised; `x` is then of no use.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_transpose_within(
        &self,
        x: &mut [F],
        ld: usize,
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        self.blocks(x, ld, nrhs, threads, true, cancel)
    }

    /// Bytes that a solve with so many right-hand sides works in.
    pub fn solve_scratch_bytes(&self, nrhs: usize, threads: usize) -> u64 {
        let solves = self.symbolic.solves();
        scratch_bytes::<F>(
            solves,
            [nrhs, threads],
            [2 * self.n(), self.store.largest(&self.symbolic.tree)],
        )
    }

    #[track_caller]
    fn blocks(
        &self,
        x: &mut [F],
        ld: usize,
        nrhs: usize,
        threads: usize,
        transpose: bool,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let n = self.n();
        assert!(self.valid, "the last refactorization failed");
        if nrhs == 0 || n == 0 {
            return Ok(());
        }
        assert!(ld >= n, "columns {ld} apart, but of length {n}");
        assert!(
            x.len() >= (nrhs - 1) * ld + n,
            "{nrhs} columns of length {n}, {ld} apart, need more than {} values",
            x.len()
        );
        let threads = if self.spread.is_some() { 1 } else { threads };
        let work = |block: &mut [F]| {
            // The last column may end before `ld`.
            let sizes = [ld, block.len().div_ceil(ld), threads];
            if transpose {
                self.some_transposed(block, sizes, cancel)
            } else {
                self.some(block, sizes, cancel)
            }
        };
        let x = &mut x[..(nrhs - 1) * ld + n];
        if threads > 1 {
            x.par_chunks_mut(BLOCK * ld).try_for_each(work)
        } else {
            x.chunks_mut(BLOCK * ld).try_for_each(work)
        }
    }

    /// Through the fronts with so many values by label.
    pub(super) fn sweep(&self, width: usize, threads: usize) -> Sweep<'_> {
        Sweep::new(
            &self.symbolic,
            &self.store,
            self.spread.as_ref(),
            [width, threads],
        )
    }

    /// Labels of the fully summed rows, and columns, of a front.
    fn row_labels(&self, s: usize) -> &[u32] {
        self.store.labels(&self.symbolic.tree, s).0
    }

    pub(super) fn col_labels(&self, s: usize) -> &[u32] {
        self.store.labels(&self.symbolic.tree, s).1
    }

    /// B·X = R for some right-hand sides, `ld` apart: value q of row i at `i * width + q`.
    fn some(
        &self,
        x: &mut [F],
        [ld, width, threads]: [usize; 3],
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let perm = &self.symbolic.tree.perm;
        let sweep = self.sweep(width, threads);
        let mut sums = pack(perm, x, ld, width, threads);
        sweep.forward(
            &mut sums,
            |s| self.row_labels(s),
            |s, local, is_shared| {
                cancel.check()?;
                let (f, steps) = (self.front(s), self.steps(is_shared));
                // SAFETY: the panel of a front, and values for its rows.
                unsafe { steps.lower(f.pivots_panel(), local.as_mut_ptr(), width) };
                Ok(())
            },
        )?;
        // A pivot's result stays in the place of its row until now.
        let mut solution = vec![F::zero(); self.n() * width];
        sweep.backward(
            &mut solution,
            |s| self.col_labels(s),
            |s, local, is_shared| {
                cancel.check()?;
                let (f, steps) = (self.front(s), self.steps(is_shared));
                let (p, k) = (f.pivots, f.k);
                gather(&sums, &f.rows[..p], width, local);
                let x = local.as_mut_ptr();
                // SAFETY: the panels of a front, and values for its columns.
                unsafe {
                    steps.subtract_transposed(f.rows_panel(), x.add(k * width), x, width);
                    steps.subtract(f.delayed_panel(), x.add(p * width), x, width);
                    steps.upper(f.upper_panel(), x, width);
                }
                Ok(())
            },
        )?;
        unpack(&solution, perm, x, ld, width, threads);
        Ok(())
    }

    /// Bᵀ·X = R for some right-hand sides, as [`some`](Self::some).
    fn some_transposed(
        &self,
        x: &mut [F],
        [ld, width, threads]: [usize; 3],
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let perm = &self.symbolic.tree.perm;
        let sweep = self.sweep(width, threads);
        let mut sums = pack(perm, x, ld, width, threads);
        sweep.forward(
            &mut sums,
            |s| self.col_labels(s),
            |s, local, is_shared| {
                cancel.check()?;
                let (f, steps) = (self.front(s), self.steps(is_shared));
                let (p, k) = (f.pivots, f.k);
                let x = local.as_mut_ptr();
                // SAFETY: the panels of a front, and values for its columns.
                unsafe {
                    steps.upper_transposed(f.upper_panel(), x, width);
                    steps.subtract_transposed(f.delayed_panel(), x, x.add(p * width), width);
                    steps.subtract(f.rows_panel(), x, x.add(k * width), width);
                }
                Ok(())
            },
        )?;
        let mut solution = vec![F::zero(); self.n() * width];
        sweep.backward(
            &mut solution,
            |s| self.row_labels(s),
            |s, local, is_shared| {
                cancel.check()?;
                let (f, steps) = (self.front(s), self.steps(is_shared));
                gather(&sums, &f.cols[..f.pivots], width, local);
                // SAFETY: the panel of a front, and values for its rows.
                unsafe { steps.lower_transposed(f.pivots_panel(), local.as_mut_ptr(), width) };
                Ok(())
            },
        )?;
        unpack(&solution, perm, x, ld, width, threads);
        Ok(())
    }

    fn steps(&self, is_shared: bool) -> Steps<'_, F> {
        Steps {
            kernels: self.kernels,
            is_shared,
        }
    }
}

impl<F: FrontalScalar> FrontView<'_, F> {
    /// Columns of L, with the diagonal block of U above its diagonal.
    fn pivots_panel(&self) -> Panel<F> {
        self.panel(self.m, self.pivots)
    }

    /// The diagonal block alone.
    fn upper_panel(&self) -> Panel<F> {
        self.panel(self.pivots, self.pivots)
    }

    /// The rows of U in the delayed columns.
    fn delayed_panel(&self) -> Panel<F> {
        let delayed = self.panel(self.pivots, self.k - self.pivots);
        Panel {
            entries: delayed.entries.wrapping_add(self.pivots * self.m),
            ..delayed
        }
    }

    fn panel(&self, rows: usize, cols: usize) -> Panel<F> {
        Panel {
            entries: self.lp.as_ptr(),
            rows,
            cols,
            ld: self.m,
        }
    }

    /// The rows of U right of the fully summed columns, transposed.
    fn rows_panel(&self) -> Panel<F> {
        Panel {
            entries: self.ut.as_ptr(),
            rows: self.below,
            cols: self.pivots,
            ld: self.below,
        }
    }
}
