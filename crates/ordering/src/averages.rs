//! Factors after which the logarithms of the entries of each row and column are zero on average.
//!
//! A. R. Curtis and J. K. Reid, "On the automatic scaling of matrices for Gaussian elimination", J. Inst. Math.
//! Appl. 10, 1972: the factors for which the sum of the squares of these logarithms is the smallest, found by
//! conjugate gradients that start from ones and are preconditioned by the number of entries of each line. They
//! undo any scaling of rows and columns, where the largest entries alone may say nothing of what was scaled.
//!
//! Everything here is in base-two logarithms. Entries whose logarithm is minus infinity are zeros, which no
//! factor changes, and count for nothing; lines of nothing else keep the factor one. A step takes two passes over
//! the entries. What reaches far along chains of rows takes many steps: after [`MAX_STEPS`] factors are taken as
//! they are, since largest entries decide in the end.

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};

const MAX_STEPS: usize = 100;

/// Averages this near to zero are near enough: factors are rounded to powers of two.
const TOLERANCE: f64 = 1.0 / 64.0;

/// Logarithms of factors of rows and of columns, for entries with the logarithms `logs`.
pub(crate) fn averages(
    a: &CompressedPattern,
    logs: &[f64],
    cancel: &CancelFlag,
) -> Result<[Vec<f64>; 2], Cancelled> {
    let mut row_counts = vec![0.0; a.major_dim()];
    let mut col_counts = vec![0.0; a.minor_dim()];
    let mut row_means = vec![0.0; a.major_dim()];
    for (row, (count, mean)) in row_counts.iter_mut().zip(&mut row_means).enumerate() {
        for (col, log) in entries(a, logs, row) {
            *count += 1.0;
            *mean += log;
            col_counts[col] += 1.0;
        }
        *mean /= f64::max(*count, 1.0);
    }
    // The rows' factors are those that are best for the columns', which leaves a system for these.
    let mut right_hand_side = vec![0.0; a.minor_dim()];
    for (row, mean) in row_means.iter().enumerate() {
        for (col, log) in entries(a, logs, row) {
            right_hand_side[col] += mean - log;
        }
    }
    let mean_of = |cols: &[f64], row: usize| {
        let sum: f64 = entries(a, logs, row).map(|(col, _)| cols[col]).sum();
        sum / f64::max(row_counts[row], 1.0)
    };
    let apply = |cols: &[f64], product: &mut [f64]| {
        product.fill(0.0);
        for row in 0..a.major_dim() {
            let mean = mean_of(cols, row);
            for (col, _) in entries(a, logs, row) {
                product[col] += cols[col] - mean;
            }
        }
    };
    let cols = conjugate_gradients(right_hand_side, &col_counts, apply, cancel)?;
    let rows = row_means.iter().enumerate();
    let rows = rows.map(|(row, mean)| -mean - mean_of(&cols, row));
    Ok([rows.collect(), cols])
}

/// As [`averages`], one factor for row and column of a symmetric matrix.
pub(crate) fn symmetric_averages(
    a: &CompressedPattern,
    logs: &[f64],
    cancel: &CancelFlag,
) -> Result<Vec<f64>, Cancelled> {
    let lines = || (0..a.major_dim()).map(|row| entries(a, logs, row));
    let counts: Vec<f64> = lines().map(|line| line.count() as f64).collect();
    let right_hand_side = lines().map(|line| -line.map(|(_, log)| log).sum::<f64>());
    let right_hand_side = right_hand_side.collect();
    let apply = |scale: &[f64], product: &mut [f64]| {
        for (row, (product, line)) in product.iter_mut().zip(lines()).enumerate() {
            let sum: f64 = line.map(|(col, _)| scale[col]).sum();
            *product = sum + counts[row] * scale[row];
        }
    };
    conjugate_gradients(right_hand_side, &counts, apply, cancel)
}

/// The columns and logarithms of the entries of a row that are not zero.
fn entries<'a>(
    a: &'a CompressedPattern,
    logs: &'a [f64],
    row: usize,
) -> impl Iterator<Item = (usize, f64)> + 'a {
    let range = a.range(row);
    let entries = a.idx()[range.clone()].iter().zip(&logs[range]);
    entries
        .filter(|(_, log)| log.is_finite())
        .map(|(&col, &log)| (col as usize, log))
}

