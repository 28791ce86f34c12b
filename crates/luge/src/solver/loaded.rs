//! Factors that were saved.

use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use luge_ordering::{MethodUsed, OrderingSeconds, Prediction, SymmetricOrdering};
use luge_sparse::{Compression, Form, Index, MatrixRef, PatternRef, Scalar, bytes_of};

use super::{PATTERN_PER_ENTRY, Solver, Stored};
use crate::attempts::Remedy;
use crate::backend::{Backend, Limits};
use crate::codec::{Source, check, damaged};
use crate::error::{Error, SavedError};
use crate::factors::Factors;
use crate::host::{AnyHost, HostPlace};
use crate::host_path::{HostFactors, HostPath, has_zeros_of_a};
use crate::inform::Inform;
use crate::options::{FactorPrecision, MatrixKind, SymmetricKind};
use crate::path::{Path, Plan};
use crate::planner::planner;
use crate::saved::{Purpose, name_of_method};
use crate::saved_factors::{Head, SavedPlan};
use crate::stored::{Rows, pattern_of};
use crate::symmetric;
use crate::symmetry::Symmetry;

/// A matrix whose factors are loaded, and how they are planned.
struct Replanned<W> {
    analysis: Arc<dyn AnyHost<W>>,
    stored: Stored,
    symmetry: Option<Symmetry>,
    /// For each entry by rows its place among those that are stored, if these are columns.
    places: Option<Vec<u64>>,
}

