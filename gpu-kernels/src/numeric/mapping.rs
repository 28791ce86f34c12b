//! Who works on what in a level: what the host decides of it, and the figures it decides by.

use luge_kernel::prelude::*;

use crate::filled::Filled;

/// How the threads of the grid share the work of one level, packed in a word.
///
/// A team of 2^`team_log2` threads takes a column at a time, `parts` teams share one, and within a team at most
/// 2^`lanes_log2` threads share a sub-column. What "column" and "share" mean, each kernel says.
///
/// Size classes: teams of some lanes, of a warp, of a block, of several blocks; one part of a column and several; entries
/// found by search and in dense columns, as many of these as teams and fewer. Each is run by
/// `lu_levels_matches_reference` and `lu_levels_ordered_matches_reference` in `tests/tests/numeric.rs`.
///
/// ```text
/// bits   31 .. 11   10      9 .. 5       4 .. 0
///        parts      dense   lanes_log2   team_log2
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Logarithm of the number of threads of a team.
    pub team_log2: u32,
    /// Logarithm of the number of threads of a sub-column, at most `team_log2`.
    pub lanes_log2: u32,
    /// Whether entries are found in dense columns instead of by search.
    pub dense: bool,
    /// Teams that share a column, from one to [`Mapping::MAX_PARTS`].
    pub parts: u32,
}

impl Mapping {
    /// The most teams that share a column.
    pub const MAX_PARTS: u32 = (1 << 21) - 1;

    /// The word of this mapping.
    pub fn pack(self) -> u32 {
        self.team_log2 | self.lanes_log2 << 5 | u32::from(self.dense) << 10 | self.parts << 11
    }

    /// The mapping of a word.
    #[inlined]
    pub fn unpack(word: u32) -> Self {
        Self {
            team_log2: word & 31,
            lanes_log2: (word >> 5) & 31,
            dense: (word >> 10) & 1 != 0,
            parts: word >> 11,
        }
    }
}

/// The number of bits of `value` − 1: the smallest power of two that is not below `value` > 0.
#[inlined]
pub(super) fn ceil_log2(value: u64) -> u32 {
    64 - (value - 1).leading_zeros()
}

/// A quotient of two counts, the divisor at least one.
#[inlined]
pub(super) fn quotient(dividend: u32, divisor: u32) -> u32 {
    dividend.checked_div(divisor).unwrap_or(0)
}

/// Threads that can wait for each other: part of a warp, or a block.
///
/// All of them call what they call of this in the same order.
#[derive(Clone, Copy)]
pub(super) struct Team {
    /// Number of this thread in the team.
    pub rank: u32,
    /// Threads of the team.
    pub width: u32,
    /// Number of the team in the grid.
    pub number: u32,
    /// Teams of the grid.
    pub count: u32,
    /// Its lanes; zero for a block.
    mask: u32,
}

impl Team {
    /// A block if 2^`log2` threads are more than a warp, else so many lanes.
    #[inlined]
    pub fn of(log2: u32) -> Self {
        if log2 > 5 {
            return Self {
                rank: thread::thread_idx_x(),
                width: thread::block_dim_x(),
                number: thread::block_idx_x(),
                count: thread::grid_dim_x(),
                mask: 0,
            };
        }
        let width = 1 << log2;
        let lane = thread::lane_id();
        Self {
            rank: lane & (width - 1),
            width,
            number: thread::index_1d() >> log2,
            count: thread::num_threads_1d() >> log2,
            mask: (warp::FULL_MASK >> (warp::WARP_SIZE - width)) << (lane & !(width - 1)),
        }
    }

    /// What a thread of the team wrote before, all of them see afterwards.
    #[inlined]
    pub fn sync(self) {
        if self.mask == 0 {
            thread::sync_threads();
        } else {
            warp::sync_warp(self.mask);
        }
    }

