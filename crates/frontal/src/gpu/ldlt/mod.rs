//! Factors L·D·Lᵀ of one symmetric matrix.

mod habit;
mod launch;
mod search;
mod signs;

use std::sync::Arc;

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::frontal::plan::report as words;
use luge_sparse::num_traits::Float;
use luge_sparse::{Inertia, PivotKind, PivotPolicy, RealScalar, ResolvedSymmetric, Scalar};

use self::habit::Habit;
use self::launch::{LdltKernels, Mode};
pub use self::signs::ExpectedPivots;
use self::signs::Signs;
use super::delays::{UploadTree, in_order};
use super::launch::{Factorization, Report, Results, Rule, Workspace};
use super::scalar::{RealOf, WideOf};
use super::streamed::StoredPanels;
use super::tree::DeviceTree;
use super::{DeviceFrontalError, DeviceScalar};
use crate::ldlt::MAX_COMPLEX_THRESHOLD;
use crate::storage::Lower;

/// A search is so many times as strict as is asked for, so that its pivots serve values that differ a little, too.
const STRICTER: f64 = 1.25;

/// Where nothing is known, a search keeps the diagonal for entries of L up to this: where it would not look for a pivot of
/// order 2 either (the kernels' α).
const FIRST_L: f64 = 1.0 / 0.64;

/// Where something is known, and a search does not see the tiles below, it keeps pivots for entries of L up to this. Those
/// below would be too large too often otherwise, and columns delayed for want of a search.
const KNOWN_L: f64 = 8.0;

/// The largest threshold with which a nonsingular front without rows below has always a pivot.
fn largest_threshold<T: DeviceScalar>() -> f64 {
    if <T as Scalar>::COMPONENTS == 1 {
        0.5
    } else {
        MAX_COMPLEX_THRESHOLD
    }
}

/// Searches with ever larger thresholds, until pivots serve in the order of sums of a factorization too.
const SEARCHES: u32 = 3;

/// What a factorization of a symmetric matrix measured. Columns are those of A.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceSymmetricQuality {
    /// Eigenvalues of D by their signs: by Sylvester's law those of B. Zero are the accepted zero pivots.
    pub inertia: Inertia,
    /// Pivots of order 2: those with an entry beside the diagonal of D.
    pub num_two: usize,
    /// Pivots that were replaced because they had not the [expected sign](PivotKind::Signed).
    pub num_perturbed: usize,
    /// The first column whose pivot was.
    pub first_perturbed: Option<usize>,
    /// Columns accepted as zero pivots.
    pub num_zero: usize,
    /// The first of them in the order of elimination.
    pub first_zero: Option<usize>,
    /// Columns delayed to a parent, counted once for every front they were put off.
    pub num_delayed: usize,
    /// Smallest magnitude of an eigenvalue of D, but for the zero pivots; infinite if there is none.
    pub min_pivot: f64,
    /// Largest magnitude of an eigenvalue of D.
    pub max_pivot: f64,
    /// Largest magnitude in the diagonal blocks of B.
    pub max_b: f64,
    /// Largest magnitude in D and in L·D.
    pub max_u: f64,
    /// Largest magnitude in L below its unit diagonal: at most 1/u, but for rounding, except in a definite matrix.
    pub max_l: f64,
}

/// Of nothing.
impl Default for DeviceSymmetricQuality {
    fn default() -> Self {
        Self {
            inertia: Inertia::default(),
            num_two: 0,
            num_perturbed: 0,
            first_perturbed: None,
            num_zero: 0,
            first_zero: None,
            num_delayed: 0,
            min_pivot: f64::INFINITY,
            max_pivot: 0.0,
            max_b: 0.0,
            max_u: 0.0,
            max_l: 0.0,
        }
    }
}

