//! An order of the columns of one diagonal block, by the method that was asked for or the one that is predicted to be
//! cheaper.

use std::time::Instant;

use luge_sparse::CancelFlag;
use luge_sparse::etree::EliminationForest;

use crate::column_degree::column_minimum_degree;
use crate::cost::{Costs, Prediction, TreeCost};
use crate::dissection::reduced_nested_dissection;
use crate::elimination::{postorder, predict};
use crate::error::OrderingError;
use crate::graph::{BlockPattern, Graph};
use crate::minimum_degree::{fits, minimum_degree, with_spare_room};
use crate::options::{Method, MethodUsed, OrderingOptions, OrderingSeconds};
use crate::parts::{WORTH_SHARING, join_if};

/// Blocks smaller than this are not worth dissecting.
pub(crate) const MIN_DISSECTION: usize = 500;

/// From so many columns on the steps are timed.
const MIN_TIMED: usize = 64;

/// Unknowns at a node, at most, that are looked for where a dissection is found too dear without them.
const MOST_ALIKE: usize = 6;

/// How many times the cost of such a dissection the gain is to be: minimum degree does well on many of these graphs.
const SURELY: f64 = 3.0;

/// The most of a factorization by minimum degree that nested dissection is hoped to save.
const MOST_SAVED: f64 = 0.5;

/// With a [`TreeCost`], the share of a factorization by nested dissection that minimum degree is hoped to
/// save. On 19 circuits, power flow problems and grids of 8 000 to 230 000 columns its trees are predicted to take 1.06 to
/// 5.3 times as long, in geometric mean twice as long; on graphs that are trees they may be some percent cheaper.
const MOST_SAVED_IN_TREE: f64 = 0.05;

/// With a [`TreeCost`], operations for each entry of L from which on minimum degree is not tried. Of 147 matrices of 500 rows
/// and more its trees are predicted to be cheaper for six, with up to 248 operations an entry by nested dissection; those
/// with more than 264 (22 of them) take 1.38 to 3.6 times as long.
const MOST_OPERATIONS_PER_ENTRY: f64 = 300.0;

/// An order of the columns of one block.
pub(crate) struct BlockOrder {
    /// New to old, within the block.
    pub order: Vec<u32>,
    pub method: MethodUsed,
    pub predicted: Prediction,
    /// If it is of use, and the order is a postorder of it.
    pub forest: Option<EliminationForest>,
}

/// Measures one step after another; stands still for matrices of fewer than [`MIN_TIMED`] columns.
pub(crate) struct Clock(Option<Instant>);

impl Clock {
    pub fn start(n: usize) -> Self {
        Self((n >= MIN_TIMED).then(Instant::now))
    }

    /// Seconds since the last call.
    pub fn lap(&mut self) -> f64 {
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
    let found = minimum_degree(&graph.ptr, graph.idx, block.waits.as_deref(), cancel)?;
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
    options: &OrderingOptions,
    of_forest: impl FnOnce(&EliminationForest) -> T + Send,
) -> Result<(BlockOrder, T), OrderingError> {
    let (parallel, cancel) = (options.threads > 1, &options.cancel);
    let graph = block.symmetrized(parallel, |_, entries| entries);
    check_size(&graph, "nested dissection")?;
    cancel.check()?;
    let (mut order, forest) = reduced_nested_dissection(&graph, parallel, cancel, &options.memory)?;
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

pub(crate) fn order_block(
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
    let with_forest = options.wants_forest();
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
            let ordered = by_dissection(block, options, |_| ());
            seconds.nested_dissection += clock.lap();
            ordered.map(|(ordered, ())| ordered)
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
    let cancel = &options.cancel;
    let first = by_minimum_degree(block, false, cancel)?;
    seconds.amd += clock.lap();
    let mut best = first;
    if is_worth_dissecting(block, &best, &options.costs) {
        let second = by_dissection(block, options, |_| ());
        seconds.nested_dissection += clock.lap();
        match second {
            Ok((second, ())) => {
                tracing::debug!(
                    n = block.len(),
                    amd_flops = best.predicted.flops,
                    nested_dissection_flops = second.predicted.flops,
                    "candidates of a block"
                );
                if second.predicted.flops <= best.predicted.flops {
                    best = second;
                }
            }
            Err(error @ OrderingError::Cancelled(_)) => return Err(error),
            Err(error) => tracing::warn!(%error, "ordered by minimum degree alone"),
        }
    }
    if options.wants_forest() && best.forest.is_none() {
        best = posted(block, best.order, best.method, true, cancel)?;
        seconds.amd += clock.lap();
    }
    Ok(best)
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
    let first = by_dissection(block, options, estimate);
    seconds.nested_dissection += clock.lap();
    let (first, about) = match first {
        Err(error @ OrderingError::OutOfMemory(_)) => {
            tracing::warn!(%error, "ordered by minimum degree alone");
            let only = by_minimum_degree(block, true, &options.cancel);
            seconds.amd += clock.lap();
            return only;
        }
        first => first?,
    };
    fn forest_of(order: &BlockOrder) -> &EliminationForest {
        let forest = order.forest.as_ref();
        forest.unwrap_or_else(|| unreachable!("orders for trees have forests"))
    }
    let Prediction { lnz, flops, .. } = first.predicted;
    let gain = options.costs.factorizations * about * MOST_SAVED_IN_TREE;
    if flops > MOST_OPERATIONS_PER_ENTRY * lnz as f64
        || gain <= options.costs.minimum_degree_seconds(2 * block.nnz())
    {
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
    let (n, entries) = (block.len(), 2 * block.nnz());
    let gain = costs.factorizations * by_degree.predicted.seconds(costs) * MOST_SAVED;
    if n < MIN_DISSECTION {
        return false;
    }
    let most = costs.dissection_seconds(n, entries);
    if gain > most {
        return true;
    }
    // Columns of one pattern, as those of the unknowns at a node of a finite element mesh, are divided as one.
    let gain = gain / SURELY;
    if gain * (MOST_ALIKE * MOST_ALIKE) as f64 <= most {
        return false;
    }
    let share = distinct_columns(block) as f64 / n as f64;
    let merged = [n as f64 * share, entries as f64 * share * share];
    gain > costs.dissection_seconds(merged[0] as usize, merged[1] as usize)
}

/// About how many columns have different patterns.
fn distinct_columns(block: &BlockPattern) -> usize {
    let hash = |j: usize| {
        let rows = block.col(j);
        rows.iter().fold(0u64, |sum, &row| {
            let spread = (u64::from(row) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            sum.wrapping_add(spread ^ (spread >> 29))
        })
    };
    let mut hashes: Vec<u64> = (0..block.len()).map(hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.len()
}
