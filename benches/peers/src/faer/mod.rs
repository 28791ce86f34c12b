//! faer: its sparse LU with COLAMD and partial pivoting, simplicial or supernodal as faer decides, and in
//! [`FaerSymmetric`] its factorizations of symmetric matrices.
//!
//! Default options. LU has no refactorization on kept pivots and does not tell the size of its factors.

mod symmetric;

pub use symmetric::FaerSymmetric;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::sparse::linalg::LuError;
use faer::sparse::linalg::lu::{LuRef, NumericLu, SymbolicLu, factorize_symbolic_lu};
use faer::sparse::{FaerError, SparseColMatRef, SymbolicSparseColMatRef};
use faer::traits::ComplexField;
use faer::{Conj, MatMut, Par};
use luge_sparse::Scalar;

use crate::{Matrix, Peer, PeerError, Statistics, assert_right_hand_sides};

/// One matrix in faer.
pub struct Faer<T = f64> {
    par: Par,
    /// Its own threads, if it may use more than one.
    pool: Option<Arc<rayon::ThreadPool>>,
    symbolic: Option<SymbolicLu<u32>>,
    numeric: Option<NumericLu<u32, T>>,
    n: usize,
    /// Workspace of a solve with that many right-hand sides.
    workspace: Option<(usize, MemBuffer)>,
}

impl<T: ComplexField> Faer<T> {
    /// A solver that may use `threads` threads.
    pub fn new(threads: usize) -> Self {
        let (pool, par) = own_threads(threads);
        Self {
            par,
            pool,
            symbolic: None,
            numeric: None,
            n: 0,
            workspace: None,
        }
    }

    fn solve_by(
        &mut self,
        x: &mut [T],
        nrhs: usize,
        solve: impl Fn(LuRef<'_, u32, T>, MatMut<'_, T>, Par, &mut MemStack) + Sync,
    ) -> Result<(), PeerError> {
        let (Some(symbolic), Some(numeric)) = (&self.symbolic, &self.numeric) else {
            return Err(PeerError::OutOfOrder);
        };
        assert_right_hand_sides(self.n, x, nrhs);
        let par = self.par;
        if self.workspace.as_ref().is_none_or(|(of, _)| *of != nrhs) {
            // The transposed solve asks for the same.
            let size = symbolic.solve_in_place_scratch::<T>(nrhs, par);
            self.workspace = Some((nrhs, MemBuffer::new(size)));
        }
        let Some((_, workspace)) = &mut self.workspace else {
            unreachable!("it was made above");
        };
        let lu = LuRef::new_unchecked(symbolic, numeric);
        let x = MatMut::from_column_major_slice_mut(x, self.n, nrhs);
        within(self.pool.as_deref(), || {
            solve(lu, x, par, MemStack::new(workspace));
            Ok(())
        })
    }
}

const VERSION: &str = "faer 0.24";

/// Threads of a solver that may use more than one, and what tells faer to use them.
fn own_threads(threads: usize) -> (Option<Arc<rayon::ThreadPool>>, Par) {
    let pool = (threads > 1)
        .then(|| rayon::ThreadPoolBuilder::new().num_threads(threads).build())
        .and_then(Result::ok)
        .map(Arc::new);
    let par = match &pool {
        Some(_) => Par::rayon(threads),
        None => Par::Seq,
    };
    (pool, par)
}

/// Runs `step` on the threads of `pool`; a panic of faer's becomes an error.
fn within<R: Send>(
    pool: Option<&rayon::ThreadPool>,
    step: impl FnOnce() -> Result<R, PeerError> + Send,
) -> Result<R, PeerError> {
    let caught = catch_unwind(AssertUnwindSafe(|| match pool {
        Some(pool) => pool.install(step),
        None => step(),
    }));
    caught.unwrap_or_else(|_| Err(PeerError::Failed("faer panicked".to_owned())))
}

fn general(error: FaerError) -> PeerError {
    match error {
        FaerError::OutOfMemory => PeerError::OutOfMemory,
        FaerError::IndexOverflow => PeerError::TooLarge,
        other => PeerError::Failed(format!("{other:?}")),
    }
}

fn pattern<T: Scalar>(a: &Matrix<T>) -> SymbolicSparseColMatRef<'_, u32> {
    SymbolicSparseColMatRef::new_checked(a.n(), a.n(), a.col_ptr(), None, a.row_idx())
}

impl<T: Scalar + ComplexField> Peer<T> for Faer<T> {
    fn name(&self) -> &'static str {
        "faer"
    }

    fn version(&self) -> String {
        VERSION.to_owned()
    }

    fn analyze(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        self.drop_analysis();
        self.n = a.n();
        let pattern = pattern(a);
        let symbolic = within(self.pool.as_deref(), || {
            factorize_symbolic_lu(pattern, Default::default()).map_err(general)
        })?;
        self.symbolic = Some(symbolic);
        Ok(())
    }

    fn factorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        let symbolic = self.symbolic.as_ref().ok_or(PeerError::OutOfOrder)?;
        self.numeric = None;
        let par = self.par;
        let a = SparseColMatRef::new(pattern(a), a.values());
        let numeric = within(self.pool.as_deref(), || {
            let mut numeric = NumericLu::new();
            let size = symbolic.factorize_numeric_lu_scratch::<T>(par, Default::default());
            let mut workspace = MemBuffer::try_new(size).map_err(|_| PeerError::OutOfMemory)?;
            symbolic
                .factorize_numeric_lu(
                    &mut numeric,
                    a,
                    par,
                    MemStack::new(&mut workspace),
                    Default::default(),
                )
                .map_err(|error| match error {
                    LuError::Generic(error) => general(error),
                    LuError::SymbolicSingular { index } => PeerError::Singular(Some(index as u64)),
                })?;
            Ok(numeric)
        })?;
        self.numeric = Some(numeric);
        Ok(())
    }

    fn refactorize(&mut self, _: &Matrix<T>) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }

    fn solve(&mut self, x: &mut [T], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(x, nrhs, |lu, x, par, stack| {
            lu.solve_in_place_with_conj(Conj::No, x, par, stack);
        })
    }

    fn solve_transpose(&mut self, x: &mut [T], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(x, nrhs, |lu, x, par, stack| {
            lu.solve_transpose_in_place_with_conj(Conj::No, x, par, stack);
        })
    }

    fn statistics(&mut self) -> Statistics {
        Statistics::default()
    }

    fn drop_factors(&mut self) {
        self.numeric = None;
        self.workspace = None;
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        self.symbolic = None;
    }
}
