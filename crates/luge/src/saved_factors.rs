//! Factors in files, so that a factorization is kept from one process to the next.
//!
//! ```text
//! "lugefactors" 0           12 bytes
//! version                   u32
//! bytes of the head         u64
//! head                      what the factors are for, the order and scaling that they were computed with, what was measured
//! CRC-32 of all before      u32
//! values                    of A, by rows
//! factors                   of each engine: panels of fronts, columns of L and U
//! CRC-32 of all before      u32
//! ```
//!
//! All numbers are little-endian. Trees and plans follow from pattern and order, and are made again; what was searched with the
//! values is in the file, and read as it is. The head is compared with its checksum before anything is planned by it, so damage
//! is noticed before the work. A checksum guards against damage, not against malice, but solves and refactorizations read
//! indices without a check: whatever is read is checked for all that they count on.

use std::sync::Arc;

use luge_numeric::cpu::blocks::Split;
use luge_ordering::Matching;
use luge_sparse::etree::EliminationForest;
use luge_sparse::{ColPerm, Form, PivotPolicy, Quality, RowPerm, Scalar};

use crate::codec::{Body, Sink, Source, check, damaged, put, put_u32s, u32_of};
use crate::engine::{Condition, Transform};
use crate::engine_parts::{is_symmetric, policy, put_policy, put_quality, quality, split};
use crate::error::{Error, SavedError};
use crate::host_path::{HostFactors, HostPath};
use crate::inform::Inform;
use crate::options::{Options, SymmetricKind};
use crate::probe::Probe;
use crate::saved::Purpose;
use crate::shared::Shared;
use crate::stored::Rows;

const MAGIC: &[u8; 12] = b"lugefactors\0";

/// The version of the format that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Options that decide what later calls make of the factors, by names that do not change.
const ASKED: [&str; 5] = [
    "precision",
    "pivoting",
    "singular",
    "max_delays",
    "regularization",
];

/// What a file says before the values and the factors.
pub(crate) struct Head {
    pub purpose: Purpose,
    /// What the matrix was taken for.
    pub kind: Option<SymmetricKind>,
    /// What counterparts across its diagonal were.
    pub form: Form,
    asked: [String; 5],
    pub told: Told,
    pub transform: Transform,
    pub plan: SavedPlan,
    pub policy: PivotPolicy,
    /// What may be tried if these pivots do not serve other values.
    pub alternative: Option<Matching>,
    pub quality: Quality,
    pub probe: Option<Probe>,
    pub condition: Option<Condition>,
    pub bound: f64,
}

/// What the analysis told of itself.
pub(crate) struct Told {
    pub ordering: String,
    pub matched: bool,
    pub num_blocks: usize,
    pub lnz: u64,
    pub unz: u64,
    pub flops: f64,
}

/// What it takes to plan the factorization again, beside pattern and order.
pub(crate) enum SavedPlan {
    General(Split),
    Symmetric(Option<EliminationForest>),
}

/// The values of [`ASKED`].
fn asked(options: &Options, single: bool) -> [String; 5] {
    let regularization = options.regularization.as_ref().map(|regularization| {
        let signs = regularization.signs.iter().map(|&sign| sign as u8);
        let checksum = crc32fast::hash(&signs.collect::<Vec<_>>());
        let (delta, below) = (regularization.delta, regularization.below);
        format!("delta {delta:e}, below {below:e}, signs {checksum:08x}")
    });
    [
        if single { "single" } else { "double" }.to_owned(),
        format!("{:?}", options.pivoting),
        format!("{:?}", options.singular),
        format!("{:?}", options.max_delays),
        regularization.unwrap_or_else(|| "none".to_owned()),
    ]
}

const KINDS: [Option<SymmetricKind>; 5] = [
    None,
    Some(SymmetricKind::Definite),
    Some(SymmetricKind::MaybeDefinite),
    Some(SymmetricKind::Indefinite),
    Some(SymmetricKind::Signed),
];

const FORMS: [Form; 2] = [Form::Symmetric, Form::Hermitian];

const ALTERNATIVES: [Option<Matching>; 4] = [
    None,
    Some(Matching::Auto),
    Some(Matching::Always),
    Some(Matching::Never),
];

/// The number of one of these values, all of which are in the list.
fn put_choice<T: PartialEq>(body: &mut Vec<u8>, choices: &[T], choice: &T) {
    let number = choices.iter().position(|other| other == choice);
    body.push(number.unwrap_or(choices.len()) as u8);
}

