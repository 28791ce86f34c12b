//! Problems of any size.

use super::{Problem, Term, UNBOUNDED};

/// Optimal control of −Δy + y³ = u on a grid of `size` × `size` points in the unit square, with |u| ≤ 4 and a state that is to
/// be near one with a jump: 2·size² variables, size² constraints.
pub fn control(size: usize) -> Problem {
    let points = size * size;
    let h = 1.0 / (size as f64 + 1.0);
    let (free, area) = (UNBOUNDED, h * h);
    let lower: Vec<f64> = (0..2 * points)
        .map(|v| if v < points { -free } else { -4.0 })
        .collect();
    let upper: Vec<f64> = lower.iter().map(|bound| -bound).collect();
    let mut objective = Vec::with_capacity(2 * points);
    for p in 0..points {
        let wanted = if p % size < size / 2 { 1.0 } else { -0.5 };
        // The number says where it is to be, and how much area it stands for.
        objective.push(Term::new(&[p], wanted, |y, wanted| {
            (y[0] - wanted).squared() * 0.5
        }));
        objective.push(Term::new(&[points + p], 1e-3, |u, weight| {
            u[0].squared() * weight
        }));
    }
    let mut problem = Problem::new(&format!("control {size}x{size}"), vec![0.0; 2 * points])
        .between(&lower, &upper)
        .minimize(objective, None);
    for p in 0..points {
        let mut terms = vec![
            Term::new(&[p], area, |y, area| y[0] * 4.0 + y[0].cubed() * area),
            Term::linear(points + p, -area),
        ];
        terms.extend(
            neighbours(p, size)
                .into_iter()
                .map(|q| Term::linear(q, -1.0)),
        );
        problem = problem.subject_to(0.0, 0.0, terms);
    }
    problem
}

/// A membrane on a grid of `size` × `size` points that is pressed onto an obstacle: size² variables with bounds.
pub fn obstacle(size: usize) -> Problem {
    let points = size * size;
    let h = 1.0 / (size as f64 + 1.0);
    let height = |p: usize| {
        let (x, y) = ((p / size + 1) as f64 * h, (p % size + 1) as f64 * h);
        let bumps = (9.0 * x).sin() * (9.0 * y).sin();
        bumps.max(0.0).powi(3)
    };
    let lower: Vec<f64> = (0..points).map(height).collect();
    let mut objective = Vec::with_capacity(4 * points);
    for p in 0..points {
        objective.push(Term::linear(p, h * h));
        let (i, j) = (p / size, p % size);
        for q in [
            (i + 1 < size).then(|| p + size),
            (j + 1 < size).then(|| p + 1),
        ] {
            objective.push(match q {
                Some(q) => Term::new(&[p, q], 0.5, |v, half| (v[0] - v[1]).squared() * half),
                // The edge, which is at zero.
                None => Term::new(&[p], 0.5, |v, half| v[0].squared() * half),
            });
        }
    }
    Problem::new(&format!("obstacle {size}x{size}"), vec![1.0; points])
        .between(&lower, &vec![2000.0; points])
        .minimize(objective, None)
}

/// A chain of bananas under constraints with exponentials and sines: problem 5.1 of L. Lukšan and J. Vlček, *Sparse and partially
/// separable test problems for unconstrained and equality constrained optimization* (1999), with `n` variables and n − 2
/// constraints.
pub fn chain(n: usize) -> Problem {
    let start = (0..n)
        .map(|v| if v % 2 == 0 { -1.2 } else { 1.0 })
        .collect();
    let objective = (0..n - 1).map(|v| {
        Term::new(&[v, v + 1], 100.0, |x, c| {
            (x[0].squared() - x[1]).squared() * c + (x[0] - 1.0).squared()
        })
    });
    let mut problem =
        Problem::new(&format!("chain {n}"), start).minimize(objective.collect(), None);
    for v in 0..n - 2 {
        let term = Term::new(&[v, v + 1, v + 2], -8.0, |x, c| {
            let sines = (x[1] - x[2]).sin() * (x[1] + x[2]).sin();
            let exponential = x[0] * (x[0] - x[1]).exp();
            x[1].cubed() * 3.0 + x[2] * 2.0 + sines + x[1] * 4.0 - exponential + c
        });
        problem = problem.subject_to(0.0, 0.0, vec![term]);
    }
    problem
}

