//! Small fronts: a warp works on one after another, in its part of the shared memory.
//!
//! The host cut the subtrees into runs of fronts in which each is followed by the one to be worked on next. A front
//! whose children lie in several runs has arrivals counted: the warp that arrives last goes on with it. So no warp
//! ever waits, and within a run nothing is asked of other warps. The next front's words, entries and values are under
//! way while one is worked on.

use luge_kernel::prelude::*;

use super::plan::{
    Child, NONE, POSITIONS_A_WORD, SMALL_FRONT, SMALL_VALUES, SmallFront, SmallFrontIn, SmallPlan,
    Work, element_column, row_and_column, small, split, state,
};
use super::small_symmetric::EliminateSmall;
use super::symmetric::Lu;
use super::work::{Seen, quotient};

/// The small fronts.
#[derive(Clone, Copy)]
pub(super) struct SmallFronts<T: Field, K> {
    pub work: Work<T>,
    pub kind: K,
    pub plan: SmallPlan,
    /// The block's values.
    pub values: Shared<T>,
    /// Where the warp's begin.
    pub base: u32,
}

const _: () = assert!(
    SMALL_FRONT == 16,
    "the lanes are two columns of rows, or more"
);

/// Children whose words are fetched at once.
const CHILDREN_A_TURN: u32 = warp::WARP_SIZE / Child::WORDS as u32;

/// Entries of a row that a lane has in hand at once.
const AT_ONCE: usize = 2;

/// What is read of a front before its turn comes, besides its words: each lane has its part.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// Of the first entries of B: where they go, and which values of A they are.
    place: u32,
    source: u32,
    /// Where the pivots' rows go.
    pub row_place: u32,
    /// The kinds of the pivots of a symmetric matrix.
    pub kind: u32,
    /// Words of the first children.
    children: u32,
}

/// Where a front lies in shared memory, and of what it consists.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub first: u32,
    /// Number of pivots.
    pub k: u32,
    /// Number of rows below them.
    pub c: u32,
    /// First pivot in the order of elimination.
    pub start: u32,
}

/// A front in shared memory, by columns.
#[derive(Clone, Copy)]
struct Kept {
    first: u32,
    k: u32,
    c: u32,
}

/// The lanes as a rectangle that covers `rows`: a power of two of rows, as many columns as are left.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub row: u32,
    pub column: u32,
    pub columns: u32,
}

impl Grid {
    #[inlined]
    pub fn covering(rows: u32) -> Self {
        let lane = thread::lane_id();
        let log = if rows <= 4 {
            2
        } else if rows <= 8 {
            3
        } else {
            4
        };
        Self {
            row: lane & ((1 << log) - 1),
            column: lane >> log,
            columns: warp::WARP_SIZE >> log,
        }
    }
}

/// The value that lane `lane` has.
#[inlined]
pub(super) fn of_lane<V: Element>(value: V, lane: u32) -> V {
    warp::shuffle(warp::FULL_MASK, value, lane)
}

/// The front of which each lane has the word `word`.
#[inlined]
fn front_of(word: u32) -> SmallFrontIn<OfLanes> {
    SmallFront::within(OfLanes { word, first: 0 })
}

impl<T: Field, K: EliminateSmall<T>> SmallFronts<T, K> {
    /// Works on fronts until there are none that can be begun. All threads of the grid call it.
    #[inlined]
    pub fn run<const SEARCH: bool>(self, seen: &mut Seen<T>) {
        let lane = thread::lane_id();
        let mut ticket = self.next_start();
        while (ticket as usize) < self.plan.starts.len() {
            let mut s = self.plan.starts.get(ticket as usize);
            // Words are read three fronts ahead, what they lead to two, and what that leads to one.
            let mut word = self.read_word(s);
            let mut ahead = self.read_ahead::<SEARCH>(word);
            let mut after = self.successor(s, word);
            let mut word_after = self.read_word(after);
            let mut value = self.read_value(word, ahead);
            let mut ahead_after = self.read_ahead::<SEARCH>(word_after);
            let mut third = self.successor(after, word_after);
            let mut third_word = self.read_word(third);
            let mut kept = None;
            loop {
                let value_after = self.read_value(word_after, ahead_after);
                let third_ahead = self.read_ahead::<SEARCH>(third_word);
                let fourth = self.successor(third, third_word);
                let fourth_word = self.read_word(fourth);
                kept = Some(self.front::<SEARCH>(word, ahead, value, kept, seen));
                let flags = front_of(word).flags();
                if flags & small::IS_LAST != 0 {
                    let parent = front_of(word).parent();
                    if flags & small::PARENT_IS_LARGE != 0 {
                        if lane == 0 {
                            self.work.arrive(parent);
                        }
                        break;
                    }
                    if parent == NONE {
                        break;
                    }
                }
                (s, word, ahead, value) = (after, word_after, ahead_after, value_after);
                (after, word_after, ahead_after) = (third, third_word, third_ahead);
                (third, third_word) = (fourth, fourth_word);
                let joins = front_of(word).joins();
                if joins > 0 && !self.arrives_last(s, joins) {
                    break;
                }
            }
            ticket = self.next_start();
        }
    }

