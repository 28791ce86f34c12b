//! What the engines of a device have in common.
//!
//! An [`AnyDeviceAnalysis`] is an analysis of A's pattern for one engine, the type of the factors hidden; an
//! [`AnyDeviceEngine`] has factors on the device, renews them, and solves with A. Both are used through trait
//! objects, so that what stands above is generic over the type of A only. `W` is the [wide](luge_sparse::Scalar::Wide) type of
//! that. Vectors and values of callers on the device are of `f64`: those of a complex matrix have both components of each
//! number side by side, the real part first.

use std::sync::{Arc, Mutex, PoisonError};

use luge_device::{Buffer, BufferView, DeviceError, Element, Slice, Stream};
use luge_frontal::gpu::{DeviceCheck, DeviceScalar, put_changed_values};
use luge_solve::gpu::{Measures, NotFinite, RefineScalar, Refined};
use luge_solve::refine;
use luge_sparse::{FilledPattern, Levels, PivotPolicy};

use crate::backend::gpu::GpuBackend;
use crate::backend::{Field, Limits};
use crate::engine::{Condition, Engine, Transform};
use crate::error::Error;
use crate::inform::Inform;
use crate::shared::Shared;
use crate::symmetry::Symmetry;
use crate::task::Check;
use crate::threads::Threads;

/// An analysis for one engine of a device, whatever the type of its factors.
pub(crate) trait AnyDeviceAnalysis<W>: Send + Sync {
    fn transform(&self) -> &Transform;

    /// Adds sizes, times and the code path of the analysis.
    fn describe(&self, inform: &mut Inform);

    /// The time that a factorization is predicted to take on one device over that on so many, if it can be dealt out.
    fn predicted_speedup(&self, devices: usize) -> Option<f64>;

    /// The filled pattern of B and its levels.
    fn structure(&self, shared: &Shared) -> Result<(FilledPattern, Levels), Error>;

    /// Factorizes the values `a` of A in the order in which callers store them; `pivots` are static, those of a symmetric
    /// matrix, or by a threshold if it [searches pivots](Self::searches_pivots).
    fn factorize(
        self: Arc<Self>,
        a: &[W],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<Box<dyn AnyDeviceEngine<W>>, Error>;

    /// The same plan for engines whose work is on another stream, and which share what they work in; `None` if engines
    /// cannot share a plan that way.
    fn on_stream(
        self: Arc<Self>,
        stream: &Stream,
    ) -> Result<Option<Arc<dyn AnyDeviceAnalysis<W>>>, Error>;

    /// The same plan on another device; `None` if engines cannot share a plan that way.
    fn on_device(
        &self,
        backend: &GpuBackend,
    ) -> Result<Option<Arc<dyn AnyDeviceAnalysis<W>>>, Error>;

    /// What many matrices take on the device, if engines can share the plan.
    fn batch_bytes(&self) -> Result<Option<BatchBytes>, Error>;

    /// Whether a factorization of a general matrix searches pivots on the device.
    fn searches_pivots(&self) -> bool;

    /// Searches `pivots` by columns on the CPU, and analyzes B with its rows so permuted.
    fn search_pivots(
        self: Arc<Self>,
        a: &[W],
        pivots: PivotPolicy,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<SearchedPivots<W>, Error>;
}

/// Factors on a device that can be renewed.
pub(crate) trait AnyDeviceEngine<W>: Engine<W> {
    /// New values, in stored order, on the old pivots. Whatever becomes of it, [`restore`](Self::restore) has the
    /// factors of the old values until [`keep`](Self::keep) is called.
    fn refactorize(&mut self, a: &[W], pivots: PivotPolicy, limits: &Limits) -> Result<(), Error>;

    /// Accepts the last refactorization.
    fn keep(&mut self);

    /// Undoes the last refactorization, if there was one that was not kept.
    fn restore(&mut self) -> Result<(), Error>;

    /// The same engine for callers whose data is on the device, if it takes such data as it is.
    fn resident(&self) -> Option<&dyn ResidentEngine<W>>;

    /// As [`resident`](Self::resident).
    fn resident_mut(&mut self) -> Option<&mut dyn ResidentEngine<W>>;
}

/// What is measured of new factors while the host does not wait.
#[derive(Clone, Copy)]
pub(crate) struct Measured<'a> {
    /// Growth and checksum, which an engine must [have](ResidentEngine::has_checks).
    pub is_checked: bool,
    /// A [solve for a known solution](ResidentEngine::probe).
    pub probed: Option<&'a Shared>,
    /// How far the values of a symmetric matrix are [apart](ResidentEngine::is_apart) from those across the diagonal, if they are
    /// stored.
    pub across: Option<&'a Symmetry>,
}

impl Measured<'_> {
    /// Nothing.
    pub(crate) const NOT: Self = Self {
        is_checked: false,
        probed: None,
        across: None,
    };
}

