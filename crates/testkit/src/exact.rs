//! Backward errors and conditions by arithmetic that neither overflows, underflows nor cancels in `f64`.
//!
//! A [`Wide`] is a double-double (about 31 digits) with an exponent of its own. [`WideMatrix`] measures with it what a
//! solver says of its solutions: the error of the measure is a few 2⁻¹⁰⁰ of the terms that are summed, whatever their
//! magnitudes. Nothing here is shared with what it judges.
//!
//! Double-double arithmetic: T. J. Dekker, "A floating-point technique for extending the available precision", Numer. Math.
//! 18, 1971; the sum with a small relative error after D. E. Knuth and K. Briggs.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Neg, Sub};

use luge_sparse::RealScalar;
use sprs::CsMat;

/// A finite number (hi + lo)·2^exponent with 1 ≤ |hi| < 2, or zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wide {
    hi: f64,
    lo: f64,
    exponent: i64,
}

/// 2 to this power and its inverse are normal numbers.
const LARGEST_POWER: i64 = 1021;

/// Beyond this distance of exponents the smaller term does not reach the last digit of the larger.
const OUT_OF_REACH: i64 = 115;

impl Wide {
    /// Zero.
    pub const ZERO: Self = Self {
        hi: 0.0,
        lo: 0.0,
        exponent: 0,
    };
    /// One.
    pub const ONE: Self = Self {
        hi: 1.0,
        lo: 0.0,
        exponent: 0,
    };

    /// This number, exactly.
    ///
    /// # Panics
    ///
    /// If it is infinite or not a number.
    #[track_caller]
    pub fn new(value: f64) -> Self {
        assert!(value.is_finite(), "{value} is no finite number");
        // Denormal numbers have no leading bit, and the inverse of the largest power of two is one of them.
        let power = match value.abs() {
            size if size < f64::MIN_POSITIVE => 100,
            size if size >= 2f64.powi(1000) => -100,
            _ => 0,
        };
        Self::normalized(value * power_of_two(power), 0.0, -power)
    }

    /// (hi + lo)·2^exponent for a normal number `hi` whose last digit is above `lo`.
    #[inline]
    fn normalized(hi: f64, lo: f64, exponent: i64) -> Self {
        if hi == 0.0 {
            return Self::ZERO;
        }
        let power = ((hi.to_bits() >> 52) & 0x7ff) as i64 - 1023;
        let scale = power_of_two(-power);
        Self {
            hi: hi * scale,
            lo: lo * scale,
            exponent: exponent + power,
        }
    }

    /// This number times 2^power, exactly.
    pub fn times_power_of_two(self, power: i64) -> Self {
        if self.hi == 0.0 {
            return self;
        }
        Self {
            exponent: self.exponent + power,
            ..self
        }
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.hi == 0.0
    }

    /// Its absolute value.
    pub fn abs(self) -> Self {
        if self.hi < 0.0 { -self } else { self }
    }

    /// The larger of two.
    pub fn max(self, other: Self) -> Self {
        if self < other { other } else { self }
    }

    /// The e with 2^e ≤ |value| < 2^(e+1), but for rounding of the last digits; `None` for zero.
    pub fn exponent(self) -> Option<i64> {
        (self.hi != 0.0).then_some(self.exponent)
    }

    /// The nearest `f64`, but for double rounding of denormal numbers; infinite if it is too large.
    pub fn to_f64(self) -> f64 {
        let value = self.hi + self.lo;
        match self.exponent {
            1025.. => f64::INFINITY.copysign(value),
            ..-1100 => 0.0f64.copysign(value),
            // In two steps, for 2^exponent need not be a normal number.
            exponent => {
                let half = exponent / 2;
                value * power_of_two(half) * power_of_two(exponent - half)
            }
        }
    }
}

/// 2^power for a power in −1022..=1023.
#[inline]
fn power_of_two(power: i64) -> f64 {
    f64::from_bits(((1023 + power) as u64) << 52)
}

/// a + b and what rounding took from it.
#[inline]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let back = sum - a;
    (sum, (a - (sum - back)) + (b - back))
}

/// As [`two_sum`] for |a| ≥ |b|.
#[inline]
fn quick_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

impl Add for Wide {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        let (a, b) = if other.hi == 0.0 || (self.hi != 0.0 && self.exponent >= other.exponent) {
            (self, other)
        } else {
            (other, self)
        };
        let distance = a.exponent - b.exponent;
        if b.hi == 0.0 || distance > OUT_OF_REACH {
            return a;
        }
        let scale = power_of_two(-distance);
        let (hi, rest) = two_sum(a.hi, b.hi * scale);
        let (low, lowest) = two_sum(a.lo, b.lo * scale);
        let (hi, rest) = quick_two_sum(hi, rest + low);
        let (hi, lo) = quick_two_sum(hi, rest + lowest);
        Self::normalized(hi, lo, a.exponent)
    }
}

impl Neg for Wide {
    type Output = Self;

    #[inline]
    fn neg(self) -> Self {
        Self {
            hi: -self.hi,
            lo: -self.lo,
            exponent: self.exponent,
        }
    }
}

