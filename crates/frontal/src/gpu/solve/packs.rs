//! Small fronts that a warp works on side by side, for one right-hand side.

use luge_gpu_kernels::frontal::solve::layout::{NO_FRONT, PACK, groups_of_warp};

use super::tasks::TaskList;
use crate::tree::Front;

/// A task of a warp: the front of each quarter of its lanes, or [`NO_FRONT`]. Fronts of half of the lanes stand there twice, those of
/// all lanes four times.
pub(super) type Pack = [u32; PACK];

/// The fronts of a task, each once.
pub(super) fn fronts_of(pack: Pack) -> impl Iterator<Item = u32> {
    let is_first = move |&at: &usize| pack[at] != NO_FRONT && (at == 0 || pack[at] != pack[at - 1]);
    (0..PACK).filter(is_first).map(move |at| pack[at])
}

/// Fronts of one size that stand side by side, and how many more there is room for.
#[derive(Debug)]
struct Open {
    fronts: Vec<u32>,
    room: usize,
}

impl Open {
    fn new(room: usize) -> Self {
        let fronts = Vec::with_capacity(room);
        Self { fronts, room }
    }

    /// Closes the task, if it has a front.
    fn close(&mut self, packs: &mut Vec<Pack>) {
        if self.fronts.is_empty() {
            return;
        }
        let quarters = PACK / self.room;
        let mut pack = [NO_FRONT; PACK];
        for (of_front, &front) in pack.chunks_exact_mut(quarters).zip(&self.fronts) {
            of_front.fill(front);
        }
        packs.push(pack);
        self.fronts.clear();
    }
}

/// Tasks of fronts, each of as many as its lanes have room for: those that follow one another in the list, which stands in an order in
/// which none waits for a later one, and so do the tasks. Upwards a front waits for its children, downwards for its parent.
pub(super) fn packed(list: &TaskList<u32>, fronts: &[Front], down: bool) -> TaskList<Pack> {
    let parent = |s: u32| fronts[s as usize].parent;
    let waits_for = |s: u32, other: u32| match down {
        true => parent(s) == other,
        false => parent(other) == s,
    };
    let mut packs = Vec::with_capacity(list.tasks.len());
    let mut level_ptr = vec![0];
    // By the number of groups: one, two, four.
    let mut open = [1, 2, PACK].map(Open::new);
    for level in list.level_ptr.windows(2) {
        for &s in &list.tasks[level[0] as usize..level[1] as usize] {
            for open in &mut open {
                if open.fronts.iter().any(|&other| waits_for(s, other)) {
                    open.close(&mut packs);
                }
            }
            let groups = groups_of_warp(fronts[s as usize].size());
            let own = &mut open[groups.trailing_zeros() as usize];
            own.fronts.push(s);
            if own.fronts.len() == own.room {
                own.close(&mut packs);
            }
        }
        for open in &mut open {
            open.close(&mut packs);
        }
        level_ptr.push(packs.len() as u32);
    }
    TaskList {
        tasks: packs,
        level_ptr,
    }
}
