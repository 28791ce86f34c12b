//! The command `campaign`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use super::{Backend, Settings, Tally, run, run_step};
use crate::machine::{Machine, command_without_folders, commit, now};
use crate::results::write_json;

/// Attacks the solver with hostile systems and holds each of its statements against exact measures.
///
/// The last line says how many steps passed, failed and were skipped. The exit code is 0 if some passed and none failed.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Number of steps.
    #[arg(long, default_value_t = 2000)]
    steps: u64,
    /// Seed of the campaign.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the steps run.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// Steps at a time; the results do not depend on it.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Largest order; 400, on the simulator 40.
    #[arg(long)]
    max_n: Option<usize>,
    /// Symmetric matrices, which the options say to be so.
    #[arg(long)]
    symmetric: bool,
    /// Run the step of this seed (decimal, or hexadecimal after 0x) alone, and print all that happens.
    #[arg(long, value_parser = parse_seed)]
    replay: Option<u64>,
    /// Write the results here as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Results<'a> {
    schema: &'static str,
    machine: Machine,
    date: String,
    commit: String,
    command: Vec<String>,
    settings: Settings,
    seconds: f64,
    tally: &'a Tally,
}

fn parse_seed(text: &str) -> Result<u64, std::num::ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

impl Arguments {
    /// Runs the campaign, or one step of it.
    ///
    /// # Errors
    ///
    /// If the results cannot be written.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let date = now();
        let start = Instant::now();
        let mut settings = Settings::new(self.backend, self.seed, self.steps);
        settings.jobs = self.jobs;
        settings.max_n = self.max_n.unwrap_or(settings.max_n);
        settings.symmetric = self.symmetric;
        if let Some(seed) = self.replay {
            let outcome = run_step(seed, &settings, &mut Default::default(), true);
            outcome
                .transcript
                .iter()
                .for_each(|line| println!("{line}"));
            for failure in &outcome.failures {
                println!("FAILED {}: {}", failure.class, failure.detail);
            }
            return Ok(match outcome.failures.len() {
                0 => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            });
        }
        let told = AtomicU64::new(0);
        let progress = |done: u64| {
            let share = done * 20 / settings.steps.max(1);
            if told.fetch_max(share, Ordering::Relaxed) < share {
                eprintln!("{done} steps, {:.0} s", start.elapsed().as_secs_f64());
            }
        };
        let stuck = |seed: u64| eprintln!("the step of seed {seed:#018x} takes long");
        let tally = run(&settings, &progress, &stuck);
        println!("{tally}");
        if let Some(path) = &self.json {
            let results = Results {
                schema: "luge-campaign/1",
                machine: Machine::here(),
                date,
                commit: commit(),
                command: command_without_folders(std::env::args()),
                settings,
                seconds: start.elapsed().as_secs_f64(),
                tally: &tally,
            };
            write_json(path, &results)?;
        }
        Ok(if tally.is_success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
