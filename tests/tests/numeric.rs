//! The numeric kernels and the phase built on them against the reference, on every device.

use luge_device::{LaunchConfig, Stream};
use luge_gpu_kernels::numeric::{self as kernels, counter, extreme};
use luge_levelize::gpu::DeviceLevels;
use luge_numeric::gpu::{DeviceScalar, factorize, positions, refactorize};
use luge_numeric::{NumericError, TinyPivots};
use luge_reference::numeric::{SparseLu, lu_right_looking};
use luge_sparse::{CancelFlag, CompressedPattern, FilledPattern, Levels, Scalar};
use luge_symbolic::cpu::filled_pattern;
use luge_symbolic::gpu::DeviceFilled;
use luge_testkit::compare::assert_close;
use luge_testkit::convert::{matrix_of, pattern_of};
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::residual::{assert_factor_error, error_bound};
use luge_testkit::strategies::dominant_matrices;

mod chain;
use chain::{dominated, on_each, ordered_corpus, seeded_streams, streams};

/// B with what the earlier phases found of it, on the host and on the device.
struct Problem<T> {
    rows: CompressedPattern,
    values: Vec<T>,
    filled: FilledPattern,
    on_device: DeviceFilled,
    levels: DeviceLevels,
}

impl<T: Scalar> Problem<T> {
    fn new(stream: &Stream, rows: CompressedPattern, values: &[f64]) -> Self {
        let filled = filled_pattern(&rows).unwrap();
        let levels = luge_levelize::cpu::levels(&filled);
        Self {
            values: values.iter().map(|&v| T::from_f64(v)).collect(),
            on_device: DeviceFilled::upload(stream, &filled).unwrap(),
            levels: DeviceLevels::upload(stream, &levels).unwrap(),
            rows,
            filled,
        }
    }

    fn dense(stream: &Stream, n: usize, values: &[f64]) -> Self {
        let ptr = (0..=n).map(|i| (i * n) as u64).collect();
        let idx = (0..n * n).map(|p| (p % n) as u32).collect();
        Self::new(stream, CompressedPattern::new(n, ptr, idx).unwrap(), values)
    }

    fn max(&self) -> f64 {
        self.values
            .iter()
            .fold(0.0, |max, v| f64::max(max, v.abs().to_f64()))
    }
}

/// B stable without pivoting: small sizes, the extremes of fill, and models of use.
fn named_matrices() -> Vec<(&'static str, CompressedPattern, Vec<f64>)> {
    let diagonal = |n: usize| {
        let ptr = (0..=n as u64).collect();
        let pattern = CompressedPattern::new(n, ptr, (0..n as u32).collect()).unwrap();
        let values = (0..n).map(|i| 1.0 + i as f64).collect();
        (pattern, values)
    };
    let mut named = Vec::new();
    for (name, n) in [
        ("one entry", 1),
        ("diagonal of 31", 31),
        ("diagonal of 32", 32),
        ("diagonal of 33", 33),
        ("diagonal of 1025", 1025),
    ] {
        let (pattern, values) = diagonal(n);
        named.push((name, pattern, values));
    }
    for (name, a) in [
        ("dense", arrow(33, ArrowHead::First)),
        ("arrow", arrow(100, ArrowHead::Last)),
        ("grid", convection_diffusion_2d(9, 8, 1.0)),
    ] {
        named.push((name, pattern_of(&a), a.data().to_vec()));
    }
    let (pattern, values) = dominated(&pattern_of(&circuit(90, 1)));
    named.push(("circuit", pattern, values));
    named
}

fn expect<T: Scalar>(problem: &Problem<T>, threshold: f64) -> SparseLu<T> {
    lu_right_looking(&problem.filled, &problem.rows, &problem.values, threshold).unwrap()
}

/// Two ways of rounding the same sums of a well-conditioned elimination.
fn tolerance<T: Scalar>(n: usize) -> f64 {
    error_bound::<T>(n)
}

fn scattered<T: DeviceScalar>(stream: &Stream, problem: &Problem<T>) -> luge_device::Buffer<T> {
    let places = positions(stream, &problem.on_device, &problem.rows).unwrap();
    let b = stream.upload(&problem.values).unwrap();
    let mut lu = stream.alloc_zeroed::<T>(problem.filled.nnz()).unwrap();
    // SAFETY: the positions are distinct and `lu` is zero.
    unsafe {
        kernels::scatter_values::launch::<T, _>(
            stream,
            &LaunchConfig::linear(2, 64),
            &places,
            &b,
            &mut lu,
        )
    }
    .unwrap();
    lu
}

