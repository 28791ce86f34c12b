//! The ordering phase for symmetric matrices.

mod options;
mod scaling;

use std::time::Instant;

use luge_sparse::etree::EliminationForest;
use luge_sparse::{ColPerm, CompressedPattern, Scaling};

use crate::block_order::Clock;
use crate::candidate::candidate;
use crate::cost::{Costs, Prediction};
use crate::elimination::postorder;
use crate::error::{OrderingError, check_finite};
use crate::graph::BlockPattern;
use crate::matching::check_square;
use crate::options::{Matching, Method, MethodUsed, OrderingOptions, OrderingSeconds};
pub use options::{SymmetricOptions, SymmetricOrdering, SymmetricScaling};
use scaling::{equilibrium, rounded};

/// Orders and scales the symmetric matrix whose pattern, both triangles, is `a`, with `values` in the same order.
///
/// # Errors
///
/// [`OrderingError`].
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
    check_symmetric(a)?;
    let mut clock = Clock::start(n);
    if let Some(values) = values {
        check_finite(a, values)?;
    }
    let equilibrated = values
        .map(|values| equilibrium(a, values, &options.cancel))
        .transpose()?;
    let factors = match (&options.scaling, equilibrated) {
        (SymmetricScaling::User(factors), _) => rounded(factors.iter().map(|s| s.log2())),
        (SymmetricScaling::None, _) | (_, None) => vec![1.0; n],
        (_, Some(logs)) => rounded(logs.into_iter()),
    };
    let mut seconds = OrderingSeconds {
        matching: clock.lap(),
        ..OrderingSeconds::default()
    };
    let ordered = in_one_piece(a, options)?;
    seconds.add(&ordered.seconds);
    seconds.total = start.elapsed().as_secs_f64();
    Ok(SymmetricOrdering {
        perm: ordered.perm,
        scaling: Scaling {
            rows: factors.clone(),
            cols: factors,
        },
        pairs: 0,
        pair_starts: Vec::new(),
        structural_rank: None,
        log10_matching_product: None,
        matching_used: false,
        method_used: ordered.method_used,
        predicted: ordered.predicted,
        forest: ordered.forest,
        seconds,
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
fn check_symmetric(a: &CompressedPattern) -> Result<(), OrderingError> {
    // The entry of each line whose counterpart comes next, since both lines and lists are sorted.
    let mut next: Vec<usize> = (0..a.major_dim()).map(|i| a.range(i).start).collect();
    for (i, line) in a.lines().enumerate() {
        for &j in line {
            let place = &mut next[j as usize];
            let found = a.idx()[*place..a.range(j as usize).end].first();
            let (row, column) = match found {
                Some(&k) if k as usize == i => {
                    *place += 1;
                    continue;
                }
                Some(&k) if (k as usize) < i => (j as usize, k as usize),
                _ => (i, j as usize),
            };
            return Err(OrderingError::NotSymmetric { row, column });
        }
    }
    Ok(())
}

/// An order of all columns.
struct Ordered {
    perm: ColPerm,
    method_used: MethodUsed,
    predicted: Prediction,
    forest: Option<EliminationForest>,
    seconds: OrderingSeconds,
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
        let cancel = &options.cancel;
        let parallel = options.threads > 1;
        let block = BlockPattern::new(a, &unmoved, &unmoved, &unmoved, 0, parallel, cancel)?;
        let forest = postorder(&block, &mut perm.as_slice().to_vec(), cancel)?;
        return Ok(Ordered {
            perm,
            method_used,
            predicted: Prediction::symmetric(&forest),
            forest: None,
            seconds: OrderingSeconds::default(),
        });
    }
    let options = OrderingOptions {
        method: options.method.clone(),
        matching: Matching::Never,
        scaling: false,
        // Half of the operations.
        costs: Costs {
            factorizations: options.costs.factorizations / 2.0,
            ..options.costs
        },
        tree_cost: options.tree_cost.clone(),
        keep_forest: true,
        threads: options.threads,
        cancel: options.cancel.clone(),
        ..OrderingOptions::default()
    };
    let found = candidate(a, &unmoved, None, &options)?;
    let predicted = found.forest.as_ref().map(Prediction::symmetric);
    Ok(Ordered {
        perm: found.col_perm,
        method_used: found.method_used,
        predicted: predicted.unwrap_or(found.predicted),
        forest: found.forest,
        seconds: found.seconds,
    })
}
