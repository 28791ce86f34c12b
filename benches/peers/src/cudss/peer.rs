//! cuDSS behind the trait of all peers: matrices, right-hand sides and solutions are on the host, and their way to the
//! device is part of each step, but for those of [`Resident`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use luge_device::{Device, Stream};
use sprs::CsMat;

use super::{Cudss, CudssError, CudssScalar, Library, threading_layer_beside};
use crate::{Matrix, Missing, Peer, PeerError, Resident, Staged, Statistics, Structure};

/// cuDSS on one GPU or on several: makes any number of solvers.
#[derive(Clone)]
pub struct Found {
    library: Arc<Library>,
    /// One of each device.
    streams: Vec<Stream>,
    threading: Option<PathBuf>,
    note: String,
}

impl Found {
    /// Loads the library, from `path` if there is one, for these devices, with the threading layer that is named, or with the
    /// one beside `path` if that works.
    ///
    /// # Errors
    ///
    /// [`Missing`] if library, devices or a layer that is named do not work.
    ///
    /// # Panics
    ///
    /// If there is no device.
    #[track_caller]
    pub fn load(
        path: Option<&PathBuf>,
        threading: Option<PathBuf>,
        devices: &[Device],
    ) -> Result<Self, Missing> {
        let library = Arc::new(Library::load(path)?);
        let streams = devices.iter().map(Device::create_stream);
        let streams = streams
            .collect::<Result<_, _>>()
            .map_err(|error| Missing(error.to_string()))?;
        let is_named = threading.is_some();
        let beside = || threading_layer_beside(path?);
        let mut found = Self {
            library,
            streams,
            threading: threading.or_else(beside),
            note: "with its threading layer".to_owned(),
        };
        match found
            .library
            .try_on(&found.streams, found.threading.as_deref())
        {
            Ok(()) if found.threading.is_some() => {}
            Ok(()) => found.note = "no threading layer".to_owned(),
            Err(reason) if is_named || found.threading.is_none() => return Err(reason),
            Err(reason) => {
                found.threading = None;
                found.note = format!("no threading layer: {reason}");
                found.library.try_on(&found.streams, None)?;
            }
        }
        Ok(found)
    }

    /// Why analyses are not shared by the cores of the host, if they are not.
    pub fn unshared(&self) -> Option<&str> {
        self.threading.is_none().then_some(&self.note)
    }

    /// A solver for matrices of this structure.
    ///
    /// # Errors
    ///
    /// As [`Cudss::new`].
    pub fn solver<T: CudssScalar>(&self, structure: Structure) -> Result<Solver<T>, PeerError> {
        let threading: Option<&Path> = self.threading.as_deref();
        let library = Arc::clone(&self.library);
        Ok(Solver {
            cudss: Cudss::new(library, &self.streams, structure, threading)?,
            structure,
            found: self.clone(),
            seconds: [None, None],
            taken: None,
        })
    }
}

/// One matrix in cuDSS.
pub struct Solver<T: CudssScalar> {
    cudss: Cudss<T>,
    structure: Structure,
    found: Found,
    /// Of reordering and symbolic factorization.
    seconds: [Option<f64>; 2],
    /// Where the values lie that the analysis took, until they are factorized.
    taken: Option<usize>,
}

impl From<CudssError> for PeerError {
    fn from(error: CudssError) -> Self {
        match error {
            CudssError::OutOfOrder => Self::OutOfOrder,
            other => Self::Failed(other.to_string()),
        }
    }
}

impl<T: CudssScalar> Solver<T> {
    /// What is handed over of a matrix.
    fn given<'a>(&self, a: &'a Matrix<T>) -> &'a CsMat<T> {
        a.told(self.structure)
    }
}

impl<T: CudssScalar> Peer<T> for Solver<T> {
    fn name(&self) -> &'static str {
        "cudss"
    }

    fn version(&self) -> String {
        self.found.library.version().to_owned()
    }

    fn notes(&self) -> Vec<String> {
        vec![self.found.note.clone(), "default options".to_owned()]
    }

    fn analyze(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        // A `Matrix` has indices that fit 32 bits.
        let narrow =
            |indices: &[usize]| -> Vec<u32> { indices.iter().map(|&i| i as u32).collect() };
        let rows = self.given(a);
        let (row_ptr, col_idx) = (narrow(rows.indptr().raw_storage()), narrow(rows.indices()));
        self.cudss.take(&row_ptr, &col_idx, rows.data())?;
        let start = Instant::now();
        self.cudss.reorder()?;
        let between = Instant::now();
        self.cudss.symbolic()?;
        self.seconds = [between - start, between.elapsed()].map(|time| Some(time.as_secs_f64()));
        self.taken = Some(rows.data().as_ptr().addr());
        Ok(())
    }

    fn analysis_seconds(&self) -> [Option<f64>; 2] {
        self.seconds
    }

    fn factorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        // Those that came with the pattern need no second way to the device.
        let values = self.given(a).data();
        if self.taken.take() != Some(values.as_ptr().addr()) {
            self.cudss.set_values(values)?;
        }
        Ok(self.cudss.factorize()?)
    }

    fn refactorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        self.cudss.set_values(self.given(a).data())?;
        Ok(self.cudss.refactorize()?)
    }

    fn solve(&mut self, x: &mut [T], nrhs: usize) -> Result<(), PeerError> {
        self.cudss.set_right_hand_sides(x, nrhs)?;
        self.cudss.solve(nrhs)?;
        Ok(self.cudss.solutions(x, nrhs)?)
    }

    fn solve_transpose(&mut self, _: &mut [T], _: usize) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }

    fn resident(&mut self) -> Option<&mut dyn Resident<T>> {
        Some(self)
    }

    fn statistics(&mut self) -> Statistics {
        let mut statistics = Statistics::default();
        match self.cudss.statistics() {
            Ok(found) => {
                statistics.factor_entries = Some(found.factor_entries);
                statistics.device_bytes = Some(found.peak_device_bytes);
                statistics.peak_bytes = Some(found.peak_host_bytes);
                statistics.num_perturbed = Some(found.num_perturbed);
                statistics.inertia = found.inertia;
                if found.info != 0 {
                    statistics.details.push(format!("info {}", found.info));
                }
            }
            Err(error) => statistics.details.push(error.to_string()),
        }
        statistics
    }

    fn drop_factors(&mut self) {
        // There is no call for that alone; what comes next takes the place.
    }

    fn drop_analysis(&mut self) {
        self.cudss.forget();
    }
}

impl<T: CudssScalar> Resident<T> for Solver<T> {
    fn stage(&mut self, staged: &Staged<'_, T>) -> Result<(), PeerError> {
        let structure = self.structure;
        let others = staged.others.iter().map(|a| a.told(structure).data());
        self.cudss.stage_values(others)?;
        let n = staged.a.n().max(1);
        for b in staged.b {
            self.cudss.set_right_hand_sides(b, b.len() / n)?;
        }
        Peer::refactorize(self, staged.a)
    }

    fn refactorize(&mut self, number: usize) -> Result<(), PeerError> {
        self.cudss.select_values(number)?;
        Ok(self.cudss.refactorize()?)
    }

    fn solve(&mut self, nrhs: usize) -> Result<(), PeerError> {
        Ok(self.cudss.solve(nrhs)?)
    }

    fn refactorize_on_clock(&mut self) -> Result<f64, PeerError> {
        Ok(self.cudss.refactorize_on_clock()?)
    }

    fn solve_on_clock(&mut self, nrhs: usize) -> Result<f64, PeerError> {
        Ok(self.cudss.solve_on_clock(nrhs)?)
    }
}
