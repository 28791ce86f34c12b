//! Complex matrices: general, Hermitian, positive definite, complex symmetric.

use std::ptr::null_mut;

use luge::num_complex::Complex;
use luge_c::luge_operation::*;
use luge_c::luge_status::*;
use luge_c::*;

use crate::support::*;

type C64 = Complex<f64>;

const fn c(re: f64, im: f64) -> C64 {
    Complex { re, im }
}

const ZERO: C64 = c(0.0, 0.0);

const GENERAL: [[C64; 3]; 3] = [
    [c(4.0, 1.0), c(1.0, -2.0), ZERO],
    [c(0.0, 2.0), c(3.0, 0.0), c(1.0, 0.0)],
    [ZERO, c(0.0, 1.0), c(2.0, 0.0)],
];

/// Two positive eigenvalues and one negative.
const HERMITIAN: [[C64; 3]; 3] = [
    [c(2.0, 0.0), ZERO, c(1.0, 1.0)],
    [ZERO, c(3.0, 0.0), c(0.0, -2.0)],
    [c(1.0, -1.0), c(0.0, 2.0), ZERO],
];

const SYMMETRIC: [[C64; 3]; 3] = [
    [c(2.0, 1.0), ZERO, c(1.0, 1.0)],
    [ZERO, c(3.0, 0.0), c(0.0, -2.0)],
    [c(1.0, 1.0), c(0.0, -2.0), ZERO],
];

const X: [C64; 3] = [c(1.0, -1.0), c(0.5, 2.0), c(-3.0, 0.25)];

/// By rows; zeros are not stored.
fn stored<T>(rows: &[[C64; 3]; 3], number: impl Fn(C64) -> T) -> Arrays<i32, T> {
    let mut arrays = Arrays {
        n: 3,
        offsets: vec![0],
        indices: Vec::new(),
        values: Vec::new(),
    };
    for row in rows {
        for (j, &value) in row.iter().enumerate().filter(|&(_, &v)| v != ZERO) {
            arrays.indices.push(j as i32);
            arrays.values.push(number(value));
        }
        arrays.offsets.push(arrays.indices.len() as i32);
    }
    arrays
}

fn double(rows: &[[C64; 3]; 3]) -> Arrays<i32, C64> {
    stored(rows, |value| value)
}

fn view<T>(arrays: &Arrays<i32, T>, value_type: luge_value_type) -> luge_matrix {
    luge_matrix {
        value_type: value_type as i32,
        ..arrays.view()
    }
}

fn double_view(arrays: &Arrays<i32, C64>) -> luge_matrix {
    view(arrays, luge_value_type::LUGE_COMPLEX_F64)
}

fn of_kind(kind: luge_kind) -> Owned<luge_solver> {
    solver(&[(luge_int_option::LUGE_OPTION_KIND, kind as i64)])
}

/// A·x, Aᵀ·x or Aᴴ·x.
fn product(rows: &[[C64; 3]; 3], x: &[C64; 3], operation: luge_operation) -> Vec<C64> {
    let entry = |i: usize, j: usize| match operation {
        LUGE_NO_TRANSPOSE => rows[i][j],
        LUGE_TRANSPOSE => rows[j][i],
        LUGE_CONJUGATE_TRANSPOSE => rows[j][i].conj(),
    };
    let row = |i| (0..3).map(|j| entry(i, j) * x[j]).sum();
    (0..3).map(row).collect()
}

#[track_caller]
fn assert_close(found: &[C64], expected: &[C64], bound: f64) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).norm() < bound, "{found:?} is not {expected:?}");
    }
}

