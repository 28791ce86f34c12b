//! Compressed sparse patterns in the layout of the device.

use std::convert::Infallible;

#[cfg(feature = "nalgebra-sparse")]
use nalgebra_sparse::pattern::SparsityPattern;

use crate::index::{IndexOverflow, to_u32};

/// Lines between two calls of `check`.
const STRIDE: usize = 1 << 12;

/// Why arrays are not a valid compressed pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The offsets do not start at zero, do not end at the number of entries, or there are none.
    #[error("offsets must run from 0 to the number of entries, {entries}")]
    OffsetEnds {
        /// Number of entries.
        entries: usize,
    },
    /// An offset is smaller than the one before.
    #[error("offset {line} is smaller than the one before it")]
    DecreasingOffset {
        /// Which offset.
        line: usize,
    },
    /// An index is not below the minor dimension.
    #[error("line {line} holds index {index}, beyond the minor dimension {minor_dim}")]
    IndexOutOfRange {
        /// The row (CSR) or column (CSC).
        line: usize,
        /// The index.
        index: u32,
        /// The minor dimension.
        minor_dim: u32,
    },
    /// The indices of a line are not strictly increasing.
    #[error("the indices of line {line} do not increase strictly at index {index}")]
    NotSorted {
        /// The row (CSR) or column (CSC).
        line: usize,
        /// The first index that is not above its predecessor.
        index: u32,
    },
    /// A dimension does not fit 32-bit indices.
    #[error(transparent)]
    IndexOverflow(#[from] IndexOverflow),
}

/// A compressed sparse pattern (CSR if a line is a row, CSC if it is a column) with the index types
/// of the device: `u64` offsets, `u32` indices that increase strictly within a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressedPattern {
    minor_dim: u32,
    ptr: Vec<u64>,
    idx: Vec<u32>,
}

impl CompressedPattern {
    /// Checks and takes the arrays. `ptr` has one entry more than there are lines; line `i` is
    /// `idx[ptr[i]..ptr[i + 1]]`.
    ///
    /// # Errors
    ///
    /// [`PatternError`] naming the first line that breaks an invariant.
    pub fn new(minor_dim: usize, ptr: Vec<u64>, idx: Vec<u32>) -> Result<Self, PatternError> {
        let minor_dim = to_u32(minor_dim, "minor dimension of the pattern")?;
        let ends = (ptr.first(), ptr.last());
        if ends != (Some(&0), Some(&(idx.len() as u64))) {
            return Err(PatternError::OffsetEnds { entries: idx.len() });
        }
        to_u32(ptr.len() - 1, "major dimension of the pattern")?;
        if let Some(line) = ptr.windows(2).position(|w| w[1] < w[0]) {
            return Err(PatternError::DecreasingOffset { line: line + 1 });
        }
        let pattern = Self {
            minor_dim,
            ptr,
            idx,
        };
        if pattern.has_valid_indices() {
            return Ok(pattern);
        }
        for (line, indices) in pattern.lines().enumerate() {
            if let Some(w) = indices.windows(2).find(|w| w[1] <= w[0]) {
                return Err(PatternError::NotSorted { line, index: w[1] });
            }
            if let Some(&index) = indices.last().filter(|&&i| i >= minor_dim) {
                return Err(PatternError::IndexOutOfRange {
                    line,
                    index,
                    minor_dim,
                });
            }
        }
        Ok(pattern)
    }

    /// Whether all indices are in range, and do not increase strictly only where a line starts: loops over
    /// all entries that do not mind how short the lines are. The offsets must be valid.
    fn has_valid_indices(&self) -> bool {
        let largest = self.idx.iter().fold(0, |max, &i| u32::max(max, i));
        if largest >= self.minor_dim && !self.idx.is_empty() {
            return false;
        }
        let num_drops = |pairs: &[u32]| pairs.windows(2).filter(|w| w[1] <= w[0]).count();
        let mut at_starts = 0;
        let mut previous = 0;
        for &start in &self.ptr {
            // Empty lines start where the next one does.
            if start != previous && start as usize != self.idx.len() {
                at_starts += num_drops(&self.idx[start as usize - 1..=start as usize]);
            }
            previous = start;
        }
        num_drops(&self.idx) == at_starts
    }

    /// As [`new`](Self::new) for arrays known to be valid, which only debug assertions check.
    ///
    /// # Safety
    ///
    /// [`new`](Self::new) would take them: unchecked accesses elsewhere rest on that.
    pub unsafe fn new_unchecked(minor_dim: usize, ptr: Vec<u64>, idx: Vec<u32>) -> Self {
        let pattern = Self {
            minor_dim: minor_dim as u32,
            ptr,
            idx,
        };
        debug_assert_eq!(
            Self::new(minor_dim, pattern.ptr.clone(), pattern.idx.clone()).as_ref(),
            Ok(&pattern)
        );
        pattern
    }

