//! What must hold for all factors.

use luge_frontal::{FrontalLdlt, Options, Pivot, SymmetricQuality, SymmetricScalar, TreeOptions};
use luge_sparse::{
    CancelFlag, Inertia, PivotKind, PivotPolicy, RealScalar, SmallPivots, SymmetricPivoting,
};

use crate::matrices::{Matrix, Random};

pub const METHODS: [SymmetricPivoting; 3] = [
    SymmetricPivoting::Blocks,
    SymmetricPivoting::BlocksAlone,
    SymmetricPivoting::Columns,
];

pub fn policy(threshold: f64, method: SymmetricPivoting) -> PivotPolicy {
    PivotPolicy {
        kind: PivotKind::Symmetric { threshold, method },
        small: SmallPivots::Stop,
    }
}

pub fn with(pivots: PivotPolicy) -> Options {
    Options {
        pivots,
        ..Options::default()
    }
}

pub fn all_trees() -> Vec<TreeOptions> {
    let merged = |fraction| TreeOptions {
        zero_fraction: fraction,
        tiny_zero_fraction: fraction,
        ..TreeOptions::default()
    };
    vec![TreeOptions::default(), merged(0.9), merged(0.0)]
}

/// L (rows of B by pivot columns) and D as dense matrices.
pub fn dense_factors<F: SymmetricScalar>(ldlt: &FrontalLdlt<F>) -> [Vec<Vec<f64>>; 2] {
    let n = ldlt.n();
    let mut l = vec![vec![0.0; n]; n];
    let mut d = vec![vec![0.0; n]; n];
    let order = ldlt.elimination_order();
    let mut seen = vec![false; n];
    for (p, &column) in order.iter().enumerate() {
        let seen = std::mem::replace(&mut seen[column], true);
        assert!(!seen, "column {column} twice");
        l[column][p] = 1.0;
    }
    assert_eq!(order.len(), n);
    ldlt.for_each_l(|row, p, v| {
        assert_eq!(l[row][p], 0.0, "L({row}, {p}) twice");
        l[row][p] = v.to_f64();
    });
    for (p, pair) in ldlt.d().chunks_exact(2).enumerate() {
        d[p][p] = pair[0].to_f64();
        if pair[1] != F::zero() {
            d[p + 1][p] = pair[1].to_f64();
            d[p][p + 1] = pair[1].to_f64();
        }
    }
    [l, d]
}

fn multiply(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let product = |row: &Vec<f64>| {
        let mut sums = vec![0.0; b.len()];
        for (v, line) in row.iter().zip(b).filter(|(v, _)| **v != 0.0) {
            for (sum, w) in sums.iter_mut().zip(line) {
                *sum += v * w;
            }
        }
        sums
    };
    a.iter().map(product).collect()
}

fn transposed(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = a.len();
    (0..n).map(|j| (0..n).map(|i| a[i][j]).collect()).collect()
}

fn magnitudes(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let of_row = |row: &Vec<f64>| row.iter().map(|v| v.abs()).collect();
    a.iter().map(of_row).collect()
}

/// L·D·Lᵀ in the order of B.
pub fn product([l, d]: &[Vec<Vec<f64>>; 2]) -> Vec<Vec<f64>> {
    multiply(&multiply(l, d), &transposed(l))
}

fn largest(a: &[Vec<f64>]) -> f64 {
    a.iter().flatten().fold(0.0, |m: f64, v| m.max(v.abs()))
}

/// Counts of D, by the definition.
fn counts<F: SymmetricScalar>(ldlt: &FrontalLdlt<F>) -> (Inertia, usize) {
    let (mut inertia, mut num_two) = (Inertia::default(), 0);
    ldlt.for_each_pivot(|pivot| match pivot {
        Pivot::One { d, .. } if d > F::zero() => inertia.positive += 1,
        Pivot::One { d, .. } if d < F::zero() => inertia.negative += 1,
        Pivot::One { .. } => inertia.zero += 1,
        Pivot::Two { d, .. } => {
            num_two += 1;
            let [a, b, c] = d.map(|v| RealScalar::to_f64(v));
            let (mean, radius) = ((a + c) / 2.0, ((a - c) / 2.0).hypot(b));
            let large = mean + radius.copysign(mean);
            // Nothing cancels in it but what is exact (W. Kahan, "On the cost of floating-point computation without
            // extra-precise arithmetic", 2004): the difference of `mean` and `radius` may have no digit.
            let square = b * b;
            let determinant = a.mul_add(c, -square) + (-b).mul_add(b, square);
            for eigenvalue in [large, determinant / large] {
                if eigenvalue > 0.0 {
                    inertia.positive += 1;
                } else {
                    inertia.negative += 1;
                }
            }
        }
    });
    (inertia, num_two)
}

