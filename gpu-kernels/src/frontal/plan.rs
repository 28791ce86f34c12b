//! The records in which the host tells the device about fronts and tiles.
//!
//! A front is *small* if it and all fronts below it have at most [`SMALL_FRONT`] rows: warps work on those, one after
//! another, in their shared memory. The others are *large*: blocks work on them, on the whole front if it has at most
//! [`WHOLE_FRONT`] rows, else on tiles of [`TILE`] × [`TILE`] entries. A front of more than [`TILED_FRONT`] rows, and each
//! above it, is *wide*: its tiles have [`WIDE_TILE`] × [`WIDE_TILE`] entries, and a second launch works on them, with
//! fewer threads on the chip and more registers for each.
//!
//! Size classes, and the tests in `tests/tests/frontal.rs` that run each of them on the simulator:
//!
//! | class | test |
//! |---|---|
//! | small fronts of up to 4, 8, 16 rows; up to 32 entries of B, and more | `fronts_of_every_order` |
//! | small fronts of up to 4 children, and more; children in one run and in several | `runs_of_small_fronts_join` |
//! | whole fronts of up to 32, 64, 95 rows; 1 to 8 pivots in the last panel; up to 32 rows and columns right of a panel, and more | `fronts_of_every_order` |
//! | fronts of 1, 2, 3, 4 tiles, the last one of 1, of some, of 64 rows | `tiled_fronts_of_orders_around_tiles` |
//! | fronts of tiles with rows below the pivots, in one tile and in two | `tiles_with_rows_below` |
//! | wide fronts of 1, 2 and 3 tiles, of one and of two parts, the last one of 1, of some, of 64 rows | `wide_fronts_of_orders_around_tiles` |
//! | wide fronts with rows below the pivots, in one tile and in two; with narrow children and wide ones | `wide_tiles_with_rows_below` |
//! | elements in each other's place | `elements_take_turns_in_their_memory` |
//! | elements of up to [`GATHERED`] rows, added entry by entry, and larger ones, added in pieces, to whole fronts and to tiles | `small_elements_are_added_to_large_fronts`, `tiles_with_rows_below` |
//! | sums of so many small elements that a warp adds up each, up to 256 addends and more | `sums_of_many_elements_are_those_of_warps` |
//! | fronts of each kind that have no pivot, and add up children for another front | `frontal_gathered.rs` |
//! | pivots that are replaced, that are zero, that are not finite, in fronts of each kind | `replaced_pivots_are_counted_and_keep_their_sign`, `the_first_useless_pivot_is_named` |

use luge_kernel::prelude::*;

/// Rows of the largest front that a warp factorizes.
pub const SMALL_FRONT: u32 = 16;

/// Values of shared memory that a warp needs: a front and its child.
pub const SMALL_VALUES: u32 = 2 * SMALL_FRONT * SMALL_FRONT;

/// Rows of the largest front that one block factorizes in its shared memory.
pub const WHOLE_FRONT: u32 = 95;

/// Rows and columns of a tile.
pub const TILE: u32 = 64;

/// Rows of the largest front that is cut into tiles of [`TILE`] rows.
pub const TILED_FRONT: u32 = 4096;

/// Rows and columns of a tile of a wide front.
pub const WIDE_TILE: u32 = 128;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Values of dynamic shared memory of a block: those of its warps, and later a whole front or a tile with what it is
/// updated by.
pub const BLOCK_VALUES: u32 = 9216;

/// Values of dynamic shared memory of a block that works on small fronts alone.
pub const SMALL_BLOCK_VALUES: u32 = THREADS / warp::WARP_SIZE * SMALL_VALUES;

/// Values of dynamic shared memory of a block that works on wide fronts: those of a tile, and of half of one by half of one.
pub const WIDE_VALUES: u32 = WIDE_TILE * (WIDE_TILE + 1) + TILE * (TILE + 1);

