//! The structure of a panel, from all that contribute.

use luge_kernel::prelude::*;

use super::base::NOBODY;
use super::block::{Block, COUNT, FULL, Panel, Room, SLOTS, Structure};
use super::table::EMPTY;
use crate::symbolic::etree::NONE;

impl Block {
    /// Collects the structure of the panel, words not yet closed. Every thread of the block calls it.
    #[inlined]
    pub(super) fn gather(self, panel: Panel, room: &mut Room) -> Structure {
        let tid = thread::thread_idx_x();
        let (all, mut it) = self.survey(panel);
        if it >> 33 < u64::from(self.base_min) {
            it = NOBODY;
        }
        let mut base = Structure {
            at: self.room(it >> 33, room),
            upper: 0,
            len: 0,
        };
        if base.at == NONE {
            return Structure { at: 0, ..base };
        }
        if it != NOBODY {
            base = self.make_base(panel, it, base.at);
        }
        if tid == 0 {
            room.at = base.at + base.len;
        }
        // Keys that the table may have to take: lists are not counted.
        let mut wanted = self.limit;
        let has_list = panel.heads.0 != NONE || panel.heads.1 != NONE;
        if !has_list && all - (it >> 33) < u64::from(wanted) {
            wanted = (all - (it >> 33)) as u32;
        }
        // Room for those that come after the table is full, too.
        let most = 2 * (wanted + thread::block_dim_x());
        let mut slots = 63;
        while slots + 1 < most && slots < SLOTS as u32 - 1 {
            slots = 2 * slots + 1;
        }
        loop {
            for slot in thread::block_stride(slots as usize + 1) {
                self.keys.set(slot, EMPTY);
                self.words.set(slot, 0);
            }
            if tid == 0 {
                self.state.set(COUNT, 0);
                self.state.set(FULL, 0);
            }
            thread::sync_threads();
            self.add_entries(panel, base, slots, it);
            self.add_panels(panel, base, slots, it);
            thread::sync_threads();
            let count = self.state.get(COUNT);
            let full = self.state.get(FULL);
            thread::sync_threads();
            if count == 0 {
                return base;
            }
            let out = self.room(u64::from(base.len) + u64::from(count), room);
            if out == NONE {
                return Structure {
                    at: 0,
                    upper: 0,
                    len: 0,
                };
            }
            self.sort_table(slots, count);
            let merged = self.merge(base, count, out);
            // To the place of the base, which is not needed any more, if that lies just before.
            let at = if base.at + base.len == out {
                base.at
            } else {
                out
            };
            base = self.move_down(merged, at);
            if tid == 0 {
                room.at = base.at + base.len;
            }
            if full == 0 {
                return base;
            }
        }
    }
}
