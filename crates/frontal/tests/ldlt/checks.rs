//! What must hold for all factors.

use luge_frontal::{FrontalLdlt, FrontalScalar, Options, Pivot, SymmetricQuality, TreeOptions};
use luge_sparse::num_traits::{Float, One, Zero};
use luge_sparse::{
    CancelFlag, Form, Inertia, PivotKind, PivotPolicy, RealScalar, Scalar, SmallPivots,
    SymmetricPivoting,
};
use num_complex::Complex;

use crate::matrices::{Matrix, Random, Turn};

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

/// A dense matrix by rows.
pub type Rows<W> = Vec<Vec<W>>;

/// L (rows of B by pivot columns) and D as dense matrices.
pub fn dense_factors<F: FrontalScalar>(ldlt: &FrontalLdlt<F>) -> [Rows<F::Wide>; 2] {
    let n = ldlt.n();
    let zero = F::Wide::zero();
    let mut l = vec![vec![zero; n]; n];
    let mut d = vec![vec![zero; n]; n];
    let order = ldlt.elimination_order();
    let mut seen = vec![false; n];
    for (p, &column) in order.iter().enumerate() {
        let seen = std::mem::replace(&mut seen[column], true);
        assert!(!seen, "column {column} twice");
        l[column][p] = F::Wide::one();
    }
    assert_eq!(order.len(), n);
    ldlt.for_each_l(|row, p, v| {
        assert_eq!(l[row][p], zero, "L({row}, {p}) twice");
        l[row][p] = v.widen();
    });
    for (p, pair) in ldlt.d().chunks_exact(2).enumerate() {
        d[p][p] = pair[0].widen();
        assert_eq!(ldlt.form().on_diagonal(pair[0]), pair[0]);
        if pair[1] != F::zero() {
            d[p + 1][p] = pair[1].widen();
            d[p][p + 1] = ldlt.form().counterpart(pair[1].widen());
        }
    }
    [l, d]
}

fn multiply<W: Scalar>(a: &[Vec<W>], b: &[Vec<W>]) -> Rows<W> {
    let product = |row: &Vec<W>| {
        let mut sums = vec![W::zero(); b.len()];
        for (v, line) in row.iter().zip(b).filter(|(v, _)| **v != W::zero()) {
            for (sum, w) in sums.iter_mut().zip(line) {
                *sum += *v * *w;
            }
        }
        sums
    };
    a.iter().map(product).collect()
}

fn reflected<W: Scalar>(a: &[Vec<W>], form: Form) -> Rows<W> {
    let n = a.len();
    let row = |j: usize| (0..n).map(|i| form.counterpart(a[i][j])).collect();
    (0..n).map(row).collect()
}

fn magnitudes<W: Scalar<Real = f64>>(a: &[Vec<W>]) -> Rows<f64> {
    let of_row = |row: &Vec<W>| row.iter().map(|v| v.magnitude()).collect();
    a.iter().map(of_row).collect()
}

/// L·D·Lᵀ, or L·D·Lᴴ, in the order of B.
pub fn product<W: Scalar>([l, d]: &[Rows<W>; 2], form: Form) -> Rows<W> {
    multiply(&multiply(l, d), &reflected(l, form))
}

fn largest<W: Scalar<Real = f64>>(a: &[Vec<W>]) -> f64 {
    let sizes = a.iter().flatten().map(|v| v.magnitude());
    sizes.fold(0.0, f64::max)
}

