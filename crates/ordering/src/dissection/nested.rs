//! Recursion over separators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::graph::{NONE, WeightedGraph};
use super::separator::{Division, Random, SEPARATOR, Side, divided};
use luge_sparse::{CancelFlag, Cancelled};
use rayon::Scope;

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
        cancel,
    };
    let whole = Part {
        vertices: &mut divided,
        depth: 0,
        may_be_narrow: true,
    };
    if parallel {
        rayon::scope(|scope| how.divide(graph, whole, Some(scope)));
    } else {
        how.divide(graph, whole, None);
    }
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

/// Vertices that are to be divided.
struct Part<'a> {
    vertices: &'a mut [Divided],
    depth: u8,
    /// Whether the graph may be narrow: the separator beside it, if there is one, is short.
    may_be_narrow: bool,
}

/// A graph and what is made of it by two attempts.
struct Compared<'a> {
    graph: Arc<WeightedGraph>,
    /// The part, and the outcome of the attempt that ends first.
    pending: Mutex<Option<(Part<'a>, Option<Attempt>)>>,
}

type Attempt = Result<Division, Cancelled>;

/// A graph and the sides of its vertices, from which the graphs of both parts are made.
struct Sides {
    graph: Arc<WeightedGraph>,
    side: Vec<Side>,
    /// The number of each vertex within its side.
    numbers: Vec<u32>,
    second: Mutex<Second>,
}

/// The graph of the second part.
enum Second {
    Waits,
    Made(WeightedGraph),
    Taken,
}

impl Sides {
    fn part(&self, of: Side) -> WeightedGraph {
        let n = self.graph.len();
        let mut new_index = vec![NONE; n];
        for (v, &number) in self.numbers.iter().enumerate() {
            if self.side[v] == of {
                new_index[v] = number;
            }
        }
        let members = (0..n as u32).filter(|&v| self.side[v as usize] == of);
        self.graph.induced(members, &new_index)
    }
}

/// How a division is carried out. With a scope, what may go on at once is spawned there, and no task waits for another: a thread that
/// waited would take over any other one, perhaps a long one, before it went on.
#[derive(Clone, Copy)]
struct How<'a> {
    largest_domain: usize,
    cancel: &'a CancelFlag,
}

impl<'a> How<'a> {
    /// Divides the part, whose graph this is, and its parts likewise.
    fn divide(self, graph: WeightedGraph, part: Part<'a>, scope: Option<&Scope<'a>>) {
        let n = graph.len();
        let depth = part.depth;
        if n <= self.largest_domain {
            make_domain(part.vertices);
        }
        let smallest = if part.may_be_narrow {
            SMALLEST_NARROW
        } else {
            SMALLEST
        };
        if n <= smallest || depth == DEEPEST || self.cancel.is_cancelled() {
            make_domain(part.vertices);
            return;
        }
        let scope = scope.filter(|_| n > SMALLEST_PARALLEL);
        let graph = Arc::new(graph);
        if depth >= COMPARED_DEPTH {
            let division = self.attempt(&graph, depth, n as u64, scope);
            self.divide_by(division, graph, part, scope);
            return;
        }
        let Some(scope) = scope else {
            let attempt = |seed| self.attempt(&graph, depth, seed, None);
            let division = lighter(attempt(n as u64), attempt(!(n as u64)));
            self.divide_by(division, graph, part, None);
            return;
        };
        let compared = Arc::new(Compared {
            graph,
            pending: Mutex::new(Some((part, None))),
        });
        let also = Arc::clone(&compared);
        scope.spawn(move |scope| self.compare(also, depth, true, scope));
        self.compare(compared, depth, false, scope);
    }

    /// Makes one of two attempts; that which ends last goes on with the better one.
    fn compare(self, compared: Arc<Compared<'a>>, depth: u8, is_second: bool, scope: &Scope<'a>) {
        let n = compared.graph.len() as u64;
        let seed = if is_second { !n } else { n };
        let own = self.attempt(&compared.graph, depth, seed, Some(scope));
        let (part, other) = {
            let mut pending = locked(&compared.pending);
            match pending.take() {
                Some((part, Some(other))) => (part, other),
                Some((part, None)) => {
                    *pending = Some((part, Some(own)));
                    return;
                }
                None => unreachable!("there are two attempts"),
            }
        };
        let division = if is_second {
            lighter(other, own)
        } else {
            lighter(own, other)
        };
        let graph = Arc::clone(&compared.graph);
        drop(compared);
        self.divide_by(division, graph, part, Some(scope));
    }

    /// A division of the graph.
    fn attempt(
        self,
        graph: &WeightedGraph,
        depth: u8,
        seed: u64,
        scope: Option<&Scope<'a>>,
    ) -> Attempt {
        // Deeper down there are as many divisions at a time as threads.
        let parallel = scope.is_some() && 2 << depth.min(30) < rayon::current_num_threads();
        divided(graph, &mut Random::new(seed), parallel, self.cancel)
    }

    /// Puts the vertices of the first part first, those of the second next, and those of the separator last, and divides the parts
    /// further; if that is not worth it, the part is a domain.
    fn divide_by(
        self,
        division: Attempt,
        graph: Arc<WeightedGraph>,
        part: Part<'a>,
        scope: Option<&Scope<'a>>,
    ) {
        let Part {
            vertices, depth, ..
        } = part;
        let Ok(Division { side, .. }) = division else {
            make_domain(vertices);
            return;
        };
        let n = graph.len();
        let mut sizes = [0u32; 3];
        let mut weights = [0u64; 3];
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
        let (first, rest) = vertices.split_at_mut(sizes[0] as usize);
        let (second, _) = rest.split_at_mut(sizes[1] as usize);
        let [first, second] = [first, second].map(|vertices| Part {
            vertices,
            depth: depth + 1,
            may_be_narrow: is_narrow,
        });
        let sides = Arc::new(Sides {
            graph,
            side,
            numbers,
            second: Mutex::new(Second::Waits),
        });
        let Some(scope) = scope else {
            let [of_first, of_second] = [0, 1].map(|of| sides.part(of));
            drop(sides);
            self.divide(of_first, first, None);
            self.divide(of_second, second, None);
            return;
        };
        let also = Arc::clone(&sides);
        scope.spawn(move |scope| {
            let found = std::mem::replace(&mut *locked(&also.second), Second::Taken);
            let graph = match found {
                Second::Made(graph) => graph,
                Second::Waits | Second::Taken => also.part(1),
            };
            drop(also);
            self.divide(graph, second, Some(scope));
        });
        let graph = sides.part(0);
        let mut second = locked(&sides.second);
        if matches!(*second, Second::Waits) {
            // Nobody has begun with it. The whole graph is not kept until then.
            *second = Second::Made(sides.part(1));
        }
        drop(second);
        drop(sides);
        self.divide(graph, first, Some(scope));
    }
}

/// The better one of two divisions.
fn lighter(first: Attempt, second: Attempt) -> Attempt {
    Ok(Division::lighter(first?, second?))
}

/// For moments, but for that in which the graph of a second part is made.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
