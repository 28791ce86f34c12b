//! Elimination of vertices with few neighbours, in rounds, on a graph whose edges are all listed.
//!
//! Vertices that are joined to each other and to the same others are one from the start. Each round then chooses an
//! independent set of vertices with few neighbours, and joins the neighbours of each pairwise: a vertex with at most
//! three takes away as many list entries as its elimination adds. New lists depend on the old ones alone, so threads
//! make them side by side, and the result does not depend on their number. Time and memory are linear in the list
//! entries of all rounds, which are a small multiple of those of the first.
//!
//! Every size on the way is exact: an eliminated vertex keeps the neighbours that it had, which are the rows of its
//! column of the Cholesky factor.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use luge_sparse::etree::{self, EliminationForest};
use luge_sparse::{CancelFlag, Cancelled};

use super::NONE;
use super::domains::Eliminated;
use super::graph::STRIDE;
use crate::elimination::weighted_forest;
use crate::graph::{Graph, dense_limit};
use crate::parts::{WORTH_SHARING, by_parts, joined_lists, num_parts};

/// Vertices whose neighbours weigh more than this are left.
const MOST_NEIGHBOURS: usize = 12;

/// A round takes at least this share of the vertices for candidates, if there are so many.
const SHARE: f64 = 0.25;

/// Vertices that have this many neighbours more than those with the least are candidates, too.
const NEAR_LEAST: usize = 1;

/// The rounds end when fewer than this share of the vertices are candidates.
const SMALLEST_SHARE: f64 = 0.1;

/// A round that leaves more list entries than there were is the first that is not done, if more than this share of the
/// vertices is left: such a graph is a mesh rather than a network, and separators that pass through cliques of eliminated
/// vertices are larger. Of cubes and power grids with many layers, a factorization takes two thirds of the operations then,
/// and less. What few vertices are left of a network is better reduced further, which takes less time than to divide them.
const MOST_DISSECTED: f64 = 0.2;

/// Graphs of fewer list entries than this are not shared between threads. Few in tests, so that small ones are.
const MIN_SHARED: usize = if cfg!(test) { 40 } else { 20_000 };

/// Vertices of a part whose lists are read once.
const PART: usize = 4096;

/// Vertices of a part whose new lists are made: a vertex next to pivots reads the lists of these, too.
const LISTS: usize = 256;

/// More vertices of many neighbours than this are not followed through the elimination.
const MOST_DENSE: usize = 64;

/// In the place of a new number: the vertex is eliminated in this round.
const PIVOT: u32 = u32::MAX - 1;

/// Lists of the neighbours of vertices, each edge in both lists.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub ptr: Vec<usize>,
    pub idx: Vec<u32>,
}

/// The graph that is left, numbered anew for each round.
struct Left {
    lists: Lists,
    /// The old number of each vertex.
    vertices: Vec<u32>,
    weight: Vec<u32>,
    /// The sum of the weights of each vertex's neighbours.
    degree: Vec<u32>,
}

impl Lists {
    pub fn of(&self, v: u32) -> &[u32] {
        &self.idx[self.ptr[v as usize]..self.ptr[v as usize + 1]]
    }
}

/// What the rounds did, and what they left.
pub(super) struct Reduction {
    /// The first of the vertices that each is one with.
    first: Vec<u32>,
    /// How many vertices a first one stands for; zero for others, and for those of many neighbours.
    weight: Vec<u32>,
    /// Vertices with more neighbours than [`dense_limit`], which were left out, by degree.
    dense: Vec<u32>,
    /// Eliminated vertices, in order.
    pivots: Vec<u32>,
    /// The neighbours that each of them had.
    below: Lists,
    /// The vertices left.
    left: Vec<u32>,
    /// Their graph, numbered as in `left`.
    pub graph: Lists,
    /// Their weights.
    pub left_weight: Vec<u32>,
}

