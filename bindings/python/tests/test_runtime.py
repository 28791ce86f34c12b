"""How the package behaves in a process: threads, the interpreter's lock, memory, warnings, optional packages."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import luge
import numpy as np
import pytest
from matrices import backward_error, laplacian, tridiagonal

LARGE = laplacian(24, 24, 24)


def largest_gap(call):
    """Seconds that `call` takes, and the longest time in it in which another thread of Python did not run."""
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    time.sleep(0.01)
    try:
        start = time.perf_counter()
        call()
        end = time.perf_counter()
    finally:
        stop.set()
        thread.join()
    inside = [start, *(t for t in ticks if start < t < end), end]
    return end - start, max(b - a for a, b in zip(inside, inside[1:], strict=False))


@pytest.mark.parametrize("phase", ["analyze", "factorize", "refactorize", "solve", "pass", "splu", "lower_upper", "batch"])
def test_the_interpreters_lock_is_released(phase):
    # One thread, so that a core is left for the other one.
    solver = luge.Solver(backend="cpu", threads=1).factorize(LARGE)
    many = np.ones((LARGE.shape[0], 30))
    few = luge.Solver(backend="cpu", threads=1).analyze(tridiagonal(2000))
    call = {
        "analyze": lambda: luge.Solver(backend="cpu", threads=1).analyze(LARGE),
        "factorize": lambda: solver.factorize(LARGE),
        "refactorize": lambda: solver.refactorize(LARGE),
        "solve": lambda: solver.solve(many),
        "pass": lambda: solver.solve(many, refine=False),
        "splu": lambda: luge.splu(LARGE, backend="cpu", threads=1),
        "lower_upper": lambda: solver._factors.lower_upper(),
        "batch": lambda: few.factorize_batch(np.tile(tridiagonal(2000).data, (300, 1))),
    }[phase]
    # A machine that is busy with other things may stop any thread for a while; a lock that is held stops it each time.
    results = []
    while len(results) < 10:
        seconds, gap = largest_gap(call)
        assert seconds > 0.01, "long enough to tell"
        results.append(gap / seconds)
        if results[-1] < 0.6:
            return
    pytest.fail(f"another thread stood still for these parts of the time: {results}")


def test_threads_share_factors():
    a = laplacian(20, 20)
    solver = luge.Solver().factorize(a)
    rng = np.random.default_rng(0)
    right_hand_sides = [rng.random(400) for _ in range(64)]
    expected = [solver.solve(b) for b in right_hand_sides]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(solver._factors.solve, right_hand_sides, [1] * 64, ["N"] * 64))
    assert all(np.array_equal(x, y[0]) for x, y in zip(expected, found, strict=True))


def test_refactorizations_and_solves_in_threads_take_turns():
    a = laplacian(15, 15)
    solver = luge.Solver().factorize(a)
    b = np.ones(225)

    def work(at):
        if at % 4 == 0:
            solver.refactorize(a * (1 + at % 3))
            return None
        return solver._factors.solve(b, 1, "N")[0]

    with ThreadPoolExecutor(8) as pool:
        solutions = [x for x in pool.map(work, range(200)) if x is not None]
    # Each is that of one of the matrices, none a mixture.
    for x in solutions:
        assert min(backward_error(a * scale, x, b) for scale in (1, 2, 3)) < 1e-14


def test_threads_do_not_change_a_bit():
    b = np.ones(LARGE.shape[0])
    one, two = (luge.Solver(backend="cpu", threads=count).factorize(LARGE).solve(b) for count in (1, 2))
    assert np.array_equal(one, two)


def test_cancel():
    solver = luge.Solver(backend="cpu", threads=1)
    matrix = laplacian(32, 32, 32)
    caught = []

    def work():
        try:
            solver.factorize(matrix)
        except luge.CancelledError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.02)
    solver.cancel()
    thread.join()
    assert caught, "it was stopped"
    with pytest.raises(luge.CancelledError):
        solver.factorize(tridiagonal(5))
    solver.resume()
    assert solver.factorize(tridiagonal(5)).solve(np.ones(5)).shape == (5,)


SCRIPT = """
import luge, numpy as np
{body}
"""


def run(body, *flags):
    done = subprocess.run(
        [sys.executable, *flags, "-c", SCRIPT.format(body=body)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


LEAKS = """
import gc, os
import scipy.sparse as sp

