//! How pivots are chosen and what is done about small ones: one policy from the options of a solver to its kernels.
//!
//! A [`PivotPolicy`] says it for any matrix; [`PivotPolicy::resolve`] makes the numbers of it that the kernels of one
//! factorization compare with, and [`PivotPolicy::resolve_symmetric`] those of a symmetric one.

use crate::scalar::{RealScalar, Scalar};

/// How the search for pivots of order 1 and 2 in a symmetric front is organized. Every accepted entry of L is at most
/// 1/u in magnitude, whichever is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SymmetricPivoting {
    /// A posteriori threshold pivoting (APP): blocks of columns are factorized without a look at the rows below them, and
    /// the columns with too large entries are taken back. Threshold partial pivoting (TPP) for what is taken back.
    #[default]
    Blocks,
    /// A posteriori threshold pivoting alone: what it takes back is delayed to the parent. In a front without a parent TPP
    /// follows all the same.
    BlocksAlone,
    /// Threshold partial pivoting alone.
    Columns,
}

/// Which rows may become pivot rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PivotKind {
    /// Static pivoting: the diagonal, whatever it is.
    Diagonal,
    /// Static pivoting between fronts, and a search within them: the diagonal if it is acceptable, else the largest entry
    /// in the rows of the front's other pivots. Every column is eliminated in its own front. An engine that works column
    /// by column has fronts of one pivot, and takes the diagonal.
    WithinFront {
        /// The diagonal is acceptable if it is at least this times the largest entry that it is compared with. From 0 to
        /// 1.
        threshold: f64,
    },
    /// Threshold partial pivoting: the diagonal if it is acceptable, else the largest candidate; in fronts, a column
    /// without an acceptable pivot is delayed to the parent.
    Threshold {
        /// A pivot is acceptable if it is at least this times the largest candidate. From 0 (anything but zero) to 1
        /// (partial pivoting).
        threshold: f64,
    },
    /// Of a symmetric matrix: pivots of order 1 and 2 on the diagonal, columns without an acceptable one delayed to the
    /// parent (Duff and Reid 1983).
    Symmetric {
        /// u: a pivot is acceptable if no entry of its columns of L gets larger than 1/u in magnitude. From 0 (anything but
        /// zero) to 0.5, up to which a nonsingular matrix always has an acceptable pivot.
        threshold: f64,
        /// How pivots are searched.
        method: SymmetricPivoting,
    },
    /// Of a symmetric positive definite matrix (Cholesky): the diagonal in the given order. The first pivot that is not
    /// positive ends the factorization.
    Definite,
    /// Of a symmetric quasidefinite matrix, or of one that is regularized to be so: the diagonal in the given order, with
    /// the sign that is expected of each pivot (Vanderbei 1995). The factorization is told by what each pivot is replaced if
    /// it has not that sign, or is too small; those that are replaced are counted.
    Signed {
        /// A pivot is replaced if, in the direction of the sign that is expected, it is at most this times what it is
        /// replaced by. From 0 (only pivots of the other sign, and zeros) to 1.
        below: f64,
    },
}

/// Which pivots are small, and what is done about them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SmallPivots {
    /// Only a pivot that is zero is small, or where rounding is measured, a column of nothing but rounding. It ends the
    /// factorization.
    Stop,
    /// A pivot p with |p| < `below` · max|B| becomes ± `below` · max|B|, with the sign of p (plus for zero), and is
    /// counted. The factors are then those of a nearby matrix, and a solve needs refinement (Li and Demmel 1998). A
    /// pivot that is zero all the same ends the factorization.
    Replace {
        /// Relative to the largest magnitude in B. From 0 to 1.
        below: f64,
    },
    /// Of a symmetric matrix: a column none of whose candidates is at least `below` · max|B| in magnitude is taken as a zero
    /// pivot, and counted. Its entry of D is zero, its column of L is zero below the diagonal, and a solve gives its
    /// unknown the value zero before the backward substitution: consistent singular systems are solved. No pivot of
    /// another column is smaller.
    Accept {
        /// Relative to the largest magnitude in B. From 0 (only columns of zeros) to 1.
        below: f64,
    },
    /// Of a symmetric matrix: a column that was delayed so often is not delayed again, but eliminated where it is, with the best
    /// pivot of order 1 or 2 that there is. One of order 1 with |p| < `below` · max|B| becomes ± `below` · max|B|, with the sign of
    /// p (plus for zero), and is counted: static pivoting where threshold pivoting would go on and on (O. Schenk and K. Gärtner,
    /// "On fast factorization pivoting methods for sparse symmetric indefinite systems", Electron. Trans. Numer. Anal. 23, 2006).
    /// Entries of such columns of L may be larger than 1/u. A column of zeros ends the factorization.
    Limited {
        /// Fronts to which a column is delayed at most; 0: every column is eliminated in its own front.
        max_delays: u32,
        /// Relative to the largest magnitude in B. From 0 to 1; 0: only a zero is replaced, by the smallest normal number.
        below: f64,
    },
}

