//! Where the generated elements are, and for whom who writes one has to wait: memory is used again once an element was
//! added to the parent.
//!
//! Elements that warps read and write, and those that are added entry by entry, have places that the tree and the limits
//! alone decide: a small front's element lies where those of its subtree began, which nobody reads any more when it is
//! written. The others are in a pool behind them.
//!
//! # The pool
//!
//! An element is needed from the task that writes its first tile to the last one on the parent. Tasks stand in the order
//! of the longest path that is left, which keeps most blocks at work and has a whole level of the tree in memory at once.
//! Where that takes more than a quarter of the factors (small ones of symmetric matrices: half), the tree is cut into *units*, subtrees or single fronts above
//! them: tasks of one unit come before those of the next, children of one front by J. W. H. Liu's rule ("On the storage
//! requirement in the out-of-core multifrontal method for sparse factorization", ACM Trans. Math. Softw. 12, 1986). The
//! cuts are as high in the tree as the memory allows; the fronts there have enough tiles to keep all blocks at work. Within
//! a unit wide fronts come after all others, in a launch of their own.
//!
//! Elements of even depth lie at one end of the pool and those of odd depth at the other, each in the first gap, at the
//! other end where there is no room between. In a postorder both ends are stacks without gaps: when an element is pushed,
//! all deeper ones of its parity are gone.
//!
//! Of a part of a tree, elements of open roots stay where they are, and those that are given are there from the start: a
//! part with such has a place for each of its elements.
//!
//! Elements that are kept from one factorization to the next have places of their own between the two. If the fronts of a part are
//! factorized with the others as they are, its elements have the places that they have in the whole.
//!
//! # Waits
//!
//! Who writes over an element waits until all tasks that read it have it in their tiles. These come earlier in the order,
//! as does all that they wait for, so somebody works on them. Where the reader is below the writer nobody needs to wait:
//! the writer has waited for its children. While one block waits others work, but in the end nobody may be left who does.
//! Small factors ([`Limits::apart`]) take no part in this, and where there is room some hundreds of tasks come between
//! reader and writer.
//!
//! All of it is decided front by front, in n·log n for n fronts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use luge_gpu_kernels::frontal::plan::element_entries;
use luge_sparse::etree::NONE;
use rayon::prelude::*;

use crate::gpu::classes::{APART, FrontClass, Limits, Shape};
use crate::gpu::cost::{DeviceCosts, longest_first_key};
use crate::portion::Portion;
use crate::shares::WORTH_WAKING;
use crate::storage::Storage;
use crate::tree::AssemblyTree;

/// The pool may have the entries of the factors divided by this,
const FACTORS_A_POOL: u64 = 4;
/// or by this for factors of a symmetric matrix with at most [`APART`] entries: there it saves waits.
const SMALL_FACTORS_A_POOL: u64 = 2;

/// Parts of that, in eighths, to which units are tried to be confined until the pool has no more.
const ATTEMPTS: [u64; 3] = [8, 7, 6];

/// How many tasks at least come between the last that reads an element and the first that writes in its place, in the
/// attempts for an order. Of an H200's blocks about 300 work at once.
const LAGS: [u64; 4] = [1200, 600, 300, 150];

/// Sizes of the pool that are tried for an order, and a step from one to the next as a part of the least.
const SIZES: u64 = 12;
const SIZE_STEPS: u64 = 100;

/// How often each front may be looked at to find units.
const LOOKS: usize = 64;

/// Where elements are, and what follows from it.
#[derive(Debug, Default, PartialEq)]
pub(in crate::gpu) struct Elements {
    /// Place of each front's element.
    pub place: Vec<u64>,
    /// Entries of all memory for elements.
    pub entries: u64,
    /// Unit of each front.
    pub unit: Vec<u32>,
    /// The fronts whose tasks have to have read before an element is written: those of front s are
    /// `awaited[await_ptr[s]..await_ptr[s + 1]]`.
    pub await_ptr: Vec<u32>,
    pub awaited: Vec<u32>,
    /// Where the elements end that may be added entry by entry.
    pub gathered: u64,
}

impl Elements {
    /// Bytes on the host.
    pub fn bytes(&self) -> u64 {
        let Self {
            place,
            unit,
            await_ptr,
            awaited,
            entries: _,
            gathered: _,
        } = self;
        (8 * place.len() + 4 * (unit.len() + await_ptr.len() + awaited.len())) as u64
    }

    /// Of a tree, in which some elements are kept if `is_kept` says so of each front. With `threads` above 1, those of the
    /// current rayon pool share the work; the places are the same.
    pub fn new<S: Storage>(
        tree: &AssemblyTree,
        classes: &[FrontClass],
        (limits, costs): (&Limits, &DeviceCosts),
        is_kept: Option<&[bool]>,
        threads: usize,
    ) -> Self {
        let mut elements = Self::default();
        let is_kept = |s: usize| is_kept.is_some_and(|is_kept| is_kept[s]);
        let pooled = elements.place_fixed::<S>(tree, classes, limits, is_kept);
        let pool = Pool::new::<S>(tree, classes, costs, pooled, threads);
        // An element that is given is there from the start.
        let has_given = tree.fronts().iter().any(|front| front.is_given);
        let (unit, placed) = if has_given || pool.factor_entries <= limits.apart {
            (vec![0; classes.len()], pool.apart())
        } else {
            pool.best()
        };
        elements.unit = unit;
        let fixed = elements.entries;
        elements.entries += placed.entries;
        for (&s, in_pool) in pool.large.iter().zip(&placed.place) {
            if pool.size[s as usize] > 0 {
                elements.place[s as usize] = fixed + in_pool;
            }
        }
        (elements.await_ptr, elements.awaited) = pool.waits(&elements.unit, &placed.place);
        elements
    }

