//! Mixed finite elements and finite volumes: symmetric indefinite systems with blocks of zeros on the diagonal.

use rand::Rng;
use sprs::{CsMat, TriMat};

use super::applications::laplacian_2d;
use super::{log_uniform, rng, triplets};

/// Adds `v` at (i, j) and at (j, i).
fn add_symmetric(a: &mut TriMat<f64>, i: usize, j: usize, v: f64) {
    a.add_triplet(i, j, v);
    a.add_triplet(j, i, v);
}

/// Darcy flow through nx × ny square cells by mixed finite elements of lowest order (Raviart and Thomas 1977),
/// `[M Bᵀ; B 0]`: the fluxes through all faces, then the pressures of the cells, with pressure zero on the boundary and a permeability that
/// differs by up to 10⁴ from cell to cell.
///
/// Symmetric indefinite with nx·ny negative eigenvalues. n = (nx + 1)·ny + nx·(ny + 1) + nx·ny.
///
/// # Panics
///
/// If a size is zero.
#[track_caller]
pub fn darcy(nx: usize, ny: usize, seed: u64) -> CsMat<f64> {
    assert!(nx > 0 && ny > 0, "there are no cells");
    let mut rng = rng(seed);
    let (across, along) = ((nx + 1) * ny, nx * (ny + 1));
    let mut a = triplets(across + along + nx * ny);
    for y in 0..ny {
        for x in 0..nx {
            let resistance = log_uniform(&mut rng, 1e-2, 1e2);
            let pressure = across + along + y * nx + x;
            let left = y * (nx + 1) + x;
            let below = across + y * nx + x;
            for (first, second) in [(left, left + 1), (below, below + nx)] {
                a.add_triplet(first, first, resistance / 3.0);
                a.add_triplet(second, second, resistance / 3.0);
                add_symmetric(&mut a, first, second, resistance / 6.0);
                add_symmetric(&mut a, pressure, first, -1.0);
                add_symmetric(&mut a, pressure, second, 1.0);
            }
        }
    }
    a.to_csr()
}

/// Stokes flow in a closed box of nx × ny square cells on a staggered grid (Harlow and Welch 1965), `[−Δ ∇; ∇ᵀ 0]`: the
/// velocities through inner faces, then the pressures of all cells but the last, whose pressure is zero.
///
/// Symmetric indefinite with nx·ny − 1 negative eigenvalues. n = (nx − 1)·ny + nx·(ny − 1) + nx·ny − 1.
///
/// # Panics
///
/// If a size is below 2.
#[track_caller]
pub fn stokes(nx: usize, ny: usize) -> CsMat<f64> {
    assert!(nx > 1 && ny > 1, "a box of {nx} by {ny} cells has no flow");
    let (across, along) = ((nx - 1) * ny, nx * (ny - 1));
    let mut a = triplets(across + along + nx * ny - 1);
    // Five points a velocity; its neighbor beyond a wall along the flow is half a cell further.
    let mut add_laplacian = |first: usize, width: usize, height: usize, along_x: bool| {
        for y in 0..height {
            for x in 0..width {
                let i = first + y * width + x;
                let (at_wall, size) = if along_x { (y, height) } else { (x, width) };
                let walls = usize::from(at_wall == 0) + usize::from(at_wall + 1 == size);
                a.add_triplet(i, i, 4.0 + walls as f64);
                if x + 1 < width {
                    add_symmetric(&mut a, i, i + 1, -1.0);
                }
                if y + 1 < height {
                    add_symmetric(&mut a, i, i + width, -1.0);
                }
            }
        }
    };
    add_laplacian(0, nx - 1, ny, true);
    add_laplacian(across, nx, ny - 1, false);
    for y in 0..ny {
        for x in 0..nx {
            let cell = y * nx + x;
            if cell + 1 == nx * ny {
                continue;
            }
            let pressure = across + along + cell;
            if x > 0 {
                add_symmetric(&mut a, y * (nx - 1) + x - 1, pressure, 1.0);
            }
            if x + 1 < nx {
                add_symmetric(&mut a, y * (nx - 1) + x, pressure, -1.0);
            }
            if y > 0 {
                add_symmetric(&mut a, across + (y - 1) * nx + x, pressure, 1.0);
            }
            if y + 1 < ny {
                add_symmetric(&mut a, across + y * nx + x, pressure, -1.0);
            }
        }
    }
    a.to_csr()
}