/// How a factorization chooses its pivots, and what it does about small ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PivotPolicy {
    /// Which rows may become pivot rows.
    pub kind: PivotKind,
    /// Which pivots are small, and what is done about them.
    pub small: SmallPivots,
}

/// A [`PivotPolicy`] that no factorization follows.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum PivotPolicyError {
    /// The threshold is not from 0 to 1.
    #[error("the pivot threshold {value} is not from 0 to 1")]
    Threshold {
        /// The threshold.
        value: f64,
    },
    /// The bound of small pivots is not from 0 to 1.
    #[error("the bound {value} of small pivots is not from 0 to 1")]
    Below {
        /// The bound.
        value: f64,
    },
    /// Pivots are searched in all rows and replaced as well.
    #[error("pivots that are searched in all rows are not replaced")]
    SearchedAndReplaced,
    /// The threshold of symmetric pivoting is not from 0 to 0.5.
    #[error("the threshold {value} of symmetric pivoting is not from 0 to 0.5")]
    SymmetricThreshold {
        /// The threshold.
        value: f64,
    },
    /// Pivots of a definite matrix are positive, so none is replaced or accepted as zero.
    #[error("a definite matrix has no small pivots to replace or accept")]
    DefiniteAndSmall,
    /// Pivots of expected signs are replaced by what is expected of each.
    #[error("pivots of expected signs have no other rule for small ones")]
    SignedAndSmall,
    /// Zero pivots are accepted by symmetric pivoting alone.
    #[error("zero pivots are accepted by symmetric pivoting alone")]
    AcceptedUnsymmetric,
    /// Delays are limited where symmetric pivots are searched.
    #[error("delays are limited in symmetric threshold pivoting alone")]
    LimitedWithoutSearch,
}

impl PivotPolicy {
    /// Static pivots, used as they are.
    pub const STATIC: Self = Self {
        kind: PivotKind::Diagonal,
        small: SmallPivots::Stop,
    };

    /// Partial pivoting: the largest candidate, of equal ones the diagonal.
    pub const PARTIAL: Self = Self::threshold(1.0);

    /// Static pivots, those below this times max|B| replaced.
    pub const fn replacing(below: f64) -> Self {
        Self {
            kind: PivotKind::Diagonal,
            small: SmallPivots::Replace { below },
        }
    }

    /// Static pivots, those below √ε · max|B| replaced, with ε of the type of the factors: this keeps the growth of the
    /// changed factors and the loss of accuracy by the change in balance (Li and Demmel 1998).
    pub fn replacing_by_default(epsilon: f64) -> Self {
        Self::replacing(epsilon.sqrt())
    }

    /// Threshold partial pivoting.
    pub const fn threshold(threshold: f64) -> Self {
        Self {
            kind: PivotKind::Threshold { threshold },
            small: SmallPivots::Stop,
        }
    }

    /// Symmetric pivoting by blocks; a column of zeros ends the factorization.
    pub const fn symmetric(threshold: f64) -> Self {
        Self {
            kind: PivotKind::Symmetric {
                threshold,
                method: SymmetricPivoting::Blocks,
            },
            small: SmallPivots::Stop,
        }
    }

    /// The diagonal with the signs that are expected of it: see [`PivotKind::Signed`].
    pub const fn signed(below: f64) -> Self {
        Self {
            kind: PivotKind::Signed { below },
            small: SmallPivots::Stop,
        }
    }

