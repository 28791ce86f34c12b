//! Which forests tell what of the table of costs.
//!
//! | group | forests | entries |
//! |---|---|---|
//! | [`SmallChains`](Group::SmallChains) | one chain of small fronts: one warp | `small_front`, `small_pivot` |
//! | [`SmallForests`](Group::SmallForests) | many small trees at once | `small_front_shared`, `warps` |
//! | [`SmallTrees`](Group::SmallTrees) | one binary tree of small fronts, whose two subtrees end together | `join` |
//! | [`WholeChains`](Group::WholeChains) | one chain of fronts that blocks work on as a whole | `whole_front`, `whole_pivot` |
//! | [`WholeForests`](Group::WholeForests) | many such fronts at once | `blocks` |
//! | [`TiledFronts`](Group::TiledFronts) | one dense front of many tiles, and many of some | `step`, `tile` |
//! | [`SolveChains`](Group::SolveChains) | chains of small fronts, of whole ones, a dense one; solves | `solve_front`, `solve_pivot`, `solve_tile` |
//!
//! In each group a launch is unknown too: what is timed on any matrix. What other groups tell is taken from the table, so
//! groups are fitted in turn until the table stays.

use luge_frontal::gpu::DeviceCosts;

use super::fit::nonnegative_least_squares;
use super::forests::Forest;
use super::model::{Entry, Work};

/// Forests that are fitted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// One chain of small fronts.
    SmallChains,
    /// Many trees of small fronts.
    SmallForests,
    /// One binary tree of small fronts.
    SmallTrees,
    /// One chain of whole fronts.
    WholeChains,
    /// Many whole fronts.
    WholeForests,
    /// Dense fronts of many tiles.
    TiledFronts,
    /// Solves on one path.
    SolveChains,
}

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// A refactorization, on the device's clock.
    Factorization,
    /// A solve, on the device's clock.
    Solve,
}

/// A forest with a name.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it is.
    pub name: String,
    /// The fronts.
    pub forest: Forest,
}

fn case(name: String, forest: Forest) -> Case {
    Case { name, forest }
}

/// A case in a fit: what the unknowns are multiplied with, the launch first; and seconds that are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// A coefficient for each unknown.
    pub coefficients: Vec<f64>,
    /// Seconds from the table.
    pub known: f64,
}

impl Row {
    /// Seconds with these values of the unknowns.
    pub fn seconds(&self, solution: &[f64]) -> f64 {
        let unknown = self.coefficients.iter().zip(solution);
        self.known + unknown.map(|(a, x)| a * x).sum::<f64>()
    }
}

