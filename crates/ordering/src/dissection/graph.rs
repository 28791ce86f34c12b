//! Weighted graphs and the smaller graphs that are made from them.

use std::ops::Range;

use luge_sparse::{CancelFlag, Cancelled};

use crate::parts::{by_parts, collected};

/// No vertex.
pub(super) const NONE: u32 = u32::MAX;

/// Vertices of at least so many neighbours are matched last, in any order.
const MANY_NEIGHBOURS: usize = 15;

/// Vertices between two looks at the cancel flag.
pub(super) const STRIDE: usize = 1 << 14;

/// Graphs of at least so many list entries are made on several threads.
const MIN_SHARED: usize = 20_000;

/// Vertices that a thread looks at, at least, to find those that are alike.
const LEAST_VERTICES: usize = 4_096;

/// More vertices than one in so many left single: they are matched through their neighbours.
const MAX_SINGLE: usize = 8;

/// An undirected graph without loops, every edge in both lists, with weights.
#[derive(Debug, Default)]
pub(super) struct WeightedGraph {
    /// Where the list of each vertex starts in `idx`, and the end.
    pub ptr: Vec<usize>,
    /// Neighbours, in any order.
    pub idx: Vec<u32>,
    /// Weights of the edges, as in `idx`.
    pub edge_weight: Vec<u32>,
    /// Weights of the vertices.
    pub weight: Vec<u32>,
}

impl WeightedGraph {
    pub fn len(&self) -> usize {
        self.weight.len()
    }

    fn range(&self, v: u32) -> Range<usize> {
        self.ptr[v as usize]..self.ptr[v as usize + 1]
    }

    pub fn neighbours(&self, v: u32) -> &[u32] {
        &self.idx[self.range(v)]
    }

    pub fn total_weight(&self) -> u64 {
        self.weight.iter().map(|&w| u64::from(w)).sum()
    }