/// Factors P·B·Pᵀ = L·D·Lᵀ of one symmetric matrix on the device.
///
/// The pattern of the tree is that of one triangle: each unordered pair {i, j} of a row and a column is stored once. Rows
/// and columns of B have the same permutation and scaling.
///
/// A factorization searches pivots: by threshold partial pivoting within fronts, and in those of several tiles within a tile,
/// with all rows, and with a threshold a quarter stricter than the bound that L has to keep. Columns without an acceptable
/// pivot are moved to a later place in their front or to the parent, the tree is planned anew, and the search goes on,
/// until nothing fails. It begins in each front with the pivots that are known, those on the diagonal at first, and keeps them
/// as long as they serve; where it keeps them all, its factors are taken, else a launch with what it found follows, so that
/// factors are always computed in the same way. A refactorization has the pivots and the tree of the last search, and is
/// one launch; the entries of L tell whether these serve.
/// [`SymmetricPivoting`](luge_sparse::SymmetricPivoting) makes no difference. Where signs are
/// [expected](Self::factorize_signed), nothing is searched and nothing moves.
#[derive(Debug)]
pub struct DeviceFrontalLdlt<T: DeviceScalar> {
    pub(super) tree: Arc<DeviceTree<Lower>>,
    pub(super) workspace: Arc<Workspace<T>>,
    pub(super) panels: Panels<T>,
    /// Where rows and columns of pivots go within their front, on the host.
    places: Vec<u32>,
    /// Largest magnitude in B, by which small pivots are told.
    scale: f64,
    /// By what the last launch compared.
    rule: Option<ResolvedSymmetric<RealOf<T>>>,
    num_delayed: usize,
    quality: DeviceSymmetricQuality,
    /// Whether pivots come from a search.
    is_known: bool,
    habit: Habit,
    /// Where signs of pivots are expected.
    signs: Option<Signs<T>>,
}

/// What the kernels write.
#[derive(Debug)]
pub(super) struct Panels<T: DeviceScalar> {
    /// Where `factors` are those of one link of the tree at a time. Before these, for it waits for copies when it is dropped.
    pub stored: Option<StoredPanels<T>>,
    pub factors: Buffer<T>,
    /// The kind of each pivot.
    pub kinds: Buffer<u32>,
    /// Where rows and columns of pivots go within their front.
    pub row_places: Buffer<u32>,
    /// The inverse of that, which solves need.
    pub order: Buffer<u32>,
    /// D: two values for each pivot.
    pub diagonal: Buffer<T>,
    /// Where a search puts rows and columns, of which `row_places` says where they were.
    found_places: Buffer<u32>,
}

impl<T: DeviceScalar> Panels<T> {
    /// For a tree; pivots are of order 1, in the order of the tree.
    fn new(stream: &Stream, tree: &DeviceTree<Lower>) -> Result<Self, DeviceError> {
        let symbolic = &tree.symbolic;
        let n = symbolic.n();
        let row_places = stream.upload(&in_order(symbolic))?;
        let mut order = stream.alloc(n)?;
        stream.copy(&mut order, &row_places)?;
        Ok(Self {
            // Nobody writes the tiles above the diagonal.
            factors: stream.alloc_zeroed(tree.panel_entries())?,
            stored: tree.stored_panels(stream)?,
            kinds: stream.alloc_zeroed(n)?,
            row_places,
            order,
            diagonal: stream.alloc(2 * n)?,
            found_places: stream.alloc(n)?,
        })
    }
}

/// Whether signs of pivots are expected.
fn is_signed(pivots: &PivotPolicy) -> bool {
    matches!(pivots.kind, PivotKind::Signed { .. })
}

/// Whether known pivots serve the values that were factorized with them.
enum Fit {
    Good(DeviceSymmetricQuality),
    /// An entry of L is too large, or a value is not finite.
    Poor {
        quality: DeviceSymmetricQuality,
        /// The first column with such a value.
        not_finite: Option<usize>,
    },
}

impl<T: DeviceScalar> DeviceFrontalLdlt<T> {
    /// Factorizes B for the values `a` of A. `upload` is asked for trees in which columns have moved.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::ZeroPivot`] with a column in which nothing but zeros is left, unless zero pivots are
    /// [accepted](luge_sparse::SmallPivots::Accept); [`DeviceFrontalError::NotPositiveDefinite`];
    /// [`DeviceFrontalError::NotFinite`]; [`DeviceFrontalError::NoPivots`] if the search for pivots does not end;
    /// [`DeviceFrontalError::IndexOverflow`] if a front gets too large; [`DeviceFrontalError::Device`], also from `upload`.
    ///
    /// # Panics
    ///
    /// If `a` has fewer values than the placement of the tree refers to,
    /// [`PivotPolicy::resolve_symmetric`] refuses the policy, or it [limits](luge_sparse::SmallPivots::Limited) delays.
    #[track_caller]
    pub fn factorize(
        stream: &Stream,
        tree: &Arc<DeviceTree<Lower>>,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        upload: &UploadTree<'_, Lower>,
    ) -> Result<(Self, DeviceSymmetricQuality), DeviceFrontalError> {
        let workspace = Arc::new(Workspace::new(stream, tree)?);
        Self::factorize_in(&workspace, stream, tree, a, pivots, upload)
    }

