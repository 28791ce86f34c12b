//! The copy of the workspace: mutants are compiled into it, and its tests run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;
use cargo_metadata::diagnostic::{Diagnostic, DiagnosticLevel, DiagnosticSpan};

use super::switches::{self, Edit, Rendered, VARIABLE};
use super::{AREAS, Mutant, Outcome, Tests};
use crate::copy::{copy_tree, write_changed};
use crate::process;
use crate::workspace::Workspace;

/// Virtual memory of the tests of one mutant, in KiB: a loop that pushes forever ends in an error.
const MEMORY_KIB: u64 = 12 << 20;

/// What a test executable may take with a mutant beyond five times what it takes without one.
const GRACE: Duration = Duration::from_secs(20);

/// How a mutant is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Build {
    /// With all others of its kind, behind its switch.
    Switched,
    /// By a build of its own, in the place of what it changes.
    Alone,
    /// It does not compile.
    Unviable,
}

/// An executable of tests.
struct Executable {
    path: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
    /// Parts of the names of the tests that run; all if there are none.
    names: &'static [&'static str],
}

/// The copy of the workspace, and what was built in it.
pub(super) struct Bench {
    tree: PathBuf,
    build: PathBuf,
    corpus: PathBuf,
    /// Every file with mutants, as it is without them.
    sources: BTreeMap<String, String>,
    /// Roots of the crates with mutants, which have the switch.
    roots: BTreeSet<String>,
    /// Executables with the switches of all mutants and how long each may take, the fastest first.
    suites: BTreeMap<Tests, Vec<(Executable, Duration)>>,
}

impl Bench {
    /// Copies the workspace below `folder`, but for the files with `mutants`, which are all that will be built.
    pub(super) fn new(workspace: &Workspace, folder: &Path, mutants: &[&Mutant]) -> Result<Self> {
        let roots: BTreeSet<String> = mutants.iter().map(|mutant| root_of(&mutant.file)).collect();
        let files = mutants.iter().map(|mutant| &mutant.file);
        let mut sources = BTreeMap::new();
        for file in files.chain(&roots) {
            let text = fs::read_to_string(workspace.root.join(file))
                .with_context(|| format!("{file} cannot be read"))?;
            sources.insert(file.clone(), text);
        }
        let tree = folder.join("tree");
        // Those are written with their switches: the same as last time are not built again.
        copy_tree(&workspace.root, &tree, |file| !sources.contains_key(file))?;
        Ok(Self {
            tree,
            build: folder.join("build"),
            corpus: workspace.corpus(),
            sources,
            roots,
            suites: BTreeMap::new(),
        })
    }

    /// Puts as many of the mutants as possible behind switches, and says what becomes of each, by its number.
    ///
    /// # Errors
    ///
    /// If the workspace does not compile, for a reason that is in no mutant.
    pub(super) fn compile(&self, mutants: &[&Mutant]) -> Result<BTreeMap<u32, Build>> {
        let packages: BTreeSet<&str> = mutants.iter().map(|m| AREAS[m.area].package).collect();
        let mut builds = BTreeMap::new();
        let mut switched = mutants.to_vec();
        let mut refused = Vec::new();
        loop {
            let files = self.render(&switched, switches::switched)?;
            for number in files.values().flat_map(|file| &file.left_out) {
                builds.insert(*number, Build::Alone);
            }
            switched.retain(|mutant| !builds.contains_key(&mutant.edit.number));
            let check = self.check(&packages, &files)?;
            if check.is_passed {
                break;
            }
            if check.suspects.is_empty() {
                bail!("the workspace does not compile:\n{}", check.errors);
            }
            let is_suspect = |mutant: &&Mutant| check.suspects.contains(&mutant.edit.number);
            refused.extend(switched.extract_if(.., |mutant| is_suspect(mutant)));
        }
        for mutant in &switched {
            builds.insert(mutant.edit.number, Build::Switched);
        }
        // Most of what does not compile with a switch does not compile without one either. As many as are in
        // different functions are made at the same time: an error in a function is due to its mutant.
        while !refused.is_empty() {
            let mut round: Vec<&Mutant> = Vec::new();
            refused.retain(|mutant| {
                let is_free = round.iter().all(|other| !mutant.overlaps(other));
                if is_free {
                    round.push(mutant);
                }
                !is_free
            });
            loop {
                let files = self.render(&round, |text, edits| Ok(switches::made(text, edits)))?;
                let check = self.check(&packages, &files)?;
                for number in &check.suspects {
                    builds.insert(*number, Build::Unviable);
                }
                round.retain(|mutant| !builds.contains_key(&mutant.edit.number));
                if check.is_passed || check.suspects.is_empty() || round.is_empty() {
                    break;
                }
            }
            for mutant in round {
                builds.insert(mutant.edit.number, Build::Alone);
            }
        }
        self.render(&switched, switches::switched)?;
        Ok(builds)
    }

