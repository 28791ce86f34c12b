//! Symmetric and Hermitian multifrontal LDLᵀ, LDLᴴ and Cholesky on the CPU.

mod eliminate;
mod factors;
mod front;
mod product;
mod quality;
mod solve;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use luge_comm::Operation;
use luge_dense::{FrontalScalar, SymmetricKernels};
use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{
    CancelFlag, Form, Inertia, PivotKind, RealScalar, Reservation, ResolvedSymmetric, bytes_of,
    drop_aside,
};

use crate::deal::Ranks;
use crate::error::FrontalError;
use crate::factorize::{self, FrontStore, Keeping, Run, Spread, check_changed, told_by_all};
use crate::options::Options;
use crate::parts::{FrontParts, PartsError, unsound};
use crate::storage::Lower;
use crate::symbolic::Symbolic;
pub use factors::Pivot;
use front::{LdltFront, Shared};
pub use quality::SymmetricQuality;

/// Factors P·B·Pᵀ = L·D·Lᵀ of a symmetric matrix, or L·D·Lᴴ of a Hermitian one, front by front.
///
/// L has a unit diagonal, D blocks of order 1 and 2; with [`PivotKind::Definite`](luge_sparse::PivotKind::Definite) all
/// are of order 1 and positive, and L·√D is the Cholesky factor. P is the order of elimination, which the factorization
/// chooses within fronts and by delays. Which [`Form`] a complex matrix has is an [option](Options::form). Sizes of complex numbers
/// are compared by [magnitudes](luge_sparse::Scalar::magnitude), |re| + |im|, and thresholds above 0.24 count as 0.24 there: above,
/// a nonsingular front might have no acceptable pivot.
///
/// The pattern that the [`Symbolic`] factorization was made of is that of one triangle by columns: each unordered pair
/// {i, j} of a row and a column is stored once, in either triangle, in any mixture. A value is that of the entry in the row and
/// column where it is stored; of the diagonal of a Hermitian matrix the real part counts.
#[derive(Debug, Clone)]
pub struct FrontalLdlt<F: FrontalScalar> {
    symbolic: Arc<Symbolic<Lower>>,
    kernels: &'static SymmetricKernels<F>,
    form: Form,
    store: FrontStore<F>,
    quality: SymmetricQuality,
    /// Columns of the pattern whose pivots were replaced, ascending, and what is reserved for them.
    perturbed: Option<(Vec<u32>, Reservation)>,
    /// What is elsewhere, if there are other ranks.
    spread: Option<Spread<F>>,
    /// What is kept for refactorizations of some fronts, and the rule by which their pivots were searched.
    keeping: Keeping<LdltFront<F>>,
    rule: Option<ResolvedSymmetric<F::Real>>,
    /// Whether the last factorization ran to its end.
    valid: bool,
    /// Whether the store holds what a factorization left.
    used: bool,
    /// What is reserved for all of this.
    memory: Reservation,
}

impl<F: FrontalScalar> FrontalLdlt<F> {
    /// Factorizes the symmetric matrix with the pattern of `symbolic` and these values, in the pattern's order.
    ///
    /// # Errors
    ///
    /// [`FrontalError::Singular`] with a column in which nothing but zeros is left, unless zero pivots are
    /// [accepted](luge_sparse::SmallPivots::Accept); [`FrontalError::NotPositiveDefinite`];
    /// [`FrontalError::NotFinite`] for values or factors that are not finite; [`FrontalError::OutOfMemory`] and
    /// [`FrontalError::Cancelled`].
    ///
    /// # Panics
    ///
    /// If `values` has not one value per entry of the pattern,
    /// [`PivotPolicy::resolve_symmetric`](luge_sparse::PivotPolicy::resolve_symmetric) refuses the policy, or
    /// [`Options::expected`] has not one number for each column where the policy is of
    /// [signed](luge_sparse::PivotKind::Signed) pivots, or one that is zero or infinite in the type of the factors, or the
    /// matrix is complex symmetric and the policy wants signs.
    #[track_caller]
    pub fn factorize(
        symbolic: &Arc<Symbolic<Lower>>,
        values: &[F],
        options: &Options,
    ) -> Result<(Self, SymmetricQuality), FrontalError> {
        Self::factorize_with(
            symbolic,
            values,
            options,
            F::symmetric_kernels(options.form),
        )
    }

