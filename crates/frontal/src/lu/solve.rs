//! Triangular solves, front by front.
//!
//! Forward, values travel in slots named by rows of B; backward, by its columns: a pivot's result
//! stays in the slot of its row until the backward sweep fetches it, so delayed and off-diagonal
//! pivots need nothing special. Several right-hand sides travel side by side in blocks, and the
//! products become those of matrices.

use luge_dense::{FrontalScalar, Gemm};
use luge_sparse::{CancelFlag, Cancelled, bytes_of};
use rayon::prelude::*;

use super::{FrontView, FrontalLu};
use crate::factorize::Spread;
use crate::sweep::Sweep;
use crate::triangular::{
    BLOCK, TRIANGLE, add, gather, lower, lower_many, lower_transposed, lower_transposed_many,
    scatter, unpack,
};

/// What a solve works in.
struct Vectors<F> {
    /// Values by label in the forward sweep.
    forward: Vec<F>,
    /// And in the backward sweep.
    backward: Vec<F>,
    /// Those of one front.
    local: Vec<F>,
}

impl<F> Vectors<F> {
    fn sums(&mut self) -> &mut [F] {
        &mut self.forward
    }

    fn solution(&mut self) -> &mut [F] {
        &mut self.backward
    }
}

impl<F: FrontalScalar> FrontalLu<F> {
    /// Solves B·X = R in place: column q of `x` is `x[q * ld..q * ld + n]`, on entry the right-hand
    /// side in the order of B's rows, on return the solution in the order of its columns.
    ///
    /// With `threads > 1` blocks of right-hand sides are shared among the threads of the current
    /// rayon pool; the result does not depend on it.
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
        let at_once = nrhs.div_ceil(BLOCK).min(threads.max(1)) as u64;
        let width = nrhs.min(BLOCK);
        at_once * bytes_of::<F>(width * (2 * self.n() + self.largest()))
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
        if nrhs == 1 {
            return if transpose {
                self.one_transposed(&mut x[..n], cancel)
            } else {
                self.one(&mut x[..n], cancel)
            };
        }
        let work = |block: &mut [F]| {
            let width = block.len().div_ceil(ld);
            if transpose {
                self.many_transposed(block, ld, width, cancel)
            } else {
                self.many(block, ld, width, cancel)
            }
        };
        let x = &mut x[..(nrhs - 1) * ld + n];
        // A block's last column may end before `ld`: the division above rounds up.
        if threads > 1 && self.spread.is_none() {
            x.par_chunks_mut(BLOCK * ld).try_for_each(work)
        } else {
            x.chunks_mut(BLOCK * ld).try_for_each(work)
        }
    }

    /// Through the fronts with so many values by label.
    pub(super) fn sweep(&self, width: usize) -> Sweep<'_> {
        Sweep {
            tree: &self.symbolic.tree,
            records: &self.store.records,
            ranks: self.spread.as_ref().map(|Spread { ranks, .. }| ranks),
            width,
        }
    }

    /// Labels of the fully summed rows, and columns, of a front.
    fn row_labels(&self, s: usize) -> &[u32] {
        self.store.labels(&self.symbolic.tree, s).0
    }

    pub(super) fn col_labels(&self, s: usize) -> &[u32] {
        self.store.labels(&self.symbolic.tree, s).1
    }

    fn one(&self, x: &mut [F], cancel: &CancelFlag) -> Result<(), Cancelled> {
        let perm = &self.symbolic.tree.perm;
        let mut vectors = Vectors {
            forward: perm.iter().map(|&old| x[old as usize]).collect(),
            backward: Vec::new(),
            local: vec![F::zero(); self.largest()],
        };
        let sweep = self.sweep(1);
        let labels = |s| self.row_labels(s);
        sweep.forward(&mut vectors, Vectors::sums, labels, |vectors, s| {
            cancel.check()?;
            let f = self.front(s);
            let (y, local) = (&mut vectors.forward, &mut vectors.local[..f.m]);
            for (v, &row) in local.iter_mut().zip(f.rows) {
                *v = y[row as usize];
            }
            local[f.k..].fill(F::zero());
            // SAFETY: the panels of a front and m values to work in.
            unsafe {
                lower(
                    self.kernels,
                    f.lp.as_ptr(),
                    [f.m, f.pivots],
                    local.as_mut_ptr(),
                )
            };
            for (&v, &row) in local.iter().zip(f.rows) {
                y[row as usize] = v;
            }
            for (&v, &row) in local[f.k..].iter().zip(f.below_rows) {
                y[row as usize] += v;
            }
            Ok(())
        })?;
        vectors.backward = vec![F::zero(); self.n()];
        let labels = |s| self.col_labels(s);
        sweep.backward(&mut vectors, Vectors::solution, labels, |vectors, s| {
            cancel.check()?;
            let f = self.front(s);
            let (p, k) = (f.pivots, f.k);
            let (y, solution) = (&vectors.forward, &mut vectors.backward);
            let local = &mut vectors.local[..f.m];
            for (v, &row) in local.iter_mut().zip(&f.rows[..p]) {
                *v = y[row as usize];
            }
            for (v, &col) in local[p..].iter_mut().zip(&f.cols[p..]) {
                *v = solution[col as usize];
            }
            for (v, &col) in local[k..].iter_mut().zip(f.below_rows) {
                *v = solution[col as usize];
            }
            // SAFETY: as above.
            unsafe { self.upper(&f, local.as_mut_ptr()) };
            for (&v, &col) in local.iter().zip(&f.cols[..p]) {
                solution[col as usize] = v;
            }
            Ok(())
        })?;
        for (&v, &old) in vectors.backward.iter().zip(perm) {
            x[old as usize] = v;
        }
        Ok(())
    }

    /// Solves with the pivots' part of U, given the values of the front's other columns.
    ///
    /// # Safety
    ///
    /// `x` has `m` values.
    unsafe fn upper(&self, f: &FrontView<'_, F>, x: *mut F) {
        let (m, k, p, c) = (f.m, f.k, f.pivots, f.below);
        let lp = f.lp.as_ptr();
        // SAFETY: indices stay below m and k.
        unsafe {
            (self.kernels.gemv_transposed)(c, p, f.ut.as_ptr(), c, x.add(k), x);
            (self.kernels.gemv)(p, k - p, lp.add(p * m), m, x.add(p), x);
            let mut end = p;
            while end > 0 {
                let begin = end.saturating_sub(TRIANGLE);
                for q in (begin..end).rev() {
                    let v = (*x.add(q)).quotient(*lp.add(q + q * m));
                    *x.add(q) = v;
                    for i in begin..q {
                        *x.add(i) -= *lp.add(i + q * m) * v;
                    }
                }
                (self.kernels.gemv)(begin, end - begin, lp.add(begin * m), m, x.add(begin), x);
                end = begin;
            }
        }
    }

    fn one_transposed(&self, x: &mut [F], cancel: &CancelFlag) -> Result<(), Cancelled> {
        let perm = &self.symbolic.tree.perm;
        // Uᵀ: values in slots of columns; a pivot's result goes to the slot of its row.
        let mut vectors = Vectors {
            forward: perm.iter().map(|&old| x[old as usize]).collect(),
            backward: vec![F::zero(); self.n()],
            local: vec![F::zero(); self.largest()],
        };
        let sweep = self.sweep(1);
        let labels = |s| self.col_labels(s);
        sweep.forward(&mut vectors, Vectors::sums, labels, |vectors, s| {
            cancel.check()?;
            let f = self.front(s);
            let (p, k) = (f.pivots, f.k);
            let (y, between) = (&mut vectors.forward, &mut vectors.backward);
            let local = &mut vectors.local[..f.m];
            for (v, &col) in local.iter_mut().zip(f.cols) {
                *v = y[col as usize];
            }
            local[k..].fill(F::zero());
            // SAFETY: the panels of a front and m values to work in.
            unsafe { self.upper_transposed(&f, local.as_mut_ptr()) };
            for (&v, &row) in local.iter().zip(&f.rows[..p]) {
                between[row as usize] = v;
            }
            for (&v, &col) in local[p..].iter().zip(&f.cols[p..]) {
                y[col as usize] = v;
            }
            for (&v, &col) in local[k..].iter().zip(f.below_rows) {
                y[col as usize] += v;
            }
            Ok(())
        })?;
        // Lᵀ: everything in slots of rows.
        let labels = |s| self.row_labels(s);
        sweep.backward(&mut vectors, Vectors::solution, labels, |vectors, s| {
            cancel.check()?;
            let f = self.front(s);
            let (between, local) = (&mut vectors.backward, &mut vectors.local[..f.m]);
            for (v, &row) in local.iter_mut().zip(f.rows.iter().chain(f.below_rows)) {
                *v = between[row as usize];
            }
            // SAFETY: as above.
            unsafe {
                lower_transposed(
                    self.kernels,
                    f.lp.as_ptr(),
                    [f.m, f.pivots],
                    local.as_mut_ptr(),
                );
            };
            for (&v, &row) in local.iter().zip(&f.rows[..f.pivots]) {
                between[row as usize] = v;
            }
            Ok(())
        })?;
        for (&v, &old) in vectors.backward.iter().zip(perm) {
            x[old as usize] = v;
        }
        Ok(())
    }

    /// Solves with the transpose of the pivots' part of U and subtracts from the rest.
    ///
    /// # Safety
    ///
    /// `x` has `m` values.
    unsafe fn upper_transposed(&self, f: &FrontView<'_, F>, x: *mut F) {
        let (m, k, p, c) = (f.m, f.k, f.pivots, f.below);
        let lp = f.lp.as_ptr();
        // SAFETY: indices stay below m and k.
        unsafe {
            let mut j = 0;
            while j < p {
                let width = TRIANGLE.min(p - j);
                (self.kernels.gemv_transposed)(j, width, lp.add(j * m), m, x, x.add(j));
                for q in j..j + width {
                    let column = lp.add(q * m);
                    let mut v = *x.add(q);
                    for i in j..q {
                        v -= *column.add(i) * *x.add(i);
                    }
                    *x.add(q) = v.quotient(*column.add(q));
                }
                j += width;
            }
            (self.kernels.gemv_transposed)(p, k - p, lp.add(p * m), m, x, x.add(p));
            (self.kernels.gemv)(c, p, f.ut.as_ptr(), c, x, x.add(k));
        }
    }

    /// Blocks of right-hand sides: value q of row i at `i * width + q`, so that a front's values are
    /// a `width` × m matrix, and L·X becomes its product with Lᵀ.
    fn many(
        &self,
        x: &mut [F],
        ld: usize,
        width: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let perm = &self.symbolic.tree.perm;
        let mut vectors = Vectors {
            forward: self.pack(x, ld, width),
            backward: Vec::new(),
            local: vec![F::zero(); self.largest() * width],
        };
        let sweep = self.sweep(width);
        let labels = |s| self.row_labels(s);
        sweep.forward(&mut vectors, Vectors::sums, labels, |vectors, s| {
            cancel.check()?;
            let f = self.front(s);
            let (m, k, p) = (f.m, f.k, f.pivots);
            let (y, local) = (&mut vectors.forward, &mut vectors.local);
            gather(y, f.rows, width, local);
            local[k * width..m * width].fill(F::zero());
            let (lp, v) = (f.lp.as_ptr(), local.as_mut_ptr());
            // SAFETY: `local` has width × m values, apart from the panels.
            unsafe { lower_many(self.kernels, lp, [m, p], v, width) };
            scatter(local, f.rows, width, y);
            add(&local[k * width..], f.below_rows, width, y);
            Ok(())
        })?;
        vectors.backward = vec![F::zero(); self.n() * width];
        let labels = |s| self.col_labels(s);
        sweep.backward(&mut vectors, Vectors::solution, labels, |vectors, s| {
            cancel.check()?;
            let f = self.front(s);
            let (m, k, p, c) = (f.m, f.k, f.pivots, f.below);
            let (solution, local) = (&mut vectors.backward, &mut vectors.local);
            gather(&vectors.forward, &f.rows[..p], width, local);
            gather(solution, &f.cols[p..], width, &mut local[p * width..]);
            gather(solution, f.below_rows, width, &mut local[k * width..]);
            let (lp, v) = (f.lp.as_ptr(), local.as_mut_ptr());
            // SAFETY: as above.
            unsafe {
                (self.kernels.gemm_nn)(&Gemm {
                    rows: width,
                    columns: p,
                    depth: c,
                    a: v.add(k * width),
                    lda: width,
                    b: f.ut.as_ptr(),
                    ldb: c,
                    c: v,
                    ldc: width,
                });
                self.subtract_upper(&f, p, k, v, width);
                let mut end = p;
                while end > 0 {
                    let begin = end.saturating_sub(TRIANGLE);
                    for q in (begin..end).rev() {
                        let pivot = *lp.add(q + q * m);
                        for t in 0..width {
                            let value = v.add(q * width + t);
                            *value = (*value).quotient(pivot);
                        }
                        for i in begin..q {
                            let u = *lp.add(i + q * m);
                            for t in 0..width {
                                *v.add(i * width + t) -= u * *v.add(q * width + t);
                            }
                        }
                    }
                    // Rows above, by the columns begin .. end.
                    (self.kernels.gemm_nt)(&Gemm {
                        rows: width,
                        columns: begin,
                        depth: end - begin,
                        a: v.add(begin * width),
                        lda: width,
                        b: lp.add(begin * m),
                        ldb: m,
                        c: v,
                        ldc: width,
                    });
                    end = begin;
                }
            }
            scatter(local, &f.cols[..p], width, solution);
            Ok(())
        })?;
        unpack(&vectors.backward, perm, x, ld, width);
        Ok(())
    }

    /// Subtracts the delayed columns' part from the pivots' values.
    ///
    /// # Safety
    ///
    /// `v` has width × m values.
    unsafe fn subtract_upper(
        &self,
        f: &FrontView<'_, F>,
        p: usize,
        k: usize,
        v: *mut F,
        width: usize,
    ) {
        // SAFETY: indices stay below k.
        unsafe {
            (self.kernels.gemm_nt)(&Gemm {
                rows: width,
                columns: p,
                depth: k - p,
                a: v.add(p * width),
                lda: width,
                b: f.lp.as_ptr().add(p * f.m),
                ldb: f.m,
                c: v,
                ldc: width,
            });
        }
    }

    fn many_transposed(
        &self,
        x: &mut [F],
        ld: usize,
        width: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let perm = &self.symbolic.tree.perm;
        let mut vectors = Vectors {
            forward: self.pack(x, ld, width),
            backward: vec![F::zero(); self.n() * width],
            local: vec![F::zero(); self.largest() * width],
        };
        let sweep = self.sweep(width);
        let labels = |s| self.col_labels(s);
        sweep.forward(&mut vectors, Vectors::sums, labels, |vectors, s| {
            cancel.check()?;
            let f = self.front(s);
            let (m, k, p, c) = (f.m, f.k, f.pivots, f.below);
            let (y, local) = (&mut vectors.forward, &mut vectors.local);
            gather(y, f.cols, width, local);
            local[k * width..m * width].fill(F::zero());
            let (lp, v) = (f.lp.as_ptr(), local.as_mut_ptr());
            // SAFETY: `local` has width × m values, apart from the panels.
            unsafe {
                let mut j = 0;
                while j < p {
                    let block = TRIANGLE.min(p - j);
                    (self.kernels.gemm_nn)(&Gemm {
                        rows: width,
                        columns: block,
                        depth: j,
                        a: v,
                        lda: width,
                        b: lp.add(j * m),
                        ldb: m,
                        c: v.add(j * width),
                        ldc: width,
                    });
                    for q in j..j + block {
                        let column = lp.add(q * m);
                        for i in j..q {
                            let u = *column.add(i);
                            for t in 0..width {
                                *v.add(q * width + t) -= u * *v.add(i * width + t);
                            }
                        }
                        for t in 0..width {
                            let value = v.add(q * width + t);
                            *value = (*value).quotient(*column.add(q));
                        }
                    }
                    j += block;
                }
                (self.kernels.gemm_nn)(&Gemm {
                    rows: width,
                    columns: k - p,
                    depth: p,
                    a: v,
                    lda: width,
                    b: lp.add(p * m),
                    ldb: m,
                    c: v.add(p * width),
                    ldc: width,
                });
                (self.kernels.gemm_nt)(&Gemm {
                    rows: width,
                    columns: c,
                    depth: p,
                    a: v,
                    lda: width,
                    b: f.ut.as_ptr(),
                    ldb: c,
                    c: v.add(k * width),
                    ldc: width,
                });
            }
            scatter(local, &f.rows[..p], width, &mut vectors.backward);
            scatter(&local[p * width..], &f.cols[p..], width, y);
            add(&local[k * width..], f.below_rows, width, y);
            Ok(())
        })?;
        let labels = |s| self.row_labels(s);
        sweep.backward(&mut vectors, Vectors::solution, labels, |vectors, s| {
            cancel.check()?;
            let f = self.front(s);
            let (m, k, p) = (f.m, f.k, f.pivots);
            let (between, local) = (&mut vectors.backward, &mut vectors.local);
            gather(between, f.rows, width, local);
            gather(between, f.below_rows, width, &mut local[k * width..]);
            let (lp, v) = (f.lp.as_ptr(), local.as_mut_ptr());
            // SAFETY: as above.
            unsafe { lower_transposed_many(self.kernels, lp, [m, p], v, width) };
            scatter(local, &f.rows[..p], width, between);
            Ok(())
        })?;
        unpack(&vectors.backward, perm, x, ld, width);
        Ok(())
    }

    /// Rows of the largest front, delayed columns included.
    fn largest(&self) -> usize {
        self.store
            .records
            .iter()
            .zip(&self.symbolic.tree.fronts)
            .map(|(r, f)| (r.k + f.below) as usize)
            .max()
            .unwrap_or(0)
    }

    fn pack(&self, x: &[F], ld: usize, width: usize) -> Vec<F> {
        let mut y = vec![F::zero(); self.n() * width];
        for (row, &old) in y.chunks_exact_mut(width).zip(&self.symbolic.tree.perm) {
            for (q, v) in row.iter_mut().enumerate() {
                *v = x[q * ld + old as usize];
            }
        }
        y
    }
}
