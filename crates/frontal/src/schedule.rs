//! Who factorizes which fronts when several threads do, and the memory that this takes.

use luge_sparse::etree::NONE;

use crate::storage::Storage;
use crate::totals::{Totals, stack_entries};
use crate::tree::AssemblyTree;

/// Tasks for each thread.
const TASKS_PER_THREAD: f64 = 8.0;

/// A subtree that one thread factorizes in postorder.
pub(crate) struct Task {
    /// First front in postorder, and last: the top.
    pub first: usize,
    pub top: usize,
    /// Peaks of the two stacks of generated elements; that of the top is apart.
    pub stack_entries: [u64; 2],
}

/// Whole subtrees below a share of the predicted time are tasks, on stacks of their own. The fronts
/// above them have memory of their own for their elements.
pub(crate) struct Schedule {
    pub tasks: Vec<Task>,
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
        let mut schedule = Self {
            tasks: Vec::new(),
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
                let subtree = first[s]..s;
                schedule.tasks.push(Task {
                    first: first[s],
                    top: s,
                    stack_entries: stack_entries::<S>(fronts, &tree.children, subtree, |_| true),
                });
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
