//! What callers hold: which pointers are objects of this library.
//!
//! A list of live objects tells whether a pointer is one of them, and of which kind, before anything behind it is read. So a pointer
//! that was freed, that another library made, or that points nowhere is `KLU_INVALID`. (Memory that was freed may be used for a
//! new object; then the old pointer means that.)

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use luge_frontal::FrontalScalar;
use num_complex::Complex;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::analysis::Analysis;
use crate::call::{Failure, Field, Outcome, guarded_quietly};
use crate::factors::Factors;
use crate::layout::{Common, Integer, Numeric, Symbolic};
use crate::shown::Public;

/// The live objects of one ABI, by their addresses.
type Live<I> = RwLock<FxHashMap<usize, Handle<I>>>;

/// Integers with the objects of their ABI.
pub(crate) trait Width: Integer {
    fn live() -> &'static Live<Self>;
}

macro_rules! width {
    ($type:ty) => {
        impl Width for $type {
            fn live() -> &'static Live<Self> {
                static LIVE: Live<$type> = RwLock::new(HashMap::with_hasher(FxBuildHasher));
                &LIVE
            }
        }
    };
}
width!(i32);
width!(i64);

/// An object that a caller holds.
pub(crate) enum Handle<I: Integer> {
    /// `klu_symbolic`.
    Symbolic(Arc<SymbolicObject<I>>),
    /// `klu_numeric` of a real matrix.
    Real(Arc<NumericObject<I, f64>>),
    /// `klu_numeric` of a complex one.
    Complex(Arc<NumericObject<I, Complex<f64>>>),
}

impl<I: Integer> Clone for Handle<I> {
    fn clone(&self) -> Self {
        match self {
            Self::Symbolic(object) => Self::Symbolic(Arc::clone(object)),
            Self::Real(object) => Self::Real(Arc::clone(object)),
            Self::Complex(object) => Self::Complex(Arc::clone(object)),
        }
    }
}

/// What the pointer of an analysis leads to.
pub(crate) struct SymbolicObject<I> {
    public: Public<Symbolic<I>>,
    pub(crate) analysis: Arc<Analysis<I>>,
    pub(crate) bytes: usize,
}

/// What the pointer of factors leads to.
pub(crate) struct NumericObject<I, F: FrontalScalar> {
    public: Public<Numeric<I>>,
    factors: Mutex<Factors<I, F>>,
}

impl<I: Integer, F: FrontalScalar> NumericObject<I, F> {
    /// For one call at a time.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Factors<I, F>> {
        self.factors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The structure that the caller sees.
    pub(crate) fn public(&self) -> *mut Numeric<I> {
        self.public.pointer()
    }
}

/// Fields with the handles of their factors.
pub(crate) trait Held: Field {
    fn wrap<I: Width>(object: Arc<NumericObject<I, Self>>) -> Handle<I>;
    fn unwrap<I: Width>(handle: Handle<I>) -> Option<Arc<NumericObject<I, Self>>>;
}

impl Held for f64 {
    fn wrap<I: Width>(object: Arc<NumericObject<I, Self>>) -> Handle<I> {
        Handle::Real(object)
    }

    fn unwrap<I: Width>(handle: Handle<I>) -> Option<Arc<NumericObject<I, Self>>> {
        match handle {
            Handle::Real(object) => Some(object),
            _ => None,
        }
    }
}

impl Held for Complex<f64> {
    fn wrap<I: Width>(object: Arc<NumericObject<I, Self>>) -> Handle<I> {
        Handle::Complex(object)
    }

    fn unwrap<I: Width>(handle: Handle<I>) -> Option<Arc<NumericObject<I, Self>>> {
        match handle {
            Handle::Complex(object) => Some(object),
            _ => None,
        }
    }
}

fn find<I: Width>(address: usize) -> Outcome<Handle<I>> {
    let live = I::live().read().unwrap_or_else(PoisonError::into_inner);
    live.get(&address).cloned().ok_or(Failure::Invalid)
}

fn insert<I: Width>(address: usize, handle: Handle<I>) {
    let mut live = I::live().write().unwrap_or_else(PoisonError::into_inner);
    live.insert(address, handle);
}

