//! The ordering phase as the solver calls it: matching, scaling, block triangular form and a
//! fill-reducing order, chosen by predicted cost.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use luge_sparse::etree::{EliminationForest, NONE};
use luge_sparse::{CancelFlag, ColPerm, CompressedPattern, RowPerm, Scaling};
use rayon::prelude::*;
use serde::Serialize;
use smallvec::SmallVec;

use crate::btf::{BlockTriangular, find_blocks};
use crate::column_degree::column_minimum_degree;
use crate::cost::{Costs, Prediction, TreeCost};
use crate::dissection::reduced_nested_dissection;
use crate::elimination::{postorder, predict};
use crate::error::{OrderingError, check_finite};
use crate::graph::{BlockPattern, Graph};
use crate::matching::{ProductMatching, check_rank, check_square, fill_holes, match_by_product};
use crate::minimum_degree::{fits, minimum_degree, with_spare_room};
use crate::parts::{WORTH_SHARING, by_parts, join_if};
use crate::survey::{Survey, survey};

/// How columns are ordered to keep fill low.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Method {
    /// Approximate minimum degree or nested dissection, whichever is predicted to factorize faster;
    /// see [`order`] for the rule.
    #[default]
    Auto,
    /// Approximate minimum degree on B + Bᵀ.
    Amd,
    /// Column approximate minimum degree: keeps fill low whatever rows partial pivoting chooses.
    Colamd,
    /// Nested dissection of what is left of B + Bᵀ after vertices of low degree are eliminated, on several threads.
    NestedDissection,
    /// Nested dissection of all of B + Bᵀ by METIS 5, for comparison: serial, and not stopped by a cancel flag. Needs the
    /// feature `metis`, without which it is refused with [`OrderingError::FeatureOff`]; [`Auto`](Self::Auto) never takes it.
    Metis,
    /// No reordering inside the diagonal blocks.
    Natural,
    /// These permutations as they are: no matching, no block triangular form.
    User {
        /// Row permutation, new to old.
        rows: RowPerm,
        /// Column permutation, new to old.
        cols: ColPerm,
    },
}

/// Whether rows are moved to put large entries on the diagonal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// For pivots that are searched: rows stay where they are as long as the diagonal entries are there
    /// and are mostly large enough in their columns to be taken as pivots. Where only few entries are
    /// missing, few rows move; otherwise as `Always`. See [`order`] for the rule.
    #[default]
    Auto,
    /// For static pivots: the product of the diagonal is made as large as possible; without values,
    /// the diagonal is made free of zeros.
    Always,
    /// Rows keep their place, unless the block triangular form needs entries on the diagonal that are
    /// not there.
    Never,
}

/// What [`order`] does. Each field has a method of its name, which sets it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OrderingOptions {
    /// The fill-reducing method.
    pub method: Method,
    /// Whether rows are moved to put large entries on the diagonal.
    pub matching: Matching,
    /// Scale rows and columns: by the duals of the matching if there is one of largest product,
    /// otherwise by powers of two that bring the largest entry of every row and column to [1, 2).
    pub scaling: bool,
    /// Permute to block triangular form.
    pub block_triangular: bool,
    /// After a matching of largest product, [`Method::Auto`] also tries the rows in their old places
    /// if every diagonal entry, scaled with the matching's factors, is at least this large. In [0, 1];
    /// infinite: never.
    pub diagonal_threshold: f64,
    /// What the choice of a method assumes about the machine.
    pub costs: Costs,
    /// Predicts, in place of `costs`, what a factorization takes; the choice is then between trees.
    pub tree_cost: Option<Arc<dyn TreeCost>>,
    /// 1: no other thread is used; more: candidates run in parallel on the current rayon pool where
    /// they take long. The result is the same.
    pub threads: usize,
    /// Stops the phase within milliseconds. METIS cannot be stopped: it works on a thread of its own, and the phase
    /// leaves it behind when this is raised. It goes on until it is done, and the next call of METIS in the process waits
    /// for it.
    pub cancel: CancelFlag,
}

