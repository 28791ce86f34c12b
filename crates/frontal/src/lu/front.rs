//! The work of LU on one front: assembly, elimination, check, generated element.

use luge_dense::{CheckFront, CheckPart, FrontPanels, FrontalScalar, Gemm, Kernels, PivotEvents};
use luge_sparse::{Cancelled, Quality, RealScalar, Reservation, ResolvedPivots, enlarge, lessen};

use super::eliminate::{Eliminator, scratch_entries};
use crate::error::FrontalError;
use crate::factorize::{
    ActiveFront, Children, Context, Eliminated, FrontState, FrontWork, Pace, Pivots, Positions,
    Report, add_contiguous, add_scattered, contiguous,
};
use crate::shares::Parts;
use crate::storage::Full;

/// Rows of U that entries of an element go to together: as many as a line of the cache has values.
const ROWS: usize = 8;

/// Columns below the fully summed ones that are checked by one thread.
const BELOW: usize = 64;

/// What the fronts of one LU factorization share.
pub(super) struct Shared<'a, F: FrontalScalar> {
    pub kernels: &'static Kernels<F>,
    /// How pivots are chosen, or that those of the records are kept.
    pub policy: ResolvedPivots<F::Real>,
    /// Weights of the rows by label.
    pub weights: &'a [F],
    /// ‖B e_k‖₁ and wᵀB e_k by input column.
    pub norms: &'a [F::Real],
    pub sums: &'a [F],
    /// ‖ |L|·|U|·e_k ‖₁ by input column; written by the front that has its pivot.
    pub products: *mut F::Real,
}

// SAFETY: a column has one pivot, so nobody else writes its product.
unsafe impl<F: FrontalScalar> Sync for Shared<'_, F> {}

/// LU of one front after another, by one thread.
///
/// After an element's matrix come two vectors of the same length: the column sums of |L|·|U| and of wᵀL·U so far.
pub(super) struct LuFront<F: FrontalScalar> {
    eliminator: Eliminator<F>,
    events: PivotEvents,
    scratch: Vec<F>,
    /// Sums of |L|·|U|, which are real numbers of the type F, and check sums by column of the front, weights by row, and two arrays for the check.
    products: Vec<F>,
    check: Vec<F>,
    weights: Vec<F>,
    work: Vec<F>,
    old_pivots: Vec<F>,
    relative: Vec<u32>,
    memory: Reservation,
}

/// Bytes of the arrays for fronts of `m` rows, with those that they replace when they grow.
fn array_bytes<F>(m: usize, search: bool, is_parallel: bool) -> u64 {
    // Five arrays of values, the old pivots, relative indices and events.
    let by_row = m * (8 * size_of::<F>() + 24);
    (by_row + 2 * scratch_entries(m, search, is_parallel) * size_of::<F>()) as u64
}

/// Entries of a front's panel of fully summed columns.
fn panels<F>(front: &ActiveFront<'_, F>, positions: &mut Positions) -> FrontPanels<F> {
    FrontPanels {
        lp: front.panels,
        m: front.m,
        k: front.k,
        ut: rows_panel(front),
        row: positions.row.as_mut_ptr(),
        col: positions.col.as_mut_ptr(),
    }
}

/// The transposed panel of the fully summed rows.
fn rows_panel<F>(front: &ActiveFront<'_, F>) -> *mut F {
    // Within the panels, or at their end.
    front.panels.wrapping_add(front.k * front.m)
}

