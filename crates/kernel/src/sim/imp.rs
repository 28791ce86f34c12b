//! The host's side of the shared surface: handles, and what a kernel calls.
//!
//! The way of an access: bounds, always and inline; then, if the handle is checked, the shadow
//! (out of line); then the memory itself. A handle is checked unless the launch runs without
//! checks, or reads a buffer that is written completely and that nobody can write.

use std::boxed::Box;
use std::panic::Location;

use super::block::State;
use super::collective::{self, BarrierKind, Collective, FoldStep, WarpOp};
pub use super::element::{AtomicElementImp, ElementImp, IntElementImp, RealImp};
use super::engine::{Engine, running};
use super::fault::FaultKind;
use super::shadow::{Cell, ELEMENT_CELLS, Line, Space};
use super::wait::MAX_ATOMICS;
use crate::atomic::{Ordering, Scope};
use crate::element::{AtomicElement, Element, IntElement};
use crate::mem::{Global, GlobalMut};
use crate::warp::{ReduceOp, ShuffleKind};

/// Elements in the memory of the simulated device.
///
/// Made by the launch (for its arguments) and by the shared memory functions, always so that `len`
/// elements from `data` lie in one allocation that outlives the thread, and their cells, if
/// tracked, lie from `cell` on.
struct Handle<T> {
    data: *mut T,
    len: usize,
    /// Cells of element 0; null: not tracked.
    cell: *mut Cell,
    space: *const Space,
    /// Whether accesses go through the shadow.
    checked: bool,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T: Element> Handle<T> {
    #[cold]
    #[inline(never)]
    fn out_of_bounds(self, i: usize, line: Line) -> ! {
        // SAFETY: the handle's space and its engine outlive the running thread.
        unsafe {
            let space = &*self.space;
            Engine::raise(
                space.engine,
                FaultKind::OutOfBounds { len: self.len },
                Some(&space.name),
                Some(i),
                line,
                None,
            )
        }
    }

    /// The cells of element `i`.
    #[inline(always)]
    fn cell_of(self, i: usize) -> *mut Cell {
        if self.cell.is_null() {
            return self.cell;
        }
        // SAFETY: `i` is in bounds, and the cells of all elements lie in one array.
        unsafe { self.cell.add(i * (*self.space).cells) }
    }

    #[inline(always)]
    #[track_caller]
    fn get(self, i: usize) -> T {
        let line = Location::caller();
        if i >= self.len {
            self.out_of_bounds(i, line);
        }
        if self.checked {
            // SAFETY: a kernel is running; `i` is in bounds.
            unsafe { (*self.space).plain_read(self.cell_of(i), i, line) };
        }
        // SAFETY: in bounds of live memory that this thread alone accesses now.
        unsafe { *self.data.add(i) }
    }

    #[inline(always)]
    #[track_caller]
    fn set(self, i: usize, v: T) {
        let line = Location::caller();
        if i >= self.len {
            self.out_of_bounds(i, line);
        }
        if self.checked {
            // SAFETY: a kernel is running; `i` is in bounds.
            unsafe {
                (*self.space).plain_write(self.cell_of(i), i, line);
                // A spin's condition may end a wait by a write of its own.
                (*(*self.space).engine).progress +=
                    u64::from((*self.data.add(i)).to_bits() != v.to_bits());
            }
        }
        // SAFETY: in bounds of live memory that this thread alone accesses now.
        unsafe { *self.data.add(i) = v };
    }
}

impl<T: AtomicElement> Handle<T> {
    #[inline(always)]
    #[track_caller]
    fn atomic(self, i: usize) -> RawAtomic<T> {
        if i >= self.len {
            self.out_of_bounds(i, Location::caller());
        }
        RawAtomic { handle: self, i }
    }
}

/// Read-only global memory.
#[derive(Clone, Copy)]
pub struct RawGlobal<T: Element>(Handle<T>);

impl<T: Element> RawGlobal<T> {
    /// Number of elements.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.0.len
    }

