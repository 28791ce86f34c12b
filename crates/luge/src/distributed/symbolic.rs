//! The pattern of L+U, its sources dealt out to ranks.

use luge_comm::{Collectives, Comm, Operation};
use luge_sparse::{CompressedPattern, FilledPattern, Scalar};
use luge_symbolic::cpu::SourceTraversal;

use super::RankAnalysis;
use super::error::{RankError, Shared};
use crate::error::Error;

/// Consecutive sources that a rank takes: chunks in turn, so that all ranks have cheap and costly ones (Gaihre, Li and Liu,
/// "gSoFa: scalable sparse symbolic LU factorization on GPUs", IEEE TPDS 33, 2022, section on scheduling).
const CHUNK: usize = 128;

/// Chunks between two looks at the cancel flag.
const LOOK: usize = 8;

impl<T: Scalar> RankAnalysis<T> {
    /// The filled pattern of the permuted matrix B, as [`Analysis::structure`](crate::Analysis::structure) finds it on one rank:
    /// each rank traverses the matrix from chunks of 128 sources in turn, and all of them have all rows afterwards.
    ///
    /// Each source costs up to one look at every entry of the matrix, where the elimination on one rank looks at each distinct
    /// structure once. It pays from many ranks on, or where no rank has memory for the structures of an elimination beside the
    /// pattern.
    ///
    /// # Errors
    ///
    /// [`RankError`].
    pub fn filled_pattern(&self) -> Result<FilledPattern, RankError> {
        let team = &self.ranks.team;
        let (rows, own) = self.ranks.together(|| {
            let rows = self.analysis.rows_of_b()?;
            let own = self.own_rows(&rows, (team.rank(), team.size()))?;
            Ok::<_, Error>((rows, own))
        })?;
        self.ranks.together(|| {
            team.enter(Operation::Symbolic);
            let lengths: Vec<Vec<u64>> = team.all_gather(&own.0)?;
            let columns: Vec<Vec<u32>> = team.all_gather(&own.1)?;
            let n = rows.major_dim();
            let (mut lengths, mut columns): (Vec<_>, Vec<&[u32]>) = (
                lengths.iter().map(|lengths| lengths.iter()).collect(),
                columns.iter().map(|columns| &columns[..]).collect(),
            );
            let mut ptr = Vec::with_capacity(n + 1);
            ptr.push(0);
            let mut idx = Vec::new();
            for source in 0..n {
                let rank = source / CHUNK % team.size();
                let length = lengths[rank].next().copied().unwrap_or_default();
                let (row, rest) = columns[rank].split_at(length as usize);
                columns[rank] = rest;
                idx.extend_from_slice(row);
                ptr.push(idx.len() as u64);
            }
            let pattern = CompressedPattern::new(n, ptr, idx);
            let pattern = pattern.unwrap_or_else(|e| unreachable!("rows are sorted: {e}"));
            let filled = FilledPattern::new(pattern);
            Ok::<_, Shared>(
                filled.unwrap_or_else(|row| unreachable!("row {row} has its diagonal entry")),
            )
        })
    }

    /// Lengths and columns of the rows of L+U that are the work of a rank.
    fn own_rows(
        &self,
        rows: &CompressedPattern,
        (rank, ranks): (usize, usize),
    ) -> Result<(Vec<u64>, Vec<u32>), Error> {
        let n = rows.major_dim();
        let cancel = &self.cancel;
        let mut traversal = SourceTraversal::new(rows);
        let (mut lengths, mut columns) = (Vec::new(), Vec::new());
        for (number, chunk) in (rank * CHUNK..n).step_by(ranks * CHUNK).enumerate() {
            if number.is_multiple_of(LOOK) {
                cancel.check()?;
            }
            for source in chunk..n.min(chunk + CHUNK) {
                let first = columns.len();
                traversal.append_row(source as u32, &mut columns);
                lengths.push((columns.len() - first) as u64);
            }
        }
        Ok((lengths, columns))
    }
}
