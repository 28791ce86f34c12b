//! Who works on which front, from the leaves of an assembly tree to its roots.
//!
//! A front belongs to one team: a warp if it is small, as most are, else a block. Whoever finishes the last child of a
//! front goes on with it, so whole subtrees never wait for anybody, and the longest path of the tree costs no more than
//! its fronts. Warps begin with small leaves, in the order of the list that the host made; a front too large for a warp
//! is handed to the blocks through a queue. A block whose warps find no more leaves takes from the queue.
//!
//! A block that waits for the queue holds nothing that others wait for, and those who will fill it are resident and
//! running: the launch is cooperative.

use luge_kernel::prelude::*;

use super::front::{Shape, Team};

/// Words of the `schedule`.
pub mod schedule {
    /// Small leaves handed out.
    pub const LEAVES: usize = 0;
    /// Fronts put into the queue.
    pub const TAIL: usize = 1;
    /// Fronts taken from it, or waited for.
    pub const HEAD: usize = 2;
    /// Fronts done.
    pub const DONE: usize = 3;
    /// Number of words.
    pub const LEN: usize = 4;
}

/// No front.
pub const NONE: u32 = u32::MAX;

/// The tree and what is done of it.
///
/// Writes: `pending` and `schedule` by atomics; an element of `queue` by whoever got its place from a counter.
/// Preconditions: `leaves` are the small fronts without children, the large ones without children stand in `queue` as
/// s + 1, `schedule[TAIL]` of them, the rest of `queue` and of `schedule` is zero; `pending[s]` is the number of
/// children, as it is again afterwards.
#[derive(Clone, Copy)]
pub(super) struct Climb {
    pub leaves: Global<u32>,
    pub starts: Global<u32>,
    pub below: Global<u32>,
    pub parents: Global<u32>,
    pub child_ptr: Global<u32>,
    pub pending: GlobalMut<u32>,
    pub queue: GlobalMut<u32>,
    pub schedule: GlobalMut<u32>,
    /// A word.
    pub next: Shared<u32>,
}

impl Climb {
    #[inline(always)]
    pub fn shape(self, s: u32) -> Shape {
        let start = self.starts.get(s as usize);
        Shape {
            k: self.starts.get(s as usize + 1) - start,
            c: self.below.get(s as usize),
        }
    }

    /// Calls `by_warp(team, s)` for small fronts and `by_block(team, s)` for the others, each once, by all threads of
    /// the team, when those for the children are done: what their teams wrote is seen. A front is small if it has at
    /// most `small` rows, and no child on which a block was the last to work. All threads of the grid call it.
    #[inline(always)]
    pub fn run(
        self,
        small: u32,
        mut by_warp: impl FnMut(Team, u32),
        mut by_block: impl FnMut(Team, u32),
    ) {
        let num_fronts = self.below.len() as u32;
        let team = Team::warp();
        let lane = thread::lane_id();
        loop {
            let mut s = NONE;
            if lane == 0 {
                let handed_out = self.schedule.atomic(schedule::LEAVES);
                let ticket = handed_out.fetch_add(1, Ordering::Relaxed, Scope::Device) as usize;
                if ticket < self.leaves.len() {
                    s = self.leaves.get(ticket);
                }
            }
            s = warp::shuffle(warp::FULL_MASK, s, 0);
            if s == NONE {
                break;
            }
            while s != NONE {
                by_warp(team, s);
                team.sync();
                let mut up = NONE;
                if lane == 0 {
                    up = self.hand_up(s);
                    if up != NONE && self.shape(up).m() > small {
                        self.enqueue(up);
                        up = NONE;
                    }
                }
                s = warp::shuffle(warp::FULL_MASK, up, 0);
            }
        }
        thread::sync_threads();

        let team = Team::block();
        loop {
            if team.rank == 0 {
                self.next.set(0, self.take(num_fronts));
            }
            thread::sync_threads();
            let mut s = self.next.get(0);
            if s == NONE {
                break;
            }
            while s != NONE {
                by_block(team, s);
                thread::sync_threads();
                if team.rank == 0 {
                    self.next.set(0, self.hand_up(s));
                }
                thread::sync_threads();
                s = self.next.get(0);
            }
            // `next` is written again.
            thread::sync_threads();
        }
    }

    /// Tells the parent that front `s` is done: the parent if all its children are, else [`NONE`]. One thread of the
    /// team calls it, behind a barrier of the team.
    #[inline(always)]
    fn hand_up(self, s: u32) -> u32 {
        let done = self.schedule.atomic(schedule::DONE);
        done.reduce_add(1, Ordering::Release, Scope::Device);
        let parent = self.parents.get(s as usize);
        if parent == NONE {
            return NONE;
        }
        let pending = self.pending.atomic(parent as usize);
        // The release shows what the team wrote to whoever takes the parent, the acquire the others' to us.
        if pending.fetch_sub(1, Ordering::AcqRel, Scope::Device) > 1 {
            return NONE;
        }
        let children =
            self.child_ptr.get(parent as usize + 1) - self.child_ptr.get(parent as usize);
        pending.store(children, Ordering::Relaxed, Scope::Device);
        parent
    }

    /// Puts a front whose children are done into the queue.
    #[inline(always)]
    fn enqueue(self, s: u32) {
        let tail = self.schedule.atomic(schedule::TAIL);
        let at = tail.fetch_add(1, Ordering::Relaxed, Scope::Device);
        self.queue
            .atomic(at as usize)
            .store(s + 1, Ordering::Release, Scope::Device);
    }

    /// The next front for a block, or [`NONE`] if all fronts are done. One thread of the block calls it.
    #[inline(always)]
    fn take(self, num_fronts: u32) -> u32 {
        let head = self.schedule.atomic(schedule::HEAD);
        let at = head.fetch_add(1, Ordering::Relaxed, Scope::Device) as usize;
        let mut s = NONE;
        spin_wait(|| {
            if at < self.queue.len() {
                let entry = self.queue.atomic(at).load(Ordering::Acquire, Scope::Device);
                if entry != 0 {
                    s = entry - 1;
                    return true;
                }
            }
            let done = self.schedule.atomic(schedule::DONE);
            done.load(Ordering::Acquire, Scope::Device) == num_fronts
        });
        s
    }
}
