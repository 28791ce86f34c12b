//! Growth and checksum of the factors of a refactorization: see `luge_gpu_kernels::frontal::check`.

use luge_device::{Buffer, DeviceError, LaunchConfig, PinnedBuffer, RecordBuffer, Stream};
use luge_gpu_kernels::frontal::check::{
    self as kernels, CheckedBuffers, ColumnsBuffers, GROUP, SEGMENT, Segment, SumsBuffers, THREADS,
    TILE_ROWS, Tile, copies_of_sums, measure,
};
use luge_kernel::math::Field;
use luge_sparse::etree::inverse;
use luge_sparse::{Quality, Scalar};

use super::placement::Placement;
use super::scalar::WideOf;
use super::tree::DeviceTree;
use super::{DeviceFrontalError, DeviceFrontalLu, DeviceScalar};
use crate::shares::{mapped, shares, split};
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::AssemblyTree;

/// What a check measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceCheck {
    /// Growth, checksum and range of the factors, as the CPU measures them; columns, perturbed and delayed pivots, product and
    /// residual are not told here. The growth is at most by 2⁻¹² too large for each front that a column is in, and infinite from 2²⁸
    /// on; the checksum is infinite where the growth is above
    /// [`MOST_GROWTH`](luge_gpu_kernels::frontal::check::MOST_GROWTH).
    pub quality: Quality,
    /// max over columns k of ‖ |L|·|U|·e_k ‖₁ times the weight of the column: min Dc / Dc(k) · min Dr / min Dr(i), where i goes over
    /// the rows of the fronts that have the column. Divided by min Dr · min Dc it is a bound of Dr⁻¹·|L|·|U|·Dc⁻¹.
    pub max_product: f64,
    /// max over columns k of |wᵀ·(B − L·U)·e_k|, weighted likewise.
    pub max_residual: f64,
    /// Largest magnitude of a value of A in the diagonal blocks of B.
    pub max_value: f64,
}

/// What checks read of a tree, on the device: made for the first of them.
#[derive(Debug)]
pub(super) struct CheckPlan {
    front_of: Buffer<u32>,
    tiles: RecordBuffer<Tile>,
    weights: Buffer<i32>,
    /// B by columns in the order of elimination.
    col_ptr: Buffer<u32>,
    segments: RecordBuffer<Segment>,
    segment_ptr: Buffer<u32>,
    rows: Buffer<u32>,
    source: Buffer<u32>,
}

/// What a check works in.
#[derive(Debug)]
pub(super) struct CheckMemory<T: DeviceScalar> {
    segment_norms: Buffer<f64>,
    segment_sums: Buffer<WideOf<T>>,
    segment_values: Buffer<f64>,
    norms: Buffer<f64>,
    weighted: Buffer<WideOf<T>>,
    sizes: Buffer<f64>,
    residuals: Buffer<u64>,
    products: Buffer<u64>,
    pivots: Buffer<f64>,
    measures: Buffer<u64>,
    on_host: PinnedBuffer<u64>,
}

/// The parts of U right of the pivots' blocks that are worked on by themselves.
fn tiles(tree: &AssemblyTree) -> Vec<Tile> {
    let mut tiles = Vec::with_capacity(num_tiles(tree) as usize);
    for (number, front) in (0..).zip(tree.fronts()) {
        for row in (0..front.pivots).step_by(TILE_ROWS as usize) {
            for column in (0..front.below).step_by(GROUP as usize) {
                tiles.push(Tile {
                    front: number,
                    row,
                    column,
                });
            }
        }
    }
    tiles
}

fn num_tiles(tree: &AssemblyTree) -> u64 {
    let of_front = |pivots: u32, below: u32| {
        u64::from(pivots.div_ceil(TILE_ROWS)) * u64::from(below.div_ceil(GROUP))
    };
    let fronts = tree.fronts().iter();
    fronts
        .map(|front| of_front(front.pivots, front.below))
        .sum()
}

