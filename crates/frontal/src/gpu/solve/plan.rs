//! What a solve on the device does in which order: lists that depend on the tree and the placement alone.
//!
//! The bottom of the forest is cut into subtrees of small fronts, each a task of one warp. Every front above is a task
//! of its own, of a warp if it is small, else of one block, or of a block for each tile of 32 rows. Tasks stand in the
//! order of the longest way that is left, with which none comes before one that it waits for.

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::frontal::solve::layout::{
    CONTROL_WORDS, COUPLED_WORDS, FRONT_WORDS, NO_FLAG, SINGLE_WORDS, TASK_WORDS, THREADS, TILE,
    flag,
};
use luge_sparse::CompressedPattern;
use luge_sparse::etree::{NONE, inverse};

use crate::gpu::placement::{Placement, exponent};
use crate::tree::{Front, Tree};

/// Most pivots of a front for a warp: a lane has one.
const SMALL_PIVOTS: u32 = TILE;
/// Most rows below them.
const SMALL_BELOW: u32 = 64;
/// Most entries of the panels of a front whose tiles one block works on, one after the other.
const ENTRIES_FOR_ONE_BLOCK: u64 = 1 << 13;
/// Subtrees are cut so that there are about this many for the weight of all fronts together.
const NUM_SUBTREES: u64 = 1 << 14;
/// Least weight of a subtree that is not cut.
const LEAST_SUBTREE: u64 = 4 * FIXED_WEIGHT;
/// What a front costs a warp whatever its size, in steps of about ten nanoseconds.
const FIXED_WEIGHT: u64 = 100;

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
    /// Flags for each eight right-hand sides.
    pub(super) num_flags: u32,
    /// Most tasks of warps in one list.
    pub(super) num_warp_tasks: u32,
    /// Most tasks of blocks in one list.
    pub(super) num_block_tasks: u32,
    /// Part of the work that is for blocks.
    pub(super) block_share: f64,
}

/// What the planner knows of a front.
#[derive(Clone, Copy)]
struct Node {
    /// It and all below it are for warps.
    is_small: bool,
    /// Weight of it and all below it.
    subtree: u64,
    /// First front of its subtree.
    first: u32,
    /// First of its flags, if it is not inside a subtree of a task.
    flags: u32,
    /// Level of its diagonal block.
    level: u32,
}

/// Tasks with their priority, high first.
#[derive(Default)]
struct TaskList {
    tasks: Vec<(u32, u64, [u32; TASK_WORDS])>,
}

impl TaskList {
    fn push(&mut self, level: u32, left: u64, words: [u32; TASK_WORDS]) {
        self.tasks.push((level, left, words));
    }

