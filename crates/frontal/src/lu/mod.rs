//! Unsymmetric multifrontal LU on the CPU.

mod eliminate;
mod front;
mod product;
mod solve;

use std::sync::Arc;

use luge_comm::Operation;
use luge_dense::{FrontalScalar, Kernels};
use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{CancelFlag, Quality, RealScalar, Reservation, bytes_of, drop_aside};

use crate::deal::Ranks;
use crate::error::FrontalError;
use crate::factorize::{self, FrontStore, Keeping, Run, Spread, check_changed, told_by_all};
use crate::options::Options;
use crate::parts::{FrontParts, PartsError, unsound};
use crate::symbolic::Symbolic;
use front::{LuFront, Shared};

/// Factors B = L·U of one block, front by front, with B's rows and columns permuted inside fronts.
///
/// L has a unit diagonal. Columns and rows are those of the pattern that the [`Symbolic`] factorization was
/// made of.
#[derive(Debug, Clone)]
pub struct FrontalLu<F: FrontalScalar> {
    symbolic: Arc<Symbolic>,
    kernels: &'static Kernels<F>,
    store: FrontStore<F>,
    /// ±1 for each row, by elimination order and as the rows came.
    weights: Vec<F>,
    input_weights: Vec<F>,
    /// ‖ |L|·|U|·e_k ‖₁ by column.
    products: Vec<F::Real>,
    quality: Quality,
    /// What is elsewhere, if there are other ranks.
    spread: Option<Spread<F>>,
    /// What is kept for refactorizations of some fronts.
    keeping: Keeping<LuFront<F>>,
    /// Whether the last factorization ran to its end.
    valid: bool,
    /// What is reserved for all of this.
    memory: Reservation,
}

impl<F: FrontalScalar> FrontalLu<F> {
    /// Factorizes the matrix with the pattern of `symbolic` and these values, in the pattern's order.
    ///
    /// # Errors
    ///
    /// [`FrontalError::Singular`]; with static pivots [`FrontalError::ZeroPivot`] instead;
    /// [`FrontalError::NotFinite`] for values or factors that are not finite;
    /// [`FrontalError::OutOfMemory`] and [`FrontalError::Cancelled`].
    ///
    /// # Panics
    ///
    /// If `values` has not one value per entry of the pattern, or [`PivotPolicy::check`](luge_sparse::PivotPolicy::check)
    /// refuses the policy.
    #[track_caller]
    pub fn factorize(
        symbolic: &Arc<Symbolic>,
        values: &[F],
        options: &Options,
    ) -> Result<(Self, Quality), FrontalError> {
        Self::factorize_with(symbolic, values, options, F::kernels())
    }

    /// [`factorize`](Self::factorize) with the given kernels, one of those this machine can run.
    #[doc(hidden)]
    #[track_caller]
    pub fn factorize_with(
        symbolic: &Arc<Symbolic>,
        values: &[F],
        options: &Options,
        kernels: &'static Kernels<F>,
    ) -> Result<(Self, Quality), FrontalError> {
        assert!(
            F::all_kernels().iter().any(|k| std::ptr::eq(*k, kernels)),
            "kernels of another machine"
        );
        // SAFETY: the kernels are among those that this machine can run.
        unsafe { Self::factorize_unchecked(symbolic, values, options, kernels) }
    }

    /// # Safety
    ///
    /// This machine can run the kernels.
    #[track_caller]
    unsafe fn factorize_unchecked(
        symbolic: &Arc<Symbolic>,
        values: &[F],
        options: &Options,
        kernels: &'static Kernels<F>,
    ) -> Result<(Self, Quality), FrontalError> {
        assert_eq!(
            values.len(),
            symbolic.nnz(),
            "one value per entry of the block"
        );
        check_memory::<F>(symbolic, options)?;
        let ranks = Ranks::new(symbolic, options.ranks.as_ref(), size_of::<F>());
        if let Some(ranks) = &ranks {
            ranks.team.enter(Operation::Factorize);
        }
        // SAFETY: the caller's contract.
        let made = unsafe { Self::empty(symbolic, options, kernels, ranks.as_ref()) };
        let mut factors = Ranks::agreed(ranks.as_ref(), made)?;
        match factors.run(values, None, options, true) {
            Ok(quality) => Ok((factors, quality)),
            Err(error) => {
                let bytes = factors.bytes();
                drop_aside(factors, bytes);
                Err(error)
            }
        }
    }

