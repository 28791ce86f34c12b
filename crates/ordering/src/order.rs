//! The ordering phase as the solver calls it: matching, scaling, block triangular form and a
//! fill-reducing order, chosen by predicted cost.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Instant;

use luge_sparse::{CancelFlag, CompressedPattern, Scaling};

use crate::block_order::{Clock, MIN_DISSECTION};
use crate::btf::find_blocks;
use crate::candidate::{Candidate, candidate, one_block};
use crate::elimination::predict;
use crate::equilibrate::equilibrate_by_averages;
use crate::error::{OrderingError, check_finite};
use crate::graph::BlockPattern;
use crate::matching::{ProductMatching, check_rank, check_square, fill_holes, match_by_product};
use crate::options::{Matching, Method, MethodUsed, Ordering, OrderingOptions, OrderingSeconds};
use crate::parts::{WORTH_SHARING, by_parts, join_if};
use crate::survey::{Survey, survey};

/// `Auto` matches by value if more than one in so many diagonal entries is poor. If no more are missing, the block form is
/// found for rows that are moved to fill just these places, so that it need not wait for the matching.
const MAX_POOR: usize = 50;

/// `Auto` does not match matrices smaller than this by value if their scale is even: pivots are found in
/// them for less.
const MIN_PRODUCT: usize = 64;

/// Largest values of rows, or of columns, that are within this power of two have an even scale.
const EVEN_SPAN: i16 = 64;

/// `Auto` does not use a matching if the factors of the rows, or of the columns, that come with it are
/// further apart than this: what is small in a column of B would be large in a row of A.
const WILDEST_SPAN: f64 = (1u128 << 100) as f64;

/// `Auto` moves rows back from the matching only for a saving of at least this factor in
/// operations (or seconds, by a [`TreeCost`]), because the matched diagonal is the safer pivot.
const UNMATCHED_ADVANTAGE: f64 = 0.8;

/// Bytes of the heap that [`order()`] takes at most for each column and for each entry of the matrix, its result included,
/// beside what [`OrderingOptions::memory`] reserves. Measured on circuits, power flow, grids, finite elements, bases and Markov
/// chains, with and without a matching by value and with one and several threads: at most 203 bytes for each column
/// beside 30 for each entry. The rest is for METIS, whose memory comes from the C library, and which runs when minimum degree
/// has given its back.
pub const PEAK_BYTES: [u64; 2] = [240, 36];

