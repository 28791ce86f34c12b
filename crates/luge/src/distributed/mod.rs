//! One matrix on several ranks: threads of one process, or processes of MPI on one or several nodes.
//!
//! Every rank makes the same calls with the same options, in the same order, and gets the same results: solution, pivots, inertia,
//! determinant and reports are those of one rank alone, bit for bit.
//!
//! ```
//! use luge::distributed::{Ranks, Threads};
//! use luge::{MatrixRef, Options};
//!
//! let (offsets, columns, values) = ([0u32, 2, 4, 6], [0u32, 1, 0, 1, 1, 2], [4.0, 1.0, 1.0, 3.0, 1.0, 2.0]);
//! let solutions = Threads::run(3, |comm| {
//!     let ranks = Ranks::new(comm)?;
//!     let a = MatrixRef::by_rows(3, 3, &offsets, &columns, &values);
//!     let factors = ranks.solver(Options::default())?.analyze(a)?.factorize(a)?;
//!     Ok::<_, luge::distributed::RankError>(factors.solve(&[5.0, 4.0, 3.0])?.x)
//! });
//! assert!(solutions.into_iter().all(|x| x.unwrap() == [1.0, 1.0, 1.0]));
//! ```
//!
//! With MPI (feature `mpi`) the ranks are processes: `Ranks::new(Mpi::start()?)` in a program that `mpirun -n 4` starts.
//!
//! # Who holds what
//!
//! | what | where |
//! |---|---|
//! | matrix, right-hand sides, solutions | on every rank. Rows that are on different ranks are brought together by [`Ranks::gather_rows`] and [`Ranks::gather_values`] |
//! | order, scaling, assembly tree | on every rank, which computes them for itself |
//! | panels of the fronts, which are nearly all of the factors | on the rank that eliminated the front |
//! | pivots, their rows and columns, D | on every rank |
//! | blocks that the column engine factorizes, and trees of less than [`least_seconds`](Ranks::least_seconds) | on every rank, which computes them for itself: circuits and power grids gain nothing |
//!
//! Subtrees of the assembly tree are dealt out by predicted seconds: the longest first, to the rank that has least so far. What is
//! above them is the work of rank 0.
//!
//! # What crosses, and when
//!
//! | call | what |
//! |---|---|
//! | each | a checksum of what it was given, and at the end whether it failed on any rank |
//! | filled_pattern | the rows of L+U, whose sources are dealt out in chunks of 128 in turn, to all |
//! | factorize, refactorize | the generated elements of the subtrees' roots, to rank 0; then pivots, labels and D, to all |
//! | solve | what fronts of the subtrees add to rows above them, to rank 0; the solution above, to all; the solution, to all |
//!
//! Refinement, which measures residuals of the whole matrix, is done by every rank for itself.
//!
//! # Failures
//!
//! A call that fails on one rank fails on all, with the same [`RankError`]: the rank, the kind of the failure, and the message
//! that one rank alone would give. That holds for singular matrices, memory that is short on one rank, a [`CancelFlag`]
//! that is raised on one, files that one cannot read ([`Ranks::together`]), and ranks that were given other matrices. The
//! ranks go on after that; factors whose refactorization failed on some ranks alone are lost, and say so.
//!
//! A rank that panics, or ends while others wait for it, makes their calls fail with its number. With MPI `mpirun` ends the other
//! processes when one is killed.
//!
//! # Limitations
//!
//! * On the CPU alone: [`BackendChoice::Auto`] takes it, and a device is refused.
//! * Memory limits ([`Options::max_host_bytes`](field@Options::max_host_bytes)) are those of each rank. Matrix and tree are on all of them.
//! * All ranks need processors with the same vector instructions, which [`Ranks::new`] checks.
//! * Analyses and factors are not saved, nor are L and U given out.

mod error;
mod input;
mod symbolic;

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use luge_comm::{Comm, Team};
pub use luge_comm::{CommError, Threads};
use luge_frontal::{FrontalScalar, RankOptions};
#[cfg(feature = "mpi")]
pub use luge_mpi::Mpi;
use luge_sparse::{CancelFlag, Index, Inertia, MatrixRef, Scalar};

pub use error::{Outcome, RankError, RankErrorKind};
pub use input::{GatheredMatrix, RowBlock};

