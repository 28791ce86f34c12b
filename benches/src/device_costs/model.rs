//! The entries of the table of costs, and how often each of them counts for a forest: the model of
//! [`DeviceCosts::of_tree`], spelled out so that it can be fitted.

use luge_frontal::gpu::DeviceCosts;
use luge_gpu_kernels::frontal::plan::{SMALL_FRONT, TILE, WHOLE_FRONT};
use luge_gpu_kernels::frontal::solve::layout::TILE as SOLVE_TILE;

use super::forests::{Forest, Front};

/// An entry of [`DeviceCosts`] that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// [`DeviceCosts::small_front`].
    SmallFront,
    /// [`DeviceCosts::small_pivot`].
    SmallPivot,
    /// [`DeviceCosts::small_front_shared`].
    SmallFrontShared,
    /// [`DeviceCosts::join`].
    Join,
    /// [`DeviceCosts::whole_front`].
    WholeFront,
    /// [`DeviceCosts::whole_pivot`].
    WholePivot,
    /// [`DeviceCosts::step`].
    Step,
    /// [`DeviceCosts::tile`].
    Tile,
    /// [`DeviceCosts::warps`].
    Warps,
    /// [`DeviceCosts::blocks`].
    Blocks,
    /// [`DeviceCosts::solve_front`].
    SolveFront,
    /// [`DeviceCosts::solve_pivot`].
    SolvePivot,
    /// [`DeviceCosts::solve_tile`].
    SolveTile,
    /// [`DeviceCosts::call`].
    Call,
}

impl Entry {
    /// All of them: what is left of the table is [`DeviceCosts::solves`], which nobody can measure.
    pub const ALL: [Self; 14] = [
        Self::SmallFront,
        Self::SmallPivot,
        Self::SmallFrontShared,
        Self::Join,
        Self::WholeFront,
        Self::WholePivot,
        Self::Step,
        Self::Tile,
        Self::Warps,
        Self::Blocks,
        Self::SolveFront,
        Self::SolvePivot,
        Self::SolveTile,
        Self::Call,
    ];

    /// The name of the field.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmallFront => "small_front",
            Self::SmallPivot => "small_pivot",
            Self::SmallFrontShared => "small_front_shared",
            Self::Join => "join",
            Self::WholeFront => "whole_front",
            Self::WholePivot => "whole_pivot",
            Self::Step => "step",
            Self::Tile => "tile",
            Self::Warps => "warps",
            Self::Blocks => "blocks",
            Self::SolveFront => "solve_front",
            Self::SolvePivot => "solve_pivot",
            Self::SolveTile => "solve_tile",
            Self::Call => "call",
        }
    }

    /// Whether it is a number of seconds, or else a count.
    pub fn is_seconds(self) -> bool {
        !matches!(self, Self::Warps | Self::Blocks)
    }

    /// Its place in a table.
    pub fn of(self, costs: &mut DeviceCosts) -> &mut f64 {
        match self {
            Self::SmallFront => &mut costs.small_front,
            Self::SmallPivot => &mut costs.small_pivot,
            Self::SmallFrontShared => &mut costs.small_front_shared,
            Self::Join => &mut costs.join,
            Self::WholeFront => &mut costs.whole_front,
            Self::WholePivot => &mut costs.whole_pivot,
            Self::Step => &mut costs.step,
            Self::Tile => &mut costs.tile,
            Self::Warps => &mut costs.warps,
            Self::Blocks => &mut costs.blocks,
            Self::SolveFront => &mut costs.solve_front,
            Self::SolvePivot => &mut costs.solve_pivot,
            Self::SolveTile => &mut costs.solve_tile,
            Self::Call => &mut costs.call,
        }
    }

    /// Its value in a table.
    pub fn value(self, costs: &DeviceCosts) -> f64 {
        *self.of(&mut costs.clone())
    }
}

