//! Multilevel vertex separators.
//!
//! The graph is coarsened by heavy-edge matching (G. Karypis and V. Kumar, "A fast and high quality
//! multilevel scheme for partitioning irregular graphs", SIAM J. Sci. Comput. 20 (1998)) until a few dozen
//! vertices are left; vertices that find no partner are matched through a common neighbour. On the coarsest
//! graph a part grows from a random vertex, several times, and the best result is kept. On the way back
//! the separator is refined on every level by moving vertices out of it (C. Ashcraft and J. W. H. Liu,
//! "Using domain decomposition to find graph bisectors", BIT 37 (1997); B. Hendrickson and E. Rothberg,
//! "Improving the run time and quality of nested dissection ordering", SIAM J. Sci. Comput. 20 (1998)), in
//! passes as of Fiduccia and Mattheyses: a vertex that moves to a part pulls its neighbours in the other
//! part into the separator; moves that make the separator heavier are tried, too, and taken back unless it
//! gets lighter within some of them. A pass moves to one part only, the next to the other.
//!
//! The result depends on the graph and the random numbers, on nothing else. Time is near linear in the
//! entries of the graph.

use std::collections::BinaryHeap;

use luge_sparse::{CancelFlag, Cancelled};

use super::graph::WeightedGraph;

/// Where a vertex is: in part 0 or 1, or between them.
pub(super) type Side = u8;

/// Between the parts.
pub(super) const SEPARATOR: Side = 2;

/// Graphs of at most so many vertices are not coarsened.
const COARSEST: usize = 100;

/// Coarsening ends when a step keeps more of the vertices than this.
const STALL: f64 = 0.95;

/// A coarse vertex may weigh so many times the average of a graph of [`COARSEST`] vertices.
const HEAVIEST: f64 = 1.5;

/// How many parts grow on the coarsest graph.
const TRIES: usize = 3;

/// Most passes on a level.
const PASSES: usize = 8;

/// A pass ends after as many moves without success as the separator has vertices, or so many. Not earlier: a plane through a grid
/// gets lighter only after it has been tilted, and on the way there it has the same weight again and again.
const LEAST_PATIENCE: usize = 60;

/// Share of the weight of both parts that one may have.
const LARGEST_PART: f64 = 0.65;

/// By how much of its weight a separator may be heavier if it leaves even parts and not one alone. Between 0.1 and 0.2 factorizations of 43
/// matrices of a corpus take the fewest operations.
const EVENNESS: f64 = 0.125;

/// Likewise where both parts together weigh more than [`LARGE`]: the larger one keeps threads waiting for longer, and of large grids
/// factorizations take up to a tenth fewer operations than with 0.125.
const EVENNESS_OF_LARGE: f64 = 0.5;

const LARGE: u64 = 100_000;

/// Numbers that look random, by G. Marsaglia's xorshift.
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * n as u64) >> 32) as usize
    }
}

/// A division of the vertices, in which no edge joins the two parts.
pub(super) struct Division {
    pub side: Vec<Side>,
    /// Weight of each side.
    pub weight: [u64; 3],
    /// All vertices of the separator, perhaps more than once, and perhaps others.
    pub separator: Vec<u32>,
}

/// The most that a part may weigh, of parts of these weights.
fn limit(part: u64, other: u64) -> u64 {
    (LARGEST_PART * (part + other) as f64) as u64
}

/// What is to be small, of a division into sides of these weights: weight of a part beyond the limit; weight of the separator, and a share
/// of it the more the parts differ, a positive number of type `f64` as bits, which are in the order of the numbers; the difference of the parts.
pub(super) fn badness([a, b, separator]: [u64; 3]) -> (u64, u64, u64) {
    let difference = a.abs_diff(b);
    let excess = a.max(b).saturating_sub(limit(a, b));
    let unevenness = difference as f64 / (a + b).max(1) as f64;
    let evenness = if a + b > LARGE {
        EVENNESS_OF_LARGE
    } else {
        EVENNESS
    };
    let heaviness = separator as f64 * (1.0 + evenness * unevenness);
    (excess, heaviness.to_bits(), difference)
}

impl Division {
    /// Whether this is the better one of two.
    pub fn is_better(&self, than: &Self) -> bool {
        self.badness() < than.badness()
    }

