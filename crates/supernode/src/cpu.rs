//! Supernodes on the CPU.
//!
//! Cost: two looks a row for T3 supernodes. A sweep of the relaxation looks at the pairs that have changed
//! since they were refused: two binary searches for each row of the second supernode.

use luge_sparse::FilledPattern;

use crate::options::{Options, Relaxation};
use crate::supernodes::Supernodes;

/// The supernodes of `filled`, which must be closed under fill, as the pattern of an L+U is.
///
/// # Panics
///
/// If `options.max_size` is zero or above [`LARGEST_SUPERNODE`](crate::LARGEST_SUPERNODE), or tiers do not
/// come by increasing rows.
#[track_caller]
pub fn supernodes(filled: &FilledPattern, options: &Options) -> Supernodes {
    options.check();
    let span = tracing::debug_span!("supernodes", n = filled.n(), entries = filled.nnz());
    let _entered = span.enter();
    let ptr = t3(filled, options.max_size as usize);
    let found = match &options.relax {
        None => Supernodes::new(ptr, 0),
        Some(relax) => {
            let (ptr, zeros) = relaxed(filled, &ptr, options.max_size, relax);
            Supernodes::new(ptr, zeros)
        }
    };
    let found = found.unwrap_or_else(|| unreachable!("first rows increase from 0"));
    tracing::debug!(num_supernodes = found.len(), zeros = found.zeros(), "found");
    found
}

/// First rows of the T3 supernodes, then n.
///
/// Columns increase along a row, so entry number k left of the diagonal of row s is in column s−k iff
/// columns s−k..s are all there; and in a filled pattern they are, if rows s−k..s are a supernode and
/// L(s, s−k) ≠ 0 (see `luge_gpu_kernels::supernode`).
fn t3(filled: &FilledPattern, max_size: usize) -> Vec<u32> {
    let n = filled.n();
    let mut ptr = vec![0];
    let mut r = 0;
    for s in 1..n {
        let lower = filled.lower(s);
        let size = s - r;
        let joins = size < max_size
            && filled.upper(s).len() + 1 == filled.upper(s - 1).len()
            && lower.len() >= size
            && lower[lower.len() - size] as usize == r;
        if !joins {
            ptr.push(s as u32);
            r = s;
        }
    }
    if n > 0 {
        ptr.push(n as u32);
    }
    ptr
}

/// A supernode, and what is known of it and its right neighbour.
#[derive(Clone, Copy)]
struct Group {
    first: u32,
    zeros: u64,
    with_next: Pair,
}

/// A pair of neighbours.
#[derive(Clone, Copy)]
enum Pair {
    /// One of the two is new.
    Unknown,
    /// They must not merge.
    Refused,
    /// They may, and have this many zeros then.
    Allowed(u64),
}

/// First rows of the relaxed supernodes, then n, and the zeros in their blocks.
fn relaxed(
    filled: &FilledPattern,
    ptr: &[u32],
    max_size: u32,
    relax: &Relaxation,
) -> (Vec<u32>, u64) {
    let n = filled.n() as u32;
    let mut groups: Vec<Group> = ptr[..ptr.len() - 1]
        .iter()
        .map(|&first| Group {
            first,
            zeros: 0,
            with_next: Pair::Unknown,
        })
        .collect();
    loop {
        for g in 1..groups.len() {
            if let Pair::Unknown = groups[g - 1].with_next {
                let end = groups.get(g + 1).map_or(n, |after| after.first);
                let rows = [groups[g - 1].first, groups[g].first, end];
                let apart = [groups[g - 1].zeros, groups[g].zeros];
                groups[g - 1].with_next = judge(filled, rows, apart, max_size, relax);
            }
        }
        let may = |groups: &[Group], pair: Option<usize>| {
            let group = pair.and_then(|pair| groups.get(pair));
            group.is_some_and(|group| matches!(group.with_next, Pair::Allowed(_)))
        };
        // What remains is moved to the front. A pair on the left has been merged already if it had to be;
        // `left_may` is whether it was allowed.
        let before = groups.len();
        let mut kept = 0;
        let mut g = 0;
        let mut left_may = false;
        while g < before {
            let mut group = groups[g];
            let alone = !left_may && !may(&groups, Some(g + 1));
            match group.with_next {
                Pair::Allowed(zeros) if g % 2 == 0 || alone => {
                    left_may = may(&groups, Some(g + 1));
                    group.zeros = zeros;
                    group.with_next = Pair::Unknown;
                    if kept > 0 {
                        groups[kept - 1].with_next = Pair::Unknown;
                    }
                    g += 2;
                }
                _ => {
                    left_may = may(&groups, Some(g));
                    g += 1;
                }
            }
            groups[kept] = group;
            kept += 1;
        }
        groups.truncate(kept);
        if kept == before {
            break;
        }
    }
    let zeros = groups.iter().map(|group| group.zeros).sum();
    let mut relaxed: Vec<u32> = groups.iter().map(|group| group.first).collect();
    relaxed.push(n);
    (relaxed, zeros)
}

/// Whether rows `begin..middle` and `middle..end`, which have `apart` zeros, may merge.
///
/// The entries of the block are those of its parts and what L has in the second's rows and the first's
/// columns: the columns of U right of the block are those of its last row.
fn judge(
    filled: &FilledPattern,
    [begin, middle, end]: [u32; 3],
    apart: [u64; 2],
    max_size: u32,
    relax: &Relaxation,
) -> Pair {
    let size = end - begin;
    if size > max_size {
        return Pair::Refused;
    }
    let mut between = 0;
    let mut is_child = false;
    for s in middle..end {
        let lower = filled.lower(s as usize);
        let lower = &lower[..lower.partition_point(|&j| j < middle)];
        is_child |= lower.last() == Some(&(middle - 1));
        between += lower.len() - lower.partition_point(|&j| j < begin);
    }
    if !is_child {
        return Pair::Refused;
    }
    let stored = |size: u32, last: u32| {
        u64::from(size) * (u64::from(size) + filled.upper(last as usize).len() as u64)
    };
    let together = stored(size, end - 1);
    let places = stored(middle - begin, middle - 1) + stored(end - middle, end - 1);
    let entries = places - apart[0] - apart[1] + between as u64;
    let zeros = together - entries;
    if relax.allows(size, zeros, together) {
        Pair::Allowed(zeros)
    } else {
        Pair::Refused
    }
}
