//! Problems solved by POUNCE with Luge or with its own linear solver, and what that took.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pounce_algorithm::application::IpoptApplication;
use pounce_common::types::{Index, Number};
use pounce_feral::FeralSolverInterface;
use pounce_linsol::{
    EMatrixFormat, ESymSolverStatus, FactorPattern, SparseSymLinearSolverInterface,
};
use pounce_nlp::return_codes::ApplicationReturnStatus;
use pounce_nlp::tnlp::TNLP;

use crate::LugeBackend;
use crate::problems::{Posed, Problem};

/// A linear solver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// feral, POUNCE's own, on one thread.
    Own,
    /// Luge, on one thread.
    Luge,
}

/// What a linear solver did in all of a run.
#[derive(Debug, Default, Clone, Copy)]
pub struct Work {
    /// Processor seconds of all of its calls: analyses, factorizations, solves.
    pub seconds: f64,
    /// Matrices that it was handed.
    pub factorizations: usize,
    /// How often it told that the inertia is not the expected one.
    pub wrong_inertia: usize,
    /// How often it told that the matrix is singular.
    pub singular: usize,
    /// How often it was asked for more accuracy and gave it.
    pub escalations: usize,
    /// The largest order of a matrix.
    pub order: Index,
}

/// What came of a run.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// How POUNCE ended.
    pub status: ApplicationReturnStatus,
    /// Iterations of the interior-point method.
    pub iterations: Index,
    /// The last objective.
    pub objective: f64,
    /// What the linear solver did.
    pub work: Work,
}

impl Outcome {
    /// Whether it ended at a solution to the tolerance that was asked for.
    pub fn is_solved(&self) -> bool {
        self.status == ApplicationReturnStatus::SolveSucceeded
    }
}

/// Solves the problem with POUNCE's default options but for these lines of its option file.
pub fn solve(problem: &Problem, backend: Backend, options: &str) -> Outcome {
    let mut app = IpoptApplication::new();
    let print_less = format!("print_level 0\n{options}\n");
    let known = app.initialize().is_ok() && app.initialize_with_options_str(&print_less).is_ok();
    assert!(known, "POUNCE does not know the options {options}");
    let work = Rc::new(Cell::new(Work::default()));
    let shared = Rc::clone(&work);
    app.set_linear_backend_factory(Box::new(move |_| {
        let work = Rc::clone(&shared);
        match backend {
            Backend::Own => {
                let inner = FeralSolverInterface::serial();
                Box::new(Watched { inner, work })
            }
            Backend::Luge => {
                let inner = LugeBackend::default();
                Box::new(Watched { inner, work })
            }
        }
    }));
    let (posed, end) = Posed::new(problem.clone());
    let posed: Rc<RefCell<dyn TNLP>> = Rc::new(RefCell::new(posed));
    let status = app.optimize_tnlp(posed);
    let objective = end.borrow().as_ref().map_or(f64::NAN, |end| end.1);
    Outcome {
        status,
        iterations: app.statistics().iteration_count,
        objective,
        work: work.get(),
    }
}

/// A linear solver whose calls are timed and counted.
struct Watched<B> {
    inner: B,
    work: Rc<Cell<Work>>,
}

impl<B> Watched<B> {
    fn count(&self, change: impl FnOnce(&mut Work)) {
        let mut work = self.work.get();
        change(&mut work);
        self.work.set(work);
    }

    fn timed<R>(&mut self, call: impl FnOnce(&mut B) -> R) -> R {
        let start = processor_seconds();
        let result = call(&mut self.inner);
        self.count(|work| work.seconds += processor_seconds() - start);
        result
    }
}

/// How long this thread has been on a processor: other work on the machine does not count, as it would by the clock.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to the structure that it is given, and to nothing else.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(outcome, 0, "the system has a clock for each thread");
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

impl<B: SparseSymLinearSolverInterface> SparseSymLinearSolverInterface for Watched<B> {
    fn initialize_structure(
        &mut self,
        dim: Index,
        nonzeros: Index,
        ia: &[Index],
        ja: &[Index],
    ) -> ESymSolverStatus {
        self.count(|work| work.order = work.order.max(dim));
        self.timed(|inner| inner.initialize_structure(dim, nonzeros, ia, ja))
    }

    fn values_array_mut(&mut self) -> &mut [Number] {
        self.inner.values_array_mut()
    }

    fn multi_solve(
        &mut self,
        new_matrix: bool,
        ia: &[Index],
        ja: &[Index],
        nrhs: Index,
        rhs_vals: &mut [Number],
        check_neg_evals: bool,
        number_of_neg_evals: Index,
    ) -> ESymSolverStatus {
        let status = self.timed(|inner| {
            inner.multi_solve(
                new_matrix,
                ia,
                ja,
                nrhs,
                rhs_vals,
                check_neg_evals,
                number_of_neg_evals,
            )
        });
        self.count(|work| {
            work.factorizations += usize::from(new_matrix);
            work.wrong_inertia += usize::from(status == ESymSolverStatus::WrongInertia);
            work.singular += usize::from(status == ESymSolverStatus::Singular);
        });
        status
    }

    fn number_of_neg_evals(&self) -> Index {
        self.inner.number_of_neg_evals()
    }

    fn increase_quality(&mut self) -> bool {
        let is_increased = self.timed(B::increase_quality);
        self.count(|work| work.escalations += usize::from(is_increased));
        is_increased
    }

    fn provides_inertia(&self) -> bool {
        self.inner.provides_inertia()
    }

    fn singularity_certified(&self) -> bool {
        self.inner.singularity_certified()
    }

    fn set_reused_scaling_zero_pivot_recheck(&mut self, on: bool) {
        self.inner.set_reused_scaling_zero_pivot_recheck(on);
    }

    fn multi_solve_matches_single_solve(&self, nrhs: usize) -> bool {
        self.inner.multi_solve_matches_single_solve(nrhs)
    }

    fn matrix_format(&self) -> EMatrixFormat {
        self.inner.matrix_format()
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        self.inner.as_any()
    }

    fn provides_degeneracy_detection(&self) -> bool {
        self.inner.provides_degeneracy_detection()
    }

    fn determine_dependent_rows(
        &mut self,
        n_rows: Index,
        n_cols: Index,
        irn: &[Index],
        jcn: &[Index],
        vals: &[Number],
        c_deps: &mut Vec<Index>,
    ) -> ESymSolverStatus {
        self.timed(|inner| inner.determine_dependent_rows(n_rows, n_cols, irn, jcn, vals, c_deps))
    }

    fn factor_pattern(&self, want_values: bool) -> Option<FactorPattern> {
        self.inner.factor_pattern(want_values)
    }
}
