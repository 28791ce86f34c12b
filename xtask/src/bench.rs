//! `cargo xtask bench`: the benchmarks.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::PassedOn;
use crate::benches;
use crate::workspace::Workspace;

/// Which benchmark.
#[derive(Subcommand)]
pub enum Bench {
    /// Luge on the CPU beside KLU, UMFPACK, SuperLU and faer; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Cpu(PassedOn),
    /// The symbolic phase on a GPU, every mode and budget, beside the CPU path; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Symbolic(PassedOn),
    /// The whole LU on a GPU, beside KLU and cuDSS; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Numeric(PassedOn),
    /// From the matrix to a solution: Luge on the CPU and on a GPU beside all peers; `--help` lists the options.
    #[command(disable_help_flag = true)]
    EndToEnd(PassedOn),
}

/// Runs a benchmark over the corpus, or the matrices that are named.
pub fn bench(workspace: &Workspace, which: &Bench) -> Result<ExitCode> {
    let over_corpus = |program, passed: &PassedOn, others: &[&str]| {
        benches::run_over_corpus(workspace, program, &passed.args, others)
    };
    match which {
        Bench::Cpu(passed) => over_corpus("cpu", passed, &["--corpus"]),
        Bench::Symbolic(passed) => over_corpus("symbolic", passed, &["--corpus", "--patterns"]),
        Bench::Numeric(passed) => over_corpus("numeric", passed, &["--corpus"]),
        Bench::EndToEnd(passed) => over_corpus("end-to-end", passed, &["--corpus"]),
    }
}
