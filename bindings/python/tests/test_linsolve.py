"""`splu`, `spsolve` and `factorized`, where SciPy's own tests do not look."""

import warnings

import luge
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from matrices import laplacian, scattered, tridiagonal

SINGULAR = sp.csc_array([[1.0, 2.0], [2.0, 4.0]])


def test_the_factors_are_those_that_are_said():
    a = tridiagonal(30) + scattered((30, 30), 0.1, 4)
    lu = luge.splu(a)
    n = 30
    rows = sp.csc_array((np.ones(n), (lu.perm_r, np.arange(n))))
    columns = sp.csc_array((np.ones(n), (np.arange(n), lu.perm_c)))
    np.testing.assert_allclose((rows @ a @ columns - lu.L @ lu.U).toarray(), 0, atol=1e-14)
    assert (sp.triu(lu.L, 1).nnz, sp.tril(lu.U, -1).nnz) == (0, 0)
    assert np.array_equal(lu.L.diagonal(), np.ones(n)) and lu.U.diagonal().all()
    assert lu.L.format == lu.U.format == "csc" and lu.L.has_sorted_indices and lu.U.has_sorted_indices
    theirs = spla.splu(a)
    for name in ("shape", "perm_r", "perm_c", "L", "U"):
        assert type(getattr(lu, name)) is type(getattr(theirs, name)), name
    assert lu.perm_r.dtype == theirs.perm_r.dtype and lu.L.indices.dtype == theirs.L.indices.dtype
    assert lu.nnz == lu.inform.lnz + lu.inform.unz > 0
    assert "LU of shape (30, 30)" in repr(lu)


@pytest.mark.parametrize("trans", ["N", "T", "H"])
@pytest.mark.parametrize("columns", [None, 1, 4])
def test_solutions_are_scipys(trans, columns):
    a = tridiagonal(30)
    b = np.random.default_rng(5).random(30 if columns is None else (30, columns))
    ours, theirs = luge.splu(a).solve(b, trans), spla.splu(a).solve(b, trans)
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    assert (ours.shape, ours.dtype, ours.flags.f_contiguous) == (theirs.shape, theirs.dtype, theirs.flags.f_contiguous)


@pytest.mark.parametrize("of_a", ["f4", "f8", "i4", "i8", "i1", "?"])
@pytest.mark.parametrize("of_b", ["f4", "f8", "i4", "c8", "c16"])
def test_types_of_spsolve_are_scipys(of_a, of_b):
    a = sp.csc_array(np.array([[2, 1], [0, 1]]).astype(of_a))
    b = np.array([3, 1]).astype(of_b)
    ours, theirs = luge.spsolve(a, b), spla.spsolve(a, b)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("layout_a", ["csc", "csr"])
@pytest.mark.parametrize("layout_b", ["csc", "csr", "coo", "lil"])
@pytest.mark.parametrize("of_arrays", [True, False])
@pytest.mark.parametrize("columns", [1, 3])
def test_sparse_right_hand_sides_are_as_scipys(layout_a, layout_b, of_arrays, columns):
    kind = sp.csc_array if of_arrays else sp.csc_matrix
    a = kind(tridiagonal(8)).asformat(layout_a)
    b = kind(np.eye(8)[:, :columns]).asformat(layout_b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.SparseEfficiencyWarning)
        theirs = spla.spsolve(a, b)
    ours = luge.spsolve(a, b)
    assert type(ours) is type(theirs) and ours.shape == theirs.shape
    dense = [x.toarray() if sp.issparse(x) else x for x in (ours, theirs)]
    np.testing.assert_allclose(*dense, atol=1e-14)


def test_singular_matrices():
    with pytest.raises(RuntimeError, match="Factor is exactly singular: the matrix is numerically singular") as caught:
        luge.splu(SINGULAR)
    assert isinstance(caught.value, luge.SingularMatrixError) and caught.value.column in (0, 1)
    with pytest.warns(spla.MatrixRankWarning, match="Matrix is exactly singular: .* column"):
        x = luge.spsolve(SINGULAR, np.ones(2))
    assert np.isnan(x).all() and x.shape == (2,)
    empty = sp.csc_array((4, 4))
    with pytest.raises(luge.SingularMatrixError) as caught:
        luge.factorized(empty)
    assert caught.value.kind == "StructurallySingular" and caught.value.rank == 0
    assert caught.value.unmatched_rows == [0, 1, 2, 3] == caught.value.unmatched_columns
    zeros = sp.csc_array((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 1, 2])))
    with pytest.raises(luge.SingularMatrixError) as caught:
        luge.splu(zeros)
    assert caught.value.kind in ("ZerosOnly", "ZeroPivot") and caught.value.column in (1, None)
    # To rounding, where SciPy answers with numbers that mean nothing.
    dependent = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 9.0]]) / 10
    with pytest.raises(luge.SingularMatrixError):
        luge.splu(sp.csc_array(dependent))


