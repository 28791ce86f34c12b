//! Happens-before: who knows what of whom.
//!
//! Every simulated thread has a clock, a number that grows at each of its synchronisations; an
//! access is stamped with thread and clock. What a thread knows is a set of bounds: "the accesses
//! of thread g up to clock c happened before me". An earlier access is ordered before the current
//! one exactly if the current thread's bounds cover its stamp.
//!
//! Full vector clocks would cost one number a thread and thread. The structure of a launch makes
//! four cheaper forms do, which together say the same:
//!
//! * the block's epoch: a barrier sets the clocks of all threads of the block to one above the
//!   largest, and that is the epoch; accesses of the block with a smaller clock are known to all of
//!   it;
//! * the warp's epoch: the same, by a collective of all lanes of a warp;
//! * a table of 32 clocks a lane, once a warp has run a collective of some of its lanes;
//! * a sparse [`Knowledge`] a thread, of whatever arrived by release and acquire: whole blocks
//!   by their epoch, single threads by their clock.
//!
//! A release publishes all that its thread knows, itself included, with the location; then its
//! clock moves on, so that what it does later is not covered.

use std::rc::Rc;
use std::vec::Vec;

use super::block::{Block, Thread};
use super::engine::Engine;
use super::side::Published;
use crate::atomic::{Ordering, Scope};

/// What one thread can tell another: sorted bounds, none of them implied by another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knowledge {
    /// (block, epoch): accesses of the block with a clock below the epoch.
    blocks: Vec<(u32, u32)>,
    /// (thread, clock): accesses of the thread up to the clock.
    threads: Vec<(u32, u32)>,
}

fn find(list: &[(u32, u32)], key: u32) -> Option<u32> {
    list.binary_search_by_key(&key, |e| e.0)
        .ok()
        .map(|i| list[i].1)
}

/// The union of two sorted lists, the larger bound where both have the key.
fn merge(a: &[(u32, u32)], b: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        out.push(if x.0 == y.0 {
            (x.0, x.1.max(y.1))
        } else if x.0 < y.0 {
            x
        } else {
            y
        });
        i += usize::from(x.0 <= y.0);
        j += usize::from(y.0 <= x.0);
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
    out
}

impl Knowledge {
    /// Whether it covers an access of thread `gid` of `block` at `clock`.
    pub fn covers(&self, block: u32, gid: u32, clock: u32) -> bool {
        find(&self.blocks, block).is_some_and(|epoch| clock < epoch)
            || find(&self.threads, gid).is_some_and(|known| clock <= known)
    }

    /// The union; `block_threads` is the number of threads of a block.
    fn join(&self, other: &Knowledge, block_threads: u32) -> Knowledge {
        let blocks = merge(&self.blocks, &other.blocks);
        let mut threads = merge(&self.threads, &other.threads);
        let mut at = 0;
        threads.retain(|&(gid, clock)| {
            let block = gid / block_threads;
            while at < blocks.len() && blocks[at].0 < block {
                at += 1;
            }
            !(at < blocks.len() && blocks[at].0 == block && clock < blocks[at].1)
        });
        Knowledge { blocks, threads }
    }

    /// Without what concerns threads of `block`.
    fn without_block(&self, block: u32, block_threads: u32) -> Knowledge {
        Knowledge {
            blocks: self
                .blocks
                .iter()
                .copied()
                .filter(|e| e.0 != block)
                .collect(),
            threads: self
                .threads
                .iter()
                .copied()
                .filter(|e| e.0 / block_threads != block)
                .collect(),
        }
    }
}

/// Knowledge shared by whoever has it; `None` is none.
pub(crate) type Known = Option<Rc<Knowledge>>;

/// `a := a ∪ b`.
pub(crate) fn join(a: &mut Known, b: &Known, block_threads: u32) {
    let Some(new) = b else { return };
    match a {
        None => *a = b.clone(),
        Some(old) => {
            if Rc::ptr_eq(old, new) {
                return;
            }
            let joined = old.join(new, block_threads);
            if joined == **new {
                *a = b.clone();
            } else if joined != **old {
                *old = Rc::new(joined);
            }
        }
    }
}

/// What fences did to a thread, and relaxed atomics left to a later fence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    /// What a relaxed write publishes to the own block: the thread's knowledge at its last fence.
    pub release_block: Known,
    /// The same for other blocks: at its last device-scope fence.
    pub release_device: Known,
    /// What relaxed reads saw published by the own block; a fence takes it.
    pub acquire_block: Known,
    /// What device-scope relaxed reads saw published for the device; a device fence takes it.
    pub acquire_device: Known,
}

/// The running thread, as the order of its accesses is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Now<'a> {
    thread: &'a Thread,
    block: &'a Block,
    block_threads: u32,
}

