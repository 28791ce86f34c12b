//! Factors of one kind and type on a device, as the tree engine works with them.

mod symmetric;

use std::sync::Arc;

use luge_device::{Buffer, BufferViewMut, DeviceError, Stream};
use luge_frontal::gpu::{
    Changed, DeviceCheck, DeviceFrontalError, DeviceFrontalLu, DeviceQuality, DeviceScalar,
    DeviceTree, ExpectedPivots, MovedTree, Room, WideOf, Workspace,
};
use luge_frontal::{Full, Storage};
use luge_solve::gpu::RefineScalar;
use luge_sparse::num_traits::Float;
use luge_sparse::{CancelFlag, PivotPolicy, RealScalar, Scalar};

use crate::backend::Limits;
use crate::determinant::Determinant;
use crate::device_forest::{Forest, Searched};
use crate::engine::Pivots;
use crate::error::Error;
use crate::host_plan::SymmetricReport;
use crate::threads::Threads;

/// The diagonal is taken as a pivot if it reaches this fraction of the largest candidate of its front. Exchanges within
/// a front cost no fill.
const FRONT_THRESHOLD: f64 = 0.1;

/// What a factorization measured. Columns are those of A.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TreeQuality {
    pub num_perturbed: usize,
    pub first_perturbed: Option<usize>,
    /// Largest magnitudes in B, and in the factors: in U, or in L·D, and in L.
    pub max_b: f64,
    pub max_u: f64,
    pub max_l: f64,
    /// Of a symmetric matrix.
    pub symmetric: Option<SymmetricReport>,
    /// The smallest and the largest magnitude of an eigenvalue of D, without the zero pivots that were accepted.
    pub pivot_range: Option<[f64; 2]>,
    pub num_delayed: Option<usize>,
    /// Pivots that threshold pivoting took off the diagonal.
    pub num_off_diagonal: Option<usize>,
    /// If the factors were checked.
    pub check: Option<DeviceCheck>,
    /// The largest magnitude of a value, and the largest difference of two across the diagonal, if they were compared.
    pub across: Option<[f64; 2]>,
}

impl TreeQuality {
    /// The growth, estimated by the largest magnitudes where no check measured it; see [`Inform::growth`](crate::Inform::growth).
    pub(crate) fn growth(&self) -> f64 {
        match self.measured() {
            Some(check) => check.quality.growth,
            None if self.max_b == 0.0 => 0.0,
            None => self.product() / self.max_b,
        }
    }

    /// The largest entry of |L|·|U| but for the number of its terms, or, of factors that were checked, more than that of
    /// Dr⁻¹·|L|·|U|·Dc⁻¹ times min Dr · min Dc.
    pub(crate) fn product(&self) -> f64 {
        match self.measured() {
            Some(check) => check.max_product,
            None => self.max_u * self.max_l.max(1.0),
        }
    }

    /// Takes in what a check measured.
    pub(crate) fn add(&mut self, mut check: DeviceCheck) {
        check.quality.num_perturbed = self.num_perturbed;
        self.check = Some(check);
    }

    /// What a check measured, if its sums were not too large for it.
    fn measured(&self) -> Option<DeviceCheck> {
        self.check.filter(|check| check.quality.growth.is_finite())
    }
}

/// What became of a factorization.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and it is moved twice"
)]
pub(crate) enum Outcome {
    Done(TreeQuality),
    /// The magnitude of B is another than that by which small pivots were told: it has to be begun again.
    OtherScale,
    /// The pivots do not serve these values, and others have to be searched.
    OtherPivots,
}

/// Where factors are made.
pub(crate) struct Place<'a, L: TreeFactors> {
    pub forest: &'a Forest<L::Storage>,
    /// What there is room for, if trees are in links.
    pub room: Option<&'a Room>,
    pub tree: &'a Arc<DeviceTree<L::Storage>>,
    /// What is expected of pivots, if signs are.
    pub expected: Option<&'a Arc<ExpectedPivots<L::Value>>>,
    pub space: &'a Arc<Workspace<L::Value>>,
    pub stream: &'a Stream,
    pub threads: &'a Threads,
    /// Looked at before each tree in which columns have moved.
    pub cancel: &'a CancelFlag,
}

impl<L: TreeFactors> Place<'_, L> {
    /// Copies to the device what checks of factors on a tree read, unless it is there.
    fn prepare_checks(&self, tree: &DeviceTree<L::Storage>) -> Result<(), Error> {
        if tree.is_ready_to_check() {
            return Ok(());
        }
        let &Self { forest, stream, .. } = self;
        let prepared = self.threads.run(forest.plan_seconds(), |count| {
            forest.placed(|placement| tree.prepare_checks(stream, placement, count))
        });
        prepared.map_err(|e| Error::from_device(e, "numeric"))
    }
}

