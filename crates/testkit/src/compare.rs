//! Comparisons that name the first difference.
//!
//! Each comes twice: `…_difference` answers it, `assert_…` panics with it at the caller's line.

use std::fmt;

use luge_sparse::{CompressedPattern, FilledPattern, Levels, RealScalar, Scalar};

/// The first place where two patterns differ, line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternDifference {
    /// The dimensions are not the same: (lines, minor dimension) of both.
    Dimensions {
        /// Of the pattern under test.
        actual: (usize, usize),
        /// Of the pattern it should be.
        expected: (usize, usize),
    },
    /// An entry is absent that should be there.
    Missing {
        /// Row (CSR) or column (CSC).
        line: usize,
        /// The index within the line.
        index: u32,
    },
    /// An entry is there that should not be.
    Extra {
        /// Row (CSR) or column (CSC).
        line: usize,
        /// The index within the line.
        index: u32,
    },
}

impl fmt::Display for PatternDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dimensions { actual, expected } => {
                write!(f, "the dimensions are {actual:?}, expected {expected:?}")
            }
            Self::Missing { line, index } => write!(f, "line {line} lacks index {index}"),
            Self::Extra { line, index } => write!(f, "line {line} has index {index} too many"),
        }
    }
}

/// The first difference of two patterns, if they differ.
pub fn pattern_difference(
    actual: &CompressedPattern,
    expected: &CompressedPattern,
) -> Option<PatternDifference> {
    let dimensions = |p: &CompressedPattern| (p.major_dim(), p.minor_dim());
    if dimensions(actual) != dimensions(expected) {
        return Some(PatternDifference::Dimensions {
            actual: dimensions(actual),
            expected: dimensions(expected),
        });
    }
    for (line, (a, e)) in actual.lines().zip(expected.lines()).enumerate() {
        let same = a.iter().zip(e).take_while(|(a, e)| a == e).count();
        // Both are sorted, so the smaller of the first two that differ is in one line only.
        match (a.get(same), e.get(same)) {
            (None, None) => {}
            (Some(&a), Some(&e)) if a > e => {
                return Some(PatternDifference::Missing { line, index: e });
            }
            (Some(&index), _) => return Some(PatternDifference::Extra { line, index }),
            (None, Some(&index)) => return Some(PatternDifference::Missing { line, index }),
        }
    }
    None
}

/// Asserts that two patterns are equal.
///
/// # Panics
///
/// If they are not, with the first difference and both numbers of entries.
#[track_caller]
pub fn assert_same_pattern(actual: &CompressedPattern, expected: &CompressedPattern) {
    if let Some(difference) = pattern_difference(actual, expected) {
        let (actual, expected) = (actual.nnz(), expected.nnz());
        panic!("patterns differ: {difference} ({actual} entries, expected {expected})");
    }
}

/// Asserts that two filled patterns are equal.
///
/// # Panics
///
/// As [`assert_same_pattern`]; lines are rows.
#[track_caller]
pub fn assert_same_filled(actual: &FilledPattern, expected: &FilledPattern) {
    assert_same_pattern(actual.rows(), expected.rows());
    // The diagonal follows from the rows; a wrong position would be a fault of the type itself.
    assert_eq!(
        actual.diag_pos(),
        expected.diag_pos(),
        "positions of the diagonal"
    );
}

/// The first column on whose level two level sets disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LevelDifference {
    /// They have different numbers of columns.
    Columns {
        /// In the levels under test.
        actual: usize,
        /// In those expected.
        expected: usize,
    },
    /// A column is on another level.
    Level {
        /// The column.
        column: usize,
        /// Its level in the levels under test.
        actual: u32,
        /// The level it should have.
        expected: u32,
    },
    /// Every column has the right level, but the columns of a level stand in another order.
    Order {
        /// Position in `level_cols`.
        position: usize,
        /// The column there.
        actual: u32,
        /// The column that should stand there.
        expected: u32,
    },
}

impl fmt::Display for LevelDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Columns { actual, expected } => {
                write!(f, "there are {actual} columns, expected {expected}")
            }
            Self::Level {
                column,
                actual,
                expected,
            } => write!(f, "column {column} has level {actual}, expected {expected}"),
            Self::Order {
                position,
                actual,
                expected,
            } => write!(
                f,
                "position {position} holds column {actual}, expected {expected}"
            ),
        }
    }
}