impl Now<'_> {
    /// The stamp of what the running thread does now.
    pub fn stamp(&self) -> (u32, u32) {
        (self.thread.gid, self.thread.clock)
    }

    /// The running block.
    pub fn block(&self) -> u32 {
        self.block.linear
    }

    /// Accesses of the running block with a smaller clock are known to all of it.
    pub fn epoch(&self) -> u32 {
        self.block.epoch
    }

    /// The block of thread `gid`.
    pub fn block_of(&self, gid: u32) -> u32 {
        if gid.wrapping_sub(self.block.first_gid) < self.block_threads {
            self.block.linear
        } else {
            gid / self.block_threads
        }
    }

    /// The thread of lane 0 of the running thread's warp, and the running thread's lane.
    pub fn lane(&self) -> (u32, u32) {
        let lane = self.thread.linear % 32;
        (self.thread.gid - lane, lane)
    }

    /// Whether accesses at `clock` of whatever lane of the warp of `block` that begins with thread `first` happened
    /// before what the running thread does now, as far as an epoch tells.
    pub fn orders_warp(&self, block: u32, first: u32, clock: u32) -> bool {
        block == self.block.linear
            && (clock < self.block.epoch
                || (self.thread.gid.wrapping_sub(first) < 32
                    && clock < self.block.warps[(self.thread.linear / 32) as usize].epoch))
    }

    /// Whether the access of thread `gid` at `clock` happened before what the running thread does
    /// now.
    #[inline]
    pub fn orders(&self, gid: u32, clock: u32) -> bool {
        let Now { thread, block, .. } = *self;
        if gid == thread.gid {
            return true;
        }
        let linear = gid.wrapping_sub(block.first_gid);
        if linear < self.block_threads {
            if clock < block.epoch {
                return true;
            }
            if linear / 32 == thread.linear / 32 {
                let warp = &block.warps[(linear / 32) as usize];
                if clock < warp.epoch {
                    return true;
                }
                if warp.partial
                    && block.lanes[thread.linear as usize][(linear % 32) as usize] >= clock
                {
                    return true;
                }
            }
        }
        thread
            .known
            .as_ref()
            .is_some_and(|k| k.covers(gid / self.block_threads, gid, clock))
    }
}

impl Engine {
    /// The running thread.
    ///
    /// # Safety
    ///
    /// A simulated thread is running, and neither it nor its block changes or switches while the answer lives.
    #[inline]
    pub unsafe fn now<'a>(&self) -> Now<'a> {
        // SAFETY: the running thread and its block are alive; the caller's promise.
        let (thread, block) = unsafe { (&*self.current, &*self.block) };
        Now {
            thread,
            block,
            block_threads: self.block_threads,
        }
    }

    /// All that the running thread knows, itself included; its clock moves on.
    ///
    /// # Safety
    ///
    /// A simulated thread is running.
    unsafe fn snapshot(&mut self) -> Known {
        // SAFETY: the running thread and its block are alive; nobody else borrows them now.
        let (thread, block) = unsafe { (&mut *self.current, &*self.block) };
        let mut own = Knowledge::default();
        if block.epoch > 1 {
            own.blocks.push((block.linear, block.epoch));
        }
        let lane = thread.linear % 32;
        let warp = &block.warps[(thread.linear / 32) as usize];
        let first = thread.gid - lane;
        for l in 0..32u32 {
            let mut clock = if warp.exists >> l & 1 == 1 {
                warp.epoch.saturating_sub(1)
            } else {
                0
            };
            if warp.partial {
                clock = clock.max(block.lanes[thread.linear as usize][l as usize]);
            }
            if l == lane {
                clock = thread.clock;
            }
            if clock > 0 && clock >= block.epoch {
                own.threads.push((first + l, clock));
            }
        }
        thread.clock += 1;
        let mut known = Some(Rc::new(own));
        join(&mut known, &thread.known, self.block_threads);
        known
    }

