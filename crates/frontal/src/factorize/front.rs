//! One front: the memory of its panels and of its element, and where its rows and columns stand.

use std::sync::PoisonError;

use luge_sparse::Reservation;
use luge_sparse::etree::NONE;
use luge_sparse::num_traits::Zero;

use super::element::{Children, Element, Owned};
use super::stack::Stack;
use super::store::{DelayedPanels, FrontState};
use super::work::{Context, Eliminated, FrontWork, Pivots};
use crate::error::FrontalError;
use crate::storage::Storage;
use crate::tree::Front;

/// A front that is worked on.
pub(crate) struct ActiveFront<'a, F> {
    /// Its number in postorder.
    pub s: usize,
    pub planned: &'a Front,
    /// Labels of the rows below the pivots.
    pub below_rows: &'a [u32],
    /// Pivots as planned.
    pub own: usize,
    /// Columns that the children delayed.
    pub received: usize,
    /// Fully summed rows and columns: own and received.
    pub k: usize,
    /// Rows below them.
    pub c: usize,
    /// All rows.
    pub m: usize,
    /// Its panels, laid out as [`Storage`] says for k pivots.
    pub panels: *mut F,
    /// Entries of the panels.
    pub entries: usize,
}

impl<F> ActiveFront<'_, F> {
    pub fn is_root(&self) -> bool {
        self.planned.parent == NONE
    }
}

/// Where the fully summed rows and columns of a front stood before its elimination. Only the columns are used where rows
/// are permuted as they are.
pub(crate) struct Positions {
    pub row: Vec<u32>,
    pub col: Vec<u32>,
}

impl Positions {
    fn reset(&mut self, k: usize) {
        for j in 0..k {
            self.row[j] = j as u32;
            self.col[j] = j as u32;
        }
    }
}

impl<W: FrontWork> Context<'_, W> {
    /// Labels of the rows and columns that a front delayed, in their order; without rows where these are permuted as the
    /// columns are.
    ///
    /// # Safety
    ///
    /// The front is complete.
    pub(super) unsafe fn delayed_labels(&self, s: u32) -> (&[u32], &[u32]) {
        let s = s as usize;
        // SAFETY: nobody writes the labels of a complete front.
        unsafe {
            let record = &*self.records.add(s);
            let delayed = record.pivots as usize..record.k as usize;
            let start = self.symbolic.tree.fronts[s].start as usize;
            let (rows, cols) = match &*self.delayed.add(s) {
                Some(panels) => (
                    &panels.rows[delayed.start.min(panels.rows.len())..],
                    &panels.cols[delayed],
                ),
                None => {
                    let labels = |of: *const u32| {
                        std::slice::from_raw_parts(of.add(start + delayed.start), delayed.len())
                    };
                    let rows = if W::Storage::SYMMETRIC {
                        &[]
                    } else {
                        labels(self.rows)
                    };
                    (rows, labels(self.cols))
                }
            };
            (rows, cols)
        }
    }

    /// Visits the columns that a front received from its children, in the order in which they stand behind its own: how many
    /// times each was delayed.
    ///
    /// # Safety
    ///
    /// The children of the front are complete.
    pub unsafe fn for_each_received(
        &self,
        front: &ActiveFront<'_, W::Scalar>,
        mut visit: impl FnMut(u32),
    ) {
        let tree = &self.symbolic.tree;
        for &child in &tree.children[front.planned.child_range()] {
            // SAFETY: the caller's contract.
            let (_, cols) = unsafe { self.delayed_labels(child) };
            for &column in cols {
                // Each delay leads to the parent.
                let planned = tree.fronts.partition_point(|front| front.start <= column) - 1;
                visit(tree.fronts[planned].depth - front.planned.depth);
            }
        }
    }
}

/// One thread's memory.
pub(super) struct Worker<'c, 'a, W: FrontWork> {
    context: &'c Context<'a, W>,
    work: W,
    /// Elements of fronts of even and of odd depth: the elements of the children lie on top of the
    /// one stack while their parent's goes to the other.
    stacks: [Stack<W::Scalar>; 2],
    positions: Positions,
    pub report: W::Report,
    of_stacks: Reservation,
    of_positions: Reservation,
}

