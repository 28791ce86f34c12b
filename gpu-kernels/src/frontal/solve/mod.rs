//! Solves with the factors of fronts, for a matrix given and solutions wanted in the caller's order.
//!
//! B = P·Dr·A·Dc·Q is block upper triangular, and the fronts of its diagonal blocks are one forest. A launch does all of
//! a solve:
//!
//! ```text
//! enter     right-hand sides of A, permuted and scaled, each near a power of two that suits the type of the factors
//! level     of diagonal blocks, from the last to the first (for Bᵀ from the first to the last):
//!   couple  minus the entries right of the diagonal blocks times what is found
//!   up      from the leaves of the forest to its roots with L (Uᵀ)
//!   down    from its roots to its leaves with U (Lᵀ), and each solution of A as soon as it is found
//! ```
//!
//! Upwards a front adds up what its children have for its rows, solves with the triangle of its pivots, and sends what
//! that means for the rows below to the places where the parent adds up. Downwards it takes the unknowns of the rows
//! below, which its ancestors have found, and solves with the other triangle.
//!
//! B = L·U with the rows of each front's pivots exchanged: upwards those of the right-hand side are, for Bᵀ downwards
//! those of the solution, backwards.
//!
//! Who works on what is planned by the host (see `luge_frontal::gpu`). Small fronts are for warps: the bottom of the
//! forest in subtrees that a warp walks without asking anybody, each front above as a task of its own. A larger one is
//! for blocks, in tiles of 32 rows, one block for all or for each tile. Tasks stand in lists, in an order in which none
//! waits for a later one; worker i of n does the tasks i, i + n, … of its list, so waiting ends whatever n is. Flags in
//! global memory tell of what is done.
//!
//! Every number is one chain of operations in an order that depends on the fronts and the number of right-hand sides
//! alone, so its bits do not depend on the grid or the schedule.

mod coupling;
pub mod layout;
pub mod prepare;
mod scaled;
mod small;
mod tiles;

use luge_kernel::prelude::*;

use self::layout::{
    CONTROL_WORDS, FRONT_WORDS, LEVEL_WORDS, MANY, MAX_NRHS, NO_FLAG, TASK_WORDS, THREADS, TILE,
    control, front, level, task,
};
use self::scaled::{BIAS, biased_exponent, headroom, shifted};
use crate::grid::GridBarrier;

/// Contributions of children to one row from which on a warp adds them up together.
const LONG: u32 = 32;

/// Warps of a block.
const WARPS: u32 = THREADS / warp::WARP_SIZE;

/// A front: its pivots, and where its panels lie.
///
/// Entry (i, j) of a triangle of the pivots' block is at `i · along_row + j · along_col` of the slot. The panel of the
/// rows below is used by columns, one a pivot: upwards from `up` on with `up_stride` from column to column, downwards
/// likewise.
#[derive(Clone, Copy)]
struct Front {
    start: u32,
    k: u32,
    c: u32,
    /// Where its rows below begin among those of all fronts.
    rows: u32,
    slot: u64,
    /// Its first flag, if it has any.
    flags: u32,
    along_row: u32,
    along_col: u32,
    up: u32,
    up_stride: u32,
    down: u32,
    down_stride: u32,
}

impl Front {
    /// Place of (i, j) of the pivots' block.
    #[inline(always)]
    fn pivot(self, i: u32, j: u32) -> u32 {
        i * self.along_row + j * self.along_col
    }
}

/// The part of the vectors and flags that belongs to some right-hand sides, [`Sweep`]'s `R` of them.
#[derive(Clone, Copy)]
struct Chunk {
    /// First right-hand side.
    first: u32,
    /// Where its unknowns begin.
    unknowns: usize,
    /// Where its contributions begin.
    carried: usize,
    /// Where its flags begin in the control.
    flags: usize,
}

