//! Who works on what, and in which order: the host's part of a factorization on the device.
//!
//! See `luge_gpu_kernels::frontal::plan` for the records that come out. Small fronts are put into runs that one warp walks
//! without asking others. A run follows, from each front, the child with the longest path to a leaf; a subtree that takes
//! less than the hand-over from one warp to another joins the run of its parent. Tasks on large fronts are handed out by the length of
//! the path to the root that begins with them, longest first (T. L. Adam, K. M. Chandy and J. R. Dickson, "A comparison
//! of list schedules for parallel processing systems", Comm. ACM 17, 1974), unless their elements
//! would take too much memory: see [`elements`].
//!
//! Seconds come from the table of costs. It decides who does what and when; what is added up in which order depends on the
//! tree and the limits alone, so factors have the same bits with any table.

pub(super) mod elements;
mod large;
mod small;

use std::marker::PhantomData;
use std::ops::Range;

use luge_gpu_kernels::frontal::plan::{
    CONJUGATED, Child, Piece, SmallFront, Sum, Task, Wait, place,
};
use luge_sparse::etree::NONE;

use self::elements::Elements;
use super::classes::{FrontClass, Limits, Shape};
use super::cost::{self, DeviceCosts};
use super::memory::MemoryPlan;
use super::placement::PlacedOnHost;
use crate::layout::Layout;
use crate::portion::Portion;
use crate::shares::{both, collected, sort};
use crate::storage::Storage;
use crate::tree::{AssemblyTree, Front};

/// Where the entries of a tree come from, and how they are scaled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// Value of A of each entry of the pattern that the tree was made of.
    pub entries: &'a [u32],
    pub rows: &'a PlacedOnHost,
    pub cols: &'a PlacedOnHost,
    /// Whether each entry is the conjugate of its value where it goes; empty if B is not Hermitian.
    pub conjugated: &'a [bool],
}

/// The records of a plan, and how long its counters are.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub fronts: Vec<SmallFront>,
    pub children: Vec<Child>,
    pub starts: Vec<u32>,
    pub tasks: Vec<Task>,
    pub launches: Vec<LaunchOf>,
    pub pieces: Vec<Piece>,
    pub sums: Vec<Sum>,
    pub addends: Vec<u32>,
    pub waits: Vec<Wait>,
    pub source: Vec<u32>,
    pub places: Vec<u32>,
    pub num_large: u32,
    pub num_flags: u32,
    pub element_entries: u64,
}

/// Tasks that one launch works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LaunchOf {
    /// Whether their fronts are wide.
    pub is_wide: bool,
    pub tasks: Range<u32>,
}

/// A tree and how its matrix comes about.
struct Planner<'a, S: Storage> {
    tree: &'a AssemblyTree,
    layout: &'a Layout,
    fronts: &'a [Front],
    source: Source<'a>,
    limits: Limits,
    costs: &'a DeviceCosts,
    threads: usize,
    /// Who works on each front.
    classes: Vec<FrontClass>,
    /// Of each small front the child whose element is added first, or [`NONE`].
    heavy: Vec<u32>,
    /// Whether the element of each front is kept, if some are.
    is_kept: Option<&'a [bool]>,
    /// Number of each front among the large ones, or [`NONE`].
    large: Vec<u32>,
    /// Where elements are, and in which order tasks on large fronts come for that.
    elements: &'a Elements,
    /// Seconds of the path from the beginning of each front to the root.
    path: Vec<f64>,
    storage: PhantomData<S>,
}

/// What a plan of some fronts has in common with that of all.
#[derive(Debug, Clone)]
pub(super) struct Roles {
    /// Who works on each front.
    pub classes: Vec<FrontClass>,
    /// Of each small front the child whose element is added first, or [`NONE`].
    heavy: Vec<u32>,
}

impl Roles {
    /// Of all fronts of a tree.
    pub fn new(tree: &AssemblyTree, limits: &Limits) -> Self {
        let classes = FrontClass::of_tree(tree, limits);
        let heavy = small::heavy_children(tree, &classes);
        Self { classes, heavy }
    }

    /// Of a part of the tree whose roles these are.
    pub fn of_part(&self, portion: &Portion) -> Self {
        let number = |s: u32| portion.fronts.binary_search(&s).map_or(NONE, |s| s as u32);
        let fronts = portion.fronts.iter().zip(portion.tree.fronts());
        Self {
            classes: fronts
                .clone()
                .map(|(&s, _)| self.classes[s as usize])
                .collect(),
            heavy: fronts
                .map(|(&s, front)| match self.heavy[s as usize] {
                    heavy if heavy != NONE && !front.is_given => number(heavy),
                    _ => NONE,
                })
                .collect(),
        }
    }
}

