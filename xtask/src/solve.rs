//! `cargo xtask solve`: solves a system with the command line of `luge`.

use std::process::ExitCode;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Runs `luge solve` with `args`, in the folder this command was called in, so that relative paths
/// mean what the caller meant. Answers with the exit code of `luge`.
pub fn solve(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let mut command = process::cargo(&std::env::current_dir()?);
    command
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "luge",
            "--manifest-path",
        ])
        .arg(workspace.root.join("Cargo.toml"))
        .args(["--", "solve"])
        .args(args);
    process::exit_code(&mut command)
}
