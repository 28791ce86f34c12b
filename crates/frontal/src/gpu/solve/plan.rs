//! What a solve on the device does in which order: lists that depend on the tree and the placement alone.
//!
//! A front is a task of a warp if it is small, else of a block; a very large one is a task of a block for each tile of 32
//! rows. Tasks stand in the order of the longest way that is left, with which none comes before one that it waits for.

use std::cmp::Reverse;

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::frontal::solve::layout::{
    COUPLED_WORDS, FRONT_WORDS, LARGE_WORDS, LEVEL_WORDS, LONG_ROW, SEGMENT, SEGMENT_WORDS,
    SINGLE_WORDS, SMALL_WORDS, THREADS, TILE, WHOLE, WHOLE_ROWS,
};
use luge_sparse::CompressedPattern;
use luge_sparse::etree::{NONE, inverse};

use crate::gpu::placement::{Placement, exponent};
use crate::tree::{Front, Tree};

/// Most pivots of a front for a warp: a lane has one.
const SMALL_PIVOTS: u32 = TILE;
/// Most rows below them: two for a lane on the way down.
const SMALL_BELOW: u32 = 2 * TILE;
/// What a front costs whatever its size, in nanoseconds.
const FIXED_WEIGHT: u64 = 400;
/// What each pivot costs: one is solved for after the other.
const PIVOT_WEIGHT: u64 = 20;
/// What each tile of 32 pivots costs beside that.
const TILE_WEIGHT: u64 = 500;

/// The lists of solves with B, or of those with Bᵀ.
#[derive(Debug)]
pub(super) struct Direction {
    /// Entry of A's right-hand side of each pivot.
    pub enter: Buffer<u32>,
    pub enter_exponents: Buffer<i32>,
    /// Entry of A's solution of each pivot.
    pub leave: Buffer<u32>,
    pub leave_exponents: Buffer<i32>,
    pub levels: Buffer<u32>,
    pub warps_up: Buffer<u32>,
    pub warps_down: Buffer<u32>,
    pub blocks_up: Buffer<u32>,
    pub blocks_down: Buffer<u32>,
    pub singles: Buffer<u32>,
    pub coupled: Buffer<u32>,
    pub segments: Buffer<u32>,
    pub coupled_idx: Buffer<u32>,
    pub coupled_entries: Buffer<u32>,
}

/// Everything about a solve that does not depend on values; see the module.
#[derive(Debug)]
pub(in crate::gpu) struct SolvePlan {
    pub(super) fronts: Buffer<u32>,
    pub(super) gather_ptr: Buffer<u32>,
    pub(super) carry_to: Buffer<u32>,
    /// Value of A of each entry right of the diagonal blocks, and the exponent of its factor.
    pub(super) coupling_entries: Buffer<u32>,
    pub(super) coupling_exponents: Buffer<i32>,
    /// For B, and for Bᵀ.
    pub(super) directions: [Direction; 2],
    /// Most tasks of warps in one list.
    pub(super) num_warp_tasks: u32,
    /// Most tasks of blocks in one list.
    pub(super) num_block_tasks: u32,
    /// Part of the work that is for blocks.
    pub(super) block_share: f64,
}

/// Who works on a front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One pivot and nothing else: a thread, apart from all tasks.
    Single,
    /// A warp.
    Small,
    /// A block.
    Whole,
    /// A block for each tile.
    Tiles,
}

impl Kind {
    fn of(front: &Front) -> Self {
        if front.pivots == 1 && front.below == 0 && front.num_children == 0 {
            Self::Single
        } else if front.pivots <= SMALL_PIVOTS && front.below <= SMALL_BELOW {
            Self::Small
        } else if front.size() <= WHOLE_ROWS {
            Self::Whole
        } else {
            Self::Tiles
        }
    }
}

/// Tasks with their levels and priorities, high first.
#[derive(Default)]
struct TaskList<const WORDS: usize> {
    tasks: Vec<(u32, u64, [u32; WORDS])>,
}

impl<const WORDS: usize> TaskList<WORDS> {
    /// The words of the tasks, level by level in the given order, and the number of tasks up to each level's end.
    fn ordered(&self, levels: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let position = inverse(levels);
        let mut order: Vec<u32> = (0..self.tasks.len() as u32).collect();
        // The tiles of a front stay in order.
        order.sort_unstable_by_key(|&t| {
            let (level, left, _) = self.tasks[t as usize];
            (position[level as usize], Reverse(left), t)
        });
        let mut ends = vec![0; levels.len()];
        for (level, ..) in &self.tasks {
            ends[position[*level as usize] as usize] += 1;
        }
        let words = order.iter().flat_map(|&t| self.tasks[t as usize].2);
        (words.collect(), accumulated(ends))
    }
}