impl Report for Quality {
    fn encode(&self) -> Vec<u64> {
        let Self {
            growth,
            checksum,
            worst_column,
            min_pivot,
            max_pivot,
            max_norm,
            min_norm,
            max_product,
            max_residual,
            min_relative_pivot,
            min_pivot_ratio,
            max_pivot_ratio,
            num_off_diagonal,
            num_delayed,
            num_perturbed,
            first_perturbed,
        } = *self;
        let sizes = [
            growth,
            checksum,
            min_pivot,
            max_pivot,
            max_norm,
            min_norm,
            max_product,
            max_residual,
            min_relative_pivot,
            min_pivot_ratio,
            max_pivot_ratio,
        ];
        let counts = [
            worst_column,
            num_off_diagonal,
            num_delayed,
            num_perturbed,
            first_perturbed.unwrap_or(usize::MAX),
        ];
        let sizes = sizes.iter().map(|size| size.to_bits());
        sizes.chain(counts.map(|count| count as u64)).collect()
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let (sizes, counts) = words.split_first_chunk::<11>()?;
        let &[worst, off_diagonal, delayed, perturbed, first] = counts else {
            return None;
        };
        let sizes = sizes.map(f64::from_bits);
        Some(Self {
            growth: sizes[0],
            checksum: sizes[1],
            min_pivot: sizes[2],
            max_pivot: sizes[3],
            max_norm: sizes[4],
            min_norm: sizes[5],
            max_product: sizes[6],
            max_residual: sizes[7],
            min_relative_pivot: sizes[8],
            min_pivot_ratio: sizes[9],
            max_pivot_ratio: sizes[10],
            worst_column: worst as usize,
            num_off_diagonal: off_diagonal as usize,
            num_delayed: delayed as usize,
            num_perturbed: perturbed as usize,
            first_perturbed: (first != u64::MAX).then_some(first as usize),
        })
    }

    fn merge_fronts(&mut self, part: &Self) {
        let worst = match part.growth.partial_cmp(&self.growth) {
            Some(std::cmp::Ordering::Equal) => self.worst_column.min(part.worst_column),
            _ => usize::MAX,
        };
        let first = [self.first_perturbed, part.first_perturbed];
        self.merge(part, |column| column);
        if worst != usize::MAX {
            self.worst_column = worst;
        }
        self.first_perturbed = first.into_iter().flatten().min();
    }

    fn keep(&mut self) {
        self.min_pivot_ratio = 1.0;
        self.max_pivot_ratio = 1.0;
    }

    fn delays_and_growth(&self) -> (usize, f64) {
        (self.num_delayed, self.growth)
    }
}

impl<F: FrontalScalar> FrontWork for LuFront<F> {
    type Scalar = F;
    type Storage = Full;
    type Report = Quality;
    type Shared<'a> = Shared<'a, F>;

    fn new(context: &Context<'_, Self>, is_parallel: bool) -> Result<Self, FrontalError> {
        let options = context.options;
        let m = context.symbolic.tree.max_front();
        let memory = options
            .memory
            .reserve(array_bytes::<F>(m, context.search, is_parallel))?;
        Ok(Self {
            eliminator: Eliminator {
                kernels: context.shared.kernels,
                policy: context.shared.policy,
                cancel: options.cancel.clone(),
                parallel: is_parallel,
            },
            events: PivotEvents::default(),
            scratch: Vec::new(),
            products: vec![F::zero(); m],
            check: vec![F::zero(); m],
            weights: vec![F::zero(); m],
            work: vec![F::zero(); 2 * m],
            old_pivots: Vec::new(),
            relative: Vec::new(),
            memory,
        })
    }

    fn reserve(&mut self, context: &Context<'_, Self>, m: usize) -> Result<(), FrontalError> {
        // Old and new arrays are there at once.
        let bytes = 2 * array_bytes::<F>(m, context.search, self.eliminator.parallel);
        self.memory.resize(bytes)?;
        for array in [&mut self.products, &mut self.check, &mut self.weights] {
            array.resize(m, F::zero());
        }
        self.work.resize(2 * m, F::zero());
        Ok(())
    }

    unsafe fn assemble(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        children: &Children<'_, F>,
        kept: Option<FrontState>,
    ) -> Result<(), FrontalError> {
        let (lp, m) = (front.panels, front.m);
        // SAFETY: the panels are valid.
        unsafe {
            let mut pace = Pace::new(&context.options.cancel, self.eliminator.parallel);
            if let Some(record) = kept {
                self.old_pivots.clear();
                let pivots = 0..record.pivots as usize;
                self.old_pivots.extend(pivots.map(|j| *lp.add(j * (m + 1))));
                pace.clear(lp, front.entries)?;
            } else {
                pace.provide(lp, front.entries)?;
            }
            add_matrix(context, front);
            Ok(self.add_children(front, children, &mut pace)?)
        }
    }

