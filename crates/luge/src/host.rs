//! The CPU path: diagonal blocks by the engines of `luge-numeric`, pivots searched as they come.
//!
//! [`HostAnalysis`] is an analysis of A's pattern, with the type of the factors hidden; [`HostEngine`]
//! has factors, renews them in place, and solves with A.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use luge_frontal::FrontalScalar;
use luge_numeric::NumericError;
use luge_numeric::cpu::Entries;
use luge_numeric::cpu::blocks::{self, BlockLu, BlockPlan, FrontSizes, Predicted, Split, Whole};
use luge_ordering::BlockReport;
use luge_solve::scaled;
use luge_sparse::etree::EliminationForest;
use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{
    CancelFlag, Cancelled, CompressedPattern, OutOfMemory, PivotPolicy, Quality, RealScalar,
    Reservation, RowPerm, Scalar, Scaling, bytes_of,
};
use smallvec::SmallVec;

use crate::accuracy::{exponents_of_smallest, inverse_exponent};
use crate::backend::{DeviceCosts, Limits};
use crate::codec::{Sink, Source, damaged, put_scaling, put_u32s};
use crate::determinant::Determinant;
use crate::engine::{self, Condition, Engine, FactorReport, Pivots, Transform};
use crate::error::{Error, PhaseError};
use crate::host_plan::{HostPlan, PlannedFactors};
use crate::lower_upper;
use crate::options::CpuEngine;
use crate::permuted::permuted_columns_within;
use crate::reductions::sum_in_lanes;
use crate::stored::Rows;
use crate::threads::Threads;

/// Products with inverse scale factors below this are not known to be more than what underflow left of them.
const SMALLEST_PRODUCT: f64 = 1e-200;

/// A product with such factors; NaN if it is not known.
fn or_unknown(product: f64) -> f64 {
    if product > SMALLEST_PRODUCT {
        product
    } else {
        f64::NAN
    }
}

/// An analysis for the CPU path: where the entries of A go, and how they are scaled and permuted, for factors of one type.
///
/// `W` is the [wide](Scalar::Wide) type of that type, in which it is given values.
pub(crate) trait AnyHost<W>: Send + Sync {
    fn front_sizes(&self) -> FrontSizes;

    /// Whether a factorization measures a checksum of B − L·U. Without one it is probed.
    fn has_checksum(&self) -> bool;

    /// Bytes that the plan holds.
    fn plan_bytes(&self) -> u64;

    /// Bytes that factors with so many entries in L and U, and the way to them, are predicted to take.
    fn predicted_bytes(&self, entries: u64) -> u64;

    fn transform(&self) -> &Transform;

    /// The exponent of 1 / (min Dr · min Dc).
    fn inverse_exponent(&self) -> i32;

    /// The [name](Scalar::NAME) of the type of the factors.
    fn precision(&self) -> &'static str;

    /// ε of the type of the factors.
    fn epsilon(&self) -> f64;

    /// The smallest and the largest number of the type of the factors between which columns of B must be, so that its
    /// entries keep their digits and their products stay finite.
    fn range(&self) -> [f64; 2];

    /// The same with another scaling by powers of two, for the pattern of A as it is stored.
    fn rescaled(
        &self,
        stored: &CompressedPattern,
        by_columns: bool,
        scaling: Scaling,
    ) -> Result<Arc<dyn AnyHost<W>>, Error>;

    /// Factorizes the values `a` of A in stored order.
    fn factorize(
        self: Arc<Self>,
        a: &[W],
        pivots: PivotPolicy,
    ) -> Result<Box<dyn HostEngine<W>>, Error>;

    /// Writes permutations and scaling, and what it takes to plan the same again.
    fn write_plan(&self, head: &mut Vec<u8>);

    /// Reads factors that were [written](HostEngine::write_factors), those of the values `a`; `measured` is how their pivots
    /// were chosen, and their quality.
    fn read_factors(
        self: Arc<Self>,
        a: &[W],
        measured: (PivotPolicy, Quality),
        source: &mut Source<'_>,
    ) -> Result<Box<dyn HostEngine<W>>, Error>;
}

/// Factors that can be renewed.
pub(crate) trait HostEngine<W>: Engine<W> {
    /// What the last factorization measured. Columns are those of A.
    fn quality(&self) -> &Quality;

    /// The permutations with which L·U was computed.
    fn transform(&self) -> Transform;

    /// At least the largest entry of Dr⁻¹·|L|·|U|·Dc⁻¹, times 2 to the power of minus
    /// [`inverse_exponent`](AnyHost::inverse_exponent); NaN if it is not known, or underflow may have taken from it. From
    /// the sizes of columns that the factorization measured, and for each the largest row factor that it meets.
    fn product_bound(&self) -> Result<f64, Error>;

    /// The same but for the order of the matrix at most, by a pass through the factors; of a symmetric matrix the norm of
    /// S⁻¹·|L|·|D|·|Lᵀ|·S⁻¹.
    fn product_norm(&self) -> Result<f64, Error>;

    /// How pivots are chosen.
    fn policy(&self) -> PivotPolicy;

    /// Writes the factors.
    fn write_factors(&self, sink: &mut Sink<'_>) -> Result<(), Error>;

    /// New values on the old pivots. After an error the factors are those of no matrix, until another
    /// call succeeds, or [`restore`](Self::restore).
    fn refactorize(&mut self, a: &[W]) -> Result<(), Error>;

    /// As [`refactorize`](Self::refactorize) where only the entries `changed` of A, in ascending order, have other values than
    /// those that the factors are of; the outcome is the same.
    fn refactorize_changed(&mut self, a: &[W], changed: &[usize]) -> Result<(), Error>;

    /// The predicted operations of the last refactorization over those of a whole one; 1 before the first.
    fn refactorized_part(&self) -> f64;

    /// Makes these factors again those of the values `a`, which they were before: at once, or, if the limits stop that,
    /// when they are next used.
    fn restore(&mut self, a: &Arc<dyn KeptValues<W>>);

    /// Replaces right-hand sides of A·x = b or Aᵀ·x = b, one after another, by solutions: one pass of
    /// triangular solves.
    fn solve_in_place(&self, x: &mut [W], transpose: bool) -> Result<(), Error>;

    /// As [`solve_in_place`](Self::solve_in_place), if no number is so large or small that exponents have to be kept
    /// apart, or the solution may have lost digits to underflow; else false, and `x` as it was.
    fn solve_near(&self, x: &mut [W], transpose: bool) -> Result<bool, Error>;
}

/// Values of a matrix that the engine may have to factorize again. They are shared, since a call that is cancelled has no time
/// for a copy.
pub(crate) trait KeptValues<W: Copy>: Send + Sync {
    /// In the type that engines take.
    fn in_wide(&self) -> Cow<'_, [W]>;
}

impl<T: Scalar> KeptValues<T::Wide> for Vec<T> {
    fn in_wide(&self) -> Cow<'_, [T::Wide]> {
        T::in_wide(self)
    }
}

