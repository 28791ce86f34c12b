//! Symmetric fronts on the device: P·B·Pᵀ = L·D·Lᵀ with bounded L, the same inertia as on the CPU, whatever schedule made
//! the factors, and always with the same bits.

use std::collections::BTreeMap;
use std::sync::Arc;

use luge_device::{Backend, Device, DeviceError, SimulatorOptions, Stream};
use luge_frontal::gpu::{
    DeviceFrontalError, DeviceFrontalLdlt, DeviceSymmetricQuality, DeviceTree, Limits, MemoryPlan,
    MovedTree, Placement, Workspace,
};
use luge_frontal::{FrontalLdlt, Lower, Options, Pairs, Symbolic, TreeOptions};
use luge_gpu_kernels::frontal::plan::{report, state};
use luge_gpu_kernels::frontal::solve::layout::CONTROL_WORDS;
use luge_sparse::etree::EliminationForest;
use luge_sparse::{
    ColPerm, CompressedPattern, Inertia, Permutation, PivotKind, PivotPolicy, RealScalar, RowPerm,
    Scaling, SmallPivots, SymmetricPivoting,
};
use luge_testkit::generators::applications::{interior_point_kkt, saddle_point};
use luge_testkit::generators::mixed::{darcy, stokes};
use luge_testkit::strategies::symmetric_matrices;
use proptest::prelude::*;

use crate::chain::{RealDeviceScalar, noise, seeded_streams, streams};

const U: f64 = 0.01;

/// Zero pivots end the factorization.
const STOP: PivotPolicy = PivotPolicy::symmetric(U);

/// Columns of zeros are zero pivots.
const ACCEPT: PivotPolicy = PivotPolicy {
    kind: PivotKind::Symmetric {
        threshold: U,
        method: SymmetricPivoting::Columns,
    },
    small: SmallPivots::Accept { below: 1e-14 },
};

