//! Problems of W. Hock and K. Schittkowski, *Test Examples for Nonlinear Programming Codes* (Lecture Notes in Economics and
//! Mathematical Systems 187, 1981), with their numbers, starting points and optima. The tests of `pounce-algorithm` have the
//! first twelve of [`all`].

use super::{Jet, Problem, Term, UNBOUNDED};

/// All of them.
pub fn all() -> Vec<Problem> {
    let mut problems = bounded();
    problems.extend(constrained());
    problems.extend(equalities());
    problems.extend(inequalities());
    problems
}

/// 1, 3, 4, 5, 25 and 38, which have bounds alone.
fn bounded() -> Vec<Problem> {
    let free = UNBOUNDED;
    let term = Term::new;
    let banana = |x: &[Jet], _| (x[1] - x[0].squared()).squared() * 100.0 + (x[0] - 1.0).squared();
    let sine = 3f64.sqrt() / 2.0 + std::f64::consts::PI / 3.0;
    vec![
        Problem::new("HS1", vec![-2.0, 1.0])
            .between(&[-free, -1.5], &[free; 2])
            .minimize(vec![term(&[0, 1], 0.0, banana)], Some(0.0)),
        Problem::new("HS3", vec![10.0, 1.0])
            .between(&[-free, 0.0], &[free; 2])
            .minimize(
                vec![term(&[0, 1], 1e-5, |x, c| {
                    x[1] + (x[1] - x[0]).squared() * c
                })],
                Some(0.0),
            ),
        Problem::new("HS4", vec![1.125, 0.125])
            .between(&[1.0, 0.0], &[free; 2])
            .minimize(
                vec![term(&[0, 1], 0.0, |x, _| {
                    (x[0] + 1.0).cubed() * (1.0 / 3.0) + x[1]
                })],
                Some(8.0 / 3.0),
            ),
        Problem::new("HS5", vec![0.0, 0.0])
            .between(&[-1.5, -3.0], &[4.0, 3.0])
            .minimize(
                vec![term(&[0, 1], 1.0, |x, one| {
                    let square = (x[0] - x[1]).squared();
                    (x[0] + x[1]).sin() + square + x[1] * 2.5 - x[0] * 1.5 + one
                })],
                Some(-sine),
            ),
        Problem::new("HS25", vec![100.0, 12.5, 3.0])
            .between(&[0.1, 0.0, 0.0], &[100.0, 25.6, 5.0])
            .minimize(
                (1..100)
                    .map(|i| {
                        term(&[0, 1, 2], 0.01 * f64::from(i), |x, t| {
                            let u = 25.0 + (-50.0 * t.ln()).powf(2.0 / 3.0);
                            let power = ((-x[1] + u).ln() * x[2]).exp();
                            ((-(x[0].reciprocal() * power)).exp() - t).squared()
                        })
                    })
                    .collect(),
                Some(0.0),
            ),
        Problem::new("HS38", vec![-3.0, -1.0, -3.0, -1.0])
            .between(&[-10.0; 4], &[10.0; 4])
            .minimize(
                vec![
                    term(&[0, 1], 0.0, banana),
                    term(&[2, 3], 90.0, |x, c| {
                        (x[1] - x[0].squared()).squared() * c + (x[0] - 1.0).squared()
                    }),
                    term(&[1, 3], 10.1, |x, c| {
                        let (a, b) = (x[0] - 1.0, x[1] - 1.0);
                        (a.squared() + b.squared()) * c + a * b * 19.8
                    }),
                ],
                Some(0.0),
            ),
    ]
}

