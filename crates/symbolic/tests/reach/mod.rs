//! The filled pattern by rows: row i is what its entries reach through the finished rows of U (Gilbert
//! and Peierls 1988), walks leaving a pruned row only up to its first symmetric entry (Eisenstat and
//! Liu 1992). Another algorithm than the library's, and fast enough for the corpus, which the reference
//! is not.

use luge_sparse::{CompressedPattern, FilledPattern};

pub fn filled_pattern(pattern: &CompressedPattern) -> FilledPattern {
    let n = pattern.major_dim();
    let mut rows: Vec<Vec<u32>> = Vec::with_capacity(n);
    // Where U(k, ·) begins in row k, and where walks stop.
    let mut walk: Vec<(usize, usize)> = Vec::with_capacity(n);
    let mut seen = vec![usize::MAX; n];
    for i in 0..n {
        seen[i] = i;
        let mut row = vec![i as u32];
        let mut stack = Vec::new();
        let mut visit = |j: u32, row: &mut Vec<u32>, stack: &mut Vec<u32>| {
            if seen[j as usize] != i {
                seen[j as usize] = i;
                row.push(j);
                if (j as usize) < i {
                    stack.push(j);
                }
            }
        };
        for &j in pattern.line(i) {
            visit(j, &mut row, &mut stack);
        }
        while let Some(k) = stack.pop() {
            let (start, end) = walk[k as usize];
            for &j in &rows[k as usize][start..end] {
                visit(j, &mut row, &mut stack);
            }
        }
        row.sort_unstable();
        let below = row.partition_point(|&j| (j as usize) < i);
        for &k in &row[..below] {
            let (start, end) = walk[k as usize];
            if let Ok(at) = rows[k as usize][start..end].binary_search(&(i as u32)) {
                walk[k as usize].1 = start + at + 1;
            }
        }
        walk.push((below + 1, row.len()));
        rows.push(row);
    }
    let mut ptr = vec![0u64];
    for row in &rows {
        ptr.push(ptr[ptr.len() - 1] + row.len() as u64);
    }
    let rows = CompressedPattern::new(n, ptr, rows.concat()).expect("sorted rows");
    FilledPattern::new(rows).expect("diagonals are there")
}