fn accumulated(mut counts: Vec<u32>) -> Vec<u32> {
    let mut sum = 0;
    for count in &mut counts {
        sum += *count;
        *count = sum;
    }
    counts
}

fn entries(front: &Front) -> u64 {
    u64::from(front.pivots) * u64::from(front.pivots + 2 * front.below)
}

/// Nanoseconds that a front adds to a way through the tree in one direction, roughly.
fn weight(front: &Front) -> u64 {
    let pivots = u64::from(front.pivots);
    FIXED_WEIGHT + PIVOT_WEIGHT * pivots + TILE_WEIGHT * (pivots / u64::from(TILE))
}

/// For each row of each front where the contributions of children to it begin, and for each row below a front its own
/// among them. Front s has the rows from number start + rows on.
fn contributions(tree: &Tree) -> (Vec<u32>, Vec<u32>) {
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

/// Level of each diagonal block: 0 for those without couplings, else above all that it is coupled to.
fn block_levels(placement: &Placement<'_>) -> Vec<u32> {
    let block_ptr = placement.block_ptr;
    let num_blocks = block_ptr.len() - 1;
    let mut block_of = vec![0u32; block_ptr[num_blocks]];
    for (block, range) in block_ptr.windows(2).enumerate() {
        block_of[range[0]..range[1]].fill(block as u32);
    }
    let mut levels = vec![0; num_blocks];
    for (block, range) in block_ptr.windows(2).enumerate().rev() {
        levels[block] = (range[0]..range[1])
            .flat_map(|row| placement.coupling.lane(row))
            .map(|&column| levels[block_of[column as usize] as usize] + 1)
            .max()
            .unwrap_or(0);
    }
    let level_of = |i: usize| levels[block_of[i] as usize];
    (0..block_of.len()).map(level_of).collect()
}

impl SolvePlan {
    /// Plans solves with the tree and copies the plan to the device.
    ///
    /// # Panics
    ///
    /// If there are 2³² rows of fronts.
    #[track_caller]
    pub(in crate::gpu) fn upload(
        stream: &Stream,
        tree: &Tree,
        placement: &Placement<'_>,
    ) -> Result<Self, DeviceError> {
        let fronts = tree.fronts();
        let rows = tree.n() + tree.rows.len();
        assert!(u32::try_from(rows).is_ok(), "fewer than 2³² rows of fronts");
        let mut words = Vec::with_capacity(fronts.len() * FRONT_WORDS);
        for (s, front) in fronts.iter().enumerate() {
            let slot = tree.layout.slot[s];
            words.extend::<[u32; FRONT_WORDS]>([
                front.start,
                front.pivots,
                front.below,
                front.rows as u32,
                slot as u32,
                (slot >> 32) as u32,
                0,
                0,
            ]);
        }
        let (gather_ptr, carry_to) = contributions(tree);
        let levels = block_levels(placement);
        let levels: Vec<u32> = fronts
            .iter()
            .map(|front| levels[tree.perm()[front.start as usize] as usize])
            .collect();
        let tasks = Tasks::new(tree, &levels);
        let directions = [
            tasks.direction(stream, tree, &levels, placement, false)?,
            tasks.direction(stream, tree, &levels, placement, true)?,
        ];
        let total: u64 = fronts.iter().map(entries).sum();
        let is_large = |front: &&Front| matches!(Kind::of(front), Kind::Whole | Kind::Tiles);
        let of_blocks: u64 = fronts.iter().filter(is_large).map(entries).sum();
        Ok(Self {
            fronts: stream.upload(&words)?,
            gather_ptr: stream.upload(&gather_ptr)?,
            carry_to: stream.upload(&carry_to)?,
            coupling_entries: stream.upload(placement.coupling_entries)?,
            coupling_exponents: stream.upload(&coupling_exponents(placement))?,
            directions,
            num_warp_tasks: tasks.warps_up.tasks.len() as u32,
            num_block_tasks: tasks.blocks_up.tasks.len() as u32,
            block_share: of_blocks as f64 / total.max(1) as f64,
        })
    }

    /// Most segments of long rows in one direction.
    pub(in crate::gpu) fn num_segments(&self) -> usize {
        let of = |direction: &Direction| direction.segments.len() / SEGMENT_WORDS;
        self.directions.iter().map(of).max().unwrap_or(0)
    }

    /// Blocks of a grid whose warps work alone, and of those that work as a whole, if `resident` fit on the device.
    pub(super) fn blocks(&self, resident: u32, n: usize, chunks: u32) -> (u32, u32) {
        let of_blocks = if self.num_block_tasks == 0 {
            0
        } else {
            let share = (f64::from(resident) * self.block_share.clamp(0.125, 0.75)) as u32;
            let useful = self.num_block_tasks.saturating_mul(chunks);
            share.clamp(1, useful)
        };
        // Four rows a thread where right-hand sides come in.
        let by_rows = n.div_ceil(4 * THREADS as usize) as u32;
        let by_tasks = self.num_warp_tasks.saturating_mul(chunks);
        let useful = by_rows.max(by_tasks.div_ceil(THREADS / TILE)).max(1);
        // One for each kind of tasks even where only one fits, which the launch then reports.
        let left = resident.saturating_sub(of_blocks).max(1);
        (useful.min(left), of_blocks)
    }
}

/// The tasks of all fronts.
#[derive(Default)]
struct Tasks {
    warps_up: TaskList<SMALL_WORDS>,
    warps_down: TaskList<SMALL_WORDS>,
    blocks_up: TaskList<LARGE_WORDS>,
    blocks_down: TaskList<LARGE_WORDS>,
}

impl Tasks {
    fn new(tree: &Tree, levels: &[u32]) -> Self {
        let fronts = tree.fronts();
        // The ways from a front to its root, and to its farthest leaf.
        let mut up = vec![0; fronts.len()];
        let mut down = vec![0; fronts.len()];
        for (s, front) in fronts.iter().enumerate() {
            down[s] += weight(front);
            if let Some(parent) = fronts.get(front.parent as usize) {
                debug_assert!(parent.start > front.start);
                let below = down[s];
                let parent = &mut down[front.parent as usize];
                *parent = below.max(*parent);
            }
        }
        let mut tasks = Self::default();
        for (s, front) in fronts.iter().enumerate().rev() {
            let above = up.get(front.parent as usize).copied().unwrap_or(0);
            up[s] = weight(front) + above;
            let (number, level) = (s as u32, levels[s]);
            match Kind::of(front) {
                Kind::Single => {}
                Kind::Small => {
                    tasks.warps_up.tasks.push((level, up[s], [number]));
                    tasks.warps_down.tasks.push((level, down[s], [number]));
                }
                Kind::Whole => {
                    let words = [number, WHOLE];
                    tasks.blocks_up.tasks.push((level, up[s], words));
                    tasks.blocks_down.tasks.push((level, down[s], words));
                }
                Kind::Tiles => {
                    let of_pivots = front.pivots.div_ceil(TILE);
                    for tile in 0..of_pivots + front.below.div_ceil(TILE) {
                        let task = (level, up[s], [number, tile]);
                        tasks.blocks_up.tasks.push(task);
                    }
                    for tile in (0..of_pivots).rev() {
                        let task = (level, down[s], [number, tile]);
                        tasks.blocks_down.tasks.push(task);
                    }
                }
            }
        }
        tasks
    }

    /// Copies the lists for solves with B or Bᵀ to the device.
    fn direction(
        &self,
        stream: &Stream,
        tree: &Tree,
        levels: &[u32],
        placement: &Placement<'_>,
        transpose: bool,
    ) -> Result<Direction, DeviceError> {
        let perm = tree.perm();
        let num_levels = levels.iter().map(|level| level + 1).max().unwrap_or(0);
        let mut order: Vec<u32> = (0..num_levels).collect();
        if transpose {
            order.reverse();
        }
        let (warps_up, warps_up_ends) = self.warps_up.ordered(&order);
        let (warps_down, warps_down_ends) = self.warps_down.ordered(&order);
        let (blocks_up, blocks_up_ends) = self.blocks_up.ordered(&order);
        let (blocks_down, blocks_down_ends) = self.blocks_down.ordered(&order);

        let couplings = Couplings::new(placement, perm, transpose);
        let mut singles = Vec::new();
        let mut singles_ends = Vec::new();
        let mut coupled = CoupledRows::default();
        let mut by_level = vec![Vec::new(); num_levels as usize];
        for (s, &level) in levels.iter().enumerate() {
            by_level[level as usize].push(s);
        }
        let mut level_words = Vec::new();
        for (at, &level) in order.iter().enumerate() {
            for &s in &by_level[level as usize] {
                let front = &tree.fronts()[s];
                let is_single = Kind::of(front) == Kind::Single;
                if is_single {
                    let [mut begin, end] = couplings.range(front.start);
                    if end - begin > LONG_ROW {
                        coupled.push(front.start, [begin, end]);
                        begin = end;
                    }
                    let slot = tree.layout.slot[s];
                    let words = [front.start, begin, end, slot as u32, (slot >> 32) as u32];
                    singles.extend::<[u32; SINGLE_WORDS]>(words);
                    continue;
                }
                for e in front.start..front.start + front.pivots {
                    let [begin, end] = couplings.range(e);
                    if begin < end {
                        coupled.push(e, [begin, end]);
                    }
                }
            }
            singles_ends.push((singles.len() / SINGLE_WORDS) as u32);
            level_words.extend::<[u32; LEVEL_WORDS]>([
                warps_up_ends[at],
                warps_down_ends[at],
                blocks_up_ends[at],
                blocks_down_ends[at],
                singles_ends[at],
                (coupled.rows.len() / COUPLED_WORDS) as u32,
                (coupled.segments.len() / SEGMENT_WORDS) as u32,
            ]);
        }
        let CoupledRows {
            rows: coupled,
            segments,
        } = coupled;
        let row_perm = placement.row_perm.as_slice();
        let col_perm = placement.col_perm.as_slice();
        let (row_factors, col_factors) = (&placement.scaling.rows, &placement.scaling.cols);
        let of_rows = placed(perm, row_perm, row_factors);
        let of_cols = placed(perm, col_perm, col_factors);
        let (enter, leave) = if transpose {
            (of_cols, of_rows)
        } else {
            (of_rows, of_cols)
        };
        Ok(Direction {
            enter: stream.upload(&enter.0)?,
            enter_exponents: stream.upload(&enter.1)?,
            leave: stream.upload(&leave.0)?,
            leave_exponents: stream.upload(&leave.1)?,
            levels: stream.upload(&level_words)?,
            warps_up: stream.upload(&warps_up)?,
            warps_down: stream.upload(&warps_down)?,
            blocks_up: stream.upload(&blocks_up)?,
            blocks_down: stream.upload(&blocks_down)?,
            singles: stream.upload(&singles)?,
            coupled: stream.upload(&coupled)?,
            segments: stream.upload(&segments)?,
            coupled_idx: stream.upload(&couplings.idx)?,
            coupled_entries: stream.upload(&couplings.entries)?,
        })
    }
}

/// The words of rows with couplings, and of the segments of long ones.
#[derive(Default)]
struct CoupledRows {
    rows: Vec<u32>,
    segments: Vec<u32>,
}

impl CoupledRows {
    /// Adds the row of pivot `e` with the couplings `begin .. end`.
    fn push(&mut self, e: u32, [begin, end]: [u32; 2]) {
        let first = (self.segments.len() / SEGMENT_WORDS) as u32;
        let words = if end - begin <= LONG_ROW {
            [e, begin, end, first, first]
        } else {
            for begin in (begin..end).step_by(SEGMENT as usize) {
                self.segments.extend([begin, end.min(begin + SEGMENT)]);
            }
            let end_of_segments = (self.segments.len() / SEGMENT_WORDS) as u32;
            [e, begin, begin, first, end_of_segments]
        };
        self.rows.extend::<[u32; COUPLED_WORDS]>(words);
    }
}

/// For each pivot its row or column of A, and the exponent of that one's factor.
fn placed(perm: &[u32], to_a: &[u32], factors: &[f64]) -> (Vec<u32>, Vec<i32>) {
    let of_a: Vec<u32> = perm.iter().map(|&i| to_a[i as usize]).collect();
    let exponents = of_a
        .iter()
        .map(|&i| exponent(factors[i as usize]))
        .collect();
    (of_a, exponents)
}

/// The couplings of the rows of B (of Bᵀ), rows and unknowns in the order of elimination.
struct Couplings {
    ptr: Vec<u32>,
    idx: Vec<u32>,
    /// Their places in the pattern of the couplings.
    entries: Vec<u32>,
}

impl Couplings {
    fn new(placement: &Placement<'_>, perm: &[u32], transpose: bool) -> Self {
        let given = placement.coupling;
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
fn coupling_exponents(placement: &Placement<'_>) -> Vec<i32> {
    let scaling = placement.scaling;
    let mut exponents = Vec::with_capacity(placement.coupling.nnz());
    for (i, &row) in placement.row_perm.as_slice().iter().enumerate() {
        let of_row = exponent(scaling.rows[row as usize]);
        exponents.extend(placement.coupling.lane(i).iter().map(|&j| {
            let column = placement.col_perm.as_slice()[j as usize];
            of_row + exponent(scaling.cols[column as usize])
        }));
    }
    exponents
}
