//! `cargo xtask ci`: everything that must hold before a change lands.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::features;
use crate::process;
use crate::ptx;
use crate::workspace::Workspace;

/// Runs the steps of `.ci/run` on a machine where everything is installed.
pub fn ci(workspace: &Workspace) -> Result<ExitCode> {
    let root = &workspace.root;
    step("formatting", || {
        process::run(process::cargo(root).args(["fmt", "--all", "--check"]))
    })?;
    step("clippy", || {
        process::run(
            process::cargo(root)
                .args(["clippy", "--workspace", "--all-targets", "--locked"])
                .args(["--", "-D", "warnings"]),
        )
    })?;
    step("features", || features::features(workspace).map(|_| ()))?;
    step("tests", || {
        process::run(process::cargo(root).args(["test", "--workspace", "--locked"]))
    })?;
    step("ptx --check", || {
        ptx::ptx(workspace, &ptx::Args { check: true }).map(|_| ())
    })?;
    step("fuzz target builds", || {
        process::run(
            process::cargo(root)
                .args([
                    "check",
                    "--manifest-path",
                    "fuzz/Cargo.toml",
                    "--target-dir",
                ])
                .arg(workspace.target.join("fuzz")),
        )
    })?;
    step("documentation", || {
        process::run(
            process::cargo(root)
                .args(["doc", "--workspace", "--no-deps", "--locked"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n=== {name}");
    let start = Instant::now();
    work().with_context(|| format!("step '{name}'"))?;
    println!("=== {name}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
