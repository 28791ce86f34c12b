//! What a solve is given: the records of the lists that the host makes, and the kernels' arguments.
//!
//! Size classes, and the tests in `tests/tests/simulator` that run each of them on the simulator, with A and with its
//! transpose in `frontal_solve.rs`, with symmetric matrices in `frontal_solve_symmetric.rs`:
//!
//! | class | test | symmetric |
//! |---|---|---|
//! | fronts of one pivot and nothing else | `many_right_hand_sides_and_many_blocks` | `fronts_of_one_pivot` |
//! | fronts of a warp, four, two and one side by side, of up to 32 rows and of more | `solutions_satisfy_the_matrix`, `small_fronts_of_more_rows_than_lanes` | `small_fronts_with_pivots_of_both_orders`, `small_fronts_of_more_rows_than_lanes` |
//! | fronts of a block, of up to [`WHOLE_ROWS`] rows, with one tile of pivots and with several | `solutions_satisfy_the_matrix` | `fronts_of_a_block`, `factors_of_any_policy` |
//! | fronts of more rows, by strips of [`STRIP`], one after another on few blocks; of 1, 2 and more strips of pivots; with rows below and without; the last strips in part | `very_large_fronts_are_solved_by_strips`, `very_large_fronts_of_more_strips` | the same |
//! | several right-hand sides, two and four to a thread, in four, two and one group of lanes of a warp or of warps of a block | `groups_of_threads_share_right_hand_sides` | the same code |
//! | 1 right-hand side, up to [`MANY`], up to twice as many, and more, not a multiple of it | `many_right_hand_sides_and_many_blocks`, `very_large_fronts_are_solved_by_strips` | `fronts_of_a_block` |
//! | more than [`MAX_NRHS`] right-hand sides | `many_right_hand_sides_and_many_blocks` | `fronts_of_a_block` |
//! | pivots of order 2 within a warp, between two warps, between two strips; zero pivots | | `small_fronts_with_pivots_of_both_orders`, `fronts_of_a_block`, `very_large_fronts_of_more_strips` |
//! | some of the factors L, D, Lᵀ | | `fronts_of_one_pivot`, `small_fronts_of_more_rows_than_lanes`, `fronts_of_a_block`, `very_large_fronts_are_solved_by_strips` |
//! | rows of up to [`LONG_ROW`] couplings, of one segment of at most [`SEGMENT`], of several | `long_rows_come_in_segments` | |
//! | up to 32 contributions of children to a row, and more | `solutions_satisfy_the_matrix` | the same code |

use luge_kernel::prelude::*;

/// A front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C, packed(4))]
pub struct FrontRecord {
    /// First pivot in the order of elimination.
    pub start: u32,
    /// Number of pivots.
    pub pivots: u32,
    /// Number of rows below them.
    pub below: u32,
    /// Where its rows below begin among those of all fronts.
    pub rows: u32,
    /// Where its panels begin.
    pub slot: u64,
    /// Zero: a front is a quarter of what a warp's lanes read at once.
    pub spare: [u32; 2],
}

/// A task of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C)]
pub struct LargeTask {
    /// The front.
    pub front: u32,
    /// The strip of it, or [`WHOLE`] less the number of a share of the right-hand sides.
    pub strip: u32,
}

/// In place of a strip: all of the front.
pub const WHOLE: u32 = u32::MAX;

/// Right-hand sides of a thread, if there are several: except in strips, which have tensor cores. What the thread reads of the
/// factors serves all of them.
pub const OF_THREAD: usize = 4;

/// Likewise with the bit [`FEWER`], for trees in which paths are what takes time: a task is shorter.
pub const FEWER_OF_THREAD: usize = 2;

/// Chunks of [`MANY`] right-hand sides that are worked for in one turn, if there are several.
pub const PAIR: usize = 2;

/// Most shares of a front: tasks that together work for [`PAIR`] chunks. See [`shares_of_warp`] and [`shares_of_block`].
pub const MOST_SHARES: u32 = (PAIR * MANY / FEWER_OF_THREAD) as u32;

/// Fronts of a task of a warp for one right-hand side, at most: each has a quarter of the lanes, two or all of them.
pub const PACK: usize = MOST_GROUPS as usize;

/// In place of a front of such a task: there is none.
pub const NO_FRONT: u32 = u32::MAX;

