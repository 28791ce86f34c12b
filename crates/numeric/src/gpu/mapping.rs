//! Which threads share the work of a level.

use luge_gpu_kernels::numeric::mapping::Mapping;

use super::plan::ColumnMode;

/// Threads of a warp, as a logarithm.
const WARP_LOG2: u32 = 5;

/// The least team for a column: its rows of U and L have a handful of entries.
const SMALLEST_TEAM_LOG2: u32 = 3;

/// The grid that a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub blocks: u32,
    /// Threads of a block, more than a warp.
    pub threads: u32,
}

impl Grid {
    fn all_threads(self) -> u64 {
        u64::from(self.blocks) * u64::from(self.threads)
    }

    fn block_log2(self) -> u32 {
        self.threads.ilog2()
    }

    fn warps(self) -> u64 {
        self.all_threads() >> WARP_LOG2
    }

    /// Blocks that share a column if all of the grid works on so many; at least one.
    fn blocks_each(self, columns: u64) -> u32 {
        (u64::from(self.blocks) / columns.max(1)).clamp(1, u64::from(Mapping::MAX_PARTS)) as u32
    }

    /// Dense columns that a level with this mapping can use: one for each team that has work.
    pub fn dense_teams(self, mapping: Mapping, columns: u64) -> u64 {
        let teams = if mapping.team_log2 > WARP_LOG2 {
            u64::from(self.blocks)
        } else {
            self.warps()
        };
        teams.min(columns * u64::from(mapping.parts))
    }
}

/// A [`ColumnMode`] that has been chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LevelMode {
    SmallBlock,
    LargeBlock,
    Stream,
}

/// How a level is worked on, with entries found either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub mode: LevelMode,
    pub search: Mapping,
    pub dense: Mapping,
    /// Whether dense columns are expected to take less time.
    pub dense_pays: bool,
}

fn ceil_log2(value: u64) -> u32 {
    value.max(1).next_power_of_two().ilog2()
}

fn mapping(team_log2: u32, lanes_log2: u32, parts: u32, dense: bool) -> Mapping {
    Mapping {
        team_log2,
        lanes_log2,
        dense,
        parts,
    }
}

/// What a level whose columns update their sub-columns consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SourceWork {
    pub columns: u64,
    /// Entries of U right of the diagonal in their rows.
    pub sub_columns: u64,
    /// Entries of L in the columns.
    pub below: u64,
    /// Multiplications.
    pub updates: u64,
    /// Entries of the sub-columns below the row of their column.
    pub walked: u64,
}

impl SourceWork {
    /// The mapping of the level on `grid`.
    pub fn choose(&self, mode: ColumnMode, grid: Grid) -> Choice {
        let columns = self.columns.max(1);
        let mean_below = self.below.div_ceil(columns);
        let block_log2 = grid.block_log2();
        let mode = match mode {
            ColumnMode::SmallBlock => LevelMode::SmallBlock,
            ColumnMode::LargeBlock => LevelMode::LargeBlock,
            ColumnMode::Stream => LevelMode::Stream,
            ColumnMode::Auto if columns >= u64::from(grid.blocks) => LevelMode::SmallBlock,
            // Warps that take a sub-column each are all busy, or would be no faster if there were more to it.
            ColumnMode::Auto if self.sub_columns >= grid.warps() || mean_below <= 32 => {
                LevelMode::LargeBlock
            }
            ColumnMode::Auto => LevelMode::Stream,
        };
        let (search, dense) = match mode {
            LevelMode::SmallBlock => {
                // Equation (4) of GLU 3.0: the threads of the grid, shared out among the columns; but no more than a
                // column has use for, and more than a warp only if columns are fewer than warps.
                let each = (grid.all_threads() / columns).max(1).ilog2();
                let useful = ceil_log2(self.updates.div_ceil(columns));
                let team = useful
                    .min(each.max(WARP_LOG2))
                    .clamp(SMALLEST_TEAM_LOG2, block_log2 - 1);
                (
                    mapping(team, team.min(WARP_LOG2), 1, false),
                    mapping(WARP_LOG2, WARP_LOG2, 1, true),
                )
            }
            LevelMode::LargeBlock => {
                let parts = grid.blocks_each(columns);
                (
                    mapping(block_log2, WARP_LOG2, parts, false),
                    mapping(block_log2, WARP_LOG2, parts, true),
                )
            }
            LevelMode::Stream => {
                let team = ceil_log2(mean_below).clamp(block_log2, grid.all_threads().ilog2());
                let teams = grid.all_threads() >> team;
                let parts = (teams / columns).clamp(1, u64::from(Mapping::MAX_PARTS)) as u32;
                (
                    mapping(team, team, parts, false),
                    mapping(block_log2, block_log2, grid.blocks_each(columns), true),
                )
            }
        };
        // A search reads log₂ of the entries of a sub-column for each update, one after the other. A walk reads two
        // indices and values an entry, whether it is updated or not, and a column is spread and cleared before and
        // after.
        let mean_walk = self.walked / self.sub_columns.max(1);
        let dense_pays =
            4 * self.walked + 4 * self.below < self.updates * u64::from(ceil_log2(mean_walk));
        Choice {
            mode,
            search,
            dense,
            dense_pays,
        }
    }
}

/// What a level whose sub-columns get updates in a fixed order consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TargetWork {
    /// Sub-columns.
    pub targets: u64,
    /// Pairs of a column and a sub-column of it.
    pub updates: u64,
    /// Multiplications.
    pub rows: u64,
    /// Entries of the sub-columns below the row of their first update.
    pub spread: u64,
}

