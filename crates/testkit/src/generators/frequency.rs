//! Problems in the frequency domain, whose matrices are complex.
//!
//! [`helmholtz`] is waves in a box with absorbing walls, [`magnetic_lattice`] electrons on a lattice. Circuits at a frequency are
//! [`Netlist::at_frequency`](super::mna::Netlist::at_frequency).

use num_complex::Complex;
use sprs::{CsMat, TriMat};

/// Points of an absorbing layer, at most.
const LAYER: usize = 10;

/// How much a layer stretches coordinates into the imaginary direction at its end.
const STRETCH: f64 = 6.0;

/// −Δu − k²·u on a grid of so many points in each direction, which are at least one, with so many of them a wavelength, by
/// central differences. Near the walls coordinates are stretched into the complex plane (a perfectly matched layer: Berenger
/// 1994, in the form of Chew and Weedon 1994), so that waves leave the box.
///
/// Rows are multiplied by the stretches of all directions, which makes the matrix complex symmetric; it is not Hermitian, and
/// the real part of it is indefinite.
///
/// # Panics
///
/// If a direction has no point.
#[track_caller]
pub fn helmholtz(points: [usize; 3], points_per_wavelength: f64) -> CsMat<Complex<f64>> {
    assert!(points.iter().all(|&n| n > 0), "a grid has points");
    let [nx, ny, nz] = points;
    let n = nx * ny * nz;
    let kh = 2.0 * std::f64::consts::PI / points_per_wavelength;
    let index = |at: [usize; 3]| (at[2] * ny + at[1]) * nx + at[0];
    // On points, and half a step before each and behind the last.
    let on = points.map(|n| (0..n).map(|j| stretch(j as f64, n)).collect::<Vec<_>>());
    let between = points.map(|n| {
        let before = (0..=n).map(|j| stretch(j as f64 - 0.5, n));
        before.collect::<Vec<_>>()
    });
    let mut a = TriMat::with_capacity((n, n), 7 * n);
    for here in 0..n {
        let at = [here % nx, here / nx % ny, here / (nx * ny)];
        let all: Complex<f64> = (0..3).map(|d| on[d][at[d]]).product();
        let mut diagonal = -all * (kh * kh);
        for d in 0..3 {
            // A direction of one point is none.
            if points[d] == 1 {
                continue;
            }
            // The same number from either end of an edge, so that A = Aᵀ to the last bit.
            let others: Complex<f64> = (0..3).filter(|&e| e != d).map(|e| on[e][at[e]]).product();
            for (side, is_inside) in [(at[d], at[d] > 0), (at[d] + 1, at[d] + 1 < points[d])] {
                let weight = others / between[d][side];
                diagonal += weight;
                if is_inside {
                    let mut other = at;
                    other[d] = if side == at[d] { at[d] - 1 } else { at[d] + 1 };
                    a.add_triplet(here, index(other), -weight);
                }
            }
        }
        a.add_triplet(here, here, diagonal);
    }
    a.to_csr()
}

/// H − `energy`·I for electrons on an nx × ny lattice in a magnetic field of `flux` flux quanta a cell: 4 on the diagonal, −1 to
/// neighbours in one direction, −exp(2πi·flux·x) in the other (D. R. Hofstadter, "Energy levels and wave functions of Bloch
/// electrons in rational and irrational magnetic fields", Phys. Rev. B 14, 1976; Landau's gauge, open ends).
///
/// The matrix is Hermitian. Eigenvalues of H are between 0 and 8, so it is positive definite for an energy of at most 0, and
/// indefinite for one inside of the spectrum.
///
/// # Panics
///
/// If a direction has no point.
#[track_caller]
pub fn magnetic_lattice([nx, ny]: [usize; 2], flux: f64, energy: f64) -> CsMat<Complex<f64>> {
    assert!(nx > 0 && ny > 0, "a lattice has points");
    let n = nx * ny;
    let mut a = TriMat::with_capacity((n, n), 5 * n);
    let mut couple = |i: usize, j: usize, hop: Complex<f64>| {
        a.add_triplet(i, j, hop);
        a.add_triplet(j, i, hop.conj());
    };
    for at in 0..n {
        let (x, y) = (at % nx, at / nx);
        if x + 1 < nx {
            couple(at, at + 1, Complex::new(-1.0, 0.0));
        }
        if y + 1 < ny {
            let angle = 2.0 * std::f64::consts::PI * flux * x as f64;
            couple(at, at + nx, -Complex::from_polar(1.0, angle));
        }
    }
    for at in 0..n {
        a.add_triplet(at, at, Complex::new(4.0 - energy, 0.0));
    }
    a.to_csr()
}

/// By what a coordinate is stretched at a place among `n` points.
fn stretch(at: f64, n: usize) -> Complex<f64> {
    let width = LAYER.min(n / 4) as f64;
    let to_wall = (at + 1.0).min(n as f64 - at);
    let depth = if width > 0.0 {
        (1.0 - to_wall / (width + 1.0)).max(0.0)
    } else {
        0.0
    };
    Complex::new(1.0, STRETCH * depth * depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn electrons_on_a_lattice_have_real_energies() {
        let a = magnetic_lattice([6, 5], 0.2, 1.5);
        assert_eq!((a.rows(), a.nnz()), (30, 30 + 2 * (5 * 5 + 6 * 4)));
        for (value, (i, j)) in &a {
            assert_eq!(a.get(j, i), Some(&value.conj()), "{i} {j}");
        }
        assert_eq!(a.get(7, 7), Some(&Complex::new(2.5, 0.0)));
        // From x = 2 of one line to the next: an angle of 0.8 π.
        let hop = a.get(2, 8).unwrap();
        let angle = 0.8 * std::f64::consts::PI;
        assert!((hop + Complex::new(angle.cos(), angle.sin())).norm() < 1e-15);
        // Around a cell the angles add up to the flux.
        let product = [(0, 1), (1, 7), (7, 6), (6, 0)]
            .iter()
            .map(|&(i, j)| *a.get(i, j).unwrap())
            .product::<Complex<f64>>();
        let flux = Complex::from_polar(1.0, 0.4 * std::f64::consts::PI);
        assert!((product - flux).norm() < 1e-14, "{product}");
    }

    #[test]
    fn waves_are_damped_in_the_layer_alone() {
        let a = helmholtz([30, 20, 1], 8.0);
        let (n, middle) = (600, 10 * 30 + 15);
        assert_eq!((a.rows(), a.nnz()), (n, n + 2 * (29 * 20 + 30 * 19)));
        for (value, (i, j)) in &a {
            assert_eq!(a.get(j, i), Some(value), "{i} {j}");
        }
        let kh = 2.0 * std::f64::consts::PI / 8.0;
        assert_eq!(
            a.get(middle, middle),
            Some(&Complex::new(4.0 - kh * kh, 0.0))
        );
        assert_eq!(a.get(middle, middle + 1), Some(&Complex::new(-1.0, 0.0)));
        for (value, (i, j)) in &a {
            assert!((value - a.get(j, i).unwrap()).norm() < 1e-15, "{i} {j}");
        }
        // At a corner both directions are stretched.
        assert!(a.get(0, 0).unwrap().im.abs() > 1.0);
        let flat = helmholtz([3, 1, 1], 8.0);
        assert!(
            flat.data().iter().all(|v| v.im == 0.0),
            "no room for a layer"
        );
    }
}
