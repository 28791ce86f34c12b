//! Filled pattern on the CPU: structures of supernodes first, rows of L+U from them.
//!
//! | module | step |
//! |---|---|
//! | `triangles` | the parts of B's rows and columns beyond the diagonal |
//! | `crate::forest` | ranges of pivots that can be eliminated side by side |
//! | `elimination` | rows of U and columns of L, each distinct structure once, with symmetric pruning on both sides |
//! | `index_set` | unions that come out in order |
//! | `counts` | sizes of all rows and columns, before the pattern is allocated |
//! | `expansion` | the rows of L+U, each entry written once |
//! | `sources` | apart from these: each row of L+U by itself |
//!
//! Reports progress by events with target `luge::progress` and the fields `done` and `total`.
//!
//! Cost: time for the elimination by the length of the distinct structures joined at each pivot, which
//! is below the number of entries of L+U where the structure is symmetric or nearly so; then one write
//! per entry. Memory: the structures, which are at most L+U and much less where there are supernodes,
//! 80 bytes a row, and the result.

mod counts;
mod elimination;
mod expansion;
mod index_set;
mod sources;
mod triangles;

use std::sync::atomic::{AtomicU64, Ordering};

use luge_sparse::{CancelFlag, CompressedPattern, FilledPattern};
use rayon::prelude::*;

pub use counts::Counts;
pub use sources::SourceTraversal;

use crate::assert_square;
use crate::error::SymbolicError;
use crate::forest;
use elimination::{Elimination, Structures};
use expansion::RowSizes;
use triangles::Triangles;

/// What a caller may set for [`filled_pattern_with`] and [`counts_with`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Stops the phase when raised: at the next pivot, or within a thousand rows of output.
    pub cancel: CancelFlag,
    /// Largest size of the resulting pattern in bytes (4 per entry, 16 per row); `None`: no limit.
    pub max_bytes: Option<u64>,
    /// How many threads of rayon's current pool to divide the work for; with at most 1, rayon is
    /// not called. The result does not depend on it.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cancel: CancelFlag::new(),
            max_bytes: None,
            threads: 1,
        }
    }
}

/// The filled pattern of L+U for the square CSR `pattern`; the diagonal need not be stored in it.
///
/// # Errors
///
/// None of the default [`Options`] can fail; see [`filled_pattern_with`].
///
/// # Panics
///
/// If `pattern` is not square.
#[track_caller]
pub fn filled_pattern(pattern: &CompressedPattern) -> Result<FilledPattern, SymbolicError> {
    filled_pattern_with(pattern, &Options::default())
}

/// As [`filled_pattern`], with a cancel flag, a memory limit and threads.
///
/// # Errors
///
/// [`SymbolicError::OutOfMemory`] before anything of the result is allocated: `asked` is the exact
/// size of the whole pattern, `row` the row at whose end the limit is passed. Only if the structures
/// of the pivots pass the limit themselves, `asked` is what they need so far, and `row` the pivot at
/// which they pass it. [`SymbolicError::Cancelled`].
///
/// # Panics
///
/// If `pattern` is not square.
#[track_caller]
pub fn filled_pattern_with(
    pattern: &CompressedPattern,
    options: &Options,
) -> Result<FilledPattern, SymbolicError> {
    assert_square(pattern);
    let n = pattern.major_dim();
    let span = tracing::debug_span!("filled_pattern", n, nnz = pattern.nnz());
    let _entered = span.enter();

    let structures = eliminate(pattern, options, options.max_bytes)?;
    let sizes = RowSizes::new(&structures);
    if let Some(available) = options.max_bytes {
        let counts = counts_of(&structures, sizes.left.clone());
        if let Some(row) = counts.first_row_beyond(available) {
            return Err(SymbolicError::OutOfMemory {
                row,
                asked: counts.pattern_bytes(),
                available,
            });
        }
    }
    let filled = expansion::expand(&structures, &sizes, options.threads, &options.cancel)?;
    tracing::debug!(
        entries = filled.nnz(),
        stored = structures.stored(),
        "filled pattern found"
    );
    Ok(filled)
}

/// Sizes of L and U for the square CSR `pattern`, exactly those of [`filled_pattern`], without
/// forming it.
///
/// # Errors
///
/// None of the default [`Options`] can fail; see [`counts_with`].
///
/// # Panics
///
/// If `pattern` is not square.
#[track_caller]
pub fn counts(pattern: &CompressedPattern) -> Result<Counts, SymbolicError> {
    counts_with(pattern, &Options::default())
}

/// As [`counts`], with a cancel flag and threads. The memory limit is for the pattern and not looked
/// at; compare it with [`Counts::pattern_bytes`].
///
/// # Errors
///
/// [`SymbolicError::Cancelled`].
///
/// # Panics
///
/// If `pattern` is not square.
#[track_caller]
pub fn counts_with(
    pattern: &CompressedPattern,
    options: &Options,
) -> Result<Counts, SymbolicError> {
    assert_square(pattern);
    let structures = eliminate(pattern, options, None)?;
    let sizes = RowSizes::new(&structures);
    Ok(counts_of(&structures, sizes.left))
}