/// The exponent of the weight of each column, in the order of elimination: what is small in a column of B may be large in a row
/// of A, but only in rows in which the column has entries.
fn weights(tree: &AssemblyTree, placement: &Placement<'_>, threads: usize) -> Vec<i32> {
    // What underflows in B may be large in A then, of which roundings do not tell.
    if !placement.scaling.is_tame() {
        return vec![0; tree.n()];
    }
    let (rows, cols) = placement.placed(tree.perm(), threads);
    let mut least_rows = vec![i32::MAX; tree.n()];
    for (number, front) in tree.fronts().iter().enumerate() {
        let below = tree.rows_below(number).iter().map(|&row| row as usize);
        let of_front = || front.pivot_range().chain(below.clone());
        let least = of_front().map(|e| rows.exponents[e]).min();
        for e in of_front() {
            least_rows[e] = least_rows[e].min(least.unwrap_or(i32::MAX));
        }
    }
    let least = |exponents: &[i32]| exponents.iter().copied().min().unwrap_or(0);
    let all = least(&rows.exponents) + least(&cols.exponents);
    let own = least_rows.iter().zip(&cols.exponents);
    own.map(|(&row, &col)| all - row - col).collect()
}

/// Parts of long columns of B.
fn num_segments(tree: &AssemblyTree) -> u64 {
    let lengths = tree.pattern.lines().map(|rows| rows.len() as u32);
    let long = lengths.filter(|&length| length > SEGMENT);
    long.map(|length| u64::from(length.div_ceil(SEGMENT))).sum()
}

/// Copies of the sums over columns of U: one where no column of B is long, so that no place is that of nearly all fronts.
fn copies(n: usize, num_segments: u64) -> usize {
    if num_segments == 0 {
        1
    } else {
        copies_of_sums(n)
    }
}

/// B by columns in the order of elimination: where they begin, rows, values of A.
fn columns(tree: &AssemblyTree, entries: &[u32], threads: usize) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let (pattern, perm) = (&tree.pattern, tree.perm());
    let place = inverse(perm);
    let mut ptr = Vec::with_capacity(perm.len() + 1);
    ptr.push(0u32);
    for &column in perm {
        let len = pattern.line(column as usize).len() as u32;
        ptr.push(ptr[ptr.len() - 1] + len);
    }
    let ranges = shares(threads, perm.len(), |e| u64::from(ptr[e]));
    let lengths = || {
        ranges
            .iter()
            .map(|range| (ptr[range.end] - ptr[range.start]) as usize)
    };
    let (mut rows, mut source) = (vec![0; pattern.nnz()], vec![0; pattern.nnz()]);
    let of_rows = split(&mut rows, lengths());
    let of_source = split(&mut source, lengths());
    let parts = ranges
        .iter()
        .zip(of_rows.into_iter().zip(of_source))
        .collect();
    mapped(parts, |(range, (rows, source))| {
        let mut at = 0;
        for &column in &perm[range.clone()] {
            let column = column as usize;
            for (&row, &entry) in pattern
                .line(column)
                .iter()
                .zip(&entries[pattern.range(column)])
            {
                (rows[at], source[at]) = (place[row as usize], entry);
                at += 1;
            }
        }
    });
    (ptr, rows, source)
}

/// The parts of long columns, and where those of each begin.
fn segments(col_ptr: &[u32]) -> (Vec<Segment>, Vec<u32>) {
    let (mut segments, mut ptr) = (Vec::new(), vec![0]);
    for (column, range) in (0..).zip(col_ptr.windows(2)) {
        let &[first, last] = range else {
            unreachable!("windows of two")
        };
        if last - first > SEGMENT {
            segments.extend(
                (first..last)
                    .step_by(SEGMENT as usize)
                    .map(|begin| Segment {
                        column,
                        begin,
                        end: last.min(begin + SEGMENT),
                    }),
            );
        }
        ptr.push(segments.len() as u32);
    }
    (segments, ptr)
}

/// Blocks that measure, at most.
const MEASURING_BLOCKS: u32 = 256;

/// A launch of so many groups of lanes.
fn of_groups(groups: usize) -> LaunchConfig {
    LaunchConfig::for_elements(groups * GROUP as usize, THREADS)
}

