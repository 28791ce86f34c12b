"""Matrices and right-hand sides of callers as the arrays that the extension module takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from luge._device import from_dlpack, on_host

# What the extension module takes as it is. Other integers are converted.
_INDEX_TYPES = tuple(np.dtype(t) for t in (np.int32, np.int64, np.uint32, np.uint64))


class Matrix(NamedTuple):
    """A compressed matrix, by rows or by columns."""

    shape: tuple[int, int]
    by_columns: bool
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    order: np.ndarray | None = None
    """Where each value stands in the caller's arrays, if they were sorted for this."""
    is_alike: bool = True
    """Whether each of the caller's values is one of these: not where entries that are stored twice were summed, nor where the
    matrix was converted. Then values alone say nothing."""

    def stored(self) -> tuple:
        """The arguments of the extension module."""
        rows, cols = self.shape
        return rows, cols, self.by_columns, self.indptr, self.indices, self.data


def scalar_type(dtype: np.dtype) -> np.dtype:
    """The type that a matrix of this type is solved in, by SciPy's rule: the first of ``float32``, ``float64``, ``complex64`` and
    ``complex128`` that holds all its values.

    Raises:
        TypeError: None of them does.
    """
    for candidate in (np.float32, np.float64, np.complex64, np.complex128):
        if np.can_cast(dtype, candidate):
            return np.dtype(candidate)
    raise TypeError(f"cannot upcast {dtype} to float32, float64, complex64 or complex128")


def _indices(indptr: Any, indices: Any) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and indices in one type, without a copy if they are of one already."""
    indptr, indices = np.asarray(from_dlpack(indptr)), np.asarray(from_dlpack(indices))
    dtype = indices.dtype if indices.dtype in _INDEX_TYPES else np.dtype(np.int64)
    if indptr.dtype != dtype and indptr.size and int(indptr.max()) > np.iinfo(dtype).max:
        dtype = np.dtype(np.int64)
    return np.ascontiguousarray(indptr, dtype), np.ascontiguousarray(indices, dtype)


def matrix(a: Any, dtype: np.dtype | None = None, *, canonical: bool = False) -> Matrix:
    """The arrays of a matrix: a sparse array or matrix of SciPy, anything with its attributes, or a dense array.

    CSR and CSC are taken as they are, arrays of DLPack in them, too; all else is converted by SciPy.

    Args:
        dtype: The type of the values; ``None`` for the one that `scalar_type` says.
        canonical: Sort, and sum entries that are stored twice, in a copy.
    """
    a = on_host(a)
    layout = getattr(a, "format", None)
    is_alike = layout in ("csr", "csc")
    if not is_alike:
        a = _to_csr(a)
        layout = a.format
    if len(a.shape) != 2:
        raise ValueError(f"the matrix has {len(a.shape)} dimensions; it must have two")
    order = None
    if canonical:
        places = type(a)((np.arange(a.nnz), a.indices, a.indptr), shape=a.shape, copy=True)
        places.sort_indices()
        given, a = a, a.copy()
        a.sum_duplicates()
        is_alike = is_alike and a.nnz == given.nnz
        order = places.data
    data = np.asarray(from_dlpack(a.data))
    wanted = scalar_type(data.dtype) if dtype is None else dtype
    if not np.can_cast(data.dtype, wanted, "same_kind"):
        raise TypeError(f"the matrix is of {data.dtype}; the one that was analyzed is of {wanted}")
    indptr, indices = _indices(a.indptr, a.indices)
    # SciPy may leave room behind the last entry.
    count = int(indptr[-1]) if indptr.size else 0
    if 0 <= count < indices.size:
        indices = indices[:count]
    if 0 <= count < data.size:
        data = data[:count]
    rows, cols = (int(size) for size in a.shape)
    data = np.ascontiguousarray(data, wanted)
    return Matrix((rows, cols), layout == "csc", indptr, indices, data, order, is_alike)


def _to_csr(a: Any) -> Any:
    """Whatever it is, by rows."""
    convert = getattr(a, "tocsr", None)
    if convert is not None:
        return convert()
    to_scipy = getattr(a, "to_scipy_sparse", None)
    if to_scipy is not None:
        return to_scipy().tocsr()
    try:
        from scipy.sparse import csr_array
    except ImportError as error:
        raise TypeError(
            f"{type(a).__name__} is no CSR or CSC matrix, and there is no SciPy to convert it"
        ) from error
    dense = np.asarray(from_dlpack(a))
    if dense.dtype == object or dense.ndim != 2:
        raise TypeError(f"{type(a).__name__} is no matrix")
    return csr_array(dense)


def right_hand_side(b: Any, n: int, dtype: np.dtype, casting: Any) -> np.ndarray:
    """Right-hand sides as a copy of the type `dtype`, one after another in memory.

    Args:
        b: Of shape (n,) or (n, k).
        casting: Which conversions are allowed, as in `numpy.can_cast`.
    """
    b = np.asarray(from_dlpack(b))
    if not np.can_cast(b.dtype, dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {b.dtype!r} to {dtype!r} according to the rule '{casting}'"
        )
    if b.ndim > 2:
        raise ValueError("object too deep for desired array: b has shape (n,) or (n, k)")
    if b.ndim == 0 or b.shape[0] != n:
        raise ValueError(f"b is of incompatible size: its shape is {b.shape}; the matrix has order {n}")
    return np.array(b, dtype, order="F", copy=True)


def flat(x: np.ndarray) -> np.ndarray:
    """The numbers of an array in Fortran order, as a view."""
    return x if x.ndim == 1 else x.T.reshape(-1)


def operation(trans: Any) -> str:
    """What to solve with, as a letter: ``"N"``, ``"T"`` or ``"H"``."""
    if trans not in ("N", "T", "H"):
        raise ValueError("trans must be N, T, or H")
    return trans
