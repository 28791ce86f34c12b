//! What is summed up over the fronts of a tree, for one kind of factorization.

use std::ops::AddAssign;

use luge_sparse::etree::NONE;

use crate::storage::Storage;
use crate::tree::{CostModel, Front};

#[derive(Debug, Clone)]
pub(crate) struct Totals {
    /// Seconds of the subtree of each front.
    pub subtree_seconds: Vec<f64>,
    pub factor_entries: u64,
    pub flops: f64,
    /// Most entries that a thread works in for one front.
    pub scratch_entries: u64,
    /// Most entries of the two stacks of generated elements, in a serial factorization.
    pub stack_entries: [u64; 2],
}

impl Totals {
    /// Of fronts in postorder, with the children of all.
    pub fn new<S: Storage>(fronts: &[Front], children: &[u32], model: &CostModel) -> Self {
        let seconds = |front: &Front| S::seconds(model, front.pivots, front.below);
        let (subtree_seconds, _) = subtree_sums(fronts, seconds);
        let (mut factor_entries, mut flops, mut scratch_entries) = (0, 0.0, 0);
        for front in fronts {
            factor_entries += S::factor_entries(front.pivots, front.below);
            flops += S::flops(front.pivots, front.below);
            scratch_entries = S::scratch_entries(front.pivots, front.below).max(scratch_entries);
        }
        Self {
            subtree_seconds,
            factor_entries,
            flops,
            scratch_entries,
            stack_entries: stack_entries::<S>(fronts, children, 0..fronts.len(), |_| true),
        }
    }

    /// Seconds of all of these fronts.
    pub fn seconds(&self, fronts: &[Front]) -> f64 {
        let roots = fronts.iter().zip(&self.subtree_seconds);
        let roots = roots.filter(|(front, _)| front.parent == NONE);
        roots.map(|(_, seconds)| seconds).sum()
    }
}

/// Sums of something over the subtree of each front, and over all fronts.
pub(crate) fn subtree_sums<T: Copy + Default + AddAssign>(
    fronts: &[Front],
    of: impl Fn(&Front) -> T,
) -> (Vec<T>, T) {
    let (mut sums, mut total) = (vec![T::default(); fronts.len()], T::default());
    for (s, front) in fronts.iter().enumerate() {
        sums[s] += of(front);
        let sum = sums[s];
        match front.parent {
            NONE => total += sum,
            parent => sums[parent as usize] += sum,
        }
    }
    (sums, total)
}

/// Peaks of the two stacks of generated elements (fronts of even and of odd depth), of consecutive fronts in postorder
/// in which the elements of those lie that are `stacked`.
pub(crate) fn stack_entries<S: Storage>(
    fronts: &[Front],
    children: &[u32],
    range: impl Iterator<Item = usize>,
    stacked: impl Fn(usize) -> bool,
) -> [u64; 2] {
    let entries = |front: &Front| S::element_entries(front.below as usize) as u64;
    let (mut live, mut peak) = ([0u64; 2], [0u64; 2]);
    for s in range {
        let front = &fronts[s];
        let own = (front.depth % 2) as usize;
        if stacked(s) {
            live[own] += entries(front);
        }
        peak[own] = peak[own].max(live[own]);
        for &c in &children[front.child_range()] {
            if stacked(c as usize) {
                live[1 - own] -= entries(&fronts[c as usize]);
            }
        }
    }
    peak
}