    /// Number of lines: rows of a CSR, columns of a CSC pattern.
    pub fn major_dim(&self) -> usize {
        self.ptr.len() - 1
    }

    /// Exclusive upper bound of the indices.
    pub fn minor_dim(&self) -> usize {
        self.minor_dim as usize
    }

    /// Number of entries.
    pub fn nnz(&self) -> usize {
        self.idx.len()
    }

    /// Offsets of the lines, one more than there are lines.
    pub fn ptr(&self) -> &[u64] {
        &self.ptr
    }

    /// Indices of all lines.
    pub fn idx(&self) -> &[u32] {
        &self.idx
    }

    /// Positions of line `line` in [`idx`](Self::idx).
    pub fn range(&self, line: usize) -> std::ops::Range<usize> {
        self.ptr[line] as usize..self.ptr[line + 1] as usize
    }

    /// Indices of line `line`.
    pub fn line(&self, line: usize) -> &[u32] {
        &self.idx[self.range(line)]
    }

    /// Indices of every line in turn.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.ptr
            .windows(2)
            .map(|w| &self.idx[w[0] as usize..w[1] as usize])
    }

    /// The pattern of the transpose: CSR becomes CSC of the same matrix.
    pub fn transpose(&self) -> Self {
        self.transpose_with_map().0
    }

    /// The transpose, and for each of its entries the position of that entry in `self`.
    pub fn transpose_with_map(&self) -> (Self, Vec<u64>) {
        let Ok(transposed) = self.try_transpose_with_map(|| Ok::<_, Infallible>(()));
        transposed
    }

    /// As [`transpose_with_map`](Self::transpose_with_map), calling `check` every few thousand lines and stopping when
    /// that fails.
    ///
    /// # Errors
    ///
    /// What `check` gives back.
    pub fn try_transpose_with_map<E>(
        &self,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<(Self, Vec<u64>), E> {
        let minor = self.minor_dim();
        let mut ptr = vec![0u64; minor + 1];
        for &i in &self.idx {
            ptr[i as usize + 1] += 1;
        }
        for i in 0..minor {
            ptr[i + 1] += ptr[i];
        }
        check()?;
        let mut next = ptr.clone();
        let mut idx = vec![0u32; self.nnz()];
        let mut map = vec![0u64; self.nnz()];
        for line in 0..self.major_dim() {
            if line.is_multiple_of(STRIDE) {
                check()?;
            }
            for p in self.range(line) {
                let slot = &mut next[self.idx[p] as usize];
                idx[*slot as usize] = line as u32;
                map[*slot as usize] = p as u64;
                *slot += 1;
            }
        }
        let transposed = Self {
            minor_dim: self.major_dim() as u32,
            ptr,
            idx,
        };
        Ok((transposed, map))
    }

    /// Visits each entry of a symmetric pattern, in stored order, with the position of its counterpart across the diagonal.
    /// Calls `check` every few thousand lines and stops when that fails. Answers with line and index of the first entry that
    /// is seen to have none, if there is one; nothing that was visited counts then.
    ///
    /// # Errors
    ///
    /// What `check` gives back.
    ///
    /// # Panics
    ///
    /// If there are not as many lines as indices.
    #[track_caller]
    pub fn try_visit_counterparts<E>(
        &self,
        check: impl Fn() -> Result<(), E>,
        mut visit: impl FnMut(usize, usize),
    ) -> Result<Result<(), (usize, usize)>, E> {
        assert_eq!(self.major_dim(), self.minor_dim(), "a square pattern");
        // Lines come in order, so the counterparts of the entries with one index are met in the order of its line.
        let mut next: Vec<u64> = self.ptr[..self.major_dim()].to_vec();
        for (i, line) in self.lines().enumerate() {
            if i.is_multiple_of(STRIDE) {
                check()?;
            }
            for (&j, p) in line.iter().zip(self.range(i)) {
                let counterpart = &mut next[j as usize];
                let at = *counterpart as usize;
                match self.idx[at..self.range(j as usize).end].first() {
                    Some(&found) if found as usize == i => {
                        visit(p, at);
                        *counterpart += 1;
                    }
                    // Line j has an entry that line `other` should have matched already.
                    Some(&other) if (other as usize) < i => {
                        return Ok(Err((j as usize, other as usize)));
                    }
                    _ => return Ok(Err((i, j as usize))),
                }
            }
        }
        Ok(Ok(()))
    }

    /// Gives the arrays back: offsets and indices.
    pub fn into_parts(self) -> (Vec<u64>, Vec<u32>) {
        (self.ptr, self.idx)
    }
}

