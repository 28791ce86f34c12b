//! Benchmarks of Luge.
