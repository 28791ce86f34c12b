//! Maximum-product matching and scaling (the objective of MC64).
//!
//! Finds the permutation of rows that maximises the product of the absolute values on the
//! diagonal, and row and column factors that make every entry of the scaled matrix at most one in
//! absolute value and the matched entries equal to one: I. S. Duff and J. Koster, "On algorithms
//! for permuting large entries to the diagonal of a sparse matrix", SIAM J. Matrix Anal. Appl. 22
//! (2001), sections 2 and 4. With the costs
//!
//! ```text
//! c(i,j) = max_k log2|a(i,k)| − log2|a(i,j)|  ≥ 0
//! ```
//!
//! it is a linear assignment problem, solved here by successive shortest augmenting paths (R.
//! Jonker and A. Volgenant, "A shortest augmenting path algorithm for dense and sparse linear
//! assignment problems", Computing 38 (1987)). Duals u(i), v(j) with c(i,j) − u(i) − v(j) ≥ 0, and
//! = 0 on matched entries, prove optimality and are the logarithms of the factors.
//!
//! Steps: feasible duals from column and row minima; a matching on entries of zero reduced cost
//! (diagonal first, then greedy with one-step exchanges); bids of the rows left over, two passes of
//! Jonker and Volgenant's augmenting row reduction, in short chains; then one Dijkstra search per
//! unmatched row, cut off at the shortest path known so far, which touches only the lines it reaches. Where such searches come to the
//! same lines again and again, as in the KKT systems of some quadratic programs, one search from all unmatched rows comes between
//! them, which matches those that are nearest to an unmatched column. Worst case O(n · nnz · log n), near linear on matrices from
//! practice.
//!
//! Everything happens in base-two logarithms in `f64`, so entries may span the whole range of
//! exponents, subnormal numbers included. Stored zeros carry no cost and are never matched.

mod assignment;
mod cardinality;

use std::ops::Range;

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, Scaling};
use rayon::prelude::*;

use crate::equilibrate::{LARGEST_EXPONENT, exp2_clamped, middle, range};
use crate::error::{OrderingError, check_finite};
use crate::parts::join_if;
use assignment::Assignment;
pub use cardinality::{
    CardinalityMatching, CoarseDecomposition, Part, dulmage_mendelsohn, maximum_cardinality,
};
pub(crate) use cardinality::{fill_holes, maximum_cardinality_where};

/// The costs of about so many entries are computed at once.
const MOST_AT_ONCE: usize = 16_384;

/// Rows between two looks at the cancel flag.
const STRIDE: usize = 1 << 10;

/// No partner.
pub(crate) const NONE: u32 = u32::MAX;

/// A perfect matching of largest product, with the scaling that proves it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductMatching {
    /// The row matched to each column: row `row_of_col[j]` goes to position `j` of the diagonal.
    pub row_of_col: Vec<u32>,
    /// Number of matched pairs, n: a matching that is not perfect is an error.
    pub num_matched: usize,
    /// Factors with |dr(i)·a(i,j)·dc(j)| ≤ 1, and = 1 on matched entries, up to rounding (about
    /// 1e-12 relative), as long as no factor was clamped.
    pub scaling: Scaling,
    /// Factors that lie outside of 2^±1021 and were clamped there. Where entries of very different
    /// size stand next to each other all over the matrix, the factors multiply along chains of
    /// rows and columns and outgrow f64, though no single row or column is out of its range.
    pub num_clamped: usize,
    /// Decimal logarithm of the product of the absolute values of the matched entries.
    pub log10_product: f64,
}

