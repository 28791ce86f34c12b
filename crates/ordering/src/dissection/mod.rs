//! Nested dissection of what is left after variables of low degree are eliminated.
//!
//! Three steps on one quotient graph (see [`minimum_degree`](crate::minimum_degree)):
//!
//! 1. **Reduction.** Variables of degree at most 12 are eliminated in rounds, each an independent set: a
//!    variable next to a pivot waits for the next round (J. W. H. Liu, "Modification of the minimum-degree
//!    algorithm by multiple elimination", ACM TOMS 11 (1985)). A round takes the quarter of the variables
//!    that has the least degrees. So a path of n vertices gets a tree of height O(log n), where minimum
//!    degree may eliminate it from one end to the other. The rounds end when few variables are left of so
//!    low a degree; of circuits and power grids that is 1 % to 25 % of the graph.
//! 2. **Dissection.** Variables that are joined to each other and to the same others are merged, and what
//!    is left is divided by multilevel vertex separators ([`separator`]), down to parts of 200 vertices,
//!    with the parts on different threads.
//! 3. **Elimination.** The variables in no separator are eliminated in rounds as before, of any degree,
//!    then separator by separator, the deepest first. Variables of different stages are never eliminated
//!    together, which would cost no fill, but could make one part wait for another. Degrees count all
//!    variables left, so those of a part take its border into account (F. Pellegrini, J. Roman and
//!    P. R. Amestoy, "Hybridizing nested dissection and halo approximate minimum degree for efficient
//!    sparse matrix ordering", Concurrency: Practice and Experience 12 (2000)).
//!
//! To divide what minimum degree leaves is from C. Ashcraft and J. W. H. Liu, "Robust ordering of sparse
//! matrices using multisection", SIAM J. Matrix Anal. Appl. 19 (1998), and J. Schulze, "Towards a tighter
//! coupling of bottom-up and top-down sparse matrix ordering methods", BIT 41 (2001).
//!
//! Time is near linear in the entries of the graph for step 1 and 3, with a logarithm of the number of
//! vertices for step 2. The result does not depend on the number of threads.

mod graph;
mod nested;
mod separator;

use crate::minimum_degree::{MinimumDegreeOrder, PivotChoice, Quotient, eliminate};
use graph::{NONE, WeightedGraph};
use nested::{LEAF, SMALLEST, separator_depths};

/// Variables of a higher degree are left to the dissection.
const REDUCED_DEGREE: usize = 12;

/// The share of the variables that a round may choose pivots from, at least.
const SHARE: f64 = 0.25;

/// Variables whose degree is this close to the least one are candidates, too.
const NEAR_LEAST: usize = 1;

/// The reduction ends when a smaller share of the variables may be eliminated.
const SMALLEST_SHARE: f64 = 0.05;

/// Orders the undirected graph with the neighbours `lists[ptr[v]..ptr[v + 1]]` of vertex `v`, in any
/// order, each edge in both lists, no loops. Parts are divided on the current rayon pool if `parallel`.
///
/// # Panics
///
/// If the lists do not fit 32-bit positions; see [`fits`](crate::minimum_degree::fits).
pub(crate) fn reduced_nested_dissection(
    ptr: &[usize],
    lists: Vec<u32>,
    parallel: bool,
) -> MinimumDegreeOrder {
    eliminate(ptr, lists, &mut Rounds::new(ptr.len() - 1, parallel))
}

/// Chooses pivots in rounds, in stages.
struct Rounds {
    parallel: bool,
    /// The variables to be eliminated in this stage, some of them no longer live.
    active: Vec<u32>,
    /// Those of the later stages, the last one first; none until the dissection.
    stages: Vec<Vec<u32>>,
    /// Whether this stage is the reduction.
    is_reducing: bool,
    /// Number of the round.
    round: u32,
    /// The round in which a variable was last next to a pivot.
    waits_in: Vec<u32>,
    /// The variables that this round may still eliminate, the first one last.
    candidates: Vec<u32>,
    /// The stage of each variable, from the last one on; all the same until the dissection.
    stage_of: Vec<u8>,
    /// Workspace: active variables by degree.
    counts: Vec<u32>,
}

impl Rounds {
    fn new(n: usize, parallel: bool) -> Self {
        Self {
            parallel,
            active: Vec::with_capacity(n),
            stages: Vec::new(),
            is_reducing: true,
            round: 0,
            waits_in: vec![0; n],
            candidates: Vec::new(),
            stage_of: vec![0; n],
            counts: Vec::new(),
        }
    }

