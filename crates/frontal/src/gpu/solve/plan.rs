//! What a solve on the device does in which order: lists that depend on the tree and the placement alone.
//!
//! A front is a task of a warp if it is small, for one right-hand side together with others (see [`packs`](super::packs)), else of a
//! block; one of many rows or pivots is a task of a block for each strip of 64 rows. Tasks stand in the order of the longest path
//! that is left, with which none comes before one that it waits for.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use luge_device::{Buffer, DeviceError, RecordBuffer, Stream, Uploads};
use luge_gpu_kernels::frontal::solve::layout::{
    CoupledRow, FEWER_OF_THREAD, FrontRecord, LONG_ROW, LargeTask, Level, ListsBuffers, SEGMENT,
    Segment, Single, WHOLE,
};
use luge_sparse::CompressedPattern;
use luge_sparse::etree::{NONE, inverse};

use super::links::{LinkLists, LinkRecords};
use super::packs::{Pack, packed};
use super::shares::{ListsOfOne, ShareLists};
use super::tasks::{NumTasks, TaskList, accumulated, whole};
use crate::gpu::classes::SolveClass;
use crate::gpu::cost::DeviceCosts;
use crate::gpu::memory::MemoryPlan;
use crate::gpu::placement::{Placed, PlacedOnHost, Placement, exponent};
use crate::shares::{both, collected, mapped, shares, split};
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::{AssemblyTree, Front};

/// Who works on what in solves with B, or in those with Bᵀ.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Lists {
    pub levels: Vec<Level>,
    pub warps_up: Vec<Pack>,
    pub warps_down: Vec<Pack>,
    pub blocks_up: Vec<LargeTask>,
    pub blocks_down: Vec<LargeTask>,
    pub singles: Vec<Single>,
    pub coupled: Vec<CoupledRow>,
    pub segments: Vec<Segment>,
    pub coupled_idx: Vec<u32>,
    pub coupled_entries: Vec<u32>,
}

impl Lists {
    /// Whether a task is one of a strip.
    fn has_strips(&self) -> bool {
        let mut tasks = self.blocks_up.iter().chain(&self.blocks_down);
        tasks.any(|task| task.strip != WHOLE)
    }
}

/// [`Lists`] on the device.
#[derive(Debug)]
pub(super) struct DeviceLists {
    levels: RecordBuffer<Level>,
    warps_up: Buffer<u32>,
    warps_down: Buffer<u32>,
    blocks_up: RecordBuffer<LargeTask>,
    blocks_down: RecordBuffer<LargeTask>,
    singles: RecordBuffer<Single>,
    coupled: RecordBuffer<CoupledRow>,
    segments: RecordBuffer<Segment>,
    pub coupled_idx: Buffer<u32>,
    pub coupled_entries: Buffer<u32>,
    /// Those for several right-hand sides, and what they are made of.
    shares: OnceLock<ShareLists>,
    of_one: ListsOfOne,
}

/// The records of a plan on the host.
#[derive(Debug, PartialEq)]
pub(in crate::gpu) struct SolveRecords {
    fronts: Vec<FrontRecord>,
    gather_ptr: Vec<u32>,
    carry_to: Vec<u32>,
    coupling_exponents: Vec<i32>,
    lists: Lists,
    /// The level of each front, if the lists for Bᵀ are others: where levels are solved in another order.
    levels: Option<Vec<u32>>,
    /// The lists of each link, if the tree is in links; then there are no others.
    links: Vec<LinkRecords>,
    /// Those by which tasks are ordered.
    costs: DeviceCosts,
    num_tasks: NumTasks,
    /// Whether a task is one of a strip.
    has_strips: bool,
    /// Right-hand sides of a thread, where they are several.
    of_thread: usize,
}