    /// Of a part of the tree whose elements these are, in which only the fronts of the part are factorized. Those that are given are
    /// kept.
    pub fn of_part<S: Storage>(
        &self,
        portion: &Portion,
        classes: &[FrontClass],
        (limits, costs): (&Limits, &DeviceCosts),
        is_kept: &[bool],
    ) -> Self {
        let fronts = portion.fronts.iter().map(|&s| s as usize);
        let place: Vec<u64> = fronts.clone().map(|s| self.place[s]).collect();
        let unit: Vec<u32> = fronts.map(|s| self.unit[s]).collect();
        let own = portion.tree.fronts().iter().zip(classes).zip(is_kept);
        let is_pooled = own.map(|((front, class), is_kept)| {
            class.is_large() && front.below > limits.gathered && !is_kept
        });
        let pool = Pool::new::<S>(&portion.tree, classes, costs, is_pooled.collect(), 1);
        let of_large: Vec<u64> = pool.large.iter().map(|&s| place[s as usize]).collect();
        let (await_ptr, awaited) = pool.waits(&unit, &of_large);
        Self {
            place,
            entries: self.entries,
            unit,
            await_ptr,
            awaited,
            gathered: self.gathered,
        }
    }

    /// Gives places to elements that are not in the pool, by the tree and the limits alone, and tells which are.
    fn place_fixed<S: Storage>(
        &mut self,
        tree: &AssemblyTree,
        classes: &[FrontClass],
        limits: &Limits,
        is_kept: impl Fn(usize) -> bool,
    ) -> Vec<bool> {
        self.place = vec![0; classes.len()];
        let mut is_pooled = vec![false; classes.len()];
        let mut kept = Vec::new();
        for (s, front) in tree.fronts().iter().enumerate() {
            let size = element_entries(S::SYMMETRIC, front.below);
            if is_kept(s) {
                kept.push((front.below > limits.gathered, s, size));
            } else if classes[s].is_large() {
                if front.below > limits.gathered {
                    is_pooled[s] = true;
                } else {
                    self.place[s] = self.entries;
                    self.entries += size;
                }
            } else {
                // The subtree's fronts stand before it, the first one's element first.
                let children = tree.children(s).iter().map(|&c| c as usize);
                let first = children.filter(|&c| !is_kept(c)).map(|c| self.place[c]);
                self.place[s] = first.min().unwrap_or(self.entries);
                self.entries = self.entries.max(self.place[s] + size);
            }
        }
        kept.sort_unstable();
        self.gathered = self.entries;
        for (is_larger, s, size) in kept {
            self.place[s] = self.entries;
            self.entries += size;
            if !is_larger {
                self.gathered = self.entries;
            }
        }
        is_pooled
    }
}

/// Entries that two or more elements take one after the other.
struct Pool<'a> {
    tree: &'a AssemblyTree,
    /// Entries of each front's element, none if it is not in the pool.
    size: Vec<u64>,
    /// Number of fronts in each subtree.
    fronts_below: Vec<u32>,
    /// The large fronts.
    large: Vec<u32>,
    /// Place of each large front among them.
    number: Vec<u32>,
    /// Of each front, what its last task is ordered by in its unit.
    last: Vec<u64>,
    /// Most entries at once below and at each front, if the fronts of its subtree come one after the other.
    in_postorder: Vec<u64>,
    /// Children of all fronts, in an order in which that is least.
    children: Vec<u32>,
    /// The roots, likewise.
    roots: Vec<u32>,
    /// Most entries at once in that postorder; those of open roots stay.
    least: u64,
    /// How many tasks there are on each large front.
    num_tasks: Vec<u64>,
    /// Whether each front is wide.
    is_wide: Vec<bool>,
    /// Entries of the factors, and how many the pool may have.
    factor_entries: u64,
    allowed: u64,
    /// How many threads may look for places, if they are above 1 those of the current rayon pool.
    threads: usize,
}

/// Places in a pool.
struct Placed {
    /// By number of the large front.
    place: Vec<u64>,
    entries: u64,
}