/// What plans for the CPU are made of.
#[derive(Clone, Copy)]
pub(crate) struct HostPlace<'a> {
    pub engine: CpuEngine,
    pub threads: &'a Threads,
    pub limits: &'a Limits,
    pub rows: &'a Rows<'a>,
    /// Whether factors are of single precision.
    pub single: bool,
}

/// The analysis for factors of type `F` by a plan of type `P`.
pub(crate) struct HostAnalysis<F, P = BlockPlan> {
    transform: Transform,
    plan: Arc<P>,
    entry_scaling: EntryScaling,
    /// Entries of A; the sources of the plan are below that.
    nnz: usize,
    /// Whether row and column factors can be applied by plain multiplications.
    tame: bool,
    /// See [`AnyHost::inverse_exponent`].
    inverse_exponent: i32,
    threads: Threads,
    limits: Limits,
    /// What is reserved for the transform and the scaling of entries.
    memory: Reservation,
    /// See [`numbers_in_plan`](Self::numbers_in_plan).
    numbers: OnceLock<(Vec<u32>, Reservation)>,
    scalar: PhantomData<F>,
}

/// In place of the number of an entry that the plan has not.
const NOT_PLANNED: u32 = u32::MAX;

/// What the entries of the plan are multiplied with, in its order.
enum EntryScaling {
    None,
    /// The exponents of row factor times column factor, all powers of two, as a `f64` stores them: 1023 more.
    Exponents(Vec<u16>),
    /// Row and column in A of each entry: a product of their factors would leave the range of `f64`.
    Apart(Vec<(u32, u32)>),
}

/// The values of A in the order of the plan, scaled when they are read.
struct ScaledEntries<'a, W> {
    /// Number in A of each entry of the plan.
    source: &'a [u32],
    a: &'a [W],
    scaling: &'a Scaling,
    of_entries: &'a EntryScaling,
}

impl<F: FrontalScalar> Entries<F> for ScaledEntries<'_, F::Wide> {
    fn count(&self) -> usize {
        self.source.len()
    }

    #[inline(always)]
    fn load(&self, first: usize, into: &mut [F]) {
        let range = first..first + into.len();
        let a = self.a;
        let source = self.source[range.clone()].iter();
        // SAFETY: `HostAnalysis::analyze` looked whether all sources are entries of A, and `HostAnalysis::entries` whether there
        // is a value for each.
        let source = source.map(|&p| unsafe { *a.get_unchecked(p as usize) });
        match self.of_entries {
            EntryScaling::None => {
                for (into, a) in into.iter_mut().zip(source) {
                    *into = F::narrow(a);
                }
            }
            EntryScaling::Exponents(exponents) => {
                for ((into, a), &e) in into.iter_mut().zip(source).zip(&exponents[range]) {
                    let factor = f64::from_bits(u64::from(e) << 52);
                    *into = F::narrow(a.scaled_by(factor));
                }
            }
            EntryScaling::Apart(places) => {
                for ((into, a), &(row, col)) in into.iter_mut().zip(source).zip(&places[range]) {
                    *into = F::narrow(self.scaling.apply(row as usize, col as usize, a));
                }
            }
        }
    }
}

struct HostFactors<F: FrontalScalar, P: HostPlan<F>> {
    analysis: Arc<HostAnalysis<F, P>>,
    /// Nothing as long as there is something in `spoiled`.
    lu: OnceLock<P::Factors>,
    spoiled: Mutex<MaybeSpoiled<F, P>>,
    /// Row i of the factors is this row of A, if pivoting moved rows.
    row_perm: Option<RowPerm>,
    /// For one thread.
    options: blocks::Options,
    /// Columns are those of A.
    quality: Quality,
    /// What it was before the last refactorization, if there was one.
    accepted: Option<Box<Quality>>,
    /// Vectors for solves, one per solve that runs, and what is reserved for them.
    scratch: Mutex<Vec<(Vec<F>, Reservation)>>,
    /// What is reserved for permuted rows, and for what the first solve makes.
    _memory: Reservation,
    of_solves: OnceLock<Reservation>,
    /// Made where they are needed.
    weights: OnceLock<Box<Weights>>,
    /// What changed last, if the factors were ever told of changes.
    changes: Option<Box<Changes>>,
}

/// Entries of A that changed, and their numbers in the order of the plan.
struct Changes {
    of_a: Vec<usize>,
    in_plan: Vec<u32>,
    _memory: Reservation,
}

/// Factors that are to be restored, if there are any.
type MaybeSpoiled<F, P> = Option<Box<Spoiled<F, <P as HostPlan<F>>::Factors>>>;

/// Inverse scale factors, the largest of which are near 1.
struct Weights {
    /// Of the rows of the factors.
    rows: Vec<f64>,
    /// Of the columns of B.
    cols: Vec<f64>,
    /// Of the columns of |L|·|U|: at least the largest product of the factors of an entry.
    products: Vec<f64>,
    _memory: Reservation,
}

/// Factors of no matrix, whose pivots are still there, and the values of A that they are to have again.
struct Spoiled<F: FrontalScalar, L> {
    lu: L,
    a: Arc<dyn KeptValues<F::Wide>>,
}

/// Seconds of a symbolic factorization for an entry of L, roughly and at least.
const SYMBOLIC_PER_ENTRY: f64 = 1e-9;

/// What an ordering tells of diagonal blocks, in their order.
#[derive(Clone, Copy)]
pub(crate) struct KnownBlocks<'a> {
    pub reports: &'a [BlockReport],
    pub forests: &'a [(usize, EliminationForest)],
}

