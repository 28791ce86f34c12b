//! Who works on what for several right-hand sides: threads have four of them each, or two in small trees, so a front is several tasks,
//! and a warp works on one front at a time.
//!
//! Each of a front's tasks reads all of it. In a tree with strips larger fronts go by strips instead, which have tensor cores.

use luge_device::{Buffer, DeviceError, RecordBuffer, Stream};
use luge_gpu_kernels::frontal::solve::layout::{
    LargeTask, Level, ListsBuffers, MOST_SHARES, WHOLE, shares_of_block, shares_of_warp,
};

use super::packs::{Pack, fronts_of};
use super::plan::{Lists, paths_left, push_strips};
use super::tasks::TaskList;
use crate::gpu::cost::DeviceCosts;
use crate::tree::AssemblyTree;

/// What of the lists of a solve is another one for several right-hand sides: a task for each share of them in place of one for a whole
/// or a small front.
#[derive(Debug)]
pub(super) struct ShareLists {
    /// With the levels of a way up, and with those of a way down.
    levels: [RecordBuffer<Level>; 2],
    warps: [Buffer<u32>; 2],
    blocks: [RecordBuffer<LargeTask>; 2],
}

/// Rows of the largest front that has shares in a tree with strips. On an H200 sixteen right-hand sides of a cube of 10⁶ unknowns took
/// 16.3 ms where fronts of up to 256 had shares, 15.0 with this.
const MOST_ROWS_BESIDE_STRIPS: u32 = 128;

/// The tasks that take the place of each, and the number of tasks before each and of all.
fn in_shares<V, W, I: Iterator<Item = W>>(
    tasks: &[V],
    of_task: impl Fn(&V) -> I,
) -> (Vec<W>, Vec<u32>) {
    let (mut shares, mut before) = (Vec::with_capacity(tasks.len()), Vec::new());
    for task in tasks {
        before.push(shares.len() as u32);
        shares.extend(of_task(task));
    }
    before.push(shares.len() as u32);
    (shares, before)
}

/// Lists for one right-hand side, on the host.
#[derive(Debug)]
pub(super) struct ListsOfOne {
    levels: Vec<Level>,
    warps: [Vec<Pack>; 2],
    blocks: [Vec<LargeTask>; 2],
    /// By which tasks are ordered.
    costs: DeviceCosts,
}

impl ListsOfOne {
    pub fn of(lists: &Lists, costs: &DeviceCosts) -> Self {
        Self {
            levels: lists.levels.clone(),
            warps: [lists.warps_up.clone(), lists.warps_down.clone()],
            blocks: [lists.blocks_up.clone(), lists.blocks_down.clone()],
            costs: *costs,
        }
    }

    /// The tasks of blocks on the way up or down with strips of larger fronts in place of these, if there are strips; and for the end
    /// of each level, of which these are the `ends`, the number of tasks before it.
    fn in_strips(
        &self,
        tree: &AssemblyTree,
        down: bool,
        ends: &[u32],
    ) -> (Vec<LargeTask>, Vec<u32>) {
        let tasks = &self.blocks[usize::from(down)];
        if tasks.iter().all(|task| task.strip == WHOLE) {
            return (tasks.clone(), (0..=tasks.len() as u32).collect());
        }
        let left = paths_left(tree, &self.costs, down);
        let mut blocks = Vec::with_capacity(tasks.len());
        let mut begin = 0;
        for (level, &end) in (0..).zip(ends) {
            for task in &tasks[begin..end as usize] {
                let (s, front) = (task.front as usize, &tree.fronts()[task.front as usize]);
                // One task of each front stands for all.
                if task.strip == 0 || task.strip == WHOLE && front.size() > MOST_ROWS_BESIDE_STRIPS
                {
                    push_strips(&mut blocks, (task.front, front), level, left[s], down);
                } else if task.strip == WHOLE {
                    blocks.push((level, left[s][1], *task));
                }
            }
            begin = end as usize;
        }
        let list = TaskList::new(&blocks, ends.len(), 1);
        let mut before = vec![0; tasks.len() + 1];
        for (&end, &own) in ends.iter().zip(&list.level_ptr[1..]) {
            before[end as usize] = own;
        }
        (list.tasks, before)
    }
}

impl ShareLists {
    /// From those for one right-hand side, for so many of several of a thread; `down` are the levels of the way down if they are
    /// others.
    pub fn new(
        stream: &Stream,
        tree: &AssemblyTree,
        of_one: &ListsOfOne,
        of_thread: usize,
        down: Option<&[Level]>,
    ) -> Result<Self, DeviceError> {
        let rows = |front: u32| tree.fronts()[front as usize].size();
        let warps = |packs: &Vec<Pack>| {
            let of_front = |front: u32| {
                let first = front.checked_mul(MOST_SHARES);
                let first = first.expect("a device has memory for fewer than 2²⁹ fronts");
                (0..shares_of_warp(rows(front), of_thread)).map(move |share| first + share)
            };
            in_shares(packs, |pack| fronts_of(*pack).flat_map(of_front))
        };
        let blocks = |down: bool, ends: Vec<u32>| {
            let (tasks, before) = of_one.in_strips(tree, down, &ends);
            let of_task = |&task: &LargeTask| {
                let count = match task.strip {
                    WHOLE => shares_of_block(rows(task.front), of_thread),
                    _ => 1,
                };
                (0..count).map(move |share| LargeTask {
                    strip: task.strip - share,
                    ..task
                })
            };
            let (shares, before_shares) = in_shares(&tasks, of_task);
            let before = before.iter().map(|&task| before_shares[task as usize]);
            (shares, before.collect::<Vec<_>>())
        };
        let down = down.unwrap_or(&of_one.levels);
        let [(warps_up, before_warps_up), (warps_down, before_warps_down)] =
            of_one.warps.each_ref().map(warps);
        let ends_up = of_one.levels.iter().map(|level| level.blocks_up);
        let (blocks_up, before_blocks_up) = blocks(false, ends_up.collect());
        let ends_down = down.iter().map(|level| level.blocks_down);
        let (blocks_down, before_blocks_down) = blocks(true, ends_down.collect());
        let ends = |levels: &[Level]| {
            let mut levels = levels.to_vec();
            for level in &mut levels {
                for (end, before) in [
                    (&mut level.warps_up, &before_warps_up),
                    (&mut level.warps_down, &before_warps_down),
                    (&mut level.blocks_up, &before_blocks_up),
                    (&mut level.blocks_down, &before_blocks_down),
                ] {
                    *end = before[*end as usize];
                }
            }
            stream.upload_records(&levels)
        };
        // Done when it returns, so solves on other streams see them.
        Ok(Self {
            levels: [ends(&of_one.levels)?, ends(down)?],
            warps: [stream.upload(&warps_up)?, stream.upload(&warps_down)?],
            blocks: [
                stream.upload_records(&blocks_up)?,
                stream.upload_records(&blocks_down)?,
            ],
        })
    }

    /// These in place of those of `lists`, with the levels of a way up or of a way down.
    pub fn in_place<'a>(&'a self, lists: ListsBuffers<'a>, up: bool) -> ListsBuffers<'a> {
        let [warps_up, warps_down] = &self.warps;
        let [blocks_up, blocks_down] = &self.blocks;
        ListsBuffers {
            levels: &self.levels[usize::from(!up)],
            warps_up,
            warps_down,
            blocks_up,
            blocks_down,
            ..lists
        }
    }
}