/// Checks factors, the report, and all solves against the matrix. `max_l`: the bound of the entries of L.
pub fn check<F: SymmetricScalar>(
    a: &Matrix,
    ldlt: &FrontalLdlt<F>,
    quality: &SymmetricQuality,
    max_l: f64,
) {
    let n = a.n();
    let epsilon = F::epsilon().to_f64();
    assert_eq!(ldlt.quality(), quality);
    let mut true_max = 0.0f64;
    ldlt.for_each_l(|_, _, v| true_max = true_max.max(v.abs().to_f64()));
    assert_eq!(quality.max_l, true_max);
    assert!(true_max <= max_l * (1.0 + 16.0 * epsilon), "{true_max}");
    let (inertia, num_two) = counts(ldlt);
    assert_eq!((quality.inertia, quality.num_two), (inertia, num_two));
    assert_eq!((ldlt.inertia(), ldlt.num_two()), (inertia, num_two));
    assert_eq!(quality.num_delayed, ldlt.num_delayed());
    assert_eq!(quality.num_first_pass + quality.num_second_pass, n);
    assert_eq!(ldlt.rank(), n - quality.num_zero);
    assert_eq!(quality.num_zero, inertia.zero);
    let norm: f64 = a.column_norms().iter().fold(0.0, |m: f64, &v| m.max(v));
    if n <= 200 {
        let factors = dense_factors(ldlt);
        let mut difference = product(&factors);
        for (i, j, v) in a.all_entries() {
            difference[i][j] -= v;
        }
        let error = largest(&difference);
        let bound = 8.0 * (n + 1) as f64 * epsilon * quality.growth * norm;
        assert!(error <= bound, "‖B − LDLᵀ‖ = {error}, bound {bound}");
        let sizes = product(&factors.map(|factor| magnitudes(&factor)));
        let norms = a.column_norms();
        let columns = (0..n).filter(|&j| norms[j] > 0.0);
        let growth = columns.fold(1.0, |most: f64, j| {
            most.max(sizes.iter().map(|row| row[j]).sum::<f64>() / norms[j])
        });
        let close = (quality.growth - growth).abs() <= 1e4 * epsilon * growth;
        assert!(close, "growth {} measured, {growth} true", quality.growth);
    }
    if quality.num_zero == 0 {
        check_solves(a, ldlt, quality, norm);
    }
}

fn check_solves<F: SymmetricScalar>(
    a: &Matrix,
    ldlt: &FrontalLdlt<F>,
    quality: &SymmetricQuality,
    norm: f64,
) {
    let n = a.n();
    let epsilon = F::epsilon().to_f64();
    let never = CancelFlag::new();
    let mut random = Random(5);
    for nrhs in [1, 2, 16, 19] {
        let b: Vec<F> = (0..nrhs * n).map(|_| F::from_f64(random.next())).collect();
        let mut x = b.clone();
        ldlt.solve(&mut x, nrhs, 1, &never).unwrap();
        let mut by_parts = b.clone();
        ldlt.solve_lower(&mut by_parts, nrhs, 1, &never).unwrap();
        ldlt.solve_diagonal(&mut by_parts, nrhs, 1, &never).unwrap();
        ldlt.solve_upper(&mut by_parts, nrhs, 1, &never).unwrap();
        assert!(x == by_parts, "three solves are one");
        for q in 0..nrhs {
            let column = q * n..(q + 1) * n;
            let to_f64 = |x: &[F]| -> Vec<f64> { x.iter().map(|&v| v.to_f64()).collect() };
            let (solution, b) = (to_f64(&x[column.clone()]), to_f64(&b[column]));
            let size: f64 = solution.iter().map(|v| v.abs()).sum();
            for (product, b) in a.multiply(&solution).iter().zip(b) {
                let residual = (product - b).abs();
                let bound = 32.0 * (n + 1) as f64 * epsilon * quality.growth * (norm * size + 1.0);
                assert!(residual <= bound, "{residual} > {bound}");
            }
        }
    }
}

/// All that factors hold.
pub fn bits<F: SymmetricScalar>(ldlt: &FrontalLdlt<F>) -> (Vec<usize>, Vec<u64>) {
    let mut values: Vec<u64> = ldlt
        .d()
        .iter()
        .map(|&v| RealScalar::to_f64(v).to_bits())
        .collect();
    ldlt.for_each_l(|_, _, v| values.push(v.to_f64().to_bits()));
    (ldlt.elimination_order(), values)
}

/// The bound of the entries of L that a policy promises.
pub fn max_l(options: &Options) -> f64 {
    match options.pivots.kind {
        PivotKind::Symmetric { threshold, .. } => threshold.recip(),
        _ => f64::INFINITY,
    }
}

pub fn factorize_and_check(a: &Matrix, options: &Options) {
    for tree_options in all_trees() {
        let symbolic = a.symbolic(&tree_options);
        for kernels in f64::all_symmetric_kernels() {
            let (mut ldlt, quality) =
                FrontalLdlt::factorize_with(&symbolic, &a.values, options, kernels).unwrap();
            check(a, &ldlt, &quality, max_l(options));
            let before = bits(&ldlt);
            let again = ldlt.refactorize(&a.values, options).unwrap();
            assert!(
                bits(&ldlt) == before,
                "a refactorization repeats the factorization"
            );
            assert_eq!(again, quality);
        }
    }
}

/// With all methods.
pub fn factorize_and_check_all(a: &Matrix, threshold: f64) {
    for method in METHODS {
        factorize_and_check(a, &with(policy(threshold, method)));
    }
}
