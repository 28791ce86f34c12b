//! The small fronts: runs of them, and their records.

use std::cmp::Reverse;

use luge_gpu_kernels::frontal::plan::{
    Child, NONE as NO_FRONT, POSITIONS_A_WORD, SmallFront, halves, small,
};
use luge_sparse::etree::NONE;

use super::{Entries, Planner, longest_first};
use crate::gpu::classes::FrontClass;
use crate::shares::{mapped, shares, split};
use crate::storage::Storage;
use crate::tree::AssemblyTree;

/// What comes of some consecutive small fronts.
struct SmallShare<'a> {
    turns: std::ops::Range<usize>,
    fronts: &'a mut [SmallFront],
    children: &'a mut [Child],
    first_child: u32,
    entries: Entries<'a>,
}

/// What comes of the small fronts: themselves, their children, and those that runs begin with.
pub(super) type SmallRecords = (Vec<SmallFront>, Vec<Child>, Vec<u32>);

/// A small front in the order of execution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    front: u32,
    /// The child whose element is added first, or [`NONE`].
    heavy: u32,
    /// Arrivals before it.
    joins: u32,
    /// A run begins with it.
    begins: bool,
    /// Its run ends with it.
    ends: bool,
}

/// Of each small front the child whose element is added first, and that its run comes from: that below which most fronts lie on one
/// path, of equal ones that with most pivots on it, of these the first.
///
/// So costs must not decide here: sums would have other bits with every table.
pub(super) fn heavy_children(tree: &AssemblyTree, classes: &[FrontClass]) -> Vec<u32> {
    let fronts = tree.fronts();
    // Fronts and pivots on the longest path from each front to a leaf.
    let mut longest = vec![(0u32, 0u32); fronts.len()];
    let mut heavy = vec![NONE; fronts.len()];
    for (s, front) in fronts.iter().enumerate() {
        if classes[s].is_large() {
            continue;
        }
        let children = tree.children(s).iter().copied();
        let first = children.max_by_key(|&c| (longest[c as usize], Reverse(c)));
        let (fronts, pivots) = first.map_or((0, 0), |first| longest[first as usize]);
        longest[s] = (fronts + 1, pivots + front.pivots);
        heavy[s] = first.unwrap_or(NONE);
    }
    heavy
}

