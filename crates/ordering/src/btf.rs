//! Block triangular form of a matrix with zero-free diagonal.
//!
//! The strongly connected components of the directed graph j → k for every entry (j, k) are the
//! diagonal blocks of the finest block triangular form that a symmetric permutation reaches (I. S.
//! Duff and J. K. Reid, "An implementation of Tarjan's algorithm for the block triangularization of
//! a matrix", ACM TOMS 4 (1978)). They are found by R. Tarjan, "Depth-first search and linear graph
//! algorithms", SIAM J. Comput. 1 (1972), with explicit stacks; O(n + nnz). Which rows stand on the
//! diagonal does not change the blocks. In a symmetric pattern they are the connected components, which one pass over
//! the entries finds, together with the symmetry.

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
    let is_unmoved = row_of_col
        .iter()
        .enumerate()
        .all(|(j, &row)| j == row as usize);
    let connected = if is_unmoved {
        connected_components(a)
    } else {
        None
    };
    connected.unwrap_or_else(|| strong_components(a, row_of_col))
}

/// The components of a symmetric pattern, which are those that [`strong_components`] finds for less; none if the pattern
/// is not symmetric.
fn connected_components(a: &CompressedPattern) -> Option<BlockTriangular> {
    let n = a.major_dim();
    let idx = a.idx();
    to_u32(idx.len(), "entries of the matrix").ok()?;
    // The entry of each row whose counterpart above the diagonal comes next.
    let mut next: Vec<u32> = a.ptr()[..n].iter().map(|&p| p as u32).collect();
    // Towards the first vertex of the component.
    let mut top: Vec<u32> = (0..n as u32).collect();
    let find = |top: &mut [u32], mut v: u32| {
        while top[v as usize] != v {
            top[v as usize] = top[top[v as usize] as usize];
            v = top[v as usize];
        }
        v
    };
    for i in 0..n {
        let range = a.range(i);
        let above = next[i] as usize;
        // What is left of the diagonal was met from above, all of it.
        if above < range.end && (idx[above] as usize) < i {
            return None;
        }
        let mut first = find(&mut top, i as u32);
        for &j in &idx[above..range.end] {
            if j as usize == i {
                continue;
            }
            let place = next[j as usize] as usize;
            if place >= a.ptr()[j as usize + 1] as usize || idx[place] as usize != i {
                return None;
            }
            next[j as usize] += 1;
            let other = find(&mut top, j);
            if other != first {
                let earlier = first.min(other);
                top[first.max(other) as usize] = earlier;
                first = earlier;
            }
        }
    }
    // Sizes of the components by their first vertices; the last component comes first.
    let mut starts = vec![0u32; n];
    for v in 0..n as u32 {
        let first = find(&mut top, v);
        top[v as usize] = first;
        starts[first as usize] += 1;
    }
    let mut block_ptr = vec![0];
    let mut end = 0;
    for start in starts.iter_mut().rev().filter(|size| **size > 0) {
        let size = std::mem::replace(start, end);
        end += size;
        block_ptr.push(end as usize);
    }
    let mut perm = vec![0; n];
    for v in 0..n as u32 {
        let place = &mut starts[top[v as usize] as usize];
        perm[*place as usize] = v;
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
        fn connected_components_are_the_strong_ones(
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
            let found = connected_components(&a);
            prop_assert_eq!(found.is_some(), a.transpose() == a);
            if let Some(found) = found {
                prop_assert_eq!(found, strong_components(&a, &identity));
            }
        }
    }
}
