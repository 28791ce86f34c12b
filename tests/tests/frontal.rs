//! Fronts on the device: factors solve, whatever schedule made them, and always with the same bits.

use std::sync::Arc;

use luge_device::Buffer;
use luge_device::Stream;
use luge_frontal::gpu::{
    DeviceFrontalLu, DeviceScalar, DeviceTree, Limits, Placement, StaticPivots,
};
use luge_frontal::{FrontalLu, Options, Tree, TreeOptions};
use luge_sparse::{ColPerm, CompressedPattern, Permutation, RowPerm, Scalar, Scaling};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_2d, laplacian_1d, power_grid, rc_mesh,
};
use luge_testkit::strategies::dominant_matrices;
use proptest::prelude::*;
use sprs::CsMat;

mod chain;
use chain::{seeded_streams, streams};

const PIVOTS: StaticPivots = StaticPivots {
    threshold: 0.1,
    smallest: 1e-300,
};

/// A matrix by columns, with its tree.
struct Problem {
    columns: CompressedPattern,
    values: Vec<f64>,
    tree: Arc<Tree>,
}

impl Problem {
    fn new(a: &CsMat<f64>, options: &TreeOptions) -> Self {
        let columns = a.to_csc();
        let pattern = pattern_of(&columns.transpose_view().to_owned());
        let values = columns.data().to_vec();
        let tree = Arc::new(Tree::analyze(&pattern, options).unwrap());
        Self {
            columns: pattern,
            values,
            tree,
        }
    }

    /// B·x.
    fn times(&self, x: &[f64]) -> Vec<f64> {
        let mut b = vec![0.0; x.len()];
        for (j, &v) in x.iter().enumerate() {
            for p in self.columns.range(j) {
                b[self.columns.idx()[p] as usize] += self.values[p] * v;
            }
        }
        b
    }

    /// ‖b − B·x‖∞ / (‖B‖∞ ‖x‖∞ + ‖b‖∞).
    fn backward_error(&self, x: &[f64], b: &[f64]) -> f64 {
        let mut sums = vec![0.0; x.len()];
        for (&i, v) in self.columns.idx().iter().zip(&self.values) {
            sums[i as usize] += v.abs();
        }
        if x.is_empty() {
            return 0.0;
        }
        let max = |v: &[f64]| v.iter().fold(0.0, |max: f64, v| max.max(v.abs()));
        let residual: Vec<f64> = self.times(x).iter().zip(b).map(|(ax, b)| b - ax).collect();
        max(&residual) / (max(&sums) * max(x) + max(b))
    }
}

/// Solves B·x = b with the panels of the fronts, one after the other, as the definition has it.
fn solve<T: Scalar>(tree: &Tree, factors: &[T], pivot_rows: &[u32], b: &[f64]) -> Vec<f64> {
    let at = |p: usize| factors[p].to_f64();
    let mut x: Vec<f64> = tree.perm().iter().map(|&old| b[old as usize]).collect();
    let mut slots = Vec::new();
    let mut slot = 0;
    for (s, front) in tree.fronts().iter().enumerate() {
        slots.push(slot);
        let (start, k, c) = (
            front.start as usize,
            front.pivots as usize,
            front.below as usize,
        );
        let m = k + c;
        for j in 0..k {
            x.swap(start + j, start + pivot_rows[start + j] as usize);
        }
        for j in 0..k {
            for i in j + 1..k {
                x[start + i] -= at(slot + i + j * m) * x[start + j];
            }
            for (i, &row) in tree.rows_below(s).iter().enumerate() {
                x[row as usize] -= at(slot + k + i + j * m) * x[start + j];
            }
        }
        slot += k * (m + c);
    }
    for (s, front) in tree.fronts().iter().enumerate().rev() {
        let (start, k, c) = (
            front.start as usize,
            front.pivots as usize,
            front.below as usize,
        );
        let (m, slot) = (k + c, slots[s]);
        for i in (0..k).rev() {
            let mut sum = x[start + i];
            for (q, &column) in tree.rows_below(s).iter().enumerate() {
                sum -= at(slot + k * m + i * c + q) * x[column as usize];
            }
            for j in i + 1..k {
                sum -= at(slot + i + j * m) * x[start + j];
            }
            x[start + i] = sum / at(slot + i + i * m);
        }
    }
    let mut solution = vec![0.0; x.len()];
    for (&old, value) in tree.perm().iter().zip(x) {
        solution[old as usize] = value;
    }
    solution
}

/// The tree on the device, of a matrix that is neither permuted nor scaled.
fn uploaded(stream: &Stream, problem: &Problem, limits: Limits) -> Arc<DeviceTree> {
    let n = problem.tree.n();
    let entries: Vec<u32> = (0..problem.columns.nnz() as u32).collect();
    let placement = Placement {
        row_perm: &RowPerm(Permutation::identity(n)),
        col_perm: &ColPerm(Permutation::identity(n)),
        scaling: &Scaling::identity(n, n),
        entries: &entries,
        block_ptr: &[0, n],
        coupling: &Arc::new(CompressedPattern::new(n, vec![0; n + 1], Vec::new()).unwrap()),
        coupling_entries: &[],
    };
    Arc::new(DeviceTree::upload_with(stream, &problem.tree, &placement, limits, 1).unwrap())
}

