//! From panels to the rows of L+U.
//!
//! Row i of L is a list of *runs*: for each panel below with i in its lower structure, where the word of i lies
//! in the pool. Row i of U is what the panel of i has. So the runs of all panels are transposed, a run a unit, and each
//! row is written out word by word, in order; nothing that is as large as L+U is sorted.
//!
//! A warp writes a row, and counts a panel. Long ones are left to whole blocks, so that they stall nobody.

use luge_kernel::prelude::*;

use super::args::{LongRows, RowOffsets, Runs, Structures};
use crate::bits::{has_bit, high_half, lanes_below, transposed};
use crate::grid::GridBarrier;
use crate::long::{for_long, list_long, take_bits};
use crate::scan::{MAX_WARPS, block_inclusive_sum, grid_exclusive_scan};

/// Panels with a longer structure, rows with more runs, and those with a structure four times as long are the
/// work of a block.
///
/// Size classes: up to and above it, each run by `rows_and_structures_of_whole_blocks_match_the_cpu` in
/// `tests/tests/panels.rs`.
pub const LONG: u32 = 1024;

/// Calls `visit(q, first, step)` for each panel: a warp a panel with (0, 1); for a long one all warps of the
/// block with their number and how many they are.
#[inlined]
fn for_panels(panels: usize, len: impl Fn(usize) -> u32, mut visit: impl FnMut(usize, u32, u32)) {
    let warp = thread::thread_idx_x() / warp::WARP_SIZE;
    let warps = thread::block_dim_x() / warp::WARP_SIZE;
    let mut first = (thread::block_idx_x() * warps) as usize;
    while first < panels {
        let mut w = 0;
        while w < warps && first + (w as usize) < panels {
            let q = first + w as usize;
            if len(q) > LONG {
                visit(q, warp, warps);
            } else if w == warp {
                visit(q, 0, 1);
            }
            w += 1;
        }
        first += (thread::grid_dim_x() * warps) as usize;
    }
}

/// Where the lower structure of panel q lies, and its length.
#[inlined]
fn lower_of(symmetric: u32, structures: Structures, q: usize) -> (u32, u32) {
    let (first, upper) = (structures.at.get(q), structures.upper_len.get(q));
    if symmetric != 0 {
        (first, upper)
    } else {
        (first + upper, structures.lower_len.get(q))
    }
}

