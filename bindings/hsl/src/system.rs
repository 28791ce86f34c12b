//! One pattern: its analysis, and the factors of its last matrix.

use luge::ordering::{Method, OrderingOptions};
use luge::{
    Analysis, BackendChoice, ColPerm, Error, Factors, MatrixKind, Options, Pivoting, ResidualCheck,
    RowPerm, SingularAction, Solver,
};

use crate::controls::{Numeric, Order};
use crate::failure::Failure;
use crate::triplets::Triangle;

/// A pattern, and what was made of it.
///
/// It is ordered with the values of the first matrix, as these say which pivots of order 2 there are to be. Each matrix has its
/// pivots searched; order, scaling and memory stay. Nothing judges the factors: Ipopt has the residual of its own, larger
/// system, and asks for another threshold where it is not content.
pub(crate) struct System {
    triangle: Triangle,
    method: Method,
    threads: usize,
    analyzed: Option<Analyzed>,
    factors: Option<Factors<f64>>,
    /// Which matrix the factors are of; 0 before the first one.
    pub generation: u64,
    /// The entries of the triangle.
    values: Vec<f64>,
}

/// An analysis, and what it was made for.
struct Analyzed {
    analysis: Analysis<f64>,
    is_scaled: bool,
    pivots: Pivots,
}

/// What chooses pivots.
#[derive(Clone, Copy, PartialEq)]
struct Pivots {
    threshold: f64,
    /// Relative to the largest entry.
    zero: f64,
}

/// What is known of factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Factorized {
    pub positive: usize,
    pub negative: usize,
    /// Less than the order also where there are no factors.
    pub rank: usize,
}

/// What is solved with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    Whole,
    Lower,
    Diagonal,
    Upper,
}

impl Job {
    pub(crate) fn of(job: i32) -> Self {
        match job {
            ..=1 => Self::Whole,
            2 => Self::Lower,
            3 => Self::Diagonal,
            4.. => Self::Upper,
        }
    }
}

impl System {
    /// `given` is the order of [`Order::Given`].
    pub(crate) fn new(
        triangle: Triangle,
        order: Order,
        given: Option<ColPerm>,
        threads: usize,
    ) -> Self {
        let method = match given {
            Some(cols) => Method::User {
                rows: RowPerm(cols.0.clone()),
                cols,
            },
            None => order.method(),
        };
        Self {
            triangle,
            method,
            threads,
            analyzed: None,
            factors: None,
            generation: 0,
            values: Vec::new(),
        }
    }

    fn options(&self, is_scaled: bool, pivots: Pivots) -> Options {
        let ordering = OrderingOptions::default()
            .method(self.method.clone())
            .scaling(is_scaled);
        Options::default()
            .backend(BackendChoice::Cpu)
            .kind(MatrixKind::Symmetric)
            .threads(self.threads)
            .ordering(ordering)
            .singular(SingularAction::Continue)
            .zero_pivot(Some(pivots.zero))
            .pivoting(pivots.pivoting())
            // One pass of solves is what is asked for, and all factors are as good as they are.
            .residual_check(ResidualCheck::Never)
            .target_backward_error(1.0)
            .max_growth(f64::INFINITY)
    }

    /// Analyzes the matrix at hand unless that was done, and sees to the choice of pivots.
    fn analyze(&mut self, controls: &Numeric) -> Result<(), Error> {
        let largest = self
            .values
            .iter()
            .fold(0.0, |most: f64, v| most.max(v.abs()));
        let pivots = Pivots::of(controls, largest);
        if let Some(known) = &mut self.analyzed
            && known.is_scaled == controls.is_scaled
        {
            if known.pivots != pivots {
                // Factors keep the pivots that they were made with.
                self.factors = None;
                known.analysis = known
                    .analysis
                    .with_pivots(pivots.pivoting(), Some(pivots.zero))?;
                known.pivots = pivots;
            }
            return Ok(());
        }
        (self.factors, self.analyzed) = (None, None);
        let solver = Solver::new(self.options(controls.is_scaled, pivots))?;
        let analysis = solver.analyze(self.triangle.with(&self.values))?;
        self.analyzed = Some(Analyzed {
            analysis,
            is_scaled: controls.is_scaled,
            pivots,
        });
        Ok(())
    }

    /// Factorizes the matrix with these values of the triplets.
    ///
    /// # Errors
    ///
    /// [`Failure::of`] what is no matter of the rank; then there are no factors.
    pub(crate) fn factorize(
        &mut self,
        a: &[f64],
        controls: &Numeric,
    ) -> Result<Factorized, Failure> {
        self.generation = 0;
        self.triangle.gather(a, &mut self.values);
        match self.renew(controls) {
            Ok(factorized) => Ok(factorized),
            Err(error) => {
                self.factors = None;
                match rank_of(&error, self.triangle.n()) {
                    Some(rank) => Ok(Factorized {
                        positive: 0,
                        negative: 0,
                        rank,
                    }),
                    None => Err(Failure::of(&error)),
                }
            }
        }
    }

    fn renew(&mut self, controls: &Numeric) -> Result<Factorized, Error> {
        self.analyze(controls)?;
        let Some(Analyzed { analysis, .. }) = &self.analyzed else {
            unreachable!("it was analyzed")
        };
        match &mut self.factors {
            Some(factors) => drop(factors.refactorize_values(&self.values)?),
            None => self.factors = Some(analysis.factorize_values(&self.values)?),
        }
        let inertia = self.factors.as_ref().and_then(Factors::inertia);
        let Some(inertia) = inertia else {
            unreachable!("the matrix is symmetric")
        };
        Ok(Factorized {
            positive: inertia.positive,
            negative: inertia.negative,
            rank: inertia.positive + inertia.negative,
        })
    }

    /// Replaces right-hand sides, one after another, by solutions.
    ///
    /// # Errors
    ///
    /// -14 if there are no factors, or numbers are not finite.
    pub(crate) fn solve(&self, job: Job, x: &mut [f64]) -> Result<(), Failure> {
        let failed = |error: Error| Failure::of(&error);
        let factors = self.factors.as_ref().ok_or(Failure::state())?;
        if job == Job::Whole {
            return factors.solve_in_place(x).map(drop).map_err(failed);
        }
        let parts = factors.ldlt().map_err(failed)?.ok_or(Failure::state())?;
        let solved = match job {
            Job::Lower => parts.solve_lower(x),
            Job::Diagonal => parts.solve_diagonal(x),
            Job::Whole | Job::Upper => parts.solve_upper(x),
        };
        solved.map_err(failed)
    }
}

impl Pivots {
    fn of(controls: &Numeric, largest: f64) -> Self {
        let zero = controls.zero / largest;
        Self {
            threshold: controls.threshold,
            // Below that it would only change from matrix to matrix, and call pivots zero that are small beside a barrier.
            zero: if zero > f64::EPSILON {
                zero.min(1.0)
            } else {
                0.0
            },
        }
    }

    fn pivoting(self) -> Pivoting {
        Pivoting::Threshold {
            threshold: self.threshold,
        }
    }
}

/// The rank of a matrix of order `n`, or one that it is below, if that is why it has no factors.
fn rank_of(error: &Error, n: usize) -> Option<usize> {
    match error {
        Error::StructurallySingular { rank, .. } | Error::ZerosOnly { rank, .. } => Some(*rank),
        Error::ZeroPivot { .. } | Error::NoPivots { .. } | Error::SingularToRounding { .. } => {
            Some(n - 1)
        }
        _ => None,
    }
}
