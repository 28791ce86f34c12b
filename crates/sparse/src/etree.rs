//! Elimination tree, postorder and column counts of a symmetric graph.
//!
//! The tree: J. W. H. Liu, "The role of elimination trees in sparse factorization", SIAM J. Matrix
//! Anal. Appl. 11 (1990). The counts: J. R. Gilbert, E. G. Ng and B. W. Peyton, "An efficient
//! algorithm to compute row and column counts for sparse Cholesky factorization", SIAM J. Matrix
//! Anal. Appl. 15 (1994). Both are near linear in the number of edges: no pattern of a factor is
//! formed.
//!
//! Vertices are numbered in elimination order. The graph is a function from a vertex to those that it
//! is joined to, which may name some twice and the vertex itself; a caller whose graph has other
//! numbers translates them there.

use std::convert::Infallible;
use std::ops::Range;

/// No parent: the vertex is a root.
pub const NONE: u32 = u32::MAX;

/// Vertices between two calls of `check`.
const STRIDE: u32 = 1 << 12;

/// The elimination tree of a graph, or the forest if it is not connected, numbered in [`postorder`], and the sizes of
/// the columns of its Cholesky factor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EliminationForest {
    /// The parent of each column, or [`NONE`].
    pub parent: Vec<u32>,
    /// Number of entries of each column, the diagonal included.
    pub counts: Vec<u32>,
}

/// The parent of each of `n` vertices in the elimination tree, larger than the vertex, or [`NONE`].
///
/// Only neighbours smaller than a vertex are looked at: half of the edges are enough.
pub fn elimination_tree<I>(n: usize, neighbours: impl Fn(u32) -> I) -> Vec<u32>
where
    I: IntoIterator<Item = u32>,
{
    let Ok(parent) = try_elimination_tree(n, neighbours, || Ok::<_, Infallible>(()));
    parent
}

/// As [`elimination_tree`], calling `check` every few thousand vertices and stopping when that fails.
///
/// # Errors
///
/// What `check` gives back.
pub fn try_elimination_tree<I, E>(
    n: usize,
    neighbours: impl Fn(u32) -> I,
    check: impl Fn() -> Result<(), E>,
) -> Result<Vec<u32>, E>
where
    I: IntoIterator<Item = u32>,
{
    let mut parent = vec![NONE; n];
    let mut ancestor = vec![NONE; n];
    let known = (&mut parent[..], &mut ancestor[..]);
    add_to_tree(known, 0, 0..n as u32, neighbours, check)?;
    Ok(parent)
}

/// Adds some `vertices` to an elimination tree, whose parents and ancestors so far are those of the vertices from number `first` on;
/// no vertex before that is joined to them. An ancestor is one that is known, for the path to be short, and neither is known at the
/// beginning. So parts of a graph that no edge joins can be added side by side, and then what is behind all of them.
///
/// # Errors
///
/// What `check` gives back, which is called every few thousand vertices.
pub fn add_to_tree<I, E>(
    (parent, ancestor): (&mut [u32], &mut [u32]),
    first: u32,
    vertices: Range<u32>,
    neighbours: impl Fn(u32) -> I,
    check: impl Fn() -> Result<(), E>,
) -> Result<(), E>
where
    I: IntoIterator<Item = u32>,
{
    for k in vertices {
        if k % STRIDE == 0 {
            check()?;
        }
        for w in neighbours(k) {
            let mut i = w;
            while i < k {
                let at = (i - first) as usize;
                let next = std::mem::replace(&mut ancestor[at], k);
                if next == NONE {
                    parent[at] = k;
                    break;
                }
                i = next;
            }
        }
    }
    Ok(())
}

/// The vertices of a forest (new to old), children before parents and subtrees together; children
/// keep their order. No recursion: trees may be as deep as they have vertices.
///
/// # Panics
///
/// If a vertex is not before its parent.
#[track_caller]
pub fn postorder(parent: &[u32]) -> Vec<u32> {
    let n = parent.len();
    // The size of each subtree; of a vertex that has its place, the end of the places left for its children.
    let mut left = vec![1u32; n];
    for (v, &p) in parent.iter().enumerate() {
        assert!(p as usize > v, "vertices come before their parents");
        if p != NONE {
            left[p as usize] += left[v];
        }
    }
    let mut post = vec![0; n];
    let mut left_for_roots = n as u32;
    for v in (0..n).rev() {
        let size = left[v];
        let end = match parent[v] {
            NONE => &mut left_for_roots,
            p => &mut left[p as usize],
        };
        let place = *end - 1;
        *end -= size;
        left[v] = place;
        post[place as usize] = v as u32;
    }
    post
}