/// For each vertex the first of those that are joined to each other and to the same others.
fn first_alike(graph: &Graph, parallel: bool) -> Vec<u32> {
    let n = graph.len();
    let spread = |v: u32| (v + 1).wrapping_mul(0x9E37_79B1).rotate_left(11);
    let sum = |range: Range<usize>| -> Vec<u32> {
        range
            .map(|v| {
                let neighbours = graph.neighbours(v).iter();
                let sum = neighbours.fold(0, |sum: u32, &u| {
                    sum.wrapping_add(spread(u).wrapping_mul(u ^ 0x85EB_CA6B))
                });
                let own = v as u32;
                sum.wrapping_add(spread(own).wrapping_mul(own ^ 0x85EB_CA6B))
            })
            .collect()
    };
    let sums = by_parts(n, PART / 4, parallel, sum).concat();
    let find = |range: Range<usize>| -> Vec<u32> {
        range
            .map(|v| {
                let own = graph.neighbours(v);
                let is_alike = |&&u: &&u32| {
                    let others = graph.neighbours(u as usize);
                    sums[u as usize] == sums[v]
                        && others.len() == own.len()
                        && own
                            .iter()
                            .filter(|&&w| w != u)
                            .eq(others.iter().filter(|&&w| w as usize != v))
                };
                let before = own.iter().take_while(|&&u| (u as usize) < v);
                before.copied().find(|u| is_alike(&u)).unwrap_or(v as u32)
            })
            .collect()
    };
    by_parts(n, PART / 4, parallel, find).concat()
}

/// Which vertices were met on the way, for parts of the work that go on at once. What one has written is left for the next, so a
/// stamp is used once.
struct Met {
    num_vertices: usize,
    /// Those that no part uses.
    idle: Mutex<Vec<Vec<u32>>>,
    last_stamp: u32,
}

impl Met {
    fn new(num_vertices: usize) -> Self {
        Self {
            num_vertices,
            idle: Mutex::default(),
            last_stamp: 0,
        }
    }

    /// So many stamps that nobody has used, from the one after this on.
    fn stamps(&mut self, count: u32) -> u32 {
        let Some(last) = self.last_stamp.checked_add(count) else {
            *self = Self::new(self.num_vertices);
            return self.stamps(count);
        };
        std::mem::replace(&mut self.last_stamp, last)
    }

    /// The last stamp of each vertex, for the time of a part.
    fn with<R>(&self, part: impl FnOnce(&mut [u32]) -> R) -> R {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        // Zeros are asked for from the system: pages that nobody writes to cost nothing.
        let mut stamps = taken.unwrap_or_else(|| vec![0; self.num_vertices]);
        let result = part(&mut stamps);
        idle().push(stamps);
        result
    }
}

/// The lists of the vertices `kept`, in that order, after the elimination of those whose number in `new_number` is
/// [`PIVOT`]; vertices without a number are left out. And the sums of the neighbours' weights, given by new number.
///
/// # Errors
///
/// [`Cancelled`].
fn next_lists<'a>(
    list_of: impl Fn(u32) -> &'a [u32] + Sync,
    kept: &[u32],
    new_number: &[u32],
    weight: &[u32],
    (met, parallel): (&mut Met, bool),
    cancel: &CancelFlag,
) -> Result<(Lists, Vec<u32>), Cancelled> {
    let before = met.stamps(kept.len() as u32);
    let make = |range: Range<usize>, seen: &mut [u32]| {
        let mut idx = Vec::new();
        let mut ends = Vec::with_capacity(range.len());
        let mut degrees = Vec::with_capacity(range.len());
        for (&u, own) in kept[range.clone()].iter().zip(range.start as u32..) {
            if (own as usize).is_multiple_of(STRIDE) && cancel.is_cancelled() {
                break;
            }
            let start = idx.len();
            let mut meets_pivot = false;
            for &w in list_of(u) {
                match new_number[w as usize] {
                    NONE => {}
                    PIVOT => meets_pivot = true,
                    number => idx.push(number),
                }
            }
            if meets_pivot {
                let stamp = before + 1 + own;
                seen[own as usize] = stamp;
                for &w in &idx[start..] {
                    seen[w as usize] = stamp;
                }
                let is_pivot = |w: &&u32| new_number[**w as usize] == PIVOT;
                for &pivot in list_of(u).iter().filter(is_pivot) {
                    for &w in list_of(pivot) {
                        let number = new_number[w as usize];
                        if number != NONE && seen[number as usize] != stamp {
                            seen[number as usize] = stamp;
                            idx.push(number);
                        }
                    }
                }
            }
            ends.push(idx.len());
            degrees.push(
                idx[start..]
                    .iter()
                    .map(|&w| weight[w as usize])
                    .sum::<u32>(),
            );
        }
        ((idx, ends), degrees)
    };
    let met = &*met;
    let parts = by_parts(kept.len(), LISTS, parallel, |range| {
        met.with(|seen| make(range, seen))
    });
    cancel.check()?;
    let (lists, degrees): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let (ptr, idx) = joined_lists(lists);
    Ok((Lists { ptr, idx }, degrees.concat()))
}

