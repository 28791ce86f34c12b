//! L and U of the whole matrix, for callers who want them as matrices.
//!
//! The factors of the diagonal blocks are there; what is missing is the part of U above them, for the entries of B stay
//! as they are there. It is L⁻¹ times these entries, column by column, and L is block diagonal: so each column takes a
//! triangular solve with a sparse right-hand side, whose pivots come out of a heap in their order.
//!
//! Cost: the entries of L and U, sorted, and a logarithm more for each operation above the diagonal blocks. That part may fill,
//! which no solve needs; so nothing here is kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use luge_frontal::FrontalScalar;
use luge_sparse::etree::inverse;
use luge_sparse::{CancelFlag, MemoryBudget, Reservation, bytes_of};

use super::{BlockLu, Kind};
use crate::error::NumericError;

/// Columns between two looks at the cancel flag.
const STRIDE: usize = 64;

/// A triangular matrix by columns, rows ascending.
#[derive(Debug, Clone)]
pub struct Triangle<F> {
    /// Where each column begins, and where the last one ends.
    pub ptr: Vec<usize>,
    /// Rows.
    pub idx: Vec<u32>,
    /// Values; none but those of the diagonal is zero.
    pub values: Vec<F>,
}

/// L and U of a whole matrix, see [`BlockLu::whole`].
#[derive(Debug, Clone)]
pub struct Whole<F> {
    /// Pivot p is in this row, as rows are in the order of the factors.
    pub rows: Vec<u32>,
    /// Pivot p is in this column of B.
    pub cols: Vec<u32>,
    /// L with its unit diagonal.
    pub lower: Triangle<F>,
    /// U with its diagonal.
    pub upper: Triangle<F>,
    /// What is reserved for both, their values in the [wide](luge_sparse::Scalar::Wide) type.
    pub memory: Reservation,
}

/// Entries of a matrix in any order, in memory that is reserved first.
struct Entries<F> {
    entries: Vec<(u32, u32, F)>,
    memory: Reservation,
}

impl<F: FrontalScalar> Entries<F> {
    fn with_capacity(count: usize, memory: &MemoryBudget) -> Result<Self, NumericError> {
        Ok(Self {
            memory: memory.reserve(bytes_of::<(u32, u32, F)>(count))?,
            entries: Vec::with_capacity(count),
        })
    }

    /// Adds an entry; zeros are left out off the diagonal.
    fn push(&mut self, row: u32, column: u32, value: F) -> Result<(), NumericError> {
        if value.is_zero() && row != column {
            return Ok(());
        }
        if self.entries.len() == self.entries.capacity() {
            // The old ones are there until they are copied.
            let more = self.entries.len().max(64);
            let old = bytes_of::<(u32, u32, F)>(self.entries.len());
            let held = self.memory.bytes();
            self.memory.grow(bytes_of::<(u32, u32, F)>(more) + old)?;
            self.entries.reserve_exact(more);
            self.memory
                .shrink_to(held + bytes_of::<(u32, u32, F)>(more));
        }
        self.entries.push((row, column, value));
        Ok(())
    }

    /// Sorts them into columns; with what is reserved for these.
    fn into_triangle(mut self, n: usize) -> Result<(Triangle<F>, Reservation), NumericError> {
        let count = self.entries.len();
        let bytes = bytes_of::<usize>(n + 1) + bytes_of::<u32>(count) + bytes_of::<F::Wide>(count);
        self.memory.grow(bytes)?;
        self.entries
            .sort_unstable_by_key(|&(row, column, _)| (column, row));
        let mut ptr = vec![0; n + 1];
        for &(_, column, _) in &self.entries {
            ptr[column as usize + 1] += 1;
        }
        for j in 0..n {
            ptr[j + 1] += ptr[j];
        }
        let triangle = Triangle {
            ptr,
            idx: self.entries.iter().map(|&(row, ..)| row).collect(),
            values: self.entries.iter().map(|&(.., value)| value).collect(),
        };
        drop(self.entries);
        self.memory.shrink_to(bytes);
        Ok((triangle, self.memory))
    }
}

impl<F: FrontalScalar> BlockLu<F> {
    /// L and U of all of B: with its rows in the order of the factors, entry (`rows[p]`, `cols[q]`) of B is entry (p, q) of
    /// L·U.
    ///
    /// # Errors
    ///
    /// [`NumericError::OutOfMemory`], [`NumericError::Cancelled`].
    pub fn whole(
        &self,
        memory: &MemoryBudget,
        cancel: &CancelFlag,
    ) -> Result<Whole<F>, NumericError> {
        let n = self.plan.n;
        let _of_vectors = memory.reserve(bytes_of::<F>(n) + 40 * n as u64)?;
        let (rows, cols) = self.pivot_places();
        let (new_row, new_col) = (inverse(&rows), inverse(&cols));
        let (lower, mut held) = self.whole_lower(&new_row, memory, cancel)?;
        let (upper, of_upper) = self.whole_upper(&lower, &new_row, &new_col, memory, cancel)?;
        held.absorb(of_upper);
        Ok(Whole {
            rows,
            cols,
            lower,
            upper,
            memory: held,
        })
    }

