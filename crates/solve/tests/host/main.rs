//! Solves and measures on the CPU. One program, which is built sooner than one a file.

mod complex;
mod cpu;
mod measures;
