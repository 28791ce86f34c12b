//! Options of the solver from keyword arguments, with the names of [`luge::Options`] and [`luge::ordering::OrderingOptions`].

use luge::ordering::{Matching, Method, OrderingOptions};
use luge::{
    BackendChoice, ColPerm, CpuEngine, DeviceEngine, FactorPrecision, MatrixKind, Options,
    Pivoting, Regularization, ResidualCheck, RowPerm, SingularAction, SymmetricPivoting,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// The options that the keywords say; what none says is the default.
pub(crate) fn options(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::default();
    let Some(keywords) = keywords else {
        return Ok(options);
    };
    for (name, value) in keywords {
        let name: String = name.extract()?;
        options = set(options, &name, &value).map_err(|error| named(&name, error, &value))?;
    }
    Ok(options)
}

/// A value of the wrong type is refused with the name of its keyword.
fn named(name: &str, error: PyErr, value: &Bound<'_, PyAny>) -> PyErr {
    let py = value.py();
    if error.is_instance_of::<PyTypeError>(py) && !error.to_string().contains(name) {
        return PyTypeError::new_err(format!("{name}: {}", error.value(py)));
    }
    error
}

fn set(options: Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Options> {
    Ok(match name {
        "backend" => options.backend(backend(value)?),
        "kind" => options.kind(one_of(
            name,
            value,
            &[
                ("general", MatrixKind::General),
                ("symmetric", MatrixKind::Symmetric),
                ("hermitian", MatrixKind::Hermitian),
                ("positive_definite", MatrixKind::PositiveDefinite),
                ("auto", MatrixKind::Auto),
            ],
        )?),
        "singular" => options.singular(one_of(
            name,
            value,
            &[
                ("refuse", SingularAction::Refuse),
                ("continue", SingularAction::Continue),
            ],
        )?),
        "regularization" => options.regularization(regularization(value)?),
        "factorizations" => options.factorizations(value.extract::<Option<f64>>()?),
        "pivoting" => options.pivoting(pivoting(value)?),
        "symmetric_pivoting" => options.symmetric_pivoting(one_of(
            name,
            value,
            &[
                ("blocks", SymmetricPivoting::Blocks),
                ("blocks_alone", SymmetricPivoting::BlocksAlone),
                ("columns", SymmetricPivoting::Columns),
            ],
        )?),
        "max_delays" => options.max_delays(value.extract::<Option<u32>>()?),
        "engine" => options.engine(one_of(
            name,
            value,
            &[
                ("auto", CpuEngine::Auto),
                ("columns", CpuEngine::Columns),
                ("fronts", CpuEngine::Fronts),
            ],
        )?),
        "device_engine" => options.device_engine(one_of(
            name,
            value,
            &[
                ("auto", DeviceEngine::Auto),
                ("columns", DeviceEngine::Columns),
                ("tree", DeviceEngine::Tree),
            ],
        )?),
        "threads" => options.threads(value.extract::<Option<usize>>()?),
        "perturbation" => options.perturbation(value.extract::<Option<f64>>()?),
        "precision" => options.precision(one_of(
            name,
            value,
            &[
                ("matrix", FactorPrecision::Matrix),
                ("single", FactorPrecision::Single),
            ],
        )?),
        "max_refinement_steps" => options.max_refinement_steps(value.extract::<usize>()?),
        "target_backward_error" => options.target_backward_error(value.extract::<Option<f64>>()?),
        "max_growth" => options.max_growth(value.extract::<f64>()?),
        "residual_check" => options.residual_check(one_of(
            name,
            value,
            &[
                ("always", ResidualCheck::Always),
                ("where_in_doubt", ResidualCheck::WhereInDoubt),
                ("never", ResidualCheck::Never),
            ],
        )?),
        "estimate_condition" => options.estimate_condition(value.extract::<bool>()?),
        "max_host_bytes" => options.max_host_bytes(value.extract::<Option<u64>>()?),
        "max_device_bytes" => options.max_device_bytes(value.extract::<Option<u64>>()?),
        _ => {
            let ordering = of_ordering(options.ordering.clone(), name, value)?;
            options.ordering(ordering)
        }
    })
}

fn of_ordering(
    ordering: OrderingOptions,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<OrderingOptions> {
    Ok(match name {
        "ordering" => ordering.method(method(value)?),
        "matching" => ordering.matching(one_of(
            name,
            value,
            &[
                ("auto", Matching::Auto),
                ("always", Matching::Always),
                ("never", Matching::Never),
            ],
        )?),
        "scaling" => ordering.scaling(value.extract::<bool>()?),
        "averaged" => ordering.averaged(value.extract::<bool>()?),
        "block_triangular" => ordering.block_triangular(value.extract::<bool>()?),
        "diagonal_threshold" => ordering.diagonal_threshold(value.extract::<f64>()?),
        _ => {
            return Err(PyTypeError::new_err(format!(
                "unexpected keyword argument '{name}': it is no option of luge.Solver"
            )));
        }
    })
}

/// The choice of this name.
fn one_of<T: Copy>(name: &str, value: &Bound<'_, PyAny>, choices: &[(&str, T)]) -> PyResult<T> {
    let word: String = value.extract()?;
    let found = choices.iter().find(|(choice, _)| *choice == word);
    found.map(|&(_, choice)| choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
        no_choice(name, &word, &names)
    })
}

fn no_choice(name: &str, word: &str, names: &[&str]) -> PyErr {
    PyValueError::new_err(format!(
        "{name} is '{word}'; it must be one of '{}'",
        names.join("', '")
    ))
}

fn backend(value: &Bound<'_, PyAny>) -> PyResult<BackendChoice> {
    let word: String = value.extract()?;
    if let Some(ordinal) = word.strip_prefix("gpu:").and_then(|at| at.parse().ok()) {
        return Ok(BackendChoice::Gpu { ordinal });
    }
    match &*word {
        "auto" => Ok(BackendChoice::Auto),
        "cpu" => Ok(BackendChoice::Cpu),
        "gpu" => Ok(BackendChoice::Gpu { ordinal: 0 }),
        _ => Err(no_choice(
            "backend",
            &word,
            &["auto", "cpu", "gpu", "gpu:1"],
        )),
    }
}

fn pivoting(value: &Bound<'_, PyAny>) -> PyResult<Pivoting> {
    if !value.is_instance_of::<PyString>() {
        let threshold = value.extract()?;
        return Ok(Pivoting::Threshold { threshold });
    }
    match &*value.extract::<String>()? {
        "auto" => Ok(Pivoting::Auto),
        "static" => Ok(Pivoting::Static),
        word => Err(PyValueError::new_err(format!(
            "pivoting is '{word}'; it must be 'auto', 'static' or a threshold from 0 to 1"
        ))),
    }
}

fn method(value: &Bound<'_, PyAny>) -> PyResult<Method> {
    if !value.is_instance_of::<PyString>() {
        let (rows, cols): (Vec<u32>, Vec<u32>) = value.extract()?;
        let no_permutation = |error| PyValueError::new_err(format!("ordering: {error}"));
        return Ok(Method::User {
            rows: RowPerm::new(rows).map_err(no_permutation)?,
            cols: ColPerm::new(cols).map_err(no_permutation)?,
        });
    }
    let word: String = value.extract()?;
    match &*word {
        "auto" => Ok(Method::Auto),
        "amd" => Ok(Method::Amd),
        "colamd" => Ok(Method::Colamd),
        "nested_dissection" => Ok(Method::NestedDissection),
        "natural" => Ok(Method::Natural),
        _ => {
            let names = ["auto", "amd", "colamd", "nested_dissection", "natural"];
            Err(no_choice("ordering", &word, &names))
        }
    }
}

/// `(signs, delta)` or `(signs, delta, below)`.
fn regularization(value: &Bound<'_, PyAny>) -> PyResult<Option<Regularization>> {
    if value.is_none() {
        return Ok(None);
    }
    if let Ok((signs, delta)) = value.extract::<(Vec<i8>, f64)>() {
        return Ok(Some(Regularization::new(signs, delta)));
    }
    let (signs, delta, below): (Vec<i8>, f64, f64) = value.extract().map_err(|_| {
        PyTypeError::new_err(
            "regularization must be (signs, delta) or (signs, delta, below), with a sign for each column",
        )
    })?;
    Ok(Some(Regularization::new(signs, delta).below(below)))
}
