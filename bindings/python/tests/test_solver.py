"""`luge.Solver`: phases, options, arrays."""

import dataclasses
import json

import luge
import numpy as np
import pytest
import scipy.sparse as sp
from luge import _luge
from matrices import backward_error, laplacian, saddle_point, tridiagonal

EPS = np.finfo(float).eps


def test_phases_in_their_order():
    a = tridiagonal(50)
    solver = luge.Solver(backend="cpu")
    assert "new" in repr(solver)
    for call in (lambda: solver.solve(np.ones(50)), lambda: solver.refactorize(a), lambda: solver.inform):
        with pytest.raises(luge.Error, match="call factorize first"):
            call()
    with pytest.raises(luge.Error, match="call analyze first"):
        solver.factorize(a.data)
    assert solver.analyze(a) is solver
    assert solver.shape == (50, 50) and "analyzed" in repr(solver)
    assert solver.inform.seconds.numeric is None
    assert solver.factorize(a) is solver
    assert solver.inform.seconds.numeric > 0
    b = np.arange(50.0)
    assert backward_error(a, solver.solve(b), b) < 4 * EPS
    assert solver.inform.seconds.solve > 0 and solver.inform.backward_error < 4 * EPS
    outcome = solver.refactorize(a * 3)
    assert outcome.reused and outcome.reason is None and outcome.backward_error < 1e-12
    assert solver.inform.seconds.solve is None, "the report is that of the new factors"
    assert backward_error(3 * a, solver.solve(b), b) < 4 * EPS
    assert backward_error(3 * a.T, solver.solve(b, "T"), b) < 4 * EPS
    assert np.array_equal(solver.solve(b, "T"), solver.solve(b, trans="H"))
    with pytest.raises(ValueError, match="trans must be N, T, or H"):
        solver.solve(b, "X")


def test_values_alone():
    a = tridiagonal(30)
    solver = luge.Solver().analyze(a)
    solver.factorize(2 * a.data)
    np.testing.assert_allclose(solver.solve(2 * a @ np.ones(30)), 1, rtol=1e-13)
    assert solver.refactorize(5 * a.data).reused
    np.testing.assert_allclose(solver.solve(5 * a @ np.ones(30)), 1, rtol=1e-13)
    with pytest.raises(ValueError, match="values has 3 numbers; 88 are expected"):
        solver.refactorize(np.ones(3))


def test_some_values():
    a = tridiagonal(40)
    solver = luge.Solver(backend="cpu").factorize(a)
    b = np.arange(40.0)
    changed, places = a.copy(), np.array([60, 3, 61])
    for factor in (2.0, 3.0):
        changed.data[places] = factor * a.data[places]
        assert solver.refactorize_changed(places, changed.data[places]).reused
        whole = luge.Solver(backend="cpu").factorize(a)
        whole.refactorize(changed.data)
        assert np.array_equal(solver.solve(b), whole.solve(b))
    assert 0 < solver.inform.refactorized_part < 1
    before = solver.solve(b)
    for indices, values, words in (
        ([0, 1], [1.0], "2 places"),
        ([0, len(a.data)], [1.0, 1.0], f"no entry at place {len(a.data)}"),
        ([7, 7], [1.0, 2.0], "two values for the entry at place 7"),
        ([0], [np.inf], "not a number"),
    ):
        with pytest.raises(luge.InvalidMatrixError, match=words):
            solver.refactorize_changed(indices, values)
    with pytest.raises(ValueError, match="place -1"):
        solver.refactorize_changed([-1], [1.0])
    with pytest.raises(ValueError, match="integers"):
        solver.refactorize_changed([0.5], [1.0])
    assert np.array_equal(solver.solve(b), before)
    # In the order in which the caller stores them.
    unsorted = sp.csc_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 2, 3])))
    solver = luge.Solver(backend="cpu").factorize(unsorted)
    solver.refactorize_changed([0], [5.0])
    np.testing.assert_allclose(np.array([[2.0, 0], [5, 3]]) @ solver.solve([2.0, 4.0]), [2.0, 4.0])
    with pytest.raises(luge.InvalidMatrixError, match="place 4"):
        solver.refactorize_changed([4], [5.0])


