//! Solves, with vectors on the host.

use luge::Factors;
use luge::num_complex::Complex;

use crate::factors::{FactorsOf, FactorsState, luge_factors, not_symmetric, of_type};
use crate::handle::{
    array, array_mut, check_array, check_wanted, fill_wanted, guarded, read, size, state,
};
use crate::matrix::not_one_of;
use crate::report::luge_accuracy;
use crate::status::{Failure, Outcome, luge_status};

/// What to solve with.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_operation {
    /// A*x = b.
    LUGE_NO_TRANSPOSE = 0,
    /// A^T*x = b.
    LUGE_TRANSPOSE = 1,
    /// A^H*x = b, with the conjugate transpose, which of a real matrix is the transpose.
    LUGE_CONJUGATE_TRANSPOSE = 2,
}

/// A part of the factors of a symmetric matrix, A = F*D*F^T, or of a Hermitian one, A = F*D*F^H: F is the unit lower triangle L with its rows where they are in
/// A, scaled.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_part {
    /// F.
    LUGE_PART_LOWER = 0,
    /// D, whose blocks are of order 1 and 2; zero pivots make zeros.
    LUGE_PART_DIAGONAL = 1,
    /// F^T; of a Hermitian matrix F^H.
    LUGE_PART_UPPER = 2,
}

impl luge_operation {
    /// The operation of this number.
    pub(crate) fn of(number: i32) -> Outcome<Self> {
        match number {
            0 => Ok(Self::LUGE_NO_TRANSPOSE),
            1 => Ok(Self::LUGE_TRANSPOSE),
            2 => Ok(Self::LUGE_CONJUGATE_TRANSPOSE),
            other => Err(not_one_of("operation", other, "luge_operation")),
        }
    }
}

/// Right-hand sides or solutions in memory of the caller, by columns.
struct Vectors<T> {
    at: *mut T,
    n: usize,
    nrhs: usize,
    ld: usize,
    name: &'static str,
}

impl<T: Copy> Vectors<T> {
    /// Vectors that are where there may be some.
    fn new(at: *mut T, n: usize, nrhs: i64, ld: i64, name: &'static str) -> Outcome<Self> {
        let nrhs = size(nrhs, "nrhs")?;
        let asked = ld;
        let ld = size(ld, "leading dimension")?;
        if ld < n {
            let message =
                format!("the leading dimension of `{name}` is {asked}; the matrix has order {n}");
            return Err(Failure::argument(message));
        }
        let vectors = Self {
            at,
            n,
            nrhs,
            ld,
            name,
        };
        check_array(at.cast_const(), vectors.extent()?, name)?;
        Ok(vectors)
    }

    /// Numbers from the first to the last one.
    fn extent(&self) -> Outcome<usize> {
        if self.is_empty() {
            return Ok(0);
        }
        let before = (self.nrhs - 1).checked_mul(self.ld);
        let extent = before.and_then(|before| before.checked_add(self.n));
        extent.ok_or_else(|| Failure::argument(format!("`{}` is larger than memory", self.name)))
    }

    fn is_empty(&self) -> bool {
        self.n == 0 || self.nrhs == 0
    }

    fn is_contiguous(&self) -> bool {
        self.ld == self.n || self.nrhs == 1
    }

    /// All numbers without the gaps between columns.
    ///
    /// # Safety
    ///
    /// The memory is as large as the sizes say, and nobody writes to it during the call.
    unsafe fn gather(&self) -> Outcome<Vec<T>> {
        // SAFETY: as the caller says.
        let all = unsafe { array(self.at.cast_const(), self.extent()?, self.name) }?;
        let columns = all.chunks(self.ld).map(|column| &column[..self.n]);
        Ok(columns.collect::<Vec<_>>().concat())
    }

    /// Writes the columns to their places; the gaps between them stay.
    ///
    /// # Safety
    ///
    /// The memory is as large as the sizes say, and nobody else uses it during the call.
    unsafe fn scatter(&self, from: &[T]) -> Outcome {
        for (k, column) in from.chunks_exact(self.n).enumerate() {
            // SAFETY: column k starts there.
            let to = self.at.wrapping_add(k * self.ld);
            // SAFETY: as the caller says.
            unsafe { array_mut(to, self.n, self.name) }?.copy_from_slice(column);
        }
        Ok(())
    }
}

