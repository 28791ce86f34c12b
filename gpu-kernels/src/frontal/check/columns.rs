//! Columns of B, in the order of elimination.

use luge_kernel::prelude::*;

use super::GROUP;
use super::sums::{for_groups, joined};
use crate::frontal::solve::scaled::shifted;

/// Entries of a column of B that a group adds up by itself; longer columns come in [`Segment`]s of so many.
pub const SEGMENT: u32 = 32;

/// Part of a long column of B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C)]
pub struct Segment {
    /// The column.
    pub column: u32,
    /// Its first entry here.
    pub begin: u32,
    /// The one after the last.
    pub end: u32,
}

/// B by columns in the order of elimination, as values of A.
#[derive(Clone, Copy, KernelArgs)]
pub struct Columns<W: Field> {
    /// Offsets of the columns.
    pub col_ptr: Global<u32>,
    /// Parts of those with more than [`SEGMENT`] entries.
    pub segments: Records<Segment>,
    /// Offsets of the segments of each column: none of a short one.
    pub segment_ptr: Global<u32>,
    /// Row of each entry, in the order of elimination.
    pub rows: Global<u32>,
    /// Which value of A it is.
    pub source: Global<u32>,
    /// Exponents of the factors of rows, in the order of elimination.
    pub row_exponents: Global<i32>,
    /// Those of columns.
    pub col_exponents: Global<i32>,
    /// Values of A.
    pub values: Global<W>,
}

/// The weight of a row is −1 or 1, pseudo-random.
#[inlined]
pub(super) fn is_negative(row: u32) -> bool {
    let mixed = (row ^ row >> 16).wrapping_mul(0x7feb_352d);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x846c_a68b);
    mixed >> 31 != 0
}

/// What entries of a column of B come to, of those of one lane or of all of a group.
#[derive(Clone, Copy)]
pub(super) struct Column<W> {
    pub norm: f64,
    /// wᵀ times them.
    pub sum: W,
    /// Largest magnitude of their values in A.
    pub largest: f64,
    /// Sum of these magnitudes.
    pub norm_in_a: f64,
}

impl<W: Field<Real = f64>> Columns<W> {
    /// The entries `begin`, `begin` + [`GROUP`], … below `end` of column `e`, rounded to the type of the factors.
    #[inlined]
    pub(super) fn sum<T: Field<Wide = W>>(self, e: u32, (begin, end): (u32, u32)) -> Column<W> {
        let mut column = Column::NONE;
        let exponent = self.col_exponents.get(e as usize);
        let mut p = begin;
        while p < end {
            // Two under way at once; the second may be the first again.
            let places = [p, if p + GROUP < end { p + GROUP } else { p }];
            let rows = places.map(|p| self.rows.get(p as usize));
            let sources = places.map(|p| self.source.get(p as usize));
            let values = sources.map(|source| self.values.get(source as usize));
            let exponents = rows.map(|row| self.row_exponents.get(row as usize));
            let mut u = 0;
            while u < 2 {
                if p + u as u32 * GROUP < end {
                    let in_a = values[u].magnitude();
                    column.largest = Real::max(column.largest, in_a);
                    column.norm_in_a += in_a;
                    let entry = T::narrow(shifted(values[u], exponents[u] + exponent)).widen();
                    column.norm += entry.magnitude();
                    column.sum += if is_negative(rows[u]) { -entry } else { entry };
                }
                u += 1;
            }
            p += 2 * GROUP;
        }
        column
    }

    /// What a lane of a group has of column `e`, or of what its segments came to, if it has some.
    #[inlined]
    pub(super) fn of_lane<T: Field<Wide = W>>(
        self,
        e: u32,
        lane: u32,
        segment: impl Fn(usize) -> Column<W>,
    ) -> Column<W> {
        let [begin, end] = [0, 1].map(|next| self.segment_ptr.get((e + next) as usize));
        if begin == end {
            let [begin, end] = [0, 1].map(|next| self.col_ptr.get((e + next) as usize));
            return self.sum::<T>(e, (begin + lane, end));
        }
        let mut column = Column::NONE;
        let mut number = begin + lane;
        while number < end {
            let of_segment = segment(number as usize);
            column.norm += of_segment.norm;
            column.sum += of_segment.sum;
            column.largest = Real::max(column.largest, of_segment.largest);
            column.norm_in_a += of_segment.norm_in_a;
            number += GROUP;
        }
        column
    }

    /// Calls `keep` with what each segment comes to, in the first lane of a group. All lanes of a warp call it.
    #[inlined]
    pub(super) fn for_segments<T: Field<Wide = W>>(self, mut keep: impl FnMut(usize, Column<W>)) {
        let num_segments = self.segments.len() as u32;
        for_groups(num_segments, |number, lane| {
            let mut column = Column::NONE;
            if number < num_segments {
                let segment = self.segments.get(number as usize);
                let range = (segment.begin() + lane, segment.end());
                column = self.sum::<T>(segment.column(), range);
            }
            let column = column.joined();
            if number < num_segments && lane == 0 {
                keep(number as usize, column);
            }
        });
    }
}

impl<W: Field<Real = f64>> Column<W> {
    pub(super) const NONE: Self = Self {
        norm: 0.0,
        sum: W::ZERO,
        largest: 0.0,
        norm_in_a: 0.0,
    };

    /// The sums over the lanes of a group, for all of them. All lanes of a warp call it.
    #[inlined]
    pub(super) fn joined(self) -> Self {
        Self {
            norm: joined(self.norm),
            sum: joined(self.sum),
            largest: warp::fold(GROUP, self.largest, Real::max),
            norm_in_a: joined(self.norm_in_a),
        }
    }
}