impl CheckPlan {
    /// The arguments that say what B is, for the values `a` of A.
    fn columns<'a, W: Field>(
        &'a self,
        tree: &'a DeviceTree,
        a: &'a Buffer<W>,
    ) -> ColumnsBuffers<'a, W> {
        ColumnsBuffers {
            col_ptr: &self.col_ptr,
            segments: &self.segments,
            segment_ptr: &self.segment_ptr,
            rows: &self.rows,
            source: &self.source,
            row_exponents: &tree.solve.rows.exponents,
            col_exponents: &tree.solve.cols.exponents,
            values: a,
        }
    }

    fn upload(
        stream: &Stream,
        tree: &AssemblyTree,
        placement: &Placement<'_>,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        placement.check(tree.n(), tree.nnz());
        let (col_ptr, rows, source) = columns(tree, placement.entries, threads);
        let (segments, segment_ptr) = segments(&col_ptr);
        let mut front_of = vec![0; tree.n()];
        for (number, front) in (0..).zip(tree.fronts()) {
            front_of[front.pivot_range()].fill(number);
        }
        Ok(Self {
            front_of: stream.upload(&front_of)?,
            tiles: stream.upload_records(&tiles(tree))?,
            weights: stream.upload(&weights(tree, placement, threads))?,
            col_ptr: stream.upload(&col_ptr)?,
            segments: stream.upload_records(&segments)?,
            segment_ptr: stream.upload(&segment_ptr)?,
            rows: stream.upload(&rows)?,
            source: stream.upload(&source)?,
        })
    }

    fn bytes(tree: &AssemblyTree) -> u64 {
        let words = 4 * tree.n() + 2 * tree.nnz() + 2;
        let records = num_tiles(tree) * size_of::<Tile>() as u64
            + num_segments(tree) * size_of::<Segment>() as u64;
        words as u64 * size_of::<u32>() as u64 + records
    }
}

impl<T: DeviceScalar> CheckMemory<T> {
    fn new(stream: &Stream, plan: &CheckPlan) -> Result<Self, DeviceError> {
        let n = plan.front_of.len();
        let copies = copies(n, plan.segments.len() as u64);
        Ok(Self {
            segment_norms: stream.alloc(plan.segments.len())?,
            segment_sums: stream.alloc(plan.segments.len())?,
            segment_values: stream.alloc(plan.segments.len())?,
            norms: stream.alloc(n)?,
            weighted: stream.alloc(n)?,
            sizes: stream.alloc(n)?,
            residuals: stream.alloc(copies * n * components::<T>())?,
            products: stream.alloc(copies * n)?,
            pivots: stream.alloc(n)?,
            measures: stream.alloc(measure::WORDS)?,
            on_host: stream.device().alloc_pinned(measure::WORDS)?,
        })
    }

    /// The arguments of kernels.
    fn sums(&mut self) -> SumsBuffers<'_, WideOf<T>> {
        SumsBuffers {
            segment_norms: &mut self.segment_norms,
            segment_sums: &mut self.segment_sums,
            segment_values: &mut self.segment_values,
            norms: &mut self.norms,
            weighted: &mut self.weighted,
            sizes: &mut self.sizes,
            residuals: &mut self.residuals,
            products: &mut self.products,
            pivots: &mut self.pivots,
            measures: &mut self.measures,
        }
    }

    /// Waits for the check that was enqueued last.
    fn report(&self) -> Result<DeviceCheck, DeviceError> {
        let mut words = [0; measure::LEN];
        for copy in self.on_host.as_slice()?.chunks_exact(measure::STRIDE) {
            for (word, &of_copy) in words.iter_mut().zip(copy) {
                *word = of_copy.max(*word);
            }
        }
        let largest = |which: usize| f64::from_bits(words[which]);
        let smallest = |which: usize| f64::from_bits(!words[which]);
        Ok(DeviceCheck {
            quality: Quality {
                growth: largest(measure::GROWTH),
                checksum: largest(measure::CHECKSUM),
                max_norm: largest(measure::NORM),
                min_norm: smallest(measure::LEAST_NORM),
                max_pivot: largest(measure::PIVOT),
                min_pivot: smallest(measure::LEAST_PIVOT),
                min_relative_pivot: smallest(measure::LEAST_RELATIVE_PIVOT),
                max_pivot_ratio: largest(measure::GROWN_PIVOT),
                min_pivot_ratio: smallest(measure::SHRUNK_PIVOT),
                ..Quality::default()
            },
            max_product: largest(measure::PRODUCT),
            max_residual: largest(measure::RESIDUAL),
            max_value: largest(measure::VALUE),
        })
    }
}

