//! `cargo xtask mutants`: changes one operator, guard or function at a time, and counts how many of these
//! mutants the tests notice.
//!
//! The mutants are those of the crate cargo-mutants, over the code of [`AREAS`]. A seed draws some of
//! them, each as likely as any other. They are compiled in a copy of the workspace, below the target
//! folder, never in the tree that somebody works in. For each one the tests of its package run, and where
//! a mutant on the host's side of a device survives those, the tests across crates that run its kernels on
//! the simulator.
//!
//! A build takes longer than the tests of many mutants, so all of them are compiled at once, each behind a
//! [switch](switches), and an environment variable says which one is on (R. H. Untch, A. J. Offutt and
//! M. J. Harrold, "Mutation analysis using mutant schemata", ISSTA 1993). What a switch cannot express, such
//! as a constant, is built by itself after all others.
//!
//! A mutant is **caught** if a test fails, **timeout** if the tests take far longer than without it (which
//! counts as noticed), **missed** if all tests pass, **unviable** if it does not compile (which counts
//! for nothing). Equivalent mutants that are drawn are not run, and count for nothing either.
//!
//! What is left out, by rule: `fmt` of `Debug` and `Display`, whose text is for people. Macros
//! (assertions, `tracing` events) have no mutants. By name: the mutants of `equivalent-mutants.json`,
//! which change no result, each with its reason.

mod bench;
mod switches;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use self::bench::{Bench, Build};
use self::switches::{Edit, Genre};
use crate::process;
use crate::workspace::Workspace;

/// The version of cargo-mutants that is installed. Another one draws other mutants from the same seed.
const VERSION: &str = "27.1.0";

/// What is never mutated, as regular expressions over the names of mutants.
const EXCLUDED: [&str; 1] = [r"<impl [^>]*\b(Debug|Display) for "];

/// A package, arguments of `cargo test` for what is built of its tests, and modules of the integration tests that run: all
/// of them if none is named.
type Tests = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// Code that is mutated, and what is run for it.
struct Area {
    package: &'static str,
    /// How paths of its files begin. The first area that fits a file has it.
    files: &'static str,
    /// Which tests of its package run: arguments of `cargo test`.
    own: &'static [&'static str],
    /// Modules of its integration tests that run, all if none is named.
    modules: &'static [&'static str],
    /// Modules of the tests across crates that run if those of the package pass.
    across: &'static [&'static str],
}

impl Area {
    /// What runs for its mutants.
    fn own(&self) -> Tests {
        (self.package, self.own, self.modules)
    }

    /// What runs for those that survive that.
    fn across(&self) -> Option<Tests> {
        let target = &["--test", "simulator"];
        (!self.across.is_empty()).then_some(("luge-tests", target, self.across))
    }
}

const AREAS: [Area; 17] = [
    area("luge-matrix-io", "crates/matrix-io/src/", &["--tests"], &[]),
    area("luge-ordering", "crates/ordering/src/", &["--tests"], &[]),
    area(
        "luge-frontier-pool",
        "crates/frontier-pool/src/",
        &["--tests"],
        &["symbolic::"],
    ),
    area(
        "luge-symbolic",
        "crates/symbolic/src/gpu/",
        &["--lib"],
        &["symbolic::", "panels::"],
    ),
    area("luge-symbolic", "crates/symbolic/src/", &["--tests"], &[]),
    area(
        "luge-frontal",
        "crates/frontal/src/gpu/",
        &["--lib"],
        &["frontal::", "frontal_solve::"],
    ),
    area("luge-frontal", "crates/frontal/src/", &["--tests"], &[]),
    area("luge-frontal", "crates/dense/src/", &["--tests"], &[]),
    area(
        "luge-numeric",
        "crates/numeric/src/gpu/",
        &["--lib"],
        &["numeric::"],
    ),
    area("luge-numeric", "crates/numeric/src/", &["--tests"], &[]),
    area(
        "luge-solve",
        "crates/solve/src/gpu/",
        &["--lib"],
        &["solve::", "residuals::"],
    ),
    area("luge-solve", "crates/solve/src/", &["--tests"], &[]),
    solver("crates/luge/src/host_path.rs", POLICY),
    solver("crates/luge/src/probe.rs", PROBE),
    solver("crates/luge/src/device_path.rs", DEVICE),
    solver("crates/luge/src/device_choice.rs", DEVICE),
    solver("crates/luge/src/batch.rs", &["batch::"]),
];

/// Packages with an area whose tests are those of another one.
const TESTED_BY_OTHERS: [&str; 1] = ["luge-dense"];

