//! Which matrices count in the geometric means, and the ratios.

use crate::report::{LUGE, Outcome};
use crate::results::{MatrixResult, Phase, Precision, Results};
use crate::statistics::Ratios;

/// Entries of L+U from which on a matrix counts in the geometric means.
pub const COUNTED_ENTRIES: u64 = 100_000;

/// The kinds of matrices that count in the geometric means.
pub const COUNTED_KINDS: [&str; 2] = ["circuit", "power"];

/// Whether a matrix counts in the geometric means.
pub fn counts(matrix: &MatrixResult) -> bool {
    COUNTED_KINDS.contains(&matrix.kind.as_str())
        && matrix
            .filled()
            .is_some_and(|filled| filled > COUNTED_ENTRIES)
}

/// Luge's time of a phase in a precision over that of a peer's in the precision that gives as good solutions,
/// for the matrices that count.
pub fn ratios(
    results: &Results,
    precision: Precision,
    luge_phase: Phase,
    peer: &str,
    peer_phase: Phase,
) -> Ratios {
    let mut ratios = Ratios::default();
    for matrix in results.matrices.iter().filter(|matrix| counts(matrix)) {
        let theirs = matrix.run(peer, precision.of_peer());
        let Some(theirs) = theirs.and_then(|run| run.seconds(peer_phase)) else {
            continue;
        };
        let ours = matrix.run(LUGE, precision);
        match ours.map(|run| (run, run.seconds(luge_phase))) {
            Some((_, Some(ours))) => ratios.of.push((matrix.name.clone(), ours / theirs)),
            Some((run, None)) if run.outcome != Outcome::Measured || run.failed_steps > 0 => {
                ratios.refused.push(matrix.name.clone());
            }
            _ => {}
        }
    }
    ratios
}
