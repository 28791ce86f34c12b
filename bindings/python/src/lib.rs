//! The extension module `luge._luge`: what the Python package `luge` calls.
//!
//! It is private to the package. The Python side converts arguments to contiguous arrays of the types that are expected here;
//! this side checks lengths, runs the solver with the interpreter detached, and turns errors into exceptions.

mod arrays;
mod batch;
mod device;
mod dlpack;
mod errors;
mod factors;
mod options;
mod progress;
mod scalar;
mod solver;

use pyo3::pymodule;

/// The module.
#[pymodule]
mod _luge {
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::device::DeviceArray;
    #[pymodule_export]
    use super::dlpack::DlpackArray;
    #[pymodule_export]
    use super::factors::PyFactors;
    #[pymodule_export]
    use super::solver::{PyAnalysis, PySolver, RawInform};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
