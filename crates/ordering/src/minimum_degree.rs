//! Approximate minimum degree ordering.
//!
//! P. R. Amestoy, T. A. Davis and I. S. Duff, "An approximate minimum degree ordering algorithm",
//! SIAM J. Matrix Anal. Appl. 17 (1996), and "Algorithm 837: AMD", ACM TOMS 30 (2004). The graph that
//! is left after some eliminations is held as a quotient graph: eliminating a variable makes it an
//! *element*, whose list L(e) is a clique of variables; a variable has a list E(i) of elements and a
//! list A(i) of variables that it is joined to by an edge of the original graph which no element
//! covers. The degree of i after pivot p is bounded by the sizes of A(i), of L(p), and for every other
//! element e in E(i) of what L(e) has beyond L(p); all of these come out of one pass over the lists of
//! the variables in L(p).
//!
//! * Elements that the pivot variable was in are absorbed by its element, and so are those with nothing
//!   beyond L(p) (aggressive absorption).
//! * A variable in L(p) with no other element and no edge is eliminated with the pivot.
//! * Variables with equal lists are found by a hash of these and become one variable.
//! * A vertex with more than 10·√n neighbours, and more than 16, is set aside and ordered last.
//!
//! ```text
//! lists:  | E(i) .. A(i) .. | L(e) .... | ...       | free for new elements ... |
//!         ^ node i: start, elements, len              ^ free
//! ```
//!
//! A new element gets its list at the end of `lists`, unless the pivot variable was in no element: then
//! the list fits where A(p) was. When the end is reached, live lists are moved together.
//!
//! Everything about a node that the inner loops need is in 32 bytes. Time is near linear on matrices
//! from practice; memory is `lists` with a quarter of spare room, twice while lists are moved.
//!
//! The sizes of the fronts found on the way are exact, unless vertices were set aside. Which of up to 64 of
//! those a front is joined to is found afterwards by a walk up the tree of elements; the pivots of a front
//! are all taken to be joined to what one of them is.

mod queue;

use luge_sparse::{CancelFlag, Cancelled};
use smallvec::SmallVec;

use crate::cost::Prediction;
use crate::graph::dense_limit;
use queue::Queue;

/// No node.
const NONE: u32 = u32::MAX;

/// Pivots between two looks at the cancel flag.
const STRIDE: usize = 32;

/// Nodes, likewise, in passes over all of them.
const LONG_STRIDE: usize = 1 << 15;

/// In `Node::elements`: the node is an element.
const ELEMENT: u32 = u32::MAX;

/// A variable or an element.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    /// Where its list starts.
    start: u32,
    /// Length of its list.
    len: u32,
    /// Variables: how many elements are at the start of the list.
    elements: u32,
    /// Vertices that a live variable stands for, negated while it is in the list of the pivot; zero
    /// for everything else.
    weight: i32,
    /// Variables: bound of the degree. Elements: number of vertices in the list.
    degree: u32,
    /// Zero for an absorbed element; else see `flag` in [`MinimumDegree::run`].
    mark: u32,
    /// Live variables: next of those with like hash. Others: what absorbed it.
    next: u32,
    /// Live variables: the hash. Elements: number of vertices eliminated.
    tag: u32,
}

/// The order, and the sizes of the fronts of its elimination.
pub(crate) struct MinimumDegreeOrder {
    /// New to old, postordered along the tree of elements.
    pub order: Vec<u32>,
    /// From the fronts as found. None if vertices were set aside, and they are too many, or the order is
    /// no postorder of the elimination tree because of them.
    pub predicted: Option<Prediction>,
    /// The elements of variables that were kept.
    left: ElementLists,
}

/// The variables of some elements.
#[derive(Default)]
pub(crate) struct ElementLists {
    /// Where each list ends.
    pub ends: Vec<usize>,
    pub idx: Vec<u32>,
}

/// Which variable is eliminated next.
pub(crate) trait PivotChoice {
    /// Live variable `i` has this degree now. Called for every variable at the start, and for those next to
    /// a pivot once it is eliminated.
    fn insert(&mut self, i: u32, degree: usize);

