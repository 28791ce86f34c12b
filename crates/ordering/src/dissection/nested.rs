//! Recursion over separators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::graph::{NONE, WeightedGraph};
use super::levels;
use super::separator::{Division, Random, SEPARATOR, Side, divided, refined};
use luge_sparse::{CancelFlag, Cancelled};
use rayon::Scope;
use smallvec::{SmallVec, smallvec};

/// Graphs of at most so many vertices are divided by short separators alone.
const SMALLEST: usize = 200;

/// Separators of at most so many vertices are short. What they divide is long and narrow, as a path of blocks is: by rounds
/// of independent vertices its tree would become as high as they are many, and each level of a tree is a wait.
const SHORT: u32 = 8;

/// Graphs of at most so many vertices are not divided.
pub(super) const SMALLEST_NARROW: usize = 25;

/// Graphs of more vertices than this are divided on other threads.
const SMALLEST_PARALLEL: usize = 400;

/// Separators within fewer others than this are looked for once more by the multilevel method, and all at a time: all of the tree is below
/// them, and threads have nothing else to do.
const COMPARED_DEPTH: u8 = 4;

/// A level of a search is refined where it is at most so many times as heavy as a multilevel separator.
const NEAR: f64 = 1.2;

/// Where a level is so many times as heavy, parts are not searched for levels. With 1.2 in place of it factorizations of 43 matrices of
/// a corpus take 1.3 % more operations, without it 0.3 % fewer, and orders 7 % longer.
const FAR: f64 = 2.0;

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
        levels: Levels::Near,
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
    /// How levels of a search did where the part was divided from others.
    levels: Levels,
}

/// How a level of a search did as a separator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Levels {
    /// Much worse than a multilevel separator. Those of parts are not looked for.
    Far,
    Near,
    Best,
}

/// How a graph may be divided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Multilevel { seed: u64 },
    Levels,
}

/// None if the graph cannot be divided that way.
type Attempt = Result<Option<Division>, Cancelled>;

/// A graph that several attempts are made to divide, side by side.
struct Compared<'a> {
    graph: Arc<WeightedGraph>,
    pending: Mutex<Pending<'a>>,
}

struct Pending<'a> {
    part: Option<Part<'a>>,
    /// What the attempts by each method came to; none of those that are not done.
    attempts: Vec<(Method, Option<Attempt>)>,
}

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
        let seed = n as u64;
        let is_compared = depth < COMPARED_DEPTH;
        let mut methods: SmallVec<[Method; 3]> = smallvec![Method::Multilevel { seed }];
        if part.levels != Levels::Far {
            methods.push(Method::Levels);
        }
        if is_compared && part.levels != Levels::Best {
            methods.push(Method::Multilevel { seed: !seed });
        }
        let Some(scope) = scope.filter(|_| is_compared) else {
            let made = |&method| (method, self.attempt(&graph, depth, method, scope));
            let division = best(&graph, methods.iter().map(made));
            self.divide_by(division, graph, part, scope);
            return;
        };
        let compared = Arc::new(Compared {
            graph,
            pending: Mutex::new(Pending {
                part: Some(part),
                attempts: methods.iter().map(|&method| (method, None)).collect(),
            }),
        });
        for number in 1..methods.len() {
            let compared = Arc::clone(&compared);
            scope.spawn(move |scope| self.compare(compared, depth, number, scope));
        }
        self.compare(compared, depth, 0, scope);
    }

    /// Makes one of the attempts; that which ends last goes on with the best one.
    fn compare(self, compared: Arc<Compared<'a>>, depth: u8, number: usize, scope: &Scope<'a>) {
        let (method, _) = locked(&compared.pending).attempts[number];
        let own = self.attempt(&compared.graph, depth, method, Some(scope));
        let (part, attempts) = {
            let mut pending = locked(&compared.pending);
            pending.attempts[number].1 = Some(own);
            if pending
                .attempts
                .iter()
                .any(|(_, attempt)| attempt.is_none())
            {
                return;
            }
            let part = pending.part.take().expect("one attempt is the last");
            (part, std::mem::take(&mut pending.attempts))
        };
        let graph = Arc::clone(&compared.graph);
        drop(compared);
        let attempts = attempts.into_iter();
        let made = attempts.filter_map(|(method, attempt)| Some((method, attempt?)));
        let division = best(&graph, made);
        self.divide_by(division, graph, part, Some(scope));
    }

    /// A division of the graph.
    fn attempt(
        self,
        graph: &WeightedGraph,
        depth: u8,
        method: Method,
        scope: Option<&Scope<'a>>,
    ) -> Attempt {
        match method {
            Method::Multilevel { seed } => {
                // Deeper down there are as many divisions at a time as threads.
                let parallel = scope.is_some() && 2 << depth.min(30) < rayon::current_num_threads();
                let random = &mut Random::new(seed);
                divided(graph, random, parallel, self.cancel).map(Some)
            }
            Method::Levels => levels::divided(graph, self.cancel),
        }
    }

    /// Puts the vertices of the first part first, those of the second next, and those of the separator last, and divides the parts
    /// further; if that is not worth it, the part is a domain.
    fn divide_by(
        self,
        division: Result<(Division, Levels), Cancelled>,
        graph: Arc<WeightedGraph>,
        part: Part<'a>,
        scope: Option<&Scope<'a>>,
    ) {
        let Part {
            vertices, depth, ..
        } = part;
        let Ok((Division { side, .. }, levels)) = division else {
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
            levels,
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

/// The best one of some divisions of a graph, the first of them by the multilevel method, and how levels did.
fn best(
    graph: &WeightedGraph,
    attempts: impl Iterator<Item = (Method, Attempt)>,
) -> Result<(Division, Levels), Cancelled> {
    let mut best: Option<Division> = None;
    let mut levels = Levels::Far;
    for (method, attempt) in attempts {
        let Some(mut division) = attempt? else {
            levels = Levels::Near;
            continue;
        };
        let Some(than) = &best else {
            best = Some(division);
            continue;
        };
        if method == Method::Levels {
            let heaviness = division.heaviness(than);
            if heaviness <= FAR {
                levels = Levels::Near;
            }
            if heaviness > NEAR {
                continue;
            }
            division = refined(graph, division);
        }
        if division.is_better(than) {
            best = Some(division);
            levels = match method {
                Method::Levels => Levels::Best,
                Method::Multilevel { .. } => levels.min(Levels::Near),
            };
        }
    }
    let best = best.expect("the multilevel method divides any graph");
    Ok((best, levels))
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

#[cfg(test)]
mod tests {
    use super::super::examples::{cube, cubes};
    use super::*;

    #[test]
    fn cubes_are_divided_by_levels() {
        let k = 24;
        let within = |depth: u8, parallel: bool| {
            let (places, _) = places(cube(k), 100, parallel, &CancelFlag::new());
            places.iter().filter(|place| place.depth == depth).count() as u32
        };
        for parallel in [false, true] {
            // Of a plane k², of the middle level between two corners three quarters of that.
            assert!(4 * within(0, parallel) <= 3 * k * k);
            // Each half of it has half a level.
            assert!(within(1, parallel) < k * k);
        }
    }

    #[test]
    fn pieces_of_a_graph_are_divided_by_levels() {
        // Two pieces have no levels together.
        let k = 24;
        let (places, _) = places(cubes(2, k), 100, false, &CancelFlag::new());
        let within = |depth: u8| places.iter().filter(|place| place.depth == depth).count() as u32;
        assert_eq!(within(0), 0);
        assert!(4 * within(1) <= 2 * 3 * k * k, "{}", within(1));
    }
}
