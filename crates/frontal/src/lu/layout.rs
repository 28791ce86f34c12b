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

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, to_u32};

use crate::error::FrontalError;
use crate::shares::{both, joined, mapped, shares};
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

/// Fronts between two looks at the cancel flag.
const STRIDE: usize = 1 << 10;

/// What the entries of a matrix are assembled from.
struct Matrix<'a> {
    /// Rows below the pivots of all fronts.
    rows: &'a [u32],
    cols: &'a CompressedPattern,
    rows_of: &'a Transposed,
    /// Elimination order: new to old, and old to new.
    perm: &'a [u32],
    inv_perm: &'a [u32],
}

/// The entries of some consecutive fronts.
struct Share {
    /// Where those of each front end.
    ends: Vec<u32>,
    source: Vec<u32>,
    target: Vec<u32>,
}

impl Share {
    /// Of fronts that have at most `most` entries.
    fn new(
        fronts: &[Front],
        matrix: &Matrix<'_>,
        most: usize,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let Matrix {
            rows,
            cols,
            rows_of,
            perm,
            inv_perm,
        } = *matrix;
        let mut ends = Vec::with_capacity(fronts.len());
        // Every entry is written to the next place, which moves on only if the entry belongs there: a branch would be
        // guessed wrong half of the time. So there is one place more.
        let mut source = vec![0u32; most + 1];
        let mut target = vec![0u32; most + 1];
        let mut next = 0;
        let mut position = vec![0u32; perm.len()];
        for (number, front) in fronts.iter().enumerate() {
            if number.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let (k, c) = (front.pivots as usize, front.below as usize);
            let m = k + c;
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
            ends.push(next as u32);
        }
        source.truncate(next);
        target.truncate(next);
        Ok(Self {
            ends,
            source,
            target,
        })
    }
}

impl Layout {
    /// Of fronts with these rows below their pivots, and a matrix by columns and rows in the order `perm` (new to old).
    #[expect(clippy::too_many_arguments)]
    pub fn new(
        fronts: &[Front],
        rows: &[u32],
        cols: &CompressedPattern,
        rows_of: &Transposed,
        perm: &[u32],
        inv_perm: &[u32],
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Self, FrontalError> {
        let mut slot = Vec::with_capacity(fronts.len() + 1);
        let mut slots = 0u64;
        for front in fronts {
            let (k, c) = (front.pivots as usize, front.below as usize);
            let size = k * (k + 2 * c);
            to_u32(size, "entries of a front's panels")?;
            slot.push(slots);
            slots += size as u64;
        }
        slot.push(slots);
        let matrix = Matrix {
            rows,
            cols,
            rows_of,
            perm,
            inv_perm,
        };
        let shares = shares(threads, fronts.len(), |s| {
            let front = fronts.get(s);
            front.map_or((perm.len() + rows.len()) as u64, |f| {
                u64::from(f.start) + f.rows
            })
        });
        let is_shared = shares.len() > 1;
        let parts = mapped(shares, |share| {
            let fronts = &fronts[share];
            let most = if is_shared {
                let pivots = fronts.iter().flat_map(Front::pivot_range);
                let lanes = pivots.map(|e| perm[e] as usize);
                lanes
                    .map(|i| cols.range(i).len() + rows_of.range(i).len())
                    .sum()
            } else {
                cols.nnz()
            };
            Share::new(fronts, &matrix, most, cancel)
        });
        let mut entry_ptr = Vec::with_capacity(fronts.len() + 1);
        entry_ptr.push(0);
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        for Share {
            ends,
            source,
            target,
        } in parts.into_iter().collect::<Result<Vec<_>, _>>()?
        {
            let before = entry_ptr[entry_ptr.len() - 1];
            entry_ptr.extend(ends.into_iter().map(|end| before + end));
            sources.push(source);
            targets.push(target);
        }
        debug_assert_eq!(entry_ptr.last().copied(), Some(cols.nnz() as u32));
        let (source, target) = both(threads, || joined(sources), || joined(targets));
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
