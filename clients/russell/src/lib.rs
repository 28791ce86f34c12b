//! Luge as a linear solver of [russell_sparse](https://docs.rs/russell_sparse).
//!
//! [`SolverLuge`] solves real systems, [`ComplexSolverLuge`] complex ones. The first call of `preprocess` analyzes and
//! factorizes; later ones refactorize with the pivots that are there.

use std::time::Instant;

use luge::ordering::{Method, OrderingOptions};
use luge::{
    BackendChoice, Determinant, Error, Factors, MatrixKind, MatrixRef, Options, Scalar, Solver,
};
use russell_lab::{ComplexVector, Vector};
use russell_sparse::StrError;
use russell_sparse::prelude::*;

/// What both fields have in common.
struct Core<T: Scalar> {
    factors: Option<Factors<T>>,
    /// What the first matrix was: symmetry, order, entries.
    first: Option<(Sym, usize, usize)>,
    /// The parameters that it came with.
    chosen: Option<Chosen>,
    ordering: &'static str,
    nanoseconds: [u128; 3],
}

/// What is taken of the parameters.
#[derive(Clone, Copy, PartialEq)]
struct Chosen {
    ordering: Ordering,
    is_scaled: bool,
    is_definite: bool,
    wants_determinant: bool,
}

impl Chosen {
    fn of(params: &LinSolParams) -> Self {
        Self {
            ordering: params.ordering,
            is_scaled: params.scaling != Scaling::No,
            is_definite: params.positive_definite,
            wants_determinant: params.compute_determinant,
        }
    }
}

/// A matrix as it is compressed by columns.
struct Compressed<'a, T> {
    symmetric: Sym,
    n: usize,
    /// Entries before duplicates are summed up.
    entries: usize,
    col_ptr: &'a [i32],
    row_idx: &'a [i32],
    values: &'a [T],
}

/// The message of an error, as far as it can be told without the place.
fn message(error: &Error) -> StrError {
    match error {
        Error::ZeroPivot { .. }
        | Error::SingularToRounding { .. }
        | Error::StructurallySingular { .. }
        | Error::ZerosOnly { .. } => "Luge: the matrix is singular",
        Error::NotFinite { .. } => "Luge: the matrix has an entry that is infinite or not a number",
        Error::NotSymmetric { .. } => "Luge: the matrix is not symmetric",
        Error::NotPositiveDefinite { .. } => "Luge: the matrix is not positive definite",
        Error::RightHandSideNotFinite { .. } => {
            "Luge: the right-hand side has an entry that is infinite or not a number"
        }
        Error::SolutionNotFinite { .. } => "Luge: the solution overflows",
        Error::ExtraEntry { .. } => {
            "subsequent factorizations must use the same matrix (an entry is new)"
        }
        Error::OutOfMemory { .. } => "Luge: there is not enough memory",
        _ => "Luge: the matrix cannot be factorized",
    }
}

fn nanoseconds(since: Instant) -> u128 {
    since.elapsed().as_nanos().max(1)
}

impl<T: Scalar> Core<T> {
    fn new() -> Self {
        Self {
            factors: None,
            first: None,
            chosen: None,
            ordering: "Unknown",
            nanoseconds: [0; 3],
        }
    }

