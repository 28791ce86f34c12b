//! The fronts against dense arithmetic: factors, solves, pivoting, reports, limits.

use std::sync::Arc;

use luge_frontal::{FrontalError, FrontalLu, FrontalScalar, Options, Tree, TreeOptions};
use luge_sparse::{CompressedPattern, Quality, Scalar};
use luge_testkit::strategies;
use proptest::prelude::*;

/// A square matrix by columns.
#[derive(Debug, Clone)]
struct Matrix {
    cols: CompressedPattern,
    values: Vec<f64>,
}

impl Matrix {
    fn from_entries(n: usize, mut entries: Vec<(usize, usize, f64)>) -> Self {
        entries.sort_by_key(|&(i, j, _)| (j, i));
        entries.dedup_by_key(|&mut (i, j, _)| (i, j));
        let mut ptr = vec![0u64; n + 1];
        for &(_, j, _) in &entries {
            ptr[j + 1] += 1;
        }
        for j in 0..n {
            ptr[j + 1] += ptr[j];
        }
        let idx = entries.iter().map(|e| e.0 as u32).collect();
        Self {
            cols: CompressedPattern::new(n, ptr, idx).unwrap(),
            values: entries.iter().map(|e| e.2).collect(),
        }
    }

    fn from_sprs(a: &sprs::CsMat<f64>) -> Self {
        let entries = a.iter().map(|(&v, (i, j))| (i, j, v)).collect();
        Self::from_entries(a.rows(), entries)
    }

    fn n(&self) -> usize {
        self.cols.major_dim()
    }

    fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        (0..self.n()).flat_map(move |j| {
            self.cols
                .range(j)
                .map(move |p| (self.cols.idx()[p] as usize, j, self.values[p]))
        })
    }

    fn dense(&self) -> Vec<Vec<f64>> {
        let mut dense = vec![vec![0.0; self.n()]; self.n()];
        for (i, j, v) in self.entries() {
            dense[i][j] = v;
        }
        dense
    }

    fn multiply(&self, x: &[f64], transpose: bool) -> Vec<f64> {
        let mut y = vec![0.0; self.n()];
        for (i, j, v) in self.entries() {
            if transpose {
                y[j] += v * x[i];
            } else {
                y[i] += v * x[j];
            }
        }
        y
    }

    fn column_norms(&self) -> Vec<f64> {
        let mut norms = vec![0.0; self.n()];
        for (_, j, v) in self.entries() {
            norms[j] += v.abs();
        }
        norms
    }

    fn tree(&self, options: &TreeOptions) -> Arc<Tree> {
        Arc::new(Tree::analyze(&self.cols, options).unwrap())
    }

    fn cast<F: Scalar>(&self) -> Vec<F> {
        self.values.iter().map(|&v| F::from_f64(v)).collect()
    }
}

/// A stream of numbers, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 / (1u64 << 53) as f64) * 2.0 - 1.0
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.next() + 1.0) / 2.0 * n as f64) as usize % n
    }
}

/// A grid of nx × ny points in a nested-dissection-like order would be better; the natural one gives
/// bands and wide fronts, which is what tests want.
fn grid(nx: usize, ny: usize, random: &mut Random) -> Matrix {
    let mut entries = Vec::new();
    let at = |x: usize, y: usize| x * ny + y;
    for x in 0..nx {
        for y in 0..ny {
            entries.push((at(x, y), at(x, y), 4.0 + random.next()));
            let mut edge = |a: usize, b: usize| {
                entries.push((a, b, -1.0 + 0.5 * random.next()));
                entries.push((b, a, -1.0 + 0.5 * random.next()));
            };
            if x + 1 < nx {
                edge(at(x, y), at(x + 1, y));
            }
            if y + 1 < ny {
                edge(at(x, y), at(x, y + 1));
            }
        }
    }
    Matrix::from_entries(nx * ny, entries)
}