impl Sub for Wide {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Wide {
    type Output = Self;

    #[inline]
    fn mul(self, other: Self) -> Self {
        if self.hi == 0.0 || other.hi == 0.0 {
            return Self::ZERO;
        }
        let product = self.hi * other.hi;
        let lost = self.hi.mul_add(other.hi, -product);
        let low = self.hi * other.lo + self.lo * other.hi;
        let (hi, lo) = quick_two_sum(product, lost + low);
        Self::normalized(hi, lo, self.exponent + other.exponent)
    }
}

impl Div for Wide {
    type Output = Self;

    /// # Panics
    ///
    /// If the divisor is zero.
    #[inline]
    #[track_caller]
    fn div(self, other: Self) -> Self {
        assert!(other.hi != 0.0, "division by zero");
        if self.hi == 0.0 {
            return self;
        }
        // Long division, three digits of 53 bits each.
        let digit =
            |rest: Self| Self::normalized(rest.hi / other.hi, 0.0, rest.exponent - other.exponent);
        let first = digit(self);
        let rest = self - first * other;
        let second = digit(rest);
        let third = digit(rest - second * other);
        first + second + third
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (*self - *other).hi.partial_cmp(&0.0)
    }
}

/// A square sparse matrix of [`Wide`] numbers.
#[derive(Debug, Clone)]
pub struct WideMatrix {
    n: usize,
    /// Row, column and value of every stored entry.
    entries: Vec<(usize, usize, Wide)>,
    norm_inf: Wide,
    norm_one: Wide,
}

impl WideMatrix {
    /// The stored values, exactly.
    ///
    /// # Panics
    ///
    /// If the matrix is not square or a value is not finite.
    #[track_caller]
    pub fn new<T: RealScalar>(a: &CsMat<T>) -> Self {
        assert_eq!(a.rows(), a.cols(), "a square matrix");
        let n = a.rows();
        let entries = a
            .iter()
            .map(|(&value, (i, j))| (i, j, Wide::new(value.to_f64())))
            .collect();
        Self::from_entries(n, entries)
    }

    fn from_entries(n: usize, entries: Vec<(usize, usize, Wide)>) -> Self {
        let (mut rows, mut cols) = (vec![Wide::ZERO; n], vec![Wide::ZERO; n]);
        for &(i, j, value) in &entries {
            rows[i] = rows[i] + value.abs();
            cols[j] = cols[j] + value.abs();
        }
        let largest = |sums: Vec<Wide>| sums.into_iter().fold(Wide::ZERO, Wide::max);
        Self {
            n,
            entries,
            norm_inf: largest(rows),
            norm_one: largest(cols),
        }
    }

    /// Its order.
    pub fn n(&self) -> usize {
        self.n
    }

    /// A·x, or Aᵀ·x.
    ///
    /// # Panics
    ///
    /// If the length does not match.
    #[track_caller]
    pub fn times(&self, x: &[Wide], transpose: bool) -> Vec<Wide> {
        assert_eq!(x.len(), self.n, "one entry of x per column");
        let mut product = vec![Wide::ZERO; self.n];
        for &(i, j, value) in &self.entries {
            let (i, j) = if transpose { (j, i) } else { (i, j) };
            product[i] = product[i] + value * x[j];
        }
        product
    }

    /// The normwise backward error ‖b − A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞), or that of Aᵀ·x = b. Infinite if x is not finite.
    ///
    /// # Panics
    ///
    /// If a length does not match or `b` is not finite.
    #[track_caller]
    pub fn backward_error(&self, x: &[f64], b: &[f64], transpose: bool) -> f64 {
        assert_eq!(b.len(), self.n, "one entry of b per row");
        if x.iter().any(|v| !v.is_finite()) {
            return f64::INFINITY;
        }
        let wide = |v: &[f64]| v.iter().map(|&v| Wide::new(v)).collect::<Vec<_>>();
        let (x, b) = (wide(x), wide(b));
        let norm = |v: &[Wide]| v.iter().fold(Wide::ZERO, |m, v| m.max(v.abs()));
        let residual: Vec<Wide> = self
            .times(&x, transpose)
            .iter()
            .zip(&b)
            .map(|(&product, &b)| b - product)
            .collect();
        let norm_a = if transpose {
            self.norm_one
        } else {
            self.norm_inf
        };
        let error = norm(&residual);
        if error.is_zero() {
            return 0.0;
        }
        (error / (norm_a * norm(&x) + norm(&b))).to_f64()
    }

    /// The same matrix with its rows and columns multiplied by powers of two: with `averaged` first so that the logarithms
    /// of the entries of each row and column are zero on average (A. R. Curtis and J. K. Reid, "On the automatic scaling of
    /// matrices for Gaussian elimination", J. Inst. Math. Appl. 10, 1972), which undoes any scaling of rows and columns;
    /// then the rows, then the columns so that the largest entry of each is in [1, 2). After that no entry is larger, and
    /// each row and column with a nonzero has one of that size.
    pub fn equilibrated(&self, averaged: bool) -> Self {
        let [rows, cols] = self.powers(averaged);
        let entries = self
            .entries
            .iter()
            .map(|&(i, j, value)| (i, j, value.times_power_of_two(-(rows[i] + cols[j]))));
        Self::from_entries(self.n, entries.collect())
    }

