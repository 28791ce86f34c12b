//! Reports as structures that can grow, and as text.

use luge::{Accuracy, Inform, Refactorized, Warning};

use crate::handle::Versioned;
use crate::matrix::luge_value_type;
use crate::options::{LUGE_UNSET, luge_backend, luge_kind, luge_pivoting};

/// Bits of `warnings`: trouble that still yields factors or a solution. luge_factors_warnings has them in words.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_warning {
    /// Static pivots were replaced.
    LUGE_WARNING_PERTURBED_PIVOTS = 1,
    /// Static pivots on the diagonal were not accurate enough, and rows were matched to columns by value.
    LUGE_WARNING_ROWS_MATCHED = 2,
    /// The given pivots were not accurate enough, and new ones were searched.
    LUGE_WARNING_PIVOTS_SEARCHED = 4,
    /// The matrix is singular, and the factorization went on with zero pivots.
    LUGE_WARNING_RANK_DEFICIENT = 8,
    /// The backward error stayed above the target.
    LUGE_WARNING_TARGET_MISSED = 16,
    /// The matrix is so ill-conditioned that solutions may have no correct digit, small as their backward errors are.
    LUGE_WARNING_ILL_CONDITIONED = 32,
    /// The condition of the matrix could not be looked at.
    LUGE_WARNING_CONDITION_UNKNOWN = 64,
    /// No GPU could be used, and the CPU took over.
    LUGE_WARNING_NO_GPU = 128,
    /// Another one, newer than this header.
    LUGE_WARNING_OTHER = 1073741824,
}

/// The report of an analysis, of factors or of a solution; each contains what came before it. What was not measured, or does
/// not apply, is -1, or NaN.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct luge_inform {
    /// sizeof(luge_inform), set by the caller.
    pub size: usize,
    /// Order of the matrix.
    pub n: i64,
    /// Stored entries of the matrix.
    pub nnz: i64,
    /// Entries of L with its unit diagonal: predicted by an analysis, exact with factors.
    pub lnz: i64,
    /// Entries of U with its diagonal and those above the diagonal blocks.
    pub unz: i64,
    /// Floating-point operations of the factorization.
    pub flops: f64,
    /// Diagonal blocks of the block triangular form.
    pub num_blocks: i64,
    /// Levels of the columns, where work goes by levels.
    pub num_levels: i64,
    /// Supernodes.
    pub num_supernodes: i64,
    /// Order of the largest front.
    pub max_front: i64,
    /// Bytes on the host at the end of the phase that held most.
    pub peak_host_bytes: i64,
    /// Bytes that factorization and factors are predicted to take on the CPU.
    pub predicted_host_bytes: i64,
    /// Bytes that they are predicted to take on a device.
    pub predicted_device_bytes: i64,
    /// Most bytes on the device at once.
    pub peak_device_bytes: i64,
    /// Static pivots that were replaced.
    pub num_perturbed: i64,
    /// Pivots that threshold pivoting took off the diagonal.
    pub num_off_diagonal: i64,
    /// Pivots delayed to a later front.
    pub num_delay: i64,
    /// Pivots of order 2, of a symmetric matrix.
    pub num_two: i64,
    /// Negative eigenvalues, of a symmetric or Hermitian matrix; luge_inertia has all counts.
    pub num_neg: i64,
    /// Numeric rank.
    pub rank: i64,
    /// How much larger |L|*|U| is than the scaled matrix.
    pub growth: f64,
    /// Estimate of the reciprocal condition number of the scaled matrix, where it was made; luge_rcond makes one.
    pub rcond: f64,
    /// Normwise backward error of a probe of the factors, or a bound of that of one pass of triangular solves.
    pub backward_error: f64,
    /// Componentwise backward error, likewise.
    pub componentwise_error: f64,
    /// Steps of refinement, likewise.
    pub refinement_steps: i64,
    /// Seconds of matching, scaling and ordering.
    pub seconds_ordering: f64,
    /// Seconds of the symbolic phase.
    pub seconds_symbolic: f64,
    /// Seconds of a search for pivots before the factorization, if there was one.
    pub seconds_pivot_search: f64,
    /// Seconds of the numeric factorization.
    pub seconds_numeric: f64,
    /// Seconds of the probe and the condition estimate.
    pub seconds_probe: f64,
    /// Seconds between host and device, contained in those above.
    pub seconds_transfer: f64,
    /// Seconds of loading kernels, contained in none.
    pub seconds_module_load: f64,
    /// Where it ran, one of luge_backend.
    pub backend: i32,
    /// What the matrix was factorized as, one of luge_kind.
    pub kind: i32,
    /// Type of the factors, one of luge_value_type.
    pub precision: i32,
    /// How pivots were found in the end, LUGE_PIVOTING_STATIC or LUGE_PIVOTING_THRESHOLD.
    pub pivoting: i32,
    /// 1 if rows were matched to columns by value.
    pub matched: i32,
    /// 1 if the matrix was scaled.
    pub scaled: i32,
    /// Bits of luge_warning.
    pub warnings: i32,
    /// Zero.
    pub reserved: i32,
}

