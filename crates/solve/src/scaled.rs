//! Between A·x = b and the permuted, scaled system B·y = c that was factorized.
//!
//! With B = P·Dr·A·Dc·Q: c = P·Dr·b and x = Dc·Q·y; for the transpose c = Qᵀ·Dc·b and x = Dr·Pᵀ·y.
//! The factors of a scaling may span hundreds of orders of magnitude, so products are formed with
//! their exponents kept apart, both parts of a complex number with one exponent, and c is brought to a certain largest entry by a power of two, which
//! leaves `f32` factors usable for any right-hand side.

use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{ColPerm, Permutation, RealScalar, RowPerm, Scalar, Scaling};

use crate::extended::{Extended, shift, split};

/// A right-hand side or solution of B: `values · 2^exponent`.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalized<T> {
    /// The entries; the largest is near the fourth root of the largest number, unless all are zero.
    pub values: Vec<T>,
    /// Common power of two.
    pub exponent: i32,
}

/// The largest entry is brought near 2 to this power, a quarter of the range: entries that are smaller
/// by hundreds of orders of magnitude do not become subnormal, which would cost their accuracy and a
/// hundred cycles for each product, and a solution may still grow.
fn headroom<T: Scalar>() -> i32 {
    T::Real::max_value().to_f64().log2() as i32 / 4
}

impl<T: Scalar> Normalized<T> {
    /// The same, smaller by a power of two that takes three quarters of the range of `T`: for a system whose solution
    /// overflowed.
    pub fn lowered(&self) -> Self {
        self.lowered_within::<T>()
    }

    /// As [`lowered`](Self::lowered), by three quarters of the range of `F`.
    pub fn lowered_within<F: Scalar>(&self) -> Self {
        let down = 3 * headroom::<F>();
        let lower = |&v: &T| T::narrow(shift(v.widen(), -down));
        Self {
            values: self.values.iter().map(lower).collect(),
            exponent: self.exponent + down,
        }
    }
}

fn enter<T: Scalar>(
    perm: &Permutation,
    factors: &[f64],
    part: impl Fn(usize) -> (T::Wide, i32),
    headroom: i32,
) -> Normalized<T> {
    let products: Vec<(T::Wide, i32)> = perm
        .as_slice()
        .iter()
        .map(|&old| {
            let (value, e) = part(old as usize);
            let (factor, f) = split(factors[old as usize]);
            (value.scaled_by(factor), e + f)
        })
        .collect();
    let exponent = products
        .iter()
        .filter(|(m, _)| !m.is_zero())
        .map(|&(_, e)| e)
        .max()
        .map_or(0, |largest| largest - headroom);
    let values = products
        .into_iter()
        .map(|(m, e)| T::narrow(shift(m, e - exponent)))
        .collect();
    Normalized { values, exponent }
}

fn leave<T: Scalar>(
    perm: &Permutation,
    factors: &[f64],
    y: &Normalized<T>,
    mut set: impl FnMut(usize, T::Wide, i32),
) {
    for (&old, &value) in perm.as_slice().iter().zip(&y.values) {
        let (m, e) = split(value.widen());
        let (factor, f) = split(factors[old as usize]);
        set(old as usize, m.scaled_by(factor), e + f + y.exponent);
    }
}

fn leave_wide<T: Scalar>(perm: &Permutation, factors: &[f64], y: &Normalized<T>) -> Vec<T::Wide> {
    let mut x = vec![T::Wide::zero(); y.values.len()];
    leave(perm, factors, y, |at, m, e| x[at] = shift(m, e));
    x
}

/// The right-hand side of B for one of A in numbers of any size, with the permutation and the factors of the side that it
/// enters by. Its values are in the range of `R`.
///
/// # Panics
///
/// If a length differs from that of the permutation.
#[track_caller]
pub fn enter_extended<R: RealScalar, W: Scalar<Real = f64, Wide = W>>(
    perm: &Permutation,
    factors: &[f64],
    b: &[Extended<W>],
) -> Normalized<W> {
    assert_eq!(perm.len(), b.len(), "right-hand side of another length");
    enter(perm, factors, |at| b[at].parts(), headroom::<R>())
}

/// The solution of A for solution `y` of B, with the permutation and the factors of the side that it leaves by.
///
/// # Panics
///
/// If a length differs from that of the permutation.
#[track_caller]
pub fn leave_extended<W: Scalar<Real = f64, Wide = W>>(
    perm: &Permutation,
    factors: &[f64],
    y: &Normalized<W>,
) -> Vec<Extended<W>> {
    assert_eq!(perm.len(), y.values.len(), "solution of another length");
    let mut x = vec![Extended::of(W::zero()); y.values.len()];
    leave(perm, factors, y, |at, m, e| x[at] = Extended::new(m, e));
    x
}

/// The right-hand side of B for right-hand side `b` of A.
///
/// # Panics
///
/// If a length differs from that of the permutation.
#[track_caller]
pub fn enter_rows<T: Scalar>(perm: &RowPerm, scaling: &Scaling, b: &[T::Wide]) -> Normalized<T> {
    assert_eq!(perm.len(), b.len(), "right-hand side of another length");
    enter(perm, &scaling.rows, |at| split(b[at]), headroom::<T>())
}