use crate::analysis::Analysis;
use crate::determinant::Determinant;
use crate::error::Error;
use crate::factors::{Factors, Solution};
use crate::inform::Inform;
use crate::options::{BackendChoice, Options};
use crate::solver::Solver;
use crate::task::Refactorized;

/// Seconds below which it takes longer to tell other ranks of a tree than to factorize it, on one host.
const LEAST_SECONDS: f64 = 5e-3;

/// One rank of those that solve together. Clones are the same rank.
#[derive(Debug, Clone)]
pub struct Ranks {
    team: Team,
    least_seconds: f64,
}

impl Ranks {
    /// The rank that `comm` is. All ranks call this at once.
    ///
    /// # Errors
    ///
    /// [`RankError`] if one of them is of another version, or has other vector instructions, which would lead to other bits.
    pub fn new(comm: impl Comm + 'static) -> Result<Self, RankError> {
        let ranks = Self {
            team: Team::new(Arc::new(comm)),
            least_seconds: LEAST_SECONDS,
        };
        let own = format!(
            "version {}, {}",
            env!("CARGO_PKG_VERSION"),
            f64::kernels().name
        );
        let mut hasher = DefaultHasher::new();
        hasher.write(own.as_bytes());
        ranks.same(
            hasher.finish(),
            "another version, or other vector instructions, than rank 0",
        )?;
        Ok(ranks)
    }

    /// A diagonal block of the matrix that is predicted to take fewer seconds than this on one thread is factorized by every rank
    /// for itself; the same on all ranks. 5 ms unless this is called.
    #[must_use]
    pub fn least_seconds(mut self, seconds: f64) -> Self {
        self.least_seconds = seconds;
        self
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.team.rank()
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.team.size()
    }

    /// A solver on all ranks. It takes one thread a rank unless the options ask for more.
    ///
    /// # Errors
    ///
    /// [`RankError`] as [`Solver::new`], and if the options ask for a device.
    pub fn solver(&self, options: Options) -> Result<RankSolver, RankError> {
        let solver = self.together(|| {
            let is_cpu = matches!(options.backend, BackendChoice::Auto | BackendChoice::Cpu);
            if !is_cpu {
                return Err(Error::InvalidOption {
                    field: "backend",
                    value: format!("{:?}", options.backend),
                    range: "Cpu or Auto for several ranks",
                });
            }
            // The pool of the process would have threads of several ranks wait for each other.
            let threads = options.threads.unwrap_or(1);
            let solver = Solver::new(options.backend(BackendChoice::Cpu).threads(threads))?;
            Ok(solver.on_ranks(RankOptions {
                team: self.team.clone(),
                least_seconds: self.least_seconds,
            }))
        })?;
        Ok(RankSolver {
            ranks: self.clone(),
            solver,
        })
    }

    /// Does `work` on all ranks, and agrees on what became of it: the results where all succeeded, else the same error on all.
    ///
    /// What `work` does between calls of this module is its own business; a file that one rank cannot read is an example.
    ///
    /// # Errors
    ///
    /// [`RankError`].
    pub fn together<T, E: Outcome>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, RankError> {
        error::together(&self.team, work)
    }
}

/// A [`Solver`] on several ranks.
#[derive(Debug, Clone)]
pub struct RankSolver {
    ranks: Ranks,
    solver: Solver,
}

impl RankSolver {
    /// Orders and analyzes a matrix, which all ranks have; see [`Solver::analyze`].
    ///
    /// # Errors
    ///
    /// [`RankError`]: as [`Solver::analyze`], or a rank has another matrix.
    pub fn analyze<'a, T: Scalar, I: Index>(
        &self,
        a: impl Into<MatrixRef<'a, T, I>>,
    ) -> Result<RankAnalysis<T>, RankError> {
        let a = a.into();
        self.ranks.same_matrix(&a)?;
        let analysis = self.ranks.together(|| self.solver.analyze(a))?;
        Ok(RankAnalysis {
            ranks: self.ranks.clone(),
            analysis,
            cancel: self.solver.options().cancel.clone(),
        })
    }
}