    fn preprocess(
        &mut self,
        a: &Compressed<'_, T>,
        params: Option<LinSolParams>,
    ) -> Result<(), StrError> {
        let matrix = MatrixRef::by_columns(a.n, a.n, a.col_ptr, a.row_idx, a.values);
        let told = (a.symmetric, a.n, a.entries);
        let given = params.as_ref().map(Chosen::of);
        if let (Some(first), Some(factors)) = (self.first, &mut self.factors) {
            if told.0 != first.0 {
                return Err(
                    "subsequent factorizations must use the same matrix (symmetric differs)",
                );
            }
            if told.1 != first.1 {
                return Err("subsequent factorizations must use the same matrix (ndim differs)");
            }
            if told.2 != first.2 {
                return Err("subsequent factorizations must use the same matrix (nnz differs)");
            }
            if given.is_some() && given != self.chosen {
                return Err("subsequent factorizations must not change LinSolParams");
            }
            let start = Instant::now();
            factors.refactorize(matrix).map_err(|e| message(&e))?;
            self.nanoseconds[1] = nanoseconds(start);
            return Ok(());
        }
        let chosen = given.unwrap_or_else(|| Chosen::of(&LinSolParams::new()));
        let method = match chosen.ordering {
            Ordering::Amd => Method::Amd,
            Ordering::Colamd => Method::Colamd,
            Ordering::Metis => Method::NestedDissection,
            Ordering::No => Method::Natural,
            _ => Method::Auto,
        };
        let kind = match a.symmetric {
            Sym::No => MatrixKind::General,
            _ if T::COMPONENTS > 1 => MatrixKind::General,
            _ if chosen.is_definite => MatrixKind::PositiveDefinite,
            _ => MatrixKind::Symmetric,
        };
        let options = Options::default()
            .backend(BackendChoice::Cpu)
            .kind(kind)
            .ordering(
                OrderingOptions::default()
                    .method(method)
                    .scaling(chosen.is_scaled),
            );
        let start = Instant::now();
        let solver = Solver::new(options).map_err(|e| message(&e))?;
        let analysis = solver.analyze(matrix).map_err(|e| message(&e))?;
        self.nanoseconds[0] = nanoseconds(start);
        let start = Instant::now();
        let factors = analysis.factorize(matrix).map_err(|e| message(&e))?;
        self.nanoseconds[1] = nanoseconds(start);
        self.ordering = analysis.inform().ordering;
        self.factors = Some(factors);
        self.first = Some(told);
        self.chosen = Some(chosen);
        Ok(())
    }

    fn solve(&mut self, x: &mut [T], rhs: &[T]) -> Result<(), StrError> {
        let Some(factors) = &self.factors else {
            return Err("the function preprocess must be called before solve");
        };
        if x.len() != factors.n() {
            return Err("the dimension of the vector of unknown values x is incorrect");
        }
        if rhs.len() != factors.n() {
            return Err("the dimension of the right-hand side vector is incorrect");
        }
        let start = Instant::now();
        x.copy_from_slice(rhs);
        factors.solve_in_place(x).map_err(|e| message(&e))?;
        self.nanoseconds[2] = nanoseconds(start);
        Ok(())
    }

    fn determinant(&self) -> Option<Determinant<T::Wide>> {
        let factors = self.factors.as_ref()?;
        if !self.chosen.is_some_and(|chosen| chosen.wants_determinant) {
            return None;
        }
        factors.determinant().ok()
    }

    fn update_stats(&self, stats: &mut StatsLinSol) {
        stats.main.solver = "Luge".to_string();
        stats.output.effective_ordering = self.ordering.to_string();
        let is_scaled = self.chosen.is_some_and(|chosen| chosen.is_scaled);
        let scaling = if is_scaled { "RowCol" } else { "No" };
        stats.output.effective_scaling = scaling.to_string();
        let times = &mut stats.time_nanoseconds;
        times.initialize_array.push(self.nanoseconds[0]);
        times.preprocess_array.push(self.nanoseconds[1]);
        times.solve_array.push(self.nanoseconds[2]);
    }
}

/// The order of a matrix with so many rows, columns and entries.
fn order(nrow: usize, ncol: usize, entries: usize) -> Result<usize, StrError> {
    if entries == 0 {
        return Err("the COO matrix must have at least one non-zero value");
    }
    if nrow != ncol {
        return Err("the matrix must be square");
    }
    Ok(nrow)
}

/// Solves real systems: general ones by L·U, symmetric ones by L·D·Lᵀ, whole or as one triangle, and by L·Lᵀ if
/// [`LinSolParams::positive_definite`] says so.
///
/// Of [`LinSolParams`] it follows `ordering` (`Amd`, `Colamd`, `Metis` for nested dissection, `No` for none; it chooses for
/// all others), `scaling` (`No` or any other), `positive_definite` and `compute_determinant`.
pub struct SolverLuge {
    core: Core<f64>,
}

impl SolverLuge {
    /// A solver without a matrix.
    pub fn new() -> Self {
        Self { core: Core::new() }
    }

