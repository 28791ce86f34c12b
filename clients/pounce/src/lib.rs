//! Luge as the linear solver of [POUNCE](https://docs.rs/pounce-algorithm), plugged in by
//! `IpoptApplication::set_linear_backend_factory`:
//!
//! ```ignore
//! app.set_linear_backend_factory(Box::new(|_| Box::new(LugeBackend::default())));
//! ```
//!
//! The first matrix is analyzed with its values. Later ones are refactorized on its order; where that does not serve any more,
//! Luge orders and scales anew by itself. The inertia is that of the factors.

pub mod problems;

use luge::{BackendChoice, Error, Factors, MatrixKind, MatrixRef, Options, Pivoting, Solver};
use pounce_common::types::{Index, Number};
use pounce_linsol::{EMatrixFormat, ESymSolverStatus, SparseSymLinearSolverInterface};

/// The thresholds of pivoting, from the first one on; a larger one is more accurate and delays more pivots.
const THRESHOLDS: [f64; 3] = [0.01, 0.1, 0.5];

/// L·D·Lᵀ of the systems of an interior-point method.
pub struct LugeBackend {
    options: Options,
    /// Which threshold pivots are searched by.
    quality: usize,
    n: usize,
    /// The lower triangle by rows, every entry once.
    row_ptr: Vec<usize>,
    col_idx: Vec<usize>,
    /// For each value that the caller writes, the entry that it is added to.
    entry_of: Vec<usize>,
    given: Vec<Number>,
    values: Vec<Number>,
    factors: Option<Factors<f64>>,
    /// Whether the factors are those of `given`.
    is_current: bool,
    is_certainly_singular: bool,
}

impl Default for LugeBackend {
    /// On one thread.
    fn default() -> Self {
        Self::new(Options::default().threads(Some(1)))
    }
}

impl LugeBackend {
    /// With these options but for the backend, the kind of the matrix, and the threshold of its pivots.
    pub fn new(options: Options) -> Self {
        Self {
            options: options
                .backend(BackendChoice::Cpu)
                .kind(MatrixKind::Symmetric),
            quality: 0,
            n: 0,
            row_ptr: Vec::new(),
            col_idx: Vec::new(),
            entry_of: Vec::new(),
            given: Vec::new(),
            values: Vec::new(),
            factors: None,
            is_current: false,
            is_certainly_singular: false,
        }
    }

    /// The factors of the last matrix, if it has any.
    pub fn factors(&self) -> Option<&Factors<f64>> {
        self.factors.as_ref().filter(|_| self.is_current)
    }

    fn factorize(&mut self) -> Result<(), Error> {
        self.values.fill(0.0);
        for (&entry, &value) in self.entry_of.iter().zip(&self.given) {
            self.values[entry] += value;
        }
        if let Some(factors) = &mut self.factors {
            factors.refactorize_values(&self.values)?;
            return Ok(());
        }
        let pivoting = match self.quality {
            // It goes on to the next one by itself where the first does not serve.
            0 => Pivoting::Auto,
            quality => Pivoting::Threshold {
                threshold: THRESHOLDS[quality],
            },
        };
        let options = self.options.clone().pivoting(pivoting);
        let matrix = MatrixRef::by_rows(self.n, self.n, &self.row_ptr, &self.col_idx, &self.values);
        let analysis = Solver::new(options)?.analyze(matrix)?;
        self.factors = Some(analysis.factorize_values(&self.values)?);
        Ok(())
    }

    fn status(&mut self, error: &Error) -> ESymSolverStatus {
        match error {
            Error::ZeroPivot { .. }
            | Error::StructurallySingular { .. }
            | Error::ZerosOnly { .. } => {
                self.is_certainly_singular = true;
                ESymSolverStatus::Singular
            }
            Error::SingularToRounding { .. }
            | Error::Unstable { .. }
            | Error::Overflow { .. }
            | Error::SolutionNotFinite { .. } => ESymSolverStatus::Singular,
            _ => ESymSolverStatus::FatalError,
        }
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
        let (Ok(n), Ok(count)) = (usize::try_from(dim), usize::try_from(nonzeros)) else {
            return ESymSolverStatus::FatalError;
        };
        if (ia.len(), ja.len()) != (count, count) {
            return ESymSolverStatus::FatalError;
        }
        // Entries come in either triangle, some more than once: row, column, number.
        let mut entries: Vec<(u32, u32, usize)> = Vec::with_capacity(count);
        for (k, (&i, &j)) in ia.iter().zip(ja).enumerate() {
            let range = 1..=dim;
            if !range.contains(&i) || !range.contains(&j) {
                return ESymSolverStatus::FatalError;
            }
            entries.push((i.max(j) as u32 - 1, i.min(j) as u32 - 1, k));
        }
        entries.sort_unstable();
        self.n = n;
        self.col_idx.clear();
        self.entry_of = vec![0; count];
        self.row_ptr = vec![0; n + 1];
        let mut last = None;
        for (row, column, number) in entries {
            if last != Some((row, column)) {
                last = Some((row, column));
                self.col_idx.push(column as usize);
                self.row_ptr[row as usize + 1] += 1;
            }
            self.entry_of[number] = self.col_idx.len() - 1;
        }
        for row in 0..n {
            self.row_ptr[row + 1] += self.row_ptr[row];
        }
        self.given = vec![0.0; count];
        self.values = vec![0.0; self.col_idx.len()];
        self.factors = None;
        self.is_current = false;
        ESymSolverStatus::Success
    }

    fn values_array_mut(&mut self) -> &mut [Number] {
        &mut self.given
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
        if new_matrix || !self.is_current {
            self.is_certainly_singular = false;
            self.is_current = false;
            if let Err(error) = self.factorize() {
                return self.status(&error);
            }
            self.is_current = true;
        }
        if check_neg_evals && self.number_of_neg_evals() != number_of_neg_evals {
            return ESymSolverStatus::WrongInertia;
        }
        let Some(factors) = self.factors() else {
            return ESymSolverStatus::FatalError;
        };
        match factors.solve_in_place(rhs_vals) {
            Ok(_) => ESymSolverStatus::Success,
            Err(error) => self.status(&error),
        }
    }

    fn number_of_neg_evals(&self) -> Index {
        let inertia = self.factors().and_then(Factors::inertia);
        inertia.map_or(0, |inertia| inertia.negative as Index)
    }

    fn increase_quality(&mut self) -> bool {
        if self.quality + 1 == THRESHOLDS.len() {
            return false;
        }
        self.quality += 1;
        // Factorized anew with the next solve.
        self.factors = None;
        self.is_current = false;
        true
    }

    fn provides_inertia(&self) -> bool {
        true
    }

    fn singularity_certified(&self) -> bool {
        self.is_certainly_singular
    }

    fn matrix_format(&self) -> EMatrixFormat {
        EMatrixFormat::TripletFormat
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}
