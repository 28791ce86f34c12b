//! What must hold for all factors.

use luge_frontal::{FrontalLu, FrontalScalar, Options, TreeOptions};
use luge_sparse::num_traits::{Float, One, Zero};
use luge_sparse::{CancelFlag, Quality, RealScalar, Scalar};
use num_complex::Complex;

use crate::matrices::{Matrix, Random};

pub fn all_trees() -> Vec<TreeOptions> {
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

/// L and U as dense matrices: rows of B by pivots, pivots by columns of B.
fn dense_factors<F: FrontalScalar>(lu: &FrontalLu<F>) -> [Vec<Vec<F::Wide>>; 2] {
    let n = lu.n();
    let mut l = vec![vec![F::Wide::zero(); n]; n];
    let mut u = l.clone();
    let mut rows_seen = vec![false; n];
    for (p, (row, _, value)) in lu.pivots().enumerate() {
        assert!(
            !std::mem::replace(&mut rows_seen[row], true),
            "row {row} twice"
        );
        assert!(value != F::zero());
        l[row][p] = F::Wide::one();
    }
    lu.for_each_l(|row, p, v| l[row][p] = v.widen());
    lu.for_each_u(|p, col, v| u[p][col] = v.widen());
    [l, u]
}

/// B − L·U, by dense products.
pub fn factor_difference<F: FrontalScalar>(
    a: &Matrix<F::Wide>,
    lu: &FrontalLu<F>,
) -> Vec<Vec<F::Wide>> {
    let [l, u] = dense_factors(lu);
    let mut difference = a.dense();
    for (line, l) in difference.iter_mut().zip(&l) {
        for (&l, u) in l.iter().zip(&u) {
            for (entry, &u) in line.iter_mut().zip(u) {
                *entry -= l * u;
            }
        }
    }
    difference
}

/// The growth max_k ‖|L||U|e_k‖₁ / ‖B e_k‖₁, by dense products.
fn growth_of<F: FrontalScalar>(a: &Matrix<F::Wide>, lu: &FrontalLu<F>) -> f64 {
    let [l, u] = dense_factors(lu);
    let mut sums = vec![0.0; a.n()];
    for l in &l {
        for (l, u) in l.iter().zip(&u) {
            for (sum, u) in sums.iter_mut().zip(u) {
                *sum += l.magnitude() * u.magnitude();
            }
        }
    }
    let relative = sums.iter().zip(a.column_norms()).map(|(s, norm)| s / norm);
    relative.fold(1.0, f64::max)
}

/// Checks factors, the report, and all solves against the matrix.
pub fn check<F: FrontalScalar>(a: &Matrix<F::Wide>, lu: &FrontalLu<F>, quality: &Quality) {
    let n = a.n();
    let epsilon = F::Real::epsilon().to_f64();
    assert!(quality.is_finite());
    if n <= 200 {
        let difference = factor_difference(a, lu);
        let error = difference
            .iter()
            .flatten()
            .fold(0.0f64, |m, v| m.max(v.magnitude()));
        let growth = growth_of(a, lu);
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
            let mut next = |_| F::Real::from_f64(random.next());
            let b: Vec<F> = (0..nrhs * ld)
                .map(|_| F::from_components(&mut next))
                .collect();
            let mut x = b.clone();
            let never = CancelFlag::new();
            match (transpose, nrhs % 2) {
                (false, 0) => lu.solve(&mut x, ld, nrhs, 1),
                (true, 0) => lu.solve_transpose(&mut x, ld, nrhs, 1),
                (false, _) => lu.solve_within(&mut x, ld, nrhs, 1, &never).unwrap(),
                (true, _) => lu
                    .solve_transpose_within(&mut x, ld, nrhs, 1, &never)
                    .unwrap(),
            }
            for q in 0..nrhs {
                let solution: Vec<F::Wide> =
                    x[q * ld..q * ld + n].iter().map(|v| v.widen()).collect();
                let size: f64 = solution.iter().map(|v| v.magnitude()).sum();
                let product = a.multiply(&solution, transpose);
                for i in 0..n {
                    let residual = (product[i] - b[q * ld + i].widen()).magnitude();
                    let bound =
                        32.0 * (n + 1) as f64 * epsilon * quality.growth * (norm * size + 1.0);
                    assert!(
                        residual <= bound,
                        "{residual} > {bound} (transpose: {transpose})"
                    );
                }
                // What lies between the columns stays.
                for i in n..ld {
                    assert_eq!(x[q * ld + i], b[q * ld + i]);
                }
            }
        }
    }
}

pub fn bits<F: FrontalScalar>(lu: &FrontalLu<F>) -> Vec<(usize, usize, u64)> {
    let mut all = Vec::new();
    let mut push = |i, j, v: F| {
        v.widen().map_components(|part| {
            all.push((i, j, part.to_bits()));
            part
        });
    };
    lu.for_each_l(&mut push);
    lu.for_each_u(&mut push);
    all
}

/// Over both fields.
pub fn factorize_and_check(a: &Matrix, options: &Options) {
    factorize_and_check_over(a, options);
    factorize_and_check_over::<Complex<f64>>(&a.turned(), options);
}

fn factorize_and_check_over<V: FrontalScalar<Real = f64, Wide = V>>(
    a: &Matrix<V>,
    options: &Options,
) {
    for tree_options in all_trees() {
        let symbolic = a.symbolic(&tree_options);
        for kernels in V::all_kernels() {
            let (mut lu, quality) =
                FrontalLu::factorize_with(&symbolic, &a.values, options, kernels).unwrap();
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
