"""Arrays on a device: what is refused without one, and solves on one where there is one."""

import ctypes

import luge
import numpy as np
import pytest
from luge._device import is_on_device, on_host, view
from matrices import backward_error, laplacian, saddle_point, tridiagonal

EPS = np.finfo(float).eps


class OnDevice:
    """What a library for a GPU says of its arrays."""

    def __init__(self, shape, typestr="<f8", address=0x7F0000000000, read_only=False, **more):
        self.shape = shape
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (address, read_only),
            "version": 3,
            **more,
        }


def test_the_cpu_takes_no_arrays_of_a_device():
    solver = luge.Solver(backend="cpu").factorize(tridiagonal(4))
    for call in (
        lambda: solver.solve(OnDevice((4,))),
        lambda: solver.refactorize(OnDevice((10,))),
        lambda: solver.factorize(OnDevice((10,))),
    ):
        with pytest.raises(luge.DeviceError, match="an array on a device, and the factors are on the CPU: use backend='gpu'"):
            call()
    batch = solver.factorize_batch(tridiagonal(4).data[None])
    for call in (
        lambda: solver.factorize_batch(OnDevice((1, 10))),
        lambda: batch.refactorize(OnDevice((1, 10))),
        lambda: batch.solve(OnDevice((1, 4))),
    ):
        with pytest.raises(luge.DeviceError, match="an array on a device, and the factors are on the CPU"):
            call()
    with pytest.raises(TypeError, match="out is for right-hand sides on a device"):
        batch.solve(np.ones((1, 4)), out=np.ones((1, 4)))
    # They still solve.
    assert solver.solve(np.ones(4)).shape == (4,)
    with pytest.raises(luge.Error, match="call analyze first"):
        luge.Solver(backend="cpu").factorize(OnDevice((10,)))


def test_arrays_that_are_read_wrongly_are_refused():
    for array, options, exception, message in [
        (OnDevice((4,), "<f4"), {}, TypeError, "<f4; arrays on a device must be float64"),
        (OnDevice((4, 2)), {}, ValueError, "Fortran order"),
        (OnDevice((4, 2), strides=(16, 8)), {}, ValueError, "Fortran order"),
        (OnDevice((4, 2), strides=(8, 64)), {}, ValueError, "Fortran order"),
        (OnDevice((4,), strides=(16,)), {}, ValueError, "contiguous"),
        (OnDevice((4, 2, 2)), {}, ValueError, "object too deep"),
        (OnDevice((4,), read_only=True), {"written": True}, ValueError, "read-only"),
        (OnDevice((4,), mask=OnDevice((4,))), {}, ValueError, "mask"),
    ]:
        with pytest.raises(exception, match=message):
            view(array, "b", **options)


def test_streams_are_understood():
    class OfCuPy:
        ptr = 77

    class OfTorch:
        cuda_stream = 78

    array = OnDevice((4, 3), strides=(8, 32), stream=5)
    for stream, expected in [(None, 5), (9, 9), (OfCuPy, 77), (OfTorch, 78), (0, 1)]:
        assert view(array, "b", stream).stream == expected
    assert view(OnDevice((4,)), "b").place() == (0x7F0000000000, 4, 1)
    assert view(OnDevice((4, 1)), "b").place() == (0x7F0000000000, 4, 1)
    assert view(array, "b").place() == (0x7F0000000000, 12, 5)


def test_batches_lie_one_system_after_another():
    for array in (OnDevice((2, 4)), OnDevice((2, 4, 3), strides=(96, 8, 32)), OnDevice((2, 4, 1)), OnDevice((0, 4, 3))):
        assert view(array, "b", batch=True).place()[1] == np.prod(array.shape)
    for array in (OnDevice((2, 4, 3)), OnDevice((2, 4), strides=(8, 16)), OnDevice((2, 4), strides=(64, 8))):
        with pytest.raises(ValueError, match="right-hand sides of each system one after another"):
            view(array, "b", batch=True)
    with pytest.raises(ValueError, match="object too deep"):
        view(OnDevice((4,)), "b", batch=True)


