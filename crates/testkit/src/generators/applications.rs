//! Matrices that model applications of sparse direct solvers.

use std::f64::consts::PI;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use sprs::CsMat;

use super::{log_uniform, rng, signed_unit, triplets};

/// A transistor-level circuit in modified nodal analysis, one Newton step of a transient.
///
/// Unknowns are the voltages of `nodes` nodes, then the currents of the voltage sources. Node 0 is
/// the supply rail: a quarter of the transistors hang on it, so its row and column are dense. Each
/// source (the supply and one input for every 20 nodes) adds a row ±1 whose diagonal entry is
/// absent. Transistors are unsymmetric in value; the pattern is symmetric. Conductances span ten
/// orders of magnitude.
///
/// n = `nodes` + number of sources.
///
/// # Panics
///
/// If `nodes` is zero.
#[track_caller]
pub fn circuit(nodes: usize, seed: u64) -> CsMat<f64> {
    circuit_sequence(nodes, seed, 1).remove(0)
}

/// `steps` Newton steps of the circuit of [`circuit`]: one pattern, values that change from step to
/// step as the transistors change their operating points. For refactorization.
///
/// # Panics
///
/// If `nodes` is zero.
#[track_caller]
pub fn circuit_sequence(nodes: usize, seed: u64, steps: usize) -> Vec<CsMat<f64>> {
    assert!(nodes > 0, "a circuit has a supply rail");
    let mut layout = rng(seed);
    let near = |rng: &mut StdRng, node: usize| {
        let window = nodes.min(12);
        (node + rng.random_range(0..window)) % nodes
    };
    let mut resistors = Vec::new();
    let mut transistors = Vec::new();
    for node in 0..nodes {
        let other = near(&mut layout, node);
        resistors.push((node, other, log_uniform(&mut layout, 1e-6, 1e-1)));
        let drain = near(&mut layout, node);
        let gate = near(&mut layout, node);
        let source = if layout.random_bool(0.25) { 0 } else { node };
        transistors.push((drain, gate, source));
    }
    let capacitors: Vec<f64> = (0..nodes)
        .map(|_| log_uniform(&mut layout, 1e-6, 1e-4))
        .collect();
    let sources: Vec<usize> = (0..nodes).step_by(20).collect();

    (0..steps)
        .map(|step| {
            let mut values = rng(seed ^ (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut a = triplets(nodes + sources.len());
            for (node, &capacitor) in capacitors.iter().enumerate() {
                a.add_triplet(node, node, capacitor);
            }
            for &(i, j, conductance) in resistors.iter().filter(|r| r.0 != r.1) {
                a.add_triplet(i, i, conductance);
                a.add_triplet(j, j, conductance);
                a.add_triplet(i, j, -conductance);
                a.add_triplet(j, i, -conductance);
            }
            for &(drain, gate, source) in &transistors {
                // Off, in saturation or anything between.
                let gm = log_uniform(&mut values, 1e-12, 1e-2);
                let gds = 0.05 * gm + 1e-12;
                for (row, sign) in [(drain, 1.0), (source, -1.0)] {
                    a.add_triplet(row, gate, sign * gm);
                    a.add_triplet(row, drain, sign * gds);
                    a.add_triplet(row, source, -sign * (gm + gds));
                }
                // The gate draws no current; its entries are stored zeros, as simulators keep them.
                for column in [drain, source] {
                    a.add_triplet(gate, column, 0.0);
                }
            }
            for (k, &node) in sources.iter().enumerate() {
                a.add_triplet(node, nodes + k, 1.0);
                a.add_triplet(nodes + k, node, 1.0);
            }
            a.to_csr()
        })
        .collect()
}

/// An on-chip power grid: `layers` meshes of `width` × `height` nodes, vias between them, a load on
/// each node of the lowest and ideal voltage sources on the corners of the highest.
///
/// Symmetric; the (up to four) source rows have no diagonal entry. Wires of each layer run in one
/// direction with a weak link across. n = layers·width·height + number of sources.
///
/// # Panics
///
/// If a size is zero.
#[track_caller]
pub fn power_grid(layers: usize, width: usize, height: usize, seed: u64) -> CsMat<f64> {
    assert!(layers * width * height > 0, "a grid has nodes");
    let mut rng = rng(seed);
    let node = |l: usize, x: usize, y: usize| (l * height + y) * width + x;
    let top = layers - 1;
    let mut pads = vec![
        node(top, 0, 0),
        node(top, width - 1, 0),
        node(top, 0, height - 1),
        node(top, width - 1, height - 1),
    ];
    pads.sort_unstable();
    pads.dedup();
    let nodes = layers * width * height;
    let mut a = triplets(nodes + pads.len());
    let mut link = |i: usize, j: usize, conductance: f64| {
        a.add_triplet(i, i, conductance);
        a.add_triplet(j, j, conductance);
        a.add_triplet(i, j, -conductance);
        a.add_triplet(j, i, -conductance);
    };
    for l in 0..layers {
        for y in 0..height {
            for x in 0..width {
                let (along, across) = (rng.random_range(5.0..20.0), rng.random_range(0.01..0.1));
                let (to_right, to_top) = if l % 2 == 0 {
                    (along, across)
                } else {
                    (across, along)
                };
                if x + 1 < width {
                    link(node(l, x, y), node(l, x + 1, y), to_right);
                }
                if y + 1 < height {
                    link(node(l, x, y), node(l, x, y + 1), to_top);
                }
                if l + 1 < layers {
                    link(node(l, x, y), node(l + 1, x, y), rng.random_range(1.0..3.0));
                }
            }
        }
    }
    for x in 0..width * height {
        a.add_triplet(x, x, log_uniform(&mut rng, 1e-6, 1e-3));
    }
    for (k, &pad) in pads.iter().enumerate() {
        a.add_triplet(pad, nodes + k, 1.0);
        a.add_triplet(nodes + k, pad, 1.0);
    }
    a.to_csr()
}

/// A mesh of resistors with a capacitor to ground at each node, in an implicit time step.
///
/// Symmetric positive definite, weakly diagonally dominant. n = width·height.
pub fn rc_mesh(width: usize, height: usize, seed: u64) -> CsMat<f64> {
    let mut rng = rng(seed);
    let mut a = triplets(width * height);
    for y in 0..height {
        for x in 0..width {
            let i = y * width + x;
            a.add_triplet(i, i, log_uniform(&mut rng, 1e-4, 1e-2));
            let right = (x + 1 < width).then_some(i + 1);
            let above = (y + 1 < height).then_some(i + width);
            for j in [right, above].into_iter().flatten() {
                let conductance = log_uniform(&mut rng, 0.1, 10.0);
                a.add_triplet(i, i, conductance);
                a.add_triplet(j, j, conductance);
                a.add_triplet(i, j, -conductance);
                a.add_triplet(j, i, -conductance);
            }
        }
    }
    a.to_csr()
}

/// A synthetic transmission grid with the state of one Newton iteration.
struct Grid {
    /// Admittance matrix G + jB, row by row: (bus, G, B), the diagonal included.
    admittance: Vec<Vec<(usize, f64, f64)>>,
    magnitude: Vec<f64>,
    angle: Vec<f64>,
    /// Whether the voltage magnitude of a bus is held; bus 0, the slack, also holds its angle.
    holds_voltage: Vec<bool>,
}

impl Grid {
    /// A random tree over near buses, 40 % more lines, 15 % generators.
    fn new(buses: usize, seed: u64) -> Self {
        let mut rng = rng(seed);
        let mut lines = Vec::new();
        for bus in 1..buses {
            lines.push((bus, bus - 1 - rng.random_range(0..bus.min(8))));
        }
        for _ in 0..2 * buses / 5 {
            let from = rng.random_range(0..buses);
            let to = (from + rng.random_range(1..20)) % buses;
            if from != to {
                lines.push((from, to));
            }
        }
        let mut y = vec![std::collections::BTreeMap::<usize, (f64, f64)>::new(); buses];
        for &(from, to) in &lines {
            let (r, x) = (rng.random_range(0.001..0.02), rng.random_range(0.01..0.1));
            let (g, b) = (r / (r * r + x * x), -x / (r * r + x * x));
            let charging = rng.random_range(0.0..0.02);
            for (i, j, sign) in [
                (from, from, 1.0),
                (to, to, 1.0),
                (from, to, -1.0),
                (to, from, -1.0),
            ] {
                let entry = y[i].entry(j).or_default();
                entry.0 += sign * g;
                entry.1 += sign * b + if i == j { charging } else { 0.0 };
            }
        }
        // A bus without lines still has its row.
        for (bus, row) in y.iter_mut().enumerate() {
            row.entry(bus).or_insert((0.0, -1.0));
        }
        Self {
            admittance: y
                .into_iter()
                .map(|row| row.into_iter().map(|(j, (g, b))| (j, g, b)).collect())
                .collect(),
            magnitude: (0..buses).map(|_| rng.random_range(0.95..1.05)).collect(),
            angle: (0..buses).map(|_| rng.random_range(-0.2..0.2)).collect(),
            holds_voltage: (0..buses)
                .map(|bus| bus == 0 || rng.random_bool(0.15))
                .collect(),
        }
    }

    /// Active and reactive power drawn into the grid at a bus.
    fn power(&self, i: usize) -> (f64, f64) {
        let (mut p, mut q) = (0.0, 0.0);
        for &(j, g, b) in &self.admittance[i] {
            let (sin, cos) = (self.angle[i] - self.angle[j]).sin_cos();
            let vv = self.magnitude[i] * self.magnitude[j];
            p += vv * (g * cos + b * sin);
            q += vv * (g * sin - b * cos);
        }
        (p, q)
    }

    /// Position of the angle and of the magnitude of each bus among the unknowns, and their number.
    fn unknowns(&self) -> (Vec<Option<usize>>, Vec<Option<usize>>, usize) {
        let mut n = 0;
        let mut next = |free: bool| {
            free.then(|| {
                n += 1;
                n - 1
            })
        };
        let buses = self.angle.len();
        let angles = (0..buses).map(|bus| next(bus != 0)).collect();
        let magnitudes = (0..buses)
            .map(|bus| next(!self.holds_voltage[bus]))
            .collect();
        (angles, magnitudes, n)
    }

    fn jacobian(&self) -> CsMat<f64> {
        let (angles, magnitudes, n) = self.unknowns();
        let mut a = triplets(n);
        for i in 0..self.angle.len() {
            let (p, q) = self.power(i);
            let v = self.magnitude[i];
            for &(j, g, b) in &self.admittance[i] {
                let (sin, cos) = (self.angle[i] - self.angle[j]).sin_cos();
                // Derivatives of P and Q by the angle, then by the magnitude, of bus j.
                let (p_angle, q_angle, p_magnitude, q_magnitude) = if i == j {
                    (-q - b * v * v, p - g * v * v, p / v + g * v, q / v - b * v)
                } else {
                    let (active, reactive) = (g * cos + b * sin, g * sin - b * cos);
                    let w = self.magnitude[j];
                    (v * w * reactive, -v * w * active, v * active, v * reactive)
                };
                for (row, column, value) in [
                    (angles[i], angles[j], p_angle),
                    (angles[i], magnitudes[j], p_magnitude),
                    (magnitudes[i], angles[j], q_angle),
                    (magnitudes[i], magnitudes[j], q_magnitude),
                ] {
                    if let (Some(row), Some(column)) = (row, column) {
                        a.add_triplet(row, column, value);
                    }
                }
            }
        }
        a.to_csr()
    }
}

/// The Jacobian of the power-flow equations in polar form, `[∂P/∂θ ∂P/∂V; ∂Q/∂θ ∂Q/∂V]`, on a
/// synthetic grid: a random tree over near buses, 40 % more lines, 15 % of the buses generators that
/// hold their voltage.
///
/// The pattern is symmetric, the values are not. n = 2·`buses` − 1 − number of generators.
///
/// # Panics
///
/// If `buses` is zero.
#[track_caller]
pub fn power_flow_jacobian(buses: usize, seed: u64) -> CsMat<f64> {
    assert!(buses > 0, "a grid has a slack bus");
    Grid::new(buses, seed).jacobian()
}

/// Convection and diffusion on the unit square by finite volumes, upwind, in a rotating flow.
///
/// `peclet` is the ratio of convection to diffusion; 0 is the Laplacian with a small reaction. The
/// pattern is symmetric; values become unsymmetric with `peclet`. Rows are diagonally dominant.
/// n = nx·ny, at most 5 entries a row.
pub fn convection_diffusion_2d(nx: usize, ny: usize, peclet: f64) -> CsMat<f64> {
    convection_diffusion_3d(nx, ny, 1, peclet)
}

/// As [`convection_diffusion_2d`] in the unit cube; n = nx·ny·nz, at most 7 entries a row.
pub fn convection_diffusion_3d(nx: usize, ny: usize, nz: usize, peclet: f64) -> CsMat<f64> {
    let mut a = triplets(nx * ny * nz);
    let cell = |x: usize, y: usize, z: usize| (z * ny + y) * nx + x;
    let h = 1.0 / nx.max(ny).max(nz) as f64;
    let mut face = |i: usize, j: usize, speed: f64| {
        // Diffusion couples both cells; the flow carries what the upstream cell holds.
        let (diffusion, flow) = (1.0, peclet * h * speed);
        let (forward, back) = (flow.max(0.0), (-flow).max(0.0));
        a.add_triplet(i, i, diffusion + forward);
        a.add_triplet(i, j, -diffusion - back);
        a.add_triplet(j, j, diffusion + back);
        a.add_triplet(j, i, -diffusion - forward);
    };
    for z in 0..nz {
        for y in 0..ny {
            for x in 0..nx {
                let at = |k: usize, cells: usize| PI * (k as f64 + 0.5) / cells as f64;
                let (px, py) = (at(x, nx), at(y, ny));
                let i = cell(x, y, z);
                if x + 1 < nx {
                    face(i, cell(x + 1, y, z), px.sin() * py.cos());
                }
                if y + 1 < ny {
                    face(i, cell(x, y + 1, z), -px.cos() * py.sin());
                }
                if z + 1 < nz {
                    face(i, cell(x, y, z + 1), 0.3);
                }
            }
        }
    }
    for i in 0..nx * ny * nz {
        a.add_triplet(i, i, 0.1);
    }
    a.to_csr()
}

/// A random m × n block whose row `k` has an entry in column `order[k]`, so that its rows are
/// independent, and two or three more: (row, column, value).
fn constraints(m: usize, n: usize, rng: &mut StdRng) -> Vec<(usize, usize, f64)> {
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(rng);
    let mut entries = Vec::new();
    for k in 0..m {
        entries.push((k, order[k], signed_unit(rng) * 2.0));
        // Columns behind the own one make a trapezoid of full rank.
        for _ in 0..3 {
            if k + 1 < n {
                entries.push((
                    k,
                    order[rng.random_range(k + 1..n)],
                    rng.random_range(-1.0..1.0),
                ));
            }
        }
    }
    entries
}

/// A saddle-point system `[H Bᵀ; B 0]` with H sparse symmetric positive definite of order `n` and B
/// of full rank with `m` rows, as in incompressible flow or equality-constrained optimisation.
///
/// Symmetric indefinite with `m` negative eigenvalues; the last `m` diagonal entries are absent. The
/// order is `n + m`.
///
/// # Panics
///
/// If `m > n`.
#[track_caller]
pub fn saddle_point(n: usize, m: usize, seed: u64) -> CsMat<f64> {
    kkt(n, m, seed, |rng| rng.random_range(0.5..2.0))
}

/// The KKT matrix of an interior-point step, `[H + Σ Bᵀ; B 0]`: as [`saddle_point`], with a diagonal
/// Σ whose entries lie between `mu` and 1/`mu`, as variables near and far from their bounds make it.
///
/// The smaller `mu`, the worse the condition.
///
/// # Panics
///
/// If `m > n`, or `mu` is not between 0 and 1.
#[track_caller]
pub fn interior_point_kkt(n: usize, m: usize, mu: f64, seed: u64) -> CsMat<f64> {
    assert!(mu > 0.0 && mu <= 1.0, "mu is {mu}");
    kkt(n, m, seed, |rng| {
        if mu == 1.0 {
            1.0
        } else {
            log_uniform(rng, mu, 1.0 / mu)
        }
    })
}

#[track_caller]
fn kkt(n: usize, m: usize, seed: u64, diagonal: impl Fn(&mut StdRng) -> f64) -> CsMat<f64> {
    assert!(m <= n, "{m} constraints on {n} variables");
    let mut rng = rng(seed);
    let mut a = triplets(n + m);
    for i in 0..n {
        a.add_triplet(i, i, diagonal(&mut rng));
        if i > 0 && rng.random_bool(0.7) {
            // v·(xᵢ − xⱼ)² is positive semidefinite.
            let (j, v) = (rng.random_range(0..i), rng.random_range(0.1..1.0));
            a.add_triplet(i, i, v);
            a.add_triplet(j, j, v);
            a.add_triplet(i, j, -v);
            a.add_triplet(j, i, -v);
        }
    }
    for (k, j, v) in constraints(m, n, &mut rng) {
        a.add_triplet(n + k, j, v);
        a.add_triplet(j, n + k, v);
    }
    a.to_csr()
}

/// Linear elasticity on a bar of nx × ny × nz cubes with trilinear displacements, its face x = 0 clamped: three
/// unknowns a node, Poisson's ratio 0.3, and a stiffness that differs by up to ten times from cube to cube.
///
/// Symmetric positive definite, up to 81 entries a row. n = 3·nx·(ny + 1)·(nz + 1).
///
/// # Panics
///
/// If a size is zero.
#[track_caller]
pub fn elasticity_3d(nx: usize, ny: usize, nz: usize, seed: u64) -> CsMat<f64> {
    assert!(nx * ny * nz > 0, "a bar has cubes");
    let mut rng = rng(seed);
    let stiffness = cube_stiffness(0.3);
    let mut lower = triplets(3 * nx * (ny + 1) * (nz + 1));
    for (x, y, z) in (0..nx * ny * nz).map(|e| (e % nx, e / nx % ny, e / (nx * ny))) {
        let modulus = log_uniform(&mut rng, 1.0, 10.0);
        // First unknown of each corner; corners on the clamped face have none.
        let corners: [Option<usize>; 8] = std::array::from_fn(|corner| {
            let [dx, dy, dz] = corner_of_cube(corner);
            let column = (x + dx).checked_sub(1)?;
            Some(3 * ((column * (ny + 1) + y + dy) * (nz + 1) + z + dz))
        });
        for (i, row) in stiffness.iter().enumerate() {
            for (j, &value) in row.iter().enumerate() {
                if let (Some(p), Some(q)) = (corners[i / 3], corners[j / 3]) {
                    let (row, column) = (p + i % 3, q + j % 3);
                    if row >= column {
                        lower.add_triplet(row, column, modulus * value);
                    }
                }
            }
        }
    }
    // Summed once and then mirrored: the order of a sum must not break the symmetry.
    let lower: CsMat<f64> = lower.to_csr();
    let mut a = triplets(lower.rows());
    for (&value, (row, column)) in &lower {
        a.add_triplet(row, column, value);
        if row > column {
            a.add_triplet(column, row, value);
        }
    }
    a.to_csr()
}

/// Coordinates of a corner of the unit cube.
fn corner_of_cube(corner: usize) -> [usize; 3] {
    [corner & 1, corner >> 1 & 1, corner >> 2 & 1]
}

/// The stiffness matrix of the unit cube with Young's modulus 1, by two Gauss points in each direction. Unknown
/// 3·c + d is the displacement of corner c in direction d.
fn cube_stiffness(poisson: f64) -> [[f64; 24]; 24] {
    let lambda = poisson / ((1.0 + poisson) * (1.0 - 2.0 * poisson));
    let mu = 0.5 / (1.0 + poisson);
    let mut stiffness = [[0.0; 24]; 24];
    for point in 0..8 {
        let at = corner_of_cube(point).map(|side| 0.5 + (side as f64 - 0.5) / 3f64.sqrt());
        // Gradient of each corner's shape function: a product of u or 1 − u in each direction.
        let gradients: [[f64; 3]; 8] = std::array::from_fn(|corner| {
            let sides = corner_of_cube(corner);
            std::array::from_fn(|direction| {
                let factor = |d: usize| match (sides[d], d == direction) {
                    (0, true) => -1.0,
                    (_, true) => 1.0,
                    (0, false) => 1.0 - at[d],
                    (_, false) => at[d],
                };
                (0..3).map(factor).product()
            })
        });
        for (i, row) in stiffness.iter_mut().enumerate() {
            for (j, value) in row.iter_mut().enumerate() {
                let (g, h) = (gradients[i / 3], gradients[j / 3]);
                let (p, q) = (i % 3, j % 3);
                let dot: f64 = (0..3).map(|d| g[d] * h[d]).sum();
                let shear = g[q] * h[p] + if p == q { dot } else { 0.0 };
                *value += (lambda * (g[p] * h[q]) + mu * shear) / 8.0;
            }
        }
    }
    stiffness
}

/// The second difference on a line, 2 on the diagonal and −1 beside it. No fill in natural order, and
/// as many levels as columns.
pub fn laplacian_1d(n: usize) -> CsMat<f64> {
    laplacian_2d(n, 1).map(|&v| if v == 4.0 { 2.0 } else { v })
}

/// The five-point Laplacian on an nx × ny grid with Dirichlet boundary: 4 on the diagonal, −1 for
/// each neighbor.
pub fn laplacian_2d(nx: usize, ny: usize) -> CsMat<f64> {
    let mut a = triplets(nx * ny);
    for y in 0..ny {
        for x in 0..nx {
            let i = y * nx + x;
            a.add_triplet(i, i, 4.0);
            let right = (x + 1 < nx).then_some(i + 1);
            let above = (y + 1 < ny).then_some(i + nx);
            for j in [right, above].into_iter().flatten() {
                a.add_triplet(i, j, -1.0);
                a.add_triplet(j, i, -1.0);
            }
        }
    }
    a.to_csr()
}

/// Distillation columns in a row, each fed by the bottom of the one before: the linearised MESH
/// equations (mass, equilibrium, enthalpy) of `stages` stages with `components` components.
///
/// A stage has 2·`components` + 1 unknowns (liquid flows, temperature, vapour flows), coupled to the
/// stages above and below. The pattern is unsymmetric, most diagonal entries are absent and
/// coefficients span eight orders of magnitude. n = columns·stages·(2·components + 1).
pub fn staged_columns(columns: usize, stages: usize, components: usize, seed: u64) -> CsMat<f64> {
    fed_columns((columns, stages, components), seed, |column| {
        column.checked_sub(1)
    })
}

/// As [`staged_columns`], but the bottom of each column feeds two others, as where a train of columns splits a mixture: any two
/// are few columns apart, so that the condition does not grow with the number of columns.
pub fn branched_columns(columns: usize, stages: usize, components: usize, seed: u64) -> CsMat<f64> {
    fed_columns((columns, stages, components), seed, |column| {
        column.checked_sub(1).map(|before| before / 2)
    })
}

/// Columns fed by the bottom of the column that `feeder` tells of each.
fn fed_columns(
    (columns, stages, components): (usize, usize, usize),
    seed: u64,
    feeder: impl Fn(usize) -> Option<usize>,
) -> CsMat<f64> {
    let mut rng = rng(seed);
    let width = 2 * components + 1;
    let mut a = triplets(columns * stages * width);
    let base = |column: usize, stage: usize| (column * stages + stage) * width;
    for column in 0..columns {
        for stage in 0..stages {
            let here = base(column, stage);
            let (liquid, temperature, vapour) = (here, here + components, here + components + 1);
            // Liquid comes from the stage above, in stage 0 from the bottom of another column.
            let upstream = if stage > 0 {
                Some(base(column, stage - 1))
            } else {
                feeder(column).map(|column| base(column, stages - 1))
            };
            let below = (stage + 1 < stages).then(|| base(column, stage + 1));

            // Enthalpy balance, the first equation of the stage.
            for c in 0..components {
                a.add_triplet(here, liquid + c, rng.random_range(1e3..5e3));
                a.add_triplet(here, vapour + c, rng.random_range(1e4..5e4));
                if let Some(up) = upstream {
                    a.add_triplet(here, up + c, -rng.random_range(1e3..5e3));
                }
                if let Some(below) = below {
                    a.add_triplet(
                        here,
                        below + components + 1 + c,
                        -rng.random_range(1e4..5e4),
                    );
                }
            }
            a.add_triplet(here, temperature, rng.random_range(1e2..1e3));
            if let Some(up) = upstream {
                a.add_triplet(here, up + components, -rng.random_range(1e1..1e2));
            }
            // Mass balances.
            for c in 0..components {
                let row = here + 1 + c;
                a.add_triplet(row, liquid + c, 1.0);
                a.add_triplet(row, vapour + c, 1.0);
                if let Some(up) = upstream {
                    a.add_triplet(row, up + c, -1.0);
                }
                if let Some(below) = below {
                    a.add_triplet(row, below + components + 1 + c, -1.0);
                }
            }
            // Equilibrium: v = K(T)·l·V/L, where the ratio of the flows couples all components.
            for c in 0..components {
                let row = here + 1 + components + c;
                let k = log_uniform(&mut rng, 1e-2, 1e1);
                a.add_triplet(row, vapour + c, 1.0);
                a.add_triplet(row, liquid + c, -k);
                a.add_triplet(row, temperature, -k * rng.random_range(0.01..0.1));
                for other in (0..components).filter(|&other| other != c) {
                    a.add_triplet(row, liquid + other, k * rng.random_range(1e-4..1e-1));
                }
            }
        }
    }
    a.to_csr()
}

/// A random unsymmetric matrix of order `n` with about `per_row` entries a row, nonsingular for
/// almost every seed: entries of size 1 to 2 on a hidden transversal, smaller ones elsewhere. Most
/// diagonal entries are absent.
pub fn random_unsymmetric(n: usize, per_row: usize, seed: u64) -> CsMat<f64> {
    let mut rng = rng(seed);
    let mut transversal: Vec<usize> = (0..n).collect();
    transversal.shuffle(&mut rng);
    let mut a = triplets(n);
    for (i, &j) in transversal.iter().enumerate() {
        a.add_triplet(i, j, signed_unit(&mut rng));
        for _ in 1..per_row {
            let j = rng.random_range(0..n);
            a.add_triplet(i, j, rng.random_range(-0.9..0.9));
        }
    }
    a.to_csr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent_diagonals(a: &CsMat<f64>) -> usize {
        (0..a.rows()).filter(|&i| a.get(i, i).is_none()).count()
    }

    fn has_symmetric_pattern(a: &CsMat<f64>) -> bool {
        a.iter().all(|(_, (i, j))| a.get(j, i).is_some())
    }

    #[test]
    fn a_circuit_has_a_dense_rail_and_sources_without_diagonal() {
        let a = circuit(400, 1);
        let sources = 20;
        assert_eq!(a.rows(), 400 + sources);
        assert!(has_symmetric_pattern(&a));
        assert_eq!(absent_diagonals(&a), sources);
        let row_sizes: Vec<usize> = a.outer_iterator().map(|row| row.nnz()).collect();
        let mut others = row_sizes[1..].to_vec();
        others.sort_unstable();
        assert!(row_sizes[0] > 80 && row_sizes[0] > 4 * others[others.len() - 1]);
    }

    #[test]
    fn a_circuit_keeps_its_pattern_and_changes_its_values() {
        let steps = circuit_sequence(60, 4, 3);
        assert_eq!(steps[0], circuit(60, 4));
        for step in &steps[1..] {
            assert_eq!(step.indices(), steps[0].indices());
            assert_ne!(step.data(), steps[0].data());
        }
    }

    #[test]
    fn a_cube_resists_strain_and_nothing_else() {
        let stiffness = cube_stiffness(0.3);
        let work = |field: &dyn Fn([f64; 3]) -> [f64; 3]| {
            let corners = (0..8).flat_map(|c| field(corner_of_cube(c).map(|side| side as f64)));
            let u: Vec<f64> = corners.collect();
            let row = |i: usize| -> f64 { (0..24).map(|j| stiffness[i][j] * u[j]).sum() };
            (0..24).map(|i| u[i] * row(i)).sum::<f64>()
        };
        for rigid in [
            &(|_| [1.0, 2.0, 3.0]) as &dyn Fn([f64; 3]) -> [f64; 3],
            &|[x, y, _]| [-y, x, 0.0],
            &|[_, y, z]| [0.0, -z, y],
            &|[x, _, z]| [z, 0.0, -x],
        ] {
            assert!(work(rigid).abs() < 1e-13);
        }
        // Uniform strain: work of stress λ + 2μ on the unit cube; and of shear, μ.
        let (poisson, shear) = (0.3, 0.5 / 1.3);
        let lambda = poisson / (1.3 * 0.4);
        let stretched = work(&|[x, _, _]| [x, 0.0, 0.0]);
        assert!((stretched - (lambda + 2.0 * shear)).abs() < 1e-13);
        let sheared = work(&|[_, y, _]| [y, 0.0, 0.0]);
        assert!((sheared - shear).abs() < 1e-13);
    }

    #[test]
    fn a_clamped_bar_is_positive_definite() {
        let a = elasticity_3d(2, 1, 1, 7);
        assert_eq!(a.rows(), 3 * 2 * 2 * 2);
        assert_eq!(a.get(0, 0).map(|&v| v > 0.0), Some(true));
        let pattern = crate::convert::pattern_of(&a);
        let dense = luge_reference::Dense::from_csr(&pattern, a.data());
        let inertia = luge_reference::ldlt::ldlt_dense(&dense, luge_sparse::Form::Symmetric)
            .unwrap()
            .inertia();
        assert_eq!(inertia.positive, a.rows());
    }

    #[test]
    fn a_power_grid_has_a_source_on_each_corner() {
        let a = power_grid(3, 5, 4, 2);
        assert_eq!(a.rows(), 3 * 5 * 4 + 4);
        assert_eq!(absent_diagonals(&a), 4);
        // One node has one corner.
        assert_eq!(power_grid(1, 1, 1, 2).rows(), 2);
    }

    #[test]
    fn the_power_flow_jacobian_is_the_derivative() {
        let grid = Grid::new(30, 9);
        let jacobian = grid.jacobian();
        let (angles, magnitudes, n) = grid.unknowns();
        assert_eq!(jacobian.rows(), n);
        assert!(has_symmetric_pattern(&jacobian));
        let step = 1e-6;
        for bus in 0..30 {
            for (unknown, is_angle) in [(angles[bus], true), (magnitudes[bus], false)] {
                let Some(column) = unknown else { continue };
                let powers = |shift: f64| -> Vec<(f64, f64)> {
                    let mut moved = Grid::new(30, 9);
                    let state = if is_angle {
                        &mut moved.angle
                    } else {
                        &mut moved.magnitude
                    };
                    state[bus] += shift;
                    (0..30).map(|i| moved.power(i)).collect()
                };
                let (up, down) = (powers(step), powers(-step));
                for i in 0..30 {
                    let dp = (up[i].0 - down[i].0) / (2.0 * step);
                    let dq = (up[i].1 - down[i].1) / (2.0 * step);
                    for (row, expected) in [(angles[i], dp), (magnitudes[i], dq)] {
                        let Some(row) = row else { continue };
                        let found = jacobian.get(row, column).copied().unwrap_or(0.0);
                        assert!((found - expected).abs() < 1e-5, "({row}, {column})");
                    }
                }
            }
        }
    }

    #[test]
    fn convection_makes_values_unsymmetric_and_keeps_columns_conservative() {
        let still = convection_diffusion_2d(6, 5, 0.0);
        assert_eq!(still.transpose_view().to_csr(), still);
        let flowing = convection_diffusion_3d(6, 5, 4, 80.0);
        assert!(has_symmetric_pattern(&flowing));
        assert_ne!(flowing.transpose_view().to_csr(), flowing);
        assert_eq!(flowing.outer_iterator().map(|r| r.nnz()).max(), Some(7));
        // What leaves a cell arrives elsewhere: each column sums to the reaction.
        let mut sums = vec![0.0; flowing.cols()];
        for (v, (_, j)) in &flowing {
            sums[j] += v;
        }
        assert!(sums.iter().all(|s| (s - 0.1).abs() < 1e-12));
    }

    #[test]
    fn laplacians_have_their_stencils() {
        let line = laplacian_1d(33);
        assert_eq!(line.nnz(), 3 * 33 - 2);
        assert_eq!((line.get(5, 5), line.get(5, 6)), (Some(&2.0), Some(&-1.0)));
        let plane = laplacian_2d(4, 3);
        assert_eq!(plane.nnz(), 12 + 2 * (3 * 3 + 4 * 2));
        assert_eq!(laplacian_1d(0).rows(), 0);
    }

    #[test]
    fn staged_columns_are_unsymmetric_with_few_diagonals() {
        let a = staged_columns(2, 6, 4, 3);
        assert_eq!(a.rows(), 2 * 6 * 9);
        assert!(!has_symmetric_pattern(&a));
        assert!(absent_diagonals(&a) > a.rows() / 3);
    }

    #[test]
    fn branched_columns_are_fed_by_the_bottom_of_one_half_as_far() {
        let (stages, components) = (3, 2);
        let a = branched_columns(6, stages, components, 3);
        let size = stages * (2 * components + 1);
        assert_eq!(a.rows(), 6 * size);
        let column_of = |i: usize| i / size;
        let mut feeds: Vec<(usize, usize)> = Vec::new();
        for (_, (i, j)) in &a {
            if column_of(i) != column_of(j) {
                feeds.push((column_of(j), column_of(i)));
            }
        }
        feeds.sort_unstable();
        feeds.dedup();
        assert_eq!(feeds, [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)]);
    }

    #[test]
    fn a_random_matrix_has_the_size_asked_for() {
        for n in [0usize, 1, 31, 32, 33, 1025] {
            let a = random_unsymmetric(n, 4, 6);
            assert_eq!(a.rows(), n);
            assert!(a.nnz() <= 4 * n && a.nnz() >= n);
        }
    }
}
