//! Nested dissection of what is left after variables of low degree are eliminated.
//!
//! 1. **Reduction.** Variables with few neighbours are eliminated in rounds, each an independent set (J. W. H. Liu,
//!    "Modification of the minimum-degree algorithm by multiple elimination", ACM TOMS 11 (1985)), from those with the
//!    fewest on ([`reduction`]). So a path of n vertices gets a tree of height O(log n), where minimum degree may
//!    eliminate it from one end to the other. The rounds end when few variables have so few neighbours left, which of circuits
//!    and power systems are 1 % to 5 % of the graph, or when they begin to add edges, as they soon do in a mesh.
//! 2. **Dissection.** Variables that are joined to each other and to the same others are merged, and what
//!    is left is divided by multilevel vertex separators ([`separator`]), or by a level of a breadth-first search where that is
//!    lighter ([`levels`]), down to parts of 200 vertices (of 25 where separators are short), with the parts on different
//!    threads.
//! 3. **Elimination.** Parts of a hundredth or so of the graph are *domains*: each is eliminated on a quotient graph of its
//!    own (see [`minimum_degree`](crate::minimum_degree)), on different threads, and then the separators between domains
//!    on what these leave ([`domains`]). Variables in no separator come first, in rounds, of any degree: a round takes
//!    the quarter of the variables that has the least degrees, and a variable next to a pivot waits for the next round.
//!    Then separator by separator, the deepest first ([`rounds`]). Variables of different stages are never eliminated
//!    together, which would cost no fill, but could make one part wait for another. Degrees count all variables left, so
//!    those of a part take its border into account (F. Pellegrini, J. Roman and P. R. Amestoy, "Hybridizing nested
//!    dissection and halo approximate minimum degree for efficient sparse matrix ordering", Concurrency: Practice and
//!    Experience 12 (2000)).
//!
//! To divide what minimum degree leaves is from C. Ashcraft and J. W. H. Liu, "Robust ordering of sparse
//! matrices using multisection", SIAM J. Matrix Anal. Appl. 19 (1998), and J. Schulze, "Towards a tighter
//! coupling of bottom-up and top-down sparse matrix ordering methods", BIT 41 (2001).
//!
//! Time is near linear in the entries of the graph for step 1 and 3, with a logarithm of the number of
//! vertices for step 2. The result does not depend on the number of threads.

mod domains;
#[cfg(test)]
mod examples;
mod graph;
mod levels;
mod nested;
mod reduction;
mod rounds;
mod separator;

use luge_sparse::etree::EliminationForest;
use luge_sparse::{CancelFlag, Cancelled, MemoryBudget};

use crate::error::OrderingError;
use crate::graph::Graph;
use domains::{Domains, eliminated};
use graph::{NONE, WeightedGraph};
use nested::{LEAF, SMALLEST_NARROW, places};
use reduction::{Lists, Reduction};

/// A graph is divided into about so many domains at least, if they have enough vertices.
const DOMAINS: usize = 64;

/// Parts of fewer vertices than this stay one domain. Few in tests, so that small graphs have several.
const SMALLEST_DOMAIN: usize = if cfg!(test) { 20 } else { 2_000 };

/// Orders the graph, with the elimination forest of the order, of which it is a postorder; without that if more than 64
/// vertices have so many neighbours that they are set aside. On the current rayon pool if `parallel`.
///
/// # Errors
///
/// [`OrderingError::Cancelled`], which is looked for between rounds and separators; [`OrderingError::OutOfMemory`].
///
/// # Panics
///
/// If the lists do not fit 32-bit positions; see [`fits`](crate::minimum_degree::fits).
pub(crate) fn reduced_nested_dissection(
    graph: &Graph,
    parallel: bool,
    cancel: &CancelFlag,
    memory: &MemoryBudget,
) -> Result<(Vec<u32>, Option<EliminationForest>), OrderingError> {
    let reduction = Reduction::new(graph, parallel, cancel)?;
    let Lists { ptr, idx } = &reduction.graph;
    let _reserved = memory.reserve(division_bytes(ptr.len() - 1, idx.len(), parallel))?;
    let weight = &reduction.left_weight;
    let divided = WeightedGraph {
        ptr: ptr.clone(),
        idx: idx.clone(),
        edge_weight: vec![1; idx.len()],
        weight: weight.clone(),
    };
    let domains = domains(divided, parallel, cancel)?;
    let order = eliminated(&reduction.graph, weight, &domains, parallel, cancel)?;
    Ok(reduction.whole_order(graph, order, parallel, cancel)?)
}

