//! Block triangular form of a matrix with zero-free diagonal.
//!
//! The strongly connected components of the directed graph j → k for every entry (j, k) are the
//! diagonal blocks of the finest block triangular form that a symmetric permutation reaches (I. S.
//! Duff and J. K. Reid, "An implementation of Tarjan's algorithm for the block triangularization of
//! a matrix", ACM TOMS 4 (1978)). They are found by R. Tarjan, "Depth-first search and linear graph
//! algorithms", SIAM J. Comput. 1 (1972), with explicit stacks; O(n + nnz). Which rows stand on the
//! diagonal does not change the blocks. Vertices are first joined by pairs of entries (i, j) and (j, i), in one pass over
//! the entries, which leaves little to search where the pattern is nearly symmetric.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, Permutation, to_u32};
use rayon::prelude::*;
use smallvec::{SmallVec, smallvec};

use crate::parts::{WORTH_SHARING, by_parts};

/// Blocks in upper block triangular order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockTriangular {
    /// The symmetric permutation, new to old, of the matrix whose row `j` is row `row_of_col[j]` of
    /// A. Within a block, old indices increase.
    pub perm: Permutation,
    /// Where each block starts; block `b` holds new indices `block_ptr[b]..block_ptr[b + 1]`. One
    /// more entry than there are blocks.
    pub block_ptr: Vec<usize>,
}

impl BlockTriangular {
    /// All vertices in one block, if there are any.
    fn one(n: usize) -> Self {
        Self {
            perm: Permutation::identity(n),
            block_ptr: if n == 0 { vec![0] } else { vec![0, n] },
        }
    }

    /// From the number of each vertex's block.
    fn numbered(number: &[u32], count: u32) -> Self {
        let mut block_ptr = vec![0; count as usize + 1];
        for &block in number {
            block_ptr[block as usize + 1] += 1;
        }
        for block in 1..block_ptr.len() {
            block_ptr[block] += block_ptr[block - 1];
        }
        let mut place = block_ptr.clone();
        let mut perm = vec![0; number.len()];
        for (v, &block) in number.iter().enumerate() {
            let place = &mut place[block as usize];
            perm[*place] = v as u32;
            *place += 1;
        }
        Self {
            perm: Permutation::new(perm).expect("every vertex is in one component"),
            block_ptr,
        }
    }
}

/// Patterns with more than so many entries without their counterpart for each vertex are not nearly symmetric.
const MOST_SINGLE: usize = 2;

/// Entries without their counterpart that a thread finds before it lets the others know.
const COUNTED_AT_ONCE: usize = 64;

/// Patterns of fewer entries than this are not shared between threads. Few in tests, so that small ones are.
const MIN_SHARED: usize = if cfg!(test) { 8 } else { 50_000 };

/// Rows that a thread goes through at least.
const LEAST_PART: usize = 1024;

/// Rows between two looks at the cancel flag.
const STRIDE: u32 = 1 << 12;

/// Not visited yet.
const UNSEEN: u32 = u32::MAX;

/// Its component is complete. Larger than the number of any visit, so that edges into it mean nothing.
const DONE: u32 = u32::MAX - 1;

/// The block triangular form of the square matrix whose row `j` is row `row_of_col[j]` of the CSR
/// pattern `a`. Permuted by the result, all entries lie in the diagonal blocks or above them.
///
/// Meant for a `row_of_col` that puts an entry on every diagonal position. Without that the blocks
/// are still block triangular, but a finer form may exist.
///
/// # Panics
///
/// If the pattern is not square or `row_of_col` has another length.
#[track_caller]
pub fn block_triangular(a: &CompressedPattern, row_of_col: &[u32]) -> BlockTriangular {
    find_blocks(a, row_of_col, false, &CancelFlag::new())
        .unwrap_or_else(|_| unreachable!("nobody raises the flag"))
}

