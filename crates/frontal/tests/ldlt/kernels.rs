//! Symmetric and Hermitian fronts, column by column and by blocks, against the partial factorization of `luge-reference`.

use luge_dense::{
    BLOCK_COLUMNS, BlockScratch, CheckLower, FrontalScalar, Gemm, Progress, SINGLE_ROWS,
    SingleFront, SymmetricEvent, SymmetricKernels, SymmetricPanel, inverse_of_two, is_regular,
};
use luge_reference::Dense;
use luge_reference::frontal::ldlt::{LdltFront, LdltRule, ldlt_tpp};
use luge_reference::ldlt::Block;
use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{Form, PivotPolicy, RealScalar, ResolvedSymmetric, SmallPivots};
use num_complex::Complex;
use proptest::prelude::*;

use crate::matrices::Random;

/// A front of order m with k candidates, as its panel and the order of its columns.
struct Front<F> {
    panel: Vec<F>,
    m: usize,
    k: usize,
    col: Vec<u32>,
    form: Form,
}

impl<F: FrontalScalar> Front<F> {
    /// The lower triangle of the candidates' columns; what updates may leave just above it must not be looked at.
    fn new(a: &Dense<F>, k: usize) -> Self {
        Self::of_form(a, k, Form::Symmetric)
    }

    fn of_form(a: &Dense<F>, k: usize, form: Form) -> Self {
        let m = a.nrows();
        let mut panel = vec![F::zero(); m * k];
        for j in 0..k {
            panel[j * m + j.saturating_sub(7)..j * m + j].fill(F::from_real(F::Real::nan()));
            for i in j..m {
                panel[i + j * m] = a[(i, j)];
            }
        }
        Self {
            panel,
            m,
            k,
            col: (0..k as u32).collect(),
            form,
        }
    }

    fn view(&mut self) -> SymmetricPanel<F> {
        SymmetricPanel {
            lp: self.panel.as_mut_ptr(),
            m: self.m,
            k: self.k,
            col: self.col.as_mut_ptr(),
            expected: std::ptr::null_mut(),
            form: self.form,
        }
    }

    fn entry(&self, i: usize, j: usize) -> F {
        self.panel[i + j * self.m]
    }

    fn by_columns(
        &mut self,
        rule: &ResolvedSymmetric<F::Real>,
        kernels: &SymmetricKernels<F>,
    ) -> Progress<F::Real> {
        let k = self.k;
        let panel = self.view();
        // SAFETY: the panel is valid, the kernels are of this machine.
        unsafe { (kernels.eliminate_symmetric)(&panel, 0, k, rule) }
    }

    /// The first block of at most `BLOCK_COLUMNS` candidates.
    fn by_blocks(
        &mut self,
        rule: &ResolvedSymmetric<F::Real>,
        kernels: &SymmetricKernels<F>,
    ) -> Progress<F::Real> {
        let hi = self.k.min(BLOCK_COLUMNS);
        let mut x = vec![F::zero(); (self.m - hi) * hi];
        let mut scratch = BlockScratch::new();
        let panel = self.view();
        // SAFETY: as above, and `x` has room for the columns.
        unsafe { (kernels.factorize_block)(&panel, 0, hi, rule, &mut scratch, x.as_mut_ptr()) }
    }

    /// Blocks of D among the first `pivots` columns.
    fn blocks(&self, pivots: usize) -> Vec<Block<F>> {
        let mut blocks = Vec::new();
        let mut j = 0;
        while j < pivots {
            let d11 = self.entry(j, j);
            let d21 = if j + 1 < pivots {
                self.entry(j, j + 1)
            } else {
                F::zero()
            };
            if d21 == F::zero() {
                blocks.push(Block::One(d11));
                j += 1;
            } else {
                assert_eq!(self.entry(j + 1, j), F::zero(), "L within a pivot");
                let d22 = self.entry(j + 1, j + 1);
                blocks.push(Block::Two { d11, d21, d22 });
                j += 2;
            }
        }
        blocks
    }
}

fn rule<R: RealScalar>(threshold: f64, small: f64) -> ResolvedSymmetric<R> {
    let policy = PivotPolicy {
        small: SmallPivots::Accept { below: small },
        ..PivotPolicy::symmetric(threshold)
    };
    policy.resolve_symmetric(|| 1.0)
}