/// Everything about a solve that does not depend on values; see the module.
#[derive(Debug)]
pub(in crate::gpu) struct SolvePlan {
    pub(in crate::gpu) fronts: RecordBuffer<FrontRecord>,
    pub(super) gather_ptr: Buffer<u32>,
    pub(super) carry_to: Buffer<u32>,
    /// Value of A of each entry right of the diagonal blocks, and the exponent of its factor.
    pub(super) coupling_entries: Buffer<u32>,
    pub(super) coupling_exponents: Buffer<i32>,
    pub(in crate::gpu) rows: Placed<Buffer<u32>, Buffer<i32>>,
    pub(in crate::gpu) cols: Placed<Buffer<u32>, Buffer<i32>>,
    lists: Arc<DeviceLists>,
    /// Those of each link of a tree in links.
    pub(super) links: Vec<LinkLists>,
    /// Those for Bᵀ where they are others.
    transposed: Option<Transposed>,
    num_tasks: NumTasks,
    /// Whether a task is one of a strip.
    pub(super) has_strips: bool,
    /// Right-hand sides of a thread, where they are several.
    pub(super) of_thread: usize,
}

/// The lists for Bᵀ, made for the first solve with it: most matrices see none.
#[derive(Debug)]
struct Transposed {
    /// Of each front.
    levels: Vec<u32>,
    coupling: Arc<CompressedPattern>,
    costs: DeviceCosts,
    /// Segments of long rows of Bᵀ.
    num_segments: usize,
    lists: Mutex<Option<Arc<DeviceLists>>>,
}

impl Transposed {
    fn new(levels: &[u32], coupling: &Arc<CompressedPattern>, costs: &DeviceCosts) -> Self {
        let mut lengths = vec![0u32; coupling.minor_dim()];
        for &column in coupling.idx() {
            lengths[column as usize] += 1;
        }
        let long = lengths.iter().filter(|&&length| length > LONG_ROW);
        Self {
            levels: levels.to_vec(),
            coupling: Arc::clone(coupling),
            costs: *costs,
            num_segments: long.map(|length| length.div_ceil(SEGMENT) as usize).sum(),
            lists: Mutex::default(),
        }
    }

    fn lists<S: Storage>(
        &self,
        stream: &Stream,
        tree: &Symbolic<S>,
    ) -> Result<Arc<DeviceLists>, DeviceError> {
        let mut made = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lists) = &*made {
            return Ok(Arc::clone(lists));
        }
        let forest = LeveledForest::new(tree, &self.levels, &self.costs, 1);
        let lists = forest.lists(&tree.layout.slot, &self.coupling, true);
        let mut uploads = Uploads::new(stream);
        let lists = DeviceLists::upload(&mut uploads, &lists, &self.costs)?;
        // Done when it returns, so solves on other streams see them.
        uploads.finish()?;
        Ok(Arc::clone(made.insert(Arc::new(lists))))
    }
}

impl DeviceLists {
    /// `costs` are those by which tasks are ordered.
    pub fn upload<'a>(
        uploads: &mut Uploads<'a>,
        lists: &'a Lists,
        costs: &DeviceCosts,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            levels: uploads.add_records(&lists.levels)?,
            warps_up: uploads.add(lists.warps_up.as_flattened())?,
            warps_down: uploads.add(lists.warps_down.as_flattened())?,
            blocks_up: uploads.add_records(&lists.blocks_up)?,
            blocks_down: uploads.add_records(&lists.blocks_down)?,
            singles: uploads.add_records(&lists.singles)?,
            coupled: uploads.add_records(&lists.coupled)?,
            segments: uploads.add_records(&lists.segments)?,
            coupled_idx: uploads.add(&lists.coupled_idx)?,
            coupled_entries: uploads.add(&lists.coupled_entries)?,
            shares: OnceLock::new(),
            of_one: ListsOfOne::of(lists, costs),
        })
    }

    /// The lists for several right-hand sides, of which a thread has so many, made for the first of such solves: many matrices see
    /// none. The levels of the way down are those of the lists, or others of the same.
    pub fn shares(
        &self,
        stream: &Stream,
        tree: &AssemblyTree,
        of_thread: usize,
        down: Option<&[Level]>,
    ) -> Result<&ShareLists, DeviceError> {
        if let Some(shares) = self.shares.get() {
            return Ok(shares);
        }
        let shares = ShareLists::new(stream, tree, &self.of_one, of_thread, down)?;
        // Another thread may have been faster.
        Ok(self.shares.get_or_init(|| shares))
    }

    /// The lists as the kernels for one right-hand side take them.
    pub fn buffers(&self) -> ListsBuffers<'_> {
        ListsBuffers {
            levels: &self.levels,
            warps_up: &self.warps_up,
            warps_down: &self.warps_down,
            blocks_up: &self.blocks_up,
            blocks_down: &self.blocks_down,
            singles: &self.singles,
            coupled: &self.coupled,
            segments: &self.segments,
        }
    }
}