def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

a = sp.diags_array([-1.0, 4.0, -2.0], offsets=[-1, 0, 1], shape=(100, 100), format="csc")
a.sort_indices()
b, many = np.ones(100), np.ones((3, 100))
singular = sp.csc_array((3, 3))
solver = luge.Solver(backend="cpu").analyze(a)

def step(at):
    lu = luge.splu(a, backend="cpu")
    lu.solve(b)
    solver.factorize(a)
    solver.refactorize(a)
    solver.solve(b)
    if at % 10 == 0:
        lu.L, solver.inform
        solver.factorize_batch(np.stack([a.data] * 3)).solve(many)
        try:
            luge.splu(singular)
        except luge.SingularMatrixError:
            pass

for at in range(500):
    step(at)
gc.collect()
before = resident()
for at in range(10_000):
    step(at)
gc.collect()
print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_ten_thousand_factorizations_leave_nothing_behind():
    # In a process of its own, which has no free memory that would hide it. A hundred bytes of each step would be a megabyte.
    assert int(run(LEAKS)) < 1_000_000


def test_without_warnings_in_development_mode():
    body = """
import scipy.sparse as sp
a = sp.diags_array([-1.0, 4.0, -2.0], offsets=[-1, 0, 1], shape=(50, 50), format="csc")
a.sort_indices()
lu = luge.splu(a)
x = lu.solve(np.ones(50))
lu.L, lu.U, lu.perm_r, lu.perm_c, lu.nnz
luge.spsolve(a, np.ones((50, 2)))
luge.factorized(a.tocoo())(np.ones(50))
solver = luge.Solver(kind="auto").factorize(a)
solver.refactorize(a.data)
solver.solve(np.ones(50), "T")
solver.inform._repr_html_(), solver.determinant, solver.condition()
luge.spy(a)
try:
    luge.splu(a * 0)
except RuntimeError:
    pass
print("fine")
"""
    assert run(body, "-X", "dev", "-W", "error") == "fine\n"


def test_scipy_is_not_needed():
    body = """
import sys
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "scipy":
            raise ImportError("no SciPy")
sys.meta_path.insert(0, Absent())
from types import SimpleNamespace as Matrix
arrays = dict(shape=(2, 2), indptr=np.array([0, 1, 3]), indices=np.array([0, 0, 1]))
a = Matrix(format="csr", data=np.array([2.0, 1.0, 4.0]), **arrays)
print(luge.splu(a).solve(np.array([2.0, 9.0])), luge.spsolve(a, [2.0, 9.0]))
try:
    luge.Solver().factorize([[1.0]])
except TypeError as error:
    print(error)
try:
    luge.splu(Matrix(format="csr", shape=(1, 1), indptr=np.array([0, 2]), indices=np.array([0, 0]), data=np.ones(2)))
except luge.InvalidMatrixError as error:
    print(error.reason)
assert not any(name.partition(".")[0] == "scipy" for name in sys.modules)
"""
    printed = run(body, "-X", "dev", "-W", "error").splitlines()
    assert printed[0] == "[1. 2.] [1. 2.]"
    assert printed[1:] == ["list is no CSR or CSC matrix, and there is no SciPy to convert it", "NotSorted"]


def test_import_brings_no_scipy():
    assert run("import sys; print('scipy' in sys.modules)") == "False\n"


def test_the_driver_is_not_loaded_for_the_cpu():
    body = """
class Matrix: format, shape = "csr", (1, 1); indptr, indices, data = np.array([0, 1]), np.array([0]), np.array([2.0])
luge.splu(Matrix, backend="cpu").solve([1.0])
print("libcuda" in open("/proc/self/maps").read())
"""
    assert run(body) == "False\n"
