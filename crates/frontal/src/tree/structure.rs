//! Row structure of the fronts and relative indices for extend-add.

use std::ops::Range;

use luge_sparse::etree::NONE;
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};

use super::Front;
use crate::grouped::{Grouped, WORTH_DEALING, grouped};
use crate::shares::{PER_THREAD, WORTH_WAKING, mapped, shares, split};

/// Fronts between two looks at the cancel flag.
const STRIDE: usize = 1 << 10;

/// The rows of a square matrix given by columns, with fewer than 2³² entries.
pub(crate) struct Transposed {
    ptr: Vec<u64>,
    /// Columns of the entries, ascending in each row.
    idx: Vec<u32>,
    /// Position of each entry in the columns.
    map: Vec<u32>,
    /// Whether the pattern is its own transpose.
    is_symmetric: bool,
}

impl Transposed {
    /// With several threads, the current rayon pool shares the work.
    pub(crate) fn new(cols: &CompressedPattern, threads: usize) -> Self {
        let n = cols.major_dim();
        let threads = if cols.nnz() < WORTH_DEALING {
            1
        } else {
            threads
        };
        let shares = shares(threads, n, |j| cols.ptr()[j]);
        let (col_ptr, idx) = (cols.ptr(), cols.idx());
        let Grouped { ptr, first, second } = grouped(n, shares.len(), |share| {
            shares[share].clone().map(|j| {
                let range = col_ptr[j] as usize..col_ptr[j + 1] as usize;
                let entries = idx[range.clone()].iter().zip(range);
                entries.map(move |(&i, p)| [i, j as u32, p as u32])
            })
        });
        Self {
            is_symmetric: cols.ptr() == ptr && cols.idx() == first,
            ptr,
            idx: first,
            map: second,
        }
    }

    pub fn range(&self, i: usize) -> std::ops::Range<usize> {
        self.ptr[i] as usize..self.ptr[i + 1] as usize
    }

    fn line(&self, i: usize) -> &[u32] {
        &self.idx[self.range(i)]
    }

    /// Columns of the entries of row `i`, and their positions in the columns.
    pub fn entries(&self, i: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let range = self.range(i);
        let map = self.map[range.clone()].iter();
        self.idx[range].iter().copied().zip(map.copied())
    }
}

/// The graph of B + Bᵀ, read off B, and off Bᵀ if that has another pattern; then entries that both have appear twice.
/// The diagonal appears too.
pub(super) struct Symmetrized<'a> {
    /// Columns of B.
    cols: &'a CompressedPattern,
    /// Rows of B, if its pattern is not symmetric.
    rows: Option<&'a Transposed>,
}

impl<'a> Symmetrized<'a> {
    pub fn new(cols: &'a CompressedPattern, rows: &'a Transposed) -> Self {
        Self {
            cols,
            rows: (!rows.is_symmetric).then_some(rows),
        }
    }

    pub fn neighbours(&self, v: u32) -> impl Iterator<Item = u32> + '_ {
        let v = v as usize;
        let more = self.rows.map_or(&[][..], |rows| rows.line(v));
        self.cols.line(v).iter().chain(more).copied()
    }
}

/// The fronts without their rows, and the order of their columns.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    pub graph: &'a Symmetrized<'a>,
    pub fronts: &'a [Front],
    /// The front in which each column is eliminated.
    pub front_of: &'a [u32],
    pub perm: &'a [u32],
    pub inv_perm: &'a [u32],
}

/// Where the rows of some consecutive fronts are written, which come in ascending order.
struct RowWriter<'a> {
    fronts: &'a [Front],
    /// Number of the first of these fronts.
    first: usize,
    /// Where the next row of each goes.
    next: Vec<u64>,
    /// The last row of each.
    last: Vec<u32>,
    rows: &'a mut [u32],
}