/// The solution of A for solution `y` of B.
///
/// # Panics
///
/// If a length differs from that of the permutation.
#[track_caller]
pub fn leave_cols<T: Scalar>(perm: &ColPerm, scaling: &Scaling, y: &Normalized<T>) -> Vec<T::Wide> {
    assert_eq!(perm.len(), y.values.len(), "solution of another length");
    leave_wide(perm, &scaling.cols, y)
}

/// The right-hand side of Bᵀ for right-hand side `b` of Aᵀ.
///
/// # Panics
///
/// If a length differs from that of the permutation.
#[track_caller]
pub fn enter_cols<T: Scalar>(perm: &ColPerm, scaling: &Scaling, b: &[T::Wide]) -> Normalized<T> {
    assert_eq!(perm.len(), b.len(), "right-hand side of another length");
    enter(perm, &scaling.cols, |at| split(b[at]), headroom::<T>())
}

/// The solution of Aᵀ for solution `y` of Bᵀ.
///
/// # Panics
///
/// If a length differs from that of the permutation.
#[track_caller]
pub fn leave_rows<T: Scalar>(perm: &RowPerm, scaling: &Scaling, y: &Normalized<T>) -> Vec<T::Wide> {
    assert_eq!(perm.len(), y.values.len(), "solution of another length");
    leave_wide(perm, &scaling.rows, y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    #[test]
    fn products_beyond_the_range_come_back() {
        let perm = RowPerm::new(vec![1, 0]).unwrap();
        let scaling = Scaling {
            rows: vec![1e200, 1e-300],
            cols: vec![1e-200, 1e300],
        };
        let c: Normalized<f32> = enter_rows(&perm, &scaling, &[1e200, 1e-300]);
        // 1e400 is the largest and becomes about 2^31; 1e-600 vanishes beside it.
        assert_eq!(c.values[0], 0.0);
        assert!((2f32.powi(29)..=2f32.powi(32)).contains(&c.values[1]));
        let back = leave_cols(&ColPerm::new(vec![1, 0]).unwrap(), &scaling, &c);
        assert!((back[0] / 1e200 - 1.0).abs() < 1e-6);
        assert_eq!(back[1], 0.0);
    }

    #[test]
    fn complex_products_beyond_the_range_come_back() {
        let z = Complex::<f64>::new;
        let perm = RowPerm::new(vec![1, 0, 2]).unwrap();
        let cols = ColPerm::new(vec![1, 0, 2]).unwrap();
        let scaling = Scaling {
            rows: vec![1e200, 1e190, 1.0],
            cols: vec![1e-200, 1e-190, 1.0],
        };
        let b = [z(1e200, -3e200), z(-2e190, 1e170), z(0.0, 5e-324)];
        let c: Normalized<Complex<f64>> = enter_rows(&perm, &scaling, &b);
        // The larger part of the largest entry, 3e400, is near the fourth root of the largest number, and the others keep
        // their ratio to it.
        let [second, first, third] = c.values[..] else {
            panic!("three entries")
        };
        assert!((2f64.powi(254)..=2f64.powi(256)).contains(&-first.im));
        assert!((first.re / first.im + 1.0 / 3.0).abs() < 1e-15);
        assert!((second.re / first.re / -2e-20 - 1.0).abs() < 1e-14);
        assert!((second.im / second.re / -5e-21 - 1.0).abs() < 1e-14);
        assert_eq!(third, Complex::ZERO);
        let back = leave_cols(&cols, &scaling, &c);
        for (back, b) in back.iter().zip(&b).take(2) {
            assert!(
                (back - b).modulus() <= 1e-15 * b.modulus(),
                "{back} for {b}"
            );
        }
        // Numbers of any size keep all of it, the other way round too.
        let wide = b.map(Extended::of);
        let c = enter_extended::<f32, _>(&perm.0, &scaling.rows, &wide);
        assert!(c.values[1].magnitude() <= 2f64.powi(33));
        let factors: Vec<f64> = scaling.rows.iter().map(|f| 1.0 / f).collect();
        let back = leave_extended(&perm.0, &factors, &c);
        for (back, b) in back.iter().zip(&b).take(2) {
            let back = back.to_wide();
            assert!(
                (back - b).modulus() <= 1e-15 * b.modulus(),
                "{back} for {b}"
            );
        }
        // Both parts are lowered alike.
        let lowered = c.lowered();
        assert_eq!(lowered.exponent - c.exponent, 3 * 256);
        let turn = |n: &Normalized<Complex<f64>>| n.values[1].im / n.values[1].re;
        assert_eq!(turn(&lowered), turn(&c));
    }

    #[test]
    fn zeros_and_nan_pass() {
        let perm = ColPerm::identity(3);
        let scaling = Scaling::identity(3, 3);
        let c: Normalized<f64> = enter_cols(&perm, &scaling, &[0.0, -0.0, 0.0]);
        assert_eq!((c.exponent, c.values), (0, vec![0.0; 3]));
        let c: Normalized<f64> = enter_cols(&perm, &scaling, &[f64::NAN, f64::INFINITY, 1.0]);
        assert!(c.values[0].is_nan() && c.values[1].is_infinite());
    }
}
