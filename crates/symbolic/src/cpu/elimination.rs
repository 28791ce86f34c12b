//! Structures of the rows of U and of the columns of L, pivot by pivot, each distinct one stored
//! once.
//!
//! Row k of U is row k of B joined with the rows U(e, ·) of the pivots e < k with L(k, e) ≠ 0, and
//! column k of L is the same thing mirrored. Not all e are needed. Let p be the first pivot with both
//! L(p, e) ≠ 0 and U(e, p) ≠ 0. Beyond p, row p has all of U(e, ·) and column p all of L(·, e), so e
//! takes part in the rows and columns up to p only: the symmetric pruning of S. C. Eisenstat and
//! J. W. H. Liu ("Exploiting structural symmetry in unsymmetric sparse symbolic factorization", SIAM
//! J. Matrix Anal. Appl. 13, 1992) of the elimination dags of J. R. Gilbert and J. W. H. Liu
//! ("Elimination structures for unsymmetric sparse LU factors", SIAM J. Matrix Anal. Appl. 14, 1993),
//! here of both dags at once. Where the structure is symmetric, p is the parent of e in the elimination
//! tree, and this is the merging of children of symbolic Cholesky factorization.
//!
//! Unlike a reach row by row it never lists the entries of L(k, ·): a pivot waits in a linked list of
//! the next row that it takes part in, and in one of the next column (as columns do in left-looking
//! Cholesky factorization), so there are O(n) links, and the cost of a pivot is the length of the
//! distinct structures that are joined in it.
//!
//! Structures are increasing, and what a structure keeps beyond a later pivot is its tail. Where one
//! of the joined structures has all that the others and B bring, the result is a tail of that one and
//! takes no memory: the rows of a supernode share one structure. Where row and column of a pivot agree,
//! they share one, too, and from then on the pivot waits in one list instead of two.

use std::ops::Range;

use super::index_set::IndexSet;
use super::triangles::Triangles;

/// No pivot.
const NONE: u32 = u32::MAX;

/// Where a structure lies in the store. Two structures that are not empty share memory iff they end
/// at the same place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    end: u64,
    start: u64,
}

impl Span {
    /// Number of entries.
    pub(super) fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether both are tails of the same stored structure.
    pub(super) fn shares(self, other: Self) -> bool {
        self.end == other.end
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The same structure in a store that has `by` entries before it. The empty one stays where it is,
    /// so that it shares with no other.
    fn moved(self, by: u64) -> Self {
        let by = if self.len() > 0 { by } else { 0 };
        Self {
            start: self.start + by,
            end: self.end + by,
        }
    }
}

/// The structures of a range of pivots.
pub(super) struct Structures {
    /// The pivots are `base..base + pivots.len()`.
    base: usize,
    store: Vec<u32>,
    pivots: Vec<Pivot>,
}

/// What is known of a pivot e; a cache line.
#[derive(Clone)]
struct Pivot {
    /// Columns of U(e, ·) beyond e.
    upper: Span,
    /// Rows of L(·, e) beyond e.
    lower: Span,
    /// Position in the store of the next column of U(e, ·) that e takes part in: whenever e waits for
    /// a row or takes part in one, the first column that is not before that row.
    col_at: u64,
    /// The same for the rows of L(·, e).
    row_at: u64,
    /// The first pivot with an entry of both, in U(e, ·) and in L(·, e).
    parent: u32,
    /// Who waits for the same row after e, or for the same row and column.
    next_in_row: u32,
    /// Who waits for the same column after e.
    next_in_col: u32,
    /// Whether both are one structure.
    symmetric: bool,
}

impl Structures {
    /// Number of pivots.
    pub(super) fn len(&self) -> usize {
        self.pivots.len()
    }

    /// Columns of U(k, ·) beyond k, increasing.
    pub(super) fn upper(&self, k: usize) -> &[u32] {
        self.of(self.pivots[k - self.base].upper)
    }