impl<'a> Pool<'a> {
    fn new<S: Storage>(
        tree: &'a AssemblyTree,
        classes: &[FrontClass],
        costs: &DeviceCosts,
        pooled: Vec<bool>,
        threads: usize,
    ) -> Self {
        let fronts = tree.fronts();
        let of_pool = |(front, pooled): (&crate::tree::Front, bool)| {
            if pooled {
                element_entries(S::SYMMETRIC, front.below)
            } else {
                0
            }
        };
        let size = fronts.iter().zip(pooled).map(of_pool).collect();
        let numbers = 0..fronts.len() as u32;
        let factor_entries = fronts
            .iter()
            .map(|front| S::slot_entries(front.pivots, front.below))
            .sum();
        let factors_a_pool = if S::SYMMETRIC && factor_entries <= APART {
            SMALL_FACTORS_A_POOL
        } else {
            FACTORS_A_POOL
        };
        let large: Vec<u32> = numbers
            .filter(|&s| classes[s as usize].is_large())
            .collect();
        let mut number = vec![NONE; fronts.len()];
        for (k, &s) in (0..).zip(&large) {
            number[s as usize] = k;
        }
        let mut pool = Self {
            tree,
            size,
            fronts_below: vec![1; fronts.len()],
            large,
            number,
            last: vec![0; fronts.len()],
            in_postorder: vec![0; fronts.len()],
            children: tree.children.clone(),
            roots: Vec::new(),
            least: 0,
            num_tasks: vec![0; fronts.len()],
            is_wide: classes
                .iter()
                .map(|&class| class == FrontClass::Wide)
                .collect(),
            factor_entries,
            allowed: factor_entries / factors_a_pool,
            threads,
        };
        let mut path = vec![0.0; fronts.len()];
        for (s, front) in fronts.iter().enumerate().rev() {
            let (shape, class) = (Shape::from(front), classes[s]);
            let above = match front.parent {
                NONE => 0.0,
                parent => path[parent as usize],
            };
            path[s] = above + costs.front_seconds(shape, class);
            if class.is_large() {
                let tiling = class.tiling(shape).stored_as::<S>();
                pool.num_tasks[s] = u64::from(tiling.len());
                let last = tiling.last();
                let left = costs.rest_seconds(shape, class, last);
                pool.last[s] = longest_first_key(above + left);
            }
        }
        pool.order_children();
        pool
    }

    /// Orders children, and roots, so that their elements take least in a postorder.
    fn order_children(&mut self) {
        let fronts = self.tree.fronts();
        let mut children = std::mem::take(&mut self.children);
        for (s, front) in fronts.iter().enumerate() {
            // Below those without a last task there are no elements of the pool.
            if self.last[s] > 0 {
                let own = &mut children[front.child_range()];
                let (most, live) = self.order_siblings(own);
                self.in_postorder[s] = most.max(live + self.size[s]);
            }
            if front.parent != NONE {
                self.fronts_below[front.parent as usize] += self.fronts_below[s];
            }
        }
        self.children = children;
        let numbers = 0..fronts.len() as u32;
        let mut roots: Vec<u32> = numbers
            .filter(|&s| fronts[s as usize].parent == NONE)
            .collect();
        (self.least, _) = self.order_siblings(&mut roots);
        self.roots = roots;
    }

    /// Orders siblings; returns the most entries that they take at once in that order, and those of their elements.
    fn order_siblings(&self, siblings: &mut [u32]) -> (u64, u64) {
        let more = |c: u32| self.in_postorder[c as usize] - self.size[c as usize];
        siblings.sort_unstable_by_key(|&c| (Reverse(more(c)), c));
        let (mut live, mut most) = (0, 0);
        for &c in &*siblings {
            most = most.max(live + self.in_postorder[c as usize]);
            live += self.size[c as usize];
        }
        (most, live)
    }

    /// A place for each element that nobody else writes to.
    fn apart(&self) -> Placed {
        let mut entries = 0;
        let mut after = |&s: &u32| {
            entries += self.size[s as usize];
            entries - self.size[s as usize]
        };
        let place = self.large.iter().map(&mut after).collect();
        Placed { place, entries }
    }

    /// Units and places, in few entries.
    fn best(&self) -> (Vec<u32>, Placed) {
        let allowed = self.allowed;
        // No postorder takes less.
        let least = self.least;
        let mut best: Option<(Vec<u32>, Placed)> = None;
        let mut budgets = ATTEMPTS.map(|eighths| (allowed / 8 * eighths).max(least));
        budgets.sort_unstable_by_key(|&budget| Reverse(budget));
        for (at, &budget) in budgets.iter().enumerate() {
            if at > 0 && budget == budgets[at - 1] {
                continue;
            }
            let unit = self.units(budget);
            if best.as_ref().is_some_and(|(other, _)| *other == unit) {
                continue;
            }
            let placed = self.placed(&unit, allowed);
            let is_better = best
                .as_ref()
                .is_none_or(|(_, other)| placed.entries < other.entries);
            if is_better {
                best = Some((unit, placed));
            }
            if best.as_ref().is_some_and(|(_, p)| p.entries <= allowed) {
                break;
            }
        }
        best.unwrap_or_else(|| unreachable!("there is a first attempt"))
    }

    /// The large fronts of a subtree.
    fn large_below(&self, s: u32) -> &[u32] {
        let first = s + 1 - self.fronts_below[s as usize];
        let from = self.large.partition_point(|&f| f < first);
        let to = self.large.partition_point(|&f| f <= s);
        &self.large[from..to]
    }

