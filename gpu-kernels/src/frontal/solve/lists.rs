//! The lists of a solve, and who does what of them.

use luge_kernel::prelude::*;
use luge_kernel::record::InGlobal;

use super::kinds::Kind;
use super::layout::{LargeTask, LevelIn, Lists, MOST_SHARES, PACK, PAIR};
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

/// The tasks of one worker: every one of a list for every chunk, or several together, chunks fastest. Chunks are counted up to the next power
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

/// The tasks of one worker that are left. Numbers of fronts are read two tasks ahead, fronts one.
#[derive(Clone, Copy)]
pub(super) struct Tasks {
    turns: Turns,
    /// Chunks of one turn.
    together: u32,
    at: u32,
    front: Front,
    next: u32,
    next_number: u32,
}

impl Tasks {
    /// Whether one is left.
    #[inlined]
    pub fn is_left(self) -> bool {
        self.at < self.turns.count
    }

    /// The next one, which there is: the first of its chunks, its front, and its place in the list. `front_of` as for
    /// [`Sweep::tasks`].
    #[inlined]
    pub fn take<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>(
        &mut self,
        sweep: Sweep<T, K, R, AHEAD, BELOW>,
        front_of: impl Fn(usize) -> u32,
    ) -> (Chunk, Front, usize) {
        let Self {
            turns,
            together,
            at,
            front,
            next,
            next_number,
        } = *self;
        let mut next_front = front;
        let mut after = next;
        let mut number_after = 0;
        if next < turns.count {
            next_front = sweep.front(next_number);
            after = turns.after(next);
            if after < turns.count {
                number_after = front_of(turns.task(after));
            }
        }
        (self.at, self.front) = (next, next_front);
        (self.next, self.next_number) = (after, number_after);
        (
            sweep.chunk(turns.chunk(at) * together),
            front,
            turns.task(at),
        )
    }
}

/// Where the words of shared memory are in which a block keeps what it knows of a level while it takes tasks: registers would be
/// spilled for it.
mod taking {
    /// The task that is taken.
    pub const INDEX: usize = 0;
    /// First task of the level.
    pub const BEGIN: usize = 1;
    /// Number of its turns.
    pub const COUNT: usize = 2;
    /// How many had been counted before it.
    pub const BEFORE: usize = 3;
}

/// How blocks share the part of a list for a level: whoever is free takes the next task, so that one with a long task keeps nobody
/// waiting for those that would have been its own. As each task is taken behind all that it waits for, waiting ends.
impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Chunks of one turn, and the turns of each of so many workers in a part of a list.
    #[inlined]
    fn turns(self, part: (u32, u32), workers: u32) -> (u32, Turns) {
        let together = if R > 1 { PAIR as u32 } else { 1 };
        let num_chunks = self.num_chunks().div_ceil(together);
        (together, Turns::new(part, num_chunks, workers))
    }

    /// Begins with the part of a list for level number `level`. All threads of the grid call it, behind a barrier of the grid; they
    /// use `words` for nothing else until they are through.
    #[inlined]
    pub(super) fn begin_taking(self, part: (u32, u32), level: usize, words: Shared<u32>) {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            let (_, turns) = self.turns(part, 1);
            // Each level counts its turns, and for each block one that there is not.
            let of_blocks = (level as u32).wrapping_mul(thread::grid_dim_x());
            words.set(taking::BEGIN, turns.begin);
            words.set(taking::COUNT, turns.count);
            let before = turns.begin << turns.shift;
            words.set(taking::BEFORE, before.wrapping_add(of_blocks));
        }
    }

    /// The next task that nobody took: the first of its chunks, its front, and the strip or share (see [`LargeTask`]); none if there is
    /// none. `word` of the control counts. All threads of a block call it until there is none.
    #[inlined]
    pub(super) fn take_free(
        self,
        list: Records<LargeTask>,
        word: usize,
        words: Shared<u32>,
    ) -> Option<(Chunk, Front, u32)> {
        let (together, turns) = self.turns((0, 0), 1);
        loop {
            // What was taken before has been read. Nothing is taken ahead: a task of somebody who waits may be one that others wait
            // for.
            thread::sync_threads();
            if thread::thread_idx_x() == 0 {
                let counted = self.vectors.control.atomic(word);
                let counted = counted.fetch_add(1, Ordering::Relaxed, Scope::Device);
                let index = counted.wrapping_sub(words.get(taking::BEFORE));
                words.set(taking::INDEX, index);
            }
            thread::sync_threads();
            let index = words.get(taking::INDEX);
            if index >= words.get(taking::COUNT) {
                return None;
            }
            // Turns that there are not are left.
            let turn = turns.chunk(index);
            if turn < turns.num_chunks {
                let task = words.get(taking::BEGIN) + (index >> turns.shift);
                let task = list.get(task as usize);
                let chunk = self.chunk(turn * together);
                return Some((chunk, self.front(task.front()), task.strip()));
            }
        }
    }

    /// The tasks of the part of a list that worker `worker` of `workers` has, each for all chunks, [`PAIR`] of several
    /// together; `front_of` is the front of a task.
    #[inlined]
    fn tasks(
        self,
        front_of: impl Fn(usize) -> u32,
        part: (u32, u32),
        (worker, workers): (u32, u32),
    ) -> Tasks {
        let (together, turns) = self.turns(part, workers);
        let at = turns.from(worker);
        let mut tasks = Tasks {
            turns,
            together,
            at,
            front: Front::default(),
            next: at,
            next_number: 0,
        };
        if at < turns.count {
            tasks.front = self.front(front_of(turns.task(at)));
            tasks.next = turns.after(at);
            if tasks.next < turns.count {
                tasks.next_number = front_of(turns.task(tasks.next));
            }
        }
        tasks
    }

    /// The front of a task of a warp, or that of this lane's quarter.
    #[inlined]
    fn small_front(self, list: Global<u32>, task: usize) -> u32 {
        if R > 1 {
            list.get(task) / MOST_SHARES
        } else {
            let quarter = thread::lane_id() / (warp::WARP_SIZE / PACK as u32);
            list.get(task * PACK + quarter as usize)
        }
    }

    /// The small fronts of a warp, each lane with its own, or the shares of them.
    #[inlined]
    pub(super) fn small_tasks(
        self,
        list: Global<u32>,
        part: (u32, u32),
        worker: (u32, u32),
    ) -> Tasks {
        self.tasks(|task| self.small_front(list, task), part, worker)
    }

    /// The next of them: the first of its chunks, its front, and the share.
    #[inlined]
    pub(super) fn take_small(self, tasks: &mut Tasks, list: Global<u32>) -> (Chunk, Front, u32) {
        let (chunk, front, task) = tasks.take(self, |task| self.small_front(list, task));
        let share = if R > 1 {
            list.get(task) % MOST_SHARES
        } else {
            0
        };
        (chunk, front, share)
    }

    /// The fronts and strips of a block, if blocks have shares of them.
    #[inlined]
    pub(super) fn large_tasks(
        self,
        list: Records<LargeTask>,
        part: (u32, u32),
        worker: (u32, u32),
    ) -> Tasks {
        self.tasks(|task| list.get(task).front(), part, worker)
    }

    /// The next of them: the first of its chunks, its front, and the strip or share: see [`LargeTask`].
    #[inlined]
    pub(super) fn take_large(
        self,
        tasks: &mut Tasks,
        list: Records<LargeTask>,
    ) -> (Chunk, Front, u32) {
        let (chunk, front, task) = tasks.take(self, |task| list.get(task).front());
        (chunk, front, list.get(task).strip())
    }
}