fn counts_of(structures: &Structures, lower_rows: Vec<u32>) -> Counts {
    let pivots = || 0..structures.len();
    Counts::new(
        lower_rows,
        pivots().map(|k| structures.lower(k).len() as u32).collect(),
        pivots().map(|k| structures.upper(k).len() as u32).collect(),
    )
}

/// The structures of all pivots; an error if they need more than `max_bytes`.
fn eliminate(
    pattern: &CompressedPattern,
    options: &Options,
    max_bytes: Option<u64>,
) -> Result<Structures, SymbolicError> {
    let n = pattern.major_dim();
    let triangles = Triangles::new(pattern);
    options.cancel.check()?;
    let done = AtomicU64::new(0);
    let eliminate = |part: &mut Elimination<'_>, pivots: std::ops::Range<usize>| {
        let first = pivots.start;
        part.run(pivots, |k, stored| {
            options.cancel.check()?;
            if (k - first).is_multiple_of(64) {
                // Relaxed: a count for whoever watches, it orders nothing.
                let done = done.fetch_add(64, Ordering::Relaxed).min(n as u64);
                tracing::debug!(target: "luge::progress", done, total = n as u64);
            }
            let asked = 4 * stored as u64 + 16 * n as u64;
            match max_bytes.filter(|&available| asked > available) {
                Some(available) => Err(SymbolicError::OutOfMemory {
                    row: k,
                    asked,
                    available,
                }),
                None => Ok(()),
            }
        })
    };
    let mut whole = Elimination::new(&triangles, 0..n);
    if options.threads <= 1 {
        eliminate(&mut whole, 0..n)?;
        return Ok(whole.finish());
    }
    let ranges = forest::independent_ranges(pattern, (n / (4 * options.threads)).max(1));
    let parts: Vec<_> = ranges
        .par_iter()
        .map(|range| {
            let mut part = Elimination::new(&triangles, range.clone());
            eliminate(&mut part, range.clone()).map(|()| part)
        })
        .collect::<Result<_, _>>()?;
    for part in parts {
        whole.absorb(part);
    }
    let mut next = 0;
    for range in ranges.into_iter().chain(std::iter::once(n..n)) {
        eliminate(&mut whole, next..range.start)?;
        next = range.end;
    }
    Ok(whole.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(n: usize, rows: &[&[u32]]) -> CompressedPattern {
        let mut ptr = vec![0];
        let mut idx = Vec::new();
        for row in rows {
            idx.extend_from_slice(row);
            ptr.push(idx.len() as u64);
        }
        CompressedPattern::new(n, ptr, idx).unwrap()
    }

    #[test]
    fn an_arrow_fills_completely() {
        for n in [2usize, 31, 32, 33] {
            let all: Vec<u32> = (0..n as u32).collect();
            let arms: Vec<[u32; 2]> = (1..n as u32).map(|i| [0, i]).collect();
            let mut rows: Vec<&[u32]> = vec![&all];
            rows.extend(arms.iter().map(|arm| arm.as_slice()));
            let filled = filled_pattern(&pattern(n, &rows)).unwrap();
            assert_eq!(filled.nnz(), n * n);
        }
    }

    #[test]
    fn empty_rows_get_their_diagonal() {
        assert_eq!(filled_pattern(&pattern(0, &[])).unwrap().n(), 0);
        let filled = filled_pattern(&pattern(3, &[&[], &[0], &[]])).unwrap();
        assert_eq!(filled.rows().ptr(), [0, 1, 3, 4]);
        assert_eq!(filled.rows().idx(), [0, 0, 1, 2]);
    }

    #[test]
    fn the_limit_and_the_flag_stop_the_phase() {
        let p = pattern(2, &[&[0, 1], &[0, 1]]);
        let limited = |max_bytes| Options {
            max_bytes: Some(max_bytes),
            ..Options::default()
        };
        assert!(filled_pattern_with(&p, &limited(48)).is_ok());
        match filled_pattern_with(&p, &limited(44)) {
            Err(SymbolicError::OutOfMemory {
                row: 1,
                asked: 48,
                available: 44,
            }) => {}
            other => panic!("{other:?}"),
        }
        let cancelled = Options::default();
        cancelled.cancel.cancel();
        assert!(matches!(
            filled_pattern_with(&p, &cancelled),
            Err(SymbolicError::Cancelled(_))
        ));
    }

    #[test]
    #[should_panic(expected = "square pattern")]
    fn a_rectangle_is_a_broken_call() {
        let _ = filled_pattern(&pattern(3, &[&[0], &[1]]));
    }
}
