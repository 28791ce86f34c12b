//! Fingerprints of what the CPU path answers.

use clap::Parser;
use luge_benches::bits::{Arguments, bits};

/// Prints a fingerprint of the factors' observable numbers for each matrix and mode.
#[derive(Debug, Parser)]
#[command(name = "bits")]
struct Program {
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> anyhow::Result<()> {
    bits(&Program::parse().arguments)
}
