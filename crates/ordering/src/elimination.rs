//! What the elimination tree says of an order: an equivalent one that is a postorder, and the sizes of the columns.

use luge_sparse::etree::{self, CountedSubtree, EliminationForest, NONE, PostedTree, inverse};
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};
use rayon::prelude::*;

use crate::cost::Prediction;
use crate::graph::BlockPattern;
use crate::parts::collected;

/// Vertices of a subtree, at least, whose columns are counted apart from others: each may have rows above it that are then looked at
/// once more. Few in tests, so that small trees are shared there.
const SMALLEST_SUBTREE: u32 = if cfg!(test) { 2 } else { 64 };

/// Subtrees of at most one in so many vertices are counted side by side.
const SHARES: usize = 64;

/// Groups that these are dealt out in, about.
const GROUPS: usize = 32;

/// Vertices that are not worth waking a thread for.
const WORTH_WAKING: usize = 1 << 12;

/// Rearranges `order` (new to old) into an equivalent postorder of its elimination forest, which changes no fill, and
/// counts the entries of the columns.
///
/// # Errors
///
/// [`Cancelled`].
pub(crate) fn postorder(
    block: &BlockPattern,
    order: &mut Vec<u32>,
    cancel: &CancelFlag,
) -> Result<EliminationForest, Cancelled> {
    posted(|v| block.joined(v as usize), |_| 1, order, None, cancel)
}

/// As [`postorder`], of a symmetric pattern.
///
/// # Errors
///
/// [`Cancelled`].
pub(crate) fn symmetric_postorder(
    a: &CompressedPattern,
    order: &mut Vec<u32>,
    cancel: &CancelFlag,
) -> Result<EliminationForest, Cancelled> {
    let line = |v: u32| a.line(v as usize).iter().copied();
    posted(line, |_| 1, order, None, cancel)
}

/// Rearranges `order` (new to old) of the vertices of a graph with the neighbours `idx[ptr[v]..ptr[v + 1]]` into an
/// equivalent postorder. Every vertex stands for as many as its `weight` says, all joined to each other; the forest has
/// one column for each vertex, the first of those that it stands for, and counts all of its rows.
///
/// If `parts` are given, the order begins with parts that end there, no two of which are joined by an edge, and the current rayon
/// pool shares the work; the outcome is the same.
///
/// # Errors
///
/// [`Cancelled`].
pub(crate) fn weighted_forest(
    ptr: &[usize],
    idx: &[u32],
    weight: &[u32],
    order: &mut Vec<u32>,
    parts: Option<&[usize]>,
    cancel: &CancelFlag,
) -> Result<EliminationForest, Cancelled> {
    let list = |v: u32| idx[ptr[v as usize]..ptr[v as usize + 1]].iter().copied();
    posted(list, |v| weight[v as usize], order, parts, cancel)
}

/// Rearranges an order (new to old) of vertices with these neighbours, some perhaps twice, and weights into an equivalent
/// postorder; `parts` as for [`weighted_forest`].
fn posted<I: Iterator<Item = u32>>(
    neighbours: impl Fn(u32) -> I + Sync,
    weight: impl Fn(u32) -> u32 + Sync,
    order: &mut Vec<u32>,
    parts: Option<&[usize]>,
    cancel: &CancelFlag,
) -> Result<EliminationForest, Cancelled> {
    let is_shared = parts.is_some();
    let mut new_index = inverse(order);
    let joined_to = |k: u32| joined(neighbours(order[k as usize]), &new_index);
    let parent = tree_by_parts(order.len(), parts.unwrap_or_default(), joined_to, cancel)?;
    let post = etree::postorder(&parent);
    cancel.check()?;
    *order = collected(order.len(), WORTH_WAKING, is_shared, |k| {
        order[post[k] as usize]
    });
    let new_of_old = inverse(&post);
    let renumbered = |v: usize| new_of_old[new_index[v] as usize];
    new_index = collected(order.len(), WORTH_WAKING, is_shared, renumbered);
    let parent = etree::renumbered(&parent, &post, &new_of_old);
    let first = etree::first_descendants(&parent);
    let tree = PostedTree {
        parent: &parent,
        first: &first,
    };
    let mut counts = vec![0; order.len()];
    let weight = |k: u32| weight(order[k as usize]);
    let joined_to = |k: u32| joined(neighbours(order[k as usize]), &new_index);
    let subtrees = if is_shared {
        subtrees_counted(tree, &mut counts, weight, joined_to)
    } else {
        Vec::new()
    };
    tree.count_rest(&mut counts, &subtrees, weight, joined_to, || cancel.check())?;
    Ok(EliminationForest { parent, counts })
}

