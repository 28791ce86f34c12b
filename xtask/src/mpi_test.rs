//! `cargo xtask mpi-test`: the solver on four processes of MPI.
//!
//! Installs nothing, and says what is missing. After `cargo xtask test --features luge/mpi` everything is built.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::workspace::Workspace;

/// What has to be installed: the program that tells, and Debian's package.
const NEEDED: [(&str, &str); 2] = [("mpirun", "openmpi-bin"), ("mpicc", "libopenmpi-dev")];

/// The test target, which is no harness.
const TARGET: &str = "mpi";

/// Processes, more than some machines have cores.
const RANKS: &str = "4";

/// How long the others may go on when one is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Builds, and runs everything.
pub fn mpi_test(workspace: &Workspace) -> Result<ExitCode> {
    let is_missing =
        |(tool, _): &&(&str, &str)| process::output(Command::new(tool).arg("--version")).is_none();
    let missing: Vec<String> = NEEDED
        .iter()
        .filter(is_missing)
        .map(|(tool, package)| format!("{tool} (Debian: {package})"))
        .collect();
    ensure!(missing.is_empty(), "not found: {}", missing.join(", "));
    let program = build(workspace).context(
        "the tests with MPI do not build; they also need libclang (Debian: libclang-dev)",
    )?;

    run(&program, "check", true)?;
    run(&program, "leave", true)?;
    for how in ["panic", "kill"] {
        let start = Instant::now();
        run(&program, how, false)?;
        let seconds = start.elapsed();
        ensure!(
            seconds < PATIENCE,
            "{how}: the others went on for {seconds:?}"
        );
    }
    solve(workspace, &program)?;
    println!("{RANKS} ranks of MPI: all as it should be");
    Ok(ExitCode::SUCCESS)
}

/// The executable of the tests; the command is built beside it.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut command = process::cargo(&workspace.root);
    command
        // The whole workspace, so that crates have the features that its tests gave them.
        .args(["test", "--workspace", "--features", "luge/mpi", "--no-run"])
        .args(["--test", TARGET])
        .args(["--message-format", "json-render-diagnostics"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let output = command
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .with_context(|| format!("{command:?} did not start"))?;
    ensure!(output.status.success(), "cargo: {}", output.status);
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

fn mpirun(program: &Path) -> Command {
    let mut command = Command::new("mpirun");
    // Containers have root alone.
    command
        .args(["--allow-run-as-root", "--oversubscribe", "-n", RANKS])
        .arg(program);
    command
}

/// Runs the tests in one of their ways, which has to succeed or to fail.
fn run(program: &Path, how: &str, succeeds: bool) -> Result<()> {
    println!("{how}:");
    let mut command = mpirun(program);
    command.arg(how);
    let status = command
        .status()
        .with_context(|| format!("{command:?} did not start"))?;
    ensure!(
        status.success() == succeeds,
        "{how}: mpirun ended with {status}"
    );
    Ok(())
}

/// Solves a system by the command on one process, and on all: the solutions are the same files.
fn solve(workspace: &Workspace, program: &Path) -> Result<()> {
    println!("luge solve --mpi:");
    let luge = program
        .parent()
        .and_then(Path::parent)
        .map(|folder| folder.join("luge"))
        .context("the tests are in no folder")?;
    let folder = workspace.target.join("mpi-test");
    std::fs::create_dir_all(&folder)?;
    let solution = |name: &str| folder.join(name);
    let args = |command: &mut Command, out: &Path| {
        command
            .args(["solve", "--sample", "grid", "--size", "200"])
            .args(["--engine", "fronts", "--backend", "cpu", "--force", "--out"])
            .arg(out);
    };
    let (alone, together) = (solution("alone.mtx"), solution("together.mtx"));
    let mut command = Command::new(&luge);
    args(&mut command, &alone);
    process::run(&mut command)?;
    let mut command = mpirun(&luge);
    args(&mut command, &together);
    process::run(command.arg("--mpi"))?;
    ensure!(
        std::fs::read(&alone)? == std::fs::read(&together)?,
        "{} and {} differ",
        alone.display(),
        together.display()
    );
    let mut command = mpirun(&luge);
    let nowhere = folder.join("nowhere.mtx");
    command.arg("solve").arg(&nowhere).arg("--mpi");
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(2)
            && errors.contains("rank 0: ")
            && errors.contains("nowhere"),
        "a file that is not there: {}, {errors}",
        output.status
    );
    Ok(())
}
