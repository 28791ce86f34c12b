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
//! those of the solution, backwards. For a symmetric B = L·D·Lᵀ both are, and downwards begins with D⁻¹: see the module
//! `kinds`.
//!
//! Who works on what is planned by the host (see `luge_frontal::gpu`): a warp on a small front, or on several that do not wait for
//! each other, a block on a larger one, or on a strip of 64 rows of a very large one. Tasks stand in lists, in an order in which
//! none waits for a later one; worker i of n does the tasks i, i + n, … of its list, or blocks take the next one when they are free
//! (see the module `lists`), so waiting ends whatever n is. Every block does both kinds: small fronts, which have none but small ones
//! below them, then larger ones up and down, then small ones again. A task waits for numbers and not for other tasks: see the module
//! `handover`. Kernels that know of strips are apart: they spill registers, and most trees have no front that is so large.
//!
//! Several right-hand sides are solved for in turns of up to 16, a thread having four of them: a front is worked on by groups of
//! lanes or of warps, and is as many tasks, its shares, as there are groups for which a warp or a block has no room.
//!
//! Every number is one chain of operations in an order that depends on the fronts and the number of right-hand sides
//! alone, so its bits do not depend on the grid or the schedule.
//!
//! With `Complex<f32>` there are the kernels for any lists alone.

mod coupling;
mod enter;
mod handover;
mod kinds;
pub mod layout;
mod lists;
mod parts;
mod passes;
pub mod prepare;
pub(super) mod scaled;
mod small;
mod strips;
mod strips_many;
mod whole;

use luge_kernel::prelude::*;

use self::kinds::{General, Kind, Side, Symmetric};
use self::layout::{
    Couplings, FEWER_OF_THREAD, Factored, Lists, MANY, MAX_NRHS, NO_FRONT, OF_THREAD, PAIR, Places,
    STRIP, THREADS, TILE, Vectors, WHOLE_ROWS,
};
use super::large::FrontField;
use crate::grid::GridBarrier;

/// Warps of a block.
const WARPS: u32 = THREADS / warp::WARP_SIZE;

/// A front: its pivots, and where its panels lie.
///
/// What of it is used in which direction is told by a [`Side`].
#[derive(Clone, Copy, Default)]
struct Front {
    start: u32,
    k: u32,
    c: u32,
    /// Where its rows below begin among those of all fronts.
    rows: u32,
    slot: u64,
}

impl Front {
    /// Number of rows.
    #[inlined]
    fn m(self) -> u32 {
        self.k + self.c
    }

    /// Number of tiles of pivots.
    #[inlined]
    fn tiles_of_pivots(self) -> u32 {
        self.k.div_ceil(TILE)
    }

    /// Number of pivots of tile `t`.
    #[inlined]
    fn pivots_of_tile(self, t: u32) -> u32 {
        (self.k - t * TILE).min(TILE)
    }

    /// Number of strips of pivots.
    #[inlined]
    fn strips_of_pivots(self) -> u32 {
        self.k.div_ceil(STRIP)
    }

    /// Number of pivots of strip `t`.
    #[inlined]
    fn pivots_of_strip(self, t: u32) -> u32 {
        (self.k - t * STRIP).min(STRIP)
    }
}

/// The part of the vectors that belongs to some right-hand sides, [`Sweep`]'s `R` of them.
#[derive(Clone, Copy)]
struct Chunk {
    /// First right-hand side.
    first: u32,
    /// Where its unknowns begin.
    unknowns: usize,
    /// Where its contributions begin.
    carried: usize,
}

/// The right-hand sides that a thread has of a turn, as many as its work is for.
#[derive(Clone, Copy)]
struct Sides {
    chunk: Chunk,
    /// The first of them, counted in the chunk.
    rhs: u32,
    /// Whether the chunk is there. If not, another one stands in its place, and the thread has no row.
    are_there: bool,
}

