//! Row and column equilibration in the infinity norm by powers of two.
//!
//! D. Ruiz, "A scaling algorithm to equilibrate both rows and columns norms in matrices",
//! RAL-TR-2001-034: every sweep divides rows and columns by the square root of their largest
//! entry, which keeps a symmetric matrix symmetric and halves the distance to equilibrium on a
//! logarithmic scale. The sweeps run on base-two logarithms, so nothing overflows however far the
//! entries are apart, and the factors are rounded to powers of two at the end, so that scaling a
//! value is exact. O(nnz) a sweep, about 15 sweeps for 400 orders of magnitude.

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, Scaling};

use crate::averages::averages;
use crate::error::{OrderingError, check_finite};

/// Sweeps halve the logarithmic distance: enough for the widest range of f64, 2^±1074.
pub(crate) const MAX_SWEEPS: usize = 24;

/// Sweeps stop when every row and column maximum is within a factor of 2^0.25 of one.
pub(crate) const TOLERANCE: f64 = 0.25;

/// Factors, all powers of two, that bring the largest absolute value of every row and column of
/// the CSR matrix near one: between 1/4 and 4, unless a factor had to be clamped to 2^±1021. Rows
/// and columns without a nonzero value keep the factor one. Any shape.
///
/// # Errors
///
/// [`NotFinite`](OrderingError::NotFinite) naming the first such value.
///
/// # Panics
///
/// If the number of values differs from the number of entries.
#[track_caller]
pub fn equilibrate(a: &CompressedPattern, values: &[f64]) -> Result<Scaling, OrderingError> {
    assert_eq!(values.len(), a.nnz(), "one value per entry of the pattern");
    check_finite(a, values)?;
    let logs: Vec<f64> = values.iter().map(|v| v.abs().log2()).collect();
    let mut rows = vec![0.0; a.major_dim()];
    let mut cols = vec![0.0; a.minor_dim()];
    sweep(a, &logs, &mut rows, &mut cols);
    let factors = |logs: &[f64]| logs.iter().map(|x| exp2_clamped(x.round())).collect();
    Ok(Scaling {
        rows: factors(&rows),
        cols: factors(&cols),
    })
}

/// As [`equilibrate`], but without its sweeps: from the factors of [`averages`], by the largest entry of each row, then of each
/// column. Takes about four times as long.
pub(crate) fn equilibrate_by_averages(
    a: &CompressedPattern,
    values: &[f64],
    cancel: &CancelFlag,
) -> Result<Scaling, Cancelled> {
    let logs: Vec<f64> = values.iter().map(|v| v.abs().log2()).collect();
    let [mut rows, mut cols] = averages(a, &logs, cancel)?;
    divide_by_largest(a, &logs, &mut rows, &mut cols);
    let shift = middle(&rows, &cols);
    let factors = |logs: &[f64], shift: f64| -> Vec<f64> {
        let rounded = logs.iter().map(|x| (x + shift).round());
        rounded.map(exp2_clamped).collect()
    };
    Ok(Scaling {
        rows: factors(&rows, shift),
        cols: factors(&cols, -shift),
    })
}

/// From factors with these logarithms to such that the largest entry of each row is one, and then that of each column, which
/// leaves those of the rows. Unlike Ruiz's sweeps this moves each factor once, so that what the averages told of the other
/// entries stays.
fn divide_by_largest(a: &CompressedPattern, logs: &[f64], rows: &mut [f64], cols: &mut [f64]) {
    let mut largest = vec![f64::NEG_INFINITY; a.minor_dim()];
    for (row, factor) in rows.iter_mut().enumerate() {
        let sums = a.range(row).map(|p| logs[p] + cols[a.idx()[p] as usize]);
        let max = sums.fold(f64::NEG_INFINITY, f64::max);
        // Minus infinity: nothing but zeros, which no factor changes.
        if max.is_finite() {
            *factor = -max;
        }
        for p in a.range(row) {
            let col = &mut largest[a.idx()[p] as usize];
            *col = f64::max(*col, logs[p] + *factor);
        }
    }
    for (factor, &max) in cols.iter_mut().zip(&largest) {
        if max.is_finite() {
            *factor = -max;
        }
    }
}

/// Ruiz's sweeps over entries with these logarithms, from factors with those of `rows` and `cols`.
fn sweep(a: &CompressedPattern, logs: &[f64], rows: &mut [f64], cols: &mut [f64]) {
    let mut row_max = vec![0.0; a.major_dim()];
    let mut col_max = vec![0.0; a.minor_dim()];
    for _ in 0..MAX_SWEEPS {
        row_max.fill(f64::NEG_INFINITY);
        col_max.fill(f64::NEG_INFINITY);
        for (row, max) in row_max.iter_mut().enumerate() {
            for p in a.range(row) {
                let col = a.idx()[p] as usize;
                let log = logs[p] + rows[row] + cols[col];
                *max = f64::max(*max, log);
                col_max[col] = f64::max(col_max[col], log);
            }
        }
        let mut worst = 0.0;
        for (factor, &max) in rows
            .iter_mut()
            .zip(&row_max)
            .chain(cols.iter_mut().zip(&col_max))
        {
            // Minus infinity: nothing but zeros, which no factor changes.
            if max.is_finite() {
                worst = f64::max(worst, max.abs());
                *factor -= max / 2.0;
            }
        }
        if worst <= TOLERANCE {
            break;
        }
    }
}

/// What to add to the logarithms of the rows' factors, and to take from those of the columns', so that the largest absolute
/// value is the smallest.
pub(crate) fn middle(log_rows: &[f64], log_cols: &[f64]) -> f64 {
    let ((row_low, row_high), (col_low, col_high)) = (range(log_rows), range(log_cols));
    if log_rows.is_empty() {
        0.0
    } else {
        (f64::max(-row_low, col_high) - f64::max(row_high, -col_low)) / 2.0
    }
}

