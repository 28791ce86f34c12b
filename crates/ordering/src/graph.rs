//! The pattern of a diagonal block and the graph of its symmetrized pattern, which the fill-reducing
//! methods order.

use std::ops::Range;

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};
use rayon::prelude::*;

use crate::parts::{by_parts, joined_lists};

/// Blocks of at least so many columns are read on several threads. Few in tests, so that small ones are.
const MIN_PARALLEL: usize = if cfg!(test) { 8 } else { 4000 };

/// Lines that a thread reads at least.
const LEAST_PART: usize = 512;

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
    #[cfg(feature = "metis")]
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
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlockPattern {
    rows: Lines,
    /// None if they are the same.
    cols: Option<Lines>,
    /// Whether each vertex should come after one of its neighbours, where that matters.
    pub waits: Option<Vec<bool>>,
}

/// Compressed lists.
#[derive(Debug, PartialEq, Eq)]
struct Lines {
    ptr: Vec<usize>,
    idx: Vec<u32>,
}

impl Lines {
    /// The rows of the columns `cols`, by `row`, as far as they are in the block that starts at the new number `start`, in
    /// new numbers.
    fn of_block<'a>(
        row: impl Fn(u32) -> &'a [u32] + Sync,
        cols: &[u32],
        new_col: &[u32],
        start: usize,
        parallel: bool,
    ) -> Self {
        let n = cols.len();
        let make = |range: Range<usize>| {
            let lines = cols[range.clone()].iter().map(|&col| row(col));
            let mut idx = Vec::with_capacity(lines.clone().map(<[u32]>::len).sum());
            let mut ends = Vec::with_capacity(range.len());
            for line in lines {
                idx.extend(
                    line.iter()
                        .map(|&col| new_col[col as usize].wrapping_sub(start as u32))
                        .filter(|&col| (col as usize) < n),
                );
                ends.push(idx.len());
            }
            (idx, ends)
        };
        let (ptr, idx) = joined_lists(by_parts(n, LEAST_PART, parallel, make));
        Self { ptr, idx }
    }

    fn line(&self, line: usize) -> &[u32] {
        &self.idx[self.ptr[line]..self.ptr[line + 1]]
    }

    fn transpose(&self, parallel: bool) -> Self {
        let n = self.ptr.len() - 1;
        if !parallel {
            let entries = || (0..n as u32).flat_map(|line| self.entries(line));
            let (idx, mut ptr) = sorted_entries(0..n, entries);
            ptr.insert(0, 0);
            return Self { ptr, idx };
        }
        // Each part of the old lines is dealt out to the parts of the new ones, which then sort theirs.
        let num_new = rayon::current_num_threads();
        let size = n.div_ceil(num_new);
        let dealt = by_parts(n, LEAST_PART, true, |range| {
            let mut dealt: Vec<Vec<(u32, u32)>> = vec![Vec::new(); num_new];
            for line in range {
                for (line, i) in self.entries(line as u32) {
                    dealt[i as usize / size].push((line, i));
                }
            }
            dealt
        });
        let sorted = (0..num_new).into_par_iter().map(|part| {
            let range = (part * size).min(n)..((part + 1) * size).min(n);
            sorted_entries(range, || dealt.iter().flat_map(|d| d[part].iter().copied()))
        });
        let (ptr, idx) = joined_lists(sorted.collect());
        Self { ptr, idx }
    }

    /// The entries of a line, each with the line's number.
    fn entries(&self, line: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.line(line as usize).iter().map(move |&i| (line, i))
    }

    /// Whether this is its own transpose; the lines are sorted.
    fn is_symmetric(&self, parallel: bool) -> bool {
        let n = self.ptr.len() - 1;
        if parallel {
            // How many more entries are above the diagonal than below it, if those above have their counterparts. If all
            // have, and there are no more below, these have theirs.
            let balance = |i: usize| {
                let line = self.line(i);
                let is_above = |&&j: &&u32| j as usize > i;
                let above = line.iter().rev().take_while(is_above).count();
                let (rest, above) = line.split_at(line.len() - above);
                let below = rest.len() - usize::from(rest.last() == Some(&(i as u32)));
                let has_i = |&j: &u32| self.line(j as usize).binary_search(&(i as u32)).is_ok();
                let is_met = above.iter().all(has_i);
                is_met.then(|| above.len() as isize - below as isize)
            };
            let lines = (0..n).into_par_iter().with_min_len(MIN_PARALLEL / 8);
            let balances = lines.map(balance);
            return balances.try_reduce(|| 0, |x, y| Some(x + y)) == Some(0);
        }
        // The entry of each line whose counterpart comes next.
        let mut next = self.ptr[..n].to_vec();
        (0..n as u32).all(|i| {
            self.line(i as usize).iter().all(|&j| {
                let place = next[j as usize];
                next[j as usize] += 1;
                place < self.ptr[j as usize + 1] && self.idx[place] == i
            })
        })
    }
}