/// Uniform in −1 .. 1.
pub fn uniform(seed: u64, i: usize) -> f64 {
    (noise(seed, i) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A symmetric matrix, of which each entry is stored once, in either triangle, with its tree.
pub struct Problem {
    pub n: usize,
    /// By unordered pairs, the smaller first.
    entries: BTreeMap<(usize, usize), f64>,
    columns: CompressedPattern,
    pub values: Vec<f64>,
    pub symbolic: Arc<Symbolic<Lower>>,
}

impl Problem {
    /// Of entries anywhere; of those with the same unordered pair the last counts.
    pub fn new(
        n: usize,
        entries: impl IntoIterator<Item = (usize, usize, f64)>,
        options: &TreeOptions,
    ) -> Self {
        let pairs = entries.into_iter();
        let entries: BTreeMap<_, _> = pairs.map(|(i, j, v)| ((i.min(j), i.max(j)), v)).collect();
        let mut stored: Vec<_> = entries
            .iter()
            .map(|(&(i, j), &v)| {
                if (i + j).is_multiple_of(3) {
                    (i, j, v)
                } else {
                    (j, i, v)
                }
            })
            .collect();
        stored.sort_by_key(|&(column, row, _)| (column, row));
        let mut ptr = vec![0u64; n + 1];
        for &(column, ..) in &stored {
            ptr[column + 1] += 1;
        }
        for j in 0..n {
            ptr[j + 1] += ptr[j];
        }
        let rows = stored.iter().map(|&(_, row, _)| row as u32).collect();
        let columns = CompressedPattern::new(n, ptr, rows).unwrap();
        Self {
            n,
            entries,
            values: stored.iter().map(|&(.., v)| v).collect(),
            symbolic: Arc::new(Symbolic::analyze(&columns, options).unwrap()),
            columns,
        }
    }

    /// The same pattern and tree with other values.
    pub fn with(&self, value: impl Fn(usize, usize, f64) -> f64) -> Self {
        let changed = |(&(i, j), &v): (&(usize, usize), &f64)| ((i, j), value(i, j, v));
        let entries: BTreeMap<_, _> = self.entries.iter().map(changed).collect();
        let mut values = Vec::new();
        for j in 0..self.n {
            for p in self.columns.range(j) {
                let i = self.columns.idx()[p] as usize;
                values.push(entries[&(i.min(j), i.max(j))]);
            }
        }
        Self {
            n: self.n,
            entries,
            columns: self.columns.clone(),
            values,
            symbolic: Arc::clone(&self.symbolic),
        }
    }

    pub fn dense(&self) -> Vec<Vec<f64>> {
        let mut dense = vec![vec![0.0; self.n]; self.n];
        for (&(i, j), &v) in &self.entries {
            dense[i][j] = v;
            dense[j][i] = v;
        }
        dense
    }

    fn max_b(&self) -> f64 {
        self.values.iter().fold(0.0, |max: f64, v| max.max(v.abs()))
    }

    /// A tree on the device, of this matrix, neither permuted nor scaled.
    pub fn uploaded(
        &self,
        stream: &Stream,
        symbolic: &Arc<Symbolic<Lower>>,
        limits: Limits,
    ) -> DeviceTree<Lower> {
        self.placed(|placement| {
            DeviceTree::upload_with(stream, symbolic, placement, limits, 1).unwrap()
        })
    }

    /// What `of` makes of this matrix, neither permuted nor scaled.
    pub fn placed<R>(&self, of: impl FnOnce(&Placement<'_>) -> R) -> R {
        let n = self.n;
        of(&Placement {
            row_perm: &RowPerm(Permutation::identity(n)),
            col_perm: &ColPerm(Permutation::identity(n)),
            scaling: &Scaling::identity(n, n),
            entries: &(0..self.columns.nnz() as u32).collect::<Vec<_>>(),
            block_ptr: &[0, n],
            coupling: &Arc::new(CompressedPattern::new(n, vec![0; n + 1], Vec::new()).unwrap()),
            coupling_entries: &[],
            conjugated: None,
        })
    }

    fn factorize<T: RealDeviceScalar>(
        &self,
        stream: &Stream,
        limits: Limits,
        pivots: &PivotPolicy,
    ) -> Result<(DeviceFrontalLdlt<T>, DeviceSymmetricQuality), DeviceFrontalError> {
        let tree = Arc::new(self.uploaded(stream, &self.symbolic, limits));
        let values = stream.upload(&self.values).unwrap();
        let upload =
            |moved: MovedTree<'_, Lower>| Ok(self.uploaded(stream, &moved.symbolic(1)?, limits));
        DeviceFrontalLdlt::factorize(stream, &tree, &values, pivots, &upload)
    }

    pub fn refactorize<T: RealDeviceScalar>(
        &self,
        stream: &Stream,
        limits: Limits,
        factors: &mut DeviceFrontalLdlt<T>,
        pivots: &PivotPolicy,
    ) -> Result<DeviceSymmetricQuality, DeviceFrontalError> {
        let values = stream.upload(&self.values).unwrap();
        let upload =
            |moved: MovedTree<'_, Lower>| Ok(self.uploaded(stream, &moved.symbolic(1)?, limits));
        factors.refactorize(stream, &values, pivots, &upload)
    }

    /// What the CPU finds of the matrix.
    fn on_host(&self, pivots: &PivotPolicy) -> luge_frontal::SymmetricQuality {
        let options = Options {
            pivots: *pivots,
            ..Options::default()
        };
        let (_, quality) =
            FrontalLdlt::<f64>::factorize(&self.symbolic, &self.values, &options).unwrap();
        quality
    }
}

/// L (rows of B by pivots) and D of factors on the device.
pub fn dense_factors<T: RealDeviceScalar>(
    stream: &Stream,
    factors: &DeviceFrontalLdlt<T>,
) -> [Vec<Vec<f64>>; 2] {
    let tree = factors.tree().symbolic().tree();
    let n = tree.n();
    let panels = stream.download(factors.factors()).unwrap();
    let places = stream.download(factors.row_places()).unwrap();
    let diagonal = stream.download(factors.diagonal()).unwrap();
    let at = |p: usize| RealScalar::to_f64(panels[p]);
    // The column of B that each pivot is.
    let mut column = vec![usize::MAX; n];
    for front in tree.fronts() {
        let start = front.start as usize;
        for e in start..start + front.pivots as usize {
            let to = &mut column[start + places[e] as usize];
            assert_eq!(*to, usize::MAX, "two columns in one place");
            *to = tree.perm()[e] as usize;
        }
    }
    let (mut l, mut d) = (vec![vec![0.0; n]; n], vec![vec![0.0; n]; n]);
    let mut slot = 0;
    for (s, front) in tree.fronts().iter().enumerate() {
        let (start, k) = (front.start as usize, front.pivots as usize);
        let m = k + front.below as usize;
        for j in 0..k {
            let p = start + j;
            let [own, off] = [diagonal[2 * p], diagonal[2 * p + 1]].map(|v| RealScalar::to_f64(v));
            l[column[p]][p] = 1.0;
            d[p][p] = own;
            assert_eq!(at(slot + j * m + j), own, "D of pivot {p}");
            for i in 0..j {
                let expected = if i + 1 == j {
                    RealScalar::to_f64(diagonal[2 * p - 1])
                } else {
                    0.0
                };
                assert_eq!(at(slot + j * m + i), expected, "row {i} above pivot {j}");
            }
            if off != 0.0 {
                assert!(j + 1 < k, "a pivot of order 2 is in one front");
                assert_eq!(at(slot + j * m + j + 1), 0.0, "L in a pivot of order 2");
                d[p][p + 1] = off;
                d[p + 1][p] = off;
            }
            for i in j + 1..k {
                l[column[start + i]][p] = at(slot + j * m + i);
            }
            for (i, &row) in tree.rows_below(s).iter().enumerate() {
                // Rows below stand as the tree has them.
                l[tree.perm()[row as usize] as usize][p] = at(slot + j * m + k + i);
            }
        }
        slot += k * m;
    }
    [l, d]
}

/// Checks factors and what is reported of them by the definition.
fn check<T: RealDeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    factors: &DeviceFrontalLdlt<T>,
    quality: &DeviceSymmetricQuality,
    what: &str,
) {
    let n = problem.n;
    let epsilon = if size_of::<T>() == 4 {
        f64::from(f32::EPSILON)
    } else {
        f64::EPSILON
    };
    let [l, d] = dense_factors(stream, factors);
    let mut max_l = 0.0f64;
    let (mut num_two, mut inertia) = (0, Inertia::default());
    let [mut min_pivot, mut max_pivot] = [f64::INFINITY, 0.0f64];
    let mut p = 0;
    while p < n {
        let mut magnitudes = [d[p][p].abs(); 2];
        for row in &l {
            max_l = max_l.max(if row[p] == 1.0 { 0.0 } else { row[p].abs() });
        }
        if p + 1 < n && d[p + 1][p] != 0.0 {
            num_two += 1;
            let (a, b, c) = (d[p][p], d[p + 1][p], d[p + 1][p + 1]);
            if a * c - b * b < 0.0 {
                inertia.positive += 1;
                inertia.negative += 1;
            } else if a > 0.0 {
                inertia.positive += 2;
            } else {
                inertia.negative += 2;
            }
            let large = ((a + c) / 2.0).abs() + ((a - c) / 2.0).hypot(b);
            magnitudes = [(a * c - b * b).abs() / large, large];
            p += 1;
        } else if d[p][p] > 0.0 {
            inertia.positive += 1;
        } else if d[p][p] < 0.0 {
            inertia.negative += 1;
        } else {
            inertia.zero += 1;
            magnitudes[0] = f64::INFINITY;
        }
        min_pivot = min_pivot.min(magnitudes[0]);
        max_pivot = max_pivot.max(magnitudes[1]);
        p += 1;
    }
    for (told, true_one) in [
        (quality.min_pivot, min_pivot),
        (quality.max_pivot, max_pivot),
    ] {
        let is_close = told == true_one || (told / true_one - 1.0).abs() <= 16.0 * epsilon;
        assert!(is_close, "{what}: pivots of {told:e}, {true_one:e}");
    }
    assert_eq!(quality.inertia, inertia, "{what}");
    assert_eq!(
        (quality.num_two, quality.num_zero),
        (num_two, inertia.zero),
        "{what}"
    );
    assert_eq!(quality.max_b, problem.max_b(), "{what}");
    let dense = problem.dense();
    // Row by row: L·D is sparse.
    let mut worst = 0.0f64;
    for i in 0..n {
        let (mut row, mut sizes) = (vec![0.0; n], vec![0.0; n]);
        for p in 0..n {
            let mut of_d = d[p][p] * l[i][p];
            let mut size = d[p][p].abs() * l[i][p].abs();
            for q in [p.wrapping_sub(1), p + 1] {
                if q < n && d[q][p] != 0.0 {
                    of_d += d[q][p] * l[i][q];
                    size += d[q][p].abs() * l[i][q].abs();
                }
            }
            if size != 0.0 {
                for (j, (sum, total)) in row.iter_mut().zip(&mut sizes).enumerate() {
                    *sum += of_d * l[j][p];
                    *total += size * l[j][p].abs();
                }
            }
        }
        for j in 0..n {
            let bound = sizes[j]
                + dense[i][j].abs()
                + if quality.num_zero > 0 {
                    problem.max_b()
                } else {
                    0.0
                };
            let error = (row[j] - dense[i][j]).abs();
            assert!(error.is_finite(), "{what}: row {i}, column {j}");
            if error > 0.0 {
                worst = worst.max(error / bound);
            }
        }
    }
    let bound = 8.0 * n as f64 * epsilon;
    assert!(
        worst <= bound,
        "{what}: {worst:e} of P·B·Pᵀ, at most {bound:e}"
    );
    if let PivotKind::Symmetric { threshold, .. } = STOP.kind {
        let most = (1.0 + epsilon.sqrt()) / threshold;
        assert!(quality.max_l <= most, "{what}: |L| of {}", quality.max_l);
    }
    assert!(
        max_l <= quality.max_l,
        "{what}: {max_l} of {}",
        quality.max_l
    );
}

/// Each way to work on a front by itself as far as the matrices allow, and all together.
pub fn all_limits() -> [Limits; 5] {
    let limits = |small_front, whole_front, gathered| Limits {
        small_front,
        whole_front,
        gathered,
        apart: 0,
        ..Limits::default()
    };
    [
        Limits::default(),
        limits(0, 95, 0),
        limits(0, 0, 16),
        limits(0, 0, 0),
        limits(6, 20, 3),
    ]
}

pub fn unmerged() -> TreeOptions {
    TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    }
}

/// Dense blocks of these numbers of pivots below one of `c`, each without entries in one of its columns, so that they need
/// not be merged. `value(block, i, j)` for rows and columns counted within blocks; the last block is that of `c`, and
/// between blocks values are about one.
pub fn joined(
    pivots: &[usize],
    c: usize,
    value: impl Fn(usize, usize, usize) -> f64,
) -> Vec<(usize, usize, f64)> {
    let mut blocks = Vec::new();
    for (block, &k) in pivots.iter().chain([&c]).enumerate() {
        let start = blocks.len();
        blocks.extend(std::iter::repeat_n((block, start), k));
    }
    let n = blocks.len();
    let mut entries = Vec::new();
    for i in 0..n {
        for j in 0..=i {
            let ((block, start), (other, _)) = (blocks[j], blocks[i]);
            if block == other {
                entries.push((i, j, value(block, i - start, j - start)));
            } else if other == pivots.len() && i != n - 1 - block {
                entries.push((i, j, uniform(3, i * n + j)));
            }
        }
    }
    entries
}

/// A dense matrix; every third column has a zero on the diagonal.
fn dense(n: usize) -> Vec<(usize, usize, f64)> {
    joined(&[], n, |_, i, j| {
        if i == j && i % 3 == 0 {
            0.0
        } else {
            uniform(1, i * n + j)
        }
    })
}

/// A dense matrix near the identity.
fn nearly_one(n: usize) -> Problem {
    problem(dense(n), &TreeOptions::default()).with(|i, j, _| {
        let noise = 1e-3 * uniform(3, i * 500 + j);
        if i == j { 1.0 + noise } else { noise }
    })
}

/// Columns p and t have a pivot of order 2.
fn with_pair(ones: &Problem, p: usize, t: usize) -> Problem {
    ones.with(|i, j, v| match (i == p || i == t, j == p || j == t) {
        (true, true) if i == j => 0.0,
        (true, true) => 1.0,
        _ => v,
    })
}

/// The Laplacian of a grid, shifted so that it is indefinite.
fn grid(nx: usize, ny: usize, diagonal: f64) -> Vec<(usize, usize, f64)> {
    let mut entries = Vec::new();
    for p in 0..nx * ny {
        entries.push((p, p, diagonal + 0.3 * uniform(7, p)));
        if p % nx + 1 < nx {
            entries.push((p, p + 1, -1.0));
        }
        if p + nx < nx * ny {
            entries.push((p, p + nx, -1.0));
        }
    }
    entries
}

/// [0 A; Aᵀ H], zeros first.
fn saddle(n: usize, m: usize) -> Vec<(usize, usize, f64)> {
    let mut entries = Vec::new();
    for i in 0..n {
        entries.push((m + i, m + i, 2.0 + uniform(4, i)));
        if i + 1 < n {
            entries.push((m + i, m + i + 1, uniform(5, i)));
        }
    }
    for c in 0..m {
        entries.push((c, c, 0.0));
        for t in 0..3 {
            entries.push((c, m + (c * n / m + 2 * t) % n, 1.5 + uniform(6, 3 * c + t)));
        }
    }
    entries
}

fn order_of(entries: &[(usize, usize, f64)]) -> usize {
    entries
        .iter()
        .map(|&(i, j, _)| i.max(j) + 1)
        .max()
        .unwrap_or(0)
}

pub fn problem(entries: Vec<(usize, usize, f64)>, options: &TreeOptions) -> Problem {
    Problem::new(order_of(&entries), entries, options)
}

pub fn named_problems() -> Vec<(&'static str, Problem)> {
    let of = |entries| problem(entries, &TreeOptions::default());
    vec![
        (
            "one",
            of(dense(1).into_iter().map(|(i, j, _)| (i, j, -3.0)).collect()),
        ),
        ("line", of(grid(33, 1, 0.5))),
        ("dense 33", of(dense(33))),
        ("dense 120", of(dense(120))),
        ("grid", of(grid(17, 16, 1.1))),
        ("grid, unmerged", problem(grid(12, 11, 0.7), &unmerged())),
        ("saddle", of(saddle(60, 20))),
        (
            "joined",
            of(joined(&[5, 20, 40], 30, |block, i, j| {
                uniform(8, (block * 50 + i) * 50 + j)
            })),
        ),
        (
            "tiled",
            problem(
                joined(&[70, 100], 90, |_, i, j| uniform(9, i * 100 + j)),
                &unmerged(),
            ),
        ),
    ]
}

/// Factorizes, and compares with the CPU.
pub fn check_factorization<T: RealDeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    limits: Limits,
    what: &str,
) -> (DeviceFrontalLdlt<T>, DeviceSymmetricQuality) {
    let (factors, quality) = problem.factorize::<T>(stream, limits, &STOP).unwrap();
    check(stream, problem, &factors, &quality, what);
    assert_eq!(quality.inertia, problem.on_host(&STOP).inertia, "{what}");
    assert_eq!(quality, *factors.quality());
    (factors, quality)
}