    /// A live variable; there is one.
    fn pop(&mut self, graph: Quotient) -> u32;

    /// Whether two variables may be eliminated together.
    fn may_join(&self, i: u32, j: u32) -> bool;
}

/// The quotient graph between two eliminations.
#[derive(Clone, Copy)]
pub(crate) struct Quotient<'a> {
    nodes: &'a [Node],
}

impl Quotient<'_> {
    /// The number of vertices that live variable `i` stands for; zero if `i` is no live variable.
    pub fn weight(self, i: u32) -> u32 {
        self.nodes[i as usize].weight as u32
    }

    /// The bound of the degree of live variable `i`.
    pub fn degree(self, i: u32) -> u32 {
        self.nodes[i as usize].degree
    }
}

/// The quotient graph while it is ordered.
struct MinimumDegree {
    /// Variables, those that are kept last, and the elements that there were at the start.
    nodes: Vec<Node>,
    num_variables: usize,
    /// How many of them may be eliminated.
    num_eliminated: usize,
    lists: Vec<u32>,
    /// Start of the unused end of `lists`.
    free: usize,
}

/// Orders the undirected graph with the neighbours `lists[ptr[v]..ptr[v + 1]]` of vertex `v`, in any
/// order, each edge in both lists, no loops. The lists are used up. A vertex for which
/// `waits` is true is not eliminated before one of its neighbours, unless all that are left wait.
///
/// # Errors
///
/// [`Cancelled`].
///
/// # Panics
///
/// If the lists do not fit 32-bit positions; see [`fits`].
pub(crate) fn minimum_degree(
    ptr: &[usize],
    lists: Vec<u32>,
    waits: Option<&[bool]>,
    cancel: &CancelFlag,
) -> Result<MinimumDegreeOrder, Cancelled> {
    let n = ptr.len() - 1;
    let mut graph = MinimumDegree::new(ptr, lists, n, n, |_| 1, |_| 0);
    graph.run(dense_limit(n), &mut Queue::new(n, waits), cancel)
}

/// A quotient graph to begin with: variables, of which the last ones may be kept, and elements.
pub(crate) struct Begun {
    /// Where the list of each variable starts in `lists`, of each element after them, and the end.
    pub ptr: Vec<usize>,
    /// Of a variable its elements and then its other neighbours, of an element its variables; better with
    /// [spare room](with_spare_room).
    pub lists: Vec<u32>,
    /// How many elements the list of each variable starts with.
    pub num_elements: Vec<u32>,
    /// How many vertices each variable stands for.
    pub weight: Vec<u32>,
    /// How many variables, the last ones, are not eliminated.
    pub num_kept: usize,
}

/// Eliminates variables by `choice`. Returns their order, new to old, and the elements that are left, of variables that
/// were kept. None is set aside.
///
/// # Errors
///
/// [`Cancelled`].
///
/// # Panics
///
/// As [`minimum_degree`].
pub(crate) fn eliminate(
    graph: Begun,
    choice: &mut impl PivotChoice,
    cancel: &CancelFlag,
) -> Result<(Vec<u32>, ElementLists), Cancelled> {
    let num_variables = graph.weight.len();
    let num_left = num_variables - graph.num_kept;
    let weights = &graph.weight;
    let mut graph = MinimumDegree::new(
        &graph.ptr,
        graph.lists,
        num_variables,
        num_left,
        |v| weights[v as usize],
        |v| graph.num_elements[v as usize],
    );
    let found = graph.run(usize::MAX, choice, cancel)?;
    Ok((found.order, found.left))
}

/// Length of the lists with room for new elements.
pub(crate) fn with_spare_room(n: usize, entries: usize) -> usize {
    entries + entries / 4 + n
}

/// Whether a graph of so many list entries can be ordered.
pub(crate) fn fits(n: usize, entries: usize) -> bool {
    with_spare_room(n, entries) < u32::MAX as usize / 4
}