impl<F: FrontalScalar> HostAnalysis<F> {
    /// Analyzes B for the pattern of A; `memory` is reserved for the transform.
    pub(crate) fn analyze(
        place: HostPlace<'_>,
        transform: Transform,
        block_ptr: &[usize],
        known: KnownBlocks<'_>,
        memory: Reservation,
    ) -> Result<Arc<Self>, Error> {
        let KnownBlocks { reports, forests } = known;
        let predicted = |number: usize| {
            let at = reports.binary_search_by_key(&number, |block| block.block);
            let block = &reports[at.ok()?];
            let columns = block_ptr[number + 1] - block_ptr[number];
            let forest = forests.binary_search_by_key(&number, |(block, _)| *block);
            Some(Predicted {
                entries: block.predicted.lnz + block.predicted.unz - columns as u64,
                flops: block.predicted.flops,
                forest: forest.ok().map(|at| &forests[at].1),
            })
        };
        let limits = place.limits.of_phase();
        let entries: u64 = reports.iter().map(|block| block.predicted.lnz).sum();
        let seconds = entries as f64 * SYMBOLIC_PER_ENTRY;
        Self::planned(place, transform, memory, |cols| {
            Some(place.threads.run(seconds, |threads| {
                let engine = place.engine;
                BlockPlan::new(cols, block_ptr, engine, predicted, threads, &limits)
            }))
        })
    }

    /// Plans B as it was planned before, by its blocks and their engines; `memory` is reserved for the transform.
    ///
    /// # Errors
    ///
    /// [`Error::Saved`] if it has other blocks.
    pub(crate) fn analyze_again(
        place: HostPlace<'_>,
        transform: Transform,
        split: &Split,
        memory: Reservation,
    ) -> Result<Arc<Self>, Error> {
        let limits = place.limits.of_phase();
        Self::planned(place, transform, memory, |cols| {
            split
                .fits(cols)
                .then(|| BlockPlan::from_parts(cols, split, &limits))
        })
    }

    /// The analysis by the plan that `plan` makes for the columns of B; none if B has not the blocks that it is for.
    fn planned(
        place: HostPlace<'_>,
        transform: Transform,
        memory: Reservation,
        plan: impl FnOnce(&CompressedPattern) -> Option<Result<BlockPlan, NumericError>>,
    ) -> Result<Arc<Self>, Error> {
        let HostPlace {
            threads,
            limits,
            rows: a,
            ..
        } = place;
        let a_rows: &CompressedPattern = &a.pattern;
        let in_budget = |error| Error::from_budget(error, "symbolic");
        // Columns of B, the place of each of its entries, and the inverse permutation meanwhile.
        let (n, nnz) = (a_rows.major_dim() as u64, a_rows.nnz() as u64);
        let of_columns = limits.reserve(12 * n + 16 + 8 * nnz, "symbolic")?;
        let (cols, source) = permuted_columns_within(a_rows, &transform, &limits.cancel)?;
        let planned = plan(&cols).ok_or(damaged("diagonal blocks"))?;
        let mut plan = planned.map_err(|e| {
            let error = PhaseError::from(e);
            match error.in_terms_of_a(transform.col_perm.as_slice()) {
                Error::OutOfMemory {
                    asked, available, ..
                } => in_budget(OutOfMemory { asked, available }),
                other => other,
            }
        })?;
        drop(cols);
        limits.cancel.check()?;
        plan.compose(|p| source[p as usize]);
        drop((source, of_columns));
        limits.cancel.check()?;
        Self::with_plan(plan, a, transform, threads, limits, memory)
    }
}

impl<F: FrontalScalar, P: HostPlan<F>> HostAnalysis<F, P> {
    /// The analysis by a plan for the entries of A by rows; `memory` is reserved for the transform.
    pub(crate) fn with_plan(
        mut plan: P,
        a: &Rows<'_>,
        transform: Transform,
        threads: &Threads,
        limits: &Limits,
        mut memory: Reservation,
    ) -> Result<Arc<Self>, Error> {
        let nnz = a.pattern.nnz();
        // Exponents, or rows and columns, by row and then in the order of the plan.
        let before = memory.bytes();
        let grown = memory.grow(16 * nnz as u64);
        grown.map_err(|error| Error::from_budget(error, "symbolic"))?;
        let cancel = &limits.cancel;
        let scale =
            || EntryScaling::new(&a.pattern, false, &transform.scaling, plan.source(), cancel);
        let (entry_scaling, prepared) = threads.run(plan.seconds(), |threads| match threads {
            1 => (scale(), Ok(())),
            _ => rayon::join(scale, || plan.prepare(threads, cancel)),
        });
        let entry_scaling = entry_scaling?;
        prepared?;
        memory.shrink_to(before + entry_scaling.bytes());
        limits.cancel.check()?;
        if let Some(entries) = &a.entries {
            plan.compose(|p| entries[p as usize] as u32);
        }
        let largest = plan.source().iter().fold(0, |max, &p| max.max(p));
        assert!(nnz == 0 || (largest as usize) < nnz, "entries of A");
        let tame = transform.scaling.is_tame();
        let inverse_exponent = inverse_exponent(&transform.scaling);
        Ok(Arc::new(Self {
            transform,
            plan: Arc::new(plan),
            entry_scaling,
            nnz,
            tame,
            inverse_exponent,
            threads: threads.clone(),
            limits: limits.clone(),
            memory,
            numbers: OnceLock::new(),
            scalar: PhantomData,
        }))
    }

    /// Whether factors and solutions may be computed by plain arithmetic, in which nothing that matters for A becomes zero
    /// by underflow.
    fn is_plain(&self) -> bool {
        self.tame && size_of::<F::Real>() == size_of::<f64>()
    }

    /// The values of A in the order of the plan, scaled.
    ///
    /// # Panics
    ///
    /// If there are others than those of the entries of A.
    fn entries<'a>(&'a self, a: &'a [F::Wide]) -> ScaledEntries<'a, F::Wide> {
        assert_eq!(a.len(), self.nnz, "one value for each entry of A");
        ScaledEntries {
            source: self.plan.source(),
            a,
            scaling: &self.transform.scaling,
            of_entries: &self.entry_scaling,
        }
    }

    fn in_terms_of_a(&self, error: PhaseError) -> Error {
        error.in_terms_of_a(self.transform.col_perm.as_slice())
    }

    /// `quality` with columns of A instead of those of B.
    fn translate(&self, quality: &mut Quality) {
        let old = |column: usize| self.transform.col_perm.as_slice()[column] as usize;
        if self.plan.n() > 0 {
            quality.worst_column = old(quality.worst_column);
        }
        quality.first_perturbed = quality.first_perturbed.map(old);
    }
}

