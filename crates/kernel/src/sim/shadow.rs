//! The shadow of memory: who accessed each cell last, and the race check on it.
//!
//! A cell shadows 4 bytes, or as many as the smallest element has that a launch sees its allocation as. It
//! holds the last plain write and the last plain read with their stamps; what is rarer (several
//! concurrent readers, atomic accesses, published knowledge) stands in a [`Side`]. This is the
//! FastTrack scheme (Flanagan and Freund, PLDI 2009), with atomics as a third kind of access.
//!
//! Why one write is enough: a write that is not ordered after the previous one has been reported,
//! so whatever is ordered after the last write is ordered after all of them. The same argument
//! lets a read replace an earlier read that is ordered before it. Concurrent reads, and concurrent
//! atomics, are all kept.
//!
//! Cells are stamped: global memory with the number of the launch (launches of a stream are
//! ordered, so older entries cannot race), shared memory with that of the block, which makes a
//! reset free.

use std::boxed::Box;
use std::panic::Location;
use std::ptr;
use std::string::String;
use std::vec::Vec;

use rustc_hash::FxHashMap;

use super::alloc::InitMap;
use super::engine::Engine;
use super::fault::{Access, FaultKind};
use super::order::Now;
use super::side::{Group, Sides};
use crate::atomic::{Ordering, Scope};

/// A source line of a kernel, as the checks carry it.
pub(crate) type Line = &'static Location<'static>;

/// Marks a cell of shared memory as written.
pub(crate) const WRITTEN: u32 = 1 << 31;

/// Marks a cell with atomic accesses since the last plain write.
pub(crate) const ATOMIC: u32 = 1 << 30;

/// Cells of 4 bytes that elements have: of 4, 8 and 16 bytes.
pub(crate) const ELEMENT_CELLS: [usize; 3] = [1, 2, 4];

/// One tracked cell. All zero is a cell that nobody accessed; no launch or block has the stamp 0.
///
/// Half a cache line: strided loops touch one line a cell, and are bound by that.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
pub(crate) struct Cell {
    /// Launch or block that the rest belongs to.
    pub stamp: u32,
    /// Index of the side entry, 0 for none, with `WRITTEN` and `ATOMIC`.
    side: u32,
    /// Last plain write; a clock of 0 is none.
    write_gid: u32,
    write_clock: u32,
    /// Last plain reads, alike but for the lanes of one warp, whose lane 0 has this thread; a clock of 0 is none.
    read_first: u32,
    read_lanes: u32,
    read_clock: u32,
    /// Where they were; see [`Lines`].
    write_line: u16,
    read_line: u16,
}

/// The source lines of a launch, numbered.
pub(crate) struct Lines {
    list: Vec<Line>,
    /// The last line whose address hashed to each place, and its number.
    cache: [(usize, u16); 64],
    numbers: FxHashMap<usize, u16>,
}

impl Lines {
    pub fn new() -> Lines {
        Lines {
            list: Vec::new(),
            cache: [(0, 0); 64],
            numbers: FxHashMap::default(),
        }
    }

    #[inline(always)]
    fn number(&mut self, line: Line) -> u16 {
        let address = ptr::from_ref(line) as usize;
        let (cached, number) = self.cache[address / 8 % 64];
        if cached == address {
            return number;
        }
        self.look_up(address, line)
    }

    #[cold]
    fn look_up(&mut self, address: usize, line: Line) -> u16 {
        let number = *self.numbers.entry(address).or_insert_with(|| {
            self.list.push(line);
            u16::try_from(self.list.len() - 1).expect("fewer than 2^16 lines of a kernel")
        });
        self.cache[address / 8 % 64] = (address, number);
        number
    }
}

impl Cell {
    pub fn fresh(stamp: u32) -> Cell {
        Cell {
            stamp,
            ..Cell::default()
        }
    }

    pub fn side(&self) -> usize {
        (self.side & !(WRITTEN | ATOMIC)) as usize
    }