    unsafe fn eliminate(
        &mut self,
        _: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        positions: &mut Positions,
        kept: Option<FrontState>,
    ) -> Result<Eliminated, FrontalError> {
        let k = front.k;
        let panels = panels(front, positions);
        let (events, scratch) = (&mut self.events, &mut self.scratch);
        // SAFETY: the panels are valid.
        unsafe {
            let Some(record) = kept else {
                events.moved = false;
                let pivots = self.eliminator.columns(&panels, 0, k, events, scratch)?;
                let moved = events.moved;
                return Ok(Eliminated { pivots, moved });
            };
            let (pivots, moved) = (record.pivots as usize, record.moved);
            if moved {
                move_panels(&panels, scratch);
            }
            self.eliminator
                .columns(&panels, 0, pivots, events, scratch)?;
            self.eliminator
                .update(&panels, 0, pivots, pivots, k, scratch)?;
            Ok(Eliminated { pivots, moved })
        }
    }

    unsafe fn complete(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        done: &Pivots<'_>,
    ) -> Result<(), FrontalError> {
        let (lp, ut) = (front.panels, rows_panel(front));
        let (m, k, c) = (front.m, front.k, front.c);
        let pivots = done.eliminated.pivots;
        if let Some(at) = self.events.zero {
            let j = (0..k).find(|&j| done.positions.col[j] == at).unwrap_or(0);
            return Err(FrontalError::ZeroPivot {
                column: input_column(context, done, j),
            });
        }
        if front.is_root() && pivots < k {
            let column = input_column(context, done, pivots);
            // SAFETY: the panel has m × k entries.
            let rest = unsafe { std::slice::from_raw_parts(lp.add(pivots * m), (k - pivots) * m) };
            return Err(if rest.iter().all(|v| v.is_number()) {
                FrontalError::Singular { column }
            } else {
                FrontalError::NotFinite { column }
            });
        }
        // The rest of the pivots' rows, and of the delayed rows.
        // SAFETY: the panels are valid.
        unsafe {
            self.eliminator.trsm(c, pivots, lp, m, ut, c)?;
            if pivots < k {
                self.eliminator.gemm_nt(Gemm {
                    rows: c,
                    columns: k - pivots,
                    depth: pivots,
                    a: ut,
                    lda: c,
                    b: lp.add(pivots),
                    ldb: m,
                    c: ut.add(pivots * c),
                    ldc: c,
                })?;
            }
        }
        Ok(())
    }