/// As [`block_triangular`]; on the current rayon pool if `parallel`, with the same result.
///
/// # Errors
///
/// [`Cancelled`].
#[track_caller]
pub(crate) fn find_blocks(
    a: &CompressedPattern,
    row_of_col: &[u32],
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<BlockTriangular, Cancelled> {
    let n = a.major_dim();
    assert_eq!(n, a.minor_dim(), "block triangular form of a square matrix");
    assert_eq!(row_of_col.len(), n, "one row per column");
    match joined_in_pairs(a, row_of_col, parallel, cancel)? {
        Some(form) => Ok(form),
        None => strong_components(a, row_of_col, cancel),
    }
}

/// Components of vertices, a union-find that threads share without locks.
///
/// Every vertex leads to an earlier one of its component, the first of which leads to itself. Only a first vertex is
/// linked. Where threads may link the same one, they do so by a compare-exchange that fails if it no longer leads to
/// itself, so no link is lost. Other vertices are led past the next one by plain stores, and whatever a store
/// overwrites leads to the same first vertex. So neither the components nor their first vertices depend on who joins
/// what when. No other memory is published through the links, which makes relaxed accesses enough.
#[derive(Clone, Copy)]
struct Components<'a>(&'a [AtomicU32]);

impl Components<'_> {
    /// Where every vertex leads to if each is its own component.
    fn links(n: usize) -> Vec<AtomicU32> {
        (0..n as u32).map(AtomicU32::new).collect()
    }

    /// Towards the first vertex.
    fn above(&self, v: u32) -> u32 {
        self.0[v as usize].load(Relaxed)
    }

    /// The number of each vertex's component, and how many there are: the one of the last first vertex comes first. None if
    /// there is no more than one.
    fn numbered(&self) -> Option<(Vec<u32>, u32)> {
        let n = self.0.len();
        if (1..n as u32).all(|v| self.above(v) != v) {
            return None;
        }
        let mut number = vec![UNSEEN; n];
        let mut count = 0;
        for v in (0..n as u32).rev() {
            if self.above(v) == v {
                number[v as usize] = count;
                count += 1;
            }
        }
        for v in 0..n as u32 {
            number[v as usize] = number[self.first(v) as usize];
        }
        Some((number, count))
    }

    /// The first vertex of the component, as far as it is joined.
    fn first(&self, mut v: u32) -> u32 {
        loop {
            let above = self.above(v);
            let next = self.above(above);
            if above == next {
                return above;
            }
            self.0[v as usize].store(next, Relaxed);
            v = next;
        }
    }

    /// Joins the component of a vertex with the one whose first vertex is `first`, which no other thread joins with
    /// anything meanwhile. Returns the first vertex of both.
    fn join_alone(&self, first: u32, v: u32) -> u32 {
        let other = self.first(v);
        let earlier = first.min(other);
        if first != other {
            self.0[first.max(other) as usize].store(earlier, Relaxed);
        }
        earlier
    }

    /// Joins the components of two vertices, whatever other threads join.
    fn join(&self, v: u32, w: u32) {
        let (mut v, mut w) = (self.first(v), self.first(w));
        while v != w {
            let (first, later) = (v.min(w), v.max(w));
            match self.0[later as usize].compare_exchange(later, first, Relaxed, Relaxed) {
                Ok(_) => return,
                // Another thread has linked it.
                Err(above) => (v, w) = (self.first(first), self.first(above)),
            }
        }
    }
}

/// Entries (i, j) without a counterpart (j, i), as one thread finds them.
struct Single<'a> {
    entries: Vec<(u32, u32)>,
    /// Those of them that all threads know about.
    num_known: usize,
    /// How many all threads know about.
    num_all: &'a AtomicUsize,
}

impl<'a> Single<'a> {
    fn new(num_all: &'a AtomicUsize) -> Self {
        Self {
            entries: Vec::new(),
            num_known: 0,
            num_all,
        }
    }

    /// How many all threads are known to have.
    fn num_all(&mut self) -> usize {
        if self.entries.len() - self.num_known >= COUNTED_AT_ONCE {
            self.make_known();
        }
        self.num_all.load(Relaxed)
    }

    fn found(mut self) -> Vec<(u32, u32)> {
        self.make_known();
        self.entries
    }

    fn make_known(&mut self) {
        let num_new = self.entries.len() - self.num_known;
        self.num_all.fetch_add(num_new, Relaxed);
        self.num_known += num_new;
    }
}

