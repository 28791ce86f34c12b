//! Optimization problems for tests and measurements: small ones with known optima, from W. Hock and K. Schittkowski, *Test
//! Examples for Nonlinear Programming Codes* (Lecture Notes in Economics and Mathematical Systems 187, 1981), and families of
//! any size.
//!
//! Objective and constraints are sums of functions of a few variables ([`Term`]), which are evaluated with their first and
//! second derivatives ([`Jet`]).

use std::cell::RefCell;
use std::ops::{Add, Mul, Neg, Sub};
use std::rc::Rc;

use pounce_common::types::{Index, Number};
use pounce_nlp::tnlp::{
    BoundsInfo, IndexStyle, IpoptCq, IpoptData, NlpInfo, Solution, SparsityRequest, StartingPoint,
    TNLP,
};

/// Variables of a term, at most.
const MOST: usize = 4;

/// A bound that there is not.
pub const UNBOUNDED: f64 = 2e19;

/// A number with its first and second derivatives by the variables of a term.
#[derive(Debug, Clone, Copy)]
pub struct Jet {
    value: f64,
    gradient: [f64; MOST],
    hessian: [[f64; MOST]; MOST],
}

impl Jet {
    fn constant(value: f64) -> Self {
        Self {
            value,
            gradient: [0.0; MOST],
            hessian: [[0.0; MOST]; MOST],
        }
    }

    fn variable(value: f64, at: usize) -> Self {
        let mut jet = Self::constant(value);
        jet.gradient[at] = 1.0;
        jet
    }

    /// f(x), given f, f′ and f″ there.
    fn chain(self, [f, first, second]: [f64; 3]) -> Self {
        let mut jet = Self::constant(f);
        for i in 0..MOST {
            jet.gradient[i] = first * self.gradient[i];
            for j in 0..MOST {
                jet.hessian[i][j] =
                    first * self.hessian[i][j] + second * self.gradient[i] * self.gradient[j];
            }
        }
        jet
    }

    /// x²
    pub fn squared(self) -> Self {
        let x = self.value;
        self.chain([x * x, 2.0 * x, 2.0])
    }

    /// x³
    pub fn cubed(self) -> Self {
        let x = self.value;
        self.chain([x * x * x, 3.0 * x * x, 6.0 * x])
    }

    /// 1/x
    pub fn reciprocal(self) -> Self {
        let y = 1.0 / self.value;
        self.chain([y, -y * y, 2.0 * y * y * y])
    }

    /// eˣ
    pub fn exp(self) -> Self {
        self.chain([self.value.exp(); 3])
    }

    /// The natural logarithm.
    pub fn ln(self) -> Self {
        let y = 1.0 / self.value;
        self.chain([self.value.ln(), y, -y * y])
    }

    /// The sine.
    pub fn sin(self) -> Self {
        let (sin, cos) = self.value.sin_cos();
        self.chain([sin, cos, -sin])
    }
}

impl Add for Jet {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self.value += other.value;
        for i in 0..MOST {
            self.gradient[i] += other.gradient[i];
            for j in 0..MOST {
                self.hessian[i][j] += other.hessian[i][j];
            }
        }
        self
    }
}

impl Mul for Jet {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let (a, b) = (&self, &other);
        let mut jet = Self::constant(a.value * b.value);
        for i in 0..MOST {
            jet.gradient[i] = a.gradient[i] * b.value + a.value * b.gradient[i];
            for j in 0..MOST {
                jet.hessian[i][j] = a.hessian[i][j] * b.value
                    + a.gradient[i] * b.gradient[j]
                    + a.gradient[j] * b.gradient[i]
                    + a.value * b.hessian[i][j];
            }
        }
        jet
    }
}

impl Neg for Jet {
    type Output = Self;
    fn neg(self) -> Self {
        self * -1.0
    }
}

impl Sub for Jet {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Add<f64> for Jet {
    type Output = Self;
    fn add(mut self, other: f64) -> Self {
        self.value += other;
        self
    }
}

impl Sub<f64> for Jet {
    type Output = Self;
    fn sub(self, other: f64) -> Self {
        self + -other
    }
}

impl Mul<f64> for Jet {
    type Output = Self;
    fn mul(self, other: f64) -> Self {
        self * Self::constant(other)
    }
}

/// A function of some variables, with a number that is its own.
#[derive(Clone)]
pub struct Term {
    variables: Vec<usize>,
    number: f64,
    function: fn(&[Jet], f64) -> Jet,
}

impl Term {
    /// # Panics
    ///
    /// If there are more than four variables.
    fn new(variables: &[usize], number: f64, function: fn(&[Jet], f64) -> Jet) -> Self {
        assert!(variables.len() <= MOST, "a term of a few variables");
        Self {
            variables: variables.to_vec(),
            number,
            function,
        }
    }

