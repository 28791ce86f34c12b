//! cuDSS 1: NVIDIA's sparse direct solver, on a GPU.
//!
//! Default options: its own ordering, matching chosen by it, pivots within a block, no refinement. A matrix of 32-bit
//! indices by rows: all of a general one, the upper triangle of one that it is told to be symmetric or definite. Matrix, right-hand sides and solutions lie in buffers of `luge-device`,
//! and all work is in the order of one of its streams, so nothing of the CUDA toolkit is needed here. The steps of
//! [`Cudss`] take what is on the device, and the uploads are calls of their own; [`Solver`] is the
//! [`Peer`](crate::Peer) made of them.
//!
//! Of a group of devices the first has matrix, right-hand sides and solutions; what the others have is cuDSS's affair.
//!
//! Every step returns when the devices have done it.

mod library;
mod peer;

use std::ffi::{CString, c_int, c_void};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use luge_device::{Buffer, DeviceError, Stream};
use luge_kernel::mem::Element;
use luge_sparse::Scalar;
use num_complex::Complex;

use crate::{Missing, Structure};
pub use library::Library;
use library::{
    BASE_ZERO, C_32F, C_64F, COLUMN_MAJOR, ConfigParam, DataParam, Object, R_32F, R_32I, R_64F,
    Status, Step, check, name_of,
};
pub use peer::{Found, Solver};

/// File name of the threading layer that comes with cuDSS; its ordering uses the cores of the host by it.
pub const THREADING_LAYER: &str = "libcudss_mtlayer_gomp.so.1";

/// `cudssMatrixType_t` and `cudssMatrixViewType_t` of what is handed over.
fn kind_of<T: Scalar>(structure: Structure) -> (c_int, c_int) {
    const GENERAL_FULL: (c_int, c_int) = (0, 0);
    const SYMMETRIC_UPPER: (c_int, c_int) = (1, 2);
    const HERMITIAN_UPPER: (c_int, c_int) = (2, 2);
    const SYMMETRIC_DEFINITE_UPPER: (c_int, c_int) = (3, 2);
    const HERMITIAN_DEFINITE_UPPER: (c_int, c_int) = (4, 2);
    match structure {
        Structure::General => GENERAL_FULL,
        Structure::Symmetric => SYMMETRIC_UPPER,
        Structure::Hermitian => HERMITIAN_UPPER,
        Structure::Definite if T::COMPONENTS == 1 => SYMMETRIC_DEFINITE_UPPER,
        Structure::Definite => HERMITIAN_DEFINITE_UPPER,
    }
}

/// Why cuDSS did not do a step.
#[derive(Debug, thiserror::Error)]
pub enum CudssError {
    /// A call returned a status.
    #[error("{call}: {} ({status})", name_of(*.status))]
    Call {
        /// The function and, of `cudssExecute`, the phase.
        call: &'static str,
        /// `cudssStatus_t`.
        status: i32,
    },
    /// The device refused memory or a copy, or a kernel failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The stream is the simulator's.
    #[error("cuDSS needs a CUDA device")]
    NoCuda,
    /// The matrix has no rows or no entries.
    #[error("cuDSS takes no empty matrix")]
    Empty,
    /// A path holds a zero byte, which the library would end it at.
    #[error("{} is no path for a C library", .0.display())]
    Path(PathBuf),
    /// A step was asked for before what it builds on.
    #[error("no matrix, no analysis or no factors to work on")]
    OutOfOrder,
}

/// `f32`, `f64`, and complex numbers of these.
pub trait CudssScalar: Element + Scalar {
    /// `cudaDataType_t`.
    #[doc(hidden)]
    const DATA_TYPE: i32;
}

impl CudssScalar for f32 {
    const DATA_TYPE: i32 = R_32F;
}

impl CudssScalar for f64 {
    const DATA_TYPE: i32 = R_64F;
}

impl CudssScalar for Complex<f32> {
    const DATA_TYPE: i32 = C_32F;
}

impl CudssScalar for Complex<f64> {
    const DATA_TYPE: i32 = C_64F;
}

/// The threading layer that lies beside the library at `library`, if there is one.
pub fn threading_layer_beside(library: &Path) -> Option<PathBuf> {
    let layer = library.with_file_name(THREADING_LAYER);
    layer.is_file().then_some(layer)
}

