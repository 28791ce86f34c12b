//! Triangular solves, iterative refinement and error measures.
