//! Symmetric and Hermitian matrices: their order, and on the CPU path L·D·Lᵀ, L·D·Lᴴ or L·Lᴴ of all of B, in dense fronts.
//!
//! B = S·P·A·Pᵀ·S has one permutation and one scaling for rows and columns, and its lower triangle is what is factorized.
//! Pivots of an indefinite matrix are searched anew by each factorization, as in SSIDS: a refactorization keeps order,
//! scaling and tree.

use std::borrow::Cow;
use std::sync::Arc;

use luge_frontal::{
    FrontalError, FrontalLdlt, FrontalScalar, Grouped, Lower, Options as FrontalOptions, Pivot,
    Symbolic, SymmetricQuality, TreeOptions,
};

use luge_numeric::cpu::Entries;
use luge_numeric::cpu::blocks::{BlockPartsError, FrontSizes, Options};
use luge_ordering::{
    Costs, Matching, SymmetricOptions, SymmetricOrdering, SymmetricScaling, TreeCost,
    order_symmetric,
};
#[cfg(feature = "gpu")]
use luge_solve::gpu::DevicePattern;
#[cfg(feature = "gpu")]
use luge_sparse::IndexOverflow;
use luge_sparse::etree::EliminationForest;
use luge_sparse::num_traits::Float;
use luge_sparse::{
    CancelFlag, Cancelled, CompressedPattern, Form, PivotKind, Quality, RealScalar, Reservation,
    RowPerm, Scalar, bytes_of,
};

use crate::accuracy::of_growth;
use crate::attempts::Remedy;
#[cfg(feature = "gpu")]
use crate::backend::Field;
use crate::backend::Limits;
use crate::codec::{Sink, Source, put_forest};
use crate::determinant::Determinant;
#[cfg(feature = "gpu")]
use crate::device_choice;
#[cfg(feature = "gpu")]
use crate::device_forest::{Forest, Numbers};
use crate::engine::Transform;
use crate::engine_parts::{
    SYMMETRIC_QUALITY_BYTES, put_symmetric_quality, read_fronts, read_record, symmetric_quality,
    write_fronts,
};
use crate::error::{Error, PhaseError};
use crate::forests::fits;
use crate::host::{AnyHost, HostAnalysis};
use crate::host_plan::{HostPlan, LdltParts, PlannedFactors, SymmetricReport};
use crate::options::{SingularAction, SymmetricKind};
use crate::ordered::costs_of;
use crate::permuted::grouped_within;
use crate::shared::Shared;
use crate::stored::Rows;
use crate::symmetry::Symmetry;
use crate::threads::Threads;

/// The symmetric factorization of B, without values.
pub(crate) struct SymmetricPlan {
    symbolic: Arc<Symbolic<Lower>>,
    /// The lower triangle of B, by columns.
    triangle: Arc<CompressedPattern>,
    /// For each of its entries the number in A.
    source: Vec<u32>,
    form: Form,
    /// The entries of B that are conjugates of those in A, if it is Hermitian.
    conjugated: Vec<u32>,
    /// The elimination forest that came with the order; what is reserved for the order includes it.
    forest: Option<EliminationForest>,
    /// By what the pivot of each column of B is replaced if it has another sign or is too small.
    expected: Option<Arc<[f64]>>,
    /// What is reserved for these.
    _memory: Reservation,
}

/// Factors of one B.
pub(crate) struct SymmetricFactors<F: FrontalScalar> {
    plan: Arc<SymmetricPlan>,
    factors: FrontalLdlt<F>,
    kind: PivotKind,
    /// For the values of B; empty before the first refactorization.
    room: Vec<F>,
    /// What is reserved for the room.
    memory: Reservation,
}

/// A symmetric matrix that is to be ordered and planned.
pub(crate) struct Request<'a> {
    pub options: &'a crate::options::Options,
    pub threads: &'a Threads,
    pub limits: &'a Limits,
    pub symmetry: &'a Symmetry,
    pub pattern: &'a CompressedPattern,
    pub by_columns: bool,
    /// What is done differently from what the options say.
    pub remedy: Remedy,
    pub single: bool,
    /// Whether it is to be factorized on a device.
    pub on_device: bool,
}

