//! What a factorization and a solve on the device are predicted to take, from the shape of the assembly tree.
//!
//! Two things bound a factorization: the longest path from a leaf to a root, on which nothing is done side by side, and
//! the work of all fronts, which is shared by as many warps and blocks as the device holds. The prediction is their
//! sum, by which no list schedule is beaten (R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl.
//! Math. 17, 1969, gives it for equal workers); a solve counts by the longest path alone. Linear in the number of
//! fronts.

use luge_gpu_kernels::frontal::plan::{SMALL_FRONT, TILE, WIDE_TILE};
use luge_gpu_kernels::frontal::solve::layout::TILE as SOLVE_TILE;
use luge_sparse::etree::{EliminationForest, NONE};

use super::classes::{FrontClass, Limits, Shape};
use super::tiles::{Tile, Tiling};
use crate::storage::Storage;
use crate::tree::{
    AssemblyTree, CostModel, End, Ends, PathCosts, Supernodes, TreeOptions, supernodes,
};

/// Seconds that the steps of a factorization and of a solve take on a device, in `f64`: the one table from which orders of
/// tasks are planned, and seconds predicted.
///
/// [Small fronts](luge_gpu_kernels::frontal::plan) are worked on by warps, others by blocks: as a whole, or in tiles. All
/// entries are positive. `cargo xtask bench device-costs` measures them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceCosts {
    /// A small front, whatever its size, on the path to the root.
    pub small_front: f64,
    /// A pivot of a small front, likewise.
    pub small_pivot: f64,
    /// A small front where its warp shares the device with all others, its pivots not counted.
    pub small_front_shared: f64,
    /// From the end of a front to the beginning of its parent, if another warp or a block works on that.
    pub join: f64,
    /// A front that a block works on as a whole, whatever its size.
    pub whole_front: f64,
    /// A pivot of such a front.
    pub whole_pivot: f64,
    /// From one diagonal tile of a front to the next.
    pub step: f64,
    /// A tile, for each diagonal tile that it is updated by.
    pub tile: f64,
    /// From one diagonal tile of a wide front to the next.
    pub wide_step: f64,
    /// A tile of a wide front, for each diagonal tile that it is updated by.
    pub wide_tile: f64,
    /// Warps that work on small fronts at once.
    pub warps: f64,
    /// Blocks that work on others at once.
    pub blocks: f64,
    /// A front on the path of a solve, up and down, whatever its size.
    pub solve_front: f64,
    /// A pivot of such a front, likewise.
    pub solve_pivot: f64,
    /// Each 32 pivots of such a front, beside that, likewise.
    pub solve_tile: f64,
    /// What a refactorization and a solve of the smallest matrix take for a caller: launches, copies, waits.
    pub call: f64,
    /// A copy between two devices, whatever its size.
    pub crossing: f64,
    /// A byte of such copies.
    pub byte_across: f64,
    /// Solves for each factorization.
    pub solves: f64,
}

impl Default for DeviceCosts {
    /// Measured on an H200 by `luge-bench device-costs` on 2026-11-24 (`benches/results/2026-11-24-h200/device-costs.json`);
    /// one solve for each factorization. What a tile adds to a solve beside its pivots could not be told from nothing. The
    /// entries of wide tiles are estimates: the program does not measure them. Two H200 that NVLink connects copy 394 GB/s one
    /// way.
    fn default() -> Self {
        Self {
            small_front: 0.70e-6,
            small_pivot: 0.45e-6,
            small_front_shared: 1.49e-6,
            join: 2.38e-6,
            whole_front: 0.98e-6,
            whole_pivot: 0.55e-6,
            step: 40.1e-6,
            tile: 8.6e-6,
            wide_step: 100e-6,
            wide_tile: 14e-6,
            warps: 1555.0,
            blocks: 300.0,
            solve_front: 1.76e-6,
            solve_pivot: 0.17e-6,
            solve_tile: 0.1e-6,
            call: 71.4e-6,
            crossing: 15e-6,
            byte_across: 2.6e-12,
            solves: 1.0,
        }
    }
}

