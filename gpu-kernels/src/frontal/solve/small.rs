//! Small fronts, each the work of a warp: a lane has a row.

use luge_kernel::prelude::*;

use super::{AHEAD, Chunk, Front, NO_FLAG, Sweep, Task};

impl<T: Real, const R: usize> Sweep<T, R> {
    /// The fronts of a task, from the first to the last, on the way up.
    #[inline(always)]
    pub(super) fn walk_up(self, chunk: Chunk, task: Task) {
        if task.wait != NO_FLAG {
            self.wait(chunk, task.wait, task.needed);
        }
        let mut s = task.first;
        let mut next = self.front(s);
        while s <= task.second {
            let front = next;
            if s < task.second {
                next = self.front(s + 1);
            }
            self.front_up(chunk, front);
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
        if task.wait != NO_FLAG {
            self.wait(chunk, task.wait, task.needed);
        }
        let mut s = task.second;
        let mut next = self.front(s);
        loop {
            let front = next;
            if s > task.first {
                next = self.front(s - 1);
            }
            self.front_down(chunk, front);
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

    #[inline(always)]
    fn front_up(self, chunk: Chunk, front: Front) {
        let lane = thread::lane_id();
        let mut value = [T::ZERO; R];
        let is_pivot = lane < front.k;
        let mut row = lane;
        if is_pivot {
            if !self.transpose {
                row = self.order.get((front.start + lane) as usize);
            }
            let at = chunk.unknowns + (front.start + row) as usize * R;
            let mut r = 0;
            while r < R {
                value[r] = self.unknowns.get(at + r);
                r += 1;
            }
        }
        self.gather(chunk, 0, front, row, is_pivot, &mut value);
        self.solve_up(front, 0, front.k, &mut value);
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
            let mut carried = [T::ZERO; R];
            self.gather(chunk, 0, front, front.k + q, is_row, &mut carried);
            let mut j = 0;
            while j < front.k {
                let mut column = [T::ZERO; AHEAD];
                let mut u = 0;
                while u < AHEAD as u32 {
                    if is_row && j + u < front.k {
                        let place = front.up + q + (j + u) * front.up_stride;
                        column[u as usize] = -self.factor(front, place);
                    }
                    u += 1;
                }
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
                let to = self.carry_to.get((front.rows + q) as usize) as usize;
                let mut r = 0;
                while r < R {
                    self.carried.set(chunk.carried + to * R + r, carried[r]);
                    r += 1;
                }
            }
            first += warp::WARP_SIZE;
        }
    }

    #[inline(always)]
    fn front_down(self, chunk: Chunk, front: Front) {
        let lane = thread::lane_id();
        let is_pivot = lane < front.k;
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
            let q = first + lane;
            let mut above = [T::ZERO; R];
            if q < front.c {
                let unknown = self.row_idx.get((front.rows + q) as usize);
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
                let mut row = [T::ZERO; AHEAD];
                let mut u = 0;
                while u < AHEAD as u32 {
                    if is_pivot && q + u < count {
                        let place = front.down + first + q + u + lane * front.down_stride;
                        row[u as usize] = -self.factor(front, place);
                    }
                    u += 1;
                }
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
        }
        self.solve_down(front, 0, front.k, &mut value);
        if is_pivot {
            let e = if self.transpose {
                self.unexchanged(front, lane)
            } else {
                front.start + lane
            };
            let mut r = 0;
            while r < R {
                self.finish(chunk, r as u32, e, value[r]);
                r += 1;
            }
        }
    }
}
