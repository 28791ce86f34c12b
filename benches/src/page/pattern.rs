//! Pictures of one matrix: where A has entries, and L and U in the order in which Luge eliminates; supernodes; levels.

use std::path::Path;

use anyhow::{Context, bail};
use luge_plot::spy::Spy;
use luge_plot::{Drawing, histogram, spy};
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;
use sprs::CsMat;

use super::Named;
use super::html::{escaped, figure};
use crate::systems::{Source, ordered_pattern};

/// Most entries of L and U of a matrix that is drawn: the pattern is held in memory.
const MOST_ENTRIES: u64 = 200_000_000;

/// The pictures of a matrix.
#[derive(Debug, Clone)]
pub struct Pictures {
    name: String,
    n: usize,
    a: Drawing,
    factors: Drawing,
    levels: Drawing,
}

impl Pictures {
    /// Of the matrix of the first results that is large enough to look at and small enough to see something: the one
    /// whose order is closest to 5,000. It is generated, or found in `corpus` by its name; if it is not there, that is
    /// said on standard error.
    pub fn of_usual(all: &[Named], corpus: Option<&Path>) -> Option<Self> {
        let matrices = &all.first()?.results.matrices;
        let closest = matrices.iter().min_by_key(|matrix| matrix.n.abs_diff(5000));
        let drawn = Self::of_named(&closest?.name, corpus);
        drawn
            .inspect_err(|error| eprintln!("no matrix is drawn: {error:#}"))
            .ok()
    }

    /// Of a matrix that is generated, a Matrix Market file, or the name of one in `corpus`.
    ///
    /// # Errors
    ///
    /// If there is no such matrix, and as [`of`](Self::of).
    pub fn of_named(wanted: &str, corpus: Option<&Path>) -> anyhow::Result<Self> {
        let source = match Source::of_generator(wanted) {
            Some(generated) => generated,
            None if Path::new(wanted).is_file() => Source::of_file(Path::new(wanted)),
            None => {
                let Some(folder) = corpus.filter(|folder| folder.is_dir()) else {
                    bail!("{wanted} is no file, and there is no corpus to look for it");
                };
                let corpus = Corpus::open_at(folder)?;
                let entry = corpus.find(wanted);
                let entry = entry.with_context(|| format!("there is no matrix {wanted}"))?;
                Source::of_file(&entry.path)
            }
        };
        Self::of(&source.name, source.read()?.rows())
    }

    /// Orders a matrix as the CPU path does for factors on a device, finds the pattern of L and U, its supernodes and
    /// its levels, and draws them.
    ///
    /// # Errors
    ///
    /// If the matrix is singular in structure, or its factors are too large.
    pub fn of(name: &str, a: &CsMat<f64>) -> anyhow::Result<Self> {
        let a = a.to_csr();
        let pattern = pattern_of(&a);
        let b = ordered_pattern(&a)?;
        let entries = luge_symbolic::cpu::counts(&b)?.nnz();
        anyhow::ensure!(
            entries <= MOST_ENTRIES,
            "{name} has {entries} entries of L and U, which is too much to draw"
        );
        let filled = luge_symbolic::cpu::filled_pattern(&b)?;
        let supernodes =
            luge_supernode::cpu::supernodes(&filled, &luge_supernode::Options::default());
        let levels = luge_levelize::cpu::levels(&filled);
        let caption = format!("{} rows, {} entries", a.rows(), a.nnz());
        let of_a = Spy {
            rows: &pattern,
            title: "A, as it is stored",
            caption: &caption,
            blocks: &[],
            is_factors: false,
        };
        let fill = entries as f64 / a.nnz().max(1) as f64;
        let title = format!("L and U: {entries} entries, {fill:.1} times those of A");
        let caption = format!(
            "{} supernodes, those wide enough to be seen framed",
            supernodes.len()
        );
        let of_factors = Spy {
            rows: filled.rows(),
            title: &title,
            caption: &caption,
            blocks: supernodes.ptr(),
            is_factors: true,
        };
        Ok(Self {
            name: name.to_owned(),
            n: a.rows(),
            a: spy::drawing(&of_a).context("A")?,
            factors: spy::drawing(&of_factors).context("L and U")?,
            levels: histogram::drawing(&levels).context("levels")?,
        })
    }

    /// The section of the page.
    pub fn section(&self) -> String {
        let name = &self.name;
        let drawn = |title: &str, words: &str, drawing: &Drawing| {
            figure(
                title,
                words,
                "",
                &drawing.inline(&format!("{title} {words}")),
            )
        };
        format!(
            "<section id=\"pictures\"><h2>A matrix and its factors: {}</h2>\
             <p>Rows run down and columns to the right, {} of each. A mark is stronger where there are more entries. \
             In the second picture rows and columns are in the order in which Luge eliminates them.</p>\
             <div class=\"pair\">{}{}</div>{}</section>",
            escaped(name),
            self.n,
            drawn("The matrix.", "Its entries as the file has them.", &self.a),
            drawn(
                "The factors.",
                "L below the diagonal, U above; frames are supernodes, dense blocks.",
                &self.factors
            ),
            drawn(
                "The levels.",
                "How many columns can be worked on side by side, level after level.",
                &self.levels
            ),
        )
    }
}
