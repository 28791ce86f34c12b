//! The pattern of a diagonal block and the graph of its symmetrized pattern, which the fill-reducing
//! methods order.

use luge_sparse::CompressedPattern;

/// Vertices with more neighbours than this are set aside by the methods on graphs: 10·√n, and at
/// least 16.
pub(crate) fn dense_limit(n: usize) -> usize {
    f64::max(16.0, 10.0 * (n as f64).sqrt()) as usize
}

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

/// The entries of a permuted matrix inside one diagonal block, numbered from the start of the block,
/// by rows and by columns, both sorted.
#[derive(Debug)]
pub(crate) struct BlockPattern {
    rows: Lanes,
    cols: Lanes,
    /// Whether both are the same.
    is_symmetric: bool,
}

/// Compressed lists.
#[derive(Debug, PartialEq, Eq)]
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
        // Counts are shifted by two, so that after the sums ptr[i + 1] is where lane i starts and,
        // once lane i is filled, where it ends.
        let mut ptr = vec![0; n + 2];
        for &i in &self.idx {
            ptr[i as usize + 2] += 1;
        }
        for i in 2..n + 2 {
            ptr[i] += ptr[i - 1];
        }
        let mut idx = vec![0; self.idx.len()];
        for lane in 0..n {
            for &i in self.lane(lane) {
                let next = &mut ptr[i as usize + 1];
                idx[*next] = lane as u32;
                *next += 1;
            }
        }
        ptr.pop();
        Self { ptr, idx }
    }
}

impl BlockPattern {
    /// The block of the matrix `A[row_of_col[j]][j]` whose columns are `cols`, A's numbers in the order
    /// of the block; `new_col[j]` is the new number of column `j` of A, and the block starts at new
    /// number `start`. There are no entries below the block.
    pub fn new(
        a: &CompressedPattern,
        row_of_col: &[u32],
        cols: &[u32],
        new_col: &[u32],
        start: usize,
    ) -> Self {
        let n = cols.len();
        let mut ptr = Vec::with_capacity(n + 1);
        let most: usize = cols
            .iter()
            .map(|&col| a.range(row_of_col[col as usize] as usize).len())
            .sum();
        let mut idx = Vec::with_capacity(most);
        ptr.push(0);
        for &col in cols {
            let lane = a.lane(row_of_col[col as usize] as usize);
            idx.extend(
                lane.iter()
                    .map(|&col| new_col[col as usize].wrapping_sub(start as u32))
                    .filter(|&col| (col as usize) < n),
            );
            ptr.push(idx.len());
        }
        let mut rows = Lanes { ptr, idx };
        let transposed = rows.transpose();
        // A's lanes are sorted, and stay so if the columns keep their order.
        if !cols.is_sorted() {
            rows = transposed.transpose();
        }
        Self {
            is_symmetric: rows == transposed,
            rows,
            cols: transposed,
        }
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.rows.ptr.len() - 1
    }

    /// Number of entries.
    pub fn nnz(&self) -> usize {
        self.rows.idx.len()
    }

    /// Sorted columns of row `i`.
    pub fn row(&self, i: usize) -> &[u32] {
        self.rows.lane(i)
    }

    /// Sorted rows of column `j`.
    pub fn col(&self, j: usize) -> &[u32] {
        self.cols.lane(j)
    }

    /// Every vertex that is joined to `v` in the graph of the block plus its transpose, some twice, `v`
    /// itself perhaps too.
    pub fn joined(&self, v: usize) -> impl Iterator<Item = u32> + '_ {
        let more = if self.is_symmetric { &[] } else { self.col(v) };
        self.row(v).iter().chain(more).copied()
    }

    /// The graph of the block plus its transpose. Room for `spare(n, entries)` entries is set aside.
    pub fn symmetrized(&self, spare: impl Fn(usize, usize) -> usize) -> Graph {
        let n = self.len();
        let mut ptr = Vec::with_capacity(n + 1);
        ptr.push(0);
        if self.is_symmetric {
            let mut idx = Vec::with_capacity(spare(n, self.nnz()));
            for v in 0..n {
                idx.extend(self.row(v).iter().copied().filter(|&w| w as usize != v));
                ptr.push(idx.len());
            }
            return Graph { ptr, idx };
        }
        let mut idx = Vec::with_capacity(spare(n, self.nnz() * 5 / 4));
        for v in 0..n {
            let (mut x, mut y) = (self.row(v), self.col(v));
            while let (Some((&p, rest_x)), Some((&q, rest_y))) = (x.split_first(), y.split_first())
            {
                let w = p.min(q);
                if p <= q {
                    x = rest_x;
                }
                if q <= p {
                    y = rest_y;
                }
                if w as usize != v {
                    idx.push(w);
                }
            }
            idx.extend(x.iter().chain(y).copied().filter(|&w| w as usize != v));
            ptr.push(idx.len());
        }
        Graph { ptr, idx }
    }
}
