//! Left-looking LU by columns, for matrices with few operations per entry: circuits, power grids.
//!
//! | file | what |
//! |---|---|
//! | `factorize` | pivots are searched (Gilbert and Peierls 1988), or given by the diagonal |
//! | `subtrees` | which columns threads factorize side by side |
//! | `reach` | the set of columns that a column still has to subtract |
//! | `plan`, `refactorize` | new values on the pattern and the pivots of a finished factorization |
//! | `solve` | both triangular solves and their transposes, on one diagonal block, for many vectors |
//! | `changed` | which columns follow from entries that changed, and what is kept of the others |
//! | `check` | growth and checksum, measured while the columns are at hand |
//! | `parts` | factors that are written down, and put together again |
//!
//! The matrix may be block diagonal; the columns of a block never lead to another block, so blocks
//! need no mention but in the solves, which take the columns of one block. A block of one column costs
//! a few operations.
//!
//! # When a matrix is singular
//!
//! A candidate x(i) is the sum of b(i) and of products −l(i,k)·u(k). Rounding alone can make it as
//! large as a few ε·s(i), s(i) being the sum of the magnitudes of these terms. If every candidate of
//! a column is at most 8 ε · s(i), nothing in the column is known to differ
//! from zero, and the matrix is refused with that column. The test is invariant under scaling of
//! rows and columns and never refuses a triangular matrix with a nonzero diagonal, however
//! ill-conditioned.
//!
//! Cost: O(flops) time; memory for L and U as found, and O(n).

mod changed;
mod check;
mod factorize;
mod parts;
mod plan;
mod reach;
mod refactorize;
mod solve;
mod subtrees;

pub use parts::{ColumnParts, ColumnPartsError, TriangleParts};
pub(super) use refactorize::Renewal;
pub(super) use subtrees::Subtrees;

use std::ops::Range;
use std::sync::OnceLock;

use luge_sparse::{
    CancelFlag, Cancelled, CompressedPattern, MemoryBudget, OutOfMemory, PivotPolicy, RealScalar,
    Reservation, RowPerm, Scalar, bytes_of, larger,
};

use crate::pattern::LuPattern;

/// How pivots are chosen, and what the phase may use.
#[derive(Debug, Clone)]
pub struct Options {
    /// How pivots are chosen. Static ones are the diagonal.
    pub pivots: PivotPolicy,
    /// Threads of rayon's current pool that may work; 1: none but the caller's.
    pub threads: usize,
    /// How many entries of L below the diagonal and of U above it are expected, so that room is made for
    /// them at once; more or fewer is no error.
    pub expected: (usize, usize),
    /// Largest size of L and U in bytes; `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Where all memory is reserved before it is allocated.
    pub memory: MemoryBudget,
    /// Stops the phase when raised.
    pub cancel: CancelFlag,
}

/// A searched column is singular if all its candidates are at most this many ε times the sum of the magnitudes of their
/// terms.
const SINGULAR: f64 = 8.0;

impl Default for Options {
    /// Pivots searched with threshold 0.001, as KLU has it; one thread; no limits.
    fn default() -> Self {
        Self {
            pivots: PivotPolicy::threshold(1e-3),
            threads: 1,
            expected: (0, 0),
            max_bytes: None,
            memory: MemoryBudget::unlimited(),
            cancel: CancelFlag::new(),
        }
    }
}

/// The factors of P·B = L·U for the row permutation that pivoting chose.
///
/// Rows count as in P·B. L without its unit diagonal, U without its diagonal and the diagonal are
/// held apart, L and U by columns.
#[derive(Debug, Clone)]
pub struct ColumnLu<F: Scalar> {
    row_perm: RowPerm,
    lower: Columns<F>,
    upper: Columns<F>,
    /// The diagonal of U.
    pivots: Vec<F>,
    /// One over it; made by the first solve or refactorization.
    inverse_pivots: OnceLock<Vec<F>>,
    /// Whether all of `inverse_pivots` are finite and accurate.
    is_invertible: bool,
    /// Made by the first solve.
    entries_of: OnceLock<solve::Entries>,
    /// Whether a diagonal block may begin at the column.
    is_boundary: Vec<bool>,
    /// ‖ |L|·|U|·e_k ‖₁ by column.
    products: Vec<f64>,
    /// Entries of B.
    entries: usize,
    /// Multiplications, divisions and subtractions of the factorization.
    flops: u64,
    /// Pivots not taken from the diagonal of B.
    num_off_diagonal: usize,
    /// What `refactorize` needs; empty before its first call.
    plan: Option<Box<plan::Plan<F>>>,
    /// What is reserved for the factors, and for the plan with the reciprocals of the pivots.
    memory: Reservation,
    of_plan: Reservation,
}

