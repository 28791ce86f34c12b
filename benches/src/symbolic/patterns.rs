//! The patterns that are measured.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use luge_matrix_io::{MatrixData, WriteOptions, read, write_pattern};
use luge_sparse::CompressedPattern;
use luge_testkit::corpus::Corpus;

use crate::systems::ordered_pattern;

/// Where a pattern comes from.
#[derive(Debug, Clone)]
pub struct Source {
    /// Name of the matrix.
    pub name: String,
    path: PathBuf,
    /// Whether the file holds B itself.
    ordered: bool,
}

impl Source {
    /// The square real matrices of a corpus, by order and name.
    ///
    /// # Errors
    ///
    /// If the corpus cannot be listed.
    pub fn of_corpus(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let corpus = Corpus::open_at(folder)
            .with_context(|| format!("no corpus at {}", folder.display()))?;
        let sources = corpus.square_real(u64::MAX).into_iter().map(|entry| Self {
            name: entry.name.clone(),
            path: entry.path.clone(),
            ordered: false,
        });
        Ok(sources.collect())
    }

    /// The files of a folder that [`save`] wrote, by name.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed.
    pub fn of_saved(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let entries = fs::read_dir(folder)
            .with_context(|| format!("cannot list {}", folder.display()))?
            .collect::<Result<Vec<_>, _>>()?;
        let mut sources: Vec<Self> = entries
            .into_iter()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "mtx"))
            .map(|path| Self {
                name: path
                    .file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                path,
                ordered: true,
            })
            .collect();
        sources.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(sources)
    }

    /// The pattern B, ordered as a device orders: matched rows, for its static pivots. `None` if the matrix has
    /// no such order, being structurally singular.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or holds no square real matrix where it should.
    pub fn pattern(&self) -> anyhow::Result<Option<CompressedPattern>> {
        let matrix = read(&self.path)?;
        if self.ordered {
            let pattern = matrix.pattern();
            if pattern.major_dim() != pattern.minor_dim() {
                bail!("{} is not square", self.path.display());
            }
            return Ok(Some(pattern));
        }
        let MatrixData::Real(matrix) = matrix.data else {
            bail!("{} is not real", self.path.display());
        };
        // What is singular in structure has no such pattern.
        Ok(ordered_pattern(&matrix.to_csr()).ok())
    }
}

/// Writes a pattern to a folder, for [`Source::of_saved`].
///
/// # Errors
///
/// If the file cannot be written.
pub fn save(folder: &Path, name: &str, pattern: &CompressedPattern) -> anyhow::Result<()> {
    let path = folder.join(format!("{name}.mtx"));
    write_pattern(&path, pattern, &WriteOptions::default())
        .with_context(|| format!("cannot write {}", path.display()))
}