/// For each row of each front where the contributions of children to it begin, and for each row below a front its own
/// among them. Front s has the rows from number start + rows on.
fn contributions(tree: &AssemblyTree) -> (Vec<u32>, Vec<u32>) {
    let fronts = tree.fronts();
    let target = |s: usize| {
        let front = &fronts[s];
        let parent = (front.parent != NONE).then(|| &fronts[front.parent as usize]);
        let first = parent.map_or(0, |p| u64::from(p.start) + p.rows);
        let relative = &tree.relative[front.row_range()];
        relative
            .iter()
            .map(move |&row| (first + u64::from(row)) as usize)
    };
    let mut gather_ptr = vec![0u32; tree.n() + tree.rows.len() + 1];
    for s in 0..fronts.len() {
        for row in target(s) {
            gather_ptr[row + 1] += 1;
        }
    }
    let gather_ptr = accumulated(gather_ptr);
    let mut next = gather_ptr.clone();
    let mut carry_to = Vec::with_capacity(tree.rows.len());
    for s in 0..fronts.len() {
        for row in target(s) {
            carry_to.push(next[row]);
            next[row] += 1;
        }
    }
    (gather_ptr, carry_to)
}

/// Level of the diagonal block of each row: 0 for blocks without couplings, else above all that they are coupled to;
/// `None` if there are no couplings.
fn block_levels(placement: &Placement<'_>) -> Option<Vec<u32>> {
    if placement.coupling.nnz() == 0 {
        return None;
    }
    let block_ptr = placement.block_ptr;
    let num_blocks = block_ptr.len() - 1;
    // Blocks are met from the last to the first, so those that a row is coupled to have their levels.
    let mut levels = vec![0; block_ptr[num_blocks]];
    for block in block_ptr.windows(2).rev() {
        let level = (block[0]..block[1])
            .flat_map(|row| placement.coupling.line(row))
            .map(|&column| levels[column as usize] + 1)
            .max()
            .unwrap_or(0);
        levels[block[0]..block[1]].fill(level);
    }
    Some(levels)
}