impl Solver {
    /// The factors of a matrix that [`Factors::save`] wrote. They solve at once, and give the bits that they gave before, as do
    /// refactorizations, on machines with the same instruction set. It takes a pass through the file, and the planning that
    /// follows an ordering.
    ///
    /// The matrix may be stored in another way than the one whose factors were saved, by rows or by columns. Options are to be
    /// the same as far as they concern matching, scaling, blocks, the kind of the matrix, the precision of the factors, pivoting, singular
    /// matrices, delays and regularization. Others, such as limits and threads, hold for what follows.
    ///
    /// ```
    /// use luge::{BackendChoice, Options, Solver};
    ///
    /// let a = sprs::CsMat::<f64>::eye(3);
    /// let solver = Solver::new(Options::default().backend(BackendChoice::Cpu))?;
    /// let mut file = Vec::new();
    /// solver.analyze(&a)?.factorize(&a)?.save(&mut file)?;
    ///
    /// let factors = solver.load_factors(&a, &file[..])?;
    /// assert_eq!(factors.solve(&[1.0, 2.0, 3.0])?.x, [1.0, 2.0, 3.0]);
    /// # Ok::<(), luge::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Saved`] if the file is damaged, of another version, or of another pattern, scalar, kind or option, if the
    /// matrix has other values ([`load_factors_of_pattern`](Self::load_factors_of_pattern) does not compare them), or if
    /// [`Options::backend`](field@crate::Options::backend) is a device; [`Error::InvalidMatrix`], [`Error::NotSquare`], [`Error::NotFinite`],
    /// [`Error::NotSymmetric`], [`Error::OutOfMemory`], [`Error::Cancelled`].
    pub fn load_factors<'a, T: Scalar, I: Index>(
        &self,
        a: impl Into<MatrixRef<'a, T, I>>,
        source: impl Read,
    ) -> Result<Factors<T>, Error> {
        let a = a.into();
        a.check()?;
        let factors = self.load_checked(&a.pattern(), source)?;
        match factors.differs_from(&a)? {
            None => Ok(factors),
            Some((row, column)) => Err(SavedError::OtherValues { row, column }.into()),
        }
    }

    /// As [`load_factors`](Self::load_factors), for the values that the matrix had when its factors were saved, which are in
    /// the file. [`Factors::refactorize`] takes other ones, with the pivots that are there.
    ///
    /// # Errors
    ///
    /// As [`load_factors`](Self::load_factors).
    pub fn load_factors_of_pattern<'a, T: Scalar, I: Index>(
        &self,
        pattern: impl Into<PatternRef<'a, I>>,
        source: impl Read,
    ) -> Result<Factors<T>, Error> {
        let pattern = pattern.into();
        pattern.check()?;
        self.load_checked(&pattern, source)
    }

    fn load_checked<T: Scalar, I: Index>(
        &self,
        a: &PatternRef<'_, I>,
        mut source: impl Read,
    ) -> Result<Factors<T>, Error> {
        let start = Instant::now();
        let (n, nnz) = (a.rows(), a.nnz());
        let limits = self.limits_for::<T, I>(a)?;
        if !matches!(self.backend, Backend::Cpu { .. }) {
            return Err(SavedError::OtherOption {
                option: "backend",
                saved: "Cpu".to_owned(),
                given: format!("{:?}", self.options.backend),
            }
            .into());
        }
        let mut source = Source::new(&mut source, &limits);
        // Permutations, scaling, blocks and a forest, as they are read and as they are.
        let _of_head = limits.reserve(96 * n as u64, "ordering")?;
        let head = Head::read(&mut source)?;
        self.check_kind::<T>(head.kind, head.form)?;

        let of_pattern = limits.reserve(8 * (n as u64 + 1) + 4 * nnz as u64, "ordering")?;
        let seconds = nnz as f64 * PATTERN_PER_ENTRY;
        let pattern = self
            .threads
            .run(seconds, |threads| pattern_of(a, threads, &limits.cancel))?;
        let stored = Stored {
            pattern,
            memory: of_pattern,
            by_columns: a.compression() == Compression::Columns,
        };
        let Replanned {
            analysis,
            stored,
            symmetry,
            places,
        } = self.plan_again::<T>(&head, stored, &limits)?;

        let nnz = stored.pattern.nnz();
        let of_pattern_alone = head.purpose.is_of_pattern_alone();
        let mut inform = self.inform_again(&head, n, nnz)?;
        let path = HostPath::of(
            Arc::clone(&analysis),
            head.alternative,
            self.is_single::<T>(),
        );
        path.describe(&mut inform, head.told.lnz, head.told.unz);
        let ordering = Arc::clone(&self.ordering);
        let symmetry = symmetry.map(Arc::new);
        let shared = self.shared::<T>(stored, symmetry, limits.clone(), ordering, of_pattern_alone);
        let plan = Arc::new(Plan {
            shared,
            path: Path::Host(path),
        });

        let memory = Factors::<T>::reserve_values(&plan)?;
        let _of_work = limits.reserve(bytes_of::<T>(nnz) + bytes_of::<T::Wide>(nnz), "numeric")?;
        let by_rows: Vec<T> = source.numbers(nnz)?;
        let values = match places {
            None => by_rows,
            Some(places) => {
                let mut values = vec![T::zero(); nnz];
                for (&place, value) in places.iter().zip(by_rows) {
                    values[place as usize] = value;
                }
                values
            }
        };
        check(plan.shared.are_sound(&values), "values of the matrix")?;
        let measured = (head.policy, head.quality);
        let engine =
            Arc::clone(&analysis).read_factors(&T::in_wide(&values), measured, &mut source)?;
        source.check_seal()?;
        let view = plan.shared.view(&values);
        let host = HostFactors {
            has_zeros_of_a: has_zeros_of_a(view, analysis.as_ref(), &head.quality),
            analysis,
            engine,
            probe: head.probe,
            condition: head.condition,
            bound: head.bound,
        };
        inform.seconds.symbolic = start.elapsed().as_secs_f64();
        Factors::restored(plan, values, host, inform, memory)
    }

    fn is_single<T: Scalar>(&self) -> bool {
        self.options.precision == FactorPrecision::Single
            || size_of::<T::Real>() != size_of::<f64>()
    }

    /// Refuses factors of a matrix that was taken for another kind than the options allow.
    fn check_kind<T: Scalar>(
        &self,
        saved: Option<SymmetricKind>,
        form: Form,
    ) -> Result<(), SavedError> {
        let given = self.options.kind;
        // A real matrix has one form, whatever it is called.
        let is_form = match given {
            MatrixKind::Symmetric => form == Form::Symmetric,
            MatrixKind::Hermitian => form == Form::Hermitian || T::COMPONENTS == 1,
            _ => given == MatrixKind::Auto,
        };
        let fits = match saved {
            None => matches!(given, MatrixKind::General | MatrixKind::Auto),
            Some(SymmetricKind::MaybeDefinite) => given == MatrixKind::Auto,
            Some(SymmetricKind::Definite) => given == MatrixKind::PositiveDefinite,
            Some(SymmetricKind::Indefinite) => is_form,
            Some(SymmetricKind::Signed) => self.options.regularization.is_some(),
        };
        if fits {
            return Ok(());
        }
        Err(SavedError::OtherOption {
            option: "kind",
            // By the option that they were made with.
            saved: match (saved, form) {
                (None, _) => "General",
                (Some(SymmetricKind::Definite), _) => "PositiveDefinite",
                (Some(SymmetricKind::MaybeDefinite), _) => "Auto",
                (Some(_), Form::Symmetric) => "Symmetric",
                (Some(_), Form::Hermitian) => "Hermitian",
            }
            .to_owned(),
            given: format!("{given:?}"),
        })
    }

    /// Plans the factorization as it was planned when the factors were saved, if they are for this matrix and these options.
    fn plan_again<T: Scalar>(
        &self,
        head: &Head,
        mut stored: Stored,
        limits: &Limits,
    ) -> Result<Replanned<T::Wide>, Error> {
        let cancel = &limits.cancel;
        let (n, nnz) = (
            stored.pattern.major_dim() as u64,
            stored.pattern.nnz() as u64,
        );
        let by_columns = stored.by_columns;
        let single = self.is_single::<T>();
        let check_purpose = |rows: &_, kind| {
            let of_pattern_alone = head.purpose.is_of_pattern_alone();
            let purpose = Purpose::new(rows, kind, &self.ordering, T::NAME, of_pattern_alone);
            head.check(&purpose, &self.options, single)
        };
        let memory = limits.reserve(40 * n, "ordering")?;
        match &head.plan {
            SavedPlan::General(split) => {
                let _of_rows = limits.reserve(Rows::bytes(n, nnz, by_columns), "ordering")?;
                let rows = Rows::new(&stored.pattern, by_columns, cancel)?;
                check_purpose(&rows.pattern, None)?;
                let place = HostPlace {
                    engine: self.options.engine,
                    threads: &self.threads,
                    limits,
                    rows: &rows,
                    single,
                };
                let transform = head.transform.clone();
                let planned = planner::<T::Wide>();
                let analysis = planned.blocks_again(place, transform, split, memory)?;
                let places = rows.entries;
                Ok(Replanned {
                    analysis,
                    stored,
                    symmetry: None,
                    places,
                })
            }
            SavedPlan::Symmetric(forest) => {
                let kind = match head.form {
                    Form::Symmetric => MatrixKind::Symmetric,
                    Form::Hermitian => MatrixKind::Hermitian,
                };
                let bytes = Symmetry::search_bytes(kind, n, nnz);
                let of_search = limits.reserve(bytes, "ordering")?;
                let pattern = &stored.pattern;
                let found = self
                    .threads
                    .run(nnz as f64 * PATTERN_PER_ENTRY, |threads| {
                        Symmetry::find::<T::Wide>(
                            kind,
                            pattern,
                            by_columns,
                            None,
                            threads,
                            &limits.of_phase(),
                        )
                    })?;
                let (mut symmetry, whole) =
                    found.unwrap_or_else(|| unreachable!("a matrix that is declared symmetric"));
                symmetry.kind = head.kind.unwrap_or(symmetry.kind);
                stored.pattern = whole.unwrap_or(stored.pattern);
                // As the shared matrix has them.
                let turns = by_columns && symmetry.triangle().is_none();
                let rows = Rows::new(&stored.pattern, turns, cancel)?;
                check_purpose(&rows.pattern, Some(symmetry.kind))?;
                let places = rows.entries;
                let held = 8 * (n + 1) + 4 * stored.pattern.nnz() as u64 + symmetry.bytes();
                let more = held.saturating_sub(stored.memory.bytes());
                let grown = stored.memory.grow(more);
                grown.map_err(|error| Error::from_budget(error, "ordering"))?;
                drop(of_search);
                let request = symmetric::Request {
                    options: &self.options,
                    threads: &self.threads,
                    limits,
                    symmetry: &symmetry,
                    pattern: &stored.pattern,
                    by_columns,
                    remedy: Remedy::AsAsked,
                    single,
                    on_device: false,
                };
                let ordering = SymmetricOrdering {
                    perm: head.transform.col_perm.clone(),
                    scaling: (*head.transform.scaling).clone(),
                    forest: forest.clone(),
                    pairs: 0,
                    pair_starts: Vec::new(),
                    structural_rank: None,
                    log10_matching_product: None,
                    matching_used: head.told.matched,
                    method_used: MethodUsed::User,
                    predicted: Prediction::default(),
                    seconds: OrderingSeconds::default(),
                };
                if !request.fits(&ordering)? {
                    return Err(damaged("elimination forest").into());
                }
                let planned = planner::<T::Wide>().symmetric(&request, (ordering, memory))?;
                Ok(Replanned {
                    analysis: planned.analysis,
                    stored,
                    symmetry: Some(symmetry),
                    places,
                })
            }
        }
    }

    /// What the analysis told of itself, as far as it is known.
    fn inform_again(&self, head: &Head, n: usize, nnz: usize) -> Result<Inform, Error> {
        let told = &head.told;
        let kind = match head.kind {
            None => MatrixKind::General,
            Some(SymmetricKind::Definite) => MatrixKind::PositiveDefinite,
            Some(_) if head.form == Form::Hermitian => MatrixKind::Hermitian,
            Some(_) => MatrixKind::Symmetric,
        };
        Ok(Inform {
            ordering: name_of_method(&told.ordering).ok_or(damaged("name of the ordering"))?,
            matched: told.matched,
            num_blocks: told.num_blocks,
            flops: told.flops,
            kind: kind.name(),
            ..self.inform_on(&Backend::Cpu { no_gpu: None }, n, nnz)
        })
    }
}