impl<'c, 'a, W: FrontWork> Worker<'c, 'a, W> {
    /// With room for the given elements on the two stacks. `is_parallel`: whether large products are shared among the
    /// threads of the current pool.
    pub fn new(
        context: &'c Context<'a, W>,
        is_parallel: bool,
        stack_entries: [u64; 2],
    ) -> Result<Self, FrontalError> {
        let m = context.symbolic.tree.max_front();
        let entries = (stack_entries[0] + stack_entries[1]) as usize;
        let memory = &context.options.memory;
        Ok(Self {
            of_stacks: memory.reserve_for::<W::Scalar>(entries)?,
            of_positions: memory.reserve(8 * m as u64)?,
            context,
            work: W::new(context, is_parallel)?,
            stacks: stack_entries.map(|entries| Stack::with_capacity(entries as usize)),
            positions: Positions {
                row: vec![0; m],
                col: vec![0; m],
            },
            report: W::Report::default(),
        })
    }

    /// What was measured; the memory is given back.
    pub fn into_report(self) -> W::Report {
        self.report
    }

    fn reserve(&mut self, m: usize) -> Result<(), FrontalError> {
        if self.positions.row.len() < m {
            // Old and new arrays are there at once.
            self.of_positions.resize(16 * m as u64)?;
            self.positions.row.resize(m, 0);
            self.positions.col.resize(m, 0);
            self.work.reserve(self.context, m)?;
        }
        Ok(())
    }

    /// Factorizes front `s`. Its element goes to this worker's stack, or to memory of its own; to this also where another rank
    /// may want it.
    ///
    /// # Safety
    ///
    /// The children are factorized, nobody else works on `s`, and the elements on this worker's
    /// stacks are those of a postorder that `s` continues.
    pub unsafe fn front(&mut self, s: usize, own_memory: bool) -> Result<(), FrontalError> {
        let context = self.context;
        context.options.cancel.check()?;
        // SAFETY: the children are complete; their elements are released at the end.
        let children = unsafe { Children::new(&context.symbolic.tree, s, context.elements) };
        // SAFETY: nobody else works on `s`.
        let (front, kept) = unsafe { self.open(s, &children)? };
        let own_memory = own_memory || context.hands_on(s) || context.keeps(s);
        // SAFETY: the panels are those of the front, and nobody else's; the children are complete.
        unsafe {
            if front.received == 0
                && kept.is_none()
                && W::takes_whole(context, front.k, front.c)
                && self.whole(&front, &children, own_memory)?
            {
                return Ok(());
            }
            self.work.assemble(context, &front, &children, kept)?;
            context.options.cancel.check()?;
            match kept {
                Some(_) => self.restore(&front),
                None => self.positions.reset(front.k),
            }
            let eliminated = self
                .work
                .eliminate(context, &front, &mut self.positions, kept)?;
            if kept.is_none() {
                *context.records.add(s) = FrontState {
                    k: front.k as u32,
                    pivots: eliminated.pivots as u32,
                    moved: eliminated.moved,
                };
                self.label(&front, children.numbers());
            }
            let (rows, cols) = self.labels(&front);
            let pivots = Pivots {
                eliminated,
                rows,
                cols,
                positions: &self.positions,
            };
            self.work.complete(context, &front, &pivots)?;
            let report = context.report_of(s, &mut self.report);
            self.work
                .check(context, &front, &children, &pivots, report)?;
            let delayed = front.k - eliminated.pivots;
            let element = Self::element(
                context,
                &mut self.stacks,
                &mut self.of_stacks,
                &front,
                delayed,
                own_memory,
            )?;
            if element.order > 0 {
                self.work
                    .update(context, &front, &children, &pivots, element.values)?;
            }
            self.close(&front, children.numbers(), element);
        }
        Ok(())
    }

    /// Has all verbs done at once on a front that receives no columns, whose pivots are searched: whether that is done; if not,
    /// nothing is.
    ///
    /// # Safety
    ///
    /// As [`front`](Self::front).
    unsafe fn whole(
        &mut self,
        front: &ActiveFront<'_, W::Scalar>,
        children: &Children<'_, W::Scalar>,
        own_memory: bool,
    ) -> Result<bool, FrontalError> {
        let context = self.context;
        self.positions.reset(front.k);
        let element = Self::element(
            context,
            &mut self.stacks,
            &mut self.of_stacks,
            front,
            0,
            own_memory,
        )?;
        // SAFETY: the caller's contract; the element has the size of one without delayed columns.
        unsafe {
            let report = context.report_of(front.s, &mut self.report);
            let done = self.work.whole(
                context,
                front,
                children,
                &mut self.positions,
                element.values,
                report,
            )?;
            let Some(Eliminated { pivots, moved }) = done else {
                self.release(front.planned.depth, &element);
                return Ok(false);
            };
            *context.records.add(front.s) = FrontState {
                k: front.k as u32,
                pivots: pivots as u32,
                moved,
            };
            self.label(front, children.numbers());
            self.close(front, children.numbers(), element);
        }
        Ok(true)
    }

