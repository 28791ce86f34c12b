//! Analyses in files: the order of a matrix, which is what an analysis takes its time for.
//!
//! ```text
//! "lugeorder" 0 0 0    12 bytes
//! version              u32
//! bytes of the body    u64
//! CRC-32 of the body   u32
//! body                 what the order is for, then the order
//! ```
//!
//! All numbers are little-endian. What follows from an order in a time linear in its matrix, or depends on the machine,
//! is planned again: trees, engines, memory, devices. So a file serves any number of threads, the CPU as well as a GPU,
//! and every version of this crate that knows the version of the format.
//!
//! A checksum guards against damage, not against malice; but what is read is checked for what the planning counts on, and
//! is in memory only as far as it is there.

use std::fmt::Debug;
use std::io::{Read, Write};

use luge_ordering::{
    BlockReport, MethodUsed, Ordering, OrderingOptions, OrderingSeconds, Prediction,
    SymmetricOrdering,
};
use luge_sparse::{ColPerm, CompressedPattern, Reservation, RowPerm, Scalar};
use num_complex::Complex;

use crate::backend::Limits;
use crate::codec::{
    Body, damaged, put, put_forest, put_optional, put_scaling, put_u32s, u32_of, u64_of,
};
use crate::error::{Error, SavedError};
use crate::options::SymmetricKind;
use crate::ordered::name_of;

const MAGIC: &[u8; 12] = b"lugeorder\0\0\0";

/// Bytes before the body.
const HEAD: usize = MAGIC.len() + 4 + 8 + 4;

/// The version of the format that is written, and the only one that is read.
const VERSION: u32 = 1;

/// What is asked of an order, by names that do not change.
const ASKED: [&str; 4] = [
    "kind",
    "ordering.matching",
    "ordering.scaling",
    "ordering.block_triangular",
];

/// Bytes for each row: permutations, scaling, and the forest.
const BYTES_PER_ROW: u64 = 32;

/// The order of a matrix, and what it is for.
pub(crate) struct Saved {
    purpose: Purpose,
    order: Order,
    /// What is reserved for it.
    _memory: Option<Reservation>,
}

/// An order, as the ordering phase gives it.
pub(crate) enum Order {
    General(Ordering),
    Symmetric(SymmetricOrdering),
}

/// Types of values, and what stands for them in a file.
const SCALARS: [(&str, u8); 4] = [
    (<f32 as Scalar>::NAME, 4),
    (<f64 as Scalar>::NAME, 8),
    (<Complex<f32> as Scalar>::NAME, 68),
    (<Complex<f64> as Scalar>::NAME, 72),
];

/// What an order is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// The type of the values.
    scalar: &'static str,
    n: u64,
    nnz: u64,
    /// Checksums of offsets and indices of the rows.
    checksums: [u32; 2],
    /// What the matrix was taken for, and what the options ask of an order: for each of [`ASKED`].
    options: [String; 4],
    /// Whether values were unknown.
    of_pattern_alone: bool,
}

impl Purpose {
    /// For a matrix with these rows; of a symmetric one, all of it.
    pub(crate) fn new(
        rows: &CompressedPattern,
        kind: Option<SymmetricKind>,
        options: &OrderingOptions,
        scalar: &'static str,
        of_pattern_alone: bool,
    ) -> Self {
        let mut of_ptr = crc32fast::Hasher::new();
        for &offset in rows.ptr() {
            of_ptr.update(&offset.to_le_bytes());
        }
        let mut of_idx = crc32fast::Hasher::new();
        for &index in rows.idx() {
            of_idx.update(&index.to_le_bytes());
        }
        let kind = kind.map_or_else(|| "General".to_owned(), |kind| format!("{kind:?}"));
        let word = |value: &dyn Debug| format!("{value:?}");
        Self {
            scalar,
            n: rows.major_dim() as u64,
            nnz: rows.nnz() as u64,
            checksums: [of_ptr.finalize(), of_idx.finalize()],
            options: [
                kind,
                word(&options.matching),
                word(&options.scaling),
                word(&options.block_triangular),
            ],
            of_pattern_alone,
        }
    }

