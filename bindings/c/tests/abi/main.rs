//! Tests of the exported functions, called as C calls them.

mod complex;
#[cfg(feature = "gpu")]
mod device;
mod errors;
mod options;
mod phases;
mod random_calls;
mod support;
mod threads;