/// A pendulum that is swung up by a torque of at most 1, on `steps` steps of the trapezoidal rule: 3·(steps + 1) variables.
pub fn pendulum(steps: usize) -> Problem {
    let h = 6.0 / steps as f64;
    let [angle, speed, torque] = [0, 1, 2].map(|kind| move |step: usize| 3 * step + kind);
    let n = 3 * (steps + 1);
    let (mut lower, mut upper) = (vec![-UNBOUNDED; n], vec![UNBOUNDED; n]);
    for step in 0..=steps {
        (lower[torque(step)], upper[torque(step)]) = (-1.0, 1.0);
    }
    for (v, value) in [(angle(0), 0.0), (speed(0), 0.0)] {
        (lower[v], upper[v]) = (value, value);
    }
    let mut start = vec![0.0; n];
    (0..=steps)
        .for_each(|step| start[angle(step)] = std::f64::consts::PI * step as f64 / steps as f64);
    let mut objective: Vec<Term> = (0..=steps)
        .map(|step| {
            Term::new(&[torque(step)], 0.5 * h, |u, weight| {
                u[0].squared() * weight
            })
        })
        .collect();
    objective.push(Term::new(
        &[angle(steps), speed(steps)],
        100.0,
        |x, weight| ((x[0] - std::f64::consts::PI).squared() + x[1].squared()) * weight,
    ));
    let mut problem = Problem::new(&format!("pendulum {steps}"), start)
        .between(&lower, &upper)
        .minimize(objective, None);
    for step in 0..steps {
        let next = step + 1;
        let half = 0.5 * h;
        let of_angle = vec![
            Term::linear(angle(next), 1.0),
            Term::linear(angle(step), -1.0),
            Term::linear(speed(next), -half),
            Term::linear(speed(step), -half),
        ];
        let pull = |at| {
            Term::new(&[angle(at), torque(at)], half, |x, half| {
                (x[0].sin() - x[1]) * half
            })
        };
        let of_speed = vec![
            Term::linear(speed(next), 1.0),
            Term::linear(speed(step), -1.0),
            pull(next),
            pull(step),
        ];
        problem = problem
            .subject_to(0.0, 0.0, of_angle)
            .subject_to(0.0, 0.0, of_speed);
    }
    problem
}

/// GENROSE of CUTE, the Rosenbrock function of `n` variables in a row without constraints, from where Newton's method takes a number
/// of iterations in proportion to `n`. In the large set of POUNCE.
pub fn rosenbrock(n: usize) -> Problem {
    let start = (1..=n).map(|v| v as f64 / (n as f64 + 1.0)).collect();
    let mut terms: Vec<Term> = (1..n)
        .map(|v| {
            Term::new(&[v - 1, v], 100.0, |x, c| {
                (x[1] - x[0].squared()).squared() * c + (x[1] - 1.0).squared()
            })
        })
        .collect();
    terms.push(Term::new(&[0], 1.0, |x, one| x[0] * 0.0 + one));
    Problem::new(&format!("rosenbrock {n}"), start).minimize(terms, Some(1.0))
}

/// Bratu's equation −u″ = eᵘ on the unit interval, at `n` points of which the two at its ends are zero: n − 2 equations, and
/// nothing to minimize. In the large set of POUNCE.
pub fn bratu(n: usize) -> Problem {
    let h = 1.0 / (n as f64 + 1.0);
    let mut bounds = vec![UNBOUNDED; n];
    (bounds[0], bounds[n - 1]) = (0.0, 0.0);
    let lower: Vec<f64> = bounds.iter().map(|bound| -bound).collect();
    let problem = Problem::new(&format!("bratu {n}"), vec![0.0; n])
        .between(&lower, &bounds)
        .minimize(Vec::new(), Some(0.0));
    (1..n - 1).fold(problem, |problem, v| {
        let residual = Term::new(&[v - 1, v, v + 1], 1.0 / (h * h), |u, c| {
            (u[1] * 2.0 - u[0] - u[2]) * c - u[1].exp()
        });
        problem.subject_to(0.0, 0.0, vec![residual])
    })
}

/// Linear-quadratic control of y′ = u − y by `steps` steps of Euler's method, from y = 0 towards 1: 2·steps + 1 variables,
/// steps + 1 equations. In the large set of POUNCE.
pub fn regulator(steps: usize) -> Problem {
    let h = 1.0 / steps as f64;
    let input = |step: usize| steps + 1 + step;
    let states = (0..=steps).map(|y| Term::new(&[y], h, |y, h| (y[0] - 1.0).squared() * h));
    let inputs = (0..steps).map(|step| {
        Term::new(&[input(step)], 0.01 * h, |u, weight| {
            u[0].squared() * weight
        })
    });
    let problem = Problem::new(&format!("regulator {steps}"), vec![0.0; 2 * steps + 1])
        .minimize(states.chain(inputs).collect(), None)
        .subject_to(0.0, 0.0, vec![Term::linear(0, 1.0)]);
    (0..steps).fold(problem, |problem, step| {
        let terms = vec![
            Term::linear(step + 1, 1.0),
            Term::linear(step, h - 1.0),
            Term::linear(input(step), -h),
        ];
        problem.subject_to(0.0, 0.0, terms)
    })
}

