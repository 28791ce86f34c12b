//! Optimization problems for tests and measurements: [small ones](small) with known optima and [families](families) of any size,
//! among them those that POUNCE itself is tested and measured with.
//!
//! Objective and constraints are sums of functions of a few variables ([`Term`]), which are evaluated with their first and
//! second derivatives ([`Jet`]).

pub mod families;
pub mod small;

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

    /// The square root.
    pub fn sqrt(self) -> Self {
        let root = self.value.sqrt();
        self.chain([root, 0.5 / root, -0.25 / (root * self.value)])
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

    /// Multiples of variables from the first on, those by zero left out.
    fn multiples(factors: &[f64]) -> Vec<Self> {
        let factors = factors.iter().enumerate();
        let factors = factors.filter(|(_, factor)| **factor != 0.0);
        factors
            .map(|(variable, &factor)| Self::linear(variable, factor))
            .collect()
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