/// Unsymmetric, with a dominant diagonal that a cyclic shift of some rows may spoil.
fn random_matrix(n: usize, per_column: usize, shuffle: bool, random: &mut Random) -> Matrix {
    let mut entries = Vec::new();
    for j in 0..n {
        entries.push((j, j, 3.0 * per_column as f64));
        for _ in 0..per_column {
            let i = random.below(n);
            if i != j {
                entries.push((i, j, random.next()));
            }
        }
    }
    if shuffle && n > 1 {
        for e in &mut entries {
            e.0 = (e.0 + 1 + e.0 % 2 * (n / 2)) % n;
        }
        // The map above is not one to one for every n; a permutation is.
        let mut image: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            image.swap(i, random.below(i + 1));
        }
        entries.clear();
        for j in 0..n {
            entries.push((image[j], j, 3.0 * per_column as f64));
            for _ in 0..per_column {
                let i = random.below(n);
                if i != image[j] {
                    entries.push((i, j, random.next()));
                }
            }
        }
    }
    Matrix::from_entries(n, entries)
}

/// [H Aᵀ; A 0] in an order that meets zero diagonals first.
fn saddle(n: usize, m: usize, random: &mut Random) -> Matrix {
    let mut entries = Vec::new();
    for i in 0..n {
        entries.push((m + i, m + i, 2.0 + random.next()));
        if i + 1 < n {
            let v = random.next();
            entries.push((m + i, m + i + 1, v));
            entries.push((m + i + 1, m + i, v));
        }
    }
    for c in 0..m {
        entries.push((c, c, 0.0));
        for t in 0..3 {
            let i = (c * n / m + t * 2 + random.below(2)) % n;
            let v = 1.0 + random.next();
            entries.push((c, m + i, v));
            entries.push((m + i, c, v));
        }
    }
    Matrix::from_entries(n + m, entries)
}

fn all_trees() -> Vec<TreeOptions> {
    let merge_much = TreeOptions {
        zero_fraction: 0.9,
        tiny_zero_fraction: 0.9,
        ..TreeOptions::default()
    };
    let merge_none = TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    };
    vec![TreeOptions::default(), merge_much, merge_none]
}

/// max |B − L·U| and the growth max_k ‖|L||U|e_k‖₁ / ‖B e_k‖₁, by dense products.
fn factor_error<F: FrontalScalar>(a: &Matrix, lu: &FrontalLu<F>) -> (f64, f64) {
    let n = a.n();
    let mut l = vec![vec![0.0; n]; n];
    let mut u = vec![vec![0.0; n]; n];
    let mut rows_seen = vec![false; n];
    for (p, (row, _, value)) in lu.pivots().enumerate() {
        assert!(
            !std::mem::replace(&mut rows_seen[row], true),
            "row {row} twice"
        );
        assert!(value != F::zero());
        l[row][p] = 1.0;
    }
    lu.for_each_l(|row, p, v| l[row][p] = v.to_f64());
    lu.for_each_u(|p, col, v| u[p][col] = v.to_f64());
    let b = a.dense();
    let norms = a.column_norms();
    let (mut error, mut growth) = (0.0f64, 1.0f64);
    for k in 0..n {
        let mut magnitude = 0.0;
        for i in 0..n {
            let mut sum = 0.0;
            for p in 0..n {
                sum += l[i][p] * u[p][k];
                magnitude += (l[i][p] * u[p][k]).abs();
            }
            error = error.max((b[i][k] - sum).abs());
        }
        growth = growth.max(magnitude / norms[k]);
    }
    (error, growth)
}

/// Checks factors, the report, and all solves against the matrix.
fn check<F: FrontalScalar>(a: &Matrix, lu: &FrontalLu<F>, quality: &Quality) {
    let n = a.n();
    let epsilon = F::epsilon().to_f64();
    assert!(quality.is_finite());
    if n <= 200 {
        let (error, growth) = factor_error(a, lu);
        let largest = a.column_norms().iter().fold(0.0f64, |m, &v| m.max(v));
        let bound = 4.0 * n as f64 * epsilon * quality.growth * largest;
        assert!(error <= bound, "‖B − LU‖ = {error}, bound {bound}");
        let close = (quality.growth - growth).abs() <= 1e4 * epsilon * growth;
        assert!(close, "growth {} measured, {growth} true", quality.growth);
    }
    let bound = 8.0 * (n + 1) as f64 * epsilon * quality.growth;
    assert!(quality.checksum <= bound, "{} > {bound}", quality.checksum);
    assert_eq!(lu.pivots().count(), n);
    let norm: f64 = a.column_norms().iter().fold(0.0, |m, &v| m.max(v));

    let mut random = Random(5);
    for transpose in [false, true] {
        for nrhs in [1, 2, 16, 19] {
            let ld = n + 3;
            let b: Vec<f64> = (0..nrhs * ld)
                .map(|_| F::from_f64(random.next()).to_f64())
                .collect();
            let mut x: Vec<F> = b.iter().map(|&v| F::from_f64(v)).collect();
            if transpose {
                lu.solve_transpose(&mut x, ld, nrhs, 1);
            } else {
                lu.solve(&mut x, ld, nrhs, 1);
            }
            for q in 0..nrhs {
                let solution: Vec<f64> = x[q * ld..q * ld + n]
                    .iter()
                    .map(|&v| Scalar::to_f64(v))
                    .collect();
                let size: f64 = solution.iter().map(|v| v.abs()).sum();
                let product = a.multiply(&solution, transpose);
                for i in 0..n {
                    let residual = (product[i] - b[q * ld + i]).abs();
                    let bound =
                        32.0 * (n + 1) as f64 * epsilon * quality.growth * (norm * size + 1.0);
                    assert!(
                        residual <= bound,
                        "{residual} > {bound} (transpose: {transpose})"
                    );
                }
                // What lies between the columns stays.
                for i in n..ld {
                    assert_eq!(x[q * ld + i].to_f64(), b[q * ld + i]);
                }
            }
        }
    }
}

