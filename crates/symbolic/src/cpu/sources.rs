//! Rows of L+U each by itself, by a traversal from its source: what ranks divide among themselves.
//!
//! Entry (i, j) is in L+U if a path leads from i to j whose inner vertices are below both (Rose and Tarjan, "Algorithmic aspects of
//! vertex elimination on directed graphs", SIAM J. Appl. Math. 34, 1978, who call this FILL2). From the source vertices below it
//! are taken in ascending order; from each the search goes on through those below that one, and whatever it meets above is an entry.
//!
//! Cost: for each source at most one look at every entry of the matrix. That is far more than the elimination of
//! [`filled_pattern`](super::filled_pattern) takes, but needs no other row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use luge_sparse::CompressedPattern;

use crate::assert_square;

/// Finds rows of L+U of one pattern, one source after another.
#[derive(Debug)]
pub struct SourceTraversal<'a> {
    rows: &'a CompressedPattern,
    /// The last source, plus 1, from which each vertex was met.
    met_from: Vec<u32>,
    /// Entries of L of the source whose vertices are still to be taken.
    thresholds: BinaryHeap<Reverse<u32>>,
    /// Vertices below the threshold that were met, and not gone on from.
    frontier: Vec<u32>,
}

impl<'a> SourceTraversal<'a> {
    /// Of the square CSR pattern `rows`; the diagonal need not be stored in it. Takes 4 bytes for each row.
    ///
    /// # Panics
    ///
    /// If `rows` is not square.
    #[track_caller]
    pub fn new(rows: &'a CompressedPattern) -> Self {
        assert_square(rows);
        Self {
            rows,
            met_from: vec![0; rows.major_dim()],
            thresholds: BinaryHeap::new(),
            frontier: Vec::new(),
        }
    }

    /// Appends the columns of row `source` of L+U, ascending, the diagonal included, to `row`.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[track_caller]
    pub fn append_row(&mut self, source: u32, row: &mut Vec<u32>) {
        let first = row.len();
        let rows = self.rows;
        self.met_from[source as usize] = source + 1;
        row.push(source);
        self.meet(source, None, rows.line(source as usize), row);
        while let Some(Reverse(threshold)) = self.thresholds.pop() {
            self.frontier.push(threshold);
            while let Some(vertex) = self.frontier.pop() {
                self.meet(source, Some(threshold), rows.line(vertex as usize), row);
            }
        }
        row[first..].sort_unstable();
    }

    /// Takes in neighbours of a vertex. Those above the threshold, if there is one, are entries of the row.
    fn meet(
        &mut self,
        source: u32,
        threshold: Option<u32>,
        neighbours: &[u32],
        row: &mut Vec<u32>,
    ) {
        for &vertex in neighbours {
            let met_from = &mut self.met_from[vertex as usize];
            if std::mem::replace(met_from, source + 1) == source + 1 {
                continue;
            }
            if threshold.is_some_and(|threshold| vertex < threshold) {
                self.frontier.push(vertex);
                continue;
            }
            row.push(vertex);
            if vertex < source {
                self.thresholds.push(Reverse(vertex));
            }
        }
    }
}
