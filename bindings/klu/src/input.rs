//! The caller's arrays, checked before they are read.

use std::borrow::Cow;

use luge_sparse::CompressedPattern;

use crate::call::{Failure, Field, Outcome};
use crate::layout::Integer;

/// Most columns, and entries, that Luge counts.
const MOST: usize = u32::MAX as usize - 1;

/// An array of the caller.
///
/// # Safety
///
/// `at` is null, not aligned, or points to `len` values that nobody changes as long as they are borrowed.
pub(crate) unsafe fn array<'a, V>(at: *const V, len: usize) -> Outcome<&'a [V]> {
    if at.is_null() || !at.is_aligned() {
        return Err(Failure::Invalid);
    }
    if len
        .checked_mul(size_of::<V>())
        .is_none_or(|bytes| bytes > isize::MAX as usize)
    {
        return Err(Failure::TooLarge);
    }
    // SAFETY: it is neither null nor too long, it is aligned, and the rest is as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

/// As [`array`], for values that are written.
///
/// # Safety
///
/// As [`array`], and nobody else uses them meanwhile.
pub(crate) unsafe fn array_mut<'a, V>(at: *mut V, len: usize) -> Outcome<&'a mut [V]> {
    // SAFETY: as the caller says.
    unsafe { array(at.cast_const(), len)? };
    // SAFETY: as above, and nobody else uses them.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

/// The columns of a matrix as a caller stores them, all in range. Entries of a column may come in any order; one that comes twice is
/// found by [`sorted`](Self::sorted).
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a, I> {
    pub ptr: &'a [I],
    pub idx: &'a [I],
    /// Whether rows increase in each column.
    pub is_sorted: bool,
}

impl<'a, I: Integer> Columns<'a, I> {
    /// # Safety
    ///
    /// The pointers are null, not aligned, or lead to n + 1 numbers and to as many as the last of these says.
    pub(crate) unsafe fn new(n: I, ptr: *const I, idx: *const I) -> Outcome<Self> {
        let order = n.to_usize().filter(|&n| n > 0).ok_or(Failure::Invalid)?;
        if order > MOST {
            return Err(Failure::TooLarge);
        }
        // SAFETY: as the caller says.
        let ptr = unsafe { array(ptr, order + 1)? };
        let nnz = ptr[order].to_usize().ok_or(Failure::Invalid)?;
        if ptr[0].to_i64() != 0 || !ptr.is_sorted() {
            return Err(Failure::Invalid);
        }
        if nnz > MOST {
            return Err(Failure::TooLarge);
        }
        // SAFETY: as the caller says.
        let idx = unsafe { array(idx, nnz)? };
        let limit = n.to_i64();
        if !idx.iter().all(|i| (0..limit).contains(&i.to_i64())) {
            return Err(Failure::Invalid);
        }
        let mut columns = Self {
            ptr,
            idx,
            is_sorted: true,
        };
        columns.is_sorted = (0..order).all(|j| {
            let rows = columns.column(j);
            rows.windows(2).all(|pair| pair[0] < pair[1])
        });
        Ok(columns)
    }

    pub(crate) fn n(&self) -> usize {
        self.ptr.len() - 1
    }

    pub(crate) fn range(&self, j: usize) -> std::ops::Range<usize> {
        self.ptr[j].to_i64() as usize..self.ptr[j + 1].to_i64() as usize
    }

    pub(crate) fn column(&self, j: usize) -> &'a [I] {
        &self.idx[self.range(j)]
    }

    /// The pattern with increasing rows, and, if that is another order, the place of each entry in the caller's.
    pub(crate) fn sorted(&self) -> Outcome<(CompressedPattern, Option<Vec<u32>>)> {
        let ptr: Vec<u64> = self.ptr.iter().map(|p| p.to_i64() as u64).collect();
        let row = |p: &u32| self.idx[*p as usize].to_i64() as u32;
        if self.is_sorted {
            let rows = self.idx.iter().map(|i| i.to_i64() as u32).collect();
            let pattern = CompressedPattern::new(self.n(), ptr, rows);
            return Ok((pattern.map_err(|_| Failure::Invalid)?, None));
        }
        let mut places: Vec<u32> = (0..self.idx.len() as u32).collect();
        for j in 0..self.n() {
            places[self.range(j)].sort_unstable_by_key(row);
        }
        let rows = places.iter().map(row).collect();
        // A row that comes twice is refused here.
        let pattern = CompressedPattern::new(self.n(), ptr, rows).map_err(|_| Failure::Invalid)?;
        Ok((pattern, Some(places)))
    }
}

/// A matrix of the caller beside the pattern that was analyzed.
pub(crate) enum Given<'a, I, F: Field> {
    /// The values of the pattern, in its order; what the caller does not store is zero.
    Values(Cow<'a, [F]>),
    /// A matrix with entries that the pattern has not, or with one that comes twice.
    Other(Columns<'a, I>, &'a [F]),
}

/// Compares a matrix, whose entries may be stored in any order, with the pattern that was analyzed.
///
/// # Safety
///
/// As [`Columns::new`]; `ax` is null, not aligned, or leads to a value for each entry.
pub(crate) unsafe fn compared<'a, I: Integer, F: Field>(
    analyzed: Columns<'_, I>,
    (ap, ai, ax): (*const I, *const I, *const F),
) -> Outcome<Given<'a, I, F>> {
    let nnz = analyzed.idx.len();
    // SAFETY: as the caller says. What equals the analyzed pattern needs no other check.
    unsafe {
        if array(ap, analyzed.ptr.len())? == analyzed.ptr && array(ai, nnz)? == analyzed.idx {
            return Ok(Given::Values(Cow::Borrowed(array(ax, nnz)?)));
        }
    }
    // SAFETY: as the caller says.
    let (given, values) = unsafe {
        let given = Columns::new(I::of(analyzed.n()), ap, ai)?;
        (given, array(ax, given.idx.len())?)
    };
    let mut in_order = vec![F::zero(); nnz];
    // For each row where its entry is in this column, as long as it has not been met.
    let mut places = vec![usize::MAX; analyzed.n()];
    for j in 0..analyzed.n() {
        for p in analyzed.range(j) {
            places[analyzed.idx[p].to_i64() as usize] = p;
        }
        for p in given.range(j) {
            let place = &mut places[given.idx[p].to_i64() as usize];
            let at = std::mem::replace(place, usize::MAX);
            match in_order.get_mut(at) {
                Some(value) => *value = values[p],
                None => return Ok(Given::Other(given, values)),
            }
        }
        for row in analyzed.column(j) {
            places[row.to_i64() as usize] = usize::MAX;
        }
    }
    Ok(Given::Values(Cow::Owned(in_order)))
}