/// An [`Analysis`] on several ranks.
#[derive(Debug)]
pub struct RankAnalysis<T: Scalar> {
    ranks: Ranks,
    analysis: Analysis<T>,
    cancel: CancelFlag,
}

impl<T: Scalar> RankAnalysis<T> {
    /// What is known of the analysis.
    pub fn inform(&self) -> &Inform {
        self.analysis.inform()
    }

    /// Factorizes a matrix, which all ranks have; see [`Analysis::factorize`].
    ///
    /// # Errors
    ///
    /// [`RankError`]: as [`Analysis::factorize`], or a rank has another matrix.
    pub fn factorize<'a, I: Index>(
        &self,
        a: impl Into<MatrixRef<'a, T, I>>,
    ) -> Result<RankFactors<T>, RankError> {
        let a = a.into();
        self.ranks.same_matrix(&a)?;
        let factors = self.ranks.together(|| self.analysis.factorize(a))?;
        Ok(RankFactors {
            ranks: self.ranks.clone(),
            factors,
            lost: None,
        })
    }
}

/// [`Factors`] that are spread over several ranks.
#[derive(Debug)]
pub struct RankFactors<T: Scalar> {
    ranks: Ranks,
    factors: Factors<T>,
    /// The failure that left them on some ranks alone.
    lost: Option<RankError>,
}

impl<T: Scalar> RankFactors<T> {
    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.factors.n()
    }

    /// What is known of the factors, memory aside, which is that of this rank. The first call may solve.
    ///
    /// # Errors
    ///
    /// [`RankError`].
    pub fn inform(&self) -> Result<&Inform, RankError> {
        self.collectively(|factors| Ok(factors.inform()))
    }

    /// As [`Factors::inertia`].
    pub fn inertia(&self) -> Option<Inertia> {
        self.factors.inertia()
    }

    /// As [`Factors::determinant`].
    ///
    /// # Errors
    ///
    /// [`RankError`].
    pub fn determinant(&self) -> Result<Determinant<T::Wide>, RankError> {
        self.collectively(Factors::determinant)
    }

    /// Solves A·x = b for a right-hand side that all ranks have; see [`Factors::solve`].
    ///
    /// # Errors
    ///
    /// [`RankError`]: as [`Factors::solve`], or a rank has another right-hand side.
    ///
    /// # Panics
    ///
    /// If `b` has not n values.
    #[track_caller]
    pub fn solve(&self, b: &[T]) -> Result<Solution<T>, RankError> {
        self.ranks.same_values(b)?;
        self.collectively(|factors| factors.solve(b))
    }

    /// Likewise Aᵀ·x = b.
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_transpose(&self, b: &[T]) -> Result<Solution<T>, RankError> {
        self.ranks.same_values(b)?;
        self.collectively(|factors| factors.solve_transpose(b))
    }

    /// Likewise with several right-hand sides, one after another; see [`Factors::solve_many`].
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// If `b` has not n values for each of them.
    #[track_caller]
    pub fn solve_many(&self, b: &[T], nrhs: usize) -> Result<Solution<T>, RankError> {
        self.ranks.same_values(b)?;
        self.collectively(|factors| factors.solve_many(b, nrhs))
    }

    /// Factorizes a matrix with other values, which all ranks have; see [`Factors::refactorize`].
    ///
    /// # Errors
    ///
    /// [`RankError`]: as [`Factors::refactorize`], after which the factors are those that were there before; or a failure on some
    /// ranks alone, after which there are none: all later calls return that error.
    pub fn refactorize<'a, I: Index>(
        &mut self,
        a: impl Into<MatrixRef<'a, T, I>>,
    ) -> Result<Refactorized, RankError> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        let a = a.into();
        self.ranks.same_matrix(&a)?;
        let factors = &mut self.factors;
        let outcome = self.ranks.together(|| factors.refactorize(a));
        self.lost = outcome
            .as_ref()
            .err()
            .filter(|error| !error.is_of_all())
            .cloned();
        outcome
    }

    fn collectively<'s, R>(
        &'s self,
        work: impl FnOnce(&'s Factors<T>) -> Result<R, Error>,
    ) -> Result<R, RankError> {
        match &self.lost {
            Some(error) => Err(error.clone()),
            None => self.ranks.together(|| work(&self.factors)),
        }
    }
}
