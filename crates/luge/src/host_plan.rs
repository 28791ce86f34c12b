//! What the CPU path factorizes B by: LU of its diagonal blocks, or a symmetric factorization of all of it.

use std::sync::Arc;

use luge_frontal::{FrontalLdlt, FrontalLu, FrontalScalar};
use luge_numeric::cpu::Entries;
use luge_numeric::cpu::blocks::{BlockLu, BlockParts, BlockPlan, FrontSizes, Options};
use luge_sparse::num_traits::One;
use luge_sparse::{CancelFlag, Cancelled, Form, Inertia, Quality, RowPerm};

use crate::codec::{Sink, Source};
use crate::determinant::Determinant;
use crate::engine_parts::{
    QUALITY_BYTES, put_quality, put_split, quality, read_columns, read_fronts, read_record,
    write_columns, write_fronts,
};
use crate::error::{Error, PhaseError};

/// Where the entries of B go, and what is known of its factors before they are computed.
pub(crate) trait HostPlan<F: FrontalScalar>: Send + Sync + 'static {
    type Factors: PlannedFactors<F>;

    /// Whether a factorization measures a checksum of B − L·U.
    const HAS_CHECKSUM: bool;

    /// Order of B.
    fn n(&self) -> usize;

    /// For each entry, in the order of the plan, its number among those of A.
    fn source(&self) -> &[u32];

    /// Replaces the numbers in [`source`](Self::source) by what `map` has for them.
    fn compose(&mut self, map: impl Fn(u32) -> u32);

    /// Bytes that the plan holds.
    fn bytes(&self) -> u64;

    /// Seconds that a factorization is predicted to take on one thread.
    fn seconds(&self) -> f64;

    /// Bytes that factors with so many entries, and the way to them, are predicted to take with so many threads.
    fn predicted_bytes(&self, entries: u64, threads: usize) -> u64;

    /// ‖B‖₁ for values in the order of the plan.
    fn norm1(&self, values: &[F]) -> f64;

    fn front_sizes(&self) -> FrontSizes;

    /// Finds out what factorizations by so many threads need, while there is a thread to spare.
    fn prepare(&self, _threads: usize, _cancel: &CancelFlag) -> Result<(), Cancelled> {
        Ok(())
    }

    /// Factorizes B, whose values are in the order of the plan.
    fn factorize(
        self: &Arc<Self>,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Result<(Self::Factors, Quality), PhaseError>;

    /// Writes what it takes to plan the same again for the pattern of B.
    fn write(&self, head: &mut Vec<u8>);

    /// Reads factors that were [written](PlannedFactors::write), those of a B with these values in the order of the plan.
    fn read_factors(
        self: &Arc<Self>,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
        source: &mut Source<'_>,
    ) -> Result<Self::Factors, Error>;
}

/// Factors of one B.
pub(crate) trait PlannedFactors<F: FrontalScalar>: Send + Sync + Sized {
    /// Factorizes other values in the same memory, and writes to `quality` what was measured. After an error the factors are
    /// those of no matrix until another call succeeds.
    fn refactorize(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), PhaseError>;

    /// As [`refactorize`](Self::refactorize) where only the entries `changed`, in ascending order, may have other values than
    /// those that were factorized last; the outcome is the same.
    fn refactorize_changed(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        changed: &[u32],
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), PhaseError>;

    /// The predicted operations of the last refactorization over those of a whole one; 1 before the first.
    fn refactorized_part(&self) -> f64;

    /// Seconds that a refactorization is predicted to take on one thread.
    fn refactorize_seconds(&self) -> f64;

    /// Likewise for one solve.
    fn solve_seconds(&self) -> f64;

    /// Bytes that the first solve adds.
    fn solve_bytes(&self) -> u64;

    /// Bytes that a solve with so many right-hand sides works in.
    fn solve_scratch_bytes(&self, nrhs: usize, threads: usize) -> u64;

    /// Bytes of the factors.
    fn bytes(&self) -> u64;

