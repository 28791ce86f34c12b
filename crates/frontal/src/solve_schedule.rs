//! Who works on which fronts when several threads solve.

use std::ops::Range;

use luge_sparse::etree::NONE;

use crate::storage::Storage;
use crate::totals::subtree_sums;
use crate::tree::Front;

/// Tasks that a tree is cut into at most, about.
const TASKS: u64 = 256;

/// Entries of factors that are not worth a task: tens of microseconds. Few in tests, so that small trees are cut.
const WORTH_A_TASK: u64 = if cfg!(test) { 1 << 9 } else { 1 << 16 };

/// What a front costs beside its entries, in entries.
const PER_FRONT: u64 = 64;

/// Subtrees of siblings that one thread works on, one after another.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    first: u32,
    end: u32,
    /// The front above them, or [`NONE`].
    pub parent: u32,
    pub num_subtrees: u32,
}

impl Task {
    pub fn fronts(&self) -> Range<usize> {
        self.first as usize..self.end as usize
    }
}

/// What is to be done below a front, by its number in the schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Job {
    Task(u32),
    Upper(u32),
}

/// Whole subtrees below a share of the factors' entries are tasks; the fronts above are worked on one by one. The same for any
/// number of threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct SolveSchedule {
    pub tasks: Vec<Task>,
    /// Fronts that are no part of a task, ascending.
    pub uppers: Vec<u32>,
    /// What is below each of them, and what is below none.
    pub below: Vec<Vec<Job>>,
    pub roots: Vec<Job>,
    /// Fronts whose elements do not lie on the stack of a task, ascending: those above tasks, and the roots of their subtrees.
    pub handed: Vec<u32>,
    /// Rows of all these elements, and the most that lie on the stack of one task or, if one thread does all, on its.
    handed_rows: u64,
    task_rows: u64,
    stack_rows: u64,
}

impl SolveSchedule {
    /// Of fronts in postorder, with the children of all; in time linear in their number.
    pub fn new<S: Storage>(fronts: &[Front], children: &[u32]) -> Self {
        let weight = |front: &Front| PER_FRONT + S::factor_entries(front.pivots, front.below);
        let (weights, total) = subtree_sums(fronts, weight);
        let (firsts, _) = subtree_sums(fronts, |_| 1u64);
        let first = |s: usize| s + 1 - firsts[s] as usize;
        let share = WORTH_A_TASK.max(total / TASKS);
        let is_upper = |s: u32| s != NONE && weights[s as usize] > share;
        let mut schedule = Self {
            stack_rows: stack_rows(fronts, children, 0..fronts.len()),
            ..Self::default()
        };
        let mut of_last = 0;
        for (s, front) in fronts.iter().enumerate() {
            let (upper, parent) = (is_upper(s as u32), front.parent);
            if upper {
                schedule.uppers.push(s as u32);
            } else if parent != NONE && !is_upper(parent) {
                continue;
            } else {
                of_last += weights[s];
                match schedule.tasks.last_mut() {
                    Some(last)
                        if last.parent == parent
                            && last.end as usize == first(s)
                            && of_last <= share =>
                    {
                        last.end = s as u32 + 1;
                        last.num_subtrees += 1;
                    }
                    _ => {
                        of_last = weights[s];
                        schedule.tasks.push(Task {
                            first: first(s) as u32,
                            end: s as u32 + 1,
                            parent,
                            num_subtrees: 1,
                        });
                    }
                }
            }
            if parent != NONE {
                schedule.handed.push(s as u32);
                schedule.handed_rows += u64::from(front.below);
            }
        }
        schedule.below = vec![Vec::new(); schedule.uppers.len()];
        for (i, task) in schedule.tasks.iter().enumerate() {
            let rows = stack_rows(fronts, children, task.fronts());
            schedule.task_rows = schedule.task_rows.max(rows);
            let jobs = match task.parent {
                NONE => &mut schedule.roots,
                parent => &mut schedule.below[number(&schedule.uppers, parent)],
            };
            jobs.push(Job::Task(i as u32));
        }
        for (i, &s) in schedule.uppers.iter().enumerate() {
            let jobs = match fronts[s as usize].parent {
                NONE => &mut schedule.roots,
                parent => &mut schedule.below[number(&schedule.uppers, parent)],
            };
            jobs.push(Job::Upper(i as u32));
        }
        // They stay as long as the tree does.
        schedule.tasks.shrink_to_fit();
        schedule.uppers.shrink_to_fit();
        schedule.handed.shrink_to_fit();
        schedule.roots.shrink_to_fit();
        schedule.below.iter_mut().for_each(Vec::shrink_to_fit);
        schedule
    }

    /// The number of a front among those above all tasks.
    pub fn upper(&self, s: u32) -> usize {
        number(&self.uppers, s)
    }

    /// Whether there is more than one thing to do.
    pub fn is_worth_sharing(&self) -> bool {
        self.tasks.len() + self.uppers.len() > 1
    }

    /// Most rows of elements at any time.
    pub fn element_rows(&self, threads: usize) -> ElementRows {
        let is_shared = threads > 1 && self.is_worth_sharing();
        ElementRows {
            handed: if is_shared { self.handed_rows } else { 0 },
            of_worker: if is_shared {
                self.task_rows
            } else {
                self.stack_rows
            },
        }
    }

