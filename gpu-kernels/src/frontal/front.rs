//! One front: where it lies, and who works on it.

use luge_kernel::prelude::*;

/// The threads that work on a front together: a warp, or a block.
///
/// All of them call every function of this module, in the same order.
#[derive(Clone, Copy)]
pub(super) struct Team {
    /// Number of this thread in the team.
    pub rank: u32,
    pub width: u32,
    is_warp: bool,
}

impl Team {
    #[inline(always)]
    pub fn warp() -> Self {
        Self {
            rank: thread::lane_id(),
            width: warp::WARP_SIZE,
            is_warp: true,
        }
    }

    #[inline(always)]
    pub fn block() -> Self {
        Self {
            rank: thread::thread_idx_x(),
            width: thread::block_dim_x(),
            is_warp: false,
        }
    }

    /// What a thread wrote before, all of them see afterwards.
    #[inline(always)]
    pub fn sync(self) {
        if self.is_warp {
            warp::sync_warp(warp::FULL_MASK);
        } else {
            thread::sync_threads();
        }
    }

    /// Calls `f(i, j)` for 0 ≤ i < rows, 0 ≤ j < columns, i running fastest, each by one thread.
    #[inline(always)]
    pub fn for_cells(self, rows: u32, columns: u32, mut f: impl FnMut(u32, u32)) {
        if rows == 0 {
            return;
        }
        let (mut i, mut j) = (self.rank, 0);
        loop {
            // Without a division by a number that is not known before.
            while i >= rows {
                i -= rows;
                j += 1;
            }
            if j >= columns {
                break;
            }
            f(i, j);
            i += self.width;
        }
    }

    /// Calls `f(i)` for 0 ≤ i < count, each by one thread.
    #[inline(always)]
    pub fn for_each(self, count: u32, mut f: impl FnMut(u32)) {
        let mut i = self.rank;
        while i < count {
            f(i);
            i += self.width;
        }
    }
}

/// Sizes of a front with k pivots and c rows below them, and the places of its entries.
///
/// One after the other, by columns: the (k + c) × k panel with L and the pivots' block of U; the c × k panel whose
/// column i is row i of U right of that block; the c × c element for the parent.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub k: u32,
    pub c: u32,
}

impl Shape {
    #[inline(always)]
    pub fn m(self) -> u32 {
        self.k + self.c
    }

    /// Number of entries of the two panels.
    #[inline(always)]
    pub fn panels(self) -> u32 {
        self.k * (self.m() + self.c)
    }

    /// Place of (i, j) in the first panel, j < k.
    #[inline(always)]
    pub fn lower(self, i: u32, j: u32) -> u32 {
        i + j * self.m()
    }

    /// Place of (i, k + q) in the second, i < k.
    #[inline(always)]
    pub fn upper(self, i: u32, q: u32) -> u32 {
        self.k * self.m() + i * self.c + q
    }

    /// Place of (k + i, k + q) in the element.
    #[inline(always)]
    pub fn element(self, i: u32, q: u32) -> u32 {
        self.panels() + i + q * self.c
    }

    /// Place of any entry.
    #[inline(always)]
    pub fn place(self, i: u32, j: u32) -> u32 {
        if j < self.k {
            self.lower(i, j)
        } else if i < self.k {
            self.upper(i, j - self.k)
        } else {
            self.element(i - self.k, j - self.k)
        }
    }
}

/// The entries of a front.
pub(super) trait Entries<T: Real>: Copy {
    fn get(self, place: u32) -> T;
    fn set(self, place: u32, value: T);
}

/// All in shared memory, from `first` on.
#[derive(Clone, Copy)]
pub(super) struct InShared<T: Real> {
    pub values: Shared<T>,
    pub first: u32,
}

impl<T: Real> Entries<T> for InShared<T> {
    #[inline(always)]
    fn get(self, place: u32) -> T {
        self.values.get((self.first + place) as usize)
    }

    #[inline(always)]
    fn set(self, place: u32, value: T) {
        self.values.set((self.first + place) as usize, value);
    }
}

/// The panels at `slot` of the factors, the element at `at` of the elements.
#[derive(Clone, Copy)]
pub(super) struct InGlobal<T: Real> {
    pub factors: GlobalMut<T>,
    pub slot: u64,
    pub elements: GlobalMut<T>,
    pub at: u64,
    /// Number of entries of the panels.
    pub panels: u32,
}

impl<T: Real> Entries<T> for InGlobal<T> {
    #[inline(always)]
    fn get(self, place: u32) -> T {
        if place < self.panels {
            self.factors.get((self.slot + u64::from(place)) as usize)
        } else {
            self.elements
                .get((self.at + u64::from(place - self.panels)) as usize)
        }
    }

    #[inline(always)]
    fn set(self, place: u32, value: T) {
        if place < self.panels {
            self.factors
                .set((self.slot + u64::from(place)) as usize, value);
        } else {
            self.elements
                .set((self.at + u64::from(place - self.panels)) as usize, value);
        }
    }
}