/// What cuDSS tells of its factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudssStatistics {
    /// Entries of L and U.
    pub factor_entries: u64,
    /// Pivots that were replaced.
    pub num_perturbed: u64,
    /// Of a symmetric matrix: positive and negative eigenvalues, by the signs of D.
    pub inertia: Option<[u64; 2]>,
    /// The error indicator: 0, or where something was found wrong.
    pub info: i32,
    /// Most bytes on the device, as cuDSS estimates them, without the buffers of the caller.
    pub peak_device_bytes: u64,
    /// Most bytes on the host, likewise.
    pub peak_host_bytes: u64,
}

/// An object of the library that its own function frees.
struct Owned {
    object: Object,
    destroy: unsafe extern "C" fn(Object) -> Status,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // A status has nowhere to go from here.
        // SAFETY: the object is what the creating function gave, and is freed this once; what depends on
        // it is declared before it in every struct, and so is gone.
        let _ = unsafe { (self.destroy)(self.object) };
    }
}

/// The state of a factorization.
struct Data {
    object: Object,
    handle: Object,
    destroy: unsafe extern "C" fn(Object, Object) -> Status,
}

impl Drop for Data {
    fn drop(&mut self) {
        // SAFETY: as for `Owned`; the handle outlives it, being declared after it in `Cudss`.
        let _ = unsafe { (self.destroy)(self.handle, self.object) };
    }
}

/// Right-hand sides and solutions, one column after another.
struct Columns<T: Element> {
    nrhs: usize,
    b: Owned,
    x: Owned,
    b_values: Buffer<T>,
    x_values: Buffer<T>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Taken,
    Reordered,
    Analyzed,
    Factorized,
}

/// The matrix and all that is computed with it.
struct System<T: Element> {
    data: Data,
    matrix: Owned,
    columns: Vec<Columns<T>>,
    /// Several for its entries, one of which is selected.
    values: Vec<Buffer<T>>,
    selected: usize,
    /// Kept for the matrix, which holds their addresses.
    _row_ptr: Buffer<u32>,
    _col_idx: Buffer<u32>,
    n: usize,
    state: State,
}

/// One matrix in cuDSS.
pub struct Cudss<T: CudssScalar> {
    system: Option<System<T>>,
    structure: Structure,
    config: Owned,
    handle: Owned,
    stream: Stream,
    /// Of the other devices of a group.
    others: Vec<Stream>,
    /// Last: the objects above are freed by its functions.
    library: Arc<Library>,
}

fn address<T: Element>(buffer: &Buffer<T>) -> Result<*const c_void, CudssError> {
    let address = buffer.driver_address().map(NonZeroU64::get);
    address
        .map(|address| ptr::without_provenance(address as usize))
        .ok_or(CudssError::Empty)
}