def test_matrices_of_other_libraries():
    a = tridiagonal(5).tocsr()

    class OfCuPy:
        format, shape, data = "csr", a.shape, OnDevice((13,))

        def get(self):
            return a

    class Part:
        def __init__(self, array):
            self.array = array

        def cpu(self):
            return self.array

    class OfTorch:
        shape = a.shape
        values, col_indices, crow_indices = (lambda self, p=p: Part(p) for p in (a.data, a.indices, a.indptr))

    b = np.ones(5)
    for other in (OfCuPy(), OfTorch()):
        assert np.array_equal(luge.Solver(backend="cpu").factorize(other).solve(b), luge.splu(a, backend="cpu").solve(b))

    class Neither:
        format, shape, data = "csr", a.shape, OnDevice((13,))

    with pytest.raises(luge.DeviceError, match="no method `get`"):
        on_host(Neither())


def test_what_is_on_a_device():
    class OfTorch:
        """A tensor on the CPU."""

        @property
        def __cuda_array_interface__(self):
            raise AttributeError("Can't get __cuda_array_interface__ on non-CUDA tensor type")

    assert is_on_device(OnDevice((1,)))
    assert not any(is_on_device(a) for a in (OfTorch(), np.ones(3), [1.0], None))


def test_a_gpu_that_is_not_there():
    try:
        luge.Solver(backend="gpu")
    except luge.DeviceError as error:
        assert error.kind == "Device" and "the device cannot be used" in str(error)
        assert isinstance(error, RuntimeError)
    else:
        pytest.skip("there is a GPU")


