//! `cargo xtask report`: results of benchmarks as a page.

use std::process::ExitCode;

use anyhow::Result;

use crate::benches;
use crate::workspace::Workspace;

/// Makes the page.
pub fn report(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    benches::run_over_corpus(workspace, "report", args, &["--corpus"])
}
