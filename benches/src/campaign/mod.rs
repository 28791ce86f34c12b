//! A campaign of hostile systems: each statement of the solver is held against exact measures.
//!
//! A step draws from one seed a pattern, values, a mode of the options and a sequence of calls, and judges every answer:
//!
//! | what the solver says | what is asked |
//! |---|---|
//! | a solution and its backward error | the true error, by [`luge_testkit::exact`], is at most ten times as large, and not above 10⁻¹⁰ where less was stated; for matrices in `f32` as many ε |
//! | a refusal, where pivots are searched and the matrix is scaled | the matrix is singular to rounding by a dense SVD after equilibration by factors that doubles hold, or the solution overflows, of this system or of one within rounding of the equilibrated one, or the factors came with a warning that solutions may have no correct digit |
//! | a refusal for want of a matching | the matching is as large as that says |
//! | factors without a warning | the matrix is not singular by construction, nor with any scaling |
//! | a refactorization and its backward error | a solve for a solution that is known here has that error |
//! | a refused refactorization | the factors give the bits that they gave before |
//!
//! A panic is a failure, and so is a step that takes too long twice. The outcome of a step depends on its seed, the backend,
//! the largest order, and whether matrices are symmetric.

mod command;
pub mod modes;
pub mod step;
pub mod truth;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;

pub use command::Arguments;

use step::{Failure, Outcome, Solvers};

/// Where the steps run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The CPU.
    Cpu,
    /// The simulator of a GPU.
    #[value(name = "sim")]
    Simulator,
    /// A GPU.
    Gpu,
}

/// A campaign.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Settings {
    /// Where it runs.
    pub backend: Backend,
    /// From which the seeds of the steps are drawn.
    pub seed: u64,
    /// Number of steps.
    pub steps: u64,
    /// Largest order.
    pub max_n: usize,
    /// Whether the matrices are symmetric, and mostly said to be.
    pub symmetric: bool,
    /// Steps at a time, each on a thread of its own.
    pub jobs: usize,
    /// How long a step may take.
    pub patience: Duration,
}

impl Settings {
    /// A campaign on a backend, with what that can do in reasonable time.
    pub fn new(backend: Backend, seed: u64, steps: u64) -> Self {
        Self {
            backend,
            seed,
            steps,
            max_n: match backend {
                Backend::Simulator => 40,
                Backend::Cpu | Backend::Gpu => 400,
            },
            symmetric: false,
            jobs: 1,
            patience: match backend {
                Backend::Simulator => Duration::from_secs(60),
                Backend::Cpu | Backend::Gpu => Duration::from_secs(10),
            },
        }
    }

    /// The seed of a step, by number.
    pub fn seed_of(&self, step: u64) -> u64 {
        // SplitMix64.
        let golden = 0x9e37_79b9_7f4a_7c15u64;
        let mut z = self
            .seed
            .wrapping_add(step.wrapping_add(1).wrapping_mul(golden));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

thread_local! {
    /// What the last panic of this thread said, and where.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps what panics say, and prints nothing of them on threads of a campaign.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANIC.with(|last| *last.borrow_mut() = Some(panic.to_string()));
            if std::thread::current().name() != Some(THREAD) {
                former(panic);
            }
        }));
    });
}

/// Class of steps that panic.
const PANIC_CLASS: &str = "panic";

/// Class of steps that take too long.
const SLOW_CLASS: &str = "took too long";

/// Name of the threads of a campaign.
const THREAD: &str = "campaign";

/// Runs one step; a panic is one of its failures. A step that takes too long runs once more, and then that counts: what it does
/// depends on its seed alone, while a machine that others use may stand still for a while.
pub fn run_step(seed: u64, settings: &Settings, solvers: &mut Solvers, verbose: bool) -> Outcome {
    let mut attempt = || {
        judged(settings, |outcome| {
            step::run(seed, settings, solvers, outcome, verbose);
        })
    };
    let outcome = unless_too_long(attempt(), attempt);
    if outcome.has(PANIC_CLASS) {
        // A solver that panicked is not to be trusted with another step.
        *solvers = Solvers::default();
    }
    outcome
}

/// The outcome, or that of another attempt if it took too long.
fn unless_too_long(outcome: Outcome, another: impl FnOnce() -> Outcome) -> Outcome {
    if outcome.has(SLOW_CLASS) && !outcome.has(PANIC_CLASS) {
        another()
    } else {
        outcome
    }
}

