//! What a block works with: panels, the pool and the shared memory.

use luge_kernel::prelude::*;

use super::{ENTRIES, ROUND, THREADS};
use crate::bits::{high_half, joined};
use crate::symbolic::args::{NewStructures, PanelLinks, Panels, Pattern};
use crate::symbolic::etree::NONE;

/// Most keys in the table: each thread may add one before it sees that the table is full.
pub(super) const KEYS: usize = ROUND + THREADS;

/// Slots of the hash table.
pub(super) const SLOTS: usize = 2 * KEYS;

/// Bases up to this length are searched in shared memory.
pub(super) const NEAR: usize = 1024;

/// Warps of a block, at most.
pub(super) const MAX_WARPS: usize = THREADS / 32;

/// Words of the block's state.
pub(super) const STATE: usize = 4;
/// The panel to go on with.
pub(super) const NOW: usize = 0;
/// First entry of the room in the pool, or [`NONE`].
const ROOM: usize = 1;
/// Keys in the table.
pub(super) const COUNT: usize = 2;
/// Whether the table was too small.
pub(super) const FULL: usize = 3;

/// Words of 64 bits in shared memory. Their halves lie apart: an atomic or of 32 bits is one instruction there, one of
/// 64 a loop.
#[derive(Clone, Copy)]
pub(super) struct Words(pub(super) Shared<u32>);

impl Words {
    #[inlined]
    fn high(self, i: usize) -> usize {
        self.0.len() / 2 + i
    }

    #[inlined]
    pub(super) fn get(self, i: usize) -> u64 {
        joined(self.0.get(i), self.0.get(self.high(i)))
    }

    #[inlined]
    pub(super) fn set(self, i: usize, word: u64) {
        self.0.set(i, word as u32);
        self.0.set(self.high(i), high_half(word));
    }

    /// Sets the bits of `word`, half by half.
    #[inlined]
    pub(super) fn join(self, i: usize, word: u64) {
        if word as u32 != 0 {
            self.0
                .atomic(i)
                .fetch_or(word as u32, Ordering::Relaxed, Scope::Block);
        }
        if high_half(word) != 0 {
            self.0
                .atomic(self.high(i))
                .fetch_or(high_half(word), Ordering::Relaxed, Scope::Block);
        }
    }
}

/// B by rows, or by columns.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    pub(super) ptr: Global<u64>,
    pub(super) idx: Global<u32>,
}

/// The panel at work. What is known of it is read at once, since each read takes as long as all of them.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) q: usize,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) parent: u32,
    /// Its children in the list of all.
    pub(super) children: (u32, u32),
    /// Its lists.
    pub(super) heads: (u32, u32),
}

/// A piece of the pool: `upper` entries of the upper structure, then those of the lower one, `len` in all.
#[derive(Clone, Copy)]
pub(super) struct Structure {
    pub(super) at: u32,
    pub(super) upper: u32,
    pub(super) len: u32,
}

/// Thread 0's part of the pool.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) at: u32,
    pub(super) end: u32,
}

/// What a block works with.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// Two, or one where the pattern is symmetric: its lower structures are its upper ones.
    pub(super) sides: u32,
    /// Keys from which the table is full.
    pub(super) limit: u32,
    pub(super) base_min: u32,
    pub(super) pattern: Pattern,
    pub(super) panels: Panels,
    pub(super) links: PanelLinks,
    pub(super) made: NewStructures,
    pub(super) keys: Shared<u32>,
    pub(super) words: Words,
    pub(super) found: Shared<u64>,
    pub(super) sorted: Shared<u64>,
    pub(super) near: Shared<u32>,
    pub(super) state: Shared<u32>,
    pub(super) kept: Shared<u32>,
    /// Entries of the diagonal block by columns and by rows: what rows of B and U bring, and what columns of B and L do.
    /// Then see [`joins`](Self::joins).
    pub(super) inside_columns: Words,
    pub(super) inside_rows: Words,
    /// Pivots with entries beyond the panel: of U, of L.
    pub(super) reaching: Words,
    /// Where the live pivots meet.
    pub(super) met: Shared<u32>,
    /// Of the panel's lanes of B, rows and columns: first position, entries before.
    pub(super) lane_begin: Shared<u64>,
    pub(super) lane_before: Shared<u32>,
}

