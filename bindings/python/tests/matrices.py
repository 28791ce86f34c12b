"""Matrices for the tests."""

import numpy as np
import scipy.sparse as sp


def tridiagonal(n, dtype=np.float64):
    """Diagonally dominant, unsymmetric."""
    a = sp.diags_array([-1.0, 4.0, -2.0], offsets=[-1, 0, 1], shape=(n, n), format="csc", dtype=dtype)
    # Older versions of SciPy do not.
    a.sort_indices()
    return a


def scattered(shape, density, seed=0):
    """Entries anywhere."""
    rng = np.random.default_rng(seed)
    return sp.csc_array(np.where(rng.random(shape) < density, rng.random(shape), 0.0))


def laplacian(*sizes):
    """Of a grid, symmetric and positive definite."""
    total = sp.csc_array((1, 1))
    for size in sizes:
        line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(size, size))
        total = sp.kron(total, sp.eye_array(size)) + sp.kron(sp.eye_array(total.shape[0]), line)
    total = total.tocsc()
    total.sort_indices()
    return total


def saddle_point(n, m, seed=0):
    """Symmetric, indefinite, zeros on the diagonal: n positive and m negative eigenvalues."""
    constraints = scattered((m, n), 0.3, seed) + sp.eye_array(m, n)
    a = sp.block_array([[tridiagonal(n) + tridiagonal(n).T, constraints.T], [constraints, None]], format="csc")
    a.sort_indices()
    return a


def backward_error(a, x, b):
    """Normwise, in the infinity norm."""
    residual = np.abs(b - a @ x).max()
    return residual / (abs(a).sum(axis=1).max() * np.abs(x).max() + np.abs(b).max())
