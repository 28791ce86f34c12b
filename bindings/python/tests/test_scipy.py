"""SciPy's own tests of splu, spsolve and factorized, with luge in their place.

The installed file is imported, the three functions are replaced in its namespace, and its tests are collected here. What of it
does not apply is listed in `scipy_exceptions.py` with the reason; `conftest.py` holds each reason against what happens.
"""

import importlib
import warnings

import luge
import numpy as np
import pytest
import scipy.sparse as sp

theirs = importlib.import_module("scipy.sparse.linalg._dsolve.tests.test_linsolve")

for name in ("splu", "spsolve", "factorized"):
    assert hasattr(theirs, name), f"SciPy's tests do not use {name} by that name any more"
    setattr(theirs, name, getattr(luge, name))

globals().update(
    {name: value for name, value in vars(theirs).items() if name.startswith(("Test", "test_"))}
)


# Where only the complex half of a test does not apply, the real half is here, with SciPy's own checks.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_splu_smoketest_of_real_matrices(dtype, index):
    tests = theirs.TestSplu()
    tests.setup_method()

    def check(a, b, x, message):
        assert abs(a @ x - b).max() < 1e3 * np.finfo(a.dtype).eps, message

    tests._smoketest(luge.splu, check, dtype, index)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lu_attr_of_real_matrices(dtype):
    tests = theirs.TestSplu()
    tests.setup_method()
    a = tests.A.astype(dtype)
    lu = luge.splu(a)
    n = a.shape[0]
    rows, columns = np.zeros((n, n)), np.zeros((n, n))
    rows[lu.perm_r, np.arange(n)] = 1
    columns[np.arange(n), lu.perm_c] = 1
    product = (lu.L @ lu.U).toarray()
    assert product.dtype == dtype
    np.testing.assert_allclose(rows @ a.toarray() @ columns, product, atol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("layout", ["csc", "csr"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", "fd")
def test_twodiags_of_real_matrices(layout, index, dtype):
    a = sp.dia_array(([[1, 2, 3, 4, 5], [6, 5, 8, 9, 10]], [0, 1]), shape=(5, 5)).asformat(layout)
    condition = np.linalg.cond(a.toarray())
    a = a.astype(dtype)
    a.indices, a.indptr = a.indices.astype(index), a.indptr.astype(index)
    b = np.arange(1, 6).astype(dtype)
    x = luge.spsolve(a, b)
    assert x.dtype == dtype
    assert np.linalg.norm(b - a @ x) < 10 * condition * np.finfo(dtype).eps


def test_threads_of_real_matrices():
    """As SciPy's test, whose threads factorize complex matrices and spilu's, too."""
    from concurrent.futures import ThreadPoolExecutor

    def work(_):
        tests = theirs.TestSplu()
        tests.setup_method()
        tests.test_splu_basic()
        test_splu_smoketest_of_real_matrices(np.float64, np.int32)

    with warnings.catch_warnings(), ThreadPoolExecutor(20) as pool:
        warnings.simplefilter("ignore", theirs.SparseEfficiencyWarning)
        assert len(list(pool.map(work, range(20)))) == 20
