//! What factors can do, whichever path computed them and in whichever type.

use std::sync::Arc;

use luge_numeric::cpu::blocks::Whole;
use luge_solve::condition::inverse_norm1;
use luge_solve::extended::Extended;
use luge_solve::{known_solution, scaled};
use luge_sparse::{ColPerm, RealScalar, RowPerm, Scalar, Scaling};

use crate::backend::DeviceCosts;
use crate::determinant::Determinant;
use crate::error::Error;
use crate::host_plan::SymmetricReport;

/// A matrix whose pivots were searched and whose reciprocal condition number, scaled, is below this
/// times ε is singular to rounding. Matrices of the condition 1/ε still solve with a small backward
/// error; those beyond by two orders are noise.
pub(crate) const SINGULAR: f64 = 1.0 / 64.0;

/// Permutations and scaling of one B = P·Dr·A·Dc·Q.
#[derive(Debug, Clone)]
pub(crate) struct Transform {
    pub row_perm: RowPerm,
    pub col_perm: ColPerm,
    pub scaling: Arc<Scaling>,
}

impl Transform {
    /// Solves with A through a solve with B: `solve` replaces right-hand sides of B, one after another,
    /// by solutions; again with smaller numbers where they overflow. `row_perm` may go on from [`row_perm`](Self::row_perm) to the rows of the factors.
    pub(crate) fn around<F: Scalar>(
        &self,
        row_perm: &RowPerm,
        b: &[F::Wide],
        nrhs: usize,
        transpose: bool,
        mut solve: impl FnMut(&mut [F]) -> Result<(), Error>,
    ) -> Result<Vec<F::Wide>, Error> {
        let n = row_perm.len().max(1);
        let mut values: Vec<F> = Vec::with_capacity(b.len());
        let mut exponents = Vec::with_capacity(nrhs);
        for b in b.chunks_exact(n) {
            let c: scaled::Normalized<F> = if transpose {
                scaled::enter_cols(&self.col_perm, &self.scaling, b)
            } else {
                scaled::enter_rows(row_perm, &self.scaling, b)
            };
            values.extend(c.values);
            exponents.push(c.exponent);
        }
        let given = values.clone();
        solve(&mut values)?;
        if !values.iter().all(|v| v.is_number()) {
            let vectors = given.chunks_exact(n).zip(&mut exponents);
            values = vectors
                .flat_map(|(values, exponent)| {
                    let lowered = scaled::Normalized {
                        values: values.to_vec(),
                        exponent: *exponent,
                    };
                    let lowered = lowered.lowered();
                    *exponent = lowered.exponent;
                    lowered.values
                })
                .collect();
            solve(&mut values)?;
        }
        let mut x = Vec::with_capacity(b.len());
        for (values, exponent) in values.chunks_exact(n).zip(exponents) {
            let y = scaled::Normalized {
                values: values.to_vec(),
                exponent,
            };
            x.extend(if transpose {
                scaled::leave_rows(row_perm, &self.scaling, &y)
            } else {
                scaled::leave_cols(&self.col_perm, &self.scaling, &y)
            });
        }
        Ok(x)
    }

    /// The determinant of A, given that of B with its rows in the order `row_perm`.
    pub(crate) fn undo_determinant<W: Scalar<Real = f64>>(
        &self,
        row_perm: &RowPerm,
        product: Determinant<W>,
    ) -> Determinant<W> {
        let product = product.permuted(row_perm).permuted(&self.col_perm);
        let factors = self.scaling.rows.iter().chain(&self.scaling.cols);
        factors.fold(product, |product, &factor| product.over(factor))
    }
}

/// Factors that solve with A, their type hidden. Values and vectors are of `W`, the [wide](Scalar::Wide) type of that type.
pub(crate) trait Engine<W>: Send + Sync {
    fn report(&self) -> FactorReport;

    /// Solves A·X = B or Aᵀ·X = B for `nrhs` right-hand sides one after another, without refinement. Entries that overflow
    /// are infinite or not numbers.
    fn solve(&self, b: &[W], nrhs: usize, transpose: bool) -> Result<Vec<W>, Error>;

    /// B·y = c or Bᵀ·y = c, in place.
    fn solve_permuted(&self, c: &mut [W], transpose: bool) -> Result<(), Error>;

    /// From A to B as its rows stand in the factors.
    fn of_factors(&self) -> (&Transform, &RowPerm);

    /// Estimate of 1/(‖B‖₁·‖B⁻¹‖₁) for the matrix with the values `a` that was factorized.
    fn condition(&self, a: &[W]) -> Result<Condition, Error>;

    /// An upper bound of the same from one solve.
    fn screen(&self) -> Result<f64, Error>;

