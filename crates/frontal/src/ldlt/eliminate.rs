//! Blocked elimination of the fully summed columns of one symmetric front.
//!
//! Right-looking at every level of a recursion over column blocks, so that all columns of a block have seen the same
//! pivots, and a column without an acceptable pivot can change places with any later one of them. Blocks first (a
//! posteriori pivoting), each column once. Then what they leave, column by column (threshold partial pivoting): in windows,
//! as long as these find anything, with columns brought beside those that they have their largest entries in. What is
//! left then is delayed. In a front without a parent the two columns of the largest entry of all stand in one window, which
//! therefore finds a pivot (but for rounding, in which case all columns are searched).
//!
//! Where delays are limited, columns that may not be delayed any more are eliminated before the others are: by pivots of their
//! own that are not small, however large L gets, and where there is none, by a small one that is replaced. Then all others are
//! searched once more.

use luge_dense::{
    BLOCK_COLUMNS, BlockScratch, FrontalScalar, Gemm, Progress, SymmetricEvent, SymmetricKernels,
    SymmetricPanel,
};
use luge_sparse::num_traits::Zero;
use luge_sparse::{CancelFlag, Cancelled, ResolvedSymmetric, SymmetricPivoting};
use rayon::prelude::*;

use crate::shares::{Parts, pieces};
use crate::widths::{SCALED_PIVOTS, SHARED_COLUMNS, UPDATE_COLUMNS, WIDTHS};

/// Rows of the tiles that threads share.
const TILE_ROWS: usize = 240;
/// Operations below which a product is not shared.
const PARALLEL_FLOPS: usize = 1_000_000;
/// Operations between two looks at the cancel flag, about: some milliseconds.
const STRIDE_FLOPS: usize = 60_000_000;

/// How symmetric fronts are eliminated.
pub(super) struct Eliminator<F: FrontalScalar> {
    pub kernels: &'static SymmetricKernels<F>,
    pub rule: ResolvedSymmetric<F::Real>,
    pub cancel: CancelFlag,
    /// Whether large products are shared among the threads of the current pool.
    pub parallel: bool,
    pub block: BlockScratch<F>,
    /// Columns of L·D, or those of a block: room for `scaled_entries` of the front, or `shared_entries`.
    pub scratch: Vec<F>,
    /// The largest entry of each candidate among the others, and the column that it is in.
    pub partners: Vec<(F::Real, u32)>,
    /// Which candidate stands where, and where each is.
    pub order: Vec<u32>,
    pub place: Vec<u32>,
}

/// What became of the columns of a front.
#[derive(Debug, Default)]
pub(super) struct Outcome<R> {
    /// Pivots, which stand first; a pivot of order 2 counts as two.
    pub pivots: usize,
    /// Those of them that were found by blocks.
    pub by_blocks: usize,
    /// Places of those that were replaced.
    pub replaced: Vec<u32>,
    /// Why the factorization cannot go on.
    pub event: Option<SymmetricEvent<R>>,
}

impl<F: FrontalScalar> Eliminator<F> {
    /// Eliminates what can be eliminated of a front and updates its other fully summed columns. `is_root`: whether what
    /// blocks leave has no parent to go to. `is_due` says of each column, by where it stood, whether it may not be delayed; if
    /// it is empty, all may.
    ///
    /// # Safety
    ///
    /// The panel is valid for its sizes.
    ///
    /// # Panics
    ///
    /// If the scratch has no room for the front.
    pub unsafe fn front(
        &mut self,
        front: &SymmetricPanel<F>,
        is_root: bool,
        is_due: &[bool],
    ) -> Result<Outcome<F::Real>, Cancelled> {
        let mut outcome = Outcome::default();
        // SAFETY: the caller's contract.
        unsafe {
            self.search(front, is_root, &mut outcome)?;
            if let Some(limit) = self.rule.limit
                && !is_due.is_empty()
                && outcome.event.is_none()
                && self.eliminate_due(front, is_due, limit.smallest, &mut outcome)?
            {
                let (lo, k) = (outcome.pivots, front.k);
                let progress = self.level(front, lo, k, 0, false)?;
                outcome.add(progress);
            }
        }
        Ok(outcome)
    }

