//! Fundamental supernodes and their relaxed amalgamation.
//!
//! A fundamental supernode is a chain of the elimination tree whose columns have one structure:
//! column j + 1 is the only parent of j, has no other child, and one entry less (C. Ashcraft and
//! R. Grimes, "The influence of relaxed supernode partitions on the multifrontal method", ACM TOMS
//! 15, 1989). Amalgamation merges a child's front into its parent's if the parent's front, larger
//! by the child's pivots, is predicted to cost less than both, at the price of explicit zeros. Very large
//! fronts stay apart.
//!
//! Where fronts are worked on side by side, fewer of them are less work for all, but siblings that are merged come one after
//! another. So there are two rounds: the first merges nothing that makes the path to the leaves below a front longer, and the second
//! whatever leaves the longest path of the tree as it is. Neither makes a large front of a small one.

use std::ops::Range;

use super::TreeOptions;
use super::cost::{CostModel, front_entries};
use super::path::{End, Ends, PathCosts};
use luge_sparse::etree::NONE;

/// Groups of columns that are eliminated in one front each, not yet ordered.
pub(crate) struct Supernodes {
    /// Parent of each supernode, larger than it, or `NONE`. Merged supernodes are gone.
    pub parent: Vec<u32>,
    /// Number of pivots.
    pub pivots: Vec<u32>,
    /// Number of rows below the pivots.
    pub below: Vec<u32>,
    /// The fundamental supernodes that come first and last in each.
    ends: Vec<[u32; 2]>,
    /// Entries of each that are not explicit zeros.
    structural: Vec<u64>,
    /// The fundamental supernode that comes after each in its group, or `NONE`.
    next: Vec<u32>,
    /// First columns of the fundamental supernodes, positions in the postorder, and where the last one ends.
    first: Vec<u32>,
}

impl Supernodes {
    /// Runs of positions in the postorder: the columns of supernode `s`, in elimination order.
    pub fn columns(&self, s: usize) -> impl Iterator<Item = Range<u32>> + '_ {
        let next = |f: &u32| Some(self.next[*f as usize]).filter(|f| *f != NONE);
        std::iter::successors(Some(self.ends[s][0]), next).map(|f| {
            let f = f as usize;
            self.first[f]..self.first[f + 1]
        })
    }

    /// Merges further what leaves the longest path as it is.
    fn merged_again(self, path: &PathCosts, options: &TreeOptions) -> Self {
        let latest = path.latest_ends(&self.parent, &self.pivots, &self.below);
        let len = self.parent.len();
        let mut merging = Merging::new(options, len, self.next);
        for (s, latest) in latest.into_iter().enumerate() {
            let group = Group {
                parent: self.parent[s],
                size: Size {
                    pivots: self.pivots[s],
                    structural: self.structural[s],
                },
                below: self.below[s],
                link: NONE,
                ends: self.ends[s],
            };
            merging.add(s, group, latest);
        }
        merging.finish(self.first)
    }
}

/// Finds the fundamental supernodes of a postordered elimination tree with column counts, and
/// merges them.
pub(crate) fn supernodes(parent: &[u32], counts: &[u32], options: &TreeOptions) -> Supernodes {
    let n = parent.len();
    let mut merging = Merging::new(options, n, Vec::new());
    let mut first = vec![0];
    let mut start = 0;
    for end in 1..=n {
        let last = end - 1;
        // In postorder the last child stands just before its parent, and the others are complete.
        let continues = parent[last] as usize == end
            && merging.slots[end] == NONE
            && counts[end] + 1 == counts[last];
        if continues {
            continue;
        }
        let s = merging.groups.len() as u32;
        let pivots = (end - start) as u32;
        let below = counts[last] - 1;
        let group = Group {
            parent: parent[last],
            size: Size {
                pivots,
                structural: front_entries(pivots, below),
            },
            below,
            link: NONE,
            ends: [s; 2],
        };
        merging.next.push(NONE);
        merging.add(start, group, 0.0);
        first.push(end as u32);
        start = end;
    }
    let supernodes = merging.finish(first);
    match &options.path {
        Some(path) => supernodes.merged_again(path, options),
        None => supernodes,
    }
}

/// A supernode, and the group that ends with it: itself and what was merged into it.
struct Group {
    /// The slot of its parent, or `NONE`.
    parent: u32,
    size: Size,
    below: u32,
    /// The supernode before this among the children of the same parent. Once that is complete, the one that this was
    /// merged into, or `NONE`; and in the end the number of its group.
    link: u32,
    /// The fundamental supernodes that come first and last in it.
    ends: [u32; 2],
}

/// What a group becomes larger by with each supernode that is merged into it.
#[derive(Clone, Copy)]
struct Size {
    pivots: u32,
    /// Entries that are not explicit zeros.
    structural: u64,
}