/// The pivots and the order of the reference, and values within its rounding.
fn check_against<F: FrontalScalar>(front: &Front<F>, pivots: usize, expected: &LdltFront<F>) {
    let (m, q) = (front.m, expected.lower.ncols());
    assert_eq!(pivots, q);
    assert_eq!(
        front.col.as_slice(),
        &expected.perm.as_slice()[..front.k],
        "order of the columns"
    );
    let blocks = front.blocks(pivots);
    let order = |block: &Block<F>| matches!(block, Block::Two { .. });
    assert!(
        blocks
            .iter()
            .map(order)
            .eq(expected.blocks.iter().map(order))
    );
    // Errors grow with L; both are within this of the exact factors.
    let growth = expected.max_l().to_f64().max(1.0) * expected.max_d.to_f64().max(1.0);
    let bound = 64.0 * (m + 1) as f64 * F::Real::epsilon().to_f64() * growth * growth;
    let close = |a: F, b: F| (a - b).magnitude().to_f64() <= bound;
    let mut flat = Vec::new();
    for (found, expected) in blocks.iter().zip(&expected.blocks) {
        match (*found, *expected) {
            (Block::One(a), Block::One(b)) => flat.push((a, b)),
            (
                Block::Two { d11, d21, d22 },
                Block::Two {
                    d11: e11,
                    d21: e21,
                    d22: e22,
                },
            ) => flat.extend([(d11, e11), (d21, e21), (d22, e22)]),
            _ => unreachable!("the orders are the same"),
        }
    }
    assert!(flat.iter().all(|&(a, b)| close(a, b)), "{flat:?}");
    for j in 0..q {
        for i in j + 1..m {
            let (a, b) = (front.entry(i, j), expected.lower[(i, j)]);
            assert!(close(a, b), "L({i}, {j}) = {a}, expected {b}");
        }
    }
    // Delayed columns.
    for j in q..front.k {
        for i in j..m {
            let (a, b) = (front.entry(i, j), expected.contribution[(i - q, j - q)]);
            let a = if i == j { front.form.on_diagonal(a) } else { a };
            assert!(close(a, b), "delayed ({i}, {j}) = {a}, expected {b}");
        }
    }
}

fn integers(m: usize, random: &mut Random, zeros: f64) -> Dense<f64> {
    let mut a = Dense::zeros(m, m);
    for j in 0..m {
        for i in j..m {
            let v = random.next();
            let v = if v.abs() < zeros {
                0.0
            } else {
                (v * 8.0).round()
            };
            a[(i, j)] = v;
            a[(j, i)] = v;
        }
    }
    a
}

/// The same with imaginary parts, and no numbers of equal size.
fn complex(m: usize, random: &mut Random, zeros: f64, form: Form) -> Dense<Complex<f64>> {
    let mut a = Dense::zeros(m, m);
    for j in 0..m {
        for i in j..m {
            let v = Complex::new(random.next(), random.next());
            let v = if v.re.abs() < zeros {
                Complex::zero()
            } else {
                v * 8.0
            };
            a[(i, j)] = if i == j { form.on_diagonal(v) } else { v };
            a[(j, i)] = form.counterpart(a[(i, j)]);
        }
    }
    a
}

const FORMS: [Form; 2] = [Form::Symmetric, Form::Hermitian];

/// How many columns were delayed.
fn check_columns<F: FrontalScalar>(a: &Dense<F>, k: usize, form: Form, threshold: f64) -> usize {
    let reference = LdltRule {
        threshold: F::Real::from_f64(threshold),
        small: F::Real::from_f64(1e-10),
    };
    let expected = ldlt_tpp(a, k, form, &reference).unwrap();
    for kernels in F::all_symmetric_kernels(form) {
        let mut front = Front::of_form(a, k, form);
        let progress = front.by_columns(&rule(threshold, 1e-10), kernels);
        assert_eq!(progress.event, None);
        check_against(&front, progress.pivots, &expected);
    }
    expected.num_delay
}