impl Default for OrderingOptions {
    fn default() -> Self {
        Self {
            method: Method::Auto,
            matching: Matching::Auto,
            scaling: true,
            block_triangular: true,
            diagonal_threshold: 0.1,
            costs: Costs::default(),
            tree_cost: None,
            threads: 1,
            cancel: CancelFlag::new(),
        }
    }
}

luge_sparse::setters!(OrderingOptions {
    method: Method,
    matching: Matching,
    scaling: bool,
    block_triangular: bool,
    diagonal_threshold: f64,
    costs: Costs,
    threads: usize,
    cancel: CancelFlag,
});

impl OrderingOptions {
    /// Sets [`tree_cost`](field@Self::tree_cost).
    #[must_use]
    pub fn tree_cost(mut self, tree_cost: Option<Arc<dyn TreeCost>>) -> Self {
        self.tree_cost = tree_cost;
        self
    }
}

/// The method that ordered the columns in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodUsed {
    /// Approximate minimum degree, or nothing to choose (blocks of at most two columns).
    Amd,
    /// Column approximate minimum degree.
    Colamd,
    /// Nested dissection of what was left after vertices of low degree were eliminated.
    NestedDissection,
    /// Nested dissection by METIS.
    Metis,
    /// Nested dissection for some diagonal blocks, approximate minimum degree for others.
    AmdAndNestedDissection,
    /// No reordering.
    Natural,
    /// The caller's permutations.
    User,
}

/// Wall-clock seconds of the steps. Steps of several candidates, which may overlap, are summed. Steps
/// of matrices of fewer than 64 columns are not measured: reading the clock would take as long.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct OrderingSeconds {
    /// A look at the values; structural rank, the matching and the scaling.
    pub matching: f64,
    /// Block triangular form.
    pub block_triangular: f64,
    /// Approximate minimum degree of the diagonal blocks, with the patterns of those that are ordered by
    /// it first, and its prediction.
    pub amd: f64,
    /// Column approximate minimum degree, likewise.
    pub colamd: f64,
    /// Nested dissection, likewise.
    pub nested_dissection: f64,
    /// The whole phase.
    pub total: f64,
}

impl OrderingSeconds {
    fn add(&mut self, other: &Self) {
        self.matching += other.matching;
        self.block_triangular += other.block_triangular;
        self.amd += other.amd;
        self.colamd += other.colamd;
        self.nested_dissection += other.nested_dissection;
    }
}

/// How one diagonal block of more than one column was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BlockReport {
    /// Number of the block: its columns are `block_ptr[block]..block_ptr[block + 1]`.
    pub block: usize,
    /// The method whose order was taken.
    pub method: MethodUsed,
    /// Predicted size and cost of its factors.
    pub predicted: Prediction,
}

/// The permuted and scaled matrix B = P·(Dr·A·Dc)·Q, and what it will cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Ordering {
    /// P: row `i` of B is row `row_perm[i]` of A.
    pub row_perm: RowPerm,
    /// Q: column `j` of B is column `col_perm[j]` of A.
    pub col_perm: ColPerm,
    /// Dr and Dc, in A's order.
    pub scaling: Scaling,
    /// Diagonal blocks of B, one more offset than there are blocks; no entry lies below them. One
    /// block (none if n = 0) when the block triangular form was not asked for.
    pub block_ptr: Vec<usize>,
    /// Structural rank of A: n, anything less is an error.
    pub structural_rank: usize,
    /// Whether rows were moved to put large (or any) entries on the diagonal.
    pub rows_matched: bool,
    /// log10 of the product of the matched entries, if a matching of largest product was used.
    pub log10_matching_product: Option<f64>,
    /// Whether [`Matching::Auto`] found such a matching and did not use it, for its scaling is too wild.
    pub matching_refused: bool,
    /// What ordered the columns.
    pub method_used: MethodUsed,
    /// Predicted size and cost of the factors.
    pub predicted: Prediction,
    /// The diagonal blocks of more than one column; none with the caller's permutations.
    pub blocks: Vec<BlockReport>,
    /// The elimination forest of B + Bᵀ in the diagonal blocks, of which B's columns are a postorder. Only if a
    /// [`TreeCost`] was given, and the columns were ordered by minimum degree or nested dissection.
    pub forest: Option<EliminationForest>,
    /// Time per step.
    pub seconds: OrderingSeconds,
}