    /// How many times as heavy as that of another division this separator is; infinite if a part is too heavy.
    pub fn heaviness(&self, other: &Self) -> f64 {
        if self.badness().0 > other.badness().0 {
            return f64::INFINITY;
        }
        let [own, of_other] = [self, other].map(|division| division.weight[SEPARATOR as usize]);
        own as f64 / of_other.max(1) as f64
    }

    fn badness(&self) -> (u64, u64, u64) {
        badness(self.weight)
    }

    fn set(&mut self, v: u32, weight: u32, side: Side) {
        let old = std::mem::replace(&mut self.side[v as usize], side);
        self.weight[old as usize] -= u64::from(weight);
        self.weight[side as usize] += u64::from(weight);
        if side == SEPARATOR {
            self.separator.push(v);
        }
    }
}

/// A division without an edge from one part to the other. A part may be empty. Large graphs are coarsened on the current
/// rayon pool if `parallel`; the result is the same.
///
/// # Errors
///
/// [`Cancelled`].
pub(super) fn divided(
    graph: &WeightedGraph,
    random: &mut Random,
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<Division, Cancelled> {
    let most = (HEAVIEST * graph.total_weight() as f64 / COARSEST as f64) as u32 + 1;
    // Each coarser graph, and which of its vertices those of the one before went into.
    let mut coarser: Vec<(WeightedGraph, Vec<u32>)> = Vec::new();
    loop {
        let last = coarser.last().map_or(graph, |(graph, _)| graph);
        if last.len() <= COARSEST {
            break;
        }
        cancel.check()?;
        let map = last.matched(most, random.below(last.len()) as u32, cancel)?;
        let next = last.coarsened(&map, parallel, cancel)?;
        let stalls = next.len() as f64 > STALL * last.len() as f64;
        coarser.push((next, map));
        if stalls {
            break;
        }
    }
    let mut refiner = Refiner::new(graph.len());
    let coarsest = coarser.last().map_or(graph, |(graph, _)| graph);
    let mut division = refiner.initial(coarsest, random);
    while let Some((_, map)) = coarser.pop() {
        cancel.check()?;
        let finer = coarser.last().map_or(graph, |(graph, _)| graph);
        division.side = map.iter().map(|&c| division.side[c as usize]).collect();
        division.separator.clear();
        for (v, &side) in division.side.iter().enumerate() {
            if side == SEPARATOR {
                division.separator.push(v as u32);
            }
        }
        refiner.refine(finer, &mut division);
    }
    Ok(division)
}

/// The division after moves of vertices out of its separator and into it.
pub(super) fn refined(graph: &WeightedGraph, mut division: Division) -> Division {
    Refiner::new(graph.len()).refine(graph, &mut division);
    division
}

/// What the separator loses in weight by the move of a vertex, and this: moves are ordered by the one, then by the other. All
/// vertices together weigh less than 2³¹, as many as the graph has to begin with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Move(u64);

impl Move {
    /// Added to a gain, to make it positive.
    const ZERO: i64 = 1 << 31;

    fn new(gain: i64, v: u32) -> Self {
        Self(((gain + Self::ZERO) as u64) << 32 | u64::from(v))
    }

    fn gain(self) -> i64 {
        (self.0 >> 32) as i64 - Self::ZERO
    }

    fn vertex(self) -> u32 {
        self.0 as u32
    }
}

/// Moves vertices from the separator to one part after another.
struct Refiner {
    /// Of vertices in the separator: the weight of the neighbours in the part that is not moved to.
    pulled: Vec<u32>,
    /// Possible moves. Those whose gain has changed since, or whose vertex has moved, do not count.
    moves: BinaryHeap<Move>,
    /// The vertices that changed sides, with the side that they came from, oldest first.
    log: Vec<(u32, Side)>,
}

impl Refiner {
    /// For graphs of at most `n` vertices.
    fn new(n: usize) -> Self {
        Self {
            pulled: vec![0; n],
            moves: BinaryHeap::new(),
            log: Vec::new(),
        }
    }

    fn gain(&self, graph: &WeightedGraph, v: u32) -> i64 {
        i64::from(graph.weight[v as usize]) - i64::from(self.pulled[v as usize])
    }

    /// Enters vertex `v` of the separator for a move to the part `to`.
    fn enter(&mut self, graph: &WeightedGraph, division: &Division, v: u32, to: Side) {
        let pulled = |&u: &u32| {
            let weight = graph.weight[u as usize];
            // No branch could be foretold.
            if division.side[u as usize] == 1 - to {
                weight
            } else {
                0
            }
        };
        self.pulled[v as usize] = graph.neighbours(v).iter().map(pulled).sum();
        self.moves.push(Move::new(self.gain(graph, v), v));
    }

    /// Takes out the best move.
    fn best(&mut self, graph: &WeightedGraph, division: &Division) -> Option<u32> {
        while let Some(best) = self.moves.pop() {
            let v = best.vertex();
            if division.side[v as usize] == SEPARATOR && best.gain() == self.gain(graph, v) {
                return Some(v);
            }
        }
        None
    }

    /// Moves `v` from the separator to the part `to`, and its neighbours in the other part into the
    /// separator.
    fn apply(&mut self, graph: &WeightedGraph, division: &mut Division, v: u32, to: Side) {
        division.set(v, graph.weight[v as usize], to);
        self.log.push((v, SEPARATOR));
        for &u in graph.neighbours(v) {
            if division.side[u as usize] != 1 - to {
                continue;
            }
            let weight = graph.weight[u as usize];
            division.set(u, weight, SEPARATOR);
            self.log.push((u, 1 - to));
            for &w in graph.neighbours(u) {
                if division.side[w as usize] == SEPARATOR {
                    // All of these have been entered.
                    self.pulled[w as usize] -= weight;
                    self.moves.push(Move::new(self.gain(graph, w), w));
                }
            }
            self.enter(graph, division, u, to);
        }
    }

    /// Takes back all but the first `kept` changes.
    fn undo(&mut self, graph: &WeightedGraph, division: &mut Division, kept: usize) {
        while self.log.len() > kept {
            if let Some((v, from)) = self.log.pop() {
                division.set(v, graph.weight[v as usize], from);
            }
        }
    }

    /// The best of some divisions that grow from one vertex.
    fn initial(&mut self, graph: &WeightedGraph, random: &mut Random) -> Division {
        let mut best: Option<Division> = None;
        for _ in 0..TRIES {
            let mut division = Division {
                side: vec![1; graph.len()],
                weight: [0, graph.total_weight(), 0],
                separator: Vec::new(),
            };
            self.grow(graph, &mut division, random.below(graph.len()));
            self.refine(graph, &mut division);
            if best.as_ref().is_none_or(|best| division.is_better(best)) {
                best = Some(division);
            }
        }
        best.expect("there is at least one try")
    }

    /// Moves vertices from part 1 to part 0, from the vertex `first` on, until part 0 is too heavy, and
    /// returns to the best division on the way.
    fn grow(&mut self, graph: &WeightedGraph, division: &mut Division, first: usize) {
        self.moves.clear();
        self.log.clear();
        let mut best = (division.badness(), 0);
        let enough = (LARGEST_PART * division.weight[1] as f64) as u64;
        // The next vertex where no component has been begun.
        let mut seeds = (first..graph.len()).chain(0..first);
        while division.weight[0] <= enough {
            if let Some(v) = self.best(graph, division) {
                self.apply(graph, division, v, 0);
            } else if let Some(seed) = seeds.find(|&v| division.side[v] == 1) {
                let seed = seed as u32;
                division.set(seed, graph.weight[seed as usize], SEPARATOR);
                self.log.push((seed, 1));
                self.enter(graph, division, seed, 0);
            } else {
                break;
            }
            let badness = division.badness();
            if badness < best.0 {
                best = (badness, self.log.len());
            }
        }
        self.undo(graph, division, best.1);
    }

    /// Makes the separator lighter and the parts even, until a pass to either part fails.
    fn refine(&mut self, graph: &WeightedGraph, division: &mut Division) {
        let mut to = Side::from(division.weight[1] < division.weight[0]);
        let mut has_failed = false;
        for _ in 0..PASSES {
            let gets_better = self.pass(graph, division, to);
            if !gets_better && has_failed {
                break;
            }
            has_failed = !gets_better;
            to = 1 - to;
        }
    }

    /// Moves vertices to the part `to`. Whether the division got better by that.
    fn pass(&mut self, graph: &WeightedGraph, division: &mut Division, to: Side) -> bool {
        self.moves.clear();
        self.log.clear();
        let mut separator = std::mem::take(&mut division.separator);
        separator.retain(|&v| division.side[v as usize] == SEPARATOR);
        separator.sort_unstable();
        separator.dedup();
        for &v in &separator {
            self.enter(graph, division, v, to);
        }
        division.separator = separator;
        let at_start = division.badness();
        let mut best = (at_start, 0);
        let mut idle = 0;
        let patience = division.separator.len().max(LEAST_PATIENCE);
        while idle < patience {
            let Some(v) = self.best(graph, division) else {
                break;
            };
            let grown = division.weight[to as usize] + u64::from(graph.weight[v as usize]);
            if grown > limit(division.weight[0], division.weight[1])
                && grown > division.weight[1 - to as usize]
            {
                break;
            }
            self.apply(graph, division, v, to);
            let badness = division.badness();
            if badness < best.0 {
                best = (badness, self.log.len());
                idle = 0;
            } else {
                idle += 1;
            }
        }
        self.undo(graph, division, best.1);
        best.0 < at_start
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{cube, graph};
    use super::*;
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    fn grid(nx: u32, ny: u32) -> WeightedGraph {
        let right = (0..nx * ny).filter(move |v| v % nx + 1 < nx);
        let up = 0..nx * (ny - 1);
        graph(
            nx * ny,
            right.map(|v| (v, v + 1)).chain(up.map(|v| (v, v + nx))),
        )
    }

    fn sides(graph: &WeightedGraph, seed: u64) -> Vec<Side> {
        let mut random = Random::new(seed);
        let division = divided(graph, &mut random, false, &CancelFlag::new());
        division.unwrap().side
    }

    /// Weights of the sides; no edge may join the parts.
    fn checked(graph: &WeightedGraph, side: &[Side]) -> [u64; 3] {
        let mut weight = [0; 3];
        for v in 0..graph.len() as u32 {
            let of_v = side[v as usize];
            weight[of_v as usize] += u64::from(graph.weight[v as usize]);
            for &u in graph.neighbours(v) {
                let of_u = side[u as usize];
                assert!(of_v == of_u || of_v == SEPARATOR || of_u == SEPARATOR);
            }
        }
        weight
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn no_edge_joins_the_parts(a in patterns(150), copies in 1u32..4, seed in any::<u64>()) {
            // Several copies side by side.
            let n = a.major_dim() as u32;
            prop_assume!(n > 0);
            let edges = (0..copies).flat_map(|copy| {
                let a = &a;
                (0..n).flat_map(move |v| {
                    a.line(v as usize).iter().map(move |&u| (copy * n + v, copy * n + u))
                })
            });
            let graph = graph(copies * n, edges);
            let side = sides(&graph, seed);
            prop_assert_eq!(side.len(), graph.len());
            checked(&graph, &side);
        }

        #[test]
        fn coarse_graphs_sum_the_weights(a in patterns(60), most in 2u32..20, start in 0u32..60) {
            let n = a.major_dim() as u32;
            prop_assume!(n > 0);
            let edges = (0..n).flat_map(|v| a.line(v as usize).iter().map(move |&u| (v, u)));
            let fine = graph(n, edges);
            let cancel = CancelFlag::new();
            let map = fine.matched(most, start % n, &cancel).unwrap();
            let coarse = fine.coarsened(&map, false, &cancel).unwrap();
            let k = coarse.len();
            let mut weight = vec![0; k];
            let mut joined = vec![vec![0; k]; k];
            for v in 0..n {
                let c = map[v as usize] as usize;
                weight[c] += fine.weight[v as usize];
                for &u in fine.neighbours(v) {
                    joined[c][map[u as usize] as usize] += 1;
                }
            }
            prop_assert_eq!(&coarse.weight, &weight);
            for c in 0..k as u32 {
                prop_assert!(map.iter().filter(|&&d| d == c).count() <= 2);
                prop_assert!(weight[c as usize] <= most.max(3));
                joined[c as usize][c as usize] = 0;
                let range = coarse.ptr[c as usize]..coarse.ptr[c as usize + 1];
                for q in range {
                    let known = &mut joined[c as usize][coarse.idx[q] as usize];
                    prop_assert_eq!(coarse.edge_weight[q], std::mem::take(known));
                }
                prop_assert!(joined[c as usize].iter().all(|&left| left == 0));
            }
        }

        #[test]
        fn equal_vertices_are_found(a in patterns(12)) {
            let n = a.major_dim() as u32;
            let edges = (0..n).flat_map(|v| a.line(v as usize).iter().map(move |&u| (v, u)));
            let graph = graph(n, edges);
            let closed = |v: u32| {
                let mut list = graph.neighbours(v).to_vec();
                list.push(v);
                list.sort_unstable();
                list
            };
            let first: Vec<u32> = (0..n)
                .map(|v| (0..=v).find(|&u| closed(u) == closed(v)).unwrap())
                .collect();
            for parallel in [false, true] {
                let found = graph.first_of_equals(parallel, &CancelFlag::new()).unwrap();
                prop_assert_eq!(&found, &first);
            }
        }
    }

    #[test]
    fn separators_of_grids_are_short_and_parts_even() {
        for (nx, ny) in [(30, 30), (100, 100), (20, 300)] {
            let graph = grid(nx, ny);
            for seed in 0..4 {
                let side = sides(&graph, seed);
                let [a, b, separator] = checked(&graph, &side);
                // The weights of a column average two.
                let shortest = 2 * u64::from(nx.min(ny));
                assert!(separator <= shortest * 3 / 2, "{separator} of {shortest}");
                assert!(a.max(b) as f64 <= LARGEST_PART * (a + b) as f64);
            }
        }
    }

    #[test]
    fn of_separators_that_weigh_about_the_same_even_ones_are_better() {
        let even = [500, 500, 100];
        assert!(badness(even) < badness([640, 360, 98]));
        assert!(badness(even) > badness([640, 360, 95]));
        // Whatever they weigh, parts within the limit come first.
        assert!(badness(even) < badness([660, 340, 1]));
        // Of large parts evenness counts for more.
        let large = [80_000, 80_000, 100];
        assert!(badness(large) < badness([100_000, 60_000, 90]));
        assert!(badness(large) > badness([100_000, 60_000, 88]));
        // Without a separator the more even parts are better.
        assert!(badness([500, 500, 0]) < badness([501, 499, 0]));
    }

    #[test]
    fn a_part_that_is_too_heavy_outweighs_any_separator() {
        let division = |weight| Division {
            side: Vec::new(),
            weight,
            separator: Vec::new(),
        };
        let even = division([500, 500, 100]);
        assert_eq!(division([600, 400, 150]).heaviness(&even), 1.5);
        assert_eq!(division([700, 300, 1]).heaviness(&even), f64::INFINITY);
        assert_eq!(
            division([700, 300, 50]).heaviness(&division([800, 200, 100])),
            0.5
        );
    }

    #[test]
    fn tilted_planes_are_tilted_further() {
        // A plane x + (y + z) / 3 through a cube is as heavy as one along the axes, and so are those with up to half of y + z.
        let k = 30;
        let cube = cube(k);
        let height = |v: u32| 3 * (v % k) + v / k % k + v / k / k;
        let middle = 5 * (k - 1) / 2;
        let mut division = Division {
            side: Vec::new(),
            weight: [0; 3],
            separator: Vec::new(),
        };
        for v in 0..cube.len() as u32 {
            let side = match height(v) {
                h if h < middle => 0,
                h if h < middle + 3 => SEPARATOR,
                _ => 1,
            };
            division.side.push(side);
            division.weight[side as usize] += 1;
            if side == SEPARATOR {
                division.separator.push(v);
            }
        }
        let square = u64::from(k * k);
        assert_eq!(division.weight[SEPARATOR as usize], square);
        let [_, _, separator] = checked(&cube, &refined(&cube, division).side);
        assert!(4 * separator <= 3 * square, "{separator}");
    }

    #[test]
    fn separate_components_need_no_separator() {
        let pieces = (0..4000).filter(|v| v % 20 != 19).map(|v| (v, v + 1));
        let graph = graph(4000, pieces);
        let side = sides(&graph, 1);
        let [a, b, separator] = checked(&graph, &side);
        assert!(separator <= 3, "{separator}");
        assert!(a.max(b) as f64 <= LARGEST_PART * (a + b) as f64);
    }

    #[test]
    fn stars_are_divided_at_their_hubs() {
        let leaves = (2..1000).map(|v| (v % 2, v));
        let graph = graph(1000, leaves.chain([(0, 1)]));
        let side = sides(&graph, 1);
        let [a, b, separator] = checked(&graph, &side);
        assert!(separator <= 6 && a.min(b) > 0, "{separator}, {a} and {b}");
    }
}
