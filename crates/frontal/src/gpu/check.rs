//! Growth and checksum of the factors of a refactorization: see `luge_gpu_kernels::frontal::check`.

mod symmetric;

use std::ops::Range;

use luge_device::{Buffer, DeviceError, LaunchConfig, Readback, RecordBuffer, Stream};
use luge_gpu_kernels::frontal::check::columns::ColumnsBuffers;
use luge_gpu_kernels::frontal::check::{
    self as kernels, CheckedBuffers, GROUP, SEGMENT, Segment, SumsBuffers, THREADS, TILE_ROWS,
    Tile, copies_of_sums, measure, symmetric as symmetric_kernels,
};
use luge_kernel::math::Field;
use luge_sparse::etree::inverse;
use luge_sparse::{CompressedPattern, Quality, Scalar};

use super::placement::Placement;
use super::scalar::WideOf;
use super::tree::DeviceTree;
use super::{DeviceFrontalError, DeviceFrontalLu, DeviceScalar, Workspace};
use crate::shares::{mapped, shares, split};
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::{AssemblyTree, Front, Transposed};

/// What a check measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceCheck {
    /// Growth, checksum and range of the factors, as the CPU measures them; columns, perturbed and delayed pivots, product and
    /// residual are not told here. The growth is at most by 2⁻¹² too large for each front that a column is in, and infinite from 2²⁸
    /// on; the checksum is infinite where the growth is above
    /// [`MOST_GROWTH`](luge_gpu_kernels::frontal::check::MOST_GROWTH).
    ///
    /// Of L·D·Lᵀ there is no checksum, and pivots are not compared with those before; the growth, with |L|·|D|·|Lᵀ|, is infinite where
    /// it is above [another bound](luge_gpu_kernels::frontal::check::symmetric::MOST_GROWTH).
    pub quality: Quality,
    /// max over columns k of ‖ |L|·|U|·e_k ‖₁ times the weight of the column: min Dc / Dc(k) · min Dr / min Dr(i), where i goes over
    /// the rows of the fronts that have the column. Divided by min Dr · min Dc it is a bound of Dr⁻¹·|L|·|U|·Dc⁻¹.
    ///
    /// Of L·D·Lᵀ it is the largest sum over a column of S⁻¹·|L|·|D|·|Lᵀ|·S⁻¹ itself, times (min S)².
    pub max_product: f64,
    /// max over columns k of |wᵀ·(B − L·U)·e_k|, weighted likewise. Zero of L·D·Lᵀ.
    pub max_residual: f64,
    /// Largest magnitude of a value of A in the diagonal blocks of B; of L·D·Lᵀ the largest sum of those of a column.
    pub max_value: f64,
}

/// What checks read of a tree, on the device: made for the first of them.
#[derive(Debug)]
pub(super) struct CheckPlan {
    front_of: Buffer<u32>,
    tiles: RecordBuffer<Tile>,
    /// Of columns of L·U; of L·D·Lᵀ the exponents of scale factors that weights are made of.
    weights: Buffer<i32>,
    least_weight: i32,
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
    found: Readback<u64>,
}

