//! Programs of the workspace that commands hand their arguments to, built in release mode and run in the folder this
//! command was called in, so that relative paths mean what the caller meant.

use std::process::ExitCode;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// A program of a package, and what comes before the arguments that are handed to it.
struct Program {
    package: &'static str,
    name: &'static str,
    features: &'static [&'static str],
    first: &'static [&'static str],
    /// Whether it wants the folder of the corpus, where none is named.
    over_corpus: bool,
}

/// `luge solve`.
pub fn solve(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let luge = Program {
        package: "luge",
        name: "luge",
        features: &[],
        first: &["solve"],
        over_corpus: false,
    };
    luge.run(workspace, args)
}

/// `luge-bench`: the benchmarks.
pub fn bench(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let measures = args
        .first()
        .is_some_and(|name| name == "peers" || name == "symbolic");
    let bench = Program {
        package: "luge-benches",
        name: "luge-bench",
        // As peers.
        features: &["faer", "feral"],
        first: &[],
        over_corpus: measures,
    };
    bench.run(workspace, args)
}

/// `luge-bench campaign`.
pub fn campaign(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let campaign = Program {
        package: "luge-benches",
        name: "luge-bench",
        features: &[],
        first: &["campaign"],
        over_corpus: false,
    };
    campaign.run(workspace, args)
}

/// `luge-corpus`.
pub fn corpus(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let corpus = Program {
        package: "luge-tests",
        name: "luge-corpus",
        features: &[],
        first: &[],
        over_corpus: !args.is_empty(),
    };
    corpus.run(workspace, args)
}

/// `luge-corpus verify`.
pub fn verify(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let verify = Program {
        package: "luge-tests",
        name: "luge-corpus",
        features: &[],
        first: &["verify"],
        over_corpus: true,
    };
    verify.run(workspace, args)
}

impl Program {
    /// Runs it and answers with its exit code.
    fn run(&self, workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
        let mut command = process::cargo(&std::env::current_dir()?);
        command
            .args(["run", "--quiet", "--release", "--package", self.package])
            .args(["--bin", self.name, "--manifest-path"])
            .arg(workspace.root.join("Cargo.toml"));
        for feature in self.features {
            command.args(["--features", feature]);
        }
        command.arg("--").args(self.first).args(args);
        let names_corpus = |arg: &String| arg == "--corpus" || arg.starts_with("--corpus=");
        if self.over_corpus && !args.iter().any(names_corpus) {
            command.arg(format!("--corpus={}", workspace.corpus().display()));
        }
        process::exit_code(&mut command)
    }
}