    /// The number of the next start that nobody has. Starts are handed out to who asks: of several launches at once each
    /// may have a part of its blocks on the device, and what belonged to the others would keep those waiting for ever.
    #[inlined]
    fn next_start(self) -> u32 {
        let mut next = 0;
        if thread::lane_id() == 0 {
            let taken = self.work.state.atomic(state::SMALL_TAKEN);
            next = taken.fetch_add(1, Ordering::Relaxed, Scope::Device);
        }
        of_lane(next, 0)
    }

    /// Tells front `s` that one of its `joins` arrivals has happened, and whether all have.
    #[inlined]
    fn arrives_last(self, s: u32, joins: u32) -> bool {
        let mut before = 0;
        if thread::lane_id() == 0 {
            // The release shows what this warp wrote to the one that goes on, the acquire the others' to this one.
            let joined = self.plan.joined.atomic(s as usize);
            before = joined.fetch_add(1, Ordering::AcqRel, Scope::Device);
        }
        let before = of_lane(before, 0);
        before.wrapping_add(1) == joins.wrapping_mul(self.work.epoch)
    }

    /// The front that is worked on after front `s`; that front itself if there is none.
    #[inlined]
    fn successor(self, s: u32, word: u32) -> u32 {
        let flags = front_of(word).flags();
        let parent = front_of(word).parent();
        if flags & small::IS_LAST == 0 {
            s + 1
        } else if parent == NONE || flags & small::PARENT_IS_LARGE != 0 {
            s
        } else {
            parent
        }
    }

    #[inlined]
    fn read_word(self, s: u32) -> u32 {
        let word = thread::lane_id() & (SmallFront::WORDS as u32 - 1);
        self.plan.fronts.word(s, word)
    }

    #[inlined]
    fn read_ahead<const SEARCH: bool>(self, word: u32) -> Ahead {
        let lane = thread::lane_id();
        let first = front_of(word).entries();
        let count = front_of(word).num_entries();
        let (mut place, mut source) = (0, 0);
        if lane < count {
            let e = (first + lane) as usize;
            place = self.work.places.get(e);
            source = self.work.source.get(e);
        }
        let k = split(front_of(word).sizes()).0;
        let start = front_of(word).start();
        let mut row_place = lane;
        let mut kind = 0;
        if (!SEARCH || K::SYMMETRIC) && lane < k {
            row_place = self.work.row_places.get((start + lane) as usize);
            if K::SYMMETRIC {
                kind = self.work.pivot_rows.get((start + lane) as usize);
            }
        }
        let children = self.read_children(front_of(word).children(), front_of(word).num_children());
        Ahead {
            place,
            source,
            row_place,
            kind,
            children,
        }
    }

    #[inlined]
    fn read_value(self, word: u32, ahead: Ahead) -> T::Wide {
        let mut value = T::Wide::ZERO;
        if thread::lane_id() < front_of(word).num_entries() {
            value = self.work.values.get(ahead.source as usize);
        }
        value
    }

    /// The words of the first of `count` children, as many as the lanes can take.
    #[inlined]
    fn read_children(self, first: u32, count: u32) -> u32 {
        let lane = thread::lane_id();
        let mut word = 0;
        if lane < count.min(CHILDREN_A_TURN) * Child::WORDS as u32 {
            word = self.plan.children.word(first, lane);
        }
        word
    }

    /// Works on one front.
    #[inlined]
    fn front<const SEARCH: bool>(
        self,
        word: u32,
        ahead: Ahead,
        value: T::Wide,
        kept: Option<Kept>,
        seen: &mut Seen<T>,
    ) -> Kept {
        let lane = thread::lane_id();
        let (k, c) = split(front_of(word).sizes());
        let m = k + c;
        let flags = front_of(word).flags();
        let start = front_of(word).start();
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
        let mut p = lane;
        while p < m * m {
            self.values.set((self.base + first + p) as usize, T::ZERO);
            p += warp::WARP_SIZE;
        }
        warp::sync_warp(warp::FULL_MASK);
        self.add_entries(word, ahead, value, first, m, seen);
        warp::sync_warp(warp::FULL_MASK);
        self.add_children(word, ahead, child, first, m);
        let sizes = Sizes { first, k, c, start };
        K::eliminate::<SEARCH>(self, sizes, ahead, seen);
        warp::sync_warp(warp::FULL_MASK);
        self.store(word, first, k, c, seen);
        warp::sync_warp(warp::FULL_MASK);
        Kept { first, k, c }
    }