def test_values_of_unsorted_matrices():
    """They are in the order in which the caller stores them."""
    unsorted = sp.csc_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 2, 3])))
    dense = np.array([[2.0, 0], [1, 3]])
    b = np.array([2.0, 4.0])
    solver = luge.Solver().analyze(unsorted)
    for scale in (1, 2):
        np.testing.assert_allclose(scale * dense @ solver.factorize(scale * unsorted.data).solve(b), b)
        assert solver.refactorize(3 * scale * unsorted.data).reused
        np.testing.assert_allclose(3 * scale * dense @ solver.solve(b), b)
    batch = solver.factorize_batch(unsorted.data[None])
    np.testing.assert_allclose(dense @ batch.solve(b[None])[0], b)
    batch.refactorize(2 * unsorted.data[None])
    np.testing.assert_allclose(2 * dense @ batch.solve(b[None])[0], b)
    assert list(unsorted.indices) == [1, 0, 1], "the matrix is not changed"
    twice = sp.csr_array((np.ones(3), np.array([0, 0, 1]), np.array([0, 2, 3])))
    for a in (twice, unsorted.tocoo(), unsorted.tolil()):
        with pytest.raises(ValueError, match="values alone have no order"):
            solver.analyze(a).factorize(np.ones(3))


def test_a_pattern_without_values():
    a = tridiagonal(30, np.float32)
    solver = luge.Solver(backend="cpu").analyze(sp.csc_array((np.zeros(88), a.indices, a.indptr)), pattern_only=True, dtype="f4")
    assert solver.dtype == np.float32
    assert solver.factorize(a.data).solve(np.ones(30, np.float32)).dtype == np.float32


def test_parts_of_a_pattern_and_more():
    a = tridiagonal(20).tolil()
    solver = luge.Solver().analyze(a)
    part = a.copy()
    part[3, 4] = 0
    b = np.ones(20)
    assert backward_error(part.tocsr(), solver.factorize(part).solve(b), b) < 4 * EPS
    more = a.copy()
    more[3, 9] = 1
    with pytest.raises(luge.InvalidMatrixError) as caught:
        solver.refactorize(more)
    assert (caught.value.kind, caught.value.row, caught.value.column) == ("ExtraEntry", 3, 9)
    # The factors are those that they were.
    assert backward_error(part.tocsr(), solver.solve(b), b) < 4 * EPS
    with pytest.raises(luge.InvalidMatrixError) as caught:
        solver.refactorize(tridiagonal(7))
    assert (caught.value.kind, caught.value.rows, caught.value.n) == ("OtherSize", 7, 20)


FORMATS = ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"]


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("of_arrays", [True, False])
def test_every_format(layout, of_arrays):
    a = tridiagonal(40)
    a = (sp.csc_array(a) if of_arrays else sp.csc_matrix(a)).asformat(layout)
    b = np.linspace(1, 2, 40)
    x = luge.Solver().factorize(a).solve(b)
    assert backward_error(tridiagonal(40), x, b) < 4 * EPS


@pytest.mark.parametrize("index", ["i1", "i2", "i4", "i8", "u1", "u4", "u8"])
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_every_index(index, layout):
    a = tridiagonal(40).asformat(layout)
    b = np.linspace(1, 2, 40)
    expected = luge.splu(a).solve(b)
    other = a.copy()
    other.indices, other.indptr = a.indices.astype(index), a.indptr.astype(index)
    assert np.array_equal(luge.splu(other).solve(b), expected)


def test_indices_are_not_copied():
    from luge._arrays import matrix

    a = tridiagonal(40)
    for index in ("i4", "i8"):
        a.indices, a.indptr = a.indices.astype(index), a.indptr.astype(index)
        arrays = matrix(a)
        assert np.shares_memory(arrays.indices, a.indices)
        assert np.shares_memory(arrays.indptr, a.indptr)
        assert np.shares_memory(arrays.data, a.data)


def test_room_behind_the_last_entry():
    a = tridiagonal(10)
    a.data, a.indices = np.append(a.data, [9.0, 9.0]), np.append(a.indices, [3, 7]).astype(a.indices.dtype)
    assert np.array_equal(luge.splu(a).solve(np.ones(10)), luge.splu(tridiagonal(10)).solve(np.ones(10)))