/// Bytes that the memory of a device moves, and operations that it does in large fronts, a second: about those of an H200.
/// They decide which of two fronts are merged, where half or twice as much would hardly change any.
const BYTES_PER_SECOND: f64 = 4e12;
const FLOPS_PER_SECOND: f64 = 10e12;

/// A number that is the smaller the more seconds there are, which are not negative: the bits of such numbers are in the
/// order of the numbers.
pub(super) fn longest_first_key(seconds: f64) -> u64 {
    !seconds.to_bits()
}

/// Predicted seconds on the device. Meant to be compared with other predictions, not with a clock.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DevicePrediction {
    /// The longest path through the tree in a factorization.
    pub path: f64,
    /// The work of a factorization, shared by all warps and blocks.
    pub shared: f64,
    /// The longest path through the tree and back, of all solves that come with a factorization.
    pub solve_path: f64,
}

impl DevicePrediction {
    /// A factorization and the solves that come with it.
    pub fn seconds(&self) -> f64 {
        self.path + self.shared + self.solve_path
    }
}

/// What is known of the subtrees below a front when it is reached.
#[derive(Debug, Clone, Copy, Default)]
struct Below {
    ends: Ends,
    /// Seconds of the longest path to a leaf in a solve.
    solve: f64,
}

/// What the tiles of a front take.
#[derive(Debug, Clone, Copy)]
struct TileCosts {
    /// Rows and columns of a tile.
    side: u32,
    /// From one diagonal tile to the next.
    step: f64,
    /// A tile, for each diagonal tile that it is updated by.
    tile: f64,
    /// Blocks that work on tiles at once.
    blocks: f64,
}

impl DeviceCosts {
    /// Those for numbers with so many components, by multiplications in a factorization and by bytes in a solve: of complex
    /// numbers nothing was measured yet.
    pub fn of_components(self, components: usize) -> Self {
        if components == 1 {
            return self;
        }
        let bytes = components as f64;
        let products = bytes * bytes;
        Self {
            small_pivot: products * self.small_pivot,
            small_front_shared: products * self.small_front_shared,
            whole_pivot: products * self.whole_pivot,
            step: products * self.step,
            tile: products * self.tile,
            solve_pivot: bytes * self.solve_pivot,
            solve_tile: bytes * self.solve_tile,
            ..self
        }
    }

    /// How fronts are merged where they take so long: fewer of them pay for more zeros than on a CPU.
    pub fn tree_options(&self) -> TreeOptions {
        // What a warp has of the memory's and of the multipliers' rate.
        let per_byte = self.warps / BYTES_PER_SECOND;
        let value_bytes = size_of::<f64>() as f64;
        TreeOptions {
            tiny_zero_fraction: 0.6,
            tiny_pivots: 16,
            cost: CostModel {
                per_front: self.small_front_shared,
                per_pivot: self.small_pivot,
                per_entry: value_bytes * per_byte,
                // Written, and read.
                per_update_entry: 2.0 * value_bytes * per_byte,
                per_flop: self.warps / FLOPS_PER_SECOND,
            },
            path: Some(PathCosts {
                small_rows: SMALL_FRONT,
                small_front: self.small_front + self.solves * self.solve_front,
                small_pivot: self.small_pivot + self.solves * self.solve_pivot,
                large_front: self.whole_front + self.solves * self.solve_front,
                large_pivot: self.whole_pivot + self.solves * self.solve_pivot,
                join: self.join,
            }),
            ..TreeOptions::default()
        }
    }

    /// Predicts what goes with this tree.
    pub fn of_tree<S: Storage>(&self, tree: &AssemblyTree) -> DevicePrediction {
        self.predict::<S>(tree.fronts().iter().map(Shape::from))
    }

    /// Predicts what goes with the tree that [`Symbolic::analyze_posted`](crate::Symbolic::analyze_posted) makes of this forest.
    pub fn of_forest<S: Storage>(
        &self,
        forest: &EliminationForest,
        options: &TreeOptions,
    ) -> DevicePrediction {
        let Supernodes { groups, .. } = supernodes(&forest.parent, &forest.counts, options, 1);
        self.predict::<S>(groups.iter().map(Shape::from))
    }