fn choice<T: Copy>(body: &mut Body<'_>, choices: &[T]) -> Result<T, SavedError> {
    let choice = choices.get(usize::from(body.byte()?));
    choice.copied().ok_or(damaged("choice"))
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    put(body, &[text.len() as u64]);
    body.extend(text.bytes());
}

fn text(body: &mut Body<'_>) -> Result<String, SavedError> {
    let bytes = body.array(1, |bytes| bytes[0])?;
    String::from_utf8(bytes).map_err(|_| damaged("text"))
}

fn put_probe(body: &mut Vec<u8>, probe: Option<Probe>) {
    body.push(u8::from(probe.is_some()));
    let Some(probe) = probe else { return };
    let Probe {
        backward_error,
        unrefined,
        componentwise,
        steps,
        worst_row,
        norm_x,
        norm_a,
    } = probe;
    let measures = [backward_error, unrefined, componentwise, norm_x, norm_a];
    put(body, &measures.map(f64::to_bits));
    put(body, &[steps as u64, worst_row as u64]);
}

fn probe(body: &mut Body<'_>, n: usize) -> Result<Option<Probe>, SavedError> {
    if !body.truth()? {
        return Ok(None);
    }
    Ok(Some(Probe {
        backward_error: body.f64()?,
        unrefined: body.f64()?,
        componentwise: body.f64()?,
        norm_x: body.f64()?,
        norm_a: body.f64()?,
        steps: body.size()?,
        worst_row: body.index(n.max(1))?,
    }))
}

fn put_condition(body: &mut Vec<u8>, condition: Option<&Condition>) {
    body.push(u8::from(condition.is_some()));
    let Some(condition) = condition else { return };
    put(
        body,
        &[condition.rcond.to_bits(), condition.epsilon.to_bits()],
    );
    body.push(u8::from(condition.is_constant));
    let columns = condition.columns.iter().map(|&column| column as u32);
    put_u32s(body, &columns.collect::<Vec<_>>());
}

fn condition(body: &mut Body<'_>, n: usize) -> Result<Option<Condition>, SavedError> {
    if !body.truth()? {
        return Ok(None);
    }
    let (rcond, epsilon) = (body.f64()?, body.f64()?);
    let is_constant = body.truth()?;
    let columns = body.array(4, |bytes| u32_of(bytes) as usize)?;
    if columns.iter().any(|&column| column >= n) {
        return Err(damaged("columns"));
    }
    Ok(Some(Condition {
        rcond,
        columns,
        is_constant,
        epsilon,
    }))
}

/// Writes the factors of a matrix with these values in stored order.
pub(crate) fn write<T: Scalar>(
    mut sink: Sink<'_>,
    shared: &Shared,
    path: &HostPath<T::Wide>,
    factors: &HostFactors<T::Wide>,
    values: &[T],
    analyzed: &Inform,
) -> Result<(), Error> {
    let (n, nnz) = (shared.n() as u64, shared.nnz() as u64);
    // The rows with their values, and permutations, scaling, blocks and a forest in the head.
    let turned = Rows::bytes(n, nnz, shared.is_by_columns());
    let _memory = shared.limits.reserve(turned + 2 * 48 * n, "numeric")?;
    let rows = Rows::new(
        &shared.pattern,
        shared.is_by_columns(),
        &shared.limits.cancel,
    )?;
    let kind = shared.symmetry.as_ref().map(|symmetry| symmetry.kind);
    let purpose = Purpose::new(
        &rows.pattern,
        kind,
        &shared.ordering,
        T::NAME,
        shared.of_pattern_alone,
    );
    let mut head = Vec::new();
    purpose.write(&mut head);
    put_choice(&mut head, &KINDS, &kind);
    let form = shared.symmetry.as_ref().map(|symmetry| symmetry.form);
    put_choice(&mut head, &FORMS, &form.unwrap_or(Form::Symmetric));
    for value in asked(&shared.options, path.is_single()) {
        put_text(&mut head, &value);
    }
    put_text(&mut head, analyzed.ordering);
    head.push(u8::from(analyzed.matched));
    put(
        &mut head,
        &[
            analyzed.num_blocks as u64,
            analyzed.lnz,
            analyzed.unz,
            analyzed.flops.to_bits(),
        ],
    );
    put_choice(&mut head, &ALTERNATIVES, &path.alternative);
    put_policy(&mut head, &factors.engine.policy());
    put_quality(&mut head, factors.engine.quality());
    put_probe(&mut head, factors.probe);
    put_condition(&mut head, factors.condition.as_ref());
    put(&mut head, &[factors.bound.to_bits()]);
    factors.analysis.write_plan(&mut head);

    sink.bytes(MAGIC)?;
    sink.bytes(&VERSION.to_le_bytes())?;
    sink.u64(head.len() as u64)?;
    sink.bytes(&head)?;
    sink.seal()?;
    sink.numbers(&rows.values(values))?;
    factors.engine.write_factors(&mut sink)?;
    sink.finish()
}