#[test]
fn columns_are_eliminated_as_in_the_reference() {
    let (mut random, mut of_complex) = (Random(21), Random(51));
    let mut delays = [0; 3];
    for m in [1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 60] {
        for k in [1, m / 3, m / 2, m].into_iter().filter(|&k| k > 0) {
            for zeros in [0.0, 0.6, 0.9] {
                for threshold in [0.01, 0.3, 0.5] {
                    let a = integers(m, &mut random, zeros);
                    delays[0] += check_columns(&a, k, Form::Symmetric, threshold);
                    for (delays, form) in delays[1..].iter_mut().zip(FORMS) {
                        let a = complex(m, &mut of_complex, zeros, form);
                        *delays += check_columns(&a, k, form, threshold);
                    }
                }
            }
        }
    }
    assert!(
        delays.iter().all(|&delays| delays > 100),
        "{delays:?} delays"
    );
}

/// P·A·Pᵀ of the columns that a block took is L·D·Lᵀ or L·D·Lᴴ, L is bounded, and the others are as they were.
fn check_block<F: FrontalScalar<Real = f64>>(
    a: &Dense<F>,
    front: &Front<F>,
    pivots: usize,
    threshold: f64,
) {
    let (m, k, form) = (front.m, front.k, front.form);
    let old = |i: usize| if i < k { front.col[i] as usize } else { i };
    let l = Dense::from_fn(m, pivots, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => F::zero(),
        std::cmp::Ordering::Equal => F::one(),
        std::cmp::Ordering::Greater => front.entry(i, j),
    });
    let spread = F::COMPONENTS as f64;
    assert!(l.max_abs() <= spread * threshold.recip());
    let mut d = Dense::zeros(pivots, pivots);
    let mut at = 0;
    for block in front.blocks(pivots) {
        match block {
            Block::One(v) => {
                d[(at, at)] = v;
                at += 1;
            }
            Block::Two { d11, d21, d22 } => {
                d[(at, at)] = d11;
                d[(at + 1, at + 1)] = d22;
                d[(at + 1, at)] = d21;
                d[(at, at + 1)] = form.counterpart(d21);
                at += 2;
            }
        }
    }
    let product = l.mul(&d).mul(&l.reflected(form));
    let largest = l.max_abs().powi(2) * d.max_abs().max(1.0);
    let bound = spread * 64.0 * (m + 1) as f64 * f64::EPSILON * largest;
    for j in 0..pivots {
        assert_eq!(form.on_diagonal(d[(j, j)]), d[(j, j)]);
        for i in j..m {
            let difference = product[(i, j)] - a[(old(i), old(j))];
            assert!(
                difference.magnitude() <= bound,
                "({i}, {j}): {difference} > {bound}"
            );
            let above = i > j && i < pivots && front.entry(j, i) != F::zero();
            assert!(!above || i == j + 1, "({j}, {i}) above the diagonal");
        }
    }
    for j in pivots..k {
        for i in j..m {
            assert_eq!(
                front.entry(i, j),
                a[(old(i), old(j))],
                "({i}, {j}) was changed"
            );
        }
    }
}

/// How many columns a block took, and how many it left.
fn check_blocks<F: FrontalScalar<Real = f64>>(
    mut a: Dense<F>,
    k: usize,
    form: Form,
    [scale, threshold]: [f64; 2],
) -> [usize; 2] {
    let mut counts = [0; 2];
    for i in k.min(BLOCK_COLUMNS)..a.nrows() {
        for j in (0..k.min(BLOCK_COLUMNS)).filter(|j| j % 5 == 3) {
            a[(i, j)] *= F::from_real(scale);
            a[(j, i)] *= F::from_real(scale);
        }
    }
    for kernels in F::all_symmetric_kernels(form) {
        let mut front = Front::of_form(&a, k, form);
        let progress = front.by_blocks(&rule(threshold, 0.0), kernels);
        assert_eq!(progress.event, None);
        check_block(&a, &front, progress.pivots, threshold);
        counts[0] += progress.pivots;
        counts[1] += k.min(BLOCK_COLUMNS) - progress.pivots;
    }
    counts
}

