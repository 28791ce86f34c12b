//! Lists of tasks, and how many blocks they keep busy.

use luge_gpu_kernels::frontal::solve::layout::{LargeTask, MANY, THREADS, TILE, WHOLE};

use crate::gpu::cost::longest_first_key;
use crate::shares::{collected, sort};

/// How much there is to do in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumTasks {
    /// Small fronts.
    pub small: u32,
    /// Tasks of warps for one right-hand side, the more of both directions.
    pub packs: u32,
    /// Tasks of blocks for one right-hand side.
    pub blocks: u32,
}

impl NumTasks {
    /// Blocks that have something to do at once for `nrhs` right-hand sides of order `n`, of which a thread has `of_thread` if they are
    /// several.
    pub fn useful_blocks(self, n: usize, nrhs: usize, of_thread: usize) -> u32 {
        let (warp_tasks, shares) = match nrhs {
            1 => (self.packs, 1),
            _ => (self.small, (nrhs.next_multiple_of(MANY) / of_thread) as u32),
        };
        // Four rows a thread where right-hand sides come in.
        let by_rows = n.div_ceil(4 * THREADS as usize) as u32;
        let by_warps = warp_tasks.saturating_mul(shares).div_ceil(THREADS / TILE);
        let by_blocks = self.blocks.saturating_mul(shares);
        by_rows.max(by_warps).max(by_blocks)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_many_as_have_something_to_do() {
        assert_eq!((THREADS, TILE, MANY), (256, 32, 8));
        let tasks = |small, packs, blocks| NumTasks {
            small,
            packs,
            blocks,
        };
        assert_eq!(tasks(0, 0, 0).useful_blocks(0, 1, 4), 0);
        // A block has eight warps, and a thread takes four right-hand sides in.
        assert_eq!(tasks(99, 17, 2).useful_blocks(1024, 1, 4), 3);
        assert_eq!(tasks(99, 17, 2).useful_blocks(3 * 1024 + 1, 1, 4), 4);
        assert_eq!(tasks(17, 9, 2).useful_blocks(1024, 16, 2), 17);
        assert_eq!(tasks(17, 9, 2).useful_blocks(1024, 9, 4), 9);
        assert_eq!(tasks(17, 9, 3).useful_blocks(1024, 16, 2), 24);
        let most = tasks(u32::MAX, 9, 3).useful_blocks(1024, 16, 2);
        assert_eq!(most, u32::MAX / 8 + 1);
    }
}
