//! The column engine and the blocks over the complex numbers, against the reference and against real systems of twice the order.

use std::sync::Arc;

use luge_frontal::FrontalScalar;
use luge_numeric::NumericError;
use luge_numeric::cpu::blocks::{self, BlockLu, BlockPlan, Engine};
use luge_numeric::cpu::columns::{ColumnLu, Options};
use luge_reference::Dense;
use luge_reference::numeric::lu_left_looking;
use luge_reference::symbolic::fill2;
use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{
    CancelFlag, CompressedPattern, Limits, MemoryBudget, PivotPolicy, Quality, RealScalar, Scalar,
};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::applications::{circuit, power_grid, random_unsymmetric};
use num_complex::{Complex, Complex64};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sprs::CsMat;

/// The matrix with each entry turned by an angle of its own: magnitudes stay within a factor of √2.
fn turned(a: &CsMat<f64>, seed: u64) -> CsMat<Complex64> {
    let mut rng = SmallRng::seed_from_u64(seed);
    a.map(|&value| Complex::from_polar(1.0, rng.random_range(-3.0..3.0)) * value)
}

/// Rows of Aᵀ: the columns of A.
fn columns<T: Scalar>(a: &CsMat<T>) -> (CompressedPattern, Vec<T>) {
    let transpose = a.to_csc().transpose_into();
    (pattern_of(&transpose), transpose.data().to_vec())
}

fn dense<T: Scalar>(a: &CsMat<T>) -> Dense<T::Wide> {
    let mut dense = Dense::zeros(a.rows(), a.cols());
    for (&value, (i, j)) in a {
        dense[(i, j)] = value.widen();
    }
    dense
}

fn vector<T: Scalar<Wide = Complex64>>(len: usize, seed: u64) -> Vec<T> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut part = || rng.random_range(-1.0..1.0);
    (0..len)
        .map(|_| T::narrow(Complex::new(part(), part())))
        .collect()
}

/// ‖b − A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞), in 64 bits.
fn backward_error<T: Scalar<Wide = Complex64>>(a: &Dense<Complex64>, x: &[T], b: &[T]) -> f64 {
    let wide = |v: &[T]| v.iter().map(|v| v.widen()).collect::<Vec<Complex64>>();
    let largest = |v: &[Complex64]| v.iter().map(|v| v.magnitude()).fold(0.0, f64::max);
    let (x, b) = (wide(x), wide(b));
    let product = a.mul_vec(&x);
    let residual: Vec<_> = b.iter().zip(product).map(|(b, ax)| b - ax).collect();
    largest(&residual) / (a.norm_inf() * largest(&x) + largest(&b))
}

/// Searched pivots: L·U is P·A, solutions are those of A and Aᵀ, and the same values give the same bits again.
fn check_searched<T: Scalar<Wide = Complex64>>(a: &CsMat<T>, threshold: f64) {
    let n = a.rows();
    let epsilon = T::Real::epsilon().to_f64();
    let options = Options {
        pivots: PivotPolicy::threshold(threshold),
        ..Options::default()
    };
    let (cols, values) = columns(a);
    let (mut lu, quality) = ColumnLu::factorize(&cols, &values, &options).unwrap();
    let a = dense(a);
    let rows = lu.row_perm().as_slice().to_vec();
    let permuted = Dense::from_fn(n, n, |i, j| a[(rows[i] as usize, j)]);

    let mut lower = Dense::<Complex64>::identity(n);
    let mut upper = Dense::<Complex64>::zeros(n, n);
    for j in 0..n {
        upper[(j, j)] = lu.pivots()[j].widen();
        for (&i, u) in lu.upper(j).0.iter().zip(lu.upper(j).1) {
            upper[(i as usize, j)] = u.widen();
        }
        for (&i, l) in lu.lower(j).0.iter().zip(lu.lower(j).1) {
            lower[(i as usize, j)] = l.widen();
            // Both magnitudes are within a factor of √2 of the absolute value.
            let bound = 2.0 / threshold * (1.0 + 1e-5);
            assert!(l.magnitude().to_f64() <= bound, "column {j}");
        }
    }
    let product = lower.mul(&upper);
    let difference = Dense::from_fn(n, n, |i, j| product[(i, j)] - permuted[(i, j)]);
    let bound = 8.0 * n as f64 * epsilon * quality.growth.max(1.0);
    assert!(difference.norm_inf() <= bound * permuted.norm_inf());
    assert!(quality.checksum <= bound, "{quality:?}");

    let check_solves = |lu: &ColumnLu<T>| {
        for nrhs in [1, 3] {
            let b: Vec<T> = vector(n * nrhs, 7);
            for (transpose, matrix) in [(false, permuted.clone()), (true, permuted.transpose())] {
                let mut x = b.clone();
                if transpose {
                    lu.solve_transpose_range(0..n, &mut x, n, nrhs);
                } else {
                    lu.solve_range(0..n, &mut x, n, nrhs);
                }
                for (x, b) in x.chunks_exact(n).zip(b.chunks_exact(n)) {
                    let error = backward_error(&matrix, x, b);
                    assert!(error <= bound, "{error:e} > {bound:e}");
                }
            }
        }
    };
    check_solves(&lu);
    let merged = lu.merged();
    for _ in 0..2 {
        let again = lu.refactorize(&cols, &values, &options).unwrap();
        assert_eq!(lu.merged(), merged, "the same bits");
        assert!((again.growth / quality.growth - 1.0).abs() <= 1e-12);
        assert_eq!((again.min_pivot_ratio, again.max_pivot_ratio), (1.0, 1.0));
        check_solves(&lu);
    }
}

