//! The functions of a library, ours or KLU, for one kind of integers and one field.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use libloading::Library;
use luge_klu::layout::{Common, Integer, Numeric, Symbolic};

type Solve<I> =
    unsafe extern "C" fn(*mut Symbolic<I>, *mut Numeric<I>, I, I, *mut f64, *mut Common<I>) -> I;
type SolveConjugate<I> =
    unsafe extern "C" fn(*mut Symbolic<I>, *mut Numeric<I>, I, I, *mut f64, I, *mut Common<I>) -> I;
type Factor<I> = unsafe extern "C" fn(
    *const I,
    *const I,
    *const f64,
    *mut Symbolic<I>,
    *mut Common<I>,
) -> *mut Numeric<I>;
type Refactor<I> = unsafe extern "C" fn(
    *const I,
    *const I,
    *const f64,
    *mut Symbolic<I>,
    *mut Numeric<I>,
    *mut Common<I>,
) -> I;
type OfPair<I> = unsafe extern "C" fn(*mut Symbolic<I>, *mut Numeric<I>, *mut Common<I>) -> I;
type Condest<I> = unsafe extern "C" fn(
    *const I,
    *const f64,
    *mut Symbolic<I>,
    *mut Numeric<I>,
    *mut Common<I>,
) -> I;
type Scale<I> = unsafe extern "C" fn(
    I,
    I,
    *const I,
    *const I,
    *const f64,
    *mut f64,
    *mut I,
    *mut Common<I>,
) -> I;
type Extract<I> = unsafe extern "C" fn(
    *mut Numeric<I>,
    *mut Symbolic<I>,
    *mut I,
    *mut I,
    *mut f64,
    *mut I,
    *mut I,
    *mut f64,
    *mut I,
    *mut I,
    *mut f64,
    *mut I,
    *mut I,
    *mut f64,
    *mut I,
    *mut Common<I>,
) -> I;
type ExtractComplex<I> = unsafe extern "C" fn(
    *mut Numeric<I>,
    *mut Symbolic<I>,
    *mut I,
    *mut I,
    *mut f64,
    *mut f64,
    *mut I,
    *mut I,
    *mut f64,
    *mut f64,
    *mut I,
    *mut I,
    *mut f64,
    *mut f64,
    *mut I,
    *mut I,
    *mut f64,
    *mut I,
    *mut Common<I>,
) -> I;

/// The functions.
pub struct Api<I: Integer> {
    /// Numbers of a value: 2 where they are complex.
    pub width: usize,
    pub defaults: unsafe extern "C" fn(*mut Common<I>) -> I,
    pub analyze: unsafe extern "C" fn(I, *const I, *const I, *mut Common<I>) -> *mut Symbolic<I>,
    pub analyze_given: unsafe extern "C" fn(
        I,
        *const I,
        *const I,
        *const I,
        *const I,
        *mut Common<I>,
    ) -> *mut Symbolic<I>,
    pub free_symbolic: unsafe extern "C" fn(*mut *mut Symbolic<I>, *mut Common<I>) -> I,
    pub free_numeric: unsafe extern "C" fn(*mut *mut Numeric<I>, *mut Common<I>) -> I,
    pub factor: Factor<I>,
    pub refactor: Refactor<I>,
    pub solve: Solve<I>,
    /// For real matrices.
    pub tsolve: Solve<I>,
    /// For complex ones: the same function, which takes more.
    pub tsolve_conjugate: SolveConjugate<I>,
    pub rcond: OfPair<I>,
    pub flops: OfPair<I>,
    pub sort: OfPair<I>,
    pub condest: Condest<I>,
    pub rgrowth: Refactor<I>,
    pub scale: Scale<I>,
    /// For real matrices.
    pub extract: Extract<I>,
    /// For complex ones.
    pub extract_complex: ExtractComplex<I>,
    pub malloc: unsafe extern "C" fn(usize, usize, *mut Common<I>) -> *mut c_void,
    pub realloc:
        unsafe extern "C" fn(usize, usize, usize, *mut c_void, *mut Common<I>) -> *mut c_void,
    pub free: unsafe extern "C" fn(*mut c_void, usize, usize, *mut Common<I>) -> *mut c_void,
    /// Last, so that it is unloaded after the functions are out of reach.
    _library: Library,
}