    /// Most entries at once if the tasks on these fronts, which are whole subtrees, are one unit.
    fn peak(&self, fronts: &[u32]) -> u64 {
        let last = fronts.iter().map(|&s| (self.last[s as usize], s));
        let mut order: Vec<(u64, u32)> = last.collect();
        order.sort_unstable();
        self.peak_in(order.into_iter().map(|(_, s)| s))
    }

    /// Entries of the elements of a front's children.
    fn of_children(&self, s: u32) -> u64 {
        let children = self.tree.children(s as usize).iter();
        children.map(|&c| self.size[c as usize]).sum()
    }

    /// Cuts the forest into units that take no more than `budget` entries, where that can be.
    fn units(&self, budget: u64) -> Vec<u32> {
        let mut units = Units::new(self.size.len());
        if self.peak_in(self.in_order(&self.launches(&units.of_fronts)).into_iter()) <= budget {
            return self.launches(&units.of_fronts);
        }
        let mut looks = LOOKS * self.large.len();
        // A front, and whether its children are done.
        let mut stack: Vec<(u32, bool)> = self.roots.iter().rev().map(|&s| (s, false)).collect();
        while let Some((s, children_done)) = stack.pop() {
            let size = self.size[s as usize];
            if children_done {
                units.add_parent(s, size, self.of_children(s));
                continue;
            }
            let below = self.large_below(s);
            let left = budget.saturating_sub(units.kept());
            let in_postorder = self.in_postorder[s as usize];
            if below.len() <= 1 {
                units.add_subtree(below, in_postorder, size, budget);
                continue;
            }
            if in_postorder <= left && below.len() <= looks {
                looks -= below.len();
                let peak = self.peak(below);
                if peak <= left {
                    units.add_subtree(below, peak, size, budget);
                    continue;
                }
            }
            units.close();
            stack.push((s, true));
            let children = &self.children[self.tree.fronts()[s as usize].child_range()];
            stack.extend(children.iter().rev().map(|&c| (c, false)));
        }
        self.launches(&units.of_fronts)
    }

    /// Two units in place of each: wide fronts, which have launches of their own, behind the others.
    fn launches(&self, unit: &[u32]) -> Vec<u32> {
        let of_front = unit.iter().zip(&self.is_wide);
        of_front
            .map(|(&unit, &is_wide)| 2 * unit + u32::from(is_wide))
            .collect()
    }