    /// The factors of the last matrix.
    pub fn factors(&self) -> Option<&Factors<f64>> {
        self.core.factors.as_ref()
    }
}

impl Default for SolverLuge {
    fn default() -> Self {
        Self::new()
    }
}

impl LinSolTrait for SolverLuge {
    fn preprocess(
        &mut self,
        mat: &CooMatrix,
        params: Option<LinSolParams>,
    ) -> Result<(), StrError> {
        let (nrow, ncol, entries, symmetric) = mat.get_info();
        let n = order(nrow, ncol, entries)?;
        let csc = CscMatrix::from_coo(mat)?;
        let nnz = csc.get_info().2;
        let a = Compressed {
            symmetric,
            n,
            entries,
            col_ptr: &csc.get_col_pointers()[..=n],
            row_idx: &csc.get_row_indices()[..nnz],
            values: &csc.get_values()[..nnz],
        };
        self.core.preprocess(&a, params)
    }

    fn solve(&mut self, x: &mut Vector, rhs: &Vector, _verbose: bool) -> Result<(), StrError> {
        self.core.solve(x.as_mut_data(), rhs.as_data())
    }

    fn update_stats(&self, stats: &mut StatsLinSol) {
        self.core.update_stats(stats);
        if let Some(determinant) = self.core.determinant() {
            stats.determinant.mantissa_real = determinant.mantissa;
            stats.determinant.base = 2.0;
            stats.determinant.exponent = determinant.exponent as f64;
        }
    }

    fn get_ns_init(&self) -> u128 {
        self.core.nanoseconds[0]
    }

    fn get_ns_preprocess(&self) -> u128 {
        self.core.nanoseconds[1]
    }

    fn get_ns_solve(&self) -> u128 {
        self.core.nanoseconds[2]
    }
}

/// Solves complex systems by L·U. Symmetric ones are given whole.
///
/// It follows the same parameters as [`SolverLuge`].
pub struct ComplexSolverLuge {
    core: Core<luge::num_complex::Complex<f64>>,
}

impl ComplexSolverLuge {
    /// A solver without a matrix.
    pub fn new() -> Self {
        Self { core: Core::new() }
    }
}

impl Default for ComplexSolverLuge {
    fn default() -> Self {
        Self::new()
    }
}

impl ComplexLinSolTrait for ComplexSolverLuge {
    fn preprocess(
        &mut self,
        mat: &ComplexCooMatrix,
        params: Option<LinSolParams>,
    ) -> Result<(), StrError> {
        let (nrow, ncol, entries, symmetric) = mat.get_info();
        let n = order(nrow, ncol, entries)?;
        if matches!(symmetric, Sym::YesLower | Sym::YesUpper) {
            return Err("Luge requires Sym::YesFull for complex symmetric matrices");
        }
        let csc = ComplexCscMatrix::from_coo(mat)?;
        let nnz = csc.get_info().2;
        let a = Compressed {
            symmetric,
            n,
            entries,
            col_ptr: &csc.get_col_pointers()[..=n],
            row_idx: &csc.get_row_indices()[..nnz],
            values: &csc.get_values()[..nnz],
        };
        self.core.preprocess(&a, params)
    }

    fn solve(
        &mut self,
        x: &mut ComplexVector,
        rhs: &ComplexVector,
        _verbose: bool,
    ) -> Result<(), StrError> {
        self.core.solve(x.as_mut_data(), rhs.as_data())
    }

    fn update_stats(&self, stats: &mut StatsLinSol) {
        self.core.update_stats(stats);
        if let Some(determinant) = self.core.determinant() {
            stats.determinant.mantissa_real = determinant.mantissa.re;
            stats.determinant.mantissa_imag = determinant.mantissa.im;
            stats.determinant.base = 2.0;
            stats.determinant.exponent = determinant.exponent as f64;
        }
    }

    fn get_ns_init(&self) -> u128 {
        self.core.nanoseconds[0]
    }

    fn get_ns_preprocess(&self) -> u128 {
        self.core.nanoseconds[1]
    }

    fn get_ns_solve(&self) -> u128 {
        self.core.nanoseconds[2]
    }
}
