//! The variable of least degree.

use super::{NONE, Node, PivotChoice, Quotient};

/// Variables by degree, last in, first out. A variable whose degree changes is entered again; what it
/// has left behind is passed over when it comes out. So nothing but the end of the array is written to.
pub(super) struct Queue {
    entries: Vec<Entry>,
    /// First entry of each degree.
    heads: Vec<u32>,
    /// There are no entries of smaller degrees.
    lowest: usize,
    /// Of a variable that waits: 2 until it is entered at the start, then 1 until one next to it is eliminated; 0 of
    /// others. Empty if none waits.
    waits: Vec<u8>,
}

struct Entry {
    variable: u32,
    /// The next entry of the same degree.
    next: u32,
}

impl Queue {
    /// For `n` variables. One for which `waits` is true is not taken before one next to it was, unless no other is left.
    pub fn new(n: usize, waits: Option<&[bool]>) -> Self {
        Self {
            entries: Vec::with_capacity(2 * n),
            heads: vec![NONE; n],
            lowest: n,
            waits: waits.map_or_else(Vec::new, |waits| {
                waits.iter().map(|&waits| 2 * u8::from(waits)).collect()
            }),
        }
    }

    fn is_waiting(&self, variable: usize) -> bool {
        self.waits.get(variable).is_some_and(|&times| times > 0)
    }

    /// No variable waits any longer.
    fn release(&mut self, nodes: &[Node]) {
        for (i, times) in std::mem::take(&mut self.waits).into_iter().enumerate() {
            if times > 0 && nodes[i].weight > 0 {
                self.insert(i as u32, nodes[i].degree as usize);
            }
        }
    }

    /// Leaves out what is no longer true, once that is most of it.
    fn tidy(&mut self, nodes: &[Node]) {
        if self.entries.len() < 4 * nodes.len() + 64 {
            return;
        }
        self.entries.clear();
        self.heads.fill(NONE);
        for (i, node) in nodes.iter().enumerate() {
            if node.weight > 0 && !self.is_waiting(i) {
                self.insert(i as u32, node.degree as usize);
            }
        }
    }
}

impl PivotChoice for Queue {
    fn insert(&mut self, variable: u32, degree: usize) {
        if let Some(times) = self.waits.get_mut(variable as usize)
            && *times > 0
        {
            *times -= 1;
            if *times > 0 {
                return;
            }
        }
        let place = self.entries.len() as u32;
        let next = std::mem::replace(&mut self.heads[degree], place);
        self.entries.push(Entry { variable, next });
        self.lowest = self.lowest.min(degree);
    }

    /// The entry of least degree that is still true.
    fn pop(&mut self, graph: Quotient) -> u32 {
        self.tidy(graph.nodes);
        loop {
            if self.lowest == self.heads.len() {
                self.release(graph.nodes);
            }
            let place = self.heads[self.lowest];
            if place == NONE {
                self.lowest += 1;
                continue;
            }
            let Entry { variable, next } = self.entries[place as usize];
            self.heads[self.lowest] = next;
            let node = &graph.nodes[variable as usize];
            if node.weight > 0 && node.degree as usize == self.lowest {
                return variable;
            }
        }
    }

    #[inline]
    fn may_join(&self, _: u32, _: u32) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use luge_sparse::CancelFlag;

    use super::super::minimum_degree;

    /// The order of a path, in which the vertices named wait.
    fn ordered(n: u32, waiting: &[u32]) -> Vec<u32> {
        let (mut ptr, mut lists) = (vec![0], Vec::new());
        for v in 0..n {
            lists.extend(v.checked_sub(1));
            lists.extend(Some(v + 1).filter(|&w| w < n));
            ptr.push(lists.len());
        }
        let waits: Vec<bool> = (0..n).map(|v| waiting.contains(&v)).collect();
        let found = minimum_degree(&ptr, lists, Some(&waits), &CancelFlag::new());
        found.unwrap().order
    }

    #[test]
    fn vertices_wait_for_a_neighbour() {
        for waiting in [
            &[0][..],
            &[0, 9],
            &[0, 2, 4, 6, 8],
            &[0, 1, 8, 9],
            &[0, 1, 2, 3],
        ] {
            let order = ordered(10, waiting);
            let place = |v: u32| order.iter().position(|&w| w == v).unwrap();
            for &v in waiting {
                let mut neighbours = [v.wrapping_sub(1), v + 1].into_iter().filter(|&w| w < 10);
                assert!(
                    neighbours.any(|w| place(w) < place(v)),
                    "{waiting:?} {order:?}"
                );
            }
        }
    }

    #[test]
    fn if_all_wait_none_does() {
        let all: Vec<u32> = (0..10).collect();
        let mut order = ordered(10, &all);
        order.sort_unstable();
        assert_eq!(order, all);
    }
}
