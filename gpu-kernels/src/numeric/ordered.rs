//! Sub-columns have owners, which add updates in a fixed order: the same bits in every run.
//!
//! The columns of a level that update column j do so one after the other, in increasing order, by the team that owns
//! j in this level. So every entry is one chain of operations, by level and then by column, in which neither grid nor
//! schedule nor the way entries are found enters. There are no additions of floating-point numbers by atomics.
//!
//! The price: a column that many columns of one level update waits for all of them in turn.

use luge_kernel::prelude::*;

use super::mapping::{Mapping, Team, quotient};
use super::{Elimination, Factors};
use crate::filled::Filled;
use crate::grid::GridBarrier;

/// The updates in the order in which they are made; see [`lu_levels_ordered`](fn@lu_levels_ordered).
#[derive(Clone, Copy, KernelArgs)]
pub struct Updates {
    /// Where the targets of each level begin, and the end of the last.
    pub target_ptr: Global<u64>,
    /// Columns that get updates, level by level.
    pub target_cols: Global<u32>,
    /// Where the updates of each target begin, and the end of the last.
    pub update_ptr: Global<u64>,
    /// Positions of the entries of U that the updates are made with.
    pub updates: Global<u64>,
}

/// Columns with the updates that they get in a level, and the dense columns of the teams.
#[derive(Clone, Copy)]
struct Ordered<T: Field> {
    factors: Factors<T>,
    updates: Updates,
    /// Dense columns of n values, one a team.
    dense: GlobalMut<T>,
    num_dense: u32,
}

impl<T: Field> Ordered<T> {
    /// Calls `change(upper, factor, begin, end)` for the updates `first..last` in order, with the position of U(k, j),
    /// U(k, j) / p and the entries of L(·, k). The team waits behind each.
    #[inlined]
    fn for_updates(
        self,
        team: Team,
        (first, last): (u64, u64),
        mut change: impl FnMut(u64, T, u64, u64),
    ) {
        let mut update = first;
        while update < last {
            let upper = self.updates.updates.get(update as usize);
            let u = self.factors.get(upper as usize);
            if u != T::ZERO {
                let k = self.factors.filled.row_idx.get(upper as usize) as usize;
                let diagonal = self.factors.diagonal(k);
                let factor = u.quotient(self.factors.pivot(diagonal));
                change(
                    upper,
                    factor,
                    diagonal + 1,
                    self.factors.filled.col_ptr.get(k + 1),
                );
            }
            update += 1;
            // Two updates may change the same entry.
            if update < last {
                team.sync();
            }
        }
    }

    /// Columns `begin..end` of the targets, of which `parts` teams share one that gets a single update.
    #[inlined]
    fn search(self, (begin, end): (u64, u64), mapping: Mapping) {
        let team = Team::of(mapping.team_log2);
        let parts = mapping.parts;
        let items = (end - begin) as u32 * parts;
        let mut item = team.number;
        while item < items {
            let number = quotient(item, parts);
            let part = item - number * parts;
            let at = (begin + u64::from(number)) as usize;
            let (first, last) = (
                self.updates.update_ptr.get(at),
                self.updates.update_ptr.get(at + 1),
            );
            let j = self.updates.target_cols.get(at) as usize;
            let column_end = self.factors.filled.col_ptr.get(j + 1);
            // Rows of one update have nobody to wait for, so teams may share them.
            let sharing = if last - first == 1 { parts } else { 1 };
            if part < sharing {
                self.for_updates(team, (first, last), |upper, factor, below, below_end| {
                    let mut place = upper;
                    let mut p = below + u64::from(part * team.width + team.rank);
                    while p < below_end {
                        let i = self.factors.filled.row_idx.get(p as usize);
                        place = self.factors.find(i, place + 1, column_end);
                        let l = self.factors.get(p as usize);
                        let value = self.factors.get(place as usize);
                        self.factors
                            .set(place as usize, (-l).mul_add(factor, value));
                        p += u64::from(sharing * team.width);
                    }
                });
            }
            item += team.count;
        }
    }