const POLICY: &[&str] = &["stale_pivots::", "facade::", "extremes::"];
const PROBE: &[&str] = &[
    "stale_pivots::",
    "facade::",
    "extremes::",
    "device::pivots_that_need",
];
const DEVICE: &[&str] = &["device::", "extremes::"];

/// A file of the facade, for which these modules of its tests run.
const fn solver(files: &'static str, modules: &'static [&'static str]) -> Area {
    Area {
        modules,
        ..area("luge", files, &["--lib", "--test", "solver"], &[])
    }
}

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
        modules: &[],
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
    file: String,
    name: String,
    genre: Genre,
    replacement: String,
    span: Span,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    span: Span,
}

#[derive(Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

/// Both count from 1, the column in characters.
#[derive(Deserialize)]
struct Position {
    line: usize,
    column: usize,
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
    /// What it does to the text; its number is its place in the draw.
    edit: Edit,
    /// Whether `equivalent-mutants.json` has it.
    is_equivalent: bool,
}

impl Mutant {
    /// Whether both are in one function.
    fn overlaps(&self, other: &Self) -> bool {
        let around = |edit: &Edit| edit.function.clone().unwrap_or(edit.range.clone());
        let (a, b) = (around(&self.edit), around(&other.edit));
        self.file == other.file && a.start < b.end && b.start < a.end
    }