/// Blocks smaller than this are not worth dissecting.
const MIN_DISSECTION: usize = 500;

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

/// Diagonal blocks of at least so many columns are ordered side by side.
const MIN_SHARED: usize = 200;

/// Diagonal blocks between two looks at the cancel flag.
const STRIDE: usize = 1 << 10;

/// From so many columns on the steps are timed.
const MIN_TIMED: usize = 64;

/// The most of a factorization by minimum degree that nested dissection is hoped to save.
const MOST_SAVED: f64 = 0.5;

/// With a [`TreeCost`], the share of a factorization by nested dissection that minimum degree is hoped to
/// save. On 19 circuits, power flow problems and grids of 8 000 to 230 000 columns its trees are predicted to take 1.06 to
/// 5.3 times as long, in geometric mean twice as long; on graphs that are trees they may be some percent cheaper.
const MOST_SAVED_IN_TREE: f64 = 0.05;

/// `Auto` moves rows back from the matching only for a saving of at least this factor in
/// operations (or seconds, by a [`TreeCost`]), because the matched diagonal is the safer pivot.
const UNMATCHED_ADVANTAGE: f64 = 0.8;

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
/// 500 columns and the factorizations that the order will serve (see [`Costs`]) are predicted to take
/// much longer than a nested dissection, that is tried too, and the order with fewer predicted
/// operations is kept, nested dissection on a tie since its tree is wider. If the matching of largest
/// product moved rows although every scaled diagonal entry is at least
/// [`diagonal_threshold`](OrderingOptions::diagonal_threshold), it does all of this again for the
/// rows in their old places, and takes that if it needs less than 0.8 times the operations. The
/// scaling is the matching's in both cases.
///
/// With a [`TreeCost`], blocks of at least 500 columns are ordered by nested dissection, and minimum degree is
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
        let scaling = survey
            .as_ref()
            .filter(|_| found.is_none())
            .map(Survey::scaling);
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
        a.lane(i).binary_search(&(i as u32)).is_ok_and(|k| {
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
    let is_missing = |&i: &usize| a.lane(i).binary_search(&(i as u32)).is_err();
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

fn one_block(n: usize) -> Vec<usize> {
    if n == 0 { vec![0] } else { vec![0, n] }
}

/// One choice of the rows on the diagonal, with the columns ordered.
struct Candidate {
    row_perm: RowPerm,
    col_perm: ColPerm,
    block_ptr: Vec<usize>,
    method_used: MethodUsed,
    predicted: Prediction,
    blocks: Vec<BlockReport>,
    forest: Option<EliminationForest>,
    seconds: OrderingSeconds,
}

fn candidate(
    a: &CompressedPattern,
    row_of_col: &[u32],
    form: Option<&BlockTriangular>,
    options: &OrderingOptions,
) -> Result<Candidate, OrderingError> {
    options.cancel.check()?;
    let n = a.major_dim();
    let mut seconds = OrderingSeconds::default();
    let mut clock = Clock::start(n);
    let (mut perm, new_col, block_ptr) = if options.block_triangular {
        let form = match form {
            Some(form) => form.clone(),
            None => find_blocks(a, row_of_col, options.threads > 1, &options.cancel)?,
        };
        let new_col = form.perm.inverse();
        (form.perm.into_vec(), new_col, form.block_ptr)
    } else {
        let identity: Vec<u32> = (0..n as u32).collect();
        (identity.clone(), identity, one_block(n))
    };
    seconds.block_triangular = clock.lap();

    let mut predicted = Prediction::default();
    let mut block_nnz = 0;
    let mut blocks = Vec::new();
    let mut forest = options.tree_cost.as_ref().map(|_| EliminationForest {
        parent: Vec::with_capacity(n),
        counts: Vec::with_capacity(n),
    });
    let order_columns = |start: usize, cols: &[u32], clock: &mut Clock| {
        options.cancel.check()?;
        let mut seconds = OrderingSeconds::default();
        let (parallel, cancel) = (options.threads > 1, &options.cancel);
        let block = BlockPattern::new(a, row_of_col, cols, &new_col, start, parallel, cancel)?;
        cancel.check()?;
        let ordered = order_block(&block, options, &mut seconds, clock)?;
        Ok::<_, OrderingError>((ordered, block.nnz(), seconds))
    };
    // Blocks that are large enough to share are ordered first.
    let mut shared = Vec::new();
    if options.threads > 1 {
        let is_large = |ends: &&[usize]| ends[1] - ends[0] >= MIN_SHARED;
        let large: Vec<&[usize]> = block_ptr.windows(2).filter(is_large).collect();
        if large.len() > 1 {
            let by_task = large.into_par_iter().map(|ends| {
                let cols = &perm[ends[0]..ends[1]];
                order_columns(ends[0], cols, &mut Clock::start(n))
            });
            shared = by_task.collect();
        }
    }
    let mut shared = shared.into_iter();
    clock.lap();
    for (number, ends) in block_ptr.windows(2).enumerate() {
        let (start, size) = (ends[0], ends[1] - ends[0]);
        if number.is_multiple_of(STRIDE) {
            options.cancel.check()?;
        }
        if size == 1 {
            predicted.add_front(1, 0);
            block_nnz += 1;
            if let Some(forest) = &mut forest {
                forest.parent.push(NONE);
                forest.counts.push(1);
            }
            continue;
        }
        if size == 2 && is_full_pair(a, row_of_col, &perm[start..start + 2]) {
            let mut of_pair = Prediction::default();
            of_pair.add_front(2, 0);
            predicted += of_pair;
            block_nnz += 4;
            if let Some(forest) = &mut forest {
                forest.parent.extend([start as u32 + 1, NONE]);
                forest.counts.extend([2, 1]);
            }
            blocks.push(BlockReport {
                block: number,
                method: match options.method {
                    Method::Colamd => MethodUsed::Colamd,
                    Method::NestedDissection => MethodUsed::NestedDissection,
                    Method::Metis => MethodUsed::Metis,
                    Method::Natural => MethodUsed::Natural,
                    _ => MethodUsed::Amd,
                },
                predicted: of_pair,
            });
            continue;
        }
        let cols = &mut perm[start..start + size];
        let found = if size >= MIN_SHARED {
            shared.next()
        } else {
            None
        };
        let (ordered, nnz, of_block) = match found {
            Some(found) => found,
            None => order_columns(start, cols, &mut clock),
        }?;
        seconds.add(&of_block);
        let old: SmallVec<[u32; 64]> = SmallVec::from_slice(cols);
        for (slot, &v) in cols.iter_mut().zip(&ordered.order) {
            *slot = old[v as usize];
        }
        predicted += ordered.predicted;
        block_nnz += nnz;
        forest = forest.zip(ordered.forest).map(|(mut all, of_block)| {
            if start == 0 {
                return of_block;
            }
            let parents = of_block.parent.iter();
            all.parent.extend(parents.map(|&p| match p {
                NONE => NONE,
                p => p + start as u32,
            }));
            all.counts.extend(&of_block.counts);
            all
        });
        blocks.push(BlockReport {
            block: number,
            method: ordered.method,
            predicted: ordered.predicted,
        });
    }
    predicted.off_diagonal_nnz = (a.nnz() - block_nnz) as u64;
    let of_larger = |method| {
        // What orders a tiny block says nothing about the method.
        let is_large = |block: &&BlockReport| block.predicted.lnz > 3;
        blocks
            .iter()
            .filter(is_large)
            .any(|block| block.method == method)
    };
    let method_used = match options.method {
        Method::Amd => MethodUsed::Amd,
        Method::NestedDissection => MethodUsed::NestedDissection,
        Method::Metis => MethodUsed::Metis,
        Method::Colamd => MethodUsed::Colamd,
        Method::Natural => MethodUsed::Natural,
        Method::Auto | Method::User { .. } => {
            match (
                of_larger(MethodUsed::NestedDissection),
                of_larger(MethodUsed::Amd),
            ) {
                (true, true) => MethodUsed::AmdAndNestedDissection,
                (true, false) => MethodUsed::NestedDissection,
                (false, _) => MethodUsed::Amd,
            }
        }
    };
    let valid = "blocks are reordered within themselves";
    let rows: Vec<u32> = perm.iter().map(|&col| row_of_col[col as usize]).collect();
    let (row_perm, col_perm) = join_if(
        options.threads > 1 && n >= WORTH_SHARING,
        || RowPerm::new(rows).expect(valid),
        || ColPerm::new(perm).expect(valid),
    );
    Ok(Candidate {
        row_perm,
        col_perm,
        block_ptr,
        method_used,
        predicted,
        blocks,
        forest,
        seconds,
    })
}

/// Whether all four entries of the block of these two columns are there, so that there is nothing to choose.
fn is_full_pair(a: &CompressedPattern, row_of_col: &[u32], cols: &[u32]) -> bool {
    cols.iter().all(|&col| {
        let lane = a.lane(row_of_col[col as usize] as usize);
        cols.iter().all(|col| lane.binary_search(col).is_ok())
    })
}

/// An order of the columns of one block.
struct BlockOrder {
    /// New to old, within the block.
    order: Vec<u32>,
    method: MethodUsed,
    predicted: Prediction,
    /// If it is of use, and the order is a postorder of it.
    forest: Option<EliminationForest>,
}

/// Measures one step after another; stands still for matrices of fewer than [`MIN_TIMED`] columns.
struct Clock(Option<Instant>);

impl Clock {
    fn start(n: usize) -> Self {
        Self((n >= MIN_TIMED).then(Instant::now))
    }

    /// Seconds since the last call.
    fn lap(&mut self) -> f64 {
        self.0.as_mut().map_or(0.0, |last| {
            let now = Instant::now();
            (now - std::mem::replace(last, now)).as_secs_f64()
        })
    }
}

/// Whether so many list entries are too many for the method.
fn check_size(graph: &Graph, method: &'static str) -> Result<(), OrderingError> {
    if fits(graph.len(), graph.idx.len()) {
        return Ok(());
    }
    Err(OrderingError::GraphTooLarge {
        method,
        entries: graph.idx.len(),
        limit: u32::MAX as usize / 8,
    })
}

fn by_minimum_degree(
    block: &BlockPattern,
    with_forest: bool,
    cancel: &CancelFlag,
) -> Result<BlockOrder, OrderingError> {
    let graph = block.symmetrized(false, with_spare_room);
    check_size(&graph, "approximate minimum degree")?;
    cancel.check()?;
    let found = minimum_degree(&graph.ptr, graph.idx, cancel)?;
    Ok(match found.predicted {
        Some(predicted) if !with_forest => BlockOrder {
            order: found.order,
            method: MethodUsed::Amd,
            predicted,
            forest: None,
        },
        _ => posted(block, found.order, MethodUsed::Amd, with_forest, cancel)?,
    })
}

/// With its forest, and `of_forest` of that.
fn by_dissection<T: Send>(
    block: &BlockPattern,
    parallel: bool,
    cancel: &CancelFlag,
    of_forest: impl FnOnce(&EliminationForest) -> T + Send,
) -> Result<(BlockOrder, T), OrderingError> {
    let graph = block.symmetrized(parallel, |_, entries| entries);
    check_size(&graph, "nested dissection")?;
    cancel.check()?;
    let (mut order, forest) = reduced_nested_dissection(&graph, parallel, cancel)?;
    drop(graph);
    let forest = match forest {
        Some(forest) => forest,
        None => postorder(block, &mut order, cancel)?,
    };
    cancel.check()?;
    let parallel = parallel && order.len() >= WORTH_SHARING;
    let predict = || Prediction::of_forest(&forest);
    let (predicted, found) = join_if(parallel, predict, || of_forest(&forest));
    let ordered = BlockOrder {
        order,
        method: MethodUsed::NestedDissection,
        predicted,
        forest: Some(forest),
    };
    Ok((ordered, found))
}

/// The order rearranged into a postorder.
fn posted(
    block: &BlockPattern,
    mut order: Vec<u32>,
    method: MethodUsed,
    with_forest: bool,
    cancel: &CancelFlag,
) -> Result<BlockOrder, OrderingError> {
    let forest = postorder(block, &mut order, cancel)?;
    Ok(BlockOrder {
        order,
        method,
        predicted: Prediction::of_forest(&forest),
        forest: with_forest.then_some(forest),
    })
}

/// Nested dissection of all of the graph.
#[cfg(feature = "metis")]
fn by_metis(
    block: &BlockPattern,
    with_forest: bool,
    cancel: &CancelFlag,
) -> Result<BlockOrder, OrderingError> {
    let graph = block.symmetrized(false, |_, entries| entries);
    cancel.check()?;
    let order = crate::metis::nested_dissection(graph, cancel)?;
    posted(block, order, MethodUsed::Metis, with_forest, cancel)
}

#[cfg(not(feature = "metis"))]
fn by_metis(_: &BlockPattern, _: bool, _: &CancelFlag) -> Result<BlockOrder, OrderingError> {
    Err(OrderingError::FeatureOff { feature: "metis" })
}

fn order_block(
    block: &BlockPattern,
    options: &OrderingOptions,
    seconds: &mut OrderingSeconds,
    clock: &mut Clock,
) -> Result<BlockOrder, OrderingError> {
    let cancel = &options.cancel;
    let in_order = |order: Vec<u32>, method| {
        Ok(BlockOrder {
            predicted: predict(block, &order, cancel)?,
            order,
            method,
            forest: None,
        })
    };
    let with_forest = options.tree_cost.is_some();
    match &options.method {
        Method::Colamd => {
            let columns = (0..block.len()).map(|j| block.col(j));
            let ordered = column_minimum_degree(0, columns, cancel);
            let ordered = in_order(ordered?, MethodUsed::Colamd);
            seconds.colamd += clock.lap();
            ordered
        }
        Method::Natural => in_order((0..block.len() as u32).collect(), MethodUsed::Natural),
        Method::User { .. } => unreachable!("user permutations have no candidates"),
        Method::Metis => {
            let ordered = by_metis(block, with_forest, cancel);
            seconds.nested_dissection += clock.lap();
            ordered
        }
        Method::NestedDissection => {
            let ordered = by_dissection(block, options.threads > 1, cancel, |_| ());
            seconds.nested_dissection += clock.lap();
            let (mut ordered, ()) = ordered?;
            ordered.forest = ordered.forest.filter(|_| with_forest);
            Ok(ordered)
        }
        Method::Amd => {
            let ordered = by_minimum_degree(block, with_forest, cancel);
            seconds.amd += clock.lap();
            ordered
        }
        Method::Auto => match &options.tree_cost {
            Some(cost) => order_for_tree(block, options, cost.as_ref(), seconds, clock),
            None => order_for_operations(block, options, seconds, clock),
        },
    }
}

/// The order with the fewest operations.
fn order_for_operations(
    block: &BlockPattern,
    options: &OrderingOptions,
    seconds: &mut OrderingSeconds,
    clock: &mut Clock,
) -> Result<BlockOrder, OrderingError> {
    let first = by_minimum_degree(block, false, &options.cancel)?;
    seconds.amd += clock.lap();
    if !is_worth_dissecting(block, &first, &options.costs) {
        return Ok(first);
    }
    let second = by_dissection(block, options.threads > 1, &options.cancel, |_| ());
    seconds.nested_dissection += clock.lap();
    Ok(match second {
        Ok((second, ())) => {
            tracing::debug!(
                n = block.len(),
                amd_flops = first.predicted.flops,
                nested_dissection_flops = second.predicted.flops,
                "candidates of a block"
            );
            if second.predicted.flops <= first.predicted.flops {
                BlockOrder {
                    forest: None,
                    ..second
                }
            } else {
                first
            }
        }
        Err(error @ OrderingError::Cancelled(_)) => return Err(error),
        Err(error) => {
            tracing::warn!(%error, "ordered by minimum degree alone");
            first
        }
    })
}

/// The order whose tree is predicted to take little time, found in little time.
fn order_for_tree(
    block: &BlockPattern,
    options: &OrderingOptions,
    cost: &dyn TreeCost,
    seconds: &mut OrderingSeconds,
    clock: &mut Clock,
) -> Result<BlockOrder, OrderingError> {
    if block.len() < MIN_DISSECTION {
        let only = by_minimum_degree(block, true, &options.cancel);
        seconds.amd += clock.lap();
        return only;
    }
    let estimate = |forest: &EliminationForest| cost.estimate(forest);
    let (first, about) = by_dissection(block, options.threads > 1, &options.cancel, estimate)?;
    seconds.nested_dissection += clock.lap();
    fn forest_of(order: &BlockOrder) -> &EliminationForest {
        let forest = order.forest.as_ref();
        forest.unwrap_or_else(|| unreachable!("orders for trees have forests"))
    }
    let gain = options.costs.factorizations * about * MOST_SAVED_IN_TREE;
    if gain <= options.costs.minimum_degree_seconds(2 * block.nnz()) {
        return Ok(first);
    }
    options.cancel.check()?;
    let second = by_minimum_degree(block, true, &options.cancel)?;
    seconds.amd += clock.lap();
    let [of_first, of_second] = [&first, &second].map(|order| cost.seconds(forest_of(order)));
    tracing::debug!(
        n = block.len(),
        nested_dissection_seconds = of_first,
        amd_seconds = of_second,
        "candidates of a block"
    );
    Ok(if of_second < of_first { second } else { first })
}

/// Whether nested dissection may save more than it takes.
fn is_worth_dissecting(block: &BlockPattern, by_degree: &BlockOrder, costs: &Costs) -> bool {
    let n = block.len();
    let gain = costs.factorizations * by_degree.predicted.seconds(costs) * MOST_SAVED;
    n >= MIN_DISSECTION && gain > costs.dissection_seconds(n, 2 * block.nnz())
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
            for (i, lane) in a.lanes().enumerate() {
                let scale = if i == 0 { 2f64.powi(exponent) } else { 1.0 };
                let diagonal = match i {
                    _ if i < num_poor => 1e-9,
                    _ if i < num_poor + num_missing => 0.0,
                    _ => 1.0,
                };
                let value = |&j: &u32| if j as usize == i { diagonal } else { 1.0 };
                values.extend(lane.iter().map(|j| scale * value(j)));
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
                    let mut lane = vec![(i + 1) % n, (i + n - 1) % n, (i * i + 3) % n];
                    lane.retain(|&j| j != i);
                    if !holes.contains(&i) {
                        lane.push(i);
                    }
                    lane.sort_unstable();
                    lane.dedup();
                    idx.extend(lane.into_iter().map(|j| j as u32));
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
