//! What the arithmetic of a device gives, as a measure for what the other kernels get.

use luge_kernel::prelude::*;

/// Products that a warp has under way at once.
pub const AT_ONCE: usize = 4;

/// Operations of a product of an 8×4 with a 4×8 matrix that is added to an 8×8 one.
pub const OPERATIONS: u64 = 2 * 8 * 8 * 4;

/// Multiplies small matrices of double precision, [`AT_ONCE`] · `rounds` pairs each warp, and adds all products up:
/// `sums` has the sums of each warp, two entries of its 8×8 matrix a lane, added together.
///
/// The factors are the same for all: A, 8×4 by rows, and B, 4×8 by columns.
///
/// Threads: any number of whole warps; the lanes of a warp hold a matrix as `mma.m8n8k4` has it. Shared memory: none.
/// Launch: 1-D.
#[kernel(max_threads(256), require(a.len() == 32, b.len() == 32))]
pub unsafe fn multiply(rounds: u32, a: Global<f64>, b: Global<f64>, sums: GlobalMut<f64>) {
    let lane = thread::lane_id() as usize;
    let (a, b) = (a.get(lane), b.get(lane));
    let mut products = [[0.0; 2]; AT_ONCE];
    let mut round = 0;
    while round < rounds {
        let mut k = 0;
        while k < AT_ONCE {
            products[k] = matrix::mma_m8n8k4_f64(a, b, products[k]);
            k += 1;
        }
        round += 1;
    }
    let mut sum = 0.0;
    let mut k = 0;
    while k < AT_ONCE {
        sum += products[k][0] + products[k][1];
        k += 1;
    }
    sums.set(thread::index_1d() as usize, sum);
}
