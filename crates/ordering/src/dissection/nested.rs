//! Recursion over separators.

use super::graph::{NONE, WeightedGraph};
use super::separator::{Random, SEPARATOR, Side, lighter_of_two, separate};
use crate::parts::join_if;
use luge_sparse::CancelFlag;

/// Graphs of at most so many vertices are divided by short separators alone.
const SMALLEST: usize = 200;

/// Separators of at most so many vertices are short. What they divide is long and narrow, as a path of blocks is: by rounds
/// of independent vertices its tree would become as high as they are many, and each level of a tree is a wait.
const SHORT: u32 = 8;

/// Graphs of at most so many vertices are not divided.
pub(super) const SMALLEST_NARROW: usize = 25;

/// Graphs of more vertices than this are divided on other threads.
const SMALLEST_PARALLEL: usize = 400;

/// Separators within fewer others than this are the better ones of two: all of the tree is below them, and threads have
/// nothing else to do.
const COMPARED_DEPTH: u8 = 4;

/// Separators within so many others are not divided further.
const DEEPEST: u8 = 100;

/// A graph is not divided if one part would have less than one in so many of its weight.
const LIGHTEST_PART: u64 = 16;

/// The depth of vertices in no separator.
pub(super) const LEAF: u8 = u8::MAX;

/// Where a vertex is after the division.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// In how many parts that contain the vertex its separator lies: zero for the first separator; [`LEAF`] if it is in
    /// none.
    pub depth: u8,
    /// The domain that it is in; [`NONE`] for those between domains.
    pub domain: u32,
}

/// Divides the graph by a separator, and the parts likewise. Parts of at most so many vertices, and those that are not
/// divided, are domains, numbered from zero on. Returns where the vertices are, and the number of domains. On the current
/// rayon pool if `parallel`; the result is the same. Nothing more is divided once it is cancelled.
pub(super) fn places(
    graph: WeightedGraph,
    largest_domain: usize,
    parallel: bool,
    cancel: &CancelFlag,
) -> (Vec<Place>, usize) {
    let n = graph.len();
    let mut divided: Vec<Divided> = (0..n as u32).map(Divided::new).collect();
    let how = How {
        largest_domain,
        parallel,
        cancel,
    };
    divide(graph, &mut divided, 0, true, how);
    let nowhere = Place {
        depth: LEAF,
        domain: NONE,
    };
    let mut places = vec![nowhere; n];
    let mut num_domains = 0;
    for &Divided {
        vertex,
        depth,
        in_domain,
        starts_domain,
    } in &divided
    {
        num_domains += u32::from(starts_domain);
        let domain = if in_domain { num_domains - 1 } else { NONE };
        places[vertex as usize] = Place { depth, domain };
    }
    (places, num_domains as usize)
}

/// How a division is carried out.
#[derive(Clone, Copy)]
struct How<'a> {
    largest_domain: usize,
    /// On the current rayon pool.
    parallel: bool,
    cancel: &'a CancelFlag,
}

/// A vertex while it is divided from others.
#[derive(Clone, Copy)]
struct Divided {
    vertex: u32,
    depth: u8,
    in_domain: bool,
    /// The first vertex of its domain.
    starts_domain: bool,
}

impl Divided {
    fn new(vertex: u32) -> Self {
        Self {
            vertex,
            depth: LEAF,
            in_domain: false,
            starts_domain: false,
        }
    }
}

/// Puts the vertices of the first part first in `vertices`, those of the second next, and those of the
/// separator last. The graph may be narrow: the separator beside it, if there is one, is short.
fn divide(
    graph: WeightedGraph,
    vertices: &mut [Divided],
    depth: u8,
    may_be_narrow: bool,
    how: How<'_>,
) {
    let n = graph.len();
    if n <= how.largest_domain {
        make_domain(vertices);
    }
    let smallest = if may_be_narrow {
        SMALLEST_NARROW
    } else {
        SMALLEST
    };
    if n <= smallest || depth == DEEPEST || how.cancel.is_cancelled() {
        make_domain(vertices);
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
        make_domain(vertices);
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
    let is_narrow = sizes[SEPARATOR as usize] <= SHORT;
    let is_uneven = LIGHTEST_PART * weights[0].min(weights[1]) < weights.iter().sum();
    if is_uneven || n <= SMALLEST && !is_narrow {
        make_domain(vertices);
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
    let starts_domain = vertices[0].starts_domain;
    for (&old, (&side, &number)) in vertices.to_vec().iter().zip(side.iter().zip(&numbers)) {
        let place = (starts[side as usize] + number) as usize;
        vertices[place] = Divided {
            depth: if side == SEPARATOR { depth } else { LEAF },
            starts_domain: starts_domain && place == 0,
            ..old
        };
    }
    drop((side, numbers));
    let (first_vertices, rest) = vertices.split_at_mut(sizes[0] as usize);
    let (second_vertices, _) = rest.split_at_mut(sizes[1] as usize);
    let of_first = || divide(first, first_vertices, depth + 1, is_narrow, how);
    let of_second = || divide(second, second_vertices, depth + 1, is_narrow, how);
    join_if(parallel_here, of_first, of_second);
}

/// The vertices of a part become a domain, unless they are within one.
fn make_domain(vertices: &mut [Divided]) {
    if vertices.first().is_some_and(|first| !first.in_domain) {
        for vertex in &mut *vertices {
            vertex.in_domain = true;
        }
        vertices[0].starts_domain = true;
    }
}