    /// Calls `f(p)` for `begin` ≤ p < `end`, each by one thread.
    #[inlined]
    pub fn for_range(self, begin: u64, end: u64, mut f: impl FnMut(usize)) {
        let mut p = begin + u64::from(self.rank);
        while p < end {
            f(p as usize);
            p += u64::from(self.width);
        }
    }
}

/// Places of the figures of a level in the `shapes` of [`level_shapes`](fn@level_shapes).
pub mod shape {
    /// Entries of U right of the diagonal in the rows of the level: its sub-columns.
    pub const SUB_COLUMNS: usize = 0;
    /// Entries of L in the columns of the level.
    pub const BELOW: usize = 1;
    /// Products of the two, column by column: the multiplications of the level.
    pub const UPDATES: usize = 2;
    /// Entries of the sub-columns below the row of their column: what a walk along all of them visits.
    pub const WALKED: usize = 3;
    /// Number of figures.
    pub const LEN: usize = 4;
}

/// The figures of [`shape`] of every level, [`shape::LEN`] one after the other.
///
/// Threads: a warp takes `per_warp` consecutive columns in the order of `level_cols` and adds its sums where the level
/// changes, so that a level of many columns does not queue at one address; lanes take entries of the row.
/// Writes: `shapes` by atomic additions of integers. Shared memory: none. Launch: 1-D, a multiple of 32 threads.
/// Preconditions: patterns are the filled pattern by rows and by columns; `shapes` is zero; `per_warp` times the number
/// of warps covers the columns.
#[kernel(
    max_threads(1024),
    require(
        per_warp > 0,
        level_cols.len() == filled.diag_pos.len(),
        level_of.len() == filled.diag_pos.len(),
        filled.row_ptr.len() == filled.diag_pos.len() + 1,
        filled.col_ptr.len() == filled.diag_pos.len() + 1,
        filled.csr_to_csc.len() == filled.col_idx.len()
    )
)]
pub unsafe fn level_shapes(
    per_warp: u32,
    level_of: Global<u32>,
    level_cols: Global<u32>,
    filled: Filled,
    shapes: GlobalMut<u64>,
) {
    let n = level_cols.len();
    let lane = u64::from(thread::lane_id());
    let mut at = (thread::index_1d() / warp::WARP_SIZE) as usize * per_warp as usize;
    let end = if at + (per_warp as usize) < n {
        at + per_warp as usize
    } else {
        n
    };
    let (mut sub_columns, mut below_sum, mut updates, mut walked) = (0u64, 0u64, 0u64, 0u64);
    while at < end {
        let k = level_cols.get(at) as usize;
        let level = level_of.get(k);
        let row_diagonal = filled.diag_pos.get(k);
        let row_end = filled.row_ptr.get(k + 1);
        let mut q = row_diagonal + 1 + lane;
        while q < row_end {
            let j = filled.col_idx.get(q as usize) as usize;
            walked += filled.col_ptr.get(j + 1) - filled.csr_to_csc.get(q as usize) - 1;
            q += u64::from(warp::WARP_SIZE);
        }
        let right = row_end - row_diagonal - 1;
        let below = filled.col_ptr.get(k + 1) - filled.csr_to_csc.get(row_diagonal as usize) - 1;
        sub_columns += right;
        below_sum += below;
        updates += right * below;
        at += 1;
        if at == end || level_of.get(level_cols.get(at) as usize) != level {
            let first = level as usize * shape::LEN;
            let add = |which: usize, sum: u64| {
                shapes
                    .atomic(first + which)
                    .reduce_add(sum, Ordering::Relaxed, Scope::Device);
            };
            add(shape::WALKED, walked);
            if lane == 0 {
                add(shape::SUB_COLUMNS, sub_columns);
                add(shape::BELOW, below_sum);
                add(shape::UPDATES, updates);
            }
            (sub_columns, below_sum, updates, walked) = (0, 0, 0, 0);
        }
    }
}
