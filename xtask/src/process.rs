//! Running other programs.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

/// A `cargo` command in `folder`: the cargo that runs this program.
pub fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    command
}

/// Runs `command` with this program's input and output, and answers with its exit code.
pub fn exit_code(command: &mut Command) -> Result<ExitCode> {
    let status = command
        .status()
        .with_context(|| format!("{command:?} did not start"))?;
    // A command ended by a signal has no code.
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1);
    Ok(ExitCode::from(code))
}

/// Runs `command` with this program's output; an error if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{command:?} did not start"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

/// What `command` prints on standard output; `None` if it cannot be started or fails.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
