//! Options by number.

use std::ptr::null_mut;

use luge_c::luge_int_option::*;
use luge_c::luge_real_option::*;
use luge_c::luge_status::*;
use luge_c::*;

use crate::support::*;

/// Every option with an integer value: its default value, the largest number of its enumeration, or none.
const INTS: [(luge_int_option, i64, Option<i64>); 22] = [
    (LUGE_OPTION_BACKEND, 0, Some(3)),
    (LUGE_OPTION_DEVICE, 0, None),
    (LUGE_OPTION_SIMULATOR_SEED, 0, None),
    (LUGE_OPTION_KIND, 0, Some(4)),
    (LUGE_OPTION_SINGULAR, 0, Some(1)),
    (LUGE_OPTION_THREADS, -1, None),
    (LUGE_OPTION_PIVOTING, 0, Some(2)),
    (LUGE_OPTION_SYMMETRIC_PIVOTING, 0, Some(2)),
    (LUGE_OPTION_MAX_DELAYS, -1, None),
    (LUGE_OPTION_CPU_ENGINE, 0, Some(2)),
    (LUGE_OPTION_DEVICE_ENGINE, 0, Some(2)),
    (LUGE_OPTION_PRECISION, 0, Some(1)),
    (LUGE_OPTION_MAX_REFINEMENT_STEPS, 10, None),
    (LUGE_OPTION_RESIDUAL_CHECK, 0, Some(2)),
    (LUGE_OPTION_ESTIMATE_CONDITION, 0, Some(1)),
    (LUGE_OPTION_MAX_HOST_BYTES, -1, None),
    (LUGE_OPTION_MAX_DEVICE_BYTES, -1, None),
    (LUGE_OPTION_ORDERING, 0, Some(4)),
    (LUGE_OPTION_MATCHING, 0, Some(2)),
    (LUGE_OPTION_SCALING, 1, Some(1)),
    (LUGE_OPTION_AVERAGED_SCALING, 0, Some(1)),
    (LUGE_OPTION_BLOCK_TRIANGULAR, 1, Some(1)),
];

fn int(options: &Owned<luge_options>, option: luge_int_option) -> i64 {
    let mut value = i64::MIN;
    // SAFETY: the handle is one.
    ok(unsafe { luge_options_get_int(options.handle, option as i32, &mut value) });
    value
}

#[test]
fn integers_are_what_they_were_set_to() {
    let options = options(&[]);
    for (option, default, largest) in INTS {
        assert_eq!(int(&options, option), default, "{option:?}");
        // SAFETY: the handle is one.
        let set = |value| unsafe { luge_options_set_int(options.handle, option as i32, value) };
        for value in 0..=largest.unwrap_or(5) {
            ok(set(value));
            assert_eq!(int(&options, option), value, "{option:?}");
        }
        ok(set(default));
        assert_eq!(int(&options, option), default, "{option:?}");
        if let Some(largest) = largest {
            for wrong in [-1, largest + 1, i64::MIN, i64::MAX] {
                refused(set(wrong), LUGE_ERROR_OPTION, "it must be from 0 to");
            }
        } else {
            refused(set(-2), LUGE_ERROR_OPTION, "it must be at least 0");
            if default == -1 {
                ok(set(-1));
                assert_eq!(int(&options, option), -1);
            }
        }
    }
    for number in [-1, 22, 100, i32::MAX] {
        // SAFETY: the handle is one.
        unsafe {
            let status = luge_options_set_int(options.handle, number, 0);
            refused(status, LUGE_ERROR_OPTION, "no option of number");
            let status = luge_options_get_int(options.handle, number, &mut 0);
            refused(status, LUGE_ERROR_OPTION, "no option of number");
        }
    }
}

#[test]
fn reals_are_what_they_were_set_to() {
    let options = options(&[]);
    let defaults = [
        (LUGE_OPTION_FACTORIZATIONS, -1.0),
        (LUGE_OPTION_PIVOT_THRESHOLD, 0.1),
        (LUGE_OPTION_PERTURBATION, -1.0),
        (LUGE_OPTION_TARGET_BACKWARD_ERROR, -1.0),
        (LUGE_OPTION_MAX_GROWTH, 1e8),
        (LUGE_OPTION_DIAGONAL_THRESHOLD, 0.1),
    ];
    for (at, (option, default)) in defaults.into_iter().enumerate() {
        let get = || {
            let mut value = f64::NAN;
            // SAFETY: the handle is one.
            ok(unsafe { luge_options_get_real(options.handle, option as i32, &mut value) });
            value
        };
        assert_eq!(get(), default, "{option:?}");
        let value = 0.25 + at as f64;
        // SAFETY: the handle is one.
        ok(unsafe { luge_options_set_real(options.handle, option as i32, value) });
        assert_eq!(get(), value);
        // SAFETY: the handle is one.
        ok(unsafe { luge_options_set_real(options.handle, option as i32, default) });
        assert_eq!(get(), default);
    }
    for number in [0, 99, 106] {
        // SAFETY: the handle is one.
        unsafe {
            let status = luge_options_set_real(options.handle, number, 0.0);
            refused(status, LUGE_ERROR_OPTION, "no option of number");
            let status = luge_options_get_real(options.handle, number, &mut 0.0);
            refused(status, LUGE_ERROR_OPTION, "no option of number");
        }
    }
}

