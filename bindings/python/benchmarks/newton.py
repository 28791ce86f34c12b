"""What a Newton loop takes whose values are made on the GPU: Luge beside CuPy's direct solvers and nvmath-python's.

    python newton.py [--method NAME]... A.mtx.gz ... > table.md

Each matrix is solved 100 times, its values changed on the GPU by up to a thousandth from step to step. Luge analyzes the pattern
once and refactorizes values that stay on the GPU; CuPy's `splu` factorizes on the CPU and its `spsolve` analyses anew, each time.
nvmath-python's `DirectSolver` (version 1.0, by cuDSS 0.8) plans once and factorizes values that are changed in place: its
`reset_operands` of a matrix would forget the plan. It does not refine, nor measure.
A method that takes more than its seconds ends earlier and is said to; times are then those of as many steps, scaled to 100. Needs
CuPy, PyTorch and SciPy. nvmath-python finds libcudss and libcublas in NVIDIA's wheels or on `LD_LIBRARY_PATH`; where it or they are
missing, its rows say so.
"""

import argparse
import sys
import time

import cupy as cp
import cupyx.scipy.sparse as cps
import cupyx.scipy.sparse.linalg as cpl
import luge
import numpy as np
import scipy.io
import scipy.sparse as sp
import torch

STEPS = 100
SECONDS = 20.0


def changed(xp, values, step):
    """Other values, made on the device."""
    where = {"device": "cuda"} if xp is torch else {}
    numbers = xp.arange(len(values), dtype=xp.float64, **where)
    return values * (1.0 + 1e-3 * xp.sin(numbers + 7.0 * step))


def backward_error(a, x, b):
    residual = b - a @ x
    size = abs(a).sum(axis=1).max() * abs(x).max() + abs(b).max()
    return float(abs(residual).max() / size)


def by_luge(a, library):
    """Arrays of `library` in and out."""
    solver = luge.Solver(backend="gpu").factorize(a)
    if library is torch:
        values, b = torch.as_tensor(a.data, device="cuda"), torch.ones(a.shape[0], dtype=torch.float64, device="cuda")
        wrap = lambda x: torch.as_tensor(x, device="cuda")
    else:
        values, b = cp.asarray(a.data), cp.ones(a.shape[0])
        wrap = cp.asarray

    def step(k):
        solver.refactorize(changed(library, values, k))
        return wrap(solver.solve(b))

    return step


def by_cupy(a, solve):
    values, b = cp.asarray(a.data), cp.ones(a.shape[0])
    pattern = cps.csr_matrix(a)

    def step(k):
        matrix = cps.csr_matrix((changed(cp, values, k), pattern.indices, pattern.indptr), shape=a.shape)
        return solve(matrix, b)

    return step


def by_nvmath(a):
    """CuPy's matrix with indices of 32 bits, which cuDSS wants; all calls on CuPy's current stream, as the other methods."""
    from nvmath.sparse.advanced import DirectSolver

    indices, indptr = (cp.asarray(part, cp.int32) for part in (a.indices, a.indptr))
    matrix = cps.csr_matrix((cp.asarray(a.data), indices, indptr), shape=a.shape)
    values, b = matrix.data.copy(), cp.ones(a.shape[0])
    solver = DirectSolver(matrix, b)
    solver.plan()

    def step(k):
        matrix.data[:] = changed(cp, values, k)
        solver.factorize()
        return solver.solve()

    return step


METHODS = {
    "luge, CuPy arrays": lambda a: by_luge(a, cp),
    "luge, PyTorch tensors": lambda a: by_luge(a, torch),
    "cupyx splu": lambda a: by_cupy(a, lambda m, b: cpl.splu(m.tocsc()).solve(b)),
    "cupyx spsolve": lambda a: by_cupy(a, cpl.spsolve),
    "nvmath DirectSolver": by_nvmath,
}


def measure(a, method):
    """Seconds of all steps, steps that were made, and the largest backward error of the first, middle and last of them."""
    step = METHODS[method](a)
    step(0)
    torch.cuda.synchronize()
    solutions, start = [], time.perf_counter()
    for k in range(1, STEPS + 1):
        x = step(k)
        torch.cuda.synchronize()
        solutions.append((k, x if k in (1, STEPS // 2, STEPS) else None))
        if time.perf_counter() - start > SECONDS:
            break
    seconds = time.perf_counter() - start
    b = np.ones(a.shape[0])
    errors = []
    for k, x in solutions:
        if x is not None:
            values = cp.asnumpy(changed(cp, cp.asarray(a.data), k))
            matrix = sp.csr_array((values, a.indices, a.indptr), shape=a.shape)
            errors.append(backward_error(matrix, cp.asnumpy(cp.asarray(x)), b))
    return seconds, len(solutions), max(errors)


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("paths", nargs="+")
    asked = parser.parse_args(arguments)
    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{device}, CuPy {cp.__version__}, PyTorch {torch.__version__}, SciPy {scipy.__version__}\n")
    print("| matrix | n | method | seconds of 100 steps | steps made | largest backward error |")
    print("|---|--:|---|--:|--:|--:|")
    for path in asked.paths:
        a = sp.csr_array(scipy.io.mmread(path, spmatrix=False).astype(float))
        a.sum_duplicates()
        name = path.rsplit("/", 1)[-1].removesuffix(".gz").removesuffix(".mtx")
        for method in asked.method or METHODS:
            try:
                seconds, steps, error = measure(a, method)
                print(f"| {name} | {a.shape[0]} | {method} | {seconds * STEPS / steps:.3f} | {steps} | {error:.1e} |", flush=True)
            except Exception as failure:
                print(f"| {name} | {a.shape[0]} | {method} | {type(failure).__name__}: {failure} | | |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
