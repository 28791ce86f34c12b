//! What warps do with the rows of a front: a lane has a row.

use luge_kernel::prelude::*;

use super::kinds::Kind;
use super::layout::groups_of_warp;
use super::{Front, Sweep};
use crate::frontal::large::repeated;

/// Entries of a row of a larger front that are under way at once.
pub(super) const FAR_AHEAD: usize = 8;

/// Entries that are read or left away together.
const GROUP: usize = 2;

/// The entries of a lane's row in some columns: number p, if `p < end`, at `first` + p · `stride`.
#[derive(Clone, Copy)]
pub(super) struct Line {
    first: u32,
    /// Backwards it is 2³² less a distance.
    stride: u32,
    end: u32,
}

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Row `row` of a front in the columns of the pivots `first .. first + count` on the way up: those before the
    /// diagonal.
    #[inlined]
    pub(super) fn line_up(self, front: Front, first: u32, count: u32, row: u32) -> Line {
        if row < front.k {
            Line {
                first: self.up().pivot(front, row, first),
                stride: self.up().along_col(front),
                end: row.saturating_sub(first).min(count),
            }
        } else {
            let (begin, stride) = self.up().panel(front);
            Line {
                first: begin + (row - front.k) + first * stride,
                stride,
                end: if row < front.m() { count } else { 0 },
            }
        }
    }

    /// Row `row` of the pivots' block in those columns on the way down, the last one first: those behind the diagonal.
    #[inlined]
    pub(super) fn line_down(self, front: Front, first: u32, count: u32, row: u32) -> Line {
        let last = (first + count).saturating_sub(1);
        Line {
            first: self.down().pivot(front, row, last),
            stride: self.down().along_col(front).wrapping_neg(),
            end: if row < front.k {
                last.saturating_sub(row).min(count)
            } else {
                0
            },
        }
    }

    /// Entries `p .. p + A` of a line; anything where there is none, and from `count` on. Lanes without an entry read the
    /// front's first: a read on a condition would be waited for at once, and the others with it.
    #[inlined]
    pub(super) fn read<const A: usize>(
        self,
        front: Front,
        line: Line,
        p: u32,
        count: u32,
    ) -> [T; A] {
        let mut entries = [T::ZERO; A];
        let mut g = 0;
        while g < A {
            if p + (g as u32) < count {
                let mut u = 0;
                while u < GROUP {
                    let at = p + (g + u) as u32;
                    let place = line.first.wrapping_add(at.wrapping_mul(line.stride));
                    let place = if at < line.end { place } else { 0 };
                    entries[g + u] = self.factor(front, place);
                    u += 1;
                }
            }
            g += GROUP;
        }
        entries
    }

    /// Pivot `row`, or any entry if there is none.
    #[inlined]
    pub(super) fn pivot_of(self, front: Front, row: u32) -> T {
        let row = if row < front.k { row } else { 0 };
        self.factor(front, row * front.m() + row)
    }

    /// One over pivot `row` if it is divided by, else 1.
    #[inlined]
    pub(super) fn inverse_pivot(self, front: Front, row: u32, divides: bool) -> T {
        let pivot = self.pivot_of(front, row);
        if divides { pivot.reciprocal() } else { T::ONE }
    }

    /// Solves with a triangle of `count` pivots, whose rows are those of the first lanes, from its first row to its
    /// last, or `BACK` again; lanes whose lines reach further take part. What is found is multiplied with `inverse`, one
    /// over the lane's pivot or 1. `next` is what [`read`](Self::read) has of the line from 0 on. All lanes of a warp call
    /// it; those without a row have an empty line. The lane of the first row is `first`, of lanes that work together alike;
    /// of all lanes `turns` is the same, the largest of their counts.
    #[inlined]
    pub(super) fn pass<const N: usize, const BACK: bool, const A: usize>(
        self,
        front: Front,
        line: Line,
        (first, count, turns): (u32, u32, u32),
        inverse: T,
        next: [T; A],
        value: &mut [T; N],
    ) {
        let counts = (count, turns);
        self.eliminate::<N, BACK, A>(front, line, counts, next, value, |value, r, from| {
            warp::shuffle(warp::FULL_MASK, value[r] * inverse, (first + from) & 31)
        });
        let mut r = 0;
        while r < N {
            value[r] *= inverse;
            r += 1;
        }
    }

    /// Takes off `value` a line times the unknowns of `count` pivots, which the first lanes have in `found`, backwards if
    /// the line is. `next` as for [`pass`](Self::pass).
    #[inlined]
    pub(super) fn apply<const N: usize, const BACK: bool, const A: usize>(
        self,
        front: Front,
        line: Line,
        count: u32,
        found: [T; N],
        next: [T; A],
        value: &mut [T; N],
    ) {
        let counts = (count, count);
        self.eliminate::<N, BACK, A>(front, line, counts, next, value, |_, r, from| {
            warp::shuffle(warp::FULL_MASK, found[r], from)
        });
    }

    /// Takes off `value` a line times what `found(value, r, p)` says of pivot p, p < 32, when its turn comes. The lane has `count`
    /// pivots, and no lane of the warp has more than `turns`, which is the same for all.
    #[inlined]
    pub(super) fn eliminate<const N: usize, const BACK: bool, const A: usize>(
        self,
        front: Front,
        line: Line,
        (count, turns): (u32, u32),
        next: [T; A],
        value: &mut [T; N],
        found: impl Fn(&[T; N], usize, u32) -> T,
    ) {
        let end = line.end.min(count);
        let mut next = next;
        let mut p = 0;
        while p < turns {
            let now = next;
            if p + (A as u32) < turns {
                next = self.read(front, line, p + A as u32, turns);
            }
            let turn = (p, turns, count, end);
            if T::COMPONENTS == 1 {
                // A loop for four right-hand sides was not unrolled, and `now` lay in local memory.
                repeated!(group < A / GROUP => {
                    self.eliminate_group::<N, BACK, A>(turn, group * GROUP, &now, value, &found);
                });
            } else {
                let mut g = 0;
                while g < A {
                    self.eliminate_group::<N, BACK, A>(turn, g, &now, value, &found);
                    g += GROUP;
                }
            }
            p += A as u32;
        }
    }

    /// The pivots of group `g` of those from `p` on, of `turns`: a front has `count` pivots, and the lane entries of those before `end`.
    #[inlined]
    fn eliminate_group<const N: usize, const BACK: bool, const A: usize>(
        self,
        (p, turns, count, end): (u32, u32, u32, u32),
        g: usize,
        now: &[T; A],
        value: &mut [T; N],
        found: impl Fn(&[T; N], usize, u32) -> T,
    ) {
        if p + g as u32 >= turns {
            return;
        }
        let mut u = 0;
        while u < GROUP {
            let at = p + (g + u) as u32;
            let from = if BACK { count.wrapping_sub(at + 1) } else { at };
            let mut r = 0;
            while r < N {
                let found = found(value, r, from & 31);
                if at < end {
                    value[r] = (-now[g + u]).mul_add(found, value[r]);
                }
                r += 1;
            }
            u += 1;
        }
    }

    /// What lanes that have `spread` read of the panel that is used downwards, from number `p` on; anything where there is
    /// nothing.
    #[inlined]
    pub(super) fn read_below(self, front: Front, spread: Spread, p: u32) -> [T; BELOW] {
        let (first, stride) = self.down().panel(front);
        let line = first + spread.row * stride;
        let mut entries = [T::ZERO; BELOW];
        let mut u = 0;
        while u < BELOW {
            let number = p + u as u32;
            let place = if spread.has(number) {
                line + spread.column(number)
            } else {
                0
            };
            entries[u] = self.factor(front, place);
            u += 1;
        }
        entries
    }

    /// Which unknowns those are for. The front has rows below, or another one of the warp has.
    #[inlined]
    pub(super) fn unknowns_below(self, front: Front, spread: Spread, p: u32) -> [u32; BELOW] {
        let mut unknowns = [0; BELOW];
        let mut u = 0;
        while u < BELOW {
            let number = p + u as u32;
            // Of another front where this one has none, perhaps no rows below at all.
            let row = if spread.has(number) {
                front.rows + spread.column(number)
            } else {
                0
            };
            unknowns[u] = self.tree.row_idx.get(row as usize);
            u += 1;
        }
        unknowns
    }
}

