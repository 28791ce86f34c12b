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
use std::sync::atomic::{AtomicU32, Ordering};

use super::TreeOptions;
use super::cost::{CostModel, front_entries};
use super::path::{End, Ends, Path, PathCosts, packed, unpacked};
use super::structure::subtrees;
use crate::shares::{PER_THREAD, WORTH_WAKING};
use luge_sparse::etree::NONE;
use rayon::prelude::*;

/// Groups of columns that are eliminated in one front each, not yet ordered.
pub(crate) struct Supernodes {
    /// Each before its parent.
    pub groups: Vec<Supernode>,
    /// The fundamental supernode that comes after each in its group, or `NONE`.
    next: Vec<AtomicU32>,
    /// First columns of the fundamental supernodes, positions in the postorder, and where the last one ends.
    first: Vec<u32>,
}

/// Columns that are eliminated in one front, with what was merged into it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Supernode {
    /// The number of its parent, larger than its own, or `NONE`.
    pub parent: u32,
    /// Number of pivots; zero once it is part of another group.
    pub pivots: u32,
    /// Number of rows below the pivots.
    pub below: u32,
    /// While groups are merged: the last of its children so far, or `NONE`.
    last_child: u32,
    /// While groups are merged: the child of its parent before this, or `NONE`; once the parent is complete, the group that this
    /// is part of, or `NONE`; in the end the new number of its group.
    link: u32,
    /// The fundamental supernodes that come first and last in it.
    ends: [u32; 2],
    /// Entries that are not explicit zeros.
    structural: u64,
}

impl Supernode {
    /// The fundamental supernode `s`.
    pub fn new(s: u32, parent: u32, pivots: u32, below: u32) -> Self {
        Self {
            parent,
            pivots,
            below,
            last_child: NONE,
            link: NONE,
            ends: [s; 2],
            structural: front_entries(pivots, below),
        }
    }

    fn size(&self) -> Size {
        Size {
            pivots: self.pivots,
            structural: self.structural,
        }
    }
}

/// What a group becomes larger by with each supernode that is merged into it.
#[derive(Clone, Copy)]
struct Size {
    pivots: u32,
    /// Entries that are not explicit zeros.
    structural: u64,
}

