//! The triangular solves against the reference, on every device.

use luge_device::{Buffer, Device, Stream};
use luge_kernel::math::Complex;
use luge_levelize::gpu::DeviceLevels;
use luge_reference::numeric::{SparseLu, lu_right_looking};
use luge_reference::solve as reference;
use luge_solve::SolveError;
use luge_solve::gpu::{DeviceLu, SolveScalar, solve};
use luge_sparse::{CompressedPattern, PivotPolicy, RealScalar, Scalar};
use luge_symbolic::cpu::filled_pattern;
use luge_symbolic::gpu::DeviceFilled;
use luge_testkit::compare::assert_close;
use luge_testkit::convert::{matrix_of, pattern_of, turned};
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::residual::{assert_backward_error, error_bound, known_solution};
use luge_testkit::strategies::dominant_matrices;

use crate::chain::{dominated, noise, on_each, streams};

/// B, its factors by the reference, and the same on a device.
struct Factored<T: SolveScalar> {
    rows: CompressedPattern,
    values: Vec<T>,
    expected: SparseLu<T>,
    filled: DeviceFilled,
    levels: DeviceLevels,
    on_device: Buffer<T>,
}

impl<T: SolveScalar> Factored<T> {
    fn new(stream: &Stream, rows: CompressedPattern, values: &[f64]) -> Self {
        let values = turned::<T>(&matrix_of(&rows, values.to_vec()))
            .into_raw_storage()
            .2;
        let filled = filled_pattern(&rows).unwrap();
        let levels = luge_levelize::cpu::levels(&filled);
        let expected = lu_right_looking(&filled, &rows, &values, PivotPolicy::STATIC).unwrap();
        Self {
            filled: DeviceFilled::upload(stream, &filled).unwrap(),
            levels: DeviceLevels::upload(stream, &levels).unwrap(),
            on_device: stream.upload(&expected.values).unwrap(),
            rows,
            values,
            expected,
        }
    }

    fn lu(&self) -> DeviceLu<'_, T> {
        DeviceLu {
            filled: &self.filled,
            levels: &self.levels,
            values: &self.on_device,
        }
    }

    fn n(&self) -> usize {
        self.rows.major_dim()
    }

    /// Right-hand sides with components between −1 and 1.
    fn right_hand_sides(&self, nrhs: usize) -> Vec<T> {
        let component = |i| (noise(7, i) >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        let entry = |i| {
            <T as Scalar>::from_components(|at| {
                RealScalar::from_f64(component(i * <T as Scalar>::COMPONENTS + at))
            })
        };
        (0..self.n() * nrhs).map(entry).collect()
    }
}

/// B stable without pivoting: small sizes, the extremes of fill, and models of use.
fn named_matrices() -> Vec<(&'static str, CompressedPattern, Vec<f64>)> {
    let mut named = Vec::new();
    for (name, n) in [
        ("nothing", 0),
        ("one entry", 1),
        ("diagonal of 31", 31),
        ("diagonal of 32", 32),
        ("diagonal of 33", 33),
        ("diagonal of 1025", 1025),
    ] {
        let ptr = (0..=n as u64).collect();
        let pattern = CompressedPattern::new(n, ptr, (0..n as u32).collect()).unwrap();
        named.push((name, pattern, (0..n).map(|i| 1.0 + i as f64).collect()));
    }
    for (name, a) in [
        ("dense", arrow(40, ArrowHead::First)),
        ("arrow", arrow(100, ArrowHead::Last)),
        ("grid", convection_diffusion_2d(9, 8, 1.0)),
    ] {
        named.push((name, pattern_of(&a), a.data().to_vec()));
    }
    let (pattern, values) = dominated(&pattern_of(&circuit(90, 1)));
    named.push(("circuit", pattern, values));
    named
}

