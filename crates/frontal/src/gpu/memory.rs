//! What a tree and the factors on it take on the device.

use std::sync::Arc;

use luge_gpu_kernels::frontal::plan::{Child, SmallFront, Task, element_entries, report, state};
use luge_gpu_kernels::frontal::solve::layout::FrontRecord;

use super::DeviceTree;
use super::classes::{FrontClass, Limits, Shape};
use super::cost::DeviceCosts;
use super::mapping::Mapping;
use super::plan::elements::Elements;
use super::streamed::Division;
use super::tree::DevicePlan;
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::{AssemblyTree, Front};

/// Where the elements of a tree are in the memory of a device: made once for a tree, for predictions and for
/// [`DeviceTree::upload`].
#[derive(Debug, Clone)]
pub struct MemoryPlan {
    pub(super) limits: Limits,
    pub(super) costs: DeviceCosts,
    pub(super) elements: Arc<Elements>,
}

impl MemoryPlan {
    /// Of a tree on a device of compute capability 9.0 or later. n·log n for n fronts.
    pub fn new<S: Storage>(symbolic: &Symbolic<S>) -> Self {
        Self::with(symbolic, Limits::default(), DeviceCosts::default())
    }

    /// As [`new`](Self::new), with other limits between the classes of fronts.
    ///
    /// # Panics
    ///
    /// If a limit is larger than that by default.
    #[track_caller]
    pub fn with_limits<S: Storage>(symbolic: &Symbolic<S>, limits: Limits) -> Self {
        limits.check();
        Self::with(symbolic, limits, DeviceCosts::default())
    }

    /// As [`new`](Self::new), for factors of numbers with so many components. With `threads` above 1, those of the current rayon
    /// pool share the work; the plan is the same.
    pub fn of_components<S: Storage>(
        symbolic: &Symbolic<S>,
        components: usize,
        threads: usize,
    ) -> Self {
        let costs = DeviceCosts::default().of_components(components);
        let limits = Limits::of_components(components);
        Self::of_tree::<S>(&symbolic.tree, limits, costs, threads)
    }

    pub(super) fn with<S: Storage>(
        symbolic: &Symbolic<S>,
        limits: Limits,
        costs: DeviceCosts,
    ) -> Self {
        Self::of_tree::<S>(&symbolic.tree, limits, costs, 1)
    }

    /// Of a tree or a part of one.
    pub(super) fn of_tree<S: Storage>(
        tree: &AssemblyTree,
        limits: Limits,
        costs: DeviceCosts,
        threads: usize,
    ) -> Self {
        let limits = limits.stored_as::<S>();
        let classes = FrontClass::of_tree(tree, &limits);
        let elements = Elements::new::<S>(tree, &classes, (&limits, &costs), None, threads);
        Self {
            limits,
            costs,
            elements: Arc::new(elements),
        }
    }

    /// Which subtrees of the tree that this was made for each of so many `devices` works on, for factors with values of
    /// `value_bytes` bytes; none if there is nothing to deal out. n·log n for n fronts.
    pub fn mapping<S: Storage>(
        &self,
        symbolic: &Symbolic<S>,
        devices: usize,
        value_bytes: usize,
    ) -> Option<Mapping> {
        let Self { limits, costs, .. } = self;
        Mapping::best::<S>(&symbolic.tree, limits, costs, devices, value_bytes)
    }

    /// As [`mapping`](Self::mapping), with the subtrees whose roots are given for each device. None if a root is not cut into
    /// tiles for its own size, or is in the subtree of another one.
    pub fn mapping_of<S: Storage>(
        &self,
        symbolic: &Symbolic<S>,
        roots: Vec<Vec<u32>>,
        value_bytes: usize,
    ) -> Option<Mapping> {
        let Self { limits, costs, .. } = self;
        Mapping::of_roots::<S>(&symbolic.tree, limits, costs, roots, value_bytes)
    }

    /// The tree that this was made for in links whose panels and elements, of values of `value_bytes` bytes, take at most `bytes`
    /// bytes; none if its largest front takes more. n·log n for n fronts.
    pub fn division<S: Storage>(
        &self,
        symbolic: &Symbolic<S>,
        value_bytes: usize,
        bytes: u64,
    ) -> Option<Division> {
        Division::within(symbolic, self, value_bytes, bytes)
    }

    /// Bytes of this on the host.
    pub fn host_bytes(&self) -> u64 {
        self.elements.bytes()
    }
}

impl<S: Storage> DeviceTree<S> {
    /// Predicted bytes on the device of a tree, of the factors of one matrix with values of `value_bytes` bytes, and of
    /// its elements. The values of A, the entries right of the diagonal blocks, right-hand sides and
    /// what a solve works in are not counted.
    pub fn predicted_bytes(symbolic: &Symbolic<S>, memory: &MemoryPlan, value_bytes: usize) -> u64 {
        let tree = &symbolic.tree;
        let fronts = tree.num_supernodes() as u64;
        let limits = &memory.limits;
        let classes = FrontClass::of_tree(tree, limits);
        let (n, nnz) = (tree.n() as u64, tree.nnz() as u64);
        let rows = tree.rows.len() as u64;
        let to_factorize = factorization_records::<S>(tree, &classes);
        // Each entry of a small element that is added to a large front, and, for nearly each, where the sum is that it
        // goes to.
        let of_gathered = 3 * 4 * gathered::<S>(tree, &classes, limits.gathered);
        // A description, and about one task in each of two directions, up and down; large ones are few.
        let to_solve = fronts * (size_of::<FrontRecord>() + 4 * size_of::<u32>()) as u64;
        // The row below a pivot, its place in the parent, and where its share of a solution is gathered.
        let of_rows = 3 * 4 * rows;
        // Where an entry comes from, and where it goes with its scaling.
        let of_entries = 2 * 4 * nnz;
        // In two directions, the row and column of A of each pivot and their scaling.
        let of_pivots = 2 * 4 * 4 * n;
        to_factorize
            + of_gathered
            + to_solve
            + of_rows
            + of_entries
            + of_pivots
            + Self::factor_bytes(symbolic, value_bytes)
            + Self::workspace_bytes(symbolic, memory, value_bytes)
    }