/// The first numbers of the pairs by their second ones, which are all in `range`, and where each list ends.
fn sorted_entries<I: Iterator<Item = (u32, u32)>>(
    range: Range<usize>,
    entries: impl Fn() -> I,
) -> (Vec<u32>, Vec<usize>) {
    let first = range.start;
    // Counts are shifted by one, so that after the sums ends[i] is where list i starts and, once it is filled, where it
    // ends.
    let mut ends = vec![0; range.len() + 1];
    for (_, i) in entries() {
        ends[i as usize - first + 1] += 1;
    }
    for i in 1..ends.len() {
        ends[i] += ends[i - 1];
    }
    let mut idx = vec![0; ends[range.len()]];
    for (line, i) in entries() {
        let next = &mut ends[i as usize - first];
        idx[*next] = line;
        *next += 1;
    }
    ends.pop();
    (idx, ends)
}

impl BlockPattern {
    /// The block of the matrix `A[row_of_col[j]][j]` whose columns are `cols`, A's numbers in the order
    /// of the block; `new_col[j]` is the new number of column `j` of A, and the block starts at new
    /// number `start`. There are no entries below the block. On the current rayon pool if `parallel`.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn new(
        a: &CompressedPattern,
        row_of_col: &[u32],
        cols: &[u32],
        new_col: &[u32],
        start: usize,
        parallel: bool,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let parallel = parallel && cols.len() >= MIN_PARALLEL;
        let row = |col: u32| a.line(row_of_col[col as usize] as usize);
        let mut rows = Lines::of_block(row, cols, new_col, start, parallel);
        cancel.check()?;
        let mut transposed = None;
        // A's lines are sorted, and stay so if the columns keep their order.
        if !cols.is_sorted() {
            let by_columns = rows.transpose(parallel);
            cancel.check()?;
            rows = by_columns.transpose(parallel);
            cancel.check()?;
            transposed = Some(by_columns);
        }
        let is_symmetric = match &transposed {
            Some(transposed) => rows == *transposed,
            None => rows.is_symmetric(parallel),
        };
        cancel.check()?;
        let cols = match transposed {
            _ if is_symmetric => None,
            Some(transposed) => Some(transposed),
            None => Some(rows.transpose(parallel)),
        };
        Ok(Self {
            rows,
            cols,
            waits: None,
        })
    }

    /// The block of the columns `cols`, increasing, of a symmetric matrix whose columns from `start` on they become; otherwise as
    /// [`Self::new`].
    pub fn of_symmetric(
        a: &CompressedPattern,
        cols: &[u32],
        new_col: &[u32],
        start: usize,
        parallel: bool,
    ) -> Self {
        let parallel = parallel && cols.len() >= MIN_PARALLEL;
        debug_assert!(cols.is_sorted());
        let rows = Lines::of_block(|col| a.line(col as usize), cols, new_col, start, parallel);
        debug_assert!(rows.is_symmetric(parallel));
        Self {
            rows,
            cols: None,
            waits: None,
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
        self.rows.line(i)
    }

    /// Sorted rows of column `j`.
    pub fn col(&self, j: usize) -> &[u32] {
        self.cols.as_ref().unwrap_or(&self.rows).line(j)
    }

    /// Every vertex that is joined to `v` in the graph of the block plus its transpose, some twice, `v`
    /// itself perhaps too.
    pub fn joined(&self, v: usize) -> impl Iterator<Item = u32> + '_ {
        let more = self.cols.as_ref().map_or(&[][..], |cols| cols.line(v));
        self.row(v).iter().chain(more).copied()
    }

    /// The graph of the block plus its transpose. Room for `spare(n, entries)` entries is set aside. On the current rayon
    /// pool if `parallel`.
    pub fn symmetrized(
        &self,
        parallel: bool,
        spare: impl Fn(usize, usize) -> usize + Sync,
    ) -> Graph {
        let n = self.len();
        let parallel = parallel && n >= MIN_PARALLEL;
        let make = |range: Range<usize>| {
            let mut ends = Vec::with_capacity(range.len());
            let first = self.rows.ptr[range.start];
            let entries = self.rows.ptr[range.end] - first;
            let Some(cols) = &self.cols else {
                let mut idx = Vec::with_capacity(spare(range.len(), entries));
                for v in range {
                    idx.extend(self.row(v).iter().copied().filter(|&w| w as usize != v));
                    ends.push(idx.len());
                }
                return (idx, ends);
            };
            let mut idx = Vec::with_capacity(spare(range.len(), entries * 5 / 4));
            for v in range {
                let (mut x, mut y) = (self.row(v), cols.line(v));
                while let (Some((&p, rest_x)), Some((&q, rest_y))) =
                    (x.split_first(), y.split_first())
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
                ends.push(idx.len());
            }
            (idx, ends)
        };
        let (ptr, idx) = joined_lists(by_parts(n, LEAST_PART, parallel, make));
        Graph { ptr, idx }
    }
}