/// What needs no copy between the host and the device.
pub(crate) trait ResidentEngine<W> {
    /// As [`AnyDeviceEngine::refactorize`]. The values are copied. The host waits for what is `measured` together with the report
    /// on the pivots.
    fn refactorize_resident(
        &mut self,
        a: NewValues<'_, W>,
        pivots: PivotPolicy,
        measured: Measured<'_>,
    ) -> Result<Option<Measures>, Error>;

    /// Whether factors can be [checked](Measured::is_checked).
    fn has_checks(&self) -> bool;

    /// What a check of the factors measured, if they were checked.
    fn check(&self) -> Option<DeviceCheck>;

    /// Whether the values were compared [across](Measured::across) the diagonal, and are those of no symmetric matrix.
    fn is_apart(&self) -> bool;

    /// Solves once for a known solution with entries from 1 to 2, and measures what came back.
    fn probe(&self, shared: &Shared) -> Result<Measures, Error>;

    /// Refines what the last probe gave. If the target is missed all the same, also the row with the largest
    /// componentwise error.
    fn refine_probe(
        &self,
        shared: &Shared,
        options: &refine::Options,
    ) -> Result<(Refined, Option<usize>), Error>;

    /// Numbers of the host on the device, by components.
    fn upload(&self, numbers: &[W]) -> Result<Buffer<f64>, DeviceError>;

    /// Room for so many numbers, by components.
    fn alloc(&self, len: usize) -> Result<Buffer<f64>, DeviceError>;

    /// As [`upload`](Self::upload), to where others are.
    fn copy_from_host(&self, to: &mut Buffer<f64>, numbers: &[W]) -> Result<(), DeviceError>;

    /// Numbers of the device, or of another one of its group, on the host.
    fn download(&self, numbers: Slice<'_, f64>) -> Result<Vec<W>, DeviceError>;

    /// As [`download`](Self::download), to where others are.
    fn copy_to_host(&self, numbers: &Buffer<f64>, to: &mut [W]) -> Result<(), DeviceError>;

    /// Enqueues replacing right-hand sides of A·X = B or Aᵀ·X = B, one after another, by solutions, and looking for
    /// entries that are not finite.
    fn begin_solve(
        &self,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<Search, Error>;

    /// Solves A·X = B or Aᵀ·X = B for right-hand sides one after another, and refines each solution.
    fn solve_refined(
        &self,
        system: System<'_>,
        b: &Buffer<f64>,
        x: &mut Buffer<f64>,
        options: &refine::Options,
    ) -> Result<Vec<Refined>, Error>;

    /// Measures solutions.
    fn measure(
        &self,
        system: System<'_>,
        b: &Buffer<f64>,
        x: &Buffer<f64>,
    ) -> Result<Vec<Measures>, Error>;

    /// As [`Engine::condition`], for the values that were factorized.
    fn condition_of_values(&self) -> Result<Condition, Error>;

    /// The smallest and the largest magnitude of an eigenvalue of D, without the zero pivots that were accepted; `None` if
    /// the matrix is general.
    fn pivot_range(&self) -> Option<[f64; 2]>;

    /// The part of the work that the last refactorization did.
    fn refactorized_part(&self) -> f64;

    /// The values that were factorized, copied to the host.
    fn download_values(&self) -> Result<Vec<W>, Error>;
}

/// Bytes on the device, beside the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchBytes {
    /// Of what all have in common.
    pub common: u64,
    /// Of each stream.
    pub stream: u64,
    /// Of each matrix and its factors.
    pub system: u64,
}

impl BatchBytes {
    /// Systems that fit into so many bytes.
    pub fn fitting(&self, available: u64) -> usize {
        let left = available.saturating_sub(self.common + self.stream);
        (left / self.system.max(1)) as usize
    }
}

/// New values of A, in the order in which callers store them.
#[derive(Clone, Copy)]
pub(crate) enum NewValues<'a, W> {
    OnHost {
        values: &'a [W],
        /// What is still to be checked of them, while the device works.
        check: Check<'a>,
    },
    OnDevice(Slice<'a, f64>),
    /// Those at some places, ascending, of a general matrix; the others are as they were.
    Changed {
        places: &'a [u32],
        values: &'a [W],
    },
}

/// What is known of new values that are on their way to the device.
pub(crate) struct Entered<'a> {
    /// What is still to be checked of them.
    pub check: Check<'a>,
    /// The places of those that are others than before, if not all may be.
    pub changed: Option<&'a [u32]>,
}

