//! One front: assembly, elimination, check, generated element.

mod assembly;
mod positions;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use luge_sparse::{Quality, Reservation};

use super::eliminate::{Eliminator, scratch_entries};
use super::stack::{Mark, Stack};
use super::{Extra, Options, Record};
use crate::error::FrontalError;
use crate::kernels::dense::{CheckFront, Gemm};
use crate::kernels::pivot::{FrontPanels, PivotEvents};
use crate::kernels::{FrontalScalar, Kernels};
use crate::tree::{Tree, element_entries};
use luge_sparse::etree::NONE;

/// What a front hands to its parent: a square matrix over its delayed columns and the rows below
/// its pivots, column-major, and after it two vectors of the same length, the column sums of |L||U|
/// and of wᵀLU so far.
pub(super) struct Element<F> {
    values: *mut F,
    /// Rows of the matrix.
    order: u32,
    /// Delayed columns, which come first.
    delayed: u32,
    /// Height of the stack below it.
    mark: Mark,
    /// The memory, if it is not on a stack.
    owned: Vec<F>,
    memory: Reservation,
}

impl<F> Element<F> {
    pub fn none() -> Self {
        Self {
            values: std::ptr::null_mut(),
            order: 0,
            delayed: 0,
            mark: Mark::default(),
            owned: Vec::new(),
            memory: Reservation::default(),
        }
    }
}

/// What all fronts of one factorization share. Front s owns its slot, its record, its labels, its
/// extra and its element; it reads the records, labels, extras and elements of its children, which
/// are complete before it starts.
pub(super) struct Context<'a, F: FrontalScalar> {
    pub tree: &'a Tree,
    pub input: &'a [F],
    pub options: &'a Options,
    pub kernels: &'static Kernels<F>,
    /// Weights of the rows by label.
    pub weights: &'a [F],
    /// ‖B e_k‖₁ and wᵀB e_k by input column.
    pub norms: &'a [F],
    pub sums: &'a [F],
    pub values: *mut F,
    pub records: *mut Record,
    pub rows: *mut u32,
    pub cols: *mut u32,
    pub extras: *mut Option<Box<Extra<F>>>,
    pub elements: *mut Element<F>,
    /// By input column; written by the front that has its pivot.
    pub products: *mut F,
    /// Whether pivots are searched; otherwise those of the records are kept.
    pub search: bool,
    /// Bytes beyond the prediction so far.
    pub excess: AtomicU64,
    /// The prediction if there is a limit, else 0.
    pub predicted: u64,
    /// What is reserved for the factors; extras are added.
    pub of_extras: Mutex<Reservation>,
}

// SAFETY: the pointers are used as the documentation of the type says, and the order of a front
// after its children is made by the one thread, or by the counters of the traversal.
unsafe impl<F: FrontalScalar> Sync for Context<'_, F> {}

impl<F: FrontalScalar> Context<'_, F> {
    /// Notes bytes beyond the prediction.
    fn charge(&self, bytes: u64) -> Result<(), FrontalError> {
        if bytes == 0 {
            return Ok(());
        }
        let asked = self.predicted + bytes + self.excess.fetch_add(bytes, Ordering::Relaxed);
        match self.options.max_bytes {
            Some(available) if asked > available => {
                Err(FrontalError::OutOfMemory { asked, available })
            }
            _ => Ok(()),
        }
    }
}

/// One thread's memory.
pub(super) struct Worker<'a, F: FrontalScalar> {
    context: &'a Context<'a, F>,
    eliminator: Eliminator<'a, F>,
    /// Elements of fronts of even and of odd depth: the elements of the children lie on top of the
    /// one stack while their parent's goes to the other.
    stacks: [Stack<F>; 2],
    pub quality: Quality,
    events: PivotEvents,
    scratch: Vec<F>,
    /// Check sums by column of the front, weights by row, and two arrays for the check.
    growth: Vec<F>,
    check: Vec<F>,
    weights: Vec<F>,
    work: Vec<F>,
    old_pivots: Vec<F>,
    row_from: Vec<u32>,
    col_from: Vec<u32>,
    relative: Vec<u32>,
    /// For the stacks, and for all the rest.
    of_stacks: Reservation,
    of_arrays: Reservation,
}

