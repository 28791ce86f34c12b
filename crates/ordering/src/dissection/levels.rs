//! Vertex separators that are levels of a breadth-first search (A. George and J. W. H. Liu, "An automatic nested dissection algorithm
//! for irregular finite element problems", SIAM J. Numer. Anal. 15 (1978)).
//!
//! Multilevel separators of a grid are planes, since planes are lightest on coarse graphs. The lightest separators of grids whose
//! vertices have neighbours along the axes alone are at an angle: from a corner, all vertices of one distance are three quarters
//! as many as those of a plane through a cube, and a search from a vertex at an end of the graph finds them.

use luge_sparse::{CancelFlag, Cancelled};

use super::graph::WeightedGraph;
use super::separator::{Division, SEPARATOR, badness};

/// How many searches are made, each but the first from the end of the one before.
const SEARCHES: usize = 2;

/// The vertices of a graph by their distance from one of them.
struct Levels {
    /// Vertices, level after level.
    order: Vec<u32>,
    /// Where each level ends.
    ends: Vec<usize>,
}

impl Levels {
    /// Of all vertices that are connected with the first one. `seen` is false for all vertices, before and, if they all are connected,
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    fn new(
        graph: &WeightedGraph,
        first: u32,
        seen: &mut [bool],
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let mut order = Vec::with_capacity(graph.len());
        let mut ends = Vec::new();
        order.push(first);
        seen[first as usize] = true;
        let mut start = 0;
        while start < order.len() {
            cancel.check()?;
            let end = order.len();
            ends.push(end);
            for k in start..end {
                for &u in graph.neighbours(order[k]) {
                    if !std::mem::replace(&mut seen[u as usize], true) {
                        order.push(u);
                    }
                }
            }
            start = end;
        }
        if order.len() == seen.len() {
            seen.fill(false);
        }
        Ok(Self { order, ends })
    }

    /// The vertices of each level.
    fn each(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.order[start..end])
    }

    /// Of the vertices of the last level one with the fewest neighbours.
    fn end(&self, graph: &WeightedGraph) -> u32 {
        let last = self.each().last().unwrap_or(&self.order);
        let degree = |v: u32| graph.neighbours(v).len();
        let end = last.iter().copied().min_by_key(|&v| (degree(v), v));
        end.expect("levels are not empty")
    }

    /// The level that is the best separator, and the weights of the sides.
    fn best(&self, graph: &WeightedGraph) -> (usize, [u64; 3]) {
        let total = graph.total_weight();
        let mut before = 0;
        let weights = self.each().map(|level| {
            let of_level = level.iter().map(|&v| u64::from(graph.weight[v as usize]));
            let weight = of_level.sum::<u64>();
            let weights = [before, total - before - weight, weight];
            before += weight;
            weights
        });
        let best = weights
            .enumerate()
            .min_by_key(|&(level, weights)| (badness(weights), level));
        best.expect("there is a level")
    }

    /// With this level as the separator.
    fn division(&self, separator: usize, weight: [u64; 3]) -> Division {
        let mut side = vec![0; self.order.len()];
        let vertices = self.each().nth(separator).unwrap_or_default();
        for &v in vertices {
            side[v as usize] = SEPARATOR;
        }
        for &v in &self.order[self.ends[separator]..] {
            side[v as usize] = 1;
        }
        Division {
            side,
            weight,
            separator: vertices.to_vec(),
        }
    }
}

/// The best division by one level of a search; none if the graph is not connected.
///
/// # Errors
///
/// [`Cancelled`].
pub(super) fn divided(
    graph: &WeightedGraph,
    cancel: &CancelFlag,
) -> Result<Option<Division>, Cancelled> {
    let mut seen = vec![false; graph.len()];
    let mut best: Option<(Levels, usize, [u64; 3])> = None;
    // Corners of meshes have the fewest neighbours.
    let vertices = 0..graph.len() as u32;
    let Some(mut first) = vertices.min_by_key(|&v| graph.neighbours(v).len()) else {
        return Ok(None);
    };
    for _ in 0..SEARCHES {
        let levels = Levels::new(graph, first, &mut seen, cancel)?;
        if levels.order.len() < graph.len() {
            return Ok(None);
        }
        first = levels.end(graph);
        let (level, weight) = levels.best(graph);
        let is_better = |&(_, _, than): &(Levels, usize, [u64; 3])| badness(weight) < badness(than);
        if best.as_ref().is_none_or(is_better) {
            best = Some((levels, level, weight));
        }
    }
    Ok(best.map(|(levels, level, weight)| levels.division(level, weight)))
}

#[cfg(test)]
mod tests {
    use super::super::examples::{cube, graph};
    use super::super::separator::refined;
    use super::*;
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    fn divided(graph: &WeightedGraph) -> Option<Division> {
        super::divided(graph, &CancelFlag::new()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn a_level_separates_what_is_connected(a in patterns(60), is_connected in any::<bool>()) {
            let n = a.major_dim() as u32;
            prop_assume!(n > 0);
            let edges = (0..n).flat_map(|v| a.line(v as usize).iter().map(move |&u| (v, u)));
            let path = (1..n).filter(|_| is_connected).map(|v| (v - 1, v));
            let graph = graph(n, edges.chain(path));
            let Some(division) = divided(&graph) else {
                prop_assert!(!is_connected);
                return Ok(());
            };
            let mut weight = [0; 3];
            let mut separator = Vec::new();
            for v in 0..n {
                let of_v = division.side[v as usize];
                weight[of_v as usize] += u64::from(graph.weight[v as usize]);
                if of_v == SEPARATOR {
                    separator.push(v);
                }
                for &u in graph.neighbours(v) {
                    let of_u = division.side[u as usize];
                    prop_assert!(of_v == of_u || of_v == SEPARATOR || of_u == SEPARATOR);
                }
            }
            prop_assert_eq!(division.weight, weight);
            let mut listed = division.separator.clone();
            listed.sort_unstable();
            prop_assert_eq!(listed, separator);
        }
    }

    #[test]
    fn cubes_are_cut_at_an_angle() {
        let k = 20;
        let cube = cube(k);
        let [a, b, separator] = divided(&cube).unwrap().weight;
        // Of a plane 400, of the middle level between two corners 300.
        assert!(separator <= 300, "{separator}");
        assert!(a.max(b) as f64 <= 0.65 * (a + b) as f64);
        let refined = refined(&cube, divided(&cube).unwrap());
        assert!(badness(refined.weight) <= badness([a, b, separator]));
    }

    #[test]
    fn searches_begin_at_ends() {
        // A path with a twig of one edge in its middle, which is numbered first: from the twig, most levels have two vertices.
        let path = (2..101).map(|v| (v - 1, v));
        let path = graph(101, path.chain([(0, 50)]));
        let division = divided(&path).unwrap();
        assert_eq!(division.separator.len(), 1);
        let [a, b, _] = division.weight;
        assert!(a.abs_diff(b) <= 6, "{a} and {b}");
    }

    #[test]
    fn graphs_in_pieces_have_no_levels() {
        let pieces = graph(6, [(0, 1), (1, 2), (3, 4), (4, 5)].into_iter());
        assert!(divided(&pieces).is_none());
    }

    #[test]
    fn a_search_that_is_cancelled_finds_nothing() {
        let raised = CancelFlag::new();
        raised.cancel();
        assert!(super::divided(&cube(3), &raised).is_err());
    }
}
