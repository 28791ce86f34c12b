//! The numbers of matrices that peers are made for.

use std::sync::Arc;

use luge_sparse::Scalar;
use num_complex::Complex;

use crate::{Found, Peer, Structure, cholmod, mumps, pardiso, spral, superlu};

/// `f64`, which every peer takes, and `Complex<f64>`, which some do.
///
/// In memory a number is its components, the real part first, as C libraries have it.
pub trait PeerScalar: Scalar {
    /// faer's LU.
    #[cfg(feature = "faer")]
    #[doc(hidden)]
    fn faer(threads: usize) -> Box<dyn Peer<Self>>;

    /// A solver of those that are for real matrices alone; `None` if `found` has none that is told this.
    #[doc(hidden)]
    fn real_solver(
        found: &Found,
        structure: Structure,
        threads: usize,
    ) -> Option<Box<dyn Peer<Self>>>;
}

impl PeerScalar for f64 {
    #[cfg(feature = "faer")]
    fn faer(threads: usize) -> Box<dyn Peer> {
        Box::new(crate::faer::Faer::<Self>::new(threads))
    }

    fn real_solver(found: &Found, structure: Structure, threads: usize) -> Option<Box<dyn Peer>> {
        Some(match found {
            // These are for either field.
            Found::Klu(_) | Found::Umfpack(_) => return None,
            Found::Superlu(library) => {
                Box::new(superlu::Superlu::new(Arc::clone(library), threads))
            }
            Found::Mumps(library) => {
                Box::new(mumps::Mumps::new(Arc::clone(library), structure, threads))
            }
            Found::Cholmod(library) => {
                Box::new(cholmod::Cholmod::new(Arc::clone(library), threads))
            }
            Found::Spral(library) => {
                Box::new(spral::Spral::new(Arc::clone(library), structure, threads))
            }
            Found::Pardiso(library) => Box::new(pardiso::Pardiso::new(
                Arc::clone(library),
                structure,
                threads,
            )),
            Found::PardisoMatched(library) => {
                Box::new(pardiso::Pardiso::new(Arc::clone(library), structure, threads).matched())
            }
            #[cfg(feature = "faer")]
            Found::Faer => Box::new(crate::faer::FaerSymmetric::new(structure, threads)),
            #[cfg(feature = "feral")]
            Found::Feral => Box::new(crate::feral::Feral::new(threads)),
        })
    }
}

impl PeerScalar for Complex<f64> {
    #[cfg(feature = "faer")]
    fn faer(threads: usize) -> Box<dyn Peer<Self>> {
        Box::new(crate::faer::Faer::<Self>::new(threads))
    }

    fn real_solver(_: &Found, _: Structure, _: usize) -> Option<Box<dyn Peer<Self>>> {
        None
    }
}