/// All that a solve for `R` right-hand sides at a time needs. The values of one unknown for them lie side by side.
#[derive(Clone, Copy)]
struct Sweep<T: Real, const R: usize> {
    transpose: bool,
    nrhs: u32,
    /// Flags of a chunk.
    num_flags: u32,
    fronts: Global<u32>,
    gather_ptr: Global<u32>,
    carry_to: Global<u32>,
    row_idx: Global<u32>,
    order: Global<u32>,
    factors: Global<T>,
    leave: Global<u32>,
    leave_exponents: Global<i32>,
    /// Right-hand sides and solutions of A.
    x: GlobalMut<f64>,
    /// Right-hand sides of B, then its solutions, in the order of elimination before rows are exchanged.
    unknowns: GlobalMut<T>,
    /// What the first triangle leaves of them.
    eliminated: GlobalMut<T>,
    /// Contributions of fronts to rows of their parents, those to one row side by side.
    carried: GlobalMut<T>,
    control: GlobalMut<u32>,
    /// Sums of the warps of a block, a tile each.
    sums: Shared<T>,
}

impl<T: Real, const R: usize> Sweep<T, R> {
    /// Order of the matrix.
    #[inline(always)]
    fn n(self) -> usize {
        self.order.len()
    }

    #[inline(always)]
    fn num_chunks(self) -> u32 {
        (self.nrhs + R as u32 - 1) / R as u32
    }

    #[inline(always)]
    fn chunk(self, number: u32) -> Chunk {
        let number_wide = number as usize;
        Chunk {
            first: number * R as u32,
            unknowns: number_wide * self.n() * R,
            carried: number_wide * self.carry_to.len() * R,
            flags: CONTROL_WORDS + number_wide * self.num_flags as usize,
        }
    }

    #[inline(always)]
    fn front(self, s: u32) -> Front {
        let word = |which: usize| self.fronts.get(s as usize * FRONT_WORDS + which);
        let (k, c) = (word(front::PIVOTS), word(front::BELOW));
        let m = k + c;
        let (lower, upper) = ((k, m), (k * m, c));
        let (up, down) = if self.transpose {
            (upper, lower)
        } else {
            (lower, upper)
        };
        Front {
            start: word(front::START),
            k,
            c,
            rows: word(front::ROWS),
            slot: u64::from(word(front::SLOT_HIGH)) << 32 | u64::from(word(front::SLOT_LOW)),
            flags: word(front::FLAGS),
            along_row: if self.transpose { m } else { 1 },
            along_col: if self.transpose { 1 } else { m },
            up: up.0,
            up_stride: up.1,
            down: down.0,
            down_stride: down.1,
        }
    }

    #[inline(always)]
    fn factor(self, front: Front, place: u32) -> T {
        self.factors.get((front.slot + u64::from(place)) as usize)
    }

    /// Place of the unknown `row` of a front's pivots, counted within it, before rows are exchanged.
    #[inline(always)]
    fn unexchanged(self, front: Front, row: u32) -> u32 {
        front.start + self.order.get((front.start + row) as usize)
    }

    /// Adds what children carried to row `row` of a front to `value`, for `N` right-hand sides from `rhs` on; nothing
    /// if not `wanted`. All lanes of a warp call it.
    #[inline(always)]
    fn gather<const N: usize>(
        self,
        chunk: Chunk,
        rhs: u32,
        front: Front,
        row: u32,
        wanted: bool,
        value: &mut [T; N],
    ) {
        let (mut begin, mut end) = (0, 0);
        if wanted {
            // Fronts and their rows are numbered alike, so a front's first row is number start + rows.
            let at = (front.start + front.rows) as usize + row as usize;
            begin = self.gather_ptr.get(at);
            end = self.gather_ptr.get(at + 1);
        }
        let at = |p: u32, r: usize| {
            self.carried
                .get(chunk.carried + p as usize * R + rhs as usize + r)
        };
        let is_long = end - begin > LONG;
        if !is_long {
            let mut p = begin;
            while p < end {
                let mut r = 0;
                while r < N {
                    value[r] += at(p, r);
                    r += 1;
                }
                p += 1;
            }
        }
        let mut long = warp::ballot(warp::FULL_MASK, is_long);
        while long != 0 {
            let owner = long.trailing_zeros();
            long &= long - 1;
            let mut p = warp::shuffle(warp::FULL_MASK, begin, owner) + thread::lane_id();
            let end = warp::shuffle(warp::FULL_MASK, end, owner);
            let mut sums = [T::ZERO; N];
            while p < end {
                let mut r = 0;
                while r < N {
                    sums[r] += at(p, r);
                    r += 1;
                }
                p += warp::WARP_SIZE;
            }
            let mut r = 0;
            while r < N {
                let sum = warp::reduce_sum(warp::FULL_MASK, sums[r]);
                if thread::lane_id() == owner {
                    value[r] += sum;
                }
                r += 1;
            }
        }
    }

