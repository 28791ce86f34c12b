//! `klu_analyze`, `klu_analyze_given`, `klu_factor`, `klu_refactor`.

use std::borrow::Cow;
use std::ptr;
use std::sync::Arc;

use crate::analysis::{Analysis, analyze_by};
use crate::call::{Control, Failure, Field, Outcome, guarded};
use crate::factors::{Ended, Factors};
use crate::handle::{Held, Width, numeric, put_numeric, put_symbolic, symbolic};
use crate::input::{Given, array, compared};
use crate::layout::{Common, Integer, Numeric, ORDER_GIVEN, SINGULAR, Symbolic};
use crate::ordering;
use crate::scale::Scaling;

/// A pointer for the caller to an analysis, whose bytes are counted.
fn put_analysis<I: Width>(
    (public, analysis): (Symbolic<I>, Analysis<I>),
    control: Control<I>,
) -> *mut Symbolic<I> {
    let bytes = analysis.bytes();
    control.count_bytes(bytes, 0);
    put_symbolic(public, Arc::new(analysis), bytes)
}

/// `klu_analyze`: orders a matrix by the options of `common`. Null if it fails.
///
/// # Safety
///
/// `common` as [`Control::new`]; `ap` and `ai` as [`Columns::new`].
pub(crate) unsafe fn analyze<I: Width>(
    n: I,
    ap: *const I,
    ai: *const I,
    common: *mut Common<I>,
) -> *mut Symbolic<I> {
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, ptr::null_mut(), |control| {
            let ordering = control.get().ordering.to_i64();
            let analyzed = analyze_by((n, ap, ai), control, ordering, |cols| {
                ordering::by_options(cols, control)
            });
            Ok(put_analysis(analyzed?, control))
        })
    }
}

/// `klu_analyze_given`: takes the permutations `p` and `q`, null for rows or columns as they come. Null if it fails.
///
/// # Safety
///
/// As [`analyze`]; `p` and `q` are null, or lead to n numbers.
pub(crate) unsafe fn analyze_given<I: Width>(
    n: I,
    ap: *const I,
    ai: *const I,
    p: *const I,
    q: *const I,
    common: *mut Common<I>,
) -> *mut Symbolic<I> {
    let taken = |at: *const I, n: usize| -> Outcome<Option<Vec<u32>>> {
        if at.is_null() {
            return Ok(None);
        }
        // SAFETY: as the caller says.
        ordering::permutation(unsafe { array(at, n)? }).map(Some)
    };
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, ptr::null_mut(), |control| {
            let btf = control.get().btf.to_i64() != 0;
            let analyzed = analyze_by((n, ap, ai), control, ORDER_GIVEN, |cols| {
                let order = cols.major_dim();
                let (p, q) = (taken(p, order)?, taken(q, order)?);
                ordering::given(cols, p.as_deref(), q.as_deref(), btf)
            });
            Ok(put_analysis(analyzed?, control))
        })
    }
}
/// The diagonal preference of the caller, as a threshold: from 0 to 1, as KLU takes it.
fn threshold<I: Integer>(control: Control<I>) -> f64 {
    control.set(|common| common.tol = common.tol.clamp(0.0, 1.0));
    let tol = control.get().tol;
    if tol.is_nan() { 1.0 } else { tol }
}

/// Notes a column without a pivot.
fn note_singular<I: Integer>(control: Control<I>, analysis: &Analysis<I>, column: usize) {
    control.set(|common| {
        common.numerical_rank = I::of(column);
        common.singular_col = I::of(analysis.cols[column] as usize);
    });
    control.set_status(SINGULAR);
}

/// Notes that all columns have pivots.
fn note_regular<I: Integer>(control: Control<I>, n: usize) {
    control.set(|common| {
        common.numerical_rank = I::of(n);
        common.singular_col = I::of(n);
    });
}

/// Whether L and U have no more entries than the caller's integers count.
fn fits<I: Integer, F: Field>(factors: &Factors<I, F>) -> bool {
    factors.lu().is_none_or(|lu| {
        let columns = lu.columns();
        (columns.lnz().max(columns.unz()) + factors.analysis.n()) as u64 <= I::MAX
    })
}

/// An analysis, and values in its order.
type Fitting<'a, I, F> = (Arc<Analysis<I>>, Cow<'a, [F]>);

