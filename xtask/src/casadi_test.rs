//! `cargo xtask casadi-test`: Ipopt, as CasADi's wheel has it, with `libluge_hsl` in place of MA57.
//!
//! CasADi is installed from PyPI into an environment below `target/casadi`, which is kept. `clients/casadi/compare.py` solves its
//! problems with Luge and with the solvers that the wheel has, and fails if Luge's results are not theirs.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::workspace::Workspace;

/// What is installed. Its Ipopt loads a library of HSL at run time.
const CASADI: &str = "casadi==3.8.2";

/// The package of the library, and what cargo calls that.
const PACKAGE: &str = "luge-hsl";
const LIBRARY: &str = "libluge_hsl.so";

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Args {
    /// Build with the dev profile: quickly, and slow.
    #[arg(long)]
    debug: bool,
    /// Build nothing: take the library that cargo left in this folder.
    #[arg(long, conflicts_with = "debug")]
    built: Option<PathBuf>,
    /// Arguments for compare.py, such as `--large --rounds 3 --json results.json`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    compare: Vec<String>,
}

/// Builds, installs, and compares; the exit code is that of the comparison.
pub fn casadi_test(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    ensure!(
        cfg!(target_os = "linux"),
        "this command knows the names of libraries on Linux"
    );
    let folder = match &args.built {
        Some(folder) => folder.clone(),
        None => build(workspace, args.debug)?,
    };
    let library = folder.join(LIBRARY);
    ensure!(library.exists(), "there is no {}", library.display());

    let environment = workspace.target.join("casadi");
    let python = environment.join("bin/python");
    if !has_casadi(&python) {
        install(&environment, &python)?;
    }
    let script = workspace.root.join("clients/casadi/compare.py");
    process::exit_code(
        Command::new(python)
            .arg(script)
            .arg("--library")
            .arg(library)
            .args(&args.compare),
    )
}

/// The folder of the library.
fn build(workspace: &Workspace, debug: bool) -> Result<PathBuf> {
    let mut command = process::cargo(&workspace.root);
    command.args(["build", "--quiet", "--locked", "--package", PACKAGE]);
    let profile = if debug { "debug" } else { "release" };
    if !debug {
        command.arg("--release");
    }
    process::run(&mut command)?;
    Ok(workspace.target.join(profile))
}

/// Whether an environment has CasADi as it is wanted.
fn has_casadi(python: &Path) -> bool {
    let version = "import casadi; print(f'casadi=={casadi.__version__}')";
    process::output(Command::new(python).args(["-c", version])).as_deref() == Some(CASADI)
}

fn install(environment: &Path, python: &Path) -> Result<()> {
    process::run(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(environment),
    )
    .context("python3 with its module venv is needed (Debian: python3-venv)")?;
    let install = ["-m", "pip", "install", "--quiet"];
    process::run(
        Command::new(python)
            .args(install)
            .args(["--disable-pip-version-check", CASADI]),
    )
}
