//! `cargo xtask mutants`: changes one operator, guard or function at a time, and counts how many of these
//! mutants the tests notice.
//!
//! The mutants are those of the crate cargo-mutants, over the code of [`AREAS`]. A seed draws some of
//! them, each as likely as any other. Every one is built in a copy of the workspace, below the target
//! folder, which is built incrementally and never the tree that somebody works in; then the tests of its
//! package run, and where a mutant on the host's side of a device survives those, the tests across crates
//! that run its kernels on the simulator.
//!
//! A mutant is **caught** if a test fails, **timeout** if the tests take far longer than without it (which
//! counts as noticed), **missed** if all tests pass, **unviable** if it does not compile (which counts
//! for nothing). Equivalent mutants that are drawn are not run, and count for nothing either.
//!
//! What is left out, by rule: `fmt` of `Debug` and `Display`, whose text is for people. Macros
//! (assertions, `tracing` events) have no mutants. By name: the mutants of `equivalent-mutants.json`,
//! which change no result, each with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::process;
use crate::workspace::Workspace;

/// The version of cargo-mutants that is installed. Another one draws other mutants from the same seed.
const VERSION: &str = "27.1.0";

/// What is never mutated, as regular expressions over the names of mutants.
const EXCLUDED: [&str; 1] = [r"<impl [^>]*\b(Debug|Display) for "];

/// Mutants that run sorted by area, so that few crates are built anew between two of them. An interrupted
/// run has finished whole batches, which are as good a sample as all.
const BATCH: usize = 60;

/// Virtual memory of everything that runs for one mutant, in KiB: a loop that pushes forever ends in an error.
const MEMORY_KIB: u64 = 12 << 20;

/// Code that is mutated, and what is run for it.
struct Area {
    package: &'static str,
    /// How paths of its files begin. The first area that fits a file has it.
    files: &'static str,
    /// Which tests of its package run: arguments of `cargo test`.
    own: &'static [&'static str],
    /// Which tests of `luge-tests` run if those of the package pass.
    across: &'static [&'static str],
}

const AREAS: [Area; 16] = [
    area("luge-matrix-io", "crates/matrix-io/src/", &["--tests"], &[]),
    area("luge-ordering", "crates/ordering/src/", &["--tests"], &[]),
    area(
        "luge-frontier-pool",
        "crates/frontier-pool/src/",
        &["--tests"],
        &["--test", "symbolic"],
    ),
    area(
        "luge-symbolic",
        "crates/symbolic/src/gpu/",
        &["--lib"],
        &["--test", "symbolic", "--test", "panels"],
    ),
    area("luge-symbolic", "crates/symbolic/src/", &["--tests"], &[]),
    area(
        "luge-frontal",
        "crates/frontal/src/gpu/",
        &["--lib"],
        &["--test", "frontal", "--test", "frontal_solve"],
    ),
    area("luge-frontal", "crates/frontal/src/", &["--tests"], &[]),
    area(
        "luge-numeric",
        "crates/numeric/src/gpu/",
        &["--lib"],
        &["--test", "numeric"],
    ),
    area("luge-numeric", "crates/numeric/src/", &["--tests"], &[]),
    area(
        "luge-solve",
        "crates/solve/src/gpu/",
        &["--lib"],
        &["--test", "solve", "--test", "residuals"],
    ),
    area("luge-solve", "crates/solve/src/", &["--tests"], &[]),
    area("luge", "crates/luge/src/host_path.rs", POLICY, &[]),
    area("luge", "crates/luge/src/probe.rs", POLICY, &[]),
    area("luge", "crates/luge/src/device_path.rs", DEVICE, &[]),
    area("luge", "crates/luge/src/device_choice.rs", DEVICE, &[]),
    area(
        "luge",
        "crates/luge/src/batch.rs",
        &["--lib", "--test", "batch"],
        &[],
    ),
];

const POLICY: &[&str] = &["--lib", "--test", "stale_pivots", "--test", "facade"];
const DEVICE: &[&str] = &["--lib", "--test", "device"];

const fn area(
    package: &'static str,
    files: &'static str,
    own: &'static [&'static str],
    across: &'static [&'static str],
) -> Area {
    Area {
        package,
        files,
        own,
        across,
    }
}