/// Sources and places of entries, written from front to back.
struct Entries<'a> {
    source: &'a mut [u32],
    places: &'a mut [u32],
    /// Number of the next one among all entries.
    next: u32,
    written: usize,
}

impl Entries<'_> {
    fn push(&mut self, [source, place]: [u32; 2]) {
        self.source[self.written] = source;
        self.places[self.written] = place;
        self.written += 1;
        self.next += 1;
    }
}

/// Sorts numbers from 0 on by their units, ascending, and by seconds that are not negative, the longest first; of equal
/// ones the lowest number first.
fn longest_first(
    threads: usize,
    unit_and_seconds: impl Fn(usize) -> (u32, f64) + Sync + Send,
    len: usize,
) -> Vec<u32> {
    let key = |i: usize| {
        let (unit, seconds) = unit_and_seconds(i);
        let seconds = u128::from(cost::longest_first_key(seconds));
        u128::from(unit) << 96 | seconds << 32 | i as u128
    };
    let mut keys = collected(threads, len, key);
    sort(threads, &mut keys);
    keys.into_iter().map(|key| key as u32).collect()
}

impl Plan {
    /// Plans the factorization of a tree. The records are the same for any number of threads.
    pub fn new<S: Storage>(
        (tree, layout): (&AssemblyTree, &Layout),
        source: Source<'_>,
        memory: &MemoryPlan,
        threads: usize,
    ) -> Self {
        let roles = Roles::new(tree, &memory.limits);
        Self::keeping::<S>((tree, layout), source, memory, (roles, None), threads)
    }

    /// Plans the factorization of the fronts with these roles that are not given, in which elements are kept if `is_kept` says so
    /// of each front.
    pub fn keeping<S: Storage>(
        (tree, layout): (&AssemblyTree, &Layout),
        source: Source<'_>,
        memory: &MemoryPlan,
        (roles, is_kept): (Roles, Option<&[bool]>),
        threads: usize,
    ) -> Self {
        let planner = Planner::<S>::new((tree, layout), source, memory, (roles, is_kept), threads);
        let numbers = 0..tree.fronts().len() as u32;
        let of_large: Vec<u32> = numbers.filter(|&s| planner.is_large(s as usize)).collect();
        let num_entries = |&s: &u32| planner.entry_range(s as usize).len();
        let of_large_fronts: usize = of_large.iter().map(num_entries).sum();
        let all = layout.source.len();
        let (mut sources, mut places) = (vec![0; all], vec![0; all]);
        let of_small_fronts = all - of_large_fronts;
        let (small_sources, large_sources) = sources.split_at_mut(of_small_fronts);
        let (small_places, large_places) = places.split_at_mut(of_small_fronts);
        let (of_small, of_large_fronts) = both(
            threads,
            || planner.plan_small(&planner.order_small(), small_sources, small_places),
            || planner.plan_large(&of_large, large_sources, large_places),
        );
        if all == 0 {
            // Kernels read ahead the last one. Delayed columns leave links without entries.
            sources.push(0);
            places.push(0);
        }
        let (fronts, children, starts) = of_small;
        Self {
            fronts,
            children,
            starts,
            source: sources,
            places,
            num_large: of_large.len() as u32,
            element_entries: planner.elements.entries,
            ..of_large_fronts
        }
    }
}

impl<'a, S: Storage> Planner<'a, S> {
    fn new(
        (tree, layout): (&'a AssemblyTree, &'a Layout),
        source: Source<'a>,
        memory: &'a MemoryPlan,
        (roles, is_kept): (Roles, Option<&'a [bool]>),
        threads: usize,
    ) -> Self {
        let Roles { classes, heavy } = roles;
        let MemoryPlan {
            limits,
            costs,
            elements,
        } = memory;
        limits.check();
        let fronts = tree.fronts();
        let mut large = vec![NONE; fronts.len()];
        let are_large = classes
            .iter()
            .enumerate()
            .filter(|(_, class)| class.is_large());
        for (number, (s, _)) in are_large.enumerate() {
            large[s] = number as u32;
        }
        let mut planner = Self {
            tree,
            layout,
            fronts,
            source,
            limits: *limits,
            costs,
            threads,
            classes,
            heavy,
            is_kept,
            large,
            elements,
            path: Vec::new(),
            storage: PhantomData,
        };
        planner.path = planner.paths();
        planner
    }
}

impl<S: Storage> Planner<'_, S> {
    fn is_large(&self, s: usize) -> bool {
        self.classes[s].is_large()
    }

