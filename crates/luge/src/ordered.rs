//! The ordering phase for a path: its options, its threads, its memory.

use std::sync::Arc;

use luge_ordering::{
    BlockReport, Costs, Matching, MethodUsed, Ordering, OrderingOptions, PEAK_BYTES,
    SymmetricOrdering, order,
};
use luge_sparse::{Reservation, Scaling, bytes_of};

use crate::backend::Limits;
use crate::engine::Transform;
use crate::error::Error;
use crate::inform::Inform;
use crate::options::Options;
use crate::stored::Rows;
use crate::threads::Threads;

/// Seconds that ordering takes for each entry of a matrix, roughly and at least.
const ORDERING_PER_ENTRY: f64 = 50e-9;

/// What is assumed about the machine for orders that are compared by their operations.
pub(crate) fn costs_of(options: &Options) -> Costs {
    let costs = options.ordering.costs;
    Costs {
        factorizations: options.factorizations.unwrap_or(costs.factorizations),
        ..costs
    }
}

/// Static pivots on the diagonal want the largest diagonal there is.
pub(crate) fn for_static_pivots(matching: Matching) -> Matching {
    match matching {
        Matching::Auto => Matching::Always,
        chosen => chosen,
    }
}

/// Orders with as many threads as are worth it.
pub(crate) fn order_rows(
    options: &OrderingOptions,
    threads: &Threads,
    rows: &Rows<'_>,
    values: &[f64],
) -> Result<Ordering, Error> {
    let _span = tracing::info_span!("ordering").entered();
    let work = rows.pattern.nnz() as f64 * ORDERING_PER_ENTRY;
    threads
        .run(work, |threads| {
            if threads == options.threads {
                return order(&rows.pattern, Some(values), options);
            }
            let options = options.clone().threads(threads);
            order(&rows.pattern, Some(values), &options)
        })
        .map_err(Error::from)
}

/// Orders within the memory budget. What is reserved in the end is for permutations and scaling.
pub(crate) fn order_within(
    options: &OrderingOptions,
    threads: &Threads,
    limits: &Limits,
    rows: &Rows<'_>,
    values: &[f64],
) -> Result<(Ordering, Reservation), Error> {
    let (n, nnz) = (rows.pattern.major_dim() as u64, rows.pattern.nnz() as u64);
    let [of_column, of_entry] = PEAK_BYTES;
    let most = of_column * n + of_entry * nnz;
    let mut memory = limits.reserve(most, "ordering")?;
    let options = options.clone().memory(limits.memory.clone());
    let ordering = order_rows(&options, threads, rows, values)?;
    let blocks = bytes_of::<BlockReport>(ordering.blocks.capacity());
    memory.shrink_to(24 * n + bytes_of::<usize>(ordering.block_ptr.capacity()) + blocks);
    Ok((ordering, memory))
}

pub(crate) fn transform_of(ordering: Ordering) -> (Transform, Vec<usize>) {
    let transform = Transform {
        row_perm: ordering.row_perm,
        col_perm: ordering.col_perm,
        scaling: Arc::new(ordering.scaling),
    };
    (transform, ordering.block_ptr)
}

/// The factors of a matching are as good with one binary digit, and scaling is exact then.
pub(crate) fn round_to_powers_of_two(scaling: &mut Scaling) {
    for factor in scaling.rows.iter_mut().chain(&mut scaling.cols) {
        *factor = nearest_power_of_two(*factor);
    }
}

/// The power of two that is nearest to a positive normal number, by ratio.
pub(crate) fn nearest_power_of_two(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let up = bits & MANTISSA > std::f64::consts::SQRT_2.to_bits() & MANTISSA;
    f64::from_bits((bits & !MANTISSA) + (u64::from(up) << 52))
}

impl Inform {
    /// Takes over what became of an ordering; times add up.
    pub(crate) fn describe_ordering(&mut self, ordering: &Ordering) {
        self.num_blocks = ordering.block_ptr.len() - 1;
        self.ordering = name_of(ordering.method_used);
        self.matched = ordering.rows_matched;
        self.seconds.ordering += ordering.seconds.total;
    }

    /// Likewise of an ordering of a symmetric matrix.
    pub(crate) fn describe_symmetric(&mut self, ordering: &SymmetricOrdering) {
        self.num_blocks = 1;
        self.ordering = name_of(ordering.method_used);
        self.matched = ordering.matching_used;
        self.seconds.ordering += ordering.seconds.total;
    }
}

pub(crate) fn name_of(method: MethodUsed) -> &'static str {
    match method {
        MethodUsed::Amd => "AMD",
        MethodUsed::Colamd => "COLAMD",
        MethodUsed::NestedDissection => "nested dissection",
        MethodUsed::Metis => "METIS",
        MethodUsed::AmdAndNestedDissection => "AMD and nested dissection",
        MethodUsed::Natural => "natural",
        MethodUsed::User => "user",
    }
}