/// Counts of D, by the definition; of a complex symmetric one only the zeros are counted by sign.
fn counts<F: FrontalScalar>(ldlt: &FrontalLdlt<F>) -> (Inertia, usize) {
    let (mut inertia, mut num_two) = (Inertia::default(), 0);
    let has_signs = F::COMPONENTS == 1 || ldlt.form() == Form::Hermitian;
    let zero = F::Real::zero();
    ldlt.for_each_pivot(|pivot| match pivot {
        Pivot::One { d, .. } if d == F::zero() => inertia.zero += 1,
        Pivot::One { .. } if !has_signs => {}
        Pivot::One { d, .. } if d.real() > zero => inertia.positive += 1,
        Pivot::One { .. } => inertia.negative += 1,
        Pivot::Two { d, .. } => {
            num_two += 1;
            if !has_signs {
                return;
            }
            let [a, c] = [d[0], d[2]].map(|v| v.real().to_f64());
            // What is below squares it, rounded once; so does this but for a complex one.
            let b = d[1].widen().modulus();
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

/// How much larger than by absolute values a bound by magnitudes of such numbers may be.
fn slack<F: Scalar>() -> f64 {
    F::COMPONENTS as f64
}

/// Checks factors, the report, and all solves against the matrix. `max_l`: the bound of the entries of L.
pub fn check<F: FrontalScalar>(
    a: &Matrix<F::Wide>,
    ldlt: &FrontalLdlt<F>,
    quality: &SymmetricQuality,
    max_l: f64,
) {
    let n = a.n();
    let epsilon = F::Real::epsilon().to_f64();
    assert_eq!(ldlt.quality(), quality);
    let mut true_max = 0.0f64;
    ldlt.for_each_l(|_, _, v| true_max = true_max.max(v.magnitude().to_f64()));
    assert_eq!(quality.max_l, true_max);
    assert!(
        true_max <= slack::<F>() * max_l * (1.0 + 16.0 * epsilon),
        "{true_max}"
    );
    let (inertia, num_two) = counts(ldlt);
    assert_eq!((quality.inertia, quality.num_two), (inertia, num_two));
    assert_eq!(ldlt.num_two(), num_two);
    let has_signs = F::COMPONENTS == 1 || a.form == Form::Hermitian;
    assert_eq!(ldlt.inertia(), has_signs.then_some(inertia));
    assert_eq!(quality.num_delayed, ldlt.num_delayed());
    assert_eq!(quality.num_first_pass + quality.num_second_pass, n);
    assert_eq!(ldlt.rank(), n - quality.num_zero);
    assert_eq!(quality.num_zero, inertia.zero);
    let norm: f64 = a.column_norms().iter().fold(0.0, |m: f64, &v| m.max(v));
    if n <= 200 {
        let factors = dense_factors(ldlt);
        let mut difference = product(&factors, a.form);
        for (i, j, v) in a.all_entries() {
            difference[i][j] -= v;
        }
        let error = largest(&difference);
        let bound = slack::<F>() * 8.0 * (n + 1) as f64 * epsilon * quality.growth * norm;
        assert!(error <= bound, "‖B − LDLᵀ‖ = {error}, bound {bound}");
        let sizes = product(&factors.map(|factor| magnitudes(&factor)), Form::Symmetric);
        let norms = a.column_norms();
        let columns = (0..n).filter(|&j| norms[j] > 0.0);
        let growth = columns.fold(1.0, |most: f64, j| {
            most.max(sizes.iter().map(|row| row[j]).sum::<f64>() / norms[j])
        });
        let close = (quality.growth - growth).abs() <= 1e4 * epsilon * growth;
        assert!(close, "growth {} measured, {growth} true", quality.growth);
        let weights: Vec<f64> = (0..n).map(|i| 2f64.powi(-(i as i32 * 5 % 7))).collect();
        let of_column = |j: usize| {
            let sizes = sizes.iter().zip(&weights).map(|(row, w)| row[j] * w);
            weights[j] * sizes.sum::<f64>()
        };
        let expected = (0..n).map(of_column).fold(0.0, f64::max);
        let norm = ldlt.product_norm(&weights, 1, &CancelFlag::new()).unwrap();
        let close = (norm - expected).abs() <= 1e4 * epsilon * expected;
        assert!(close, "weighted norm {norm}, by definition {expected}");
    }
    if quality.num_zero == 0 {
        check_solves(a, ldlt, quality, norm);
    }
}

fn check_solves<F: FrontalScalar>(
    a: &Matrix<F::Wide>,
    ldlt: &FrontalLdlt<F>,
    quality: &SymmetricQuality,
    norm: f64,
) {
    let n = a.n();
    let epsilon = F::Real::epsilon().to_f64();
    let never = CancelFlag::new();
    let mut random = Random(5);
    for nrhs in [1, 2, 16, 19] {
        let mut number = || F::from_components(|_| F::Real::from_f64(random.next()));
        let b: Vec<F> = (0..nrhs * n).map(|_| number()).collect();
        let mut x = b.clone();
        ldlt.solve(&mut x, nrhs, 1, &never).unwrap();
        let mut by_parts = b.clone();
        ldlt.solve_lower(&mut by_parts, nrhs, 1, &never).unwrap();
        ldlt.solve_diagonal(&mut by_parts, nrhs, 1, &never).unwrap();
        ldlt.solve_upper(&mut by_parts, nrhs, 1, &never).unwrap();
        assert!(x == by_parts, "three solves are one");
        for q in 0..nrhs {
            let column = q * n..(q + 1) * n;
            let wide = |x: &[F]| F::in_wide(x).into_owned();
            let (solution, b) = (wide(&x[column.clone()]), wide(&b[column]));
            let size: f64 = solution.iter().map(|v| v.magnitude()).sum();
            let growth = slack::<F>() * quality.growth;
            for (product, b) in a.multiply(&solution).iter().zip(b) {
                let residual = (*product - b).magnitude();
                let bound = 32.0 * (n + 1) as f64 * epsilon * growth * (norm * size + 1.0);
                assert!(residual <= bound, "{residual} > {bound}");
            }
        }
    }
}

/// All that factors hold.
pub fn bits<F: FrontalScalar>(ldlt: &FrontalLdlt<F>) -> (Vec<usize>, Vec<u64>) {
    let mut values = Vec::new();
    let mut put = |v: F| {
        v.map_components(|part| {
            values.push(part.to_f64().to_bits());
            part
        });
    };
    ldlt.d().into_iter().for_each(&mut put);
    ldlt.for_each_l(|_, _, v| put(v));
    (ldlt.elimination_order(), values)
}

/// The bound of the entries of L that a policy promises.
pub fn max_l<F: Scalar>(options: &Options) -> f64 {
    let largest = if F::COMPONENTS > 1 { 0.24 } else { 0.5 };
    match options.pivots.kind {
        PivotKind::Symmetric { threshold, .. } => threshold.min(largest).recip(),
        _ => f64::INFINITY,
    }
}

/// Orders up to which complex matrices are made of real ones: that of fronts of several blocks.
const MAX_COMPLEX_ORDER: usize = 130;

/// A real matrix, and complex ones that are made of it if it is not large: symmetric ones unless the pivots are to have signs.
pub fn factorize_and_check(a: &Matrix, options: &Options) {
    check_all_kernels::<f64>(a, options, &all_trees());
    if a.n() > MAX_COMPLEX_ORDER {
        return;
    }
    let has_signs = !matches!(options.pivots.kind, PivotKind::Symmetric { .. });
    let forms = [Form::Hermitian, Form::Symmetric];
    for &form in &forms[..if has_signs { 1 } else { 2 }] {
        let a = a.turned(form, Turn::Angles).mixed(&mut Random(7));
        check_all_kernels::<Complex<f64>>(&a, options, &all_trees()[..1]);
    }
}

fn check_all_kernels<F: FrontalScalar<Wide = F, Real = f64>>(
    a: &Matrix<F>,
    options: &Options,
    trees: &[TreeOptions],
) {
    let options = &in_form(options, a.form);
    for tree_options in trees {
        let symbolic = a.symbolic(tree_options);
        for kernels in F::all_symmetric_kernels(a.form) {
            let (mut ldlt, quality) =
                FrontalLdlt::factorize_with(&symbolic, &a.values, options, kernels).unwrap();
            check(a, &ldlt, &quality, max_l::<F>(options));
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

/// These options for matrices of this form.
pub fn in_form(options: &Options, form: Form) -> Options {
    Options {
        form,
        ..options.clone()
    }
}

/// With all methods.
pub fn factorize_and_check_all(a: &Matrix, threshold: f64) {
    for method in METHODS {
        factorize_and_check(a, &with(policy(threshold, method)));
    }
}