    /// [`factorize`](Self::factorize) with the given kernels, one of those this machine can run.
    #[doc(hidden)]
    #[track_caller]
    pub fn factorize_with(
        symbolic: &Arc<Symbolic<Lower>>,
        values: &[F],
        options: &Options,
        kernels: &'static SymmetricKernels<F>,
    ) -> Result<(Self, SymmetricQuality), FrontalError> {
        assert!(
            F::all_symmetric_kernels(options.form)
                .iter()
                .any(|k| std::ptr::eq(*k, kernels)),
            "kernels of another machine or form"
        );
        check_length(symbolic, values);
        check_memory::<F>(symbolic, options)?;
        let ranks = Ranks::new(symbolic, options.ranks.as_ref(), size_of::<F>());
        if let Some(ranks) = &ranks {
            ranks.team.enter(Operation::Factorize);
        }
        let made = Self::empty(symbolic, options, kernels, ranks.as_ref());
        let mut factors = Ranks::agreed(ranks.as_ref(), made)?;
        match factors.run(values, None, options) {
            Ok(quality) => Ok((factors, quality)),
            Err(error) => {
                let bytes = factors.bytes();
                drop_aside(factors, bytes);
                Err(error)
            }
        }
    }

    /// The memory of factors.
    fn empty(
        symbolic: &Arc<Symbolic<Lower>>,
        options: &Options,
        kernels: &'static SymmetricKernels<F>,
        ranks: Option<&Ranks>,
    ) -> Result<Self, FrontalError> {
        let n = symbolic.n();
        let slots = ranks.map_or(symbolic.layout.slots, |ranks| ranks.share.slots);
        // D, with the factors of all.
        let of_diagonal = ranks.map_or(0, |_| bytes_of::<F>(2 * n) + bytes_of::<u32>(n));
        let own = symbolic.factor_bytes_of(slots, size_of::<F>());
        let memory = options.memory.reserve(own + of_diagonal)?;
        Ok(Self {
            symbolic: Arc::clone(symbolic),
            kernels,
            form: options.form,
            store: FrontStore::new(&symbolic.tree, slots, true),
            quality: SymmetricQuality::default(),
            perturbed: None,
            spread: ranks.cloned().map(Spread::new),
            keeping: Keeping::Not,
            rule: None,
            valid: false,
            used: false,
            memory,
        })
    }