/// With the feature `nalgebra-sparse`.
#[cfg(feature = "nalgebra-sparse")]
impl CompressedPattern {
    /// Converts from the pattern type of `nalgebra-sparse`.
    ///
    /// # Errors
    ///
    /// [`IndexOverflow`] if a dimension does not fit 32 bits.
    pub fn from_sparsity(pattern: &SparsityPattern) -> Result<Self, IndexOverflow> {
        let minor_dim = to_u32(pattern.minor_dim(), "minor dimension of the pattern")?;
        to_u32(pattern.major_dim(), "major dimension of the pattern")?;
        Ok(Self {
            minor_dim,
            ptr: pattern.major_offsets().iter().map(|&p| p as u64).collect(),
            // Each index is below minor_dim, which fits.
            idx: pattern.minor_indices().iter().map(|&i| i as u32).collect(),
        })
    }

    /// Converts to the pattern type of `nalgebra-sparse`.
    pub fn to_sparsity(&self) -> SparsityPattern {
        SparsityPattern::try_from_offsets_and_indices(
            self.major_dim(),
            self.minor_dim(),
            self.ptr.iter().map(|&p| p as usize).collect(),
            self.idx.iter().map(|&i| i as usize).collect(),
        )
        .expect("the invariants of both pattern types are the same")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn broken_arrays_are_refused_with_the_line() {
        assert_eq!(
            CompressedPattern::new(3, vec![], vec![]),
            Err(PatternError::OffsetEnds { entries: 0 })
        );
        assert_eq!(
            CompressedPattern::new(3, vec![0, 2, 1, 3], vec![0, 1, 2]),
            Err(PatternError::DecreasingOffset { line: 2 })
        );
        assert_eq!(
            CompressedPattern::new(3, vec![0, 1, 3], vec![0, 2, 2]),
            Err(PatternError::NotSorted { line: 1, index: 2 })
        );
        assert_eq!(
            CompressedPattern::new(3, vec![0, 1, 3], vec![0, 1, 3]),
            Err(PatternError::IndexOutOfRange {
                line: 1,
                index: 3,
                minor_dim: 3
            })
        );
        let empty = CompressedPattern::new(0, vec![0], vec![]).unwrap();
        assert_eq!((empty.major_dim(), empty.nnz()), (0, 0));
    }

    fn patterns() -> impl Strategy<Value = CompressedPattern> {
        (0usize..12, 1usize..12).prop_flat_map(|(major, minor)| {
            proptest::collection::vec(
                proptest::collection::btree_set(0..minor as u32, 0..=minor),
                major,
            )
            .prop_map(move |lines| {
                let mut ptr = vec![0u64];
                let mut idx = Vec::new();
                for line in lines {
                    idx.extend(line);
                    ptr.push(idx.len() as u64);
                }
                CompressedPattern::new(minor, ptr, idx).unwrap()
            })
        })
    }

    /// Symmetric ones, and such as lack an entry for that.
    fn square_patterns() -> impl Strategy<Value = CompressedPattern> {
        (1usize..9).prop_flat_map(|n| {
            let places = proptest::collection::btree_set((0..n, 0..n), 0..2 * n);
            let missing = proptest::option::of((0..n, 0..n));
            (places, missing).prop_map(move |(places, missing)| {
                let has = |i, j| {
                    (places.contains(&(i, j)) || places.contains(&(j, i)))
                        && missing != Some((i, j))
                };
                let (mut ptr, mut idx) = (vec![0], Vec::new());
                for i in 0..n {
                    idx.extend((0..n).filter(|&j| has(i, j)).map(|j| j as u32));
                    ptr.push(idx.len() as u64);
                }
                CompressedPattern::new(n, ptr, idx).unwrap()
            })
        })
    }

    proptest! {
        #[test]
        fn transposing_maps_every_entry(p in patterns()) {
            let (t, map) = p.transpose_with_map();
            prop_assert_eq!(t.transpose(), p.clone());
            for j in 0..t.major_dim() {
                for q in t.range(j) {
                    prop_assert_eq!(p.idx()[map[q] as usize] as usize, j);
                    prop_assert!(p.range(t.idx()[q] as usize).contains(&(map[q] as usize)));
                }
            }
        }

        #[test]
        fn counterparts_are_those_of_the_transpose(p in square_patterns()) {
            let (t, map) = p.transpose_with_map();
            let mut visited = Vec::new();
            let found = p.try_visit_counterparts(|| Ok::<_, Infallible>(()), |at, q| {
                assert_eq!(at, visited.len());
                visited.push(q as u64);
            });
            let Ok(found) = found;
            let has = |i: usize, j: usize| p.line(i).binary_search(&(j as u32)).is_ok();
            match found {
                Ok(()) => {
                    prop_assert_eq!(&t, &p);
                    prop_assert_eq!(visited, map);
                }
                Err((i, j)) => prop_assert!(has(i, j) && !has(j, i)),
            }
        }

        #[cfg(feature = "nalgebra-sparse")]
        #[test]
        fn nalgebra_round_trip(p in patterns()) {
            prop_assert_eq!(CompressedPattern::from_sparsity(&p.to_sparsity()).unwrap(), p);
        }
    }
}