def test_entries_stored_twice_are_summed():
    twice = sp.coo_array(([1.0, 2.0, 1.0, 4.0], ([0, 0, 1, 1], [0, 0, 0, 1])))
    compressed = sp.csr_array((twice.data, twice.col, np.array([0, 2, 4])))
    for a in (twice, compressed):
        np.testing.assert_allclose(luge.splu(a).solve(np.array([3.0, 5.0])), [1, 1])
    assert compressed.nnz == 4, "the matrix is not changed"


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "?"])
@pytest.mark.parametrize("columns", [None, 0, 1, 3])
@pytest.mark.parametrize("refine", [True, False])
def test_right_hand_sides(order, dtype, columns, refine):
    a = tridiagonal(25)
    solver = luge.Solver().factorize(a)
    shape = (25,) if columns is None else (25, columns)
    b = np.asarray(np.random.default_rng(1).integers(0, 2, shape), dtype, order=order)
    before = b.copy()
    for given in (b, b[::-1], np.repeat(b, 2, axis=0)[::2]):
        x = solver.solve(given, refine=refine)
        assert x.shape == shape and x.dtype == np.float64
        np.testing.assert_allclose(a @ x, given, atol=1e-14)
    assert np.array_equal(b, before)
    assert (solver.accuracy is None) == refine
    out = np.empty(shape)
    assert solver.solve(b, out=out, refine=refine) is out
    np.testing.assert_allclose(a @ out, b, atol=1e-14)
    assert not refine or solver.inform.backward_error < 4 * EPS


def test_out_is_checked():
    solver = luge.Solver().factorize(tridiagonal(5))
    for out in (np.empty(4), np.empty((5, 1)), np.empty(5, "f4")):
        with pytest.raises(ValueError, match="out is"):
            solver.solve(np.ones(5), out=out)
    b = np.ones(5)
    assert solver.solve(b, out=b) is b
    np.testing.assert_allclose(tridiagonal(5) @ b, 1)


def test_complex_right_hand_sides():
    a = tridiagonal(12)
    b = np.arange(12) + 1j * np.arange(12)[::-1]
    solver = luge.Solver().factorize(a)
    for given in (b, b[:, None], np.stack([b, 2 * b], axis=1)):
        x = solver.solve(given)
        assert x.shape == given.shape
        np.testing.assert_allclose(a @ x, given, rtol=1e-13, atol=1e-13)


def test_single_precision():
    a = tridiagonal(60, np.float32)
    solver = luge.Solver().factorize(a)
    b = np.ones(60)
    x = solver.solve(b)
    assert x.dtype == np.float32 and backward_error(a, x, b) < 1e-6
    assert solver.inform.precision == "f32"
    # Factors in f32 under a refinement in f64.
    mixed = luge.Solver(precision="single").factorize(tridiagonal(60))
    x = mixed.solve(b)
    assert x.dtype == np.float64 and backward_error(tridiagonal(60), x, b) < 4 * EPS
    assert mixed.inform.precision == "f32"


def test_small_matrices():
    for n in (0, 1):
        a = sp.csc_array((n, n)) + 2 * sp.eye_array(n, format="csc")
        solver = luge.Solver().factorize(a)
        for shape in ((n,), (n, 0), (n, 3)):
            assert np.array_equal(solver.solve(np.ones(shape)), np.full(shape, 0.5))
            assert np.array_equal(solver.solve(np.ones(shape), refine=False), np.full(shape, 0.5))
        assert solver.determinant.value == 2.0**n
        assert solver.lower_upper().U.shape == (n, n)


def test_symmetric_matrices():
    a = saddle_point(40, 15)
    b = np.ones(55)
    expected = luge.Solver().factorize(a).solve(b)
    for given in (a, sp.tril(a, format="csc"), sp.triu(a, format="csr")):
        solver = luge.Solver(kind="symmetric").factorize(given)
        np.testing.assert_allclose(solver.solve(b), expected, rtol=1e-9)
        assert solver.inertia == luge.Inertia(positive=40, negative=15, zero=0)
        assert solver.inform.kind == "symmetric" and solver.inform.num_neg == 15
        with pytest.raises(TypeError, match="symmetric matrix, which have no L and U"):
            solver.lower_upper()
    assert luge.Solver().factorize(a).inertia is None
    definite = laplacian(8, 7)
    solver = luge.Solver(kind="positive_definite").factorize(definite)
    assert solver.inertia == luge.Inertia(56, 0, 0)
    with pytest.raises(luge.NotPositiveDefiniteError) as caught:
        solver.refactorize(-definite)
    assert isinstance(caught.value, np.linalg.LinAlgError) and caught.value.pivot < 0
    lopsided = a.copy()
    lopsided[3, 4] += 1
    with pytest.raises(luge.InvalidMatrixError) as caught:
        luge.Solver(kind="symmetric").factorize(lopsided)
    assert caught.value.kind == "NotSymmetric" and {caught.value.row, caught.value.column} == {3, 4}


