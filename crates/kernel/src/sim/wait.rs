//! Waits that never end.
//!
//! `Engine::progress` grows with everything that could end a wait: a thread that starts to wait or
//! ends, a barrier or collective that completes, an atomic write (and, with checks, a plain one) that
//! changes a value. A launch is stuck when no thread is ready and each spinning one was asked again
//! and again at the same progress; when there is nobody to ask at all; or when threads hand over of
//! themselves, or spins change memory, for much longer than any launch does.

use std::boxed::Box;
use std::string::String;
use std::vec::Vec;

use super::block::State;
use super::engine::Engine;
use super::fault::{Fault, FaultKind, SourceLine, WaitKind, Waiter};
use super::shadow::Line;

/// How often a spin condition is asked in vain before it counts as one that waits for others:
/// conditions that give up after some tries of their own end before.
const FUTILE: u32 = 256;

/// Spins asked with nothing else running before a launch counts as hung.
const MAX_SPIN_TURNS: u64 = 20_000_000;

/// Times that threads may hand over of themselves while nothing changes.
const MAX_IDLE: u64 = 400_000;

/// Atomic accesses after which a thread hands over, so that loops around atomics cannot starve
/// those that they wait for.
pub(crate) const MAX_ATOMICS: u32 = 4096;

/// Rounds that pass between two times that a warp's spins are asked, at most, as a power of two.
const MAX_SLEEP: u32 = 4;

/// Waiters that a fault names.
const MAX_WAITERS: usize = 1024;

impl Engine {
    /// A thread hands over of itself, without a wait that the simulator knows.
    ///
    /// # Safety
    ///
    /// As for [`Engine::switch`].
    pub unsafe fn rest(engine: *mut Engine, line: Line) {
        // SAFETY: the caller's promise.
        unsafe {
            {
                let this = &mut *engine;
                if this.idle.0 != this.progress {
                    this.idle = (this.progress, 0);
                }
                this.idle.1 += 1;
                (*this.current).line = Some(line);
                if this.idle.1 > MAX_IDLE {
                    this.fault = Some(this.deadlock(false));
                    Engine::stop(engine);
                }
            }
            Engine::preempt(engine);
        }
    }

    /// The running thread asked for what it waits for, in vain: its warp is asked again after some rounds, more each
    /// time.
    pub fn spins_in_vain(&mut self) {
        // SAFETY: called for a running thread, whose block nobody borrows now.
        let (thread, block) = unsafe { (&*self.current, &mut *self.block) };
        let warp = &mut block.warps[thread.linear as usize / 32];
        // The lanes of a warp often ask together, so many times count as one.
        if warp.asleep_until <= block.rounds {
            warp.futile = (warp.futile + 1).min(MAX_SLEEP);
            warp.asleep_until = block.rounds + (1 << warp.futile);
        }
    }

    /// The running thread has what it waited for.
    pub fn has_spun(&mut self) {
        // SAFETY: as in `spins_in_vain`.
        let (thread, block) = unsafe { (&*self.current, &mut *self.block) };
        let warp = &mut block.warps[thread.linear as usize / 32];
        warp.futile = 0;
        warp.asleep_until = 0;
    }

    /// A spinning thread had its turn, which began at `progress`.
    pub fn spun(&mut self, progress: u64) {
        self.spin_turns += 1;
        // SAFETY: called by `turn`: the thread is alive, nobody borrows it.
        let thread = unsafe { &mut *self.current };
        if self.fault.is_some() || thread.state != State::Spin {
            return;
        }
        if self.spin_turns > MAX_SPIN_TURNS + 1000 * u64::from(self.spinning) {
            self.fault = Some(self.deadlock(true));
            return;
        }
        if self.progress != progress {
            return;
        }
        if thread.futile.0 != progress {
            thread.futile = (progress, 0);
        }
        thread.futile.1 += 1;
        if thread.futile.1 == FUTILE {
            if self.settled.0 != progress {
                self.settled = (progress, 0);
            }
            self.settled.1 += 1;
            if self.ready == 0 && self.settled.1 == self.spinning {
                self.fault = Some(self.deadlock(false));
            }
        }
    }

    /// The fault that all live threads wait for ever.
    pub fn deadlock(&self, livelock: bool) -> Box<Fault> {
        let mut waiters = Vec::new();
        let mut waiting = 0;
        for state in [State::Spin, State::Ready, State::Warp, State::Barrier] {
            for &block in &self.blocks {
                // SAFETY: resident blocks are alive; nobody borrows them mutably now.
                let block = unsafe { &*block };
                for t in block.threads.iter().filter(|t| t.state == state) {
                    let Some(line) = t.line.filter(|_| t.started) else {
                        continue;
                    };
                    waiting += 1;
                    if waiters.len() == MAX_WAITERS {
                        continue;
                    }
                    waiters.push(Waiter {
                        block: block.index,
                        thread: t.index,
                        kind: match state {
                            State::Spin => WaitKind::Spin,
                            State::Warp => WaitKind::Warp {
                                mask: t.collective.mask,
                            },
                            State::Barrier => WaitKind::Barrier,
                            State::Ready | State::Done => WaitKind::Loop,
                        },
                        location: SourceLine::new(line),
                    });
                }
            }
        }
        let first = waiters.first().cloned();
        let mut fault = Fault::refused(self.kernel.name, self.options.seed, String::new());
        if let Some(first) = first {
            fault.block = first.block;
            fault.thread = first.thread;
            fault.location = Some(first.location);
        }
        fault.kind = FaultKind::Deadlock {
            waiters,
            waiting,
            blocks_not_started: self.waiting_blocks.len() as u64,
            livelock,
        };
        fault
    }
}
