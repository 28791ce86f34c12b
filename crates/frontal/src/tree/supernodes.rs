//! Fundamental supernodes and their relaxed amalgamation.
//!
//! A fundamental supernode is a chain of the elimination tree whose columns have one structure:
//! column j + 1 is the only parent of j, has no other child, and one entry less (C. Ashcraft and
//! R. Grimes, "The influence of relaxed supernode partitions on the multifrontal method", ACM TOMS
//! 15, 1989). Amalgamation merges a child's front into its parent's if the parent's front, larger
//! by the child's pivots, is predicted to cost less than both, at the price of explicit zeros.

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
    /// The columns of supernode s, in elimination order, are
    /// `columns[column_ptr[s]..column_ptr[s + 1]]`: positions in the postorder.
    pub column_ptr: Vec<u32>,
    pub columns: Vec<u32>,
}

/// Finds the fundamental supernodes of a postordered elimination tree with column counts, and
/// merges them.
pub(crate) fn supernodes(parent: &[u32], counts: &[u32], options: &TreeOptions) -> Supernodes {
    let n = parent.len();
    let mut num_children = vec![0u32; n];
    for &p in parent {
        if p != NONE {
            num_children[p as usize] += 1;
        }
    }
    // Fundamental supernodes in postorder: first columns.
    let mut first = Vec::new();
    let mut of_column = vec![0u32; n];
    for j in 0..n {
        let continues = j > 0
            && parent[j - 1] == j as u32
            && num_children[j] == 1
            && counts[j] + 1 == counts[j - 1];
        if !continues {
            first.push(j as u32);
        }
        of_column[j] = first.len() as u32 - 1;
    }
    let ns = first.len();
    first.push(n as u32);

    let mut pivots: Vec<u32> = (0..ns).map(|s| first[s + 1] - first[s]).collect();
    let below: Vec<u32> = (0..ns)
        .map(|s| counts[first[s + 1] as usize - 1] - 1)
        .collect();
    let mut structural: Vec<u64> = (0..ns)
        .map(|s| front_entries(pivots[s], below[s]))
        .collect();
    let sn_parent: Vec<u32> = (0..ns)
        .map(|s| match parent[first[s + 1] as usize - 1] {
            NONE => NONE,
            p => of_column[p as usize],
        })
        .collect();

    // Chains of fundamental supernodes that are one group: first and next of each.
    let mut group_head: Vec<u32> = (0..ns as u32).collect();
    let mut group_next = vec![NONE; ns];
    let mut merged_into = vec![NONE; ns];
    let mut first_child = vec![NONE; ns];
    let mut next_sibling = vec![NONE; ns];
    let mut candidates: Vec<u32> = Vec::new();
    let model = &options.cost;
    for s in 0..ns {
        // All children are final by now. The largest first: it costs the fewest zeros.
        candidates.clear();
        let mut child = first_child[s];
        while child != NONE {
            candidates.push(child);
            child = next_sibling[child as usize];
        }
        candidates.sort_unstable_by_key(|&c| (u32::MAX - below[c as usize], c));
        // Merged children stand before the group they joined: collect, then link.
        let mut group = group_head[s];
        for &c in &candidates {
            let c = c as usize;
            let k = pivots[c] + pivots[s];
            let entries = front_entries(k, below[s]);
            let zeros = entries - structural[c] - structural[s];
            if !worth_merging(
                model,
                options,
                (pivots[c], below[c]),
                (pivots[s], below[s]),
                zeros,
                entries,
            ) {
                continue;
            }
            pivots[s] = k;
            structural[s] += structural[c];
            merged_into[c] = s as u32;
            // A chain ends with the supernode that it is named after.
            group_next[c] = group;
            group = group_head[c];
        }
        group_head[s] = group;
        if sn_parent[s] != NONE {
            let p = sn_parent[s] as usize;
            next_sibling[s] = std::mem::replace(&mut first_child[p], s as u32);
        }
    }

    // Number what is left; a merged supernode's children hang on the group it joined.
    let mut number = vec![NONE; ns];
    let mut kept = 0u32;
    for s in 0..ns {
        if merged_into[s] == NONE {
            number[s] = kept;
            kept += 1;
        }
    }
    for s in (0..ns).rev() {
        if merged_into[s] != NONE {
            number[s] = number[merged_into[s] as usize];
        }
    }
    let mut result = Supernodes {
        parent: Vec::with_capacity(kept as usize),
        pivots: Vec::with_capacity(kept as usize),
        below: Vec::with_capacity(kept as usize),
        column_ptr: Vec::with_capacity(kept as usize + 1),
        columns: Vec::with_capacity(n),
    };
    result.column_ptr.push(0);
    for s in 0..ns {
        if merged_into[s] != NONE {
            continue;
        }
        let mut part = group_head[s];
        while part != NONE {
            let p = part as usize;
            result.columns.extend(first[p]..first[p + 1]);
            part = group_next[p];
        }
        result.column_ptr.push(result.columns.len() as u32);
        result.pivots.push(pivots[s]);
        result.below.push(below[s]);
        result.parent.push(match sn_parent[s] {
            NONE => NONE,
            p => number[p as usize],
        });
    }
    result
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
