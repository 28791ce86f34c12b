//! Other sparse direct solvers behind one trait, for Luge's benchmarks.
//!
//! | module | solver | how it is reached |
//! |---|---|---|
//! | [`klu`] | KLU (SuiteSparse): left-looking, block triangular form, one core | `libklu`, at run time |
//! | [`umfpack`] | UMFPACK (SuiteSparse): unsymmetric multifrontal on BLAS | `libumfpack`, at run time |
//! | [`superlu`] | SuperLU 5 (sequential): supernodal, partial pivoting, on BLAS | `libsuperlu`, at run time |
//! | `faer` | faer's sparse LU, Cholesky and L·B·Lᵀ: simplicial or supernodal, pivots searched within supernodes | a crate, with the feature `faer` |
//! | `feral` | feral: multifrontal L·D·Lᵀ for interior-point methods | a crate, with the feature `feral` |
//! | [`mumps`] | MUMPS 5 (sequential): multifrontal LU and L·D·Lᵀ with threshold pivoting, on BLAS | `libdmumps_seq`, at run time |
//! | [`cholmod`] | CHOLMOD (SuiteSparse): Cholesky, supernodal or not, on BLAS | `libcholmod`, at run time |
//! | [`spral`] | SSIDS of SPRAL: multifrontal L·D·Lᵀ with threshold pivoting, and Cholesky, on BLAS | `libspral`, at run time |
//! | [`pardiso`] | PARDISO of MKL: supernodal LU, L·D·Lᵀ and Cholesky | `libmkl_rt`, at run time |
//! | [`cudss`] | cuDSS 1 (NVIDIA), on a GPU, in single and in double precision | `libcudss`, at run time |
//!
//! KLU, UMFPACK, faer and cuDSS take complex matrices too ([`PeerScalar`]).
//!
//! The C libraries are loaded when a benchmark asks for them ([`Found::load`]) and never linked, so
//! that the benchmarks build and run where they are not installed; one that is missing is reported as
//! [`Missing`] with the names that were tried. Structures of theirs that this crate reads are checked
//! against the library's own defaults before use, and a library whose structures lie otherwise is
//! refused.
//!
//! # Current limitations
//!
//! 32-bit indices; double precision but for cuDSS. Of complex matrices faer knows LU alone here. Every solver runs with its own
//! default options but for those that its module names. KLU, UMFPACK and SuperLU are told nothing of symmetry ([`Structure`]).

pub mod cholmod;
pub mod cudss;
#[cfg(feature = "faer")]
pub mod faer;
#[cfg(feature = "feral")]
pub mod feral;
mod forms;
pub mod klu;
mod library;
mod matrix;
pub mod mumps;
pub mod pardiso;
mod scalar;
pub mod spral;
pub mod superlu;
pub mod umfpack;

pub use forms::{Compressed, Coordinates, Part};
pub use library::Missing;
pub use matrix::{Matrix, TooLarge};
pub use scalar::PeerScalar;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use luge_sparse::Scalar;
use serde::{Deserialize, Serialize};

/// What a solver is told of a matrix.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// Nothing: A = L·U.
    #[default]
    General,
    /// That it is symmetric, and may be indefinite: A = L·D·Lᵀ. The solver gets a triangle.
    Symmetric,
    /// That it is complex and equal to its conjugate transpose, and may be indefinite: A = L·D·Lᴴ. The solver gets a triangle.
    Hermitian,
    /// That it is symmetric, or if it is complex Hermitian, and positive definite: A = L·Lᴴ. The solver gets a triangle.
    Definite,
}

impl Structure {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::General,
        Self::Symmetric,
        Self::Hermitian,
        Self::Definite,
    ];

    /// Its name, as options and results spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Symmetric => "symmetric",
            Self::Hermitian => "hermitian",
            Self::Definite => "definite",
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Structure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|known| known.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("{name} is none of {}", names.join(", "))
        })
    }
}