    /// As [`equilibrated`](Self::equilibrated), but with factors that are normal `f64`: those of a matrix whose entries span
    /// more than the range of one factor are cut off, after all were moved to the middle of the range.
    pub fn equilibrated_by_doubles(&self, averaged: bool) -> Self {
        let [rows, cols] = self.powers(averaged);
        let ends = |powers: &[i64]| {
            let least = powers.iter().copied().min().unwrap_or(0);
            (least, powers.iter().copied().max().unwrap_or(0))
        };
        let ((row_low, row_high), (col_low, col_high)) = (ends(&rows), ends(&cols));
        let shift = ((-row_low).max(col_high) - row_high.max(-col_low)) / 2;
        let power = |power: i64| power.clamp(-LARGEST_POWER, LARGEST_POWER);
        let entries = self.entries.iter().map(|&(i, j, value)| {
            let by = power(rows[i] + shift) + power(cols[j] - shift);
            (i, j, value.times_power_of_two(-by))
        });
        Self::from_entries(self.n, entries.collect())
    }

    /// The exponents by which [`equilibrated`](Self::equilibrated) divides rows and columns.
    fn powers(&self, averaged: bool) -> [Vec<i64>; 2] {
        let n = self.n;
        let exponents: Vec<(usize, usize, i64)> = self
            .entries
            .iter()
            .filter_map(|&(i, j, value)| Some((i, j, value.exponent()?)))
            .collect();
        let [mut rows, mut cols] = if averaged {
            averages(&exponents, n)
        } else {
            [vec![0; n], vec![0; n]]
        };
        // A line without a nonzero keeps its scale.
        let found = |largest: &[Option<i64>], scale: &mut [i64]| {
            for (scale, &largest) in scale.iter_mut().zip(largest) {
                *scale = largest.unwrap_or(*scale);
            }
        };
        let mut largest = vec![None; n];
        for &(i, j, exponent) in &exponents {
            largest[i] = largest[i].max(Some(exponent - cols[j]));
        }
        found(&largest, &mut rows);
        largest.fill(None);
        for &(i, j, exponent) in &exponents {
            largest[j] = largest[j].max(Some(exponent - rows[i]));
        }
        found(&largest, &mut cols);
        [rows, cols]
    }

    /// An upper bound of the componentwise distance to a singular matrix: there is an E with |E| ≤ d·|A| for which A + E is
    /// singular. It comes with a proof, an x with |A·x| ≤ d·|A|·|x| (W. Oettli and W. Prager, "Compatibility of approximate
    /// solution of linear equations with given error bounds", Numer. Math. 6, 1964), and does not depend on the scaling.
    /// It is small for a matrix that is exactly singular, whatever its condition. Takes O(n³) operations.
    pub fn distance_to_singular(&self) -> f64 {
        let n = self.n;
        if n == 0 {
            return f64::INFINITY;
        }
        let mut scaled = Elimination::new(&self.equilibrated(true), false);
        (1..n).all(|_| scaled.step());
        // The columns that have a pivot are those of the identity now: this solves all of their rows for 0.
        let Some(free) = (0..n).find(|&j| scaled.row_of_column[j].is_none()) else {
            return f64::INFINITY;
        };
        let [_, scale] = self.powers(true);
        let x: Vec<Wide> = (0..n)
            .map(|j| match scaled.row_of_column[j] {
                Some(row) => -scaled.a[row * n + free],
                None if j == free => Wide::ONE,
                None => Wide::ZERO,
            })
            .collect();
        let error = |least: Wide| {
            let entries = x.iter().zip(&scale);
            let x: Vec<Wide> = entries
                .map(|(&x, &scale)| match x.abs() < least {
                    true => Wide::ZERO,
                    false => x.times_power_of_two(-scale),
                })
                .collect();
            self.componentwise_error(&x, &vec![Wide::ZERO; n], false)
        };
        // What is left of entries that cancel may be all that there is in a row.
        let largest = x.iter().fold(Wide::ZERO, |m, x| m.max(x.abs()));
        let errors = [error(Wide::ZERO), error(largest.times_power_of_two(-80))];
        let [all, large] = errors;
        if large < all { large } else { all }.to_f64()
    }

    /// The componentwise backward error of Oettli and Prager, the largest |b − A·x|ᵢ / (|A|·|x| + |b|)ᵢ.
    fn componentwise_error(&self, x: &[Wide], b: &[Wide], transpose: bool) -> Wide {
        let mut residual = b.to_vec();
        let mut size: Vec<Wide> = b.iter().map(|b| b.abs()).collect();
        for &(i, j, value) in &self.entries {
            let (i, j) = if transpose { (j, i) } else { (i, j) };
            let product = value * x[j];
            residual[i] = residual[i] - product;
            size[i] = size[i] + product.abs();
        }
        let errors = residual.iter().zip(&size).filter(|(r, _)| !r.is_zero());
        errors.fold(Wide::ZERO, |worst, (r, s)| worst.max(r.abs() / *s))
    }

