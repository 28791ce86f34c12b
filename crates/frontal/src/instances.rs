//! The engines for each of their scalars, compiled once.
//!
//! In builds with little optimisation a crate takes the generic code that those below it have compiled, and compiles what nobody
//! has. So what is here once would otherwise be in the facade, in its unit tests and in each program of tests. In other builds
//! every crate compiles what it calls, and this module does not exist.

use std::hint::black_box;

use num_complex::Complex;

use crate::{FrontalLdlt, FrontalLu, FrontalScalar};

/// Nobody calls these: their addresses are what the compiler has to have code for.
#[used]
static ON_THE_HOST: [fn(); 4] = [
    on_the_host::<f32>,
    on_the_host::<f64>,
    on_the_host::<Complex<f32>>,
    on_the_host::<Complex<f64>>,
];

fn on_the_host<F: FrontalScalar>() {
    black_box(FrontalLu::<F>::factorize as fn(_, _, _) -> _);
    black_box(FrontalLu::<F>::from_parts as fn(_, _, _, _, _) -> _);
    black_box(FrontalLu::<F>::refactorize as fn(_, _, _) -> _);
    black_box(FrontalLu::<F>::solve_within as fn(_, _, _, _, _, _) -> _);
    black_box(FrontalLu::<F>::solve_transpose_within as fn(_, _, _, _, _, _) -> _);
    black_box(FrontalLu::<F>::product_norm as fn(_, _, _, _) -> _);
    black_box(FrontalLdlt::<F>::factorize as fn(_, _, _) -> _);
    black_box(FrontalLdlt::<F>::from_parts as fn(_, _, _, _, _, _) -> _);
    black_box(FrontalLdlt::<F>::refactorize as fn(_, _, _) -> _);
    black_box(FrontalLdlt::<F>::solve as fn(_, _, _, _, _) -> _);
}

#[cfg(feature = "gpu")]
mod on_a_device {
    use super::{Complex, black_box};
    use crate::gpu::{DeviceFrontalLdlt, DeviceFrontalLu, DeviceScalar};

    #[used]
    static ON_A_DEVICE: [fn(); 3] = [
        on_a_device::<f32>,
        on_a_device::<f64>,
        on_a_device::<Complex<f64>>,
    ];

    fn on_a_device<T: DeviceScalar>() {
        black_box(DeviceFrontalLu::<T>::factorize as fn(_, _, _, _) -> _);
        black_box(DeviceFrontalLu::<T>::factorize_by_threshold as fn(_, _, _, _, _, _) -> _);
        black_box(DeviceFrontalLu::<T>::refactorize as fn(_, _, _, _) -> _);
        black_box(DeviceFrontalLdlt::<T>::factorize as fn(_, _, _, _, _) -> _);
        black_box(DeviceFrontalLdlt::<T>::factorize_beside as fn(_, _, _, _, _) -> _);
        black_box(DeviceFrontalLdlt::<T>::refactorize as fn(_, _, _, _, _) -> _);
    }
}