    fn row(&self, outcome: Outcome, took: Duration) -> Row {
        Row {
            name: self.name.clone(),
            code: self.code.clone(),
            outcome,
            seconds: took.as_secs_f64(),
        }
    }
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
    for (number, mutant) in (0..).zip(&mut drawn) {
        mutant.edit.number = number;
    }
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
    let mut rows: Vec<Row> = Vec::new();
    // What ran has its switch again, so that what was built for it serves; what does not compile has none.
    let (mut built, mut open) = (Vec::new(), Vec::new());
    for mutant in &drawn {
        let row = known.get(&(mutant.name.clone(), mutant.code.clone()));
        if row.is_none_or(|row| row.outcome != Outcome::Unviable) {
            built.push(mutant);
        }
        match row {
            Some(row) => rows.push(row.clone()),
            None => open.push(mutant),
        }
    }
    let mut finish = |row: Row| {
        writeln!(file, "{}", serde_json::to_string(&row)?)?;
        let word = format!("{:?}", row.outcome).to_lowercase();
        rows.push(row);
        let (place, row) = (rows.len(), &rows[rows.len() - 1]);
        println!("{place:4}  {word:8} {:5.1} s  {}", row.seconds, row.name);
        anyhow::Ok(())
    };
    let start = Instant::now();
    let mut bench = Bench::new(workspace, &folder, &built)?;
    let builds = bench.compile(&built)?;
    let of = |build| {
        let is_so = |mutant: &&Mutant| builds.get(&mutant.edit.number) == Some(&build);
        open.iter().copied().filter(is_so).collect::<Vec<_>>()
    };
    println!(
        "{} behind switches, {} to be built one by one, {} unviable, after {:.0} s",
        of(Build::Switched).len(),
        of(Build::Alone).len(),
        of(Build::Unviable).len(),
        start.elapsed().as_secs_f64()
    );
    for mutant in of(Build::Unviable) {
        finish(mutant.row(Outcome::Unviable, Duration::ZERO))?;
    }
    // The tests across crates come last: they take longest.
    let mut survivors = Vec::new();
    for mutant in of(Build::Switched) {
        let (outcome, took) = bench.switched(mutant, AREAS[mutant.area].own())?;
        match AREAS[mutant.area].across() {
            Some(across) if outcome == Outcome::Missed => survivors.push((mutant, across, took)),
            _ => finish(mutant.row(outcome, took))?,
        }
    }
    for (mutant, across, took_own) in survivors {
        let (outcome, took) = bench.switched(mutant, across)?;
        finish(mutant.row(outcome, took_own + took))?;
    }
    for mutant in of(Build::Alone) {
        let (outcome, took) = bench.alone(mutant)?;
        finish(mutant.row(outcome, took))?;
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
    let tested = AREAS.iter().map(|area| area.package);
    let packages: BTreeSet<&str> = tested.chain(TESTED_BY_OTHERS).collect();
    for package in packages {
        command.args(["--package", package]);
    }
    let text =
        process::output(&mut command).with_context(|| format!("{command:?} lists no mutants"))?;
    let listed: Vec<Listed> = serde_json::from_str(&text)
        .with_context(|| format!("cargo-mutants {VERSION} answers in another format"))?;
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    let mut mutants = Vec::new();
    for mutant in listed {
        let Some(area) = area_of(&mutant.file) else {
            continue;
        };
        if !sources.contains_key(&mutant.file) {
            let text = fs::read_to_string(workspace.root.join(&mutant.file))
                .with_context(|| format!("{} cannot be read", mutant.file))?;
            sources.insert(mutant.file.clone(), text);
        }
        let text = &sources[&mutant.file];
        let no_place = || format!("{}: no such place", mutant.name);
        let range = bytes(text, &mutant.span).with_context(no_place)?;
        let function = match &mutant.function {
            Some(function) => Some(bytes(text, &function.span).with_context(no_place)?),
            None => None,
        };
        let line = text.lines().nth(mutant.span.start.line - 1);
        let code = line.with_context(no_place)?.trim().to_owned();
        mutants.push(Mutant {
            area,
            change: change(&mutant.file, &mutant.name)?,
            file: mutant.file,
            name: mutant.name,
            code,
            edit: Edit {
                number: 0,
                genre: mutant.genre,
                range,
                replacement: mutant.replacement,
                function,
            },
            is_equivalent: false,
        });
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

fn area_of(file: &str) -> Option<usize> {
    AREAS.iter().position(|area| file.starts_with(area.files))
}

/// The bytes of `text` that a span has; `None` if it has no such place.
fn bytes(text: &str, span: &Span) -> Option<Range<usize>> {
    let at = |position: &Position| {
        let line = text
            .split_inclusive('\n')
            .nth(position.line.checked_sub(1)?)?;
        let before = line.chars().take(position.column.checked_sub(1)?);
        let begin = line.as_ptr() as usize - text.as_ptr() as usize;
        Some(begin + before.map(char::len_utf8).sum::<usize>())
    };
    Some(at(&span.start)?..at(&span.end)?)
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
    let stale = entries.iter().filter(|(_, is_found)| !**is_found);
    let stale: Vec<String> = stale
        .map(|((mutant, code), _)| format!("no mutant is '{mutant}' in the line '{code}'"))
        .collect();
    if !stale.is_empty() {
        bail!("equivalent-mutants.json: {}", stale.join("\n"));
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
            edit: Edit {
                number: 0,
                genre: Genre::BinaryOperator,
                range: 0..1,
                replacement: String::new(),
                function: None,
            },
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
        let files = |file| area_of(file).map(|area| AREAS[area].files);
        assert_eq!(
            files("crates/frontal/src/gpu/plan/mod.rs"),
            Some("crates/frontal/src/gpu/")
        );
        assert_eq!(
            files("crates/frontal/src/lu/mod.rs"),
            Some("crates/frontal/src/")
        );
        assert_eq!(
            files("crates/luge/src/batch.rs"),
            Some("crates/luge/src/batch.rs")
        );
        assert_eq!(files("crates/luge/src/host.rs"), None);
    }

    #[test]
    fn places_are_lines_and_columns_of_characters() {
        let text = "ab\nλ * ‖x‖ + 1;\n";
        let place = |line, column| Position { line, column };
        let of = |start, end| bytes(text, &Span { start, end }).map(|range| &text[range]);
        assert_eq!(of(place(2, 3), place(2, 4)), Some("*"));
        assert_eq!(of(place(2, 5), place(2, 8)), Some("‖x‖"));
        assert_eq!(of(place(1, 1), place(2, 2)), Some("ab\nλ"));
        assert_eq!(of(place(1, 1), place(4, 1)), None);
        assert_eq!(of(place(0, 1), place(1, 1)), None);
    }

    #[test]
    fn mutants_overlap_in_one_function_of_one_file() {
        let at = |file: &str, range: Range<usize>, function: Option<Range<usize>>| {
            let mut mutant = mutant("a.rs: replace < with <= in f", "");
            mutant.file = file.to_owned();
            (mutant.edit.range, mutant.edit.function) = (range, function);
            mutant
        };
        let a = at("a.rs", 3..4, Some(0..10));
        assert!(a.overlaps(&at("a.rs", 8..9, Some(0..10))));
        assert!(a.overlaps(&at("a.rs", 8..9, Some(7..9))));
        assert!(!a.overlaps(&at("a.rs", 12..13, Some(10..20))));
        assert!(!a.overlaps(&at("b.rs", 8..9, Some(0..10))));
        assert!(!at("a.rs", 20..21, None).overlaps(&a));
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
}
