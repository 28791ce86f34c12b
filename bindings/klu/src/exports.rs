//! The functions of klu.h, by their names: `klu_*` and `klu_z_*` with `int`, `klu_l_*` and `klu_zl_*` with `SuiteSparse_long`.
//!
//! Each documents nothing of its own: klu.h is the reference, and the front page of this crate says what differs.

use std::ffi::c_void;

use num_complex::Complex;

use crate::layout::{Common, Numeric, Symbolic};
use crate::report::{Places, Triangle};
use crate::solve::System;
use crate::{call, calls, handle, memory, report, scale, solve};

type C = Complex<f64>;

/// The functions that do not depend on the field.
macro_rules! of_integer {
    (
        $int:ty, $defaults:ident, $analyze:ident, $analyze_given:ident, $free_symbolic:ident,
        $malloc:ident, $free:ident, $realloc:ident
    ) => {
        #[doc = concat!("`", stringify!($defaults), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $defaults(common: *mut Common<$int>) -> $int {
            // SAFETY: the caller passes null or room for the structure.
            unsafe { call::defaults(common) }
        }

        #[doc = concat!("`", stringify!($analyze), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $analyze(
            n: $int,
            ap: *const $int,
            ai: *const $int,
            common: *mut Common<$int>,
        ) -> *mut Symbolic<$int> {
            // SAFETY: the caller passes what klu.h asks for, or null.
            unsafe { calls::analyze(n, ap, ai, common) }
        }

        #[doc = concat!("`", stringify!($analyze_given), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $analyze_given(
            n: $int,
            ap: *const $int,
            ai: *const $int,
            p: *const $int,
            q: *const $int,
            common: *mut Common<$int>,
        ) -> *mut Symbolic<$int> {
            // SAFETY: as above.
            unsafe { calls::analyze_given(n, ap, ai, p, q, common) }
        }

        #[doc = concat!("`", stringify!($free_symbolic), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $free_symbolic(
            symbolic: *mut *mut Symbolic<$int>,
            common: *mut Common<$int>,
        ) -> $int {
            // SAFETY: as above.
            unsafe { handle::free_symbolic(symbolic, common) }
        }

        #[doc = concat!("`", stringify!($malloc), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $malloc(
            n: usize,
            size: usize,
            common: *mut Common<$int>,
        ) -> *mut c_void {
            // SAFETY: as above.
            unsafe { memory::malloc(n, size, common) }
        }

        #[doc = concat!("`", stringify!($free), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $free(
            p: *mut c_void,
            n: usize,
            size: usize,
            common: *mut Common<$int>,
        ) -> *mut c_void {
            // SAFETY: as above.
            unsafe { memory::free(p, n, size, common) }
        }

        #[doc = concat!("`", stringify!($realloc), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $realloc(
            nnew: usize,
            nold: usize,
            size: usize,
            p: *mut c_void,
            common: *mut Common<$int>,
        ) -> *mut c_void {
            // SAFETY: as above.
            unsafe { memory::realloc((nnew, nold, size), p, common) }
        }
    };
}

of_integer!(
    i32,
    klu_defaults,
    klu_analyze,
    klu_analyze_given,
    klu_free_symbolic,
    klu_malloc,
    klu_free,
    klu_realloc
);
of_integer!(
    i64,
    klu_l_defaults,
    klu_l_analyze,
    klu_l_analyze_given,
    klu_l_free_symbolic,
    klu_l_malloc,
    klu_l_free,
    klu_l_realloc
);

