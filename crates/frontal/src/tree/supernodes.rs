//! Fundamental supernodes and their relaxed amalgamation.
//!
//! A fundamental supernode is a chain of the elimination tree whose columns have one structure:
//! column j + 1 is the only parent of j, has no other child, and one entry less (C. Ashcraft and
//! R. Grimes, "The influence of relaxed supernode partitions on the multifrontal method", ACM TOMS
//! 15, 1989). Amalgamation merges a child's front into its parent's if the parent's front, larger
//! by the child's pivots, is predicted to cost less than both, at the price of explicit zeros. Very large
//! fronts stay apart.

use std::ops::Range;

use super::TreeOptions;
use super::cost::{CostModel, front_entries};
use luge_sparse::etree::NONE;

/// Groups of columns that are eliminated in one front each, not yet ordered.
pub(crate) struct Supernodes {
    /// Parent of each supernode, larger than it, or `NONE`. Merged supernodes are gone.
    pub parent: Vec<u32>,
    /// Number of pivots.
    pub pivots: Vec<u32>,
    /// Number of rows below the pivots.
    pub below: Vec<u32>,
    /// The fundamental supernode that comes first in each.
    head: Vec<u32>,
    /// The fundamental supernode that comes after each in its group, or `NONE`.
    next: Vec<u32>,
    /// First columns of the fundamental supernodes, positions in the postorder, and where the last one ends.
    first: Vec<u32>,
}

/// A fundamental supernode, and the group that ends with it: itself and what was merged into it.
struct Group {
    /// The parent of its last column, or `NONE`.
    parent: u32,
    pivots: u32,
    below: u32,
    /// The supernode before this among the children of the same parent. Once that is complete, the one that this was
    /// merged into, or `NONE`; and in the end the number of its group.
    link: u32,
    /// Entries that are not explicit zeros.
    structural: u64,
}

impl Supernodes {
    /// Runs of positions in the postorder: the columns of supernode `s`, in elimination order.
    pub fn columns(&self, s: usize) -> impl Iterator<Item = Range<u32>> + '_ {
        let next = |f: &u32| Some(self.next[*f as usize]).filter(|f| *f != NONE);
        std::iter::successors(Some(self.head[s]), next).map(|f| {
            let f = f as usize;
            self.first[f]..self.first[f + 1]
        })
    }
}

/// Finds the fundamental supernodes of a postordered elimination tree with column counts, and
/// merges them.
pub(crate) fn supernodes(parent: &[u32], counts: &[u32], options: &TreeOptions) -> Supernodes {
    let n = parent.len();
    let mut groups: Vec<Group> = Vec::new();
    let mut first = vec![0];
    // Which comes first in each group; once that is merged into another, which comes next.
    let mut chain: Vec<u32> = Vec::new();
    // Of the column that a fundamental supernode starts with: the last of its children so far, and once it is complete,
    // itself. Other columns have no child but the one before, in the same supernode.
    let mut at_column = vec![NONE; n];
    let mut candidates: Vec<u32> = Vec::new();
    let mut num_merged = 0;
    let mut start = 0;
    for end in 1..=n {
        let last = end - 1;
        // In postorder the last child stands just before its parent, and the others are complete.
        let continues = parent[last] as usize == end
            && at_column[end] == NONE
            && counts[end] + 1 == counts[last];
        if continues {
            continue;
        }
        let s = groups.len() as u32;
        let pivots = (end - start) as u32;
        let below = counts[last] - 1;
        let mut group = Group {
            parent: parent[last],
            pivots,
            below,
            link: NONE,
            structural: front_entries(pivots, below),
        };
        let mut head = s;
        let last_child = std::mem::replace(&mut at_column[start], s);
        if last_child != NONE {
            candidates.clear();
            let mut child = last_child;
            while child != NONE {
                candidates.push(child);
                child = std::mem::replace(&mut groups[child as usize].link, NONE);
            }
            // The largest first: it costs the fewest zeros.
            if candidates.len() > 1 {
                candidates.sort_unstable_by_key(|&c| (u32::MAX - groups[c as usize].below, c));
            }
            for &c in &candidates {
                let child = &mut groups[c as usize];
                if group.merge(child, options) {
                    child.link = s;
                    // What is merged stands before the group it joins.
                    std::mem::swap(&mut head, &mut chain[c as usize]);
                    num_merged += 1;
                }
            }
        }
        if group.parent != NONE {
            group.link = std::mem::replace(&mut at_column[group.parent as usize], s);
        }
        groups.push(group);
        chain.push(head);
        first.push(end as u32);
        start = end;
    }

    // Number what is left; a merged supernode's children hang on the group it joined.
    let mut left = groups.len() - num_merged;
    let mut result = Supernodes {
        parent: vec![NONE; left],
        pivots: vec![0; left],
        below: vec![0; left],
        head: vec![0; left],
        next: Vec::new(),
        first,
    };
    for s in (0..groups.len()).rev() {
        let of = &groups[s];
        if of.link != NONE {
            groups[s].link = groups[of.link as usize].link;
            continue;
        }
        left -= 1;
        if of.parent != NONE {
            let above = at_column[of.parent as usize] as usize;
            result.parent[left] = groups[above].link;
        }
        result.pivots[left] = of.pivots;
        result.below[left] = of.below;
        // A group ends with the supernode that it is named after.
        result.head[left] = std::mem::replace(&mut chain[s], NONE);
        groups[s].link = left as u32;
    }
    result.next = chain;
    result
}

impl Group {
    /// Takes a child's group in if that pays; returns whether it does.
    fn merge(&mut self, child: &Self, options: &TreeOptions) -> bool {
        let pivots = child.pivots + self.pivots;
        let entries = front_entries(pivots, self.below);
        let structural = child.structural + self.structural;
        let pays = worth_merging(
            &options.cost,
            options,
            (child.pivots, child.below),
            (self.pivots, self.below),
            entries - structural,
            entries,
        );
        if pays {
            self.pivots = pivots;
            self.structural = structural;
        }
        pays
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
    use super::*;

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
}