    /// Element `i`.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, i: usize) -> T {
        self.0.get(i)
    }
}

macro_rules! writable {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<T: Element>(Handle<T>);

        impl<T: Element> $name<T> {
            /// Number of elements.
            #[inline(always)]
            pub fn len(self) -> usize {
                self.0.len
            }

            /// Element `i`.
            #[inline(always)]
            #[track_caller]
            pub fn get(self, i: usize) -> T {
                self.0.get(i)
            }

            /// Writes element `i`.
            #[inline(always)]
            #[track_caller]
            pub fn set(self, i: usize, v: T) {
                self.0.set(i, v);
            }
        }

        impl<T: AtomicElement> $name<T> {
            /// Element `i`, to be accessed atomically.
            #[inline(always)]
            #[track_caller]
            pub fn atomic(self, i: usize) -> RawAtomic<T> {
                self.0.atomic(i)
            }
        }
    };
}
writable! {
    /// Writable global memory.
    RawGlobalMut
}
writable! {
    /// Shared memory of the running block.
    RawShared
}

impl<T: AtomicElement> RawGlobalMut<T> {
    /// Elements `i` and `i + 1`, one after the other: nobody may rely on seeing both of one writer.
    #[inline]
    #[track_caller]
    pub fn load_two(self, i: usize) -> [T; 2] {
        self.check_two(i);
        [i, i + 1].map(|i| self.atomic(i).load(Ordering::Relaxed, Scope::Device))
    }

    /// Writes elements `i` and `i + 1`, one after the other.
    #[inline]
    #[track_caller]
    pub fn store_two(self, i: usize, [first, second]: [T; 2]) {
        self.check_two(i);
        self.atomic(i)
            .store(first, Ordering::Relaxed, Scope::Device);
        self.atomic(i + 1)
            .store(second, Ordering::Relaxed, Scope::Device);
    }

    /// The chip reads two elements at a multiple of their size alone.
    #[inline]
    #[track_caller]
    fn check_two(self, i: usize) {
        let address = self.0.data.wrapping_add(i) as usize;
        assert!(
            address.is_multiple_of(2 * size_of::<T>()),
            "two elements from number {i} on are not aligned"
        );
    }
}

/// An element that is accessed atomically; in bounds by construction.
#[derive(Clone, Copy)]
pub struct RawAtomic<T: AtomicElement> {
    handle: Handle<T>,
    i: usize,
}

impl<T: AtomicElement> RawAtomic<T> {
    /// Reads and, where `f` answers a value, writes; answers the old value. `reads` and `writes`
    /// say what the operation is to the race check.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn access(
        self,
        reads: bool,
        writes: bool,
        ordering: Ordering,
        scope: Scope,
        line: Line,
        f: impl FnOnce(T) -> T,
    ) -> T {
        let RawAtomic { handle, i } = self;
        // SAFETY: a kernel is running on this handle's engine; references into the engine end
        // before it switches; the element is in bounds of live memory that this thread alone
        // accesses between two switches.
        unsafe {
            let engine = (*handle.space).engine;
            preemption_point(engine, line);
            if handle.checked {
                let cell = handle.cell_of(i);
                (*handle.space).atomic(cell, i, reads, writes, ordering, scope, line);
            }
            let place = handle.data.add(i);
            let old = *place;
            if writes {
                let new = f(old);
                if old.to_bits() != new.to_bits() {
                    *place = new;
                    (*engine).progress += 1;
                }
            }
            old
        }
    }

    /// Reads.
    #[inline]
    #[track_caller]
    pub fn load(self, ordering: Ordering, scope: Scope) -> T {
        assert!(
            matches!(ordering, Ordering::Relaxed | Ordering::Acquire),
            "a load is Relaxed or Acquire, not {ordering:?}"
        );
        self.access(true, false, ordering, scope, Location::caller(), |v| v)
    }

    /// Writes.
    #[inline]
    #[track_caller]
    pub fn store(self, v: T, ordering: Ordering, scope: Scope) {
        assert!(
            matches!(ordering, Ordering::Relaxed | Ordering::Release),
            "a store is Relaxed or Release, not {ordering:?}"
        );
        self.access(false, true, ordering, scope, Location::caller(), |_| v);
    }

    /// Writes, answers the old value.
    #[inline]
    #[track_caller]
    pub fn swap(self, v: T, ordering: Ordering, scope: Scope) -> T {
        self.access(true, true, ordering, scope, Location::caller(), |_| v)
    }

    /// Adds, answers the old value.
    #[inline]
    #[track_caller]
    pub fn fetch_add(self, v: T, ordering: Ordering, scope: Scope) -> T {
        self.access(true, true, ordering, scope, Location::caller(), |old| {
            old.sum(v)
        })
    }

    /// Adds.
    #[inline]
    #[track_caller]
    pub fn reduce_add(self, v: T, ordering: Ordering, scope: Scope) {
        assert!(
            matches!(ordering, Ordering::Relaxed | Ordering::Release),
            "a reduction is Relaxed or Release, not {ordering:?}"
        );
        self.access(true, true, ordering, scope, Location::caller(), |old| {
            old.sum(v)
        });
    }
}

