//! `cargo xtask gpu-test`: the tests that use a device, on the GPU.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// Runs the tests of `luge-tests` with the GPU as their device; `args` are passed on to
/// `cargo test`.
///
/// Every test that opens a device adds a line to the file named by `LUGE_TEST_DEVICE_LOG`. A run
/// that leaves this file empty has shown nothing about the GPU, so it fails.
pub fn gpu_test(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    fs::create_dir_all(&workspace.target)?;
    let log = workspace.target.join("device-tests.log");
    fs::write(&log, "").with_context(|| format!("{} cannot be written", log.display()))?;
    process::run(
        process::cargo(&workspace.root)
            .args(["test", "--package", "luge-tests"])
            .args(args)
            .env("LUGE_TEST_BACKEND", "cuda")
            .env("LUGE_TEST_DEVICE_LOG", &log),
    )?;
    let log = fs::read_to_string(&log)?;
    let count = log
        .lines()
        .filter(|line| line.starts_with("cuda\t"))
        .count();
    if count == 0 {
        bail!("no test used the GPU");
    }
    println!("{count} device tests ran on the GPU");
    Ok(ExitCode::SUCCESS)
}