    /// The memory of factors.
    ///
    /// # Safety
    ///
    /// This machine can run the kernels.
    unsafe fn empty(
        symbolic: &Arc<Symbolic>,
        options: &Options,
        kernels: &'static Kernels<F>,
        ranks: Option<&Ranks>,
    ) -> Result<Self, FrontalError> {
        let n = symbolic.n();
        let slots = ranks.map_or(symbolic.layout.slots, |ranks| ranks.share.slots);
        // Two entries of the diagonal for each pivot, with the factors of all.
        let of_diagonal = ranks.map_or(0, |_| bytes_of::<F>(2 * n) + bytes_of::<u32>(n));
        let own = symbolic.factor_bytes_of(slots, size_of::<F>());
        let memory = options
            .memory
            .reserve(own + bytes_of::<F>(3 * n) + of_diagonal)?;
        let weights = symbolic.tree.perm().iter().map(|&i| weight(i)).collect();
        options.cancel.check()?;
        let input_weights = (0..n as u32).map(weight).collect();
        options.cancel.check()?;
        Ok(Self {
            symbolic: Arc::clone(symbolic),
            kernels,
            store: FrontStore::new(&symbolic.tree, slots, false),
            weights,
            input_weights,
            products: vec![F::Real::zero(); n],
            quality: Quality::default(),
            spread: ranks.cloned().map(Spread::new),
            keeping: Keeping::Not,
            valid: false,
            memory,
        })
    }

