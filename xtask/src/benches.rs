//! The programs of the package `luge-benches`, built in release mode.

use std::process::ExitCode;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Runs a program in the folder this command was called in, and answers with its exit code.
pub fn run(workspace: &Workspace, program: &str, args: &[String]) -> Result<ExitCode> {
    let mut command = process::cargo(&std::env::current_dir()?);
    command
        .args(["run", "--quiet", "--release", "--package", "luge-benches"])
        .args(["--bin", program, "--manifest-path"])
        .arg(workspace.root.join("Cargo.toml"))
        .arg("--")
        .args(args);
    process::exit_code(&mut command)
}

/// As [`run`], over the corpus, unless one of the options that name other matrices is there.
pub fn run_over_corpus(
    workspace: &Workspace,
    program: &str,
    args: &[String],
    others: &[&str],
) -> Result<ExitCode> {
    let is_there = |option: &str| {
        let with_value = format!("{option}=");
        args.iter()
            .any(|arg| arg == option || arg.starts_with(&with_value))
    };
    let mut all = Vec::new();
    if !others.iter().any(|option| is_there(option)) {
        all.push(format!("--corpus={}", workspace.corpus().display()));
    }
    all.extend_from_slice(args);
    run(workspace, program, &all)
}
