//! Blocked elimination of the fully summed columns of one front.
//!
//! Right-looking at every level of a recursion over column blocks, so that all columns right of a
//! block have seen the same pivots. A column without an acceptable pivot can then change places with
//! any later one.

use luge_dense::{FrontPanels, FrontalScalar, Gemm, Kernels, PivotEvents};
use luge_sparse::{CancelFlag, Cancelled, ResolvedPivots};
use rayon::prelude::*;

use crate::shares::{Parts, pieces};

/// Widths of the column blocks, outermost first; the innermost is what the kernel eliminates.
const WIDTHS: [usize; 3] = [128, 32, 8];
/// Columns right of a block that are updated at a time by one thread, and that threads share.
const UPDATE_COLUMNS: usize = 128;
const SHARED_COLUMNS: usize = 1024;
/// Rows and columns of the tiles that threads share.
const TILE_ROWS: usize = 240;
const TILE_COLUMNS: usize = 64;
/// Operations below which a product is not shared.
const PARALLEL_FLOPS: usize = 1_000_000;
/// Operations between two looks at the cancel flag, about: some milliseconds.
const STRIDE_FLOPS: usize = 60_000_000;

/// Most entries of the scratch of a front of `m` rows: with searched pivots those of a block are updated by at once, with
/// known ones all.
pub(super) fn scratch_entries(m: usize, search: bool, is_parallel: bool) -> usize {
    let of_block = if is_parallel {
        m.min(WIDTHS[0]) * m.min(SHARED_COLUMNS)
    } else {
        0
    };
    let depth = if search { m.min(WIDTHS[0]) } else { m };
    of_block.max(depth * m.min(UPDATE_COLUMNS))
}

/// How fronts are eliminated.
pub(super) struct Eliminator<F: FrontalScalar> {
    pub kernels: &'static Kernels<F>,
    pub policy: ResolvedPivots<F::Real>,
    pub cancel: CancelFlag,
    /// Whether large products are shared among the threads of the current pool.
    pub parallel: bool,
}

impl<F: FrontalScalar> Eliminator<F> {
    /// Eliminates what can be eliminated of the columns `lo..hi` and updates the others of them.
    /// Returns the number of pivots, which stand at `lo..`.
    ///
    /// # Safety
    ///
    /// The panels are valid for their sizes, and `lo <= hi <= k`.
    pub unsafe fn columns(
        &self,
        front: &FrontPanels<F>,
        lo: usize,
        hi: usize,
        events: &mut PivotEvents,
        scratch: &mut Vec<F>,
    ) -> Result<usize, Cancelled> {
        // SAFETY: the caller's contract.
        unsafe { self.level(front, lo, hi, 0, events, scratch) }
    }

    /// # Safety
    ///
    /// As [`columns`](Self::columns).
    unsafe fn level(
        &self,
        front: &FrontPanels<F>,
        lo: usize,
        hi: usize,
        mut level: usize,
        events: &mut PivotEvents,
        scratch: &mut Vec<F>,
    ) -> Result<usize, Cancelled> {
        while level < WIDTHS.len() && hi - lo <= WIDTHS[level] {
            level += 1;
        }
        if level == WIDTHS.len() {
            // SAFETY: the caller's contract.
            return Ok(unsafe {
                (self.kernels.eliminate_columns)(front, lo, hi, &self.policy, events)
            });
        }
        if level == 0 {
            self.cancel.check()?;
        }
        let mut next = lo;
        // Columns from here to `hi` failed since the last round.
        let mut failed = hi;
        let mut retry = false;
        loop {
            if next == failed {
                if failed == hi || !retry {
                    return Ok(next - lo);
                }
                failed = hi;
                retry = false;
            }
            let end = failed.min(next + WIDTHS[level]);
            // SAFETY: next <= end <= hi, and the caller's contract.
            unsafe {
                let pivots = self.level(front, next, end, level + 1, events, scratch)?;
                self.update(front, next, pivots, end, hi, scratch)?;
                retry |= pivots > 0;
                next += pivots;
                // The failures change places with the last columns that were not tried.
                let failures = end - next;
                for i in 0..failures.min(failed - end) {
                    front.swap_positions(next + i, failed - 1 - i);
                }
                failed -= failures;
            }
        }
    }

