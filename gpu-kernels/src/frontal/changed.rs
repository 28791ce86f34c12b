//! What a factorization of some fronts takes beside the kernels for all: the values that changed, and the extremes of all factors.

use luge_kernel::prelude::*;

use super::plan::{exponent, report};
use super::work::{Seen, times_power_of_two};
use crate::maxima::leave;

/// Some entries of the panels of a front that lie one after the other: first those of whole columns of L with the pivots' block of
/// U, then those of the rest of U.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C, packed(4))]
pub struct PanelPart {
    /// Place of the first.
    pub slot: u64,
    /// Rows of the front.
    pub rows: u32,
    /// The first column, counted within the front.
    pub column: u32,
    /// Number of the entries of columns.
    pub of_columns: u32,
    /// Number of the others.
    pub of_rest: u32,
}

/// Entries that a lane has in hand at once.
const AT_ONCE: u32 = 4;

/// The value at `places[p]` becomes `changed[p]`.
///
/// Threads: a grid-stride loop, a value an iteration. Writes: the value at a place by its thread alone. Shared memory: none.
/// Launch: 1-D, any size. Preconditions: the places are below the length of `values`, each there once.
#[kernel(T = [f64, Complex<f64>], require(changed.len() == places.len()))]
pub unsafe fn put_changed_values<T: Field>(
    places: Global<u32>,
    changed: Global<T>,
    values: GlobalMut<T>,
) {
    for p in thread::grid_stride(places.len()) {
        values.set(places.get(p) as usize, changed.get(p));
    }
}

/// Finds [`MAX_B`](report::MAX_B), [`MAX_U`](report::MAX_U) and [`MAX_L`](report::MAX_L), words of `found`: the largest
/// magnitudes of the first `num_entries` entries of B and in `parts` of the panels of LU, as
/// [`lu_fronts`](fn@super::lu::lu_fronts) reports them of all fronts. Value `source[e]` of A is entry e of B, scaled as `places[e]`
/// says.
///
/// Threads: a warp a part, and a grid-stride loop over entries. Writes: `extremes` by atomic operations; `found`, which may be memory
/// of the host, and `extremes`, which are zero then, by the last block to finish. Shared memory: none. Launch: 1-D, a multiple of 32
/// threads, 256 at most. Preconditions: `extremes` are zero; the parts are within the panels and have an entry each, the sources are
/// below the length of `values`.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(256),
    require(
        source.len() == places.len(),
        num_entries as usize <= source.len(),
        extremes.len() == report::NUM_EXTREMES + 1,
        found.len() == report::NUM_EXTREMES
    )
)]
pub unsafe fn extremes_of_lu<T: Field>(
    parts: Records<PanelPart>,
    factors: Global<T>,
    num_entries: u32,
    source: Global<u32>,
    places: Global<u32>,
    values: Global<T::Wide>,
    extremes: GlobalMut<u64>,
    found: GlobalMut<u64>,
) {
    let mut seen = Seen::<T>::nothing();
    let warps = (thread::num_threads_1d() / warp::WARP_SIZE) as usize;
    let mut p = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while p < parts.len() {
        let part = parts.get(p);
        // What is known not to be zero is divided by without a check.
        let (rows, of_columns) = (part.rows().max(1), part.of_columns());
        let (slot, column) = (part.slot(), part.column());
        let len = of_columns + part.of_rest();
        let mut first = thread::lane_id();
        while first < len {
            // Beyond the end the last one is looked at again.
            let mut at = [0; AT_ONCE as usize];
            let mut entries = [T::ZERO; AT_ONCE as usize];
            for (x, (at, entry)) in at.iter_mut().zip(&mut entries).enumerate() {
                *at = (first + x as u32 * warp::WARP_SIZE).min(len - 1);
                *entry = factors.get((slot + u64::from(*at)) as usize);
            }
            for (&at, &entry) in at.iter().zip(&entries) {
                let is_lower = at < of_columns && at % rows > column + at / rows;
                seen.entry(entry, is_lower);
            }
            first += AT_ONCE * warp::WARP_SIZE;
        }
        p += warps;
    }
    for e in thread::grid_stride(num_entries as usize) {
        let value = values.get(source.get(e) as usize);
        // The conjugate is as large.
        let entry = times_power_of_two(value, exponent(places.get(e)));
        seen.max_b = seen.max_b.max(entry.magnitude());
    }
    raise(extremes, report::MAX_B, seen.max_b);
    raise(extremes, report::MAX_U, seen.max_u.to_f64());
    raise(extremes, report::MAX_L, seen.max_l.to_f64());
    leave(extremes, found);
}

/// Raises an extreme to the largest that the lanes of a warp have.
#[inlined]
fn raise(extremes: GlobalMut<u64>, which: usize, value: f64) {
    let most = warp::fold(warp::WARP_SIZE, value, |most: f64, other| most.max(other));
    if thread::lane_id() == 0 {
        let extreme = extremes.atomic(which);
        extreme.fetch_max(most.to_bits(), Ordering::Relaxed, Scope::Device);
    }
}