    /// The determinant of A.
    fn determinant(&self) -> Result<Determinant<W>, Error>;

    /// Columns of A whose pivots were replaced, ascending, if they are known.
    fn perturbed(&self) -> Option<Vec<usize>> {
        None
    }

    /// The order of elimination, as columns of A, and D, for a symmetric matrix.
    fn pivots(&self) -> Result<Option<Pivots<W>>, Error> {
        Ok(None)
    }

    /// L and U of a general matrix, where they are on the host.
    fn lower_upper(&self) -> Result<Option<Whole<W>>, Error> {
        Ok(None)
    }

    /// Replaces right-hand sides, one after another, by solutions with F = Dr⁻¹·Pᵀ·L or with its transpose, of a Hermitian
    /// matrix its conjugate transpose; the entry of
    /// a pivot has the place of its column of A.
    ///
    /// # Panics
    ///
    /// If the matrix is not symmetric.
    fn solve_triangle(&self, _x: &mut [W], _transpose: bool) -> Result<(), Error> {
        unreachable!("triangles of a symmetric matrix")
    }
}

/// The pivots of a symmetric matrix.
pub(crate) struct Pivots<W> {
    /// Columns of A in the order of elimination.
    pub order: Vec<usize>,
    /// Two entries for each: on the diagonal, and below it.
    pub d: Vec<W>,
}

/// Refuses right-hand sides of length `n` one of whose entries is not finite.
pub(crate) fn check_right_hand_sides<W: Scalar>(b: &[W], n: usize) -> Result<(), Error> {
    match b.iter().position(|v| !v.is_number()) {
        Some(at) => Err(Error::RightHandSideNotFinite {
            row: at % n,
            column: at / n,
        }),
        None => Ok(()),
    }
}

/// Solves A·x = b or Aᵀ·x = b for numbers of any size, without refinement. Entries that overflow in the factors are infinite
/// or not numbers.
pub(crate) fn solve_extended<W: Scalar<Real = f64, Wide = W>>(
    engine: &dyn Engine<W>,
    b: &[Extended<W>],
    transpose: bool,
) -> Result<Vec<Extended<W>>, Error> {
    if engine.report().epsilon > f64::EPSILON {
        solve_within::<f32, W>(engine, b, transpose)
    } else {
        solve_within::<f64, W>(engine, b, transpose)
    }
}

/// As [`solve_extended`] with factors whose components are of the type `R`.
fn solve_within<R: RealScalar, W: Scalar<Real = f64, Wide = W>>(
    engine: &dyn Engine<W>,
    b: &[Extended<W>],
    transpose: bool,
) -> Result<Vec<Extended<W>>, Error> {
    let (transform, row_perm) = engine.of_factors();
    let rows = (&row_perm.0, &transform.scaling.rows[..]);
    let cols = (&transform.col_perm.0, &transform.scaling.cols[..]);
    let (enter, leave) = if transpose {
        (cols, rows)
    } else {
        (rows, cols)
    };
    let given = scaled::enter_extended::<R, W>(enter.0, enter.1, b);
    let mut y = given.clone();
    engine.solve_permuted(&mut y.values, transpose)?;
    if !y.values.iter().all(|v| v.is_number()) {
        y = given.lowered_within::<R>();
        engine.solve_permuted(&mut y.values, transpose)?;
    }
    Ok(scaled::leave_extended(leave.0, leave.1, &y))
}

/// What factors tell of themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct FactorReport {
    pub num_perturbed: usize,
    /// As a column of A.
    pub first_perturbed: Option<usize>,
    pub num_off_diagonal: Option<usize>,
    pub num_delayed: Option<usize>,
    /// As [`Inform::growth`](crate::Inform::growth).
    pub growth: f64,
    /// Largest entry of |L|·|U|, or more, if the growth bounds it: see [`growth_bounds`](Self::growth_bounds).
    pub product: f64,
    /// Whether L was measured for it, so that it bounds the entries of |L|·|U| but for their number of terms.
    pub growth_bounds: bool,
    /// The size of B − L·U relative to B, measured or to be expected of the growth.
    pub error: f64,
    /// Largest magnitude of an entry of B, or more.
    pub largest: f64,
    /// ε of the type of the factors.
    pub epsilon: f64,
    pub host_bytes: u64,
    /// Entries of L and of U, where they differ from what the analysis predicted.
    pub sizes: Option<(u64, u64)>,
    /// What is known of a symmetric matrix; columns are those of A.
    pub symmetric: Option<SymmetricReport>,
    pub code_path: Vec<&'static str>,
    pub device: DeviceCosts,
}

