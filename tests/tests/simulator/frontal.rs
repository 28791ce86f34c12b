//! Fronts on the device: factors solve, whatever schedule made them, and always with the same bits.

use std::sync::Arc;

use luge_device::Buffer;
use luge_device::Stream;
use luge_frontal::gpu::{
    DeviceFrontalError, DeviceFrontalLu, DeviceQuality, DeviceTree, Limits, Placement, Workspace,
};
use luge_frontal::{AssemblyTree, FrontalLu, Options, Symbolic, TreeOptions};
use luge_sparse::{
    ColPerm, CompressedPattern, Permutation, PivotPolicy, RealScalar, RowPerm, Scaling,
};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_2d, convection_diffusion_3d, laplacian_1d, power_grid, rc_mesh,
};
use luge_testkit::strategies::dominant_matrices;
use proptest::prelude::*;
use sprs::CsMat;

use crate::chain::{RealDeviceScalar, noise, seeded_streams, streams};
use crate::frontal_solve::dissected;

const PIVOTS: PivotPolicy = PivotPolicy::replacing(1e-300).in_fronts(0.1);

/// A matrix by columns, with its tree.
pub(crate) struct Problem {
    pub columns: CompressedPattern,
    pub values: Vec<f64>,
    pub symbolic: Arc<Symbolic>,
}

impl Problem {
    pub fn new(a: &CsMat<f64>, options: &TreeOptions) -> Self {
        let columns = a.to_csc();
        let pattern = pattern_of(&columns.transpose_view().to_owned());
        let values = columns.data().to_vec();
        let symbolic = Arc::new(Symbolic::analyze(&pattern, options).unwrap());
        Self {
            columns: pattern,
            values,
            symbolic,
        }
    }

    /// B·x.
    pub(crate) fn times(&self, x: &[f64]) -> Vec<f64> {
        let mut b = vec![0.0; x.len()];
        for (j, &v) in x.iter().enumerate() {
            for p in self.columns.range(j) {
                b[self.columns.idx()[p] as usize] += self.values[p] * v;
            }
        }
        b
    }