/// A planned factorization, and the order that it is for.
pub(crate) struct Planned<W> {
    pub analysis: Arc<dyn AnyHost<W>>,
    pub ordering: SymmetricOrdering,
    pub predicted: Sizes,
}

/// What a plan predicts.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub lnz: u64,
    pub flops: f64,
}

/// Bytes that a symmetric ordering takes at most for each row and each entry of the matrix, its result included: those of
/// the ordering of a general matrix, with the matching and the compressed graph beside.
const ORDERING_PER_ROW: u64 = 360;
const ORDERING_PER_ENTRY: u64 = 60;

/// Seconds that ordering takes for each entry, roughly and at least.
const SECONDS_PER_ENTRY: f64 = 50e-9;

impl<'a> Request<'a> {
    /// For other values of a matrix that was analyzed, if that is symmetric.
    pub(crate) fn again(
        shared: &'a Shared,
        remedy: Remedy,
        single: bool,
        on_device: bool,
    ) -> Option<Self> {
        Some(Self {
            options: &shared.options,
            threads: &shared.threads,
            limits: &shared.limits,
            symmetry: shared.symmetry.as_ref()?,
            pattern: &shared.pattern,
            by_columns: shared.by_columns,
            remedy,
            single,
            on_device,
        })
    }

    /// Plans for factors of the type `W` or `S` on the CPU.
    pub(crate) fn plan<W, S>(
        &self,
        (ordering, memory): (SymmetricOrdering, Reservation),
    ) -> Result<Planned<W>, Error>
    where
        W: FrontalScalar + Scalar<Wide = W>,
        S: FrontalScalar + Scalar<Wide = W>,
    {
        if self.single {
            self.plan_in::<S>(ordering, memory)
        } else {
            self.plan_in::<W>(ordering, memory)
        }
    }

    /// Orders for these values of all entries, if they are known.
    pub(crate) fn order(
        &self,
        values: Option<&[f64]>,
    ) -> Result<(SymmetricOrdering, Reservation), Error> {
        let _span = tracing::info_span!("ordering").entered();
        let (n, nnz) = (self.pattern.major_dim() as u64, self.pattern.nnz() as u64);
        let most = ORDERING_PER_ROW * n + ORDERING_PER_ENTRY * nnz;
        let mut memory = self.limits.reserve(most, "ordering")?;
        let ordering = &self.options.ordering;
        let options = SymmetricOptions::default()
            .method(ordering.method.clone())
            .matching(self.remedy.matching(ordering.matching))
            .scaling(match self.remedy {
                // A regularization is for the matrix as it is.
                _ if !ordering.scaling || self.options.regularization.is_some() => {
                    SymmetricScaling::None
                }
                // Another attempt: the scaling of the matching may be what is wanting.
                Remedy::Matching(Matching::Always) => SymmetricScaling::Matching,
                Remedy::Averages => SymmetricScaling::Average,
                _ => SymmetricScaling::Auto,
            })
            .is_definite(match self.symmetry.kind {
                SymmetricKind::Definite | SymmetricKind::Signed => true,
                SymmetricKind::MaybeDefinite => self.remedy != Remedy::Matching(Matching::Always),
                SymmetricKind::Indefinite => false,
            })
            // A triangle was completed, and the counterparts of a whole matrix were found.
            .is_known_symmetric(true)
            // A regularization is for singular matrices, too.
            .refuses_singular(
                self.options.singular == SingularAction::Refuse
                    && self.options.regularization.is_none(),
            )
            .costs(self.costs())
            .tree_cost(self.tree_cost())
            .cancel(self.limits.cancel.clone())
            .memory(self.limits.memory.clone());
        let ordered = self.threads.run(self.seconds(), |threads| {
            order_symmetric(self.pattern, values, &options.threads(threads))
        })?;
        memory.shrink_to(32 * n);
        Ok((ordered, memory))
    }

    /// Seconds that a step takes which looks at all entries, at least.
    pub(crate) fn seconds(&self) -> f64 {
        SECONDS_PER_ENTRY * self.pattern.nnz() as f64
    }

