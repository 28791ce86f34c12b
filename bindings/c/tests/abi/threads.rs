//! Handles on several threads.

use std::ptr::null_mut;

use luge_c::luge_status::*;
use luge_c::*;

use crate::support::*;

/// A handle that goes to other threads, which luge.h allows.
struct Shared(*mut luge_factors);

// SAFETY: luge.h says that handles may be used from any thread.
unsafe impl Sync for Shared {}

impl Shared {
    fn solve(&self, b: &[f64; 3]) -> [f64; 3] {
        let mut x = *b;
        // SAFETY: the handle is one, and there is a column of three numbers.
        let status = unsafe { luge_solve_in_place(self.0, 0, 1, x.as_mut_ptr(), 3, null_mut()) };
        assert!(
            status == LUGE_OK || status == LUGE_ERROR_BUSY,
            "{}",
            message()
        );
        if status == LUGE_OK { x } else { *b }
    }

    fn refactorize(&self, values: &[f64]) -> luge_status {
        // SAFETY: the handle is one, and there are as many values.
        unsafe { luge_refactorize_values(self.0, values.len() as i64, values.as_ptr(), null_mut()) }
    }
}

#[test]
fn several_threads_solve_with_the_same_factors() {
    let rows = dense(GENERAL);
    let factors = factors(&solver(&[]), &rows.view());
    let shared = Shared(factors.handle);
    let shared = &shared;
    std::thread::scope(|scope| {
        for k in 0..4 {
            scope.spawn(move || {
                for step in 0..500 {
                    let expected = [f64::from(k), f64::from(step), 1.0];
                    let b: [f64; 3] = product(&GENERAL, &expected, false).try_into().unwrap();
                    let x = shared.solve(&b);
                    assert_ne!(x, b, "nobody changes the factors");
                    let distance = (x[1] - expected[1]).abs();
                    assert!(distance <= 1e-14 * (1.0 + expected[1]), "{distance}");
                }
            });
        }
    });
}

#[test]
fn who_changes_factors_has_them_alone_or_is_refused() {
    let rows = dense(GENERAL);
    let factors = factors(&solver(&[]), &rows.view());
    let shared = Shared(factors.handle);
    let shared = &shared;
    let values = &rows.values;
    let busy: usize = std::thread::scope(|scope| {
        let threads = (0..3).map(|k| {
            scope.spawn(move || {
                let mut busy = 0;
                for _ in 0..2000 {
                    if k == 0 {
                        match shared.refactorize(values) {
                            LUGE_OK => {}
                            status => {
                                refused(status, LUGE_ERROR_BUSY, "another thread");
                                busy += 1;
                            }
                        }
                    } else {
                        shared.solve(&[1.0, 2.0, 3.0]);
                    }
                }
                busy
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // How often they met is chance; what counts is that none was refused for another reason.
    assert!(busy <= 2000);
    let x = shared.solve(&[5.0, 8.0, 9.0]);
    assert_close(&x, &[1.0, 1.0, 1.0]);
}
