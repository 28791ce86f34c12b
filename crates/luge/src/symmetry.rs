//! Symmetric and Hermitian matrices as callers store them: whole, or one of their triangles.

use std::borrow::Cow;
use std::ops::Range;

use luge_frontal::Grouped;
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, Form, Limits, Scalar};
use rayon::prelude::*;

use crate::error::Error;
use crate::options::{MatrixKind, SymmetricKind};
use crate::permuted::grouped_within;
use crate::reductions;

/// How a symmetric matrix is stored, and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Symmetry {
    pub kind: SymmetricKind,
    /// What counterparts across the diagonal are; of a real matrix equal.
    pub form: Form,
    storage: Storage,
}

#[derive(Debug, Clone)]
enum Storage {
    /// One triangle: its pattern, and for each entry of the whole matrix where its value stands among those of the triangle.
    Triangle {
        pattern: CompressedPattern,
        source: Vec<u32>,
    },
    /// All of it: for each entry the place of its counterpart across the diagonal.
    Whole { mirror: Vec<u32> },
}

/// Entries of a matrix that is declared symmetric may differ from their counterparts by this times the largest magnitude:
/// sums of finite elements come in another order there.
const ASYMMETRY: f64 = 1e-10;

/// Whether values of which this is the largest magnitude, and the largest difference of two across the diagonal, are those of no
/// symmetric matrix.
pub(crate) fn are_apart([largest, difference]: [f64; 2]) -> bool {
    difference.is_nan() || difference > ASYMMETRY * largest
}

/// Entries whose counterparts a thread looks for at a time. Few in tests, so that small matrices are shared.
const SHARE: usize = if cfg!(test) { 4 } else { reductions::SHARE };

/// Lines between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

impl Symmetry {
    /// What is to be known of a matrix of this kind, and the pattern of all of it where that is not `stored`. `values` are
    /// those of the stored entries, if they are known. `None` if the matrix is general. With `threads` above 1, those of the current
    /// rayon pool share the work.
    ///
    /// # Errors
    ///
    /// [`Error::NotSymmetric`] or [`Error::NotHermitian`] if it is declared so, and its pattern is not; [`Error::Cancelled`].
    pub(crate) fn find<W: Scalar>(
        kind: MatrixKind,
        stored: &CompressedPattern,
        by_columns: bool,
        values: Option<&[W]>,
        threads: usize,
        limits: &Limits,
    ) -> Result<Option<(Self, Option<CompressedPattern>)>, Error> {
        let cancel = &limits.cancel;
        let form = match kind {
            MatrixKind::Hermitian | MatrixKind::PositiveDefinite if W::COMPONENTS > 1 => {
                Form::Hermitian
            }
            _ => Form::Symmetric,
        };
        let kind = match kind {
            MatrixKind::General => return Ok(None),
            MatrixKind::Symmetric | MatrixKind::Hermitian => SymmetricKind::Indefinite,
            MatrixKind::PositiveDefinite => SymmetricKind::Definite,
            MatrixKind::Auto => {
                let Some(values) = values else {
                    return Ok(None);
                };
                return Self::look(stored, values, threads, cancel);
            }
        };
        let (has_lower, has_upper) = triangles(stored);
        if has_lower && has_upper {
            let mirror = match mirror(stored, threads, cancel)? {
                Ok(mirror) => mirror,
                Err((line, index)) => return Err(not_symmetric(form, by_columns, line, index)),
            };
            let storage = Storage::Whole { mirror };
            let found = Self {
                kind,
                form,
                storage,
            };
            return Ok(Some((found, None)));
        }
        let (whole, source) = completed(stored, threads, limits)?;
        let storage = Storage::Triangle {
            pattern: stored.clone(),
            source,
        };
        let found = Self {
            kind,
            form,
            storage,
        };
        Ok(Some((found, Some(whole))))
    }

    /// Bytes that [`find`](Self::find) takes at most for a matrix of this order and so many entries, its result included.
    pub(crate) fn search_bytes(kind: MatrixKind, order: u64, entries: u64) -> u64 {
        match kind {
            MatrixKind::General => 0,
            // The triangle, the whole pattern and where its values are; or counterparts, and where they come next.
            _ => 24 * (order + 2) + 20 * entries,
        }
    }

