//! Who works on a front: the class of each front of a tree, in a factorization and in a solve.
//!
//! Warps work on small fronts, blocks on large ones. A front above a large one is large too, whatever its size: so no warp
//! waits for a block on the way up the tree, and none of a solve's blocks for a warp on the way down. Likewise with wide
//! fronts, on which a launch of their own works after that of all others.
//!
//! A factorization and a solve have classes of their own: a front that fits into the shared memory of a block is another
//! one than a front whose rows are as many as the threads of a block.

use luge_gpu_kernels::frontal::plan::{
    GATHERED, SMALL_FRONT, TILE, TILED_FRONT, WHOLE_FRONT, WIDE_TILE, WIDE_VALUES,
};
use luge_gpu_kernels::frontal::solve::layout::{
    FEWER_OF_THREAD, OF_THREAD, STRIP, TILE as SOLVE_TILE, WHOLE_ROWS,
};

use luge_device::Device;

use super::tiles::Tiling;
use crate::storage::Storage;
use crate::tree::{AssemblyTree, Front, Pairs, Supernode};

/// Bytes of shared memory at most that a kernel for wide fronts has beside its values.
const STATIC_SHARED: u32 = 1024;

/// Entries of factors that few devices have no room for twice: 100 MB of `f64`.
pub(super) const APART: u64 = 12_500_000;

/// The same of symmetric matrices, whose elements take less of the time when they take turns.
const APART_OF_SYMMETRIC: u64 = 1_000_000;

/// Entries of L from which on a thread has [`OF_THREAD`] of several right-hand sides. Below, the path to the root takes most of a
/// solve, and tasks of fewer right-hand sides are shorter.
const MANY_OF_THREAD: u64 = 400_000;

/// Largest fronts of the classes, largest factors of which all elements are apart, and smallest of which threads have more
/// right-hand sides, for tests of each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows of the largest small front: at most 16.
    pub small_front: u32,
    /// Rows of the largest front that one block works on as a whole: at most 95.
    pub whole_front: u32,
    /// Rows of the largest front that is cut into tiles of 64 rows; larger ones are cut into tiles of 128.
    pub tiled_front: u32,
    /// Rows of the largest element that is added entry by entry to a large front: at most 16.
    pub gathered: u32,
    /// Entries of the factors up to which every element of a large front has a place of its own. Of symmetric matrices more than a
    /// million are as many.
    pub apart: u64,
    /// Entries of L from which on a thread has four of several right-hand sides, and not two.
    pub many_of_thread: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            small_front: SMALL_FRONT,
            whole_front: WHOLE_FRONT,
            tiled_front: TILED_FRONT,
            gathered: GATHERED,
            apart: APART,
            many_of_thread: MANY_OF_THREAD,
        }
    }
}

impl Limits {
    /// Those on a device: it may have too little shared memory for wide fronts.
    pub(super) fn on(self, device: &Device) -> Self {
        let properties = device.properties();
        let needed = WIDE_VALUES * size_of::<f64>() as u32 + STATIC_SHARED;
        if properties.max_shared_bytes_per_block >= needed {
            self
        } else {
            Self {
                tiled_front: u32::MAX,
                ..self
            }
        }
    }

    /// Those for numbers with so many components: the shared memory of no device has room for a wide tile of complex numbers.
    pub fn of_components(components: usize) -> Self {
        let limits = Self::default();
        if components == 1 {
            limits
        } else {
            Self {
                tiled_front: u32::MAX,
                ..limits
            }
        }
    }

    /// Those for a kind of factorization: no front of a symmetric matrix is wide, and elements take turns earlier.
    pub(super) fn stored_as<S: Storage>(self) -> Self {
        if S::SYMMETRIC {
            Self {
                tiled_front: u32::MAX,
                apart: self.apart.min(APART_OF_SYMMETRIC),
                ..self
            }
        } else {
            self
        }
    }