/// Largest element that is added entry by entry to a large front, not by rows and columns.
pub const GATHERED: u32 = 16;

/// No front.
pub const NONE: u32 = u32::MAX;

/// A small front; they stand in the order of execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C, packed(4))]
pub struct SmallFront {
    /// Number of pivots, and of rows below them: [`halves`].
    pub sizes: u32,
    /// See the [flags](small).
    pub flags: u32,
    /// First pivot, in the order of elimination.
    pub start: u32,
    /// Arrivals before it may be worked on; none if whoever worked on the front before it goes on with it.
    pub joins: u32,
    /// Place of its panels.
    pub slot: u64,
    /// Place of its element.
    pub element: u64,
    /// First of its entries of B.
    pub entries: u32,
    /// How many there are.
    pub num_entries: u32,
    /// First of its children; the one whose element is kept stands first.
    pub children: u32,
    /// How many there are.
    pub num_children: u32,
    /// If its parent is not worked on next: the parent, or [`NONE`].
    pub parent: u32,
    /// Zero: half of a warp reads a front.
    pub spare: [u32; 3],
}

const _: () = assert!(
    SmallFront::WORDS == 16,
    "the lanes read the words of a front twice"
);

/// Flags of a small front.
pub mod small {
    /// The front after it in the order is not the next to be worked on.
    pub const IS_LAST: u32 = 1;
    /// The parent is a large front.
    pub const PARENT_IS_LARGE: u32 = 2;
    /// The element goes to global memory.
    pub const WRITES_ELEMENT: u32 = 4;
    /// The front worked on just before is a child, and its element is still in shared memory.
    pub const HAS_KEPT_CHILD: u32 = 8;
}

/// Positions in a word of [`Child::positions`], 8 bits each from the lowest.
pub const POSITIONS_A_WORD: u32 = 4;

/// A child of a small front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C, packed(4))]
pub struct Child {
    /// Place of the element.
    pub element: u64,
    /// Rows of the element.
    pub below: u32,
    /// The position of each of its rows in the parent, [`POSITIONS_A_WORD`] in a word.
    pub positions: [u32; (SMALL_FRONT / POSITIONS_A_WORD) as usize],
}

/// A task on a large front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C, packed(4))]
pub struct Task {
    /// Number among the large fronts.
    pub front: u32,
    /// Row and column of the tile ([`halves`]), or [`WHOLE`].
    pub tile: u32,
    /// Number of pivots.
    pub pivots: u32,
    /// Number of rows below them.
    pub below: u32,
    /// Place of the front's panels.
    pub slot: u64,
    /// Place of its element.
    pub element: u64,
    /// First of the tile's entries of B.
    pub entries: u32,
    /// How many there are.
    pub num_entries: u32,
    /// First of the tile's pieces of elements.
    pub pieces: u32,
    /// How many there are.
    pub num_pieces: u32,
    /// First pivot of the front, in the order of elimination.
    pub start: u32,
    /// The parent's number among the large fronts, or [`NONE`].
    pub parent: u32,
    /// First of the front's flags, one a tile, by rows.
    pub flags: u32,
    /// Arrivals before the elements of all children are there.
    pub arrivals: u32,
    /// First of the tile's gathered sums.
    pub sums: u32,
    /// How many there are.
    pub num_sums: u32,
    /// How many of them, the first, have so many addends that a warp adds up each.
    pub num_long: u32,
    /// If it writes to the front's element: first of the waits before that.
    pub waits: u32,
    /// How many there are.
    pub num_waits: u32,
}

/// In place of a tile: all of the front is one task.
pub const WHOLE: u32 = u32::MAX;

/// A piece: part of a child's element, added to a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C, packed(4))]
pub struct Piece {
    /// Place of the element.
    pub element: u64,
    /// Place of the rows' positions in the front.
    pub relative: u64,
    /// Rows of the element.
    pub below: u32,
    /// First row of the piece.
    pub row: u32,
    /// First column.
    pub column: u32,
    /// Number of rows and of columns: [`halves`].
    pub sizes: u32,
}