    /// Runs `tests` with a mutant behind its switch on. How long they take is without what is built for all mutants.
    pub(super) fn switched(
        &mut self,
        mutant: &Mutant,
        tests: Tests,
    ) -> Result<(Outcome, Duration)> {
        self.prepare(tests)?;
        let start = Instant::now();
        let outcome = self.run_suite(tests, Some(mutant.edit.number))?;
        Ok((outcome, start.elapsed()))
    }

    /// Makes a mutant in the place of what it changes, builds its tests and runs them. After that executables may lack
    /// switches of others.
    pub(super) fn alone(&mut self, mutant: &Mutant) -> Result<(Outcome, Duration)> {
        let area = &AREAS[mutant.area];
        let all_tests: Vec<Tests> = [area.own()].into_iter().chain(area.across()).collect();
        for &tests in &all_tests {
            self.prepare(tests)?;
        }
        let start = Instant::now();
        let source = &self.sources[&mutant.file];
        let made = switches::made(source, &[&mutant.edit]);
        self.write(&mutant.file, &made.text)?;
        let mut outcome = Outcome::Missed;
        for tests in all_tests {
            outcome = match self.build(tests)? {
                Some(_) => self.run_suite(tests, None)?,
                None => Outcome::Unviable,
            };
            if outcome != Outcome::Missed {
                break;
            }
        }
        self.write(&mutant.file, source)?;
        Ok((outcome, start.elapsed()))
    }

    fn run_suite(&self, tests: Tests, number: Option<u32>) -> Result<Outcome> {
        for (executable, limit) in &self.suites[&tests] {
            match self.run(executable, number, *limit)? {
                None => return Ok(Outcome::Timeout),
                Some(false) => return Ok(Outcome::Caught),
                Some(true) => {}
            }
        }
        Ok(Outcome::Missed)
    }

    /// Builds `tests` and runs them without a mutant, if that was not done.
    fn prepare(&mut self, tests: Tests) -> Result<()> {
        if self.suites.contains_key(&tests) {
            return Ok(());
        }
        let (package, arguments, _) = tests;
        let start = Instant::now();
        let executables = self
            .build(tests)?
            .with_context(|| format!("the tests {arguments:?} of {package} do not compile"))?;
        let built = start.elapsed();
        let mut suite = Vec::new();
        for executable in executables {
            let start = Instant::now();
            if self.run(&executable, None, Duration::MAX)? != Some(true) {
                bail!("{} fails without a mutant", executable.path.display());
            }
            suite.push((executable, GRACE + 5 * start.elapsed()));
        }
        println!(
            "{package} {}: built in {:.0} s, run in {:.1} s",
            arguments.join(" "),
            built.as_secs_f64(),
            (start.elapsed() - built).as_secs_f64()
        );
        suite.sort_by_key(|(_, limit)| *limit);
        self.suites.insert(tests, suite);
        Ok(())
    }

    /// Writes every file with mutants, with these by `render`; what was written.
    fn render(
        &self,
        mutants: &[&Mutant],
        render: impl Fn(&str, &[&Edit]) -> Result<Rendered>,
    ) -> Result<BTreeMap<&str, Rendered>> {
        let mut files = BTreeMap::new();
        for (file, source) in &self.sources {
            let edits = mutants.iter().filter(|mutant| mutant.file == *file);
            let edits: Vec<&Edit> = edits.map(|mutant| &mutant.edit).collect();
            let rendered = render(source, &edits).with_context(|| file.clone())?;
            self.write(file, &rendered.text)?;
            files.insert(file.as_str(), rendered);
        }
        Ok(files)
    }

    /// Writes a file of the copy, unless it is the same already.
    fn write(&self, file: &str, text: &str) -> Result<()> {
        let mut text = text.to_owned();
        if self.roots.contains(file) {
            text.push_str(&switches::switch());
        }
        write_changed(&self.tree.join(file), text.as_bytes())
    }

    /// Checks the libraries of `packages`, and finds mutants that errors are due to.
    fn check(&self, packages: &BTreeSet<&str>, files: &BTreeMap<&str, Rendered>) -> Result<Check> {
        let mut command = self.cargo();
        command.args(["check", "--lib", "--keep-going", "--message-format=json"]);
        for package in packages {
            command.args(["--package", package]);
        }
        let output = output(&mut command)?;
        let mut check = Check {
            is_passed: output.status.success(),
            ..Check::default()
        };
        for error in errors(&output) {
            check.suspects.extend(suspects(&error.spans, files));
            check.errors += &error.rendered.unwrap_or(error.message);
        }
        if !check.is_passed && check.errors.is_empty() {
            check.errors = String::from_utf8_lossy(&output.stderr).into_owned();
        }
        Ok(check)
    }