type DeviceSweep<T> = fn(&DeviceLu<'_, T>, &Stream, &mut Buffer<T>, u32) -> Result<(), SolveError>;
type ReferenceSweep<T> = fn(&SparseLu<T>, &[T]) -> Vec<T>;

/// One triangle, with 0, 1 and 3 right-hand sides, twice.
fn check_sweep<T: SolveScalar>(
    stream: &Stream,
    factored: &Factored<T>,
    device: DeviceSweep<T>,
    reference: ReferenceSweep<T>,
) {
    let n = factored.n();
    for nrhs in [0usize, 1, 3] {
        let b = factored.right_hand_sides(nrhs);
        let run = || {
            let mut x = stream.upload(&b).unwrap();
            device(&factored.lu(), stream, &mut x, nrhs as u32).unwrap();
            stream.download(&x).unwrap()
        };
        let x = run();
        for (x, b) in x.chunks(n.max(1)).zip(b.chunks(n.max(1))) {
            let expected = reference(&factored.expected, b);
            assert_close(x, &expected, error_bound::<T>(n));
        }
        // Bit for bit the same again: sums are formed in a fixed order.
        assert_eq!(run(), x);
    }
}

fn on_all<T: SolveScalar>(device: DeviceSweep<T>, reference: ReferenceSweep<T>) {
    for stream in streams() {
        for (name, rows, values) in named_matrices() {
            eprintln!("{name}");
            let factored = Factored::<T>::new(&stream, rows, &values);
            check_sweep(&stream, &factored, device, reference);
        }
    }
}

#[test]
fn solve_lower_matches_reference() {
    on_all::<f32>(
        |lu, s, x, nrhs| lu.solve_lower(s, x, nrhs),
        reference::solve_lower,
    );
    on_all::<f64>(
        |lu, s, x, nrhs| lu.solve_lower(s, x, nrhs),
        reference::solve_lower,
    );
    on_all::<Complex<f64>>(
        |lu, s, x, nrhs| lu.solve_lower(s, x, nrhs),
        reference::solve_lower,
    );
}

#[test]
fn solve_upper_matches_reference() {
    on_all::<f32>(
        |lu, s, x, nrhs| lu.solve_upper(s, x, nrhs),
        reference::solve_upper,
    );
    on_all::<f64>(
        |lu, s, x, nrhs| lu.solve_upper(s, x, nrhs),
        reference::solve_upper,
    );
    on_all::<Complex<f64>>(
        |lu, s, x, nrhs| lu.solve_upper(s, x, nrhs),
        reference::solve_upper,
    );
}

#[test]
fn solve_upper_transpose_matches_reference() {
    on_all::<f32>(
        |lu, s, x, nrhs| lu.solve_upper_transpose(s, x, nrhs),
        reference::solve_upper_transpose,
    );
    on_all::<f64>(
        |lu, s, x, nrhs| lu.solve_upper_transpose(s, x, nrhs),
        reference::solve_upper_transpose,
    );
    on_all::<Complex<f64>>(
        |lu, s, x, nrhs| lu.solve_upper_transpose(s, x, nrhs),
        reference::solve_upper_transpose,
    );
}

#[test]
fn solve_lower_transpose_matches_reference() {
    on_all::<f32>(
        |lu, s, x, nrhs| lu.solve_lower_transpose(s, x, nrhs),
        reference::solve_lower_transpose,
    );
    on_all::<f64>(
        |lu, s, x, nrhs| lu.solve_lower_transpose(s, x, nrhs),
        reference::solve_lower_transpose,
    );
    on_all::<Complex<f64>>(
        |lu, s, x, nrhs| lu.solve_lower_transpose(s, x, nrhs),
        reference::solve_lower_transpose,
    );
}

fn check_solve<T: SolveScalar>(stream: &Stream, rows: CompressedPattern, values: &[f64]) {
    let factored = Factored::<T>::new(stream, rows, values);
    let n = factored.n();
    let b = matrix_of(&factored.rows, factored.values.clone());
    let (rhs, _) = known_solution(&b);
    // Two right-hand sides, the second twice the first.
    let mut x: Vec<T> = rhs
        .iter()
        .copied()
        .chain(rhs.iter().map(|&v| v + v))
        .collect();
    solve(stream, factored.lu(), &mut x, 2, false).unwrap();
    let (first, second) = x.split_at(n);
    assert_backward_error(&b, first, &rhs);
    assert!(first.iter().zip(second).all(|(&x, &y)| x + x == y));

    let transposed = b.transpose_view().to_csr();
    let (rhs, _) = known_solution(&transposed);
    let mut x = rhs.clone();
    solve(stream, factored.lu(), &mut x, 1, true).unwrap();
    assert_backward_error(&transposed, &x, &rhs);
}

#[test]
fn solutions_have_small_backward_errors() {
    for stream in streams() {
        for (name, rows, values) in named_matrices() {
            eprintln!("{name}");
            check_solve::<f32>(&stream, rows.clone(), &values);
            check_solve::<f64>(&stream, rows.clone(), &values);
            check_solve::<Complex<f32>>(&stream, rows.clone(), &values);
            check_solve::<Complex<f64>>(&stream, rows, &values);
        }
    }
    on_each(20, &dominant_matrices(30), |stream, a| {
        check_solve::<f64>(stream, pattern_of(&a), a.data());
    });
}

#[test]
fn solutions_do_not_depend_on_the_schedule() {
    let (_, rows, values) = named_matrices().pop().unwrap();
    let mut solutions = luge_tests::devices().into_iter().map(|device: Device| {
        let stream = device.create_stream().unwrap();
        let factored = Factored::<f64>::new(&stream, rows.clone(), &values);
        let mut x = factored.right_hand_sides(2);
        solve(&stream, factored.lu(), &mut x, 2, false).unwrap();
        x
    });
    let first = solutions.next().unwrap();
    assert!(solutions.all(|x| x == first));
}

#[test]
#[should_panic(expected = "nrhs columns of length n")]
fn a_short_right_hand_side_is_a_broken_call() {
    let stream = &streams()[0];
    let rows = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
    let factored = Factored::<f64>::new(stream, rows, &[1.0, 1.0]);
    let _ = solve(stream, factored.lu(), &mut [1.0; 3], 2, false);
}