/// A sum of entries of small elements; its addends end where those of the next sum begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C)]
pub struct Sum {
    /// Where it goes: [`cell`].
    pub place: u32,
    /// The first of its addends.
    pub first: u32,
}

/// Tasks that have to have read elements before others are written in their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C)]
pub struct Wait {
    /// Number of the front that they work on, among the large ones.
    pub front: u32,
    /// How many of its tasks add pieces of elements.
    pub count: u32,
}

/// Two numbers below 2¹⁶ in a word, the first in its lower half.
#[inlined]
pub const fn halves(low: u32, high: u32) -> u32 {
    low | high << 16
}

/// The two numbers in a word of [`halves`].
#[inlined]
pub const fn split(word: u32) -> (u32, u32) {
    (word & 0xffff, word >> 16)
}

/// Entries of an element with so many rows: of a symmetric matrix those of its `lower` triangle.
#[inlined]
pub fn element_entries(lower: bool, rows: u32) -> u64 {
    let rows = u64::from(rows);
    if lower {
        rows * (rows + 1) / 2
    } else {
        rows * rows
    }
}

/// Where in an element with so many rows the entry of row 0 is in a column, which there is. Of a symmetric matrix only the
/// `lower` triangle is there, column after column.
#[inlined]
pub fn element_column(lower: bool, column: u32, rows: u32) -> u64 {
    let (column, rows) = (u64::from(column), u64::from(rows));
    if lower {
        // Each of those before has an entry less than the one before it.
        column * (2 * rows - column - 1) / 2
    } else {
        column * rows
    }
}

/// Where an entry goes: row and column within the front or the tile, 8 bits each from the lowest, of which the highest is none of
/// theirs, then the exponent of the power of two that it is multiplied with, plus `EXPONENT_BIAS`.
#[inlined]
pub const fn place(row: u32, column: u32, exponent: i32) -> u32 {
    cell(row, column) | ((exponent + EXPONENT_BIAS) as u32) << 16
}

/// A [`place`] without an exponent.
#[inlined]
pub const fn cell(row: u32, column: u32) -> u32 {
    row | column << 8
}

/// Row and column of a [`place`] or [`cell`].
#[inlined]
pub const fn row_and_column(place: u32) -> (u32, u32) {
    (place & 0x7f, place >> 8 & 0x7f)
}

/// Exponent of a [`place`].
#[inlined]
pub const fn exponent(place: u32) -> i32 {
    (place >> 16) as i32 - EXPONENT_BIAS
}

/// Added to a [`place`]: the entry is the conjugate of the value.
pub const CONJUGATED: u32 = 1 << 7;

const _: () = assert!(WHOLE_FRONT <= 0x80 && WIDE_TILE <= 0x80, "rows of 7 bits");

/// Makes exponents positive numbers of 16 bits.
const EXPONENT_BIAS: i32 = 1 << 15;