impl<S: Storage> Planner<'_, S> {
    /// Describes the small fronts.
    pub(super) fn plan_small(
        &self,
        order: &[Turn],
        sources: &mut [u32],
        places: &mut [u32],
    ) -> SmallRecords {
        let mut position = vec![NONE; self.fronts.len()];
        for (at, turn) in order.iter().enumerate() {
            position[turn.front as usize] = at as u32;
        }
        let ranges = shares(self.threads, order.len(), |at| {
            // A front and its entries.
            at as u64 * 16
        });
        let counts = mapped(ranges.clone(), |turns| {
            let mut counts = [0; 2];
            for turn in &order[turns] {
                let s = turn.front as usize;
                counts[0] += self.entry_range(s).len();
                counts[1] += self.fronts[s].num_children as usize;
            }
            counts
        });
        let num_children: usize = counts.iter().map(|counts| counts[1]).sum();
        let mut fronts = vec![SmallFront::default(); order.len()];
        let mut children = vec![Child::default(); num_children];
        let mut of_fronts =
            split(&mut fronts, ranges.iter().map(ExactSizeIterator::len)).into_iter();
        let mut of_children = split(&mut children, counts.iter().map(|c| c[1])).into_iter();
        let mut of_sources = split(sources, counts.iter().map(|c| c[0])).into_iter();
        let mut of_places = split(places, counts.iter().map(|c| c[0])).into_iter();
        let (mut first_entry, mut first_child) = (0, 0);
        let mut parts = Vec::with_capacity(ranges.len());
        for (turns, [num_entries, num_children]) in ranges.into_iter().zip(counts) {
            let pieces = (
                of_fronts.next(),
                of_children.next(),
                of_sources.next(),
                of_places.next(),
            );
            let (Some(fronts), Some(children), Some(source), Some(places)) = pieces else {
                unreachable!("a piece for each share");
            };
            parts.push(SmallShare {
                turns,
                fronts,
                children,
                first_child,
                entries: Entries {
                    source,
                    places,
                    next: first_entry,
                    written: 0,
                },
            });
            first_entry += num_entries as u32;
            first_child += num_children as u32;
        }
        mapped(parts, |share| self.describe_small(order, &position, share));
        // Those with the longest path to the root first.
        let begins = order.iter().enumerate().filter(|(_, turn)| turn.begins);
        let starts: Vec<u32> = begins.map(|(at, _)| at as u32).collect();
        let path = |i: usize| (0, self.path[order[starts[i] as usize].front as usize]);
        let by_path = longest_first(self.threads, path, starts.len());
        let starts = by_path.into_iter().map(|i| starts[i as usize]).collect();
        (fronts, children, starts)
    }

    /// Describes small fronts; `order` are those of all shares, `position` their places in it.
    fn describe_small(&self, order: &[Turn], position: &[u32], share: SmallShare<'_>) {
        let SmallShare {
            turns,
            fronts,
            children: described_children,
            mut first_child,
            mut entries,
        } = share;
        let mut described_children = described_children.iter_mut();
        // Whether the element of the front before `at` is kept for that at `at`.
        let is_kept_before = |at: usize| {
            let before = at.checked_sub(1).map(|before| order[before]);
            before.is_some_and(|before| {
                !before.ends && order[at].heavy == before.front && order[at].joins == 0
            })
        };
        for (at, described) in turns.zip(fronts) {
            let turn = order[at];
            let s = turn.front as usize;
            let front = self.fronts[s];
            let kept = is_kept_before(at);
            let first_entry = entries.next;
            for e in self.entry_range(s) {
                let cell = self.cell(&front, e);
                entries.push(self.entry(&front, e, cell, cell.0, cell.1));
            }
            // The one that may be kept, and then the others: by the tree alone, for that is the order of sums.
            let others = self.tree.children(s).iter().copied();
            let first = (turn.heavy != NONE).then_some(turn.heavy);
            let in_order = first
                .into_iter()
                .chain(others.filter(|&c| Some(c) != first));
            // The zip asks for a record last, and so takes none in vain.
            for (c, described) in in_order.zip(described_children.by_ref()) {
                let child = &self.fronts[c as usize];
                let mut positions = [0; _];
                for (i, &row) in self.tree.relative[child.row_range()].iter().enumerate() {
                    let i = i as u32;
                    positions[(i / POSITIONS_A_WORD) as usize] |=
                        row << (8 * (i % POSITIONS_A_WORD));
                }
                *described = Child {
                    element: self.elements.place[c as usize],
                    below: child.below,
                    positions,
                };
            }
            let parent = front.parent as usize;
            let mut flags = if kept { small::HAS_KEPT_CHILD } else { 0 };
            let mut goes_on = NO_FRONT;
            if turn.ends {
                flags |= small::IS_LAST;
                if front.parent != NONE {
                    flags |= small::WRITES_ELEMENT;
                    if self.is_large(parent) {
                        flags |= small::PARENT_IS_LARGE;
                        goes_on = self.large[parent];
                    } else {
                        goes_on = position[parent];
                    }
                }
            } else if !is_kept_before(at + 1) || self.keeps(s) {
                flags |= small::WRITES_ELEMENT;
            }
            *described = SmallFront {
                sizes: halves(front.pivots, front.below),
                flags,
                start: front.start,
                joins: turn.joins,
                slot: self.layout.slot[s],
                element: self.elements.place[s],
                entries: first_entry,
                num_entries: entries.next - first_entry,
                children: first_child,
                num_children: front.num_children,
                parent: goes_on,
                spare: [0; _],
            };
            first_child += front.num_children;
        }
    }

    /// The children of front `s` that are not given.
    fn working_children(&self, s: usize) -> impl DoubleEndedIterator<Item = u32> + Clone {
        let children = self.tree.children(s).iter().copied();
        children.filter(|&c| !self.fronts[c as usize].is_given)
    }

    /// The order in which small fronts are worked on.
    pub(super) fn order_small(&self) -> Vec<Turn> {
        let fronts = self.fronts;
        // The child that the run of each front comes from: the one whose element is added first, unless that is given.
        let mut run = self.heavy.clone();
        let mut work = vec![0.0f64; fronts.len()];
        let mut is_absorbed = vec![false; fronts.len()];
        let mut by_work: Vec<u32> = Vec::new();
        for s in 0..fronts.len() {
            if self.is_large(s) || fronts[s].is_given {
                continue;
            }
            by_work.clear();
            by_work.extend(self.working_children(s));
            by_work.sort_by(|&a, &b| {
                work[a as usize]
                    .total_cmp(&work[b as usize])
                    .then(a.cmp(&b))
            });
            if by_work.iter().all(|&c| c != run[s]) {
                run[s] = by_work.last().copied().unwrap_or(NONE);
            }
            let of_children: f64 = by_work.iter().map(|&c| work[c as usize]).sum();
            work[s] = of_children + self.seconds(s);
            let mut absorbed = 0.0;
            for &c in by_work.iter().filter(|&&c| c != run[s]) {
                absorbed += work[c as usize];
                is_absorbed[c as usize] = absorbed <= self.costs.join;
            }
        }

        // A postorder with the children that run by themselves first, then those absorbed, then the one of the same run.
        let mut order = Vec::new();
        let mut stack: Vec<(u32, bool)> = Vec::new();
        let mut begins = true;
        for root in 0..fronts.len() {
            let parent = fronts[root].parent;
            let is_root = parent == NONE || self.is_large(parent as usize);
            if self.is_large(root) || fronts[root].is_given || !is_root {
                continue;
            }
            stack.push((root as u32, false));
            while let Some((s, children_done)) = stack.pop() {
                let s_index = s as usize;
                let children = self.working_children(s_index);
                let last = run[s_index];
                let apart = |&c: &u32| c != last && !is_absorbed[c as usize];
                if !children_done && last != NONE {
                    stack.push((s, true));
                    stack.push((last, false));
                    let absorbed = children.clone().rev().filter(|&c| is_absorbed[c as usize]);
                    stack.extend(absorbed.map(|c| (c, false)));
                    stack.extend(children.rev().filter(apart).map(|c| (c, false)));
                    continue;
                }
                let apart = children.filter(apart).count() as u32;
                let parent = fronts[s_index].parent;
                let ends = parent == NONE
                    || self.is_large(parent as usize)
                    || (run[parent as usize] != s && !is_absorbed[s_index]);
                order.push(Turn {
                    front: s,
                    heavy: self.heavy[s_index],
                    joins: if apart > 0 { apart + 1 } else { 0 },
                    begins,
                    ends,
                });
                begins = ends;
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{COSTS, ROOT, placed, tree_of};
    use super::*;
    use crate::gpu::MemoryPlan;
    use crate::gpu::classes::Limits;
    use crate::gpu::cost::DeviceCosts;
    use crate::gpu::plan::{Plan, Roles};
    use crate::storage::Full;

    /// Small fronts in their order: arrivals before each, whether a run begins with it, and whether one ends.
    fn turns(fronts: &[(usize, u32)]) -> Vec<(u32, u32, bool, bool)> {
        let tree = tree_of(fronts);
        let memory = MemoryPlan::with(&tree, Limits::default(), COSTS);
        let order = placed(&tree, |source| {
            let roles = Roles::new(tree.tree(), &memory.limits);
            let planner =
                Planner::<Full>::new(tree.tree_and_layout(), source, &memory, (roles, None), 1);
            planner.order_small()
        });
        let turn = |t: &Turn| (t.front, t.joins, t.begins, t.ends);
        order.iter().map(turn).collect()
    }

    #[test]
    fn short_subtrees_join_the_run_of_their_parent() {
        // The first front takes 16, the others 5.5 each: two of those are shorter than the 12 of a join.
        assert_eq!(
            turns(&[(4, 8), (4, 1), (4, 1), (4, 1), (ROOT, 2)]),
            [
                (3, 0, true, true),
                (1, 0, true, false),
                (2, 0, false, false),
                (0, 0, false, false),
                (4, 2, false, true),
            ]
        );
        // Five pivots take 11.5, six 13.
        assert_eq!(
            turns(&[(2, 5), (2, 6), (ROOT, 2)]),
            [
                (0, 0, true, false),
                (1, 0, false, false),
                (2, 0, false, true)
            ]
        );
        assert_eq!(
            turns(&[(2, 7), (2, 6), (ROOT, 2)]),
            [(1, 0, true, true), (0, 0, true, false), (2, 2, false, true)]
        );
        // With the front below, that of two pivots takes 12.5.
        assert_eq!(
            turns(&[(1, 1), (4, 2), (3, 6), (4, 2), (ROOT, 2)]),
            [
                (0, 0, true, false),
                (1, 0, false, true),
                (2, 0, true, false),
                (3, 0, false, false),
                (4, 2, false, true),
            ]
        );
    }

    #[test]
    fn a_run_follows_the_longest_path() {
        // Front 2 has one below it, front 3 has none, if more pivots.
        assert_eq!(
            turns(&[(2, 6), (2, 6), (4, 2), (4, 15), (ROOT, 2)]),
            [
                (3, 0, true, true),
                (1, 0, true, true),
                (0, 0, true, false),
                (2, 2, false, false),
                (4, 2, false, true),
            ]
        );
        // Below each of fronts 1 and 3 is one: the pivots on the path decide, those of front 0 too.
        assert_eq!(
            turns(&[(1, 9), (4, 2), (3, 1), (4, 9), (ROOT, 2)]),
            [
                (2, 0, true, false),
                (3, 0, false, true),
                (0, 0, true, false),
                (1, 0, false, false),
                (4, 2, false, true),
            ]
        );
        // Of equal paths the first.
        assert_eq!(
            turns(&[(2, 6), (2, 6), (ROOT, 2)]),
            [(1, 0, true, true), (0, 0, true, false), (2, 2, false, true)]
        );
    }

    /// Costs decide who works on a front and when, and neither the order of sums nor what there is to do.
    #[test]
    fn costs_do_not_change_the_order_of_sums() {
        let fronts = [
            (3, 8),
            (3, 1),
            (3, 2),
            (7, 2),
            (6, 1),
            (6, 4),
            (7, 1),
            (9, 3),
            (9, 15),
            (11, 1),
            (11, 20),
            (ROOT, 130),
        ];
        let tree = tree_of(&fronts);
        let sums = |costs: &DeviceCosts| {
            let limits = Limits::default();
            let memory = MemoryPlan::with(&tree, limits, *costs);
            let plan = placed(&tree, |source| {
                Plan::new::<Full>(tree.tree_and_layout(), source, &memory, 1)
            });
            // The elements that are added up to each front, which its own element names.
            let of_front = |front: &SmallFront| {
                let (first, count) = (front.children as usize, front.num_children as usize);
                let children = plan.children[first..first + count].iter();
                let elements = children.map(|child| child.element);
                (front.start, elements.collect::<Vec<u64>>())
            };
            let mut sums: Vec<_> = plan.fronts.iter().map(of_front).collect();
            sums.sort_unstable();
            let addends = (plan.sums, plan.addends, plan.pieces);
            let joins: Vec<u32> = plan.fronts.iter().map(|front| front.joins).collect();
            (sums, addends, joins)
        };
        let joined_at_no_cost = DeviceCosts { join: 0.0, ..COSTS };
        let never_joined = DeviceCosts {
            join: 1e9,
            small_pivot: 100.0,
            ..COSTS
        };
        let [first, second] = [joined_at_no_cost, never_joined].map(|costs| sums(&costs));
        assert_eq!((&first.0, &first.1), (&second.0, &second.1));
        assert_ne!(first.2, second.2, "the runs are others");
        // A front adds up that of the longest path first: of three leaves the one with eight pivots.
        let of_three = first.0.iter().find(|(_, elements)| elements.len() == 3);
        assert_eq!(of_three.map(|(_, elements)| elements[0]), Some(0));
    }
}