    /// About the seconds of [`of_forest`](Self::of_forest), from chains of columns of one structure in place of fronts:
    /// mostly more, since fronts are merged, and for sums of many small fronts within a factor of a few.
    pub fn estimate<S: Storage>(&self, forest: &EliminationForest) -> f64 {
        let EliminationForest { parent, counts } = forest;
        let limits = Limits::default().stored_as::<S>();
        let solve_pivot = self.solve_pivot + self.solve_tile / f64::from(SOLVE_TILE);
        let mut ends = vec![0.0f64; parent.len()];
        let (mut path, mut shared) = (0.0f64, 0.0);
        for (j, (&above, &rows)) in parent.iter().zip(counts).enumerate() {
            let goes_on = j > 0 && parent[j - 1] as usize == j && counts[j - 1] == rows + 1;
            let (of_front, of_pivot) = match FrontClass::of(rows, None, &limits) {
                FrontClass::Small => {
                    shared += self.small_pivot / self.warps;
                    (self.small_front, self.small_pivot)
                }
                FrontClass::Whole => {
                    shared += self.whole_pivot / self.blocks;
                    (self.whole_front, self.whole_pivot)
                }
                class @ (FrontClass::Tiled | FrontClass::Wide) => {
                    // A pivot updates as many tiles as the rows left have, as one of a tile's pivots.
                    let TileCosts {
                        side,
                        step,
                        tile,
                        blocks,
                    } = self.of_tiles(class);
                    let tiles = Tiling::new(rows, 0, side).stored_as::<S>();
                    let tiles = f64::from(tiles.len());
                    shared += tiles / f64::from(side) * tile / blocks;
                    (self.whole_front, step / f64::from(side))
                }
            };
            if !goes_on {
                ends[j] += of_front + self.solve_front * self.solves;
                shared += self.small_front_shared / self.warps;
            }
            ends[j] += of_pivot + solve_pivot * self.solves;
            path = path.max(ends[j]);
            if above != NONE {
                ends[above as usize] = ends[above as usize].max(ends[j]);
            }
        }
        path + shared
    }

    /// Predicts from fronts, children before parents.
    fn predict<S: Storage>(
        &self,
        fronts: impl ExactSizeIterator<Item = Shape> + Clone,
    ) -> DevicePrediction {
        let limits = Limits::default().stored_as::<S>();
        let classes = FrontClass::of_fronts(fronts.clone(), &limits);
        let mut below = vec![Below::default(); fronts.len()];
        let (mut of_warps, mut of_blocks) = (0.0, 0.0);
        let (mut path, mut solve_path) = (0.0f64, 0.0f64);
        for (s, (front, class)) in fronts.zip(classes).enumerate() {
            let children = below[s];
            let own = self.front_seconds(front, class);
            let begin = children.ends.begin(class.is_large(), self.join);
            let [of_warp, of_block] = self.worker_seconds::<S>(front, class);
            of_warps += of_warp;
            of_blocks += of_block;
            let end = begin + own;
            let solve = children.solve + self.solve_seconds(front.pivots);
            if front.parent == NONE {
                path = path.max(end);
                solve_path = solve_path.max(solve);
            } else {
                let parent = &mut below[front.parent as usize];
                parent.solve = parent.solve.max(solve);
                parent.ends.add(End {
                    seconds: end,
                    is_large: class.is_large(),
                });
            }
        }
        DevicePrediction {
            path,
            shared: of_warps / self.warps + of_blocks / self.blocks,
            solve_path: solve_path * self.solves,
        }
    }

    /// Seconds of a warp and of a block that work on a front.
    fn worker_seconds<S: Storage>(&self, front: Shape, class: FrontClass) -> [f64; 2] {
        let own = self.front_seconds(front, class);
        match class {
            FrontClass::Small => [own + self.small_front_shared - self.small_front, 0.0],
            FrontClass::Whole => [0.0, own],
            FrontClass::Tiled | FrontClass::Wide => {
                let TileCosts { tile, blocks, .. } = self.of_tiles(class);
                let tiling = class.tiling(front).stored_as::<S>();
                let updates = tiling.num_updates() as f64;
                [0.0, tile * updates * (self.blocks / blocks)]
            }
        }
    }