impl<'a> RowWriter<'a> {
    /// For the fronts `range`, which have `rows`.
    fn new(fronts: &'a [Front], range: Range<usize>, rows: &'a mut [u32]) -> Self {
        let first = range.start;
        let fronts = &fronts[range];
        let before = fronts.first().map_or(0, |front| front.rows);
        Self {
            fronts,
            first,
            next: fronts.iter().map(|front| front.rows - before).collect(),
            last: vec![NONE; fronts.len()],
            rows,
        }
    }

    /// Adds row `i` to front `s` and to those on the path to the root, until one has it or is `end`, or is not one of these.
    fn add(&mut self, i: u32, s: u32, end: u32) {
        let mut s = s;
        while s != end {
            let at = (s as usize).wrapping_sub(self.first);
            let Some(last) = self.last.get_mut(at).filter(|last| **last != i) else {
                break;
            };
            *last = i;
            let next = &mut self.next[at];
            self.rows[*next as usize] = i;
            *next += 1;
            s = self.fronts[at].parent;
        }
    }
}

/// The rows below the pivots of each front, ascending: row i belongs to every front on the tree paths from its earlier
/// neighbours up to its own front. Rows are visited in ascending order, so nothing is sorted. With several threads,
/// subtrees are done side by side, and then what is above them.
pub(super) fn row_structure(
    columns: Columns<'_>,
    num_rows: u64,
    threads: usize,
    cancel: &CancelFlag,
) -> Result<Vec<u32>, Cancelled> {
    let fronts = columns.fronts;
    let mut rows = vec![0u32; num_rows as usize];
    let subtrees = if threads > 1 {
        subtrees_of(fronts, threads)
    } else {
        Vec::new()
    };
    let end_of_rows = |s: usize| fronts.get(s).map_or(num_rows, |front| front.rows) as usize;
    // Rows of the subtrees, and between them those of what is above.
    let cuts = subtrees.iter().flat_map(|range| [range.start, range.end]);
    let mut before = 0;
    let lengths = cuts.map(|s| end_of_rows(s) - std::mem::replace(&mut before, end_of_rows(s)));
    let pieces = split(&mut rows, lengths);
    let pieces = pieces.into_iter().skip(1).step_by(2);
    let parts = subtrees.iter().cloned().zip(pieces).collect();
    let mut upwards = mapped(parts, |(range, rows)| subtree_rows(columns, range, rows)).concat();
    // Runs that are sorted already.
    upwards.sort();

    let mut is_above = vec![true; fronts.len()];
    for range in subtrees {
        is_above[range].fill(false);
    }
    let mut writer = RowWriter::new(fronts, 0..fronts.len(), &mut rows);
    let mut upwards = upwards.into_iter().peekable();
    for (s, front) in fronts.iter().enumerate() {
        if !is_above[s] {
            continue;
        }
        if s.is_multiple_of(STRIDE) {
            cancel.check()?;
        }
        for i in front.pivot_range() {
            let row = i as u32;
            while let Some(up) = upwards.next_if(|up| (up >> 32) as u32 == row) {
                writer.add(row, up as u32, s as u32);
            }
            for w in columns.graph.neighbours(columns.perm[i]) {
                let j = columns.inv_perm[w as usize] as usize;
                if j < i && is_above[columns.front_of[j] as usize] {
                    writer.add(row, columns.front_of[j], s as u32);
                }
            }
        }
    }
    debug_assert!(
        fronts
            .iter()
            .zip(&writer.next)
            .zip(is_above)
            .all(|((f, &end), is_above)| !is_above || f.row_range().end as u64 == end),
        "the structure has as many rows as the column counts say"
    );
    Ok(rows)
}