/// 14, 21, 28, 35, 71 and 76.
fn constrained() -> Vec<Problem> {
    let free = UNBOUNDED;
    let term = Term::new;
    let linear = Term::linear;
    vec![
        Problem::new("HS14", vec![2.0, 2.0])
            .minimize(
                vec![term(&[0, 1], 0.0, near_2_1)],
                Some(9.0 - 2.875 * 7f64.sqrt()),
            )
            .subject_to(
                -1.0,
                free,
                vec![term(&[0, 1], -0.25, |x, c| {
                    x[0].squared() * c - x[1].squared()
                })],
            )
            .subject_to(-1.0, -1.0, Term::multiples(&[1.0, -2.0])),
        Problem::new("HS21", vec![-1.0, -1.0])
            .between(&[2.0, -50.0], &[50.0, 50.0])
            .minimize(
                vec![term(&[0, 1], -100.0, |x, c| {
                    x[0].squared() * 0.01 + x[1].squared() + c
                })],
                Some(-99.96),
            )
            .subject_to(10.0, free, vec![linear(0, 10.0), linear(1, -1.0)]),
        Problem::new("HS28", vec![-4.0, 1.0, 1.0])
            .minimize(
                vec![term(&[0, 1, 2], 0.0, |x, _| {
                    (x[0] + x[1]).squared() + (x[1] + x[2]).squared()
                })],
                Some(0.0),
            )
            .subject_to(
                1.0,
                1.0,
                (0..3).map(|v| linear(v, v as f64 + 1.0)).collect(),
            ),
        Problem::new("HS35", vec![0.5; 3])
            .between(&[0.0; 3], &[free; 3])
            .minimize(
                vec![term(&[0, 1, 2], 9.0, |x, c| {
                    let squares = x[0].squared() * 2.0 + x[1].squared() * 2.0 + x[2].squared();
                    let products = x[0] * (x[1] + x[2]) * 2.0;
                    squares + products - x[0] * 8.0 - x[1] * 6.0 - x[2] * 4.0 + c
                })],
                Some(1.0 / 9.0),
            )
            .subject_to(
                -free,
                3.0,
                vec![linear(0, 1.0), linear(1, 1.0), linear(2, 2.0)],
            ),
        Problem::new("HS71", vec![1.0, 5.0, 5.0, 1.0])
            .between(&[1.0; 4], &[5.0; 4])
            .minimize(
                vec![term(&[0, 1, 2, 3], 0.0, |x, _| {
                    x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]
                })],
                Some(17.014_017_289_155_8),
            )
            .subject_to(
                25.0,
                free,
                vec![term(&[0, 1, 2, 3], 0.0, |x, _| x[0] * x[1] * x[2] * x[3])],
            )
            .subject_to(
                40.0,
                40.0,
                (0..4)
                    .map(|v| term(&[v], 0.0, |x, _| x[0].squared()))
                    .collect(),
            ),
        Problem::new("HS76", vec![0.5; 4])
            .between(&[0.0; 4], &[free; 4])
            .minimize(
                vec![term(&[0, 1, 2, 3], 0.5, |x, half| {
                    let squares = x[0].squared() + x[2].squared();
                    let halves = (x[1].squared() + x[3].squared()) * half;
                    let products = x[2] * x[3] - x[0] * x[2];
                    squares + halves + products - x[0] - x[1] * 3.0 + x[2] - x[3]
                })],
                Some(-4.681_818_181_818_18),
            )
            .subject_to(-free, 5.0, Term::multiples(&[1.0, 2.0, 1.0, 1.0]))
            .subject_to(-free, 4.0, Term::multiples(&[3.0, 1.0, 2.0, -1.0]))
            .subject_to(1.5, free, Term::multiples(&[0.0, 1.0, 4.0, 0.0])),
    ]
}

/// The squared distance from (2, 1).
fn near_2_1(x: &[Jet], _: f64) -> Jet {
    (x[0] - 2.0).squared() + (x[1] - 1.0).squared()
}

/// 6, 7, 39, 40, 48 and 51, which have no other constraints than equations.
fn equalities() -> Vec<Problem> {
    let term = Term::new;
    vec![
        Problem::new("HS6", vec![-1.2, 1.0])
            .minimize(
                vec![term(&[0], 1.0, |x, c| (x[0] - c).squared())],
                Some(0.0),
            )
            .subject_to(
                0.0,
                0.0,
                vec![term(&[0, 1], 10.0, |x, c| (x[1] - x[0].squared()) * c)],
            ),
        Problem::new("HS7", vec![2.0, 2.0])
            .minimize(
                vec![term(&[0, 1], 1.0, |x, c| (x[0].squared() + c).ln() - x[1])],
                Some(-3f64.sqrt()),
            )
            .subject_to(
                4.0,
                4.0,
                vec![term(&[0, 1], 1.0, |x, c| {
                    (x[0].squared() + c).squared() + x[1].squared()
                })],
            ),
        Problem::new("HS39", vec![2.0; 4])
            .minimize(vec![Term::linear(0, -1.0)], Some(-1.0))
            .subject_to(
                0.0,
                0.0,
                vec![term(&[0, 1, 2], 0.0, |x, _| {
                    x[1] - x[0].cubed() - x[2].squared()
                })],
            )
            .subject_to(
                0.0,
                0.0,
                vec![term(&[0, 1, 3], 0.0, |x, _| {
                    x[0].squared() - x[1] - x[2].squared()
                })],
            ),
        Problem::new("HS40", vec![0.8; 4])
            .minimize(
                vec![term(&[0, 1, 2, 3], 0.0, |x, _| {
                    -(x[0] * x[1] * x[2] * x[3])
                })],
                Some(-0.25),
            )
            .subject_to(
                1.0,
                1.0,
                vec![term(&[0, 1], 0.0, |x, _| x[0].cubed() + x[1].squared())],
            )
            .subject_to(
                0.0,
                0.0,
                vec![term(&[0, 2, 3], 0.0, |x, _| x[0].squared() * x[2] - x[1])],
            )
            .subject_to(
                0.0,
                0.0,
                vec![term(&[1, 3], 0.0, |x, _| x[1].squared() - x[0])],
            ),
        Problem::new("HS48", vec![3.0, 5.0, -3.0, 2.0, -2.0])
            .minimize(
                vec![
                    term(&[0], 1.0, |x, c| (x[0] - c).squared()),
                    term(&[1, 2], 0.0, |x, _| (x[0] - x[1]).squared()),
                    term(&[3, 4], 0.0, |x, _| (x[0] - x[1]).squared()),
                ],
                Some(0.0),
            )
            .subject_to(5.0, 5.0, Term::multiples(&[1.0; 5]))
            .subject_to(-3.0, -3.0, Term::multiples(&[0.0, 0.0, 1.0, -2.0, -2.0])),
        Problem::new("HS51", vec![2.5, 0.5, 2.0, -1.0, 0.5])
            .minimize(
                vec![
                    term(&[0, 1], 0.0, |x, _| (x[0] - x[1]).squared()),
                    term(&[1, 2], 2.0, |x, c| (x[0] + x[1] - c).squared()),
                    term(&[3, 4], 1.0, |x, c| {
                        (x[0] - c).squared() + (x[1] - c).squared()
                    }),
                ],
                Some(0.0),
            )
            .subject_to(4.0, 4.0, Term::multiples(&[1.0, 3.0]))
            .subject_to(0.0, 0.0, Term::multiples(&[0.0, 0.0, 1.0, 1.0, -2.0]))
            .subject_to(0.0, 0.0, Term::multiples(&[0.0, 1.0, 0.0, 0.0, -1.0])),
    ]
}