#[test]
fn ldlt_fronts_of_named_matrices() {
    for (schedule, stream) in streams().iter().enumerate() {
        for (at, (name, problem)) in named_problems().iter().enumerate() {
            // After the first schedule they take turns.
            if schedule == 0 || (schedule + at) % 3 == 0 {
                check_factorization::<f64>(stream, problem, Limits::default(), name);
            }
            if schedule == 0 {
                check_factorization::<f32>(stream, problem, Limits::default(), name);
            }
        }
    }
}

#[test]
fn every_way_to_work_on_a_symmetric_front_does_alone() {
    let stream = &streams()[0];
    for (at, (name, problem)) in named_problems().iter().enumerate() {
        for limits in all_limits().into_iter().skip(1 + at % 2).step_by(2) {
            check_factorization::<f64>(stream, problem, limits, &format!("{name}, {limits:?}"));
        }
    }
}

#[test]
fn symmetric_fronts_of_every_order() {
    let stream = &streams()[0];
    let orders = (1..=18).chain([31, 32, 33, 63, 64, 65, 94, 95, 96]);
    for n in orders {
        let problem = problem(dense(n), &TreeOptions::default());
        if n > 1 {
            check_factorization::<f64>(stream, &problem, Limits::default(), &n.to_string());
        }
    }
}

#[test]
fn symmetric_tiled_fronts_of_orders_around_tiles() {
    let stream = &streams()[0];
    let [_, _, tiled, ..] = all_limits();
    for n in [2, 30, 63, 64, 65, 127, 128, 129, 150, 193] {
        let problem = problem(dense(n), &TreeOptions::default());
        check_factorization::<f64>(stream, &problem, tiled, &n.to_string());
    }
}

#[test]
fn symmetric_tiles_with_rows_below() {
    let stream = &streams()[0];
    for (k, c) in [(3, 5), (64, 3), (65, 64), (100, 70), (130, 130)] {
        let value = |_, i: usize, j: usize| uniform(2, i * 200 + j);
        let problem = problem(joined(&[k, 7], c, value), &unmerged());
        let [default, _, gathered, pieces, _] = all_limits();
        for limits in [default, gathered, pieces] {
            let what = format!("{k} and {c}, {limits:?}");
            check_factorization::<f64>(stream, &problem, limits, &what);
        }
    }
}

/// Two fronts below one of `c` pivots, the first with `k` pivots, which are all zero, and have nonzeros in the rows below only.
fn without_first_pivots(k: usize, c: usize) -> Problem {
    let value = |block, i: usize, j: usize| {
        if block == 0 {
            0.0
        } else {
            uniform(2, i * 200 + j)
        }
    };
    problem(joined(&[k, 4], c, value), &unmerged())
}

/// Every column of a front is delayed.
#[test]
fn columns_without_a_pivot_are_delayed() {
    for (k, c) in [(1, 4), (3, 10), (9, 12), (20, 40), (50, 60), (100, 110)] {
        let problem = without_first_pivots(k, c);
        let streams = seeded_streams();
        for (limits, stream) in all_limits().into_iter().zip(streams.iter().cycle()) {
            let what = format!("{k} and {c}, {limits:?}");
            let (factors, quality) = check_factorization::<f64>(stream, &problem, limits, &what);
            assert!(quality.num_delayed >= k, "{what}: {quality:?}");
            assert_eq!(factors.num_delayed(), quality.num_delayed);
            assert_eq!(factors.rank(), problem.n);
        }
    }
}