    /// For each vertex the first of those that are joined to each other and to the same others: itself, if
    /// there are none before it. On the current rayon pool if `parallel`.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn first_of_equals(
        &self,
        parallel: bool,
        cancel: &CancelFlag,
    ) -> Result<Vec<u32>, Cancelled> {
        let n = self.len();
        let spread = |v: u32| (u64::from(v) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let spread = |v: u32| {
            spread(v)
                .rotate_left(23)
                .wrapping_mul(0xD1B5_4A32_D192_ED03)
        };
        let sums = collected(n, LEAST_VERTICES, parallel, |v| {
            let neighbours = self.neighbours(v as u32).iter();
            neighbours.fold(spread(v as u32), |sum, &u| sum.wrapping_add(spread(u)))
        });
        let find = |mark: &mut Vec<u32>, v: u32| {
            if (v as usize).is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let own = self.neighbours(v);
            let mut first = v;
            for &u in own {
                if u >= first || sums[u as usize] != sums[v as usize] {
                    continue;
                }
                // Few graphs have any.
                if mark.is_empty() {
                    mark.resize(n, NONE);
                }
                if mark[v as usize] != v {
                    mark[v as usize] = v;
                    for &w in own {
                        mark[w as usize] = v;
                    }
                }
                let others = self.neighbours(u);
                if others.len() == own.len() && others.iter().all(|&w| mark[w as usize] == v) {
                    first = u;
                }
            }
            Ok(first)
        };
        let parts = by_parts(n, LEAST_VERTICES, parallel, |range| {
            let mut mark = Vec::new();
            let found = range.map(|v| find(&mut mark, v as u32));
            found.collect::<Result<Vec<u32>, Cancelled>>()
        });
        Ok(parts.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The graph of some vertices. `new_index` has their numbers in the order of `vertices`, and [`NONE`]
    /// for all others.
    pub fn induced(&self, vertices: impl Iterator<Item = u32> + Clone, new_index: &[u32]) -> Self {
        // Lists that grew would be there twice while they are moved.
        let (mut num_vertices, mut most) = (0, 0);
        for v in vertices.clone() {
            num_vertices += 1;
            most += self.range(v).len();
        }
        let mut part = Self {
            ptr: Vec::with_capacity(num_vertices + 1),
            idx: Vec::with_capacity(most),
            edge_weight: Vec::with_capacity(most),
            weight: Vec::with_capacity(num_vertices),
        };
        part.ptr.push(0);
        for v in vertices {
            for q in self.range(v) {
                let u = new_index[self.idx[q] as usize];
                if u != NONE {
                    part.idx.push(u);
                    part.edge_weight.push(self.edge_weight[q]);
                }
            }
            part.ptr.push(part.idx.len());
            part.weight.push(self.weight[v as usize]);
        }
        part
    }

    /// Joins vertices in pairs of a weight of at most `most`, along heavy edges. Returns for each vertex
    /// the number of its pair; pairs, and vertices left single, are numbered by their first vertex. Among
    /// vertices of like degree the search begins with `start`.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn matched(
        &self,
        most: u32,
        start: u32,
        cancel: &CancelFlag,
    ) -> Result<Vec<u32>, Cancelled> {
        let n = self.len() as u32;
        let mut mate = vec![NONE; n as usize];
        let mut num_single = 0;
        for (k, v) in self.by_degree(start).into_iter().enumerate() {
            if k.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            if mate[v as usize] != NONE {
                continue;
            }
            let room = most.saturating_sub(self.weight[v as usize]);
            // Of equally heavy edges the one to the lightest vertex. All is looked up, since no branch could be foretold.
            let mut best = 0;
            let mut partner = v;
            let range = self.range(v);
            for (&u, &edge) in self.idx[range.clone()].iter().zip(&self.edge_weight[range]) {
                let other = self.weight[u as usize];
                let is_free = (mate[u as usize] == NONE) & (other <= room);
                let rank = u64::from(edge) << 32 | u64::from(!other);
                let rank = if is_free { rank } else { 0 };
                partner = if rank > best { u } else { partner };
                best = best.max(rank);
            }
            num_single += usize::from(partner == v);
            mate[v as usize] = partner;
            mate[partner as usize] = v;
        }
        if MAX_SINGLE * num_single > n as usize {
            self.match_through_neighbours(&mut mate, most);
        }
        let mut map = vec![NONE; n as usize];
        let mut count = 0;
        for v in 0..n as usize {
            if map[v] == NONE {
                map[v] = count;
                map[mate[v] as usize] = count;
                count += 1;
            }
        }
        Ok(map)
    }

    /// All vertices, those of few neighbours first, because they have the least choice.
    fn by_degree(&self, start: u32) -> Vec<u32> {
        let n = self.len() as u32;
        let degree = |v: u32| self.range(v).len().min(MANY_NEIGHBOURS);
        let mut place = [0u32; MANY_NEIGHBOURS + 2];
        for v in 0..n {
            place[degree(v) + 1] += 1;
        }
        for k in 1..place.len() {
            place[k] += place[k - 1];
        }
        let mut sorted = vec![0; n as usize];
        for v in (start..n).chain(0..start) {
            let place = &mut place[degree(v)];
            sorted[*place as usize] = v;
            *place += 1;
        }
        sorted
    }

    /// Pairs single vertices whose heaviest edges lead to the same neighbour, as around the hub of a star.
    fn match_through_neighbours(&self, mate: &mut [u32], most: u32) {
        let mut waiting = vec![NONE; self.len()];
        for v in 0..self.len() as u32 {
            if mate[v as usize] != v {
                continue;
            }
            let hub = self
                .range(v)
                .max_by_key(|&q| self.edge_weight[q])
                .map_or(v, |q| self.idx[q]);
            let other = &mut waiting[hub as usize];
            let fits = |u: u32| self.weight[u as usize] + self.weight[v as usize] <= most;
            if *other == NONE || !fits(*other) {
                *other = v;
            } else {
                mate[*other as usize] = v;
                mate[v as usize] = *other;
                *other = NONE;
            }
        }
    }

    /// The graph of the pairs of `map`, as [`Self::matched`] numbers them. Weights are summed. On the current rayon pool
    /// if `parallel`.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn coarsened(
        &self,
        map: &[u32],
        parallel: bool,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let n = map.iter().max().map_or(0, |&c| c as usize + 1);
        let mut pairs = vec![[NONE; 2]; n];
        for (v, &c) in map.iter().enumerate() {
            let pair = &mut pairs[c as usize];
            pair[usize::from(pair[0] != NONE)] = v as u32;
        }
        let parallel = parallel && self.idx.len() >= MIN_SHARED;
        let mut parts = by_parts(n, 256, parallel, |range| {
            self.some_coarsened(map, &pairs, range, cancel)
        });
        cancel.check()?;
        if parts.len() == 1 {
            let mut coarse = parts.remove(0);
            // There was room for every edge of the finer graph.
            coarse.idx.shrink_to_fit();
            coarse.edge_weight.shrink_to_fit();
            return Ok(coarse);
        }
        let num_entries = parts.iter().map(|part| part.idx.len()).sum();
        let mut coarse = Self {
            ptr: Vec::with_capacity(n + 1),
            idx: Vec::with_capacity(num_entries),
            edge_weight: Vec::with_capacity(num_entries),
            weight: Vec::with_capacity(n),
        };
        coarse.ptr.push(0);
        for part in parts {
            let start = coarse.idx.len();
            coarse.ptr.extend(part.ptr[1..].iter().map(|p| start + p));
            coarse.idx.extend(part.idx);
            coarse.edge_weight.extend(part.edge_weight);
            coarse.weight.extend(part.weight);
        }
        Ok(coarse)
    }

    /// The lists of some of the pairs; of fewer if the flag is raised.
    fn some_coarsened(
        &self,
        map: &[u32],
        pairs: &[[u32; 2]],
        range: Range<usize>,
        cancel: &CancelFlag,
    ) -> Self {
        let vertices = |c: usize| pairs[c].iter().copied().filter(|&v| v != NONE);
        let in_lists = range.clone().flat_map(vertices);
        let most = in_lists.map(|v| self.range(v).len()).sum::<usize>() + 1;
        let (mut idx, mut edge_weight) = (vec![0; most], vec![0; most]);
        let mut ptr = Vec::with_capacity(range.len() + 1);
        let mut weight = Vec::with_capacity(range.len());
        ptr.push(0);
        // One more than the place of the edge to a pair, if that is beyond the start of the list.
        let mut place = vec![0u32; pairs.len()];
        let mut len = 0;
        for c in range {
            if c.is_multiple_of(STRIDE) && cancel.is_cancelled() {
                break;
            }
            let mut list = CoarseList {
                start: len,
                len,
                idx: &mut idx,
                edge_weight: &mut edge_weight,
                place: &mut place,
            };
            // Edges within the pair go to the end of all, where no list comes to.
            list.place[c] = most as u32;
            for v in vertices(c) {
                let range = self.range(v);
                list.add(map, &self.idx[range.clone()], &self.edge_weight[range]);
            }
            len = list.len;
            place[c] = 0;
            ptr.push(len as usize);
            weight.push(vertices(c).map(|v| self.weight[v as usize]).sum());
        }
        idx.truncate(len as usize);
        edge_weight.truncate(len as usize);
        Self {
            ptr,
            idx,
            edge_weight,
            weight,
        }
    }
}

