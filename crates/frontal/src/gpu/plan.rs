//! Who works on what, and in which order: the host's part of a factorization on the device.
//!
//! See `luge_gpu_kernels::frontal::plan` for the records that come out. Small fronts are put into runs that one warp walks
//! without asking others. A run follows, from each front, the child that takes longest; a subtree that takes less than
//! the way from one warp to another joins the run of its parent. Tasks on large fronts are handed out by the length of
//! the path to the root that begins with them, longest first (T. L. Adam, K. M. Chandy and J. R. Dickson, "A comparison
//! of list schedules for parallel processing systems", Comm. ACM 17, 1974).

use luge_gpu_kernels::frontal::plan::{
    Child, NONE as NO_FRONT, POSITIONS_A_WORD, Piece, SmallFront, Sum, Task, WHOLE, WHOLE_FRONT,
    cell, halves, place, small,
};
use luge_sparse::etree::NONE;

use super::classes::{FrontClass, Limits, Shape};
use super::cost::{self, DeviceCosts};
use super::placement::PlacedOnHost;
use super::tiles::Tiling;
use crate::layout::Layout;
use crate::shares::{both, collected, joined, mapped, shares, sort, split};
use crate::symbolic::Symbolic;
use crate::tree::{AssemblyTree, Front};

/// Where the entries of a tree come from, and how they are scaled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// Value of A of each entry of the pattern that the tree was made of.
    pub entries: &'a [u32],
    pub rows: &'a PlacedOnHost,
    pub cols: &'a PlacedOnHost,
}

/// The records of a plan, and how long its counters are.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub fronts: Vec<SmallFront>,
    pub children: Vec<Child>,
    pub starts: Vec<u32>,
    pub tasks: Vec<Task>,
    pub pieces: Vec<Piece>,
    pub sums: Vec<Sum>,
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
    tree: &'a AssemblyTree,
    layout: &'a Layout,
    fronts: &'a [Front],
    source: Source<'a>,
    limits: Limits,
    costs: &'a DeviceCosts,
    threads: usize,
    /// Who works on each front.
    classes: Vec<FrontClass>,
    /// Number of each front among the large ones, or [`NONE`].
    large: Vec<u32>,
    /// Place of each front's element.
    element: Vec<u64>,
    /// Entries of all elements.
    element_entries: u64,
    /// Seconds of the way from the beginning of each front to the root.
    path: Vec<f64>,
}

/// Sources and places of entries, written from front to back.
struct Entries<'a> {
    source: &'a mut [u32],
    places: &'a mut [u32],
    /// Number of the next one among all entries.
    next: u32,
    written: usize,
}

impl Entries<'_> {
    fn push(&mut self, [source, place]: [u32; 2]) {
        self.source[self.written] = source;
        self.places[self.written] = place;
        self.written += 1;
        self.next += 1;
    }
}

/// What comes of some consecutive small fronts.
struct SmallShare<'a> {
    turns: std::ops::Range<usize>,
    fronts: &'a mut [SmallFront],
    children: &'a mut [Child],
    first_child: u32,
    entries: Entries<'a>,
}

/// What comes of some consecutive large fronts. Offsets are within the share.
#[derive(Default)]
struct LargeShare {
    /// Seconds of the way from the beginning of each task to the root.
    ways: Vec<f64>,
    tasks: Vec<Task>,
    pieces: Vec<Piece>,
    sums: Vec<Sum>,
    addends: Vec<u32>,
    num_flags: u32,
    has_tiles: bool,
}

/// How many of each come before a share of large fronts.
#[derive(Clone, Copy, Default)]
struct Offsets {
    tasks: u32,
    pieces: u32,
    flags: u32,
    sums: u32,
    addends: u32,
}

/// One list of all shares, which lose it.
fn all<T: Copy + Default + Send + Sync>(
    shares: &mut [(u32, LargeShare)],
    list: fn(&mut LargeShare) -> &mut Vec<T>,
) -> Vec<T> {
    let lists = shares
        .iter_mut()
        .map(|(_, share)| std::mem::take(list(share)));
    joined(lists.collect())
}

/// Sorts numbers from 0 on by seconds that are not negative, the longest first; of equal ones the lowest number first.
fn longest_first(
    threads: usize,
    seconds: impl Fn(usize) -> f64 + Sync + Send,
    len: usize,
) -> Vec<u32> {
    let key = |i: usize| u128::from(cost::longest_first_key(seconds(i))) << 32 | i as u128;
    let mut keys = collected(threads, len, key);
    sort(threads, &mut keys);
    keys.into_iter().map(|key| key as u32).collect()
}