/// Control of −Δu = f on a grid of `size` × `size` points in the unit square, towards sin πx · sin πy: 2·size² variables, size²
/// equations, quadratic. In the large set of POUNCE.
pub fn poisson(size: usize) -> Problem {
    let points = size * size;
    let h = 1.0 / (size as f64 + 1.0);
    let sine = |k: usize| ((k + 1) as f64 * h * std::f64::consts::PI).sin();
    let mut terms = Vec::with_capacity(3 * points);
    for p in 0..points {
        let wanted = sine(p / size) * sine(p % size);
        terms.push(Term::new(&[p], 0.5 * h * h, |u, weight| {
            u[0].squared() * weight
        }));
        terms.push(Term::linear(p, -h * h * wanted));
        terms.push(Term::new(&[points + p], 0.005 * h * h, |f, weight| {
            f[0].squared() * weight
        }));
    }
    let problem = Problem::new(&format!("poisson {size}x{size}"), vec![0.0; 2 * points])
        .minimize(terms, None);
    (0..points).fold(problem, |problem, p| {
        let mut terms = vec![
            Term::linear(p, 4.0 / (h * h)),
            Term::linear(points + p, -1.0),
        ];
        let neighbours = neighbours(p, size).into_iter();
        terms.extend(neighbours.map(|q| Term::linear(q, -1.0 / (h * h))));
        problem.subject_to(0.0, 0.0, terms)
    })
}

/// A convex quadratic program with a tridiagonal Hessian: `n` variables from 0 to 10, and as many sums of three neighbours, in a
/// ring, that are at most 2.5. In the large set of POUNCE.
pub fn ring(n: usize) -> Problem {
    let mut terms: Vec<Term> = (0..n)
        .map(|v| Term::new(&[v], 2.0, |x, c| x[0].squared() * c - x[0]))
        .collect();
    terms.extend((1..n).map(|v| Term::new(&[v - 1, v], -1.0, |x, c| x[0] * x[1] * c)));
    let problem = Problem::new(&format!("ring {n}"), vec![0.5; n])
        .between(&vec![0.0; n], &vec![10.0; n])
        .minimize(terms, None);
    (0..n).fold(problem, |problem, v| {
        let sum = (0..3).map(|k| Term::linear((v + k) % n, 1.0)).collect();
        problem.subject_to(-UNBOUNDED, 2.5, sum)
    })
}

/// The surface of least area above the unit square with a given edge, by linear elements on a grid of `size` × `size` points,
/// those of the edge being fixed variables.
pub fn minimal_surface(size: usize) -> Problem {
    let h = 1.0 / (size as f64 - 1.0);
    let height = |p: usize| {
        let (x, y) = ((p / size) as f64 * h, (p % size) as f64 * h);
        (1.0 + (2.0 * x - 1.0).powi(2) - (3.0 * y).sin()) * 0.7
    };
    let is_edge = |k: usize| k == 0 || k + 1 == size;
    let (mut lower, mut upper) = (vec![-UNBOUNDED; size * size], vec![UNBOUNDED; size * size]);
    let mut start = vec![0.0; size * size];
    for p in (0..size * size).filter(|p| is_edge(p / size) || is_edge(p % size)) {
        (lower[p], upper[p], start[p]) = (height(p), height(p), height(p));
    }
    let mut triangles = Vec::new();
    for p in (0..size * size).filter(|p| p / size + 1 < size && p % size + 1 < size) {
        // Each square is cut into two triangles; of each the corner at the right angle comes first.
        for corners in [[p, p + 1, p + size], [p + size + 1, p + 1, p + size]] {
            triangles.push(Term::new(&corners, h, |u, h| {
                let slopes = (u[1] - u[0]).squared() + (u[2] - u[0]).squared();
                (slopes * (1.0 / (h * h)) + 1.0).sqrt() * (0.5 * h * h)
            }));
        }
    }
    Problem::new(&format!("minimal surface {size}x{size}"), start)
        .between(&lower, &upper)
        .minimize(triangles, None)
}

/// Least squares under linear equations: `n` variables, 2·n observations of three variables that are at most 40 apart, and n/4
/// equations of three such variables.
pub fn least_squares(n: usize) -> Problem {
    // Places and numbers without a pattern, the same each time: multiplication by a number mod a prime.
    let mut state = 1u64;
    let mut draw = move |below: usize| {
        state = state * 48_271 % 2_147_483_647;
        state as usize % below
    };
    let mut three = |at: usize| {
        let first = at.min(n - 40);
        [
            first + draw(13),
            first + 13 + draw(13),
            first + 26 + draw(14),
        ]
    };
    let observations = (0..2 * n).map(|k| {
        let observed = f64::from(k as u32 % 17) - 8.0;
        Term::new(&three(k / 2), observed, |x, observed| {
            (x[0] - x[1] * 0.5 + x[2] * 2.0 - observed).squared() * 0.5
        })
    });
    let problem = Problem::new(&format!("least squares {n}"), vec![0.0; n])
        .minimize(observations.collect(), None);
    (0..n / 4).fold(problem, |problem, k| {
        let terms = three(4 * k).map(|v| Term::linear(v, 1.0)).into();
        problem.subject_to(1.0, 1.0, terms)
    })
}

/// The points of a grid of `size` × `size` beside point `p`.
fn neighbours(p: usize, size: usize) -> Vec<usize> {
    let (i, j) = (p / size, p % size);
    let neighbours = [
        (i > 0).then(|| p - size),
        (i + 1 < size).then(|| p + size),
        (j > 0).then(|| p - 1),
        (j + 1 < size).then(|| p + 1),
    ];
    neighbours.into_iter().flatten().collect()
}
