//! The tree engine of a device: the diagonal blocks of B as one forest of fronts, pivots searched within fronts.
//!
//! [`Forest`] is the plan on the host, by which memory is predicted; [`TreeChain`] the same on the device; its engine
//! has the factors, and the values they were made of, on the device. New values are factorized in the memory of the
//! old factors. Two buffers of values take turns, so the old ones can be factorized again, with the same pivots,
//! where the new ones fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use luge_device::{Buffer, DeviceError, Stream};
use luge_frontal::gpu::{
    DeviceFrontalError, DeviceFrontalLu, DeviceQuality, DeviceTree, Placement, StaticPivots,
};
use luge_frontal::{FrontalError, Tree, TreeOptions};
use luge_numeric::cpu::columns::{self, ColumnLu};
use luge_sparse::{CompressedPattern, FilledPattern, Levels, RowPerm, Scalar};

use crate::backend::gpu::GpuBackend;
use crate::backend::{DeviceCosts, Limits};
use crate::determinant::Determinant;
use crate::device_chain::{
    AnyDeviceChain, AnyDeviceEngine, Perturbation, ResidentEngine, SearchedPivots,
};
use crate::engine::{Condition, Engine, FactorReport, Transform};
use crate::error::{Error, PhaseError};
use crate::host::permuted_columns;
use crate::inform::Inform;
use crate::solver::{Rows, Shared};

/// The diagonal is taken as a pivot if it reaches this fraction of the largest candidate of its front. Exchanges within
/// a front cost no fill.
const FRONT_THRESHOLD: f64 = 0.1;

/// Bytes on the device of an entry right of the diagonal blocks, beside its value: where it comes from, its scaling, and
/// its place and number in the lists of two directions.
const COUPLING_BYTES: usize = (2 + 2 * 2) * 4;

/// The plan for a pattern on the host.
pub(crate) struct Forest {
    tree: Arc<Tree>,
    transform: Transform,
    block_ptr: Vec<usize>,
    /// B by columns, and the place of each entry among those of A, as it is stored.
    columns: CompressedPattern,
    source: Vec<u32>,
    /// Place in A of each entry of the tree.
    entries: Vec<u32>,
    /// The rows of B right of its diagonal blocks.
    coupling: CompressedPattern,
    coupling_entries: Vec<u32>,
    single: bool,
    seconds: f64,
}

/// See the module's page.
pub(crate) struct TreeChain {
    forest: Forest,
    on_device: Arc<DeviceTree>,
    stream: Stream,
    /// Seconds of transfers before the plan was made.
    earlier_transfers: f64,
    upload_seconds: f64,
}

/// Factors in the type that was asked for.
enum TreeLu {
    Single(DeviceFrontalLu<f32>),
    Double(DeviceFrontalLu<f64>),
}

struct TreeEngine {
    chain: Arc<TreeChain>,
    /// A solve works in memory of the factors.
    lu: Mutex<TreeLu>,
    /// The values of A in stored order.
    values: Buffer<f64>,
    /// For other values, once there were some.
    spare: Option<Buffer<f64>>,
    pivots: StaticPivots,
    quality: DeviceQuality,
    /// How `spare` was factorized, until the values that came after it are kept.
    previous: Option<(StaticPivots, DeviceQuality)>,
}

impl Forest {
    /// Analyzes the diagonal blocks of B for the pattern of A.
    pub(crate) fn analyze(
        a: &Rows<'_>,
        transform: Transform,
        block_ptr: Vec<usize>,
        single: bool,
    ) -> Result<Self, Error> {
        let (columns, mut source) = permuted_columns(&a.pattern, &transform);
        if let Some(entries) = &a.entries {
            source
                .iter_mut()
                .for_each(|p| *p = entries[*p as usize] as u32);
        }
        Self::of_columns(columns, source, transform, block_ptr, single)
    }