/// The forest whose vertices are renumbered: `order` is new to old, `position` its
/// [`inverse`].
pub fn renumbered(parent: &[u32], order: &[u32], position: &[u32]) -> Vec<u32> {
    order
        .iter()
        .map(|&v| match parent[v as usize] {
            NONE => NONE,
            p => position[p as usize],
        })
        .collect()
}

/// Number of entries of each column of the Cholesky factor of the graph, diagonal included; `parent`
/// is its elimination tree, which must be in [`postorder`].
pub fn column_counts<I>(parent: &[u32], neighbours: impl Fn(u32) -> I) -> Vec<u32>
where
    I: IntoIterator<Item = u32>,
{
    weighted_column_counts(parent, |_| 1, neighbours)
}

/// As [`column_counts`], where vertex `k` stands for `weight(k)` rows of one structure: what the first of its columns
/// has.
pub fn weighted_column_counts<I>(
    parent: &[u32],
    weight: impl Fn(u32) -> u32,
    neighbours: impl Fn(u32) -> I,
) -> Vec<u32>
where
    I: IntoIterator<Item = u32>,
{
    let never = || Ok::<_, Infallible>(());
    let Ok(counts) = try_weighted_column_counts(parent, weight, neighbours, never);
    counts
}

/// As [`weighted_column_counts`], calling `check` every few thousand vertices and stopping when that fails.
///
/// # Errors
///
/// What `check` gives back.
pub fn try_weighted_column_counts<I, E>(
    parent: &[u32],
    weight: impl Fn(u32) -> u32,
    neighbours: impl Fn(u32) -> I,
    check: impl Fn() -> Result<(), E>,
) -> Result<Vec<u32>, E>
where
    I: IntoIterator<Item = u32>,
{
    let first = first_descendants(parent);
    let mut counts = vec![0; parent.len()];
    let tree = PostedTree {
        parent,
        first: &first,
    };
    tree.count_rest(&mut counts, &[], weight, neighbours, check)?;
    Ok(counts)
}

/// The first descendant of each vertex of a forest in [`postorder`]: the subtree of j is from that to j.
pub fn first_descendants(parent: &[u32]) -> Vec<u32> {
    let mut first: Vec<u32> = (0..parent.len() as u32).collect();
    for j in 0..parent.len() {
        if parent[j] != NONE {
            let p = parent[j] as usize;
            first[p] = first[p].min(first[j]);
        }
    }
    first
}

/// A forest in [`postorder`], with its [first descendants](first_descendants), whose columns are counted: some subtrees side by side,
/// and then the rest.
///
/// Row i of L is the union of the tree paths from its neighbours j < i up to i. Column j is counted in each such
/// subtree it belongs to: the row's weight at the leaves, minus it where two paths meet, and above the root i; sums
/// over subtrees of the tree then give the counts. On the way they may be negative, modulo 2³².
#[derive(Debug, Clone, Copy)]
pub struct PostedTree<'a> {
    /// As [`EliminationForest::parent`].
    pub parent: &'a [u32],
    /// The first descendant of each vertex.
    pub first: &'a [u32],
}

/// A subtree whose columns are counted but for what is above it.
#[derive(Debug, Clone)]
pub struct CountedSubtree {
    /// Its root.
    pub root: u32,
    /// The vertices outside that some of it are joined to.
    pub rows: Vec<u32>,
}