/// Zero after an elimination, and as it comes.
#[test]
fn a_pivot_of_zero_is_not_positive() {
    let stream = &streams()[0];
    for (entries, zero) in [
        ([(0, 0, 1.0), (0, 1, 1.0), (1, 1, 1.0)], 1),
        ([(0, 0, 0.0), (0, 1, 0.0), (1, 1, 1.0)], 0),
    ] {
        let problem = Problem::new(2, entries, &TreeOptions::default());
        for limits in all_limits() {
            let made = problem.factorize::<f64>(stream, limits, &PivotPolicy::DEFINITE);
            let error = made.map(|(_, quality)| quality).unwrap_err();
            let DeviceFrontalError::NotPositiveDefinite { column, value } = error else {
                panic!("{limits:?}: {error}")
            };
            assert_eq!((column, value), (zero, 0.0), "{limits:?}");
        }
    }
}

/// A pivot of order 2 with the largest entry of a column is not acceptable if the second largest leads to a large entry of L.
#[test]
fn all_entries_of_a_column_count_in_a_pivot_of_order_two() {
    let entries = [
        (0, 1, 0.9),
        (0, 2, 1.0),
        (1, 2, 0.1),
        (2, 2, 1000.0),
        (0, 0, 0.0),
        (1, 1, 0.0),
    ];
    let problem = Problem::new(3, entries, &TreeOptions::default());
    let stream = &streams()[0];
    for limits in all_limits() {
        let what = format!("{limits:?}");
        let (_, quality) = check_factorization::<f64>(stream, &problem, limits, &what);
        assert!(quality.max_l < 2.0, "{what}: {quality:?}");
    }
}

/// A pivot that was large and is zero now does not serve, though its column would be small beside it.
#[test]
fn a_zero_pivot_with_a_column_does_not_serve() {
    let stream = &streams()[0];
    let value = |_, i: usize, j: usize| if i == j { 4.0 } else { 1.0 };
    for (k, c) in [(2, 3), (20, 30), (70, 20)] {
        let problem = problem(joined(&[k, 4], c, value), &unmerged());
        let other = problem.with(|i, j, v| if (i, j) == (0, 0) { 0.0 } else { v });
        for limits in all_limits() {
            let what = format!("{k} and {c}, {limits:?}");
            let (mut factors, _) = problem.factorize::<f64>(stream, limits, &STOP).unwrap();
            let quality = other.refactorize(stream, limits, &mut factors, &STOP);
            check(stream, &other, &factors, &quality.unwrap(), &what);
        }
    }
}

/// A column that nothing but the root has a pivot for passes all fronts of a path.
#[test]
fn columns_are_delayed_again_and_again() {
    // A path of fronts, whose first columns have nonzeros in the last column alone.
    let n = 40;
    let mut entries = Vec::new();
    for i in 0..n {
        entries.push((i, i, if i < 2 { 0.0 } else { 4.0 }));
        if i + 1 < n {
            entries.push((i, i + 1, if i < 2 { 0.0 } else { 1.0 }));
        }
        if i < 2 {
            entries.push((i, n - 2 + i, 1.0));
        }
    }
    let problem = problem(entries, &unmerged());
    for stream in seeded_streams().iter().take(2) {
        let what = "a path";
        let (_, quality) = check_factorization::<f64>(stream, &problem, Limits::default(), what);
        assert!(quality.num_delayed > 2, "{quality:?}");
    }
}

/// Saddle points in orders that meet zeros on the diagonal first: trees are planned anew a few times, not for each column.
#[test]
fn delays_take_few_rounds() {
    let stream = &seeded_streams()[0];
    for (name, a) in [
        ("saddle point", saddle_point(120, 50, 3)),
        ("interior point", interior_point_kkt(80, 40, 1e-4, 5)),
        ("Stokes", stokes(5, 5)),
        ("Darcy", darcy(5, 5, 2)),
    ] {
        let n = a.rows();
        let entries = a.iter().map(|(&v, (i, j))| (n - 1 - i, n - 1 - j, v));
        let problem = Problem::new(n, entries, &TreeOptions::default());
        let limits = Limits::default();
        let tree = Arc::new(problem.uploaded(stream, &problem.symbolic, limits));
        let values = stream.upload(&problem.values).unwrap();
        let rounds = std::cell::Cell::new(0);
        let upload = |moved: MovedTree<'_, Lower>| {
            rounds.set(rounds.get() + 1);
            Ok(problem.uploaded(stream, &moved.symbolic(1)?, limits))
        };
        let made = DeviceFrontalLdlt::<f64>::factorize(stream, &tree, &values, &ACCEPT, &upload);
        let (factors, quality) = made.unwrap();
        check(stream, &problem, &factors, &quality, name);
        // The threshold by which the device searches.
        let on_host = problem.on_host(&PivotPolicy {
            kind: PivotKind::Symmetric {
                threshold: 1.25 * U,
                method: SymmetricPivoting::Columns,
            },
            ..ACCEPT
        });
        assert_eq!(quality.inertia, on_host.inertia, "{name}");
        // The search of the CPU has other columns to choose from, and puts off about as many.
        assert!(
            quality.num_delayed <= on_host.num_delayed + on_host.num_delayed / 4,
            "{name}: {} delays, {} on the CPU",
            quality.num_delayed,
            on_host.num_delayed
        );
        assert!(rounds.get() <= 4, "{name}: {} rounds", rounds.get());
        // Once columns have moved, the same values need no other plan.
        rounds.set(0);
        let beside = factors.factorize_beside(stream, &values, &ACCEPT, &upload);
        let (beside, again) = beside.unwrap();
        assert_eq!((again, rounds.get()), (quality, 0), "{name}");
        assert!(Arc::ptr_eq(beside.tree(), factors.tree()), "{name}");
        check(stream, &problem, &beside, &again, name);
    }
}

/// A tile on the diagonal of zeros: its columns have pivots with those of other tiles.
#[test]
fn columns_of_a_tile_without_pivots_are_mixed_with_others() {
    let stream = &seeded_streams()[0];
    let [_, _, tiled, ..] = all_limits();
    for n in [100, 128, 150, 200] {
        let value = |block, i: usize, j: usize| {
            if block == 0 && i < n / 2 && j < n / 2 {
                0.0
            } else {
                uniform(1, i * n + j)
            }
        };
        // At a root, and below one.
        for (pivots, c) in [(&[][..], n), (&[n][..], 20)] {
            let problem = problem(joined(pivots, c, value), &unmerged());
            check_factorization::<f64>(stream, &problem, tiled, &format!("{n}, {pivots:?}"));
        }
    }
}

/// Streams of the devices of other tests, and of one on which one block is resident.
fn few_and_many_blocks() -> Vec<Stream> {
    let mut streams = seeded_streams();
    if luge_tests::backend() == Backend::Simulator {
        let mut options = SimulatorOptions::with_seed(luge_tests::SEEDS[0]);
        options.simulator.resident_blocks = 1;
        streams.push(Device::simulator(options).create_stream().unwrap());
    }
    streams
}