/// Perfect matching of largest product of a square matrix with CSR pattern `a` and `values` in the
/// same order, and its scaling.
///
/// # Errors
///
/// [`NotSquare`](OrderingError::NotSquare), [`NotFinite`](OrderingError::NotFinite),
/// [`StructurallySingular`](OrderingError::StructurallySingular) if the pattern has no perfect
/// matching, [`NumericallySingular`](OrderingError::NumericallySingular) if only stored zeros give
/// it one, [`Cancelled`](OrderingError::Cancelled).
///
/// # Panics
///
/// If the number of values differs from the number of entries.
#[track_caller]
pub fn maximum_product(
    a: &CompressedPattern,
    values: &[f64],
    cancel: &CancelFlag,
) -> Result<ProductMatching, OrderingError> {
    assert_eq!(values.len(), a.nnz(), "one value per entry of the pattern");
    check_square(a)?;
    check_finite(a, values)?;
    match_by_product(a, values, false, cancel)
}

/// As [`maximum_product`] for a square matrix known to be finite; on the current rayon pool if `parallel`.
pub(crate) fn match_by_product(
    a: &CompressedPattern,
    values: &[f64],
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<ProductMatching, OrderingError> {
    if let Some(matching) = find_product_matching(a, values, parallel, cancel)? {
        return Ok(matching);
    }
    Err(check_rank(a, Some(values), cancel)
        .expect_err("a row without an augmenting path means that there is no perfect matching"))
}

/// None if the nonzero values have no perfect matching.
pub(crate) fn find_product_matching(
    a: &CompressedPattern,
    values: &[f64],
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<Option<ProductMatching>, Cancelled> {
    let n = a.major_dim();
    let (cost, row_max) = costs(a, values, parallel);
    cancel.check()?;
    let Some(assignment) = Assignment::of(a, &cost, parallel, cancel)? else {
        return Ok(None);
    };
    cancel.check()?;
    // log2 dr(i) = u(i) − rowmax(i), log2 dc(j) = v(j). The dual of each row is taken from its
    // matched entry, so that it is exact there whatever rounding the searches left.
    let mut log_rows = vec![0.0; n];
    let mut log_cols = assignment.v;
    let mut log2_product = 0.0;
    for row in 0..n {
        let p = assignment.entry_of_row[row];
        let col = a.idx()[p] as usize;
        log_rows[row] = (cost[p] - log_cols[col]) - row_max[row];
        log2_product += row_max[row] - cost[p];
    }
    cancel.check()?;
    let (mut scaling, mut num_clamped) = balanced_scaling(&log_rows, &log_cols);
    if num_clamped > 0 {
        let log_entry = |row: usize, p: usize| row_max[row] - cost[p];
        draw_together(
            a,
            log_entry,
            &assignment.entry_of_row,
            [&mut log_rows, &mut log_cols],
            cancel,
        )?;
        (scaling, num_clamped) = balanced_scaling(&log_rows, &log_cols);
    }
    Ok(Some(ProductMatching {
        row_of_col: assignment.row_of_col,
        num_matched: n,
        scaling,
        num_clamped,
        log10_product: log2_product * std::f64::consts::LOG10_2,
    }))
}

pub(crate) fn check_square(a: &CompressedPattern) -> Result<(), OrderingError> {
    let (nrows, ncols) = (a.major_dim(), a.minor_dim());
    if nrows != ncols {
        return Err(OrderingError::NotSquare { nrows, ncols });
    }
    Ok(())
}

/// The row of each column in a maximum-cardinality matching of a square pattern, if it is perfect. With values, also refuses
/// a pattern whose nonzero values have no perfect matching; the matching is then on nonzero values.
///
/// # Errors
///
/// [`OrderingError::StructurallySingular`], [`OrderingError::NumericallySingular`], [`OrderingError::Cancelled`].
///
/// # Panics
///
/// If there is not one value per entry.
#[track_caller]
pub fn check_rank(
    a: &CompressedPattern,
    values: Option<&[f64]>,
    cancel: &CancelFlag,
) -> Result<Vec<u32>, OrderingError> {
    let nonzero = match values {
        Some(values) => maximum_cardinality_where(a, |p| values[p] != 0.0, cancel)?,
        None => maximum_cardinality(a, cancel)?,
    };
    let n = a.major_dim();
    if nonzero.num_matched() < n {
        if values.is_some() {
            let structural = maximum_cardinality(a, cancel)?;
            if structural.num_matched() == n {
                return Err(OrderingError::NumericallySingular {
                    rank: nonzero.num_matched(),
                    unmatched_rows: nonzero.unmatched_rows(),
                    unmatched_cols: nonzero.unmatched_cols(),
                });
            }
            return Err(structurally_singular(&structural));
        }
        return Err(structurally_singular(&nonzero));
    }
    Ok(nonzero
        .into_perfect()
        .expect("n pairs of a square matrix are a perfect matching"))
}

/// The refusal of a symmetric matrix of which a matching of largest cardinality, of its nonzero values if they are known, leaves
/// these rows and the same columns out.
pub(crate) fn deficient(
    a: &CompressedPattern,
    values: Option<&[f64]>,
    unmatched: Vec<u32>,
    cancel: &CancelFlag,
) -> Result<OrderingError, Cancelled> {
    let n = a.major_dim();
    let rank = n - unmatched.len();
    let has_zeros = values.is_some_and(|values| values.contains(&0.0));
    if has_zeros {
        // The pattern alone may have a larger one.
        let structural = maximum_cardinality(a, cancel)?;
        if structural.num_matched() < n {
            return Ok(structurally_singular(&structural));
        }
        return Ok(OrderingError::NumericallySingular {
            rank,
            unmatched_rows: unmatched.clone(),
            unmatched_cols: unmatched,
        });
    }
    Ok(OrderingError::StructurallySingular {
        rank,
        unmatched_rows: unmatched.clone(),
        unmatched_cols: unmatched,
    })
}

fn structurally_singular(matching: &CardinalityMatching) -> OrderingError {
    OrderingError::StructurallySingular {
        rank: matching.num_matched(),
        unmatched_rows: matching.unmatched_rows(),
        unmatched_cols: matching.unmatched_cols(),
    }
}

/// The cost of each entry (infinite for stored zeros) and the largest log2|a| of each row (zero if there
/// are only zeros).
fn costs(a: &CompressedPattern, values: &[f64], parallel: bool) -> (Vec<f64>, Vec<f64>) {
    let n = a.major_dim();
    let mut cost = vec![0.0; values.len()];
    let mut row_max = vec![0.0; n];
    fill_costs(a, values, 0..n, &mut cost, &mut row_max, parallel);
    (cost, row_max)
}

/// For some rows; `cost` and `row_max` are theirs alone.
fn fill_costs(
    a: &CompressedPattern,
    values: &[f64],
    rows: Range<usize>,
    cost: &mut [f64],
    row_max: &mut [f64],
    parallel: bool,
) {
    let start = a.ptr()[rows.start] as usize;
    if rows.len() > 1 && cost.len() > MOST_AT_ONCE {
        let middle = rows.start + rows.len() / 2;
        let (cost, more_cost) = cost.split_at_mut(a.ptr()[middle] as usize - start);
        let (row_max, more_row_max) = row_max.split_at_mut(middle - rows.start);
        let of_first = || fill_costs(a, values, rows.start..middle, cost, row_max, parallel);
        let of_second = || {
            fill_costs(
                a,
                values,
                middle..rows.end,
                more_cost,
                more_row_max,
                parallel,
            )
        };
        join_if(parallel, of_first, of_second);
        return;
    }
    logarithms(&values[start..start + cost.len()], cost);
    for (row, row_max) in rows.zip(row_max) {
        let range = a.range(row);
        let line = &mut cost[range.start - start..range.end - start];
        let largest = |max: f64, &x: &f64| if x > max { x } else { max };
        let max = line.iter().fold(f64::NEG_INFINITY, largest);
        *row_max = if max.is_finite() { max } else { 0.0 };
        for c in line {
            *c = *row_max - *c;
        }
    }
}

/// log2|x| of every value; on the current rayon pool if `parallel`.
pub(crate) fn logarithms_of(values: &[f64], parallel: bool) -> Vec<f64> {
    let mut logs = vec![0.0; values.len()];
    if parallel && values.len() > MOST_AT_ONCE {
        let parts = values.par_chunks(MOST_AT_ONCE);
        let parts = parts.zip(logs.par_chunks_mut(MOST_AT_ONCE));
        parts.for_each(|(values, logs)| logarithms(values, logs));
    } else {
        logarithms(values, &mut logs);
    }
    logs
}

/// log2|x| of every value.
pub(crate) fn logarithms(values: &[f64], logs: &mut [f64]) {
    for (log, &x) in logs.iter_mut().zip(values) {
        *log = log2_of_normal(x);
    }
    for (log, &x) in logs.iter_mut().zip(values) {
        // Zero, or subnormal.
        if x.abs() < f64::MIN_POSITIVE {
            *log = x.abs().log2();
        }
    }
}

/// log2|x| for normal `x`, within two units in the last place of what is larger, it or one; without
/// branches, so that loops over it become vector code. With m·2^e = |x| and √½ ≤ m < √2, log2 m is
/// 2 artanh(s) / ln 2 where s = (m − 1)/(m + 1) is at most 0.172: eleven terms of the series do.
#[inline]
fn log2_of_normal(x: f64) -> f64 {
    const ONE: u64 = 1023 << 52;
    const ROOT_OF_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    /// 2^52, whose last bit is worth one.
    const INTEGER: u64 = 1075 << 52;
    let bits = x.to_bits() & (u64::MAX >> 1);
    let e = bits.wrapping_add(ONE - ROOT_OF_HALF) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(e << 52).wrapping_add(ONE));
    let e = f64::from_bits(INTEGER | e) - (f64::from_bits(INTEGER) + 1023.0);
    let s = (m - 1.0) / (m + 1.0);
    let t = s * s;
    // The coefficient of s^(2k + 1) is 2 / ((2k + 1) ln 2).
    let mut sum = SERIES[0];
    for c in &SERIES[1..] {
        sum = sum * t + c;
    }
    e + s * sum
}

/// For [`log2_of_normal`], from the last term to the first.
const SERIES: [f64; 11] = [
    0.137_399_527_703_710_8,
    0.151_862_635_883_048_77,
    0.169_728_828_339_878_04,
    0.192_359_338_785_195_12,
    0.221_953_083_213_686_7,
    0.262_308_189_252_538_8,
    0.320_598_897_975_325_2,
    0.412_198_583_111_132_44,
    0.577_078_016_355_585_3,
    0.961_796_693_925_975_7,
    2.885_390_081_777_926_8,
];

/// Factors from their logarithms, and how many of them had to be clamped. Adding a constant to the
/// rows' logarithms and subtracting it from the columns' changes no product; the constant chosen
/// makes the largest absolute value smallest.
fn balanced_scaling(log_rows: &[f64], log_cols: &[f64]) -> (Scaling, usize) {
    let shift = middle(log_rows, log_cols);
    let mut num_clamped = 0;
    let mut factors = |logs: &[f64], shift: f64| -> Vec<f64> {
        let (low, high) = range(logs);
        if f64::max(high + shift, -(low + shift)) > LARGEST_EXPONENT {
            let is_clamped = |&&x: &&f64| (x + shift).abs() > LARGEST_EXPONENT;
            num_clamped += logs.iter().filter(is_clamped).count();
        }
        logs.iter().map(|&x| exp2_clamped(x + shift)).collect()
    };
    let scaling = Scaling {
        rows: factors(log_rows, shift),
        cols: factors(log_cols, -shift),
    };
    (scaling, num_clamped)
}

/// Sweeps in which factors beyond the range are drawn together, at most.
const SWEEPS: usize = 1000;

/// Draws the logarithms of the factors to the middle of their range, as far as no entry becomes larger than 1: the searches
/// end with one of many scalings that prove the matching, and it may be one of the widest. The factors of a matched row and
/// column move against each other, one pair after another. `log_entry` is that of an entry of a row, and `entry_of_row` the
/// place of the matched one.
fn draw_together(
    a: &CompressedPattern,
    log_entry: impl Fn(usize, usize) -> f64,
    entry_of_row: &[usize],
    [log_rows, log_cols]: [&mut [f64]; 2],
    cancel: &CancelFlag,
) -> Result<(), Cancelled> {
    let shift = middle(log_rows, log_cols);
    log_rows.iter_mut().for_each(|log| *log += shift);
    log_cols.iter_mut().for_each(|log| *log -= shift);
    let (columns, place) = a.transpose_with_map();
    let rows = columns.idx();
    for sweep in 0..SWEEPS {
        let mut largest_move = 0.0f64;
        for k in 0..log_rows.len() {
            if k % STRIDE == 0 {
                cancel.check()?;
            }
            // To and fro, so that a chain follows its end in one sweep, wherever that is.
            let row = if sweep % 2 == 0 {
                k
            } else {
                log_rows.len() - 1 - k
            };
            let matched = entry_of_row[row];
            let col = a.idx()[matched] as usize;
            let slack = |row: usize, p: usize| {
                let sum = log_rows[row] + log_cols[a.idx()[p] as usize] + log_entry(row, p);
                f64::max(-sum, 0.0)
            };
            let others = |p: &usize| *p != matched;
            let up = a.range(row).filter(others).map(|p| slack(row, p));
            let up = up.fold(f64::INFINITY, f64::min);
            let down = columns.range(col);
            let down = down.map(|q| (rows[q] as usize, place[q] as usize));
            let down = down.filter(|(_, p)| *p != matched);
            let down = down.map(|(row, p)| slack(row, p));
            let down = down.fold(f64::INFINITY, f64::min);
            let step = ((log_cols[col] - log_rows[row]) / 2.0).clamp(-down, up);
            log_cols[col] -= step;
            // Taken from the entry, which is to be exactly 1.
            log_rows[row] = -log_entry(row, matched) - log_cols[col];
            largest_move = largest_move.max(step.abs());
        }
        let in_range = |logs: &[f64]| logs.iter().all(|log| log.abs() <= LARGEST_EXPONENT);
        if largest_move < 1.0 || (in_range(log_rows) && in_range(log_cols)) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn logarithm(x: f64) -> f64 {
        let mut log = [0.0];
        logarithms(&[x], &mut log);
        log[0]
    }

    proptest! {
        #[test]
        fn logarithms_are_those_of_the_standard_library(x in any::<f64>()) {
            prop_assume!(x.is_finite() && x != 0.0);
            let (found, exact) = (logarithm(x), x.abs().log2());
            prop_assert!((found - exact).abs() <= 4e-16 * exact.abs().max(1.0), "{found} {exact}");
        }
    }

    #[test]
    fn logarithms_of_powers_of_two_are_exact() {
        for e in -1074..1024 {
            assert_eq!(logarithm(-f64::from(e).exp2()), f64::from(e));
        }
        assert_eq!(logarithm(0.0), f64::NEG_INFINITY);
        let root = std::f64::consts::SQRT_2;
        for x in [root.next_down(), root, root.next_up()] {
            assert!((logarithm(x) - 0.5).abs() < 4e-16);
        }
    }

    #[test]
    fn wide_factors_are_drawn_together() {
        // Ones on the diagonal and 2^-300 below: these factors prove the matching, and so does 1.
        let n = 8usize;
        let mut ptr = vec![0u64];
        let mut idx = Vec::new();
        for i in 0..n as u32 {
            idx.extend(i.checked_sub(1));
            idx.push(i);
            ptr.push(idx.len() as u64);
        }
        let a = CompressedPattern::new(n, ptr, idx).unwrap();
        let log_entry = |row: usize, p: usize| {
            let on_diagonal = a.idx()[p] as usize == row;
            if on_diagonal { 0.0 } else { -300.0 }
        };
        let matched: Vec<usize> = (0..n).map(|row| a.range(row).end - 1).collect();
        let mut rows: Vec<f64> = (0..n).map(|row| 300.0 * row as f64).collect();
        let mut cols: Vec<f64> = rows.iter().map(|log| -log).collect();
        assert!(balanced_scaling(&rows, &cols).1 > 0);
        let cancel = CancelFlag::new();
        draw_together(&a, log_entry, &matched, [&mut rows, &mut cols], &cancel).unwrap();
        assert_eq!(balanced_scaling(&rows, &cols).1, 0);
        for row in 0..n {
            for p in a.range(row) {
                let log = rows[row] + cols[a.idx()[p] as usize] + log_entry(row, p);
                assert!(log <= 1e-9 && (p != matched[row] || log == 0.0), "{log}");
            }
        }
        // Nothing can be done where the entries force them apart.
        let forced = |row: usize, p: usize| -log_entry(row, p);
        let mut rows: Vec<f64> = (0..n).map(|row| -300.0 * row as f64).collect();
        let mut cols: Vec<f64> = rows.iter().map(|log| -log).collect();
        draw_together(&a, forced, &matched, [&mut rows, &mut cols], &cancel).unwrap();
        let steps = rows.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(steps.into_iter().all(|step| (step + 300.0).abs() < 1e-6));
    }

    /// Factors 2^(±300·i) in a chain whose entries beside the diagonal let each row be at most 2³⁰⁰ times the one before.
    #[test]
    fn sweeps_go_to_and_fro() {
        let drawn = |n: usize| {
            let ptr = (0..=n as u64).map(|i| (2 * i).saturating_sub(1)).collect();
            let idx = (0..n as u32).flat_map(|i| i.saturating_sub(1)..=i);
            let a = CompressedPattern::new(n, ptr, idx.collect()).unwrap();
            let matched: Vec<usize> = (0..n).map(|row| a.range(row).end - 1).collect();
            let log_entry = |row: usize, p: usize| if p == matched[row] { 0.0 } else { -300.0 };
            let mut rows: Vec<f64> = (0..n).map(|row| 300.0 * row as f64).collect();
            let mut cols: Vec<f64> = rows.iter().map(|log| -log).collect();
            let logs = [&mut rows[..], &mut cols[..]];
            draw_together(&a, log_entry, &matched, logs, &CancelFlag::new()).unwrap();
            assert!(rows.iter().zip(&cols).all(|(row, col)| *row == -col));
            rows
        };
        // To: the first rows follow the first one. Of the others, which go on from 150, only the last is free.
        let to = [0.0, 0.0, 0.0, 0.0, 150.0, 450.0, 750.0, 0.0];
        assert_eq!(drawn(8), to);
        // Where these are not in range yet, they follow the last one on the way back.
        assert_eq!(drawn(11), [0.0; 11]);
    }

    #[test]
    fn clamped_factors_are_counted_one_by_one() {
        let count = |rows: &[f64], cols: &[f64]| balanced_scaling(rows, cols).1;
        // The shift of −750 brings all to 2^±750.
        assert_eq!(count(&[0.0, 1500.0], &[0.0, 0.0]), 0);
        // By −1500: both rows and both columns.
        assert_eq!(count(&[0.0, 3000.0], &[0.0, 0.0]), 4);
        // By −1025: rows at −1025, −25, 1025 and columns at 1025, 5.
        assert_eq!(count(&[0.0, 1000.0, 2050.0], &[0.0, -1020.0]), 3);
        // Nothing to shift: the largest exponent is not clamped yet, one more is.
        assert_eq!(count(&[1021.0, -1021.0], &[1021.0, -1021.0]), 0);
        assert_eq!(count(&[1022.0, -1021.0], &[1022.0, -1021.0]), 2);
        assert_eq!(count(&[1021.0, -1022.0], &[1021.0, -1022.0]), 2);
        // Only the columns, at one end.
        assert_eq!(count(&[0.0], &[1400.0, -1400.0, 3.0]), 2);
        assert_eq!(count(&[], &[]), 0);
    }
}