/// Lanes that share rows, all of a warp or of a group of them: 2^`log` side by side have one, each every 2^`log`th of its entries, from the last to the first:
/// unknowns of ancestors come from the root down, and later columns are those of ancestors further up.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    pub log: u32,
    /// The lane's row, counted from the first of the warp.
    pub row: u32,
    /// How far its first entry is from the last one of the row.
    first: u32,
    /// Number of entries of the row.
    entries: u32,
    lanes: Lanes,
    /// The largest `log` of the warp, the same for all its lanes.
    most_log: u32,
}

/// Lanes side by side that work together: all of a warp, or a group of them.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    /// The first of them.
    pub first: u32,
    /// This lane, counted from that one.
    pub own: u32,
    /// How many they are: a power of two.
    pub count: u32,
}

impl Lanes {
    /// Those that have a small front, of which this lane is one.
    #[inlined]
    pub fn of(front: Front) -> Self {
        let count = warp::WARP_SIZE / groups_of_warp(front.m());
        let own = thread::lane_id() & (count - 1);
        Self {
            first: thread::lane_id() - own,
            own,
            count,
        }
    }

    /// Those of a warp.
    #[inlined]
    pub fn all() -> Self {
        Self {
            first: 0,
            own: thread::lane_id(),
            count: warp::WARP_SIZE,
        }
    }
}

