//! What the phases compute.

use std::ptr::{null, null_mut};

use luge_c::luge_status::*;
use luge_c::*;

use crate::support::*;

const X: [f64; 3] = [1.0, -2.0, 0.5];

#[test]
fn all_formats_indices_and_bases_are_the_same_matrix() {
    let rows = dense(GENERAL);
    let transposed = dense([0, 1, 2].map(|j| [0, 1, 2].map(|i| GENERAL[i][j])));
    let b = product(&GENERAL, &X, false);
    let bt = product(&GENERAL, &X, true);
    let solver = solver(&[]);
    for base in [0, 1] {
        for (arrays, format) in [(&rows, 0), (&transposed, 1)] {
            let shifted = |numbers: &[i32]| numbers.iter().map(|i| i + base).collect::<Vec<i32>>();
            let narrow = Arrays {
                offsets: shifted(&arrays.offsets),
                indices: shifted(&arrays.indices),
                ..arrays.clone()
            };
            let wide = Arrays {
                n: 3,
                offsets: narrow.offsets.iter().map(|&i| i64::from(i)).collect(),
                indices: narrow.indices.iter().map(|&i| i64::from(i)).collect(),
                values: narrow.values.clone(),
            };
            for mut view in [narrow.view(), wide.view()] {
                (view.format, view.index_base) = (format, base);
                let factors = factors(&solver, &view);
                assert_close(&solved(&factors, &b, false), &X);
                assert_close(&solved(&factors, &bt, true), &X);
            }
        }
    }
}

#[test]
fn single_precision_has_calls_of_its_own() {
    let rows = dense(GENERAL);
    let single: Arrays<i32, f32> = Arrays {
        n: rows.n,
        values: rows.values.iter().map(|&v| v as f32).collect(),
        offsets: rows.offsets.clone(),
        indices: rows.indices.clone(),
    };
    let solver = solver(&[]);
    let analysis = analysis(&solver, &single.view());
    let b: Vec<f32> = product(&GENERAL, &X, false)
        .iter()
        .map(|&v| v as f32)
        .collect();
    let close = |x: &[f32], scale: f32| {
        let distances = x.iter().zip(X).map(|(&a, b)| (a * scale - b as f32).abs());
        assert!(distances.fold(0.0, f32::max) < 1e-6, "{x:?}");
    };
    // SAFETY: handles are handles, and arrays have the lengths that are stated.
    unsafe {
        let factors = made(luge_factors_free, |out| {
            luge_factorize_values_f32(analysis.handle, 7, single.values.as_ptr(), out)
        });
        let mut x = [0f32; 3];
        ok(luge_solve_f32(
            factors.handle,
            0,
            1,
            b.as_ptr(),
            3,
            x.as_mut_ptr(),
            3,
            null_mut(),
        ));
        close(&x, 1.0);
        let doubled: Vec<f32> = single.values.iter().map(|v| 2.0 * v).collect();
        ok(luge_refactorize_values_f32(
            factors.handle,
            7,
            doubled.as_ptr(),
            null_mut(),
        ));
        x.copy_from_slice(&b);
        ok(luge_solve_in_place_f32(
            factors.handle,
            0,
            1,
            x.as_mut_ptr(),
            3,
            null_mut(),
        ));
        close(&x, 2.0);
        let mut double = [0f64; 3];
        let status = luge_solve_in_place(factors.handle, 0, 1, double.as_mut_ptr(), 3, null_mut());
        refused(status, LUGE_ERROR_TYPE, "the numbers are double");
        let status = luge_refactorize(factors.handle, &rows.view(), null_mut());
        refused(status, LUGE_ERROR_TYPE, "has float");
        let mut other = null_mut();
        let status = luge_factorize(analysis.handle, &rows.view(), &mut other);
        refused(status, LUGE_ERROR_TYPE, "double");
        let status = luge_factorize_values(analysis.handle, 7, rows.values.as_ptr(), &mut other);
        refused(status, LUGE_ERROR_TYPE, "double");
        let status = luge_pivots(factors.handle, null_mut(), null_mut());
        refused(status, LUGE_ERROR_TYPE, "double");
    }
    let mut pattern = single.view();
    pattern.values = no_pointer();
    let analysis = crate::support::analysis(&solver, &pattern);
    // SAFETY: as above.
    let _factors = made(luge_factors_free, |out| unsafe {
        luge_factorize_values_f32(analysis.handle, 7, single.values.as_ptr(), out)
    });
}