impl Group {
    /// All of them, in the order in which they are fitted.
    pub const ALL: [Self; 7] = [
        Self::SmallChains,
        Self::SmallForests,
        Self::SmallTrees,
        Self::WholeChains,
        Self::WholeForests,
        Self::TiledFronts,
        Self::SolveChains,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmallChains => "chains of small fronts",
            Self::SmallForests => "many small trees",
            Self::SmallTrees => "binary trees of small fronts",
            Self::WholeChains => "chains of whole fronts",
            Self::WholeForests => "many whole fronts",
            Self::TiledFronts => "fronts in tiles",
            Self::SolveChains => "solves",
        }
    }

    /// What is timed.
    pub fn timed(self) -> Timed {
        match self {
            Self::SolveChains => Timed::Solve,
            _ => Timed::Factorization,
        }
    }

    /// The forests; tiny ones only show that the program runs.
    pub fn cases(self, tiny: bool) -> Vec<Case> {
        /// Numbers of fronts for a device, or tiny ones.
        fn counts(tiny: bool, few: usize, many: usize) -> [usize; 2] {
            if tiny { [2, 4] } else { [few, many] }
        }
        let chains = |sizes: &[(u32, u32)], few, many| {
            let case_of = |count, &(pivots, below): &(u32, u32)| {
                case(
                    format!("chain of {count}, {pivots} pivots, {below} below"),
                    Forest::chain(count, pivots, below),
                )
            };
            let counts = counts(tiny, few, many).into_iter();
            let sizes = if tiny { &sizes[..2] } else { sizes };
            counts
                .flat_map(|count| sizes.iter().map(move |size| case_of(count, size)))
                .collect::<Vec<_>>()
        };
        let alone = |count: usize, pivots: u32| {
            let name = format!("{count} fronts of {pivots} pivots");
            case(name, Forest::alone(count, pivots))
        };
        match self {
            Self::SmallChains => chains(&[(1, 3), (2, 6), (4, 4), (6, 10), (8, 8)], 500, 2000),
            Self::SmallForests => {
                let counts = counts(tiny, 2000, 8000).into_iter();
                let forests = counts.flat_map(|trees| [1, 4, 8].map(|pivots| (trees, pivots)));
                forests
                    .map(|(trees, pivots)| {
                        let levels = if tiny { 2 } else { 4 };
                        let name =
                            format!("{trees} trees of {levels} levels, {pivots} pivots, 4 below");
                        case(name, Forest::binary_trees(trees, levels, pivots, 4))
                    })
                    .collect()
            }
            Self::SmallTrees => (if tiny { 1..4 } else { 2..11 })
                .map(|levels| {
                    let name = format!("tree of {levels} levels, 8 pivots, 8 below");
                    case(name, Forest::binary_trees(1, levels, 8, 8))
                })
                .collect(),
            Self::WholeChains => chains(&[(4, 24), (16, 24), (32, 32), (48, 40)], 50, 200),
            Self::WholeForests => {
                let counts = counts(tiny, 1000, 4000).into_iter();
                let sizes: &[u32] = if tiny { &[24] } else { &[24, 48, 90] };
                let forests = counts.flat_map(|count| sizes.iter().map(move |&k| (count, k)));
                forests
                    .map(|(count, pivots)| alone(count, pivots))
                    .collect()
            }
            Self::TiledFronts if tiny => [(1, 96), (1, 130), (2, 96)]
                .map(|(count, pivots)| alone(count, pivots))
                .to_vec(),
            Self::TiledFronts => [
                (1, 128),
                (1, 256),
                (1, 512),
                (1, 1024),
                (1, 2048),
                (64, 256),
                (128, 512),
                (256, 512),
                (32, 1024),
            ]
            .map(|(count, pivots)| alone(count, pivots))
            .to_vec(),
            Self::SolveChains => {
                let mut cases = chains(&[(1, 7), (4, 8), (16, 16), (31, 32)], 300, 1000);
                if tiny {
                    cases.push(alone(1, 64));
                } else {
                    cases.extend(chains(&[(64, 64), (160, 64)], 50, 150));
                    cases.extend([512, 1024].map(|pivots| alone(1, pivots)));
                }
                cases
            }
        }
    }

    /// The unknowns behind the launch, as they are in results.
    pub fn unknowns(self) -> &'static [&'static str] {
        match self {
            Self::SmallChains => &["small_front", "small_pivot"],
            Self::SmallForests => &["small_front_shared / warps", "1 / warps"],
            Self::SmallTrees => &["join"],
            Self::WholeChains => &["whole_front", "whole_pivot"],
            Self::WholeForests => &["1 / blocks"],
            Self::TiledFronts => &["step", "tile"],
            Self::SolveChains => &["solve_front", "solve_pivot", "solve_tile"],
        }
    }

    /// A case, with a table for what is not unknown in this group.
    pub fn row(self, work: &Work, costs: &DeviceCosts) -> Row {
        let (path, shared) = (&work.path, &work.shared);
        let without = |entry: Entry, seconds: fn(&Work, &DeviceCosts) -> f64| {
            let mut costs = *costs;
            *entry.of(&mut costs) = 0.0;
            seconds(work, &costs)
        };
        let (unknown, known) = match self {
            Self::SmallChains => (
                vec![path.small_fronts, path.small_pivots],
                work.shared_seconds(costs),
            ),
            Self::SmallForests => (
                vec![shared.small_fronts, shared.small_pivots * costs.small_pivot],
                work.path_seconds(costs),
            ),
            Self::SmallTrees => (
                vec![path.joins],
                without(Entry::Join, Work::path_seconds) + work.shared_seconds(costs),
            ),
            Self::WholeChains => (
                vec![path.large_fronts, path.whole_pivots],
                path.joins * costs.join + work.shared_seconds(costs),
            ),
            Self::WholeForests => (vec![work.whole_seconds(costs)], work.path_seconds(costs)),
            Self::TiledFronts => (
                vec![path.tile_steps, shared.tile_updates / costs.blocks],
                without(Entry::Step, Work::path_seconds),
            ),
            Self::SolveChains => (
                vec![work.solve_fronts, work.solve_pivots, work.solve_tiles],
                0.0,
            ),
        };
        Row {
            coefficients: [vec![1.0], unknown].concat(),
            known,
        }
    }

    /// Puts the unknowns into a table. What came out as zero tells nothing, and stays as it was.
    fn put(self, solution: &[f64], costs: &mut DeviceCosts) {
        let mut set = |entry: Entry, value: f64| {
            if value > 0.0 && value.is_finite() {
                *entry.of(costs) = value;
            }
        };
        match (self, &solution[1..]) {
            (Self::SmallChains, &[front, pivot]) => {
                set(Entry::SmallFront, front);
                set(Entry::SmallPivot, pivot);
            }
            (Self::SmallForests, &[front, inverse]) => {
                set(Entry::Warps, 1.0 / inverse);
                let warps = costs.warps;
                costs.small_front_shared = Some(front * warps)
                    .filter(|&seconds| seconds > 0.0)
                    .unwrap_or(costs.small_front_shared);
            }
            (Self::SmallTrees, &[join]) => set(Entry::Join, join),
            (Self::WholeChains, &[front, pivot]) => {
                set(Entry::WholeFront, front);
                set(Entry::WholePivot, pivot);
            }
            (Self::WholeForests, &[inverse]) => set(Entry::Blocks, 1.0 / inverse),
            (Self::TiledFronts, &[step, tile]) => {
                set(Entry::Step, step);
                set(Entry::Tile, tile);
            }
            (Self::SolveChains, &[front, pivot, tile]) => {
                set(Entry::SolveFront, front);
                set(Entry::SolvePivot, pivot);
                set(Entry::SolveTile, tile);
            }
            _ => unreachable!("a value for each unknown"),
        }
    }

    /// Fits the unknowns to seconds of each case, every case by its relative error, and puts them into the table.
    /// Returns them, the launch first.
    pub fn fit(self, cases: &[(Work, f64)], costs: &mut DeviceCosts) -> Vec<f64> {
        let (mut rows, mut right) = (Vec::new(), Vec::new());
        for (work, seconds) in cases {
            let Row {
                coefficients,
                known,
            } = self.row(work, costs);
            rows.push(coefficients.iter().map(|a| a / seconds).collect());
            right.push((seconds - known) / seconds);
        }
        let unknowns = 1 + self.unknowns().len();
        let solution = nonnegative_least_squares(unknowns, &rows, &right);
        self.put(&solution, costs);
        solution
    }
}

