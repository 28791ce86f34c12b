//! Triangular solves, front by front.
//!
//! Values travel in slots named by columns of the matrix, and stay there: forward with L, then with D, then backward with
//! Lᵀ, or with Lᴴ by way of conjugates before and after, so delayed columns and exchanges need nothing special. Several right-hand sides travel side by side in blocks, and
//! the products become those of matrices.

use luge_dense::{FrontalScalar, inverse_of_two};
use luge_sparse::{CancelFlag, Cancelled, Form, bytes_of};
use rayon::prelude::*;

use super::{FrontView, FrontalLdlt};
use crate::factorize::Spread;
use crate::sweep::Sweep;
use crate::triangular::{
    BLOCK, add, gather, lower, lower_many, lower_transposed, lower_transposed_many, scatter, unpack,
};

/// Factors to solve with.
#[derive(Clone, Copy)]
struct Parts {
    lower: bool,
    diagonal: bool,
    upper: bool,
}

/// What a solve works in: values by label, and those of one front.
struct Vectors<F> {
    values: Vec<F>,
    local: Vec<F>,
}

impl<F> Vectors<F> {
    fn values(&mut self) -> &mut [F] {
        &mut self.values
    }
}

/// The work of a solve on one front.
type FrontVisit<'a, F> = dyn Fn(&mut Vectors<F>, &FrontView<'_, F>) + 'a;

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
    /// With `threads > 1` blocks of right-hand sides are shared among the threads of the current rayon pool; the result
    /// does not depend on it. O(lnz) for each right-hand side.
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
        let at_once = nrhs.div_ceil(BLOCK).min(threads.max(1)) as u64;
        let width = nrhs.min(BLOCK);
        at_once * bytes_of::<F>(width * (self.n() + self.largest()))
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
        if nrhs == 1 {
            return self.one(x, parts, cancel);
        }
        let work = |block: &mut [F]| self.many(block, parts, cancel);
        if threads > 1 && self.spread.is_none() {
            x.par_chunks_mut(BLOCK * n).try_for_each(work)
        } else {
            x.chunks_mut(BLOCK * n).try_for_each(work)
        }
    }

    /// Through the fronts with so many values by label.
    fn sweep(&self, width: usize) -> Sweep<'_> {
        Sweep {
            tree: &self.symbolic.tree,
            records: &self.store.records,
            ranks: self.spread.as_ref().map(|Spread { ranks, .. }| ranks),
            width,
        }
    }

    /// All sweeps of a solve with so many right-hand sides. `down` works on a front on the way to the roots, `up` on the way
    /// back.
    fn sweeps(
        &self,
        vectors: &mut Vectors<F>,
        width: usize,
        parts: Parts,
        cancel: &CancelFlag,
        [down, up]: [&FrontVisit<'_, F>; 2],
    ) -> Result<(), Cancelled> {
        let labels = |s: usize| self.store.labels(&self.symbolic.tree, s).1;
        let sweep = self.sweep(width);
        if parts.lower || parts.diagonal {
            sweep.forward(vectors, Vectors::values, labels, |vectors, s| {
                cancel.check()?;
                down(vectors, &self.front(s));
                Ok(())
            })?;
        }
        self.conjugate(&mut vectors.values, parts.upper);
        // Without Lᵀ the ranks tell each other their values all the same.
        if parts.upper || self.spread.is_some() {
            sweep.backward(vectors, Vectors::values, labels, |vectors, s| {
                cancel.check()?;
                if parts.upper {
                    up(vectors, &self.front(s));
                }
                Ok(())
            })?;
        }
        self.conjugate(&mut vectors.values, parts.upper);
        Ok(())
    }

    fn one(&self, x: &mut [F], parts: Parts, cancel: &CancelFlag) -> Result<(), Cancelled> {
        let perm = &self.symbolic.tree.perm;
        let mut vectors = Vectors {
            values: perm.iter().map(|&old| x[old as usize]).collect(),
            local: vec![F::zero(); self.largest()],
        };
        let down = |vectors: &mut Vectors<F>, f: &FrontView<'_, F>| {
            let (y, local) = (&mut vectors.values, &mut vectors.local[..f.m]);
            for (v, &label) in local.iter_mut().zip(f.cols) {
                *v = y[label as usize];
            }
            local[f.k..].fill(F::zero());
            if parts.lower {
                // SAFETY: the panel of a front and m values.
                unsafe {
                    lower(
                        self.kernels,
                        f.lp.as_ptr(),
                        [f.m, f.pivots],
                        local.as_mut_ptr(),
                    )
                };
            }
            if parts.diagonal {
                f.solve_diagonal(self.form, local, 1);
            }
            for (&v, &label) in local.iter().zip(f.cols) {
                y[label as usize] = v;
            }
            for (&v, &label) in local[f.k..].iter().zip(f.below_rows) {
                y[label as usize] += v;
            }
        };
        let up = |vectors: &mut Vectors<F>, f: &FrontView<'_, F>| {
            let (y, local) = (&mut vectors.values, &mut vectors.local[..f.m]);
            for (v, &label) in local.iter_mut().zip(f.cols.iter().chain(f.below_rows)) {
                *v = y[label as usize];
            }
            // SAFETY: as above.
            unsafe {
                lower_transposed(
                    self.kernels,
                    f.lp.as_ptr(),
                    [f.m, f.pivots],
                    local.as_mut_ptr(),
                );
            }
            for (&v, &label) in local.iter().zip(&f.cols[..f.pivots]) {
                y[label as usize] = v;
            }
        };
        self.sweeps(&mut vectors, 1, parts, cancel, [&down, &up])?;
        for (&v, &old) in vectors.values.iter().zip(perm) {
            x[old as usize] = v;
        }
        Ok(())
    }

    /// Blocks of right-hand sides: value q of row i at `i * width + q`, so that a front's values are a `width` × m matrix,
    /// and L·X becomes its product with Lᵀ.
    fn many(&self, x: &mut [F], parts: Parts, cancel: &CancelFlag) -> Result<(), Cancelled> {
        let perm = &self.symbolic.tree.perm;
        let n = self.n();
        let width = x.len() / n;
        let mut y = vec![F::zero(); n * width];
        for (row, &old) in y.chunks_exact_mut(width).zip(perm) {
            for (q, v) in row.iter_mut().enumerate() {
                *v = x[q * n + old as usize];
            }
        }
        let mut vectors = Vectors {
            values: y,
            local: vec![F::zero(); self.largest() * width],
        };
        let down = |vectors: &mut Vectors<F>, f: &FrontView<'_, F>| {
            let (y, local) = (&mut vectors.values, &mut vectors.local);
            gather(y, f.cols, width, local);
            local[f.k * width..f.m * width].fill(F::zero());
            if parts.lower {
                let (lp, v) = (f.lp.as_ptr(), local.as_mut_ptr());
                // SAFETY: `local` has width × m values, apart from the panel.
                unsafe { lower_many(self.kernels, lp, [f.m, f.pivots], v, width) };
            }
            if parts.diagonal {
                f.solve_diagonal(self.form, local, width);
            }
            scatter(local, f.cols, width, y);
            add(&local[f.k * width..], f.below_rows, width, y);
        };
        let up = |vectors: &mut Vectors<F>, f: &FrontView<'_, F>| {
            let (y, local) = (&mut vectors.values, &mut vectors.local);
            gather(y, f.cols, width, local);
            gather(y, f.below_rows, width, &mut local[f.k * width..]);
            let (lp, v) = (f.lp.as_ptr(), local.as_mut_ptr());
            // SAFETY: as above.
            unsafe { lower_transposed_many(self.kernels, lp, [f.m, f.pivots], v, width) };
            scatter(local, &f.cols[..f.pivots], width, y);
        };
        self.sweeps(&mut vectors, width, parts, cancel, [&down, &up])?;
        unpack(&vectors.values, perm, x, n, width);
        Ok(())
    }

    /// Conjugates values before and after Lᵀ, if the matrix is Hermitian: L⁻ᴴ·y is the conjugate of L⁻ᵀ·ȳ.
    fn conjugate(&self, y: &mut [F], is_used: bool) {
        if is_used && self.form.conjugates::<F>() {
            y.iter_mut().for_each(|v| *v = v.conjugate());
        }
    }

    /// Rows of the largest front, delayed columns included.
    fn largest(&self) -> usize {
        let fronts = self.store.records.iter().zip(&self.symbolic.tree.fronts);
        let rows = fronts.map(|(r, f)| (r.k + f.below) as usize);
        rows.max().unwrap_or(0)
    }
}

impl<F: FrontalScalar> FrontView<'_, F> {
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