/// All that a solve for `R` right-hand sides at a time needs. The values of one unknown for them lie side by side.
///
/// Of a row of a small front `AHEAD` entries are under way at once, of a row of the panel that is used downwards `BELOW`:
/// as many as there are registers for.
#[derive(Clone, Copy)]
struct Sweep<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize> {
    kind: K,
    nrhs: u32,
    /// Whether a thread has [`FEWER_OF_THREAD`] of several right-hand sides.
    has_fewer: bool,
    tree: Factored<T>,
    leave: Places,
    vectors: Vectors<T>,
    /// Segments of long rows in all of the list.
    num_segments: u32,
    /// For the rows of a front of a block, or a triangle.
    values: Shared<T>,
    /// For what is subtracted from them, or the sums of warps.
    products: Shared<T>,
}

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Order of the matrix.
    #[inlined]
    fn n(self) -> usize {
        self.tree.order.len()
    }

    #[inlined]
    fn num_chunks(self) -> u32 {
        self.nrhs.div_ceil(R as u32)
    }

    #[inlined]
    fn chunk(self, number: u32) -> Chunk {
        let number_wide = number as usize;
        Chunk {
            first: number * R as u32,
            unknowns: number_wide * self.n() * R,
            carried: number_wide * self.tree.carry_to.len() * R,
        }
    }

    /// The right-hand sides of group `group` of a turn that begins with `chunk`, `N` in each group.
    #[inlined]
    fn sides<const N: usize>(self, chunk: Chunk, group: u32) -> Sides {
        let groups = (R / N) as u32;
        let n = group / groups;
        let are_there = n == 0 || chunk.first + n * (R as u32) < self.nrhs;
        Sides {
            chunk: self.chunk_behind(chunk, if are_there { n } else { 0 }),
            rhs: group % groups * N as u32,
            are_there,
        }
    }

    /// Whether a share whose groups begin with this one has no right-hand side in a turn that begins with `chunk`.
    #[inlined]
    fn has_none<const N: usize>(self, chunk: Chunk, first_group: u32) -> bool {
        N < R && !self.sides::<N>(chunk, first_group).are_there
    }

    /// Chunk `n` from `chunk` on.
    #[inlined]
    fn chunk_behind(self, chunk: Chunk, n: u32) -> Chunk {
        self.chunk(chunk.first / R as u32 + n)
    }

    /// Front `s`, or one without rows if that is [`NO_FRONT`].
    #[inlined]
    fn front(self, s: u32) -> Front {
        let is_there = R > 1 || s != NO_FRONT;
        let front = self.tree.fronts.get(if is_there { s as usize } else { 0 });
        Front {
            start: front.start(),
            k: if is_there { front.pivots() } else { 0 },
            c: if is_there { front.below() } else { 0 },
            rows: front.rows(),
            slot: front.slot(),
        }
    }

    /// What the way up uses of the fronts.
    #[inlined]
    fn up(self) -> Side {
        self.kind.side(true)
    }

    /// What the way down uses of them.
    #[inlined]
    fn down(self) -> Side {
        self.kind.side(false)
    }

    #[inlined]
    fn factor(self, front: Front, place: u32) -> T {
        self.tree
            .factors
            .get((front.slot + u64::from(place)) as usize)
    }

    /// Place of unknown `pivot` of a front, counted within it, before rows are exchanged.
    #[inlined]
    fn unexchanged(self, front: Front, pivot: u32) -> u32 {
        front.start + self.tree.order.get((front.start + pivot) as usize)
    }

    /// The row of the front, as its children know it, that is row `row` once rows are exchanged.
    #[inlined]
    fn row_as_it_came(self, front: Front, row: u32) -> u32 {
        let is_pivot = row < front.k;
        let pivot = if is_pivot { row } else { 0 };
        let exchanged = self.tree.order.get((front.start + pivot) as usize);
        if is_pivot && self.up().exchanges() {
            exchanged
        } else {
            row
        }
    }

    /// Place of the solution for `pivot` of a front.
    #[inlined]
    fn place_down(self, front: Front, pivot: u32) -> u32 {
        if self.down().exchanges() {
            self.unexchanged(front, pivot)
        } else {
            front.start + pivot
        }
    }
}

