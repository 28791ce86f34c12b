//! Column approximate minimum degree ordering.
//!
//! T. A. Davis, J. R. Gilbert, S. I. Larimore and E. G. Ng, "A column approximate minimum degree
//! ordering algorithm", ACM TOMS 30 (2004): orders the columns of B so that the Cholesky factor of
//! BᵀB stays sparse, which bounds L and U of P·B·Q for every choice of rows by partial pivoting.
//! BᵀB is never formed: the rows of B are its cliques. Eliminating a column merges all rows it is
//! in into one, the pivot row; the degree of a column is bounded by the size of the pivot row plus,
//! for each other row it is in, what that row has beyond the pivot row.
//!
//! Columns that only the pivot row still holds are eliminated with it (mass elimination), columns
//! in exactly the same rows are treated as one (supercolumns), rows contained in the pivot row are
//! dropped (aggressive absorption). Rows with more than 10·√n entries are ignored. Columns with
//! more than that, or in no row that counts, come last; so do the columns whose row is ignored,
//! because a dense row fills everything below it where rows keep their columns.
//!
//! Invariants: a row's list and size count principal live columns only after the lists were
//! cleaned; every column of a pivot row loses at least one row and gains one, so the column lists
//! never outgrow their place; a live column always is in a row that is not gone.

use std::collections::HashMap;

use luge_sparse::{CancelFlag, Cancelled};

/// No column, no row.
const NONE: u32 = u32::MAX;

/// Columns between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

/// State of one column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    /// Not ordered; stands for itself and the columns merged into it.
    Live,
    /// Ordered.
    Ordered,
    /// Part of another column, ordered with it.
    Merged,
}

/// Buckets of columns by score, as doubly linked lists.
struct Buckets {
    head: Vec<u32>,
    next: Vec<u32>,
    prev: Vec<u32>,
    lowest: usize,
}

impl Buckets {
    fn new(n: usize) -> Self {
        Self {
            head: vec![NONE; n + 1],
            next: vec![NONE; n],
            prev: vec![NONE; n],
            lowest: n,
        }
    }

    fn insert(&mut self, col: u32, score: usize) {
        let head = std::mem::replace(&mut self.head[score], col);
        self.next[col as usize] = head;
        self.prev[col as usize] = NONE;
        if head != NONE {
            self.prev[head as usize] = col;
        }
        self.lowest = self.lowest.min(score);
    }

    fn remove(&mut self, col: u32, score: usize) {
        let (next, prev) = (self.next[col as usize], self.prev[col as usize]);
        match prev {
            NONE => self.head[score] = next,
            prev => self.next[prev as usize] = next,
        }
        if next != NONE {
            self.prev[next as usize] = prev;
        }
    }

    /// Takes out a column of lowest score.
    fn pop(&mut self) -> Option<u32> {
        while self.lowest < self.head.len() {
            let col = self.head[self.lowest];
            if col != NONE {
                self.remove(col, self.lowest);
                return Some(col);
            }
            self.lowest += 1;
        }
        None
    }
}