impl SolveRecords {
    /// Plans solves with the tree; if it is in links, `links` are that of each front and where its panels are among those of
    /// the link.
    ///
    /// # Panics
    ///
    /// If there are 2³² rows of fronts.
    #[track_caller]
    pub(in crate::gpu) fn new<S: Storage>(
        symbolic: &Symbolic<S>,
        placement: &Placement<'_>,
        links: Option<(&[u32], &[u64])>,
        memory: &MemoryPlan,
        threads: usize,
    ) -> Self {
        let (tree, costs) = (&symbolic.tree, &memory.costs);
        let rows = tree.n() + tree.rows.len();
        assert!(u32::try_from(rows).is_ok(), "fewer than 2³² rows of fronts");
        let of_blocks = block_levels(placement);
        let slots = links.map_or(&*symbolic.layout.slot, |(_, slots)| slots);
        let of_front = |front: &Front| {
            let of_column = |levels: &Vec<u32>| levels[tree.perm()[front.start as usize] as usize];
            of_blocks.as_ref().map_or(0, of_column)
        };
        let levels: Vec<u32> = match links {
            Some((link_of, _)) => link_of.to_vec(),
            None => tree.fronts().iter().map(of_front).collect(),
        };
        let lists = || {
            let forest = LeveledForest::new(symbolic, &levels, costs, threads);
            let lists = forest.lists(slots, placement.coupling, false);
            (lists, forest.num_tasks())
        };
        let records = || front_records(tree, slots, threads);
        let exponents = || coupling_exponents(placement, threads);
        let ((gather, fronts), (coupling_exponents, (lists, num_tasks))) = both(
            threads,
            || both(threads, || contributions(tree), records),
            || both(threads, exponents, lists),
        );
        let (gather_ptr, carry_to) = gather;
        let has_strips = lists.has_strips();
        let (lists, links) = match links {
            Some(_) => (Lists::default(), lists.links()),
            None => (lists, Vec::new()),
        };
        Self {
            fronts,
            gather_ptr,
            carry_to,
            coupling_exponents,
            lists,
            has_strips,
            of_thread: memory.limits.of_thread(tree),
            links,
            levels: of_blocks.is_some().then_some(levels),
            costs: *costs,
            num_tasks,
        }
    }
}

fn front_records(tree: &AssemblyTree, slots: &[u64], threads: usize) -> Vec<FrontRecord> {
    let fronts = tree.fronts();
    let record = |s: usize| {
        let front = &fronts[s];
        FrontRecord {
            start: front.start,
            pivots: front.pivots,
            below: front.below,
            rows: front.rows as u32,
            slot: slots[s],
            spare: [0; _],
        }
    };
    collected(threads, fronts.len(), record)
}

impl SolvePlan {
    /// Copies a plan to the device, with the places of the pivots in A.
    pub(in crate::gpu) fn upload<'a>(
        uploads: &mut Uploads<'a>,
        records: &'a SolveRecords,
        placement: &Placement<'a>,
        rows: &'a PlacedOnHost,
        cols: &'a PlacedOnHost,
    ) -> Result<Self, DeviceError> {
        let placed = |uploads: &mut Uploads<'a>, placed: &'a PlacedOnHost| {
            Ok::<_, DeviceError>(Placed {
                places: uploads.add(&placed.places)?,
                exponents: uploads.add(&placed.exponents)?,
            })
        };
        let levels = records.levels.as_deref();
        Ok(Self {
            fronts: uploads.add_records(&records.fronts)?,
            gather_ptr: uploads.add(&records.gather_ptr)?,
            carry_to: uploads.add(&records.carry_to)?,
            coupling_entries: uploads.add(placement.coupling_entries)?,
            coupling_exponents: uploads.add(&records.coupling_exponents)?,
            rows: placed(uploads, rows)?,
            cols: placed(uploads, cols)?,
            lists: Arc::new(DeviceLists::upload(
                uploads,
                &records.lists,
                &records.costs,
            )?),
            links: records
                .links
                .iter()
                .map(|link| LinkLists::upload(uploads, link, &records.costs))
                .collect::<Result<_, _>>()?,
            transposed: levels
                .map(|levels| Transposed::new(levels, placement.coupling, &records.costs)),
            num_tasks: records.num_tasks,
            has_strips: records.has_strips,
            of_thread: records.of_thread,
        })
    }

    /// Who works on what in solves with B, or Bᵀ.
    pub(super) fn lists<S: Storage>(
        &self,
        stream: &Stream,
        symbolic: &Symbolic<S>,
        transpose: bool,
    ) -> Result<Arc<DeviceLists>, DeviceError> {
        match &self.transposed {
            Some(transposed) if transpose => transposed.lists(stream, symbolic),
            _ => Ok(Arc::clone(&self.lists)),
        }
    }

    /// Most segments of long rows in one direction.
    pub(in crate::gpu) fn num_segments(&self) -> usize {
        let in_rows = self.lists.segments.len();
        let transposed = self.transposed.as_ref();
        in_rows.max(transposed.map_or(0, |transposed| transposed.num_segments))
    }

    /// Whether a thread has [`FEWER_OF_THREAD`] of several right-hand sides.
    pub(super) fn has_fewer(&self) -> bool {
        self.of_thread == FEWER_OF_THREAD
    }

    /// Blocks of a grid for `nrhs` right-hand sides if `resident` fit on the device.
    pub(super) fn blocks(&self, resident: u32, n: usize, nrhs: usize) -> u32 {
        let useful = self.num_tasks.useful_blocks(n, nrhs, self.of_thread);
        // One where none fits, which the launch then reports.
        useful.min(resident).max(1)
    }
}