/// Groups of threads of a task, at most, that have right-hand sides of their own and all rows of a front.
const MOST_GROUPS: u32 = 4;

/// Groups of `threads` threads that have a row each: a power of two.
#[inlined]
const fn groups(threads: u32, rows: u32) -> u32 {
    let mut groups = 1;
    while groups < MOST_GROUPS && rows * 2 * groups <= threads {
        groups *= 2;
    }
    groups
}

/// Groups of lanes of a warp for a small front of `rows` rows. If there is one, a lane may have several rows.
#[inlined]
pub const fn groups_of_warp(rows: u32) -> u32 {
    groups(warp::WARP_SIZE, rows)
}

/// Groups of warps of a block for a larger front of `rows` rows.
#[inlined]
pub const fn groups_of_block(rows: u32) -> u32 {
    groups(THREADS, rows)
}

/// Shares of a small front of `rows` rows, for so many right-hand sides of a thread.
pub const fn shares_of_warp(rows: u32, of_thread: usize) -> u32 {
    (PAIR * MANY / of_thread) as u32 / groups_of_warp(rows)
}

/// Shares of a larger front of `rows` rows that is one task for one right-hand side.
pub const fn shares_of_block(rows: u32, of_thread: usize) -> u32 {
    (PAIR * MANY / of_thread) as u32 / groups_of_block(rows)
}

/// Rows of the largest front that is one task of a block, a row a thread.
pub const WHOLE_ROWS: u32 = THREADS;

/// A level: ends of its parts of the lists, which begin where those of the level before end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C)]
pub struct Level {
    /// Of the tasks of warps.
    pub warps_up: u32,
    /// Of the tasks of warps on the way down.
    pub warps_down: u32,
    /// Of the tasks of blocks.
    pub blocks_up: u32,
    /// Of the tasks of blocks on the way down.
    pub blocks_down: u32,
    /// Of the fronts of one pivot and nothing else.
    pub singles: u32,
    /// Of the rows with couplings of other fronts, and of those with long rows.
    pub coupled: u32,
    /// Of the segments of long rows.
    pub segments: u32,
}

/// A front of one pivot and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C, packed(4))]
pub struct Single {
    /// Its pivot in the order of elimination.
    pub pivot: u32,
    /// First of its couplings; none where a [`CoupledRow`] has them.
    pub begin: u32,
    /// Their end.
    pub end: u32,
    /// Where its factor lies.
    pub slot: u64,
}

/// Couplings of a row from which on it is cut into segments.
pub const LONG_ROW: u32 = 32;

/// Most couplings of a segment.
pub const SEGMENT: u32 = 256;

/// A segment of a long row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C)]
pub struct Segment {
    /// Its first coupling.
    pub begin: u32,
    /// The end of them.
    pub end: u32,
}

/// A row with couplings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C)]
pub struct CoupledRow {
    /// Its pivot in the order of elimination.
    pub pivot: u32,
    /// First of its couplings, if it is not cut.
    pub begin: u32,
    /// Their end.
    pub end: u32,
    /// First of its segments, if it is.
    pub first_segment: u32,
    /// Their end.
    pub end_of_segments: u32,
}

/// The factors of the fronts, and how the fronts hang together.
#[derive(Clone, Copy, KernelArgs)]
pub struct Factored<T: Field> {
    /// The fronts.
    pub fronts: Records<FrontRecord>,
    /// Where the contributions of children to each row of each front begin, and the end of the last.
    pub gather_ptr: Global<u32>,
    /// For each row below a front its own among those contributions.
    pub carry_to: Global<u32>,
    /// The unknown of each row below a front.
    pub row_idx: Global<u32>,
    /// The exchanges of rows: see [`compose_exchanges`](fn@super::prepare::compose_exchanges), for L·D·Lᵀ
    /// [`invert_places`](fn@super::prepare::invert_places).
    pub order: Global<u32>,
    /// The panels.
    pub factors: Global<T>,
}

/// Who does what, in which order.
#[derive(Clone, Copy, KernelArgs)]
pub struct Lists {
    /// The levels of diagonal blocks, in the order in which they are solved.
    pub levels: Records<Level>,
    /// Tasks of warps on the way up: of [`PACK`] words each, the front of each quarter of the lanes or [`NO_FRONT`]; for several
    /// right-hand sides of one word each, a front times [`MOST_SHARES`] and a share.
    pub warps_up: Global<u32>,
    /// Tasks of warps on the way down, likewise.
    pub warps_down: Global<u32>,
    /// Tasks of blocks on the way up.
    pub blocks_up: Records<LargeTask>,
    /// Tasks of blocks on the way down.
    pub blocks_down: Records<LargeTask>,
    /// Fronts of one pivot and nothing else.
    pub singles: Records<Single>,
    /// Rows with couplings.
    pub coupled: Records<CoupledRow>,
    /// Segments of long rows.
    pub segments: Records<Segment>,
}

