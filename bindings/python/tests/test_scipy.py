"""SciPy's own tests of splu, spsolve and factorized, with luge in their place.

The installed file is imported, the three functions are replaced in its namespace, and its tests are collected here. What of it
does not apply is listed in `scipy_exceptions.py` with the reason; `conftest.py` holds each reason against what happens.
"""

import importlib

import luge

theirs = importlib.import_module("scipy.sparse.linalg._dsolve.tests.test_linsolve")

for name in ("splu", "spsolve", "factorized"):
    assert hasattr(theirs, name), f"SciPy's tests do not use {name} by that name any more"
    setattr(theirs, name, getattr(luge, name))

globals().update(
    {name: value for name, value in vars(theirs).items() if name.startswith(("Test", "test_"))}
)