// SAFETY: the first field is the size; the others are plain numbers.
unsafe impl Versioned for luge_inform {
    const NAME: &'static str = "luge_inform";
}

/// How good solutions are.
///
/// The backward error is the normwise one, max|b - A*x| / (max row sum of |A| * max|x| + max|b|), for A as the caller stores it
/// (its transpose where that was solved with) and for the solution that the call returns. Of several right-hand sides it is
/// the largest.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct luge_accuracy {
    /// sizeof(luge_accuracy), set by the caller.
    pub size: usize,
    /// The backward error if it was measured, else a bound of it that holds for every right-hand side; NaN where nothing is
    /// known.
    pub backward_error: f64,
    /// The componentwise backward error; NaN if it was not measured.
    pub componentwise_error: f64,
    /// Steps of refinement.
    pub refinement_steps: i64,
    /// Seconds of the solve; NaN if they were not measured.
    pub seconds: f64,
    /// 1 if the backward error was measured.
    pub is_measured: i32,
    /// Bits of luge_warning.
    pub warnings: i32,
}

// SAFETY: as above.
unsafe impl Versioned for luge_accuracy {
    const NAME: &'static str = "luge_accuracy";
}

/// What became of a refactorization. The factors are valid in either case.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct luge_refactorized {
    /// sizeof(luge_refactorized), set by the caller.
    pub size: usize,
    /// Growth of the factors.
    pub growth: f64,
    /// Backward error of a probe, or a bound of that of one pass of triangular solves; NaN where nothing is known.
    pub backward_error: f64,
    /// 0: the old pivots serve the new values. 1: they were not accurate enough, and new ones were found, which took as long
    /// as a factorization; luge_factors_warnings says why.
    pub is_repivoted: i32,
    /// Zero.
    pub reserved: i32,
}

// SAFETY: as above.
unsafe impl Versioned for luge_refactorized {
    const NAME: &'static str = "luge_refactorized";
}

impl From<&Refactorized> for luge_refactorized {
    fn from(outcome: &Refactorized) -> Self {
        let (is_repivoted, growth, backward_error) = match *outcome {
            Refactorized::Reused {
                growth,
                backward_error,
            } => (0, growth, backward_error),
            Refactorized::Repivoted {
                growth,
                backward_error,
                ..
            } => (1, growth, backward_error),
        };
        Self {
            size: size_of::<Self>(),
            growth,
            backward_error: or_nan(backward_error),
            is_repivoted,
            reserved: 0,
        }
    }
}

impl From<Accuracy> for luge_accuracy {
    fn from(accuracy: Accuracy) -> Self {
        Self {
            backward_error: or_nan(accuracy.backward_error),
            refinement_steps: accuracy.refinement_steps as i64,
            is_measured: i32::from(accuracy.is_measured),
            ..Self::unknown()
        }
    }
}

impl luge_accuracy {
    fn unknown() -> Self {
        Self {
            size: size_of::<Self>(),
            backward_error: f64::NAN,
            componentwise_error: f64::NAN,
            refinement_steps: 0,
            seconds: f64::NAN,
            is_measured: 0,
            warnings: 0,
        }
    }

    /// Of no solution at all.
    pub(crate) fn of_nothing() -> Self {
        Self {
            backward_error: 0.0,
            componentwise_error: 0.0,
            seconds: 0.0,
            is_measured: 1,
            ..Self::unknown()
        }
    }

    /// Of solutions that were measured and refined.
    pub(crate) fn of_solution(inform: &Inform) -> Self {
        Self {
            backward_error: or_nan(inform.backward_error),
            componentwise_error: or_nan(inform.componentwise_error),
            refinement_steps: inform.refinement_steps.unwrap_or(0) as i64,
            seconds: or_nan(inform.seconds.solve),
            is_measured: i32::from(inform.backward_error.is_some()),
            warnings: bits(&inform.warnings),
            ..Self::unknown()
        }
    }
}

fn or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

fn count(value: Option<usize>) -> i64 {
    value.map_or(-1, |value| value as i64)
}

fn bytes(value: Option<u64>) -> i64 {
    value.map_or(-1, |value| i64::try_from(value).unwrap_or(i64::MAX))
}

/// The bits of warnings.
fn bits(warnings: &[Warning]) -> i32 {
    let bit = |warning: &Warning| match warning {
        Warning::PerturbedPivots { .. } => luge_warning::LUGE_WARNING_PERTURBED_PIVOTS,
        Warning::RowsMatched { .. } => luge_warning::LUGE_WARNING_ROWS_MATCHED,
        Warning::PivotsSearched { .. } => luge_warning::LUGE_WARNING_PIVOTS_SEARCHED,
        Warning::RankDeficient { .. } => luge_warning::LUGE_WARNING_RANK_DEFICIENT,
        Warning::TargetMissed { .. } => luge_warning::LUGE_WARNING_TARGET_MISSED,
        Warning::IllConditioned { .. } => luge_warning::LUGE_WARNING_ILL_CONDITIONED,
        Warning::ConditionUnknown { .. } => luge_warning::LUGE_WARNING_CONDITION_UNKNOWN,
        Warning::NoGpu { .. } => luge_warning::LUGE_WARNING_NO_GPU,
        _ => luge_warning::LUGE_WARNING_OTHER,
    };
    warnings
        .iter()
        .fold(0, |bits, warning| bits | bit(warning) as i32)
}

