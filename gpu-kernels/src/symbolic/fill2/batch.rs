//! The batch that the kernels are given, and the walk of one thread from one source.

use luge_kernel::prelude::*;

use super::{Batch, NO_OFFER, SLOT_WORDS, source_of};

/// A frontier entry.
#[inlined]
pub(super) fn entry_of(slot: u32, vertex: u32) -> u64 {
    (u64::from(slot) << 32) | u64::from(vertex)
}

impl Batch {
    /// The source of a slot.
    #[inlined]
    pub(super) fn source(self, slot: u32) -> u32 {
        source_of(self.first_source + slot, self.stride, self.offset)
    }

    /// Place in `labels` of vertex `v` of a slot.
    #[inlined]
    pub(super) fn label(self, slot: u32, v: u32) -> usize {
        self.slots
            .get(SLOT_WORDS * slot as usize)
            .wrapping_add(u64::from(v)) as usize
    }

    /// Bit in `above` of vertex `v` of a slot.
    #[inlined]
    pub(super) fn mark(self, slot: u32, v: u32) -> u64 {
        self.slots
            .get(SLOT_WORDS * slot as usize + 1)
            .wrapping_add(u64::from(v))
    }

    /// Entry `at` of the queue of which the first `capacity` entries are at `device`, the others at
    /// `host`.
    #[inlined]
    pub(super) fn entry(self, capacity: u64, device: u64, host: u64, at: u64) -> u64 {
        if at < capacity {
            self.queue.get((device + at) as usize)
        } else {
            self.spill.get((host + at - capacity) as usize)
        }
    }

    /// Writes that entry, if it has a place.
    #[inlined]
    pub(super) fn put(self, capacity: u64, device: u64, host: u64, at: u64, entry: u64) {
        if at < capacity {
            self.queue.set((device + at) as usize, entry);
        } else if at - capacity < self.spill.len() as u64 / 2 {
            self.spill.set((host + at - capacity) as usize, entry);
        }
    }

    /// The entry whose label is at `place`.
    #[inlined]
    pub(super) fn entry_at(self, place: u64) -> u64 {
        // The labels of a slot end where that of its source would be: the first slot that ends behind the place.
        let (mut slot, mut len) = (0u32, self.num_sources);
        while len > 0 {
            let half = len >> 1;
            let middle = slot + half;
            if self.label(middle, self.source(middle)) as u64 <= place {
                slot = middle + 1;
                len -= half + 1;
            } else {
                len = half;
            }
        }
        let first = self.slots.get(SLOT_WORDS * slot as usize);
        entry_of(slot, place.wrapping_sub(first) as u32)
    }
}

/// An edge that a lane walks: what the frontier at its tail offers the vertex at its head.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) slot: u32,
    /// [`NO_OFFER`]: the lane has no edge.
    pub(super) offered: u32,
    pub(super) head: u32,
}

impl Edge {
    pub(super) const NONE: Self = Self {
        slot: 0,
        offered: NO_OFFER,
        head: 0,
    };
}

impl Batch {
    /// Row `src` of L+U for slot `slot` by the sequential fill2 (gSoFa, Figure 3b; End-to-End LU,
    /// Algorithm 1): `emit(j)` for each entry j. One thread works on it, and owns the slot.
    ///
    /// A vertex was met iff its label is `base`, its mark set. From each vertex below the source that
    /// was met, the thresholds in increasing order, the search goes on through vertices below the
    /// threshold; one above it that is met for the first time is in the row. Each vertex is met
    /// once, so the frontiers of a slot fit as many queue entries as it has labels.
    #[inlined]
    pub(super) fn thresholds(self, slot: u32, mut emit: impl FnMut(u32)) {
        let capacity = self.queue.len() as u64 / 2;
        let src = self.source(slot);
        let end = self.label(slot, src) as u64;
        let begin = if slot == 0 {
            0
        } else {
            self.label(slot - 1, self.source(slot - 1)) as u64
        };
        let first = src - (end - begin) as u32;
        // Meets `v`; answers whether that was for the first time.
        let meet = |v: u32| {
            if v > src {
                let mark = self.mark(slot, v);
                let word = self.above.atomic((mark >> 5) as usize);
                let bit = 1u32 << (mark & 31);
                return word.fetch_or(bit, Ordering::Relaxed, Scope::Device) & bit == 0;
            }
            let place = self.label(slot, v);
            let met = v == src || self.labels.get(place) == self.base;
            if !met {
                self.labels.set(place, self.base);
            }
            !met
        };
        emit(src);
        let mut p = self.row_ptr.get(src as usize);
        let row_end = self.row_ptr.get(src as usize + 1);
        while p < row_end {
            let v = self.col_idx.get(p as usize);
            if meet(v) {
                emit(v);
            }
            p += 1;
        }
        let mut threshold = first;
        while threshold < src {
            if self.labels.get(self.label(slot, threshold)) == self.base {
                self.put(capacity, 0, 0, begin, u64::from(threshold));
                let mut len = 1u64;
                while len > 0 {
                    len -= 1;
                    let frontier = self.entry(capacity, 0, 0, begin + len) as usize;
                    let mut p = self.row_ptr.get(frontier);
                    let row_end = self.row_ptr.get(frontier + 1);
                    while p < row_end {
                        let v = self.col_idx.get(p as usize);
                        if meet(v) {
                            if v > threshold {
                                emit(v);
                            } else {
                                self.put(capacity, 0, 0, begin + len, u64::from(v));
                                len += 1;
                            }
                        }
                        p += 1;
                    }
                }
            }
            threshold += 1;
        }
    }
}