/// Does the work of a step; a panic and too much time are failures.
fn judged(settings: &Settings, work: impl FnOnce(&mut Outcome)) -> Outcome {
    keep_panics();
    let mut outcome = Outcome::default();
    let start = Instant::now();
    let ran = std::panic::catch_unwind(AssertUnwindSafe(|| work(&mut outcome)));
    if ran.is_err() {
        let said = PANIC.with(|last| last.borrow_mut().take());
        outcome.failures.push(Failure {
            class: PANIC_CLASS.into(),
            detail: said.unwrap_or_else(|| "on another thread".into()),
            after: outcome.counts.values().sum(),
        });
    }
    if start.elapsed() > settings.patience {
        outcome.failures.push(Failure {
            class: SLOW_CLASS.into(),
            detail: format!("{:.1} s", start.elapsed().as_secs_f64()),
            after: outcome.counts.values().sum(),
        });
    }
    outcome
}

/// A step that failed.
#[derive(Debug, Clone, Serialize)]
pub struct Example {
    /// Its seed.
    pub seed: u64,
    /// Order of the matrix.
    pub n: usize,
    /// How many answers were judged before.
    pub after: u64,
    /// The numbers.
    pub detail: String,
}

/// Failures of one kind.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Class {
    /// How many there are.
    pub count: u64,
    /// The first of them by the number of the step, one a step.
    pub first: Vec<Example>,
    /// The one with the smallest order, and of those the one that comes first in its step.
    pub smallest: Option<Example>,
}

/// How many examples of a class are kept.
const EXAMPLES: usize = 5;

/// What came of a campaign.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tally {
    /// Steps without a failure.
    pub passed: u64,
    /// Steps with one.
    pub failed: u64,
    /// Steps that did not run.
    pub skipped: u64,
    /// What was checked, and how often.
    pub counts: BTreeMap<&'static str, u64>,
    /// What does not hold.
    pub classes: BTreeMap<String, Class>,
}

