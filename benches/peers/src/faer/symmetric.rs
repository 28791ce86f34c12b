//! faer's factorizations of symmetric matrices: Cholesky's L·Lᵀ, simplicial or supernodal as faer decides, of definite ones,
//! and L·B·Lᵀ with Bunch–Kaufman pivots of order 1 and 2 of the others.
//!
//! Default options, with AMD, but that L·B·Lᵀ is always supernodal: faer's simplicial L·D·Lᵀ, which it would take for thin
//! factors, does not look for pivots. L·B·Lᵀ looks for them within a supernode and delays none, whatever their size, so
//! factors of indefinite matrices may be of no use, and nothing says so. The inertia is counted here from the blocks of B.

use std::sync::Arc;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{LltError, LltRegularization};
use faer::perm::PermRef;
use faer::sparse::linalg::SupernodalThreshold;
use faer::sparse::linalg::cholesky::supernodal::SupernodalIntranodeLbltRef;
use faer::sparse::linalg::cholesky::{
    CholeskySymbolicParams, IntranodeLbltRef, LltRef, SymbolicCholesky, SymbolicCholeskyRaw,
    SymmetricOrdering, factorize_symbolic_cholesky,
};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Conj, MatMut, Par, Side};

use super::{VERSION, general, own_threads, within};
use crate::{
    Compressed, Matrix, Part, Peer, PeerError, Statistics, Structure, assert_right_hand_sides,
};

/// One symmetric matrix in faer.
pub struct FaerSymmetric {
    is_definite: bool,
    par: Par,
    /// Its own threads, if it may use more than one.
    pool: Option<Arc<rayon::ThreadPool>>,
    symbolic: Option<SymbolicCholesky<u32>>,
    factors: Option<Factors>,
    n: usize,
    /// Workspace of a solve with that many right-hand sides.
    workspace: Option<(usize, MemBuffer)>,
}

/// Numbers of the factors, and workspace to make them.
struct Factors {
    values: Vec<f64>,
    /// The rest is that of L·B·Lᵀ alone: what is beside the diagonal of B, and the order of pivots with its inverse.
    subdiagonal: Vec<f64>,
    order: [Vec<u32>; 2],
    workspace: MemBuffer,
    /// Whether the last factorization ended well.
    are_made: bool,
}

impl Factors {
    /// Room for the factors.
    fn of(
        symbolic: &SymbolicCholesky<u32>,
        is_definite: bool,
        par: Par,
    ) -> Result<Self, PeerError> {
        let size = if is_definite {
            symbolic.factorize_numeric_llt_scratch::<f64>(par, Default::default())
        } else {
            symbolic.factorize_numeric_intranode_lblt_scratch::<f64>(par, Default::default())
        };
        let beside = if is_definite { 0 } else { symbolic.nrows() };
        Ok(Self {
            values: vec![0.0; symbolic.len_val()],
            subdiagonal: vec![0.0; beside],
            order: [vec![0; beside], vec![0; beside]],
            workspace: MemBuffer::try_new(size).map_err(|_| PeerError::OutOfMemory)?,
            are_made: false,
        })
    }

    fn make(
        &mut self,
        symbolic: &SymbolicCholesky<u32>,
        a: &Compressed,
        is_definite: bool,
        par: Par,
    ) -> Result<(), PeerError> {
        self.are_made = false;
        let a = SparseColMatRef::new(pattern(a), &a.values[..]);
        let stack = MemStack::new(&mut self.workspace);
        if is_definite {
            let made = symbolic.factorize_numeric_llt(
                &mut self.values,
                a,
                Side::Lower,
                LltRegularization::default(),
                par,
                stack,
                Default::default(),
            );
            made.map(drop)
                .map_err(|LltError::NonPositivePivot { .. }| PeerError::NotPositiveDefinite)?;
        } else {
            let [forward, inverse] = &mut self.order;
            symbolic.factorize_numeric_intranode_lblt(
                &mut self.values,
                &mut self.subdiagonal,
                forward,
                inverse,
                a,
                Side::Lower,
                par,
                stack,
                Default::default(),
            );
            // It panics if they are not inverse to each other.
            let _ = PermRef::new_checked(forward, inverse, forward.len());
        }
        self.are_made = true;
        Ok(())
    }

    fn order(&self) -> PermRef<'_, u32> {
        let [forward, inverse] = &self.order;
        // SAFETY: `make` checked that they are permutations and inverse to each other; before that, and without L·B·Lᵀ,
        // nobody asks.
        unsafe { PermRef::new_unchecked(forward, inverse, forward.len()) }
    }

    /// Positive and negative eigenvalues of B; `None` of factors that are not L·B·Lᵀ.
    fn inertia(&self, symbolic: &SymbolicCholesky<u32>) -> Option<[u64; 2]> {
        let SymbolicCholeskyRaw::Supernodal(supernodal) = symbolic.raw() else {
            return None;
        };
        if self.subdiagonal.is_empty() {
            return None;
        }
        let order = self.order();
        let lblt =
            SupernodalIntranodeLbltRef::new(supernodal, &self.values, &self.subdiagonal, order);
        let mut counts = [0, 0];
        for s in 0..supernodal.n_supernodes() {
            let supernode = lblt.supernode(s);
            let (start, b) = (supernode.start(), supernode.val());
            let mut i = 0;
            while i < b.ncols() {
                let (first, beside) = (b[(i, i)], self.subdiagonal[start + i]);
                if beside == 0.0 || i + 1 == b.ncols() {
                    counts[0] += u64::from(first > 0.0);
                    counts[1] += u64::from(first < 0.0);
                    i += 1;
                    continue;
                }
                // The blocks of order 2 that Bunch and Kaufman choose have a negative determinant. Rounding may spoil that.
                let last = b[(i + 1, i + 1)];
                let determinant = (first / beside) * (last / beside) - 1.0;
                match determinant < 0.0 {
                    true => counts = [counts[0] + 1, counts[1] + 1],
                    false => counts[usize::from(first < 0.0)] += 2,
                }
                i += 2;
            }
        }
        Some(counts)
    }
}