/// Orders the square matrix with CSR pattern `a` and, in the same order, `values` (none: pattern
/// only, then there is neither a largest product nor a scaling).
///
/// [`Matching::Auto`] looks for a matching of largest product if there are at least 64 columns, or the
/// largest values of rows or columns are more than 2⁶⁴ apart, and more
/// than a fiftieth of them have a diagonal entry that is missing, zero, or, scaled, below 2⁻¹⁰ of the largest in its column.
/// A matching whose scaling factors span more than 2¹⁰⁰ is not used.
/// Otherwise the diagonal stays as it is, and if it has holes, a maximum-cardinality matching fills them.
///
/// [`Method::Auto`] orders every diagonal block by approximate minimum degree. If the block has at least
/// 500 columns and the factorizations that the order will serve (see [`Costs`](crate::Costs)) are predicted to take
/// much longer than a nested dissection, that is tried too, and the order with fewer predicted
/// operations is kept, nested dissection on a tie since its tree is wider. If the matching of largest
/// product moved rows although every scaled diagonal entry is at least
/// [`diagonal_threshold`](OrderingOptions::diagonal_threshold), it does all of this again for the
/// rows in their old places, and takes that if it needs less than 0.8 times the operations. The
/// scaling is the matching's in both cases.
///
/// With a [`TreeCost`](crate::TreeCost), blocks of at least 500 columns are ordered by nested dissection, and minimum degree is
/// tried only if a twentieth of what the factorizations are predicted to take is more than it takes itself; the order with
/// the cheaper tree is then kept. Smaller blocks are ordered by minimum degree.
///
/// Orders by approximate minimum degree and nested dissection are postordered along their
/// elimination tree. The result does not depend on the number of threads.
///
/// # Errors
///
/// [`OrderingError`]: not square, a value that is not finite, structurally singular, numerically
/// singular because of stored zeros (if there are values), cancelled; from a forced method, a
/// graph too large for it.
///
/// # Panics
///
/// If there is not one value per entry, or a user permutation has another length than n.
#[track_caller]
pub fn order(
    a: &CompressedPattern,
    values: Option<&[f64]>,
    options: &OrderingOptions,
) -> Result<Ordering, OrderingError> {
    let start = Instant::now();
    if let Some(values) = values {
        assert_eq!(values.len(), a.nnz(), "one value per entry of the pattern");
    }
    check_square(a)?;
    let n = a.major_dim();
    if let Method::User { rows, cols } = &options.method {
        assert_eq!(
            (rows.len(), cols.len()),
            (n, n),
            "user permutations of another length"
        );
    }
    // What was left half done because of the flag is not taken for whole when the flag is lowered.
    let options = &OrderingOptions {
        cancel: options.cancel.child(),
        ..options.clone()
    };
    options.cancel.check()?;
    let mut seconds = OrderingSeconds::default();
    let is_user = matches!(options.method, Method::User { .. });
    let parallel = options.threads > 1;
    let is_unmoved = |rows: &[u32]| rows.iter().enumerate().all(|(i, &row)| i == row as usize);
    let early_cancel = options.cancel.child();
    // Rows with a full diagonal: those of the pattern, if few must move; and those of the values, if the diagonal has holes
    // and zeros make it uncertain that they are the same.
    let rows_by_pattern: OnceLock<Option<Vec<u32>>> = OnceLock::new();
    let rows_by_value: OnceLock<Vec<u32>> = OnceLock::new();
    // Which entries stand on the diagonal changes no block, as long as it is full.
    let find_form = || {
        let mut clock = Clock::start(n);
        let find_rows = || {
            let is_of_use = options.block_triangular && !is_user;
            is_of_use
                .then(|| rows_nearly_unmoved(a, parallel, &options.cancel))
                .flatten()
        };
        let rows = rows_by_pattern.get_or_init(find_rows).as_ref();
        let form = rows.and_then(|rows| find_blocks(a, rows, parallel, &options.cancel).ok());
        let seconds = clock.lap();
        // Mostly no rows are matched by value, or they stay where they are, too. Then this is the order.
        let early = rows
            .filter(|_| parallel && n >= MIN_DISSECTION)
            .filter(|&rows| rows_by_value.get().is_none_or(|matched| matched == rows))
            .and_then(|rows| {
                let options = OrderingOptions {
                    cancel: early_cancel.clone(),
                    ..options.clone()
                };
                candidate(a, rows, form.as_ref(), &options).ok()
            });
        (form, early, seconds)
    };
    let is_wild = |matching: &ProductMatching| {
        options.matching == Matching::Auto && matching.scaling.span() > WILDEST_SPAN
    };
    let match_rows = || {
        let mut clock = Clock::start(n);
        let is_always = options.matching == Matching::Always && !is_user;
        let no_early = |_: &OrderingError| early_cancel.cancel();
        let survey = match values {
            Some(values) if is_always => {
                check_finite(a, values).inspect_err(no_early)?;
                None
            }
            Some(values) => Some(survey(a, values, &options.cancel).inspect_err(no_early)?),
            None => None,
        };
        let by_product = match &survey {
            Some(survey) if options.matching == Matching::Auto => !is_user && is_poor(n, survey),
            Some(_) => false,
            None => is_always,
        };
        let found = values
            .filter(|_| by_product)
            .map(|values| match_by_product(a, values, options.threads > 1, &options.cancel))
            .transpose()
            .inspect_err(no_early)?;
        let matching_refused = found.as_ref().is_some_and(is_wild);
        let found = found.filter(|_| !matching_refused);
        let mut is_early = found.as_ref().is_none_or(|m| is_unmoved(&m.row_of_col));
        let is_by_value = |survey: &Survey| survey.num_missing > 0 && survey.has_zeros;
        if found.is_none() && survey.as_ref().is_some_and(is_by_value) {
            let rows = check_rank(a, values, &options.cancel).inspect_err(no_early)?;
            let rows = rows_by_value.get_or_init(|| rows);
            // If neither of the two is there when the other is looked for, an early order may be made in vain.
            let by_pattern = rows_by_pattern.get().and_then(Option::as_ref);
            is_early = by_pattern.is_none_or(|by_pattern| by_pattern == rows);
        }
        if !is_early {
            early_cancel.cancel();
        }
        options.cancel.check()?;
        let scaling = match (&survey, values) {
            (Some(_), _) if found.is_some() => None,
            (Some(_), Some(values)) if options.averaged => {
                Some(equilibrate_by_averages(a, values, &options.cancel)?)
            }
            (survey, _) => survey.as_ref().map(Survey::scaling),
        };
        Ok::<_, OrderingError>((survey, found, matching_refused, scaling, clock.lap()))
    };
    let (matched, (form, early, form_seconds)) = join_if(parallel, match_rows, find_form);
    options.cancel.check()?;
    let (survey, found, matching_refused, scaling, matching_seconds) = matched?;
    let mut clock = Clock::start(n);
    let early_rows = rows_by_pattern.into_inner().flatten();
    let (matched_rows, log10_matching_product, scaling) = match (found, &survey) {
        (Some(matching), _) => (
            matching.row_of_col,
            Some(matching.log10_product),
            Some(matching.scaling),
        ),
        (None, Some(survey)) if survey.num_missing == 0 => ((0..n as u32).collect(), None, scaling),
        (None, _) => {
            // Without zeros, what the pattern alone gives is what the values give.
            let rows = match (rows_by_value.into_inner(), &early_rows) {
                (Some(rows), _) => rows,
                (None, Some(rows)) => rows.clone(),
                (None, None) => check_rank(a, values, &options.cancel)?,
            };
            (rows, None, scaling)
        }
    };
    let scaling = scaling
        .filter(|_| options.scaling)
        .unwrap_or_else(|| Scaling::identity(n, n));
    seconds.matching = matching_seconds + clock.lap();
    seconds.block_triangular = form_seconds;

    if let Method::User { rows, cols } = &options.method {
        let mut row_of_col = vec![0; n];
        for (&row, &col) in rows.as_slice().iter().zip(cols.as_slice()) {
            row_of_col[col as usize] = row;
        }
        let inverse = cols.inverse();
        let cancel = &options.cancel;
        let cols_of = cols.as_slice();
        let block = BlockPattern::new(a, &row_of_col, cols_of, &inverse, 0, parallel, cancel)?;
        let identity: Vec<u32> = (0..n as u32).collect();
        seconds.total = start.elapsed().as_secs_f64();
        return Ok(Ordering {
            row_perm: rows.clone(),
            col_perm: cols.clone(),
            scaling,
            block_ptr: one_block(n),
            structural_rank: n,
            rows_matched: false,
            log10_matching_product: None,
            matching_refused: false,
            method_used: MethodUsed::User,
            predicted: predict(&block, &identity, cancel)?,
            blocks: Vec::new(),
            forest: None,
            block_forests: Vec::new(),
            seconds,
        });
    }

    let move_rows = options.matching != Matching::Never || options.block_triangular;
    let unmoved = || (0..n as u32).collect::<Vec<_>>();
    options.cancel.check()?;
    let first_rows = if move_rows { matched_rows } else { unmoved() };
    let try_unmoved = options.method == Method::Auto
        && log10_matching_product.is_some()
        && values.is_some_and(|values| {
            diagonal_is_large(a, values, &scaling, options.diagonal_threshold)
        })
        && !is_unmoved(&first_rows);
    // The early order serves the one or the other.
    let (early_first, early_second) = match &early_rows {
        Some(rows) if *rows == first_rows => (early, None),
        Some(rows) if is_unmoved(rows) => (None, early),
        _ => (None, None),
    };
    let ordered = |early: Option<Candidate>, rows: &[u32]| {
        early.map_or_else(|| candidate(a, rows, form.as_ref(), options), Ok)
    };
    let by_first = || ordered(early_first, &first_rows);
    let by_second = || try_unmoved.then(|| ordered(early_second, &unmoved()));
    let (first, second) = join_if(try_unmoved && parallel, by_first, by_second);
    let mut best = first?;
    seconds.add(&best.seconds);
    if let Some(second) = second {
        let second = second?;
        seconds.add(&second.seconds);
        tracing::debug!(
            matched_flops = best.predicted.flops,
            unmatched_flops = second.predicted.flops,
            "candidates with and without matching"
        );
        let cost = |candidate: &Candidate| match (&options.tree_cost, &candidate.forest) {
            (Some(cost), Some(forest)) => cost.seconds(forest),
            _ => candidate.predicted.flops,
        };
        if cost(&second) < UNMATCHED_ADVANTAGE * cost(&best) {
            best = second;
        }
    }
    seconds.total = start.elapsed().as_secs_f64();
    tracing::debug!(
        n,
        nnz = a.nnz(),
        blocks = best.block_ptr.len() - 1,
        method = ?best.method_used,
        factor_nnz = best.predicted.factor_nnz(n),
        flops = best.predicted.flops,
        seconds = seconds.total,
        "ordered"
    );
    Ok(Ordering {
        rows_matched: best.row_perm.as_slice() != best.col_perm.as_slice(),
        row_perm: best.row_perm,
        col_perm: best.col_perm,
        scaling,
        block_ptr: best.block_ptr,
        structural_rank: n,
        log10_matching_product,
        matching_refused,
        method_used: best.method_used,
        predicted: best.predicted,
        blocks: best.blocks,
        forest: best.forest,
        block_forests: best.block_forests,
        seconds,
    })
}