    /// What the factors are made of, beside what [`quality`](Self::quality) and [`perturbed`](Self::perturbed) tell.
    ///
    /// # Panics
    ///
    /// If the last refactorization failed, or a part of the factors is on other ranks.
    #[track_caller]
    pub fn parts(&self) -> FrontParts<'_, F> {
        self.check_valid();
        self.check_here();
        self.store.parts(&self.symbolic)
    }

    /// Bytes that factors of `symbolic` take without delayed columns, for [`from_parts`](Self::from_parts).
    pub fn parts_bytes(symbolic: &Symbolic<Lower>) -> u64 {
        symbolic.factor_bytes(size_of::<F>())
    }

    /// The factors that these are the [`parts`](Self::parts) of, for which [`parts_bytes`](Self::parts_bytes) are reserved in
    /// `memory`, and what is reserved for the list of columns whose pivots were replaced comes with that. Values are taken as
    /// they are; all else is checked, so that whatever is read from a file may be given.
    ///
    /// # Errors
    ///
    /// [`PartsError`].
    pub fn from_parts(
        symbolic: &Arc<Symbolic<Lower>>,
        form: Form,
        parts: FrontParts<'_, F>,
        perturbed: Option<(Vec<u32>, Reservation)>,
        quality: SymmetricQuality,
        mut memory: Reservation,
    ) -> Result<Self, PartsError> {
        let n = symbolic.n();
        let Inertia {
            positive,
            negative,
            zero,
        } = quality.inertia;
        let eigenvalues = positive.checked_add(negative);
        let eigenvalues = eigenvalues.and_then(|sum| sum.checked_add(zero));
        let is_counted = has_signs::<F>(form);
        if is_counted && (eigenvalues != Some(n) || quality.num_zero != zero) {
            return Err(unsound("the inertia"));
        }
        let columns = [quality.first_zero, quality.first_perturbed];
        if columns.into_iter().flatten().any(|column| column >= n) {
            return Err(unsound("the first replaced pivot"));
        }
        if let Some((columns, _)) = &perturbed {
            let is_list = columns.is_sorted_by(|a, b| a < b)
                && columns.last().is_none_or(|&last| (last as usize) < n);
            if !is_list || columns.len() != quality.num_perturbed {
                return Err(unsound("the replaced pivots"));
            }
        }
        let store = FrontStore::from_parts(symbolic, parts, &mut memory)?;
        let mut factors = Self {
            symbolic: Arc::clone(symbolic),
            kernels: F::symmetric_kernels(form),
            form,
            store,
            quality,
            perturbed,
            spread: None,
            keeping: Keeping::Not,
            rule: None,
            valid: true,
            used: true,
            memory: Reservation::default(),
        };
        memory.shrink_to(factors.bytes());
        factors.memory = memory;
        Ok(factors)
    }

    /// Factorizes new values of the same pattern in the memory of the factors. Pivots are searched anew.
    ///
    /// The same values give the same factors, bit by bit. After an error there are no factors, and solving panics until a
    /// later call succeeds.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize).
    ///
    /// # Panics
    ///
    /// As [`factorize`](Self::factorize), and if the options name another [form](Options::form) than those of the first
    /// factorization.
    #[track_caller]
    pub fn refactorize(
        &mut self,
        values: &[F],
        options: &Options,
    ) -> Result<SymmetricQuality, FrontalError> {
        check_length(&self.symbolic, values);
        assert_eq!(
            options.form, self.form,
            "factors are renewed in the form of the first ones"
        );
        if let Some(spread) = &self.spread {
            spread.ranks.team.enter(Operation::Factorize);
        }
        self.run(values, None, options)
    }

    /// As [`refactorize`](Self::refactorize) for `values` of which only the entries `changed`, in ascending order, may differ from
    /// those that were factorized last: what it leaves, and tells, is the same, bit for bit. Only fronts that follow from these
    /// entries are factorized again, their pivots searched anew, if there is memory to keep elements and measurements of the
    /// others: from the second such call on, unless one failed, and where pivots are not replaced.
    ///
    /// # Errors
    ///
    /// As [`refactorize`](Self::refactorize).
    ///
    /// # Panics
    ///
    /// As [`refactorize`](Self::refactorize), and if the numbers of the entries do not ascend or there is no such entry.
    #[track_caller]
    pub fn refactorize_changed(
        &mut self,
        values: &[F],
        changed: &[u32],
        options: &Options,
    ) -> Result<SymmetricQuality, FrontalError> {
        check_length(&self.symbolic, values);
        assert_eq!(
            options.form, self.form,
            "factors are renewed in the form of the first ones"
        );
        check_changed(changed, values.len());
        if self.spread.is_some() {
            return self.refactorize(values, options);
        }
        let (memory, cancel) = (&options.memory, &options.cancel);
        self.keeping.start(&self.symbolic, memory, cancel)?;
        self.run(values, Some(changed).filter(|_| self.valid), options)
    }

    /// Predicted operations of the last factorization, and of one of all fronts.
    pub fn flops_done(&self) -> [f64; 2] {
        self.keeping.flops(&self.symbolic)
    }

    /// Factorizes. If entries `changed`, the others are as before. Where what is kept leaves no memory, it is given up.
    #[track_caller]
    fn run(
        &mut self,
        input: &[F],
        changed: Option<&[u32]>,
        options: &Options,
    ) -> Result<SymmetricQuality, FrontalError> {
        let outcome = self.run_once(input, changed, options);
        if matches!(outcome, Err(FrontalError::OutOfMemory { .. })) && self.keeping.give_up() {
            return self.run_once(input, None, options);
        }
        outcome
    }

    #[track_caller]
    fn run_once(
        &mut self,
        input: &[F],
        changed: Option<&[u32]>,
        options: &Options,
    ) -> Result<SymmetricQuality, FrontalError> {
        let max_b = || options.max_b.unwrap_or_else(|| largest(input).to_f64());
        let mut rule = options.pivots.resolve_symmetric::<F::Real>(max_b);
        if F::COMPONENTS > 1 && rule.method.is_some() {
            let largest = F::Real::from_f64(MAX_COMPLEX_THRESHOLD);
            rule.threshold = rule.threshold.min(largest);
        }
        assert!(
            has_signs::<F>(self.form) || rule.method.is_some(),
            "the pivots of a complex symmetric matrix have no signs"
        );
        let predicted = check_memory::<F>(&self.symbolic, options)?;
        self.valid = false;
        let is_signed = matches!(options.pivots.kind, PivotKind::Signed { .. });
        // Which pivots were replaced, and the list of them.
        let may_replace = is_signed || rule.limit.is_some();
        // What is small may depend on all of B.
        let is_same_rule = self.rule.replace(rule) == Some(rule);
        let changed = changed.filter(|_| is_same_rule && !may_replace);
        let symbolic = Arc::clone(&self.symbolic);
        let n = symbolic.n();
        let kept = self.keeping.kept();
        let partial = kept.map(|kept| kept.begin(&symbolic, changed));
        if partial.as_ref().is_none_or(|partial| partial.is_whole()) {
            // Delays are found anew.
            self.store.delayed = Vec::new();
            let held = self.store.bytes() + self.spread.as_ref().map_or(0, Spread::bytes);
            self.memory.shrink_to(held);
        }
        let ranks = self.spread.as_ref().map(|spread| spread.ranks.clone());
        let ranks = ranks.as_ref();
        let expected = is_signed.then(|| expected::<F::Real>(options, n));
        self.perturbed = None;
        let marks = if may_replace { n } else { 0 };
        let prepare = || {
            let of_norms = options.memory.reserve(bytes_of::<F::Real>(n))?;
            let norms = column_norms(&symbolic, input, &options.cancel)?;
            let of_marks = options.memory.reserve(5 * marks as u64)?;
            Ok((norms, of_norms, of_marks))
        };
        let (norms, _of_norms, mut of_marks) = Ranks::agreed(ranks, prepare())?;
        let replaced: Vec<AtomicBool> = (0..marks).map(|_| AtomicBool::new(false)).collect();
        let run = Run::<LdltFront<F>> {
            symbolic: &symbolic,
            ranks,
            input,
            options,
            search: true,
            partial,
            predicted,
            shared: Shared {
                kernels: self.kernels,
                form: self.form,
                rule,
                norms: &norms,
                expected,
                replaced: &replaced,
                used: std::mem::replace(&mut self.used, true),
            },
        };
        let result = factorize::factorize(run, &mut self.store, &mut self.memory);
        let result = result.and_then(|quality| {
            self.tell(&replaced)?;
            Ok(quality)
        });
        let held = self.held();
        self.memory.shrink_to(held);
        self.quality = result?;
        if let Some(kept) = self.keeping.kept() {
            kept.accept();
        }
        if may_replace {
            let is_replaced = |column: &u32| replaced[*column as usize].load(Ordering::Relaxed);
            let columns = (0..marks as u32).filter(is_replaced);
            // No longer than it has to be: that is what is reserved.
            let mut perturbed = Vec::with_capacity(columns.clone().count());
            perturbed.extend(columns);
            self.quality.num_perturbed = perturbed.len();
            self.quality.first_perturbed = perturbed.first().map(|&column| column as usize);
            of_marks.shrink_to(bytes_of::<u32>(perturbed.capacity()));
            self.perturbed = Some((perturbed, of_marks));
        }
        self.valid = true;
        Ok(self.quality)
    }

    /// Tells the other ranks, if there are any, what solves and reports want of the fronts of each.
    fn tell(&mut self, replaced: &[AtomicBool]) -> Result<(), FrontalError> {
        let Some(Spread { ranks, .. }) = &self.spread else {
            return Ok(());
        };
        let tree = &self.symbolic.tree;
        self.store.share_labels(tree, ranks, &mut self.memory)?;
        let store = &self.store;
        if !replaced.is_empty() {
            let mark = |is: &AtomicBool| f32::from(u8::from(is.load(Ordering::Relaxed)));
            let mut marks: Vec<f32> = replaced.iter().map(mark).collect();
            told_by_all(store, tree, ranks, &mut marks)?;
            for (is, mark) in replaced.iter().zip(marks) {
                is.store(mark != 0.0, Ordering::Relaxed);
            }
        }
        let mut own = Vec::new();
        for s in (0..store.records.len()).filter(|&s| self.is_here(s)) {
            let front = self.front(s);
            own.extend((0..front.pivots).flat_map(|j| front.diagonal(j)));
        }
        let records = &self.store.records;
        let spread = self.spread.as_mut();
        spread.map_or(Ok(()), |spread| spread.share_diagonal(records, &own))
    }

    /// Whether the panels of a front are on this rank.
    fn is_here(&self, s: usize) -> bool {
        let share = self.spread.as_ref().map(Spread::share);
        share.is_none_or(|share| share.is_own(s))
    }

    /// Panics where a part of the factors is wanted that is on another rank.
    #[track_caller]
    fn check_here(&self) {
        assert!(
            self.spread.is_none(),
            "a part of the factors is on other ranks"
        );
    }

    /// The symbolic factorization that the factors belong to.
    pub fn symbolic(&self) -> &Arc<Symbolic<Lower>> {
        &self.symbolic
    }

    /// What the last factorization measured of itself.
    pub fn quality(&self) -> &SymmetricQuality {
        &self.quality
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.symbolic.n()
    }

    /// Name of the instruction set that the kernels use.
    pub fn instruction_set(&self) -> &'static str {
        self.kernels.name
    }

    /// What counterparts across the diagonal are.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Eigenvalues of D by their signs, as the factorization found it: by Sylvester's law those of the matrix. `None` for a complex
    /// symmetric matrix, whose eigenvalues have no signs.
    pub fn inertia(&self) -> Option<Inertia> {
        has_signs::<F>(self.form).then_some(self.quality.inertia)
    }

    /// Number of pivots of order 2.
    pub fn num_two(&self) -> usize {
        self.quality.num_two
    }

    /// Number of columns that were eliminated in a later front than planned, counted once for every front they were put
    /// off.
    pub fn num_delayed(&self) -> usize {
        self.store.num_delayed()
    }

    /// Rank of D as the factorization found it: columns that were not accepted as zero pivots.
    pub fn rank(&self) -> usize {
        self.n() - self.quality.num_zero
    }

    /// Columns of the pattern whose pivots were replaced because they had not the
    /// [expected sign](luge_sparse::PivotKind::Signed), or were not to be
    /// [delayed again](luge_sparse::SmallPivots::Limited), ascending; `None` if none of both was asked for.
    pub fn perturbed(&self) -> Option<&[u32]> {
        self.perturbed.as_ref().map(|(columns, _)| &columns[..])
    }

    /// Entries of L, the unit diagonal and explicit zeros included.
    pub fn lnz(&self) -> u64 {
        let fronts = self.store.records.iter().zip(self.symbolic.tree.fronts());
        let entries = fronts.map(|(record, front)| {
            let (pivots, m) = (u64::from(record.pivots), u64::from(record.k + front.below));
            pivots * m - pivots * pivots.saturating_sub(1) / 2
        });
        entries.sum()
    }

    /// Entries of L and D, the diagonal counted once, explicit zeros included.
    pub fn factor_entries(&self) -> u64 {
        self.lnz() + self.quality.num_two as u64
    }

    /// Bytes of the factors, without the tree; of those that are here.
    pub fn bytes(&self) -> u64 {
        self.held() + self.keeping.bytes()
    }

    /// Those without what is kept for refactorizations of some fronts.
    fn held(&self) -> u64 {
        self.store.bytes() + self.spread.as_ref().map_or(0, Spread::bytes)
    }

    fn front(&self, s: usize) -> FrontView<'_, F> {
        let Symbolic { tree, layout, .. } = &*self.symbolic;
        let store = &self.store;
        let front = &tree.fronts[s];
        let record = &store.records[s];
        let k = record.k as usize;
        let m = k + front.below as usize;
        let share = self.spread.as_ref().map(Spread::share);
        let slot = share.map_or(&layout.slot, |share| &share.slot)[s] as usize;
        let lp = match store.delayed.get(s).and_then(Option::as_deref) {
            _ if !self.is_here(s) => &[],
            Some(delayed) => &delayed.values[..],
            None => &store.values[slot..slot + k * m],
        };
        let (_, cols) = store.labels(tree, s);
        let pivots = record.pivots as usize;
        let elsewhere = self.spread.as_ref().filter(|_| !self.is_here(s));
        let elsewhere = elsewhere.map_or(&[][..], |spread| spread.diagonal_of(s, pivots));
        FrontView {
            m,
            pivots,
            lp,
            elsewhere,
            cols,
            below_rows: &tree.rows[front.row_range()],
        }
    }
}