    /// Finds the candidates of the next round, by degree; false if the stage is over.
    fn start_round(&mut self, graph: Quotient) -> bool {
        self.round += 1;
        self.active.retain(|&i| graph.weight(i) != 0);
        let counts = &mut self.counts;
        counts.clear();
        for &i in &self.active {
            let degree = graph.degree(i) as usize;
            if degree >= counts.len() {
                counts.resize(degree + 1, 0);
            }
            counts[degree] += 1;
        }
        let Some(least) = counts.iter().position(|&count| count != 0) else {
            return false;
        };
        let wanted = (self.active.len() as f64 * SHARE) as u32;
        // `counts` becomes the number of candidates up to each degree below `end`.
        let mut num_candidates = 0;
        let mut end = 0;
        while end < counts.len() {
            let is_enough = num_candidates >= wanted && end > least + NEAR_LEAST;
            if is_enough || self.is_reducing && end > REDUCED_DEGREE {
                break;
            }
            num_candidates += counts[end];
            counts[end] = num_candidates;
            end += 1;
        }
        let share = f64::from(num_candidates) / self.active.len() as f64;
        if self.is_reducing && share < SMALLEST_SHARE {
            return false;
        }
        self.candidates.resize(num_candidates as usize, 0);
        for &i in &self.active {
            let degree = graph.degree(i) as usize;
            if degree < end {
                let place = num_candidates - counts[degree];
                self.candidates[place as usize] = i;
                counts[degree] -= 1;
            }
        }
        true
    }

    /// Divides what the reduction left into stages.
    fn dissect(&mut self, graph: Quotient) {
        self.is_reducing = false;
        let active = std::mem::take(&mut self.active);
        if active.len() <= SMALLEST {
            self.stages.push(active);
            return;
        }
        let (left, number) = merged(explicit_graph(graph, &active));
        let depths = separator_depths(left, self.parallel);
        let deepest = depths.iter().filter(|&&depth| depth != LEAF).max();
        let leaf = deepest.map_or(0, |&depth| usize::from(depth) + 1);
        self.stages.resize(leaf + 1, Vec::new());
        for (&i, &v) in active.iter().zip(&number) {
            let stage = usize::from(depths[v as usize]).min(leaf);
            self.stages[stage].push(i);
            self.stage_of[i as usize] = stage as u8;
        }
    }
}

/// The graph of the variables that are left, numbered as they stand in `active`.
fn explicit_graph(graph: Quotient, active: &[u32]) -> WeightedGraph {
    let mut number = vec![NONE; graph.len()];
    for (v, &i) in active.iter().enumerate() {
        number[i as usize] = v as u32;
    }
    let mut left = WeightedGraph {
        ptr: vec![0],
        ..WeightedGraph::default()
    };
    let mut joined_to = vec![NONE; active.len()];
    for (v, &i) in active.iter().enumerate() {
        let v = v as u32;
        joined_to[v as usize] = v;
        graph.for_each_neighbour(i, |j| {
            let u = number[j as usize];
            if std::mem::replace(&mut joined_to[u as usize], v) != v {
                left.idx.push(u);
            }
        });
        left.ptr.push(left.idx.len());
        left.weight.push(graph.weight(i));
    }
    left.edge_weight = vec![1; left.idx.len()];
    left
}

/// The graph with vertices that are joined to each other and to the same others made one, and the new
/// number of each vertex.
fn merged(graph: WeightedGraph) -> (WeightedGraph, Vec<u32>) {
    let first = graph.first_of_equals();
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
        return (graph, new_index);
    }
    let firsts = (0..graph.len() as u32).filter(|&v| is_first(v));
    let mut smaller = graph.induced(firsts, &new_index);
    smaller.weight.fill(0);
    let number: Vec<u32> = first.iter().map(|&v| new_index[v as usize]).collect();
    for (&v, &weight) in number.iter().zip(&graph.weight) {
        smaller.weight[v as usize] += weight;
    }
    (smaller, number)
}

impl PivotChoice for Rounds {
    fn insert(&mut self, i: u32, _degree: usize) {
        if self.round == 0 {
            self.active.push(i);
        } else {
            self.waits_in[i as usize] = self.round;
        }
    }

    fn pop(&mut self, graph: Quotient) -> u32 {
        loop {
            while let Some(i) = self.candidates.pop() {
                if graph.weight(i) != 0 && self.waits_in[i as usize] != self.round {
                    return i;
                }
            }
            while !self.start_round(graph) {
                if self.is_reducing {
                    self.dissect(graph);
                }
                self.active = self.stages.pop().expect("a live variable is in some stage");
            }
        }
    }

    /// Not across stages: a separator that is eliminated with a part below it makes that part wait for what
    /// is on the other side.
    #[inline]
    fn may_join(&self, i: u32, j: u32) -> bool {
        self.stage_of[i as usize] == self.stage_of[j as usize]
    }
}
