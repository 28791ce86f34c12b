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
    /// The symbolic phase on a GPU, every mode and budget, beside the CPU path; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Symbolic(PassedOn),
    /// The whole LU on a GPU, beside KLU and cuDSS; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Numeric(PassedOn),
}

/// Builds a benchmark in release mode and runs it in the folder this command was called in.
pub fn bench(workspace: &Workspace, which: &Bench) -> Result<ExitCode> {
    match which {
        Bench::Cpu(passed) => over_corpus(workspace, "cpu", &passed.args, &["--corpus"]),
        Bench::Symbolic(passed) => over_corpus(
            workspace,
            "symbolic",
            &passed.args,
            &["--corpus", "--patterns"],
        ),
        Bench::Numeric(passed) => over_corpus(workspace, "numeric", &passed.args, &["--corpus"]),
    }
}

/// Runs a binary over the corpus, unless one of the options that name other matrices is there.
fn over_corpus(
    workspace: &Workspace,
    binary: &str,
    args: &[String],
    others: &[&str],
) -> Result<ExitCode> {
    let mut command = process::cargo(&std::env::current_dir()?);
    command
        .args(["run", "--quiet", "--release", "--package", "luge-benches"])
        .args(["--bin", binary, "--manifest-path"])
        .arg(workspace.root.join("Cargo.toml"))
        .arg("--");
    let is_there = |option: &str| {
        let with_value = format!("{option}=");
        args.iter()
            .any(|arg| arg == option || arg.starts_with(&with_value))
    };
    if !others.iter().any(|option| is_there(option)) {
        command.arg("--corpus").arg(workspace.corpus());
    }
    command.args(args);
    process::exit_code(&mut command)
}
