//! Maximum-cardinality matching of rows and columns, and what it tells about singular patterns.
//!
//! Hopcroft and Karp, "An n^5/2 algorithm for maximum matchings in bipartite graphs", SIAM J.
//! Comput. 2 (1973): every phase finds the levels of all alternating paths from unmatched rows
//! breadth-first, then augments along disjoint shortest paths depth-first. O(√n · nnz), near linear
//! on matrices from practice because the diagonal and a greedy pass come first. The search is
//! iterative, so long paths cannot overflow the stack.
//!
//! The coarse decomposition is that of Dulmage and Mendelsohn, "Coverings of bipartite graphs",
//! Canad. J. Math. 10 (1958).

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};
use smallvec::{SmallVec, smallvec};

use super::{NONE, STRIDE};

/// A matching of as many rows and columns as the pattern allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardinalityMatching {
    col_of_row: Vec<u32>,
    row_of_col: Vec<u32>,
    num_matched: usize,
}

impl CardinalityMatching {
    /// Number of matched pairs: the structural rank.
    pub fn num_matched(&self) -> usize {
        self.num_matched
    }

    /// The row matched to a column.
    pub fn row_of_col(&self, col: usize) -> Option<u32> {
        Some(self.row_of_col[col]).filter(|&row| row != NONE)
    }

    /// The column matched to a row.
    pub fn col_of_row(&self, row: usize) -> Option<u32> {
        Some(self.col_of_row[row]).filter(|&col| col != NONE)
    }

    /// Rows without a partner, in increasing order.
    pub fn unmatched_rows(&self) -> Vec<u32> {
        unmatched(&self.col_of_row)
    }

    /// Columns without a partner, in increasing order.
    pub fn unmatched_cols(&self) -> Vec<u32> {
        unmatched(&self.row_of_col)
    }

    /// The row of every column, if every row and column has a partner.
    pub fn into_perfect(self) -> Option<Vec<u32>> {
        let perfect = self.num_matched == self.row_of_col.len()
            && self.row_of_col.len() == self.col_of_row.len();
        perfect.then_some(self.row_of_col)
    }
}

fn unmatched(partner: &[u32]) -> Vec<u32> {
    (0..partner.len() as u32)
        .filter(|&i| partner[i as usize] == NONE)
        .collect()
}

/// Maximum-cardinality matching of the rows and columns of a CSR pattern of any shape. Diagonal
/// entries are preferred: a pattern with full diagonal is matched on its diagonal.
///
/// # Errors
///
/// [`Cancelled`] when the flag is raised.
pub fn maximum_cardinality(
    a: &CompressedPattern,
    cancel: &CancelFlag,
) -> Result<CardinalityMatching, Cancelled> {
    maximum_cardinality_where(a, |_| true, cancel)
}

/// As [`maximum_cardinality`], using only the entries at positions for which `present` holds.
pub(crate) fn maximum_cardinality_where(
    a: &CompressedPattern,
    present: impl Fn(usize) -> bool,
    cancel: &CancelFlag,
) -> Result<CardinalityMatching, Cancelled> {
    let (nrows, ncols) = (a.major_dim(), a.minor_dim());
    let mut col_of_row = vec![NONE; nrows];
    let mut row_of_col = vec![NONE; ncols];

    for i in 0..nrows.min(ncols) {
        if let Ok(k) = a.line(i).binary_search(&(i as u32))
            && present(a.range(i).start + k)
        {
            col_of_row[i] = i as u32;
            row_of_col[i] = i as u32;
        }
    }
    completed(a, col_of_row, row_of_col, present, cancel)
}

/// As [`maximum_cardinality`] of a square pattern whose diagonal is known to be full but for `holes`.
pub(crate) fn fill_holes(
    a: &CompressedPattern,
    holes: &[u32],
    cancel: &CancelFlag,
) -> Result<CardinalityMatching, Cancelled> {
    let mut col_of_row: Vec<u32> = (0..a.major_dim() as u32).collect();
    for &hole in holes {
        col_of_row[hole as usize] = NONE;
    }
    let row_of_col = col_of_row.clone();
    completed(a, col_of_row, row_of_col, |_| true, cancel)
}

