//! The entry points, called as Fortran programs call them.

#![allow(missing_docs)]

mod arguments;
mod arrays;
mod random_calls;
mod systems;

use luge_hsl::{ma57ad_, ma57bd_, ma57cd_, ma57ed_, ma57id_};

/// A caller with its arrays.
#[derive(Clone)]
struct Caller {
    n: i32,
    irn: Vec<i32>,
    jcn: Vec<i32>,
    cntl: [f64; 5],
    icntl: [i32; 20],
    keep: Vec<i32>,
    fact: Vec<f64>,
    ifact: Vec<i32>,
    info: [i32; 40],
    rinfo: [f64; 20],
}

impl Caller {
    fn new(n: usize, triplets: &[(usize, usize)]) -> Self {
        let (n, ne) = (n as i32, triplets.len());
        let mut caller = Self {
            n,
            irn: triplets.iter().map(|&(i, _)| i as i32 + 1).collect(),
            jcn: triplets.iter().map(|&(_, j)| j as i32 + 1).collect(),
            cntl: [f64::NAN; 5],
            icntl: [-7; 20],
            keep: vec![0; 5 * n as usize + ne + ne.max(n as usize) + 42],
            fact: Vec::new(),
            ifact: Vec::new(),
            info: [-77; 40],
            rinfo: [f64::NAN; 20],
        };
        // SAFETY: arrays of the lengths that MA57 has.
        unsafe { ma57id_(caller.cntl.as_mut_ptr(), caller.icntl.as_mut_ptr()) };
        caller
    }

    /// INFO of that number, from 1.
    fn info(&self, number: usize) -> i32 {
        self.info[number - 1]
    }

    /// INFO(1).
    fn analyze(&mut self) -> i32 {
        let (ne, lkeep) = (self.irn.len() as i32, self.keep.len() as i32);
        let mut iwork = vec![0; 5 * self.n.max(0) as usize];
        // SAFETY: arrays of the lengths that are given.
        unsafe {
            ma57ad_(
                &self.n,
                &ne,
                self.irn.as_ptr(),
                self.jcn.as_ptr(),
                &lkeep,
                self.keep.as_mut_ptr(),
                iwork.as_mut_ptr(),
                self.icntl.as_ptr(),
                self.info.as_mut_ptr(),
                self.rinfo.as_mut_ptr(),
            );
        }
        if self.info[0] >= 0 {
            self.fact = vec![f64::NAN; self.info(9) as usize];
            self.ifact = vec![-1; self.info(10) as usize];
        }
        self.info[0]
    }

    fn factorize(&mut self, a: &[f64]) -> i32 {
        let ne = self.irn.len() as i32;
        assert_eq!(a.len(), ne as usize);
        let lengths = [self.fact.len(), self.ifact.len(), self.keep.len()].map(|len| len as i32);
        // SAFETY: arrays of the lengths that are given.
        unsafe {
            ma57bd_(
                &self.n,
                &ne,
                a.as_ptr(),
                self.fact.as_mut_ptr(),
                &lengths[0],
                self.ifact.as_mut_ptr(),
                &lengths[1],
                &lengths[2],
                self.keep.as_ptr(),
                std::ptr::null_mut(),
                self.icntl.as_ptr(),
                self.cntl.as_ptr(),
                self.info.as_mut_ptr(),
                self.rinfo.as_mut_ptr(),
            );
        }
        self.info[0]
    }

    fn solve_job(&mut self, job: i32, rhs: &mut [f64], nrhs: i32, lrhs: i32) -> i32 {
        let lengths = [self.fact.len(), self.ifact.len()].map(|len| len as i32);
        let lwork = self.n * nrhs;
        let mut work = vec![f64::NAN; lwork.max(0) as usize];
        // SAFETY: arrays of the lengths that are given.
        unsafe {
            ma57cd_(
                &job,
                &self.n,
                self.fact.as_ptr(),
                &lengths[0],
                self.ifact.as_ptr(),
                &lengths[1],
                &nrhs,
                rhs.as_mut_ptr(),
                &lrhs,
                work.as_mut_ptr(),
                &lwork,
                std::ptr::null_mut(),
                self.icntl.as_ptr(),
                self.info.as_mut_ptr(),
            );
        }
        self.info[0]
    }

    /// Solves for one right-hand side.
    fn solve(&mut self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        assert_eq!(self.solve_job(1, &mut x, 1, self.n), 0);
        x
    }