macro_rules! read_modify_write {
    ($($(#[$doc:meta])* $name:ident($old:ident, $v:ident) $new:expr;)*) => {
        impl<T: IntElement> RawAtomic<T> {
            $(
                $(#[$doc])*
                #[inline]
                #[track_caller]
                pub fn $name(self, $v: T, ordering: Ordering, scope: Scope) -> T {
                    self.access(true, true, ordering, scope, Location::caller(), |$old| $new)
                }
            )*
        }
    };
}
read_modify_write! {
    /// Subtracts, answers the old value.
    fetch_sub(old, v) old.difference(v);
    /// Minimum, answers the old value.
    fetch_min(old, v) old.min(v);
    /// Maximum, answers the old value.
    fetch_max(old, v) old.max(v);
    /// Bitwise and, answers the old value.
    fetch_and(old, v) old & v;
    /// Bitwise or, answers the old value.
    fetch_or(old, v) old | v;
    /// Bitwise exclusive or, answers the old value.
    fetch_xor(old, v) old ^ v;
}

impl<T: IntElement> RawAtomic<T> {
    /// Writes `new` if the value is `current`; answers the old value.
    #[inline]
    #[track_caller]
    pub fn compare_exchange(self, current: T, new: T, ordering: Ordering, scope: Scope) -> T {
        let line = Location::caller();
        let RawAtomic { handle, i } = self;
        // SAFETY: as in `access`.
        unsafe {
            preemption_point((*handle.space).engine, line);
            let succeeds = *handle.data.add(i) == current;
            // A failure is a load: it has the acquire half of the ordering.
            let ordering = match ordering {
                Ordering::Release if !succeeds => Ordering::Relaxed,
                Ordering::AcqRel if !succeeds => Ordering::Acquire,
                other => other,
            };
            if handle.checked {
                let cell = handle.cell_of(i);
                (*handle.space).atomic(cell, i, true, succeeds, ordering, scope, line);
            }
            let old = *handle.data.add(i);
            if succeeds && old != new {
                *handle.data.add(i) = new;
                (*(*handle.space).engine).progress += 1;
            }
            old
        }
    }
}

/// Hands over to another thread now and then, as the seed has it.
///
/// # Safety
///
/// Called on a simulated thread of `engine`; no reference into the engine is alive.
#[inline]
unsafe fn preemption_point(engine: *mut Engine, line: Line) {
    // SAFETY: the caller's promise.
    unsafe {
        let thread = (*engine).current;
        (*thread).atomics += 1;
        if (*thread).atomics > MAX_ATOMICS {
            (*thread).atomics = 0;
            return Engine::rest(engine, line);
        }
        let one_in = (*engine).options.preempt_one_in;
        if one_in > 0 && !(*thread).in_spin && (*engine).rng.below(one_in) == 0 {
            Engine::preempt(engine);
        }
    }
}

/// The arguments of a kernel, of which a thread takes one after the other.
pub struct Arguments<'a> {
    left: std::slice::Iter<'a, Arg>,
}

/// An argument that fits its parameter.
pub(crate) enum Arg {
    Scalar([u64; 2]),
    Buffer {
        data: *mut u8,
        len: usize,
        cell: *mut Cell,
        space: Box<Space>,
        checked: bool,
    },
}

impl<'a> Arguments<'a> {
    /// All of them.
    #[cfg(feature = "simulator")]
    pub(crate) fn new(arguments: &'a [Arg]) -> Self {
        Self {
            left: arguments.iter(),
        }
    }

    /// The next one, a scalar.
    #[inline]
    pub fn scalar<T: Element>(&mut self) -> T {
        match self.left.next() {
            Some(Arg::Scalar(bits)) => T::from_bits(*bits),
            _ => unreachable!("the launch checked the arguments"),
        }
    }

    #[inline]
    fn handle<T: Element>(&mut self) -> Handle<T> {
        match self.left.next() {
            Some(Arg::Buffer {
                data,
                len,
                cell,
                space,
                checked,
            }) => Handle {
                data: data.cast(),
                len: *len,
                cell: *cell,
                space: &raw const **space,
                checked: *checked,
            },
            _ => unreachable!("the launch checked the arguments"),
        }
    }

    /// The next one, a read-only buffer.
    #[inline]
    pub fn global<T: Element>(&mut self) -> Global<T> {
        Global(RawGlobal(self.handle()))
    }

    /// The next one, a writable buffer.
    #[inline]
    pub fn global_mut<T: Element>(&mut self) -> GlobalMut<T> {
        GlobalMut(RawGlobalMut(self.handle()))
    }
}

/// A view of the running block's shared memory.
///
/// # Safety
///
/// `len` elements from `byte_offset`, a multiple of their size, lie in it.
unsafe fn shared_view<T: Element>(byte_offset: usize, len: usize, space: usize) -> RawShared<T> {
    let engine = running();
    // SAFETY: a kernel is running, so engine and block are alive; the caller's promise.
    unsafe {
        let this = &mut *engine;
        let block = &mut *this.block;
        let checked = this.options.checks;
        RawShared(Handle {
            data: block.shared_data().add(byte_offset).cast(),
            len,
            cell: if checked {
                block.cells.as_mut_ptr().add(byte_offset / 4)
            } else {
                std::ptr::null_mut()
            },
            space: this
                .shared_spaces
                .as_ptr()
                .add(ELEMENT_CELLS.len() * space + (size_of::<T>() / 4).ilog2() as usize),
            checked,
        })
    }
}

/// The `site`-th static shared array.
#[track_caller]
pub fn static_shared<T: Element>(site: usize, len: usize) -> RawShared<T> {
    // SAFETY: a kernel is running, so the engine is alive.
    let (desc, offset) = unsafe {
        let this = &*running();
        (&this.kernel.shared[site], this.shared_offsets[site])
    };
    assert!(
        desc.len == len && desc.element == T::KIND,
        "`shared_array!` means another array than outside of the kernel"
    );
    // SAFETY: the launch laid the arrays out by these descriptions.
    unsafe { shared_view(offset, len, site) }
}

/// A view of the dynamic shared memory.
#[track_caller]
pub fn dynamic_shared<T: Element>(byte_offset: usize, len: usize) -> RawShared<T> {
    let line = Location::caller();
    let size = size_of::<T>();
    assert!(
        byte_offset.is_multiple_of(size),
        "offset {byte_offset} of dynamic shared memory is not a multiple of {size}"
    );
    // SAFETY: a kernel is running, so the engine is alive; the range was checked.
    unsafe {
        let engine = running();
        let kernel = (*engine).kernel;
        let sites = kernel.shared.len();
        let start = (&(*engine).shared_offsets)[sites];
        let bytes = (*engine).shared_bytes - start;
        let end = size
            .checked_mul(len)
            .and_then(|b| b.checked_add(byte_offset));
        if end.is_none_or(|end| end > bytes) {
            Engine::raise(
                engine,
                FaultKind::OutOfBounds { len: bytes / size },
                Some(DYNAMIC),
                Some((byte_offset / size).saturating_add(len).saturating_sub(1)),
                line,
                None,
            );
        }
        shared_view(start + byte_offset, len, sites)
    }
}

/// Name of the dynamic shared memory in reports.
pub(crate) const DYNAMIC: &str = "dynamic shared memory";

macro_rules! indices {
    ($($name:ident($engine:ident) $value:expr;)*) => {
        $(
            /// See `thread`.
            #[inline]
            pub fn $name() -> u32 {
                let $engine = running();
                // SAFETY: a kernel is running, so engine, block and thread are alive.
                unsafe { $value }
            }
        )*
    };
}
indices! {
    thread_idx_x(e) (*(*e).current).index[0];
    thread_idx_y(e) (*(*e).current).index[1];
    thread_idx_z(e) (*(*e).current).index[2];
    block_idx_x(e) (*(*e).block).index[0];
    block_idx_y(e) (*(*e).block).index[1];
    block_idx_z(e) (*(*e).block).index[2];
    block_dim_x(e) (*e).config.block[0];
    block_dim_y(e) (*e).config.block[1];
    block_dim_z(e) (*e).config.block[2];
    grid_dim_x(e) (*e).config.grid[0];
    grid_dim_y(e) (*e).config.grid[1];
    grid_dim_z(e) (*e).config.grid[2];
    lane_id(e) (*(*e).current).linear % 32;
    warp_id(e) (*(*e).current).linear / 32;
    active_mask(e) 1 << ((*(*e).current).linear % 32);
}

/// See `thread`.
#[track_caller]
pub fn sync_threads() {
    collective::barrier(BarrierKind::Plain, false, Location::caller());
}

/// See `thread`.
#[track_caller]
pub fn sync_threads_count(pred: bool) -> u32 {
    collective::barrier(BarrierKind::Count, pred, Location::caller())
}

/// See `thread`.
#[track_caller]
pub fn sync_threads_and(pred: bool) -> bool {
    let holds = collective::barrier(BarrierKind::And, pred, Location::caller());
    // SAFETY: a kernel is running, so the engine is alive.
    holds == unsafe { (*running()).block_threads }
}

/// See `thread`.
#[track_caller]
pub fn sync_threads_or(pred: bool) -> bool {
    collective::barrier(BarrierKind::Or, pred, Location::caller()) > 0
}

/// See `thread`.
#[track_caller]
pub fn nanosleep(_ns: u32) {
    // SAFETY: a kernel is running; no reference into the engine is alive.
    unsafe { Engine::rest(running(), Location::caller()) };
}

/// See `warp`.
#[track_caller]
pub fn sync_warp(mask: u32) {
    meet(WarpOp::Sync, mask, [0; 4], 0, Location::caller());
}

/// See `warp`.
#[track_caller]
pub fn shuffle<T: Element>(kind: ShuffleKind, mask: u32, v: T, operand: u32) -> T {
    let [first, second] = v.to_bits();
    let values = [first, second, 0, 0];
    let op = WarpOp::Shuffle(kind, size_of::<T>());
    T::from_bits(meet(op, mask, values, operand, Location::caller()))
}

/// See `warp`.
#[track_caller]
pub fn vote_any(mask: u32, pred: bool) -> bool {
    word(WarpOp::Any, mask, pred.into(), Location::caller()) != 0
}

/// See `warp`.
#[track_caller]
pub fn vote_all(mask: u32, pred: bool) -> bool {
    word(WarpOp::All, mask, pred.into(), Location::caller()) != 0
}

/// See `warp`.
#[track_caller]
pub fn ballot(mask: u32, pred: bool) -> u32 {
    word(WarpOp::Ballot, mask, pred.into(), Location::caller())
}

/// See `warp`.
#[track_caller]
pub fn match_any(mask: u32, v: u32) -> u32 {
    word(WarpOp::Match, mask, v, Location::caller())
}

/// See `warp`.
#[track_caller]
pub fn redux_u32(op: ReduceOp, mask: u32, v: u32) -> u32 {
    word(WarpOp::ReduceU32(op), mask, v, Location::caller())
}

/// See `warp`.
#[track_caller]
pub fn redux_i32(op: ReduceOp, mask: u32, v: i32) -> i32 {
    word(WarpOp::ReduceI32(op), mask, v as u32, Location::caller()) as i32
}

/// See `matrix`.
#[track_caller]
pub fn mma_m8n8k4_f64(a: f64, b: f64, c: [f64; 2]) -> [f64; 2] {
    let values = [a.to_bits(), b.to_bits(), c[0].to_bits(), c[1].to_bits()];
    meet(
        WarpOp::Mma,
        crate::warp::FULL_MASK,
        values,
        0,
        Location::caller(),
    )
    .map(f64::from_bits)
}

/// See `matrix`.
#[track_caller]
pub fn mma_m16n8k8_f64<const M: usize, const N: usize>(
    a: &[[f64; 4]; M],
    b: &[[f64; 2]; N],
    c: &mut [[[f64; 4]; N]; M],
) {
    let values = [
        a.as_ptr() as u64,
        b.as_ptr() as u64,
        c.as_mut_ptr() as u64,
        0,
    ];
    // The last lane that comes here adds up for all of them; see `collective::multiply_blocks`.
    meet(
        WarpOp::MmaBlocks(M, N),
        crate::warp::FULL_MASK,
        values,
        0,
        Location::caller(),
    );
}

/// See `warp`.
#[track_caller]
pub fn fold<T: Element, F: Fn(T, T) -> T>(lanes: u32, v: T, f: F) -> T {
    let line = Location::caller();
    assert!(
        lanes.is_power_of_two() && lanes <= 32,
        "groups of {lanes} lanes"
    );
    // SAFETY: the last lane that comes here folds for all, with its own f, while it waits below.
    let call: FoldStep = |f, a, b| unsafe {
        let f = &*f.cast::<F>();
        f(T::from_bits(a), T::from_bits(b)).to_bits()
    };
    let [first, second] = v.to_bits();
    let values = [first, second, call as usize as u64, &raw const f as u64];
    let op = WarpOp::Fold(lanes, size_of::<T>());
    T::from_bits(meet(op, crate::warp::FULL_MASK, values, 0, line))
}

fn word(op: WarpOp, mask: u32, v: u32, line: Line) -> u32 {
    meet(op, mask, [v.into(), 0, 0, 0], 0, line)[0] as u32
}

fn meet(op: WarpOp, mask: u32, values: [u64; 4], operand: u32, line: Line) -> [u64; 2] {
    let mine = Collective {
        op,
        mask,
        values,
        operand,
    };
    collective::warp(mine, line)
}

/// See `fence`.
pub fn fence(scope: Scope) {
    // SAFETY: a kernel is running; the reference ends here.
    unsafe {
        let this = &mut *running();
        if this.options.checks {
            this.fence(scope);
        }
    }
}

/// See `spin`.
#[track_caller]
pub fn spin_wait(mut condition: impl FnMut() -> bool) {
    let line = Location::caller();
    let engine = running();
    // SAFETY: a kernel is running; no reference into the engine is alive across the condition or
    // a switch.
    unsafe {
        let thread = (*engine).current;
        (*thread).in_spin = true;
        while !condition() {
            (*thread).line = Some(line);
            if (*thread).state != State::Spin {
                (*engine).set_state(State::Spin);
            }
            (*engine).spins_in_vain();
            Engine::preempt(engine);
        }
        if (*thread).state == State::Spin {
            (*engine).set_state(State::Ready);
        }
        (*engine).has_spun();
        (*thread).in_spin = false;
    }
}
