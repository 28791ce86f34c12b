//! Factors of symmetric matrices.

use std::sync::Arc;

use luge_device::{Buffer, BufferViewMut, Stream};
use luge_frontal::Lower;
use luge_frontal::gpu::{
    DeviceCheck, DeviceFrontalLdlt, DeviceScalar, DeviceSymmetricQuality, DeviceTree,
    SymmetricFactors, WideOf,
};
use luge_solve::gpu::RefineScalar;
use luge_sparse::{Form, PivotKind, PivotPolicy};

use super::{
    Outcome, Place, TreeFactors, TreeQuality, download, epsilon, numeric_error, solve_error,
    uploading,
};
use crate::backend::{Field, Limits};
use crate::determinant::Determinant;
use crate::device_forest::{Forest, Searched};
use crate::engine::Pivots;
use crate::error::Error;
use crate::host_plan::SymmetricReport;

/// A tree whose columns have moved serves other values if it has at most so many times the entries of the one that was planned.
const WORTH_KEEPING: f64 = 1.25;

/// What a factorization by this policy measured.
fn symmetric_quality<W: Field>(
    quality: &DeviceSymmetricQuality,
    pivots: &PivotPolicy,
    form: Form,
) -> TreeQuality {
    // Eigenvalues of a complex symmetric matrix have no signs.
    let has_signs = W::COMPONENTS == 1 || form == Form::Hermitian;
    TreeQuality {
        num_perturbed: quality.num_perturbed,
        first_perturbed: quality.first_perturbed,
        max_b: quality.max_b,
        max_u: quality.max_u,
        max_l: quality.max_l,
        symmetric: Some(SymmetricReport {
            is_definite: pivots.kind == PivotKind::Definite,
            is_searched: matches!(pivots.kind, PivotKind::Symmetric { .. }),
            form,
            inertia: has_signs.then_some(quality.inertia),
            num_zero: quality.inertia.zero,
            num_two: quality.num_two,
            num_second_pass: None,
            first_zero: quality.first_zero,
        }),
        pivot_range: Some([quality.min_pivot, quality.max_pivot]),
        num_delayed: Some(quality.num_delayed),
        num_off_diagonal: None,
        check: None,
        across: None,
    }
}

/// All factors of a symmetric matrix, or of its transpose.
fn all_factors(transpose: bool) -> SymmetricFactors {
    if transpose {
        SymmetricFactors::ALL_TRANSPOSED
    } else {
        SymmetricFactors::ALL
    }
}

/// A pivot of a symmetric matrix.
enum Pivot<W> {
    One(W),
    /// The entries (1, 1), (2, 1) and (2, 2).
    Two([W; 3]),
}

/// The pivots of which these are the entries of D: of each the one on the diagonal, and the one that couples it with the next.
fn pivots_of<W: Field>(diagonal: &[W]) -> impl Iterator<Item = Pivot<W>> + '_ {
    let mut entries = diagonal.chunks_exact(2);
    std::iter::from_fn(move || {
        let first = entries.next()?;
        if first[1] == W::zero() {
            return Some(Pivot::One(first[0]));
        }
        let second = entries.next()?;
        Some(Pivot::Two([first[0], first[1], second[0]]))
    })
}

