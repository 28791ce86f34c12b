//! A partition of the rows into supernodes.

use std::ops::Range;

/// The supernodes of a filled pattern: consecutive rows each, all rows together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supernodes {
    ptr: Vec<u32>,
    zeros: u64,
}

/// Sizes of supernodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Supernodes.
    pub num_supernodes: usize,
    /// Rows of the largest.
    pub largest: usize,
    /// Supernodes of one row.
    pub single_rows: usize,
    /// Places in blocks without an entry of L+U; none if not relaxed.
    pub zeros: u64,
}

impl Supernodes {
    /// Takes the first row of each supernode, followed by the number of rows, and the zeros in their
    /// blocks; `None` if the rows do not increase from 0.
    pub(crate) fn new(ptr: Vec<u32>, zeros: u64) -> Option<Self> {
        let valid = ptr.first() == Some(&0) && ptr.is_sorted_by(|a, b| a < b);
        valid.then_some(Self { ptr, zeros })
    }

    /// Number of rows.
    pub fn n(&self) -> usize {
        self.ptr[self.len()] as usize
    }

    /// Number of supernodes.
    pub fn len(&self) -> usize {
        self.ptr.len() - 1
    }

    /// Whether there are none, because there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First row of each supernode in increasing order, then the number of rows.
    pub fn ptr(&self) -> &[u32] {
        &self.ptr
    }

    /// Rows of a supernode.
    ///
    /// # Panics
    ///
    /// If there are no more than `supernode` of them.
    #[track_caller]
    pub fn rows(&self, supernode: usize) -> Range<usize> {
        self.ptr[supernode] as usize..self.ptr[supernode + 1] as usize
    }

    /// The supernode that holds a row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[track_caller]
    pub fn of(&self, row: usize) -> usize {
        assert!(row < self.n(), "row {row} of {}", self.n());
        self.ptr.partition_point(|&first| first as usize <= row) - 1
    }

    /// Rows of the largest supernode, zero if there is none.
    pub fn largest(&self) -> usize {
        self.sizes().max().unwrap_or(0)
    }

    /// Places in the blocks of relaxed supernodes without an entry of L+U: what is stored beside the
    /// entries, if each supernode of m rows stores m·(m + nnz(U(last row)) − 1) places. Without
    /// relaxation there are none.
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// Counts and sizes.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            num_supernodes: self.len(),
            largest: self.largest(),
            single_rows: self.sizes().filter(|&size| size == 1).count(),
            zeros: self.zeros,
        }
    }

    fn sizes(&self) -> impl Iterator<Item = usize> {
        self.ptr.windows(2).map(|ends| (ends[1] - ends[0]) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_in_their_supernodes() {
        let supernodes = Supernodes::new(vec![0, 1, 4, 5], 2).unwrap();
        let of: Vec<usize> = (0..5).map(|row| supernodes.of(row)).collect();
        assert_eq!(of, [0, 1, 1, 1, 2]);
        assert_eq!(supernodes.rows(1), 1..4);
        let expected = Statistics {
            num_supernodes: 3,
            largest: 3,
            single_rows: 2,
            zeros: 2,
        };
        assert_eq!(supernodes.statistics(), expected);
    }

    #[test]
    fn no_rows_have_no_supernodes() {
        let none = Supernodes::new(vec![0], 0).unwrap();
        assert!(none.is_empty());
        assert_eq!(none.statistics(), Statistics::default());
    }

    #[test]
    #[should_panic(expected = "row 4 of 4")]
    fn a_row_too_many_is_refused() {
        Supernodes::new(vec![0, 4], 0).unwrap().of(4);
    }

    #[test]
    fn what_is_no_partition_is_refused() {
        for ptr in [vec![], vec![1, 2], vec![0, 2, 2], vec![0, 3, 2]] {
            assert_eq!(Supernodes::new(ptr, 0), None);
        }
    }
}