    /// Takes an element of a front of this depth, and all that came after it, off its stack, if it is on one.
    #[inline]
    fn release(&mut self, depth: u32, element: &Element<W::Scalar>) {
        if element.order > 0 && element.owned.is_none() {
            self.stacks[(depth % 2) as usize].release(element.mark);
        }
    }

    /// The front with the memory of its panels, and its record if pivots are kept.
    ///
    /// # Safety
    ///
    /// Nobody else works on `s`.
    #[inline]
    unsafe fn open(
        &mut self,
        s: usize,
        children: &Children<'c, W::Scalar>,
    ) -> Result<(ActiveFront<'c, W::Scalar>, Option<FrontState>), FrontalError> {
        let context = self.context;
        let tree = &context.symbolic.tree;
        let planned = &tree.fronts[s];
        let (own, c) = (planned.pivots as usize, planned.below as usize);
        let received = children.received();
        let k = own + received;
        self.reserve(k + c)?;
        let entries = W::Storage::slot_entries(k as u32, c as u32) as usize;
        let panels = if received == 0 {
            if context.search {
                // Children that were searched again may delay no column any more.
                // SAFETY: this front's panels.
                unsafe { *context.delayed.add(s) = None };
            }
            // SAFETY: the slot has this size.
            unsafe { context.values.add(context.slot[s] as usize) }
        } else {
            // SAFETY: this front's panels.
            let delayed = unsafe { &mut *context.delayed.add(s) };
            if context.search {
                context.charge((entries * size_of::<W::Scalar>()) as u64)?;
                let bytes = DelayedPanels::<W::Scalar>::bytes(entries, k);
                let asked = {
                    let of_factors = context.of_factors.lock();
                    let mut of_factors = of_factors.unwrap_or_else(PoisonError::into_inner);
                    of_factors.grow(bytes)?;
                    of_factors.bytes()
                };
                let made = DelayedPanels::new(entries, k, W::Storage::SYMMETRIC);
                let available = asked - bytes;
                let made = made.ok_or(FrontalError::OutOfMemory { asked, available })?;
                *delayed = Some(Box::new(made));
            }
            let kept = delayed.as_mut();
            kept.expect("a front that receives columns keeps its panels")
                .values
                .as_mut_ptr()
        };
        let front = ActiveFront {
            s,
            planned,
            below_rows: &tree.rows[planned.row_range()],
            own,
            received,
            k,
            c,
            m: k + c,
            panels,
            entries,
        };
        // SAFETY: this front's record.
        let kept = (!context.search).then(|| unsafe { *context.records.add(s) });
        Ok((front, kept))
    }

    /// Memory for the element of a front with this many delayed columns.
    #[inline]
    fn element(
        context: &Context<'a, W>,
        stacks: &mut [Stack<W::Scalar>; 2],
        of_stacks: &mut Reservation,
        front: &ActiveFront<'_, W::Scalar>,
        delayed: usize,
        own_memory: bool,
    ) -> Result<Element<W::Scalar>, FrontalError> {
        let order = delayed + front.c;
        let mut element = Element::none();
        if order == 0 {
            return Ok(element);
        }
        element.order = order as u32;
        element.delayed = delayed as u32;
        let len = W::Storage::element_entries(order);
        if own_memory {
            let unplanned = len - W::Storage::element_entries(front.c);
            context.charge((unplanned * size_of::<W::Scalar>()) as u64)?;
            // What is kept is reserved as it was planned.
            let reserved = if context.keeps(front.s) {
                unplanned
            } else {
                len
            };
            // SAFETY: this front's element.
            let before =
                unsafe { std::mem::replace(&mut *context.elements.add(front.s), Element::none()) };
            let kept = before.owned.filter(|owned| owned.values.capacity() == len);
            let memory = context.options.memory.reserve_for::<W::Scalar>(reserved)?;
            let mut values = kept.map_or_else(Vec::new, |owned| owned.values);
            values.reserve_exact(len);
            if context.hands_on(front.s) {
                // What is sent has a value everywhere, also above a diagonal.
                values.resize(len, W::Scalar::zero());
            }
            element.values = values.as_mut_ptr();
            element.owned = Some(Box::new(Owned {
                values,
                _memory: memory,
            }));
        } else {
            let stack = &mut stacks[(front.planned.depth % 2) as usize];
            element.mark = stack.mark();
            let (values, bytes) = stack.push(len, of_stacks)?;
            context.charge(bytes)?;
            element.values = values;
        }
        Ok(element)
    }

