//! Matrices as callers store them: by rows or by columns.

use std::borrow::Cow;

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, Scalar};
use sprs::CsMat;

use crate::lanes::mapped;

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

    /// The values in the order of the rows.
    pub fn values<'v>(&self, stored: &'v [f64]) -> Cow<'v, [f64]> {
        match &self.entries {
            None => Cow::Borrowed(stored),
            Some(entries) => entries.iter().map(|&p| stored[p as usize]).collect(),
        }
    }
}

/// `a` stored by rows.
pub(crate) fn by_rows<T: Scalar>(a: &CsMat<T>) -> CsMat<T> {
    if a.is_csr() { a.clone() } else { a.to_csr() }
}

/// Where the entries of a matrix begin by its own offsets: not at 0 in rows or columns that were cut out of another
/// matrix. sprs keeps the offsets of the whole there, and the entries of the part alone.
pub(crate) fn first_offset(offsets: &[usize]) -> usize {
    offsets.first().copied().unwrap_or(0)
}

/// The pattern of a matrix as it is stored, whose dimensions fit 32 bits.
pub(crate) fn pattern_of<T>(
    a: &CsMat<T>,
    threads: usize,
    cancel: &CancelFlag,
) -> Result<CompressedPattern, Cancelled> {
    cancel.check()?;
    let offsets = a.indptr();
    let first = first_offset(offsets.raw_storage());
    let ptr = mapped(offsets.raw_storage(), threads, |p| (p - first) as u64);
    let idx = mapped(a.indices(), threads, |i| i as u32);
    cancel.check()?;
    let pattern = CompressedPattern::new(a.rows(), ptr, idx)
        .unwrap_or_else(|e| unreachable!("sprs keeps its matrices sorted and in range: {e}"));
    Ok(pattern)
}
