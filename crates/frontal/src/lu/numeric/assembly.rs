//! Assembly of a front: entries of the matrix, elements of the children, sums of their checks.

use super::Worker;
use crate::kernels::FrontalScalar;

impl<F: FrontalScalar> Worker<'_, F> {
    /// Puts the entries of the matrix into the panels.
    ///
    /// # Safety
    ///
    /// `lp` is valid for the panels of front `s` with `received` more columns than planned.
    pub(super) unsafe fn assemble(
        &self,
        s: usize,
        lp: *mut F,
        m: usize,
        own: usize,
        received: usize,
    ) {
        let layout = &self.context.tree.layout;
        let range = layout.entry_ptr[s] as usize..layout.entry_ptr[s + 1] as usize;
        let source = &layout.source[range.clone()];
        let target = &layout.target[range];
        let input = self.context.input;
        // SAFETY: targets lie in the planned panels, sources among the values; with received
        // columns, both panels' rows are shifted behind them.
        unsafe {
            if received == 0 {
                for (&from, &to) in source.iter().zip(target) {
                    *lp.add(to as usize) = *input.get_unchecked(from as usize);
                }
            } else {
                let planned = m - received;
                let ut = lp.add((own + received) * m);
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
    }

    /// Adds the elements of the children, as far as they concern fully summed rows or columns.
    ///
    /// # Safety
    ///
    /// The panels are valid: m rows and k = own + received columns; the children are complete.
    #[expect(clippy::too_many_arguments)]
    pub(super) unsafe fn add_children_to_panels(
        &mut self,
        children: &[u32],
        lp: *mut F,
        ut: *mut F,
        m: usize,
        k: usize,
        own: usize,
        received: usize,
    ) {
        let context = self.context;
        let tree = context.tree;
        let c = m - k;
        let mut before = 0;
        for &child in children {
            // SAFETY: the children are complete; relative indices are below m.
            unsafe {
                let element = &*context.elements.add(child as usize);
                let order = element.order as usize;
                if order == 0 {
                    continue;
                }
                let front = &tree.fronts[child as usize];
                let planned = &tree.relative[front.row_range()];
                let delayed = element.delayed as usize;
                let relative = with_delays(
                    &mut self.relative,
                    planned,
                    delayed,
                    own + before,
                    own,
                    received,
                );
                before += delayed;
                let summed = delayed + front.pivots_in_parent as usize;
                for j in 0..summed {
                    let from = element.values.add(j * order);
                    let to = lp.add(*relative.get_unchecked(j) as usize * m);
                    add_scattered(relative, from, to);
                }
                for j in summed..order {
                    let from = element.values.add(j * order);
                    let to = ut.add(*relative.get_unchecked(j) as usize - k);
                    for i in 0..summed {
                        *to.add(*relative.get_unchecked(i) as usize * c) += *from.add(i);
                    }
                }
            }
        }
    }

    /// Adds the elements of the children below and right of all fully summed rows and columns.
    ///
    /// # Safety
    ///
    /// `rest` is valid for the rows and columns below, `ld` apart; the children are complete.
    pub(super) unsafe fn add_children_to_rest(
        &self,
        children: &[u32],
        rest: *mut F,
        ld: usize,
        own: usize,
    ) {
        let context = self.context;
        let tree = context.tree;
        for &child in children {
            // SAFETY: the children are complete; relative indices are below the front's size.
            unsafe {
                let element = &*context.elements.add(child as usize);
                let order = element.order as usize;
                let front = &tree.fronts[child as usize];
                let summed = front.pivots_in_parent as usize;
                let relative = &tree.relative[front.row_range()][summed..];
                let Some(&first) = relative.first() else {
                    continue;
                };
                let skipped = element.delayed as usize + summed;
                let contiguous =
                    (relative[relative.len() - 1] - first) as usize + 1 == relative.len();
                for (j, &column) in relative.iter().enumerate() {
                    let from = element.values.add(skipped + (skipped + j) * order);
                    let to = rest.add((column as usize - own) * ld);
                    if contiguous {
                        let to = to.add(first as usize - own);
                        for i in 0..relative.len() {
                            *to.add(i) += *from.add(i);
                        }
                    } else {
                        add_scattered(relative, from, to.wrapping_sub(own));
                    }
                }
            }
        }
    }

    /// Starts the check sums of the front with those of the children.
    ///
    /// # Safety
    ///
    /// The children are complete.
    pub(super) unsafe fn add_children_to_check(
        &mut self,
        children: &[u32],
        own: usize,
        received: usize,
        m: usize,
    ) {
        self.growth[..m].fill(F::zero());
        self.check[..m].fill(F::zero());
        let context = self.context;
        let tree = context.tree;
        let mut before = 0;
        for &child in children {
            // SAFETY: the children are complete; relative indices are below m.
            unsafe {
                let element = &*context.elements.add(child as usize);
                let order = element.order as usize;
                if order == 0 {
                    continue;
                }
                let planned = &tree.relative[tree.fronts[child as usize].row_range()];
                let delayed = element.delayed as usize;
                let relative = with_delays(
                    &mut self.relative,
                    planned,
                    delayed,
                    own + before,
                    own,
                    received,
                );
                before += delayed;
                let sums = element.values.add(order * order);
                add_scattered(relative, sums, self.growth.as_mut_ptr());
                add_scattered(relative, sums.add(order), self.check.as_mut_ptr());
            }
        }
    }
}

/// to[relative[i]] += from[i].
///
/// # Safety
///
/// `from` has as many values as `relative`, and `to` reaches all of its indices.
#[inline(always)]
unsafe fn add_scattered<F: FrontalScalar>(relative: &[u32], from: *const F, to: *mut F) {
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
