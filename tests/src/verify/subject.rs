//! What is verified: files of the corpus, other files, and generated matrices.

use std::path::{Path, PathBuf};

use luge::num_complex::Complex;
use luge::ordering::Matching;
use luge::{BackendChoice, Options, Solver};
use luge_matrix_io::{MatrixData, ReadError, ReadErrorKind};
use luge_testkit::corpus::{Entry, Expectation, Group, Refusal};
use luge_testkit::generators::families::{COMPLEX_FAMILIES, FAMILIES, Family};
use sprs::CsMat;

/// A matrix, or what stands in for one, with what a solver must make of it.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Which part of the corpus it belongs to, or `file`, or `generated`.
    pub group: String,
    /// Its order, where that is known before it is read.
    pub order: Option<u64>,
    /// What is right; any one of them.
    pub expectations: &'static [Expectation],
    /// Whether it is there for how it fails, so that its size is no reason to leave it out.
    pub is_degenerate: bool,
    origin: Origin,
}

#[derive(Debug, Clone)]
enum Origin {
    File(PathBuf),
    Family(&'static Family, usize),
    ComplexFamily(&'static Family<Complex<f64>>, usize),
    Given(CsMat<f64>),
}

/// A matrix that was read or made.
#[derive(Debug, Clone)]
pub enum AnyMatrix {
    /// Over the real numbers.
    Real(CsMat<f64>),
    /// Over the complex ones.
    Complex(CsMat<Complex<f64>>),
}

/// A matrix that could not be had, with what that meets.
#[derive(Debug, Clone)]
pub struct Unread {
    /// The reader's words.
    pub reason: String,
    /// What it meets, if it is anything that can be expected.
    pub met: Option<Expectation>,
}

impl Subject {
    /// Of a file of the corpus.
    pub fn of_entry(entry: &Entry) -> Self {
        Self {
            name: entry.name.clone(),
            group: entry.group.to_string(),
            order: entry.order(),
            expectations: entry.expectations(),
            is_degenerate: entry.group == Group::Degenerate,
            origin: Origin::File(entry.path.clone()),
        }
    }

    /// Of a file, which must solve.
    pub fn of_file(path: &Path) -> Self {
        Self {
            origin: Origin::File(path.to_path_buf()),
            ..Self::named(&path.display().to_string(), "file")
        }
    }

    /// Of a matrix, which must solve.
    pub fn of_matrix(name: &str, a: CsMat<f64>) -> Self {
        Self {
            order: Some(a.rows() as u64),
            origin: Origin::Given(a),
            ..Self::named(name, "given")
        }
    }

    /// A matrix of each family, of about order `n`. All must solve.
    pub fn of_families(n: usize) -> Vec<Self> {
        let of = |name, origin| Self {
            order: Some(n as u64),
            origin,
            ..Self::named(name, "generated")
        };
        let real = FAMILIES.iter();
        let real = real.map(|family| of(family.name, Origin::Family(family, n)));
        let complex = COMPLEX_FAMILIES.iter();
        let complex = complex.map(|family| of(family.name, Origin::ComplexFamily(family, n)));
        real.chain(complex).collect()
    }

    fn named(name: &str, group: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: group.to_owned(),
            order: None,
            expectations: &[Expectation::Solves],
            is_degenerate: false,
            origin: Origin::File(PathBuf::new()),
        }
    }

    /// Reads or makes the matrix.
    ///
    /// # Errors
    ///
    /// [`Unread`], which may be what is right.
    pub fn read(&self) -> Result<AnyMatrix, Unread> {
        match &self.origin {
            Origin::Given(a) => Ok(AnyMatrix::Real(a.clone())),
            Origin::Family(family, n) => made(family, *n, 1).map(AnyMatrix::Real),
            Origin::ComplexFamily(family, n) => made(family, *n, 1).map(AnyMatrix::Complex),
            Origin::File(path) => read(path),
        }
    }
}

/// A matrix of a family, its operating point found with Luge.
///
/// # Errors
///
/// If a circuit does not come to rest.
pub fn made<V>(family: &Family<V>, n: usize, seed: u64) -> Result<CsMat<V>, Unread> {
    let mut factors: Option<luge::Factors<f64>> = None;
    let mut solve = |a: &CsMat<f64>, b: &[f64]| -> Option<Vec<f64>> {
        match &mut factors {
            Some(factors) => drop(factors.refactorize(a).ok()?),
            None => {
                let mut options = Options::default().backend(BackendChoice::Cpu);
                options.ordering.matching = Matching::Always;
                let analysis = Solver::new(options).ok()?.analyze(a).ok()?;
                factors = Some(analysis.factorize(a).ok()?);
            }
        }
        Some(factors.as_ref()?.solve(b).ok()?.x)
    };
    family.make(n, seed, &mut solve).map_err(|error| Unread {
        reason: error.to_string(),
        met: None,
    })
}

fn read(path: &Path) -> Result<AnyMatrix, Unread> {
    let matrix = luge_matrix_io::read(path).map_err(|error| Unread {
        met: expectation_of_read_error(&error),
        reason: error.to_string(),
    })?;
    match matrix.data {
        MatrixData::Real(a) => Ok(AnyMatrix::Real(a)),
        MatrixData::Complex(a) => Ok(AnyMatrix::Complex(a)),
        MatrixData::Pattern(_) => Err(Unread {
            reason: "the file has no values".to_owned(),
            met: Some(Expectation::Refused(Refusal::Pattern)),
        }),
    }
}

fn expectation_of_read_error(error: &ReadError) -> Option<Expectation> {
    Some(match &error.kind {
        ReadErrorKind::Io { .. } => Expectation::IoError,
        ReadErrorKind::Parse { .. } | ReadErrorKind::ImplausibleSize { .. } => {
            Expectation::ParseError
        }
        ReadErrorKind::IndexOverflow { .. } => Expectation::TooLarge,
        _ => return None,
    })
}