impl PostedTree<'_> {
    /// Counts the columns of the subtree with this root: `counts` are those of its vertices, zeros. `previous_leaf` has an entry for each
    /// vertex of the forest, [`NONE`] or what it had after other subtrees.
    pub fn count_subtree<I>(
        self,
        root: u32,
        counts: &mut [u32],
        previous_leaf: &mut [u32],
        weight: impl Fn(u32) -> u32,
        neighbours: impl Fn(u32) -> I,
    ) -> CountedSubtree
    where
        I: IntoIterator<Item = u32>,
    {
        let start = self.first[root as usize];
        let at = |j: u32| (j - start) as usize;
        let mut set: Vec<u32> = (start..=root).collect();
        let mut rows = Vec::new();
        for j in start..=root {
            let above = self.parent[j as usize];
            self.enter(j, counts, start, &weight);
            for i in neighbours(j) {
                if i <= j {
                    continue;
                }
                // Others are of other subtrees.
                let own = previous_leaf[i as usize];
                let previous = if (start..=root).contains(&own) {
                    own
                } else {
                    NONE
                };
                if previous == NONE && i > root {
                    rows.push(i);
                }
                if self.count_leaf((j, previous), weight(i), counts, &mut set, start) {
                    previous_leaf[i as usize] = j;
                }
            }
            if j != root {
                set[at(j)] = above;
            }
        }
        CountedSubtree { root, rows }
    }

    /// Counts the columns that are in none of these subtrees, of which no two have a vertex in common, in the order of their roots,
    /// and adds up what all have: `counts` are then those of all columns. Before, they are what
    /// [`count_subtree`](Self::count_subtree) made of them, and zeros.
    ///
    /// # Errors
    ///
    /// What `check` gives back, which is called every few thousand vertices.
    pub fn count_rest<I, E>(
        self,
        counts: &mut [u32],
        subtrees: &[CountedSubtree],
        weight: impl Fn(u32) -> u32,
        neighbours: impl Fn(u32) -> I,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<(), E>
    where
        I: IntoIterator<Item = u32>,
    {
        let n = self.parent.len() as u32;
        let mut previous_leaf = vec![NONE; n as usize];
        let mut set: Vec<u32> = (0..n).collect();
        let mut subtrees = subtrees.iter().peekable();
        // Not each number is come by, so looks at `check` are counted by themselves.
        let (mut j, mut visited) = (0, 0);
        while j < n {
            if visited % STRIDE == 0 {
                check()?;
            }
            visited += 1;
            let is_next = |subtree: &&CountedSubtree| self.first[subtree.root as usize] == j;
            if let Some(subtree) = subtrees.next_if(is_next) {
                // Its leaves are counted.
                j = subtree.root;
                for &i in &subtree.rows {
                    let previous = std::mem::replace(&mut previous_leaf[i as usize], j);
                    if previous != NONE {
                        let top = top_of(&mut set, 0, previous);
                        subtract(&mut counts[top as usize], weight(i));
                    }
                }
            } else {
                self.enter(j, counts, 0, &weight);
                for i in neighbours(j) {
                    if i <= j {
                        continue;
                    }
                    let previous = previous_leaf[i as usize];
                    if self.count_leaf((j, previous), weight(i), counts, &mut set, 0) {
                        previous_leaf[i as usize] = j;
                    }
                }
            }
            let above = self.parent[j as usize];
            if above != NONE {
                set[j as usize] = above;
            }
            j += 1;
        }
        for (j, &above) in self.parent.iter().enumerate() {
            if above != NONE {
                subtract(&mut counts[above as usize], weight(j as u32));
                let own = counts[j];
                add(&mut counts[above as usize], own);
            }
        }
        Ok(())
    }

    /// Counts the diagonal of column `j`, if no column below it does; `counts` begin with that of `start`.
    fn enter(self, j: u32, counts: &mut [u32], start: u32, weight: impl Fn(u32) -> u32) {
        if self.first[j as usize] == j {
            add(&mut counts[(j - start) as usize], weight(j));
        }
    }

    /// Whether j is a leaf of the subtree of a row with this weight: unless the previous leaf lies below j. If it is, the row is
    /// counted there, and not where the two paths meet; `counts` and `set` begin with the vertex `start`.
    fn count_leaf(
        self,
        (j, previous): (u32, u32),
        weight: u32,
        counts: &mut [u32],
        set: &mut [u32],
        start: u32,
    ) -> bool {
        if previous != NONE && previous >= self.first[j as usize] {
            return false;
        }
        add(&mut counts[(j - start) as usize], weight);
        if previous != NONE {
            let top = top_of(set, start, previous);
            subtract(&mut counts[(top - start) as usize], weight);
        }
        true
    }
}

fn add(count: &mut u32, weight: u32) {
    *count = count.wrapping_add(weight);
}

fn subtract(count: &mut u32, weight: u32) {
    *count = count.wrapping_sub(weight);
}