    /// Bytes of all this.
    pub fn bytes(&self) -> u64 {
        let jobs = self.roots.len() + self.below.iter().map(Vec::len).sum::<usize>();
        let of_fronts = 4 * (self.uppers.len() + self.handed.len());
        let lists = size_of::<Vec<Job>>() * self.below.len() + size_of::<Job>() * jobs;
        let of_tasks = size_of::<Task>() * self.tasks.len();
        (size_of::<Self>() + of_fronts + lists + of_tasks) as u64
    }
}

/// Rows of elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementRows {
    /// Of those that do not lie on the stack of a task.
    pub handed: u64,
    /// On the stack of one who works.
    pub of_worker: u64,
}

fn number(uppers: &[u32], s: u32) -> usize {
    uppers.binary_search(&s).expect("a front above tasks")
}

/// Most rows of elements that lie on the stack of someone who works on a range of fronts.
fn stack_rows(fronts: &[Front], children: &[u32], range: Range<usize>) -> u64 {
    let (mut rows, mut most) = (0u64, 0);
    for front in &fronts[range] {
        let own = &children[front.child_range()];
        let taken = own
            .iter()
            .map(|&child| u64::from(fronts[child as usize].below));
        rows -= taken.sum::<u64>();
        rows += u64::from(front.below);
        most = most.max(rows);
    }
    most
}

#[cfg(test)]
mod tests {
    use luge_testkit::strategies::pattern_from;

    use super::*;
    use crate::Symbolic;
    use crate::storage::Full;
    use crate::tree::TreeOptions;

    /// Of a grid with two extra hubs, each of which has so many columns of its own.
    fn symbolic(side: usize, leaves: usize) -> Symbolic<Full> {
        let grid = side * side;
        let n = grid + 2 * (leaves + 1);
        let mut entries: Vec<(u32, u32)> = (0..n as u32).map(|v| (v, v)).collect();
        let mut join = |a: usize, b: usize| {
            entries.extend([(a as u32, b as u32), (b as u32, a as u32)]);
        };
        for v in 0..grid {
            if v % side > 0 {
                join(v, v - 1);
            }
            if v >= side {
                join(v, v - side);
            }
        }
        for hub in 0..2 {
            let last = n - 1 - hub * (leaves + 1);
            (1..=leaves).for_each(|leaf| join(last, last - leaf));
        }
        let cols = pattern_from(n, entries);
        Symbolic::analyze(&cols, &TreeOptions::default()).unwrap()
    }

    #[test]
    fn every_front_is_worked_on_once_after_its_children() {
        for (side, leaves) in [(20, 60), (9, 0), (2, 3), (1, 0)] {
            let symbolic = symbolic(side, leaves);
            let (fronts, schedule) = (symbolic.tree.fronts(), symbolic.solves());
            let mut is_done = vec![false; fronts.len()];
            for task in &schedule.tasks {
                let range = task.fronts();
                let is_root = |s: &usize| fronts[*s].parent as usize >= range.end;
                let roots: Vec<usize> = range.clone().filter(is_root).collect();
                assert_eq!(roots.len(), task.num_subtrees as usize);
                assert!(roots.iter().all(|&s| fronts[s].parent == task.parent));
                for s in range.clone() {
                    let children = symbolic.tree.children(s).iter();
                    assert!(children.clone().all(|&c| range.contains(&(c as usize))));
                    assert!(!std::mem::replace(&mut is_done[s], true));
                }
            }
            for &s in &schedule.uppers {
                assert!(!std::mem::replace(&mut is_done[s as usize], true));
                // Whatever leads here is a task's root or one of these, and is found from here.
                let below = &schedule.below[schedule.upper(s)];
                let children = symbolic.tree.children(s as usize).len();
                let of_job = |job: &Job| match *job {
                    Job::Task(task) => schedule.tasks[task as usize].num_subtrees as usize,
                    Job::Upper(upper) => {
                        assert_eq!(fronts[schedule.uppers[upper as usize] as usize].parent, s);
                        1
                    }
                };
                assert_eq!(below.iter().map(of_job).sum::<usize>(), children);
            }
            assert!(is_done.iter().all(|&is_done| is_done));
            let has_parent = |s: &u32| fronts[*s as usize].parent != NONE;
            assert!(schedule.handed.iter().all(has_parent));
            if side == 20 {
                assert!(schedule.uppers.len() > 1 && schedule.tasks.len() > 1);
                assert!(schedule.tasks.iter().any(|task| task.num_subtrees > 1));
            }
        }
    }

    #[test]
    fn elements_take_no_more_than_is_said() {
        let symbolic = symbolic(20, 60);
        let (fronts, schedule) = (symbolic.tree.fronts(), symbolic.solves());
        let handed = schedule.handed.iter();
        let rows: u64 = handed.map(|&s| u64::from(fronts[s as usize].below)).sum();
        let [one, many] = [1, 3].map(|threads| schedule.element_rows(threads));
        assert_eq!((one.handed, many.handed), (0, rows));
        assert!(many.of_worker <= one.of_worker);
    }
}