impl Spread {
    /// Over `rows` rows (as many as there are lanes at most, perhaps none) of `entries` entries, the first of which is row
    /// `first_row`.
    #[inlined]
    pub fn over(lanes: Lanes, first_row: u32, rows: u32, entries: u32) -> Self {
        let lane = lanes.own;
        // As many lanes a row as there are for the next power of two of rows.
        let log = rows.saturating_sub(1).leading_zeros() - (lanes.count - 1).leading_zeros();
        let row = lane >> log;
        Self {
            log,
            row: first_row + row,
            first: lane & ((1 << log) - 1),
            entries: if row < rows { entries } else { 0 },
            lanes,
            most_log: log,
        }
    }

    /// The same where the groups of lanes of a warp may have other spreads. All lanes of a warp call it.
    #[inlined]
    pub fn beside_others(self) -> Self {
        Self {
            most_log: warp::reduce_max(warp::FULL_MASK, self.log),
            ..self
        }
    }

    #[inlined]
    fn distance_from_last(self, p: u32) -> u32 {
        self.first + (p << self.log)
    }

    /// The column of the lane's `p`th entry, if it [has](Self::has) that.
    #[inlined]
    pub fn column(self, p: u32) -> u32 {
        self.entries - 1 - self.distance_from_last(p)
    }

    /// Whether any lane has a `p`th entry of `entries`.
    #[inlined]
    pub fn reaches(self, p: u32, entries: u32) -> bool {
        p < self.turns(entries)
    }

    /// Most entries that a lane has of `entries`.
    #[inlined]
    pub fn turns(self, entries: u32) -> u32 {
        (entries + (1 << self.log) - 1) >> self.log
    }

    #[inlined]
    pub fn has(self, p: u32) -> bool {
        self.distance_from_last(p) < self.entries
    }

    /// The sums over the lanes of each row, in the lane of that number. All lanes of a warp call it.
    #[inlined]
    pub fn sum<T: Field>(self, value: T) -> T {
        let mut sum = value;
        let mut distance = 1;
        while distance < 1 << self.most_log {
            let other = warp::shuffle_xor(warp::FULL_MASK, sum, distance);
            if distance < 1 << self.log {
                sum += other;
            }
            distance *= 2;
        }
        let Lanes { first, own, count } = self.lanes;
        let of_row = own << self.log & (count - 1);
        warp::shuffle(warp::FULL_MASK, sum, first + of_row)
    }
}