    fn costs(&self) -> Costs {
        #[cfg(feature = "gpu")]
        if self.on_device {
            return device_choice::costs_for_tree(self.options);
        }
        costs_of(self.options)
    }

    /// What orders are compared by in place of operations.
    fn tree_cost(&self) -> Option<Arc<dyn TreeCost>> {
        #[cfg(feature = "gpu")]
        if self.on_device {
            let given = self.options.ordering.tree_cost.clone();
            return given.or_else(|| Some(device_choice::tree_cost::<Lower>()));
        }
        None
    }

    /// The plan for factors on a device, without its elimination forest from then on.
    #[cfg(feature = "gpu")]
    pub(crate) fn forest<W: Field>(
        &self,
        ordering: &mut SymmetricOrdering,
    ) -> Result<Forest<Lower>, Error> {
        let _span = tracing::info_span!("symbolic").entered();
        let transform = transform_of(ordering);
        let elimination = ordering.forest.take();
        let (triangle, mut source) = self.lower_triangle(&transform)?;
        let conjugated = self.conjugated_of_stored::<W>(&triangle, &source, &transform);
        let num_entries = self.pattern.nnz();
        let mut num_values = num_entries;
        if let Some(stored) = self.symmetry.source() {
            source.iter_mut().for_each(|p| *p = stored[*p as usize]);
            num_values = triangle.nnz();
        }
        let expected = if self.single {
            self.expected_by_column::<f32>()?
        } else {
            self.expected_by_column::<f64>()?
        };
        let forest = self.threads.run(self.seconds(), |threads| {
            Forest::analyze_symmetric(
                (triangle, source),
                (num_values, num_entries),
                transform,
                (elimination.as_ref(), &ordering.pair_starts),
                Numbers::of::<W>(self.single),
                threads,
            )
        })?;
        if self.symmetry.form.conjugates::<W>() && num_values > DevicePattern::MOST_CONJUGATED {
            return Err(Error::IndexOverflow(IndexOverflow {
                what: "stored entries of a Hermitian matrix on a GPU",
                value: num_values,
            }));
        }
        Ok(Forest {
            expected,
            conjugated,
            ..forest
        })
    }

    fn plan_in<F: FrontalScalar>(
        &self,
        mut ordering: SymmetricOrdering,
        memory: Reservation,
    ) -> Result<Planned<F::Wide>, Error> {
        let _span = tracing::info_span!("symbolic").entered();
        let transform = transform_of(&ordering);
        let forest = ordering.forest.take();
        let limits = self.limits;
        let (n, entries) = (self.pattern.major_dim(), self.pattern.nnz());
        // The triangle and its sources, and the inverse permutation meanwhile.
        let of_triangle = (8 * (n + 2) + 4 * n + 4 * (entries + n)) as u64;
        let form = self.symmetry.form;
        let of_conjugated = if form.conjugates::<F>() {
            4 * entries
        } else {
            0
        };
        let of_triangle = of_triangle
            + of_conjugated as u64
            + self
                .options
                .regularization
                .as_ref()
                .map_or(0, |_| 8 * n as u64);
        let reserved = limits.reserve(of_triangle, "symbolic")?;
        let (triangle, source) = self.lower_triangle(&transform)?;
        let conjugated = self.conjugated::<F>(&triangle, &transform);
        let triangle = Arc::new(triangle);
        let cols = Arc::clone(&triangle);
        let options = TreeOptions::default();
        let in_terms_of_a = |error: FrontalError| {
            PhaseError::from(error).in_terms_of_a(transform.col_perm.as_slice())
        };
        let symbolic = match &forest {
            Some(forest) => self.threads.run(self.seconds(), |threads| {
                Symbolic::<Lower>::analyze_posted(cols, forest, &options, threads)
            }),
            None => Symbolic::<Lower>::analyze_within(cols, &options, &limits.of_phase()),
        };
        let symbolic = symbolic.map_err(in_terms_of_a)?;
        let sizes = Sizes {
            lnz: symbolic.factor_entries(),
            flops: symbolic.flops(),
        };
        let plan = SymmetricPlan {
            symbolic: Arc::new(symbolic),
            triangle,
            source,
            form,
            conjugated,
            forest,
            expected: self.expected::<F::Real>(&transform)?,
            _memory: reserved,
        };
        let rows = Rows {
            pattern: Cow::Borrowed(self.pattern),
            entries: None,
        };
        let (threads, limits) = (self.threads, self.limits);
        let analysis =
            HostAnalysis::<F, _>::with_plan(plan, &rows, transform, threads, limits, memory)?;
        Ok(Planned {
            analysis,
            ordering,
            predicted: sizes,
        })
    }