impl TargetWork {
    /// The mapping of the level on `grid`.
    pub fn choose(&self, mode: ColumnMode, grid: Grid) -> Choice {
        let mean_rows = self.rows.div_ceil(self.updates.max(1));
        let block_log2 = grid.block_log2();
        let mode = match mode {
            ColumnMode::SmallBlock => LevelMode::SmallBlock,
            ColumnMode::LargeBlock => LevelMode::LargeBlock,
            ColumnMode::Stream => LevelMode::Stream,
            ColumnMode::Auto if self.targets >= grid.warps() || mean_rows <= 32 => {
                LevelMode::SmallBlock
            }
            ColumnMode::Auto
                if self.targets >= u64::from(grid.blocks)
                    || mean_rows <= u64::from(grid.threads) =>
            {
                LevelMode::LargeBlock
            }
            ColumnMode::Auto => LevelMode::Stream,
        };
        let (search, dense) = match mode {
            LevelMode::SmallBlock => {
                let team = ceil_log2(mean_rows).clamp(SMALLEST_TEAM_LOG2, WARP_LOG2);
                (
                    mapping(team, team, 1, false),
                    mapping(WARP_LOG2, WARP_LOG2, 1, true),
                )
            }
            LevelMode::LargeBlock => (
                mapping(block_log2, block_log2, 1, false),
                mapping(block_log2, block_log2, 1, true),
            ),
            LevelMode::Stream => (
                mapping(
                    block_log2,
                    block_log2,
                    grid.blocks_each(self.targets),
                    false,
                ),
                mapping(block_log2, block_log2, 1, true),
            ),
        };
        // An entry of the column is read, spread, read again and written once for all updates together.
        let mean_spread = self.spread / self.targets.max(1);
        let dense_pays =
            8 * self.spread + 2 * self.rows < self.rows * u64::from(ceil_log2(mean_spread));
        Choice {
            mode,
            search,
            dense,
            dense_pays,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid {
        blocks: 264,
        threads: 256,
    };

    fn work(columns: u64, right: u64, below: u64) -> SourceWork {
        SourceWork {
            columns,
            sub_columns: columns * right,
            below: columns * below,
            updates: columns * right * below,
            walked: 2 * columns * right * below,
        }
    }

    #[test]
    fn modes_follow_the_shape_of_the_level() {
        let many_thin = work(100_000, 3, 3).choose(ColumnMode::Auto, GRID);
        assert_eq!(many_thin.mode, LevelMode::SmallBlock);
        assert_eq!((many_thin.search.team_log2, many_thin.search.parts), (4, 1));
        let medium = work(60, 100, 100).choose(ColumnMode::Auto, GRID);
        assert_eq!(medium.mode, LevelMode::LargeBlock);
        assert_eq!((medium.search.team_log2, medium.search.parts), (8, 4));
        let few_fat = work(1, 500, 500).choose(ColumnMode::Auto, GRID);
        assert_eq!(few_fat.mode, LevelMode::Stream);
        assert_eq!((few_fat.search.team_log2, few_fat.search.parts), (9, 132));
        assert_eq!((few_fat.dense.team_log2, few_fat.dense.parts), (8, 264));
    }

    #[test]
    fn modes_follow_the_updates_of_a_level_in_fixed_order() {
        let mode = |targets, updates, rows| {
            let work = TargetWork {
                targets,
                updates,
                rows,
                spread: rows,
            };
            work.choose(ColumnMode::Auto, GRID).mode
        };
        // A warp for each of many sub-columns, or for short ones.
        assert_eq!(mode(3000, 3000, 3_000_000), LevelMode::SmallBlock);
        assert_eq!(mode(10, 100, 3200), LevelMode::SmallBlock);
        // A block for each if there is one for all, or if it covers a column at once: it has 256 threads.
        assert_eq!(mode(264, 264, 264_000), LevelMode::LargeBlock);
        assert_eq!(mode(10, 100, 3201), LevelMode::LargeBlock);
        assert_eq!(mode(10, 100, 25_600), LevelMode::LargeBlock);
        // Few long ones are shared by blocks.
        assert_eq!(mode(10, 100, 25_601), LevelMode::Stream);
        assert_eq!(mode(263, 263, 263_000), LevelMode::Stream);
    }

    #[test]
    fn mappings_keep_what_the_kernels_ask_for() {
        let grids = [
            GRID,
            Grid {
                blocks: 1,
                threads: 64,
            },
            Grid {
                blocks: 3,
                threads: 64,
            },
        ];
        let modes = [
            ColumnMode::Auto,
            ColumnMode::SmallBlock,
            ColumnMode::LargeBlock,
            ColumnMode::Stream,
        ];
        for grid in grids {
            for mode in modes {
                for columns in [0, 1, 3, 31, 32, 33, 1025, 1 << 31] {
                    for (right, below) in [(0, 0), (1, 0), (0, 1), (1, 1), (33, 7), (1, 1 << 20)] {
                        let source = work(columns, right, below);
                        let target = TargetWork {
                            targets: columns,
                            updates: columns * right,
                            rows: columns * right * below,
                            spread: columns * below,
                        };
                        for choice in [source.choose(mode, grid), target.choose(mode, grid)] {
                            for mapping in [choice.search, choice.dense] {
                                assert!(mapping.parts >= 1);
                                assert!(mapping.lanes_log2 <= mapping.team_log2);
                                assert!(1 << mapping.team_log2 <= grid.all_threads());
                                assert!(columns * u64::from(mapping.parts) < 1 << 32);
                                assert_eq!(Mapping::unpack(mapping.pack()), mapping);
                            }
                            assert!(
                                choice.dense.team_log2 == WARP_LOG2
                                    || choice.dense.team_log2 == grid.block_log2()
                            );
                        }
                    }
                }
            }
        }
    }
}
