//! Vectors of one instruction set behind one interface.
//!
//! Every method must be inlined into a function that enables the instruction set: on x86-64 the
//! entry points in [`super`] do. Each entry of a result is computed by the same operations whatever
//! the shape of the loops around: `fnma` is one fused operation, or the same two everywhere.

use luge_sparse::Scalar;
use luge_sparse::num_traits::Float;

/// Vectors of `W` values.
///
/// # Safety
///
/// All methods require that the processor has the instruction set; pointers must be valid for the
/// lanes that are read or written (all of them, or those of the mask).
pub(crate) trait Simd<F: Scalar>: Copy {
    /// A vector.
    type V: Copy;
    /// Selects the first lanes.
    type M: Copy;
    /// Number of lanes.
    const W: usize;

    /// Selects the first `lanes` lanes, at most `W`.
    unsafe fn mask(lanes: usize) -> Self::M;
    /// The same value in all lanes.
    unsafe fn splat(value: F) -> Self::V;
    /// Loads all lanes.
    unsafe fn load(p: *const F) -> Self::V;
    /// Loads the selected lanes, zero in the others.
    unsafe fn load_masked(p: *const F, mask: Self::M) -> Self::V;
    /// Stores all lanes.
    unsafe fn store(p: *mut F, v: Self::V);
    /// Stores the selected lanes.
    unsafe fn store_masked(p: *mut F, v: Self::V, mask: Self::M);
    /// c − a·b.
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// c + a·b.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// a + b.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// a·b.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// The complex conjugates; real numbers as they are.
    unsafe fn conjugate(a: Self::V) -> Self::V;
    /// The [magnitudes](Scalar::magnitude), as numbers of the same type.
    unsafe fn abs(a: Self::V) -> Self::V;
    /// The larger of both, lane by lane; unspecified for NaN, and for numbers that are not real.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// Sum of the lanes.
    unsafe fn sum(a: Self::V) -> F;
    /// Largest lane; of complex numbers that are magnitudes.
    unsafe fn largest(a: Self::V) -> F::Real;
}

/// Plain arrays of as many values as 128 bits hold, for machines without a kernel of their own.
#[derive(Clone, Copy)]
pub(crate) struct Portable<const W: usize>;

