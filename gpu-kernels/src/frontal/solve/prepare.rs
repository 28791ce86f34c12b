//! What a factorization leaves for solves beside the panels.

use luge_kernel::prelude::*;

use super::layout::FrontRecord;
use super::scaled::shifted;

/// The entries of B right of its diagonal blocks: `coupling[p]` is value `entries[p]` of A times 2^`exponents[p]`.
///
/// Threads: a grid-stride loop, an entry an iteration. Writes: `coupling[p]` by its thread alone. Shared memory: none.
/// Launch: 1-D, any size. Preconditions: `entries` are below the length of `a`.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    require(exponents.len() == entries.len(), coupling.len() == entries.len())
)]
pub unsafe fn coupling_values<T: Field>(
    entries: Global<u32>,
    exponents: Global<i32>,
    a: Global<T::Wide>,
    coupling: GlobalMut<T>,
) {
    for p in thread::grid_stride(entries.len()) {
        let value = a.get(entries.get(p) as usize);
        coupling.set(p, T::narrow(shifted(value, exponents.get(p))));
    }
}

/// The exchanges of rows of each front as one permutation: row i of the pivots' block after all of them is row
/// `order[start + i]` of the front before.
///
/// Threads: a warp a front, in a grid stride; its first lane makes the exchanges, one after the other. Writes: the
/// part of `order` for the pivots of a front by its warp alone. Order: barriers of the warp. Shared memory: none.
/// Launch: 1-D, a multiple of 32 threads. Preconditions: `fronts` describes fronts (see [`layout`](super::layout))
/// with the pivots of `pivot_rows`, which is as a factorization leaves it.
#[kernel(require(order.len() == pivot_rows.len()))]
pub unsafe fn compose_exchanges(
    fronts: Records<FrontRecord>,
    pivot_rows: Global<u32>,
    order: GlobalMut<u32>,
) {
    let lane = thread::lane_id();
    let warps = thread::num_threads_1d() / warp::WARP_SIZE;
    let num_fronts = fronts.len();
    let mut s = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while s < num_fronts {
        let (start, k) = (fronts.get(s).start(), fronts.get(s).pivots());
        let mut i = lane;
        while i < k {
            order.set((start + i) as usize, i);
            i += warp::WARP_SIZE;
        }
        warp::sync_warp(warp::FULL_MASK);
        let mut first = 0;
        while first < k {
            let p = first + lane;
            let row = if p < k {
                pivot_rows.get((start + p) as usize)
            } else {
                p
            };
            let mut exchanged = warp::ballot(warp::FULL_MASK, row != p);
            while exchanged != 0 {
                let which = exchanged.trailing_zeros();
                exchanged &= exchanged - 1;
                let row = warp::shuffle(warp::FULL_MASK, row, which);
                if lane == 0 {
                    let (one, other) = ((start + first + which) as usize, (start + row) as usize);
                    let kept = order.get(one);
                    order.set(one, order.get(other));
                    order.set(other, kept);
                }
            }
            first += warp::WARP_SIZE;
        }
        s += warps as usize;
    }
}

/// For each front the row of the front before that is each row of the pivots' block, `order`, from where each row has gone:
/// `order[start + row_places[start + i]]` is i.
///
/// Threads: a warp a front, in a grid stride; a lane has every 32nd row. Writes: the part of `order` for the pivots of a
/// front by its warp alone, each entry once. Shared memory: none. Launch: 1-D, a multiple of 32 threads. Preconditions:
/// `fronts` describes fronts (see [`layout`](super::layout)) with these pivots; the places of a front are a permutation.
#[kernel(require(order.len() == row_places.len()))]
pub unsafe fn invert_places(
    fronts: Records<FrontRecord>,
    row_places: Global<u32>,
    order: GlobalMut<u32>,
) {
    let warps = thread::num_threads_1d() / warp::WARP_SIZE;
    let num_fronts = fronts.len();
    let mut s = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while s < num_fronts {
        let (start, k) = (fronts.get(s).start(), fronts.get(s).pivots());
        let mut i = thread::lane_id();
        while i < k {
            let place = row_places.get((start + i) as usize);
            order.set((start + place) as usize, i);
            i += warp::WARP_SIZE;
        }
        s += warps as usize;
    }
}