    /// 1/ρ(|A⁻¹|·|A|), up to a factor of about n: the reciprocal condition number in the maximum norm with the scaling of
    /// rows and columns for which it is largest (F. L. Bauer, "Optimally scaled matrices", Numer. Math. 5, 1963). `None` if
    /// even 31 digits do not give the inverse. Takes O(n³) operations.
    pub fn optimal_rcond(&self) -> Option<f64> {
        let scaled = self.equilibrated(true);
        let n = self.n;
        let a = scaled.to_dense();
        let inverse = scaled.inverse()?;
        let is_inverse = (0..n).all(|j| {
            let x: Vec<Wide> = (0..n).map(|i| inverse[i * n + j]).collect();
            let product = scaled.times(&x, false).into_iter().enumerate();
            let mut errors = product.map(|(i, p)| if i == j { p - Wide::ONE } else { p });
            errors.all(|error| error.to_f64().abs() < ENOUGH_DIGITS)
        });
        if !is_inverse {
            return None;
        }
        // ρ of |A⁻¹|·|A| by the power method. A handful of steps is right to a small factor, and more is not asked for.
        let mut x = vec![Wide::ONE; n];
        let mut rho = Wide::ONE;
        for _ in 0..POWER_STEPS {
            let y = absolute_product(&a, &x, n);
            let next = absolute_product(&inverse, &y, n);
            let largest = next.iter().fold(Wide::ZERO, |m, &v| m.max(v));
            if largest.is_zero() {
                break;
            }
            rho = largest;
            x = next.into_iter().map(|v| v / largest).collect();
        }
        Some((Wide::ONE / rho.max(Wide::ONE)).to_f64())
    }

    /// The inverse, entry (i, j) at i·n + j, as far as 31 digits give it; `None` for want of a pivot.
    fn inverse(&self) -> Option<Vec<Wide>> {
        let n = self.n;
        let mut elimination = Elimination::new(self, true);
        if !(0..n).all(|_| elimination.step()) {
            return None;
        }
        let row = |j: usize| elimination.row_of_column[j].unwrap_or(0);
        let inverse = &elimination.inverse;
        let rows = (0..n).flat_map(|j| inverse[row(j) * n..(row(j) + 1) * n].to_vec());
        Some(rows.collect())
    }

    /// The solution of A·x = b, or of Aᵀ·x = b, to about six digits in every entry that no cancellation has taken them
    /// from; `None` if that many cannot be had. Takes O(n³) operations.
    ///
    /// # Panics
    ///
    /// If the length does not match.
    #[track_caller]
    pub fn solve(&self, b: &[Wide], transpose: bool) -> Option<Vec<Wide>> {
        assert_eq!(b.len(), self.n, "one entry of b per row");
        let n = self.n;
        let inverse = self.equilibrated(true).inverse()?;
        let [rows, cols] = self.powers(true);
        let (rows, cols) = if transpose {
            (cols, rows)
        } else {
            (rows, cols)
        };
        let at = |i: usize, j: usize| if transpose { j * n + i } else { i * n + j };
        let mut x = vec![Wide::ZERO; n];
        for _ in 0..REFINEMENTS {
            let product = self.times(&x, transpose).into_iter();
            let residual: Vec<Wide> = product.zip(b).map(|(p, &b)| b - p).collect();
            for (i, x) in x.iter_mut().enumerate() {
                let terms = residual.iter().zip(&rows).enumerate();
                let terms =
                    terms.map(|(j, (r, &row))| inverse[at(i, j)] * r.times_power_of_two(-row));
                let sum = terms.fold(Wide::ZERO, Wide::add);
                *x = *x + sum.times_power_of_two(-cols[i]);
            }
        }
        let error = self.componentwise_error(&x, b, transpose);
        (error.to_f64() < ENOUGH_DIGITS).then_some(x)
    }

    /// How far entries of the solution `x` move, at most and to first order, if every entry of the
    /// [equilibrated](Self::equilibrated) matrix, zeros included, changes by 1, and every entry of b by its own size:
    /// |A⁻¹|·(N·|x| + |b|) with N = Dr⁻¹·1·Dc⁻¹. Times ε this is what a solver may do that is stable in the norm of the
    /// equilibrated matrix. `None` if the inverse cannot be had. Takes O(n³) operations.
    ///
    /// # Panics
    ///
    /// If a length does not match.
    #[track_caller]
    pub fn sensitivity(
        &self,
        x: &[Wide],
        b: &[Wide],
        transpose: bool,
        averaged: bool,
    ) -> Option<Vec<Wide>> {
        assert_eq!([x.len(), b.len()], [self.n; 2], "one entry per row");
        let n = self.n;
        let inverse = self.equilibrated(averaged).inverse()?;
        let [rows, cols] = self.powers(averaged);
        // Of the rows and columns of what is solved with.
        let (of_rows, of_cols) = if transpose {
            (&cols, &rows)
        } else {
            (&rows, &cols)
        };
        let scaled = x.iter().zip(of_cols);
        let size_x = scaled.fold(Wide::ZERO, |sum, (x, &power)| {
            sum + x.abs().times_power_of_two(power)
        });
        // In units of its row.
        let size = |j: usize| size_x + b[j].abs().times_power_of_two(-of_rows[j]);
        let sizes: Vec<Wide> = (0..n).map(size).collect();
        let entry = |i: usize, j: usize| inverse[if transpose { j * n + i } else { i * n + j }];
        let moves = |i: usize| {
            let terms = sizes.iter().enumerate();
            let sum = terms.fold(Wide::ZERO, |sum, (j, &size)| sum + entry(i, j).abs() * size);
            sum.times_power_of_two(-of_cols[i])
        };
        Some((0..n).map(moves).collect())
    }

