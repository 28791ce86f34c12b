//! Exclusive prefix sums of any length, in a hierarchy of tiles.
//!
//! ```text
//! counts   |  tile 0  |  tile 1  |  tile 2 .. |        scan_tile_sums: one block a tile
//! sums     | s0 | s1 | s2 | ..                         scanned by the same two kernels, until one tile is left
//! offsets  | 0 | s0 | s0+s1 | ..
//! out      |  0 ..    |  s0 ..   |  s0+s1 ..  | total  scan_tiles: one block a tile
//! ```
//!
//! Work O(len), log_tile(len) pairs of launches. All sums are `u64`.

use core::ops::AddAssign;

use luge_kernel::prelude::*;

use crate::grid::GridBarrier;

/// Most warps in a block of these kernels.
///
/// Size classes of lengths, around a warp, a block, a tile and a tile of tiles: each run by the tests of the `scan_`
/// kernels in `tests/tests/symbolic.rs`.
pub(crate) const MAX_WARPS: usize = 32;

/// Sum of `value` over the lanes up to and including this one. Every lane of the warp calls it.
#[inlined]
pub(crate) fn warp_inclusive_sum<T: Element + AddAssign>(value: T) -> T {
    let lane = thread::lane_id();
    let mut sum = value;
    let mut delta = 1;
    while delta < warp::WARP_SIZE {
        let below = warp::shuffle_up(warp::FULL_MASK, sum, delta);
        if lane >= delta {
            sum += below;
        }
        delta <<= 1;
    }
    sum
}

/// Inclusive sum over the threads of the block up to this one, and the sum over the whole block.
///
/// Every thread of the block calls it. Ends with a barrier, so `warp_sums` may be used again at once.
#[inlined]
pub(crate) fn block_inclusive_sum(value: u64, warp_sums: Shared<u64>) -> (u64, u64) {
    let warp = thread::thread_idx_x() / warp::WARP_SIZE;
    let inclusive = warp_inclusive_sum(value);
    if thread::lane_id() == warp::WARP_SIZE - 1 {
        warp_sums.set(warp as usize, inclusive);
    }
    thread::sync_threads();
    let num_warps = thread::block_dim_x() / warp::WARP_SIZE;
    let mut before = 0;
    let mut total = 0;
    let mut w = 0;
    while w < num_warps {
        let sum = warp_sums.get(w as usize);
        if w < warp {
            before += sum;
        }
        total += sum;
        w += 1;
    }
    thread::sync_threads();
    (before + inclusive, total)
}

#[inlined]
fn tile_sum(
    tile: u32,
    len: usize,
    load: impl Fn(usize) -> u64,
    warp_sums: Shared<u64>,
    sums: GlobalMut<u64>,
) {
    let begin = thread::block_idx_x() as usize * tile as usize;
    let end = if len - begin < tile as usize {
        len
    } else {
        begin + tile as usize
    };
    let mut sum = 0;
    let mut i = begin + thread::thread_idx_x() as usize;
    while i < end {
        sum += load(i);
        i += thread::block_dim_x() as usize;
    }
    let (_, total) = block_inclusive_sum(sum, warp_sums);
    if thread::thread_idx_x() == 0 {
        sums.set(thread::block_idx_x() as usize, total);
    }
}

#[inlined]
fn tile_scan(
    tile: u32,
    len: usize,
    load: impl Fn(usize) -> u64,
    offsets: Global<u64>,
    warp_sums: Shared<u64>,
    out: GlobalMut<u64>,
) {
    let begin = thread::block_idx_x() as usize * tile as usize;
    let end = if len - begin < tile as usize {
        len
    } else {
        begin + tile as usize
    };
    let mut carry = offsets.get(thread::block_idx_x() as usize);
    let mut chunk = begin;
    while chunk < end {
        let i = chunk + thread::thread_idx_x() as usize;
        let value = if i < end { load(i) } else { 0 };
        let (inclusive, total) = block_inclusive_sum(value, warp_sums);
        if i < end {
            out.set(i, carry + inclusive - value);
        }
        carry += total;
        chunk += thread::block_dim_x() as usize;
    }
    if end == len && thread::thread_idx_x() == 0 {
        out.set(len, carry);
    }
}

/// Sum of each tile of `counts`: `sums[b] = Σ counts[b·tile .. (b+1)·tile]`.
///
/// Threads: block b owns tile b; thread t adds the elements t, t + block, … of it, then the block adds
/// up by shuffles. Writes: thread 0 of block b alone writes `sums[b]`. Shared memory: one `u64` a
/// warp, between barriers. Launch: 1-D, exactly ⌈len / tile⌉ blocks, a multiple of 32 threads.
#[kernel(max_threads(1024), require(tile > 0))]
pub unsafe fn scan_tile_sums_u32(tile: u32, counts: Global<u32>, sums: GlobalMut<u64>) {
    let warp_sums = shared_array![u64; MAX_WARPS];
    tile_sum(
        tile,
        counts.len(),
        |i| u64::from(counts.get(i)),
        warp_sums,
        sums,
    );
}

