//! The elimination tree of B + Bᵀ within diagonal blocks, and its cut into panels.
//!
//! **The tree.** Let H be the graph of all edges (i, k), i < k, that are still to be taken in, together
//! with the edges (v, `parent[v]`) of the forest so far. One step takes an edge (v, k):
//!
//! - if `parent[v]` is k, it is there already;
//! - if p = `parent[v]` lies below k, it becomes (p, k);
//! - otherwise k becomes the parent of v, and the edge (v, p) to the former one becomes (k, p).
//!
//! A step replaces two edges (v, p), (v, k) of H, p < k, by (v, p), (p, k). Elimination of v joins p and
//! k anyway, so the elimination tree of H (J. W. H. Liu, "The role of elimination trees in sparse
//! factorization", SIAM J. Matrix Anal. Appl. 11, 1990) stays what it is. When no edge is left, H is a forest whose
//! parents are larger than their children: its own elimination tree. Each step changes one word by
//! compare-and-swap, so threads take steps in any order, and the tree, which is unique, is the same in
//! every run.
//!
//! Path compression: `shortcut[v]` is some vertex that is known to be an ancestor of v in that tree.
//! What is an ancestor stays one, so an edge (v, k) may go on from `shortcut[v]` if that is at most k.
//!
//! **Panels.** A panel is a range of at most [`PANEL`] consecutive vertices of which all but the last have
//! their parents inside: a whole subtree that is small, or a piece of a path. So panels form a forest,
//! too, and what a panel needs from elsewhere comes from panels below it.

use luge_kernel::prelude::*;

use super::args::{FoundPanels, Pattern};
use crate::grid::GridBarrier;
use crate::scan::{MAX_WARPS, grid_exclusive_scan};
use crate::search::{for_entries, position_of};

/// No parent.
pub const NONE: u32 = u32::MAX;

/// Most vertices of a panel: one bit each in a word of 64.
pub const PANEL: u32 = 64;

/// A word a vertex, in a larger array.
#[derive(Clone, Copy)]
struct PerVertex {
    words: GlobalMut<u32>,
    /// Place of vertex 0.
    at: usize,
}

impl PerVertex {
    #[inlined]
    fn get(self, v: usize) -> u32 {
        self.words.get(self.at + v)
    }

    #[inlined]
    fn set(self, v: usize, word: u32) {
        self.words.set(self.at + v, word);
    }

    #[inlined]
    fn atomic(self, v: usize) -> Atomic<u32> {
        self.words.atomic(self.at + v)
    }
}

/// Takes the edge (i, k), i < k, into the forest.
#[inlined]
fn insert(i: u32, k: u32, parent: PerVertex, shortcut: PerVertex) {
    let (mut v, mut to) = (i, k);
    // The vertex that the walk was at before v.
    let mut behind = i;
    while v != to {
        let jump = shortcut
            .atomic(v as usize)
            .load(Ordering::Relaxed, Scope::Device);
        if jump <= to {
            behind = v;
            v = jump;
            continue;
        }
        let cell = parent.atomic(v as usize);
        let p = cell.load(Ordering::Relaxed, Scope::Device);
        if p <= to {
            // Path halving: p is an ancestor of the vertex before v, too.
            shortcut
                .atomic(behind as usize)
                .store(p, Ordering::Relaxed, Scope::Device);
            behind = v;
            v = p;
            continue;
        }
        if cell.compare_exchange(p, to, Ordering::Relaxed, Scope::Device) == p {
            if p == NONE {
                break;
            }
            behind = to;
            v = to;
            to = p;
        }
    }
    if i != k {
        shortcut
            .atomic(i as usize)
            .store(k, Ordering::Relaxed, Scope::Device);
    }
}

/// Takes the entries left of the diagonal of a square CSR pattern into the elimination forest `parent`,
/// as far as both ends lie in the same diagonal block.
#[inlined]
fn insert_all(
    ptr: Global<u64>,
    idx: Global<u32>,
    block_of: Global<u32>,
    parent: PerVertex,
    shortcut: PerVertex,
) {
    for_entries(ptr, idx.len() as u64, 1, |k, p| {
        let i = idx.get(p as usize);
        if (i as usize) < k && block_of.get(i as usize) == block_of.get(k) {
            insert(i, k as u32, parent, shortcut);
        }
    });
}

/// What is found of small subtrees. Of each vertex: children; vertices below, their least number and children so far
/// arrived; vertices of its subtree if these are at most [`PANEL`], otherwise zero, and the first of them.
#[derive(Clone, Copy)]
struct Subtrees {
    parent: PerVertex,
    children: PerVertex,
    below: PerVertex,
    least: PerVertex,
    arrived: PerVertex,
    size: PerVertex,
    first: PerVertex,
}