impl MinimumDegree {
    /// With so many variables, of which `num_eliminated` may be eliminated; each has its weight, and so many elements.
    fn new(
        ptr: &[usize],
        mut lists: Vec<u32>,
        num_variables: usize,
        num_eliminated: usize,
        weight: impl Fn(u32) -> u32,
        num_elements: impl Fn(u32) -> u32,
    ) -> Self {
        let n = ptr.len() - 1;
        assert!(fits(n, lists.len()), "positions in the lists have 32 bits");
        let used = ptr[n];
        let mut nodes: Vec<Node> = (0..)
            .zip(ptr.windows(2))
            .map(|(v, w)| {
                let (elements, weight) = if (v as usize) < num_variables {
                    (num_elements(v), weight(v))
                } else {
                    (ELEMENT, 0)
                };
                Node {
                    start: w[0] as u32,
                    len: (w[1] - w[0]) as u32,
                    elements,
                    weight: weight as i32,
                    degree: 0,
                    mark: 1,
                    next: NONE,
                    tag: 0,
                }
            })
            .collect();
        for v in (0..n).rev() {
            let list = &lists[ptr[v]..ptr[v + 1]];
            // Of an element all but the variable itself.
            let adds = |&u: &u32| match (u as usize).checked_sub(num_variables) {
                None => weight(u),
                Some(_) => nodes[u as usize].degree - weight(v as u32),
            };
            nodes[v].degree = list.iter().map(adds).sum();
        }
        lists.resize(with_spare_room(n, used).max(lists.len()), 0);
        Self {
            nodes,
            num_variables,
            num_eliminated,
            lists,
            free: used,
        }
    }

    /// If variable `j` is not in the pivot's list yet, returns its weight, and negates it.
    #[inline]
    fn collect(nodes: &mut [Node], j: u32) -> Option<u32> {
        let weight = &mut nodes[j as usize].weight;
        if *weight <= 0 {
            return None;
        }
        *weight = -*weight;
        Some(weight.unsigned_abs())
    }

    /// Makes room for `extra` entries at the end of the lists.
    fn reserve(&mut self, extra: usize) {
        if self.free + extra <= self.lists.len() {
            return;
        }
        let mut moved = Vec::with_capacity(self.lists.len());
        for node in &mut self.nodes {
            let is_live = if node.elements == ELEMENT {
                node.mark != 0
            } else {
                node.weight != 0
            };
            if is_live {
                let start = moved.len() as u32;
                let range = node.start as usize..(node.start + node.len) as usize;
                moved.extend_from_slice(&self.lists[range]);
                node.start = start;
            }
        }
        self.free = moved.len();
        moved.resize(self.lists.len().max(self.free + extra), 0);
        self.lists = moved;
    }

