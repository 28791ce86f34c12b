//! What the elimination tree says of an order: an equivalent one that is a postorder, and the sizes of the columns.

use luge_sparse::etree::{self, EliminationForest, inverse};
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};

use crate::cost::Prediction;
use crate::graph::BlockPattern;

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
    posted(|v| block.joined(v as usize), |_| 1, order, cancel)
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
    posted(line, |_| 1, order, cancel)
}

/// Rearranges `order` (new to old) of the vertices of a graph with the neighbours `idx[ptr[v]..ptr[v + 1]]` into an
/// equivalent postorder. Every vertex stands for as many as its `weight` says, all joined to each other; the forest has
/// one column for each vertex, the first of those that it stands for, and counts all of its rows.
///
/// # Errors
///
/// [`Cancelled`].
pub(crate) fn weighted_forest(
    ptr: &[usize],
    idx: &[u32],
    weight: &[u32],
    order: &mut Vec<u32>,
    cancel: &CancelFlag,
) -> Result<EliminationForest, Cancelled> {
    let list = |v: u32| idx[ptr[v as usize]..ptr[v as usize + 1]].iter().copied();
    posted(list, |v| weight[v as usize], order, cancel)
}

/// Rearranges an order (new to old) of vertices with these neighbours, some perhaps twice, and weights into an equivalent
/// postorder.
fn posted<I: Iterator<Item = u32>>(
    neighbours: impl Fn(u32) -> I,
    weight: impl Fn(u32) -> u32,
    order: &mut Vec<u32>,
    cancel: &CancelFlag,
) -> Result<EliminationForest, Cancelled> {
    let mut new_index = inverse(order);
    let parent = etree::try_elimination_tree(
        order.len(),
        |k| joined(neighbours(order[k as usize]), &new_index),
        || cancel.check(),
    )?;
    let post = etree::postorder(&parent);
    cancel.check()?;
    *order = post.iter().map(|&v| order[v as usize]).collect();
    let new_of_old = inverse(&post);
    for v in &mut new_index {
        *v = new_of_old[*v as usize];
    }
    let parent = etree::renumbered(&parent, &post, &new_of_old);
    let counts = etree::try_weighted_column_counts(
        &parent,
        |k| weight(order[k as usize]),
        |k| joined(neighbours(order[k as usize]), &new_index),
        || cancel.check(),
    )?;
    Ok(EliminationForest { parent, counts })
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
