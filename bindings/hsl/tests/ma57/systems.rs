//! Systems that are right: solutions, inertia, rank, thresholds.

use std::thread;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::{Caller, backward_error, inertia, largest, product};

/// [H Jᵀ; J 0] with n unknowns and m constraints, some entries in the upper triangle and some in several parts.
pub(crate) fn saddle_point(n: usize, m: usize, seed: u64) -> (Caller, Vec<f64>) {
    let mut draw = SmallRng::seed_from_u64(seed);
    let (mut triplets, mut values) = (Vec::new(), Vec::new());
    let mut add = |i: usize, j: usize, v: f64| {
        triplets.push((i, j));
        values.push(v);
    };
    for i in 0..n {
        add(i, i, 1.0 + i as f64 / n as f64);
        add(i, i, draw.random_range(0.0..1e3));
        if i > 0 {
            add(i - 1, i, draw.random_range(-0.4..0.4));
        }
    }
    for row in 0..m {
        add(n + row, row, 1.0 + draw.random::<f64>());
        for _ in 0..3 {
            add(
                n + row,
                draw.random_range(0..n),
                draw.random_range(-1.0..1.0),
            );
        }
    }
    (Caller::new(n + m, &triplets), values)
}

fn random_vector(n: usize, seed: u64) -> Vec<f64> {
    let mut draw = SmallRng::seed_from_u64(seed);
    (0..n).map(|_| draw.random_range(-1.0..1.0)).collect()
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let caller = Caller::new(1, &[]);
    assert_eq!(caller.cntl, [0.01, 1e-20, 0.5, 0.0, 0.0]);
    let icntl = [
        6, 6, 6, -1, 2, 5, 1, 0, 10, 0, 16, 16, 10, 100, 1, 0, 0, 0, 0, 0,
    ];
    assert_eq!(caller.icntl, icntl);
}

#[test]
fn a_small_matrix_is_solved_exactly() {
    // 2 1 .
    // 1 0 4    the middle one in two parts, and one entry above the diagonal
    // . 4 -3
    let mut caller = Caller::new(3, &[(0, 0), (1, 0), (1, 2), (1, 2), (2, 2)]);
    assert_eq!(caller.analyze(), 2);
    assert_eq!((caller.info(3), caller.info(4)), (0, 1));
    assert_eq!(caller.factorize(&[2.0, 1.0, 3.0, 1.0, -3.0]), 0);
    assert_eq!((caller.info(24), caller.info(25)), (1, 3));
    let x = caller.solve(&[4.0, 13.0, -1.0]);
    for (x, expected) in x.iter().zip([1.0, 2.0, 3.0]) {
        assert!((x - expected).abs() < 1e-14, "{x}");
    }
    assert!(caller.rinfo.iter().all(|&v| v == 0.0));
}

#[test]
fn random_matrices_have_the_inertia_and_solutions_of_dense_ones() {
    for seed in 0..40 {
        let mut draw = SmallRng::seed_from_u64(seed);
        let n = draw.random_range(1..=33);
        let mut triplets = vec![];
        for i in 0..n {
            for j in 0..=i {
                if draw.random_bool(0.2) || i == j && draw.random_bool(0.5) {
                    triplets.push(if draw.random() { (i, j) } else { (j, i) });
                }
            }
        }
        // Each row has an entry, so that most are not singular.
        triplets.extend((0..n).map(|i| (i, n - 1 - i)));
        triplets.shuffle(&mut draw);
        let mut caller = Caller::new(n, &triplets);
        caller.icntl[5] = [0, 2, 4, 5][seed as usize % 4];
        caller.icntl[14] = i32::from(seed % 3 == 0);
        assert!((0..=2).contains(&caller.analyze()));
        for _ in 0..3 {
            let a: Vec<f64> = triplets
                .iter()
                .map(|_| draw.random_range(-1.0..1.0))
                .collect();
            caller.cntl[0] = [1e-8, 1e-4, 0.01, 0.5, 3.0][draw.random_range(0..5)];
            let dense = caller.dense(&a);
            let [positive, negative] = inertia(&dense, 1e-13);
            let flag = caller.factorize(&a);
            if positive + negative < n {
                continue;
            }
            assert_eq!(flag, 0, "seed {seed}");
            assert_eq!(caller.info(24) as usize, negative, "seed {seed}");
            assert_eq!(caller.info(25) as usize, n);
            let b = random_vector(n, seed);
            let x = caller.solve(&b);
            let error = backward_error(&dense, &x, &b);
            let bound = if caller.cntl[0] < 1e-3 { 1e-6 } else { 1e-12 };
            assert!(error < bound, "seed {seed}: {error:e}");
        }
    }
}