    /// The words of the tasks, level by level in the given order, and the number of tasks up to each level's end.
    fn ordered(&self, levels: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let mut position = vec![0; levels.len()];
        for (at, &level) in levels.iter().enumerate() {
            position[level as usize] = at;
        }
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        // Stable: the tiles of a front stay in order.
        order.sort_by_key(|&t| {
            let (level, left, _) = self.tasks[t];
            (position[level as usize], std::cmp::Reverse(left))
        });
        let mut ends = vec![0; levels.len()];
        for &t in &order {
            ends[position[self.tasks[t].0 as usize]] += 1;
        }
        let words = order.iter().flat_map(|&t| self.tasks[t].2).collect();
        (words, accumulated(ends))
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

fn is_small(front: &Front) -> bool {
    front.pivots <= SMALL_PIVOTS && front.below <= SMALL_BELOW
}

fn is_single(front: &Front) -> bool {
    front.pivots == 1 && front.below == 0 && front.num_children == 0
}

fn entries(front: &Front) -> u64 {
    u64::from(front.pivots) * u64::from(front.pivots + 2 * front.below)
}

/// Steps of a triangular solve with the front, roughly.
fn weight(front: &Front) -> u64 {
    FIXED_WEIGHT + 2 * u64::from(front.pivots) + entries(front) / 64
}

fn tiles(rows: u32) -> u32 {
    rows.div_ceil(TILE)
}

/// Tiles of one task.
fn tiles_at_once(front: &Front, num_tiles: u32) -> u32 {
    if entries(front) <= ENTRIES_FOR_ONE_BLOCK {
        num_tiles
    } else {
        1
    }
}

/// Signals of a front that is a task, or several, to the parent.
fn signals(front: &Front) -> u32 {
    if is_small(front) {
        1
    } else {
        let of_pivots = tiles(front.pivots);
        let num_tiles = of_pivots + tiles(front.below);
        let at_once = tiles_at_once(front, num_tiles);
        num_tiles.div_ceil(at_once) - of_pivots / at_once
    }
}

/// The value of the flag of the way down that says that a front is done.
fn done_down(front: &Front) -> u32 {
    if is_small(front) {
        1
    } else {
        tiles(front.pivots)
    }
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
        let (nodes, num_flags) = nodes(tree, placement);
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
                nodes[s].flags,
                0,
            ]);
        }
        let (gather_ptr, carry_to) = contributions(tree);
        let tasks = Tasks::new(tree, &nodes);
        let directions = [
            tasks.direction(stream, tree, &nodes, placement, false)?,
            tasks.direction(stream, tree, &nodes, placement, true)?,
        ];
        let most = |one: &TaskList, other: &TaskList| one.tasks.len().max(other.tasks.len()) as u32;
        let total: u64 = fronts.iter().map(entries).sum();
        let of_blocks: u64 = fronts.iter().filter(|f| !is_small(f)).map(entries).sum();
        Ok(Self {
            fronts: stream.upload(&words)?,
            gather_ptr: stream.upload(&gather_ptr)?,
            carry_to: stream.upload(&carry_to)?,
            coupling_entries: stream.upload(placement.coupling_entries)?,
            coupling_exponents: stream.upload(&coupling_exponents(placement))?,
            directions,
            num_flags,
            num_warp_tasks: most(&tasks.warps_up, &tasks.warps_down),
            num_block_tasks: most(&tasks.blocks_up, &tasks.blocks_down),
            block_share: of_blocks as f64 / total.max(1) as f64,
        })
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

    /// Words of the control for some times eight right-hand sides.
    pub(in crate::gpu) fn control_words(&self, chunks: usize) -> usize {
        CONTROL_WORDS + chunks * self.num_flags as usize
    }
}

/// What the planner needs of each front, and the number of flags.
fn nodes(tree: &Tree, placement: &Placement<'_>) -> (Vec<Node>, u32) {
    let fronts = tree.fronts();
    let levels = block_levels(placement);
    let mut nodes: Vec<Node> = fronts
        .iter()
        .enumerate()
        .map(|(s, front)| Node {
            is_small: is_small(front),
            subtree: weight(front),
            first: s as u32,
            flags: NO_FLAG,
            level: levels[tree.perm()[front.start as usize] as usize],
        })
        .collect();
    for s in 0..fronts.len() {
        let node = nodes[s];
        if let Some(parent) = nodes.get_mut(fronts[s].parent as usize) {
            parent.is_small &= node.is_small;
            parent.subtree += node.subtree;
            parent.first = parent.first.min(node.first);
        }
    }
    let total: u64 = fronts.iter().map(weight).sum();
    let limit = LEAST_SUBTREE.max(total / NUM_SUBTREES);
    let is_whole = |node: &Node| node.is_small && node.subtree <= limit;
    let mut num_flags = 0;
    for s in 0..fronts.len() {
        if is_single(&fronts[s]) {
            continue;
        }
        let is_inside = nodes.get(fronts[s].parent as usize).is_some_and(is_whole);
        if is_inside {
            continue;
        }
        nodes[s].flags = num_flags;
        num_flags += flag::LEN;
        if !is_whole(&nodes[s]) {
            nodes[s].first = s as u32;
        }
    }
    (nodes, num_flags)
}

/// The tasks of all fronts, with their levels and priorities.
#[derive(Default)]
struct Tasks {
    warps_up: TaskList,
    warps_down: TaskList,
    blocks_up: TaskList,
    blocks_down: TaskList,
}

impl Tasks {
    fn new(tree: &Tree, nodes: &[Node]) -> Self {
        let fronts = tree.fronts();
        let is_task = |s: usize| nodes[s].flags != NO_FLAG;
        // Weight of the fronts of a task.
        let own = |s: usize| {
            if nodes[s].first < s as u32 {
                nodes[s].subtree
            } else {
                weight(&fronts[s])
            }
        };
        let mut up = vec![0; fronts.len()];
        let mut down = vec![0; fronts.len()];
        let mut needed = vec![0; fronts.len()];
        for s in (0..fronts.len()).filter(|&s| is_task(s)) {
            down[s] += own(s);
            let parent = fronts[s].parent as usize;
            if parent < fronts.len() {
                down[parent] = down[s].max(down[parent]);
                needed[parent] += signals(&fronts[s]);
            }
        }
        let mut tasks = Self::default();
        for s in (0..fronts.len()).rev().filter(|&s| is_task(s)) {
            let parent = fronts[s].parent as usize;
            up[s] = own(s) + up.get(parent).copied().unwrap_or(0);
            tasks.push(s, fronts, nodes, needed[s], (up[s], down[s]));
        }
        tasks
    }