fn bits<F: FrontalScalar>(lu: &FrontalLu<F>) -> Vec<(usize, usize, u64)> {
    let mut all = Vec::new();
    lu.for_each_l(|i, j, v| all.push((i, j, v.to_f64().to_bits())));
    lu.for_each_u(|i, j, v| all.push((i, j, v.to_f64().to_bits())));
    all
}

fn factorize_and_check(a: &Matrix, options: &Options) {
    for tree_options in all_trees() {
        let tree = a.tree(&tree_options);
        for kernels in f64::all_kernels() {
            let (mut lu, quality) =
                FrontalLu::factorize_with(&tree, &a.values, options, kernels).unwrap();
            check(a, &lu, &quality);
            let before = bits(&lu);
            let again = lu.refactorize(&a.values, options).unwrap();
            assert!(
                bits(&lu) == before,
                "a refactorization repeats the factorization"
            );
            assert_eq!((again.min_pivot_ratio, again.max_pivot_ratio), (1.0, 1.0));
            assert_eq!(again, quality);
        }
    }
}

#[test]
fn special_sizes() {
    let mut random = Random(1);
    for n in [0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 129, 1025] {
        let per_column = if n > 200 { 3 } else { 4 };
        factorize_and_check(
            &random_matrix(n, per_column, false, &mut random),
            &Options::default(),
        );
    }
}

#[test]
fn dense_blocks_of_special_sizes() {
    let mut random = Random(2);
    for n in [1, 2, 7, 8, 9, 31, 32, 33, 40, 127, 128, 129, 150] {
        for threshold in [0.05, 1.0] {
            let entries = (0..n * n).map(|e| (e % n, e / n, random.next())).collect();
            let options = Options {
                threshold,
                ..Options::default()
            };
            factorize_and_check(&Matrix::from_entries(n, entries), &options);
        }
    }
}

#[test]
fn grids() {
    let mut random = Random(3);
    for (nx, ny) in [(5, 4), (12, 11), (30, 9), (7, 60)] {
        factorize_and_check(&grid(nx, ny, &mut random), &Options::default());
    }
}

#[test]
fn shuffled_rows_need_pivots_off_the_diagonal() {
    let mut random = Random(4);
    for n in [2, 5, 33, 100] {
        let a = random_matrix(n, 4, true, &mut random);
        let tree = a.tree(&TreeOptions::default());
        let (lu, quality) =
            FrontalLu::<f64>::factorize(&tree, &a.values, &Options::default()).unwrap();
        assert!(n < 33 || quality.num_off_diagonal > 0);
        check(&a, &lu, &quality);
        factorize_and_check(&a, &Options::default());
    }
}

#[test]
fn saddle_points_delay_their_pivots() {
    let mut random = Random(5);
    let mut delayed = 0;
    for (n, m) in [(6, 2), (30, 10), (90, 40), (400, 150)] {
        let a = saddle(n, m, &mut random);
        factorize_and_check(
            &a,
            &Options {
                threshold: 0.1,
                ..Options::default()
            },
        );
        let (lu, quality) = FrontalLu::<f64>::factorize(
            &a.tree(&TreeOptions::default()),
            &a.values,
            &Options::default(),
        )
        .unwrap();
        assert_eq!(lu.num_delayed(), quality.num_delayed);
        delayed += quality.num_delayed;
    }
    assert!(delayed > 50, "only {delayed} pivots were delayed");
}

