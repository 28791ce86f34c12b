//! From `sprs` matrices to the types of `luge-sparse`.

use luge_sparse::num_traits::One;
use luge_sparse::{ColPerm, CompressedPattern, Form, RealScalar, RowPerm, Scalar, Scaling};
use num_complex::Complex;
use sprs::{CsMat, TriMat};

/// The pattern of the rows of `a`, explicit zeros included. The values of a CSR matrix stand in the
/// same order.
///
/// # Panics
///
/// If `a` is not in CSR or too large for 32-bit indices.
#[track_caller]
pub fn pattern_of<T>(a: &CsMat<T>) -> CompressedPattern {
    assert!(a.is_csr(), "the matrix must be in CSR");
    let ptr = a.proper_indptr().iter().map(|&p| p as u64).collect();
    let idx = a
        .indices()
        .iter()
        .map(|&j| u32::try_from(j).expect("column index"))
        .collect();
    CompressedPattern::new(a.cols(), ptr, idx).unwrap_or_else(|e| panic!("{e}"))
}

/// The matrix with the rows of `pattern` and the given values.
///
/// # Panics
///
/// If there is not one value per entry.
#[track_caller]
pub fn matrix_of<T>(pattern: &CompressedPattern, values: Vec<T>) -> CsMat<T> {
    assert_eq!(pattern.nnz(), values.len(), "one value per entry");
    CsMat::new(
        (pattern.major_dim(), pattern.minor_dim()),
        pattern.ptr().iter().map(|&p| p as usize).collect(),
        pattern.idx().iter().map(|&j| j as usize).collect(),
        values,
    )
}

/// The matrix that is factorized: B = P·(Dr·A·Dc)·Q with
/// `B[i][j] = dr[rp[i]] · A[rp[i]][cp[j]] · dc[cp[j]]`, in CSR.
///
/// # Panics
///
/// If the lengths of permutations or factors do not match the matrix.
#[track_caller]
pub fn permuted_and_scaled<T: RealScalar>(
    a: &CsMat<T>,
    row_perm: &RowPerm,
    scaling: &Scaling,
    col_perm: &ColPerm,
) -> CsMat<T> {
    assert_eq!(row_perm.len(), a.rows(), "row permutation");
    assert_eq!(col_perm.len(), a.cols(), "column permutation");
    assert_eq!(scaling.rows.len(), a.rows(), "row factors");
    assert_eq!(scaling.cols.len(), a.cols(), "column factors");
    let (new_row, new_col) = (row_perm.inverse(), col_perm.inverse());
    let mut b = TriMat::with_capacity(a.shape(), a.nnz());
    for (&value, (i, j)) in a {
        let scaled = T::from_f64(scaling.apply(i, j, value.to_f64()));
        b.add_triplet(new_row[i] as usize, new_col[j] as usize, scaled);
    }
    b.to_csr()
}

/// The matrix over another field or in another precision, each value rounded.
pub fn to_scalar<T: Scalar>(a: &CsMat<f64>) -> CsMat<T> {
    a.map(|&value| T::narrow(T::Wide::from_real(value)))
}

/// The real matrix of twice the order that does to the real and imaginary parts, one vector above the other, what a complex
/// matrix does to the vector: Re A and −Im A above Im A and Re A.
pub fn of_both_parts(a: &CsMat<Complex<f64>>) -> CsMat<f64> {
    let (rows, cols) = a.shape();
    let mut both = TriMat::with_capacity((2 * rows, 2 * cols), 4 * a.nnz());
    for (v, (i, j)) in a {
        both.add_triplet(i, j, v.re);
        both.add_triplet(rows + i, cols + j, v.re);
        both.add_triplet(i, cols + j, -v.im);
        both.add_triplet(rows + i, j, v.im);
    }
    both.to_csr()
}