/// Offsets of the rows of L+U and of the runs of the rows of L, in one launch: `row_ptr`, `run_ptr`. `num_panels[0]` panels;
/// `symmetric` as in [`eliminate_panels`](fn@super::panels::eliminate_panels).
///
/// Threads: persistent grid; a warp a panel, or a block a long one; lanes over the entries of the structures, then
/// over the rows. Writes: `row_len` and `num_runs` by atomic adds, in any order, offsets by the grid's prefix
/// sums; grid barriers in between. `num_runs` is zero afterwards. Launch: cooperative, 1-D, a multiple of 32
/// threads. Preconditions: the structures are those of
/// [`eliminate_panels`](fn@super::panels::eliminate_panels); `sums` has an element a block; `barrier` is zero.
#[kernel(
    max_threads(256),
    min_blocks(1),
    require(
        panel_start.len() == structures.at.len() + 1,
        structures.upper_len.len() == structures.at.len(),
        symmetric != 0 || structures.lower_len.len() == structures.at.len(),
        rows.row_len.len() == structures.diagonal.len(),
        rows.num_runs.len() == structures.diagonal.len(),
        rows.row_ptr.len() == structures.diagonal.len() + 1,
        rows.run_ptr.len() == structures.diagonal.len() + 1,
        structures.mask.len() == structures.index.len(),
        num_panels.len() == 1,
        barrier.len() >= 1
    )
)]
pub unsafe fn offset_rows(
    symmetric: u32,
    num_panels: Global<u32>,
    panel_start: Global<u32>,
    structures: Structures,
    sums: GlobalMut<u64>,
    rows: RowOffsets,
    barrier: GlobalMut<u32>,
) {
    let warp_sums = shared_array![u64; MAX_WARPS];
    let mut grid = GridBarrier::new(barrier);
    let n = structures.diagonal.len();
    for i in thread::grid_stride(n) {
        rows.row_len.set(i, 0);
        rows.num_runs.set(i, 0);
    }
    grid.wait();

    let lane = thread::lane_id();
    let lower = |q: usize| lower_of(symmetric, structures, q);
    let len = |q: usize| {
        let of_lower = lower(q).1;
        if of_lower > structures.upper_len.get(q) {
            of_lower
        } else {
            structures.upper_len.get(q)
        }
    };
    for_panels(num_panels.get(0) as usize, len, |q, mine, step| {
        let start = panel_start.get(q);
        let width = panel_start.get(q + 1) - start;
        let (first, len) = lower(q);
        let mut t = mine * warp::WARP_SIZE + lane;
        while t < len {
            let x = structures.index.get((first + t) as usize) as usize;
            let entries = structures.mask.get((first + t) as usize).count_ones();
            rows.row_len
                .atomic(x)
                .reduce_add(entries, Ordering::Relaxed, Scope::Device);
            rows.num_runs
                .atomic(x)
                .reduce_add(1, Ordering::Relaxed, Scope::Device);
            t += step * warp::WARP_SIZE;
        }
        let (first, len) = (structures.at.get(q), structures.upper_len.get(q));
        // Of the rows `lane` and `lane + 32`.
        let mut entries = (0, 0);
        let mut group = mine * warp::WARP_SIZE;
        while group < len {
            let mut word = 0;
            if group + lane < len {
                word = structures.mask.get((first + group + lane) as usize);
            }
            entries.0 += transposed(word as u32).count_ones();
            if width > warp::WARP_SIZE {
                entries.1 += transposed(high_half(word)).count_ones();
            }
            group += step * warp::WARP_SIZE;
        }
        let add = |k: u32, entries: u32| {
            if k < width {
                let row = (start + k) as usize;
                let mut entries = entries;
                if mine == 0 {
                    entries += structures.diagonal.get(row).count_ones();
                }
                rows.row_len
                    .atomic(row)
                    .reduce_add(entries, Ordering::Relaxed, Scope::Device);
            }
        };
        add(lane, entries.0);
        add(lane + warp::WARP_SIZE, entries.1);
    });
    grid.wait();

    let entries = grid_exclusive_scan(
        &mut grid,
        sums,
        warp_sums,
        n,
        |i| u64::from(rows.row_len.get(i)),
        |i, before| rows.row_ptr.set(i, before),
    );
    let runs = grid_exclusive_scan(
        &mut grid,
        sums,
        warp_sums,
        n,
        |i| u64::from(rows.num_runs.get(i)),
        |i, before| rows.run_ptr.set(i, before),
    );
    if thread::index_1d() == 0 {
        rows.row_ptr.set(n, entries);
        rows.run_ptr.set(n, runs);
    }
    for i in thread::grid_stride(n) {
        rows.num_runs.set(i, 0);
    }
}

/// Lists the runs of each row of L in `runs[run_ptr[i] ..]`, in any order: the first pivot of the panel in
/// the upper half, the place in `mask` of the word of the row in the lower.
///
/// Threads: a warp a panel, or a block a long one, grid-strided. Writes: a place of `runs` by the thread that an
/// atomic counter gave it to. Launch: 1-D, a multiple of 32 threads. Preconditions: as
/// [`offset_rows`](fn@offset_rows), which made `run_ptr`; `taken` is zero.
#[kernel(
    max_threads(1024),
    require(
        panel_start.len() == structures.at.len() + 1,
        structures.upper_len.len() == structures.at.len(),
        symmetric != 0 || structures.lower_len.len() == structures.at.len(),
        run_ptr.len() == taken.len() + 1,
        num_panels.len() == 1
    )
)]
pub unsafe fn place_runs(
    symmetric: u32,
    num_panels: Global<u32>,
    panel_start: Global<u32>,
    structures: Structures,
    run_ptr: Global<u64>,
    taken: GlobalMut<u32>,
    runs: GlobalMut<u64>,
) {
    let lower = |q: usize| lower_of(symmetric, structures, q);
    for_panels(
        num_panels.get(0) as usize,
        |q| lower(q).1,
        |q, mine, step| {
            let start = u64::from(panel_start.get(q));
            let (first, len) = lower(q);
            let mut t = mine * warp::WARP_SIZE + thread::lane_id();
            while t < len {
                let x = structures.index.get((first + t) as usize) as usize;
                let place = taken
                    .atomic(x)
                    .fetch_add(1, Ordering::Relaxed, Scope::Device);
                let place = run_ptr.get(x) + u64::from(place);
                runs.set(place as usize, start << 32 | u64::from(first + t));
                t += step * warp::WARP_SIZE;
            }
        },
    );
}