    unsafe fn check(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        children: &Children<'_, F>,
        done: &Pivots<'_>,
        quality: &mut Quality,
    ) -> Result<(), FrontalError> {
        let (lp, ut) = (front.panels, rows_panel(front));
        let (m, k, c) = (front.m, front.k, front.c);
        let Eliminated { pivots, moved } = done.eliminated;
        let shared = &context.shared;
        let rows = done.rows.iter().chain(front.below_rows);
        for (w, &row) in self.weights.iter_mut().zip(rows) {
            *w = shared.weights[row as usize];
        }
        self.products[..m].fill(F::zero());
        self.check[..m].fill(F::zero());
        let (products, check) = (self.products.as_mut_ptr(), self.check.as_mut_ptr());
        children.for_each(&mut self.relative, |element, _, relative| {
            let order = element.order as usize;
            // SAFETY: two vectors come after the element's matrix; positions are below m.
            unsafe {
                let sums = element.values.add(order * order);
                add_scattered(relative, sums, products);
                add_scattered(relative, sums.add(order), check);
            }
            Ok(())
        })?;
        if moved {
            for sums in [&mut self.products, &mut self.check] {
                self.work[..k].copy_from_slice(&sums[..k]);
                for (sum, &from) in sums.iter_mut().zip(&done.positions.col[..k]) {
                    *sum = self.work[from as usize];
                }
            }
        }
        let (products, check) = (self.products.as_mut_ptr(), self.check.as_mut_ptr());
        let parts = Parts::new((lp, ut, self.weights.as_ptr(), products, check));
        let work = Parts::new(self.work.as_mut_ptr());
        // SAFETY: the arrays have m, m, m and 2 k entries; each part has one writer, and the sums over the pivots' columns are
        // complete before they are read.
        let part = |part: CheckPart| unsafe {
            let (lp, ut, w, products, check) = parts.get();
            (shared.kernels.check_front)(&CheckFront {
                lp,
                m,
                k,
                ut,
                pivots,
                w,
                products,
                check,
                s: work.get(),
                t: work.get().add(k),
                part,
            });
        };
        if self.eliminator.parallel {
            let pace = &mut Pace::new(&self.eliminator.cancel, true);
            pace.share(pivots, m, |pivots, _| {
                part(CheckPart::Pivots(pivots));
                Ok(())
            })?;
            pace.share(k, pivots, |columns, _| {
                part(CheckPart::Columns(columns));
                Ok(())
            })?;
            pace.share(c.div_ceil(BELOW), BELOW * pivots, |groups, _| {
                let columns = groups.start * BELOW..c.min(groups.end * BELOW);
                part(CheckPart::Below(columns));
                Ok(())
            })?;
        } else {
            part(CheckPart::All);
        }
        let sums = self.products[..pivots].iter().zip(&self.check[..pivots]);
        if !sums.map(|(&g, &c)| g + c).all(F::is_number) {
            // The sums may overflow where no entry does.
            // SAFETY: the panels have m × k and c × k entries.
            let (l, u) = unsafe {
                (
                    std::slice::from_raw_parts(lp, m * pivots),
                    std::slice::from_raw_parts(ut, c * pivots),
                )
            };
            let finite = |panel: &[F], ld: usize, j: usize| {
                panel[j * ld..(j + 1) * ld].iter().all(|v| v.is_number())
            };
            if let Some(j) = (0..pivots).find(|&j| !finite(l, m, j) || !finite(u, c, j)) {
                return Err(FrontalError::NotFinite {
                    column: input_column(context, done, j),
                });
            }
        }
        self.judge(context, front, done, quality);
        Ok(())
    }

    unsafe fn update(
        &mut self,
        _: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        children: &Children<'_, F>,
        done: &Pivots<'_>,
        element: *mut F,
    ) -> Result<(), FrontalError> {
        let (lp, ut) = (front.panels, rows_panel(front));
        let (m, k, c) = (front.m, front.k, front.c);
        let pivots = done.eliminated.pivots;
        let delayed = k - pivots;
        let order = delayed + c;
        // SAFETY: the element has order² + 2 order entries, the panels are valid.
        unsafe {
            let pace = &mut Pace::new(&self.eliminator.cancel, self.eliminator.parallel);
            pace.clear(element, order * order)?;
            for j in 0..delayed {
                let column = lp.add((pivots + j) * m + pivots);
                std::ptr::copy_nonoverlapping(column, element.add(j * order), order);
                for i in 0..c {
                    *element.add(j + (delayed + i) * order) = *ut.add(i + (pivots + j) * c);
                }
            }
            let rest = element.add(delayed + delayed * order);
            add_below(children, rest, order, front.own, pace)?;
            self.eliminator.cancel.check()?;
            self.eliminator.gemm_nt(Gemm {
                rows: c,
                columns: c,
                depth: pivots,
                a: lp.add(k),
                lda: m,
                b: ut,
                ldb: c,
                c: rest,
                ldc: order,
            })?;
            let sums = element.add(order * order);
            std::ptr::copy_nonoverlapping(self.products.as_ptr().add(pivots), sums, order);
            let check = self.check.as_ptr().add(pivots);
            std::ptr::copy_nonoverlapping(check, sums.add(order), order);
        }
        Ok(())
    }
}

