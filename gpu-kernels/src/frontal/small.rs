//! Small fronts: a warp works on one after another, in its part of the shared memory.
//!
//! The host cut the subtrees into runs of fronts in which each is followed by the one to be worked on next. A front
//! whose children lie in several runs has arrivals counted: the warp that arrives last goes on with it. So no warp
//! ever waits, and within a run nothing is asked of other warps. The next front's words, entries and values are under
//! way while one is worked on.

use luge_kernel::prelude::*;

use super::plan::{NONE, SMALL_VALUES, child, small, state};
use super::work::{Seen, Work, wide};

/// The small fronts.
#[derive(Clone, Copy)]
pub(super) struct SmallFronts<T: Real> {
    pub work: Work<T>,
    pub fronts: Global<u32>,
    pub children: Global<u32>,
    pub starts: Global<u32>,
    pub joined: GlobalMut<u32>,
    /// The block's values.
    pub values: Shared<T>,
    /// Where the warp's begin.
    pub base: u32,
}

/// What is fetched of a front before its turn: each lane has its part.
#[derive(Clone, Copy)]
struct Fetched {
    /// A word of the front.
    word: u32,
    /// The first entries of B: where they go, and their values in A.
    place: u32,
    value: f64,
}

/// A front in shared memory, by columns.
#[derive(Clone, Copy)]
struct Kept {
    first: u32,
    k: u32,
    c: u32,
    /// The position in the parent of the row below the pivots that has the lane's number.
    relative: u32,
}

/// The lanes as a rectangle that covers `rows`: a power of two of rows, as many columns as are left.
#[derive(Clone, Copy)]
struct Grid {
    row: u32,
    column: u32,
    columns: u32,
}

impl Grid {
    #[inline(always)]
    fn covering(rows: u32) -> Self {
        let lane = thread::lane_id();
        let log = if rows <= 4 {
            2
        } else if rows <= 8 {
            3
        } else if rows <= 16 {
            4
        } else {
            5
        };
        Self {
            row: lane & ((1 << log) - 1),
            column: lane >> log,
            columns: warp::WARP_SIZE >> log,
        }
    }
}

/// The value that lane `lane` has.
#[inline(always)]
fn of_lane<V: Element>(value: V, lane: u32) -> V {
    warp::shuffle(warp::FULL_MASK, value, lane)
}

impl<T: Real> SmallFronts<T> {
    /// Works on fronts until there are none that can be begun. All threads of the grid call it.
    #[inline(always)]
    pub fn run<const SEARCH: bool>(self, seen: &mut Seen<T>) {
        let lane = thread::lane_id();
        let warps_of_block = thread::block_dim_x() / warp::WARP_SIZE;
        let num_warps = thread::grid_dim_x() * warps_of_block;
        let mut ticket =
            thread::block_idx_x() * warps_of_block + thread::thread_idx_x() / warp::WARP_SIZE;
        let num_fronts = self.fronts.len() as u32 / small::LEN;
        while (ticket as usize) < self.starts.len() {
            let mut s = self.starts.get(ticket as usize);
            let mut fetched = self.fetch_entries(self.fetch_word(s));
            let mut kept = None;
            loop {
                let ahead = if s + 1 < num_fronts { s + 1 } else { s };
                let next_word = self.fetch_word(ahead);
                let flags = of_lane(fetched.word, small::FLAGS);
                let parent = of_lane(fetched.word, small::PARENT);
                let (now, next) = self.front::<SEARCH>(fetched, next_word, kept, seen);
                kept = Some(now);
                fetched = next;
                s += 1;
                if flags & small::IS_LAST != 0 {
                    if flags & small::PARENT_IS_LARGE != 0 {
                        if lane == 0 {
                            self.work.arrive(parent);
                        }
                        break;
                    }
                    if parent == NONE {
                        break;
                    }
                    s = parent;
                    fetched = self.fetch_entries(self.fetch_word(s));
                }
                let joins = of_lane(fetched.word, small::JOINS);
                if joins > 0 && !self.arrives_last(s, joins) {
                    break;
                }
            }
            if lane == 0 {
                let taken = self.work.state.atomic(state::SMALL_TAKEN);
                ticket = num_warps + taken.fetch_add(1, Ordering::Relaxed, Scope::Device);
            }
            ticket = of_lane(ticket, 0);
        }
    }

