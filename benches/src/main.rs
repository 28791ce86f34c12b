//! `luge-bench`: everything that measures Luge.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use luge_benches::arguments::ReportArguments;
use luge_benches::{bits, campaign, changed, device_costs, devices, peers, sweep, symbolic};

/// Measures Luge.
#[derive(Debug, Parser)]
#[command(name = "luge-bench")]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Luge on the CPU and on devices beside KLU, UMFPACK, SuperLU, faer and cuDSS.
    Peers(Box<peers::Arguments>),
    /// The symbolic phase on a GPU, every mode and budget, beside the CPU path.
    Symbolic(Box<symbolic::Arguments>),
    /// What a group of devices shares, on one and on several.
    Devices(devices::Arguments),
    /// A circuit at many frequencies: one batch, and one after another.
    Sweep(sweep::Arguments),
    /// Refactorizations that are told which values changed, beside whole ones.
    Changed(changed::Arguments),
    /// The table of device costs, measured on a GPU.
    DeviceCosts(device_costs::Arguments),
    /// Hostile systems, and each statement of the solver against exact measures.
    Campaign(campaign::Arguments),
    /// Tables of results that are kept.
    Report(ReportArguments),
    /// Fingerprints of what the CPU path answers, by which two versions are compared.
    Bits(bits::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    match Program::parse().command {
        Command::Peers(arguments) => arguments.run(),
        Command::Symbolic(arguments) => arguments.run(),
        Command::Devices(arguments) => arguments.run(),
        Command::Sweep(arguments) => arguments.run(),
        Command::Changed(arguments) => arguments.run(),
        Command::DeviceCosts(arguments) => arguments.run(),
        Command::Campaign(arguments) => arguments.run(),
        Command::Report(arguments) => arguments.run(),
        Command::Bits(arguments) => bits::bits(&arguments).map(|()| ExitCode::SUCCESS),
    }
}