/// Solves a system with the semidefinite matrix that `apply` multiplies with, of which the right-hand side is a
/// combination of columns. `counts`: the preconditioner's diagonal; lines where it is zero are zero.
fn conjugate_gradients(
    right_hand_side: Vec<f64>,
    counts: &[f64],
    mut apply: impl FnMut(&[f64], &mut [f64]),
    cancel: &CancelFlag,
) -> Result<Vec<f64>, Cancelled> {
    let dot = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y).sum() };
    let mut residual = right_hand_side;
    let mut x = vec![0.0; residual.len()];
    let mut average = x.clone();
    let mut direction = x.clone();
    let mut product = x.clone();
    let mut before = f64::INFINITY;
    for _ in 0..MAX_STEPS {
        cancel.check()?;
        for ((average, &residual), &count) in average.iter_mut().zip(&residual).zip(counts) {
            *average = residual / f64::max(count, 1.0);
        }
        if average.iter().all(|average| average.abs() <= TOLERANCE) {
            break;
        }
        let now = dot(&residual, &average);
        for (direction, average) in direction.iter_mut().zip(&average) {
            *direction = average + now / before * *direction;
        }
        before = now;
        apply(&direction, &mut product);
        let curvature = dot(&direction, &product);
        // Rounding alone: in exact numbers the direction would be one along which nothing is left to gain.
        if curvature <= 0.0 {
            break;
        }
        let step = now / curvature;
        for (x, direction) in x.iter_mut().zip(&direction) {
            *x += step * direction;
        }
        for (residual, product) in residual.iter_mut().zip(&product) {
            *residual -= step * product;
        }
    }
    Ok(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries whose logarithm is given, row by row.
    fn matrix(cols: usize, rows: &[&[(u32, f64)]]) -> (CompressedPattern, Vec<f64>) {
        let mut ptr = vec![0];
        let mut idx = Vec::new();
        let mut logs = Vec::new();
        for row in rows {
            idx.extend(row.iter().map(|e| e.0));
            logs.extend(row.iter().map(|e| e.1));
            ptr.push(idx.len() as u64);
        }
        (CompressedPattern::new(cols, ptr, idx).unwrap(), logs)
    }

    #[test]
    fn each_line_is_zero_on_average() {
        let zero = f64::NEG_INFINITY;
        let (a, logs) = matrix(
            4,
            &[
                &[(0, 300.0), (1, 7.0), (2, zero)],
                &[(0, -5.0), (2, 40.0)],
                &[(0, zero)],
                &[(1, 1.0), (2, -900.0)],
                &[],
            ],
        );
        let [rows, cols] = averages(&a, &logs, &CancelFlag::new()).unwrap();
        let mut by_column = [0.0; 4];
        for (row, factor) in rows.iter().enumerate() {
            let scaled = entries(&a, &logs, row).map(|(col, log)| (col, log + factor + cols[col]));
            let mut sum = 0.0;
            for (col, log) in scaled {
                sum += log;
                by_column[col] += log;
            }
            assert!(f64::abs(sum) < 1e-9, "row {row}: {sum}");
        }
        for (col, sum) in by_column.iter().enumerate() {
            assert!(f64::abs(*sum) < 0.1, "column {col}: {sum}");
        }
        // Nothing is scaled where there is nothing.
        assert_eq!((rows[2], rows[4], cols[3]), (0.0, 0.0, 0.0));
    }

    #[test]
    fn what_reaches_along_a_chain_is_found_to_its_end() {
        // A path whose last edge is 2^-1000: its ends have to be scaled by the whole of it, vertex after vertex.
        let n = 41;
        let edge = |i: usize| if i == n - 2 { -1000.0 } else { 0.0 };
        let lines: Vec<Vec<(u32, f64)>> = (0..n)
            .map(|i| {
                let before = (i > 0).then(|| (i as u32 - 1, edge(i - 1)));
                let after = (i + 1 < n).then(|| (i as u32 + 1, edge(i)));
                before.into_iter().chain(after).collect()
            })
            .collect();
        let lines: Vec<&[(u32, f64)]> = lines.iter().map(Vec::as_slice).collect();
        let (a, logs) = matrix(n, &lines);
        let cancel = CancelFlag::new();
        let scale = symmetric_averages(&a, &logs, &cancel).unwrap();
        let [rows, cols] = averages(&a, &logs, &cancel).unwrap();
        for row in 0..n {
            for (col, log) in entries(&a, &logs, row) {
                let scaled = [log + scale[row] + scale[col], log + rows[row] + cols[col]];
                assert!(
                    scaled.iter().all(|s| s.abs() < 1.0),
                    "({row}, {col}): {scaled:?}"
                );
            }
        }
    }

    #[test]
    fn the_flag_is_obeyed() {
        let (a, logs) = matrix(2, &[&[(0, 1.0), (1, 5.0)], &[(0, 5.0)]]);
        let cancel = CancelFlag::new();
        cancel.cancel();
        assert!(averages(&a, &logs, &cancel).is_err());
        assert!(symmetric_averages(&a, &logs, &cancel).is_err());
    }
}