    /// Whether the elimination forest of an order, if it has one, is one of this matrix. It must be a postorder.
    pub(crate) fn fits(&self, ordering: &SymmetricOrdering) -> Result<bool, Error> {
        let Some(forest) = &ordering.forest else {
            return Ok(true);
        };
        let (n, entries) = (self.pattern.major_dim(), self.pattern.nnz());
        let _memory = self
            .limits
            .reserve((48 * n + 4 * (entries + n)) as u64, "symbolic")?;
        let (triangle, _) = self.lower_triangle(&transform_of(ordering))?;
        Ok(fits(forest, &triangle))
    }

    /// By what the pivot of each column of B is replaced, if signs are expected.
    fn expected<R: RealScalar>(&self, transform: &Transform) -> Result<Option<Arc<[f64]>>, Error> {
        let expected = self.expected_by_column::<R>()?;
        let columns = transform.col_perm.as_slice().iter();
        let of_b = |of_a: Vec<f64>| columns.map(|&old| of_a[old as usize]).collect();
        Ok(expected.map(of_b))
    }

    /// By what the pivot of each column of A is replaced, if signs are expected.
    fn expected_by_column<R: RealScalar>(&self) -> Result<Option<Vec<f64>>, Error> {
        let Some(regularization) = &self.options.regularization else {
            return Ok(None);
        };
        let delta = regularization.delta;
        if !R::from_f64(delta).is_normal() {
            return Err(Error::InvalidOption {
                field: "regularization.delta",
                value: format!("{delta:?}"),
                range: "a normal number in the type of the factors",
            });
        }
        let signs = regularization.signs.iter();
        Ok(Some(signs.map(|&sign| f64::from(sign) * delta).collect()))
    }

    /// The entries of the triangle of B that are conjugates of the values in A that they come from.
    fn conjugated<F: Scalar>(
        &self,
        triangle: &CompressedPattern,
        transform: &Transform,
    ) -> Vec<u32> {
        let perm = transform.col_perm.as_slice();
        let is_conjugate = |row: u32, column: usize| {
            let [row, column] = [row as usize, column].map(|new| perm[new]);
            self.symmetry.conjugates_lower::<F>(row, column)
        };
        if !self.symmetry.form.conjugates::<F>() {
            return Vec::new();
        }
        let columns = triangle.lines().enumerate();
        let entries = columns.flat_map(|(column, rows)| {
            let entries = rows.iter().zip(triangle.range(column));
            entries.filter(move |&(&row, _)| is_conjugate(row, column))
        });
        entries.map(|(_, p)| p as u32).collect()
    }

    /// The entries of the triangle of B that are conjugates of the values that callers store, if the matrix is Hermitian;
    /// `source` is what [`lower_triangle`](Self::lower_triangle) says.
    #[cfg(feature = "gpu")]
    fn conjugated_of_stored<F: Scalar>(
        &self,
        triangle: &CompressedPattern,
        source: &[u32],
        transform: &Transform,
    ) -> Option<Vec<u32>> {
        if !self.symmetry.form.conjugates::<F>() {
            return None;
        }
        let mut are = vec![false; self.pattern.nnz()];
        let whole = (self.pattern, self.by_columns);
        self.symmetry
            .visit_conjugated::<F>(whole, |p| are[p] = true);
        let mut conjugated = self.conjugated::<F>(triangle, transform);
        let entries = (0u32..).zip(source);
        conjugated.extend(entries.filter(|&(_, &p)| are[p as usize]).map(|(e, _)| e));
        Some(conjugated)
    }

