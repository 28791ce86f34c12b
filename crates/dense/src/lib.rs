//! Dense kernels for the fronts of a sparse factorization on the CPU, and the choice among instruction sets.
//!
//! A front is small, most have fewer than a hundred rows, and there are thousands of them: what counts is the time of a call,
//! not the peak of a large product. So each kernel is written once over vectors ([`Kernels`] lists them) and compiled for
//! AVX-512, AVX2 and any other processor; [`FrontalScalar::kernels`] gives the table that is best here. Matrices are
//! column-major. A crate of its own because its functions, for four types and three instruction sets, take longer to
//! compile than all that calls them.
//!
//! Results depend on the instruction set, whose vectors add in another order, and on nothing else.

mod dense;
mod pivot;
mod simd;
mod symmetric;

pub use dense::{CheckFront, CheckPart, Gemm};
pub use pivot::{FrontPanels, PivotEvents};
pub use symmetric::{
    BLOCK_COLUMNS, BlockScratch, CheckLower, Progress, SINGLE_ROWS, SingleFront, SymmetricEvent,
    SymmetricPanel, inverse_of_two, is_regular,
};

use std::sync::OnceLock;

use luge_sparse::{Form, ResolvedPivots, ResolvedSymmetric, Scalar};
use num_complex::Complex;

use simd::{Portable, Simd};

/// Of [`Kernels::eliminate_columns`].
type EliminateColumns<F> = unsafe fn(
    &FrontPanels<F>,
    usize,
    usize,
    &ResolvedPivots<<F as Scalar>::Real>,
    &mut PivotEvents,
) -> usize;

/// Of [`SymmetricKernels::factorize_block`].
type FactorizeBlock<F> = unsafe fn(
    &SymmetricPanel<F>,
    usize,
    usize,
    &ResolvedSymmetric<<F as Scalar>::Real>,
    &mut BlockScratch<F>,
    *mut F,
) -> Progress<<F as Scalar>::Real>;

/// Of [`SymmetricKernels::eliminate_single`].
type EliminateSingle<F> = unsafe fn(
    &SingleFront<F>,
    &ResolvedSymmetric<<F as Scalar>::Real>,
) -> Option<<F as Scalar>::Real>;

/// Of [`SymmetricKernels::eliminate_symmetric`].
type EliminateSymmetric<F> = unsafe fn(
    &SymmetricPanel<F>,
    usize,
    usize,
    &ResolvedSymmetric<<F as Scalar>::Real>,
) -> Progress<<F as Scalar>::Real>;

/// The kernels of one type for one instruction set.
///
/// # Safety
///
/// The pointers that a kernel is given must be valid for the sizes beside them, and what it writes must overlap nothing
/// else. A table is only handed out on a processor that has its instructions.
pub struct Kernels<F: Scalar> {
    /// Name of the instruction set.
    pub name: &'static str,
    /// C −= A·Bᵀ.
    pub gemm_nt: unsafe fn(&Gemm<F>),
    /// C −= A·B.
    pub gemm_nn: unsafe fn(&Gemm<F>),
    /// X := X·L⁻ᵀ for a unit lower triangular L of order p, and X of so many rows: rows, p, L, its leading dimension, X, its
    /// leading dimension.
    pub trsm: unsafe fn(usize, usize, *const F, usize, *mut F, usize),
    /// Eliminates as many of the columns `lo..hi` of a front as have acceptable pivots, and returns their number: the
    /// front, `lo`, `hi`, the policy, what happened. `hi − lo` is at most eight.
    pub eliminate_columns: EliminateColumns<F>,
    /// Adds the column sums of |L|·|U| and of wᵀ·L·U of a front.
    pub check_front: unsafe fn(&CheckFront<F>),
    /// Adds the column sums of wᵀ·|L|·|U| of a front.
    pub weigh_front: unsafe fn(&CheckFront<F>),
    /// y −= A·x: n, k, A of n rows and k columns, its leading dimension, x, y.
    pub gemv: unsafe fn(usize, usize, *const F, usize, *const F, *mut F),
    /// y −= Aᵀ·x, likewise.
    pub gemv_transposed: unsafe fn(usize, usize, *const F, usize, *const F, *mut F),
}