    /// What the factors are made of, beside what [`products`](Self::products) and [`quality`](Self::quality) tell.
    ///
    /// # Panics
    ///
    /// If the last refactorization failed, or a part of the factors is on other ranks.
    #[track_caller]
    pub fn parts(&self) -> FrontParts<'_, F> {
        assert!(self.valid, "the last refactorization failed");
        self.check_here();
        self.store.parts(&self.symbolic)
    }

    /// Bytes that factors of `symbolic` take without delayed columns, for [`from_parts`](Self::from_parts).
    pub fn parts_bytes(symbolic: &Symbolic) -> u64 {
        symbolic.factor_bytes(size_of::<F>()) + bytes_of::<F>(3 * symbolic.n())
    }

    /// The factors that these are the [`parts`](Self::parts) of, for which [`parts_bytes`](Self::parts_bytes) are reserved in
    /// `memory`. Values are taken as they are; all else is checked, so that whatever is read from a file may be given.
    ///
    /// # Errors
    ///
    /// [`PartsError`].
    pub fn from_parts(
        symbolic: &Arc<Symbolic>,
        parts: FrontParts<'_, F>,
        products: Vec<F::Real>,
        quality: Quality,
        mut memory: Reservation,
    ) -> Result<Self, PartsError> {
        let n = symbolic.n();
        if products.len() != n {
            return Err(unsound("the size"));
        }
        let store = FrontStore::from_parts(symbolic, parts, &mut memory)?;
        let mut factors = Self {
            symbolic: Arc::clone(symbolic),
            kernels: F::kernels(),
            store,
            weights: symbolic.tree.perm().iter().map(|&i| weight(i)).collect(),
            input_weights: (0..n as u32).map(weight).collect(),
            products,
            quality,
            spread: None,
            keeping: Keeping::Not,
            valid: true,
            memory: Reservation::default(),
        };
        memory.shrink_to(factors.bytes());
        factors.memory = memory;
        Ok(factors)
    }

    /// Factorizes new values of the same pattern in place, with the pivots found before: the same
    /// order inside every front and the same delays, nothing is searched.
    ///
    /// The same values give the same factors, bit by bit. After an error there are no factors, and
    /// solving panics until a later call succeeds.
    ///
    /// # Errors
    ///
    /// [`FrontalError::ZeroPivot`] unless pivots are replaced, [`FrontalError::NotFinite`],
    /// [`FrontalError::OutOfMemory`], [`FrontalError::Cancelled`].
    ///
    /// # Panics
    ///
    /// If `values` has not one value per entry of the pattern, or [`PivotPolicy::check`](luge_sparse::PivotPolicy::check)
    /// refuses the policy.
    #[track_caller]
    pub fn refactorize(
        &mut self,
        values: &[F],
        options: &Options,
    ) -> Result<Quality, FrontalError> {
        assert_eq!(
            values.len(),
            self.symbolic.nnz(),
            "one value per entry of the block"
        );
        if let Some(spread) = &self.spread {
            spread.ranks.team.enter(Operation::Factorize);
        }
        self.run(values, None, options, false)
    }

    /// As [`refactorize`](Self::refactorize) for `values` of which only the entries `changed`, in ascending order, may differ from
    /// those that were factorized last: what it leaves, and tells, is the same, bit for bit. Only fronts that follow from these
    /// entries are factorized again, if there is memory to keep elements and measurements of the others: from the second such
    /// call on, unless one failed, and where small pivots are not replaced.
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
    ) -> Result<Quality, FrontalError> {
        assert_eq!(
            values.len(),
            self.symbolic.nnz(),
            "one value per entry of the block"
        );
        check_changed(changed, values.len());
        if self.spread.is_some() {
            return self.refactorize(values, options);
        }
        let (memory, cancel) = (&options.memory, &options.cancel);
        self.keeping.start(&self.symbolic, memory, cancel)?;
        let changed = (self.valid && !options.pivots.replaces()).then_some(changed);
        self.run(values, changed, options, false)
    }

    /// Gives back what is kept for refactorizations of some fronts, from now on; whether there was something. The next
    /// refactorization is one of all fronts.
    pub fn keep_nothing(&mut self) -> bool {
        self.keeping.give_up()
    }

    /// Predicted operations of the last factorization, and of one of all fronts.
    pub fn flops_done(&self) -> [f64; 2] {
        self.keeping.flops(&self.symbolic)
    }

    /// What a refactorization of the values that are there would do: nothing changes, pivots included.
    ///
    /// # Panics
    ///
    /// If the last refactorization failed.
    #[track_caller]
    pub fn keep(&mut self) -> Quality {
        assert!(self.valid, "the last refactorization failed");
        self.quality.min_pivot_ratio = 1.0;
        self.quality.max_pivot_ratio = 1.0;
        self.quality
    }

    /// As [`run_once`](Self::run_once). Where what is kept leaves no memory, it is given up.
    #[track_caller]
    fn run(
        &mut self,
        input: &[F],
        changed: Option<&[u32]>,
        options: &Options,
        search: bool,
    ) -> Result<Quality, FrontalError> {
        let outcome = self.run_once(input, changed, options, search);
        if matches!(outcome, Err(FrontalError::OutOfMemory { .. })) && self.keeping.give_up() {
            return self.run_once(input, None, options, search);
        }
        outcome
    }

    /// Factorizes; without `search` on the pivots of the factorization before. If entries `changed`, the others are as before.
    #[track_caller]
    fn run_once(
        &mut self,
        input: &[F],
        changed: Option<&[u32]>,
        options: &Options,
        search: bool,
    ) -> Result<Quality, FrontalError> {
        let max_b = || options.max_b.unwrap_or_else(|| largest(input).to_f64());
        let policy = options.pivots.resolve::<F::Real>(max_b);
        let predicted = check_memory::<F>(&self.symbolic, options)?;
        self.valid = false;
        let symbolic = Arc::clone(&self.symbolic);
        let ranks = self.spread.as_ref().map(|spread| spread.ranks.clone());
        let ranks = ranks.as_ref();
        let prepare = || {
            let of_sums = options.memory.reserve(bytes_of::<F>(2 * self.n()))?;
            let sums = column_sums(&symbolic, input, &self.input_weights, &options.cancel)?;
            Ok((sums, of_sums))
        };
        let ((norms, sums), _of_sums) = Ranks::agreed(ranks, prepare())?;
        let run = Run::<LuFront<F>> {
            symbolic: &symbolic,
            ranks,
            input,
            options,
            search,
            partial: self
                .keeping
                .kept()
                .map(|kept| kept.begin(&symbolic, changed)),
            predicted,
            shared: Shared {
                kernels: self.kernels,
                policy: if search { policy } else { policy.known() },
                weights: &self.weights,
                norms: &norms,
                sums: &sums,
                products: self.products.as_mut_ptr(),
            },
        };
        let result = factorize::factorize(run, &mut self.store, &mut self.memory);
        let result = result.and_then(|quality| {
            self.tell(search)?;
            Ok(quality)
        });
        let held = self.held();
        self.memory.shrink_to(held);
        self.quality = result?;
        self.valid = true;
        if let Some(kept) = self.keeping.kept() {
            kept.accept();
        }
        Ok(self.quality)
    }

    /// Tells the other ranks, if there are any, what solves and reports want of the fronts of each; labels only after a search.
    fn tell(&mut self, search: bool) -> Result<(), FrontalError> {
        let Some(Spread { ranks, .. }) = &self.spread else {
            return Ok(());
        };
        let tree = &self.symbolic.tree;
        if search {
            self.store.share_labels(tree, ranks, &mut self.memory)?;
        }
        told_by_all(&self.store, tree, ranks, &mut self.products)?;
        let mut own = Vec::new();
        for s in (0..self.store.records.len()).filter(|&s| self.is_here(s)) {
            let front = self.front(s);
            own.extend((0..front.pivots).flat_map(|j| [front.lp[j * (front.m + 1)], F::zero()]));
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
    pub fn symbolic(&self) -> &Arc<Symbolic> {
        &self.symbolic
    }

    /// What the last factorization measured of itself.
    pub fn quality(&self) -> &Quality {
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

    /// Entries of L, the unit diagonal included.
    pub fn lnz(&self) -> u64 {
        self.count(|k, pivots, below| pivots * (k + below) - pivots * pivots.saturating_sub(1) / 2)
    }

    /// Entries of U, the diagonal included.
    pub fn unz(&self) -> u64 {
        // Row by row, U has the shape of L.
        self.lnz()
    }

    /// Entries of L and U, the diagonal counted once, explicit zeros included.
    pub fn factor_entries(&self) -> u64 {
        self.lnz() + self.unz() - self.n() as u64
    }

    fn count(&self, entries: impl Fn(u64, u64, u64) -> u64) -> u64 {
        self.store
            .records
            .iter()
            .zip(self.symbolic.tree.fronts())
            .map(|(r, f)| entries(r.k.into(), r.pivots.into(), f.below.into()))
            .sum()
    }

    /// Bytes of the factors alone.
    fn held(&self) -> u64 {
        let spread = self.spread.as_ref().map_or(0, Spread::bytes);
        self.store.bytes() + spread + 3 * size_of_val(&self.weights[..]) as u64
    }

    /// Bytes of the factors, without the tree; of those that are here.
    pub fn bytes(&self) -> u64 {
        self.held() + self.keeping.bytes()
    }

    /// Number of columns that were eliminated in a later front than planned, counted once for every
    /// front they were put off.
    pub fn num_delayed(&self) -> usize {
        self.store.num_delayed()
    }

    /// The pivots in elimination order: (row, column, value).
    pub fn pivots(&self) -> impl Iterator<Item = (usize, usize, F)> + '_ {
        let perm = self.symbolic.tree.perm();
        (0..self.store.records.len()).flat_map(move |s| {
            let front = self.front(s);
            (0..front.pivots).map(move |j| {
                (
                    perm[front.rows[j] as usize] as usize,
                    perm[front.cols[j] as usize] as usize,
                    front.pivot(j),
                )
            })
        })
    }

    /// Visits the entries of L with (row of B, pivot, value): everything below the unit diagonal,
    /// explicit zeros included. Pivots count in elimination order, as in [`pivots`](Self::pivots).
    ///
    /// # Panics
    ///
    /// If a part of the factors is on other ranks.
    #[track_caller]
    pub fn for_each_l(&self, mut visit: impl FnMut(usize, usize, F)) {
        self.check_here();
        let perm = &self.symbolic.tree.perm;
        let mut first = 0;
        for s in 0..self.store.records.len() {
            let f = self.front(s);
            for j in 0..f.pivots {
                for (i, &row) in f.rows.iter().chain(f.below_rows).enumerate().skip(j + 1) {
                    visit(perm[row as usize] as usize, first + j, f.lp[i + j * f.m]);
                }
            }
            first += f.pivots;
        }
    }

    /// Visits the entries of U with (pivot, column of B, value), the diagonal and explicit zeros
    /// included.
    ///
    /// # Panics
    ///
    /// If a part of the factors is on other ranks.
    #[track_caller]
    pub fn for_each_u(&self, mut visit: impl FnMut(usize, usize, F)) {
        self.check_here();
        let perm = &self.symbolic.tree.perm;
        let mut first = 0;
        for s in 0..self.store.records.len() {
            let f = self.front(s);
            for j in 0..f.pivots {
                for (q, &col) in f.cols.iter().enumerate().skip(j) {
                    visit(first + j, perm[col as usize] as usize, f.lp[j + q * f.m]);
                }
                for (i, &col) in f.below_rows.iter().enumerate() {
                    visit(
                        first + j,
                        perm[col as usize] as usize,
                        f.ut[i + j * f.below],
                    );
                }
            }
            first += f.pivots;
        }
    }

    fn front(&self, s: usize) -> FrontView<'_, F> {
        let Symbolic { tree, layout, .. } = &*self.symbolic;
        let store = &self.store;
        let front = &tree.fronts[s];
        let record = &store.records[s];
        let (k, below) = (record.k as usize, front.below as usize);
        let m = k + below;
        let delayed = store.delayed.get(s).and_then(Option::as_deref);
        let share = self.spread.as_ref().map(Spread::share);
        let slot = share.map_or(&layout.slot, |share| &share.slot)[s] as usize;
        let values = match delayed {
            _ if !self.is_here(s) => &[],
            Some(delayed) => &delayed.values[..],
            None => &store.values[slot..slot + k * (m + below)],
        };
        let (rows, cols) = store.labels(tree, s);
        let (lp, ut) = values.split_at(values.len().min(k * m));
        let pivots = record.pivots as usize;
        let elsewhere = self.spread.as_ref().filter(|_| !self.is_here(s));
        let elsewhere = elsewhere.map_or(&[][..], |spread| spread.diagonal_of(s, pivots));
        FrontView {
            m,
            k,
            below,
            pivots,
            lp,
            ut,
            elsewhere,
            rows,
            cols,
            below_rows: &tree.rows[front.row_range()],
        }
    }
}