/// How often the steps of a factorization are done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Steps {
    /// Small fronts, their pivots.
    pub small_fronts: f64,
    /// Pivots of small fronts.
    pub small_pivots: f64,
    /// Waits for another warp or block.
    pub joins: f64,
    /// Large fronts on a path; where they share the device, those that are not cut into tiles.
    pub large_fronts: f64,
    /// Pivots of fronts that are worked on as a whole.
    pub whole_pivots: f64,
    /// Steps from one diagonal tile to the next.
    pub tile_steps: f64,
    /// Updates of tiles.
    pub tile_updates: f64,
}

/// What is done on a forest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// On the path from a leaf to the root of the last tree, in a factorization.
    pub path: Steps,
    /// In all fronts, in a factorization.
    pub shared: Steps,
    /// Fronts on the path, in a solve.
    pub solve_fronts: f64,
    /// Their pivots.
    pub solve_pivots: f64,
    /// Each 32 pivots of one of them.
    pub solve_tiles: f64,
}

impl Work {
    /// Of a forest in which no path is longer than the one from the root of the last tree to the last child, to its last
    /// child and so on; where a front has one child, or some that end at the same time; and where all fronts are of one
    /// class, without rows below those that are cut into tiles.
    pub fn of(forest: &Forest) -> Self {
        let fronts = &forest.fronts;
        let mut work = Self::default();
        let mut num_children = vec![0; fronts.len()];
        for front in fronts {
            add(&mut work.shared, front, false);
            if let Some(parent) = front.parent {
                num_children[parent] += 1;
            }
        }
        // Fronts stand in postorder: the last child is the one before.
        let has_child = |s: usize| num_children[s] > 0;
        let mut next = fronts.len().checked_sub(1);
        while let Some(s) = next {
            let front = &fronts[s];
            add(&mut work.path, front, true);
            work.solve_fronts += 1.0;
            work.solve_pivots += f64::from(front.pivots);
            work.solve_tiles += f64::from(front.pivots / SOLVE_TILE);
            // The only child of a small front is its own warp's.
            let joins = num_children[s] > 1 || (has_child(s) && front.rows() > SMALL_FRONT);
            work.path.joins += f64::from(u8::from(joins));
            next = has_child(s).then(|| s - 1);
        }
        work
    }

    /// Seconds of the path in a factorization.
    pub fn path_seconds(&self, costs: &DeviceCosts) -> f64 {
        let Steps {
            small_fronts,
            small_pivots,
            joins,
            large_fronts,
            whole_pivots,
            tile_steps,
            tile_updates: _,
        } = self.path;
        small_fronts * costs.small_front
            + small_pivots * costs.small_pivot
            + joins * costs.join
            + large_fronts * costs.whole_front
            + whole_pivots * costs.whole_pivot
            + tile_steps * costs.step
    }

    /// Seconds of all fronts, which share the device.
    pub fn shared_seconds(&self, costs: &DeviceCosts) -> f64 {
        let Steps {
            small_fronts,
            small_pivots,
            tile_updates,
            ..
        } = self.shared;
        let of_warps = small_fronts * costs.small_front_shared + small_pivots * costs.small_pivot;
        let of_blocks = self.whole_seconds(costs) + tile_updates * costs.tile;
        of_warps / costs.warps + of_blocks / costs.blocks
    }

    /// Seconds that one block would take for all fronts that are worked on as a whole.
    pub fn whole_seconds(&self, costs: &DeviceCosts) -> f64 {
        self.shared.large_fronts * costs.whole_front + self.shared.whole_pivots * costs.whole_pivot
    }
}

fn add(steps: &mut Steps, front: &Front, is_on_path: bool) {
    let pivots = f64::from(front.pivots);
    if front.rows() <= SMALL_FRONT {
        steps.small_fronts += 1.0;
        steps.small_pivots += pivots;
    } else if front.rows() <= WHOLE_FRONT {
        steps.large_fronts += 1.0;
        steps.whole_pivots += pivots;
    } else {
        let tiles = f64::from(front.pivots.div_ceil(TILE));
        steps.large_fronts += f64::from(u8::from(is_on_path));
        steps.tile_steps += tiles;
        // The tiles that are left in each step: Σ k².
        steps.tile_updates += tiles * (tiles + 1.0) * (2.0 * tiles + 1.0) / 6.0;
    }
}
