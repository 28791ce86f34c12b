//! Recursion over separators.

use super::graph::{NONE, WeightedGraph};
use super::separator::{Random, SEPARATOR, Side, lighter_of_two, separate};
use crate::parts::join_if;
use luge_sparse::CancelFlag;

/// Graphs of at most so many vertices are not divided.
pub(super) const SMALLEST: usize = 200;

/// Graphs of more vertices than this are divided on other threads.
const SMALLEST_PARALLEL: usize = 400;

/// Separators within fewer others than this are the better ones of two: all of the tree is below them, and threads have
/// nothing else to do.
const COMPARED_DEPTH: u8 = 3;

/// Separators within so many others are not divided further.
const DEEPEST: u8 = 100;

/// A graph is not divided if one part would have less than one in so many of its weight.
const LIGHTEST_PART: u64 = 16;

/// The depth of vertices in no separator.
pub(super) const LEAF: u8 = u8::MAX;

/// Divides the graph by a separator, and the parts likewise. Returns for each vertex in how many parts
/// that contain it its separator lies: zero for the first separator; [`LEAF`] if it is in none. On the
/// current rayon pool if `parallel`; the result is the same. Nothing more is divided once it is cancelled.
pub(super) fn separator_depths(
    graph: WeightedGraph,
    parallel: bool,
    cancel: &CancelFlag,
) -> Vec<u8> {
    let mut vertices: Vec<u32> = (0..graph.len() as u32).collect();
    let mut depths = vec![LEAF; graph.len()];
    let how = How { parallel, cancel };
    divide(graph, &mut vertices, &mut depths, 0, how);
    let mut by_vertex = vec![LEAF; vertices.len()];
    for (&v, &depth) in vertices.iter().zip(&depths) {
        by_vertex[v as usize] = depth;
    }
    by_vertex
}

/// How a division is carried out.
#[derive(Clone, Copy)]
struct How<'a> {
    /// On the current rayon pool.
    parallel: bool,
    cancel: &'a CancelFlag,
}

/// Puts the vertices of the first part first in `vertices`, those of the second next, and those of the
/// separator last. `depths` go with them.
fn divide(graph: WeightedGraph, vertices: &mut [u32], depths: &mut [u8], depth: u8, how: How<'_>) {
    let n = graph.len();
    if n <= SMALLEST || depth == DEEPEST || how.cancel.is_cancelled() {
        return;
    }
    let parallel_here = how.parallel && n > SMALLEST_PARALLEL;
    let side = if depth < COMPARED_DEPTH {
        lighter_of_two(&graph, n as u64, parallel_here, how.cancel)
    } else {
        separate(
            &graph,
            &mut Random::new(n as u64),
            parallel_here,
            how.cancel,
        )
    };
    let Ok(side) = side else {
        return;
    };
    let mut sizes = [0u32; 3];
    let mut weights = [0u64; 3];
    // Numbers within the side.
    let numbers: Vec<u32> = side
        .iter()
        .zip(&graph.weight)
        .map(|(&side, &weight)| {
            weights[side as usize] += u64::from(weight);
            sizes[side as usize] += 1;
            sizes[side as usize] - 1
        })
        .collect();
    if LIGHTEST_PART * weights[0].min(weights[1]) < weights.iter().sum() {
        return;
    }
    let part = |of: Side| {
        let mut new_index = vec![NONE; n];
        for (v, &number) in numbers.iter().enumerate() {
            if side[v] == of {
                new_index[v] = number;
            }
        }
        let members = (0..n as u32).filter(|&v| side[v as usize] == of);
        graph.induced(members, &new_index)
    };
    let (first, second) = join_if(parallel_here, || part(0), || part(1));
    drop(graph);
    let starts = [0, sizes[0], sizes[0] + sizes[1]];
    for (&v, (&side, &number)) in vertices.to_vec().iter().zip(side.iter().zip(&numbers)) {
        let place = (starts[side as usize] + number) as usize;
        vertices[place] = v;
        depths[place] = if side == SEPARATOR { depth } else { LEAF };
    }
    drop((side, numbers));
    let [end, len] = [sizes[0] as usize, sizes[1] as usize];
    let (vertices, rest) = vertices.split_at_mut(end);
    let (more_vertices, _) = rest.split_at_mut(len);
    let (depths, rest) = depths.split_at_mut(end);
    let (more_depths, _) = rest.split_at_mut(len);
    let of_first = || divide(first, vertices, depths, depth + 1, how);
    let of_second = || divide(second, more_vertices, more_depths, depth + 1, how);
    join_if(parallel_here, of_first, of_second);
}