/// Components of a number of the field.
fn components<T: DeviceScalar>() -> usize {
    <WideOf<T> as Scalar>::COMPONENTS
}

impl<S: Storage> DeviceTree<S> {
    /// Bytes that [checks](DeviceFrontalLu::begin_check) of factors on this tree take, which are made for the first of
    /// them: what factors on one tree share, and what those share that share a [`Workspace`](super::Workspace), for numbers
    /// of so many `components`. A tree of symmetric matrices has none.
    pub fn check_bytes(symbolic: &Symbolic<S>, components: usize) -> [u64; 2] {
        if S::SYMMETRIC {
            return [0, 0];
        }
        let tree = symbolic.tree();
        let in_copies = copies(tree.n(), num_segments(tree)) * (1 + components);
        let numbers = tree.n() * (3 + components + in_copies) + measure::WORDS;
        let of_segments = num_segments(tree) * (2 + components as u64);
        let memory = (numbers as u64 + of_segments) * size_of::<f64>() as u64;
        [CheckPlan::bytes(tree), memory]
    }
}

impl DeviceTree {
    /// Whether factors on this tree can be [checked](DeviceFrontalLu::begin_check): not where panels are kept elsewhere.
    pub fn has_checks(&self) -> bool {
        self.chain.is_none() && !self.is_empty()
    }

    /// Whether that was [prepared](Self::prepare_checks).
    pub fn is_ready_to_check(&self) -> bool {
        self.check.get().is_some()
    }

    /// Copies to the device what checks of factors on this tree read, unless it is there. The placement is that of the
    /// tree. With `threads` above 1, those of the current rayon pool share the work.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// If the lengths of `placement` do not go with the tree.
    #[track_caller]
    pub fn prepare_checks(
        &self,
        stream: &Stream,
        placement: &Placement<'_>,
        threads: usize,
    ) -> Result<(), DeviceError> {
        if self.check.get().is_none() {
            let plan = CheckPlan::upload(stream, self.symbolic.tree(), placement, threads)?;
            // Another thread may have been faster.
            let _ = self.check.set(plan);
        }
        Ok(())
    }
}

impl<T: DeviceScalar> DeviceFrontalLu<T> {
    /// Enqueues a check of the factors that are there as those of the values `a`, of which [`check`](Self::check) tells. Behind
    /// [`prepare_check`](Self::prepare_check) for the same values, with the factorization in between if they are new.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If checks on the tree were not [prepared](DeviceTree::prepare_checks).
    #[track_caller]
    pub fn begin_check(
        &self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
    ) -> Result<(), DeviceFrontalError> {
        self.in_check_memory(stream, |plan, memory| {
            self.enqueue_check(stream, a, plan, memory)
        })
    }