    /// Whether the element of front `s` is kept for other factorizations.
    fn keeps(&self, s: usize) -> bool {
        self.is_kept.is_some_and(|is_kept| is_kept[s])
    }

    /// Row and column in the front of entry `e` of the layout: of a symmetric matrix on or below the diagonal, since the
    /// panel of L is all there is.
    fn cell(&self, front: &Front, e: usize) -> (u32, u32) {
        let (k, c, m) = (front.pivots, front.below, front.size());
        let place = self.layout.target[e];
        if place < m * k {
            (place % m, place / m)
        } else {
            let place = place - m * k;
            (place / c, k + place % c)
        }
    }

    /// Source and place of entry `e` of the layout, which is in this row and column of a front, and in `row` and
    /// `column` of a tile of it.
    fn entry(&self, front: &Front, e: usize, cell: (u32, u32), row: u32, column: u32) -> [u32; 2] {
        let position = |i: u32| {
            if i < front.pivots {
                (front.start + i) as usize
            } else {
                self.tree.rows[front.rows as usize + (i - front.pivots) as usize] as usize
            }
        };
        let Source {
            entries,
            rows,
            cols,
            conjugated,
        } = self.source;
        let of_row = rows.exponents[position(cell.0)];
        let of_column = cols.exponents[position(cell.1)];
        let entry = self.layout.source[e] as usize;
        let place = place(row, column, of_row + of_column);
        // Of a matrix that is not Hermitian there is none.
        let is_conjugated = conjugated.get(entry).is_some_and(|&is| is);
        let flag = if is_conjugated { CONJUGATED } else { 0 };
        [entries[entry], place | flag]
    }

    fn entry_range(&self, s: usize) -> std::ops::Range<usize> {
        let ptr = &self.layout.entry_ptr;
        ptr[s] as usize..ptr[s + 1] as usize
    }

    /// Seconds of a front on the path to the root.
    fn seconds(&self, s: usize) -> f64 {
        let front = Shape::from(&self.fronts[s]);
        self.costs.front_seconds(front, self.classes[s])
    }

