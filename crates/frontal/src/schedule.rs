//! Who factorizes which fronts when several threads do, and the memory that this takes.

use std::ops::Range;

use luge_sparse::etree::NONE;

use crate::storage::Storage;
use crate::totals::{Totals, stack_entries};
use crate::tree::AssemblyTree;

/// Tasks for each thread.
const TASKS_PER_THREAD: f64 = 8.0;

/// The fronts of a subtree: the first in postorder, and the last.
#[derive(Clone, Copy)]
pub(crate) struct Subtree {
    pub first: usize,
    pub top: usize,
}

/// Subtrees that one thread factorizes in postorder, one after another.
pub(crate) struct Task {
    /// Their numbers.
    subtrees: Range<usize>,
    /// Peaks of the two stacks of generated elements; those of the tops are apart.
    pub stack_entries: [u64; 2],
}

/// Whole subtrees below a share of the predicted time are tasks, on stacks of their own: small ones, which follow each other in
/// postorder, together, for each task takes memory to work in. The fronts above them have memory of their own for their elements.
pub(crate) struct Schedule {
    pub tasks: Vec<Task>,
    subtrees: Vec<Subtree>,
    /// Fronts that are no part of a task and wait for no children.
    pub large_leaves: Vec<usize>,
    /// Most entries of elements that wait outside of tasks, whatever the order of events.
    waiting_entries: u64,
}

impl Schedule {
    /// Of the fronts that are `chosen`, for some number of threads; in time linear in the number of fronts. A front of which a
    /// child is not chosen is above the tasks.
    pub fn new<S: Storage>(
        tree: &AssemblyTree,
        totals: &Totals,
        threads: usize,
        chosen: impl Fn(usize) -> bool,
    ) -> Self {
        let fronts = &tree.fronts;
        let share = totals.seconds(fronts) / (threads as f64 * TASKS_PER_THREAD);
        let entries = |s: usize| S::element_entries(fronts[s].below as usize) as u64;
        let mut first: Vec<usize> = (0..fronts.len()).collect();
        let mut is_upper = vec![false; fronts.len()];
        let mut waits = vec![false; fronts.len()];
        for (s, front) in fronts.iter().enumerate() {
            let is_chosen = chosen(s);
            is_upper[s] |= totals.subtree_seconds[s] > share;
            if let Some(is_above) = is_upper.get_mut(front.parent as usize) {
                *is_above |= !is_chosen;
                waits[front.parent as usize] |= is_chosen;
            }
            if is_chosen && is_upper[s] && front.parent != NONE {
                is_upper[front.parent as usize] = true;
            }
        }
        // Of each front's children: the entries of their elements, and the most that may wait in
        // their subtrees at once.
        let mut handed = vec![0u64; fronts.len()];
        let mut waiting = vec![0u64; fronts.len()];
        // What the last task takes.
        let mut of_task = f64::INFINITY;
        let mut schedule = Self {
            tasks: Vec::new(),
            subtrees: Vec::new(),
            large_leaves: Vec::new(),
            waiting_entries: 0,
        };
        for (s, front) in fronts.iter().enumerate() {
            if !chosen(s) {
                continue;
            }
            let parent = front.parent as usize;
            let parent = (front.parent != NONE && chosen(parent)).then_some(parent);
            if let Some(p) = parent {
                first[p] = first[p].min(first[s]);
            }
            let most = if is_upper[s] {
                if !waits[s] {
                    schedule.large_leaves.push(s);
                }
                waiting[s].max(handed[s] + entries(s))
            } else if parent.is_none_or(|p| is_upper[p]) {
                let below = first[s]..s;
                let stacks = stack_entries::<S>(fronts, &tree.children, below, |_| true);
                of_task += totals.subtree_seconds[s];
                if of_task > share {
                    of_task = totals.subtree_seconds[s];
                    let next = schedule.subtrees.len();
                    schedule.tasks.push(Task {
                        subtrees: next..next,
                        stack_entries: [0; 2],
                    });
                }
                schedule.add(
                    Subtree {
                        first: first[s],
                        top: s,
                    },
                    stacks,
                );
                entries(s)
            } else {
                continue;
            };
            match parent {
                Some(p) => {
                    handed[p] += entries(s);
                    waiting[p] += most;
                }
                None => schedule.waiting_entries += most,
            }
        }
        schedule
    }