/// As [`scan_tile_sums_u32`](fn@scan_tile_sums_u32), of 64-bit counts.
#[kernel(max_threads(1024), require(tile > 0))]
pub unsafe fn scan_tile_sums_u64(tile: u32, counts: Global<u64>, sums: GlobalMut<u64>) {
    let warp_sums = shared_array![u64; MAX_WARPS];
    tile_sum(tile, counts.len(), |i| counts.get(i), warp_sums, sums);
}

/// Exclusive prefix sum of `counts` given the sum before each tile:
/// `out[i] = offsets[i / tile] + Σ counts[tile start .. i]`, and `out[len]` is the total.
///
/// Threads: block b owns tile b and walks it in chunks of one element a thread, carrying the sum.
/// Writes: thread t of block b alone writes the `out` elements of its chunk places; thread 0 of the
/// last tile writes `out[len]`. Shared memory: one `u64` a warp, between barriers. Launch: 1-D,
/// max(1, ⌈len / tile⌉) blocks, a multiple of 32 threads.
#[kernel(max_threads(1024), require(tile > 0, out.len() == counts.len() + 1))]
pub unsafe fn scan_tiles_u32(
    tile: u32,
    counts: Global<u32>,
    offsets: Global<u64>,
    out: GlobalMut<u64>,
) {
    let warp_sums = shared_array![u64; MAX_WARPS];
    tile_scan(
        tile,
        counts.len(),
        |i| u64::from(counts.get(i)),
        offsets,
        warp_sums,
        out,
    );
}

/// As [`scan_tiles_u32`](fn@scan_tiles_u32), of 64-bit counts.
#[kernel(max_threads(1024), require(tile > 0, out.len() == counts.len() + 1))]
pub unsafe fn scan_tiles_u64(
    tile: u32,
    counts: Global<u64>,
    offsets: Global<u64>,
    out: GlobalMut<u64>,
) {
    let warp_sums = shared_array![u64; MAX_WARPS];
    tile_scan(
        tile,
        counts.len(),
        |i| counts.get(i),
        offsets,
        warp_sums,
        out,
    );
}

/// Exclusive prefix sum over `0..len` by a whole persistent grid: calls `store(i, sum of load(0..i))` for each i,
/// and answers the total.
///
/// A block takes a piece of consecutive elements, adds it up, and after a barrier writes it with the sums of the pieces
/// before. `load` is called twice for each element, by threads of one block. What `store` wrote everybody sees
/// afterwards. `sums` has an element a block; `warp_sums` an element a warp. Every thread of the grid
/// calls it.
#[inlined]
pub(crate) fn grid_exclusive_scan(
    grid: &mut GridBarrier,
    sums: GlobalMut<u64>,
    warp_sums: Shared<u64>,
    len: usize,
    load: impl Fn(usize) -> u64,
    mut store: impl FnMut(usize, u64),
) -> u64 {
    let block = thread::block_idx_x() as usize;
    let blocks = thread::grid_dim_x() as usize;
    let tid = thread::thread_idx_x() as usize;
    let threads = thread::block_dim_x() as usize;
    // Blocks times piece is at least len, which is below 2³²: a division of 64-bit numbers is a call.
    let piece = (len as u32 / thread::grid_dim_x() + 1) as usize;
    let begin = if block * piece < len {
        block * piece
    } else {
        len
    };
    let end = if len - begin < piece {
        len
    } else {
        begin + piece
    };
    let mut sum = 0;
    let mut i = begin + tid;
    while i < end {
        sum += load(i);
        i += threads;
    }
    let (_, of_piece) = block_inclusive_sum(sum, warp_sums);
    if tid == 0 {
        sums.set(block, of_piece);
    }
    grid.wait();
    let (mut before, mut all) = (0, 0);
    let mut b = tid;
    while b < blocks {
        let of_piece = sums.get(b);
        if b < block {
            before += of_piece;
        }
        all += of_piece;
        b += threads;
    }
    let (_, mut carry) = block_inclusive_sum(before, warp_sums);
    let (_, total) = block_inclusive_sum(all, warp_sums);
    let mut chunk = begin;
    while chunk < end {
        let i = chunk + tid;
        let value = if i < end { load(i) } else { 0 };
        let (inclusive, of_chunk) = block_inclusive_sum(value, warp_sums);
        if i < end {
            store(i, carry + inclusive - value);
        }
        carry += of_chunk;
        chunk += threads;
    }
    grid.wait();
    total
}