    fn of_columns(
        columns: CompressedPattern,
        source: Vec<u32>,
        transform: Transform,
        block_ptr: Vec<usize>,
        single: bool,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let n = columns.major_dim();
        let mut ptr = Vec::with_capacity(n + 1);
        ptr.push(0u64);
        let mut idx = Vec::with_capacity(columns.nnz());
        let mut entries = Vec::with_capacity(columns.nnz());
        // Entries above the blocks: offsets of the rows, shifted by one.
        let mut coupling_ptr = vec![0u64; n + 1];
        for block in block_ptr.windows(2) {
            for j in block[0]..block[1] {
                for p in columns.range(j) {
                    let i = columns.idx()[p];
                    if (i as usize) < block[0] {
                        coupling_ptr[i as usize + 1] += 1;
                    } else {
                        idx.push(i);
                        entries.push(source[p]);
                    }
                }
                ptr.push(idx.len() as u64);
            }
        }
        for i in 0..n {
            coupling_ptr[i + 1] += coupling_ptr[i];
        }
        let num_couplings = coupling_ptr[n] as usize;
        let mut next = coupling_ptr.clone();
        let mut coupling_idx = vec![0u32; num_couplings];
        let mut coupling_entries = vec![0u32; num_couplings];
        for block in block_ptr.windows(2) {
            for j in block[0]..block[1] {
                for p in columns.range(j) {
                    let i = columns.idx()[p] as usize;
                    if i >= block[0] {
                        break;
                    }
                    let at = next[i] as usize;
                    coupling_idx[at] = j as u32;
                    coupling_entries[at] = source[p];
                    next[i] += 1;
                }
            }
        }
        let valid = |pattern: Result<CompressedPattern, _>| {
            pattern.unwrap_or_else(|e: luge_sparse::PatternError| {
                unreachable!("parts of a valid pattern, in order: {e}")
            })
        };
        let blocks = valid(CompressedPattern::new(n, ptr, idx));
        let coupling = valid(CompressedPattern::new(n, coupling_ptr, coupling_idx));
        let tree = Tree::analyze(&blocks, &TreeOptions::default()).map_err(|e| match e {
            FrontalError::IndexOverflow(e) => Error::IndexOverflow(e),
            other => unreachable!("an analysis of a square pattern: {other}"),
        })?;
        Ok(Self {
            tree: Arc::new(tree),
            transform,
            block_ptr,
            columns,
            source,
            entries,
            coupling,
            coupling_entries,
            single,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Predicted bytes on the device: tree, factors, elements, and the values of A twice.
    pub(crate) fn device_bytes(&self) -> u64 {
        let value_bytes = if self.single { 4 } else { 8 };
        let values = 2 * size_of::<f64>() * self.source.len();
        let couplings = (COUPLING_BYTES + value_bytes) * self.coupling.nnz();
        DeviceTree::predicted_bytes(&self.tree, value_bytes) + (values + couplings) as u64
    }

    /// Copies the plan to the device.
    pub(crate) fn upload(self, backend: &GpuBackend) -> Result<Arc<TreeChain>, Error> {
        let stream = backend.stream().clone();
        let earlier_transfers = stream.device().transfers().seconds;
        let start = Instant::now();
        let Transform {
            row_perm,
            col_perm,
            scaling,
        } = &self.transform;
        let placement = Placement {
            row_perm,
            col_perm,
            scaling,
            entries: &self.entries,
            block_ptr: &self.block_ptr,
            coupling: &self.coupling,
            coupling_entries: &self.coupling_entries,
        };
        let on_device = DeviceTree::upload(&stream, &self.tree, &placement)
            .map_err(|e| Error::from_device(e, "symbolic"))?;
        Ok(Arc::new(TreeChain {
            on_device: Arc::new(on_device),
            forest: self,
            stream,
            earlier_transfers,
            upload_seconds: start.elapsed().as_secs_f64(),
        }))
    }
}

fn numeric_error(error: DeviceFrontalError) -> Error {
    match error {
        DeviceFrontalError::ZeroPivot { column } => Error::ZeroPivot { column },
        DeviceFrontalError::NotFinite { column } => Error::Overflow { column },
        DeviceFrontalError::Device(e) => Error::from_device(e, "numeric"),
    }
}

fn solve_error(error: DeviceFrontalError) -> Error {
    match error {
        DeviceFrontalError::Device(e) => Error::from_device(e, "solve"),
        other => numeric_error(other),
    }
}

impl TreeLu {
    fn factorize(
        stream: &Stream,
        tree: &Arc<DeviceTree>,
        values: &Buffer<f64>,
        pivots: &StaticPivots,
        single: bool,
    ) -> Result<(Self, DeviceQuality), DeviceFrontalError> {
        Ok(if single {
            let (lu, quality) = DeviceFrontalLu::factorize(stream, tree, values, pivots)?;
            (Self::Single(lu), quality)
        } else {
            let (lu, quality) = DeviceFrontalLu::factorize(stream, tree, values, pivots)?;
            (Self::Double(lu), quality)
        })
    }

    fn refactorize(
        &mut self,
        stream: &Stream,
        values: &Buffer<f64>,
        pivots: &StaticPivots,
    ) -> Result<DeviceQuality, DeviceFrontalError> {
        match self {
            Self::Single(lu) => lu.refactorize(stream, values, pivots),
            Self::Double(lu) => lu.refactorize(stream, values, pivots),
        }
    }

    fn solve(
        &mut self,
        stream: &Stream,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<(), DeviceFrontalError> {
        match self {
            Self::Single(lu) => lu.solve(stream, x, nrhs, transpose),
            Self::Double(lu) => lu.solve(stream, x, nrhs, transpose),
        }
    }

    /// The panels of all fronts in `f64`, and the row that each pivot was exchanged with.
    fn download(&self, stream: &Stream) -> Result<(Vec<f64>, Vec<u32>), DeviceError> {
        Ok(match self {
            Self::Single(lu) => (
                f32::in_f64(&stream.download(lu.factors())?).into_owned(),
                stream.download(lu.pivot_rows())?,
            ),
            Self::Double(lu) => (
                stream.download(lu.factors())?,
                stream.download(lu.pivot_rows())?,
            ),
        })
    }
}

impl TreeChain {
    fn pivots(&self, perturbation: Perturbation) -> StaticPivots {
        let epsilon = if self.forest.single {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        };
        StaticPivots {
            threshold: FRONT_THRESHOLD,
            smallest: match perturbation {
                Perturbation::Default => epsilon.sqrt(),
                Perturbation::Below(threshold) => threshold,
                Perturbation::Never => 0.0,
            },
        }
    }

    /// Factors of the values `a` of A by rows or columns, as B is scaled: ‖B‖₁.
    fn norm1(&self, a: &[f64]) -> f64 {
        let Forest {
            columns,
            source,
            transform,
            ..
        } = &self.forest;
        let (rows, cols) = (transform.row_perm.as_slice(), transform.col_perm.as_slice());
        let sums = (0..columns.major_dim()).map(|j| {
            columns
                .range(j)
                .map(|p| {
                    let row = rows[columns.idx()[p] as usize] as usize;
                    let value = a[source[p] as usize];
                    transform.scaling.apply(row, cols[j] as usize, value).abs()
                })
                .sum()
        });
        sums.fold(0.0, f64::max)
    }
}

impl AnyDeviceChain for TreeChain {
    fn transform(&self) -> &Transform {
        &self.forest.transform
    }

    fn describe(&self, inform: &mut Inform) {
        let forest = &self.forest;
        let tree = &forest.tree;
        let triangle = (tree.factor_entries() + tree.n() as u64) / 2;
        inform.lnz = triangle;
        inform.unz = triangle + forest.coupling.nnz() as u64;
        inform.flops = tree.flops();
        inform.num_supernodes = Some(tree.num_supernodes());
        inform.max_front = Some(tree.max_front());
        let lists = forest.source.len() + forest.entries.len() + forest.coupling_entries.len();
        let patterns = [&forest.columns, &forest.coupling];
        let patterns = patterns.map(|p| 8 * p.ptr().len() + 4 * p.nnz());
        let held = 4 * lists + patterns.iter().sum::<usize>();
        inform.peak_host_bytes = inform.peak_host_bytes.max(tree.bytes() + held as u64);
        inform.predicted_device_bytes = Some(forest.device_bytes());
        inform.seconds.symbolic = forest.seconds + self.upload_seconds;
        inform.precision = if forest.single { f32::NAME } else { f64::NAME };
        inform.code_path = vec!["symbolic: forest of fronts, on the CPU"];
    }

    fn structure(&self, shared: &Shared) -> Result<(FilledPattern, Levels), Error> {
        shared.host_structure(self.forest.transform.clone())
    }

    fn factorize(
        self: Arc<Self>,
        a: &[f64],
        perturbation: Perturbation,
        _limits: &Limits,
    ) -> Result<Box<dyn AnyDeviceEngine>, Error> {
        let _span = tracing::info_span!("numeric").entered();
        let pivots = self.pivots(perturbation);
        let values = self
            .stream
            .upload(a)
            .map_err(|e| Error::from_device(e, "numeric"))?;
        let (lu, quality) = TreeLu::factorize(
            &self.stream,
            &self.on_device,
            &values,
            &pivots,
            self.forest.single,
        )
        .map_err(numeric_error)?;
        Ok(Box::new(TreeEngine {
            lu: Mutex::new(lu),
            values,
            spare: None,
            pivots,
            quality,
            previous: None,
            chain: self,
        }))
    }

    fn search_pivots(
        self: Arc<Self>,
        a: &[f64],
        threshold: f64,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<SearchedPivots, Error> {
        let _span = tracing::info_span!("pivot search").entered();
        let start = Instant::now();
        let forest = &self.forest;
        let moved = if forest.single {
            search::<f32>(forest, a, threshold, limits)
        } else {
            search::<f64>(forest, a, threshold, limits)
        }?;
        let Some((moved, num_off_diagonal)) = moved else {
            return Ok(SearchedPivots {
                chain: self,
                num_off_diagonal: 0,
                seconds: start.elapsed().as_secs_f64(),
            });
        };
        let transform = Transform {
            row_perm: RowPerm(forest.transform.row_perm.then(&moved)),
            ..forest.transform.clone()
        };
        let new_row = moved.inverse();
        let mut idx = Vec::with_capacity(forest.columns.nnz());
        let mut source = Vec::with_capacity(forest.columns.nnz());
        let mut column: Vec<(u32, u32)> = Vec::new();
        for j in 0..forest.columns.major_dim() {
            column.clear();
            column.extend(forest.columns.range(j).map(|p| {
                let row = forest.columns.idx()[p] as usize;
                (new_row[row], forest.source[p])
            }));
            column.sort_unstable();
            idx.extend(column.iter().map(|&(row, _)| row));
            source.extend(column.iter().map(|&(_, entry)| entry));
        }
        let columns = CompressedPattern::new(
            forest.columns.minor_dim(),
            forest.columns.ptr().to_vec(),
            idx,
        )
        .unwrap_or_else(|e| unreachable!("permuted columns stay valid: {e}"));
        let forest = Forest::of_columns(
            columns,
            source,
            transform,
            forest.block_ptr.clone(),
            forest.single,
        )?;
        backend.check_memory(forest.device_bytes())?;
        Ok(SearchedPivots {
            chain: forest.upload(backend)?,
            num_off_diagonal,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

/// Searches pivots in the columns of B: where its rows go, and how many pivots are off the diagonal; `None` if all are
/// on it. A column has no entry below its block, so rows stay in their blocks.
fn search<F: crate::backend::FactorScalar>(
    forest: &Forest,
    a: &[f64],
    threshold: f64,
    limits: &Limits,
) -> Result<Option<(RowPerm, usize)>, Error> {
    let Transform {
        row_perm,
        col_perm,
        scaling,
    } = &forest.transform;
    let mut values: Vec<F> = Vec::with_capacity(forest.source.len());
    for (&col, rows) in col_perm.as_slice().iter().zip(forest.columns.lanes()) {
        let first = values.len();
        values.extend(rows.iter().zip(&forest.source[first..]).map(|(&i, &p)| {
            let row = row_perm.as_slice()[i as usize] as usize;
            F::from_f64(scaling.apply(row, col as usize, a[p as usize]))
        }));
    }
    let options = columns::Options {
        threshold,
        cancel: limits.cancel.clone(),
        max_bytes: limits.max_host_bytes,
        ..columns::Options::default()
    };
    let (found, quality) = ColumnLu::factorize(&forest.columns, &values, &options)
        .map_err(|e| PhaseError::from(e).in_terms_of_a(col_perm.as_slice()))?;
    let count = quality.num_off_diagonal;
    Ok((count > 0).then(|| (found.row_perm().clone(), count)))
}

impl TreeEngine {
    fn lu(&self) -> MutexGuard<'_, TreeLu> {
        self.lu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn growth(&self) -> f64 {
        let DeviceQuality {
            max_b,
            max_u,
            max_l,
            ..
        } = self.quality;
        if max_b == 0.0 {
            return 0.0;
        }
        max_u * max_l.max(1.0) / max_b
    }

    /// Factorizes the values in `spare`, which change places with the old ones.
    fn factorize_spare(&mut self, spare: Buffer<f64>, pivots: StaticPivots) -> Result<(), Error> {
        self.spare = Some(std::mem::replace(&mut self.values, spare));
        self.previous = Some((self.pivots, self.quality));
        self.pivots = pivots;
        self.renew()
    }

    /// Factorizes the values that are there.
    fn renew(&mut self) -> Result<(), Error> {
        let _span = tracing::info_span!("numeric").entered();
        let lu = self.lu.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.quality = lu
            .refactorize(&self.chain.stream, &self.values, &self.pivots)
            .map_err(numeric_error)?;
        Ok(())
    }

    /// The buffer for other values.
    fn take_spare(&mut self) -> Result<Buffer<f64>, Error> {
        match self.spare.take() {
            Some(spare) => Ok(spare),
            None => self
                .chain
                .stream
                .alloc(self.values.len())
                .map_err(|e| Error::from_device(e, "numeric")),
        }
    }

    /// Solves with B, in its orders.
    fn solve_permuted(&self, y: &mut [f64], transpose: bool) -> Result<(), Error> {
        let Transform {
            row_perm,
            col_perm,
            scaling,
        } = &self.chain.forest.transform;
        let of_rows = (row_perm.as_slice(), &scaling.rows);
        let of_cols = (col_perm.as_slice(), &scaling.cols);
        let ((enter, enter_factors), (leave, leave_factors)) = if transpose {
            (of_cols, of_rows)
        } else {
            (of_rows, of_cols)
        };
        let mut b = vec![0.0; y.len()];
        for (&old, &value) in enter.iter().zip(&*y) {
            b[old as usize] = value / enter_factors[old as usize];
        }
        let x = self.solve(&b, 1, transpose)?;
        for (y, &old) in y.iter_mut().zip(leave) {
            *y = x[old as usize] / leave_factors[old as usize];
        }
        Ok(())
    }
}

impl Engine for TreeEngine {
    fn report(&self) -> FactorReport {
        let device = self.chain.stream.device();
        FactorReport {
            num_perturbed: self.quality.num_perturbed as usize,
            first_perturbed: self.quality.first_perturbed,
            growth: self.growth(),
            code_path: vec!["numeric: fronts up the forest, one launch"],
            device: DeviceCosts {
                peak_bytes: Some(device.peak_bytes()),
                transfer_seconds: Some(device.transfers().seconds - self.chain.earlier_transfers),
            },
            ..FactorReport::default()
        }
    }

    fn solve(&self, b: &[f64], nrhs: usize, transpose: bool) -> Result<Vec<f64>, Error> {
        let in_solve = |e| Error::from_device(e, "solve");
        let stream = &self.chain.stream;
        let mut x = stream.upload(b).map_err(in_solve)?;
        self.solve_resident(&mut x, nrhs, transpose)?;
        stream.download(&x).map_err(in_solve)
    }

    fn condition(&self, a: &[f64]) -> Result<Condition, Error> {
        let transform = &self.chain.forest.transform;
        let norm1 = || self.chain.norm1(a);
        let solve = |x: &mut [f64]| self.solve_permuted(x, false);
        let solve_transpose = |x: &mut [f64]| self.solve_permuted(x, true);
        if self.chain.forest.single {
            Condition::estimate::<f32>(transform, norm1, solve, solve_transpose)
        } else {
            Condition::estimate::<f64>(transform, norm1, solve, solve_transpose)
        }
    }

    fn determinant(&self) -> Result<Determinant, Error> {
        let (panels, pivot_rows) = self
            .lu()
            .download(&self.chain.stream)
            .map_err(|e| Error::from_device(e, "numeric"))?;
        let transform = &self.chain.forest.transform;
        let mut product = Determinant::ONE;
        let mut slot = 0;
        for front in self.chain.forest.tree.fronts() {
            let (start, pivots) = (front.start as usize, front.pivots as usize);
            let rows = front.size() as usize;
            for j in 0..pivots {
                let pivot = panels[slot + j * (rows + 1)];
                let exchanged = pivot_rows[start + j] as usize != j;
                product = product.times(if exchanged { -pivot } else { pivot });
            }
            slot += pivots * (rows + front.below as usize);
        }
        // Rows and columns go to the order of elimination alike, which changes no sign.
        Ok(transform.undo_determinant(&transform.row_perm, product))
    }
}

impl AnyDeviceEngine for TreeEngine {
    fn refactorize(
        &mut self,
        a: &[f64],
        perturbation: Perturbation,
        _limits: &Limits,
    ) -> Result<(), Error> {
        let pivots = self.chain.pivots(perturbation);
        let mut spare = self.take_spare()?;
        let copied = self.chain.stream.copy_from_host(&mut spare, a);
        copied.map_err(|e| Error::from_device(e, "numeric"))?;
        self.factorize_spare(spare, pivots)
    }

    fn keep(&mut self) {
        self.previous = None;
    }

    fn restore(&mut self) -> Result<(), Error> {
        let (Some((pivots, quality)), Some(spare)) = (self.previous.take(), self.spare.take())
        else {
            return Ok(());
        };
        self.spare = Some(std::mem::replace(&mut self.values, spare));
        self.pivots = pivots;
        self.renew()?;
        // What was measured of the old factors when they were accepted.
        self.quality = quality;
        Ok(())
    }

    fn resident(&self) -> Option<&dyn ResidentEngine> {
        Some(self)
    }

    fn resident_mut(&mut self) -> Option<&mut dyn ResidentEngine> {
        Some(self)
    }
}

impl ResidentEngine for TreeEngine {
    fn refactorize_resident(
        &mut self,
        a: &Buffer<f64>,
        perturbation: Perturbation,
    ) -> Result<(), Error> {
        let pivots = self.chain.pivots(perturbation);
        let mut spare = self.take_spare()?;
        let copied = self.chain.stream.copy(&mut spare, a);
        copied.map_err(|e| Error::from_device(e, "numeric"))?;
        self.factorize_spare(spare, pivots)
    }

    fn solve_resident(
        &self,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<(), Error> {
        self.lu()
            .solve(&self.chain.stream, x, nrhs, transpose)
            .map_err(solve_error)
    }

    fn download_values(&self) -> Result<Vec<f64>, Error> {
        self.chain
            .stream
            .download(&self.values)
            .map_err(|e| Error::from_device(e, "numeric"))
    }
}
