//! The ordering phase as the solver calls it: matching, scaling, block triangular form and a
//! fill-reducing order, chosen by predicted cost.

use std::time::Instant;

use luge_sparse::{CancelFlag, ColPerm, CompressedPattern, RowPerm, Scaling};
use serde::Serialize;

use crate::btf::block_triangular;
use crate::elimination::{Prediction, postorder_and_predict, predict};
use crate::equilibrate::equilibrate;
use crate::error::OrderingError;
use crate::fill;
use crate::graph::BlockPattern;
use crate::matching::{check_finite, check_rank, check_square, maximum_product};

/// How columns are ordered to keep fill low.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Method {
    /// Approximate minimum degree or nested dissection, whichever is predicted to need fewer
    /// operations; see [`order`] for the rule.
    #[default]
    Auto,
    /// Approximate minimum degree on B + Bᵀ.
    Amd,
    /// Column approximate minimum degree: keeps fill low whatever rows partial pivoting chooses.
    Colamd,
    /// Nested dissection on B + Bᵀ.
    NestedDissection,
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

/// What [`order`] does.
#[derive(Debug, Clone)]
pub struct OrderingOptions {
    /// The fill-reducing method.
    pub method: Method,
    /// Permute rows so that the product of the diagonal is largest; without values, so that the
    /// diagonal has no zeros. Without it rows keep their place, unless the block triangular form
    /// needs entries on the diagonal that are not there.
    pub matching: bool,
    /// Scale rows and columns: by the duals of the matching if there is one of largest product,
    /// otherwise by equilibration.
    pub scaling: bool,
    /// Permute to block triangular form.
    pub block_triangular: bool,
    /// [`Method::Auto`] also tries the rows in their old places if every diagonal entry, scaled
    /// with the matching's factors, is at least this large. In [0, 1]; infinite: never.
    pub diagonal_threshold: f64,
    /// Stops the phase between its steps; the fill-reducing methods themselves run to their end.
    pub cancel: CancelFlag,
}

impl Default for OrderingOptions {
    fn default() -> Self {
        Self {
            method: Method::Auto,
            matching: true,
            scaling: true,
            block_triangular: true,
            diagonal_threshold: 0.1,
            cancel: CancelFlag::new(),
        }
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
    /// Nested dissection.
    NestedDissection,
    /// Nested dissection for some diagonal blocks, approximate minimum degree for others.
    AmdAndNestedDissection,
    /// No reordering.
    Natural,
    /// The caller's permutations.
    User,
}

/// Wall-clock seconds of the steps. Steps of several candidates, which may overlap, are summed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct OrderingSeconds {
    /// Structural rank, and the matching of largest product with its scaling.
    pub matching: f64,
    /// Equilibration.
    pub equilibration: f64,
    /// Block triangular form.
    pub block_triangular: f64,
    /// Building the graphs of B + Bᵀ.
    pub graph: f64,
    /// Approximate minimum degree with its prediction.
    pub amd: f64,
    /// Column approximate minimum degree with its prediction.
    pub colamd: f64,
    /// Nested dissection with its prediction.
    pub nested_dissection: f64,
    /// The whole phase.
    pub total: f64,
}

impl OrderingSeconds {
    fn add(&mut self, other: &Self) {
        self.matching += other.matching;
        self.equilibration += other.equilibration;
        self.block_triangular += other.block_triangular;
        self.graph += other.graph;
        self.amd += other.amd;
        self.colamd += other.colamd;
        self.nested_dissection += other.nested_dissection;
    }
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
    /// log10 of the product of the matched entries, if a matching of largest product was found.
    pub log10_matching_product: Option<f64>,
    /// What ordered the columns.
    pub method_used: MethodUsed,
    /// Predicted size and cost of the factors.
    pub predicted: Prediction,
    /// Time per step.
    pub seconds: OrderingSeconds,
}

/// Blocks smaller than this are not worth dissecting: METIS itself orders graphs of a hundred
/// vertices by minimum degree.
const MIN_DISSECTION: usize = 500;

/// `Auto` moves rows back from the matching only for a saving of at least this factor in
/// operations, because the matched diagonal is the safer pivot.
const UNMATCHED_ADVANTAGE: f64 = 0.8;

