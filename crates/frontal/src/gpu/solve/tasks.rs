//! Lists of tasks.

use luge_gpu_kernels::frontal::solve::layout::{LargeTask, WHOLE};

use crate::gpu::cost::longest_first_key;
use crate::shares::{collected, sort};

/// Tasks in the order of their levels, those of a level by the path that is left, the longest first.
pub(super) struct TaskList<V> {
    pub tasks: Vec<V>,
    /// Where each level begins, and the end of the last.
    pub level_ptr: Vec<u32>,
}

impl<V: Copy + Send + Sync> TaskList<V> {
    /// Of tasks, each with its level and the path that is left, in an order that those of one level with the same path
    /// keep.
    pub fn new(tasks: &[(u32, f64, V)], num_levels: usize, threads: usize) -> Self {
        let key = |t: usize| {
            let (level, left, _) = tasks[t];
            u128::from(level) << 96 | u128::from(longest_first_key(left)) << 32 | t as u128
        };
        let mut order = collected(threads, tasks.len(), key);
        sort(threads, &mut order);
        let mut level_ptr = vec![0; num_levels + 1];
        for (level, ..) in tasks {
            level_ptr[*level as usize + 1] += 1;
        }
        Self {
            tasks: collected(threads, order.len(), |at| {
                tasks[order[at] as u32 as usize].2
            }),
            level_ptr: accumulated(level_ptr),
        }
    }

    /// The tasks, level by level in the given order, and the number of tasks up to each level's end.
    pub fn ordered(&self, levels: &[u32]) -> (Vec<V>, Vec<u32>) {
        let mut tasks = Vec::with_capacity(self.tasks.len());
        let mut ends = Vec::with_capacity(levels.len());
        for &level in levels {
            let level = level as usize;
            let range = self.level_ptr[level] as usize..self.level_ptr[level + 1] as usize;
            tasks.extend_from_slice(&self.tasks[range]);
            ends.push(tasks.len() as u32);
        }
        (tasks, ends)
    }
}

/// All of a front.
pub(super) fn whole(front: u32) -> LargeTask {
    LargeTask {
        front,
        strip: WHOLE,
    }
}

/// Where each of so many counted things ends.
pub(super) fn accumulated(mut counts: Vec<u32>) -> Vec<u32> {
    let mut sum = 0;
    for count in &mut counts {
        sum += *count;
        *count = sum;
    }
    counts
}
