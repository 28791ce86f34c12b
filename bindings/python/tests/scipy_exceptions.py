"""The tests of SciPy's `test_linsolve.py` that do not apply to luge, and why.

`conftest.py` deselects those of `OTHER_FUNCTIONS`, which call nothing of luge. Those of `DIFFERENT` run, and must fail with the
exception that is named: one that passes is reported, for then its reason is no longer true.
"""

OTHER_FUNCTIONS = {
    "TestSpsolveTriangular": "spsolve_triangular, which luge has not",
    "TestGstrsErrors": "the private function _superlu.gstrs",
    "test_is_sptriangular_and_spbandwidth": "is_sptriangular and spbandwidth, which luge has not",
    "test_gssv_badinput": "the private function _superlu.gssv",
    "test_spilu_smoketest": "spilu, incomplete factors, which luge has not",
    "test_spilu_drop_rule": "spilu",
    "test_spilu_nnz0": "spilu",
    "test_natural_permc[spilu": "spilu",
    "test_superlu_dlamch_i386_nan": "spilu",
}

DIFFERENT = {
    "TestSplu::test_lu_refcount": (
        AssertionError,
        "perm_r and perm_c of SuperLU share its memory, and so refer to it; those of luge are arrays of their own",
    ),
}