#[test]
fn a_sequence_keeps_its_analysis_and_follows_the_threshold() {
    let (mut caller, mut a) = saddle_point(120, 50, 1);
    assert_eq!(caller.analyze(), 2);
    let b = random_vector(170, 3);
    for step in 0..6 {
        caller.cntl[0] = [1e-8, 1e-8, 1e-6, 3e-5, 1e-4, 0.5][step];
        for (k, v) in a.iter_mut().enumerate() {
            *v *= 1.0 + 0.1 * ((k + step) as f64).sin();
        }
        assert_eq!(caller.factorize(&a), 0);
        assert_eq!(caller.info(24), 50);
        let x = caller.solve(&b);
        let error = backward_error(&caller.dense(&a), &x, &b);
        assert!(error < 1e-11, "step {step}: {error:e}");
    }
}

#[test]
fn the_threshold_chooses_pivots() {
    // Rows of L⁻¹ and of D tell of other pivots.
    let mut caller = Caller::new(
        200,
        &(0..200)
            .flat_map(|i| (0..=i).map(move |j| (i, j)))
            .collect::<Vec<_>>(),
    );
    let mut draw = SmallRng::seed_from_u64(3);
    let a: Vec<f64> = caller
        .irn
        .iter()
        .map(|_| draw.random_range(-1.0..1.0))
        .collect();
    assert_eq!(caller.analyze(), 0);
    let b = random_vector(200, 4);
    let mut parts = |u: f64| {
        caller.cntl[0] = u;
        assert_eq!(caller.factorize(&a), 0);
        let mut x = b.clone();
        assert_eq!(caller.solve_job(2, &mut x, 1, 200), 0);
        x
    };
    let [least, most, again, above] = [0.0, 0.5, 0.0, 9.0].map(&mut parts);
    assert!(least == again && most == above && least != most);
    assert!(
        largest(&least) > 3.0 * largest(&most),
        "entries of L are larger without a threshold"
    );
}

#[test]
fn the_callers_order_is_taken() {
    // An arrow: its head first fills all, last nothing. The entry of L between two of the others tells.
    let n = 5;
    let mut triplets: Vec<_> = (0..n).map(|i| (i, i)).collect();
    triplets.extend((1..n).map(|i| (i, 0)));
    let a: Vec<f64> = (0..2 * n - 1)
        .map(|k| if k < n { 4.0 } else { 1.0 })
        .collect();
    for (position, filled) in [([1, 2, 3, 4, 5], true), ([5, 4, 3, 2, 1], false)] {
        let mut caller = Caller::new(n, &triplets);
        caller.icntl[5] = 1;
        caller.keep[..n].copy_from_slice(&position);
        assert_eq!(caller.analyze(), 0);
        assert_eq!(caller.factorize(&a), 0);
        // L⁻¹ of a column that is not the head's.
        let mut column = [0.0, 1.0, 0.0, 0.0, 0.0];
        assert_eq!(caller.solve_job(2, &mut column, 1, n as i32), 0);
        assert_eq!(column[2] != 0.0, filled, "{column:?}");
        let error = backward_error(&caller.dense(&a), &caller.solve(&[1.0; 5]), &[1.0; 5]);
        assert!(error < 1e-15);
    }
}

#[test]
fn parts_of_the_factors_solve_as_the_whole() {
    for scaling in [0, 1] {
        let (mut caller, a) = saddle_point(40, 15, 7);
        caller.icntl[14] = scaling;
        caller.analyze();
        assert_eq!(caller.factorize(&a), 0);
        let b = random_vector(55, 11);
        let whole = caller.solve(&b);
        let mut parts = b.clone();
        for job in [2, 3, 4] {
            assert_eq!(caller.solve_job(job, &mut parts, 1, 55), 0);
            assert!(parts != b);
        }
        let apart: Vec<f64> = parts.iter().zip(&whole).map(|(p, w)| p - w).collect();
        assert!(largest(&apart) <= 1e-12 * largest(&whole), "{apart:?}");
    }
}

#[test]
fn many_right_hand_sides_stand_apart() {
    let (mut caller, a) = saddle_point(20, 8, 5);
    caller.analyze();
    assert_eq!(caller.factorize(&a), 0);
    let (n, lrhs) = (28, 31);
    let mut rhs = vec![7.5; lrhs * 2 + n];
    let sides: Vec<_> = (0..3).map(|k| random_vector(n, 20 + k)).collect();
    for (to, b) in rhs.chunks_mut(lrhs).zip(&sides) {
        to[..n].copy_from_slice(b);
    }
    assert_eq!(caller.solve_job(1, &mut rhs, 3, lrhs as i32), 0);
    let dense = caller.dense(&a);
    for (x, b) in rhs.chunks(lrhs).zip(&sides) {
        assert!(backward_error(&dense, &x[..n], b) < 1e-13);
        assert!(x[n..].iter().all(|&v| v == 7.5), "what is between is left");
    }
    let mut together = sides.concat();
    assert_eq!(caller.solve_job(0, &mut together, 3, n as i32), 0);
    for (x, b) in together.chunks(n).zip(&sides) {
        assert!(backward_error(&dense, x, b) < 1e-13);
    }
}

