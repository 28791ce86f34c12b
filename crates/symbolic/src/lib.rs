//! Symbolic LU factorization: exact filled patterns on the GPU and the CPU.