/// Writes the columns `first + b` for the bits b of `word` to `col_idx[at ..]`; how many. Called by a whole
/// warp with the same arguments.
#[inlined]
fn write_bits(col_idx: GlobalMut<u32>, at: u64, first: u32, word: u64) -> u64 {
    let lane = thread::lane_id();
    let (low, high) = (word as u32, high_half(word));
    if (low >> lane) & 1 != 0 {
        let before = (low & lanes_below()).count_ones();
        col_idx.set((at + u64::from(before)) as usize, first + lane);
    }
    if (high >> lane) & 1 != 0 {
        let before = low.count_ones() + (high & lanes_below()).count_ones();
        let column = first + warp::WARP_SIZE + lane;
        col_idx.set((at + u64::from(before)) as usize, column);
    }
    u64::from(word.count_ones())
}

/// Writes the rows of L+U, sorted; long ones are listed in `long` instead.
///
/// Threads: a warp a row, grid-strided; its lanes over the columns of a word, and over the entries of the
/// upper structure. Writes: `col_idx[row_ptr[i] .. row_ptr[i+1]]` by the warp of row i, each entry by one
/// lane; a place of `long` by lane 0 of the warp that an atomic counter gave it to. Launch: 1-D, a multiple of 32
/// threads. Preconditions: `runs` holds [`place_runs`](fn@place_runs)', those of each row that is not long
/// sorted; `row_ptr` is [`offset_rows`](fn@offset_rows)'; `num_long` is
/// zero.
#[kernel(
    max_threads(1024),
    require(
        panel_start.len() == structures.at.len() + 1,
        structures.upper_len.len() == structures.at.len(),
        structures.diagonal.len() == panel_of.len(),
        runs.run_ptr.len() == panel_of.len() + 1,
        runs.row_ptr.len() == panel_of.len() + 1,
        structures.mask.len() == structures.index.len(),
        long.len() == panel_of.len(),
        num_long.len() == crate::long::LONG_COUNTERS
    )
)]
pub unsafe fn expand_rows(
    panel_start: Global<u32>,
    panel_of: Global<u32>,
    structures: Structures,
    runs: Runs,
    col_idx: GlobalMut<u32>,
    long: GlobalMut<u32>,
    num_long: GlobalMut<u32>,
) {
    let lane = thread::lane_id();
    let warps = (thread::num_threads_1d() / warp::WARP_SIZE) as usize;
    let mut i = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while i < panel_of.len() {
        let mut out = runs.row_ptr.get(i);
        let mut r = runs.run_ptr.get(i);
        let num_runs = runs.run_ptr.get(i + 1) - r;
        let q = panel_of.get(i) as usize;
        let (first, len) = (structures.at.get(q), structures.upper_len.get(q));
        if num_runs > u64::from(LONG) || len > 4 * LONG {
            if lane == 0 {
                list_long(long, num_long, i);
            }
            i += warps;
            continue;
        }
        let mut left = num_runs as u32;
        while left > 0 {
            // 32 runs and their words are read at once and written one after another.
            let (mut column, mut word) = (0, 0);
            if lane < left {
                let run = runs.runs.get(r as usize + lane as usize);
                column = high_half(run);
                word = structures.mask.get(run as u32 as usize);
            }
            let batch = if left < warp::WARP_SIZE {
                left
            } else {
                warp::WARP_SIZE
            };
            let mut j = 0;
            while j < batch {
                let column = warp::shuffle(warp::FULL_MASK, column, j);
                let word = warp::shuffle(warp::FULL_MASK, word, j);
                out += write_bits(col_idx, out, column, word);
                j += 1;
            }
            r += u64::from(batch);
            left -= batch;
        }

        let start = panel_start.get(q);
        out += write_bits(col_idx, out, start, structures.diagonal.get(i));

        let bit = i as u32 - start;
        let mut group = 0;
        while group < len {
            let t = group + lane;
            let mut has = false;
            if t < len {
                has = has_bit(structures.mask.get((first + t) as usize), bit);
            }
            let those = warp::ballot(warp::FULL_MASK, has);
            if has {
                let before = (those & lanes_below()).count_ones();
                let column = structures.index.get((first + t) as usize);
                col_idx.set((out + u64::from(before)) as usize, column);
            }
            out += u64::from(those.count_ones());
            group += warp::WARP_SIZE;
        }
        i += warps;
    }
}

