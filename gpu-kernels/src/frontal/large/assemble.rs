//! What a tile begins with: its entries of B, and of the children's elements.

use luge_kernel::prelude::*;

use super::{EliminateLarge, FrontField, LargeFronts, Matrix, Tile, WARPS};
use crate::frontal::plan::{
    Piece, THREADS, WHOLE_FRONT, WIDE_TILE, element_column, row_and_column, split,
};
use crate::frontal::work::Seen;

/// Rows of a piece that a lane has, in whole fronts and in tiles, and in tiles of wide fronts.
const PIECE_ROWS: usize = 3;
const WIDE_PIECE_ROWS: usize = 4;

const _: () = assert!(WHOLE_FRONT <= warp::WARP_SIZE * PIECE_ROWS as u32);
const _: () = assert!(WIDE_TILE <= warp::WARP_SIZE * WIDE_PIECE_ROWS as u32);

/// Addends of a sum that are on their way at once.
const AT_ONCE: usize = 4;

/// Addends of a lane that are on their way at once in a sum of many.
const LONG_AT_ONCE: usize = 8;

/// Columns of a piece that are on their way at once.
const COLUMNS_AT_ONCE: usize = 4;

/// A sum of entries of elements, as far as it is known before the elements are there.
#[derive(Clone, Copy)]
struct PendingSum {
    /// Where it goes.
    place: u32,
    addend: u32,
    end: u32,
    /// Places of the first addends.
    sources: [u32; AT_ONCE],
}