#[expect(
    clippy::needless_range_loop,
    reason = "iterators in each of many unrolled tiles take the compiler a minute"
)]
impl<F: Scalar, const W: usize> Simd<F> for Portable<W> {
    type V = [F; W];
    type M = usize;
    const W: usize = W;

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> usize {
        lanes
    }
    #[inline(always)]
    unsafe fn splat(value: F) -> Self::V {
        [value; W]
    }
    #[inline(always)]
    unsafe fn load(p: *const F) -> Self::V {
        // SAFETY: the caller's pointer is valid for all lanes.
        unsafe { p.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_masked(p: *const F, mask: usize) -> Self::V {
        let mut v = [F::zero(); W];
        for i in 0..W {
            if i < mask {
                // SAFETY: the caller's pointer is valid for the selected lanes.
                v[i] = unsafe { *p.add(i) };
            }
        }
        v
    }
    #[inline(always)]
    unsafe fn store(p: *mut F, v: Self::V) {
        // SAFETY: the caller's pointer is valid for all lanes.
        unsafe { p.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_masked(p: *mut F, v: Self::V, mask: usize) {
        for i in 0..W {
            if i < mask {
                // SAFETY: the caller's pointer is valid for the selected lanes.
                unsafe { *p.add(i) = v[i] };
            }
        }
    }
    #[inline(always)]
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        let mut v = c;
        for i in 0..W {
            v[i] = plus_product(c[i], -a[i], b[i]);
        }
        v
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        let mut v = c;
        for i in 0..W {
            v[i] = plus_product(c[i], a[i], b[i]);
        }
        v
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        let mut v = a;
        for i in 0..W {
            v[i] += b[i];
        }
        v
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        let mut v = a;
        for i in 0..W {
            v[i] *= b[i];
        }
        v
    }
    #[inline(always)]
    unsafe fn conjugate(a: Self::V) -> Self::V {
        let mut v = a;
        for i in 0..W {
            v[i] = v[i].conjugate();
        }
        v
    }
    #[inline(always)]
    unsafe fn abs(a: Self::V) -> Self::V {
        let mut v = a;
        for i in 0..W {
            v[i] = F::from_real(v[i].magnitude());
        }
        v
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        let mut v = a;
        for i in 0..W {
            v[i] = if a[i].real() > b[i].real() {
                a[i]
            } else {
                b[i]
            };
        }
        v
    }
    #[inline(always)]
    unsafe fn sum(a: Self::V) -> F {
        let mut v = a;
        let mut half = W / 2;
        while half > 0 {
            for i in 0..half {
                v[i] += v[i + half];
            }
            half /= 2;
        }
        v[0]
    }
    #[inline(always)]
    unsafe fn largest(a: Self::V) -> F::Real {
        let mut v = a[0].real();
        for i in 1..W {
            let other = a[i].real();
            v = if other > v { other } else { v };
        }
        v
    }
}

/// c + a·b; of real numbers rounded once where the processor does that at no cost.
#[inline(always)]
fn plus_product<F: Scalar>(c: F, a: F, b: F) -> F {
    if cfg!(target_arch = "aarch64") && F::COMPONENTS == 1 {
        F::from_real(a.real().mul_add(b.real(), c.real()))
    } else {
        c + a * b
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use num_complex::Complex;
    use std::arch::x86_64::*;

    /// 512-bit vectors: avx512f.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512;

    /// 256-bit vectors: avx2 and fma.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2;

    // SAFETY of all blocks below: the trait's contract, that the instruction set is there and that
    // pointers are valid for the lanes accessed, is the contract of the intrinsics.
    macro_rules! method {
        ($(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? { $body:expr })*) => {
            $(
                #[inline(always)]
                #[allow(unused_unsafe, reason = "the mask of some sets is plain arithmetic")]
                unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: see above.
                    unsafe { $body }
                }
            )*
        };
    }

    impl Simd<f64> for Avx512 {
        type V = __m512d;
        type M = __mmask8;
        const W: usize = 8;
        method! {
            fn mask(lanes: usize) -> __mmask8 { ((1u32 << lanes) - 1) as __mmask8 }
            fn splat(value: f64) -> __m512d { _mm512_set1_pd(value) }
            fn load(p: *const f64) -> __m512d { _mm512_loadu_pd(p) }
            fn load_masked(p: *const f64, mask: __mmask8) -> __m512d { _mm512_maskz_loadu_pd(mask, p) }
            fn store(p: *mut f64, v: __m512d) { _mm512_storeu_pd(p, v) }
            fn store_masked(p: *mut f64, v: __m512d, mask: __mmask8) { _mm512_mask_storeu_pd(p, mask, v) }
            fn fnma(a: __m512d, b: __m512d, c: __m512d) -> __m512d { _mm512_fnmadd_pd(a, b, c) }
            fn fma(a: __m512d, b: __m512d, c: __m512d) -> __m512d { _mm512_fmadd_pd(a, b, c) }
            fn add(a: __m512d, b: __m512d) -> __m512d { _mm512_add_pd(a, b) }
            fn mul(a: __m512d, b: __m512d) -> __m512d { _mm512_mul_pd(a, b) }
            fn conjugate(a: __m512d) -> __m512d { a }
            fn abs(a: __m512d) -> __m512d { _mm512_abs_pd(a) }
            fn max(a: __m512d, b: __m512d) -> __m512d { _mm512_max_pd(a, b) }
            fn sum(a: __m512d) -> f64 { _mm512_reduce_add_pd(a) }
            fn largest(a: __m512d) -> f64 { _mm512_reduce_max_pd(a) }
        }
    }

    impl Simd<f32> for Avx512 {
        type V = __m512;
        type M = __mmask16;
        const W: usize = 16;
        method! {
            fn mask(lanes: usize) -> __mmask16 { ((1u32 << lanes) - 1) as __mmask16 }
            fn splat(value: f32) -> __m512 { _mm512_set1_ps(value) }
            fn load(p: *const f32) -> __m512 { _mm512_loadu_ps(p) }
            fn load_masked(p: *const f32, mask: __mmask16) -> __m512 { _mm512_maskz_loadu_ps(mask, p) }
            fn store(p: *mut f32, v: __m512) { _mm512_storeu_ps(p, v) }
            fn store_masked(p: *mut f32, v: __m512, mask: __mmask16) { _mm512_mask_storeu_ps(p, mask, v) }
            fn fnma(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fnmadd_ps(a, b, c) }
            fn fma(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fmadd_ps(a, b, c) }
            fn add(a: __m512, b: __m512) -> __m512 { _mm512_add_ps(a, b) }
            fn mul(a: __m512, b: __m512) -> __m512 { _mm512_mul_ps(a, b) }
            fn conjugate(a: __m512) -> __m512 { a }
            fn abs(a: __m512) -> __m512 { _mm512_abs_ps(a) }
            fn max(a: __m512, b: __m512) -> __m512 { _mm512_max_ps(a, b) }
            fn sum(a: __m512) -> f32 { _mm512_reduce_add_ps(a) }
            fn largest(a: __m512) -> f32 { _mm512_reduce_max_ps(a) }
        }
    }

    /// All ones before all zeros: a window into it is a lane mask.
    static LANES_64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];
    static LANES_32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    impl Simd<f64> for Avx2 {
        type V = __m256d;
        type M = __m256i;
        const W: usize = 4;
        method! {
            fn mask(lanes: usize) -> __m256i { _mm256_loadu_si256(LANES_64.as_ptr().add(4 - lanes).cast()) }
            fn splat(value: f64) -> __m256d { _mm256_set1_pd(value) }
            fn load(p: *const f64) -> __m256d { _mm256_loadu_pd(p) }
            fn load_masked(p: *const f64, mask: __m256i) -> __m256d { _mm256_maskload_pd(p, mask) }
            fn store(p: *mut f64, v: __m256d) { _mm256_storeu_pd(p, v) }
            fn store_masked(p: *mut f64, v: __m256d, mask: __m256i) { _mm256_maskstore_pd(p, mask, v) }
            fn fnma(a: __m256d, b: __m256d, c: __m256d) -> __m256d { _mm256_fnmadd_pd(a, b, c) }
            fn fma(a: __m256d, b: __m256d, c: __m256d) -> __m256d { _mm256_fmadd_pd(a, b, c) }
            fn add(a: __m256d, b: __m256d) -> __m256d { _mm256_add_pd(a, b) }
            fn mul(a: __m256d, b: __m256d) -> __m256d { _mm256_mul_pd(a, b) }
            fn conjugate(a: __m256d) -> __m256d { a }
            fn abs(a: __m256d) -> __m256d { _mm256_andnot_pd(_mm256_set1_pd(-0.0), a) }
            fn max(a: __m256d, b: __m256d) -> __m256d { _mm256_max_pd(a, b) }
            fn sum(a: __m256d) -> f64 {{
                let half = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd::<1>(a));
                _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)))
            }}
            fn largest(a: __m256d) -> f64 {{
                let half = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd::<1>(a));
                _mm_cvtsd_f64(_mm_max_sd(half, _mm_unpackhi_pd(half, half)))
            }}
        }
    }

    impl Simd<f32> for Avx2 {
        type V = __m256;
        type M = __m256i;
        const W: usize = 8;
        method! {
            fn mask(lanes: usize) -> __m256i { _mm256_loadu_si256(LANES_32.as_ptr().add(8 - lanes).cast()) }
            fn splat(value: f32) -> __m256 { _mm256_set1_ps(value) }
            fn load(p: *const f32) -> __m256 { _mm256_loadu_ps(p) }
            fn load_masked(p: *const f32, mask: __m256i) -> __m256 { _mm256_maskload_ps(p, mask) }
            fn store(p: *mut f32, v: __m256) { _mm256_storeu_ps(p, v) }
            fn store_masked(p: *mut f32, v: __m256, mask: __m256i) { _mm256_maskstore_ps(p, mask, v) }
            fn fnma(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fnmadd_ps(a, b, c) }
            fn fma(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fmadd_ps(a, b, c) }
            fn add(a: __m256, b: __m256) -> __m256 { _mm256_add_ps(a, b) }
            fn mul(a: __m256, b: __m256) -> __m256 { _mm256_mul_ps(a, b) }
            fn conjugate(a: __m256) -> __m256 { a }
            fn abs(a: __m256) -> __m256 { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
            fn max(a: __m256, b: __m256) -> __m256 { _mm256_max_ps(a, b) }
            fn sum(a: __m256) -> f32 {{
                let half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
                let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
                _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps::<1>(quarter, quarter)))
            }}
            fn largest(a: __m256) -> f32 {{
                let half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
                let quarter = _mm_max_ps(half, _mm_movehl_ps(half, half));
                _mm_cvtss_f32(_mm_max_ss(quarter, _mm_shuffle_ps::<1>(quarter, quarter)))
            }}
        }
    }

    // Complex numbers stand in their two parts, so a vector has half as many. For c + a·b the parts of b are spread
    // over both places, and the imaginary one is negated where it is multiplied by that of a, whose parts are exchanged:
    // two fused operations for each vector, and what is done to b is done once for a whole tile.
    macro_rules! complex {
        (
            $set:ty, $real:ty, $v:ty, $m:ty, $w:literal, $splat:expr, $signs:expr, $zero_imaginary:expr,
            $dup:ident, $permute:ident<$imaginary:literal, $exchanged:literal>, $xor:ident,
            $fmadd:ident, $fnmadd:ident, $fmaddsub:ident, $add:ident, $mul:ident, $max:ident, $storeu:ident
        ) => {
            impl Simd<Complex<$real>> for $set {
                type V = $v;
                type M = $m;
                const W: usize = $w;
                method! {
                    fn mask(lanes: usize) -> $m { <Self as Simd<$real>>::mask(2 * lanes) }
                    fn splat(value: Complex<$real>) -> $v { $splat(value) }
                    fn load(p: *const Complex<$real>) -> $v { <Self as Simd<$real>>::load(p.cast()) }
                    fn load_masked(p: *const Complex<$real>, mask: $m) -> $v {
                        <Self as Simd<$real>>::load_masked(p.cast(), mask)
                    }
                    fn store(p: *mut Complex<$real>, v: $v) { <Self as Simd<$real>>::store(p.cast(), v) }
                    fn store_masked(p: *mut Complex<$real>, v: $v, mask: $m) {
                        <Self as Simd<$real>>::store_masked(p.cast(), v, mask)
                    }
                    fn fnma(a: $v, b: $v, c: $v) -> $v {{
                        let imaginary = $xor($permute::<$imaginary>(b), $signs);
                        $fnmadd($permute::<$exchanged>(a), imaginary, $fnmadd(a, $dup(b), c))
                    }}
                    fn fma(a: $v, b: $v, c: $v) -> $v {{
                        let imaginary = $xor($permute::<$imaginary>(b), $signs);
                        $fmadd($permute::<$exchanged>(a), imaginary, $fmadd(a, $dup(b), c))
                    }}
                    fn add(a: $v, b: $v) -> $v { $add(a, b) }
                    fn mul(a: $v, b: $v) -> $v {
                        $fmaddsub(a, $dup(b), $mul($permute::<$exchanged>(a), $permute::<$imaginary>(b)))
                    }
                    fn conjugate(a: $v) -> $v {
                        $xor($xor(a, $signs), <Self as Simd<$real>>::splat(-0.0))
                    }
                    fn abs(a: $v) -> $v {{
                        let parts = <Self as Simd<$real>>::abs(a);
                        $zero_imaginary($add(parts, $permute::<$exchanged>(parts)))
                    }}
                    fn max(a: $v, b: $v) -> $v { $max(a, b) }
                    fn sum(a: $v) -> Complex<$real> {{
                        let mut parts = [Complex::new(0.0, 0.0); $w];
                        $storeu(parts.as_mut_ptr().cast(), a);
                        let mut half = $w / 2;
                        while half > 0 {
                            for i in 0..half {
                                parts[i] += parts[i + half];
                            }
                            half /= 2;
                        }
                        parts[0]
                    }}
                    fn largest(a: $v) -> $real { <Self as Simd<$real>>::largest(a) }
                }
            }
        };
    }

    complex!(
        Avx512, f64, __m512d, __mmask8, 4,
        |value: Complex<f64>| _mm512_broadcast_f64x2(_mm_set_pd(value.im, value.re)),
        _mm512_broadcast_f64x2(_mm_set_pd(0.0, -0.0)),
        |v| _mm512_maskz_mov_pd(0x55, v),
        _mm512_movedup_pd, _mm512_permute_pd<0xff, 0x55>, _mm512_xor_pd,
        _mm512_fmadd_pd, _mm512_fnmadd_pd, _mm512_fmaddsub_pd, _mm512_add_pd, _mm512_mul_pd, _mm512_max_pd,
        _mm512_storeu_pd
    );
    complex!(
        Avx512, f32, __m512, __mmask16, 8,
        |value: Complex<f32>| _mm512_broadcast_f32x2(_mm_set_ps(0.0, 0.0, value.im, value.re)),
        _mm512_broadcast_f32x2(_mm_set_ps(0.0, 0.0, 0.0, -0.0)),
        |v| _mm512_maskz_mov_ps(0x5555, v),
        _mm512_moveldup_ps, _mm512_permute_ps<0xf5, 0xb1>, _mm512_xor_ps,
        _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_fmaddsub_ps, _mm512_add_ps, _mm512_mul_ps, _mm512_max_ps,
        _mm512_storeu_ps
    );
    complex!(
        Avx2, f64, __m256d, __m256i, 2,
        |value: Complex<f64>| _mm256_set_pd(value.im, value.re, value.im, value.re),
        _mm256_set_pd(0.0, -0.0, 0.0, -0.0),
        |v| _mm256_blend_pd::<0b1010>(v, _mm256_setzero_pd()),
        _mm256_movedup_pd, _mm256_permute_pd<0xf, 0x5>, _mm256_xor_pd,
        _mm256_fmadd_pd, _mm256_fnmadd_pd, _mm256_fmaddsub_pd, _mm256_add_pd, _mm256_mul_pd, _mm256_max_pd,
        _mm256_storeu_pd
    );
    complex!(
        Avx2, f32, __m256, __m256i, 4,
        |value: Complex<f32>| _mm256_castpd_ps(_mm256_broadcast_sd(&f64::from_bits(
            u64::from(value.re.to_bits()) | u64::from(value.im.to_bits()) << 32
        ))),
        _mm256_castpd_ps(_mm256_set1_pd(f64::from_bits(1 << 31))),
        |v| _mm256_blend_ps::<0b1010_1010>(v, _mm256_setzero_ps()),
        _mm256_moveldup_ps, _mm256_permute_ps<0xf5, 0xb1>, _mm256_xor_ps,
        _mm256_fmadd_ps, _mm256_fnmadd_ps, _mm256_fmaddsub_ps, _mm256_add_ps, _mm256_mul_ps, _mm256_max_ps,
        _mm256_storeu_ps
    );
}