/// How often all groups are fitted, each with what the others told before.
const ROUNDS: usize = 20;

/// Fits a table to the seconds of all cases, group by group; begins with `costs`. Returns the unknowns of each group too.
pub fn fit_all(
    measured: &[(Group, Vec<(Work, f64)>)],
    mut costs: DeviceCosts,
) -> (DeviceCosts, Vec<Vec<f64>>) {
    let mut solutions = Vec::new();
    for _ in 0..ROUNDS {
        let groups = measured.iter();
        solutions = groups
            .map(|(group, cases)| group.fit(cases, &mut costs))
            .collect();
    }
    (costs, solutions)
}

#[cfg(test)]
mod tests {
    use luge_frontal::Full;

    use super::*;

    /// A table unlike the default, and seconds of a launch.
    const LAUNCH: f64 = 7e-6;
    fn other() -> DeviceCosts {
        let mut costs = DeviceCosts::default();
        for (at, entry) in Entry::ALL.into_iter().enumerate() {
            *entry.of(&mut costs) *= 0.6 + 0.07 * at as f64;
        }
        costs
    }

    fn seconds(group: Group, work: &Work, costs: &DeviceCosts) -> f64 {
        match group.timed() {
            Timed::Factorization => work.path_seconds(costs) + work.shared_seconds(costs),
            Timed::Solve => {
                work.solve_fronts * costs.solve_front
                    + work.solve_pivots * costs.solve_pivot
                    + work.solve_tiles * costs.solve_tile
            }
        }
    }

    /// From seconds that a table predicts, that table comes out.
    #[test]
    fn a_table_is_found_by_what_it_predicts() {
        let costs = other();
        let measured: Vec<_> = Group::ALL
            .into_iter()
            .map(|group| {
                let cases = group.cases(false).into_iter().map(|case| {
                    let work = Work::of(&case.forest);
                    (work, LAUNCH + seconds(group, &work, &costs))
                });
                (group, cases.collect::<Vec<_>>())
            })
            .collect();
        let (found, solutions) = fit_all(&measured, DeviceCosts::default());
        for entry in Entry::ALL.into_iter().filter(|e| *e != Entry::Call) {
            let (found, expected) = (entry.value(&found), entry.value(&costs));
            let error = (found / expected - 1.0).abs();
            assert!(
                error < 1e-3,
                "{}: {found:e}, not {expected:e}",
                entry.name()
            );
        }
        for (solution, (group, _)) in solutions.iter().zip(&measured) {
            assert!(
                (solution[0] / LAUNCH - 1.0).abs() < 0.1,
                "{group:?}: {solution:?}"
            );
        }
    }

    /// The seconds that are fitted are those that `DeviceCosts` predicts.
    #[test]
    fn the_model_is_that_of_the_prediction() {
        let costs = other();
        for group in Group::ALL {
            let cases = [group.cases(true), group.cases(false)].concat();
            for case in cases
                .into_iter()
                .filter(|case| case.forest.fronts.len() < 1000)
            {
                let work = Work::of(&case.forest);
                let (symbolic, _) = case.forest.symbolic().unwrap();
                let predicted = costs.of_tree::<Full>(symbolic.tree());
                let expected = match group.timed() {
                    Timed::Factorization => predicted.path + predicted.shared,
                    Timed::Solve => predicted.solve_path,
                };
                let found = seconds(group, &work, &costs);
                let error = (found / expected - 1.0).abs();
                assert!(error < 1e-9, "{}: {found:e}, not {expected:e}", case.name);
            }
        }
    }

    #[test]
    fn rows_and_solutions_fit_together() {
        let costs = other();
        for group in Group::ALL {
            let forest = &group.cases(true)[0].forest;
            let row = group.row(&Work::of(forest), &costs);
            assert_eq!(row.coefficients.len(), 1 + group.unknowns().len());
            let zeros = vec![0.0; row.coefficients.len()];
            assert_eq!(row.seconds(&zeros), row.known);
            // Nothing that was found to be zero is taken over.
            let mut kept = costs;
            group.put(&zeros, &mut kept);
            assert_eq!(kept, costs, "{group:?}");
        }
    }
}