fn check_scatter<T: DeviceScalar>(stream: &Stream) {
    for (_, rows, values) in named_matrices() {
        let problem = Problem::<T>::new(stream, rows, &values);
        let lu = stream.download(&scattered(stream, &problem)).unwrap();
        let columns = problem.filled.rows().transpose();
        for j in 0..problem.filled.n() {
            for p in columns.range(j) {
                let i = columns.idx()[p] as usize;
                let entry = problem
                    .rows
                    .range(i)
                    .find(|&q| problem.rows.idx()[q] as usize == j);
                let expected = entry.map_or(T::zero(), |q| problem.values[q]);
                assert_eq!(lu[p], expected);
            }
        }
    }
}

#[test]
fn scatter_values_matches_reference() {
    for stream in streams() {
        check_scatter::<f32>(&stream);
        check_scatter::<f64>(&stream);
    }
}

/// U, and L times its pivots, by [`kernels::lu_levels`].
fn eliminated<T: DeviceScalar>(
    stream: &Stream,
    problem: &Problem<T>,
    smallest: T,
    grid: u32,
    threads: u32,
) -> luge_device::Buffer<T> {
    let mut lu = scattered(stream, problem);
    let mut barrier = stream.alloc_zeroed::<u32>(1).unwrap();
    // SAFETY: patterns and levels belong to each other; the launch is cooperative.
    unsafe {
        kernels::lu_levels::launch::<T, _>(
            stream,
            &LaunchConfig::linear(grid, threads).cooperative(),
            problem.levels.num_levels(),
            smallest,
            problem.levels.level_ptr(),
            problem.levels.level_cols(),
            problem.on_device.row_ptr(),
            problem.on_device.diag_pos(),
            problem.on_device.col_idx(),
            problem.on_device.csr_to_csc(),
            problem.on_device.col_ptr(),
            problem.on_device.row_idx(),
            &mut lu,
            &mut barrier,
        )
    }
    .unwrap();
    lu
}

fn check_levels<T: DeviceScalar>(stream: &Stream, rows: &CompressedPattern, values: &[f64]) {
    let problem = Problem::<T>::new(stream, rows.clone(), values);
    let mut expected = expect(&problem, 0.0);
    for j in 0..expected.n() {
        let pivot = expected.pivot(j);
        for p in expected.below(j) {
            expected.values[p] *= pivot;
        }
    }
    for (grid, threads) in [(1, 32), (2, 96), (4, 32)] {
        let lu = eliminated(stream, &problem, T::zero(), grid, threads);
        let lu = stream.download(&lu).unwrap();
        assert_close(&lu, &expected.values, tolerance::<T>(expected.n()));
    }
}

#[test]
fn lu_levels_matches_reference() {
    for stream in streams() {
        for (name, rows, values) in named_matrices() {
            eprintln!("{name}");
            check_levels::<f32>(&stream, &rows, &values);
            check_levels::<f64>(&stream, &rows, &values);
        }
    }
    on_each(20, &dominant_matrices(24), |stream, a| {
        if a.rows() > 0 {
            check_levels::<f64>(stream, &pattern_of(&a), a.data());
        }
    });
}

/// Finishes a given elimination: L divided, pivots replaced, everything counted.
fn check_finish<T: DeviceScalar>(stream: &Stream, rows: &CompressedPattern, values: &[f64]) {
    let problem = Problem::<T>::new(stream, rows.clone(), values);
    // Some pivots are replaced.
    let threshold = 0.3;
    let expected = expect(&problem, threshold);
    let smallest = <T as Scalar>::from_f64(threshold * problem.max());
    let mut lu = eliminated(stream, &problem, smallest, 2, 64);
    let mut counters = [u32::MAX; counter::LEN];
    counters[counter::NUM_PERTURBED] = 0;
    let mut counters = stream.upload(&counters).unwrap();
    let mut extremes = [0u64; extreme::LEN];
    extremes[extreme::MIN_PIVOT] = f64::INFINITY.to_bits();
    let mut extremes = stream.upload(&extremes).unwrap();
    // SAFETY: the patterns belong to the values; counters and extremes are at their start.
    unsafe {
        kernels::lu_finish::launch::<T, _>(
            stream,
            &LaunchConfig::linear(2, 64),
            smallest,
            problem.on_device.diag_pos(),
            problem.on_device.csr_to_csc(),
            problem.on_device.col_ptr(),
            &mut lu,
            &mut counters,
            &mut extremes,
        )
    }
    .unwrap();
    let lu = stream.download(&lu).unwrap();
    assert_close(&lu, &expected.values, tolerance::<T>(expected.n()));
    let counters = stream.download(&counters).unwrap();
    let first = expected.perturbed.first().map_or(u32::MAX, |&k| k);
    assert_eq!(
        counters,
        [expected.perturbed.len() as u32, first, u32::MAX, u32::MAX]
    );
    // Against the values that came back, so exactly.
    let size = |v: T| Scalar::to_f64(v).abs();
    let columns = problem.filled.rows().transpose();
    let mut reported = [0.0f64, f64::INFINITY, 0.0];
    for j in 0..columns.major_dim() {
        for p in columns.range(j) {
            let i = columns.idx()[p] as usize;
            if i <= j {
                reported[extreme::MAX_U] = reported[extreme::MAX_U].max(size(lu[p]));
            }
            if i == j {
                reported[extreme::MIN_PIVOT] = reported[extreme::MIN_PIVOT].min(size(lu[p]));
                reported[extreme::MAX_PIVOT] = reported[extreme::MAX_PIVOT].max(size(lu[p]));
            }
        }
    }
    let extremes = stream.download(&extremes).unwrap();
    assert_eq!(extremes, reported.map(f64::to_bits));
}