/// The last vertex of the path that is known from `v` on; `set` begins with the vertex `start`.
fn top_of(set: &mut [u32], start: u32, v: u32) -> u32 {
    let at = |v: u32| (v - start) as usize;
    let mut top = v;
    while set[at(top)] != top {
        // Path halving.
        set[at(top)] = set[at(set[at(top)])];
        top = set[at(top)];
    }
    top
}

/// The inverse of a permutation, given as a list of indices.
pub fn inverse(order: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        inverse[old as usize] = new as u32;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A symmetric graph, some edges twice, and an elimination order (new to old).
    fn graphs() -> impl Strategy<Value = (Vec<Vec<u32>>, Vec<u32>)> {
        (1..24u32).prop_flat_map(|n| {
            let edges = vec((0..n, 0..n), 0..3 * n as usize);
            let order = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
            (edges, order).prop_map(move |(edges, order)| {
                let mut joined = vec![Vec::new(); n as usize];
                for (v, w) in edges {
                    joined[v as usize].push(w);
                    joined[w as usize].push(v);
                }
                (joined, order)
            })
        })
    }

    /// The graph with its vertices renumbered.
    fn in_order(joined: &[Vec<u32>], order: &[u32]) -> Vec<Vec<u32>> {
        let position = inverse(order);
        order
            .iter()
            .map(|&v| {
                joined[v as usize]
                    .iter()
                    .map(|&w| position[w as usize])
                    .collect()
            })
            .collect()
    }

    /// The pattern of each column of L, diagonal included, by elimination: column k joins its rows
    /// pairwise.
    fn eliminate(joined: &[Vec<u32>]) -> Vec<Vec<usize>> {
        let n = joined.len();
        let mut full = vec![vec![false; n]; n];
        for (v, joined) in joined.iter().enumerate() {
            for &w in joined {
                full[v][w as usize] = true;
            }
        }
        for k in 0..n {
            for i in k + 1..n {
                for j in k + 1..n {
                    full[i][j] |= full[i][k] && full[k][j];
                }
            }
        }
        (0..n)
            .map(|k| (k..n).filter(|&i| i == k || full[i][k]).collect())
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn tree_and_counts_equal_elimination((joined, order) in graphs()) {
            let graph = in_order(&joined, &order);
            let parent = elimination_tree(graph.len(), |v| graph[v as usize].iter().copied());
            let columns = eliminate(&graph);
            let first_below: Vec<u32> = columns
                .iter()
                .map(|rows| rows.get(1).map_or(NONE, |&i| i as u32))
                .collect();
            prop_assert_eq!(&parent, &first_below);

            let post = postorder(&parent);
            let posted = in_order(&graph, &post);
            let posted_parent = renumbered(&parent, &post, &inverse(&post));
            prop_assert_eq!(
                &elimination_tree(posted.len(), |v| posted[v as usize].iter().copied()),
                &posted_parent
            );
            prop_assert_eq!(postorder(&posted_parent), (0..post.len() as u32).collect::<Vec<_>>());
            let counts = column_counts(&posted_parent, |v| posted[v as usize].iter().copied());
            let expected: Vec<u32> = eliminate(&posted).iter().map(|c| c.len() as u32).collect();
            prop_assert_eq!(counts, expected);
        }
    }

    #[test]
    fn a_failed_check_ends_a_pass() {
        let n = 3 * STRIDE;
        let calls = std::cell::Cell::new(0);
        let check = || {
            calls.set(calls.get() + 1);
            if calls.get() == 2 {
                Err("stop")
            } else {
                Ok(())
            }
        };
        let neighbours = |v: u32| {
            v.checked_sub(1)
                .into_iter()
                .chain((v + 1 < n).then_some(v + 1))
        };
        assert_eq!(
            try_elimination_tree(n as usize, neighbours, check),
            Err("stop")
        );
        calls.set(0);
        let parent = elimination_tree(n as usize, neighbours);
        let counts = try_weighted_column_counts(&parent, |_| 1, neighbours, check);
        assert_eq!((counts, calls.get()), (Err("stop"), 2));
    }

    #[test]
    #[should_panic(expected = "vertices come before their parents")]
    fn a_parent_before_its_child_is_refused() {
        postorder(&[NONE, 0]);
    }

    #[test]
    fn a_long_path_needs_no_recursion() {
        let n = 300_000u32;
        let parent: Vec<u32> = (1..n).chain([NONE]).collect();
        assert_eq!(postorder(&parent), (0..n).collect::<Vec<_>>());
    }
}