/// The factors, with the values that they were made of.
fn factorized<T: DeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    limits: Limits,
) -> (DeviceFrontalLu<T>, Buffer<f64>) {
    let pivots = StaticPivots {
        smallest: if size_of::<T>() == 4 { 1e-30 } else { 1e-300 },
        ..PIVOTS
    };
    let values = stream.upload(&problem.values).unwrap();
    let on_device = uploaded(stream, problem, limits);
    let (factors, quality) =
        DeviceFrontalLu::factorize(stream, &on_device, &values, &pivots).unwrap();
    let largest = problem
        .values
        .iter()
        .fold(0.0, |max: f64, v| max.max(v.abs()));
    assert_eq!(quality.max_b, largest);
    (factors, values)
}

fn backward_error<T: DeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    factors: &DeviceFrontalLu<T>,
) -> f64 {
    let values = stream.download(factors.factors()).unwrap();
    let pivot_rows = stream.download(factors.pivot_rows()).unwrap();
    let known: Vec<f64> = (0..problem.tree.n())
        .map(|i| 1.0 + (i % 7) as f64)
        .collect();
    let b = problem.times(&known);
    let x = solve(&problem.tree, &values, &pivot_rows, &b);
    problem.backward_error(&x, &b)
}

/// Backward error of the same pivots on the host, which bounds what the device may make of them.
fn error_on_host(problem: &Problem) -> f64 {
    let options = Options {
        threshold: PIVOTS.threshold,
        static_pivots: Some(PIVOTS.smallest),
        ..Options::default()
    };
    let (factors, _) = FrontalLu::factorize(&problem.tree, &problem.values, &options).unwrap();
    let n = problem.tree.n();
    let known: Vec<f64> = (0..n).map(|i| 1.0 + (i % 7) as f64).collect();
    let b = problem.times(&known);
    let mut x = b.clone();
    factors.solve(&mut x, n.max(1), 1, 1);
    problem.backward_error(&x, &b)
}

fn merged() -> TreeOptions {
    TreeOptions {
        zero_fraction: 0.9,
        tiny_zero_fraction: 0.9,
        tiny_pivots: 64,
        ..TreeOptions::default()
    }
}

fn named_matrices() -> Vec<(&'static str, CsMat<f64>)> {
    vec![
        ("one", laplacian_1d(1)),
        ("line of 31", laplacian_1d(31)),
        ("line of 33", laplacian_1d(33)),
        ("dense 33", arrow(33, ArrowHead::First)),
        ("dense 120", arrow(120, ArrowHead::First)),
        ("arrow", arrow(100, ArrowHead::Last)),
        ("grid", convection_diffusion_2d(17, 16, 1.0)),
        ("circuit", circuit(60, 3)),
        ("power grid", power_grid(2, 8, 8, 5)),
        ("mesh", rc_mesh(12, 12, 2)),
    ]
}

/// Each way to work on a front by itself as far as the matrices allow, and all together.
fn all_limits() -> [Limits; 5] {
    let limits = |small_front, whole_front, gathered| Limits {
        small_front,
        whole_front,
        gathered,
    };
    [
        Limits::default(),
        limits(0, 95, 0),
        limits(0, 0, 16),
        limits(0, 0, 0),
        limits(6, 20, 3),
    ]
}

#[test]
fn lu_fronts_solves_named_matrices() {
    for stream in seeded_streams() {
        for (name, a) in named_matrices() {
            for options in [TreeOptions::default(), merged()] {
                let problem = Problem::new(&a, &options);
                let limits = Limits::default();
                let error = backward_error(
                    &stream,
                    &problem,
                    &factorized::<f64>(&stream, &problem, limits).0,
                );
                let bound = 10.0 * error_on_host(&problem) + 1e-14;
                assert!(error <= bound, "{name}: {error:e}, at most {bound:e}");
                let error = backward_error(
                    &stream,
                    &problem,
                    &factorized::<f32>(&stream, &problem, limits).0,
                );
                let bound = bound * f64::from(f32::EPSILON) / f64::EPSILON;
                assert!(
                    error <= bound,
                    "{name} in f32: {error:e}, at most {bound:e}"
                );
            }
        }
    }
}

#[test]
fn every_way_to_work_on_a_front_does_alone() {
    let stream = &streams()[0];
    for (name, a) in named_matrices() {
        for limits in all_limits() {
            let problem = Problem::new(&a, &merged());
            let (factors, _) = factorized::<f64>(stream, &problem, limits);
            let error = backward_error(stream, &problem, &factors);
            let bound = 10.0 * error_on_host(&problem) + 1e-14;
            assert!(
                error <= bound,
                "{name}, {limits:?}: {error:e}, at most {bound:e}"
            );
        }
    }
}

#[test]
fn refactorizing_repeats_the_bits_whatever_the_schedule() {
    let (_, a) = &named_matrices()[6];
    let problem = Problem::new(a, &TreeOptions::default());
    let mut bits: Option<Vec<f64>> = None;
    for stream in seeded_streams() {
        let (mut factors, values) = factorized::<f64>(&stream, &problem, Limits::default());
        let first = stream.download(factors.factors()).unwrap();
        factors.refactorize(&stream, &values, &PIVOTS).unwrap();
        assert_eq!(stream.download(factors.factors()).unwrap(), first);
        let bits = bits.get_or_insert_with(|| first.clone());
        assert_eq!(*bits, first);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lu_fronts_solves_any_dominant_matrix(a in dominant_matrices(60)) {
        let stream = &streams()[0];
        let problem = Problem::new(&a, &TreeOptions::default());
        let error = backward_error(stream, &problem, &factorized::<f64>(stream, &problem, Limits::default()).0);
        prop_assert!(error < 1e-13, "{error:e}");
    }
}