/// Writes the rows of L+U listed in `long`, sorted.
///
/// The runs of a row, in any order, set their bits in a map of all columns, and the map is read in order from the
/// first one on.
///
/// Threads: a block a row, taken from `counters[1]`; its threads over runs, words of the map, and entries of the
/// upper structure. `bits` holds a piece of `words` = ⌊n / 32⌋ + 1 words for each block, at least as many as have
/// columns. Writes: bits by atomics of the
/// block's threads; a row's columns by the threads whose words or entries hold them; barriers in between. Words are
/// zero again afterwards. Launch: 1-D, a multiple of 32 threads. Preconditions: as for
/// [`expand_rows`](fn@expand_rows), which made `long` and `counters`; `bits` is zero.
#[kernel(
    max_threads(1024),
    require(
        panel_start.len() == structures.at.len() + 1,
        structures.upper_len.len() == structures.at.len(),
        structures.diagonal.len() == panel_of.len(),
        runs.run_ptr.len() == panel_of.len() + 1,
        runs.row_ptr.len() == panel_of.len() + 1,
        structures.mask.len() == structures.index.len(),
        long.words as usize > panel_of.len() / 32,
        long.counters.len() == crate::long::LONG_COUNTERS
    )
)]
pub unsafe fn expand_long_rows(
    panel_start: Global<u32>,
    panel_of: Global<u32>,
    structures: Structures,
    runs: Runs,
    col_idx: GlobalMut<u32>,
    long: LongRows,
) {
    let next = shared_array![u32; 2];
    let warp_sums = shared_array![u64; MAX_WARPS];
    let tid = thread::thread_idx_x();
    let threads = thread::block_dim_x();
    let map = thread::block_idx_x() as usize * long.words as usize;
    let start_minimum = || next.set(1, u32::MAX);
    for_long(long.rows, long.counters, next, start_minimum, |i| {
        let q = panel_of.get(i) as usize;
        let start = panel_start.get(q);
        let set = |first: u32, word: u64| {
            // Shifted into the three words that hold columns `first` to `first + 63`. Only what has bits is written:
            // the last one may lie behind the map.
            let (cell, shift) = (map + (first >> 5) as usize, first & 31);
            let low = word << shift;
            let set = |cell: usize, bits_of: u32| {
                if bits_of != 0 {
                    long.bits
                        .atomic(cell)
                        .fetch_or(bits_of, Ordering::Relaxed, Scope::Block);
                }
            };
            set(cell, low as u32);
            set(cell + 1, high_half(low));
            set(cell + 2, (high_half(word) >> 1) >> (31 - shift));
        };
        let first = runs.run_ptr.get(i);
        let mut least = start;
        for r in thread::block_stride((runs.run_ptr.get(i + 1) - first) as usize) {
            let run = runs.runs.get(first as usize + r);
            let column = high_half(run);
            set(column, structures.mask.get(run as u32 as usize));
            if column < least {
                least = column;
            }
        }
        if tid == 0 {
            set(start, structures.diagonal.get(i));
        }
        let least = warp::reduce_min(warp::FULL_MASK, least);
        if thread::lane_id() == 0 {
            next.atomic(1)
                .fetch_min(least, Ordering::Relaxed, Scope::Block);
        }
        thread::sync_threads();
        // Beyond the panel's own columns there is nothing in the map: its words end with the last of them.
        let used = (next.get(1) >> 5, panel_start.get(q + 1).div_ceil(32));
        let mut out = take_bits(
            (long.bits, map),
            used,
            (col_idx, runs.row_ptr.get(i)),
            warp_sums,
        );
        let bit = i as u32 - start;
        let (first, len) = (structures.at.get(q), structures.upper_len.get(q));
        let mut group = 0;
        while group < len {
            let t = group + tid;
            let mut has = false;
            if t < len {
                has = has_bit(structures.mask.get((first + t) as usize), bit);
            }
            let (inclusive, total) = block_inclusive_sum(u64::from(has), warp_sums);
            if has {
                let column = structures.index.get((first + t) as usize);
                col_idx.set((out + inclusive) as usize - 1, column);
            }
            out += total;
            group += threads;
        }
    });
}