/// What `cargo xtask mutants` is asked for.
#[derive(clap::Args)]
pub struct Args {
    /// How many mutants are drawn.
    #[arg(long, default_value_t = 300)]
    count: usize,
    /// The seed of the draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only mutants whose name contains this text; the draw is among these.
    #[arg(long)]
    only: Option<String>,
    /// Keep the outcomes of the results file, and run what it lacks.
    #[arg(long)]
    resume: bool,
    /// Keep the outcomes of the results file but the missed ones, which run again.
    #[arg(long, conflicts_with = "resume")]
    retry: bool,
    /// Print the drawn mutants, and run nothing.
    #[arg(long)]
    list: bool,
}

/// A mutant as `cargo mutants --list --json` tells it.
#[derive(Deserialize)]
struct Listed {
    package: String,
    file: String,
    name: String,
    span: Span,
}

#[derive(Deserialize)]
struct Span {
    start: Position,
}

#[derive(Deserialize)]
struct Position {
    line: usize,
}

/// A mutant with what identifies it after lines above it have moved.
struct Mutant {
    /// Index in [`AREAS`].
    area: usize,
    file: String,
    /// `file:line:column: change`, by which cargo-mutants selects it.
    name: String,
    /// `file: change`.
    change: String,
    /// The line of the source it begins in, without the space around it.
    code: String,
    /// Whether `equivalent-mutants.json` has it.
    is_equivalent: bool,
}

/// An entry of `equivalent-mutants.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Equivalent {
    /// `file: change`.
    mutant: String,
    /// The line of the source, without the space around it.
    code: String,
    /// Why no result can differ.
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Caught,
    Timeout,
    Missed,
    Unviable,
}

/// A line of the results file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    name: String,
    code: String,
    outcome: Outcome,
    seconds: f64,
}

/// Draws mutants, runs what is to be run, and prints how many were noticed.
pub fn mutants(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let bin = install(workspace)?;
    let mut all = list(workspace, &bin)?;
    mark_equivalent(&mut all, &read_equivalent(&workspace.root)?)?;
    if let Some(text) = &args.only {
        all.retain(|mutant| mutant.name.contains(text.as_str()));
    }
    let total = all.len();
    let mut drawn = draw(all, args.count, args.seed);
    let (count, seed) = (drawn.len(), args.seed);
    drawn.retain(|mutant| !mutant.is_equivalent);
    let equivalent = count - drawn.len();
    println!("{count} of {total} mutants, drawn by the seed {seed}; {equivalent} are equivalent");
    if args.list {
        drawn.iter().for_each(|mutant| println!("{}", mutant.name));
        return Ok(ExitCode::SUCCESS);
    }
    let folder = workspace.target.join("mutants");
    fs::create_dir_all(&folder)?;
    let results = folder.join("results.jsonl");
    let mut known = BTreeMap::new();
    if args.resume || args.retry {
        for row in read_rows(&results)? {
            known.insert((row.name.clone(), row.code.clone()), row);
        }
        if args.retry {
            known.retain(|_, row| row.outcome != Outcome::Missed);
        }
    }
    let mut file = fs::File::create(&results)
        .with_context(|| format!("{} cannot be written", results.display()))?;
    for row in known.values() {
        writeln!(file, "{}", serde_json::to_string(row)?)?;
    }
    let mut bench = Bench::new(workspace, &bin, folder)?;
    let mut rows: Vec<Row> = Vec::new();
    for batch in drawn.chunks(BATCH) {
        let mut open = Vec::new();
        for mutant in batch {
            match known.get(&(mutant.name.clone(), mutant.code.clone())) {
                Some(row) => rows.push(row.clone()),
                None => open.push(mutant),
            }
        }
        open.sort_by(|a, b| (a.area, &a.name).cmp(&(b.area, &b.name)));
        let mut finish = |row: Row| {
            writeln!(file, "{}", serde_json::to_string(&row)?)?;
            let word = format!("{:?}", row.outcome).to_lowercase();
            rows.push(row);
            let (place, row) = (rows.len(), &rows[rows.len() - 1]);
            println!("{place:4}  {word:8} {:5.0} s  {}", row.seconds, row.name);
            anyhow::Ok(())
        };
        // The tests across crates come last: everything is built for them.
        let mut survivors = Vec::new();
        for mutant in open {
            let area = &AREAS[mutant.area];
            let row = bench.row(mutant, area.package, area.own)?;
            if row.outcome == Outcome::Missed && !area.across.is_empty() {
                survivors.push((mutant, row.seconds));
            } else {
                finish(row)?;
            }
        }
        for (mutant, seconds) in survivors {
            let mut row = bench.row(mutant, "luge-tests", AREAS[mutant.area].across)?;
            row.seconds += seconds;
            finish(row)?;
        }
    }
    print_summary(&rows);
    println!("{}", results.display());
    Ok(ExitCode::SUCCESS)
}