    /// The matrix by rows, both triangles.
    fn dense(&self, a: &[f64]) -> Vec<Vec<f64>> {
        let n = self.n as usize;
        let mut dense = vec![vec![0.0; n]; n];
        for ((&i, &j), &v) in self.irn.iter().zip(&self.jcn).zip(a) {
            let in_range = |k: i32| (1..=self.n).contains(&k);
            if !(in_range(i) && in_range(j)) {
                continue;
            }
            let (i, j) = (i as usize - 1, j as usize - 1);
            dense[i][j] += v;
            if i != j {
                dense[j][i] += v;
            }
        }
        dense
    }
}

fn product(dense: &[Vec<f64>], x: &[f64]) -> Vec<f64> {
    let row = |row: &Vec<f64>| row.iter().zip(x).map(|(a, x)| a * x).sum();
    dense.iter().map(row).collect()
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |most: f64, v| most.max(v.abs()))
}

/// ‖b - A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞); NaN counts as infinite.
fn backward_error(dense: &[Vec<f64>], x: &[f64], b: &[f64]) -> f64 {
    let ax = product(dense, x);
    let residual: Vec<f64> = b.iter().zip(&ax).map(|(b, ax)| b - ax).collect();
    if residual.iter().any(|r| r.is_nan()) {
        return f64::INFINITY;
    }
    let norm = dense
        .iter()
        .map(|row| row.iter().map(|v| v.abs()).sum::<f64>());
    largest(&residual) / (norm.fold(0.0, f64::max) * largest(x) + largest(b))
}

/// Numbers of positive and negative eigenvalues of a dense symmetric matrix, by Jacobi's rotations; those below `zero` times
/// the largest are none.
fn inertia(dense: &[Vec<f64>], zero: f64) -> [usize; 2] {
    let (mut a, n) = (dense.to_vec(), dense.len());
    for _ in 0..60 {
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let (c, s) = (1.0 / t.hypot(1.0), t / t.hypot(1.0));
                let turn = |v: &mut f64, w: &mut f64| (*v, *w) = (c * *v - s * *w, s * *v + c * *w);
                for row in &mut a {
                    let (first, last) = row.split_at_mut(q);
                    turn(&mut first[p], &mut last[0]);
                }
                let (first, last) = a.split_at_mut(q);
                first[p]
                    .iter_mut()
                    .zip(&mut last[0])
                    .for_each(|(v, w)| turn(v, w));
            }
        }
    }
    let eigenvalues: Vec<f64> = (0..n).map(|i| a[i][i]).collect();
    let below = zero * largest(&eigenvalues);
    let count = |is: &dyn Fn(f64) -> bool| eigenvalues.iter().filter(|&&v| is(v)).count();
    [count(&|v| v > below), count(&|v| v < -below)]
}

#[test]
fn the_reference_notices_wrong_answers() {
    let dense = vec![vec![2.0, 1.0], vec![1.0, -3.0]];
    assert_eq!(backward_error(&dense, &[1.0, 1.0], &[3.0, -2.0]), 0.0);
    assert!(backward_error(&dense, &[1.0, 1.0 + 1e-9], &[3.0, -2.0]) > 1e-11);
    assert_eq!(
        backward_error(&dense, &[f64::NAN, 1.0], &[3.0, -2.0]),
        f64::INFINITY
    );
    assert_eq!(inertia(&dense, 1e-12), [1, 1]);
    assert_eq!(inertia(&[vec![1.0, 1.0], vec![1.0, 1.0]], 1e-12), [1, 0]);
    assert_eq!(inertia(&[vec![0.0, 2.0], vec![2.0, 0.0]], 1e-12), [1, 1]);
}

/// Copies FACT or IFACT as Ipopt does it: the old length is read from INFO(2).
fn extend(caller: &mut Caller, ic: i32, longer: usize) -> i32 {
    let new = longer as i32;
    let mut fact = vec![f64::NAN; if ic == 0 { longer } else { 1 }];
    let mut ifact = vec![-1; if ic == 0 { 1 } else { longer }];
    let info = caller.info.as_mut_ptr();
    // SAFETY: arrays of the lengths that are given, and INFO.
    unsafe {
        ma57ed_(
            &caller.n,
            &ic,
            caller.keep.as_ptr(),
            caller.fact.as_ptr(),
            info.add(1),
            fact.as_mut_ptr(),
            &new,
            caller.ifact.as_ptr(),
            info.add(1),
            ifact.as_mut_ptr(),
            &new,
            info,
        );
    }
    if caller.info[0] == 0 {
        if ic == 0 {
            caller.fact = fact;
        } else {
            caller.ifact = ifact;
        }
    }
    caller.info[0]
}