impl<'a, F: FrontalScalar> Worker<'a, F> {
    /// With room for the given elements on the two stacks.
    pub fn new(
        context: &'a Context<'a, F>,
        eliminator: Eliminator<'a, F>,
        stack_entries: [u64; 2],
    ) -> Result<Self, FrontalError> {
        let m = context.tree.max_front();
        let entries = (stack_entries[0] + stack_entries[1]) as usize;
        let memory = &context.options.memory;
        let of_stacks = memory.reserve_for::<F>(entries)?;
        let of_arrays = memory.reserve(Self::array_bytes(m, context.search))?;
        Ok(Self {
            of_stacks,
            of_arrays,
            context,
            eliminator,
            stacks: stack_entries.map(|entries| Stack::with_capacity(entries as usize)),
            quality: Quality::default(),
            events: PivotEvents::default(),
            scratch: Vec::new(),
            growth: vec![F::zero(); m],
            check: vec![F::zero(); m],
            weights: vec![F::zero(); m],
            work: vec![F::zero(); 2 * m],
            old_pivots: Vec::new(),
            row_from: vec![0; m],
            col_from: vec![0; m],
            relative: Vec::new(),
        })
    }

    /// Bytes of the arrays of a worker on fronts of `m` rows, with those that they replace when they grow.
    fn array_bytes(m: usize, search: bool) -> u64 {
        // Five arrays of values, the old pivots, two of positions, relative indices and events.
        let by_row = m * (8 * size_of::<F>() + 32);
        (by_row + 2 * scratch_entries(m, search) * size_of::<F>()) as u64
    }

    fn reserve(&mut self, m: usize) -> Result<(), FrontalError> {
        if self.growth.len() < m {
            // Old and new arrays are there at once.
            self.of_arrays
                .resize(2 * Self::array_bytes(m, self.context.search))?;
            for array in [&mut self.growth, &mut self.check, &mut self.weights] {
                array.resize(m, F::zero());
            }
            self.work.resize(2 * m, F::zero());
            self.row_from.resize(m, 0);
            self.col_from.resize(m, 0);
        }
        Ok(())
    }