/// Solves A*X = B, A^T*X = B or A^H*X = B, measures each solution, and refines it until that no longer helps.
///
/// A solution whose backward error stays above the target is returned all the same, with LUGE_WARNING_TARGET_MISSED in
/// `accuracy->warnings`.
///
/// `operation`: one of luge_operation. `nrhs`: number of right-hand sides, at least 0. `b`: input, `nrhs` columns of n numbers,
/// each `ldb` numbers after the one before; `ldb` is at least n. `x`: output, likewise, and may be `b` itself with
/// `ldx` = `ldb`. `accuracy`: output, or NULL; `accuracy->size` is set by the caller.
///
/// Errors: LUGE_ERROR_TYPE, LUGE_ERROR_RHS_NOT_FINITE, LUGE_ERROR_SOLUTION_NOT_FINITE, LUGE_ERROR_OUT_OF_MEMORY,
/// LUGE_ERROR_CANCELLED, LUGE_ERROR_BUSY, LUGE_ERROR_DEVICE. After an error `x` is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    b: *const f64,
    ldb: i64,
    x: *mut f64,
    ldx: i64,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { solve(factors, operation, nrhs, (b, ldb), (x, ldx), accuracy) }
}

/// As luge_solve, for float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_f32(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    b: *const f32,
    ldb: i64,
    x: *mut f32,
    ldx: i64,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { solve(factors, operation, nrhs, (b, ldb), (x, ldx), accuracy) }
}

/// As luge_solve, for complex numbers of double.
///
/// `b`, `x`: numbers of two double each, the real and the imaginary part; `ldb` and `ldx` count numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_complex(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    b: *const f64,
    ldb: i64,
    x: *mut f64,
    ldx: i64,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    let (b, x) = (b.cast::<Complex<f64>>(), x.cast::<Complex<f64>>());
    // SAFETY: as this call requires.
    unsafe { solve(factors, operation, nrhs, (b, ldb), (x, ldx), accuracy) }
}

/// As luge_solve, for complex numbers of float.
///
/// `b`, `x`: numbers of two float each, the real and the imaginary part; `ldb` and `ldx` count numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_complex_f32(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    b: *const f32,
    ldb: i64,
    x: *mut f32,
    ldx: i64,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    let (b, x) = (b.cast::<Complex<f32>>(), x.cast::<Complex<f32>>());
    // SAFETY: as this call requires.
    unsafe { solve(factors, operation, nrhs, (b, ldb), (x, ldx), accuracy) }
}

/// # Safety
///
/// Pointers are NULL or what the head of luge.h requires of them.
unsafe fn solve<T: FactorsOf>(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    (b, ldb): (*const T, i64),
    (x, ldx): (*mut T, i64),
    accuracy: *mut luge_accuracy,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or a structure.
        let factors: &FactorsState = unsafe {
            check_wanted(accuracy, "accuracy")?;
            state(factors, "factors")?
        };
        let operation = luge_operation::of(operation)?;
        let any = read(&factors.factors)?;
        let typed = of_type::<T>(&any)?;
        let b = Vectors::new(b.cast_mut(), factors.n, nrhs, ldb, "b")?;
        let x = Vectors::new(x, factors.n, nrhs, ldx, "x")?;
        let mut achieved = luge_accuracy::of_nothing();
        if !b.is_empty() {
            let solution;
            // The borrow of b ends with the solve: x may be the same memory.
            (solution, achieved) = if b.is_contiguous() {
                // SAFETY: the memory is as large as the caller says.
                let b = unsafe { array(b.at.cast_const(), b.extent()?, "b") }?;
                solve_columns(typed, operation, b)?
            } else {
                // SAFETY: the memory is as large as the caller says.
                solve_columns(typed, operation, &unsafe { b.gather() }?)?
            };
            // SAFETY: the memory is as large as the caller says, and b is not borrowed any more.
            unsafe { x.scatter(&solution) }?;
        }
        // SAFETY: as above.
        unsafe { fill_wanted(accuracy, "accuracy", achieved) }
    })
}