/// An arrow whose diagonal is tiny: every pivot must wait for the root.
#[test]
fn tiny_pivots_are_delayed_to_the_root() {
    let n = 40;
    let mut entries = Vec::new();
    let mut random = Random(6);
    for i in 0..n - 1 {
        entries.push((i, i, 1e-20));
        entries.push((n - 1, i, 1.0 + random.next() / 2.0));
        entries.push((i, n - 1, 1.0));
        // A path, so that the tree is one.
        if i + 1 < n - 1 {
            entries.push((i, i + 1, 1.0 + random.next() / 4.0));
            entries.push((i + 1, i, -1.0));
        }
    }
    entries.push((n - 1, n - 1, 1.0));
    factorize_and_check(&Matrix::from_entries(n, entries), &Options::default());

    let mut star = vec![(n - 1, n - 1, 1.0)];
    for i in 0..n - 1 {
        star.push((i, i, if i == 3 { 1e-20 } else { 2.0 }));
        star.push((n - 1, i, 1.0));
        star.push((i, n - 1, 1.0));
    }
    let star = Matrix::from_entries(n, star);
    let tree = star.tree(&all_trees()[2]);
    let (lu, quality) =
        FrontalLu::<f64>::factorize(&tree, &star.values, &Options::default()).unwrap();
    assert_eq!(quality.num_delayed, 1);
    assert_eq!(quality.num_off_diagonal, 2);
    check(&star, &lu, &quality);
}

#[test]
fn static_pivots_are_replaced_and_counted() {
    let n = 30;
    let mut entries = Vec::new();
    for i in 0..n {
        entries.push((i, i, if i % 7 == 3 { 0.0 } else { 2.0 }));
        if i + 1 < n {
            entries.push((i, i + 1, 1.0));
            entries.push((i + 1, i, 1.0));
        }
    }
    let a = Matrix::from_entries(n, entries);
    let tree = a.tree(&all_trees()[2]);
    let options = Options {
        static_pivots: Some(0.75),
        ..Options::default()
    };
    let (mut lu, quality) = FrontalLu::<f64>::factorize(&tree, &a.values, &options).unwrap();
    assert_eq!(quality.num_delayed, 0);
    assert!(quality.num_perturbed > 0);
    assert!(quality.min_pivot >= 0.75);
    let first = quality.first_perturbed.unwrap();
    assert!(first < n);
    // The factors are those of a matrix that differs on the diagonal alone.
    let (error, _) = factor_error(&a, &lu);
    assert!(error > 0.1);
    assert!(quality.checksum > 1e-3, "the check sees the replacement");
    let before = bits(&lu);
    assert_eq!(lu.refactorize(&a.values, &options).unwrap(), quality);
    assert!(bits(&lu) == before);
}

#[test]
fn singular_matrices_name_a_column() {
    let mut random = Random(8);
    // A column of stored zeros, somewhere.
    let mut a = random_matrix(50, 4, false, &mut random);
    for p in a.cols.range(17) {
        a.values[p] = 0.0;
    }
    let result = FrontalLu::<f64>::factorize(
        &a.tree(&TreeOptions::default()),
        &a.values,
        &Options::default(),
    );
    assert_eq!(result.unwrap_err(), FrontalError::Singular { column: 17 });

    // Two equal columns.
    let mut entries: Vec<_> = random_matrix(30, 3, false, &mut random)
        .entries()
        .filter(|e| e.1 != 9)
        .collect();
    let copy: Vec<_> = entries
        .iter()
        .filter(|e| e.1 == 4)
        .map(|e| (e.0, 9, e.2))
        .collect();
    entries.extend(copy);
    let a = Matrix::from_entries(30, entries);
    let result = FrontalLu::<f64>::factorize(
        &a.tree(&TreeOptions::default()),
        &a.values,
        &Options::default(),
    );
    assert!(
        matches!(result, Err(FrontalError::Singular { .. })),
        "{:?}",
        result.map(|r| r.1)
    );

    // Structurally: an empty column.
    let a = Matrix::from_entries(3, vec![(0, 0, 1.0), (1, 0, 1.0), (2, 2, 1.0)]);
    let result = FrontalLu::<f64>::factorize(
        &a.tree(&TreeOptions::default()),
        &a.values,
        &Options::default(),
    );
    assert_eq!(result.unwrap_err(), FrontalError::Singular { column: 1 });
}