impl Supernodes {
    /// Runs of positions in the postorder: the columns of supernode `s`, in elimination order.
    pub fn columns(&self, s: usize) -> impl Iterator<Item = Range<u32>> + '_ {
        let next = |f: &u32| {
            let next = self.next[*f as usize].load(Ordering::Relaxed);
            Some(next).filter(|f| *f != NONE)
        };
        std::iter::successors(Some(self.groups[s].ends[0]), next).map(|f| {
            let f = f as usize;
            self.first[f]..self.first[f + 1]
        })
    }

    /// Those of a postordered elimination tree with column counts.
    fn fundamental(parent: &[u32], counts: &[u32]) -> Self {
        let n = parent.len();
        // First whether a column is the parent of a supernode, then the number of that which begins with it.
        let mut number = vec![NONE; n];
        let mut first = vec![0];
        for end in 1..=n {
            let last = end - 1;
            let above = parent[last] as usize;
            // In postorder the last child stands just before its parent, and the others are complete.
            let continues = above == end && number[end] == NONE && counts[end] + 1 == counts[last];
            if !continues {
                if above < n {
                    number[above] = 0;
                }
                first.push(end as u32);
            }
        }
        for (s, &start) in (0u32..).zip(&first[..first.len() - 1]) {
            number[start as usize] = s;
        }
        let groups = (0u32..).zip(first.windows(2)).map(|(s, ends)| {
            let last = ends[1] as usize - 1;
            let above = match parent[last] {
                NONE => NONE,
                above => number[above as usize],
            };
            Supernode::new(s, above, ends[1] - ends[0], counts[last] - 1)
        });
        let groups: Vec<Supernode> = groups.collect();
        Self {
            next: groups.iter().map(|_| AtomicU32::new(NONE)).collect(),
            groups,
            first,
        }
    }

    /// Merges each group with those of its children that are better part of it, and numbers anew what is left. With what is merged
    /// into it, a group may end at `latest`, if that is known, or when it would end without. With `threads` above 1, those of the
    /// current rayon pool share the work. `paths` has room for when each group ends and when its children do, which is found if that
    /// counts.
    fn merge(&mut self, options: &TreeOptions, latest: &[f64], paths: &mut [Path], threads: usize) {
        let shared = self.shared(threads);
        let next = &self.next[..];
        let mut parts = Vec::with_capacity(shared.len());
        let (mut groups, mut paths_left) = (&mut self.groups[..], &mut *paths);
        let mut start = 0;
        for range in &shared {
            let skipped = range.start - start;
            let of_part = cut(&mut groups, skipped, range.len());
            let paths_of_part = cut(&mut paths_left, skipped, range.len());
            parts.push((range.start, of_part, paths_of_part));
            start = range.end;
        }
        type Part<'a> = (usize, &'a mut [Supernode], &'a mut [Path]);
        let merge = |(start, groups, paths): Part<'_>| {
            let mut merging = Merging::new(options, start, groups, paths, next);
            for s in 0..merging.groups.len() {
                merging.complete(s, latest.get(start + s).copied());
            }
        };
        if !parts.is_empty() {
            parts.into_par_iter().for_each(merge);
        }
        let mut above = Merging::new(options, 0, &mut self.groups, paths, next);
        for range in &shared {
            for s in range.clone() {
                if above.groups[s].parent as usize >= range.end {
                    above.hang(s);
                }
            }
        }
        let starts = shared.iter().map(|range| range.start);
        let starts = starts.chain([above.groups.len()]);
        let ends = std::iter::once(0).chain(shared.iter().map(|range| range.end));
        for s in ends.zip(starts).flat_map(|(end, start)| end..start) {
            above.complete(s, latest.get(s).copied());
        }
        self.renumber(paths);
    }

    /// Ranges of groups that are whole subtrees, for threads to share.
    fn shared(&self, threads: usize) -> Vec<Range<usize>> {
        let len = self.groups.len();
        if threads == 1 || len <= WORTH_WAKING {
            return Vec::new();
        }
        let most = (len / (threads * PER_THREAD)).max(WORTH_WAKING / 4);
        subtrees(len, |s| self.groups[s].parent, Range::len, most)
    }

    /// Numbers what is left, and `paths` with it; a merged supernode's children hang on the group it joined.
    fn renumber(&mut self, paths: &mut [Path]) {
        let groups = &mut self.groups;
        let mut left = groups.iter().filter(|group| group.pivots != 0).count();
        for s in (0..groups.len()).rev() {
            let Supernode {
                parent,
                pivots,
                link,
                ..
            } = groups[s];
            if pivots == 0 {
                groups[s].link = groups[link as usize].link;
                continue;
            }
            left -= 1;
            if parent != NONE {
                groups[s].parent = groups[parent as usize].link;
            }
            groups[s].link = left as u32;
        }
        let mut count = 0;
        for s in 0..groups.len() {
            if groups[s].pivots != 0 {
                groups[count] = Supernode {
                    last_child: NONE,
                    link: NONE,
                    ..groups[s]
                };
                if !paths.is_empty() {
                    paths[count] = paths[s];
                }
                count += 1;
            }
        }
        groups.truncate(count);
    }
}

/// Takes the next `len` of a slice out of it, behind so many others; of an empty one none.
fn cut<'a, T>(left: &mut &'a mut [T], skipped: usize, len: usize) -> &'a mut [T] {
    let skipped = left.split_off_mut(..skipped);
    skipped
        .and_then(|_| left.split_off_mut(..len))
        .unwrap_or_default()
}

/// Finds the fundamental supernodes of a postordered elimination tree with column counts, and
/// merges them. With `threads` above 1, those of the current rayon pool share the work; the result is the same.
pub(crate) fn supernodes(
    parent: &[u32],
    counts: &[u32],
    options: &TreeOptions,
    threads: usize,
) -> Supernodes {
    let mut supernodes = Supernodes::fundamental(parent, counts);
    let Some(path) = &options.path else {
        supernodes.merge(options, &[], &mut [], threads);
        return supernodes;
    };
    let mut paths = vec![Path::default(); supernodes.groups.len()];
    supernodes.merge(options, &[], &mut paths, threads);
    // And once more what leaves the longest path as it is.
    let latest = path.latest_ends(&supernodes.groups, &paths);
    supernodes.merge(options, &latest, &mut paths, threads);
    supernodes
}

/// Groups on the way up their forest, or a part of it, each merged with those of its children that are better part of it.
struct Merging<'a> {
    options: &'a TreeOptions,
    groups: &'a mut [Supernode],
    /// When each ends, if that counts, and when its children do.
    paths: &'a mut [Path],
    /// The number of the first group here.
    offset: usize,
    next: &'a [AtomicU32],
    /// The children of the group at hand, which of them are to be merged, and when the last of them end, as many as there are.
    candidates: Vec<u32>,
    marks: Vec<bool>,
    last: Vec<Ends>,
}

