//! Circuits of transistors at their operating point, by modified nodal analysis.
//!
//! A [`Netlist`] has nodes, conductances, branches that hold a voltage (sources, and inductors, which hold 0 V at
//! rest) and MOS transistors. Its unknowns are the voltages of the nodes, then the currents of the branches.
//! [`Netlist::operating_point`] finds the state at rest by Newton's method and gives the Jacobian there: the matrix
//! that a circuit simulator factorizes. [`multiplier`] and [`supply_grid`] make netlists of any size.
//!
//! The transistors follow the EKV model (Enz, Krummenacher and Vittoz, *An analytical MOS transistor model valid in
//! all regions of operation*, 1995) without second-order effects: one smooth expression from weak to strong
//! inversion, so that conductances span a dozen decades as those of real circuits do. A resistor lies in series
//! with each drain and source, as in the models of SPICE.

use std::fmt;

use num_complex::Complex;
use rand::Rng;
use sprs::{CsMat, TriMat};

use super::{log_uniform, rng, triplets};

/// Conductance from each node to ground, in siemens, as in SPICE.
const GMIN: f64 = 1e-12;
/// Conductance in series with drain and source.
const CONTACT: f64 = 0.02;
/// kT/q at room temperature, in volts.
const THERMAL_VOLTAGE: f64 = 0.02585;
/// Threshold voltage of both kinds of transistors.
const THRESHOLD: f64 = 0.35;
/// Slope factor of the model.
const SLOPE: f64 = 1.3;
/// Voltage of the supply.
const SUPPLY: f64 = 1.2;
/// Capacitance of a node to ground, in farads.
const WIRE: f64 = 1e-15;
/// Capacitance of a gate to drain or source, for each ampere of the current scale of its transistor.
const GATE_PER_AMPERE: f64 = 1e-10;
/// Inductance of a branch between two nodes, in henries.
const INDUCTANCE: f64 = 1e-10;
/// Largest change of a voltage in a step of Newton's method.
const LARGEST_STEP: f64 = 0.4;
/// Steps after which a circuit counts as one without an operating point.
const MOST_STEPS: usize = 300;

/// A node; `None` is ground.
type Terminal = Option<usize>;

/// The kind of a transistor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    /// Its bulk is on ground.
    N,
    /// Its bulk is on the supply.
    P,
}

/// A transistor behind its contacts.
#[derive(Debug, Clone, Copy)]
struct Transistor {
    channel: Channel,
    drain: Terminal,
    gate: Terminal,
    source: Terminal,
    /// Current scale, in amperes.
    scale: f64,
}

impl Transistor {
    /// The current from drain to source and its derivatives by the voltages of drain, gate and source.
    fn current(&self, drain: f64, gate: f64, source: f64) -> (f64, [f64; 3]) {
        // A p-channel is an n-channel seen from the supply; both mirror images cancel in the derivatives.
        let (sign, seen) = match self.channel {
            Channel::N => (1.0, [drain, gate, source]),
            Channel::P => (-1.0, [drain, gate, source].map(|v| SUPPLY - v)),
        };
        let pinch_off = (seen[1] - THRESHOLD) / SLOPE;
        let half = |v: f64| {
            let u = (pinch_off - v) / (2.0 * THERMAL_VOLTAGE);
            // ln(1 + eᵘ) and its derivative, without overflow.
            let soft = u.max(0.0) + (-u.abs()).exp().ln_1p();
            let slope = 1.0 / (1.0 + (-u).exp());
            (soft * soft, 2.0 * soft * slope / (2.0 * THERMAL_VOLTAGE))
        };
        let ((forward, by_source), (reverse, by_drain)) = (half(seen[2]), half(seen[0]));
        let current = sign * self.scale * (forward - reverse);
        let by_gate = (by_source - by_drain) / SLOPE;
        (
            current,
            [by_drain, by_gate, -by_source].map(|derivative| self.scale * derivative),
        )
    }
}

/// A circuit.
#[derive(Debug, Clone, Default)]
pub struct Netlist {
    /// What the voltage of each node probably is.
    guess: Vec<f64>,
    conductances: Vec<(Terminal, Terminal, f64)>,
    /// Branches that hold a voltage from the first node to the second.
    branches: Vec<(Terminal, Terminal, f64)>,
    transistors: Vec<Transistor>,
}

