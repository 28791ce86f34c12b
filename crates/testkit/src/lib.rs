//! Generators, residuals, comparators and the corpus list for Luge's tests and benchmarks.
