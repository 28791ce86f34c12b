//! The work of LDLᵀ, LDLᴴ and Cholesky on one front: assembly, elimination, check, generated element.

use std::sync::atomic::{AtomicBool, Ordering};

use luge_dense::{
    BLOCK_COLUMNS, BlockScratch, CheckLower, FrontalScalar, Gemm, Progress, SINGLE_ROWS,
    SingleFront, SymmetricEvent, SymmetricKernels, SymmetricPanel,
};
use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{
    Cancelled, Form, RealScalar, Reservation, ResolvedSymmetric, Scalar, SymmetricPivoting,
    bytes_of, enlarge,
};

use super::eliminate::{Eliminator, Outcome};
use super::has_signs;
use super::quality::SymmetricQuality;
use crate::error::FrontalError;
use crate::factorize::{
    ActiveFront, Children, Context, Eliminated, FrontState, FrontWork, Pace, Pivots, Positions,
    add_contiguous, add_scattered, contiguous,
};
use crate::shares::Parts;
use crate::storage::Lower;
use crate::widths::{scaled_entries, shared_entries};

/// What the fronts of one factorization share.
pub(super) struct Shared<'a, F: FrontalScalar> {
    pub kernels: &'static SymmetricKernels<F>,
    pub form: Form,
    /// How pivots are chosen.
    pub rule: ResolvedSymmetric<F::Real>,
    /// ‖B e_k‖₁ by input column.
    pub norms: &'a [F::Real],
    /// By what pivots are replaced that have not the sign of that, by input column, where signs are expected.
    pub expected: Option<&'a [f64]>,
    /// Which pivots were replaced, by input column, if any may be; each belongs to the thread of its front.
    pub replaced: &'a [AtomicBool],
    /// Whether the slots hold anything but zeros, left by a factorization before.
    pub used: bool,
}

/// LDLᵀ of one front after another, by one thread.
///
/// After an element's matrix comes a vector of its order: the column sums of |L|·|D|·|Lᵀ| so far.
pub(super) struct LdltFront<F: FrontalScalar> {
    eliminator: Eliminator<F>,
    outcome: Outcome<F::Real>,
    /// What is expected of the pivots of the front, if anything is.
    expected: Vec<F::Real>,
    /// Which of its columns, by where they stand before the elimination, may not be delayed, if any may not.
    is_due: Vec<bool>,
    /// Sums of |L|·|D|·|Lᵀ| by column of the front, and an array for the check and for moving them.
    products: Vec<F>,
    work: Vec<F>,
    relative: Vec<u32>,
    memory: Reservation,
    of_scratch: Reservation,
}

/// Bytes of the arrays for fronts of `m` rows.
fn array_bytes<F: FrontalScalar>(m: usize) -> u64 {
    // Three arrays of values, relative indices, partners, two arrays of places, and what is due.
    let by_row = m * (3 * size_of::<F>() + 4 + size_of::<(F::Real, u32)>() + 8 + 1);
    (by_row + BlockScratch::<F>::BYTES) as u64
}

/// A front's panel under elimination.
fn panel<F: Scalar>(
    form: Form,
    front: &ActiveFront<'_, F>,
    positions: &mut Positions,
    expected: &mut [F::Real],
) -> SymmetricPanel<F> {
    SymmetricPanel {
        lp: front.panels,
        m: front.m,
        k: front.k,
        col: positions.col.as_mut_ptr(),
        expected: if expected.is_empty() {
            std::ptr::null_mut()
        } else {
            expected.as_mut_ptr()
        },
        form,
    }
}

impl<F: FrontalScalar> FrontWork for LdltFront<F> {
    type Scalar = F;
    type Storage = Lower;
    type Report = SymmetricQuality;
    type Shared<'a> = Shared<'a, F>;

    fn new(context: &Context<'_, Self>, is_parallel: bool) -> Result<Self, FrontalError> {
        let options = context.options;
        let m = context.symbolic.tree.max_front();
        let memory = options.memory.reserve(array_bytes::<F>(m))?;
        Ok(Self {
            eliminator: Eliminator {
                kernels: context.shared.kernels,
                rule: context.shared.rule,
                cancel: options.cancel.clone(),
                parallel: is_parallel,
                block: BlockScratch::new(),
                scratch: Vec::new(),
                partners: Vec::new(),
                order: Vec::new(),
                place: Vec::new(),
            },
            outcome: Outcome::default(),
            expected: Vec::new(),
            is_due: Vec::new(),
            products: vec![F::zero(); m],
            work: vec![F::zero(); m],
            relative: Vec::new(),
            memory,
            of_scratch: options.memory.reserve(0)?,
        })
    }

