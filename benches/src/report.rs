//! What all benchmarks record of solvers, and the files that they write.

use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Luge's name in results.
pub const LUGE: &str = "luge";

/// Backward error above which a solution is called wrong.
pub const WRONG: f64 = 1e-8;

/// A solver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SolverInfo {
    /// Its name.
    pub name: String,
    /// Its version, as far as it tells.
    pub version: String,
    /// The numbers of threads it was run with.
    pub threads: Vec<usize>,
    /// Options that differ from its defaults, the BLAS.
    pub notes: Vec<String>,
    /// Why it is not here, if it is not.
    pub missing: Option<String>,
}

/// What became of a solver on a matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// It was timed.
    Measured,
    /// It was stopped: its first factorization takes longer than the limit.
    TooSlow {
        /// Seconds after which it was stopped.
        seconds: f64,
    },
    /// It refused the matrix, or ended.
    Failed {
        /// Its words.
        reason: String,
    },
}

/// Reads the results that a benchmark wrote as JSON.
///
/// # Errors
///
/// If the file cannot be read, or holds something else.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} holds no results of this benchmark", path.display()))
}

/// Writes results as JSON.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_json(path: &Path, results: &impl Serialize) -> anyhow::Result<()> {
    write_text(path, &serde_json::to_string(results)?)
}

/// Writes a table.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The lines above the tables of a run: the machine, when, what, and how.
pub fn heading(
    title: &str,
    machine: &Machine,
    date: &str,
    commit: &str,
    command: &[String],
) -> String {
    format!(
        "# {title}\n\n{}, {} cores, {} GiB, {}; {date}; commit {commit}; {} build\n\n`{}`\n",
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.system,
        profile(),
        command.join(" ")
    )
}

/// `"release"` or `"dev"`.
pub fn profile() -> &'static str {
    if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    }
}
