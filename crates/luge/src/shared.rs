//! What an analysis and its factors have in common, whatever path they are on.

use std::borrow::Cow;
use std::sync::Arc;

use luge_ordering::OrderingOptions;
use luge_solve::refine;
use luge_sparse::num_traits::Float;
use luge_sparse::{
    CompressedPattern, Compression, FilledPattern, Index, Levels, MatrixRef, MatrixView,
    RealScalar, Reservation, Scalar, bytes_of,
};

use crate::backend::Limits;
use crate::engine::Transform;
use crate::error::{Error, PhaseError};
use crate::options::Options;
use crate::permuted::permuted_rows;
use crate::reductions::{all_stretches, largest_magnitude, same_integers};
use crate::stored::{Rows, pattern_of};
use crate::symmetry::Symmetry;
use crate::threads::Threads;

/// What an analysis and its factors have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub options: Arc<Options>,
    pub ordering: Arc<OrderingOptions>,
    pub limits: Limits,
    pub threads: Threads,
    /// The pattern that was analyzed, as it is stored; of a symmetric matrix all of it.
    pub pattern: Arc<CompressedPattern>,
    /// What is known of a symmetric matrix.
    pub symmetry: Option<Arc<Symmetry>>,
    /// What is reserved for both.
    pub _memory: Arc<Reservation>,
    /// Whether it is stored by columns.
    pub by_columns: bool,
    /// Whether it was analyzed without values.
    pub of_pattern_alone: bool,
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

    /// The pattern that callers store: a triangle, maybe.
    fn stored(&self) -> &CompressedPattern {
        let symmetry = self.symmetry.as_ref();
        let triangle = symmetry.and_then(|symmetry| symmetry.triangle());
        triangle.unwrap_or(&self.pattern)
    }

    /// Number of entries that callers store.
    pub(crate) fn stored_nnz(&self) -> usize {
        self.stored().nnz()
    }

    /// The values of all of the matrix and the largest magnitude among them, given those that are stored: they are refused
    /// if one of them is not finite, or a symmetric matrix is not symmetric.
    pub(crate) fn accepted<'a, T: Scalar>(
        &self,
        stored: Cow<'a, [T]>,
        threads: usize,
    ) -> Result<(Cow<'a, [T]>, f64), Error> {
        let largest = self.check_values(&stored, threads)?;
        let values = match &self.symmetry {
            None => stored,
            Some(symmetry) => symmetry.completed(stored, (&self.pattern, self.by_columns), threads),
        };
        Ok((values, largest))
    }

    /// The largest magnitude of values at the entries that callers store; refused as by [`accepted`](Self::accepted).
    pub(crate) fn check_values<T: Scalar>(
        &self,
        stored: &[T],
        threads: usize,
    ) -> Result<f64, Error> {
        let largest = self.check_finite(stored, threads)?;
        if let Some(symmetry) = &self.symmetry {
            let pattern = (&*self.pattern, self.by_columns);
            symmetry.check(stored, largest, pattern, threads)?;
        }
        Ok(largest)
    }

    /// Whether values of all entries are finite, and those of a symmetric matrix symmetric.
    pub(crate) fn are_sound<T: Scalar>(&self, whole: &[T]) -> bool {
        let largest = largest_magnitude(whole, 1);
        let is_symmetric = |symmetry: &Symmetry| {
            let pattern = (&*self.pattern, self.by_columns);
            symmetry.check_whole(whole, largest, pattern).is_ok()
        };
        largest.is_finite() && self.symmetry.as_deref().is_none_or(is_symmetric)
    }

    /// Row and column of entry `at` of the matrix, of all of a symmetric one.
    pub(crate) fn place_of(&self, at: usize) -> (usize, usize) {
        let outer = self.pattern.ptr().partition_point(|&p| p <= at as u64) - 1;
        self.place(outer, self.pattern.idx()[at] as usize)
    }

    /// The values that callers store, given those of all entries.
    pub(crate) fn stored_part<'a, T: Scalar>(&self, whole: &'a [T]) -> Cow<'a, [T]> {
        let source = self.symmetry.as_ref().and_then(|known| known.source());
        let Some(source) = source else {
            return Cow::Borrowed(whole);
        };
        let mut stored = vec![T::zero(); self.stored_nnz()];
        for (&p, &value) in source.iter().zip(whole) {
            stored[p as usize] = value;
        }
        if let Some(symmetry) = &self.symmetry {
            // Of those the last one may have been the counterpart.
            symmetry.visit_conjugated::<T>((&self.pattern, self.by_columns), |p| {
                stored[source[p] as usize] = whole[p].conjugate();
            });
        }
        Cow::Owned(stored)
    }

    /// The entries of all of the matrix, in ascending order, that have the values which callers store at these places.
    pub(crate) fn whole_places<'a>(&self, places: &'a [usize]) -> Cow<'a, [usize]> {
        let source = self.symmetry.as_ref().and_then(|known| known.source());
        let Some(source) = source else {
            return Cow::Borrowed(places);
        };
        let mut is_named = vec![false; self.stored_nnz()];
        places.iter().for_each(|&place| is_named[place] = true);
        let entries = (0..source.len()).filter(|&at| is_named[source[at] as usize]);
        Cow::Owned(entries.collect())
    }

    /// Whether values of all entries are by columns: those that a triangle was completed to are by rows, however it is stored,
    /// so that sums have one order.
    pub(crate) fn is_by_columns(&self) -> bool {
        let symmetry = self.symmetry.as_ref();
        let is_completed = symmetry.is_some_and(|symmetry| symmetry.triangle().is_some());
        self.by_columns && !is_completed
    }

    /// The matrix with these values, of all of its entries.
    pub(crate) fn view<'a, T: Scalar>(&'a self, values: &'a [T]) -> MatrixView<'a, T> {
        if self.is_by_columns() {
            MatrixView::by_columns(&self.pattern, values)
        } else {
            MatrixView::by_rows(&self.pattern, values)
        }
    }

    pub(crate) fn refinement<T: Scalar>(&self) -> refine::Options {
        refine::Options {
            max_steps: self.options.max_refinement_steps,
            target: self.target,
            epsilon: T::Real::epsilon().to_f64(),
            enough: None,
            cancel: self.options.cancel.clone(),
        }
    }

    /// Checks that there is one value for each entry.
    #[track_caller]
    pub(crate) fn check_count(&self, values: usize) {
        let nnz = self.stored_nnz();
        assert!(
            values == nnz,
            "there are {values} values; the matrix has {nnz} entries"
        );
    }

    /// The values of `a` at all entries of the analyzed matrix in stored order, zero where it has none, and the largest
    /// magnitude among them, if it has no entry that the analyzed matrix has not, they are finite, and those of a symmetric
    /// matrix symmetric. Threads share the comparison if there are several.
    pub(crate) fn values_of<'a, T: Scalar, I: Index>(
        &self,
        a: &MatrixRef<'a, T, I>,
        threads: usize,
    ) -> Result<(Cow<'a, [T]>, f64), Error> {
        self.accepted(self.stored_values_of(a, threads)?, threads)
    }

    /// As [`values_of`](Self::values_of) at the entries that callers store. Whether the values are finite, and symmetric, is
    /// not looked at.
    pub(crate) fn stored_values_of<'a, T: Scalar, I: Index>(
        &self,
        a: &MatrixRef<'a, T, I>,
        threads: usize,
    ) -> Result<Cow<'a, [T]>, Error> {
        let n = self.n();
        let (rows, cols) = (a.rows(), a.cols());
        if (rows, cols) != (n, n) {
            return Err(Error::OtherSize { rows, cols, n });
        }
        let values = if self.is_alike(a, threads) {
            Cow::Borrowed(a.values())
        } else {
            Cow::Owned(self.scattered(a, threads)?)
        };
        self.limits.cancel.check()?;
        Ok(values)
    }

    /// Whether `a` is stored in the way of the analyzed matrix; what follows says whether it is valid then.
    pub(crate) fn is_stored_alike<T, I: Index>(&self, a: &MatrixRef<'_, T, I>) -> bool {
        let pattern = a.pattern();
        (pattern.compression() == Compression::Columns) == self.by_columns
            && pattern.is_compact()
            && pattern.indices().len() == self.stored_nnz()
            && a.values().len() == self.stored_nnz()
    }

    /// Whether the arrays of `a` are those of the analyzed matrix, number for number: then they are valid, too.
    fn is_alike<T, I: Index>(&self, a: &MatrixRef<'_, T, I>, threads: usize) -> bool {
        let (offsets, indices) = (a.pattern().offsets(), a.pattern().indices());
        let (ptr, idx) = (self.stored().ptr(), self.stored().idx());
        if !self.is_stored_alike(a) || ptr.len() != offsets.len() {
            return false;
        }
        let first = offsets[0].to_u64();
        all_stretches(ptr.len(), threads, |range| {
            let differ = |ours: u64, theirs: I| ours ^ theirs.to_u64().wrapping_sub(first);
            same_integers(&ptr[range.clone()], &offsets[range], differ)
        }) && all_stretches(idx.len(), threads, |range| {
            let differ = |ours, theirs: I| u64::from(ours) ^ theirs.to_u64();
            same_integers(&idx[range.clone()], &indices[range], differ)
        })
    }

    /// The values of `a` at the entries of the analyzed matrix, zero where it has none.
    fn scattered<T: Scalar, I: Index>(
        &self,
        a: &MatrixRef<'_, T, I>,
        threads: usize,
    ) -> Result<Vec<T>, Error> {
        a.check()?;
        let cancel = &self.limits.cancel;
        let (n, nnz) = (self.n() as u64, a.nnz() as u64);
        // Its pattern, that the other way with the places of its entries, and the values in that order; the result.
        let ours = self.stored();
        let bytes = 32 * (n + 1) + 16 * nnz + bytes_of::<T>(a.nnz() + ours.nnz());
        let _memory = self.limits.reserve(bytes, "numeric")?;
        let pattern = a.pattern();
        let theirs = pattern_of(&pattern, threads, cancel)?;
        let values = if pattern.is_compact() {
            Cow::Borrowed(a.values())
        } else {
            let of_lines = (0..theirs.major_dim()).map(|at| &a.values()[pattern.range(at)]);
            Cow::Owned(of_lines.flatten().copied().collect::<Vec<T>>())
        };
        let by_columns = pattern.compression() == Compression::Columns;
        let (theirs, values) = if by_columns == self.by_columns {
            (theirs, values)
        } else {
            let (turned, map) = theirs.try_transpose_with_map(|| cancel.check())?;
            let values = map.iter().map(|&p| values[p as usize]).collect();
            (turned, Cow::Owned(values))
        };
        let mut scattered = vec![T::zero(); ours.nnz()];
        for outer in 0..self.n() {
            let mut places = ours.range(outer);
            for p in theirs.range(outer) {
                let inner = theirs.idx()[p];
                let at = places.find(|&q| ours.idx()[q] >= inner);
                match at.filter(|&q| ours.idx()[q] == inner) {
                    Some(at) => scattered[at] = values[p],
                    None => {
                        let (row, column) = self.place(outer, inner as usize);
                        return Err(Error::ExtraEntry { row, column });
                    }
                }
            }
        }
        Ok(scattered)
    }

    /// Row and column of an entry of the stored row or column `outer`.
    fn place(&self, outer: usize, inner: usize) -> (usize, usize) {
        if self.by_columns {
            (inner, outer)
        } else {
            (outer, inner)
        }
    }

    /// The largest magnitude of values in stored order, which are refused if one of them is not finite.
    pub(crate) fn check_finite<T: Scalar>(
        &self,
        values: &[T],
        threads: usize,
    ) -> Result<f64, Error> {
        let largest = largest_magnitude(values, threads);
        if !largest.is_nan() {
            return Ok(largest);
        }
        let at = values.iter().position(|v| !v.is_number());
        let at = at.unwrap_or_else(|| unreachable!("one of them made it NaN"));
        Err(self.not_finite(at))
    }

    /// The error of the entry that callers store at place `at`.
    pub(crate) fn not_finite(&self, at: usize) -> Error {
        let stored = self.stored();
        let outer = stored.ptr().partition_point(|&p| p <= at as u64) - 1;
        let inner = stored.idx()[at] as usize;
        let (row, column) = self.place(outer, inner);
        Error::NotFinite { row, column }
    }

    /// The rows of the matrix so permuted.
    pub(crate) fn rows_of_b(&self, transform: &Transform) -> Result<CompressedPattern, Error> {
        let rows = Rows::new(&self.pattern, self.by_columns, &self.limits.cancel)?;
        Ok(permuted_rows(&rows.pattern, transform).0)
    }

    /// Filled pattern and levels of the matrix so permuted, for static pivots.
    pub(crate) fn host_structure(
        &self,
        transform: Transform,
    ) -> Result<(FilledPattern, Levels), Error> {
        let permuted = self.rows_of_b(&transform)?;
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

#[cfg(test)]
impl Shared {
    /// Of a pattern by rows and default options, on one thread.
    pub(crate) fn of_rows(pattern: &CompressedPattern) -> Self {
        Self {
            options: Arc::default(),
            ordering: Arc::default(),
            limits: Limits::default(),
            threads: Threads::new(Some(1)).unwrap(),
            pattern: Arc::new(pattern.clone()),
            symmetry: None,
            _memory: Arc::default(),
            by_columns: false,
            of_pattern_alone: false,
            target: 1e-12,
        }
    }
}