def test_regularization_and_singular_systems():
    a = sp.csc_array([[2.0, 0, 1], [0, 3, 1], [1, 1, 0]])
    solver = luge.Solver(kind="symmetric", regularization=([1, 1, -1], 1e-7)).factorize(a)
    np.testing.assert_allclose(solver.solve(np.array([5.0, 9, 3])), [1, 2, 3], rtol=1e-12)
    assert solver.perturbed_columns == []
    singular = sp.csc_array([[1.0, 1], [1, 1]])
    with pytest.raises(luge.SingularMatrixError):
        luge.Solver(kind="symmetric").factorize(singular)
    solver = luge.Solver(kind="symmetric", singular="continue").factorize(singular)
    assert solver.inertia == luge.Inertia(1, 0, 1) and solver.inform.rank == 1
    assert "RankDeficient" in [warning.kind for warning in solver.inform.warnings]
    x = solver.solve(np.array([2.0, 2]))
    np.testing.assert_allclose(singular @ x, [2, 2])


def test_determinant_and_condition():
    a = tridiagonal(30)
    solver = luge.Solver().factorize(a)
    sign, log = np.linalg.slogdet(a.toarray())
    found = solver.determinant
    assert float(found) == pytest.approx(sign * np.exp(log), rel=1e-12)
    assert found.mantissa * 2.0**found.exponent == found.value
    assert found.log10_abs == pytest.approx(log / np.log(10))
    huge = luge.Solver(scaling=False).factorize(1e200 * sp.eye_array(9, format="csr")).determinant
    assert huge.value == np.inf and huge.log10_abs == pytest.approx(1800)
    scaled = luge.Solver(scaling=False).factorize(a).condition()
    exact = np.linalg.cond(a.toarray(), 1)
    assert exact / 3 < scaled <= exact * 1.0001


def test_options_reach_the_solver():
    a = laplacian(12, 12)
    for options, field, expected in [
        ({"ordering": "amd"}, "ordering", "AMD"),
        ({"ordering": "natural", "block_triangular": False}, "ordering", "natural"),
        ({"scaling": False}, "scaled", False),
        ({"pivoting": "static"}, "pivoting", "static"),
        ({"kind": "auto"}, "kind", "positive definite"),
        ({"threads": 1}, "device", "CPU, 1 thread"),
        ({"engine": "columns"}, "num_supernodes", None),
    ]:
        report = luge.Solver(backend="cpu", **options).factorize(a).inform
        assert getattr(report, field) == expected, options
    exchanged = a[np.roll(np.arange(144), 3)]
    for matching, matched in (("always", True), ("never", False)):
        ordering = {"block_triangular": False, "matching": matching}
        assert luge.Solver(backend="cpu", **ordering).factorize(exchanged).inform.matched == matched
    assert luge.Solver(estimate_condition=True).factorize(a).inform.rcond > 0
    rows = np.random.default_rng(3).permutation(144)
    solver = luge.Solver(ordering=(rows, rows)).factorize(a)
    np.testing.assert_allclose(solver.solve(a @ np.ones(144)), 1, rtol=1e-12)
    tight = luge.Solver(max_host_bytes=200_000)
    with pytest.raises(luge.OutOfMemoryError) as caught:
        tight.factorize(laplacian(60, 60))
    assert isinstance(caught.value, MemoryError)
    assert caught.value.asked > caught.value.available and caught.value.phase


@pytest.mark.parametrize(
    ("options", "exception", "message"),
    [
        ({"threads": 0}, ValueError, "threads is 0; it must be from 1 to 1024"),
        ({"pivoting": 1.5}, luge.OptionError, "pivoting.threshold"),
        ({"kind": "skew"}, ValueError, "must be one of 'general', 'symmetric', 'hermitian'"),
        ({"ordering": "metis"}, ValueError, "must be one of"),
        ({"backend": "tpu"}, ValueError, "backend is 'tpu'"),
        ({"pivoting": "complete"}, ValueError, "'auto', 'static' or a threshold"),
        ({"threads": "two"}, TypeError, "threads: "),
        ({"ordering": ([0, 0], [0, 1])}, ValueError, "occurs twice"),
        ({"regularization": 3}, TypeError, "regularization must be"),
        ({"treads": 2}, TypeError, "unexpected keyword argument 'treads'"),
    ],
)
def test_options_are_checked(options, exception, message):
    with pytest.raises(exception, match=message):
        luge.Solver(**options)


