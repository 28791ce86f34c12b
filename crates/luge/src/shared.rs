//! What an analysis and its factors have in common, whatever path they are on.

use std::borrow::Cow;
use std::sync::Arc;

use luge_ordering::OrderingOptions;
use luge_solve::refine;
use luge_sparse::{
    Cancelled, CompressedPattern, FilledPattern, Levels, MatrixView, Reservation, Scalar,
};
use sprs::CsMat;

use crate::backend::Limits;
use crate::engine::Transform;
use crate::error::{Error, PhaseError};
use crate::lanes::{all_stretches, largest_magnitude, same_integers};
use crate::options::Options;
use crate::permuted::permuted_rows;
use crate::stored::{Rows, by_rows, first_offset, pattern_of};
use crate::threads::Threads;

/// What an analysis and its factors have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub options: Arc<Options>,
    pub ordering: Arc<OrderingOptions>,
    pub limits: Limits,
    pub threads: Threads,
    /// The pattern that was analyzed, as it is stored.
    pub pattern: Arc<CompressedPattern>,
    /// What is reserved for it.
    pub _memory: Arc<Reservation>,
    /// Whether it is stored by columns.
    pub by_columns: bool,
    /// Normwise backward error to reach.
    pub target: f64,
}

impl Shared {
    pub(crate) fn n(&self) -> usize {
        self.pattern.major_dim()
    }

    pub(crate) fn nnz(&self) -> usize {
        self.pattern.nnz()
    }

    /// The matrix with these values in stored order.
    pub(crate) fn view<'a, T: Scalar>(&'a self, values: &'a [T]) -> MatrixView<'a, T> {
        if self.by_columns {
            MatrixView::by_columns(&self.pattern, values)
        } else {
            MatrixView::by_rows(&self.pattern, values)
        }
    }

    pub(crate) fn refinement<T: Scalar>(&self) -> refine::Options {
        refine::Options {
            max_steps: self.options.max_refinement_steps,
            target: self.target,
            epsilon: T::epsilon().to_f64(),
            stops_at_target: false,
            cancel: self.options.cancel.clone(),
        }
    }

    /// The values of `a` in stored order and the largest magnitude among them, if it has the analyzed pattern and they are
    /// finite. Threads share the comparison if there are several.
    pub(crate) fn values_of<'a, T: Scalar>(
        &self,
        a: &'a CsMat<T>,
        threads: usize,
    ) -> Result<(Cow<'a, [T]>, f64), Error> {
        let n = self.n();
        if a.shape() != (n, n) {
            let (rows, cols) = a.shape();
            return Err(Error::OtherSize { rows, cols, n });
        }
        if a.is_csr() == self.by_columns {
            // Its offsets, indices and values, and how far each row or column is filled.
            let bytes = 32 * (n as u64 + 1) + (8 + size_of::<T>() as u64) * 2 * a.nnz() as u64;
            let _memory = self.limits.reserve(bytes, "numeric")?;
            let other_way = a.to_other_storage();
            let (values, largest) = self.values_of(&other_way, threads)?;
            return Ok((Cow::Owned(values.into_owned()), largest));
        }
        let offsets = a.indptr();
        let (ptr, other_ptr) = (self.pattern.ptr(), offsets.raw_storage());
        let (idx, other_idx) = (self.pattern.idx(), a.indices());
        let first = first_offset(other_ptr);
        let same = ptr.len() == other_ptr.len()
            && idx.len() == other_idx.len()
            && all_stretches(ptr.len(), threads, |range| {
                let differ = |a: u64, b: usize| a ^ (b - first) as u64;
                same_integers(&ptr[range.clone()], &other_ptr[range], differ)
            })
            && all_stretches(idx.len(), threads, |range| {
                let differ = |a, b| u64::from(a) ^ b as u64;
                same_integers(&idx[range.clone()], &other_idx[range], differ)
            });
        if !same {
            return Err(Error::PatternMismatch {
                row: self.first_other_row(a)?,
            });
        }
        self.limits.cancel.check()?;
        let values = a.data();
        let largest = self.check_finite(values, threads)?;
        Ok((Cow::Borrowed(values), largest))
    }

    /// The largest magnitude of values in stored order, which are refused if one of them is not finite.
    pub(crate) fn check_finite<T: Scalar>(
        &self,
        values: &[T],
        threads: usize,
    ) -> Result<f64, Error> {
        let largest = largest_magnitude(values, threads, |v| v.to_f64());
        if !largest.is_nan() {
            return Ok(largest);
        }
        let at = values.iter().position(|v| !v.is_finite());
        let at = at.unwrap_or_else(|| unreachable!("one of them made it NaN"));
        let outer = self.pattern.ptr().partition_point(|&p| p <= at as u64) - 1;
        let inner = self.pattern.idx()[at] as usize;
        let (row, column) = if self.by_columns {
            (inner, outer)
        } else {
            (outer, inner)
        };
        Err(Error::NotFinite { row, column })
    }

    /// The first row in which `a` has other entries than the analyzed matrix.
    fn first_other_row<T: Scalar>(&self, a: &CsMat<T>) -> Result<usize, Cancelled> {
        let cancel = &self.limits.cancel;
        let ours = Rows::new(&self.pattern, self.by_columns, cancel)?;
        let theirs = pattern_of(&by_rows(a), 1, cancel)?;
        let row = (0..self.n()).find(|&row| ours.pattern.lane(row) != theirs.lane(row));
        Ok(row.unwrap_or(0))
    }

    /// Filled pattern and levels of the matrix so permuted, for static pivots.
    pub(crate) fn host_structure(
        &self,
        transform: Transform,
    ) -> Result<(FilledPattern, Levels), Error> {
        let rows = Rows::new(&self.pattern, self.by_columns, &self.limits.cancel)?;
        let permuted = permuted_rows(&rows.pattern, &transform).0;
        let translate = |e: PhaseError| e.in_terms_of_a(transform.col_perm.as_slice());
        // About what a thread takes for an entry of the matrix.
        let seconds = 50e-9 * permuted.nnz() as f64;
        let filled = self
            .threads
            .run(seconds, |threads| {
                let options = luge_symbolic::cpu::Options {
                    cancel: self.limits.cancel.clone(),
                    max_bytes: self
                        .limits
                        .max_host_bytes
                        .map(|_| self.limits.memory.available()),
                    threads,
                };
                luge_symbolic::cpu::filled_pattern_with(&permuted, &options)
            })
            .map_err(|e| translate(e.into()))?;
        let levels = luge_levelize::cpu::levels_cancellable(&filled, &self.limits.cancel)
            .map_err(|e| translate(e.into()))?;
        Ok((filled, levels))
    }
}