/// A factorized front.
struct FrontView<'a, F> {
    m: usize,
    k: usize,
    below: usize,
    pivots: usize,
    /// The panels; empty if they are on another rank.
    lp: &'a [F],
    ut: &'a [F],
    /// The diagonal of U, if the panels are elsewhere.
    elsewhere: &'a [[F; 2]],
    /// Labels of the fully summed rows and columns, pivots first.
    rows: &'a [u32],
    cols: &'a [u32],
    /// Labels of the rows below.
    below_rows: &'a [u32],
}

impl<F: FrontalScalar> FrontView<'_, F> {
    fn pivot(&self, j: usize) -> F {
        match self.elsewhere.get(j) {
            Some(&[pivot, _]) => pivot,
            None => self.lp[j * (self.m + 1)],
        }
    }
}

/// The predicted bytes, if there is a limit that they have to keep.
fn check_memory<F: FrontalScalar>(
    symbolic: &Symbolic,
    options: &Options,
) -> Result<u64, FrontalError> {
    let Some(available) = options.max_bytes else {
        return Ok(0);
    };
    let asked = symbolic.peak_bytes(size_of::<F>(), options.threads);
    if asked > available {
        return Err(FrontalError::OutOfMemory { asked, available });
    }
    Ok(asked)
}

/// Columns between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

