//! Largest numbers of all threads of a grid, and who is left to tell of them.

use luge_kernel::prelude::*;

/// Warps of a block at most, in kernels that raise words.
pub(crate) const MAX_WARPS: usize = 8;

/// The larger one.
#[inlined]
pub(crate) fn larger(one: u64, other: u64) -> u64 {
    if one > other { one } else { other }
}

/// Whether this block is the last of the grid to come here, for all its threads: they see then what the others wrote before.
///
/// All threads of a block call it; `done`, which counts blocks, is zero before the launch.
#[inlined]
pub(crate) fn is_last_block<T: IntElement + From<u32> + PartialEq>(done: Atomic<T>) -> bool {
    thread::sync_threads();
    let mut is_last = false;
    if thread::thread_idx_x() == 0 {
        let before = done.fetch_add(T::from(1), Ordering::AcqRel, Scope::Device);
        is_last = before == T::from(thread::grid_dim_x() - 1);
    }
    thread::sync_threads_or(is_last)
}

/// Ends a launch that raised words of `state`, of which the last counts blocks that are done: the last block leaves the others in
/// `found`, which may be memory of the host, and clears all for the next launch. Whether this block is it.
///
/// All threads of the grid call it.
#[inlined]
pub(crate) fn leave(state: GlobalMut<u64>, found: GlobalMut<u64>) -> bool {
    let len = state.len() - 1;
    let is_last = is_last_block(state.atomic(len));
    if is_last {
        let mut which = thread::thread_idx_x() as usize;
        while which <= len {
            if which < len {
                found.set(which, state.get(which));
            }
            state.set(which, 0);
            which += thread::block_dim_x() as usize;
        }
    }
    is_last
}

/// Raises the words from `first` on to what a thread has found, where that is more. A block has one atomic maximum for each: at
/// few words those of all warps would wait for each other longer than a small kernel takes.
///
/// All threads of a block of at most [`MAX_WARPS`] warps call it; `of_warps`, shared memory of its own, has room for as many of each
/// warp.
#[inlined]
pub(crate) fn raise<const N: usize>(
    words: GlobalMut<u64>,
    first: usize,
    found: [u64; N],
    of_warps: Shared<u64>,
) {
    let thread = thread::thread_idx_x() as usize;
    let warp = thread / warp::WARP_SIZE as usize;
    // What was there before has been read.
    thread::sync_threads();
    let mut which = 0;
    while which < N {
        let of_warp = warp::fold(warp::WARP_SIZE, found[which], larger);
        if thread::lane_id() == 0 {
            of_warps.set(which * MAX_WARPS + warp, of_warp);
        }
        which += 1;
    }
    thread::sync_threads();
    if thread < N {
        let mut of_block = 0;
        let mut warp = 0;
        while warp < (thread::block_dim_x() / warp::WARP_SIZE) as usize {
            of_block = larger(of_block, of_warps.get(thread * MAX_WARPS + warp));
            warp += 1;
        }
        if of_block > 0 {
            let word = words.atomic(first + thread);
            word.fetch_max(of_block, Ordering::Relaxed, Scope::Device);
        }
    }
}