    /// Cholesky: the diagonal, which must come out positive.
    pub const DEFINITE: Self = Self {
        kind: PivotKind::Definite,
        small: SmallPivots::Stop,
    };

    /// The same for fronts, whose pivots are searched among a few rows at hand: static pivots
    /// [within their front](PivotKind::WithinFront) by this `threshold`, and threshold pivoting by no smaller one.
    /// Symmetric kinds are meant for fronts as they are.
    #[must_use]
    pub const fn in_fronts(self, threshold: f64) -> Self {
        let kind = match self.kind {
            PivotKind::Diagonal => PivotKind::WithinFront { threshold },
            PivotKind::WithinFront { .. } => self.kind,
            PivotKind::Threshold { threshold: asked } => PivotKind::Threshold {
                threshold: asked.max(threshold),
            },
            PivotKind::Symmetric { .. } | PivotKind::Definite | PivotKind::Signed { .. } => {
                self.kind
            }
        };
        Self { kind, ..self }
    }

    /// The same with the next stricter threshold of a search, and this: 0.1, then the largest. `None` if that is reached, or
    /// pivots are not searched.
    pub fn stricter(&self) -> Option<(Self, f64)> {
        let next = |threshold: f64, largest: f64| {
            let steps = [0.1, largest];
            steps.into_iter().find(|&step| step > threshold)
        };
        let (kind, threshold) = match self.kind {
            PivotKind::Threshold { threshold } => {
                let threshold = next(threshold, 1.0)?;
                (PivotKind::Threshold { threshold }, threshold)
            }
            PivotKind::Symmetric { threshold, method } => {
                let threshold = next(threshold, 0.5)?;
                (PivotKind::Symmetric { threshold, method }, threshold)
            }
            _ => return None,
        };
        Some((Self { kind, ..*self }, threshold))
    }

    /// Whether every column is eliminated where the order of the matrix put it.
    pub fn is_static(&self) -> bool {
        !matches!(
            self.kind,
            PivotKind::Threshold { .. } | PivotKind::Symmetric { .. }
        )
    }

    /// Whether it is one for symmetric matrices, whose factors are L·D·Lᵀ.
    pub fn is_symmetric(&self) -> bool {
        matches!(
            self.kind,
            PivotKind::Symmetric { .. } | PivotKind::Definite | PivotKind::Signed { .. }
        )
    }

    /// Whether small pivots are replaced: only then the largest magnitude of the matrix matters.
    pub fn replaces(&self) -> bool {
        matches!(self.small, SmallPivots::Replace { .. })
    }

    /// Refuses what no factorization follows.
    ///
    /// # Errors
    ///
    /// [`PivotPolicyError`].
    pub fn check(&self) -> Result<(), PivotPolicyError> {
        let is_fraction = |value: &f64| (0.0..=1.0).contains(value);
        if let PivotKind::WithinFront { threshold: value }
        | PivotKind::Threshold { threshold: value } = self.kind
            && !is_fraction(&value)
        {
            return Err(PivotPolicyError::Threshold { value });
        }
        if let PivotKind::Symmetric {
            threshold: value, ..
        } = self.kind
            && !(0.0..=0.5).contains(&value)
        {
            return Err(PivotPolicyError::SymmetricThreshold { value });
        }
        if let PivotKind::Signed { below: value } = self.kind
            && !is_fraction(&value)
        {
            return Err(PivotPolicyError::Below { value });
        }
        match self.small {
            SmallPivots::Limited { .. } if !matches!(self.kind, PivotKind::Symmetric { .. }) => {
                Err(PivotPolicyError::LimitedWithoutSearch)
            }
            SmallPivots::Replace { below: value }
            | SmallPivots::Accept { below: value }
            | SmallPivots::Limited { below: value, .. }
                if !is_fraction(&value) =>
            {
                Err(PivotPolicyError::Below { value })
            }
            SmallPivots::Replace { .. } | SmallPivots::Accept { .. }
                if matches!(self.kind, PivotKind::Signed { .. }) =>
            {
                Err(PivotPolicyError::SignedAndSmall)
            }
            SmallPivots::Replace { .. } | SmallPivots::Accept { .. }
                if self.kind == PivotKind::Definite =>
            {
                Err(PivotPolicyError::DefiniteAndSmall)
            }
            SmallPivots::Replace { .. } if !self.is_static() => {
                Err(PivotPolicyError::SearchedAndReplaced)
            }
            SmallPivots::Accept { .. } if !self.is_symmetric() => {
                Err(PivotPolicyError::AcceptedUnsymmetric)
            }
            _ => Ok(()),
        }
    }