#[test]
fn values_that_are_not_finite_name_their_column() {
    let mut a = grid(5, 5, &mut Random(9));
    let at = a.cols.range(7).start;
    for bad in [f64::NAN, f64::INFINITY] {
        a.values[at] = bad;
        let tree = a.tree(&TreeOptions::default());
        let result = FrontalLu::<f64>::factorize(&tree, &a.values, &Options::default());
        assert_eq!(result.unwrap_err(), FrontalError::NotFinite { column: 7 });
    }
}

#[test]
fn single_precision() {
    let mut random = Random(10);
    for n in [1, 33, 150] {
        let a = random_matrix(n, 4, n == 150, &mut random);
        let values: Vec<f32> = a.cast();
        let a = Matrix {
            cols: a.cols.clone(),
            values: values.iter().map(|&v| f64::from(v)).collect(),
        };
        for options in all_trees() {
            for kernels in f32::all_kernels() {
                let (mut lu, quality) = FrontalLu::factorize_with(
                    &a.tree(&options),
                    &values,
                    &Options::default(),
                    kernels,
                )
                .unwrap();
                check(&a, &lu, &quality);
                let before = bits(&lu);
                lu.refactorize(&values, &Options::default()).unwrap();
                assert!(bits(&lu) == before);
            }
        }
    }
}

#[test]
fn new_values_on_kept_pivots() {
    let mut random = Random(11);
    for a in [grid(12, 13, &mut random), saddle(60, 25, &mut random)] {
        let tree = a.tree(&TreeOptions::default());
        let options = Options::default();
        let (mut lu, _) = FrontalLu::<f64>::factorize(&tree, &a.values, &options).unwrap();
        let pivots = |lu: &FrontalLu<f64>| -> Vec<_> { lu.pivots().map(|p| (p.0, p.1)).collect() };
        let kept = pivots(&lu);
        let mut b = a.clone();
        for v in &mut b.values {
            *v *= 1.0 + 0.01 * random.next();
        }
        let quality = lu.refactorize(&b.values, &options).unwrap();
        assert_eq!(pivots(&lu), kept);
        assert!(quality.min_pivot_ratio < 1.0 && quality.max_pivot_ratio > 1.0);
        assert!(quality.min_pivot_ratio > 0.5 && quality.max_pivot_ratio < 2.0);
        check(&b, &lu, &quality);
        // Back again: nothing of the other values stays.
        let (fresh, _) = FrontalLu::<f64>::factorize(&tree, &a.values, &options).unwrap();
        lu.refactorize(&a.values, &options).unwrap();
        assert!(bits(&lu) == bits(&fresh));
    }
}

#[test]
fn a_kept_pivot_that_vanishes_is_an_error() {
    let a = Matrix::from_entries(2, vec![(0, 0, 2.0), (1, 1, 3.0), (0, 1, 1.0)]);
    let tree = a.tree(&TreeOptions::default());
    let (mut lu, _) = FrontalLu::<f64>::factorize(&tree, &a.values, &Options::default()).unwrap();
    let result = lu.refactorize(&[2.0, 1.0, 0.0], &Options::default());
    assert_eq!(result.unwrap_err(), FrontalError::ZeroPivot { column: 1 });
    let poisoned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lu.solve(&mut [1.0, 1.0], 2, 1, 1);
    }));
    assert!(poisoned.is_err(), "no factors, no solve");
    lu.refactorize(&a.values, &Options::default()).unwrap();
    let mut x = [3.0, 3.0];
    lu.solve(&mut x, 2, 1, 1);
    assert_eq!(x, [1.0, 1.0]);
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let mut random = Random(12);
    // The banded grid has fronts large enough for shared products.
    let big = {
        let n = 700usize;
        let mut entries = Vec::new();
        for j in 0..n {
            for i in j.saturating_sub(260)..(j + 260).min(n) {
                entries.push((i, j, random.next() + if i == j { 40.0 } else { 0.0 }));
            }
        }
        Matrix::from_entries(n, entries)
    };
    for a in [
        grid(40, 37, &mut random),
        saddle(300, 120, &mut random),
        big,
    ] {
        let tree = a.tree(&TreeOptions::default());
        let mut expected = None;
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let options = Options {
                threads,
                ..Options::default()
            };
            let (mut lu, quality) = pool
                .install(|| FrontalLu::<f64>::factorize(&tree, &a.values, &options))
                .unwrap();
            let b: Vec<f64> = (0..a.n() * 40).map(|i| (i % 11) as f64).collect();
            let mut x = b.clone();
            pool.install(|| lu.solve(&mut x, a.n(), 40, threads));
            let x: Vec<u64> = x.iter().map(|v| v.to_bits()).collect();
            let found = (bits(&lu), x);
            let (factors, x) = expected.get_or_insert_with(|| found.clone());
            assert!(*factors == found.0 && *x == found.1, "{threads} threads");
            let again = pool
                .install(|| lu.refactorize(&a.values, &options))
                .unwrap();
            assert_eq!(again, quality);
            assert!(bits(&lu) == found.0, "{threads} threads, again");
        }
    }
}