impl<T: CudssScalar> Cudss<T> {
    /// A solver on `streams`, one of each device of a group of one or more, with cuDSS's default options, for matrices of this
    /// structure; `threading` is the file of a threading layer.
    ///
    /// # Errors
    ///
    /// [`CudssError::NoCuda`] on the simulator; [`CudssError::Call`], also if the threading layer cannot be
    /// loaded.
    ///
    /// # Panics
    ///
    /// If there is no stream.
    #[track_caller]
    pub fn new(
        library: Arc<Library>,
        streams: &[Stream],
        structure: Structure,
        threading: Option<&Path>,
    ) -> Result<Self, CudssError> {
        let (stream, others) = streams.split_first().expect("a group has a device");
        let of_driver = |stream: &Stream| {
            let handle = stream.driver_stream().ok_or(CudssError::NoCuda)?;
            Ok::<_, CudssError>(handle.as_ptr())
        };
        let of_driver: Vec<*mut c_void> =
            streams.iter().map(of_driver).collect::<Result<_, _>>()?;
        let devices: Vec<c_int> = streams
            .iter()
            .map(|stream| stream.device().properties().ordinal as c_int)
            .collect();
        let count = devices.len() as c_int;
        // Makes the device's context current on this thread, where the library will find it.
        stream.synchronize()?;
        let mut object = ptr::null_mut();
        if others.is_empty() {
            // SAFETY: the pointer is to a live handle, which the call sets.
            check("cudssCreate", unsafe { (library.create)(&mut object) })?;
        } else {
            // SAFETY: as above; there are so many devices.
            check("cudssCreateMg", unsafe {
                (library.create_on_group)(&mut object, count, devices.as_ptr())
            })?;
        }
        let handle = Owned {
            object,
            destroy: library.destroy,
        };
        if others.is_empty() {
            // SAFETY: the handle is alive, and so is the stream, of which `Self` keeps a handle.
            check("cudssSetStream", unsafe {
                (library.set_stream)(handle.object, of_driver[0])
            })?;
        } else {
            // SAFETY: as above; there is a stream for each device.
            check("cudssSetMgStreams", unsafe {
                (library.set_streams_of_group)(handle.object, of_driver.as_ptr(), count)
            })?;
        }
        if let Some(path) = threading {
            let name = CString::new(path.as_os_str().as_encoded_bytes())
                .map_err(|_| CudssError::Path(path.to_path_buf()))?;
            // SAFETY: the handle is alive; the name is a string that the call reads.
            check("cudssSetThreadingLayer", unsafe {
                (library.set_threading_layer)(handle.object, name.as_ptr())
            })?;
        }
        let mut object = ptr::null_mut();
        // SAFETY: the pointer is to a live object, which the call sets.
        check("cudssConfigCreate", unsafe {
            (library.config_create)(&mut object)
        })?;
        let config = Owned {
            object,
            destroy: library.config_destroy,
        };
        if !others.is_empty() {
            for (call, param, values) in [
                (
                    "cudssConfigSet, device count",
                    ConfigParam::DeviceCount,
                    &[count][..],
                ),
                (
                    "cudssConfigSet, device indices",
                    ConfigParam::DeviceIndices,
                    &devices,
                ),
            ] {
                // SAFETY: the configuration is alive; the call reads so many bytes of integers.
                check(call, unsafe {
                    (library.config_set)(
                        config.object,
                        param as c_int,
                        values.as_ptr().cast(),
                        size_of_val(values),
                    )
                })?;
            }
            // The calls may have left another device's context current.
            stream.synchronize()?;
        }
        Ok(Self {
            system: None,
            structure,
            config,
            handle,
            stream: stream.clone(),
            others: others.to_vec(),
            library,
        })
    }

    /// Copies a square matrix by rows to the device, of a symmetric one the upper triangle: `row_ptr` has n + 1 offsets, `col_idx` and `values` one
    /// number an entry. What was known of an earlier matrix is forgotten.
    ///
    /// # Errors
    ///
    /// [`CudssError::Empty`], [`CudssError::Device`], [`CudssError::Call`].
    ///
    /// # Panics
    ///
    /// If the arrays are no matrix by rows.
    #[track_caller]
    pub fn take(
        &mut self,
        row_ptr: &[u32],
        col_idx: &[u32],
        values: &[T],
    ) -> Result<(), CudssError> {
        self.forget();
        let (n, nnz) = (row_ptr.len().saturating_sub(1), values.len());
        assert_eq!(col_idx.len(), nnz, "one column for each value");
        assert!(
            row_ptr.first() == Some(&0)
                && row_ptr.is_sorted()
                && row_ptr.last().map(|&end| end as usize) == Some(nnz)
                && nnz <= c_int::MAX as usize,
            "offsets ascend from 0 to the number of entries"
        );
        assert!(
            col_idx.iter().all(|&column| (column as usize) < n),
            "columns are below the order"
        );
        let row_ptr = self.stream.upload(row_ptr)?;
        let col_idx = self.stream.upload(col_idx)?;
        let values = self.stream.upload(values)?;
        let mut object = ptr::null_mut();
        // SAFETY: the handle is alive, the pointer is to a live object, which the call sets.
        check("cudssDataCreate", unsafe {
            (self.library.data_create)(self.handle.object, &mut object)
        })?;
        let data = Data {
            object,
            handle: self.handle.object,
            destroy: self.library.data_destroy,
        };
        let (kind, view) = kind_of::<T>(self.structure);
        let mut object = ptr::null_mut();
        // SAFETY: the arrays are a matrix by rows of order n with indices below 2³¹, as was checked, on the
        // device; the system keeps them for as long as the matrix lives. No row ends are given: the
        // offsets are those of all rows.
        check("cudssMatrixCreateCsr", unsafe {
            (self.library.matrix_create_csr)(
                &mut object,
                n as i64,
                n as i64,
                nnz as i64,
                address(&row_ptr)?,
                ptr::null(),
                address(&col_idx)?,
                address(&values)?,
                R_32I,
                R_32I,
                T::DATA_TYPE,
                kind,
                view,
                BASE_ZERO,
            )
        })?;
        let matrix = Owned {
            object,
            destroy: self.library.matrix_destroy,
        };
        self.system = Some(System {
            data,
            matrix,
            columns: Vec::new(),
            values: vec![values],
            selected: 0,
            _row_ptr: row_ptr,
            _col_idx: col_idx,
            n,
            state: State::Taken,
        });
        Ok(())
    }