    /// Entry (i, j) at i·n + j; entries that are stored more than once are summed.
    pub fn to_dense(&self) -> Vec<Wide> {
        let mut dense = vec![Wide::ZERO; self.n * self.n];
        for &(i, j, value) in &self.entries {
            let at = &mut dense[i * self.n + j];
            *at = *at + value;
        }
        dense
    }
}

/// Componentwise backward error of a solution that counts as exact, and error in an entry of A·A⁻¹.
const ENOUGH_DIGITS: f64 = 1e-6;

/// Solves in [`WideMatrix::solve`], the first included.
const REFINEMENTS: usize = 3;

/// Steps of the power method in [`WideMatrix::optimal_rcond`].
const POWER_STEPS: usize = 12;

/// Gauss-Jordan elimination of a dense matrix, with the largest pivot of what is left.
struct Elimination {
    n: usize,
    a: Vec<Wide>,
    /// What became of the identity; empty if that is not wanted.
    inverse: Vec<Wide>,
    row_of_column: Vec<Option<usize>>,
    is_row_used: Vec<bool>,
}

impl Elimination {
    fn new(a: &WideMatrix, inverts: bool) -> Self {
        let n = a.n;
        let mut inverse = Vec::new();
        if inverts {
            inverse = vec![Wide::ZERO; n * n];
            (0..n).for_each(|i| inverse[i * n + i] = Wide::ONE);
        }
        Self {
            n,
            a: a.to_dense(),
            inverse,
            row_of_column: vec![None; n],
            is_row_used: vec![false; n],
        }
    }