    /// A multiple of a variable.
    fn linear(variable: usize, factor: f64) -> Self {
        Self::new(&[variable], factor, |x, factor| x[0] * factor)
    }

    fn at(&self, x: &[f64]) -> Jet {
        let mut jets = [Jet::constant(0.0); MOST];
        for (at, (jet, &v)) in jets.iter_mut().zip(&self.variables).enumerate() {
            *jet = Jet::variable(x[v], at);
        }
        (self.function)(&jets[..self.variables.len()], self.number)
    }

    /// The places of its second derivatives in the lower triangle: variables with their numbers in the term.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let count = self.variables.len();
        (0..count).flat_map(move |i| (0..=i).map(move |j| (i, j)))
    }
}

/// A constraint, or the objective without its bounds.
#[derive(Clone, Default)]
pub struct Sum {
    bounds: [f64; 2],
    terms: Vec<Term>,
}

impl Sum {
    fn at(&self, x: &[f64]) -> f64 {
        self.terms.iter().map(|term| term.at(x).value).sum()
    }
}

/// Minimize a function within bounds and under constraints.
#[derive(Clone, Default)]
pub struct Problem {
    /// What it is called.
    pub name: String,
    start: Vec<f64>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    objective: Sum,
    constraints: Vec<Sum>,
    /// The smallest value of the objective, if it is known.
    pub optimum: Option<f64>,
}

impl Problem {
    /// With so many variables, without bounds.
    fn new(name: &str, start: Vec<f64>) -> Self {
        let n = start.len();
        Self {
            name: name.to_owned(),
            start,
            lower: vec![-UNBOUNDED; n],
            upper: vec![UNBOUNDED; n],
            ..Self::default()
        }
    }

    fn between(mut self, lower: &[f64], upper: &[f64]) -> Self {
        self.lower = lower.to_vec();
        self.upper = upper.to_vec();
        self
    }

    fn minimize(mut self, terms: Vec<Term>, optimum: Option<f64>) -> Self {
        self.objective.terms = terms;
        self.optimum = optimum;
        self
    }

    fn subject_to(mut self, lower: f64, upper: f64, terms: Vec<Term>) -> Self {
        let bounds = [lower, upper];
        self.constraints.push(Sum { bounds, terms });
        self
    }

    /// Number of variables.
    pub fn n(&self) -> usize {
        self.start.len()
    }

    /// Number of constraints.
    pub fn m(&self) -> usize {
        self.constraints.len()
    }

    fn sums(&self) -> impl Iterator<Item = &Sum> {
        std::iter::once(&self.objective).chain(&self.constraints)
    }
}

/// What a solver ended with: the variables and the objective.
pub type End = Rc<RefCell<Option<(Vec<f64>, f64)>>>;

/// A problem as POUNCE takes it.
pub struct Posed {
    problem: Problem,
    end: End,
}

impl Posed {
    /// With what the solver ends with.
    pub fn new(problem: Problem) -> (Self, End) {
        let end = End::default();
        let posed = Self {
            problem,
            end: Rc::clone(&end),
        };
        (posed, end)
    }
}

impl TNLP for Posed {
    fn get_nlp_info(&mut self) -> Option<NlpInfo> {
        let problem = &self.problem;
        let of_constraints = problem.constraints.iter().flat_map(|sum| &sum.terms);
        let first: usize = of_constraints.map(|term| term.variables.len()).sum();
        let all = problem.sums().flat_map(|sum| &sum.terms);
        let second: usize = all.map(|term| term.pairs().count()).sum();
        Some(NlpInfo {
            n: problem.n() as Index,
            m: problem.m() as Index,
            nnz_jac_g: first as Index,
            nnz_h_lag: second as Index,
            index_style: IndexStyle::C,
        })
    }

    fn get_bounds_info(&mut self, b: BoundsInfo<'_>) -> bool {
        b.x_l.copy_from_slice(&self.problem.lower);
        b.x_u.copy_from_slice(&self.problem.upper);
        for (at, sum) in self.problem.constraints.iter().enumerate() {
            (b.g_l[at], b.g_u[at]) = (sum.bounds[0], sum.bounds[1]);
        }
        true
    }

    fn get_starting_point(&mut self, sp: StartingPoint<'_>) -> bool {
        sp.x.copy_from_slice(&self.problem.start);
        true
    }

    fn eval_f(&mut self, x: &[Number], _new_x: bool) -> Option<Number> {
        Some(self.problem.objective.at(x))
    }

    fn eval_grad_f(&mut self, x: &[Number], _new_x: bool, grad_f: &mut [Number]) -> bool {
        grad_f.fill(0.0);
        for term in &self.problem.objective.terms {
            let jet = term.at(x);
            for (&v, &slope) in term.variables.iter().zip(&jet.gradient) {
                grad_f[v] += slope;
            }
        }
        true
    }