    /// One over the pivot of this lane, pivot `first` + lane of `count`; 1 where the triangle has a unit diagonal.
    #[inline(always)]
    fn inverse_pivot(self, front: Front, first: u32, count: u32, unit: bool) -> T {
        let lane = thread::lane_id();
        if unit || lane >= count {
            T::ONE
        } else {
            T::ONE / self.factor(front, front.pivot(first + lane, first + lane))
        }
    }

    /// Solves with the first triangle of the pivots `first .. first + count` (at most 32), row by lane. All lanes of a
    /// warp call it; `value` is zero in those that have no row.
    #[inline(always)]
    fn solve_up<const N: usize>(self, front: Front, first: u32, count: u32, value: &mut [T; N]) {
        let lane = thread::lane_id();
        let inverse = self.inverse_pivot(front, first, count, !self.transpose);
        let mut j = 0;
        while j + 1 < count {
            let mut column = [T::ZERO; AHEAD];
            let mut u = 0;
            while u < AHEAD as u32 {
                if lane > j + u && lane < count {
                    let place = front.pivot(first + lane, first + j + u);
                    column[u as usize] = -self.factor(front, place);
                }
                u += 1;
            }
            let mut u = 0;
            while u < AHEAD {
                let mut r = 0;
                while r < N {
                    let found = warp::shuffle(warp::FULL_MASK, value[r] * inverse, j + u as u32);
                    value[r] = column[u].mul_add(found, value[r]);
                    r += 1;
                }
                u += 1;
            }
            j += AHEAD as u32;
        }
        let mut r = 0;
        while r < N {
            value[r] *= inverse;
            r += 1;
        }
    }

    /// Solves with the other triangle, likewise.
    #[inline(always)]
    fn solve_down<const N: usize>(self, front: Front, first: u32, count: u32, value: &mut [T; N]) {
        let lane = thread::lane_id();
        let inverse = self.inverse_pivot(front, first, count, self.transpose);
        let mut left = count;
        while left > 1 {
            let mut column = [T::ZERO; AHEAD];
            let mut u = 0;
            while u < AHEAD as u32 {
                if lane + u + 1 < left {
                    let place = front.pivot(first + lane, first + left - 1 - u);
                    column[u as usize] = -self.factor(front, place);
                }
                u += 1;
            }
            let mut u = 0;
            while u < AHEAD {
                let mut r = 0;
                while r < N {
                    let from = left.wrapping_sub(1 + u as u32);
                    let found = warp::shuffle(warp::FULL_MASK, value[r] * inverse, from);
                    value[r] = column[u].mul_add(found, value[r]);
                    r += 1;
                }
                u += 1;
            }
            left = left.saturating_sub(AHEAD as u32);
        }
        let mut r = 0;
        while r < N {
            value[r] *= inverse;
            r += 1;
        }
    }

    /// Writes unknown `e` of right-hand side `rhs` of a chunk: for the fronts below, and of A.
    #[inline(always)]
    fn finish(self, chunk: Chunk, rhs: u32, e: u32, value: T) {
        let place = chunk.unknowns + e as usize * R + rhs as usize;
        self.unknowns.set(place, value);
        let rhs = (chunk.first + rhs) as usize;
        if rhs < self.nrhs as usize {
            let exponent = self.leave_exponents.get(e as usize) + self.exponent(rhs);
            let place = rhs * self.n() + self.leave.get(e as usize) as usize;
            self.x.set(place, shifted(value.to_f64(), exponent));
        }
    }

    /// Right-hand side `rhs` of B is 2 to this power times what is solved with. Once the barrier after the search for
    /// it is passed.
    #[inline(always)]
    fn exponent(self, rhs: usize) -> i32 {
        let largest = self.control.get(control::EXPONENTS + rhs) as i32;
        if largest == 0 {
            0
        } else {
            largest - BIAS - headroom::<T>()
        }
    }

    /// Waits until a flag has reached `needed`; then what its setter wrote before is seen. All lanes of a warp call it.
    #[inline(always)]
    fn wait(self, chunk: Chunk, number: u32, needed: u32) {
        if thread::lane_id() == 0 {
            let flag = self.control.atomic(chunk.flags + number as usize);
            spin_wait(|| flag.load(Ordering::Acquire, Scope::Device) >= needed);
        }
        warp::sync_warp(warp::FULL_MASK);
    }