/// The first difference of two level sets, if they differ.
pub fn level_difference(actual: &Levels, expected: &Levels) -> Option<LevelDifference> {
    if actual.n() != expected.n() {
        return Some(LevelDifference::Columns {
            actual: actual.n(),
            expected: expected.n(),
        });
    }
    let levels = actual.level_of().iter().zip(expected.level_of());
    if let Some((column, (&actual, &expected))) = levels.enumerate().find(|(_, (a, e))| a != e) {
        return Some(LevelDifference::Level {
            column,
            actual,
            expected,
        });
    }
    let order = actual.level_cols().iter().zip(expected.level_cols());
    order
        .enumerate()
        .find(|(_, (a, e))| a != e)
        .map(|(position, (&actual, &expected))| LevelDifference::Order {
            position,
            actual,
            expected,
        })
}

/// Asserts that two level sets are equal.
///
/// # Panics
///
/// If they are not, with the first difference and both numbers of levels.
#[track_caller]
pub fn assert_same_levels(actual: &Levels, expected: &Levels) {
    if let Some(difference) = level_difference(actual, expected) {
        let (actual, expected) = (actual.num_levels(), expected.num_levels());
        panic!("levels differ: {difference} ({actual} levels, expected {expected})");
    }
}

/// The first place where two sequences of values differ by more than allowed.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueDifference {
    /// They have different lengths.
    Length {
        /// Of the values under test.
        actual: usize,
        /// Of those expected.
        expected: usize,
    },
    /// A value is off.
    Value {
        /// Its position.
        position: usize,
        /// The value.
        actual: f64,
        /// What it should be.
        expected: f64,
    },
}

impl fmt::Display for ValueDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { actual, expected } => {
                write!(f, "there are {actual} values, expected {expected}")
            }
            Self::Value {
                position,
                actual,
                expected,
            } => write!(f, "value {position} is {actual:e}, expected {expected:e}"),
        }
    }
}

/// The components of a number.
fn components<T: Scalar>(number: T) -> Vec<f64> {
    let mut components = Vec::with_capacity(T::COMPONENTS);
    number.map_components(|component| {
        components.push(component.to_f64());
        component
    });
    components
}

/// The first value with a component further than `tolerance` times the largest expected magnitude from the one
/// expected. A tolerance of zero asks for equality, in which −0 is 0. A value that is not a number
/// differs from everything.
pub fn value_difference<T: Scalar>(
    actual: &[T],
    expected: &[T],
    tolerance: f64,
) -> Option<ValueDifference> {
    if actual.len() != expected.len() {
        return Some(ValueDifference::Length {
            actual: actual.len(),
            expected: expected.len(),
        });
    }
    let largest = expected
        .iter()
        .fold(0.0, |m, &e| f64::max(m, e.magnitude().to_f64()));
    let allowed = if tolerance == 0.0 {
        0.0
    } else {
        tolerance * largest
    };
    let pairs = actual.iter().zip(expected).enumerate();
    for (position, (&actual, &expected)) in pairs {
        for (actual, expected) in components(actual).into_iter().zip(components(expected)) {
            let close = actual == expected || (actual - expected).abs() <= allowed;
            if !close {
                return Some(ValueDifference::Value {
                    position,
                    actual,
                    expected,
                });
            }
        }
    }
    None
}

/// Asserts that values are close; see [`value_difference`].
///
/// # Panics
///
/// If they are not, with the first difference.
#[track_caller]
pub fn assert_close<T: Scalar>(actual: &[T], expected: &[T], tolerance: f64) {
    if let Some(difference) = value_difference(actual, expected, tolerance) {
        panic!("values differ: {difference} (relative tolerance {tolerance:e})");
    }
}