#[test]
fn errors_are_the_same_for_any_number_of_threads() {
    let mut a = grid(40, 37, &mut Random(13));
    for p in a.cols.range(700) {
        a.values[p] = 0.0;
    }
    let tree = a.tree(&TreeOptions::default());
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    for threads in [1, 3] {
        let options = Options {
            threads,
            ..Options::default()
        };
        let result = pool.install(|| FrontalLu::<f64>::factorize(&tree, &a.values, &options));
        assert_eq!(result.unwrap_err(), FrontalError::Singular { column: 700 });
    }
}

#[test]
fn cancelled() {
    let a = grid(20, 20, &mut Random(14));
    let tree = a.tree(&TreeOptions::default());
    for threads in [1, 2] {
        let options = Options {
            threads,
            ..Options::default()
        };
        let (mut lu, _) = FrontalLu::<f64>::factorize(&tree, &a.values, &options).unwrap();
        options.cancel.cancel();
        let result = FrontalLu::<f64>::factorize(&tree, &a.values, &options);
        assert!(matches!(result, Err(FrontalError::Cancelled(_))));
        let result = lu.refactorize(&a.values, &options);
        assert!(matches!(result, Err(FrontalError::Cancelled(_))));
    }
}

#[test]
fn the_memory_limit_holds() {
    let a = grid(20, 20, &mut Random(15));
    let tree = a.tree(&TreeOptions::default());
    let peak = tree.peak_bytes(8, 1);
    let limit = |max| Options {
        max_bytes: Some(max),
        ..Options::default()
    };
    assert!(FrontalLu::<f64>::factorize(&tree, &a.values, &limit(peak)).is_ok());
    let result = FrontalLu::<f64>::factorize(&tree, &a.values, &limit(peak - 1));
    assert_eq!(
        result.unwrap_err(),
        FrontalError::OutOfMemory {
            asked: peak,
            available: peak - 1
        }
    );
    // Delayed pivots need more than predicted.
    let a = saddle(400, 150, &mut Random(16));
    let tree = a.tree(&TreeOptions::default());
    let peak = tree.peak_bytes(8, 1);
    let result = FrontalLu::<f64>::factorize(&tree, &a.values, &limit(peak));
    assert!(matches!(result, Err(FrontalError::OutOfMemory { .. })));
    assert!(FrontalLu::<f64>::factorize(&tree, &a.values, &limit(10 * peak)).is_ok());
}

#[test]
fn counts_and_determinant() {
    let mut random = Random(17);
    let a = random_matrix(40, 4, true, &mut random);
    let tree = a.tree(&TreeOptions::default());
    let (lu, quality) = FrontalLu::<f64>::factorize(&tree, &a.values, &Options::default()).unwrap();
    let (mut l, mut u) = (0, 0);
    lu.for_each_l(|_, _, _| l += 1);
    lu.for_each_u(|_, _, _| u += 1);
    assert_eq!((lu.lnz(), lu.unz()), (l + 40, u));
    assert_eq!(lu.factor_entries(), l + u);
    assert!(lu.bytes() >= 8 * lu.factor_entries());
    assert!(quality.num_delayed > 0 || lu.factor_entries() == tree.factor_entries());

    // By elimination with the largest pivot of each column.
    let mut dense = a.dense();
    let (mut sign, mut log) = (1.0, 0.0);
    for k in 0..40 {
        let pivot = (k..40)
            .max_by(|&i, &j| dense[i][k].abs().total_cmp(&dense[j][k].abs()))
            .unwrap();
        if pivot != k {
            dense.swap(pivot, k);
            sign = -sign;
        }
        let row = dense[k].clone();
        sign *= row[k].signum();
        log += row[k].abs().ln();
        for i in k + 1..40 {
            let factor = dense[i][k] / row[k];
            for j in k..40 {
                dense[i][j] -= factor * row[j];
            }
        }
    }
    let (found_sign, found_log) = lu.determinant();
    assert_eq!(found_sign, sign);
    assert!((found_log - log).abs() < 1e-9 * log.abs());
}