    /// Seconds of the path from the beginning of each front to the root.
    fn paths(&self) -> Vec<f64> {
        let mut path = vec![0.0; self.fronts.len()];
        for (s, front) in self.fronts.iter().enumerate().rev() {
            let above = match front.parent {
                NONE => 0.0,
                parent => path[parent as usize],
            };
            path[s] = above + self.seconds(s);
        }
        path
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use luge_sparse::{ColPerm, CompressedPattern, Permutation, RowPerm, Scaling};
    use luge_testkit::strategies::pattern_from;

    use luge_gpu_kernels::frontal::plan::{WHOLE, halves};

    use super::super::placement::Placement;
    use super::*;
    use crate::storage::Full;
    use crate::symbolic::Symbolic;
    use crate::tree::TreeOptions;

    pub(in crate::gpu) const ROOT: usize = usize::MAX;

    /// A tree of fronts with these parents and numbers of pivots, in postorder. Each has a row below for the first pivot
    /// of its parent.
    pub(in crate::gpu) fn tree_of(fronts: &[(usize, u32)]) -> Symbolic {
        let (mut starts, mut n) = (Vec::new(), 0);
        for (_, pivots) in fronts {
            starts.push(n);
            n += pivots;
        }
        let mut entries = Vec::new();
        for (&(parent, pivots), &start) in fronts.iter().zip(&starts) {
            let rows = (start..start + pivots).chain(starts.get(parent).copied());
            let rows: Vec<u32> = rows.collect();
            entries.extend(rows.iter().flat_map(|&i| rows.iter().map(move |&j| (i, j))));
        }
        let options = TreeOptions {
            zero_fraction: 0.0,
            tiny_zero_fraction: 0.0,
            ..TreeOptions::default()
        };
        let symbolic = Symbolic::analyze(&pattern_from(n as usize, entries), &options).unwrap();
        let found = symbolic.tree().fronts().iter();
        let found: Vec<_> = found.map(|front| (front.parent, front.pivots)).collect();
        let parent = |parent| if parent == ROOT { NONE } else { parent as u32 };
        let expected = fronts.iter().map(|&(p, pivots)| (parent(p), pivots));
        assert_eq!(found, expected.collect::<Vec<_>>());
        symbolic
    }

    /// What `of` makes of a tree of a matrix that is neither permuted nor scaled.
    pub(super) fn placed<S: Storage, R>(
        symbolic: &Symbolic<S>,
        of: impl FnOnce(Source<'_>) -> R,
    ) -> R {
        let tree = symbolic.tree();
        let n = tree.n();
        let coupling = CompressedPattern::new(n, vec![0; n + 1], Vec::new()).unwrap();
        let placement = Placement {
            row_perm: &RowPerm(Permutation::identity(n)),
            col_perm: &ColPerm(Permutation::identity(n)),
            scaling: &Scaling::identity(n, n),
            entries: &(0..tree.nnz() as u32).collect::<Vec<_>>(),
            block_ptr: &[0, n],
            coupling: &Arc::new(coupling),
            coupling_entries: &[],
            conjugated: None,
        };
        let (rows, cols) = placement.placed(tree.perm(), 1);
        of(Source {
            entries: placement.entries,
            rows: &rows,
            cols: &cols,
            conjugated: &[],
        })
    }

    /// A join takes as long as two small fronts of one pivot, and some.
    pub(super) const COSTS: DeviceCosts = DeviceCosts {
        small_front: 4.0,
        small_pivot: 1.5,
        join: 12.0,
        whole_front: 30.0,
        whole_pivot: 1.0,
        step: 200.0,
        tile: 10.0,
        ..cost::tests::COSTS
    };

    #[test]
    fn paths_to_the_root_add_up() {
        // A small front below one that is worked on as a whole, that below one of three tiles of pivots; a small root.
        let tree = tree_of(&[(1, 2), (2, 30), (ROOT, 130), (ROOT, 4)]);
        let memory = MemoryPlan::with(&tree, Limits::default(), COSTS);
        let path = placed(&tree, |source| {
            let roles = Roles::new(tree.tree(), &memory.limits);
            Planner::<Full>::new(tree.tree_and_layout(), source, &memory, (roles, None), 1).path
        });
        let tiles = 30.0 + 3.0 * 200.0;
        let whole = 30.0 + 30.0;
        let small = |pivots: f64| 4.0 + pivots * 1.5;
        let expected = [tiles + whole + small(2.0), tiles + whole, tiles, small(4.0)];
        assert_eq!(path, expected);
    }

    #[test]
    fn those_with_the_longest_path_come_first() {
        let limits = Limits {
            small_front: 4,
            ..Limits::default()
        };
        // Small fronts of 2, 3 and 1 pivots below whole ones of 20, 40 and 10, and one of two tiles of pivots and one
        // of rows below them; the root has two tiles.
        let tree = tree_of(&[
            (1, 2),
            (7, 20),
            (3, 3),
            (7, 40),
            (5, 1),
            (7, 10),
            (7, 96),
            (ROOT, 100),
        ]);
        let memory = MemoryPlan::with(&tree, limits, COSTS);
        let plan = placed(&tree, |source| {
            Plan::new::<Full>(tree.tree_and_layout(), source, &memory, 1)
        });
        assert_eq!(plan.starts, [1, 0, 2]);
        let tile = |s: u32, ti: u32, tj: u32| (s, halves(ti, tj));
        // 430 from the beginning of the root on; 200 from one diagonal tile to the next, half of it beside the first.
        let expected = [
            tile(3, 0, 0),
            tile(3, 1, 0),
            tile(3, 2, 0),
            tile(3, 0, 1),
            tile(3, 0, 2),
            tile(3, 1, 1),
            tile(3, 2, 1),
            tile(3, 1, 2),
            (1, WHOLE),
            (0, WHOLE),
            (2, WHOLE),
            tile(3, 2, 2),
            tile(4, 0, 0),
            tile(4, 1, 0),
            tile(4, 0, 1),
            tile(4, 1, 1),
        ];
        let tasks = plan.tasks.iter().map(|task| (task.front, task.tile));
        let tasks: Vec<(u32, u32)> = tasks.collect();
        assert_eq!(tasks, expected);
        let all = LaunchOf {
            is_wide: false,
            tasks: 0..16,
        };
        assert_eq!(plan.launches, [all]);
        assert_eq!((plan.num_large, plan.num_flags), (5, 9 + 4));
        assert_eq!(plan.element_entries, 7);
    }
}