    /// Eliminates the column of the next pivot from all other rows; `false` if there is none.
    fn step(&mut self) -> bool {
        let n = self.n;
        let key = |v: Wide| v.exponent().map(|exponent| (exponent, v.hi.abs()));
        let mut best = None;
        for i in (0..n).filter(|&i| !self.is_row_used[i]) {
            for j in (0..n).filter(|&j| self.row_of_column[j].is_none()) {
                if let Some(size) = key(self.a[i * n + j])
                    && best.is_none_or(|(largest, _, _)| size > largest)
                {
                    best = Some((size, i, j));
                }
            }
        }
        let Some((_, row, column)) = best else {
            return false;
        };
        self.is_row_used[row] = true;
        self.row_of_column[column] = Some(row);
        let reciprocal = Wide::ONE / self.a[row * n + column];
        for matrix in [&mut self.a, &mut self.inverse] {
            let scaled = matrix.iter_mut().skip(row * n).take(n);
            scaled.for_each(|v| *v = *v * reciprocal);
        }
        for i in (0..n).filter(|&i| i != row) {
            let factor = -self.a[i * n + column];
            if factor.is_zero() {
                continue;
            }
            for matrix in [&mut self.a, &mut self.inverse] {
                if matrix.is_empty() {
                    continue;
                }
                for k in 0..n {
                    let above = matrix[row * n + k];
                    if !above.is_zero() {
                        matrix[i * n + k] = matrix[i * n + k] + factor * above;
                    }
                }
            }
            self.a[i * n + column] = Wide::ZERO;
        }
        true
    }
}

/// Steps of the relaxation in [`averages`].
const AVERAGING_STEPS: usize = 40;

/// Exponents of rows and of columns whose sums are nearest to those of the entries, rounded.
fn averages(exponents: &[(usize, usize, i64)], n: usize) -> [Vec<i64>; 2] {
    let mut counts = [vec![0.0f64; n], vec![0.0f64; n]];
    for &(i, j, _) in exponents {
        counts[0][i] += 1.0;
        counts[1][j] += 1.0;
    }
    let mut scales = [vec![0.0f64; n], vec![0.0f64; n]];
    for step in 0..2 * AVERAGING_STEPS {
        let side = step % 2;
        let mut sums = vec![0.0; n];
        for &(i, j, exponent) in exponents {
            let (at, other) = if side == 0 {
                (i, scales[1][j])
            } else {
                (j, scales[0][i])
            };
            sums[at] += exponent as f64 - other;
        }
        for ((scale, sum), count) in scales[side].iter_mut().zip(sums).zip(&counts[side]) {
            *scale = sum / count.max(1.0);
        }
    }
    scales.map(|side| side.into_iter().map(|scale| scale.round() as i64).collect())
}

/// |A|·x of a dense matrix.
fn absolute_product(a: &[Wide], x: &[Wide], n: usize) -> Vec<Wide> {
    let row = |row: &[Wide]| {
        let products = row.iter().zip(x).map(|(&a, &x)| a.abs() * x);
        products.fold(Wide::ZERO, Wide::add)
    };
    if n == 0 {
        return Vec::new();
    }
    a.chunks_exact(n).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::applications::convection_diffusion_2d;
    use crate::residual;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn matrix(rows: &[&[f64]]) -> CsMat<f64> {
        let n = rows.len();
        let mut triplets = sprs::TriMat::new((n, n));
        for (i, row) in rows.iter().enumerate() {
            for (j, &value) in row.iter().enumerate() {
                triplets.add_triplet(i, j, value);
            }
        }
        triplets.to_csr()
    }

    /// An integer of up to 126 bits, exactly.
    fn integer(value: i128) -> Wide {
        let (high, low) = (value >> 42, value & ((1 << 42) - 1));
        let high = Wide::new((high >> 42) as f64).times_power_of_two(42)
            + Wide::new((high & ((1 << 42) - 1)) as f64);
        high.times_power_of_two(42) + Wide::new(low as f64)
    }

    /// Whether two numbers agree to 2⁻¹⁰⁰ of the second.
    fn agrees(a: Wide, b: Wide) -> bool {
        (a - b).abs().times_power_of_two(100) <= b.abs()
    }

    #[test]
    fn numbers_keep_their_value() {
        for value in [
            0.0,
            1.0,
            -3.75,
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
            -1.5e-320,
            2f64.powi(-1074),
        ] {
            assert_eq!(Wide::new(value).to_f64(), value, "{value:e}");
        }
        assert_eq!(
            Wide::new(f64::MAX).times_power_of_two(1).to_f64(),
            f64::INFINITY
        );
        assert_eq!(Wide::new(5e-324).times_power_of_two(-1).to_f64(), 0.0);
        assert_eq!(Wide::new(5e-324).exponent(), Some(-1074));
        assert_eq!(Wide::ZERO.exponent(), None);
    }

    #[test]
    #[should_panic(expected = "is no finite number")]
    fn a_nan_is_no_number() {
        let _ = Wide::new(f64::NAN);
    }

    #[test]
    fn sums_and_products_are_those_of_integers() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..2000 {
            let bits = rng.random_range(1..63);
            let mut number = || i128::from(rng.random_range(-(1i64 << bits)..1i64 << bits));
            let (a, b, c) = (number(), number(), number());
            assert_eq!(integer(a) + integer(b), integer(a + b));
            assert!(agrees(integer(a) * integer(b), integer(a * b)), "{a} {b}");
            // All but the last bit or so of the larger one cancels.
            let near = a + (c & 3);
            assert_eq!(integer(a) - integer(near), integer(a - near));
            assert_eq!(integer(a) < integer(b), a < b);
            if b != 0 {
                assert!(agrees(integer(a) / integer(b) * integer(b), integer(a)));
            }
        }
    }

    #[test]
    fn nothing_overflows_or_underflows() {
        let (large, small) = (Wide::new(1e308), Wide::new(1e-320));
        let product = large * large * large * small;
        assert!(agrees(product / large / large / small, large));
        assert_eq!((large * small).to_f64(), 1e308 * 1e-320);
        assert!(large + small == large && small < large && -large < small);
    }

    #[test]
    fn a_residual_below_the_last_digit_of_its_terms_is_seen() {
        // 1e16·1 + 1·1 − 1e16·1 − 1·(1 − 2⁻⁵³): the terms cancel but for 2⁻⁵³.
        let a = matrix(&[
            &[1e16, 1.0, -1e16, -1.0],
            &[0.0, 1.0, 0.0, 0.0],
            &[0.0, 0.0, 1.0, 0.0],
            &[0.0, 0.0, 0.0, 1.0],
        ]);
        let x = [1.0, 1.0, 1.0, 1.0 - f64::EPSILON / 2.0];
        let b = [0.0, 1.0, 1.0, x[3]];
        let exact = WideMatrix::new(&a);
        let error = exact.backward_error(&x, &b, false);
        let expected = f64::EPSILON / 2.0 / (2e16 + 2.0 + 1.0);
        assert!((error / expected - 1.0).abs() < 1e-15, "{error:e}");
    }

    #[test]
    fn errors_agree_with_those_in_f64_where_these_can_be_trusted() {
        let a = convection_diffusion_2d(6, 5, 20.0);
        let x: Vec<f64> = (0..30).map(|i| (i as f64).sin()).collect();
        let b: Vec<f64> = (0..30).map(|i| (i as f64).cos()).collect();
        let exact = WideMatrix::new(&a);
        let plain = residual::normwise_backward_error(&a, &x, &b);
        assert!((exact.backward_error(&x, &b, false) / plain - 1.0).abs() < 1e-12);
        let at = a.transpose_view().to_csr();
        let plain = residual::normwise_backward_error(&at, &x, &b);
        assert!((exact.backward_error(&x, &b, true) / plain - 1.0).abs() < 1e-12);
    }