    /// The large fronts in the order in which they are done.
    fn in_order(&self, unit: &[u32]) -> Vec<u32> {
        let mut order: Vec<(u32, u64, u32)> = self
            .large
            .iter()
            .map(|&s| (unit[s as usize], self.last[s as usize], s))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, s)| s).collect()
    }

    /// Most entries at once if fronts are done in this order.
    fn peak_in(&self, order: impl Iterator<Item = u32>) -> u64 {
        let (mut live, mut most) = (0, 0);
        for s in order {
            live += self.size[s as usize];
            most = most.max(live);
            live -= self.of_children(s);
        }
        most
    }

    /// Gives each element a place, the fronts being done in the order of these units.
    ///
    /// What fits depends on what went where before. So several sizes are tried if there is no room for those that are
    /// read to stay a while, until no more than `allowed` entries are taken.
    fn placed(&self, unit: &[u32], allowed: u64) -> Placed {
        let order = self.in_order(unit);
        let is_shared = self.threads > 1 && order.len() > WORTH_WAKING;
        let lagging = |&lag: &u64| self.placed_within(allowed, &order, lag, allowed);
        let placed = if is_shared {
            LAGS.par_iter().find_map_first(lagging)
        } else {
            LAGS.iter().find_map(lagging)
        };
        if let Some(placed) = placed {
            return placed;
        }
        let peak = self.peak_in(order.iter().copied());
        let size = |more| peak + peak / SIZE_STEPS * more;
        let within = |more| {
            let placed = self.placed_within(size(more), &order, 0, u64::MAX);
            placed.unwrap_or_else(|| unreachable!("nothing takes more entries than there are"))
        };
        let mut best = within(0);
        let is_enough = |best: &Placed, more| best.entries <= size(more).max(allowed);
        // With several threads at once what else may be tried.
        let mut tried = if is_shared && !is_enough(&best, 1) {
            (1..SIZES).into_par_iter().map(within).collect()
        } else {
            Vec::new()
        }
        .into_iter();
        for more in 1..SIZES {
            if is_enough(&best, more) {
                break;
            }
            let placed = tried.next().unwrap_or_else(|| within(more));
            if placed.entries < best.entries {
                best = placed;
            }
        }
        best
    }

    /// Gives each element a place among so many entries, or more if one does not fit; none if that takes more than `most`.
    /// It stays there until so many tasks came after the last that reads it.
    fn placed_within(
        &self,
        mut entries: u64,
        order: &[u32],
        lag: u64,
        most: u64,
    ) -> Option<Placed> {
        let fronts = self.tree.fronts();
        // At which end of the pool each element is, and how far from there.
        let mut place = vec![(0, 0); self.large.len()];
        let mut ends = [End::default(), End::default()];
        // Number of tasks so far, and before which the elements of a front's children stay.
        let mut num_tasks = 0;
        // Entries between the ends that nobody had.
        let mut spare = entries;
        let mut read: VecDeque<(u64, u32)> = VecDeque::new();
        for &s in order {
            while let Some(&(until, reader)) = read.front()
                && until <= num_tasks
            {
                read.pop_front();
                for &c in self.tree.children(reader as usize) {
                    if self.size[c as usize] > 0 {
                        let (end, from) = place[self.number[c as usize] as usize];
                        ends[end].give_back(from, self.size[c as usize]);
                    }
                }
            }
            num_tasks += self.num_tasks[s as usize];
            read.push_back((num_tasks + lag, s));
            let size = self.size[s as usize];
            if size > 0 {
                let own = (fronts[s as usize].depth % 2) as usize;
                let between = entries - ends[0].top - ends[1].top;
                let first = ends[own].first_gap(size);
                let gap = first.map(|gap| (own, gap)).or_else(|| {
                    let other = if between < size {
                        ends[1 - own].last_gap(size)
                    } else {
                        None
                    };
                    other.map(|gap| (1 - own, gap))
                });
                place[self.number[s as usize] as usize] = if let Some((end, gap)) = gap {
                    (end, ends[end].take(gap, size))
                } else {
                    entries += size.saturating_sub(between);
                    if entries > most {
                        return None;
                    }
                    spare = spare.min(between.saturating_sub(size));
                    (own, ends[own].push(size))
                };
            }
        }
        entries -= spare;
        let from_first = |(&(end, from), &s): (&(usize, u64), &u32)| {
            let size = self.size[s as usize];
            if end == 0 || size == 0 {
                from
            } else {
                entries - from - size
            }
        };
        Some(Placed {
            place: place.iter().zip(&self.large).map(from_first).collect(),
            entries,
        })
    }

    /// Whom the writer of each element has to wait for: begins of lists, and fronts.
    fn waits(&self, unit: &[u32], place: &[u64]) -> (Vec<u32>, Vec<u32>) {
        let fronts = self.tree.fronts();
        // Of what was written last: where it ends, and the front whose element it is.
        let mut written: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        // Writer and reader.
        let mut waits: Vec<(u32, u32)> = Vec::new();
        let mut covered = Vec::new();
        for s in self.in_order(unit) {
            let size = self.size[s as usize];
            if size == 0 {
                continue;
            }
            let start = place[self.number[s as usize] as usize];
            let end = start + size;
            let before = written.range(..end).rev();
            covered.extend(
                before
                    .map(|(&at, &(to, of))| (at, to, of))
                    .take_while(|&(_, to, _)| to > start),
            );
            for (at, to, of) in covered.drain(..) {
                written.remove(&at);
                if at < start {
                    written.insert(at, (start, of));
                }
                if to > end {
                    written.insert(end, (to, of));
                }
                let reader = fronts[of as usize].parent;
                let is_below = reader < s && reader + self.fronts_below[s as usize] > s;
                if !is_below {
                    waits.push((s, reader));
                }
            }
            written.insert(start, (end, s));
        }
        waits.sort_unstable();
        waits.dedup();
        let mut ptr = vec![0u32; fronts.len() + 1];
        for &(s, _) in &waits {
            ptr[s as usize + 1] += 1;
        }
        for s in 0..fronts.len() {
            ptr[s + 1] += ptr[s];
        }
        (ptr, waits.into_iter().map(|(_, reader)| reader).collect())
    }
}

/// Units while they are made.
struct Units {
    /// Unit of each front.
    of_fronts: Vec<u32>,
    current: u32,
    /// Whether subtrees may be added to the current one.
    is_open: bool,
    /// Entries of elements that earlier units leave.
    held: u64,
    /// Entries that the subtrees of the current unit take at once, at most.
    inside: u64,
    /// Entries of the elements that they leave.
    left: u64,
}

impl Units {
    fn new(num_fronts: usize) -> Self {
        Self {
            of_fronts: vec![0; num_fronts],
            current: 0,
            is_open: true,
            held: 0,
            inside: 0,
            left: 0,
        }
    }

    /// Entries of elements that are there before another subtree begins.
    fn kept(&self) -> u64 {
        self.held + self.left
    }

    /// Ends the current unit.
    fn close(&mut self) {
        self.held += std::mem::take(&mut self.left);
        self.inside = 0;
        self.is_open = false;
    }

    /// Adds a subtree with these large fronts, which takes `peak` entries and leaves `size`.
    fn add_subtree(&mut self, fronts: &[u32], peak: u64, size: u64, budget: u64) {
        if fronts.is_empty() {
            return;
        }
        if self.held + self.inside + peak > budget {
            self.close();
        }
        if !self.is_open {
            self.current += 1;
            self.is_open = true;
        }
        for &s in fronts {
            self.of_fronts[s as usize] = self.current;
        }
        self.inside += peak;
        self.left += size;
    }

