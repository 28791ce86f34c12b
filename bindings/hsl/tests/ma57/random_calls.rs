//! Random calls with whatever arrays there are: none ends the process, and no right answer is wrong.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::systems::saddle_point;
use super::{Caller, backward_error, extend, largest};

const CALLS: usize = 10_000;

/// A caller, and what can be expected of its arrays.
struct State {
    caller: Caller,
    a: Vec<f64>,
    /// Nothing was written over since the last analysis.
    is_whole: bool,
    /// FACT and IFACT have the matrix.
    is_factorized: bool,
}

impl State {
    fn new(seed: u64) -> Self {
        let (caller, a) = saddle_point(8, 3, seed);
        Self {
            caller,
            a,
            is_whole: false,
            is_factorized: false,
        }
    }
}

/// Does one of the things that callers do, rightly or wrongly, and forgets what is known of the factors where it is wrong.
fn call(state: &mut State, draw: &mut SmallRng) {
    let State {
        caller,
        a,
        is_whole,
        is_factorized,
    } = state;
    let n = caller.n as usize;
    match draw.random_range(0..12) {
        0 => {
            *is_factorized = false;
            *is_whole = caller.analyze() >= 0;
        }
        1..=3 => {
            a.iter_mut().for_each(|v| *v *= draw.random_range(0.5..2.0));
            caller.cntl[0] = 10f64.powi(draw.random_range(-8..2));
            *is_factorized = caller.factorize(a) == 0 && *is_whole;
        }
        4 => {
            let mut wild = a.clone();
            let at = draw.random_range(0..wild.len());
            wild[at] = [f64::NAN, f64::INFINITY, 1e300, 0.0, -1e-300][draw.random_range(0..5)];
            caller.factorize(&wild);
            *is_factorized = false;
        }
        5..=7 => {
            let b: Vec<f64> = (0..n).map(|_| draw.random_range(-1.0..1.0)).collect();
            let mut x = b.clone();
            let flag = caller.solve_job(1, &mut x, 1, n as i32);
            if *is_factorized {
                assert_eq!(flag, 0);
                let error = backward_error(&caller.dense(a), &x, &b);
                assert!(error < 1e-6, "{error:e}, {}", largest(&x));
            }
        }
        8 => {
            let job = draw.random_range(-1..7);
            let mut x = vec![1.0; 3 * n];
            let (nrhs, lrhs) = (
                draw.random_range(-1..=3),
                draw.random_range(n as i32 - 2..=n as i32),
            );
            caller.solve_job(job, &mut x, nrhs, lrhs);
        }
        9 => {
            let ic = draw.random_range(0..2);
            let length = if ic == 0 {
                caller.fact.len()
            } else {
                caller.ifact.len()
            };
            caller.info[1] = length as i32;
            extend(caller, ic, length + draw.random_range(0..3));
        }
        10 => {
            // Integers and reals that something else was written over.
            let at = draw.random_range(0..40);
            let array = if draw.random() {
                &mut caller.keep
            } else {
                &mut caller.ifact
            };
            if let Some(integer) = array.get_mut(at) {
                *integer = draw.random();
            }
            if let Some(real) = caller.fact.get_mut(at) {
                *real = f64::from_bits(draw.random());
            }
            (*is_whole, *is_factorized) = (false, false);
        }
        _ => {
            let (fact, ifact) = (caller.fact.len(), caller.ifact.len());
            caller
                .fact
                .truncate(fact - fact.min(draw.random_range(0..2)));
            caller
                .ifact
                .truncate(ifact - ifact.min(draw.random_range(0..2)));
            *is_factorized = false;
        }
    }
}

#[test]
fn random_calls_neither_crash_nor_lie() {
    let mut draw = SmallRng::seed_from_u64(25);
    let mut states: Vec<State> = (0..12).map(State::new).collect();
    let mut right = 0;
    for k in 0..CALLS {
        let at = draw.random_range(0..states.len());
        if draw.random_bool(0.02) {
            // Somebody else, maybe with these very addresses.
            states[at] = State::new(k as u64);
        }
        let state = &mut states[at];
        // Mostly in the right order.
        if !state.is_factorized && draw.random_bool(0.5) {
            state.is_whole = state.caller.analyze() >= 0;
            state.is_factorized = state.caller.factorize(&state.a) == 0;
        }
        call(state, &mut draw);
        right += usize::from(state.is_factorized);
    }
    assert!(right > CALLS / 4, "{right} calls left factors behind");
}
