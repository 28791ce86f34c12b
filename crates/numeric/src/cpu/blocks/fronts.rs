//! What the driver of the blocks asks of fronts, and which scalars have them.

use std::fmt::Debug;
use std::sync::Arc;

use luge_frontal::{FrontalError, FrontalLu, Options, Symbolic};
use luge_sparse::{CancelFlag, Cancelled, Quality, Scalar};
use num_complex::Complex;

/// A scalar that blocks are factorized in: columns of every kind of numbers, fronts of real ones.
pub trait BlockScalar: Scalar {
    /// The factors of a block that goes to the fronts.
    #[doc(hidden)]
    type Fronts: Fronts<Self>;

    /// Whether blocks may go to the fronts.
    const HAS_FRONTS: bool;
}

/// The factors of one block by fronts, as [`FrontalLu`] has them.
#[doc(hidden)]
pub trait Fronts<F: Scalar>: Debug + Send + Sync + Sized {
    fn factorize(
        symbolic: &Arc<Symbolic>,
        values: &[F],
        options: &Options,
    ) -> Result<(Self, Quality), FrontalError>;

    fn refactorize(&mut self, values: &[F], options: &Options) -> Result<Quality, FrontalError>;

    /// Order of the block.
    fn n(&self) -> usize;

    fn lnz(&self) -> u64;

    fn unz(&self) -> u64;

    fn factor_entries(&self) -> u64;

    fn bytes(&self) -> u64;

    /// Row, column and value of each pivot.
    fn for_each_pivot(&self, visit: impl FnMut(usize, usize, F));

    /// Row, pivot and value of each entry of L below the diagonal.
    fn for_each_l(&self, visit: impl FnMut(usize, usize, F));

    /// Pivot, column and value of each entry of U.
    fn for_each_u(&self, visit: impl FnMut(usize, usize, F));

    fn largest_weights(&self, rows: &[f64]) -> Vec<f64>;

    fn products(&self) -> &[F::Real];

    fn product_norm(
        &self,
        rows: &[f64],
        cols: &[f64],
        cancel: &CancelFlag,
    ) -> Result<f64, Cancelled>;

    fn solve_within(
        &self,
        x: &mut [F],
        ld: usize,
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled>;

    fn solve_transpose_within(
        &self,
        x: &mut [F],
        ld: usize,
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled>;

    fn solve_scratch_bytes(&self, nrhs: usize, threads: usize) -> u64;
}

macro_rules! with_fronts {
    ($real:ty) => {
        impl BlockScalar for $real {
            type Fronts = FrontalLu<$real>;
            const HAS_FRONTS: bool = true;
        }

        impl Fronts<$real> for FrontalLu<$real> {
            fn factorize(
                symbolic: &Arc<Symbolic>,
                values: &[$real],
                options: &Options,
            ) -> Result<(Self, Quality), FrontalError> {
                Self::factorize(symbolic, values, options)
            }

            fn refactorize(
                &mut self,
                values: &[$real],
                options: &Options,
            ) -> Result<Quality, FrontalError> {
                self.refactorize(values, options)
            }

            fn n(&self) -> usize {
                self.n()
            }

            fn lnz(&self) -> u64 {
                self.lnz()
            }

            fn unz(&self) -> u64 {
                self.unz()
            }

            fn factor_entries(&self) -> u64 {
                self.factor_entries()
            }

            fn bytes(&self) -> u64 {
                self.bytes()
            }

            fn for_each_pivot(&self, mut visit: impl FnMut(usize, usize, $real)) {
                self.pivots()
                    .for_each(|(row, column, pivot)| visit(row, column, pivot));
            }

            fn for_each_l(&self, visit: impl FnMut(usize, usize, $real)) {
                self.for_each_l(visit);
            }

            fn for_each_u(&self, visit: impl FnMut(usize, usize, $real)) {
                self.for_each_u(visit);
            }

            fn largest_weights(&self, rows: &[f64]) -> Vec<f64> {
                self.largest_weights(rows)
            }

            fn products(&self) -> &[$real] {
                self.products()
            }

            fn product_norm(
                &self,
                rows: &[f64],
                cols: &[f64],
                cancel: &CancelFlag,
            ) -> Result<f64, Cancelled> {
                self.product_norm(rows, cols, cancel)
            }

            fn solve_within(
                &self,
                x: &mut [$real],
                ld: usize,
                nrhs: usize,
                threads: usize,
                cancel: &CancelFlag,
            ) -> Result<(), Cancelled> {
                self.solve_within(x, ld, nrhs, threads, cancel)
            }

            fn solve_transpose_within(
                &self,
                x: &mut [$real],
                ld: usize,
                nrhs: usize,
                threads: usize,
                cancel: &CancelFlag,
            ) -> Result<(), Cancelled> {
                self.solve_transpose_within(x, ld, nrhs, threads, cancel)
            }

            fn solve_scratch_bytes(&self, nrhs: usize, threads: usize) -> u64 {
                self.solve_scratch_bytes(nrhs, threads)
            }
        }
    };
}

with_fronts!(f32);
with_fronts!(f64);

/// The fronts of a scalar that has no dense kernels: there are none.
#[doc(hidden)]
#[derive(Debug)]
pub enum NoFronts {}

impl BlockScalar for Complex<f32> {
    type Fronts = NoFronts;
    const HAS_FRONTS: bool = false;
}

impl BlockScalar for Complex<f64> {
    type Fronts = NoFronts;
    const HAS_FRONTS: bool = false;
}

impl<F: Scalar> Fronts<F> for NoFronts {
    fn factorize(_: &Arc<Symbolic>, _: &[F], _: &Options) -> Result<(Self, Quality), FrontalError> {
        unreachable!("`BlockLu::factorize` refuses plans with fronts of such scalars")
    }

    fn refactorize(&mut self, _: &[F], _: &Options) -> Result<Quality, FrontalError> {
        match *self {}
    }

    fn n(&self) -> usize {
        match *self {}
    }

    fn lnz(&self) -> u64 {
        match *self {}
    }

    fn unz(&self) -> u64 {
        match *self {}
    }

    fn factor_entries(&self) -> u64 {
        match *self {}
    }

    fn bytes(&self) -> u64 {
        match *self {}
    }

    fn for_each_pivot(&self, _: impl FnMut(usize, usize, F)) {
        match *self {}
    }

    fn for_each_l(&self, _: impl FnMut(usize, usize, F)) {
        match *self {}
    }

    fn for_each_u(&self, _: impl FnMut(usize, usize, F)) {
        match *self {}
    }

    fn largest_weights(&self, _: &[f64]) -> Vec<f64> {
        match *self {}
    }

    fn products(&self) -> &[F::Real] {
        match *self {}
    }

    fn product_norm(&self, _: &[f64], _: &[f64], _: &CancelFlag) -> Result<f64, Cancelled> {
        match *self {}
    }

    fn solve_within(
        &self,
        _: &mut [F],
        _: usize,
        _: usize,
        _: usize,
        _: &CancelFlag,
    ) -> Result<(), Cancelled> {
        match *self {}
    }

    fn solve_transpose_within(
        &self,
        _: &mut [F],
        _: usize,
        _: usize,
        _: usize,
        _: &CancelFlag,
    ) -> Result<(), Cancelled> {
        match *self {}
    }

    fn solve_scratch_bytes(&self, _: usize, _: usize) -> u64 {
        match *self {}
    }
}