/// The entries of B right of its diagonal blocks, by rows, or for Bᵀ below them, by columns.
#[derive(Clone, Copy, KernelArgs)]
pub struct Couplings<T: Field> {
    /// The entries; see [`coupling_values`](fn@super::prepare::coupling_values).
    pub coupling: Global<T>,
    /// The unknown that coupling p is for.
    pub idx: Global<u32>,
    /// Its place in `coupling`.
    pub entries: Global<u32>,
}

/// Where the entries of a vector in the order of elimination are in one of A, and how they are scaled.
#[derive(Clone, Copy, KernelArgs)]
pub struct Places {
    /// The place of each.
    pub places: Global<u32>,
    /// The exponent of its factor.
    pub exponents: Global<i32>,
}

/// The vectors of a launch. Those in the order of elimination have the values of one unknown for the right-hand sides
/// that are solved for together side by side; those that are handed over have all components of a value side by side.
#[derive(Clone, Copy, KernelArgs)]
pub struct Vectors<T: Field> {
    /// Right-hand sides and solutions of A.
    pub x: GlobalMut<T::Wide>,
    /// Right-hand sides of B, in the order of elimination before rows are exchanged.
    pub entered: GlobalMut<T>,
    /// Solutions of B, in the order of elimination before rows are exchanged.
    pub unknowns: GlobalMut<T::Real>,
    /// What the first triangle leaves of the right-hand sides.
    pub eliminated: GlobalMut<T::Real>,
    /// Contributions of fronts to rows of their parents, those to one row side by side.
    pub carried: GlobalMut<T::Real>,
    /// Sums of the segments of long rows.
    pub sums: GlobalMut<T>,
    /// See [`control`].
    pub control: GlobalMut<u32>,
    /// The control of the next solve, of which no launch that is under way knows.
    pub next_control: GlobalMut<u32>,
}

/// Words of the control of a launch.
pub const CONTROL_WORDS: usize = 128;

/// Places of words of the control.
pub mod control {
    /// The barrier of the grid.
    pub const BARRIER: usize = 0;
    /// Tasks of blocks upwards that are taken, where blocks take them (see the module `lists`).
    pub const TAKEN_UP: usize = 16;
    /// Likewise downwards.
    pub const TAKEN_DOWN: usize = 32;
    /// The largest exponent of each right-hand side.
    pub const EXPONENTS: usize = 64;
}

/// Bits that name the factors of L·D·Lᵀ that are solved with.
pub mod factors {
    /// L.
    pub const L: u32 = 1;
    /// D.
    pub const D: u32 = 2;
    /// Lᵀ.
    pub const TRANSPOSED_L: u32 = 4;
    /// All of them.
    pub const ALL: u32 = L | D | TRANSPOSED_L;
}

/// Bit of the word that says which kind of solve it is: the launch goes on with what one before it left in the vectors. So a
/// solve is several launches, each with some of the tasks.
pub const GOES_ON: u32 = 8;

/// Bit beside those of [`factors`]: what is solved with in place of Lᵀ is Lᴴ.
pub const HERMITIAN: u32 = 16;

/// Bit beside those of [`factors`]: conjugates of the right-hand sides are solved for, and conjugates of the solutions are the
/// answer. So a Hermitian matrix is solved with transposed.
pub const CONJUGATED: u32 = 32;

/// Bit of the same word: where right-hand sides are several, a thread has [`FEWER_OF_THREAD`] of them in place of [`OF_THREAD`], and
/// the lists have the shares of that.
pub const FEWER: u32 = 64;

/// Right-hand sides of one launch, at most.
pub const MAX_NRHS: usize = 64;

/// Right-hand sides that are solved for together if there are several.
pub const MANY: usize = 8;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Pivots of a front that are solved for together, as many as a warp has lanes.
pub const TILE: u32 = 32;

/// Rows of a strip of a very large front.
pub const STRIP: u32 = 64;