    /// Adds a subtree with stacks of these peaks to the last task.
    fn add(&mut self, subtree: Subtree, stacks: [u64; 2]) {
        self.subtrees.push(subtree);
        if let Some(task) = self.tasks.last_mut() {
            task.subtrees.end = self.subtrees.len();
            for (most, stack) in task.stack_entries.iter_mut().zip(stacks) {
                *most = stack.max(*most);
            }
        }
    }

    /// The subtrees of a task, ascending.
    pub fn subtrees(&self, task: &Task) -> &[Subtree] {
        &self.subtrees[task.subtrees.clone()]
    }

    /// Most entries of generated elements at any time: those that wait, and as many stacks as there
    /// are threads.
    pub fn element_entries(&self, threads: usize) -> u64 {
        let mut stacks: Vec<u64> = self
            .tasks
            .iter()
            .map(|task| task.stack_entries.iter().sum())
            .collect();
        stacks.sort_unstable_by(|a, b| b.cmp(a));
        self.waiting_entries + stacks.iter().take(threads).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use luge_testkit::strategies::pattern_from;

    use super::*;
    use crate::Symbolic;
    use crate::storage::Full;
    use crate::tree::TreeOptions;

    /// Of paths of two to nine vertices that all lead to one hub, one of which is longer.
    fn paths(count: usize) -> Symbolic<Full> {
        let mut entries = Vec::new();
        let mut n = 0;
        for path in 0..count {
            let len = if path == 5 { 300 } else { 2 + path % 8 };
            for v in n..n + len {
                entries.push((v as u32, v as u32));
                if v > n {
                    entries.extend([(v as u32, v as u32 - 1), (v as u32 - 1, v as u32)]);
                }
            }
            n += len;
            entries.push((n as u32 - 1, u32::MAX));
        }
        let hub = n as u32;
        let ends: Vec<u32> = entries
            .iter()
            .filter(|e| e.1 == u32::MAX)
            .map(|e| e.0)
            .collect();
        entries.retain(|e| e.1 != u32::MAX);
        entries.extend(ends.iter().flat_map(|&end| [(end, hub), (hub, end)]));
        entries.push((hub, hub));
        Symbolic::analyze(&pattern_from(n + 1, entries), &TreeOptions::default()).unwrap()
    }

    #[test]
    fn small_subtrees_are_tasks_together() {
        let symbolic = paths(400);
        let (fronts, totals) = (symbolic.tree.fronts(), &symbolic.totals);
        for threads in [2, 5] {
            let schedule = symbolic.schedule(threads);
            let share = totals.seconds(fronts) / (threads as f64 * TASKS_PER_THREAD);
            let mut is_in = vec![false; fronts.len()];
            let mut last = None;
            for task in &schedule.tasks {
                let subtrees = schedule.subtrees(task);
                let seconds = subtrees.iter().map(|tree| totals.subtree_seconds[tree.top]);
                assert!(seconds.sum::<f64>() <= share * (1.0 + 1e-12));
                for &Subtree { first, top } in subtrees {
                    assert!(last.replace(top).is_none_or(|last| last < first));
                    let stacks =
                        stack_entries::<Full>(fronts, &symbolic.tree.children, first..top, |_| {
                            true
                        });
                    assert!(
                        stacks
                            .iter()
                            .zip(task.stack_entries)
                            .all(|(own, all)| *own <= all)
                    );
                    is_in[first..=top].fill(true);
                }
            }
            let is_above = |tree: &Subtree| !is_in[fronts[tree.top].parent as usize];
            assert!(schedule.subtrees.iter().all(is_above));
            // But for a last one each is more than half a share together with the next.
            assert!(schedule.tasks.len() <= 2 * threads * TASKS_PER_THREAD as usize + 1);
            assert!(schedule.subtrees.len() > 300);
            let above = is_in.iter().filter(|is_in| !**is_in).count();
            assert!((1..fronts.len() / 4).contains(&above), "{above} above");
        }
    }
}