#[test]
fn right_hand_sides_may_stand_apart_and_be_overwritten() {
    let factors = factors(&solver(&[]), &dense(GENERAL).view());
    for transpose in [false, true] {
        let other = [3.0, 0.0, -1.0];
        let mut b = vec![77.0; 5 + 3];
        b[..3].copy_from_slice(&product(&GENERAL, &X, transpose));
        b[5..].copy_from_slice(&product(&GENERAL, &other, transpose));
        let mut x = vec![88.0; 4 + 3];
        let mut accuracy: luge_accuracy = sized();
        let operation = i32::from(transpose);
        // SAFETY: there are two columns with these leading dimensions.
        unsafe {
            let (from, to) = (b.as_ptr(), x.as_mut_ptr());
            ok(luge_solve(
                factors.handle,
                operation,
                2,
                from,
                5,
                to,
                4,
                &mut accuracy,
            ));
        }
        assert_close(&x[..3], &X);
        assert_close(&x[4..], &other);
        assert_eq!(x[3], 88.0, "the gap stays");
        assert!(accuracy.backward_error < 1e-15 && accuracy.componentwise_error < 1e-15);
        assert_eq!((accuracy.is_measured, accuracy.warnings), (1, 0));
        assert!(accuracy.seconds >= 0.0);
        let mut same = b.clone();
        let mut in_place = b.clone();
        // SAFETY: as above; the output is the input.
        unsafe {
            let at = same.as_mut_ptr();
            ok(luge_solve(
                factors.handle,
                operation,
                2,
                at,
                5,
                at,
                5,
                null_mut(),
            ));
            let at = in_place.as_mut_ptr();
            ok(luge_solve_in_place(
                factors.handle,
                operation,
                2,
                at,
                5,
                &mut accuracy,
            ));
        }
        for solution in [same, in_place] {
            assert_close(&solution[..3], &X);
            assert_close(&solution[5..], &other);
            assert_eq!(solution[3..5], [77.0, 77.0]);
        }
        assert!(accuracy.backward_error < 1e-12);
    }
    // None at all.
    // SAFETY: nothing is read or written.
    unsafe {
        let mut accuracy: luge_accuracy = sized();
        ok(luge_solve(
            factors.handle,
            0,
            0,
            null(),
            3,
            null_mut(),
            3,
            &mut accuracy,
        ));
        assert_eq!((accuracy.backward_error, accuracy.is_measured), (0.0, 1));
        ok(luge_solve_in_place(
            factors.handle,
            0,
            0,
            null_mut(),
            3,
            null_mut(),
        ));
    }
}

#[test]
fn of_several_solutions_the_worst_counts() {
    let cpu = luge_backend::LUGE_BACKEND_CPU as i64;
    let options = options(&[(luge_int_option::LUGE_OPTION_BACKEND, cpu)]);
    let target = luge_real_option::LUGE_OPTION_TARGET_BACKWARD_ERROR as i32;
    // SAFETY: handles are handles.
    let solver = unsafe {
        ok(luge_options_set_real(options.handle, target, 1e-300));
        made(luge_solver_free, |out| {
            luge_solver_create(options.handle, out)
        })
    };
    let thirds = GENERAL.map(|row| row.map(|entry| entry / 3.0));
    let factors = factors(&solver, &dense(thirds).view());
    // The first is not solved as accurately as all that; of zeros the solution is exact.
    let b = [0.1, 0.7, -0.3, 0.0, 0.0, 0.0];
    for operation in [0, 1] {
        let mut x = b;
        let mut accuracy: luge_accuracy = sized();
        // SAFETY: there are two columns of three numbers.
        unsafe {
            let (from, to) = (b.as_ptr(), x.as_mut_ptr());
            let handle = factors.handle;
            ok(luge_solve(
                handle,
                operation,
                2,
                from,
                3,
                to,
                3,
                &mut accuracy,
            ));
        }
        let missed = luge_warning::LUGE_WARNING_TARGET_MISSED as i32;
        assert_eq!(accuracy.warnings, missed);
        assert!(accuracy.backward_error > 0.0 && accuracy.backward_error < 1e-15);
        assert_eq!(x[3..], [0.0; 3]);
    }
}

#[test]
fn matrices_without_rows_are_solved() {
    let empty = Arrays::<i32, f64> {
        n: 0,
        offsets: vec![0],
        indices: Vec::new(),
        values: Vec::new(),
    };
    let factors = factors(&solver(&[]), &empty.view());
    // SAFETY: nothing is read or written but the determinant.
    unsafe {
        ok(luge_solve(
            factors.handle,
            0,
            4,
            null(),
            0,
            null_mut(),
            0,
            null_mut(),
        ));
        ok(luge_solve_in_place(
            factors.handle,
            1,
            4,
            null_mut(),
            0,
            null_mut(),
        ));
        ok(luge_refactorize_values(
            factors.handle,
            0,
            null(),
            null_mut(),
        ));
        let (mut mantissa, mut exponent) = (0.0, 0);
        ok(luge_determinant(
            factors.handle,
            &mut mantissa,
            &mut exponent,
        ));
        assert_eq!((mantissa, exponent), (0.5, 1));
    }
}

