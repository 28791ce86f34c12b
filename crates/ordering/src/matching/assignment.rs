//! The assignment of least cost: steps of [`matching`](super).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};
use rayon::prelude::*;

use super::{MOST_AT_ONCE, NONE, STRIDE};

/// Passes of bidding before the searches.
const BIDDING_PASSES: usize = 2;

/// Rows longer than this do not bid, as each of their bids would look at all their entries.
const LONGEST_BIDDER: usize = 512;

/// A pass of bidding looks at no more than this many times the entries of the matrix.
const BIDDING_EFFORT: usize = 8;

/// So many rows bid in turn before what is left goes to the searches. Rows that drive the prices of the
/// same columns by tiny steps would go on for long.
const LONGEST_CHAIN: usize = 16;

/// Searches from one row that have looked at so many times the entries of the matrix are followed by one from all rows.
const SEARCHING_EFFORT: usize = 1;

/// If at least so many rows are left. Few in tests, so that small matrices have such searches.
const LEAST_ROOTS: usize = if cfg!(test) { 2 } else { 32 };

/// State of the assignment problem between searches.
pub(super) struct Assignment<'a> {
    a: &'a CompressedPattern,
    cost: &'a [f64],
    /// Duals of rows and columns.
    u: Vec<f64>,
    pub v: Vec<f64>,
    col_of_row: Vec<u32>,
    pub row_of_col: Vec<u32>,
    /// Position of the matched entry of each row.
    pub entry_of_row: Vec<usize>,
    search: Search,
}

/// Workspace of one search; `mark[j] == stamp` says that the entries of column j belong to it.
struct Search {
    stamp: u32,
    mark: Vec<u32>,
    /// Length of the shortest path found to a column.
    dist: Vec<f64>,
    /// The entry by which the path enters the column, and its row.
    entry: Vec<usize>,
    from_row: Vec<u32>,
    /// Columns whose shortest path is final.
    settled: Vec<u32>,
    /// Columns at the current distance, which need no heap.
    near: Vec<u32>,
    /// Other columns, by bits of the distance: bits of non-negative floats order like the floats.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Entries that all searches together have looked at.
    looked_at: usize,
}

impl Search {
    fn begin(&mut self) {
        self.stamp += 1;
        self.settled.clear();
        self.near.clear();
        self.heap.clear();
    }

    /// Enters a path of length `dist` to the column of entry `p` of `row`, if none as short is known; columns up to `now` need no heap.
    fn enter(&mut self, (row, p, col): (u32, usize, u32), dist: f64, now: f64) {
        if dist <= now {
            self.near.push(col);
        } else {
            self.heap.push(Reverse((dist.to_bits(), col)));
        }
        self.reach((row, p, col), dist);
    }

    fn reach(&mut self, (row, p, col): (u32, usize, u32), dist: f64) {
        let at = col as usize;
        self.mark[at] = self.stamp;
        self.dist[at] = dist;
        self.entry[at] = p;
        self.from_row[at] = row;
    }

    /// Whether a path as short is known to the column.
    fn knows(&self, col: usize, dist: f64) -> bool {
        self.mark[col] == self.stamp && self.dist[col] <= dist
    }

    /// The column that is nearest of those that were entered and not taken, with its distance, which is `now` at least.
    fn nearest(&mut self, now: f64) -> Option<(f64, u32)> {
        if let Some(col) = self.near.pop() {
            return Some((now, col));
        }
        loop {
            let Reverse((bits, col)) = self.heap.pop()?;
            // A later push with a smaller distance makes this one stale.
            if self.dist[col as usize].to_bits() == bits {
                return Some((f64::from_bits(bits), col));
            }
        }
    }
}