/// The triharmonic equation in mixed form on an nx × ny grid, `[M 0 L; 0 L −M; L −M 0]` with the five-point Laplacian L and
/// a lumped mass matrix M = I / max(nx, ny)².
///
/// Symmetric indefinite, with most of the diagonal zero or tiny beside L. n = 3·nx·ny.
pub fn triharmonic(nx: usize, ny: usize) -> CsMat<f64> {
    let cells = nx * ny;
    let mass = 1.0 / (nx.max(ny).max(1) as f64).powi(2);
    let mut a = triplets(3 * cells);
    for i in 0..cells {
        a.add_triplet(i, i, mass);
        add_symmetric(&mut a, cells + i, 2 * cells + i, -mass);
    }
    for (&l, (i, j)) in &laplacian_2d(nx, ny) {
        a.add_triplet(cells + i, cells + j, l);
        add_symmetric(&mut a, i, 2 * cells + j, l);
    }
    a.to_csr()
}

/// A random symmetric matrix of order `n` with about `per_row` entries a row off the diagonal, of both signs, and a diagonal
/// of which one in three is absent. Mostly nonsingular.
pub fn random_symmetric(n: usize, per_row: usize, seed: u64) -> CsMat<f64> {
    let mut rng = rng(seed);
    let mut a = triplets(n);
    for i in 0..n {
        if rng.random_bool(2.0 / 3.0) {
            a.add_triplet(i, i, super::signed_unit(&mut rng));
        }
        for _ in 0..per_row.div_ceil(2).min(i) {
            let j = rng.random_range(0..i);
            add_symmetric(&mut a, i, j, super::signed_unit(&mut rng));
        }
    }
    a.to_csr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_symmetric(a: &CsMat<f64>, n: usize) {
        assert_eq!(a.shape(), (n, n));
        for (&v, (i, j)) in a {
            assert_eq!(a.get(j, i), Some(&v), "({i}, {j})");
        }
    }

    /// Product with a vector of ones on the unknowns from `first` on, zeros before.
    fn rows_of_ones(a: &CsMat<f64>, first: usize) -> Vec<f64> {
        let x: Vec<f64> = (0..a.cols()).map(|j| f64::from(j >= first)).collect();
        let rows = a.outer_iterator();
        rows.map(|row| row.iter().map(|(j, v)| v * x[j]).sum())
            .collect()
    }

    #[test]
    fn fluxes_and_pressures_are_coupled_by_the_divergence() {
        let a = darcy(3, 2, 5);
        assert_symmetric(&a, 4 * 2 + 3 * 3 + 6);
        // One flux everywhere has no divergence; a constant pressure drives flow through the boundary alone.
        let divergence = rows_of_ones(&a, 0);
        assert!(divergence[17..].iter().all(|&d| d == 0.0));
        let driven = rows_of_ones(&a, 17);
        assert_eq!(driven.iter().filter(|&&d| d != 0.0).count(), 2 * 2 + 2 * 3);
        assert!((17..23).all(|i| a.get(i, i).is_none()));
    }

    #[test]
    fn a_constant_pressure_drives_no_stokes_flow_but_past_the_cell_left_out() {
        let (nx, ny) = (4, 3);
        let a = stokes(nx, ny);
        let velocities = 3 * 3 + 4 * 2;
        assert_symmetric(&a, velocities + 11);
        let driven = rows_of_ones(&a, velocities);
        // The two inner faces of the last cell.
        assert_eq!(driven.iter().filter(|&&d| d != 0.0).count(), 2);
        // Walls across and along the flow, by hand: the first velocity has a wall before it and one below.
        assert_eq!(a.get(0, 0), Some(&5.0));
        assert_eq!(a.get(3, 3), Some(&4.0));
    }

    #[test]
    fn the_triharmonic_system_has_its_blocks() {
        let a = triharmonic(3, 2);
        assert_symmetric(&a, 18);
        assert_eq!(a.get(0, 0), Some(&(1.0 / 9.0)));
        assert_eq!(a.get(6, 6), Some(&4.0));
        assert_eq!(a.get(6, 12), Some(&(-1.0 / 9.0)));
        assert_eq!(a.get(0, 12), Some(&4.0));
        assert_eq!((a.get(12, 12), a.get(0, 6)), (None, None));
    }

    #[test]
    fn random_symmetric_matrices_lack_diagonal_entries() {
        let a = random_symmetric(90, 4, 3);
        assert_symmetric(&a, 90);
        let missing = (0..90).filter(|&i| a.get(i, i).is_none()).count();
        assert!((15..45).contains(&missing), "{missing}");
        assert_symmetric(&random_symmetric(1, 4, 3), 1);
    }
}