/// The elimination tree of a graph that begins with parts that end there, no two of which are joined: these side by side.
fn tree_by_parts<I: Iterator<Item = u32>>(
    n: usize,
    ends: &[usize],
    joined: impl Fn(u32) -> I + Sync,
    cancel: &CancelFlag,
) -> Result<Vec<u32>, Cancelled> {
    let mut parent = vec![NONE; n];
    let mut ancestor = vec![NONE; n];
    let mut parts = Vec::with_capacity(ends.len());
    let (mut parents_left, mut ancestors_left) = (&mut parent[..], &mut ancestor[..]);
    let mut start = 0;
    for &end in ends {
        let (parents, others) = parents_left.split_at_mut(end - start);
        parents_left = others;
        let (ancestors, others) = ancestors_left.split_at_mut(end - start);
        ancestors_left = others;
        parts.push((start as u32..end as u32, parents, ancestors));
        start = end;
    }
    let check = || cancel.check();
    // One thread alone wakes no pool.
    if !parts.is_empty() {
        let parts = parts.into_par_iter();
        parts.try_for_each(|(part, parents, ancestors)| {
            let first = part.start;
            etree::add_to_tree((parents, ancestors), first, part, &joined, check)
        })?;
    }
    let known = (&mut parent[..], &mut ancestor[..]);
    etree::add_to_tree(known, 0, start as u32..n as u32, joined, check)?;
    Ok(parent)
}

/// Counts the columns of subtrees that are neither small nor a large share of all, side by side.
fn subtrees_counted<I: Iterator<Item = u32>>(
    tree: PostedTree<'_>,
    counts: &mut [u32],
    weight: impl Fn(u32) -> u32 + Sync,
    joined: impl Fn(u32) -> I + Sync,
) -> Vec<CountedSubtree> {
    let n = counts.len();
    let largest = (n / SHARES) as u32;
    let size = |root: u32| root - tree.first[root as usize] + 1;
    let is_apart = |&root: &u32| {
        let above = tree.parent[root as usize];
        let is_whole = above == NONE || size(above) > largest;
        is_whole && (SMALLEST_SUBTREE..=largest).contains(&size(root))
    };
    let mut parts = Vec::new();
    let (mut left, mut start) = (counts, 0);
    for root in (0..n as u32).filter(is_apart) {
        let before = (tree.first[root as usize] - start) as usize;
        let (own, others) = left[before..].split_at_mut(size(root) as usize);
        parts.push((root, own));
        (left, start) = (others, root + 1);
    }
    // Each of few groups of them works with a vector of its own.
    let of_group = parts.len().div_ceil(GROUPS);
    let parts = parts.into_par_iter().with_min_len(of_group);
    let counted = parts.map_init(
        || vec![NONE; n],
        |previous_leaf, (root, counts)| {
            tree.count_subtree(root, counts, previous_leaf, &weight, &joined)
        },
    );
    counted.collect()
}

/// Neighbours by their new numbers.
fn joined(neighbours: impl Iterator<Item = u32>, new_index: &[u32]) -> impl Iterator<Item = u32> {
    neighbours.map(|w| new_index[w as usize])
}

/// Predicts the cost of eliminating in the given order, which stays as it is.
///
/// # Errors
///
/// [`Cancelled`].
pub(crate) fn predict(
    block: &BlockPattern,
    order: &[u32],
    cancel: &CancelFlag,
) -> Result<Prediction, Cancelled> {
    let forest = postorder(block, &mut order.to_vec(), cancel)?;
    Ok(Prediction::of_forest(&forest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    fn block_of(a: &CompressedPattern) -> BlockPattern {
        let identity: Vec<u32> = (0..a.major_dim() as u32).collect();
        let never = CancelFlag::new();
        BlockPattern::new(a, &identity, &identity, &identity, 0, false, &never).unwrap()
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
            let predicted = Prediction::of_forest(&postorder(&block, &mut posted, &CancelFlag::new()).unwrap());
            prop_assert_eq!((predicted.lnz, predicted.flops), before);
            prop_assert_eq!(predict(&block, &order, &CancelFlag::new()), Ok(predicted));
            // The new order is equivalent, and its tree is postordered.
            prop_assert_eq!(totals(&eliminate(&block, &posted)), before);
            let new_index = inverse(&posted);
            let n = n as u32;
            let parent = etree::elimination_tree(posted.len(), |k| {
                joined(block.joined(posted[k as usize] as usize), &new_index)
            });
            prop_assert_eq!(etree::postorder(&parent), (0..n).collect::<Vec<_>>());
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
        let predicted =
            Prediction::of_forest(&postorder(&path, &mut order, &CancelFlag::new()).unwrap());
        assert_eq!(predicted.lnz, 2 * u64::from(n) - 1);
        assert_eq!(predicted.flops, 3.0 * f64::from(n - 1));
        assert_eq!(order, (0..n).collect::<Vec<_>>());
    }
}
