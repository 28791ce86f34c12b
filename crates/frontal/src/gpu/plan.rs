//! Who works on what, and in which order: the host's part of a factorization on the device.
//!
//! See `luge_gpu_kernels::frontal::plan` for the words that come out. Small fronts are put into runs that one warp walks
//! without asking others. A run follows, from each front, the child that takes longest; a subtree that takes less than
//! the way from one warp to another joins the run of its parent. Tasks on large fronts are handed out by the length of
//! the path to the root that begins with them, longest first (T. L. Adam, K. M. Chandy and J. R. Dickson, "A comparison
//! of list schedules for parallel processing systems", Comm. ACM 17, 1974).

use luge_gpu_kernels::frontal::plan::{
    EXPONENT_BIAS, GATHERED, NONE as NO_FRONT, SMALL_FRONT, TILE, WHOLE_FRONT, child, piece, small,
    task,
};
use luge_sparse::etree::NONE;

use super::placement::{Placement, exponent};
use crate::tree::{Front, Tree};

/// Seconds that a warp takes for a small front, whatever its size.
const SECONDS_A_SMALL_FRONT: f64 = 0.4e-6;

/// Those for each of its pivots.
const SECONDS_A_SMALL_PIVOT: f64 = 0.15e-6;

/// Seconds from the end of a front to the beginning of its parent, if another warp works on that.
const SECONDS_A_JOIN: f64 = 1.2e-6;

/// Seconds that a block takes for a large front or a tile, whatever its size.
const SECONDS_A_TASK: f64 = 3e-6;

/// Those for each pivot of a whole front.
const SECONDS_A_PIVOT: f64 = 0.2e-6;

/// Seconds from one diagonal tile of a front to the next.
const SECONDS_A_STEP: f64 = 20e-6;

/// Limits of the ways to work on a front, for tests of each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows of the largest small front: at most 16.
    pub small_front: u32,
    /// Rows of the largest front that one block works on as a whole: at most 95.
    pub whole_front: u32,
    /// Rows of the largest element that is added entry by entry to a large front: at most 16.
    pub gathered: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            small_front: SMALL_FRONT,
            whole_front: WHOLE_FRONT,
            gathered: GATHERED,
        }
    }
}

/// The words of a plan, and how long its counters are.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub fronts: Vec<u32>,
    pub children: Vec<u32>,
    pub starts: Vec<u32>,
    pub tasks: Vec<u32>,
    pub pieces: Vec<u32>,
    pub sums: Vec<u32>,
    pub addends: Vec<u32>,
    pub source: Vec<u32>,
    pub places: Vec<u32>,
    pub num_large: u32,
    pub num_flags: u32,
    pub element_entries: u64,
    /// Whether there are fronts of several tiles of pivots.
    pub has_tiles: bool,
}

/// A tree and how its matrix comes about.
struct Planner<'a> {
    tree: &'a Tree,
    fronts: &'a [Front],
    limits: Limits,
    /// Number of each front among the large ones, or [`NONE`].
    large: Vec<u32>,
    /// Place of each front's element.
    element: Vec<u64>,
    /// Exponent and source in A of each entry, in the order of the layout.
    entries: Vec<(u32, i32)>,
    plan: Plan,
}

fn low(x: u64) -> u32 {
    x as u32
}

fn high(x: u64) -> u32 {
    (x >> 32) as u32
}