/// What small and large fronts have in common; see [`lu_fronts`](fn@super::lu::lu_fronts).
#[derive(Clone, Copy, KernelArgs)]
pub struct Work<T: Field> {
    /// Number of this factorization, from 1: counters and flags count on from one to the next.
    pub epoch: u32,
    /// Not zero if launches of the factorization came before.
    pub goes_on: u32,
    /// Not zero if more come after this one, to which what was found is left.
    pub more_follow: u32,
    /// The diagonal is taken if it reaches so much of the largest candidate; of a symmetric matrix this is u, the
    /// reciprocal of how large entries of L may be that a search leaves, or the part of an [expected pivot](ExpectedPivots)
    /// that one has to exceed.
    pub threshold: T::Real,
    /// A smaller pivot is replaced by this one, with its sign; of a symmetric matrix what is smaller counts as zero.
    pub smallest: T::Real,
    /// A search leaves columns out of L in which entries would be larger than this, and marks them in `failed`; infinite: a
    /// search of LU takes what its fronts have.
    pub max_l: T::Real,
    /// Row of the parent of each row below a front's pivots.
    pub relative: Global<u32>,
    /// Which value of A each entry of B is.
    pub source: Global<u32>,
    /// Where each entry of B goes: [`place`].
    pub places: Global<u32>,
    /// Values of A.
    pub values: Global<T::Wide>,
    /// Elements that have arrived at each large front, in all factorizations so far.
    pub arrived: GlobalMut<u32>,
    /// Panels of the fronts.
    pub factors: GlobalMut<T>,
    /// Elements of the fronts, by columns; of a symmetric matrix their lower triangles ([`element_column`]).
    pub elements: GlobalMut<T>,
    /// Row that changes places with that of each pivot; of a symmetric matrix the [`kind`] of each pivot.
    pub pivot_rows: GlobalMut<u32>,
    /// Where each of the pivots' rows goes within its front; of a symmetric matrix its column goes there too.
    pub row_places: GlobalMut<u32>,
    /// Number of the last search that failed at the pivot in this place.
    pub failed: GlobalMut<u32>,
    /// See [`state`].
    pub state: GlobalMut<u32>,
    /// See [`report`].
    pub extremes: GlobalMut<u64>,
    /// See [`report`]. It may be memory of the host: nobody reads it.
    pub report: GlobalMut<u64>,
}

/// What the factorization of a symmetric matrix needs beside that; see [`ldlt_fronts`](fn@super::ldlt::ldlt_fronts).
#[derive(Clone, Copy, KernelArgs)]
pub struct SymmetricWork<T: Field> {
    /// A search keeps the pivots that are known where no entry of L gets larger than this,
    pub known_l: T::Real,
    /// and where there are tiles below, no entry of that on the diagonal than this.
    pub known_l_of_tile: T::Real,
    /// Not zero if all pivots have to be positive.
    pub definite: u32,
    /// Not zero if the matrix is Hermitian: factors are L·D·Lᴴ, and counterparts across the diagonal are conjugates.
    pub hermitian: u32,
    /// Two values for each pivot, in the order of elimination: D's entry on the diagonal, and the one below it that couples it
    /// with the next pivot, zero but for the first of a pivot of order 2.
    pub diagonal: GlobalMut<T>,
    /// Where a search puts each of the pivots' rows and columns within its front.
    pub found_places: GlobalMut<u32>,
}

/// What is expected of the pivots of a symmetric matrix; see [`ldlt_fronts_signed`](fn@super::ldlt::ldlt_fronts_signed).
#[derive(Clone, Copy, KernelArgs)]
pub struct ExpectedPivots<T: Field> {
    /// By what each is replaced, in the order of elimination, if it has not the sign of that: not zero.
    pub pivots: Global<T>,
    /// Those that were, in any order; as many as are counted.
    pub replaced: GlobalMut<u32>,
}

/// Kinds of pivots of symmetric matrices.
pub mod kind {
    /// Of order 1.
    pub const ONE: u32 = 0;
    /// The first row and column of a pivot of order 2.
    pub const FIRST_OF_TWO: u32 = 1;
    /// The second.
    pub const SECOND_OF_TWO: u32 = 2;
    /// A search found nothing acceptable: L is zero, and D one.
    pub const NONE: u32 = 3;
}

/// What there is to do on small fronts.
#[derive(Clone, Copy, KernelArgs)]
pub struct SmallPlan {
    /// The small fronts, in the order of execution.
    pub fronts: Records<SmallFront>,
    /// Their children.
    pub children: Records<Child>,
    /// Those that nothing has to precede.
    pub starts: Global<u32>,
    /// Runs that have arrived at each front, in all factorizations so far.
    pub joined: GlobalMut<u32>,
}

