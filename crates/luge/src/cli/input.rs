//! Where matrices and right-hand sides come from.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use luge_matrix_io::{
    DenseMatrix, Field, MatrixData, NotReal, ReadError, Value, read, read_dense, read_dense_complex,
};
use luge_sparse::{MAX_DIMENSION, Scalar};
use num_complex::Complex;
use serde::Serialize;
use sprs::CsMat;

use super::sample::Sample;
use super::{Failure, memory};

/// The matrix to work on.
#[derive(Args)]
pub(crate) struct MatrixArguments {
    /// File of the matrix: Matrix Market, Rutherford-Boeing or Harwell-Boeing, plain or gzip, or SciPy's .npz; told apart
    /// by what they contain. Without it a sample is made.
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
    /// Field and symmetry of the file, or `generated`.
    pub kind: String,
    pub seconds: f64,
}

/// A matrix over the field that its file says.
pub(crate) enum AnyMatrix {
    Real(Loaded),
    Complex(Loaded<Complex<f64>>),
}

/// The numbers of a file.
pub(crate) trait Number: Scalar<Wide = Self, Real = f64> + Value {
    /// Reads a dense matrix of them.
    fn read_dense(path: &Path) -> Result<DenseMatrix<Self>, ReadError>;
}

impl Number for f64 {
    fn read_dense(path: &Path) -> Result<DenseMatrix, ReadError> {
        read_dense(path)
    }
}

impl Number for Complex<f64> {
    /// A file with real ones will do.
    fn read_dense(path: &Path) -> Result<DenseMatrix<Self>, ReadError> {
        read_dense_complex(path)
    }
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

    pub(crate) fn load(&self) -> Result<AnyMatrix, Failure> {
        if let Some(path) = &self.matrix {
            return load_any(path);
        }
        let start = Instant::now();
        let bytes = self.sample.bytes(self.size).ok_or_else(|| {
            let (name, most) = (self.sample.name(), MAX_DIMENSION);
            let asked = format!("--size {}: a {name} of that size", self.size);
            Failure::bad_input(anyhow::anyhow!("{asked} has more than {most} rows"))
        })?;
        memory::check(&format!("--size {}: the sample", self.size), bytes)?;
        let a = self.sample.generate(self.size as usize);
        let source = Source::new(self.name(), &a, "generated".to_owned(), start);
        let rhs = None;
        Ok(AnyMatrix::Real(Loaded { a, source, rhs }))
    }
}

impl Source {
    fn new<T>(name: String, a: &CsMat<T>, kind: String, start: Instant) -> Self {
        Self {
            name,
            rows: a.rows(),
            cols: a.cols(),
            nnz: a.nnz(),
            kind,
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

/// A matrix that is there, and the right-hand sides of its file if it has any.
pub(crate) struct Loaded<T = f64> {
    pub a: CsMat<T>,
    pub source: Source,
    pub rhs: Option<DenseMatrix<T>>,
}

/// Reads the matrix of a file.
pub(crate) fn load_any(path: &Path) -> Result<AnyMatrix, Failure> {
    let start = Instant::now();
    let mut matrix = read(path).map_err(Failure::bad_input)?;
    let kind = format!("{} {}", matrix.header.field, matrix.header.symmetry);
    let rhs = matrix.rhs.take();
    let name = path.display().to_string();
    let field = matrix.header.field;
    Ok(match matrix.data {
        MatrixData::Real(a) => {
            let source = Source::new(name, &a, kind, start);
            AnyMatrix::Real(Loaded { a, source, rhs })
        }
        MatrixData::Complex(a) => {
            let source = Source::new(name, &a, kind, start);
            let rhs = rhs.map(|b| b.map(Complex::from));
            AnyMatrix::Complex(Loaded { a, source, rhs })
        }
        MatrixData::Pattern(_) => return Err(Failure::bad_input(NotReal { field }).at(&name)),
    })
}

/// Reads the real matrix of a file.
pub(crate) fn load(path: &Path) -> Result<Loaded, Failure> {
    match load_any(path)? {
        AnyMatrix::Real(matrix) => Ok(matrix),
        AnyMatrix::Complex(matrix) => {
            let field = Field::Complex;
            Err(Failure::bad_input(NotReal { field }).at(&matrix.source.name))
        }
    }
}

/// Refuses a matrix that is not square, by the name of its file.
pub(crate) fn check_square(source: &Source) -> Result<(), Failure> {
    let (rows, cols) = (source.rows, source.cols);
    if rows == cols {
        return Ok(());
    }
    let failure = Failure::from(luge::Error::NotSquare { rows, cols });
    Err(failure.at(&source.name))
}

/// What is solved for.
pub(crate) struct RightHandSides<T> {
    pub b: DenseMatrix<T>,
    /// Where they come from.
    pub told: String,
    /// Whether the solution is 1 everywhere.
    pub is_of_ones: bool,
}

/// The right-hand sides of `path`, or without one those of the file of the matrix, finite and with as many rows as the
/// square matrix; where there are none either, A·1.
pub(crate) fn right_hand_sides<T: Number>(
    path: Option<&Path>,
    matrix: &Loaded<T>,
) -> Result<RightHandSides<T>, Failure> {
    let a = &matrix.a;
    let (b, name) = match (path, &matrix.rhs) {
        (Some(path), _) => {
            let b = T::read_dense(path).map_err(Failure::bad_input)?;
            (b, path.display().to_string())
        }
        (None, Some(b)) => (b.clone(), matrix.source.name.clone()),
        (None, None) => {
            return Ok(RightHandSides {
                b: times_ones(a)?,
                told: "A·1, as none was given; the solution is 1 everywhere".to_owned(),
                is_of_ones: true,
            });
        }
    };
    let refuse = |what: String| Err(Failure::bad_input(anyhow::anyhow!("{name}: {what}")));
    if b.nrows() != a.rows() {
        return refuse(format!(
            "the right-hand side has {} rows; the matrix has order {}",
            b.nrows(),
            a.rows()
        ));
    }
    if b.ncols() == 0 {
        return refuse("the right-hand side has no columns".to_owned());
    }
    if let Some(at) = b.values().iter().position(|v| !v.is_number()) {
        let (row, column) = (at % b.nrows(), at / b.nrows());
        let failure = Failure::from(luge::Error::RightHandSideNotFinite { row, column });
        return Err(failure.at(&name));
    }
    let count = match b.ncols() {
        1 => "1 column".to_owned(),
        count => format!("{count} columns"),
    };
    let told = match path {
        Some(_) => format!("{name} ({count})"),
        None => format!("that of the file of the matrix ({count})"),
    };
    Ok(RightHandSides {
        b,
        told,
        is_of_ones: false,
    })
}

/// A·1, if it is finite where A is.
fn times_ones<T: Number>(a: &CsMat<T>) -> Result<DenseMatrix<T>, Failure> {
    let mut b = vec![T::zero(); a.rows()];
    for (b, row) in b.iter_mut().zip(a.outer_iterator()) {
        *b = row.data().iter().copied().sum();
    }
    let is_good = |row: &[T]| row.iter().all(|v| v.is_number());
    let overflows = |(row, b): (usize, &T)| {
        let entries = a.outer_view(row);
        !b.is_number() && entries.is_some_and(|entries| is_good(entries.data()))
    };
    if let Some(row) = b.iter().enumerate().position(overflows) {
        return Err(Failure::bad_input(anyhow::anyhow!(
            "the right-hand side A·1 overflows in row {row}; --rhs gives another one"
        )));
    }
    Ok(DenseMatrix::from_vector(b))
}