impl Plan {
    /// Plans the factorization of a tree.
    pub fn new(tree: &Tree, placement: &Placement<'_>, limits: Limits) -> Self {
        assert!(limits.small_front <= SMALL_FRONT && limits.gathered <= GATHERED);
        assert!(limits.whole_front <= WHOLE_FRONT);
        let fronts = tree.fronts();
        let mut large = vec![NONE; fronts.len()];
        let mut num_large = 0;
        for (s, front) in fronts.iter().enumerate() {
            if large[s] != NONE || front.size() > limits.small_front {
                large[s] = num_large;
                num_large += 1;
                if front.parent != NONE {
                    // Its number comes when it is reached.
                    large[front.parent as usize] = 0;
                }
            }
        }
        let mut element = Vec::with_capacity(fronts.len());
        let mut element_entries = 0;
        for front in fronts {
            element.push(element_entries);
            element_entries += u64::from(front.below).pow(2);
        }
        let mut planner = Planner {
            tree,
            fronts,
            limits,
            large,
            element,
            entries: scaled_entries(tree, placement),
            plan: Self {
                num_large,
                element_entries,
                ..Self::default()
            },
        };
        planner.plan_small();
        planner.plan_large();
        planner.plan
    }
}

/// Source in A and exponent of each entry, in the order of the layout.
fn scaled_entries(tree: &Tree, placement: &Placement<'_>) -> Vec<(u32, i32)> {
    let pattern = &tree.pattern;
    let of = |factors: &[f64], perm: &[u32]| -> Vec<i32> {
        perm.iter()
            .map(|&old| exponent(factors[old as usize]))
            .collect()
    };
    let of_rows = of(&placement.scaling.rows, placement.row_perm.as_slice());
    let of_columns = of(&placement.scaling.cols, placement.col_perm.as_slice());
    let mut exponents = Vec::with_capacity(pattern.nnz());
    for (j, of_column) in of_columns.into_iter().enumerate() {
        let rows = pattern.lane(j).iter();
        exponents.extend(rows.map(|&i| of_column + of_rows[i as usize]));
    }
    let of_layout = tree.layout.source.iter().map(|&p| p as usize);
    of_layout
        .map(|p| (placement.entries[p], exponents[p]))
        .collect()
}