    /// Forgets the matrix and what was computed with it.
    pub fn forget(&mut self) {
        self.system = None;
    }

    fn system(&mut self, least: State) -> Result<&mut System<T>, CudssError> {
        let system = self.system.as_mut();
        system
            .filter(|system| system.state >= least)
            .ok_or(CudssError::OutOfOrder)
    }

    /// The number of the columns for `nrhs` right-hand sides, made if they are not there.
    fn columns(&mut self, nrhs: usize) -> Result<usize, CudssError> {
        let (stream, create, destroy) = (
            self.stream.clone(),
            self.library.matrix_create_dense,
            self.library.matrix_destroy,
        );
        let system = self.system(State::Taken)?;
        if let Some(at) = system.columns.iter().position(|c| c.nrhs == nrhs) {
            return Ok(at);
        }
        let n = system.n;
        let dense = |values: &Buffer<T>| {
            let mut object = ptr::null_mut();
            // SAFETY: the buffer holds nrhs columns of n values and is kept beside the object.
            check("cudssMatrixCreateDn", unsafe {
                create(
                    &mut object,
                    n as i64,
                    nrhs as i64,
                    n as i64,
                    address(values)?,
                    T::DATA_TYPE,
                    COLUMN_MAJOR,
                )
            })?;
            Ok::<_, CudssError>(Owned { object, destroy })
        };
        let b_values = stream.alloc_zeroed::<T>(n * nrhs)?;
        let x_values = stream.alloc_zeroed::<T>(n * nrhs)?;
        system.columns.push(Columns {
            nrhs,
            b: dense(&b_values)?,
            x: dense(&x_values)?,
            b_values,
            x_values,
        });
        Ok(system.columns.len() - 1)
    }

    fn execute(&mut self, step: Step, needs: State, nrhs: usize) -> Result<(), CudssError> {
        self.system(needs)?;
        let at = self.columns(nrhs)?;
        let library = Arc::clone(&self.library);
        let (handle, config) = (self.handle.object, self.config.object);
        // That of the first device last, so that its context is current.
        let streams: Vec<Stream> = self.others.iter().chain([&self.stream]).cloned().collect();
        let system = self.system(needs)?;
        let columns = &system.columns[at];
        // SAFETY: all objects are alive and of this library; the step follows those that it needs; what
        // they refer to is on the device of the handle and is kept until the stream was waited for.
        let status = unsafe {
            (library.execute)(
                handle,
                step.number(),
                config,
                system.data.object,
                system.matrix.object,
                columns.x.object,
                columns.b.object,
            )
        };
        let waited: Vec<_> = streams.iter().map(Stream::synchronize).collect();
        check(step.call(), status)?;
        waited.into_iter().collect::<Result<(), _>>()?;
        let reached = match step {
            Step::Reordering => State::Reordered,
            Step::SymbolicFactorization => State::Analyzed,
            Step::Factorization | Step::Refactorization | Step::Solve => State::Factorized,
        };
        system.state = reached;
        Ok(())
    }

    /// Reorders the matrix, on the host and the device.
    ///
    /// # Errors
    ///
    /// [`CudssError::OutOfOrder`], [`CudssError::Device`], [`CudssError::Call`]; so do all steps.
    pub fn reorder(&mut self) -> Result<(), CudssError> {
        self.execute(Step::Reordering, State::Taken, 1)
    }

