//! Option modes of the campaign.

use luge::ordering::{Matching, Method, OrderingOptions};
use luge::{
    BackendChoice, CpuEngine, DeviceEngine, FactorPrecision, MatrixKind, Options, Pivoting,
    ResidualCheck,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::Backend;

/// Option sets on a device: on a GPU, where a solver takes long to make: they are kept.
const GPU_MODES: u64 = 64;

/// The number of a set of options, drawn for a step.
pub fn draw(rng: &mut StdRng, backend: Backend) -> u64 {
    match backend {
        Backend::Cpu => rng.random(),
        // The same, so that a step that fails on a GPU can be looked at on the simulator.
        Backend::Simulator | Backend::Gpu => rng.random_range(0..GPU_MODES),
    }
}

/// The options of a number. Two in five are the defaults, but for engines and threads.
pub fn options(number: u64, backend: Backend) -> Options {
    let mut rng = StdRng::seed_from_u64(number);
    let rng = &mut rng;
    let mut options = Options::default()
        .backend(match backend {
            Backend::Cpu => BackendChoice::Cpu,
            Backend::Simulator => BackendChoice::Simulator { seed: number },
            Backend::Gpu => BackendChoice::Gpu { ordinal: 0 },
        })
        .engine(of(
            rng,
            &[CpuEngine::Auto, CpuEngine::Columns, CpuEngine::Fronts],
        ))
        .device_engine(of(rng, &[DeviceEngine::Tree, DeviceEngine::Columns]))
        .threads(of(
            rng,
            &[Some(1), Some(1), Some(1), Some(2), Some(3), None],
        ));
    if rng.random_bool(0.4) {
        return options;
    }
    options.pivoting = of(
        rng,
        &[
            Pivoting::Auto,
            Pivoting::Auto,
            Pivoting::Static,
            Pivoting::Threshold { threshold: 1.0 },
            Pivoting::Threshold { threshold: 0.1 },
            Pivoting::Threshold { threshold: 0.01 },
        ],
    );
    options.precision = of(
        rng,
        &[
            FactorPrecision::Matrix,
            FactorPrecision::Matrix,
            FactorPrecision::Single,
        ],
    );
    options.ordering = OrderingOptions::default()
        .scaling(rng.random_bool(0.75))
        .matching(of(
            rng,
            &[Matching::Auto, Matching::Never, Matching::Always],
        ))
        .block_triangular(rng.random_bool(0.75))
        .method(of(
            rng,
            &[
                Method::Auto,
                Method::Auto,
                Method::Amd,
                Method::Colamd,
                Method::NestedDissection,
                Method::Natural,
            ],
        ));
    options.max_refinement_steps = of(rng, &[10, 10, 1, 0]);
    options.residual_check = of(
        rng,
        &[
            ResidualCheck::Always,
            ResidualCheck::Always,
            ResidualCheck::WhereInDoubt,
            ResidualCheck::Never,
        ],
    );
    options.estimate_condition = rng.random_bool(0.2);
    options.perturbation = of(rng, &[None, None, None, Some(1e-8), Some(1e-3)]);
    options
}

/// The options for a symmetric matrix: those that go with it, and what is said of it.
pub fn for_symmetric(mut options: Options, rng: &mut StdRng) -> Options {
    options.kind = of(
        rng,
        &[
            MatrixKind::Symmetric,
            MatrixKind::Symmetric,
            MatrixKind::Symmetric,
            MatrixKind::Auto,
        ],
    );
    options.engine = CpuEngine::Auto;
    options.device_engine = DeviceEngine::Tree;
    options.pivoting = match options.pivoting {
        Pivoting::Threshold { threshold } => Pivoting::Threshold {
            threshold: threshold.min(0.5),
        },
        Pivoting::Auto | Pivoting::Static => Pivoting::Auto,
    };
    if options.ordering.method == Method::Colamd {
        options.ordering.method = Method::Auto;
    }
    options
}

fn of<V: Clone>(rng: &mut StdRng, values: &[V]) -> V {
    values
        .choose(rng)
        .unwrap_or_else(|| unreachable!("there are some"))
        .clone()
}

/// Whether pivots are searched and rows and columns scaled, so that only a singular matrix may be refused.
pub fn searches_and_scales(options: &Options) -> bool {
    options.pivoting != Pivoting::Static && options.ordering.scaling
}

/// The group of modes that failures are told apart by.
pub fn group(options: &Options, backend: Backend) -> &'static str {
    let on_columns = backend != Backend::Cpu && options.device_engine == DeviceEngine::Columns;
    match (
        options.pivoting == Pivoting::Static,
        options.ordering.scaling,
    ) {
        (true, true) => "static",
        (_, false) => "unscaled",
        _ if options.precision == FactorPrecision::Single && options.max_refinement_steps < 10 => {
            "searched, single, few steps"
        }
        _ if options.precision == FactorPrecision::Single => "searched, single",
        _ if on_columns => "searched, columns",
        _ => "searched",
    }
}

/// What of the options differs from the defaults.
pub fn describe(options: &Options) -> String {
    let ordering = &options.ordering;
    format!(
        "kind {:?}, pivoting {:?}, precision {:?}, engine {:?}, device engine {:?}, scaling {}, matching {:?}, blocks {}, \
         method {:?}, refinement steps {}, residual check {:?}, condition {}, perturbation {:?}, threads {:?}",
        options.kind,
        options.pivoting,
        options.precision,
        options.engine,
        options.device_engine,
        ordering.scaling,
        ordering.matching,
        ordering.block_triangular,
        ordering.method,
        options.max_refinement_steps,
        options.residual_check,
        options.estimate_condition,
        options.perturbation,
        options.threads,
    )
}
