//! `cargo xtask slips`: which slips in kernels the tests on the simulator notice.
//!
//! A slip is one small change to a kernel that makes it wrong: a bound one too far, a sign, a barrier left out. The
//! [list] has slips of every module of `gpu-kernels`; each names the tests that run its kernel.
//!
//! All slips are compiled at once, each behind a switch, and one at a time is made when the tests run (R. H. Untch,
//! A. J. Offutt and M. J. Harrold, "Mutation analysis using mutant schemata", ISSTA 1993): a build takes longer than
//! the tests of many slips. That is done in a copy of the workspace; the checkout itself is only read.

mod list;
mod scratch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::list::SLIPS;
use crate::workspace::Workspace;

/// Environment variable with the number of the slip that is made.
const SWITCH: &str = "LUGE_SLIP";

/// What a run with a slip may take beyond five times the run without it.
const GRACE: Duration = Duration::from_secs(60);

/// The test target of `luge-tests` with the tests of all kernels.
const TARGET: &str = "simulator";

/// A module of that target, and the names of tests of it, or parts of them.
type Tests = (&'static str, &'static [&'static str]);

/// A small change to a kernel that makes it wrong.
pub(super) struct Slip {
    /// How it is called on the command line and in the output.
    name: &'static str,
    /// The file, below `gpu-kernels/src`.
    file: &'static str,
    /// Text that occurs once in the file.
    within: &'static str,
    /// What is replaced: it occurs once in `within`, and is an expression or one or more statements.
    old: &'static str,
    /// What it is replaced by.
    new: &'static str,
    /// What notices it.
    tests: Tests,
    /// What goes wrong.
    why: &'static str,
    /// Why no test can notice it, if the kernel computes the same with it.
    equivalent: Option<&'static str>,
}

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Args {
    /// Make only slips whose name or file contains one of these, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// List the slips and make none.
    #[arg(long)]
    list: bool,
    /// How many slips are tried at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// Says what became of a slip.
fn report(slip: &Slip, is_noticed: bool, took: Duration) {
    let Slip {
        name, file, why, ..
    } = slip;
    match (is_noticed, slip.equivalent) {
        (true, None) => println!("noticed     {name} ({:.1} s)", took.as_secs_f64()),
        (true, Some(_)) => println!("noticed     {name}, which is listed as equivalent"),
        (false, Some(reason)) => println!("equivalent  {name}: {reason}"),
        (false, None) => println!("SURVIVED    {name} ({file}): {why}"),
    }
}

/// Makes the slips one at a time and runs the tests of each.
///
/// # Errors
///
/// If the workspace cannot be copied or built, or the tests fail without any slip.
pub fn slips(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let mut chosen = BTreeSet::new();
    if args.only.is_empty() {
        chosen.extend(0..SLIPS.len());
    }
    for part in &args.only {
        let has_part = |slip: &Slip| slip.name.contains(part) || slip.file.contains(part);
        if !SLIPS.iter().any(has_part) {
            bail!("no slip has '{part}' in its name or file");
        }
        chosen.extend((0..SLIPS.len()).filter(|&number| has_part(&SLIPS[number])));
    }
    let chosen: Vec<usize> = chosen.into_iter().collect();
    if args.list {
        for &number in &chosen {
            let slip = &SLIPS[number];
            println!("{:<28} {:<32} {}", slip.name, slip.file, slip.why);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let kernels = workspace.root.join("gpu-kernels/src");
    let (rounds, stale) = scratch::rounds(&kernels, &chosen)?;
    for (number, reason) in &stale {
        println!("does not apply  {}: {reason}", SLIPS[*number].name);
    }
    let (mut noticed, mut survived, mut unexpected) = (0, 0, 0);
    for round in &rounds {
        let tree = scratch::copy(workspace, round)?;
        let executable = build(workspace, &tree)?;
        let runner = Runner::new(workspace, &tree, executable)?;
        let limits = runner.without_slips(round)?;
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        let work = || -> Result<()> {
            while let Some(&number) = round.get(next.fetch_add(1, Ordering::Relaxed)) {
                let slip = &SLIPS[number];
                let (is_noticed, took) = runner.with_slip(number, limits[&slip.tests])?;
                report(slip, is_noticed, took);
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                results.push((slip, is_noticed));
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..args.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            let outcomes = workers.into_iter().map(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            outcomes.collect::<Result<Vec<()>>>()
        })?;
        for (slip, is_noticed) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
            noticed += usize::from(is_noticed);
            survived += usize::from(!is_noticed);
            unexpected += usize::from(is_noticed == slip.equivalent.is_some());
        }
    }
    println!(
        "{noticed} noticed, {survived} survived, {} stale",
        stale.len()
    );
    Ok(if unexpected == 0 && stale.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds the tests across crates in the copy: their executable.
fn build(workspace: &Workspace, tree: &Path) -> Result<PathBuf> {
    let mut command = crate::process::cargo(tree);
    command
        .args(["test", "--locked", "--package", "luge-tests", "--no-run"])
        .args(["--test", TARGET])
        .args(["--message-format", "json-render-diagnostics"])
        // Apart from what the checkout builds, which would have to be built again after it.
        .env("CARGO_TARGET_DIR", workspace.target.join("slips/build"))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let output = command
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .with_context(|| format!("{command:?} did not start"))?;
    if !output.status.success() {
        bail!(
            "the tests do not build with the slips of this list: {}",
            output.status
        );
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        if let (Some(TARGET), Some(path)) = (
            message["target"]["name"].as_str(),
            message["executable"].as_str(),
        ) {
            return Ok(PathBuf::from(path));
        }
    }
    bail!("cargo built no test target '{TARGET}'")
}

/// Runs tests of the copy.
struct Runner {
    /// Folder in which tests run.
    folder: PathBuf,
    /// Folder of their output.
    logs: PathBuf,
    executable: PathBuf,
}

impl Runner {
    fn new(workspace: &Workspace, tree: &Path, executable: PathBuf) -> Result<Self> {
        let logs = workspace.target.join("slips/logs");
        std::fs::create_dir_all(&logs)
            .with_context(|| format!("{} cannot be created", logs.display()))?;
        Ok(Self {
            folder: tree.join("tests"),
            logs,
            executable,
        })
    }

    /// The tests of a slip, with their output going to the log `name`.
    fn command(&self, slip: &Slip, name: &str) -> Result<(Command, PathBuf)> {
        let (_, filters) = slip.tests;
        let log = self.logs.join(format!("{name}.log"));
        let file =
            File::create(&log).with_context(|| format!("{} cannot be written", log.display()))?;
        let mut command = Command::new(&self.executable);
        command
            .args(filters)
            .current_dir(&self.folder)
            .env_remove(SWITCH)
            // Tests that read the corpus take long, and are skipped in the copy.
            .env_remove("LUGE_CORPUS")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        Ok((command, log))
    }

    /// Runs the tests of these slips without them: they pass, and there are some. How long those of a slip may take.
    fn without_slips(&self, round: &[usize]) -> Result<BTreeMap<Tests, Duration>> {
        let mut limits = BTreeMap::new();
        for slip in round.iter().map(|&number| &SLIPS[number]) {
            if limits.contains_key(&slip.tests) {
                continue;
            }
            let (target, filters) = slip.tests;
            let (mut command, log) = self.command(slip, target)?;
            let start = Instant::now();
            let status = command.status()?;
            let took = start.elapsed();
            if !status.success() {
                bail!(
                    "tests {filters:?} of '{target}' fail without any slip: see {}",
                    log.display()
                );
            }
            if std::fs::read_to_string(&log)?.contains("running 0 tests") {
                bail!(
                    "'{target}' has no tests {filters:?}, which slip '{}' names",
                    slip.name
                );
            }
            limits.insert(slip.tests, 5 * took + GRACE);
        }
        Ok(limits)
    }

    /// Runs the tests of slip `number` with it: whether they notice it, as a run does that fails or takes longer than the
    /// limit, and how long that took.
    fn with_slip(&self, number: usize, limit: Duration) -> Result<(bool, Duration)> {
        let slip = &SLIPS[number];
        let (mut command, _) = self.command(slip, slip.name)?;
        let start = Instant::now();
        let mut child = command
            .env(SWITCH, number.to_string())
            .spawn()
            .with_context(|| format!("{command:?} did not start"))?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((!status.success(), start.elapsed()));
            }
            if start.elapsed() > limit {
                child.kill()?;
                child.wait()?;
                return Ok((true, start.elapsed()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
