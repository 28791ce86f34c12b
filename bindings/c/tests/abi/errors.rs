//! Every path on which a call refuses what it is given.

use std::ptr::{null, null_mut};

use luge_c::luge_int_option::*;
use luge_c::luge_status::*;
use luge_c::*;

use crate::support::*;

/// Has a matrix analyzed and expects a refusal.
#[track_caller]
fn analysis_refused(
    chosen: &[(luge_int_option, i64)],
    matrix: &luge_matrix,
    status: luge_status,
    words: &str,
) -> luge_error {
    let solver = solver(chosen);
    let mut out = std::ptr::dangling_mut();
    // SAFETY: handle and room are what the call takes.
    let found = unsafe { luge_analyze(solver.handle, matrix, &mut out) };
    assert!(out.is_null(), "a handle that is not made is NULL");
    refused(found, status, words)
}

/// Has a matrix factorized and expects a refusal.
#[track_caller]
fn factors_refused(
    chosen: &[(luge_int_option, i64)],
    analyzed: &luge_matrix,
    matrix: &luge_matrix,
    status: luge_status,
    words: &str,
) -> luge_error {
    let analysis = analysis(&solver(chosen), analyzed);
    let mut out = std::ptr::dangling_mut();
    // SAFETY: handle and room are what the call takes.
    let found = unsafe { luge_factorize(analysis.handle, matrix, &mut out) };
    assert!(out.is_null(), "a handle that is not made is NULL");
    refused(found, status, words)
}

#[test]
fn descriptions_of_matrices_are_checked() {
    let rows = dense(GENERAL);
    let wrong = |change: &dyn Fn(&mut luge_matrix), status, words: &str| {
        let mut view = rows.view();
        change(&mut view);
        analysis_refused(&[], &view, status, words)
    };
    let argument = LUGE_ERROR_ARGUMENT;
    wrong(&|m| m.size = 0, argument, "set it to sizeof(luge_matrix)");
    wrong(&|m| m.size -= 1, argument, "sizeof");
    wrong(&|m| m.size = usize::MAX, argument, "sizeof");
    wrong(&|m| m.n = -1, argument, "`matrix.n` is -1");
    wrong(&|m| m.n = i64::MIN, argument, "`matrix.n`");
    wrong(
        &|m| m.n = u32::MAX.into(),
        LUGE_ERROR_INDEX_OVERFLOW,
        "4294967295",
    );
    wrong(
        &|m| m.n = i64::MAX,
        LUGE_ERROR_INDEX_OVERFLOW,
        "at most 4294967294",
    );
    wrong(&|m| m.nnz = -7, argument, "`matrix.nnz` is -7");
    wrong(&|m| m.nnz = 10, argument, "order 3 cannot have 10 entries");
    wrong(&|m| m.nnz = i64::MAX, argument, "cannot have");
    wrong(&|m| m.nnz = 6, LUGE_ERROR_MATRIX, "the offset number 3");
    wrong(
        &|m| m.index_base = 1,
        LUGE_ERROR_MATRIX,
        "must be index_base, 1",
    );
    wrong(&|m| m.index_base = 2, argument, "must be 0 or 1");
    wrong(&|m| m.index_base = -1, argument, "must be 0 or 1");
    wrong(&|m| m.format = 2, argument, "luge_format");
    wrong(&|m| m.index_type = -1, argument, "luge_index_type");
    wrong(&|m| m.value_type = 7, argument, "luge_value_type");
    wrong(&|m| m.offsets = null(), LUGE_ERROR_NULL, "matrix.offsets");
    wrong(&|m| m.indices = null(), LUGE_ERROR_NULL, "matrix.indices");
    let odd = |at: *const std::ffi::c_void| at.wrapping_byte_add(1);
    wrong(
        &|m| m.offsets = odd(m.offsets),
        argument,
        "`matrix.offsets` is not aligned",
    );
    wrong(
        &|m| m.indices = odd(m.indices),
        argument,
        "`matrix.indices` is not aligned",
    );
    wrong(
        &|m| m.values = odd(m.values),
        argument,
        "`matrix.values` is not aligned",
    );
    let mut pattern = rows.view();
    pattern.values = null();
    factors_refused(
        &[],
        &rows.view(),
        &pattern,
        LUGE_ERROR_NULL,
        "matrix.values",
    );
    let factors = factors(&solver(&[]), &rows.view());
    // SAFETY: the handle is one, and the matrix too.
    let status = unsafe { luge_refactorize(factors.handle, &pattern, null_mut()) };
    refused(status, LUGE_ERROR_NULL, "matrix.values");
}