    /// As [`find`](Self::find) where nothing is declared.
    fn look<W: Scalar>(
        stored: &CompressedPattern,
        values: &[W],
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Option<(Self, Option<CompressedPattern>)>, Error> {
        let (has_lower, has_upper) = triangles(stored);
        if has_lower != has_upper {
            return Ok(None);
        }
        let Ok(mirror) = mirror(stored, threads, cancel)? else {
            return Ok(None);
        };
        let has_form = |form: &Form| {
            let mut pairs = values.iter().zip(&mirror);
            pairs.all(|(&value, &other)| value == form.counterpart(values[other as usize]))
        };
        let forms = if W::COMPONENTS > 1 {
            // A real matrix that is given as complex has eigenvalues with signs.
            &[Form::Hermitian, Form::Symmetric][..]
        } else {
            &[Form::Symmetric]
        };
        let Some(&form) = forms.iter().find(|form| has_form(form)) else {
            return Ok(None);
        };
        let has_signs = W::COMPONENTS == 1 || form == Form::Hermitian;
        let is_positive = |(i, line): (usize, &[u32])| {
            let at = line.binary_search(&(i as u32));
            at.is_ok_and(|k| values[stored.range(i).start + k].real() > W::Real::default())
        };
        let kind = if has_signs && stored.lines().enumerate().all(is_positive) {
            SymmetricKind::MaybeDefinite
        } else {
            SymmetricKind::Indefinite
        };
        let found = Self {
            kind,
            form,
            storage: Storage::Whole { mirror },
        };
        Ok(Some((found, None)))
    }

    /// Bytes of all this.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.storage {
            Storage::Triangle { pattern, source } => {
                (8 * pattern.ptr().len() + 4 * pattern.nnz() + 4 * source.len()) as u64
            }
            Storage::Whole { mirror } => 4 * mirror.len() as u64,
        }
    }

    /// The pattern that is stored, if that is a triangle.
    pub(crate) fn triangle(&self) -> Option<&CompressedPattern> {
        match &self.storage {
            Storage::Triangle { pattern, .. } => Some(pattern),
            Storage::Whole { .. } => None,
        }
    }

    /// For each entry of the whole matrix where its value stands among those that are stored, if that is a triangle.
    pub(crate) fn source(&self) -> Option<&[u32]> {
        match &self.storage {
            Storage::Triangle { source, .. } => Some(source),
            Storage::Whole { .. } => None,
        }
    }

    /// For each entry the place of its counterpart across the diagonal, if all of the matrix is stored.
    pub(crate) fn mirror(&self) -> Option<&[u32]> {
        match &self.storage {
            Storage::Triangle { .. } => None,
            Storage::Whole { mirror } => Some(mirror),
        }
    }

    /// The number of the entry in the lower triangle that is the entry of number `p` or its counterpart; `is_lower` says
    /// whether that is in the lower triangle, or on the diagonal, itself.
    pub(crate) fn lower(&self, p: u32, is_lower: bool) -> u32 {
        match &self.storage {
            Storage::Whole { mirror } if !is_lower => mirror[p as usize],
            // Of a triangle both have one value.
            _ => p,
        }
    }

    /// Whether the entry in row `row` and column `column` of A is the conjugate of the value that
    /// [`lower`](Self::lower) names.
    pub(crate) fn conjugates_lower<T: Scalar>(&self, row: u32, column: u32) -> bool {
        // Of a triangle the values of all entries are there.
        let is_whole = matches!(self.storage, Storage::Whole { .. });
        self.form.conjugates::<T>() && is_whole && row < column
    }

    /// Checks that stored values, the `largest` by magnitude, are those of a symmetric or Hermitian matrix; `pattern` is that
    /// of all of it. Threads share that if there are several.
    ///
    /// # Errors
    ///
    /// [`Error::NotSymmetric`] or [`Error::NotHermitian`], with the first entry that is not that of its counterpart.
    pub(crate) fn check<T: Scalar>(
        &self,
        values: &[T],
        largest: f64,
        (pattern, by_columns): (&CompressedPattern, bool),
        threads: usize,
    ) -> Result<(), Error> {
        let bound = ASYMMETRY * largest;
        let mirror = match &self.storage {
            Storage::Whole { mirror } => mirror,
            Storage::Triangle { pattern, .. } => {
                return self.check_diagonal(pattern, values, bound);
            }
        };
        let differs = |p: usize| {
            let counterpart = self.form.counterpart(values[mirror[p] as usize]);
            (values[p].widen() - counterpart.widen()).magnitude() > bound
        };
        let is_symmetric = |mut stretch: Range<usize>| !stretch.any(differs);
        if reductions::all_stretches(mirror.len(), threads, is_symmetric) {
            return Ok(());
        }
        let first = (0..mirror.len()).find(|&p| differs(p));
        let p = first.unwrap_or_else(|| unreachable!("one of them differs"));
        let line = pattern.ptr().partition_point(|&start| start <= p as u64) - 1;
        let index = pattern.idx()[p] as usize;
        Err(not_symmetric(self.form, by_columns, line, index))
    }

    /// Likewise of values of all entries, those that a triangle was completed to among them.
    pub(crate) fn check_whole<T: Scalar>(
        &self,
        values: &[T],
        largest: f64,
        whole: (&CompressedPattern, bool),
    ) -> Result<(), Error> {
        match &self.storage {
            Storage::Whole { .. } => self.check(values, largest, whole, 1),
            Storage::Triangle { .. } => self.check_diagonal(whole.0, values, ASYMMETRY * largest),
        }
    }

    /// Checks that the diagonal of a Hermitian matrix is real, where no counterparts are stored.
    fn check_diagonal<T: Scalar>(
        &self,
        pattern: &CompressedPattern,
        values: &[T],
        bound: f64,
    ) -> Result<(), Error> {
        if !self.form.conjugates::<T>() {
            return Ok(());
        }
        for (i, line) in pattern.lines().enumerate() {
            if let Ok(at) = line.binary_search(&(i as u32)) {
                let value = values[pattern.range(i).start + at].widen();
                // As where the matrix is stored whole.
                if (value - value.conjugate()).magnitude() > bound {
                    return Err(not_symmetric(self.form, false, i, i));
                }
            }
        }
        Ok(())
    }

    /// The values of the whole matrix, given those that are stored and the pattern of all of it. Those of a triangle are the
    /// whole matrix by rows, however the triangle is stored. Threads share that if there are several.
    pub(crate) fn completed<'a, T: Scalar>(
        &self,
        values: Cow<'a, [T]>,
        whole_pattern: (&CompressedPattern, bool),
        threads: usize,
    ) -> Cow<'a, [T]> {
        let source = match &self.storage {
            Storage::Triangle { source, .. } => source,
            Storage::Whole { .. } => return values,
        };
        let mut whole = reductions::mapped(source, threads, |p| values[p as usize]);
        self.visit_conjugated::<T>(whole_pattern, |p| whole[p] = whole[p].conjugate());
        Cow::Owned(whole)
    }

    /// Visits the entries of the whole matrix that are conjugates of the values that are stored for them, if that is a triangle
    /// of a Hermitian matrix.
    pub(crate) fn visit_conjugated<T: Scalar>(
        &self,
        (pattern, by_columns): (&CompressedPattern, bool),
        mut visit: impl FnMut(usize),
    ) {
        let Storage::Triangle {
            pattern: triangle, ..
        } = &self.storage
        else {
            return;
        };
        if !self.form.conjugates::<T>() {
            return;
        }
        let (has_smaller, _) = triangles(triangle);
        for (i, line) in pattern.lines().enumerate() {
            for (&j, p) in line.iter().zip(pattern.range(i)) {
                let j = j as usize;
                let is_own = (j < i) == has_smaller;
                if i != j && is_own == by_columns {
                    visit(p);
                }
            }
        }
    }
}