/// The matrix over a field as tests want it: over the complex numbers with each row and each column times a number of absolute
/// value 1, each at another angle, so that it is as far from singular as it was, and has pivots of the same size, but has both
/// parts in each entry. A real matrix stays what it is.
pub fn turned<T: Scalar>(a: &CsMat<f64>) -> CsMat<T> {
    if T::COMPONENTS == 1 {
        return to_scalar(a);
    }
    let turn = |at: usize| {
        let angle = 1.0 + 2.4 * at as f64;
        let [re, im] = [angle.cos(), angle.sin()];
        T::Wide::from_components(|part| [re, im][part]).direction()
    };
    let mut turned = TriMat::with_capacity(a.shape(), a.nnz());
    for (&value, (i, j)) in a {
        let value = (turn(3 * i) * turn(5 * j + 1)).scaled_by(value);
        turned.add_triplet(i, j, T::narrow(value));
    }
    if a.is_csr() {
        turned.to_csr()
    } else {
        turned.to_csc()
    }
}

/// U·A·Uᵀ, or the Hermitian U·A·Uᴴ, of a real symmetric A whose lower triangle counts, with a diagonal U of numbers of absolute
/// value 1: so entries have both parts, and a Hermitian matrix keeps its eigenvalues. A real matrix is A itself.
pub fn turned_in_form<T: Scalar>(a: &CsMat<f64>, form: Form) -> CsMat<T> {
    let turn = |at: usize| {
        let angle = 1.0 + 2.4 * at as f64;
        let parts = [angle.cos(), angle.sin()];
        T::Wide::from_components(|part| parts[part]).direction()
    };
    let of_field = |at: usize| {
        if T::COMPONENTS == 1 {
            T::Wide::one()
        } else {
            turn(at)
        }
    };
    let mut turned = TriMat::with_capacity(a.shape(), a.nnz());
    for (&value, (i, j)) in a.iter().filter(|&(_, (i, j))| i >= j) {
        let value = (of_field(i) * form.counterpart(of_field(j))).scaled_by(value);
        let value = T::narrow(value);
        if i == j {
            turned.add_triplet(i, i, form.on_diagonal(value));
        } else {
            turned.add_triplet(i, j, value);
            turned.add_triplet(j, i, form.counterpart(value));
        }
    }
    turned.to_csr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> CsMat<f64> {
        // . 2 .
        // 3 . 4
        CsMat::new((2, 3), vec![0, 1, 3], vec![1, 0, 2], vec![2.0, 3.0, 4.0])
    }

    #[test]
    fn pattern_and_values_make_the_matrix_again() {
        let a = sample();
        let pattern = pattern_of(&a);
        assert_eq!((pattern.major_dim(), pattern.minor_dim()), (2, 3));
        assert_eq!(pattern.line(1), [0, 2]);
        assert_eq!(matrix_of(&pattern, a.data().to_vec()), a);
    }

    #[test]
    fn entries_move_as_the_convention_says() {
        let row_perm = RowPerm::new(vec![1, 0]).unwrap();
        let col_perm = ColPerm::new(vec![2, 0, 1]).unwrap();
        let scaling = Scaling {
            rows: vec![10.0, 100.0],
            cols: vec![2.0, 3.0, 4.0],
        };
        let b = permuted_and_scaled(&sample(), &row_perm, &scaling, &col_perm);
        assert_eq!(b.get(0, 0), Some(&(100.0 * 4.0 * 4.0)));
        assert_eq!(b.get(0, 1), Some(&(100.0 * 3.0 * 2.0)));
        assert_eq!(b.get(1, 2), Some(&(10.0 * 2.0 * 3.0)));
        assert_eq!(b.nnz(), 3);
    }

    #[test]
    #[should_panic(expected = "must be in CSR")]
    fn columns_are_refused() {
        pattern_of(&sample().to_csc());
    }

    #[test]
    fn rounding_to_single_precision() {
        let a: CsMat<f32> = to_scalar(&sample().map(|v| v / 3.0));
        assert_eq!(a.get(0, 1), Some(&((2.0f64 / 3.0) as f32)));
    }
}