#[test]
fn arrays_of_matrices_are_checked() {
    let rows = dense(GENERAL);
    let wrong = |change: &dyn Fn(&mut Arrays), words: &str| {
        let mut arrays = rows.clone();
        change(&mut arrays);
        let error = analysis_refused(&[], &arrays.view(), LUGE_ERROR_MATRIX, words);
        (error.row, error.column)
    };
    assert_eq!(wrong(&|a| a.offsets[1] = 6, "row 1 ends before"), (1, -1));
    assert_eq!(wrong(&|a| a.offsets[2] = -1, "row 2 ends before"), (2, -1));
    assert_eq!(
        wrong(&|a| a.indices.swap(2, 3), "row 1 do not increase"),
        (1, 0)
    );
    assert_eq!(
        wrong(&|a| a.indices[1] = 0, "row 0 do not increase"),
        (0, 0)
    );
    assert_eq!(wrong(&|a| a.indices[6] = 3, "beyond the size"), (2, -1));
    assert_eq!(wrong(&|a| a.indices[1] = -1, "beyond the size"), (0, -1));
    assert_eq!(
        wrong(&|a| a.indices[1] = i32::MIN, "beyond the size"),
        (0, -1)
    );
    // With 1 as the base, 0 is beyond it.
    let mut fortran = rows.clone();
    fortran.offsets.iter_mut().for_each(|offset| *offset += 1);
    fortran.indices = vec![1, 0, 1, 2, 3, 2, 3];
    let mut view = fortran.view();
    view.index_base = 1;
    let error = analysis_refused(&[], &view, LUGE_ERROR_MATRIX, "beyond the size");
    assert_eq!(error.row, 0);
    // By columns the place is a column.
    let mut columns = rows.clone();
    columns.indices.swap(2, 3);
    let mut view = columns.view();
    view.format = luge_format::LUGE_CSC as i32;
    let error = analysis_refused(&[], &view, LUGE_ERROR_MATRIX, "column 1 do not increase");
    assert_eq!((error.row, error.column), (0, 1));
}

#[test]
fn values_that_no_matrix_has_are_named() {
    let rows = dense(GENERAL);
    for value in [f64::NAN, f64::INFINITY] {
        let mut wrong = rows.clone();
        wrong.values[4] = value;
        let status = LUGE_ERROR_NOT_FINITE;
        let error = analysis_refused(&[], &wrong.view(), status, "row 1, column 2");
        assert_eq!((error.row, error.column), (1, 2));
        factors_refused(&[], &rows.view(), &wrong.view(), status, "row 1, column 2");
    }
}