/// What [`strong_components`] finds, up to the order of blocks that have nothing to do with each other: first the
/// components that the pairs of entries (i, j) and (j, i) make, then those of them that single entries make. None if that
/// would not save work, for there are too many of the latter, or if there are more entries than 32 bits count.
///
/// Rows that follow each other are a thread's own. The pairs within them are met by going through all their lists at the
/// same pace, and no other thread joins these vertices meanwhile. Then, for entries from earlier to later rows of different
/// threads, counterparts are searched for, and for those from later to earlier rows only if there are more of them than
/// were found so.
fn joined_in_pairs(
    a: &CompressedPattern,
    row_of_col: &[u32],
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<Option<BlockTriangular>, Cancelled> {
    let n = a.major_dim();
    let (ptr, idx) = (a.ptr(), a.idx());
    if to_u32(idx.len(), "entries of the matrix").is_err() {
        return Ok(None);
    }
    // What the loops read is captured by value: behind a reference, it would be read again after each link.
    let range = move |i: u32| {
        let row = row_of_col[i as usize] as usize;
        ptr[row] as usize..ptr[row + 1] as usize
    };
    let has = move |i: u32, j: u32| idx[range(i)].binary_search(&j).is_ok();
    let links = Components::links(n);
    let components = Components(&links);
    let num_single = &AtomicUsize::new(0);
    let most_single = n * MOST_SINGLE + 64;
    let parallel = parallel && idx.len() >= MIN_SHARED;
    // Whatever is found then means nothing.
    let is_stopped = move |i: u32| i.is_multiple_of(STRIDE) && cancel.is_cancelled();
    let num_to_earlier = &AtomicUsize::new(0);
    let within = move |rows: Range<usize>| {
        let (first_row, end_row) = (rows.start as u32, rows.end as u32);
        let mut single = Single::new(num_single);
        let mut to_earlier = 0;
        // The entry of each row from which on none has met its counterpart.
        let mut next = Vec::with_capacity(rows.len());
        for i in first_row..end_row {
            let range = range(i);
            let is_earlier = |&&j: &&u32| j < first_row;
            // One part is all there is for one thread, which has no reason to look.
            let count = match first_row {
                0 => 0,
                _ => idx[range.clone()].iter().take_while(is_earlier).count(),
            };
            to_earlier += count;
            next.push((range.start + count) as u32);
        }
        num_to_earlier.fetch_add(to_earlier, Relaxed);
        for i in first_row..end_row {
            if single.num_all() > most_single || is_stopped(i) {
                break;
            }
            let end = range(i).end;
            let mut above = next[(i - first_row) as usize] as usize;
            while let Some(&j) = idx[above..end].first()
                && j < i
            {
                single.entries.push((i, j));
                above += 1;
            }
            let mut first = components.first(i);
            for &j in &idx[above..end] {
                if j == i {
                    continue;
                }
                if j >= end_row {
                    break;
                }
                let end = range(j).end;
                let next = &mut next[(j - first_row) as usize];
                let mut place = *next as usize;
                while place < end && idx[place] < i {
                    single.entries.push((j, idx[place]));
                    place += 1;
                }
                let is_pair = place < end && idx[place] == i;
                *next = (place + usize::from(is_pair)) as u32;
                if is_pair {
                    first = components.join_alone(first, j);
                } else {
                    single.entries.push((i, j));
                }
            }
        }
        single.found()
    };
    let num_pairs = &AtomicUsize::new(0);
    let to_later = move |rows: Range<usize>| {
        let mut single = Single::new(num_single);
        let mut pairs = 0;
        for i in rows.start as u32..rows.end as u32 {
            if single.num_all() > most_single || is_stopped(i) {
                break;
            }
            let last_first = idx[range(i)].iter().rev();
            for &j in last_first.take_while(|&&j| j as usize >= rows.end) {
                if has(j, i) {
                    components.join(i, j);
                    pairs += 1;
                } else {
                    single.entries.push((i, j));
                }
            }
        }
        num_pairs.fetch_add(pairs, Relaxed);
        single.found()
    };
    let to_earlier = move |rows: Range<usize>| {
        let mut single = Single::new(num_single);
        for i in rows.start as u32..rows.end as u32 {
            if single.num_all() > most_single || is_stopped(i) {
                break;
            }
            let line = idx[range(i)].iter();
            let earlier = line.take_while(|&&j| (j as usize) < rows.start);
            let is_single = earlier.filter(|&&j| !has(j, i));
            single.entries.extend(is_single.map(|&j| (i, j)));
        }
        single.found()
    };
    let is_too_many = || num_single.load(Relaxed) > most_single;
    let mut single = by_parts(n, LEAST_PART, parallel, within);
    if parallel && !is_too_many() {
        single.extend(by_parts(n, LEAST_PART, true, to_later));
        if num_pairs.load(Relaxed) < num_to_earlier.load(Relaxed) {
            single.extend(by_parts(n, LEAST_PART, true, to_earlier));
        }
    }
    cancel.check()?;
    if is_too_many() {
        return Ok(None);
    }
    let Some((mut number, mut count)) = components.numbered() else {
        return Ok(Some(BlockTriangular::one(n)));
    };
    cancel.check()?;
    let between = single
        .into_iter()
        .flatten()
        .map(|(i, j)| (number[i as usize], number[j as usize]));
    let mut between: Vec<u64> = between
        .filter(|(i, j)| i != j)
        .map(|(i, j)| u64::from(i) << 32 | u64::from(j))
        .collect();
    if !between.is_empty() {
        if parallel && between.len() >= WORTH_SHARING {
            between.par_sort_unstable();
        } else {
            between.sort_unstable();
        }
        between.dedup();
        let mut ptr = vec![0; count as usize + 1];
        for &edge in &between {
            ptr[(edge >> 32) as usize + 1] += 1;
        }
        for i in 1..ptr.len() {
            ptr[i] += ptr[i - 1];
        }
        let idx = between.into_iter().map(|edge| edge as u32).collect();
        let components = CompressedPattern::new(count as usize, ptr, idx);
        let components = components.expect("entries are sorted, and each is there once");
        let unmoved: Vec<u32> = (0..count).collect();
        let form = strong_components(&components, &unmoved, cancel)?;
        let mut block_of = vec![0; count as usize];
        for (block, ends) in (0..).zip(form.block_ptr.windows(2)) {
            for &component in &form.perm.as_slice()[ends[0]..ends[1]] {
                block_of[component as usize] = block;
            }
        }
        for v in &mut number {
            *v = block_of[*v as usize];
        }
        count = form.block_ptr.len() as u32 - 1;
    }
    cancel.check()?;
    Ok(Some(BlockTriangular::numbered(&number, count)))
}

/// The block triangular form of a symmetric pattern, whose blocks are the connected components; as [`block_triangular`] finds
/// it. On the current rayon pool if `parallel`.
///
/// # Errors
///
/// [`Cancelled`].
pub(crate) fn connected_components(
    a: &CompressedPattern,
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<BlockTriangular, Cancelled> {
    let n = a.major_dim();
    let links = Components::links(n);
    let components = Components(&links);
    let join = |rows: Range<usize>| {
        for i in rows.start as u32..rows.end as u32 {
            if i.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let later = a.line(i as usize).iter().rev().take_while(|&&j| j > i);
            later.for_each(|&j| components.join(i, j));
        }
        Ok(())
    };
    let parallel = parallel && a.nnz() >= MIN_SHARED;
    by_parts(n, LEAST_PART / 4, parallel, join)
        .into_iter()
        .collect::<Result<(), Cancelled>>()?;
    Ok(match components.numbered() {
        Some((number, count)) => BlockTriangular::numbered(&number, count),
        None => BlockTriangular::one(n),
    })
}

/// The strongly connected components, in order.
fn strong_components(
    a: &CompressedPattern,
    row_of_col: &[u32],
    cancel: &CancelFlag,
) -> Result<BlockTriangular, Cancelled> {
    let n = a.major_dim();
    // number[j]: which visit j was, in order; DONE once its component is complete.
    let mut number: SmallVec<[u32; 32]> = smallvec![UNSEEN; n];
    let number = &mut number[..];
    let mut open: SmallVec<[u32; 32]> = SmallVec::new();
    let mut path: SmallVec<[Visit; 16]> = SmallVec::new();
    // Components come out after all that they reach; `emitted` collects them in that order.
    let mut emitted: Vec<u32> = Vec::with_capacity(n);
    let mut starts: SmallVec<[usize; 32]> = SmallVec::new();
    let mut visits = 0;
    for root in 0..n as u32 {
        if number[root as usize] != UNSEEN {
            continue;
        }
        let mut next = root;
        loop {
            if visits % STRIDE == 0 {
                cancel.check()?;
            }
            // Down into `next`.
            let row = row_of_col[next as usize] as usize;
            let mut visit = Visit {
                vertex: next,
                number: visits,
                low: visits,
                entries: a.range(row),
            };
            number[next as usize] = visits;
            visits += 1;
            open.push(next);
            // Along its entries, and up as long as there are none left.
            let child = loop {
                let child = visit.entries.find_map(|p| {
                    let k = a.idx()[p];
                    let seen = number[k as usize];
                    visit.low = visit.low.min(seen);
                    (seen == UNSEEN).then_some(k)
                });
                if child.is_some() {
                    break child;
                }
                if visit.low == visit.number {
                    starts.push(emitted.len());
                    loop {
                        let k = open.pop().expect("the vertex itself is open");
                        number[k as usize] = DONE;
                        emitted.push(k);
                        if k == visit.vertex {
                            break;
                        }
                    }
                }
                let Some(parent) = path.pop() else { break None };
                let low = visit.low;
                visit = parent;
                visit.low = visit.low.min(low);
            };
            let Some(child) = child else { break };
            path.push(visit);
            next = child;
        }
    }

    cancel.check()?;
    // The last component emitted reaches all others it is connected with, so it comes first. The
    // numbers become those of the blocks, and the vertices are dealt to their blocks in order.
    starts.push(n);
    let num_blocks = starts.len() - 1;
    let mut block_ptr = Vec::with_capacity(num_blocks + 1);
    block_ptr.push(0);
    for (block, ends) in starts.windows(2).rev().enumerate() {
        for &v in &emitted[ends[0]..ends[1]] {
            number[v as usize] = block as u32;
        }
        block_ptr.push(block_ptr[block] + ends[1] - ends[0]);
    }
    let mut next = starts;
    next.copy_from_slice(&block_ptr);
    let mut perm = emitted;
    for (v, &block) in number.iter().enumerate() {
        let place = &mut next[block as usize];
        perm[*place] = v as u32;
        *place += 1;
    }
    Ok(BlockTriangular {
        perm: Permutation::new(perm).expect("every vertex is emitted once"),
        block_ptr,
    })
}

/// Where a search is.
struct Visit {
    vertex: u32,
    /// Its number.
    number: u32,
    /// The smallest number of an open vertex that it is known to reach.
    low: u32,
    /// The entries of its row that were not looked at yet.
    entries: std::ops::Range<usize>,
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use luge_testkit::strategies::{pattern_from, patterns};
    use proptest::prelude::*;
    use rayon::prelude::*;

    use super::*;

    /// More threads than most machines of tests have.
    static POOL: LazyLock<rayon::ThreadPool> = LazyLock::new(|| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4);
        pool.build().unwrap()
    });

    #[test]
    fn components_do_not_depend_on_who_joins_when() {
        let n = 5000;
        let edge = |k: u32| {
            let hash = |k: u32| {
                k.wrapping_mul(0x9E37_79B1)
                    .rotate_left(15)
                    .wrapping_mul(0x85EB_CA6B)
                    >> 8
            };
            (hash(2 * k) % n, hash(2 * k + 1) % n)
        };
        for num_edges in [n / 4, n / 2, 4 * n] {
            let links = [(); 2].map(|()| Components::links(n as usize));
            let [serial, shared] = [&links[0], &links[1]].map(|links| Components(links));
            for (v, w) in (0..num_edges).map(edge) {
                serial.join_alone(serial.first(v), w);
            }
            POOL.install(|| {
                let edges = (0..num_edges).into_par_iter().with_max_len(16).map(edge);
                edges.for_each(|(v, w)| shared.join(v, w));
            });
            let firsts = |components: Components| -> Vec<u32> {
                (0..n).map(|v| components.first(v)).collect()
            };
            assert_eq!(firsts(shared), firsts(serial));
        }
    }

    /// The form of 64 rows with these entries and the diagonal; none if too many of them have no counterpart.
    fn form_of(entries: &[(u32, u32)], parallel: bool) -> Option<BlockTriangular> {
        let a = pattern_from(64, entries.iter().copied().chain((0..64).map(|i| (i, i))));
        let identity: Vec<u32> = (0..64).collect();
        let never = CancelFlag::new();
        POOL.install(|| joined_in_pairs(&a, &identity, parallel, &never).unwrap())
    }

    #[test]
    fn as_many_single_entries_as_are_allowed_hide_no_pair() {
        assert_eq!(64 * MOST_SINGLE + 64, 192);
        // All of them are in the first twelve rows, and known before the pairs of the last ones are met.
        let single = (0..12).flat_map(|i| (i + 1..=i + 16).map(move |j| (i, j)));
        let pairs = (32..63).flat_map(|i| [(i, i + 1), (i + 1, i)]);
        let mut entries: Vec<_> = single.chain(pairs).collect();
        let form = form_of(&entries, false).unwrap();
        assert_eq!(form.block_ptr[form.block_ptr.len() - 2..], [32, 64]);
        entries.push((12, 28));
        assert_eq!(form_of(&entries, false), None);
    }

    #[test]
    fn as_many_single_entries_as_are_allowed_hide_no_pair_of_two_threads() {
        // Four threads go through eight parts of eight rows. Within each are 24 single entries; pairs join the rows
        // that have the same place in their parts.
        let is_single = |&(i, j): &(u32, u32)| i < j && (i, j / 4) != (0, 1);
        let within = (0..8).flat_map(|i| (0..8).map(move |j| (i, j)));
        let within: Vec<_> = within.filter(is_single).collect();
        let single = (0..64)
            .step_by(8)
            .flat_map(|first| within.iter().map(move |&(i, j)| (first + i, first + j)));
        let pairs = (0..56).flat_map(|i| [(i, i + 8), (i + 8, i)]);
        let entries: Vec<_> = single.chain(pairs).collect();
        let form = form_of(&entries, true).unwrap();
        let blocks: Vec<usize> = (0..=64).step_by(8).collect();
        assert_eq!(form.block_ptr, blocks);
        // One more, to a later part or to an earlier one.
        for more in [(0, 63), (63, 0)] {
            assert_eq!(form_of(&[&entries[..], &[more]].concat(), true), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn components_joined_in_pairs_are_the_strong_ones(
            a in patterns(20),
            makes_symmetric in any::<bool>(),
            thin in 1..9usize,
        ) {
            let n = a.major_dim();
            let keeps = |i: usize, j: usize| ((i + j) * 7 + i * j).is_multiple_of(thin);
            let (mut ptr, mut idx) = (vec![0], Vec::new());
            for i in 0..n {
                let has = |i: usize, j: usize| a.line(i).contains(&(j as u32)) && keeps(i, j);
                let row = (0..n).filter(|&j| i == j || has(i, j) || (makes_symmetric && has(j, i)));
                idx.extend(row.map(|j| j as u32));
                ptr.push(idx.len() as u64);
            }
            let a = CompressedPattern::new(n, ptr, idx).unwrap();
            let identity: Vec<u32> = (0..n as u32).collect();
            let never = CancelFlag::new();
            let form = joined_in_pairs(&a, &identity, false, &never);
            POOL.install(|| {
                prop_assert_eq!(&joined_in_pairs(&a, &identity, true, &never), &form);
                // The same rows in other places.
                let rows: Vec<&[u32]> = a.lines().collect();
                let turned = (0..n).map(|i| rows[(i + n / 3) % n]);
                let mut ptr = vec![0];
                ptr.extend(turned.clone().scan(0, |end, row| {
                    *end += row.len() as u64;
                    Some(*end)
                }));
                let turned = CompressedPattern::new(n, ptr, turned.flatten().copied().collect()).unwrap();
                let row_of_col: Vec<u32> = (0..n).map(|j| ((j + n - n / 3) % n) as u32).collect();
                prop_assert_eq!(&joined_in_pairs(&turned, &row_of_col, true, &never), &form);
                Ok(())
            })?;
            let Some(found) = form.unwrap() else {
                let has_counterpart = |i: usize, j: &u32| a.line(*j as usize).contains(&(i as u32));
                let lines = a.lines().enumerate();
                let single = lines.flat_map(|(i, line)| line.iter().filter(move |&j| !has_counterpart(i, j)));
                prop_assert!(single.count() > n * MOST_SINGLE + 64);
                return Ok(());
            };
            let expected = strong_components(&a, &identity, &never).unwrap();
            if a.transpose() == a {
                prop_assert_eq!(&found, &expected);
                for parallel in [false, true] {
                    let components = POOL.install(|| connected_components(&a, parallel, &never));
                    prop_assert_eq!(&components, &Ok(found.clone()));
                }
            }
            let blocks = |form: &BlockTriangular| {
                let ends = form.block_ptr.windows(2);
                let mut blocks: Vec<Vec<u32>> =
                    ends.map(|e| form.perm.as_slice()[e[0]..e[1]].to_vec()).collect();
                blocks.sort();
                blocks
            };
            prop_assert_eq!(blocks(&found), blocks(&expected));
            let mut block_of = vec![0; n];
            for (block, ends) in found.block_ptr.windows(2).enumerate() {
                for &v in &found.perm.as_slice()[ends[0]..ends[1]] {
                    block_of[v as usize] = block;
                }
            }
            for i in 0..n {
                prop_assert!(a.line(i).iter().all(|&j| block_of[i] <= block_of[j as usize]));
            }
        }
    }
}