fn remove<I: Width>(address: usize) {
    let mut live = I::live().write().unwrap_or_else(PoisonError::into_inner);
    let removed = live.remove(&address);
    if live.is_empty() {
        // A program that unloads the library leaves nothing behind.
        live.shrink_to_fit();
    }
    drop(live);
    // Outside of the lock: it may be large.
    drop(removed);
}

/// The analysis behind a pointer.
pub(crate) fn symbolic<I: Width>(at: *const Symbolic<I>) -> Outcome<Arc<SymbolicObject<I>>> {
    match find(at.addr())? {
        Handle::Symbolic(object) => Ok(object),
        _ => Err(Failure::Invalid),
    }
}

/// The factors behind a pointer, if they are of this field.
pub(crate) fn numeric<I: Width, F: Held>(
    at: *const Numeric<I>,
) -> Outcome<Arc<NumericObject<I, F>>> {
    F::unwrap(find(at.addr())?).ok_or(Failure::Invalid)
}

/// A pointer for the caller to an analysis, which takes so many bytes beside its arrays.
pub(crate) fn put_symbolic<I: Width>(
    public: Symbolic<I>,
    analysis: Arc<Analysis<I>>,
    bytes: usize,
) -> *mut Symbolic<I> {
    let public = Public::new(public);
    let at = public.pointer();
    let object = SymbolicObject {
        public,
        analysis,
        bytes,
    };
    insert(at.addr(), Handle::Symbolic(Arc::new(object)));
    at
}

/// A pointer for the caller to factors.
pub(crate) fn put_numeric<I: Width, F: Held>(
    public: Numeric<I>,
    factors: Factors<I, F>,
) -> *mut Numeric<I> {
    let public = Public::new(public);
    let at = public.pointer();
    let object = NumericObject {
        public,
        factors: Mutex::new(factors),
    };
    insert(at.addr(), F::wrap(Arc::new(object)));
    at
}

/// What `at` points to, which is null or room for a pointer.
unsafe fn held<S>(at: *mut *mut S) -> Outcome<Option<NonNull<S>>> {
    if at.is_null() {
        return Ok(None);
    }
    if !at.is_aligned() {
        return Err(Failure::Invalid);
    }
    // SAFETY: as the caller says.
    Ok(NonNull::new(unsafe { at.read() }))
}

/// Frees an analysis and sets the pointer to null.
///
/// # Safety
///
/// `at` is null, not aligned, or points to a pointer.
pub(crate) unsafe fn free_symbolic<I: Width>(
    at: *mut *mut Symbolic<I>,
    common: *mut Common<I>,
) -> I {
    // SAFETY: the caller passes null or a structure.
    unsafe {
        guarded_quietly(common, I::of_code(0), |control| {
            if let Some(handle) = held(at)? {
                let object = symbolic(handle.as_ptr())?;
                debug_assert_eq!(object.public.pointer(), handle.as_ptr());
                remove::<I>(handle.as_ptr().addr());
                control.count_bytes(0, object.bytes);
                at.write(std::ptr::null_mut());
            }
            Ok(I::of_code(1))
        })
    }
}

/// Frees factors of either field and sets the pointer to null.
///
/// # Safety
///
/// As [`free_symbolic`].
pub(crate) unsafe fn free_numeric<I: Width>(at: *mut *mut Numeric<I>, common: *mut Common<I>) -> I {
    // SAFETY: the caller passes null or a structure.
    unsafe {
        guarded_quietly(common, I::of_code(0), |control| {
            if let Some(handle) = held(at)? {
                let bytes = match find::<I>(handle.as_ptr().addr())? {
                    Handle::Real(object) => object.lock().bytes,
                    Handle::Complex(object) => object.lock().bytes,
                    Handle::Symbolic(_) => return Err(Failure::Invalid),
                };
                remove::<I>(handle.as_ptr().addr());
                control.count_bytes(0, bytes);
                at.write(std::ptr::null_mut());
            }
            Ok(I::of_code(1))
        })
    }
}
