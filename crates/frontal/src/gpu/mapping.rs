//! Which device works on which subtree of a tree: proportional mapping by predicted seconds.
//!
//! A few large subtrees are dealt out, the longest first to the device that has least so far; what is above them, and whatever
//! is too small to be worth a copy, is the first device's after all have ended. [`cut`](crate::cut) says which subtrees.

use luge_gpu_kernels::frontal::plan::element_entries;
use luge_sparse::etree::NONE;

use super::classes::{FrontClass, Limits, Shape};
use super::cost::DeviceCosts;
use crate::cut::{Candidate, best_cut, least_seconds, longest_first};
use crate::storage::Storage;
use crate::tree::AssemblyTree;

/// Copies in which the factors of a subtree come to the first device: panels, rows of pivots, their places, D.
const COPIES_OF_FACTORS: usize = 4;

/// Where several devices are predicted to need more than this part of the time of one, one is taken.
const WORTH: f64 = 0.9;

/// Subtrees for each device of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    /// The roots of those of each device, ascending.
    pub(super) roots: Vec<Vec<u32>>,
    /// Predicted seconds of a factorization.
    seconds: f64,
    /// Those on one device.
    seconds_alone: f64,
}

/// What is known of each front before anything is cut.
struct Forecast<'a> {
    tree: &'a AssemblyTree,
    classes: Vec<FrontClass>,
    limits: &'a Limits,
    costs: &'a DeviceCosts,
    /// Entries of the factors in each subtree.
    entries: Vec<u64>,
    /// Seconds of all devices' workers in each subtree.
    shared: Vec<f64>,
    /// Seconds of each front on a path.
    own: Vec<f64>,
    /// Seconds of the longest path from a leaf to the end of each front.
    end: Vec<f64>,
    /// Seconds of all devices' workers.
    all_shared: f64,
    /// Seconds of one device.
    alone: f64,
    /// Whether elements have their lower triangles alone.
    is_lower: bool,
    value_bytes: u64,
}

impl<'a> Forecast<'a> {
    fn new<S: Storage>(
        tree: &'a AssemblyTree,
        limits: &'a Limits,
        costs: &'a DeviceCosts,
        value_bytes: u64,
    ) -> Self {
        let fronts = tree.fronts();
        let classes = FrontClass::of_tree(tree, limits);
        let own = fronts.iter().zip(&classes);
        let own = own.map(|(front, &class)| costs.front_seconds(Shape::from(front), class));
        let mut forecast = Self {
            tree,
            limits,
            costs,
            entries: vec![0; fronts.len()],
            shared: vec![0.0; fronts.len()],
            own: own.collect(),
            end: vec![0.0; fronts.len()],
            all_shared: 0.0,
            alone: 0.0,
            classes,
            is_lower: S::SYMMETRIC,
            value_bytes,
        };
        for (s, front) in fronts.iter().enumerate() {
            forecast.entries[s] += S::slot_entries(front.pivots, front.below);
            forecast.shared[s] +=
                costs.shared_seconds::<S>(Shape::from(front), forecast.classes[s]);
            forecast.end[s] += forecast.own[s];
            if front.parent == NONE {
                forecast.all_shared += forecast.shared[s];
                forecast.alone = forecast.alone.max(forecast.end[s]);
            } else {
                let parent = front.parent as usize;
                forecast.entries[parent] += forecast.entries[s];
                forecast.shared[parent] += forecast.shared[s];
                let begin = forecast.end[s] + costs.join_seconds();
                forecast.end[parent] = forecast.end[parent].max(begin);
            }
        }
        forecast.alone += forecast.all_shared;
        forecast
    }

    fn can_be_given(&self, s: u32) -> bool {
        let front = &self.tree.fronts()[s as usize];
        self.classes[s as usize].can_be_given(front.size(), self.limits)
    }