    fn takes_whole(context: &Context<'_, Self>, k: usize, c: usize) -> bool {
        let Shared { expected, rule, .. } = &context.shared;
        k <= BLOCK_COLUMNS
            && c <= SINGLE_ROWS
            && expected.is_none()
            && rule.method != Some(SymmetricPivoting::Columns)
    }

    fn reserve(&mut self, _: &Context<'_, Self>, m: usize) -> Result<(), FrontalError> {
        // Old and new arrays are there at once.
        self.memory.resize(2 * array_bytes::<F>(m))?;
        for array in [&mut self.products, &mut self.work] {
            array.resize(m, F::zero());
        }
        Ok(())
    }

    unsafe fn assemble(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        children: &Children<'_, F>,
        _: Option<FrontState>,
    ) -> Result<(), FrontalError> {
        // SAFETY: the panel is valid.
        unsafe {
            let mut pace = Pace::new(&context.options.cancel, self.eliminator.parallel);
            if context.shared.used && front.received == 0 {
                pace.clear(front.panels, front.entries)?;
            } else {
                pace.provide(front.panels, front.entries)?;
            }
            add_matrix(context, front);
            Ok(self.add_children(context.shared.form, front, children, &mut pace)?)
        }
    }

    unsafe fn eliminate(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        positions: &mut Positions,
        _: Option<FrontState>,
    ) -> Result<Eliminated, FrontalError> {
        self.expected.clear();
        if let Some(expected) = context.shared.expected {
            let columns = own_columns(context, front).iter();
            let expected = columns.map(|&column| expected[column as usize]);
            self.expected.extend(expected.map(F::Real::from_f64));
        }
        self.is_due.clear();
        if let Some(limit) = self.eliminator.rule.limit
            && !front.is_root()
        {
            self.is_due.resize(front.own, limit.max_delays == 0);
            // SAFETY: the children are complete.
            unsafe {
                context.for_each_received(front, |delays| {
                    self.is_due.push(delays >= limit.max_delays);
                });
            }
        }
        let form = context.shared.form;
        let panel = panel(form, front, positions, &mut self.expected);
        let entries = if self.eliminator.parallel {
            shared_entries(front.k, front.c)
        } else {
            scaled_entries(front.k, front.c)
        };
        self.make_room(entries)?;
        // SAFETY: the panel is valid.
        self.outcome = unsafe {
            self.eliminator
                .front(&panel, front.is_root(), &self.is_due)?
        };
        let moved = (0..front.k).any(|j| positions.col[j] as usize != j);
        Ok(Eliminated {
            pivots: self.outcome.pivots,
            moved,
        })
    }

    unsafe fn complete(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        done: &Pivots<'_>,
    ) -> Result<(), FrontalError> {
        let (m, k) = (front.m, front.k);
        let pivots = done.eliminated.pivots;
        let note = |column: usize| context.shared.replaced[column].store(true, Ordering::Relaxed);
        if context.shared.expected.is_some() {
            for (&column, expected) in own_columns(context, front).iter().zip(&self.expected) {
                if *expected == F::Real::zero() {
                    note(column as usize);
                }
            }
        }
        for &j in &self.outcome.replaced {
            note(input_column(context, done, j as usize));
        }
        let column_at = |at: u32| {
            let j = (0..k).find(|&j| done.positions.col[j] == at);
            let j = j.unwrap_or_else(|| unreachable!("a column stands in its front"));
            input_column(context, done, j)
        };
        match self.outcome.event {
            None => {}
            Some(SymmetricEvent::Zero(at)) => {
                let column = column_at(at);
                return Err(FrontalError::Singular { column });
            }
            Some(SymmetricEvent::NotPositive(at, value)) => {
                let column = column_at(at);
                return Err(if value.is_finite() {
                    let value = value.to_f64();
                    FrontalError::NotPositiveDefinite { column, value }
                } else {
                    FrontalError::NotFinite { column }
                });
            }
        }
        if front.is_root() && pivots < k {
            let column = input_column(context, done, pivots);
            let is_finite = (pivots..k).all(|j| {
                // SAFETY: the panel has m × k entries.
                let column =
                    unsafe { std::slice::from_raw_parts(front.panels.add(j * m + j), m - j) };
                column.iter().all(|v| v.is_number())
            });
            return Err(if is_finite {
                FrontalError::Singular { column }
            } else {
                FrontalError::NotFinite { column }
            });
        }
        Ok(())
    }

