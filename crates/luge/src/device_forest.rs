//! The plan of the tree engine on the host: the diagonal blocks of B, or a symmetric B, as one forest of fronts.

use std::sync::Arc;
use std::time::Instant;

use luge_device::{DeviceError, Stream};
use luge_frontal::gpu::{
    DeviceFrontalLdlt, DeviceTree, ExpectedPivots, Mapping, MemoryPlan, Parts, Placement, Room,
};
use luge_frontal::{FrontalError, Full, Gathering, Lower, Pairs, Storage, Symbolic};
use luge_numeric::cpu::columns::{self, ColumnLu};
use luge_solve::gpu::{DevicePattern, Mirror};
use luge_sparse::etree::EliminationForest;
use luge_sparse::{CompressedPattern, PivotPolicy, RowPerm, Scalar};

use crate::backend::{Field, Limits};
use crate::device_analysis::BatchBytes;
use crate::device_choice::tree_options;
use crate::device_scratch::KNOWN_PER_ROW;
use crate::engine::Transform;
use crate::error::{Error, PhaseError};
use crate::permuted::permuted_columns_shared;
use crate::stored::Rows;

/// Bytes on the device of an entry right of the diagonal blocks, beside its value: where it comes from, its scaling, and
/// its place and number in the lists of two directions.
const COUPLING_BYTES: usize = (2 + 2 * 2) * 4;

/// The numbers that factors on a device are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Whether their components have 32 bits.
    pub single: bool,
    /// How many they have.
    pub components: usize,
}

impl Numbers {
    /// Those for a matrix of the field `W` that is factorized in `single` precision, or of which that is asked.
    pub(crate) fn of<W: Scalar>(single: bool) -> Self {
        Self {
            single,
            components: W::COMPONENTS,
        }
    }

    /// Bytes of a value of the factors.
    pub(crate) fn value_bytes(self) -> usize {
        let of_component = if self.single { 4 } else { 8 };
        of_component * self.components
    }

    /// Bytes of a value of A, or of a right-hand side.
    fn wide_bytes(self) -> usize {
        size_of::<f64>() * self.components
    }

    /// Where the elements of a tree for such factors are. `threads` share the work, if they are above 1 in their pool.
    pub(crate) fn memory_plan<S: Storage>(self, tree: &Symbolic<S>, threads: usize) -> MemoryPlan {
        MemoryPlan::of_components(tree, self.components, threads)
    }
}

/// Bytes of the words that measures and searches leave, at most.
const SMALL_BUFFERS: u64 = 256;

/// The plan for a pattern on the host.
pub(crate) struct Forest<S: Storage = Full> {
    pub symbolic: Arc<Symbolic<S>>,
    pub memory: MemoryPlan,
    pub transform: Transform,
    pub block_ptr: Vec<usize>,
    /// B by columns, of a symmetric B the lower triangle; and the place of each entry among those of A that callers store.
    pub columns: Arc<CompressedPattern>,
    pub source: Arc<Vec<u32>>,
    /// Place in A of each entry of the tree.
    pub entries: Arc<Vec<u32>>,
    /// The rows of B right of its diagonal blocks.
    pub coupling: Arc<CompressedPattern>,
    pub coupling_entries: Vec<u32>,
    /// Values of A that callers store, and entries of A that residuals are computed with.
    pub num_values: usize,
    pub num_entries: usize,
    pub numbers: Numbers,
    /// The entries of `columns` that are conjugates of their values, if the matrix is complex and Hermitian.
    pub conjugated: Option<Vec<u32>>,
    /// By what the pivot of each column of A is replaced that has not the sign that is expected of it, if one is.
    pub expected: Option<Vec<f64>>,
    /// Predicted bytes on the device of the tree, with the factors and elements of one matrix; and of checks, what all
    /// matrices share, and what those share that work on one stream.
    pub tree_bytes: u64,
    pub check_bytes: [u64; 2],
    /// What the analysis took.
    pub seconds: f64,
}

/// The plan for B with rows that a search of pivots on the host moved, and how many of the pivots were off the diagonal; `None`
/// if no row has to move.
pub(crate) type Searched<S = Full> = Option<(Forest<S>, usize)>;

