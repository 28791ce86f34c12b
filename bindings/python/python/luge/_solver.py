"""The solver with its phases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from luge import _luge
from luge._arrays import Matrix, flat, is_transposed, matrix, real_type, right_hand_side
from luge._device import is_on_device, needs_device, view
from luge._errors import DeviceError, Error, InvalidMatrixError
from luge._inform import Inform, inform


@dataclass(frozen=True)
class Refactorized:
    """How new values were factorized. The factors are valid in each case."""

    reused: bool
    """Whether the old pivots serve; else new ones were searched, which took as long as a factorization."""
    reason: str | None
    """What was wrong with the old pivots."""
    growth: float
    """See `Inform.growth`."""
    backward_error: float | None
    """Measured by a probe, or a bound of it."""


@dataclass(frozen=True)
class Accuracy:
    """How good a solution is that was not refined."""

    backward_error: float | None
    """The normwise backward error if it was measured, else a bound for every right-hand side."""
    is_measured: bool
    refinement_steps: int


@dataclass(frozen=True)
class Inertia:
    """Numbers of positive, negative and zero eigenvalues."""

    positive: int
    negative: int
    zero: int


@dataclass(frozen=True)
class Determinant:
    """A determinant, ``mantissa * 2**exponent``: it overflows any floating-point type."""

    mantissa: float
    exponent: int
    value: float
    """As a ``float``: infinite or zero where it is out of range."""
    log10_abs: float
    """log10 of the magnitude."""

    def __float__(self) -> float:
        return self.value


class LowerUpper(NamedTuple):
    """L and U in SciPy's convention: ``Pr @ A @ Pc = L @ U``, row i of A being row ``perm_r[i]`` of the product, and column j of A
    column ``perm_c[j]``. ``L`` has a unit diagonal."""

    L: Any
    U: Any
    perm_r: np.ndarray
    perm_c: np.ndarray


def _renewed(outcome: tuple[bool, str | None, float, float | None]) -> Refactorized:
    return Refactorized(*outcome)


def _canonical(call: Any, a: Any, dtype: np.dtype | None) -> tuple[Any, Matrix]:
    """`call` with the arrays of `a`; once more with sorted ones, without duplicates, if it refuses these.

    So a matrix that is in order, as most are, is not looked through twice, nor changed.
    """
    arrays = matrix(a, dtype)
    try:
        return call(arrays), arrays
    except InvalidMatrixError as error:
        if error.reason != "NotSorted" or not hasattr(a, "copy"):
            raise
    arrays = matrix(a, dtype, canonical=True)
    return call(arrays), arrays


class Solver:
    """A sparse direct solver: options, and the analysis and the factors of the matrix that it saw last.

    The phases are `analyze`, which orders a pattern, `factorize`, `refactorize` for other values with the same pattern, and
    `solve`::

        solver = luge.Solver(kind="symmetric")
        solver.analyze(a)
        solver.factorize(a)
        x = solver.solve(b)
        solver.refactorize(a2)
        x = solver.solve(b)

    All of them release the interpreter's lock while they work, and several threads may solve with the same factors.

    Args:
        backend: ``"auto"`` (the CPU or the first GPU, whichever is predicted to be faster), ``"cpu"``, ``"gpu"`` or ``"gpu:1"``.
        kind: ``"general"``, ``"symmetric"`` (all of the matrix or one triangle), ``"positive_definite"`` or ``"auto"``.
        threads: Most threads that work; ``None``: as many as there are cores. Results do not depend on it.
        pivoting: ``"auto"``, ``"static"``, or the threshold of threshold partial pivoting, from 0 to 1.
        precision: ``"matrix"``, or ``"single"`` for factors in ``float32`` under a refinement in ``float64``.
        max_refinement_steps: Most steps of iterative refinement in a solve.
        target_backward_error: What every solution must reach; ``None``: 1e-12, or 1e-6 for ``float32``.
        factorizations: How many factorizations one analysis is to serve: the more, the longer the ordering may take.
        residual_check: When a refactorization on a device, or of a symmetric matrix, is measured by a solve: ``"always"``,
            ``"where_in_doubt"`` or ``"never"``.
        estimate_condition: Whether factorizations estimate the condition number, see `Inform.rcond`.
        singular: For symmetric matrices, ``"refuse"`` or ``"continue"``.
        regularization: For symmetric matrices, ``(signs, delta)`` or ``(signs, delta, below)``: the sign that the pivot of each
            column is expected to have, and what others are replaced by.
        symmetric_pivoting: ``"blocks"``, ``"blocks_alone"`` or ``"columns"``.
        max_delays: How often a column of a symmetric matrix is delayed at most.
        perturbation: Static pivots below this times the largest entry are replaced.
        max_growth: Growth beyond which a refactorization does not trust the old pivots.
        engine: On the CPU, ``"auto"``, ``"columns"`` or ``"fronts"``.
        device_engine: On a device, ``"auto"``, ``"columns"`` or ``"tree"``.
        ordering: ``"auto"``, ``"amd"``, ``"colamd"``, ``"nested_dissection"``, ``"natural"``, or permutations of rows and columns
            ``(rows, columns)`` from new positions to old ones.
        matching: Whether rows are matched to columns by value: ``"auto"``, ``"always"`` or ``"never"``.
        scaling: Whether rows and columns are scaled.
        averaged: Whether logarithms of entries are made zero on average before that.
        block_triangular: Whether the matrix is permuted to block triangular form.
        diagonal_threshold: From which size on the diagonal also is a candidate after a matching.
        max_host_bytes: Most bytes of host memory, for all of this solver.
        max_device_bytes: Most bytes of device memory.

    They are the options of the Rust crate, whose documentation says more of each.

    Raises:
        OptionError: A value is out of its range.
        DeviceError: A GPU was asked for, and there is none that works.
        TypeError: There is no such option, or a value is of the wrong type.
        ValueError: A word is none of those above.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._solver = _luge.Solver(options)
        self._analysis: _luge.Analysis | None = None
        self._factors: _luge.Factors | None = None
        self._report: _luge.RawInform | None = None
        self._accuracy: Accuracy | None = None
        self._dtype = np.dtype(np.float64)
        self._shape = (0, 0)
        self._order: np.ndarray | None = None
        self._is_alike = True

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        state = "factorized" if self._factors else "analyzed" if self._analysis else "new"
        return f"<luge.Solver({options}), {state}, order {self._shape[0]}>"

    def analyze(self, a: Any, *, pattern_only: bool = False, dtype: Any = None) -> Solver:
        """Orders a square matrix and finds the structure of its factors.

        Args:
            a: Sparse, of shape (n, n): CSR and CSC are taken as they are, others are converted. Not changed.
            pattern_only: Do not look at the values, which are not known yet. Where they are known, the order is better for
                them.
            dtype: For ``pattern_only``, the type of the matrices to come.

        Returns:
            The solver itself.

        Raises:
            InvalidMatrixError: It is not square, or has an entry that is not finite.
            SingularMatrixError: It is structurally singular.
            TypeError: It is complex, or no matrix.
            OutOfMemoryError, CancelledError, DeviceError
        """
        wanted = None if dtype is None else real_type(np.dtype(dtype))

        def call(arrays: Matrix) -> _luge.Analysis:
            is_single = arrays.data.dtype == np.float32
            return self._solver.analyze(arrays.stored(), pattern_only, is_single)

        analysis, arrays = _canonical(call, a, wanted)
        self._analysis, self._factors = analysis, None
        self._report, self._accuracy = analysis.inform(), None
        self._dtype, self._shape = arrays.data.dtype, arrays.shape
        self._order, self._is_alike = arrays.order, arrays.is_alike
        return self

    def factorize(self, a: Any, *, stream: Any = None) -> Solver:
        """Computes the factors of a matrix of the analyzed pattern, or of a part of it; analyzes it first if nothing was.

        Args:
            a: The matrix, or its values alone, of shape (nnz,), in the order in which the analyzed matrix is stored. Values may be
                on the device; a first factorization brings them to the host, where pivots may have to be searched.
            stream: For values on a device, the stream on which they are made; ``None``: the one that the array names.

        Returns:
            The solver itself.

        Raises:
            SingularMatrixError: It is singular, exactly or to rounding.
            NotPositiveDefiniteError: It should be positive definite, and is not.
            InvalidMatrixError: It has an entry that the analyzed one has not, one that is not finite, or another size.
            NumericalError: The factorization overflows.
            OutOfMemoryError, CancelledError, DeviceError
        """
        there = is_on_device(a)
        values = None if there else self._values(a)
        if values is None and not there and self._analysis is None:
            self.analyze(a)
        analysis = self._analysis
        if analysis is None:
            raise Error("values alone say nothing before a pattern is analyzed: call analyze first")
        if there:
            self._check_values_there()
            if not analysis.is_on_device():
                raise needs_device("the array of values")
            factors = analysis.factorize_on_device(view(a, "the array of values", stream).place())
        elif values is None:
            factors, _ = _canonical(lambda m: analysis.factorize(m.stored()), a, self._dtype)
        else:
            factors = analysis.factorize_values(values)
        self._factors, self._report, self._accuracy = factors, None, None
        return self

    def refactorize(self, a: Any, *, stream: Any = None) -> Refactorized:
        """Computes the factors of another matrix of the same pattern in the memory of the old ones, with the old pivots where
        they serve.

        Args:
            a: As for `factorize`; values on the device stay there.
            stream: As for `factorize`.

        Returns:
            Whether the old pivots were kept. Nothing has to be done about it.

        Raises:
            As `factorize`. The factors are then those of the last matrix still.
        """
        factors = self._need_factors("refactorize")
        there = is_on_device(a)
        values = None if there else self._values(a)
        if there:
            self._check_values_there()
            self._need_device("the array of values")
            outcome = factors.refactorize_on_device(view(a, "the array of values", stream).place())
        elif values is None:
            outcome, _ = _canonical(lambda m: factors.refactorize(m.stored()), a, self._dtype)
        else:
            outcome = factors.refactorize_values(values)
        self._report, self._accuracy = None, None
        return _renewed(outcome)

    def solve(
        self,
        b: Any,
        trans: str = "N",
        *,
        refine: bool = True,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Solves ``A @ x = b``.

        Args:
            b: Right-hand sides, of shape (n,) or (n, k), in any order of memory. It is converted to the type of the matrix;
                complex ones are solved for their real and imaginary parts. Or an array of ``float64`` on the device, where it stays:
                contiguous, in Fortran order if it has several columns.
            trans: ``"N"``, or ``"T"`` or ``"H"`` to solve with the transpose.
            refine: Measure every solution and refine it as long as that helps; `inform` has the backward error. Else one pass of
                triangular solves where the factors bound its backward error, which `accuracy` has.
            out: Where the solution goes: of the shape of ``b`` and the type of the matrix, and on the device if ``b`` is. It may be
                ``b`` itself.
            stream: For arrays on a device, the stream on which they are made: a number, a stream of CuPy or of PyTorch; ``None``: the
                one that the array names, else the default stream.

        Returns:
            The solution, of the shape of ``b``; ``out`` if that is given. For ``b`` on a device a `luge.DeviceArray`, which
            ``cupy.asarray`` and ``torch.as_tensor`` take without a copy; the device is done with it.

        Raises:
            RightHandSideError: ``b`` has an entry that is not finite.
            NumericalError: The solution overflows.
            ValueError: ``b`` is of the wrong shape.
            CancelledError, DeviceError
        """
        factors = self._need_factors("solve")
        transpose = is_transposed(trans)
        if is_on_device(b):
            return self._solve_on_device(b, transpose, refine, out, stream)
        if np.iscomplexobj(b):
            if out is not None:
                raise TypeError("out is for real right-hand sides")
            return self._solve_parts(np.asarray(b), trans, refine)
        x = right_hand_side(b, self._shape[0], self._dtype, "same_kind")
        if out is not None and (out.shape != x.shape or out.dtype != x.dtype):
            raise ValueError(f"out is {out.dtype} of shape {out.shape}; the solution is {x.dtype} of shape {x.shape}")
        if refine:
            nrhs = 1 if x.ndim == 1 else x.shape[1]
            solution, self._report = factors.solve(flat(x), nrhs, transpose)
            self._accuracy = None
            x = solution if x.ndim == 1 else solution.reshape(nrhs, self._shape[0]).T
        else:
            self._accuracy = Accuracy(*factors.solve_in_place(flat(x), transpose))
            self._report = None
        if out is None:
            return x
        out[...] = x
        return out

    def _need_device(self, what: str) -> None:
        if self._analysis is None or not self._analysis.is_on_device():
            raise needs_device(what)

    def _solve_on_device(self, b: Any, transpose: bool, refine: bool, out: Any, stream: Any) -> Any:
        """Solves for right-hand sides on the device; solutions stay there."""
        self._need_device("b")
        given = view(b, "b", stream)
        if given.shape[0] != self._shape[0]:
            raise ValueError(f"b is of incompatible size: its shape is {given.shape}; the matrix has order {self._shape[0]}")
        place = None
        if out is not None:
            if not is_on_device(out):
                raise TypeError("b is on a device, so out must be there, too")
            written = view(out, "out", stream, written=True)
            if written.shape != given.shape:
                raise ValueError(f"out has shape {written.shape}; the solution has {given.shape}")
            place = written.place()
        factors = self._need_factors("solve")
        array, accuracy, report = factors.solve_on_device(given.place(), place, given.shape, transpose, refine)
        self._report = report
        self._accuracy = None if accuracy is None else Accuracy(*accuracy)
        return array if out is None else out

    def _solve_parts(self, b: np.ndarray, trans: str, refine: bool) -> np.ndarray:
        """Solves for the real and the imaginary part."""
        n = self._shape[0]
        if b.ndim not in (1, 2) or b.shape[0] != n:
            raise ValueError(f"b is of incompatible size: its shape is {b.shape}; the matrix has order {n}")
        half = 1 if b.ndim == 1 else b.shape[1]
        columns = b.reshape(n, half)
        x = self.solve(np.hstack([columns.real, columns.imag]), trans, refine=refine)
        return (x[:, :half] + 1j * x[:, half:]).reshape(b.shape)

    @property
    def inform(self) -> Inform:
        """The report of the last phase: of the analysis, of the factors, or of the last refined solution."""
        report = self._report
        if report is None:
            report = self._need_factors("inform").inform()
            self._report = report
        return inform(report)

    @property
    def accuracy(self) -> Accuracy | None:
        """Of the last solve with ``refine=False``, how good the solution is."""
        return self._accuracy

    @property
    def inertia(self) -> Inertia | None:
        """Numbers of positive, negative and zero eigenvalues of a symmetric matrix; ``None`` for a general one."""
        counts = self._need_factors("inertia").inertia()
        return None if counts is None else Inertia(*counts)

    @property
    def determinant(self) -> Determinant:
        """The determinant of the factorized matrix."""
        return Determinant(*self._need_factors("determinant").determinant())

    @property
    def perturbed_columns(self) -> list[int] | None:
        """Columns whose pivots were replaced, if they are known."""
        return self._need_factors("perturbed_columns").perturbed_columns()

    @property
    def shape(self) -> tuple[int, int]:
        """Of the analyzed matrix."""
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        """The type of the analyzed matrix and of solutions."""
        return self._dtype

    def condition(self) -> float:
        """An estimate of the condition number of the scaled matrix in the 1-norm, from a few solves: infinite if it is singular
        to rounding."""
        rcond = self._need_factors("condition").rcond()
        return 1.0 / rcond if rcond > 0.0 else float("inf")

    def raise_threshold(self) -> float | None:
        """Factorizes the same matrix with a stricter choice of pivots.

        Returns:
            The threshold, or ``None`` if there is no stricter one.
        """
        raised = self._need_factors("raise_threshold").raise_threshold()
        self._report = None
        return raised

    def lower_upper(self) -> LowerUpper:
        """L, U and the permutations of a general matrix on the CPU. They are made for this call, which may take as long as a
        factorization. Needs SciPy.

        Raises:
            DeviceError: The factors are on a device.
            TypeError: The factors are those of a symmetric matrix.
        """
        return lower_upper(self._need_factors("lower_upper"))

    def factorize_batch(self, values: Any) -> Batch:
        """Factorizes many matrices of the analyzed pattern side by side.

        Args:
            values: Of shape (count, nnz): for each matrix its values, in the order in which the analyzed one is stored.

        Raises:
            OutOfMemoryError: Not all fit together. What is wrong with one matrix alone is told by `Batch.errors`.
        """
        if self._analysis is None:
            raise Error("a pattern must be analyzed first: call analyze")
        self._check_values_alone()
        values = self._ordered(_batch_values(values, self._dtype))
        factors = self._analysis.factorize_batch(values.reshape(-1), len(values))
        return Batch(factors, self._shape[0], self._dtype, self._ordered)

    def cancel(self) -> None:
        """Stops the call that runs in another thread, with a `CancelledError`, and those that follow until `resume`."""
        self._solver.set_cancelled(True)

    def resume(self) -> None:
        """Takes `cancel` back."""
        self._solver.set_cancelled(False)

    def _need_factors(self, what: str) -> _luge.Factors:
        if self._factors is None:
            raise Error(f"{what} needs factors: call factorize first")
        return self._factors

    def _check_values_alone(self) -> None:
        if not self._is_alike:
            raise ValueError(
                "values alone have no order, for the analyzed matrix was not CSR or CSC, or had entries twice: pass the matrix"
            )

    def _check_values_there(self) -> None:
        self._check_values_alone()
        if self._order is not None:
            raise ValueError("the analyzed matrix was not sorted, as values on a device have to be: call its sort_indices first")

    def _ordered(self, values: np.ndarray) -> np.ndarray:
        """Values in the order that was analyzed, given those in the caller's."""
        if self._order is None or values.shape[-1] != len(self._order):
            return values
        return np.ascontiguousarray(values[..., self._order])

    def _values(self, a: Any) -> np.ndarray | None:
        """The values if these are given alone."""
        if hasattr(a, "format") or getattr(a, "ndim", None) != 1:
            return None
        self._check_values_alone()
        values = np.asarray(a)
        if not np.can_cast(values.dtype, self._dtype, "same_kind"):
            raise TypeError(f"the values are {values.dtype}; the analyzed matrix is of {self._dtype}")
        return self._ordered(np.ascontiguousarray(values, self._dtype))


def lower_upper(factors: _luge.Factors) -> LowerUpper:
    """L and U of these factors as matrices of SciPy."""
    parts = factors.lower_upper()
    if parts is None:
        report = inform(factors.inform())
        if report.backend != "cpu":
            raise DeviceError("L and U stay on the device: factorize with backend='cpu' to have them")
        raise TypeError(f"the factors are those of a {report.kind} matrix, which have no L and U")
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    rows, cols, *triangles = parts
    n = len(rows)
    # Matrices in older versions of SciPy, arrays in newer ones.
    kind = type(splu(csc_array(np.eye(1))).L)

    def triangle(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> Any:
        if indptr[-1] <= np.iinfo(np.int32).max:
            indptr, indices = indptr.astype(np.int32), indices.astype(np.int32)
        return kind((data, indices, indptr), shape=(n, n))

    def positions(order: np.ndarray) -> np.ndarray:
        places = np.empty(n, np.int32)
        places[order] = np.arange(n, dtype=np.int32)
        return places

    lower, upper = (triangle(*arrays) for arrays in triangles)
    return LowerUpper(lower, upper, positions(rows), positions(cols))


def _batch_values(values: Any, dtype: np.dtype) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"values have shape {values.shape}; they must have shape (count, nnz)")
    if not np.can_cast(values.dtype, dtype, "same_kind"):
        raise TypeError(f"the values are {values.dtype}; the analyzed matrix is of {dtype}")
    return np.ascontiguousarray(values, dtype)


class Batch:
    """Factors of many matrices of one pattern, made by `Solver.factorize_batch`."""

    def __init__(self, factors: _luge.Batch, n: int, dtype: np.dtype, ordered: Any) -> None:
        self._factors, self._n, self._dtype, self._ordered = factors, n, dtype, ordered

    def __len__(self) -> int:
        return len(self._factors)

    def _reports(self) -> Iterator[_luge.RawInform | Exception]:
        return (self._factors.inform(at) for at in range(len(self)))

    @property
    def errors(self) -> list[Exception | None]:
        """For each matrix why it has no factors, or ``None``."""
        return [report if isinstance(report, Exception) else None for report in self._reports()]

    @property
    def informs(self) -> list[Inform | None]:
        """For each matrix the report of its factors."""
        return [None if isinstance(report, Exception) else inform(report) for report in self._reports()]

    def refactorize(self, values: Any) -> list[Refactorized | Exception]:
        """Factorizes other values, of shape (count, nnz). For each matrix how that went, or why it has no factors."""
        values = self._ordered(_batch_values(values, self._dtype))
        if len(values) != len(self):
            raise ValueError(f"there are values of {len(values)} matrices; the batch has {len(self)}")
        outcomes = self._factors.refactorize(values.reshape(-1))
        return [o if isinstance(o, Exception) else _renewed(o) for o in outcomes]

    def solve(self, b: Any, *, on_error: str = "raise") -> np.ndarray:
        """Solves with each matrix for right-hand sides of its own.

        Args:
            b: Of shape (count, n) or (count, n, k).
            on_error: ``"raise"`` the error of the first matrix without a solution, or ``"nan"``: fill its solutions with NaN.

        Returns:
            The solutions, of the shape of ``b``.
        """
        if on_error not in ("raise", "nan"):
            raise ValueError("on_error must be 'raise' or 'nan'")
        b = np.asarray(b)
        count, n = len(self), self._n
        if b.ndim not in (2, 3) or b.shape[:2] != (count, n):
            raise ValueError(f"b has shape {b.shape}; it must have shape ({count}, {n}) or ({count}, {n}, k)")
        if not np.can_cast(b.dtype, self._dtype, "same_kind"):
            raise TypeError(f"b is {b.dtype}; the matrices are of {self._dtype}")
        nrhs = 1 if b.ndim == 2 else b.shape[2]
        # One right-hand side after another.
        columns = np.ascontiguousarray(b.reshape(count, n, nrhs).transpose(0, 2, 1), self._dtype)
        x = np.full_like(columns, np.nan)
        for at, solved in enumerate(self._factors.solve(columns.reshape(-1), nrhs)):
            if isinstance(solved, Exception):
                if on_error == "raise":
                    raise solved
                continue
            x[at] = solved[0].reshape(nrhs, n)
        return x.transpose(0, 2, 1).reshape(b.shape)