#[test]
fn refactorizing_symmetric_fronts_repeats_the_bits_whatever_the_schedule() {
    for (name, problem) in named_problems().into_iter().skip(4) {
        let mut bits: Option<(Vec<f64>, Vec<f64>)> = None;
        for stream in few_and_many_blocks() {
            let limits = Limits::default();
            let (mut factors, quality) = problem.factorize::<f64>(&stream, limits, &STOP).unwrap();
            let download = |factors: &DeviceFrontalLdlt<f64>| {
                let panels = stream.download(factors.factors()).unwrap();
                (panels, stream.download(factors.diagonal()).unwrap())
            };
            let first = download(&factors);
            let again = problem
                .refactorize(&stream, limits, &mut factors, &STOP)
                .unwrap();
            assert_eq!(
                (again, download(&factors)),
                (quality, first.clone()),
                "{name}"
            );
            assert_eq!(*bits.get_or_insert_with(|| first.clone()), first, "{name}");
        }
    }
}

#[test]
fn other_values_have_the_pivots_that_serve_or_others() {
    let stream = &seeded_streams()[0];
    for (name, problem) in named_problems().into_iter().skip(1) {
        let limits = Limits::default();
        let (mut factors, _) = problem.factorize::<f64>(stream, limits, &STOP).unwrap();
        let tree = Arc::clone(factors.tree());
        let alike = problem.with(|i, j, v| v * (1.0 + 1e-3 * uniform(11, i * 500 + j)));
        let quality = alike
            .refactorize(stream, limits, &mut factors, &STOP)
            .unwrap();
        check(stream, &alike, &factors, &quality, name);
        assert!(
            Arc::ptr_eq(&tree, factors.tree()),
            "{name}: the tree is kept"
        );
        // Other pivots, zeros among them.
        let unlike = problem.with(|i, j, v| {
            if i == j && i % 4 == 1 {
                0.0
            } else {
                v * (1.0 + uniform(12, i * 500 + j))
            }
        });
        let quality = unlike
            .refactorize(stream, limits, &mut factors, &STOP)
            .unwrap();
        check(stream, &unlike, &factors, &quality, name);
        assert_eq!(quality.inertia, unlike.on_host(&STOP).inertia, "{name}");
        let values = stream.upload(&unlike.values).unwrap();
        factors.begin_refactorize(stream, &values, &STOP).unwrap();
        assert_eq!(factors.report(stream).unwrap(), Some(quality), "{name}");
    }
}

/// Pairs whose columns have no other candidate: where the two are in different tiles of a front, the search fails at them and
/// they move; where the pairs are told, no column moves.
#[test]
fn pairs_that_are_told_are_found_in_their_tiles() {
    let stream = &seeded_streams()[0];
    let limits = Limits::default();
    let n = 200;
    // A single column at either end.
    let starts: Vec<u32> = (1..n as u32 - 2).step_by(2).collect();
    let entries = dense(n).into_iter().map(|(i, j, v)| {
        let value = match (i.min(j), i.max(j)) {
            (i, j) if i == j => f64::from(i == 0 || i == n - 1),
            (i, j) if i % 2 == 1 && j == i + 1 => 4.0,
            _ => 1e-3 * v,
        };
        (i, j, value)
    });
    let untold = Problem::new(n, entries, &TreeOptions::default());
    let forest = EliminationForest {
        parent: (1..n as u32).chain([u32::MAX]).collect(),
        counts: (1..=n as u32).rev().collect(),
    };
    let columns = Arc::new(untold.columns.clone());
    let pairs = Pairs::on_device(&starts);
    let options = TreeOptions::default();
    let symbolic = Symbolic::analyze_pairs(columns, &forest, pairs, &options, 1).unwrap();
    assert_eq!(symbolic.tree().num_supernodes(), 1);
    let told = Problem {
        symbolic: Arc::new(symbolic),
        ..untold.with(|_, _, v| v)
    };
    for (problem, is_told) in [(untold, false), (told, true)] {
        let tree = Arc::new(problem.uploaded(stream, &problem.symbolic, limits));
        let values = stream.upload(&problem.values).unwrap();
        let upload = |moved: MovedTree<'_, Lower>| {
            assert!(!is_told, "a column has moved");
            Ok(problem.uploaded(stream, &moved.symbolic(1)?, limits))
        };
        let found = DeviceFrontalLdlt::<f64>::factorize(stream, &tree, &values, &STOP, &upload);
        let (factors, quality) = found.unwrap();
        check(stream, &problem, &factors, &quality, "pairs");
        assert_eq!(Arc::ptr_eq(factors.tree(), &tree), is_told);
    }
}

/// A search with other values keeps the pivots that serve them, and finds others where they do not: within a panel and where
/// panels meet, in fronts of each kind, with a partner beside the column and with one that changes places with others.
#[test]
fn a_search_keeps_the_pivots_that_serve() {
    let stream = &seeded_streams()[0];
    let never = |_: MovedTree<'_, Lower>| panic!("a column has moved");
    for (n, limits) in [
        (14, Limits::default()),
        (14, all_limits()[1]),
        (60, Limits::default()),
        (130, all_limits()[2]),
    ] {
        let ones = nearly_one(n);
        let values = stream.upload(&ones.values).unwrap();
        let (of_ones, quality) = ones.factorize::<f64>(stream, limits, &STOP).unwrap();
        assert_eq!(quality.num_two, 0);
        for (p, t) in [(0, 1), (3, 7), (7, 8), (8, 12), (n - 2, n - 1)] {
            let what = format!("{n}, {p} and {t}, {limits:?}");
            let with_pair = with_pair(&ones, p, t);
            let others = stream.upload(&with_pair.values).unwrap();
            let beside = of_ones.factorize_beside(stream, &others, &STOP, &never);
            let (mut factors, quality) = beside.unwrap();
            check(stream, &with_pair, &factors, &quality, &what);
            assert_eq!(quality.num_two, 1, "{what}");
            assert!(factors.needs_search(), "{what}");
            let places = stream.download(factors.row_places()).unwrap();
            let stay = places
                .iter()
                .enumerate()
                .filter(|&(e, &at)| e == at as usize);
            // One has gone beside its partner, which the one there made room for.
            let expected = if t == p + 1 { n } else { n - 2 };
            assert_eq!(stay.count(), expected, "{what}");
            // The same values once more: all is kept, and so are the bits.
            let bits = stream.download(factors.factors()).unwrap();
            let again = factors.refactorize(stream, &others, &STOP, &never).unwrap();
            assert_eq!(again, quality, "{what}");
            assert!(!factors.needs_search(), "{what}");
            assert_eq!(stream.download(factors.factors()).unwrap(), bits, "{what}");
            // One whose first column of L is small, and the second is not.
            if t == p + 1 && t + 1 < n {
                let skewed = with_pair.with(|i, j, v| match (i.max(j), i.min(j)) {
                    (i, j) if (i, j) == (p, p) => 1000.0,
                    (i, j) if (i, j) == (t + 1, t) => 1.0,
                    _ => v,
                });
                let others = stream.upload(&skewed.values).unwrap();
                let beside = factors.factorize_beside(stream, &others, &STOP, &never);
                let (skewed_factors, quality) = beside.unwrap();
                check(stream, &skewed, &skewed_factors, &quality, &what);
            }
            // A pivot of order 2 that is none any more.
            let near = with_pair.with(|i, j, v| match (i == p || i == t, j == p || j == t) {
                (true, true) if i == j => 1.0,
                (true, true) => 0.98,
                _ => v,
            });
            let others = stream.upload(&near.values).unwrap();
            let quality = factors.refactorize(stream, &others, &STOP, &never).unwrap();
            check(stream, &near, &factors, &quality, &what);
            assert_eq!(quality.num_two, 0, "{what}");
            // A column that has given its place away is named by its own number.
            let broken = with_pair.with(|i, j, v| if i == p + 1 && i == j { f64::NAN } else { v });
            let others = stream.upload(&broken.values).unwrap();
            for _ in 0..2 {
                match factors.refactorize(stream, &others, &STOP, &never) {
                    Err(DeviceFrontalError::NotFinite { column }) if column == p + 1 => {}
                    other => panic!("{what}: {other:?}"),
                }
            }
            // What was known of ones serves them.
            let beside = of_ones.factorize_beside(stream, &values, &STOP, &never);
            assert!(!beside.unwrap().0.needs_search(), "{what}");
        }
    }
}