/// The fronts of a tree as tasks, by the levels of their diagonal blocks.
struct LeveledForest<'a, S: Storage> {
    symbolic: &'a Symbolic<S>,
    levels: &'a [u32],
    classes: Vec<SolveClass>,
    warps_up: TaskList<Pack>,
    warps_down: TaskList<Pack>,
    blocks_up: TaskList<LargeTask>,
    blocks_down: TaskList<LargeTask>,
    num_levels: u32,
}

impl<'a, S: Storage> LeveledForest<'a, S> {
    fn new(
        symbolic: &'a Symbolic<S>,
        levels: &'a [u32],
        costs: &DeviceCosts,
        threads: usize,
    ) -> Self {
        let tree = &symbolic.tree;
        let classes = SolveClass::of_tree(tree);
        let num_levels = levels.iter().map(|level| level + 1).max().unwrap_or(0);
        let ((warps_up, blocks_up), (warps_down, blocks_down)) = both(
            threads,
            || {
                let left = paths_left(tree, costs, false);
                tasks_by_paths(tree, (&classes, levels), num_levels, &left, false, threads)
            },
            || {
                let left = paths_left(tree, costs, true);
                tasks_by_paths(tree, (&classes, levels), num_levels, &left, true, threads)
            },
        );
        Self {
            symbolic,
            levels,
            classes,
            warps_up,
            warps_down,
            blocks_up,
            blocks_down,
            num_levels,
        }
    }

    fn num_tasks(&self) -> NumTasks {
        let of_class = |&class: &SolveClass| class == SolveClass::Small;
        let small = self.classes.iter().copied().filter(of_class).count();
        NumTasks {
            small: small as u32,
            packs: self.warps_up.tasks.len().max(self.warps_down.tasks.len()) as u32,
            blocks: self.blocks_up.tasks.len() as u32,
        }
    }

    /// The lists for solves with B or Bᵀ; `slots` are where the panels of each front are.
    fn lists(&self, slots: &[u64], coupling: &CompressedPattern, transpose: bool) -> Lists {
        let Self {
            symbolic,
            levels,
            num_levels,
            ..
        } = *self;
        let tree = &symbolic.tree;
        let mut order: Vec<u32> = (0..num_levels).collect();
        if transpose {
            order.reverse();
        }
        let (warps_up, warps_up_ends) = self.warps_up.ordered(&order);
        let (warps_down, warps_down_ends) = self.warps_down.ordered(&order);
        let (blocks_up, blocks_up_ends) = self.blocks_up.ordered(&order);
        let (blocks_down, blocks_down_ends) = self.blocks_down.ordered(&order);

        let couplings = Couplings::new(coupling, tree.perm(), transpose);
        let mut singles = Vec::new();
        let mut coupled = CoupledRows::default();
        let by_level = ByLevel::new(levels, num_levels);
        let mut level_ends = Vec::with_capacity(order.len());
        for (at, &level) in order.iter().enumerate() {
            for &s in by_level.fronts(level) {
                let s = s as usize;
                let front = &tree.fronts()[s];
                let is_single = self.classes[s] == SolveClass::Single;
                if is_single {
                    let [mut begin, end] = couplings.range(front.start);
                    if end - begin > LONG_ROW {
                        coupled.push(front.start, [begin, end]);
                        begin = end;
                    }
                    singles.push(Single {
                        pivot: front.start,
                        begin,
                        end,
                        slot: slots[s],
                    });
                    continue;
                }
                for e in front.start..front.start + front.pivots {
                    let [begin, end] = couplings.range(e);
                    if begin < end {
                        coupled.push(e, [begin, end]);
                    }
                }
            }
            level_ends.push(Level {
                warps_up: warps_up_ends[at],
                warps_down: warps_down_ends[at],
                blocks_up: blocks_up_ends[at],
                blocks_down: blocks_down_ends[at],
                singles: singles.len() as u32,
                coupled: coupled.rows.len() as u32,
                segments: coupled.segments.len() as u32,
            });
        }
        let CoupledRows {
            rows: coupled,
            segments,
        } = coupled;
        Lists {
            levels: level_ends,
            warps_up,
            warps_down,
            blocks_up,
            blocks_down,
            singles,
            coupled,
            segments,
            coupled_idx: couplings.idx,
            coupled_entries: couplings.entries,
        }
    }
}