    /// Rows of the factors and columns of B in the order of the pivots.
    fn pivot_places(&self) -> (Vec<u32>, Vec<u32>) {
        let n = self.plan.n;
        let (mut rows, mut cols) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for step in &self.plan.steps {
            match step.kind {
                Kind::Singletons(_) | Kind::Columns(_) => {
                    let here = step.columns.clone().map(|j| j as u32);
                    rows.extend(here.clone());
                    cols.extend(here);
                }
                Kind::Front(front) => {
                    let start = step.columns.start;
                    for (row, col, _) in self.fronts[front].pivots() {
                        rows.push((start + row) as u32);
                        cols.push((start + col) as u32);
                    }
                }
            }
        }
        (rows, cols)
    }

    fn whole_lower(
        &self,
        new_row: &[u32],
        memory: &MemoryBudget,
        cancel: &CancelFlag,
    ) -> Result<(Triangle<F>, Reservation), NumericError> {
        let mut lower = Entries::with_capacity(self.lnz() as usize, memory)?;
        for step in &self.plan.steps {
            cancel.check()?;
            let start = step.columns.start;
            for j in step.columns.clone() {
                lower.push(j as u32, j as u32, F::one())?;
            }
            match step.kind {
                Kind::Singletons(first) | Kind::Columns(first) => {
                    for j in step.columns.clone() {
                        let (idx, values) = self.columns.lower(first + j - start);
                        for (&i, &value) in idx.iter().zip(values) {
                            lower.push((i as usize + start - first) as u32, j as u32, value)?;
                        }
                    }
                }
                Kind::Front(front) => {
                    let mut pushed = Ok(());
                    self.fronts[front].for_each_l(|row, pivot, value| {
                        if pushed.is_ok() {
                            let row = new_row[start + row];
                            pushed = lower.push(row, (start + pivot) as u32, value);
                        }
                    });
                    pushed?;
                }
            }
        }
        lower.into_triangle(self.plan.n)
    }

    fn whole_upper(
        &self,
        lower: &Triangle<F>,
        new_row: &[u32],
        new_col: &[u32],
        memory: &MemoryBudget,
        cancel: &CancelFlag,
    ) -> Result<(Triangle<F>, Reservation), NumericError> {
        let mut upper = Entries::with_capacity(self.unz() as usize, memory)?;
        for step in &self.plan.steps {
            cancel.check()?;
            let start = step.columns.start;
            match step.kind {
                Kind::Singletons(first) | Kind::Columns(first) => {
                    for j in step.columns.clone() {
                        let local = first + j - start;
                        upper.push(j as u32, j as u32, self.columns.pivots()[local])?;
                        let (idx, values) = self.columns.upper(local);
                        for (&i, &value) in idx.iter().zip(values) {
                            upper.push((i as usize + start - first) as u32, j as u32, value)?;
                        }
                    }
                }
                Kind::Front(front) => {
                    let mut pushed = Ok(());
                    self.fronts[front].for_each_u(|pivot, col, value| {
                        if pushed.is_ok() {
                            let column = new_col[start + col];
                            pushed = upper.push((start + pivot) as u32, column, value);
                        }
                    });
                    pushed?;
                }
            }
        }
        let mut column = SparseColumn::new(self.plan.n);
        for (j, &at) in new_col.iter().enumerate() {
            if j.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            for (i, value) in self.above(j) {
                column.add(new_row[i], value);
            }
            while let Some((pivot, value)) = column.pop() {
                upper.push(pivot, at, value)?;
                let below = lower.ptr[pivot as usize] + 1..lower.ptr[pivot as usize + 1];
                for (&i, &l) in lower.idx[below.clone()].iter().zip(&lower.values[below]) {
                    column.add(i, -(l * value));
                }
            }
        }
        upper.into_triangle(self.plan.n)
    }
}

/// A column whose entries come out in the order of their rows, while others are added below them.
struct SparseColumn<F> {
    values: Vec<F>,
    is_there: Vec<bool>,
    rows: BinaryHeap<Reverse<u32>>,
}

impl<F: FrontalScalar> SparseColumn<F> {
    fn new(n: usize) -> Self {
        Self {
            values: vec![F::zero(); n],
            is_there: vec![false; n],
            rows: BinaryHeap::new(),
        }
    }

    fn add(&mut self, row: u32, value: F) {
        let at = row as usize;
        if !std::mem::replace(&mut self.is_there[at], true) {
            self.rows.push(Reverse(row));
        }
        self.values[at] += value;
    }

    fn pop(&mut self) -> Option<(u32, F)> {
        let Reverse(row) = self.rows.pop()?;
        self.is_there[row as usize] = false;
        let value = std::mem::replace(&mut self.values[row as usize], F::zero());
        Some((row, value))
    }
}