#[test]
fn searched_pivots_factorize_and_solve_complex_matrices() {
    for seed in 0..4 {
        let a = turned(&random_unsymmetric(40, 4, seed), seed);
        for threshold in [1e-2, 1.0] {
            check_searched(&a, threshold);
        }
        check_searched(&a.map(|z| Complex::<f32>::narrow(*z)), 0.1);
    }
    check_searched(&turned(&circuit(300, 1), 11), 1e-3);
    check_searched(&turned(&power_grid(2, 9, 8, 3), 12), 1e-3);
}

#[test]
fn the_solution_is_that_of_the_real_system_of_twice_the_order() {
    // [Re −Im; Im Re]·[Re x; Im x] = [Re b; Im b].
    let a = turned(&circuit(120, 5), 3);
    let n = a.rows();
    let mut doubled = sprs::TriMat::new((2 * n, 2 * n));
    for (z, (i, j)) in &a {
        doubled.add_triplet(i, j, z.re);
        doubled.add_triplet(i, n + j, -z.im);
        doubled.add_triplet(n + i, j, z.im);
        doubled.add_triplet(n + i, n + j, z.re);
    }
    let solved = |x: &[Complex64]| {
        x.iter()
            .map(|z| z.re)
            .chain(x.iter().map(|z| z.im))
            .collect()
    };
    let b: Vec<Complex64> = vector(n, 9);
    let real_b: Vec<f64> = solved(&b);

    fn solve<T: Scalar>(a: &CsMat<T>, b: &[T]) -> Vec<T> {
        let (cols, values) = columns(a);
        let (lu, _) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
        let rows = lu.row_perm().as_slice().iter();
        let mut x: Vec<T> = rows.map(|&old| b[old as usize]).collect();
        lu.solve_range(0..b.len(), &mut x, b.len(), 1);
        x
    }
    let x: Vec<f64> = solved(&solve(&a, &b));
    let expected = solve(&doubled.to_csr(), &real_b);
    let size = expected.iter().fold(0.0, |max: f64, v| max.max(v.abs()));
    for (at, (x, expected)) in x.iter().zip(&expected).enumerate() {
        assert!(
            (x - expected).abs() <= 1e-9 * size,
            "{at}: {x} for {expected}"
        );
    }
}

#[test]
fn static_pivots_are_those_of_the_reference() {
    for seed in 0..6 {
        let mut a = turned(&random_unsymmetric(30, 3, seed), seed);
        // The seventh pivot is far too small, in a direction of its own.
        let tiny = Complex::new(3e-12, -4e-12);
        let (rows, cols) = (pattern_of(&a), 6);
        for p in rows.range(cols) {
            let is_diagonal = rows.idx()[p] as usize == cols;
            a.data_mut()[p] = if is_diagonal { tiny } else { Complex::zero() };
        }
        for pivots in [PivotPolicy::STATIC, PivotPolicy::replacing(1e-8)] {
            let expected = lu_left_looking(&fill2(&rows), &rows, a.data(), pivots);
            let options = Options {
                pivots,
                ..Options::default()
            };
            let (cols, values) = columns(&a);
            let found = ColumnLu::factorize(&cols, &values, &options);
            match (found, expected) {
                (Ok((lu, quality)), Ok(expected)) => {
                    assert_eq!(lu.merged().1, expected.values);
                    assert_eq!(quality.num_perturbed, expected.perturbed.len());
                    if pivots.replaces() {
                        assert!(quality.num_perturbed > 0);
                    }
                }
                (found, expected) => assert_eq!(found.is_ok(), expected.is_ok()),
            }
        }
    }
}

