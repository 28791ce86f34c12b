"""Matrices for the tests."""

import numpy as np
import scipy.sparse as sp


def tridiagonal(n, dtype=np.float64):
    """Diagonally dominant, unsymmetric."""
    return sp.diags_array([-1.0, 4.0, -2.0], offsets=[-1, 0, 1], shape=(n, n), format="csc", dtype=dtype)


def laplacian(*sizes):
    """Of a grid, symmetric and positive definite."""
    total = sp.csc_array((1, 1))
    for size in sizes:
        line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(size, size))
        total = sp.kron(total, sp.eye_array(size)) + sp.kron(sp.eye_array(total.shape[0]), line)
    return total.tocsc()


def saddle_point(n, m, seed=0):
    """Symmetric, indefinite, zeros on the diagonal: n positive and m negative eigenvalues."""
    rng = np.random.default_rng(seed)
    constraints = sp.random_array((m, n), density=0.3, rng=rng) + sp.eye_array(m, n)
    return sp.block_array([[tridiagonal(n) + tridiagonal(n).T, constraints.T], [constraints, None]], format="csc")


def backward_error(a, x, b):
    """Normwise, in the infinity norm."""
    residual = np.abs(b - a @ x).max()
    return residual / (abs(a).sum(axis=1).max() * np.abs(x).max() + np.abs(b).max())
