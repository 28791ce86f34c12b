//! `cargo xtask verify`: every matrix of the corpus through every phase.

use std::process::ExitCode;

use anyhow::Result;

use crate::benches;
use crate::workspace::Workspace;

/// Verifies; the exit code is that of the check.
pub fn verify(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    benches::run_over_corpus(workspace, "verify", args, &["--corpus"])
}