#[test]
fn lu_finish_matches_reference() {
    for stream in streams() {
        for (_, rows, values) in named_matrices() {
            check_finish::<f32>(&stream, &rows, &values);
            check_finish::<f64>(&stream, &rows, &values);
        }
    }
}

fn check_phase<T: DeviceScalar>(stream: &Stream, rows: &CompressedPattern, values: &[f64]) {
    let problem = Problem::<T>::new(stream, rows.clone(), values);
    let expected = expect(&problem, 0.0);
    let places = positions(stream, &problem.on_device, rows).unwrap();
    let run = |values: &[T]| {
        factorize(
            stream,
            &problem.on_device,
            &problem.levels,
            &places,
            values,
            TinyPivots::Keep,
            &CancelFlag::new(),
        )
        .unwrap()
    };
    let factors = run(&problem.values);
    let lu = stream.download(factors.values()).unwrap();
    let n = expected.n();
    assert_close(&lu, &expected.values, tolerance::<T>(n));
    let b = matrix_of(rows, problem.values.clone());
    assert_factor_error(&b, &expected.cols, &lu);
    let pivots = factors.pivots();
    assert_eq!((pivots.num_perturbed, pivots.first_perturbed), (0, None));
    if n > 0 {
        let growth = expected.growth(<T as Scalar>::from_f64(problem.max()));
        assert!((pivots.growth / growth - 1.0).abs() <= tolerance::<T>(n));
    } else {
        assert_eq!(pivots.growth, 1.0);
    }

    // The same memory again with other values, and back.
    let doubled: Vec<T> = problem.values.iter().map(|&v| v + v).collect();
    let other = refactorize(
        stream,
        &problem.on_device,
        &problem.levels,
        &places,
        &doubled,
        TinyPivots::Keep,
        &CancelFlag::new(),
        factors,
    )
    .unwrap();
    let lu = stream.download(other.values()).unwrap();
    assert_factor_error(&matrix_of(rows, doubled), &expected.cols, &lu);
}

#[test]
fn factorize_phase_matches_reference() {
    for stream in streams() {
        for (name, rows, values) in named_matrices() {
            eprintln!("{name}");
            check_phase::<f32>(&stream, &rows, &values);
            check_phase::<f64>(&stream, &rows, &values);
        }
    }
    on_each(12, &dominant_matrices(24), |stream, a| {
        check_phase::<f64>(stream, &pattern_of(&a), a.data());
    });
}

fn factorize_dense<T: DeviceScalar>(
    stream: &Stream,
    n: usize,
    values: &[f64],
    tiny_pivots: TinyPivots,
) -> Result<(Vec<T>, luge_numeric::PivotReport), NumericError> {
    let problem = Problem::<T>::dense(stream, n, values);
    let places = positions(stream, &problem.on_device, &problem.rows)?;
    let factors = factorize(
        stream,
        &problem.on_device,
        &problem.levels,
        &places,
        &problem.values,
        tiny_pivots,
        &CancelFlag::new(),
    )?;
    Ok((stream.download(factors.values())?, factors.pivots().clone()))
}

#[test]
fn tiny_pivots_are_replaced_with_their_sign_and_counted() {
    let perturb = TinyPivots::Perturb { threshold: 0.25 };
    for stream in streams() {
        let (lu, pivots) =
            factorize_dense::<f64>(&stream, 2, &[-1e-9, 0.0, 0.0, 4.0], perturb).unwrap();
        assert_eq!(lu, [-1.0, 0.0, 0.0, 4.0]);
        assert_eq!((pivots.num_perturbed, pivots.first_perturbed), (1, Some(0)));
        assert_eq!((pivots.min_pivot, pivots.max_pivot), (1.0, 4.0));
        let (lu, _) = factorize_dense::<f32>(&stream, 2, &[0.0, 4.0, 4.0, 0.0], perturb).unwrap();
        assert_eq!(lu[0], 1.0);
    }
}

