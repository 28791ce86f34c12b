//! `cargo xtask python-test`: builds the wheel of `bindings/python`, installs it as a user would, and tests it.
//!
//! Everything is under `target/python`: the tools that build, which are kept, and an environment that is made anew each time.
//! The wheel goes into that from a file, and what it depends on comes from PyPI past pip's cache, which is timed together with
//! a first solve: that is what a new user waits for.
//!
//! With `--target` it builds a wheel for another machine, and runs nothing: Zig links, and brings the C library of that machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// A wheel of more bytes is refused: it would be no small package any more.
const MAX_WHEEL_BYTES: u64 = 8_000_000;

/// Seconds from `pip install` to a first solution, at most.
const MAX_SECONDS_TO_SOLUTION: f64 = 10.0;

/// What builds the wheel.
const TOOLS: [&str; 1] = ["maturin==1.16.*"];

/// What links for other machines.
const CROSS_TOOLS: [&str; 1] = ["ziglang==0.15.*"];

/// What runs the tests.
const TEST_PACKAGES: [&str; 3] = ["pytest==9.*", "hypothesis==6.*", "tqdm==4.*"];

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Args {
    /// Build the wheel in a third of the time, as nobody should install it: with the profile `dev`, which checks more. Its size is not
    /// judged.
    #[arg(long, conflicts_with = "target")]
    quick: bool,
    /// Build the wheel for this target instead, such as `aarch64-unknown-linux-gnu`, and run nothing. rustup has to have the target.
    #[arg(long, value_name = "TRIPLE", conflicts_with_all = ["with", "pytest"])]
    target: Option<String>,
    /// Requirements to install beside the wheel, such as `numpy==1.26.*`; may be repeated.
    #[arg(long = "with", value_name = "REQUIREMENT")]
    with: Vec<String>,
    /// Arguments for pytest.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pytest: Vec<String>,
}

/// Builds, installs, times a first solution, and runs all tests; the exit code is pytest's.
pub fn python_test(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let folder = workspace.target.join("python");
    let package = workspace.root.join("bindings/python");
    let target = args.target.as_deref();
    let profile = if args.quick { "dev" } else { "release" };
    let wheel = timed("the wheel", || {
        build(workspace, &folder, &package, profile, target)
    })?;
    let bytes = fs::metadata(&wheel)?.len();
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    println!("{name}: {:.2} MB", bytes as f64 / 1e6);
    if bytes > MAX_WHEEL_BYTES && !args.quick {
        bail!("the wheel has {bytes} bytes, more than {MAX_WHEEL_BYTES}");
    }
    // maturin looks through the symbols of the libraries, and names the oldest Linux that has them.
    if cfg!(target_os = "linux") && !name.contains("-abi3-manylinux") {
        bail!("{name} is no wheel for any CPython on any Linux");
    }
    if target.is_some() {
        println!("{}", wheel.display());
        return Ok(ExitCode::SUCCESS);
    }

    let environment = folder.join("environment");
    if environment.exists() {
        fs::remove_dir_all(&environment)?;
    }
    timed("a new environment", || create(&environment))?;
    let start = Instant::now();
    let mut of_user = vec![format!("{}[scipy]", wheel.display())];
    of_user.extend(args.with.iter().cloned());
    install(&environment, &of_user, &["--no-cache-dir"])?;
    let program = package.join("tests/first_solution.py");
    process::run(python(&environment).arg(program))?;
    let seconds = start.elapsed().as_secs_f64();
    println!("pip install and a first solution: {seconds:.1} s");
    if seconds > MAX_SECONDS_TO_SOLUTION {
        // How fast the network is says nothing of the package, so this fails nothing.
        println!("that is more than {MAX_SECONDS_TO_SOLUTION} s");
    }

    timed("what tests need", || {
        install(&environment, &TEST_PACKAGES.map(String::from), &[])
    })?;
    let mut pytest = python(&environment);
    pytest
        .current_dir(&package)
        .args(["-X", "dev", "-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .args(&args.pytest);
    timed("tests", || process::exit_code(&mut pytest))
}

/// What `work` returns; prints its time.
fn timed<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let done = work()?;
    println!("{what}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(done)
}

/// Builds the wheel alone into a folder of its own, for this machine or the target.
fn build(
    workspace: &Workspace,
    folder: &Path,
    package: &Path,
    profile: &str,
    target: Option<&str>,
) -> Result<PathBuf> {
    let tools = folder.join("tools");
    let maturin = tools.join("bin/maturin");
    if !maturin.exists() {
        create(&tools)?;
        install(&tools, &TOOLS.map(String::from), &[])?;
    }
    if target.is_some() {
        install(&tools, &CROSS_TOOLS.map(String::from), &[])?;
    }
    let wheels = folder.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let mut command = Command::new(maturin);
    command
        .current_dir(package)
        .args(["build", "--quiet", "--locked", "--profile", profile])
        .arg("--out")
        .arg(&wheels)
        // Other workspaces beside this one build there, too.
        .env("CARGO_TARGET_DIR", workspace.target.join("clients"));
    if let Some(target) = target {
        let mut path = vec![tools.join("bin")];
        path.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        command
            .args(["--zig", "--target", target])
            .env("PATH", std::env::join_paths(path)?);
    }
    process::run(&mut command)?;
    let mut built = fs::read_dir(&wheels)?;
    let wheel = built.next().context("maturin built no wheel")??;
    Ok(wheel.path())
}

/// Makes an environment.
fn create(folder: &Path) -> Result<()> {
    process::run(Command::new("python3").args(["-m", "venv"]).arg(folder))
        .context("python3 with its module venv is needed (Debian: python3-venv)")
}

fn install(environment: &Path, requirements: &[String], options: &[&str]) -> Result<()> {
    let mut pip = python(environment);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    process::run(pip.args(options).args(requirements))
}

fn python(environment: &Path) -> Command {
    Command::new(environment.join("bin/python"))
}
