//! Words of the lists that the host makes for a solve, and of its flags.

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
    /// Its first flag, if it has any.
    pub const FLAGS: usize = 6;
}

/// In place of a flag: there is none.
pub const NO_FLAG: u32 = u32::MAX;

/// Words of a task: fronts that a warp walks, or tiles of a front that a block works on.
pub const TASK_WORDS: usize = 6;

/// Places of the words of a task.
pub mod task {
    /// Of a warp the first front, of a block the front.
    pub const FIRST: usize = 0;
    /// Of a warp the last front, of a block the first tile.
    pub const SECOND: usize = 1;
    /// Of a block the end of its tiles.
    pub const END: usize = 2;
    /// The flag to wait for, relative to the flags of a chunk, or none.
    pub const WAIT: usize = 3;
    /// The value that it must have reached.
    pub const NEEDED: usize = 4;
    /// Upwards the flag to raise, of the parent, or none. Downwards the flag to set, the own, or none.
    pub const SIGNAL: usize = 5;
}

/// Flags of a front that has any, relative to its first.
pub mod flag {
    /// Parts of children that are done on the way up.
    pub const CHILDREN: u32 = 0;
    /// Tiles of pivots that are done on the way up.
    pub const UP: u32 = 1;
    /// Tiles of pivots that are done on the way down, all of them in a front of a warp at once.
    pub const DOWN: u32 = 2;
    /// Number of flags.
    pub const LEN: u32 = 3;
}

/// Words of a level: ends of its parts of the lists, which begin where those of the level before end.
pub const LEVEL_WORDS: usize = 6;

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
    /// Of the rows of other fronts with couplings.
    pub const COUPLED: usize = 5;
}

/// Words of a front of one pivot and nothing else.
pub const SINGLE_WORDS: usize = 5;

/// Places of its words.
pub mod single {
    /// Its pivot in the order of elimination.
    pub const PIVOT: usize = 0;
    /// First of its couplings.
    pub const BEGIN: usize = 1;
    /// Their end.
    pub const END: usize = 2;
    /// Where its factor lies, lower half.
    pub const SLOT_LOW: usize = 3;
    /// Upper half of that.
    pub const SLOT_HIGH: usize = 4;
}

/// Words of a row with couplings: the first three of [`single`].
pub const COUPLED_WORDS: usize = 3;

/// Words of the control of a launch before the flags.
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
