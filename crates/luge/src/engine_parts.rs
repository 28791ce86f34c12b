//! What factors on the CPU are made of, in files: panels of fronts, columns of L and U, and what was measured.
//!
//! Sizes that follow from a plan are compared with it, and memory is reserved before it is filled. Whether the contents are
//! sound is checked where they are put together (`from_parts` of the engines).

use std::borrow::Cow;

use luge_frontal::{FrontParts, FrontalScalar, Storage, Symbolic, SymmetricQuality};
use luge_numeric::cpu::blocks::{BlockPartsError, Split};
use luge_numeric::cpu::columns::{ColumnParts, TriangleParts};
use luge_sparse::{
    Inertia, PivotKind, PivotPolicy, Quality, Reservation, Scalar, SmallPivots, SymmetricPivoting,
};

use crate::codec::{Body, Sink, Source, check, damaged, put, put_optional, u64_of};
use crate::error::{Error, SavedError};

impl From<BlockPartsError> for Error {
    fn from(error: BlockPartsError) -> Self {
        match error {
            BlockPartsError::Unsound { what } => damaged(what).into(),
            BlockPartsError::OutOfMemory(error) => Self::from_budget(error, "numeric"),
            BlockPartsError::Cancelled(error) => Self::Cancelled(error),
        }
    }
}

/// Writes the factors of the fronts of one tree.
pub(crate) fn write_fronts<F: Scalar>(
    sink: &mut Sink<'_>,
    parts: &FrontParts<'_, F>,
) -> Result<(), Error> {
    sink.u32s(&parts.pivots)?;
    sink.truths(&parts.moved)?;
    sink.u32s(&parts.columns)?;
    sink.u32s(&parts.rows)?;
    sink.numbers(&parts.values)?;
    sink.u64(parts.delayed.len() as u64)?;
    parts
        .delayed
        .iter()
        .try_for_each(|panels| sink.numbers(panels))
}

/// Reads them, and what is reserved for those parts that are no part of the factors as they are.
pub(crate) fn read_fronts<F: Scalar, S: Storage>(
    source: &mut Source<'_>,
    symbolic: &Symbolic<S>,
) -> Result<(FrontParts<'static, F>, Reservation), Error> {
    let num_fronts = symbolic.tree().num_supernodes();
    let pivots = source.u32s(num_fronts)?;
    let moved = source.truths(num_fronts)?;
    // A column is delayed to each front above its own at most.
    let n = symbolic.n() as u64;
    let (columns, mut memory) = source.u32s_up_to(n * n.max(1))?;
    let (rows, of_rows) = source.u32s_up_to(columns.len() as u64)?;
    memory.absorb(of_rows);
    let slots = usize::try_from(symbolic.slot_entries()).map_err(|_| damaged("length"))?;
    let values = source.numbers(slots)?;
    let count = source.count(num_fronts as u64)?;
    let mut delayed = Vec::new();
    for _ in 0..count {
        let (panels, of_panels) = source.numbers_up_to(u64::from(u32::MAX))?;
        memory.absorb(of_panels);
        delayed.push(Cow::Owned(panels));
    }
    let parts = FrontParts {
        values: Cow::Owned(values),
        pivots,
        moved,
        columns,
        rows,
        delayed,
    };
    Ok((parts, memory))
}

/// Writes the factors of the column engine.
pub(crate) fn write_columns<F: Scalar>(
    sink: &mut Sink<'_>,
    parts: &ColumnParts<'_, F>,
) -> Result<(), Error> {
    sink.u64(parts.lower.idx.len() as u64)?;
    sink.u64(parts.upper.idx.len() as u64)?;
    sink.u64(parts.flops)?;
    sink.u64(parts.num_off_diagonal as u64)?;
    sink.u32s(&parts.row_perm)?;
    sink.numbers(&parts.pivots)?;
    sink.numbers(&parts.products)?;
    for triangle in [&parts.lower, &parts.upper] {
        sink.sizes(&triangle.ptr)?;
        sink.u32s(&triangle.idx)?;
        sink.numbers(&triangle.values)?;
    }
    Ok(())
}