    /// Sets a flag. One thread calls it, behind a barrier of those that wrote what the flag tells of.
    #[inline(always)]
    fn set_flag(self, chunk: Chunk, number: u32, value: u32) {
        let flag = self.control.atomic(chunk.flags + number as usize);
        flag.store(value, Ordering::Release, Scope::Device);
    }

    /// Adds one to a flag, likewise.
    #[inline(always)]
    fn raise_flag(self, chunk: Chunk, number: u32) {
        let flag = self.control.atomic(chunk.flags + number as usize);
        flag.reduce_add(1, Ordering::Release, Scope::Device);
    }

    /// Brings right-hand sides into the order of elimination, each near a power of two. All threads of the grid call
    /// it; what it writes is seen by all afterwards.
    #[inline(always)]
    fn enter(
        self,
        order: Global<u32>,
        exponents: Global<i32>,
        largest: Shared<u32>,
        barrier: &mut GridBarrier,
    ) {
        let t = thread::thread_idx_x() as usize;
        if t < MAX_NRHS {
            largest.set(t, 0);
        }
        thread::sync_threads();
        let n = self.n();
        let given = |e: usize, rhs: usize| self.x.get(rhs * n + order.get(e) as usize);
        let mut rhs = 0;
        while rhs < self.nrhs as usize {
            let mut most = 0;
            for e in thread::grid_stride(n) {
                let of_entry = biased_exponent(given(e, rhs));
                if of_entry != 0 {
                    let exponent = of_entry + exponents.get(e);
                    most = if exponent > most { exponent } else { most };
                }
            }
            let most = warp::reduce_max(warp::FULL_MASK, most as u32);
            if thread::lane_id() == 0 && most != 0 {
                let largest = largest.atomic(rhs);
                largest.fetch_max(most, Ordering::Relaxed, Scope::Block);
            }
            rhs += 1;
        }
        thread::sync_threads();
        if t < self.nrhs as usize && largest.get(t) != 0 {
            let of_grid = self.control.atomic(control::EXPONENTS + t);
            of_grid.fetch_max(largest.get(t), Ordering::Relaxed, Scope::Device);
        }
        barrier.wait();
        let mut number = 0;
        while number < self.num_chunks() {
            let chunk = self.chunk(number);
            for e in thread::grid_stride(n) {
                let mut r = 0;
                while r < R {
                    let rhs = chunk.first as usize + r;
                    let value = if rhs < self.nrhs as usize {
                        let exponent = exponents.get(e) - self.exponent(rhs);
                        T::from_f64(shifted(given(e, rhs), exponent))
                    } else {
                        T::ZERO
                    };
                    self.unknowns.set(chunk.unknowns + e * R + r, value);
                    r += 1;
                }
            }
            number += 1;
        }
        barrier.wait();
    }
}

/// Entries of a column that a lane reads ahead of the arithmetic.
const AHEAD: usize = 4;

/// The lists of a solve; see [`layout`].
#[derive(Clone, Copy)]
struct Lists {
    levels: Global<u32>,
    warps_up: Global<u32>,
    warps_down: Global<u32>,
    blocks_up: Global<u32>,
    blocks_down: Global<u32>,
    singles: Global<u32>,
    coupled: Global<u32>,
    /// Blocks of the grid that work as a whole; the last ones.
    num_blocks: u32,
}

/// A task of a list.
#[derive(Clone, Copy)]
struct Task {
    first: u32,
    second: u32,
    end: u32,
    wait: u32,
    needed: u32,
    signal: u32,
}

impl Lists {
    /// The part of a list, given by the place of its end among the words of a level, for `level`.
    #[inline(always)]
    fn part(self, level: usize, which: usize) -> (u32, u32) {
        let begin = if level == 0 {
            0
        } else {
            self.levels.get((level - 1) * LEVEL_WORDS + which)
        };
        (begin, self.levels.get(level * LEVEL_WORDS + which))
    }

