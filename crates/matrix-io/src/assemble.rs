//! From entries in any order to compressed rows.
//!
//! Entries go into buckets of consecutive rows as they arrive, and each bucket is turned into rows by
//! a counting sort that stays in the cache. A counting sort of the whole would miss the cache, and the
//! translation of addresses, with nearly every entry of a file that is sorted by columns.
//!
//! ```text
//! file order     (row, col, value) ...
//!    │ row >> shift                              at most 256 lists, written in sequence
//!    ▼
//! buckets        rows 0..k │ rows k..2k │ ...    each in file order
//!    │ counting sort by row, sort by column where needed, sum of duplicates
//!    ▼
//! CSR            appended row by row; each bucket is freed when done
//! ```
//!
//! All steps are stable: entries of one position are summed in the order of the file.

use crate::error::ReadErrorKind;
use crate::header::Symmetry;
use crate::preamble::Shape;
use crate::value::sealed::Value;

/// A stored entry; row and column count from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Entry<V> {
    pub row: u32,
    pub col: u32,
    pub value: V,
}

/// A list that grows without moving what it holds: a growing `Vec` would need three times the memory
/// of its contents while it moves.
struct Chunks<T> {
    full: Vec<Vec<T>>,
    last: Vec<T>,
    len: usize,
}

impl<T> Chunks<T> {
    /// Bounds of the capacity of a chunk; between them, an eighth of the list.
    const CAPACITY: (usize, usize) = (64, 4096);

    fn new() -> Self {
        Self {
            full: Vec::new(),
            last: Vec::new(),
            len: 0,
        }
    }

    #[inline]
    fn push(&mut self, item: T) {
        if self.last.len() == self.last.capacity() {
            self.open_chunk();
        }
        self.last.push(item);
        self.len += 1;
    }

    #[cold]
    fn open_chunk(&mut self) {
        let (least, most) = Self::CAPACITY;
        let larger = Vec::with_capacity((self.len / 8).clamp(least, most));
        let full = std::mem::replace(&mut self.last, larger);
        self.full.push(full);
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.full
            .iter()
            .chain(std::iter::once(&self.last))
            .flatten()
    }
}

/// Entries by row ranges, each in the order of the file.
pub(crate) struct Buckets<V> {
    lists: Vec<Chunks<Entry<V>>>,
    /// Bucket `b` holds the rows `b << shift .. (b + 1) << shift`.
    shift: u32,
    /// The symmetry by which each entry off the diagonal brings another one.
    mirror: Symmetry,
}

impl<V: Value> Buckets<V> {
    const MOST: usize = 256;

    /// No entries yet, of a matrix with `nrows` rows. With a `mirror` other than general, the entry
    /// (j, i) is added with each (i, j) off the diagonal.
    pub fn new(nrows: usize, mirror: Symmetry) -> Self {
        let last_row = nrows.saturating_sub(1);
        // Buckets of fewer rows would gain nothing.
        let mut shift = 8;
        while last_row >> shift >= Self::MOST {
            shift += 1;
        }
        let lists = (0..=last_row >> shift).map(|_| Chunks::new()).collect();
        Self {
            lists,
            shift,
            mirror,
        }
    }

    #[inline]
    pub fn push(&mut self, entry: Entry<V>) {
        self.put(entry);
        if self.mirror != Symmetry::General && entry.row != entry.col {
            self.put(Entry {
                row: entry.col,
                col: entry.row,
                value: entry.value.mirrored(self.mirror),
            });
        }
    }

    #[inline]
    fn put(&mut self, entry: Entry<V>) {
        self.lists[(entry.row >> self.shift) as usize].push(entry);
    }

    /// All entries, by buckets.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<V>> {
        self.lists.iter().flat_map(Chunks::iter)
    }
}

/// Compressed rows: columns strictly increasing in each row.
pub(crate) struct Rows<V> {
    pub ptr: Vec<usize>,
    pub idx: Vec<usize>,
    pub values: Vec<V>,
}

/// Rows of a sparse matrix, or elements of a dense one, that are taken on trust.
const TRUSTED_ROWS: u64 = 1 << 22;
const TRUSTED_ELEMENTS: u64 = 1 << 24;
/// Beyond that, each entry in the file vouches for this many.
const PER_ENTRY: u64 = 64;

/// Checks that an array of `len` elements is in proportion to the `found` entries of the file.
fn check_plausible(len: u64, trusted: u64, found: u64, shape: &Shape) -> Result<(), ReadErrorKind> {
    if len > trusted.saturating_add(found.saturating_mul(PER_ENTRY)) {
        return Err(ReadErrorKind::ImplausibleSize {
            nrows: shape.nrows,
            ncols: shape.ncols,
            entries: found,
        });
    }
    Ok(())
}

