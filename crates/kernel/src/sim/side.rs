//! What a shadow cell rarely has: several concurrent accesses, atomics, published knowledge.

use std::vec::Vec;

use super::engine::Engine;
use super::order::{Known, join};
use super::shadow::{Cell, Line, WRITTEN};
use crate::atomic::Scope;

/// Threads that often access a cell together.
const WARP: usize = 32;

/// An access that a side entry remembers.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub gid: u32,
    pub clock: u32,
    pub scope: Scope,
    pub line: Line,
}

impl Entry {
    /// A thread may appear with both scopes, since each races with others.
    fn key(&self) -> u64 {
        u64::from(self.gid) << 1 | u64::from(self.scope == Scope::Device)
    }
}

/// Accesses of one kind, none of which makes another one superfluous (and some that do).
#[derive(Default)]
pub(crate) struct Entries {
    /// While there is one alone.
    one: Option<Entry>,
    /// By their keys. Lists: most are as long as a warp, and threads come in order or nearly.
    many: Vec<Entry>,
    /// Size of `many` at which superfluous entries are dropped next.
    prune_at: usize,
    /// A block that an entry is from, and whether another block has entries too.
    block: u32,
    several_blocks: bool,
    /// No clock is larger.
    newest: u32,
    /// Whether any has block scope.
    narrow: bool,
}

impl Entries {
    pub fn is_empty(&self) -> bool {
        self.one.is_none() && self.many.is_empty()
    }

    /// The first entry (by thread) for which `f` holds.
    pub fn find(&self, f: impl Fn(&Entry) -> bool) -> Option<Entry> {
        if let Some(e) = &self.one {
            return f(e).then_some(*e);
        }
        self.many.iter().find(|e| f(e)).copied()
    }

    /// Whether all are from the running block, and from before its last barrier.
    fn before_barrier(&self, engine: &Engine) -> bool {
        // SAFETY: the checks run on behalf of a running thread, so its block is alive.
        let block = unsafe { &*engine.block };
        !self.several_blocks && self.block == block.linear && self.newest < block.epoch
    }

    /// An entry that is not ordered before what the running thread does now.
    pub fn unordered(&self, engine: &Engine) -> Option<Entry> {
        if self.is_empty() || self.before_barrier(engine) {
            return None;
        }
        // SAFETY: the checks run on behalf of a running thread.
        self.find(|e| unsafe { !engine.ordered(e.gid, e.clock) })
    }

    /// An unordered entry of another block, where its scope or `scope` is the block: the one case
    /// in which two atomics race.
    pub fn too_narrow(&self, engine: &Engine, scope: Scope) -> Option<Entry> {
        // SAFETY: the checks run on behalf of a running thread, so its block is alive.
        let block = unsafe { (*engine.block).linear };
        if self.is_empty()
            || (scope == Scope::Device && !self.narrow)
            || (!self.several_blocks && self.block == block)
        {
            return None;
        }
        self.find(|e| {
            e.gid / engine.block_threads != block
                && (e.scope == Scope::Block || scope == Scope::Block)
                // SAFETY: as above.
                && unsafe { !engine.ordered(e.gid, e.clock) }
        })
    }

    /// Adds the access of the running thread.
    ///
    /// An ordered entry becomes superfluous by it if whatever races with the entry later also
    /// races with the new one. For plain reads that is always so. For atomics, whose races among
    /// each other depend on block and scope, the new one must be of the same block, with a scope
    /// that is no wider.
    pub fn insert(&mut self, engine: &Engine, entry: Entry, atomic: bool) {
        let block = entry.gid / engine.block_threads;
        let superfluous = |e: &Entry| {
            (!atomic
                || (e.gid / engine.block_threads == block
                    && (e.scope == Scope::Device || entry.scope == Scope::Block)))
                // SAFETY: the checks run on behalf of a running thread.
                && unsafe { engine.ordered(e.gid, e.clock) }
        };
        let all_superfluous =
            self.before_barrier(engine) && !(atomic && self.narrow && entry.scope == Scope::Device);
        if self.is_empty() || all_superfluous {
            self.clear();
            self.block = block;
        }
        self.several_blocks |= self.block != block;
        self.newest = self.newest.max(entry.clock);
        self.narrow |= entry.scope == Scope::Block;
        if self.many.is_empty() {
            match self.one {
                Some(old) if old.key() != entry.key() && !superfluous(&old) => {
                    self.many.reserve(WARP);
                    self.many.push(old);
                    self.one = None;
                    self.prune_at = 2 * WARP;
                }
                _ => {
                    self.one = Some(entry);
                    return;
                }
            }
        }
        if self.many.len() >= self.prune_at {
            self.many.retain(|e| !superfluous(e));
            self.prune_at = (2 * WARP).max(2 * self.many.len());
        }
        match self.many.last() {
            Some(last) if last.key() >= entry.key() => {
                match self.many.binary_search_by_key(&entry.key(), Entry::key) {
                    Ok(at) => self.many[at] = entry,
                    Err(at) => self.many.insert(at, entry),
                }
            }
            _ => self.many.push(entry),
        }
    }

    fn clear(&mut self) {
        self.one = None;
        self.many.clear();
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
    /// Plain reads, once several are concurrent; the cell then has none.
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
                .filter(|&i| i < WRITTEN)
                .expect("fewer than 2^31 cells with concurrent accesses")
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