/// A circuit at rest.
#[derive(Debug, Clone)]
pub struct OperatingPoint {
    /// The Jacobian of the circuit's equations there, by rows.
    pub jacobian: CsMat<f64>,
    /// Voltages of the nodes, then currents of the branches.
    pub state: Vec<f64>,
    /// Steps that Newton's method took.
    pub steps: usize,
}

/// Newton's method did not end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoOperatingPoint {
    /// Steps that it took.
    pub steps: usize,
    /// Largest change of a voltage in the last one; infinite if a linear system could not be solved.
    pub change: f64,
}

impl fmt::Display for NoOperatingPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, change } = self;
        write!(
            f,
            "no operating point after {steps} steps of Newton's method: voltages still change by {change:.1e} V"
        )
    }
}

impl std::error::Error for NoOperatingPoint {}

impl Netlist {
    /// Number of unknowns.
    pub fn n(&self) -> usize {
        self.guess.len() + self.branches.len()
    }

    fn node(&mut self, guess: f64) -> usize {
        self.guess.push(guess);
        self.guess.len() - 1
    }

    fn guess_at(&self, terminal: Terminal) -> f64 {
        terminal.map_or(0.0, |node| self.guess[node])
    }

    /// A node behind a contact of `terminal`.
    fn contact(&mut self, terminal: Terminal) -> Terminal {
        let inner = self.node(self.guess_at(terminal));
        self.conductances.push((terminal, Some(inner), CONTACT));
        Some(inner)
    }

    fn transistor(&mut self, channel: Channel, [drain, gate, source]: [Terminal; 3], scale: f64) {
        let (drain, source) = (self.contact(drain), self.contact(source));
        self.transistors.push(Transistor {
            channel,
            drain,
            gate,
            source,
            scale,
        });
    }

    /// A node that a source holds at `volts`.
    fn held(&mut self, volts: f64) -> usize {
        let node = self.node(volts);
        self.branches.push((Some(node), None, volts));
        node
    }

    /// The Jacobian and the residual of the equations at a state. The pattern is the same at all states.
    fn linearize(&self, state: &[f64]) -> (CsMat<f64>, Vec<f64>) {
        let nodes = self.guess.len();
        let at = |terminal: Terminal| terminal.map_or(0.0, |node| state[node]);
        let mut a = triplets(self.n());
        let mut residual = vec![0.0; self.n()];
        let mut leave =
            |residual: &mut [f64], from: Terminal, current: f64, by: &[(Terminal, f64)]| {
                let Some(row) = from else { return };
                residual[row] += current;
                for &(terminal, derivative) in by {
                    if let Some(column) = terminal {
                        a.add_triplet(row, column, derivative);
                    }
                }
            };
        for (node, &voltage) in state[..nodes].iter().enumerate() {
            let node = Some(node);
            leave(&mut residual, node, GMIN * voltage, &[(node, GMIN)]);
        }
        for &(one, other, g) in &self.conductances {
            let current = g * (at(one) - at(other));
            leave(&mut residual, one, current, &[(one, g), (other, -g)]);
            leave(&mut residual, other, -current, &[(one, -g), (other, g)]);
        }
        for t in &self.transistors {
            let (current, by) = t.current(at(t.drain), at(t.gate), at(t.source));
            let terminals = [t.drain, t.gate, t.source];
            let by: [(Terminal, f64); 3] = std::array::from_fn(|k| (terminals[k], by[k]));
            leave(&mut residual, t.drain, current, &by);
            let back = by.map(|(terminal, derivative)| (terminal, -derivative));
            leave(&mut residual, t.source, -current, &back);
            // At rest no current flows into a gate; its places are there for other analyses, as in SPICE.
            leave(
                &mut residual,
                t.gate,
                0.0,
                &by.map(|(terminal, _)| (terminal, 0.0)),
            );
        }
        for (number, &(from, to, volts)) in self.branches.iter().enumerate() {
            let branch = nodes + number;
            let current = state[branch];
            residual[branch] = at(from) - at(to) - volts;
            for (terminal, sign) in [(from, 1.0), (to, -1.0)] {
                if let Some(node) = terminal {
                    residual[node] += sign * current;
                    a.add_triplet(node, branch, sign);
                    a.add_triplet(branch, node, sign);
                }
            }
        }
        (a.to_csr(), residual)
    }