impl EntryScaling {
    fn bytes(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Exponents(of_entries) => size_of_val(&**of_entries) as u64,
            Self::Apart(of_entries) => size_of_val(&**of_entries) as u64,
        }
    }

    /// For the entries of A whose numbers are `source`, by rows or by columns; the factors are powers of two.
    fn new(
        a: &CompressedPattern,
        by_columns: bool,
        scaling: &Scaling,
        source: &[u32],
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let is_one = |f: &f64| *f == 1.0;
        if scaling.rows.iter().all(is_one) && scaling.cols.iter().all(is_one) {
            return Ok(Self::None);
        }
        let exponent = |factor: f64| (factor.to_bits() >> 52) as i16 - 1023;
        let (outer, inner) = if by_columns {
            (&scaling.cols, &scaling.rows)
        } else {
            (&scaling.rows, &scaling.cols)
        };
        let mut sums: SmallVec<[i16; 128]> = SmallVec::with_capacity(a.nnz());
        for (&of_outer, indices) in outer.iter().zip(a.lines()) {
            let of_outer = exponent(of_outer);
            let of_indices = indices.iter().map(|&i| exponent(inner[i as usize]));
            sums.extend(of_indices.map(|of_inner| of_outer + of_inner));
        }
        cancel.check()?;
        let normal = -1022..=1023;
        if sums.iter().fold(true, |all, e| all & normal.contains(e)) {
            let of_entries = source.iter().map(|&p| (1023 + sums[p as usize]) as u16);
            return Ok(Self::Exponents(of_entries.collect()));
        }
        drop(sums);
        let mut places = Vec::with_capacity(a.nnz());
        for (outer, indices) in a.lines().enumerate() {
            let outer = outer as u32;
            let place = |&inner: &u32| {
                if by_columns {
                    (inner, outer)
                } else {
                    (outer, inner)
                }
            };
            places.extend(indices.iter().map(place));
        }
        cancel.check()?;
        let of_entries = source.iter().map(|&p| places[p as usize]);
        Ok(Self::Apart(of_entries.collect()))
    }
}

/// Bytes that a factorization takes for each row, beside the factors, and whatever the matrix.
const BYTES_PER_ROW: u64 = 176;
const BYTES_BESIDE: u64 = 48 << 10;

impl<F: FrontalScalar, P: HostPlan<F>> AnyHost<F::Wide> for HostAnalysis<F, P> {
    fn front_sizes(&self) -> FrontSizes {
        self.plan.front_sizes()
    }

    fn has_checksum(&self) -> bool {
        P::HAS_CHECKSUM
    }

    fn plan_bytes(&self) -> u64 {
        self.plan.bytes()
    }

    fn predicted_bytes(&self, entries: u64) -> u64 {
        let (n, nnz) = (self.plan.n() as u64, self.plan.source().len() as u64);
        // The pattern and the values as they are stored; norms, permuted rows, and the vectors of a probe.
        let beside = 12 * nnz + 8 * n + BYTES_PER_ROW * n + BYTES_BESIDE;
        self.plan.predicted_bytes(entries, self.threads.count())
            + self.plan.bytes()
            + self.memory.bytes()
            + beside
    }

    fn transform(&self) -> &Transform {
        &self.transform
    }

    fn inverse_exponent(&self) -> i32 {
        self.inverse_exponent
    }

    fn precision(&self) -> &'static str {
        F::NAME
    }

    fn epsilon(&self) -> f64 {
        F::Real::epsilon().to_f64()
    }

    fn range(&self) -> [f64; 2] {
        let epsilon = F::Real::epsilon().to_f64();
        let (least, most) = (
            F::Real::min_positive_value().to_f64(),
            F::Real::max_value().to_f64(),
        );
        [least / (epsilon * epsilon), most * epsilon]
    }

    fn rescaled(
        &self,
        stored: &CompressedPattern,
        by_columns: bool,
        scaling: Scaling,
    ) -> Result<Arc<dyn AnyHost<F::Wide>>, Error> {
        let in_budget = |error| Error::from_budget(error, "numeric");
        let limits = &self.limits;
        // The factors, and exponents, or rows and columns, by row and in the order of the plan.
        let held = 16 * self.plan.n() as u64;
        let mut memory = limits.memory.reserve(held).map_err(in_budget)?;
        memory.grow(16 * self.nnz as u64).map_err(in_budget)?;
        let source = self.plan.source();
        let entry_scaling =
            EntryScaling::new(stored, by_columns, &scaling, source, &limits.cancel)?;
        memory.shrink_to(held + entry_scaling.bytes());
        Ok(Arc::new(Self {
            tame: scaling.is_tame(),
            inverse_exponent: inverse_exponent(&scaling),
            transform: Transform {
                scaling: Arc::new(scaling),
                ..self.transform.clone()
            },
            plan: Arc::clone(&self.plan),
            entry_scaling,
            nnz: self.nnz,
            threads: self.threads.clone(),
            limits: limits.clone(),
            memory,
            numbers: OnceLock::new(),
            scalar: PhantomData,
        }))
    }

    fn factorize(
        self: Arc<Self>,
        a: &[F::Wide],
        pivots: PivotPolicy,
    ) -> Result<Box<dyn HostEngine<F::Wide>>, Error> {
        let _span = tracing::info_span!("numeric").entered();
        let memory = self.reserve_rows()?;
        let mut options = self.options(pivots);
        let (lu, mut quality) = self
            .threads
            .run(self.plan.seconds(), |threads| {
                options.threads = threads;
                self.plan.factorize(&self.entries(a), &options)
            })
            .map_err(|e| self.in_terms_of_a(e))?;
        options.threads = 1;
        self.translate(&mut quality);
        Ok(Box::new(HostFactors::new(
            self, lu, quality, options, memory,
        )))
    }

    fn write_plan(&self, head: &mut Vec<u8>) {
        let Transform {
            row_perm,
            col_perm,
            scaling,
        } = &self.transform;
        put_u32s(head, row_perm.as_slice());
        put_u32s(head, col_perm.as_slice());
        put_scaling(head, scaling);
        self.plan.write(head);
    }

    fn read_factors(
        self: Arc<Self>,
        a: &[F::Wide],
        (pivots, quality): (PivotPolicy, Quality),
        source: &mut Source<'_>,
    ) -> Result<Box<dyn HostEngine<F::Wide>>, Error> {
        let memory = self.reserve_rows()?;
        let options = self.options(pivots);
        let lu = self.plan.read_factors(&self.entries(a), &options, source)?;
        Ok(Box::new(HostFactors::new(
            self, lu, quality, options, memory,
        )))
    }
}