    /// Entries of L and of U, each with the diagonal.
    fn sizes(&self) -> (u64, u64);

    fn code_path(&self) -> Vec<&'static str>;

    /// Row i of the factors is this row of B, if pivoting moved rows between them.
    fn row_perm(&self) -> Option<RowPerm>;

    /// The determinant of B with its rows in the order of the factors.
    fn determinant(&self) -> Determinant<F::Wide>;

    /// Replaces right-hand sides, one after another, by solutions with B or its transpose.
    fn solve(
        &self,
        x: &mut [F],
        nrhs: usize,
        transpose: bool,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled>;

    /// Writes the factors.
    fn write(&self, sink: &mut Sink<'_>) -> Result<(), Error>;

    /// The factors by blocks, whose columns were measured.
    fn as_blocks(&self) -> Option<&BlockLu<F>> {
        None
    }

    /// L and D of a symmetric matrix.
    fn as_ldlt(&self) -> Option<&dyn LdltParts<F>> {
        None
    }

    /// What is known of a symmetric matrix; columns are those of B.
    fn symmetric(&self) -> Option<SymmetricReport> {
        None
    }
}

/// L and D of a symmetric B.
pub(crate) trait LdltParts<F>: Send + Sync {
    /// Columns of B in the order of elimination.
    fn order(&self) -> Vec<usize>;

    /// D in that order: the entry on the diagonal and the one below it, for each column.
    fn d(&self) -> Vec<F>;

    /// Columns of B whose pivots were replaced, if they are known.
    fn perturbed(&self) -> Option<&[u32]>;

    /// max over columns k of w(k)·Σ_i w(i)·(|L|·|D|·|Lᵀ|)(i,k), with weights for the rows and columns of B.
    fn product_norm(
        &self,
        weights: &[f64],
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<f64, Cancelled>;

    /// Replaces right-hand sides by solutions with L or its transpose, of a Hermitian matrix its conjugate transpose, each
    /// pivot's entry in the place of its column.
    fn solve_triangle(
        &self,
        x: &mut [F],
        nrhs: usize,
        transpose: bool,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled>;
}

/// What the factors of a symmetric matrix tell of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SymmetricReport {
    /// Whether it was factorized as a positive definite one.
    pub is_definite: bool,
    /// Whether pivots were searched.
    pub is_searched: bool,
    /// What counterparts across the diagonal are.
    pub form: Form,
    /// Signs of the eigenvalues, if they have any.
    pub inertia: Option<Inertia>,
    /// Zero pivots that were accepted.
    pub num_zero: usize,
    /// Pivots of order 2.
    pub num_two: usize,
    /// Pivot columns that blocks did not find, where they were tried.
    pub num_second_pass: Option<usize>,
    /// The column of the first zero pivot.
    pub first_zero: Option<usize>,
}

impl<F: FrontalScalar> HostPlan<F> for BlockPlan {
    type Factors = BlockLu<F>;
    const HAS_CHECKSUM: bool = true;

    fn n(&self) -> usize {
        self.n()
    }

    fn source(&self) -> &[u32] {
        self.source()
    }

    fn compose(&mut self, map: impl Fn(u32) -> u32) {
        self.compose(map);
    }

    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn seconds(&self) -> f64 {
        self.seconds()
    }

    fn predicted_bytes(&self, entries: u64, threads: usize) -> u64 {
        self.predicted_bytes::<F>(entries, threads)
    }

    fn norm1(&self, values: &[F]) -> f64 {
        self.norm1(values)
    }

    fn front_sizes(&self) -> FrontSizes {
        self.front_sizes()
    }

    fn prepare(&self, threads: usize, cancel: &CancelFlag) -> Result<(), Cancelled> {
        self.prepare(threads, cancel)
    }

    fn factorize(
        self: &Arc<Self>,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Result<(BlockLu<F>, Quality), PhaseError> {
        Ok(BlockLu::factorize(self, values, options)?)
    }

    fn write(&self, head: &mut Vec<u8>) {
        put_split(head, &self.parts());
    }

    fn read_factors(
        self: &Arc<Self>,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
        source: &mut Source<'_>,
    ) -> Result<BlockLu<F>, Error> {
        let (mut fronts, mut of_fronts) = (Vec::new(), Vec::new());
        // Of what is read and does not stay as it is.
        let mut beside = Vec::new();
        for symbolic in self.symbolics() {
            let bytes = FrontalLu::<F>::parts_bytes(symbolic);
            of_fronts.push(source.limits().reserve(bytes, "numeric")?);
            let (parts, memory) = read_fronts(source, symbolic)?;
            beside.push(memory);
            let n = symbolic.n();
            let products = source.numbers(n)?;
            let quality = read_record(source, QUALITY_BYTES, |record| quality(record, n))?;
            fronts.push((parts, products, quality));
        }
        let limits = source.limits();
        let (columns, of_columns) = read_columns(source, self.num_columns(), |lnz, unz| {
            limits.reserve(self.column_bytes::<F>(lnz, unz), "numeric")
        })?;
        let parts = BlockParts { columns, fronts };
        let memory = (of_fronts, of_columns);
        Ok(BlockLu::from_parts(self, parts, values, memory, options)?)
    }
}

impl<F: FrontalScalar> PlannedFactors<F> for BlockLu<F> {
    fn refactorize(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), PhaseError> {
        Ok(self.refactorize(values, options, quality)?)
    }

    fn refactorize_changed(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        changed: &[u32],
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), PhaseError> {
        Ok(self.refactorize_changed(values, changed, options, quality)?)
    }

    fn refactorized_part(&self) -> f64 {
        self.refactorized_part()
    }

    fn refactorize_seconds(&self) -> f64 {
        self.refactorize_seconds()
    }

    fn solve_seconds(&self) -> f64 {
        self.solve_seconds()
    }

    fn solve_bytes(&self) -> u64 {
        self.solve_bytes()
    }

    fn solve_scratch_bytes(&self, nrhs: usize, threads: usize) -> u64 {
        self.solve_scratch_bytes(nrhs, threads)
    }

    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn sizes(&self) -> (u64, u64) {
        (self.lnz(), self.unz())
    }

    fn code_path(&self) -> Vec<&'static str> {
        self.code_path()
    }

    fn row_perm(&self) -> Option<RowPerm> {
        self.row_perm()
    }

    fn determinant(&self) -> Determinant<F::Wide> {
        let mut product = Determinant::one();
        if self.exchanges_are_odd() {
            product = product.times(-F::Wide::one());
        }
        self.for_each_pivot(|pivot| product = product.times(pivot.widen()));
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
        if transpose {
            self.solve_transpose(x, nrhs, threads, cancel)
        } else {
            self.solve(x, nrhs, threads, cancel)
        }
    }

    fn write(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let BlockParts { columns, fronts } = self.parts();
        for (parts, products, quality) in &fronts {
            write_fronts(sink, parts)?;
            sink.numbers(products)?;
            let mut record = Vec::with_capacity(QUALITY_BYTES);
            put_quality(&mut record, quality);
            sink.bytes(&record)?;
        }
        write_columns(sink, &columns)
    }

    fn as_blocks(&self) -> Option<&BlockLu<F>> {
        Some(self)
    }
}

impl<F: FrontalScalar> LdltParts<F> for FrontalLdlt<F> {
    fn order(&self) -> Vec<usize> {
        self.elimination_order()
    }

    fn d(&self) -> Vec<F> {
        self.d()
    }

    fn perturbed(&self) -> Option<&[u32]> {
        self.perturbed()
    }

    fn product_norm(
        &self,
        weights: &[f64],
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<f64, Cancelled> {
        FrontalLdlt::product_norm(self, weights, threads, cancel)
    }

    fn solve_triangle(
        &self,
        x: &mut [F],
        nrhs: usize,
        transpose: bool,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        if transpose {
            self.solve_upper(x, nrhs, threads, cancel)
        } else {
            self.solve_lower(x, nrhs, threads, cancel)
        }
    }
}
