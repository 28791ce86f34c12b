//! Small fronts, each the work of a warp: a lane has a row.

use luge_kernel::prelude::*;

use super::{AHEAD, Chunk, Front, NO_FLAG, Sweep, Task};

impl<T: Real, const R: usize> Sweep<T, R> {
    /// The fronts of a task, from the first to the last, on the way up.
    #[inline(always)]
    pub(super) fn walk_up(self, chunk: Chunk, task: Task) {
        let mut s = task.first;
        let mut next = self.front(s);
        while s <= task.second {
            let front = next;
            if s < task.second {
                next = self.front(s + 1);
            }
            self.front_up(chunk, front, || {
                // Only a task of one front waits.
                if task.wait != NO_FLAG {
                    self.wait(chunk, task.wait, task.needed);
                }
            });
            // What one lane carried, another one gathers.
            warp::sync_warp(warp::FULL_MASK);
            s += 1;
        }
        if task.signal != NO_FLAG && thread::lane_id() == 0 {
            self.raise_flag(chunk, task.signal);
        }
    }

    /// The fronts of a task, from the last to the first, on the way down.
    #[inline(always)]
    pub(super) fn walk_down(self, chunk: Chunk, task: Task) {
        let mut s = task.second;
        let mut next = self.front(s);
        loop {
            let front = next;
            if s > task.first {
                next = self.front(s - 1);
            }
            self.front_down(chunk, front, || {
                if s == task.second && task.wait != NO_FLAG {
                    self.wait(chunk, task.wait, task.needed);
                }
            });
            warp::sync_warp(warp::FULL_MASK);
            if s == task.first {
                break;
            }
            s -= 1;
        }
        if task.signal != NO_FLAG && thread::lane_id() == 0 {
            self.set_flag(chunk, task.signal, 1);
        }
    }

    /// This lane's row below the pivots, `q` of a front, in the panel's columns from `j` on, negative.
    #[inline(always)]
    fn below_up(self, front: Front, q: u32, j: u32) -> [T; AHEAD] {
        let mut columns = [T::ZERO; AHEAD];
        let mut u = 0;
        while u < AHEAD as u32 {
            if q < front.c && j + u < front.k {
                let (first, stride) = front.up();
                let place = first + q + (j + u) * stride;
                columns[u as usize] = -self.factor(front, place);
            }
            u += 1;
        }
        columns
    }

    /// This lane's pivot in the rows below from `q` on, negative.
    #[inline(always)]
    fn below_down(self, front: Front, q: u32) -> [T; AHEAD] {
        let lane = thread::lane_id();
        let mut row = [T::ZERO; AHEAD];
        let mut u = 0;
        while u < AHEAD as u32 {
            if lane < front.k && q + u < front.c {
                let (first, stride) = front.down();
                let place = first + q + u + lane * stride;
                row[u as usize] = -self.factor(front, place);
            }
            u += 1;
        }
        row
    }

    /// One front on the way up. What does not depend on children is read before `ready` returns, which waits for
    /// them.
    #[inline(always)]
    fn front_up(self, chunk: Chunk, front: Front, ready: impl FnOnce()) {
        let lane = thread::lane_id();
        let is_pivot = lane < front.k;
        let mut row = lane;
        let mut value = [T::ZERO; R];
        if is_pivot {
            if !self.transpose {
                row = self.order.get((front.start + lane) as usize);
            }
            let at = chunk.unknowns + (front.start + lane) as usize * R;
            let mut r = 0;
            while r < R {
                value[r] = self.unknowns.get(at + r);
                r += 1;
            }
        }
        let own = self.contributions(front, lane, is_pivot);
        let mut below = self.contributions(front, front.k + lane, lane < front.c);
        let ahead = self.ahead_up(front, 0, front.k);
        let mut next = self.below_up(front, lane, 0);
        ready();
        self.gather(chunk, 0, own, &mut value);
        if !self.transpose {
            let mut r = 0;
            while r < R {
                value[r] = warp::shuffle(warp::FULL_MASK, value[r], row);
                r += 1;
            }
        }
        self.solve_up(front, (0, front.k), ahead, &mut value);
        if is_pivot {
            let at = chunk.unknowns + (front.start + lane) as usize * R;
            let mut r = 0;
            while r < R {
                self.eliminated.set(at + r, value[r]);
                r += 1;
            }
        }
        let mut first = 0;
        while first < front.c {
            let q = first + lane;
            let is_row = q < front.c;
            let mut to = 0;
            if is_row {
                to = self.carry_to.get((front.rows + q) as usize) as usize;
            }
            let mut carried = [T::ZERO; R];
            self.gather(chunk, 0, below, &mut carried);
            let mut j = 0;
            while j < front.k {
                let column = next;
                next = self.below_up(front, q, j + AHEAD as u32);
                let mut u = 0;
                while u < AHEAD {
                    let mut r = 0;
                    while r < R {
                        let found = warp::shuffle(warp::FULL_MASK, value[r], j + u as u32);
                        carried[r] = column[u].mul_add(found, carried[r]);
                        r += 1;
                    }
                    u += 1;
                }
                j += AHEAD as u32;
            }
            if is_row {
                let mut r = 0;
                while r < R {
                    self.carried.set(chunk.carried + to * R + r, carried[r]);
                    r += 1;
                }
            }
            first += warp::WARP_SIZE;
            if first < front.c {
                let q = first + lane;
                below = self.contributions(front, front.k + q, q < front.c);
                next = self.below_up(front, q, 0);
            }
        }
    }

    /// One front on the way down; `ready` waits for the unknowns of the rows below.
    #[inline(always)]
    fn front_down(self, chunk: Chunk, front: Front, ready: impl FnOnce()) {
        let lane = thread::lane_id();
        let is_pivot = lane < front.k;
        let unknown_below = |q: u32| {
            if q < front.c {
                self.row_idx.get((front.rows + q) as usize)
            } else {
                0
            }
        };
        let mut unknown = unknown_below(lane);
        let mut e = front.start + lane;
        if is_pivot && self.transpose {
            e = self.unexchanged(front, lane);
        }
        let ahead = self.ahead_down(front, 0, front.k);
        let mut next = self.below_down(front, 0);
        ready();
        let mut value = [T::ZERO; R];
        if is_pivot {
            let at = chunk.unknowns + (front.start + lane) as usize * R;
            let mut r = 0;
            while r < R {
                value[r] = self.eliminated.get(at + r);
                r += 1;
            }
        }
        let mut first = 0;
        while first < front.c {
            let mut above = [T::ZERO; R];
            if first + lane < front.c {
                let at = chunk.unknowns + unknown as usize * R;
                let mut r = 0;
                while r < R {
                    above[r] = self.unknowns.get(at + r);
                    r += 1;
                }
            }
            let left = front.c - first;
            let count = if left < warp::WARP_SIZE {
                left
            } else {
                warp::WARP_SIZE
            };
            let mut q = 0;
            while q < count {
                let row = next;
                next = self.below_down(front, first + q + AHEAD as u32);
                let mut u = 0;
                while u < AHEAD {
                    let mut r = 0;
                    while r < R {
                        let found = warp::shuffle(warp::FULL_MASK, above[r], q + u as u32);
                        value[r] = row[u].mul_add(found, value[r]);
                        r += 1;
                    }
                    u += 1;
                }
                q += AHEAD as u32;
            }
            first += warp::WARP_SIZE;
            unknown = unknown_below(first + lane);
        }
        self.solve_down(front, (0, front.k), ahead, &mut value);
        if is_pivot {
            self.finish(chunk, 0, e, value);
        }
    }
}