/// After a search that ends with an error, pivots in the order of the tree are known, to a launch and to solves.
#[test]
fn a_failed_search_leaves_the_order_of_the_tree() {
    let stream = &seeded_streams()[0];
    let never = |_: MovedTree<'_, Lower>| panic!("a column has moved");
    let n = 14;
    let ones = nearly_one(n);
    let with_pair = with_pair(&ones, 3, 7);
    let broken = with_pair.with(|i, j, v| if i == 5 && j == 5 { f64::NAN } else { v });
    let limits = Limits::default();
    let (mut factors, _) = with_pair.factorize::<f64>(stream, limits, &STOP).unwrap();
    let values = stream.upload(&broken.values).unwrap();
    let failed = factors.refactorize(stream, &values, &STOP, &never);
    assert!(matches!(
        failed,
        Err(DeviceFrontalError::NotFinite { column: 5 })
    ));
    let values = stream.upload(&ones.values).unwrap();
    let quality = factors.refactorize(stream, &values, &STOP, &never).unwrap();
    assert_eq!(quality.num_two, 0);
    let exact = |i: usize| 1.0 + i as f64;
    let dense = ones.dense();
    let product = |row: &Vec<f64>| row.iter().enumerate().map(|(j, v)| v * exact(j)).sum();
    let b: Vec<f64> = dense.iter().map(product).collect();
    let mut x = stream.upload(&b).unwrap();
    factors.solve(stream, &mut x, 1).unwrap();
    for (i, x) in stream.download(&x).unwrap().into_iter().enumerate() {
        assert!((x - exact(i)).abs() < 1e-12, "unknown {i}: {x}");
    }
}

/// L of a pivot of order 2 is bounded by all entries of its columns, also those that the lane of the largest has seen before.
#[test]
fn a_partner_with_a_large_pivot_does_not_serve() {
    let stream = &seeded_streams()[0];
    for (n, limits) in [
        (14, Limits::default()),
        (60, Limits::default()),
        (130, all_limits()[2]),
    ] {
        let ones = nearly_one(n);
        for t in [2, 3, 5, 9, 17, 33].into_iter().filter(|&t| t < n) {
            let what = format!("{n}, {t}, {limits:?}");
            // With columns 0 and t as a pivot, row 1 of L has 1000/1.5².
            let large = ones.with(|i, j, _| match (i.max(j), i.min(j)) {
                (0, 0) => 0.0,
                (1, 0) => 1.0,
                (i, 0) if i == t => 1.5,
                (i, j) if i == j => {
                    if i == t {
                        1000.0
                    } else {
                        1.0
                    }
                }
                _ => 0.0,
            });
            let (factors, quality) = large.factorize::<f64>(stream, limits, &STOP).unwrap();
            check(stream, &large, &factors, &quality, &what);
            assert_eq!(quality.num_two, 0, "{what}");
        }
    }
}

/// A launch with known pivots that serve ends the habit of searching, however it is made.
#[test]
fn known_pivots_that_serve_are_tried_again() {
    let stream = &seeded_streams()[0];
    let never = |_: MovedTree<'_, Lower>| panic!("a column has moved");
    let of = |d: f64| {
        let entries = vec![(0, 0, d), (1, 0, 1.0), (1, 1, d)];
        problem(entries, &TreeOptions::default())
    };
    let limits = Limits::default();
    let (ones, _) = of(4.0).factorize::<f64>(stream, limits, &STOP).unwrap();
    let others = stream.upload(&of(0.0).values).unwrap();
    let (mut factors, quality) = ones
        .factorize_beside(stream, &others, &STOP, &never)
        .unwrap();
    assert_eq!(quality.num_two, 1);
    assert!(factors.needs_search() && !ones.needs_search());
    factors.begin_refactorize(stream, &others, &STOP).unwrap();
    assert_eq!(factors.report(stream).unwrap(), Some(quality));
    assert!(!factors.needs_search());
    // The pivot of order 2 comes apart, and serves as two of order 1, which it is then.
    let apart = of(3.0).with(|i, j, v| if i == j { v } else { 0.0 });
    let values = stream.upload(&apart.values).unwrap();
    let quality = factors.refactorize(stream, &values, &STOP, &never).unwrap();
    check(stream, &apart, &factors, &quality, "apart");
    assert_eq!((quality.num_two, quality.inertia.positive), (0, 2));
    assert!(!factors.needs_search());
}

/// A pivot that serves the tile on the diagonal and not those below: before its column moves, others are searched there.
#[test]
fn columns_do_not_move_for_pivots_of_other_values() {
    let stream = &seeded_streams()[0];
    let never = |_: MovedTree<'_, Lower>| panic!("a column has moved");
    let limits = all_limits()[2];
    let ones = nearly_one(130);
    let (factors, quality) = ones.factorize::<f64>(stream, limits, &STOP).unwrap();
    assert_eq!(quality.num_two, 0);
    // L has 5 in the tile and 100 below it; of a pivot of order 2 with column 9, 25.
    let others = ones.with(|i, j, v| match (i, j) {
        (5, 5) => 0.2,
        (5, 9) => 1.0,
        (5, 100) => 20.0,
        _ => v,
    });
    let values = stream.upload(&others.values).unwrap();
    let beside = factors.factorize_beside(stream, &values, &STOP, &never);
    let (factors, quality) = beside.unwrap();
    check(stream, &others, &factors, &quality, "a tile");
    assert_eq!((quality.num_two, quality.num_delayed), (1, 0));
}

/// A pivot that leads to larger entries of L than a search wants without a look at the tiles below, and smaller ones than
/// the threshold allows, is kept where all rows are seen.
#[test]
fn known_pivots_of_tiles_have_a_bound_of_their_own() {
    let stream = &seeded_streams()[0];
    let never = |_: MovedTree<'_, Lower>| panic!("a column has moved");
    for (n, limits, num_two) in [(130, all_limits()[2], 1), (60, Limits::default(), 0)] {
        let ones = nearly_one(n);
        let (factors, _) = ones.factorize::<f64>(stream, limits, &STOP).unwrap();
        // L has 20.
        let others = ones.with(|i, j, v| match (i, j) {
            (5, 5) => 0.05,
            (5, 9) => 1.0,
            _ => v,
        });
        let values = stream.upload(&others.values).unwrap();
        let beside = factors.factorize_beside(stream, &values, &STOP, &never);
        let (factors, quality) = beside.unwrap();
        check(stream, &others, &factors, &quality, "known pivots");
        assert_eq!(quality.num_two, num_two, "{n}");
    }
}