#[test]
fn singular_matrices_are_refused() {
    let mut rows = GENERAL;
    rows[2] = [0.0; 3];
    let error = analysis_refused(
        &[],
        &dense(rows).view(),
        LUGE_ERROR_STRUCTURALLY_SINGULAR,
        "row 2",
    );
    assert_eq!((error.rank, error.num_unmatched), (2, 1));
    let unmatched = |capacity: i64| {
        let (mut rows, mut columns, mut count) = ([-1; 2], [-1; 2], -1);
        // SAFETY: there is room for the capacity.
        ok(unsafe {
            luge_last_error_unmatched(
                capacity,
                rows.as_mut_ptr(),
                columns.as_mut_ptr(),
                &mut count,
            )
        });
        (rows[0], columns[0], count)
    };
    let (row, column, count) = unmatched(2);
    assert!(row == 2 && (0..3).contains(&column) && count == 1);
    assert_eq!(unmatched(0), (-1, -1, 1));
    let mut zeros = dense(GENERAL);
    zeros.values[5..].fill(0.0);
    let error = analysis_refused(&[], &zeros.view(), LUGE_ERROR_ZEROS_ONLY, "rank 2 at most");
    assert_eq!(error.rank, 2);
    assert_eq!(unmatched(1).2, 1);
    // Exactly, though no entry shows it.
    let dependent = dense([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]]);
    let error = factors_refused(
        &[],
        &dependent.view(),
        &dependent.view(),
        LUGE_ERROR_ZERO_PIVOT,
        "has no usable pivot",
    );
    assert!((0..3).contains(&error.column) && error.row == -1);
    // Nothing is left of an older error.
    assert_eq!(unmatched(2).2, 0);
}

