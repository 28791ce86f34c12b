"""The solver with its phases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from luge import _luge
from luge._arrays import Matrix, flat, matrix, operation, right_hand_side, scalar_type
from luge._device import Device, View, by_columns, from_dlpack, is_on_device, needs_device, view
from luge._errors import DeviceError, Error, InvalidMatrixError
from luge._inform import Inform, inform
from luge._progress import callback


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

    mantissa: float | complex
    """Complex for a complex matrix."""
    exponent: int
    value: float | complex
    """As a number: infinite or zero where it is out of range."""
    log10_abs: float
    """log10 of the magnitude."""

    def __float__(self) -> float:
        return float(self.value)  # type: ignore[arg-type]  # A complex number raises TypeError.

    def __complex__(self) -> complex:
        return complex(self.value)


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

    All of them release the interpreter's lock while they work, and several threads may solve with the same factors. Complex
    matrices are solved on the CPU.

    Args:
        backend: ``"auto"`` (the CPU or the first GPU, whichever is predicted to be faster), ``"cpu"``, ``"gpu"`` or ``"gpu:1"``.
        kind: ``"general"``, ``"symmetric"`` (all of the matrix or one triangle), ``"hermitian"`` (of a complex matrix its conjugate
            transpose, of a real one the same as symmetric), ``"positive_definite"`` (Hermitian, too) or ``"auto"``.
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

    def analyze(self, a: Any, *, pattern_only: bool = False, dtype: Any = None, progress: Any = None) -> Solver:
        """Orders a square matrix and finds the structure of its factors.

        Args:
            a: Sparse, of shape (n, n): CSR and CSC are taken as they are, others are converted. Not changed.
            pattern_only: Do not look at the values, which are not known yet. Where they are known, the order is better for
                them.
            dtype: For ``pattern_only``, the type of the matrices to come.
            progress: ``True`` for bars by tqdm, or a function of a phase, what is done of it, and how much there is of that, which
                is zero where it is not counted. It is called by this thread: when a phase begins or goes on, and ten times a
                second. What it raises stops the call, and other calls of this solver that run, and is raised here. So is
                ``KeyboardInterrupt``.

        Returns:
            The solver itself.

        Raises:
            InvalidMatrixError: It is not square, or has an entry that is not finite.
            SingularMatrixError: It is structurally singular.
            TypeError: It is no matrix.
            ImportError: ``progress`` is ``True``, and there is no tqdm.
            OutOfMemoryError, CancelledError, DeviceError
        """
        wanted = None if dtype is None else scalar_type(np.dtype(dtype))
        with callback(progress) as told:

            def call(arrays: Matrix) -> _luge.Analysis:
                return self._solver.analyze(arrays.stored(), arrays.data.dtype.char, pattern_only, told)

            analysis, arrays = _canonical(call, a, wanted)
        self._analysis, self._factors = analysis, None
        self._report, self._accuracy = analysis.inform(), None
        self._dtype, self._shape = arrays.data.dtype, arrays.shape
        self._order, self._is_alike = arrays.order, arrays.is_alike
        return self

    def factorize(self, a: Any, *, stream: Any = None, progress: Any = None) -> Solver:
        """Computes the factors of a matrix of the analyzed pattern, or of a part of it; analyzes it first if nothing was.

        Args:
            a: The matrix, or its values alone, of shape (nnz,), in the order in which the analyzed matrix is stored. Values may be
                on the device; a first factorization brings them to the host, where pivots may have to be searched.
            stream: For values on a device, the stream on which they are made; ``None``: the one that the array names.
            progress: As for `analyze`.

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
            self.analyze(a, progress=progress)
        analysis = self._analysis
        if analysis is None:
            raise Error("values alone say nothing before a pattern is analyzed: call analyze first")
        with callback(progress) as told:
            if there:
                given = self._values_there(a, stream)
                factors = analysis.factorize_on_device(given.place(), told)
            elif values is None:
                factors, _ = _canonical(lambda m: analysis.factorize(m.stored(), told), a, self._dtype)
            else:
                factors = analysis.factorize_values(values, told)
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
            given = self._values_there(a, stream)
            outcome = factors.refactorize_on_device(given.place())
        elif values is None:
            outcome, _ = _canonical(lambda m: factors.refactorize(m.stored()), a, self._dtype)
        else:
            outcome = factors.refactorize_values(values)
        self._report, self._accuracy = None, None
        return _renewed(outcome)

    def refactorize_changed(self, indices: Any, values: Any) -> Refactorized:
        """As `refactorize` with all values of the matrix, where only some have changed: the outcome is the same, bit for bit.

        Only what depends on these entries is factorized again, from the second such call on; `inform` has the
        ``refactorized_part``. Calls with the same indices cost least. On a device that holds for general matrices, and
        everything of others is factorized again.

        Args:
            indices: Positions among the stored entries of the analyzed matrix, those of ``a.data``: integers, in any order.
            values: As many numbers, the new values there.

        Returns:
            Whether the old pivots were kept. Nothing has to be done about it.

        Raises:
            InvalidMatrixError: There is not one value for each index, an index that no entry has, or one that comes twice with
                different values.
            ValueError: The indices are no integers, or negative.
            As `factorize`. The factors are then those of the last matrix still.
        """
        factors = self._need_factors("refactorize_changed")
        self._check_values_alone()
        places = np.asarray(indices)
        if places.ndim != 1 or (places.size and not np.issubdtype(places.dtype, np.integer)):
            raise ValueError("indices must be integers in one dimension")
        if places.size and places.min() < 0:
            raise ValueError(f"there is no entry at place {places.min()}")
        values = np.asarray(values)
        if not np.can_cast(values.dtype, self._dtype, "same_kind"):
            raise TypeError(f"the values are {values.dtype}; the analyzed matrix is of {self._dtype}")
        values = np.ascontiguousarray(values, self._dtype)
        if self._order is not None:
            # What is beyond the entries is refused as it is.
            last = len(self._order) - 1
            places = np.where(places > last, places, np.argsort(self._order)[np.minimum(places, last)])
        outcome = factors.refactorize_changed(places.tolist(), values)
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
            b: Right-hand sides, of shape (n,) or (n, k), in any order of memory. It is converted to the type of the matrix; a real
                matrix solves for the real and the imaginary part of complex ones. Or an array of ``float64`` on the device, where
                it stays: contiguous, in Fortran order if it has several columns.
            trans: ``"N"``, or ``"T"`` to solve with the transpose, or ``"H"`` with the conjugate transpose.
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
        trans = operation(trans)
        if is_on_device(b):
            return self._solve_on_device(b, trans, refine, out, stream)
        b, out = from_dlpack(b), from_dlpack(out)
        if np.iscomplexobj(b) and self._dtype.kind != "c":
            if out is not None:
                raise TypeError("out is for real right-hand sides")
            return self._solve_parts(np.asarray(b), trans, refine)
        x = right_hand_side(b, self._shape[0], self._dtype, "same_kind")
        if out is not None and (out.shape != x.shape or out.dtype != x.dtype):
            raise ValueError(f"out is {out.dtype} of shape {out.shape}; the solution is {x.dtype} of shape {x.shape}")
        if refine:
            nrhs = 1 if x.ndim == 1 else x.shape[1]
            solution, self._report = factors.solve(flat(x), nrhs, trans)
            self._accuracy = None
            x = solution if x.ndim == 1 else solution.reshape(nrhs, self._shape[0]).T
        else:
            self._accuracy = Accuracy(*factors.solve_in_place(flat(x), trans))
            self._report = None
        if out is None:
            return x
        out[...] = x
        return out

    def _device(self, what: str) -> Device:
        """The device of the analysis, for an array that is there."""
        device = None if self._analysis is None else self._analysis.device()
        if device is None:
            raise needs_device(what)
        return Device(*device)

    def _values_there(self, a: Any, stream: Any) -> View:
        """Values on the device."""
        what = "the array of values"
        self._check_values_there()
        return view(a, what, stream, device=self._device(what))

    def _solve_on_device(self, b: Any, trans: str, refine: bool, out: Any, stream: Any) -> Any:
        """Solves for right-hand sides on the device; solutions stay there."""
        device = self._device("b")
        given = view(b, "b", stream, device=device)
        if given.shape[0] != self._shape[0]:
            raise ValueError(f"b is of incompatible size: its shape is {given.shape}; the matrix has order {self._shape[0]}")
        written = None if out is None else _written(out, given, stream, device)
        place = None if written is None else written.place()
        factors = self._need_factors("solve")
        array, accuracy, report = factors.solve_on_device(given.place(), place, given.shape, trans, refine)
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
        """Numbers of positive, negative and zero eigenvalues of a symmetric or Hermitian matrix; ``None`` for a general one, and
        for a complex symmetric one."""
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

    def factorize_batch(self, values: Any, *, stream: Any = None) -> Batch:
        """Factorizes many matrices of the analyzed pattern side by side.

        Args:
            values: Of shape (count, nnz): for each matrix its values, in the order in which the analyzed one is stored. They may
                be on the device; they are brought to the host once, where pivots may have to be searched.
            stream: For values on a device, as for `factorize`.

        Raises:
            OutOfMemoryError: Not all fit together. What is wrong with one matrix alone is told by `Batch.errors`.
            DeviceError
        """
        if self._analysis is None:
            raise Error("a pattern must be analyzed first: call analyze")
        if is_on_device(values):
            self._check_values_there()
            given = _batch_values_there(values, stream, self._analysis.device())
            factors = self._analysis.factorize_batch_on_device(given.place(), given.shape[0])
        else:
            self._check_values_alone()
            values = _ordered(_batch_values(values, self._dtype), self._order)
            factors = self._analysis.factorize_batch(values.reshape(-1), len(values))
        return Batch(factors, self, self._analysis.device())

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
        _check_sorted(self._order)

    def _values(self, a: Any) -> np.ndarray | None:
        """The values if these are given alone."""
        a = from_dlpack(a)
        if hasattr(a, "format") or getattr(a, "ndim", None) != 1:
            return None
        self._check_values_alone()
        values = np.asarray(a)
        if not np.can_cast(values.dtype, self._dtype, "same_kind"):
            raise TypeError(f"the values are {values.dtype}; the analyzed matrix is of {self._dtype}")
        return _ordered(np.ascontiguousarray(values, self._dtype), self._order)


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