/// Sorts entries into rows and sums duplicates in the order of the file. Time is linear if the file is
/// sorted by rows or by columns; otherwise rows are sorted one by one.
pub(crate) fn to_rows<V: Value>(
    entries: Buckets<V>,
    found: u64,
    shape: &Shape,
) -> Result<Rows<V>, ReadErrorKind> {
    check_plausible(shape.nrows as u64, TRUSTED_ROWS, found, shape)?;
    let total = entries.lists.iter().map(|list| list.len).sum();
    let mut rows = Rows {
        ptr: Vec::with_capacity(shape.nrows + 1),
        idx: Vec::with_capacity(total),
        values: Vec::with_capacity(total),
    };
    rows.ptr.push(0);

    let shift = entries.shift;
    let mut place: Vec<usize> = Vec::new();
    for (bucket, list) in entries.lists.into_iter().enumerate() {
        let first = bucket << shift;
        let count = (shape.nrows - first).min(1 << shift);
        let local = |entry: &Entry<V>| entry.row as usize - first;
        let start = rows.idx.len();
        // place[i + 2] counts row i, then holds where row i + 1 starts; while the entries are placed,
        // place[i + 1] runs from the start of row i to its end.
        place.clear();
        place.resize(count + 2, 0);
        place[1] = start;
        for entry in list.iter() {
            place[local(entry) + 2] += 1;
        }
        for i in 2..place.len() {
            place[i] += place[i - 1];
        }
        rows.idx.resize(start + list.len, 0);
        rows.values.resize(start + list.len, V::default());
        for entry in list.iter() {
            let place = &mut place[local(entry) + 1];
            rows.idx[*place] = entry.col as usize;
            rows.values[*place] = entry.value;
            *place += 1;
        }
        rows.close(start, &place[1..=count]);
    }
    // Only if duplicates left a gap.
    rows.idx.shrink_to_fit();
    rows.values.shrink_to_fit();
    Ok(rows)
}

impl<V: Value> Rows<V> {
    /// Finishes the last rows, the first of which starts at `start`, each of which ends at its element
    /// of `ends`: sorts each by column, and sums entries of equal column, first come first.
    fn close(&mut self, mut start: usize, ends: &[usize]) {
        // Entries below `kept` are final.
        let mut kept = start;
        for &end in ends {
            let row = start..end;
            let increasing = self.idx[row.clone()].windows(2).all(|w| w[0] < w[1]);
            if increasing && kept == start {
                // As almost always: nothing to move.
                kept = end;
            } else if increasing {
                self.idx.copy_within(row.clone(), kept);
                self.values.copy_within(row.clone(), kept);
                kept += row.len();
            } else {
                let of_row = |k| (self.idx[k], self.values[k]);
                let mut sorted: Vec<(usize, V)> = row.map(of_row).collect();
                // Stable, so that duplicates stay in the order of the file.
                sorted.sort_by_key(|&(col, _)| col);
                for same in sorted.chunk_by(|a, b| a.0 == b.0) {
                    self.idx[kept] = same[0].0;
                    self.values[kept] = same[1..].iter().fold(same[0].1, |sum, x| sum.plus(x.1));
                    kept += 1;
                }
            }
            start = end;
            self.ptr.push(kept);
        }
        self.idx.truncate(kept);
        self.values.truncate(kept);
    }
}

/// Places entries in a dense matrix, column by column, and sums duplicates.
pub(crate) fn to_columns<V: Value>(
    entries: &Buckets<V>,
    found: u64,
    shape: &Shape,
) -> Result<Vec<V>, ReadErrorKind> {
    // Both are below 2^32.
    let len = shape.nrows as u64 * shape.ncols as u64;
    check_plausible(len, TRUSTED_ELEMENTS, found, shape)?;
    let mut values = vec![V::default(); len as usize];
    let mut taken = vec![0u64; (len as usize).div_ceil(64)];
    for &Entry { row, col, value } in entries.iter() {
        let at = col as usize * shape.nrows + row as usize;
        let bit = 1 << (at % 64);
        // The first entry is stored, not added to zero, which would lose the sign of -0.
        values[at] = if taken[at / 64] & bit == 0 {
            value
        } else {
            values[at].plus(value)
        };
        taken[at / 64] |= bit;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Format;

    #[test]
    fn rows_of_all_buckets_arrive() {
        // One row more or less than whole buckets, and so many rows that buckets grow.
        for nrows in [1, 31, 32, 33, 255, 256, 257, 1025, 65_536, 65_537, 200_001] {
            let mut entries = Buckets::new(nrows, Symmetry::General);
            assert!(entries.lists.len() <= Buckets::<f64>::MOST);
            // Backwards, two entries in every third row.
            for row in (0..nrows as u32).rev().step_by(3) {
                for col in [7, 2] {
                    let value = f64::from(row) + f64::from(col);
                    entries.push(Entry { row, col, value });
                }
            }
            let shape = Shape {
                format: Format::Coordinate,
                symmetry: Symmetry::General,
                nrows,
                ncols: 8,
                announced: 0,
            };
            let rows = to_rows(entries, 0, &shape).expect("few rows");
            assert_eq!(rows.ptr.len(), nrows + 1);
            for row in 0..nrows {
                let range = rows.ptr[row]..rows.ptr[row + 1];
                if (nrows - 1 - row) % 3 == 0 {
                    assert_eq!(rows.idx[range.clone()], [2, 7]);
                    assert_eq!(rows.values[range], [row as f64 + 2.0, row as f64 + 7.0]);
                } else {
                    assert!(range.is_empty());
                }
            }
        }
    }
}
