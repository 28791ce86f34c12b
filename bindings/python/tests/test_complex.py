"""Complex matrices: general, Hermitian, positive definite, complex symmetric. What comes out is held against NumPy's dense results."""

import luge
import numpy as np
import pytest
import scipy.sparse as sp
from matrices import saddle_point, scattered, tridiagonal

DTYPES = [np.complex64, np.complex128]
OPERATORS = {"N": lambda a: a, "T": lambda a: a.T, "H": lambda a: a.conj().T}


def numbers(shape, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def general(n):
    a = tridiagonal(n) + scattered((n, n), 0.1)
    return sp.csc_array(a.multiply(np.exp(1j * np.arange(n))[:, None])).tocsc()


def hermitian(n, m):
    """Indefinite: n positive and m negative eigenvalues, the diagonal of the second part zero."""
    a = saddle_point(n, m).tocoo()
    turned = np.where(a.row == a.col, 1.0, np.exp(1j * (a.row - a.col)))
    return sp.csc_array((a.data * turned, (a.row, a.col)), shape=a.shape)


def complex_symmetric(n):
    a = saddle_point(n, n // 3).astype(complex)
    return sp.csc_array(a + sp.diags_array(1j * np.linspace(-1, 1, a.shape[0])))


KINDS = [
    ("general", general(40)),
    ("hermitian", hermitian(30, 10)),
    ("positive_definite", hermitian(30, 0)),
    ("symmetric", complex_symmetric(30)),
]

# In reports.
NAMES = {"general": "general", "hermitian": "Hermitian", "positive_definite": "positive definite", "symmetric": "symmetric"}


# Each whole, and by its triangles if these say all.
STORED = [(kind, a, None) for kind, a in KINDS] + [(kind, a, part) for kind, a in KINDS[1:] for part in (sp.tril, sp.triu)]


@pytest.mark.parametrize(("kind", "a", "triangle"), STORED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_solves_are_those_of_numpy(kind, a, triangle, dtype):
    dense = a.toarray()
    stored = a if triangle is None else sp.csc_array(triangle(a))
    n = a.shape[0]
    solver = luge.Solver(kind=kind, backend="cpu").factorize(stored.astype(dtype))
    assert solver.dtype == dtype and solver.inform.kind == NAMES[kind]
    eps = float(np.finfo(dtype).eps)
    for trans, operator in OPERATORS.items():
        for b in (numbers(n), numbers((n, 3))):
            expected = np.linalg.solve(operator(dense), b)
            for refine in (True, False):
                x = solver.solve(b, trans, refine=refine)
                assert x.dtype == dtype and x.shape == b.shape
                assert np.abs(x - expected).max() < 1e3 * eps * np.linalg.cond(dense) * np.abs(expected).max()
        # A real right-hand side is one of complex numbers.
        np.testing.assert_allclose(solver.solve(np.ones(n), trans), solver.solve(np.ones(n) + 0j, trans))
    if kind in ("hermitian", "positive_definite"):
        eigenvalues = np.linalg.eigvalsh(dense)
        assert solver.inertia == luge.Inertia(int((eigenvalues > 0).sum()), int((eigenvalues < 0).sum()), 0)
    else:
        assert solver.inertia is None
    found, (sign, log) = solver.determinant, np.linalg.slogdet(dense)
    assert found.log10_abs == pytest.approx(log / np.log(10), abs=1e4 * eps)
    assert isinstance(found.mantissa, complex) and complex(found) == found.value
    assert found.mantissa / abs(found.mantissa) == pytest.approx(sign, abs=1e4 * eps)


def test_refactorizations_and_batches():
    a = hermitian(30, 10)
    n = a.shape[0]
    solver = luge.Solver(kind="hermitian", backend="cpu").factorize(a)
    b = numbers(n)
    for factor in (2.0, -3.0):
        solver.refactorize(a.data * factor)
        np.testing.assert_allclose(a @ solver.solve(b) * factor, b, atol=1e-12)
    assert solver.inertia == luge.Inertia(10, 30, 0), "of -3 a"
    batch = solver.factorize_batch(np.stack([a.data, 2 * a.data]))
    b = numbers((2, n, 2))
    for refine in (True, False):
        x = batch.solve(b, refine=refine)
        assert x.dtype == complex
        np.testing.assert_allclose(np.stack([a @ x[0], 2 * a @ x[1]]), b, atol=1e-12)
    assert len(batch.accuracies) == 2 and batch.accuracies[1].backward_error < 1e-10


def test_real_matrices_of_the_kind():
    a = saddle_point(20, 5)
    solver = luge.Solver(kind="hermitian", backend="cpu").factorize(a)
    assert solver.inform.kind == luge.Solver(kind="symmetric", backend="cpu").factorize(a).inform.kind
    assert solver.inertia == luge.Inertia(20, 5, 0)


def test_auto_tells_the_kinds_apart():
    for kind, a in KINDS:
        solver = luge.Solver(kind="auto", backend="cpu").factorize(a)
        assert solver.inform.kind == NAMES[kind]


def test_what_is_refused():
    a = hermitian(10, 3)
    with pytest.raises(luge.InvalidMatrixError) as caught:
        luge.Solver(kind="hermitian", backend="cpu").factorize(a + sp.diags_array(1j * np.ones(13)))
    assert caught.value.kind == "NotHermitian" and caught.value.row == caught.value.column == 0
    with pytest.raises(luge.NotPositiveDefiniteError):
        luge.Solver(kind="positive_definite", backend="cpu").factorize(a)
    solver = luge.Solver(backend="cpu").factorize(a)
    with pytest.raises(TypeError, match="complex128; the one that was analyzed is of float64"):
        luge.Solver(backend="cpu").analyze(abs(a)).factorize(a)
    # Real values are complex ones.
    assert solver.factorize(abs(a)).dtype == complex
    signs = np.r_[np.ones(10), -np.ones(3)].astype(int).tolist()
    with pytest.raises(luge.OptionError, match="complex"):
        luge.Solver(kind="symmetric", regularization=(signs, 1e-8), backend="cpu").factorize(complex_symmetric(10))


def test_lower_and_upper():
    a = general(30)
    lu = luge.splu(a, backend="cpu")
    rows, columns = np.zeros((30, 30)), np.zeros((30, 30))
    rows[lu.perm_r, np.arange(30)] = 1
    columns[np.arange(30), lu.perm_c] = 1
    np.testing.assert_allclose(rows @ a.toarray() @ columns, (lu.L @ lu.U).toarray(), atol=1e-13)
    assert lu.L.dtype == complex and repr(lu) == "<luge.LU of shape (30, 30), complex128>"


def test_complex_matrices_are_solved_on_the_cpu():
    assert luge.Solver(backend="auto").factorize(general(10)).inform.backend == "cpu"
