//! Handles that free themselves, matrices, and what an error must look like.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use luge_c::luge_status::*;
use luge_c::*;

/// A handle of a test, freed at its end.
pub struct Owned<H> {
    pub handle: *mut H,
    free: unsafe extern "C" fn(*mut *mut H) -> luge_status,
}

impl<H> Drop for Owned<H> {
    fn drop(&mut self) {
        // SAFETY: the handle is NULL or was made by the call that goes with `free`.
        let status = unsafe { (self.free)(&mut self.handle) };
        assert!(status == LUGE_OK && self.handle.is_null());
    }
}

/// Has `make` make a handle.
pub fn made<H>(
    free: unsafe extern "C" fn(*mut *mut H) -> luge_status,
    make: impl FnOnce(*mut *mut H) -> luge_status,
) -> Owned<H> {
    let mut owned = Owned {
        handle: null_mut(),
        free,
    };
    ok(make(&mut owned.handle));
    assert!(!owned.handle.is_null());
    owned
}

#[track_caller]
pub fn ok(status: luge_status) {
    assert_eq!(status, LUGE_OK, "{}", message());
}

pub fn message() -> String {
    // SAFETY: the text is valid until the next failure of this thread.
    let text = unsafe { CStr::from_ptr(luge_last_error_message()) };
    text.to_str().unwrap().to_owned()
}

/// The last error of this thread.
pub fn last_error() -> luge_error {
    // SAFETY: zeros are numbers.
    let mut error: luge_error = unsafe { std::mem::zeroed() };
    error.size = size_of::<luge_error>();
    // SAFETY: the size is set.
    ok(unsafe { luge_last_error(&mut error) });
    error
}

/// Checks that a call failed with `expected` and a message that has `words`; answers with the numbers of the error.
#[track_caller]
pub fn refused(status: luge_status, expected: luge_status, words: &str) -> luge_error {
    assert_eq!(status, expected, "{}", message());
    let message = message();
    assert!(message.contains(words), "{message:?} has no {words:?}");
    let error = last_error();
    assert_eq!(error.status, expected);
    error
}

/// A matrix and the arrays that it is in.
#[derive(Clone)]
pub struct Arrays<I = i32, T = f64> {
    pub n: i64,
    pub offsets: Vec<I>,
    pub indices: Vec<I>,
    pub values: Vec<T>,
}

impl<I, T> Arrays<I, T> {
    pub fn view(&self) -> luge_matrix {
        luge_matrix {
            size: size_of::<luge_matrix>(),
            n: self.n,
            nnz: self.indices.len() as i64,
            format: luge_format::LUGE_CSR as i32,
            index_type: i32::from(size_of::<I>() == 8),
            value_type: i32::from(size_of::<T>() == 4),
            index_base: 0,
            offsets: self.offsets.as_ptr().cast(),
            indices: self.indices.as_ptr().cast(),
            values: self.values.as_ptr().cast(),
        }
    }
}

/// The matrix with these rows, by rows; zeros are not stored.
pub fn dense<const N: usize>(rows: [[f64; N]; N]) -> Arrays {
    let mut arrays = Arrays {
        n: N as i64,
        offsets: vec![0],
        indices: Vec::new(),
        values: Vec::new(),
    };
    for row in rows {
        for (j, value) in row
            .into_iter()
            .enumerate()
            .filter(|&(_, value)| value != 0.0)
        {
            arrays.indices.push(j as i32);
            arrays.values.push(value);
        }
        arrays.offsets.push(arrays.indices.len() as i32);
    }
    arrays
}

/// An unsymmetric matrix with entries on the diagonal, and its determinant.
pub const GENERAL: [[f64; 3]; 3] = [[4.0, 1.0, 0.0], [2.0, 5.0, 1.0], [0.0, 3.0, 6.0]];
pub const DETERMINANT: f64 = 96.0;

