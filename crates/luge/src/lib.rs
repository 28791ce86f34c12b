//! Sparse direct solver whose whole pipeline runs on NVIDIA GPUs, and on CPUs without one.
