"""Arrays of other libraries: on a GPU by `__cuda_array_interface__` or DLPack, on the host by DLPack."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from luge import _luge
from luge._errors import DeviceError

# The driver's legacy default stream, on which PyTorch and CuPy work if nothing else is said.
_DEFAULT_STREAM = 1

# Kinds of devices in dlpack.h: memory of a GPU, and what the host reaches.
_CUDA, _CUDA_MANAGED = 2, 13
_HOST = (1, 3, 11)


class View(NamedTuple):
    """Numbers on a device."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes."""
    stream: int
    owner: Any
    """What holds the numbers."""

    def place(self) -> tuple[int, int, int]:
        """The argument of the extension module: address, count, stream."""
        count = 1
        for size in self.shape:
            count *= size
        return self.address, count, self.stream


class Device(NamedTuple):
    """The GPU of a solver."""

    number: int
    """As the driver counts."""
    stream: int
    """Of the solver, as an address."""


def _dlpack_device(a: Any) -> tuple[int, int] | None:
    """Kind and number of the device of an array that DLPack takes."""
    ask = getattr(a, "__dlpack_device__", None)
    if ask is None or not hasattr(a, "__dlpack__"):
        return None
    kind, number = ask()
    return int(kind), int(number)


def is_on_device(a: Any) -> bool:
    """Whether it is an array on a GPU. PyTorch has the attribute on the CPU, too, where it raises.

    Raises:
        DeviceError: It is on a device that is neither a GPU of CUDA nor the CPU.
    """
    try:
        if getattr(a, "__cuda_array_interface__", None) is not None:
            return True
    except Exception:
        return False
    device = None if isinstance(a, np.ndarray) else _dlpack_device(a)
    if device is None or device[0] in _HOST:
        return False
    if device[0] not in (_CUDA, _CUDA_MANAGED):
        raise DeviceError(f"the array is on a device of DLPack's kind {device[0]}; arrays are taken on the CPU and on GPUs of CUDA")
    return True


def needs_device(what: str) -> DeviceError:
    """The exception for an array on a device where there is no use for it."""
    return DeviceError(
        f"{what} is an array on a device, and the factors are on the CPU: use backend='gpu', or copy it to the host"
    )


def view(a: Any, what: str, stream: Any = None, *, device: Device | None = None, written: bool = False, batch: bool = False) -> View:
    """Where the numbers of an array are, one right-hand side after another.

    Args:
        stream: On which stream they are made: a number, an object with ``ptr`` (CuPy) or ``cuda_stream`` (PyTorch), or ``None``
            for the one that the array names, else the default stream.
        device: Of the solver. An array of DLPack has to be there.
        written: They are written.
        batch: There is one more dimension, which comes first: for each system its numbers.

    Raises:
        TypeError: They are not ``float64``.
        ValueError: They are not one right-hand side after another, or must not be written.
        DeviceError: They are on another device.
    """
    if getattr(a, "__cuda_array_interface__", None) is not None:
        found = _by_interface(a, what, stream)
    else:
        found = _by_dlpack(a, what, stream, device)
    numbers, typestr, read_only, strides = found
    if typestr != "<f8":
        raise TypeError(f"{what} is of type {typestr}; arrays on a device must be float64")
    if written and read_only:
        raise ValueError(f"{what} is read-only")
    shape = numbers.shape
    if len(shape) not in ((2, 3) if batch else (1, 2)):
        shapes = "(count, n) or (count, n, k)" if batch else "(n,) or (n, k)"
        raise ValueError(f"object too deep for desired array: arrays on a device have shape {shapes}; {what} has {shape}")
    if strides is None:
        strides = _compact(shape)
    expected = by_columns(shape, batch)
    if 0 not in shape and any(size > 1 and given != wanted for size, given, wanted in zip(shape, strides, expected, strict=True)):
        raise ValueError(_how_it_must_lie(what, batch))
    return numbers._replace(strides=expected)


def by_columns(shape: tuple[int, ...], batch: bool) -> tuple[int, ...]:
    """Strides in bytes where one right-hand side follows another; those of a system before those of the next."""
    systems, of_one = (shape[:1], shape[1:]) if batch else ((), shape)
    rows = of_one[0]
    columns = of_one[1] if len(of_one) == 2 else 1
    inner = (8, 8 * rows)[: len(of_one)]
    return (8 * rows * columns, *inner) if systems else inner


def _compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in bytes of an array in C order."""
    strides = [8]
    for size in shape[:0:-1]:
        strides.insert(0, strides[0] * size)
    return tuple(strides)


def _how_it_must_lie(what: str, batch: bool) -> str:
    if batch:
        return (
            f"{what} must be contiguous, the right-hand sides of each system one after another if there are several "
            "(cupy.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1))"
        )
    return f"{what} must be contiguous, in Fortran order if it has several columns (cupy.asfortranarray, or x.T.contiguous().T)"


_Found = tuple[View, str, bool, "tuple[int, ...] | None"]


def _by_interface(a: Any, what: str, stream: Any) -> _Found:
    interface = a.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise ValueError(f"{what} has a mask")
    address, read_only = interface["data"]
    shape = tuple(int(size) for size in interface["shape"])
    number = _stream(stream)
    if number is None:
        number = _stream(interface.get("stream"))
    numbers = View(int(address), shape, (), _DEFAULT_STREAM if number is None else number, a)
    return numbers, interface["typestr"], bool(read_only), interface.get("strides")


def _by_dlpack(a: Any, what: str, stream: Any, device: Device | None) -> _Found:
    """Takes the array out of its capsule, which is held as long as the view is."""
    found = _dlpack_device(a)
    if device is not None and found is not None and found[1] != device.number:
        raise DeviceError(f"{what} is on GPU {found[1]}; the factors are on GPU {device.number}")
    number = _stream(stream)
    # The library makes the solver's stream wait for the numbers, unless the caller says what to wait for.
    waiting = None if device is None else device.stream
    tensor = _luge.DlpackArray(_capsule(a, waiting if number is None else -1))
    numbers = View(tensor.address, tensor.shape, (), _DEFAULT_STREAM if number is None else number, tensor)
    return numbers, tensor.typestr, tensor.read_only, tensor.strides


def _capsule(a: Any, stream: int | None) -> Any:
    """Of version 1, or of an older one where the library has that alone."""
    try:
        return a.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        return a.__dlpack__(stream=stream)


def _stream(stream: Any) -> int | None:
    """A stream as a number, if one is named."""
    for name in ("ptr", "cuda_stream"):
        stream = getattr(stream, name, stream)
    # Zero is the default stream for CuPy and PyTorch; the interface forbids it, for it may mean two.
    return stream if stream is None else int(stream) or _DEFAULT_STREAM


def from_dlpack(a: Any) -> Any:
    """An array on the host of which DLPack is all that is known, as one of NumPy, without a copy; anything else as it is."""
    if hasattr(a, "__array__") or hasattr(a, "__array_interface__") or _dlpack_device(a) is None:
        return a
    return np.from_dlpack(a)


def on_host(a: Any) -> Any:
    """A sparse matrix whose arrays are on a device, as one on the host: CuPy's by its ``get``, PyTorch's by its parts."""
    if hasattr(a, "crow_indices"):

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