    /// Eliminates the columns that are due: whether there were any that are left. Pivots of order 1 below `smallest` are
    /// replaced.
    ///
    /// # Safety
    ///
    /// As [`front`](Self::front); all columns have seen all pivots.
    unsafe fn eliminate_due(
        &mut self,
        front: &SymmetricPanel<F>,
        is_due: &[bool],
        smallest: F::Real,
        outcome: &mut Outcome<F::Real>,
    ) -> Result<bool, Cancelled> {
        let k = front.k;
        let first = outcome.pivots;
        let mut end = first;
        let eliminate = self.kernels.eliminate_symmetric;
        // What is not small is a pivot, whatever stands below it.
        let mut rule = self.rule;
        (rule.threshold, rule.small, rule.accept) = (F::Real::zero(), smallest, false);
        let mut any = rule;
        any.small = F::Real::zero();
        // SAFETY: the caller's contract; all places are below k.
        unsafe {
            for j in first..k {
                if is_due[*front.col.add(j) as usize] {
                    front.swap(end, j);
                    end += 1;
                }
            }
            let mut next = first;
            while next < end {
                let window = end.min(next + BLOCK_COLUMNS);
                // Columns in which all is small end it, too.
                let Progress { pivots, .. } = eliminate(front, next, window, &rule);
                self.update(front, next, pivots, window, k)?;
                next += pivots;
                if next == window {
                    continue;
                }
                let diagonal = |j: usize| front.form.on_diagonal(*front.lp.add(j * (front.m + 1)));
                let mut largest = next;
                for j in next + 1..window {
                    if diagonal(j).magnitude() > diagonal(largest).magnitude() {
                        largest = j;
                    }
                }
                front.swap(next, largest);
                let d = diagonal(next);
                if d.magnitude() < smallest {
                    *front.lp.add(next * (front.m + 1)) = d.with_magnitude(smallest);
                    outcome.replaced.push(next as u32);
                }
                let Progress { pivots, .. } = eliminate(front, next, next + 1, &any);
                if pivots == 0 {
                    // Not a number, which the end of the factorization tells.
                    break;
                }
                self.update(front, next, pivots, next + 1, k)?;
                next += 1;
            }
            outcome.pivots = next;
        }
        Ok(end > first)
    }

    /// As [`front`](Self::front), where all columns may be delayed.
    ///
    /// # Safety
    ///
    /// As [`front`](Self::front).
    unsafe fn search(
        &mut self,
        front: &SymmetricPanel<F>,
        is_root: bool,
        outcome: &mut Outcome<F::Real>,
    ) -> Result<(), Cancelled> {
        let k = front.k;
        // SAFETY: the caller's contract.
        unsafe {
            if self.rule.method != Some(SymmetricPivoting::Columns) {
                let done = self.level(front, 0, k, 0, true)?;
                outcome.add(done);
                outcome.by_blocks = outcome.pivots;
                let is_last = match self.rule.method {
                    None => true,
                    Some(method) => method == SymmetricPivoting::BlocksAlone && !is_root,
                };
                if is_last {
                    return Ok(());
                }
            }
            let mut is_paired = false;
            while outcome.pivots < k && outcome.event.is_none() {
                let lo = outcome.pivots;
                let progress = self.level(front, lo, k, 0, false)?;
                outcome.add(progress);
                if k - lo <= BLOCK_COLUMNS || outcome.event.is_some() || outcome.pivots == k {
                    // One window knows all partners.
                    break;
                }
                if progress.pivots > 0 || !is_paired {
                    self.pair(front, outcome.pivots)?;
                    is_paired = true;
                    continue;
                }
                if !is_root {
                    break;
                }
                self.cancel.check()?;
                let search = self.kernels.eliminate_symmetric;
                outcome.add(search(front, lo, k, &self.rule));
                break;
            }
        }
        Ok(())
    }