#[test]
fn blocks_take_columns_or_leave_them_as_they_are() {
    let (mut random, mut of_complex) = (Random(22), Random(52));
    let mut counts = [[0; 2]; 3];
    for m in [1, 2, 7, 8, 9, 31, 32, 33, 64, 70] {
        for k in [1, m / 2, m].into_iter().filter(|&k| k > 0) {
            for scale in [1.0, 40.0, 1e4] {
                for threshold in [0.01, 0.5] {
                    let how = [scale, threshold];
                    let a = integers(m, &mut random, 0.4);
                    let mut found = vec![check_blocks(a, k, Form::Symmetric, how)];
                    for form in FORMS {
                        let a = complex(m, &mut of_complex, 0.4, form);
                        found.push(check_blocks(a, k, form, how));
                    }
                    for (count, found) in counts.as_flattened_mut().iter_mut().zip(found.concat()) {
                        *count += found;
                    }
                }
            }
        }
    }
    let all = counts.as_flattened();
    assert!(all.iter().all(|&count| count > 100), "{counts:?}");
}

/// The first column whose entries below are too large is not taken, nor are those after it.
#[test]
fn one_large_entry_ends_a_block() {
    let (m, k) = (40, 20);
    for at in [0, 1, 7, 19] {
        let a = Dense::from_fn(m, m, |i, j| {
            let entry = (i.max(j), i.min(j));
            match entry {
                _ if i == j => 4.0,
                (33, j) if j == at => 4.0 * 100.5,
                (33, j) if j < at => 4.0 * 99.5,
                _ => 0.0,
            }
        });
        for kernels in f64::all_symmetric_kernels(Form::Symmetric) {
            let mut front = Front::new(&a, k);
            let progress = front.by_blocks(&rule(0.01, 0.0), kernels);
            assert_eq!(progress.pivots, at);
        }
    }
}

/// Pivots of order 2 are taken as a whole: the second column of one alone is too large.
#[test]
fn pivots_of_order_two_are_not_split() {
    let (m, k) = (12, 4);
    let mut a = Dense::zeros(m, m);
    for (i, j, v) in [(0, 0, 1.0), (2, 1, 2.0), (3, 3, 1.0), (10, 1, 1000.0)] {
        a[(i, j)] = v;
        a[(j, i)] = v;
    }
    for kernels in f64::all_symmetric_kernels(Form::Symmetric) {
        let mut front = Front::new(&a, k);
        let progress = front.by_blocks(&rule(0.01, 0.0), kernels);
        assert_eq!(progress.pivots, 1);
        check_block(&a, &front, progress.pivots, 0.01);
        a[(10, 1)] = 100.0;
        a[(1, 10)] = 100.0;
        let mut front = Front::new(&a, k);
        let progress = front.by_blocks(&rule(0.01, 0.0), kernels);
        assert_eq!(progress.pivots, 4);
        check_block(&a, &front, progress.pivots, 0.01);
        a[(10, 1)] = 1000.0;
        a[(1, 10)] = 1000.0;
    }
}

#[test]
fn a_definite_block_ends_at_its_first_pivot_that_is_not_positive() {
    let definite = PivotPolicy::DEFINITE.resolve_symmetric::<f64>(|| 1.0);
    for (at, value) in [(0, -1.0), (5, 0.0), (19, f64::NAN)] {
        let a = Dense::from_fn(30, 30, |i, j| match (i == j, i == at) {
            (true, true) => value,
            (true, false) => 2.0,
            _ => 0.0,
        });
        for kernels in f64::all_symmetric_kernels(Form::Symmetric) {
            let mut front = Front::new(&a, 20);
            let progress = front.by_blocks(&definite, kernels);
            assert_eq!(progress.pivots, at);
            let Some(SymmetricEvent::NotPositive(column, pivot)) = progress.event else {
                panic!("{progress:?}");
            };
            assert_eq!(column as usize, at);
            assert!(pivot == value || pivot.is_nan() && value.is_nan());
        }
    }
}

