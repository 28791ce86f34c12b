//! Other programs.

use std::process::{Command, Output};

/// Runs a command that must not fail, and answers with what it printed.
///
/// # Panics
///
/// If it does not start, or fails; with all that it printed.
pub fn run(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let [out, err] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out
}