    /// The lower triangle of B by columns, and for each of its entries its number in A, in the lower triangle there too.
    fn lower_triangle(
        &self,
        transform: &Transform,
    ) -> Result<(CompressedPattern, Vec<u32>), Cancelled> {
        let (a, perm) = (self.pattern, transform.col_perm.as_slice());
        let n = a.major_dim();
        let new = &transform.col_perm.inverse();
        // Rows in the order of B, so that every column comes out sorted.
        let line = |row: usize| {
            let old = perm[row];
            let entries = a.line(old as usize).iter().zip(a.range(old as usize));
            entries.filter_map(move |(&j, p)| {
                let column = new[j as usize];
                let is_lower = (j <= old) != self.by_columns || j == old;
                let source = || self.symmetry.lower(p as u32, is_lower);
                (column as usize <= row).then(|| [column, row as u32, source()])
            })
        };
        let (entries, limits) = (a.nnz().div_ceil(2) + n, self.limits.of_phase());
        let grouped = self.threads.run(self.seconds(), |threads| {
            grouped_within((n, entries), threads, &limits, line)
        });
        let Grouped { ptr, first, second } = grouped?;
        // SAFETY: rows of a column ascend, and permutations are in range.
        let triangle = unsafe { CompressedPattern::new_unchecked(n, ptr, first) };
        Ok((triangle, second))
    }
}

/// One permutation and one scaling for rows and columns.
fn transform_of(ordering: &SymmetricOrdering) -> Transform {
    Transform {
        row_perm: RowPerm(ordering.perm.clone().0),
        col_perm: ordering.perm.clone(),
        scaling: Arc::new(ordering.scaling.clone()),
    }
}

impl SymmetricPlan {
    /// The values of B.
    fn load<F: Scalar>(&self, values: &(impl Entries<F> + ?Sized), room: &mut [F]) {
        values.load(0, room);
        for &p in &self.conjugated {
            room[p as usize] = room[p as usize].conjugate();
        }
    }

    /// The options of the fronts.
    fn options(&self, options: &Options) -> FrontalOptions {
        FrontalOptions {
            pivots: options.pivots,
            max_b: None,
            form: self.form,
            expected: self.expected.clone(),
            threads: options.threads,
            cancel: options.cancel.clone(),
            max_bytes: options.max_bytes,
            memory: options.memory.clone(),
            ranks: options.ranks.clone(),
        }
    }

    /// What was measured, as the policy of the CPU path takes it. There is no checksum of B − L·D·Lᵀ: what stands in its
    /// place is what the growth lets expect, but of accepted zero pivots, which leave out what the growth does not know of.
    fn quality<F: Scalar>(measured: &SymmetricQuality) -> Quality {
        let epsilon = F::Real::epsilon().to_f64();
        Quality {
            growth: measured.growth,
            checksum: of_growth(epsilon, measured.growth),
            min_pivot: measured.min_pivot,
            max_pivot: measured.max_pivot,
            min_relative_pivot: measured.min_relative_pivot,
            max_norm: measured.max_norm,
            min_norm: measured.min_norm,
            max_product: measured.max_product,
            max_residual: if measured.num_zero == 0 {
                of_growth(epsilon, 1.0) * measured.max_product
            } else {
                f64::INFINITY
            },
            num_delayed: measured.num_delayed,
            num_perturbed: measured.num_perturbed,
            first_perturbed: measured.first_perturbed,
            ..Quality::default()
        }
    }
}

impl<F: FrontalScalar> HostPlan<F> for SymmetricPlan {
    type Factors = SymmetricFactors<F>;
    const HAS_CHECKSUM: bool = false;

    fn n(&self) -> usize {
        self.symbolic.n()
    }

    fn source(&self) -> &[u32] {
        &self.source
    }

    fn compose(&mut self, map: impl Fn(u32) -> u32) {
        self.source.iter_mut().for_each(|p| *p = map(*p));
    }

    fn bytes(&self) -> u64 {
        self.symbolic.bytes() + bytes_of::<u32>(self.source.len() + self.conjugated.len())
    }