    /// Tells front `s` that one of its `joins` arrivals has happened, and whether all have.
    #[inline(always)]
    fn arrives_last(self, s: u32, joins: u32) -> bool {
        let mut before = 0;
        if thread::lane_id() == 0 {
            // The release shows what this warp wrote to the one that goes on, the acquire the others' to this one.
            let joined = self.joined.atomic(s as usize);
            before = joined.fetch_add(1, Ordering::AcqRel, Scope::Device);
        }
        let before = of_lane(before, 0);
        before.wrapping_add(1) == joins.wrapping_mul(self.work.epoch)
    }

    #[inline(always)]
    fn fetch_word(self, s: u32) -> u32 {
        let word = thread::lane_id() & (small::LEN - 1);
        self.fronts.get((s * small::LEN + word) as usize)
    }

    #[inline(always)]
    fn fetch_entries(self, word: u32) -> Fetched {
        let lane = thread::lane_id();
        let first = of_lane(word, small::ENTRIES);
        let count = of_lane(word, small::NUM_ENTRIES);
        let (mut place, mut value) = (0, 0.0);
        if lane < count {
            let e = (first + lane) as usize;
            place = self.work.places.get(e);
            value = self.work.values.get(self.work.source.get(e) as usize);
        }
        Fetched { word, place, value }
    }

    /// Works on one front; what is fetched of the next comes back with what is kept of this one.
    #[inline(always)]
    fn front<const SEARCH: bool>(
        self,
        fetched: Fetched,
        next_word: u32,
        kept: Option<Kept>,
        seen: &mut Seen<T>,
    ) -> (Kept, Fetched) {
        let lane = thread::lane_id();
        let word = |which: u32| of_lane(fetched.word, which);
        let sizes = word(small::SIZES);
        let (k, c) = (sizes & 0xffff, sizes >> 16);
        let m = k + c;
        let flags = word(small::FLAGS);
        let start = word(small::START);
        // At the other end of the values than the child that is kept there.
        let mut first = 0;
        let mut child = None;
        if flags & small::HAS_KEPT_CHILD != 0 {
            child = kept;
        }
        if let Some(child) = child
            && child.first == 0
        {
            first = SMALL_VALUES - m * m;
        }
        let relative = wide(word(small::RELATIVE), word(small::RELATIVE + 1));
        let mut own_relative = 0;
        if lane < c {
            own_relative = self
                .work
                .relative
                .get((relative + u64::from(lane)) as usize);
        }
        let mut row_place = lane;
        if !SEARCH && lane < k {
            row_place = self.work.row_places.get((start + lane) as usize);
        }

        let mut p = lane;
        while p < m * m {
            self.values.set((self.base + first + p) as usize, T::ZERO);
            p += warp::WARP_SIZE;
        }
        warp::sync_warp(warp::FULL_MASK);
        self.add_entries(fetched, first, m, row_place, seen);
        warp::sync_warp(warp::FULL_MASK);
        if let Some(child) = child {
            let (from, size) = (child.first, child.k + child.c);
            let element = |i: u32, q: u32| {
                let place = from + (child.k + q) * size + child.k + i;
                self.values.get((self.base + place) as usize)
            };
            self.add_child(child.c, child.relative, element, first, m, row_place);
        }
        self.add_children(fetched.word, first, m, row_place);

        let next = self.fetch_entries(next_word);
        self.eliminate::<SEARCH>(first, k, c, start, row_place);
        warp::sync_warp(warp::FULL_MASK);
        self.store(fetched.word, first, k, c, seen);
        warp::sync_warp(warp::FULL_MASK);
        let kept = Kept {
            first,
            k,
            c,
            relative: own_relative,
        };
        (kept, next)
    }