/// A solver with the state of one matrix: nothing, an analysis, or an analysis and factors.
///
/// Wrong order is an error ([`PeerError::OutOfOrder`]); a step forgets what an earlier call of it made.
pub trait Peer<T = f64> {
    /// The solver's name in lower case, as options and results spell it.
    fn name(&self) -> &'static str;

    /// The version, as far as the library tells.
    fn version(&self) -> String;

    /// What a reader of its times must know: options that differ from the solver's defaults, the BLAS.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Orders and analyzes a matrix. Solvers that look at values here may use them.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn analyze(&mut self, a: &Matrix<T>) -> Result<(), PeerError>;

    /// Seconds of the last analysis that went into the ordering and into the structure of the factors, as far as the
    /// solver tells them apart.
    fn analysis_seconds(&self) -> [Option<f64>; 2] {
        [None, None]
    }

    /// Factorizes a matrix of the pattern that was analyzed, and searches pivots.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn factorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError>;

    /// Factorizes new values on the pattern and the pivots of the factors that are there. Solvers of symmetric systems, and
    /// those that say so in their [`notes`](Self::notes), search pivots anew within the structures that are there.
    ///
    /// # Errors
    ///
    /// [`PeerError::Unsupported`] if it cannot; the solver's own.
    fn refactorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError>;

    /// Solves A·X = B by the triangular solves alone, without refinement; `x` holds the `nrhs`
    /// right-hand sides one after another and gets the solutions.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn solve(&mut self, x: &mut [T], nrhs: usize) -> Result<(), PeerError>;

    /// Solves A·x = b by one pass of triangular solves and nothing else, where [`solve`](Self::solve) may refine; `x` holds
    /// b and gets the solution. It is not timed.
    ///
    /// # Errors
    ///
    /// [`PeerError::Unsupported`] if it cannot; the solver's own.
    fn solve_in_one_pass(&mut self, x: &mut [T]) -> Result<(), PeerError> {
        self.solve(x, 1)
    }

    /// As [`solve`](Self::solve) with Aᵀ.
    ///
    /// # Errors
    ///
    /// [`PeerError::Unsupported`] if it cannot; the solver's own.
    fn solve_transpose(&mut self, x: &mut [T], nrhs: usize) -> Result<(), PeerError>;

    /// Solves A·x = b as a careful user does: with refinement and a backward error.
    ///
    /// # Errors
    ///
    /// [`PeerError::Unsupported`] if the solver has no such call; the solver's own.
    fn solve_refined(&mut self, b: &[T]) -> Result<Vec<T>, PeerError> {
        let _ = b;
        Err(PeerError::Unsupported)
    }

    /// The same factors for work on what is on the device already; `None` if the solver takes no such thing.
    fn resident(&mut self) -> Option<&mut dyn Resident<T>> {
        None
    }

    /// What the solver tells of the factors that are there.
    fn statistics(&mut self) -> Statistics;

    /// Frees the factors, keeps the analysis.
    fn drop_factors(&mut self);

    /// Frees everything of the matrix.
    fn drop_analysis(&mut self);
}