/// A pivot of order 2 with equal entries on the diagonal, and whether it still serves when these are others.
#[test]
fn known_pivots_of_order_two_serve_until_their_determinants_are_rounding() {
    let stream = &seeded_streams()[0];
    let of = |d: f64| {
        let entries = vec![(0, 0, d), (1, 0, 2.0), (1, 1, d)];
        problem(entries, &TreeOptions::default())
    };
    let (mut factors, quality) = of(1.0)
        .factorize::<f64>(stream, Limits::default(), &STOP)
        .unwrap();
    assert_eq!(quality.num_two, 1);
    // The determinant d² − 4 beside its larger product, 4.
    for (d, serves) in [
        (1.5, true),
        (-1.5, true),
        (1.9, true),
        (1.95, false),
        (2.0, false),
    ] {
        let values = stream.upload(&of(d).values).unwrap();
        factors.begin_refactorize(stream, &values, &STOP).unwrap();
        let report = factors.report(stream).unwrap();
        assert_eq!(report.is_some(), serves, "{d}");
        let inertia = report.map(|quality| (quality.inertia.positive, quality.inertia.negative));
        assert!(inertia.is_none_or(|inertia| inertia == (1, 1)), "{d}");
    }
}

/// A pivot that just reaches the threshold would not serve values that are a little different.
#[test]
fn pivots_are_searched_by_a_stricter_threshold_than_they_are_kept_by() {
    let stream = &seeded_streams()[0];
    // The first column has no pivot of order 2, for the entry in the last row; without it, the others are one.
    let largest = |ratio: f64| {
        let pivot = (0, 0, ratio * U);
        let entries = vec![pivot, (1, 0, 1.0), (1, 1, 0.0), (2, 1, 1e4), (2, 2, 1.0)];
        let problem = problem(entries, &TreeOptions::default());
        let made = problem.factorize::<f64>(stream, Limits::default(), &STOP);
        made.unwrap().1.max_l
    };
    assert!(largest(1.2) < 0.1);
    let expected = 1.0 / (1.3 * U);
    assert!((largest(1.3) - expected).abs() < 1e-12 * expected);
}

/// Rows and columns of zeros in fronts of each kind.
fn with_zeros(columns: &[usize]) -> Problem {
    let mut entries = Vec::new();
    let mut start = 0;
    for n in [12, 40, 100] {
        for i in 0..n {
            for j in 0..=i {
                let is_zero = columns.contains(&(start + i)) || columns.contains(&(start + j));
                let value = if is_zero { 0.0 } else { uniform(1, i * n + j) };
                entries.push((start + i, start + j, value));
            }
        }
        start += n;
    }
    problem(entries, &TreeOptions::default())
}

#[test]
fn zero_pivots_are_counted_or_refused() {
    let stream = &seeded_streams()[0];
    for columns in [
        &[5][..],
        &[30],
        &[60],
        &[140],
        &[0, 11, 12, 51, 52, 115, 116, 151],
    ] {
        let problem = with_zeros(columns);
        let (factors, quality) = problem
            .factorize::<f64>(stream, Limits::default(), &ACCEPT)
            .unwrap();
        check(stream, &problem, &factors, &quality, "zeros");
        let on_host = problem.on_host(&ACCEPT);
        assert_eq!(quality.num_zero, columns.len());
        assert_eq!(quality.inertia, on_host.inertia);
        assert_eq!(factors.rank(), problem.n - columns.len());
        assert!(
            quality
                .first_zero
                .is_some_and(|first| columns.contains(&first)),
            "{quality:?}"
        );
        match problem.factorize::<f64>(stream, Limits::default(), &STOP) {
            Err(DeviceFrontalError::ZeroPivot { column }) => {
                assert!(columns.contains(&column), "{column} of {columns:?}");
            }
            other => panic!("{columns:?}: {:?}", other.map(|(_, quality)| quality)),
        }
    }
}

/// What is smaller than a part of the largest entry is a zero pivot, whatever the scale.
#[test]
fn small_columns_are_zero_pivots() {
    let stream = &seeded_streams()[0];
    let problem =
        with_zeros(&[5, 30, 140]).with(|i, j, v| if i == j && v == 0.0 { 1e-16 } else { v });
    assert!((0.99..1.0).contains(&problem.max_b()));
    for (factor, is_near_one) in [
        (1.0, true),
        (0.375, true),
        (0.125, false),
        (4.25, false),
        (2f64.powi(30), false),
        (2f64.powi(-30), false),
    ] {
        let scaled = problem.with(|_, _, v| v * factor);
        let (mut factors, quality) = scaled
            .factorize::<f64>(stream, Limits::default(), &ACCEPT)
            .unwrap();
        assert_eq!((quality.num_zero, quality.inertia.zero), (3, 3));
        check(stream, &scaled, &factors, &quality, "small columns");
        let scale = if is_near_one { 1.0 } else { scaled.max_b() };
        assert_eq!(factors.scale(), scale, "{factor}");
        let larger = scaled.with(|_, _, v| v * 1024.0);
        let quality = larger
            .refactorize(stream, Limits::default(), &mut factors, &ACCEPT)
            .unwrap();
        assert_eq!(quality.num_zero, 3);
        let quality = larger
            .refactorize(stream, Limits::default(), &mut factors, &STOP)
            .unwrap();
        assert_eq!(quality.num_zero, 0);
    }
}

pub fn definite(n: usize) -> Vec<(usize, usize, f64)> {
    joined(&[5, 30], n, |_, i, j| {
        if i == j {
            2.0 * n as f64
        } else {
            uniform(1, i * n + j)
        }
    })
}

#[test]
fn definite_matrices_have_positive_pivots_in_their_order() {
    for stream in &streams() {
        let problem = problem(definite(100), &unmerged());
        for limits in all_limits() {
            let (factors, quality) = problem
                .factorize::<f64>(stream, limits, &PivotPolicy::DEFINITE)
                .unwrap();
            check(stream, &problem, &factors, &quality, "definite");
            assert_eq!(quality.inertia.positive, problem.n);
            assert_eq!((quality.num_two, quality.num_delayed), (0, 0));
        }
    }
}

#[test]
fn the_first_pivot_that_is_not_positive_is_named() {
    let stream = &seeded_streams()[0];
    let whole = problem(definite(100), &unmerged());
    for columns in [&[3][..], &[20], &[50], &[120, 134], &[134, 20]] {
        for of_value in [-5.0, 0.0] {
            let problem = whole.with(|i, j, v| {
                if i == j && columns.contains(&i) {
                    of_value
                } else {
                    v
                }
            });
            let options = Options {
                pivots: PivotPolicy::DEFINITE,
                ..Options::default()
            };
            let expected =
                FrontalLdlt::<f64>::factorize(&problem.symbolic, &problem.values, &options);
            let (expected, expected_value) = match expected {
                Err(luge_frontal::FrontalError::NotPositiveDefinite { column, value }) => {
                    (column, value)
                }
                other => panic!("{:?}", other.map(|(_, quality)| quality)),
            };
            match problem.factorize::<f64>(stream, Limits::default(), &PivotPolicy::DEFINITE) {
                Err(DeviceFrontalError::NotPositiveDefinite { column, value }) => {
                    assert_eq!(column, expected, "{columns:?}");
                    assert!((value - expected_value).abs() < 1e-10, "{value}");
                }
                other => panic!("{columns:?}: {:?}", other.map(|(_, quality)| quality)),
            }
        }
    }
    // Factors of a definite matrix and of others take turns.
    let limits = Limits::default();
    let (mut factors, first) = whole
        .factorize::<f64>(stream, limits, &PivotPolicy::DEFINITE)
        .unwrap();
    let other = whole.with(|i, j, v| if i == j && i % 3 == 0 { 0.0 } else { v });
    let quality = other
        .refactorize(stream, limits, &mut factors, &STOP)
        .unwrap();
    check(stream, &other, &factors, &quality, "indefinite");
    let again = whole
        .refactorize(stream, limits, &mut factors, &PivotPolicy::DEFINITE)
        .unwrap();
    assert_eq!(again.inertia, first.inertia);
    check(stream, &whole, &factors, &again, "definite again");
}