impl<'a> Assignment<'a> {
    /// The assignment of least cost; None if none has a finite one. On the current rayon pool if `parallel`.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn of(
        a: &'a CompressedPattern,
        cost: &'a [f64],
        parallel: bool,
        cancel: &CancelFlag,
    ) -> Result<Option<Self>, Cancelled> {
        let Some(mut assignment) = Self::new(a, cost, parallel) else {
            return Ok(None);
        };
        cancel.check()?;
        assignment.match_tight_entries(cancel)?;
        for _ in 0..BIDDING_PASSES {
            cancel.check()?;
            assignment.bid(cancel)?;
        }
        Ok(assignment.augment(cancel)?.then_some(assignment))
    }

    /// None if a row or a column has no finite cost.
    fn new(a: &'a CompressedPattern, cost: &'a [f64], parallel: bool) -> Option<Self> {
        let n = a.major_dim();
        let mut v = vec![f64::INFINITY; n];
        for (&col, &c) in a.idx().iter().zip(cost) {
            let v = &mut v[col as usize];
            *v = if c < *v { c } else { *v };
        }
        if v.contains(&f64::INFINITY) {
            return None;
        }
        let least = |row: usize| {
            a.range(row)
                .map(|p| cost[p] - v[a.idx()[p] as usize])
                .fold(f64::INFINITY, |least, c| if c < least { c } else { least })
        };
        let u: Vec<f64> = if parallel && cost.len() > MOST_AT_ONCE {
            let rows = (0..n).into_par_iter().with_min_len(1000);
            rows.map(least).collect()
        } else {
            (0..n).map(least).collect()
        };
        if u.contains(&f64::INFINITY) {
            return None;
        }
        Some(Self {
            a,
            cost,
            u,
            v,
            col_of_row: vec![NONE; n],
            row_of_col: vec![NONE; n],
            entry_of_row: vec![0; n],
            search: Search {
                stamp: 0,
                mark: vec![0; n],
                dist: vec![0.0; n],
                entry: vec![0; n],
                from_row: vec![0; n],
                settled: Vec::new(),
                near: Vec::new(),
                heap: BinaryHeap::new(),
                looked_at: 0,
            },
        })
    }

    /// Zero exactly for the entries that defined a row's dual.
    fn reduced_cost(&self, row: usize, p: usize) -> f64 {
        (self.cost[p] - self.v[self.a.idx()[p] as usize]) - self.u[row]
    }

    fn set(&mut self, row: usize, p: usize) {
        let col = self.a.idx()[p];
        self.col_of_row[row] = col;
        self.row_of_col[col as usize] = row as u32;
        self.entry_of_row[row] = p;
    }

    /// Matches entries of zero reduced cost: the diagonal first, so that a matrix whose diagonal is
    /// optimal keeps it; then greedily; then with one exchange.
    fn match_tight_entries(&mut self, cancel: &CancelFlag) -> Result<(), Cancelled> {
        let (a, n) = (self.a, self.a.major_dim());
        for row in 0..n {
            if let Ok(k) = a.line(row).binary_search(&(row as u32)) {
                let p = a.range(row).start + k;
                if self.reduced_cost(row, p) == 0.0 {
                    self.set(row, p);
                }
            }
        }
        cancel.check()?;
        let is_free = |s: &Self, row, p: usize| {
            s.row_of_col[a.idx()[p] as usize] == NONE && s.reduced_cost(row, p) == 0.0
        };
        for row in 0..n {
            if self.col_of_row[row] == NONE
                && let Some(p) = a.range(row).find(|&p| is_free(self, row, p))
            {
                self.set(row, p);
            }
        }
        cancel.check()?;
        // Columns only become matched, so a position once passed stays useless for its row.
        let mut next_entry: Vec<u64> = a.ptr()[..n].to_vec();
        for row in 0..n {
            if row.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            if self.col_of_row[row] != NONE {
                continue;
            }
            for p in a.range(row) {
                if self.reduced_cost(row, p) != 0.0 {
                    continue;
                }
                let other = self.row_of_col[a.idx()[p] as usize];
                if other == NONE {
                    self.set(row, p);
                    break;
                }
                let other = other as usize;
                let rest = next_entry[other] as usize..a.range(other).end;
                let free = rest.clone().find(|&q| is_free(self, other, q));
                next_entry[other] = free.unwrap_or(rest.end) as u64;
                if let Some(q) = free {
                    self.set(other, q);
                    self.set(row, p);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Lets every unmatched row bid for the column of least reduced cost: the column's dual comes
    /// down until the row's second choice is as good, and the row that had the column must bid
    /// next. Where many rows want few columns this settles most of them at the cost of a look at
    /// their entries, instead of a search each.
    fn bid(&mut self, cancel: &CancelFlag) -> Result<(), Cancelled> {
        let a = self.a;
        let mut effort = a.nnz() * BIDDING_EFFORT;
        for start in 0..a.major_dim() {
            if self.col_of_row[start] != NONE {
                continue;
            }
            cancel.check()?;
            let mut row = start;
            let mut steps = LONGEST_CHAIN;
            while steps > 0 && a.range(row).len() <= LONGEST_BIDDER {
                let Some(left) = effort.checked_sub(a.range(row).len()) else {
                    return Ok(());
                };
                effort = left;
                steps -= 1;
                let (mut first, mut second) = ((f64::INFINITY, 0), (f64::INFINITY, 0));
                for p in a.range(row) {
                    let key = self.cost[p] - self.v[a.idx()[p] as usize];
                    if key < first.0 {
                        second = first;
                        first = (key, p);
                    } else if key < second.0 {
                        second = (key, p);
                    }
                }
                // Without a second choice no price is too high, and without a gap the price stays:
                // then the row takes a free column or is left to the searches.
                let gap = second.0 - first.0;
                let outbids = gap > 0.0 && gap.is_finite();
                let holder = |s: &Self, p: usize| s.row_of_col[a.idx()[p] as usize];
                let mut p = first.1;
                if outbids {
                    self.v[a.idx()[p] as usize] -= gap;
                    self.u[row] = second.0;
                } else {
                    self.u[row] = first.0;
                    if gap == 0.0 && holder(self, p) != NONE {
                        p = second.1;
                    }
                }
                let loser = holder(self, p);
                if loser != NONE && !outbids {
                    break;
                }
                self.set(row, p);
                if loser == NONE {
                    break;
                }
                self.col_of_row[loser as usize] = NONE;
                row = loser as usize;
            }
        }
        Ok(())
    }

    /// Matches the rows that are left. False if one has no augmenting path.
    fn augment(&mut self, cancel: &CancelFlag) -> Result<bool, Cancelled> {
        let effort = SEARCHING_EFFORT * self.a.nnz();
        let mut all_at = effort;
        for row in 0..self.a.major_dim() {
            if self.search.looked_at >= all_at {
                self.augment_from_all(cancel)?;
                all_at = self.search.looked_at + effort;
            }
            if self.col_of_row[row] == NONE {
                cancel.check()?;
                if !self.augment_from(row, cancel)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Matches `root` along a shortest augmenting path and updates the duals. False if there is no path.
    fn augment_from(&mut self, root: usize, cancel: &CancelFlag) -> Result<bool, Cancelled> {
        let a = self.a;
        self.search.begin();
        let mut row = root;
        let mut row_dist = 0.0;
        let mut shortest = f64::INFINITY;
        let mut end_col = NONE;
        loop {
            if self.search.settled.len() % STRIDE == STRIDE - 1 {
                cancel.check()?;
            }
            self.search.looked_at += a.range(row).len();
            for p in a.range(row) {
                let col = a.idx()[p] as usize;
                // Rounding may leave a reduced cost slightly below zero.
                let reduced = self.reduced_cost(row, p).max(0.0);
                let dist = row_dist + reduced;
                if dist >= shortest || self.search.knows(col, dist) {
                    continue;
                }
                let path = (row as u32, p, col as u32);
                if self.row_of_col[col] == NONE {
                    shortest = dist;
                    end_col = col as u32;
                    self.search.reach(path, dist);
                } else {
                    self.search.enter(path, dist, row_dist);
                }
            }
            if row_dist >= shortest {
                break;
            }
            match self.search.nearest(row_dist) {
                Some((dist, col)) if dist < shortest => {
                    self.search.settled.push(col);
                    row_dist = dist;
                    row = self.row_of_col[col as usize] as usize;
                }
                _ => break,
            }
        }
        if end_col == NONE {
            return Ok(false);
        }
        self.u[root] += shortest;
        self.update_duals(shortest);
        self.shift(root, end_col);
        Ok(true)
    }

    /// Matches many of the rows that are left, if they are not few: every column is reached from the row that is nearest to it, and each
    /// row is matched that reaches a column without a row. The paths of two rows share nothing, so that all of them are taken.
    fn augment_from_all(&mut self, cancel: &CancelFlag) -> Result<(), Cancelled> {
        let a = self.a;
        let n = a.major_dim();
        let is_left = |&row: &u32| self.col_of_row[row as usize] == NONE;
        let roots: Vec<u32> = (0..n as u32).filter(is_left).collect();
        if roots.len() < LEAST_ROOTS {
            return Ok(());
        }
        self.search.begin();
        // Where the shortest path to each row begins, and the first column without a row that each of them reaches.
        let mut root_of_row = vec![NONE; n];
        let mut end_of_root = vec![NONE; n];
        let mut num_waiting = roots.len();
        let mut starts = roots.iter();
        let mut now = 0.0;
        while num_waiting > 0 {
            let row = if let Some(&root) = starts.next() {
                root_of_row[root as usize] = root;
                root
            } else {
                let Some((dist, col)) = self.search.nearest(now) else {
                    break;
                };
                if self.search.settled.len() % STRIDE == STRIDE - 1 {
                    cancel.check()?;
                }
                now = dist;
                self.search.settled.push(col);
                let root = root_of_row[self.search.from_row[col as usize] as usize];
                let row = self.row_of_col[col as usize];
                if row == NONE {
                    let end = &mut end_of_root[root as usize];
                    if *end == NONE {
                        *end = col;
                        num_waiting -= 1;
                    }
                    continue;
                }
                root_of_row[row as usize] = root;
                row
            };
            self.search.looked_at += a.range(row as usize).len();
            for p in a.range(row as usize) {
                let col = a.idx()[p] as usize;
                let reduced = self.reduced_cost(row as usize, p).max(0.0);
                let dist = now + reduced;
                if dist < f64::INFINITY && !self.search.knows(col, dist) {
                    self.search.enter((row, p, col as u32), dist, now);
                }
            }
        }
        for &root in &roots {
            self.u[root as usize] += now;
        }
        self.update_duals(now);
        for &root in &roots {
            let end = end_of_root[root as usize];
            if end != NONE {
                self.shift(root as usize, end);
            }
        }
        Ok(())
    }

    /// Duals of the paths of a search that ended at distance `end`, but for the rows that they begin with, which go up by as much: a
    /// settled column at distance d comes down by `end` − d, the row it is matched to goes up by as much.
    fn update_duals(&mut self, end: f64) {
        for &col in &self.search.settled {
            let slack = end - self.search.dist[col as usize];
            self.v[col as usize] -= slack;
            let row = self.row_of_col[col as usize];
            if row != NONE {
                self.u[row as usize] += slack;
            }
        }
    }

    /// Shifts the matching along the path from `root` to the column `end`.
    fn shift(&mut self, root: usize, end: u32) {
        let mut col = end;
        loop {
            let row = self.search.from_row[col as usize] as usize;
            let next = self.col_of_row[row];
            self.set(row, self.search.entry[col as usize]);
            if row == root {
                return;
            }
            col = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    use super::*;

    /// Fails unless the duals are feasible, and matched entries have no reduced cost.
    fn check_duals(found: &Assignment<'_>) {
        for row in 0..found.a.major_dim() {
            for p in found.a.range(row) {
                let reduced = found.reduced_cost(row, p);
                assert!(reduced > -1e-12, "{reduced}");
            }
            let col = found.col_of_row[row];
            if col != NONE {
                assert_eq!(found.row_of_col[col as usize], row as u32);
                assert_eq!(found.a.idx()[found.entry_of_row[row]], col);
                let reduced = found.reduced_cost(row, found.entry_of_row[row]);
                assert!(reduced < 1e-12, "{reduced}");
            }
        }
    }

    fn num_matched(found: &Assignment<'_>) -> usize {
        found.col_of_row.iter().filter(|&&col| col != NONE).count()
    }

    proptest! {
        /// Costs are whole numbers, so that many paths are as long.
        #[test]
        fn searches_from_all_rows_keep_the_duals(a in patterns(40), costs in proptest::collection::vec(0u8..6, 1600)) {
            let cost: Vec<f64> = costs.iter().map(|&c| f64::from(c)).take(a.nnz()).collect();
            let cancel = CancelFlag::new();
            let Some(mut found) = Assignment::new(&a, &cost, false) else {
                return Ok(());
            };
            let mut before = 0;
            loop {
                found.augment_from_all(&cancel).unwrap();
                check_duals(&found);
                let matched = num_matched(&found);
                if matched == before {
                    break;
                }
                before = matched;
            }
            // The rows that are left have no path, or are few.
            let mut one_by_one = Assignment::new(&a, &cost, false).unwrap();
            let is_perfect = (0..a.major_dim()).all(|row| one_by_one.augment_from(row, &cancel).unwrap());
            let left = a.major_dim() - before;
            if is_perfect {
                prop_assert!(left < LEAST_ROOTS);
                let total = |of: &Assignment<'_>| of.entry_of_row.iter().map(|&p| cost[p]).sum::<f64>();
                prop_assert!(found.augment(&cancel).unwrap());
                check_duals(&found);
                prop_assert_eq!(total(&found), total(&one_by_one));
            } else {
                prop_assert!(!found.augment(&cancel).unwrap());
            }
        }
    }

    /// Each row has three columns that others want too, at costs of few sizes.
    #[test]
    fn many_rows_are_matched_by_one_search() {
        let n = 400u32;
        let ptr = (0..=u64::from(n)).map(|i| 3 * i).collect();
        let of_row = |i: u32| {
            let mut line = [i, (i + 1) % n, (i + 7) % n];
            line.sort_unstable();
            line
        };
        let a = CompressedPattern::new(n as usize, ptr, (0..n).flat_map(of_row).collect()).unwrap();
        let cost: Vec<f64> = (0..3 * n).map(|p| f64::from(p * 7919 % 5)).collect();
        let cancel = CancelFlag::new();
        let mut found = Assignment::new(&a, &cost, false).unwrap();
        found.augment_from_all(&cancel).unwrap();
        check_duals(&found);
        assert!(num_matched(&found) > n as usize / 4);
        assert!(found.augment(&cancel).unwrap());
        check_duals(&found);
        assert_eq!(num_matched(&found), n as usize);
    }
}
