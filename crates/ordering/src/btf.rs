//! Block triangular form of a matrix with zero-free diagonal.
//!
//! The strongly connected components of the directed graph j → k for every entry (j, k) are the
//! diagonal blocks of the finest block triangular form that a symmetric permutation reaches (I. S.
//! Duff and J. K. Reid, "An implementation of Tarjan's algorithm for the block triangularization of
//! a matrix", ACM TOMS 4 (1978)). They are found by R. Tarjan, "Depth-first search and linear graph
//! algorithms", SIAM J. Comput. 1 (1972), with explicit stacks; O(n + nnz). Which rows stand on the
//! diagonal does not change the blocks. Vertices are first joined by pairs of entries (i, j) and (j, i), in one pass over
//! the entries, which leaves little to search where the pattern is nearly symmetric.

use luge_sparse::{CompressedPattern, Permutation, to_u32};
use smallvec::{SmallVec, smallvec};

/// Blocks in upper block triangular order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockTriangular {
    /// The symmetric permutation, new to old, of the matrix whose row `j` is row `row_of_col[j]` of
    /// A. Within a block, old indices increase.
    pub perm: Permutation,
    /// Where each block starts; block `b` holds new indices `block_ptr[b]..block_ptr[b + 1]`. One
    /// more entry than there are blocks.
    pub block_ptr: Vec<usize>,
}

/// Patterns with more than about one entry without its counterpart for so many vertices are not nearly symmetric.
const MOST_SINGLE: usize = 4;

/// Not visited yet.
const UNSEEN: u32 = u32::MAX;

/// Its component is complete. Larger than the number of any visit, so that edges into it mean nothing.
const DONE: u32 = u32::MAX - 1;

/// The block triangular form of the square matrix whose row `j` is row `row_of_col[j]` of the CSR
/// pattern `a`. Permuted by the result, all entries lie in the diagonal blocks or above them.
///
/// Meant for a `row_of_col` that puts an entry on every diagonal position. Without that the blocks
/// are still block triangular, but a finer form may exist.
///
/// # Panics
///
/// If the pattern is not square or `row_of_col` has another length.
#[track_caller]
pub fn block_triangular(a: &CompressedPattern, row_of_col: &[u32]) -> BlockTriangular {
    let n = a.major_dim();
    assert_eq!(n, a.minor_dim(), "block triangular form of a square matrix");
    assert_eq!(row_of_col.len(), n, "one row per column");
    joined_in_pairs(a, row_of_col).unwrap_or_else(|| strong_components(a, row_of_col))
}

