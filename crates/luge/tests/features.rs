//! What is not part of the program is refused by its name.

use luge::{BackendChoice, Error, Options, Solver};
use sprs::CsMat;

fn solver(backend: BackendChoice) -> Result<Solver, Error> {
    Solver::new(Options::default().backend(backend))
}

/// The feature that is missing, if one is.
fn missing(backend: BackendChoice) -> Option<&'static str> {
    match solver(backend) {
        Err(Error::FeatureOff { feature }) => Some(feature),
        Ok(_) | Err(_) => None,
    }
}

#[test]
fn a_device_that_is_not_built_in_is_refused_by_its_feature() {
    let gpu = missing(BackendChoice::Gpu { ordinal: 0 });
    assert_eq!(gpu, (!cfg!(feature = "gpu")).then_some("gpu"));
    let simulator = missing(BackendChoice::Simulator { seed: 1 });
    let is_off = !cfg!(feature = "simulator");
    assert_eq!(simulator, is_off.then_some("simulator"));
    assert_eq!(missing(BackendChoice::Cpu), None);
}

#[cfg(not(feature = "gpu"))]
#[test]
fn without_gpus_the_automatic_choice_is_the_cpu_and_nothing_is_missed() {
    let a = CsMat::<f64>::eye(3);
    let solver = solver(BackendChoice::Auto).unwrap();
    let factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
    assert_eq!(factors.inform().backend, "cpu");
    assert!(factors.inform().warnings.is_empty());
    assert_eq!(factors.solve(&[1.0, 2.0, 3.0]).unwrap().x, [1.0, 2.0, 3.0]);
}

#[test]
fn an_ordering_that_is_not_built_in_is_refused_by_its_feature() {
    let a = CsMat::<f64>::eye(3).map(|v| 2.0 * v);
    let mut options = Options::default().backend(BackendChoice::Cpu);
    options.ordering.method = luge::ordering::Method::Metis;
    options.ordering.block_triangular = false;
    let refused = Solver::new(options).unwrap().analyze(&a).err();
    let told = refused.map(|error| error.to_string());
    let is_refused = told.is_some_and(|told| told.contains("feature `metis`"));
    assert_eq!(is_refused, cfg!(not(feature = "metis")));
}