/// A factorized front.
struct FrontView<'a, F> {
    m: usize,
    pivots: usize,
    /// The panel; empty if it is on another rank.
    lp: &'a [F],
    /// D, if the panel is elsewhere.
    elsewhere: &'a [[F; 2]],
    /// Labels of the fully summed columns, pivots first.
    cols: &'a [u32],
    /// Labels of the rows below.
    below_rows: &'a [u32],
}

#[track_caller]
fn check_length<F>(symbolic: &Symbolic<Lower>, values: &[F]) {
    assert_eq!(
        values.len(),
        symbolic.nnz(),
        "one value per entry of the pattern"
    );
}

/// What is expected of pivots.
///
/// # Panics
///
/// As [`FrontalLdlt::factorize`].
#[track_caller]
fn expected<R: RealScalar>(options: &Options, n: usize) -> &[f64] {
    let expected = options.expected.as_deref().unwrap_or_default();
    assert_eq!(expected.len(), n, "what is expected of each pivot");
    let is_number = |&value: &f64| R::from_f64(value).is_normal();
    assert!(
        expected.iter().all(is_number),
        "pivots are expected to be normal numbers"
    );
    expected
}

/// Whether pivots, and eigenvalues, are real numbers.
fn has_signs<F: FrontalScalar>(form: Form) -> bool {
    F::COMPONENTS == 1 || form == Form::Hermitian
}