def test_raise_threshold():
    solver = luge.Solver(backend="cpu").factorize(laplacian(9, 9))
    raised = []
    while (threshold := solver.raise_threshold()) is not None:
        raised.append(threshold)
    assert raised and raised == sorted(raised) and raised[-1] == 1.0


def test_reports():
    a = laplacian(10, 10)
    solver = luge.Solver(backend="cpu").factorize(a)
    solver.solve(np.ones(100))
    report = solver.inform
    fields = json.loads(solver._report.json())
    assert {field.name for field in dataclasses.fields(report)} == set(fields), "those of the Rust crate"
    assert {field.name for field in dataclasses.fields(report.seconds)} == set(fields["seconds"])
    assert report.as_dict()["seconds"]["solve"] == report.seconds.solve
    assert report.as_dict() == fields
    assert "<th>backward_error</th>" in report._repr_html_()
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.n = 3
    hilbert = 1 / (np.arange(12)[:, None] + np.arange(12) + 1.0)
    doubtful = luge.Solver().factorize(sp.csc_array(hilbert)).inform
    (warning,) = [warning for warning in doubtful.warnings if warning.kind == "IllConditioned"]
    assert warning.fields["rcond"] < 1e-14
    assert "solutions may have no correct digit" in str(warning)


def test_batches():
    a = tridiagonal(20)
    solver = luge.Solver().analyze(a)
    scale = np.array([1.0, 2.0, 0.0, 4.0])
    batch = solver.factorize_batch(scale[:, None] * a.data)
    assert len(batch) == 4
    assert [error is None for error in batch.errors] == [True, True, False, True]
    error = batch.errors[2]
    assert isinstance(error, luge.SingularMatrixError) and error.system == 2
    assert batch.informs[1].n == 20 and batch.informs[2] is None
    for shape in ((4, 20), (4, 20, 3), (4, 20, 0)):
        b = np.random.default_rng(2).random(shape)
        x = batch.solve(b, on_error="nan")
        assert x.shape == shape and np.isnan(x[2]).all()
        for at in (0, 1, 3):
            np.testing.assert_allclose(scale[at] * (a @ x[at]), b[at], atol=1e-14)
        with pytest.raises(luge.SingularMatrixError) as caught:
            batch.solve(b)
        assert caught.value.system == 2
    outcomes = batch.refactorize((scale[:, None] + 1) * a.data)
    assert [outcome.reused for outcome in outcomes] == [True, True, False, True]
    np.testing.assert_allclose(batch.solve(np.ones((4, 20)))[2], solver.factorize(a).solve(np.ones(20)), rtol=1e-13)
    for wrong in (np.ones(20), np.ones((3, 20)), np.ones((4, 21))):
        with pytest.raises(ValueError, match="b has shape"):
            batch.solve(wrong)
    with pytest.raises(ValueError, match="shape"):
        solver.factorize_batch(a.data)
    with pytest.raises(ValueError, match="are expected"):
        solver.factorize_batch(np.ones((2, 3)))


def test_the_extension_checks_what_it_is_given():
    """Whoever calls it past the package gets an exception, not a crash."""
    a = tridiagonal(4)
    stored = (4, 4, True, a.indptr, a.indices, a.data)
    solver = _luge.Solver()
    for at, wrong in [(3, a.indptr[:-1]), (4, a.indices + 9), (5, a.data[1:]), (3, a.indptr[::-1])]:
        broken = [*stored]
        broken[at] = np.ascontiguousarray(wrong)
        with pytest.raises(luge.InvalidMatrixError):
            solver.analyze(tuple(broken), "d")
    with pytest.raises(TypeError):
        solver.analyze((4, 4, True, a.indptr, a.indices, a.data.astype("f4")), "d")
    with pytest.raises(TypeError):
        solver.analyze((4, 4, True, a.indptr.astype("i8"), a.indices, a.data), "d")
    factors = solver.analyze(stored, "d").factorize(stored)
    with pytest.raises(ValueError, match="incompatible size"):
        factors.solve_in_place(np.ones(3), "N")
    with pytest.raises(ValueError, match="are expected"):
        factors.solve(np.ones(4), 2, "N")
    read_only = np.ones(4)
    read_only.flags.writeable = False
    with pytest.raises(TypeError):
        factors.solve_in_place(read_only, "N")
    with pytest.raises(TypeError, match="of the type 'l' are not solved"):
        solver.analyze(stored, "l")
    with pytest.raises(ValueError, match="trans must be"):
        factors.solve_in_place(np.ones(4), "C")