impl<T: DeviceScalar> TreeFactors for DeviceFrontalLdlt<T>
where
    WideOf<T>: RefineScalar,
{
    type Value = T;
    type Wide = WideOf<T>;
    type Storage = Lower;

    const SEARCHES: bool = false;

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
        let found = match place.expected {
            Some(expected) if matches!(pivots.kind, PivotKind::Signed { .. }) => {
                Self::factorize_signed(space, stream, tree, values, pivots, expected)
            }
            _ => Self::factorize_in(space, stream, tree, values, pivots, &upload),
        };
        let (factors, quality) = found.map_err(numeric_error)?;
        let form = factors.tree().form();
        Ok((
            factors,
            symmetric_quality::<WideOf<T>>(&quality, pivots, form),
        ))
    }

    fn factorize_beside(
        &self,
        place: Place<'_, Self>,
        values: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<(Self, TreeQuality), Error> {
        // Columns that have moved mostly have to again, and each round of moves is a new plan; unless they are so many that
        // others may do with far fewer.
        let entries = |tree: &DeviceTree<Lower>| tree.symbolic().factor_entries() as f64;
        if entries(self.tree()) > WORTH_KEEPING * entries(place.tree) {
            return <Self as TreeFactors>::factorize(place, values, pivots);
        }
        let upload = uploading(&place);
        let (factors, quality) = self
            .factorize_beside(place.stream, values, pivots, &upload)
            .map_err(numeric_error)?;
        let form = factors.tree().form();
        Ok((
            factors,
            symmetric_quality::<WideOf<T>>(&quality, pivots, form),
        ))
    }

    fn needs_search(&self) -> bool {
        self.needs_search()
    }

    fn begin_refactorize(
        &mut self,
        stream: &Stream,
        values: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<(), Error> {
        let begun = self.begin_refactorize(stream, values, pivots);
        begun.map_err(numeric_error)
    }

    fn has_checks(&self) -> bool {
        // Of what underflows in a shorter type, growth does not tell.
        epsilon::<Self>() <= f64::EPSILON && self.tree().has_checks()
    }

    fn prepare_check(
        &mut self,
        place: &Place<'_, Self>,
        values: &Buffer<WideOf<T>>,
    ) -> Result<(), Error> {
        place.prepare_checks(self.tree())?;
        let prepared = DeviceFrontalLdlt::prepare_check(self, place.stream, values);
        prepared.map_err(numeric_error)
    }

    fn begin_check(&mut self, stream: &Stream, values: &Buffer<WideOf<T>>) -> Result<(), Error> {
        let begun = DeviceFrontalLdlt::begin_check(self, stream, values);
        begun.map_err(numeric_error)
    }

    fn check(&self) -> Result<DeviceCheck, Error> {
        DeviceFrontalLdlt::check(self).map_err(numeric_error)
    }

    fn report(&mut self, stream: &Stream, pivots: &PivotPolicy) -> Result<Outcome, Error> {
        let before = self.scale();
        let quality = self.report(stream).map_err(numeric_error)?;
        Ok(match quality {
            Some(quality) => {
                let form = self.tree().form();
                Outcome::Done(symmetric_quality::<WideOf<T>>(&quality, pivots, form))
            }
            None if self.scale() != before => Outcome::OtherScale,
            None => Outcome::OtherPivots,
        })
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
        let solved = self.solve_with(stream, x, nrhs, all_factors(transpose));
        solved.map_err(solve_error)
    }

    fn solve_scaled(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<WideOf<T>>,
        transpose: bool,
    ) -> Result<(), Error> {
        let solved = self.solve_scaled(stream, x, all_factors(transpose));
        solved.map_err(solve_error)
    }

    fn determinant(&self, stream: &Stream) -> Result<Determinant<WideOf<T>>, Error> {
        let diagonal = download(stream, self.diagonal())?;
        let product = pivots_of(&diagonal).fold(Determinant::one(), |product, pivot| match pivot {
            Pivot::One(d) => product.times(d),
            Pivot::Two(d) => product.times_block(d, self.tree().form()),
        });
        Ok(product)
    }

    fn perturbed(&self) -> Option<Vec<usize>> {
        self.perturbed().map(<[usize]>::to_vec)
    }

    fn pivots(&self, stream: &Stream) -> Result<Option<Pivots<WideOf<T>>>, Error> {
        Ok(Some(Pivots {
            order: self.elimination_order(),
            d: download(stream, self.diagonal())?,
        }))
    }

    fn solve_triangle(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<WideOf<T>>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<(), Error> {
        let triangle = if transpose {
            SymmetricFactors::TRANSPOSED_L
        } else {
            SymmetricFactors::L
        };
        let solved = self.solve_with(stream, x, nrhs, triangle);
        solved.map_err(solve_error)
    }

    fn tree(&self) -> &Arc<DeviceTree<Lower>> {
        self.tree()
    }

    fn code_path(tree: &DeviceTree<Lower>, quality: &TreeQuality) -> &'static str {
        match quality.symmetric {
            Some(symmetric) if tree.num_links() > 1 && symmetric.is_definite => {
                "numeric: fronts of Cholesky up the forest in parts, factors kept elsewhere"
            }
            _ if tree.num_links() > 1 => {
                "numeric: fronts of LDLT up the forest in parts, factors kept elsewhere"
            }
            Some(symmetric) if tree.num_devices() > 1 && symmetric.is_definite => {
                "numeric: fronts of Cholesky up the forest, subtrees on several devices"
            }
            _ if tree.num_devices() > 1 => {
                "numeric: fronts of LDLT up the forest, subtrees on several devices"
            }
            Some(symmetric) if symmetric.is_definite => {
                "numeric: fronts of Cholesky up the forest, one launch"
            }
            Some(symmetric) if !symmetric.is_searched => {
                "numeric: fronts of LDLT up the forest, one launch, pivots of expected signs"
            }
            _ => "numeric: fronts of LDLT up the forest, one launch with known pivots",
        }
    }

    fn with_searched_pivots(
        _: &Forest<Lower>,
        _: &[WideOf<T>],
        _: PivotPolicy,
        _: &Limits,
    ) -> Result<Searched<Lower>, Error> {
        Ok(None)
    }
}