    fn eval_g(&mut self, x: &[Number], _new_x: bool, g: &mut [Number]) -> bool {
        for (g, sum) in g.iter_mut().zip(&self.problem.constraints) {
            *g = sum.at(x);
        }
        true
    }

    fn eval_jac_g(
        &mut self,
        x: Option<&[Number]>,
        _new_x: bool,
        mode: SparsityRequest<'_>,
    ) -> bool {
        let constraints = self.problem.constraints.iter().enumerate();
        let terms = constraints.flat_map(|(row, sum)| sum.terms.iter().map(move |t| (row, t)));
        match (mode, x) {
            (SparsityRequest::Structure { irow, jcol }, _) => {
                let places =
                    terms.flat_map(|(row, term)| term.variables.iter().map(move |&v| (row, v)));
                for (at, (row, v)) in places.enumerate() {
                    (irow[at], jcol[at]) = (row as Index, v as Index);
                }
                true
            }
            (SparsityRequest::Values { values }, Some(x)) => {
                let slopes = terms.flat_map(|(_, term)| {
                    let jet = term.at(x);
                    (0..term.variables.len()).map(move |at| jet.gradient[at])
                });
                values.iter_mut().zip(slopes).for_each(|(to, v)| *to = v);
                true
            }
            (SparsityRequest::Values { .. }, None) => false,
        }
    }

    fn eval_h(
        &mut self,
        x: Option<&[Number]>,
        _new_x: bool,
        obj_factor: Number,
        lambda: Option<&[Number]>,
        _new_lambda: bool,
        mode: SparsityRequest<'_>,
    ) -> bool {
        let sums = self.problem.sums().enumerate();
        let terms = sums.flat_map(|(number, sum)| sum.terms.iter().map(move |t| (number, t)));
        match (mode, x) {
            (SparsityRequest::Structure { irow, jcol }, _) => {
                let places = terms.flat_map(|(_, term)| {
                    let place = |(i, j)| (term.variables[i], term.variables[j]);
                    term.pairs().map(place)
                });
                for (at, (a, b)) in places.enumerate() {
                    (irow[at], jcol[at]) = (a.max(b) as Index, a.min(b) as Index);
                }
                true
            }
            (SparsityRequest::Values { values }, Some(x)) => {
                let mut next = values.iter_mut();
                for (number, term) in terms {
                    let factor = match (number, lambda) {
                        (0, _) => obj_factor,
                        (row, Some(lambda)) => lambda[row - 1],
                        (_, None) => 0.0,
                    };
                    let jet = term.at(x);
                    for ((i, j), to) in term.pairs().zip(next.by_ref()) {
                        *to = factor * jet.hessian[i][j];
                    }
                }
                true
            }
            (SparsityRequest::Values { .. }, None) => false,
        }
    }

    fn finalize_solution(&mut self, sol: Solution<'_>, _data: &IpoptData, _cq: &IpoptCq) {
        *self.end.borrow_mut() = Some((sol.x.to_vec(), sol.obj_value));
    }
}

/// Problems of Hock and Schittkowski, with their optima.
pub fn small() -> Vec<Problem> {
    let free = UNBOUNDED;
    let term = Term::new;
    let linear = Term::linear;
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
        Problem::new("HS21", vec![-1.0, -1.0])
            .between(&[2.0, -50.0], &[50.0, 50.0])
            .minimize(
                vec![term(&[0, 1], -100.0, |x, c| {
                    x[0].squared() * 0.01 + x[1].squared() + c
                })],
                Some(-99.96),
            )
            .subject_to(10.0, free, vec![linear(0, 10.0), linear(1, -1.0)]),
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
            .subject_to(-free, 5.0, of_factors(&[1.0, 2.0, 1.0, 1.0]))
            .subject_to(-free, 4.0, of_factors(&[3.0, 1.0, 2.0, -1.0]))
            .subject_to(1.5, free, of_factors(&[0.0, 1.0, 4.0, 0.0])),
    ]
}

/// Multiples of the first variables.
fn of_factors(factors: &[f64]) -> Vec<Term> {
    let factors = factors.iter().enumerate();
    let factors = factors.filter(|(_, factor)| **factor != 0.0);
    factors
        .map(|(v, &factor)| Term::linear(v, factor))
        .collect()
}

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
        let (i, j) = (p / size, p % size);
        let neighbours = [
            (i > 0).then(|| p - size),
            (i + 1 < size).then(|| p + size),
            (j > 0).then(|| p - 1),
            (j + 1 < size).then(|| p + 1),
        ];
        terms.extend(
            neighbours
                .into_iter()
                .flatten()
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
