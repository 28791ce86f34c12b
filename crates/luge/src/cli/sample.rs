//! Matrices made on the spot, so that the command can be tried without a file.

use clap::ValueEnum;
use luge_sparse::MAX_DIMENSION;
use sprs::{CsMat, TriMat};

/// Which matrix to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sample {
    /// Convection and diffusion on a square grid of SIZE by SIZE points: unsymmetric values on a
    /// symmetric pattern.
    Grid,
    /// A ladder of SIZE resistor stages with voltage sources and controlled sources: zeros on the
    /// diagonal, values over nine orders of magnitude, one dense supply row.
    Circuit,
}

impl Sample {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Circuit => "circuit",
        }
    }

    /// Bytes that it takes to make one, about; `None` if it would have more rows than a matrix may have.
    pub(crate) fn bytes(self, size: u64) -> Option<u64> {
        let (n, entries) = match self {
            Self::Grid => {
                let n = size.checked_mul(size)?;
                (n, n.checked_mul(5)?)
            }
            // The triplets: nine for each stage, three for every tenth.
            Self::Circuit => {
                let n = size.checked_add(size / 10)?.checked_add(2)?;
                (n, n.checked_mul(9)?)
            }
        };
        // A triplet is two indices and a value; the matrix has an index and a value for each entry.
        let bytes = entries.checked_mul(24 + 16)?.checked_add(8 * n)?;
        (n <= MAX_DIMENSION as u64).then_some(bytes)
    }

    pub(crate) fn generate(self, size: usize) -> CsMat<f64> {
        match self {
            Self::Grid => grid(size),
            Self::Circuit => circuit(size),
        }
    }
}

/// Upwind differences of −Δu + 20·(2, 1)·∇u on the unit square with zero boundary values, rows
/// multiplied by h².
fn grid(size: usize) -> CsMat<f64> {
    let h = 1.0 / (size as f64 + 1.0);
    let wind = [40.0 * h, 20.0 * h];
    let mut a = TriMat::new((size * size, size * size));
    for y in 0..size {
        for x in 0..size {
            let here = y * size + x;
            a.add_triplet(here, here, 4.0 + wind[0] + wind[1]);
            if x > 0 {
                a.add_triplet(here, here - 1, -1.0 - wind[0]);
            }
            if x + 1 < size {
                a.add_triplet(here, here + 1, -1.0);
            }
            if y > 0 {
                a.add_triplet(here, here - size, -1.0 - wind[1]);
            }
            if y + 1 < size {
                a.add_triplet(here, here + size, -1.0);
            }
        }
    }
    a.to_csr()
}

/// Modified nodal analysis of the ladder: node 0 is the supply, held by a voltage source; stage k
/// has a resistor to the stage before, one to ground and one to the supply, and every tenth stage a
/// source that repeats the voltage of the stage before it. Unknowns are the node voltages, then the
/// currents of the sources.
fn circuit(size: usize) -> CsMat<f64> {
    let nodes = size + 1;
    let followers: Vec<usize> = (10..nodes).step_by(10).collect();
    let n = nodes + 1 + followers.len();
    let mut a = TriMat::new((n, n));
    let mut conductance = |i: usize, j: Option<usize>, g: f64| {
        a.add_triplet(i, i, g);
        if let Some(j) = j {
            a.add_triplet(j, j, g);
            a.add_triplet(i, j, -g);
            a.add_triplet(j, i, -g);
        }
    };
    for k in 1..nodes {
        // Conductances from 1e-9 to 1e-1, in no particular order.
        let decade = |salt: usize| 10f64.powi(-1 - (((7 * k + salt) * 5) % 9) as i32);
        conductance(k, Some(k - 1), decade(0));
        conductance(k, None, decade(3));
        conductance(k, Some(0), decade(6));
    }
    a.add_triplet(0, nodes, 1.0);
    a.add_triplet(nodes, 0, 1.0);
    for (source, &k) in followers.iter().enumerate() {
        let current = nodes + 1 + source;
        a.add_triplet(k, current, 1.0);
        a.add_triplet(current, k, 1.0);
        a.add_triplet(current, k - 5, -1.0);
    }
    a.to_csr()
}