/// What there is to do on large fronts.
#[derive(Clone, Copy, KernelArgs)]
pub struct LargePlan {
    /// First task of the launch.
    pub first_task: u32,
    /// How many it has.
    pub num_tasks: u32,
    /// The tasks, each behind those that it waits for, be it for their results or until they have read.
    pub tasks: Records<Task>,
    /// Pieces of children's elements.
    pub pieces: Records<Piece>,
    /// Sums of entries of small elements.
    pub sums: Records<Sum>,
    /// The places of those entries.
    pub addends: Global<u32>,
    /// What is waited for before elements are written.
    pub waits: Records<Wait>,
    /// Tasks on each large front that had their pieces of elements in the tile, in all factorizations so far.
    pub assembled: GlobalMut<u32>,
    /// The number of the last factorization in which each tile was written.
    pub flags: GlobalMut<u32>,
}

/// Words of the state, all zero between launches.
pub mod state {
    /// Starts of small fronts handed out.
    pub const SMALL_TAKEN: usize = 0;
    /// Tasks handed out.
    pub const TASKS_TAKEN: usize = 1;
    /// Blocks that have nothing more to do.
    pub const BLOCKS_DONE: usize = 2;
    /// Pivots replaced.
    pub const NUM_PERTURBED: usize = 3;
    /// Negative eigenvalues of D.
    pub const NUM_NEGATIVE: usize = 4;
    /// Pivots of order 2.
    pub const NUM_TWO: usize = 5;
    /// Pivots that count as zero.
    pub const NUM_ZERO: usize = 6;
    /// How often a search failed, a column in several tiles counted in each.
    pub const NUM_FAILED: usize = 7;
    /// Fronts and tiles in which a search did not keep all pivots that were known.
    pub const NUM_SEARCHED: usize = 8;
    /// Number of words.
    pub const LEN: usize = 9;
}

/// Extremes, as 64-bit words that are all zero between factorizations; what was found up to the end of a launch is in its report.
pub mod report {
    /// Largest magnitude in the diagonal blocks of B: bits of an `f64`, which are ordered as the numbers are.
    pub const MAX_B: usize = 0;
    /// Largest magnitude in U; of a symmetric matrix in L·D.
    pub const MAX_U: usize = 1;
    /// Largest magnitude in L.
    pub const MAX_L: usize = 2;
    /// Largest complement of a pivot that was replaced, counted in the order of elimination; zero if there is none.
    pub const FIRST_PERTURBED: usize = 3;
    /// Likewise of a pivot that is zero.
    pub const FIRST_ZERO: usize = 4;
    /// Likewise of a pivot that is not finite.
    pub const FIRST_NOT_FINITE: usize = 5;
    /// Likewise of a pivot that is not positive, where all have to be.
    pub const FIRST_NEGATIVE: usize = 6;
    /// Largest magnitude of an eigenvalue of D, of a symmetric matrix.
    pub const MAX_PIVOT: usize = 7;
    /// Complement of the bits of the smallest one but for zeros, as an `f64`; zero if there is none.
    pub const MIN_PIVOT: usize = 8;
    /// Number of extremes.
    pub const NUM_EXTREMES: usize = 9;
    /// Number of pivots replaced.
    pub const NUM_PERTURBED: usize = 9;
    /// Number of negative eigenvalues of D, of a symmetric matrix.
    pub const NUM_NEGATIVE: usize = 10;
    /// Number of pivots of order 2.
    pub const NUM_TWO: usize = 11;
    /// Number of pivots that count as zero.
    pub const NUM_ZERO: usize = 12;
    /// How often a search failed, a column in several tiles counted in each.
    pub const NUM_FAILED: usize = 13;
    /// Fronts and tiles in which a search did not keep all pivots that were known.
    pub const NUM_SEARCHED: usize = 14;
    /// Number of words of a report.
    pub const LEN: usize = 15;
}
