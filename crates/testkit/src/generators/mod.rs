//! Matrices by the seed: the same arguments always give the same matrix, in CSR with sorted rows.
//!
//! [`applications`] and [`mixed`] model what solvers are used for, [`mna`] circuits at their operating point, [`adversaries`] are
//! made to break one, [`hostile`] to make one lie, [`frequency`] has complex ones. [`gallery`] lists a small nonsingular one of each kind for tests that loop over all, and
//! [`families`] has them by name and size.

pub mod adversaries;
pub mod applications;
pub mod families;
pub mod frequency;
pub mod hostile;
pub mod mixed;
pub mod mna;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sprs::{CsMat, TriMat};

/// A matrix with the name of what it models.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The generator, and what is special about its arguments.
    pub name: &'static str,
    /// The matrix: square, real, nonsingular.
    pub matrix: CsMat<f64>,
}

/// Matrices whose memory is well above what is too small to be counted, for tests of figures of memory: orders of about a
/// thousand to a few thousand times `scale`.
pub fn for_memory(scale: usize) -> Vec<Sample> {
    use applications::*;
    let sample = |name, matrix| Sample { name, matrix };
    let s = scale;
    vec![
        sample("circuit", circuit(4_000 * s * s, 1)),
        sample("laplacian 2d", laplacian_2d(60 * s, 60 * s)),
        sample(
            "convection 2d",
            convection_diffusion_2d(50 * s, 60 * s, 0.5),
        ),
        sample(
            "convection 3d",
            convection_diffusion_3d(10 * s, 10 * s, 12 * s, 0.5),
        ),
        sample("kkt", interior_point_kkt(1_000 * s, 500 * s, 1e-4, 3)),
        sample("power grid", power_grid(2, 40 * s, 40 * s, 4)),
        sample("power flow", power_flow_jacobian(2_000 * s, 5)),
        sample("saddle point", saddle_point(1_000 * s, 400 * s, 6)),
        sample("random", random_unsymmetric(2_000 * s, 3, 7)),
    ]
}

/// One nonsingular matrix of every kind, orders 1 to about 200.
///
/// All can be solved with a small backward error after matching, scaling and refinement; most
/// cannot be factorized as they stand, for want of a diagonal or of useful pivots on it.
pub fn gallery(seed: u64) -> Vec<Sample> {
    use adversaries::*;
    use applications::*;
    use mixed::*;
    let sample = |name, matrix| Sample { name, matrix };
    vec![
        sample("circuit", circuit(150, seed)),
        sample("power_grid", power_grid(2, 8, 7, seed)),
        sample("rc_mesh", rc_mesh(11, 13, seed)),
        sample("power_flow_jacobian", power_flow_jacobian(80, seed)),
        sample(
            "convection_diffusion_2d",
            convection_diffusion_2d(12, 11, 50.0),
        ),
        sample(
            "convection_diffusion_3d",
            convection_diffusion_3d(6, 5, 4, 50.0),
        ),
        sample("saddle_point", saddle_point(90, 40, seed)),
        sample("interior_point_kkt", interior_point_kkt(70, 30, 1e-4, seed)),
        sample("elasticity_3d", elasticity_3d(2, 2, 3, seed)),
        sample("darcy", darcy(6, 5, seed)),
        sample("stokes", stokes(6, 5)),
        sample("triharmonic", triharmonic(6, 5)),
        sample("random_symmetric", random_symmetric(80, 4, seed)),
        sample("laplacian_1d", laplacian_1d(65)),
        sample("laplacian_2d", laplacian_2d(9, 10)),
        sample("staged_columns", staged_columns(3, 8, 3, seed)),
        sample("random_unsymmetric", random_unsymmetric(120, 4, seed)),
        sample("one by one", random_unsymmetric(1, 1, seed)),
        sample("wilkinson_growth", wilkinson_growth(40)),
        sample("growth_blocks", growth_blocks(100, seed)),
        sample("tiny_diagonal", tiny_diagonal(60, 1e-20, seed)),
        sample("graded", graded(50, 60.0, seed)),
        sample("badly_scaled", badly_scaled(60, 100.0, seed)),
        sample("permuted_diagonal", permuted_diagonal(33, seed)),
        sample("near_singular", near_singular(45, 1e-12, seed)),
        sample("arrow, head first", arrow(60, ArrowHead::First)),
        sample("arrow, head last", arrow(60, ArrowHead::Last)),
    ]
}

