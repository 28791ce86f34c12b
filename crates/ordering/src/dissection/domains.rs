//! Elimination of the parts of a divided graph side by side, and of the vertices between them afterwards.
//!
//! The parts are *domains*: no edge joins two of them, so the elements of one never meet those of another until vertices
//! between them are eliminated. Each domain is a quotient graph of its own, whose *border*, the vertices outside that it
//! is joined to, is kept: degrees count it (the halo of Pellegrini, Roman and Amestoy). What is left of the domains are
//! elements of border vertices; with these begins the quotient graph of the vertices between domains.

use rayon::prelude::*;

use luge_sparse::{CancelFlag, Cancelled};

use super::NONE;
use super::reduction::Lists;
use super::rounds::{KEPT, Rounds};
use crate::minimum_degree::{Begun, ElementLists, eliminate, with_spare_room};

/// Where the vertices of a graph belong.
pub(super) struct Domains {
    /// The domain of each vertex, or [`NONE`].
    pub of: Vec<u32>,
    pub count: usize,
    /// In which stage each vertex is eliminated, from the last one on; those of domains and those between domains have no
    /// stage in common.
    pub stage: Vec<u8>,
}

/// The vertices of each domain, and those between domains, by number.
struct Members {
    /// Where those of each domain start in `vertices`, then the others, and the end.
    ptr: Vec<usize>,
    vertices: Vec<u32>,
    /// The place of each vertex among those of its domain, or of the others.
    place: Vec<u32>,
}

impl Members {
    fn new(domains: &Domains) -> Self {
        let group = |&domain: &u32| {
            if domain == NONE {
                domains.count
            } else {
                domain as usize
            }
        };
        let mut ptr = vec![0; domains.count + 2];
        let mut place = Vec::with_capacity(domains.of.len());
        for g in domains.of.iter().map(group) {
            place.push(ptr[g + 1] as u32);
            ptr[g + 1] += 1;
        }
        for g in 0..=domains.count {
            ptr[g + 1] += ptr[g];
        }
        let mut vertices = vec![0; domains.of.len()];
        for (v, g) in (0..).zip(domains.of.iter().map(group)) {
            vertices[ptr[g] + place[v as usize] as usize] = v;
        }
        Self {
            ptr,
            vertices,
            place,
        }
    }

    /// Those of a domain; of the last group those between domains.
    fn of(&self, group: usize) -> &[u32] {
        &self.vertices[self.ptr[group]..self.ptr[group + 1]]
    }
}

/// An order of the vertices of a graph.
pub(super) struct Eliminated {
    /// New to old, those of domains first.
    pub order: Vec<u32>,
    /// Where those of each domain end.
    pub ends: Vec<usize>,
}