/// Factors of one matrix. All work on them is enqueued on the stream of their place, in order.
pub(crate) trait TreeFactors: Send + Sync + Sized + 'static {
    type Value: DeviceScalar<Value = Self::Wide>;
    /// The type of values of A, of right-hand sides and solutions.
    type Wide: RefineScalar;
    type Storage: Storage;

    /// Whether a factorization by a threshold searches pivots beyond their fronts, as those of symmetric matrices always do.
    const SEARCHES: bool;

    /// Factorizes the matrix with these values of A, with pivots that are searched.
    fn factorize(
        place: Place<'_, Self>,
        values: &Buffer<Self::Wide>,
        pivots: &PivotPolicy,
    ) -> Result<(Self, TreeQuality), Error>;

    /// Factorizes the matrix with other values beside these factors, with pivots that are searched.
    fn factorize_beside(
        &self,
        place: Place<'_, Self>,
        values: &Buffer<Self::Wide>,
        pivots: &PivotPolicy,
    ) -> Result<(Self, TreeQuality), Error> {
        Self::factorize(place, values, pivots)
    }

    /// Whether other values are better factorized [beside](Self::factorize_beside) these factors from the start, since their pivots
    /// did not serve others lately.
    fn needs_search(&self) -> bool {
        false
    }

    /// Enqueues a factorization of other values with the pivots that are there; work that is enqueued after it uses the new
    /// factors.
    fn begin_refactorize(
        &mut self,
        stream: &Stream,
        values: &Buffer<Self::Wide>,
        pivots: &PivotPolicy,
    ) -> Result<(), Error>;

    /// Whether these factors can be checked.
    fn has_checks(&self) -> bool {
        false
    }

    /// Enqueues what a check of new factors does before the factorization.
    fn prepare_check(
        &mut self,
        _place: &Place<'_, Self>,
        _values: &Buffer<Self::Wide>,
    ) -> Result<(), Error> {
        unreachable!("factors with checks")
    }

    /// Enqueues the check behind the factorization.
    fn begin_check(&mut self, _stream: &Stream, _values: &Buffer<Self::Wide>) -> Result<(), Error> {
        unreachable!("factors with checks")
    }

    /// Waits for the check that was begun last.
    fn check(&self) -> Result<DeviceCheck, Error> {
        unreachable!("factors with checks")
    }

    /// As [`begin_refactorize`](Self::begin_refactorize), where only the values at these places, ascending, are others than those of the
    /// factors that are there, if any are. What it leaves is the same.
    fn begin_refactorize_changed(
        &mut self,
        place: Place<'_, Self>,
        values: &Buffer<Self::Wide>,
        pivots: &PivotPolicy,
        _changed: &[u32],
    ) -> Result<(), Error> {
        self.begin_refactorize(place.stream, values, pivots)
    }

    /// The part of the work that the last factorization did.
    fn refactorized_part(&self) -> f64 {
        1.0
    }

    /// Waits for it; the policy is that with which it was begun.
    fn report(&mut self, stream: &Stream, pivots: &PivotPolicy) -> Result<Outcome, Error>;

    /// What pivots are compared with: the magnitude of B.
    fn scale(&self) -> f64;

    /// Brings back a scale, so that a factorization of the values of then has the bits of then.
    fn set_scale(&mut self, scale: f64);

    /// Enqueues a solve of A·X = R, or Aᵀ·X = R, in place.
    fn solve(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<Self::Wide>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<(), Error>;

    /// Likewise for one right-hand side with the scaled matrix, its rows and columns in the order of A.
    fn solve_scaled(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<Self::Wide>,
        transpose: bool,
    ) -> Result<(), Error>;

    /// The determinant of B.
    fn determinant(&self, stream: &Stream) -> Result<Determinant<Self::Wide>, Error>;

    /// Columns of A whose pivots were replaced, ascending, if they are known.
    fn perturbed(&self) -> Option<Vec<usize>> {
        None
    }

    /// The order of elimination, as columns of A, and D, of a symmetric matrix.
    fn pivots(&self, _stream: &Stream) -> Result<Option<Pivots<Self::Wide>>, Error> {
        Ok(None)
    }

    /// Enqueues a solve with L of a symmetric matrix, or its transpose, as
    /// [`Engine::solve_triangle`](crate::engine::Engine::solve_triangle) says.
    fn solve_triangle(
        &mut self,
        _stream: &Stream,
        _x: &mut impl BufferViewMut<Self::Wide>,
        _nrhs: usize,
        _transpose: bool,
    ) -> Result<(), Error> {
        unreachable!("triangles of a symmetric matrix")
    }

    /// The tree of the factors, in which columns may have moved.
    fn tree(&self) -> &Arc<DeviceTree<Self::Storage>>;

    /// What ran on this tree with this outcome.
    fn code_path(tree: &DeviceTree<Self::Storage>, quality: &TreeQuality) -> &'static str;

    /// The plan for B with rows that a search of pivots on the host moves, and how many pivots it takes off the diagonal;
    /// `None` if no row has to move, or a factorization searches by itself.
    fn with_searched_pivots(
        forest: &Forest<Self::Storage>,
        a: &[Self::Wide],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<Searched<Self::Storage>, Error>;
}

/// ε of the type of the factors.
pub(crate) fn epsilon<L: TreeFactors>() -> f64 {
    <<L::Value as Scalar>::Real as Float>::epsilon().to_f64()
}

pub(crate) fn numeric_error(error: DeviceFrontalError) -> Error {
    match error {
        DeviceFrontalError::ZeroPivot { column } => Error::ZeroPivot { column },
        DeviceFrontalError::NotFinite { column } => Error::Overflow { column },
        DeviceFrontalError::NoPivots { column } => Error::NoPivots { column },
        DeviceFrontalError::NotPositiveDefinite { column, value } => Error::NotPositiveDefinite {
            column,
            pivot: value,
        },
        DeviceFrontalError::IndexOverflow(e) => Error::IndexOverflow(e),
        DeviceFrontalError::Cancelled(e) => Error::Cancelled(e),
        DeviceFrontalError::Device(e) => Error::from_device(e, "numeric"),
    }
}

fn solve_error(error: DeviceFrontalError) -> Error {
    match error {
        DeviceFrontalError::Device(e) => Error::from_device(e, "solve"),
        other => numeric_error(other),
    }
}

/// Numbers on the device in the wide type on the host.
fn download<T: DeviceScalar>(
    stream: &Stream,
    numbers: &Buffer<T>,
) -> Result<Vec<WideOf<T>>, Error> {
    let in_numeric = |e: DeviceError| Error::from_device(e, "numeric");
    let numbers = stream.download(numbers).map_err(in_numeric)?;
    Ok(T::in_wide(&numbers).into_owned())
}

impl From<DeviceQuality> for TreeQuality {
    fn from(quality: DeviceQuality) -> Self {
        Self {
            num_perturbed: quality.num_perturbed as usize,
            first_perturbed: quality.first_perturbed,
            max_b: quality.max_b,
            max_u: quality.max_u,
            max_l: quality.max_l,
            num_delayed: Some(quality.num_delayed),
            ..Self::default()
        }
    }
}

impl<T: DeviceScalar> TreeFactors for DeviceFrontalLu<T>
where
    WideOf<T>: RefineScalar,
{
    type Value = T;
    type Wide = WideOf<T>;
    type Storage = Full;

    const SEARCHES: bool = true;

    fn factorize(
        place: Place<'_, Self>,
        values: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<(Self, TreeQuality), Error> {
        let upload = uploading(&place);
        let Place {
            tree,
            space,
            stream,
            ..
        } = place;
        if !pivots.is_static() {
            let found = Self::factorize_by_threshold(space, stream, tree, values, pivots, &upload);
            let (lu, quality) = found.map_err(numeric_error)?;
            let num_off_diagonal = lu.num_off_diagonal(stream).map_err(numeric_error)?;
            let quality = TreeQuality {
                num_off_diagonal: Some(num_off_diagonal),
                ..quality.into()
            };
            return Ok((lu, quality));
        }
        let pivots = pivots.in_fronts(FRONT_THRESHOLD);
        let (lu, quality) =
            Self::factorize_in(space, stream, tree, values, &pivots).map_err(numeric_error)?;
        Ok((lu, quality.into()))
    }

    fn begin_refactorize(
        &mut self,
        stream: &Stream,
        values: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<(), Error> {
        let pivots = pivots.in_fronts(FRONT_THRESHOLD);
        let begun = self.begin_refactorize(stream, values, &pivots);
        begun.map_err(numeric_error)
    }

    fn has_checks(&self) -> bool {
        self.tree().has_checks()
    }

    fn prepare_check(
        &mut self,
        place: &Place<'_, Self>,
        values: &Buffer<WideOf<T>>,
    ) -> Result<(), Error> {
        place.prepare_checks(self.tree())?;
        let prepared = DeviceFrontalLu::prepare_check(self, place.stream, values);
        prepared.map_err(numeric_error)
    }

    fn begin_check(&mut self, stream: &Stream, values: &Buffer<WideOf<T>>) -> Result<(), Error> {
        let begun = DeviceFrontalLu::begin_check(self, stream, values);
        begun.map_err(numeric_error)
    }

    fn check(&self) -> Result<DeviceCheck, Error> {
        DeviceFrontalLu::check(self).map_err(numeric_error)
    }

    fn begin_refactorize_changed(
        &mut self,
        place: Place<'_, Self>,
        values: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        changed: &[u32],
    ) -> Result<(), Error> {
        let Place {
            forest,
            stream,
            threads,
            cancel,
            ..
        } = place;
        let pivots = pivots.in_fronts(FRONT_THRESHOLD);
        let seconds = if self.is_planned_for_changes() {
            0.0
        } else {
            forest.plan_seconds()
        };
        let begun = threads.run(seconds, |count| {
            forest.placed(|placement| {
                let changed = Changed {
                    places: changed,
                    placement,
                    cancel,
                    threads: count,
                };
                self.begin_refactorize_changed(stream, values, &pivots, &changed)
            })
        });
        begun.map_err(numeric_error)
    }

    fn refactorized_part(&self) -> f64 {
        self.refactorized_part()
    }

    fn report(&mut self, _stream: &Stream, _pivots: &PivotPolicy) -> Result<Outcome, Error> {
        let quality = self.report().map_err(numeric_error)?;
        Ok(quality.map_or(Outcome::OtherScale, |quality| Outcome::Done(quality.into())))
    }

    fn scale(&self) -> f64 {
        self.scale()
    }

    fn set_scale(&mut self, scale: f64) {
        self.set_scale(scale);
    }

    fn solve(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<WideOf<T>>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<(), Error> {
        let solved = self.solve(stream, x, nrhs, transpose);
        solved.map_err(solve_error)
    }

    fn solve_scaled(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<WideOf<T>>,
        transpose: bool,
    ) -> Result<(), Error> {
        let solved = self.solve_scaled(stream, x, transpose);
        solved.map_err(solve_error)
    }

    fn determinant(&self, stream: &Stream) -> Result<Determinant<WideOf<T>>, Error> {
        let pivots = self.pivots(stream).map_err(numeric_error)?;
        let pivots = T::in_wide(&pivots);
        let pivot_rows = stream.download(self.pivot_rows());
        let pivot_rows = pivot_rows.map_err(|e| Error::from_device(e, "numeric"))?;
        let mut product = Determinant::one();
        for front in self.tree().symbolic().tree().fronts() {
            let start = front.start as usize;
            for j in 0..front.pivots as usize {
                let pivot = pivots[start + j];
                let exchanged = pivot_rows[start + j] as usize != j;
                product = product.times(if exchanged { -pivot } else { pivot });
            }
        }
        Ok(product)
    }

    fn tree(&self) -> &Arc<DeviceTree> {
        self.tree()
    }

    fn code_path(tree: &DeviceTree, _quality: &TreeQuality) -> &'static str {
        if tree.num_links() > 1 {
            "numeric: fronts up the forest in parts, factors kept elsewhere"
        } else if tree.num_devices() > 1 {
            "numeric: fronts up the forest, subtrees on several devices"
        } else if tree.num_launches() == 1 {
            "numeric: fronts up the forest, one launch"
        } else {
            "numeric: fronts up the forest, launches for wide fronts among them"
        }
    }

    fn with_searched_pivots(
        forest: &Forest,
        a: &[WideOf<T>],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<Searched, Error> {
        forest.with_searched_pivots::<T>(a, pivots, limits)
    }
}

/// Copies trees whose columns have moved to the device.
fn uploading<'a, L: TreeFactors>(
    place: &Place<'a, L>,
) -> impl Fn(MovedTree<'_, L::Storage>) -> Result<DeviceTree<L::Storage>, DeviceFrontalError> + use<'a, L>
{
    let &Place {
        forest,
        room,
        stream,
        threads,
        cancel,
        ..
    } = place;
    move |moved| {
        cancel.check()?;
        threads.run(forest.plan_seconds(), |count| {
            let symbolic = moved.symbolic(count)?;
            let memory = forest.numbers.memory_plan(&symbolic, count);
            Ok(forest.upload((&symbolic, &memory), room, stream, count)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use luge_sparse::Quality;

    use super::*;

    #[test]
    fn growth_is_that_of_a_check_unless_it_was_too_large_to_measure() {
        let of_growth = |growth: f64| TreeQuality {
            max_b: 2.0,
            max_u: 1e9,
            max_l: 4.0,
            check: Some(DeviceCheck {
                quality: Quality {
                    growth,
                    ..Quality::default()
                },
                max_product: 7.0,
                max_residual: 0.0,
                max_value: 1.0,
            }),
            ..TreeQuality::default()
        };
        let measured = of_growth(3.0);
        assert_eq!((measured.growth(), measured.product()), (3.0, 7.0));
        for growth in [f64::INFINITY, f64::NAN] {
            let estimated = of_growth(growth);
            assert_eq!((estimated.growth(), estimated.product()), (2e9, 4e9));
        }
    }
}