#[test]
fn kinds_are_checked() {
    let definite = (
        LUGE_OPTION_KIND,
        luge_kind::LUGE_KIND_POSITIVE_DEFINITE as i64,
    );
    let rows = dense(GENERAL);
    let status = LUGE_ERROR_NOT_SYMMETRIC;
    let error = analysis_refused(&[symmetric()], &rows.view(), status, "row 0, column 1");
    assert_eq!((error.row, error.column), (0, 1));
    let indefinite = dense([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
    let status = LUGE_ERROR_NOT_POSITIVE_DEFINITE;
    let view = indefinite.view();
    let error = factors_refused(&[definite], &view, &view, status, "not positive definite");
    assert!((0..2).contains(&error.column) && error.value < 0.0);
    let general = factors(&solver(&[]), &rows.view());
    let (mut numbers, mut x) = ([0; 3], [0.0; 3]);
    let [a, b, c] = &mut numbers;
    // SAFETY: the handle is one, and there is room for the numbers.
    unsafe {
        let status = LUGE_ERROR_NOT_APPLICABLE;
        refused(
            luge_inertia(general.handle, a, b, c),
            status,
            "as a general one",
        );
        let found = luge_solve_part(general.handle, 0, 1, x.as_mut_ptr(), 3);
        refused(found, status, "as a general one");
        refused(
            luge_pivots(general.handle, a, null_mut()),
            status,
            "as a general one",
        );
        let found = luge_perturbed_columns(general.handle, 3, a, b);
        refused(found, status, "only the number");
        let indefinite = factors(&solver(&[symmetric()]), &indefinite.view());
        let found = luge_solve_part(indefinite.handle, 3, 1, x.as_mut_ptr(), 3);
        refused(found, LUGE_ERROR_ARGUMENT, "luge_part");
        let found = luge_solve_part(indefinite.handle, -1, 0, null_mut(), 3);
        refused(found, LUGE_ERROR_ARGUMENT, "luge_part");
        assert_eq!((numbers, x), ([0; 3], [0.0; 3]));
    }
}

#[test]
fn other_patterns_and_sizes_are_refused() {
    let rows = dense(GENERAL);
    let mut more = GENERAL;
    more[0][2] = 1.0;
    let status = LUGE_ERROR_EXTRA_ENTRY;
    let more = dense(more);
    let error = factors_refused(&[], &rows.view(), &more.view(), status, "row 0, column 2");
    assert_eq!((error.row, error.column), (0, 2));
    let small = dense([[1.0, 0.0], [0.0, 1.0]]);
    factors_refused(&[], &rows.view(), &small.view(), LUGE_ERROR_SIZE, "2 by 2");
    let analysis = analysis(&solver(&[]), &rows.view());
    let mut out = null_mut();
    for count in [0, 6, 8, i64::MAX] {
        // SAFETY: no more values are read than there are entries.
        let status = unsafe {
            luge_factorize_values(analysis.handle, count, rows.values.as_ptr(), &mut out)
        };
        refused(status, LUGE_ERROR_SIZE, "has 7 entries");
    }
    // SAFETY: as above.
    unsafe {
        let status = luge_factorize_values(analysis.handle, -1, rows.values.as_ptr(), &mut out);
        refused(status, LUGE_ERROR_ARGUMENT, "`count` is -1");
        let status = luge_factorize_values(analysis.handle, 7, null(), &mut out);
        refused(status, LUGE_ERROR_NULL, "values");
    }
    assert!(out.is_null());
    let factors = factors(&solver(&[]), &rows.view());
    // The factors stay those that they were.
    let b = product(&GENERAL, &[1.0, 2.0, 3.0], false);
    // SAFETY: as above.
    unsafe {
        let found = luge_refactorize(factors.handle, &more.view(), null_mut());
        refused(found, LUGE_ERROR_EXTRA_ENTRY, "row 0, column 2");
        let found = luge_refactorize_values(factors.handle, 6, rows.values.as_ptr(), null_mut());
        refused(found, LUGE_ERROR_SIZE, "there are 6 values");
        let zeros = [0.0; 7];
        let found = luge_refactorize_values(factors.handle, 7, zeros.as_ptr(), null_mut());
        assert_ne!(found, LUGE_OK);
    }
    assert_close(&solved(&factors, &b, false), &[1.0, 2.0, 3.0]);
}

#[test]
fn orderings_and_static_pivots_that_do_not_serve_are_refused() {
    let definite = dense([[4.0, 1.0], [1.0, 3.0]]);
    let colamd = (
        LUGE_OPTION_ORDERING,
        luge_ordering::LUGE_ORDERING_COLAMD as i64,
    );
    let words = "does not order symmetric matrices";
    let view = definite.view();
    analysis_refused(&[symmetric(), colamd], &view, LUGE_ERROR_ORDERING, words);
    let pivoting = luge_pivoting::LUGE_PIVOTING_STATIC as i64;
    let chosen = options(&[
        (LUGE_OPTION_BACKEND, luge_backend::LUGE_BACKEND_CPU as i64),
        (LUGE_OPTION_PIVOTING, pivoting),
        (LUGE_OPTION_MAX_REFINEMENT_STEPS, 0),
    ]);
    let perturbation = luge_real_option::LUGE_OPTION_PERTURBATION as i32;
    // SAFETY: the handle is one.
    let solver = unsafe {
        ok(luge_options_set_real(chosen.handle, perturbation, 0.5));
        made(luge_solver_free, |out| {
            luge_solver_create(chosen.handle, out)
        })
    };
    let factors = factors(&solver, &view);
    // The pivots of the other matrix are on the other diagonal.
    let swapped = dense([[1e-8, 1.0], [1.0, 1e-8]]);
    // SAFETY: the handle is one, and the matrix too.
    let status = unsafe { luge_refactorize(factors.handle, &swapped.view(), null_mut()) };
    let error = refused(status, LUGE_ERROR_UNSTABLE, "unstable");
    assert!((0..2).contains(&error.row) && error.value > 1e-12 && error.growth > 0.0);
    assert_close(&solved(&factors, &[6.0, 7.0], false), &[1.0, 2.0]);
}

#[test]
fn right_hand_sides_are_checked() {
    let factors = factors(&solver(&[]), &dense(GENERAL).view());
    let handle = factors.handle;
    let b = [1.0; 8];
    let mut x = [9.0; 8];
    let at = x.as_mut_ptr();
    let argument = LUGE_ERROR_ARGUMENT;
    // SAFETY: two columns with a leading dimension of 4 have room.
    unsafe {
        let solve = |operation, nrhs, ldb, ldx| {
            luge_solve(
                handle,
                operation,
                nrhs,
                b.as_ptr(),
                ldb,
                at,
                ldx,
                null_mut(),
            )
        };
        refused(solve(3, 1, 3, 3), argument, "luge_operation");
        refused(solve(-1, 1, 3, 3), argument, "luge_operation");
        refused(solve(0, -1, 3, 3), argument, "`nrhs` is -1");
        refused(
            solve(0, 2, 2, 3),
            argument,
            "of `b` is 2; the matrix has order 3",
        );
        refused(solve(0, 2, 3, 2), argument, "of `x` is 2");
        refused(solve(0, 2, -3, 3), argument, "leading dimension");
        refused(solve(0, i64::MAX, 3, 3), argument, "memory");
        refused(solve(0, 1 << 61, 4, 4), argument, "memory");
        refused(solve(0, 2, i64::MAX, 3), argument, "memory");
        let null_b = luge_solve(handle, 0, 1, null(), 3, at, 3, null_mut());
        refused(null_b, LUGE_ERROR_NULL, "`b`");
        let null_x = luge_solve(handle, 0, 1, b.as_ptr(), 3, null_mut(), 3, null_mut());
        refused(null_x, LUGE_ERROR_NULL, "`x`");
        let odd = luge_solve(handle, 0, 1, b.as_ptr().byte_add(4), 3, at, 3, null_mut());
        refused(odd, argument, "`b` is not aligned");
        let odd = luge_solve_in_place(handle, 0, 1, at.byte_add(1), 3, null_mut());
        refused(odd, argument, "`x` is not aligned");
        let mut unset: luge_accuracy = sized();
        unset.size = 0;
        let found = luge_solve(handle, 0, 1, b.as_ptr(), 3, at, 3, &mut unset);
        refused(found, argument, "sizeof(luge_accuracy)");
        let found = luge_solve_in_place(handle, 0, 1, at, 3, &mut unset);
        refused(found, argument, "sizeof(luge_accuracy)");
        let single = luge_solve_f32(handle, 0, 1, null(), 3, null_mut(), 3, null_mut());
        refused(single, LUGE_ERROR_TYPE, "the numbers are float");
    }
    assert_eq!(x, [9.0; 8], "nothing is written");
}

#[test]
fn vectors_that_are_not_finite_are_named() {
    let factors = factors(&solver(&[]), &dense(GENERAL).view());
    let handle = factors.handle;
    for operation in [0, 1] {
        let mut b = [1.0; 6];
        b[4] = f64::NAN;
        let mut x = [9.0; 6];
        // SAFETY: there are two columns of three numbers.
        unsafe {
            let (from, to) = (b.as_ptr(), x.as_mut_ptr());
            let found = luge_solve(handle, operation, 2, from, 3, to, 3, null_mut());
            let error = refused(found, LUGE_ERROR_RHS_NOT_FINITE, "row 1, column 1");
            assert_eq!((error.row, error.column), (1, 1));
            let found = luge_solve_in_place(handle, operation, 2, b.as_mut_ptr(), 3, null_mut());
            refused(found, LUGE_ERROR_RHS_NOT_FINITE, "row 1, column 1");
        }
        assert_eq!(x, [9.0; 6]);
        assert_eq!(b[..4], [1.0; 4]);
    }
    // A solution that no number holds.
    let tiny = crate::support::factors(
        &solver(&[]),
        &dense([[1e-200, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).view(),
    );
    let mut x = [1e200, 1.0, 1.0];
    // SAFETY: there is a column of three numbers.
    let found = unsafe { luge_solve_in_place(tiny.handle, 0, 1, x.as_mut_ptr(), 3, null_mut()) };
    let error = refused(found, LUGE_ERROR_SOLUTION_NOT_FINITE, "entry 0");
    assert_eq!(error.row, 0);
    assert_eq!(x, [1e200, 1.0, 1.0]);
}

/// A word that the message has, and a call that is to find a NULL.
type Call<'a> = (&'a str, &'a dyn Fn() -> luge_status);

fn expect_null(calls: &[Call<'_>]) {
    for (at, (words, call)) in calls.iter().enumerate() {
        let status = call();
        assert_eq!(status, LUGE_ERROR_NULL, "call {at}: {}", message());
        assert!(message().contains(words), "call {at}: {}", message());
    }
}

#[test]
fn null_is_refused_by_the_phases() {
    let rows = dense(GENERAL);
    let view = rows.view();
    let options = options(&[]);
    let solver = solver(&[]);
    let analysis = analysis(&solver, &view);
    let factors = factors(&solver, &view);
    let (o, s, a, f) = (
        options.handle,
        solver.handle,
        analysis.handle,
        factors.handle,
    );
    // SAFETY: every pointer is NULL or what the call takes.
    unsafe {
        expect_null(&[
            ("out", &|| luge_options_create(null_mut())),
            ("options", &|| luge_options_set_int(null_mut(), 0, 0)),
            ("options", &|| luge_options_get_int(null(), 0, &mut 0)),
            ("value", &|| luge_options_get_int(o, 0, null_mut())),
            ("options", &|| luge_options_set_real(null_mut(), 100, 1.0)),
            ("options", &|| luge_options_get_real(null(), 100, &mut 0.0)),
            ("value", &|| luge_options_get_real(o, 100, null_mut())),
            ("options", &|| {
                luge_options_set_permutations(null_mut(), 0, null(), null())
            }),
            ("rows", &|| luge_options_set_permutations(o, 1, null(), &0)),
            ("columns", &|| {
                luge_options_set_permutations(o, 1, &0, null())
            }),
            ("options", &|| {
                luge_options_set_regularization(null_mut(), 0, null(), 1.0, 1.0)
            }),
            ("signs", &|| {
                luge_options_set_regularization(o, 1, null(), 1.0, 1.0)
            }),
            ("out", &|| luge_solver_create(null(), null_mut())),
            ("solver", &|| luge_solver_cancel(null())),
            ("solver", &|| luge_solver_resume(null())),
            ("solver", &|| luge_analyze(null(), &view, &mut null_mut())),
            ("matrix", &|| luge_analyze(s, null(), &mut null_mut())),
            ("out", &|| luge_analyze(s, &view, null_mut())),
            ("analysis", &|| luge_analysis_inform(null(), &mut sized())),
            ("inform", &|| luge_analysis_inform(a, null_mut())),
            ("analysis", &|| {
                luge_analysis_json(null(), 0, null_mut(), null_mut())
            }),
            ("text", &|| luge_analysis_json(a, 1, null_mut(), null_mut())),
            ("analysis", &|| {
                luge_factorize(null(), &view, &mut null_mut())
            }),
            ("matrix", &|| luge_factorize(a, null(), &mut null_mut())),
            ("out", &|| luge_factorize(a, &view, null_mut())),
            ("analysis", &|| {
                luge_factorize_values(null(), 0, null(), &mut null_mut())
            }),
            ("out", &|| {
                luge_factorize_values(a, 7, rows.values.as_ptr(), null_mut())
            }),
            ("factors", &|| {
                luge_refactorize(null_mut(), &view, null_mut())
            }),
            ("matrix", &|| luge_refactorize(f, null(), null_mut())),
            ("factors", &|| {
                luge_refactorize_values(null_mut(), 0, null(), null_mut())
            }),
            ("values", &|| {
                luge_refactorize_values(f, 7, null(), null_mut())
            }),
            ("factors", &|| luge_raise_threshold(null_mut(), &mut 0.0)),
            ("threshold", &|| luge_raise_threshold(f, null_mut())),
        ]);
    }
}

#[test]
fn null_is_refused_by_solves_and_questions() {
    let factors = factors(&solver(&[]), &dense(GENERAL).view());
    let f = factors.handle;
    // SAFETY: every pointer is NULL or what the call takes.
    unsafe {
        expect_null(&[
            ("factors", &|| luge_factors_inform(null(), &mut sized())),
            ("inform", &|| luge_factors_inform(f, null_mut())),
            ("factors", &|| {
                luge_factors_json(null(), 0, null_mut(), null_mut())
            }),
            ("factors", &|| {
                luge_factors_warnings(null(), 0, null_mut(), null_mut())
            }),
            ("text", &|| {
                luge_factors_warnings(f, 1, null_mut(), null_mut())
            }),
            ("factors", &|| luge_determinant(null(), &mut 0.0, &mut 0)),
            ("mantissa", &|| luge_determinant(f, null_mut(), &mut 0)),
            ("exponent", &|| luge_determinant(f, &mut 0.0, null_mut())),
            ("factors", &|| luge_rcond(null(), &mut 0.0)),
            ("rcond", &|| luge_rcond(f, null_mut())),
            ("factors", &|| luge_inertia(null(), &mut 0, &mut 0, &mut 0)),
            ("factors", &|| {
                luge_perturbed_columns(null(), 0, null_mut(), &mut 0)
            }),
            ("factors", &|| {
                luge_solve(null(), 0, 0, null(), 3, null_mut(), 3, null_mut())
            }),
            ("factors", &|| {
                luge_solve_in_place(null(), 0, 0, null_mut(), 3, null_mut())
            }),
            ("factors", &|| luge_solve_part(null(), 0, 0, null_mut(), 3)),
            ("factors", &|| luge_pivots(null(), null_mut(), null_mut())),
            ("error", &|| luge_last_error(null_mut())),
            ("count", &|| {
                luge_last_error_unmatched(0, null_mut(), null_mut(), null_mut())
            }),
        ]);
    }
}

#[cfg(feature = "gpu")]
#[test]
fn null_is_refused_by_calls_for_devices() {
    let solver = solver(&[]);
    let factors = factors(&solver, &dense(GENERAL).view());
    let (s, f) = (solver.handle, factors.handle);
    // SAFETY: every pointer is NULL or what the call takes.
    unsafe {
        expect_null(&[
            ("solver", &|| luge_solver_stream(null(), &mut null_mut())),
            ("stream", &|| luge_solver_stream(s, null_mut())),
            ("buffer", &|| luge_buffer_address(null(), &mut 0)),
            ("buffer", &|| luge_buffer_write(null_mut(), 0, null())),
            ("buffer", &|| luge_buffer_read(null(), 0, null_mut())),
            ("out", &|| luge_buffer_create(s, 1, null_mut())),
            ("solver", &|| luge_buffer_create(null(), 1, &mut null_mut())),
            ("factors", &|| {
                luge_refactorize_device(null_mut(), null(), null_mut())
            }),
            ("values", &|| luge_refactorize_device(f, null(), null_mut())),
            ("factors", &|| {
                luge_solve_device(null(), 0, 1, null_mut(), null_mut())
            }),
            ("`x`", &|| {
                luge_solve_device(f, 0, 1, null_mut(), null_mut())
            }),
            ("factors", &|| {
                luge_solve_refined_device(null(), 0, 1, null(), null_mut(), null_mut())
            }),
            ("`b`", &|| {
                luge_solve_refined_device(f, 0, 1, null(), null_mut(), null_mut())
            }),
        ]);
    }
}

#[cfg(not(feature = "gpu"))]
#[test]
fn calls_for_devices_say_that_there_are_none() {
    let solver = solver(&[]);
    let factors = factors(&solver, &dense(GENERAL).view());
    let (s, f, none) = (solver.handle, factors.handle, null_mut());
    // SAFETY: every pointer is NULL or what the call takes.
    let statuses = unsafe {
        [
            luge_solver_stream(s, &mut null_mut()),
            luge_buffer_create(s, 1, &mut null_mut()),
            luge_buffer_address(null(), &mut 0),
            luge_buffer_write(none, 1, &0.0),
            luge_buffer_read(none, 1, &mut 0.0),
            luge_refactorize_device(f, none, null_mut()),
            luge_solve_device(f, 0, 1, none, null_mut()),
            luge_solve_refined_device(f, 0, 1, none, none, null_mut()),
        ]
    };
    assert_eq!(statuses, [LUGE_ERROR_FEATURE_OFF; 8]);
    assert!(message().contains("without the feature `gpu`"));
}

#[test]
fn handles_of_another_kind_are_refused() {
    let solver = solver(&[]);
    let analysis = analysis(&solver, &dense(GENERAL).view());
    let mut as_factors: *mut luge_factors = analysis.handle.cast();
    let status = LUGE_ERROR_HANDLE;
    // SAFETY: eight bytes of each handle can be read.
    unsafe {
        let found = luge_factors_inform(as_factors, &mut sized());
        refused(found, status, "`factors` is not a luge_factors");
        refused(
            luge_factors_free(&mut as_factors),
            status,
            "is not a luge_factors",
        );
        assert_eq!(as_factors.cast(), analysis.handle);
        let found = luge_analyze(
            analysis.handle.cast(),
            &dense(GENERAL).view(),
            &mut null_mut(),
        );
        refused(found, status, "`solver` is not a luge_solver");
        let odd = as_factors.byte_add(4);
        refused(luge_rcond(odd, &mut 0.0), status, "luge_factors");
        let zeros = [0u64; 4];
        let options: *mut luge_options = zeros.as_ptr().cast_mut().cast();
        refused(luge_options_set_int(options, 0, 0), status, "luge_options");
        refused(
            luge_solver_create(options, &mut null_mut()),
            status,
            "luge_options",
        );
    }
}

#[test]
fn an_error_stays_until_the_next_one() {
    // SAFETY: NULL is refused.
    unsafe {
        refused(luge_rcond(null(), &mut 0.0), LUGE_ERROR_NULL, "factors");
    }
    drop(options(&[]));
    assert!(
        message().contains("factors"),
        "successful calls leave it as it is"
    );
    let elsewhere = std::thread::spawn(|| (message(), last_error().status));
    assert_eq!(elsewhere.join().unwrap(), (String::new(), LUGE_OK));
    let name = |status: i32| {
        // SAFETY: the text is always valid.
        unsafe { std::ffi::CStr::from_ptr(luge_status_name(status)) }
            .to_str()
            .unwrap()
    };
    assert_eq!(name(LUGE_ERROR_NULL as i32), "LUGE_ERROR_NULL");
    assert_eq!(name(LUGE_ERROR_INTERNAL as i32), "LUGE_ERROR_INTERNAL");
    assert_eq!(name(-5), "unknown status");
}

#[test]
fn memory_and_cancellation_end_calls() {
    let rows = dense(GENERAL);
    let options = options(&[(LUGE_OPTION_MAX_HOST_BYTES, 10)]);
    let mut out = null_mut();
    // SAFETY: the handle is one.
    let found = unsafe { luge_solver_create(options.handle, &mut out) };
    let error = refused(found, LUGE_ERROR_OUT_OF_MEMORY, "10 are available");
    assert_eq!(error.available_bytes, 10);
    assert!(error.asked_bytes > 10);
    let solver = solver(&[]);
    let factors = factors(&solver, &rows.view());
    // SAFETY: handles are handles, and the matrix is one.
    unsafe {
        ok(luge_solver_cancel(solver.handle));
        let found = luge_refactorize(factors.handle, &rows.view(), null_mut());
        refused(found, LUGE_ERROR_CANCELLED, "cancelled");
        let found = luge_analyze(solver.handle, &rows.view(), &mut null_mut());
        refused(found, LUGE_ERROR_CANCELLED, "cancelled");
        ok(luge_solver_resume(solver.handle));
        ok(luge_refactorize(factors.handle, &rows.view(), null_mut()));
    }
}

#[test]
fn versions_agree() {
    assert_eq!(luge_version(), 100);
    // SAFETY: the text is always valid.
    let version = unsafe { std::ffi::CStr::from_ptr(luge_version_string()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    assert_eq!(luge_has_gpu(), i32::from(cfg!(feature = "gpu")));
}