    /// That part of them that each matrix needs for itself.
    pub fn factor_bytes(symbolic: &Symbolic<S>, value_bytes: usize) -> u64 {
        // Exchanges of rows: pivot by pivot, as places, and as a permutation. Of a symmetric matrix the kinds of pivots in
        // place of the first; and the diagonal, and places that a search finds.
        let (values, words) = if S::SYMMETRIC { (2, 4) } else { (0, 3) };
        let n = symbolic.n() as u64;
        (symbolic.layout.slots + values * n) * value_bytes as u64 + words * 4 * n
    }

    /// That part of them that factors share if they share a [`Workspace`](super::Workspace): memory for elements,
    /// counters, and which pivots a search failed at.
    pub fn workspace_bytes(symbolic: &Symbolic<S>, memory: &MemoryPlan, value_bytes: usize) -> u64 {
        let tree = &symbolic.tree;
        let classes = FrontClass::of_tree(tree, &memory.limits);
        let records = tree.fronts().iter().zip(classes);
        let counters = records.map(|(front, class)| match class {
            FrontClass::Small => 1,
            FrontClass::Whole => 2,
            FrontClass::Tiled | FrontClass::Wide => {
                2 + u64::from(class.tiling(Shape::from(front)).num_flags())
            }
        });
        let words = counters.sum::<u64>() + symbolic.n() as u64;
        memory.elements.entries * value_bytes as u64 + 4 * words
    }
}

impl<S: Storage> DeviceTree<S> {
    /// Of a tree that is dealt out or in links, what [`workspace_bytes`](Self::workspace_bytes) are of one that is not.
    pub fn planned_workspace_bytes(&self, value_bytes: usize) -> Option<u64> {
        let n = self.symbolic.n();
        if let Some(chain) = &self.chain {
            let last = counted_bytes(&self.plan, n, value_bytes);
            return Some(last + chain.bytes_beside_last(&self.plan, n, value_bytes));
        }
        let own = self.parts.iter().filter(|part| part.peer.is_none());
        let of_parts = own.map(|part| counted_bytes(&part.plan, n, value_bytes));
        let above = counted_bytes(&self.plan, n, value_bytes);
        (!self.parts.is_empty()).then(|| above + of_parts.sum::<u64>())
    }

    /// Of a tree in links, bytes of the panels of one matrix that are on the device, of those on its peers, and of those on the
    /// host, with what crosses between links there.
    pub fn streamed_bytes(&self, value_bytes: usize) -> Option<[u64; 3]> {
        let chain = self.chain.as_ref()?;
        let [on_peers, on_host] = chain.bytes_elsewhere(value_bytes);
        let on_device = (2 * chain.panel_entries * value_bytes) as u64;
        Some([on_device, on_peers, on_host])
    }

    /// Of a tree that is dealt out, the numbers of other devices in their group, and the bytes that the factors of a matrix
    /// take there, with what they are made in.
    pub fn bytes_of_peers(&self, value_bytes: usize) -> impl Iterator<Item = (usize, u64)> {
        let n = self.symbolic.n();
        let of_pivots = if S::SYMMETRIC {
            (2 * value_bytes + 3 * size_of::<u32>()) * n
        } else {
            2 * size_of::<u32>() * n
        };
        let values = size_of::<f64>() * self.max_source;
        let peers = self.parts.iter().filter(|part| part.peer.is_some());
        peers.map(move |part| {
            let of_factors = (part.slots * value_bytes + of_pivots + values) as u64;
            let counted = counted_bytes(&part.plan, n, value_bytes);
            (part.device, of_factors + counted)
        })
    }
}

/// Bytes of elements and counters of the launches of a plan.
pub(super) fn counted_bytes(plan: &DevicePlan, n: usize, value_bytes: usize) -> u64 {
    let of_fronts = plan.fronts.len() + 2 * plan.num_large + plan.num_flags;
    let counters = of_fronts + n + state::LEN;
    plan.element_entries * value_bytes as u64 + (4 * counters + 8 * report::NUM_EXTREMES) as u64
}

/// Bytes of the records of fronts and tasks. Those of pieces of elements are few beside the elements.
fn factorization_records<S: Storage>(tree: &AssemblyTree, classes: &[FrontClass]) -> u64 {
    let records = tree.fronts().iter().zip(classes);
    let bytes = records.map(|(front, &class)| match class {
        // The front, and its record as a child.
        FrontClass::Small => (size_of::<SmallFront>() + size_of::<Child>()) as u64,
        FrontClass::Whole | FrontClass::Tiled | FrontClass::Wide => {
            let tiling = class.tiling(Shape::from(front)).stored_as::<S>();
            u64::from(tiling.len()) * size_of::<Task>() as u64
        }
    });
    bytes.sum()
}

/// Entries of the elements of at most `most` rows, which are added entry by entry to large fronts.
fn gathered<S: Storage>(tree: &AssemblyTree, classes: &[FrontClass], most: u32) -> u64 {
    let is_gathered = |front: &&Front| {
        let above = classes.get(front.parent as usize);
        front.below <= most && above.is_some_and(|class| class.is_large())
    };
    let gathered = tree.fronts().iter().filter(is_gathered);
    gathered
        .map(|front| element_entries(S::SYMMETRIC, front.below))
        .sum()
}
