//! The public calls for each of their scalars, compiled once: what is here is shared, in builds with little optimisation, by all
//! programs of tests and the crates above. Other builds have no use for it, and have not this module.

use std::hint::black_box;

use luge_sparse::{MatrixRef, Scalar};
use num_complex::Complex;

use crate::{Analysis, BatchFactors, Error, Factors, Refactorized, Solver};

/// Nobody calls these: their addresses are what the compiler has to have code for.
#[used]
static INSTANCES: [fn(); 4] = [
    instances::<f32>,
    instances::<f64>,
    instances::<Complex<f32>>,
    instances::<Complex<f64>>,
];

type Matrix<T> = MatrixRef<'static, T, usize>;

fn instances<T: Scalar>() {
    black_box(Solver::analyze as fn(&Solver, Matrix<T>) -> Result<Analysis<T>, Error>);
    black_box(
        Solver::load_factors as fn(&Solver, Matrix<T>, &'static [u8]) -> Result<Factors<T>, Error>,
    );
    black_box(Analysis::factorize as fn(&Analysis<T>, Matrix<T>) -> Result<Factors<T>, Error>);
    black_box(Analysis::<T>::factorize_batch as fn(_, _, _) -> _);
    black_box(
        Factors::refactorize as fn(&mut Factors<T>, Matrix<T>) -> Result<Refactorized, Error>,
    );
    black_box(Factors::<T>::determinant as fn(_) -> _);
    black_box(Factors::<T>::lower_upper as fn(_) -> _);
    black_box(Factors::<T>::rcond as fn(_) -> _);
    black_box(Factors::<T>::solve as fn(_, _) -> _);
    black_box(Factors::<T>::solve_in_place as fn(_, _) -> _);
    black_box(Factors::<T>::structure as fn(_) -> _);
    black_box(BatchFactors::<T>::refactorize as fn(_, _) -> _);
    black_box(BatchFactors::<T>::solve as fn(_, _, _) -> _);
    black_box(BatchFactors::<T>::solve_in_place as fn(_, _, _, _) -> _);
}