#[test]
fn the_tree_predicts_what_happens() {
    let a = grid(30, 30, &mut Random(18));
    let tree = a.tree(&TreeOptions::default());
    let (lu, quality) = FrontalLu::<f64>::factorize(&tree, &a.values, &Options::default()).unwrap();
    assert_eq!(quality.num_delayed, 0);
    assert_eq!(lu.factor_entries(), tree.factor_entries());
    assert!(tree.factor_bytes(8) >= 8 * tree.factor_entries());
    assert!(tree.peak_bytes(8, 1) > tree.factor_bytes(8));
    assert!(tree.flops() > tree.factor_entries() as f64);
    assert!(tree.seconds() > 0.0);
    assert!(tree.max_front() >= 30);
    // Rows below a front are later pivots, ascending, and those of a child are in its parent.
    for (s, front) in tree.fronts().iter().enumerate() {
        let rows = tree.rows_below(s);
        assert!(rows.windows(2).all(|w| w[0] < w[1]));
        if let Some(&first) = rows.first() {
            let parent = &tree.fronts()[front.parent as usize];
            assert!((parent.start..parent.start + parent.pivots).contains(&first));
            let above = tree.rows_below(front.parent as usize);
            assert!(rows.iter().all(|r| {
                (parent.start..parent.start + parent.pivots).contains(r) || above.contains(r)
            }));
        }
    }
    let none = a.tree(&all_trees()[2]);
    let much = a.tree(&all_trees()[1]);
    assert!(none.factor_entries() <= tree.factor_entries());
    assert!(much.num_supernodes() <= tree.num_supernodes());
    assert!(tree.num_supernodes() < none.num_supernodes());
    let limit = none.factor_entries() as f64 * 1.35;
    assert!((tree.factor_entries() as f64) < limit);
}

#[test]
#[should_panic(expected = "one value per entry")]
fn a_wrong_number_of_values_panics() {
    let a = grid(3, 3, &mut Random(19));
    let tree = a.tree(&TreeOptions::default());
    let _ = FrontalLu::<f64>::factorize(&tree, &a.values[1..], &Options::default());
}

#[test]
fn a_rectangle_is_refused() {
    let cols = CompressedPattern::new(3, vec![0, 1, 2], vec![0, 2]).unwrap();
    assert_eq!(
        Tree::analyze(&cols, &TreeOptions::default()).unwrap_err(),
        FrontalError::NotSquare {
            rows: 3,
            columns: 2
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nonsingular_matrices(a in strategies::nonsingular_matrices(40)) {
        factorize_and_check(&Matrix::from_sprs(&a), &Options::default());
    }

    #[test]
    fn dominant_matrices(a in strategies::dominant_matrices(60)) {
        factorize_and_check(&Matrix::from_sprs(&a), &Options { threshold: 1e-3, ..Options::default() });
    }

    /// Often singular: either an error that names a column, or factors.
    #[test]
    fn any_matrices(a in strategies::matrices(25), threads in 1usize..3) {
        let a = Matrix::from_sprs(&a);
        let tree = a.tree(&TreeOptions::default());
        let options = Options { threads, ..Options::default() };
        match FrontalLu::<f64>::factorize(&tree, &a.values, &options) {
            Ok((lu, quality)) => check(&a, &lu, &quality),
            Err(FrontalError::Singular { column }) => prop_assert!(column < a.n()),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn symmetric_matrices(a in strategies::symmetric_matrices(30)) {
        let a = Matrix::from_sprs(&a);
        let tree = a.tree(&TreeOptions::default());
        if let Ok((lu, quality)) = FrontalLu::<f64>::factorize(&tree, &a.values, &Options::default()) {
            check(&a, &lu, &quality);
        }
    }
}
