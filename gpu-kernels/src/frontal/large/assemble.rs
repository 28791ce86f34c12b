//! What a tile begins with: its entries of B, and of the children's elements.

use luge_kernel::prelude::*;

use super::{LargeFronts, Matrix, Tile, wide_product};
use crate::frontal::plan::{THREADS, WHOLE_FRONT, piece, task};
use crate::frontal::work::{Seen, wide};

/// Rows of a piece that a lane has.
const PIECE_ROWS: usize = 3;

const _: () = assert!(WHOLE_FRONT <= warp::WARP_SIZE * PIECE_ROWS as u32);

impl<T: Real> LargeFronts<T> {
    /// Brings the tile's entries of B and of the children's elements together. A barrier ends it.
    #[inline(always)]
    pub(super) fn assemble<const SEARCH: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        seen: &mut Seen<T>,
    ) {
        let thread = thread::thread_idx_x();
        if thread < tile.rows {
            let mut place = thread;
            if !SEARCH && tile.row + thread < tile.k {
                let pivot = (tile.start + tile.row + thread) as usize;
                place = self.work.row_places.get(pivot) - tile.row;
            }
            self.row_places.set(thread as usize, place);
        }
        tile.for_each(|i, j| matrix.set(i, j, T::ZERO));
        thread::sync_threads();
        let first = self.word(task::ENTRIES);
        let count = self.word(task::NUM_ENTRIES);
        let mut e = thread;
        while e < count {
            let at = (first + e) as usize;
            let place = self.work.places.get(at);
            let value = self.work.values.get(self.work.source.get(at) as usize);
            let value = self.work.scaled(value, place, seen);
            let row = self.row_places.get((place & 0xff) as usize);
            matrix.set(row, place >> 8 & 0xff, value);
            e += THREADS;
        }
        let pieces = self.word(task::NUM_PIECES);
        let sums = self.word(task::NUM_SUMS);
        if pieces + sums > 0 {
            if thread == 0 {
                let arrivals = self.word(task::ARRIVALS).wrapping_mul(self.work.epoch);
                let arrived = self.work.arrived.atomic(self.word(task::FRONT) as usize);
                spin_wait(|| arrived.load(Ordering::Acquire, Scope::Device) == arrivals);
            }
            thread::sync_threads();
            self.add_sums(matrix, sums);
            if pieces > 0 {
                thread::sync_threads();
                self.add_pieces(tile, matrix, pieces);
            }
        }
        thread::sync_threads();
    }

    /// Adds the entries of small elements, those for one entry of the tile by one thread, in their order.
    #[inline(always)]
    fn add_sums(self, matrix: Matrix<T>, count: u32) {
        let first = self.word(task::SUMS);
        let mut at = thread::thread_idx_x();
        while at < count {
            let place = self.sums.get(2 * (first + at) as usize);
            let mut addend = self.sums.get(2 * (first + at) as usize + 1);
            let end = self.sums.get(2 * (first + at) as usize + 3);
            let row = self.row_places.get((place & 0xff) as usize);
            let column = place >> 8 & 0xff;
            let mut sum = matrix.get(row, column);
            while addend < end {
                let source = self.addends.get(addend as usize);
                sum += self.work.elements.get(source as usize);
                addend += 1;
            }
            matrix.set(row, column, sum);
            at += THREADS;
        }
    }

    /// Adds pieces of elements, one after the other: a warp those columns of each that are its own in the tile.
    #[inline(always)]
    fn add_pieces(self, tile: Tile, matrix: Matrix<T>, count: u32) {
        let lane = thread::lane_id();
        let own = thread::thread_idx_x() / warp::WARP_SIZE;
        let of_lane = |value: u32, lane: u32| warp::shuffle(warp::FULL_MASK, value, lane);
        let first = self.word(task::PIECES);
        let mut at = 0;
        while at < count {
            let mut word = 0;
            if lane < piece::LEN {
                word = self.pieces.get(((first + at) * piece::LEN + lane) as usize);
            }
            let of = |which: u32| of_lane(word, which);
            let element = wide(of(piece::ELEMENT), of(piece::ELEMENT + 1));
            let relative = wide(of(piece::RELATIVE), of(piece::RELATIVE + 1));
            let (below, row, column) = (of(piece::BELOW), of(piece::ROW), of(piece::COLUMN));
            let sizes = of(piece::SIZES);
            let (rows, columns) = (sizes & 0xffff, sizes >> 16);
            let position = |i: u32| {
                let place = relative + u64::from(i);
                self.work.relative.get(place as usize)
            };
            let mut places = [0u32; PIECE_ROWS];
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
                    // Two columns at a time are on their way.
                    let a = left.trailing_zeros();
                    left &= left - 1;
                    let mut b = warp::WARP_SIZE;
                    if left != 0 {
                        b = left.trailing_zeros();
                        left &= left - 1;
                    }
                    let (to_a, to_b) = (of_lane(goes_to, a), of_lane(goes_to, b & 31));
                    let from_a = element + wide_product(column + q + a, below);
                    let from_b = element + wide_product(column + q + b, below);
                    let (mut of_a, mut of_b) = ([T::ZERO; PIECE_ROWS], [T::ZERO; PIECE_ROWS]);
                    for x in 0..PIECE_ROWS {
                        let i = lane + x as u32 * warp::WARP_SIZE;
                        if i < rows {
                            of_a[x] = self
                                .work
                                .elements
                                .get((from_a + u64::from(row + i)) as usize);
                            if b < warp::WARP_SIZE {
                                of_b[x] = self
                                    .work
                                    .elements
                                    .get((from_b + u64::from(row + i)) as usize);
                            }
                        }
                    }
                    for x in 0..PIECE_ROWS {
                        let i = lane + x as u32 * warp::WARP_SIZE;
                        if i < rows {
                            matrix.set(places[x], to_a, matrix.get(places[x], to_a) + of_a[x]);
                            if b < warp::WARP_SIZE {
                                matrix.set(places[x], to_b, matrix.get(places[x], to_b) + of_b[x]);
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