def _ordered(values: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Values in the order that was analyzed, given those in the caller's."""
    if order is None or values.shape[-1] != len(order):
        return values
    return np.ascontiguousarray(values[..., order])


def _check_sorted(order: np.ndarray | None) -> None:
    if order is not None:
        raise ValueError("the analyzed matrix was not sorted, as values on a device have to be: call its sort_indices first")


def _written(out: Any, given: View, stream: Any, device: Device, *, batch: bool = False) -> View:
    """Where solutions on a device go."""
    if not is_on_device(out):
        raise TypeError("b is on a device, so out must be there, too")
    written = view(out, "out", stream, device=device, written=True, batch=batch)
    if written.shape != given.shape:
        raise ValueError(f"out has shape {written.shape}; the solution has {given.shape}")
    return written


def _batch_values(values: Any, dtype: np.dtype) -> np.ndarray:
    values = np.asarray(from_dlpack(values))
    if values.ndim != 2:
        raise ValueError(f"values have shape {values.shape}; they must have shape (count, nnz)")
    if not np.can_cast(values.dtype, dtype, "same_kind"):
        raise TypeError(f"the values are {values.dtype}; the analyzed matrix is of {dtype}")
    return np.ascontiguousarray(values, dtype)


def _batch_values_there(values: Any, stream: Any, device: tuple[int, int] | None) -> View:
    """Values of matrices on the device, one matrix after another."""
    what = "the array of values"
    if device is None:
        raise needs_device(what)
    given = view(values, what, stream, device=Device(*device), batch=True)
    if len(given.shape) != 2:
        raise ValueError(f"values have shape {given.shape}; they must have shape (count, nnz)")
    return given


class Batch:
    """Factors of many matrices of one pattern, made by `Solver.factorize_batch`."""

    def __init__(self, factors: _luge.Batch, solver: Solver, device: tuple[int, int] | None) -> None:
        self._factors, self._device = factors, device
        self._n, self._dtype, self._order = solver._shape[0], solver._dtype, solver._order
        self._accuracies: list[Accuracy | None] | None = None

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

    @property
    def accuracies(self) -> list[Accuracy | None] | None:
        """Of the last solve with ``refine=False``, for each matrix how good its solutions are, or ``None`` if there are none."""
        return self._accuracies

    def refactorize(self, values: Any, *, stream: Any = None) -> list[Refactorized | Exception]:
        """Factorizes other values, of shape (count, nnz). For each matrix how that went, or why it has no factors.

        Args:
            values: As for `Solver.factorize_batch`; on the device they stay there.
            stream: For values on a device, as for `Solver.factorize`.
        """
        there = is_on_device(values)
        if there:
            _check_sorted(self._order)
            given = _batch_values_there(values, stream, self._device)
            count = given.shape[0]
        else:
            values = _ordered(_batch_values(values, self._dtype), self._order)
            count = len(values)
        if count != len(self):
            raise ValueError(f"there are values of {count} matrices; the batch has {len(self)}")
        if there:
            outcomes = self._factors.refactorize_on_device(given.place())
        else:
            outcomes = self._factors.refactorize(values.reshape(-1))
        return [o if isinstance(o, Exception) else _renewed(o) for o in outcomes]

    def solve(
        self, b: Any, *, on_error: str = "raise", refine: bool = True, out: Any = None, stream: Any = None
    ) -> Any:
        """Solves with each matrix for right-hand sides of its own.

        Args:
            b: Of shape (count, n) or (count, n, k). Or such an array of ``float64`` on the device, where it stays: contiguous, and
                if k is above 1 with the right-hand sides of each matrix one after another.
            on_error: ``"raise"`` the error of the first matrix without a solution, or ``"nan"``: fill its solutions with NaN.
            refine: As for `Solver.solve`; where it is ``False``, `accuracies` says how good the solutions are.
            out: For ``b`` on the device, where the solutions go. It may be ``b`` itself.
            stream: As for `Solver.solve`.

        Returns:
            The solutions, of the shape of ``b``; for ``b`` on a device a `luge.DeviceArray`, or ``out``.
        """
        if on_error not in ("raise", "nan"):
            raise ValueError("on_error must be 'raise' or 'nan'")
        if is_on_device(b):
            return self._solve_on_device(b, on_error, refine, out, stream)
        if out is not None:
            raise TypeError("out is for right-hand sides on a device")
        b = np.asarray(from_dlpack(b))
        nrhs = self._check_shape(b.shape)
        if not np.can_cast(b.dtype, self._dtype, "same_kind"):
            raise TypeError(f"b is {b.dtype}; the matrices are of {self._dtype}")
        count, n = len(self), self._n
        # One right-hand side after another, in a copy.
        x = np.array(b.reshape(count, n, nrhs).transpose(0, 2, 1), self._dtype, order="C", copy=True)
        solved: list[Any]
        if refine:
            solved = self._factors.solve(x.reshape(-1), nrhs)
        else:
            solved = self._factors.solve_in_place(x.reshape(-1), nrhs)
        self._note(solved, on_error, refine)
        for at, found in enumerate(solved):
            if isinstance(found, Exception):
                x[at] = np.nan
            elif refine:
                x[at] = found[0].reshape(nrhs, n)
        return x.transpose(0, 2, 1).reshape(b.shape)

    def _solve_on_device(self, b: Any, on_error: str, refine: bool, out: Any, stream: Any) -> Any:
        if self._device is None:
            raise needs_device("b")
        device = Device(*self._device)
        given = view(b, "b", stream, device=device, batch=True)
        nrhs = self._check_shape(given.shape)
        written = None if out is None else _written(out, given, stream, device, batch=True)
        place = None if written is None else written.place()
        layout = (given.shape, by_columns(given.shape, batch=True))
        array, solved = self._factors.solve_on_device(given.place(), place, layout, nrhs, refine)
        self._note(solved, on_error, refine)
        return array if out is None else out

    def _check_shape(self, shape: tuple[int, ...]) -> int:
        """The number of right-hand sides of each matrix."""
        count, n = len(self), self._n
        if len(shape) not in (2, 3) or shape[:2] != (count, n):
            raise ValueError(f"b has shape {shape}; it must have shape ({count}, {n}) or ({count}, {n}, k)")
        return 1 if len(shape) == 2 else shape[2]

    def _note(self, solved: list[Any], on_error: str, refine: bool) -> None:
        """Keeps what is told of solutions that were not refined, or raises the first error."""
        failed = [found for found in solved if isinstance(found, Exception)]
        if refine:
            self._accuracies = None
        else:
            self._accuracies = [None if isinstance(found, Exception) else Accuracy(*found) for found in solved]
        if failed and on_error == "raise":
            raise failed[0]
