//! The scaling of a symmetric matrix, and which of its entries are paired.

use std::ops::Range;

use luge_sparse::CompressedPattern;

use super::matched::{Matched, matched};
use super::options::{SymmetricOptions, SymmetricScaling};
use super::pairs::{LEAST_PART, Pairs, pairs, scaled_entry};
use super::scaling::{equilibrium, rounded};
use crate::error::OrderingError;
use crate::matching::{NONE, check_rank, deficient};
use crate::options::{Matching, Method};
use crate::parts::by_parts;

/// [`Matching::Auto`] looks for pairs if more than one in so many diagonal entries is poor.
const MAX_POOR: usize = 50;

/// A diagonal entry of the equilibrated matrix below this is poor: threshold pivoting with the usual threshold of a
/// hundredth would mostly leave it.
const POOR: f64 = 1.0 / 1024.0;

/// Scaling and pairs.
pub(super) struct Prepared {
    /// Of rows and columns.
    pub factors: Vec<f64>,
    pub is_scaled_by_matching: bool,
    /// If there are any, and the method makes use of them.
    pub pairs: Option<Pairs>,
    /// What a matching tells, if one was looked for.
    pub structural_rank: Option<usize>,
    pub log10_matching_product: Option<f64>,
}

impl Prepared {
    /// Of the matrix of finite values, if it has values.
    ///
    /// # Errors
    ///
    /// [`OrderingError::Cancelled`], and where that is asked for those of a structurally singular matrix.
    pub fn new(
        a: &CompressedPattern,
        values: Option<&[f64]>,
        options: &SymmetricOptions,
    ) -> Result<Self, OrderingError> {
        let n = a.major_dim();
        let (parallel, cancel) = (options.threads > 1, &options.cancel);
        let equilibrated = match values {
            Some(values) => {
                let averaged = options.scaling == SymmetricScaling::Average;
                equilibrium(a, values, averaged, parallel, cancel)?
            }
            None => vec![0.0; n],
        };
        let is_given = matches!(options.method, Method::Natural | Method::User { .. });
        let may_match = !options.is_definite;
        let wants_pairs = match options.matching {
            Matching::Auto => MAX_POOR * num_poor(a, values, &equilibrated, parallel) > n,
            Matching::Always => true,
            Matching::Never => false,
        } && may_match
            && !is_given;
        let wants_scaling = match options.scaling {
            SymmetricScaling::Auto => wants_pairs,
            SymmetricScaling::Matching => true,
            _ => false,
        } && may_match
            && values.is_some();
        let mut found = None;
        let mut paired = None;
        let mut is_regular = false;
        if wants_pairs || wants_scaling {
            // Without values all entries are alike: the diagonal is matched as far as it is there.
            let ones = values.is_none().then(|| vec![1.0; a.nnz()]);
            let given = values;
            let values = values.or(ones.as_deref()).unwrap_or_default();
            found = matched(a, values, parallel, cancel)?;
            cancel.check()?;
            is_regular = found.as_ref().is_some_and(|found| found.rank == n);
            if let Some(found) = found.as_ref()
                && options.refuses_singular
                && !is_regular
            {
                let is_unmatched = |column: &u32| found.row_of_col[*column as usize] == NONE;
                let unmatched = (0..n as u32).filter(is_unmatched).collect();
                return Err(deficient(a, given, unmatched, cancel)?);
            }
            let is_free =
                options.matching == Matching::Auto && options.scaling != SymmetricScaling::Matching;
            let is_wild = |found: &Matched| found.is_wild(&equilibrated);
            if is_free && found.as_ref().is_some_and(is_wild) {
                found = None;
            }
            if let Some(found) = found.as_ref().filter(|_| wants_pairs) {
                let (rows, logs) = (&found.row_of_col, &found.log_scale);
                paired = pairs(a, values, rows, logs, parallel, cancel)?;
            }
        }
        if options.refuses_singular && !is_regular && !has_diagonal(a) {
            check_rank(a, values, cancel)?;
        }
        let by_matching = found
            .as_ref()
            .filter(|found| wants_scaling && !found.is_clamped);
        let factors = match (&options.scaling, by_matching) {
            (SymmetricScaling::None, _) => vec![1.0; n],
            (SymmetricScaling::User(factors), _) => rounded(factors.iter().map(|s| s.log2())),
            (_, Some(found)) => rounded(found.log_scale.iter().copied()),
            (_, None) => rounded(equilibrated.into_iter()),
        };
        Ok(Self {
            factors,
            is_scaled_by_matching: by_matching.is_some(),
            pairs: paired,
            structural_rank: found.as_ref().map(|found| found.rank),
            log10_matching_product: found
                .filter(|_| values.is_some())
                .map(|found| found.log10_product),
        })
    }
}

/// Whether no diagonal entry is missing: then the pattern is not structurally singular.
fn has_diagonal(a: &CompressedPattern) -> bool {
    let has = |(i, line): (usize, &[u32])| line.binary_search(&(i as u32)).is_ok();
    a.lines().enumerate().all(has)
}

/// Diagonal entries that are missing, zero, or small in the matrix scaled by factors with these logarithms.
fn num_poor(
    a: &CompressedPattern,
    values: Option<&[f64]>,
    log_scale: &[f64],
    parallel: bool,
) -> usize {
    let is_poor = |v: &u32| match values {
        Some(values) => scaled_entry(a, values, log_scale, *v, *v).abs() < POOR,
        None => a.line(*v as usize).binary_search(v).is_err(),
    };
    let count = |range: Range<usize>| {
        let vertices = range.start as u32..range.end as u32;
        vertices.filter(is_poor).count()
    };
    let counts = by_parts(a.major_dim(), LEAST_PART, parallel, count);
    counts.into_iter().sum()
}