impl Forest<Full> {
    /// Analyzes the diagonal blocks of B for the pattern of A; `elimination` is what is known of them.
    pub(crate) fn analyze(
        a: &Rows<'_>,
        transform: Transform,
        block_ptr: Vec<usize>,
        elimination: Option<&EliminationForest>,
        numbers: Numbers,
        threads: usize,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let make = || {
            let entries = a.entries.as_deref();
            let (columns, source) =
                permuted_columns_shared(&a.pattern, entries, &transform, threads);
            let parts = Parts::new(columns, source, &block_ptr, threads);
            (Arc::clone(&parts.blocks), parts)
        };
        let options = tree_options();
        let analyzed = match elimination {
            Some(forest) => Symbolic::analyze_posted_beside(make, forest, &options, threads),
            None => {
                let (blocks, parts) = make();
                Symbolic::analyze(&blocks, &options).map(|tree| (tree, parts))
            }
        };
        Self::of_tree(analyzed, transform, block_ptr, numbers, (start, threads))
    }

    /// The plan for B with its rows as a search of pivots by columns moves them, and how many of the pivots were off the
    /// diagonal; `None` if no row has to move.
    pub(crate) fn with_searched_pivots<F: Scalar>(
        &self,
        a: &[F::Wide],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<Searched, Error> {
        let moved = search::<F>(self, a, pivots, limits)?;
        let Some((moved, num_off_diagonal)) = moved else {
            return Ok(None);
        };
        let transform = Transform {
            row_perm: RowPerm(self.transform.row_perm.then(&moved)),
            ..self.transform.clone()
        };
        let new_row = moved.inverse();
        let mut idx = Vec::with_capacity(self.columns.nnz());
        let mut source = Vec::with_capacity(self.columns.nnz());
        let mut column: Vec<(u32, u32)> = Vec::new();
        for j in 0..self.columns.major_dim() {
            column.clear();
            column.extend(self.columns.range(j).map(|p| {
                let row = self.columns.idx()[p] as usize;
                (new_row[row], self.source[p])
            }));
            column.sort_unstable();
            idx.extend(column.iter().map(|&(row, _)| row));
            source.extend(column.iter().map(|&(_, entry)| entry));
        }
        let columns =
            CompressedPattern::new(self.columns.minor_dim(), self.columns.ptr().to_vec(), idx)
                .unwrap_or_else(|e| unreachable!("permuted columns stay valid: {e}"));
        let moved = Self::of_columns(
            columns,
            source,
            transform,
            self.block_ptr.clone(),
            self.numbers,
        )?;
        Ok(Some((moved, num_off_diagonal)))
    }

    fn of_columns(
        columns: CompressedPattern,
        source: Vec<u32>,
        transform: Transform,
        block_ptr: Vec<usize>,
        numbers: Numbers,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let parts = Parts::new(columns, source, &block_ptr, 1);
        let tree = Symbolic::analyze(&parts.blocks, &tree_options());
        let analyzed = tree.map(|tree| (tree, parts));
        Self::of_tree(analyzed, transform, block_ptr, numbers, (start, 1))
    }
}

impl Forest<Lower> {
    /// Analyzes a symmetric B, whose lower triangle by columns this is; `source` is the place of each of its entries among the
    /// values of A that callers store, `elimination` what is known of it. Pairs of columns that are to be pivots of order 2
    /// start with those in `pair_starts`. A has so many values, and entries in both triangles.
    pub(crate) fn analyze_symmetric(
        (triangle, source): (CompressedPattern, Vec<u32>),
        (num_values, num_entries): (usize, usize),
        transform: Transform,
        (elimination, pair_starts): (Option<&EliminationForest>, &[u32]),
        numbers: Numbers,
        threads: usize,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let block_ptr = vec![0, triangle.major_dim()];
        let parts = Parts::new(triangle, source, &block_ptr, threads);
        let options = tree_options();
        let columns = &parts.columns;
        let tree = match elimination {
            Some(forest) => {
                let pairs = Pairs::on_device(pair_starts);
                Symbolic::analyze_pairs(Arc::clone(columns), forest, pairs, &options, threads)
            }
            None => Symbolic::analyze(columns, &options),
        };
        let analyzed = tree.map(|tree| (tree, parts));
        Ok(Self {
            num_values,
            num_entries,
            ..Self::of_tree(analyzed, transform, block_ptr, numbers, (start, threads))?
        })
    }
}

impl<S: Storage> Forest<S> {
    fn of_tree(
        analyzed: Result<(Symbolic<S>, Parts), FrontalError>,
        transform: Transform,
        block_ptr: Vec<usize>,
        numbers: Numbers,
        (start, threads): (Instant, usize),
    ) -> Result<Self, Error> {
        let (tree, parts) = analyzed.map_err(|e| match e {
            FrontalError::IndexOverflow(e) => Error::IndexOverflow(e),
            other => unreachable!("an analysis of a square pattern: {other}"),
        })?;
        let tree = tree.gathered(&Gathering::default(), threads)?;
        let num_values = parts.source.len();
        let memory = numbers.memory_plan(&tree, threads);
        Ok(Self {
            tree_bytes: DeviceTree::<S>::predicted_bytes(&tree, &memory, numbers.value_bytes()),
            check_bytes: DeviceTree::<S>::check_bytes(&tree, numbers.components),
            memory,
            symbolic: Arc::new(tree),
            transform,
            block_ptr,
            columns: parts.columns,
            source: parts.source,
            entries: parts.entries,
            coupling: parts.coupling,
            coupling_entries: parts.coupling_entries,
            num_values,
            num_entries: num_values,
            numbers,
            conjugated: None,
            expected: None,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Bytes of a value of the factors.
    pub(crate) fn value_bytes(&self) -> usize {
        self.numbers.value_bytes()
    }

    /// Predicted bytes on the device: tree, factors, elements, the values of A twice, its pattern, what is expected of pivots,
    /// and what a probe, a check and a comparison across the diagonal work in.
    pub(crate) fn device_bytes(&self) -> u64 {
        let value_bytes = self.value_bytes();
        let Numbers { components, .. } = self.numbers;
        let wide_bytes = self.numbers.wide_bytes();
        let values = 2 * wide_bytes * self.num_values;
        let couplings = (COUPLING_BYTES + value_bytes) * self.coupling.nnz();
        let n = self.symbolic.n();
        self.tree_bytes
            + DevicePattern::predicted_bytes(n, self.num_entries, components)
            + (values + couplings + KNOWN_PER_ROW * wide_bytes * n) as u64
            + self.expected_bytes()
            + self.replaced_bytes()
            + self.mirror_bytes()
            + self.check_bytes.iter().sum::<u64>()
    }

    /// Those of where counterparts across the diagonal are, of a symmetric matrix that is stored whole.
    fn mirror_bytes(&self) -> u64 {
        if S::SYMMETRIC && self.num_values > self.symbolic.tree().nnz() {
            Mirror::bytes(self.num_values)
        } else {
            0
        }
    }

    /// Those of a batch, beside the plan, whose systems on one stream share a workspace of so many bytes.
    pub(crate) fn batch_bytes(&self, workspace: u64) -> BatchBytes {
        let n = self.symbolic.n();
        let (value_bytes, wide_bytes) = (self.value_bytes(), self.numbers.wide_bytes());
        let [checks, of_check] = self.check_bytes;
        let values = 2 * wide_bytes * self.num_values + value_bytes * self.coupling.nnz();
        BatchBytes {
            common: DevicePattern::predicted_bytes(n, self.num_entries, self.numbers.components)
                + self.expected_bytes()
                + self.mirror_bytes()
                + checks,
            stream: workspace + of_check + (KNOWN_PER_ROW * wide_bytes * n) as u64 + SMALL_BUFFERS,
            system: DeviceTree::<S>::factor_bytes(&self.symbolic, value_bytes)
                + values as u64
                + self.replaced_bytes(),
        }
    }

    /// Those on the first device with this plan, which may be dealt out to several, or in links.
    pub(crate) fn device_bytes_of(&self, tree: &DeviceTree<S>) -> u64 {
        let value_bytes = self.value_bytes();
        let mut bytes = self.device_bytes();
        if let Some(planned) = tree.planned_workspace_bytes(value_bytes) {
            bytes -= DeviceTree::<S>::workspace_bytes(&self.symbolic, &self.memory, value_bytes);
            bytes += planned;
        }
        if let Some([on_device, ..]) = tree.streamed_bytes(value_bytes) {
            bytes -= self.symbolic.panel_entries() * value_bytes as u64;
            bytes -= self.check_bytes.iter().sum::<u64>();
            bytes += on_device;
        }
        bytes
    }

    /// Those beside the plan, with what the plan says of panels and elements.
    pub(crate) fn bytes_beside_plan(&self, tree: &DeviceTree<S>) -> u64 {
        let (symbolic, memory, value_bytes) = (&self.symbolic, &self.memory, self.value_bytes());
        let beside = DeviceTree::<S>::factor_bytes(symbolic, value_bytes)
            + DeviceTree::<S>::workspace_bytes(symbolic, memory, value_bytes);
        self.device_bytes_of(tree) - (self.tree_bytes - beside)
    }

    /// Those of what is expected of pivots.
    pub(crate) fn expected_bytes(&self) -> u64 {
        let n = self.expected.as_ref().map_or(0, Vec::len);
        if self.numbers.single {
            ExpectedPivots::<f32>::bytes(n)
        } else {
            ExpectedPivots::<f64>::bytes(n)
        }
    }

    /// Those of which pivots of one matrix were replaced.
    pub(crate) fn replaced_bytes(&self) -> u64 {
        let n = self.expected.as_ref().map_or(0, Vec::len);
        DeviceFrontalLdlt::<f64>::signed_bytes(n)
    }

    /// Seconds that a plan takes on one thread, roughly and at least.
    pub(crate) fn plan_seconds(&self) -> f64 {
        const PER_ENTRY: f64 = 20e-9;
        self.entries.len() as f64 * PER_ENTRY
    }

    /// Copies a tree to the device: that of the plan, or one of the same entries in which columns have moved; in links whose
    /// panels and elements have room, if that is given. `count` threads share the work, if it is above 1 in their
    /// pool.
    pub(crate) fn upload(
        &self,
        (symbolic, memory): (&Arc<Symbolic<S>>, &MemoryPlan),
        room: Option<&Room>,
        stream: &Stream,
        count: usize,
    ) -> Result<DeviceTree<S>, DeviceError> {
        let Some(room) = room else {
            return self.placed(|placement| {
                DeviceTree::upload(stream, symbolic, memory, placement, count)
            });
        };
        let value_bytes = self.value_bytes();
        let division = memory.division(symbolic, value_bytes, room.bytes);
        let division = division.ok_or_else(|| DeviceError::OutOfMemory {
            asked: DeviceTree::predicted_bytes(symbolic, memory, value_bytes),
            available: room.bytes,
        })?;
        self.placed(|placement| {
            DeviceTree::upload_streamed(
                (stream, &room.peers),
                value_bytes,
                symbolic,
                &division,
                memory,
                placement,
                count,
            )
        })
    }

    /// Bytes for panels and elements where the device has so many for all, if they may be those of links.
    pub(crate) fn room_for_links(&self, available: u64) -> Option<u64> {
        let value_bytes = self.value_bytes();
        let of_links = self.symbolic.panel_entries() * value_bytes as u64
            + DeviceTree::<S>::workspace_bytes(&self.symbolic, &self.memory, value_bytes);
        let others = self.device_bytes() - of_links;
        available
            .checked_sub(others)
            .filter(|_| self.coupling.nnz() == 0)
    }

    /// Copies its plan to several devices, with the subtrees of the mapping on each.
    pub(crate) fn upload_dealt(
        &self,
        mapping: &Mapping,
        devices: (&Stream, &[Stream]),
        count: usize,
    ) -> Result<DeviceTree<S>, DeviceError> {
        let (symbolic, memory) = (&self.symbolic, &self.memory);
        self.placed(|placement| {
            DeviceTree::upload_dealt(devices, symbolic, mapping, memory, placement, count)
        })
    }

    /// Which subtrees each of so many devices works on, if there are any to deal out.
    pub(crate) fn mapping(&self, devices: usize) -> Option<Mapping> {
        // Which signs are expected is known to one device.
        if devices < 2 || self.expected.is_some() {
            return None;
        }
        self.memory
            .mapping(&self.symbolic, devices, self.value_bytes())
    }

    /// The time that a factorization is predicted to take on one device over that on so many, if there are subtrees to deal out.
    pub(crate) fn predicted_speedup(&self, devices: usize) -> Option<f64> {
        self.mapping(devices).as_ref().map(Mapping::speedup)
    }

    /// What `of` makes of where the matrix comes from.
    pub(crate) fn placed<R>(&self, of: impl FnOnce(&Placement<'_>) -> R) -> R {
        let Transform {
            row_perm,
            col_perm,
            scaling,
        } = &self.transform;
        of(&Placement {
            row_perm,
            col_perm,
            scaling,
            entries: &self.entries,
            block_ptr: &self.block_ptr,
            coupling: &self.coupling,
            coupling_entries: &self.coupling_entries,
            conjugated: self.conjugated.as_deref(),
        })
    }

    /// ‖B‖₁ for the values `a` of A that callers store.
    pub(crate) fn norm1<W: Field>(&self, a: &[W]) -> f64 {
        let Transform {
            row_perm,
            col_perm,
            scaling,
        } = &self.transform;
        let (rows, cols) = (row_perm.as_slice(), col_perm.as_slice());
        let mut sums = vec![0.0f64; self.symbolic.n()];
        for (j, lines) in self.columns.lines().enumerate() {
            let mut own = 0.0;
            for (&i, &p) in lines.iter().zip(&self.source[self.columns.range(j)]) {
                let row = rows[i as usize] as usize;
                let size = scaling
                    .apply(row, cols[j] as usize, a[p as usize])
                    .magnitude();
                own += size;
                if S::SYMMETRIC && i as usize != j {
                    sums[i as usize] += size;
                }
            }
            sums[j] += own;
        }
        sums.into_iter().fold(0.0, f64::max)
    }

    /// Entries of L and of U on the tree of the plan, or on one in which columns have moved.
    pub(crate) fn sizes(&self, symbolic: &Symbolic<S>) -> (u64, u64) {
        if S::SYMMETRIC {
            let lower = symbolic.factor_entries();
            return (lower, lower);
        }
        let triangle = (symbolic.factor_entries() + symbolic.n() as u64) / 2;
        (triangle, triangle + self.coupling.nnz() as u64)
    }

    /// Bytes of all this on the host.
    pub(crate) fn host_bytes(&self) -> u64 {
        let conjugated = self.conjugated.as_ref().map_or(0, Vec::len);
        let lists = self.source.len() + self.entries.len() + self.coupling_entries.len();
        let lists = lists + conjugated;
        let patterns = [&*self.columns, &self.coupling];
        let patterns = patterns.map(|p| 8 * p.ptr().len() + 4 * p.nnz());
        let expected = self
            .expected
            .as_ref()
            .map_or(0, |expected| 8 * expected.len());
        let held = 4 * lists + patterns.iter().sum::<usize>() + expected;
        self.symbolic.bytes() + self.memory.host_bytes() + held as u64
    }
}

/// Searches pivots in the columns of B: where its rows go, and how many pivots are off the diagonal; `None` if all are
/// on it. A column has no entry below its block, so rows stay in their blocks.
fn search<F: Scalar>(
    forest: &Forest,
    a: &[F::Wide],
    pivots: PivotPolicy,
    limits: &Limits,
) -> Result<Option<(RowPerm, usize)>, Error> {
    let Transform {
        row_perm,
        col_perm,
        scaling,
    } = &forest.transform;
    let mut values: Vec<F> = Vec::with_capacity(forest.source.len());
    for (&col, rows) in col_perm.as_slice().iter().zip(forest.columns.lines()) {
        let first = values.len();
        values.extend(rows.iter().zip(&forest.source[first..]).map(|(&i, &p)| {
            let row = row_perm.as_slice()[i as usize] as usize;
            F::narrow(scaling.apply(row, col as usize, a[p as usize]))
        }));
    }
    let options = columns::Options {
        pivots,
        cancel: limits.cancel.clone(),
        max_bytes: limits.max_host_bytes,
        ..columns::Options::default()
    };
    let (found, quality) = ColumnLu::factorize(&forest.columns, &values, &options)
        .map_err(|e| PhaseError::from(e).in_terms_of_a(col_perm.as_slice()))?;
    let count = quality.num_off_diagonal;
    Ok((count > 0).then(|| (found.row_perm().clone(), count)))
}