    /// The policy for a matrix whose largest magnitude is `max_b`, which is asked for if small pivots are replaced.
    ///
    /// # Panics
    ///
    /// If [`check`](Self::check) refuses the policy, or it is one for symmetric matrices.
    #[track_caller]
    pub fn resolve<R: RealScalar>(&self, max_b: impl FnOnce() -> f64) -> ResolvedPivots<R> {
        if let Err(error) = self.check() {
            panic!("{error}");
        }
        let threshold = match self.kind {
            PivotKind::Diagonal => None,
            PivotKind::WithinFront { threshold } | PivotKind::Threshold { threshold } => {
                Some(threshold)
            }
            PivotKind::Symmetric { .. } | PivotKind::Definite | PivotKind::Signed { .. } => {
                panic!("symmetric pivoting is asked of an engine for unsymmetric matrices")
            }
        };
        ResolvedPivots {
            search: threshold.is_some(),
            threshold: R::from_f64(threshold.unwrap_or(0.0)),
            is_static: self.is_static(),
            small: match self.small {
                SmallPivots::Stop | SmallPivots::Accept { .. } | SmallPivots::Limited { .. } => {
                    R::zero()
                }
                SmallPivots::Replace { below } => R::from_f64(below * max_b()),
            },
        }
    }

    /// As [`resolve`](Self::resolve), for an engine that factorizes symmetric matrices as L·D·Lᵀ. The largest magnitude is
    /// asked for if zero pivots are accepted, or delays limited.
    ///
    /// # Panics
    ///
    /// If [`check`](Self::check) refuses the policy, or it is one for unsymmetric matrices.
    #[track_caller]
    pub fn resolve_symmetric<R: RealScalar>(
        &self,
        max_b: impl FnOnce() -> f64,
    ) -> ResolvedSymmetric<R> {
        if let Err(error) = self.check() {
            panic!("{error}");
        }
        let (threshold, method) = match self.kind {
            PivotKind::Symmetric { threshold, method } => (threshold, Some(method)),
            PivotKind::Definite => (0.0, None),
            PivotKind::Signed { below } => (below, None),
            _ => panic!("unsymmetric pivoting is asked of an engine for symmetric matrices"),
        };
        let mut max_b = Some(max_b);
        let mut times_max_b = |below: f64| below * max_b.take().map_or(0.0, |max_b| max_b());
        let limit = match self.small {
            SmallPivots::Limited { max_delays, below } => Some(DelayLimit {
                max_delays,
                smallest: R::from_f64(times_max_b(below)).max(R::min_positive_value()),
            }),
            _ => None,
        };
        ResolvedSymmetric {
            method,
            limit,
            threshold: R::from_f64(threshold),
            accept: matches!(self.small, SmallPivots::Accept { .. }),
            small: match self.small {
                SmallPivots::Accept { below } => R::from_f64(times_max_b(below)),
                SmallPivots::Stop | SmallPivots::Replace { .. } | SmallPivots::Limited { .. } => {
                    R::zero()
                }
            },
        }
    }

    /// As [`resolve`](Self::resolve), for an engine that eliminates every column where it is.
    ///
    /// # Panics
    ///
    /// As [`resolve`](Self::resolve), and under threshold partial pivoting.
    #[track_caller]
    pub fn resolve_static<R: RealScalar>(&self, max_b: impl FnOnce() -> f64) -> ResolvedPivots<R> {
        assert!(
            self.is_static() || self.is_symmetric(),
            "threshold partial pivoting is asked of an engine with static pivots"
        );
        self.resolve(max_b)
    }
}

