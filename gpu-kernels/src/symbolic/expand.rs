//! From panels to the rows of L+U.
//!
//! Row i of L is a list of *runs*: for each panel below with i in its lower structure, the word of i
//! there. Row i of U is what the panel of i has. So the runs of all panels are transposed, a run a unit, and each
//! row is written out word by word, in order; nothing that is as large as L+U is sorted.

use luge_kernel::prelude::*;

/// Where the lower structure of panel q lies, and its length.
#[inline(always)]
fn lower_of(
    symmetric: u32,
    at: Global<u32>,
    upper_len: Global<u32>,
    lower_len: Global<u32>,
    q: usize,
) -> (u32, u32) {
    let (first, upper) = (at.get(q), upper_len.get(q));
    if symmetric != 0 {
        (first, upper)
    } else {
        (first + upper, lower_len.get(q))
    }
}

/// Entries of each row of L+U and runs of each row of L. `symmetric` as in
/// [`eliminate_panels`](fn@super::panels::eliminate_panels).
///
/// Threads: a warp a panel, grid-strided; its lanes over the entries of the structures, then over the
/// rows. Writes: atomic adds to `row_len` and `num_runs`, in any order. Launch: 1-D, a multiple of 32
/// threads. Preconditions: the structures are those of
/// [`eliminate_panels`](fn@super::panels::eliminate_panels); `row_len` and `num_runs` are zero.
#[kernel(
    max_threads(1024),
    require(
        panel_start.len() == at.len() + 1,
        upper_len.len() == at.len(),
        symmetric != 0 || lower_len.len() == at.len(),
        diagonal.len() == row_len.len(),
        num_runs.len() == row_len.len(),
        mask.len() == index.len()
    )
)]
pub unsafe fn count_entries(
    symmetric: u32,
    panel_start: Global<u32>,
    index: Global<u32>,
    mask: Global<u32>,
    at: Global<u32>,
    upper_len: Global<u32>,
    lower_len: Global<u32>,
    diagonal: Global<u32>,
    row_len: GlobalMut<u32>,
    num_runs: GlobalMut<u32>,
) {
    let lane = thread::lane_id();
    let warps = (thread::num_threads_1d() / warp::WARP_SIZE) as usize;
    let mut q = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while q < at.len() {
        let start = panel_start.get(q);
        let width = panel_start.get(q + 1) - start;
        let (first, len) = lower_of(symmetric, at, upper_len, lower_len, q);
        let mut t = lane;
        while t < len {
            let x = index.get((first + t) as usize) as usize;
            let entries = mask.get((first + t) as usize).count_ones();
            row_len
                .atomic(x)
                .reduce_add(entries, Ordering::Relaxed, Scope::Device);
            num_runs
                .atomic(x)
                .reduce_add(1, Ordering::Relaxed, Scope::Device);
            t += warp::WARP_SIZE;
        }
        let (first, len) = (at.get(q), upper_len.get(q));
        let mut entries = 0;
        let mut group = 0;
        while group < len {
            let mut word = 0;
            if group + lane < len {
                word = mask.get((first + group + lane) as usize);
            }
            let mut k = 0;
            while k < width {
                let those = warp::ballot(warp::FULL_MASK, (word >> k) & 1 != 0);
                if lane == k {
                    entries += those.count_ones();
                }
                k += 1;
            }
            group += warp::WARP_SIZE;
        }
        if lane < width {
            let row = (start + lane) as usize;
            entries += diagonal.get(row).count_ones();
            row_len
                .atomic(row)
                .reduce_add(entries, Ordering::Relaxed, Scope::Device);
        }
        q += warps;
    }
}