/// What comes of the small fronts: themselves, their children, and those that runs begin with.
type SmallRecords = (Vec<SmallFront>, Vec<Child>, Vec<u32>);

impl Plan {
    /// Plans the factorization of a tree. The records are the same for any number of threads.
    pub fn new(
        symbolic: &Symbolic,
        source: Source<'_>,
        limits: Limits,
        costs: &DeviceCosts,
        threads: usize,
    ) -> Self {
        let planner = Planner::new(symbolic, source, limits, costs, threads);
        let Symbolic { tree, layout, .. } = symbolic;
        let numbers = 0..tree.fronts().len() as u32;
        let of_large: Vec<u32> = numbers.filter(|&s| planner.is_large(s as usize)).collect();
        let num_entries = |&s: &u32| planner.entry_range(s as usize).len();
        let of_large_fronts: usize = of_large.iter().map(num_entries).sum();
        let all = layout.source.len();
        let (mut sources, mut places) = (vec![0; all], vec![0; all]);
        let of_small_fronts = all - of_large_fronts;
        let (small_sources, large_sources) = sources.split_at_mut(of_small_fronts);
        let (small_places, large_places) = places.split_at_mut(of_small_fronts);
        let (of_small, of_large_fronts) = both(
            threads,
            || planner.plan_small(&planner.order_small(), small_sources, small_places),
            || planner.plan_large(&of_large, large_sources, large_places),
        );
        let (fronts, children, starts) = of_small;
        Self {
            fronts,
            children,
            starts,
            source: sources,
            places,
            num_large: of_large.len() as u32,
            element_entries: planner.element_entries,
            ..of_large_fronts
        }
    }
}

impl<'a> Planner<'a> {
    fn new(
        symbolic: &'a Symbolic,
        source: Source<'a>,
        limits: Limits,
        costs: &'a DeviceCosts,
        threads: usize,
    ) -> Self {
        limits.check();
        let Symbolic { tree, layout, .. } = symbolic;
        let fronts = tree.fronts();
        let classes = FrontClass::of_tree(tree, &limits);
        let mut large = vec![NONE; fronts.len()];
        let are_large = classes
            .iter()
            .enumerate()
            .filter(|(_, class)| class.is_large());
        for (number, (s, _)) in are_large.enumerate() {
            large[s] = number as u32;
        }
        let mut element = Vec::with_capacity(fronts.len());
        let mut element_entries = 0;
        for front in fronts {
            element.push(element_entries);
            element_entries += u64::from(front.below).pow(2);
        }
        let mut planner = Self {
            tree,
            layout,
            fronts,
            source,
            limits,
            costs,
            threads,
            classes,
            large,
            element,
            element_entries,
            path: Vec::new(),
        };
        planner.path = planner.paths();
        planner
    }
}

