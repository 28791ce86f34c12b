//! One step of the campaign: a matrix, a mode, and a sequence of calls, each of which is judged.

use std::collections::BTreeMap;
use std::rc::Rc;

use luge::{Accuracy, Analysis, Error, Factors, Inform, RealScalar, Refactorized, Solver, Warning};
use luge_testkit::generators::hostile::{Kind, Range, Skeleton};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sprs::CsMat;

use super::truth::Truth;
use super::{Backend, Settings, modes};

/// The target of solutions in `f64`, where the options name no other.
const TARGET: f64 = 1e-12;

/// A true error may be so many times what was stated.
const ALLOWED_FACTOR: f64 = 10.0;

/// A solution for which less was stated must not have a larger error; for `f64`, in others as many ε.
const ALLOWED_ERROR: f64 = 1e-10;

/// A refused matrix must have its smallest singular value below so many n·ε times the largest, about 10⁻¹³·n.
const SINGULAR_RATIO: f64 = 450.0;

/// A matrix that is singular after a change of its entries by so many ε, each in its own size, must not be taken without a
/// warning: about 10⁻¹⁷.
const SILENT_DISTANCE: f64 = 0.045;

/// A statement of the solver that does not hold.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What is wrong, and in which group of modes.
    pub class: String,
    /// The numbers.
    pub detail: String,
    /// How many answers were judged before.
    pub after: u64,
}

/// What became of a step.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Order of the matrix.
    pub n: usize,
    /// What does not hold.
    pub failures: Vec<Failure>,
    /// What was checked, and how often.
    pub counts: BTreeMap<&'static str, u64>,
    /// What happened, if that was asked for.
    pub transcript: Vec<String>,
}

impl Outcome {
    /// Whether a failure is of this class.
    pub fn has(&self, class: &str) -> bool {
        self.failures.iter().any(|failure| failure.class == class)
    }
}

/// Solvers that are kept between steps, by the number of their mode.
#[derive(Default)]
pub struct Solvers(BTreeMap<u64, Rc<Solver>>);

/// Runs the step of a seed.
pub fn run(
    seed: u64,
    settings: &Settings,
    solvers: &mut Solvers,
    outcome: &mut Outcome,
    verbose: bool,
) {
    let backend = settings.backend;
    let mut rng = StdRng::seed_from_u64(seed);
    let mode = modes::draw(&mut rng, backend);
    let mut options = modes::options(mode, backend);
    let mut skeleton = Skeleton::draw(&mut rng, settings.max_n);
    let single = rng.random_bool(0.15);
    if settings.symmetric {
        options = modes::for_symmetric(options, &mut rng);
        skeleton = skeleton.symmetric();
    }
    let mut step = Step {
        group: modes::group(&options, backend),
        judges_refusals: modes::searches_and_scales(&options),
        is_on_device: backend != Backend::Cpu,
        is_symmetric: settings.symmetric,
        max_steps: options.max_refinement_steps,
        is_warned: false,
        factor_epsilon: if single || options.precision == luge::FactorPrecision::Single {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        },
        rng,
        outcome,
        verbose,
    };
    step.outcome.n = skeleton.n;
    step.say(|| {
        format!(
            "{}, n {}, {} entries, {}",
            skeleton.name,
            skeleton.n,
            skeleton.entries.len(),
            if single { "f32" } else { "f64" }
        )
    });
    step.say(|| modes::describe(&options));
    let solver = match solvers.0.get(&mode) {
        Some(solver) => Rc::clone(solver),
        None => match Solver::new(options) {
            Ok(solver) => Rc::new(solver),
            Err(error) => return step.fail("no solver", error.to_string()),
        },
    };
    if backend == Backend::Gpu {
        solvers.0.insert(mode, Rc::clone(&solver));
    }
    if single {
        step.sequence::<f32>(&solver, &skeleton, Range::SINGLE);
    } else {
        step.sequence::<f64>(&solver, &skeleton, Range::DOUBLE);
    }
}

struct Step<'a> {
    rng: StdRng,
    group: &'static str,
    judges_refusals: bool,
    is_on_device: bool,
    /// Whether values are mirrored at the diagonal.
    is_symmetric: bool,
    /// ε of the type of the factors.
    factor_epsilon: f64,
    /// Steps of refinement that the options allow.
    max_steps: usize,
    /// Whether the last factors came with a warning of their condition.
    is_warned: bool,
    outcome: &'a mut Outcome,
    verbose: bool,
}

/// The error that a call in place states: any where the options forbid to measure, and it says so.
fn stated_in_place(accuracy: Accuracy) -> Option<f64> {
    Some(accuracy.backward_error.unwrap_or(f64::INFINITY))
}

