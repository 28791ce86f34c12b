//! `cargo xtask bench`: the benchmarks.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::PassedOn;
use crate::process;
use crate::workspace::Workspace;

/// Which benchmark.
#[derive(Subcommand)]
pub enum Bench {
    /// Luge on the CPU beside KLU, UMFPACK, SuperLU and faer; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Cpu(PassedOn),
}

/// Builds a benchmark in release mode and runs it in the folder this command was called in.
pub fn bench(workspace: &Workspace, which: &Bench) -> Result<ExitCode> {
    match which {
        Bench::Cpu(passed) => cpu(workspace, &passed.args),
    }
}

/// Over the corpus, unless the arguments name other matrices.
fn cpu(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let mut command = process::cargo(&std::env::current_dir()?);
    command
        .args(["run", "--quiet", "--release", "--package", "luge-benches"])
        .args(["--bin", "cpu", "--manifest-path"])
        .arg(workspace.root.join("Cargo.toml"))
        .arg("--");
    if !args
        .iter()
        .any(|arg| arg == "--corpus" || arg.starts_with("--corpus="))
    {
        command.arg("--corpus").arg(workspace.corpus());
    }
    command.args(args);
    process::exit_code(&mut command)
}