#[test]
fn singular_matrices_are_told_of_and_solve_consistent_systems() {
    // The second unknown is nowhere, and the last row is the sum of the two before it.
    let triplets = [(0, 0), (2, 2), (3, 2), (4, 2), (3, 3), (4, 3), (4, 4)];
    let a = [3.0, 1.0, 2.0, 3.0, -1.0, 1.0, 4.0];
    let mut caller = Caller::new(5, &triplets);
    assert_eq!(caller.analyze(), 0);
    for scaling in [0, 1] {
        caller.icntl[14] = scaling;
        caller.cntl[1] = 1e-12;
        assert_eq!(caller.factorize(&a), 4);
        assert_eq!((caller.info(24), caller.info(25)), (1, 3));
        let dense = caller.dense(&a);
        let b = product(&dense, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let error = backward_error(&dense, &caller.solve(&b), &b);
        assert!(error < 1e-14, "{error:e}");
    }
    // Of all zeros.
    assert_eq!(caller.factorize(&[0.0; 7]), 4);
    assert_eq!((caller.info(24), caller.info(25)), (0, 0));
    // And of a regular one in its place.
    let mut caller = Caller::new(2, &[(0, 0), (1, 1)]);
    assert_eq!(caller.analyze(), 0);
    assert_eq!(caller.factorize(&[1.0, 0.0]), 4);
    assert_eq!(caller.factorize(&[1.0, -1e-30]), 0);
    assert_eq!((caller.info(24), caller.info(25)), (1, 2));
}

#[test]
fn what_is_zero_is_relative_to_nothing() {
    // Entries that are thirty orders of magnitude apart, as those of barriers are: none of them is zero.
    let mut caller = Caller::new(3, &[(0, 0), (1, 1), (2, 0), (2, 1)]);
    caller.icntl[14] = 0;
    assert_eq!(caller.analyze(), 0);
    assert_eq!(caller.factorize(&[1e20, 1e-10, 1.0, 1e-3]), 0);
    assert_eq!((caller.info(24), caller.info(25)), (1, 3));
    // CNTL(2) says what is.
    caller.cntl[1] = 1e-2;
    caller.factorize(&[1.0, 1e-3, 1e-3, 1e-3]);
    assert_eq!((caller.info(1), caller.info(25)), (4, 1));
}

#[test]
fn signs_are_looked_at_where_they_are_to_be_the_same() {
    let mut caller = Caller::new(3, &[(0, 0), (1, 1), (2, 2), (1, 0)]);
    assert_eq!(caller.analyze(), 0);
    let (definite, indefinite) = ([2.0, 2.0, 2.0, 1.0], [2.0, 2.0, -2.0, 1.0]);
    caller.icntl[6] = 2;
    assert_eq!(caller.factorize(&definite), 0);
    assert_eq!(caller.factorize(&definite.map(|v| -v)), 0);
    assert_eq!(caller.factorize(&indefinite), -6);
    caller.icntl[6] = 3;
    assert_eq!(caller.factorize(&definite), 0);
    assert_eq!((caller.factorize(&indefinite), caller.info(26)), (5, 1));
    caller.icntl[6] = 1;
    assert_eq!(caller.factorize(&indefinite), 0);
}

#[test]
fn several_threads_do_not_change_a_bit() {
    let solve = |threads| {
        luge_hsl::luge_hsl_set_threads(threads);
        let (mut caller, a) = saddle_point(3000, 1000, 9);
        caller.analyze();
        assert_eq!(caller.factorize(&a), 0);
        assert_eq!(caller.factorize(&a), 0);
        caller.solve(&random_vector(4000, 2))
    };
    let alone = solve(1);
    assert!(solve(3) == alone);
    luge_hsl::luge_hsl_set_threads(-5);
    assert!(solve(1) == alone);
}

#[test]
fn callers_on_several_threads_do_not_meet() {
    let work = |seed| {
        let (mut caller, mut a) = saddle_point(60, 20, seed);
        caller.analyze();
        for step in 0..20 {
            a[0] += 1.0 + step as f64;
            assert_eq!(caller.factorize(&a), 0);
            let b = random_vector(80, seed + step);
            let error = backward_error(&caller.dense(&a), &caller.solve(&b), &b);
            assert!(error < 1e-12, "{error:e}");
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|seed| scope.spawn(move || work(seed))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