    /// Adds a front whose children are in this unit and in earlier ones.
    fn add_parent(&mut self, s: u32, size: u64, of_children: u64) {
        self.close();
        self.of_fronts[s as usize] = self.current;
        self.held += size;
        self.held -= of_children;
    }
}

/// One end of the pool: which entries are taken, counted from there.
#[derive(Default)]
struct End {
    /// Entries up to the last that is taken.
    top: u64,
    /// Gaps below that, ascending: begin and end. No two of them touch.
    gaps: Vec<(u64, u64)>,
}

impl End {
    /// The gap nearest to the end that has `size` entries.
    fn first_gap(&self, size: u64) -> Option<usize> {
        self.gaps.iter().position(|&(from, to)| to - from >= size)
    }

    /// The one farthest from it.
    fn last_gap(&self, size: u64) -> Option<usize> {
        self.gaps.iter().rposition(|&(from, to)| to - from >= size)
    }

    /// Takes the first `size` entries of a gap.
    fn take(&mut self, gap: usize, size: u64) -> u64 {
        let (place, to) = self.gaps[gap];
        if place + size == to {
            self.gaps.remove(gap);
        } else {
            self.gaps[gap].0 += size;
        }
        place
    }

    /// Takes `size` entries behind all that is taken.
    fn push(&mut self, size: u64) -> u64 {
        self.top += size;
        self.top - size
    }