def test_doubtful_solutions_are_warned_of():
    hilbert = 1 / (np.arange(12)[:, None] + np.arange(12) + 1.0)
    with pytest.warns(luge.AccuracyWarning, match="no correct digit"):
        luge.spsolve(sp.csc_array(hilbert), np.ones(12))


def test_what_is_wrong_with_arguments():
    a = tridiagonal(5)
    lu = luge.splu(a)
    for call, exception, message in [
        (lambda: luge.splu(a[:3]), ValueError, "can only factor square matrices"),
        (lambda: luge.spsolve(a[:3], np.ones(3)), ValueError, "matrix must be square"),
        (lambda: luge.spsolve(a, np.ones(4)), ValueError, "dimension mismatch"),
        (lambda: luge.spsolve(a, np.ones((5, 1, 1))), ValueError, "dimension mismatch"),
        (lambda: luge.splu(a * np.clongdouble(1j)), TypeError, "cannot upcast complex256"),
        (lambda: lu.solve(np.ones(5) * 1j), TypeError, "Cannot cast array data"),
        (lambda: luge.splu("matrix"), ValueError, "square"),
        (lambda: luge.splu(a.astype(np.longdouble)), TypeError, "cannot upcast float128"),
        (lambda: luge.splu(a, permc_spec="METIS"), ValueError, "permc_spec is 'METIS'"),
        (lambda: luge.splu(a, options={"Equilibrate": True}), ValueError, "not known: Equilibrate"),
        (lambda: luge.splu(a, diag_pivot_thresh=2.0), luge.OptionError, "pivoting.threshold"),
        (lambda: lu.solve(np.ones(5), "Q"), ValueError, "trans must be N, T, or H"),
        (lambda: lu.solve(1.0), ValueError, "incompatible size"),
        (lambda: luge.splu(a.astype("f4")).solve(np.ones(5)), TypeError, "Cannot cast array data"),
        (lambda: lu.solve(np.array([1, 2, np.nan, 4, 5])), luge.RightHandSideError, "row 2"),
    ]:
        with pytest.raises(exception, match=message):
            call()
    broken = a.copy()
    broken.data[4] = np.inf
    with pytest.raises(luge.InvalidMatrixError) as caught:
        luge.splu(broken)
    assert (caught.value.kind, caught.value.row, caught.value.column) == ("NotFinite", 2, 1)


def test_scipys_options():
    a = laplacian(9, 9) + tridiagonal(81)
    b = np.ones(81)
    for options in (
        {"permc_spec": "COLAMD"},
        {"permc_spec": "MMD_ATA"},
        {"permc_spec": "MMD_AT_PLUS_A"},
        {"diag_pivot_thresh": 0.0},
        {"relax": 1, "panel_size": 1},
        {"options": {"Equil": False, "IterRefine": "SINGLE", "ColPerm": "NATURAL"}},
        {"options": {"SymmetricMode": True, "DiagPivotThresh": 0.1}},
        {"backend": "cpu", "threads": 1},
    ):
        np.testing.assert_allclose(a @ luge.splu(a, **options).solve(b), b, rtol=1e-12)
    assert not luge.splu(a, options={"Equil": False}).inform.scaled
    assert luge.splu(a, permc_spec="MMD_AT_PLUS_A").inform.ordering == "AMD"
    natural = luge.splu(a[::-1], permc_spec="NATURAL")
    assert np.array_equal(natural.perm_c, np.arange(81))
    np.testing.assert_allclose(natural.solve(b[::-1]), luge.spsolve(a, b), rtol=1e-12)


def test_without_change_of_arguments():
    unsorted = sp.csc_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 2, 3])))
    b = np.array([[1.0], [2.0]])
    before = [array.copy() for array in (unsorted.data, unsorted.indices, unsorted.indptr, b)]
    luge.spsolve(unsorted, b)
    luge.splu(unsorted).solve(b)
    luge.factorized(unsorted)(b)
    for array, old in zip((unsorted.data, unsorted.indices, unsorted.indptr, b), before, strict=True):
        assert np.array_equal(array, old)
