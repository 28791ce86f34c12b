"""Exceptions. Each has the fields of the error of the Rust crate as attributes, and derives from the built-in that callers of
SciPy catch in its place."""

from __future__ import annotations

from typing import Any

import numpy as np


class Error(Exception):
    """What all exceptions of the solver derive from.

    Attributes:
        kind: The name of the error in the Rust crate, such as ``"ZeroPivot"``.
        system: For a batch, the number of the system that failed, from 0.

    and those that the subclasses list, ``None`` where they do not apply. Rows and columns are those of the matrix that was
    handed in, and count from 0.
    """

    kind: str = "Other"
    system: int | None = None


class OptionError(Error, ValueError):
    """An option is out of its range, or does not go with another or with the matrix (attributes ``field``, ``value``, ``range``)."""

    field: str | None = None
    value: str | None = None
    range: str | None = None


class InvalidMatrixError(Error, ValueError):
    """The arrays are no sparse matrix, or not one that is solved: not square, of another size or pattern than the analyzed
    one, not symmetric, or with an entry that is not finite.

    Attributes ``row`` and ``column`` of the first offender, ``rows``, ``cols`` and ``n`` of sizes, ``reason``, ``compression`` and
    ``at`` of what is wrong with the arrays; ``place``, or ``places`` and ``values``, of a change of values, ``nnz`` of entries.
    """

    row: int | None = None
    column: int | None = None
    rows: int | None = None
    cols: int | None = None
    n: int | None = None
    reason: str | None = None
    compression: str | None = None
    at: int | None = None
    place: int | None = None
    places: int | None = None
    values: int | None = None
    nnz: int | None = None


class RightHandSideError(Error, ValueError):
    """A value of the right-hand side is infinite or not a number (attributes ``row`` and ``column``)."""

    row: int | None = None
    column: int | None = None


class SingularMatrixError(Error, RuntimeError):
    """The matrix is singular: structurally, exactly, or to rounding. ``kind`` says which.

    Attributes ``rank``, ``unmatched_rows`` and ``unmatched_columns`` where no permutation brings entries to the diagonal;
    ``column`` without a pivot; ``rcond`` where the condition number tells.
    """

    rank: int | None = None
    unmatched_rows: list[int] | None = None
    unmatched_columns: list[int] | None = None
    column: int | None = None
    rcond: float | None = None


class NotPositiveDefiniteError(Error, np.linalg.LinAlgError):
    """The matrix is not positive definite, and the options say that it is (attributes ``column`` and ``pivot``)."""

    column: int | None = None
    pivot: float | None = None


class NumericalError(Error, ArithmeticError):
    """A factorization or a solution overflows, or new values do not go with static pivots.

    Attributes ``row`` or ``column``; ``growth`` and ``backward_error`` where pivots do not serve.
    """

    row: int | None = None
    column: int | None = None
    growth: float | None = None
    backward_error: float | None = None


class OutOfMemoryError(Error, MemoryError):
    """More memory is needed than the options allow, or than there is on the device.

    Attributes ``asked`` and ``available`` in bytes; ``phase``; for a batch ``systems`` and ``fitting``.
    """

    asked: int | None = None
    available: int | None = None
    phase: str | None = None
    systems: int | None = None
    fitting: int | None = None


class DeviceError(Error, RuntimeError):
    """There is no GPU, or it failed."""

    feature: str | None = None


class CancelledError(Error):
    """`luge.Solver.cancel` was called."""


class AccuracyWarning(UserWarning):
    """A solution may be less accurate than it should be: its backward error is above the target, or the matrix is so
    ill-conditioned that no digit may be right."""


_CLASSES: dict[str, type[Error]] = {
    "InvalidOption": OptionError,
    "RealOnly": OptionError,
    "PermutationLength": OptionError,
    "SignsLength": OptionError,
    "InvalidMatrix": InvalidMatrixError,
    "NotSquare": InvalidMatrixError,
    "OtherSize": InvalidMatrixError,
    "OtherCount": InvalidMatrixError,
    "NoEntry": InvalidMatrixError,
    "TwoValues": InvalidMatrixError,
    "NotFinite": InvalidMatrixError,
    "NotSymmetric": InvalidMatrixError,
    "NotHermitian": InvalidMatrixError,
    "ExtraEntry": InvalidMatrixError,
    "IndexOverflow": InvalidMatrixError,
    "RightHandSideNotFinite": RightHandSideError,
    "StructurallySingular": SingularMatrixError,
    "ZerosOnly": SingularMatrixError,
    "ZeroPivot": SingularMatrixError,
    "NoPivots": SingularMatrixError,
    "SingularToRounding": SingularMatrixError,
    "NotPositiveDefinite": NotPositiveDefiniteError,
    "Overflow": NumericalError,
    "SolutionNotFinite": NumericalError,
    "Unstable": NumericalError,
    "OutOfMemory": OutOfMemoryError,
    "BatchOutOfMemory": OutOfMemoryError,
    "FeatureOff": DeviceError,
    "Device": DeviceError,
    "Cancelled": CancelledError,
}


def exception(kind: str, message: str, fields: dict[str, Any]) -> Error:
    """The exception for an error of the Rust crate."""
    error = _CLASSES.get(kind, Error)(message)
    error.kind = kind
    for name, value in fields.items():
        setattr(error, name, value)
    return error