/// Lists the runs of each row of L in `runs[run_ptr[i] ..]`, in any order: the first pivot of the panel in
/// the upper half, the word of the row in the lower.
///
/// Threads: a warp a panel, grid-strided. Writes: a place of `runs` by the thread that an atomic
/// counter gave it to. Launch: 1-D, a multiple of 32 threads. Preconditions: as
/// [`count_entries`](fn@count_entries); `run_ptr` is the prefix sum of its `num_runs`; `taken` is zero.
#[kernel(
    max_threads(1024),
    require(
        panel_start.len() == at.len() + 1,
        upper_len.len() == at.len(),
        symmetric != 0 || lower_len.len() == at.len(),
        run_ptr.len() == taken.len() + 1,
        mask.len() == index.len()
    )
)]
pub unsafe fn place_runs(
    symmetric: u32,
    panel_start: Global<u32>,
    index: Global<u32>,
    mask: Global<u32>,
    at: Global<u32>,
    upper_len: Global<u32>,
    lower_len: Global<u32>,
    run_ptr: Global<u64>,
    taken: GlobalMut<u32>,
    runs: GlobalMut<u64>,
) {
    let warps = (thread::num_threads_1d() / warp::WARP_SIZE) as usize;
    let mut q = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while q < at.len() {
        let start = u64::from(panel_start.get(q));
        let (first, len) = lower_of(symmetric, at, upper_len, lower_len, q);
        let mut t = thread::lane_id();
        while t < len {
            let x = index.get((first + t) as usize) as usize;
            let word = u64::from(mask.get((first + t) as usize));
            let place = taken
                .atomic(x)
                .fetch_add(1, Ordering::Relaxed, Scope::Device);
            let place = run_ptr.get(x) + u64::from(place);
            runs.set(place as usize, start << 32 | word);
            t += warp::WARP_SIZE;
        }
        q += warps;
    }
}

/// Writes the columns `first + b` for the bits b of `word` to `col_idx[at ..]`; how many. Called by a whole
/// warp with the same arguments.
#[inline(always)]
fn write_bits(col_idx: GlobalMut<u32>, at: u64, first: u32, word: u32) -> u64 {
    let lane = thread::lane_id();
    if (word >> lane) & 1 != 0 {
        let before = (word & !(u32::MAX << lane)).count_ones();
        col_idx.set((at + u64::from(before)) as usize, first + lane);
    }
    u64::from(word.count_ones())
}

/// Writes the rows of L+U, sorted.
///
/// Threads: a warp a row, grid-strided; its lanes over the columns of a word, and over the entries of the
/// upper structure. Writes: `col_idx[row_ptr[i] .. row_ptr[i+1]]` by the warp of row i, each entry by one
/// lane. Launch: 1-D, a multiple of 32 threads. Preconditions: `runs` holds
/// [`place_runs`](fn@place_runs)', each row sorted; `row_ptr` is the prefix sum of
/// [`count_entries`](fn@count_entries)' `row_len`.
#[kernel(
    max_threads(1024),
    require(
        panel_start.len() == at.len() + 1,
        upper_len.len() == at.len(),
        diagonal.len() == panel_of.len(),
        run_ptr.len() == panel_of.len() + 1,
        row_ptr.len() == panel_of.len() + 1,
        mask.len() == index.len()
    )
)]
pub unsafe fn expand_rows(
    panel_start: Global<u32>,
    panel_of: Global<u32>,
    index: Global<u32>,
    mask: Global<u32>,
    at: Global<u32>,
    upper_len: Global<u32>,
    diagonal: Global<u32>,
    run_ptr: Global<u64>,
    runs: Global<u64>,
    row_ptr: Global<u64>,
    col_idx: GlobalMut<u32>,
) {
    let lane = thread::lane_id();
    let warps = (thread::num_threads_1d() / warp::WARP_SIZE) as usize;
    let mut i = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while i < panel_of.len() {
        let mut out = row_ptr.get(i);
        let end = run_ptr.get(i + 1);
        let mut r = run_ptr.get(i);
        while r < end {
            // 32 runs are read at once and written one after another.
            let mut run = 0;
            if r + u64::from(lane) < end {
                run = runs.get((r + u64::from(lane)) as usize);
            }
            let left = end - r;
            let batch = if left < u64::from(warp::WARP_SIZE) {
                left as u32
            } else {
                warp::WARP_SIZE
            };
            let mut j = 0;
            while j < batch {
                let run = warp::shuffle(warp::FULL_MASK, run, j);
                out += write_bits(col_idx, out, (run >> 32) as u32, run as u32);
                j += 1;
            }
            r += u64::from(warp::WARP_SIZE);
        }

        let q = panel_of.get(i) as usize;
        let start = panel_start.get(q);
        out += write_bits(col_idx, out, start, diagonal.get(i));

        let bit = i as u32 - start;
        let (first, len) = (at.get(q), upper_len.get(q));
        let mut group = 0;
        while group < len {
            let t = group + lane;
            let mut has = false;
            if t < len {
                has = (mask.get((first + t) as usize) >> bit) & 1 != 0;
            }
            let those = warp::ballot(warp::FULL_MASK, has);
            if has {
                let before = (those & !(u32::MAX << lane)).count_ones();
                let column = index.get((first + t) as usize);
                col_idx.set((out + u64::from(before)) as usize, column);
            }
            out += u64::from(those.count_ones());
            group += warp::WARP_SIZE;
        }
        i += warps;
    }
}
