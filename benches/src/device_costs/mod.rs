//! The command that measures the table of device costs, `luge_frontal::gpu::DeviceCosts`.
//!
//! Forests of fronts of one class are factorized and solved with ([`forests`], [`timing`]), each group so made that a few
//! entries of the table decide its seconds ([`groups`]); the entries that fit best come out by least squares ([`fit`]), in
//! the model that predicts ([`model`]). Seconds are the device's, between two events around the launch, the median of many
//! after some that do not count; a call is timed on the host.

pub mod fit;
pub mod forests;
pub mod groups;
pub mod model;
pub mod timing;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use luge_device::Stream;
use luge_frontal::gpu::{DeviceCosts, kernels};
use serde::{Deserialize, Serialize};

use self::forests::Forest;
use self::groups::{Group, fit_all};
use self::model::{Entry, Work};
use self::timing::Subject;
use crate::arguments::Backend;
use crate::machine::{Machine, command_without_folders, commit, now};
use crate::progress::Progress;
use crate::results::{DeviceInfo, PROFILE, write_json};
use crate::statistics::Samples;
use crate::tables::table;

/// The format of [`Measured`]; raised when it changes.
pub const SCHEMA: &str = "luge-device-costs/1";

/// Measures the table of device costs.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Where it runs: a GPU, or the simulator with tiny forests, whose times mean nothing.
    #[arg(long, value_enum, default_value_t = Backend::Gpu)]
    backend: Backend,
    /// Samples of each forest.
    #[arg(long, default_value_t = 51)]
    samples: usize,
    /// Runs of each forest before the first sample.
    #[arg(long, default_value_t = 5)]
    warm_up: usize,
    /// Write the table, all samples and residuals here as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A table of costs as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// [`SCHEMA`].
    pub schema: String,
    /// The host.
    pub machine: Machine,
    /// The device.
    pub device: DeviceInfo,
    /// When it began, in universal time.
    pub date: String,
    /// The commit that was built.
    pub commit: String,
    /// `"release"` or `"dev"`.
    pub profile: String,
    /// The command, without folders.
    pub command: Vec<String>,
    /// Runs of each forest before the first sample.
    pub warm_up: usize,
    /// The entries.
    pub table: Vec<MeasuredEntry>,
    /// The groups that they are fitted to.
    pub groups: Vec<MeasuredGroup>,
    /// A refactorization and a solve of the smallest matrix, on the host's clock.
    pub call: Samples,
}

/// An entry of the table, in seconds or as a count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredEntry {
    /// The field's name.
    pub name: String,
    /// What the program has for it.
    pub default: f64,
    /// What was measured; the default where the best fit is without this entry.
    pub measured: f64,
}

/// A group of forests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredGroup {
    /// What they are.
    pub name: String,
    /// The unknowns, the launch first, and what they came out as; zero where the best fit is without one.
    pub unknowns: Vec<(String, f64)>,
    /// The forests.
    pub cases: Vec<MeasuredCase>,
}

/// A forest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCase {
    /// What it is.
    pub name: String,
    /// Fronts.
    pub fronts: usize,
    /// Seconds on the device's clock.
    pub samples: Samples,
    /// Seconds by the table that was fitted.
    pub fitted: f64,
    /// By how much the median exceeds these, as a part of them.
    pub residual: f64,
}