impl Planner<'_> {
    fn is_large(&self, s: usize) -> bool {
        self.classes[s].is_large()
    }

    /// Row and column in the front of entry `e` of the layout.
    fn cell(&self, front: &Front, e: usize) -> (u32, u32) {
        let (k, c, m) = (front.pivots, front.below, front.size());
        let place = self.layout.target[e];
        if place < m * k {
            (place % m, place / m)
        } else {
            let place = place - m * k;
            (place / c, k + place % c)
        }
    }

    /// Source and place of entry `e` of the layout, which is in this row and column of a front, and in `row` and
    /// `column` of a tile of it.
    fn entry(&self, front: &Front, e: usize, cell: (u32, u32), row: u32, column: u32) -> [u32; 2] {
        let position = |i: u32| {
            if i < front.pivots {
                (front.start + i) as usize
            } else {
                self.tree.rows[front.rows as usize + (i - front.pivots) as usize] as usize
            }
        };
        let Source {
            entries,
            rows,
            cols,
        } = self.source;
        let of_row = rows.exponents[position(cell.0)];
        let of_column = cols.exponents[position(cell.1)];
        let source = entries[self.layout.source[e] as usize];
        [source, place(row, column, of_row + of_column)]
    }

    fn entry_range(&self, s: usize) -> std::ops::Range<usize> {
        let ptr = &self.layout.entry_ptr;
        ptr[s] as usize..ptr[s + 1] as usize
    }

    /// Describes the small fronts.
    fn plan_small(&self, order: &[Turn], sources: &mut [u32], places: &mut [u32]) -> SmallRecords {
        let mut position = vec![NONE; self.fronts.len()];
        for (at, turn) in order.iter().enumerate() {
            position[turn.front as usize] = at as u32;
        }
        let ranges = shares(self.threads, order.len(), |at| {
            // A front and its entries.
            at as u64 * 16
        });
        let counts = mapped(ranges.clone(), |turns| {
            let mut counts = [0; 2];
            for turn in &order[turns] {
                let s = turn.front as usize;
                counts[0] += self.entry_range(s).len();
                counts[1] += self.fronts[s].num_children as usize;
            }
            counts
        });
        let num_children: usize = counts.iter().map(|counts| counts[1]).sum();
        let mut fronts = vec![SmallFront::default(); order.len()];
        let mut children = vec![Child::default(); num_children];
        let mut of_fronts =
            split(&mut fronts, ranges.iter().map(ExactSizeIterator::len)).into_iter();
        let mut of_children = split(&mut children, counts.iter().map(|c| c[1])).into_iter();
        let mut of_sources = split(sources, counts.iter().map(|c| c[0])).into_iter();
        let mut of_places = split(places, counts.iter().map(|c| c[0])).into_iter();
        let (mut first_entry, mut first_child) = (0, 0);
        let mut parts = Vec::with_capacity(ranges.len());
        for (turns, [num_entries, num_children]) in ranges.into_iter().zip(counts) {
            let pieces = (
                of_fronts.next(),
                of_children.next(),
                of_sources.next(),
                of_places.next(),
            );
            let (Some(fronts), Some(children), Some(source), Some(places)) = pieces else {
                unreachable!("a piece for each share");
            };
            parts.push(SmallShare {
                turns,
                fronts,
                children,
                first_child,
                entries: Entries {
                    source,
                    places,
                    next: first_entry,
                    written: 0,
                },
            });
            first_entry += num_entries as u32;
            first_child += num_children as u32;
        }
        mapped(parts, |share| self.describe_small(order, &position, share));
        // Those with the longest way to the root first.
        let begins = order.iter().enumerate().filter(|(_, turn)| turn.begins);
        let starts: Vec<u32> = begins.map(|(at, _)| at as u32).collect();
        let way = |i: usize| self.path[order[starts[i] as usize].front as usize];
        let by_way = longest_first(self.threads, way, starts.len());
        let starts = by_way.into_iter().map(|i| starts[i as usize]).collect();
        (fronts, children, starts)
    }

    /// Describes small fronts; `order` are those of all shares, `position` their places in it.
    fn describe_small(&self, order: &[Turn], position: &[u32], share: SmallShare<'_>) {
        let SmallShare {
            turns,
            fronts,
            children: described_children,
            mut first_child,
            mut entries,
        } = share;
        let mut described_children = described_children.iter_mut();
        // Whether the element of the front before `at` is kept for that at `at`.
        let is_kept_before = |at: usize| {
            let before = at.checked_sub(1).map(|before| order[before]);
            before.is_some_and(|before| {
                let parent = self.fronts[before.front as usize].parent;
                !before.ends && order[at].front == parent && order[at].joins == 0
            })
        };
        for (at, described) in turns.zip(fronts) {
            let turn = order[at];
            let s = turn.front as usize;
            let front = self.fronts[s];
            let kept = is_kept_before(at);
            let first_entry = entries.next;
            for e in self.entry_range(s) {
                let cell = self.cell(&front, e);
                entries.push(self.entry(&front, e, cell, cell.0, cell.1));
            }
            let is_kept = |&c: &u32| kept && position[c as usize] + 1 == at as u32;
            let children = self.tree.children(s).iter().copied();
            let others = self.tree.children(s).iter().copied();
            let in_order = children
                .filter(is_kept)
                .chain(others.filter(|c| !is_kept(c)));
            // The zip asks for a record last, and so takes none in vain.
            for (c, described) in in_order.zip(described_children.by_ref()) {
                let child = &self.fronts[c as usize];
                let mut positions = [0; _];
                for (i, &row) in self.tree.relative[child.row_range()].iter().enumerate() {
                    let i = i as u32;
                    positions[(i / POSITIONS_A_WORD) as usize] |=
                        row << (8 * (i % POSITIONS_A_WORD));
                }
                *described = Child {
                    element: self.element[c as usize],
                    below: child.below,
                    positions,
                };
            }
            let parent = front.parent as usize;
            let mut flags = if kept { small::HAS_KEPT_CHILD } else { 0 };
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
            } else if !is_kept_before(at + 1) {
                flags |= small::WRITES_ELEMENT;
            }
            *described = SmallFront {
                sizes: halves(front.pivots, front.below),
                flags,
                start: front.start,
                joins: turn.joins,
                slot: self.layout.slot[s],
                element: self.element[s],
                entries: first_entry,
                num_entries: entries.next - first_entry,
                children: first_child,
                num_children: front.num_children,
                parent: goes_on,
                spare: [0; _],
            };
            first_child += front.num_children;
        }
    }

    /// Seconds of a front on the way to the root.
    fn seconds(&self, s: usize) -> f64 {
        let front = Shape::from(&self.fronts[s]);
        self.costs.front_seconds(front, self.classes[s])
    }

    /// Seconds of the way from the beginning of each front to the root.
    fn paths(&self) -> Vec<f64> {
        let mut path = vec![0.0; self.fronts.len()];
        for (s, front) in self.fronts.iter().enumerate().rev() {
            let above = match front.parent {
                NONE => 0.0,
                parent => path[parent as usize],
            };
            path[s] = above + self.seconds(s);
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
        for s in 0..fronts.len() {
            if self.is_large(s) {
                continue;
            }
            let own = self.seconds(s);
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
                    if absorbed + work[c] <= self.costs.join {
                        absorbed += work[c];
                        is_absorbed[c] = true;
                    } else {
                        begin = begin.max(finish[c] + self.costs.join);
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

    /// Makes tasks of the large fronts, which are `large`; where entries come from and go to is written to `sources` and
    /// `places`.
    fn plan_large(&self, large: &[u32], sources: &mut [u32], places: &mut [u32]) -> Plan {
        let rows = |s: &u32| u64::from(self.fronts[*s as usize].size());
        let mut before = Vec::with_capacity(large.len() + 1);
        before.push(0);
        for s in large {
            // As a front costs something whatever its size.
            before.push(before[before.len() - 1] + 64 + rows(s));
        }
        let ranges = shares(self.threads, large.len(), |i| before[i]);
        let num_entries = |range: &std::ops::Range<usize>| -> usize {
            let fronts = large[range.clone()].iter();
            fronts.map(|&s| self.entry_range(s as usize).len()).sum()
        };
        let counts: Vec<usize> = ranges.iter().map(num_entries).collect();
        let mut next = (self.layout.source.len() - sources.len()) as u32;
        let of_sources = split(sources, counts.iter().copied());
        let of_places = split(places, counts.iter().copied());
        let mut parts = Vec::with_capacity(ranges.len());
        for ((range, source), places) in ranges.into_iter().zip(of_sources).zip(of_places) {
            let count = source.len() as u32;
            let entries = Entries {
                source,
                places,
                next,
                written: 0,
            };
            parts.push((range, entries));
            next += count;
        }
        let parts = mapped(parts, |(range, entries)| {
            self.describe_large(&large[range], entries)
        });
        self.put_together(parts)
    }

    /// Makes tasks of some large fronts.
    fn describe_large(&self, large: &[u32], mut entries: Entries<'_>) -> LargeShare {
        let mut share = LargeShare::default();
        let mut tiles = FrontTiles::default();
        let mut sums = SumsByPlace::default();
        for &s in large {
            let s = s as usize;
            let front = self.fronts[s];
            let (shape, class) = (Shape::from(&front), self.classes[s]);
            let is_whole = class == FrontClass::Whole;
            let tiling = class.tiling(shape);
            let arrivals: u32 = self
                .tree
                .children(s)
                .iter()
                .map(|&c| self.arrivals_of(c as usize))
                .sum();
            self.sort_into_tiles(s, &tiling, &mut tiles);
            let above = match front.parent {
                NONE => 0.0,
                parent => self.path[parent as usize],
            };
            let parent = match front.parent {
                NONE => NO_FRONT,
                parent => self.large[parent as usize],
            };
            let slot = self.layout.slot[s];
            let first_flag = share.num_flags;
            if !is_whole {
                share.num_flags += tiling.len();
                share.has_tiles |= tiling.steps() > 1;
            }
            for tile in tiling.tiles() {
                let number = tile.number as usize;
                let first_entry = entries.next;
                for &entry in &tiles.entries[tiles.entry_ptr[number]..tiles.entry_ptr[number + 1]] {
                    entries.push(entry);
                }
                let first_piece = share.pieces.len() as u32;
                share.pieces.extend_from_slice(&tiles.pieces[number]);
                let first_sum = share.sums.len() as u32;
                sums.collect(&tiles.addends[number], &mut share.sums, &mut share.addends);
                // The way from here to the root: what is left of the front comes first.
                let left = self.costs.rest_seconds(shape, class, tile);
                share.ways.push(above + left);
                share.tasks.push(Task {
                    front: self.large[s],
                    tile: if is_whole {
                        WHOLE
                    } else {
                        halves(tile.row, tile.column)
                    },
                    pivots: front.pivots,
                    below: front.below,
                    slot,
                    element: self.element[s],
                    entries: first_entry,
                    num_entries: entries.next - first_entry,
                    pieces: first_piece,
                    num_pieces: share.pieces.len() as u32 - first_piece,
                    start: front.start,
                    parent,
                    flags: first_flag,
                    arrivals,
                    sums: first_sum,
                    num_sums: share.sums.len() as u32 - first_sum,
                });
            }
        }
        share
    }

    /// Puts shares one after another, and their tasks in order.
    fn put_together(&self, shares: Vec<LargeShare>) -> Plan {
        let mut plan = Plan::default();
        let mut starts = Vec::with_capacity(shares.len());
        let mut next = Offsets::default();
        for share in shares {
            let start = next;
            next.tasks += share.tasks.len() as u32;
            next.pieces += share.pieces.len() as u32;
            next.flags += share.num_flags;
            next.sums += share.sums.len() as u32;
            next.addends += share.addends.len() as u32;
            plan.has_tiles |= share.has_tiles;
            starts.push((start, share));
        }
        plan.num_flags = next.flags;
        // Offsets within a share become those among all.
        let mut shares = mapped(starts, |(start, mut share)| {
            for task in &mut share.tasks {
                task.pieces += start.pieces;
                task.flags += start.flags;
                task.sums += start.sums;
            }
            for sum in &mut share.sums {
                sum.first += start.addends;
            }
            (start.tasks, share)
        });
        plan.pieces = all(&mut shares, |share| &mut share.pieces);
        plan.sums = all(&mut shares, |share| &mut share.sums);
        plan.addends = all(&mut shares, |share| &mut share.addends);
        // The end of the last sum's addends, and what threads without a sum read.
        let first = next.addends;
        plan.sums.extend([Sum { place: 0, first }; 2]);
        plan.addends.push(0);
        // What a task waits for was made before it, and has no shorter way.
        let place = |t: usize| {
            let number = shares.partition_point(|&(first, _)| first as usize <= t) - 1;
            let (first, share) = &shares[number];
            (share, t - *first as usize)
        };
        let way = |t: usize| {
            let (share, at) = place(t);
            share.ways[at]
        };
        let by_way = longest_first(self.threads, way, next.tasks as usize);
        let in_order = |at: usize| {
            let (share, at) = place(by_way[at] as usize);
            share.tasks[at]
        };
        plan.tasks = collected(self.threads, by_way.len(), in_order);
        plan
    }

    /// How often front `s` tells its large parent of its element.
    fn arrivals_of(&self, s: usize) -> u32 {
        match self.classes[s] {
            FrontClass::Small | FrontClass::Whole => 1,
            FrontClass::Tiled => {
                let tiling = FrontClass::Tiled.tiling(Shape::from(&self.fronts[s]));
                tiling.num_element_tiles()
            }
        }
    }

    /// Sorts the entries of B and the elements of the children of a front into its tiles.
    fn sort_into_tiles(&self, s: usize, tiling: &Tiling, tiles: &mut FrontTiles) {
        let front = self.fronts[s];
        let sides = tiling.sides() as usize;
        tiles.tile_of.clear();
        for t in 0..tiling.sides() {
            tiles.tile_of.resize(tiling.range(t).end as usize, t);
        }
        tiles.entry_ptr.clear();
        tiles.entry_ptr.resize(sides * sides + 1, 0);
        tiles.unsorted.clear();
        for e in self.entry_range(s) {
            let (row, column) = self.cell(&front, e);
            let (ti, tj) = (tiles.tile_of[row as usize], tiles.tile_of[column as usize]);
            let number = ti as usize * sides + tj as usize;
            let (i, j) = (row - tiling.start(ti), column - tiling.start(tj));
            let entry = self.entry(&front, e, (row, column), i, j);
            tiles.unsorted.push((number as u32, entry));
            tiles.entry_ptr[number + 1] += 1;
        }
        for number in 0..sides * sides {
            tiles.entry_ptr[number + 1] += tiles.entry_ptr[number];
        }
        if sides > 1 {
            tiles.unsorted.sort_by_key(|&(number, _)| number);
        }
        tiles.entries.clear();
        let entries = tiles.unsorted.iter().map(|&(_, entry)| entry);
        tiles.entries.extend(entries);

        if tiles.pieces.len() < sides * sides {
            tiles.pieces.resize(sides * sides, Vec::new());
            tiles.addends.resize(sides * sides, Vec::new());
        }
        for list in &mut tiles.pieces[..sides * sides] {
            list.clear();
        }
        for list in &mut tiles.addends[..sides * sides] {
            list.clear();
        }
        let mut cuts = Vec::new();
        for &c in self.tree.children(s) {
            let child = self.fronts[c as usize];
            let element = self.element[c as usize];
            let below = child.below;
            let relative = &self.tree.relative[child.row_range()];
            let end = element + u64::from(below).pow(2);
            if below <= self.limits.gathered && end <= u64::from(u32::MAX) {
                for (q, &column) in relative.iter().enumerate() {
                    let tj = tiles.tile_of[column as usize];
                    let column = column - tiling.start(tj);
                    for (i, &row) in relative.iter().enumerate() {
                        let ti = tiles.tile_of[row as usize];
                        let row = row - tiling.start(ti);
                        let addend = element as u32 + q as u32 * below + i as u32;
                        tiles.addends[ti as usize * sides + tj as usize]
                            .push(((row, column), addend));
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
                    tiles.pieces[ti as usize * sides + tj as usize].push(Piece {
                        element,
                        relative: child.rows,
                        below,
                        row,
                        column,
                        sizes: halves(rows, columns),
                    });
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

/// Rows of a tile at most, and columns.
const TILE_ROWS: usize = WHOLE_FRONT as usize + 1;

/// Row and column in the tile, and number among the entries of all elements.
type Addend = ((u32, u32), u32);

/// Sorts addends by the place that they are added to.
struct SumsByPlace {
    /// A bit for each place that has addends, column by column.
    has_addends: [u64; (TILE_ROWS * TILE_ROWS).div_ceil(64)],
    /// Their number, and then where the next goes.
    next: Vec<u32>,
}

impl Default for SumsByPlace {
    fn default() -> Self {
        Self {
            has_addends: [0; (TILE_ROWS * TILE_ROWS).div_ceil(64)],
            next: vec![0; TILE_ROWS * TILE_ROWS],
        }
    }
}

impl SumsByPlace {
    /// Adds the sums of a tile, ascending by column and row, and their addends, which keep their order in each.
    fn collect(&mut self, unsorted: &[Addend], sums: &mut Vec<Sum>, addends: &mut Vec<u32>) {
        let number = |(row, column): (u32, u32)| column as usize * TILE_ROWS + row as usize;
        for &(cell, _) in unsorted {
            let number = number(cell);
            self.has_addends[number / 64] |= 1 << (number % 64);
            self.next[number] += 1;
        }
        let mut end = addends.len() as u32;
        for (word, bits) in self.has_addends.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let number = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let (row, column) = (number % TILE_ROWS, number / TILE_ROWS);
                sums.push(Sum {
                    place: cell(row as u32, column as u32),
                    first: end,
                });
                end += std::mem::replace(&mut self.next[number], end);
            }
        }
        addends.resize(end as usize, 0);
        for &(cell, addend) in unsorted {
            let next = &mut self.next[number(cell)];
            addends[*next as usize] = addend;
            *next += 1;
        }
        for &(cell, _) in unsorted {
            self.next[number(cell)] = 0;
        }
        self.has_addends.fill(0);
    }
}

/// What belongs to each tile of a large front.
#[derive(Debug, Default)]
struct FrontTiles {
    /// Row of tiles of each row.
    tile_of: Vec<u32>,
    entry_ptr: Vec<usize>,
    /// Sources and places, tile by tile.
    entries: Vec<[u32; 2]>,
    /// The same with the number of the tile, in the order of the layout.
    unsorted: Vec<(u32, [u32; 2])>,
    pieces: Vec<Vec<Piece>>,
    addends: Vec<Vec<Addend>>,
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use luge_kernel::record::Record;
    use luge_sparse::{ColPerm, CompressedPattern, Permutation, RowPerm, Scaling};
    use luge_testkit::strategies::pattern_from;

    use super::super::placement::Placement;
    use super::*;
    use crate::tree::TreeOptions;

    pub(in crate::gpu) const ROOT: usize = usize::MAX;

    /// A tree of fronts with these parents and numbers of pivots, in postorder. Each has a row below for the first pivot
    /// of its parent.
    pub(in crate::gpu) fn tree_of(fronts: &[(usize, u32)]) -> Symbolic {
        let (mut starts, mut n) = (Vec::new(), 0);
        for (_, pivots) in fronts {
            starts.push(n);
            n += pivots;
        }
        let mut entries = Vec::new();
        for (&(parent, pivots), &start) in fronts.iter().zip(&starts) {
            let rows = (start..start + pivots).chain(starts.get(parent).copied());
            let rows: Vec<u32> = rows.collect();
            entries.extend(rows.iter().flat_map(|&i| rows.iter().map(move |&j| (i, j))));
        }
        let options = TreeOptions {
            zero_fraction: 0.0,
            tiny_zero_fraction: 0.0,
            ..TreeOptions::default()
        };
        let symbolic = Symbolic::analyze(&pattern_from(n as usize, entries), &options).unwrap();
        let found = symbolic.tree().fronts().iter();
        let found: Vec<_> = found.map(|front| (front.parent, front.pivots)).collect();
        let parent = |parent| if parent == ROOT { NONE } else { parent as u32 };
        let expected = fronts.iter().map(|&(p, pivots)| (parent(p), pivots));
        assert_eq!(found, expected.collect::<Vec<_>>());
        symbolic
    }

    /// What `of` makes of a tree of a matrix that is neither permuted nor scaled.
    fn placed<R>(symbolic: &Symbolic, of: impl FnOnce(Source<'_>) -> R) -> R {
        let tree = symbolic.tree();
        let n = tree.n();
        let coupling = CompressedPattern::new(n, vec![0; n + 1], Vec::new()).unwrap();
        let placement = Placement {
            row_perm: &RowPerm(Permutation::identity(n)),
            col_perm: &ColPerm(Permutation::identity(n)),
            scaling: &Scaling::identity(n, n),
            entries: &(0..tree.nnz() as u32).collect::<Vec<_>>(),
            block_ptr: &[0, n],
            coupling: &Arc::new(coupling),
            coupling_entries: &[],
        };
        let (rows, cols) = placement.placed(tree.perm(), 1);
        of(Source {
            entries: placement.entries,
            rows: &rows,
            cols: &cols,
        })
    }

    /// A join takes as long as two small fronts of one pivot, and some.
    const COSTS: DeviceCosts = DeviceCosts {
        small_front: 4.0,
        small_pivot: 1.5,
        join: 12.0,
        whole_front: 30.0,
        whole_pivot: 1.0,
        step: 200.0,
        tile: 10.0,
        ..cost::tests::COSTS
    };

    #[test]
    fn ways_to_the_root_add_up() {
        // A small front below one that is worked on as a whole, that below one of three tiles of pivots; a small root.
        let tree = tree_of(&[(1, 2), (2, 30), (ROOT, 130), (ROOT, 4)]);
        let path = placed(&tree, |source| {
            Planner::new(&tree, source, Limits::default(), &COSTS, 1).path
        });
        let tiles = 30.0 + 3.0 * 200.0;
        let whole = 30.0 + 30.0;
        let small = |pivots: f64| 4.0 + pivots * 1.5;
        let expected = [tiles + whole + small(2.0), tiles + whole, tiles, small(4.0)];
        assert_eq!(path, expected);
    }

    /// Small fronts in their order: arrivals before each, whether a run begins with it, and whether one ends.
    fn turns(fronts: &[(usize, u32)]) -> Vec<(u32, u32, bool, bool)> {
        let tree = tree_of(fronts);
        let order = placed(&tree, |source| {
            Planner::new(&tree, source, Limits::default(), &COSTS, 1).order_small()
        });
        let turn = |t: &Turn| (t.front, t.joins, t.begins, t.ends);
        order.iter().map(turn).collect()
    }

    #[test]
    fn short_subtrees_join_the_run_of_their_parent() {
        // The first front takes 16, the others 5.5 each: two of those are shorter than the 12 of a join.
        assert_eq!(
            turns(&[(4, 8), (4, 1), (4, 1), (4, 1), (ROOT, 2)]),
            [
                (3, 0, true, true),
                (1, 0, true, false),
                (2, 0, false, false),
                (0, 0, false, false),
                (4, 2, false, true),
            ]
        );
        // Five pivots take 11.5, six 13.
        assert_eq!(
            turns(&[(2, 5), (2, 6), (ROOT, 2)]),
            [
                (0, 0, true, false),
                (1, 0, false, false),
                (2, 0, false, true)
            ]
        );
        assert_eq!(
            turns(&[(2, 7), (2, 6), (ROOT, 2)]),
            [(1, 0, true, true), (0, 0, true, false), (2, 2, false, true)]
        );
        // With the front below, that of two pivots takes 12.5.
        assert_eq!(
            turns(&[(1, 1), (4, 2), (3, 6), (4, 2), (ROOT, 2)]),
            [
                (0, 0, true, false),
                (1, 0, false, true),
                (2, 0, true, false),
                (3, 0, false, false),
                (4, 2, false, true),
            ]
        );
    }

    #[test]
    fn a_run_follows_the_child_that_ends_last() {
        // That of 15 pivots ends after 26.5. Front 2 begins 12 after its children, which take 13 each, and ends after 32.
        assert_eq!(
            turns(&[(2, 6), (2, 6), (4, 2), (4, 15), (ROOT, 2)]),
            [
                (3, 0, true, true),
                (1, 0, true, true),
                (0, 0, true, false),
                (2, 2, false, false),
                (4, 2, false, true),
            ]
        );
        // Front 3 begins after all its children, which take 16, 5.5 and 5.5, and ends after 34.
        assert_eq!(
            turns(&[(3, 8), (3, 1), (3, 1), (5, 2), (5, 15), (ROOT, 2)]),
            [
                (4, 0, true, true),
                (1, 0, true, false),
                (2, 0, false, false),
                (0, 0, false, false),
                (3, 0, false, false),
                (5, 2, false, true),
            ]
        );
    }

    #[test]
    fn those_with_the_longest_way_come_first() {
        let limits = Limits {
            small_front: 4,
            ..Limits::default()
        };
        // Small fronts of 2, 3 and 1 pivots below whole ones of 20, 40 and 10, and one of two tiles of pivots and one
        // of rows below them; the root has two tiles.
        let tree = tree_of(&[
            (1, 2),
            (7, 20),
            (3, 3),
            (7, 40),
            (5, 1),
            (7, 10),
            (7, 96),
            (ROOT, 100),
        ]);
        let plan = placed(&tree, |source| Plan::new(&tree, source, limits, &COSTS, 1));
        assert_eq!(plan.starts, [1, 0, 2]);
        let tile = |s: u32, ti: u32, tj: u32| (s, halves(ti, tj));
        // 430 from the beginning of the root on; 200 from one diagonal tile to the next, half of it beside the first.
        let expected = [
            tile(3, 0, 0),
            tile(3, 1, 0),
            tile(3, 2, 0),
            tile(3, 0, 1),
            tile(3, 0, 2),
            tile(3, 1, 1),
            tile(3, 2, 1),
            tile(3, 1, 2),
            (1, WHOLE),
            (0, WHOLE),
            (2, WHOLE),
            tile(3, 2, 2),
            tile(4, 0, 0),
            tile(4, 1, 0),
            tile(4, 0, 1),
            tile(4, 1, 1),
        ];
        let tasks = plan.tasks.iter().map(|task| (task.front, task.tile));
        let tasks: Vec<(u32, u32)> = tasks.collect();
        assert_eq!(tasks, expected);
        assert!(plan.has_tiles);
        assert_eq!((plan.num_large, plan.num_flags), (5, 9 + 4));
        assert_eq!(plan.element_entries, 7);
    }

    #[test]
    fn an_offset_beyond_32_bits_is_two_words() {
        // Factors of more than 2³² entries fit into a device.
        let piece = Piece {
            element: 5 << 32 | 7,
            relative: 3,
            ..Piece::default()
        };
        assert_eq!(Piece::as_words(&[piece])[..4], [7, 5, 3, 0]);
    }

    #[test]
    fn addends_are_sorted_by_place() {
        let mut by_place = SumsByPlace::default();
        let sum = |(row, column), first| Sum {
            place: cell(row, column),
            first,
        };
        let (mut sums, mut addends) = (vec![sum((0, 0), 0)], vec![7]);
        let last = (WHOLE_FRONT, WHOLE_FRONT);
        let unsorted = [(last, 1), ((3, 2), 2), ((9, 0), 3), ((3, 2), 4)];
        // Twice: nothing of the first tile is left.
        by_place.collect(&unsorted, &mut sums, &mut addends);
        by_place.collect(&unsorted[..2], &mut sums, &mut addends);
        let expected = [
            sum((0, 0), 0),
            sum((9, 0), 1),
            sum((3, 2), 2),
            sum(last, 4),
            sum((3, 2), 5),
            sum(last, 6),
        ];
        assert_eq!(sums, expected);
        assert_eq!(addends, [7, 3, 2, 4, 1, 2, 1]);
    }
}