    /// As [`factorize`](Self::factorize), in memory that was made for the same tree on the same stream. Once columns have
    /// moved, the factors have memory of their own.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize).
    ///
    /// # Panics
    ///
    /// As [`factorize`](Self::factorize).
    #[track_caller]
    pub fn factorize_in(
        workspace: &Arc<Workspace<T>>,
        stream: &Stream,
        tree: &Arc<DeviceTree<Lower>>,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        upload: &UploadTree<'_, Lower>,
    ) -> Result<(Self, DeviceSymmetricQuality), DeviceFrontalError> {
        let mut factors = Self::unfactorized(stream, tree, workspace)?;
        let quality = factors.factorize_anew(stream, a, pivots, upload)?;
        Ok((factors, quality))
    }

    /// Factorizes B for other values of A beside these factors, on their tree: columns that have moved stay where they are, and
    /// the search begins with the pivots that are known. Both have one memory to work in.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize).
    ///
    /// # Panics
    ///
    /// As [`factorize`](Self::factorize).
    #[track_caller]
    pub fn factorize_beside(
        &self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        upload: &UploadTree<'_, Lower>,
    ) -> Result<(Self, DeviceSymmetricQuality), DeviceFrontalError> {
        let mut factors = Self::unfactorized(stream, &self.tree, &self.workspace)?;
        if let Some(signs) = &self.signs {
            factors.signs = Some(signs.beside(stream)?);
        }
        factors.num_delayed = self.num_delayed;
        factors.scale = self.scale;
        if self.is_known {
            let (to, from) = (&mut factors.panels, &self.panels);
            stream.copy(&mut to.kinds, &from.kinds)?;
            stream.copy(&mut to.row_places, &from.row_places)?;
            stream.copy(&mut to.order, &from.order)?;
            factors.places.clone_from(&self.places);
            factors.is_known = true;
            factors.habit = self.habit;
        }
        let quality = factors.factorize_anew(stream, a, pivots, upload)?;
        Ok((factors, quality))
    }

    /// The memory of factors on a tree.
    fn unfactorized(
        stream: &Stream,
        tree: &Arc<DeviceTree<Lower>>,
        workspace: &Arc<Workspace<T>>,
    ) -> Result<Self, DeviceFrontalError> {
        let symbolic = tree.symbolic();
        Ok(Self {
            panels: Panels::new(stream, tree)?,
            places: in_order(symbolic),
            scale: 1.0,
            rule: None,
            num_delayed: 0,
            quality: DeviceSymmetricQuality::default(),
            is_known: false,
            habit: Habit::default(),
            signs: None,
            workspace: Arc::clone(workspace),
            tree: Arc::clone(tree),
        })
    }

    /// Factorizes B for other values of A in place, with the pivots found before. Where these do not serve, pivots are
    /// searched again, and if columns fail, on a tree in which they have moved. After an error the factors are those of no
    /// matrix.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize).
    ///
    /// # Panics
    ///
    /// As [`factorize`](Self::factorize).
    #[track_caller]
    pub fn refactorize(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        upload: &UploadTree<'_, Lower>,
    ) -> Result<DeviceSymmetricQuality, DeviceFrontalError> {
        if !self.needs_search()
            && let Fit::Good(quality) = self.with_known_pivots(stream, a, pivots)?
        {
            self.habit = Habit::default();
            return Ok(quality);
        }
        self.factorize_anew(stream, a, pivots, upload)
    }

    /// Whether known pivots are not worth a launch of their own, since lately they did not serve.
    pub fn needs_search(&self) -> bool {
        self.habit.searches > 0
    }