impl Step<'_> {
    fn say(&mut self, line: impl FnOnce() -> String) {
        if self.verbose {
            self.outcome.transcript.push(line());
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.outcome.counts.entry(what).or_default() += 1;
    }

    fn fail(&mut self, class: &str, detail: String) {
        let class = format!("{class} [{}]", self.group);
        self.say(|| format!("FAILED {class}: {detail}"));
        let after = self.outcome.counts.values().sum();
        self.outcome.failures.push(Failure {
            class,
            detail,
            after,
        });
    }

    /// Analyze, factorize, solve, and again with other values.
    fn sequence<T: RealScalar>(&mut self, solver: &Solver, skeleton: &Skeleton, range: Range) {
        let by_columns = self.rng.random_bool(0.3);
        let analyzed = self.values::<T>(skeleton, range, &[]);
        let mut history = vec![Rc::clone(&analyzed)];
        let first = if self.rng.random_bool(0.25) {
            self.values(skeleton, range, &history)
        } else {
            Rc::clone(&analyzed)
        };
        let analysis = match solver.analyze(&stored(&analyzed.matrix, by_columns)) {
            Ok(analysis) => analysis,
            Err(error) => return self.judge_refusal("analyze", &analyzed, &error, None),
        };
        if analyzed.matching(false) < analyzed.n() {
            self.fail(
                "structurally singular, analyzed all the same",
                String::new(),
            );
        }
        if self.rng.random_bool(0.1) {
            self.batch(solver, &analysis, skeleton, range, &first, by_columns);
        }
        let mut current = first;
        let mut factors = match analysis.factorize(&stored(&current.matrix, by_columns)) {
            Ok(factors) => factors,
            Err(error) => return self.judge_refusal("factorize", &current, &error, None),
        };
        self.count("factorizations");
        self.judge_acceptance("factorize", &current, factors.inform());
        self.solves(solver, &factors, &current);
        for _ in 0..self.rng.random_range(0..=3) {
            history.push(Rc::clone(&current));
            let next = self.values(skeleton, range, &history);
            let before = self.marks(&factors, &current);
            let on_device = self.is_on_device && self.rng.random_bool(0.4);
            let outcome = if on_device {
                let values = stored(&next.matrix, by_columns);
                let values = upload(stream(solver), &T::in_f64(values.data()));
                factors.refactorize_on_device(&values)
            } else {
                // Stored the other way round now and then.
                let by_columns = by_columns != self.rng.random_bool(0.1);
                factors.refactorize(&stored(&next.matrix, by_columns))
            };
            match outcome {
                Ok(outcome) => {
                    self.judge_acceptance("refactorize", &next, factors.inform());
                    self.judge_refactorized(&outcome, &factors, &next);
                    current = next;
                }
                Err(error) => {
                    self.judge_refusal("refactorize", &next, &error, None);
                    let after = self.marks(&factors, &current);
                    if before != after {
                        self.fail(
                            "other bits after a refused refactorization",
                            format!("{error}"),
                        );
                    }
                    self.count("rollbacks");
                }
            }
            self.solves(solver, &factors, &current);
        }
    }

    /// Values on the pattern: new ones, or the last ones changed, or those of before.
    fn values<T: RealScalar>(
        &mut self,
        skeleton: &Skeleton,
        range: Range,
        history: &[Rc<Truth<T>>],
    ) -> Rc<Truth<T>> {
        let ends = history.first().zip(history.last());
        let truth = match (ends, self.rng.random_range(0..12)) {
            (Some((_, last)), 0) => Rc::clone(last),
            (Some((first, _)), 1) => Rc::clone(first),
            (Some((_, last)), 2..=6) => {
                let (name, mut values) =
                    skeleton.changed(&mut self.rng, range, &T::in_f64(last.matrix.data()));
                if self.is_symmetric {
                    skeleton.mirror(&mut values);
                }
                let kind = Kind {
                    name,
                    is_singular: false,
                };
                Rc::new(Truth::new(&skeleton.matrix(&values), kind))
            }
            _ if self.is_symmetric => {
                // What is made to be singular is no more when it is mirrored.
                let (kind, mut values) = skeleton.regular_values(&mut self.rng, range);
                skeleton.mirror(&mut values);
                Rc::new(Truth::new(&skeleton.matrix(&values), kind))
            }
            _ => {
                let (kind, values) = skeleton.values(&mut self.rng, range);
                Rc::new(Truth::new(&skeleton.matrix(&values), kind))
            }
        };
        let kind = truth.kind;
        self.say(|| {
            let singular = if kind.is_singular {
                ", exactly singular"
            } else {
                ""
            };
            format!("values: {}{singular}", kind.name)
        });
        if self.verbose && truth.n() <= 12 {
            for (value, (i, j)) in &truth.matrix {
                let line = format!("  {i} {j} {:e}", RealScalar::to_f64(*value));
                self.say(|| line);
            }
        }
        if self.verbose {
            let line = format!(
                "  rcond with the best scaling {:.1e}, singular after changes by {:.1e}, smallest by largest singular value after equilibration {:?}",
                truth.optimal_rcond().unwrap_or(f64::NAN),
                truth.distance_to_singular().unwrap_or(f64::NAN),
                truth.singular_ratios()
            );
            self.say(|| line);
        }
        truth
    }

    /// A right-hand side.
    fn right_hand_side<T: RealScalar>(&mut self, truth: &Truth<T>, transpose: bool) -> Vec<T> {
        let n = truth.n();
        let (largest, least) = if T::epsilon().to_f64() > 1e-10 {
            (3e38, 1e-44)
        } else {
            (1e308, 1e-320)
        };
        let (name, b) = match self.rng.random_range(0..16) {
            0..=4 => ("A*1", truth.times(&vec![1.0; n], transpose)),
            5..=8 => {
                let signs: Vec<f64> = (0..n)
                    .map(|_| if self.rng.random_bool(0.5) { 1.0 } else { -1.0 })
                    .collect();
                ("A*(+-1)", truth.times(&signs, transpose))
            }
            9 | 10 => ("random", None),
            11 => {
                let mut b = vec![T::zero(); n];
                b[self.rng.random_range(0..n)] = T::one();
                ("a unit vector", Some(b))
            }
            12 => ("tiny", Some(self.random_vector(n, least * 100.0))),
            13 => ("huge", Some(self.random_vector(n, largest))),
            14 => {
                let scale = largest.log10() * 0.8;
                let b =
                    (0..n).map(|_| T::from_f64(10f64.powf(self.rng.random_range(-scale..scale))));
                ("wild", Some(b.collect()))
            }
            _ => ("zero", Some(vec![T::zero(); n])),
        };
        let b = b.unwrap_or_else(|| self.random_vector(n, 1.0));
        self.say(|| {
            if n <= 8 {
                format!("b: {name} {:?}", T::in_f64(&b))
            } else {
                format!("b: {name}")
            }
        });
        b
    }

    fn random_vector<T: RealScalar>(&mut self, n: usize, size: f64) -> Vec<T> {
        (0..n)
            .map(|_| T::from_f64(size * self.rng.random_range(-1.0..1.0)))
            .collect()
    }

    /// Some of the solving calls.
    fn solves<T: RealScalar>(&mut self, solver: &Solver, factors: &Factors<T>, truth: &Truth<T>) {
        let calls = if self.is_on_device { 8 } else { 5 };
        for _ in 0..self.rng.random_range(1..=3) {
            match self.rng.random_range(0..calls) {
                0 => self.solve(factors, truth, false),
                1 => self.solve(factors, truth, true),
                2 => self.solve_many(factors, truth),
                3 => self.solve_in_place(factors, truth, false),
                4 => self.solve_in_place(factors, truth, true),
                5 => self.solve_on_device(solver, factors, truth),
                _ => self.solve_refined_on_device(solver, factors, truth),
            }
        }
    }

    fn solve<T: RealScalar>(&mut self, factors: &Factors<T>, truth: &Truth<T>, transpose: bool) {
        let b = self.right_hand_side(truth, transpose);
        let (call, solved) = if transpose {
            ("solve_transpose", factors.solve_transpose(&b))
        } else {
            ("solve", factors.solve(&b))
        };
        match solved {
            Ok(solution) => {
                self.judge_target(call, truth, &solution.inform);
                let stated = solution.inform.backward_error;
                let x = T::in_f64(&solution.x);
                self.judge_solution(call, truth, &x, &b, transpose, stated);
            }
            Err(error) => self.judge_refusal(call, truth, &error, Some((&b, transpose))),
        }
    }

    fn solve_many<T: RealScalar>(&mut self, factors: &Factors<T>, truth: &Truth<T>) {
        let count = self.rng.random_range(1..=4);
        let many: Vec<Vec<T>> = (0..count)
            .map(|_| self.right_hand_side(truth, false))
            .collect();
        match factors.solve_many(&many.concat(), count) {
            Ok(solution) => {
                let stated = solution.inform.backward_error;
                for (x, b) in solution.x.chunks_exact(truth.n()).zip(&many) {
                    self.judge_solution("solve_many", truth, &T::in_f64(x), b, false, stated);
                }
            }
            Err(error) => {
                let size = |b: &[T]| overflow(truth, b, false, self.factor_epsilon);
                let worst = many.iter().max_by(|a, b| size(a).total_cmp(&size(b)));
                let b = worst.map(|b| (b.as_slice(), false));
                self.judge_refusal("solve_many", truth, &error, b);
            }
        }
    }

    fn solve_in_place<T: RealScalar>(
        &mut self,
        factors: &Factors<T>,
        truth: &Truth<T>,
        transpose: bool,
    ) {
        let count = if self.rng.random_bool(0.3) { 2 } else { 1 };
        let many: Vec<Vec<T>> = (0..count)
            .map(|_| self.right_hand_side(truth, transpose))
            .collect();
        let given = many.concat();
        let mut x = given.clone();
        let (call, solved) = if transpose {
            (
                "solve_transpose_in_place",
                factors.solve_transpose_in_place(&mut x),
            )
        } else {
            ("solve_in_place", factors.solve_in_place(&mut x))
        };
        match solved {
            Ok(outcome) => {
                let stated = stated_in_place(outcome);
                for (x, b) in x.chunks_exact(truth.n()).zip(&many) {
                    self.judge_solution(call, truth, &T::in_f64(x), b, transpose, stated);
                }
            }
            Err(error) => {
                if bits(&x) != bits(&given) {
                    self.fail(
                        &format!("{call}: refused, but x changed"),
                        error.to_string(),
                    );
                }
                let size = |b: &[T]| overflow(truth, b, transpose, self.factor_epsilon);
                let worst = many.iter().max_by(|a, b| size(a).total_cmp(&size(b)));
                let b = worst.map(|b| (b.as_slice(), transpose));
                self.judge_refusal(call, truth, &error, b);
            }
        }
    }

    fn solve_on_device<T: RealScalar>(
        &mut self,
        solver: &Solver,
        factors: &Factors<T>,
        truth: &Truth<T>,
    ) {
        let transpose = self.rng.random_bool(0.4);
        let b = self.right_hand_side(truth, transpose);
        let stream = stream(solver);
        let mut x = upload(stream, &T::in_f64(&b));
        match factors.solve_on_device(&mut x, 1, transpose) {
            Ok(outcome) => {
                let x = download(stream, &x);
                let stated = stated_in_place(outcome);
                self.judge_solution("solve_on_device", truth, &x, &b, transpose, stated);
            }
            Err(error) => {
                self.judge_refusal("solve_on_device", truth, &error, Some((&b, transpose)));
            }
        }
    }

    fn solve_refined_on_device<T: RealScalar>(
        &mut self,
        solver: &Solver,
        factors: &Factors<T>,
        truth: &Truth<T>,
    ) {
        let transpose = self.rng.random_bool(0.4);
        let b = self.right_hand_side(truth, transpose);
        let stream = stream(solver);
        let there = upload(stream, &T::in_f64(&b));
        let mut x = upload(stream, &vec![0.0; truth.n()]);
        let call = "solve_refined_on_device";
        match factors.solve_refined_on_device(&there, &mut x, 1, transpose) {
            Ok(inform) => {
                let x = download(stream, &x);
                self.judge_target(call, truth, &inform);
                self.judge_solution(call, truth, &x, &b, transpose, inform.backward_error);
            }
            Err(error) => self.judge_refusal(call, truth, &error, Some((&b, transpose))),
        }
    }

    /// Several systems at once: each must be what it is alone.
    fn batch<T: RealScalar>(
        &mut self,
        solver: &Solver,
        analysis: &Analysis<T>,
        skeleton: &Skeleton,
        range: Range,
        first: &Rc<Truth<T>>,
        by_columns: bool,
    ) {
        let mut systems = vec![Rc::clone(first)];
        for _ in 0..self.rng.random_range(1..=2) {
            systems.push(self.values(skeleton, range, std::slice::from_ref(first)));
        }
        let count = systems.len();
        let values_of = |systems: &[Rc<Truth<T>>]| -> Vec<T> {
            systems
                .iter()
                .flat_map(|s| stored(&s.matrix, by_columns).data().to_vec())
                .collect()
        };
        let mut batch = match analysis.factorize_batch(&values_of(&systems), count) {
            Ok(batch) => batch,
            Err(error) => return self.fail("batch: not begun", error.to_string()),
        };
        for round in 0..2 {
            let mut made = vec![true; count];
            let mut warned = vec![false; count];
            for (k, truth) in systems.iter().enumerate() {
                match batch.inform(k) {
                    Ok(inform) => {
                        self.judge_acceptance("batch", truth, inform);
                        warned[k] = self.is_warned;
                    }
                    Err(error) => {
                        made[k] = false;
                        self.judge_refusal("batch", truth, alone(&error), None);
                    }
                }
            }
            let b: Vec<Vec<T>> = systems
                .iter()
                .map(|truth| self.right_hand_side(truth, false))
                .collect();
            let solutions = batch.solve(&b.concat(), 1);
            let mut x = b.concat();
            let transpose = self.rng.random_bool(0.5);
            let in_place = batch.solve_in_place(&mut x, 1, transpose);
            let on_device = self.is_on_device && self.rng.random_bool(0.5);
            let there = on_device.then(|| {
                let stream = stream(solver);
                let mut x = upload(stream, &T::in_f64(&b.concat()));
                let solved = batch.solve_on_device(&mut x, 1, transpose);
                (solved, download(stream, &x))
            });
            let solved = solutions.into_iter().zip(in_place);
            let n = skeleton.n;
            for (k, (solution, in_place)) in solved.enumerate() {
                if !made[k] {
                    continue;
                }
                self.is_warned = warned[k];
                let (truth, b) = (Rc::clone(&systems[k]), &b[k]);
                match solution {
                    Ok(solution) => {
                        let stated = solution.inform.backward_error;
                        self.judge_solution(
                            "batch solve",
                            &truth,
                            &T::in_f64(&solution.x),
                            b,
                            false,
                            stated,
                        );
                    }
                    Err(error) => {
                        let at = Some((b.as_slice(), false));
                        self.judge_refusal("batch solve", &truth, alone(&error), at);
                    }
                }
                let x = T::in_f64(&x[k * n..(k + 1) * n]);
                let call = "batch solve_in_place";
                match in_place {
                    Ok(outcome) => {
                        let stated = stated_in_place(outcome);
                        self.judge_solution(call, &truth, &x, b, transpose, stated);
                    }
                    Err(error) => {
                        let at = Some((b.as_slice(), transpose));
                        self.judge_refusal(call, &truth, alone(&error), at);
                    }
                }
                let call = "batch solve_on_device";
                match &there {
                    Some((Ok(solved), x)) => match &solved[k] {
                        Ok(outcome) => {
                            let stated = stated_in_place(*outcome);
                            let x = &x[k * n..(k + 1) * n];
                            self.judge_solution(call, &truth, x, b, transpose, stated);
                        }
                        Err(error) => {
                            let at = Some((b.as_slice(), transpose));
                            self.judge_refusal(call, &truth, alone(error), at);
                        }
                    },
                    Some((Err(error), _)) => self.fail(call, error.to_string()),
                    None => {}
                }
            }
            if round == 0 {
                for system in &mut systems {
                    *system = self.values(skeleton, range, &[Rc::clone(system)]);
                }
                // What came of it is told by `inform`, once more.
                let _ = batch.refactorize(&values_of(&systems));
            }
        }
    }

    /// The bits of two solutions that must outlive a refused refactorization.
    fn marks<T: RealScalar>(&mut self, factors: &Factors<T>, truth: &Truth<T>) -> Vec<Vec<u64>> {
        let n = truth.n();
        let b: Vec<T> = (0..n).map(|i| T::from_f64(1.0 + (i % 3) as f64)).collect();
        let solution = factors.solve(&b).map(|s| bits(&s.x)).unwrap_or_default();
        let mut x = b;
        let in_place = factors.solve_in_place(&mut x).map(|_| bits(&x));
        vec![solution, in_place.unwrap_or_default()]
    }

    /// A solution that came with `Ok`.
    fn judge_solution<T: RealScalar>(
        &mut self,
        call: &str,
        truth: &Truth<T>,
        x: &[f64],
        b: &[T],
        transpose: bool,
        stated: Option<f64>,
    ) {
        self.count("solutions");
        if let Some(row) = x.iter().position(|x| !x.is_finite()) {
            let detail = format!("entry {row} is {}", x[row]);
            return self.fail(
                &format!("{call}: Ok with a number that is not finite"),
                detail,
            );
        }
        let Some(stated) = stated.filter(|stated| !stated.is_nan()) else {
            let detail = format!("{stated:?}");
            return self.fail(&format!("{call}: no error stated"), detail);
        };
        let error = truth.backward_error(x, b, transpose);
        self.say(|| format!("{call}: stated {stated:.1e}, true {error:.1e}"));
        let epsilon = truth.epsilon();
        let least = stated.max(epsilon * truth.n().max(4) as f64);
        let allowed = ALLOWED_ERROR * epsilon / f64::EPSILON;
        let is_false = error > ALLOWED_FACTOR * least;
        // Just above the bound that was stated just below it is no lie.
        let is_large = error > allowed && stated < allowed && error > 1.01 * least;
        if is_false || is_large {
            let detail = format!("stated {stated:.1e}, true {error:.1e}");
            self.fail(&format!("{call}: false error"), detail);
        }
    }

    /// A solution above the target comes with a warning.
    fn judge_target<T: RealScalar>(&mut self, call: &str, truth: &Truth<T>, inform: &Inform) {
        let is_single = truth.epsilon() > f64::EPSILON;
        let target = if is_single { 1e-6 } else { 1e-12 };
        let warned = inform
            .warnings
            .iter()
            .any(|warning| matches!(warning, Warning::TargetMissed { .. }));
        let stated = inform.backward_error.unwrap_or(f64::NAN);
        if stated > target && !warned {
            let detail = format!("{stated:.1e}");
            self.fail(&format!("{call}: target missed without a warning"), detail);
        }
    }

    /// Factors that came with `Ok`.
    fn judge_acceptance<T: RealScalar>(&mut self, call: &str, truth: &Truth<T>, inform: &Inform) {
        let has = |wanted: fn(&Warning) -> bool| inform.warnings.iter().any(wanted);
        self.is_warned = has(|warning| matches!(warning, Warning::IllConditioned { .. }));
        let warned =
            self.is_warned || has(|warning| matches!(warning, Warning::PerturbedPivots { .. }));
        if truth.kind.is_singular {
            self.count("singular matrices accepted with a warning");
        }
        let rcond = inform.rcond;
        self.say(|| {
            format!(
                "{call}: ok, rcond {rcond:?}, warnings {:?}",
                inform.warnings
            )
        });
        if inform.rcond.is_some_and(f64::is_nan) || inform.growth.is_some_and(f64::is_nan) {
            let detail = format!("rcond {:?}, growth {:?}", inform.rcond, inform.growth);
            self.fail(&format!("{call}: a report that is not a number"), detail);
        }
        if warned {
            return;
        }
        if truth.kind.is_singular {
            let detail = format!("{}, rcond {rcond:?}", truth.kind.name);
            return self.fail(&format!("{call}: singular, no warning"), detail);
        }
        let Some(distance) = truth.distance_to_singular() else {
            return;
        };
        self.count("distances to singular matrices");
        if distance < SILENT_DISTANCE * truth.epsilon() {
            let detail = format!(
                "{}, singular after changes by {distance:.1e}, stated {rcond:?}",
                truth.kind.name
            );
            self.fail(&format!("{call}: nearly singular, no warning"), detail);
        }
    }

    /// What a refactorization says of itself, against a solve for a solution that is known here.
    fn judge_refactorized<T: RealScalar>(
        &mut self,
        outcome: &Refactorized,
        factors: &Factors<T>,
        truth: &Truth<T>,
    ) {
        let (name, stated) = match outcome {
            Refactorized::Reused { backward_error, .. } => ("reused", *backward_error),
            Refactorized::Repivoted { backward_error, .. } => ("repivoted", *backward_error),
        };
        self.count(name);
        self.say(|| format!("{outcome:?}"));
        let signs: Vec<f64> = (0..truth.n())
            .map(|i| if (i * 7 + i / 3) % 5 < 2 { -1.0 } else { 1.0 })
            .collect();
        let Some(b) = truth.times(&signs, false) else {
            return;
        };
        // A probe that reached the target says that other solutions do, unless steps of refinement are wanting. One that
        // missed it says nothing of them.
        let of_others = match stated {
            Some(stated) if stated <= TARGET && self.max_steps > 1 => stated.max(TARGET / 10.0),
            _ => f64::INFINITY,
        };
        match factors.solve(&b) {
            Ok(solution) => {
                let x = T::in_f64(&solution.x);
                self.judge_solution(name, truth, &x, &b, false, Some(of_others));
            }
            Err(error) => self.judge_refusal(name, truth, &error, Some((&b, false))),
        }
    }

    /// An error: it must be true of the matrix, in modes that leave no other reason.
    fn judge_refusal<T: RealScalar>(
        &mut self,
        call: &str,
        truth: &Truth<T>,
        error: &Error,
        b: Option<(&[T], bool)>,
    ) {
        self.say(|| format!("{call}: {error:?}"));
        let name = match error {
            Error::StructurallySingular { rank, .. } | Error::ZerosOnly { rank, .. } => {
                let nonzero = matches!(error, Error::ZerosOnly { .. });
                let true_rank = truth.matching(nonzero);
                self.count("refusals");
                if *rank != true_rank || true_rank == truth.n() {
                    let detail = format!("{error}; the rank is {true_rank} of {}", truth.n());
                    self.fail(&format!("{call}: false rank"), detail);
                }
                return;
            }
            Error::ZeroPivot { .. } => "ZeroPivot",
            Error::NoPivots { .. } => "NoPivots",
            Error::SingularToRounding { .. } => "SingularToRounding",
            Error::Unstable { .. } => "Unstable",
            Error::Overflow { .. } => "Overflow",
            Error::SolutionNotFinite { .. } => "SolutionNotFinite",
            other => {
                let detail = format!("{other:?}");
                return self.fail(&format!("{call}: an error without a reason"), detail);
            }
        };
        if !self.judges_refusals {
            return self.count("refusals in modes that may refuse");
        }
        self.count("refusals");
        if truth.kind.is_singular {
            return;
        }
        let n = truth.n();
        let [plain, ratio] = truth.singular_ratios();
        let limit = SINGULAR_RATIO * n as f64 * self.factor_epsilon;
        if ratio <= limit {
            if truth
                .optimal_rcond()
                .is_some_and(|r| r > 1e4 * self.factor_epsilon)
            {
                self.count("refusals that a better scaling would have spared");
            }
            return;
        }
        let of_solution = matches!(error, Error::SolutionNotFinite { .. });
        let overflow =
            b.and_then(|(b, transpose)| truth.overflow(b, transpose, self.factor_epsilon));
        match overflow {
            Some([exact, _]) if exact > 0.25 => return self.count("solutions that overflow"),
            Some([_, rounded]) if rounded > 0.25 => {
                return self.count("solutions that overflow within rounding");
            }
            _ if of_solution && self.is_warned => {
                return self.count("solutions that are lost after a warning");
            }
            Some(_) if of_solution && self.max_steps <= 1 => {
                return self.count("solutions that want refinement");
            }
            None if of_solution => {
                return self.count("solutions that may overflow");
            }
            _ => {}
        }
        if !of_solution && truth.singular_ratio_by_doubles() <= limit {
            return self.count("refusals for want of scale factors beyond doubles");
        }
        let detail = format!(
            "{}; {}, singular values {ratio:.1e}, rcond with the best scaling {:.1e}, solution by the largest number {}",
            error,
            truth.kind.name,
            truth.optimal_rcond().unwrap_or(f64::NAN),
            overflow.map_or_else(|| "-".to_owned(), |o| format!("{o:.1?}")),
        );
        let scaling = if plain > limit {
            ""
        } else {
            ", scaled by averages"
        };
        let class = format!("{call}: {name} of a good matrix{scaling}");
        self.fail(&class, detail);
    }
}

