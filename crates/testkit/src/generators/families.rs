//! The generators by name and size, for programs that let a person choose.
//!
//! A [`Family`] makes a matrix of about the order that is asked for. Families of circuits at their operating point
//! need a solver for that, which the caller brings.

use num_complex::Complex;
use sprs::CsMat;

use super::mna::{Netlist, NoOperatingPoint, OperatingPoint, multiplier, supply_grid};
use super::{adversaries, applications, frequency, mixed};
use crate::corpus::Kind;

/// Solves linear systems of one pattern, one after another; `None` if it cannot.
pub type Solve<'a> = dyn FnMut(&CsMat<f64>, &[f64]) -> Option<Vec<f64>> + 'a;

/// Matrices of one make, of any size, with values of the type `V`.
#[derive(Debug, Clone, Copy)]
pub struct Family<V: 'static = f64> {
    /// Its name.
    pub name: &'static str,
    /// What it models, in a line.
    pub about: &'static str,
    /// The application it comes from.
    pub kind: Kind,
    /// Whether it is made to break a solver.
    pub is_adversarial: bool,
    make: Make<V>,
}

#[derive(Debug, Clone, Copy)]
enum Make<V: 'static> {
    Plain(fn(usize, u64) -> CsMat<V>),
    /// A circuit, and its matrix at its operating point.
    AtRest(
        fn(usize, u64) -> Netlist,
        fn(&Netlist, OperatingPoint) -> CsMat<V>,
    ),
}

impl<V> Family<V> {
    /// A matrix of about order `n`, and of the least order that the family has where that is more.
    ///
    /// # Errors
    ///
    /// [`NoOperatingPoint`] if a circuit does not come to rest.
    pub fn make(
        &self,
        n: usize,
        seed: u64,
        solve: &mut Solve<'_>,
    ) -> Result<CsMat<V>, NoOperatingPoint> {
        match self.make {
            Make::Plain(make) => Ok(make(n, seed)),
            Make::AtRest(make, matrix) => {
                let netlist = make(n, seed);
                let rest = netlist.operating_point(solve)?;
                Ok(matrix(&netlist, rest))
            }
        }
    }
}

impl Family {
    /// The family of real matrices of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FAMILIES.iter().find(|family| family.name == name)
    }
}

impl Family<Complex<f64>> {
    /// The family of complex matrices of that name.
    pub fn find_complex(name: &str) -> Option<&'static Self> {
        COMPLEX_FAMILIES.iter().find(|family| family.name == name)
    }
}

/// The `power`th root of n / `per`, rounded, at least `least`.
fn side(n: usize, per: f64, power: f64, least: usize) -> usize {
    ((n as f64 / per).powf(1.0 / power).round() as usize).max(least)
}

const fn application<V>(
    name: &'static str,
    kind: Kind,
    about: &'static str,
    make: fn(usize, u64) -> CsMat<V>,
) -> Family<V> {
    Family {
        name,
        about,
        kind,
        is_adversarial: false,
        make: Make::Plain(make),
    }
}

const fn adversary(
    name: &'static str,
    about: &'static str,
    make: fn(usize, u64) -> CsMat<f64>,
) -> Family {
    Family {
        is_adversarial: true,
        ..application(name, Kind::Other, about, make)
    }
}

fn a_multiplier(n: usize, seed: u64) -> Netlist {
    multiplier(side(n, 107.0, 2.0, 1), seed).0
}

fn a_supply_grid(n: usize, seed: u64) -> Netlist {
    let width = side(n, 3.33, 2.0, 2);
    supply_grid(3, width, width, seed)
}

/// The frequency of the circuits among [`COMPLEX_FAMILIES`], in hertz.
const FREQUENCY: f64 = 1e9;