    /// Adds the front's entries of B.
    #[inline(always)]
    fn add_entries(self, fetched: Fetched, first: u32, m: u32, row_place: u32, seen: &mut Seen<T>) {
        let lane = thread::lane_id();
        let begin = of_lane(fetched.word, small::ENTRIES);
        let count = of_lane(fetched.word, small::NUM_ENTRIES);
        let (mut place, mut value) = (fetched.place, fetched.value);
        let mut done = 0;
        while done < count {
            if done > 0 && done + lane < count {
                let e = (begin + done + lane) as usize;
                place = self.work.places.get(e);
                value = self.work.values.get(self.work.source.get(e) as usize);
            }
            let row = of_lane(row_place, place & 0xff);
            if done + lane < count {
                let at = self.base + first + (place >> 8 & 0xff) * m + row;
                let value = self.work.scaled(value, place, seen);
                self.values.set(at as usize, value);
            }
            done += warp::WARP_SIZE;
        }
    }

    /// Adds the elements of the children that are not kept, one after the other.
    #[inline(always)]
    fn add_children(self, word: u32, first: u32, m: u32, row_place: u32) {
        let lane = thread::lane_id();
        let count = of_lane(word, small::NUM_CHILDREN);
        let begin = of_lane(word, small::CHILDREN);
        let mut at = 0;
        while at < count {
            // Four children a turn.
            let mut words = 0;
            let place = (begin + at) * child::LEN + lane;
            if at * child::LEN + lane < count * child::LEN {
                words = self.children.get(place as usize);
            }
            let turn = (count - at).min(warp::WARP_SIZE / child::LEN);
            let mut t = 0;
            while t < turn {
                let of = |which: u32| of_lane(words, t * child::LEN + which);
                let c = of(child::BELOW);
                let element = wide(of(child::ELEMENT), of(child::ELEMENT + 1));
                let rows = wide(of(child::RELATIVE), of(child::RELATIVE + 1));
                let mut relative = 0;
                if lane < c {
                    relative = self.work.relative.get((rows + u64::from(lane)) as usize);
                }
                let element = |i: u32, q: u32| {
                    let place = element + u64::from(i + q * c);
                    self.work.elements.get(place as usize)
                };
                self.add_child(c, relative, element, first, m, row_place);
                t += 1;
            }
            at += turn;
        }
    }

    /// Adds the element of a child with c rows; lane i knows where row i lies in the front.
    #[inline(always)]
    fn add_child(
        self,
        c: u32,
        relative: u32,
        element: impl Fn(u32, u32) -> T,
        first: u32,
        m: u32,
        row_place: u32,
    ) {
        let placed = of_lane(row_place, relative);
        let grid = Grid::covering(c);
        let row = of_lane(placed, grid.row);
        let mut q = 0;
        while q < c {
            let own = q + grid.column;
            let column = of_lane(relative, own & (warp::WARP_SIZE - 1));
            if own < c && grid.row < c {
                let at = (self.base + first + column * m + row) as usize;
                self.values
                    .set(at, self.values.get(at) + element(grid.row, own));
            }
            q += grid.columns;
        }
        // Another child may add to the same entries.
        warp::sync_warp(warp::FULL_MASK);
    }