    /// Builds `tests`; `None` if they do not compile.
    fn build(&self, (package, arguments, modules): Tests) -> Result<Option<Vec<Executable>>> {
        let mut command = self.cargo();
        command
            .args(["test", "--no-run", "--message-format=json"])
            .args(["--package", package])
            .args(arguments);
        let output = output(&mut command)?;
        if !output.status.success() {
            if errors(&output).next().is_some() {
                return Ok(None);
            }
            bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let mut executables = Vec::new();
        for message in messages(&output) {
            if let Message::CompilerArtifact(artifact) = message
                && artifact.profile.test
                && let (Some(path), Some(folder)) =
                    (artifact.executable, artifact.manifest_path.parent())
            {
                executables.push(Executable {
                    path: path.into_std_path_buf(),
                    folder: folder.as_std_path().to_owned(),
                    names: if artifact.target.is_test() {
                        modules
                    } else {
                        &[]
                    },
                });
            }
        }
        Ok(Some(executables))
    }

    /// `cargo` in the copy, with what makes these builds fast, and without lints: mutants have dead code.
    fn cargo(&self) -> Command {
        let mut command = process::cargo(&self.tree);
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        command
            .env("RUSTFLAGS", format!("{flags} --cap-lints=allow").trim())
            .env("CARGO_TARGET_DIR", &self.build)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "none");
        command
    }

    /// Runs tests until one fails, with bounded memory and the same random cases each time: whether they pass, and
    /// `None` if they took longer than `limit`.
    fn run(
        &self,
        executable: &Executable,
        number: Option<u32>,
        limit: Duration,
    ) -> Result<Option<bool>> {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("ulimit -v {MEMORY_KIB} && exec \"$0\" \"$@\""))
            .arg(&executable.path)
            .args(executable.names)
            .current_dir(&executable.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .env("CARGO_MANIFEST_DIR", &executable.folder)
            .env("LUGE_CORPUS", &self.corpus)
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env_remove(VARIABLE);
        if let Some(number) = number {
            command.env(VARIABLE, number.to_string());
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let start = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("{command:?} did not start"))?;
        let has_failed = Arc::new(AtomicBool::new(false));
        if let Some(stdout) = child.stdout.take() {
            let has_failed = Arc::clone(&has_failed);
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                    if line.starts_with(b"test ") && line.ends_with(b" ... FAILED") {
                        has_failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status.success()));
            }
            let has_failed = has_failed.load(Ordering::Relaxed);
            if has_failed || start.elapsed() > limit {
                // Whatever the tests have started is in their group.
                let group = format!("-{}", child.id());
                process::output(Command::new("kill").args(["-KILL", "--", &group]));
                child.kill()?;
                child.wait()?;
                return Ok(has_failed.then_some(false));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What the compiler says of the libraries with mutants.
#[derive(Default)]
struct Check {
    is_passed: bool,
    /// The mutants that errors are due to.
    suspects: BTreeSet<u32>,
    /// The errors, for people.
    errors: String,
}

/// The root of the library that a file belongs to.
fn root_of(file: &str) -> String {
    match file.find("/src/") {
        Some(at) => format!("{}/src/lib.rs", &file[..at]),
        None => file.to_owned(),
    }
}

/// Runs `command` to its end, and answers with what it printed.
fn output(command: &mut Command) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?} did not start"))
}

fn messages(output: &Output) -> impl Iterator<Item = Message> {
    Message::parse_stream(&output.stdout[..]).filter_map(Result::ok)
}

fn errors(output: &Output) -> impl Iterator<Item = Diagnostic> {
    messages(output).filter_map(|message| match message {
        Message::CompilerMessage(message)
            if matches!(
                message.message.level,
                DiagnosticLevel::Error | DiagnosticLevel::Ice
            ) =>
        {
            Some(message.message)
        }
        _ => None,
    })
}

/// The mutants that an error with these spans is due to: those around its first place that has any.
fn suspects(spans: &[DiagnosticSpan], files: &BTreeMap<&str, Rendered>) -> Vec<u32> {
    let (primary, others): (Vec<_>, Vec<_>) = spans.iter().partition(|span| span.is_primary);
    for span in primary.into_iter().chain(others) {
        // What a macro is expanded to is in its definition; the call is further out.
        let calls = std::iter::successors(Some(span), |span| {
            span.expansion.as_ref().map(|expansion| &expansion.span)
        });
        for place in calls {
            let range = place.byte_start as usize..place.byte_end as usize;
            let found = files.get(place.file_name.as_str());
            let found = found.map_or(&[][..], |file| file.suspects(&range));
            if !found.is_empty() {
                return found.to_vec();
            }
        }
    }
    Vec::new()
}