    /// The subtrees with these roots that take more than `least` seconds; in place of one that cannot be given those below it.
    fn candidates(&self, roots: &[u32], least: f64) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        let mut stack = roots.to_vec();
        while let Some(root) = stack.pop() {
            let seconds = self.shared[root as usize];
            if seconds <= least {
                continue;
            }
            if self.can_be_given(root) {
                candidates.push(Candidate { seconds, root });
            } else {
                stack.extend(self.tree.children(root as usize));
            }
        }
        candidates
    }

    /// Deals out these subtrees, the longest first.
    fn dealt(&self, subtrees: &[Candidate], devices: usize) -> Mapping {
        let dealt = longest_first(subtrees, devices).into_iter();
        let roots = |part: Vec<Candidate>| part.iter().map(|subtree| subtree.root).collect();
        self.mapping(dealt.map(roots).collect())
    }

    /// These subtrees for each device, with a prediction of when all is done.
    fn mapping(&self, mut roots: Vec<Vec<u32>>) -> Mapping {
        let (mut end, mut last_sent) = (0.0f64, 0.0f64);
        let mut dealt = 0.0;
        for (device, roots) in roots.iter_mut().enumerate() {
            roots.sort_unstable();
            let (mut shared, mut path, mut elements, mut factors) = (0.0, 0.0f64, 0, 0);
            for &root in &*roots {
                let s = root as usize;
                shared += self.shared[s];
                path = path.max(self.end[s]);
                elements += element_entries(self.is_lower, self.tree.fronts()[s].below);
                factors += self.entries[s];
            }
            dealt += shared;
            let sent = |copies: usize, entries: u64| match device {
                0 => 0.0,
                _ => {
                    let copies = (copies * roots.len()) as u64;
                    self.costs
                        .seconds_across(copies, entries * self.value_bytes)
                }
            };
            end = end.max(shared + path + sent(1, elements));
            last_sent = last_sent.max(sent(COPIES_OF_FACTORS, factors));
        }
        let above = self.path_above(&roots) + self.all_shared - dealt;
        Mapping {
            roots,
            seconds: end + above.max(last_sent),
            seconds_alone: self.alone,
        }
    }

    /// Seconds of the longest path through the fronts that are in none of these subtrees.
    fn path_above(&self, roots: &[Vec<u32>]) -> f64 {
        let fronts = self.tree.fronts();
        let subtrees = self.tree.subtrees(roots.iter().flatten().copied());
        // Of what is below each front.
        let mut below = vec![0.0f64; fronts.len()];
        let mut longest = 0.0f64;
        for (s, front) in fronts.iter().enumerate() {
            if subtrees[s].is_none() {
                let end = below[s] + self.own[s];
                match below.get_mut(front.parent as usize) {
                    Some(above) => *above = above.max(end + self.costs.join_seconds()),
                    None => longest = longest.max(end),
                }
            }
        }
        longest
    }

    /// Whether each of these subtrees can be dealt out, and none is part of another.
    fn can_be_dealt(&self, roots: &[Vec<u32>]) -> bool {
        let mut roots = roots.iter().flatten().copied();
        let num_fronts = self.tree.num_supernodes();
        if !roots
            .clone()
            .all(|root| (root as usize) < num_fronts && self.can_be_given(root))
        {
            return false;
        }
        let subtrees = self.tree.subtrees(roots.clone());
        let mut numbers = 0..;
        roots.all(|root| subtrees[root as usize] == numbers.next())
    }
}

impl Mapping {
    /// Of a tree on so many `devices`, for factors with values of `value_bytes` bytes; none if there is nothing to deal out.
    /// n·log n for n fronts.
    pub(super) fn best<S: Storage>(
        tree: &AssemblyTree,
        limits: &Limits,
        costs: &DeviceCosts,
        devices: usize,
        value_bytes: usize,
    ) -> Option<Self> {
        let forecast = Forecast::new::<S>(tree, limits, costs, value_bytes as u64);
        let least = least_seconds(forecast.all_shared, devices);
        let candidates = |roots: &[u32]| forecast.candidates(roots, least);
        let deal = |subtrees: &[Candidate]| {
            let mapping = forecast.dealt(subtrees, devices);
            (mapping.seconds, mapping)
        };
        best_cut(tree, devices, candidates, deal)
    }

    /// As [`best`](Self::best), of these subtrees for each device; none if they cannot be dealt out.
    pub(super) fn of_roots<S: Storage>(
        tree: &AssemblyTree,
        limits: &Limits,
        costs: &DeviceCosts,
        roots: Vec<Vec<u32>>,
        value_bytes: usize,
    ) -> Option<Self> {
        let forecast = Forecast::new::<S>(tree, limits, costs, value_bytes as u64);
        let can_be_dealt = forecast.can_be_dealt(&roots);
        can_be_dealt.then(|| forecast.mapping(roots))
    }

    /// Roots of the subtrees of each device, ascending.
    pub fn roots(&self) -> &[Vec<u32>] {
        &self.roots
    }

    /// Whether several devices are predicted to be faster than one, by enough to be worth it.
    pub fn pays(&self) -> bool {
        self.seconds < WORTH * self.seconds_alone
    }