/// An independent set of vertices with few neighbours, each marked as [`PIVOT`]; none if there are too few.
fn independent_set(left: &Left, parallel: bool) -> Option<Vec<u32>> {
    /// Next to a pivot.
    const WAITS: u32 = 1;
    let n = left.vertices.len();
    // The vertices of each part, by degree.
    let by_degree = by_parts(n, 2 * PART, parallel, |range| {
        let mut by_degree: [Vec<u32>; MOST_NEIGHBOURS + 1] = Default::default();
        for (v, &degree) in (range.start as u32..).zip(&left.degree[range]) {
            if let Some(list) = by_degree.get_mut(degree as usize) {
                list.push(v);
            }
        }
        by_degree
    });
    let of_degree = |degree: usize| by_degree.iter().map(move |lists| &lists[degree]);
    let count = |degree: usize| of_degree(degree).map(Vec::len).sum::<usize>();
    let least = (0..=MOST_NEIGHBOURS).find(|&degree| count(degree) != 0)?;
    let wanted = (n as f64 * SHARE) as usize;
    let (mut num_candidates, mut end) = (0, 0);
    while end <= MOST_NEIGHBOURS && (num_candidates < wanted || end <= least + NEAR_LEAST) {
        num_candidates += count(end);
        end += 1;
    }
    if (num_candidates as f64) < SMALLEST_SHARE * n as f64 {
        return None;
    }
    let mut marks = vec![0; n];
    for &v in (0..end).flat_map(of_degree).flatten() {
        if marks[v as usize] == 0 {
            marks[v as usize] = PIVOT;
            for &u in left.lists.of(v) {
                marks[u as usize] = WAITS;
            }
        }
    }
    Some(marks)
}

/// What comes of some consecutive vertices in a round.
#[derive(Default)]
struct RoundShare {
    /// The vertex after them.
    end: usize,
    /// Numbers of those that stay, before the round.
    kept: Vec<u32>,
    /// The numbers that they had at first.
    vertices: Vec<u32>,
    weight: Vec<u32>,
    /// The first numbers of the eliminated ones.
    pivots: Vec<u32>,
    /// Those of their neighbours, and where each list ends.
    below: Vec<u32>,
    ends: Vec<usize>,
}

impl RoundShare {
    fn new(left: &Left, marks: &[u32], range: Range<usize>) -> Self {
        let mut share = Self {
            end: range.end,
            kept: Vec::with_capacity(range.len()),
            vertices: Vec::with_capacity(range.len()),
            weight: Vec::with_capacity(range.len()),
            ..Self::default()
        };
        for v in range {
            let old = left.vertices[v];
            if marks[v] == PIVOT {
                share.pivots.push(old);
                let neighbours = left.lists.of(v as u32).iter();
                let neighbours = neighbours.map(|&u| left.vertices[u as usize]);
                share.below.extend(neighbours);
                share.ends.push(share.below.len());
            } else {
                share.kept.push(v as u32);
                share.vertices.push(old);
                share.weight.push(left.weight[v]);
            }
        }
        share
    }
}

/// Numbers the vertices that are kept, in their order: `numbers` of the others stay. Of each of some consecutive ranges of
/// vertices its end and those of it that are kept.
fn number_kept(numbers: &mut [u32], ranges: &[(usize, &[u32])], parallel: bool) {
    let (mut start, mut count) = (0, 0);
    let mut left = numbers;
    let mut parts = Vec::with_capacity(ranges.len());
    for &(end, kept) in ranges {
        let part = left.split_off_mut(..end - start);
        parts.push((part.expect("ranges of the numbers"), start, kept, count));
        start = end;
        count += kept.len() as u32;
    }
    let number = |(part, start, kept, count): (&mut [u32], usize, &[u32], u32)| {
        for (&v, number) in kept.iter().zip(count..) {
            part[v as usize - start] = number;
        }
    };
    if parallel && parts.len() > 1 && start >= WORTH_SHARING {
        parts.into_par_iter().for_each(number);
    } else {
        parts.into_iter().for_each(number);
    }
}

