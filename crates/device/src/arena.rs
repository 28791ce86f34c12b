//! One block of device memory, handed out in typed pieces.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use luge_kernel::mem::Element;

use crate::error::DeviceError;
use crate::memory::{Backing, Memory};
use crate::stream::Stream;

/// Every piece of an arena starts at a multiple of this many bytes.
pub const ARENA_ALIGNMENT: u64 = 256;

#[derive(Debug, Default)]
struct State {
    used: u64,
    peak: u64,
    /// Pieces alive.
    lent: usize,
}

struct Shared {
    stream: Stream,
    budget: u64,
    /// On CUDA the block; on the simulator the charge for it alone, since each piece there is an
    /// allocation of its own, so that an access past a piece's end or a read of what its former
    /// user left is found.
    memory: Arc<Memory>,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A byte budget of device memory, allocated at once and handed out front to back.
///
/// ```text
/// 0        256              768                             budget
/// | a: u32 | pad | b: f64 …  | pad |         remaining         |
/// ```
///
/// A piece is not given back by itself: [`Arena::reset`] takes all of them back. Piece and arena
/// follow the rules of the stream that the arena was made on.
pub struct Arena {
    shared: Arc<Shared>,
}

/// `len` elements of an [`Arena`]; keeps the arena's memory alive.
pub struct ArenaSlice<T: Element> {
    pub(crate) memory: Arc<Memory>,
    pub(crate) byte_offset: usize,
    pub(crate) len: usize,
    arena: Arc<Shared>,
    marker: PhantomData<T>,
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("budget", &self.shared.budget)
            .field("state", &*self.shared.state())
            .finish_non_exhaustive()
    }
}

impl Arena {
    /// Allocates `budget_bytes` on the stream.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], or the driver's.
    pub fn new(stream: &Stream, budget_bytes: u64) -> Result<Self, DeviceError> {
        Ok(Self {
            shared: Arc::new(Shared {
                memory: stream.allocate_block(budget_bytes)?,
                stream: stream.clone(),
                budget: budget_bytes,
                state: Mutex::default(),
            }),
        })
    }

    /// `len` elements, their content undefined, at a multiple of [`ARENA_ALIGNMENT`] bytes.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] with the bytes asked for and those remaining; the arena is as
    /// before.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<ArenaSlice<T>, DeviceError> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let mut state = self.shared.state();
        let start = state.used.next_multiple_of(ARENA_ALIGNMENT);
        let available = self.shared.budget.saturating_sub(start);
        if bytes > available {
            return Err(DeviceError::OutOfMemory {
                asked: bytes,
                available,
            });
        }
        let (memory, byte_offset) = match self.shared.stream.allocate_simulated::<T>(len) {
            Some(allocation) => (
                Memory::new(
                    Backing::Simulator(allocation),
                    0,
                    self.shared.memory.stream(),
                ),
                0,
            ),
            None => (self.shared.memory.clone(), start as usize),
        };
        state.used = start + bytes;
        state.peak = state.peak.max(state.used);
        state.lent += 1;
        drop(state);
        Ok(ArenaSlice {
            memory,
            byte_offset,
            len,
            arena: self.shared.clone(),
            marker: PhantomData,
        })
    }

    /// Bytes of the arena.
    pub fn budget(&self) -> u64 {
        self.shared.budget
    }

    /// Bytes handed out since the last reset, with the padding between pieces.
    pub fn used(&self) -> u64 {
        self.shared.state().used
    }

    /// The most that [`Arena::used`] ever was; a reset does not lower it.
    pub fn peak(&self) -> u64 {
        self.shared.state().peak
    }

    /// Bytes of the largest piece that can still be handed out.
    pub fn remaining(&self) -> u64 {
        let start = self.used().next_multiple_of(ARENA_ALIGNMENT);
        self.shared.budget.saturating_sub(start)
    }

    /// Takes every piece back.
    ///
    /// # Panics
    /// If a piece is still alive.
    #[track_caller]
    pub fn reset(&mut self) {
        let mut state = self.shared.state();
        let lent = state.lent;
        if lent == 0 {
            state.used = 0;
        }
        drop(state);
        assert!(
            lent == 0,
            "an arena was reset while {lent} pieces are alive"
        );
    }
}

impl<T: Element> Drop for ArenaSlice<T> {
    fn drop(&mut self) {
        self.arena.state().lent -= 1;
    }
}
