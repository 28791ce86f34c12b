//! Numeric LU factorization on the GPU and the CPU.
