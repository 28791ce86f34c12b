//! What several test files need.
#![allow(dead_code)] // each test file uses its part

use luge_sparse::CompressedPattern;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A CSR pattern from row lists.
pub fn pattern(ncols: usize, rows: &[Vec<u32>]) -> CompressedPattern {
    let mut ptr = vec![0u64];
    let mut idx = Vec::new();
    for row in rows {
        let mut row = row.clone();
        row.sort_unstable();
        row.dedup();
        idx.extend(row);
        ptr.push(idx.len() as u64);
    }
    CompressedPattern::new(ncols, ptr, idx).unwrap()
}

/// A random square pattern with about `per_row` entries a row besides an optional diagonal.
pub fn random_pattern(n: usize, per_row: usize, diagonal: bool, seed: u64) -> CompressedPattern {
    let mut rng = StdRng::seed_from_u64(seed);
    let rows: Vec<Vec<u32>> = (0..n)
        .map(|i| {
            let mut row: Vec<u32> = (0..per_row)
                .map(|_| rng.random_range(0..n as u32))
                .collect();
            if diagonal {
                row.push(i as u32);
            }
            row
        })
        .collect();
    pattern(n, &rows)
}

/// The five-point grid, diagonal included.
pub fn grid(nx: usize, ny: usize) -> CompressedPattern {
    let rows: Vec<Vec<u32>> = (0..nx * ny)
        .map(|v| {
            let (x, y) = (v % nx, v / nx);
            let mut row = vec![v];
            row.extend((x > 0).then(|| v - 1));
            row.extend((x + 1 < nx).then(|| v + 1));
            row.extend((y > 0).then(|| v - nx));
            row.extend((y + 1 < ny).then(|| v + nx));
            row.into_iter().map(|w| w as u32).collect()
        })
        .collect();
    pattern(nx * ny, &rows)
}

/// Values that differ by many orders of magnitude, never zero.
pub fn random_values(a: &CompressedPattern, decades: f64, seed: u64) -> Vec<f64> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..a.nnz())
        .map(|_| {
            let size = 10f64.powf(rng.random_range(-decades..=decades));
            if rng.random() { size } else { -size }
        })
        .collect()
}

/// Entries of L + U of `A[rows[i]][cols[j]]`, pivots on the diagonal: row i is A's row merged with
/// the U rows of all its columns before i, themselves included.
pub fn fill_entries(a: &CompressedPattern, rows: &[u32], cols: &[u32]) -> u64 {
    let n = a.major_dim();
    let mut new_col = vec![0; n];
    for (new, &old) in cols.iter().enumerate() {
        new_col[old as usize] = new;
    }
    let mut upper: Vec<Vec<usize>> = Vec::with_capacity(n);
    let mut seen = vec![usize::MAX; n];
    let mut entries = 0;
    for (i, &row) in rows.iter().enumerate() {
        let mut todo: Vec<usize> = a
            .line(row as usize)
            .iter()
            .map(|&col| new_col[col as usize])
            .chain([i])
            .collect();
        let mut right = Vec::new();
        while let Some(k) = todo.pop() {
            if std::mem::replace(&mut seen[k], i) == i {
                continue;
            }
            entries += 1;
            if k < i {
                todo.extend(&upper[k]);
            } else {
                right.push(k);
            }
        }
        upper.push(right);
    }
    entries
}

/// Whether `perm` holds every number below its length once.
pub fn is_permutation(perm: &[u32]) -> bool {
    let mut seen = vec![false; perm.len()];
    perm.iter()
        .all(|&v| (v as usize) < seen.len() && !std::mem::replace(&mut seen[v as usize], true))
}
