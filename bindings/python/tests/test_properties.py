"""Drawn matrices: luge beside SciPy, and beside exact arithmetic."""

import warnings

import luge
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matrices import backward_error

EPS = np.finfo(float).eps

# The same cases in each run; elsewhere `--hypothesis-seed` draws others.
settings.register_profile(
    "luge", deadline=None, derandomize=True, max_examples=150, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("luge")


@st.composite
def matrices(draw, values=st.floats(0.001, 10).flatmap(lambda v: st.sampled_from([v, -v])), most=16):
    """Square, sparse, with rows and columns in any order; often singular. No solution overflows."""
    n = draw(st.integers(1, most))
    density = draw(st.floats(0.05, 0.6))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    pattern = rng.random((n, n)) < density
    if draw(st.booleans()):
        pattern |= np.eye(n, dtype=bool)[rng.permutation(n)]
    some = draw(st.lists(values, min_size=1, max_size=8))
    return sp.csc_array(np.where(pattern, rng.choice(some, (n, n)), 0.0))


def determinant(a):
    """Of integers, exactly (Bareiss 1968)."""
    rows = [[int(value) for value in row] for row in a.toarray()]
    n, sign, last = len(rows), 1, 1
    for k in range(n - 1):
        pivot = next((i for i in range(k, n) if rows[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            rows[k], rows[pivot], sign = rows[pivot], rows[k], -sign
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                rows[i][j] = (rows[i][j] * rows[k][k] - rows[i][k] * rows[k][j]) // last
        last = rows[k][k]
    return sign * rows[-1][-1]


def is_doubted(report):
    return any(warning.kind == "IllConditioned" for warning in report.warnings)


@given(matrices(), st.sampled_from(["csc", "csr", "coo"]), st.sampled_from([None, 1, 3]), st.sampled_from("NTH"), st.booleans())
def test_solutions_are_those_of_scipy(a, layout, columns, trans, is_complex):
    n = a.shape[0]
    b = np.random.default_rng(n).standard_normal(n if columns is None else (n, columns))
    if is_complex:
        a = sp.csc_array((a.data * np.exp(1j * np.arange(a.nnz)), a.indices, a.indptr), shape=a.shape)
        b = b * (1 + 2j)
    try:
        lu = luge.splu(a.asformat(layout))
    except luge.SingularMatrixError:
        # Then it has no inverse that means anything.
        assert np.linalg.cond(a.toarray()) > 1e-4 / EPS
        return
    op = {"N": a, "T": a.T, "H": a.conj().T}[trans]
    x = lu.solve(b, trans)
    assert (x.shape, x.dtype) == (b.shape, a.dtype)
    for column in range(columns or 1):
        pick = (lambda v: v) if columns is None else (lambda v: v[:, column])  # noqa: B023
        assert backward_error(op.tocsr(), pick(x), pick(b)) < 1e-10
    condition = np.linalg.cond(a.toarray())
    if condition < 1e10:
        theirs = spla.splu(a).solve(b, trans)
        np.testing.assert_allclose(x, theirs, atol=100 * condition * EPS * np.abs(theirs).max(), rtol=0)


@given(matrices())
def test_l_u_and_permutations_make_the_matrix(a):
    try:
        lu = luge.splu(a)
    except luge.SingularMatrixError:
        return
    n = a.shape[0]
    product = (lu.L @ lu.U).toarray()
    bound = (abs(lu.L) @ abs(lu.U)).toarray()
    permuted = np.empty((n, n))
    permuted[np.ix_(lu.perm_r, lu.perm_c)] = a.toarray()
    assert (np.abs(product - permuted) <= 16 * n * EPS * bound).all()


@given(matrices(st.integers(-3, 3).map(float), most=9))
def test_singular_is_what_has_no_determinant(a):
    exact = determinant(a)
    solver = luge.Solver()
    try:
        solver.factorize(a)
    except luge.SingularMatrixError:
        assert exact == 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", spla.MatrixRankWarning)
            assert np.isnan(luge.spsolve(a, np.ones(a.shape[0]))).all()
        return
    if exact == 0:
        assert is_doubted(solver.inform)
    else:
        assert abs(solver.determinant.value - exact) < 1e-9 * abs(exact)


@given(matrices(), st.floats(0.5, 2))
def test_refactorized_is_as_good_as_factorized(a, factor):
    solver = luge.Solver()
    try:
        solver.factorize(a)
    except luge.SingularMatrixError:
        return
    other = a.copy()
    other.data = other.data * np.linspace(1, factor, other.nnz)
    b = np.ones(a.shape[0])
    try:
        solver.refactorize(other)
    except luge.SingularMatrixError:
        assert np.linalg.cond(other.toarray()) > 1e-4 / EPS
        other = a
    assert backward_error(other.tocsr(), solver.solve(b), b) < 1e-10