/// The functions that do.
macro_rules! of_field {
    (
        $int:ty, $field:ty, $factor:ident, $refactor:ident, $solve:ident, $free_numeric:ident,
        $rcond:ident, $condest:ident, $rgrowth:ident, $flops:ident, $sort:ident, $scale:ident
    ) => {
        #[doc = concat!("`", stringify!($factor), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $factor(
            ap: *const $int,
            ai: *const $int,
            ax: *const f64,
            symbolic: *const Symbolic<$int>,
            common: *mut Common<$int>,
        ) -> *mut Numeric<$int> {
            // SAFETY: the caller passes what klu.h asks for, or null.
            unsafe { calls::factor::<_, $field>((ap, ai, ax.cast()), symbolic, common) }
        }

        #[doc = concat!("`", stringify!($refactor), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $refactor(
            ap: *const $int,
            ai: *const $int,
            ax: *const f64,
            symbolic: *const Symbolic<$int>,
            numeric: *mut Numeric<$int>,
            common: *mut Common<$int>,
        ) -> $int {
            let matrix = (ap, ai, ax.cast());
            // SAFETY: as above.
            unsafe { calls::refactor::<_, $field>(matrix, (symbolic, numeric), common) }
        }

        #[doc = concat!("`", stringify!($solve), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $solve(
            symbolic: *const Symbolic<$int>,
            numeric: *const Numeric<$int>,
            ldim: $int,
            nrhs: $int,
            b: *mut f64,
            common: *mut Common<$int>,
        ) -> $int {
            let (pair, shape) = ((symbolic, numeric), (ldim, nrhs));
            let b: *mut $field = b.cast();
            // SAFETY: as above.
            unsafe { solve::solve(pair, shape, b, System::Plain, common) }
        }

        #[doc = concat!("`", stringify!($free_numeric), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $free_numeric(
            numeric: *mut *mut Numeric<$int>,
            common: *mut Common<$int>,
        ) -> $int {
            // SAFETY: as above.
            unsafe { handle::free_numeric(numeric, common) }
        }

        #[doc = concat!("`", stringify!($rcond), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $rcond(
            symbolic: *const Symbolic<$int>,
            numeric: *const Numeric<$int>,
            common: *mut Common<$int>,
        ) -> $int {
            // SAFETY: as above.
            unsafe { report::rcond::<_, $field>((symbolic, numeric), common) }
        }

        #[doc = concat!("`", stringify!($condest), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $condest(
            ap: *const $int,
            ax: *const f64,
            symbolic: *const Symbolic<$int>,
            numeric: *const Numeric<$int>,
            common: *mut Common<$int>,
        ) -> $int {
            let ax: *const $field = ax.cast();
            // SAFETY: as above.
            unsafe { report::condest((ap, ax), (symbolic, numeric), common) }
        }

        #[doc = concat!("`", stringify!($rgrowth), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $rgrowth(
            ap: *const $int,
            ai: *const $int,
            ax: *const f64,
            symbolic: *const Symbolic<$int>,
            numeric: *const Numeric<$int>,
            common: *mut Common<$int>,
        ) -> $int {
            let ax: *const $field = ax.cast();
            // SAFETY: as above.
            unsafe { report::rgrowth((ap, ai, ax), (symbolic, numeric), common) }
        }

        #[doc = concat!("`", stringify!($flops), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $flops(
            symbolic: *const Symbolic<$int>,
            numeric: *const Numeric<$int>,
            common: *mut Common<$int>,
        ) -> $int {
            // SAFETY: as above.
            unsafe { report::flops::<_, $field>((symbolic, numeric), common) }
        }

        #[doc = concat!("`", stringify!($sort), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $sort(
            symbolic: *const Symbolic<$int>,
            numeric: *mut Numeric<$int>,
            common: *mut Common<$int>,
        ) -> $int {
            // SAFETY: as above.
            unsafe { report::sort::<_, $field>((symbolic, numeric), common) }
        }

        #[doc = concat!("`", stringify!($scale), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $scale(
            scale: $int,
            n: $int,
            ap: *const $int,
            ai: *const $int,
            ax: *const f64,
            rs: *mut f64,
            w: *mut $int,
            common: *mut Common<$int>,
        ) -> $int {
            let ax: *const $field = ax.cast();
            // SAFETY: as above.
            unsafe { scale::scale((scale, n), (ap, ai, ax), (rs, w), common) }
        }
    };
}

of_field!(
    i32,
    f64,
    klu_factor,
    klu_refactor,
    klu_solve,
    klu_free_numeric,
    klu_rcond,
    klu_condest,
    klu_rgrowth,
    klu_flops,
    klu_sort,
    klu_scale
);
of_field!(
    i32,
    C,
    klu_z_factor,
    klu_z_refactor,
    klu_z_solve,
    klu_z_free_numeric,
    klu_z_rcond,
    klu_z_condest,
    klu_z_rgrowth,
    klu_z_flops,
    klu_z_sort,
    klu_z_scale
);
of_field!(
    i64,
    f64,
    klu_l_factor,
    klu_l_refactor,
    klu_l_solve,
    klu_l_free_numeric,
    klu_l_rcond,
    klu_l_condest,
    klu_l_rgrowth,
    klu_l_flops,
    klu_l_sort,
    klu_l_scale
);
of_field!(
    i64,
    C,
    klu_zl_factor,
    klu_zl_refactor,
    klu_zl_solve,
    klu_zl_free_numeric,
    klu_zl_rcond,
    klu_zl_condest,
    klu_zl_rgrowth,
    klu_zl_flops,
    klu_zl_sort,
    klu_zl_scale
);