/// What [`strong_components`] finds, up to the order of blocks that have nothing to do with each other: first the components that the pairs of entries (i, j) and (j, i) make, then those of them that single
/// entries make. None if that would not save work, for there are too many of the latter, or if there are more entries than
/// 32 bits count.
fn joined_in_pairs(a: &CompressedPattern, row_of_col: &[u32]) -> Option<BlockTriangular> {
    let n = a.major_dim();
    let idx = a.idx();
    to_u32(idx.len(), "entries of the matrix").ok()?;
    // The entry of each row from which on none has met its counterpart.
    let range = |i: u32| a.range(row_of_col[i as usize] as usize);
    let mut next: Vec<u32> = (0..n as u32).map(|i| range(i).start as u32).collect();
    // Towards the first vertex of the component.
    let mut top: Vec<u32> = (0..n as u32).collect();
    let find = |top: &mut [u32], mut v: u32| {
        while top[v as usize] != v {
            top[v as usize] = top[top[v as usize] as usize];
            v = top[v as usize];
        }
        v
    };
    let mut single: Vec<(u32, u32)> = Vec::new();
    for i in 0..n as u32 {
        if single.len() > n / MOST_SINGLE + 64 {
            return None;
        }
        let end = range(i).end;
        let mut above = next[i as usize] as usize;
        while above < end && idx[above] < i {
            single.push((i, idx[above]));
            above += 1;
        }
        let mut first = find(&mut top, i);
        for &j in &idx[above..end] {
            if j == i {
                continue;
            }
            let end = range(j).end;
            let mut place = next[j as usize] as usize;
            while place < end && idx[place] < i {
                single.push((j, idx[place]));
                place += 1;
            }
            let is_pair = place < end && idx[place] == i;
            next[j as usize] = (place + usize::from(is_pair)) as u32;
            if !is_pair {
                single.push((i, j));
                continue;
            }
            let other = find(&mut top, j);
            if other != first {
                let earlier = first.min(other);
                top[first.max(other) as usize] = earlier;
                first = earlier;
            }
        }
    }
    // Components by number, the one of the last first vertex first.
    let mut number = vec![UNSEEN; n];
    let mut count = 0;
    for v in (0..n as u32).rev() {
        if top[v as usize] == v {
            number[v as usize] = count;
            count += 1;
        }
    }
    for v in 0..n as u32 {
        number[v as usize] = number[find(&mut top, v) as usize];
    }
    let between = single
        .into_iter()
        .map(|(i, j)| (number[i as usize], number[j as usize]));
    let mut between: Vec<(u32, u32)> = between.filter(|(i, j)| i != j).collect();
    if !between.is_empty() {
        between.sort_unstable();
        between.dedup();
        let mut ptr = vec![0; count as usize + 1];
        for &(i, _) in &between {
            ptr[i as usize + 1] += 1;
        }
        for i in 1..ptr.len() {
            ptr[i] += ptr[i - 1];
        }
        let idx = between.into_iter().map(|(_, j)| j).collect();
        let components = CompressedPattern::new(count as usize, ptr, idx);
        let components = components.expect("entries are sorted, and each is there once");
        let unmoved: Vec<u32> = (0..count).collect();
        let form = strong_components(&components, &unmoved);
        let mut block_of = vec![0; count as usize];
        for (block, ends) in (0..).zip(form.block_ptr.windows(2)) {
            for &component in &form.perm.as_slice()[ends[0]..ends[1]] {
                block_of[component as usize] = block;
            }
        }
        for v in &mut number {
            *v = block_of[*v as usize];
        }
        count = form.block_ptr.len() as u32 - 1;
    }
    let mut block_ptr = vec![0; count as usize + 1];
    for &block in &number {
        block_ptr[block as usize + 1] += 1;
    }
    for block in 1..block_ptr.len() {
        block_ptr[block] += block_ptr[block - 1];
    }
    let mut place = block_ptr.clone();
    let mut perm = vec![0; n];
    for (v, &block) in number.iter().enumerate() {
        let place = &mut place[block as usize];
        perm[*place] = v as u32;
        *place += 1;
    }
    Some(BlockTriangular {
        perm: Permutation::new(perm).expect("every vertex is in one component"),
        block_ptr,
    })
}