    /// Rows of L(·, k) beyond k, increasing.
    pub(super) fn lower(&self, k: usize) -> &[u32] {
        self.of(self.pivots[k - self.base].lower)
    }

    /// Where [`lower`](Self::lower) lies.
    pub(super) fn lower_span(&self, k: usize) -> Span {
        self.pivots[k - self.base].lower
    }

    /// Entries kept in memory.
    pub(super) fn stored(&self) -> usize {
        self.store.len()
    }

    fn of(&self, span: Span) -> &[u32] {
        &self.store[span.range()]
    }
}

/// Heads of the lists of those who wait for a pivot.
#[derive(Clone)]
struct Waiting {
    /// Pivots with one structure for row and column.
    both: u32,
    /// Pivots to take part in the row.
    row: u32,
    /// Pivots to take part in the column.
    col: u32,
}

/// The elimination of a range of pivots, as far as it has come.
pub(super) struct Elimination<'a> {
    b: &'a Triangles<'a>,
    done: Structures,
    waiting: Vec<Waiting>,
    /// Pivots that wait for something beyond the range, once for each thing.
    leaving: Vec<u32>,
    joiner: Joiner,
    /// Scratch: the pivots without symmetry that take part in the current row, and those in the
    /// current column; what all that take part bring.
    in_row: Vec<u32>,
    in_col: Vec<u32>,
    row_tails: Vec<Span>,
    col_tails: Vec<Span>,
}

impl<'a> Elimination<'a> {
    /// Of the pivots `range` of `b`, none of them eliminated.
    pub(super) fn new(b: &'a Triangles<'a>, range: Range<usize>) -> Self {
        let len = range.len();
        let pivot = Pivot {
            upper: Span::default(),
            lower: Span::default(),
            col_at: 0,
            row_at: 0,
            parent: NONE,
            next_in_row: NONE,
            next_in_col: NONE,
            symmetric: false,
        };
        let waiting = Waiting {
            both: NONE,
            row: NONE,
            col: NONE,
        };
        Self {
            b,
            done: Structures {
                base: range.start,
                store: Vec::new(),
                pivots: vec![pivot; len],
            },
            waiting: vec![waiting; len],
            leaving: Vec::new(),
            joiner: Joiner {
                set: IndexSet::new(b.n()),
                scratch: Vec::new(),
            },
            in_row: Vec::new(),
            in_col: Vec::new(),
            row_tails: Vec::new(),
            col_tails: Vec::new(),
        }
    }

    /// Eliminates `pivots`, increasing, every one after all that it depends on. `progress` is called
    /// after every pivot with it and the number of structure entries kept so far; its error stops
    /// the run.
    pub(super) fn run<E>(
        &mut self,
        pivots: Range<usize>,
        mut progress: impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        for k in pivots {
            self.eliminate(k);
            progress(k, self.done.stored())?;
        }
        Ok(())
    }

    /// The structures, when all pivots are eliminated.
    pub(super) fn finish(self) -> Structures {
        self.done
    }

    /// Takes over the pivots that `part` has eliminated.
    pub(super) fn absorb(&mut self, part: Self) {
        let by = self.done.store.len() as u64;
        let at = part.done.base - self.done.base;
        self.done.store.extend_from_slice(&part.done.store);
        for (to, mut from) in self.done.pivots[at..].iter_mut().zip(part.done.pivots) {
            from.upper = from.upper.moved(by);
            from.lower = from.lower.moved(by);
            from.col_at += by;
            from.row_at += by;
            *to = from;
        }
        // A pivot that waits for a row and for a column is in the list twice.
        let mut leaving = part.leaving;
        leaving.sort_unstable();
        leaving.dedup();
        for e in leaving {
            self.wait(e);
        }
    }