fn print_summary(rows: &[Row]) {
    let count = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    let (caught, timeout) = (count(Outcome::Caught), count(Outcome::Timeout));
    let (missed, unviable) = (count(Outcome::Missed), count(Outcome::Unviable));
    if missed > 0 {
        println!("\nmissed:");
    }
    for row in rows.iter().filter(|row| row.outcome == Outcome::Missed) {
        println!("  {}\n      {}", row.name, row.code);
    }
    let viable = caught + timeout + missed;
    let rate = 100.0 * (caught + timeout) as f64 / viable.max(1) as f64;
    println!(
        "\n{caught} caught, {timeout} timeout, {missed} missed, {unviable} unviable: \
         {rate:.1} % of {viable} noticed"
    );
}

/// The folder of the pinned cargo-mutants, which is installed if it is not there.
fn install(workspace: &Workspace) -> Result<PathBuf> {
    let tools = workspace.target.join("tools");
    let bin = tools.join("bin");
    let program = bin.join("cargo-mutants");
    let version = process::output(Command::new(&program).args(["mutants", "--version"]));
    if version.as_deref() != Some(&format!("cargo-mutants {VERSION}")) {
        println!(
            "installing cargo-mutants {VERSION} into {}",
            tools.display()
        );
        process::run(
            process::cargo(&workspace.root)
                .args(["install", "cargo-mutants", "--locked", "--version", VERSION])
                .arg("--root")
                .arg(&tools)
                .arg("--target-dir")
                .arg(tools.join("build")),
        )?;
    }
    Ok(program)
}

/// Every mutant of [`AREAS`], by name.
fn list(workspace: &Workspace, program: &Path) -> Result<Vec<Mutant>> {
    let mut command = Command::new(program);
    command
        .current_dir(&workspace.root)
        .args(["mutants", "--no-config", "--list", "--json"]);
    for text in EXCLUDED {
        command.args(["--exclude-re", text]);
    }
    let packages: BTreeSet<&str> = AREAS.iter().map(|area| area.package).collect();
    for package in packages {
        command.args(["--package", package]);
    }
    let text =
        process::output(&mut command).with_context(|| format!("{command:?} lists no mutants"))?;
    let listed: Vec<Listed> = serde_json::from_str(&text)
        .with_context(|| format!("cargo-mutants {VERSION} answers in another format"))?;
    let mut sources: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut mutants = Vec::new();
    for mutant in listed {
        let Some(area) = area_of(&mutant.package, &mutant.file) else {
            continue;
        };
        if !sources.contains_key(&mutant.file) {
            let text = fs::read_to_string(workspace.root.join(&mutant.file))
                .with_context(|| format!("{} cannot be read", mutant.file))?;
            let lines = text.lines().map(|line| line.trim().to_owned()).collect();
            sources.insert(mutant.file.clone(), lines);
        }
        let code = sources[&mutant.file]
            .get(mutant.span.start.line - 1)
            .cloned()
            .with_context(|| format!("{}: no such line", mutant.name))?;
        mutants.push(Mutant {
            area,
            change: change(&mutant.file, &mutant.name)?,
            file: mutant.file,
            name: mutant.name,
            code,
            is_equivalent: false,
        });
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

fn area_of(package: &str, file: &str) -> Option<usize> {
    AREAS
        .iter()
        .position(|area| area.package == package && file.starts_with(area.files))
}

/// `file: change` of the name `file:line:column: change`.
fn change(file: &str, name: &str) -> Result<String> {
    let change = name
        .strip_prefix(file)
        .and_then(|rest| rest.split_once(": "))
        .map(|(_, change)| change)
        .with_context(|| format!("'{name}' does not begin with its file and place"))?;
    Ok(format!("{file}: {change}"))
}

fn read_equivalent(root: &Path) -> Result<Vec<Equivalent>> {
    let path = root.join("xtask/equivalent-mutants.json");
    let text =
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not understood", path.display()))
}

/// Marks the mutants that the list has.
fn mark_equivalent(all: &mut [Mutant], equivalent: &[Equivalent]) -> Result<()> {
    let mut entries: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for entry in equivalent {
        if entry.reason.trim().is_empty() {
            bail!("equivalent-mutants.json: '{}' has no reason", entry.mutant);
        }
        if entries
            .insert((&entry.mutant, &entry.code), false)
            .is_some()
        {
            bail!("equivalent-mutants.json: '{}' is there twice", entry.mutant);
        }
    }
    for mutant in all {
        if let Some(is_found) = entries.get_mut(&(mutant.change.as_str(), mutant.code.as_str())) {
            *is_found = true;
            mutant.is_equivalent = true;
        }
    }
    if let Some(((mutant, code), _)) = entries.iter().find(|(_, is_found)| !**is_found) {
        bail!("equivalent-mutants.json: no mutant is '{mutant}' in the line '{code}'");
    }
    Ok(())
}

/// The first `count` of a permutation of `mutants` that the seed alone determines (Fisher and Yates, with
/// the numbers of SplitMix64).
fn draw<T>(mut mutants: Vec<T>, count: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let count = count.min(mutants.len());
    for k in 0..count {
        let left = (mutants.len() - k) as u64;
        // The remainder is biased by less than 2^-50 here.
        mutants.swap(k, k + (next() % left) as usize);
    }
    mutants.truncate(count);
    mutants
}

fn read_rows(path: &Path) -> Result<Vec<Row>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("{} cannot be read", path.display()));
        }
    };
    text.lines()
        .map(|line| {
            serde_json::from_str(line)
                .with_context(|| format!("{}: '{line}' is not understood", path.display()))
        })
        .collect()
}

