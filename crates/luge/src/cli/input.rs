//! Where matrices and right-hand sides come from.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use luge_matrix_io::{DenseMatrix, read, read_dense};
use serde::Serialize;
use sprs::CsMat;

use super::Failure;
use super::sample::Sample;

/// The matrix to work on.
#[derive(Args)]
pub(crate) struct MatrixArguments {
    /// Matrix Market file, plain or gzip. Without it a sample is made.
    #[arg(value_name = "A.mtx", conflicts_with_all = ["sample", "size"])]
    matrix: Option<PathBuf>,
    /// Which sample to make.
    #[arg(long, value_enum, default_value = "grid")]
    sample: Sample,
    /// Size of the sample.
    #[arg(long, default_value_t = 200)]
    size: usize,
}

/// What was read.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Source {
    /// The file, or the sample and its size.
    pub name: String,
    pub rows: usize,
    pub cols: usize,
    pub nnz: usize,
    /// Field and symmetry of the file.
    pub kind: String,
    pub seconds: f64,
}

impl MatrixArguments {
    /// The file, if there is one.
    #[cfg(feature = "plot")]
    pub(crate) fn path(&self) -> Option<&Path> {
        self.matrix.as_deref()
    }

    /// What the report calls the matrix before it is read.
    pub(crate) fn name(&self) -> String {
        match &self.matrix {
            Some(path) => path.display().to_string(),
            None => format!("sample {} of size {}", self.sample.name(), self.size),
        }
    }

    pub(crate) fn load(&self) -> Result<(CsMat<f64>, Source), Failure> {
        let start = Instant::now();
        let (a, kind) = match &self.matrix {
            Some(path) => {
                let matrix = read(path).map_err(Failure::bad_input)?;
                let kind = format!("{} {}", matrix.header.field, matrix.header.symmetry);
                let real = matrix.into_real().map_err(|e| {
                    Failure::bad_input(anyhow::Error::new(e).context(path.display().to_string()))
                })?;
                (real, kind)
            }
            None => (self.sample.generate(self.size), "generated".to_owned()),
        };
        let source = Source {
            name: self.name(),
            rows: a.rows(),
            cols: a.cols(),
            nnz: a.nnz(),
            kind,
            seconds: start.elapsed().as_secs_f64(),
        };
        Ok((a, source))
    }
}

/// The right-hand sides of `path`, which must have `n` rows; without a path A·1.
pub(crate) fn right_hand_sides(
    path: Option<&Path>,
    a: &CsMat<f64>,
) -> Result<DenseMatrix, Failure> {
    let Some(path) = path else {
        let mut b = vec![0.0; a.rows()];
        for (b, row) in b.iter_mut().zip(a.outer_iterator()) {
            *b = row.data().iter().sum();
        }
        return Ok(DenseMatrix::from_vector(b));
    };
    let b = read_dense(path).map_err(Failure::bad_input)?;
    if b.nrows() != a.rows() {
        return Err(Failure::bad_input(anyhow::anyhow!(
            "{}: the right-hand side has {} rows, the matrix {}",
            path.display(),
            b.nrows(),
            a.rows()
        )));
    }
    Ok(b)
}