    fn eliminate(&mut self, k: usize) {
        let base = self.done.base;
        let at = k - base;
        let Waiting {
            mut both,
            mut row,
            mut col,
        } = self.waiting[at];
        let (own_row, own_col) = (self.b.row(k), self.b.col(k));
        let all_symmetric = row == NONE && col == NONE && own_row == own_col;

        self.row_tails.clear();
        while both != NONE {
            let pivot = &self.done.pivots[both as usize - base];
            self.row_tails
                .extend(tail(&self.done.store, pivot.col_at, pivot.upper.end, k));
            both = pivot.next_in_row;
        }
        self.in_row.clear();
        self.in_col.clear();
        self.col_tails.clear();
        if !all_symmetric {
            self.col_tails.extend_from_slice(&self.row_tails);
            while row != NONE {
                let pivot = &self.done.pivots[row as usize - base];
                self.row_tails
                    .extend(tail(&self.done.store, pivot.col_at, pivot.upper.end, k));
                self.in_row.push(row);
                row = pivot.next_in_row;
            }
            while col != NONE {
                let pivot = &self.done.pivots[col as usize - base];
                self.col_tails
                    .extend(tail(&self.done.store, pivot.row_at, pivot.lower.end, k));
                self.in_col.push(col);
                col = pivot.next_in_col;
            }
        }

        let upper = self
            .joiner
            .join(&mut self.done.store, &mut self.row_tails, own_row);
        let lower = if all_symmetric {
            upper
        } else {
            let kept = self.done.store.len();
            let lower = self
                .joiner
                .join(&mut self.done.store, &mut self.col_tails, own_col);
            if lower.len() == upper.len() && self.done.of(lower) == self.done.of(upper) {
                self.done.store.truncate(kept);
                upper
            } else {
                lower
            }
        };
        let parent = if upper == lower {
            self.done.of(upper).first().copied()
        } else {
            first_common(self.done.of(upper), self.done.of(lower))
        };
        let pivot = &mut self.done.pivots[at];
        pivot.upper = upper;
        pivot.lower = lower;
        pivot.col_at = upper.start;
        pivot.row_at = lower.start;
        pivot.parent = parent.unwrap_or(NONE);
        pivot.symmetric = upper == lower;
        self.wait(k as u32);

        for i in 0..self.in_row.len() {
            let e = self.in_row[i];
            let pivot = &mut self.done.pivots[e as usize - base];
            pivot.row_at += 1;
            if pivot.parent != k as u32 {
                self.wait_for_row(e);
            }
        }
        for i in 0..self.in_col.len() {
            let e = self.in_col[i];
            let pivot = &mut self.done.pivots[e as usize - base];
            pivot.col_at += 1;
            if pivot.parent != k as u32 {
                self.wait_for_col(e);
            }
        }
    }

    /// Lets `e` wait for the next row and column that it takes part in.
    fn wait(&mut self, e: u32) {
        let pivot = &mut self.done.pivots[e as usize - self.done.base];
        if !pivot.symmetric {
            self.wait_for_row(e);
            self.wait_for_col(e);
        } else if pivot.upper.len() > 1 {
            // Otherwise nothing lies beyond the parent.
            match self.waiting.get_mut(pivot.parent as usize - self.done.base) {
                Some(list) => pivot.next_in_row = std::mem::replace(&mut list.both, e),
                None => self.leaving.push(e),
            }
        }
    }

    fn wait_for_row(&mut self, e: u32) {
        let store = &self.done.store;
        let pivot = &mut self.done.pivots[e as usize - self.done.base];
        if pivot.row_at < pivot.lower.end && pivot.upper.len() > 0 {
            let row = store[pivot.row_at as usize];
            // It brings something only while it has columns beyond.
            if row <= pivot.parent && row < store[pivot.upper.end as usize - 1] {
                match self.waiting.get_mut(row as usize - self.done.base) {
                    Some(list) => pivot.next_in_row = std::mem::replace(&mut list.row, e),
                    None => self.leaving.push(e),
                }
            }
        }
    }