    /// As [`search`](Self::search), with what changes of column j spread out in the dense column of the team. Only as
    /// many teams work as there are dense columns.
    #[inlined]
    fn dense(self, (begin, end): (u64, u64), mapping: Mapping) {
        let team = Team::of(mapping.team_log2);
        let teams = if team.count < self.num_dense {
            team.count
        } else {
            self.num_dense
        };
        if team.number >= teams {
            return;
        }
        let n = self.factors.filled.diag_pos.len();
        let spread = team.number as usize * n;
        let row = |p: usize| spread + self.factors.filled.row_idx.get(p) as usize;
        let mut at = begin + u64::from(team.number);
        while at < end {
            let first = self.updates.update_ptr.get(at as usize);
            let last = self.updates.update_ptr.get(at as usize + 1);
            let j = self.updates.target_cols.get(at as usize) as usize;
            // Updates change rows below that of the first one.
            let changed = self.updates.updates.get(first as usize) + 1;
            let column_end = self.factors.filled.col_ptr.get(j + 1);
            team.for_range(changed, column_end, |p| {
                self.dense.set(row(p), self.factors.get(p));
            });
            team.sync();
            self.for_updates(team, (first, last), |_, factor, below, below_end| {
                team.for_range(below, below_end, |p| {
                    let l = self.factors.get(p);
                    let value = self.dense.get(row(p));
                    self.dense.set(row(p), (-l).mul_add(factor, value));
                });
            });
            team.sync();
            team.for_range(changed, column_end, |p| {
                self.factors.set(p, self.dense.get(row(p)));
            });
            // Other threads spread the next column.
            team.sync();
            at += u64::from(teams);
        }
    }
}

/// As [`lu_levels`](fn@super::levels::lu_levels), with the updates of each entry in a fixed order.
///
/// In level l the columns `target_cols[t]`, `target_ptr[l] <= t < target_ptr[l + 1]`, get the updates
/// `updates[update_ptr[t]] .. updates[update_ptr[t + 1]]`: positions, by columns, of the entries U(k, j) of their columns
/// j whose columns k are in level l, increasing.
///
/// Threads: persistent grid. A team of 2^`team_log2` lanes, or a block if that is more than a warp, owns a target; its
/// threads take entries of L(·, k), and find their rows in column j by search or in the team's dense column. By search,
/// `parts` teams share a target with a single update. `lanes_log2` has no meaning here.
/// Writes: the entries of column j by the teams that own it in this level, each entry by one thread between two
/// barriers of the team; dense column t by team t alone. Orders: see the modules; a grid barrier ends each level. Shared
/// memory: none.
///
/// Launch: cooperative, 1-D, a multiple of 32 threads. Preconditions: patterns are the filled pattern by rows and by
/// columns; updates are as above, for levels of the relaxed dependencies; a level has less than 2³² targets times
/// parts; mappings have at least one part, one if they are dense, and then `num_dense` ≥ 1; `dense` has room for
/// `num_dense` columns; `barrier` is zero.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(512),
    require(
        elimination.lu.len() == filled.row_idx.len() * T::COMPONENTS,
        filled.csr_to_csc.len() == filled.row_idx.len(),
        elimination.mappings.len() == elimination.num_levels as usize,
        updates.target_ptr.len() == elimination.num_levels as usize + 1,
        updates.update_ptr.len() == updates.target_cols.len() + 1,
        filled.col_ptr.len() == filled.diag_pos.len() + 1,
        elimination.dense.len() >= elimination.num_dense as usize * filled.diag_pos.len(),
        elimination.barrier.len() >= 1
    )
)]
pub unsafe fn lu_levels_ordered<T: Field>(
    elimination: Elimination<T>,
    updates: Updates,
    filled: Filled,
) {
    let mut grid = GridBarrier::new(elimination.barrier);
    let ordered = Ordered {
        factors: elimination.factors(filled),
        updates,
        dense: elimination.dense,
        num_dense: elimination.num_dense,
    };
    let mut level = 0u32;
    while level < elimination.num_levels {
        let targets = (
            updates.target_ptr.get(level as usize),
            updates.target_ptr.get(level as usize + 1),
        );
        let mapping = Mapping::unpack(elimination.mappings.get(level as usize));
        if mapping.dense {
            ordered.dense(targets, mapping);
        } else {
            ordered.search(targets, mapping);
        }
        grid.wait();
        level += 1;
    }
}