/// How far B is from singular.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    /// 1/(‖B‖₁·‖B⁻¹‖₁), estimated from above.
    pub rcond: f64,
    /// The columns of A that take part most in what is nearly a dependence, the first one most.
    pub columns: Vec<usize>,
    /// Whether A times a constant vector is nearly zero.
    pub is_constant: bool,
    /// ε of the type of the factors.
    pub epsilon: f64,
}

/// Columns of A that are named as taking part in a dependence, at most.
const NAMED_COLUMNS: usize = 3;

/// Entries of a null vector that are within this of one another are called constant.
const CONSTANT: f64 = 1e-3;

impl Condition {
    /// Estimates it for B with the 1-norm `norm1`, given solves with B and its transpose in factors with this ε. Their vectors
    /// are those of B, or likewise permuted: entry i of a solution is for column `column_of(i)` of A.
    pub(crate) fn estimate<W: Scalar<Real = f64>>(
        transform: &Transform,
        column_of: impl Fn(usize) -> usize,
        epsilon: f64,
        norm1: impl FnOnce() -> f64,
        solve: impl FnMut(&mut [W]) -> Result<(), Error>,
        solve_transpose: impl FnMut(&mut [W]) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let n = transform.row_perm.len();
        if n == 0 {
            return Ok(Self {
                rcond: 1.0,
                columns: Vec::new(),
                is_constant: false,
                epsilon,
            });
        }
        let inverse = inverse_norm1(n, solve, solve_transpose)?;
        let mut columns: Vec<usize> = (0..n).collect();
        let count = NAMED_COLUMNS.min(n);
        let magnitude = |at: usize| inverse.column[at].modulus();
        let order = |&a: &usize, &b: &usize| magnitude(b).total_cmp(&magnitude(a)).then(a.cmp(&b));
        if count < n {
            columns.select_nth_unstable_by(count - 1, order);
            columns.truncate(count);
        }
        columns.sort_unstable_by(order);
        let factors = &transform.scaling.cols;
        let null = inverse.column.iter().enumerate();
        let null = null.map(|(at, v)| v.scaled_by(factors[column_of(at)]));
        let [smallest, largest] = corners(null);
        let spread = (largest - smallest).modulus();
        Ok(Self {
            // An inverse that overflows is that of a matrix as good as singular.
            rcond: if inverse.norm1.is_finite() {
                1.0 / (norm1() * inverse.norm1)
            } else {
                0.0
            },
            columns: columns.into_iter().map(column_of).collect(),
            is_constant: n > 1 && spread <= CONSTANT * largest.modulus().min(smallest.modulus()),
            epsilon,
        })
    }

    /// Refuses a matrix as singular to rounding if its reciprocal condition number is below `limit` ε.
    /// NaN, an overflow on the way, is not a condition that anything can be done with either.
    pub(crate) fn refuse_below(&self, limit: f64) -> Result<(), Error> {
        if self.rcond.is_nan() || self.rcond < limit * self.epsilon {
            return Err(Error::SingularToRounding {
                column: self.columns.first().copied().unwrap_or(0),
                rcond: self.rcond,
            });
        }
        Ok(())
    }
}

/// The smallest and the largest of some numbers; of complex ones the corners of the rectangle that they are in.
fn corners<W: Scalar<Real = f64>>(numbers: impl Iterator<Item = W>) -> [W; 2] {
    // No number has more components.
    let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
    for number in numbers {
        let mut at = 0;
        number.map_components(|component| {
            (low[at], high[at]) = (low[at].min(component), high[at].max(component));
            at += 1;
            component
        });
    }
    [low, high].map(|corner| W::from_components(|at| corner[at]))
}

/// An upper bound of the reciprocal condition number of B from one solve: ‖s‖₁ / (‖B‖₁·‖B⁻¹·s‖₁) for a pseudo-random
/// vector s, with a lower bound `norm1` of ‖B‖₁; one by [magnitudes](Scalar::magnitude) of complex entries may make it
/// smaller by √2. For a matrix that is singular to rounding it is far too large only if s is
/// nearly orthogonal to the left null vector; the probability of a factor of θ is about 1/θ.
pub(crate) fn screen<W: Scalar<Real = f64>>(
    n: usize,
    norm1: f64,
    solve: impl FnOnce(&mut [W]) -> Result<(), Error>,
) -> Result<f64, Error> {
    let mut v: Vec<W> = (0..n as u64).map(known_solution).collect();
    let size = |v: &[W]| v.iter().map(|v| v.modulus()).sum::<f64>();
    let before = size(&v);
    solve(&mut v)?;
    Ok(screened(before, norm1, size(&v)))
}

/// What [`screen`] makes of ‖s‖₁, ‖B‖₁ and ‖B⁻¹·s‖₁.
pub(crate) fn screened(before: f64, norm1: f64, after: f64) -> f64 {
    before / norm1 / after
}
