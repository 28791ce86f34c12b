//! Triangular solves on the CPU.
//!
//! By columns: forward and backward substitution subtract a column at a time, the transposed solves
//! take a dot product with a column at a time, so one storage serves both. Cost: two operations per
//! entry of the factors and right-hand side.

use luge_numeric::LuPattern;
use luge_sparse::Scalar;

#[track_caller]
fn check<T>(pattern: &LuPattern, values: &[T], x: &[T]) {
    assert_eq!(pattern.nnz(), values.len(), "one value for each entry");
    assert_eq!(pattern.n(), x.len(), "right-hand side of another length");
}

/// `x ← L⁻¹·x`, L with its unit diagonal.
///
/// # Panics
///
/// If `values` or `x` do not fit the pattern.
#[track_caller]
pub fn solve_lower<T: Scalar>(pattern: &LuPattern, values: &[T], x: &mut [T]) {
    check(pattern, values, x);
    let rows = pattern.row_idx();
    for j in 0..pattern.n() {
        let xj = x[j];
        if xj == T::zero() {
            continue;
        }
        let below = pattern.lower(j);
        for (&i, &l) in rows[below.clone()].iter().zip(&values[below]) {
            x[i as usize] -= l * xj;
        }
    }
}

/// `x ← U⁻¹·x`.
///
/// # Panics
///
/// If `values` or `x` do not fit the pattern.
#[track_caller]
pub fn solve_upper<T: Scalar>(pattern: &LuPattern, values: &[T], x: &mut [T]) {
    check(pattern, values, x);
    let rows = pattern.row_idx();
    for j in (0..pattern.n()).rev() {
        if x[j] == T::zero() {
            continue;
        }
        x[j] = x[j].quotient(values[pattern.diag_pos()[j] as usize]);
        let xj = x[j];
        let above = pattern.upper(j);
        for (&i, &u) in rows[above.clone()].iter().zip(&values[above]) {
            x[i as usize] -= u * xj;
        }
    }
}

/// `x ← U⁻ᵀ·x`.
///
/// # Panics
///
/// If `values` or `x` do not fit the pattern.
#[track_caller]
pub fn solve_upper_transpose<T: Scalar>(pattern: &LuPattern, values: &[T], x: &mut [T]) {
    check(pattern, values, x);
    let rows = pattern.row_idx();
    for j in 0..pattern.n() {
        let above = pattern.upper(j);
        let mut xj = x[j];
        for (&i, &u) in rows[above.clone()].iter().zip(&values[above]) {
            xj -= u * x[i as usize];
        }
        x[j] = xj.quotient(values[pattern.diag_pos()[j] as usize]);
    }
}

/// `x ← L⁻ᵀ·x`, L with its unit diagonal.
///
/// # Panics
///
/// If `values` or `x` do not fit the pattern.
#[track_caller]
pub fn solve_lower_transpose<T: Scalar>(pattern: &LuPattern, values: &[T], x: &mut [T]) {
    check(pattern, values, x);
    let rows = pattern.row_idx();
    for j in (0..pattern.n()).rev() {
        let below = pattern.lower(j);
        let mut xj = x[j];
        for (&i, &l) in rows[below.clone()].iter().zip(&values[below]) {
            xj -= l * x[i as usize];
        }
        x[j] = xj;
    }
}

/// Solves `L·U·X = B` in place: `x` holds `nrhs` right-hand sides of length n one after another.
///
/// # Panics
///
/// If `values` does not fit the pattern, or `x` is not `n · nrhs` long.
#[track_caller]
pub fn solve<T: Scalar>(pattern: &LuPattern, values: &[T], x: &mut [T], nrhs: usize) {
    assert_eq!(x.len(), pattern.n() * nrhs, "nrhs columns of length n");
    for column in x.chunks_exact_mut(pattern.n().max(1)) {
        solve_lower(pattern, values, column);
        solve_upper(pattern, values, column);
    }
}

/// Solves `(L·U)ᵀ·X = B` in place; arguments as for [`solve`].
///
/// # Panics
///
/// If `values` does not fit the pattern, or `x` is not `n · nrhs` long.
#[track_caller]
pub fn solve_transpose<T: Scalar>(pattern: &LuPattern, values: &[T], x: &mut [T], nrhs: usize) {
    assert_eq!(x.len(), pattern.n() * nrhs, "nrhs columns of length n");
    for column in x.chunks_exact_mut(pattern.n().max(1)) {
        solve_upper_transpose(pattern, values, column);
        solve_lower_transpose(pattern, values, column);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_sparse::CompressedPattern;

    /// L = [1 0; 2 1], U = [2 1; 0 3], so L·U = [2 1; 4 5].
    fn two_by_two() -> (LuPattern, Vec<f64>) {
        let cols = CompressedPattern::new(2, vec![0, 2, 4], vec![0, 1, 0, 1]).unwrap();
        let pattern = LuPattern::from_columns(cols).unwrap();
        (pattern, vec![2.0, 2.0, 1.0, 3.0])
    }

    #[test]
    fn many_right_hand_sides_plain_and_transposed() {
        let (pattern, values) = two_by_two();
        let mut x = [3.0, 9.0, 1.0, 5.0];
        solve(&pattern, &values, &mut x, 2);
        assert_eq!(x, [1.0, 1.0, 0.0, 1.0]);
        let mut x = [6.0, 6.0];
        solve_transpose(&pattern, &values, &mut x, 1);
        assert_eq!(x, [1.0, 1.0]);
    }

    #[test]
    fn nothing_solves_trivially() {
        let cols = CompressedPattern::new(0, vec![0], vec![]).unwrap();
        let pattern = LuPattern::from_columns(cols).unwrap();
        solve::<f32>(&pattern, &[], &mut [], 3);
        solve_transpose::<f32>(&pattern, &[], &mut [], 0);
    }

    #[test]
    #[should_panic(expected = "nrhs columns of length n")]
    fn a_wrong_length_is_a_broken_call() {
        let (pattern, values) = two_by_two();
        solve(&pattern, &values, &mut [1.0; 3], 2);
    }
}