impl Tally {
    /// Adds a step; steps come in the order of their numbers.
    fn add(&mut self, seed: u64, outcome: &Outcome) {
        if outcome.failures.is_empty() {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
        for (&what, count) in &outcome.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for failure in &outcome.failures {
            let class = self.classes.entry(failure.class.clone()).or_default();
            class.count += 1;
            let example = || Example {
                seed,
                n: outcome.n,
                after: failure.after,
                detail: failure.detail.clone(),
            };
            let is_known = class.first.last().is_some_and(|last| last.seed == seed);
            if class.first.len() < EXAMPLES && !is_known {
                class.first.push(example());
            }
            let size = (outcome.n, failure.after);
            if class
                .smallest
                .as_ref()
                .is_none_or(|s| size < (s.n, s.after))
            {
                class.smallest = Some(example());
            }
        }
    }

    /// Whether steps ran and none failed.
    pub fn is_success(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.counts {
            writeln!(f, "{count:>9}  {what}")?;
        }
        for (name, class) in &self.classes {
            writeln!(f, "\n{:>6}  {name}", class.count)?;
            if let Some(s) = &class.smallest {
                writeln!(
                    f,
                    "        smallest: {:#018x}, n {}: {}",
                    s.seed, s.n, s.detail
                )?;
            }
            for e in &class.first {
                writeln!(f, "        {:#018x}, n {}: {}", e.seed, e.n, e.detail)?;
            }
        }
        if !self.classes.is_empty() {
            writeln!(f)?;
        }
        let Self {
            passed,
            failed,
            skipped,
            ..
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// A step that a thread works on.
struct Current {
    seed: u64,
    since: Instant,
    was_told: bool,
}

/// Runs all steps. `progress` is called now and then with the number of steps that are done; `stuck` with the seed of each
/// step that takes too long, while it does.
pub fn run(
    settings: &Settings,
    progress: &(dyn Fn(u64) + Sync),
    stuck: &(dyn Fn(u64) + Sync),
) -> Tally {
    let next = AtomicU64::new(0);
    let outcomes: Mutex<BTreeMap<u64, (u64, Outcome)>> = Mutex::default();
    let jobs = settings.jobs.max(1);
    let current: Vec<Mutex<Option<Current>>> = (0..jobs).map(|_| Mutex::default()).collect();
    let lock = |place: &Mutex<Option<Current>>, value: Option<Current>| {
        *place.lock().unwrap_or_else(|e| e.into_inner()) = value;
    };
    let mut tally = Tally::default();
    let mut done = 0;
    std::thread::scope(|scope| {
        let workers: Vec<_> = current
            .iter()
            .map(|place| {
                let work = || {
                    let mut solvers = Solvers::default();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= settings.steps {
                            break;
                        }
                        let seed = settings.seed_of(number);
                        lock(
                            place,
                            Some(Current {
                                seed,
                                since: Instant::now(),
                                was_told: false,
                            }),
                        );
                        let outcome = run_step(seed, settings, &mut solvers, false);
                        lock(place, None);
                        let mut outcomes = outcomes.lock().unwrap_or_else(|e| e.into_inner());
                        outcomes.insert(number, (seed, outcome));
                    }
                };
                let thread = std::thread::Builder::new().name(THREAD.into());
                let spawned = thread.spawn_scoped(scope, work);
                spawned.unwrap_or_else(|error| panic!("no thread: {error}"))
            })
            .collect();
        loop {
            let is_over = workers.iter().all(|worker| worker.is_finished());
            for place in &current {
                let mut place = place.lock().unwrap_or_else(|e| e.into_inner());
                if let Some(step) = place.as_mut()
                    && !step.was_told
                    && step.since.elapsed() > settings.patience
                {
                    step.was_told = true;
                    stuck(step.seed);
                }
            }
            // In the order of the steps, whoever was first.
            let mut outcomes = outcomes.lock().unwrap_or_else(|e| e.into_inner());
            while let Some((seed, outcome)) = outcomes.remove(&done) {
                tally.add(seed, &outcome);
                done += 1;
            }
            drop(outcomes);
            progress(done);
            if is_over {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    tally.skipped = settings.steps - done;
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(n: usize, classes: &[&str]) -> Outcome {
        let failures = classes.iter().map(|&class| Failure {
            class: class.to_owned(),
            detail: "why".into(),
            after: 1,
        });
        Outcome {
            n,
            failures: failures.collect(),
            ..Outcome::default()
        }
    }

    #[test]
    fn steps_and_failures_are_counted_apart() {
        let mut tally = Tally::default();
        assert!(!tally.is_success(), "nothing ran");
        tally.add(10, &outcome(4, &[]));
        assert!(tally.is_success());
        tally.add(11, &outcome(3, &["lie", "lie", "panic"]));
        tally.add(12, &outcome(2, &["lie"]));
        assert!(!tally.is_success());
        assert_eq!((tally.passed, tally.failed), (1, 2));
        let lies = &tally.classes["lie"];
        assert_eq!(lies.count, 3);
        let seeds: Vec<u64> = lies.first.iter().map(|e| e.seed).collect();
        assert_eq!(seeds, [11, 12]);
        assert_eq!(lies.smallest.as_ref().map(|e| e.n), Some(2));
        assert!(
            tally
                .to_string()
                .ends_with("\n1 passed, 2 failed, 0 skipped")
        );
    }

    #[test]
    fn a_panic_is_a_failure_with_its_words() {
        let settings = Settings::new(Backend::Cpu, 1, 1);
        let outcome = judged(&settings, |_| panic!("on purpose"));
        assert_eq!(outcome.failures.len(), 1);
        assert_eq!(outcome.failures[0].class, "panic");
        assert!(outcome.failures[0].detail.contains("on purpose"));
    }

    #[test]
    fn a_step_that_takes_too_long_is_a_failure() {
        let settings = Settings {
            patience: Duration::ZERO,
            ..Settings::new(Backend::Cpu, 1, 1)
        };
        let outcome = judged(&settings, |_| std::thread::sleep(Duration::from_millis(1)));
        assert_eq!(outcome.failures[0].class, "took too long");
    }

    #[test]
    fn a_step_that_took_too_long_has_another_attempt_unless_it_panicked() {
        let after = |classes: &[&str]| {
            let mut is_repeated = false;
            let kept = unless_too_long(outcome(2, classes), || {
                is_repeated = true;
                outcome(2, &["lie"])
            });
            (is_repeated, kept.failures.len())
        };
        assert_eq!(after(&["took too long"]), (true, 1));
        assert_eq!(after(&["lie", "took too long"]), (true, 1));
        assert_eq!(after(&["panic", "took too long"]), (false, 2));
        assert_eq!(after(&["lie", "lie"]), (false, 2));
        assert_eq!(after(&[]), (false, 0));
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_jobs() {
        let settings = Settings::new(Backend::Cpu, 9, 120);
        let alone = run(&settings, &|_| {}, &|_| {});
        let jobs = 3;
        let together = run(&Settings { jobs, ..settings }, &|_| {}, &|_| {});
        assert_eq!(alone.to_string(), together.to_string());
        assert_eq!(alone.passed + alone.failed, 120);
    }

    #[test]
    fn seeds_of_steps_differ() {
        let settings = Settings::new(Backend::Cpu, 9, 1000);
        let seeds: std::collections::BTreeSet<u64> =
            (0..1000).map(|k| settings.seed_of(k)).collect();
        assert_eq!(seeds.len(), 1000);
    }
}