impl Head {
    /// Reads the beginning of a file.
    pub(crate) fn read(source: &mut Source<'_>) -> Result<Self, Error> {
        let magic = source.bytes_or_fewer(MAGIC.len())?;
        if magic[..] != MAGIC[..magic.len()] {
            return Err(SavedError::NotFactors.into());
        }
        if magic.len() < MAGIC.len() {
            return Err(SavedError::Truncated.into());
        }
        let version = source.bytes(4).map(|bytes| u32_of(&bytes))?;
        if version != VERSION {
            return Err(SavedError::OtherVersion {
                found: version,
                known: VERSION,
            }
            .into());
        }
        let len = source.count(u64::MAX)?;
        let bytes = source.bytes(len)?;
        source.check_seal()?;
        let mut body = Body::new(&bytes);
        let head = Self::of(&mut body)?;
        check(body.is_at_end(), "length")?;
        Ok(head)
    }

    fn of(body: &mut Body<'_>) -> Result<Self, SavedError> {
        let purpose = Purpose::read(body)?;
        let n = usize::try_from(purpose.n()).map_err(|_| damaged("order of the matrix"))?;
        let kind = choice(body, &KINDS)?;
        let form = choice(body, &FORMS)?;
        let mut asked = ASKED.map(|_| String::new());
        for value in &mut asked {
            *value = text(body)?;
        }
        let told = Told {
            ordering: text(body)?,
            matched: body.truth()?,
            num_blocks: body.size()?,
            lnz: body.u64()?,
            unz: body.u64()?,
            flops: body.f64()?,
        };
        // Sizes are predicted from these, in numbers of 64 bits.
        let most = (n as u64).saturating_mul(n as u64).min(1 << 56);
        let is_sound = told.lnz <= most && told.unz <= most && told.num_blocks <= n;
        if !is_sound || !told.flops.is_finite() {
            return Err(damaged("prediction"));
        }
        let alternative = choice(body, &ALTERNATIVES)?;
        let policy = policy(body)?;
        if is_symmetric(&policy) != kind.is_some() {
            return Err(damaged("choice of pivots"));
        }
        let quality = quality(body, n)?;
        let (probe, condition) = (probe(body, n)?, condition(body, n)?);
        let bound = body.f64()?;
        let row_perm = RowPerm::new(body.u32s(n)?).map_err(|_| damaged("order of the rows"))?;
        let col_perm = ColPerm::new(body.u32s(n)?).map_err(|_| damaged("order of the columns"))?;
        let scaling = body.scaling(n)?;
        let is_power = |factor: &f64| factor.is_normal() && factor.to_bits() << 12 == 0;
        let mut factors = scaling.rows.iter().chain(&scaling.cols);
        if !factors.all(is_power) {
            return Err(damaged("scaling"));
        }
        let plan = if kind.is_some() {
            if row_perm.as_slice() != col_perm.as_slice() || scaling.rows != scaling.cols {
                return Err(damaged("order of the rows"));
            }
            SavedPlan::Symmetric(body.forest(n)?)
        } else {
            SavedPlan::General(split(body)?)
        };
        Ok(Self {
            purpose,
            kind,
            form,
            asked,
            told,
            transform: Transform {
                row_perm,
                col_perm,
                scaling: Arc::new(scaling),
            },
            plan,
            policy,
            alternative,
            quality,
            probe,
            condition,
            bound,
        })
    }

    /// Refuses factors for something else than a matrix for which `purpose` is, with these options.
    pub(crate) fn check(
        &self,
        purpose: &Purpose,
        options: &Options,
        single: bool,
    ) -> Result<(), SavedError> {
        purpose.check(&self.purpose)?;
        let given = asked(options, single);
        for ((option, given), saved) in ASKED.into_iter().zip(given).zip(&self.asked) {
            if given != *saved {
                return Err(SavedError::OtherOption {
                    option,
                    saved: saved.clone(),
                    given,
                });
            }
        }
        Ok(())
    }
}
