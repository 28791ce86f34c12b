//! The words in which the host tells the device about fronts and tiles.
//!
//! A front is *small* if it and all fronts below it have at most [`SMALL_FRONT`] rows: warps work on those, one after
//! another, in their shared memory. The others are *large*: blocks work on them, on the whole front if it has at most
//! [`WHOLE_FRONT`] rows, else on tiles of [`TILE`] × [`TILE`] entries.
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
//! | elements of up to [`GATHERED`] rows, added entry by entry, and larger ones, added in pieces, to whole fronts and to tiles | `small_elements_are_added_to_large_fronts`, `tiles_with_rows_below` |
//! | pivots that are replaced, that are zero, that are not finite, in fronts of each kind | `replaced_pivots_are_counted_and_keep_their_sign`, `the_first_useless_pivot_is_named` |

/// Rows of the largest front that a warp factorizes.
pub const SMALL_FRONT: u32 = 16;

/// Values of shared memory that a warp needs: a front and its child.
pub const SMALL_VALUES: u32 = 2 * SMALL_FRONT * SMALL_FRONT;

/// Rows of the largest front that one block factorizes in its shared memory.
pub const WHOLE_FRONT: u32 = 95;

/// Rows and columns of a tile.
pub const TILE: u32 = 64;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Values of dynamic shared memory of a block: those of its warps, and later a whole front or a tile with what it is
/// updated by.
pub const BLOCK_VALUES: u32 = 9216;

/// Largest element that is added entry by entry to a large front, not by rows and columns.
pub const GATHERED: u32 = 16;

/// No front.
pub const NONE: u32 = u32::MAX;

/// Words of a small front, which stand in the order of execution.
pub mod small {
    /// Number of pivots, and of rows below them, 16 bits each from the lowest.
    pub const SIZES: u32 = 0;
    /// See the flags below.
    pub const FLAGS: u32 = 1;
    /// First pivot, in the order of elimination.
    pub const START: u32 = 2;
    /// Arrivals before it may be worked on; none if whoever worked on the front before it goes on with it.
    pub const JOINS: u32 = 3;
    /// Place of its panels, low and high.
    pub const SLOT: u32 = 4;
    /// Place of its element, low and high.
    pub const ELEMENT: u32 = 6;
    /// First of its entries of B.
    pub const ENTRIES: u32 = 8;
    /// How many there are.
    pub const NUM_ENTRIES: u32 = 9;
    /// First of its children; the one whose element is kept stands first.
    pub const CHILDREN: u32 = 10;
    /// How many there are.
    pub const NUM_CHILDREN: u32 = 11;
    /// If its parent is not worked on next: the parent, or [`NONE`](super::NONE).
    pub const PARENT: u32 = 12;
    /// Number of words.
    pub const LEN: u32 = 16;

    /// The front after it in the order is not the next to be worked on.
    pub const IS_LAST: u32 = 1;
    /// The parent is a large front.
    pub const PARENT_IS_LARGE: u32 = 2;
    /// The element goes to global memory.
    pub const WRITES_ELEMENT: u32 = 4;
    /// The front worked on just before is a child, and its element is still in shared memory.
    pub const HAS_KEPT_CHILD: u32 = 8;
}

/// Words of a child of a small front.
pub mod child {
    /// Place of the element, low and high.
    pub const ELEMENT: u32 = 0;
    /// Rows of the element.
    pub const BELOW: u32 = 2;
    /// The position of each of its rows in the parent, 8 bits each from the lowest.
    pub const POSITIONS: u32 = 3;
    /// Number of words.
    pub const LEN: u32 = POSITIONS + super::SMALL_FRONT / 4;
}

/// Words of a task on a large front.
pub mod task {
    /// Number among the large fronts.
    pub const FRONT: u32 = 0;
    /// Row and column of the tile, 16 bits each from the lowest, or [`WHOLE`].
    pub const TILE: u32 = 1;
    /// Number of pivots.
    pub const PIVOTS: u32 = 2;
    /// Number of rows below them.
    pub const BELOW: u32 = 3;
    /// Place of the front's panels, low and high.
    pub const SLOT: u32 = 4;
    /// Place of its element, low and high.
    pub const ELEMENT: u32 = 6;
    /// First of the tile's entries of B.
    pub const ENTRIES: u32 = 8;
    /// How many there are.
    pub const NUM_ENTRIES: u32 = 9;
    /// First of the tile's pieces of elements.
    pub const PIECES: u32 = 10;
    /// How many there are.
    pub const NUM_PIECES: u32 = 11;
    /// First pivot of the front, in the order of elimination.
    pub const START: u32 = 12;
    /// The parent's number among the large fronts, or [`NONE`](super::NONE).
    pub const PARENT: u32 = 13;
    /// First of the front's flags, one a tile, by rows.
    pub const FLAGS: u32 = 14;
    /// Arrivals before the elements of all children are there.
    pub const ARRIVALS: u32 = 15;
    /// First of the tile's gathered sums.
    pub const SUMS: u32 = 16;
    /// How many there are.
    pub const NUM_SUMS: u32 = 17;
    /// Number of words.
    pub const LEN: u32 = 18;

    /// All of the front is one task.
    pub const WHOLE: u32 = u32::MAX;
}

/// Words of a piece: part of a child's element, added to a tile.
pub mod piece {
    /// Place of the element, low and high.
    pub const ELEMENT: u32 = 0;
    /// Place of the rows' positions in the front, low and high.
    pub const RELATIVE: u32 = 2;
    /// Rows of the element.
    pub const BELOW: u32 = 4;
    /// First row of the piece.
    pub const ROW: u32 = 5;
    /// First column.
    pub const COLUMN: u32 = 6;
    /// Number of rows and of columns, 16 bits each from the lowest.
    pub const SIZES: u32 = 7;
    /// Number of words.
    pub const LEN: u32 = 8;
}

/// Where an entry goes: row and column within the front or the tile, 8 bits each from the lowest, then the exponent
/// of the power of two that it is multiplied with, plus [`EXPONENT_BIAS`].
pub const EXPONENT_BIAS: u32 = 1 << 15;

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
    /// Number of words.
    pub const LEN: usize = 4;
}

/// Extremes, as 64-bit words that are all zero between launches; what was found at the end of one is in its report.
pub mod report {
    /// Largest magnitude in the diagonal blocks of B: bits of an `f64`, which are ordered as the numbers are.
    pub const MAX_B: usize = 0;
    /// Largest magnitude in U.
    pub const MAX_U: usize = 1;
    /// Largest magnitude in L.
    pub const MAX_L: usize = 2;
    /// Largest complement of a pivot that was replaced, counted in the order of elimination; zero if there is none.
    pub const FIRST_PERTURBED: usize = 3;
    /// Likewise of a pivot that is zero.
    pub const FIRST_ZERO: usize = 4;
    /// Likewise of a pivot that is not finite.
    pub const FIRST_NOT_FINITE: usize = 5;
    /// Number of extremes.
    pub const NUM_EXTREMES: usize = 6;
    /// Number of pivots replaced.
    pub const NUM_PERTURBED: usize = 6;
    /// Number of words of a report.
    pub const LEN: usize = 7;
}