    /// Right-hand sides that a thread has in solves with the factors of `tree`, where they are several.
    pub(super) fn of_thread(&self, tree: &AssemblyTree) -> usize {
        let of_front = |front: &Front| u64::from(front.pivots) * u64::from(front.size());
        let entries: u64 = tree.fronts().iter().map(of_front).sum();
        if entries < self.many_of_thread {
            FEWER_OF_THREAD
        } else {
            OF_THREAD
        }
    }

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

impl From<&Supernode> for Shape {
    fn from(group: &Supernode) -> Self {
        Self {
            parent: group.parent,
            pivots: group.pivots,
            below: group.below,
        }
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FrontClass {
    /// A warp.
    Small,
    /// A block.
    Whole,
    /// A block for each tile.
    Tiled,
    /// A block for each wide tile.
    Wide,
}

impl FrontClass {
    /// Of a front of so many rows, whose children are of no larger class than this.
    pub fn of(rows: u32, children: Option<Self>, limits: &Limits) -> Self {
        if rows <= limits.small_front && !children.is_some_and(Self::is_large) {
            Self::Small
        } else if rows > limits.tiled_front.max(limits.whole_front) || children == Some(Self::Wide)
        {
            Self::Wide
        } else if rows <= limits.whole_front {
            Self::Whole
        } else {
            Self::Tiled
        }
    }

    /// Those of all fronts of a forest, in postorder.
    pub fn of_fronts(fronts: impl ExactSizeIterator<Item = Shape>, limits: &Limits) -> Vec<Self> {
        let class = |front: &Shape, children| Self::of(front.rows(), children, limits);
        classified(fronts, |front| front.parent, class)
    }

    /// Those of all fronts of a tree.
    pub fn of_tree(tree: &AssemblyTree, limits: &Limits) -> Vec<Self> {
        Self::of_fronts(tree.fronts().iter().map(Shape::from), limits)
    }

    /// Whether blocks work on it.
    pub fn is_large(self) -> bool {
        self != Self::Small
    }

    /// The tiles that are worked on one by one, of L and U: one for a front that is not cut.
    pub fn tiling(self, front: Shape) -> Tiling {
        match self {
            Self::Small | Self::Whole => Tiling::uncut(front.rows()),
            Self::Tiled => Tiling::new(front.pivots, front.below, TILE),
            Self::Wide => Tiling::new(front.pivots, front.below, WIDE_TILE),
        }
    }

    /// Whether blocks work on tiles of it.
    pub fn is_cut(self) -> bool {
        self >= Self::Tiled
    }

    /// Whether a part of a tree can be told of the element alone of a front of this class and so many rows: it is cut into
    /// tiles for its own size, so its parent is planned as if it were there.
    pub fn can_be_given(self, rows: u32, limits: &Limits) -> bool {
        self.is_cut() && self == Self::of(rows, None, limits)
    }
}

impl<'a> Pairs<'a> {
    /// Those that start with these columns, in the tiles that a device cuts fronts of symmetric matrices into.
    pub fn on_device(starts: &'a [u32]) -> Self {
        Self { starts, tile: TILE }
    }
}

/// Who works on a front in a solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SolveClass {
    /// One pivot and nothing else: a thread, apart from all tasks.
    Single,
    /// A warp.
    Small,
    /// A block.
    Whole,
    /// A block for each strip.
    Tiled,
}

/// Most pivots of a front for a warp: a lane has one.
const SMALL_PIVOTS: u32 = SOLVE_TILE;
/// Most rows below them: two for a lane on the way down.
const SMALL_BELOW: u32 = 2 * SOLVE_TILE;

/// Most pivots of a front in a tree without strips: the kernels that know of strips take a few percent longer for all other
/// fronts.
const PIVOTS_WITHOUT_STRIPS: u32 = STRIP;
/// Most pivots of a front for a block in a tree with strips. Tile by tile a pivot takes 0.13 µs on an H200; strips have the
/// inverses of their triangles before they are waited for, and take 0.02 to 0.05.
const PIVOTS_BESIDE_STRIPS: u32 = SOLVE_TILE;

impl SolveClass {
    /// Those of all fronts of a tree.
    pub fn of_tree(tree: &AssemblyTree) -> Vec<Self> {
        let needs_strips =
            |front: &Front| Self::of(front, false, PIVOTS_WITHOUT_STRIPS) == Self::Tiled;
        let most_pivots = if tree.fronts().iter().any(needs_strips) {
            PIVOTS_BESIDE_STRIPS
        } else {
            PIVOTS_WITHOUT_STRIPS
        };
        let class = |front: &&Front, children: Option<Self>| {
            Self::of(front, children.is_some_and(Self::is_large), most_pivots)
        };
        classified(tree.fronts().iter(), |front| front.parent, class)
    }

    /// That of a front in a tree where a block works on fronts of `most_pivots` at most.
    fn of(front: &Front, has_large_child: bool, most_pivots: u32) -> Self {
        if front.pivots == 1 && front.below == 0 && front.num_children == 0 {
            Self::Single
        } else if front.pivots <= SMALL_PIVOTS && front.below <= SMALL_BELOW && !has_large_child {
            Self::Small
        } else if front.size() <= WHOLE_ROWS && front.pivots <= most_pivots {
            Self::Whole
        } else {
            Self::Tiled
        }
    }