/// The random numbers of one call.
fn rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// A random number whose logarithm is uniform.
fn log_uniform(rng: &mut StdRng, low: f64, high: f64) -> f64 {
    rng.random_range(low.ln()..high.ln()).exp()
}

/// A random number between 1 and 2 with a random sign.
fn signed_unit(rng: &mut StdRng) -> f64 {
    let size = rng.random_range(1.0..2.0);
    if rng.random_bool(0.5) { size } else { -size }
}

/// An empty square matrix to be filled by triplets; repeated ones are summed.
fn triplets(n: usize) -> TriMat<f64> {
    TriMat::new((n, n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::pattern_of;
    use luge_reference::Dense;
    use luge_reference::ldlt::ldlt_dense;
    use luge_reference::numeric::lu_dense;
    use luge_sparse::Form;
    use luge_sparse::PivotPolicy;

    #[test]
    fn the_same_seed_gives_the_same_matrix_and_another_seed_another() {
        let (first, again, other) = (gallery(7), gallery(7), gallery(8));
        let mut seeded = 0;
        for ((a, b), c) in first.iter().zip(&again).zip(&other) {
            assert_eq!(a.matrix, b.matrix, "{}", a.name);
            seeded += usize::from(a.matrix != c.matrix);
        }
        // All but the grids, the arrows and Wilkinson's matrix depend on the seed.
        assert_eq!(seeded, first.len() - 9);
    }

    #[test]
    fn every_sample_is_square_finite_sorted_and_nonsingular() {
        for seed in 0..5 {
            for Sample { name, matrix } in gallery(seed) {
                assert!(matrix.is_csr(), "{name}");
                assert_eq!(matrix.rows(), matrix.cols(), "{name}");
                assert!(matrix.data().iter().all(|v| v.is_finite()), "{name}");
                // pattern_of refuses rows that are not sorted.
                let pattern = pattern_of(&matrix);
                let mut dense = Dense::from_csr(&pattern, matrix.data());
                // Rows scaled to one, so that pivots can be judged.
                dense = Dense::from_fn(dense.nrows(), dense.ncols(), |i, j| {
                    let size = (0..dense.ncols()).fold(0.0, |m: f64, j| m.max(dense[(i, j)].abs()));
                    dense[(i, j)] / size
                });
                assert!(
                    lu_dense(&dense, PivotPolicy::PARTIAL).is_ok(),
                    "{name}, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn symmetric_models_are_symmetric() {
        use applications::*;
        for (name, a) in [
            ("rc_mesh", rc_mesh(5, 4, 3)),
            ("power_grid", power_grid(2, 4, 4, 3)),
            ("saddle_point", saddle_point(20, 9, 3)),
            ("interior_point_kkt", interior_point_kkt(20, 9, 1e-3, 3)),
            ("elasticity_3d", elasticity_3d(2, 1, 2, 3)),
            ("laplacian_1d", laplacian_1d(12)),
            ("laplacian_2d", laplacian_2d(3, 4)),
        ] {
            assert_eq!(a.transpose_view().to_csr(), a, "{name}");
        }
    }

    #[test]
    fn saddle_points_have_one_negative_eigenvalue_a_constraint() {
        use applications::*;
        for a in [saddle_point(30, 11, 5), interior_point_kkt(30, 11, 1.0, 5)] {
            let dense = Dense::from_csr(&pattern_of(&a), a.data());
            let inertia = ldlt_dense(&dense, Form::Symmetric).unwrap().inertia();
            assert_eq!(
                (inertia.positive, inertia.negative, inertia.zero),
                (30, 11, 0)
            );
        }
    }
}
