//! The size of |L|·|D|·|Lᵀ|.

use luge_sparse::Scalar;

use crate::simd::Simd;

/// What the check of one symmetric front reads and adds to.
#[derive(Debug)]
pub struct CheckLower<F> {
    /// The panel of a factorized front, of `m` rows.
    pub lp: *const F,
    /// Rows of the front.
    pub m: usize,
    /// Number of pivots.
    pub pivots: usize,
    /// Sums of |L|·|D|·|Lᵀ| by column, which is row, of the front; added to.
    pub products: *mut F,
    /// `pivots` values to work in.
    pub s: *mut F,
}

/// Adds the column sums of |L|·|D|·|Lᵀ| of a front's pivots, with [magnitudes](Scalar::magnitude) as real parts. Returns the largest magnitude in L below its diagonal;
/// unspecified if one is NaN, which the sums then are too.
///
/// # Safety
///
/// The arrays of `f` are valid for the sizes they name and do not overlap.
#[inline(always)]
pub(crate) unsafe fn check_lower<F: Scalar, S: Simd<F>>(f: &CheckLower<F>) -> F::Real {
    let (m, p) = (f.m, f.pivots);
    // SAFETY: the caller's contract.
    unsafe {
        let mut largest = S::splat(F::zero());
        // 1ᵀ|L|.
        for j in 0..p {
            let column = f.lp.add(j * m);
            let mut sum = S::splat(F::zero());
            let mut i = j + 1;
            while i + S::W <= m {
                let v = S::abs(S::load(column.add(i)));
                sum = S::add(sum, v);
                largest = S::max(largest, v);
                i += S::W;
            }
            if i < m {
                let v = S::abs(S::load_masked(column.add(i), S::mask(m - i)));
                sum = S::add(sum, v);
                largest = S::max(largest, v);
            }
            *f.s.add(j) = F::one() + S::sum(sum);
        }
        // 1ᵀ|L|·|D|.
        let mut j = 0;
        while j < p {
            let d = |i: usize, q: usize| F::from_real((*f.lp.add(i + q * m)).magnitude());
            let off = if j + 1 < p { d(j, j + 1) } else { F::zero() };
            let first = *f.s.add(j);
            if off == F::zero() {
                *f.s.add(j) = first * d(j, j);
                j += 1;
            } else {
                let second = *f.s.add(j + 1);
                *f.s.add(j) = first * d(j, j) + second * off;
                *f.s.add(j + 1) = first * off + second * d(j + 1, j + 1);
                j += 2;
            }
        }
        let mut j = 0;
        while j < p {
            match p - j {
                1 => add_columns::<F, S, 1>(f, j),
                2 => add_columns::<F, S, 2>(f, j),
                3 => add_columns::<F, S, 3>(f, j),
                _ => add_columns::<F, S, 4>(f, j),
            }
            j += 4;
        }
        S::largest(largest)
    }
}

/// Adds N columns of |L|, from `j` on, times their weights to the sums.
///
/// # Safety
///
/// As [`check_lower`]; `j + N <= pivots`.
#[inline(always)]
unsafe fn add_columns<F: Scalar, S: Simd<F>, const N: usize>(f: &CheckLower<F>, j: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        let column = f.lp.add(j * f.m);
        let mut weights = [S::splat(F::zero()); N];
        for (q, weight) in weights.iter_mut().enumerate() {
            let value = *f.s.add(j + q);
            *weight = S::splat(value);
            *f.products.add(j + q) += value;
            for i in j + q + 1..j + N {
                let size = (*column.add(i + q * f.m)).magnitude();
                *f.products.add(i) += value.scaled_by(size);
            }
        }
        let mut i = j + N;
        while i < f.m {
            let mask = S::mask(S::W.min(f.m - i));
            let mut sum = S::load_masked(f.products.add(i), mask);
            for (q, &weight) in weights.iter().enumerate() {
                let v = S::load_masked(column.add(i + q * f.m), mask);
                sum = S::fma(S::abs(v), weight, sum);
            }
            S::store_masked(f.products.add(i), sum, mask);
            i += S::W;
        }
    }
}