#[test]
fn a_column_of_zeros_or_of_a_nan_is_named() {
    let a = turned(&circuit(50, 2), 4);
    let (cols, mut values) = columns(&a);
    let mut error_of = |entry| {
        values[cols.range(17)].fill(entry);
        let found = ColumnLu::factorize(&cols, &values, &Options::default());
        found.map(|_| ()).unwrap_err()
    };
    let zero = error_of(Complex::zero());
    assert!(
        matches!(zero, NumericError::ZeroPivot { column: 17 }),
        "{zero}"
    );
    let nan = error_of(Complex::new(1.0, f64::NAN));
    assert!(
        matches!(nan, NumericError::NotFinite { column: 17 }),
        "{nan}"
    );
}

/// Blocks of 25 columns, of seven times one column, and of 30 columns, with entries above them.
fn block_triangular() -> (CsMat<Complex64>, Vec<usize>) {
    let [first, last] = [(25, 1), (30, 2)].map(|(n, seed)| random_unsymmetric(n, 4, seed));
    let mut a = sprs::TriMat::new((62, 62));
    for (block, start) in [(&first, 0), (&last, 32)] {
        for (&value, (i, j)) in block {
            a.add_triplet(start + i, start + j, value);
        }
    }
    for j in 25..32 {
        a.add_triplet(j, j, 1.0 + j as f64);
    }
    for j in 25..62 {
        a.add_triplet((7 * j) % 25, j, 0.5);
        if j >= 32 {
            a.add_triplet(25 + j % 7, j, -2.0);
        }
    }
    let ptr = std::iter::once(0).chain(25..=32).chain([62]);
    (turned(&a.to_csr(), 8), ptr.collect())
}

fn block_options(threshold: f64) -> blocks::Options {
    blocks::Options {
        pivots: PivotPolicy::threshold(threshold),
        threads: 1,
        max_bytes: None,
        memory: MemoryBudget::default(),
        cancel: CancelFlag::new(),
        ranks: None,
    }
}

/// Blocks by an engine and columns alone: solutions of B and its transpose, before and after other values.
fn check_blocks<T: FrontalScalar + Scalar<Wide = Complex64>>(engine: Engine) {
    let (a, ptr) = block_triangular();
    let n = a.rows();
    let (cols, values) = columns(&a.map(|z| T::narrow(*z)));
    let plan = BlockPlan::new(&cols, &ptr, engine, |_| None, 1, &Limits::none());
    let plan = Arc::new(plan.unwrap());
    let planned = |factor: Complex64| -> Vec<T> {
        let source = plan.source().iter();
        let scaled = source.map(|&p| values[p as usize].widen() * factor);
        scaled.map(T::narrow).collect()
    };
    let (a, values) = (dense(&a.map(|z| T::narrow(*z))), planned(Complex::ONE));
    let sums = (0..n).map(|j| (0..n).map(|i| a[(i, j)].modulus()).sum::<f64>());
    let norm1 = sums.fold(0.0, f64::max);
    assert!((plan.norm1(&values) / norm1 - 1.0).abs() < 1e-6);

    let options = block_options(1.0);
    let (mut lu, quality) = BlockLu::factorize(&plan, &values, &options).unwrap();
    let bound = 100.0 * T::Real::epsilon().to_f64() * quality.growth.max(1.0);
    let check = |lu: &BlockLu<T>, factor: Complex64| {
        // Fronts keep their exchanges to themselves.
        let rows = lu.row_perm();
        assert_eq!(rows.is_some(), engine == Engine::Columns);
        let row = |i: usize| rows.as_ref().map_or(i, |rows| rows.as_slice()[i] as usize);
        let entry = |i: usize, j: usize| a[(row(i), j)] * factor;
        let moved = Dense::from_fn(n, n, entry);
        for (transpose, matrix) in [(false, moved.clone()), (true, moved.transpose())] {
            for nrhs in [1, 5] {
                let b: Vec<T> = vector(n * nrhs, 4);
                let mut x = b.clone();
                let solved = if transpose {
                    lu.solve_transpose(&mut x, nrhs, 1, &options.cancel)
                } else {
                    lu.solve(&mut x, nrhs, 1, &options.cancel)
                };
                solved.unwrap();
                for (x, b) in x.chunks_exact(n).zip(b.chunks_exact(n)) {
                    let error = backward_error(&matrix, x, b);
                    assert!(error <= bound, "{error:e} > {bound:e}, {transpose}");
                }
            }
        }
    };
    check(&lu, Complex::ONE);
    let factor = Complex::new(0.0, 2.0);
    let mut again = Quality::default();
    lu.refactorize(&planned(factor), &options, &mut again)
        .unwrap();
    check(&lu, factor);
    assert!((again.max_pivot_ratio - 2.0).abs() < 1e-5);
}

#[test]
fn blocks_factorize_and_solve_complex_matrices() {
    for engine in [Engine::Columns, Engine::Fronts] {
        check_blocks::<Complex64>(engine);
        check_blocks::<Complex<f32>>(engine);
    }
}
