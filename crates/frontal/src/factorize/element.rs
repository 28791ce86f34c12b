//! What fronts hand to their parents.

use std::ops::Range;

use luge_sparse::{CancelFlag, Cancelled, Reservation};

use super::stack::Mark;
use crate::shares::{Parts, pieces};
use crate::tree::{AssemblyTree, Front};

/// What a front hands to its parent: a square matrix over its delayed columns and the rows below
/// its pivots, column-major, and after it whatever the kind of factorization checks it by.
pub(crate) struct Element<F> {
    pub values: *mut F,
    /// Rows of the matrix.
    pub order: u32,
    /// Delayed columns, which come first.
    pub delayed: u32,
    /// Height of the stack below it.
    pub(super) mark: Mark,
    /// The memory, if it is not on a stack. Most elements are on one, so what they have not takes a word.
    pub(super) owned: Option<Box<Owned<F>>>,
}

/// Memory of an element's own.
pub(super) struct Owned<F> {
    pub values: Vec<F>,
    /// What is reserved for them, until they are dropped.
    pub _memory: Reservation,
}

impl<F> Element<F> {
    pub fn none() -> Self {
        Self {
            values: std::ptr::null_mut(),
            order: 0,
            delayed: 0,
            mark: Mark::default(),
            owned: None,
        }
    }
}

/// The elements of the children of a front.
pub(crate) struct Children<'a, F> {
    tree: &'a AssemblyTree,
    numbers: &'a [u32],
    /// Elements of all fronts of the tree.
    elements: *const Element<F>,
    /// Pivots of the front as planned, and delayed columns that it receives.
    own: usize,
    received: usize,
}

impl<'a, F> Children<'a, F> {
    /// # Safety
    ///
    /// The elements of the children of front `s` are complete, and stay so as long as this lives.
    pub unsafe fn new(tree: &'a AssemblyTree, s: usize, elements: *const Element<F>) -> Self {
        let front = &tree.fronts[s];
        let numbers = &tree.children[front.child_range()];
        let mut received = 0;
        for &child in numbers {
            // SAFETY: children are complete.
            received += unsafe { (*elements.add(child as usize)).delayed as usize };
        }
        Self {
            tree,
            numbers,
            elements,
            own: front.pivots as usize,
            received,
        }
    }

    pub fn numbers(&self) -> &'a [u32] {
        self.numbers
    }

    /// Columns that the children delayed.
    pub fn received(&self) -> usize {
        self.received
    }

    /// Visits each element that is not empty, with the child's front and the position in the parent's front of each row
    /// of the element: all below the parent's size. `room` is overwritten.
    #[inline(always)]
    pub fn for_each(
        &self,
        room: &mut Vec<u32>,
        mut visit: impl FnMut(&Element<F>, &Front, &[u32]) -> Result<(), Cancelled>,
    ) -> Result<(), Cancelled> {
        let mut before = 0;
        for &child in self.numbers {
            // SAFETY: the children are complete.
            let element = unsafe { &*self.elements.add(child as usize) };
            if element.order == 0 {
                continue;
            }
            let front = &self.tree.fronts[child as usize];
            let planned = &self.tree.relative[front.row_range()];
            let delayed = element.delayed as usize;
            let relative = with_delays(
                room,
                planned,
                delayed,
                self.own + before,
                self.own,
                self.received,
            );
            before += delayed;
            visit(element, front, relative)?;
        }
        Ok(())
    }

    /// Visits each element that is not empty, where no child delayed a column: with the number of its rows that are fully summed in the
    /// parent's front, and the position there of each row.
    #[inline(always)]
    pub fn for_each_planned(&self, mut visit: impl FnMut(&Element<F>, usize, &[u32])) {
        for &child in self.numbers {
            // SAFETY: the children are complete.
            let element = unsafe { &*self.elements.add(child as usize) };
            let front = &self.tree.fronts[child as usize];
            visit(
                element,
                front.pivots_in_parent as usize,
                &self.tree.relative[front.row_range()],
            );
        }
    }

    /// Visits each element that has rows below the fully summed ones of the parent, with the number of its rows and
    /// columns above these, and the planned position in the parent's front of those below: ascending, none empty.
    #[inline(always)]
    pub fn for_each_below(
        &self,
        mut visit: impl FnMut(&Element<F>, usize, &[u32]) -> Result<(), Cancelled>,
    ) -> Result<(), Cancelled> {
        for &child in self.numbers {
            // SAFETY: the children are complete.
            let element = unsafe { &*self.elements.add(child as usize) };
            let front = &self.tree.fronts[child as usize];
            let summed = front.pivots_in_parent as usize;
            let relative = &self.tree.relative[front.row_range()][summed..];
            if !relative.is_empty() {
                visit(element, element.delayed as usize + summed, relative)?;
            }
        }
        Ok(())
    }
}

/// Entries that are moved or cleared between two looks at the cancel flag: where their memory is new, that takes some
/// milliseconds.
const STRIDE: usize = 1 << 19;

/// Bytes of a page of memory, or less.
const PAGE: usize = 4096;

/// Moves many entries, looks at a flag once in a while, and may have the threads of the current pool share the work.
pub(crate) struct Pace<'a> {
    cancel: &'a CancelFlag,
    is_shared: bool,
    /// Entries since the last look.
    entries: usize,
}

impl<'a> Pace<'a> {
    pub fn new(cancel: &'a CancelFlag, is_shared: bool) -> Self {
        Self {
            cancel,
            is_shared,
            entries: 0,
        }
    }

