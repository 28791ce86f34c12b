//! Filled pattern on the CPU: row-wise reach with symmetric pruning.
//!
//! Row i of L+U is the set of columns reached from the entries of row i of B, walking from a column
//! k < i to the entries of the finished row U(k, ·) (Gilbert and Peierls 1988, by rows). Walks are
//! shortened by the symmetric pruning of Eisenstat and Liu (1992): once U(k, m) and L(m, k) are both
//! present, every entry of U(k, ·) beyond m is in row m too, so later walks leave k only through
//! entries up to m.
//!
//! Reports progress by events with target `luge::progress` and the fields `done` and `total`.
//!
//! Cost: O(lnz + unz) memory; time proportional to the edges of the pruned graph that are walked,
//! plus sorting each row.

use luge_sparse::{CancelFlag, CompressedPattern, FilledPattern};

use crate::error::SymbolicError;

/// What a caller may set for [`filled_pattern_with`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Stops the phase at the next row when raised.
    pub cancel: CancelFlag,
    /// Largest size of the resulting pattern in bytes (4 per entry, 16 per row); `None`: no limit.
    pub max_bytes: Option<u64>,
}

/// The filled pattern of L+U for the square CSR `pattern`; the diagonal need not be stored in it.
///
/// # Errors
///
/// None of the default [`Options`] can fail; see [`filled_pattern_with`].
///
/// # Panics
///
/// If `pattern` is not square.
#[track_caller]
pub fn filled_pattern(pattern: &CompressedPattern) -> Result<FilledPattern, SymbolicError> {
    filled_pattern_with(pattern, &Options::default())
}

/// As [`filled_pattern`], with a cancel flag and a memory limit.
///
/// # Errors
///
/// [`SymbolicError::OutOfMemory`] with the row at which the result outgrew `max_bytes`;
/// [`SymbolicError::Cancelled`].
///
/// # Panics
///
/// If `pattern` is not square.
#[track_caller]
pub fn filled_pattern_with(
    pattern: &CompressedPattern,
    options: &Options,
) -> Result<FilledPattern, SymbolicError> {
    let n = pattern.major_dim();
    assert_eq!(
        n,
        pattern.minor_dim(),
        "the symbolic phase needs a square pattern"
    );
    let span = tracing::debug_span!("filled_pattern", n, nnz = pattern.nnz());
    let _entered = span.enter();

    let mut ptr = Vec::with_capacity(n + 1);
    ptr.push(0u64);
    let mut idx: Vec<u32> = Vec::with_capacity(2 * pattern.nnz() + n);
    // Of each finished row: where U(k, ·) begins, right of the diagonal, and where walks stop.
    let mut upper_start = vec![0usize; n];
    let mut walk_end = vec![0usize; n];
    let mut pruned = vec![false; n];
    // seen[j] == i + 1: column j is already in row i.
    let mut seen = vec![0u32; n];
    let mut stack: Vec<u32> = Vec::new();

    for i in 0..n {
        options.cancel.check()?;
        if i % 64 == 0 {
            tracing::debug!(target: "luge::progress", done = i as u64, total = n as u64);
        }
        let start = idx.len();
        let mark = i as u32 + 1;
        seen[i] = mark;
        idx.push(i as u32);
        for &j in pattern.lane(i) {
            if seen[j as usize] != mark {
                seen[j as usize] = mark;
                idx.push(j);
                if (j as usize) < i {
                    stack.push(j);
                }
            }
        }
        while let Some(k) = stack.pop() {
            for p in upper_start[k as usize]..walk_end[k as usize] {
                let j = idx[p];
                if seen[j as usize] != mark {
                    seen[j as usize] = mark;
                    idx.push(j);
                    if (j as usize) < i {
                        stack.push(j);
                    }
                }
            }
        }
        let asked = 4 * idx.len() as u64 + 16 * n as u64;
        if let Some(available) = options.max_bytes.filter(|&available| asked > available) {
            return Err(SymbolicError::OutOfMemory {
                row: i,
                asked,
                available,
            });
        }
        sort_row(&mut idx[start..], &seen, mark);

        let below = idx[start..].partition_point(|&j| (j as usize) < i);
        upper_start[i] = start + below + 1;
        walk_end[i] = idx.len();
        for p in start..start + below {
            let k = idx[p] as usize;
            if !pruned[k] {
                let upper = &idx[upper_start[k]..walk_end[k]];
                if let Ok(at) = upper.binary_search(&(i as u32)) {
                    walk_end[k] = upper_start[k] + at + 1;
                    pruned[k] = true;
                }
            }
        }
        ptr.push(idx.len() as u64);
    }

    tracing::debug!(entries = idx.len(), "filled pattern found");
    idx.shrink_to_fit();
    let rows = CompressedPattern::new(n, ptr, idx)
        .unwrap_or_else(|e| unreachable!("rows are sorted and in range: {e}"));
    Ok(FilledPattern::new(rows)
        .unwrap_or_else(|row| unreachable!("row {row} got its diagonal first")))
}