impl<F: FrontalScalar, P: HostPlan<F>> HostAnalysis<F, P> {
    /// What composed rows, their inverse and a check of them take.
    fn reserve_rows(&self) -> Result<Reservation, Error> {
        self.limits.reserve(16 * self.plan.n() as u64, "numeric")
    }

    /// Options of the engines, for one thread.
    fn options(&self, pivots: PivotPolicy) -> blocks::Options {
        blocks::Options {
            pivots,
            threads: 1,
            max_bytes: None,
            memory: self.limits.memory.clone(),
            cancel: self.limits.cancel.clone(),
            ranks: self.limits.ranks.clone(),
        }
    }

    /// The number of each entry of A in the order of the plan; made where it is needed.
    fn numbers_in_plan(&self) -> Result<&[u32], Error> {
        if self.numbers.get().is_none() {
            let memory = self.limits.reserve(bytes_of::<u32>(self.nnz), "numeric")?;
            let mut numbers = vec![NOT_PLANNED; self.nnz];
            for (number, &p) in self.plan.source().iter().enumerate() {
                numbers[p as usize] = number as u32;
            }
            // Another thread may have been faster, with the same.
            let _ = self.numbers.set((numbers, memory));
        }
        let numbers = self.numbers.get();
        Ok(numbers.map_or(&[], |(numbers, _)| numbers))
    }

    /// Factorizes the values `a` in place; if some entries `changed`, only these are other than before.
    fn refactorize(
        &self,
        lu: &mut P::Factors,
        a: &[F::Wide],
        changed: Option<&[u32]>,
        options: &blocks::Options,
        quality: &mut Quality,
    ) -> Result<(), Error> {
        let entries = self.entries(a);
        let done = match changed {
            Some(changed) => lu.refactorize_changed(&entries, changed, options, quality),
            None => lu.refactorize(&entries, options, quality),
        };
        done.map_err(|e| self.in_terms_of_a(e))
    }
}

impl<F: FrontalScalar, P: HostPlan<F>> HostFactors<F, P> {
    /// `lu` with what was measured of it, in terms of A; `memory` is reserved for the rows.
    fn new(
        analysis: Arc<HostAnalysis<F, P>>,
        lu: P::Factors,
        quality: Quality,
        options: blocks::Options,
        memory: Reservation,
    ) -> Self {
        let exchanges = lu.row_perm();
        let row_perm = &analysis.transform.row_perm;
        Self {
            row_perm: exchanges.map(|rows| RowPerm(row_perm.then(&rows))),
            quality,
            accepted: None,
            lu: OnceLock::from(lu),
            spoiled: Mutex::default(),
            options,
            scratch: Mutex::default(),
            _memory: memory,
            of_solves: OnceLock::new(),
            weights: OnceLock::new(),
            changes: None,
            analysis,
        }
    }

    /// The factors. Those that were spoiled are restored, on this thread alone: nothing else of the pool may be begun
    /// here while others wait for the lock.
    fn lu(&self) -> Result<&P::Factors, Error> {
        if let Some(lu) = self.lu.get() {
            return Ok(lu);
        }
        let mut spoiled = self.lock_spoiled();
        if let Some(spoiled) = &mut *spoiled {
            let Spoiled { lu, a } = &mut **spoiled;
            let mut quality = Quality::default();
            self.analysis
                .refactorize(lu, &a.in_wide(), None, &self.options, &mut quality)?;
        }
        let restored = spoiled.take();
        drop(spoiled);
        let lu = self.lu.get_or_init(|| match restored {
            Some(restored) => restored.lu,
            None => unreachable!("factors are there, or they are spoiled"),
        });
        Ok(lu)
    }

    /// The factors whose columns were measured, and the weights, made where they were not there; none if underflow may
    /// matter.
    fn weighed(&self) -> Result<Option<(&BlockLu<F>, &Weights)>, Error> {
        let Some(lu) = self.lu()?.as_blocks().filter(|_| self.analysis.is_plain()) else {
            return Ok(None);
        };
        if self.weights.get().is_none() {
            let bytes = 24 * self.analysis.plan.n() as u64;
            let memory = self.analysis.limits.reserve(bytes, "numeric")?;
            let Transform {
                col_perm, scaling, ..
            } = &self.analysis.transform;
            let [of_rows, of_cols] = exponents_of_smallest(scaling).map(|e| 2f64.powi(e));
            let weights = |order: &[u32], factors: &[f64], smallest: f64| -> Vec<f64> {
                let in_order = order.iter().map(|&old| smallest / factors[old as usize]);
                in_order.collect()
            };
            let rows = weights(self.row_perm().as_slice(), &scaling.rows, of_rows);
            let cols = weights(col_perm.as_slice(), &scaling.cols, of_cols);
            let mut products = lu.largest_weights(&rows);
            for (product, col) in products.iter_mut().zip(&cols) {
                *product *= col;
            }
            // Another thread may have been faster, with the same.
            let _ = self.weights.set(Box::new(Weights {
                rows,
                cols,
                products,
                _memory: memory,
            }));
        }
        Ok(self.weights.get().map(|weights| (lu, &**weights)))
    }

    /// Has the numbers of the entries `changed` of A in the order of the plan; whether they are those that changed last.
    fn find_changes(&mut self, changed: &[usize]) -> Result<bool, Error> {
        let before = self.changes.take();
        if let Some(before) = before.filter(|before| before.of_a == changed) {
            self.changes = Some(before);
            return Ok(true);
        }
        let numbers = self.analysis.numbers_in_plan()?;
        let bytes = bytes_of::<usize>(changed.len()) + bytes_of::<u32>(changed.len());
        let memory = self.analysis.limits.reserve(bytes, "numeric")?;
        let in_plan = changed.iter().map(|&p| numbers[p]);
        // Above the diagonal of a symmetric matrix there are entries that the plan has not.
        let mut in_plan: Vec<u32> = in_plan.filter(|&number| number != NOT_PLANNED).collect();
        in_plan.sort_unstable();
        self.changes = Some(Box::new(Changes {
            of_a: changed.to_vec(),
            in_plan,
            _memory: memory,
        }));
        Ok(false)
    }