    /// Predicted seconds of a factorization. Meant to be compared with other predictions, not with a clock.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// The predicted seconds on one device over those on all.
    pub fn speedup(&self) -> f64 {
        self.seconds_alone / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::{ROOT, tree_of};
    use super::*;
    use crate::gpu::cost::tests::COSTS;
    use crate::storage::Full;
    use crate::symbolic::Symbolic;

    /// A root of 200 pivots with children of these numbers of pivots.
    fn star(pivots: &[u32]) -> Symbolic {
        let children = pivots.iter().map(|&k| (pivots.len(), k));
        tree_of(&children.chain([(ROOT, 200)]).collect::<Vec<_>>())
    }

    fn best(tree: &Symbolic, devices: usize) -> Option<Mapping> {
        let (limits, costs) = (Limits::default(), DeviceCosts::default());
        Mapping::best::<Full>(tree.tree(), &limits, &costs, devices, 8)
    }

    #[test]
    fn the_longest_subtrees_come_first() {
        let tree = star(&[300, 500, 400, 200]);
        let mapping = best(&tree, 2).unwrap();
        assert_eq!(mapping.roots, [vec![1, 3], vec![0, 2]]);
        assert!(mapping.seconds < mapping.seconds_alone);
        let mapping = best(&tree, 4).unwrap();
        assert_eq!(mapping.roots, [[1], [2], [0], [3]].map(Vec::from));
        // More devices than subtrees.
        let mapping = best(&tree, 6).unwrap();
        let busy = mapping.roots.iter().filter(|roots| !roots.is_empty());
        assert_eq!((mapping.roots.len(), busy.count()), (6, 4));
    }

    #[test]
    fn seconds_are_those_of_the_last_device_and_of_what_is_above() {
        let tree = star(&[300, 500]);
        let limits = Limits::default();
        let forecast = Forecast::new::<Full>(tree.tree(), &limits, &COSTS, 8);
        let mapping = forecast.mapping(vec![vec![1], vec![0]]);
        let of = |s: usize| forecast.shared[s] + forecast.end[s];
        // An element of one row crosses.
        let last = of(1).max(of(0) + 4.0 + 8.0 * 0.0625);
        let root = forecast.shared[2] - forecast.shared[1] - forecast.shared[0];
        let entries = forecast.entries[0] as f64;
        let above = (forecast.own[2] + root).max(4.0 * 4.0 + entries * 8.0 * 0.0625);
        assert_eq!(mapping.seconds, last + above);
        assert_eq!(mapping.seconds_alone, forecast.end[2] + forecast.shared[2]);
        // Crossing costs too much here.
        assert!(!mapping.pays());
    }

    #[test]
    fn what_has_one_child_at_a_time_is_not_dealt_out() {
        let chain = tree_of(&[(1, 200), (2, 200), (ROOT, 200)]);
        assert_eq!(best(&chain, 2), None);
        // Nor are small fronts.
        assert_eq!(best(&star(&[10, 10]), 2), None);
    }

    #[test]
    fn what_cannot_be_given_is_dealt_out_by_its_children() {
        // A root that is wide for that of a child, and in no tile of its own size.
        let tree = tree_of(&[(2, 300), (2, 290), (ROOT, 40)]);
        let limits = Limits {
            tiled_front: 280,
            ..Limits::default()
        };
        let mapping = Mapping::best::<Full>(tree.tree(), &limits, &COSTS, 2, 8).unwrap();
        assert_eq!(mapping.roots, [[0], [1]].map(Vec::from));
    }

    #[test]
    fn subtrees_that_overlap_or_are_not_cut_are_refused() {
        let tree = tree_of(&[(1, 200), (3, 200), (3, 20), (ROOT, 200)]);
        let of = |roots: &[&[u32]]| {
            let roots = roots.iter().map(|roots| roots.to_vec()).collect();
            Mapping::of_roots::<Full>(tree.tree(), &Limits::default(), &COSTS, roots, 8)
        };
        assert!(of(&[&[0], &[]]).is_some() && of(&[&[], &[1]]).is_some());
        assert_eq!(of(&[&[0], &[1]]), None, "one below the other");
        assert_eq!(of(&[&[1], &[1]]), None, "twice the same");
        assert_eq!(of(&[&[2], &[]]), None, "a front that is not cut");
        assert_eq!(of(&[&[4], &[]]), None, "no front");
    }
}
