//! Sparse factorization in an assembly tree of dense fronts.