    /// Brings the columns from `lo` on into an order in which many stand beside a column that they have their largest entry
    /// in: first those of which this holds both ways, so also those of the largest entry of all, then others, each in the
    /// order of the first column of a pair.
    ///
    /// # Safety
    ///
    /// As [`front`](Self::front); the columns have seen all pivots, which stand before `lo`.
    unsafe fn pair(&mut self, front: &SymmetricPanel<F>, lo: usize) -> Result<(), Cancelled> {
        let (lp, m, k) = (front.lp, front.m, front.k);
        let partners = &mut self.partners;
        partners.clear();
        partners.extend((lo..k).map(|j| (F::Real::zero(), j as u32)));
        for j in lo..k {
            if (j - lo).is_multiple_of(UPDATE_COLUMNS) {
                self.cancel.check()?;
            }
            for i in j + 1..k {
                // SAFETY: the caller's contract.
                let size = unsafe { (*lp.add(i + j * m)).magnitude() };
                for (column, other) in [(i, j), (j, i)] {
                    if size > partners[column - lo].0 {
                        partners[column - lo] = (size, other as u32);
                    }
                }
            }
        }
        // Which column is where, and where each column is, as they move.
        let Self { order, place, .. } = self;
        for places in [&mut *order, &mut *place] {
            places.clear();
            places.extend(lo as u32..k as u32);
        }
        let mut next = lo;
        let partner_of = |j: usize| self.partners[j - lo].1 as usize;
        for (j, is_mutual) in (lo..k)
            .map(|j| (j, true))
            .chain((lo..k).map(|j| (j, false)))
        {
            let partner = partner_of(j);
            if is_mutual && partner_of(partner) != j {
                continue;
            }
            let [first, second] = [place[j - lo], place[partner - lo]].map(|at| at as usize);
            if partner == j || first < next || second < next {
                continue;
            }
            for column in [j, partner] {
                let from = place[column - lo] as usize;
                // SAFETY: both are candidates.
                unsafe { front.swap(next, from) };
                let other = order[next - lo] as usize;
                order.swap(next - lo, from - lo);
                place[other - lo] = from as u32;
                place[column - lo] = next as u32;
                next += 1;
            }
        }
        Ok(())
    }

    /// Eliminates what can be eliminated of the columns `lo..hi`, by blocks or column by column, and updates the others of
    /// them.
    ///
    /// # Safety
    ///
    /// The panel is valid for its sizes, and `lo <= hi <= k`.
    unsafe fn level(
        &mut self,
        front: &SymmetricPanel<F>,
        lo: usize,
        hi: usize,
        mut level: usize,
        by_blocks: bool,
    ) -> Result<Progress<F::Real>, Cancelled> {
        while level < WIDTHS.len() && hi - lo <= WIDTHS[level] {
            level += 1;
        }
        if level == WIDTHS.len() {
            // SAFETY: the caller's contract.
            return unsafe { self.innermost(front, lo, hi, by_blocks) };
        }
        if level == 0 {
            self.cancel.check()?;
        }
        let mut next = lo;
        // Columns from here to `hi` failed.
        let mut failed = hi;
        while next < failed {
            let end = failed.min(next + WIDTHS[level]);
            // SAFETY: next <= end <= hi, and the caller's contract.
            unsafe {
                let Progress { pivots, event } =
                    self.level(front, next, end, level + 1, by_blocks)?;
                if event.is_some() {
                    return Ok(Progress {
                        pivots: next + pivots - lo,
                        event,
                    });
                }
                self.update(front, next, pivots, end, hi)?;
                next += pivots;
                // The failures change places with the last columns that were not tried.
                let failures = end - next;
                for i in 0..failures.min(failed - end) {
                    front.swap(next + i, failed - 1 - i);
                }
                failed -= failures;
            }
        }
        Ok(Progress {
            pivots: next - lo,
            event: None,
        })
    }

