//! The graphs that the fill-reducing methods order: the pattern of B + Bᵀ, split into the diagonal
//! blocks of a block triangular form.

use std::ops::Range;

use luge_sparse::CompressedPattern;

/// An undirected graph without loops: `neighbours(v)` sorted, every edge in both lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    pub ptr: Vec<usize>,
    pub idx: Vec<u32>,
}

impl Graph {
    pub fn len(&self) -> usize {
        self.ptr.len() - 1
    }

    pub fn neighbours(&self, v: usize) -> &[u32] {
        &self.idx[self.ptr[v]..self.ptr[v + 1]]
    }

    pub fn degree(&self, v: usize) -> usize {
        self.ptr[v + 1] - self.ptr[v]
    }

    /// The graph of the vertices in `range`, renumbered from zero, when no edge leaves it.
    pub fn component(&self, range: Range<usize>) -> Self {
        let (base, end) = (self.ptr[range.start], self.ptr[range.end]);
        Self {
            ptr: self.ptr[range.start..=range.end]
                .iter()
                .map(|p| p - base)
                .collect(),
            idx: self.idx[base..end]
                .iter()
                .map(|&v| v - range.start as u32)
                .collect(),
        }
    }

    /// The graph induced by `vertices`, numbered by their place in that list, which is increasing.
    pub fn induced(&self, vertices: &[u32]) -> Self {
        let mut new_index = vec![u32::MAX; self.len()];
        for (new, &old) in vertices.iter().enumerate() {
            new_index[old as usize] = new as u32;
        }
        let mut ptr = vec![0];
        let mut idx = Vec::new();
        for &old in vertices {
            idx.extend(
                self.neighbours(old as usize)
                    .iter()
                    .map(|&w| new_index[w as usize])
                    .filter(|&w| w != u32::MAX),
            );
            ptr.push(idx.len());
        }
        Self { ptr, idx }
    }
}

/// The entries of a permuted matrix inside the diagonal blocks, in both directions, sorted.
pub(crate) struct BlockPattern {
    /// Rows of the permuted matrix.
    rows: Lanes,
    /// Columns of the permuted matrix.
    cols: Lanes,
    /// Entries above the diagonal blocks.
    pub off_diagonal_nnz: u64,
}

struct Lanes {
    ptr: Vec<usize>,
    idx: Vec<u32>,
}

impl Lanes {
    fn lane(&self, lane: usize) -> &[u32] {
        &self.idx[self.ptr[lane]..self.ptr[lane + 1]]
    }

    fn transpose(&self) -> Self {
        let n = self.ptr.len() - 1;
        let mut ptr = vec![0; n + 1];
        for &i in &self.idx {
            ptr[i as usize + 1] += 1;
        }
        for i in 0..n {
            ptr[i + 1] += ptr[i];
        }
        let mut next = ptr.clone();
        let mut idx = vec![0; self.idx.len()];
        for lane in 0..n {
            for &i in self.lane(lane) {
                idx[next[i as usize]] = lane as u32;
                next[i as usize] += 1;
            }
        }
        Self { ptr, idx }
    }
}

impl BlockPattern {
    /// The matrix `A[row_perm[i]][col_perm[j]]`, both new to old, with the given blocks.
    pub fn new(
        a: &CompressedPattern,
        row_perm: &[u32],
        col_perm: &[u32],
        block_ptr: &[usize],
    ) -> Self {
        let n = a.major_dim();
        let mut new_col = vec![0u32; n];
        for (new, &old) in col_perm.iter().enumerate() {
            new_col[old as usize] = new as u32;
        }
        let mut ptr = Vec::with_capacity(n + 1);
        let mut idx = Vec::with_capacity(a.nnz());
        ptr.push(0);
        for block in block_ptr.windows(2) {
            for &row in &row_perm[block[0]..block[1]] {
                idx.extend(
                    a.lane(row as usize)
                        .iter()
                        .map(|&col| new_col[col as usize])
                        .filter(|&col| (block[0]..block[1]).contains(&(col as usize))),
                );
                ptr.push(idx.len());
            }
        }
        let off_diagonal_nnz = (a.nnz() - idx.len()) as u64;
        // Transposing twice sorts the lanes.
        let cols = Lanes { ptr, idx }.transpose();
        let rows = cols.transpose();
        Self {
            rows,
            cols,
            off_diagonal_nnz,
        }
    }

    /// Sorted rows, inside the block, of each of the columns; all in the permuted numbering.
    pub fn cols(&self, range: Range<usize>) -> impl Iterator<Item = &[u32]> + Clone {
        range.map(|col| self.cols.lane(col))
    }

    /// The graph of the matrix plus its transpose inside the blocks.
    pub fn symmetrized(&self) -> Graph {
        let n = self.rows.ptr.len() - 1;
        let mut ptr = Vec::with_capacity(n + 1);
        let mut idx = Vec::with_capacity(self.rows.idx.len() * 5 / 4);
        ptr.push(0);
        for v in 0..n {
            let (mut x, mut y) = (self.rows.lane(v), self.cols.lane(v));
            loop {
                let w = match (x.first(), y.first()) {
                    (None, None) => break,
                    (Some(&w), None) | (None, Some(&w)) => w,
                    (Some(&p), Some(&q)) => p.min(q),
                };
                x = &x[usize::from(x.first() == Some(&w))..];
                y = &y[usize::from(y.first() == Some(&w))..];
                if w as usize != v {
                    idx.push(w);
                }
            }
            ptr.push(idx.len());
        }
        Graph { ptr, idx }
    }
}