    /// G + iωC at this state: the matrix of small signals at a frequency in hertz, with the Jacobian for G. C has the gates'
    /// capacitances to drain and source, which follow the size of the transistor, and that of each wire to ground; branches between
    /// two nodes are inductors.
    pub fn at_frequency(&self, rest: &OperatingPoint, hertz: f64) -> CsMat<Complex<f64>> {
        let omega = 2.0 * std::f64::consts::PI * hertz;
        let nodes = self.guess.len();
        let mut a = TriMat::new((self.n(), self.n()));
        for (&g, (i, j)) in &rest.jacobian {
            a.add_triplet(i, j, Complex::from(g));
        }
        let mut capacitor = |one: Terminal, other: Terminal, farad: f64| {
            let admittance = Complex::new(0.0, omega * farad);
            for (from, to) in [(one, other), (other, one)] {
                let Some(row) = from else { continue };
                a.add_triplet(row, row, admittance);
                if let Some(column) = to {
                    a.add_triplet(row, column, -admittance);
                }
            }
        };
        for node in 0..nodes {
            capacitor(Some(node), None, WIRE);
        }
        for t in &self.transistors {
            for end in [t.drain, t.source] {
                capacitor(t.gate, end, GATE_PER_AMPERE * t.scale);
            }
        }
        for (number, &(from, to, _)) in self.branches.iter().enumerate() {
            if from.is_some() && to.is_some() {
                let branch = nodes + number;
                a.add_triplet(branch, branch, Complex::new(0.0, -omega * INDUCTANCE));
            }
        }
        a.to_csr()
    }

    /// The state at rest. `solve` solves linear systems, all of one pattern; `None` if it cannot.
    ///
    /// # Errors
    ///
    /// [`NoOperatingPoint`] if Newton's method does not end, or `solve` refuses.
    pub fn operating_point(
        &self,
        mut solve: impl FnMut(&CsMat<f64>, &[f64]) -> Option<Vec<f64>>,
    ) -> Result<OperatingPoint, NoOperatingPoint> {
        let nodes = self.guess.len();
        let mut state = self.guess.clone();
        state.resize(self.n(), 0.0);
        let mut change = f64::INFINITY;
        for steps in 0..MOST_STEPS {
            let (jacobian, residual) = self.linearize(&state);
            if change < 1e-9 {
                return Ok(OperatingPoint {
                    jacobian,
                    state,
                    steps,
                });
            }
            let Some(step) = solve(&jacobian, &residual) else {
                return Err(NoOperatingPoint {
                    steps,
                    change: f64::INFINITY,
                });
            };
            change = step[..nodes].iter().fold(0.0, |most, v| v.abs().max(most));
            for (value, step) in state[..nodes].iter_mut().zip(&step) {
                *value -= step.clamp(-LARGEST_STEP, LARGEST_STEP);
            }
            for (value, step) in state[nodes..].iter_mut().zip(&step[nodes..]) {
                *value -= step;
            }
        }
        Err(NoOperatingPoint {
            steps: MOST_STEPS,
            change,
        })
    }
}

/// A wire of a logic circuit: its node, and whether it is high.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// Number of the node, which is also that of its voltage among the unknowns.
    pub node: usize,
    /// Whether it is high.
    pub high: bool,
}

/// Gates on a supply.
struct Logic {
    netlist: Netlist,
    supply: Terminal,
    /// Current scale of the transistors; each differs from it by up to a tenth.
    scale: f64,
    rng: rand::rngs::StdRng,
}

impl Logic {
    fn new(seed: u64) -> Self {
        let mut netlist = Netlist::default();
        let supply = Some(netlist.held(SUPPLY));
        Self {
            netlist,
            supply,
            scale: 4e-6,
            rng: rng(seed),
        }
    }

    fn scale(&mut self) -> f64 {
        self.scale * self.rng.random_range(0.9..1.1)
    }

    fn level(high: bool) -> f64 {
        if high { SUPPLY } else { 0.0 }
    }

    fn input(&mut self, high: bool) -> Wire {
        let node = self.netlist.held(Self::level(high));
        Wire { node, high }
    }