    /// So many entries are next.
    #[inline]
    pub fn step(&mut self, entries: usize) -> Result<(), Cancelled> {
        self.entries += entries;
        if self.entries >= STRIDE {
            self.entries = 0;
            self.cancel.check()?;
        }
        Ok(())
    }

    /// Calls `work` with ranges that make up `0..len`, `entries` to be moved for each; from several threads if that is
    /// worth it.
    #[inline]
    pub fn share(
        &mut self,
        len: usize,
        entries: usize,
        work: impl Fn(Range<usize>, &mut Pace<'_>) -> Result<(), Cancelled> + Sync,
    ) -> Result<(), Cancelled> {
        if !self.is_shared {
            return work(0..len, self);
        }
        pieces(true, len, entries, 1, |range| {
            work(range, &mut Pace::new(self.cancel, false))
        })
    }

    /// Clears `len` values.
    ///
    /// # Safety
    ///
    /// They are the caller's to write, and zeros are values.
    pub unsafe fn clear<F>(&mut self, values: *mut F, len: usize) -> Result<(), Cancelled> {
        let values = Parts::new(values);
        self.share(len, 1, |range, pace| {
            for at in range.clone().step_by(STRIDE) {
                let part = STRIDE.min(range.end - at);
                pace.step(part)?;
                // SAFETY: the caller's contract.
                unsafe { std::ptr::write_bytes(values.get().add(at), 0, part) };
            }
            Ok(())
        })
    }

    /// Has the system provide the memory of `len` values, which are zeros and may be new, if it is much: where entries come
    /// in any order, each may have to wait for a page of its own.
    ///
    /// # Safety
    ///
    /// They are the caller's to write.
    pub unsafe fn provide<F>(&mut self, values: *mut F, len: usize) -> Result<(), Cancelled> {
        if len < STRIDE {
            return Ok(());
        }
        let values = Parts::new(values);
        self.share(len, 1, |range, pace| {
            for at in range.step_by(PAGE / size_of::<F>()) {
                // A page of memory takes about as long to come as to be cleared.
                pace.step(PAGE / size_of::<F>())?;
                // SAFETY: the caller's contract; a zero replaces a zero.
                unsafe { std::ptr::write_bytes(values.get().add(at), 0, 1) };
            }
            Ok(())
        })
    }
}

/// Where the first row of an element goes if its rows, whose positions ascend, go one after another.
#[inline(always)]
pub(crate) fn contiguous(relative: &[u32]) -> Option<usize> {
    let (first, last) = (*relative.first()?, relative[relative.len() - 1]);
    ((last - first) as usize + 1 == relative.len()).then_some(first as usize)
}

/// to[i] += from[i].
///
/// # Safety
///
/// Both have `len` values.
#[inline(always)]
pub(crate) unsafe fn add_contiguous<F: Copy + std::ops::AddAssign>(
    len: usize,
    from: *const F,
    to: *mut F,
) {
    for i in 0..len {
        // SAFETY: the caller's contract.
        unsafe { *to.add(i) += *from.add(i) };
    }
}

/// to[relative[i]] += from[i].
///
/// # Safety
///
/// `from` has as many values as `relative`, and `to` reaches all of its indices.
#[inline(always)]
pub(crate) unsafe fn add_scattered<F: Copy + std::ops::AddAssign>(
    relative: &[u32],
    from: *const F,
    to: *mut F,
) {
    for (i, &r) in relative.iter().enumerate() {
        // SAFETY: the caller's contract.
        unsafe { *to.wrapping_add(r as usize) += *from.add(i) };
    }
}

/// Relative indices of a child's element in a front that receives delayed columns: the child's own
/// delayed ones stand from `first` on, behind those of the children before it, rows below behind all
/// of them. Without delays they are those that were planned; `room` holds the others.
fn with_delays<'a>(
    room: &'a mut Vec<u32>,
    planned: &'a [u32],
    delayed: usize,
    first: usize,
    own: usize,
    received: usize,
) -> &'a [u32] {
    if received == 0 {
        return planned;
    }
    room.clear();
    room.extend((0..delayed).map(|i| (first + i) as u32));
    room.extend(planned.iter().map(|&r| {
        if (r as usize) < own {
            r
        } else {
            r + received as u32
        }
    }));
    room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_flag_is_seen_within_a_stride() {
        let cancel = CancelFlag::new();
        let mut pace = Pace::new(&cancel, false);
        let mut values = vec![1.0; 3 * STRIDE + 5];
        let len = values.len() - 1;
        // SAFETY: the values are the vector's.
        unsafe { pace.clear(values.as_mut_ptr(), len) }.unwrap();
        assert!(values[..len].iter().all(|&v| v == 0.0) && values[len] == 1.0);
        cancel.cancel();
        values.fill(1.0);
        let mut pace = Pace::new(&cancel, false);
        assert_eq!(pace.step(STRIDE - 1), Ok(()));
        assert_eq!(pace.step(1), Err(Cancelled));
        assert_eq!(pace.step(STRIDE - 1), Ok(()));
        // SAFETY: as above.
        let stopped = unsafe { pace.clear(values.as_mut_ptr(), len) };
        assert_eq!(stopped, Err(Cancelled));
        assert_eq!(values[STRIDE], 1.0);
        // SAFETY: as above.
        let provided = unsafe { Pace::new(&cancel, false).provide(values.as_mut_ptr(), len) };
        assert_eq!(provided, Err(Cancelled));
    }
}