/// Solutions for right-hand sides that stand one after another, and how good they are.
fn solve_columns<T: FactorsOf>(
    factors: &Factors<T>,
    operation: luge_operation,
    b: &[T],
) -> Outcome<(Vec<T>, luge_accuracy)> {
    let nrhs = b.len() / factors.n();
    let solution = match operation {
        luge_operation::LUGE_NO_TRANSPOSE => factors.solve_many(b, nrhs),
        luge_operation::LUGE_TRANSPOSE => factors.solve_transpose_many(b, nrhs),
        luge_operation::LUGE_CONJUGATE_TRANSPOSE => factors.solve_adjoint_many(b, nrhs),
    }?;
    let accuracy = luge_accuracy::of_solution(&solution.inform);
    Ok((solution.x, accuracy))
}

/// Replaces B by the solution of A*X = B, A^T*X = B or A^H*X = B, by one pass of triangular solves where that is known to be good
/// enough for any right-hand side: where growth and scaling bound its backward error by a hundred times the target. Otherwise
/// each solution is measured, and refined until it reaches the target.
///
/// For callers that compute a residual of their own, as a Newton iteration does; luge_solve always measures, and refines further.
///
/// `operation`: one of luge_operation. `nrhs`: number of right-hand sides, at least 0. `x`: input and output, `nrhs` columns of n
/// numbers, each `ldx` numbers after the one before; `ldx` is at least n, and if it is n nothing is copied. `accuracy`: output,
/// or NULL; `accuracy->size` is set by the caller.
///
/// Errors: those of luge_solve. After an error `x` is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_in_place(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    x: *mut f64,
    ldx: i64,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { solve_in_place(factors, operation, nrhs, (x, ldx), accuracy) }
}

/// As luge_solve_in_place, for float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_in_place_f32(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    x: *mut f32,
    ldx: i64,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { solve_in_place(factors, operation, nrhs, (x, ldx), accuracy) }
}

/// As luge_solve_in_place, for complex numbers of double.
///
/// `x`: numbers of two double each; `ldx` counts numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_in_place_complex(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    x: *mut f64,
    ldx: i64,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    let x = x.cast::<Complex<f64>>();
    // SAFETY: as this call requires.
    unsafe { solve_in_place(factors, operation, nrhs, (x, ldx), accuracy) }
}

/// As luge_solve_in_place, for complex numbers of float.
///
/// `x`: numbers of two float each; `ldx` counts numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_in_place_complex_f32(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    x: *mut f32,
    ldx: i64,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    let x = x.cast::<Complex<f32>>();
    // SAFETY: as this call requires.
    unsafe { solve_in_place(factors, operation, nrhs, (x, ldx), accuracy) }
}

/// # Safety
///
/// Pointers are NULL or what the head of luge.h requires of them.
unsafe fn solve_in_place<T: FactorsOf>(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    (x, ldx): (*mut T, i64),
    accuracy: *mut luge_accuracy,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or a structure.
        let factors: &FactorsState = unsafe {
            check_wanted(accuracy, "accuracy")?;
            state(factors, "factors")?
        };
        let operation = luge_operation::of(operation)?;
        let any = read(&factors.factors)?;
        let typed = of_type::<T>(&any)?;
        let x = Vectors::new(x, factors.n, nrhs, ldx, "x")?;
        let mut achieved = luge_accuracy::of_nothing();
        // SAFETY: the memory is as large as the caller says, and this call has it for itself.
        unsafe {
            in_place(&x, |x| {
                let accuracy = match operation {
                    luge_operation::LUGE_NO_TRANSPOSE => typed.solve_in_place(x),
                    luge_operation::LUGE_TRANSPOSE => typed.solve_transpose_in_place(x),
                    luge_operation::LUGE_CONJUGATE_TRANSPOSE => typed.solve_adjoint_in_place(x),
                };
                achieved = accuracy?.into();
                Ok(())
            })?;
            fill_wanted(accuracy, "accuracy", achieved)
        }
    })
}

/// Has `solve` overwrite vectors, if there are any, that stand one after another.
///
/// # Safety
///
/// The memory of `x` is as large as its sizes say, and nobody else uses it during the call.
unsafe fn in_place<T: Copy>(x: &Vectors<T>, solve: impl FnOnce(&mut [T]) -> Outcome) -> Outcome {
    if x.is_empty() {
        return Ok(());
    }
    if x.is_contiguous() {
        // SAFETY: as the caller says.
        return solve(unsafe { array_mut(x.at, x.extent()?, x.name) }?);
    }
    // SAFETY: as the caller says.
    unsafe {
        let mut gathered = x.gather()?;
        solve(&mut gathered)?;
        x.scatter(&gathered)
    }
}