/// Warnings in words, a line each.
pub(crate) fn in_words(warnings: &[Warning]) -> String {
    let lines: Vec<String> = warnings.iter().map(Warning::to_string).collect();
    lines.join("\n")
}

impl From<&Inform> for luge_inform {
    fn from(inform: &Inform) -> Self {
        let seconds = &inform.seconds;
        Self {
            size: size_of::<Self>(),
            n: inform.n as i64,
            nnz: inform.nnz as i64,
            lnz: bytes(Some(inform.lnz)),
            unz: bytes(Some(inform.unz)),
            flops: inform.flops,
            num_blocks: inform.num_blocks as i64,
            num_levels: count(inform.num_levels),
            num_supernodes: count(inform.num_supernodes),
            max_front: count(inform.max_front),
            peak_host_bytes: bytes(Some(inform.peak_host_bytes)),
            predicted_host_bytes: bytes(inform.predicted_host_bytes),
            predicted_device_bytes: bytes(inform.predicted_device_bytes),
            peak_device_bytes: bytes(inform.peak_device_bytes),
            num_perturbed: count(inform.num_perturbed),
            num_off_diagonal: count(inform.num_off_diagonal),
            num_delay: count(inform.num_delay),
            num_two: count(inform.num_two),
            num_neg: count(inform.num_neg),
            rank: count(inform.rank),
            growth: or_nan(inform.growth),
            rcond: or_nan(inform.rcond),
            backward_error: or_nan(inform.backward_error),
            componentwise_error: or_nan(inform.componentwise_error),
            refinement_steps: count(inform.refinement_steps),
            seconds_ordering: seconds.ordering,
            seconds_symbolic: seconds.symbolic,
            seconds_pivot_search: or_nan(seconds.pivot_search),
            seconds_numeric: or_nan(seconds.numeric),
            seconds_probe: or_nan(seconds.probe),
            seconds_transfer: or_nan(seconds.transfer),
            seconds_module_load: or_nan(seconds.module_load),
            backend: match inform.backend {
                "cpu" => luge_backend::LUGE_BACKEND_CPU as i32,
                "cuda" => luge_backend::LUGE_BACKEND_GPU as i32,
                "simulator" => luge_backend::LUGE_BACKEND_SIMULATOR as i32,
                _ => LUGE_UNSET,
            },
            kind: match inform.kind {
                "general" => luge_kind::LUGE_KIND_GENERAL as i32,
                "symmetric" => luge_kind::LUGE_KIND_SYMMETRIC as i32,
                "Hermitian" => luge_kind::LUGE_KIND_HERMITIAN as i32,
                "positive definite" => luge_kind::LUGE_KIND_POSITIVE_DEFINITE as i32,
                _ => LUGE_UNSET,
            },
            precision: match inform.precision {
                "f64" => luge_value_type::LUGE_F64 as i32,
                "f32" => luge_value_type::LUGE_F32 as i32,
                "complex f64" => luge_value_type::LUGE_COMPLEX_F64 as i32,
                "complex f32" => luge_value_type::LUGE_COMPLEX_F32 as i32,
                _ => LUGE_UNSET,
            },
            pivoting: match inform.pivoting {
                Some("static") => luge_pivoting::LUGE_PIVOTING_STATIC as i32,
                Some("threshold") => luge_pivoting::LUGE_PIVOTING_THRESHOLD as i32,
                _ => LUGE_UNSET,
            },
            matched: i32::from(inform.matched),
            scaled: i32::from(inform.scaled),
            warnings: bits(&inform.warnings),
            reserved: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warning_has_a_bit_of_its_own() {
        let text = || String::from("why");
        let warnings = [
            Warning::PerturbedPivots {
                count: 1,
                first_column: 0,
            },
            Warning::RowsMatched { reason: text() },
            Warning::PivotsSearched { reason: text() },
            Warning::RankDeficient {
                rank: 1,
                first_column: 0,
            },
            Warning::TargetMissed {
                backward_error: 1.0,
                target: 0.5,
            },
            Warning::IllConditioned {
                rcond: 1e-17,
                unknowns: Vec::new(),
                is_constant: false,
            },
            Warning::ConditionUnknown { reason: text() },
            Warning::NoGpu { reason: text() },
        ];
        for (at, warning) in warnings.iter().enumerate() {
            assert_eq!(bits(std::slice::from_ref(warning)), 1 << at, "{warning}");
        }
        assert_eq!(bits(&warnings), 255);
        assert_eq!(in_words(&warnings).lines().count(), warnings.len());
    }
}
