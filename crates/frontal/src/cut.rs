//! A few large subtrees of a tree, each of which one of several devices or ranks works on alone.
//!
//! From the roots on the largest subtree is cut, again and again, into those of its children, and of all such cuts the one that
//! is predicted to end first is taken. (A. Pothen and C. Sun, "A mapping algorithm for parallel sparse Cholesky factorization",
//! SIAM J. Sci. Comput. 14, 1993, cut likewise, and go on with groups of processors above.)

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use luge_sparse::etree::NONE;

use crate::tree::AssemblyTree;

/// Subtrees of less than this fraction of what a part has to do stay with the fronts above them.
const LEAST_FRACTION: f64 = 1.0 / 64.0;

/// After so many cuts for each part that gain nothing no others are tried.
const CUTS_IN_VAIN: usize = 4;

/// A subtree that may be dealt out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub seconds: f64,
    pub root: u32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_seconds = self.seconds.total_cmp(&other.seconds);
        by_seconds.then(other.root.cmp(&self.root))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Seconds above which a subtree of a tree that takes `seconds` is worth being one of so many parts' own.
pub(crate) fn least_seconds(seconds: f64, parts: usize) -> f64 {
    seconds / parts as f64 * LEAST_FRACTION
}

/// Deals subtrees out to so many parts: each, the longest first, to the part that has least so far (R. L. Graham, "Bounds on
/// multiprocessing timing anomalies", SIAM J. Appl. Math. 17 (1969)).
pub(crate) fn longest_first(subtrees: &[Candidate], parts: usize) -> Vec<Vec<Candidate>> {
    let mut subtrees = subtrees.to_vec();
    subtrees.sort_unstable_by(|a, b| b.cmp(a));
    let mut dealt = vec![Vec::new(); parts];
    let mut load = vec![0.0; parts];
    for subtree in subtrees {
        let of = |a: &usize, b: &usize| f64::total_cmp(&load[*a], &load[*b]);
        let part = (0..parts).min_by(of).unwrap_or(0);
        load[part] += subtree.seconds;
        dealt[part].push(subtree);
    }
    dealt
}

/// Of all cuts of a tree for so many parts the one whose subtrees `deal` deals out in the fewest seconds; none if there are never
/// two. `candidates` are the subtrees, with these roots or below them, that may be dealt out. n·log n for n fronts.
pub(crate) fn best_cut<D>(
    tree: &AssemblyTree,
    parts: usize,
    candidates: impl Fn(&[u32]) -> Vec<Candidate>,
    deal: impl Fn(&[Candidate]) -> (f64, D),
) -> Option<D> {
    let fronts = tree.fronts().iter().enumerate();
    let roots = fronts.filter(|(_, front)| front.parent == NONE);
    let roots: Vec<u32> = roots.map(|(s, _)| s as u32).collect();
    let mut subtrees: BinaryHeap<Candidate> = candidates(&roots).into();
    let mut best: Option<(f64, D)> = None;
    let mut in_vain = 0;
    while in_vain < CUTS_IN_VAIN * parts {
        if subtrees.len() > 1 {
            let dealt = deal(subtrees.as_slice());
            in_vain += 1;
            if best.as_ref().is_none_or(|best| dealt.0 < best.0) {
                best = Some(dealt);
                in_vain = 0;
            }
        }
        let Some(largest) = subtrees.pop() else {
            break;
        };
        subtrees.extend(candidates(tree.children(largest.root as usize)));
    }
    best.map(|(_, dealt)| dealt)
}