    fn inverter(&mut self, a: Wire) -> Wire {
        let high = !a.high;
        let node = self.netlist.node(Self::level(high));
        let (out, gate) = (Some(node), Some(a.node));
        let (p, n) = (self.scale(), self.scale());
        self.netlist
            .transistor(Channel::P, [out, gate, self.supply], p);
        self.netlist.transistor(Channel::N, [out, gate, None], n);
        Wire { node, high }
    }

    fn nand(&mut self, a: Wire, b: Wire) -> Wire {
        let high = !(a.high && b.high);
        let node = self.netlist.node(Self::level(high));
        // Between the two n-channels: on ground, below what the upper one lets pass, or left alone.
        let between = match (a.high, b.high) {
            (_, true) => 0.0,
            (true, false) => (SUPPLY - THRESHOLD) / SLOPE,
            (false, false) => 0.05,
        };
        let between = Some(self.netlist.node(between));
        let out = Some(node);
        for gate in [a, b] {
            let scale = self.scale();
            self.netlist
                .transistor(Channel::P, [out, Some(gate.node), self.supply], scale);
        }
        let (upper, lower) = (self.scale(), self.scale());
        self.netlist
            .transistor(Channel::N, [out, Some(a.node), between], upper);
        self.netlist
            .transistor(Channel::N, [between, Some(b.node), None], lower);
        Wire { node, high }
    }

    fn and(&mut self, a: Wire, b: Wire) -> Wire {
        let nand = self.nand(a, b);
        self.inverter(nand)
    }

    /// Sum and carry of three wires, of nine gates.
    fn full_adder(&mut self, a: Wire, b: Wire, carry: Wire) -> (Wire, Wire) {
        let ab = self.nand(a, b);
        let (one, other) = (self.nand(a, ab), self.nand(b, ab));
        let half = self.nand(one, other);
        let with_carry = self.nand(half, carry);
        let (one, other) = (self.nand(half, with_carry), self.nand(carry, with_carry));
        (self.nand(one, other), self.nand(ab, with_carry))
    }
}

/// An array multiplier of two random numbers of `bits` bits, in CMOS gates: about 105·`bits`² unknowns, an almost
/// full row and column for the supply, and a zero on the diagonal for each source. Also gives the wires of the
/// product, from the lowest bit on.
///
/// # Panics
///
/// If `bits` is zero.
#[track_caller]
pub fn multiplier(bits: usize, seed: u64) -> (Netlist, Vec<Wire>) {
    assert!(bits > 0, "a number has at least one bit");
    let mut logic = Logic::new(seed);
    let number = |logic: &mut Logic| -> Vec<Wire> {
        (0..bits)
            .map(|_| {
                let high = logic.rng.random_bool(0.5);
                logic.input(high)
            })
            .collect()
    };
    let (a, b) = (number(&mut logic), number(&mut logic));
    let zero = logic.input(false);
    let mut product = Vec::new();
    // What the rows so far sum up to, from the lowest bit that later rows reach on.
    let mut sum = vec![zero; bits];
    for &factor in &b {
        let mut carry = zero;
        let mut next = Vec::with_capacity(bits + 1);
        for (&digit, &above) in a.iter().zip(&sum) {
            let partial = logic.and(digit, factor);
            let (digit, out) = logic.full_adder(partial, above, carry);
            next.push(digit);
            carry = out;
        }
        next.push(carry);
        product.push(next.remove(0));
        sum = next;
    }
    product.extend(sum);
    (logic.netlist, product)
}

