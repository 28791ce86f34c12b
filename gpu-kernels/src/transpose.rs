//! CSR pattern to CSC, and the places of entries in sorted columns.
//!
//! The transpose is: [`count_columns`](fn@count_columns), a prefix sum, [`place_rows`](fn@place_rows) (which leaves the rows of a
//! column in any order), [`sort_rows`](fn@crate::sort::sort_rows) over the columns, and [`map_entries`](fn@map_entries)
//! for the place of each CSR entry.

use luge_kernel::prelude::*;

use crate::search::{for_entries, position_of};

/// Number of entries of each column: `counts[j]` grows by the number of `j` in `col_idx`.
///
/// Threads: one an entry, grid-strided. Writes: atomic adds, in any order. Precondition: `counts` is
/// zero, and every index is below `counts.len()`.
#[kernel(max_threads(1024))]
pub unsafe fn count_columns(col_idx: Global<u32>, counts: GlobalMut<u32>) {
    for p in thread::grid_stride(col_idx.len()) {
        let j = col_idx.get(p) as usize;
        counts
            .atomic(j)
            .reduce_add(1, Ordering::Relaxed, Scope::Device);
    }
}

/// Writes each row number into the columns that the row has entries in.
///
/// Threads: eight entries each, a warp taking consecutive ones. Writes: entry (i, j) goes
/// to the place in column j that `taken[j].fetch_add` gave it, so each place of `row_idx` has one
/// writer; the order within a column is that of arrival. Launch: 1-D, a multiple of 32 threads.
/// Preconditions: `taken` is zero; `col_ptr` holds the offsets of the columns.
#[kernel(
    max_threads(1024),
    require(row_ptr.len() >= 1, col_idx.len() == row_idx.len(), col_ptr.len() == taken.len() + 1)
)]
pub unsafe fn place_rows(
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    col_ptr: Global<u64>,
    taken: GlobalMut<u32>,
    row_idx: GlobalMut<u32>,
) {
    for_entries(row_ptr, col_idx.len() as u64, 8, |i, p| {
        let j = col_idx.get(p as usize) as usize;
        let slot = taken
            .atomic(j)
            .fetch_add(1, Ordering::Relaxed, Scope::Device);
        row_idx.set((col_ptr.get(j) + u64::from(slot)) as usize, i as u32);
    });
}

/// Place of each entry of a CSR pattern in a CSC pattern that has at least those entries:
/// `map[p]` is the position of (i, `col_idx[p]`) in `row_idx`, or `u64::MAX` where it is missing.
///
/// Threads: eight entries each, a warp taking consecutive ones; each searches the sorted column of its entry by
/// halving. Writes: `map[p]` has one writer, the thread of entry p. Launch: 1-D, a multiple of 32
/// threads. Precondition: the rows within each column increase strictly.
#[kernel(max_threads(1024), require(row_ptr.len() >= 1, col_idx.len() == map.len()))]
pub unsafe fn map_entries(
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    col_ptr: Global<u64>,
    row_idx: Global<u32>,
    map: GlobalMut<u64>,
) {
    for_entries(row_ptr, col_idx.len() as u64, 8, |i, p| {
        let j = col_idx.get(p as usize) as usize;
        let at = position_of(row_idx, col_ptr.get(j), col_ptr.get(j + 1), i as u32);
        map.set(p as usize, at);
    });
}

/// Position of the diagonal entry in each sorted lane: `diag_pos[i]` is the place of i in
/// `idx[ptr[i] .. ptr[i+1]]`, or `u64::MAX` where it is missing.
///
/// Threads: one a lane, grid-strided. Writes: `diag_pos[i]` by the thread of lane i.
#[kernel(max_threads(1024), require(ptr.len() == diag_pos.len() + 1))]
pub unsafe fn diagonal_positions(ptr: Global<u64>, idx: Global<u32>, diag_pos: GlobalMut<u64>) {
    for i in thread::grid_stride(diag_pos.len()) {
        let at = position_of(idx, ptr.get(i), ptr.get(i + 1), i as u32);
        diag_pos.set(i, at);
    }
}