/// A [`PivotPolicy`] for one matrix, in the real type of its factors: what kernels compare with.
///
/// [`PivotPolicy::resolve`] makes it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ResolvedPivots<R> {
    /// Whether a front searches its rows; otherwise the diagonal is taken as it is.
    pub search: bool,
    /// The diagonal is acceptable if it is at least this times the largest candidate; zero where nothing is searched.
    pub threshold: R,
    /// Whether every column is eliminated where it is, for better or worse.
    pub is_static: bool,
    /// Pivots of a smaller magnitude are replaced by it, with their sign; zero: none is.
    pub small: R,
}

/// A [`PivotPolicy`] for one symmetric matrix, in the real type of its factors: what kernels compare with.
///
/// [`PivotPolicy::resolve_symmetric`] makes it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ResolvedSymmetric<R> {
    /// How pivots are searched; `None`: the diagonal is taken in its order and must be positive, or of the sign that is
    /// expected of it.
    pub method: Option<SymmetricPivoting>,
    /// u: entries of L are at most 1/u in magnitude. Of signed pivots: the least part of what is expected.
    pub threshold: R,
    /// Whether a column without a candidate of size becomes a zero pivot; otherwise it ends the factorization.
    pub accept: bool,
    /// What is smaller in magnitude counts as zero; zero itself always does.
    pub small: R,
    /// How often a column is delayed at most, if that is limited.
    pub limit: Option<DelayLimit<R>>,
}

/// What [`SmallPivots::Limited`] is for one matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayLimit<R> {
    /// Fronts to which a column is delayed at most.
    pub max_delays: u32,
    /// Pivots of a smaller magnitude are replaced by it, with their sign; above zero.
    pub smallest: R,
}

/// Numbers of positive, negative and zero eigenvalues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Inertia {
    /// Positive eigenvalues.
    pub positive: usize,
    /// Negative eigenvalues.
    pub negative: usize,
    /// Eigenvalues that are zero.
    pub zero: usize,
}

impl Inertia {
    /// Counts another part of a matrix with this one.
    pub fn merge(&mut self, other: &Self) {
        self.positive += other.positive;
        self.negative += other.negative;
        self.zero += other.zero;
    }
}

impl<R: RealScalar> ResolvedPivots<R> {
    /// The same for a factorization on pivots that are known: none is searched.
    #[must_use]
    pub fn known(self) -> Self {
        Self {
            search: false,
            ..self
        }
    }

