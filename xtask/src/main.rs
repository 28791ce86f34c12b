//! Development commands of Luge, run as `cargo xtask <command>`.
//!
//! One file a command. This crate depends on no crate of Luge, so that it builds and can repair
//! things when the rest does not compile (when the generated PTX is missing, for one).

mod binaries;
mod capi;
mod casadi_test;
mod check_images;
mod copy;
mod doctor;
mod features;
mod gpu_test;
mod images;
mod install;
mod klu;
mod manifest;
mod mpi_test;
mod mutants;
mod pack;
mod process;
mod programs;
mod ptx;
mod ptxas;
mod publish;
mod python_test;
mod slips;
mod sources;
mod test;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Development commands of Luge.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Solve a linear system: builds `luge` in release mode and passes the arguments on.
    #[command(disable_help_flag = true)]
    Solve(PassedOn),
    /// Run all tests of the workspace; device tests run on the simulator.
    #[command(disable_help_flag = true)]
    Test(PassedOn),
    /// Run the tests that use a device on the GPU; fails when no such test ran.
    #[command(disable_help_flag = true)]
    GpuTest(PassedOn),
    /// List the corpus, fetch or generate matrices of its kinds; `--help` lists the commands.
    #[command(disable_help_flag = true)]
    Corpus(PassedOn),
    /// Take every matrix of the corpus through every phase and measure each result; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Verify(PassedOn),
    /// Attack the solver with hostile systems, and hold each statement against exact measures; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Campaign(PassedOn),
    /// Run `luge-bench`: benchmarks, tables of their results, fingerprints; `--help` lists the commands.
    #[command(disable_help_flag = true)]
    Bench(PassedOn),
    /// Make slips in kernels, one at a time, and see whether the tests on the simulator notice.
    Slips(slips::Args),
    /// Build the GPU kernels to PTX, or check that the committed PTX is what the sources say.
    Ptx(ptx::Args),
    /// Change the host code in one place at a time, and count how many of the changes the tests notice.
    Mutants(mutants::Args),
    /// Check that the crates compile without their features, and with each alone.
    Features,
    /// Pack every crate as it would be published, and compile it from its package.
    Publish(publish::Args),
    /// Build the C interface, and install header, libraries, pkg-config file and CMake package.
    Capi(capi::Args),
    /// Build KLU's interface on Luge, and install it by its own name or in the place of libklu.
    Klu(klu::Args),
    /// Build the wheel of the Python package, install it into a new environment, and run its tests.
    PythonTest(python_test::Args),
    /// Run Ipopt of CasADi's wheel with Luge in place of MA57, beside the solvers that it has.
    CasadiTest(casadi_test::Args),
    /// Run the solver on four processes of MPI, and see what becomes of the others when one ends.
    MpiTest,
    /// Say what is installed here, and how to get what is missing.
    Doctor,
}

/// Arguments handed to another program as they are.
#[derive(clap::Args)]
struct PassedOn {
    /// Arguments passed on.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    match cli.command {
        Command::Solve(passed) => programs::solve(&workspace, &passed.args),
        Command::Test(passed) => test::test(&workspace, &passed.args),
        Command::GpuTest(passed) => gpu_test::gpu_test(&workspace, &passed.args),
        Command::Corpus(passed) => programs::corpus(&workspace, &passed.args),
        Command::Verify(passed) => programs::verify(&workspace, &passed.args),
        Command::Campaign(passed) => programs::campaign(&workspace, &passed.args),
        Command::Bench(passed) => programs::bench(&workspace, &passed.args),
        Command::Slips(args) => slips::slips(&workspace, &args),
        Command::Ptx(args) => ptx::ptx(&workspace, &args),
        Command::Mutants(args) => mutants::mutants(&workspace, &args),
        Command::Features => features::features(&workspace),
        Command::Publish(args) => publish::publish(&workspace, &args),
        Command::Capi(args) => capi::capi(&workspace, &args),
        Command::Klu(args) => klu::klu(&workspace, &args),
        Command::PythonTest(args) => python_test::python_test(&workspace, &args),
        Command::CasadiTest(args) => casadi_test::casadi_test(&workspace, &args),
        Command::MpiTest => mpi_test::mpi_test(&workspace),
        Command::Doctor => doctor::doctor(&workspace),
    }
}