/// Sorts the columns of one row, all of which carry `mark` in `seen`: by comparison if they are few
/// between their smallest and largest, else by reading them off `seen`.
fn sort_row(row: &mut [u32], seen: &[u32], mark: u32) {
    let (Some(&low), Some(&high)) = (row.iter().min(), row.iter().max()) else {
        return;
    };
    let span = (high - low) as usize + 1;
    if span / 8 > row.len() {
        row.sort_unstable();
        return;
    }
    let mut columns = (low..=high).filter(|&j| seen[j as usize] == mark);
    for slot in row {
        *slot = columns.next().expect("every column of the row is marked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(n: usize, rows: &[&[u32]]) -> CompressedPattern {
        let mut ptr = vec![0];
        let mut idx = Vec::new();
        for row in rows {
            idx.extend_from_slice(row);
            ptr.push(idx.len() as u64);
        }
        CompressedPattern::new(n, ptr, idx).unwrap()
    }

    #[test]
    fn an_arrow_fills_completely() {
        for n in [2usize, 31, 32, 33] {
            let all: Vec<u32> = (0..n as u32).collect();
            let arms: Vec<[u32; 2]> = (1..n as u32).map(|i| [0, i]).collect();
            let mut rows: Vec<&[u32]> = vec![&all];
            rows.extend(arms.iter().map(|arm| arm.as_slice()));
            let filled = filled_pattern(&pattern(n, &rows)).unwrap();
            assert_eq!(filled.nnz(), n * n);
        }
    }

    #[test]
    fn empty_rows_get_their_diagonal() {
        assert_eq!(filled_pattern(&pattern(0, &[])).unwrap().n(), 0);
        let filled = filled_pattern(&pattern(3, &[&[], &[0], &[]])).unwrap();
        assert_eq!(filled.rows().ptr(), [0, 1, 3, 4]);
        assert_eq!(filled.rows().idx(), [0, 0, 1, 2]);
    }

    #[test]
    fn the_limit_and_the_flag_stop_the_phase() {
        let p = pattern(2, &[&[0, 1], &[0, 1]]);
        let limited = Options {
            max_bytes: Some(44),
            ..Options::default()
        };
        match filled_pattern_with(&p, &limited) {
            Err(SymbolicError::OutOfMemory {
                row: 1,
                asked: 48,
                available: 44,
            }) => {}
            other => panic!("{other:?}"),
        }
        let cancelled = Options::default();
        cancelled.cancel.cancel();
        assert!(matches!(
            filled_pattern_with(&p, &cancelled),
            Err(SymbolicError::Cancelled(_))
        ));
    }

    #[test]
    #[should_panic(expected = "square pattern")]
    fn a_rectangle_is_a_broken_call() {
        let _ = filled_pattern(&pattern(3, &[&[0], &[1]]));
    }
}