impl Block {
    /// Whether the pattern of B is symmetric.
    #[inlined]
    pub(super) fn is_symmetric(self) -> bool {
        self.sides == 1
    }

    /// Which rows and columns a pivot's are joined to, once the diagonal block is eliminated.
    #[inlined]
    pub(super) fn joins(self) -> (Words, Words) {
        (self.inside_columns, self.inside_rows)
    }

    #[inlined]
    pub(super) fn lanes(self, side: u32) -> Lanes {
        let Pattern {
            row_ptr,
            col_idx,
            col_ptr,
            row_idx,
        } = self.pattern;
        let (ptr, idx) = if side == 0 {
            (row_ptr, col_idx)
        } else {
            (col_ptr, row_idx)
        };
        Lanes { ptr, idx }
    }

    #[inlined]
    pub(super) fn head(self, side: u32) -> GlobalMut<u32> {
        if side == 0 {
            self.links.upper_head
        } else {
            self.links.lower_head
        }
    }

    #[inlined]
    pub(super) fn panel(self, q: usize) -> Panel {
        Panel {
            q,
            start: self.panels.panel_start.get(q),
            end: self.panels.panel_start.get(q + 1),
            parent: self.panels.panel_parent.get(q),
            children: (
                self.panels.child_ptr.get(q) as u32,
                self.panels.child_ptr.get(q + 1) as u32,
            ),
            heads: (
                self.links.upper_head.get(q),
                if self.sides == 2 {
                    self.links.lower_head.get(q)
                } else {
                    NONE
                },
            ),
        }
    }

    /// Where the structure of panel `e` on one side lies, and its length.
    #[inlined]
    pub(super) fn structure(self, e: usize, side: u32) -> (u32, u32) {
        let at = self.made.at.get(e);
        let upper = self.made.upper_len.get(e);
        if side == 0 || self.sides == 1 {
            (at, upper)
        } else {
            (at + upper, self.made.lower_len.get(e))
        }
    }

    /// Adds an entry inside of the panel: in rows `rows` and column `y`, or mirrored.
    #[inlined]
    pub(super) fn add_inside(self, panel: Panel, side: u32, y: u32, rows: u64) {
        let inside = if side == 0 {
            self.inside_columns
        } else {
            self.inside_rows
        };
        inside.join((y - panel.start) as usize, rows);
    }

    /// Room for `len` entries of the pool, where thread 0's `room` begins, or [`NONE`] if the pool is too small.
    /// Every thread of the block calls it. The room is kept by whoever moves `room.at` beyond it.
    #[inlined]
    pub(super) fn room(self, len: u64, room: &mut Room) -> u32 {
        if thread::thread_idx_x() == 0 {
            // The capacity of the pool is below 2³² entries.
            let capacity = self.made.index.len() as u64;
            let mut at = room.at;
            if u64::from(room.end - room.at) < len {
                // More than is needed now, since what is left of a piece is lost.
                let least = 256;
                let take = if 4 * len > least { 4 * len } else { least };
                let first = self.links.counters.atomic(ENTRIES).fetch_add(
                    take,
                    Ordering::Relaxed,
                    Scope::Device,
                );
                at = NONE;
                if first + take <= capacity {
                    at = first as u32;
                    room.at = at;
                    room.end = (first + take) as u32;
                }
            }
            self.state.set(ROOM, at);
        }
        thread::sync_threads();
        let at = self.state.get(ROOM);
        thread::sync_threads();
        at
    }
}