/// A · x, or its transpose.
pub fn product<const N: usize>(rows: &[[f64; N]; N], x: &[f64], transpose: bool) -> Vec<f64> {
    let entry = |i: usize, j: usize| if transpose { rows[j][i] } else { rows[i][j] };
    let row = |i| (0..N).map(|j| entry(i, j) * x[j]).sum();
    (0..N).map(row).collect()
}

#[track_caller]
pub fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let distances = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    let distance = distances.fold(0.0, f64::max);
    assert!(distance < 1e-13, "{found:?} is not {expected:?}");
}

pub fn options(chosen: &[(luge_int_option, i64)]) -> Owned<luge_options> {
    // SAFETY: there is room for a handle.
    let options = made(luge_options_free, |out| unsafe { luge_options_create(out) });
    for &(option, value) in chosen {
        // SAFETY: the handle is one.
        ok(unsafe { luge_options_set_int(options.handle, option as i32, value) });
    }
    options
}

pub fn solver(chosen: &[(luge_int_option, i64)]) -> Owned<luge_solver> {
    let cpu = (
        luge_int_option::LUGE_OPTION_BACKEND,
        luge_backend::LUGE_BACKEND_CPU as i64,
    );
    let chosen: Vec<_> = [cpu].into_iter().chain(chosen.iter().copied()).collect();
    let options = options(&chosen);
    // SAFETY: both are what the call takes.
    made(luge_solver_free, |out| unsafe {
        luge_solver_create(options.handle, out)
    })
}

pub fn analysis(solver: &Owned<luge_solver>, matrix: &luge_matrix) -> Owned<luge_analysis> {
    // SAFETY: all are what the call takes.
    made(luge_analysis_free, |out| unsafe {
        luge_analyze(solver.handle, matrix, out)
    })
}

pub fn factors(solver: &Owned<luge_solver>, matrix: &luge_matrix) -> Owned<luge_factors> {
    let analysis = analysis(solver, matrix);
    // SAFETY: all are what the call takes.
    made(luge_factors_free, |out| unsafe {
        luge_factorize(analysis.handle, matrix, out)
    })
}

pub fn symmetric() -> (luge_int_option, i64) {
    (
        luge_int_option::LUGE_OPTION_KIND,
        luge_kind::LUGE_KIND_SYMMETRIC as i64,
    )
}

/// The solution for right-hand sides one after another.
pub fn solved(factors: &Owned<luge_factors>, b: &[f64], transpose: bool) -> Vec<f64> {
    let n = inform(factors).n;
    let mut x = vec![f64::NAN; b.len()];
    // SAFETY: both have so many columns of n numbers.
    ok(unsafe {
        luge_solve(
            factors.handle,
            i32::from(transpose),
            b.len() as i64 / n,
            b.as_ptr(),
            n,
            x.as_mut_ptr(),
            n,
            null_mut(),
        )
    });
    x
}

/// A structure that is zero but for its size.
pub fn sized<S>() -> S {
    assert!(size_of::<S>() >= size_of::<usize>());
    // SAFETY: the structures of the header are plain numbers that begin with their size.
    unsafe {
        let mut structure: S = std::mem::zeroed();
        (&raw mut structure).cast::<usize>().write(size_of::<S>());
        structure
    }
}

pub fn inform(factors: &Owned<luge_factors>) -> luge_inform {
    let mut inform: luge_inform = sized();
    // SAFETY: the handle is one, and the size is set.
    ok(unsafe { luge_factors_inform(factors.handle, &mut inform) });
    inform
}

/// The text that a call writes, given capacity, room and length.
pub fn text(call: impl Fn(usize, *mut std::ffi::c_char, *mut usize) -> luge_status) -> String {
    let mut length = 0;
    ok(call(0, null_mut(), &mut length));
    let mut room = vec![b'#'; length + 2];
    ok(call(length + 1, room.as_mut_ptr().cast(), null_mut()));
    assert_eq!(
        room.pop(),
        Some(b'#'),
        "nothing is written behind the capacity"
    );
    assert_eq!(room.pop(), Some(0));
    String::from_utf8(room).unwrap()
}

pub fn no_pointer() -> *const c_void {
    null()
}
