//! Matrices as callers store them: by rows or by columns.

use std::borrow::Cow;

use luge_sparse::{
    CancelFlag, Cancelled, CompressedPattern, Compression, Index, MatrixError, MatrixRef,
    PatternRef, Scalar,
};

use crate::error::Error;
use crate::reductions::mapped;

/// A matrix by rows, and where its entries stand in the caller's storage if that is by columns.
pub(crate) struct Rows<'a> {
    pub pattern: Cow<'a, CompressedPattern>,
    pub entries: Option<Vec<u64>>,
}

impl<'a> Rows<'a> {
    pub fn new(
        stored: &'a CompressedPattern,
        by_columns: bool,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        if by_columns {
            let (rows, map) = stored.try_transpose_with_map(|| cancel.check())?;
            Ok(Self {
                pattern: Cow::Owned(rows),
                entries: Some(map),
            })
        } else {
            Ok(Self {
                pattern: Cow::Borrowed(stored),
                entries: None,
            })
        }
    }

    /// Bytes that a matrix of this order takes by rows, with its values in that order in `f64`; none if it is stored so.
    pub fn bytes(order: u64, entries: u64, by_columns: bool) -> u64 {
        if by_columns {
            16 * (order + 1) + 20 * entries
        } else {
            0
        }
    }

    /// The values in the order of the rows.
    pub fn values<'v, V: Copy>(&self, stored: &'v [V]) -> Cow<'v, [V]> {
        match &self.entries {
            None => Cow::Borrowed(stored),
            Some(entries) => entries.iter().map(|&p| stored[p as usize]).collect(),
        }
    }
}

/// The pattern of a matrix as it is stored, which was [checked](PatternRef::check) and whose dimensions fit 32 bits.
pub(crate) fn pattern_of<I: Index>(
    a: &PatternRef<'_, I>,
    threads: usize,
    cancel: &CancelFlag,
) -> Result<CompressedPattern, Error> {
    cancel.check()?;
    let (offsets, minor_dim) = (a.offsets(), minor_dim(a));
    // Larger numbers than 32 bits hold become one that is too large all the same.
    let narrow = |i: I| u32::try_from(i.to_u64()).unwrap_or(u32::MAX);
    let (ptr, idx) = if a.is_compact() {
        let first = offsets[0].to_u64();
        let ptr = mapped(offsets, threads, |p| p.to_u64() - first);
        (ptr, mapped(a.indices(), threads, narrow))
    } else {
        let (mut ptr, mut idx) = (
            Vec::with_capacity(offsets.len()),
            Vec::with_capacity(a.nnz()),
        );
        ptr.push(0);
        for at in 0..offsets.len() - 1 {
            idx.extend(a.indices()[a.range(at)].iter().map(|&i| narrow(i)));
            ptr.push(idx.len() as u64);
        }
        (ptr, idx)
    };
    cancel.check()?;
    CompressedPattern::new(minor_dim, ptr, idx)
        .map_err(|error| MatrixError::of_pattern(error, a.compression()).into())
}

/// The values of a matrix, without what stands between its rows or columns, in the [wide](Scalar::Wide) type.
pub(crate) fn values_in_wide<'a, T: Scalar, I: Index>(
    a: &MatrixRef<'a, T, I>,
) -> Cow<'a, [T::Wide]> {
    let (pattern, values) = (a.pattern(), a.values());
    if pattern.is_compact() {
        return T::in_wide(values);
    }
    let lines = 0..pattern.offsets().len() - 1;
    let of_lines = lines.flat_map(|at| &values[pattern.range(at)]);
    of_lines.map(|&value| value.widen()).collect()
}

/// The number that indices are below.
fn minor_dim<I: Index>(a: &PatternRef<'_, I>) -> usize {
    match a.compression() {
        Compression::Rows => a.cols(),
        Compression::Columns => a.rows(),
    }
}