/// The vertices that are eliminated or divided, and those of many neighbours, which are left out.
struct Listed {
    /// How many vertices a first one stands for; zero for others, and for those of many neighbours.
    weight: Vec<u32>,
    /// Those of many neighbours, by degree.
    dense: Vec<u32>,
    /// The first ones of the others, and the number of each vertex among them, or [`NONE`].
    vertices: Vec<u32>,
    numbers: Vec<u32>,
}

impl Listed {
    /// From the `first` of the vertices that each is one with, which of one of many neighbours is itself from then on.
    fn new(graph: &Graph, first: &mut [u32], parallel: bool) -> Self {
        let n = graph.len();
        let limit = dense_limit(n);
        let mut weight = vec![0; n];
        for &v in &*first {
            weight[v as usize] += 1;
        }
        // Vertices of many neighbours, and the first ones of the others.
        let parts = by_parts(n, 2 * PART, parallel, |range| {
            let end = range.end;
            let (dense, sparse): (Vec<u32>, Vec<u32>) =
                (range.start as u32..end as u32).partition(|&v| graph.degree(v as usize) > limit);
            let is_first = |v: &u32| weight[*v as usize] != 0;
            (
                end,
                dense,
                sparse.into_iter().filter(is_first).collect::<Vec<u32>>(),
            )
        });
        let mut numbers = vec![NONE; n];
        let ranges: Vec<_> = parts
            .iter()
            .map(|(end, _, firsts)| (*end, &firsts[..]))
            .collect();
        number_kept(&mut numbers, &ranges, parallel);
        let mut dense: Vec<u32> = Vec::new();
        let mut vertices = Vec::with_capacity(n);
        for (_, of_part, firsts) in parts {
            dense.extend(of_part);
            vertices.extend(firsts);
        }
        for &v in &dense {
            weight[v as usize] = 0;
            // Each is listed for itself.
            first[v as usize] = v;
        }
        dense.sort_by_key(|&v| graph.degree(v as usize));
        Self {
            weight,
            dense,
            vertices,
            numbers,
        }
    }
}

