"""Arrays on a device. Without one they must be refused in words."""

import luge
import numpy as np
import pytest
from matrices import tridiagonal


class OnDevice:
    """What a library for a GPU says of its arrays, of memory that is not there."""

    def __init__(self, shape, typestr="<f8", **more):
        self.shape = shape
        self.dtype = np.dtype(typestr)
        self.ndim = len(shape)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (0x7F0000000000, False),
            "version": 3,
            **more,
        }


def test_the_cpu_takes_no_arrays_of_a_device():
    solver = luge.Solver(backend="cpu").factorize(tridiagonal(4))
    with pytest.raises(luge.DeviceError, match="on the CPU"):
        solver.solve(OnDevice((4,)))
    with pytest.raises(luge.DeviceError, match="on the CPU"):
        solver.refactorize(OnDevice((10,)))
    # They still solve.
    assert solver.solve(np.ones(4)).shape == (4,)


def test_a_gpu_that_is_not_there():
    try:
        luge.Solver(backend="gpu")
    except luge.DeviceError as error:
        assert error.kind == "Device" and "the device cannot be used" in str(error)
        assert isinstance(error, RuntimeError)
    else:
        pytest.skip("there is a GPU")
