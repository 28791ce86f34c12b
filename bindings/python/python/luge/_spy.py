"""Pictures of sparse matrices."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from luge._arrays import matrix


class Spy:
    """A picture of where a matrix has entries: an SVG, which notebooks show. Made by `spy`."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Any) -> None:
        """Writes it to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


def spy(a: Any, *, cells: int = 128, size: int = 400) -> Spy:
    """Draws where a matrix has entries. The darker a cell, the more of its places are taken.

    Args:
        a: Sparse, of any shape.
        cells: Most cells along the longer side, each for an equal number of rows and columns.
        size: Pixels of the longer side.
    """
    arrays = matrix(a)
    rows, cols = arrays.shape
    # A cell has the same number of rows and columns.
    step = max(1, -(-max(rows, cols, 1) // cells))
    tall, wide = -(-rows // step), -(-cols // step)
    lengths: np.ndarray = np.diff(arrays.indptr.astype(np.int64))
    outer = np.repeat(np.arange(len(lengths)), lengths)
    inner = arrays.indices.astype(np.int64)
    row, col = (inner, outer) if arrays.by_columns else (outer, inner)
    counts = np.bincount(row // step * wide + col // step, minlength=tall * wide)
    taken = np.flatnonzero(counts)
    # A cell with one entry is seen, and a full one is black.
    shade = 0.25 + 0.75 * np.minimum(1.0, counts[taken] / step)
    squares = "".join(
        f'<rect x="{at % wide}" y="{at // wide}" width="1" height="1" opacity="{dark:.2f}"/>'
        for at, dark in zip(taken.tolist(), shade.tolist())
    )
    scale = size / max(tall, wide, 1)
    title = html.escape(f"{rows} by {cols}, {len(inner)} entries")
    return Spy(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide * scale:.0f}" height="{tall * scale:.0f}" '
        f'viewBox="0 0 {wide} {tall}" shape-rendering="crispEdges"><title>{title}</title>'
        f'<rect width="{wide}" height="{tall}" fill="white" stroke="gray" stroke-width="{1 / max(scale, 1):.3f}"/>'
        f'<g fill="black">{squares}</g></svg>'
    )
