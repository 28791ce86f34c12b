//! Graphs for tests.

use super::graph::WeightedGraph;

/// The graph with these edges, given from either end, of vertices of weight one to three.
pub(super) fn graph(n: u32, edges: impl Iterator<Item = (u32, u32)>) -> WeightedGraph {
    let mut lists = vec![std::collections::BTreeSet::new(); n as usize];
    for (v, u) in edges.filter(|(v, u)| v != u) {
        lists[v as usize].insert(u);
        lists[u as usize].insert(v);
    }
    let mut graph = WeightedGraph {
        ptr: vec![0],
        weight: (0..n).map(|v| 1 + v % 3).collect(),
        ..WeightedGraph::default()
    };
    for list in lists {
        graph.idx.extend(list);
        graph.ptr.push(graph.idx.len());
    }
    graph.edge_weight = vec![1; graph.idx.len()];
    graph
}

/// Of k³ vertices of weight one, each with those next to it along the axes.
pub(super) fn cube(k: u32) -> WeightedGraph {
    cubes(1, k)
}

/// Several of them, which nothing joins.
pub(super) fn cubes(count: u32, k: u32) -> WeightedGraph {
    let steps = [1, k, k * k];
    let edges = (0..count * k * k * k).flat_map(move |v| {
        let along = steps.into_iter().filter(move |step| v / step % k + 1 < k);
        along.map(move |step| (v, v + step))
    });
    let mut cubes = graph(count * k * k * k, edges);
    cubes.weight.fill(1);
    cubes
}