/// 10, 11, 12, 22 and 43, which have no other constraints than inequalities.
fn inequalities() -> Vec<Problem> {
    let free = UNBOUNDED;
    let term = Term::new;
    vec![
        Problem::new("HS10", vec![-10.0, 10.0])
            .minimize(Term::multiples(&[1.0, -1.0]), Some(-1.0))
            .subject_to(
                -1.0,
                free,
                vec![term(&[0, 1], 2.0, |x, c| {
                    x[0] * x[1] * c - x[0].squared() * 3.0 - x[1].squared()
                })],
            ),
        Problem::new("HS11", vec![4.9, 0.1])
            .minimize(
                vec![term(&[0, 1], -25.0, |x, c| {
                    (x[0] - 5.0).squared() + x[1].squared() + c
                })],
                Some(-8.498_464_223),
            )
            .subject_to(
                0.0,
                free,
                vec![term(&[0, 1], 0.0, |x, _| x[1] - x[0].squared())],
            ),
        Problem::new("HS12", vec![0.0; 2])
            .minimize(
                vec![term(&[0, 1], -7.0, |x, c| {
                    x[0].squared() * 0.5 + x[1].squared() - x[0] * x[1] + (x[0] + x[1]) * c
                })],
                Some(-30.0),
            )
            .subject_to(
                -25.0,
                free,
                vec![term(&[0, 1], -4.0, |x, c| {
                    x[0].squared() * c - x[1].squared()
                })],
            ),
        Problem::new("HS22", vec![2.0; 2])
            .minimize(vec![term(&[0, 1], 0.0, near_2_1)], Some(1.0))
            .subject_to(-2.0, free, Term::multiples(&[-1.0, -1.0]))
            .subject_to(
                0.0,
                free,
                vec![term(&[0, 1], 0.0, |x, _| x[1] - x[0].squared())],
            ),
        Problem::new("HS43", vec![0.0; 4])
            .minimize(
                quadratic(&[1.0, 1.0, 2.0, 1.0], &[-5.0, -5.0, -21.0, 7.0]),
                Some(-44.0),
            )
            .subject_to(-8.0, free, quadratic(&[-1.0; 4], &[-1.0, 1.0, -1.0, 1.0]))
            .subject_to(
                -10.0,
                free,
                quadratic(&[-1.0, -2.0, -1.0, -2.0], &[1.0, 0.0, 0.0, 1.0]),
            )
            .subject_to(
                -5.0,
                free,
                quadratic(&[-2.0, -1.0, -1.0, 0.0], &[-2.0, 1.0, 0.0, 1.0]),
            ),
    ]
}

/// Multiples of squares and of the variables themselves.
fn quadratic(squares: &[f64], linear: &[f64]) -> Vec<Term> {
    let squares = squares.iter().enumerate();
    let squares = squares.map(|(v, &factor)| Term::new(&[v], factor, |x, c| x[0].squared() * c));
    squares.chain(Term::multiples(linear)).collect()
}