    unsafe fn check(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        children: &Children<'_, F>,
        done: &Pivots<'_>,
        report: &mut SymmetricQuality,
    ) -> Result<(), FrontalError> {
        let (lp, m, k) = (front.panels, front.m, front.k);
        let Eliminated { pivots, moved } = done.eliminated;
        self.products[..m].fill(F::zero());
        let products = self.products.as_mut_ptr();
        children.for_each(&mut self.relative, |element, _, relative| {
            let order = element.order as usize;
            // SAFETY: a vector comes after the element's matrix; positions are below m.
            unsafe { add_scattered(relative, element.values.add(order * order), products) };
            Ok(())
        })?;
        if moved {
            self.work[..k].copy_from_slice(&self.products[..k]);
            for (sum, &from) in self.products.iter_mut().zip(&done.positions.col[..k]) {
                *sum = self.work[from as usize];
            }
        }
        // SAFETY: the arrays have m entries.
        let max_l = unsafe {
            (context.shared.kernels.check_lower)(&CheckLower {
                lp,
                m,
                pivots,
                products: self.products.as_mut_ptr(),
                s: self.work.as_mut_ptr(),
            })
        };
        if !self.products[..m].iter().all(|sum| sum.is_number()) {
            // The sums may overflow where no entry does.
            for j in 0..pivots {
                // SAFETY: the panel has m × k entries.
                let column = unsafe { std::slice::from_raw_parts(lp.add(j * m), m) };
                if !column.iter().all(|v| v.is_number()) {
                    let column = input_column(context, done, j);
                    return Err(FrontalError::NotFinite { column });
                }
            }
        }
        enlarge(&mut report.max_l, max_l.to_f64());
        report.num_first_pass += self.outcome.by_blocks;
        report.num_second_pass += pivots - self.outcome.by_blocks;
        report.num_delayed += k - pivots;
        let column = |j| input_column(context, done, j);
        self.judge(context, front, pivots, column, report);
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
        let (lp, m, k, c) = (front.panels, front.m, front.k, front.c);
        let pivots = done.eliminated.pivots;
        let delayed = k - pivots;
        let order = delayed + c;
        // SAFETY: the element has order² + order entries, the panel is valid.
        unsafe {
            for j in 0..delayed {
                let column = lp.add((pivots + j) * (m + 1));
                let to = element.add(j * (order + 1));
                std::ptr::copy_nonoverlapping(column, to, order - j);
            }
            let rest = element.add(delayed * (order + 1));
            let pace = &mut Pace::new(&self.eliminator.cancel, self.eliminator.parallel);
            let parts = Parts::new(rest);
            pace.share(c, c / 2, |columns, pace| {
                for j in columns {
                    pace.step(c - j)?;
                    // With what the products change above the diagonal.
                    let above = j % 8;
                    let to = parts.get().add(j * (order + 1) - above);
                    std::ptr::write_bytes(to, 0, c - j + above);
                }
                Ok(())
            })?;
            add_below(children, rest, order, front.own, pace)?;
            self.eliminator.cancel.check()?;
            let below = lp.add(k).cast_const();
            self.eliminator
                .update_below(c, pivots, [below, lp], m, rest, order)?;
            let sums = self.products.as_ptr().add(pivots);
            std::ptr::copy_nonoverlapping(sums, element.add(order * order), order);
        }
        Ok(())
    }

