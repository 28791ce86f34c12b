"""What `scipy.sparse.linalg` has, with its arguments and results: `splu`, `spsolve` and `factorized`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from luge._arrays import flat, operation, right_hand_side, scalar_type
from luge._device import from_dlpack
from luge._errors import AccuracyWarning, SingularMatrixError
from luge._inform import Inform, inform
from luge._solver import LowerUpper, Solver, lower_upper

# How SuperLU's names of column orderings are understood.
_ORDERINGS: dict[str, dict[str, Any]] = {
    "COLAMD": {"ordering": "colamd"},
    "MMD_ATA": {"ordering": "colamd"},
    "MMD_AT_PLUS_A": {"ordering": "amd"},
    # Columns keep their places, and only rows move.
    "NATURAL": {
        "ordering": "natural",
        "matching": "never",
        "block_triangular": False,
        "engine": "columns",
        "backend": "cpu",
    },
}

# What of SuperLU's options has no counterpart, and changes no result.
_WITHOUT_EFFECT = {"PanelSize", "Relax", "SymmetricMode", "PrintStat", "Trans", "Fact", "IterRefine", "PivotGrowth", "ConditionNumber"}


class LU:
    """The factors of a matrix, with the attributes and methods of `scipy.sparse.linalg.SuperLU`.

    Made by `splu`.
    """

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._factors = solver._need_factors("LU")

    def __repr__(self) -> str:
        return f"<luge.LU of shape {self.shape}, {self.dtype}>"

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix."""
        return self._solver.shape

    @property
    def dtype(self) -> np.dtype:
        """Of the matrix, and of solutions."""
        return self._solver.dtype

    @cached_property
    def inform(self) -> Inform:
        """The report of the factorization."""
        return inform(self._factors.inform())

    @property
    def nnz(self) -> int:
        """Entries of L and of U, each with its diagonal."""
        report = self.inform
        return report.lnz + report.unz

    def solve(self, rhs: Any, trans: str = "N") -> np.ndarray:
        """Solves with the matrix, its transpose (``"T"``), or its conjugate transpose (``"H"``).

        One pass of triangular solves where the factors bound its backward error; else solutions are measured and refined to the
        target.

        Args:
            rhs: Of shape (n,) or (n, k); of a type that casts safely to that of the matrix.

        Returns:
            The solution, of the shape of ``rhs``; in Fortran order.

        Raises:
            ValueError: It is of the wrong shape; also `RightHandSideError` if an entry is not finite.
            TypeError: It is of a type that does not cast safely, complex for a real matrix.
            NumericalError: The solution overflows.
        """
        trans = operation(trans)
        x = right_hand_side(rhs, self.shape[0], self.dtype, "safe")
        self._factors.solve_in_place(flat(x), trans)
        return x

    @cached_property
    def _parts(self) -> LowerUpper:
        return lower_upper(self._factors)

    @property
    def L(self) -> Any:
        """Lower triangular, with a unit diagonal, by columns (CSC), of the class that SciPy's has; made when it is first asked for."""
        return self._parts.L

    @property
    def U(self) -> Any:
        """Upper triangular, by columns (CSC), of the class that SciPy's has; made when it is first asked for."""
        return self._parts.U

    @property
    def perm_r(self) -> np.ndarray:
        """Row i of the matrix is row ``perm_r[i]`` of ``L @ U``."""
        return self._parts.perm_r

    @property
    def perm_c(self) -> np.ndarray:
        """Column j of the matrix is column ``perm_c[j]`` of ``L @ U``."""
        return self._parts.perm_c


def _options(permc_spec: Any, diag_pivot_thresh: Any, options: dict[str, Any] | None) -> dict[str, Any]:
    """Luge's options for those of SciPy."""
    given = dict(options or {})
    permc_spec = given.pop("ColPerm", permc_spec)
    threshold = given.pop("DiagPivotThresh", diag_pivot_thresh)
    found: dict[str, Any] = {}
    if "Equil" in given:
        found["scaling"] = bool(given.pop("Equil"))
    unknown = set(given) - _WITHOUT_EFFECT
    if unknown:
        raise ValueError(f"options that are not known: {', '.join(sorted(unknown))}")
    if permc_spec is not None:
        ordering = _ORDERINGS.get(permc_spec)
        if ordering is None:
            raise ValueError(f"permc_spec is {permc_spec!r}; it must be one of {', '.join(_ORDERINGS)}")
        found.update(ordering)
    if threshold is not None:
        found["pivoting"] = float(threshold)
    return found


def _check_square(a: Any, message: str) -> None:
    shape = np.shape(a) if not hasattr(a, "shape") else a.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(message.format(tuple(shape)))


def _factorized(a: Any, options: dict[str, Any]) -> Solver:
    """A solver with the factors of `a`; that it is singular is said in SciPy's words."""
    try:
        return Solver(**options).factorize(a)
    except SingularMatrixError as error:
        error.args = (f"Factor is exactly singular: {error}",)
        raise