/// Those of complex matrices.
pub const COMPLEX_FAMILIES: &[Family<Complex<f64>>] = &[
    Family {
        name: "ac-multiplier",
        about: "the multiplier's small signals at 1 GHz, G + iωC",
        kind: Kind::Circuit,
        is_adversarial: false,
        make: Make::AtRest(a_multiplier, |netlist, rest| {
            netlist.at_frequency(&rest, FREQUENCY)
        }),
    },
    Family {
        name: "ac-supply-grid",
        about: "the supply grid's small signals at 1 GHz, with the inductors of the package",
        kind: Kind::Circuit,
        is_adversarial: false,
        make: Make::AtRest(a_supply_grid, |netlist, rest| {
            netlist.at_frequency(&rest, FREQUENCY)
        }),
    },
    application(
        "helmholtz-2d",
        Kind::Fem,
        "waves in a square with absorbing walls, ten points a wavelength; complex symmetric, indefinite",
        |n, _| {
            let side = side(n, 1.0, 2.0, 1);
            frequency::helmholtz([side, side, 1], 10.0)
        },
    ),
    application(
        "helmholtz-3d",
        Kind::Fem,
        "waves in a cube with absorbing walls, ten points a wavelength; complex symmetric, indefinite",
        |n, _| {
            let side = side(n, 1.0, 3.0, 1);
            frequency::helmholtz([side; 3], 10.0)
        },
    ),
    application(
        "lattice-definite",
        Kind::Other,
        "electrons on a lattice in a magnetic field, below the lowest energy; Hermitian positive definite",
        |n, _| {
            let side = side(n, 1.0, 2.0, 1);
            frequency::magnetic_lattice([side, side], 0.2, 0.0)
        },
    ),
    application(
        "lattice-indefinite",
        Kind::Other,
        "electrons on a lattice in a magnetic field, at an energy inside of the spectrum; Hermitian indefinite",
        |n, _| {
            let side = side(n, 1.0, 2.0, 1);
            frequency::magnetic_lattice([side, side], 0.2, 2.7)
        },
    ),
];