/// Reads those of a matrix of order `n`; `reserve` reserves for so many entries of L and of U.
pub(crate) fn read_columns<F: FrontalScalar>(
    source: &mut Source<'_>,
    n: usize,
    reserve: impl FnOnce(u64, u64) -> Result<Reservation, Error>,
) -> Result<(ColumnParts<'static, F>, Reservation), Error> {
    let most = (n as u64) * (n as u64).saturating_sub(1) / 2;
    let [lnz, unz] = [source.count(most)?, source.count(most)?];
    let memory = reserve(lnz as u64, unz as u64)?;
    let (flops, num_off_diagonal) = (source.u64()?, source.count(n as u64)?);
    let row_perm = source.u32s(n)?;
    let (pivots, products) = (source.numbers(n)?, source.numbers(n)?);
    let mut triangle = |nnz: usize| {
        Ok::<_, Error>(TriangleParts {
            ptr: Cow::Owned(source.sizes(n + 1)?),
            idx: Cow::Owned(source.u32s(nnz)?),
            values: Cow::Owned(source.numbers(nnz)?),
        })
    };
    let parts = ColumnParts {
        row_perm: Cow::Owned(row_perm),
        lower: triangle(lnz)?,
        upper: triangle(unz)?,
        pivots: Cow::Owned(pivots),
        products: Cow::Owned(products),
        flops,
        num_off_diagonal,
    };
    Ok((parts, memory))
}

/// The floating-point fields of a [`Quality`], in their order.
fn measures(quality: &mut Quality) -> [&mut f64; 11] {
    [
        &mut quality.growth,
        &mut quality.checksum,
        &mut quality.min_pivot,
        &mut quality.max_pivot,
        &mut quality.max_norm,
        &mut quality.min_norm,
        &mut quality.max_product,
        &mut quality.max_residual,
        &mut quality.min_relative_pivot,
        &mut quality.min_pivot_ratio,
        &mut quality.max_pivot_ratio,
    ]
}

pub(crate) fn put_quality(body: &mut Vec<u8>, quality: &Quality) {
    let mut quality = *quality;
    for measure in measures(&mut quality) {
        put(body, &[measure.to_bits()]);
    }
    let counts = [
        quality.worst_column,
        quality.num_off_diagonal,
        quality.num_delayed,
        quality.num_perturbed,
    ];
    put(body, &counts.map(|count| count as u64));
    put_optional(body, quality.first_perturbed.map(|column| column as u64));
}

/// What was measured of a matrix of order `n`.
pub(crate) fn quality(body: &mut Body<'_>, n: usize) -> Result<Quality, SavedError> {
    let mut quality = Quality::default();
    for measure in measures(&mut quality) {
        *measure = body.f64()?;
    }
    quality.worst_column = body.index(n.max(1))?;
    quality.num_off_diagonal = body.size()?;
    quality.num_delayed = body.size()?;
    quality.num_perturbed = body.size()?;
    quality.first_perturbed = body.optional_index(n)?;
    Ok(quality)
}

/// Bytes of a [`Quality`].
pub(crate) const QUALITY_BYTES: usize = 11 * 8 + 4 * 8 + 9;

/// As [`measures`].
fn symmetric_measures(quality: &mut SymmetricQuality) -> [&mut f64; 6] {
    [
        &mut quality.max_l,
        &mut quality.min_pivot,
        &mut quality.max_pivot,
        &mut quality.growth,
        &mut quality.min_norm,
        &mut quality.max_norm,
    ]
}

/// As [`measures`].
fn symmetric_counts(quality: &mut SymmetricQuality) -> [&mut usize; 9] {
    let Inertia {
        positive,
        negative,
        zero,
    } = &mut quality.inertia;
    [
        positive,
        negative,
        zero,
        &mut quality.num_two,
        &mut quality.num_delayed,
        &mut quality.num_perturbed,
        &mut quality.num_zero,
        &mut quality.num_first_pass,
        &mut quality.num_second_pass,
    ]
}

pub(crate) fn put_symmetric_quality(body: &mut Vec<u8>, quality: &SymmetricQuality) {
    let mut quality = *quality;
    for measure in symmetric_measures(&mut quality) {
        put(body, &[measure.to_bits()]);
    }
    for count in symmetric_counts(&mut quality) {
        put(body, &[*count as u64]);
    }
    for column in [quality.first_perturbed, quality.first_zero] {
        put_optional(body, column.map(|column| column as u64));
    }
}

/// What was measured of a symmetric matrix of order `n`.
pub(crate) fn symmetric_quality(
    body: &mut Body<'_>,
    n: usize,
) -> Result<SymmetricQuality, SavedError> {
    let mut quality = SymmetricQuality::default();
    for measure in symmetric_measures(&mut quality) {
        *measure = body.f64()?;
    }
    for count in symmetric_counts(&mut quality) {
        *count = body.size()?;
        // A column is delayed to each front above its own at most.
        if *count > n.saturating_mul(n) {
            return Err(damaged("counts of pivots"));
        }
    }
    quality.first_perturbed = body.optional_index(n)?;
    quality.first_zero = body.optional_index(n)?;
    Ok(quality)
}

/// Bytes of a [`SymmetricQuality`].
pub(crate) const SYMMETRIC_QUALITY_BYTES: usize = 6 * 8 + 9 * 8 + 2 * 9;