impl<I: Integer> Api<I> {
    /// Those of the library in a file; None if there is no such library.
    pub fn load(file: &Path, complex: bool) -> Option<Self> {
        // SAFETY: neither library does anything when it is loaded.
        let library = unsafe { Library::new(file) }.ok()?;
        let long = if size_of::<I>() == 8 { "l" } else { "" };
        let field = if complex { "z" } else { "" };
        let plain = if long.is_empty() { "klu_" } else { "klu_l_" };
        let both = match (field, long) {
            ("", "") => "klu_".to_owned(),
            (field, long) => format!("klu_{field}{long}_"),
        };
        /// # Safety
        ///
        /// `T` is the type of the function in klu.h.
        unsafe fn get<T: Copy>(library: &Library, prefix: &str, name: &str) -> T {
            let symbol = format!("{prefix}{name}");
            // SAFETY: as the caller says.
            let found = unsafe { library.get::<T>(symbol.as_bytes()) };
            *found.unwrap_or_else(|error| panic!("{symbol}: {error}"))
        }
        // SAFETY: the types are those of klu.h.
        unsafe {
            Some(Self {
                width: if complex { 2 } else { 1 },
                defaults: get(&library, plain, "defaults"),
                analyze: get(&library, plain, "analyze"),
                analyze_given: get(&library, plain, "analyze_given"),
                free_symbolic: get(&library, plain, "free_symbolic"),
                malloc: get(&library, plain, "malloc"),
                realloc: get(&library, plain, "realloc"),
                free: get(&library, plain, "free"),
                free_numeric: get(&library, &both, "free_numeric"),
                factor: get(&library, &both, "factor"),
                refactor: get(&library, &both, "refactor"),
                solve: get(&library, &both, "solve"),
                tsolve: get(&library, &both, "tsolve"),
                tsolve_conjugate: get(&library, &both, "tsolve"),
                rcond: get(&library, &both, "rcond"),
                flops: get(&library, &both, "flops"),
                sort: get(&library, &both, "sort"),
                condest: get(&library, &both, "condest"),
                rgrowth: get(&library, &both, "rgrowth"),
                scale: get(&library, &both, "scale"),
                extract: get(&library, &both, "extract"),
                extract_complex: get(&library, &both, "extract"),
                _library: library,
            })
        }
    }

    /// Default parameters.
    pub fn common(&self) -> Common<I> {
        let mut common = Common::defaults();
        // SAFETY: there is room.
        assert_eq!(unsafe { (self.defaults)(&mut common) }.to_i64(), 1);
        common
    }
}

/// The library that cargo has built for these tests, beside them.
pub fn ours() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // Examples are in a folder of their own.
    let folder = program.parent().unwrap();
    let folder = match folder.file_name() {
        Some(name) if name == "examples" => folder.parent().unwrap(),
        _ => folder,
    };
    let file = folder.join("libluge_klu.so");
    assert!(file.exists(), "{} is not there", file.display());
    file
}

/// KLU, if the system has it; else it is said that it is not.
pub fn klu<I: Integer>(complex: bool) -> Option<Api<I>> {
    let found = ["libklu.so.1", "libklu.so.2"];
    let found = found
        .iter()
        .find_map(|name| Api::load(Path::new(name), complex));
    if found.is_none() {
        eprintln!("SKIPPED: there is no libklu, so nothing is compared with it");
    }
    found
}

/// Folders of headers that lie beside those of the system: `LUGE_HEADERS`, separated by colons.
pub fn header_folders() -> Vec<PathBuf> {
    let more = std::env::var_os("LUGE_HEADERS").unwrap_or_default();
    let more = std::env::split_paths(&more).collect::<Vec<_>>();
    more.into_iter()
        .chain(["/usr/include/suitesparse", "/usr/include"].map(PathBuf::from))
        .collect()
}

/// A C compiler that finds klu.h; None if there is no klu.h, which is said.
pub fn compiler() -> Option<Command> {
    let folders = header_folders();
    if !folders.iter().any(|folder| folder.join("klu.h").exists()) {
        eprintln!("SKIPPED: there is no klu.h");
        return None;
    }
    let mut command = Command::new("cc");
    command.arg("-O1");
    for folder in folders.iter().filter(|folder| folder.exists()) {
        command.arg("-isystem").arg(folder);
    }
    Some(command)
}