    /// Factorizes front `s`. Its element goes to this worker's stack, or to memory of its own.
    ///
    /// # Safety
    ///
    /// The children are factorized, nobody else works on `s`, and the elements on this worker's
    /// stacks are those of a postorder that `s` continues.
    pub unsafe fn front(&mut self, s: usize, own_memory: bool) -> Result<(), FrontalError> {
        let context = self.context;
        let tree = context.tree;
        context.options.cancel.check()?;
        let front = &tree.fronts[s];
        let children = &tree.children[front.child_range()];
        let below_rows = &tree.rows[front.row_range()];
        let (own, c) = (front.pivots as usize, front.below as usize);
        let mut received = 0;
        for &child in children {
            // SAFETY: children are complete.
            received += unsafe { (*context.elements.add(child as usize)).delayed as usize };
        }
        let k = own + received;
        let m = k + c;
        self.reserve(m)?;
        let size = k * (m + c);

        // The panels.
        // SAFETY: this front's extra.
        let extra = unsafe { &mut *context.extras.add(s) };
        let lp = if received == 0 {
            // SAFETY: the slot has this size.
            unsafe { context.values.add(tree.layout.slot[s] as usize) }
        } else {
            if context.search {
                context.charge((size * size_of::<F>()) as u64)?;
                let bytes = size * size_of::<F>() + 16 * k + size_of::<Extra<F>>();
                let of_extras = context.of_extras.lock();
                of_extras
                    .unwrap_or_else(PoisonError::into_inner)
                    .grow(bytes as u64)?;
                *extra = Some(Box::new(Extra {
                    values: vec![F::zero(); size],
                    rows: vec![0; k],
                    cols: vec![0; k],
                    row_from: vec![0; k],
                    col_from: vec![0; k],
                }));
            }
            extra
                .as_mut()
                .expect("a front that receives columns keeps its extra")
                .values
                .as_mut_ptr()
        };
        // SAFETY: this front's record.
        let record = unsafe { &mut *context.records.add(s) };
        // SAFETY: the panels have `size` entries.
        unsafe {
            if !context.search {
                self.old_pivots.clear();
                for j in 0..record.pivots as usize {
                    self.old_pivots.push(*lp.add(j * (m + 1)));
                }
                std::ptr::write_bytes(lp, 0, size);
            }
            let ut = lp.add(k * m);
            self.assemble(s, lp, m, own, received);
            self.add_children_to_panels(children, lp, ut, m, k, own, received);
        }
        let panels = FrontPanels {
            lp,
            m,
            k,
            // SAFETY: within the panels.
            ut: unsafe { lp.add(k * m) },
            row: self.row_from.as_mut_ptr(),
            col: self.col_from.as_mut_ptr(),
        };

        // Elimination.
        // SAFETY: the panels are valid.
        let (pivots, moved) = unsafe {
            if context.search {
                for j in 0..k {
                    self.row_from[j] = j as u32;
                    self.col_from[j] = j as u32;
                }
                self.events.moved = false;
                let pivots =
                    self.eliminator
                        .columns(&panels, 0, k, &mut self.events, &mut self.scratch)?;
                (pivots, self.events.moved)
            } else {
                let pivots = record.pivots as usize;
                self.restore_positions(s, extra.as_deref(), &panels, record.moved);
                self.eliminator
                    .columns(&panels, 0, pivots, &mut self.events, &mut self.scratch)?;
                self.eliminator
                    .update(&panels, 0, pivots, pivots, k, &mut self.scratch)?;
                (pivots, record.moved)
            }
        };
        if context.search {
            *record = Record {
                k: k as u32,
                pivots: pivots as u32,
                moved,
            };
            // SAFETY: this front's labels; the children's are complete.
            unsafe { self.label(s, extra.as_deref_mut(), k, own) };
        }
        let (rows, cols) = match extra {
            Some(extra) if received > 0 => (&extra.rows[..], &extra.cols[..]),
            // SAFETY: a front without an extra has k labels of its own.
            _ => unsafe {
                (
                    std::slice::from_raw_parts(context.rows.add(front.start as usize), k),
                    std::slice::from_raw_parts(context.cols.add(front.start as usize), k),
                )
            },
        };
        let input_column = |j: usize| tree.perm[cols[j] as usize] as usize;
        if let Some(at) = self.events.zero {
            let j = (0..k).find(|&j| self.col_from[j] == at).unwrap_or(0);
            return Err(FrontalError::ZeroPivot {
                column: input_column(j),
            });
        }
        if front.parent == NONE && pivots < k {
            let column = input_column(pivots);
            // SAFETY: the panel has m × k entries.
            let rest = unsafe { std::slice::from_raw_parts(lp.add(pivots * m), (k - pivots) * m) };
            return Err(if rest.iter().all(|v| v.is_finite()) {
                FrontalError::Singular { column }
            } else {
                FrontalError::NotFinite { column }
            });
        }

        // The rest of the pivots' rows, and of the delayed rows.
        // SAFETY: the panels are valid.
        unsafe {
            self.eliminator.trsm(c, pivots, lp, m, panels.ut, c)?;
            if pivots < k {
                self.eliminator.gemm_nt(Gemm {
                    rows: c,
                    columns: k - pivots,
                    depth: pivots,
                    a: panels.ut,
                    lda: c,
                    b: lp.add(pivots),
                    ldb: m,
                    c: panels.ut.add(pivots * c),
                    ldc: c,
                })?;
            }
        }

        // The check.
        for (w, &row) in self.weights.iter_mut().zip(rows.iter().chain(below_rows)) {
            *w = context.weights[row as usize];
        }
        // SAFETY: the arrays have m, m, m and 2 k entries.
        unsafe {
            self.add_children_to_check(children, own, received, m);
            if moved {
                for sums in [&mut self.growth, &mut self.check] {
                    self.work[..k].copy_from_slice(&sums[..k]);
                    for (sum, &from) in sums.iter_mut().zip(&self.col_from[..k]) {
                        *sum = self.work[from as usize];
                    }
                }
            }
            (context.kernels.check_front)(&CheckFront {
                lp,
                m,
                k,
                ut: panels.ut,
                pivots,
                w: self.weights.as_ptr(),
                growth: self.growth.as_mut_ptr(),
                check: self.check.as_mut_ptr(),
                s: self.work.as_mut_ptr(),
                t: self.work.as_mut_ptr().add(k),
            });
        }
        let sums = self.growth[..pivots].iter().zip(&self.check[..pivots]);
        if !sums.map(|(&g, &c)| g + c).all(F::is_finite) {
            // The sums may overflow where no entry does.
            // SAFETY: the panels have m × k and c × k entries.
            let (l, u) = unsafe {
                (
                    std::slice::from_raw_parts(lp, m * pivots),
                    std::slice::from_raw_parts(panels.ut, c * pivots),
                )
            };
            let finite = |panel: &[F], ld: usize, j: usize| {
                panel[j * ld..(j + 1) * ld].iter().all(|v| v.is_finite())
            };
            if let Some(j) = (0..pivots).find(|&j| !finite(l, m, j) || !finite(u, c, j)) {
                return Err(FrontalError::NotFinite {
                    column: input_column(j),
                });
            }
        }
        self.judge(lp, m, pivots, rows, cols);

        // The element.
        let delayed = k - pivots;
        let order = delayed + c;
        let len = element_entries(order);
        let mut element = Element::none();
        if order > 0 {
            element.order = order as u32;
            element.delayed = delayed as u32;
            if own_memory {
                let unplanned = len - element_entries(c);
                context.charge((unplanned * size_of::<F>()) as u64)?;
                element.memory = context.options.memory.reserve_for::<F>(len)?;
                element.owned = Vec::with_capacity(len);
                element.values = element.owned.as_mut_ptr();
            } else {
                let stack = &mut self.stacks[(front.depth % 2) as usize];
                element.mark = stack.mark();
                let (values, bytes) = stack.push(len, &mut self.of_stacks)?;
                context.charge(bytes)?;
                element.values = values;
            }
            // SAFETY: the element has room for `len` values, the panels are valid.
            unsafe {
                let e = element.values;
                std::ptr::write_bytes(e, 0, order * order);
                for j in 0..delayed {
                    let column = lp.add((pivots + j) * m + pivots);
                    std::ptr::copy_nonoverlapping(column, e.add(j * order), order);
                    for i in 0..c {
                        *e.add(j + (delayed + i) * order) = *panels.ut.add(i + (pivots + j) * c);
                    }
                }
                let rest = e.add(delayed + delayed * order);
                self.add_children_to_rest(children, rest, order, own);
                self.eliminator.gemm_nt(Gemm {
                    rows: c,
                    columns: c,
                    depth: pivots,
                    a: lp.add(k),
                    lda: m,
                    b: panels.ut,
                    ldb: c,
                    c: rest,
                    ldc: order,
                })?;
                let sums = e.add(order * order);
                std::ptr::copy_nonoverlapping(self.growth.as_ptr().add(pivots), sums, order);
                std::ptr::copy_nonoverlapping(
                    self.check.as_ptr().add(pivots),
                    sums.add(order),
                    order,
                );
            }
        }
        // SAFETY: this front's element, and its children's, which nobody reads any more.
        unsafe {
            context.elements.add(s).write(element);
            for &child in children.iter().rev() {
                let element = &mut *context.elements.add(child as usize);
                if element.order > 0 && element.owned.capacity() == 0 {
                    self.stacks[1 - (front.depth % 2) as usize].release(element.mark);
                }
                *element = Element::none();
            }
        }
        Ok(())
    }