/// What is not a number is never taken for zero.
#[test]
fn columns_of_zeros_beside_what_is_not_a_number() {
    for at in [1, 5, 11] {
        let mut a = Dense::zeros(12, 12);
        a[(at, 1)] = f64::NAN;
        a[(1, at)] = f64::NAN;
        for kernels in f64::all_symmetric_kernels(Form::Symmetric) {
            let mut front = Front::new(&a, 2);
            let progress = front.by_columns(&rule(0.01, 0.5), kernels);
            assert_eq!((progress.pivots, progress.event), (1, None));
            assert_eq!(front.col, [0, 1]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_front_is_eliminated_as_in_the_reference(
        m in 1usize..40,
        part in 1usize..40,
        seed in any::<u64>(),
        threshold in 0.0..0.5f64,
    ) {
        let mut random = Random(seed);
        let k = part.min(m);
        check_any(&integers(m, &mut random, 0.5), k, Form::Symmetric, threshold);
        for form in FORMS {
            check_any(&complex(m, &mut random, 0.5, form), k, form, threshold);
        }
    }
}

fn check_any<F: FrontalScalar<Real = f64>>(a: &Dense<F>, k: usize, form: Form, threshold: f64) {
    let reference = LdltRule {
        threshold,
        small: 1e-10,
    };
    let expected = ldlt_tpp(a, k, form, &reference).unwrap();
    for kernels in F::all_symmetric_kernels(form) {
        let mut front = Front::of_form(a, k, form);
        let progress = front.by_columns(&rule(threshold, 1e-10), kernels);
        // Ties that rounding decides may go either way; the growth of the reference tells where that matters.
        let is_same_order =
            progress.pivots == expected.lower.ncols() && front.col == expected.perm.as_slice()[..k];
        if expected.max_l() < 1e6 && is_same_order {
            check_against(&front, progress.pivots, &expected);
        }
        let mut front = Front::of_form(a, k, form);
        let progress = front.by_blocks(&rule(threshold.max(0.001), 0.0), kernels);
        check_block(a, &front, progress.pivots, threshold.max(0.001));
    }
}

/// An entry of L within the block that is too large: (0.9 + 1) / 0.559 in the row of the third column.
#[test]
fn entries_within_a_block_are_bounded() {
    let rows = [[0.49, 1.0, 1.0], [1.0, 0.9, -1.0], [1.0, -1.0, 1.0]];
    let a = Dense::from_fn(3, 3, |i, j| rows[i][j]);
    for (threshold, least) in [(0.5, 0), (0.25, 2)] {
        for kernels in f64::all_symmetric_kernels(Form::Symmetric) {
            let mut front = Front::new(&a, 3);
            let progress = front.by_blocks(&rule(threshold, 0.0), kernels);
            assert!(progress.pivots >= least && (least > 0 || progress.pivots == 0));
            check_block(&a, &front, progress.pivots, threshold);
        }
    }
}

#[test]
fn blocks_without_an_inverse_in_range_are_no_pivots() {
    let is_regular = |d11: f64, d21, d22| is_regular(Form::Symmetric, [d11, d21, d22]);
    assert!(is_regular(0.0, 1.0, 0.0) && is_regular(2.0, 1.0, -3.0));
    assert!(is_regular(0.0, 1e-300, 0.0));
    // The inverse has entries of 1e311, or its determinant is rounding.
    assert!(!is_regular(0.0, 1e-311, 0.0) && !is_regular(1.0, 1e-170, 1e-311));
    assert!(!is_regular(1.0, 1.0 - 1e-9, 1.0));
    let inverse = inverse_of_two(Form::Symmetric, [2.0, 1.0, -3.0]);
    assert_eq!(inverse.map(|v: f64| v * 7.0), [3.0, 1.0, -2.0]);
}

#[test]
fn complex_blocks_are_inverted_by_their_form() {
    let z = |re: f64, im: f64| Complex::new(re, im);
    let block = [z(2.0, 0.0), z(1.0, 2.0), z(1.0, 0.0)];
    // 2·1 − (1 + 2i)² = 5 − 4i, and 2·1 − |1 + 2i|² = −3.
    for (form, determinant) in [
        (Form::Symmetric, z(5.0, -4.0)),
        (Form::Hermitian, z(-3.0, 0.0)),
    ] {
        assert!(is_regular(form, block));
        let [e11, e21, e22] = inverse_of_two(form, block);
        assert!((e11 * determinant - 1.0).norm() < 1e-15);
        assert!((e21 * determinant + z(1.0, 2.0)).norm() < 1e-15);
        assert!((e22 * determinant - 2.0).norm() < 1e-15);
        let e12 = form.counterpart(e21);
        let first_row = [
            block[0] * e11 + form.counterpart(block[1]) * e21,
            block[0] * e12 + form.counterpart(block[1]) * e22,
        ];
        assert!((first_row[0] - 1.0).norm() < 1e-15 && first_row[1].norm() < 1e-15);
    }
    // (1 + i)·(1 + i) is regular as a symmetric block, and |1 + i|² beside 1·2 is rounding.
    let block = [z(1.0, 0.0), z(1.0, 1.0), z(2.0, 0.0)];
    assert!(is_regular(Form::Symmetric, block) && !is_regular(Form::Hermitian, block));
}

/// What a front of one pivot has before it is eliminated: its column, and what children added to its element and to the column sums.
struct Single<F> {
    column: Vec<F>,
    element: Vec<F>,
    product: F,
    is_leaf: bool,
}

impl<F: FrontalScalar> Single<F> {
    /// `pivot` and numbers like `number`, with so many rows below.
    fn new(below: usize, pivot: F, is_leaf: bool, mut number: impl FnMut() -> F) -> Self {
        let mut column: Vec<F> = (0..=below).map(|_| number()).collect();
        column[0] = pivot;
        let size = |v: F| F::from_real(v.magnitude());
        let mut element: Vec<F> = (0..below * below).map(|_| number()).collect();
        element.extend((0..below).map(|_| size(number())));
        let product = size(number());
        let zero = |v: F| if is_leaf { F::zero() } else { v };
        Self {
            column,
            element: element.into_iter().map(zero).collect(),
            product: zero(product),
            is_leaf,
        }
    }

    /// Column, lower triangle of the element, column sums and the largest magnitude in L, by one kernel.
    fn at_once(
        &self,
        rule: &ResolvedSymmetric<F::Real>,
        kernels: &SymmetricKernels<F>,
    ) -> Option<[Vec<F>; 4]> {
        let below = self.column.len() - 1;
        let mut column = self.column.clone();
        let mut product = self.product;
        let mut element = self.element.clone();
        if self.is_leaf {
            element.fill(F::from_real(F::Real::nan()));
        }
        let front = SingleFront {
            column: column.as_mut_ptr(),
            below,
            element: element.as_mut_ptr(),
            is_leaf: self.is_leaf,
            product: &raw mut product,
        };
        // SAFETY: the arrays have the sizes, the kernels are of this machine.
        let max_l = unsafe { (kernels.eliminate_single)(&front, rule) };
        let Some(max_l) = max_l else {
            let same = column.iter().zip(&self.column);
            assert!(same.into_iter().all(|(a, b)| a == b || !a.is_number()));
            return None;
        };
        let mut sums = vec![product];
        sums.extend(&element[below * below..]);
        let element = lower(&element, below);
        Some([column, element, sums, vec![F::from_real(max_l)]])
    }

    /// Likewise by the kernels of all fronts, if the pivot is accepted.
    fn step_by_step(
        &self,
        rule: &ResolvedSymmetric<F::Real>,
        kernels: &SymmetricKernels<F>,
    ) -> Option<[Vec<F>; 4]> {
        let m = self.column.len();
        let below = m - 1;
        let mut front = Front {
            panel: self.column.clone(),
            m,
            k: 1,
            col: vec![0],
            form: kernels.form,
        };
        if front.by_blocks(rule, kernels).pivots == 0 {
            return None;
        }
        let mut sums = vec![self.product];
        sums.extend(&self.element[below * below..]);
        let mut element = self.element[..below * below].to_vec();
        let (mut s, mut x) = (vec![F::zero(); m], vec![F::zero(); below]);
        let l = front.panel[1..].as_ptr();
        // SAFETY: as above.
        let max_l = unsafe {
            let max_l = (kernels.check_lower)(&CheckLower {
                lp: front.panel.as_ptr(),
                m,
                pivots: 1,
                products: sums.as_mut_ptr(),
                s: s.as_mut_ptr(),
            });
            (kernels.times_diagonal)(below, 1, l, front.panel.as_ptr(), m, x.as_mut_ptr(), below);
            (kernels.gemm_lower)(&Gemm {
                rows: below,
                columns: below,
                depth: 1,
                a: l,
                lda: m,
                b: x.as_ptr(),
                ldb: below,
                c: element.as_mut_ptr(),
                ldc: below,
            });
            max_l
        };
        let element = lower(&element, below);
        Some([front.panel, element, sums, vec![F::from_real(max_l)]])
    }
}

/// The lower triangle of a matrix.
fn lower<F: FrontalScalar>(a: &[F], order: usize) -> Vec<F> {
    (0..order)
        .flat_map(|j| a[j * order + j..(j + 1) * order].iter().copied())
        .collect()
}

fn bits<F: FrontalScalar>(values: &[Vec<F>; 4]) -> Vec<u64> {
    let mut bits = Vec::new();
    for &value in values.iter().flatten() {
        value.map_components(|part| {
            bits.push(part.to_f64().to_bits());
            part
        });
    }
    bits
}

/// Compares both ways; whether the pivot was taken.
fn check_single<F: FrontalScalar>(
    single: &Single<F>,
    rule: &ResolvedSymmetric<F::Real>,
    form: Form,
) -> bool {
    let mut is_taken = false;
    for kernels in F::all_symmetric_kernels(form) {
        let at_once = single.at_once(rule, kernels);
        let step_by_step = single.step_by_step(rule, kernels);
        assert_eq!(at_once.is_some(), step_by_step.is_some());
        let [at_once, step_by_step] = [at_once, step_by_step].map(|found| found.map(|f| bits(&f)));
        assert!(at_once == step_by_step);
        is_taken = at_once.is_some();
    }
    is_taken
}

fn check_singles<F: FrontalScalar>(form: Form) {
    let mut random = Random(77);
    let number = |random: &mut Random| {
        F::from_components(|_| <F::Real as RealScalar>::from_f64(random.next()))
    };
    let definite = PivotPolicy::DEFINITE.resolve_symmetric::<F::Real>(|| 1.0);
    let has_signs = F::COMPONENTS == 1 || form == Form::Hermitian;
    let mut taken = 0;
    for below in 0..=SINGLE_ROWS {
        for is_leaf in [false, true] {
            for size in [0.3, 0.02, -0.7] {
                let pivot = F::from_real(F::Real::from_f64(size));
                let single = Single::new(below, pivot, is_leaf, || number(&mut random));
                taken += usize::from(check_single(&single, &rule(0.25, 1e-10), form));
                if has_signs {
                    assert_eq!(check_single(&single, &definite, form), size > 0.0);
                }
            }
        }
    }
    assert!((40..200).contains(&taken), "{taken}");
}

#[test]
fn a_front_of_one_pivot_has_the_bits_of_all_steps() {
    check_singles::<f64>(Form::Symmetric);
    check_singles::<f32>(Form::Symmetric);
    for form in FORMS {
        check_singles::<Complex<f64>>(form);
        check_singles::<Complex<f32>>(form);
    }
}

/// What a front of one pivot leaves to those that look closer.
#[test]
fn one_pivot_alone_is_left_where_it_is_not_plain() {
    let definite = PivotPolicy::DEFINITE.resolve_symmetric::<f64>(|| 1.0);
    for kernels in f64::all_symmetric_kernels(Form::Symmetric) {
        for (pivot, entry, is_plain, is_definite) in [
            (1.0, 0.5, true, true),
            (-1.0, 0.5, true, false),
            (1.0, 4.0, true, true),
            (1.0, 4.5, false, true),
            (0.0, 0.5, false, false),
            (f64::NAN, 0.5, false, false),
            (1e-12, 1e-13, false, true),
            (1e-310, 1e-312, false, false),
            (1e308, 1e308, false, false),
            (f64::INFINITY, 0.5, false, false),
            (1.0, f64::NAN, false, false),
            (1.0, f64::INFINITY, false, false),
        ] {
            for below in [1, 9] {
                let mut single = Single::new(below, pivot, true, || 0.25 * pivot);
                single.column[below] = entry;
                let of = |rule: &ResolvedSymmetric<f64>| single.at_once(rule, kernels).is_some();
                let case = format!("{pivot} {entry} {below}");
                assert_eq!(of(&rule(0.25, 1e-10)), is_plain, "{case}");
                assert_eq!(of(&definite), is_definite, "{case}");
            }
        }
    }
}