impl FaerSymmetric {
    /// A solver of definite or of symmetric matrices that may use `threads` threads.
    ///
    /// # Panics
    ///
    /// If it is told that they are general.
    pub fn new(structure: Structure, threads: usize) -> Self {
        assert_ne!(structure, Structure::General, "LU is another solver");
        let (pool, par) = own_threads(threads);
        Self {
            is_definite: structure == Structure::Definite,
            par,
            pool,
            symbolic: None,
            factors: None,
            n: 0,
            workspace: None,
        }
    }

    fn made(&self) -> Result<&Factors, PeerError> {
        let made = self.factors.as_ref().filter(|factors| factors.are_made);
        made.ok_or(PeerError::OutOfOrder)
    }

    fn form(a: &Matrix) -> &Compressed {
        a.form(Part::UpperWithDiagonal)
    }
}

/// The lower triangle by columns.
fn pattern(a: &Compressed) -> SymbolicSparseColMatRef<'_, u32> {
    let n = a.ptr.len() - 1;
    SymbolicSparseColMatRef::new_checked(n, n, &a.ptr, None, &a.idx)
}

impl Peer for FaerSymmetric {
    fn name(&self) -> &'static str {
        "faer"
    }

    fn version(&self) -> String {
        VERSION.to_owned()
    }

    fn notes(&self) -> Vec<String> {
        if self.is_definite {
            return Vec::new();
        }
        vec![
            "pivots are searched within supernodes and never delayed".to_owned(),
            "a refactorization searches pivots anew".to_owned(),
        ]
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        self.n = a.n();
        let pattern = pattern(Self::form(a));
        let parameters = CholeskySymbolicParams {
            supernodal_flop_ratio_threshold: if self.is_definite {
                SupernodalThreshold::AUTO
            } else {
                SupernodalThreshold::FORCE_SUPERNODAL
            },
            ..Default::default()
        };
        let symbolic = within(self.pool.as_deref(), || {
            factorize_symbolic_cholesky(pattern, Side::Lower, SymmetricOrdering::Amd, parameters)
                .map_err(general)
        })?;
        self.symbolic = Some(symbolic);
        Ok(())
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.factors = None;
        let symbolic = self.symbolic.as_ref().ok_or(PeerError::OutOfOrder)?;
        let (is_definite, par) = (self.is_definite, self.par);
        let a = Self::form(a);
        self.factors = Some(within(self.pool.as_deref(), || {
            let mut factors = Factors::of(symbolic, is_definite, par)?;
            factors.make(symbolic, a, is_definite, par)?;
            Ok(factors)
        })?);
        Ok(())
    }

    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        let (Some(symbolic), Some(factors)) = (&self.symbolic, &mut self.factors) else {
            return Err(PeerError::OutOfOrder);
        };
        let (is_definite, par) = (self.is_definite, self.par);
        let a = Self::form(a);
        within(self.pool.as_deref(), || {
            factors.make(symbolic, a, is_definite, par)
        })
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        self.made()?;
        let (Some(symbolic), Some(factors)) = (&self.symbolic, &self.factors) else {
            return Err(PeerError::OutOfOrder);
        };
        assert_right_hand_sides(self.n, x, nrhs);
        let (is_definite, par) = (self.is_definite, self.par);
        let (of, mut workspace) = match self.workspace.take().filter(|(of, _)| *of == nrhs) {
            Some(kept) => kept,
            None => {
                let size = symbolic.solve_in_place_scratch::<f64>(nrhs, par);
                (nrhs, MemBuffer::new(size))
            }
        };
        let x = MatMut::from_column_major_slice_mut(x, self.n, nrhs);
        let solved = within(self.pool.as_deref(), || {
            let stack = MemStack::new(&mut workspace);
            if is_definite {
                let llt = LltRef::new(symbolic, &factors.values);
                llt.solve_in_place_with_conj(Conj::No, x, par, stack);
            } else {
                let (values, beside) = (&factors.values, &factors.subdiagonal);
                let lblt = IntranodeLbltRef::new(symbolic, values, beside, factors.order());
                lblt.solve_in_place_with_conj(Conj::No, x, par, stack);
            }
            Ok(())
        });
        self.workspace = Some((of, workspace));
        solved
    }

    fn solve_transpose(&mut self, _: &mut [f64], _: usize) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }

    fn statistics(&mut self) -> Statistics {
        let (Ok(factors), Some(symbolic)) = (self.made(), &self.symbolic) else {
            return Statistics::default();
        };
        Statistics {
            // Those that are stored; supernodes have the squares around their triangles.
            factor_entries: Some(factors.values.len() as u64),
            inertia: match self.is_definite {
                true => Some([self.n as u64, 0]),
                false => factors.inertia(symbolic),
            },
            ..Statistics::default()
        }
    }

    fn drop_factors(&mut self) {
        self.factors = None;
        self.workspace = None;
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        self.symbolic = None;
    }
}
