//! The ordering phase for symmetric matrices: a scaling that keeps them symmetric, pairs of vertices for pivots of order
//! 2, and one fill-reducing permutation of rows and columns.
//!
//! | module | what it does |
//! |---|---|
//! | [`scaling`] | equilibration with one factor for row and column |
//! | [`matched`] | a matching of largest product and its symmetric scaling, for singular matrices too |
//! | [`pairs`] | cuts the cycles of the matching into pairs and single vertices |
//! | [`prepared`] | which of these are used |
//! | [`compression`] | orders in which pairs stand together, or one of them after the other |
//!
//! I. S. Duff and S. Pralet, "Strategies for scaling and pivoting for sparse symmetric indefinite problems", SIAM J.
//! Matrix Anal. Appl. 27 (2005): scaling, cycles, and the contraction of pairs. Minimum degree, nested dissection, the
//! matching and the choice between orders are those of [`order`](crate::order()). All steps are near linear in the entries
//! on matrices from practice.
//!
//! It does not look at values again when orders are compared, so a pivot that the values make small is not foreseen:
//! threshold pivoting delays it.

mod compression;
mod matched;
mod options;
mod pairs;
mod prepared;
mod scaling;

use std::time::Instant;

use luge_sparse::etree::EliminationForest;
use luge_sparse::{CancelFlag, ColPerm, CompressedPattern, Scaling};

use crate::block_order::Clock;
use crate::candidate::candidate;
use crate::cost::Prediction;
use crate::elimination::symmetric_postorder;
use crate::error::{OrderingError, check_finite};
use crate::matching::check_square;
use crate::options::{Matching, Method, MethodUsed, OrderingOptions, OrderingSeconds};
use crate::parts::join_if;
use compression::{Demands, PairedOrder, paired_pattern};
pub use options::{SymmetricOptions, SymmetricOrdering, SymmetricScaling};
use pairs::Pairs;
use prepared::Prepared;

/// Orders and scales the symmetric matrix whose pattern, both triangles, is `a`, with `values` in the same order; without
/// values there is no scaling. Values that differ across the diagonal are not refused; the order then fits one of them.
///
/// [`Method`] chooses as in [`order`](crate::order()), each connected component by itself.
///
/// # Pairs
///
/// [`Matching::Auto`] looks for pairs if more than a fiftieth of the diagonal entries are missing or below 2⁻¹⁰ in the
/// equilibrated matrix, and does not use a matching whose scaling factors, divided by those of the equilibration, span more
/// than 2¹⁰⁰, unless its scaling is asked for. Of the symmetric matrices of the project's corpus, 37 have at least 8.9 % such
/// entries, and no other has any. [`Matching::Always`] looks for them whatever the diagonal. The cycles of a matching of largest product are cut into pairs
/// and single vertices, so that the product of the determinants is as large as can be. A pair of two diagonal entries of at
/// least 1/32 in the scaled matrix is none. There are two ways to make pivots of the others, and the order with fewer
/// predicted operations (or seconds, by a [`TreeCost`](crate::TreeCost)) is taken, the first on a tie:
///
/// 1. Only pairs of two smaller entries stand together, and of the others the smaller entry comes later, when the
///    elimination of the larger one has made it a pivot.
/// 2. All pairs stand together.
///
/// `benches/results/2026-11-24-symmetric-ordering` has what that is worth: with threshold pivoting (u = 0.01) in the predicted
/// fronts of 22 nonsingular KKT matrices, at most 38 pivots of a matrix were delayed, and entries and operations were no more
/// than 1.1 % above those predicted. In orders that know nothing of pairs, up to 72,665 were, and the operations were up to 5.4
/// times those predicted; with equilibration in place of the matching's scaling up to 135 times.
///
/// # Singular matrices
///
/// A structurally singular matrix is no error unless [`refuses_singular`](field@SymmetricOptions::refuses_singular) is set: a
/// solver may go on after zero pivots. Its largest structurally nonsingular block is matched, the other rows stay single, and
/// [`structural_rank`](SymmetricOrdering::structural_rank) tells.
///
/// # Errors
///
/// [`OrderingError`]: not square; a pattern that is not symmetric; a method, a permutation or a scaling that makes no sense
/// here; a value that is not finite; cancelled; from a forced method, a graph too large for it; structurally singular, if that
/// is to be refused, with stored zeros ([`OrderingError::NumericallySingular`]) or by its pattern.
///
/// # Panics
///
/// If there is not one value per entry, or a user permutation or scaling has another length than n.
#[track_caller]
pub fn order_symmetric(
    a: &CompressedPattern,
    values: Option<&[f64]>,
    options: &SymmetricOptions,
) -> Result<SymmetricOrdering, OrderingError> {
    let start = Instant::now();
    if let Some(values) = values {
        assert_eq!(values.len(), a.nnz(), "one value per entry of the pattern");
    }
    check_square(a)?;
    let n = a.major_dim();
    check_options(n, options)?;
    // What was left half done because of the flag is not taken for whole when the flag is lowered.
    let options = &SymmetricOptions {
        cancel: options.cancel.child(),
        ..options.clone()
    };
    options.cancel.check()?;
    if !options.is_known_symmetric {
        check_symmetric(a, &options.cancel)?;
    }
    if let Some(values) = values {
        check_finite(a, values)?;
    }
    let mut clock = Clock::start(n);
    let prepared = Prepared::new(a, values, options)?;
    let matching = clock.lap();
    let ordered = match &prepared.pairs {
        None => in_one_piece(a, options)?,
        Some(pairs) => with_pairs(a, pairs, options)?,
    };
    let mut seconds = ordered.seconds;
    seconds.matching += matching;
    seconds.total = start.elapsed().as_secs_f64();
    tracing::debug!(
        n,
        nnz = a.nnz(),
        pairs = ordered.pair_starts.len(),
        method = ?ordered.method_used,
        lnz = ordered.predicted.lnz,
        flops = ordered.predicted.flops,
        seconds = seconds.total,
        "ordered a symmetric matrix"
    );
    Ok(SymmetricOrdering {
        perm: ordered.perm,
        scaling: Scaling {
            rows: prepared.factors.clone(),
            cols: prepared.factors,
        },
        matching_used: prepared.is_scaled_by_matching || prepared.pairs.is_some(),
        pairs: ordered.pair_starts.len(),
        pair_starts: ordered.pair_starts,
        structural_rank: prepared.structural_rank,
        log10_matching_product: prepared.log10_matching_product,
        method_used: ordered.method_used,
        predicted: ordered.predicted,
        forest: ordered.forest,
        seconds,
    })
}

