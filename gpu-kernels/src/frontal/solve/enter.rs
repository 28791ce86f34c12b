//! Right-hand sides of A as those of B, and solutions of B as those of A.

use luge_kernel::prelude::*;

use super::handover::{awaited, give};
use super::kinds::Kind;
use super::layout::{CONTROL_WORDS, MAX_NRHS, Places, control};
use super::scaled::{BIAS, biased_exponent, headroom, shifted};
use super::{Chunk, Sweep};
use crate::grid::GridBarrier;

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Right-hand side `rhs` of B is 2 to this power times what is solved with. Once the barrier after the search for
    /// it is passed.
    #[inlined]
    fn exponent(self, rhs: usize) -> i32 {
        let largest = self.vectors.control.get(control::EXPONENTS + rhs) as i32;
        if largest == 0 {
            0
        } else {
            largest - BIAS - headroom::<T>()
        }
    }

    /// Brings right-hand sides into the order of elimination, each near a power of two, and makes the vectors that are
    /// handed over awaited. All threads of the grid call it; what it writes is seen by all afterwards.
    ///
    /// A launch that goes on has nothing to bring in. Its loops are empty then: a branch around all of this would cost the
    /// kernels, which have no register left, half as many spills again.
    #[inlined]
    pub(super) fn enter(
        self,
        places: Places,
        goes_on: bool,
        largest: Shared<u32>,
        barrier: &mut GridBarrier,
    ) {
        let t = thread::thread_idx_x() as usize;
        if t < MAX_NRHS {
            largest.set(t, 0);
        }
        thread::sync_threads();
        for word in thread::grid_stride(CONTROL_WORDS) {
            self.vectors.next_control.set(word, 0);
        }
        let n = self.n();
        // Entries of the right-hand sides from one on, the last one again where there are none: all are under way at once.
        let given = |place: u32, first: usize| {
            let mut given = [T::Wide::ZERO; R];
            let mut r = 0;
            while r < R {
                let rhs = (first + r).min(self.nrhs as usize - 1);
                given[r] = self.vectors.x.get(rhs * n + place as usize);
                r += 1;
            }
            given
        };
        let (entries, carried) = if goes_on {
            (0, 0)
        } else {
            (n, self.tree.carry_to.len())
        };
        let mut first = 0;
        while first < self.nrhs as usize {
            let mut most = [0; R];
            for e in thread::grid_stride(entries) {
                let exponent_of_row = places.exponents.get(e);
                let given = given(places.places.get(e), first);
                let mut r = 0;
                while r < R {
                    let of_entry = biased_exponent(given[r].largest_component());
                    let exponent = of_entry + exponent_of_row;
                    if of_entry != 0 && exponent > most[r] {
                        most[r] = exponent;
                    }
                    r += 1;
                }
            }
            let mut r = 0;
            while r < R {
                let most = warp::reduce_max(warp::FULL_MASK, most[r] as u32);
                if thread::lane_id() == 0 && most != 0 {
                    let rhs = (first + r).min(self.nrhs as usize - 1);
                    let largest = largest.atomic(rhs);
                    largest.fetch_max(most, Ordering::Relaxed, Scope::Block);
                }
                r += 1;
            }
            first += R;
        }
        let num_chunks = self.num_chunks() as usize;
        for i in thread::grid_stride(num_chunks * entries * R * T::COMPONENTS) {
            self.vectors.eliminated.set(i, awaited::<T>());
            self.vectors.unknowns.set(i, awaited::<T>());
        }
        for i in thread::grid_stride(num_chunks * carried * R * T::COMPONENTS) {
            self.vectors.carried.set(i, awaited::<T>());
        }
        thread::sync_threads();
        if t < self.nrhs as usize && largest.get(t) != 0 {
            let of_grid = self.vectors.control.atomic(control::EXPONENTS + t);
            of_grid.fetch_max(largest.get(t), Ordering::Relaxed, Scope::Device);
        }
        barrier.wait();
        let mut number = 0;
        while number < self.num_chunks() {
            let chunk = self.chunk(number);
            for e in thread::grid_stride(entries) {
                let exponent_of_row = places.exponents.get(e);
                let given = given(places.places.get(e), chunk.first as usize);
                let mut r = 0;
                while r < R {
                    let rhs = chunk.first as usize + r;
                    let value = if rhs < self.nrhs as usize {
                        let exponent = exponent_of_row - self.exponent(rhs);
                        T::narrow(self.kind.given(shifted(given[r], exponent)))
                    } else {
                        T::ZERO
                    };
                    self.vectors.entered.set(chunk.unknowns + e * R + r, value);
                    r += 1;
                }
            }
            number += 1;
        }
        barrier.wait();
    }

    /// Writes unknown `e` of `N` right-hand sides of a chunk from `rhs` on: for the fronts below, and of A.
    #[inlined]
    pub(super) fn finish<const N: usize>(self, chunk: Chunk, rhs: u32, e: u32, value: [T; N]) {
        self.hand_down((chunk, rhs), e, value);
        self.leave_solution((chunk, rhs), e, value);
    }

    /// As [`finish`](Self::finish), for the fronts below alone.
    #[inlined]
    pub(super) fn hand_down<const N: usize>(
        self,
        (chunk, rhs): (Chunk, u32),
        e: u32,
        value: [T; N],
    ) {
        let at = chunk.unknowns + e as usize * R + rhs as usize;
        give(self.vectors.unknowns, at, value);
    }

    /// As [`finish`](Self::finish), of A alone.
    #[inlined]
    pub(super) fn leave_solution<const N: usize>(
        self,
        (chunk, rhs): (Chunk, u32),
        e: u32,
        value: [T; N],
    ) {
        let to = self.leave.places.get(e as usize) as usize;
        let exponent = self.leave.exponents.get(e as usize);
        let first = (chunk.first + rhs) as usize;
        let mut r = 0;
        while r < N {
            if first + r < self.nrhs as usize {
                let exponent = exponent + self.exponent(first + r);
                let value = shifted(self.kind.found(value[r]).widen(), exponent);
                self.vectors.x.set((first + r) * self.n() + to, value);
            }
            r += 1;
        }
    }
}