/// Fills in the rows of the fronts `range`, which are whole subtrees. What comes of it for the fronts above: the rows
/// that belong there, each above the front where its path begins, ascending.
fn subtree_rows(columns: Columns<'_>, range: Range<usize>, rows: &mut [u32]) -> Vec<u64> {
    let Columns {
        graph,
        fronts,
        front_of,
        perm,
        inv_perm,
    } = columns;
    let own_fronts = &fronts[range.clone()];
    let (Some(first), Some(last)) = (own_fronts.first(), own_fronts.last()) else {
        return Vec::new();
    };
    let of_columns = first.start as usize..last.pivot_range().end;
    let mut writer = RowWriter::new(fronts, range.clone(), rows);
    let mut later = Vec::new();
    for i in of_columns.clone() {
        let own = front_of[i];
        for w in graph.neighbours(perm[i]) {
            let j = inv_perm[w as usize] as usize;
            if j < i {
                writer.add(i as u32, front_of[j], own);
            } else if j >= of_columns.end {
                later.push((j as u64) << 32 | u64::from(own));
            }
        }
    }
    later.sort_unstable();
    for row in later {
        writer.add((row >> 32) as u32, row as u32, NONE);
    }
    let mut upwards = Vec::new();
    let before = first.rows as usize;
    for front in own_fronts {
        if front.parent != NONE && front.parent as usize >= range.end {
            let own = front.row_range();
            let rows = &rows[own.start - before..own.end - before];
            upwards.extend(
                rows.iter()
                    .map(|&i| u64::from(i) << 32 | u64::from(front.parent)),
            );
        }
    }
    upwards.sort_unstable();
    upwards.dedup();
    upwards
}

/// Ranges of fronts that are whole subtrees, of about the same work, for the threads to share.
fn subtrees_of(fronts: &[Front], threads: usize) -> Vec<Range<usize>> {
    let end_of = |front: &Front| front.pivot_range().end + front.row_range().end;
    let work = |range: &Range<usize>| {
        let before = &fronts[range.start];
        end_of(&fronts[range.end - 1]) - before.start as usize - before.rows as usize
    };
    let all = fronts.last().map_or(0, end_of);
    let most = (all / (threads * PER_THREAD)).max(WORTH_WAKING);
    subtrees(fronts.len(), |s| fronts[s].parent, work, most)
}

/// Ranges of a forest in postorder that are whole subtrees, one or several side by side, each of at most so much work, and not
/// much less where there is more.
pub(super) fn subtrees(
    len: usize,
    parent_of: impl Fn(usize) -> u32,
    work: impl Fn(&Range<usize>) -> usize,
    most: usize,
) -> Vec<Range<usize>> {
    // In postorder a subtree is that of its first descendant and all up to the root.
    let mut first: Vec<u32> = (0..len as u32).collect();
    for s in 0..len {
        let parent = parent_of(s);
        if parent != NONE {
            let p = parent as usize;
            first[p] = first[p].min(first[s]);
        }
    }
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for s in 0..len {
        let subtree = first[s] as usize..s + 1;
        let with_siblings = match parent_of(s) {
            NONE => None,
            p => Some(first[p as usize] as usize..p as usize + 1),
        };
        if work(&subtree) > most || with_siblings.is_some_and(|range| work(&range) <= most) {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.end == subtree.start && work(&(last.start..subtree.end)) <= most => {
                last.end = subtree.end;
            }
            _ => ranges.push(subtree),
        }
    }
    ranges
}

/// Rows of a parent for each of a child from which on they are searched, not walked along.
const WORTH_SEARCHING: usize = 8;

/// For each row below the pivots of a front, its position in the parent's front; and for each front, how many of them are
/// pivots there. The fronts are shared by the threads.
pub(super) fn relative_indices(
    fronts: &[Front],
    rows: &[u32],
    threads: usize,
) -> (Vec<u32>, Vec<u32>) {
    let before = |s: usize| s as u64 + fronts.get(s).map_or(rows.len() as u64, |f| f.rows);
    let shares = shares(threads, fronts.len(), before);
    let mut relative = vec![0u32; rows.len()];
    let mut pivots_in_parent = vec![0u32; fronts.len()];
    let num_rows = |share: &Range<usize>| before(share.end) - before(share.start);
    let lengths = shares.iter().map(|s| num_rows(s) as usize - s.len());
    let relatives = split(&mut relative, lengths);
    let counts = split(&mut pivots_in_parent, shares.iter().map(Range::len));
    let parts: Vec<_> = shares.into_iter().zip(relatives).zip(counts).collect();
    mapped(parts, |((share, mut relative), counts)| {
        for (child, count) in fronts[share].iter().zip(counts) {
            let (own, rest) = std::mem::take(&mut relative).split_at_mut(child.below as usize);
            relative = rest;
            if child.parent != NONE {
                let parent = &fronts[child.parent as usize];
                *count = relative_to(
                    parent,
                    &rows[parent.row_range()],
                    &rows[child.row_range()],
                    own,
                );
            }
        }
    });
    (relative, pivots_in_parent)
}