#[test]
fn values_that_are_not_finite_are_refused() {
    let stream = &seeded_streams()[0];
    for value in [f64::INFINITY, f64::NAN] {
        for column in [3, 20, 50, 130] {
            let problem = problem(definite(100), &unmerged());
            let problem =
                problem.with(|i, j, v| if i == column && j == column { value } else { v });
            for pivots in [STOP, ACCEPT, PivotPolicy::DEFINITE] {
                match problem.factorize::<f64>(stream, Limits::default(), &pivots) {
                    Err(DeviceFrontalError::NotFinite { column: named, .. }) => {
                        assert_eq!(named, column, "{value}, {pivots:?}");
                    }
                    other => panic!("{value}, {column}: {:?}", other.map(|(_, quality)| quality)),
                }
            }
        }
    }
}

#[test]
fn nothing_has_no_pivots() {
    let stream = &seeded_streams()[0];
    let problem = Problem::new(0, [], &TreeOptions::default());
    for pivots in [STOP, ACCEPT, PivotPolicy::DEFINITE] {
        let (mut factors, quality) = problem
            .factorize::<f64>(stream, Limits::default(), &pivots)
            .unwrap();
        assert_eq!(quality, DeviceSymmetricQuality::default());
        check(stream, &problem, &factors, &quality, "nothing");
        let again = problem.refactorize(stream, Limits::default(), &mut factors, &pivots);
        assert_eq!(again.unwrap(), quality);
    }
}

/// Factors, workspaces and trees take what is said before they are there.
#[test]
fn symmetric_factors_take_what_was_predicted() {
    let stream = &seeded_streams()[0];
    let device = stream.device();
    for (name, problem) in named_problems() {
        // No column moves.
        let problem = problem.with(|i, j, v| if i == j { 300.0 } else { v });
        let symbolic = &problem.symbolic;
        let memory = MemoryPlan::new(symbolic);
        let before = device.allocated_bytes();
        let tree = Arc::new(problem.uploaded(stream, symbolic, Limits::default()));
        let of_tree = device.allocated_bytes() - before;
        let values = stream.upload(&problem.values).unwrap();
        let before = device.allocated_bytes();
        let workspace = Arc::new(Workspace::<f64>::new(stream, &tree).unwrap());
        let of_workspace = device.allocated_bytes() - before;
        let predicted = DeviceTree::workspace_bytes(symbolic, &memory, 8);
        let of_reports = 4 * state::LEN + 8 * report::NUM_EXTREMES;
        let of_rest = (of_reports + 2 * 4 * CONTROL_WORDS) as u64;
        assert_eq!(of_workspace, predicted + of_rest, "{name}");

        let before = device.allocated_bytes();
        let never = |_: MovedTree<'_, Lower>| panic!("{name}: a column has moved");
        let factors =
            DeviceFrontalLdlt::factorize_in(&workspace, stream, &tree, &values, &STOP, &never);
        let (_factors, _) = factors.unwrap();
        let of_factors = device.allocated_bytes() - before;
        assert_eq!(of_factors, DeviceTree::factor_bytes(symbolic, 8), "{name}");
        if problem.n > 100 {
            let predicted = DeviceTree::predicted_bytes(symbolic, &memory, 8)
                - predicted
                - DeviceTree::factor_bytes(symbolic, 8);
            let ratio = of_tree as f64 / predicted as f64;
            assert!(
                (0.8..1.3).contains(&ratio),
                "{name}: {of_tree} bytes, {ratio:.3}"
            );
        }
    }
}

/// While columns move to another tree, neither the factors of the one before have memory, nor its elements; those get it again once they
/// are needed.
#[test]
fn a_search_holds_the_factors_of_one_tree() {
    let stream = &seeded_streams()[0];
    let device = stream.device();
    let problem = without_first_pivots(100, 110);
    let limits = Limits::default();
    let values = stream.upload(&problem.values).unwrap();
    let start = device.allocated_bytes();
    let tree = Arc::new(problem.uploaded(stream, &problem.symbolic, limits));
    let workspace = Arc::new(Workspace::<f64>::new(stream, &tree).unwrap());
    let before = device.allocated_bytes();
    let of_plan = before - start;
    device.reset_peak();
    let upload =
        |moved: MovedTree<'_, Lower>| Ok(problem.uploaded(stream, &moved.symbolic(1)?, limits));
    let made = DeviceFrontalLdlt::factorize_in(&workspace, stream, &tree, &values, &STOP, &upload);
    let (factors, _) = made.unwrap();
    assert!(factors.num_delayed() > 0);
    let bits = stream.download(factors.factors()).unwrap();
    let left = device.allocated_bytes() - before;
    let beside = device.peak_bytes() - before - left;
    let of_factors = DeviceTree::factor_bytes(&problem.symbolic, 8);
    // The plan of a tree that is not the last one is there beside that of the next.
    let most = of_plan + of_factors / 2;
    assert!(beside < most, "{beside} bytes, {of_plan} and {of_factors}");
    drop(factors);
    let given_back = before - device.allocated_bytes();
    let of_elements =
        DeviceTree::workspace_bytes(&problem.symbolic, &MemoryPlan::new(&problem.symbolic), 8);
    assert!(
        2 * given_back > of_elements,
        "{given_back} bytes of {of_elements}"
    );
    let again = DeviceFrontalLdlt::factorize_in(&workspace, stream, &tree, &values, &STOP, &upload);
    let (again, _) = again.unwrap();
    assert!(bits == stream.download(again.factors()).unwrap());
}

/// Where there is no memory for the tree that columns are to move to, other values are factorized on the tree before.
#[test]
fn a_search_without_memory_is_followed_by_factorizations() {
    let stream = &seeded_streams()[0];
    let device = stream.device();
    let problem = without_first_pivots(100, 110);
    let limits = Limits::default();
    let other = problem.with(|i, j, v| if i == j { 300.0 } else { v });
    let (mut factors, _) = other.factorize::<f64>(stream, limits, &STOP).unwrap();
    let bits = stream.download(factors.factors()).unwrap();
    let values = stream.upload(&problem.values).unwrap();
    let upload = |moved: MovedTree<'_, Lower>| {
        let tree = problem.uploaded(stream, &moved.symbolic(1)?, limits);
        device.set_budget(Some(device.allocated_bytes()));
        Ok(tree)
    };
    let made = factors.refactorize(stream, &values, &STOP, &upload);
    device.set_budget(None);
    let error = made.unwrap_err();
    assert!(
        matches!(
            error,
            DeviceFrontalError::Device(DeviceError::OutOfMemory { .. })
        ),
        "{error}"
    );
    other
        .refactorize(stream, limits, &mut factors, &STOP)
        .unwrap();
    assert_eq!(stream.download(factors.factors()).unwrap(), bits);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ldlt_fronts_of_any_symmetric_matrix(a in symmetric_matrices(40), at in 0usize..5) {
        let stream = &streams()[0];
        let entries = a.iter().map(|(&v, (i, j))| (i, j, v));
        let problem = Problem::new(a.rows(), entries, &TreeOptions::default());
        let limits = all_limits()[at];
        let (factors, quality) = problem.factorize::<f64>(stream, limits, &ACCEPT).unwrap();
        check(stream, &problem, &factors, &quality, "any");
        let on_host = problem.on_host(&ACCEPT);
        // Whether what is left of a singular matrix is zero or its rounding depends on the order of pivots.
        if on_host.min_pivot.min(quality.min_pivot) > 1e-6 {
            prop_assert_eq!(quality.inertia, on_host.inertia);
        }
    }
}