    /// Calls `work(chunk, task)` for the tasks `begin .. end` of `list`, for each of `num_chunks` chunks, that worker
    /// `worker` of `workers` has.
    #[inline(always)]
    fn for_tasks(
        list: Global<u32>,
        (begin, end): (u32, u32),
        num_chunks: u32,
        (worker, workers): (u32, u32),
        mut work: impl FnMut(u32, Task),
    ) {
        // Chunks run fastest. Without a division by a number that is not known before.
        let mut number = begin;
        let mut chunk = worker;
        loop {
            while chunk >= num_chunks && number < end {
                chunk -= num_chunks;
                number += 1;
            }
            if number >= end {
                break;
            }
            let word = |which: usize| list.get(number as usize * TASK_WORDS + which);
            work(
                chunk,
                Task {
                    first: word(task::FIRST),
                    second: word(task::SECOND),
                    end: word(task::END),
                    wait: word(task::WAIT),
                    needed: word(task::NEEDED),
                    signal: word(task::SIGNAL),
                },
            );
            chunk += workers;
        }
    }
}

/// All of a solve, by all threads of the grid.
#[inline(always)]
fn solve<T: Real, const R: usize>(
    sweep: Sweep<T, R>,
    lists: Lists,
    (coupling, coupled_idx, coupled_entries): (Global<T>, Global<u32>, Global<u32>),
    (enter, enter_exponents): (Global<u32>, Global<i32>),
    largest: Shared<u32>,
) {
    let mut barrier = GridBarrier::new(sweep.control);
    sweep.enter(enter, enter_exponents, largest, &mut barrier);
    let couplings = coupling::Couplings {
        coupling,
        idx: coupled_idx,
        entries: coupled_entries,
    };
    let num_chunks = sweep.num_chunks();
    let num_levels = lists.levels.len() / LEVEL_WORDS;
    let blocks = thread::grid_dim_x();
    let of_warps = blocks - lists.num_blocks;
    let block = thread::block_idx_x();
    let warps = (
        thread::thread_idx_x() / warp::WARP_SIZE * of_warps + block,
        of_warps * WARPS,
    );
    let mut number = 0;
    while number < num_levels {
        if number > 0 {
            barrier.wait();
        }
        let coupled = lists.part(number, level::COUPLED);
        if coupled.0 < coupled.1 {
            sweep.couple(couplings, lists.coupled, coupled);
            barrier.wait();
        }
        sweep.solve_singles(couplings, lists.singles, lists.part(number, level::SINGLES));
        if block < of_warps {
            let part = lists.part(number, level::WARPS_UP);
            Lists::for_tasks(lists.warps_up, part, num_chunks, warps, |chunk, task| {
                sweep.walk_up(sweep.chunk(chunk), task);
            });
            let part = lists.part(number, level::WARPS_DOWN);
            Lists::for_tasks(lists.warps_down, part, num_chunks, warps, |chunk, task| {
                sweep.walk_down(sweep.chunk(chunk), task);
            });
        } else {
            let workers = (block - of_warps, lists.num_blocks);
            let part = lists.part(number, level::BLOCKS_UP);
            Lists::for_tasks(lists.blocks_up, part, num_chunks, workers, |chunk, task| {
                sweep.tiles_up(sweep.chunk(chunk), task);
            });
            let part = lists.part(number, level::BLOCKS_DOWN);
            Lists::for_tasks(
                lists.blocks_down,
                part,
                num_chunks,
                workers,
                |chunk, task| {
                    sweep.tiles_down(sweep.chunk(chunk), task);
                },
            );
        }
        number += 1;
    }
}