def splu(
    A: Any,
    permc_spec: str | None = None,
    diag_pivot_thresh: float | None = None,
    relax: int | None = None,
    panel_size: int | None = None,
    options: dict[str, Any] | None = None,
    **luge_options: Any,
) -> LU:
    """Factorizes a sparse matrix, as `scipy.sparse.linalg.splu`.

    Args:
        A: Sparse, of shape (n, n). CSC and CSR are taken as they are; it is not changed.
        permc_spec: ``None``: the ordering that is predicted to be best. ``"NATURAL"``: columns stay where they are. ``"COLAMD"``,
            ``"MMD_ATA"``, ``"MMD_AT_PLUS_A"``: the ordering that comes nearest.
        diag_pivot_thresh: Threshold for a diagonal entry to be a pivot, from 0 to 1; ``None``: chosen, and checked.
        relax, panel_size: Taken for SciPy's sake, and without effect.
        options: SuperLU's. ``Equil``, ``ColPerm`` and ``DiagPivotThresh`` are followed, others of its names have no effect.
        luge_options: Those of `luge.Solver`, such as ``backend="cpu"`` or ``threads=4``.

    Returns:
        The factors, with ``solve``, ``shape``, ``nnz``, ``perm_r``, ``perm_c``, ``L`` and ``U``.

    Raises:
        ValueError: It is not square, or has an entry that is not finite (`InvalidMatrixError`); or an option is wrong.
        RuntimeError: It is singular (`SingularMatrixError`): exactly, or to rounding.
        TypeError: It is of a type that none of ``float64`` and ``complex128`` holds.
    """
    A = from_dlpack(A)
    _check_square(A, "can only factor square matrices; the shape is {}")
    return LU(_factorized(A, {**_options(permc_spec, diag_pivot_thresh, options), **luge_options}))


def factorized(A: Any, **luge_options: Any) -> Callable[[Any], np.ndarray]:
    """A function that solves with the factors of a matrix, as `scipy.sparse.linalg.factorized`.

    Args:
        A: As for `splu`.
        luge_options: Those of `luge.Solver`.

    Returns:
        ``solve(b)`` for ``b`` of shape (n,) or (n, k).

    Raises:
        As `splu`.
    """
    return splu(A, **luge_options).solve


def spsolve(
    A: Any,
    b: Any,
    permc_spec: str | None = None,
    use_umfpack: bool = True,
    **luge_options: Any,
) -> Any:
    """Solves ``A @ x = b``, as `scipy.sparse.linalg.spsolve`. Solutions are measured and refined.

    Args:
        A: Sparse or dense, of shape (n, n). It is not changed.
        b: Dense or sparse, of shape (n,), (n, 1) or (n, k).
        permc_spec: As for `splu`.
        use_umfpack: Taken for SciPy's sake, and without effect.
        luge_options: Those of `luge.Solver`.

    Returns:
        The solution: of shape (n,) if ``b`` is one column; else of the shape of ``b``, and sparse if ``b`` is.

    Raises:
        ValueError: The shapes do not go together, or an entry is not finite.
        TypeError: ``A`` is of a type that none of ``float64`` and ``complex128`` holds.

    Warns:
        scipy.sparse.linalg.MatrixRankWarning: The matrix is singular. The solution is NaN then, as it is in SciPy; call `splu` or
            `luge.Solver` for an exception that says where.
        AccuracyWarning: The solution may be inaccurate.
    """
    del use_umfpack
    A = from_dlpack(A)
    _check_square(A, "matrix must be square (has shape {})")
    sparse_b = hasattr(b, "tocsc")
    if not sparse_b:
        b = np.asarray(from_dlpack(b))
    n = A.shape[0] if hasattr(A, "shape") else len(A)
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise ValueError(f"matrix - rhs dimension mismatch ({(n, n)} - {b.shape})")
    is_vector = b.ndim == 1 or b.shape[1] == 1
    of_matrix = scalar_type(_dtype_of(A))
    result_type = np.promote_types(of_matrix, b.dtype)
    # A real matrix stays real: it solves for the real and the imaginary part.
    solved_in = result_type if of_matrix.kind == "c" else np.empty(0, result_type).real.dtype
    dense = b.toarray() if sparse_b else b
    if is_vector:
        dense = dense.reshape(-1)
    options = {**_options(permc_spec, None, None), **luge_options}
    try:
        solver = Solver(**options)
        solver.analyze(A, dtype=solved_in)
        x = solver.factorize(A).solve(dense)
        _warn_of(solver.inform)
    except SingularMatrixError as error:
        warnings.warn(f"Matrix is exactly singular: {error}", _matrix_rank_warning(), stacklevel=2)
        x = np.full(dense.shape, np.nan, result_type)
    x = x.astype(result_type, copy=False)
    return _as_sparse(x, A) if sparse_b and not is_vector else x


def _dtype_of(a: Any) -> np.dtype:
    values = a if hasattr(a, "dtype") else getattr(a, "data", a)
    return np.asarray(values).dtype if not hasattr(values, "dtype") else np.dtype(values.dtype)


def _as_sparse(x: np.ndarray, like: Any) -> Any:
    """A solution without its zeros, of the class that SciPy gives it: that of the matrix."""
    from scipy.sparse import csc_array

    return type(like)(x) if getattr(like, "format", None) in ("csr", "csc") else csc_array(x)


def _warn_of(report: Inform) -> None:
    for warning in report.warnings:
        if warning.kind in ("TargetMissed", "IllConditioned", "PerturbedPivots"):
            warnings.warn(warning.message, AccuracyWarning, stacklevel=3)


def _matrix_rank_warning() -> type[Warning]:
    """SciPy's, which callers filter."""
    try:
        from scipy.sparse.linalg import MatrixRankWarning
    except ImportError:
        return UserWarning
    return MatrixRankWarning