    /// Order of the matrix.
    pub(crate) fn n(&self) -> u64 {
        self.n
    }

    /// Whether values were unknown.
    pub(crate) fn is_of_pattern_alone(&self) -> bool {
        self.of_pattern_alone
    }

    /// Refuses what is for something else than `self`.
    pub(crate) fn check(&self, saved: &Self) -> Result<(), SavedError> {
        if self.scalar != saved.scalar {
            return Err(SavedError::OtherScalar {
                saved: saved.scalar,
                given: self.scalar,
            });
        }
        if (self.n, self.nnz) != (saved.n, saved.nnz) || self.checksums != saved.checksums {
            return Err(SavedError::OtherPattern {
                saved: (saved.n, saved.nnz),
                given: (self.n, self.nnz),
            });
        }
        let options = self.options.iter().zip(&saved.options);
        for (option, (given, saved)) in ASKED.into_iter().zip(options) {
            if given != saved {
                return Err(SavedError::OtherOption {
                    option,
                    saved: saved.clone(),
                    given: given.clone(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, body: &mut Vec<u8>) {
        let code = SCALARS.iter().find(|(name, _)| *name == self.scalar);
        body.push(code.map_or(0, |&(_, code)| code));
        put(body, &[self.n, self.nnz]);
        for checksum in self.checksums {
            body.extend(checksum.to_le_bytes());
        }
        for value in &self.options {
            put(body, &[value.len() as u64]);
            body.extend(value.bytes());
        }
        body.push(u8::from(self.of_pattern_alone));
    }

    pub(crate) fn read(body: &mut Body<'_>) -> Result<Self, SavedError> {
        let code = body.byte()?;
        let known = SCALARS.iter().find(|(_, known)| *known == code);
        let Some(&(scalar, _)) = known else {
            return Err(damaged("type of the values"));
        };
        let (n, nnz) = (body.u64()?, body.u64()?);
        let checksums = [body.u32()?, body.u32()?];
        let mut options = ASKED.map(|_| String::new());
        for value in &mut options {
            let text = body.array(1, |bytes| bytes[0])?;
            *value = String::from_utf8(text).map_err(|_| damaged("options"))?;
        }
        Ok(Self {
            scalar,
            n,
            nnz,
            checksums,
            options,
            of_pattern_alone: body.truth()?,
        })
    }
}

impl Saved {
    pub(crate) fn new(purpose: Purpose, order: Order, limits: &Limits) -> Result<Self, Error> {
        let memory = limits.reserve(BYTES_PER_ROW * purpose.n, "ordering")?;
        Ok(Self {
            purpose,
            order,
            _memory: Some(memory),
        })
    }

    /// Whether an order is made without values, or was.
    pub(crate) fn is_of_pattern_alone(has_no_values: bool, saved: Option<&Self>) -> bool {
        saved.map_or(has_no_values, |saved| saved.purpose.of_pattern_alone)
    }

    /// Writes the file.
    pub(crate) fn write(&self, mut out: impl Write) -> Result<(), SavedError> {
        let mut body = Vec::new();
        self.purpose.write(&mut body);
        match &self.order {
            Order::General(ordering) => {
                body.push(0);
                write_general(&mut body, ordering);
            }
            Order::Symmetric(ordering) => {
                body.push(1);
                write_symmetric(&mut body, ordering);
            }
        }
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend((body.len() as u64).to_le_bytes());
        head.extend(crc32fast::hash(&body).to_le_bytes());
        out.write_all(&head)?;
        out.write_all(&body)?;
        Ok(out.flush()?)
    }

    /// Reads a file, and nothing behind it.
    pub(crate) fn read(mut source: impl Read) -> Result<Self, SavedError> {
        let mut head = Vec::with_capacity(HEAD);
        source.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        let known = head.len().min(MAGIC.len());
        if head[..known] != MAGIC[..known] {
            return Err(SavedError::NotAnAnalysis);
        }
        if head.len() < HEAD {
            return Err(SavedError::Truncated);
        }
        let mut fields = Body::new(&head[MAGIC.len()..]);
        let (version, announced, checksum) = (fields.u32()?, fields.u64()?, fields.u32()?);
        if version != VERSION {
            return Err(SavedError::OtherVersion {
                found: version,
                known: VERSION,
            });
        }
        let mut bytes = Vec::new();
        source.take(announced).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < announced {
            return Err(SavedError::Truncated);
        }
        if crc32fast::hash(&bytes) != checksum {
            return Err(SavedError::Checksum);
        }
        let mut body = Body::new(&bytes);
        let purpose = Purpose::read(&mut body)?;
        let n = usize::try_from(purpose.n).map_err(|_| damaged("order of the matrix"))?;
        let order = match body.byte()? {
            0 => Order::General(read_general(&mut body, n)?),
            1 => Order::Symmetric(read_symmetric(&mut body, n)?),
            _ => return Err(damaged("kind of the order")),
        };
        if !body.is_at_end() {
            return Err(damaged("length"));
        }
        Ok(Self {
            purpose,
            order,
            _memory: None,
        })
    }

    /// The order of a general matrix, for this purpose.
    pub(crate) fn general(
        &self,
        purpose: &Purpose,
        limits: &Limits,
    ) -> Result<(Ordering, Reservation), Error> {
        purpose.check(&self.purpose)?;
        match &self.order {
            Order::General(ordering) => {
                let memory = limits.reserve(BYTES_PER_ROW * purpose.n, "ordering")?;
                Ok((ordering.clone(), memory))
            }
            // The kinds that were compared say so.
            Order::Symmetric(_) => Err(damaged("kind of the order").into()),
        }
    }

    /// The order of a symmetric matrix, for this purpose.
    pub(crate) fn symmetric(
        &self,
        purpose: &Purpose,
        limits: &Limits,
    ) -> Result<(SymmetricOrdering, Reservation), Error> {
        purpose.check(&self.purpose)?;
        match &self.order {
            Order::Symmetric(ordering) => {
                let memory = limits.reserve(BYTES_PER_ROW * purpose.n, "ordering")?;
                Ok((ordering.clone(), memory))
            }
            Order::General(_) => Err(damaged("kind of the order").into()),
        }
    }
}

fn put_prediction(body: &mut Vec<u8>, predicted: &Prediction) {
    put(
        body,
        &[
            predicted.lnz,
            predicted.unz,
            predicted.off_diagonal_nnz,
            predicted.flops.to_bits(),
            predicted.fronts,
            predicted.front_entries.to_bits(),
            predicted.flops_per_pivot.to_bits(),
        ],
    );
}

/// The methods in the order of their numbers.
const METHODS: [MethodUsed; 7] = [
    MethodUsed::Amd,
    MethodUsed::Colamd,
    MethodUsed::NestedDissection,
    MethodUsed::Metis,
    MethodUsed::AmdAndNestedDissection,
    MethodUsed::Natural,
    MethodUsed::User,
];

/// The name of a method in reports, if it is one.
pub(crate) fn name_of_method(name: &str) -> Option<&'static str> {
    let mut names = METHODS.into_iter().map(name_of);
    names.find(|known| *known == name)
}

fn put_method(body: &mut Vec<u8>, method: MethodUsed) {
    let number = METHODS.iter().position(|&other| other == method);
    // All methods are in the list.
    body.push(number.unwrap_or(METHODS.len()) as u8);
}

fn write_general(body: &mut Vec<u8>, ordering: &Ordering) {
    put_u32s(body, ordering.row_perm.as_slice());
    put_u32s(body, ordering.col_perm.as_slice());
    put_scaling(body, &ordering.scaling);
    put(body, &[ordering.block_ptr.len() as u64]);
    for &start in &ordering.block_ptr {
        put(body, &[start as u64]);
    }
    put(body, &[ordering.structural_rank as u64]);
    body.push(u8::from(ordering.rows_matched));
    put_optional(body, ordering.log10_matching_product.map(f64::to_bits));
    body.push(u8::from(ordering.matching_refused));
    put_method(body, ordering.method_used);
    put_prediction(body, &ordering.predicted);
    put(body, &[ordering.blocks.len() as u64]);
    for report in &ordering.blocks {
        put(body, &[report.block as u64]);
        put_method(body, report.method);
        put_prediction(body, &report.predicted);
    }
    put_forest(body, ordering.forest.as_ref());
}

fn read_general(body: &mut Body<'_>, n: usize) -> Result<Ordering, SavedError> {
    let row_perm = RowPerm::new(body.u32s(n)?).map_err(|_| damaged("order of the rows"))?;
    let col_perm = ColPerm::new(body.u32s(n)?).map_err(|_| damaged("order of the columns"))?;
    let scaling = body.scaling(n)?;
    let starts = body.array(8, |bytes| u64_of(bytes) as usize)?;
    let increases = starts.windows(2).all(|pair| pair[0] < pair[1]);
    if starts.first() != Some(&0) || starts.last() != Some(&n) || !increases {
        return Err(damaged("diagonal blocks"));
    }
    let structural_rank = body.u64()?;
    if structural_rank != n as u64 {
        return Err(damaged("structural rank"));
    }
    let rows_matched = body.truth()?;
    let log10_matching_product = body.optional()?.map(f64::from_bits);
    let matching_refused = body.truth()?;
    let method_used = body.method()?;
    let predicted = body.prediction()?;
    let count = body.u64()?;
    let mut blocks: Vec<BlockReport> = Vec::new();
    for _ in 0..count {
        let block = body.u64()? as usize;
        let after_last = blocks.last().is_none_or(|last| last.block < block);
        if block + 1 >= starts.len() || !after_last {
            return Err(damaged("reports of diagonal blocks"));
        }
        blocks.push(BlockReport {
            block,
            method: body.method()?,
            predicted: body.prediction()?,
        });
    }
    Ok(Ordering {
        row_perm,
        col_perm,
        scaling,
        block_ptr: starts,
        structural_rank: n,
        rows_matched,
        log10_matching_product,
        matching_refused,
        method_used,
        predicted,
        blocks,
        forest: body.forest(n)?,
        block_forests: Vec::new(),
        seconds: OrderingSeconds::default(),
    })
}

fn write_symmetric(body: &mut Vec<u8>, ordering: &SymmetricOrdering) {
    put_u32s(body, ordering.perm.as_slice());
    put_scaling(body, &ordering.scaling);
    put_u32s(body, &ordering.pair_starts);
    put_optional(body, ordering.structural_rank.map(|rank| rank as u64));
    put_optional(body, ordering.log10_matching_product.map(f64::to_bits));
    body.push(u8::from(ordering.matching_used));
    put_method(body, ordering.method_used);
    put_prediction(body, &ordering.predicted);
    put_forest(body, ordering.forest.as_ref());
}

fn read_symmetric(body: &mut Body<'_>, n: usize) -> Result<SymmetricOrdering, SavedError> {
    let perm = ColPerm::new(body.u32s(n)?).map_err(|_| damaged("order of the columns"))?;
    let scaling = body.scaling(n)?;
    if scaling.rows != scaling.cols {
        return Err(damaged("scaling"));
    }
    let pair_starts = body.array(4, u32_of)?;
    let apart = pair_starts
        .windows(2)
        .all(|pair| u64::from(pair[0]) + 1 < u64::from(pair[1]));
    if !apart
        || pair_starts
            .last()
            .is_some_and(|&last| last as usize + 1 >= n)
    {
        return Err(damaged("pairs"));
    }
    let structural_rank = body.optional()?;
    if structural_rank.is_some_and(|rank| rank > n as u64) {
        return Err(damaged("structural rank"));
    }
    Ok(SymmetricOrdering {
        perm,
        scaling,
        pairs: pair_starts.len(),
        pair_starts,
        structural_rank: structural_rank.map(|rank| rank as usize),
        log10_matching_product: body.optional()?.map(f64::from_bits),
        matching_used: body.truth()?,
        method_used: body.method()?,
        predicted: body.prediction()?,
        forest: body.forest(n)?,
        seconds: OrderingSeconds::default(),
    })
}

impl Body<'_> {
    fn method(&mut self) -> Result<MethodUsed, SavedError> {
        let method = METHODS.get(usize::from(self.byte()?)).copied();
        method.ok_or(damaged("method of the ordering"))
    }

    fn prediction(&mut self) -> Result<Prediction, SavedError> {
        let predicted = Prediction {
            lnz: self.u64()?,
            unz: self.u64()?,
            off_diagonal_nnz: self.u64()?,
            flops: self.f64()?,
            fronts: self.u64()?,
            front_entries: self.f64()?,
            flops_per_pivot: self.f64()?,
        };
        let sizes = [
            predicted.flops,
            predicted.front_entries,
            predicted.flops_per_pivot,
        ];
        if sizes.iter().any(|size| !size.is_finite() || *size < 0.0) {
            return Err(damaged("prediction"));
        }
        Ok(predicted)
    }
}

#[cfg(test)]
mod tests {
    use luge_sparse::Scaling;
    use luge_sparse::etree::{EliminationForest, NONE};
    use proptest::prelude::*;

    use super::*;
    use crate::forests::is_posted;

    fn forest(parent: &[u32], counts: &[u32]) -> EliminationForest {
        EliminationForest {
            parent: parent.to_vec(),
            counts: counts.to_vec(),
        }
    }

    /// The file of a small order, with pairs or with blocks.
    fn file(symmetric: bool) -> Vec<u8> {
        let numbers = || (0..4).collect::<Vec<u32>>();
        let scaling = Scaling {
            rows: vec![0.5; 4],
            cols: vec![0.5; 4],
        };
        let forest = Some(forest(&[1, 3, 3, NONE], &[2, 2, 2, 1]));
        let col_perm = ColPerm::new(numbers()).unwrap();
        let order = if symmetric {
            Order::Symmetric(SymmetricOrdering {
                perm: col_perm,
                scaling,
                pairs: 1,
                pair_starts: vec![1],
                structural_rank: Some(4),
                log10_matching_product: None,
                matching_used: true,
                method_used: MethodUsed::Amd,
                predicted: Prediction::default(),
                forest,
                seconds: OrderingSeconds::default(),
            })
        } else {
            Order::General(Ordering {
                row_perm: RowPerm::new(numbers()).unwrap(),
                col_perm,
                scaling,
                block_ptr: vec![0, 1, 4],
                structural_rank: 4,
                rows_matched: false,
                log10_matching_product: Some(1.5),
                matching_refused: false,
                method_used: MethodUsed::NestedDissection,
                predicted: Prediction::default(),
                blocks: vec![BlockReport {
                    block: 1,
                    method: MethodUsed::Amd,
                    predicted: Prediction::default(),
                }],
                forest,
                block_forests: Vec::new(),
                seconds: OrderingSeconds::default(),
            })
        };
        let pattern = CompressedPattern::new(4, vec![0; 5], Vec::new()).unwrap();
        let kind = symmetric.then_some(SymmetricKind::Indefinite);
        let options = OrderingOptions::default();
        let saved = Saved {
            purpose: Purpose::new(&pattern, kind, &options, "f64", false),
            order,
            _memory: None,
        };
        let mut file = Vec::new();
        saved.write(&mut file).unwrap();
        file
    }

    proptest! {
        /// Whatever a body says that has the right checksum, it is read or refused, and what is read is sound.
        #[test]
        fn no_body_makes_the_reader_panic(
            symmetric in any::<bool>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut file = file(symmetric);
            prop_assert!(Saved::read(&file[..]).is_ok());
            let len = file.len();
            for (at, byte) in changes {
                file[28 + at.index(len - 28)] = byte;
            }
            let checksum = crc32fast::hash(&file[28..]);
            file[24..28].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(Saved { order: Order::General(ordering), .. }) = Saved::read(&file[..]) {
                prop_assert_eq!(ordering.block_ptr.last(), Some(&4));
                prop_assert_eq!(ordering.row_perm.len(), 4);
                prop_assert!(ordering.forest.iter().all(is_posted));
            }
        }
    }
}