/// The copy of the workspace, and how long its tests take.
struct Bench<'a> {
    program: &'a Path,
    folder: PathBuf,
    tree: PathBuf,
    corpus: PathBuf,
    /// By package and arguments: the time limit of the tests.
    limits: BTreeMap<(&'static str, &'static [&'static str]), Duration>,
}

impl<'a> Bench<'a> {
    fn new(workspace: &Workspace, program: &'a Path, folder: PathBuf) -> Result<Self> {
        let tree = folder.join("tree");
        copy_tree(&workspace.root, &tree)?;
        Ok(Self {
            program,
            tree,
            folder,
            corpus: workspace.corpus(),
            limits: BTreeMap::new(),
        })
    }

    /// Runs `tests` of `package` for `mutant`.
    fn row(
        &mut self,
        mutant: &Mutant,
        package: &'static str,
        tests: &'static [&'static str],
    ) -> Result<Row> {
        let start = Instant::now();
        let outcome = self.outcome(mutant, package, tests)?;
        Ok(Row {
            name: mutant.name.clone(),
            code: mutant.code.clone(),
            outcome,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn outcome(
        &mut self,
        mutant: &Mutant,
        package: &'static str,
        tests: &'static [&'static str],
    ) -> Result<Outcome> {
        let limit = self.limit(package, tests)?;
        let mut command = self.limited(self.program);
        command
            .args(["mutants", "--no-config", "--in-place", "--baseline=skip"])
            .args(["--colors=never", "--annotations=none"])
            .args(["--package", AREAS[mutant.area].package])
            .args(["--test-package", package])
            .arg(format!("--timeout={}", limit.as_secs()))
            .arg("--file")
            .arg(&mutant.file)
            .arg(format!("--re=^{}$", escape(&mutant.name)))
            .arg("--output")
            .arg(&self.folder);
        for argument in tests {
            command.arg(format!("--cargo-arg={argument}"));
        }
        let output = command
            .output()
            .with_context(|| format!("{command:?} did not start"))?;
        let path = self.folder.join("mutants.out/outcomes.json");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        read_outcome(&text, &mutant.name).with_context(|| {
            format!(
                "{}: {}{}",
                mutant.name,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }

    /// How long `tests` may take with a mutant. The first call builds and runs them without one.
    fn limit(&mut self, package: &'static str, tests: &'static [&'static str]) -> Result<Duration> {
        if let Some(&limit) = self.limits.get(&(package, tests)) {
            return Ok(limit);
        }
        let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let mut build = self.limited(&cargo);
        build.args(["test", "--quiet", "--no-run", "--package", package]);
        process::run(build.args(tests))?;
        let mut run = self.limited(&cargo);
        run.args(["test", "--quiet", "--package", package]);
        let start = Instant::now();
        process::run(run.args(tests).stdout(Stdio::null()))
            .context("the tests fail without a mutant")?;
        let limit = Duration::from_secs(30) + 5 * start.elapsed();
        self.limits.insert((package, tests), limit);
        Ok(limit)
    }

    /// `program` in the copy of the workspace, with bounded memory and the same random cases each time.
    fn limited(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("ulimit -v {MEMORY_KIB} && exec \"$0\" \"$@\""))
            .arg(program)
            .current_dir(&self.tree)
            .stdin(Stdio::null())
            .env("CARGO_TARGET_DIR", self.folder.join("build"))
            .env("CARGO_INCREMENTAL", "1")
            .env("LUGE_CORPUS", &self.corpus)
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0");
        command
    }
}

/// The outcome of the mutant `name`, from the `outcomes.json` of a run of cargo-mutants. It may hold others: those
/// that leave out a field of a struct run whatever is asked for.
fn read_outcome(text: &str, name: &str) -> Result<Outcome> {
    let value: serde_json::Value = serde_json::from_str(text)?;
    let outcomes = value["outcomes"].as_array().map_or(&[][..], Vec::as_slice);
    let outcome = outcomes
        .iter()
        .find(|outcome| outcome["scenario"]["Mutant"]["name"] == name)
        .context("the mutant did not run")?;
    match outcome["summary"].as_str() {
        Some("CaughtMutant") => Ok(Outcome::Caught),
        Some("Timeout") => Ok(Outcome::Timeout),
        Some("MissedMutant") => Ok(Outcome::Missed),
        Some("Unviable") => Ok(Outcome::Unviable),
        other => bail!("cargo-mutants {VERSION} answers {other:?}"),
    }
}

/// `text` as a regular expression that matches it alone.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Makes `tree` the same as the files of `root` that git tracks or would track. Files that are equal are not
/// touched, so that cargo builds only what changed.
fn copy_tree(root: &Path, tree: &Path) -> Result<()> {
    let mut command = Command::new("git");
    command
        .current_dir(root)
        .args(["ls-files", "-co", "--exclude-standard", "--deduplicate"]);
    let files = process::output(&mut command).context("git does not list the workspace's files")?;
    let mut wanted = BTreeSet::new();
    for name in files.lines() {
        let (from, to) = (root.join(name), tree.join(name));
        // A file that is deleted and not committed yet is still listed.
        let Ok(bytes) = fs::read(&from) else {
            continue;
        };
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        if fs::read(&to).ok().as_deref() != Some(&bytes) {
            fs::write(&to, bytes).with_context(|| format!("{} cannot be written", to.display()))?;
        }
        wanted.insert(to);
    }
    remove_others(tree, &wanted)
}

/// Removes the files below `folder` that are not `wanted`.
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(change: &str, code: &str) -> Mutant {
        Mutant {
            area: 0,
            file: "a.rs".to_owned(),
            name: change.replacen(": ", ":1:2: ", 1),
            change: change.to_owned(),
            code: code.to_owned(),
            is_equivalent: false,
        }
    }

    fn equivalent(mutant: &str, code: &str, reason: &str) -> Equivalent {
        Equivalent {
            mutant: mutant.to_owned(),
            code: code.to_owned(),
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn a_seed_draws_distinct_mutants_and_always_the_same() {
        let drawn = draw((0..1000).collect(), 300, 7);
        assert_eq!(drawn, draw((0..1000).collect(), 300, 7));
        assert_eq!(drawn[..100], draw((0..1000).collect(), 100, 7)[..]);
        assert_ne!(drawn, draw((0..1000).collect(), 300, 8));
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 300);
        let mut all = draw((0..50).collect(), 80, 7);
        all.sort();
        assert_eq!(all, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn every_place_is_drawn_as_often_as_any_other() {
        let mut counts = [0u32; 10];
        for seed in 0..10_000 {
            counts[draw((0..10).collect(), 1, seed)[0]] += 1;
        }
        // 1000 expected, with a standard deviation of 30.
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_file_belongs_to_the_first_area_that_fits() {
        let files = |package, file| area_of(package, file).map(|area| AREAS[area].files);
        assert_eq!(
            files("luge-frontal", "crates/frontal/src/gpu/plan.rs"),
            Some("crates/frontal/src/gpu/")
        );
        assert_eq!(
            files("luge-frontal", "crates/frontal/src/lu/mod.rs"),
            Some("crates/frontal/src/")
        );
        assert_eq!(
            files("luge", "crates/luge/src/batch.rs"),
            Some("crates/luge/src/batch.rs")
        );
        assert_eq!(files("luge", "crates/luge/src/host.rs"), None);
    }

    #[test]
    fn places_are_no_part_of_a_change() {
        assert_eq!(
            change("a/b.rs", "a/b.rs:12:3: replace f -> X: Y with Z").unwrap(),
            "a/b.rs: replace f -> X: Y with Z"
        );
        assert!(change("a/c.rs", "a/b.rs:12:3: replace < with >").is_err());
    }

    #[test]
    fn equivalent_mutants_are_known_by_change_and_code() {
        let all = || {
            [
                mutant("a.rs: replace < with <= in f", "if x < y {"),
                mutant("a.rs: replace < with <= in f", "if y < x {"),
            ]
        };
        let entry = |code, reason| equivalent("a.rs: replace < with <= in f", code, reason);
        let mut marked = all();
        mark_equivalent(&mut marked, &[entry("if y < x {", "equal there")]).unwrap();
        assert_eq!(marked.map(|mutant| mutant.is_equivalent), [false, true]);

        let message = |entries: &[Equivalent]| {
            let error = mark_equivalent(&mut all(), entries).unwrap_err();
            error.to_string()
        };
        assert!(message(&[entry("if z {", "equal there")]).contains("no mutant is"));
        assert!(message(&[entry("if y < x {", " ")]).contains("has no reason"));
        let twice = [entry("if y < x {", "equal"), entry("if y < x {", "equal")];
        assert!(message(&twice).contains("twice"));
    }

    #[test]
    fn outcomes_are_read_by_name() {
        let text = |rows: &str| format!(r#"{{"outcomes":["Baseline",{rows}]}}"#);
        let row = |name: &str, summary: &str| {
            format!(r#"{{"scenario":{{"Mutant":{{"name":"{name}"}}}},"summary":"{summary}"}}"#)
        };
        for (summary, outcome) in [
            ("CaughtMutant", Outcome::Caught),
            ("MissedMutant", Outcome::Missed),
            ("Timeout", Outcome::Timeout),
            ("Unviable", Outcome::Unviable),
        ] {
            let text = text(&[row("b", "Success"), row("a", summary)].join(","));
            assert_eq!(read_outcome(&text, "a").unwrap(), outcome);
            assert!(read_outcome(&text, "b").is_err());
            assert!(read_outcome(&text, "c").is_err());
        }
    }

    #[test]
    fn a_copy_follows_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let (root, tree) = (folder.path().join("root"), folder.path().join("tree"));
        fs::create_dir_all(root.join("src")).unwrap();
        process::run(Command::new("git").args(["init", "--quiet"]).arg(&root)).unwrap();
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        write(".gitignore", "/ignored\n");
        write("ignored", "1");
        write("src/a", "1");
        write("src/b", "2");
        copy_tree(&root, &tree).unwrap();
        let read = |name: &str| fs::read_to_string(tree.join(name)).ok();
        assert_eq!(read("src/a").as_deref(), Some("1"));
        assert_eq!(read("ignored"), None);

        let before = fs::metadata(tree.join("src/a"))
            .unwrap()
            .modified()
            .unwrap();
        fs::write(tree.join("src/b"), "a mutant that was left there").unwrap();
        fs::remove_file(root.join(".gitignore")).unwrap();
        fs::remove_file(root.join("ignored")).unwrap();
        copy_tree(&root, &tree).unwrap();
        assert_eq!(read("src/b").as_deref(), Some("2"));
        assert_eq!(read(".gitignore"), None);
        let after = fs::metadata(tree.join("src/a"))
            .unwrap()
            .modified()
            .unwrap();
        assert_eq!(before, after);
    }

    #[test]
    fn names_are_matched_as_they_are() {
        assert_eq!(
            escape("a.rs:1:2: replace * with +"),
            r"a\.rs:1:2: replace \* with \+"
        );
    }
}