/// Solves with the transpose, and `klu_extract`: complex ones take more arguments.
macro_rules! of_real {
    ($int:ty, $tsolve:ident, $extract:ident) => {
        #[doc = concat!("`", stringify!($tsolve), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $tsolve(
            symbolic: *const Symbolic<$int>,
            numeric: *const Numeric<$int>,
            ldim: $int,
            nrhs: $int,
            b: *mut f64,
            common: *mut Common<$int>,
        ) -> $int {
            let (pair, shape) = ((symbolic, numeric), (ldim, nrhs));
            // SAFETY: the caller passes what klu.h asks for, or null.
            unsafe { solve::solve(pair, shape, b, System::Transpose, common) }
        }

        #[doc = concat!("`", stringify!($extract), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $extract(
            numeric: *const Numeric<$int>,
            symbolic: *const Symbolic<$int>,
            lp: *mut $int,
            li: *mut $int,
            lx: *mut f64,
            up: *mut $int,
            ui: *mut $int,
            ux: *mut f64,
            fp: *mut $int,
            fi: *mut $int,
            fx: *mut f64,
            p: *mut $int,
            q: *mut $int,
            rs: *mut f64,
            r: *mut $int,
            common: *mut Common<$int>,
        ) -> $int {
            let none = std::ptr::null_mut();
            let parts = [(lp, li, lx), (up, ui, ux), (fp, fi, fx)];
            let parts = parts.map(|(ptr, idx, x)| Triangle {
                ptr,
                idx,
                values: [x, none],
            });
            let places = Places { p, q, rs, r };
            // SAFETY: as above.
            unsafe { report::extract::<_, f64>((numeric, symbolic), parts, places, common) }
        }
    };
}

of_real!(i32, klu_tsolve, klu_extract);
of_real!(i64, klu_l_tsolve, klu_l_extract);

macro_rules! of_complex {
    ($int:ty, $tsolve:ident, $extract:ident) => {
        #[doc = concat!("`", stringify!($tsolve), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $tsolve(
            symbolic: *const Symbolic<$int>,
            numeric: *const Numeric<$int>,
            ldim: $int,
            nrhs: $int,
            b: *mut f64,
            conj_solve: $int,
            common: *mut Common<$int>,
        ) -> $int {
            let system = if conj_solve == 0 {
                System::Transpose
            } else {
                System::Adjoint
            };
            let (pair, shape) = ((symbolic, numeric), (ldim, nrhs));
            // SAFETY: the caller passes what klu.h asks for, or null.
            unsafe { solve::solve::<_, C>(pair, shape, b.cast(), system, common) }
        }

        #[doc = concat!("`", stringify!($extract), "` of klu.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $extract(
            numeric: *const Numeric<$int>,
            symbolic: *const Symbolic<$int>,
            lp: *mut $int,
            li: *mut $int,
            lx: *mut f64,
            lz: *mut f64,
            up: *mut $int,
            ui: *mut $int,
            ux: *mut f64,
            uz: *mut f64,
            fp: *mut $int,
            fi: *mut $int,
            fx: *mut f64,
            fz: *mut f64,
            p: *mut $int,
            q: *mut $int,
            rs: *mut f64,
            r: *mut $int,
            common: *mut Common<$int>,
        ) -> $int {
            let parts = [(lp, li, lx, lz), (up, ui, ux, uz), (fp, fi, fx, fz)];
            let parts = parts.map(|(ptr, idx, x, z)| Triangle {
                ptr,
                idx,
                values: [x, z],
            });
            let places = Places { p, q, rs, r };
            // SAFETY: as above.
            unsafe { report::extract::<_, C>((numeric, symbolic), parts, places, common) }
        }
    };
}

of_complex!(i32, klu_z_tsolve, klu_z_extract);
of_complex!(i64, klu_zl_tsolve, klu_zl_extract);
