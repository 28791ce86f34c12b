//! POUNCE's own linear solver and Luge in turn, over small and large problems: iterations, seconds in the linear solver, and
//! the optima. `cargo run --release --example compare [rounds]` prints a table; each solver runs on one thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use luge_pounce::LugeBackend;
use luge_pounce::problems::{Posed, Problem, chain, control, obstacle, pendulum, small};
use pounce_algorithm::application::IpoptApplication;
use pounce_common::types::{Index, Number};
use pounce_feral::FeralSolverInterface;
use pounce_linsol::{EMatrixFormat, ESymSolverStatus, SparseSymLinearSolverInterface};
use pounce_nlp::return_codes::ApplicationReturnStatus;
use pounce_nlp::tnlp::TNLP;

/// What a linear solver did.
#[derive(Default, Clone, Copy)]
struct Work {
    seconds: f64,
    factorizations: usize,
    order: Index,
}

/// A linear solver whose time is taken.
struct Timed<B> {
    inner: B,
    work: Rc<RefCell<Work>>,
}

impl<B> Timed<B> {
    fn timed<R>(&mut self, call: impl FnOnce(&mut B) -> R) -> R {
        let start = Instant::now();
        let result = call(&mut self.inner);
        self.work.borrow_mut().seconds += start.elapsed().as_secs_f64();
        result
    }
}

impl<B: SparseSymLinearSolverInterface> SparseSymLinearSolverInterface for Timed<B> {
    fn initialize_structure(
        &mut self,
        dim: Index,
        nonzeros: Index,
        ia: &[Index],
        ja: &[Index],
    ) -> ESymSolverStatus {
        let order = self.work.borrow().order.max(dim);
        self.work.borrow_mut().order = order;
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
        self.work.borrow_mut().factorizations += usize::from(new_matrix);
        self.timed(|inner| {
            inner.multi_solve(
                new_matrix,
                ia,
                ja,
                nrhs,
                rhs_vals,
                check_neg_evals,
                number_of_neg_evals,
            )
        })
    }

    fn number_of_neg_evals(&self) -> Index {
        self.inner.number_of_neg_evals()
    }

    fn increase_quality(&mut self) -> bool {
        self.timed(B::increase_quality)
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
}

struct Outcome {
    status: ApplicationReturnStatus,
    iterations: Index,
    objective: f64,
    work: Work,
}

fn solve(problem: &Problem, with_luge: bool) -> Outcome {
    let mut app = IpoptApplication::new();
    app.initialize().expect("options are known");
    app.initialize_with_options_str("print_level 0\ntol 1e-8\nmax_iter 500\n")
        .expect("options are known");
    let work = Rc::new(RefCell::new(Work::default()));
    let shared = Rc::clone(&work);
    app.set_linear_backend_factory(Box::new(move |_| {
        let work = Rc::clone(&shared);
        if with_luge {
            let inner = LugeBackend::default();
            Box::new(Timed { inner, work })
        } else {
            let inner = FeralSolverInterface::new();
            Box::new(Timed { inner, work })
        }
    }));
    let (posed, end) = Posed::new(problem.clone());
    let posed: Rc<RefCell<dyn TNLP>> = Rc::new(RefCell::new(posed));
    let status = app.optimize_tnlp(posed);
    let objective = end.borrow().as_ref().map_or(f64::NAN, |end| end.1);
    let work = *work.borrow();
    Outcome {
        status,
        iterations: app.statistics().iteration_count,
        objective,
        work,
    }
}

fn main() {
    let rounds: usize = std::env::args()
        .nth(1)
        .map_or(3, |text| text.parse().expect("a number"));
    let mut problems = small();
    problems.extend([control(75), control(110), obstacle(110), obstacle(160)]);
    problems.extend([
        chain(10_002),
        chain(50_002),
        pendulum(5_000),
        pendulum(20_000),
    ]);
    println!(
        "| problem | n | m | order | status, own | Luge | iterations, own | Luge | factorizations, own | Luge | linear solver, own, s | Luge, s | own / Luge | difference of the optima |"
    );
    println!("|---|--:|--:|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut logarithms = Vec::new();
    for problem in &problems {
        let mut seconds = [f64::INFINITY; 2];
        let mut outcomes = Vec::new();
        for round in 0..rounds {
            // In turn, each first as often.
            for turn in [round % 2, 1 - round % 2] {
                let outcome = solve(problem, turn == 1);
                seconds[turn] = seconds[turn].min(outcome.work.seconds);
                if round == 0 {
                    outcomes.push(outcome);
                }
            }
        }
        let [own, luge] = [&outcomes[0], &outcomes[1]];
        let ratio = seconds[0] / seconds[1];
        if problem.n() > 10_000 {
            logarithms.push(ratio.ln());
        }
        println!(
            "| {} | {} | {} | {} | {:?} | {:?} | {} | {} | {} | {} | {:.4} | {:.4} | {ratio:.2} | {:.1e} |",
            problem.name,
            problem.n(),
            problem.m(),
            luge.work.order,
            own.status,
            luge.status,
            own.iterations,
            luge.iterations,
            own.work.factorizations,
            luge.work.factorizations,
            seconds[0],
            seconds[1],
            (luge.objective - own.objective).abs(),
        );
    }
    let mean = (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp();
    println!();
    println!(
        "own / Luge, geometric mean over the {} problems with n > 10,000, the least of {rounds} rounds each: {mean:.2}",
        logarithms.len()
    );
}