/// Orders the square matrix with CSR pattern `a` and, in the same order, `values` (none: pattern
/// only, then there is neither a largest product nor a scaling).
///
/// [`Method::Auto`] orders every diagonal block of at least 500 columns by approximate minimum
/// degree and by nested dissection at the same time and keeps the order with fewer predicted
/// operations, nested dissection on a tie since its tree is wider; smaller blocks go by
/// minimum degree. If the matching moved rows although every scaled diagonal entry is at least
/// [`diagonal_threshold`](OrderingOptions::diagonal_threshold), it does all of this again for the
/// rows in their old places, and takes that if it needs less than 0.8 times the operations. The
/// scaling is the matching's in both cases.
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
    if let Some(values) = values {
        check_finite(a, values)?;
    }

    let mut seconds = OrderingSeconds::default();
    let is_user = matches!(options.method, Method::User { .. });
    let product_values = values.filter(|_| options.matching && !is_user);
    let clock = Instant::now();
    let (matched_rows, matching) = match product_values {
        Some(values) => {
            let mut matching = maximum_product(a, values, &options.cancel)?;
            (std::mem::take(&mut matching.row_of_col), Some(matching))
        }
        None => (check_rank(a, values, &options.cancel)?, None),
    };
    seconds.matching = clock.elapsed().as_secs_f64();

    let log10_matching_product = matching.as_ref().map(|m| m.log10_product);
    let scaling = match (values, matching) {
        (Some(_), Some(matching)) if options.scaling => matching.scaling,
        (Some(values), _) if options.scaling => {
            let clock = Instant::now();
            let scaling = equilibrate(a, values)?;
            seconds.equilibration = clock.elapsed().as_secs_f64();
            scaling
        }
        _ => Scaling::identity(n, n),
    };

    if let Method::User { rows, cols } = &options.method {
        let block_ptr = one_block(n);
        let graph =
            BlockPattern::new(a, rows.as_slice(), cols.as_slice(), &block_ptr).symmetrized();
        let identity: Vec<u32> = (0..n as u32).collect();
        seconds.total = start.elapsed().as_secs_f64();
        return Ok(Ordering {
            row_perm: rows.clone(),
            col_perm: cols.clone(),
            scaling,
            block_ptr,
            structural_rank: n,
            rows_matched: false,
            log10_matching_product: None,
            method_used: MethodUsed::User,
            predicted: predict(&graph, &identity),
            seconds,
        });
    }

    let unmoved: Vec<u32> = (0..n as u32).collect();
    let move_rows = options.matching || options.block_triangular;
    let first_rows = if move_rows { &matched_rows } else { &unmoved };
    let try_unmoved = options.method == Method::Auto
        && *first_rows != unmoved
        && values.is_some_and(|values| {
            diagonal_is_large(a, values, &scaling, options.diagonal_threshold)
        });
    let (first, second) = rayon::join(
        || candidate(a, first_rows, options),
        || try_unmoved.then(|| candidate(a, &unmoved, options)),
    );
    let first = first?;
    seconds.add(&first.seconds);
    let mut best = first;
    if let Some(second) = second {
        let second = second?;
        seconds.add(&second.seconds);
        tracing::debug!(
            matched_flops = best.predicted.flops,
            unmatched_flops = second.predicted.flops,
            "candidates with and without matching"
        );
        if second.predicted.flops < UNMATCHED_ADVANTAGE * best.predicted.flops {
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
        method_used: best.method_used,
        predicted: best.predicted,
        seconds,
    })
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
    seconds: OrderingSeconds,
}