    /// Vertices of a degree above `dense_limit`, each standing for itself alone, are set aside.
    fn run(
        &mut self,
        dense_limit: usize,
        choice: &mut impl PivotChoice,
        cancel: &CancelFlag,
    ) -> Result<MinimumDegreeOrder, Cancelled> {
        cancel.check()?;
        let n: usize = self.nodes.iter().map(|node| node.weight as usize).sum();
        let mut dense: Vec<u32> = Vec::new();
        let variables = self.nodes[..self.num_variables].iter_mut();
        for (i, node) in variables.enumerate() {
            if node.degree as usize > dense_limit {
                node.weight = 0;
                dense.push(i as u32);
            } else {
                choice.insert(i as u32, node.degree as usize);
            }
        }
        let num_sparse = n - dense.len();
        let kept = &self.nodes[self.num_eliminated..self.num_variables];
        let num_kept: usize = kept.iter().map(|node| node.weight as usize).sum();
        dense.sort_by_key(|&v| self.nodes[v as usize].degree);
        let mut joined = Joined::new(self, &dense);

        // Sizes of the fronts, pivots and others; only if those do not count yet.
        let mut fronts: Vec<(u32, u32)> = Vec::new();
        let mut predicted = Prediction::default();
        let mut add_front = |pivots, beyond| {
            if dense.is_empty() {
                predicted.add_front(pivots, beyond);
            } else {
                fronts.push((pivots, beyond));
            }
        };
        let mut pivots: Vec<u32> = Vec::with_capacity(num_sparse);
        let mut table: SmallVec<[u32; 64]> = SmallVec::new();
        let mut num_ordered = 0;
        // While a pivot is eliminated, an element with mark m ≥ flag has m − flag vertices beyond the
        // pivot's list; smaller marks, of elements and variables, mean nothing.
        let mut flag = 2u32;
        // No element has more vertices than this, those included that there are at first.
        let elements = self.nodes[self.num_variables..].iter();
        let mut largest = elements.map(|node| node.degree).max().unwrap_or(0);
        while num_ordered + num_kept < num_sparse {
            if pivots.len().is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let me = choice.pop(Quotient { nodes: &self.nodes });
            let pivot = self.nodes[me as usize];
            self.nodes[me as usize].weight = -pivot.weight;
            let mut pivot_weight = pivot.weight as u32;
            num_ordered += pivot_weight as usize;

            let (start, end, mut degree) = self.make_element(me, num_sparse - num_ordered);

            if end - start == 1 {
                // A clique of one needs no element.
                let i = self.lists[start];
                let node = &mut self.nodes[i as usize];
                node.weight = -node.weight;
                node.degree -= pivot_weight;
                choice.insert(i, node.degree as usize);
                self.close(me, i, pivot_weight);
                pivots.push(me);
                add_front(pivot_weight, degree);
                continue;
            }

            if flag > u32::MAX - 3 * n as u32 - 8 {
                for node in &mut self.nodes {
                    node.mark = u32::from(node.mark != 0);
                }
                flag = 2;
            }
            self.measure_elements(start, end, flag);

            let count = end - start;
            let mask = count.next_power_of_two() - 1;
            if table.len() <= mask {
                table.resize(mask + 1, NONE);
            }
            let mut candidates = 0;
            for q in start..end {
                let i = self.lists[q];
                match self.update_variable(me, i, flag, choice) {
                    None => {
                        let weight = self.nodes[i as usize].weight.unsigned_abs();
                        let node = &mut self.nodes[i as usize];
                        node.weight = 0;
                        node.next = me;
                        degree -= weight;
                        pivot_weight += weight;
                        num_ordered += weight as usize;
                    }
                    // What is kept is not merged.
                    Some(_) if i as usize >= self.num_eliminated => {}
                    Some(hash) => {
                        let slot = &mut table[hash as usize & mask];
                        let node = &mut self.nodes[i as usize];
                        node.next = std::mem::replace(slot, i);
                        node.tag = hash;
                        candidates += 1;
                    }
                }
            }
            largest = largest.max(degree);
            flag += largest + 1;
            if candidates > 1 {
                flag = self.merge_equal_variables(start, end, &mut table, mask, flag, choice);
            } else if candidates == 1 {
                for q in start..end {
                    let node = &self.nodes[self.lists[q] as usize];
                    if node.weight != 0 {
                        table[node.tag as usize & mask] = NONE;
                    }
                }
            }

            let mut kept = start;
            for q in start..end {
                let i = self.lists[q];
                let node = &mut self.nodes[i as usize];
                if node.weight == 0 {
                    continue;
                }
                node.weight = -node.weight;
                let weight = node.weight as u32;
                let bound =
                    (node.degree + degree - weight).min((num_sparse - num_ordered) as u32 - weight);
                node.degree = bound;
                choice.insert(i, bound as usize);
                self.lists[kept] = i;
                kept += 1;
            }
            let node = &mut self.nodes[me as usize];
            node.start = start as u32;
            node.len = (kept - start) as u32;
            node.elements = ELEMENT;
            node.degree = degree;
            node.weight = 0;
            node.next = NONE;
            node.tag = pivot_weight;
            if kept == start {
                node.mark = 0;
            }
            if pivot.elements != 0 {
                self.free = kept;
            }
            pivots.push(me);
            add_front(pivot_weight, degree);
        }
        drop(table);
        let left = if num_kept == 0 {
            ElementLists::default()
        } else {
            self.elements_left()
        };
        for node in &mut self.nodes[self.num_eliminated..self.num_variables] {
            // Variables of like hash were listed by this.
            node.next = NONE;
        }
        let mut order = self.postorder(&pivots, cancel)?;
        let predicted = if dense.is_empty() {
            Some(predicted)
        } else {
            joined
                .as_mut()
                .and_then(|joined| joined.predict(&self.nodes, &pivots, &fronts))
        };
        order.append(&mut dense);
        Ok(MinimumDegreeOrder {
            order,
            predicted,
            left,
        })
    }