    /// Bᵀ·x.
    pub(crate) fn times_transposed(&self, x: &[f64]) -> Vec<f64> {
        let product = |p: usize| self.values[p] * x[self.columns.idx()[p] as usize];
        let columns = 0..x.len();
        columns
            .map(|j| self.columns.range(j).map(product).sum())
            .collect()
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
fn solve<T: RealScalar>(
    tree: &AssemblyTree,
    factors: &[T],
    pivot_rows: &[u32],
    b: &[f64],
) -> Vec<f64> {
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
pub(crate) fn uploaded(stream: &Stream, problem: &Problem, limits: Limits) -> Arc<DeviceTree> {
    Arc::new(tree_on_device(stream, problem, &problem.symbolic, limits))
}

/// As that, of a tree in which columns may have moved.
pub(crate) fn tree_on_device(
    stream: &Stream,
    problem: &Problem,
    symbolic: &Arc<Symbolic>,
    limits: Limits,
) -> DeviceTree {
    placed(problem, symbolic, |placement| {
        DeviceTree::upload_with(stream, symbolic, placement, limits, 1).unwrap()
    })
}

/// What `of` makes of a tree of a matrix that is neither permuted nor scaled.
pub(crate) fn placed<R>(
    problem: &Problem,
    symbolic: &Symbolic,
    of: impl FnOnce(&Placement<'_>) -> R,
) -> R {
    let n = symbolic.n();
    let entries: Vec<u32> = (0..problem.columns.nnz() as u32).collect();
    of(&Placement {
        row_perm: &RowPerm(Permutation::identity(n)),
        col_perm: &ColPerm(Permutation::identity(n)),
        scaling: &Scaling::identity(n, n),
        entries: &entries,
        block_ptr: &[0, n],
        coupling: &Arc::new(CompressedPattern::new(n, vec![0; n + 1], Vec::new()).unwrap()),
        coupling_entries: &[],
        conjugated: None,
    })
}

/// The factors, with the values that they were made of.
pub(crate) fn factorized<T: RealDeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    limits: Limits,
) -> (DeviceFrontalLu<T>, Buffer<f64>) {
    let below = if size_of::<T>() == 4 { 1e-30 } else { 1e-300 };
    let pivots = PivotPolicy::replacing(below).in_fronts(0.1);
    let values = stream.upload(&problem.values).unwrap();
    let on_device = uploaded(stream, problem, limits);
    let (factors, quality) =
        DeviceFrontalLu::factorize(stream, &on_device, &values, &pivots).unwrap();
    let largest = problem
        .values
        .iter()
        .fold(0.0, |max: f64, v| max.max(v.abs()));
    assert_eq!(quality.max_b, largest);
    assert_eq!(quality.num_perturbed, 0);
    assert_eq!(quality.first_perturbed, None);
    assert_extremes(stream, problem.symbolic.tree(), &factors, &quality);
    (factors, values)
}

/// The extremes that are reported are those of the entries of the panels.
pub(crate) fn assert_extremes<T: RealDeviceScalar>(
    stream: &Stream,
    tree: &AssemblyTree,
    factors: &DeviceFrontalLu<T>,
    quality: &DeviceQuality,
) {
    let panels = stream.download(factors.factors()).unwrap();
    let (mut max_u, mut max_l) = (0.0f64, 0.0f64);
    let mut slot = 0;
    for front in tree.fronts() {
        let (k, c) = (front.pivots as usize, front.below as usize);
        let m = k + c;
        for p in 0..k * (m + c) {
            let size = RealScalar::to_f64(panels[slot + p]).abs();
            if p < k * m && p % m > p / m {
                max_l = max_l.max(size);
            } else {
                max_u = max_u.max(size);
            }
        }
        slot += k * (m + c);
    }
    assert_eq!((quality.max_u, quality.max_l), (max_u, max_l));
}

pub(crate) fn backward_error<T: RealDeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    factors: &DeviceFrontalLu<T>,
) -> f64 {
    let values = stream.download(factors.factors()).unwrap();
    let pivot_rows = stream.download(factors.pivot_rows()).unwrap();
    let known: Vec<f64> = (0..problem.symbolic.n())
        .map(|i| 1.0 + (i % 7) as f64)
        .collect();
    let b = problem.times(&known);
    let x = solve(factors.tree().symbolic().tree(), &values, &pivot_rows, &b);
    problem.backward_error(&x, &b)
}

/// Backward error of the same pivots on the host, which bounds what the device may make of them.
fn error_on_host(problem: &Problem) -> f64 {
    let options = Options {
        pivots: PIVOTS,
        max_b: Some(1.0),
        ..Options::default()
    };
    let (factors, _) = FrontalLu::factorize(&problem.symbolic, &problem.values, &options).unwrap();
    let n = problem.symbolic.n();
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
pub(crate) fn all_limits() -> [Limits; 7] {
    let limits = |small_front, whole_front, tiled_front, gathered| Limits {
        small_front,
        whole_front,
        tiled_front,
        gathered,
        apart: 0,
        many_of_thread: 0,
    };
    [
        Limits::default(),
        limits(0, 95, 512, 0),
        limits(0, 0, 512, 16),
        limits(0, 0, 512, 0),
        limits(0, 0, 0, 0),
        limits(6, 20, 512, 3),
        limits(6, 20, 30, 3),
    ]
}

#[test]
fn lu_fronts_solves_named_matrices() {
    for (schedule, stream) in seeded_streams().iter().enumerate() {
        for (at, (name, a)) in named_matrices().into_iter().enumerate() {
            for (merges, options) in [TreeOptions::default(), merged()].iter().enumerate() {
                // After the first schedule they take turns.
                if schedule > 0 && (schedule + at + merges) % 2 == 0 {
                    continue;
                }
                let problem = Problem::new(&a, options);
                let limits = Limits::default();
                let error = backward_error(
                    stream,
                    &problem,
                    &factorized::<f64>(stream, &problem, limits).0,
                );
                let bound = 10.0 * error_on_host(&problem) + 1e-14;
                assert!(error <= bound, "{name}: {error:e}, at most {bound:e}");
                // The type changes nothing that a schedule could.
                if schedule > 0 {
                    continue;
                }
                let error = backward_error(
                    stream,
                    &problem,
                    &factorized::<f32>(stream, &problem, limits).0,
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
    for (at, (name, a)) in named_matrices().iter().enumerate() {
        // The matrices take turns; the limits by default have tests of their own.
        let limits = all_limits().into_iter().skip(1 + at % 2).step_by(2);
        for limits in limits {
            let problem = Problem::new(a, &merged());
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

/// A tree of vertices with six children near the root, with two elsewhere, and edges to their parents and to the parents
/// of these: small fronts of many children, which are worked on by one warp or by several. A refactorization has values
/// of its own.
#[test]
fn runs_of_small_fronts_join() {
    let n = 187;
    let mut parents = vec![0];
    for v in 0.. {
        parents.extend(std::iter::repeat_n(v, if v < 7 { 6 } else { 2 }));
        if parents.len() >= n {
            break;
        }
    }
    let mut triplets = sprs::TriMat::new((n, n));
    let value = |i: usize, j: usize| (noise(5, i * n + j) >> 11) as f64 / (1u64 << 53) as f64;
    for v in 0..n {
        // Children come before their parents.
        let place = |v: usize| n - 1 - v;
        triplets.add_triplet(place(v), place(v), 8.0);
        let mut above = v;
        for _ in 0..2 {
            if above > 0 {
                above = parents[above];
                let (i, j) = (place(v), place(above));
                triplets.add_triplet(i, j, value(i, j));
                triplets.add_triplet(j, i, value(j, i));
            }
        }
    }
    let options = TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    };
    let mut problem = Problem::new(&triplets.to_csr(), &options);
    assert!(
        problem
            .symbolic
            .tree()
            .fronts()
            .iter()
            .any(|front| front.num_children > 4)
    );
    let first = problem.values.clone();
    for stream in &streams()[1..] {
        problem.values = first.clone();
        let (mut factors, values) = factorized::<f64>(stream, &problem, Limits::default());
        let bits = stream.download(factors.factors()).unwrap();
        let error = backward_error(stream, &problem, &factors);
        assert!(error <= 1e-14, "{error:e}");
        for (i, value) in problem.values.iter_mut().enumerate() {
            *value *= 1.0 + (i % 3) as f64 / 8.0;
        }
        let others = stream.upload(&problem.values).unwrap();
        factors.refactorize(stream, &others, &PIVOTS).unwrap();
        let error = backward_error(stream, &problem, &factors);
        assert!(error <= 1e-14, "{error:e}");
        factors.refactorize(stream, &values, &PIVOTS).unwrap();
        assert_eq!(stream.download(factors.factors()).unwrap(), bits);
    }
}

/// Elements of a tree of many units of large fronts are written where others were; with room for the elements of a whole
/// level the factors have the same bits.
#[test]
fn elements_take_turns_in_their_memory() {
    let a = dissected(&convection_diffusion_3d(7, 6, 5, 1.0));
    let (bytes, of_all) = elements_take_turns(&a, u32::MAX);
    assert!(bytes < of_all / 2, "{bytes} of {of_all}");
}

/// Likewise where launches on wide fronts and on others take turns.
#[test]
fn elements_take_turns_between_launches() {
    let a = dissected(&convection_diffusion_3d(6, 5, 5, 1.0));
    let (bytes, of_all) = elements_take_turns(&a, 30);
    assert!(bytes < of_all / 4 * 3, "{bytes} of {of_all}");
}

/// Bytes of the workspace, and of the elements of all fronts.
fn elements_take_turns(a: &CsMat<f64>, tiled_front: u32) -> (u64, u64) {
    let problem = Problem::new(a, &TreeOptions::default());
    let limits = |apart| Limits {
        small_front: 4,
        whole_front: 20,
        tiled_front,
        gathered: 2,
        apart,
        many_of_thread: 0,
    };
    let fronts = problem.symbolic.tree().fronts();
    let of_all: u64 = fronts
        .iter()
        .map(|front| u64::from(front.below).pow(2))
        .sum();
    let mut bits: Option<Vec<f64>> = None;
    let mut bytes = Vec::new();
    for (seed, stream) in seeded_streams().iter().take(2).enumerate() {
        for apart in [0, 1 << 22] {
            // The roomy one is there for its bits alone.
            if apart > 0 && seed > 0 {
                continue;
            }
            let on_device = uploaded(stream, &problem, limits(apart));
            bytes.push(Workspace::<f64>::bytes(&on_device));
            let (mut factors, values) = factorized::<f64>(stream, &problem, limits(apart));
            let first = stream.download(factors.factors()).unwrap();
            factors.refactorize(stream, &values, &PIVOTS).unwrap();
            assert_eq!(stream.download(factors.factors()).unwrap(), first);
            assert_eq!(*bits.get_or_insert_with(|| first.clone()), first);
            let error = backward_error(stream, &problem, &factors);
            assert!(error <= 1e-14, "{error:e}");
        }
    }
    assert!(bytes[0] < bytes[1], "{bytes:?}");
    (bytes[0], 8 * of_all)
}

#[test]
fn reports_are_those_of_the_last_factorization() {
    let stream = &seeded_streams()[0];
    let problem = with_pivots(|i| if i == 20 { 1e-20 } else { 1.0 });
    let tree = uploaded(stream, &problem, Limits::default());
    let pivots = PivotPolicy::replacing(1e-6).in_fronts(0.1);
    let values = stream.upload(&problem.values).unwrap();
    let (mut factors, first) =
        DeviceFrontalLu::<f64>::factorize(stream, &tree, &values, &pivots).unwrap();
    assert_eq!(
        (first.num_perturbed, first.max_b, first.max_u),
        (1, 1.0, 1.0)
    );
    let smaller: Vec<f64> = problem
        .values
        .iter()
        .map(|v| if *v == 1e-20 { 0.25 } else { v / 2.0 })
        .collect();
    let smaller = stream.upload(&smaller).unwrap();
    let second = factors.refactorize(stream, &smaller, &pivots).unwrap();
    assert_eq!((second.num_perturbed, second.first_perturbed), (0, None));
    assert_eq!((second.max_b, second.max_u), (0.5, 0.5));
    assert_eq!(
        factors.refactorize(stream, &values, &pivots).unwrap(),
        first
    );
}

#[test]
fn tiny_pivots_are_told_by_the_values_at_hand() {
    let stream = &seeded_streams()[0];
    let problem = with_pivots(|i| if i == 20 { 1e-8 } else { 1.0 });
    let tree = uploaded(stream, &problem, Limits::default());
    let pivots = PivotPolicy::replacing(1e-6).in_fronts(0.1);
    let values = stream.upload(&problem.values).unwrap();
    let (mut factors, first) =
        DeviceFrontalLu::<f64>::factorize(stream, &tree, &values, &pivots).unwrap();
    assert_eq!((first.num_perturbed, first.max_b), (1, 1.0));
    for factor in [2f64.powi(20), 2f64.powi(-20)] {
        let scaled: Vec<f64> = problem.values.iter().map(|v| v * factor).collect();
        let scaled = stream.upload(&scaled).unwrap();
        let quality = factors.refactorize(stream, &scaled, &pivots).unwrap();
        assert_eq!((quality.num_perturbed, quality.max_b), (1, factor));
        assert_eq!(factors.scale(), factor);
    }
}

/// Dense diagonal blocks, the entries below the diagonal being zeros, with these entries on it: pivots come as they are
/// there.
fn triangular_blocks(blocks: &[Vec<f64>]) -> CsMat<f64> {
    let n = blocks.iter().map(Vec::len).sum();
    let mut triplets = sprs::TriMat::new((n, n));
    let mut start = 0;
    for diagonal in blocks {
        for (i, &own) in diagonal.iter().enumerate() {
            for j in 0..diagonal.len() {
                let value = match i.cmp(&j) {
                    std::cmp::Ordering::Less => 0.5,
                    std::cmp::Ordering::Equal => own,
                    std::cmp::Ordering::Greater => 0.0,
                };
                triplets.add_triplet(start + i, start + j, value);
            }
        }
        start += diagonal.len();
    }
    triplets.to_csr()
}

/// A small front, a whole one and one of tiles, with `pivot(i)` on the diagonal.
fn with_pivots(pivot: impl Fn(usize) -> f64) -> Problem {
    let blocks: Vec<Vec<f64>> = [(0, 12), (12, 52), (52, 152)]
        .map(|(start, end)| (start..end).map(&pivot).collect())
        .to_vec();
    Problem::new(&triangular_blocks(&blocks), &TreeOptions::default())
}

/// Of these columns, that which is eliminated first.
fn first_of(tree: &AssemblyTree, columns: &[usize]) -> Option<usize> {
    let order = tree.perm().iter().map(|&old| old as usize);
    let mut found = order.filter(|old| columns.contains(old));
    found.next()
}

#[test]
fn the_first_useless_pivot_is_named() {
    let pivots = PivotPolicy::STATIC.in_fronts(0.1);
    let stream = &seeded_streams()[0];
    // With this in a column from its diagonal on; which of them is eliminated first.
    let outcome = |of_value: f64, columns: &[usize]| {
        let mut problem = with_pivots(|_| 1.0);
        for &column in columns {
            for p in problem.columns.range(column) {
                if problem.columns.idx()[p] as usize >= column {
                    problem.values[p] = of_value;
                }
            }
        }
        let tree = uploaded(stream, &problem, Limits::default());
        let values = stream.upload(&problem.values).unwrap();
        let outcome = DeviceFrontalLu::<f64>::factorize(stream, &tree, &values, &pivots);
        (
            outcome.map(|_| ()),
            first_of(problem.symbolic.tree(), columns),
        )
    };
    // Zeros are found at the end of a front: what is divided by one before that is not finite.
    for columns in [&[11][..], &[51], &[151], &[151, 11, 51]] {
        match outcome(0.0, columns) {
            (Err(DeviceFrontalError::ZeroPivot { column }), first) => {
                assert_eq!(Some(column), first);
            }
            (other, _) => panic!("{columns:?}: {other:?}"),
        }
    }
    for columns in [&[9][..], &[30], &[140], &[140, 9, 30]] {
        match outcome(f64::INFINITY, columns) {
            (Err(DeviceFrontalError::NotFinite { column }), first) => {
                assert_eq!(Some(column), first);
            }
            (other, _) => panic!("{columns:?}: {other:?}"),
        }
    }
}

#[test]
fn rows_change_places_where_the_diagonal_is_too_small() {
    let stream = &seeded_streams()[0];
    // Of a column in a small front, in a whole one and in one of tiles, the diagonal beside a one below it.
    for column in [3, 20, 100] {
        for (on_diagonal, num_moved) in [(0.25, 0), (0.125, 0), (0.0625, 2), (0.0, 2)] {
            let mut problem = with_pivots(|_| 1.0);
            for p in problem.columns.range(column) {
                let row = problem.columns.idx()[p] as usize;
                if row == column {
                    problem.values[p] = on_diagonal;
                } else if row == column + 1 {
                    problem.values[p] = 1.0;
                }
            }
            let (mut factors, values) = factorized::<f64>(stream, &problem, Limits::default());
            let found = factors.num_off_diagonal(stream).unwrap();
            assert_eq!(found, num_moved, "{on_diagonal} in column {column}");
            let first = stream.download(factors.factors()).unwrap();
            factors.refactorize(stream, &values, &PIVOTS).unwrap();
            assert_eq!(stream.download(factors.factors()).unwrap(), first);
            assert!(backward_error(stream, &problem, &factors) < 1e-15);
        }
    }
}

#[test]
fn no_pivot_is_replaced_where_another_row_has_one() {
    let stream = &seeded_streams()[0];
    let pivots = PivotPolicy::replacing(1e-6).in_fronts(0.1);
    for column in [3, 20, 100] {
        // With the replaced one on the diagonal no entry of L would be above 2.
        let mut problem = with_pivots(|i| if i == column { 1e-8 } else { 1.0 });
        for p in problem.columns.range(column) {
            if problem.columns.idx()[p] as usize == column + 1 {
                problem.values[p] = 2e-6;
            }
        }
        let tree = uploaded(stream, &problem, Limits::default());
        let values = stream.upload(&problem.values).unwrap();
        let (factors, quality) =
            DeviceFrontalLu::<f64>::factorize(stream, &tree, &values, &pivots).unwrap();
        assert_eq!(quality.num_perturbed, 0, "column {column}");
        assert_eq!(factors.num_off_diagonal(stream).unwrap(), 2);
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