/// Supernodes on the way up their forest, each merged with those of its children that are better part of it.
struct Merging<'a> {
    options: &'a TreeOptions,
    groups: Vec<Group>,
    /// When each ends, if that counts, and when its children do.
    paths: Vec<(End, Ends)>,
    /// Of each number by which parents are known: the last of the children so far, and once the parent is complete, itself.
    slots: Vec<u32>,
    /// The fundamental supernode that comes after each in its group, or `NONE`.
    next: Vec<u32>,
    num_merged: usize,
    /// The children of the group at hand, which of them are to be merged, and when the last of them end, as many as there are.
    candidates: Vec<u32>,
    marks: Vec<bool>,
    last: Vec<Ends>,
}

impl<'a> Merging<'a> {
    fn new(options: &'a TreeOptions, num_slots: usize, next: Vec<u32>) -> Self {
        Self {
            options,
            groups: Vec::new(),
            paths: Vec::new(),
            slots: vec![NONE; num_slots],
            next,
            num_merged: 0,
            candidates: Vec::new(),
            marks: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Adds the next supernode, whose children are all there and know it by `slot`. With what is merged into it, it may end at
    /// `latest`, or when it would end without.
    fn add(&mut self, slot: usize, mut group: Group, latest: f64) {
        let s = self.groups.len() as u32;
        let last_child = std::mem::replace(&mut self.slots[slot], s);
        self.candidates.clear();
        let mut child = last_child;
        while child != NONE {
            self.candidates.push(child);
            child = std::mem::replace(&mut self.groups[child as usize].link, NONE);
        }
        // The largest first: it costs the fewest zeros.
        if self.candidates.len() > 1 {
            let groups = &self.groups;
            self.candidates
                .sort_unstable_by_key(|&c| (u32::MAX - groups[c as usize].below, c));
        }
        match &self.options.path {
            Some(path) => self.mark_on_paths(path, &group, latest),
            None => self.mark(&group),
        }
        self.merge(&mut group);
        if group.parent != NONE {
            group.link = std::mem::replace(&mut self.slots[group.parent as usize], s);
        }
        self.groups.push(group);
    }

    /// Marks candidates that are better part of the group, if that lets it end early enough: all that would be, or else one after
    /// another.
    fn mark_on_paths(&mut self, path: &PathCosts, group: &Group, latest: f64) {
        let mut unmerged = Ends::default();
        for &c in &self.candidates {
            unmerged.add(self.paths[c as usize].0);
        }
        let unmerged = path.end(group.size.pivots, group.below, &unmerged);
        let is_early = |end: End| {
            end.seconds <= latest.max(unmerged.seconds) && end.is_large == unmerged.is_large
        };
        self.mark(group);
        let mut children = Ends::default();
        let mut pivots = group.size.pivots;
        for (&c, &is_marked) in self.candidates.iter().zip(&self.marks) {
            let (of_child, below_child) = &self.paths[c as usize];
            if is_marked {
                pivots += self.groups[c as usize].size.pivots;
                children = children.and(below_child);
            } else {
                children.add(*of_child);
            }
        }
        let mut end = path.end(pivots, group.below, &children);
        if !is_early(end) {
            (pivots, children) = self.mark_in_turn(group, |pivots, children| {
                is_early(path.end(pivots, group.below, children))
            });
            end = path.end(pivots, group.below, &children);
        }
        self.paths.push((end, children));
    }

    /// Marks one candidate after another that is better part of the group, and with whose pivots and children it ends early
    /// enough; returns the pivots and children of the group then.
    fn mark_in_turn(
        &mut self,
        group: &Group,
        is_early: impl Fn(u32, &Ends) -> bool,
    ) -> (u32, Ends) {
        // Entry i is of the last i candidates.
        self.last.clear();
        self.last.push(Ends::default());
        for (at, &c) in self.candidates.iter().rev().enumerate() {
            let mut ends = self.last[at];
            ends.add(self.paths[c as usize].0);
            self.last.push(ends);
        }
        self.marks.clear();
        let mut size = group.size;
        let mut children = Ends::default();
        for (at, &c) in self.candidates.iter().enumerate() {
            let (of_child, below_child) = &self.paths[c as usize];
            let joined = self.joined(size, group.below, &self.groups[c as usize]);
            let joined = joined.filter(|joined| {
                let others = &self.last[self.candidates.len() - at - 1];
                is_early(joined.pivots, &children.and(others).and(below_child))
            });
            self.marks.push(joined.is_some());
            if let Some(joined) = joined {
                size = joined;
                children = children.and(below_child);
            } else {
                children.add(*of_child);
            }
        }
        (size.pivots, children)
    }

    /// Marks candidates that are better part of the group.
    fn mark(&mut self, group: &Group) {
        self.marks.clear();
        let mut size = group.size;
        for &c in &self.candidates {
            let joined = self.joined(size, group.below, &self.groups[c as usize]);
            self.marks.push(joined.is_some());
            size = joined.unwrap_or(size);
        }
    }

    /// What a group of this size becomes with a child, if that is better part of it.
    fn joined(&self, size: Size, below: u32, child: &Group) -> Option<Size> {
        let pivots = child.size.pivots + size.pivots;
        let entries = front_entries(pivots, below);
        let structural = child.size.structural + size.structural;
        let pays = worth_merging(
            &self.options.cost,
            self.options,
            (child.size.pivots, child.below),
            (size.pivots, below),
            entries - structural,
            entries,
        );
        pays.then_some(Size { pivots, structural })
    }

    /// Merges the marked candidates.
    fn merge(&mut self, group: &mut Group) {
        let number = self.groups.len() as u32;
        for (&c, _) in self
            .candidates
            .iter()
            .zip(&self.marks)
            .filter(|(_, mark)| **mark)
        {
            let child = &mut self.groups[c as usize];
            group.size.pivots += child.size.pivots;
            group.size.structural += child.size.structural;
            child.link = number;
            // What is merged stands before the group it joins.
            let [first, last] = child.ends;
            self.next[last as usize] = std::mem::replace(&mut group.ends[0], first);
            self.num_merged += 1;
        }
    }

    /// Numbers what is left; a merged supernode's children hang on the group it joined.
    fn finish(mut self, first: Vec<u32>) -> Supernodes {
        let mut left = self.groups.len() - self.num_merged;
        let mut result = Supernodes {
            parent: vec![NONE; left],
            pivots: vec![0; left],
            below: vec![0; left],
            ends: vec![[NONE; 2]; left],
            structural: vec![0; left],
            next: self.next,
            first,
        };
        for s in (0..self.groups.len()).rev() {
            let of = &self.groups[s];
            if of.link != NONE {
                self.groups[s].link = self.groups[of.link as usize].link;
                continue;
            }
            left -= 1;
            if of.parent != NONE {
                let above = self.slots[of.parent as usize] as usize;
                result.parent[left] = self.groups[above].link;
            }
            result.pivots[left] = of.size.pivots;
            result.below[left] = of.below;
            result.ends[left] = of.ends;
            result.structural[left] = of.size.structural;
            self.groups[s].link = left as u32;
        }
        result
    }
}

/// Whether the front of a child (pivots, below) is better part of its parent's.
fn worth_merging(
    model: &CostModel,
    options: &TreeOptions,
    child: (u32, u32),
    parent: (u32, u32),
    zeros: u64,
    entries: u64,
) -> bool {
    if child.0 > options.merged_pivots {
        return false;
    }
    if zeros == 0 {
        return true;
    }
    let limit = if child.0 + parent.0 <= options.tiny_pivots {
        options.tiny_zero_fraction
    } else {
        options.zero_fraction
    };
    if zeros as f64 > limit * entries as f64 {
        return false;
    }
    let apart = model.front_seconds(child.0, child.1) + model.front_seconds(parent.0, parent.1);
    model.front_seconds(child.0 + parent.0, parent.1) <= apart
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::path::tests::COSTS;
    use super::*;

    /// With so many zeros at most, and in tiny fronts; they cost nothing that counts.
    fn on_paths(zero_fraction: f64, tiny_zero_fraction: f64) -> TreeOptions {
        TreeOptions {
            zero_fraction,
            tiny_zero_fraction,
            cost: CostModel {
                per_front: 1.0,
                ..CostModel::default()
            },
            path: Some(COSTS),
            ..TreeOptions::default()
        }
    }

    #[test]
    fn very_large_fronts_stay_apart() {
        // Two chains of four columns below a root of two, all of whose rows both have: merging the last chain into the root
        // costs no zero.
        let parent = [1, 2, 3, 8, 5, 6, 7, 8, 9, NONE];
        let counts = [6, 5, 4, 3, 6, 5, 4, 3, 2, 1];
        let pivots = |merged_pivots| {
            let options = TreeOptions {
                merged_pivots,
                zero_fraction: 0.0,
                tiny_zero_fraction: 0.0,
                ..TreeOptions::default()
            };
            supernodes(&parent, &counts, &options).pivots
        };
        assert_eq!(pivots(4), [4, 6]);
        assert_eq!(pivots(3), [4, 4, 2]);
    }

    /// A chain of columns, the first of which is number `first`, whose last has `below` rows below it and this parent.
    fn chain((parent, counts): &mut (Vec<u32>, Vec<u32>), (pivots, below): (u32, u32), above: u32) {
        let first = parent.len() as u32;
        parent.extend((1..pivots).map(|j| first + j));
        parent.push(above);
        counts.extend((0..pivots).map(|j| pivots - j + below));
    }

    fn pivots_of(forest: &(Vec<u32>, Vec<u32>), options: &TreeOptions) -> Vec<u32> {
        supernodes(&forest.0, &forest.1, options).pivots
    }

    #[test]
    fn siblings_are_merged_together_where_one_alone_would_be_late() {
        let mut forest = Default::default();
        (0..3).for_each(|_| chain(&mut forest, (1, 2), 3));
        chain(&mut forest, (4, 0), NONE);
        // Apart they end at 1.25 + 0.5 + 2; with one merged at 1.25 + 0.5 + 2.25; as one front at 2.75.
        assert_eq!(pivots_of(&forest, &on_paths(0.9, 0.9)), [7]);
    }

    #[test]
    fn siblings_are_merged_where_nobody_waits_for_them() {
        // Of the nine entries of the root with the second child, two are zeros.
        let options = on_paths(0.1, 0.3);
        let mut forest = Default::default();
        chain(&mut forest, (8, 1), 9);
        chain(&mut forest, (1, 1), 9);
        chain(&mut forest, (2, 0), NONE);
        // The first has too many zeros to be merged, and the second would come after it: 3 + 1.75 in place of 3 + 1.5.
        assert_eq!(pivots_of(&forest, &options), [8, 1, 2]);
        // Where another tree takes 5.5 there is time for that.
        chain(&mut forest, (20, 0), NONE);
        assert_eq!(pivots_of(&forest, &options), [8, 3, 20]);
    }

    #[test]
    fn some_children_are_merged_where_all_would_be_late() {
        let options = on_paths(0.1, 0.9);
        let mut forest = Default::default();
        chain(&mut forest, (8, 1), 8);
        chain(&mut forest, (1, 2), 14);
        chain(&mut forest, (5, 1), 14);
        chain(&mut forest, (2, 0), NONE);
        // Apart they end at 3 + 1.25 + 1.5, with the one of one pivot merged at 3 + 1.75, with both at 3 + 3.
        assert_eq!(pivots_of(&forest, &options), [8, 5, 3]);
    }

    #[test]
    fn small_fronts_stay_small() {
        for (pivots, expected) in [(2, vec![16, 40]), (4, vec![4, 14, 40])] {
            let mut forest = Default::default();
            chain(&mut forest, (pivots, 1), pivots);
            chain(&mut forest, (14, 0), NONE);
            chain(&mut forest, (40, 0), NONE);
            assert_eq!(pivots_of(&forest, &on_paths(0.9, 0.9)), expected);
        }
    }

    proptest! {
        /// Whatever is merged, the longest path is not longer than that of the fundamental supernodes, every column is in one
        /// front, and a forest of small fronts stays one.
        #[test]
        fn merging_makes_no_path_longer(
            columns in proptest::collection::vec((1u32..4, 0u32..5), 1..60),
            zero_fraction in 0.0..1.0f64,
        ) {
            let n = columns.len() as u32;
            // Each column has its parent's rows and the parent at most, and then some fewer.
            let mut parent = vec![NONE; columns.len()];
            let mut counts = vec![1u32; columns.len()];
            for (j, &(step, fewer)) in columns.iter().enumerate().rev() {
                let above = j as u32 + step;
                if above < n {
                    parent[j] = above;
                    counts[j] = (counts[above as usize] + 1).saturating_sub(fewer / 3).max(2);
                }
            }
            let post = luge_sparse::etree::postorder(&parent);
            let position = luge_sparse::etree::inverse(&post);
            let parent = luge_sparse::etree::renumbered(&parent, &post, &position);
            let counts: Vec<u32> = post.iter().map(|&j| counts[j as usize]).collect();
            let apart = supernodes(
                &parent,
                &counts,
                &TreeOptions { merged_pivots: 0, ..TreeOptions::default() },
            );
            let options = on_paths(zero_fraction, zero_fraction);
            let merged = supernodes(&parent, &counts, &options);
            prop_assert!(COSTS.longest(&merged) <= COSTS.longest(&apart));
            let mut columns = Vec::new();
            for s in 0..merged.parent.len() {
                let before = columns.len();
                columns.extend(merged.columns(s).flatten());
                prop_assert_eq!(columns.len() - before, merged.pivots[s] as usize);
            }
            columns.sort_unstable();
            prop_assert_eq!(columns, (0..n).collect::<Vec<_>>());
            let largest = |of: &Supernodes| {
                let rows = of.pivots.iter().zip(&of.below).map(|(k, c)| k + c);
                rows.max().unwrap()
            };
            if largest(&apart) <= COSTS.small_rows {
                prop_assert!(largest(&merged) <= COSTS.small_rows);
            }
        }
    }
}