    /// The elements that are left.
    fn elements_left(&self) -> ElementLists {
        let mut left = ElementLists::default();
        let is_left = |e: &&Node| e.elements == ELEMENT && e.mark != 0;
        for element in self.nodes.iter().filter(is_left) {
            let list = element.start as usize..(element.start + element.len) as usize;
            let is_live = |v: &u32| self.nodes[*v as usize].weight != 0;
            left.idx
                .extend(self.lists[list].iter().copied().filter(is_live));
            left.ends.push(left.idx.len());
        }
        left
    }

    /// Makes the pivot an element without a list, which goes where `parent` goes.
    fn close(&mut self, me: u32, parent: u32, pivot_weight: u32) {
        let node = &mut self.nodes[me as usize];
        node.elements = ELEMENT;
        node.mark = 0;
        node.weight = 0;
        node.next = parent;
        node.tag = pivot_weight;
    }

    /// Collects the variables next to `me`, each weight negated, and absorbs the elements of `me`.
    /// Returns where the list is and how many vertices it stands for.
    fn make_element(&mut self, me: u32, num_left: usize) -> (usize, usize, u32) {
        let pivot = self.nodes[me as usize];
        let mut degree = 0;
        if pivot.elements == 0 {
            let start = pivot.start as usize;
            let mut end = start;
            for q in start..start + pivot.len as usize {
                let j = self.lists[q];
                if let Some(weight) = Self::collect(&mut self.nodes, j) {
                    degree += weight;
                    self.lists[end] = j;
                    end += 1;
                }
            }
            return (start, end, degree);
        }
        let own = pivot.start as usize..(pivot.start + pivot.elements) as usize;
        let most: usize = self.lists[own]
            .iter()
            .map(|&e| &self.nodes[e as usize])
            .filter(|e| e.mark != 0)
            .map(|e| e.len as usize)
            .sum();
        // The list of the pivot counts as a whole, with its elements, which are few.
        self.reserve((most + pivot.len as usize).min(num_left));
        let pivot = self.nodes[me as usize];
        let start = self.free;
        let mut end = start;
        let first_edge = (pivot.start + pivot.elements) as usize;
        for k in pivot.start as usize..=first_edge {
            let range = if k < first_edge {
                let e = self.lists[k] as usize;
                let node = &mut self.nodes[e];
                if node.mark == 0 {
                    continue;
                }
                node.next = me;
                node.mark = 0;
                node.start as usize..(node.start + node.len) as usize
            } else {
                first_edge..(pivot.start + pivot.len) as usize
            };
            for q in range {
                let j = self.lists[q];
                if let Some(weight) = Self::collect(&mut self.nodes, j) {
                    degree += weight;
                    self.lists[end] = j;
                    end += 1;
                }
            }
        }
        (start, end, degree)
    }

    /// Marks each element next to the pivot's list by what it has beyond that list.
    fn measure_elements(&mut self, start: usize, end: usize, flag: u32) {
        for q in start..end {
            let node = self.nodes[self.lists[q] as usize];
            let weight = node.weight.unsigned_abs();
            let own = node.start as usize..(node.start + node.elements) as usize;
            for &e in &self.lists[own] {
                let element = &mut self.nodes[e as usize];
                if element.mark >= flag {
                    element.mark -= weight;
                } else if element.mark != 0 {
                    element.mark = element.degree + flag - weight;
                }
            }
        }
    }