/// Writes the positions of the rows of a child in its parent's front, which has `above` below its pivots. Both lists
/// ascend, and the parent has every row of the child. Returns how many of them are pivots.
fn relative_to(parent: &Front, above: &[u32], rows: &[u32], relative: &mut [u32]) -> u32 {
    let end = parent.start + parent.pivots;
    let mut in_pivots = 0;
    for (target, row) in relative.iter_mut().zip(rows) {
        if *row >= end {
            break;
        }
        *target = row - parent.start;
        in_pivots += 1;
    }
    let (rows, relative) = (&rows[in_pivots..], &mut relative[in_pivots..]);
    let positions = parent.pivots..;
    if rows.len() == above.len() {
        // They are the same rows.
        relative
            .iter_mut()
            .zip(positions)
            .for_each(|(to, at)| *to = at);
    } else if rows.len() * WORTH_SEARCHING < above.len() {
        let mut at = 0;
        for (target, row) in relative.iter_mut().zip(rows) {
            at += above[at..].partition_point(|i| i < row);
            *target = parent.pivots + at as u32;
        }
    } else {
        // Every position is written, and replaced unless the row is there: a branch would be guessed wrong often.
        let mut next = 0;
        for (row, at) in above.iter().zip(positions) {
            let Some(target) = relative.get_mut(next) else {
                break;
            };
            *target = at;
            next += usize::from(rows[next] == *row);
        }
    }
    in_pivots as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chains of three fronts of one pivot each, with 2, 1 and 0 rows below: three pivots and three rows.
    fn chains(count: u32) -> Vec<Front> {
        let front = |s: u32| {
            let (chain, place) = (s / 3, s % 3);
            Front {
                start: s,
                pivots: 1,
                below: 2 - place,
                pivots_in_parent: u32::from(place < 2),
                parent: if place < 2 { s + 1 } else { NONE },
                children: 2 * chain + place.saturating_sub(1),
                num_children: u32::from(place > 0),
                depth: 3 - place,
                rows: u64::from(3 * chain + [0, 2, 3][place as usize]),
                is_given: false,
            }
        };
        (0..3 * count).map(front).collect()
    }

    #[test]
    fn subtrees_of_the_same_work_are_dealt_out_evenly() {
        // 240 pivots and rows: 30, or five chains, for each of the shares of two threads.
        let mut fronts = chains(40);
        let expected: Vec<_> = (0..8).map(|share| 15 * share..15 * (share + 1)).collect();
        assert_eq!(subtrees_of(&fronts, 2), expected);
        // Below a common root that is more than a share, nothing else changes.
        for s in (2..120).step_by(3) {
            fronts[s].parent = 120;
        }
        fronts.push(Front {
            start: 120,
            parent: NONE,
            children: 80,
            num_children: 40,
            depth: 0,
            rows: 120,
            ..fronts[2]
        });
        assert_eq!(subtrees_of(&fronts, 2), expected);
        assert_eq!(subtrees_of(&fronts[..0], 2), []);
    }

    #[test]
    fn subtrees_too_large_for_a_share_are_cut() {
        // 18 pivots and rows for eight shares, of which none is below what is worth a thread: of a chain of six, a
        // leaf has three, and with the front above it five.
        assert_eq!(WORTH_WAKING, 4);
        assert_eq!(subtrees_of(&chains(3), 2), [0..1, 3..4, 6..7]);
    }
}