/// Steps on values, right-hand sides and solutions that stay on the device. Every step returns when it is done.
pub trait Resident<T> {
    /// Brings values and right-hand sides to the device, and the factors to the first values.
    ///
    /// # Errors
    ///
    /// The solver's own; so have all steps.
    fn stage(&mut self, staged: &Staged<'_, T>) -> Result<(), PeerError>;

    /// Refactorizes with the values of that number: 0 is the matrix of the factors, 1 the first of the others, and so on.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn refactorize(&mut self, number: usize) -> Result<(), PeerError>;

    /// Solves with one right-hand side, or with as many as were staged together.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn solve(&mut self, nrhs: usize) -> Result<(), PeerError>;

    /// Seconds of a refactorization with the first values between its first and its last work on the device.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn refactorize_on_clock(&mut self) -> Result<f64, PeerError>;

    /// The same of a solve.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn solve_on_clock(&mut self, nrhs: usize) -> Result<f64, PeerError>;
}

/// What [`Resident`] steps work on.
pub struct Staged<'a, T> {
    /// The matrix of the factors.
    pub a: &'a Matrix<T>,
    /// Matrices of its pattern with other values.
    pub others: &'a [Matrix<T>],
    /// One right-hand side, and several, one after another.
    pub b: [&'a [T]; 2],
}

/// What a solver tells of its factors; `None` where it does not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// Entries that a solve reads: L and U with one diagonal, or L of a symmetric matrix, and the entries outside the diagonal
    /// blocks where the solver keeps a block triangular form.
    pub factor_entries: Option<u64>,
    /// Floating-point operations of the factorization, as the solver counts them.
    pub flops: Option<f64>,
    /// Most bytes that analysis and factorization held at once on the host, as the solver counts them.
    pub peak_bytes: Option<u64>,
    /// The same on a device.
    pub device_bytes: Option<u64>,
    /// Levels of the columns, where work goes by levels.
    pub num_levels: Option<u64>,
    /// Pivots that were replaced.
    pub num_perturbed: Option<u64>,
    /// Positive and negative eigenvalues of a matrix that was factorized as a symmetric one.
    pub inertia: Option<[u64; 2]>,
    /// Refactorizations that kept the pivots and that searched new ones, since the analysis.
    pub reused_and_repivoted: Option<(u64, u64)>,
    /// What else is worth a line: ordering, strategy, blocks.
    pub details: Vec<String>,
    /// The solver's own report of the factors, as JSON.
    pub report: Option<String>,
}

/// Why a solver did not do a step.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PeerError {
    /// The solver calls the matrix singular.
    #[error("singular{}", .0.map_or(String::new(), |column| format!(", first at column {column}")))]
    Singular(Option<u64>),
    /// The solver finds that a matrix is not positive definite.
    #[error("not positive definite")]
    NotPositiveDefinite,
    /// The solver ran out of memory.
    #[error("out of memory")]
    OutOfMemory,
    /// The factors overflow the solver's indices.
    #[error("too large for the solver's indices")]
    TooLarge,
    /// Any other refusal.
    #[error("{0}")]
    Failed(String),
    /// The solver has no such step.
    #[error("the solver cannot do this")]
    Unsupported,
    /// A step was asked for before what it builds on.
    #[error("no analysis or no factors to work on")]
    OutOfOrder,
}

/// The names of all peers, as [`Found::load`] takes them.
pub const NAMES: [&str; 10] = [
    "klu",
    "umfpack",
    "superlu",
    "faer",
    "feral",
    "mumps",
    "cholmod",
    "spral",
    "pardiso",
    "pardiso-matched",
];

/// A peer that is there: makes any number of solvers of one library.
#[derive(Clone)]
pub enum Found {
    /// KLU.
    Klu(Arc<klu::Library>),
    /// UMFPACK.
    Umfpack(Arc<umfpack::Library>),
    /// SuperLU.
    Superlu(Arc<superlu::Library>),
    /// MUMPS.
    Mumps(Arc<mumps::Library>),
    /// CHOLMOD.
    Cholmod(Arc<cholmod::Library>),
    /// SSIDS of SPRAL.
    Spral(Arc<spral::Library>),
    /// PARDISO of MKL.
    Pardiso(Arc<pardiso::Library>),
    /// The same with scaling and matching of symmetric matrices.
    PardisoMatched(Arc<pardiso::Library>),
    /// faer.
    #[cfg(feature = "faer")]
    Faer,
    /// feral.
    #[cfg(feature = "feral")]
    Feral,
}