#[test]
fn a_solver_refuses_what_is_out_of_range() {
    let create = |options: &Owned<luge_options>, words: &str| {
        let mut out = null_mut();
        // SAFETY: the handle is one.
        let status = unsafe { luge_solver_create(options.handle, &mut out) };
        assert!(out.is_null());
        refused(status, LUGE_ERROR_OPTION, words);
    };
    create(
        &options(&[(LUGE_OPTION_THREADS, 0)]),
        "the option threads is 0",
    );
    create(&options(&[(LUGE_OPTION_THREADS, 1025)]), "from 1 to 1024");
    create(
        &options(&[symmetric(), (LUGE_OPTION_PIVOTING, 1)]),
        "pivoting",
    );
    for (option, value, words) in [
        (LUGE_OPTION_PIVOT_THRESHOLD, 1.5, "pivoting.threshold"),
        (LUGE_OPTION_PIVOT_THRESHOLD, f64::NAN, "pivoting.threshold"),
        (LUGE_OPTION_PERTURBATION, 2.0, "perturbation"),
        (
            LUGE_OPTION_TARGET_BACKWARD_ERROR,
            0.0,
            "target_backward_error",
        ),
        (LUGE_OPTION_MAX_GROWTH, -1.0, "max_growth"),
        (LUGE_OPTION_FACTORIZATIONS, 0.0, "factorizations"),
        (LUGE_OPTION_DIAGONAL_THRESHOLD, 7.0, "diagonal_threshold"),
    ] {
        let options = options(&[(LUGE_OPTION_PIVOTING, 2)]);
        // SAFETY: the handle is one.
        ok(unsafe { luge_options_set_real(options.handle, option as i32, value) });
        create(&options, words);
    }
    let signs = [1i8, 0, -1];
    for (n, delta, below, words) in [
        (3, 1e-7, 1e-7, "regularization.signs"),
        (1, 0.0, 0.0, "regularization.delta"),
        (1, 1e-7, 1.0, "regularization.below"),
    ] {
        let options = options(&[symmetric()]);
        // SAFETY: the handle is one, and there are as many signs.
        ok(unsafe {
            luge_options_set_regularization(options.handle, n, signs.as_ptr(), delta, below)
        });
        create(&options, words);
        // Taken back.
        // SAFETY: the handle is one.
        unsafe {
            ok(luge_options_set_regularization(
                options.handle,
                0,
                std::ptr::null(),
                0.0,
                0.0,
            ));
            drop(made(luge_solver_free, |out| {
                luge_solver_create(options.handle, out)
            }));
        }
    }
}

#[test]
fn options_reach_the_solver() {
    let general = dense(GENERAL);
    let report =
        |chosen: &[(luge_int_option, i64)]| inform(&factors(&solver(chosen), &general.view()));
    assert_eq!(report(&[]).precision, luge_value_type::LUGE_F64 as i32);
    let single = report(&[(LUGE_OPTION_PRECISION, 1)]);
    assert_eq!(single.precision, luge_value_type::LUGE_F32 as i32);
    assert_eq!(
        report(&[(LUGE_OPTION_PIVOTING, 1)]).pivoting,
        luge_pivoting::LUGE_PIVOTING_STATIC as i32
    );
    assert_eq!(
        (
            report(&[]).scaled,
            report(&[(LUGE_OPTION_SCALING, 0)]).scaled
        ),
        (1, 0)
    );
    assert!(report(&[]).rcond.is_nan());
    assert!(report(&[(LUGE_OPTION_ESTIMATE_CONDITION, 1)]).rcond > 0.0);
    let simulator = options(&[(LUGE_OPTION_BACKEND, 2), (LUGE_OPTION_DEVICE, 1_000_000)]);
    let mut out = null_mut();
    // SAFETY: the handle is one.
    let status = unsafe { luge_solver_create(simulator.handle, &mut out) };
    let expected = [LUGE_ERROR_DEVICE, LUGE_ERROR_FEATURE_OFF];
    assert!(out.is_null() && expected.contains(&status), "{status:?}");
}

#[test]
fn permutations_are_taken_as_they_are() {
    let options = options(&[]);
    let set = |rows: &[i64], columns: &[i64]| {
        let n = rows.len() as i64;
        // SAFETY: the handle is one, and there are as many numbers.
        unsafe { luge_options_set_permutations(options.handle, n, rows.as_ptr(), columns.as_ptr()) }
    };
    refused(
        set(&[0, 1, 1], &[0, 1, 2]),
        LUGE_ERROR_OPTION,
        "rows: value 1 occurs twice",
    );
    refused(
        set(&[0, 1, 2], &[0, 1, 3]),
        LUGE_ERROR_OPTION,
        "columns: entry 2",
    );
    refused(
        set(&[0, -1, 2], &[0, 1, 2]),
        LUGE_ERROR_OPTION,
        "rows: entry 1",
    );
    assert_eq!(int(&options, LUGE_OPTION_ORDERING), 0);
    ok(set(&[2, 0, 1], &[2, 0, 1]));
    assert_eq!(int(&options, LUGE_OPTION_ORDERING), 5);
    // SAFETY: the handle is one.
    let solver = made(luge_solver_free, |out| unsafe {
        luge_solver_create(options.handle, out)
    });
    let factors = factors(&solver, &dense(GENERAL).view());
    let b = product(&GENERAL, &[1.0, 2.0, 3.0], false);
    assert_close(&solved(&factors, &b, false), &[1.0, 2.0, 3.0]);
    let small = dense([[1.0, 0.0], [0.0, 1.0]]);
    // SAFETY: the handle is one, and the matrix too.
    let status = unsafe { luge_analyze(solver.handle, &small.view(), &mut null_mut()) };
    refused(status, LUGE_ERROR_SIZE, "permutes 3 rows");
    // Setting the ordering takes it back.
    // SAFETY: the handle is one.
    ok(unsafe { luge_options_set_int(options.handle, LUGE_OPTION_ORDERING as i32, 1) });
    assert_eq!(int(&options, LUGE_OPTION_ORDERING), 1);
}
