//! `cargo xtask test`: all tests, without a GPU.

use std::process::ExitCode;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Runs the tests of every crate; `args` are passed on to `cargo test`.
pub fn test(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    process::exit_code(
        process::cargo(&workspace.root)
            .args(["test", "--workspace"])
            .args(args),
    )
}
