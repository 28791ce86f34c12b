//! Where the factors of each front lie, and where each entry of the matrix goes.
//!
//! The slot of a front with k pivots, c rows below and m = k + c holds two column-major panels one
//! after the other:
//!
//! ```text
//!         k                    k
//!     ┌───────┐
//!   k │ L11\U11                U12ᵀ: row j of U is column j
//!     ├───────┤            ┌───────┐
//!   c │  L21  │  m × k   c │ U12ᵀ  │  c × k
//!     └───────┘            └───────┘
//! ```
//!
//! Both panels below the pivots have the same shape, so the update of the rest of the front is
//! L21 · (U12ᵀ)ᵀ with both factors contiguous along the long side, and a symmetric factorization
//! would only leave the second panel away.

use luge_sparse::{CompressedPattern, IndexOverflow, to_u32};

use crate::tree::{Front, Transposed};

/// Slots of the fronts and the assembly of the matrix into them.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Start of each front's slot, and the end of the last.
    pub slot: Vec<u64>,
    /// Entries of all slots.
    pub slots: u64,
    /// Start of each front's entries in `source` and `target`, and the end of the last.
    pub entry_ptr: Vec<u32>,
    /// Positions among the values of the matrix.
    pub source: Vec<u32>,
    /// Positions in the slot.
    pub target: Vec<u32>,
}

impl Layout {
    /// Of fronts with these rows below their pivots, and a matrix by columns and rows in the order `perm` (new to old).
    pub fn new(
        fronts: &[Front],
        rows: &[u32],
        cols: &CompressedPattern,
        rows_of: &Transposed,
        perm: &[u32],
        inv_perm: &[u32],
    ) -> Result<Self, IndexOverflow> {
        let mut slot = Vec::with_capacity(fronts.len() + 1);
        let mut slots = 0u64;
        let mut entry_ptr = Vec::with_capacity(fronts.len() + 1);
        // Every entry is written to the next place, which moves on only if the entry belongs there: a branch would be
        // guessed wrong half of the time. So there is one place more.
        let mut source = vec![0u32; cols.nnz() + 1];
        let mut target = vec![0u32; cols.nnz() + 1];
        let mut next = 0;
        let mut position = vec![0u32; perm.len()];
        for front in fronts {
            let (k, c) = (front.pivots as usize, front.below as usize);
            let m = k + c;
            let size = k * (m + c);
            to_u32(size, "entries of a front's panels")?;
            slot.push(slots);
            slots += size as u64;
            entry_ptr.push(next as u32);
            let start = front.start as usize;
            for (i, &row) in rows[front.row_range()].iter().enumerate() {
                position[row as usize] = (k + i) as u32;
            }
            for i in 0..k {
                position[start + i] = i as u32;
            }
            for j in 0..k {
                let old = perm[start + j] as usize;
                for (&row, p) in cols.lane(old).iter().zip(cols.range(old)) {
                    let row = inv_perm[row as usize] as usize;
                    source[next] = p as u32;
                    target[next] = position[row].wrapping_add((j * m) as u32);
                    next += usize::from(row >= start);
                }
            }
            for i in 0..k {
                let old = perm[start + i] as usize;
                let first = (m * k + i * c) as u32;
                for (col, p) in rows_of.entries(old) {
                    let col = inv_perm[col as usize] as usize;
                    source[next] = p;
                    target[next] = first.wrapping_add(position[col]).wrapping_sub(k as u32);
                    next += usize::from(col >= start + k);
                }
            }
        }
        debug_assert_eq!(next, cols.nnz());
        source.truncate(next);
        target.truncate(next);
        slot.push(slots);
        entry_ptr.push(next as u32);
        Ok(Self {
            slot,
            slots,
            entry_ptr,
            source,
            target,
        })
    }

    pub fn bytes(&self) -> usize {
        self.slot.len() * 8 + (self.entry_ptr.len() + self.source.len() + self.target.len()) * 4
    }
}