/// One kernel for each number of right-hand sides that are solved for together.
macro_rules! solve_fronts {
    ($($(#[$doc:meta])* $name:ident: $many:expr;)*) => {
        $(
            $(#[$doc])*
            #[kernel(
                T = [f32, f64],
                max_threads(256),
                require(
                    nrhs >= 1,
                    nrhs as usize <= MAX_NRHS,
                    fronts.len().is_multiple_of(FRONT_WORDS),
                    gather_ptr.len() == order.len() + row_idx.len() + 1,
                    carry_to.len() == row_idx.len(),
                    enter.len() == order.len(),
                    enter_exponents.len() == order.len(),
                    leave.len() == order.len(),
                    leave_exponents.len() == order.len(),
                    coupled_entries.len() == coupled_idx.len(),
                    levels.len().is_multiple_of(LEVEL_WORDS),
                    x.len() == nrhs as usize * order.len(),
                    unknowns.len() >= (nrhs as usize).div_ceil($many) * $many * order.len(),
                    eliminated.len() == unknowns.len(),
                    carried.len() >= (nrhs as usize).div_ceil($many) * $many * row_idx.len(),
                    control.len()
                        >= CONTROL_WORDS + (nrhs as usize).div_ceil($many) * num_flags as usize
                )
            )]
            pub unsafe fn $name<T: Real>(
                transpose: u32,
                nrhs: u32,
                num_blocks: u32,
                num_flags: u32,
                fronts: Global<u32>,
                gather_ptr: Global<u32>,
                carry_to: Global<u32>,
                row_idx: Global<u32>,
                order: Global<u32>,
                factors: Global<T>,
                levels: Global<u32>,
                warps_up: Global<u32>,
                warps_down: Global<u32>,
                blocks_up: Global<u32>,
                blocks_down: Global<u32>,
                singles: Global<u32>,
                coupled: Global<u32>,
                coupled_idx: Global<u32>,
                coupled_entries: Global<u32>,
                coupling: Global<T>,
                enter: Global<u32>,
                enter_exponents: Global<i32>,
                leave: Global<u32>,
                leave_exponents: Global<i32>,
                x: GlobalMut<f64>,
                unknowns: GlobalMut<T>,
                eliminated: GlobalMut<T>,
                carried: GlobalMut<T>,
                control: GlobalMut<u32>,
            ) {
                let largest = shared_array![u32; MAX_NRHS];
                let sums = shared_array![T; (WARPS * TILE) as usize];
                let sweep = Sweep::<T, { $many }> {
                    transpose: transpose != 0,
                    nrhs,
                    num_flags,
                    fronts,
                    gather_ptr,
                    carry_to,
                    row_idx,
                    order,
                    factors,
                    leave,
                    leave_exponents,
                    x,
                    unknowns,
                    eliminated,
                    carried,
                    control,
                    sums,
                };
                let lists = Lists {
                    levels,
                    warps_up,
                    warps_down,
                    blocks_up,
                    blocks_down,
                    singles,
                    coupled,
                    num_blocks,
                };
                solve(
                    sweep,
                    lists,
                    (coupling, coupled_idx, coupled_entries),
                    (enter, enter_exponents),
                    largest,
                );
            }
        )*
    };
}

solve_fronts! {
    /// Solves A·X = R or, if `transpose` is not 0, Aᵀ·X = R in place in `x`, for one right-hand side after another.
    ///
    /// See the module for the algorithm, and [`layout`] for the lists. Entry e in the order of elimination is entry
    /// `enter[e]` of the right-hand side times 2^`enter_exponents[e]`, and entry `leave[e]` of the solution times the
    /// inverse of 2^`leave_exponents[e]`; for Aᵀ other arrays are passed. `gather_ptr` says for each row of each front where
    /// the contributions of children to it lie, `carry_to` for each row below a front which of them is its own,
    /// `row_idx` which unknown it is. `order` is that of
    /// [`compose_exchanges`](fn@prepare::compose_exchanges), `coupling` of
    /// [`coupling_values`](fn@prepare::coupling_values): couplings `p` of a row are of unknown `coupled_idx[p]`, with
    /// value `coupling[coupled_entries[p]]`.
    ///
    /// Threads: the last `num_blocks` blocks of the grid work as a whole, on tiles, each warp of the others by itself.
    /// Writes: the part of `unknowns`, `eliminated` and `x` that belongs to a front's pivots, and the contributions of
    /// its rows below, by whoever has the task alone; flags show them to those who wait. Right-hand sides come in
    /// by all threads, between barriers of the grid. Shared memory: static, 2.3 KB.
    ///
    /// Launch: cooperative, 1-D, 256 threads a block; more blocks than `num_blocks` if there are tasks of warps, and
    /// `num_blocks` >= 1 if there are tasks of blocks. Preconditions: the lists are those of the tree that the factors
    /// belong to; no task waits for a later one of both lists together; pivots are normal numbers; `control` is zero.
    solve_fronts_single: 1;
    /// As [`solve_fronts_single`](fn@solve_fronts_single), for eight right-hand sides at a time, which share each entry of
    /// the factors that is read.
    solve_fronts_many: MANY;
}
