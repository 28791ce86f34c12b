//! What a kind of factorization stores of a front, and what that costs.

use std::fmt::Debug;

use luge_dense::BLOCK_COLUMNS;
use luge_sparse::CompressedPattern;

use crate::tree::{
    CostModel, Front, Transposed, front_entries, front_flops, lower_entries, lower_flops,
};
use crate::widths::scaled_entries;

/// What a kind of factorization stores of a front with `pivots` eliminated columns and `below` rows below them.
///
/// A type of this kind has no values; it only chooses.
pub trait Storage: Debug + Clone + Copy + Send + Sync + 'static {
    /// Whether the fully summed rows of a front are permuted as its columns are, so that one list of labels is enough.
    const SYMMETRIC: bool;

    /// Entries of the memory of the factors of one front.
    fn slot_entries(pivots: u32, below: u32) -> u64;

    /// Those of them that are entries of the factors, the diagonal counted once.
    fn factor_entries(pivots: u32, below: u32) -> u64;

    /// Operations of the elimination.
    fn flops(pivots: u32, below: u32) -> f64;

    /// Entries that a front hands to its parent: a generated element of this order, and what checks it.
    fn element_entries(order: usize) -> usize;

    /// Entries that one thread works in for a front, beside the front and generated elements.
    fn scratch_entries(pivots: u32, below: u32) -> u64;

    /// Seconds of a front, assembled and eliminated.
    fn seconds(model: &CostModel, pivots: u32, below: u32) -> f64;

    /// Calls `put(p, q, belongs)` for the entries of the matrix that may be of a front: the value at position p goes to
    /// place q of its slot, if it `belongs` there; else q means nothing.
    #[doc(hidden)]
    fn place(front: &FrontEntries<'_>, put: impl FnMut(u32, u32, bool));
}

/// The entries of the matrix in the columns and rows of the pivots of a front.
#[doc(hidden)]
pub struct FrontEntries<'a> {
    pub(crate) front: &'a Front,
    pub(crate) cols: &'a CompressedPattern,
    pub(crate) rows_of: &'a Transposed,
    /// Elimination order: new to old, and old to new.
    pub(crate) perm: &'a [u32],
    pub(crate) inv_perm: &'a [u32],
    /// Position in the front of its pivots and rows below, by place in the elimination order.
    pub(crate) position: &'a [u32],
}

/// Both triangles, of an unsymmetric matrix: L and U.
///
/// The slot of a front with k pivots, c rows below and m = k + c holds two column-major panels one
/// after the other:
///
/// ```text
///         k                    k
///     ┌───────┐
///   k │ L11\U11                U12ᵀ: row j of U is column j
///     ├───────┤            ┌───────┐
///   c │  L21  │  m × k   c │ U12ᵀ  │  c × k
///     └───────┘            └───────┘
/// ```
///
/// Both panels below the pivots have the same shape, so the update of the rest of the front is
/// L21 · (U12ᵀ)ᵀ with both factors contiguous along the long side.
#[derive(Debug, Clone, Copy)]
pub struct Full;

impl Storage for Full {
    const SYMMETRIC: bool = false;

    fn slot_entries(pivots: u32, below: u32) -> u64 {
        front_entries(pivots, below)
    }

    fn factor_entries(pivots: u32, below: u32) -> u64 {
        front_entries(pivots, below)
    }

    fn flops(pivots: u32, below: u32) -> f64 {
        front_flops(pivots, below)
    }

    /// The element and two check vectors.
    fn element_entries(order: usize) -> usize {
        order * order + 2 * order
    }

    /// A few vectors of a front's length.
    fn scratch_entries(pivots: u32, below: u32) -> u64 {
        8 * (u64::from(pivots) + u64::from(below))
    }

    fn seconds(model: &CostModel, pivots: u32, below: u32) -> f64 {
        model.front_seconds(pivots, below)
    }