    /// Enqueues a factorization with the pivots found before, and does not wait for it. Work enqueued afterwards uses the new
    /// factors, whatever their [`report`](Self::report) will say of them.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// As [`factorize`](Self::factorize).
    #[track_caller]
    pub fn begin_refactorize(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<(), DeviceFrontalError> {
        let rule = pivots.resolve_symmetric(|| self.scale);
        if rule.method.is_none() {
            self.keep_order(stream)?;
        }
        let mode = match pivots.kind {
            PivotKind::Signed { .. } => Mode::Signed,
            PivotKind::Definite => Mode::Definite,
            _ => Mode::Known,
        };
        self.launch(stream, a, rule, mode)
    }

    /// Waits for the factorization that was begun last, and tells what became of it. `None` if the pivots do not serve its
    /// values, or if small ones were told by a magnitude of B far from its own: then the values have to be
    /// [factorized](Self::refactorize) again.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::ZeroPivot`], [`DeviceFrontalError::NotPositiveDefinite`],
    /// [`DeviceFrontalError::NotFinite`] of a definite matrix; [`DeviceFrontalError::Device`].
    pub fn report(
        &mut self,
        stream: &Stream,
    ) -> Result<Option<DeviceSymmetricQuality>, DeviceFrontalError> {
        Ok(match self.fit(stream)? {
            Some(Fit::Good(quality)) => {
                self.habit = Habit::default();
                Some(quality)
            }
            Some(Fit::Poor { .. }) | None => None,
        })
    }

    /// What small pivots are compared with: max|B| of the last factorization, or of one before it whose entries were of that
    /// size.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Brings back a [scale](Self::scale), so that a factorization of the values of then has the bits of then.
    pub fn set_scale(&mut self, scale: f64) {
        self.scale = scale;
    }

    /// The tree of the factors: that of the last search, in which columns may have moved.
    pub fn tree(&self) -> &Arc<DeviceTree<Lower>> {
        &self.tree
    }

    /// What the last factorization measured of itself.
    pub fn quality(&self) -> &DeviceSymmetricQuality {
        &self.quality
    }

    /// Eigenvalues of D by their signs: by Sylvester's law those of the matrix.
    pub fn inertia(&self) -> Inertia {
        self.quality.inertia
    }

    /// Number of pivots of order 2.
    pub fn num_two(&self) -> usize {
        self.quality.num_two
    }

    /// Number of columns that were accepted as zero pivots.
    pub fn num_zero(&self) -> usize {
        self.quality.num_zero
    }

    /// Number of columns that are eliminated in a later front than first planned, counted once for every front they were put
    /// off.
    pub fn num_delayed(&self) -> usize {
        self.num_delayed
    }

    /// Rank of D as the factorization found it: columns that were not accepted as zero pivots.
    pub fn rank(&self) -> usize {
        self.tree.symbolic.n() - self.quality.num_zero
    }

    /// The panels of all fronts, of a tree in links those of one link, one after the other: of front s with k pivots and c rows
    /// below, (k + c) × k values by
    /// columns, of [`Lower`].
    pub fn factors(&self) -> &Buffer<T> {
        &self.panels.factors
    }

    /// For each pivot of the [tree](Self::tree) where in its front its row and column are.
    pub fn row_places(&self) -> &Buffer<u32> {
        &self.panels.row_places
    }

    /// D: for each pivot, in the order in which they are in the panels, its entry on the diagonal, and the one that couples
    /// it with the next, zero but for the first of a pivot of order 2.
    pub fn diagonal(&self) -> &Buffer<T> {
        &self.panels.diagonal
    }

    /// Columns of A in the order of elimination, that of the pivots in [`diagonal`](Self::diagonal).
    pub fn elimination_order(&self) -> Vec<usize> {
        let mut order = vec![0; self.places.len()];
        for front in self.tree.symbolic.tree().fronts() {
            for e in front.pivot_range() {
                let place = front.start + self.places[e];
                order[place as usize] = self.tree.columns[e] as usize;
            }
        }
        order
    }

    /// Searches pivots and factorizes.
    #[track_caller]
    fn factorize_anew(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        upload: &UploadTree<'_, Lower>,
    ) -> Result<DeviceSymmetricQuality, DeviceFrontalError> {
        let rule = pivots.resolve_symmetric::<RealOf<T>>(|| self.scale);
        let was_known = self.is_known;
        let mut searches = 0;
        loop {
            let mut fit = None;
            if rule.method.is_some() {
                let times = STRICTER * f64::from(1 << searches);
                let searched = match self.search(stream, a, pivots, times, upload) {
                    Ok(searched) => searched,
                    Err(error) => {
                        // A launch with what was found would have rows in other places than solves look for them.
                        self.forget_pivots(stream)?;
                        return Err(error);
                    }
                };
                if searched.has_factors {
                    self.rule = Some(pivots.resolve_symmetric(|| self.scale));
                    fit = self.fit(stream)?;
                }
                if was_known && searches == 0 {
                    self.habit = self.habit.after_search(searched.has_changed);
                }
            }
            searches += 1;
            let fit = match fit {
                Some(fit) => fit,
                None => self.with_known_pivots(stream, a, pivots)?,
            };
            let (quality, not_finite) = match fit {
                Fit::Good(quality) => return Ok(quality),
                Fit::Poor {
                    quality,
                    not_finite,
                } => (quality, not_finite),
            };
            if let Some(column) = not_finite {
                return Err(DeviceFrontalError::NotFinite { column });
            }
            if searches < SEARCHES {
                continue;
            }
            // Columns that are little but rounding have other pivots with every order of sums. On the CPU there is one
            // order, and what comes is taken.
            return match quality.first_zero {
                Some(column) if !rule.accept => Err(DeviceFrontalError::ZeroPivot { column }),
                _ if quality.max_l.is_finite() => Ok(quality),
                column => Err(DeviceFrontalError::NoPivots { column }),
            };
        }
    }

    /// Factorizes with the pivots that are known, small ones told by the magnitude of B.
    #[track_caller]
    fn with_known_pivots(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<Fit, DeviceFrontalError> {
        loop {
            self.begin_refactorize(stream, a, pivots)?;
            if let Some(fit) = self.fit(stream)? {
                return Ok(fit);
            }
        }
    }

    /// Waits for the factorization that was begun last; `None` if small pivots were told by another magnitude of B.
    fn fit(&mut self, stream: &Stream) -> Result<Option<Fit>, DeviceFrontalError> {
        let (Some(rule), false) = (self.rule, self.tree.is_empty()) else {
            return Ok(Some(Fit::Good(DeviceSymmetricQuality::default())));
        };
        let report = self.workspace.report()?;
        if rule.small > RealScalar::from_f64(0.0)
            && let Some(max_b) = report.other_scale(self.scale)
        {
            self.scale = max_b;
            return Ok(None);
        }
        self.note_replaced(stream, &report)?;
        let not_finite = report.first(words::FIRST_NOT_FINITE);
        if rule.method.is_none() {
            // What is not a number is not positive either.
            let negative = report.first(words::FIRST_NEGATIVE);
            let negative = negative.filter(|&pivot| not_finite.is_none_or(|other| pivot < other));
            if let Some(pivot) = negative {
                let column = self.column(&self.places, pivot);
                let at = 2 * pivot as usize;
                let value = stream.download(&self.panels.diagonal.slice(at..at + 1))?;
                let value = RealScalar::to_f64(Scalar::real(value[0]));
                return Err(DeviceFrontalError::NotPositiveDefinite { column, value });
            }
        }
        let not_finite = not_finite.map(|pivot| self.column(&self.places, pivot));
        let quality = self.measured(&report);
        let most = (1.0 + RealScalar::to_f64(<RealOf<T> as Float>::epsilon()).sqrt())
            / RealScalar::to_f64(rule.threshold);
        let is_bounded = quality.max_l.is_finite() && quality.max_l <= most;
        if not_finite.is_some() || !is_bounded && rule.method.is_some() {
            return Ok(Some(Fit::Poor {
                quality,
                not_finite,
            }));
        }
        if let Some(column) = quality.first_zero
            && !rule.accept
        {
            return Err(DeviceFrontalError::ZeroPivot { column });
        }
        self.quality = quality;
        Ok(Some(Fit::Good(quality)))
    }

    /// What the report on a factorization says.
    fn measured(&self, report: &Report) -> DeviceSymmetricQuality {
        let negative = report.count(words::NUM_NEGATIVE);
        let zero = report.count(words::NUM_ZERO);
        let first_zero = report.first(words::FIRST_ZERO);
        DeviceSymmetricQuality {
            inertia: Inertia {
                positive: self.tree.symbolic.n() - negative - zero,
                negative,
                zero,
            },
            num_two: report.count(words::NUM_TWO),
            num_perturbed: report.count(words::NUM_PERTURBED),
            first_perturbed: self
                .perturbed()
                .and_then(|columns| columns.first().copied()),
            num_zero: zero,
            first_zero: first_zero.map(|pivot| self.column(&self.places, pivot)),
            num_delayed: self.num_delayed,
            min_pivot: report.least(words::MIN_PIVOT),
            max_pivot: report.extreme(words::MAX_PIVOT),
            max_b: report.extreme(words::MAX_B),
            max_u: report.extreme(words::MAX_U),
            max_l: report.extreme(words::MAX_L),
        }
    }

    /// Makes all pivots of order 1, in the order of the tree.
    fn keep_order(&mut self, stream: &Stream) -> Result<(), DeviceFrontalError> {
        if self.rule.is_some_and(|rule| rule.method.is_some()) {
            self.forget_pivots(stream)?;
        }
        Ok(())
    }

    fn forget_pivots(&mut self, stream: &Stream) -> Result<(), DeviceFrontalError> {
        let places = in_order(&self.tree.symbolic);
        self.is_known = false;
        // Both or none.
        let uploaded = [stream.upload(&places)?, stream.upload(&places)?];
        stream.fill_zero(&mut self.panels.kinds)?;
        [self.panels.row_places, self.panels.order] = uploaded;
        self.places = places;
        Ok(())
    }

    /// The column of A of the pivot in this place of the order of elimination, for these places of columns in their fronts.
    fn column(&self, places: &[u32], pivot: u32) -> usize {
        let fronts = self.tree.symbolic.tree().fronts();
        let at = fronts.partition_point(|front| front.start <= pivot) - 1;
        let start = fronts[at].start;
        let mut own = fronts[at].pivot_range();
        let planned = own.find(|&e| start + places[e] == pivot);
        self.tree.columns[planned.unwrap_or(pivot as usize)] as usize
    }

    /// Takes memory for the factors where a search that had none for another tree has left none.
    pub(in crate::gpu) fn take_memory(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        let len = self.tree.panel_entries();
        if self.panels.factors.len() != len {
            self.panels.factors = stream.alloc_zeroed(len)?;
        }
        Ok(())
    }

    /// Enqueues a search or a factorization.
    #[track_caller]
    fn launch(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        rule: ResolvedSymmetric<RealOf<T>>,
        mode: Mode,
    ) -> Result<(), DeviceFrontalError> {
        assert!(
            mode != Mode::Signed || self.signs.is_some(),
            "what is expected of each pivot"
        );
        assert!(rule.limit.is_none(), "delays are limited on the CPU alone");
        self.take_memory(stream)?;
        self.rule = Some(rule);
        let max_l = 1.0 / RealScalar::to_f64(rule.threshold);
        let known_l = if self.is_known {
            [max_l, max_l.min(KNOWN_L)]
        } else {
            [FIRST_L; 2]
        };
        let Panels {
            factors,
            stored,
            kinds,
            row_places,
            diagonal,
            found_places,
            ..
        } = &mut self.panels;
        let factorization = Factorization {
            tree: &*self.tree,
            values: a,
            rule: Rule {
                threshold: rule.threshold,
                smallest: rule.small,
                max_l: RealScalar::from_f64(max_l),
            },
            results: Results {
                factors,
                pivot_rows: kinds,
                row_places,
                stored_panels: stored.as_mut(),
            },
        };
        let mut kernels = LdltKernels {
            mode,
            form: self.tree.form,
            known_l: known_l.map(RealScalar::from_f64),
            diagonal,
            found_places,
            signs: self.signs.as_mut(),
        };
        factorization.enqueue(stream, &self.workspace, &mut kernels)?;
        if mode == Mode::Search {
            // The kinds of pivots are those in their new places.
            std::mem::swap(&mut self.panels.row_places, &mut self.panels.found_places);
        }
        Ok(())
    }
}