impl<T: FrontField, const TILE: u32, K: EliminateLarge<T>> LargeFronts<T, TILE, K> {
    /// Brings the tile's entries of B and of the children's elements together. A barrier ends it.
    #[inlined]
    pub(super) fn assemble<const SEARCH: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        seen: &mut Seen<T>,
    ) {
        let thread = thread::thread_idx_x();
        let first = self.task().entries();
        let count = self.task().num_entries();
        // Each read waits long for its answer, so they begin before what does not need them. They are made whether or
        // not the thread needs them: what depends on a condition would be waited for at once.
        let last = self.work.places.len() as u32 - 1;
        let at = (first + thread).min(last) as usize;
        let (mut entry, source) = (self.work.places.get(at), self.work.source.get(at));
        let mut row_place = thread;
        // A search in a symmetric matrix begins with what is known.
        let has_places = !SEARCH || K::SYMMETRIC;
        if has_places {
            let last = self.work.row_places.len() as u32 - 1;
            let pivot = (tile.start + tile.row + thread).min(last);
            row_place = self.work.row_places.get(pivot as usize);
        }
        K::place_columns::<TILE, SEARCH>(self, tile);
        let num_long = self.task().num_long();
        let sum = self.read_sum(num_long + thread);
        tile.for_each(|i, j| matrix.set(i, j, T::ZERO));
        let mut value = self.work.values.get(source as usize);
        if thread < tile.rows {
            if has_places && tile.row + thread < tile.k {
                row_place -= tile.row;
            } else {
                row_place = thread;
            }
            self.row_places.set(thread as usize, row_place);
        }
        thread::sync_threads();
        let mut e = thread;
        while e < count {
            let value_of_b = self.work.scaled(value, entry, seen);
            let (row, column, is_across) = self.placed(tile, row_and_column(entry));
            let value_of_b = self.kind.form().counterpart_if(is_across, value_of_b);
            matrix.set(row, column, value_of_b);
            e += THREADS;
            if e < count {
                let at = (first + e) as usize;
                entry = self.work.places.get(at);
                value = self.work.values.get(self.work.source.get(at) as usize);
            }
        }
        let pieces = self.task().num_pieces();
        let sums = self.task().num_sums();
        if pieces + sums > 0 {
            if thread == 0 {
                let arrivals = self.task().arrivals().wrapping_mul(self.work.epoch);
                let arrived = self.work.arrived.atomic(self.task().front() as usize);
                spin_wait(|| arrived.load(Ordering::Acquire, Scope::Device) == arrivals);
            }
            thread::sync_threads();
            self.add_sums(tile, matrix, sum, (num_long, sums));
            self.add_long_sums(tile, matrix, num_long);
            if pieces > 0 {
                thread::sync_threads();
                if TILE == WIDE_TILE {
                    self.add_pieces::<WIDE_PIECE_ROWS>(tile, matrix, pieces);
                } else {
                    self.add_pieces::<PIECE_ROWS>(tile, matrix, pieces);
                }
            }
        }
        thread::sync_threads();
        if pieces > 0 && thread == 0 {
            // Behind the barrier all threads have what they read.
            let assembled = self.plan.assembled.atomic(self.task().front() as usize);
            assembled.reduce_add(1, Ordering::Release, Scope::Device);
        }
    }

    /// Where an entry of the tile goes. On the diagonal of a symmetric front that is in the lower triangle, and whether it is
    /// the counterpart that goes there.
    #[inlined]
    fn placed(self, tile: Tile, (row, column): (u32, u32)) -> (u32, u32, bool) {
        let row = self.row_places.get(row as usize);
        let column = K::column_place(self, column);
        if K::SYMMETRIC && tile.row == tile.column {
            (row.max(column), row.min(column), row < column)
        } else {
            (row, column, false)
        }
    }

    /// Waits until nobody reads any more what is where the element is to be written.
    #[inlined]
    pub(super) fn await_readers(self) {
        let (first, count) = (self.task().waits(), self.task().num_waits());
        let mut at = thread::thread_idx_x();
        while at < count {
            let wait = self.plan.waits.get((first + at) as usize);
            let reading = wait.count().wrapping_mul(self.work.epoch);
            let assembled = self.plan.assembled.atomic(wait.front() as usize);
            spin_wait(|| assembled.load(Ordering::Acquire, Scope::Device) == reading);
            at += THREADS;
        }
        if count > 0 {
            thread::sync_threads();
        }
    }

    /// Sum `at` of the tile, or another one if there are not so many.
    #[inlined]
    fn read_sum(self, at: u32) -> PendingSum {
        // Behind the sums there are the end of the last one's addends, and an entry that is left away.
        let last = self.plan.sums.len() as u32 - 2;
        let number = (self.task().sums() + at).min(last) as usize;
        let (sum, next) = (self.plan.sums.get(number), self.plan.sums.get(number + 1));
        let (addend, end) = (sum.first(), next.first());
        PendingSum {
            place: sum.place(),
            addend,
            end,
            sources: self.read_addends(addend, end),
        }
    }

    /// The addends from `first` on, and the one before `end` instead of what lies behind it.
    #[inlined]
    fn read_addends(self, first: u32, end: u32) -> [u32; AT_ONCE] {
        let last = end.max(1) - 1;
        let mut sources = [0; AT_ONCE];
        for x in 0..AT_ONCE {
            sources[x] = self.plan.addends.get((first + x as u32).min(last) as usize);
        }
        sources
    }

    /// Adds the entries of small elements for one entry of the tile, if there are many, by one warp: each lane those of every
    /// 32nd in their order, and then what the lanes have, by halves.
    #[inlined]
    fn add_long_sums(self, tile: Tile, matrix: Matrix<T>, count: u32) {
        let lane = thread::lane_id();
        let mut at = thread::thread_idx_x() / warp::WARP_SIZE;
        while at < count {
            let number = (self.task().sums() + at) as usize;
            let (sum, next) = (self.plan.sums.get(number), self.plan.sums.get(number + 1));
            let end = next.first();
            let mut addend = sum.first() + lane;
            let mut total = T::ZERO;
            // Those of the lane are on their way together, and for each where the next is.
            let source = |x: usize, addend: u32| {
                let place = (addend + x as u32 * warp::WARP_SIZE).min(end - 1);
                self.plan.addends.get(place as usize)
            };
            let mut sources = [0; LONG_AT_ONCE];
            for x in 0..LONG_AT_ONCE {
                sources[x] = source(x, addend);
            }
            while addend - lane < end {
                let mut values = [T::ZERO; LONG_AT_ONCE];
                for x in 0..LONG_AT_ONCE {
                    values[x] = self.work.elements.get(sources[x] as usize);
                }
                let from = addend;
                addend += LONG_AT_ONCE as u32 * warp::WARP_SIZE;
                for x in 0..LONG_AT_ONCE {
                    sources[x] = source(x, addend);
                }
                for x in 0..LONG_AT_ONCE {
                    if from + (x as u32) * warp::WARP_SIZE < end {
                        total += values[x];
                    }
                }
            }
            let total = warp::reduce_sum(total);
            if lane == 0 {
                let (row, column, is_across) = self.placed(tile, row_and_column(sum.place()));
                let total = self.kind.form().counterpart_if(is_across, total);
                matrix.set(row, column, matrix.get(row, column) + total);
            }
            at += WARPS;
        }
    }

    /// Adds the entries of small elements, those for one entry of the tile by one thread, in their order, from sum `begin` to
    /// `count`. The thread's first sum was read before.
    #[inlined]
    fn add_sums(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        first: PendingSum,
        (begin, count): (u32, u32),
    ) {
        let mut sum = first;
        let mut at = begin + thread::thread_idx_x();
        while at < count {
            let (row, column, is_across) = self.placed(tile, row_and_column(sum.place));
            let counterpart = |entry: T| self.kind.form().counterpart_if(is_across, entry);
            let mut total = counterpart(matrix.get(row, column));
            let mut addend = sum.addend;
            let mut sources = sum.sources;
            while addend < sum.end {
                let mut values = [T::ZERO; AT_ONCE];
                for x in 0..AT_ONCE {
                    values[x] = self.work.elements.get(sources[x] as usize);
                }
                let left = sum.end - addend;
                addend += AT_ONCE as u32;
                sources = self.read_addends(addend, sum.end);
                for x in 0..AT_ONCE {
                    if (x as u32) < left {
                        total += values[x];
                    }
                }
            }
            matrix.set(row, column, counterpart(total));
            at += THREADS;
            sum = self.read_sum(at);
        }
    }

    /// Adds pieces of elements, one after the other: a warp those columns of each that are its own in the tile, a lane R
    /// rows of them at most. Of symmetric ones on the diagonal only the lower triangle is added. Columns are a warp's own by
    /// where they were planned to be, so all that is added to one entry comes from one warp.
    #[inlined]
    fn add_pieces<const R: usize>(self, tile: Tile, matrix: Matrix<T>, count: u32) {
        let lane = thread::lane_id();
        let own = thread::thread_idx_x() / warp::WARP_SIZE;
        let of_lane = |value: u32, lane: u32| warp::shuffle(warp::FULL_MASK, value, lane);
        let first = self.task().pieces();
        let is_on_diagonal = K::SYMMETRIC && tile.row == tile.column;
        let form = self.kind.form();
        let mut at = 0;
        while at < count {
            let mut word = 0;
            if lane < Piece::WORDS as u32 {
                word = self.plan.pieces.word(first + at, lane);
            }
            let piece = Piece::within(OfLanes { word, first: 0 });
            let (element, relative) = (piece.element(), piece.relative());
            let (below, row, column) = (piece.below(), piece.row(), piece.column());
            let (rows, columns) = split(piece.sizes());
            let position = |i: u32| {
                let place = relative + u64::from(i);
                self.work.relative.get(place as usize)
            };
            let mut places = [0u32; R];
            for (x, place) in places.iter_mut().enumerate() {
                let i = lane + x as u32 * warp::WARP_SIZE;
                if i < rows {
                    *place = self.row_places.get((position(row + i) - tile.row) as usize);
                }
            }
            let mut q = 0;
            while q < columns {
                let mut goes_to = u32::MAX;
                if q + lane < columns {
                    goes_to = position(column + q + lane) - tile.column;
                }
                let is_own = goes_to != u32::MAX && goes_to & 7 == own;
                let mut left = warp::ballot(warp::FULL_MASK, is_own);
                while left != 0 {
                    let mut from = [0; COLUMNS_AT_ONCE];
                    let mut numbers = [0; COLUMNS_AT_ONCE];
                    let mut to = [0; COLUMNS_AT_ONCE];
                    let mut values = [[T::ZERO; R]; COLUMNS_AT_ONCE];
                    let mut count = 0;
                    for s in 0..COLUMNS_AT_ONCE {
                        let lane_of = left.trailing_zeros() & (warp::WARP_SIZE - 1);
                        to[s] = of_lane(goes_to, lane_of);
                        numbers[s] = column + q + lane_of;
                        from[s] = element + element_column(K::SYMMETRIC, numbers[s], below);
                        count += u32::from(left != 0);
                        left &= left.wrapping_sub(1);
                    }
                    for s in 0..COLUMNS_AT_ONCE {
                        for x in 0..R {
                            // Beyond the piece, something of it once more.
                            let i = (lane + x as u32 * warp::WARP_SIZE).min(rows - 1);
                            let mut row = row + i;
                            if is_on_diagonal {
                                // Nothing is kept of what is above.
                                row = row.max(numbers[s]);
                            }
                            let place = from[s] + u64::from(row);
                            values[s][x] = self.work.elements.get(place as usize);
                        }
                    }
                    // So that all are on their way before one is used: the compiler moves no read past this.
                    warp::sync_warp(warp::FULL_MASK);
                    for s in 0..COLUMNS_AT_ONCE {
                        for x in 0..R {
                            let i = lane + x as u32 * warp::WARP_SIZE;
                            let is_above = is_on_diagonal && row + i < numbers[s];
                            if i < rows && (s as u32) < count && !is_above {
                                let mut at = places[x];
                                let mut column = K::column_place(self, to[s]);
                                let is_across = is_on_diagonal && at < column;
                                if is_across {
                                    (at, column) = (column, at);
                                }
                                let value = form.counterpart_if(is_across, values[s][x]);
                                let sum = matrix.get(at, column) + value;
                                matrix.set(at, column, sum);
                            }
                        }
                    }
                }
                q += warp::WARP_SIZE;
            }
            // Other lanes may have the same rows in the next piece.
            warp::sync_warp(warp::FULL_MASK);
            at += 1;
        }
    }
}