impl Arguments {
    /// Runs the measurement.
    ///
    /// # Errors
    ///
    /// If there is no such device, it fails, or the file cannot be written.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let is_tiny = match self.backend {
            Backend::Cpu => bail!("device costs are measured on a device"),
            Backend::Gpu => false,
            Backend::Sim => true,
        };
        let device = self.backend.device()?.context("a device was asked for")?;
        device.load_kernels(&kernels::<f64>())?;
        let stream = device.create_stream()?;
        let date = now();
        let mut cases = Vec::new();
        for group in Group::ALL {
            cases.extend(group.cases(is_tiny).into_iter().map(|case| (group, case)));
        }
        let progress = Progress::over(cases.len());
        let mut measured: Vec<(Group, Vec<(Work, f64)>)> = Vec::new();
        let mut groups: Vec<MeasuredGroup> = Vec::new();
        for (group, case) in cases {
            progress.begin(&case.name);
            let samples = self.samples_of(&stream, group, &case.forest)?;
            progress.end(&format!(
                "{:<44} {:9.2} µs",
                case.name,
                samples.median * 1e6
            ));
            if measured.last().is_none_or(|(last, _)| *last != group) {
                measured.push((group, Vec::new()));
                groups.push(MeasuredGroup {
                    name: group.name().to_owned(),
                    unknowns: Vec::new(),
                    cases: Vec::new(),
                });
            }
            if let (Some((_, works)), Some(group)) = (measured.last_mut(), groups.last_mut()) {
                works.push((Work::of(&case.forest), samples.median));
                group.cases.push(MeasuredCase {
                    name: case.name,
                    fronts: case.forest.fronts.len(),
                    samples,
                    fitted: 0.0,
                    residual: 0.0,
                });
            }
        }
        drop(progress);
        let call = self.samples_of_calls(&stream)?;
        let (mut costs, solutions) = fit_all(&measured, DeviceCosts::default());
        costs.call = call.median;
        for (((group, works), solution), result) in measured.iter().zip(solutions).zip(&mut groups)
        {
            for ((work, median), case) in works.iter().zip(&mut result.cases) {
                case.fitted = group.row(work, &costs).seconds(&solution);
                case.residual = median / case.fitted - 1.0;
            }
            let names = ["launch"].iter().chain(group.unknowns());
            let unknowns = names.map(|name| (*name).to_owned()).zip(solution);
            result.unknowns = unknowns.collect();
        }
        let entry = |entry: Entry| MeasuredEntry {
            name: entry.name().to_owned(),
            default: entry.value(&DeviceCosts::default()),
            measured: entry.value(&costs),
        };
        let results = Measured {
            schema: SCHEMA.to_owned(),
            machine: Machine::here(),
            device: DeviceInfo::of(&device),
            date,
            commit: commit(),
            profile: PROFILE.to_owned(),
            command: command_without_folders(std::env::args()),
            warm_up: self.warm_up,
            table: Entry::ALL.map(entry).to_vec(),
            groups,
            call,
        };
        println!("{}", results.tables());
        if let Some(path) = &self.json {
            write_json(path, &results)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Seconds on the device.
    fn samples_of(
        &self,
        stream: &Stream,
        group: Group,
        forest: &Forest,
    ) -> anyhow::Result<Samples> {
        let mut subject = Subject::new(stream, forest)?;
        self.sampled(|| subject.seconds(group.timed()))
    }

    /// Seconds of calls with the smallest matrix.
    fn samples_of_calls(&self, stream: &Stream) -> anyhow::Result<Samples> {
        let mut subject = Subject::new(stream, &Forest::alone(1, 2))?;
        self.sampled(|| subject.call_seconds())
    }

    fn sampled(&self, mut seconds: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<Samples> {
        for _ in 0..self.warm_up {
            seconds()?;
        }
        let samples: anyhow::Result<Vec<f64>> =
            (0..self.samples.max(1)).map(|_| seconds()).collect();
        Ok(Samples::new(samples?))
    }
}

impl Measured {
    /// The table beside the default, and how well each group fits, as Markdown.
    pub fn tables(&self) -> String {
        let mut entries = table(["entry", "default", "measured", "measured / default"], 1);
        for entry in &self.table {
            let is_seconds = Entry::ALL
                .into_iter()
                .any(|known| known.name() == entry.name && known.is_seconds());
            let number = |value: f64| {
                if is_seconds {
                    format!("{:.3} µs", value * 1e6)
                } else {
                    format!("{value:.0}")
                }
            };
            entries.add_row([
                entry.name.clone(),
                number(entry.default),
                number(entry.measured),
                format!("{:.2}", entry.measured / entry.default),
            ]);
        }
        let mut groups = table(["group", "cases", "largest residual", "launch"], 1);
        let mut left_out = String::new();
        for group in &self.groups {
            let residuals = group.cases.iter().map(|case| case.residual.abs());
            let launch = group.unknowns.first().map_or(0.0, |(_, launch)| *launch);
            groups.add_row([
                group.name.clone(),
                group.cases.len().to_string(),
                format!("{:.1} %", 100.0 * residuals.fold(0.0, f64::max)),
                format!("{:.2} µs", launch * 1e6),
            ]);
            for (name, _) in group.unknowns.iter().skip(1).filter(|(_, x)| *x <= 0.0) {
                left_out += &format!(
                    "\nNOT MEASURED: {} fit best without {name}; its entry is the default.",
                    group.name
                );
            }
        }
        let driver = self.device.driver.as_deref().unwrap_or("none");
        format!(
            "{}, driver {driver}, {}\n\n{entries}\n\n{groups}\n{left_out}",
            self.device.name, self.date
        )
    }
}