/// A supply grid on a chip at rest: `layers` meshes of `width` × `height` nodes with vias between them, the corners
/// of the highest on a source through the inductors of the package, and an inverter that biases itself, which
/// draws current, on every sixteenth node of the lowest.
///
/// # Panics
///
/// If a size is zero.
#[track_caller]
pub fn supply_grid(layers: usize, width: usize, height: usize, seed: u64) -> Netlist {
    assert!(layers * width * height > 0, "a grid has nodes");
    let mut rng = rng(seed);
    let mut netlist = Netlist::default();
    let node = |layer: usize, x: usize, y: usize| (layer * height + y) * width + x;
    netlist.guess = vec![SUPPLY; layers * width * height];
    for layer in 0..layers {
        for y in 0..height {
            for x in 0..width {
                let here = Some(node(layer, x, y));
                // Wires of each layer run in one direction, with a weak link across.
                let (along, across) = if layer % 2 == 0 {
                    (5.0, 0.5)
                } else {
                    (0.5, 5.0)
                };
                let mut link = |other: usize, g: f64| {
                    let g = g * rng.random_range(0.8..1.2);
                    netlist.conductances.push((here, Some(other), g));
                };
                if x + 1 < width {
                    link(node(layer, x + 1, y), along);
                }
                if y + 1 < height {
                    link(node(layer, x, y + 1), across);
                }
                if layer + 1 < layers && (x + y) % 2 == 0 {
                    link(node(layer + 1, x, y), 20.0);
                }
            }
        }
    }
    let source = Some(netlist.held(SUPPLY));
    let mut corners: Vec<usize> = [
        (0, 0),
        (width - 1, 0),
        (0, height - 1),
        (width - 1, height - 1),
    ]
    .map(|(x, y)| node(layers - 1, x, y))
    .to_vec();
    corners.dedup();
    for corner in corners {
        let bump = Some(netlist.node(SUPPLY));
        netlist.branches.push((source, bump, 0.0));
        netlist.conductances.push((bump, Some(corner), 50.0));
    }
    for bottom in (0..width * height).step_by(16) {
        let out = Some(netlist.node(0.5 * SUPPLY));
        let scale = log_uniform(&mut rng, 1e-7, 1e-5);
        netlist.transistor(Channel::P, [out, out, Some(bottom)], scale);
        netlist.transistor(Channel::N, [out, out, None], scale);
    }
    netlist
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::pattern_of;
    use luge_reference::Dense;
    use luge_reference::numeric::lu_dense;
    use luge_reference::solve::dense_solve;
    use luge_sparse::PivotPolicy;

    /// With rows scaled to one.
    fn solve(a: &CsMat<f64>, b: &[f64]) -> Option<Vec<f64>> {
        let mut dense = Dense::from_csr(&pattern_of(a), a.data());
        let mut b = b.to_vec();
        for i in 0..b.len() {
            let largest = (0..b.len()).fold(0.0, |most: f64, j| dense[(i, j)].abs().max(most));
            (0..b.len()).for_each(|j| dense[(i, j)] /= largest);
            b[i] /= largest;
        }
        let lu = lu_dense(&dense, PivotPolicy::PARTIAL).ok()?;
        Some(dense_solve(&lu, &b))
    }

    #[test]
    fn at_a_frequency_charge_is_kept_and_inductors_take_voltage() {
        let netlist = supply_grid(2, 4, 4, 1);
        let rest = netlist.operating_point(solve).unwrap();
        let omega = 2.0 * std::f64::consts::PI * 1e9;
        let a = netlist.at_frequency(&rest, 1e9);
        let nodes = netlist.guess.len();
        for (value, (i, j)) in &a {
            assert_eq!(value.re, rest.jacobian.get(i, j).copied().unwrap_or(0.0));
        }
        let mut leaving = vec![0.0; a.cols()];
        let mut most: f64 = 0.0;
        for (value, (i, j)) in &a {
            if i < nodes {
                leaving[j] += value.im;
                most = most.max(value.im.abs());
            }
        }
        // What goes into a gate comes out of drain and source; what goes into a wire goes to ground.
        assert!(most > 1.01 * omega * WIRE, "gates have capacitances");
        for &current in &leaving[..nodes] {
            assert!((current / (omega * WIRE) - 1.0).abs() < 1e-9);
        }
        // The first branch is the source, the others are those to the corners.
        assert_eq!(a.get(nodes, nodes), None);
        for branch in nodes + 1..netlist.n() {
            let expected = Complex::new(0.0, -omega * INDUCTANCE);
            assert_eq!(a.get(branch, branch), Some(&expected));
        }
        let still = netlist.at_frequency(&rest, 0.0);
        assert!(still.data().iter().all(|v| v.im == 0.0));
    }

    #[test]
    fn derivatives_are_those_of_the_current() {
        for channel in [Channel::N, Channel::P] {
            let t = Transistor {
                channel,
                drain: None,
                gate: None,
                source: None,
                scale: 1e-6,
            };
            for at in [
                [1.0, 0.7, 0.1],
                [0.1, 0.9, 0.8],
                [0.6, 0.3, 0.6],
                [0.2, 1.1, 0.0],
            ] {
                let of = |v: [f64; 3]| t.current(v[0], v[1], v[2]);
                let (_, derivatives) = of(at);
                for k in 0..3 {
                    let h = 1e-6;
                    let (mut up, mut down) = (at, at);
                    up[k] += h;
                    down[k] -= h;
                    let difference = (of(up).0 - of(down).0) / (2.0 * h);
                    let tolerance = 1e-6 * derivatives.iter().fold(0.0, |m: f64, d| d.abs().max(m));
                    assert!(
                        (difference - derivatives[k]).abs() <= tolerance,
                        "{channel:?} at {at:?}: {difference:e}, {derivatives:?}"
                    );
                }
            }
            let (current, _) = t.current(1.0, 0.6, 0.2);
            assert!(current > 0.0, "from high to low, {channel:?}");
        }
    }

    #[test]
    fn the_multiplier_multiplies_in_volts() {
        for (bits, seed) in [(1, 3), (2, 1), (2, 5)] {
            let (netlist, product) = multiplier(bits, seed);
            let expected = {
                // The supply is node 0, then come the inputs.
                let number = |first: usize| -> usize {
                    (0..bits)
                        .map(|k| usize::from(netlist.guess[first + k] > 0.6) << k)
                        .sum()
                };
                number(1) * number(1 + bits)
            };
            let point = netlist.operating_point(solve).expect("it comes to rest");
            assert_eq!(product.len(), 2 * bits);
            let read: usize = product
                .iter()
                .enumerate()
                .map(|(k, wire)| usize::from(point.state[wire.node] > 0.5 * SUPPLY) << k)
                .sum();
            assert_eq!(read, expected, "{bits} bits, seed {seed}");
            let logic = |wire: &Wire| wire.high == (point.state[wire.node] > 0.5 * SUPPLY);
            assert!(product.iter().all(logic));
        }
    }

    #[test]
    fn the_jacobian_is_that_of_a_circuit() {
        let (netlist, _) = multiplier(2, 1);
        let point = netlist.operating_point(solve).expect("it comes to rest");
        let a = &point.jacobian;
        assert_eq!(a.rows(), netlist.n());
        let (_, residual) = netlist.linearize(&point.state);
        assert!(
            residual.iter().all(|r| r.abs() < 1e-12),
            "Kirchhoff's laws hold"
        );
        let absent = (0..a.rows()).filter(|&i| a.get(i, i).is_none()).count();
        assert_eq!(
            absent,
            1 + 2 * 2 + 1,
            "a branch for the supply, each input, and the constant"
        );
        assert!(
            pattern_of(a) == pattern_of(&a.transpose_view().to_csr()),
            "symmetric pattern"
        );
        assert!(a.transpose_view().to_csr() != *a, "unsymmetric values");
        let zeros = a.data().iter().filter(|&&v| v == 0.0).count();
        assert!(
            10 * zeros > a.nnz(),
            "{zeros} of {} places for other analyses",
            a.nnz()
        );
        let longest = a.outer_iterator().map(|row| row.nnz()).max();
        assert!(
            longest > Some(a.rows() / 12),
            "a dense row of the supply: {longest:?}"
        );
        let sizes = a.data().iter().map(|v| v.abs()).filter(|&v| v > 0.0);
        let (low, high) = sizes.fold((f64::MAX, 0.0), |(l, h): (f64, f64), v| {
            (l.min(v), h.max(v))
        });
        assert!(high / low > 1e10, "{low:e} to {high:e}");
    }

    #[test]
    fn a_supply_grid_comes_to_rest_below_its_supply() {
        let netlist = supply_grid(2, 9, 8, 4);
        let point = netlist.operating_point(solve).expect("it comes to rest");
        let grid = &point.state[..2 * 72];
        assert!(
            grid.iter().all(|&v| v > 0.5 * SUPPLY && v < SUPPLY),
            "{grid:?}"
        );
        let next = supply_grid(2, 9, 8, 4)
            .operating_point(solve)
            .expect("as before");
        assert_eq!(next.jacobian, point.jacobian);
    }

    #[test]
    fn a_solver_that_refuses_is_an_error() {
        let (netlist, _) = multiplier(1, 1);
        let refused = netlist.operating_point(|_, _| None).unwrap_err();
        assert_eq!(refused.steps, 0);
        let useless = netlist
            .operating_point(|_, b| Some(vec![1.0; b.len()]))
            .unwrap_err();
        assert_eq!(useless.steps, MOST_STEPS);
    }
}
