//! The entries of B within its diagonal blocks, and those right of them.

use std::ops::Range;
use std::sync::Arc;

use luge_sparse::CompressedPattern;

use crate::grouped::{Grouped, WORTH_DEALING, grouped};
use crate::shares::{both, mapped, shares, split};

/// The entries of B in its diagonal blocks, of which a [`Symbolic`](crate::Symbolic) factorization is made, and those right of them, as a
/// [`Placement`](super::Placement) wants them.
#[derive(Debug)]
pub struct Parts {
    /// All of B by columns.
    pub columns: Arc<CompressedPattern>,
    /// Place in A of each of its entries.
    pub source: Arc<Vec<u32>>,
    /// Columns of the blocks.
    pub blocks: Arc<CompressedPattern>,
    /// Place in A of each of their entries.
    pub entries: Arc<Vec<u32>>,
    /// Rows right of the blocks.
    pub coupling: Arc<CompressedPattern>,
    /// Place in A of each of their entries.
    pub coupling_entries: Vec<u32>,
}

/// Where some consecutive columns without their couplings are written.
struct Within<'a> {
    columns: Range<usize>,
    /// Entries before.
    before: u64,
    /// Where each column ends.
    ends: &'a mut [u64],
    rows: &'a mut [u32],
    places: &'a mut [u32],
}

impl Parts {
    /// Of B by columns, an upper block triangular matrix whose diagonal blocks begin with the columns `block_ptr`, and of
    /// the place in A of each of its entries. With `threads` above 1, those of the current rayon pool share the work; the
    /// parts are the same.
    ///
    /// # Panics
    ///
    /// If there is not one place for each entry, or the blocks do not end with the columns.
    #[track_caller]
    pub fn new(
        columns: CompressedPattern,
        source: Vec<u32>,
        block_ptr: &[usize],
        threads: usize,
    ) -> Self {
        let n = columns.major_dim();
        assert_eq!(source.len(), columns.nnz(), "a place for each entry");
        assert_eq!(
            block_ptr.last(),
            Some(&n),
            "the blocks end with the columns"
        );
        let worth = |entries: usize| if entries < WORTH_DEALING { 1 } else { threads };
        let shares = if block_ptr.len() <= 2 {
            Vec::new()
        } else {
            shares(worth(columns.nnz()), n, |j| columns.ptr()[j])
        };
        // How many entries of each column are above its block: the first ones.
        let mut above = vec![0u32; if shares.is_empty() { 0 } else { n }];
        let pieces = split(&mut above, shares.iter().map(Range::len));
        let counted = mapped(shares.iter().zip(pieces).collect(), |(share, above)| {
            let mut count = 0;
            for (start, columns_of_block) in blocks_of(block_ptr, share) {
                for j in columns_of_block {
                    let rows = columns.line(j);
                    let above = &mut above[j - share.start];
                    *above = rows.partition_point(|&i| (i as usize) < start) as u32;
                    count += *above as usize;
                }
            }
            count
        });
        let num_couplings: usize = counted.iter().sum();
        let (columns, source) = (Arc::new(columns), Arc::new(source));
        if num_couplings == 0 {
            // SAFETY: no line has an index.
            let coupling =
                unsafe { CompressedPattern::new_unchecked(n, vec![0; n + 1], Vec::new()) };
            return Self {
                blocks: Arc::clone(&columns),
                entries: Arc::clone(&source),
                coupling: Arc::new(coupling),
                coupling_entries: Vec::new(),
                columns,
                source,
            };
        }
        let within = || within(&columns, &source, &shares, &above, &counted);
        let couplings = || {
            let all = 0..n;
            let shares = match worth(num_couplings) {
                1 => std::slice::from_ref(&all),
                _ => &shares,
            };
            grouped(n, shares.len(), |share| {
                let (ptr, idx) = (columns.ptr(), columns.idx());
                let (source, above) = (&source, &above);
                shares[share].clone().map(move |j| {
                    let start = ptr[j] as usize;
                    let range = start..start + above[j] as usize;
                    let entries = idx[range.clone()].iter().zip(&source[range]);
                    entries.map(move |(&i, &place)| [i, j as u32, place])
                })
            })
        };
        let ((blocks, entries), Grouped { ptr, first, second }) =
            both(shares.len(), within, couplings);
        // SAFETY: the transpose of a part of B, to which columns came in increasing order.
        let coupling = unsafe { CompressedPattern::new_unchecked(n, ptr, first) };
        Self {
            columns,
            source,
            blocks: Arc::new(blocks),
            entries: Arc::new(entries),
            coupling: Arc::new(coupling),
            coupling_entries: second,
        }
    }
}