/// The parts of U right of the pivots' blocks that are worked on by themselves, or of a symmetric matrix of the rows of L.
fn tiles<S: Storage>(tree: &AssemblyTree) -> Vec<Tile> {
    let mut tiles = Vec::with_capacity(num_tiles::<S>(tree) as usize);
    for (number, front) in (0..).zip(tree.fronts()) {
        for row in (0..front.pivots).step_by(TILE_ROWS as usize) {
            for column in columns_of_tiles::<S>(front, row).step_by(GROUP as usize) {
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

/// Columns of U right of the pivots' block, or the rows of L that have something in the columns from number `row` on.
fn columns_of_tiles<S: Storage>(front: &Front, row: u32) -> Range<u32> {
    if S::SYMMETRIC {
        row..front.size()
    } else {
        0..front.below
    }
}

fn num_tiles<S: Storage>(tree: &AssemblyTree) -> u64 {
    let of_front = |front: &Front| -> u64 {
        let rows = (0..front.pivots).step_by(TILE_ROWS as usize);
        let of_rows = rows.map(|row| columns_of_tiles::<S>(front, row).len() as u64);
        of_rows.map(|len| len.div_ceil(u64::from(GROUP))).sum()
    };
    tree.fronts().iter().map(of_front).sum()
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

/// How many entries each column of B has, in the order of the pattern.
fn lengths<S: Storage>(pattern: &CompressedPattern) -> Vec<u32> {
    let stored = pattern.lines().map(|rows| rows.len() as u32);
    let mut lengths: Vec<u32> = stored.collect();
    if S::SYMMETRIC {
        for (column, rows) in (0..).zip(pattern.lines()) {
            for &row in rows.iter().filter(|&&row| row != column) {
                lengths[row as usize] += 1;
            }
        }
    }
    lengths
}

/// Parts of long columns of B, of which these are the lengths.
fn num_segments(lengths: &[u32]) -> u64 {
    let long = lengths.iter().filter(|&&length| length > SEGMENT);
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
fn columns<S: Storage>(
    tree: &AssemblyTree,
    entries: &[u32],
    threads: usize,
) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let (pattern, perm) = (&*tree.pattern, tree.perm());
    let place = inverse(perm);
    // What a symmetric matrix has across the diagonal.
    let across = S::SYMMETRIC.then(|| Transposed::new(pattern, threads));
    let lengths = lengths::<S>(pattern);
    let mut ptr = Vec::with_capacity(perm.len() + 1);
    ptr.push(0u32);
    for &column in perm {
        ptr.push(ptr[ptr.len() - 1] + lengths[column as usize]);
    }
    let ranges = shares(threads, perm.len(), |e| u64::from(ptr[e]));
    let lengths = || {
        ranges
            .iter()
            .map(|range| (ptr[range.end] - ptr[range.start]) as usize)
    };
    let nnz = ptr[perm.len()] as usize;
    let (mut rows, mut source) = (vec![0; nnz], vec![0; nnz]);
    let of_rows = split(&mut rows, lengths());
    let of_source = split(&mut source, lengths());
    let parts = ranges
        .iter()
        .zip(of_rows.into_iter().zip(of_source))
        .collect();
    mapped(parts, |(range, (rows, source))| {
        let mut at = 0;
        for &column in &perm[range.clone()] {
            let own = pattern.range(column as usize);
            let stored = pattern.idx()[own.clone()].iter().copied().zip(own);
            let across = across.iter().flat_map(|rows| rows.entries(column as usize));
            let across = across.filter(|&(row, _)| row != column);
            for (row, p) in stored.chain(across.map(|(row, p)| (row, p as usize))) {
                (rows[at], source[at]) = (place[row as usize], entries[p]);
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

/// A launch that measures so many columns. More blocks would wait for each other at the few words of the measures.
fn of_measures(n: usize) -> LaunchConfig {
    let columns_of_thread = n.div_ceil((MEASURING_BLOCKS * THREADS) as usize);
    LaunchConfig::for_elements(n.div_ceil(columns_of_thread), THREADS)
}

impl CheckPlan {
    /// The arguments that say what B is, for the values `a` of A.
    fn columns<'a, S: Storage, W: Field>(
        &'a self,
        tree: &'a DeviceTree<S>,
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

    fn upload<S: Storage>(
        stream: &Stream,
        tree: &AssemblyTree,
        placement: &Placement<'_>,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        placement.check(tree.n(), tree.nnz());
        let (col_ptr, rows, source) = columns::<S>(tree, placement.entries, threads);
        let weights = if S::SYMMETRIC {
            symmetric::exponents(tree, placement, threads)
        } else {
            weights(tree, placement, threads)
        };
        let (segments, segment_ptr) = segments(&col_ptr);
        let mut front_of = vec![0; tree.n()];
        for (number, front) in (0..).zip(tree.fronts()) {
            front_of[front.pivot_range()].fill(number);
        }
        Ok(Self {
            front_of: stream.upload(&front_of)?,
            tiles: stream.upload_records(&tiles::<S>(tree))?,
            least_weight: weights.iter().copied().min().unwrap_or(0),
            weights: stream.upload(&weights)?,
            col_ptr: stream.upload(&col_ptr)?,
            segments: stream.upload_records(&segments)?,
            segment_ptr: stream.upload(&segment_ptr)?,
            rows: stream.upload(&rows)?,
            source: stream.upload(&source)?,
        })
    }

    /// Where columns of B have these lengths.
    fn bytes<S: Storage>(tree: &AssemblyTree, lengths: &[u32]) -> u64 {
        let nnz = lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
        let words = 4 * tree.n() as u64 + 2 * nnz + 2;
        let records = num_tiles::<S>(tree) * size_of::<Tile>() as u64
            + num_segments(lengths) * size_of::<Segment>() as u64;
        words * size_of::<u32>() as u64 + records
    }
}

/// Numbers for a column or segment that a check of L·U, or of L·D·Lᵀ, works in.
struct Room {
    /// For wᵀ·L, or the components of a residual.
    checksums: usize,
    /// For |L|, or |L|·|U|.
    sizes: usize,
}

impl Room {
    fn of<S: Storage>() -> Self {
        if S::SYMMETRIC {
            Self {
                checksums: 0,
                sizes: symmetric_kernels::SUMS,
            }
        } else {
            Self {
                checksums: 1,
                sizes: 1,
            }
        }
    }
}

impl<T: DeviceScalar> CheckMemory<T> {
    fn new<S: Storage>(stream: &Stream, plan: &CheckPlan) -> Result<Self, DeviceError> {
        let Room { checksums, sizes } = Room::of::<S>();
        let (n, segments) = (plan.front_of.len(), plan.segments.len());
        let copies = copies(n, segments as u64);
        Ok(Self {
            segment_norms: stream.alloc(segments)?,
            segment_sums: stream.alloc(checksums * segments)?,
            segment_values: stream.alloc(segments)?,
            norms: stream.alloc(n)?,
            weighted: stream.alloc(checksums * n)?,
            sizes: stream.alloc(sizes * n)?,
            residuals: stream.alloc(checksums * copies * n * components::<T>())?,
            products: stream.alloc(sizes * copies * n)?,
            pivots: stream.alloc(n)?,
            measures: stream.alloc(measure::WORDS)?,
            found: Readback::new(stream, measure::LEN)?,
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
            found: self.found.buffer_mut(),
        }
    }

    /// Waits for the check that was enqueued last.
    fn report(&self) -> Result<DeviceCheck, DeviceError> {
        let words = self.found.read()?;
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
    /// of so many `components`.
    pub fn check_bytes(symbolic: &Symbolic<S>, components: usize) -> [u64; 2] {
        let tree = symbolic.tree();
        let lengths = lengths::<S>(&tree.pattern);
        let num_segments = num_segments(&lengths);
        let Room { checksums, sizes } = Room::of::<S>();
        let checksums = checksums * components;
        // Norms and pivots beside the sums.
        let of_column = 2 + (checksums + sizes) * (1 + copies(tree.n(), num_segments));
        let numbers = tree.n() * of_column + measure::WORDS;
        let of_segments = num_segments * (2 + checksums as u64);
        let memory = (numbers as u64 + of_segments) * size_of::<f64>() as u64;
        [CheckPlan::bytes::<S>(tree, &lengths), memory]
    }

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
            let plan = CheckPlan::upload::<S>(stream, self.symbolic.tree(), placement, threads)?;
            // Another thread may have been faster.
            let _ = self.check.set(plan);
        }
        Ok(())
    }
}

impl<T: DeviceScalar> Workspace<T> {
    /// Does `work` in what checks of factors on a tree work in, which is made for the first.
    #[track_caller]
    fn in_check_memory<S: Storage>(
        &self,
        stream: &Stream,
        tree: &DeviceTree<S>,
        work: impl FnOnce(&CheckPlan, &mut CheckMemory<T>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceFrontalError> {
        let plan = tree.check.get().expect("checks were prepared");
        let mut working = self.lock();
        let memory = match working.check() {
            Some(memory) => memory,
            slot => slot.insert(CheckMemory::new::<S>(stream, plan)?),
        };
        Ok(work(plan, memory)?)
    }

    /// Waits for the check that was begun last.
    fn checked(&self) -> Result<DeviceCheck, DeviceFrontalError> {
        let mut working = self.lock();
        let memory = working.check().as_ref().expect("a check was begun");
        Ok(memory.report()?)
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
        self.workspace
            .in_check_memory(stream, &self.tree, |plan, memory| {
                self.enqueue_check(stream, a, plan, memory)
            })
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
        self.workspace
            .in_check_memory(stream, &self.tree, |plan, memory| {
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

    /// Enqueues what measures the factors that are there.
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
            kernels::check_measures::launch::<T, _>(
                stream,
                &of_measures(n),
                checked(),
                self.solve_state.coupling(),
                memory.sums(),
            )?;
        }
        memory.found.record(stream)
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
        self.workspace.checked()
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
            let (ptr, rows, source) = columns::<Full>(tree, &entries, threads);
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