    /// Adds the front's entries of B.
    #[inlined]
    fn add_entries(
        self,
        word: u32,
        ahead: Ahead,
        value: T::Wide,
        first: u32,
        m: u32,
        seen: &mut Seen<T>,
    ) {
        let lane = thread::lane_id();
        let begin = front_of(word).entries();
        let count = front_of(word).num_entries();
        let (mut place, mut value) = (ahead.place, value);
        let mut done = 0;
        while done < count {
            if done > 0 && done + lane < count {
                let e = (begin + done + lane) as usize;
                place = self.work.places.get(e);
                value = self.work.values.get(self.work.source.get(e) as usize);
            }
            let (row, mut column) = row_and_column(place);
            let row = of_lane(ahead.row_place, row);
            if K::SYMMETRIC {
                column = of_lane(ahead.row_place, column);
            }
            if done + lane < count {
                let value = self.work.scaled(value, place, seen);
                let at = self.base + first;
                self.values.set((at + column * m + row) as usize, value);
                if K::SYMMETRIC {
                    let across = self.kind.form().counterpart_if(row != column, value);
                    self.values.set((at + row * m + column) as usize, across);
                }
            }
            done += warp::WARP_SIZE;
        }
    }

    /// Adds the elements of the children, one after the other.
    #[inlined]
    fn add_children(self, word: u32, ahead: Ahead, kept: Option<Kept>, first: u32, m: u32) {
        let count = front_of(word).num_children();
        let begin = front_of(word).children();
        let mut words = ahead.children;
        let mut at = 0;
        while at < count {
            let turn = (count - at).min(CHILDREN_A_TURN);
            let mut t = 0;
            while t < turn {
                let child = Child::within(OfLanes {
                    word: words,
                    first: t * Child::WORDS as u32,
                });
                let c = child.below();
                let row = thread::lane_id() & (SMALL_FRONT - 1);
                let position = child.positions(row / POSITIONS_A_WORD)
                    >> (8 * (row & (POSITIONS_A_WORD - 1)))
                    & 0xff;
                if let Some(kept) = kept
                    && at + t == 0
                {
                    let (from, size) = (self.base + kept.first, kept.k + kept.c);
                    let element = |i: u32, q: u32| {
                        let place = from + (kept.k + q) * size + kept.k + i;
                        self.values.get(place as usize)
                    };
                    self.add_child(c, position, element, first, m, ahead.row_place);
                } else {
                    let element = child.element();
                    let form = self.kind.form();
                    let element = |i: u32, q: u32| {
                        let is_across = K::SYMMETRIC && i < q;
                        let (row, column) = if is_across { (q, i) } else { (i, q) };
                        let of_column = element_column(K::SYMMETRIC, column, c) as u32;
                        let place = element + u64::from(of_column + row);
                        let entry = self.work.elements.get(place as usize);
                        form.counterpart_if(is_across, entry)
                    };
                    self.add_child(c, position, element, first, m, ahead.row_place);
                }
                t += 1;
            }
            at += turn;
            words = self.read_children(begin + at, count - at);
        }
    }

    /// Adds the element of a child with c rows; lane i knows the position of row i in the front.
    #[inlined]
    fn add_child(
        self,
        c: u32,
        position: u32,
        element: impl Fn(u32, u32) -> T,
        first: u32,
        m: u32,
        row_place: u32,
    ) {
        let placed = of_lane(row_place, position);
        let of_column = if K::SYMMETRIC { placed } else { position };
        let grid = Grid::covering(c);
        let row = of_lane(placed, grid.row);
        let mut q = grid.column;
        // All lanes take part as long as one has something to add.
        while q - grid.column < c {
            let mut values = [T::ZERO; AT_ONCE];
            for (x, value) in values.iter_mut().enumerate() {
                let own = q + x as u32 * grid.columns;
                if own < c && grid.row < c {
                    *value = element(grid.row, own);
                }
            }
            for (x, &value) in values.iter().enumerate() {
                let own = q + x as u32 * grid.columns;
                let column = of_lane(of_column, own & (warp::WARP_SIZE - 1));
                if own < c && grid.row < c {
                    let at = (self.base + first + column * m + row) as usize;
                    self.values.set(at, self.values.get(at) + value);
                }
            }
            q += AT_ONCE as u32 * grid.columns;
        }
        // Another child may add to the same entries.
        warp::sync_warp(warp::FULL_MASK);
    }

