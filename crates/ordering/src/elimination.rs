//! Elimination tree, postorder and column counts of a symmetric pattern.
//!
//! The tree: J. W. H. Liu, "The role of elimination trees in sparse factorization", SIAM J. Matrix
//! Anal. Appl. 11 (1990). The counts: J. R. Gilbert, E. G. Ng and B. W. Peyton, "An efficient
//! algorithm to compute row and column counts for sparse Cholesky factorization", SIAM J. Matrix
//! Anal. Appl. 15 (1994). Both near linear in the number of edges: no pattern of L is formed.

use serde::Serialize;

use crate::graph::Graph;

/// No parent.
const ROOT: u32 = u32::MAX;

/// Predicted size and cost of the factors, diagonal pivots assumed: the exact counts of a symbolic
/// Cholesky factorization of B + Bᵀ in each diagonal block, which bound those of B = L·U there.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Prediction {
    /// Entries of L in the diagonal blocks, its unit diagonal included.
    pub lnz: u64,
    /// Entries of U in the diagonal blocks, its diagonal included.
    pub unz: u64,
    /// Entries of A above the diagonal blocks. They are only copied if the blocks are factorized
    /// one by one; in a factorization of the whole matrix they fill, which is not predicted.
    pub off_diagonal_nnz: u64,
    /// Operations: for each pivot one division per entry of L below it, and a multiplication and
    /// an addition for each pair of an entry of L below it and one of U to its right.
    pub flops: f64,
}

impl Prediction {
    /// Of the diagonal blocks, from the number of entries of each column of L.
    pub(crate) fn from_counts(counts: &[u32]) -> Self {
        let mut prediction = Self::default();
        for &count in counts {
            let below = f64::from(count - 1);
            prediction.lnz += u64::from(count);
            prediction.flops += below * (1.0 + 2.0 * below);
        }
        prediction.unz = prediction.lnz;
        prediction
    }

    /// Entries of L + U, the diagonal counted once, with the entries above the diagonal blocks.
    pub fn factor_nnz(&self, n: usize) -> u64 {
        self.lnz + self.unz - n as u64 + self.off_diagonal_nnz
    }
}

impl std::ops::AddAssign for Prediction {
    fn add_assign(&mut self, other: Self) {
        self.lnz += other.lnz;
        self.unz += other.unz;
        self.off_diagonal_nnz += other.off_diagonal_nnz;
        self.flops += other.flops;
    }
}