    /// Does `work` in what checks work in, which is made for the first.
    #[track_caller]
    fn in_check_memory(
        &self,
        stream: &Stream,
        work: impl FnOnce(&CheckPlan, &mut CheckMemory<T>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceFrontalError> {
        let plan = self.tree.check.get().expect("checks were prepared");
        let mut working = self.workspace.lock();
        let memory = match working.check() {
            Some(memory) => memory,
            slot => slot.insert(CheckMemory::new(stream, plan)?),
        };
        Ok(work(plan, memory)?)
    }

    /// The arguments that say what is checked.
    fn checked<'a>(&'a self, plan: &'a CheckPlan) -> CheckedBuffers<'a, T> {
        let Self {
            tree, solve_state, ..
        } = self;
        CheckedBuffers {
            fronts: &tree.solve.fronts,
            front_of: &plan.front_of,
            row_idx: &tree.row_idx,
            order: solve_state.order(),
            factors: &self.factors,
            tiles: &plan.tiles,
            weights: &plan.weights,
        }
    }

    /// Enqueues what a check does before the factorization of the values `a`: it notes the pivots that are there, with which it
    /// compares the new ones, and sums up long columns.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If checks on the tree were not [prepared](DeviceTree::prepare_checks).
    #[track_caller]
    pub fn prepare_check(
        &self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
    ) -> Result<(), DeviceFrontalError> {
        self.in_check_memory(stream, |plan, memory| {
            let groups = self.tree.symbolic.n().div_ceil(GROUP as usize);
            let config = of_groups(groups.max(plan.segments.len()));
            let columns = plan.columns(&self.tree, a);
            // SAFETY: the plan names a front of the tree for each pivot, and the panels are those of all fronts; it has rows of B and
            // values of A.
            unsafe {
                kernels::begin_check::launch::<T, _>(
                    stream,
                    &config,
                    self.checked(plan),
                    columns,
                    memory.sums(),
                )
            }
        })
    }

    /// Enqueues what measures the factors that are there, and the copy of its report.
    fn enqueue_check(
        &self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        plan: &CheckPlan,
        memory: &mut CheckMemory<T>,
    ) -> Result<(), DeviceError> {
        let n = self.tree.symbolic.n();
        let columns = plan.columns(&self.tree, a);
        let checked = || self.checked(plan);
        // SAFETY: the plan has rows of B and values of A, tiles of fronts, and a front for each pivot; measures are zero, and each
        // launch is behind the one whose sums it takes.
        unsafe {
            kernels::check_columns::launch::<T, _>(
                stream,
                &of_groups(n),
                checked(),
                columns,
                memory.sums(),
            )?;
            let groups = n.max(plan.tiles.len());
            kernels::check_products::launch::<T, _>(
                stream,
                &of_groups(groups),
                checked(),
                memory.sums(),
            )?;
            // More blocks would wait for each other at the few words of the measures.
            let columns_of_thread = n.div_ceil((MEASURING_BLOCKS * THREADS) as usize);
            let of_columns = LaunchConfig::for_elements(n.div_ceil(columns_of_thread), THREADS);
            kernels::check_measures::launch::<T, _>(
                stream,
                &of_columns,
                checked(),
                self.solve_state.coupling(),
                memory.sums(),
            )?;
        }
        stream.copy_to_pinned(&memory.measures, &mut memory.on_host, 0)
    }

    /// Waits for the check that was begun last, on these factors or others in the same [`Workspace`](super::Workspace), and tells what
    /// it measured. What it says of factors whose [report](Self::report) is an error is of no use.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If none was begun.
    pub fn check(&self) -> Result<DeviceCheck, DeviceFrontalError> {
        let mut working = self.workspace.lock();
        let memory = working.check().as_ref().expect("a check was begun");
        Ok(memory.report()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use luge_sparse::CompressedPattern;

    use super::*;
    use crate::storage::Full;
    use crate::tree::TreeOptions;

    #[test]
    fn columns_stand_in_the_order_of_elimination() {
        // An arrow whose head is eliminated last.
        let pattern =
            CompressedPattern::new(3, vec![0, 3, 5, 7], vec![0, 1, 2, 0, 1, 0, 2]).unwrap();
        let symbolic =
            Symbolic::<Full>::analyze(&Arc::new(pattern.clone()), &TreeOptions::default());
        let symbolic = symbolic.unwrap();
        let tree = symbolic.tree();
        let entries: Vec<u32> = (10..17).collect();
        for threads in [1, 4] {
            let (ptr, rows, source) = columns(tree, &entries, threads);
            for (e, &column) in tree.perm().iter().enumerate() {
                let range = ptr[e] as usize..ptr[e + 1] as usize;
                let of_column = pattern.range(column as usize);
                let found = rows[range.clone()]
                    .iter()
                    .map(|&row| tree.perm()[row as usize]);
                assert!(found.eq(pattern.line(column as usize).iter().copied()));
                assert!(source[range].iter().eq(entries[of_column].iter()));
            }
        }
    }
}