/// Bytes that dividing a graph of so many vertices and list entries takes at most beyond [`PEAK_BYTES`](crate::PEAK_BYTES), of
/// which more than half is free by then. Where vertices have many neighbours, a coarser graph has half the vertices of the one
/// before and three quarters of its entries; three attempts are made at once if `parallel`, one of which, a search for levels, takes
/// ten bytes a vertex. Measured on what reduction leaves of grids, circuits, KKT systems and random graphs.
fn division_bytes(vertices: usize, entries: usize, parallel: bool) -> u64 {
    let (of_vertex, of_entry) = if parallel { (64, 32) } else { (28, 16) };
    (of_vertex * vertices + of_entry * entries) as u64
}

/// Divides the graph. The vertices in no separator are eliminated first, then separator by separator, the deepest first.
///
/// # Errors
///
/// [`Cancelled`].
fn domains(
    graph: WeightedGraph,
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<Domains, Cancelled> {
    let n = graph.len();
    if n <= SMALLEST_NARROW {
        return Ok(Domains {
            of: vec![0; n],
            count: 1,
            stage: vec![0; n],
        });
    }
    cancel.check()?;
    let (graph, number) = merged(graph, parallel, cancel)?;
    cancel.check()?;
    let largest = (graph.len() / DOMAINS).max(SMALLEST_DOMAIN);
    let (places, count) = places(graph, largest, parallel, cancel);
    cancel.check()?;
    let depths = places.iter().map(|place| place.depth);
    let deepest = depths.filter(|&depth| depth != LEAF).max();
    let leaf = deepest.map_or(0, |depth| depth + 1);
    let places = number.iter().map(|&v| &places[v as usize]);
    let (of, stage) = places
        .map(|place| (place.domain, place.depth.min(leaf)))
        .unzip();
    Ok(Domains { of, count, stage })
}

/// The graph with vertices that are joined to each other and to the same others made one, and the new
/// number of each vertex. On the current rayon pool if `parallel`.
///
/// # Errors
///
/// [`Cancelled`].
fn merged(
    graph: WeightedGraph,
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<(WeightedGraph, Vec<u32>), Cancelled> {
    let first = graph.first_of_equals(parallel, cancel)?;
    let is_first = |v: u32| first[v as usize] == v;
    let mut count = 0;
    let new_index: Vec<u32> = (0..graph.len() as u32)
        .map(|v| {
            if !is_first(v) {
                return NONE;
            }
            count += 1;
            count - 1
        })
        .collect();
    if count as usize == graph.len() {
        return Ok((graph, new_index));
    }
    cancel.check()?;
    let firsts = (0..graph.len() as u32).filter(|&v| is_first(v));
    let mut smaller = graph.induced(firsts, &new_index);
    smaller.weight.fill(0);
    let number: Vec<u32> = first.iter().map(|&v| new_index[v as usize]).collect();
    for (&v, &weight) in number.iter().zip(&graph.weight) {
        smaller.weight[v as usize] += weight;
    }
    Ok((smaller, number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use luge_sparse::etree;
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    use super::*;

    fn graph(n: usize, edges: impl Iterator<Item = (usize, usize)>) -> Graph {
        let mut lists = vec![BTreeSet::new(); n];
        for (v, w) in edges.filter(|(v, w)| v != w) {
            lists[v].insert(w as u32);
            lists[w].insert(v as u32);
        }
        let (mut ptr, mut idx) = (vec![0], Vec::new());
        for list in lists {
            idx.extend(list);
            ptr.push(idx.len());
        }
        Graph { ptr, idx }
    }

    fn dissected(graph: &Graph, parallel: bool) -> (Vec<u32>, Option<EliminationForest>) {
        let (cancel, memory) = (CancelFlag::new(), MemoryBudget::unlimited());
        reduced_nested_dissection(graph, parallel, &cancel, &memory).unwrap()
    }

    /// The forest that goes with an order, from the graph.
    fn forest_of(graph: &Graph, order: &[u32]) -> EliminationForest {
        let place = etree::inverse(order);
        let joined = |k: u32| {
            let neighbours = graph.neighbours(order[k as usize] as usize);
            neighbours.iter().map(|&w| place[w as usize])
        };
        let parent = etree::elimination_tree(order.len(), joined);
        let counts = etree::column_counts(&parent, joined);
        EliminationForest { parent, counts }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_forest_is_that_of_the_order(
            a in patterns(20),
            copies in 1usize..30,
            alike in 1usize..3,
            hubs in 0usize..4,
        ) {
            // Copies in a chain, each vertex several times, and hubs that some vertices of all copies are joined to.
            let size = a.major_dim();
            prop_assume!(size > 0);
            let n = copies * size * alike;
            let number = |copy: usize, v: usize, k: usize| (copy * size + v) * alike + k;
            let mut edges = Vec::new();
            for copy in 0..copies {
                for v in 0..size {
                    let within = a.line(v).iter().map(|&w| (copy, w as usize));
                    let next = (v == 0 && copy + 1 < copies).then_some((copy + 1, 0));
                    for (other, w) in within.chain(next).chain([(copy, v)]) {
                        for (k, l) in (0..alike).flat_map(|k| (0..alike).map(move |l| (k, l))) {
                            edges.push((number(copy, v, k), number(other, w, l)));
                        }
                    }
                }
            }
            for hub in 0..hubs {
                let joined = (0..n + hub).filter(|v| v % 7 != hub || *v >= n);
                edges.extend(joined.filter(|v| hub != 1 || *v != n).map(|v| (n + hub, v)));
            }
            let graph = graph(n + hubs, edges.into_iter());
            let (order, forest) = dissected(&graph, false);
            let forest = forest.unwrap();
            let (by_threads, forest_by_threads) =
                dissected(&graph, true);
            prop_assert_eq!(&by_threads, &order);
            prop_assert_eq!(forest_by_threads.as_ref(), Some(&forest));
            prop_assert_eq!(etree::inverse(&etree::inverse(&order)), order.clone());
            let expected = forest_of(&graph, &order);
            prop_assert_eq!(&forest, &expected);
            let all: Vec<u32> = (0..order.len() as u32).collect();
            prop_assert_eq!(etree::postorder(&forest.parent), all);
        }
    }

    #[test]
    fn trees_of_narrow_graphs_are_low() {
        // Groups of three vertices, each joined to those of the next two groups: rounds of independent vertices take a fifth of
        // the groups, or fewer.
        let n = 3 * 190;
        let edges = (0..n).flat_map(|v| (v + 1..n.min(v / 3 * 3 + 9)).map(move |w| (v, w)));
        let graph = graph(n, edges);
        let (order, forest) = dissected(&graph, false);
        let EliminationForest { parent, counts } = forest.unwrap();
        // By vertex, the most fronts on a path from a leaf to it: a front ends where the rows of the next column are not
        // those of this one but for the diagonal.
        let mut fronts = vec![1; order.len()];
        for v in 0..order.len() {
            if let Some(above) = parent.get(v).map(|&p| p as usize).filter(|&p| p < n) {
                let step = usize::from(counts[above] + 1 != counts[v]);
                fronts[above] = fronts[above].max(fronts[v] + step);
            }
        }
        let highest = *fronts.iter().max().unwrap();
        assert!(highest <= 16, "{highest} fronts");
    }

    #[test]
    fn hubs_that_are_alike_are_ordered_once() {
        let (n, hubs) = (2000, 3);
        let to_hubs = (0..n).flat_map(|v| (0..hubs).map(move |h| (v, n + h)));
        let between = (0..hubs).flat_map(|g| (0..g).map(move |h| (n + g, n + h)));
        let edges = (1..n).map(|v| (v - 1, v)).chain(to_hubs).chain(between);
        let graph = graph(n + hubs, edges);
        let (order, forest) = dissected(&graph, false);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..(n + hubs) as u32));
        assert_eq!(forest.unwrap(), forest_of(&graph, &order));
    }

    #[test]
    fn more_hubs_than_are_followed_are_ordered() {
        // Each hub is joined to nearly half of the others.
        let (n, hubs) = (3000, 70);
        let to_hubs = (0..n).flat_map(|v| (0..hubs).map(move |h| (v, n + h)));
        let to_hubs = to_hubs.filter(|(v, h)| (v / 3 + h) % 2 == 0);
        let graph = graph(n + hubs, (1..n).map(|v| (v - 1, v)).chain(to_hubs));
        let (order, forest) = dissected(&graph, false);
        assert!(forest.is_none());
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..(n + hubs) as u32));
        let mut last = order[n..].to_vec();
        last.sort_unstable();
        assert!(last.into_iter().eq(n as u32..(n + hubs) as u32));
    }
}
