//! Loading C libraries at run time.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A peer that is not here, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

/// A loaded library.
pub(crate) struct Loaded {
    library: libloading::Library,
    /// The file name it was loaded by, without its folder.
    pub file: String,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("file", &self.file).finish()
    }
}

/// The loader's own words.
fn reason(error: &libloading::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

/// Loads a library with all its calls bound now, so that a BLAS that is loaded later cannot take them.
///
/// # Safety
///
/// That of [`libloading::Library::new`].
unsafe fn open_bound(path: &Path) -> Result<libloading::Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: by this function's own precondition.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
    }
    #[cfg(not(unix))]
    {
        // SAFETY: by this function's own precondition.
        unsafe { libloading::Library::new(path) }
    }
}

/// Loads a library for the whole process, which others expect to find there, and never unloads it.
///
/// # Safety
///
/// That of [`libloading::Library::new`].
pub(crate) unsafe fn open_for_all(path: &Path) -> Result<(), Missing> {
    let missing = |error| Missing(reason(&error));
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        // SAFETY: by this function's own precondition.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        std::mem::forget(library.map_err(missing)?);
    }
    #[cfg(not(unix))]
    {
        // SAFETY: by this function's own precondition.
        let library = unsafe { libloading::Library::new(path) };
        std::mem::forget(library.map_err(missing)?);
    }
    Ok(())
}

impl Loaded {
    /// Loads the library at `path`, or the first of `names` that the system's loader finds.
    pub fn open(path: Option<&PathBuf>, names: &[&str]) -> Result<Self, Missing> {
        let candidates: Vec<PathBuf> = match path {
            Some(path) => vec![path.clone()],
            None => names.iter().map(PathBuf::from).collect(),
        };
        let mut reasons = Vec::new();
        for candidate in candidates {
            // SAFETY: loading runs the initialisers of a numerical library (SuiteSparse, SuperLU,
            // BLAS), which set up their own state and threads and nothing of ours.
            match unsafe { open_bound(&candidate) } {
                Ok(library) => {
                    let file = candidate.file_name().unwrap_or(candidate.as_os_str());
                    return Ok(Self {
                        library,
                        file: file.to_string_lossy().into_owned(),
                    });
                }
                Err(error) => reasons.push(reason(&error)),
            }
        }
        Err(Missing(reasons.join("; ")))
    }

    /// The function `name`.
    ///
    /// # Safety
    ///
    /// `F` is the type of that function. It must not be called after `self` is dropped.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, Missing> {
        // SAFETY: by this function's own precondition.
        let symbol = unsafe { self.library.get::<F>(name.as_bytes()) };
        symbol
            .map(|symbol| *symbol)
            .map_err(|error| Missing(format!("{}: no {name}: {error}", self.file)))
    }

    /// The BLAS that this library calls.
    pub fn blas(&self) -> Blas {
        type SetThreads = unsafe extern "C" fn(c_int);
        type GetConfig = unsafe extern "C" fn() -> *const c_char;
        // A symbol is looked for in the library and in what it depends on.
        // SAFETY: these are the signatures that OpenBLAS declares in cblas.h.
        let set_threads = unsafe { self.function::<SetThreads>("openblas_set_num_threads") }.ok();
        // SAFETY: as above.
        let config = unsafe { self.function::<GetConfig>("openblas_get_config") }.ok();
        let config = config.map(|get| {
            // SAFETY: the function takes nothing and gives a string of the library's own.
            unsafe { CStr::from_ptr(get()) }
                .to_string_lossy()
                .into_owned()
        });
        Blas {
            set_threads,
            description: config.unwrap_or_else(mapped_blas),
        }
    }
}

/// The BLAS behind a library.
#[derive(Debug, Clone)]
pub(crate) struct Blas {
    set_threads: Option<unsafe extern "C" fn(c_int)>,
    /// Its name and version, or the files that are mapped.
    pub description: String,
}

/// Threads that OpenBLAS was last told to use; 0: not told yet.
static BLAS_THREADS: AtomicUsize = AtomicUsize::new(0);

impl Blas {
    /// Tells OpenBLAS how many threads to use. Other libraries are left alone.
    pub fn use_threads(&self, threads: usize) {
        let Some(set) = self.set_threads else { return };
        if BLAS_THREADS.swap(threads, Ordering::Relaxed) != threads {
            let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
            // SAFETY: the function takes any number and no call into the BLAS is under way: all
            // peers of a benchmark run one after another.
            unsafe { set(threads) };
        }
    }
}

/// Names of the mapped files that look like a BLAS, with the folder that tells variants apart.
fn mapped_blas() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut found: Vec<String> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| path.contains("blas"))
        .map(|path| {
            let parts: Vec<&str> = path.rsplit('/').take(2).collect();
            parts.into_iter().rev().collect::<Vec<_>>().join("/")
        })
        .collect();
    found.sort();
    found.dedup();
    if found.is_empty() {
        "unknown BLAS".to_owned()
    } else {
        format!("BLAS in {}", found.join(", "))
    }
}