    /// Hands the element over and releases those of the children.
    ///
    /// # Safety
    ///
    /// Nobody reads the children's elements any more.
    #[inline]
    unsafe fn close(
        &mut self,
        front: &ActiveFront<'_, W::Scalar>,
        children: &[u32],
        element: Element<W::Scalar>,
    ) {
        let context = self.context;
        context
            .progress
            .add(|| W::Storage::flops(front.planned.pivots, front.planned.below));
        // SAFETY: this front's element, and its children's.
        unsafe {
            context.elements.add(front.s).write(element);
            for &child in children.iter().rev() {
                if context.keeps(child as usize) {
                    continue;
                }
                let element = &mut *context.elements.add(child as usize);
                self.release(front.planned.depth + 1, element);
                *element = Element::none();
            }
        }
    }

    /// Labels of the fully summed rows and columns.
    ///
    /// # Safety
    ///
    /// Nobody else works on the front, and they are written.
    #[inline]
    unsafe fn labels(&self, front: &ActiveFront<'_, W::Scalar>) -> (&'c [u32], &'c [u32]) {
        let context = self.context;
        let (start, k) = (front.planned.start as usize, front.k);
        // SAFETY: a front without delayed panels has k labels of its own.
        let (rows, cols) = unsafe {
            match &*context.delayed.add(front.s) {
                Some(delayed) if front.received > 0 => (&delayed.rows[..], &delayed.cols[..]),
                _ => {
                    let cols = std::slice::from_raw_parts(context.cols.add(start), k);
                    if W::Storage::SYMMETRIC {
                        (cols, cols)
                    } else {
                        (std::slice::from_raw_parts(context.rows.add(start), k), cols)
                    }
                }
            }
        };
        (if W::Storage::SYMMETRIC { cols } else { rows }, cols)
    }

    /// Fetches where rows and columns stood before the elimination whose pivots are kept.
    ///
    /// # Safety
    ///
    /// The labels of the front are those of a factorization.
    unsafe fn restore(&mut self, front: &ActiveFront<'_, W::Scalar>) {
        let k = front.k;
        // SAFETY: this front's.
        if let Some(delayed) = unsafe { &*self.context.delayed.add(front.s) } {
            self.positions.row[..k].copy_from_slice(&delayed.row_from);
            self.positions.col[..k].copy_from_slice(&delayed.col_from);
            return;
        }
        let start = front.planned.start;
        // SAFETY: a front without delayed panels has k labels of its own.
        let (rows, cols) = unsafe { self.labels(front) };
        for j in 0..k {
            self.positions.row[j] = rows[j] - start;
            self.positions.col[j] = cols[j] - start;
        }
    }

    /// Writes down which rows and columns the positions of a front hold.
    ///
    /// # Safety
    ///
    /// Nobody else works on the front; the labels of its children are complete.
    unsafe fn label(&self, front: &ActiveFront<'_, W::Scalar>, children: &[u32]) {
        let context = self.context;
        let start = front.planned.start;
        let positions = &self.positions;
        // SAFETY: this front's.
        let Some(delayed) = (unsafe { &mut *context.delayed.add(front.s) }) else {
            // SAFETY: a front without delayed panels has k labels of its own.
            unsafe {
                for j in 0..front.k {
                    *context.cols.add(start as usize + j) = start + positions.col[j];
                    if !W::Storage::SYMMETRIC {
                        *context.rows.add(start as usize + j) = start + positions.row[j];
                    }
                }
            }
            return;
        };
        let mut col_labels: Vec<u32> = (start..start + front.own as u32).collect();
        let mut row_labels = col_labels.clone();
        for &child in children {
            // SAFETY: the children are complete.
            let (rows, cols) = unsafe { context.delayed_labels(child) };
            col_labels.extend(cols);
            row_labels.extend(rows);
        }
        for j in 0..front.k {
            delayed.col_from[j] = positions.col[j];
            delayed.cols[j] = col_labels[positions.col[j] as usize];
            if !W::Storage::SYMMETRIC {
                delayed.row_from[j] = positions.row[j];
                delayed.rows[j] = row_labels[positions.row[j] as usize];
            }
        }
    }
}
