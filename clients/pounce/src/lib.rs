//! Luge as the linear solver of [POUNCE](https://docs.rs/pounce-algorithm), an interior-point method, plugged in by
//! `IpoptApplication::set_linear_backend_factory`:
//!
//! ```ignore
//! app.set_linear_backend_factory(Box::new(|_| Box::new(LugeBackend::default())));
//! ```
//!
//! Who writes such an adapter for another interior-point method finds here what these ask of a linear solver:
//!
//! - One analysis serves all matrices. It is made with the values of the first, which say where pivots of order 2 are needed.
//! - Singular matrices are not refused ([`SingularAction::Continue`]): the method perturbs them.
//! - The inertia of the factors is compared with the one that a descent direction needs, and if it differs, the method
//!   perturbs the matrix. Only what is exactly zero counts as a zero eigenvalue, for entries of these matrices are twenty
//!   orders of magnitude apart.
//! - Luge neither measures factors ([`ResidualCheck::Never`]) nor refines solutions. The method does both for its own system,
//!   which is larger than the one that is factorized, and where it is not content, it asks for
//!   [`Factors::raise_threshold`].

pub mod problems;
pub mod runs;

use luge::{
    Analysis, BackendChoice, Error, Factors, MatrixKind, MatrixRef, Options, Pivoting,
    ResidualCheck, SingularAction, Solver,
};
use pounce_common::types::{Index, Number};
use pounce_linsol::{EMatrixFormat, ESymSolverStatus, SparseSymLinearSolverInterface};

/// The first threshold of pivots, that of POUNCE's own linear solver and of Ipopt.
const THRESHOLD: f64 = 1e-8;

/// L·D·Lᵀ of the systems of an interior-point method.
pub struct LugeBackend {
    options: Options,
    /// The upper triangle by rows.
    row_ptr: Vec<Index>,
    col_idx: Vec<Index>,
    values: Vec<Number>,
    analysis: Option<Analysis<f64>>,
    /// Those of `values`, or of the matrix before if these were written since.
    factors: Option<Factors<f64>>,
}

impl Default for LugeBackend {
    /// On one thread.
    fn default() -> Self {
        Self::new(Options::default().threads(Some(1)))
    }
}

impl LugeBackend {
    /// With the threads, the ordering and the limits of these options; what an interior-point method needs is set here.
    pub fn new(options: Options) -> Self {
        Self {
            options: options
                .backend(BackendChoice::Cpu)
                .kind(MatrixKind::Symmetric)
                .singular(SingularAction::Continue)
                .zero_pivot(Some(0.0))
                .pivoting(Pivoting::Threshold {
                    threshold: THRESHOLD,
                })
                .residual_check(ResidualCheck::Never)
                .target_backward_error(1.0)
                .max_growth(f64::INFINITY),
            row_ptr: Vec::new(),
            col_idx: Vec::new(),
            values: Vec::new(),
            analysis: None,
            factors: None,
        }
    }

    /// The factors of the last matrix, if there are any.
    pub fn factors(&self) -> Option<&Factors<f64>> {
        self.factors.as_ref()
    }

    fn factorize(&mut self) -> Result<(), Error> {
        if let Some(factors) = &mut self.factors {
            return factors.refactorize_values(&self.values).map(drop);
        }
        if self.analysis.is_none() {
            let n = self.row_ptr.len() - 1;
            let matrix = MatrixRef::by_rows(n, n, &self.row_ptr, &self.col_idx, &self.values);
            self.analysis = Some(Solver::new(self.options.clone())?.analyze(matrix)?);
        }
        if let Some(analysis) = &self.analysis {
            self.factors = Some(analysis.factorize_values(&self.values)?);
        }
        Ok(())
    }
}

/// What an error says of the matrix.
fn status(error: &Error) -> ESymSolverStatus {
    match error {
        Error::ZeroPivot { .. }
        | Error::StructurallySingular { .. }
        | Error::ZerosOnly { .. }
        | Error::NoPivots { .. }
        | Error::SingularToRounding { .. }
        | Error::Overflow { .. }
        | Error::SolutionNotFinite { .. } => ESymSolverStatus::Singular,
        _ => ESymSolverStatus::FatalError,
    }
}

impl SparseSymLinearSolverInterface for LugeBackend {
    fn initialize_structure(
        &mut self,
        dim: Index,
        nonzeros: Index,
        ia: &[Index],
        ja: &[Index],
    ) -> ESymSolverStatus {
        // Whether they are a triangle, the analysis checks.
        let (Ok(n), Ok(count)) = (usize::try_from(dim), usize::try_from(nonzeros)) else {
            return ESymSolverStatus::FatalError;
        };
        if (ia.len(), ja.len()) != (n + 1, count) {
            return ESymSolverStatus::FatalError;
        }
        (self.row_ptr, self.col_idx) = (ia.to_vec(), ja.to_vec());
        self.values = vec![0.0; ja.len()];
        (self.analysis, self.factors) = (None, None);
        ESymSolverStatus::Success
    }

    fn values_array_mut(&mut self) -> &mut [Number] {
        &mut self.values
    }

    fn multi_solve(
        &mut self,
        new_matrix: bool,
        _ia: &[Index],
        _ja: &[Index],
        _nrhs: Index,
        rhs_vals: &mut [Number],
        check_neg_evals: bool,
        number_of_neg_evals: Index,
    ) -> ESymSolverStatus {
        if (new_matrix || self.factors.is_none())
            && let Err(error) = self.factorize()
        {
            self.factors = None;
            return status(&error);
        }
        let Some(factors) = &self.factors else {
            return ESymSolverStatus::FatalError;
        };
        if self.singularity_certified() {
            return ESymSolverStatus::Singular;
        }
        if check_neg_evals && self.number_of_neg_evals() != number_of_neg_evals {
            return ESymSolverStatus::WrongInertia;
        }
        match factors.solve_in_place(rhs_vals) {
            Ok(_) => ESymSolverStatus::Success,
            Err(error) => status(&error),
        }
    }

    fn number_of_neg_evals(&self) -> Index {
        let inertia = self.factors().and_then(Factors::inertia);
        inertia.map_or(0, |inertia| inertia.negative as Index)
    }

    fn increase_quality(&mut self) -> bool {
        let raised = self.factors.as_mut().map(Factors::raise_threshold);
        matches!(raised, Some(Ok(Some(_))))
    }

    fn provides_inertia(&self) -> bool {
        true
    }

    fn singularity_certified(&self) -> bool {
        let inertia = self.factors().and_then(Factors::inertia);
        inertia.is_some_and(|inertia| inertia.zero > 0)
    }

    fn matrix_format(&self) -> EMatrixFormat {
        EMatrixFormat::CsrFormat0Offset
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}