    unsafe fn whole(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        children: &Children<'_, F>,
        positions: &mut Positions,
        element: *mut F,
        report: &mut SymmetricQuality,
    ) -> Result<Option<Eliminated>, FrontalError> {
        let Shared {
            kernels,
            form,
            rule,
            ..
        } = &context.shared;
        let (lp, m, k, c) = (front.panels, front.m, front.k, front.c);
        let is_leaf = children.numbers().is_empty();
        if k > 1 {
            self.make_room(scaled_entries(k, c))?;
        }
        // SAFETY: the panel has m × k values, the element c² + c, the arrays m and what was made room for.
        let max_l = unsafe {
            std::ptr::write_bytes(lp, 0, m * k);
            add_matrix(context, front);
            let products = self.products.as_mut_ptr();
            let sums = element.add(c * c);
            let max_l = if k == 1 {
                *products = F::zero();
                if !is_leaf {
                    std::ptr::write_bytes(element, 0, c * (c + 1));
                    add_all(children, front, element, [products, sums]);
                }
                let single = SingleFront {
                    column: lp,
                    below: c,
                    element,
                    is_leaf,
                    product: products,
                };
                (kernels.eliminate_single)(&single, rule)
            } else {
                std::ptr::write_bytes(element, 0, c * (c + 1));
                std::ptr::write_bytes(products, 0, m);
                add_all(children, front, element, [products, products.add(k)]);
                let max_l = self.eliminate_block(&panel(*form, front, positions, &mut []), element);
                std::ptr::copy_nonoverlapping(products.add(k), sums, c);
                max_l
            };
            if max_l.is_none() {
                std::ptr::write_bytes(lp, 0, m * k);
            }
            max_l
        };
        let Some(max_l) = max_l else {
            return Ok(None);
        };
        enlarge(&mut report.max_l, max_l.to_f64());
        report.num_first_pass += k;
        let columns = own_columns(context, front);
        let column = |j: usize| columns[positions.col[j] as usize] as usize;
        self.judge(context, front, k, column, report);
        let moved = (0..k).any(|j| positions.col[j] as usize != j);
        Ok(Some(Eliminated { pivots: k, moved }))
    }
}

/// Adds the elements of children that delayed no columns: to the panel of a front, to its own element, and their column sums to those
/// of its pivots and to those of the rows below.
///
/// # Safety
///
/// The panel is valid, the element has c² values, and the sums k and c.
#[inline]
unsafe fn add_all<F: FrontalScalar>(
    children: &Children<'_, F>,
    front: &ActiveFront<'_, F>,
    element: *mut F,
    [of_pivots, of_below]: [*mut F; 2],
) {
    let (lp, m, k, c) = (front.panels, front.m, front.k, front.c);
    children.for_each_planned(|child, summed, relative| {
        let order = relative.len();
        let values = child.values.cast_const();
        // SAFETY: the caller's contract; positions ascend, those of summed rows are below k, all below m.
        unsafe {
            for j in 0..summed {
                let from = values.add(j * (order + 1));
                let to = lp.add(relative[j] as usize * m);
                add_scattered(&relative[j..], from, to);
            }
            for j in summed..order {
                let from = values.add(j * (order + 1));
                let to = element.add((relative[j] as usize - k) * c);
                add_scattered(&relative[j..], from, to.wrapping_sub(k));
            }
            let sums = values.add(order * order);
            let (pivots, below) = relative.split_at(summed);
            add_scattered(pivots, sums, of_pivots);
            add_scattered(below, sums.add(summed), of_below.wrapping_sub(k));
        }
    });
}

impl<F: FrontalScalar> LdltFront<F> {
    /// Sees to it that the scratch has so many entries.
    #[inline]
    fn make_room(&mut self, entries: usize) -> Result<(), FrontalError> {
        let scratch = &mut self.eliminator.scratch;
        if scratch.len() < entries {
            // Given back before more is taken.
            *scratch = Vec::new();
            self.of_scratch.resize(bytes_of::<F>(entries))?;
            *scratch = vec![F::zero(); entries];
        }
        Ok(())
    }