impl Subtrees {
    /// Climbs from a leaf, while it is the last child to arrive and the subtree is small: nobody waits, and nobody
    /// takes more than [`PANEL`] steps.
    ///
    /// `below`, `least` and `arrived` of a parent are written by atomics of its children; `size` and `first`
    /// by the one thread that completes the vertex, which has acquired what all children released.
    #[inlined]
    fn climb(self, leaf: usize) {
        let mut v = leaf;
        let mut vertices = 1u32;
        let mut smallest = leaf as u32;
        loop {
            self.size.set(v, vertices);
            self.first.set(v, smallest);
            let p = self.parent.get(v);
            if p == NONE {
                break;
            }
            let p = p as usize;
            self.below
                .atomic(p)
                .reduce_add(vertices, Ordering::Relaxed, Scope::Device);
            self.least
                .atomic(p)
                .fetch_min(smallest, Ordering::Relaxed, Scope::Device);
            let before = self
                .arrived
                .atomic(p)
                .fetch_add(1, Ordering::AcqRel, Scope::Device);
            if before + 1 < self.children.get(p) {
                break;
            }
            vertices = self.below.atomic(p).load(Ordering::Relaxed, Scope::Device) + 1;
            if vertices > PANEL {
                break;
            }
            smallest = self.least.atomic(p).load(Ordering::Relaxed, Scope::Device);
            v = p;
        }
    }

    /// The root of the largest small subtree of consecutive vertices that holds v, or [`NONE`].
    #[inlined]
    fn root(self, v: u32) -> u32 {
        let mut root = NONE;
        let mut at = v;
        while at != NONE {
            let vertices = self.size.get(at as usize);
            if vertices == 0 {
                break;
            }
            if vertices == at - self.first.get(at as usize) + 1 {
                root = at;
            }
            at = self.parent.get(at as usize);
        }
        root
    }

    /// Whether a panel begins with v. A small subtree of consecutive vertices that no larger one holds is a panel. The vertices
    /// outside of those follow their predecessor if that is a child of theirs, and begin anew at multiples
    /// of [`PANEL`].
    #[inlined]
    fn is_start(self, v: u32) -> bool {
        let root = self.root(v);
        if root != NONE {
            return self.first.get(root as usize) == v;
        }
        v.is_multiple_of(PANEL) || self.parent.get(v as usize - 1) != v || self.root(v - 1) != NONE
    }
}

/// Words of scratch memory a vertex that [`plant_forest`](fn@plant_forest) uses.
pub const SCRATCH: usize = 9;