#[cfg(test)]
mod tests {
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_do_not_depend_on_threads(
            a in patterns(40),
            is_symmetric in any::<bool>(),
            is_turned in any::<bool>(),
        ) {
            let n = a.major_dim();
            let of = |i: usize| a.line(i).to_vec();
            let lines = (0..n).map(|i| {
                let mut line = of(i);
                if is_symmetric {
                    line.extend((0..n as u32).filter(|&j| of(j as usize).contains(&(i as u32))));
                    line.sort_unstable();
                    line.dedup();
                }
                line
            });
            let lines: Vec<Vec<u32>> = lines.collect();
            let mut ptr = vec![0];
            ptr.extend(lines.iter().scan(0, |end, line| {
                *end += line.len() as u64;
                Some(*end)
            }));
            let a = CompressedPattern::new(n, ptr, lines.concat()).unwrap();
            let unmoved: Vec<u32> = (0..n as u32).collect();
            let mut cols = unmoved.clone();
            if is_turned {
                cols.rotate_left(n / 3);
            }
            let mut new_col = vec![0; n];
            for (new, &col) in (0..).zip(&cols) {
                new_col[col as usize] = new;
            }
            let never = CancelFlag::new();
            let block = |parallel| {
                BlockPattern::new(&a, &unmoved, &cols, &new_col, 0, parallel, &never).unwrap()
            };
            let (serial, shared) = (block(false), block(true));
            prop_assert_eq!(&shared, &serial);
            prop_assert_eq!(serial.cols.is_none(), a.transpose() == a);
            if serial.cols.is_none() && !is_turned {
                for parallel in [false, true] {
                    let block = BlockPattern::of_symmetric(&a, &cols, &new_col, 0, parallel);
                    prop_assert_eq!(&block, &serial);
                }
            }
            let graph = |parallel| serial.symmetrized(parallel, |_, entries| entries);
            prop_assert_eq!(graph(true), graph(false));
        }
    }
}
