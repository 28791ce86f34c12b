//! `cargo xtask campaign`: hostile systems against exact measures.

use std::process::ExitCode;

use anyhow::Result;

use crate::benches;
use crate::workspace::Workspace;

/// Runs a campaign; the exit code is that of the program.
pub fn campaign(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    benches::run(workspace, "campaign", args)
}
