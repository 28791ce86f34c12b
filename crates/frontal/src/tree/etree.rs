//! Elimination tree, postorder and column counts of a symmetrised pattern.
//!
//! The tree: J. W. H. Liu, "The role of elimination trees in sparse factorization", SIAM J. Matrix
//! Anal. Appl. 11 (1990). The counts: J. R. Gilbert, E. G. Ng and B. W. Peyton, "An efficient
//! algorithm to compute row and column counts for sparse Cholesky factorization", SIAM J. Matrix
//! Anal. Appl. 15 (1994). Both are near linear in the number of entries: neither B + Bᵀ nor L is
//! formed.

use luge_sparse::CompressedPattern;

/// No parent, child or sibling.
pub(crate) const NONE: u32 = u32::MAX;

/// The graph of B + Bᵀ, read off B and Bᵀ; entries that both have appear twice, the diagonal too.
pub(super) struct Symmetrized<'a> {
    /// Columns of B.
    pub cols: &'a CompressedPattern,
    /// Rows of B.
    pub rows: &'a CompressedPattern,
}

impl Symmetrized<'_> {
    pub fn len(&self) -> usize {
        self.cols.major_dim()
    }

    pub fn neighbours(&self, v: u32) -> impl Iterator<Item = u32> + '_ {
        let v = v as usize;
        self.cols.lane(v).iter().chain(self.rows.lane(v)).copied()
    }
}

/// Parents in the elimination tree of the graph in its own order.
pub(super) fn elimination_tree(graph: &Symmetrized<'_>) -> Vec<u32> {
    let n = graph.len();
    let mut parent = vec![NONE; n];
    // Path compression: an ancestor known to be one, not the final one.
    let mut ancestor = vec![NONE; n];
    for k in 0..n as u32 {
        for w in graph.neighbours(k) {
            let mut i = w;
            while i < k {
                let next = std::mem::replace(&mut ancestor[i as usize], k);
                if next == NONE {
                    parent[i as usize] = k;
                    break;
                }
                i = next;
            }
        }
    }
    parent
}

/// The vertices of a forest, children before parents and subtrees together; children keep their
/// order.
pub(super) fn postorder(parent: &[u32]) -> Vec<u32> {
    let n = parent.len();
    let mut first_child = vec![NONE; n];
    let mut next_sibling = vec![NONE; n];
    let mut roots = NONE;
    for v in (0..n).rev() {
        let head = match parent[v] {
            NONE => &mut roots,
            p => &mut first_child[p as usize],
        };
        next_sibling[v] = std::mem::replace(head, v as u32);
    }
    let mut post = Vec::with_capacity(n);
    let mut stack = Vec::new();
    let mut next = roots;
    loop {
        // Down to the first leaf, then up until a sibling is left.
        while next != NONE {
            stack.push(next);
            next = first_child[next as usize];
        }
        let Some(v) = stack.pop() else { break };
        post.push(v);
        next = next_sibling[v as usize];
    }
    post
}

/// Number of entries of each column of the Cholesky factor, diagonal included, by position in the
/// postorder `post`; `parent` is the elimination tree in those positions.
pub(super) fn column_counts(
    graph: &Symmetrized<'_>,
    post: &[u32],
    position: &[u32],
    parent: &[u32],
) -> Vec<u32> {
    let n = graph.len();
    // First descendant: in a postorder the subtree of j is first[j]..=j.
    let mut first: Vec<u32> = (0..n as u32).collect();
    for j in 0..n {
        if parent[j] != NONE {
            let p = parent[j] as usize;
            first[p] = first[p].min(first[j]);
        }
    }
    // Row i of L is the union of the tree paths from its neighbours j < i up to i. Column j is
    // counted in each such subtree it belongs to: +1 at the leaves, −1 where two paths meet, −1
    // above the root i; sums over subtrees of the tree then give the counts.
    let mut weight: Vec<i64> = (0..n).map(|j| i64::from(first[j] as usize == j)).collect();
    let mut previous_leaf = vec![NONE; n];
    let mut set: Vec<u32> = (0..n as u32).collect();
    for j in 0..n {
        if parent[j] != NONE {
            weight[parent[j] as usize] -= 1;
        }
        for w in graph.neighbours(post[j]) {
            let i = position[w as usize] as usize;
            if i <= j {
                continue;
            }
            let previous = previous_leaf[i];
            // j is a leaf of the subtree of row i unless the previous leaf lies below j.
            if previous != NONE && previous >= first[j] {
                continue;
            }
            weight[j] += 1;
            if previous != NONE {
                let mut top = previous;
                while set[top as usize] != top {
                    // Path halving.
                    set[top as usize] = set[set[top as usize] as usize];
                    top = set[top as usize];
                }
                weight[top as usize] -= 1;
            }
            previous_leaf[i] = j as u32;
        }
        if parent[j] != NONE {
            set[j] = parent[j];
        }
    }
    for j in 0..n {
        if parent[j] != NONE {
            weight[parent[j] as usize] += weight[j];
        }
    }
    weight.iter().map(|&count| count as u32).collect()
}

/// The inverse of a permutation.
pub(crate) fn inverse(order: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        inverse[old as usize] = new as u32;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    /// Entries of each column of L by elimination: column k joins its rows pairwise.
    fn eliminate(a: &CompressedPattern, order: &[u32]) -> Vec<u32> {
        let n = order.len();
        let mut full = vec![vec![false; n]; n];
        for i in 0..n {
            for j in 0..n {
                full[i][j] = a.lane(order[j] as usize).contains(&order[i])
                    || a.lane(order[i] as usize).contains(&order[j]);
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
            .map(|k| 1 + (k + 1..n).filter(|&i| full[i][k]).count() as u32)
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn column_counts_equal_elimination(a in patterns(24)) {
            let rows = a.transpose();
            let graph = Symmetrized { cols: &a, rows: &rows };
            let parent = elimination_tree(&graph);
            let post = postorder(&parent);
            let position = inverse(&post);
            let posted: Vec<u32> = post
                .iter()
                .map(|&v| match parent[v as usize] {
                    NONE => NONE,
                    p => position[p as usize],
                })
                .collect();
            let counts = column_counts(&graph, &post, &position, &posted);
            prop_assert_eq!(counts, eliminate(&a, &post));
        }
    }

    #[test]
    fn a_long_path_needs_no_recursion() {
        let n = 300_000u32;
        let parent: Vec<u32> = (0..n)
            .map(|v| if v + 1 < n { v + 1 } else { NONE })
            .collect();
        assert_eq!(postorder(&parent), (0..n).collect::<Vec<_>>());
    }
}
