//! Solves the five-point Laplacian on a square grid, whose side is the first argument, and prints the backward error.
//!
//! ```sh
//! cargo run --release --example solve --no-default-features -- 300
//! ```

use std::error::Error;

use luge::{Options, Solver};
use sprs::{CsMat, TriMat};

fn main() -> Result<(), Box<dyn Error>> {
    let side: usize = match std::env::args().nth(1) {
        Some(side) => side.parse()?,
        None => 100,
    };
    let n = side * side;
    let mut triplets = TriMat::new((n, n));
    for v in 0..n {
        triplets.add_triplet(v, v, 4.0);
        let right = (v % side + 1 < side).then_some(v + 1);
        let below = Some(v + side).filter(|&w| w < n);
        for w in right.into_iter().chain(below) {
            triplets.add_triplet(v, w, -1.0);
            triplets.add_triplet(w, v, -1.0);
        }
    }
    let a: CsMat<f64> = triplets.to_csr();
    let factors = Solver::new(Options::default())?
        .analyze(&a)?
        .factorize(&a)?;
    let solution = factors.solve(&vec![1.0; n])?;
    println!(
        "{n} unknowns on {}, backward error {:?}, middle {}",
        solution.inform.device,
        solution.inform.backward_error,
        solution.x[n / 2]
    );
    Ok(())
}