/// Seconds from each front to its root, or to its farthest leaf on the way down: without the front, and with it.
pub(super) fn paths_left(tree: &AssemblyTree, costs: &DeviceCosts, down: bool) -> Vec<[f64; 2]> {
    let fronts = tree.fronts();
    let mut left = vec![[0.0f64; 2]; fronts.len()];
    if down {
        for (s, front) in fronts.iter().enumerate() {
            left[s][1] = left[s][0] + costs.solve_seconds(front.pivots);
            let below = left[s][1];
            if let Some([parent, _]) = left.get_mut(front.parent as usize) {
                *parent = below.max(*parent);
            }
        }
    } else {
        for (s, front) in fronts.iter().enumerate().rev() {
            let above = left.get(front.parent as usize).map_or(0.0, |left| left[1]);
            left[s] = [above, above + costs.solve_seconds(front.pivots)];
        }
    }
    left
}

/// Adds the strips of front `number` to the tasks of blocks, each with its level and the path that is left.
///
/// Strips of pivots come by the path from their own step on. Those of rows below need all of the pivots, so they come
/// behind those of other fronts that are as far from the end: their unknowns are there when their turn comes.
pub(super) fn push_strips(
    blocks: &mut Vec<(u32, f64, LargeTask)>,
    (number, front): (u32, &Front),
    level: u32,
    [behind, left]: [f64; 2],
    down: bool,
) {
    let tiling = SolveClass::tiling(front);
    let steps = tiling.steps();
    // The first strip of rows below is a step of its own.
    let of_step = (left - behind) / f64::from(steps + 1);
    let at_step = |step, strip| {
        let front = number;
        let left = left - of_step * f64::from(step);
        (level, left, LargeTask { front, strip })
    };
    if down {
        blocks.extend((0..steps).map(|step| at_step(step, steps - 1 - step)));
    } else {
        let strips = 0..tiling.sides();
        blocks.extend(strips.map(|strip| at_step(strip.min(steps), strip)));
    }
}

/// Tasks of warps and of blocks up the forest, or down; what is left of the path is known without each front and with it.
fn tasks_by_paths(
    tree: &AssemblyTree,
    (classes, levels): (&[SolveClass], &[u32]),
    num_levels: u32,
    left: &[[f64; 2]],
    down: bool,
    threads: usize,
) -> (TaskList<Pack>, TaskList<LargeTask>) {
    let mut warps = Vec::with_capacity(levels.len());
    let mut blocks = Vec::new();
    for (s, front) in tree.fronts().iter().enumerate().rev() {
        let (number, level) = (s as u32, levels[s]);
        match classes[s] {
            SolveClass::Single => {}
            SolveClass::Small => warps.push((level, left[s][1], number)),
            SolveClass::Whole => blocks.push((level, left[s][1], whole(number))),
            SolveClass::Tiled => push_strips(&mut blocks, (number, front), level, left[s], down),
        }
    }
    let num_levels = num_levels as usize;
    both(
        threads,
        || {
            let warps = TaskList::new(&warps, num_levels, threads);
            packed(&warps, tree.fronts(), down)
        },
        || TaskList::new(&blocks, num_levels, threads),
    )
}

