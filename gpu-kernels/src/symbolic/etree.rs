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

use crate::search::{for_entries, position_of};

/// No parent.
pub const NONE: u32 = u32::MAX;

/// Most vertices of a panel: one bit each in a word.
pub const PANEL: u32 = 32;

/// Takes the edge (i, k), i < k, into the forest.
#[inline(always)]
fn insert(i: u32, k: u32, parent: GlobalMut<u32>, shortcut: GlobalMut<u32>) {
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
///
/// Threads: one an entry, grid-strided. Writes: `parent` and `shortcut` by relaxed atomics, see the
/// module. Launch: 1-D, a multiple of 32 threads. Preconditions: `parent` and `shortcut` hold [`NONE`] everywhere, or what an earlier launch over another pattern left; columns
/// are below n.
#[kernel(
    max_threads(1024),
    require(
        ptr.len() == parent.len() + 1,
        block_of.len() == parent.len(),
        shortcut.len() == parent.len()
    )
)]
pub unsafe fn etree_insert(
    ptr: Global<u64>,
    idx: Global<u32>,
    block_of: Global<u32>,
    parent: GlobalMut<u32>,
    shortcut: GlobalMut<u32>,
) {
    for_entries(ptr, idx.len() as u64, 1, |k, p| {
        let i = idx.get(p as usize);
        if (i as usize) < k && block_of.get(i as usize) == block_of.get(k) {
            insert(i, k as u32, parent, shortcut);
        }
    });
}

/// Number of children of each vertex of a forest: `children[parent[v]]` grows by one for each v.
///
/// Threads: one a vertex, grid-strided. Writes: atomic adds. Precondition: `children` is zero.
#[kernel(max_threads(1024), require(children.len() == parent.len()))]
pub unsafe fn count_children(parent: Global<u32>, children: GlobalMut<u32>) {
    for v in thread::grid_stride(parent.len()) {
        let p = parent.get(v);
        if p != NONE {
            children
                .atomic(p as usize)
                .reduce_add(1, Ordering::Relaxed, Scope::Device);
        }
    }
}

/// Sizes and first vertices of the subtrees of at most [`PANEL`] vertices: `subtree[v]` is the number
/// of vertices of v's subtree, or stays zero if that is larger; `first[v]` is its smallest vertex where
/// `subtree[v]` is not zero.
///
/// Threads: one a leaf, grid-strided; it climbs while it is the last child to arrive and the subtree
/// is small, so no thread waits and none takes more than [`PANEL`] steps. Writes: `size`, `least` and
/// `arrived` of a parent by atomics of its children; `subtree` and `first` of a vertex by the one
/// thread that completes it, which has acquired what all its children released. Preconditions:
/// `children` holds [`count_children`](fn@count_children)'s; `size`, `arrived` and `subtree` are zero,
/// `least` is [`NONE`] everywhere.
#[kernel(
    max_threads(1024),
    require(
        children.len() == parent.len(),
        size.len() == parent.len(),
        least.len() == parent.len(),
        arrived.len() == parent.len(),
        subtree.len() == parent.len(),
        first.len() == parent.len()
    )
)]
pub unsafe fn small_subtrees(
    parent: Global<u32>,
    children: Global<u32>,
    size: GlobalMut<u32>,
    least: GlobalMut<u32>,
    arrived: GlobalMut<u32>,
    subtree: GlobalMut<u32>,
    first: GlobalMut<u32>,
) {
    for leaf in thread::grid_stride(parent.len()) {
        if children.get(leaf) > 0 {
            continue;
        }
        let mut v = leaf;
        let mut vertices = 1u32;
        let mut smallest = leaf as u32;
        loop {
            subtree.set(v, vertices);
            first.set(v, smallest);
            let p = parent.get(v);
            if p == NONE {
                break;
            }
            let p = p as usize;
            size.atomic(p)
                .reduce_add(vertices, Ordering::Relaxed, Scope::Device);
            least
                .atomic(p)
                .fetch_min(smallest, Ordering::Relaxed, Scope::Device);
            let before = arrived
                .atomic(p)
                .fetch_add(1, Ordering::AcqRel, Scope::Device);
            if before + 1 < children.get(p) {
                break;
            }
            vertices = size.atomic(p).load(Ordering::Relaxed, Scope::Device) + 1;
            if vertices > PANEL {
                break;
            }
            smallest = least.atomic(p).load(Ordering::Relaxed, Scope::Device);
            v = p;
        }
    }
}

/// The root of the largest small subtree of consecutive vertices that holds v, or [`NONE`].
#[inline(always)]
fn small_root(v: u32, parent: Global<u32>, subtree: Global<u32>, first: Global<u32>) -> u32 {
    let mut root = NONE;
    let mut at = v;
    while at != NONE {
        let vertices = subtree.get(at as usize);
        if vertices == 0 {
            break;
        }
        if vertices == at - first.get(at as usize) + 1 {
            root = at;
        }
        at = parent.get(at as usize);
    }
    root
}