    fn place(entries: &FrontEntries<'_>, mut put: impl FnMut(u32, u32, bool)) {
        let FrontEntries {
            front,
            cols,
            rows_of,
            perm,
            inv_perm,
            position,
        } = *entries;
        let (k, c) = (front.pivots as usize, front.below as usize);
        let m = k + c;
        let start = front.start as usize;
        for j in 0..k {
            let old = perm[start + j] as usize;
            for (&row, p) in cols.line(old).iter().zip(cols.range(old)) {
                let row = inv_perm[row as usize] as usize;
                put(
                    p as u32,
                    position[row].wrapping_add((j * m) as u32),
                    row >= start,
                );
            }
        }
        for i in 0..k {
            let old = perm[start + i] as usize;
            let first = (m * k + i * c) as u32;
            for (col, p) in rows_of.entries(old) {
                let col = inv_perm[col as usize] as usize;
                let place = first.wrapping_add(position[col]).wrapping_sub(k as u32);
                put(p, place, col >= start + k);
            }
        }
    }
}

/// One triangle, of a symmetric matrix: L, with D on the diagonal.
///
/// The slot of a front with k pivots, c rows below and m = k + c holds one column-major panel:
///
/// ```text
///         k
///     ┌───────┐
///   k │ L11   │   D on the diagonal; of a pivot of order 2 in columns j and j + 1, D's other entry in row j of column
///     ├───────┤   j + 1, and zero in row j + 1 of column j. Nothing else above the diagonal.
///   c │  L21  │
///     └───────┘
/// ```
///
/// The pattern is that of one triangle, by columns: each unordered pair {i, j} of a row and a column is stored once, in
/// either triangle, in any mixture.
#[derive(Debug, Clone, Copy)]
pub struct Lower;

impl Storage for Lower {
    const SYMMETRIC: bool = true;

    fn slot_entries(pivots: u32, below: u32) -> u64 {
        u64::from(pivots) * (u64::from(pivots) + u64::from(below))
    }

    fn factor_entries(pivots: u32, below: u32) -> u64 {
        lower_entries(pivots, below)
    }

    fn flops(pivots: u32, below: u32) -> f64 {
        lower_flops(pivots, below)
    }

    /// The element, of whose matrix the lower triangle is used, and the check vector.
    fn element_entries(order: usize) -> usize {
        order * order + order
    }

    /// Columns of L·D or of a block, the copies of a block, and a few vectors of a front's length.
    fn scratch_entries(pivots: u32, below: u32) -> u64 {
        let (k, c) = (pivots as usize, below as usize);
        let vectors = 5 * (k + c) + 2 * BLOCK_COLUMNS * BLOCK_COLUMNS;
        (scaled_entries(k, c) + vectors) as u64
    }

    fn seconds(model: &CostModel, pivots: u32, below: u32) -> f64 {
        let below_entries = f64::from(below) * (f64::from(below) + 1.0) / 2.0;
        model.per_front
            + f64::from(pivots) * model.per_pivot
            + lower_entries(pivots, below) as f64 * model.per_entry
            + below_entries * model.per_update_entry
            + lower_flops(pivots, below) * model.per_flop
    }

    fn place(entries: &FrontEntries<'_>, mut put: impl FnMut(u32, u32, bool)) {
        let FrontEntries {
            front,
            cols,
            rows_of,
            perm,
            inv_perm,
            position,
        } = *entries;
        let m = front.pivots + front.below;
        for j in 0..front.pivots {
            let new = front.start + j;
            let old = perm[new as usize] as usize;
            for (&row, p) in cols.line(old).iter().zip(cols.range(old)) {
                let row = inv_perm[row as usize];
                let place = position[row as usize].wrapping_add(j * m);
                put(p as u32, place, row >= new);
            }
            for (col, p) in rows_of.entries(old) {
                let col = inv_perm[col as usize];
                let place = position[col as usize].wrapping_add(j * m);
                put(p, place, col > new);
            }
        }
    }
}
