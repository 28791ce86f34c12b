//! The GPU kernels of Luge, and the PTX generated from them.