impl Planner<'_> {
    fn is_large(&self, s: usize) -> bool {
        self.large[s] != NONE
    }

    /// Row and column in the front of entry `e` of the layout.
    fn cell(&self, front: &Front, e: usize) -> (u32, u32) {
        let (k, c, m) = (front.pivots, front.below, front.size());
        let place = self.tree.layout.target[e];
        if place < m * k {
            (place % m, place / m)
        } else {
            let place = place - m * k;
            (place / c, k + place % c)
        }
    }

    fn push_entry(&mut self, e: usize, row: u32, column: u32) {
        let (source, exponent) = self.entries[e];
        let biased = (exponent + EXPONENT_BIAS as i32) as u32;
        self.plan.source.push(source);
        self.plan.places.push(row | column << 8 | biased << 16);
    }

    fn entry_range(&self, s: usize) -> std::ops::Range<usize> {
        let ptr = &self.tree.layout.entry_ptr;
        ptr[s] as usize..ptr[s + 1] as usize
    }

    /// Puts the small fronts in order, and describes them.
    fn plan_small(&mut self) {
        let order = self.order_small();
        let mut position = vec![NONE; self.fronts.len()];
        for (at, turn) in order.iter().enumerate() {
            position[turn.front as usize] = at as u32;
        }
        let mut kept = false;
        for (at, turn) in order.iter().enumerate() {
            let s = turn.front as usize;
            let front = self.fronts[s];
            if turn.begins {
                self.plan.starts.push(at as u32);
            }
            let first_entry = self.plan.source.len() as u32;
            for e in self.entry_range(s) {
                let (row, column) = self.cell(&front, e);
                self.push_entry(e, row, column);
            }
            let first_child = self.plan.children.len() as u32 / child::LEN;
            let is_kept = |&c: &u32| kept && position[c as usize] + 1 == at as u32;
            let children = self.tree.children(s).iter().copied();
            let others = self.tree.children(s).iter().copied();
            for c in children
                .filter(is_kept)
                .chain(others.filter(|c| !is_kept(c)))
            {
                let child = &self.fronts[c as usize];
                let element = self.element[c as usize];
                let mut positions = [0u32; SMALL_FRONT as usize / 4];
                for (i, &row) in self.tree.relative[child.row_range()].iter().enumerate() {
                    positions[i / 4] |= row << (8 * (i % 4));
                }
                let words = [low(element), high(element), child.below];
                self.plan
                    .children
                    .extend(words.into_iter().chain(positions));
            }
            let num_children = self.plan.children.len() as u32 / child::LEN - first_child;
            let parent = front.parent as usize;
            let mut flags = if kept { small::HAS_KEPT_CHILD } else { 0 };
            kept = false;
            let mut goes_on = NO_FRONT;
            if turn.ends {
                flags |= small::IS_LAST;
                if front.parent != NONE {
                    flags |= small::WRITES_ELEMENT;
                    if self.is_large(parent) {
                        flags |= small::PARENT_IS_LARGE;
                        goes_on = self.large[parent];
                    } else {
                        goes_on = position[parent];
                    }
                }
            } else {
                let next = order[at + 1];
                kept = next.front == front.parent && next.joins == 0;
                if !kept {
                    flags |= small::WRITES_ELEMENT;
                }
            }
            let slot = self.tree.layout.slot[s];
            self.plan.fronts.extend([
                front.pivots | front.below << 16,
                flags,
                front.start,
                turn.joins,
                low(slot),
                high(slot),
                low(self.element[s]),
                high(self.element[s]),
                first_entry,
                self.plan.source.len() as u32 - first_entry,
                first_child,
                num_children,
                goes_on,
                0,
                0,
                0,
            ]);
        }
        // Those with the longest way to the root first.
        let path = self.paths();
        let by_path = |&at: &u32| path[order[at as usize].front as usize];
        self.plan
            .starts
            .sort_by(|a, b| by_path(b).total_cmp(&by_path(a)).then(a.cmp(b)));
    }

    /// Seconds of a small front.
    fn small_seconds(front: &Front) -> f64 {
        SECONDS_A_SMALL_FRONT + f64::from(front.pivots) * SECONDS_A_SMALL_PIVOT
    }

    /// Seconds of the way from the beginning of each front to the root.
    fn paths(&self) -> Vec<f64> {
        let mut path = vec![0.0; self.fronts.len()];
        for (s, front) in self.fronts.iter().enumerate().rev() {
            let above = match front.parent {
                NONE => 0.0,
                parent => path[parent as usize],
            };
            let own = if !self.is_large(s) {
                Self::small_seconds(front)
            } else if front.size() <= self.limits.whole_front {
                SECONDS_A_TASK + f64::from(front.pivots) * SECONDS_A_PIVOT
            } else {
                // As long as that of its first task, or longer: its children's tasks come before.
                f64::from(front.pivots.div_ceil(TILE) + 1) * SECONDS_A_STEP
            };
            path[s] = above + own;
        }
        path
    }

    /// The order in which small fronts are worked on.
    fn order_small(&self) -> Vec<Turn> {
        let fronts = self.fronts;
        let mut work = vec![0.0f64; fronts.len()];
        let mut finish = vec![0.0f64; fronts.len()];
        // Of each front the child that its run comes from.
        let mut heavy = vec![NONE; fronts.len()];
        let mut is_absorbed = vec![false; fronts.len()];
        let mut by_work: Vec<u32> = Vec::new();
        for (s, front) in fronts.iter().enumerate() {
            if self.is_large(s) {
                continue;
            }
            let own = Self::small_seconds(front);
            let children = self.tree.children(s);
            let mut begin = 0.0f64;
            if let Some(&first) = children.iter().max_by(|&&a, &&b| {
                finish[a as usize]
                    .total_cmp(&finish[b as usize])
                    .then(b.cmp(&a))
            }) {
                heavy[s] = first;
                begin = finish[first as usize];
                by_work.clear();
                by_work.extend(children.iter().filter(|&&c| c != first));
                by_work.sort_by(|&a, &b| {
                    work[a as usize]
                        .total_cmp(&work[b as usize])
                        .then(a.cmp(&b))
                });
                let mut absorbed = 0.0;
                for &c in &by_work {
                    let c = c as usize;
                    if absorbed + work[c] <= SECONDS_A_JOIN {
                        absorbed += work[c];
                        is_absorbed[c] = true;
                    } else {
                        begin = begin.max(finish[c] + SECONDS_A_JOIN);
                    }
                }
                begin += absorbed;
                work[s] += children.iter().map(|&c| work[c as usize]).sum::<f64>();
            }
            work[s] += own;
            finish[s] = begin + own;
        }

        // A postorder with the children that run by themselves first, then those absorbed, then the heavy one.
        let mut order = Vec::new();
        let mut stack: Vec<(u32, bool)> = Vec::new();
        let mut begins = true;
        for root in 0..fronts.len() {
            let parent = fronts[root].parent;
            let is_root = parent == NONE || self.is_large(parent as usize);
            if self.is_large(root) || !is_root {
                continue;
            }
            stack.push((root as u32, false));
            while let Some((s, children_done)) = stack.pop() {
                let s_index = s as usize;
                let children = self.tree.children(s_index);
                if !children_done && !children.is_empty() {
                    stack.push((s, true));
                    let heavy = heavy[s_index];
                    stack.push((heavy, false));
                    let absorbed = children.iter().rev().filter(|&&c| is_absorbed[c as usize]);
                    stack.extend(absorbed.map(|&c| (c, false)));
                    let apart = |&&c: &&u32| c != heavy && !is_absorbed[c as usize];
                    stack.extend(children.iter().rev().filter(apart).map(|&c| (c, false)));
                    continue;
                }
                let apart = children
                    .iter()
                    .filter(|&&c| c != heavy[s_index] && !is_absorbed[c as usize])
                    .count() as u32;
                let parent = fronts[s_index].parent;
                let ends = parent == NONE
                    || self.is_large(parent as usize)
                    || (heavy[parent as usize] != s && !is_absorbed[s_index]);
                order.push(Turn {
                    front: s,
                    joins: if apart > 0 { apart + 1 } else { 0 },
                    begins,
                    ends,
                });
                begins = ends;
            }
        }
        order
    }

    /// Makes tasks of the large fronts.
    fn plan_large(&mut self) {
        let path = self.paths();
        let mut tasks: Vec<(f64, [u32; task::LEN as usize])> = Vec::new();
        let mut tiles = Tiles::default();
        for s in 0..self.fronts.len() {
            if !self.is_large(s) {
                continue;
            }
            let front = self.fronts[s];
            let is_whole = front.size() <= self.limits.whole_front;
            tiles.cut(&front, is_whole);
            let sides = tiles.bounds.len() as u32 - 1;
            let arrivals: u32 = self
                .tree
                .children(s)
                .iter()
                .map(|&c| self.arrivals_of(c as usize))
                .sum();
            self.sort_into_tiles(s, &mut tiles);
            let above = match front.parent {
                NONE => 0.0,
                parent => path[parent as usize],
            };
            let parent = match front.parent {
                NONE => NO_FRONT,
                parent => self.large[parent as usize],
            };
            let slot = self.tree.layout.slot[s];
            let first_flag = self.plan.num_flags;
            let steps = tiles.of_pivots;
            if !is_whole {
                self.plan.num_flags += sides * sides;
                self.plan.has_tiles |= steps > 1;
            }
            for (ti, tj) in tiles.in_order() {
                let number = (ti * sides + tj) as usize;
                let first_entry = self.plan.source.len() as u32;
                for &(e, row, column) in
                    &tiles.entries[tiles.entry_ptr[number]..tiles.entry_ptr[number + 1]]
                {
                    self.push_entry(e as usize, row, column);
                }
                let first_piece = self.plan.pieces.len() as u32 / piece::LEN;
                for p in &tiles.pieces[number] {
                    self.plan.pieces.extend(p);
                }
                let first_sum = self.plan.sums.len() as u32 / 2;
                tiles.addends[number].sort_by_key(|&(place, _)| place);
                let mut last = None;
                for &(place, addend) in &tiles.addends[number] {
                    if last != Some(place) {
                        self.plan
                            .sums
                            .extend([place, self.plan.addends.len() as u32]);
                        last = Some(place);
                    }
                    self.plan.addends.push(addend);
                }
                // The way from here to the root: what is left of the front comes first.
                let step = ti.min(tj).min(steps);
                let kind = match (step == steps, ti == tj) {
                    (true, _) => 0.0,
                    (_, false) => 0.4,
                    _ => 0.8,
                };
                let left = if is_whole {
                    SECONDS_A_TASK + f64::from(front.pivots) * SECONDS_A_PIVOT
                } else {
                    (f64::from(steps - step) + kind) * SECONDS_A_STEP
                };
                tasks.push((
                    above + left,
                    [
                        self.large[s],
                        if is_whole { task::WHOLE } else { ti | tj << 16 },
                        front.pivots,
                        front.below,
                        low(slot),
                        high(slot),
                        low(self.element[s]),
                        high(self.element[s]),
                        first_entry,
                        self.plan.source.len() as u32 - first_entry,
                        first_piece,
                        self.plan.pieces.len() as u32 / piece::LEN - first_piece,
                        front.start,
                        parent,
                        first_flag,
                        arrivals,
                        first_sum,
                        self.plan.sums.len() as u32 / 2 - first_sum,
                    ],
                ));
            }
        }
        // The end of the last sum's addends, and what threads without a sum read.
        let end = self.plan.addends.len() as u32;
        self.plan.sums.extend([0, end, 0, end]);
        self.plan.addends.push(0);
        // Stable: what a task waits for was made before it, and has no shorter way.
        tasks.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.plan.tasks = tasks.into_iter().flat_map(|(_, words)| words).collect();
    }

    /// How often front `s` tells its large parent of its element.
    fn arrivals_of(&self, s: usize) -> u32 {
        let front = &self.fronts[s];
        if self.is_large(s) && front.size() > self.limits.whole_front {
            front.below.div_ceil(TILE).pow(2)
        } else {
            1
        }
    }

    /// Sorts the entries of B and the elements of the children of a front into its tiles.
    fn sort_into_tiles(&self, s: usize, tiles: &mut Tiles) {
        let front = self.fronts[s];
        let sides = tiles.bounds.len() - 1;
        tiles.entry_ptr.clear();
        tiles.entry_ptr.resize(sides * sides + 1, 0);
        let cells = |e: usize| {
            let (row, column) = self.cell(&front, e);
            (
                tiles.tile_of[row as usize],
                tiles.tile_of[column as usize],
                row,
                column,
            )
        };
        let mut sorted = Vec::new();
        for e in self.entry_range(s) {
            let (ti, tj, row, column) = cells(e);
            let number = ti as usize * sides + tj as usize;
            sorted.push((
                number,
                (
                    e as u32,
                    row - tiles.bounds[ti as usize],
                    column - tiles.bounds[tj as usize],
                ),
            ));
        }
        sorted.sort_by_key(|&(number, _)| number);
        for &(number, _) in &sorted {
            tiles.entry_ptr[number + 1] += 1;
        }
        for number in 0..sides * sides {
            tiles.entry_ptr[number + 1] += tiles.entry_ptr[number];
        }
        tiles.entries.clear();
        tiles
            .entries
            .extend(sorted.into_iter().map(|(_, entry)| entry));

        for list in &mut tiles.pieces {
            list.clear();
        }
        tiles.pieces.resize(sides * sides, Vec::new());
        for list in &mut tiles.addends {
            list.clear();
        }
        tiles.addends.resize(sides * sides, Vec::new());
        let mut cuts = Vec::new();
        for &c in self.tree.children(s) {
            let child = self.fronts[c as usize];
            let element = self.element[c as usize];
            let below = child.below;
            let relative = &self.tree.relative[child.row_range()];
            let end = element + u64::from(below).pow(2);
            if below <= self.limits.gathered && end <= u64::from(u32::MAX) {
                for (q, &column) in relative.iter().enumerate() {
                    let tj = tiles.tile_of[column as usize] as usize;
                    let column = column - tiles.bounds[tj];
                    for (i, &row) in relative.iter().enumerate() {
                        let ti = tiles.tile_of[row as usize] as usize;
                        let row = row - tiles.bounds[ti];
                        let addend = element as u32 + q as u32 * below + i as u32;
                        tiles.addends[ti * sides + tj].push((row | column << 8, addend));
                    }
                }
                continue;
            }
            // Where the child's rows pass from one tile to the next: tile, first row, number of rows.
            cuts.clear();
            for (i, &row) in relative.iter().enumerate() {
                let tile = tiles.tile_of[row as usize];
                match cuts.last_mut() {
                    Some((last, _, count)) if *last == tile => *count += 1,
                    _ => cuts.push((tile, i as u32, 1u32)),
                }
            }
            for &(tj, column, columns) in &cuts {
                for &(ti, row, rows) in &cuts {
                    tiles.pieces[ti as usize * sides + tj as usize].push([
                        low(element),
                        high(element),
                        low(child.rows),
                        high(child.rows),
                        below,
                        row,
                        column,
                        rows | columns << 16,
                    ]);
                }
            }
        }
    }
}