impl<F: Scalar> std::fmt::Debug for Kernels<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernels({})", self.name)
    }
}

/// The kernels of one type for one instruction set, with those for symmetric fronts of one [`Form`]. Of real types there is one
/// table for both.
///
/// # Safety
///
/// As [`Kernels`].
pub struct SymmetricKernels<F: Scalar> {
    /// What fronts of all kinds use.
    pub general: &'static Kernels<F>,
    /// What counterparts across the diagonal are; the panels that the kernels are given have the same.
    pub form: Form,
    /// C −= A·Bᵀ with B columns × depth, on and below the diagonal of C; entries less than eight rows above it are
    /// changed too. There are at least as many rows as columns.
    pub gemm_lower: unsafe fn(&Gemm<F>),
    /// X := L·D for some rows of L, or its conjugate if the front is Hermitian: rows, pivots, L, the diagonal block of the
    /// pivots, the leading dimension of both, X, its leading dimension. The pivots are those of a symmetric front, none of
    /// order 2 is split.
    pub times_diagonal: unsafe fn(usize, usize, *const F, *const F, usize, *mut F, usize),
    /// Eliminates as many of the columns `lo..hi` of a symmetric front as have acceptable pivots, with the block alone
    /// searched; no other column sees them. The front, `lo`, `hi`, the rule, arrays to work in, and room for the
    /// `hi − lo` columns below `hi`. `hi − lo` is at most [`BLOCK_COLUMNS`].
    pub factorize_block: FactorizeBlock<F>,
    /// Eliminates as many of the columns `lo..hi` of a symmetric front as have acceptable pivots, one after the other, and
    /// updates the others of them: the front, `lo`, `hi`, the rule.
    pub eliminate_symmetric: EliminateSymmetric<F>,
    /// Adds the column sums of |L|·|D|·|Lᵀ| of a symmetric front, and returns the largest magnitude in L.
    pub check_lower: unsafe fn(&CheckLower<F>) -> F::Real,
    /// All of this for a front of one pivot and at most [`SINGLE_ROWS`] rows below, with the same bits: the front, the rule. Returns the
    /// largest magnitude in L; `None`, with the column as it was and all else unspecified, where the others have to look closer.
    /// The rule searches by blocks, or all pivots have to be positive.
    pub eliminate_single: EliminateSingle<F>,
}

impl<F: Scalar> std::ops::Deref for SymmetricKernels<F> {
    type Target = Kernels<F>;

    fn deref(&self) -> &Kernels<F> {
        self.general
    }
}

impl<F: Scalar> std::fmt::Debug for SymmetricKernels<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SymmetricKernels({})", self.name)
    }
}

/// Products that several kernels of an instruction set are made of, as functions with that set enabled: inlined into each of
/// them, they would take most of the time in which this crate is compiled.
///
/// # Safety
///
/// As [`Simd`], and as the kernels of these names.
trait Products<F: Scalar>: Simd<F> {
    /// C −= A·Bᵀ.
    unsafe fn gemm_nt(g: &Gemm<F>);
    /// C −= A·Bᵀ, with A as the second factor of each product.
    unsafe fn gemm_nt_last(g: &Gemm<F>);
    /// X := X·L⁻ᵀ.
    unsafe fn trsm(rows: usize, p: usize, l: *const F, ldl: usize, x: *mut F, ldx: usize);
}