    /// The last plain reads, if there are any.
    fn reads(&self, now: &Now<'_>, lines: &Lines) -> Option<Group> {
        (self.read_clock != 0).then(|| Group {
            block: now.block_of(self.read_first),
            first: self.read_first,
            lanes: self.read_lanes,
            clock: self.read_clock,
            scope: Scope::Device,
            line: lines.list[self.read_line as usize],
        })
    }

    /// A plain read that is not ordered before what the running thread does now.
    fn unordered_read(&self, now: &Now<'_>, lines: &Lines, sides: &Sides) -> Option<(u32, Line)> {
        let last = self
            .reads(now, lines)
            .and_then(|reads| reads.unordered(now));
        let others = &sides.list[self.side()].readers;
        let found = last.into_iter().chain(others.unordered(now));
        found.min_by_key(|e| e.gid).map(|e| (e.gid, e.line))
    }
}

/// `n` cells that nobody accessed, in memory that is touched as they are.
pub(crate) fn unused_cells(n: usize) -> Box<[Cell]> {
    // SAFETY: zeros are a cell, whose fields are all numbers.
    unsafe { Box::<[Cell]>::new_zeroed_slice(n).assume_init() }
}

/// A memory that handles look into: a parameter of the launch, or an array of shared memory.
pub(crate) struct Space {
    pub engine: *mut Engine,
    /// Parameter or shared array.
    pub name: String,
    /// Initialisation of the allocation; null for shared memory, and where it is complete or not
    /// checked.
    pub init: *mut InitMap,
    /// Granule of element 0.
    pub granule: usize,
    /// Granules of an element: 1, 2 or 4.
    pub granules: usize,
    /// Cells of an element: 1, 2 or 4, which are accessed together.
    pub cells: usize,
    /// Whether it is shared memory, whose cells also track initialisation.
    pub shared: bool,
    /// Whether the launch promised not to write it.
    pub read_only: bool,
}