impl Reduction {
    /// Eliminates vertices of few neighbours, on the current rayon pool if `parallel`.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn new(graph: &Graph, parallel: bool, cancel: &CancelFlag) -> Result<Self, Cancelled> {
        let n = graph.len();
        let parallel = parallel && graph.idx.len() >= MIN_SHARED;
        cancel.check()?;
        let mut first = first_alike(graph, parallel);
        cancel.check()?;
        let Listed {
            weight,
            dense,
            vertices,
            numbers,
        } = Listed::new(graph, &mut first, parallel);
        cancel.check()?;
        let list_of = |v: u32| graph.neighbours(v as usize);
        let left_weight: Vec<u32> = vertices.iter().map(|&v| weight[v as usize]).collect();
        let mut met = Met::new(n);
        let (lists, degree) = next_lists(
            list_of,
            &vertices,
            &numbers,
            &left_weight,
            (&mut met, parallel),
            cancel,
        )?;
        let mut left = Left {
            lists,
            vertices,
            weight: left_weight,
            degree,
        };
        let mut pivots = Vec::with_capacity(n);
        let mut below = Lists {
            ptr: vec![0],
            idx: Vec::with_capacity(2 * n),
        };
        loop {
            cancel.check()?;
            let parallel = parallel && left.lists.idx.len() >= MIN_SHARED;
            let Some(marks) = independent_set(&left, parallel) else {
                break;
            };
            cancel.check()?;
            let n = left.vertices.len();
            let shares = by_parts(n, PART, parallel, |range| {
                RoundShare::new(&left, &marks, range)
            });
            let mut numbers = marks;
            let ranges: Vec<_> = shares.iter().map(|s| (s.end, &s.kept[..])).collect();
            number_kept(&mut numbers, &ranges, parallel);
            let mut kept = Vec::with_capacity(n);
            let mut vertices = Vec::with_capacity(n);
            let mut weight = Vec::with_capacity(n);
            for share in &shares {
                kept.extend_from_slice(&share.kept);
                vertices.extend_from_slice(&share.vertices);
                weight.extend_from_slice(&share.weight);
            }
            cancel.check()?;
            let list_of = |v| left.lists.of(v);
            let (lists, degree) = next_lists(
                list_of,
                &kept,
                &numbers,
                &weight,
                (&mut met, parallel),
                cancel,
            )?;
            if lists.idx.len() > left.lists.idx.len()
                && n > (MOST_DISSECTED * graph.len() as f64) as usize
            {
                break;
            }
            for share in shares {
                pivots.extend(share.pivots);
                let before = below.idx.len();
                below.ptr.extend(share.ends.iter().map(|end| before + end));
                below.idx.extend(share.below);
            }
            left = Left {
                lists,
                vertices,
                weight,
                degree,
            };
        }
        Ok(Self {
            first,
            weight,
            dense,
            pivots,
            below,
            left: left.vertices,
            graph: left.lists,
            left_weight: left.weight,
        })
    }

    /// An order of all vertices of `graph`, new to old, from one of those that were left, with its elimination forest,
    /// of which it is a postorder; without the forest if too many vertices were left out.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn whole_order(
        &self,
        graph: &Graph,
        Eliminated {
            order: mut order_left,
            ends,
        }: Eliminated,
        parallel: bool,
        cancel: &CancelFlag,
    ) -> Result<(Vec<u32>, Option<EliminationForest>), Cancelled> {
        let n = graph.len();
        let parallel = parallel && graph.idx.len() >= MIN_SHARED;
        let Lists { ptr, idx } = &self.graph;
        let parts = parallel.then_some(&*ends);
        let weight = &self.left_weight;
        let of_left = weighted_forest(ptr, idx, weight, &mut order_left, parts, cancel)?;
        // All are numbered by the time of their elimination.
        let num_pivots = self.pivots.len();
        let vertices: Vec<u32> = self
            .pivots
            .iter()
            .copied()
            .chain(order_left.iter().map(|&v| self.left[v as usize]))
            .chain(self.dense.iter().copied())
            .collect();
        let mut time = vec![NONE; n];
        for (t, &v) in vertices.iter().enumerate() {
            time[v as usize] = t as u32;
        }
        let weight = |v: u32| self.weight[v as usize];
        let of_pivot = |k: usize| {
            let rows = self.below.of(k as u32);
            let times = rows.iter().map(|&u| time[u as usize]);
            let size = weight(self.pivots[k]) + rows.iter().map(|&u| weight(u)).sum::<u32>();
            (times.min().unwrap_or(NONE), size)
        };
        let (mut parent, mut counts): (Vec<u32>, Vec<u32>) = if parallel {
            let pivots = (0..num_pivots).into_par_iter().with_min_len(MIN_SHARED / 8);
            pivots.map(of_pivot).unzip()
        } else {
            (0..num_pivots).map(of_pivot).unzip()
        };
        cancel.check()?;
        let shifted = |&p: &u32| {
            if p == NONE {
                NONE
            } else {
                p + num_pivots as u32
            }
        };
        parent.extend(of_left.parent.iter().map(shifted));
        counts.extend(&of_left.counts);
        let is_followed = self.dense.len() <= MOST_DENSE;
        if is_followed {
            let time_of = |v: u32| time[self.first[v as usize] as usize];
            self.follow_dense(graph, time_of, &mut parent, &mut counts);
        } else {
            parent.resize(vertices.len(), NONE);
            counts.resize(vertices.len(), 1);
        }
        cancel.check()?;
        let (order, forest) = self.expanded(&vertices, &parent, &counts, parallel);
        Ok((order, is_followed.then_some(forest)))
    }

    /// Adds the vertices of many neighbours, which are eliminated last, to the forest of the others, and their rows to
    /// the counts of these.
    fn follow_dense(
        &self,
        graph: &Graph,
        time_of: impl Fn(u32) -> u32,
        parent: &mut Vec<u32>,
        counts: &mut Vec<u32>,
    ) {
        if self.dense.is_empty() {
            return;
        }
        let num_sparse = parent.len();
        parent.resize(num_sparse + self.dense.len(), NONE);
        counts.resize(parent.len(), 1);
        // Bit k: the column has a row for the k-th of them.
        let mut rows = vec![0u64; parent.len()];
        for (k, &d) in self.dense.iter().enumerate() {
            for &v in graph.neighbours(d as usize) {
                rows[time_of(v) as usize] |= 1 << k;
            }
        }
        for t in 0..parent.len() {
            // Those that come later; of a vertex of many neighbours not itself.
            let later = match t.checked_sub(num_sparse) {
                None => rows[t],
                Some(k) => rows[t] & (u64::MAX << k) & !(1 << k),
            };
            counts[t] += later.count_ones();
            if parent[t] == NONE && later != 0 {
                parent[t] = (num_sparse as u32) + later.trailing_zeros();
            }
            if parent[t] != NONE {
                rows[parent[t] as usize] |= later;
            }
        }
    }

    /// The order of all vertices from the forest of those that stand for them, numbered by their time, and the forest.
    fn expanded(
        &self,
        vertices: &[u32],
        parent: &[u32],
        counts: &[u32],
        parallel: bool,
    ) -> (Vec<u32>, EliminationForest) {
        let n = self.first.len();
        // From each vertex to the next of those that are one.
        let mut next = vec![NONE; n];
        for (v, &first) in (0..n as u32).zip(&self.first).rev() {
            if first != v {
                next[v as usize] = std::mem::replace(&mut next[first as usize], v);
            }
        }
        let post = etree::postorder(parent);
        let mut first_place = vec![0; vertices.len()];
        let mut place = 0;
        for &t in &post {
            first_place[t as usize] = place;
            // Those of many neighbours stand for themselves, and weigh nothing.
            place += self.weight[vertices[t as usize] as usize].max(1);
        }
        let mut order = vec![0; n];
        let mut forest = EliminationForest {
            parent: vec![0; n],
            counts: vec![0; n],
        };
        type Columns<'a> = [&'a mut [u32]; 3];
        let fill = |part: &[u32], [order, above, counts_of]: Columns<'_>| {
            let start = part.first().map_or(0, |&t| first_place[t as usize]);
            for &t in part {
                let t = t as usize;
                let mut v = vertices[t];
                let mut place = first_place[t];
                let mut count = counts[t];
                loop {
                    let at = (place - start) as usize;
                    order[at] = v;
                    counts_of[at] = count;
                    v = next[v as usize];
                    if v == NONE {
                        above[at] = match parent[t] {
                            NONE => NONE,
                            p => first_place[p as usize],
                        };
                        break;
                    }
                    place += 1;
                    count -= 1;
                    above[at] = place;
                }
            }
        };
        let mut columns: Columns<'_> = [&mut order, &mut forest.parent, &mut forest.counts];
        let num_parts = num_parts(post.len(), PART / 4, parallel);
        let len = post.len().div_ceil(num_parts).max(1);
        let mut parts = Vec::with_capacity(num_parts);
        let mut end = 0;
        for (k, part) in post.chunks(len).enumerate() {
            let next = post.get((k + 1) * len);
            let next = next.map_or(n, |&t| first_place[t as usize] as usize);
            let of_part = columns
                .each_mut()
                .map(|all| all.split_off_mut(..next - end));
            parts.push((part, of_part.map(|own| own.expect("there is room for all"))));
            end = next;
        }
        if parts.len() > 1 {
            let parts = parts.into_par_iter();
            parts.for_each(|(part, columns)| fill(part, columns));
        } else {
            for (part, columns) in parts {
                fill(part, columns);
            }
        }
        (order, forest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stamp_is_used_twice() {
        let mut met = Met::new(2);
        assert_eq!(met.stamps(3), 0);
        assert_eq!(met.stamps(4), 3);
        met.with(|stamps| stamps[1] = 7);
        met.with(|stamps| assert_eq!(stamps, [0, 7]));
        // With the last ones gone, nothing is met any more.
        met.last_stamp = u32::MAX - 4;
        assert_eq!(met.stamps(4), u32::MAX - 4);
        assert_eq!(met.stamps(1), 0);
        met.with(|stamps| assert_eq!(stamps, [0, 0]));
    }
}
