//! A barrier for all blocks of a persistent kernel.

use luge_kernel::prelude::*;

/// Number of `u32` words of the buffer behind a [`GridBarrier`].
pub const GRID_BARRIER_WORDS: usize = 1;

/// A barrier over every thread of the grid, counted in global memory.
///
/// Protocol: each wait of each block adds one to `counter`, so before wait number w (from 1) is over
/// the counter has reached w · (number of blocks), and it cannot reach (w+1) · (number of blocks)
/// before every block has left wait w. A block leaves once the counter is at or past its target. The
/// comparison is that of the signed difference, so the counter may wrap around.
///
/// Memory: `sync_threads` orders the block's accesses before thread 0's release on the counter, the
/// acquire that sees all arrivals orders what follows it, and the second `sync_threads` hands that
/// to the rest of the block. So what any thread wrote before the wait, every thread sees after it.
///
/// All blocks of the grid must be resident at the same time (a cooperative launch), every thread of
/// the grid must take part in every wait, and `counter[0]` must be zero at launch.
#[derive(Clone, Copy)]
pub struct GridBarrier {
    counter: GlobalMut<u32>,
    target: u32,
}

impl GridBarrier {
    /// The barrier counted in `counter[0]`, zero at launch.
    #[inlined]
    pub fn new(counter: GlobalMut<u32>) -> Self {
        Self { counter, target: 0 }
    }

    /// Waits until every thread of the grid is here.
    #[inlined]
    pub fn wait(&mut self) {
        thread::sync_threads();
        let blocks = thread::grid_dim_x();
        if blocks > 1 {
            self.target = self.target.wrapping_add(blocks);
            if thread::thread_idx_x() == 0 {
                let target = self.target;
                let counter = self.counter.atomic(0);
                counter.reduce_add(1, Ordering::Release, Scope::Device);
                spin_wait(|| {
                    let arrived = counter.load(Ordering::Acquire, Scope::Device);
                    arrived.wrapping_sub(target) as i32 >= 0
                });
            }
            thread::sync_threads();
        }
    }
}