/// Functions with their instruction set enabled; the generic bodies are inlined into them.
macro_rules! entry_points {
    ($module:ident, $float:ty, $simd:ty, $last:ident, $name:literal, ($($features:literal)?)) => {
        mod $module {
            use super::*;

            const _: usize = <$simd as Simd<$float>>::W;

            // SAFETY of the functions: those of the bodies, and that the processor has the
            // features, which whoever hands the table out has found.
            $(#[target_feature(enable = $features)])?
            unsafe fn gemm_nt(g: &Gemm<$float>) {
                // SAFETY: the caller's contract.
                unsafe { dense::gemm::<$float, $simd, true, false>(g) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gemm_nn(g: &Gemm<$float>) {
                // SAFETY: the caller's contract.
                unsafe { dense::gemm::<$float, $simd, false, false>(g) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn trsm(
                rows: usize,
                p: usize,
                l: *const $float,
                ldl: usize,
                x: *mut $float,
                ldx: usize,
            ) {
                // SAFETY: the caller's contract.
                unsafe { dense::trsm::<$float, $simd>(rows, p, l, ldl, x, ldx) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn eliminate_columns(
                front: &FrontPanels<$float>,
                lo: usize,
                hi: usize,
                policy: &ResolvedPivots<<$float as Scalar>::Real>,
                events: &mut PivotEvents,
            ) -> usize {
                // SAFETY: the caller's contract.
                unsafe { pivot::eliminate_columns::<$float, $simd>(front, lo, hi, policy, events) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn check_front(f: &CheckFront<$float>) {
                // SAFETY: the caller's contract.
                unsafe { dense::check_front::<$float, $simd>(f) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn weigh_front(f: &CheckFront<$float>) {
                // SAFETY: the caller's contract.
                unsafe { dense::weigh_front::<$float, $simd>(f) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gemv(
                n: usize,
                k: usize,
                a: *const $float,
                lda: usize,
                x: *const $float,
                y: *mut $float,
            ) {
                // SAFETY: the caller's contract.
                unsafe { dense::gemv::<$float, $simd>(n, k, a, lda, x, y) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gemv_transposed(
                n: usize,
                k: usize,
                a: *const $float,
                lda: usize,
                x: *const $float,
                y: *mut $float,
            ) {
                // SAFETY: the caller's contract.
                unsafe { dense::gemv_transposed::<$float, $simd>(n, k, a, lda, x, y) }
            }

            last_product!($last, $float, $simd, ($($features)?));

            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn gemm_lower(g: &Gemm<$float>) {
                // SAFETY: the caller's contract.
                unsafe { symmetric::gemm_lower::<$float, $simd>(g) }
            }
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn check_lower(f: &CheckLower<$float>) -> <$float as Scalar>::Real {
                // SAFETY: the caller's contract.
                unsafe { symmetric::check_lower::<$float, $simd>(f) }
            }

            impl Products<$float> for $simd {
                #[inline(always)]
                unsafe fn gemm_nt(g: &Gemm<$float>) {
                    // SAFETY: the caller's contract.
                    unsafe { gemm_nt(g) }
                }
                #[inline(always)]
                unsafe fn gemm_nt_last(g: &Gemm<$float>) {
                    // SAFETY: the caller's contract.
                    unsafe { $last(g) }
                }
                #[inline(always)]
                unsafe fn trsm(
                    rows: usize,
                    p: usize,
                    l: *const $float,
                    ldl: usize,
                    x: *mut $float,
                    ldx: usize,
                ) {
                    // SAFETY: the caller's contract.
                    unsafe { trsm(rows, p, l, ldl, x, ldx) }
                }
            }

            pub(super) static KERNELS: Kernels<$float> = Kernels {
                name: $name,
                gemm_nt,
                gemm_nn,
                trsm,
                eliminate_columns,
                check_front,
                weigh_front,
                gemv,
                gemv_transposed,
            };
        }
    };
}

/// The product with A as the second factor: of real numbers the order of factors does not matter, and there is one function
/// for both.
macro_rules! last_product {
    (gemm_nt, $float:ty, $simd:ty, $features:tt) => {};
    (gemm_nt_last, $float:ty, $simd:ty, ($($features:literal)?)) => {
        $(#[target_feature(enable = $features)])?
        unsafe fn gemm_nt_last(g: &Gemm<$float>) {
            // SAFETY: the caller's contract.
            unsafe { dense::gemm::<$float, $simd, true, true>(g) }
        }
    };
}

/// The same for fronts of one form, beside the others in a module of their own.
macro_rules! symmetric_entry_points {
    ($module:ident, $general:ident, $float:ty, $simd:ty, $hermitian:literal, ($($features:literal)?)) => {
        mod $module {
            use super::*;

            // SAFETY of the functions: as above.
            $(#[target_feature(enable = $features)])?
            unsafe fn times_diagonal(
                rows: usize,
                pivots: usize,
                l: *const $float,
                d: *const $float,
                ld: usize,
                x: *mut $float,
                ldx: usize,
            ) {
                // SAFETY: the caller's contract.
                unsafe {
                    symmetric::times_diagonal::<$float, $simd, $hermitian>(
                        rows, pivots, l, d, ld, x, ldx,
                    );
                }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn factorize_block(
                front: &SymmetricPanel<$float>,
                lo: usize,
                hi: usize,
                rule: &ResolvedSymmetric<<$float as Scalar>::Real>,
                scratch: &mut BlockScratch<$float>,
                x: *mut $float,
            ) -> Progress<<$float as Scalar>::Real> {
                // SAFETY: the caller's contract.
                unsafe {
                    symmetric::factorize_block::<$float, $simd, $hermitian>(
                        front, lo, hi, rule, scratch, x,
                    )
                }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn eliminate_symmetric(
                front: &SymmetricPanel<$float>,
                lo: usize,
                hi: usize,
                rule: &ResolvedSymmetric<<$float as Scalar>::Real>,
            ) -> Progress<<$float as Scalar>::Real> {
                // SAFETY: the caller's contract.
                unsafe {
                    symmetric::eliminate_symmetric::<$float, $simd, $hermitian>(front, lo, hi, rule)
                }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn eliminate_single(
                front: &SingleFront<$float>,
                rule: &ResolvedSymmetric<<$float as Scalar>::Real>,
            ) -> Option<<$float as Scalar>::Real> {
                // SAFETY: the caller's contract.
                unsafe { symmetric::eliminate_single::<$float, $simd, $hermitian>(front, rule) }
            }

            pub(super) static KERNELS: SymmetricKernels<$float> = SymmetricKernels {
                general: &$general::KERNELS,
                form: if $hermitian {
                    Form::Hermitian
                } else {
                    Form::Symmetric
                },
                gemm_lower: $general::gemm_lower,
                times_diagonal,
                factorize_block,
                eliminate_symmetric,
                check_lower: $general::check_lower,
                eliminate_single,
            };
        }
    };
}

/// All kernels of one instruction set. Of each type: the module, the vectors, the product with A as the second factor, and the
/// modules of symmetric fronts, each with whether it is for Hermitian ones.
macro_rules! instruction_set {
    ($name:literal, $features:tt, $($module:ident: $float:ty, $simd:ty, $last:ident, [$($of:tt)*];)*) => {
        $(
            entry_points!($module, $float, $simd, $last, $name, $features);
            forms!($module, $float, $simd, $features, $($of)*);
        )*
    };
}

macro_rules! forms {
    ($general:ident, $float:ty, $simd:ty, $features:tt, $($form:ident: $hermitian:literal),*) => {
        forms!(@each [$general, $float, $simd, $features] $($form: $hermitian),*);
    };
    (@each $of:tt $($form:ident: $hermitian:literal),*) => {
        $(forms!(@one $of $form: $hermitian);)*
    };
    (@one [$general:ident, $float:ty, $simd:ty, $features:tt] $form:ident: $hermitian:literal) => {
        symmetric_entry_points!($form, $general, $float, $simd, $hermitian, $features);
    };
}

instruction_set!(
    "portable", (),
    portable_f64: f64, Portable<2>, gemm_nt, [symmetric_portable_f64: false];
    portable_f32: f32, Portable<4>, gemm_nt, [symmetric_portable_f32: false];
    portable_c64: Complex<f64>, Portable<1>, gemm_nt_last,
        [symmetric_portable_c64: false, hermitian_portable_c64: true];
    portable_c32: Complex<f32>, Portable<2>, gemm_nt_last,
        [symmetric_portable_c32: false, hermitian_portable_c32: true];
);

#[cfg(target_arch = "x86_64")]
instruction_set!(
    "avx2", ("avx2,fma"),
    avx2_f64: f64, simd::Avx2, gemm_nt, [symmetric_avx2_f64: false];
    avx2_f32: f32, simd::Avx2, gemm_nt, [symmetric_avx2_f32: false];
    avx2_c64: Complex<f64>, simd::Avx2, gemm_nt_last,
        [symmetric_avx2_c64: false, hermitian_avx2_c64: true];
    avx2_c32: Complex<f32>, simd::Avx2, gemm_nt_last,
        [symmetric_avx2_c32: false, hermitian_avx2_c32: true];
);

#[cfg(target_arch = "x86_64")]
instruction_set!(
    "avx512", ("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"),
    avx512_f64: f64, simd::Avx512, gemm_nt, [symmetric_avx512_f64: false];
    avx512_f32: f32, simd::Avx512, gemm_nt, [symmetric_avx512_f32: false];
    avx512_c64: Complex<f64>, simd::Avx512, gemm_nt_last,
        [symmetric_avx512_c64: false, hermitian_avx512_c64: true];
    avx512_c32: Complex<f32>, simd::Avx512, gemm_nt_last,
        [symmetric_avx512_c32: false, hermitian_avx512_c32: true];
);

/// Types that have kernels: `f32`, `f64` and the complex numbers of both.
pub trait FrontalScalar: Scalar {
    /// The kernels for every instruction set of this machine, best first.
    fn all_kernels() -> &'static [&'static Kernels<Self>];

    /// The best kernels of this machine.
    fn kernels() -> &'static Kernels<Self> {
        Self::all_kernels()[0]
    }

    /// As [`all_kernels`](Self::all_kernels), with those for symmetric fronts of this form.
    fn all_symmetric_kernels(form: Form) -> &'static [&'static SymmetricKernels<Self>];

    /// The best of them.
    fn symmetric_kernels(form: Form) -> &'static SymmetricKernels<Self> {
        Self::all_symmetric_kernels(form)[0]
    }
}

/// The tables of the instruction sets that this machine has, best first.
macro_rules! found {
    ($table:ty, $portable:ident, $avx2:ident, $avx512:ident) => {{
        static FOUND: OnceLock<Vec<&'static $table>> = OnceLock::new();
        FOUND.get_or_init(|| {
            let mut found = Vec::new();
            #[cfg(target_arch = "x86_64")]
            {
                let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
                if avx2
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                {
                    found.push(&$avx512::KERNELS);
                }
                if avx2 {
                    found.push(&$avx2::KERNELS);
                }
            }
            found.push(&$portable::KERNELS);
            found
        })
    }};
}

macro_rules! frontal_scalar {
    (
        $float:ty, [$($general:ident),*], symmetric: [$($symmetric:ident),*], hermitian: [$($hermitian:ident),*]
    ) => {
        impl FrontalScalar for $float {
            fn all_kernels() -> &'static [&'static Kernels<Self>] {
                found!(Kernels<$float>, $($general),*)
            }

            fn all_symmetric_kernels(form: Form) -> &'static [&'static SymmetricKernels<Self>] {
                match form {
                    Form::Symmetric => found!(SymmetricKernels<$float>, $($symmetric),*),
                    Form::Hermitian => found!(SymmetricKernels<$float>, $($hermitian),*),
                }
            }
        }
    };
}

frontal_scalar!(
    f64,
    [portable_f64, avx2_f64, avx512_f64],
    symmetric: [symmetric_portable_f64, symmetric_avx2_f64, symmetric_avx512_f64],
    hermitian: [symmetric_portable_f64, symmetric_avx2_f64, symmetric_avx512_f64]
);
frontal_scalar!(
    f32,
    [portable_f32, avx2_f32, avx512_f32],
    symmetric: [symmetric_portable_f32, symmetric_avx2_f32, symmetric_avx512_f32],
    hermitian: [symmetric_portable_f32, symmetric_avx2_f32, symmetric_avx512_f32]
);
frontal_scalar!(
    Complex<f64>,
    [portable_c64, avx2_c64, avx512_c64],
    symmetric: [symmetric_portable_c64, symmetric_avx2_c64, symmetric_avx512_c64],
    hermitian: [hermitian_portable_c64, hermitian_avx2_c64, hermitian_avx512_c64]
);
frontal_scalar!(
    Complex<f32>,
    [portable_c32, avx2_c32, avx512_c32],
    symmetric: [symmetric_portable_c32, symmetric_avx2_c32, symmetric_avx512_c32],
    hermitian: [hermitian_portable_c32, hermitian_avx2_c32, hermitian_avx512_c32]
);
