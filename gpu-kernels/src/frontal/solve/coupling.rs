//! Entries right of the diagonal blocks, and the fronts of one pivot and nothing else.
//!
//! A row of a supply net may have couplings to all of a circuit. Long rows are cut into segments, each the work of a warp;
//! then every row, the work of a lane, takes off what its couplings or its segments come to.

use luge_kernel::prelude::*;

use super::handover::given;
use super::kinds::Kind;
use super::layout::{CoupledRow, Couplings, Lists, Segment, Single};
use super::{Chunk, Sweep};
use crate::grid::GridBarrier;

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Coupling `p` times its unknown, negative.
    #[inlined]
    fn coupled_term(self, couplings: Couplings<T>, chunk: Chunk, p: u32, r: usize) -> T {
        let entry = couplings
            .coupling
            .get(couplings.entries.get(p as usize) as usize);
        let at = chunk.unknowns + couplings.idx.get(p as usize) as usize * R;
        -entry * given::<T>(self.vectors.unknowns, at + r)
    }

    /// Takes the couplings `begin .. end` times their unknowns off `value`.
    #[inlined]
    fn uncouple(
        self,
        couplings: Couplings<T>,
        chunk: Chunk,
        (begin, end): (u32, u32),
        value: &mut [T; R],
    ) {
        let mut p = begin;
        while p < end {
            let entry = -couplings
                .coupling
                .get(couplings.entries.get(p as usize) as usize);
            let at = chunk.unknowns + couplings.idx.get(p as usize) as usize * R;
            let mut r = 0;
            while r < R {
                value[r] = entry.mul_add(given(self.vectors.unknowns, at + r), value[r]);
                r += 1;
            }
            p += 1;
        }
    }

    /// Where the sum of a segment is.
    #[inlined]
    fn segment(self, chunk: Chunk, number: u32) -> usize {
        let of_chunk = chunk.first as usize * self.num_segments as usize;
        of_chunk + number as usize * R
    }

    /// Calls `work(chunk, i)` for `begin <= i < end` and every chunk, i by lane, with 32 of them, some past the end, for
    /// all lanes of a warp.
    #[inlined]
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

    /// Takes the couplings off the rows of a level. All threads of the grid call it; what it writes is seen by all
    /// afterwards.
    #[inlined]
    pub(super) fn couple(
        self,
        couplings: Couplings<T>,
        lists: Lists,
        number: usize,
        barrier: &mut GridBarrier,
    ) {
        let segments = lists.part(number, |level| level.segments());
        if segments.0 < segments.1 {
            self.sum_segments(couplings, lists.segments, segments);
            barrier.wait();
        }
        let rows = lists.part(number, |level| level.coupled());
        if rows.0 < rows.1 {
            self.couple_rows(couplings, lists.coupled, rows);
            barrier.wait();
        }
    }

    /// The sums of the segments `begin .. end` of `list`, each by a warp.
    #[inlined]
    fn sum_segments(
        self,
        couplings: Couplings<T>,
        list: Records<Segment>,
        (begin, end): (u32, u32),
    ) {
        let lane = thread::lane_id();
        let mut number = 0;
        while number < self.num_chunks() {
            let chunk = self.chunk(number);
            let mut i = begin + thread::index_1d() / warp::WARP_SIZE;
            while i < end {
                let segment = list.get(i as usize);
                let mut sums = [T::ZERO; R];
                self.sum_together::<R>(
                    (segment.begin(), segment.end()),
                    0,
                    &mut sums,
                    |p, r, term| {
                        *term = self.coupled_term(couplings, chunk, p, r);
                        true
                    },
                );
                if lane == 0 {
                    let at = self.segment(chunk, i);
                    let mut r = 0;
                    while r < R {
                        self.vectors.sums.set(at + r, sums[r]);
                        r += 1;
                    }
                }
                i += thread::num_threads_1d() / warp::WARP_SIZE;
            }
            number += 1;
        }
    }

    /// Takes the couplings off the rows `part` of `list`.
    #[inlined]
    fn couple_rows(self, couplings: Couplings<T>, list: Records<CoupledRow>, part: (u32, u32)) {
        self.for_lanes(part, |chunk, i| {
            let mut value = [T::ZERO; R];
            let (mut own, mut segments, mut at) = ((0, 0), (0, 0), 0);
            if i < part.1 {
                let row = list.get(i as usize);
                own = (row.begin(), row.end());
                segments = (row.first_segment(), row.end_of_segments());
                at = chunk.unknowns + row.pivot() as usize * R;
                let mut r = 0;
                while r < R {
                    value[r] = self.vectors.entered.get(at + r);
                    r += 1;
                }
            }
            self.uncouple(couplings, chunk, own, &mut value);
            let mut cut = warp::ballot(warp::FULL_MASK, segments.0 < segments.1);
            while cut != 0 {
                let owner = cut.trailing_zeros();
                cut &= cut - 1;
                let begin = warp::shuffle(warp::FULL_MASK, segments.0, owner);
                let end = warp::shuffle(warp::FULL_MASK, segments.1, owner);
                self.sum_together::<R>((begin, end), owner, &mut value, |p, r, term| {
                    *term = self.vectors.sums.get(self.segment(chunk, p) + r);
                    true
                });
            }
            if i < part.1 {
                let mut r = 0;
                while r < R {
                    self.vectors.entered.set(at + r, value[r]);
                    r += 1;
                }
            }
        });
    }

    /// The fronts `part` of `list`, which have one pivot and nothing else. All threads of the grid call it.
    #[inlined]
    pub(super) fn solve_singles(self, list: Records<Single>, part: (u32, u32)) {
        self.for_lanes(part, |chunk, i| {
            if i >= part.1 {
                return;
            }
            let single = list.get(i as usize);
            let e = single.pivot();
            let inverse = self.kind.inverse_of_single(self.tree, single);
            let mut value = [T::ZERO; R];
            let at = chunk.unknowns + e as usize * R;
            let mut r = 0;
            while r < R {
                value[r] = self.vectors.entered.get(at + r);
                r += 1;
            }
            if let Some(couplings) = self.kind.couplings() {
                let own = (single.begin(), single.end());
                self.uncouple(couplings, chunk, own, &mut value);
            }
            let mut r = 0;
            while r < R {
                value[r] = self.kind.turned(value[r] * inverse);
                r += 1;
            }
            self.finish(chunk, 0, e, value);
        });
    }
}
