"""Arrays of which DLPack is all that is known: of the host, and capsules of a device that are refused or read."""

import ctypes

import luge
import numpy as np
import pytest
import scipy.sparse as sp
from luge import _luge
from luge._device import Device, is_on_device, view
from matrices import tridiagonal


class OfHost:
    """An array of another library."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.taken = array, versioned, 0

    def __dlpack__(self, **options):
        self.taken += 1
        if not self.versioned:
            if options.pop("max_version", None):
                raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
            for name in ("dl_device", "copy"):
                options.pop(name, None)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


VERSIONED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


@pytest.mark.parametrize("versioned", [False, True])
def test_arrays_of_the_host(versioned):
    if versioned and not VERSIONED:
        pytest.skip("this NumPy makes no versioned capsules")
    a, n = tridiagonal(20), 20
    b = np.arange(1.0, n + 1)
    wrap = lambda array: OfHost(array, versioned)
    solver = luge.Solver(backend="cpu").factorize(a)
    expected = solver.solve(b)
    assert np.array_equal(solver.solve(wrap(b)), expected)
    many = np.stack([b, 2 * b], axis=1)
    # In C order, in Fortran order, with other strides, and read-only: they are only read.
    frozen = many.copy()
    frozen.flags.writeable = not versioned
    for given in (many, np.asfortranarray(many), np.repeat(many, 2, axis=0)[::2], frozen):
        assert np.array_equal(solver.solve(wrap(given)), solver.solve(many))
    assert np.array_equal(solver.solve(wrap(b * (1 + 2j))), solver.solve(b * (1 + 2j)))
    solver.refactorize(wrap(2 * a.data))
    np.testing.assert_allclose(solver.solve(b), expected / 2)
    assert solver.factorize(wrap(a.data)).dtype == float
    batch = solver.factorize_batch(wrap(np.stack([a.data, 2 * a.data])))
    batch.refactorize(wrap(np.stack([a.data, 4 * a.data])))
    np.testing.assert_allclose(batch.solve(wrap(np.stack([b, b])))[1], expected / 4)
    assert np.array_equal(luge.splu(a, backend="cpu").solve(wrap(b)), luge.splu(a, backend="cpu").solve(b))
    assert np.array_equal(luge.spsolve(wrap(a.toarray()), wrap(b), backend="cpu"), luge.spsolve(a.toarray(), b, backend="cpu"))

    class Matrix:
        format, shape = "csc", a.shape
        data, indices, indptr = wrap(a.data), wrap(a.indices), wrap(a.indptr)

    assert np.array_equal(luge.Solver(backend="cpu").factorize(Matrix).solve(b), expected)
    assert Matrix.data.taken > 0
    with pytest.raises(TypeError, match="the values are complex128"):
        solver.refactorize(wrap(1j * a.data))


def test_solutions_go_where_dlpack_says():
    a, b = tridiagonal(6), np.ones(6)
    solver = luge.Solver(backend="cpu").factorize(a)
    # Results are arrays of NumPy, which DLPack takes.
    assert np.array_equal(np.from_dlpack(solver.solve(b)), solver.solve(b))
    out = np.zeros(6)
    if VERSIONED:
        solver.solve(b, out=OfHost(out))
        assert np.array_equal(out, solver.solve(b))
        out.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            solver.solve(b, out=OfHost(out))
    # An old capsule does not say that it may be written.
    with pytest.raises((ValueError, BufferError), match="read-?only"):
        solver.solve(b, out=OfHost(np.zeros(6), versioned=False))


def test_values_are_not_copied():
    a = tridiagonal(10)
    data = OfHost(a.data)
    matrix = luge._arrays.matrix(type("Matrix", (), {"format": "csc", "shape": a.shape, "data": data, "indices": a.indices, "indptr": a.indptr}))
    assert np.shares_memory(matrix.data, a.data)


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Old(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


CAPSULE = ctypes.pythonapi.PyCapsule_New
CAPSULE.restype, CAPSULE.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class OnDevice:
    """What a library for a GPU hands over, with an address that nobody reads."""

    def __init__(self, shape, strides=None, *, kind=2, number=0, dtype=(2, 64, 1), versioned=True, flags=0, major=1, address=0x7F0000000000):
        self.kind, self.number, self.streams, self.deleted = kind, number, [], 0
        integers = ctypes.c_int64 * len(shape)
        self.kept = [integers(*shape), integers(*strides) if strides is not None else None]
        tensor = Tensor(address, kind, number, len(shape), *dtype, byte_offset=16)
        tensor.shape = ctypes.cast(self.kept[0], ctypes.POINTER(ctypes.c_int64))
        if strides is not None:
            tensor.strides = ctypes.cast(self.kept[1], ctypes.POINTER(ctypes.c_int64))

        def delete(_):
            self.deleted += 1

        self.deleter = DELETER(delete)
        self.versioned = versioned
        self.managed = Versioned(major, 0, None, self.deleter, flags, tensor) if versioned else Old(tensor, None, self.deleter)

    def __dlpack_device__(self):
        return self.kind, self.number

    def __dlpack__(self, *, stream=None, **options):
        if not self.versioned and options:
            raise TypeError("unexpected keyword argument")
        assert options == ({"max_version": (1, 0)} if self.versioned else {})
        self.streams.append(stream)
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return CAPSULE(ctypes.addressof(self.managed), name, None)


@pytest.mark.parametrize("versioned", [False, True])
def test_arrays_of_a_device_are_read(versioned):
    solver = Device(0, 4242)
    for shape, strides, batch in [
        ((6,), None, False),
        ((6,), (1,), False),
        ((6, 1), None, False),
        ((6, 2), (1, 6), False),
        ((3, 6), None, True),
        ((3, 6, 2), (12, 1, 6), True),
        ((3, 6, 1), None, True),
    ]:
        array = OnDevice(shape, strides, versioned=versioned)
        assert is_on_device(array)
        found = view(array, "b", device=solver, batch=batch)
        assert found.shape == shape and found.place() == (0x7F0000000010, int(np.prod(shape)), 1)
        # The library waits on the solver's stream, unless the caller names the stream of the numbers.
        assert array.streams == [4242]
        assert view(array, "b", 77, device=solver, batch=batch).stream == 77
        assert array.streams == [4242, -1]
        assert array.deleted == 1, "the other one is held"
        del found
        assert array.deleted == 2


def test_arrays_of_a_device_that_are_refused():
    for array, exception, message in [
        (OnDevice((4,), dtype=(2, 32, 1)), TypeError, "b is of type <f4; arrays on a device must be float64"),
        (OnDevice((4,), dtype=(5, 128, 1)), TypeError, "<c16"),
        (OnDevice((4,), dtype=(2, 64, 2)), TypeError, "2 times <f8"),
        (OnDevice((4, 2)), ValueError, "Fortran order"),
        (OnDevice((4, 2), (2, 1)), ValueError, "Fortran order"),
        (OnDevice((4,), (2,)), ValueError, "contiguous"),
        (OnDevice((4,), (-1,)), ValueError, "contiguous"),
        (OnDevice((4, 2, 2)), ValueError, "object too deep"),
        (OnDevice(()), ValueError, "arrays on a device have shape"),
        (OnDevice((4,), number=1), luge.DeviceError, "b is on GPU 1; the factors are on GPU 0"),
        (OnDevice((4,), flags=1), ValueError, "b is read-only"),
        (OnDevice((4,), major=2), BufferError, "of DLPack 2"),
        (OnDevice((1,) * 9), BufferError, "9 dimensions"),
    ]:
        with pytest.raises(exception, match=message):
            view(array, "b", device=Device(0, 1), written=True)
        assert array.deleted == len(array.streams), "nothing is held"
    # What is only read may be read-only.
    assert view(OnDevice((4,), flags=1), "b").shape == (4,)
    for batch in (OnDevice((2, 4, 3)), OnDevice((2, 4), (8, 1))):
        with pytest.raises(ValueError, match="right-hand sides of each system one after another"):
            view(batch, "b", batch=True)


def test_factors_on_the_cpu_take_none():
    solver = luge.Solver(backend="cpu").factorize(tridiagonal(4))
    batch = solver.factorize_batch(tridiagonal(4).data[None])
    for call in (
        lambda array: solver.solve(array),
        lambda array: solver.refactorize(array),
        lambda array: solver.factorize(array),
        lambda array: solver.factorize_batch(array),
        lambda array: batch.refactorize(array),
        lambda array: batch.solve(array),
    ):
        array = OnDevice((1, 10))
        with pytest.raises(luge.DeviceError, match="an array on a device, and the factors are on the CPU: use backend='gpu'"):
            call(array)
        assert array.streams == [], "it was not asked for its numbers"
    with pytest.raises(luge.DeviceError, match="kind 10"):
        solver.solve(OnDevice((4,), kind=10))


def test_capsules_are_taken_once():
    array = OnDevice((4,))
    capsule = array.__dlpack__(max_version=(1, 0))
    tensor = _luge.DlpackArray(capsule)
    assert (tensor.shape, tensor.strides, tensor.device, tensor.typestr) == ((4,), None, (2, 0), "<f8")
    with pytest.raises(TypeError, match="used before"):
        _luge.DlpackArray(capsule)
    with pytest.raises(TypeError):
        _luge.DlpackArray(array)


def test_sparse_matrices_have_no_dlpack():
    assert not is_on_device(sp.csr_array(np.eye(2)))