/// The elimination tree of the graph eliminated in the given order (new to old): the parent of each
/// new index, larger than it, or `ROOT`.
fn elimination_tree(graph: &Graph, order: &[u32], new_index: &[u32]) -> Vec<u32> {
    let n = graph.len();
    let mut parent = vec![ROOT; n];
    // Path compression: an ancestor known to be an ancestor already, not the final one.
    let mut ancestor = vec![ROOT; n];
    for k in 0..n as u32 {
        for &w in graph.neighbours(order[k as usize] as usize) {
            let mut i = new_index[w as usize];
            while i < k {
                let next = std::mem::replace(&mut ancestor[i as usize], k);
                if next == ROOT {
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
fn postorder(parent: &[u32]) -> Vec<u32> {
    let n = parent.len();
    let mut first_child = vec![ROOT; n];
    let mut next_sibling = vec![ROOT; n];
    let mut roots = ROOT;
    for v in (0..n).rev() {
        let head = match parent[v] {
            ROOT => &mut roots,
            p => &mut first_child[p as usize],
        };
        next_sibling[v] = std::mem::replace(head, v as u32);
    }
    let mut post = Vec::with_capacity(n);
    let mut stack = Vec::new();
    let mut next = roots;
    loop {
        // Down to the first leaf, then up until a sibling is left.
        while next != ROOT {
            stack.push(next);
            next = first_child[next as usize];
        }
        let Some(v) = stack.pop() else { break };
        post.push(v);
        next = next_sibling[v as usize];
    }
    post
}

/// Number of entries of each column of the Cholesky factor, diagonal included. The parents must be
/// those of a postordered elimination tree.
fn column_counts(graph: &Graph, order: &[u32], new_index: &[u32], parent: &[u32]) -> Vec<u32> {
    let n = graph.len();
    // First descendant of each vertex: in a postorder the subtree of j is first[j]..=j.
    let mut first: Vec<u32> = (0..n as u32).collect();
    for j in 0..n {
        if parent[j] != ROOT {
            let p = parent[j] as usize;
            first[p] = first[p].min(first[j]);
        }
    }
    // Row i of L is the union of the tree paths from the neighbours j < i up to i. Column j is
    // counted in each such subtree it belongs to: +1 at the leaves, −1 where two paths meet, −1
    // above the root i; sums over subtrees of T then give the counts.
    let mut weight: Vec<i64> = (0..n).map(|j| i64::from(first[j] as usize == j)).collect();
    let mut previous_leaf = vec![ROOT; n];
    let mut set: Vec<u32> = (0..n as u32).collect();
    for j in 0..n {
        if parent[j] != ROOT {
            weight[parent[j] as usize] -= 1;
        }
        for &w in graph.neighbours(order[j] as usize) {
            let i = new_index[w as usize] as usize;
            if i <= j {
                continue;
            }
            let previous = previous_leaf[i];
            // j is a leaf of the subtree of row i unless the previous one lies below j.
            if previous != ROOT && previous >= first[j] {
                continue;
            }
            weight[j] += 1;
            if previous != ROOT {
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
        if parent[j] != ROOT {
            set[j] = parent[j];
        }
    }
    for j in 0..n {
        if parent[j] != ROOT {
            weight[parent[j] as usize] += weight[j];
        }
    }
    weight.iter().map(|&count| count as u32).collect()
}

/// Rearranges `order` (new to old) into an equivalent postorder of its elimination tree, which
/// changes no fill, and predicts the cost of the elimination.
pub(crate) fn postorder_and_predict(graph: &Graph, order: &mut Vec<u32>) -> Prediction {
    let mut new_index = inverse(order);
    let parent = elimination_tree(graph, order, &new_index);
    let post = postorder(&parent);
    *order = post.iter().map(|&v| order[v as usize]).collect();
    let new_of_old = inverse(&post);
    for v in &mut new_index {
        *v = new_of_old[*v as usize];
    }
    let parent: Vec<u32> = post
        .iter()
        .map(|&v| match parent[v as usize] {
            ROOT => ROOT,
            p => new_of_old[p as usize],
        })
        .collect();
    Prediction::from_counts(&column_counts(graph, order, &new_index, &parent))
}

/// Predicts the cost of eliminating in the given order, which stays as it is.
pub(crate) fn predict(graph: &Graph, order: &[u32]) -> Prediction {
    postorder_and_predict(graph, &mut order.to_vec())
}

fn inverse(order: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        inverse[old as usize] = new as u32;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::BlockPattern;
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    /// Columns of the Cholesky factor by elimination: column k joins its rows pairwise.
    fn eliminate(graph: &Graph, order: &[u32]) -> Vec<u32> {
        let n = graph.len();
        let mut a = vec![vec![false; n]; n];
        for i in 0..n {
            for j in 0..n {
                a[i][j] = graph.neighbours(order[i] as usize).contains(&order[j]);
            }
        }
        for k in 0..n {
            for i in k + 1..n {
                for j in k + 1..n {
                    a[i][j] |= a[i][k] && a[k][j];
                }
            }
        }
        (0..n)
            .map(|k| 1 + (k + 1..n).filter(|&i| a[i][k]).count() as u32)
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn column_counts_equal_elimination(a in patterns(20), seed in any::<u64>()) {
            let n = a.major_dim();
            let identity: Vec<u32> = (0..n as u32).collect();
            let graph = BlockPattern::new(&a, &identity, &identity, &[0, n]).symmetrized();
            let mut order = identity;
            // A reproducible shuffle.
            for i in (1..n).rev() {
                order.swap(i, (seed.rotate_left(i as u32) % (i as u64 + 1)) as usize);
            }

            let before = Prediction::from_counts(&eliminate(&graph, &order));
            prop_assert_eq!(predict(&graph, &order), before);
            let mut posted = order.clone();
            let predicted = postorder_and_predict(&graph, &mut posted);
            prop_assert_eq!(predicted, before);
            // The new order is equivalent, and its tree is postordered.
            let counts = eliminate(&graph, &posted);
            prop_assert_eq!(Prediction::from_counts(&counts), before);
            let new_index = inverse(&posted);
            let parent = elimination_tree(&graph, &posted, &new_index);
            prop_assert_eq!(column_counts(&graph, &posted, &new_index, &parent), counts);
            prop_assert_eq!(postorder(&parent), (0..n as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_long_path_needs_no_recursion() {
        let n = 500_000u32;
        let ptr: Vec<usize> = (0..=n as usize)
            .map(|v| (2 * v).saturating_sub(1).min(2 * n as usize - 2))
            .collect();
        let idx: Vec<u32> = (0..n)
            .flat_map(|v| {
                [v.checked_sub(1), (v + 1 < n).then_some(v + 1)]
                    .into_iter()
                    .flatten()
            })
            .collect();
        let path = Graph { ptr, idx };
        let mut order: Vec<u32> = (0..n).collect();
        let predicted = postorder_and_predict(&path, &mut order);
        assert_eq!(predicted.lnz, 2 * u64::from(n) - 1);
        assert_eq!(predicted.flops, 3.0 * f64::from(n - 1));
        assert_eq!(order, (0..n).collect::<Vec<_>>());
    }
}