/// A small front in the order of execution.
#[derive(Debug, Clone, Copy)]
struct Turn {
    front: u32,
    /// Arrivals before it.
    joins: u32,
    /// A run begins with it.
    begins: bool,
    /// Its run ends with it.
    ends: bool,
}

/// How a large front is cut, and what belongs to each tile.
#[derive(Debug, Default)]
struct Tiles {
    /// First row of each tile, and the front's end.
    bounds: Vec<u32>,
    /// Tile of each row.
    tile_of: Vec<u32>,
    /// Tiles of pivots.
    of_pivots: u32,
    entry_ptr: Vec<usize>,
    /// Number in the layout, row and column in the tile.
    entries: Vec<(u32, u32, u32)>,
    pieces: Vec<Vec<[u32; piece::LEN as usize]>>,
    /// Place in the tile, and number among the entries of all elements.
    addends: Vec<Vec<(u32, u32)>>,
}

impl Tiles {
    fn cut(&mut self, front: &Front, is_whole: bool) {
        let (k, m) = (front.pivots, front.size());
        self.bounds.clear();
        if is_whole {
            self.bounds.extend([0, m]);
            self.of_pivots = 1;
        } else {
            self.bounds.extend((0..k).step_by(TILE as usize));
            self.of_pivots = self.bounds.len() as u32;
            self.bounds.extend((k..m).step_by(TILE as usize));
            self.bounds.push(m);
        }
        self.tile_of.clear();
        for (tile, ends) in self.bounds.windows(2).enumerate() {
            self.tile_of.resize(ends[1] as usize, tile as u32);
        }
    }

    /// All tiles, each after those that it waits for.
    fn in_order(&self) -> Vec<(u32, u32)> {
        let sides = self.bounds.len() as u32 - 1;
        let mut order = Vec::with_capacity((sides * sides) as usize);
        for step in 0..self.of_pivots {
            order.push((step, step));
            order.extend((step + 1..sides).map(|t| (t, step)));
            order.extend((step + 1..sides).map(|t| (step, t)));
        }
        for tj in self.of_pivots..sides {
            order.extend((self.of_pivots..sides).map(|ti| (ti, tj)));
        }
        order
    }
}
