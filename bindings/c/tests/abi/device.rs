//! Data on a device, which is the simulator here.

use std::ptr::null_mut;

use luge_c::luge_int_option::*;
use luge_c::luge_status::*;
use luge_c::*;

use crate::support::*;

const X: [f64; 3] = [1.0, -2.0, 0.5];

fn simulator() -> Owned<luge_solver> {
    let backend = luge_backend::LUGE_BACKEND_SIMULATOR as i64;
    solver(&[
        (LUGE_OPTION_BACKEND, backend),
        (LUGE_OPTION_SIMULATOR_SEED, 7),
    ])
}

fn buffer(solver: &Owned<luge_solver>, numbers: &[f64]) -> Owned<luge_buffer> {
    let count = numbers.len() as i64;
    // SAFETY: handles are handles, and there are as many numbers.
    unsafe {
        let buffer = made(luge_buffer_free, |out| {
            luge_buffer_create(solver.handle, count, out)
        });
        ok(luge_buffer_write(buffer.handle, count, numbers.as_ptr()));
        buffer
    }
}

fn numbers<const N: usize>(buffer: &Owned<luge_buffer>) -> [f64; N] {
    let mut numbers = [f64::NAN; N];
    // SAFETY: the handle is one, and there is room for as many numbers.
    ok(unsafe { luge_buffer_read(buffer.handle, N as i64, numbers.as_mut_ptr()) });
    numbers
}