    /// Gives entries back.
    fn give_back(&mut self, place: u64, size: u64) {
        let at = self.gaps.partition_point(|&(from, _)| from < place);
        let (mut from, mut to, mut range) = (place, place + size, at..at);
        if at > 0 && self.gaps[at - 1].1 == from {
            from = self.gaps[at - 1].0;
            range.start -= 1;
        }
        if let Some(&(next, end)) = self.gaps.get(at)
            && next == to
        {
            to = end;
            range.end += 1;
        }
        if to == self.top {
            self.top = from;
            self.gaps.drain(range);
        } else {
            self.gaps.splice(range, [(from, to)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use luge_gpu_kernels::frontal::plan::element_column;
    use luge_testkit::strategies::{pattern_from, patterns_with_diagonal};
    use proptest::prelude::*;

    use super::super::tests::placed;
    use super::super::{Plan, Planner, Roles};
    use super::*;
    use crate::gpu::MemoryPlan;
    use crate::storage::{Full, Lower};
    use crate::symbolic::Symbolic;
    use crate::tree::TreeOptions;

    /// The pattern of a grid of points in three dimensions, cut in halves again and again.
    fn dissected(sizes: [usize; 3]) -> Symbolic {
        fn order(from: [usize; 3], to: [usize; 3], out: &mut Vec<[usize; 3]>) {
            let Some(axis) = (0..3).max_by_key(|&axis| to[axis] - from[axis]) else {
                return;
            };
            if (0..3).any(|axis| from[axis] == to[axis]) {
                return;
            }
            let middle = from[axis].midpoint(to[axis]);
            let (mut end, mut begin) = (to, from);
            (end[axis], begin[axis]) = (middle, middle + 1);
            order(from, end, out);
            order(begin, to, out);
            (end, begin) = (to, from);
            (end[axis], begin[axis]) = (middle + 1, middle);
            for x in begin[0]..end[0] {
                for y in begin[1]..end[1] {
                    out.extend((begin[2]..end[2]).map(|z| [x, y, z]));
                }
            }
        }
        let mut points = Vec::new();
        order([0; 3], sizes, &mut points);
        let number = |[x, y, z]: [usize; 3]| (x * sizes[1] + y) * sizes[2] + z;
        let mut place = vec![0; points.len()];
        for (at, &point) in points.iter().enumerate() {
            place[number(point)] = at as u32;
        }
        let entries = points.iter().flat_map(|&point| {
            let neighbours = (0..3).filter_map(move |axis| {
                let mut next = point;
                next[axis] += 1;
                (next[axis] < sizes[axis]).then_some(next)
            });
            let own = place[number(point)];
            let place = &place;
            let edges = neighbours.flat_map(move |next| {
                let other = place[number(next)];
                [(own, other), (other, own)]
            });
            edges.chain([(own, own)])
        });
        let pattern = pattern_from(points.len(), entries.collect::<Vec<_>>());
        Symbolic::analyze(&pattern, &TreeOptions::default()).unwrap()
    }

    /// Checks that no element is written over before it was read, whatever order the waits leave open; returns the
    /// elements, and the entries of all that are in the pool.
    fn check<S: Storage>(
        symbolic: &Symbolic<S>,
        limits: Limits,
        costs: &DeviceCosts,
    ) -> (Elements, u64) {
        let tree = symbolic.tree();
        let fronts = tree.fronts();
        let limits = limits.stored_as::<S>();
        let classes = FrontClass::of_tree(tree, &limits);
        let elements = Elements::new::<S>(tree, &classes, (&limits, costs), None, 1);
        let by_threads = Elements::new::<S>(tree, &classes, (&limits, costs), None, 3);
        assert_eq!(by_threads, elements, "whatever the threads");
        let (plan, large) = placed(symbolic, |source| {
            let memory = MemoryPlan::with(symbolic, limits, *costs);
            let symbolic = symbolic.tree_and_layout();
            let roles = Roles::new(tree, &memory.limits);
            let large = Planner::<S>::new(symbolic, source, &memory, (roles, None), 1).large;
            (Plan::new::<S>(symbolic, source, &memory, 1), large)
        });
        assert_eq!(plan.element_entries, elements.entries);
        // First task that writes to the element of each front, and last one on the front.
        let (mut first, mut last) = (vec![usize::MAX; fronts.len()], vec![0; fronts.len()]);
        let mut num_reading = vec![0; fronts.len()];
        let of_large: Vec<usize> = (0..fronts.len()).filter(|&s| large[s] != NONE).collect();
        for (at, task) in plan.tasks.iter().enumerate() {
            let s = of_large[task.front as usize];
            let tiling = classes[s].tiling(Shape::from(&fronts[s]));
            let is_of_element = tiling.steps() <= (task.tile & 0xffff).min(task.tile >> 16);
            if classes[s] == FrontClass::Whole || is_of_element {
                first[s] = first[s].min(at);
            }
            last[s] = at;
            num_reading[s] += u32::from(task.num_pieces > 0);
            let range = task.waits as usize..(task.waits + task.num_waits) as usize;
            let waits: Vec<u32> = plan.waits[range.clone()].iter().map(|w| w.front).collect();
            let awaited = elements.awaited[range].iter();
            assert_eq!(
                waits,
                awaited.map(|&r| large[r as usize]).collect::<Vec<_>>()
            );
        }
        for wait in &plan.waits {
            assert_eq!(wait.count, num_reading[of_large[wait.front as usize]]);
            assert!(wait.count > 0);
        }
        let size = |s: usize| element_entries(S::SYMMETRIC, fronts[s].below);
        let range = |s: usize| elements.place[s]..elements.place[s] + size(s);
        let overlap = |a: usize, b: usize| {
            let (a, b) = (range(a), range(b));
            a.start.max(b.start) < a.end.min(b.end)
        };
        let is_below = |a: usize, b: usize| {
            let mut at = a;
            while fronts[at].parent != NONE && at < b {
                at = fronts[at].parent as usize;
            }
            at == b
        };
        // Fronts that are surely assembled when a front's element is written.
        let mut assembled: Vec<Vec<bool>> = vec![vec![false; fronts.len()]; fronts.len()];
        let mut order = of_large.clone();
        order.sort_by_key(|&s| last[s]);
        for &s in &order {
            let awaited = &elements.awaited
                [elements.await_ptr[s] as usize..elements.await_ptr[s + 1] as usize];
            let awaited = awaited.iter().map(|&r| r as usize);
            let mut known = assembled[s].clone();
            for reader in awaited.clone() {
                assert!(last[reader] < first[s], "{s} waits for {reader}");
                known[reader] = true;
            }
            for x in awaited.chain([s]) {
                for &c in tree.children(x) {
                    let c = c as usize;
                    known[c] = true;
                    for (known, of_child) in known.iter_mut().zip(&assembled[c]) {
                        *known |= of_child;
                    }
                }
            }
            assembled[s] = known;
        }
        let mut pooled = 0;
        for s in 0..fronts.len() {
            assert!(range(s).end <= elements.entries);
            if large[s] == NONE {
                // Nobody but fronts above may write there.
                let others = (0..s).filter(|&other| overlap(s, other));
                others.for_each(|other| assert!(is_below(other, s)));
                continue;
            }
            pooled += if fronts[s].below > limits.gathered {
                size(s)
            } else {
                0
            };
            for other in (0..fronts.len()).filter(|&other| other != s && overlap(s, other)) {
                let reader = fronts[other].parent as usize;
                assert!(large[other] != NONE && first[other] != first[s]);
                if first[other] < first[s] {
                    assert!(
                        last[reader] < first[s],
                        "{other} is read when {s} is written"
                    );
                    assert!(assembled[s][reader], "{s} does not wait for {reader}");
                }
            }
        }
        (elements, pooled)
    }

    const TINY: Limits = Limits {
        small_front: 3,
        whole_front: 20,
        tiled_front: u32::MAX,
        gathered: 2,
        apart: 0,
        many_of_thread: 0,
    };

    #[test]
    fn a_grid_takes_few_entries_in_several_units() {
        let symbolic = dissected([9, 9, 9]);
        let costs = DeviceCosts::default();
        let (elements, pooled) = check(&symbolic, TINY, &costs);
        let units = elements.unit.iter().max();
        assert!(units.is_some_and(|&last| last > 1), "{units:?}");
        assert!(
            elements.entries < pooled / 4,
            "{} of {pooled}",
            elements.entries
        );
        assert!(!elements.awaited.is_empty());
        // Beside small factors nobody waits.
        let entries = symbolic.tree().fronts().iter();
        let entries = entries.map(|f| u64::from(f.pivots) * u64::from(f.pivots + 2 * f.below));
        let factors: u64 = entries.sum();
        let limits = |apart| Limits { apart, ..TINY };
        let (apart, _) = check(&symbolic, limits(factors), &costs);
        assert!(apart.unit.iter().all(|&unit| unit == 0) && apart.awaited.is_empty());
        assert!(apart.entries >= pooled);
        let (elements_again, _) = check(&symbolic, limits(factors - 1), &costs);
        assert_eq!(elements_again.place, elements.place);
    }

    #[test]
    fn tasks_come_between_reader_and_writer() {
        let symbolic = dissected([9, 9, 4]);
        let tree = symbolic.tree();
        let costs = DeviceCosts::default();
        let classes = FrontClass::of_tree(tree, &TINY);
        let is_pooled = Elements::default().place_fixed::<Full>(tree, &classes, &TINY, |_| false);
        let pool = Pool::new::<Full>(tree, &classes, &costs, is_pooled, 1);
        let unit = vec![0; classes.len()];
        let order = pool.in_order(&unit);
        let peak = pool.peak_in(order.iter().copied());
        let mut taken = Vec::new();
        for lag in [0, 50, 200] {
            let placed = pool.placed_within(peak, &order, lag, u64::MAX).unwrap();
            taken.push(placed.entries);
            let mut after = vec![0; pool.size.len()];
            let mut num_tasks = 0;
            for (at, &s) in order.iter().enumerate() {
                let range = |s: u32| {
                    let place = placed.place[pool.number[s as usize] as usize];
                    place..place + pool.size[s as usize]
                };
                let own = range(s);
                let overlaps =
                    |other: Range<u64>| own.start.max(other.start) < own.end.min(other.end);
                for &before in order[..at]
                    .iter()
                    .filter(|&&before| overlaps(range(before)))
                {
                    let reader = tree.fronts()[before as usize].parent;
                    assert!(
                        after[reader as usize] > 0,
                        "{before} is there when {s} is written"
                    );
                    assert!(
                        num_tasks >= after[reader as usize] + lag,
                        "{before} and {s}"
                    );
                }
                num_tasks += pool.num_tasks[s as usize];
                after[s as usize] = num_tasks;
            }
        }
        assert!(taken.is_sorted() && taken[0] < taken[2], "{taken:?}");
        // The most for which there is room.
        let placed = |allowed| pool.placed(&unit, allowed).place;
        let within = |entries, lag, most| pool.placed_within(entries, &order, lag, most);
        let after = |lag| within(u64::MAX, lag, u64::MAX).unwrap().place;
        let room = |lag| within(peak, lag, u64::MAX).unwrap().entries;
        assert!(within(peak, LAGS[0], room(LAGS[0]) - 1).is_none());
        assert_eq!(placed(room(LAGS[0])), after(LAGS[0]));
    }

    #[test]
    fn entries_of_an_element_are_numbered_column_by_column() {
        for lower in [false, true] {
            for rows in 0..20 {
                let cells = (0..rows).flat_map(|j| {
                    let first = if lower { j } else { 0 };
                    (first..rows).map(move |i| element_column(lower, j, rows) + u64::from(i))
                });
                assert!(cells.eq(0..element_entries(lower, rows)), "{rows} rows");
            }
        }
    }

    #[test]
    fn gaps_that_touch_become_one() {
        let mut end = End::default();
        let places = [3, 4, 5, 6].map(|size| end.push(size));
        assert_eq!((places, end.top), ([0, 3, 7, 12], 18));
        end.give_back(0, 3);
        end.give_back(7, 5);
        assert_eq!(end.gaps, [(0, 3), (7, 12)]);
        assert_eq!(
            (end.first_gap(3), end.last_gap(3), end.first_gap(6)),
            (Some(0), Some(1), None)
        );
        end.give_back(3, 4);
        assert_eq!(end.gaps, [(0, 12)]);
        assert_eq!((end.take(0, 5), end.take(0, 7)), (0, 5));
        assert!(end.gaps.is_empty());
        end.give_back(5, 7);
        end.give_back(12, 6);
        assert_eq!((end.top, end.gaps.len()), (5, 0));
    }

    proptest! {
        #[test]
        fn no_element_is_written_over_before_it_was_read(
            pattern in patterns_with_diagonal(60),
            small_front in 0u32..6,
            whole_front in 0u32..12,
            more in 0u32..40,
            gathered in 0u32..4,
            apart in prop_oneof![Just(0u64), 0u64..500],
        ) {
            let merged = TreeOptions { zero_fraction: 0.0, tiny_zero_fraction: 0.0, ..TreeOptions::default() };
            let tiled_front = whole_front + more;
            let limits = Limits { small_front, whole_front, tiled_front, gathered, apart, ..TINY };
            let symbolic = Symbolic::<Full>::analyze(&pattern, &merged).unwrap();
            check(&symbolic, limits, &DeviceCosts::default());
            let entries = pattern.lines().enumerate();
            let entries = entries.flat_map(|(j, line)| line.iter().map(move |&i| (j as u32, i)));
            let lower = pattern_from(pattern.major_dim(), entries.map(|(i, j)| (i.min(j), i.max(j))));
            let symbolic = Symbolic::<Lower>::analyze(&lower, &merged).unwrap();
            check(&symbolic, limits, &DeviceCosts::default());
        }
    }
}