impl<T: FrontField, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Of the chunks from one on, how many are worked on together.
    #[inlined]
    fn chunks_from(self, chunk: Chunk) -> u32 {
        if R > 1 && chunk.first + (R as u32) < self.nrhs {
            PAIR as u32
        } else {
            1
        }
    }

    /// The share that a task of a block names, if it is one of a whole front: there are no others where there are no strips.
    #[inlined]
    fn share_of_whole(self, strip: u32) -> Option<u32> {
        if K::STRIPS {
            parts::share(strip)
        } else {
            Some(layout::WHOLE - strip)
        }
    }

    /// Small fronts on the way up, each lane with its own, or a share of one. All lanes of the warp call it.
    #[inlined]
    fn small_task_up(self, chunk: Chunk, front: Front, share: u32) {
        if !self.kind.goes(true) {
            let chunks = self.chunks_from(chunk);
            let pivot = parts::own_pivot_of_warp::<R>(front, share);
            self.pass_on((chunk, chunks), front, pivot);
        } else if R == 1 {
            self.small_up::<1>(chunk, front, share);
        } else if self.has_fewer {
            self.small_up::<FEWER_OF_THREAD>(chunk, front, share);
        } else {
            self.small_up::<OF_THREAD>(chunk, front, share);
        }
    }

    /// Likewise on the way down.
    #[inlined]
    fn small_task_down(self, chunk: Chunk, front: Front, share: u32) {
        if !self.kind.goes(false) {
            let chunks = self.chunks_from(chunk);
            let pivot = parts::own_pivot_of_warp::<R>(front, share);
            self.leave_eliminated((chunk, chunks), front, pivot);
        } else if R == 1 {
            self.small_down::<1>(chunk, front, share);
        } else if self.has_fewer {
            self.small_down::<FEWER_OF_THREAD>(chunk, front, share);
        } else {
            self.small_down::<OF_THREAD>(chunk, front, share);
        }
    }

    /// A front or a strip of one on the way up, for the chunks that are worked on together. All threads of the block call
    /// it.
    #[inlined]
    fn large_up(self, chunk: Chunk, front: Front, strip: u32) {
        let chunks = self.chunks_from(chunk);
        if !self.kind.goes(true) {
            self.pass_on((chunk, chunks), front, parts::own_pivot(strip));
        } else if let Some(share) = self.share_of_whole(strip) {
            if R == 1 {
                self.whole_up::<1>(chunk, front, 0);
            } else if self.has_fewer {
                self.whole_up::<FEWER_OF_THREAD>(chunk, front, share);
            } else {
                self.whole_up::<OF_THREAD>(chunk, front, share);
            }
        } else if R == 1 {
            self.strip_up(chunk, front, strip);
        } else {
            self.strip_up_many((chunk, chunks), front, strip);
        }
    }

    /// A front or a strip of one on the way down, for the chunks that are worked on together. All threads of the block call
    /// it.
    #[inlined]
    fn large_down(self, chunk: Chunk, front: Front, strip: u32) {
        let chunks = self.chunks_from(chunk);
        if !self.kind.goes(false) {
            self.leave_eliminated((chunk, chunks), front, parts::own_pivot(strip));
        } else if let Some(share) = self.share_of_whole(strip) {
            if R == 1 {
                self.whole_down::<1>(chunk, front, 0);
            } else if self.has_fewer {
                self.whole_down::<FEWER_OF_THREAD>(chunk, front, share);
            } else {
                self.whole_down::<OF_THREAD>(chunk, front, share);
            }
        } else if R == 1 {
            self.strip_down(chunk, front, strip);
        } else {
            self.strip_down_many((chunk, chunks), front, strip);
        }
    }
}

/// Most right-hand sides of a thread in a front of a block, of `many` that are solved for together.
const fn of_thread(many: usize) -> usize {
    if many == 1 { 1 } else { OF_THREAD }
}

/// Places in shared memory for `many` values of each row of a front, or for a triangle.
const fn values_places(many: usize, strips: bool) -> usize {
    let of_rows = WHOLE_ROWS as usize * of_thread(many);
    if strips && of_rows < strips::TRIANGLE {
        strips::TRIANGLE
    } else {
        of_rows
    }
}

/// Likewise for what is taken off them, or the sums of the warps.
const fn products_places(many: usize, strips: bool) -> usize {
    match (strips, many) {
        (false, _) => WHOLE_ROWS as usize * of_thread(many),
        (true, 1) => strips::SUMS,
        (true, _) => strips_many::SUMS,
    }
}