fn not_symmetric(form: Form, by_columns: bool, line: usize, index: usize) -> Error {
    let (row, column) = if by_columns {
        (index, line)
    } else {
        (line, index)
    };
    match form {
        Form::Symmetric => Error::NotSymmetric { row, column },
        Form::Hermitian => Error::NotHermitian { row, column },
    }
}

/// Whether there are entries on either side of the diagonal: with smaller indices than their line, and with larger ones.
fn triangles(pattern: &CompressedPattern) -> (bool, bool) {
    pattern
        .lines()
        .enumerate()
        .fold((false, false), |(smaller, larger), (i, line)| {
            let i = i as u32;
            (
                smaller || line.first().is_some_and(|&j| j < i),
                larger || line.last().is_some_and(|&j| j > i),
            )
        })
}

/// For each entry the place of its counterpart across the diagonal; line and index of an entry that has none otherwise.
fn mirror(
    pattern: &CompressedPattern,
    threads: usize,
    cancel: &CancelFlag,
) -> Result<Result<Vec<u32>, (usize, usize)>, Cancelled> {
    if threads > 1
        && pattern.nnz() > SHARE
        && let Some(mirror) = mirror_by_shares(pattern, threads, cancel)
    {
        return Ok(Ok(mirror));
    }
    let mut mirror = vec![0; pattern.nnz()];
    let visit = |p: usize, counterpart: usize| mirror[p] = counterpart as u32;
    let found = pattern.try_visit_counterparts(|| cancel.check(), visit)?;
    Ok(found.map(|()| mirror))
}