    /// The order that an atomic access makes, through the location's `sync`.
    ///
    /// # Safety
    ///
    /// A simulated thread is running, and it owns the borrow of `sync`.
    pub unsafe fn synchronize(
        &mut self,
        sync: &mut Published,
        reads: bool,
        writes: bool,
        ordering: Ordering,
        scope: Scope,
    ) {
        let block_threads = self.block_threads;
        // SAFETY: the running thread and its block are alive; nobody else borrows them now.
        let block = unsafe { (*self.block).linear };
        let device = scope == Scope::Device;
        if reads && !sync.is_empty() {
            let from_block = sync.for_block(block);
            // SAFETY: as above.
            let thread = unsafe { &mut *self.current };
            if matches!(ordering, Ordering::Acquire | Ordering::AcqRel) {
                join(&mut thread.known, from_block, block_threads);
                if device {
                    join(&mut thread.known, &sync.device, block_threads);
                }
            } else {
                let fences = thread.fences.get_or_insert_default();
                join(&mut fences.acquire_block, from_block, block_threads);
                if device {
                    join(&mut fences.acquire_device, &sync.device, block_threads);
                }
            }
        }
        if writes {
            let (to_block, to_device) = if matches!(ordering, Ordering::Release | Ordering::AcqRel)
            {
                // SAFETY: the caller's promise.
                let all = unsafe { self.snapshot() };
                (all.clone(), all)
            } else {
                // SAFETY: as above.
                match unsafe { &(*self.current).fences } {
                    Some(f) => (f.release_block.clone(), f.release_device.clone()),
                    None => (None, None),
                }
            };
            // A store ends the release sequences of the value that it replaces; a
            // read-modify-write continues them.
            if !reads {
                sync.clear();
            }
            if to_block.is_some() {
                sync.publish_block(block, &to_block, block_threads);
            }
            if device {
                join(&mut sync.device, &to_device, block_threads);
            }
        }
    }

    /// The order that a fence makes.
    ///
    /// # Safety
    ///
    /// A simulated thread is running.
    pub unsafe fn fence(&mut self, scope: Scope) {
        let block_threads = self.block_threads;
        // SAFETY: the running thread is alive; nobody else borrows it now.
        let thread = unsafe { &mut *self.current };
        if let Some(fences) = &mut thread.fences {
            join(&mut thread.known, &fences.acquire_block, block_threads);
            if scope == Scope::Device {
                join(&mut thread.known, &fences.acquire_device, block_threads);
            }
        }
        // SAFETY: the caller's promise.
        let all = unsafe { self.snapshot() };
        // SAFETY: as above.
        let fences = unsafe { (*self.current).fences.get_or_insert_default() };
        fences.release_block = all.clone();
        if scope == Scope::Device {
            fences.release_device = all;
        }
    }

    /// The order that a block barrier makes: all threads of the running block meet.
    ///
    /// # Safety
    ///
    /// A simulated thread is running.
    pub unsafe fn join_block(&mut self) {
        let block_threads = self.block_threads;
        // SAFETY: the running block is alive; nobody else borrows it now.
        let block = unsafe { &mut *self.block };
        let epoch = 1 + block.threads.iter().map(|t| t.clock).max().unwrap_or(0);
        let mut known: Known = None;
        for thread in &block.threads {
            join(&mut known, &thread.known, block_threads);
        }
        if let Some(k) = &mut known {
            let pruned = k.without_block(block.linear, block_threads);
            if pruned != **k {
                *k = Rc::new(pruned);
            }
        }
        for thread in &mut block.threads {
            thread.clock = epoch;
            thread.known.clone_from(&known);
        }
        for warp in &mut block.warps {
            warp.partial = false;
        }
        block.epoch = epoch;
    }

    /// The order that a warp collective makes: the lanes of `mask` of warp `w` of the running
    /// block meet.
    ///
    /// # Safety
    ///
    /// A simulated thread is running; the lanes of `mask` exist.
    pub unsafe fn join_lanes(&mut self, w: usize, mask: u32) {
        let block_threads = self.block_threads;
        // SAFETY: the running block is alive; nobody else borrows it now.
        let block = unsafe { &mut *self.block };
        let first = w * 32;
        let lanes = || (0..32usize).filter(move |l| mask >> l & 1 == 1);
        let mut known: Known = None;
        let mut newest = 0;
        for l in lanes() {
            let thread = &block.threads[first + l];
            join(&mut known, &thread.known, block_threads);
            newest = newest.max(thread.clock);
        }
        let warp = &mut block.warps[w];
        if mask == warp.exists {
            warp.epoch = newest + 1;
            warp.partial = false;
            for l in lanes() {
                let thread = &mut block.threads[first + l];
                thread.clock = newest + 1;
                thread.known.clone_from(&known);
            }
            return;
        }
        if block.lanes.is_empty() {
            block.lanes.resize(block.threads.len(), [0; 32]);
        }
        if !warp.partial {
            warp.partial = true;
            let end = block.threads.len().min(first + 32);
            block.lanes[first..end].fill([0; 32]);
        }
        let mut met = [0u32; 32];
        for l in lanes() {
            for (m, &k) in met.iter_mut().zip(&block.lanes[first + l]) {
                *m = (*m).max(k);
            }
        }
        for l in lanes() {
            met[l] = met[l].max(block.threads[first + l].clock);
        }
        for l in lanes() {
            block.lanes[first + l] = met;
            let thread = &mut block.threads[first + l];
            thread.clock += 1;
            thread.known.clone_from(&known);
        }
    }
}
