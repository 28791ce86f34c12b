//! Block triangular form of a matrix with zero-free diagonal.
//!
//! The strongly connected components of the directed graph j → k for every entry (j, k) are the
//! diagonal blocks of the finest block triangular form that a symmetric permutation reaches (I. S.
//! Duff and J. K. Reid, "An implementation of Tarjan's algorithm for the block triangularization of
//! a matrix", ACM TOMS 4 (1978)). They are found by R. Tarjan, "Depth-first search and linear graph
//! algorithms", SIAM J. Comput. 1 (1972), with explicit stacks; O(n + nnz). Which rows stand on the
//! diagonal does not change the blocks.

use luge_sparse::{CompressedPattern, Permutation};
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
