//! Where the factors of each front lie, and where each entry of the matrix goes.

use luge_sparse::{CancelFlag, Cancelled, to_u32};

use crate::error::FrontalError;
use crate::shares::{both, joined, mapped, shares};
use crate::storage::{FrontEntries, Storage};
use crate::tree::{Front, Structure};

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

/// The entries of some consecutive fronts.
struct Share {
    /// Where those of each front end.
    ends: Vec<u32>,
    source: Vec<u32>,
    target: Vec<u32>,
}

impl Share {
    /// Of fronts that have at most `most` entries.
    fn new<S: Storage>(
        fronts: &[Front],
        structure: Structure<'_>,
        most: usize,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let Structure {
            rows,
            cols,
            rows_of,
            perm,
            inv_perm,
            ..
        } = structure;
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
            let (k, start) = (front.pivots as usize, front.start as usize);
            for (i, &row) in rows[front.row_range()].iter().enumerate() {
                position[row as usize] = (k + i) as u32;
            }
            for i in 0..k {
                position[start + i] = i as u32;
            }
            let entries = FrontEntries {
                front,
                cols,
                rows_of,
                perm,
                inv_perm,
                position: &position,
            };
            S::place(&entries, |from, to, belongs| {
                source[next] = from;
                target[next] = to;
                next += usize::from(belongs);
            });
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
    pub fn new<S: Storage>(
        structure: Structure<'_>,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Self, FrontalError> {
        let Structure {
            fronts,
            rows,
            cols,
            rows_of,
            perm,
            ..
        } = structure;
        let mut slot = Vec::with_capacity(fronts.len() + 1);
        let mut slots = 0u64;
        for front in fronts {
            let size = S::slot_entries(front.pivots, front.below);
            to_u32(size as usize, "entries of a front's panels")?;
            slot.push(slots);
            slots += size;
        }
        slot.push(slots);
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
                let lines = pivots.map(|e| perm[e] as usize);
                lines
                    .map(|i| cols.range(i).len() + rows_of.range(i).len())
                    .sum()
            } else {
                cols.nnz()
            };
            Share::new::<S>(fronts, structure, most, cancel)
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
        let (source, target) = both(threads, || joined(sources, 0), || joined(targets, 0));
        Ok(Self {
            slot,
            slots,
            entry_ptr,
            source,
            target,
        })
    }

    pub fn bytes(&self) -> u64 {
        let entries = self.entry_ptr.len() + self.source.len() + self.target.len();
        (self.slot.len() * 8 + entries * 4) as u64
    }
}