class Cuda:
    """The driver, as far as tests need it."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.kept = []

    def call(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    def array(self, numbers, **more):
        """A copy on the device, in Fortran order. The context of the thread is that of the solver."""
        numbers = np.asfortranarray(numbers, np.float64)
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(numbers.nbytes))
        source = numbers.ctypes.data_as(ctypes.c_void_p)
        self.call("cuMemcpyHtoD_v2", address, source, ctypes.c_size_t(numbers.nbytes))
        if numbers.ndim == 2:
            more["strides"] = numbers.strides
        return OnDevice(numbers.shape, address=address.value, **more)

    def batch(self, numbers):
        """As `array`, the numbers of each system in Fortran order."""
        numbers = np.asarray(numbers, np.float64)
        flat = np.concatenate([part.ravel(order="F") for part in numbers])
        there = self.array(flat).__cuda_array_interface__["data"][0]
        n = numbers.shape[1]
        strides = (8 * n, 8) if numbers.ndim == 2 else (8 * n * numbers.shape[2], 8, 8 * n)
        return OnDevice(numbers.shape, address=there, strides=strides)

    def of_batch(self, array):
        """The numbers of a batch, on the host."""
        interface = array.__cuda_array_interface__
        shape = tuple(interface["shape"])
        address = interface["data"][0]
        flat = self.numbers(OnDevice((int(np.prod(shape)),), address=address)).reshape(shape[0], -1)
        return np.stack([part.reshape(shape[1:], order="F") for part in flat])

    def numbers(self, array):
        """Those of an array, on the host."""
        interface = array.__cuda_array_interface__
        numbers = np.empty(interface["shape"], order="F")
        self.call(
            "cuMemcpyDtoH_v2",
            numbers.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_uint64(interface["data"][0]),
            ctypes.c_size_t(numbers.nbytes),
        )
        return numbers

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value


@pytest.fixture
def cuda():
    try:
        luge.Solver(backend="gpu")
    except luge.DeviceError as error:
        pytest.skip(str(error))
    return Cuda()


MATRICES = [laplacian(30, 30) + tridiagonal(900) * 0.1, laplacian(9, 9, 9), tridiagonal(500)]


@pytest.mark.parametrize("a", MATRICES, ids=["grid", "cube", "line"])
@pytest.mark.parametrize("columns", [None, 1, 5])
@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("trans", ["N", "T"])
def test_solves_on_the_device(cuda, a, columns, refine, trans):
    n = a.shape[0]
    op = a if trans == "N" else a.T
    b = np.random.default_rng(1).random(n if columns is None else (n, columns))
    solver = luge.Solver(backend="gpu").factorize(a)
    there = cuda.array(b)
    x = solver.solve(there, trans, refine=refine)
    assert isinstance(x, luge.DeviceArray) and x.shape == b.shape
    assert repr(x) == f"<luge.DeviceArray of shape {list(b.shape)}, float64>"
    assert backward_error(op, cuda.numbers(x), b) < (4 * EPS if refine else 1e-12)
    assert np.array_equal(cuda.numbers(there), b), "it was not written"
    if refine:
        assert solver.inform.backward_error < 4 * EPS and solver.inform.backend == "cuda"
    else:
        assert solver.accuracy.backward_error < 1e-10
    # Into memory of the caller, and in place.
    out = cuda.array(np.zeros_like(b))
    assert solver.solve(there, trans, refine=refine, out=out) is out
    assert backward_error(op, cuda.numbers(out), b) < 1e-12
    assert solver.solve(there, trans, refine=refine, out=there) is there
    assert backward_error(op, cuda.numbers(there), b) < 1e-12
    # What comes out goes in again.
    y = solver.solve(solver.solve(x, trans), trans)
    assert np.isfinite(cuda.numbers(y)).all()


def test_refactorizations_on_the_device(cuda):
    a = MATRICES[0]
    solver = luge.Solver(backend="gpu").analyze(a)
    b = np.ones(a.shape[0])
    solver.factorize(cuda.array(a.data))
    assert backward_error(a, solver.solve(b), b) < 4 * EPS
    stream = cuda.stream()
    for step in range(1, 5):
        values = a.data * (1 + 0.1 * step)
        outcome = solver.refactorize(cuda.array(values, stream=stream))
        assert outcome.reused and outcome.backward_error < 1e-12
        x = solver.solve(cuda.array(b), stream=stream)
        assert backward_error(a * (1 + 0.1 * step), cuda.numbers(x), b) < 4 * EPS
    with pytest.raises(ValueError, match="are expected"):
        solver.refactorize(cuda.array(np.ones(3)))
    with pytest.raises(luge.DeviceError, match="L and U stay on the device"):
        solver.lower_upper()


def test_symmetric_matrices_on_the_device(cuda):
    a = saddle_point(200, 60)
    solver = luge.Solver(backend="gpu", kind="symmetric").factorize(a)
    assert solver.inertia == luge.Inertia(200, 60, 0)
    b = np.ones(260)
    x = cuda.numbers(solver.solve(cuda.array(b)))
    assert backward_error(a, x, b) < 1e-14


def test_what_is_wrong_on_the_device(cuda):
    solver = luge.Solver(backend="gpu").factorize(tridiagonal(50))
    for call, exception, message in [
        (lambda: solver.solve(cuda.array(np.ones(40))), ValueError, "incompatible size"),
        (lambda: solver.solve(cuda.array(np.ones(50)), out=np.ones(50)), TypeError, "must be there, too"),
        (lambda: solver.solve(cuda.array(np.ones(50)), out=cuda.array(np.ones((50, 1)))), ValueError, "out has shape"),
        (lambda: solver.solve(cuda.array(np.full(50, np.nan))), luge.Error, "not a number"),
    ]:
        with pytest.raises(exception, match=message):
            call()


@pytest.mark.parametrize("columns", [None, 3])
@pytest.mark.parametrize("refine", [True, False])
def test_batches_on_the_device(cuda, columns, refine):
    a = MATRICES[0]
    n, count = a.shape[0], 6
    rng = np.random.default_rng(3)
    values = a.data * (1 + 0.1 * rng.random((count, 1)))
    solver = luge.Solver(backend="gpu").analyze(a)
    batch = solver.factorize_batch(cuda.batch(values))
    b = rng.random((count, n) if columns is None else (count, n, columns))
    there = cuda.batch(b)

    def check(x, scale):
        assert x.shape == b.shape
        for one, right, given in zip(cuda.of_batch(x), b, scale, strict=True):
            matrix = a.copy()
            matrix.data = given
            assert backward_error(matrix, one, right) < (4 * EPS if refine else 1e-12)

    x = batch.solve(there, refine=refine)
    assert isinstance(x, luge.DeviceArray)
    check(x, values)
    assert np.array_equal(cuda.of_batch(there), b), "it was not written"
    if refine:
        assert batch.accuracies is None
    else:
        assert all(accuracy.backward_error < 1e-10 for accuracy in batch.accuracies)
    values *= 1.5
    outcomes = batch.refactorize(cuda.batch(values))
    assert all(outcome.reused and outcome.backward_error < 1e-12 for outcome in outcomes)
    out = cuda.batch(np.zeros_like(b))
    assert batch.solve(there, refine=refine, out=out) is out
    check(out, values)
    assert batch.solve(there, refine=refine, out=there) is there
    check(there, values)
    # As the same batch with values and vectors on the host.
    if refine:
        same = solver.factorize_batch(values)
        np.testing.assert_allclose(same.solve(b), cuda.of_batch(out), rtol=1e-12)


def test_what_is_wrong_with_a_batch_on_the_device(cuda):
    a = tridiagonal(20)
    solver = luge.Solver(backend="gpu").analyze(a)
    values = np.stack([a.data, 0 * a.data, a.data])
    batch = solver.factorize_batch(cuda.batch(values))
    assert [error is None for error in batch.errors] == [True, False, True]
    b = np.ones((3, 20))
    with pytest.raises(luge.SingularMatrixError) as caught:
        batch.solve(cuda.batch(b))
    assert caught.value.system == 1
    for refine in (True, False):
        x = cuda.of_batch(batch.solve(cuda.batch(b), on_error="nan", refine=refine))
        assert np.isnan(x[1]).all() and np.isfinite(x[[0, 2]]).all()
    for call, exception, message in [
        (lambda: batch.solve(cuda.batch(np.ones((2, 20)))), ValueError, "it must have shape"),
        (lambda: batch.solve(cuda.batch(b), out=np.ones((3, 20))), TypeError, "must be there, too"),
        (lambda: batch.refactorize(cuda.batch(values[:2])), ValueError, "values of 2 matrices"),
        (lambda: batch.refactorize(cuda.batch(values[:, :5])), ValueError, "are expected"),
        (lambda: solver.factorize_batch(cuda.batch(values[:, :5])), ValueError, "are expected"),
    ]:
        with pytest.raises(exception, match=message):
            call()


def test_dlpack_on_the_device(cuda):
    from test_dlpack import OnDevice as OfDlpack

    a = MATRICES[0]
    n = a.shape[0]
    solver = luge.Solver(backend="gpu").factorize(a)
    number = solver._analysis.device()[0]

    def wrapped(numbers, **more):
        there = cuda.array(numbers).__cuda_array_interface__["data"][0]
        cuda.call("cuCtxSynchronize")
        # The tensor begins 16 bytes behind its address.
        return OfDlpack(np.shape(numbers), number=number, address=there - 16, **more)

    b = np.ones(n)
    for versioned in (False, True):
        x = solver.solve(wrapped(b, versioned=versioned))
        assert backward_error(a, cuda.numbers(x), b) < 4 * EPS
    out = wrapped(0 * b)
    assert solver.solve(wrapped(b, flags=1), out=out) is out
    with pytest.raises(ValueError, match="out is read-only"):
        solver.solve(wrapped(b), out=wrapped(b, flags=1))
    assert solver.refactorize(wrapped(2 * a.data)).reused
    assert backward_error(2 * a, cuda.numbers(solver.solve(wrapped(b))), b) < 4 * EPS


def test_complex_matrices_are_factorized_there(cuda):
    a = tridiagonal(5) * (1 + 1j)
    b = np.arange(5) - 2j
    solver = luge.Solver(backend="gpu").factorize(a)
    assert backward_error(a, solver.solve(b), b) < 4 * EPS
    hermitian = a + a.conj().T
    solver = luge.Solver(backend="gpu", kind="hermitian").factorize(hermitian)
    assert backward_error(hermitian, solver.solve(b), b) < 4 * EPS
    assert solver.inertia == luge.Inertia(5, 0, 0)


def test_arrays_of_the_device_are_freed(cuda):
    n = 200_000
    solver = luge.Solver(backend="gpu").factorize(tridiagonal(n))
    b = cuda.array(np.ones(n))

    def free():
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        cuda.call("cuCtxSynchronize")
        cuda.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    for _ in range(50):
        solver.solve(b)
    before = free()
    for _ in range(500):
        solver.solve(b)
    assert before - free() < 64 << 20