/// The fronts of each level.
struct ByLevel {
    ptr: Vec<u32>,
    fronts: Vec<u32>,
}

impl ByLevel {
    fn new(levels: &[u32], num_levels: u32) -> Self {
        // Counts are shifted by two, so that after the sums ptr[l + 1] is where level l begins and, once it is filled,
        // where it ends.
        let mut ptr = vec![0; num_levels as usize + 2];
        for &level in levels {
            ptr[level as usize + 2] += 1;
        }
        let mut ptr = accumulated(ptr);
        let mut fronts = vec![0; levels.len()];
        for (s, &level) in levels.iter().enumerate() {
            let next = &mut ptr[level as usize + 1];
            fronts[*next as usize] = s as u32;
            *next += 1;
        }
        Self { ptr, fronts }
    }

    fn fronts(&self, level: u32) -> &[u32] {
        let level = level as usize;
        &self.fronts[self.ptr[level] as usize..self.ptr[level + 1] as usize]
    }
}

/// Rows with couplings, and the segments of long ones.
#[derive(Default)]
struct CoupledRows {
    rows: Vec<CoupledRow>,
    segments: Vec<Segment>,
}

impl CoupledRows {
    /// Adds the row of pivot `e` with the couplings `begin .. end`.
    fn push(&mut self, e: u32, [begin, end]: [u32; 2]) {
        let first_segment = self.segments.len() as u32;
        let mut row = CoupledRow {
            pivot: e,
            begin,
            end,
            first_segment,
            end_of_segments: first_segment,
        };
        if end - begin > LONG_ROW {
            let segments = (begin..end).step_by(SEGMENT as usize);
            self.segments.extend(segments.map(|begin| Segment {
                begin,
                end: end.min(begin + SEGMENT),
            }));
            row.end = begin;
            row.end_of_segments = self.segments.len() as u32;
        }
        self.rows.push(row);
    }
}

/// The couplings of the rows of B (of Bᵀ), rows and unknowns in the order of elimination.
struct Couplings {
    ptr: Vec<u32>,
    idx: Vec<u32>,
    /// Their places in the pattern of the couplings.
    entries: Vec<u32>,
}

impl Couplings {
    fn new(given: &CompressedPattern, perm: &[u32], transpose: bool) -> Self {
        if given.nnz() == 0 {
            return Self {
                ptr: vec![0; perm.len() + 1],
                idx: Vec::new(),
                entries: Vec::new(),
            };
        }
        let turned;
        let (pattern, map): (&CompressedPattern, Option<&[u64]>) = if transpose {
            turned = given.transpose_with_map();
            (&turned.0, Some(&turned.1))
        } else {
            (given, None)
        };
        let position = inverse(perm);
        let mut couplings = Self {
            ptr: vec![0],
            idx: Vec::with_capacity(given.nnz()),
            entries: Vec::with_capacity(given.nnz()),
        };
        for &row in perm {
            for p in pattern.range(row as usize) {
                couplings.idx.push(position[pattern.idx()[p] as usize]);
                couplings
                    .entries
                    .push(map.map_or(p, |map| map[p] as usize) as u32);
            }
            couplings.ptr.push(couplings.idx.len() as u32);
        }
        couplings
    }

    /// Where those of unknown `e` begin and end.
    fn range(&self, e: u32) -> [u32; 2] {
        [self.ptr[e as usize], self.ptr[e as usize + 1]]
    }
}