/// Asserts that values have the same bits: −0 is not 0, and a NaN equals itself.
///
/// # Panics
///
/// If they have not, with the first difference.
#[track_caller]
pub fn assert_same_bits(actual: &[f64], expected: &[f64]) {
    assert_eq!(actual.len(), expected.len(), "number of values");
    let pairs = actual.iter().zip(expected).enumerate();
    for (position, (a, e)) in pairs {
        assert!(
            a.to_bits() == e.to_bits(),
            "bits differ: value {position} is {a:e} ({:016x}), expected {e:e} ({:016x})",
            a.to_bits(),
            e.to_bits()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategies::patterns;
    use proptest::prelude::*;

    fn pattern(lines: &[&[u32]]) -> CompressedPattern {
        let mut ptr = vec![0];
        for line in lines {
            ptr.push(ptr[ptr.len() - 1] + line.len() as u64);
        }
        CompressedPattern::new(4, ptr, lines.concat()).unwrap()
    }

    #[test]
    fn the_first_difference_of_patterns_is_named() {
        let expected = pattern(&[&[0, 2], &[], &[1, 3]]);
        let difference = |lines: &[&[u32]]| pattern_difference(&pattern(lines), &expected);
        assert_eq!(difference(&[&[0, 2], &[], &[1, 3]]), None);
        let missing = |line, index| Some(PatternDifference::Missing { line, index });
        let extra = |line, index| Some(PatternDifference::Extra { line, index });
        assert_eq!(difference(&[&[0], &[], &[1, 3]]), missing(0, 2));
        assert_eq!(difference(&[&[2], &[], &[1]]), missing(0, 0));
        assert_eq!(difference(&[&[0, 1, 2], &[], &[1, 3]]), extra(0, 1));
        assert_eq!(difference(&[&[0, 2], &[3], &[]]), extra(1, 3));
        assert_eq!(difference(&[&[0, 2], &[], &[1, 2]]), extra(2, 2));
        let sizes = difference(&[&[0, 2], &[]]).unwrap();
        assert_eq!(
            sizes.to_string(),
            "the dimensions are (2, 4), expected (3, 4)"
        );
    }

    #[test]
    #[should_panic(expected = "line 1 has index 0 too many (2 entries, expected 1)")]
    fn a_wrong_pattern_fails() {
        assert_same_pattern(&pattern(&[&[1], &[0]]), &pattern(&[&[1], &[]]));
    }

    #[test]
    #[should_panic(expected = "line 0 lacks index 1")]
    fn a_wrong_filled_pattern_fails() {
        let square = |idx: Vec<u32>| {
            let ptr = vec![0, idx.len() as u64 - 1, idx.len() as u64];
            FilledPattern::new(CompressedPattern::new(2, ptr, idx).unwrap()).unwrap()
        };
        assert_same_filled(&square(vec![0, 1, 1]), &square(vec![0, 1, 1]));
        assert_same_filled(&square(vec![0, 1]), &square(vec![0, 1, 1]));
    }

    #[test]
    fn the_first_difference_of_levels_is_named() {
        let levels = |v: &[u32]| Levels::from_level_of(v.to_vec());
        let expected = levels(&[0, 1, 0, 2]);
        assert_eq!(level_difference(&levels(&[0, 1, 0, 2]), &expected), None);
        assert_eq!(
            level_difference(&levels(&[0, 1, 1, 2]), &expected),
            Some(LevelDifference::Level {
                column: 2,
                actual: 1,
                expected: 0
            })
        );
        assert_eq!(
            level_difference(&levels(&[0, 1]), &expected),
            Some(LevelDifference::Columns {
                actual: 2,
                expected: 4
            })
        );
    }

    #[test]
    #[should_panic(expected = "column 1 has level 0, expected 1 (1 levels, expected 2)")]
    fn wrong_levels_fail() {
        assert_same_levels(
            &Levels::from_level_of(vec![0, 0]),
            &Levels::from_level_of(vec![0, 1]),
        );
    }

    #[test]
    fn values_are_measured_against_the_largest() {
        assert_eq!(value_difference(&[1.0, 100.0], &[1.5, 100.0], 0.01), None);
        let off = value_difference(&[1.0, 100.0], &[2.5, 100.0], 0.01);
        assert_eq!(off.unwrap().to_string(), "value 0 is 1e0, expected 2.5e0");
        assert_eq!(value_difference(&[-0.0], &[0.0], 0.0), None);
        assert!(value_difference(&[f32::NAN], &[1.0], 0.5).is_some());
        assert!(value_difference(&[1.0f64], &[f64::NAN], 0.5).is_some());
        assert!(value_difference(&[1.0f64], &[], 0.5).is_some());
        // An infinite value must not widen what is allowed for its neighbours.
        assert_eq!(
            value_difference(&[f64::INFINITY], &[f64::INFINITY], 0.0),
            None
        );
    }

    #[test]
    #[should_panic(expected = "value 1 is 3e0, expected 2e0")]
    fn wrong_values_fail() {
        assert_close(&[1.0, 3.0], &[1.0, 2.0], 1e-3);
    }

    #[test]
    fn equal_bits_pass() {
        assert_same_bits(&[f64::NAN, -0.0, 1.5], &[f64::NAN, -0.0, 1.5]);
    }

    #[test]
    #[should_panic(expected = "value 0 is -0e0 (8000000000000000)")]
    fn another_sign_of_zero_fails() {
        assert_same_bits(&[-0.0], &[0.0]);
    }

    proptest! {
        #[test]
        fn patterns_without_difference_are_equal(a in patterns(6), b in patterns(6)) {
            prop_assert_eq!(pattern_difference(&a, &b).is_none(), a == b);
            prop_assert_eq!(pattern_difference(&a, &a), None);
        }
    }
}
