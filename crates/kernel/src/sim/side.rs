//! What a shadow cell rarely has: several concurrent accesses, atomics, published knowledge.

use std::ptr;
use std::vec::Vec;

use super::order::{Known, Now, join};
use super::shadow::{ATOMIC, Cell, Line};
use crate::atomic::Scope;

/// An access that a side entry remembers.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub gid: u32,
    pub clock: u32,
    pub scope: Scope,
    pub line: Line,
}

/// Accesses of lanes of one warp that are alike in all but the lane: most are.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    pub block: u32,
    /// Thread of lane 0.
    pub first: u32,
    pub lanes: u32,
    pub clock: u32,
    pub scope: Scope,
    pub line: Line,
}

impl Group {
    /// Its accesses, by thread.
    fn entries(self) -> impl Iterator<Item = Entry> {
        (0..32)
            .filter(move |l| self.lanes >> l & 1 == 1)
            .map(move |l| Entry {
                gid: self.first + l,
                clock: self.clock,
                scope: self.scope,
                line: self.line,
            })
    }

    /// Whether both are of one warp and differ in lanes alone.
    fn is_alike(&self, other: &Self) -> bool {
        self.first == other.first
            && self.clock == other.clock
            && self.scope == other.scope
            && ptr::eq(self.line, other.line)
    }

    /// The first of them that is not ordered before what the running thread does now.
    pub fn unordered(self, now: &Now<'_>) -> Option<Entry> {
        if now.orders_warp(self.block, self.first, self.clock) {
            return None;
        }
        self.entries().find(|e| !now.orders(e.gid, e.clock))
    }

    /// Whether all are ordered before what the running thread does now.
    pub fn is_ordered(&self, now: &Now<'_>) -> bool {
        self.unordered(now).is_none()
    }
}

/// Accesses of one kind, none of which makes another one superfluous (and some that do).
#[derive(Default)]
pub(crate) struct Entries {
    groups: Vec<Group>,
    /// Of warps that hash to each place, where the group stands that an access of theirs was added to last: the
    /// other lanes look there alone. Not all groups are looked through, so two may be of like accesses.
    latest: [u32; 16],
    /// Size of `groups` at which superfluous ones are dropped next.
    prune_at: usize,
    /// A block that an access is of, and whether another block has some too.
    block: u32,
    several_blocks: bool,
    /// No clock is larger.
    newest: u32,
    /// Whether any has block scope.
    narrow: bool,
}

/// Size at which a list of groups is first looked through for superfluous ones.
const PRUNE_AT: usize = 8;

impl Entries {
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The first access (by thread) for which `f` holds.
    pub fn find(&self, f: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let found = self.groups.iter().filter_map(|g| g.entries().find(&f));
        found.min_by_key(|e| e.gid)
    }

    /// Whether all are from the running block, and from before its last barrier.
    fn before_barrier(&self, now: &Now<'_>) -> bool {
        !self.several_blocks && self.block == now.block() && self.newest < now.epoch()
    }

    /// An access that is not ordered before what the running thread does now.
    pub fn unordered(&self, now: &Now<'_>) -> Option<Entry> {
        if self.is_empty()
            || self.before_barrier(now)
            || self.groups.iter().all(|g| g.is_ordered(now))
        {
            return None;
        }
        self.find(|e| !now.orders(e.gid, e.clock))
    }

    /// An unordered access of another block, where its scope or `scope` is the block: the one case
    /// in which two atomics race.
    pub fn too_narrow(&self, now: &Now<'_>, scope: Scope) -> Option<Entry> {
        if self.is_empty()
            || (scope == Scope::Device && !self.narrow)
            || (!self.several_blocks && self.block == now.block())
        {
            return None;
        }
        self.find(|e| {
            now.block_of(e.gid) != now.block()
                && (e.scope == Scope::Block || scope == Scope::Block)
                && !now.orders(e.gid, e.clock)
        })
    }