/// An analysis and factors, freed with their value.
pub struct Solver<'a, I: Integer> {
    pub api: &'a Api<I>,
    pub common: Box<Common<I>>,
    pub symbolic: *mut Symbolic<I>,
    pub numeric: *mut Numeric<I>,
}

impl<'a, I: Integer> Solver<'a, I> {
    pub fn new(api: &'a Api<I>) -> Self {
        Self {
            api,
            common: Box::new(api.common()),
            symbolic: ptr::null_mut(),
            numeric: ptr::null_mut(),
        }
    }

    pub fn status(&self) -> i64 {
        self.common.status.to_i64()
    }

    pub fn analyze(&mut self, ptr: &[I], idx: &[I]) -> bool {
        let n = I::of(ptr.len() - 1);
        // SAFETY: the arrays are a matrix.
        self.symbolic =
            unsafe { (self.api.analyze)(n, ptr.as_ptr(), idx.as_ptr(), &mut *self.common) };
        !self.symbolic.is_null()
    }

    pub fn factor(&mut self, ptr: &[I], idx: &[I], values: &[f64]) -> bool {
        let (ptr, idx, values) = (ptr.as_ptr(), idx.as_ptr(), values.as_ptr());
        // SAFETY: the arrays are a matrix, and the objects are of this library.
        unsafe {
            (self.api.free_numeric)(&mut self.numeric, &mut *self.common);
            self.numeric = (self.api.factor)(ptr, idx, values, self.symbolic, &mut *self.common);
        }
        !self.numeric.is_null()
    }

    pub fn refactor(&mut self, ptr: &[I], idx: &[I], values: &[f64]) -> bool {
        let (ptr, idx, values) = (ptr.as_ptr(), idx.as_ptr(), values.as_ptr());
        let (symbolic, numeric) = (self.symbolic, self.numeric);
        // SAFETY: as above.
        let done =
            unsafe { (self.api.refactor)(ptr, idx, values, symbolic, numeric, &mut *self.common) };
        done.to_i64() != 0
    }

    /// Solves in place for right-hand sides one after another.
    pub fn solve(&mut self, b: &mut [f64], transpose: bool) -> bool {
        // SAFETY: the objects are of this library.
        let n = unsafe { (*self.symbolic).n };
        let nrhs = I::of(b.len() / (self.api.width * n.to_usize().unwrap()));
        let (symbolic, numeric, b) = (self.symbolic, self.numeric, b.as_mut_ptr());
        let common = &mut *self.common;
        // SAFETY: as above, and there are so many numbers.
        let done = unsafe {
            match (transpose, self.api.width) {
                (false, _) => (self.api.solve)(symbolic, numeric, n, nrhs, b, common),
                (true, 1) => (self.api.tsolve)(symbolic, numeric, n, nrhs, b, common),
                (true, _) => {
                    let plain = I::of(0);
                    (self.api.tsolve_conjugate)(symbolic, numeric, n, nrhs, b, plain, common)
                }
            }
        };
        done.to_i64() != 0
    }

    /// Has `rcond`, `condest`, `rgrowth` and `flops` computed.
    pub fn ask(&mut self, ptr: &[I], idx: &[I], values: &[f64]) {
        let (ptr, idx, values) = (ptr.as_ptr(), idx.as_ptr(), values.as_ptr());
        let (symbolic, numeric, common) = (self.symbolic, self.numeric, &mut *self.common);
        // SAFETY: as above.
        unsafe {
            (self.api.rcond)(symbolic, numeric, common);
            (self.api.condest)(ptr, values, symbolic, numeric, common);
            (self.api.rgrowth)(ptr, idx, values, symbolic, numeric, common);
            (self.api.flops)(symbolic, numeric, common);
        }
    }
}

impl<I: Integer> Drop for Solver<'_, I> {
    fn drop(&mut self) {
        // SAFETY: what is not null is of this library, and freed once.
        unsafe {
            (self.api.free_numeric)(&mut self.numeric, &mut *self.common);
            (self.api.free_symbolic)(&mut self.symbolic, &mut *self.common);
        }
    }
}
