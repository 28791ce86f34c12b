//! How the matrix that is factorized comes from the one that callers have.

use std::sync::Arc;

use luge_sparse::etree::inverse;
use luge_sparse::{ColPerm, CompressedPattern, Form, RowPerm, Scaling};

use crate::shares::{both, collected};

/// How B = P·Dr·A·Dc·Q, block upper triangular, comes from A.
///
/// The trees of the diagonal blocks of B are one forest; the entries right of those blocks couple them in a solve.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    /// Row i of B is row `row_perm[i]` of A.
    pub row_perm: &'a RowPerm,
    /// Column j of B is column `col_perm[j]` of A.
    pub col_perm: &'a ColPerm,
    /// Dr and Dc in A's order, all powers of two.
    pub scaling: &'a Scaling,
    /// Entry p of the pattern that the tree was made of is value `entries[p]` of A.
    pub entries: &'a [u32],
    /// First column of each diagonal block of B, and n; the tree has no entry outside these blocks.
    pub block_ptr: &'a [usize],
    /// The rows of B right of the diagonal blocks, n by n.
    pub coupling: &'a Arc<CompressedPattern>,
    /// Entry p of `coupling` is value `coupling_entries[p]` of A.
    pub coupling_entries: &'a [u32],
    /// The entries of the pattern that are conjugates of their values, if B is Hermitian, and given by its lower triangle; of no
    /// use for real numbers. `None`: entries across the diagonal are equal, or both given.
    pub conjugated: Option<&'a [u32]>,
}

/// Where vectors of B are in vectors of A, in the order of elimination: its rows, or its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed<P, E> {
    /// The row or column of A of each pivot.
    pub places: P,
    /// The exponents of their factors.
    pub exponents: E,
}

/// On the host.
pub(super) type PlacedOnHost = Placed<Vec<u32>, Vec<i32>>;

impl PlacedOnHost {
    /// For pivots in the order `perm` (new to old), of which number i is `to_a[i]` in A.
    fn new(perm: &[u32], to_a: &[u32], factors: &[f64], threads: usize) -> Self {
        let place = |e: usize| to_a[perm[e] as usize];
        Self {
            places: collected(threads, perm.len(), place),
            exponents: collected(threads, perm.len(), |e| {
                exponent(factors[place(e) as usize])
            }),
        }
    }
}

impl Placement<'_> {
    /// The rows of pivots in the order `perm`, and the columns.
    pub(super) fn placed(&self, perm: &[u32], threads: usize) -> (PlacedOnHost, PlacedOnHost) {
        let (row_perm, col_perm) = (self.row_perm.as_slice(), self.col_perm.as_slice());
        let Scaling { rows, cols, .. } = self.scaling;
        both(
            threads,
            || Placed::new(perm, row_perm, rows, threads),
            || Placed::new(perm, col_perm, cols, threads),
        )
    }

    /// Panics where a length does not go with a matrix of order `n` and a tree of `nnz` entries.
    #[track_caller]
    pub(super) fn check(&self, n: usize, nnz: usize) {
        assert_eq!(self.row_perm.len(), n, "one row of A for each row of B");
        assert_eq!(
            self.col_perm.len(),
            n,
            "one column of A for each column of B"
        );
        assert_eq!(self.scaling.rows.len(), n, "a factor for each row");
        assert_eq!(self.scaling.cols.len(), n, "a factor for each column");
        assert_eq!(
            self.entries.len(),
            nnz,
            "a value for each entry of the tree"
        );
        assert_eq!(
            self.block_ptr.last(),
            Some(&n),
            "the blocks end with the matrix"
        );
        assert_eq!(
            self.coupling.major_dim(),
            n,
            "a row of couplings for each row of B"
        );
        assert_eq!(
            self.coupling_entries.len(),
            self.coupling.nnz(),
            "a value for each coupling"
        );
    }

    /// How counterparts across the diagonal are determined.
    pub(super) fn form(&self) -> Form {
        match self.conjugated {
            Some(_) => Form::Hermitian,
            None => Form::Symmetric,
        }
    }

    /// Whether each entry of the `pattern`, the lower triangle of a Hermitian B by columns, is the conjugate of its value where it
    /// goes: on or below the diagonal in the order of elimination, `perm` (new to old). Empty for others.
    pub(super) fn conjugated_in_order(
        &self,
        pattern: &CompressedPattern,
        perm: &[u32],
    ) -> Vec<bool> {
        let Some(conjugated) = self.conjugated else {
            return Vec::new();
        };
        let place = inverse(perm);
        let mut are = Vec::with_capacity(pattern.nnz());
        for (rows, &of_column) in pattern.lines().zip(&place) {
            are.extend(rows.iter().map(|&i| place[i as usize] < of_column));
        }
        for &p in conjugated {
            are[p as usize] ^= true;
        }
        are
    }
}

/// e where `factor` is 2^e.
pub(super) fn exponent(factor: f64) -> i32 {
    (factor.to_bits() >> 52) as i32 - 1023
}
