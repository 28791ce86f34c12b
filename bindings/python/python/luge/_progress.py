"""Progress of calls that last: bars of tqdm, or a function of the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def callback(progress: Any) -> Iterator[Callable[[str, int, int], object] | None]:
    """What the extension module calls with a phase, what is done of it, and how much there is of that.

    Args:
        progress: ``None`` or ``False`` for nothing, ``True`` for bars, or a function.

    Raises:
        ImportError: There is no tqdm for the bars.
        TypeError: It is none of these.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        bars = _Bars()
        try:
            yield bars
        finally:
            bars.close()
    elif callable(progress):
        yield progress
    else:
        raise TypeError(f"progress is {progress!r}; it must be True, False or a function of phase, done and total")


class _Bars:
    """A bar for each phase, one after another."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise ImportError("progress=True draws its bars with tqdm: pip install tqdm, or pass a function") from error
        self._make = tqdm
        self._phase: str | None = None
        self._bar: Any = None

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase != self._phase:
            self.close()
            self._phase, self._bar = phase, self._make(desc=phase, leave=False)
        if total > 0:
            self._bar.total, self._bar.n = total, done
        self._bar.refresh()

    def close(self) -> None:
        """Clears the bar that is there."""
        if self._bar is not None:
            self._bar.close()
        self._phase = self._bar = None