/// The predicted bytes, if there is a limit that they have to keep.
fn check_memory<F>(symbolic: &Symbolic<Lower>, options: &Options) -> Result<u64, FrontalError> {
    let Some(available) = options.max_bytes else {
        return Ok(0);
    };
    let asked = symbolic.peak_bytes(size_of::<F>(), options.threads);
    if asked > available {
        return Err(FrontalError::OutOfMemory { asked, available });
    }
    Ok(asked)
}

/// The threshold of complex pivots is at most this, so that a nonsingular front without rows below has always an acceptable
/// one. Let m be the largest magnitude, of an entry a off the diagonal, and those of the diagonal below u·m, so that no pivot
/// of order 1 is acceptable. Then |a²| ≥ m²/2 by absolute values, so the determinant of the pivot of order 2 is at least (1/2 − u²)·m²
/// and the magnitudes in a row of its inverse add up to at most √2·(1 + u)·m over that. It is acceptable if m times this is at
/// most 1/u, which holds for u up to 0.248. With real numbers, whose a² is m², it holds up to 1/2.
pub(crate) const MAX_COMPLEX_THRESHOLD: f64 = 0.24;

/// Columns between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

/// ‖B e_k‖₁ of each column, with the entries of the other triangle, by [magnitudes](luge_sparse::Scalar::magnitude).
fn column_norms<F: FrontalScalar>(
    symbolic: &Symbolic<Lower>,
    input: &[F],
    cancel: &CancelFlag,
) -> Result<Vec<F::Real>, FrontalError> {
    let pattern = &symbolic.tree.pattern;
    let n = symbolic.n();
    let mut norms = vec![F::Real::zero(); n];
    for column in 0..n {
        if column.is_multiple_of(STRIDE) {
            cancel.check()?;
        }
        let range = pattern.range(column);
        for (&row, &value) in pattern.idx()[range.clone()].iter().zip(&input[range]) {
            if !value.is_number() {
                return Err(FrontalError::NotFinite { column });
            }
            norms[row as usize] += value.magnitude();
            if row as usize != column {
                norms[column] += value.magnitude();
            }
        }
    }
    match norms.iter().position(|norm| !norm.is_finite()) {
        Some(column) => Err(FrontalError::NotFinite { column }),
        None => Ok(norms),
    }
}

/// The largest magnitude.
fn largest<F: FrontalScalar>(values: &[F]) -> F::Real {
    let magnitudes = values.iter().map(|value| value.magnitude());
    magnitudes.fold(F::Real::zero(), Float::max)
}