    /// Adds accesses of which one is that of the running thread, or which it has found.
    ///
    /// An ordered access becomes superfluous by it if whatever races with that one later also
    /// races with the new one. For plain reads that is always so. For atomics, whose races among
    /// each other depend on block and scope, the new one must be of the same block, with a scope
    /// that is no wider.
    pub fn insert(&mut self, now: &Now<'_>, group: Group, atomic: bool) {
        let Group {
            block,
            first,
            clock,
            scope,
            ..
        } = group;
        if self.before_barrier(now) && !(atomic && self.narrow && scope == Scope::Device) {
            self.clear();
        }
        if self.is_empty() {
            self.block = block;
            self.prune_at = PRUNE_AT;
        }
        self.several_blocks |= self.block != block;
        self.newest = self.newest.max(clock);
        self.narrow |= scope == Scope::Block;
        let latest = first as usize / 32 % self.latest.len();
        if let Some(g) = self.groups.get_mut(self.latest[latest] as usize)
            && g.is_alike(&group)
        {
            g.lanes |= group.lanes;
            return;
        }
        if self.groups.len() >= self.prune_at {
            self.groups.retain(|g| {
                let replaced = !atomic
                    || (g.block == block && (g.scope == Scope::Device || scope == Scope::Block));
                !(replaced && g.is_ordered(now))
            });
            self.prune_at = PRUNE_AT.max(2 * self.groups.len());
        }
        self.latest[latest] = self.groups.len() as u32;
        self.groups.push(group);
    }

    fn clear(&mut self) {
        self.groups.clear();
        self.several_blocks = false;
        self.newest = 0;
        self.narrow = false;
    }
}

/// Knowledge published with the value of an atomic cell.
#[derive(Default)]
pub(crate) struct Published {
    /// For acquires of device scope.
    pub device: Known,
    /// By block, for acquires of that block at any scope.
    blocks: Vec<(u32, Known)>,
}

impl Published {
    pub fn is_empty(&self) -> bool {
        self.device.is_none() && self.blocks.is_empty()
    }

    pub fn for_block(&self, block: u32) -> &Known {
        self.blocks
            .binary_search_by_key(&block, |b| b.0)
            .map_or(&None, |i| &self.blocks[i].1)
    }

    pub fn publish_block(&mut self, block: u32, known: &Known, block_threads: u32) {
        match self.blocks.binary_search_by_key(&block, |b| b.0) {
            Ok(i) => join(&mut self.blocks[i].1, known, block_threads),
            Err(i) => self.blocks.insert(i, (block, known.clone())),
        }
    }

    pub fn clear(&mut self) {
        self.device = None;
        self.blocks.clear();
    }
}

/// What a cell rarely has.
#[derive(Default)]
pub(crate) struct Side {
    /// Plain reads that are concurrent with that of the cell, or were with one before it.
    pub readers: Entries,
    pub atomic_writes: Entries,
    pub atomic_reads: Entries,
    pub published: Published,
}

impl Side {
    fn clear(&mut self) {
        self.readers.clear();
        self.atomic_writes.clear();
        self.atomic_reads.clear();
        self.published.clear();
    }
}

/// All side entries of a launch; entry 0 is never used.
pub(crate) struct Sides {
    pub list: Vec<Side>,
    free: Vec<u32>,
}

impl Sides {
    pub fn new() -> Sides {
        Sides {
            list: Vec::from([Side::default()]),
            free: Vec::new(),
        }
    }

    /// A free entry.
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.list.push(Side::default());
            u32::try_from(self.list.len() - 1)
                .ok()
                .filter(|&i| i < ATOMIC)
                .expect("fewer than 2^30 cells with concurrent accesses")
        })
    }

    /// Frees entry `i`.
    pub fn give(&mut self, i: usize) {
        self.list[i].clear();
        self.free.push(i as u32);
    }

    /// Frees the entries of the cells of a block that has ended.
    pub fn release(&mut self, cells: &mut [Cell], stamp: u32) {
        for cell in cells {
            if cell.stamp == stamp && cell.side() != 0 {
                self.give(cell.side());
                *cell = Cell::fresh(0);
            }
        }
    }
}