impl<F: FrontalScalar> LuFront<F> {
    /// Adds the elements of the children, as far as they concern fully summed rows or columns.
    ///
    /// # Safety
    ///
    /// The panels are valid.
    #[inline]
    unsafe fn add_children(
        &mut self,
        front: &ActiveFront<'_, F>,
        children: &Children<'_, F>,
        pace: &mut Pace<'_>,
    ) -> Result<(), Cancelled> {
        let (lp, ut) = (front.panels, rows_panel(front));
        let (m, k, c) = (front.m, front.k, front.c);
        children.for_each(&mut self.relative, |element, child, relative| {
            let order = element.order as usize;
            let summed = element.delayed as usize + child.pivots_in_parent as usize;
            // Positions ascend but where delayed rows stand behind those that were planned.
            let ascends = element.delayed == 0;
            let first = ascends.then(|| contiguous(relative)).flatten();
            let parts = Parts::new((element.values.cast_const(), lp, ut));
            // SAFETY: the element is order × order; positions are below m, those of fully summed rows below k, and none is
            // twice there: each column has one writer, and then each row.
            pace.share(summed, order, |columns, pace| unsafe {
                let (values, lp, _) = parts.get();
                for j in columns {
                    pace.step(order)?;
                    let from = values.add(j * order);
                    let to = lp.add(*relative.get_unchecked(j) as usize * m);
                    match first {
                        Some(first) => add_contiguous(order, from, to.add(first)),
                        None => add_scattered(relative, from, to),
                    }
                }
                Ok(())
            })?;
            let rest = order - summed;
            // SAFETY: as above.
            pace.share(summed.div_ceil(ROWS), ROWS * rest, |groups, pace| unsafe {
                let (values, _, ut) = parts.get();
                for first in groups.map(|group| group * ROWS) {
                    let rows = first..summed.min(first + ROWS);
                    pace.step(ROWS * rest)?;
                    for j in summed..order {
                        let from = values.add(j * order);
                        let to = ut.add(*relative.get_unchecked(j) as usize - k);
                        for i in rows.clone() {
                            *to.add(*relative.get_unchecked(i) as usize * c) += *from.add(i);
                        }
                    }
                }
                Ok(())
            })
        })
    }

    /// Adds a front's pivots to the quality report.
    fn judge(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        done: &Pivots<'_>,
        quality: &mut Quality,
    ) {
        let shared = &context.shared;
        let perm = &context.symbolic.tree.perm;
        let Pivots {
            eliminated,
            rows,
            cols,
            positions,
        } = *done;
        let pivots = eliminated.pivots;
        for j in 0..pivots {
            let column = perm[cols[j] as usize] as usize;
            // SAFETY: pivots are inside the panel.
            let pivot = unsafe { *front.panels.add(j * (front.m + 1)) };
            let magnitude = pivot.magnitude().to_f64();
            lessen(&mut quality.min_pivot, magnitude);
            enlarge(&mut quality.max_pivot, magnitude);
            if !context.search {
                quality.add_pivot_ratio(magnitude, self.old_pivots[j].magnitude().to_f64());
            }
            quality.num_off_diagonal += usize::from(rows[j] != cols[j]);
            let product = self.products[j].magnitude();
            // SAFETY: a column has one pivot.
            unsafe { shared.products.add(column).write(product) };
            let product = product.to_f64();
            enlarge(&mut quality.max_product, product);
            if magnitude < quality.min_relative_pivot * product {
                lessen(&mut quality.min_relative_pivot, magnitude / product);
            }
            let norm = shared.norms[column].to_f64();
            let residual = (shared.sums[column] - self.check[j]).magnitude().to_f64();
            quality.add_column(column, norm, product, residual);
        }
        for &at in &self.events.replaced {
            let j = (0..cols.len()).find(|&j| positions.col[j] == at);
            let j = j.unwrap_or_else(|| unreachable!("a replaced pivot stands in its front"));
            quality.add_perturbed(perm[cols[j] as usize] as usize);
        }
        self.events.replaced.clear();
        quality.num_delayed += cols.len() - pivots;
    }
}