    fn wait_for_col(&mut self, e: u32) {
        let store = &self.done.store;
        let pivot = &mut self.done.pivots[e as usize - self.done.base];
        if pivot.col_at < pivot.upper.end && pivot.lower.len() > 0 {
            let col = store[pivot.col_at as usize];
            // It brings something only while it has rows beyond.
            if col <= pivot.parent && col < store[pivot.lower.end as usize - 1] {
                match self.waiting.get_mut(col as usize - self.done.base) {
                    Some(list) => pivot.next_in_col = std::mem::replace(&mut list.col, e),
                    None => self.leaving.push(e),
                }
            }
        }
    }
}

/// What the structure that goes on from `at` to `end`, first entry not before `k`, has beyond `k`.
fn tail(store: &[u32], at: u64, end: u64, k: usize) -> Option<Span> {
    let start = at + u64::from(at < end && store[at as usize] == k as u32);
    (start < end).then_some(Span { end, start })
}

/// Joins increasing structures.
struct Joiner {
    set: IndexSet,
    scratch: Vec<u32>,
}

impl Joiner {
    /// The union of `own` and of the `tails` of structures in `store`, none of them empty: a tail that
    /// has all of it, or appended to the store. Tails of one structure must be the same.
    fn join(&mut self, store: &mut Vec<u32>, tails: &mut Vec<Span>, own: &[u32]) -> Span {
        let mut total: usize = tails.iter().map(|tail| tail.len()).sum();
        // The same short tail twice costs less than finding that out.
        if tails.len() > 1 && total > 8 * tails.len() {
            tails.sort_unstable_by_key(|tail| tail.end);
            tails.dedup_by(|a, b| a.shares(*b));
            total = tails.iter().map(|tail| tail.len()).sum();
        }
        let start = store.len() as u64;
        match tails[..] {
            [] if own.is_empty() => return Span::default(),
            [] => store.extend_from_slice(own),
            [tail] => {
                let structure = &store[tail.range()];
                if is_subset(own, structure) {
                    return tail;
                }
                self.scratch.clear();
                merge(own, structure, &mut self.scratch);
                store.extend_from_slice(&self.scratch);
            }
            _ => {
                let (longest, _) = tails.iter().enumerate().fold((0, 0), |(at, len), (i, t)| {
                    if t.len() > len {
                        (i, t.len())
                    } else {
                        (at, len)
                    }
                });
                let longest = tails.swap_remove(longest);
                if 8 * (total - longest.len() + own.len()) <= longest.len() {
                    let structure = &store[longest.range()];
                    let mut others = tails.iter().map(|tail| &store[tail.range()]);
                    if is_subset(own, structure) && others.all(|other| is_subset(other, structure))
                    {
                        return longest;
                    }
                }
                self.set.insert_all(&store[longest.range()]);
                let mut added = self.set.insert_all(own);
                for tail in &*tails {
                    added += self.set.insert_all(&store[tail.range()]);
                }
                if added == 0 {
                    self.set.clear_all(&store[longest.range()]);
                    return longest;
                }
                store.reserve(longest.len() + added);
                self.set.drain_into(store);
            }
        }
        Span {
            start,
            end: store.len() as u64,
        }
    }
}

/// Whether the increasing `few` are all among the increasing `many`.
fn is_subset(few: &[u32], many: &[u32]) -> bool {
    let mut rest = many;
    few.len() <= many.len()
        && few.iter().all(|x| match rest.binary_search(x) {
            Ok(at) => {
                rest = &rest[at + 1..];
                true
            }
            Err(_) => false,
        })
}

/// Appends the union of two increasing sequences to `out`.
fn merge(mut a: &[u32], mut b: &[u32], out: &mut Vec<u32>) {
    while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
        out.push(x.min(y));
        a = &a[usize::from(x <= y)..];
        b = &b[usize::from(y <= x)..];
    }
    out.extend_from_slice(a);
    out.extend_from_slice(b);
}

/// The smallest element of both increasing sequences.
fn first_common(mut a: &[u32], mut b: &[u32]) -> Option<u32> {
    while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
        if x == y {
            return Some(x);
        }
        a = &a[usize::from(x < y)..];
        b = &b[usize::from(y < x)..];
    }
    None
}