pub(crate) fn put_policy(body: &mut Vec<u8>, policy: &PivotPolicy) {
    let (kind, number) = match policy.kind {
        PivotKind::Diagonal => (0, 0.0),
        PivotKind::WithinFront { threshold } => (1, threshold),
        PivotKind::Threshold { threshold } => (2, threshold),
        PivotKind::Symmetric { threshold, method } => {
            let kind = match method {
                SymmetricPivoting::Blocks => 3,
                SymmetricPivoting::BlocksAlone => 4,
                SymmetricPivoting::Columns => 5,
            };
            (kind, threshold)
        }
        PivotKind::Definite => (6, 0.0),
        PivotKind::Signed { below } => (7, below),
    };
    body.push(kind);
    put(body, &[number.to_bits()]);
    let (small, most, below) = match policy.small {
        SmallPivots::Stop => (0, 0, 0.0),
        SmallPivots::Replace { below } => (1, 0, below),
        SmallPivots::Accept { below } => (2, 0, below),
        SmallPivots::Limited { max_delays, below } => (3, max_delays, below),
    };
    body.push(small);
    put(body, &[u64::from(most), below.to_bits()]);
}

pub(crate) fn policy(body: &mut Body<'_>) -> Result<PivotPolicy, SavedError> {
    let unsound = || damaged("choice of pivots");
    let (kind, number) = (body.byte()?, body.f64()?);
    let symmetric = |method| PivotKind::Symmetric {
        threshold: number,
        method,
    };
    let kind = match kind {
        0 => PivotKind::Diagonal,
        1 => PivotKind::WithinFront { threshold: number },
        2 => PivotKind::Threshold { threshold: number },
        3 => symmetric(SymmetricPivoting::Blocks),
        4 => symmetric(SymmetricPivoting::BlocksAlone),
        5 => symmetric(SymmetricPivoting::Columns),
        6 => PivotKind::Definite,
        7 => PivotKind::Signed { below: number },
        _ => return Err(unsound()),
    };
    let (small, most, below) = (body.byte()?, body.u64()?, body.f64()?);
    let small = match small {
        0 => SmallPivots::Stop,
        1 => SmallPivots::Replace { below },
        2 => SmallPivots::Accept { below },
        3 => SmallPivots::Limited {
            max_delays: u32::try_from(most).map_err(|_| unsound())?,
            below,
        },
        _ => return Err(unsound()),
    };
    let policy = PivotPolicy { kind, small };
    policy.check().map_err(|_| unsound())?;
    Ok(policy)
}

/// Whether it is for symmetric matrices.
pub(crate) fn is_symmetric(policy: &PivotPolicy) -> bool {
    match policy.kind {
        PivotKind::Symmetric { .. } | PivotKind::Definite | PivotKind::Signed { .. } => true,
        PivotKind::Diagonal | PivotKind::WithinFront { .. } | PivotKind::Threshold { .. } => false,
    }
}

pub(crate) fn put_split(body: &mut Vec<u8>, split: &Split) {
    put(body, &[split.block_ptr.len() as u64]);
    let starts = split.block_ptr.iter().map(|&start| start as u64);
    put(body, &starts.collect::<Vec<_>>());
    body.extend(split.in_fronts.iter().map(|&in_fronts| u8::from(in_fronts)));
    put(body, &[split.expected as u64, split.flops.to_bits()]);
}

pub(crate) fn split(body: &mut Body<'_>) -> Result<Split, SavedError> {
    let block_ptr = body.array(8, |bytes| {
        usize::try_from(u64_of(bytes)).unwrap_or(usize::MAX)
    })?;
    let in_fronts = body.bytes(block_ptr.len().saturating_sub(1))?;
    if in_fronts.iter().any(|&byte| byte > 1) {
        return Err(damaged("engines of the diagonal blocks"));
    }
    let in_fronts = in_fronts.iter().map(|&byte| byte == 1).collect();
    let (expected, flops) = (body.size()?, body.f64()?);
    if !flops.is_finite() {
        return Err(damaged("prediction"));
    }
    Ok(Split {
        block_ptr,
        in_fronts,
        expected,
        flops,
    })
}

/// A record of known length in the middle of long arrays.
pub(crate) fn read_record<T>(
    source: &mut Source<'_>,
    len: usize,
    read: impl FnOnce(&mut Body<'_>) -> Result<T, SavedError>,
) -> Result<T, Error> {
    let bytes = source.bytes(len)?;
    let mut body = Body::new(&bytes);
    let record = read(&mut body)?;
    check(body.is_at_end(), "length")?;
    Ok(record)
}