    /// Factorizes the values `a` in place of those that are there, and measures the quality. If `some`, only the entries of
    /// `changes` are others; `part` of the operations are predicted to be done.
    fn factorize_again(&mut self, a: &[F::Wide], some: bool, part: f64) -> Result<(), Error> {
        let changed = self.changes.as_ref().filter(|_| some);
        let changed = changed.map(|changes| &*changes.in_plan);
        let (analysis, options, quality) = (&self.analysis, &mut self.options, &mut self.quality);
        let lu = self.lu.get_mut();
        let lu = lu.unwrap_or_else(|| unreachable!("factors are there unless they are spoiled"));
        let outcome = analysis
            .threads
            .run(part * lu.refactorize_seconds(), |threads| {
                options.threads = threads;
                analysis.refactorize(lu, a, changed, options, quality)
            });
        options.threads = 1;
        outcome?;
        analysis.translate(quality);
        Ok(())
    }

    /// Notes that the factors are to be those of the values `a` again.
    fn spoil(&mut self, a: Arc<dyn KeptValues<F::Wide>>) {
        let lu = self.lu.take();
        *self.lock_spoiled() = lu.map(|lu| Box::new(Spoiled { lu, a }));
    }

    fn lock_spoiled(&self) -> MutexGuard<'_, MaybeSpoiled<F, P>> {
        self.spoiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `of` tells of the factors, whatever their values.
    fn of_factors<T>(&self, of: impl FnOnce(&P::Factors) -> T) -> T {
        if let Some(lu) = self.lu.get() {
            return of(lu);
        }
        let spoiled = self.lock_spoiled();
        match (&*spoiled, self.lu.get()) {
            (Some(spoiled), _) => of(&spoiled.lu),
            (None, Some(lu)) => of(lu),
            (None, None) => unreachable!("factors are there, or they are spoiled"),
        }
    }

    /// Row i of the factors is this row of A.
    fn row_perm(&self) -> &RowPerm {
        self.row_perm
            .as_ref()
            .unwrap_or(&self.analysis.transform.row_perm)
    }

    /// Takes an empty vector with room for `len` elements out of the pool of scratch vectors.
    fn borrow_scratch(&self, len: usize) -> Result<(Vec<F>, Reservation), Error> {
        let vector = self
            .scratch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let (mut vector, mut memory) = vector.unwrap_or_default();
        vector.clear();
        if vector.capacity() < len {
            drop(vector);
            memory = self.analysis.limits.reserve(bytes_of::<F>(len), "solve")?;
            vector = Vec::with_capacity(len);
        }
        Ok((vector, memory))
    }

    fn return_scratch(&self, vector: (Vec<F>, Reservation)) {
        self.scratch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(vector);
    }

    /// Solves with B, in its row order on one side and column order on the other.
    fn solve_factors(&self, y: &mut [F], nrhs: usize, transpose: bool) -> Result<(), Error> {
        let (lu, cancel) = (self.lu()?, &self.analysis.limits.cancel);
        let analysis = &self.analysis;
        if self.of_solves.get().is_none() {
            let reserved = analysis.limits.reserve(lu.solve_bytes(), "solve")?;
            // Another thread may have been faster; then this goes back.
            drop(self.of_solves.set(reserved));
        }
        let scratch = lu.solve_scratch_bytes(nrhs, analysis.threads.count());
        let _of_scratch = analysis.limits.reserve(scratch, "solve")?;
        let seconds = lu.solve_seconds() * nrhs as f64;
        let solved = self.analysis.threads.run(seconds, |threads| {
            lu.solve(y, nrhs, transpose, threads, cancel)
        });
        Ok(solved?)
    }

    /// Solves for each of the right-hand sides in `b` by [`solve_far`](Self::solve_far).
    fn solve_all_far(&self, b: &[F::Wide], transpose: bool) -> Result<Vec<F::Wide>, Error> {
        // All solutions; of one the mantissas and exponents, the values in the type of the factors, and itself.
        let n = self.analysis.plan.n().max(1);
        let bytes = bytes_of::<F::Wide>(b.len() + 4 * n) + 8 * n as u64;
        let _memory = self.analysis.limits.reserve(bytes, "solve")?;
        let mut solution = Vec::with_capacity(b.len());
        for b in b.chunks_exact(n) {
            solution.extend(self.solve_far(b, transpose)?);
        }
        Ok(solution)
    }

    /// The solve for numbers of any size: exponents are kept apart.
    fn solve_far(&self, b: &[F::Wide], transpose: bool) -> Result<Vec<F::Wide>, Error> {
        let Transform {
            col_perm, scaling, ..
        } = &self.analysis.transform;
        let given: scaled::Normalized<F> = if transpose {
            scaled::enter_cols(col_perm, scaling, b)
        } else {
            scaled::enter_rows(self.row_perm(), scaling, b)
        };
        let mut c = given.clone();
        self.solve_factors(&mut c.values, 1, transpose)?;
        if !c.values.iter().all(|v| v.is_number()) {
            c = given.lowered();
            self.solve_factors(&mut c.values, 1, transpose)?;
        }
        Ok(if transpose {
            scaled::leave_rows(self.row_perm(), scaling, &c)
        } else {
            scaled::leave_cols(col_perm, scaling, &c)
        })
    }
}

impl<F: FrontalScalar, P: HostPlan<F>> Engine<F::Wide> for HostFactors<F, P> {
    fn report(&self) -> FactorReport {
        FactorReport {
            num_perturbed: self.quality.num_perturbed,
            first_perturbed: self.quality.first_perturbed,
            num_off_diagonal: Some(self.quality.num_off_diagonal),
            num_delayed: Some(self.quality.num_delayed),
            growth: self.quality.growth,
            product: self.quality.max_product,
            growth_bounds: true,
            error: self.quality.checksum,
            largest: self.quality.max_norm,
            epsilon: F::Real::epsilon().to_f64(),
            host_bytes: self.of_factors(P::Factors::bytes),
            sizes: Some(self.of_factors(P::Factors::sizes)),
            symmetric: self.of_factors(P::Factors::symmetric).map(|mut report| {
                let old =
                    |column: usize| self.analysis.transform.col_perm.as_slice()[column] as usize;
                report.first_zero = report.first_zero.map(old);
                report
            }),
            code_path: self.of_factors(P::Factors::code_path),
            device: DeviceCosts::default(),
        }
    }