    #[test]
    fn errors_do_not_depend_on_the_scale() {
        // x is off by 1e-4 in one entry, and all norms are out of range together.
        for scale in [1.0, 2f64.powi(1000), 2f64.powi(-1000)] {
            let a = matrix(&[&[2.0 * scale, 0.0], &[0.0, scale]]);
            let (x, b) = ([1.0 * scale, 1.0001 * scale], [0.0, 0.0]);
            let exact = WideMatrix::new(&a);
            let error = exact.backward_error(&x, &b, false);
            // ‖A·x‖ / (‖A‖·‖x‖) = 2 / (2·1.0001).
            assert!((error - 1.0 / 1.0001).abs() < 1e-15, "{scale:e}: {error:e}");
        }
    }

    #[test]
    fn an_answer_that_is_not_finite_is_infinitely_wrong() {
        let exact = WideMatrix::new(&matrix(&[&[1.0]]));
        assert_eq!(
            exact.backward_error(&[f64::NAN], &[1.0], false),
            f64::INFINITY
        );
        assert_eq!(exact.backward_error(&[1.0], &[1.0], false), 0.0);
        assert_eq!(exact.backward_error(&[0.0], &[1.0], false), 1.0);
    }

    #[test]
    fn factors_beyond_doubles_are_cut_off() {
        let matrix = |values: [f64; 3]| {
            let a = CsMat::new((2, 2), vec![0, 2, 3], vec![0, 1, 1], values.to_vec());
            WideMatrix::new(&a)
        };
        let dense = |a: &WideMatrix| -> Vec<f64> {
            let dense = a.to_dense();
            dense.iter().map(|v| v.to_f64()).collect()
        };
        for averaged in [false, true] {
            let usual = matrix([1e200, 3.0, 1e-100]);
            let (all, cut) = (
                usual.equilibrated(averaged),
                usual.equilibrated_by_doubles(averaged),
            );
            assert_eq!(dense(&all), dense(&cut));
        }
        let a = matrix([2f64.powi(1020), 2f64.powi(1020), 2f64.powi(-1074)]);
        let cut = dense(&a.equilibrated_by_doubles(false));
        let all = dense(&a.equilibrated(false));
        assert_eq!((all[0], all[3]), (1.0, 1.0));
        // Moved to the middle, both ends are 2^1047 off, and cut at 2^1021.
        assert_eq!((cut[0], cut[3]), (2f64.powi(26), 2f64.powi(-26)));
    }

    #[test]
    fn a_solution_moves_as_far_as_its_inverse_says() {
        // Equilibrated it is [1/2, -1; 1, 0] with rows in units of 4 and 2^-10, the second column in units of 2.
        let a = CsMat::new(
            (2, 2),
            vec![0, 2, 3],
            vec![0, 1, 0],
            vec![2.0, -8.0, 2f64.powi(-10)],
        );
        let a = WideMatrix::new(&a);
        assert_eq!(a.powers(false), [vec![3, -10], vec![0, 0]]);
        let wide = |v: [f64; 2]| v.map(Wide::new);
        let sizes = |x: [f64; 2], b: [f64; 2], transpose| -> Vec<f64> {
            let found = a.sensitivity(&wide(x), &wide(b), transpose, false);
            found.unwrap().iter().map(|v| v.to_f64()).collect()
        };
        // [1/4, -1; 1, 0] has the inverse [0, 1; -1, 1/4]; N·|x| + |b| is [3 + 1/4, 3 + 2] in units of the rows.
        assert_eq!(
            sizes([1.0, 2.0], [2.0, 2f64.powi(-9)], false),
            [5.0, 3.25 + 1.25]
        );
        // Its transpose has [0, -1; 1, 1/4]; the sum of |x| is 8 + 2, in units of the rows of A.
        let x = [1.0, 2f64.powi(11)];
        assert_eq!(
            sizes(x, [1.0, 4.0], true),
            [14.0 / 8.0, (11.0 + 14.0 / 4.0) * 1024.0]
        );
    }

    #[test]
    fn equilibrated_rows_and_columns_have_an_entry_of_size_one() {
        let a = matrix(&[
            &[1e-300, 3e-10, 0.0],
            &[0.0, 1e300, 2e150],
            &[1e-5, 0.0, 5e-324],
        ]);
        for averaged in [false, true] {
            let scaled = WideMatrix::new(&a).equilibrated(averaged).to_dense();
            let in_range = |sizes: Vec<f64>| sizes.iter().all(|s| (1.0..2.0).contains(s));
            let size = |i: usize, j: usize| scaled[i * 3 + j].abs().to_f64();
            let rows = (0..3).map(|i| (0..3).map(|j| size(i, j)).fold(0.0, f64::max));
            let cols = (0..3).map(|j| (0..3).map(|i| size(i, j)).fold(0.0, f64::max));
            assert!(in_range(rows.collect()) && in_range(cols.collect()));
        }
    }