impl<'a> Merging<'a> {
    /// Of groups whose first is number `offset`.
    fn new(
        options: &'a TreeOptions,
        offset: usize,
        groups: &'a mut [Supernode],
        paths: &'a mut [Path],
        next: &'a [AtomicU32],
    ) -> Self {
        Self {
            options,
            groups,
            paths,
            offset,
            next,
            candidates: Vec::new(),
            marks: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Merges into the group `s` here, all of whose children are complete and hang on it, and hangs it on its parent if that is
    /// here.
    fn complete(&mut self, s: usize, latest: Option<f64>) {
        let mut group = self.groups[s];
        self.candidates.clear();
        let mut child = group.last_child;
        while child != NONE {
            self.candidates.push(child);
            child = std::mem::replace(&mut self.groups[child as usize].link, NONE);
        }
        if self.candidates.is_empty() {
            if let Some(path) = &self.options.path {
                let none = Ends::default();
                self.paths[s] = packed(path.end(group.pivots, group.below, &none), &none);
            }
        } else {
            // The largest first: it costs the fewest zeros.
            if self.candidates.len() > 1 {
                let groups = &self.groups;
                self.candidates
                    .sort_unstable_by_key(|&c| (u32::MAX - groups[c as usize].below, c));
            }
            match &self.options.path {
                Some(path) => self.paths[s] = self.mark_on_paths(path, &group, latest),
                None => self.mark(&group),
            }
            self.merge(&mut group, s);
            self.groups[s] = group;
        }
        if (group.parent as usize) < self.offset + self.groups.len() {
            self.hang(s);
        }
    }

    /// Makes the group `s` here, which is complete, a child of its parent, which is here, too.
    fn hang(&mut self, s: usize) {
        let above = self.groups[s].parent;
        if above != NONE {
            let last = &mut self.groups[above as usize - self.offset].last_child;
            self.groups[s].link = std::mem::replace(last, s as u32);
        }
    }

    /// Marks candidates that are better part of the group, if that lets it end early enough: all that would be, or else one after
    /// another. When it and its children end then.
    fn mark_on_paths(&mut self, path: &PathCosts, group: &Supernode, latest: Option<f64>) -> Path {
        let mut unmerged = Ends::default();
        for &c in &self.candidates {
            unmerged.add(unpacked(&self.paths[c as usize]).0);
        }
        let unmerged = path.end(group.pivots, group.below, &unmerged);
        let latest = latest.map_or(unmerged.seconds, |latest| latest.max(unmerged.seconds));
        let is_early = |end: End| end.seconds <= latest && end.is_large == unmerged.is_large;
        self.mark(group);
        let mut children = Ends::default();
        let mut pivots = group.pivots;
        for (&c, &is_marked) in self.candidates.iter().zip(&self.marks) {
            let (of_child, below_child) = unpacked(&self.paths[c as usize]);
            if is_marked {
                pivots += self.groups[c as usize].pivots;
                children = children.and(&below_child);
            } else {
                children.add(of_child);
            }
        }
        let mut end = path.end(pivots, group.below, &children);
        if !is_early(end) {
            (pivots, children) = self.mark_in_turn(group, |pivots, children| {
                is_early(path.end(pivots, group.below, children))
            });
            end = path.end(pivots, group.below, &children);
        }
        packed(end, &children)
    }

    /// Marks one candidate after another that is better part of the group, and with whose pivots and children it ends early
    /// enough; returns the pivots and children of the group then.
    fn mark_in_turn(
        &mut self,
        group: &Supernode,
        is_early: impl Fn(u32, &Ends) -> bool,
    ) -> (u32, Ends) {
        // Entry i is of the last i candidates.
        self.last.clear();
        self.last.push(Ends::default());
        for (at, &c) in self.candidates.iter().rev().enumerate() {
            let mut ends = self.last[at];
            ends.add(unpacked(&self.paths[c as usize]).0);
            self.last.push(ends);
        }
        self.marks.clear();
        let mut size = group.size();
        let mut children = Ends::default();
        for (at, &c) in self.candidates.iter().enumerate() {
            let (of_child, below_child) = unpacked(&self.paths[c as usize]);
            let joined = self.joined(size, group.below, &self.groups[c as usize]);
            let joined = joined.filter(|joined| {
                let others = &self.last[self.candidates.len() - at - 1];
                is_early(joined.pivots, &children.and(others).and(&below_child))
            });
            self.marks.push(joined.is_some());
            if let Some(joined) = joined {
                size = joined;
                children = children.and(&below_child);
            } else {
                children.add(of_child);
            }
        }
        (size.pivots, children)
    }

    /// Marks candidates that are better part of the group.
    fn mark(&mut self, group: &Supernode) {
        self.marks.clear();
        let mut size = group.size();
        for &c in &self.candidates {
            let joined = self.joined(size, group.below, &self.groups[c as usize]);
            self.marks.push(joined.is_some());
            size = joined.unwrap_or(size);
        }
    }

    /// What a group of this size becomes with a child, if that is better part of it.
    fn joined(&self, size: Size, below: u32, child: &Supernode) -> Option<Size> {
        let pivots = child.pivots + size.pivots;
        let entries = front_entries(pivots, below);
        let structural = child.structural + size.structural;
        let pays = worth_merging(
            &self.options.cost,
            self.options,
            (child.pivots, child.below),
            (size.pivots, below),
            entries - structural,
            entries,
        );
        pays.then_some(Size { pivots, structural })
    }

    /// Merges the marked candidates into the group `s` here.
    fn merge(&mut self, group: &mut Supernode, s: usize) {
        for (&c, _) in self
            .candidates
            .iter()
            .zip(&self.marks)
            .filter(|(_, mark)| **mark)
        {
            let child = &mut self.groups[c as usize];
            group.pivots += std::mem::take(&mut child.pivots);
            group.structural += child.structural;
            child.link = (self.offset + s) as u32;
            // What is merged stands before the group it joins. No other thread has a group with these.
            let [first, last] = child.ends;
            let before = std::mem::replace(&mut group.ends[0], first);
            self.next[last as usize].store(before, Ordering::Relaxed);
        }
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
            pivots_of(&(parent.to_vec(), counts.to_vec()), &options)
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
        let found = supernodes(&forest.0, &forest.1, options, 1);
        found.groups.iter().map(|group| group.pivots).collect()
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

    /// A forest in postorder, and its column counts: how far each column is from its parent, and about how many rows it has less.
    fn forest(columns: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
        let n = columns.len() as u32;
        // Each column has its parent's rows and the parent at most, and then some fewer.
        let mut parent = vec![NONE; columns.len()];
        let mut counts = vec![1u32; columns.len()];
        for (j, &(step, fewer)) in columns.iter().enumerate().rev() {
            let above = j as u32 + step;
            if above < n {
                parent[j] = above;
                counts[j] = (counts[above as usize] + 1)
                    .saturating_sub(fewer / 3)
                    .max(2);
            }
        }
        let post = luge_sparse::etree::postorder(&parent);
        let position = luge_sparse::etree::inverse(&post);
        let parent = luge_sparse::etree::renumbered(&parent, &post, &position);
        let counts: Vec<u32> = post.iter().map(|&j| counts[j as usize]).collect();
        (parent, counts)
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
            let (parent, counts) = forest(&columns);
            let apart = supernodes(
                &parent,
                &counts,
                &TreeOptions { merged_pivots: 0, ..TreeOptions::default() },
                1,
            );
            let options = on_paths(zero_fraction, zero_fraction);
            let merged = supernodes(&parent, &counts, &options, 1);
            prop_assert!(COSTS.longest(&merged) <= COSTS.longest(&apart));
            let mut columns = Vec::new();
            for (s, group) in merged.groups.iter().enumerate() {
                let before = columns.len();
                columns.extend(merged.columns(s).flatten());
                prop_assert_eq!(columns.len() - before, group.pivots as usize);
            }
            columns.sort_unstable();
            prop_assert_eq!(columns, (0..n).collect::<Vec<_>>());
            let largest = |of: &Supernodes| {
                let rows = of.groups.iter().map(|group| group.pivots + group.below);
                rows.max().unwrap()
            };
            if largest(&apart) <= COSTS.small_rows {
                prop_assert!(largest(&merged) <= COSTS.small_rows);
            }
        }

        #[test]
        fn threads_do_not_change_what_is_merged(
            columns in proptest::collection::vec((1u32..4, 0u32..5), 1..600),
            zero_fraction in 0.0..1.0f64,
            threads in 2usize..6,
        ) {
            let (parent, counts) = forest(&columns);
            for path in [None, Some(COSTS)] {
                let options = TreeOptions { path, ..on_paths(zero_fraction, zero_fraction) };
                let [one, several] = [1, threads].map(|threads| {
                    let found = supernodes(&parent, &counts, &options, threads);
                    format!("{:?} {:?}", found.groups, found.next)
                });
                prop_assert_eq!(one, several);
            }
        }

        #[test]
        fn what_is_kept_of_paths_is_what_they_are(
            columns in proptest::collection::vec((1u32..4, 0u32..5), 1..60),
            zero_fraction in 0.0..1.0f64,
        ) {
            let (parent, counts) = forest(&columns);
            let options = on_paths(zero_fraction, zero_fraction);
            let mut found = Supernodes::fundamental(&parent, &counts);
            let mut paths = vec![Path::default(); found.groups.len()];
            found.merge(&options, &[], &mut paths, 1);
            prop_assert_eq!(&paths[..found.groups.len()], &COSTS.paths(&found.groups)[..]);
        }
    }
}
