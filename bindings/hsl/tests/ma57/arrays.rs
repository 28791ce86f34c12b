//! What is in the caller's arrays: they are moved, copied, freed, and damaged.

use std::thread;

use super::systems::saddle_point;
use super::{backward_error, extend};

/// More systems than one thread keeps.
const MANY: usize = 20;

#[test]
fn dropped_systems_are_made_anew() {
    let mut callers: Vec<_> = (0..MANY as u64)
        .map(|seed| saddle_point(30, 10, seed))
        .collect();
    for (caller, _) in &mut callers {
        caller.analyze();
    }
    // All were dropped but the last ones.
    for (caller, a) in &mut callers {
        assert_eq!(caller.factorize(a), 0);
        assert_eq!(caller.info(24), 10);
    }
    let b: Vec<f64> = (0..40).map(|k| f64::from(k).cos()).collect();
    for (caller, a) in &mut callers {
        let error = backward_error(&caller.dense(a), &caller.solve(&b), &b);
        assert!(error < 1e-13, "{error:e}");
    }
}

#[test]
fn a_system_outlives_the_thread_that_made_it() {
    let b = vec![1.0; 40];
    let (mut caller, a) = thread::spawn(|| {
        let (mut caller, a) = saddle_point(30, 10, 77);
        caller.analyze();
        assert_eq!(caller.factorize(&a), 0);
        (caller, a)
    })
    .join()
    .unwrap();
    let error = backward_error(&caller.dense(&a), &caller.solve(&b), &b);
    assert!(error < 1e-13, "{error:e}");
    assert_eq!(caller.factorize(&a), 0);
}

#[test]
fn arrays_that_are_too_short_are_extended_as_ipopt_does_it() {
    let (mut caller, a) = saddle_point(30, 10, 3);
    caller.analyze();
    let (lfact, lifact) = (caller.info(9) as usize, caller.info(10) as usize);
    caller.fact.truncate(lfact - 1);
    caller.ifact.truncate(5);
    assert_eq!(caller.factorize(&a), -3);
    assert_eq!(
        (caller.info(2), caller.info(17)),
        (lfact as i32 - 1, lfact as i32)
    );
    let suffices = caller.info(17) as usize;
    assert_eq!(extend(&mut caller, 0, suffices), 0);
    assert_eq!(caller.factorize(&a), -4);
    assert_eq!((caller.info(2), caller.info(18)), (5, lifact as i32));
    let suffices = caller.info(18) as usize;
    assert_eq!(extend(&mut caller, 1, suffices), 0);
    assert_eq!(caller.factorize(&a), 0);

    // Factors move with their arrays.
    let b = vec![1.0; 40];
    let x = caller.solve(&b);
    for ic in [0, 1] {
        caller.info[1] = if ic == 0 { lfact } else { lifact } as i32;
        assert_eq!(extend(&mut caller, ic, lfact + lifact), 0);
        assert!(caller.solve(&b) == x);
    }
    caller.info[1] = caller.fact.len() as i32;
    assert_eq!(extend(&mut caller, 0, 3), -7);
    assert_eq!(caller.info(2), 3);
}

#[test]
fn an_older_copy_of_the_arrays_has_the_older_factors() {
    let (mut caller, a) = saddle_point(30, 10, 3);
    caller.analyze();
    assert_eq!(caller.factorize(&a), 0);
    let mut older = caller.clone();
    let newer: Vec<f64> = a.iter().map(|v| 2.0 * v).collect();
    assert_eq!(caller.factorize(&newer), 0);
    let b = vec![1.0; 40];
    for _ in 0..2 {
        assert!(backward_error(&caller.dense(&newer), &caller.solve(&b), &b) < 1e-13);
        assert!(backward_error(&caller.dense(&a), &older.solve(&b), &b) < 1e-13);
    }
}

#[test]
fn arrays_that_were_written_over_are_refused() {
    let (mut caller, a) = saddle_point(30, 10, 3);
    let b = vec![1.0; 40];
    let mut x = b.clone();
    // Before anything was done.
    caller.fact = vec![0.0; 200];
    caller.ifact = vec![0; 400];
    assert_eq!(caller.factorize(&a), -14);
    assert_eq!(caller.solve_job(1, &mut x, 1, 40), -14);
    assert!(x.iter().all(|v| v.is_nan()), "there is no solution");
    caller.analyze();
    assert_eq!(
        caller.solve_job(1, &mut b.clone(), 1, 40),
        -14,
        "before it is factorized"
    );
    assert_eq!(caller.factorize(&a), 0);

    for at in [0, 3, 6, 8] {
        let mut damaged = caller.clone();
        damaged.keep[at] ^= 0x40;
        assert!(damaged.factorize(&a) < 0, "KEEP({at})");
        let mut damaged = caller.clone();
        damaged.ifact[at] ^= 0x40;
        assert!(
            damaged.solve_job(1, &mut b.clone(), 1, 40) < 0,
            "IFACT({at})"
        );
    }
    for at in 0..6 {
        let mut damaged = caller.clone();
        damaged.fact[at] = -damaged.fact[at];
        let flag = damaged.solve_job(1, &mut b.clone(), 1, 40);
        // The checksum is looked at when factors are computed again.
        assert_eq!(flag < 0, at != 4, "FACT({at})");
    }
    // Once the system was dropped, all of what is in the arrays counts.
    let mut others: Vec<_> = (0..MANY as u64)
        .map(|seed| saddle_point(5, 2, seed))
        .collect();
    for at in [16, 60] {
        for (other, _) in &mut others {
            other.analyze();
        }
        let mut damaged = caller.clone();
        damaged.keep[at] ^= 1;
        assert_eq!(damaged.factorize(&a), -14, "KEEP({at})");
        let mut damaged = caller.clone();
        damaged.ifact[at] ^= 1;
        assert_eq!(
            damaged.solve_job(1, &mut b.clone(), 1, 40),
            -14,
            "IFACT({at})"
        );
        let mut damaged = caller.clone();
        damaged.fact[at] += 1.0;
        assert_eq!(
            damaged.solve_job(1, &mut b.clone(), 1, 40),
            -14,
            "FACT({at})"
        );
    }
    assert_eq!(caller.solve_job(1, &mut b.clone(), 1, 40), 0);
}