    /// Drops what the pivot's element covers from the lists of variable `i`, puts that element into
    /// them, and bounds the degree without the pivot's list. Returns the hash of the lists, or nothing
    /// if only the pivot's element is left and `i` may be eliminated with the pivot.
    #[inline]
    fn update_variable(
        &mut self,
        me: u32,
        i: u32,
        flag: u32,
        choice: &impl PivotChoice,
    ) -> Option<u32> {
        let node = self.nodes[i as usize];
        let list = &mut self.lists[node.start as usize..(node.start + node.len) as usize];
        let (mut degree, mut hash, mut kept) = (0u32, 0u32, 0);
        for k in 0..node.elements as usize {
            let e = list[k];
            let element = &mut self.nodes[e as usize];
            if element.mark == 0 {
                continue;
            }
            let beyond = element.mark - flag;
            if beyond == 0 {
                element.next = me;
                element.mark = 0;
            } else {
                degree += beyond;
                hash = hash.wrapping_add(e);
                list[kept] = e;
                kept += 1;
            }
        }
        let num_elements = kept;
        for k in node.elements as usize..list.len() {
            let j = list[k];
            let weight = self.nodes[j as usize].weight;
            if weight > 0 {
                degree += weight as u32;
                hash = hash.wrapping_add(j);
                list[kept] = j;
                kept += 1;
            }
        }
        if kept == 0 && choice.may_join(me, i) {
            return None;
        }
        // At least the pivot or an absorbed element went, so there is room for one more.
        list[kept] = list[num_elements];
        list[num_elements] = list[0];
        list[0] = me;
        let node = &mut self.nodes[i as usize];
        node.len = kept as u32 + 1;
        node.elements = num_elements as u32 + 1;
        node.degree = node.degree.min(degree);
        // Spread, because the low bits of nearby sums hardly differ.
        Some(hash.wrapping_mul(0x9E37_79B1) >> 7)
    }

    /// Merges variables of the pivot's list whose own lists are equal. Empties the table; returns the
    /// next unused mark.
    fn merge_equal_variables(
        &mut self,
        start: usize,
        end: usize,
        table: &mut [u32],
        mask: usize,
        mut flag: u32,
        choice: &impl PivotChoice,
    ) -> u32 {
        for q in start..end {
            let node = self.nodes[self.lists[q] as usize];
            if node.weight == 0 {
                continue;
            }
            let mut i = std::mem::replace(&mut table[node.tag as usize & mask], NONE);
            while i != NONE {
                let first = self.nodes[i as usize];
                let mut is_marked = false;
                let mut before = i;
                let mut j = first.next;
                while j != NONE {
                    let other = self.nodes[j as usize];
                    if other.tag != first.tag
                        || other.len != first.len
                        || other.elements != first.elements
                        || !choice.may_join(i, j)
                    {
                        before = j;
                        j = other.next;
                        continue;
                    }
                    // The first entry of both is the pivot's element.
                    if !is_marked {
                        is_marked = true;
                        flag += 1;
                        let own = first.start as usize + 1..(first.start + first.len) as usize;
                        for &k in &self.lists[own] {
                            self.nodes[k as usize].mark = flag;
                        }
                    }
                    let own = other.start as usize + 1..(other.start + other.len) as usize;
                    let is_equal = self.lists[own]
                        .iter()
                        .all(|&k| self.nodes[k as usize].mark == flag);
                    if is_equal {
                        self.nodes[i as usize].weight += other.weight;
                        self.nodes[j as usize].weight = 0;
                        self.nodes[j as usize].next = i;
                        self.nodes[before as usize].next = other.next;
                    } else {
                        before = j;
                    }
                    j = other.next;
                }
                i = self.nodes[i as usize].next;
            }
        }
        flag + 1
    }