/// The scaling of [`SymmetricScaling::Equilibrate`] alone, for other values of a pattern that was ordered without any.
///
/// # Errors
///
/// [`OrderingError::NotFinite`], [`OrderingError::Cancelled`].
///
/// # Panics
///
/// If there is not one value per entry, or `a` is not square.
#[track_caller]
pub fn equilibrate_symmetric(
    a: &CompressedPattern,
    values: &[f64],
    cancel: &CancelFlag,
) -> Result<Scaling, OrderingError> {
    assert_eq!(values.len(), a.nnz(), "one value per entry of the pattern");
    assert_eq!(a.major_dim(), a.minor_dim(), "a square pattern");
    check_finite(a, values)?;
    let logs = scaling::equilibrium(a, values, false, false, cancel)?;
    let factors = scaling::rounded(logs.into_iter());
    Ok(Scaling {
        rows: factors.clone(),
        cols: factors,
    })
}

/// Refuses options that make no sense for symmetric matrices.
#[track_caller]
fn check_options(n: usize, options: &SymmetricOptions) -> Result<(), OrderingError> {
    match &options.method {
        Method::Colamd => return Err(OrderingError::NotForSymmetric),
        Method::User { rows, cols } => {
            let lengths = (rows.len(), cols.len());
            assert_eq!(lengths, (n, n), "user permutations of another length");
            let mut pairs = rows.as_slice().iter().zip(cols.as_slice());
            if let Some(position) = pairs.position(|(row, col)| row != col) {
                return Err(OrderingError::UnsymmetricPermutation { position });
            }
        }
        _ => {}
    }
    if let SymmetricScaling::User(factors) = &options.scaling {
        assert_eq!(factors.len(), n, "user scaling of another length");
        let is_factor = |s: &f64| *s > 0.0 && s.is_finite();
        if let Some(row) = factors.iter().position(|s| !is_factor(s)) {
            return Err(OrderingError::BadScaling { row });
        }
    }
    Ok(())
}

/// Refuses patterns that are not symmetric.
fn check_symmetric(a: &CompressedPattern, cancel: &CancelFlag) -> Result<(), OrderingError> {
    let found = a.try_visit_counterparts(|| cancel.check(), |_, _| {})?;
    found.map_err(|(row, column)| OrderingError::NotSymmetric { row, column })
}

/// An order of all columns.
struct Ordered {
    perm: ColPerm,
    pair_starts: Vec<u32>,
    method_used: MethodUsed,
    predicted: Prediction,
    forest: Option<EliminationForest>,
    seconds: OrderingSeconds,
}