/// Likewise by the threads of the current rayon pool, each entry by itself; `None` if one has no counterpart, or the flag is raised.
fn mirror_by_shares(
    pattern: &CompressedPattern,
    threads: usize,
    cancel: &CancelFlag,
) -> Option<Vec<u32>> {
    let (n, nnz) = (pattern.major_dim(), pattern.nnz());
    let mut mirror = vec![0; nnz];
    let num_shares = nnz.div_ceil(SHARE).min(4 * threads);
    let mut shares = Vec::with_capacity(num_shares);
    let (mut left, mut start) = (&mut mirror[..], 0);
    for share in 1..=num_shares {
        let entries = (nnz * share / num_shares) as u64;
        let end = pattern.ptr().partition_point(|&p| p < entries).min(n);
        let len = (pattern.ptr()[end] - pattern.ptr()[start]) as usize;
        let own = left.split_off_mut(..len);
        shares.push((start..end, own.expect("lines end where the entries do")));
        start = end;
    }
    let fill = |(mut lines, own): (Range<usize>, &mut [u32])| {
        let mut places = own.iter_mut();
        lines.all(|i| {
            let is_stopped = i.is_multiple_of(STRIDE) && cancel.is_cancelled();
            let found = pattern.line(i).iter().zip(&mut places).all(|(&j, place)| {
                let j = j as usize;
                let at = pattern.line(j).binary_search(&(i as u32));
                *place = at.map_or(0, |at| (pattern.range(j).start + at) as u32);
                at.is_ok()
            });
            found && !is_stopped
        })
    };
    shares.into_par_iter().all(fill).then_some(mirror)
}

/// The whole pattern of a triangle, and for each of its entries the place of its value in the triangle.
fn completed(
    triangle: &CompressedPattern,
    threads: usize,
    limits: &Limits,
) -> Result<(CompressedPattern, Vec<u32>), Cancelled> {
    let (n, nnz) = (triangle.major_dim(), triangle.nnz());
    // Indices of a line ascend: of a triangle with smaller indices its own entries come before those from later lines, of
    // one with larger indices those from earlier lines before its own.
    let line = |i: usize| {
        let entries = triangle.line(i).iter().zip(triangle.range(i));
        entries.flat_map(move |(&j, p)| {
            let (i, p) = (i as u32, p as u32);
            let across = (i != j).then_some([j, i, p]);
            std::iter::once([i, j, p]).chain(across)
        })
    };
    let Grouped { ptr, first, second } = grouped_within((n, 2 * nnz), threads, limits, line)?;
    // SAFETY: the lines ascend as said above, and indices are those of the triangle or numbers of its lines.
    let whole = unsafe { CompressedPattern::new_unchecked(n, ptr, first) };
    Ok((whole, second))
}