/// The least and the largest number.
pub(crate) fn range(logs: &[f64]) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    logs.iter().fold(ends, |(low, high), &x| {
        (
            if x < low { x } else { low },
            if x > high { x } else { high },
        )
    })
}

/// Factors stay within 2^±1021, so that they and their inverses are normal numbers.
pub(crate) const LARGEST_EXPONENT: f64 = 1021.0;

/// 2^exponent, the exponent clamped; exact if it is an integer, otherwise within two units in the last place.
/// Without branches, so that loops over it become vector code: 2^f for |f| ≤ 1/2 is the sum of fourteen
/// terms (f ln 2)^k / k!.
#[inline]
pub(crate) fn exp2_clamped(exponent: f64) -> f64 {
    /// 1.5·2^52: in sums of it the last bit is worth one.
    const INTEGER: f64 = 6_755_399_441_055_744.0;
    let x = exponent.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT);
    let shifted = x + INTEGER;
    let f = x - (shifted - INTEGER);
    let mut sum = SERIES[0];
    for c in &SERIES[1..] {
        sum = sum * f + c;
    }
    // The exponent is in the low bits, in two's complement; it moves that of a number about one.
    f64::from_bits(sum.to_bits().wrapping_add(shifted.to_bits() << 52))
}

/// For [`exp2_clamped`], from the last term to the first.
const SERIES: [f64; 14] = [
    1.3691488853904124e-12,
    2.5678435993488196e-11,
    4.44553827187081e-10,
    7.054911620801121e-09,
    1.0178086009239696e-07,
    1.3215486790144305e-06,
    1.5252733804059838e-05,
    0.00015403530393381606,
    0.0013333558146428441,
    0.009618129107628477,
    0.055504108664821576,
    0.2402265069591007,
    std::f64::consts::LN_2,
    1.0,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn powers_are_those_of_the_standard_library(x in -1100.0..1100.0f64) {
            let exact = x.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp2();
            prop_assert!((exp2_clamped(x) - exact).abs() <= 4e-16 * exact);
        }
    }

    #[test]
    fn averages_undo_a_scaling_of_rows_and_columns() {
        // Ones on two cyclic diagonals, whose rows and columns are then scaled, and a zero.
        let n = 9;
        let scale = |i: usize, salt: usize| ((i * 7919 + salt) * 31 % 801) as i32 - 400;
        let mut entries: Vec<Vec<usize>> = (0..n).map(|i| vec![i, (i + 1) % n]).collect();
        entries[4].push(0);
        entries.iter_mut().for_each(|row| row.sort_unstable());
        let ptr = std::iter::once(0).chain(entries.iter().scan(0, |sum, row| {
            *sum += row.len() as u64;
            Some(*sum)
        }));
        let ptr: Vec<u64> = ptr.collect();
        let idx: Vec<u32> = entries.iter().flatten().map(|&j| j as u32).collect();
        let pattern = CompressedPattern::new(n, ptr, idx).unwrap();
        let value = |i: usize, j: usize| match (i, j) {
            (4, 0) => 0.0,
            _ => 2f64.powi(scale(i, 1) + scale(j, 5)),
        };
        let values: Vec<f64> = (0..n)
            .flat_map(|i| entries[i].iter().map(move |&j| value(i, j)))
            .collect();
        let scaling = equilibrate_by_averages(&pattern, &values, &CancelFlag::new()).unwrap();
        for (i, row) in entries.iter().enumerate() {
            for &j in row.iter().filter(|&&j| (i, j) != (4, 0)) {
                let scaled = scaling.apply(i, j, value(i, j));
                assert!((0.25..=4.0).contains(&scaled), "({i}, {j}): {scaled:e}");
            }
        }
        let factors = || scaling.rows.iter().chain(&scaling.cols);
        assert!(factors().all(|f| f.log2().fract() == 0.0));
        // The largest entries alone leave some that are all but zero.
        let plain = equilibrate(&pattern, &values).unwrap();
        let smallest = (0..n).flat_map(|i| [(i, i), (i, (i + 1) % n)]);
        let smallest = smallest.map(|(i, j)| plain.apply(i, j, value(i, j)));
        assert!(smallest.fold(1.0, f64::min) < 1e-30);
    }

    #[test]
    fn after_averages_the_largest_entries_are_near_one() {
        // No factors move these: they are zero on average. No row has its largest entry in the first column.
        let logs = [20, 40, -60, 20, -60, 40, -40, 20, 20];
        let pattern = CompressedPattern::new(3, vec![0, 3, 6, 9], [0, 1, 2].repeat(3)).unwrap();
        let values = logs.map(|log| 2f64.powi(log));
        let scaling = equilibrate_by_averages(&pattern, &values, &CancelFlag::new()).unwrap();
        let scaled = |i: usize, j: usize| scaling.apply(i, j, values[3 * i + j]);
        for line in 0..3 {
            let of_row = (0..3).map(|j| scaled(line, j)).fold(0.0, f64::max);
            let of_column = (0..3).map(|i| scaled(i, line)).fold(0.0, f64::max);
            for largest in [of_row, of_column] {
                assert!((0.25..=4.0).contains(&largest), "{line}: {largest:e}");
            }
        }
    }

    #[test]
    fn integer_powers_are_exact() {
        for e in -1021..=1021 {
            assert_eq!(exp2_clamped(f64::from(e)), f64::powi(2.0, e));
        }
        assert_eq!(exp2_clamped(f64::INFINITY), f64::powi(2.0, 1021));
        assert_eq!(exp2_clamped(-2000.0), f64::powi(2.0, -1021));
    }
}