/// The check of a shared handle's or buffer's element: everything but bounds.
impl Space {
    /// The running engine, for the length of a check.
    ///
    /// # Safety
    ///
    /// A simulated thread is running, and nothing else borrows the engine.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn engine(&self) -> &mut Engine {
        // SAFETY: the engine lives as long as the launch; the caller keeps it unborrowed.
        unsafe { &mut *self.engine }
    }

    #[inline(always)]
    fn stamp(&self, engine: &Engine) -> u32 {
        if self.shared {
            // SAFETY: a simulated thread is running, so its block is alive.
            unsafe { (*engine.block).stamp }
        } else {
            engine.stamp
        }
    }

    /// Whether element `i` of global memory was written, as far as the map tells.
    #[inline(always)]
    fn is_written(&self, i: usize) -> bool {
        if self.init.is_null() {
            return true;
        }
        // SAFETY: the map belongs to an allocation that the launch holds; elements of the handle
        // lie in it.
        let init = unsafe { &*self.init };
        init.is_complete()
            || (0..self.granules).all(|k| init.get(self.granule + i * self.granules + k))
    }

    #[inline(always)]
    fn mark_written(&self, i: usize) {
        if self.init.is_null() {
            return;
        }
        // SAFETY: as in `is_written`; nobody else borrows the map during a check.
        let init = unsafe { &mut *self.init };
        if !init.is_complete() {
            for k in 0..self.granules {
                init.set(self.granule + i * self.granules + k);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn uninitialized(&self, i: usize, line: Line) -> ! {
        // SAFETY: a simulated thread is running.
        unsafe {
            Engine::raise(
                self.engine,
                FaultKind::Uninitialized,
                Some(&self.name),
                Some(i),
                line,
                None,
            )
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn race(
        &self,
        i: usize,
        line: Line,
        access: Access,
        other_access: Access,
        scope: bool,
        other: (u32, Line),
    ) -> ! {
        // SAFETY: a simulated thread is running.
        unsafe {
            Engine::raise(
                self.engine,
                FaultKind::Race {
                    access,
                    other_access,
                    scope,
                },
                Some(&self.name),
                Some(i),
                line,
                Some(other),
            )
        }
    }

    /// Checks and notes a plain read of element `i`, whose first cell is `cell` (null: not
    /// tracked).
    ///
    /// # Safety
    ///
    /// A simulated thread is running; `cell` points to the element's cells.
    pub unsafe fn plain_read(&self, cell: *mut Cell, i: usize, line: Line) {
        if !self.is_written(i) {
            // SAFETY: the caller's promise.
            unsafe { self.uninitialized(i, line) }
        }
        if cell.is_null() {
            return;
        }
        for k in 0..self.cells {
            // SAFETY: the caller's promise; nobody else borrows cells or engine.
            let (cell, engine) = unsafe { (&mut *cell.add(k), self.engine()) };
            let stamp = self.stamp(engine);
            if cell.stamp != stamp {
                *cell = Cell::fresh(stamp);
            }
            if self.shared && cell.side & WRITTEN == 0 {
                // SAFETY: the caller's promise.
                unsafe { self.uninitialized(i, line) }
            }
            // SAFETY: the running thread stays as it is until its access is noted.
            let now = unsafe { engine.now() };
            if cell.write_clock != 0
                && (self.read_only || !now.orders(cell.write_gid, cell.write_clock))
            {
                let other = (cell.write_gid, engine.lines.list[cell.write_line as usize]);
                // SAFETY: the caller's promise.
                unsafe { self.race(i, line, Access::Read, Access::Write, false, other) }
            }
            if cell.side & ATOMIC != 0 {
                let side = &engine.sides.list[cell.side()];
                let other = if self.read_only {
                    side.atomic_writes.find(|_| true)
                } else {
                    side.atomic_writes.unordered(&now)
                };
                if let Some(e) = other {
                    // SAFETY: the caller's promise.
                    unsafe {
                        self.race(
                            i,
                            line,
                            Access::Read,
                            Access::AtomicWrite,
                            false,
                            (e.gid, e.line),
                        )
                    }
                }
            }
            let (first, lane) = now.lane();
            let (_, clock) = now.stamp();
            let line = engine.lines.number(line);
            let last = (cell.read_first, cell.read_clock, cell.read_line);
            if last == (first, clock, line) {
                cell.read_lanes |= 1 << lane;
                continue;
            }
            if let Some(reads) = cell.reads(&now, &engine.lines)
                && !reads.is_ordered(&now)
            {
                if cell.side() == 0 {
                    cell.side |= engine.sides.take();
                }
                let readers = &mut engine.sides.list[cell.side()].readers;
                readers.insert(&now, reads, false);
            }
            (cell.read_first, cell.read_clock, cell.read_line) = (first, clock, line);
            cell.read_lanes = 1 << lane;
        }
    }

    /// Checks and notes a plain write of element `i`, whose first cell is `cell` (null: not
    /// tracked).
    ///
    /// # Safety
    ///
    /// A simulated thread is running; `cell` points to the element's cells.
    pub unsafe fn plain_write(&self, cell: *mut Cell, i: usize, line: Line) {
        self.mark_written(i);
        if cell.is_null() {
            return;
        }
        for k in 0..self.cells {
            // SAFETY: the caller's promise; nobody else borrows cells or engine.
            let (cell, engine) = unsafe { (&mut *cell.add(k), self.engine()) };
            let stamp = self.stamp(engine);
            if cell.stamp != stamp {
                *cell = Cell::fresh(stamp);
            }
            // SAFETY: the running thread stays as it is until its access is noted.
            let now = unsafe { engine.now() };
            let (gid, clock) = now.stamp();
            let mut found = None;
            if cell.write_clock != 0 && !now.orders(cell.write_gid, cell.write_clock) {
                found = Some((
                    Access::Write,
                    cell.write_gid,
                    engine.lines.list[cell.write_line as usize],
                ));
            } else if let Some((gid, other)) =
                cell.unordered_read(&now, &engine.lines, &engine.sides)
            {
                found = Some((Access::Read, gid, other));
            } else if cell.side & ATOMIC != 0 {
                let side = &engine.sides.list[cell.side()];
                for (access, entries) in [
                    (Access::AtomicWrite, &side.atomic_writes),
                    (Access::AtomicRead, &side.atomic_reads),
                ] {
                    if let Some(e) = entries.unordered(&now) {
                        found = Some((access, e.gid, e.line));
                        break;
                    }
                }
            }
            if let Some((other_access, gid, other)) = found {
                // SAFETY: the caller's promise.
                unsafe {
                    self.race(i, line, Access::Write, other_access, false, (gid, other));
                }
            }
            if cell.side() != 0 {
                engine.sides.give(cell.side());
            }
            *cell = Cell {
                stamp,
                side: WRITTEN,
                write_gid: gid,
                write_clock: clock,
                write_line: engine.lines.number(line),
                ..Cell::default()
            };
        }
    }

    /// Checks and notes an atomic access of element `i` and makes the order that it makes.
    /// `reads` and `writes` say which halves it has.
    ///
    /// # Safety
    ///
    /// A simulated thread is running; `cell` points to the element's cells (null: not tracked).
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn atomic(
        &self,
        cell: *mut Cell,
        i: usize,
        reads: bool,
        writes: bool,
        ordering: Ordering,
        scope: Scope,
        line: Line,
    ) {
        if reads && !self.is_written(i) {
            // SAFETY: the caller's promise.
            unsafe { self.uninitialized(i, line) }
        }
        if writes {
            self.mark_written(i);
        }
        if cell.is_null() {
            return;
        }
        let access = if writes {
            Access::AtomicWrite
        } else {
            Access::AtomicRead
        };
        for k in 0..self.cells {
            // SAFETY: the caller's promise; nobody else borrows cells or engine.
            let (cell, engine) = unsafe { (&mut *cell.add(k), self.engine()) };
            let stamp = self.stamp(engine);
            if cell.stamp != stamp {
                *cell = Cell::fresh(stamp);
            }
            if self.shared && reads && cell.side & WRITTEN == 0 {
                // SAFETY: the caller's promise.
                unsafe { self.uninitialized(i, line) }
            }
            if writes {
                cell.side |= WRITTEN;
            }
            if cell.side() == 0 {
                cell.side |= engine.sides.take();
            }
            cell.side |= ATOMIC;
            // SAFETY: the running thread stays as it is until its access is noted.
            let now = unsafe { engine.now() };
            let side = &engine.sides.list[cell.side()];
            let mut found = None;
            if cell.write_clock != 0 && !now.orders(cell.write_gid, cell.write_clock) {
                let line = engine.lines.list[cell.write_line as usize];
                found = Some((Access::Write, cell.write_gid, line, false));
            } else if writes
                && let Some((gid, other)) = cell.unordered_read(&now, &engine.lines, &engine.sides)
            {
                found = Some((Access::Read, gid, other, false));
            } else {
                if let Some(e) = side.atomic_writes.too_narrow(&now, scope) {
                    found = Some((Access::AtomicWrite, e.gid, e.line, true));
                }
                if found.is_none()
                    && writes
                    && let Some(e) = side.atomic_reads.too_narrow(&now, scope)
                {
                    found = Some((Access::AtomicRead, e.gid, e.line, true));
                }
            }
            if let Some((other_access, gid, other, narrow)) = found {
                // SAFETY: the caller's promise.
                unsafe {
                    self.race(i, line, access, other_access, narrow, (gid, other));
                }
            }
            let index = cell.side();
            let side = &mut engine.sides.list[index];
            let entries = if writes {
                &mut side.atomic_writes
            } else {
                &mut side.atomic_reads
            };
            let (first, lane) = now.lane();
            let (_, clock) = now.stamp();
            let group = Group {
                block: now.block(),
                first,
                lanes: 1 << lane,
                clock,
                scope,
                line,
            };
            entries.insert(&now, group, true);
            // The knowledge is that of the element; its first cell carries it.
            if k == 0 {
                let mut sync = std::mem::take(&mut side.published);
                // SAFETY: the caller's promise; `sync` is ours.
                unsafe { engine.synchronize(&mut sync, reads, writes, ordering, scope) };
                engine.sides.list[index].published = sync;
            }
        }
    }
}