    /// Updates the columns `begin..end` by the pivots `at..at + pivots`: their rows of U, and
    /// everything below.
    ///
    /// # Safety
    ///
    /// As [`columns`](Self::columns); the pivots are eliminated and stand left of `begin`.
    pub unsafe fn update(
        &self,
        front: &FrontPanels<F>,
        at: usize,
        pivots: usize,
        begin: usize,
        end: usize,
        scratch: &mut Vec<F>,
    ) -> Result<(), Cancelled> {
        if pivots == 0 {
            return Ok(());
        }
        let m = front.m;
        let wide = if self.parallel && pivots <= WIDTHS[0] {
            SHARED_COLUMNS
        } else {
            UPDATE_COLUMNS
        };
        let mut column = begin;
        while column < end {
            self.cancel.check()?;
            let width = wide.min(end - column);
            if scratch.len() < width * pivots {
                scratch.reserve_exact(width * pivots - scratch.len());
                scratch.resize(width * pivots, F::zero());
            }
            // SAFETY: the scratch holds `width` × `pivots` values apart from the front; all indices
            // stay within the panel.
            unsafe {
                let l = front.lp.add(at + at * m);
                let u = front.lp.add(at + column * m);
                let parts = Parts::new((l, u, scratch.as_mut_ptr()));
                let entries = pivots * pivots;
                pieces(self.parallel, width, entries, UPDATE_COLUMNS, |columns| {
                    let (l, u, x) = parts.get();
                    for j in columns.clone() {
                        for i in 0..pivots {
                            *x.add(j + i * width) = *u.add(i + j * m);
                        }
                    }
                    let rows = x.add(columns.start);
                    (self.kernels.trsm)(columns.len(), pivots, l, m, rows, width);
                    for j in columns {
                        for i in 0..pivots {
                            *u.add(i + j * m) = *x.add(j + i * width);
                        }
                    }
                    self.cancel.check()
                })?;
                self.gemm_nt(Gemm {
                    rows: m - at - pivots,
                    columns: width,
                    depth: pivots,
                    a: l.add(pivots),
                    lda: m,
                    b: scratch.as_ptr(),
                    ldb: width,
                    c: u.add(pivots),
                    ldc: m,
                })?;
            }
            column += width;
        }
        Ok(())
    }

    /// X (rows × p) := X · L⁻ᵀ.
    ///
    /// # Safety
    ///
    /// The matrices are valid for their sizes and do not overlap.
    pub unsafe fn trsm(
        &self,
        rows: usize,
        p: usize,
        l: *const F,
        ldl: usize,
        x: *mut F,
        ldx: usize,
    ) -> Result<(), Cancelled> {
        if !self.parallel || rows * p * p < PARALLEL_FLOPS {
            let stretch = (STRIDE_FLOPS / (p * p).max(1) + 1).next_multiple_of(TILE_ROWS);
            for at in (0..rows).step_by(stretch) {
                // SAFETY: the caller's contract, for some rows.
                unsafe { (self.kernels.trsm)(stretch.min(rows - at), p, l, ldl, x.add(at), ldx) };
                self.cancel.check()?;
            }
            return Ok(());
        }
        let shared = Parts::new((l, x));
        (0..rows.div_ceil(TILE_ROWS))
            .into_par_iter()
            .try_for_each(|tile| {
                self.cancel.check()?;
                let (l, x) = shared.get();
                let at = tile * TILE_ROWS;
                // SAFETY: every tile owns its rows of X.
                unsafe { (self.kernels.trsm)(TILE_ROWS.min(rows - at), p, l, ldl, x.add(at), ldx) };
                Ok(())
            })
    }

    /// C −= A·Bᵀ.
    ///
    /// # Safety
    ///
    /// The matrices are valid for their sizes, and C overlaps neither A nor B.
    pub unsafe fn gemm_nt(&self, g: Gemm<F>) -> Result<(), Cancelled> {
        if !self.parallel || 2 * g.rows * g.columns * g.depth < PARALLEL_FLOPS {
            let per_column = 2 * g.rows * g.depth;
            let stretch = (STRIDE_FLOPS / per_column.max(1) + 1).next_multiple_of(TILE_COLUMNS);
            for at in (0..g.columns).step_by(stretch) {
                // SAFETY: the caller's contract, for some columns.
                unsafe {
                    (self.kernels.gemm_nt)(&Gemm {
                        columns: stretch.min(g.columns - at),
                        b: g.b.add(at),
                        c: g.c.add(at * g.ldc),
                        ..g
                    });
                }
                self.cancel.check()?;
            }
            return Ok(());
        }
        let down = g.rows.div_ceil(TILE_ROWS);
        let right = g.columns.div_ceil(TILE_COLUMNS);
        let shared = Parts::new((g.a, g.b, g.c));
        (0..down * right).into_par_iter().try_for_each(|tile| {
            self.cancel.check()?;
            let (a, b, c) = shared.get();
            let (i, j) = (tile % down * TILE_ROWS, tile / down * TILE_COLUMNS);
            // SAFETY: every tile owns its part of C.
            unsafe {
                (self.kernels.gemm_nt)(&Gemm {
                    rows: TILE_ROWS.min(g.rows - i),
                    columns: TILE_COLUMNS.min(g.columns - j),
                    depth: g.depth,
                    a: a.add(i),
                    lda: g.lda,
                    b: b.add(j),
                    ldb: g.ldb,
                    c: c.add(i + j * g.ldc),
                    ldc: g.ldc,
                });
            }
            Ok(())
        })
    }
}