    /// Adds a front's pivots to the quality report.
    fn judge(&mut self, lp: *const F, m: usize, pivots: usize, rows: &[u32], cols: &[u32]) {
        let context = self.context;
        let perm = &context.tree.perm;
        let quality = &mut self.quality;
        for j in 0..pivots {
            let column = perm[cols[j] as usize] as usize;
            // SAFETY: pivots are inside the panel.
            let pivot = unsafe { *lp.add(j * (m + 1)) };
            let magnitude = pivot.abs().to_f64();
            quality.min_pivot = quality.min_pivot.min(magnitude);
            quality.max_pivot = quality.max_pivot.max(magnitude);
            if !context.search {
                let ratio = magnitude / self.old_pivots[j].abs().to_f64();
                quality.min_pivot_ratio = quality.min_pivot_ratio.min(ratio);
                quality.max_pivot_ratio = quality.max_pivot_ratio.max(ratio);
            }
            quality.num_off_diagonal += usize::from(rows[j] != cols[j]);
            let sum = self.growth[j].to_f64();
            // SAFETY: a column has one pivot.
            unsafe { context.products.add(column).write(self.growth[j]) };
            if magnitude < quality.min_relative_pivot * sum {
                quality.min_relative_pivot = quality.min_relative_pivot.min(magnitude / sum);
            }
            let norm = context.norms[column].to_f64();
            quality.max_norm = quality.max_norm.max(norm);
            quality.min_norm = quality.min_norm.min(norm);
            quality.max_product = quality.max_product.max(sum);
            let growth = sum / norm;
            let worse = growth > quality.growth
                || (growth == quality.growth && column < quality.worst_column);
            if (worse || growth.is_nan()) && !quality.growth.is_nan() {
                quality.growth = growth;
                quality.worst_column = column;
            }
            let residual = (context.sums[column] - self.check[j]).abs().to_f64();
            quality.max_residual = quality.max_residual.max(residual);
            let check = residual / norm;
            if check > quality.checksum || check.is_nan() {
                quality.checksum = check;
            }
        }
        if !self.events.replaced.is_empty() {
            quality.num_perturbed += self.events.replaced.len();
            for &at in &self.events.replaced {
                let j = (0..cols.len()).find(|&j| self.col_from[j] == at);
                let column = j.map(|j| perm[cols[j] as usize] as usize);
                quality.first_perturbed = match (quality.first_perturbed, column) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            self.events.replaced.clear();
        }
        quality.num_delayed += cols.len() - pivots;
    }
}