/// The matching of the diagonal made one of maximum cardinality.
fn completed(
    a: &CompressedPattern,
    mut col_of_row: Vec<u32>,
    mut row_of_col: Vec<u32>,
    present: impl Fn(usize) -> bool,
    cancel: &CancelFlag,
) -> Result<CardinalityMatching, Cancelled> {
    let (nrows, ncols) = (a.major_dim(), a.minor_dim());
    for (i, partner) in col_of_row.iter_mut().enumerate() {
        if *partner == NONE
            && let Some(p) = a
                .range(i)
                .find(|&p| row_of_col[a.idx()[p] as usize] == NONE && present(p))
        {
            *partner = a.idx()[p];
            row_of_col[a.idx()[p] as usize] = i as u32;
        }
    }

    // A hole in the diagonal of a symmetric pattern: rows i and j exchange their columns.
    for i in 0..nrows.min(ncols) {
        if col_of_row[i] != NONE || row_of_col[i] != NONE {
            continue;
        }
        let exchanged = a.range(i).find_map(|p| {
            let j = a.idx()[p];
            let row = Some(row_of_col[j as usize]).filter(|&row| row != NONE && present(p))?;
            let back = a.line(row as usize).binary_search(&(i as u32)).ok()?;
            present(a.range(row as usize).start + back).then_some((row, j))
        });
        if let Some((row, j)) = exchanged {
            (col_of_row[i], col_of_row[row as usize]) = (j, i as u32);
            (row_of_col[j as usize], row_of_col[i]) = (i as u32, row);
        }
    }
    let num_matched = |row_of_col: &[u32]| row_of_col.iter().filter(|&&row| row != NONE).count();
    if num_matched(&row_of_col) == nrows.min(ncols) {
        return Ok(CardinalityMatching {
            num_matched: nrows.min(ncols),
            col_of_row,
            row_of_col,
        });
    }

    let mut level: SmallVec<[u32; 32]> = smallvec![NONE; nrows];
    let mut next_entry: SmallVec<[u64; 32]> = smallvec![0; nrows];
    let (level, next_entry) = (&mut level[..], &mut next_entry[..]);
    let mut queue: SmallVec<[u32; 32]> = SmallVec::new();
    let mut path: SmallVec<[u32; 32]> = SmallVec::new();
    loop {
        cancel.check()?;
        // Breadth-first: level of a row = number of matched edges on a shortest alternating path
        // from an unmatched row. Rows beyond the level of the first unmatched column are left out.
        level.fill(NONE);
        queue.clear();
        queue.extend((0..nrows as u32).filter(|&i| col_of_row[i as usize] == NONE));
        for &i in &queue {
            level[i as usize] = 0;
        }
        let mut last_level = NONE;
        let mut head = 0;
        while head < queue.len() {
            if head.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let i = queue[head] as usize;
            head += 1;
            if level[i] >= last_level {
                break;
            }
            for p in a.range(i) {
                let row = row_of_col[a.idx()[p] as usize];
                if row == NONE {
                    if present(p) {
                        last_level = level[i] + 1;
                    }
                } else if level[row as usize] == NONE && present(p) {
                    level[row as usize] = level[i] + 1;
                    queue.push(row);
                }
            }
        }
        if last_level == NONE {
            break;
        }
        // Depth-first along the levels; `next_entry` makes every entry be looked at once a phase.
        next_entry.copy_from_slice(&a.ptr()[..nrows]);
        let mut looks = 0usize;
        for start in 0..nrows {
            if col_of_row[start] != NONE || level[start] != 0 {
                continue;
            }
            path.clear();
            path.push(start as u32);
            while let Some(&i) = path.last() {
                if looks.is_multiple_of(STRIDE) {
                    cancel.check()?;
                }
                looks += 1;
                let i = i as usize;
                let p = next_entry[i] as usize;
                if p as u64 == a.ptr()[i + 1] {
                    level[i] = NONE;
                    path.pop();
                    continue;
                }
                next_entry[i] += 1;
                let col = a.idx()[p];
                let row = row_of_col[col as usize];
                if row == NONE {
                    if level[i] + 1 == last_level && present(p) {
                        // Shift the matching along the path, from its end to its start.
                        let mut col = col;
                        while let Some(row) = path.pop() {
                            row_of_col[col as usize] = row;
                            col = std::mem::replace(&mut col_of_row[row as usize], col);
                            level[row as usize] = NONE;
                        }
                    }
                } else if level[row as usize] == level[i] + 1 && present(p) {
                    path.push(row);
                }
            }
        }
    }
    Ok(CardinalityMatching {
        num_matched: num_matched(&row_of_col),
        col_of_row,
        row_of_col,
    })
}

/// Part of the coarse Dulmage–Mendelsohn decomposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// More columns than rows: reached by alternating paths from an unmatched column.
    Underdetermined,
    /// As many rows as columns, perfectly matched.
    Square,
    /// More rows than columns: reached by alternating paths from an unmatched row. These rows
    /// together have entries in too few columns, which is why the matrix is singular.
    Overdetermined,
}

/// The part of every row and column; it does not depend on which maximum matching found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoarseDecomposition {
    /// Part of each row.
    pub rows: Vec<Part>,
    /// Part of each column.
    pub cols: Vec<Part>,
}

/// The coarse Dulmage–Mendelsohn decomposition of a CSR pattern by a maximum matching of it.
///
/// # Panics
///
/// If the matching is of a matrix of another shape.
#[track_caller]
pub fn dulmage_mendelsohn(
    a: &CompressedPattern,
    matching: &CardinalityMatching,
) -> CoarseDecomposition {
    assert_eq!(
        (a.major_dim(), a.minor_dim()),
        (matching.col_of_row.len(), matching.row_of_col.len()),
        "matching and matrix differ in shape"
    );
    let mut rows = vec![Part::Square; a.major_dim()];
    let mut cols = vec![Part::Square; a.minor_dim()];
    reach(
        a,
        &matching.col_of_row,
        &matching.row_of_col,
        Part::Overdetermined,
        &mut rows,
        &mut cols,
    );
    reach(
        &a.transpose(),
        &matching.row_of_col,
        &matching.col_of_row,
        Part::Underdetermined,
        &mut cols,
        &mut rows,
    );
    CoarseDecomposition { rows, cols }
}

/// Marks what alternating paths from unmatched lines reach.
fn reach(
    a: &CompressedPattern,
    minor_of_line: &[u32],
    line_of_minor: &[u32],
    part: Part,
    lines: &mut [Part],
    minors: &mut [Part],
) {
    let mut stack = unmatched(minor_of_line);
    for &line in &stack {
        lines[line as usize] = part;
    }
    while let Some(line) = stack.pop() {
        for &minor in a.line(line as usize) {
            minors[minor as usize] = part;
            let next = line_of_minor[minor as usize];
            // The matching is maximum, so the path cannot end at an unmatched column.
            if lines[next as usize] != part {
                lines[next as usize] = part;
                stack.push(next);
            }
        }
    }
}