impl Ordered {
    /// What orders are compared by.
    fn cost(&self, options: &SymmetricOptions) -> f64 {
        match (&options.tree_cost, &self.forest) {
            (Some(cost), Some(forest)) => cost.seconds(forest),
            _ => self.predicted.flops,
        }
    }
}

/// For orders of a symmetric pattern.
fn ordering_options(options: &SymmetricOptions, keep_forest: bool) -> OrderingOptions {
    OrderingOptions {
        method: options.method.clone(),
        matching: Matching::Never,
        scaling: false,
        // They are compared with an ordering that takes, too, half of what it takes for as many entries that are not
        // symmetric.
        costs: options.costs,
        tree_cost: options.tree_cost.clone(),
        keep_forest,
        is_symmetric: true,
        threads: options.threads,
        cancel: options.cancel.clone(),
        memory: options.memory.clone(),
        ..OrderingOptions::default()
    }
}

/// Without pairs.
fn in_one_piece(
    a: &CompressedPattern,
    options: &SymmetricOptions,
) -> Result<Ordered, OrderingError> {
    let n = a.major_dim();
    let unmoved: Vec<u32> = (0..n as u32).collect();
    let given = match &options.method {
        Method::User { cols, .. } => Some((cols.clone(), MethodUsed::User)),
        Method::Natural => Some((ColPerm::identity(n), MethodUsed::Natural)),
        _ => None,
    };
    if let Some((perm, method_used)) = given {
        let forest = symmetric_postorder(a, &mut perm.as_slice().to_vec(), &options.cancel)?;
        return Ok(Ordered {
            perm,
            pair_starts: Vec::new(),
            method_used,
            predicted: Prediction::symmetric(&forest),
            forest: None,
            seconds: OrderingSeconds::default(),
        });
    }
    let found = candidate(a, &unmoved, None, &ordering_options(options, true))?;
    let forest = found
        .forest
        .unwrap_or_else(|| unreachable!("the forest is kept"));
    Ok(Ordered {
        perm: found.col_perm,
        pair_starts: Vec::new(),
        method_used: found.method_used,
        predicted: Prediction::symmetric(&forest),
        forest: Some(forest),
        seconds: found.seconds,
    })
}

/// As is asked for the pairs.
fn with_demands(
    a: &CompressedPattern,
    pairs: &Pairs,
    demands: &Demands,
    options: &SymmetricOptions,
) -> Result<Ordered, OrderingError> {
    let n = a.major_dim();
    let parallel = options.threads > 1;
    let cancel = &options.cancel;
    let paired = paired_pattern(a, &demands.beside, parallel, cancel)?;
    let unmoved: Vec<u32> = (0..n as u32).collect();
    let options = OrderingOptions {
        waits: Some(demands.waits().into()),
        ..ordering_options(options, false)
    };
    let found = candidate(&paired, &unmoved, None, &options)?;
    drop(paired);
    let mut clock = Clock::start(n);
    let order = found.col_perm.as_slice();
    let order = PairedOrder::new(a, order, demands, &pairs.diagonal, cancel)?;
    let mut seconds = found.seconds;
    seconds.matching += clock.lap();
    Ok(Ordered {
        perm: order.perm,
        pair_starts: order.pair_starts,
        method_used: found.method_used,
        predicted: Prediction::symmetric(&order.forest),
        forest: Some(order.forest),
        seconds,
    })
}

/// With pairs, in the cheaper one of two ways.
fn with_pairs(
    a: &CompressedPattern,
    pairs: &Pairs,
    options: &SymmetricOptions,
) -> Result<Ordered, OrderingError> {
    let together = || with_demands(a, pairs, &Demands::all_together(pairs), options);
    let Some(demands) = Demands::as_few_as_can_be(pairs) else {
        return together();
    };
    let with_cost = |order: Ordered| (order.cost(options), order);
    let loose = || with_demands(a, pairs, &demands, options).map(with_cost);
    let together = || together().map(with_cost);
    let (loose, together) = join_if(options.threads > 1, loose, together);
    let ((cost_of_loose, loose), (cost_together, together)) = (loose?, together?);
    tracing::debug!(
        loose = cost_of_loose,
        together = cost_together,
        "orders with some pairs together, and with all"
    );
    let mut seconds = loose.seconds;
    seconds.add(&together.seconds);
    let best = if cost_of_loose <= cost_together {
        loose
    } else {
        together
    };
    Ok(Ordered { seconds, ..best })
}
