//! Levels on the CPU, in one sweep over the rows of L+U.
//!
//! When row k is reached, every column before k is final. Row k of L lists what k looks left to;
//! what it looks up to has pushed its level forward along its row of U. Cost: O(lnz + unz) time,
//! O(n) memory.

use luge_sparse::{CancelFlag, FilledPattern, Levels};

use crate::error::LevelizeError;

/// The levels of the columns of `filled`, by the relaxed dependencies of the crate's front page.
pub fn levels(filled: &FilledPattern) -> Levels {
    match levels_cancellable(filled, &CancelFlag::new()) {
        Ok(levels) => levels,
        Err(e) => unreachable!("nobody else holds the flag, and there is no device: {e}"),
    }
}

/// As [`levels`], stopping at the next row once `cancel` is raised.
///
/// # Errors
///
/// [`LevelizeError::Cancelled`].
pub fn levels_cancellable(
    filled: &FilledPattern,
    cancel: &CancelFlag,
) -> Result<Levels, LevelizeError> {
    let n = filled.n();
    let span = tracing::debug_span!("levels", n, entries = filled.nnz());
    let _entered = span.enter();
    let mut level_of = vec![0u32; n];
    for k in 0..n {
        cancel.check()?;
        let left = filled.lower(k).iter().map(|&i| level_of[i as usize] + 1);
        let level = left.fold(level_of[k], u32::max);
        level_of[k] = level;
        for &j in filled.upper(k) {
            let pushed = &mut level_of[j as usize];
            *pushed = (*pushed).max(level + 1);
        }
    }
    Ok(Levels::from_level_of(level_of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_sparse::CompressedPattern;

    fn filled(rows: &[&[u32]]) -> FilledPattern {
        let mut ptr = vec![0];
        let mut idx = Vec::new();
        for row in rows {
            idx.extend_from_slice(row);
            ptr.push(idx.len() as u64);
        }
        FilledPattern::new(CompressedPattern::new(rows.len(), ptr, idx).unwrap()).unwrap()
    }

    #[test]
    fn a_look_up_and_a_look_left_both_wait() {
        // Column 1 looks up to 0; column 2 looks left to 0; column 3 is free.
        let levels = levels(&filled(&[&[0, 1], &[1], &[0, 2], &[3]]));
        assert_eq!(levels.level_of(), [0, 1, 1, 0]);
    }

    #[test]
    fn dense_and_diagonal_are_the_extremes() {
        for n in [0usize, 1, 31, 32, 33] {
            let full: Vec<u32> = (0..n as u32).collect();
            let dense: Vec<&[u32]> = (0..n).map(|_| full.as_slice()).collect();
            assert_eq!(levels(&filled(&dense)).num_levels(), n);
            let alone: Vec<&[u32]> = full.chunks(1).collect();
            assert_eq!(levels(&filled(&alone)).num_levels(), n.min(1));
        }
    }

    #[test]
    fn the_flag_stops_the_phase() {
        let cancel = CancelFlag::new();
        cancel.cancel();
        let stopped = levels_cancellable(&filled(&[&[0]]), &cancel);
        assert!(matches!(stopped, Err(LevelizeError::Cancelled(_))));
    }
}
