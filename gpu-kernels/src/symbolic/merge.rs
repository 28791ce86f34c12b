//! Rows that several devices have found, brought together.
//!
//! Each device has offsets for all rows, in which those of other devices are empty.

use luge_kernel::prelude::*;

/// Adds the offsets of one device's rows to those of others': `sum[i] += ptr[i]`. The sum of all are the offsets of all
/// rows, since each row is one device's.
///
/// Threads: a grid-stride loop. Writes: `sum[i]` by the thread of i. Order: no access conflicts. Shared memory: none.
/// Launch: 1-D, any size. Preconditions: none but the lengths.
#[kernel(max_threads(1024), require(ptr.len() == sum.len()))]
pub unsafe fn add_offsets(ptr: Global<u64>, sum: GlobalMut<u64>) {
    for i in thread::grid_stride(sum.len()) {
        sum.set(i, sum.get(i) + ptr.get(i));
    }
}

/// Copies the rows of one device, `own_idx[own_ptr[i] .. own_ptr[i + 1]]`, to their places from `ptr[i]` on.
///
/// Threads: a warp a row, its lanes over the entries, warps grid-strided. Writes: the entries of row i by its warp. Order: no
/// access conflicts. Shared memory: none. Launch: 1-D, a multiple of 32 threads a block. Preconditions: `own_ptr` ascends
/// from 0 to the length of `own_idx`; the places of the rows are apart and within `idx`.
#[kernel(max_threads(1024), require(own_ptr.len() == ptr.len(), ptr.len() > 0))]
pub unsafe fn place_own_rows(
    own_ptr: Global<u64>,
    own_idx: Global<u32>,
    ptr: Global<u64>,
    idx: GlobalMut<u32>,
) {
    let lane = u64::from(thread::lane_id());
    let warps = (thread::num_threads_1d() / warp::WARP_SIZE) as usize;
    let mut row = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while row + 1 < own_ptr.len() {
        let first = own_ptr.get(row);
        let len = own_ptr.get(row + 1) - first;
        let place = ptr.get(row);
        let mut at = lane;
        while at < len {
            idx.set((place + at) as usize, own_idx.get((first + at) as usize));
            at += u64::from(warp::WARP_SIZE);
        }
        row += warps;
    }
}