    /// Eliminates the columns of the pivots, and updates the rest.
    #[inline(always)]
    fn eliminate<const SEARCH: bool>(self, first: u32, k: u32, c: u32, start: u32, row_place: u32) {
        let lane = thread::lane_id();
        let m = k + c;
        let at = |i: u32, j: u32| (self.base + first + j * m + i) as usize;
        let grid = Grid::covering(m);
        // Which row, as they came, is where the lane's number is.
        let mut came_from = row_place;
        let mut j = 0;
        while j < k {
            if SEARCH {
                let row = self.pivot_row(at, j, k);
                if row != j {
                    // All have looked at the diagonal.
                    warp::sync_warp(warp::FULL_MASK);
                    if lane < m {
                        let value = self.values.get(at(j, lane));
                        self.values.set(at(j, lane), self.values.get(at(row, lane)));
                        self.values.set(at(row, lane), value);
                    }
                    let (upper, lower) = (of_lane(came_from, j), of_lane(came_from, row));
                    if lane == j {
                        came_from = lower;
                    } else if lane == row {
                        came_from = upper;
                    }
                    warp::sync_warp(warp::FULL_MASK);
                }
                if lane == 0 {
                    self.work.pivot_rows.set((start + j) as usize, row);
                }
            }
            let came = self.values.get(at(j, j));
            let pivot = self.work.usable(came, start + j, lane == 0);
            let is_below = grid.row > j && grid.row < m;
            let mut multiplier = T::ZERO;
            if is_below {
                multiplier = self.values.get(at(grid.row, j)) / pivot;
                let mut q = j + 1 + grid.column;
                while q < m {
                    let place = at(grid.row, q);
                    let value =
                        (-multiplier).mul_add(self.values.get(at(j, q)), self.values.get(place));
                    self.values.set(place, value);
                    q += grid.columns;
                }
            }
            warp::sync_warp(warp::FULL_MASK);
            // All have read the column, and nobody will again.
            if grid.column == 0 {
                if is_below {
                    self.values.set(at(grid.row, j), multiplier);
                } else if grid.row == j {
                    self.values.set(at(j, j), pivot);
                }
            }
            j += 1;
        }
        if SEARCH && lane < k {
            self.work.row_places.set((start + came_from) as usize, lane);
        }
    }

    /// Row of the pivot of column `j`: that of its largest entry, unless the diagonal is large enough.
    #[inline(always)]
    fn pivot_row(self, at: impl Fn(u32, u32) -> usize, j: u32, k: u32) -> u32 {
        let lane = thread::lane_id();
        let (mut row, mut most) = (j, T::ZERO);
        if lane >= j && lane < k {
            (row, most) = (lane, self.values.get(at(lane, j)).abs());
        }
        let mut distance = warp::WARP_SIZE / 2;
        while distance > 0 {
            let other = warp::shuffle_xor(warp::FULL_MASK, most, distance);
            let other_row = warp::shuffle_xor(warp::FULL_MASK, row, distance);
            if other > most || (other == most && other_row < row) {
                (row, most) = (other_row, other);
            }
            distance /= 2;
        }
        if self.values.get(at(j, j)).abs() >= self.work.threshold * most {
            row = j;
        }
        row
    }

    /// Writes the panels, and the element if somebody will read it from there.
    #[inline(always)]
    fn store(self, word: u32, first: u32, k: u32, c: u32, seen: &mut Seen<T>) {
        let m = k + c;
        let at = |i: u32, j: u32| (self.base + first + j * m + i) as usize;
        let slot = wide(of_lane(word, small::SLOT), of_lane(word, small::SLOT + 1));
        let grid = Grid::covering(m);
        let mut j = grid.column;
        while j < k {
            if grid.row < m {
                let value = self.values.get(at(grid.row, j));
                seen.entry(value, grid.row > j);
                let place = slot + u64::from(j * m + grid.row);
                self.work.factors.set(place as usize, value);
            }
            j += grid.columns;
        }
        let element = wide(
            of_lane(word, small::ELEMENT),
            of_lane(word, small::ELEMENT + 1),
        );
        let writes_element = of_lane(word, small::FLAGS) & small::WRITES_ELEMENT != 0;
        let grid = Grid::covering(c);
        if grid.row < c {
            let mut i = grid.column;
            while i < k {
                let value = self.values.get(at(i, k + grid.row));
                seen.entry(value, false);
                let place = slot + u64::from(k * m + i * c + grid.row);
                self.work.factors.set(place as usize, value);
                i += grid.columns;
            }
            if writes_element {
                let mut q = grid.column;
                while q < c {
                    let place = element + u64::from(q * c + grid.row);
                    let value = self.values.get(at(k + grid.row, k + q));
                    self.work.elements.set(place as usize, value);
                    q += grid.columns;
                }
            }
        }
    }
}