/// B without the couplings, of which there are `above` in each column and `counted` in each share; and the place in A of
/// each entry.
fn within(
    b: &CompressedPattern,
    source: &[u32],
    shares: &[Range<usize>],
    above: &[u32],
    counted: &[usize],
) -> (CompressedPattern, Vec<u32>) {
    let n = b.major_dim();
    let lengths = shares.iter().zip(counted).map(|(columns, above)| {
        let entries = b.ptr()[columns.end] - b.ptr()[columns.start];
        entries as usize - above
    });
    let num_entries = b.nnz() - counted.iter().sum::<usize>();
    let mut ptr = vec![0u64; n + 1];
    let mut idx = vec![0u32; num_entries];
    let mut entries = vec![0u32; num_entries];
    let all_ends = split(&mut ptr[1..], shares.iter().map(Range::len));
    let all_rows = split(&mut idx, lengths.clone());
    let all_places = split(&mut entries, lengths);
    let mut before = 0;
    let pieces = shares.iter().zip(all_ends).zip(all_rows).zip(all_places);
    let pieces = pieces.map(|(((columns, ends), rows), places)| {
        let first = before;
        before += rows.len() as u64;
        Within {
            columns: columns.clone(),
            before: first,
            ends,
            rows,
            places,
        }
    });
    mapped(pieces.collect(), |to: Within<'_>| {
        let mut next = 0;
        for (j, end) in to.columns.zip(to.ends) {
            let range = b.range(j);
            let range = range.start + above[j] as usize..range.end;
            let at = next..next + range.len();
            next = at.end;
            to.rows[at.clone()].copy_from_slice(&b.idx()[range.clone()]);
            to.places[at].copy_from_slice(&source[range]);
            *end = to.before + next as u64;
        }
    });
    // SAFETY: columns of a valid pattern without their first entries.
    let blocks = unsafe { CompressedPattern::new_unchecked(n, ptr, idx) };
    (blocks, entries)
}

/// The blocks that have some of these columns: where each starts, and which of the columns are its.
fn blocks_of<'a>(
    block_ptr: &'a [usize],
    columns: &'a Range<usize>,
) -> impl Iterator<Item = (usize, Range<usize>)> + 'a {
    let first = block_ptr.partition_point(|&start| start <= columns.start) - 1;
    let blocks = block_ptr[first..].windows(2).map(|ends| (ends[0], ends[1]));
    blocks
        .take_while(|(start, _)| *start < columns.end)
        .map(|(start, end)| (start, start.max(columns.start)..end.min(columns.end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An upper block triangular pattern of blocks of 0 to `largest` columns, and where they start.
    fn blocks(n: usize, largest: usize, couplings: bool) -> (CompressedPattern, Vec<usize>) {
        let mut random = 1u64;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (random >> 33) as usize % limit
        };
        let mut block_ptr = vec![0];
        while block_ptr[block_ptr.len() - 1] < n {
            let start = block_ptr[block_ptr.len() - 1];
            block_ptr.push(n.min(start + below(largest + 1)));
        }
        let (mut ptr, mut idx) = (vec![0], Vec::new());
        for block in block_ptr.windows(2) {
            for j in block[0]..block[1] {
                let first = if couplings { 0 } else { block[0] };
                let mut rows: Vec<u32> = (0..12)
                    .map(|_| (first + below(block[1] - first)) as u32)
                    .chain([j as u32])
                    .collect();
                rows.sort_unstable();
                rows.dedup();
                idx.extend(rows);
                ptr.push(idx.len() as u64);
            }
        }
        (CompressedPattern::new(n, ptr, idx).unwrap(), block_ptr)
    }

    #[test]
    fn parts_have_every_entry_once_whatever_the_threads() {
        let many = 6000;
        assert!(many * 8 > WORTH_DEALING);
        for (n, largest, couplings) in [
            (many, 40, true),
            (many, 4 * many, true),
            (many, 900, false),
            (many, 2, true),
            (7, 3, true),
            (0, 1, true),
        ] {
            let (b, block_ptr) = blocks(n, largest, couplings);
            let source: Vec<u32> = (0..b.nnz() as u32).rev().collect();
            let block_of = |i: usize| block_ptr.partition_point(|&at| at <= i);
            let mut within = Vec::new();
            let mut right = Vec::new();
            for j in 0..n {
                for (&i, p) in b.line(j).iter().zip(b.range(j)) {
                    if block_of(i as usize) == block_of(j) {
                        within.push((j, i, source[p]));
                    } else {
                        right.push((i as usize, j as u32, source[p]));
                    }
                }
            }
            right.sort_unstable();
            let listed = |lines: &CompressedPattern, places: &[u32]| {
                let of = |line: usize| {
                    lines
                        .range(line)
                        .map(move |p| (line, lines.idx()[p], places[p]))
                };
                (0..n).flat_map(of).collect::<Vec<_>>()
            };
            for threads in [1, 2, 3, 16] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let make = || Parts::new(b.clone(), source.clone(), &block_ptr, threads);
                let parts = pool.build().unwrap().install(make);
                assert_eq!(listed(&parts.blocks, &parts.entries), within);
                assert_eq!(listed(&parts.coupling, &parts.coupling_entries), right);
            }
        }
    }
}