/// The exponent of the factor of each entry right of the diagonal blocks.
fn coupling_exponents(placement: &Placement<'_>, threads: usize) -> Vec<i32> {
    let Placement {
        coupling, scaling, ..
    } = placement;
    let mut exponents = vec![0; coupling.nnz()];
    if exponents.is_empty() {
        return exponents;
    }
    let rows = placement.row_perm.as_slice();
    let columns = placement.col_perm.as_slice();
    let ranges = shares(threads, rows.len(), |i| coupling.ptr()[i]);
    let in_range = |rows: &std::ops::Range<usize>| {
        (coupling.ptr()[rows.end] - coupling.ptr()[rows.start]) as usize
    };
    let pieces = split(&mut exponents, ranges.iter().map(in_range));
    let parts: Vec<_> = ranges.into_iter().zip(pieces).collect();
    mapped(parts, |(range, exponents)| {
        let entries = range.flat_map(|i| {
            let of_row = exponent(scaling.rows[rows[i] as usize]);
            coupling.line(i).iter().map(move |&j| (of_row, j))
        });
        for (to, (of_row, j)) in exponents.iter_mut().zip(entries) {
            *to = of_row + exponent(scaling.cols[columns[j as usize] as usize]);
        }
    });
    exponents
}

#[cfg(test)]
mod tests {
    use luge_gpu_kernels::frontal::solve::layout::NO_FRONT;

    use super::*;
    use crate::gpu::plan::tests::{ROOT, tree_of};

    #[test]
    fn trees_with_a_front_of_many_pivots_have_strips() {
        for (pivots, has_strips) in [(1, false), (64, false), (65, true), (256, true)] {
            let tree = tree_of(&[(ROOT, 40), (ROOT, pivots)]);
            let n = tree.tree.n();
            let forest = LeveledForest::new(&tree, &[0, 0], &DeviceCosts::default(), 1);
            let no_coupling = CompressedPattern::new(n, vec![0; n + 1], vec![]).unwrap();
            for transpose in [false, true] {
                let lists = forest.lists(&tree.layout.slot, &no_coupling, transpose);
                assert_eq!(lists.has_strips(), has_strips, "{pivots} pivots");
            }
        }
    }

    #[test]
    fn those_with_the_longest_path_come_first() {
        // A chain of three small fronts, one below a small one of 31 pivots, one below a block's of 33; two roots.
        let fronts = [
            (1, 1),
            (2, 2),
            (ROOT, 2),
            (4, 1),
            (ROOT, 31),
            (6, 1),
            (ROOT, 33),
            (ROOT, 62),
            (ROOT, 5),
        ];
        let tree = tree_of(&fronts);
        let levels = vec![0; fronts.len()];
        let costs = DeviceCosts {
            solve_front: 400.0,
            solve_pivot: 20.0,
            solve_tile: 500.0,
            ..DeviceCosts::default()
        };
        let forest = LeveledForest::new(&tree, &levels, &costs, 1);
        // A front takes 400, a pivot 20, and each 32 of them 500: 420, 440, 440; 420, 1020; 420, 1560; 2140; 500.
        // To the root 1300, 880, 440; 1440, 1020; 1980; 500.
        const NO: u32 = NO_FRONT;
        // Front 4 is as large as a warp; 0 is below 1, 1 below 2.
        let up = [[5, 3, 0, NO], [4; 4], [1, 8, NO, NO], [2, NO, NO, NO]];
        assert_eq!(forest.warps_up.tasks, up);
        // To the farthest leaf 420, 860, 1300; 420, 1440; 420; 500.
        let down = [[4; 4], [2, NO, NO, NO], [1, 8, 5, 3], [0, NO, NO, NO]];
        assert_eq!(forest.warps_down.tasks, down);
        let expected = NumTasks {
            small: 7,
            packs: 4,
            blocks: 2,
        };
        assert_eq!(forest.num_tasks(), expected);
        assert_eq!(forest.blocks_up.tasks, [whole(7), whole(6)]);
        assert_eq!(forest.blocks_down.tasks, [whole(7), whole(6)]);
    }
}