#[test]
fn a_pattern_comes_first_and_values_later() {
    let rows = dense(GENERAL);
    let mut pattern = rows.view();
    pattern.values = no_pointer();
    let analysis = analysis(&solver(&[]), &pattern);
    let mut report: luge_inform = sized();
    // SAFETY: handles are handles, and arrays have the lengths that are stated.
    let factors = unsafe {
        ok(luge_analysis_inform(analysis.handle, &mut report));
        made(luge_factors_free, |out| {
            luge_factorize_values(analysis.handle, 7, rows.values.as_ptr(), out)
        })
    };
    assert_eq!((report.n, report.nnz, report.num_neg), (3, 7, -1));
    assert!(report.seconds_numeric.is_nan());
    assert_close(&solved(&factors, &product(&GENERAL, &X, false), false), &X);
    // SAFETY: as above.
    let json = text(|capacity, text, length| unsafe {
        luge_analysis_json(analysis.handle, capacity, text, length)
    });
    assert!(json.contains("\"nnz\": 7"), "{json}");
}

#[test]
fn other_values_renew_the_factors() {
    let rows = dense(GENERAL);
    let mut factors = factors(&solver(&[]), &rows.view());
    let halves: Vec<f64> = rows.values.iter().map(|v| v / 2.0).collect();
    let mut outcome: luge_refactorized = sized();
    // SAFETY: handles are handles, and arrays have the lengths that are stated.
    unsafe {
        ok(luge_refactorize_values(
            factors.handle,
            7,
            halves.as_ptr(),
            &mut outcome,
        ));
    }
    assert_eq!((outcome.is_repivoted, outcome.reserved), (0, 0));
    assert!(outcome.growth >= 1.0 && outcome.backward_error < 1e-12);
    let twice = X.map(|x| 2.0 * x);
    // The same of some of the values, which were others meanwhile.
    for factor in [3.0, 1.0] {
        let places = [5i64, 0];
        let values = places.map(|place| factor * halves[place as usize]);
        let mut renewed: luge_refactorized = sized();
        // SAFETY: as above.
        unsafe {
            ok(luge_refactorize_changed(
                factors.handle,
                2,
                places.as_ptr(),
                values.as_ptr(),
                &mut renewed,
            ));
            assert!(renewed.backward_error < 1e-12);
            for (places, message) in [
                ([7i64, 0], "place 7"),
                ([-1, 0], "place -1"),
                ([2, 2], "place 2"),
            ] {
                let status = luge_refactorize_changed(
                    factors.handle,
                    2,
                    places.as_ptr(),
                    [1.0, 2.0].as_ptr(),
                    null_mut(),
                );
                refused(status, LUGE_ERROR_ARGUMENT, message);
            }
        }
    }
    assert_close(
        &solved(&factors, &product(&GENERAL, &X, false), false),
        &twice,
    );
    // A part of the pattern, whose old pivots are zero: rows are exchanged.
    let permuted = [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 6.0]];
    // SAFETY: as above.
    unsafe {
        ok(luge_refactorize(
            factors.handle,
            &dense(permuted).view(),
            &mut outcome,
        ));
    }
    assert_eq!(outcome.is_repivoted, 1);
    assert_close(&solved(&factors, &product(&permuted, &X, false), false), &X);
    let report = inform(&factors);
    let searched = luge_warning::LUGE_WARNING_PIVOTS_SEARCHED as i32;
    assert_eq!(report.warnings & searched, searched);
    // SAFETY: the handle is one.
    let warnings = text(|capacity, text, length| unsafe {
        luge_factors_warnings(factors.handle, capacity, text, length)
    });
    assert!(warnings.contains("new pivots were searched"), "{warnings}");
    // A stricter threshold, and then none that is stricter yet.
    let mut thresholds = Vec::new();
    for _ in 0..3 {
        let mut threshold = 0.0;
        // SAFETY: the handle is one.
        ok(unsafe { luge_raise_threshold(factors.handle, &mut threshold) });
        thresholds.push(threshold);
    }
    assert_eq!(thresholds[..2], [0.1, 1.0]);
    assert!(thresholds[2].is_nan());
    // SAFETY: nobody uses it any more.
    unsafe {
        ok(luge_factors_free(&mut factors.handle));
        ok(luge_factors_free(&mut factors.handle));
        ok(luge_factors_free(null_mut()));
    }
}

#[test]
fn handles_outlive_what_they_were_made_with() {
    let rows = dense(GENERAL);
    let solver = solver(&[]);
    let analysis = analysis(&solver, &rows.view());
    drop(solver);
    // SAFETY: handles are handles, and the matrix is one.
    let factors = made(luge_factors_free, |out| unsafe {
        luge_factorize(analysis.handle, &rows.view(), out)
    });
    drop(analysis);
    assert_close(&solved(&factors, &product(&GENERAL, &X, false), false), &X);
}

