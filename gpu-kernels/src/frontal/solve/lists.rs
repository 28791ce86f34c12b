//! The lists of a solve, and who does what of them.

use luge_kernel::prelude::*;
use luge_kernel::record::InGlobal;

use super::layout::{LargeTask, LevelIn, Lists};
use super::{Chunk, Front, Sweep};

impl Lists {
    /// The part of a list for `level`; `end` is its end.
    #[inlined]
    pub(super) fn part(self, level: usize, end: impl Fn(LevelIn<InGlobal>) -> u32) -> (u32, u32) {
        let begin = if level == 0 {
            0
        } else {
            end(self.levels.get(level - 1))
        };
        (begin, end(self.levels.get(level)))
    }
}

/// The tasks of one worker: every one of a list for every chunk, chunks fastest. Chunks are counted up to the next power
/// of two: without a division, at the price of some that there are not.
#[derive(Clone, Copy)]
struct Turns {
    begin: u32,
    count: u32,
    shift: u32,
    num_chunks: u32,
    workers: u32,
}

impl Turns {
    #[inlined]
    fn new((begin, end): (u32, u32), num_chunks: u32, workers: u32) -> Self {
        let shift = u32::BITS - (num_chunks - 1).leading_zeros();
        Self {
            begin,
            count: (end - begin) << shift,
            shift,
            num_chunks,
            workers,
        }
    }

    #[inlined]
    fn chunk(self, index: u32) -> u32 {
        index & ((1 << self.shift) - 1)
    }

    /// The first turn from `index` on that there is, or one past all.
    #[inlined]
    fn from(self, index: u32) -> u32 {
        let mut index = index;
        while index < self.count && self.chunk(index) >= self.num_chunks {
            index += self.workers;
        }
        index
    }

    #[inlined]
    fn after(self, index: u32) -> u32 {
        self.from(index + self.workers)
    }

    /// Place of a turn's task in the list.
    #[inlined]
    fn task(self, index: u32) -> usize {
        (self.begin + (index >> self.shift)) as usize
    }
}

impl<T: Real, const R: usize, const AHEAD: usize, const BELOW: usize> Sweep<T, R, AHEAD, BELOW> {
    /// Calls `work` for each chunk and each task of the part of a list that worker `worker` of `workers` has;
    /// `front_of` is the front of a task. Numbers of fronts are read two tasks ahead, fronts one.
    #[inlined]
    fn for_tasks(
        self,
        front_of: impl Fn(usize) -> u32,
        part: (u32, u32),
        (worker, workers): (u32, u32),
        mut work: impl FnMut(Chunk, Front, usize),
    ) {
        let turns = Turns::new(part, self.num_chunks(), workers);
        let mut at = turns.from(worker);
        if at >= turns.count {
            return;
        }
        let number = |at: u32| front_of(turns.task(at));
        let mut front = self.front(number(at));
        let mut next = turns.after(at);
        let mut next_number = 0;
        if next < turns.count {
            next_number = number(next);
        }
        while at < turns.count {
            let mut next_front = front;
            let mut after = next;
            let mut number_after = 0;
            if next < turns.count {
                next_front = self.front(next_number);
                after = turns.after(next);
                if after < turns.count {
                    number_after = number(after);
                }
            }
            work(self.chunk(turns.chunk(at)), front, turns.task(at));
            (at, front) = (next, next_front);
            (next, next_number) = (after, number_after);
        }
    }

    /// Calls `work(chunk, front)` for the small fronts of a warp.
    #[inlined]
    pub(super) fn for_small(
        self,
        list: Global<u32>,
        part: (u32, u32),
        worker: (u32, u32),
        mut work: impl FnMut(Chunk, Front),
    ) {
        let front_of = |task: usize| list.get(task);
        self.for_tasks(front_of, part, worker, |chunk, front, _| {
            work(chunk, front);
        });
    }

    /// Calls `work(chunk, front, tile)` for the fronts and tiles of a block.
    #[inlined]
    pub(super) fn for_large(
        self,
        list: Records<LargeTask>,
        part: (u32, u32),
        worker: (u32, u32),
        mut work: impl FnMut(Chunk, Front, u32),
    ) {
        let front_of = |task: usize| list.get(task).front();
        self.for_tasks(front_of, part, worker, |chunk, front, task| {
            work(chunk, front, list.get(task).tile());
        });
    }
}