/// Columns between two looks at the cancel flag.
const STRIDE: usize = 64;

/// Bytes of the pivot, the row, the boundary and the product of each column.
fn per_column<F>() -> usize {
    size_of::<F>() + 5 + size_of::<f64>()
}

/// Entries that it is not worth moving the others for.
const SMALL_WASTE: usize = 256;

/// Elements for which there is room, at least, where there is any: a short column's.
const FEW: usize = 16;

/// Makes room for `more` elements, by half of what is there if that can be reserved, else for no more than these. While
/// they are moved, the old ones are there, too.
#[inline(always)]
fn grow<T>(of: &mut Vec<T>, more: usize, memory: &mut Reservation) -> Result<(), OutOfMemory> {
    if of.capacity() - of.len() >= more {
        return Ok(());
    }
    reallocate(of, more, memory)
}

/// As [`grow`], where there is no room.
#[cold]
fn reallocate<T>(
    of: &mut Vec<T>,
    more: usize,
    memory: &mut Reservation,
) -> Result<(), OutOfMemory> {
    let (len, before) = (of.len(), of.capacity());
    let generous = more.max(before / 2).max(FEW);
    let wanted = if memory.grow(bytes_of::<T>(len + generous)).is_ok() {
        generous
    } else {
        memory.grow(bytes_of::<T>(len + more))?;
        more
    };
    let reserved = memory.bytes() - bytes_of::<T>(len + wanted);
    of.reserve_exact(wanted);
    memory.shrink_to(reserved - bytes_of::<T>(before) + bytes_of::<T>(of.capacity()));
    Ok(())
}

/// One set of compressed columns. Within a column of U, an entry comes after those that change it.
#[derive(Debug, Clone)]
struct Columns<F> {
    ptr: Vec<usize>,
    idx: Vec<u32>,
    values: Vec<F>,
}

impl<F: Scalar> Columns<F> {
    fn with_capacity(n: usize, nnz: usize) -> Self {
        let mut ptr = Vec::with_capacity(n + 1);
        ptr.push(0);
        Self {
            ptr,
            idx: Vec::with_capacity(nnz),
            values: Vec::with_capacity(nnz),
        }
    }

    /// Bytes of the indices and values that there is room for.
    fn room(&self) -> u64 {
        bytes_of::<u32>(self.idx.capacity()) + bytes_of::<F>(self.values.capacity())
    }

    /// Whether there is no room for an entry more.
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.idx.len() == self.idx.capacity() || self.values.len() == self.values.capacity()
    }

    /// Makes room for more entries, by half as many as there are if that can be reserved.
    #[cold]
    fn grow(&mut self, more: usize, memory: &mut Reservation) -> Result<(), OutOfMemory> {
        grow(&mut self.idx, more, memory)?;
        grow(&mut self.values, more, memory)
    }

    /// Gives back memory that is not used, if it is a large part.
    fn shrink(&mut self, memory: &mut Reservation) {
        let is_large = self.idx.capacity() > self.idx.len() + (self.idx.len() / 8).max(SMALL_WASTE);
        // For a moment there is both.
        let copy = bytes_of::<F>(self.values.len());
        if is_large && memory.grow(copy).is_ok() {
            let before = self.room();
            self.idx.shrink_to_fit();
            self.values.shrink_to_fit();
            memory.shrink_to(memory.bytes() - copy - (before - self.room()));
        }
    }

    /// There must be room.
    #[inline(always)]
    fn push(&mut self, row: u32, value: F) {
        self.idx.push(row);
        self.values.push(value);
    }

    fn range(&self, j: usize) -> Range<usize> {
        self.ptr[j]..self.ptr[j + 1]
    }

    fn column(&self, j: usize) -> (&[u32], &[F]) {
        (&self.idx[self.range(j)], &self.values[self.range(j)])
    }

    /// As [`column`](Self::column).
    ///
    /// # Safety
    ///
    /// There is a column `j`.
    #[inline(always)]
    unsafe fn column_unchecked(&self, j: usize) -> (&[u32], &[F]) {
        // SAFETY: the starts of columns increase up to the number of entries.
        unsafe {
            let range = *self.ptr.get_unchecked(j)..*self.ptr.get_unchecked(j + 1);
            (
                self.idx.get_unchecked(range.clone()),
                self.values.get_unchecked(range),
            )
        }
    }

    fn bytes(&self) -> u64 {
        (size_of_val(&*self.ptr) + size_of_val(&*self.idx) + size_of_val(&*self.values)) as u64
    }
}