/// Order (new to old) of the columns of a square matrix, given as the rows of each column, which
/// are counted from `first_row`. Near linear in the entries of the matrix on matrices from
/// practice.
///
/// # Errors
///
/// [`Cancelled`].
pub(crate) fn column_minimum_degree<'a>(
    first_row: u32,
    columns: impl Iterator<Item = &'a [u32]> + Clone,
    cancel: &CancelFlag,
) -> Result<Vec<u32>, Cancelled> {
    let n = columns.clone().count();
    let dense = f64::max(16.0, 10.0 * (n as f64).sqrt()) as usize;

    // Rows of every column and columns of every row, without the dense ones.
    let mut row_len = vec![0usize; n];
    for &row in columns.clone().flatten() {
        row_len[(row - first_row) as usize] += 1;
    }
    let row_counts: Vec<bool> = row_len.iter().map(|&len| len <= dense).collect();
    let mut last: Vec<(usize, u32)> = Vec::new();
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); n];
    let mut col_ptr = Vec::with_capacity(n + 1);
    let mut col_rows: Vec<u32> = Vec::new();
    col_ptr.push(0);
    for (col, all_rows) in columns.enumerate() {
        if col.is_multiple_of(STRIDE) {
            cancel.check()?;
        }
        if row_counts[col] && all_rows.len() <= dense {
            col_rows.extend(
                all_rows
                    .iter()
                    .map(|&row| row - first_row)
                    .filter(|&row| row_counts[row as usize]),
            );
        }
        let start = *col_ptr.last().expect("the list starts with zero");
        if col_rows.len() == start {
            last.push((all_rows.len(), col as u32));
        }
        for &row in &col_rows[start..] {
            rows[row as usize].push(col as u32);
        }
        col_ptr.push(col_rows.len());
    }
    last.sort_unstable();
    let num_live = n - last.len();
    cancel.check()?;

    let mut state = vec![Column::Live; n];
    for &(_, col) in &last {
        state[col as usize] = Column::Ordered;
    }
    let mut col_len: Vec<usize> = col_ptr.windows(2).map(|w| w[1] - w[0]).collect();
    // Columns a principal column stands for, itself first.
    let mut members: Vec<Vec<u32>> = (0..n as u32).map(|col| vec![col]).collect();
    // Number of columns of each row, merged ones counted; zero once the row is gone.
    let mut row_size: Vec<usize> = rows.iter().map(Vec::len).collect();
    let mut score = vec![0usize; n];
    let mut buckets = Buckets::new(n);
    // In reverse, so that of equal scores the first column is on top.
    for col in (0..n).rev() {
        if col.is_multiple_of(STRIDE) {
            cancel.check()?;
        }
        if state[col] == Column::Live {
            let sum: usize = col_rows[col_ptr[col]..col_ptr[col + 1]]
                .iter()
                .map(|&row| row_size[row as usize] - 1)
                .sum();
            score[col] = sum.min(n);
            buckets.insert(col as u32, score[col]);
        }
    }

    let mut order: Vec<u32> = Vec::with_capacity(n);
    let mut in_pivot = vec![false; n];
    // What a row has beyond the pivot row, valid if its stamp is the pivot's.
    let mut beyond = vec![0usize; n];
    let mut stamp = vec![NONE; n];
    let mut pivots = 0u32;
    let mut same_hash: HashMap<u64, Vec<u32>> = HashMap::new();
    while let Some(pivot) = buckets.pop() {
        cancel.check()?;
        let pivot = pivot as usize;
        state[pivot] = Column::Ordered;
        order.append(&mut members[pivot]);

        // The pivot row is the union of the rows of the pivot column, which it replaces.
        let mut pivot_row: Vec<u32> = Vec::new();
        let mut pivot_id = usize::MAX;
        for &row in &col_rows[col_ptr[pivot]..col_ptr[pivot] + col_len[pivot]] {
            let row = row as usize;
            if row_size[row] == 0 {
                continue;
            }
            for col in std::mem::take(&mut rows[row]) {
                if state[col as usize] == Column::Live && !in_pivot[col as usize] {
                    in_pivot[col as usize] = true;
                    pivot_row.push(col);
                }
            }
            row_size[row] = 0;
            pivot_id = row;
        }

        // Sizes of the other rows beyond the pivot row.
        for &col in &pivot_row {
            let col = col as usize;
            buckets.remove(col as u32, score[col]);
            let start = col_ptr[col];
            let mut kept = start;
            for q in start..start + col_len[col] {
                let row = col_rows[q] as usize;
                if row_size[row] == 0 {
                    continue;
                }
                col_rows[kept] = row as u32;
                kept += 1;
                if stamp[row] != pivots {
                    stamp[row] = pivots;
                    beyond[row] = row_size[row];
                }
                beyond[row] -= members[col].len();
            }
            col_len[col] = kept - start;
        }

        // Drop the rows inside the pivot row; collect columns with equal lists.
        same_hash.clear();
        let mut kept_cols = 0;
        for k in 0..pivot_row.len() {
            let col = pivot_row[k] as usize;
            in_pivot[col] = false;
            let start = col_ptr[col];
            let mut kept = start;
            let mut hash = 0u64;
            let mut sum = 0usize;
            for q in start..start + col_len[col] {
                let row = col_rows[q] as usize;
                if beyond[row] == 0 {
                    // Every column of this row is in the pivot row and comes by here.
                    row_size[row] = 0;
                    rows[row] = Vec::new();
                    continue;
                }
                col_rows[kept] = row as u32;
                kept += 1;
                hash = hash.wrapping_add((row as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
                sum += beyond[row];
            }
            col_len[col] = kept - start;
            if kept == start {
                state[col] = Column::Ordered;
                order.append(&mut members[col]);
                continue;
            }
            col_rows[start..kept].sort_unstable();
            let candidates = same_hash.entry(hash).or_default();
            let twin = candidates.iter().copied().find(|&other| {
                let other = other as usize;
                let other_rows = col_ptr[other]..col_ptr[other] + col_len[other];
                col_rows[other_rows] == col_rows[start..kept]
            });
            if let Some(twin) = twin {
                state[col] = Column::Merged;
                let mut merged = std::mem::take(&mut members[col]);
                members[twin as usize].append(&mut merged);
                continue;
            }
            candidates.push(col as u32);
            score[col] = sum;
            pivot_row[kept_cols] = col as u32;
            kept_cols += 1;
        }
        pivot_row.truncate(kept_cols);

        // The pivot row takes the name of one of the rows it replaced.
        let size: usize = pivot_row
            .iter()
            .map(|&col| members[col as usize].len())
            .sum();
        for &col in pivot_row.iter().rev() {
            let col = col as usize;
            col_rows[col_ptr[col] + col_len[col]] = pivot_id as u32;
            col_len[col] += 1;
            let remaining = num_live - order.len();
            score[col] = (score[col] + size).min(remaining) - members[col].len();
            buckets.insert(col as u32, score[col]);
        }
        row_size[pivot_id] = size;
        rows[pivot_id] = pivot_row;
        pivots += 1;
    }
    order.extend(last.iter().map(|&(_, col)| col));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    fn order(cols: &[Vec<u32>], first_row: u32) -> Vec<u32> {
        let columns = cols.iter().map(Vec::as_slice);
        column_minimum_degree(first_row, columns, &CancelFlag::new()).unwrap()
    }

    /// Entries of the Cholesky factor of BᵀB with the columns in this order.
    fn factor_entries(cols: &[Vec<u32>], order: &[u32]) -> usize {
        let n = cols.len();
        let mut a: Vec<Vec<bool>> = (0..n)
            .map(|i| {
                let rows = &cols[order[i] as usize];
                (0..n)
                    .map(|j| cols[order[j] as usize].iter().any(|row| rows.contains(row)))
                    .collect()
            })
            .collect();
        let mut entries = 0;
        for k in 0..n {
            for i in k + 1..n {
                entries += usize::from(a[i][k]);
                for j in k + 1..n {
                    a[i][j] |= a[i][k] && a[k][j];
                }
            }
        }
        entries
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn orders_are_permutations(a in patterns(40)) {
            let cols: Vec<Vec<u32>> = a.transpose().lines().map(<[u32]>::to_vec).collect();
            let ordered = order(&cols, 0);
            let mut sorted = ordered.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..cols.len() as u32).collect::<Vec<_>>());
            let moved: Vec<Vec<u32>> =
                cols.iter().map(|col| col.iter().map(|row| row + 1000).collect()).collect();
            prop_assert_eq!(order(&moved, 1000), ordered);
        }
    }

    #[test]
    fn fill_of_the_normal_equations_stays_low() {
        // The normal equations of a 24 by 24 grid.
        let n = 24u32;
        let cols: Vec<Vec<u32>> = (0..n * n)
            .map(|v| {
                let (x, y) = (v % n, v / n);
                let mut col = vec![v];
                col.extend((x > 0).then(|| v - 1));
                col.extend((x + 1 < n).then(|| v + 1));
                col.extend((y > 0).then(|| v - n));
                col.extend((y + 1 < n).then(|| v + n));
                col.sort_unstable();
                col
            })
            .collect();
        let natural: Vec<u32> = (0..n * n).collect();
        let ordered = factor_entries(&cols, &order(&cols, 0));
        assert!(
            3 * ordered < 2 * factor_entries(&cols, &natural),
            "{ordered}"
        );
    }

    #[test]
    fn a_tree_of_overlaps_is_ordered_without_fill() {
        // Column j shares one row with column j / 2 only: leaves must go first.
        let n = 200u32;
        let mut cols: Vec<Vec<u32>> = (0..n).map(|j| vec![j]).collect();
        for j in 1..n {
            cols[j as usize / 2].push(j);
        }
        let edges = n as usize - 1;
        // Children of one column share nothing with each other.
        assert_eq!(factor_entries(&cols, &order(&cols, 0)), edges);
    }

    #[test]
    fn dense_rows_and_columns_come_last() {
        let n = 400u32;
        let mut cols: Vec<Vec<u32>> = (0..n)
            .map(|j| if j < 7 { vec![j] } else { vec![7, j] })
            .collect();
        cols[3] = (0..n).collect();
        cols[9] = Vec::new();
        cols[7] = vec![7];
        let ordered = order(&cols, 0);
        let last: Vec<u32> = ordered[n as usize - 3..].to_vec();
        // Empty, then the column of the dense row, then the dense column.
        assert_eq!(last, [9, 7, 3]);
    }
}
