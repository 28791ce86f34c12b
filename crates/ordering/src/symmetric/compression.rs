//! An order in which the two vertices of a pair stand together.
//!
//! Each pair is contracted to one vertex, and the smaller graph is ordered (Duff and Pralet 2005, section 5). Here the
//! contracted graph is written as the graph of all vertices in which both of a pair are joined to each other and to all
//! that one of them is joined to: the fill-reducing methods find such vertices and make them one.

use std::ops::Range;

use luge_sparse::etree::EliminationForest;
use luge_sparse::{CancelFlag, Cancelled, ColPerm, CompressedPattern};

use crate::elimination::postorder;
use crate::graph::BlockPattern;
use crate::parts::{by_parts, joined_lists};

/// Rows that a thread makes at least.
const LEAST_PART: usize = 512;

/// The pattern with both rows, and both columns, of every pair made alike. `mate` is as [`mates`](super::pairs::mates)
/// returns it. On the current rayon pool if `parallel`.
pub(super) fn paired_pattern(
    a: &CompressedPattern,
    mate: &[u32],
    parallel: bool,
) -> CompressedPattern {
    let n = a.major_dim();
    let make = |range: Range<usize>| {
        let mut idx = Vec::with_capacity(2 * (a.ptr()[range.end] - a.ptr()[range.start]) as usize);
        let mut ends = Vec::with_capacity(range.len());
        let mut line: Vec<u32> = Vec::new();
        for v in range {
            line.clear();
            let other = mate[v] as usize;
            let of_other = if other == v { &[][..] } else { a.line(other) };
            for &w in a.line(v).iter().chain(of_other) {
                line.push(w);
                if mate[w as usize] != w {
                    line.push(mate[w as usize]);
                }
            }
            line.sort_unstable();
            line.dedup();
            idx.extend_from_slice(&line);
            ends.push(idx.len());
        }
        (idx, ends)
    };
    let (ptr, idx) = joined_lists(by_parts(n, LEAST_PART, parallel, make));
    let ptr = ptr.into_iter().map(|p| p as u64).collect();
    CompressedPattern::new(n, ptr, idx).expect("sorted lists of vertices are a pattern")
}

/// An order in which pairs stand together, with the forest of [`SymmetricOrdering`](super::SymmetricOrdering).
pub(super) struct PairedOrder {
    pub perm: ColPerm,
    pub forest: EliminationForest,
    /// The places of the first vertices of pairs.
    pub pair_starts: Vec<u32>,
}

impl PairedOrder {
    /// From an order of the [`paired_pattern`]. A vertex is moved up to its mate, which costs no fill in that pattern:
    /// when one of the two is eliminated, the rest of both lists become a clique. Of a pair the one with the larger
    /// `diagonal` comes first.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn new(
        a: &CompressedPattern,
        order: &[u32],
        mate: &[u32],
        diagonal: impl Fn(u32) -> f64,
        parallel: bool,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let n = order.len();
        let mut is_placed = vec![false; n];
        let mut together = Vec::with_capacity(n);
        for &v in order {
            if is_placed[v as usize] {
                continue;
            }
            let other = mate[v as usize];
            is_placed[other as usize] = true;
            if other == v {
                together.push(v);
            } else if diagonal(other) > diagonal(v) {
                together.extend([other, v]);
            } else {
                together.extend([v, other]);
            }
        }
        let unmoved: Vec<u32> = (0..n as u32).collect();
        let block = BlockPattern::new(a, &unmoved, &unmoved, &unmoved, 0, parallel, cancel)?;
        // The first of a pair is a child of the second, and the last one, so they stay together.
        let mut forest = postorder(&block, &mut together, cancel)?;
        let starts_pair = |k: &u32| {
            let v = together[*k as usize];
            mate[v as usize] != v && together.get(*k as usize + 1) == Some(&mate[v as usize])
        };
        let pair_starts: Vec<u32> = (0..n as u32).filter(starts_pair).collect();
        join_pairs(&mut forest, &pair_starts);
        let perm = ColPerm::new(together).expect("every vertex is placed once");
        Ok(Self {
            perm,
            forest,
            pair_starts,
        })
    }
}

/// Gives the first of every two columns, of which the second is the parent, the rows of both. The second has them
/// already, and so have all that come after it: but for the children of the second, which become those of the first, the
/// forest stays as it is.
fn join_pairs(forest: &mut EliminationForest, pair_starts: &[u32]) {
    let mut is_second = vec![false; forest.parent.len()];
    for &k in pair_starts {
        is_second[k as usize + 1] = true;
        forest.counts[k as usize] = forest.counts[k as usize + 1] + 1;
    }
    for (k, parent) in (0..).zip(&mut forest.parent) {
        if is_second.get(*parent as usize) == Some(&true) && *parent != k + 1 {
            *parent -= 1;
        }
    }
}
