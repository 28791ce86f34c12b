//! Several attempts to factorize a matrix: which come after one, and which is kept.

use luge_ordering::Matching;
use smallvec::{SmallVec, smallvec};

use crate::error::Error;
use crate::probe::is_above;
use crate::shared::Shared;

/// What is done differently where a matrix is ordered and scaled anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing: the values are other ones.
    AsAsked,
    Matching(Matching),
    /// Rows stay where they are, and are scaled by averages.
    Averages,
}

impl Remedy {
    /// The matching, where `asked` was asked for.
    pub(crate) fn matching(self, asked: Matching) -> Matching {
        match self {
            Self::AsAsked => asked,
            Self::Matching(matching) => matching,
            Self::Averages => Matching::Never,
        }
    }
}

/// What to try where values are not those of the analysis, one after another. A first factorization has these too, in another
/// order, so that new values are not refused where it would take them.
pub(crate) const REMEDIES: [Remedy; 4] = [
    Remedy::AsAsked,
    Remedy::Matching(Matching::Always),
    Remedy::Matching(Matching::Never),
    Remedy::Averages,
];

/// Factors that an attempt found.
pub(crate) trait Found {
    /// The backward error that is known of them.
    fn backward_error(&self) -> f64;

    /// Whether no number of B is so small or large that it lost digits in the type of the factors.
    fn is_in_range(&self) -> bool;

    /// Whether they are in range and reach the target.
    fn serves(&self, shared: &Shared) -> bool;
}

/// Of two attempts to factorize a matrix.
pub(crate) trait Attempt: Sized {
    /// This one if it is better than the `other`: factors before an error, and those of the smaller backward error.
    fn better_than(self, other: Self) -> Self;
}

impl<F: Found> Attempt for Result<F, Error> {
    fn better_than(self, other: Self) -> Self {
        match (&self, &other) {
            (Ok(found), Ok(best)) if is_above(best.backward_error(), found.backward_error()) => {
                self
            }
            (Ok(_), Err(_)) => self,
            _ => other,
        }
    }
}

/// Whether other pivots, or another scaling, might do better.
pub(crate) fn is_numerical(error: &Error) -> bool {
    let is_definite = matches!(error, Error::NotPositiveDefinite { .. });
    (is_of_pivots(error) && !is_definite) || matches!(error, Error::SingularToRounding { .. })
}

/// Whether a factorization ended at its pivots.
pub(crate) fn is_of_pivots(error: &Error) -> bool {
    matches!(
        error,
        Error::ZeroPivot { .. }
            | Error::NoPivots { .. }
            | Error::Overflow { .. }
            | Error::NotPositiveDefinite { .. }
    )
}