    /// As [`level`](Self::level), for as many columns as a kernel takes.
    ///
    /// # Safety
    ///
    /// As [`level`](Self::level).
    unsafe fn innermost(
        &mut self,
        front: &SymmetricPanel<F>,
        lo: usize,
        hi: usize,
        by_blocks: bool,
    ) -> Result<Progress<F::Real>, Cancelled> {
        // SAFETY: the caller's contract; there is room for the columns.
        unsafe {
            if !by_blocks {
                let eliminate = self.kernels.eliminate_symmetric;
                return Ok(eliminate(front, lo, hi, &self.rule));
            }
            let x = self.room((front.m - hi) * (hi - lo));
            let progress =
                (self.kernels.factorize_block)(front, lo, hi, &self.rule, &mut self.block, x);
            self.update(front, lo, progress.pivots, lo + progress.pivots, hi)?;
            Ok(progress)
        }
    }

    /// The scratch, which has room for so many entries.
    fn room(&mut self, entries: usize) -> *mut F {
        assert!(entries <= self.scratch.len(), "room for a front's columns");
        self.scratch.as_mut_ptr()
    }

    /// Updates the columns `begin..end` by the pivots `at..at + pivots`.
    ///
    /// # Safety
    ///
    /// As [`level`](Self::level); the pivots are eliminated and stand left of `begin`, and none of order 2 is split.
    unsafe fn update(
        &mut self,
        front: &SymmetricPanel<F>,
        at: usize,
        pivots: usize,
        begin: usize,
        end: usize,
    ) -> Result<(), Cancelled> {
        if pivots == 0 {
            return Ok(());
        }
        let (lp, m) = (front.lp, front.m);
        let wide = if self.parallel {
            SHARED_COLUMNS
        } else {
            UPDATE_COLUMNS
        };
        let mut column = begin;
        while column < end {
            self.cancel.check()?;
            let width = wide.min(end - column);
            let x = self.room(width * pivots);
            // SAFETY: the scratch holds `width` × `pivots` values apart from the front; all indices stay within the
            // panel.
            unsafe {
                let l = lp.add(at * m + column);
                let d = lp.add(at * (m + 1));
                self.times_diagonal(width, pivots, [l, d], m, x)?;
                let product = Gemm {
                    rows: m - column,
                    columns: width,
                    depth: pivots,
                    a: l.cast_const(),
                    lda: m,
                    b: x.cast_const(),
                    ldb: width,
                    c: lp.add(column * (m + 1)),
                    ldc: m,
                };
                self.lower_product(&product)?;
            }
            column += width;
        }
        Ok(())
    }

    /// X := L·D, or its conjugate, for so many rows of L, and of X.
    ///
    /// # Safety
    ///
    /// `l` has so many rows, `ld` apart, and a column for each of the pivots whose diagonal block is `d`.
    unsafe fn times_diagonal(
        &self,
        rows: usize,
        pivots: usize,
        [l, d]: [*const F; 2],
        ld: usize,
        x: *mut F,
    ) -> Result<(), Cancelled> {
        let parts = Parts::new((l, d, x));
        pieces(self.parallel, rows, pivots, UPDATE_COLUMNS, |range| {
            let (l, d, x) = parts.get();
            // SAFETY: these rows of X are this call's.
            unsafe {
                let (l, x) = (l.add(range.start), x.add(range.start));
                (self.kernels.times_diagonal)(range.len(), pivots, l, d, ld, x, rows);
            }
            Ok(())
        })
    }