    fn solve(&self, b: &[F::Wide], _nrhs: usize, transpose: bool) -> Result<Vec<F::Wide>, Error> {
        let mut x = b.to_vec();
        if self.solve_near(&mut x, transpose)? {
            return Ok(x);
        }
        self.solve_all_far(b, transpose)
    }

    fn solve_permuted(&self, x: &mut [F::Wide], transpose: bool) -> Result<(), Error> {
        let mut rounded: Vec<F> = x.iter().map(|&v| F::narrow(v)).collect();
        self.solve_factors(&mut rounded, 1, transpose)?;
        x.iter_mut()
            .zip(rounded)
            .for_each(|(x, rounded)| *x = rounded.widen());
        Ok(())
    }

    fn of_factors(&self) -> (&Transform, &RowPerm) {
        (&self.analysis.transform, self.row_perm())
    }

    fn screen(&self) -> Result<f64, Error> {
        let n = self.analysis.plan.n();
        // The vector, and that of the type of the factors.
        let bytes = bytes_of::<F::Wide>(n) + bytes_of::<F>(n);
        let _memory = self.analysis.limits.reserve(bytes, "numeric")?;
        engine::screen(n, self.quality.max_norm, |x: &mut [F::Wide]| {
            self.solve_permuted(x, false)
        })
    }

    fn condition(&self, a: &[F::Wide]) -> Result<Condition, Error> {
        // Vectors of the estimate and of the type of the factors, the scaled values, and sums of columns.
        let (n, nnz) = (self.analysis.plan.n(), a.len());
        let bytes = bytes_of::<F::Wide>(5 * n) + 8 * n as u64 + bytes_of::<F>(nnz);
        let _memory = self.analysis.limits.reserve(bytes, "numeric")?;
        let transform = &self.analysis.transform;
        Condition::estimate(
            transform,
            |at| transform.col_perm.as_slice()[at] as usize,
            F::Real::epsilon().to_f64(),
            || {
                let mut values = vec![F::zero(); self.analysis.plan.source().len()];
                self.analysis.entries(a).load(0, &mut values);
                self.analysis.plan.norm1(&values)
            },
            |x: &mut [F::Wide]| self.solve_permuted(x, false),
            |x| self.solve_permuted(x, true),
        )
    }

    fn determinant(&self) -> Result<Determinant<F::Wide>, Error> {
        let product = self.lu()?.determinant();
        Ok(self
            .analysis
            .transform
            .undo_determinant(self.row_perm(), product))
    }

    fn perturbed(&self) -> Option<Vec<usize>> {
        self.of_factors(|factors| {
            let perturbed = factors.as_ldlt()?.perturbed()?;
            let perm = self.analysis.transform.col_perm.as_slice();
            let mut columns: Vec<usize> = perturbed
                .iter()
                .map(|&b| perm[b as usize] as usize)
                .collect();
            columns.sort_unstable();
            Some(columns)
        })
    }

    fn pivots(&self) -> Result<Option<Pivots<F::Wide>>, Error> {
        let Some(ldlt) = self.lu()?.as_ldlt() else {
            return Ok(None);
        };
        let perm = self.analysis.transform.col_perm.as_slice();
        let order = ldlt.order().into_iter();
        Ok(Some(Pivots {
            order: order.map(|b| perm[b] as usize).collect(),
            d: ldlt.d().into_iter().map(Scalar::widen).collect(),
        }))
    }

    fn lower_upper(&self) -> Result<Option<Whole<F::Wide>>, Error> {
        let analysis = &self.analysis;
        let Some(lu) = self.lu()?.as_blocks() else {
            return Ok(None);
        };
        let Limits { memory, cancel, .. } = &analysis.limits;
        let whole = lu.whole(memory, cancel);
        let whole = whole.map_err(|e| analysis.in_terms_of_a(e.into()))?;
        Ok(Some(lower_upper::of_a(
            whole,
            &analysis.transform,
            self.row_perm(),
        )))
    }

    fn solve_triangle(&self, x: &mut [F::Wide], transpose: bool) -> Result<(), Error> {
        let analysis = &self.analysis;
        let factors = self.lu()?;
        let Some(ldlt) = factors.as_ldlt() else {
            unreachable!("triangles of a symmetric matrix")
        };
        let Transform {
            col_perm, scaling, ..
        } = &analysis.transform;
        let n = analysis.plan.n().max(1);
        let nrhs = x.len() / n;
        let (mut y, of_y) = self.borrow_scratch(x.len())?;
        let threads = analysis.threads.count();
        let scratch = factors.solve_scratch_bytes(nrhs, threads);
        let _of_scratch = analysis.limits.reserve(scratch, "solve")?;
        // S·b before L, S·x after its transpose.
        let of_column = |old: usize| scaling.cols[old];
        let factor = |old: usize| if transpose { 1.0 } else { of_column(old) };
        for x in x.chunks_exact(n) {
            let columns = col_perm.as_slice().iter().map(|&old| old as usize);
            y.extend(columns.map(|old| F::narrow(x[old].scaled_by(factor(old)))));
        }
        let cancel = &analysis.limits.cancel;
        let seconds = factors.solve_seconds() * nrhs as f64;
        analysis.threads.run(seconds, |threads| {
            ldlt.solve_triangle(&mut y, nrhs, transpose, threads, cancel)
        })?;
        if let Some(at) = y.iter().position(|v| !v.is_number()) {
            let row = col_perm.as_slice()[at % n] as usize;
            return Err(Error::SolutionNotFinite { row });
        }
        for (x, y) in x.chunks_exact_mut(n).zip(y.chunks_exact(n)) {
            for (&old, &value) in col_perm.as_slice().iter().zip(y) {
                let old = old as usize;
                let factor = if transpose { of_column(old) } else { 1.0 };
                x[old] = value.widen().scaled_by(factor);
            }
        }
        self.return_scratch((y, of_y));
        Ok(())
    }
}

impl<F: FrontalScalar, P: HostPlan<F>> HostEngine<F::Wide> for HostFactors<F, P> {
    fn quality(&self) -> &Quality {
        &self.quality
    }

