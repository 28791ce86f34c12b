//! Where matrices and right-hand sides come from.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use luge_matrix_io::{DenseMatrix, read, read_dense};
use luge_sparse::MAX_DIMENSION;
use serde::Serialize;
use sprs::CsMat;

use super::sample::Sample;
use super::{Failure, memory};

/// The matrix to work on.
#[derive(Args)]
pub(crate) struct MatrixArguments {
    /// Matrix Market file, plain or gzip. Without it a sample is made.
    #[arg(value_name = "A.mtx", conflicts_with_all = ["sample", "size"])]
    matrix: Option<PathBuf>,
    /// Which sample to make.
    #[arg(long, value_enum, default_value = "grid")]
    sample: Sample,
    /// Size of the sample, at least 1.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    size: u64,
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
            None => {
                let bytes = self.sample.bytes(self.size).ok_or_else(|| {
                    let (name, most) = (self.sample.name(), MAX_DIMENSION);
                    let asked = format!("--size {}: a {name} of that size", self.size);
                    Failure::bad_input(anyhow::anyhow!("{asked} has more than {most} rows"))
                })?;
                memory::check(&format!("--size {}: the sample", self.size), bytes)?;
                let a = self.sample.generate(self.size as usize);
                (a, "generated".to_owned())
            }
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

/// Refuses a matrix that is not square, by the name of its file.
pub(crate) fn check_square(a: &CsMat<f64>, source: &Source) -> Result<(), Failure> {
    let (rows, cols) = a.shape();
    if rows == cols {
        return Ok(());
    }
    let failure = Failure::from(luge::Error::NotSquare { rows, cols });
    Err(failure.at(&source.name))
}

/// The right-hand sides of `path`, finite and with as many rows as the square matrix `a`; without a path A·1.
pub(crate) fn right_hand_sides(
    path: Option<&Path>,
    a: &CsMat<f64>,
) -> Result<DenseMatrix, Failure> {
    let Some(path) = path else {
        let mut b = vec![0.0; a.rows()];
        for (b, row) in b.iter_mut().zip(a.outer_iterator()) {
            *b = row.data().iter().sum();
        }
        let is_good = |row: &[f64]| row.iter().all(|v| v.is_finite());
        let overflows = |(row, b): (usize, &f64)| {
            let entries = a.outer_view(row);
            !b.is_finite() && entries.is_some_and(|entries| is_good(entries.data()))
        };
        if let Some(row) = b.iter().enumerate().position(overflows) {
            return Err(Failure::bad_input(anyhow::anyhow!(
                "the right-hand side A·1 overflows in row {row}; --rhs gives another one"
            )));
        }
        return Ok(DenseMatrix::from_vector(b));
    };
    let b = read_dense(path).map_err(Failure::bad_input)?;
    if b.nrows() != a.rows() {
        return Err(Failure::bad_input(anyhow::anyhow!(
            "{}: the right-hand side has {} rows; the matrix has order {}",
            path.display(),
            b.nrows(),
            a.rows()
        )));
    }
    if b.ncols() == 0 {
        return Err(Failure::bad_input(anyhow::anyhow!(
            "{}: the right-hand side has no columns",
            path.display()
        )));
    }
    if let Some(at) = b.values().iter().position(|v| !v.is_finite()) {
        let (row, column) = (at % b.nrows(), at / b.nrows());
        let failure = Failure::from(luge::Error::RightHandSideNotFinite { row, column });
        return Err(failure.at(&path.display().to_string()));
    }
    Ok(b)
}
