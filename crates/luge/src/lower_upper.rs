//! L and U of a general matrix, as matrices.

use luge_numeric::cpu::blocks::{Triangle, Whole};
use luge_solve::extended::shift;
use luge_sparse::{ColPerm, RowPerm, Scalar};
use sprs::CsMat;

use crate::engine::{Engine, Transform};
use crate::error::Error;

/// The factors of a general matrix taken apart, as [`Factors::lower_upper`](crate::Factors::lower_upper) makes them:
/// P·A·Q = L·U.
///
/// Entry (i, j) of L·U is the entry of A in row `row_perm[i]`, column `col_perm[j]`. The scaling is undone: it is by powers of
/// two on the CPU, so no digit is lost. Small pivots that were replaced are in U as they were replaced.
///
/// ```
/// use luge::{BackendChoice, MatrixRef, Options, Solver};
///
/// // 1 .
/// // 2 4
/// let (offsets, columns, values) = ([0u32, 1, 3], [0u32, 0, 1], [1.0, 2.0, 4.0]);
/// let a = MatrixRef::by_rows(2, 2, &offsets, &columns, &values);
/// let solver = Solver::new(Options::default().backend(BackendChoice::Cpu))?;
/// let factors = solver.analyze(a)?.factorize(a)?;
/// let parts = factors.lower_upper()?.expect("a general matrix on the CPU");
/// let product = &parts.l * &parts.u;
/// for (value, (i, j)) in product.iter() {
///     let (row, column) = (parts.row_perm.as_slice()[i], parts.col_perm.as_slice()[j]);
///     let expected = [[1.0, 0.0], [2.0, 4.0]][row as usize][column as usize];
///     assert_eq!(*value, expected);
/// }
/// # Ok::<(), luge::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LowerUpper<T> {
    /// Row i of L·U is this row of A.
    pub row_perm: RowPerm,
    /// Column j of L·U is this column of A.
    pub col_perm: ColPerm,
    /// L by columns, with its unit diagonal.
    pub l: CsMat<T>,
    /// U by columns, with its diagonal.
    pub u: CsMat<T>,
}

impl<T: Scalar> LowerUpper<T> {
    /// Those of the factors that `engine` has, if it has them on the host.
    pub(crate) fn of(engine: &dyn Engine<T::Wide>) -> Result<Option<Self>, Error> {
        let Some(whole) = engine.lower_upper()? else {
            return Ok(None);
        };
        let columns = &whole.cols;
        let l = matrix_of(whole.lower, columns)?;
        let u = matrix_of(whole.upper, columns)?;
        let row_perm = RowPerm::new(whole.rows);
        let col_perm = ColPerm::new(whole.cols);
        let (Ok(row_perm), Ok(col_perm)) = (row_perm, col_perm) else {
            unreachable!("every row and column has one pivot")
        };
        Ok(Some(Self {
            row_perm,
            col_perm,
            l,
            u,
        }))
    }
}

/// The triangle in the type of the matrix, whose columns these are.
fn matrix_of<T: Scalar>(triangle: Triangle<T::Wide>, columns: &[u32]) -> Result<CsMat<T>, Error> {
    let n = columns.len();
    let Triangle { ptr, idx, values } = triangle;
    let values: Vec<T> = values.into_iter().map(T::narrow).collect();
    if let Some(at) = values.iter().position(|value| !value.is_number()) {
        let column = columns[ptr.partition_point(|&p| p <= at) - 1] as usize;
        return Err(Error::Overflow { column });
    }
    let idx = idx.into_iter().map(|i| i as usize).collect();
    Ok(CsMat::new_csc((n, n), ptr, idx, values))
}

/// L and U of A, given those of B with its rows in the order of the factors, which `row_perm` leads to from those of A:
/// permutations lead to A, and the scaling is undone.
pub(crate) fn of_a<F: Scalar>(
    whole: Whole<F>,
    transform: &Transform,
    row_perm: &RowPerm,
) -> Whole<F::Wide> {
    let in_a = |perm: &[u32], places: Vec<u32>| -> Vec<u32> {
        places.into_iter().map(|at| perm[at as usize]).collect()
    };
    let rows = in_a(row_perm.as_slice(), whole.rows);
    let cols = in_a(transform.col_perm.as_slice(), whole.cols);
    let exponents = |factors: &[f64], places: &[u32]| -> Vec<i32> {
        let of_place = places.iter().map(|&at| exponent(factors[at as usize]));
        of_place.collect()
    };
    let of_rows = exponents(&transform.scaling.rows, &rows);
    let of_cols = exponents(&transform.scaling.cols, &cols);
    // B(i, j) is r(i)·A(i, j)·c(j), so L takes the factor r(j)/r(i) and U takes 1/(r(i)·c(j)).
    let lower = scaled(whole.lower, |i, j| of_rows[j] - of_rows[i]);
    let upper = scaled(whole.upper, |i, j| -of_rows[i] - of_cols[j]);
    Whole {
        rows,
        cols,
        lower,
        upper,
        memory: whole.memory,
    }
}

/// The exponent of a power of two.
fn exponent(factor: f64) -> i32 {
    factor.log2().round() as i32
}

/// The triangle with entry (i, j) times two to the power of `exponent(i, j)`.
fn scaled<F: Scalar>(
    triangle: Triangle<F>,
    exponent: impl Fn(usize, usize) -> i32,
) -> Triangle<F::Wide> {
    let Triangle { ptr, idx, values } = triangle;
    let columns = ptr
        .windows(2)
        .enumerate()
        .flat_map(|(j, ends)| std::iter::repeat_n(j, ends[1] - ends[0]));
    let places = idx.iter().zip(columns);
    let values = values
        .into_iter()
        .zip(places)
        .map(|(value, (&i, j))| shift(value.widen(), exponent(i as usize, j)))
        .collect();
    Triangle { ptr, idx, values }
}
