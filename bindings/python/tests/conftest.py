"""Holds SciPy's tests against the list of those that do not apply."""

import pytest
from scipy_exceptions import DIFFERENT, OTHER_FUNCTIONS


def pytest_configure(config):
    # SciPy's marks, of several versions. Slow tests take seconds, and are run here.
    for mark in ("slow", "timeout", "parallel_threads", "thread_unsafe", "xslow"):
        config.addinivalue_line("markers", f"{mark}: SciPy's")


def pytest_collection_modifyitems(config, items):
    """Deselects what tests other functions than luge's, and expects the failures that are listed."""
    theirs = [item for item in items if item.path.name == "test_scipy.py"]
    left_out = [item for item in theirs if any(name in item.nodeid for name in OTHER_FUNCTIONS)]
    unused = [name for name in OTHER_FUNCTIONS if not any(name in item.nodeid for item in theirs)]
    for item in theirs:
        name = item.nodeid.partition("::")[2].partition("[")[0]
        different = DIFFERENT.get(name)
        if different is not None:
            exception, reason = different
            item.add_marker(pytest.mark.xfail(raises=exception, reason=reason, strict=True))
    # Only if all of them were asked for.
    if unused and len(theirs) > 100:
        raise pytest.UsageError(f"scipy_exceptions.py lists what is not there: {', '.join(unused)}")
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