impl<F: Scalar> ColumnLu<F> {
    /// Row `i` of L·U is row `row_perm[i]` of B.
    pub fn row_perm(&self) -> &RowPerm {
        &self.row_perm
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.pivots.len()
    }

    /// Entries of L below the diagonal.
    pub fn lnz(&self) -> usize {
        self.lower.idx.len()
    }

    /// Entries of U above the diagonal.
    pub fn unz(&self) -> usize {
        self.upper.idx.len()
    }

    /// Multiplications, divisions and subtractions of the factorization.
    pub fn flops(&self) -> u64 {
        self.flops
    }

    /// Pivots not taken from the diagonal of B.
    pub fn num_off_diagonal(&self) -> usize {
        self.num_off_diagonal
    }

    fn inverse_pivots(&self) -> &[F] {
        self.inverse_pivots
            .get_or_init(|| self.pivots.iter().map(|pivot| pivot.reciprocal()).collect())
    }

    /// Bytes held: factors and what `refactorize` keeps.
    pub fn bytes(&self) -> u64 {
        self.lower.bytes()
            + self.upper.bytes()
            + (self.n() * per_column::<F>()) as u64
            + self
                .inverse_pivots
                .get()
                .map_or(0, |i| size_of_val(&**i) as u64)
            + self.entries_of.get().map_or(0, solve::Entries::bytes)
            + self.plan.as_ref().map_or(0, |plan| plan.bytes())
    }

    /// Bytes that the first solve adds.
    pub fn solve_bytes(&self) -> u64 {
        let inverse = match self.inverse_pivots.get() {
            Some(_) => 0,
            None => bytes_of::<F>(self.n()),
        };
        let entries = match self.entries_of.get() {
            Some(_) => 0,
            None => solve::Entries::bytes_of(&self.lower, &self.upper),
        };
        inverse + entries
    }

    /// Bytes that factors of order `n` take, before the first solve, with `lnz` entries of L below and
    /// `unz` entries of U above the diagonal.
    pub fn estimate_bytes(n: usize, lnz: u64, unz: u64) -> u64 {
        (lnz + unz) * (4 + size_of::<F>() as u64)
            + (n as u64 + 1) * (2 * size_of::<usize>() as u64)
            + (n * per_column::<F>()) as u64
    }

    /// Rows and values of L(·, j) below the diagonal, in no order.
    pub fn lower(&self, j: usize) -> (&[u32], &[F]) {
        self.lower.column(j)
    }

    /// Rows and values of U(·, j) above the diagonal, each after those that change it.
    pub fn upper(&self, j: usize) -> (&[u32], &[F]) {
        self.upper.column(j)
    }

    /// The diagonal of U.
    pub fn pivots(&self) -> &[F] {
        &self.pivots
    }

    /// ‖ |L|·|U|·e_k ‖₁ by column.
    pub(in crate::cpu) fn products(&self) -> &[f64] {
        &self.products
    }

    /// For each column of a diagonal `block`, the largest weight of a row in which |L|·|U| has an entry; rows count from the
    /// first of the block on.
    pub(in crate::cpu) fn largest_weights(
        &self,
        block: Range<usize>,
        rows: &[f64],
    ) -> impl Iterator<Item = f64> {
        let first = block.start;
        let larger = |a: f64, b: f64| if a > b { a } else { b };
        // Of the columns of L so far.
        let mut of_lower: Vec<f64> = Vec::with_capacity(block.len());
        block.map(move |k| {
            let below = self.lower(k).0.iter().map(|&i| rows[i as usize - first]);
            let own = below.fold(rows[k - first], larger);
            let above = self
                .upper(k)
                .0
                .iter()
                .map(|&j| of_lower[j as usize - first]);
            let largest = above.fold(own, larger);
            of_lower.push(own);
            largest
        })
    }