/// An order of the vertices of the graph, each of which stands for as many as its `weight` says: domains first,
/// on the current rayon pool if `parallel`, with the same result.
///
/// # Errors
///
/// [`Cancelled`].
///
/// # Panics
///
/// If the lists do not fit 32-bit positions; see [`fits`](crate::minimum_degree::fits).
pub(super) fn eliminated(
    graph: &Lists,
    weight: &[u32],
    domains: &Domains,
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<Eliminated, Cancelled> {
    let members = Members::new(domains);
    let of_domain =
        |domain: usize| domain_eliminated(graph, weight, domains, &members, domain, cancel);
    let parts: Result<Vec<_>, Cancelled> = if parallel && domains.count > 1 {
        (0..domains.count).into_par_iter().map(of_domain).collect()
    } else {
        (0..domains.count).map(of_domain).collect()
    };
    let (mut orders, elements): (Vec<Vec<u32>>, Vec<ElementLists>) = parts?.into_iter().unzip();
    let mut end = 0;
    let ends = orders.iter().map(|order| {
        end += order.len();
        end
    });
    let ends = ends.collect();
    let between = members.of(domains.count);
    if !between.is_empty() {
        let begun = between_domains(graph, weight, domains, &members, &elements);
        drop(elements);
        let stage = between.iter().map(|&v| domains.stage[v as usize]).collect();
        let (order, _) = eliminate(begun, &mut Rounds::new(stage), cancel)?;
        orders.push(order.iter().map(|&v| between[v as usize]).collect());
    }
    Ok(Eliminated {
        order: orders.concat(),
        ends,
    })
}

/// The order of a domain, and the elements that it leaves, of places between domains.
fn domain_eliminated(
    graph: &Lists,
    weight: &[u32],
    domains: &Domains,
    members: &Members,
    domain: usize,
    cancel: &CancelFlag,
) -> Result<(Vec<u32>, ElementLists), Cancelled> {
    let own = members.of(domain);
    let num_own = own.len() as u32;
    let num_entries = own.iter().map(|&v| graph.of(v).len()).sum::<usize>();
    let mut ptr = Vec::with_capacity(own.len() + 1);
    // With room for the border, whose lists have as many entries at most.
    let mut lists = Vec::with_capacity(with_spare_room(own.len(), num_entries + num_entries / 4));
    let mut border: Vec<u32> = Vec::new();
    // By place between domains: its number here.
    let mut number = vec![NONE; members.of(domains.count).len()];
    let mut joined_from: Vec<u32> = Vec::new();
    ptr.push(0);
    for &v in own {
        for &u in graph.of(v) {
            let place = members.place[u as usize];
            let is_own = domains.of[u as usize] == domain as u32;
            lists.push(if is_own {
                place
            } else {
                let number = &mut number[place as usize];
                if *number == NONE {
                    *number = num_own + border.len() as u32;
                    border.push(place);
                    joined_from.push(0);
                }
                joined_from[(*number - num_own) as usize] += 1;
                *number
            });
        }
        ptr.push(lists.len());
    }
    let start_of_border = lists.len();
    let mut next: Vec<usize> = Vec::with_capacity(border.len());
    for &count in &joined_from {
        let start = ptr[ptr.len() - 1];
        next.push(start);
        ptr.push(start + count as usize);
    }
    lists.resize(ptr[ptr.len() - 1], 0);
    for v in 0..own.len() {
        for q in ptr[v]..ptr[v + 1].min(start_of_border) {
            if let Some(b) = lists[q].checked_sub(num_own) {
                let next = &mut next[b as usize];
                lists[*next] = v as u32;
                *next += 1;
            }
        }
    }
    let between = members.of(domains.count);
    let vertices = || {
        let border = border.iter().map(|&place| between[place as usize]);
        own.iter().copied().chain(border)
    };
    let stage = own.iter().map(|&v| domains.stage[v as usize]);
    let stage = stage.chain(border.iter().map(|_| KEPT)).collect();
    let begun = Begun {
        num_elements: vec![0; ptr.len() - 1],
        ptr,
        lists,
        weight: vertices().map(|v| weight[v as usize]).collect(),
        num_kept: border.len(),
    };
    let (mut order, mut elements) = eliminate(begun, &mut Rounds::new(stage), cancel)?;
    for v in &mut order {
        *v = own[*v as usize];
    }
    for v in &mut elements.idx {
        *v = border[(*v - num_own) as usize];
    }
    Ok((order, elements))
}

/// The quotient graph of the vertices between domains, numbered by place.
fn between_domains(
    graph: &Lists,
    weight: &[u32],
    domains: &Domains,
    members: &Members,
    elements: &[ElementLists],
) -> Begun {
    let between = members.of(domains.count);
    let n = between.len();
    let mut num_elements = vec![0; n];
    for &v in elements.iter().flat_map(|part| &part.idx) {
        num_elements[v as usize] += 1;
    }
    let others = |v: u32| {
        let neighbours = graph.of(v).iter();
        let between = neighbours.filter(|&&u| domains.of[u as usize] == NONE);
        between.map(|&u| members.place[u as usize])
    };
    let num_in_elements: usize = elements.iter().map(|part| part.idx.len()).sum();
    let mut ptr = vec![0];
    let mut lists = Vec::with_capacity(with_spare_room(n, 3 * num_in_elements));
    // Where the next element of each vertex goes.
    let mut next = Vec::with_capacity(n);
    for (&v, &count) in between.iter().zip(&num_elements) {
        next.push(lists.len());
        lists.resize(lists.len() + count as usize, 0);
        lists.extend(others(v));
        ptr.push(lists.len());
    }
    let mut element = n as u32;
    for ElementLists { ends, idx } in elements {
        let mut start = 0;
        for &end in ends {
            for &v in &idx[start..end] {
                let next = &mut next[v as usize];
                lists[*next] = element;
                *next += 1;
                lists.push(v);
            }
            ptr.push(lists.len());
            start = end;
            element += 1;
        }
    }
    Begun {
        ptr,
        lists,
        num_elements,
        weight: between.iter().map(|&v| weight[v as usize]).collect(),
        num_kept: 0,
    }
}

#[cfg(test)]
mod tests {
    use luge_sparse::etree;

    use super::super::graph::WeightedGraph;
    use super::*;

    /// A cube of n³ vertices.
    fn cube(n: u32) -> Lists {
        let (mut ptr, mut idx) = (vec![0], Vec::new());
        for v in 0..n * n * n {
            for stride in [1, n, n * n] {
                let along = v / stride % n;
                idx.extend((along > 0).then(|| v - stride));
                idx.extend((along + 1 < n).then(|| v + stride));
            }
            ptr.push(idx.len());
        }
        Lists { ptr, idx }
    }

    fn entries(graph: &Lists, order: &[u32]) -> u64 {
        let place = etree::inverse(order);
        let joined = |k: u32| {
            let neighbours = graph.of(order[k as usize]).iter();
            neighbours.map(|&w| place[w as usize])
        };
        let parent = etree::elimination_tree(order.len(), joined);
        let post = etree::postorder(&parent);
        let order: Vec<u32> = post.iter().map(|&k| order[k as usize]).collect();
        let place = etree::inverse(&order);
        let joined = |k: u32| {
            let neighbours = graph.of(order[k as usize]).iter();
            neighbours.map(|&w| place[w as usize])
        };
        let parent = etree::elimination_tree(order.len(), joined);
        let counts = etree::column_counts(&parent, joined);
        counts.into_iter().map(u64::from).sum()
    }

    /// An element of many variables, each of which is next to a pivot that has another neighbour: the first pivots see the
    /// element, whose degree no element of their own comes near.
    #[test]
    fn an_element_to_begin_with_may_be_larger_than_all_that_come() {
        let n = 100u32;
        let (pivot, other) = (|k| n + k, |k| 2 * n + k);
        let (mut ptr, mut lists) = (vec![0], Vec::new());
        let mut add = |list: &[u32]| {
            lists.extend_from_slice(list);
            ptr.push(lists.len());
        };
        let element = 3 * n;
        (0..n).for_each(|k| add(&[element, pivot(k)]));
        (0..n).for_each(|k| add(&[k, other(k)]));
        (0..n).for_each(|k| add(&[pivot(k)]));
        add(&(0..n).collect::<Vec<_>>());
        let begun = Begun {
            ptr,
            lists,
            num_elements: (0..3 * n).map(|v| u32::from(v < n)).collect(),
            weight: vec![1; 3 * n as usize],
            num_kept: 0,
        };
        let stages = (0..3 * n).map(|v| u8::from(n <= v && v < 2 * n));
        let mut rounds = Rounds::new(stages.collect());
        let (mut order, _) = eliminate(begun, &mut rounds, &CancelFlag::new()).unwrap();
        order.sort_unstable();
        assert_eq!(order, (0..3 * n).collect::<Vec<_>>());
    }

    #[test]
    fn many_domains_fill_as_little_as_one() {
        let graph = cube(15);
        let n = graph.ptr.len() - 1;
        let weighted = WeightedGraph {
            ptr: graph.ptr.clone(),
            idx: graph.idx.clone(),
            edge_weight: vec![1; graph.idx.len()],
            weight: vec![1; n],
        };
        let never = CancelFlag::new();
        let domains = super::super::domains(weighted, false, &never).unwrap();
        assert!(domains.count > 8, "{}", domains.count);
        let between = domains.of.iter().filter(|&&domain| domain == NONE);
        assert!(between.count() > n / 10);
        let one = Domains {
            of: vec![0; n],
            count: 1,
            stage: domains.stage.clone(),
        };
        let filled = |domains| {
            let found = eliminated(&graph, &vec![1; n], domains, false, &never).unwrap();
            entries(&graph, &found.order) as f64
        };
        let (of_many, of_one) = (filled(&domains), filled(&one));
        assert!(of_many < 1.01 * of_one, "{of_many} against {of_one}");
    }
}