/// An engine, or `None` and why in `failure` if a factorization failed at its pivots, and those of another policy may do.
///
/// # Errors
///
/// What no pivots help against.
pub(crate) fn unless_pivots_failed<E>(
    factorized: Result<E, Error>,
    failure: &mut Option<Error>,
) -> Result<Option<E>, Error> {
    match factorized {
        Ok(engine) => Ok(Some(engine)),
        Err(error) if is_of_pivots(&error) => {
            *failure = Some(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What to try after a first attempt, one after another; `alternative` is the matching that else might do.
pub(crate) fn remedies<F: Found>(
    first: &Result<F, Error>,
    alternative: Option<Matching>,
    shared: &Shared,
) -> SmallVec<[Remedy; 4]> {
    let alternative = alternative.map(Remedy::Matching);
    match (first, alternative) {
        (Ok(found), _) if found.serves(shared) => SmallVec::new(),
        (Ok(_), _) if shared.of_pattern_alone => REMEDIES.into_iter().collect(),
        (Ok(_), Some(alternative)) => smallvec![alternative],
        (Ok(found), None) if found.is_in_range() => SmallVec::new(),
        (Ok(_), None) => smallvec![Remedy::AsAsked],
        (Err(error), _) if !is_numerical(error) => SmallVec::new(),
        (Err(_), alternative) => {
            let others = REMEDIES.into_iter();
            let others = others.filter(|&other| Some(other) != alternative);
            alternative.into_iter().chain(others).collect()
        }
    }
}

/// Makes attempts with one remedy after another until factors serve, and gives the best. The scaling of other values, or one
/// by a matching of largest product, may be too wild for the norm of A; or the rows need it all the same, and then other pivots
/// do not make up for it.
pub(crate) fn best_of<F: Found>(
    remedies: &[Remedy],
    shared: &Shared,
    mut attempt: impl FnMut(Remedy) -> Result<F, Error>,
) -> Result<F, Error> {
    let mut best: Option<Result<F, Error>> = None;
    for &remedy in remedies {
        let found = attempt(remedy);
        let is_done = match &found {
            Ok(found) => found.serves(shared),
            Err(error) => !is_numerical(error),
        };
        best = Some(match best {
            None => found,
            Some(best) => found.better_than(best),
        });
        if is_done || shared.options.is_static() {
            break;
        }
    }
    best.unwrap_or_else(|| unreachable!("there is something to try"))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use luge_sparse::CompressedPattern;

    use crate::options::{Options, Pivoting};

    fn shared(pivoting: Pivoting) -> Shared {
        let nothing = CompressedPattern::new(0, vec![0], vec![]).unwrap();
        Shared {
            options: Arc::new(Options::default().pivoting(pivoting)),
            ..Shared::of_rows(&nothing)
        }
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Factors {
        backward_error: f64,
        is_in_range: bool,
    }

    fn of_error(backward_error: f64) -> Result<Factors, Error> {
        Ok(Factors {
            backward_error,
            is_in_range: true,
        })
    }

    impl Found for Factors {
        fn backward_error(&self) -> f64 {
            self.backward_error
        }

        fn is_in_range(&self) -> bool {
            self.is_in_range
        }

        fn serves(&self, shared: &Shared) -> bool {
            self.is_in_range && self.backward_error <= shared.target
        }
    }

    /// No factors, for a reason that another remedy may help against.
    fn failed() -> Result<Factors, Error> {
        Err(Error::ZeroPivot { column: 0 })
    }

    /// How many remedies are tried where they give these, and the backward error of the best.
    fn tried(shared: &Shared, found: Vec<Result<Factors, Error>>) -> (usize, Option<f64>) {
        let (mut remedies, mut found) = (REMEDIES.iter(), found.into_iter());
        let best = best_of(&REMEDIES, shared, |remedy| {
            assert_eq!(remedies.next(), Some(&remedy));
            found.next().unwrap()
        });
        let error = best.ok().map(|found| found.backward_error);
        (REMEDIES.len() - remedies.len(), error)
    }

    #[test]
    fn remedies_are_tried_in_turn_until_one_serves() {
        let shared = shared(Pivoting::Auto);
        let target = shared.target;
        let fourth = vec![failed(), of_error(1e-3), failed(), of_error(target)];
        assert_eq!(tried(&shared, fourth), (4, Some(target)));
        let out_of_range = Ok(Factors {
            backward_error: 0.0,
            is_in_range: false,
        });
        let second = vec![out_of_range, of_error(1e-15)];
        assert_eq!(tried(&shared, second), (2, Some(0.0)));
        // Of those that do not serve the best is kept.
        let none = vec![of_error(1e-5), of_error(1e-7), failed(), of_error(1e-6)];
        assert_eq!(tried(&shared, none), (4, Some(1e-7)));
        let none = vec![failed(), failed(), failed(), failed()];
        assert_eq!(tried(&shared, none), (4, None));
    }

    #[test]
    fn errors_that_no_remedy_helps_against_end_the_attempts() {
        let shared = shared(Pivoting::Auto);
        let helped = [
            Error::ZeroPivot { column: 1 },
            Error::NoPivots { column: Some(1) },
            Error::Overflow { column: 1 },
            Error::SingularToRounding {
                column: 1,
                rcond: 1e-17,
            },
        ];
        for error in helped {
            let found = vec![Err(error), of_error(1e-15)];
            assert_eq!(tried(&shared, found), (2, Some(1e-15)));
        }
        let no_memory = || {
            Err(Error::OutOfMemory {
                asked: 2,
                available: 1,
                phase: "numeric",
            })
        };
        assert_eq!(tried(&shared, vec![no_memory()]), (1, None));
        let found = vec![of_error(1e-3), no_memory()];
        assert_eq!(tried(&shared, found), (2, Some(1e-3)));
    }

    #[test]
    fn static_pivots_are_tried_once() {
        let shared = shared(Pivoting::Static);
        assert_eq!(tried(&shared, vec![of_error(1e-3)]), (1, Some(1e-3)));
    }

    #[test]
    fn what_is_tried_next_depends_on_what_came_of_the_first_attempt() {
        let (anew, never) = (shared(Pivoting::Auto), Remedy::Matching(Matching::Never));
        let of_pattern = Shared {
            of_pattern_alone: true,
            ..anew.clone()
        };
        let next = |first: Result<Factors, Error>, matching, shared: &Shared| {
            remedies(&first, matching, shared).to_vec()
        };
        let alternative = Some(Matching::Never);
        let out_of_range = || {
            Ok(Factors {
                backward_error: 0.0,
                is_in_range: false,
            })
        };
        assert_eq!(next(of_error(1e-15), alternative, &of_pattern), []);
        assert_eq!(next(of_error(1e-3), alternative, &of_pattern), REMEDIES);
        assert_eq!(next(of_error(1e-3), alternative, &anew), [never]);
        assert_eq!(next(of_error(1e-3), None, &anew), []);
        assert_eq!(next(out_of_range(), None, &anew), [Remedy::AsAsked]);
        assert_eq!(next(failed(), None, &anew), REMEDIES);
        let [as_asked, always, _, averages] = REMEDIES;
        let all = [never, as_asked, always, averages];
        assert_eq!(next(failed(), alternative, &anew), all);
        let cancelled = Err(Error::Cancelled(luge_sparse::Cancelled));
        assert_eq!(next(cancelled, alternative, &anew), []);
    }
}