    /// The tasks of front `s`, or of the subtree below it.
    fn push(
        &mut self,
        s: usize,
        fronts: &[Front],
        nodes: &[Node],
        needed: u32,
        (up, down): (u64, u64),
    ) {
        let front = &fronts[s];
        let Node {
            first,
            flags,
            level,
            ..
        } = nodes[s];
        // A root tells itself that it is done on the way up.
        let (signal, wait_down, needed_down) = match fronts.get(front.parent as usize) {
            Some(parent) => {
                let of_parent = nodes[front.parent as usize].flags;
                (
                    of_parent + flag::CHILDREN,
                    of_parent + flag::DOWN,
                    done_down(parent),
                )
            }
            None => (flags + flag::UP, flags + flag::UP, done_down(front)),
        };
        let wait_up = if needed == 0 {
            NO_FLAG
        } else {
            flags + flag::CHILDREN
        };
        let own_down = flags + flag::DOWN;
        let index = s as u32;
        if is_small(front) {
            self.warps_up
                .push(level, up, [first, index, 0, wait_up, needed, signal]);
            let words = [first, index, 0, wait_down, needed_down, own_down];
            self.warps_down.push(level, down, words);
            return;
        }
        let of_pivots = tiles(front.pivots);
        let num_tiles = of_pivots + tiles(front.below);
        let at_once = tiles_at_once(front, num_tiles);
        for begin in (0..num_tiles).step_by(at_once as usize) {
            let end = (begin + at_once).min(num_tiles);
            self.blocks_up
                .push(level, up, [index, begin, end, wait_up, needed, signal]);
        }
        let mut end = of_pivots;
        while end > 0 {
            let begin = end.saturating_sub(at_once);
            let words = [index, begin, end, wait_down, needed_down, NO_FLAG];
            self.blocks_down.push(level, down, words);
            end = begin;
        }
    }

    /// Copies the lists for solves with B or Bᵀ to the device.
    fn direction(
        &self,
        stream: &Stream,
        tree: &Tree,
        nodes: &[Node],
        placement: &Placement<'_>,
        transpose: bool,
    ) -> Result<Direction, DeviceError> {
        let perm = tree.perm();
        let num_levels = nodes.iter().map(|node| node.level + 1).max().unwrap_or(0);
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
        let mut coupled = Vec::new();
        let mut coupled_ends = Vec::new();
        let mut by_level = vec![Vec::new(); num_levels as usize];
        for (s, node) in nodes.iter().enumerate() {
            by_level[node.level as usize].push(s);
        }
        for &level in &order {
            for &s in &by_level[level as usize] {
                let front = &tree.fronts()[s];
                if is_single(front) {
                    let [begin, end] = couplings.range(front.start);
                    let slot = tree.layout.slot[s];
                    let words = [front.start, begin, end, slot as u32, (slot >> 32) as u32];
                    singles.extend::<[u32; SINGLE_WORDS]>(words);
                    continue;
                }
                for e in front.start..front.start + front.pivots {
                    let [begin, end] = couplings.range(e);
                    if begin < end {
                        coupled.extend::<[u32; COUPLED_WORDS]>([e, begin, end]);
                    }
                }
            }
            singles_ends.push((singles.len() / SINGLE_WORDS) as u32);
            coupled_ends.push((coupled.len() / COUPLED_WORDS) as u32);
        }
        let mut levels = Vec::new();
        for at in 0..num_levels as usize {
            levels.extend([
                warps_up_ends[at],
                warps_down_ends[at],
                blocks_up_ends[at],
                blocks_down_ends[at],
                singles_ends[at],
                coupled_ends[at],
            ]);
        }
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
            levels: stream.upload(&levels)?,
            warps_up: stream.upload(&warps_up)?,
            warps_down: stream.upload(&warps_down)?,
            blocks_up: stream.upload(&blocks_up)?,
            blocks_down: stream.upload(&blocks_down)?,
            singles: stream.upload(&singles)?,
            coupled: stream.upload(&coupled)?,
            coupled_idx: stream.upload(&couplings.idx)?,
            coupled_entries: stream.upload(&couplings.entries)?,
        })
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
