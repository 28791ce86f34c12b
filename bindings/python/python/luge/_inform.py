"""Reports."""

from __future__ import annotations

import dataclasses
import html
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luge._luge import RawInform


@dataclass(frozen=True)
class Warning:
    """Trouble that still yields factors or a solution."""

    kind: str
    """The name in the Rust crate, such as ``"IllConditioned"``."""
    message: str
    """What it says."""
    fields: dict[str, Any]
    """Its fields."""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Seconds:
    """Seconds of wall time for each phase; ``None`` where it did not run."""

    ordering: float = 0.0
    symbolic: float = 0.0
    supernode: float | None = None
    levelize: float | None = None
    pivot_search: float | None = None
    numeric: float | None = None
    probe: float | None = None
    solve: float | None = None
    transfer: float | None = None
    module_load: float | None = None


@dataclass(frozen=True)
class Inform:
    """The report of an analysis, of factors or of a solution; each contains what came before it.

    A field that is ``None`` was not measured by what ran, does not apply to it, or is not a finite number. The fields are
    those of the Rust crate, whose documentation says how each is measured.
    """

    n: int
    """Order of the matrix."""
    nnz: int
    """Stored entries of the matrix."""
    lnz: int
    """Entries of L with its unit diagonal: predicted by the analysis, exact with factors."""
    unz: int
    """Entries of U with its diagonal."""
    flops: float
    """Floating-point operations of the factorization."""
    num_blocks: int
    """Diagonal blocks of the block triangular form."""
    num_levels: int | None
    max_level_width: int | None
    num_supernodes: int | None
    max_front: int | None
    """Order of the largest front."""
    peak_host_bytes: int
    """Bytes held on the host at the end of the phase that held most."""
    predicted_host_bytes: int | None
    predicted_device_bytes: int | None
    peak_device_bytes: int | None
    spilled_bytes: int | None
    num_perturbed: int | None
    """Static pivots that were replaced."""
    num_off_diagonal: int | None
    """Pivots that threshold pivoting took off the diagonal."""
    num_delay: int | None
    """Pivots delayed to a later front."""
    num_two: int | None
    """Pivots of order 2, of a symmetric matrix."""
    num_second_pass: int | None
    num_neg: int | None
    """Negative eigenvalues of a symmetric or Hermitian matrix."""
    rank: int | None
    growth: float | None
    """How much larger abs(L) @ abs(U) is than the matrix."""
    refactorized_part: float | None
    """After `Solver.refactorize_changed` the predicted operations of what was factorized again, over those of all."""
    rcond: float | None
    """Estimate of the reciprocal condition number of the scaled matrix, in the 1-norm."""
    backward_error: float | None
    """Normwise backward error of the solution; of factors that of a probe, or a bound."""
    componentwise_error: float | None
    refinement_steps: int | None
    seconds: Seconds
    predicted_seconds: dict[str, float] | None
    """What ``backend="auto"`` chose by."""
    num_devices: int | None
    """Devices that share in a factorization, on a group of them."""
    predicted_speedup: float | None
    """Predicted time of a factorization on one of them over that on all."""
    peer_factor_bytes: int | None
    """Where the first device has no room for the factors, bytes of them on the others of its group."""
    host_factor_bytes: int | None
    """Likewise in the host's memory."""
    backend: str
    """``"cpu"`` or ``"cuda"``."""
    device: str
    kind: str
    """``"general"``, ``"symmetric"``, ``"Hermitian"`` or ``"positive definite"``: what the matrix was factorized as."""
    precision: str
    """Type of the factors: ``"f32"``, ``"f64"``, ``"complex f32"`` or ``"complex f64"``."""
    ordering: str
    matched: bool
    """Whether rows were matched to columns by value."""
    scaled: bool
    pivoting: str | None
    """``"static"`` or ``"threshold"``."""
    code_path: list[str]
    """Algorithm of each phase that ran."""
    warnings: list[Warning]
    symbolic: dict[str, Any] | None = None
    """What the symbolic phase did on a device."""
    columns: dict[str, Any] | None = None
    """How columns were shared out on a device."""

    def as_dict(self) -> dict[str, Any]:
        """All fields as plain dictionaries, lists and numbers."""
        return dataclasses.asdict(self)

    def _repr_html_(self) -> str:
        """A table of what is known, for notebooks."""
        rows = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None or value == []:
                continue
            if isinstance(value, Seconds):
                known = dataclasses.asdict(value).items()
                value = ", ".join(f"{name} {v:.3g}" for name, v in known if v is not None)
            elif isinstance(value, list):
                value = "; ".join(map(str, value))
            elif isinstance(value, float):
                value = f"{value:.3g}"
            rows.append(
                f"<tr><th>{html.escape(field.name)}</th><td>{html.escape(str(value))}</td></tr>"
            )
        return f"<table>{''.join(rows)}</table>"


def inform(raw: RawInform) -> Inform:
    """The report, from that of the extension module."""
    fields = json.loads(raw.json())
    fields["seconds"] = Seconds(**fields["seconds"])
    warnings = []
    for warning, message in zip(fields["warnings"], raw.messages()):
        # One without fields is a string.
        (kind, of_kind), *_ = warning.items() if isinstance(warning, dict) else [(warning, {})]
        warnings.append(Warning(kind, message, of_kind))
    fields["warnings"] = warnings
    return Inform(**fields)