impl<'a, W: RefineScalar> NewValues<'a, W> {
    /// Copies them to `there`, for factors with values of the type `T`; `old` are those before.
    pub(crate) fn enter<T: DeviceScalar<Value = W>>(
        self,
        stream: &Stream,
        threads: &Threads,
        old: &Buffer<W>,
        there: &mut Buffer<W>,
    ) -> Result<Entered<'a>, DeviceError> {
        let mut entered = Entered {
            check: &|| Ok(()),
            changed: None,
        };
        match self {
            Self::OnHost { values, check } => {
                threads.copy_from_host(stream, there, values)?;
                entered.check = check;
            }
            Self::OnDevice(values) => stream.copy_across(there, &values.into_elements::<W>())?,
            Self::Changed { places, values } => {
                stream.copy(there, old)?;
                put_changed_values::<T>(stream, (places, values), there)?;
                entered.changed = Some(places);
            }
        }
        Ok(entered)
    }
}

/// Numbers on the device of a stream, or on another one of its group, copied to the host.
pub(crate) fn fetched<E: Element>(
    stream: &Stream,
    numbers: &impl BufferView<E>,
) -> Result<Vec<E>, DeviceError> {
    if stream.reaches(numbers) {
        return stream.download(numbers);
    }
    let mut here = stream.alloc(numbers.len())?;
    stream.copy_across(&mut here, numbers)?;
    stream.download(&here)
}

/// Numbers with these components, one number after another.
pub(crate) fn of_components<W: Field>(components: &[f64]) -> Vec<W> {
    let numbers = components.chunks_exact(W::COMPONENTS);
    numbers
        .map(|number| W::from_components(|at| number[at]))
        .collect()
}

/// The components of numbers, one number after another.
pub(crate) fn components_of<W: Field>(numbers: &[W]) -> Vec<f64> {
    let mut components = Vec::with_capacity(numbers.len() * W::COMPONENTS);
    for &number in numbers {
        number.map_components(|component| {
            components.push(component);
            component
        });
    }
    components
}

/// Searches that have nothing to look for just now.
pub(crate) type IdleSearches = Arc<Mutex<Vec<NotFinite>>>;

/// A search for entries of solutions that are not finite. It goes back to the idle ones when it is dropped.
pub(crate) struct Search {
    /// There until it is dropped.
    search: Option<NotFinite>,
    idle: IdleSearches,
    n: usize,
}

impl Search {
    /// Begins to look through solutions of length `n`.
    pub(crate) fn begin<W: RefineScalar>(
        idle: &IdleSearches,
        stream: &Stream,
        x: &impl BufferView<W>,
        n: usize,
    ) -> Result<Self, Error> {
        let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut search = match kept {
            Some(search) => search,
            None => NotFinite::new(stream)?,
        };
        search.enqueue(stream, x)?;
        Ok(Self {
            search: Some(search),
            idle: Arc::clone(idle),
            n,
        })
    }

    /// Waits, refuses solutions that are not finite, and returns the largest magnitude of an entry.
    pub(crate) fn wait(self) -> Result<f64, Error> {
        match self.search.as_ref().map(NotFinite::first).transpose()? {
            Some(Some(at)) => Err(Error::SolutionNotFinite { row: at % self.n }),
            _ => Ok(self.search.as_ref().map_or(Ok(0.0), NotFinite::largest)?),
        }
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.search.take());
    }
}

/// What is solved: A·X = B, or Aᵀ·X = B, for some right-hand sides.
#[derive(Clone, Copy)]
pub(crate) struct System<'a> {
    pub shared: &'a Shared,
    pub nrhs: usize,
    pub transpose: bool,
}

/// The outcome of a search for pivots.
pub(crate) struct SearchedPivots<W> {
    /// The analysis to factorize with: the same one if no row had to move.
    pub analysis: Arc<dyn AnyDeviceAnalysis<W>>,
    pub num_off_diagonal: usize,
    pub seconds: f64,
}