    /// The vertices that were not set aside, by a postorder of the elements.
    fn postorder(&mut self, pivots: &[u32], cancel: &CancelFlag) -> Result<Vec<u32>, Cancelled> {
        let nodes = &mut self.nodes;
        // Children by elimination: `mark` is now the first child, `degree` the next sibling.
        for &e in pivots {
            nodes[e as usize].mark = NONE;
        }
        let mut roots = NONE;
        for &e in pivots.iter().rev() {
            let mut parent = nodes[e as usize].next;
            // A clique of one went to a variable.
            while parent != NONE && nodes[parent as usize].elements != ELEMENT {
                parent = nodes[parent as usize].next;
            }
            let head = if parent == NONE {
                &mut roots
            } else {
                &mut nodes[parent as usize].mark
            };
            let sibling = std::mem::replace(head, e);
            nodes[e as usize].degree = sibling;
        }
        cancel.check()?;
        // `start` becomes the place of the element's next vertex.
        let mut place = 0;
        let mut next = roots;
        let mut path: SmallVec<[u32; 32]> = SmallVec::new();
        loop {
            while next != NONE {
                path.push(next);
                next = nodes[next as usize].mark;
            }
            let Some(e) = path.pop() else { break };
            let node = &mut nodes[e as usize];
            node.start = place;
            place += node.tag;
            next = node.degree;
        }
        let mut order = vec![NONE; place as usize];
        for v in 0..self.num_variables as u32 {
            if (v as usize).is_multiple_of(LONG_STRIDE) {
                cancel.check()?;
            }
            let mut e = v;
            while e != NONE && nodes[e as usize].elements != ELEMENT {
                e = nodes[e as usize].next;
            }
            if e == NONE {
                continue;
            }
            // The next walk from below ends here.
            let mut w = v;
            while nodes[w as usize].elements != ELEMENT {
                w = std::mem::replace(&mut nodes[w as usize].next, e);
            }
            let node = &mut nodes[e as usize];
            order[node.start as usize] = v;
            node.start += 1;
        }
        // A vertex that stands for several has left room for them.
        order.retain(|&v| v != NONE);
        Ok(order)
    }
}

/// Which of the vertices set aside others are joined to.
struct Joined {
    /// Bit `k` of `masks[v]`: vertex or element `v` is joined to `dense[k]`.
    masks: Vec<u64>,
    dense: Vec<u32>,
}

impl Joined {
    /// None if there are none, or more than bits.
    fn new(graph: &MinimumDegree, dense: &[u32]) -> Option<Self> {
        if dense.is_empty() || dense.len() > 64 {
            return None;
        }
        let mut masks = vec![0; graph.nodes.len()];
        for (k, &d) in dense.iter().enumerate() {
            let node = &graph.nodes[d as usize];
            for &v in &graph.lists[node.start as usize..(node.start + node.len) as usize] {
                masks[v as usize] |= 1 << k;
            }
        }
        Some(Self {
            masks,
            dense: dense.to_vec(),
        })
    }

    /// The cost of an order by the elements' postorder, vertices set aside last, from the fronts of the
    /// others; None if that is no postorder of the whole elimination tree.
    fn predict(
        &mut self,
        nodes: &[Node],
        pivots: &[u32],
        fronts: &[(u32, u32)],
    ) -> Option<Prediction> {
        let masks = &mut self.masks;
        // What absorbed a vertex is an element since the postorder.
        for (v, node) in nodes.iter().enumerate() {
            if node.elements != ELEMENT && node.next != NONE {
                masks[node.next as usize] |= masks[v];
            }
        }
        let mut last: Vec<u64> = self.dense.iter().map(|&d| masks[d as usize]).collect();
        let mut predicted = Prediction::default();
        let mut previous = u32::MAX;
        for (&e, &(pivot_weight, beyond)) in pivots.iter().zip(fronts) {
            let mask = masks[e as usize];
            predicted.add_front(pivot_weight, beyond + mask.count_ones());
            let mut parent = nodes[e as usize].next;
            if parent != NONE && nodes[parent as usize].elements != ELEMENT {
                parent = nodes[parent as usize].next;
            }
            if parent != NONE {
                masks[parent as usize] |= mask;
                continue;
            }
            // Below the first vertex set aside that it is joined to, and later ones' children first.
            let first = mask.trailing_zeros();
            if mask == 0 || first > previous {
                return None;
            }
            previous = first;
            last[first as usize] |= mask;
        }
        let mut counts = Vec::with_capacity(last.len());
        let mut parents = Vec::with_capacity(last.len());
        for k in 0..last.len() {
            let beyond = last[k] & (u64::MAX << k) & !(1 << k);
            counts.push(beyond.count_ones() + 1);
            if k + 1 == last.len() {
                parents.push(NONE);
            } else if beyond >> (k + 1) & 1 == 1 {
                parents.push(k as u32 + 1);
                last[k + 1] |= beyond;
            } else {
                return None;
            }
        }
        predicted += Prediction::from_counts(&counts, &parents);
        Some(predicted)
    }
}