/// The list of a vertex of a coarser graph, behind those of others.
struct CoarseList<'a> {
    start: u32,
    /// Where it ends.
    len: u32,
    idx: &'a mut [u32],
    edge_weight: &'a mut [u32],
    /// By vertex of the coarser graph: one more than its place in `idx`, if that is beyond the start of the list.
    place: &'a mut [u32],
}

impl CoarseList<'_> {
    /// Adds the edges of a vertex, the ends of which `map` numbers.
    fn add(&mut self, map: &[u32], ends: &[u32], weights: &[u32]) {
        let Self {
            start,
            idx,
            edge_weight,
            place,
            ..
        } = self;
        let mut len = self.len;
        for (&u, &edge) in ends.iter().zip(weights) {
            let d = map[u as usize];
            let known = place[d as usize];
            // No branch could be foretold.
            let is_new = known <= *start;
            let at = if is_new { len } else { known - 1 };
            idx[at as usize] = d;
            let sum = &mut edge_weight[at as usize];
            *sum = edge + if is_new { 0 } else { *sum };
            place[d as usize] = at + 1;
            len += u32::from(is_new);
        }
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph of weights 1.
    fn graph(n: u32, edges: &[(u32, u32)]) -> WeightedGraph {
        let mut graph = super::super::examples::graph(n, edges.iter().copied());
        graph.weight.fill(1);
        graph
    }

    #[test]
    fn leaves_of_a_star_are_matched_with_each_other() {
        let star: Vec<(u32, u32)> = (1..10).map(|leaf| (0, leaf)).collect();
        let map = graph(10, &star).matched(2, 0, &CancelFlag::new()).unwrap();
        assert_eq!(map, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        // Their pairs would be too heavy.
        let map = graph(10, &star).matched(1, 0, &CancelFlag::new()).unwrap();
        assert_eq!(map, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn of_equally_heavy_edges_that_to_the_lightest_vertex_is_taken() {
        let mut triangle = graph(3, &[(0, 1), (0, 2), (1, 2)]);
        triangle.weight = vec![1, 3, 2];
        let map = triangle.matched(9, 0, &CancelFlag::new()).unwrap();
        assert_eq!(map, [0, 1, 0]);
        // A heavier edge counts for more: that from the first vertex to the next.
        triangle.edge_weight = vec![2, 1, 2, 1, 1, 1];
        let map = triangle.matched(9, 0, &CancelFlag::new()).unwrap();
        assert_eq!(map, [0, 0, 1]);
    }

    #[test]
    fn one_vertex_in_eight_may_stay_single() {
        // A star of three leaves, of which two stay single, and edges that are pairs.
        let mut edges = vec![(0, 1), (0, 2), (0, 3)];
        edges.extend((2..8).map(|k| (2 * k, 2 * k + 1)));
        let map = graph(16, &edges).matched(2, 0, &CancelFlag::new()).unwrap();
        assert_eq!(map, [0, 0, 1, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8]);
        // With a vertex less there are too many.
        edges.pop();
        let map = graph(14, &edges).matched(2, 0, &CancelFlag::new()).unwrap();
        assert_eq!(map, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
    }

    #[test]
    fn nothing_that_is_half_done_is_taken_for_whole() {
        let path = graph(4, &[(0, 1), (1, 2), (2, 3)]);
        let raised = CancelFlag::new();
        raised.cancel();
        assert!(path.first_of_equals(false, &raised).is_err());
        assert!(path.matched(2, 0, &raised).is_err());
        for parallel in [false, true] {
            assert!(path.coarsened(&[0, 0, 1, 1], parallel, &raised).is_err());
        }
    }
}
