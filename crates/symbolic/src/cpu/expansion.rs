//! From structures of pivots to rows of L+U.
//!
//! Consecutive columns of L that share a structure form a run. The structures of the runs are
//! transposed by counting, a run a unit: row i then lists, in increasing order, the runs that reach
//! it, and its part of L is these runs written out one behind the other. Its part of U is a copy of a
//! structure. Nothing is sorted, every entry is written once, rows are independent.

use std::ops::Range;

use luge_sparse::{CancelFlag, Cancelled, FilledPattern};
use rayon::prelude::*;

use super::elimination::Structures;

/// Rows between two looks at the cancel flag.
const ROWS_PER_CHECK: usize = 1024;

/// The runs of columns of L that share a structure, by their first column; empty ones left out.
fn runs(structures: &Structures) -> impl Iterator<Item = Range<usize>> {
    let n = structures.len();
    let mut k = 0;
    std::iter::from_fn(move || {
        while k < n && structures.lower_span(k).len() == 0 {
            k += 1;
        }
        if k == n {
            return None;
        }
        let start = k;
        let span = structures.lower_span(k);
        while k < n && structures.lower_span(k).shares(span) {
            k += 1;
        }
        Some(start..k)
    })
}

/// Sizes of the rows of L+U.
pub(super) struct RowSizes {
    /// Entries of L(i, ·) left of the diagonal.
    pub(super) left: Vec<u32>,
    /// Runs that reach row i.
    num_runs: Vec<u32>,
}

impl RowSizes {
    /// Of all rows; time proportional to the structures, not to the entries of L.
    pub(super) fn new(structures: &Structures) -> Self {
        let n = structures.len();
        let mut sizes = Self {
            left: vec![0; n],
            num_runs: vec![0; n],
        };
        for run in runs(structures) {
            for &i in structures.lower(run.start) {
                let i = i as usize;
                sizes.left[i] += (run.end.min(i) - run.start) as u32;
                sizes.num_runs[i] += 1;
            }
        }
        sizes
    }
}

/// Writes the rows of L+U, on rayon's current pool if `threads` > 1.
pub(super) fn expand(
    structures: &Structures,
    sizes: &RowSizes,
    threads: usize,
    cancel: &CancelFlag,
) -> Result<FilledPattern, Cancelled> {
    let n = structures.len();
    let mut ptr = Vec::with_capacity(n + 1);
    let mut diag_pos = Vec::with_capacity(n);
    let mut entries = 0u64;
    ptr.push(0);
    for i in 0..n {
        let diagonal = entries + u64::from(sizes.left[i]);
        diag_pos.push(diagonal);
        entries = diagonal + 1 + structures.upper(i).len() as u64;
        ptr.push(entries);
    }

    let reaching = RunsByRow::new(structures, &sizes.num_runs);
    cancel.check()?;

    // Pages are mapped when they are first written, by the thread that writes them.
    let mut idx = vec![0u32; entries as usize];
    let write = |rows: Range<usize>, out: &mut [u32]| {
        let offset = ptr[rows.start];
        for i in rows {
            if i % ROWS_PER_CHECK == 0 {
                cancel.check()?;
            }
            let row = &mut out[(ptr[i] - offset) as usize..(ptr[i + 1] - offset) as usize];
            let (left, rest) = row.split_at_mut(sizes.left[i] as usize);
            reaching.write_row(i, left);
            rest[0] = i as u32;
            rest[1..].copy_from_slice(structures.upper(i));
        }
        Ok(())
    };
    if threads > 1 {
        let mut parts = Vec::new();
        let mut rest = &mut idx[..];
        let mut start = 0;
        for part in 1..=8 * threads as u64 {
            let goal = entries * part / (8 * threads as u64);
            let end = ptr.partition_point(|&p| p < goal).min(n).max(start);
            let (out, behind) = rest.split_at_mut((ptr[end] - ptr[start]) as usize);
            parts.push((start..end, out));
            (rest, start) = (behind, end);
        }
        parts.push((start..n, rest));
        parts
            .into_par_iter()
            .try_for_each(|(rows, out)| write(rows, out))?;
    } else {
        write(0..n, &mut idx)?;
    }
    // SAFETY: every row was written whole, sorted and with its diagonal, whose place was noted.
    Ok(unsafe { FilledPattern::new_unchecked(ptr, idx, diag_pos) })
}

/// The runs that reach each row, by their first columns, increasing.
struct RunsByRow {
    ptr: Vec<u64>,
    first_col: Vec<u32>,
    /// Of the first column of each run: one past its last column.
    run_end: Vec<u32>,
}

impl RunsByRow {
    fn new(structures: &Structures, num_runs: &[u32]) -> Self {
        let n = structures.len();
        let mut ptr = Vec::with_capacity(n + 1);
        let mut total = 0u64;
        ptr.push(0);
        for &num in num_runs {
            total += u64::from(num);
            ptr.push(total);
        }
        let mut next = ptr[..n].to_vec();
        let mut first_col = vec![0u32; total as usize];
        let mut run_end = vec![0u32; n];
        for run in runs(structures) {
            run_end[run.start] = run.end as u32;
            for &i in structures.lower(run.start) {
                let slot = &mut next[i as usize];
                first_col[*slot as usize] = run.start as u32;
                *slot += 1;
            }
        }
        Self {
            ptr,
            first_col,
            run_end,
        }
    }

    /// Writes the columns of L(i, ·) to `out`, which has room for just these.
    fn write_row(&self, i: usize, mut out: &mut [u32]) {
        for &start in &self.first_col[self.ptr[i] as usize..self.ptr[i + 1] as usize] {
            let end = self.run_end[start as usize].min(i as u32);
            let (run, rest) = out.split_at_mut((end - start) as usize);
            for (slot, col) in run.iter_mut().zip(start..end) {
                *slot = col;
            }
            out = rest;
        }
    }
}