    /// C −= L·D·Lᵀ, or L·D·Lᴴ, for a square C and so many rows of L, of which the lower triangle is computed; entries less than eight
    /// rows above it are changed too.
    ///
    /// # Safety
    ///
    /// `l` has `order` rows, `ld` apart, and a column for each of the pivots whose diagonal block is `d`; C has `order`
    /// rows and columns, `ldc` apart.
    pub unsafe fn update_below(
        &mut self,
        order: usize,
        pivots: usize,
        [l, d]: [*const F; 2],
        ld: usize,
        c: *mut F,
        ldc: usize,
    ) -> Result<(), Cancelled> {
        let mut at = 0;
        while at < pivots && order > 0 {
            let mut depth = SCALED_PIVOTS.min(pivots - at);
            // SAFETY: the caller's contract; the scratch holds the columns of L·D.
            unsafe {
                let next = at + depth;
                if next < pivots && *d.add(next - 1 + next * ld) != F::zero() {
                    // A pivot of order 2 is not split.
                    depth -= 1;
                }
                let x = self.room(order * depth);
                let (l, d) = (l.add(at * ld), d.add(at * (ld + 1)));
                self.times_diagonal(order, depth, [l, d], ld, x)?;
                self.lower_product(&Gemm {
                    rows: order,
                    columns: order,
                    depth,
                    a: l,
                    lda: ld,
                    b: x,
                    ldb: order,
                    c,
                    ldc,
                })?;
            }
            at += depth;
        }
        Ok(())
    }

    /// C −= A·Bᵀ on and below the diagonal of C, which has at least as many rows as columns.
    ///
    /// # Safety
    ///
    /// The matrices are valid for their sizes, and C overlaps neither A nor B.
    unsafe fn lower_product(&self, g: &Gemm<F>) -> Result<(), Cancelled> {
        let shared = Parts::new((g.a, g.b, g.c));
        let [all_rows, all_columns, depth] = [g.rows, g.columns, g.depth];
        let [lda, ldb, ldc] = [g.lda, g.ldb, g.ldc];
        // Tile 0 of some columns is the triangle on the diagonal, the others are what is below it.
        let tile = |j: usize, tile: usize, tile_rows: usize| {
            self.cancel.check()?;
            let (a, b, c) = shared.get();
            let columns = UPDATE_COLUMNS.min(all_columns - j);
            let below = j + columns;
            let i = if tile == 0 {
                j
            } else {
                below + (tile - 1) * tile_rows
            };
            let product = Gemm {
                rows: if tile == 0 {
                    columns
                } else {
                    tile_rows.min(all_rows - i)
                },
                columns,
                depth,
                a: a.wrapping_add(i),
                lda,
                b: b.wrapping_add(j),
                ldb,
                c: c.wrapping_add(i + j * ldc),
                ldc,
            };
            // SAFETY: every tile owns its part of C, but for what is above the diagonal, which belongs to the triangle.
            unsafe {
                if tile == 0 {
                    (self.kernels.gemm_lower)(&product);
                } else {
                    (self.kernels.gemm_nt)(&product);
                }
            }
            Ok(())
        };
        let flops = all_columns * (2 * all_rows - all_columns) * depth;
        let (is_shared, tile_rows) = if self.parallel && flops >= PARALLEL_FLOPS {
            (true, TILE_ROWS)
        } else {
            let per_row = 2 * UPDATE_COLUMNS * depth;
            (
                false,
                (STRIDE_FLOPS / per_row.max(1) + 1).next_multiple_of(TILE_ROWS),
            )
        };
        let of_column = |j: usize| {
            let below = all_rows - (j + UPDATE_COLUMNS).min(all_columns);
            1 + below.div_ceil(tile_rows)
        };
        if !is_shared {
            let columns = (0..all_columns).step_by(UPDATE_COLUMNS);
            return columns
                .flat_map(|j| (0..of_column(j)).map(move |t| (j, t)))
                .try_for_each(|(j, t)| tile(j, t, tile_rows));
        }
        (0..all_columns.div_ceil(UPDATE_COLUMNS))
            .into_par_iter()
            .try_for_each(|block| {
                let j = block * UPDATE_COLUMNS;
                (0..of_column(j))
                    .into_par_iter()
                    .try_for_each(|t| tile(j, t, tile_rows))
            })
    }
}

impl<R> Outcome<R> {
    fn add(&mut self, progress: Progress<R>) {
        self.pivots += progress.pivots;
        self.event = progress.event;
    }
}
