"""Progress: what a function is told, what it may do, and bars."""

import subprocess
import sys
import threading

import luge
import pytest
from matrices import laplacian, tridiagonal

LARGE = laplacian(24, 24, 24)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_function_is_told_of_phases_and_counts(threads):
    told, callers = [], set()

    def progress(phase, done, total):
        told.append((phase, done, total))
        callers.add(threading.get_ident())

    solver = luge.Solver(backend="cpu", threads=threads, kind="symmetric")
    solver.analyze(LARGE, progress=progress)
    phases = [phase for phase, done, total in told if (done, total) == (0, 0)]
    assert phases[0] == "ordering" and "symbolic" in phases
    told.clear()
    expected = luge.Solver(backend="cpu", threads=threads, kind="symmetric").factorize(LARGE)
    solver.factorize(LARGE, progress=progress)
    assert told[0] == ("numeric", 0, 0)
    # A large matrix is factorized front by front, and each count is more than the one before.
    counts = [(done, total) for phase, done, total in told if phase == "numeric" and total]
    assert counts and counts == sorted(set(counts)) and counts[-1] == (10**6, 10**6)
    assert callers == {threading.get_ident()}, "the thread of the call"
    b = [1.0] * LARGE.shape[0]
    assert (solver.solve(b) == expected.solve(b)).all(), "to the bit"


@pytest.mark.parametrize("phase", ["ordering", "numeric"])
def test_what_it_raises_stops_the_call_and_arrives(phase):
    class Enough(Exception):
        pass

    told = []

    def progress(name, done, total):
        told.append(name)
        if name == phase:
            raise Enough(name)

    solver = luge.Solver(backend="cpu")
    with pytest.raises(Enough, match=phase):
        solver.factorize(LARGE, progress=progress)
    assert told[-1] == phase, "it is not called again"
    # The solver is as good as before.
    assert solver.factorize(LARGE).solve([1.0] * LARGE.shape[0]).shape == (LARGE.shape[0],)


def test_an_interrupt_arrives():
    body = """
import signal, threading, time, os
# Whoever starts this in the background of a shell has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import luge, scipy.sparse as sp
n = 60
line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
one = sp.eye_array(n)
a = (sp.kron(sp.kron(line, one), one) + sp.kron(sp.kron(one, line), one) + sp.kron(sp.kron(one, one), line)).tocsc()
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.perf_counter()
try:
    luge.Solver(backend="cpu", threads=1).factorize(a, progress=lambda *_: None)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_cancel_and_errors_are_as_without():
    solver = luge.Solver(backend="cpu")
    solver.cancel()
    with pytest.raises(luge.CancelledError):
        solver.factorize(LARGE, progress=lambda *_: None)
    solver.resume()
    with pytest.raises(luge.SingularMatrixError):
        solver.factorize(tridiagonal(3) * 0, progress=lambda *_: None)
    for wrong in ("yes", 3):
        with pytest.raises(TypeError, match="progress is"):
            solver.factorize(tridiagonal(3), progress=wrong)


def test_bars(capsys):
    pytest.importorskip("tqdm")
    luge.Solver(backend="cpu").analyze(LARGE, progress=True).factorize(LARGE, progress=True)
    drawn = capsys.readouterr().err
    assert all(phase in drawn for phase in ("ordering", "symbolic", "numeric"))
    luge.Solver(backend="cpu").factorize(LARGE, progress=False)
    assert capsys.readouterr().err == ""


def test_bars_need_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        luge.Solver(backend="cpu").analyze(LARGE, progress=True)