#[test]
fn zero_pivots_name_their_column() {
    for stream in streams() {
        let keep = factorize_dense::<f64>(&stream, 2, &[1.0; 4], TinyPivots::Keep);
        assert!(matches!(keep, Err(NumericError::ZeroPivot { column: 1 })));
        let default = TinyPivots::perturb_default::<f64>();
        let zero = factorize_dense::<f64>(&stream, 1, &[0.0], default);
        assert!(matches!(zero, Err(NumericError::ZeroPivot { column: 0 })));
    }
}

#[test]
fn overflow_and_nan_name_their_column() {
    for stream in streams() {
        let values = [1e-30, 1.0, 1e30, 1.0];
        let overflow = factorize_dense::<f32>(&stream, 2, &values, TinyPivots::Keep);
        assert!(matches!(
            overflow,
            Err(NumericError::NotFinite { column: 0 })
        ));
        let values = [1.0, f64::NAN, 1.0, 2.0];
        let nan = factorize_dense::<f64>(&stream, 2, &values, TinyPivots::Keep);
        assert!(matches!(nan, Err(NumericError::NotFinite { column: 1 })));
    }
}

#[test]
#[should_panic(expected = "entry (1, 0) is not in the filled pattern")]
fn an_entry_outside_is_a_broken_call() {
    let stream = &streams()[0];
    let diagonal = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
    let problem = Problem::<f64>::new(stream, diagonal, &[1.0, 1.0]);
    let other = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 0]).unwrap();
    let _ = positions(stream, &problem.on_device, &other);
}

#[test]
fn the_flag_stops_the_phase() {
    let stream = &streams()[0];
    let problem = Problem::<f64>::dense(stream, 1, &[1.0]);
    let places = positions(stream, &problem.on_device, &problem.rows).unwrap();
    let cancel = CancelFlag::new();
    cancel.cancel();
    let stopped = factorize(
        stream,
        &problem.on_device,
        &problem.levels,
        &places,
        &problem.values,
        TinyPivots::Keep,
        &cancel,
    );
    assert!(matches!(stopped, Err(NumericError::Cancelled(_))));
}

#[test]
#[should_panic(expected = "levels and filled pattern differ")]
fn foreign_levels_are_a_broken_call() {
    let stream = &streams()[0];
    let problem = Problem::<f64>::dense(stream, 2, &[1.0, 0.0, 0.0, 1.0]);
    let places = positions(stream, &problem.on_device, &problem.rows).unwrap();
    let levels = DeviceLevels::upload(stream, &Levels::from_level_of(vec![0])).unwrap();
    let _ = factorize(
        stream,
        &problem.on_device,
        &levels,
        &places,
        &problem.values,
        TinyPivots::Keep,
        &CancelFlag::new(),
    );
}

#[test]
fn corpus_factors_match_the_cpu() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    for stream in seeded_streams() {
        for (name, rows) in ordered_corpus(&corpus, &stream) {
            let problem = Problem::<f64>::new(&stream, rows.pattern, &rows.values);
            let places = positions(&stream, &problem.on_device, &problem.rows).unwrap();
            let factors = factorize(
                &stream,
                &problem.on_device,
                &problem.levels,
                &places,
                &problem.values,
                TinyPivots::perturb_default::<f64>(),
                &CancelFlag::new(),
            );
            let pattern = luge_numeric::LuPattern::new(&problem.filled);
            let on_cpu = luge_numeric::cpu::static_pivoting::factorize(
                &pattern,
                &pattern.positions_of(&problem.rows),
                &problem.values,
                TinyPivots::perturb_default::<f64>(),
                &CancelFlag::new(),
            );
            let (factors, on_cpu) = match (factors, on_cpu) {
                (Ok(factors), Ok(on_cpu)) => (factors, on_cpu),
                // Sums by atomics have no fixed order. Where growth leaves no digit of a factor
                // determined, and nears the largest number, one order may overflow and another not.
                (Err(NumericError::NotFinite { .. }), Ok(on_cpu))
                    if on_cpu.pivots.growth > 1e150 =>
                {
                    continue;
                }
                (device, cpu) => panic!("{name}: {device:?}, {cpu:?}"),
            };
            let (device, cpu) = (factors.pivots(), &on_cpu.pivots);
            eprintln!(
                "{name}: {} replaced, growth {:.1e}",
                device.num_perturbed, device.growth
            );
            // Growth carries rounding errors along; without it the factors agree.
            if cpu.num_perturbed == 0 && cpu.growth < 1e3 && cpu.min_pivot > 1e-6 {
                assert_eq!(device.num_perturbed, 0, "{name}");
                let lu = stream.download(factors.values()).unwrap();
                let n = problem.filled.n();
                if n <= 600 {
                    let b = matrix_of(&problem.rows, problem.values.clone());
                    assert_factor_error(&b, pattern.cols(), &lu);
                }
            }
        }
    }
}