    #[test]
    fn averages_undo_a_scaling_of_rows_and_columns() {
        // Ones on two cyclic diagonals, whose rows and columns are then scaled: the largest entry of a row is in a column
        // that says nothing of the row.
        let n = 9;
        let mut rng = StdRng::seed_from_u64(2);
        let mut powers = || {
            (0..n)
                .map(|_| rng.random_range(-500..500))
                .collect::<Vec<i32>>()
        };
        let (rows, cols) = (powers(), powers());
        let mut a = sprs::TriMat::new((n, n));
        for (i, row) in rows.iter().enumerate() {
            for j in [i, (i + 1) % n] {
                a.add_triplet(i, j, 2f64.powi(row + cols[j]));
            }
        }
        let scaled = WideMatrix::new(&a.to_csr()).equilibrated(true).to_dense();
        let entries = scaled.iter().filter(|v| !v.is_zero());
        let spread: Vec<i64> = entries.filter_map(|v| v.exponent()).collect();
        assert_eq!(spread.len(), 2 * n);
        assert!(spread.iter().all(|e| (-3..=0).contains(e)), "{spread:?}");
    }

    #[test]
    fn solutions_are_exact_to_many_digits() {
        // The Hilbert matrix of order 8, whose condition is 1e10.
        let rows: Vec<Vec<f64>> = (0..8)
            .map(|i| (0..8).map(|j| 1.0 / (i + j + 1) as f64).collect())
            .collect();
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let exact = WideMatrix::new(&matrix(&rows));
        for transpose in [false, true] {
            let known: Vec<Wide> = (0..8).map(|i| Wide::new(f64::from(i) - 3.3)).collect();
            let b = exact.times(&known, transpose);
            let x = exact.solve(&b, transpose).unwrap();
            for (x, known) in x.iter().zip(&known) {
                let error = (*x - *known).abs();
                assert!(error.times_power_of_two(60) < known.abs(), "{error:?}");
            }
        }
        assert!(
            WideMatrix::new(&matrix(&[&[1.0, 2.0], &[2.0, 4.0]]))
                .solve(&[Wide::ONE; 2], false)
                .is_none()
        );
    }

    #[test]
    fn the_condition_with_the_best_scaling() {
        let rcond = |rows: &[&[f64]]| WideMatrix::new(&matrix(rows)).optimal_rcond();
        // Any diagonal, and any scaling of an orthogonal matrix of ±1: ρ(|A⁻¹||A|) = 1 and 2.
        assert_eq!(rcond(&[&[1e300, 0.0], &[0.0, 1e-300]]), Some(1.0));
        let found = rcond(&[&[1e200, 1e-200], &[1e200, -1e-200]]).unwrap();
        assert!((found - 0.5).abs() < 1e-10, "{found:e}");
        // [[1, 1], [1, 1 + d]]: |A⁻¹||A| has a spectral radius of about 4/d.
        for d in [1e-10, f64::EPSILON] {
            let found = rcond(&[&[1.0, 1.0], &[1.0, 1.0 + d]]).unwrap();
            assert!((found * 4.0 / d - 1.0).abs() < 1e-5, "{found:e}");
        }
        // The determinant is -1e-25: sums in f64 make it 0.
        let found = rcond(&[&[1.0, 1.0, 0.0], &[1.0, 1.0, 1e-25], &[0.0, 1.0, 1.0]]).unwrap();
        assert!((1e-26..1e-25).contains(&found), "{found:e}");
        assert_eq!(rcond(&[&[1.0, 2.0], &[2.0, 4.0]]), None);
        assert!(rcond(&[&[1.0, 2.0], &[3.0, 6.0]]).is_none_or(|rcond| rcond < 1e-30));
    }

    #[test]
    fn the_distance_to_singular_matrices() {
        let distance = |rows: &[&[f64]]| WideMatrix::new(&matrix(rows)).distance_to_singular();
        assert_eq!(distance(&[&[1.0, 2.0], &[3.0, 6.0]]), 0.0);
        assert_eq!(distance(&[&[1.0, 0.0], &[3.0, 0.0]]), 0.0);
        assert_eq!(distance(&[&[0.0]]), 0.0);
        // Rank n - 2, and no number is near 1.
        assert!(distance(&[&[1e200, 2.0, 3.0], &[2e200, 4.0, 6.0], &[3e200, 6.0, 9.0]]) < 1e-30);
        // d of one of the four entries makes it singular, or d/4 of each, and no less.
        for d in [1e-3, 1e-10, f64::EPSILON] {
            let found = distance(&[&[1e100, 1.0], &[1e100, 1.0 + d]]);
            assert!((d / 4.0..1.001 * d).contains(&found), "{d:e}: {found:e}");
        }
        // No change of its entries by less than all of them makes a triangular matrix singular.
        assert!(distance(&[&[1e-300, 1e300], &[0.0, 1.0]]) > 0.49);
        assert!(distance(&[&[5.0]]) > 0.99);
    }
}