/// Those of real matrices: applications first, then what is made to break a solver.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "multiplier",
        about: "CMOS array multiplier, modified nodal analysis at the operating point; a dense supply row",
        kind: Kind::Circuit,
        is_adversarial: false,
        make: Make::AtRest(a_multiplier, |_, rest| rest.jacobian),
    },
    Family {
        name: "supply-grid",
        about: "on-chip power grid with package and MOS loads, at the operating point",
        kind: Kind::Circuit,
        is_adversarial: false,
        make: Make::AtRest(a_supply_grid, |_, rest| rest.jacobian),
    },
    application(
        "circuit",
        Kind::Circuit,
        "random transistors and resistors, one Newton step of a transient; a dense supply row",
        |n, seed| applications::circuit(side(n, 1.05, 1.0, 1), seed),
    ),
    application(
        "rc-mesh",
        Kind::Circuit,
        "mesh of resistors and capacitors in an implicit time step",
        |n, seed| applications::rc_mesh(side(n, 1.0, 2.0, 1), side(n, 1.0, 2.0, 1), seed),
    ),
    application(
        "power-flow",
        Kind::Power,
        "Newton power-flow Jacobian of a synthetic transmission grid",
        |n, seed| applications::power_flow_jacobian(side(n, 1.85, 1.0, 2), seed),
    ),
    application(
        "convection-diffusion-2d",
        Kind::Cfd,
        "convection and diffusion in a rotating flow on a square, upwind finite volumes",
        |n, _| {
            let side = side(n, 1.0, 2.0, 1);
            applications::convection_diffusion_2d(side, side, 100.0)
        },
    ),
    application(
        "convection-diffusion-3d",
        Kind::Cfd,
        "convection and diffusion in a rotating flow in a cube, upwind finite volumes",
        |n, _| {
            let side = side(n, 1.0, 3.0, 1);
            applications::convection_diffusion_3d(side, side, side, 100.0)
        },
    ),
    application(
        "elasticity",
        Kind::Fem,
        "linear elasticity of a clamped bar, trilinear elements; positive definite",
        |n, seed| {
            let side = side(n, 6.0, 3.0, 1);
            applications::elasticity_3d(2 * side, side, side, seed)
        },
    ),
    application(
        "darcy",
        Kind::Fem,
        "Darcy flow by mixed finite elements of lowest order; symmetric indefinite, empty diagonal block",
        |n, seed| {
            let side = side(n, 3.0, 2.0, 1);
            mixed::darcy(side, side, seed)
        },
    ),
    application(
        "stokes",
        Kind::Cfd,
        "Stokes flow in a box on a staggered grid; symmetric indefinite, empty diagonal block",
        |n, _| {
            let side = side(n, 3.0, 2.0, 2);
            mixed::stokes(side, side)
        },
    ),
    application(
        "triharmonic",
        Kind::Fem,
        "triharmonic equation in mixed form; symmetric indefinite, most of the diagonal zero or tiny",
        |n, _| {
            let side = side(n, 3.0, 2.0, 1);
            mixed::triharmonic(side, side)
        },
    ),
    application(
        "saddle-point",
        Kind::Kkt,
        "equality constraints on a quadratic function; symmetric indefinite, empty diagonal block",
        |n, seed| applications::saddle_point(n - n / 3, n / 3, seed),
    ),
    application(
        "interior-point",
        Kind::Kkt,
        "the same in a late step of an interior-point method, badly conditioned",
        |n, seed| applications::interior_point_kkt(n - n / 3, n / 3, 1e-4, seed),
    ),
    application(
        "staged-columns",
        Kind::Chem,
        "distillation columns in a row (MESH equations); unsymmetric pattern, most of the diagonal absent",
        |n, seed| applications::staged_columns(side(n, 660.0, 1.0, 1), 60, 5, seed),
    ),
    application(
        "distillation",
        Kind::Chem,
        "distillation columns, each of which feeds two others (MESH equations); unsymmetric pattern, most of the diagonal absent",
        |n, seed| applications::branched_columns(side(n, 660.0, 1.0, 1), 60, 5, seed),
    ),
    adversary(
        "pivot-growth",
        "blocks in which partial pivoting grows by 2³⁹, loosely coupled",
        adversaries::growth_blocks,
    ),
    adversary(
        "other-rows",
        "elimination on the diagonal grows by 10¹², other rows would do",
        |n, _| adversaries::needs_other_rows(n.max(2), 1e-12),
    ),
    adversary(
        "tiny-diagonal",
        "well conditioned, and 1e-20 on the diagonal",
        |n, seed| adversaries::tiny_diagonal(n.max(2), 1e-20, seed),
    ),
    adversary(
        "badly-scaled",
        "well conditioned but for rows and columns times random powers of ten up to 10^±100",
        |n, seed| adversaries::badly_scaled(n, 100.0, seed),
    ),
    adversary(
        "graded",
        "entries fall by 60 powers of ten from the first corner to the last",
        |n, seed| adversaries::graded(n, 60.0, seed),
    ),
    adversary(
        "near-singular",
        "a row is the sum of two others but for 1e-12",
        |n, seed| adversaries::near_singular(n.max(4), 1e-12, seed),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{of_both_parts, pattern_of};
    use luge_reference::Dense;
    use luge_reference::matching::structural_rank;
    use luge_reference::numeric::lu_dense;
    use luge_reference::solve::dense_solve;
    use luge_sparse::PivotPolicy;

    fn dense_solver(a: &CsMat<f64>, b: &[f64]) -> Option<Vec<f64>> {
        let dense = Dense::from_csr(&pattern_of(a), a.data());
        let lu = lu_dense(&dense, PivotPolicy::PARTIAL).ok()?;
        Some(dense_solve(&lu, b))
    }

    #[test]
    fn every_family_makes_regular_matrices_of_about_the_size() {
        for family in FAMILIES {
            for n in [1, 400] {
                let a = family
                    .make(n, 3, &mut dense_solver)
                    .unwrap_or_else(|e| panic!("{}: {e}", family.name));
                assert_eq!(a.rows(), a.cols(), "{}", family.name);
                assert!(a.data().iter().all(|v| v.is_finite()), "{}", family.name);
                let rank = structural_rank(&pattern_of(&a));
                assert_eq!(rank, a.rows(), "{} of size {n}", family.name);
                // The smallest process model has 660 unknowns.
                let expected = if matches!(family.name, "staged-columns" | "distillation") {
                    660
                } else {
                    n
                };
                if n > 1 {
                    let (low, high) = (expected * 3 / 5, expected * 8 / 5);
                    assert!(
                        (low..=high).contains(&a.rows()),
                        "{}: {}",
                        family.name,
                        a.rows()
                    );
                }
            }
        }
    }

    #[test]
    fn every_complex_family_makes_regular_matrices_of_about_the_size() {
        for family in COMPLEX_FAMILIES {
            for n in [1, 300] {
                let a = family
                    .make(n, 3, &mut dense_solver)
                    .unwrap_or_else(|e| panic!("{}: {e}", family.name));
                let both = of_both_parts(&a);
                assert!(both.data().iter().all(|v| v.is_finite()), "{}", family.name);
                let solution = dense_solver(&both, &vec![1.0; both.rows()]).unwrap();
                assert!(solution.iter().all(|v| v.is_finite()), "{}", family.name);
                if n > 1 {
                    let range = n * 3 / 5..=n * 8 / 5;
                    assert!(range.contains(&a.rows()), "{}: {}", family.name, a.rows());
                }
                // The parts of circuits that have no frequency are those at rest.
                let has_imaginary = a.data().iter().any(|v| v.im != 0.0);
                assert!(has_imaginary || n == 1, "{}", family.name);
            }
        }
    }

    #[test]
    fn families_are_found_by_their_names_which_differ() {
        for family in COMPLEX_FAMILIES {
            let found = Family::find_complex(family.name).expect("it is listed");
            assert_eq!(found.about, family.about);
            assert!(Family::find(family.name).is_none());
        }
        for family in FAMILIES {
            let found = Family::find(family.name).expect("it is listed");
            assert_eq!(found.about, family.about);
        }
        assert!(Family::find("no such family").is_none());
    }
}