    fn seconds(&self) -> f64 {
        self.symbolic.seconds()
    }

    fn predicted_bytes(&self, _entries: u64, threads: usize) -> u64 {
        let values = bytes_of::<F>(self.source.len());
        values + self.symbolic.peak_bytes(size_of::<F>(), threads)
    }

    fn norm1(&self, values: &[F]) -> f64 {
        let mut norms = vec![0.0; self.symbolic.n()];
        for (j, rows) in self.triangle.lines().enumerate() {
            let mut own = 0.0;
            for (&i, &value) in rows.iter().zip(&values[self.triangle.range(j)]) {
                let magnitude: f64 = value.magnitude().to_f64();
                own += magnitude;
                if i as usize != j {
                    norms[i as usize] += magnitude;
                }
            }
            norms[j] += own;
        }
        norms.into_iter().fold(0.0, f64::max)
    }

    fn front_sizes(&self) -> FrontSizes {
        FrontSizes {
            columns: self.symbolic.n(),
            entries: self.symbolic.factor_entries(),
            flops: self.symbolic.flops(),
            num_supernodes: self.symbolic.tree().num_supernodes(),
            max_front: self.symbolic.tree().max_front(),
        }
    }

    fn factorize(
        self: &Arc<Self>,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Result<(SymmetricFactors<F>, Quality), PhaseError> {
        let in_budget = |error| PhaseError::from(FrontalError::from(error));
        let bytes = bytes_of::<F>(values.count());
        let _of_room = options.memory.reserve(bytes).map_err(in_budget)?;
        let mut room = vec![F::zero(); values.count()];
        self.load(values, &mut room);
        let (factors, measured) =
            FrontalLdlt::factorize(&self.symbolic, &room, &self.options(options))?;
        let quality = Self::quality::<F>(&measured);
        let factors = SymmetricFactors {
            plan: Arc::clone(self),
            factors,
            kind: options.pivots.kind,
            room: Vec::new(),
            memory: Reservation::default(),
        };
        Ok((factors, quality))
    }

    fn write(&self, head: &mut Vec<u8>) {
        put_forest(head, self.forest.as_ref());
    }

    fn read_factors(
        self: &Arc<Self>,
        _values: &(impl Entries<F> + ?Sized),
        options: &Options,
        source: &mut Source<'_>,
    ) -> Result<SymmetricFactors<F>, Error> {
        let n = self.symbolic.n();
        let limits = source.limits();
        let bytes = FrontalLdlt::<F>::parts_bytes(&self.symbolic);
        let memory = limits.reserve(bytes, "numeric")?;
        let (parts, _beside) = read_fronts(source, &self.symbolic)?;
        let quality = read_record(source, SYMMETRIC_QUALITY_BYTES, |record| {
            symmetric_quality(record, n)
        })?;
        let has_list = source.truths(1)?[0];
        let perturbed = has_list.then(|| source.u32s_up_to(n as u64)).transpose()?;
        let factors =
            FrontalLdlt::from_parts(&self.symbolic, self.form, parts, perturbed, quality, memory);
        Ok(SymmetricFactors {
            plan: Arc::clone(self),
            factors: factors.map_err(BlockPartsError::from)?,
            kind: options.pivots.kind,
            room: Vec::new(),
            memory: Reservation::default(),
        })
    }
}

impl<F: FrontalScalar> SymmetricFactors<F> {
    /// Factorizes other values; if entries `changed`, the others are as before.
    fn renew(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        changed: Option<&[u32]>,
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), PhaseError> {
        let in_budget = |error| PhaseError::from(FrontalError::from(error));
        if self.room.is_empty() {
            let bytes = bytes_of::<F>(values.count());
            self.memory = options.memory.reserve(bytes).map_err(in_budget)?;
            self.room = vec![F::zero(); values.count()];
        }
        self.plan.load(values, &mut self.room);
        let options = self.plan.options(options);
        let measured = match changed {
            Some(changed) => self
                .factors
                .refactorize_changed(&self.room, changed, &options)?,
            None => self.factors.refactorize(&self.room, &options)?,
        };
        *quality = SymmetricPlan::quality::<F>(&measured);
        Ok(())
    }
}

impl<F: FrontalScalar> PlannedFactors<F> for SymmetricFactors<F> {
    fn refactorize(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), PhaseError> {
        self.renew(values, None, options, quality)
    }