/// The values of a matrix in the order of its analysis, which is another one where the matrix has entries that were not analyzed: callers
/// whose matrices lose entries that are zero analyze the first one, and rely on KLU to take what comes later.
///
/// # Safety
///
/// As [`compared`].
unsafe fn fitting<'a, I: Integer, F: Field>(
    analysis: Arc<Analysis<I>>,
    matrix: (*const I, *const I, *const F),
) -> Outcome<Fitting<'a, I, F>> {
    // SAFETY: as the caller says.
    match unsafe { compared(analysis.columns(), matrix)? } {
        Given::Values(values) => Ok((analysis, values)),
        Given::Other(columns, values) => {
            let other = analysis.of_other(columns)?;
            Ok((Arc::new(other), Cow::Borrowed(values)))
        }
    }
}

/// `klu_factor`. Null if it fails.
///
/// # Safety
///
/// `common` as [`Control::new`]; the arrays as [`compared`].
pub(crate) unsafe fn factor<I: Width, F: Held>(
    matrix: (*const I, *const I, *const F),
    of: *const Symbolic<I>,
    common: *mut Common<I>,
) -> *mut Numeric<I> {
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, ptr::null_mut(), |control| {
            control.set(|common| {
                common.numerical_rank = I::EMPTY;
                common.singular_col = I::EMPTY;
                common.noffdiag = I::EMPTY;
                common.nrealloc = I::of(0);
            });
            let object = symbolic(of)?;
            let analysis = Arc::clone(&object.analysis);
            let (analysis, values) = fitting(analysis, matrix)?;
            let scaling = Scaling::of(control.get().scale.to_i64());
            let mut factors = Factors::<I, F>::new(Arc::clone(&analysis));
            factors.rescale(&values, scaling);
            match factors.search(&values, threshold(control))? {
                Ended::WithPivots(num_off_diagonal) => {
                    if !fits(&factors) {
                        return Err(Failure::TooLarge);
                    }
                    note_regular(control, analysis.n());
                    control.set(|common| common.noffdiag = I::of(num_off_diagonal));
                }
                Ended::Singular(column) => {
                    note_singular(control, &analysis, column);
                    if control.get().halt_if_singular.to_i64() != 0 {
                        return Ok(ptr::null_mut());
                    }
                }
            }
            let mut public = factors.public();
            factors.show(&mut public, true);
            factors.count(control);
            Ok(put_numeric(public, factors))
        })
    }
}

/// `klu_refactor`. 0 if it fails.
///
/// # Safety
///
/// As [`factor`].
pub(crate) unsafe fn refactor<I: Width, F: Held>(
    matrix: (*const I, *const I, *const F),
    (of, factors): (*const Symbolic<I>, *const Numeric<I>),
    common: *mut Common<I>,
) -> I {
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, I::of_code(0), |control| {
            control.set(|common| {
                common.numerical_rank = I::EMPTY;
                common.singular_col = I::EMPTY;
            });
            let object = symbolic(of)?;
            let numeric = numeric::<I, F>(factors)?;
            let mut factors = numeric.lock();
            if !factors.analysis.is_same_order(&object.analysis) {
                return Err(Failure::Invalid);
            }
            let (analysis, values) = fitting(Arc::clone(&factors.analysis), matrix)?;
            if !Arc::ptr_eq(&analysis, &factors.analysis) {
                factors.adopt(Arc::clone(&analysis));
            }
            factors.rescale(&values, Scaling::of(control.get().scale.to_i64()));
            let public = &mut *numeric.public();
            let ended = factors.renew(&values, threshold(control))?;
            let mut are_new = false;
            let mut done = true;
            match ended {
                Ended::WithPivots(searched) => {
                    note_regular(control, analysis.n());
                    if let Some(num_off_diagonal) = searched {
                        are_new = true;
                        control.set(|common| common.noffdiag = I::of(num_off_diagonal));
                    }
                }
                Ended::Singular(column) => {
                    note_singular(control, &analysis, column);
                    done = control.get().halt_if_singular.to_i64() == 0;
                }
            }
            factors.show(public, are_new);
            if are_new {
                factors.count(control);
            }
            if !fits(&factors) {
                return Err(Failure::TooLarge);
            }
            Ok(I::of_code(i64::from(done)))
        })
    }
}