/// The elimination forest of B + Bᵀ within diagonal blocks, cut into panels, in one launch.
///
/// Writes the panels in order: `panel_of[v]`; `panel_start`, followed by n; `panel_parent`, the panel of the parent of
/// a panel's last vertex or [`NONE`]; `children`, how many panels each is the parent of; `child`, which these are,
/// from `child_ptr` on, in any order; and their number, `num_panels[0]`. `symmetric` not zero: columns
/// of B are not looked at.
///
/// Threads: persistent grid; one an entry of B for the edges, one a vertex or a panel afterwards. Writes and
/// orders: grid barriers part the steps. In the first, `parent` by compare-and-swap, see the module; in the second,
/// counts of children by atomic adds; in the third see `Subtrees::climb`; then each vertex, or panel, by its own
/// thread, counts by atomic adds, and places of `child` by the thread that an atomic counter gave them to.
///
/// Launch: cooperative, 1-D, a multiple of 32 threads. Preconditions: rows and columns of B are valid;
/// `block_of` are its diagonal blocks; `barrier` is zero.
#[kernel(
    max_threads(256),
    min_blocks(1),
    require(
        pattern.row_ptr.len() == block_of.len() + 1,
        symmetric != 0 || pattern.col_ptr.len() == pattern.row_ptr.len(),
        scratch.len() == SCRATCH * block_of.len(),
        found.panel_of.len() == block_of.len(),
        found.panel_start.len() == block_of.len() + 1,
        found.panel_parent.len() == block_of.len(),
        found.children.len() == block_of.len(),
        found.child_ptr.len() == block_of.len() + 1,
        found.child.len() == block_of.len(),
        found.num_panels.len() == 1,
        barrier.len() >= 1
    )
)]
pub unsafe fn plant_forest(
    symmetric: u32,
    pattern: Pattern,
    block_of: Global<u32>,
    scratch: GlobalMut<u32>,
    sums: GlobalMut<u64>,
    found: FoundPanels,
    barrier: GlobalMut<u32>,
) {
    let warp_sums = shared_array![u64; MAX_WARPS];
    let mut grid = GridBarrier::new(barrier);
    let n = block_of.len();
    let piece = |i: usize| PerVertex {
        words: scratch,
        at: i * n,
    };
    let subtrees = Subtrees {
        parent: piece(0),
        children: piece(1),
        below: piece(2),
        least: piece(3),
        arrived: piece(4),
        size: piece(5),
        first: piece(6),
    };
    let parent = subtrees.parent;
    let shortcut = piece(7);
    let starts = piece(8);
    let is_first = thread::index_1d() == 0;

    for v in thread::grid_stride(n) {
        parent.set(v, NONE);
        shortcut.set(v, NONE);
        subtrees.children.set(v, 0);
        subtrees.below.set(v, 0);
        subtrees.least.set(v, NONE);
        subtrees.arrived.set(v, 0);
        subtrees.size.set(v, 0);
        found.children.set(v, 0);
    }
    grid.wait();

    insert_all(pattern.row_ptr, pattern.col_idx, block_of, parent, shortcut);
    if symmetric == 0 {
        insert_all(pattern.col_ptr, pattern.row_idx, block_of, parent, shortcut);
    }
    grid.wait();

    for v in thread::grid_stride(n) {
        let p = parent.get(v);
        if p != NONE {
            subtrees
                .children
                .atomic(p as usize)
                .reduce_add(1, Ordering::Relaxed, Scope::Device);
        }
    }
    grid.wait();

    for v in thread::grid_stride(n) {
        if subtrees.children.get(v) == 0 {
            subtrees.climb(v);
        }
    }
    grid.wait();

    for v in thread::grid_stride(n) {
        starts.set(v, subtrees.is_start(v as u32) as u32);
    }
    grid.wait();

    let panels = grid_exclusive_scan(
        &mut grid,
        sums,
        warp_sums,
        n,
        |v| u64::from(starts.get(v)),
        |v, before| {
            let panel = if starts.get(v) != 0 {
                found.panel_start.set(before as usize, v as u32);
                before
            } else {
                before - 1
            };
            found.panel_of.set(v, panel as u32);
        },
    ) as usize;
    if is_first {
        found.panel_start.set(panels, n as u32);
        found.num_panels.set(0, panels as u32);
    }

    // The end of a panel is the place where the next one starts, or n, which is being written.
    for q in thread::grid_stride(panels) {
        let end = if q + 1 < panels {
            found.panel_start.get(q + 1) as usize
        } else {
            n
        };
        let up = parent.get(end - 1);
        let mut above = NONE;
        if up != NONE {
            above = found.panel_of.get(up as usize);
            found
                .children
                .atomic(above as usize)
                .reduce_add(1, Ordering::Relaxed, Scope::Device);
        }
        found.panel_parent.set(q, above);
        subtrees.arrived.set(q, 0);
    }
    grid.wait();

    let with_parent = grid_exclusive_scan(
        &mut grid,
        sums,
        warp_sums,
        panels,
        |q| u64::from(found.children.get(q)),
        |q, before| found.child_ptr.set(q, before),
    );
    if is_first {
        found.child_ptr.set(panels, with_parent);
    }
    for q in thread::grid_stride(panels) {
        let above = found.panel_parent.get(q);
        if above != NONE {
            let at = subtrees.arrived.atomic(above as usize).fetch_add(
                1,
                Ordering::Relaxed,
                Scope::Device,
            );
            let first = found.child_ptr.get(above as usize);
            found.child.set((first + u64::from(at)) as usize, q as u32);
        }
    }
}

/// Sets `missing[0]` to one if an entry (i, j) of a square CSR pattern lacks its mirror image (j, i).
///
/// Threads: one an entry, grid-strided; each searches one row by halving, unless it sees `missing[0]` set. Writes:
/// `missing[0]` by relaxed stores of one. Launch: 1-D, a multiple of 32 threads. Preconditions: rows
/// increase strictly; `missing[0]` is zero.
#[kernel(max_threads(1024), require(ptr.len() >= 1, missing.len() == 1))]
pub unsafe fn find_unmirrored(ptr: Global<u64>, idx: Global<u32>, missing: GlobalMut<u32>) {
    let flag = missing.atomic(0);
    for_entries(ptr, idx.len() as u64, 1, |i, p| {
        if flag.load(Ordering::Relaxed, Scope::Device) == 0 {
            let j = idx.get(p as usize) as usize;
            let mirrored = position_of(idx, ptr.get(j), ptr.get(j + 1), i as u32);
            if mirrored == u64::MAX {
                flag.store(1, Ordering::Relaxed, Scope::Device);
            }
        }
    });
}