    /// Seconds by which a front lengthens the work that all warps and blocks share.
    pub(super) fn shared_seconds<S: Storage>(&self, front: Shape, class: FrontClass) -> f64 {
        let [of_warps, of_blocks] = self.worker_seconds::<S>(front, class);
        of_warps / self.warps + of_blocks / self.blocks
    }

    /// Seconds from the end of the last child to the beginning of a front, if it is large.
    pub(super) fn join_seconds(&self) -> f64 {
        self.join
    }

    /// Seconds of copies of so many bytes between two devices.
    pub(super) fn seconds_across(&self, copies: u64, bytes: u64) -> f64 {
        copies as f64 * self.crossing + bytes as f64 * self.byte_across
    }

    /// Seconds of a front on the path to the root.
    pub(super) fn front_seconds(&self, front: Shape, class: FrontClass) -> f64 {
        let pivots = f64::from(front.pivots);
        match class {
            FrontClass::Small => self.small_front + pivots * self.small_pivot,
            FrontClass::Whole => self.whole_front + pivots * self.whole_pivot,
            FrontClass::Tiled | FrontClass::Wide => {
                let tiling = class.tiling(front);
                self.whole_front + self.rest_of_tiled(&tiling, class, 0)
            }
        }
    }

    /// Seconds from the beginning of the task on a tile of a large front to the end of the front: no more than the front
    /// takes, and no more than from a task that it waits for.
    pub(super) fn rest_seconds(&self, front: Shape, class: FrontClass, tile: Tile) -> f64 {
        if !class.is_cut() {
            return self.front_seconds(front, class);
        }
        let tiling = class.tiling(front);
        let rest = self.rest_of_tiled(&tiling, class, tile.step);
        if tile.row == tile.column || tiling.is_of_element(tile) {
            rest
        } else {
            // Tiles beside the diagonal wait for that on it, with which about half of a step passes.
            rest - 0.5 * self.of_tiles(class).step
        }
    }

    /// Seconds of a front in tiles from the beginning of a step on.
    fn rest_of_tiled(&self, tiling: &Tiling, class: FrontClass, step: u32) -> f64 {
        let costs = self.of_tiles(class);
        let of_element = if tiling.num_element_tiles() > 0 {
            costs.tile
        } else {
            0.0
        };
        f64::from(tiling.steps() - step) * costs.step + of_element
    }

    /// What the tiles of a front that is cut take.
    fn of_tiles(&self, class: FrontClass) -> TileCosts {
        if class == FrontClass::Wide {
            TileCosts {
                side: WIDE_TILE,
                step: self.wide_step,
                tile: self.wide_tile,
                // A block of theirs takes the place of two.
                blocks: self.blocks / 2.0,
            }
        } else {
            TileCosts {
                side: TILE,
                step: self.step,
                tile: self.tile,
                blocks: self.blocks,
            }
        }
    }

