//! Entries that come together: in the base, or else in the table, which is sorted and merged with the base.

use luge_kernel::prelude::*;

use super::block::{Block, COUNT, FULL, NEAR, Panel, Structure};
use crate::bits::{joined, lanes_below};
use crate::search::lower_bound;
use crate::sort::{SharedKeys, bitonic_sort};

/// A slot without a column. No key: see [`key_of`].
pub(super) const EMPTY: u32 = u32::MAX;

/// The key of column `y` of the upper structure (side 0), or of row `y` of the lower one (side 1).
#[inlined]
fn key_of(y: u32, side: u32) -> u32 {
    y | side << 31
}

impl Block {
    /// First place in the base, counted from its start, from `begin` to `end` whose entry is at least `y`, and
    /// whether it is `y`.
    #[inlined]
    fn find(self, base: Structure, begin: u32, end: u32, y: u32) -> (u32, bool) {
        let is_near = base.len <= NEAR as u32;
        let read = |place: u32| {
            if is_near {
                self.near.get(place as usize)
            } else {
                self.made.index.get((base.at + place) as usize)
            }
        };
        let place = lower_bound(begin, end, |place| read(place) < y);
        (place, place < end && read(place) == y)
    }

    /// Adds column `y` to the rows of the panel in `rows`, or mirrored: inside of it, in the base, or in the
    /// table. A full table takes no new keys.
    #[inlined]
    pub(super) fn add(
        self,
        panel: Panel,
        base: Structure,
        slots: u32,
        side: u32,
        y: u32,
        rows: u64,
    ) {
        if y < panel.end {
            self.add_inside(panel, side, y, rows);
            return;
        }
        let (begin, end) = if side == 0 {
            (0, base.upper)
        } else {
            (base.upper, base.len)
        };
        let (place, is_there) = self.find(base, begin, end, y);
        if is_there {
            let word = self.made.mask.atomic((base.at + place) as usize);
            if word.load(Ordering::Relaxed, Scope::Block) & rows != rows {
                word.fetch_or(rows, Ordering::Relaxed, Scope::Block);
            }
            return;
        }
        let wanted = key_of(y, side);
        let mut slot = (wanted.wrapping_mul(0x9e37_79b9) >> 16) & slots;
        loop {
            let cell = self.keys.atomic(slot as usize);
            let mut key = cell.load(Ordering::Relaxed, Scope::Block);
            if key == EMPTY {
                let full = self.state.atomic(FULL);
                if full.load(Ordering::Relaxed, Scope::Block) != 0 {
                    return;
                }
                key = cell.compare_exchange(EMPTY, wanted, Ordering::Relaxed, Scope::Block);
                if key == EMPTY {
                    key = wanted;
                    let count = self.state.atomic(COUNT);
                    let before = count.fetch_add(1, Ordering::Relaxed, Scope::Block);
                    if before + 1 >= self.limit {
                        full.store(1, Ordering::Relaxed, Scope::Block);
                    }
                }
            }
            if key == wanted {
                self.words.join(slot as usize, rows);
                return;
            }
            slot = (slot + 1) & slots;
        }
    }

    /// Sorts what is in the table, whose keys are `count`: `sorted` then holds each key, in the upper half, with its
    /// slot. Every thread of the block calls it.
    #[inlined]
    pub(super) fn sort_table(self, slots: u32, count: u32) {
        if thread::thread_idx_x() == 0 {
            self.state.set(COUNT, 0);
        }
        thread::sync_threads();
        let tid = thread::thread_idx_x();
        let threads = thread::block_dim_x();
        let mut first = 0;
        while first <= slots {
            let slot = first + tid;
            let mut key = EMPTY;
            if slot <= slots {
                key = self.keys.get(slot as usize);
            }
            // One atomic a warp.
            let lanes = warp::ballot(warp::FULL_MASK, key != EMPTY);
            let mut place = 0;
            if thread::lane_id() == 0 && lanes != 0 {
                place = self.state.atomic(COUNT).fetch_add(
                    lanes.count_ones(),
                    Ordering::Relaxed,
                    Scope::Block,
                );
            }
            place = warp::shuffle(warp::FULL_MASK, place, 0) + (lanes & lanes_below()).count_ones();
            if key != EMPTY {
                self.found.set(place as usize, joined(slot, key));
            }
            first += threads;
        }
        thread::sync_threads();
        if count > threads / 2 {
            bitonic_sort(SharedKeys(self.found), count as usize);
            for i in thread::block_stride(count as usize) {
                self.sorted.set(i, self.found.get(i));
            }
        } else {
            // Each key counts those below it: more comparisons than a network, but no barriers between them. Two
            // threads and more share a key, next to each other in a warp.
            let mut log2 = 1;
            while count << (log2 + 1) <= threads && log2 < 5 {
                log2 += 1;
            }
            let share = 1 << log2;
            let part = tid & (share - 1);
            let i = (tid >> log2) as usize;
            let mut below = 0;
            let mut entry = 0;
            if i < count as usize {
                entry = self.found.get(i);
                let mut j = part;
                while j < count {
                    below += (self.found.get(j as usize) < entry) as u32;
                    j += share;
                }
            }
            let mut lanes = 1;
            while lanes < share {
                below += warp::shuffle_xor(warp::FULL_MASK, below, lanes);
                lanes *= 2;
            }
            if i < count as usize && part == 0 {
                self.sorted.set(below as usize, entry);
            }
        }
        thread::sync_threads();
    }

    /// How many of the `count` sorted keys are below `key`.
    #[inlined]
    fn sorted_below(self, count: u32, key: u32) -> u32 {
        lower_bound(0, count, |i| {
            (self.sorted.get(i as usize) >> 32) < u64::from(key)
        })
    }

    /// Merges the base with the `count` sorted keys, whose words are still in the table, to the pool from `out` on.
    /// Every thread of the block calls it.
    #[inlined]
    pub(super) fn merge(self, base: Structure, count: u32, out: u32) -> Structure {
        for i in thread::block_stride(base.len as usize) {
            let y = self.made.index.get(base.at as usize + i);
            let side = (i >= base.upper as usize) as u32;
            let place = i + (out + self.sorted_below(count, key_of(y, side))) as usize;
            self.made.index.set(place, y);
            self.made
                .mask
                .set(place, self.made.mask.get(base.at as usize + i));
        }
        for j in thread::block_stride(count as usize) {
            let entry = self.sorted.get(j);
            let key = (entry >> 32) as u32;
            let y = key & !(1 << 31);
            let (begin, end) = if key == y {
                (0, base.upper)
            } else {
                (base.upper, base.len)
            };
            let place = j + (out + self.find(base, begin, end, y).0) as usize;
            self.made.index.set(place, y);
            self.made
                .mask
                .set(place, self.words.get(entry as u32 as usize));
        }
        let merged = Structure {
            at: out,
            upper: base.upper + self.sorted_below(count, 1 << 31),
            len: base.len + count,
        };
        thread::sync_threads();
        merged
    }
}
