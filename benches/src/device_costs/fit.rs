//! Least squares with unknowns that are not negative, of a few unknowns.

/// The x ≥ 0 for which Σᵢ (rowsᵢ·x − rightᵢ)² is least.
///
/// Of every set of unknowns that may be positive the normal equations are solved: exact, and exponential in the number of
/// unknowns (C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, have a method for many).
///
/// # Panics
///
/// If a row has not `unknowns` coefficients, or there is not one right-hand side for each.
pub fn nonnegative_least_squares(unknowns: usize, rows: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    assert_eq!(rows.len(), right.len(), "a right-hand side for each row");
    assert!(rows.iter().all(|row| row.len() == unknowns));
    let norm = |j: usize| rows.iter().map(|row| row[j] * row[j]).sum::<f64>().sqrt();
    // Columns of one size, so that pivots can be compared.
    let scales: Vec<f64> = (0..unknowns).map(norm).collect();
    let mut best = (f64::INFINITY, vec![0.0; unknowns]);
    for set in 0..1u32 << unknowns {
        let chosen = (0..unknowns).filter(|j| set >> j & 1 == 1 && scales[*j] > 0.0);
        let chosen: Vec<usize> = chosen.collect();
        let scaled = |row: &[f64], j: usize| row[j] / scales[j];
        let mut matrix = Vec::with_capacity(chosen.len());
        for &i in &chosen {
            let product =
                |j: usize| -> f64 { rows.iter().map(|row| scaled(row, i) * scaled(row, j)).sum() };
            let mut equation: Vec<f64> = chosen.iter().map(|&j| product(j)).collect();
            let of_right = rows.iter().zip(right);
            equation.push(of_right.map(|(row, right)| scaled(row, i) * right).sum());
            matrix.push(equation);
        }
        let Some(solution) = solved(matrix) else {
            continue;
        };
        let mut x = vec![0.0; unknowns];
        for (&j, value) in chosen.iter().zip(solution) {
            x[j] = value / scales[j];
        }
        let is_feasible = x.iter().all(|value| *value >= 0.0 && value.is_finite());
        let residual = |(row, right): (&Vec<f64>, &f64)| {
            let product: f64 = row.iter().zip(&x).map(|(a, x)| a * x).sum();
            (product - right).powi(2)
        };
        let residuals = rows.iter().zip(right).map(residual).sum::<f64>();
        if is_feasible && residuals < best.0 {
            best = (residuals, x);
        }
    }
    best.1
}

/// Solves equations, the right-hand side last in each, by Gaussian elimination with row exchanges; `None` if they are
/// singular, or nearly.
fn solved(mut equations: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = equations.len();
    for k in 0..n {
        let largest = (k..n).max_by(|&i, &j| {
            let (i, j) = (equations[i][k].abs(), equations[j][k].abs());
            i.total_cmp(&j)
        })?;
        equations.swap(k, largest);
        let (above, below) = equations.split_at_mut(k + 1);
        let pivot = &above[k];
        if pivot[k].abs() < 1e-12 {
            return None;
        }
        for row in below {
            let factor = row[k] / pivot[k];
            for (value, of_pivot) in row.iter_mut().zip(pivot).skip(k) {
                *value -= factor * of_pivot;
            }
        }
    }
    let mut x = vec![0.0; n];
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|j| equations[k][j] * x[j]).sum();
        x[k] = (equations[k][n] - known) / equations[k][k];
    }
    Some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{found:?}");
        }
    }

    #[test]
    fn what_fits_is_found() {
        let rows: Vec<Vec<f64>> = [1.0, 10.0, 200.0, 4000.0]
            .iter()
            .flat_map(|&a| [1.0, 3.0].map(|b| vec![1.0, a, a * b]))
            .collect();
        let x = [2.0, 0.5, 0.125];
        let right: Vec<f64> = rows
            .iter()
            .map(|row| row.iter().zip(&x).map(|(a, x)| a * x).sum())
            .collect();
        close(&nonnegative_least_squares(3, &rows, &right), &x);
    }

    #[test]
    fn the_mean_is_nearest() {
        let rows = vec![vec![1.0]; 4];
        close(
            &nonnegative_least_squares(1, &rows, &[1.0, 2.0, 3.0, 6.0]),
            &[3.0],
        );
    }

    #[test]
    fn nothing_is_negative() {
        // The line through these falls: without a negative slope the mean is nearest.
        let rows: Vec<Vec<f64>> = (0..3).map(|t| vec![1.0, f64::from(t)]).collect();
        close(
            &nonnegative_least_squares(2, &rows, &[3.0, 2.0, 1.0]),
            &[2.0, 0.0],
        );
        // A line through the origin is nearest where the intercept would be negative.
        close(
            &nonnegative_least_squares(2, &rows, &[-1.0, 1.0, 3.0]),
            &[0.0, 7.0 / 5.0],
        );
        close(
            &nonnegative_least_squares(2, &rows, &[-1.0, -1.0, -1.0]),
            &[0.0, 0.0],
        );
    }

    #[test]
    fn equal_columns_are_one_unknown() {
        let rows = vec![vec![1.0, 1.0], vec![2.0, 2.0]];
        let x = nonnegative_least_squares(2, &rows, &[3.0, 6.0]);
        assert!((x[0] + x[1] - 3.0).abs() < 1e-9, "{x:?}");
        assert_eq!(nonnegative_least_squares(1, &[vec![0.0]], &[1.0]), [0.0]);
    }
}