    fn refactorize_changed(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        changed: &[u32],
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), PhaseError> {
        self.renew(values, Some(changed), options, quality)
    }

    fn refactorized_part(&self) -> f64 {
        let [done, all] = self.factors.flops_done();
        if all > 0.0 { done / all } else { 1.0 }
    }

    fn refactorize_seconds(&self) -> f64 {
        self.plan.symbolic.seconds()
    }

    fn solve_seconds(&self) -> f64 {
        const PER_ENTRY: f64 = 2e-9;
        self.factors.factor_entries() as f64 * PER_ENTRY
    }

    fn solve_bytes(&self) -> u64 {
        0
    }

    fn solve_scratch_bytes(&self, nrhs: usize, threads: usize) -> u64 {
        self.factors.solve_scratch_bytes(nrhs, threads)
    }

    fn bytes(&self) -> u64 {
        self.factors.bytes() + bytes_of::<F>(self.room.len())
    }

    /// L with its diagonal, and Lᵀ, which is not stored.
    fn sizes(&self) -> (u64, u64) {
        let entries = self.factors.lnz();
        (entries, entries)
    }

    fn code_path(&self) -> Vec<&'static str> {
        vec![match (self.kind, self.plan.form) {
            (PivotKind::Definite, _) => "numeric: multifrontal Cholesky",
            (PivotKind::Signed { .. }, Form::Symmetric) => {
                "numeric: multifrontal LDLT, pivots of expected signs"
            }
            (PivotKind::Signed { .. }, Form::Hermitian) => {
                "numeric: multifrontal LDLH, pivots of expected signs"
            }
            (_, Form::Symmetric) => "numeric: multifrontal LDLT",
            (_, Form::Hermitian) => "numeric: multifrontal LDLH",
        }]
    }

    fn row_perm(&self) -> Option<RowPerm> {
        None
    }

    fn determinant(&self) -> Determinant<F::Wide> {
        let mut product = Determinant::one();
        self.factors.for_each_pivot(|pivot| {
            product = match pivot {
                Pivot::One { d, .. } => product.times(d.widen()),
                Pivot::Two { d, .. } => product.times_block(d.map(Scalar::widen), self.plan.form),
            };
        });
        product
    }

    fn solve(
        &self,
        x: &mut [F],
        nrhs: usize,
        transpose: bool,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        // The transpose of a Hermitian matrix is its conjugate.
        let conjugates = transpose && self.plan.form.conjugates::<F>();
        let conjugate = |x: &mut [F]| {
            if conjugates {
                x.iter_mut().for_each(|v| *v = v.conjugate());
            }
        };
        conjugate(x);
        self.factors.solve(x, nrhs, threads, cancel)?;
        conjugate(x);
        Ok(())
    }

    fn write(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        write_fronts(sink, &self.factors.parts())?;
        let mut record = Vec::with_capacity(SYMMETRIC_QUALITY_BYTES);
        put_symmetric_quality(&mut record, self.factors.quality());
        sink.bytes(&record)?;
        let perturbed = self.factors.perturbed();
        sink.truths(&[perturbed.is_some()])?;
        perturbed.map_or(Ok(()), |columns| sink.u32s(columns))
    }

    fn as_ldlt(&self) -> Option<&dyn LdltParts<F>> {
        Some(&self.factors)
    }

    fn symmetric(&self) -> Option<SymmetricReport> {
        let quality = self.factors.quality();
        Some(SymmetricReport {
            is_definite: self.kind == PivotKind::Definite,
            is_searched: matches!(self.kind, PivotKind::Symmetric { .. }),
            form: self.plan.form,
            inertia: self.factors.inertia(),
            num_zero: quality.num_zero,
            num_two: quality.num_two,
            num_second_pass: Some(quality.num_second_pass),
            first_zero: quality.first_zero,
        })
    }
}