    /// What replaces a pivot, if it is small.
    #[inline(always)]
    pub fn replacement<F: Scalar<Real = R>>(&self, pivot: F) -> Option<F> {
        (pivot.magnitude() < self.small).then(|| pivot.with_magnitude(self.small))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_FRONTS: PivotPolicy = PivotPolicy {
        kind: PivotKind::WithinFront { threshold: 0.1 },
        small: SmallPivots::Replace { below: 0.25 },
    };

    #[test]
    fn only_fractions_are_accepted() {
        for value in [0.0, 0.5, 1.0] {
            assert_eq!(PivotPolicy::threshold(value).check(), Ok(()));
            assert_eq!(PivotPolicy::replacing(value).check(), Ok(()));
        }
        for value in [-1e-300, 1.0 + f64::EPSILON, f64::INFINITY] {
            let threshold = Err(PivotPolicyError::Threshold { value });
            assert_eq!(PivotPolicy::threshold(value).check(), threshold);
            assert_eq!(PivotPolicy::STATIC.in_fronts(value).check(), threshold);
            let below = Err(PivotPolicyError::Below { value });
            assert_eq!(PivotPolicy::replacing(value).check(), below);
        }
        assert!(PivotPolicy::threshold(f64::NAN).check().is_err());
        assert!(PivotPolicy::replacing(f64::NAN).check().is_err());
        let both = PivotPolicy {
            kind: PivotKind::Threshold { threshold: 0.1 },
            ..IN_FRONTS
        };
        assert_eq!(both.check(), Err(PivotPolicyError::SearchedAndReplaced));
    }

    #[test]
    fn symmetric_policies_have_rules_of_their_own() {
        let policy = |kind, small| PivotPolicy { kind, small }.check();
        let kind = |threshold| PivotKind::Symmetric {
            threshold,
            method: SymmetricPivoting::Blocks,
        };
        let accept = |below| SmallPivots::Accept { below };
        for value in [0.0, 0.01, 0.5] {
            assert_eq!(PivotPolicy::symmetric(value).check(), Ok(()));
            assert_eq!(policy(kind(0.01), accept(value)), Ok(()));
        }
        for value in [-1e-300, 0.5 + f64::EPSILON] {
            let refused = Err(PivotPolicyError::SymmetricThreshold { value });
            assert_eq!(PivotPolicy::symmetric(value).check(), refused);
        }
        assert!(PivotPolicy::symmetric(f64::NAN).check().is_err());
        let below = Err(PivotPolicyError::Below { value: 2.0 });
        assert_eq!(policy(kind(0.01), accept(2.0)), below);
        let replace = SmallPivots::Replace { below: 0.1 };
        let both = Err(PivotPolicyError::SearchedAndReplaced);
        assert_eq!(policy(kind(0.01), replace), both);
        assert_eq!(PivotPolicy::DEFINITE.check(), Ok(()));
        for small in [accept(0.0), replace] {
            let refused = Err(PivotPolicyError::DefiniteAndSmall);
            assert_eq!(policy(PivotKind::Definite, small), refused);
        }
        let unsymmetric = Err(PivotPolicyError::AcceptedUnsymmetric);
        assert_eq!(policy(PivotKind::Diagonal, accept(0.0)), unsymmetric);
        let limited = |below| SmallPivots::Limited {
            max_delays: 2,
            below,
        };
        assert_eq!(policy(kind(0.01), limited(1.0)), Ok(()));
        assert_eq!(policy(kind(0.01), limited(2.0)), below);
        for kind in [
            PivotKind::Diagonal,
            PivotKind::Threshold { threshold: 0.1 },
            PivotKind::Definite,
            PivotKind::Signed { below: 0.5 },
        ] {
            let refused = Err(PivotPolicyError::LimitedWithoutSearch);
            assert_eq!(policy(kind, limited(0.1)), refused);
        }
        assert!(PivotPolicy::DEFINITE.is_static() && !PivotPolicy::symmetric(0.1).is_static());
        for value in [0.0, 1.0] {
            let signed = PivotPolicy::signed(value);
            assert_eq!(signed.check(), Ok(()));
            assert!(signed.is_static() && signed.is_symmetric());
            assert_eq!(signed.in_fronts(0.4), signed);
        }
        for value in [-1e-300, 1.0 + f64::EPSILON] {
            let below = Err(PivotPolicyError::Below { value });
            assert_eq!(PivotPolicy::signed(value).check(), below);
        }
        for small in [accept(0.0), replace] {
            let refused = Err(PivotPolicyError::SignedAndSmall);
            assert_eq!(policy(PivotKind::Signed { below: 0.5 }, small), refused);
        }
        assert_eq!(
            PivotPolicy::symmetric(0.1).in_fronts(0.4),
            PivotPolicy::symmetric(0.1)
        );
    }

    #[test]
    fn thresholds_are_raised_to_the_largest() {
        let symmetric = |threshold| PivotPolicy {
            small: SmallPivots::Accept { below: 0.25 },
            ..PivotPolicy::symmetric(threshold)
        };
        for (threshold, stricter) in [(0.0, 0.1), (0.01, 0.1), (0.1, 0.5), (0.3, 0.5)] {
            let raised = symmetric(threshold).stricter();
            assert_eq!(raised, Some((symmetric(stricter), stricter)));
        }
        for (threshold, stricter) in [(1e-3, 0.1), (0.1, 1.0), (0.5, 1.0)] {
            let raised = PivotPolicy::threshold(threshold).stricter();
            let expected = PivotPolicy::threshold(stricter);
            assert_eq!(raised, Some((expected, stricter)));
        }
        let none = [
            symmetric(0.5),
            PivotPolicy::PARTIAL,
            PivotPolicy::STATIC,
            PivotPolicy::DEFINITE,
            PivotPolicy::signed(0.1),
            IN_FRONTS,
        ];
        assert!(none.iter().all(|policy| policy.stricter().is_none()));
    }

    #[test]
    fn accepted_pivots_are_relative_to_the_matrix() {
        let policy = PivotPolicy {
            small: SmallPivots::Accept { below: 0.25 },
            ..PivotPolicy::symmetric(0.125)
        };
        let resolved = policy.resolve_symmetric::<f32>(|| 8.0);
        assert_eq!((resolved.threshold, resolved.small), (0.125, 2.0));
        assert!(resolved.accept && resolved.method == Some(SymmetricPivoting::Blocks));
        assert_eq!(resolved.limit, None);
        let limited = |below| PivotPolicy {
            small: SmallPivots::Limited {
                max_delays: 3,
                below,
            },
            ..policy
        };
        let resolved = limited(0.25).resolve_symmetric::<f32>(|| 8.0);
        let limit = |smallest| {
            Some(DelayLimit {
                max_delays: 3,
                smallest,
            })
        };
        assert_eq!((resolved.small, resolved.limit), (0.0, limit(2.0)));
        assert!(!resolved.accept);
        let least = limited(0.0).resolve_symmetric::<f32>(|| 8.0);
        assert_eq!(least.limit, limit(f32::MIN_POSITIVE));
        let definite =
            PivotPolicy::DEFINITE.resolve_symmetric::<f64>(|| unreachable!("nothing is accepted"));
        assert!(definite.method.is_none() && !definite.accept);
        let signed = PivotPolicy::signed(0.25).resolve_symmetric::<f64>(|| unreachable!());
        assert!(signed.method.is_none() && signed.threshold == 0.25);
    }

    #[test]
    #[should_panic(expected = "symmetric pivoting is asked of an engine for unsymmetric matrices")]
    fn symmetric_pivots_are_not_resolved_for_lu() {
        let _ = PivotPolicy::DEFINITE.resolve::<f64>(|| 1.0);
    }

    #[test]
    #[should_panic(expected = "unsymmetric pivoting is asked of an engine for symmetric matrices")]
    fn unsymmetric_pivots_are_not_resolved_for_ldlt() {
        let _ = PivotPolicy::PARTIAL.resolve_symmetric::<f64>(|| 1.0);
    }

    #[test]
    #[should_panic(expected = "the pivot threshold 2 is not from 0 to 1")]
    fn what_is_refused_is_not_resolved() {
        let _ = PivotPolicy::threshold(2.0).resolve::<f64>(|| 1.0);
    }

    #[test]
    #[should_panic(
        expected = "threshold partial pivoting is asked of an engine with static pivots"
    )]
    fn a_search_is_not_resolved_as_static() {
        let _ = PivotPolicy::threshold(0.1).resolve_static::<f64>(|| 1.0);
    }

    #[test]
    fn small_pivots_are_relative_to_the_matrix() {
        let resolved = IN_FRONTS.resolve::<f32>(|| 8.0);
        assert_eq!((resolved.threshold, resolved.small), (0.1, 2.0));
        assert!(resolved.search && resolved.is_static);
        let replaced = [-1.9, -0.0, 0.0, 1.0, 2.0, -2.0, f32::NAN].map(|p| resolved.replacement(p));
        let expected = [
            Some(-2.0),
            Some(2.0),
            Some(2.0),
            Some(2.0),
            None,
            None,
            None,
        ];
        assert_eq!(replaced, expected);
        let known = resolved.known();
        assert!(!known.search && known.small == 2.0);
    }

    #[test]
    fn the_size_of_the_matrix_is_not_asked_for_in_vain() {
        for policy in [PivotPolicy::STATIC, PivotPolicy::threshold(1.0)] {
            let resolved = policy.resolve::<f64>(|| unreachable!("nothing is replaced"));
            assert_eq!(resolved.replacement(0.0), None);
            assert_eq!(resolved.is_static, !resolved.search);
        }
    }

    #[test]
    fn fronts_search_where_columns_do_not() {
        assert_eq!(PivotPolicy::replacing(0.25).in_fronts(0.1), IN_FRONTS);
        assert_eq!(IN_FRONTS.in_fronts(0.5), IN_FRONTS);
        let threshold = |asked| PivotPolicy::threshold(asked).in_fronts(0.05);
        assert_eq!(threshold(0.001), PivotPolicy::threshold(0.05));
        assert_eq!(threshold(0.5), PivotPolicy::threshold(0.5));
    }
}