    fn transform(&self) -> Transform {
        Transform {
            row_perm: self.row_perm().clone(),
            ..self.analysis.transform.clone()
        }
    }

    fn product_bound(&self) -> Result<f64, Error> {
        let Some((lu, weights)) = self.weighed()? else {
            return Ok(f64::NAN);
        };
        Ok(or_unknown(lu.weighted_product(&weights.products)))
    }

    fn product_norm(&self) -> Result<f64, Error> {
        let limits = &self.analysis.limits;
        let cancel = &limits.cancel;
        let lu = self.lu()?;
        if let Some(ldlt) = lu.as_ldlt().filter(|_| self.analysis.is_plain()) {
            // Weights, and sums over columns.
            let _memory = limits.reserve(16 * self.analysis.plan.n() as u64, "numeric")?;
            let Transform {
                col_perm, scaling, ..
            } = &self.analysis.transform;
            let [smallest, _] = exponents_of_smallest(scaling).map(|e| 2f64.powi(e));
            let in_order = col_perm.as_slice().iter();
            let weights: Vec<f64> = in_order
                .map(|&old| smallest / scaling.rows[old as usize])
                .collect();
            let norm = self.analysis.threads.run(lu.solve_seconds(), |threads| {
                ldlt.product_norm(&weights, threads, cancel)
            });
            return Ok(or_unknown(norm?));
        }
        let Some((lu, weights)) = self.weighed()? else {
            return Ok(f64::NAN);
        };
        // One pass through the factors, as half of a solve.
        let norm = self.analysis.threads.run(lu.solve_seconds(), |threads| {
            lu.product_norm(&weights.rows, &weights.cols, threads, cancel)
        });
        Ok(or_unknown(norm?))
    }

    fn policy(&self) -> PivotPolicy {
        self.options.pivots
    }

    fn write_factors(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        self.lu()?.write(sink)
    }

    fn refactorize(&mut self, a: &[F::Wide]) -> Result<(), Error> {
        **self.accepted.get_or_insert_default() = self.quality;
        let spoiled = self.lock_spoiled().take();
        if let Some(spoiled) = spoiled {
            let Spoiled { lu, a } = *spoiled;
            // The new pivots are compared with those that were accepted.
            self.lu = OnceLock::from(lu);
            let restored = self.factorize_again(&a.in_wide(), false, 1.0);
            if let Err(error) = restored {
                self.spoil(a);
                return Err(error);
            }
        }
        self.factorize_again(a, false, 1.0)
    }

    fn refactorize_changed(&mut self, a: &[F::Wide], changed: &[usize]) -> Result<(), Error> {
        if self.lock_spoiled().is_some() {
            return self.refactorize(a);
        }
        let is_known = self.find_changes(changed)?;
        **self.accepted.get_or_insert_default() = self.quality;
        // What follows from other entries is not known before it is done.
        let part = if is_known {
            self.refactorized_part()
        } else {
            1.0
        };
        self.factorize_again(a, true, part)
    }

    fn refactorized_part(&self) -> f64 {
        self.of_factors(P::Factors::refactorized_part)
    }

    fn solve_near(&self, x: &mut [F::Wide], transpose: bool) -> Result<bool, Error> {
        if !self.analysis.is_plain() {
            return Ok(false);
        }
        let cancel = &self.analysis.limits.cancel;
        cancel.check()?;
        let Transform {
            col_perm, scaling, ..
        } = &self.analysis.transform;
        let (rows, cols) = (self.row_perm().as_slice(), col_perm.as_slice());
        let (enter, enter_factors, leave, leave_factors) = if transpose {
            (cols, &scaling.cols, rows, &scaling.rows)
        } else {
            (rows, &scaling.rows, cols, &scaling.cols)
        };
        let n = enter.len().max(1);
        let (mut y, of_y) = self.borrow_scratch(x.len())?;
        let range = 2f64.powi(4 * Scaling::TAME_EXPONENT);
        for x in x.chunks_exact(n) {
            cancel.check()?;
            y.extend(enter.iter().map(|&old| {
                // SAFETY: a permutation of 0..n; there are n elements and as many factors.
                let (x, factor) = unsafe {
                    let old = old as usize;
                    (*x.get_unchecked(old), *enter_factors.get_unchecked(old))
                };
                F::narrow(x.scaled_by(factor))
            }));
        }
        let size = |y: &[F]| sum_in_lanes(y, |v| v.widen().magnitude());
        let is_near = |size: f64| size < range && size > 1.0 / range;
        // What is zero must not have become so by underflow.
        let all_near = |y: &[F], x: &[F::Wide]| {
            let mut pairs = y.chunks_exact(n).zip(x.chunks_exact(n));
            pairs.all(|(y, x)| {
                let size = size(y);
                is_near(size) || (size == 0.0 && x.iter().all(|v| v.is_zero()))
            })
        };
        let mut near = all_near(&y, x);
        if near {
            self.solve_factors(&mut y, x.len() / n, transpose)?;
            // A sum that is not finite has a term that is not, or overflowed itself: both go the long
            // way round.
            near = all_near(&y, x);
        }
        if near {
            for (x, y) in x.chunks_exact_mut(n).zip(y.chunks_exact(n)) {
                for (&old, &value) in leave.iter().zip(y) {
                    // SAFETY: as above.
                    unsafe {
                        let factor = *leave_factors.get_unchecked(old as usize);
                        *x.get_unchecked_mut(old as usize) = value.widen().scaled_by(factor);
                    }
                }
            }
        }
        self.return_scratch((y, of_y));
        Ok(near)
    }

    fn restore(&mut self, a: &Arc<dyn KeptValues<F::Wide>>) {
        if self.lu.get().is_some() && self.factorize_again(&a.in_wide(), false, 1.0).is_err() {
            self.spoil(Arc::clone(a));
        }
        if let Some(accepted) = &self.accepted {
            self.quality = **accepted;
        }
    }

    fn solve_in_place(&self, x: &mut [F::Wide], transpose: bool) -> Result<(), Error> {
        if self.solve_near(x, transpose)? {
            return Ok(());
        }
        let solution = self.solve_all_far(x, transpose)?;
        match solution.iter().position(|v| !v.is_number()) {
            Some(at) => Err(Error::SolutionNotFinite {
                row: at % self.analysis.plan.n().max(1),
            }),
            None => {
                x.copy_from_slice(&solution);
                Ok(())
            }
        }
    }
}
