//! feral: multifrontal L·D·Lᵀ of symmetric matrices with pivots of order 1 and 2 and delays, for interior-point methods.
//!
//! Its `Solver` with default options, but that products use fused multiply-add, which feral leaves out unless it is asked
//! for the speed, and that one thread is one. With more than one it takes all cores.
//!
//! Its ordering may depend on values, and it has no call that analyzes alone: [`Peer::analyze`] is its first call, which
//! factorizes too, and [`Peer::factorize`] the next one on the analysis and, as long as it fits the values, the scaling of
//! the first.

use std::panic::{AssertUnwindSafe, catch_unwind};

use feral::{CscMatrix, FactorStatus, FeralError, Solver};

use crate::{Compressed, Matrix, Part, Peer, PeerError, Statistics, assert_right_hand_sides};

/// One symmetric matrix in feral.
pub struct Feral {
    threads: usize,
    /// The solver with the analysis, and the matrix of the last call.
    analyzed: Option<(Solver, CscMatrix)>,
    has_factors: bool,
}

impl Feral {
    /// A solver that may use all cores if `threads` is more than 1.
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            analyzed: None,
            has_factors: false,
        }
    }

    fn factors(&self) -> Result<&(Solver, CscMatrix), PeerError> {
        let analyzed = self.analyzed.as_ref();
        analyzed
            .filter(|_| self.has_factors)
            .ok_or(PeerError::OutOfOrder)
    }
}

fn refusal(error: FeralError) -> PeerError {
    match error {
        FeralError::NumericallyRankDeficient => PeerError::Singular(None),
        FeralError::NoFactor => PeerError::OutOfOrder,
        other => PeerError::Failed(other.to_string()),
    }
}

/// Runs `step`; a panic of feral's becomes an error.
fn caught<R>(step: impl FnOnce() -> Result<R, PeerError>) -> Result<R, PeerError> {
    let caught = catch_unwind(AssertUnwindSafe(step));
    caught.unwrap_or_else(|_| Err(PeerError::Failed("feral panicked".to_owned())))
}

fn factorize(solver: &mut Solver, a: &CscMatrix) -> Result<(), PeerError> {
    caught(|| match solver.factor(a, None) {
        FactorStatus::Success | FactorStatus::WrongInertia { .. } => Ok(()),
        FactorStatus::Singular => Err(PeerError::Singular(None)),
        FactorStatus::FatalError(error) => Err(refusal(error)),
    })
}

/// The lower triangle by columns.
fn form(a: &Matrix) -> &Compressed {
    a.form(Part::UpperWithDiagonal)
}

impl Peer for Feral {
    fn name(&self) -> &'static str {
        "feral"
    }

    fn version(&self) -> String {
        "feral 0.22".to_owned()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "the analysis comes with a first factorization, whose time it has".to_owned(),
            "with fused multiply-add (the default: without)".to_owned(),
            "a refactorization searches pivots anew".to_owned(),
            "more than one thread: all cores".to_owned(),
        ]
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        let form = form(a);
        let wide = |indices: &[u32]| indices.iter().map(|&i| i as usize).collect();
        let a = CscMatrix {
            n: a.n(),
            col_ptr: wide(&form.ptr),
            row_idx: wide(&form.idx),
            values: form.values.clone(),
        };
        let mut solver = Solver::new().with_parallel(self.threads > 1).with_fma(true);
        factorize(&mut solver, &a)?;
        self.analyzed = Some((solver, a));
        Ok(())
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.has_factors = false;
        let (solver, own) = self.analyzed.as_mut().ok_or(PeerError::OutOfOrder)?;
        own.values.copy_from_slice(&form(a).values);
        factorize(solver, own)?;
        self.has_factors = true;
        Ok(())
    }

    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.factors()?;
        self.factorize(a)
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let (solver, own) = self.factors()?;
        assert_right_hand_sides(own.n, x, nrhs);
        let solved = caught(|| {
            let solved = match nrhs {
                1 => solver.solve(x),
                _ => solver.solve_many(x, nrhs),
            };
            solved.map_err(refusal)
        })?;
        x.copy_from_slice(&solved);
        Ok(())
    }

    fn solve_transpose(&mut self, _: &mut [f64], _: usize) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }

    fn solve_refined(&mut self, b: &[f64]) -> Result<Vec<f64>, PeerError> {
        let (solver, own) = self.factors()?;
        caught(|| solver.solve_refined(own, b).map_err(refusal))
    }

    fn statistics(&mut self) -> Statistics {
        let Ok((solver, _)) = self.factors() else {
            return Statistics::default();
        };
        let Some(found) = solver.last_factor_stats() else {
            return Statistics::default();
        };
        let ordering = &found.ordering_info;
        Statistics {
            factor_entries: Some(found.nnz_l as u64),
            flops: Some(found.actual_flops as f64),
            num_perturbed: Some(found.n_tiny as u64),
            inertia: Some([found.inertia.positive, found.inertia.negative].map(|n| n as u64)),
            details: vec![
                format!("ordering {:?}, {:?}", ordering.used, ordering.preprocess),
                format!("scaling {:?}", found.scaling_info),
                format!(
                    "{} pivots below the threshold",
                    found.n_threshold_fail_accepts
                ),
            ],
            ..Statistics::default()
        }
    }

    fn drop_factors(&mut self) {
        self.has_factors = false;
        if let Some((solver, _)) = &mut self.analyzed {
            solver.invalidate_factors();
        }
    }

    fn drop_analysis(&mut self) {
        self.has_factors = false;
        self.analyzed = None;
    }
}