    /// Eliminates all columns of a front as one block, with its check, and updates its element. Returns the largest magnitude in L;
    /// `None`, with panel, column sums and element unspecified, if not all columns have pivots, or the sums are not finite.
    ///
    /// # Safety
    ///
    /// The panel is valid, the element too, there is room for the columns below the pivots, and nothing is expected of these.
    #[inline]
    unsafe fn eliminate_block(
        &mut self,
        panel: &SymmetricPanel<F>,
        element: *mut F,
    ) -> Option<F::Real> {
        let Eliminator {
            kernels,
            rule,
            block,
            scratch,
            ..
        } = &mut self.eliminator;
        let (lp, m, k) = (panel.lp, panel.m, panel.k);
        let (c, x) = (m - k, scratch.as_mut_ptr());
        // SAFETY: the caller's contract; the arrays have m values.
        unsafe {
            let Progress { pivots, event } = (kernels.factorize_block)(panel, 0, k, rule, block, x);
            if pivots < k || event.is_some() {
                return None;
            }
            self.work[..k].copy_from_slice(&self.products[..k]);
            for j in 0..k {
                self.products[j] = self.work[*panel.col.add(j) as usize];
            }
            let max_l = (kernels.check_lower)(&CheckLower {
                lp,
                m,
                pivots: k,
                products: self.products.as_mut_ptr(),
                s: self.work.as_mut_ptr(),
            });
            if !self.products[..m].iter().all(|sum| sum.is_number()) {
                return None;
            }
            let below = lp.add(k);
            (kernels.times_diagonal)(c, k, below, lp, m, x, c);
            (kernels.gemm_lower)(&Gemm {
                rows: c,
                columns: c,
                depth: k,
                a: below,
                lda: m,
                b: x,
                ldb: c,
                c: element,
                ldc: c,
            });
            Some(max_l)
        }
    }

    /// Adds the elements of the children, as far as they concern fully summed columns.
    ///
    /// # Safety
    ///
    /// The panel is valid.
    #[inline]
    unsafe fn add_children(
        &mut self,
        form: Form,
        front: &ActiveFront<'_, F>,
        children: &Children<'_, F>,
        pace: &mut Pace<'_>,
    ) -> Result<(), Cancelled> {
        let (lp, m) = (front.panels, front.m);
        children.for_each(&mut self.relative, |element, child, relative| {
            let order = element.order as usize;
            let delayed = element.delayed as usize;
            let summed = delayed + child.pivots_in_parent as usize;
            // SAFETY: the element is order × order; positions are below m, those of fully summed rows below k. Those of
            // rows that were planned ascend.
            unsafe {
                for j in 0..delayed {
                    pace.step(order - j)?;
                    // Delayed columns stand behind those that were planned.
                    let from = element.values.add(j * order);
                    let column = *relative.get_unchecked(j) as usize;
                    for i in j..order {
                        let row = *relative.get_unchecked(i) as usize;
                        let value = if row < column {
                            form.counterpart(*from.add(i))
                        } else {
                            *from.add(i)
                        };
                        *lp.add(row.max(column) + row.min(column) * m) += value;
                    }
                }
                let first = contiguous(&relative[delayed..]);
                let parts = Parts::new((element.values.cast_const(), lp));
                // Each column has one writer: none is twice among the positions.
                pace.share(summed - delayed, order, |columns, pace| {
                    let (values, lp) = parts.get();
                    for j in columns.map(|column| delayed + column) {
                        pace.step(order - j)?;
                        let from = values.add(j * order + j);
                        let to = lp.add(*relative.get_unchecked(j) as usize * m);
                        match first {
                            Some(first) => {
                                add_contiguous(order - j, from, to.add(first + j - delayed));
                            }
                            None => add_scattered(relative.get_unchecked(j..), from, to),
                        }
                    }
                    Ok(())
                })
            }
        })
    }

    /// Adds a front's pivots, of these input columns, to the report.
    fn judge(
        &self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, F>,
        pivots: usize,
        column: impl Fn(usize) -> usize,
        report: &mut SymmetricQuality,
    ) {
        let (lp, m) = (front.panels, front.m);
        // SAFETY: pivots are inside the panel.
        let entry = |i: usize, j: usize| unsafe { *lp.add(i + j * m) };
        let has_signs = has_signs::<F>(context.shared.form);
        for j in 0..pivots {
            let column = column(j);
            let norm = context.shared.norms[column].to_f64();
            let product = self.products[j].real().to_f64();
            report.add_column(product, norm);
            let is_first = j + 1 < pivots && entry(j, j + 1) != F::zero();
            let is_second = j > 0 && entry(j - 1, j) != F::zero();
            if is_first {
                let block = [entry(j, j), entry(j, j + 1), entry(j + 1, j + 1)];
                report.num_two += 1;
                let size = if has_signs {
                    let [d11, d22] = [block[0], block[2]].map(|d| d.real().to_f64());
                    report.add_two(d11, block[1].modulus().to_f64(), d22)
                } else {
                    report.add_complex_two(block.map(Scalar::widen))
                };
                let of_second = self.products[j + 1].real().to_f64();
                report.add_relative(size, product.max(of_second));
            } else if !is_second && entry(j, j) == F::zero() {
                report.add_zero(column);
            } else if !is_second {
                let size = if has_signs {
                    report.add_one(entry(j, j).real().to_f64())
                } else {
                    report.add_range(entry(j, j).modulus().to_f64())
                };
                report.add_relative(size, product);
            }
        }
    }
}