/// Marks the first vertex of each panel: `starts[v]` is one there, zero elsewhere.
///
/// A small subtree of consecutive vertices that no larger one holds is a panel. The vertices outside of those
/// follow their predecessor if that is a child of theirs, and begin anew at multiples of [`PANEL`].
///
/// Threads: one a vertex, grid-strided, each writes its own mark. Preconditions: `subtree` and `first`
/// hold [`small_subtrees`](fn@small_subtrees)'s.
#[kernel(
    max_threads(1024),
    require(
        subtree.len() == parent.len(),
        first.len() == parent.len(),
        starts.len() == parent.len()
    )
)]
pub unsafe fn panel_starts(
    parent: Global<u32>,
    subtree: Global<u32>,
    first: Global<u32>,
    starts: GlobalMut<u32>,
) {
    for v in thread::grid_stride(parent.len()) {
        let v = v as u32;
        let root = small_root(v, parent, subtree, first);
        let starts_here = if root != NONE {
            first.get(root as usize) == v
        } else {
            v.is_multiple_of(PANEL)
                || parent.get(v as usize - 1) != v
                || small_root(v - 1, parent, subtree, first) != NONE
        };
        starts.set(v as usize, starts_here as u32);
    }
}

/// Panel of each vertex, and first vertex of each panel followed by n.
///
/// Threads: one a vertex, grid-strided. Writes: `panel_of[v]` by the thread of v, `panel_start[q]` by that
/// of the panel's first vertex, `panel_start[panels]` by that of the last vertex. Precondition:
/// `number` is the exclusive prefix sum of `starts`.
#[kernel(
    max_threads(1024),
    require(
        number.len() == starts.len() + 1,
        panel_of.len() == starts.len(),
        panel_start.len() >= 1
    )
)]
pub unsafe fn panel_bounds(
    starts: Global<u32>,
    number: Global<u64>,
    panel_of: GlobalMut<u32>,
    panel_start: GlobalMut<u32>,
) {
    let n = starts.len();
    for v in thread::grid_stride(n) {
        let panel = number.get(v + 1) as u32 - 1;
        panel_of.set(v, panel);
        if starts.get(v) != 0 {
            panel_start.set(panel as usize, v as u32);
        }
        if v == n - 1 {
            panel_start.set(panel as usize + 1, n as u32);
        }
    }
}

/// Panel of the parent of each panel's last vertex, or [`NONE`], and how many panels each is that of.
///
/// Threads: one a panel, grid-strided. Writes: `panel_parent` by the panel's thread, `children` by atomic
/// adds. Precondition: `children` is zero.
#[kernel(
    max_threads(1024),
    require(
        panel_start.len() == panel_parent.len() + 1,
        children.len() == panel_parent.len()
    )
)]
pub unsafe fn panel_parents(
    parent: Global<u32>,
    panel_of: Global<u32>,
    panel_start: Global<u32>,
    panel_parent: GlobalMut<u32>,
    children: GlobalMut<u32>,
) {
    for q in thread::grid_stride(panel_parent.len()) {
        let up = parent.get(panel_start.get(q + 1) as usize - 1);
        let mut above = NONE;
        if up != NONE {
            above = panel_of.get(up as usize);
            children
                .atomic(above as usize)
                .reduce_add(1, Ordering::Relaxed, Scope::Device);
        }
        panel_parent.set(q, above);
    }
}

/// Lists the children of each panel in `child[child_ptr[q] ..]`, in any order.
///
/// Threads: one a panel, grid-strided. Writes: a place of `child` by the thread that an atomic counter gave
/// it to. Preconditions: `taken` is zero; `child_ptr` is the prefix sum of
/// [`panel_parents`](fn@panel_parents)' `children`.
#[kernel(
    max_threads(1024),
    require(
        child_ptr.len() == panel_parent.len() + 1,
        taken.len() == panel_parent.len(),
        child.len() <= panel_parent.len()
    )
)]
pub unsafe fn place_children(
    panel_parent: Global<u32>,
    child_ptr: Global<u64>,
    taken: GlobalMut<u32>,
    child: GlobalMut<u32>,
) {
    for q in thread::grid_stride(panel_parent.len()) {
        let above = panel_parent.get(q);
        if above != NONE {
            let at = taken
                .atomic(above as usize)
                .fetch_add(1, Ordering::Relaxed, Scope::Device);
            let first = child_ptr.get(above as usize);
            child.set((first + u64::from(at)) as usize, q as u32);
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
