//! Arguments that are wrong: each has its number, and nothing is written but that.

use std::ptr::{null, null_mut};

use luge_hsl::{ma57ad_, ma57bd_, ma57cd_, ma57ed_, ma57id_};

use super::Caller;
use super::systems::saddle_point;

#[test]
fn sizes_out_of_range_have_their_numbers() {
    let mut caller = Caller::new(2, &[(0, 0), (1, 1)]);
    for n in [0, -3] {
        let mut wrong = caller.clone();
        wrong.n = n;
        assert_eq!((wrong.analyze(), wrong.info(2)), (-1, n));
    }
    let mut wrong = caller.clone();
    wrong.keep.pop();
    assert_eq!(
        (wrong.analyze(), wrong.info(2)),
        (-15, wrong.keep.len() as i32)
    );
    let ne = -1;
    // SAFETY: arrays of the lengths that are given.
    unsafe {
        ma57ad_(
            &caller.n,
            &ne,
            null(),
            null(),
            &1000,
            caller.keep.as_mut_ptr(),
            null_mut(),
            caller.icntl.as_ptr(),
            caller.info.as_mut_ptr(),
            null_mut(),
        );
    }
    assert_eq!((caller.info(1), caller.info(2)), (-2, -1));

    assert_eq!(caller.analyze(), 0);
    assert_eq!(caller.factorize(&[1.0, 2.0]), 0);
    let mut x = [1.0, 1.0];
    assert_eq!(
        (caller.solve_job(1, &mut x, 1, 1), caller.info(2)),
        (-11, 1)
    );
    assert_eq!(
        (caller.solve_job(1, &mut x, 0, 2), caller.info(2)),
        (-16, 0)
    );
    let mut other = caller.clone();
    other.n = 1;
    assert_eq!(other.solve_job(1, &mut x, 1, 2), -1);
    assert!(other.factorize(&[1.0, 2.0]) < 0);
    let (lfact, lifact) = (caller.fact.len() as i32, caller.ifact.len() as i32);
    // SAFETY: arrays of the lengths that are given.
    unsafe {
        ma57cd_(
            &1,
            &caller.n,
            caller.fact.as_ptr(),
            &lfact,
            caller.ifact.as_ptr(),
            &lifact,
            &1,
            x.as_mut_ptr(),
            &2,
            null_mut(),
            &1,
            null_mut(),
            null(),
            caller.info.as_mut_ptr(),
        );
    }
    assert_eq!((caller.info(1), caller.info(2)), (-17, 2));
}

#[test]
fn indices_out_of_range_are_ignored_and_counted() {
    let mut caller = Caller::new(2, &[(0, 0), (1, 1), (1, 0), (0, 1)]);
    caller.irn[2] = 0;
    assert_eq!(caller.analyze(), 1);
    assert_eq!((caller.info(3), caller.info(4)), (1, 0));
    caller.irn[2] = 2;
    caller.jcn[3] = 3;
    assert_eq!(caller.analyze(), 1);
    caller.irn[1] = i32::MIN;
    caller.jcn[3] = 2;
    caller.irn[3] = 1;
    assert_eq!(caller.analyze(), 3);
    assert_eq!((caller.info(3), caller.info(4)), (1, 1));
    assert_eq!(caller.factorize(&[1.0, 9.0, 1.0, 1.0]), 0);
    // 1 2
    // 2 0
    assert_eq!(caller.solve(&[5.0, 2.0]), [1.0, 2.0]);
    assert_eq!(caller.info(24), 1);
}

#[test]
fn permutations_that_are_none_are_refused() {
    let mut caller = Caller::new(3, &[(0, 0), (1, 1), (2, 2)]);
    caller.icntl[5] = 1;
    for (position, first) in [
        ([1, 2, 2], 3),
        ([0, 1, 2], 1),
        ([1, 4, 2], 2),
        ([1, 2, -3], 3),
    ] {
        caller.keep[..3].copy_from_slice(&position);
        assert_eq!((caller.analyze(), caller.info(2)), (-9, first));
    }
}

#[test]
fn choices_that_are_not_there_are_refused() {
    let mut caller = Caller::new(1, &[(0, 0)]);
    assert_eq!(caller.analyze(), 0);
    for strategy in [0, 4, -1, 5] {
        caller.icntl[6] = strategy;
        assert_eq!((caller.factorize(&[1.0]), caller.info(2)), (-10, strategy));
    }
    caller.icntl[6] = 1;
    caller.cntl[0] = f64::NAN;
    caller.cntl[1] = f64::NAN;
    assert_eq!(caller.factorize(&[1.0]), 0);
}

#[test]
fn numbers_that_are_not_finite_are_named() {
    let (mut caller, mut a) = saddle_point(10, 4, 1);
    caller.analyze();
    assert_eq!(caller.factorize(&a), 0);
    let good = a[3];
    for bad in [f64::NAN, f64::INFINITY] {
        // The second unknown has two values on the diagonal.
        a[3] = bad;
        assert_eq!((caller.factorize(&a), caller.info(2)), (-5, 2));
        let mut x = vec![1.0; 14];
        assert_eq!(
            caller.solve_job(1, &mut x, 1, 14),
            -5,
            "there are no factors"
        );
        assert!(x.iter().all(|v| v.is_nan()));
    }
    a[3] = good;
    assert_eq!(caller.factorize(&a), 0);
    let mut x = vec![1.0; 14];
    x[5] = f64::NAN;
    assert_eq!(caller.solve_job(1, &mut x, 1, 14), -14);
    assert!(x.iter().all(|v| v.is_nan()));
    assert_eq!(caller.solve_job(1, &mut [1.0; 14], 1, 14), 0);
}

#[test]
fn null_is_refused_everywhere() {
    let mut info = [7; 40];
    // SAFETY: null is allowed everywhere, and INFO has 40 integers.
    unsafe {
        ma57id_(null_mut(), null_mut());
        for info in [null_mut(), info.as_mut_ptr()] {
            ma57ad_(
                null(),
                null(),
                null(),
                null(),
                null(),
                null_mut(),
                null_mut(),
                null(),
                info,
                null_mut(),
            );
        }
        assert_eq!(info[0], -14);
        info[0] = 7;
        for info in [null_mut(), info.as_mut_ptr()] {
            ma57bd_(
                null(),
                null(),
                null(),
                null_mut(),
                null(),
                null_mut(),
                null(),
                null(),
                null(),
                null_mut(),
                null(),
                null(),
                info,
                null_mut(),
            );
        }
        assert_eq!(info[0], -14);
        info[0] = 7;
        for info in [null_mut(), info.as_mut_ptr()] {
            ma57cd_(
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null_mut(),
                null(),
                null_mut(),
                null(),
                null_mut(),
                null(),
                info,
            );
        }
        assert_eq!(info[0], -14);
        info[0] = 7;
        for info in [null_mut(), info.as_mut_ptr()] {
            ma57ed_(
                null(),
                null(),
                null(),
                null(),
                null(),
                null_mut(),
                null(),
                null(),
                null(),
                null_mut(),
                null(),
                info,
            );
        }
        assert_eq!(info[0], -14);
    }
    // Nothing else of INFO is written.
    assert!(info[2..].iter().all(|&v| v == 7));
}