#[test]
fn values_and_vectors_stay_on_the_device() {
    let rows = dense(GENERAL);
    let solver = simulator();
    let factors = factors(&solver, &rows.view());
    assert_eq!(
        inform(&factors).backend,
        luge_backend::LUGE_BACKEND_SIMULATOR as i32
    );
    let halves: Vec<f64> = rows.values.iter().map(|v| v / 2.0).collect();
    let values = buffer(&solver, &halves);
    let mut outcome: luge_refactorized = sized();
    let mut accuracy: luge_accuracy = sized();
    let half: Vec<f64> = product(&GENERAL, &X, false)
        .iter()
        .map(|v| v / 2.0)
        .collect();
    let half_transposed: Vec<f64> = product(&GENERAL, &X, true)
        .iter()
        .map(|v| v / 2.0)
        .collect();
    let both = [half.clone(), half].concat();
    let (b, x) = (buffer(&solver, &both), buffer(&solver, &both));
    let transposed = buffer(&solver, &half_transposed);
    // SAFETY: handles are handles, and the sizes are set.
    unsafe {
        ok(luge_refactorize_device(
            factors.handle,
            values.handle,
            &mut outcome,
        ));
        assert!(outcome.is_repivoted == 0 && outcome.backward_error < 1e-14);
        ok(luge_solve_device(
            factors.handle,
            0,
            2,
            x.handle,
            &mut accuracy,
        ));
        assert!(accuracy.backward_error < 1e-10);
        assert_close(&numbers::<6>(&x), &[X, X].concat());
        ok(luge_solve_device(
            factors.handle,
            1,
            1,
            transposed.handle,
            null_mut(),
        ));
        assert_close(&numbers::<3>(&transposed), &X);
        let zeros = buffer(&solver, &[0.0; 6]);
        ok(luge_solve_refined_device(
            factors.handle,
            0,
            2,
            b.handle,
            zeros.handle,
            &mut accuracy,
        ));
        assert!(accuracy.is_measured == 1 && accuracy.backward_error < 1e-15);
        assert_close(&numbers::<6>(&zeros), &[X, X].concat());
        // There is no driver here.
        let mut stream = std::ptr::dangling_mut();
        ok(luge_solver_stream(solver.handle, &mut stream));
        let mut address = 1;
        ok(luge_buffer_address(b.handle, &mut address));
        assert!(stream.is_null() && address == 0);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let rows = dense(GENERAL);
    let (solver, other) = (simulator(), simulator());
    let factors = factors(&solver, &rows.view());
    let on_cpu = crate::support::factors(&crate::support::solver(&[]), &rows.view());
    let values = buffer(&solver, &rows.values);
    let elsewhere = buffer(&other, &rows.values);
    let short = buffer(&solver, &[1.0, 2.0]);
    let three = buffer(&solver, &[1.0, 2.0, 3.0]);
    let handle = factors.handle;
    let mut out = null_mut();
    let mut room = [0.0; 3];
    // SAFETY: handles are handles.
    unsafe {
        let refactorize = |factors: &Owned<luge_factors>, buffer: &Owned<luge_buffer>| {
            luge_refactorize_device(factors.handle, buffer.handle, null_mut())
        };
        let applicable = LUGE_ERROR_NOT_APPLICABLE;
        refused(refactorize(&on_cpu, &values), applicable, "on the CPU");
        refused(
            refactorize(&factors, &elsewhere),
            LUGE_ERROR_ARGUMENT,
            "another solver",
        );
        refused(
            refactorize(&factors, &short),
            LUGE_ERROR_SIZE,
            "there are 2 values",
        );
        let solve = |nrhs, buffer: &Owned<luge_buffer>| {
            luge_solve_device(handle, 0, nrhs, buffer.handle, null_mut())
        };
        refused(solve(1, &short), LUGE_ERROR_SIZE, "`x` has 2 numbers");
        refused(solve(i64::MAX, &three), LUGE_ERROR_SIZE, "right-hand sides");
        refused(solve(-1, &three), LUGE_ERROR_ARGUMENT, "`nrhs` is -1");
        let found = luge_solve_device(handle, 5, 1, three.handle, null_mut());
        refused(found, LUGE_ERROR_ARGUMENT, "luge_operation");
        let found = luge_solve_device(on_cpu.handle, 0, 1, three.handle, null_mut());
        refused(found, applicable, "on the CPU");
        let found = luge_solve_refined_device(handle, 0, 1, three.handle, three.handle, null_mut());
        refused(found, LUGE_ERROR_ARGUMENT, "the same buffer");
        let found = luge_solve_refined_device(handle, 0, 1, three.handle, short.handle, null_mut());
        refused(found, LUGE_ERROR_SIZE, "`x` has 2 numbers");
        let found = luge_buffer_read(three.handle, 2, room.as_mut_ptr());
        refused(found, LUGE_ERROR_SIZE, "");
        let found = luge_buffer_write(three.handle, 4, room.as_ptr());
        refused(found, LUGE_ERROR_SIZE, "");
        refused(
            luge_buffer_create(solver.handle, -1, &mut out),
            LUGE_ERROR_ARGUMENT,
            "count",
        );
        let found = luge_buffer_create(solver.handle, i64::MAX, &mut out);
        refused(found, LUGE_ERROR_OUT_OF_MEMORY, "available");
        let cpu = crate::support::solver(&[]);
        refused(
            luge_buffer_create(cpu.handle, 1, &mut out),
            applicable,
            "no device",
        );
        let found = luge_solver_stream(cpu.handle, &mut null_mut());
        refused(found, applicable, "no device");
        let infinite = buffer(&solver, &[1.0, f64::INFINITY, 3.0]);
        let found = solve(1, &infinite);
        refused(
            found,
            LUGE_ERROR_SOLUTION_NOT_FINITE,
            "infinite or not a number",
        );
    }
    assert!(out.is_null());
    // An empty matrix has vectors without numbers.
    let empty = Arrays::<i32, f64> {
        n: 0,
        offsets: vec![0],
        indices: Vec::new(),
        values: Vec::new(),
    };
    let nothing = crate::support::factors(&solver, &empty.view());
    let none = buffer(&solver, &[]);
    // SAFETY: handles are handles.
    unsafe {
        ok(luge_refactorize_device(
            nothing.handle,
            none.handle,
            null_mut(),
        ));
        ok(luge_solve_device(
            nothing.handle,
            0,
            3,
            none.handle,
            null_mut(),
        ));
    }
}
