//! `cargo xtask corpus`: the corpus, and more of its kind.

use std::process::ExitCode;

use anyhow::Result;

use crate::benches;
use crate::workspace::Workspace;

/// Lists the corpus, or generates matrices.
pub fn corpus(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    benches::run_over_corpus(workspace, "corpus", args, &["--corpus"])
}
