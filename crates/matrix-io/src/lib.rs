//! Matrix Market reader and writer of the Luge sparse solver.
