//! Fronts, and what is read of their panels.

use luge_kernel::prelude::*;

use super::GROUP;
use crate::frontal::solve::layout::FrontRecord;

/// Entries of the factors that a lane has under way at once.
pub(super) const AHEAD: usize = 8;

/// Entries that are read or left away together: a read on a condition of its own would be waited for at once.
pub(super) const TOGETHER: usize = 4;

/// A front, as its record has it.
#[derive(Clone, Copy)]
pub(super) struct Front {
    pub start: u32,
    pub pivots: u32,
    pub below: u32,
    pub rows: u32,
    pub slot: u64,
}

impl Front {
    #[inlined]
    pub(super) fn of(fronts: Records<FrontRecord>, number: u32) -> Self {
        let front = fronts.get(number as usize);
        Self {
            start: front.start(),
            pivots: front.pivots(),
            below: front.below(),
            rows: front.rows(),
            slot: front.slot(),
        }
    }

    /// Where column `j` of the pivots begins.
    #[inlined]
    pub(super) fn column(self, j: u32) -> usize {
        self.slot as usize + j as usize * (self.pivots + self.below) as usize
    }

    /// Where row `i` of U begins, behind the pivots' block.
    #[inlined]
    pub(super) fn row(self, i: u32) -> usize {
        self.column(self.pivots) + i as usize * self.below as usize
    }
}

/// Panels of L, and the rows of their entries.
#[derive(Clone, Copy)]
pub(super) struct PanelsOfL<T: Field> {
    pub factors: Global<T>,
    pub order: Global<u32>,
    pub row_idx: Global<u32>,
}

impl<T: Field> PanelsOfL<T> {
    /// The row of pivot number `i` of a front, before rows were exchanged.
    #[inlined]
    pub(super) fn pivot_row(self, front: Front, i: u32) -> u32 {
        front.start + self.order.get((front.start + i) as usize)
    }

    /// The row of number `i` of those below a front.
    #[inlined]
    pub(super) fn row_below(self, front: Front, i: u32) -> u32 {
        self.row_idx.get((front.rows + i) as usize)
    }

    /// Calls `add` with what a lane of a group has of the column of pivot number `j` of a front, the one on the diagonal
    /// included: entries and their rows.
    #[inlined]
    pub(super) fn for_column(
        self,
        (front, j): (Front, u32),
        lane: u32,
        mut add: impl FnMut(T, u32),
    ) {
        if lane == 0 {
            add(T::ONE, self.pivot_row(front, j));
        }
        let begin = front.column(j);
        let entry = |i: u32| self.factors.get(begin + i as usize);
        let row = |i: u32| self.pivot_row(front, i);
        for_rows((j + 1 + lane, front.pivots), entry, row, &mut add);
        let below = begin + front.pivots as usize;
        let entry = |i: u32| self.factors.get(below + i as usize);
        let row = |i: u32| self.row_below(front, i);
        for_rows((lane, front.below), entry, row, &mut add);
    }
}

/// Calls `add` with the entries `begin`, `begin` + [`GROUP`], … below `end` of a column of L and the rows that they are in.
#[inlined]
pub(super) fn for_rows<T: Field>(
    (begin, end): (u32, u32),
    entry: impl Fn(u32) -> T,
    row: impl Fn(u32) -> u32,
    add: &mut impl FnMut(T, u32),
) {
    let mut i = begin;
    while i < end {
        let mut several = [(T::ZERO, 0); TOGETHER];
        let mut u = 0;
        while u < TOGETHER {
            let own = i + u as u32 * GROUP;
            let own = if own < end { own } else { i };
            several[u] = (entry(own), row(own));
            u += 1;
        }
        let mut u = 0;
        while u < TOGETHER {
            if i + u as u32 * GROUP < end {
                let (entry, row) = several[u];
                add(entry, row);
            }
            u += 1;
        }
        i += TOGETHER as u32 * GROUP;
    }
}

/// Calls `add` with what is `read` for `begin`, `begin` + `stride`, … below `end`: an entry, and what goes with it.
#[inlined]
pub(super) fn for_pivots<T: Field, A: Copy>(
    (begin, end): (u32, u32),
    stride: u32,
    none: A,
    read: impl Fn(u32) -> (T, A),
    mut add: impl FnMut(T, A),
) {
    let mut i = begin;
    while i < end {
        let mut several = [(T::ZERO, none); AHEAD];
        let mut g = 0;
        while g < AHEAD {
            if i + (g as u32) * stride < end {
                let mut u = g;
                while u < g + TOGETHER {
                    let own = i + u as u32 * stride;
                    several[u] = read(if own < end { own } else { i });
                    u += 1;
                }
            }
            g += TOGETHER;
        }
        let mut u = 0;
        while u < AHEAD {
            if i + u as u32 * stride < end {
                let (entry, with) = several[u];
                add(entry, with);
            }
            u += 1;
        }
        i += AHEAD as u32 * stride;
    }
}
