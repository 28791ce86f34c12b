//! Column dependencies and level sets of an LU factorization.
