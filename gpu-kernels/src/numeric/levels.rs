//! Columns update their sub-columns by atomic additions, all levels in one launch.

use luge_kernel::prelude::*;

use super::mapping::{Mapping, Team, ceil_log2, quotient};
use super::{Elimination, Factors};
use crate::filled::{ColumnLevels, Filled};
use crate::grid::GridBarrier;

/// What a level's columns are worked on with.
#[derive(Clone, Copy)]
struct Levels<T: Field> {
    factors: Factors<T>,
    level_cols: Global<u32>,
    /// Dense columns of n values, one a team.
    dense: GlobalMut<T>,
    num_dense: u32,
}

/// A column of the level that has sub-columns and entries of L.
#[derive(Clone, Copy)]
struct Column<T: Field> {
    pivot: T,
    /// Entries of U right of the diagonal, by rows.
    right: (u64, u64),
    /// Entries of L, by columns.
    below: (u64, u64),
}

impl<T: Field> Levels<T> {
    /// Number `index` in the order of levels.
    #[inlined]
    fn column(self, index: u64) -> Column<T> {
        let k = self.level_cols.get(index as usize) as usize;
        let row_diagonal = self.factors.filled.diag_pos.get(k);
        let diagonal = self.factors.filled.csr_to_csc.get(row_diagonal as usize);
        Column {
            pivot: self.factors.pivot(diagonal),
            right: (row_diagonal + 1, self.factors.filled.row_ptr.get(k + 1)),
            below: (diagonal + 1, self.factors.filled.col_ptr.get(k + 1)),
        }
    }

    /// The sub-columns of `column` that fall to `part` of `parts` teams of `width` threads, of which `lanes` share one:
    /// calls `update(upper, end, factor, lane)` with the position of U(k, j) ≠ 0, the end of column j, U(k, j) / p and
    /// the number of this thread among those that share it.
    #[inlined]
    fn for_sub_columns(
        self,
        column: Column<T>,
        (part, parts): (u32, u32),
        (rank, width): (u32, u32),
        lanes_log2: u32,
        mut update: impl FnMut(u64, u64, T, u64),
    ) {
        let lane = u64::from(rank & ((1 << lanes_log2) - 1));
        let at_once = u64::from(width >> lanes_log2);
        let first = u64::from(rank >> lanes_log2);
        // A block need not be a multiple of so many threads: the rest has no sub-column.
        if first >= at_once {
            return;
        }
        let mut q = column.right.0 + u64::from(part) * at_once + first;
        while q < column.right.1 {
            let upper = self.factors.filled.csr_to_csc.get(q as usize);
            let u = self.factors.get(upper as usize);
            if u != T::ZERO {
                let j = self.factors.filled.col_idx.get(q as usize) as usize;
                let end = self.factors.filled.col_ptr.get(j + 1);
                update(upper, end, u.quotient(column.pivot), lane);
            }
            q += u64::from(parts) * at_once;
        }
    }

    /// Columns `begin .. begin + width` of the order of levels; rows of sub-columns are found by search.
    ///
    /// Nobody waits within a level, so a team may be any number of consecutive threads, across blocks too.
    #[inlined]
    fn search(self, begin: u64, width: u32, mapping: Mapping) {
        let Mapping {
            team_log2, parts, ..
        } = mapping;
        let index = thread::index_1d();
        let rank = index & ((1 << team_log2) - 1);
        let teams = thread::num_threads_1d() >> team_log2;
        let mut item = index >> team_log2;
        // Threads past the last whole team have no work.
        if item >= teams {
            return;
        }
        while item < width * parts {
            let number = quotient(item, parts);
            let part = item - number * parts;
            let column = self.column(begin + u64::from(number));
            let (first, end) = column.below;
            if first < end {
                let needed = ceil_log2(end - first);
                let lanes_log2 = if needed < mapping.lanes_log2 {
                    needed
                } else {
                    mapping.lanes_log2
                };
                self.for_sub_columns(
                    column,
                    (part, parts),
                    (rank, 1 << team_log2),
                    lanes_log2,
                    |upper, sub_end, factor, lane| {
                        let mut place = upper;
                        let mut p = first + lane;
                        while p < end {
                            let i = self.factors.filled.row_idx.get(p as usize);
                            place = self.factors.find(i, place + 1, sub_end);
                            self.factors
                                .add(place as usize, -(self.factors.get(p as usize) * factor));
                            p += 1 << lanes_log2;
                        }
                    },
                );
            }
            item += teams;
        }
    }

