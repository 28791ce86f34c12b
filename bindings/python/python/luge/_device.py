"""Arrays on a GPU: anything with `__cuda_array_interface__`, as arrays of CuPy, PyTorch and Numba have it."""

from __future__ import annotations

from typing import Any, NamedTuple

from luge._errors import DeviceError

# The driver's legacy default stream, on which PyTorch and CuPy work if nothing else is said.
_DEFAULT_STREAM = 1


class View(NamedTuple):
    """Numbers on a device."""

    address: int
    shape: tuple[int, ...]
    stream: int

    def place(self) -> tuple[int, int, int]:
        """The argument of the extension module: address, count, stream."""
        count = 1
        for size in self.shape:
            count *= size
        return self.address, count, self.stream


def is_on_device(a: Any) -> bool:
    """Whether it is an array on a device. PyTorch has the attribute on the CPU, too, where it raises."""
    try:
        return getattr(a, "__cuda_array_interface__", None) is not None
    except Exception:
        return False


def needs_device(what: str) -> DeviceError:
    """The exception for an array on a device where there is no use for it."""
    return DeviceError(
        f"{what} is an array on a device, and the factors are on the CPU: use backend='gpu', or copy it to the host"
    )


def view(a: Any, what: str, stream: Any = None, *, written: bool = False) -> View:
    """Where the numbers of an array are.

    Args:
        stream: On which stream they are made: a number, an object with ``ptr`` (CuPy) or ``cuda_stream`` (PyTorch), or ``None``
            for the one that the array names, else the default stream.
        written: They are written.

    Raises:
        TypeError: They are not ``float64``.
        ValueError: They are not one right-hand side after another, or must not be written.
    """
    interface = a.__cuda_array_interface__
    if interface["typestr"] != "<f8":
        raise TypeError(f"{what} is of type {interface['typestr']}; arrays on a device must be float64")
    if interface.get("mask") is not None:
        raise ValueError(f"{what} has a mask")
    address, read_only = interface["data"]
    if written and read_only:
        raise ValueError(f"{what} is read-only")
    shape = tuple(int(size) for size in interface["shape"])
    if len(shape) not in (1, 2):
        raise ValueError("object too deep for desired array: arrays on a device have shape (n,) or (n, k)")
    rows, columns = shape if len(shape) == 2 else (shape[0], 1)
    strides = interface.get("strides")
    if strides is None:
        # In C order, one row after another.
        strides = (8,) if len(shape) == 1 else (8 * columns, 8)
    by_columns = (rows <= 1 or strides[0] == 8) and (columns <= 1 or strides[1] == 8 * rows)
    if not by_columns:
        raise ValueError(
            f"{what} must be contiguous, in Fortran order if it has several columns (cupy.asfortranarray, or x.T.contiguous().T)"
        )
    return View(int(address), shape, _stream(stream, interface))


def _stream(stream: Any, interface: dict[str, Any]) -> int:
    for name in ("ptr", "cuda_stream"):
        stream = getattr(stream, name, stream)
    if stream is None:
        stream = interface.get("stream")
    # Zero is the default stream for CuPy and PyTorch; the interface forbids it, for it may mean two.
    return _DEFAULT_STREAM if stream in (None, 0) else int(stream)


def on_host(a: Any) -> Any:
    """A sparse matrix whose arrays are on a device, as one on the host: CuPy's by its ``get``, PyTorch's by its parts."""
    if hasattr(a, "crow_indices"):
        import numpy as np

        class Rows:
            format = "csr"
            shape = tuple(a.shape)
            data, indices, indptr = (
                np.asarray(part.cpu()) for part in (a.values(), a.col_indices(), a.crow_indices())
            )

        return Rows
    if is_on_device(getattr(a, "data", None)):
        get = getattr(a, "get", None)
        if get is None:
            raise DeviceError("the arrays of the matrix are on a device, and it has no method `get` that brings them to the host")
        return get()
    return a
