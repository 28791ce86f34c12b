//! Block triangular form of a matrix with zero-free diagonal.
//!
//! The strongly connected components of the directed graph j → k for every entry (j, k) are the
//! diagonal blocks of the finest block triangular form that a symmetric permutation reaches (I. S.
//! Duff and J. K. Reid, "An implementation of Tarjan's algorithm for the block triangularization of
//! a matrix", ACM TOMS 4 (1978)). They are found by R. Tarjan, "Depth-first search and linear graph
//! algorithms", SIAM J. Comput. 1 (1972), with explicit stacks; O(n + nnz). Which rows stand on the
//! diagonal does not change the blocks.

use luge_sparse::{CompressedPattern, Permutation};

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

    // visited[j]: number of the visit, in order; low[j]: smallest visit number on the stack that j
    // is known to reach; n once its component is complete, so that later edges into it are ignored.
    let mut visited = vec![UNSEEN; n];
    let mut low = vec![0u32; n];
    let mut next_entry = vec![0u64; n];
    let mut open: Vec<u32> = Vec::new();
    let mut path: Vec<u32> = Vec::new();
    // Components come out after all that they reach; `emitted` collects them in that order.
    let mut emitted: Vec<u32> = Vec::with_capacity(n);
    let mut starts: Vec<usize> = Vec::new();
    let mut visits = 0;
    for root in 0..n {
        if visited[root] != UNSEEN {
            continue;
        }
        path.push(root as u32);
        while let Some(&j) = path.last() {
            let j = j as usize;
            let row = row_of_col[j] as usize;
            if visited[j] == UNSEEN {
                visited[j] = visits;
                low[j] = visits;
                visits += 1;
                next_entry[j] = a.ptr()[row];
                open.push(j as u32);
            }
            let end = a.ptr()[row + 1];
            let mut child = None;
            while next_entry[j] < end {
                let k = a.idx()[next_entry[j] as usize] as usize;
                if visited[k] == UNSEEN {
                    // The entry is looked at again after k, when low[k] is final.
                    child = Some(k as u32);
                    break;
                }
                low[j] = low[j].min(low[k]);
                next_entry[j] += 1;
            }
            if let Some(k) = child {
                path.push(k);
                continue;
            }
            path.pop();
            if low[j] == visited[j] {
                starts.push(emitted.len());
                loop {
                    let k = open.pop().expect("j itself is on the stack");
                    low[k as usize] = n as u32;
                    emitted.push(k);
                    if k as usize == j {
                        break;
                    }
                }
            }
        }
    }

    // The last component emitted reaches all others it is connected with, so it comes first.
    starts.push(n);
    let mut perm = Vec::with_capacity(n);
    let mut block_ptr = vec![0];
    for block in starts.windows(2).rev() {
        let start = perm.len();
        perm.extend_from_slice(&emitted[block[0]..block[1]]);
        perm[start..].sort_unstable();
        block_ptr.push(perm.len());
    }
    BlockTriangular {
        perm: Permutation::new(perm).expect("every vertex is emitted once"),
        block_ptr,
    }
}
