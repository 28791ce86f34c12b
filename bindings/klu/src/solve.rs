//! `klu_solve` and `klu_tsolve`.

use luge_numeric::cpu::blocks::BlockLu;
use luge_sparse::CancelFlag;

use crate::call::{Failure, Field, Outcome, guarded};
use crate::factors::Factors;
use crate::handle::{Held, Width, numeric, symbolic};
use crate::input::array_mut;
use crate::layout::{Common, Integer, Numeric, Symbolic};

/// Right-hand sides that are solved for together: the factors are read once for all of them.
const AT_ONCE: usize = 8;

/// Systems whose blocks have no more unknowns than this are solved column by column with divisions, operation by operation as KLU
/// does it. Most of their time is that of the call; and an integrator of a stiff system, whose steps hang on the last bit, takes the
/// same steps then.
const SMALL: usize = 64;

/// Which system is solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    /// A·x = b.
    Plain,
    /// Aᵀ·x = b.
    Transpose,
    /// Aᴴ·x = b.
    Adjoint,
}

impl<I: Integer, F: Field> Factors<I, F> {
    /// Replaces a few right-hand sides, vectors of length n, by solutions. Where there are no factors these are NaN: KLU divides by
    /// a zero pivot then.
    pub(crate) fn solve(&mut self, sides: &mut [&mut [F]], system: System) -> Outcome {
        let n = self.analysis.n();
        let mut vectors = std::mem::take(&mut self.vectors);
        vectors.clear();
        let Some(lu) = self.lu() else {
            let unknown = F::from_components(|_| f64::NAN);
            sides.iter_mut().for_each(|side| side.fill(unknown));
            return Ok(());
        };
        let (rows, cols, scale) = (&self.rows, &self.analysis.cols, self.scale.as_deref());
        let conjugate = |value: F| match system {
            System::Adjoint => value.conjugate(),
            _ => value,
        };
        let scaled = |value: F, row: u32| match scale {
            Some(scale) => value.over_real(scale[row as usize]),
            None => value,
        };
        for side in sides.iter() {
            match system {
                System::Plain => {
                    vectors.extend(rows.iter().map(|&row| scaled(side[row as usize], row)));
                }
                _ => vectors.extend(cols.iter().map(|&col| conjugate(side[col as usize]))),
            }
        }
        let cancel = CancelFlag::new();
        let is_small = self.analysis.largest_block <= SMALL;
        let solved = match system {
            System::Plain if !is_small => lu.solve(&mut vectors, sides.len(), 1, &cancel),
            _ if !is_small => lu.solve_transpose(&mut vectors, sides.len(), 1, &cancel),
            System::Plain => {
                vectors
                    .chunks_exact_mut(n)
                    .for_each(|x| self.solve_small(lu, x));
                Ok(())
            }
            _ => {
                let solve = |x| self.solve_small_transpose(lu, x);
                vectors.chunks_exact_mut(n).for_each(solve);
                Ok(())
            }
        };
        solved.unwrap_or_else(|_| unreachable!("nobody raises the flag"));
        for (side, x) in sides.iter_mut().zip(vectors.chunks_exact(n)) {
            match system {
                System::Plain => {
                    for (&col, &x) in cols.iter().zip(x) {
                        side[col as usize] = x;
                    }
                }
                _ => {
                    for (&row, &x) in rows.iter().zip(x) {
                        side[row as usize] = conjugate(scaled(x, row));
                    }
                }
            }
        }
        self.vectors = vectors;
        Ok(())
    }

    /// Replaces a right-hand side of the permuted matrix by the solution.
    fn solve_small(&self, lu: &BlockLu<F>, x: &mut [F]) {
        let columns = lu.columns();
        let subtract = |x: &mut [F], (idx, values): (&[u32], &[F]), xj: F| {
            for (&i, &value) in idx.iter().zip(values) {
                x[i as usize] -= value * xj;
            }
        };
        for block in self.analysis.blocks().rev() {
            for j in block.clone() {
                subtract(x, columns.lower(j), x[j]);
            }
            for j in block.clone().rev() {
                let xj = x[j].quotient(columns.pivots()[j]);
                x[j] = xj;
                subtract(x, columns.upper(j), xj);
            }
            for j in block {
                let xj = x[j];
                lu.above(j).for_each(|(i, value)| x[i] -= value * xj);
            }
        }
    }

    /// As [`solve_small`](Self::solve_small), for the transpose.
    fn solve_small_transpose(&self, lu: &BlockLu<F>, x: &mut [F]) {
        let columns = lu.columns();
        let subtracted = |x: &[F], j: usize, (idx, values): (&[u32], &[F])| {
            let products = idx.iter().zip(values);
            products.fold(x[j], |sum, (&i, &value)| sum - value * x[i as usize])
        };
        for block in self.analysis.blocks() {
            for j in block.clone() {
                x[j] = lu.above(j).fold(x[j], |sum, (i, value)| sum - value * x[i]);
            }
            for j in block.clone() {
                x[j] = subtracted(x, j, columns.upper(j)).quotient(columns.pivots()[j]);
            }
            for j in block.rev() {
                x[j] = subtracted(x, j, columns.lower(j));
            }
        }
    }
}

/// `klu_solve`, `klu_tsolve`: replaces `nrhs` right-hand sides, `ldim` apart, by solutions.
///
/// # Safety
///
/// `common` as [`Control::new`](crate::call::Control::new); `b` is null or leads to `ldim` · `nrhs` numbers.
pub(crate) unsafe fn solve<I: Width, F: Held>(
    (of, factors): (*const Symbolic<I>, *const Numeric<I>),
    (ldim, nrhs): (I, I),
    b: *mut F,
    system: System,
    common: *mut Common<I>,
) -> I {
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, I::of_code(0), |_| {
            let object = symbolic(of)?;
            let numeric = numeric::<I, F>(factors)?;
            let mut factors = numeric.lock();
            if !factors.analysis.is_same_order(&object.analysis) {
                return Err(Failure::Invalid);
            }
            let n = factors.analysis.n();
            let nrhs = nrhs.to_usize().ok_or(Failure::Invalid)?;
            let ldim = ldim.to_usize().filter(|&ldim| ldim >= n);
            let ldim = ldim.ok_or(Failure::Invalid)?;
            let len = ldim.checked_mul(nrhs).ok_or(Failure::TooLarge)?;
            let b = array_mut(b, len)?;
            let mut sides: Vec<&mut [F]> = b
                .chunks_exact_mut(ldim)
                .map(|side| &mut side[..n])
                .collect();
            for sides in sides.chunks_mut(AT_ONCE) {
                factors.solve(sides, system)?;
            }
            Ok(I::of_code(1))
        })
    }
}
