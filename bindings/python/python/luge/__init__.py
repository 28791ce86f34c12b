"""Sparse direct solver: LU, LDLᵀ and Cholesky factorizations, on the CPU and on NVIDIA GPUs.

`splu`, `spsolve` and `factorized` are used as those of `scipy.sparse.linalg`; `Solver` has the phases, for sequences of matrices
with one pattern, symmetric matrices, and data on a GPU.
"""

from luge._errors import (
    AccuracyWarning,
    CancelledError,
    DeviceError,
    Error,
    InvalidMatrixError,
    NotPositiveDefiniteError,
    NumericalError,
    OptionError,
    OutOfMemoryError,
    RightHandSideError,
    SingularMatrixError,
)
from luge._inform import Inform, Seconds, Warning
from luge._linsolve import LU, factorized, splu, spsolve
from luge._luge import DeviceArray, __version__
from luge._solver import (
    Accuracy,
    Batch,
    Determinant,
    Inertia,
    LowerUpper,
    Refactorized,
    Solver,
)
from luge._spy import Spy, spy

__all__ = [
    "LU",
    "Accuracy",
    "AccuracyWarning",
    "Batch",
    "CancelledError",
    "Determinant",
    "DeviceArray",
    "DeviceError",
    "Error",
    "Inertia",
    "Inform",
    "InvalidMatrixError",
    "LowerUpper",
    "NotPositiveDefiniteError",
    "NumericalError",
    "OptionError",
    "OutOfMemoryError",
    "Refactorized",
    "RightHandSideError",
    "Seconds",
    "SingularMatrixError",
    "Solver",
    "Spy",
    "Warning",
    "__version__",
    "factorized",
    "splu",
    "spsolve",
    "spy",
]