fn overflow<T: RealScalar>(truth: &Truth<T>, b: &[T], transpose: bool, epsilon: f64) -> f64 {
    let overflow = truth.overflow(b, transpose, epsilon);
    overflow.map_or(f64::INFINITY, |[_, rounded]| rounded)
}

/// What is wrong with a system of a batch.
fn alone(error: &Error) -> &Error {
    match error {
        Error::System { error, .. } => error,
        other => other,
    }
}

fn bits<T: RealScalar>(x: &[T]) -> Vec<u64> {
    x.iter().map(|v| RealScalar::to_f64(*v).to_bits()).collect()
}

fn stored<T: RealScalar>(a: &CsMat<T>, by_columns: bool) -> CsMat<T> {
    if by_columns { a.to_csc() } else { a.clone() }
}

fn stream(solver: &Solver) -> &luge::device::Stream {
    solver
        .stream()
        .unwrap_or_else(|| unreachable!("a solver on a device"))
}

fn upload(stream: &luge::device::Stream, values: &[f64]) -> luge::device::Buffer<f64> {
    let uploaded = stream.upload(values);
    uploaded.unwrap_or_else(|error| panic!("upload: {error}"))
}

fn download(stream: &luge::device::Stream, values: &luge::device::Buffer<f64>) -> Vec<f64> {
    let downloaded = stream.download(values);
    downloaded.unwrap_or_else(|error| panic!("download: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that has done nothing yet, on the CPU with default options.
    fn ill_conditioned() -> Warning {
        Warning::IllConditioned {
            rcond: 0.0,
            unknowns: Vec::new(),
            is_constant: false,
        }
    }

    fn step(outcome: &mut Outcome) -> Step<'_> {
        Step {
            rng: StdRng::seed_from_u64(1),
            group: "searched",
            judges_refusals: true,
            is_on_device: false,
            is_symmetric: false,
            max_steps: 10,
            is_warned: false,
            factor_epsilon: f64::EPSILON,
            outcome,
            verbose: false,
        }
    }

    fn truth(values: [f64; 4], is_singular: bool) -> Truth<f64> {
        let a = CsMat::new((2, 2), vec![0, 2, 4], vec![0, 1, 0, 1], values.to_vec());
        let name = "by hand";
        Truth::new(&a, Kind { name, is_singular })
    }

    fn classes(judge: impl FnOnce(&mut Step<'_>)) -> Vec<String> {
        let mut outcome = Outcome::default();
        judge(&mut step(&mut outcome));
        outcome.failures.into_iter().map(|f| f.class).collect()
    }

    #[test]
    fn a_false_error_is_noticed() {
        let good = truth([2.0, 1.0, 1.0, 3.0], false);
        let judged = |x: [f64; 2], stated| {
            classes(|step| step.judge_solution("solve", &good, &x, &[3.0, 4.0], false, stated))
        };
        assert!(judged([1.0, 1.0], Some(0.0)).is_empty());
        // The residual is 2e-9 of a scale of 8.
        let wrong = [1.0 + 1e-9, 1.0];
        assert!(
            judged(wrong, Some(1e-10)).is_empty(),
            "within a factor of ten"
        );
        assert_eq!(
            judged(wrong, Some(1e-12)),
            ["solve: false error [searched]"]
        );
        assert_eq!(
            judged(wrong, Some(0.9e-10)),
            ["solve: false error [searched]"]
        );
        let none = ["solve: no error stated [searched]"];
        assert_eq!(judged([1.0, 1.0], None), none);
        assert_eq!(judged([1.0, 1.0], Some(f64::NAN)), none);
        let infinite = ["solve: Ok with a number that is not finite [searched]"];
        assert_eq!(judged([f64::INFINITY, 1.0], Some(f64::INFINITY)), infinite);
        let transposed = classes(|step| {
            step.judge_solution(
                "solve",
                &truth([2.0, 9.0, 1.0, 3.0], false),
                &[1.0; 2],
                &[3.0, 12.0],
                true,
                Some(0.0),
            );
        });
        assert!(transposed.is_empty());
    }

    #[test]
    fn a_missed_target_needs_a_warning() {
        let good = truth([2.0, 1.0, 1.0, 3.0], false);
        let judged = |error, warnings: Vec<Warning>| {
            let mut inform = Inform::default();
            inform.backward_error = Some(error);
            inform.warnings = warnings;
            classes(|step| step.judge_target("solve", &good, &inform))
        };
        assert!(judged(1e-13, Vec::new()).is_empty());
        assert_eq!(
            judged(1e-11, Vec::new()),
            ["solve: target missed without a warning [searched]"]
        );
        let (backward_error, target) = (1e-11, 1e-12);
        let warning = Warning::TargetMissed {
            backward_error,
            target,
        };
        assert!(judged(1e-11, vec![warning]).is_empty());
    }

    #[test]
    fn a_singular_matrix_needs_a_warning() {
        let judged = |truth: &Truth<f64>, warnings: Vec<Warning>| {
            let mut inform = Inform::default();
            inform.warnings = warnings;
            classes(|step| step.judge_acceptance("factorize", truth, &inform))
        };
        assert!(judged(&truth([2.0, 1.0, 1.0, 3.0], false), Vec::new()).is_empty());
        let singular = truth([1.0, 2.0, 2.0, 4.0], true);
        assert_eq!(
            judged(&singular, Vec::new()),
            ["factorize: singular, no warning [searched]"]
        );
        assert!(judged(&singular, vec![ill_conditioned()]).is_empty());
        let near = ["factorize: nearly singular, no warning [searched]"];
        // Nobody said that it is.
        assert_eq!(
            judged(&truth([1.0, 2.0, 2.0, 4.0], false), Vec::new()),
            near
        );
        assert!(judged(&truth([1.0, 1.0, 1.0, 1.0 + 1e-15], false), Vec::new()).is_empty());
        let mut inform = Inform::default();
        inform.rcond = Some(f64::NAN);
        let found = classes(|step| {
            step.judge_acceptance("factorize", &truth([2.0, 1.0, 1.0, 3.0], false), &inform)
        });
        assert_eq!(
            found,
            ["factorize: a report that is not a number [searched]"]
        );
    }

    #[test]
    fn a_refusal_needs_a_singular_matrix() {
        let judged = |truth: &Truth<f64>, error: Error, b: Option<&[f64]>| {
            classes(|step| step.judge_refusal("factorize", truth, &error, b.map(|b| (b, false))))
        };
        let pivot = || Error::ZeroPivot { column: 0 };
        let good = truth([1e200, 1e-100, 1e-200, 3e300], false);
        assert_eq!(
            judged(&good, pivot(), None),
            ["factorize: ZeroPivot of a good matrix [searched]"]
        );
        assert_eq!(
            judged(&good, Error::NoPivots { column: None }, None),
            ["factorize: NoPivots of a good matrix [searched]"]
        );
        assert!(judged(&truth([1.0, 1.0, 1.0, 1.0 + 1e-15], false), pivot(), None).is_empty());
        let rank = |rank| Error::ZerosOnly {
            rank,
            unmatched_rows: Vec::new(),
            unmatched_columns: Vec::new(),
        };
        assert!(judged(&truth([1.0, 0.0, 2.0, 0.0], false), rank(1), None).is_empty());
        let false_rank = ["factorize: false rank [searched]"];
        assert_eq!(
            judged(&truth([1.0, 0.0, 2.0, 0.0], false), rank(0), None),
            false_rank
        );
        assert_eq!(judged(&good, rank(2), None), false_rank);
        let input = Error::NotFinite { row: 0, column: 0 };
        assert_eq!(
            judged(&good, input, None),
            ["factorize: an error without a reason [searched]"]
        );
        // The solution is 1e-200·b.
        let overflow = || Error::SolutionNotFinite { row: 0 };
        let small = truth([1e-200, 0.0, 0.0, 1.0], false);
        assert!(judged(&small, overflow(), Some(&[1e200, 0.0])).is_empty());
        let class = ["factorize: SolutionNotFinite of a good matrix [searched]"];
        assert_eq!(judged(&small, overflow(), Some(&[1e100, 0.0])), class);
    }

    #[test]
    fn no_refusal_is_judged_where_pivots_are_not_searched() {
        let mut outcome = Outcome::default();
        let mut step = step(&mut outcome);
        step.judges_refusals = false;
        let good = truth([2.0, 1.0, 1.0, 3.0], false);
        step.judge_refusal("factorize", &good, &Error::ZeroPivot { column: 0 }, None);
        assert!(outcome.failures.is_empty());
    }
}
