//! Options that benchmarks have in common.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use luge::DeviceEngine;
use luge_testkit::corpus::Kind;

use crate::machine;
use crate::page::pattern::Pictures;
use crate::page::{Named, page};
use crate::report::{write_json, write_text};
use crate::results::{Results, Settings};
use crate::statistics::Statistic;
use crate::systems::{Selection, Source};

/// Where results go.
#[derive(Debug, Clone, Args)]
pub struct OutputArguments {
    /// Write the raw results here.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the tables here as Markdown.
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// Write a page of tables and charts here, as `cargo xtask report` makes it.
    #[arg(long, value_name = "FILE.html", value_parser = html_file)]
    pub report: Option<PathBuf>,
    /// The commit to record; default: the one that is checked out.
    #[arg(long)]
    commit: Option<String>,
}

impl OutputArguments {
    /// The commit to record.
    pub fn commit(&self) -> String {
        self.commit.clone().unwrap_or_else(machine::commit)
    }

    /// Writes the files that are asked for. The page draws a matrix that is found in `corpus`, or generated.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn write(
        &self,
        results: &Results,
        tables: &str,
        corpus: Option<&Path>,
    ) -> anyhow::Result<()> {
        if let Some(path) = &self.json {
            write_json(path, results)?;
        }
        if let Some(path) = &self.table {
            write_text(path, tables)?;
        }
        if let Some(path) = &self.report {
            let raw = self.json.as_deref().and_then(Path::file_name);
            let file = raw.map_or("not kept".into(), |name| name.to_string_lossy());
            let all = [Named {
                file: file.into_owned(),
                results: results.clone(),
            }];
            let pictures = Pictures::of_usual(&all, corpus);
            write_text(path, &page(&all, pictures.as_ref())?)?;
            println!("page: {}", path.display());
        }
        Ok(())
    }
}

/// How often solvers take turns on a matrix, and how long they may take.
#[derive(Debug, Clone, Args)]
pub struct RoundsArguments {
    /// Seconds of samples per matrix, all solvers together.
    #[arg(long, default_value_t = 6.0)]
    time_budget: f64,
    /// Seconds that a solver on the CPU may take to read and factorize a matrix for the first time.
    #[arg(long, default_value_t = 60.0)]
    pub time_limit: f64,
    /// Fewest samples of each phase, whatever the budget.
    #[arg(long, default_value_t = 3)]
    min_rounds: usize,
    /// Most samples of each phase.
    #[arg(long, default_value_t = 15)]
    max_rounds: usize,
}

impl RoundsArguments {
    /// One round at least, of which this statistic counts.
    pub fn settings(&self, statistic: Statistic) -> Settings {
        let min_rounds = self.min_rounds.max(1);
        Settings {
            time_limit: self.time_limit,
            budget: self.time_budget,
            min_rounds,
            max_rounds: self.max_rounds.max(min_rounds),
            statistic,
        }
    }
}

/// What factorizes on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Whichever is predicted to be faster.
    Auto,
    /// Column by column, level after level.
    Columns,
    /// Fronts up the forest.
    Tree,
}

impl From<EngineName> for DeviceEngine {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Auto => Self::Auto,
            EngineName::Columns => Self::Columns,
            EngineName::Tree => Self::Tree,
        }
    }
}

/// The name of a page, which cannot be that of results.
///
/// # Errors
///
/// If it does not end in `.html`.
pub fn html_file(name: &str) -> Result<PathBuf, String> {
    if name.ends_with(".html") {
        Ok(PathBuf::from(name))
    } else {
        Err("the name of a page ends in .html".to_owned())
    }
}

/// Which matrices.
#[derive(Debug, Clone, Args)]
pub struct SourceArguments {
    /// Folder of the corpus.
    #[arg(long)]
    pub corpus: Option<PathBuf>,
    /// Matrix Market files, instead of a corpus.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub matrix: Vec<PathBuf>,
    /// Generated matrices, instead of a corpus.
    #[arg(long)]
    pub generated: bool,
    /// Kinds of matrices.
    #[arg(long, value_delimiter = ',', default_value = "circuit,power,cfd,fem")]
    pub kinds: Vec<Kind>,
    /// These matrices only, whatever their kind.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Leave out matrices of smaller order.
    #[arg(long, default_value_t = 0)]
    pub min_n: u64,
    /// Leave out matrices of larger order.
    #[arg(long)]
    pub max_n: Option<u64>,
}

impl SourceArguments {
    /// The matrices that are asked for; generated ones, and a word of it, where the corpus is not there.
    ///
    /// # Errors
    ///
    /// As [`Selection::of_corpus`].
    pub fn sources(&self) -> anyhow::Result<Vec<Source>> {
        if !self.matrix.is_empty() {
            let files = self.matrix.iter();
            return Ok(files.map(|path| Source::of_file(path)).collect());
        }
        let selection = Selection {
            kinds: self.kinds.clone(),
            only: self.only.clone(),
            min_n: self.min_n,
            max_n: self.max_n,
        };
        match &self.corpus {
            _ if self.generated => Ok(selection.of_generators()),
            Some(folder) if folder.is_dir() => selection.of_corpus(folder),
            other => {
                let folder = other.as_deref().unwrap_or(Path::new("none given"));
                eprintln!(
                    "NO CORPUS ({}): generated matrices stand in for it, and prove less",
                    folder.display()
                );
                Ok(selection.of_generators())
            }
        }
    }

    /// The one matrix of a trial: a file, or the generator that is named.
    ///
    /// # Errors
    ///
    /// If there is neither.
    pub fn source_of_trial(&self) -> anyhow::Result<Source> {
        match (self.matrix.first(), self.only.first()) {
            (Some(path), _) => Ok(Source::of_file(path)),
            (None, Some(name)) => Source::of_generator(name).context("no such generator"),
            (None, None) => bail!("a trial needs a matrix"),
        }
    }
}

/// Where the peers' libraries are.
#[derive(Debug, Clone, Default, Args)]
pub struct LibraryArguments {
    /// Where a peer's library is: `klu=/usr/lib/libklu.so.1`.
    #[arg(long, value_name = "PEER=FILE")]
    pub library: Vec<String>,
}

impl LibraryArguments {
    /// The last path that is given for `peer`.
    pub fn path(&self, peer: &str) -> Option<PathBuf> {
        let paths = self.library.iter().filter_map(|word| word.split_once('='));
        paths
            .filter(|(name, _)| *name == peer)
            .map(|(_, path)| PathBuf::from(path))
            .next_back()
    }

    /// The options again, for a process of the same program.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.library.iter().map(|word| format!("--library={word}"))
    }
}
