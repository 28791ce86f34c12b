//! Entries right of the diagonal blocks, and the fronts of one pivot and nothing else.

use luge_kernel::prelude::*;

use super::handover::LONG;
use super::layout::{COUPLED_WORDS, SINGLE_WORDS, single};
use super::{Chunk, Sweep};

/// The entries of B right of its diagonal blocks, by rows, or for Bᵀ below them, by columns.
#[derive(Clone, Copy)]
pub(super) struct Couplings<T: Real> {
    pub coupling: Global<T>,
    /// The unknown that entry p is for.
    pub idx: Global<u32>,
    /// Its place in `coupling`.
    pub entries: Global<u32>,
}

impl<T: Real, const R: usize> Sweep<T, R> {
    /// Takes the couplings `begin .. end` times their unknowns off `value`. All lanes of a warp call it, each with its
    /// own range.
    #[inline(always)]
    fn uncouple(
        self,
        couplings: Couplings<T>,
        chunk: Chunk,
        (begin, end): (u32, u32),
        value: &mut [T; R],
    ) {
        let entry = |p: u32| {
            -couplings
                .coupling
                .get(couplings.entries.get(p as usize) as usize)
        };
        let unknown = |p: u32, r: usize| {
            let at = chunk.unknowns + couplings.idx.get(p as usize) as usize * R;
            self.unknowns.get(at + r)
        };
        let is_long = end - begin > LONG;
        if !is_long {
            let mut p = begin;
            while p < end {
                let entry = entry(p);
                let mut r = 0;
                while r < R {
                    value[r] = entry.mul_add(unknown(p, r), value[r]);
                    r += 1;
                }
                p += 1;
            }
        }
        let mut long = warp::ballot(warp::FULL_MASK, is_long);
        while long != 0 {
            let owner = long.trailing_zeros();
            long &= long - 1;
            let begin = warp::shuffle(warp::FULL_MASK, begin, owner);
            let end = warp::shuffle(warp::FULL_MASK, end, owner);
            self.sum_together::<R>((begin, end), owner, value, |p, r| entry(p) * unknown(p, r));
        }
    }

    /// Calls `work(chunk, i)` for `begin <= i < end` and every chunk, i by lane, with 32 of them, some past the end, for
    /// all lanes of a warp.
    #[inline(always)]
    fn for_lanes(self, (begin, end): (u32, u32), mut work: impl FnMut(Chunk, u32)) {
        let lane = thread::lane_id();
        let mut number = 0;
        while number < self.num_chunks() {
            let mut first = begin + thread::index_1d() - lane;
            while first < end {
                work(self.chunk(number), first + lane);
                first += thread::num_threads_1d();
            }
            number += 1;
        }
    }

    /// Takes the couplings off the rows `part` of `list`. All threads of the grid call it.
    #[inline(always)]
    pub(super) fn couple(self, couplings: Couplings<T>, list: Global<u32>, part: (u32, u32)) {
        self.for_lanes(part, |chunk, i| {
            let mut value = [T::ZERO; R];
            let (mut range, mut at) = ((0, 0), 0);
            if i < part.1 {
                let word = |which: usize| list.get(i as usize * COUPLED_WORDS + which);
                range = (word(single::BEGIN), word(single::END));
                at = chunk.unknowns + word(single::PIVOT) as usize * R;
                let mut r = 0;
                while r < R {
                    value[r] = self.entered.get(at + r);
                    r += 1;
                }
            }
            self.uncouple(couplings, chunk, range, &mut value);
            if i < part.1 {
                let mut r = 0;
                while r < R {
                    self.entered.set(at + r, value[r]);
                    r += 1;
                }
            }
        });
    }

    /// The fronts `part` of `list`, which have one pivot and nothing else. All threads of the grid call it.
    #[inline(always)]
    pub(super) fn solve_singles(
        self,
        couplings: Couplings<T>,
        list: Global<u32>,
        part: (u32, u32),
    ) {
        self.for_lanes(part, |chunk, i| {
            let mut value = [T::ZERO; R];
            let (mut range, mut e, mut pivot) = ((0, 0), 0, T::ONE);
            if i < part.1 {
                let word = |which: usize| list.get(i as usize * SINGLE_WORDS + which);
                range = (word(single::BEGIN), word(single::END));
                e = word(single::PIVOT);
                let slot =
                    u64::from(word(single::SLOT_HIGH)) << 32 | u64::from(word(single::SLOT_LOW));
                pivot = self.factors.get(slot as usize);
                let at = chunk.unknowns + e as usize * R;
                let mut r = 0;
                while r < R {
                    value[r] = self.entered.get(at + r);
                    r += 1;
                }
            }
            self.uncouple(couplings, chunk, range, &mut value);
            if i < part.1 {
                let inverse = T::ONE / pivot;
                let mut r = 0;
                while r < R {
                    value[r] *= inverse;
                    r += 1;
                }
                self.finish(chunk, 0, e, value);
            }
        });
    }
}