fn candidate(
    a: &CompressedPattern,
    row_of_col: &[u32],
    options: &OrderingOptions,
) -> Result<Candidate, OrderingError> {
    options.cancel.check()?;
    let n = a.major_dim();
    let mut seconds = OrderingSeconds::default();
    let clock = Instant::now();
    let (mut perm, block_ptr) = if options.block_triangular {
        let form = block_triangular(a, row_of_col);
        (form.perm.as_slice().to_vec(), form.block_ptr)
    } else {
        ((0..n as u32).collect(), one_block(n))
    };
    seconds.block_triangular = clock.elapsed().as_secs_f64();

    options.cancel.check()?;
    let clock = Instant::now();
    let rows_of =
        |perm: &[u32]| -> Vec<u32> { perm.iter().map(|&col| row_of_col[col as usize]).collect() };
    let pattern = BlockPattern::new(a, &rows_of(&perm), &perm, &block_ptr);
    let graph = pattern.symmetrized();
    seconds.graph = clock.elapsed().as_secs_f64();

    let mut predicted = Prediction {
        off_diagonal_nnz: pattern.off_diagonal_nnz,
        ..Prediction::default()
    };
    let (mut dissected, mut not_dissected) = (false, false);
    for block in block_ptr.windows(2) {
        let size = block[1] - block[0];
        if size == 1 {
            predicted += Prediction::from_counts(&[1]);
            continue;
        }
        options.cancel.check()?;
        let graph = graph.component(block[0]..block[1]);
        let by_amd = || {
            let clock = Instant::now();
            let mut order = fill::amd(&graph);
            let predicted = postorder_and_predict(&graph, &mut order);
            (order, predicted, clock.elapsed().as_secs_f64())
        };
        let by_dissection = || {
            let clock = Instant::now();
            let mut order = fill::nested_dissection(&graph)?;
            let predicted = postorder_and_predict(&graph, &mut order);
            Ok::<_, OrderingError>((order, predicted, clock.elapsed().as_secs_f64()))
        };
        let (order, cost) = match &options.method {
            Method::Amd => {
                let (order, cost, time) = by_amd();
                seconds.amd += time;
                (order, cost)
            }
            Method::NestedDissection => {
                let (order, cost, time) = by_dissection()?;
                seconds.nested_dissection += time;
                (order, cost)
            }
            Method::Auto if size < MIN_DISSECTION => {
                let (order, cost, time) = by_amd();
                seconds.amd += time;
                // What orders a tiny block says nothing about the method.
                not_dissected |= size > 2;
                (order, cost)
            }
            Method::Auto => {
                let (amd, dissection) = rayon::join(by_amd, by_dissection);
                seconds.amd += amd.2;
                match dissection {
                    Ok(dissection) => {
                        seconds.nested_dissection += dissection.2;
                        tracing::debug!(
                            size,
                            amd_flops = amd.1.flops,
                            nested_dissection_flops = dissection.1.flops,
                            "candidates of a block"
                        );
                        if dissection.1.flops <= amd.1.flops {
                            dissected = true;
                            (dissection.0, dissection.1)
                        } else {
                            not_dissected = true;
                            (amd.0, amd.1)
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "ordered by minimum degree alone");
                        not_dissected = true;
                        (amd.0, amd.1)
                    }
                }
            }
            Method::Colamd => {
                let clock = Instant::now();
                let order = fill::colamd(&pattern, block[0], size);
                let cost = predict(&graph, &order);
                seconds.colamd += clock.elapsed().as_secs_f64();
                (order, cost)
            }
            Method::Natural => {
                let order: Vec<u32> = (0..size as u32).collect();
                let cost = predict(&graph, &order);
                (order, cost)
            }
            Method::User { .. } => unreachable!("user permutations have no candidates"),
        };
        predicted += cost;
        let old = perm[block[0]..block[1]].to_vec();
        for (slot, &v) in perm[block[0]..block[1]].iter_mut().zip(&order) {
            *slot = old[v as usize];
        }
    }
    let method_used = match options.method {
        Method::Amd => MethodUsed::Amd,
        Method::NestedDissection => MethodUsed::NestedDissection,
        Method::Colamd => MethodUsed::Colamd,
        Method::Natural => MethodUsed::Natural,
        _ if dissected && not_dissected => MethodUsed::AmdAndNestedDissection,
        _ if dissected => MethodUsed::NestedDissection,
        _ => MethodUsed::Amd,
    };
    let valid = "blocks are reordered within themselves";
    Ok(Candidate {
        row_perm: RowPerm::new(rows_of(&perm)).expect(valid),
        col_perm: ColPerm::new(perm).expect(valid),
        block_ptr,
        method_used,
        predicted,
        seconds,
    })
}