const _: () = assert!(strips::SUMS >= WHOLE_ROWS as usize);

/// Values of dynamic shared memory of a block of the kernel for `many` right-hand sides at a time, of a tree with `strips`
/// or of one without.
pub const fn shared_values(many: usize, strips: bool) -> usize {
    values_places(many, strips) + products_places(many, strips)
}

/// All of a solve, by all threads of the grid.
#[inlined]
fn solve<T: FrontField, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>(
    sweep: Sweep<T, K, R, AHEAD, BELOW>,
    lists: Lists,
    (enter, goes_on): (Places, bool),
    words: Shared<u32>,
) {
    let mut barrier = GridBarrier::new(sweep.vectors.control);
    sweep.enter(enter, goes_on, words, &mut barrier);
    let num_levels = lists.levels.len();
    let (block, num_blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    let warp = (
        thread::thread_idx_x() / warp::WARP_SIZE * num_blocks + block,
        num_blocks * WARPS,
    );
    let block = (block, num_blocks);
    let mut number = 0;
    while number < num_levels {
        if number > 0 {
            barrier.wait();
        }
        if let Some(couplings) = sweep.kind.couplings() {
            sweep.couple(couplings, lists, number, &mut barrier);
        }
        let part = lists.part(number, |level| level.singles());
        sweep.solve_singles(lists.singles, part);
        // No task of a warp waits on the way up for one of a block, nor one of a block on the way down for one of a warp.
        let part = lists.part(number, |level| level.warps_up());
        let list = lists.warps_up;
        let mut tasks = sweep.small_tasks(list, part, warp);
        while tasks.is_left() {
            let (chunk, front, share) = sweep.take_small(&mut tasks, list);
            sweep.small_task_up(chunk, front, share);
        }
        let part = lists.part(number, |level| level.blocks_up());
        let list = lists.blocks_up;
        if K::STRIPS {
            sweep.begin_taking(part, number, words);
            let word = layout::control::TAKEN_UP;
            while let Some((chunk, front, strip)) = sweep.take_free(list, word, words) {
                sweep.large_up(chunk, front, strip);
            }
        } else {
            let mut tasks = sweep.large_tasks(list, part, block);
            while tasks.is_left() {
                let (chunk, front, strip) = sweep.take_large(&mut tasks, list);
                sweep.large_up(chunk, front, strip);
            }
        }
        let part = lists.part(number, |level| level.blocks_down());
        let list = lists.blocks_down;
        if K::STRIPS {
            sweep.begin_taking(part, number, words);
            let word = layout::control::TAKEN_DOWN;
            while let Some((chunk, front, strip)) = sweep.take_free(list, word, words) {
                sweep.large_down(chunk, front, strip);
            }
        } else {
            let mut tasks = sweep.large_tasks(list, part, block);
            while tasks.is_left() {
                let (chunk, front, strip) = sweep.take_large(&mut tasks, list);
                sweep.large_down(chunk, front, strip);
            }
        }
        let part = lists.part(number, |level| level.warps_down());
        let list = lists.warps_down;
        let mut tasks = sweep.small_tasks(list, part, warp);
        while tasks.is_left() {
            let (chunk, front, share) = sweep.take_small(&mut tasks, list);
            sweep.small_task_down(chunk, front, share);
        }
        number += 1;
    }
}

/// A kernel for a kind of factors and for as many right-hand sides as are solved for together, with what is under way at
/// once and the blocks of a multiprocessor. The kind is made of two arguments of its own.
macro_rules! solve_fronts {
    (
        $(#[$doc:meta])*
        $name:ident: [$($types:tt)*], $many:expr, $strips:literal, $ahead:literal, $below:literal, $blocks:literal;
        ($word:ident: u32, $tree:ident, $own:ident: $($own_type:tt)*)
        require($($require:tt)*)
        $kind:expr
    ) => {
        $(#[$doc])*
        #[kernel(
            T = [$($types)*],
            max_threads(256),
            min_blocks($blocks),
            require(
                nrhs >= 1,
                nrhs as usize <= if $many == 1 { 1 } else { MAX_NRHS },
                $tree.gather_ptr.len() == $tree.order.len() + $tree.row_idx.len() + 1,
                $tree.carry_to.len() == $tree.row_idx.len(),
                enter.places.len() == $tree.order.len(),
                enter.exponents.len() == $tree.order.len(),
                leave.places.len() == $tree.order.len(),
                leave.exponents.len() == $tree.order.len(),
                vectors.x.len() == nrhs as usize * $tree.order.len(),
                vectors.entered.len()
                    >= (nrhs as usize).div_ceil($many) * $many * $tree.order.len(),
                vectors.unknowns.len() == vectors.entered.len() * T::COMPONENTS,
                vectors.eliminated.len() == vectors.unknowns.len(),
                vectors.carried.len()
                    >= (nrhs as usize).div_ceil($many)
                        * $many
                        * $tree.row_idx.len()
                        * T::COMPONENTS,
                vectors.sums.len()
                    >= (nrhs as usize).div_ceil($many) * $many * lists.segments.len(),
                vectors.control.len() == layout::CONTROL_WORDS,
                vectors.next_control.len() == layout::CONTROL_WORDS,
                $($require)*
            )
        )]
        pub unsafe fn $name<T: FrontField>(
            $word: u32,
            nrhs: u32,
            $tree: Factored<T>,
            lists: Lists,
            $own: $($own_type)*,
            enter: Places,
            leave: Places,
            vectors: Vectors<T>,
        ) {
            let words = shared_array![u32; MAX_NRHS];
            let values = dynamic_shared::<T>(0, values_places($many, $strips));
            let products = dynamic_shared::<T>(
                values_places($many, $strips) * size_of::<T>(),
                products_places($many, $strips),
            );
            let sweep = Sweep::<T, _, { $many }, $ahead, $below> {
                kind: $kind,
                // A constant saves the registers of chunks.
                nrhs: if $many == 1 { 1 } else { nrhs },
                has_fewer: $word & layout::FEWER != 0,
                tree: $tree,
                leave,
                vectors,
                num_segments: lists.segments.len() as u32,
                values,
                products,
            };
            solve(sweep, lists, (enter, $word & layout::GOES_ON != 0), words);
        }
    };
}

solve_fronts! {
    /// Solves A·x = r or, if bit 0 of `transpose` is set, Aᵀ·x = r in place in `x`, for one right-hand side (`nrhs` is 1), with factors
    /// in whose lists every task is one of a whole front.
    ///
    /// With the bit [`GOES_ON`](layout::GOES_ON) it goes on with what a launch on the same vectors left, to which `control`
    /// from [`EXPONENTS`](layout::control::EXPONENTS) on belongs; the words before are zero again. The tasks of all launches together
    /// are those of one, in the same order.
    ///
    /// See the module for the algorithm, and [`layout`] for the lists. Entry e in the order of elimination is entry
    /// `enter.places[e]` of the right-hand side times 2^`enter.exponents[e]`, and entry `leave.places[e]` of the solution
    /// times the inverse of 2^`leave.exponents[e]`; for Aᵀ other arrays are passed. Coupling p of a row is of unknown
    /// `couplings.idx[p]`, with value `couplings.coupling[couplings.entries[p]]`.
    ///
    /// Threads: each warp works by itself on small fronts, each block as a whole on larger ones.
    /// Writes: the part of `unknowns`, `eliminated` and `x` that belongs to a front's pivots, and the contributions of
    /// its rows below, by whoever has the task alone; flags show them to those who wait. Right-hand sides come in
    /// by all threads, between barriers of the grid, and the first threads of the grid make `next_control` zero. Shared memory:
    /// static, 0.3 KB, and [`shared_values`] values of dynamic shared memory.
    ///
    /// Launch: cooperative, 1-D, 256 threads a block. Preconditions: the lists are those of the tree that the factors
    /// belong to; of a level no task waits for a later one, the order being that of warps upwards, of blocks upwards, of
    /// blocks downwards and of warps downwards; pivots are normal numbers; `control` is zero.
    solve_fronts_single: [f32, f64, Complex<f64>], 1, false, 8, 4, 2;
    (transpose: u32, tree, couplings: Couplings<T>)
    require(couplings.entries.len() == couplings.idx.len())
    General::<T, false> { transpose: transpose & 1 != 0, couplings }
}

solve_fronts! {
    /// As [`solve_fronts_single`](fn@solve_fronts_single), for several right-hand sides, four of which, or two with the bit
    /// [`FEWER`](layout::FEWER), share each entry of the factors that a thread reads.
    solve_fronts_many: [f32, f64, Complex<f64>], MANY, false, 8, 4, 2;
    (transpose: u32, tree, couplings: Couplings<T>)
    require(couplings.entries.len() == couplings.idx.len())
    General::<T, false> { transpose: transpose & 1 != 0, couplings }
}

solve_fronts! {
    /// As [`solve_fronts_single`](fn@solve_fronts_single), for any lists.
    solve_wide_fronts_single: [f32, f64, Complex<f32>, Complex<f64>: min_blocks(1)], 1, true, 8, 4, 2;
    (transpose: u32, tree, couplings: Couplings<T>)
    require(couplings.entries.len() == couplings.idx.len())
    General::<T, true> { transpose: transpose & 1 != 0, couplings }
}

solve_fronts! {
    /// As [`solve_fronts_many`](fn@solve_fronts_many), for any lists; a block works on a strip for up to sixteen right-hand
    /// sides.
    solve_wide_fronts_many: [f32, f64, Complex<f32>, Complex<f64>: min_blocks(1)], MANY, true, 8, 4, 2;
    (transpose: u32, tree, couplings: Couplings<T>)
    require(couplings.entries.len() == couplings.idx.len())
    General::<T, true> { transpose: transpose & 1 != 0, couplings }
}

solve_fronts! {
    /// Solves with the factors of P·B·Pᵀ = L·D·Lᵀ of a symmetric matrix, or with those of them that `factors` names (see
    /// [`factors`](layout::factors)), in place in `x`, for one right-hand side.
    ///
    /// As [`solve_fronts_single`](fn@solve_fronts_single), but for these: a front has one panel, that of L; D is in
    /// `diagonal`, with two values for each pivot, its own entry and the one that couples it to the next pivot, zero if
    /// none does; the unknown of a zero pivot is zero before the way down; pivots of order 2 are regular; there are no
    /// couplings of diagonal blocks, so `levels` has one level at most. With some of the factors alone, entry e of `x`
    /// takes the place that it has in the solution.
    solve_fronts_symmetric_single: [f32, f64, Complex<f64>], 1, false, 8, 4, 2;
    (factors: u32, tree, diagonal: Global<T>)
    require(diagonal.len() == 2 * tree.order.len())
    Symmetric::<T, false> { factors, diagonal }
}

solve_fronts! {
    /// As [`solve_fronts_symmetric_single`](fn@solve_fronts_symmetric_single), for several right-hand sides, as
    /// [`solve_fronts_many`](fn@solve_fronts_many).
    solve_fronts_symmetric_many: [f32, f64, Complex<f64>], MANY, false, 8, 4, 2;
    (factors: u32, tree, diagonal: Global<T>)
    require(diagonal.len() == 2 * tree.order.len())
    Symmetric::<T, false> { factors, diagonal }
}

solve_fronts! {
    /// As [`solve_fronts_symmetric_single`](fn@solve_fronts_symmetric_single), for any lists.
    solve_wide_fronts_symmetric_single: [f32, f64, Complex<f32>, Complex<f64>: min_blocks(1)], 1, true, 8, 4, 2;
    (factors: u32, tree, diagonal: Global<T>)
    require(diagonal.len() == 2 * tree.order.len())
    Symmetric::<T, true> { factors, diagonal }
}

solve_fronts! {
    /// As [`solve_fronts_symmetric_many`](fn@solve_fronts_symmetric_many), for any lists; a block works on a strip for up to
    /// sixteen right-hand sides.
    solve_wide_fronts_symmetric_many: [f32, f64, Complex<f32>, Complex<f64>: min_blocks(1)], MANY, true, 8, 4, 2;
    (factors: u32, tree, diagonal: Global<T>)
    require(diagonal.len() == 2 * tree.order.len())
    Symmetric::<T, true> { factors, diagonal }
}