#[test]
fn factors_answer_questions() {
    let factors = factors(&solver(&[]), &dense(GENERAL).view());
    let (mut mantissa, mut exponent, mut rcond) = (0.0, 0, 0.0);
    // SAFETY: the handle is one, and there is room for numbers.
    unsafe {
        ok(luge_determinant(
            factors.handle,
            &mut mantissa,
            &mut exponent,
        ));
        ok(luge_rcond(factors.handle, &mut rcond));
    }
    assert!((mantissa * 2f64.powi(exponent as i32) - DETERMINANT).abs() < 1e-12);
    assert!((0.5..1.0).contains(&mantissa) && rcond > 0.05 && rcond <= 1.0);
    let report = inform(&factors);
    assert_eq!((report.n, report.nnz, report.rank), (3, 7, 3));
    assert_eq!(report.backend, luge_backend::LUGE_BACKEND_CPU as i32);
    assert_eq!(report.kind, luge_kind::LUGE_KIND_GENERAL as i32);
    assert_eq!(report.precision, luge_value_type::LUGE_F64 as i32);
    assert_eq!(
        report.pivoting,
        luge_pivoting::LUGE_PIVOTING_THRESHOLD as i32
    );
    assert!(report.lnz >= 5 && report.unz >= 5 && report.growth >= 1.0);
    assert!(report.seconds_numeric >= 0.0 && report.predicted_device_bytes == -1);
    // SAFETY: the handle is one.
    let json = text(|capacity, text, length| unsafe {
        luge_factors_json(factors.handle, capacity, text, length)
    });
    assert!(
        json.starts_with('{') && json.contains("\"backend\": \"cpu\""),
        "{json}"
    );
}

const SADDLE: [[f64; 3]; 3] = [[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 1.0, 0.0]];

#[test]
fn symmetric_matrices_have_an_inertia() {
    let solver = solver(&[symmetric()]);
    let mut lower = SADDLE;
    (lower[0][2], lower[1][2]) = (0.0, 0.0);
    let mut upper = SADDLE;
    (upper[2][0], upper[2][1]) = (0.0, 0.0);
    for stored in [SADDLE, lower, upper] {
        let factors = factors(&solver, &dense(stored).view());
        assert_close(&solved(&factors, &product(&SADDLE, &X, false), false), &X);
        let mut counts = [0; 3];
        let [positive, negative, zero] = &mut counts;
        // SAFETY: the handle is one, and there is room for numbers.
        ok(unsafe { luge_inertia(factors.handle, positive, negative, zero) });
        assert_eq!(counts, [2, 1, 0]);
        assert_eq!(inform(&factors).kind, luge_kind::LUGE_KIND_SYMMETRIC as i32);
        // F, D and its transpose, one after another, solve with A.
        let mut x = product(&SADDLE, &X, false);
        for part in 0..3 {
            // SAFETY: the handle is one, and there is a column.
            ok(unsafe { luge_solve_part(factors.handle, part, 1, x.as_mut_ptr(), 3) });
        }
        assert_close(&x, &X);
        let (mut order, mut d) = ([-1i64; 3], [f64::NAN; 6]);
        // SAFETY: the handle is one, and there is room for so many numbers.
        ok(unsafe { luge_pivots(factors.handle, order.as_mut_ptr(), d.as_mut_ptr()) });
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
        assert!(d.iter().all(|d| d.is_finite()) && d[5] == 0.0, "{d:?}");
    }
}

#[test]
fn signs_of_pivots_are_kept() {
    let solver = {
        let options = options(&[symmetric()]);
        let signs = [1i8, 1, -1];
        // SAFETY: the handle is one, and there are three signs.
        unsafe {
            ok(luge_options_set_regularization(
                options.handle,
                3,
                signs.as_ptr(),
                1e-7,
                1e-7,
            ));
            made(luge_solver_free, |out| {
                luge_solver_create(options.handle, out)
            })
        }
    };
    let mut stored = dense(SADDLE);
    // The last diagonal entry is stored, and zero.
    stored.indices.push(2);
    stored.values.push(0.0);
    stored.offsets[3] += 1;
    let factors = factors(&solver, &stored.view());
    let (mut column, mut count) = ([-1; 2], -1);
    // SAFETY: the handle is one, and there is room for two numbers.
    ok(unsafe { luge_perturbed_columns(factors.handle, 2, column.as_mut_ptr(), &mut count) });
    let report = inform(&factors);
    assert_eq!(count, report.num_perturbed);
    assert_eq!((report.num_neg, report.rank), (1, 3));
}