    /// As [`search`](Self::search), with L(·, k) spread out in the dense column of the team, along which the entries of
    /// a sub-column below row k are looked up one after the other.
    ///
    /// Only as many teams work as there are dense columns. Those hold zeros before and after.
    #[inlined]
    fn dense(self, begin: u64, width: u32, mapping: Mapping) {
        let parts = mapping.parts;
        let team = Team::of(mapping.team_log2);
        let teams = if team.count < self.num_dense {
            team.count
        } else {
            self.num_dense
        };
        if team.number >= teams {
            return;
        }
        let n = self.level_cols.len();
        let spread = team.number as usize * n;
        let row = |p: usize| spread + self.factors.filled.row_idx.get(p) as usize;
        let mut item = team.number;
        while item < width * parts {
            let number = quotient(item, parts);
            let part = item - number * parts;
            let column = self.column(begin + u64::from(number));
            let (first, end) = column.below;
            if first < end && column.right.0 < column.right.1 {
                team.for_range(first, end, |p| self.dense.set(row(p), self.factors.get(p)));
                team.sync();
                self.for_sub_columns(
                    column,
                    (part, parts),
                    (team.rank, team.width),
                    mapping.lanes_log2,
                    |upper, sub_end, factor, lane| {
                        let mut p = upper + 1 + lane;
                        while p < sub_end {
                            let l = self.dense.get(row(p as usize));
                            if l != T::ZERO {
                                self.factors.add(p as usize, -(l * factor));
                            }
                            p += 1 << mapping.lanes_log2;
                        }
                    },
                );
                team.sync();
                team.for_range(first, end, |p| self.dense.set(row(p), T::ZERO));
                // Other threads spread the next column.
                team.sync();
            }
            item += teams;
        }
    }
}

/// Eliminates all columns, level by level, in one launch. Leaves U above the diagonal, the pivots as
/// they came on it, and L times the pivot of its column below it.
///
/// A pivot p with |p| < `smallest` is used as ± `smallest` here; it is [`lu_finish`](fn@super::lu_finish) that stores
/// it.
///
/// Threads: persistent grid. `mappings` says for each level how many threads share a column and a sub-column:
///
/// | entries found | team | lanes of a sub-column |
/// |---|---|---|
/// | by search | 2^`team_log2` consecutive threads, also less than a warp or more than a block | as L(·, k) has entries, at most 2^`lanes_log2`; each finds its row in the sorted column j by halving what is left of it |
/// | in dense columns | a warp, or a block for `team_log2` > 5 | 2^`lanes_log2`, which walk along column j below row k |
///
/// Writes: `lu` by atomic additions to components; dense column t by team t alone, whose barriers order spreading, reading and
/// clearing. Orders: see the module; a grid barrier ends each level. Shared memory: none.
///
/// Launch: cooperative, 1-D, a multiple of 32 threads. Preconditions: patterns are the filled pattern
/// by rows and by columns; the levels are those of the relaxed dependencies; mappings have at least one part,
/// `lanes_log2` ≤ `team_log2`, 2^`team_log2` at most the threads of the grid, and where they are dense `team_log2` ≥ 5
/// and 2^`lanes_log2` at most the threads of a team, `num_dense` ≥ 1; `dense` has room for `num_dense` columns and is
/// zero; `barrier` is zero.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(512),
    require(
        elimination.lu.len() == filled.col_idx.len() * T::COMPONENTS,
        filled.row_idx.len() == filled.col_idx.len(),
        filled.csr_to_csc.len() == filled.col_idx.len(),
        levels.ptr.len() > elimination.num_levels as usize,
        elimination.mappings.len() == elimination.num_levels as usize,
        levels.cols.len() == filled.diag_pos.len(),
        filled.row_ptr.len() == filled.diag_pos.len() + 1,
        filled.col_ptr.len() == filled.diag_pos.len() + 1,
        elimination.dense.len() >= elimination.num_dense as usize * filled.diag_pos.len(),
        elimination.barrier.len() >= 1
    )
)]
pub unsafe fn lu_levels<T: Field>(
    elimination: Elimination<T>,
    levels: ColumnLevels,
    filled: Filled,
) {
    let mut grid = GridBarrier::new(elimination.barrier);
    let columns = Levels {
        factors: elimination.factors(filled),
        level_cols: levels.cols,
        dense: elimination.dense,
        num_dense: elimination.num_dense,
    };
    let mut level = 0u32;
    while level < elimination.num_levels {
        let begin = levels.ptr.get(level as usize);
        let width = (levels.ptr.get(level as usize + 1) - begin) as u32;
        let mapping = Mapping::unpack(elimination.mappings.get(level as usize));
        if mapping.dense {
            columns.dense(begin, width, mapping);
        } else {
            columns.search(begin, width, mapping);
        }
        grid.wait();
        level += 1;
    }
}
