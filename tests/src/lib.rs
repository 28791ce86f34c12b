//! Tests of Luge across crates: device against reference, end to end, regressions.