    /// Seconds that a front of so many pivots takes on the path of a solve, up and down.
    pub(super) fn solve_seconds(&self, pivots: u32) -> f64 {
        let tiles = f64::from(pivots / SOLVE_TILE);
        self.solve_front + f64::from(pivots) * self.solve_pivot + tiles * self.solve_tile
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::storage::Full;
    use crate::symbolic::Symbolic;
    use luge_sparse::{CompressedPattern, etree};
    use proptest::prelude::*;

    /// Of numbers with which sums are exact.
    pub(in crate::gpu) const COSTS: DeviceCosts = DeviceCosts {
        small_front: 1.0,
        small_pivot: 0.25,
        small_front_shared: 2.0,
        join: 0.5,
        whole_front: 3.0,
        whole_pivot: 0.125,
        step: 30.0,
        tile: 8.0,
        wide_step: 100.0,
        wide_tile: 20.0,
        warps: 4.0,
        blocks: 2.0,
        solve_front: 10.0,
        solve_pivot: 0.5,
        solve_tile: 8.0,
        call: 1.0,
        crossing: 4.0,
        byte_across: 0.0625,
        solves: 2.0,
    };

    fn predict(fronts: &[(u32, u32, u32)]) -> DevicePrediction {
        let shape = |&(parent, pivots, below): &(u32, u32, u32)| Shape {
            parent,
            pivots,
            below,
        };
        COSTS.predict::<Full>(fronts.iter().map(shape))
    }

    #[test]
    fn the_path_through_a_tree_of_small_fronts() {
        // 0, of one pivot, and 1, of four, are children of 2, of two; 3 stands alone.
        let found = predict(&[(2, 1, 2), (2, 4, 2), (NONE, 2, 0), (NONE, 8, 0)]);
        // 1 takes 2 and 0 takes 1.25, another warp's 0.5 on top; then 2 takes 1.5.
        assert_eq!(found.path, 2.0 + 1.5);
        // Every front 2, and 15 pivots, on four warps.
        assert_eq!(found.shared, (4.0 * 2.0 + 15.0 * 0.25) / 4.0);
        // Two fronts of six pivots, two solves.
        assert_eq!(found.solve_path, (2.0 * 10.0 + 6.0 * 0.5) * 2.0);
        assert_eq!(
            found.seconds(),
            found.path + found.shared + found.solve_path
        );

        // Children that take equally long: one of them comes from another warp.
        let found = predict(&[(2, 1, 2), (2, 1, 2), (NONE, 2, 0)]);
        assert_eq!(found.path, 1.25 + 0.5 + 1.5);
    }

    #[test]
    fn the_path_through_larger_fronts() {
        // Small below whole below one in tiles: 100 pivots, 70 rows below, under a small root, which is large too.
        let found = predict(&[(1, 2, 10), (2, 8, 72), (3, 100, 70), (NONE, 4, 0)]);
        let ends = 1.5 + 0.5 + (3.0 + 8.0 * 0.125) + 0.5 + (3.0 + 2.0 * 30.0 + 8.0);
        assert_eq!(found.path, ends + 0.5 + 3.0 + 4.0 * 0.125);
        // Two and two tiles a side: 16 updated in the first step, 9 in the second.
        let of_blocks = 4.0 + (16.0 + 9.0) * 8.0 + 3.5;
        assert_eq!(found.shared, 2.5 / 4.0 + of_blocks / 2.0);
        // 114 pivots; the 100 have three tiles of 32.
        assert_eq!(
            found.solve_path,
            2.0 * (4.0 * 10.0 + 114.0 * 0.5 + 3.0 * 8.0)
        );
    }

    /// The same from lists of children, one front at a time.
    fn by_definition(fronts: &[(u32, u32, u32)]) -> DevicePrediction {
        // Of each front: when it ends, seconds of a solve below its parent, whether it is small.
        let mut done: Vec<(f64, f64, bool)> = Vec::new();
        let mut found = DevicePrediction::default();
        let mut solve_path = 0.0f64;
        for (s, &(parent, pivots, below)) in fronts.iter().enumerate() {
            let children: Vec<_> = (0..s).filter(|&c| fronts[c].0 == s as u32).collect();
            let mut ends: Vec<f64> = children.iter().map(|&c| done[c].0).collect();
            ends.sort_by(|a, b| b.total_cmp(a));
            let all_small = children.iter().all(|&c| done[c].2);
            let (rows, p) = (pivots + below, f64::from(pivots));
            let is_small = rows <= 16 && all_small;
            let (own, of_warps, of_blocks) = if is_small {
                (1.0 + p * 0.25, 2.0 + p * 0.25, 0.0)
            } else if rows <= 95 {
                (3.0 + p * 0.125, 0.0, 3.0 + p * 0.125)
            } else {
                let steps = pivots.div_ceil(64);
                let sides = steps + below.div_ceil(64);
                let updates: u32 = (0..steps).map(|k| (sides - k) * (sides - k)).sum();
                let tail = if below == 0 { 0.0 } else { 8.0 };
                let own = 3.0 + f64::from(steps) * 30.0 + tail;
                (own, 0.0, 8.0 * f64::from(updates))
            };
            let begin = match (is_small, &ends[..]) {
                (_, []) => 0.0,
                (false, [last, ..]) => last + 0.5,
                (true, [last]) => *last,
                (true, [last, second, ..]) => last.max(second + 0.5),
            };
            let below = children.iter().map(|&c| done[c].1).fold(0.0, f64::max);
            let solve = below + 10.0 + p * 0.5 + (p / 32.0).floor() * 8.0;
            done.push((begin + own, solve, is_small));
            found.shared += of_warps / 4.0 + of_blocks / 2.0;
            if parent == NONE {
                found.path = found.path.max(begin + own);
                solve_path = solve_path.max(solve);
            }
        }
        found.solve_path = 2.0 * solve_path;
        found
    }

    proptest! {
        /// All numbers are multiples of 1/16, so sums are exact.
        #[test]
        fn any_forest_takes_what_the_definition_says(
            fronts in proptest::collection::vec((0u32..6, 0usize..8, 0usize..8), 0..25),
        ) {
            const PIVOTS: [u32; 8] = [1, 2, 15, 16, 64, 65, 95, 130];
            const BELOW: [u32; 8] = [0, 1, 2, 14, 30, 64, 65, 129];
            let n = fronts.len() as u32;
            let fronts: Vec<_> = (0..)
                .zip(fronts)
                .map(|(s, (step, pivots, below))| {
                    let parent = s + step;
                    let parent = if step == 0 || parent >= n { NONE } else { parent };
                    (parent, PIVOTS[pivots], BELOW[below])
                })
                .collect();
            prop_assert_eq!(predict(&fronts), by_definition(&fronts));
        }
    }

    #[test]
    fn fronts_are_merged_by_the_table() {
        let options = COSTS.tree_options();
        assert_eq!(
            (options.cost.per_front, options.cost.per_pivot),
            (2.0, 0.25)
        );
        // Two solves for each factorization.
        let expected = PathCosts {
            small_rows: 16,
            small_front: 1.0 + 2.0 * 10.0,
            small_pivot: 0.25 + 2.0 * 0.5,
            large_front: 3.0 + 2.0 * 10.0,
            large_pivot: 0.125 + 2.0 * 0.5,
            join: 0.5,
        };
        assert_eq!(options.path, Some(expected));
    }

    #[test]
    fn an_estimate_goes_through_chains() {
        let forest = |parent: &[u32], counts: &[u32]| EliminationForest {
            parent: parent.to_vec(),
            counts: counts.to_vec(),
        };
        // One chain of three columns: one front, two solves up and down, three pivots, each a 32nd of a tile.
        let chain = COSTS.estimate::<Full>(&forest(&[1, 2, NONE], &[3, 2, 1]));
        assert_eq!(
            chain,
            1.0 + 20.0 + 3.0 * (0.25 + 1.5) + (2.0 + 3.0 * 0.25) / 4.0
        );
        // Fronts of every size, none a chain: siblings whose counts fit, a parent whose count does not.
        let found = COSTS.estimate::<Full>(&forest(&[4, 4, 4, 4, NONE], &[17, 16, 95, 96, 1]));
        let path = (3.0 + 20.0 + 30.0 / 64.0 + 1.5) + (1.0 + 20.0 + 0.25 + 1.5);
        let of_warps = 5.0 * 2.0 + 2.0 * 0.25;
        let of_blocks = 2.0 * 0.125 + 4.0 / 64.0 * 8.0;
        assert_eq!(found, path + of_warps / 4.0 + of_blocks / 2.0);
        // The longest path may be of another root than the last.
        let found = COSTS.estimate::<Full>(&forest(&[1, NONE, NONE], &[4, 2, 1]));
        assert_eq!(found, 2.0 * 22.75 + 3.0 * (2.0 + 0.25) / 4.0);
        assert_eq!(COSTS.estimate::<Full>(&forest(&[], &[])), 0.0);
    }

    /// Merged fronts are the same whether they come from a tree or from the forest alone.
    #[test]
    fn a_tree_and_its_forest_take_the_same() {
        // Two chains of 40 and of 30 dense columns under a dense root of 100.
        let n = 170;
        let rows_below = |j: usize| -> Vec<u32> {
            let own = match j {
                0..40 => j..40,
                40..70 => j..70,
                _ => j..n,
            };
            let shared = if j < 70 { 70..n - 10 * (j % 2) } else { n..n };
            own.chain(shared).map(|i| i as u32).collect()
        };
        let mut entries: Vec<Vec<u32>> = (0..n).map(rows_below).collect();
        for j in 0..n {
            for i in rows_below(j) {
                if i as usize != j {
                    entries[i as usize].push(j as u32);
                }
            }
        }
        let mut ptr = vec![0];
        let mut idx = Vec::new();
        for mut column in entries {
            column.sort_unstable();
            idx.extend(column);
            ptr.push(idx.len() as u64);
        }
        let cols = CompressedPattern::new(n, ptr, idx).unwrap();
        let neighbours = |k: u32| {
            cols.line(k as usize)
                .iter()
                .copied()
                .filter(move |&i| i != k)
        };
        let parent = etree::elimination_tree(n, neighbours);
        let counts = etree::column_counts(&parent, neighbours);
        let forest = EliminationForest { parent, counts };
        let by_zeros = [0.0, 0.2, 0.9].map(|merged| TreeOptions {
            zero_fraction: merged,
            tiny_zero_fraction: merged,
            ..TreeOptions::default()
        });
        for options in by_zeros.into_iter().chain([COSTS.tree_options()]) {
            let symbolic: Symbolic = Symbolic::analyze(&cols, &options).unwrap();
            let of_tree = COSTS.of_tree::<Full>(symbolic.tree());
            assert!(of_tree.path > 60.0 && of_tree.shared > 0.0);
            assert_eq!(of_tree, COSTS.of_forest::<Full>(&forest, &options));
        }
    }

    #[test]
    fn what_is_left_of_a_front_falls_from_task_to_task() {
        // 100 pivots are two steps, and 70 rows below them two more tiles.
        let front = Shape {
            parent: NONE,
            pivots: 100,
            below: 70,
        };
        let tiled = FrontClass::Tiled;
        let rest: Vec<f64> = tiled
            .tiling(front)
            .tiles()
            .map(|tile| COSTS.rest_seconds(front, tiled, tile))
            .collect();
        let expected = [&[68.0][..], &[53.0; 6], &[38.0], &[23.0; 4], &[8.0; 4]];
        assert_eq!(rest, expected.concat());
        assert_eq!(COSTS.front_seconds(front, tiled), 3.0 + 68.0);
        let no_element = Shape { below: 0, ..front };
        assert_eq!(COSTS.front_seconds(no_element, tiled), 3.0 + 60.0);
        for tile in Tiling::uncut(20).tiles() {
            let rest = COSTS.rest_seconds(front, FrontClass::Whole, tile);
            assert_eq!(rest, 3.0 + 100.0 * 0.125);
        }
    }

    #[test]
    fn a_solve_takes_more_for_each_whole_tile_of_pivots() {
        assert_eq!(COSTS.solve_seconds(31), 10.0 + 31.0 * 0.5);
        assert_eq!(COSTS.solve_seconds(64), 10.0 + 64.0 * 0.5 + 2.0 * 8.0);
    }

    /// A task that takes no time would not come before those that wait for it.
    #[test]
    fn whatever_is_done_takes_time() {
        let DeviceCosts {
            small_front,
            small_pivot,
            small_front_shared,
            join,
            whole_front,
            whole_pivot,
            step,
            tile,
            wide_step,
            wide_tile,
            warps,
            blocks,
            solve_front,
            solve_pivot,
            solve_tile,
            call,
            crossing,
            byte_across,
            solves,
        } = DeviceCosts::default();
        for seconds in [
            small_front,
            small_pivot,
            small_front_shared,
            join,
            whole_front,
            whole_pivot,
            step,
            tile,
            wide_step,
            wide_tile,
            solve_front,
            solve_pivot,
            solve_tile,
            call,
            crossing,
            1e3 * byte_across,
        ] {
            assert!((1e-9..1e-3).contains(&seconds), "{seconds}");
        }
        assert!(warps >= 1.0 && blocks >= 1.0 && solves >= 1.0);
        assert!(longest_first_key(2.0) < longest_first_key(1.0));
        assert!(longest_first_key(1e-9) < longest_first_key(0.0));
    }

    #[test]
    fn nothing_takes_no_time() {
        assert_eq!(predict(&[]), DevicePrediction::default());
    }
}