/// Replaces B by the solution of F*X = B, D*X = B or F^T*X = B, where A = F*D*F^T is symmetric; one after another in this order
/// they solve with A. Nothing is measured or refined.
///
/// `part`: one of luge_part. `nrhs`, `x`, `ldx`: as for luge_solve_in_place. The entry of each pivot is in the place of its
/// column.
///
/// Errors: LUGE_ERROR_NOT_APPLICABLE if the matrix was factorized as a general one; otherwise those of luge_solve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_part(
    factors: *const luge_factors,
    part: i32,
    nrhs: i64,
    x: *mut f64,
    ldx: i64,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { solve_part(factors, part, nrhs, (x, ldx)) }
}

/// As luge_solve_part, for float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_part_f32(
    factors: *const luge_factors,
    part: i32,
    nrhs: i64,
    x: *mut f32,
    ldx: i64,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { solve_part(factors, part, nrhs, (x, ldx)) }
}

/// As luge_solve_part, for complex numbers of double.
///
/// `x`: numbers of two double each; `ldx` counts numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_part_complex(
    factors: *const luge_factors,
    part: i32,
    nrhs: i64,
    x: *mut f64,
    ldx: i64,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { solve_part(factors, part, nrhs, (x.cast::<Complex<f64>>(), ldx)) }
}

/// As luge_solve_part, for complex numbers of float.
///
/// `x`: numbers of two float each; `ldx` counts numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_part_complex_f32(
    factors: *const luge_factors,
    part: i32,
    nrhs: i64,
    x: *mut f32,
    ldx: i64,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { solve_part(factors, part, nrhs, (x.cast::<Complex<f32>>(), ldx)) }
}

/// # Safety
///
/// Pointers are NULL or what the head of luge.h requires of them.
unsafe fn solve_part<T: FactorsOf>(
    factors: *const luge_factors,
    part: i32,
    nrhs: i64,
    (x, ldx): (*mut T, i64),
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        let factors: &FactorsState = unsafe { state(factors, "factors") }?;
        let any = read(&factors.factors)?;
        let typed = of_type::<T>(&any)?;
        let x = Vectors::new(x, factors.n, nrhs, ldx, "x")?;
        let ldlt = typed.ldlt()?.ok_or_else(not_symmetric)?;
        let solve = |x: &mut [T]| match part {
            0 => Ok(ldlt.solve_lower(x)?),
            1 => Ok(ldlt.solve_diagonal(x)?),
            2 => Ok(ldlt.solve_upper(x)?),
            other => Err(not_one_of("part", other, "luge_part")),
        };
        // Also where there are no vectors to find it out.
        solve(&mut [])?;
        // SAFETY: the memory is as large as the caller says, and this call has it for itself.
        unsafe { in_place(&x, solve) }
    })
}

/// D of a symmetric matrix and the order of elimination.
///
/// `order`: output of n numbers, or NULL: the column of the matrix whose pivot is the k-th. `d`: output of 2*n numbers, or NULL:
/// number 2*k is D(k, k), number 2*k + 1 is D(k + 1, k), zero unless pivots k and k + 1 are one of order 2.
///
/// Errors: LUGE_ERROR_NOT_APPLICABLE if the matrix was factorized as a general one; LUGE_ERROR_TYPE if it is not of double.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_pivots(
    factors: *const luge_factors,
    order: *mut i64,
    d: *mut f64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        let factors: &FactorsState = unsafe { state(factors, "factors") }?;
        let any = read(&factors.factors)?;
        let ldlt = of_type::<f64>(&any)?.ldlt()?.ok_or_else(not_symmetric)?;
        let n = factors.n;
        check_array(
            order.cast_const(),
            if order.is_null() { 0 } else { n },
            "order",
        )?;
        if !d.is_null() {
            // SAFETY: the caller passes room for as many numbers.
            unsafe { array_mut(d, 2 * n, "d") }?.copy_from_slice(ldlt.d());
        }
        if !order.is_null() {
            // SAFETY: as above.
            let order = unsafe { array_mut(order, n, "order") }?;
            order
                .iter_mut()
                .zip(ldlt.order())
                .for_each(|(to, &k)| *to = k as i64);
        }
        Ok(())
    })
}