    /// Writes the panels, and the element if somebody will read it from there.
    #[inlined]
    fn store(self, word: u32, first: u32, k: u32, c: u32, seen: &mut Seen<T>) {
        let m = k + c;
        let at = |i: u32, j: u32| (self.base + first + j * m + i) as usize;
        let slot = front_of(word).slot();
        let grid = Grid::covering(m);
        let mut j = grid.column;
        while j < k {
            if grid.row < m {
                let value = self.values.get(at(grid.row, j));
                if !K::SYMMETRIC || grid.row > j {
                    seen.entry(value, grid.row > j);
                }
                let place = slot + u64::from(j * m + grid.row);
                self.work.factors.set(place as usize, value);
            }
            j += grid.columns;
        }
        let element = front_of(word).element();
        let writes_element = front_of(word).flags() & small::WRITES_ELEMENT != 0;
        let grid = Grid::covering(c);
        if grid.row < c {
            let mut i = if K::SYMMETRIC { k } else { grid.column };
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
                    if !K::SYMMETRIC || grid.row >= q {
                        let of_column = element_column(K::SYMMETRIC, q, c) as u32;
                        let place = element + u64::from(of_column + grid.row);
                        let value = self.values.get(at(k + grid.row, k + q));
                        self.work.elements.set(place as usize, value);
                    }
                    q += grid.columns;
                }
            }
        }
    }
}

impl<T: Field> EliminateSmall<T> for Lu {
    #[inlined]
    fn eliminate<const SEARCH: bool>(
        fronts: SmallFronts<T, Self>,
        sizes: Sizes,
        ahead: Ahead,
        seen: &mut Seen<T>,
    ) {
        fronts.eliminate_lu::<SEARCH>(sizes, ahead.row_place, seen);
    }
}

impl<T: Field> SmallFronts<T, Lu> {
    /// Eliminates the columns of the pivots, and updates the rest. A search leaves columns without a pivot out: zeros in L and
    /// on the diagonal.
    #[inlined]
    fn eliminate_lu<const SEARCH: bool>(self, sizes: Sizes, row_place: u32, seen: &mut Seen<T>) {
        let lane = thread::lane_id();
        let Sizes { first, k, c, start } = sizes;
        let m = k + c;
        let at = |i: u32, j: u32| (self.base + first + j * m + i) as usize;
        let grid = Grid::covering(m);
        // Which row, as they came, is where the lane's number is.
        let mut came_from = row_place;
        let mut own_pivot = T::ONE;
        let mut j = 0;
        while j < k {
            let mut is_left_out = false;
            if SEARCH {
                let column = |i: u32| self.values.get(at(i, j));
                let choice = self.work.pivot_row(column, (j, k, m));
                let mut row = choice.row;
                is_left_out = !choice.is_acceptable;
                if is_left_out {
                    row = left_over(came_from, j);
                    if lane == 0 {
                        self.work.fail(start + j, seen);
                    }
                }
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
            let mut pivot = self.work.usable(came);
            if is_left_out {
                pivot = T::ZERO;
            } else if lane == j {
                own_pivot = came;
            }
            let is_below = grid.row > j && grid.row < m;
            let mut multiplier = T::ZERO;
            if is_below && !is_left_out {
                let value = self.values.get(at(grid.row, j));
                multiplier = quotient(value, pivot, pivot.reciprocal());
                let mut q = j + 1 + grid.column;
                while q < m {
                    let mut values = [T::ZERO; AT_ONCE];
                    for (x, value) in values.iter_mut().enumerate() {
                        let q = q + x as u32 * grid.columns;
                        if q < m {
                            let upper = self.values.get(at(j, q));
                            *value = (-multiplier).mul_add(upper, self.values.get(at(grid.row, q)));
                        }
                    }
                    for (x, &value) in values.iter().enumerate() {
                        let q = q + x as u32 * grid.columns;
                        if q < m {
                            self.values.set(at(grid.row, q), value);
                        }
                    }
                    q += AT_ONCE as u32 * grid.columns;
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
        if lane < k {
            self.work.note(own_pivot, start + lane);
        }
        if SEARCH && lane < k {
            self.work.row_places.set((start + came_from) as usize, lane);
        }
    }
}

/// Where the row is that a column `j` without a pivot gets: that on its diagonal, or if column c has taken that, the row on the
/// diagonal of c, and so on. Each lane knows which row came to its place. All lanes call it.
#[inlined]
fn left_over(came_from: u32, j: u32) -> u32 {
    let place_of = |row: u32| warp::ballot(warp::FULL_MASK, came_from == row).trailing_zeros();
    let mut place = place_of(j);
    while place < j {
        place = place_of(place);
    }
    place
}