    /// Finds the structure of the factors of the reordered matrix.
    ///
    /// # Errors
    ///
    /// As [`reorder`](Self::reorder).
    pub fn symbolic(&mut self) -> Result<(), CudssError> {
        self.execute(Step::SymbolicFactorization, State::Reordered, 1)
    }

    /// Factorizes the analyzed matrix.
    ///
    /// # Errors
    ///
    /// As [`reorder`](Self::reorder).
    pub fn factorize(&mut self) -> Result<(), CudssError> {
        self.execute(Step::Factorization, State::Analyzed, 1)
    }

    /// Factorizes the values that are there now, with what is known of earlier ones.
    ///
    /// # Errors
    ///
    /// As [`reorder`](Self::reorder).
    pub fn refactorize(&mut self) -> Result<(), CudssError> {
        self.execute(Step::Refactorization, State::Factorized, 1)
    }

    /// Copies new values to the device, in the order of [`take`](Self::take), in the place of those that are selected.
    ///
    /// # Errors
    ///
    /// [`CudssError::OutOfOrder`], [`CudssError::Device`].
    ///
    /// # Panics
    ///
    /// If they are of another number.
    #[track_caller]
    pub fn set_values(&mut self, values: &[T]) -> Result<(), CudssError> {
        let stream = self.stream.clone();
        let system = self.system(State::Taken)?;
        let selected = &mut system.values[system.selected];
        Ok(stream.copy_from_host(selected, values)?)
    }