impl Found {
    /// Finds the peer `name`, one of [`NAMES`]; `path` overrides where its library is looked for.
    ///
    /// PARDISO's libraries come with a BLAS under the usual names, which those that are loaded later would call: load it last.
    ///
    /// # Errors
    ///
    /// [`Missing`] with what was tried.
    pub fn load(name: &str, path: Option<&PathBuf>) -> Result<Self, Missing> {
        match name {
            "klu" => klu::Library::load(path).map(|library| Self::Klu(Arc::new(library))),
            "umfpack" => {
                umfpack::Library::load(path).map(|library| Self::Umfpack(Arc::new(library)))
            }
            "superlu" => {
                superlu::Library::load(path).map(|library| Self::Superlu(Arc::new(library)))
            }
            "mumps" => mumps::Library::load(path).map(|library| Self::Mumps(Arc::new(library))),
            "cholmod" => {
                cholmod::Library::load(path).map(|library| Self::Cholmod(Arc::new(library)))
            }
            "spral" => spral::Library::load(path).map(|library| Self::Spral(Arc::new(library))),
            "pardiso" => {
                pardiso::Library::load(path).map(|library| Self::Pardiso(Arc::new(library)))
            }
            "pardiso-matched" => {
                pardiso::Library::load(path).map(|library| Self::PardisoMatched(Arc::new(library)))
            }
            #[cfg(feature = "faer")]
            "faer" => Ok(Self::Faer),
            #[cfg(not(feature = "faer"))]
            "faer" => Err(Missing("built without the feature `faer`".to_owned())),
            #[cfg(feature = "feral")]
            "feral" => Ok(Self::Feral),
            #[cfg(not(feature = "feral"))]
            "feral" => Err(Missing("built without the feature `feral`".to_owned())),
            other => Err(Missing(format!(
                "no peer is called {other}; there are {}",
                NAMES.join(", ")
            ))),
        }
    }

    /// The first of [`NAMES`] that is there and takes general matrices.
    pub fn first() -> Option<(&'static str, Self)> {
        NAMES
            .into_iter()
            .filter_map(|name| Some((name, Self::load(name, None).ok()?)))
            .find(|(_, found)| found.takes::<f64>(Structure::General))
    }

    /// Whether it has solvers of matrices of `T` that are told this of a matrix. Nobody is told that a real matrix is Hermitian.
    pub fn takes<T: Scalar>(&self, structure: Structure) -> bool {
        let is_general = structure == Structure::General;
        if T::COMPONENTS > 1 {
            return is_general
                && match self {
                    Self::Klu(_) | Self::Umfpack(_) => true,
                    #[cfg(feature = "faer")]
                    Self::Faer => true,
                    _ => false,
                };
        }
        match self {
            _ if structure == Structure::Hermitian => false,
            Self::Mumps(_) | Self::Pardiso(_) => true,
            Self::Cholmod(_) => structure == Structure::Definite,
            Self::Spral(_) => !is_general,
            Self::PardisoMatched(_) => structure == Structure::Symmetric,
            #[cfg(feature = "faer")]
            Self::Faer => true,
            #[cfg(feature = "feral")]
            Self::Feral => structure == Structure::Symmetric,
            _ => is_general,
        }
    }

    /// A solver of matrices of `T` that is told this of them and may use `threads` threads; `None` if there is
    /// [none](Self::takes).
    pub fn solver<T: PeerScalar>(
        &self,
        structure: Structure,
        threads: usize,
    ) -> Option<Box<dyn Peer<T>>> {
        if !self.takes::<T>(structure) {
            return None;
        }
        Some(match self {
            Self::Klu(library) => Box::new(klu::Klu::new(Arc::clone(library))),
            Self::Umfpack(library) => Box::new(umfpack::Umfpack::new(Arc::clone(library), threads)),
            #[cfg(feature = "faer")]
            Self::Faer if structure == Structure::General => T::faer(threads),
            real => return T::real_solver(real, structure, threads),
        })
    }

    /// Whether more than one thread is worth a run: KLU has one, and SuperLU's BLAS calls are small.
    pub fn uses_threads(&self) -> bool {
        !matches!(self, Self::Klu(_) | Self::Superlu(_))
    }
}

/// Panics unless `x` holds `nrhs` vectors of length `n`.
#[track_caller]
fn assert_right_hand_sides<T>(n: usize, x: &[T], nrhs: usize) {
    assert_eq!(x.len(), n * nrhs, "right-hand sides of another length");
}