#[cfg(test)]
mod tests {
    use luge_testkit::strategies::pattern_from;

    use super::*;
    use crate::permuted::num_shares;

    fn never() -> CancelFlag {
        CancelFlag::new()
    }

    fn find(
        kind: MatrixKind,
        stored: &CompressedPattern,
        values: &[f64],
    ) -> Result<Option<(Symmetry, Option<CompressedPattern>)>, Error> {
        let limits = Limits::default();
        let found = |threads| Symmetry::find(kind, stored, false, Some(values), threads, &limits);
        let (one, several) = (found(1), found(3));
        assert_eq!(format!("{one:?}"), format!("{several:?}"));
        one
    }

    /// 4 1 .
    /// 1 5 2
    /// . 2 6
    fn whole() -> (CompressedPattern, Vec<f64>) {
        let places = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)];
        let values = vec![4.0, 1.0, 1.0, 5.0, 2.0, 2.0, 6.0];
        (pattern_from(3, places), values)
    }

    #[test]
    fn either_triangle_is_completed() {
        let (pattern, values) = whole();
        let lower = pattern_from(3, [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]);
        let upper = pattern_from(3, [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)]);
        let stored = [4.0, 1.0, 5.0, 2.0, 6.0];
        for triangle in [lower, upper] {
            let found = find(MatrixKind::Symmetric, &triangle, &stored).unwrap();
            let (symmetry, completed) = found.unwrap();
            assert_eq!(completed.as_ref(), Some(&pattern));
            assert_eq!(symmetry.triangle(), Some(&triangle));
            symmetry.check(&stored, 6.0, (&pattern, false), 1).unwrap();
            let whole = symmetry.completed(Cow::Borrowed(&stored[..]), (&pattern, false), 1);
            assert_eq!(whole, values);
            // Nobody said that it is no triangular matrix.
            assert!(
                find(MatrixKind::Auto, &triangle, &stored)
                    .unwrap()
                    .is_none()
            );
        }
    }

    #[test]
    fn a_triangle_is_completed_alike_by_any_number_of_threads() {
        let n = 6000u32;
        let lower = (0..n).flat_map(|i| [i / 5, i / 2, i].map(|j| (i, j)));
        let upper = (0..n).flat_map(|i| [i, i + (n - i) / 2, n - 1].map(|j| (i, j)));
        let n = n as usize;
        for triangle in [pattern_from(n, lower), pattern_from(n, upper)] {
            let limits = Limits::none();
            let (whole, source) = completed(&triangle, 1, &limits).unwrap();
            assert_eq!(whole.nnz(), 2 * triangle.nnz() - n);
            let lines: Vec<u32> = (0u32..)
                .zip(triangle.lines())
                .flat_map(|(i, line)| line.iter().map(move |_| i))
                .collect();
            for (i, line) in whole.lines().enumerate() {
                assert!(line.is_sorted_by(|a, b| a < b));
                for (&j, p) in line.iter().zip(whole.range(i)) {
                    let of_triangle = source[p] as usize;
                    let place = (lines[of_triangle], triangle.idx()[of_triangle]);
                    assert!(place == (i as u32, j) || place == (j, i as u32));
                }
            }
            for threads in [2, 3] {
                assert!(num_shares(2 * triangle.nnz(), threads) > 1);
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let shared = pool.build().unwrap().install(|| {
                    let raised = Limits::none();
                    raised.cancel.cancel();
                    assert!(completed(&triangle, threads, &raised).is_err());
                    completed(&triangle, threads, &limits).unwrap()
                });
                assert!(shared == (whole.clone(), source.clone()));
            }
        }
    }

    #[test]
    fn a_whole_matrix_has_to_be_symmetric() {
        let (pattern, values) = whole();
        let (symmetry, completed) = find(MatrixKind::Symmetric, &pattern, &values)
            .unwrap()
            .unwrap();
        assert!(completed.is_none() && symmetry.triangle().is_none());
        assert_eq!(symmetry.kind, SymmetricKind::Indefinite);
        let complete = |values: &[f64], by_columns| {
            symmetry.check(values, 6.0, (&pattern, by_columns), 1)?;
            let completed = symmetry.completed(Cow::Borrowed(values), (&pattern, by_columns), 1);
            Ok(completed.into_owned())
        };
        assert_eq!(complete(&values, false).unwrap(), values);
        let mut other = values.clone();
        other[5] = 2.0 + 5e-10;
        assert!(complete(&other, false).is_ok(), "rounding");
        other[5] = 2.0 + 7e-10;
        for by_columns in [false, true] {
            let error = complete(&other, by_columns).unwrap_err();
            let expected = if by_columns { (2, 1) } else { (1, 2) };
            assert!(
                matches!(error, Error::NotSymmetric { row, column } if (row, column) == expected),
                "{error}"
            );
        }
    }

    #[test]
    fn an_entry_without_counterpart_is_named() {
        let all = [
            (0, 0),
            (0, 1),
            (0, 3),
            (1, 0),
            (1, 1),
            (1, 2),
            (2, 1),
            (3, 0),
            (3, 3),
        ];
        let full = pattern_from(4, all);
        let found = mirror(&full, 1, &never()).unwrap();
        assert!(found.is_ok());
        assert_eq!(mirror_by_shares(&full, 3, &never()), found.ok());
        let raised = never();
        raised.cancel();
        assert_eq!(mirror_by_shares(&full, 3, &raised), None);
        assert!(mirror(&full, 3, &raised).is_err());
        for missing in all.iter().filter(|(i, j)| i != j) {
            let pattern = pattern_from(4, all.into_iter().filter(|place| place != missing));
            let values = vec![1.0; pattern.nnz()];
            assert_eq!(mirror_by_shares(&pattern, 3, &never()), None);
            let error = find(MatrixKind::Symmetric, &pattern, &values).unwrap_err();
            let &(j, i) = missing;
            assert!(
                matches!(error, Error::NotSymmetric { row, column }
                    if (row, column) == (i as usize, j as usize)),
                "{missing:?}: {error}"
            );
            assert!(find(MatrixKind::Auto, &pattern, &values).unwrap().is_none());
        }
    }

    #[test]
    fn what_is_not_declared_is_looked_for() {
        let (pattern, mut values) = whole();
        let kind = |values: &[f64]| {
            let found = find(MatrixKind::Auto, &pattern, values).unwrap();
            found.map(|(symmetry, _)| symmetry.kind)
        };
        assert_eq!(kind(&values), Some(SymmetricKind::MaybeDefinite));
        values[3] = 0.0;
        assert_eq!(kind(&values), Some(SymmetricKind::Indefinite));
        values[1] += f64::EPSILON;
        assert_eq!(kind(&values), None);
        let found = |kind| {
            let (pattern, values) = whole();
            Symmetry::find::<f64>(kind, &pattern, false, None, 1, &Limits::default())
                .unwrap()
                .map(|(symmetry, _)| (symmetry.kind, values.len()))
        };
        assert_eq!(found(MatrixKind::Auto), None);
        assert_eq!(found(MatrixKind::General), None);
        let definite = found(MatrixKind::PositiveDefinite);
        assert_eq!(definite, Some((SymmetricKind::Definite, 7)));
    }

    #[test]
    fn a_diagonal_matrix_is_a_triangle() {
        let diagonal = pattern_from(3, [(0, 0), (1, 1), (2, 2)]);
        let values = [1.0, 2.0, 3.0];
        let (symmetry, completed) = find(MatrixKind::Symmetric, &diagonal, &values)
            .unwrap()
            .unwrap();
        assert_eq!(completed, Some(diagonal.clone()));
        assert!(symmetry.bytes() > 0);
        let found = find(MatrixKind::Auto, &diagonal, &values).unwrap();
        let kind = found.map(|(symmetry, _)| symmetry.kind);
        assert_eq!(kind, Some(SymmetricKind::MaybeDefinite));
    }
}