    fn is_large(self) -> bool {
        matches!(self, Self::Whole | Self::Tiled)
    }

    /// The strips of a tiled front: rows of tiles, each a task.
    pub fn tiling(front: &Front) -> Tiling {
        Tiling::new(front.pivots, front.below, STRIP)
    }
}

/// The class of each front, children before parents: `class` tells it of a front, and of the largest class among its
/// children.
fn classified<F, C: Copy + Ord>(
    fronts: impl ExactSizeIterator<Item = F>,
    parent: impl Fn(&F) -> u32,
    class: impl Fn(&F, Option<C>) -> C,
) -> Vec<C> {
    let mut children = vec![None; fronts.len()];
    let mut classes = Vec::with_capacity(fronts.len());
    for front in fronts {
        let class = class(&front, children[classes.len()]);
        if let Some(above) = children.get_mut(parent(&front) as usize) {
            *above = (*above).max(Some(class));
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
    fn a_thread_has_more_right_hand_sides_of_large_trees() {
        // One front of 5 pivots.
        let tree = tree_of(&[(ROOT, 5)]);
        for (many_of_thread, of_thread) in [(25, OF_THREAD), (26, FEWER_OF_THREAD)] {
            let limits = Limits {
                many_of_thread,
                ..Limits::default()
            };
            assert_eq!(limits.of_thread(tree.tree()), of_thread, "{many_of_thread}");
        }
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
            apart: 0,
            ..Limits::default()
        };
        let expected = [
            Tiled, Tiled, Tiled, Tiled, Whole, Tiled, Tiled, Whole, Whole,
        ];
        assert_eq!(classes(&fronts, &limits), expected);
        let limits = Limits {
            small_front: 4,
            whole_front: 0,
            gathered: 0,
            apart: 0,
            ..Limits::default()
        };
        let expected = [
            Tiled, Tiled, Tiled, Tiled, Tiled, Tiled, Tiled, Tiled, Small,
        ];
        assert_eq!(classes(&fronts, &limits), expected);
        assert_eq!(classes(&[], &limits), []);
    }

    #[test]
    fn a_front_above_a_wide_one_is_wide() {
        use FrontClass::{Small, Tiled, Whole, Wide};
        let limits = Limits {
            tiled_front: 200,
            ..Limits::default()
        };
        let fronts = [
            (1, 4, 8),
            (2, 100, 100),
            (4, 40, 40),
            (4, 101, 100),
            (5, 40, 40),
            (NONE, 4, 0),
        ];
        let expected = [Small, Tiled, Whole, Wide, Wide, Wide];
        assert_eq!(classes(&fronts, &limits), expected);
        // No front that one block works on as a whole is wide by itself.
        let limits = Limits {
            tiled_front: 0,
            ..limits
        };
        let expected = [Small, Wide, Wide, Wide, Wide, Wide];
        assert_eq!(classes(&fronts, &limits), expected);
        assert_eq!(classes(&fronts[4..], &limits), [Whole, Small]);
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
                is_given: false,
            };
            SolveClass::of(&front, false, PIVOTS_WITHOUT_STRIPS)
        };
        assert_eq!(class(1, 0, 0), SolveClass::Single);
        for small in [(2, 0, 0), (1, 1, 0), (1, 0, 1), (32, 64, 0)] {
            assert_eq!(
                class(small.0, small.1, small.2),
                SolveClass::Small,
                "{small:?}"
            );
        }
        for whole in [(33, 0, 0), (1, 65, 0), (64, 192, 2)] {
            assert_eq!(
                class(whole.0, whole.1, whole.2),
                SolveClass::Whole,
                "{whole:?}"
            );
        }
        for tiled in [(64, 193, 0), (65, 0, 0)] {
            assert_eq!(
                class(tiled.0, tiled.1, tiled.2),
                SolveClass::Tiled,
                "{tiled:?}"
            );
        }
    }

    #[test]
    fn fronts_of_many_pivots_are_solved_with_in_strips() {
        use SolveClass::{Single, Small, Tiled, Whole};
        let classes = |root| {
            let fronts = [(2, 1), (2, 33), (3, 32), (4, 33), (ROOT, root), (ROOT, 1)];
            SolveClass::of_tree(tree_of(&fronts).tree())
        };
        assert_eq!(classes(64), [Small, Whole, Whole, Whole, Whole, Single]);
        assert_eq!(classes(65), [Small, Tiled, Whole, Tiled, Tiled, Single]);
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
        let expected = [Tiled, Whole, Whole, Tiled, Whole, Small, Tiled, Single];
        assert_eq!(SolveClass::of_tree(tree_of(&fronts).tree()), expected);
    }
}
