//! Elimination tree, postorder and column counts of a symmetric pattern.
//!
//! The tree: J. W. H. Liu, "The role of elimination trees in sparse factorization", SIAM J. Matrix
//! Anal. Appl. 11 (1990). The counts: J. R. Gilbert, E. G. Ng and B. W. Peyton, "An efficient
//! algorithm to compute row and column counts for sparse Cholesky factorization", SIAM J. Matrix
//! Anal. Appl. 15 (1994). Both near linear in the number of edges: no pattern of L is formed.

use crate::cost::Prediction;
use crate::graph::BlockPattern;

/// No parent.
const ROOT: u32 = u32::MAX;

/// The elimination tree of the symmetrized block eliminated in the given order (new to old): the parent of each
/// new index, larger than it, or `ROOT`.
fn elimination_tree(block: &BlockPattern, order: &[u32], new_index: &[u32]) -> Vec<u32> {
    let n = block.len();
    let mut parent = vec![ROOT; n];
    // Path compression: an ancestor known to be an ancestor already, not the final one.
    let mut ancestor = vec![ROOT; n];
    for k in 0..n as u32 {
        for w in block.joined(order[k as usize] as usize) {
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
fn column_counts(
    block: &BlockPattern,
    order: &[u32],
    new_index: &[u32],
    parent: &[u32],
) -> Vec<u32> {
    let n = block.len();
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
        for w in block.joined(order[j] as usize) {
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
pub(crate) fn postorder_and_predict(block: &BlockPattern, order: &mut Vec<u32>) -> Prediction {
    let mut new_index = inverse(order);
    let parent = elimination_tree(block, order, &new_index);
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
    let counts = column_counts(block, order, &new_index, &parent);
    Prediction::from_counts(&counts, &parent)
}

/// Predicts the cost of eliminating in the given order, which stays as it is.
pub(crate) fn predict(block: &BlockPattern, order: &[u32]) -> Prediction {
    postorder_and_predict(block, &mut order.to_vec())
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
    use luge_sparse::CompressedPattern;
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    fn block_of(a: &CompressedPattern) -> BlockPattern {
        let identity: Vec<u32> = (0..a.major_dim() as u32).collect();
        BlockPattern::new(a, &identity, &identity, &identity, 0)
    }

    /// Columns of the Cholesky factor by elimination: column k joins its rows pairwise.
    fn eliminate(block: &BlockPattern, order: &[u32]) -> Vec<u32> {
        let n = block.len();
        let mut a = vec![vec![false; n]; n];
        for i in 0..n {
            for j in 0..n {
                a[i][j] = i != j && block.joined(order[i] as usize).any(|w| w == order[j]);
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

    /// Entries of L, and operations.
    fn totals(counts: &[u32]) -> (u64, f64) {
        let below = |&count: &u32| f64::from(count - 1);
        (
            counts.iter().map(|&count| u64::from(count)).sum(),
            counts.iter().map(below).map(|m| m * (1.0 + 2.0 * m)).sum(),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn column_counts_equal_elimination(a in patterns(20), seed in any::<u64>()) {
            let n = a.major_dim();
            let block = block_of(&a);
            let mut order: Vec<u32> = (0..n as u32).collect();
            // A reproducible shuffle.
            for i in (1..n).rev() {
                order.swap(i, (seed.rotate_left(i as u32) % (i as u64 + 1)) as usize);
            }

            let before = totals(&eliminate(&block, &order));
            let mut posted = order.clone();
            let predicted = postorder_and_predict(&block, &mut posted);
            prop_assert_eq!((predicted.lnz, predicted.flops), before);
            prop_assert_eq!(predict(&block, &order), predicted);
            // The new order is equivalent, and its tree is postordered.
            let counts = eliminate(&block, &posted);
            prop_assert_eq!(totals(&counts), before);
            let new_index = inverse(&posted);
            let parent = elimination_tree(&block, &posted, &new_index);
            prop_assert_eq!(column_counts(&block, &posted, &new_index, &parent), counts);
            prop_assert_eq!(postorder(&parent), (0..n as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_long_path_needs_no_recursion() {
        let n = 500_000u32;
        let (mut ptr, mut idx) = (vec![0], Vec::new());
        for v in 0..n {
            idx.extend(v.saturating_sub(1)..(v + 2).min(n));
            ptr.push(idx.len() as u64);
        }
        let path = block_of(&CompressedPattern::new(n as usize, ptr, idx).unwrap());
        let mut order: Vec<u32> = (0..n).collect();
        let predicted = postorder_and_predict(&path, &mut order);
        assert_eq!(predicted.lnz, 2 * u64::from(n) - 1);
        assert_eq!(predicted.flops, 3.0 * f64::from(n - 1));
        assert_eq!(order, (0..n).collect::<Vec<_>>());
    }
}