/// The strongly connected components, in order.
fn strong_components(a: &CompressedPattern, row_of_col: &[u32]) -> BlockTriangular {
    let n = a.major_dim();
    // number[j]: which visit j was, in order; DONE once its component is complete.
    let mut number: SmallVec<[u32; 32]> = smallvec![UNSEEN; n];
    let number = &mut number[..];
    let mut open: SmallVec<[u32; 32]> = SmallVec::new();
    let mut path: SmallVec<[Visit; 16]> = SmallVec::new();
    // Components come out after all that they reach; `emitted` collects them in that order.
    let mut emitted: Vec<u32> = Vec::with_capacity(n);
    let mut starts: SmallVec<[usize; 32]> = SmallVec::new();
    let mut visits = 0;
    for root in 0..n as u32 {
        if number[root as usize] != UNSEEN {
            continue;
        }
        let mut next = root;
        loop {
            // Down into `next`.
            let row = row_of_col[next as usize] as usize;
            let mut visit = Visit {
                vertex: next,
                number: visits,
                low: visits,
                entries: a.range(row),
            };
            number[next as usize] = visits;
            visits += 1;
            open.push(next);
            // Along its entries, and up as long as there are none left.
            let child = loop {
                let child = visit.entries.find_map(|p| {
                    let k = a.idx()[p];
                    let seen = number[k as usize];
                    visit.low = visit.low.min(seen);
                    (seen == UNSEEN).then_some(k)
                });
                if child.is_some() {
                    break child;
                }
                if visit.low == visit.number {
                    starts.push(emitted.len());
                    loop {
                        let k = open.pop().expect("the vertex itself is open");
                        number[k as usize] = DONE;
                        emitted.push(k);
                        if k == visit.vertex {
                            break;
                        }
                    }
                }
                let Some(parent) = path.pop() else { break None };
                let low = visit.low;
                visit = parent;
                visit.low = visit.low.min(low);
            };
            let Some(child) = child else { break };
            path.push(visit);
            next = child;
        }
    }

    // The last component emitted reaches all others it is connected with, so it comes first. The
    // numbers become those of the blocks, and the vertices are dealt to their blocks in order.
    starts.push(n);
    let num_blocks = starts.len() - 1;
    let mut block_ptr = Vec::with_capacity(num_blocks + 1);
    block_ptr.push(0);
    for (block, ends) in starts.windows(2).rev().enumerate() {
        for &v in &emitted[ends[0]..ends[1]] {
            number[v as usize] = block as u32;
        }
        block_ptr.push(block_ptr[block] + ends[1] - ends[0]);
    }
    let mut next = starts;
    next.copy_from_slice(&block_ptr);
    let mut perm = emitted;
    for (v, &block) in number.iter().enumerate() {
        let place = &mut next[block as usize];
        perm[*place] = v as u32;
        *place += 1;
    }
    BlockTriangular {
        perm: Permutation::new(perm).expect("every vertex is emitted once"),
        block_ptr,
    }
}

/// Where a search is.
struct Visit {
    vertex: u32,
    /// Its number.
    number: u32,
    /// The smallest number of an open vertex that it is known to reach.
    low: u32,
    /// The entries of its row that were not looked at yet.
    entries: std::ops::Range<usize>,
}

#[cfg(test)]
mod tests {
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn components_joined_in_pairs_are_the_strong_ones(
            a in patterns(20),
            makes_symmetric in any::<bool>(),
            thin in 1..9usize,
        ) {
            let n = a.major_dim();
            let keeps = |i: usize, j: usize| ((i + j) * 7 + i * j).is_multiple_of(thin);
            let (mut ptr, mut idx) = (vec![0], Vec::new());
            for i in 0..n {
                let has = |i: usize, j: usize| a.lane(i).contains(&(j as u32)) && keeps(i, j);
                let row = (0..n).filter(|&j| i == j || has(i, j) || (makes_symmetric && has(j, i)));
                idx.extend(row.map(|j| j as u32));
                ptr.push(idx.len() as u64);
            }
            let a = CompressedPattern::new(n, ptr, idx).unwrap();
            let identity: Vec<u32> = (0..n as u32).collect();
            let Some(found) = joined_in_pairs(&a, &identity) else {
                let has_counterpart = |i: usize, j: &u32| a.lane(*j as usize).contains(&(i as u32));
                let lanes = a.lanes().enumerate();
                let single = lanes.flat_map(|(i, lane)| lane.iter().filter(move |&j| !has_counterpart(i, j)));
                prop_assert!(single.count() > n / MOST_SINGLE + 64);
                return Ok(());
            };
            let expected = strong_components(&a, &identity);
            if a.transpose() == a {
                prop_assert_eq!(&found, &expected);
            }
            let blocks = |form: &BlockTriangular| {
                let ends = form.block_ptr.windows(2);
                let mut blocks: Vec<Vec<u32>> =
                    ends.map(|e| form.perm.as_slice()[e[0]..e[1]].to_vec()).collect();
                blocks.sort();
                blocks
            };
            prop_assert_eq!(blocks(&found), blocks(&expected));
            let mut block_of = vec![0; n];
            for (block, ends) in found.block_ptr.windows(2).enumerate() {
                for &v in &found.perm.as_slice()[ends[0]..ends[1]] {
                    block_of[v as usize] = block;
                }
            }
            for i in 0..n {
                prop_assert!(a.lane(i).iter().all(|&j| block_of[i] <= block_of[j as usize]));
            }
        }
    }
}
