//! Who works on a front: the class of each front of a tree, in a factorization and in a solve.
//!
//! Warps work on small fronts, blocks on large ones. A front above a large one is large too, whatever its size: so no warp
//! waits for a block on the way up the tree, and none of a solve's blocks for a warp on the way down.
//!
//! A factorization and a solve have classes of their own: a front that fits into the shared memory of a block is another
//! one than a front whose rows are as many as the threads of a block.

use luge_gpu_kernels::frontal::plan::{GATHERED, SMALL_FRONT, TILE, WHOLE_FRONT};
use luge_gpu_kernels::frontal::solve::layout::{TILE as SOLVE_TILE, WHOLE_ROWS};

use super::tiles::Tiling;
use crate::tree::{AssemblyTree, Front};

/// Entries of a pool of elements that no device lacks: 32 MiB.
const POOL: u64 = 1 << 22;

/// Largest fronts of the classes, and the least pool of elements, for tests of each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows of the largest small front: at most 16.
    pub small_front: u32,
    /// Rows of the largest front that one block works on as a whole: at most 95.
    pub whole_front: u32,
    /// Rows of the largest element that is added entry by entry to a large front: at most 16.
    pub gathered: u32,
    /// Entries of the pool of elements up to which tasks come in the order in which most of them are done at once.
    pub pool: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            small_front: SMALL_FRONT,
            whole_front: WHOLE_FRONT,
            gathered: GATHERED,
            pool: POOL,
        }
    }
}

impl Limits {
    /// Checks that the kernels can work on fronts of these classes.
    ///
    /// # Panics
    ///
    /// If one is larger than by default.
    #[track_caller]
    pub(super) fn check(&self) {
        assert!(self.small_front <= SMALL_FRONT && self.gathered <= GATHERED);
        assert!(self.whole_front <= WHOLE_FRONT);
    }
}

/// What the class of a front in a factorization depends on, and what it is predicted to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Number of the parent; more than there are fronts at a root.
    pub parent: u32,
    /// Number of pivots.
    pub pivots: u32,
    /// Rows below them.
    pub below: u32,
}

impl Shape {
    /// Rows of the front.
    pub fn rows(&self) -> u32 {
        self.pivots + self.below
    }
}

impl From<&Front> for Shape {
    fn from(front: &Front) -> Self {
        Self {
            parent: front.parent,
            pivots: front.pivots,
            below: front.below,
        }
    }
}

/// Who works on a front in a factorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrontClass {
    /// A warp.
    Small,
    /// A block.
    Whole,
    /// A block for each tile.
    Tiled,
}

impl FrontClass {
    /// Of a front of so many rows.
    pub fn of(rows: u32, has_large_child: bool, limits: &Limits) -> Self {
        if rows <= limits.small_front && !has_large_child {
            Self::Small
        } else if rows <= limits.whole_front {
            Self::Whole
        } else {
            Self::Tiled
        }
    }

    /// Those of all fronts of a forest, in postorder.
    pub fn of_fronts(fronts: impl ExactSizeIterator<Item = Shape>, limits: &Limits) -> Vec<Self> {
        let class =
            |front: &Shape, has_large_child| Self::of(front.rows(), has_large_child, limits);
        classified(fronts, |front| front.parent, class, Self::is_large)
    }

    /// Those of all fronts of a tree.
    pub fn of_tree(tree: &AssemblyTree, limits: &Limits) -> Vec<Self> {
        Self::of_fronts(tree.fronts().iter().map(Shape::from), limits)
    }

    /// Whether blocks work on it.
    pub fn is_large(self) -> bool {
        self != Self::Small
    }

    /// The tiles that are worked on one by one: one for a front that is not cut.
    pub fn tiling(self, front: Shape) -> Tiling {
        match self {
            Self::Small | Self::Whole => Tiling::uncut(front.rows()),
            Self::Tiled => Tiling::new(front.pivots, front.below, TILE),
        }
    }
}

/// Who works on a front in a solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SolveClass {
    /// One pivot and nothing else: a thread, apart from all tasks.
    Single,
    /// A warp.
    Small,
    /// A block.
    Whole,
    /// A block for each tile.
    Tiled,
}

/// Most pivots of a front for a warp: a lane has one.
const SMALL_PIVOTS: u32 = SOLVE_TILE;
/// Most rows below them: two for a lane on the way down.
const SMALL_BELOW: u32 = 2 * SOLVE_TILE;

impl SolveClass {
    /// Those of all fronts of a tree.
    pub fn of_tree(tree: &AssemblyTree) -> Vec<Self> {
        let fronts = tree.fronts().iter();
        classified(
            fronts,
            |front| front.parent,
            |front, large| Self::of(front, large),
            Self::is_large,
        )
    }

    fn of(front: &Front, has_large_child: bool) -> Self {
        if front.pivots == 1 && front.below == 0 && front.num_children == 0 {
            Self::Single
        } else if front.pivots <= SMALL_PIVOTS && front.below <= SMALL_BELOW && !has_large_child {
            Self::Small
        } else if front.size() <= WHOLE_ROWS {
            Self::Whole
        } else {
            Self::Tiled
        }
    }