/// Whether so many diagonal entries are no pivots that rows had better be moved by value.
fn is_poor(n: usize, survey: &Survey) -> bool {
    let is_easy = n < MIN_PRODUCT && survey.span() <= EVEN_SPAN;
    !is_easy && MAX_POOR * (survey.num_missing + survey.num_poor) > n
}

/// Whether every entry on A's own diagonal is there and, scaled, at least `threshold`.
fn diagonal_is_large(
    a: &CompressedPattern,
    values: &[f64],
    scaling: &Scaling,
    threshold: f64,
) -> bool {
    (0..a.major_dim()).all(|i| {
        a.line(i).binary_search(&(i as u32)).is_ok_and(|k| {
            let value = values[a.range(i).start + k];
            value != 0.0 && scaling.apply(i, i, value).abs() >= threshold
        })
    })
}

/// Rows with an entry on every position of the diagonal, if nearly all of them are in their places.
fn rows_nearly_unmoved(
    a: &CompressedPattern,
    parallel: bool,
    cancel: &CancelFlag,
) -> Option<Vec<u32>> {
    let n = a.major_dim();
    let is_missing = |&i: &usize| a.line(i).binary_search(&(i as u32)).is_err();
    let find_holes = |rows: Range<usize>| -> Vec<u32> {
        let holes = rows.filter(is_missing).map(|i| i as u32);
        holes.collect()
    };
    let holes = by_parts(n, 8192, parallel && n >= WORTH_SHARING, find_holes).concat();
    match holes.len() {
        0 => Some((0..n as u32).collect()),
        count if count * MAX_POOR <= n => fill_holes(a, &holes, cancel).ok()?.into_perfect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use luge_testkit::strategies::pattern_from;

    use super::*;

    #[test]
    fn rows_that_are_mostly_not_in_their_places_are_not_looked_for() {
        let never = CancelFlag::new();
        // Rows moved down by one, so that all, or an even row and its successor exchanged, so that few diagonals are missing.
        let n = 400;
        let moved = pattern_from(n, (0..n as u32).map(|i| (i, (i + 1) % n as u32)));
        assert_eq!(rows_nearly_unmoved(&moved, false, &never), None);
        let exchanged = |i: u32| if i < 2 { 1 - i } else { i };
        let few = pattern_from(n, (0..n as u32).map(|i| (i, exchanged(i))));
        let rows: Vec<u32> = (0..n as u32).map(exchanged).collect();
        assert_eq!(rows_nearly_unmoved(&few, false, &never), Some(rows));
    }

    #[test]
    fn rows_are_moved_by_value_where_many_pivots_are_poor() {
        let never = CancelFlag::new();
        // Ones on the diagonal and right of it, but for the first diagonal entries: tiny ones, then zeros. The first
        // row is multiplied by a power of two.
        let is_poor = |n: usize, num_poor: usize, num_missing: usize, exponent: i32| {
            let places = (0..n as u32).flat_map(|i| [(i, i), (i, (i + 1) % n as u32)]);
            let a = pattern_from(n, places);
            let mut values = Vec::new();
            for (i, line) in a.lines().enumerate() {
                let scale = if i == 0 { 2f64.powi(exponent) } else { 1.0 };
                let diagonal = match i {
                    _ if i < num_poor => 1e-9,
                    _ if i < num_poor + num_missing => 0.0,
                    _ => 1.0,
                };
                let value = |&j: &u32| if j as usize == i { diagonal } else { 1.0 };
                values.extend(line.iter().map(|j| scale * value(j)));
            }
            super::is_poor(n, &survey(&a, &values, &never).unwrap())
        };
        // More than one in fifty.
        assert!(!is_poor(100, 2, 0, 0));
        assert!(!is_poor(100, 1, 1, 0));
        assert!(!is_poor(100, 0, 2, 0));
        assert!(is_poor(100, 3, 0, 0));
        assert!(is_poor(100, 1, 2, 0));
        assert!(is_poor(100, 0, 3, 0));
        // Small matrices of even scale are left alone.
        assert!(!is_poor(63, 60, 0, 64));
        assert!(is_poor(63, 60, 0, 65));
        assert!(is_poor(63, 60, 0, -65));
        assert!(is_poor(64, 60, 0, 0));
    }

    #[test]
    fn seconds_of_all_steps_are_summed() {
        let mut sum = OrderingSeconds {
            matching: 1.0,
            block_triangular: 2.0,
            amd: 3.0,
            colamd: 4.0,
            nested_dissection: 5.0,
            total: 6.0,
        };
        sum.add(&OrderingSeconds {
            matching: 10.0,
            block_triangular: 20.0,
            amd: 30.0,
            colamd: 40.0,
            nested_dissection: 50.0,
            total: 60.0,
        });
        let expected = OrderingSeconds {
            matching: 11.0,
            block_triangular: 22.0,
            amd: 33.0,
            colamd: 44.0,
            nested_dissection: 55.0,
            // Of the whole phase, measured once.
            total: 6.0,
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn holes_are_filled_alike_on_any_number_of_threads() {
        let n = 200;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build();
        let pool = pool.unwrap();
        for hole in 0..n {
            for holes in [vec![], vec![hole], vec![hole, (hole + 1) % n]] {
                let (mut ptr, mut idx) = (vec![0], Vec::new());
                for i in 0..n {
                    let mut line = vec![(i + 1) % n, (i + n - 1) % n, (i * i + 3) % n];
                    line.retain(|&j| j != i);
                    if !holes.contains(&i) {
                        line.push(i);
                    }
                    line.sort_unstable();
                    line.dedup();
                    idx.extend(line.into_iter().map(|j| j as u32));
                    ptr.push(idx.len() as u64);
                }
                let a = CompressedPattern::new(n, ptr, idx).unwrap();
                let never = CancelFlag::new();
                let expected = crate::maximum_cardinality(&a, &never).unwrap();
                let expected = expected.into_perfect();
                assert!(expected.is_some());
                assert_eq!(rows_nearly_unmoved(&a, false, &never), expected);
                let shared = pool.install(|| rows_nearly_unmoved(&a, true, &never));
                assert_eq!(shared, expected);
            }
        }
    }
}