    /// max over columns k of a diagonal `block` of cols(k)·Σ_i rows(i)·(|L|·|U|)(i,k), with weights for the rows and columns
    /// of the block, from 0 on. NaN if a term is.
    pub(in crate::cpu) fn product_norm(
        &self,
        block: Range<usize>,
        rows: &[f64],
        cols: &[f64],
        cancel: &CancelFlag,
    ) -> Result<f64, Cancelled> {
        let first = block.start;
        let magnitude = |value: &F| value.magnitude().to_f64();
        // Σ_i rows[i]·|L(i,j)| of the columns so far, with the unit diagonal.
        let mut sums = Vec::with_capacity(block.len());
        let mut norm = 0.0;
        for (k, &weight) in block.zip(cols) {
            if (k - first).is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let (idx, values) = self.lower(k);
            let below = idx.iter().zip(values);
            let below = below.map(|(&i, value)| rows[i as usize - first] * magnitude(value));
            let sum = rows[k - first] + below.sum::<f64>();
            sums.push(sum);
            let (idx, values) = self.upper(k);
            let above = idx.iter().zip(values);
            let above = above.map(|(&j, value)| sums[j as usize - first] * magnitude(value));
            let product = sum * magnitude(&self.pivots[k]) + above.sum::<f64>();
            norm = larger(norm, weight * product);
        }
        Ok(norm)
    }

    /// L+U as one sorted CSC pattern with its values, the diagonal being that of U. Entries that
    /// cancel stay in it.
    pub fn merged(&self) -> (LuPattern, Vec<F>) {
        let n = self.n();
        let nnz = self.lnz() + self.unz() + n;
        let mut ptr = Vec::with_capacity(n + 1);
        ptr.push(0u64);
        let mut idx = Vec::with_capacity(nnz);
        let mut values = Vec::with_capacity(nnz);
        let mut column: Vec<(u32, F)> = Vec::new();
        for j in 0..n {
            let ((above, u), (below, l)) = (self.upper(j), self.lower(j));
            column.clear();
            column.extend(above.iter().copied().zip(u.iter().copied()));
            column.push((j as u32, self.pivots[j]));
            column.extend(below.iter().copied().zip(l.iter().copied()));
            column.sort_unstable_by_key(|&(row, _)| row);
            idx.extend(column.iter().map(|&(row, _)| row));
            values.extend(column.iter().map(|&(_, value)| value));
            ptr.push(idx.len() as u64);
        }
        let cols = CompressedPattern::new(n, ptr, idx)
            .unwrap_or_else(|e| unreachable!("columns are sorted and in range: {e}"));
        let pattern = LuPattern::from_columns(cols)
            .unwrap_or_else(|j| unreachable!("column {j} has its pivot on the diagonal"));
        (pattern, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_grow_by_half_where_the_budget_has_room_for_both_else_by_what_they_need() {
        let budget = MemoryBudget::new(5500);
        let mut memory = budget.reserve_for::<u64>(200).unwrap();
        let mut numbers: Vec<u64> = Vec::with_capacity(200);
        numbers.resize(190, 0);
        let state = |numbers: &Vec<u64>, memory: &Reservation| (numbers.capacity(), memory.bytes());
        // There is room for ten more.
        grow(&mut numbers, 10, &mut memory).unwrap();
        assert_eq!(state(&numbers, &memory), (200, 1600));
        // Not for eleven: half of 200 is added to 190. For a moment there are 1600 and 2320 bytes.
        grow(&mut numbers, 11, &mut memory).unwrap();
        assert_eq!(state(&numbers, &memory), (290, 2320));
        // Another 145 would take 3480 bytes beside these, ten take 2400.
        numbers.resize(290, 0);
        grow(&mut numbers, 10, &mut memory).unwrap();
        assert_eq!(state(&numbers, &memory), (300, 2400));
        // Not even what is needed: nothing changes.
        numbers.resize(300, 0);
        assert!(grow(&mut numbers, 200, &mut memory).is_err());
        assert_eq!(state(&numbers, &memory), (300, 2400));
        assert_eq!(budget.available(), 5500 - 2400);
    }

    #[test]
    fn the_budget_lacks_what_factors_report_and_the_room_that_they_have_left() {
        let cols = CompressedPattern::new(3, vec![0, 3, 6, 9], [0, 1, 2].repeat(3)).unwrap();
        let values = [4.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 4.0];
        let options = Options {
            memory: MemoryBudget::new(1 << 20),
            ..Options::default()
        };
        let (mut lu, _) = ColumnLu::factorize(&cols, &values, &options).unwrap();
        let left = lu.lower.room() + lu.upper.room() - 12 * (3 + 3);
        assert_eq!((1 << 20) - options.memory.available(), lu.bytes() + left);
        // The plan of a refactorization, and up to as much to make it.
        let factors = lu.bytes();
        lu.refactorize(&cols, &values, &options).unwrap();
        let plan = lu.bytes() - factors;
        assert!((plan..=2 * plan).contains(&lu.of_plan.bytes()));
        drop(lu);
        assert_eq!(options.memory.available(), 1 << 20);
    }
}