/// The input columns of a front none of whose children delayed any.
fn own_columns<'a, F: FrontalScalar>(
    context: &Context<'a, LdltFront<F>>,
    front: &ActiveFront<'_, F>,
) -> &'a [u32] {
    let start = context.symbolic.tree.fronts[front.s].start as usize;
    &context.symbolic.tree.perm[start..start + front.k]
}

fn input_column<F: FrontalScalar>(
    context: &Context<'_, LdltFront<F>>,
    done: &Pivots<'_>,
    j: usize,
) -> usize {
    context.symbolic.tree.perm[done.cols[j] as usize] as usize
}

/// Puts the entries of the matrix into the panel.
///
/// # Safety
///
/// The panel is valid.
#[inline]
unsafe fn add_matrix<F: FrontalScalar>(
    context: &Context<'_, LdltFront<F>>,
    front: &ActiveFront<'_, F>,
) {
    let layout = &context.symbolic.layout;
    let range = layout.entry_ptr[front.s] as usize..layout.entry_ptr[front.s + 1] as usize;
    let source = &layout.source[range.clone()];
    let target = &layout.target[range];
    let input = context.input;
    let (lp, m, own, received) = (front.panels, front.m, front.own, front.received);
    let planned = m - received;
    // SAFETY: targets lie in the planned panel, sources among the values; with received columns, the rows below are
    // shifted behind them.
    unsafe {
        for (&from, &to) in source.iter().zip(target) {
            let to = to as usize;
            let place = if received == 0 {
                to
            } else {
                let (i, j) = (to % planned, to / planned);
                j * m + if i < own { i } else { i + received }
            };
            *lp.add(place) = *input.get_unchecked(from as usize);
        }
        if context.shared.form.conjugates::<F>() {
            conjugate_upper(context, front, source, target);
        }
    }
}

/// Conjugates the entries of the matrix that are stored in the triangle across: those whose row is the column in which
/// they are here.
///
/// # Safety
///
/// As [`add_matrix`]; `source` and `target` are those of the front.
unsafe fn conjugate_upper<F: FrontalScalar>(
    context: &Context<'_, LdltFront<F>>,
    front: &ActiveFront<'_, F>,
    source: &[u32],
    target: &[u32],
) {
    let tree = &context.symbolic.tree;
    let rows = tree.pattern.idx();
    let start = tree.fronts[front.s].start as usize;
    let (m, own, received) = (front.m, front.own, front.received);
    let planned = m - received;
    for (&from, &to) in source.iter().zip(target) {
        let (i, j) = (to as usize % planned, to as usize / planned);
        if rows[from as usize] != tree.perm[start + j] {
            continue;
        }
        let i = if i < own { i } else { i + received };
        // SAFETY: as for the sources and targets of `add_matrix`.
        unsafe {
            let entry = front.panels.add(j * m + i);
            *entry = (*entry).conjugate();
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
        // SAFETY: the element is order × order; positions are below the front's planned size, and ascend: each column has one
        // writer.
        pace.share(rows, rows / 2, |columns, pace| unsafe {
            let (values, rest) = parts.get();
            for j in columns {
                pace.step(rows - j)?;
                let from = values.add((skipped + j) * (order + 1));
                let to = rest.add((relative[j] as usize - own) * ld);
                match first {
                    Some(first) => add_contiguous(rows - j, from, to.add(first - own + j)),
                    None => add_scattered(&relative[j..], from, to.wrapping_sub(own)),
                }
            }
            Ok(())
        })
    })
}
