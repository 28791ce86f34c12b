//! The engines of the CPU path for each of their scalars, compiled once: what is here is shared, in builds with little optimisation,
//! by the crates above and by all programs of tests. Other builds have no use for it, and have not this module.

use std::hint::black_box;
use std::sync::Arc;

use luge_frontal::FrontalScalar;
use luge_sparse::Quality;
use num_complex::Complex;

use crate::cpu::blocks::{BlockLu, BlockPlan, Options};

/// Nobody calls these: their addresses are what the compiler has to have code for.
#[used]
static INSTANCES: [fn(); 4] = [
    instances::<f32>,
    instances::<f64>,
    instances::<Complex<f32>>,
    instances::<Complex<f64>>,
];

fn instances<F: FrontalScalar>() {
    black_box(BlockLu::<F>::factorize as fn(&Arc<BlockPlan>, &[F], &Options) -> _);
    black_box(BlockLu::<F>::refactorize as fn(&mut BlockLu<F>, &[F], &Options, &mut Quality) -> _);
    black_box(BlockLu::<F>::solve as fn(_, _, _, _, _) -> _);
    black_box(BlockLu::<F>::solve_transpose as fn(_, _, _, _, _) -> _);
    black_box(BlockLu::<F>::product_norm as fn(_, _, _, _) -> _);
    black_box(BlockLu::<F>::whole as fn(_, _, _) -> _);
}
