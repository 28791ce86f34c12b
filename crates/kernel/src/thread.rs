//! Where a thread is in its grid, and what it waits for together with its block.

use crate::imp;

macro_rules! index {
    ($($name:ident: $what:literal),* $(,)?) => {
        $(
            #[doc = $what]
            #[inline(always)]
            pub fn $name() -> u32 {
                imp::$name()
            }
        )*
    };
}
index! {
    thread_idx_x: "Index of the thread in its block, x.",
    thread_idx_y: "Index of the thread in its block, y.",
    thread_idx_z: "Index of the thread in its block, z.",
    block_idx_x: "Index of the block in the grid, x.",
    block_idx_y: "Index of the block in the grid, y.",
    block_idx_z: "Index of the block in the grid, z.",
    block_dim_x: "Threads of a block, x.",
    block_dim_y: "Threads of a block, y.",
    block_dim_z: "Threads of a block, z.",
    grid_dim_x: "Blocks of the grid, x.",
    grid_dim_y: "Blocks of the grid, y.",
    grid_dim_z: "Blocks of the grid, z.",
    lane_id: "Index of the thread in its warp, 0 to 31.",
    warp_id: "Index of the warp in its block: the linear thread index / 32.",
}

/// Global index of the thread in a one-dimensional launch: block index · block size + thread.
#[inline(always)]
pub fn index_1d() -> u32 {
    block_idx_x() * block_dim_x() + thread_idx_x()
}

/// Number of threads of a one-dimensional launch.
#[inline(always)]
pub fn num_threads_1d() -> u32 {
    grid_dim_x() * block_dim_x()
}

/// Waits until all threads of the block are here, and orders their accesses.
///
/// Every thread of the block must reach the same call; one that has returned is missed.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads() {
    imp::sync_threads();
}

/// [`sync_threads`], answering for how many threads `pred` holds.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_count(pred: bool) -> u32 {
    imp::sync_threads_count(pred)
}

/// [`sync_threads`], answering whether `pred` holds for all threads.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_and(pred: bool) -> bool {
    imp::sync_threads_and(pred)
}

/// [`sync_threads`], answering whether `pred` holds for any thread.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_or(pred: bool) -> bool {
    imp::sync_threads_or(pred)
}

/// Lets the thread rest for about `ns` nanoseconds (at most a millisecond); orders nothing.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn nanosleep(ns: u32) {
    imp::nanosleep(ns);
}

/// The indices of `0..len` that fall to this thread when a one-dimensional grid strides over them:
/// `index_1d()`, then every `num_threads_1d()`-th.
#[inline(always)]
pub fn grid_stride(len: usize) -> Stride {
    Stride {
        next: index_1d() as usize,
        step: num_threads_1d() as usize,
        len,
    }
}

/// The indices of `0..len` that fall to this thread when a one-dimensional block strides over
/// them: `thread_idx_x()`, then every `block_dim_x()`-th.
#[inline(always)]
pub fn block_stride(len: usize) -> Stride {
    Stride {
        next: thread_idx_x() as usize,
        step: block_dim_x() as usize,
        len,
    }
}

/// The iterator of [`grid_stride`] and [`block_stride`].
#[derive(Clone, Debug)]
pub struct Stride {
    next: usize,
    step: usize,
    len: usize,
}

impl Iterator for Stride {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let i = self.next;
        if i < self.len {
            // A length is at most isize::MAX and a step at most u32::MAX: no overflow.
            self.next = i + self.step;
            Some(i)
        } else {
            None
        }
    }
}