/// ‖B e_k‖₁ and wᵀB e_k of each column, for weights by row of the matrix as it came.
fn column_sums<F: FrontalScalar>(
    symbolic: &Symbolic,
    input: &[F],
    weights: &[F],
    cancel: &CancelFlag,
) -> Result<(Vec<F::Real>, Vec<F>), FrontalError> {
    let pattern = &symbolic.tree.pattern;
    let n = symbolic.n();
    let mut norms = Vec::with_capacity(n);
    let mut sums = Vec::with_capacity(n);
    for column in 0..n {
        if column.is_multiple_of(STRIDE) {
            cancel.check()?;
        }
        let range = pattern.range(column);
        let (mut norm, mut sum) = (F::Real::zero(), F::zero());
        for (&row, &value) in pattern.idx()[range.clone()].iter().zip(&input[range]) {
            norm += value.magnitude();
            sum += weights[row as usize] * value;
        }
        if !norm.is_finite() {
            return Err(FrontalError::NotFinite { column });
        }
        norms.push(norm);
        sums.push(sum);
    }
    Ok((norms, sums))
}

/// The largest magnitude.
fn largest<F: FrontalScalar>(values: &[F]) -> F::Real {
    let magnitudes = values.iter().map(|value| value.magnitude());
    magnitudes.fold(F::Real::zero(), Float::max)
}

/// ±1, drawn by row (the finalizer of SplitMix64).
fn weight<F: FrontalScalar>(row: u32) -> F {
    let mut z = u64::from(row).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    if (z ^ (z >> 31)) & 1 == 0 {
        F::one()
    } else {
        -F::one()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_of_either_sign_as_often() {
        // The lowest bits of what the generator SplitMix64 yields first if row 0, 1, and so on is its seed.
        let negative = (0..64).map(|row| u64::from(weight::<f64>(row) < 0.0) << row);
        assert_eq!(negative.sum::<u64>(), 0xb345_d63d_0223_b88b);
        for first in [0, 1 << 20, u32::MAX - 1000] {
            let weights: Vec<f64> = (first..first + 1000).map(weight).collect();
            assert!(weights.iter().all(|w| w.abs() == 1.0));
            // 500 expected, with a standard deviation of 16; and so many equal neighbours.
            let positive = weights.iter().filter(|w| **w > 0.0).count();
            assert!((420..580).contains(&positive), "{positive}");
            let equal = weights.windows(2).filter(|w| w[0] == w[1]).count();
            assert!((420..580).contains(&equal), "{equal}");
        }
    }
}