/// Solves with A, its transpose and its conjugate transpose, out of place and in place, for two right-hand sides.
fn check_solves(factors: &Owned<luge_factors>, rows: &[[C64; 3]; 3]) {
    let twice = X.map(|x| x * 2.0);
    let expected = [X, twice].concat();
    for operation in [LUGE_NO_TRANSPOSE, LUGE_TRANSPOSE, LUGE_CONJUGATE_TRANSPOSE] {
        let mut b = [X, twice].map(|x| product(rows, &x, operation)).concat();
        let mut x = vec![ZERO; 6];
        let number = operation as i32;
        let mut accuracy: luge_accuracy = sized();
        // SAFETY: the handle is one, and there are two columns of three numbers each.
        unsafe {
            let (from, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
            let handle = factors.handle;
            ok(luge_solve_complex(
                handle,
                number,
                2,
                from,
                3,
                to,
                3,
                &mut accuracy,
            ));
            assert_close(&x, &expected, 1e-13);
            assert!(accuracy.backward_error < 1e-14);
            let both = b.as_mut_ptr().cast();
            ok(luge_solve_in_place_complex(
                handle,
                number,
                2,
                both,
                3,
                null_mut(),
            ));
        }
        assert_close(&b, &expected, 1e-13);
    }
}

#[test]
fn general_matrices_are_solved() {
    let arrays = double(&GENERAL);
    let factors = factors(&solver(&[]), &double_view(&arrays));
    check_solves(&factors, &GENERAL);
    assert_eq!(
        inform(&factors).precision,
        luge_value_type::LUGE_COMPLEX_F64 as i32
    );
    let (mut mantissa, mut exponent) = (ZERO, 0);
    // SAFETY: the handle is one, and there is room for two numbers and one.
    unsafe {
        let parts = (&raw mut mantissa).cast();
        ok(luge_determinant_complex(
            factors.handle,
            parts,
            &mut exponent,
        ));
        let status = luge_determinant(factors.handle, &mut 0.0, &mut exponent);
        refused(status, LUGE_ERROR_TYPE, "has complex double");
    }
    let determinant = mantissa * 2f64.powi(exponent as i32);
    assert_close(&[determinant], &[expected_determinant()], 1e-12);
    // Twice the matrix, by its values alone.
    let values: Vec<C64> = arrays.values.iter().map(|v| v * 2.0).collect();
    // SAFETY: the handle is one, and there is a value for each entry.
    ok(unsafe {
        let count = values.len() as i64;
        luge_refactorize_values_complex(factors.handle, count, values.as_ptr().cast(), null_mut())
    });
    check_solves(&factors, &GENERAL.map(|row| row.map(|v| v * 2.0)));
}

/// By the rule of Sarrus.
fn expected_determinant() -> C64 {
    let a = GENERAL;
    let product = |i: usize, j: usize, k: usize| a[0][i] * a[1][j] * a[2][k];
    product(0, 1, 2) + product(1, 2, 0) + product(2, 0, 1)
        - product(2, 1, 0)
        - product(1, 0, 2)
        - product(0, 2, 1)
}

#[test]
fn hermitian_matrices_have_an_inertia() {
    let solver = of_kind(luge_kind::LUGE_KIND_HERMITIAN);
    let mut lower = HERMITIAN;
    (lower[0][2], lower[1][2]) = (ZERO, ZERO);
    for rows in [HERMITIAN, lower] {
        let factors = factors(&solver, &double_view(&double(&rows)));
        check_solves(&factors, &HERMITIAN);
        let mut counts = [0; 3];
        let [positive, negative, zero] = &mut counts;
        // SAFETY: the handle is one, and there is room for numbers.
        ok(unsafe { luge_inertia(factors.handle, positive, negative, zero) });
        assert_eq!(counts, [2, 1, 0]);
        assert_eq!(inform(&factors).kind, luge_kind::LUGE_KIND_HERMITIAN as i32);
        // F, D and F^H, one after another, solve with A.
        let mut x = product(&HERMITIAN, &X, LUGE_NO_TRANSPOSE);
        for part in 0..3 {
            let at = x.as_mut_ptr().cast();
            // SAFETY: the handle is one, and there is a column.
            ok(unsafe { luge_solve_part_complex(factors.handle, part, 1, at, 3) });
        }
        assert_close(&x, &X, 1e-13);
    }
    // It is not symmetric, and the other is not Hermitian.
    for (kind, rows) in [
        (luge_kind::LUGE_KIND_SYMMETRIC, &HERMITIAN),
        (luge_kind::LUGE_KIND_HERMITIAN, &SYMMETRIC),
    ] {
        let (solver, arrays) = (of_kind(kind), double(rows));
        let mut out = null_mut();
        // SAFETY: handles and matrix are what they should be.
        let status = unsafe { luge_analyze(solver.handle, &double_view(&arrays), &mut out) };
        let error = refused(status, LUGE_ERROR_NOT_SYMMETRIC, "");
        assert!(error.row >= 0 && error.column >= 0);
    }
}

#[test]
fn complex_symmetric_matrices_have_none() {
    let solver = of_kind(luge_kind::LUGE_KIND_SYMMETRIC);
    let factors = factors(&solver, &double_view(&double(&SYMMETRIC)));
    check_solves(&factors, &SYMMETRIC);
    let mut counts = [0; 3];
    let [positive, negative, zero] = &mut counts;
    // SAFETY: the handle is one, and there is room for numbers.
    let status = unsafe { luge_inertia(factors.handle, positive, negative, zero) };
    refused(status, LUGE_ERROR_NOT_APPLICABLE, "no inertia");
}

#[test]
fn positive_definite_matrices_are_told_from_others() {
    let solver = of_kind(luge_kind::LUGE_KIND_POSITIVE_DEFINITE);
    let mut definite = HERMITIAN;
    definite[2][2] = c(9.0, 0.0);
    check_solves(
        &factors(&solver, &double_view(&double(&definite))),
        &definite,
    );
    let arrays = double(&HERMITIAN);
    let analysis = analysis(&solver, &double_view(&arrays));
    let mut out = null_mut();
    // SAFETY: handles and matrix are what they should be.
    let status = unsafe { luge_factorize(analysis.handle, &double_view(&arrays), &mut out) };
    refused(status, LUGE_ERROR_NOT_POSITIVE_DEFINITE, "");
}

#[test]
fn single_precision_is_a_type_of_its_own() {
    let arrays = stored(&GENERAL, |v| Complex::new(v.re as f32, v.im as f32));
    let matrix = view(&arrays, luge_value_type::LUGE_COMPLEX_F32);
    let solver = solver(&[]);
    let analysis = analysis(&solver, &matrix);
    let count = arrays.values.len() as i64;
    // SAFETY: the handle is one, and there is a value for each entry.
    let factors = made(luge_factors_free, |out| unsafe {
        let values = arrays.values.as_ptr().cast();
        luge_factorize_values_complex_f32(analysis.handle, count, values, out)
    });
    let b = product(&GENERAL, &X, LUGE_CONJUGATE_TRANSPOSE);
    let mut x: Vec<Complex<f32>> = b
        .iter()
        .map(|v| Complex::new(v.re as f32, v.im as f32))
        .collect();
    let operation = LUGE_CONJUGATE_TRANSPOSE as i32;
    // SAFETY: the handle is one, there is a column, and a value for each entry.
    unsafe {
        let at: *mut f32 = x.as_mut_ptr().cast();
        let handle = factors.handle;
        let values = arrays.values.as_ptr().cast();
        ok(luge_refactorize_values_complex_f32(
            handle,
            count,
            values,
            null_mut(),
        ));
        ok(luge_solve_in_place_complex_f32(
            handle,
            operation,
            1,
            at,
            3,
            null_mut(),
        ));
        let found: Vec<C64> = x.iter().map(|v| c(v.re.into(), v.im.into())).collect();
        assert_close(&found, &X, 1e-5);
        ok(luge_solve_complex_f32(
            handle,
            0,
            1,
            at,
            3,
            at,
            3,
            null_mut(),
        ));
        // Numbers of another type.
        let mut wrong = [ZERO; 3];
        let at = wrong.as_mut_ptr().cast();
        let status = luge_solve_complex(handle, 0, 1, at, 3, at, 3, null_mut());
        refused(
            status,
            LUGE_ERROR_TYPE,
            "the numbers are complex double; the matrix that was analyzed has complex float",
        );
        let status = luge_solve(handle, 0, 1, at, 3, at, 3, null_mut());
        refused(status, LUGE_ERROR_TYPE, "the numbers are double");
    }
}

#[test]
fn real_matrices_have_a_complex_determinant_and_a_conjugate_transpose() {
    let factors = factors(&solver(&[]), &dense(crate::support::GENERAL).view());
    let (mut parts, mut exponent) = ([f64::NAN; 2], 0);
    // SAFETY: the handle is one, and there is room for two numbers and one.
    ok(unsafe { luge_determinant_complex(factors.handle, parts.as_mut_ptr(), &mut exponent) });
    assert!((parts[0] * 2f64.powi(exponent as i32) - DETERMINANT).abs() < 1e-12);
    assert_eq!(parts[1], 0.0);
    let x = [1.0, 2.0, 3.0];
    let mut b = crate::support::product(&crate::support::GENERAL, &x, true);
    let operation = LUGE_CONJUGATE_TRANSPOSE as i32;
    // SAFETY: the handle is one, and there is a column.
    ok(unsafe { luge_solve_in_place(factors.handle, operation, 1, b.as_mut_ptr(), 3, null_mut()) });
    crate::support::assert_close(&b, &x);
}

#[test]
fn devices_solve_systems_of_every_kind() {
    for (kind, rows) in [
        (luge_kind::LUGE_KIND_GENERAL, &GENERAL),
        (luge_kind::LUGE_KIND_SYMMETRIC, &SYMMETRIC),
        (luge_kind::LUGE_KIND_HERMITIAN, &HERMITIAN),
    ] {
        let solver = solver(&[
            (
                luge_int_option::LUGE_OPTION_BACKEND,
                luge_backend::LUGE_BACKEND_SIMULATOR as i64,
            ),
            (luge_int_option::LUGE_OPTION_KIND, kind as i64),
        ]);
        let arrays = double(rows);
        check_solves(&factors(&solver, &double_view(&arrays)), rows);
    }
}