fn input_column<F: FrontalScalar>(
    context: &Context<'_, LuFront<F>>,
    done: &Pivots<'_>,
    j: usize,
) -> usize {
    context.symbolic.tree.perm[done.cols[j] as usize] as usize
}

/// Puts the entries of the matrix into the panels.
///
/// # Safety
///
/// The panels are valid.
#[inline]
unsafe fn add_matrix<F: FrontalScalar>(
    context: &Context<'_, LuFront<F>>,
    front: &ActiveFront<'_, F>,
) {
    let layout = &context.symbolic.layout;
    let range = layout.entry_ptr[front.s] as usize..layout.entry_ptr[front.s + 1] as usize;
    let source = &layout.source[range.clone()];
    let target = &layout.target[range];
    let input = context.input;
    let (lp, m, own, received) = (front.panels, front.m, front.own, front.received);
    // SAFETY: targets lie in the planned panels, sources among the values; with received
    // columns, both panels' rows are shifted behind them.
    unsafe {
        if received == 0 {
            for (&from, &to) in source.iter().zip(target) {
                *lp.add(to as usize) = *input.get_unchecked(from as usize);
            }
            return;
        }
        let planned = m - received;
        let ut = rows_panel(front);
        for (&from, &to) in source.iter().zip(target) {
            let to = to as usize;
            let place = if to < planned * own {
                let (i, j) = (to % planned, to / planned);
                lp.add(if i < own { i } else { i + received } + j * m)
            } else {
                ut.add(to - planned * own)
            };
            *place = input[from as usize];
        }
    }
}

/// Adds the elements of the children below and right of all fully summed rows and columns.
///
/// # Safety
///
/// `rest` is valid for the rows and columns below, `ld` apart.
#[inline]
unsafe fn add_below<F: FrontalScalar>(
    children: &Children<'_, F>,
    rest: *mut F,
    ld: usize,
    own: usize,
    pace: &mut Pace<'_>,
) -> Result<(), Cancelled> {
    children.for_each_below(|element, skipped, relative| {
        let order = element.order as usize;
        let first = contiguous(relative);
        let parts = Parts::new((element.values.cast_const(), rest));
        let rows = relative.len();
        // SAFETY: the element is order × order; positions are below the front's planned size, and none is twice there: each
        // column has one writer.
        pace.share(rows, rows, |columns, pace| unsafe {
            let (values, rest) = parts.get();
            for j in columns {
                pace.step(rows)?;
                let from = values.add(skipped + (skipped + j) * order);
                let to = rest.add((relative[j] as usize - own) * ld);
                match first {
                    Some(first) => add_contiguous(rows, from, to.add(first - own)),
                    None => add_scattered(relative, from, to.wrapping_sub(own)),
                }
            }
            Ok(())
        })
    })
}

/// Brings rows and columns, freshly assembled, into the positions of the kept pivots.
///
/// # Safety
///
/// The panels are valid, and their positions are below k.
unsafe fn move_panels<F: FrontalScalar>(panels: &FrontPanels<F>, scratch: &mut Vec<F>) {
    let (m, k) = (panels.m, panels.k);
    let c = m - k;
    let len = k * m.max(c);
    if scratch.len() < len {
        scratch.resize(len, F::zero());
    }
    let copy = scratch.as_mut_ptr();
    // SAFETY: the copy has room for either panel; positions are below k.
    unsafe {
        std::ptr::copy_nonoverlapping(panels.lp, copy, k * m);
        for j in 0..k {
            let from = copy.add(*panels.col.add(j) as usize * m);
            let to = panels.lp.add(j * m);
            for i in 0..k {
                *to.add(i) = *from.add(*panels.row.add(i) as usize);
            }
            std::ptr::copy_nonoverlapping(from.add(k), to.add(k), c);
        }
        std::ptr::copy_nonoverlapping(panels.ut, copy, k * c);
        for j in 0..k {
            let from = copy.add(*panels.row.add(j) as usize * c);
            std::ptr::copy_nonoverlapping(from, panels.ut.add(j * c), c);
        }
    }
}
