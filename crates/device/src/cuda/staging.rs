//! Copies from pageable memory through page-locked blocks that several threads fill.
//!
//! The driver copies pageable memory through blocks of its own, with one thread, at a fifth of what the bus can do.

use std::ffi::c_void;

use cudarc::driver::sys::CUdeviceptr;
use rayon::prelude::*;

use super::{CallError, Context, EventHandle, Handle, StreamHandle};
use crate::error::DeviceError;

/// Bytes of a block. Few in tests, so that small copies take several.
const BLOCK: usize = if cfg!(test) { 64 } else { 1 << 19 };

/// Blocks of each thread: one is filled while the other is copied.
const BLOCKS_A_THREAD: usize = 2;

/// Threads that fill blocks, at most.
const MOST_THREADS: usize = 16;

/// Fewer bytes than this are left to the driver.
pub(crate) const LEAST_STAGED: usize = 2 * BLOCK;

/// Blocks, and a stream on which they are copied, for one user at a time.
pub(super) struct Staging {
    stream: StreamHandle,
    blocks: Vec<Block>,
    memory: Handle<c_void>,
}

/// Page-locked memory, and what says that it is free.
struct Block {
    memory: Handle<u8>,
    /// After the last copy from it.
    event: EventHandle,
    /// Whether nobody has waited for that yet.
    is_busy: bool,
}

/// Up to [`BLOCK`] bytes, and where they go.
type Piece<'a> = (CUdeviceptr, &'a [u8]);

impl Block {
    /// Waits until the block is free, fills it, and enqueues its copy.
    ///
    /// # Safety
    /// As [`Context::copy_staged`], for this piece.
    unsafe fn copy(
        &mut self,
        context: &Context,
        stream: StreamHandle,
        (destination, bytes): Piece<'_>,
    ) -> Result<(), CallError> {
        if self.is_busy {
            context.synchronize_event(self.event)?;
        }
        // SAFETY: the block has as many bytes, nobody else refers to it, and no copy reads it any more.
        let filled = unsafe {
            let block = std::slice::from_raw_parts_mut(self.memory.pointer(), bytes.len());
            block.copy_from_slice(bytes);
            &*block
        };
        // SAFETY: the destination is passed on to the caller; the block stays until the event, or the stream, was
        // waited for.
        unsafe { context.copy_to_device(destination, filled, stream)? };
        self.is_busy = true;
        context.record(self.event, stream)
    }
}

impl Staging {
    fn new(context: &Context) -> Result<Self, DeviceError> {
        let num_blocks = BLOCKS_A_THREAD * MOST_THREADS;
        let memory = Handle::new(context.allocate_pinned(num_blocks * BLOCK)?);
        let made = Self::with_memory(context, memory, num_blocks);
        made.map_err(|error| {
            // SAFETY: nothing uses the memory.
            let _ = unsafe { context.release_pinned(memory.pointer()) };
            context.error(error, &[])
        })
    }

    fn with_memory(
        context: &Context,
        memory: Handle<c_void>,
        num_blocks: usize,
    ) -> Result<Self, CallError> {
        let mut staging = Self {
            stream: context.create_stream()?,
            blocks: Vec::with_capacity(num_blocks),
            memory,
        };
        for block in 0..num_blocks {
            match context.create_event(false) {
                Ok(event) => staging.blocks.push(Block {
                    // SAFETY: the memory has that many blocks.
                    memory: Handle::new(unsafe {
                        memory.pointer().cast::<u8>().add(block * BLOCK)
                    }),
                    event,
                    is_busy: false,
                }),
                Err(error) => {
                    staging.destroy_handles(context);
                    return Err(error);
                }
            }
        }
        Ok(staging)
    }

    fn destroy_handles(&self, context: &Context) {
        for block in &self.blocks {
            let _ = context.destroy_event(block.event);
        }
        let _ = context.destroy_stream(self.stream);
    }

    /// Gives everything back. Nothing may be on the way any more.
    pub(super) fn destroy(self, context: &Context) {
        self.destroy_handles(context);
        // SAFETY: it was allocated, and no copy uses it.
        let _ = unsafe { context.release_pinned(self.memory.pointer()) };
    }
}

impl Context {
    /// Copies to the device with this many threads of the current rayon pool; done when it returns. False if there is no
    /// page-locked memory for that: then nothing is copied.
    ///
    /// # Safety
    /// The destinations are alive and as large as what is copied there, and nothing else uses them.
    pub(crate) unsafe fn copy_staged(
        &self,
        copies: &[(CUdeviceptr, &[u8])],
        threads: usize,
    ) -> Result<bool, DeviceError> {
        let spare = self.spare_staging().pop();
        let staging = spare.map_or_else(|| Staging::new(self), Ok);
        let mut staging = match staging {
            Err(DeviceError::OutOfHostMemory { .. }) => return Ok(false),
            staging => staging?,
        };
        let pieces: Vec<Piece<'_>> = copies
            .iter()
            .flat_map(|&(address, bytes)| {
                let offsets = (0..).step_by(BLOCK);
                offsets
                    .zip(bytes.chunks(BLOCK))
                    .map(move |(offset, piece)| (address + offset, piece))
            })
            .collect();
        let (stream, groups) = (staging.stream, threads.min(MOST_THREADS));
        let of_threads = staging.blocks.par_chunks_mut(BLOCKS_A_THREAD).take(groups);
        let enqueued = of_threads.enumerate().try_for_each(|(group, blocks)| {
            let own = pieces.iter().skip(group).step_by(groups);
            for (turn, &piece) in own.enumerate() {
                // SAFETY: passed on to the caller.
                unsafe { blocks[turn % BLOCKS_A_THREAD].copy(self, stream, piece)? };
            }
            Ok(())
        });
        // Whatever happened: copies on the way refer to the blocks.
        let done = self.synchronize(stream);
        for block in &mut staging.blocks {
            block.is_busy = false;
        }
        if done.is_ok() {
            self.spare_staging().push(staging);
        } else {
            staging.destroy(self);
        }
        let copied = enqueued.and(done);
        copied.map_err(|error| self.error(error, &[]))?;
        Ok(true)
    }
}
