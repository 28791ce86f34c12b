//! Words of the lists that the host makes for a solve.
//!
//! Size classes, and the tests in `tests/tests/frontal_solve.rs` that run each of them on the simulator, with A and with
//! its transpose:
//!
//! | class | test |
//! |---|---|
//! | fronts of one pivot and nothing else | `many_right_hand_sides_and_many_blocks` |
//! | fronts of a warp, of up to 32 rows and of more | `solutions_satisfy_the_matrix`, `small_fronts_of_more_rows_than_lanes` |
//! | fronts of a block, of up to [`WHOLE_ROWS`] rows, with one tile of pivots and with several | `solutions_satisfy_the_matrix` |
//! | fronts of more rows, by tiles of [`TILE`], one after another on few blocks; with rows below and without; the last tiles in part | `very_large_fronts_are_solved_by_tiles` |
//! | 1 right-hand side, up to [`MANY`], and more, not a multiple of it | `many_right_hand_sides_and_many_blocks`, `very_large_fronts_are_solved_by_tiles` |
//! | more than [`MAX_NRHS`] right-hand sides | `many_right_hand_sides_and_many_blocks` |
//! | rows of up to [`LONG_ROW`] couplings, of one segment of at most [`SEGMENT`], of several | `long_rows_come_in_segments` |
//! | up to 32 contributions of children to a row, and more | `solutions_satisfy_the_matrix` |

/// Words that describe a front.
pub const FRONT_WORDS: usize = 8;

/// Places of the words of a front.
pub mod front {
    /// First pivot in the order of elimination.
    pub const START: usize = 0;
    /// Number of pivots.
    pub const PIVOTS: usize = 1;
    /// Number of rows below them.
    pub const BELOW: usize = 2;
    /// Where its rows below begin among those of all fronts.
    pub const ROWS: usize = 3;
    /// Where its panels begin, lower half.
    pub const SLOT_LOW: usize = 4;
    /// Upper half of that.
    pub const SLOT_HIGH: usize = 5;
}

/// Words of a task of a warp: a front.
pub const SMALL_WORDS: usize = 1;

/// Words of a task of a block: a front, and a tile or [`WHOLE`].
pub const LARGE_WORDS: usize = 2;

/// Places of the words of a task of a block.
pub mod large {
    /// The front.
    pub const FRONT: usize = 0;
    /// The tile of it.
    pub const TILE: usize = 1;
}

/// In place of a tile: all of the front.
pub const WHOLE: u32 = u32::MAX;

/// Rows of the largest front that is one task of a block, a row a thread.
pub const WHOLE_ROWS: u32 = THREADS;

/// Words of a level: ends of its parts of the lists, which begin where those of the level before end.
pub const LEVEL_WORDS: usize = 7;

/// Places of the words of a level.
pub mod level {
    /// Of the tasks of warps.
    pub const WARPS_UP: usize = 0;
    /// Of the tasks of warps on the way down.
    pub const WARPS_DOWN: usize = 1;
    /// Of the tasks of blocks.
    pub const BLOCKS_UP: usize = 2;
    /// Of the tasks of blocks on the way down.
    pub const BLOCKS_DOWN: usize = 3;
    /// Of the fronts of one pivot and nothing else.
    pub const SINGLES: usize = 4;
    /// Of the rows with couplings of other fronts, and of those with long rows.
    pub const COUPLED: usize = 5;
    /// Of the segments of long rows.
    pub const SEGMENTS: usize = 6;
}

/// Words of a front of one pivot and nothing else.
pub const SINGLE_WORDS: usize = 5;

/// Places of its words.
pub mod single {
    /// Its pivot in the order of elimination.
    pub const PIVOT: usize = 0;
    /// First of its couplings; none where a row of [`coupled`](super::coupled) has them.
    pub const BEGIN: usize = 1;
    /// Their end.
    pub const END: usize = 2;
    /// Where its factor lies, lower half.
    pub const SLOT_LOW: usize = 3;
    /// Upper half of that.
    pub const SLOT_HIGH: usize = 4;
}

/// Couplings of a row from which on it is cut into segments.
pub const LONG_ROW: u32 = 32;

/// Most couplings of a segment.
pub const SEGMENT: u32 = 256;

/// Words of a segment: its first coupling, and the end of them.
pub const SEGMENT_WORDS: usize = 2;

/// Words of a row with couplings.
pub const COUPLED_WORDS: usize = 5;

/// Places of its words.
pub mod coupled {
    /// Its pivot in the order of elimination.
    pub const PIVOT: usize = 0;
    /// First of its couplings, if it is not cut.
    pub const BEGIN: usize = 1;
    /// Their end.
    pub const END: usize = 2;
    /// First of its segments, if it is.
    pub const FIRST_SEGMENT: usize = 3;
    /// Their end.
    pub const END_OF_SEGMENTS: usize = 4;
}

/// Words of the control of a launch.
pub const CONTROL_WORDS: usize = 128;

/// Places of words of the control.
pub mod control {
    /// The barrier of the grid.
    pub const BARRIER: usize = 0;
    /// The largest exponent of each right-hand side.
    pub const EXPONENTS: usize = 64;
}

/// Right-hand sides of one launch, at most.
pub const MAX_NRHS: usize = 64;

/// Right-hand sides that are solved for together if there are several.
pub const MANY: usize = 8;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Rows of a tile, as many as a warp has lanes.
pub const TILE: u32 = 32;
