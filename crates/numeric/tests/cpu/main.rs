//! Numeric factorization on the CPU. One program, because each instantiates both engines.

mod blocks;
mod changed;
mod columns;
mod complex;
mod reference;