    fn is_large(self) -> bool {
        matches!(self, Self::Whole | Self::Tiled)
    }

    /// The tiles of a tiled front; a task is a row of them.
    pub fn tiling(front: &Front) -> Tiling {
        Tiling::new(front.pivots, front.below, SOLVE_TILE)
    }
}

/// The class of each front, children before parents: `class` tells it of a front, and of whether one of its children is
/// large.
fn classified<F, C: Copy>(
    fronts: impl ExactSizeIterator<Item = F>,
    parent: impl Fn(&F) -> u32,
    class: impl Fn(&F, bool) -> C,
    is_large: impl Fn(C) -> bool,
) -> Vec<C> {
    let mut has_large_child = vec![false; fronts.len()];
    let mut classes = Vec::with_capacity(fronts.len());
    for front in fronts {
        let class = class(&front, has_large_child[classes.len()]);
        if is_large(class)
            && let Some(above) = has_large_child.get_mut(parent(&front) as usize)
        {
            *above = true;
        }
        classes.push(class);
    }
    classes
}

#[cfg(test)]
mod tests {
    use luge_sparse::etree::NONE;

    use super::*;
    use crate::gpu::plan::tests::{ROOT, tree_of};

    /// Classes of fronts with these parents, pivots and rows below.
    fn classes(fronts: &[(u32, u32, u32)], limits: &Limits) -> Vec<FrontClass> {
        let shapes = fronts.iter().map(|&(parent, pivots, below)| Shape {
            parent,
            pivots,
            below,
        });
        FrontClass::of_fronts(shapes, limits)
    }

    #[test]
    fn a_front_above_a_large_one_is_large() {
        use FrontClass::{Small, Tiled, Whole};
        let fronts = [
            (1, 4, 12),
            (4, 12, 4),
            (3, 1, 16),
            (4, 2, 2),
            (NONE, 3, 0),
            (6, 30, 65),
            (7, 31, 65),
            (NONE, 1, 0),
            (NONE, 1, 0),
        ];
        let expected = [
            Small, Small, Whole, Whole, Whole, Whole, Tiled, Whole, Small,
        ];
        assert_eq!(classes(&fronts, &Limits::default()), expected);
        // Where no front is small, or whole, one above a large one is what its size makes it.
        let limits = Limits {
            small_front: 0,
            whole_front: 3,
            gathered: 0,
            pool: 0,
        };
        let expected = [
            Tiled, Tiled, Tiled, Tiled, Whole, Tiled, Tiled, Whole, Whole,
        ];
        assert_eq!(classes(&fronts, &limits), expected);
        let limits = Limits {
            small_front: 4,
            whole_front: 0,
            gathered: 0,
            pool: 0,
        };
        let expected = [
            Tiled, Tiled, Tiled, Tiled, Tiled, Tiled, Tiled, Tiled, Small,
        ];
        assert_eq!(classes(&fronts, &limits), expected);
        assert_eq!(classes(&[], &limits), []);
    }

    #[test]
    #[should_panic(expected = "whole_front")]
    fn a_front_beyond_the_shared_memory_is_refused() {
        Limits {
            whole_front: WHOLE_FRONT + 1,
            ..Limits::default()
        }
        .check();
    }

    #[test]
    fn a_solve_has_fronts_for_threads_warps_and_blocks() {
        let class = |pivots, below, num_children| {
            let front = Front {
                start: 0,
                pivots,
                below,
                pivots_in_parent: 0,
                parent: NONE,
                children: 0,
                num_children,
                depth: 0,
                rows: 0,
            };
            SolveClass::of(&front, false)
        };
        assert_eq!(class(1, 0, 0), SolveClass::Single);
        for small in [(2, 0, 0), (1, 1, 0), (1, 0, 1), (32, 64, 0)] {
            assert_eq!(
                class(small.0, small.1, small.2),
                SolveClass::Small,
                "{small:?}"
            );
        }
        for whole in [(33, 0, 0), (1, 65, 0), (100, 156, 2)] {
            assert_eq!(
                class(whole.0, whole.1, whole.2),
                SolveClass::Whole,
                "{whole:?}"
            );
        }
        assert_eq!(class(100, 157, 0), SolveClass::Tiled);
    }

    #[test]
    fn no_warp_of_a_solve_waits_for_a_block_on_the_way_up() {
        // A front of 33 pivots and one of 257 below small ones, and these below others.
        let fronts = [
            (1, 33),
            (2, 2),
            (ROOT, 2),
            (4, 257),
            (ROOT, 2),
            (6, 2),
            (ROOT, 33),
            (ROOT, 1),
        ];
        use SolveClass::{Single, Small, Tiled, Whole};
        let expected = [Whole, Whole, Whole, Tiled, Whole, Small, Whole, Single];
        assert_eq!(SolveClass::of_tree(tree_of(&fronts).tree()), expected);
    }
}