    /// Copies values to the device that may be [selected](Self::select_values) besides those of [`take`](Self::take), whose
    /// number is 0: the ones of the first call have number 1, and so on. Earlier ones of such are forgotten.
    ///
    /// # Errors
    ///
    /// As [`select_values`](Self::select_values), and [`CudssError::Device`].
    ///
    /// # Panics
    ///
    /// If they are of another number than those of `take`.
    #[track_caller]
    pub fn stage_values<'a>(
        &mut self,
        all: impl Iterator<Item = &'a [T]>,
    ) -> Result<(), CudssError> {
        self.select_values(0)?;
        let stream = self.stream.clone();
        let system = self.system(State::Taken)?;
        system.values.truncate(1);
        for values in all {
            assert_eq!(
                values.len(),
                system.values[0].len(),
                "one value for each entry"
            );
            system.values.push(stream.upload(values)?);
        }
        Ok(())
    }

    /// Takes the values of that number, which are on the device.
    ///
    /// # Errors
    ///
    /// [`CudssError::OutOfOrder`], [`CudssError::Call`].
    ///
    /// # Panics
    ///
    /// If there are none.
    #[track_caller]
    pub fn select_values(&mut self, number: usize) -> Result<(), CudssError> {
        let set_values = self.library.matrix_set_values;
        let system = self.system(State::Taken)?;
        if system.selected != number {
            let values = address(&system.values[number])?;
            // SAFETY: the matrix is alive, the buffer holds a value for each entry and is kept while it is selected.
            check("cudssMatrixSetValues", unsafe {
                set_values(system.matrix.object, values)
            })?;
            system.selected = number;
        }
        Ok(())
    }

    /// Copies right-hand sides, one after another, to the device.
    ///
    /// # Errors
    ///
    /// [`CudssError::OutOfOrder`], [`CudssError::Device`], [`CudssError::Call`].
    ///
    /// # Panics
    ///
    /// If `b` does not hold `nrhs` of them.
    #[track_caller]
    pub fn set_right_hand_sides(&mut self, b: &[T], nrhs: usize) -> Result<(), CudssError> {
        let at = self.columns(nrhs)?;
        let stream = self.stream.clone();
        let system = self.system(State::Taken)?;
        Ok(stream.copy_from_host(&mut system.columns[at].b_values, b)?)
    }

    /// Solves with the right-hand sides that are on the device; the solutions stay there.
    ///
    /// # Errors
    ///
    /// As [`reorder`](Self::reorder).
    pub fn solve(&mut self, nrhs: usize) -> Result<(), CudssError> {
        self.execute(Step::Solve, State::Factorized, nrhs)
    }

    /// Copies the solutions of the last solve with as many right-hand sides to the host.
    ///
    /// # Errors
    ///
    /// [`CudssError::OutOfOrder`], [`CudssError::Device`].
    ///
    /// # Panics
    ///
    /// If `x` has another length.
    #[track_caller]
    pub fn solutions(&mut self, x: &mut [T], nrhs: usize) -> Result<(), CudssError> {
        let stream = self.stream.clone();
        let system = self.system(State::Factorized)?;
        let columns = system.columns.iter().find(|columns| columns.nrhs == nrhs);
        let columns = columns.ok_or(CudssError::OutOfOrder)?;
        Ok(stream.copy_to_host(&columns.x_values, x)?)
    }

    /// Seconds that the device takes for `step`, by events around it.
    fn device_seconds(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<(), CudssError>,
    ) -> Result<f64, CudssError> {
        let (stream, device) = (self.stream.clone(), self.stream.device());
        let (start, end) = (device.create_event()?, device.create_event()?);
        stream.record(&start)?;
        step(self)?;
        stream.record(&end)?;
        Ok(f64::from(start.elapsed_ms(&end)?) / 1e3)
    }

    /// Refactorizes, and tells the seconds from the first to the last work on the device.
    ///
    /// # Errors
    ///
    /// As [`reorder`](Self::reorder).
    pub fn refactorize_on_clock(&mut self) -> Result<f64, CudssError> {
        self.device_seconds(Self::refactorize)
    }

    /// Solves, and tells the seconds from the first to the last work on the device.
    ///
    /// # Errors
    ///
    /// As [`reorder`](Self::reorder).
    pub fn solve_on_clock(&mut self, nrhs: usize) -> Result<f64, CudssError> {
        self.device_seconds(|this| this.solve(nrhs))
    }

    /// What cuDSS tells of the factors.
    ///
    /// # Errors
    ///
    /// [`CudssError::OutOfOrder`], [`CudssError::Call`].
    pub fn statistics(&mut self) -> Result<CudssStatistics, CudssError> {
        let [info] = self.get::<c_int, 1>("cudssDataGet, info", DataParam::Info)?;
        let [entries] = self.get::<i64, 1>("cudssDataGet, entries", DataParam::LuNnz)?;
        let [pivots] = self.get::<c_int, 1>("cudssDataGet, pivots", DataParam::NumPivots)?;
        let memory = self.get::<i64, 16>("cudssDataGet, memory", DataParam::MemoryEstimates)?;
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let has_inertia = match self.structure {
            Structure::General => false,
            // D of a complex symmetric matrix is complex; of a complex definite one version 1.0 answers 0 and 0.
            Structure::Symmetric | Structure::Definite => T::COMPONENTS == 1,
            Structure::Hermitian => true,
        };
        let inertia = if has_inertia {
            let signs = self.get::<c_int, 2>("cudssDataGet, inertia", DataParam::Inertia)?;
            Some(signs.map(|number| count(number.into())))
        } else {
            None
        };
        Ok(CudssStatistics {
            inertia,
            factor_entries: count(entries),
            num_perturbed: count(pivots.into()),
            info,
            peak_device_bytes: count(memory[1]),
            peak_host_bytes: count(memory[3]),
        })
    }

    /// Integers that the library writes: `c_int` or `i64`.
    fn get<I: Default + Copy, const N: usize>(
        &mut self,
        call: &'static str,
        param: DataParam,
    ) -> Result<[I; N], CudssError> {
        let (get, handle) = (self.library.data_get, self.handle.object);
        let data = self.system(State::Factorized)?.data.object;
        let mut values = [I::default(); N];
        let mut written = 0;
        // SAFETY: handle and data are alive and belong together; the call writes no more bytes than it is
        // told there are, and any bytes are integers.
        check(call, unsafe {
            get(
                handle,
                data,
                param as c_int,
                values.as_mut_ptr().cast(),
                size_of_val(&values),
                &mut written,
            )
        })?;
        Ok(values)
    }
}

impl Library {
    /// Why no solver can be made on `streams`, if so: what the library answers when it is first used.
    ///
    /// # Errors
    ///
    /// [`Missing`] with the error of [`Cudss::new`].
    pub fn try_on(
        self: &Arc<Self>,
        streams: &[Stream],
        threading: Option<&Path>,
    ) -> Result<(), Missing> {
        let made = Cudss::<f64>::new(Arc::clone(self), streams, Structure::General, threading);
        made.map(drop).map_err(|error| Missing(error.to_string()))
    }
}
