//! How a front is cut into tiles, and the order in which they are worked on.
//!
//! The pivots are cut from the first one on, and the rows below them from the first of these on, so no tile has both:
//!
//! ```text
//!            pivots  | below
//!          ┌────┬──┬────┬─┐
//!   pivots │ D  │U │ U  │U│   step 0: D, then L below it, then U right of it
//!          ├────┼──┼────┼─┤
//!          │ L  │D │ U  │U│   step 1: likewise
//!          ├────┼──┼────┼─┤
//!   below  │ L  │L │ E  │E│   then the element, column by column
//!          ├────┼──┼────┼─┤
//!          │ L  │L │ E  │E│
//!          └────┴──┴────┴─┘
//! ```
//!
//! Of a symmetric front ([`Tiling::stored_as`]) there are the tiles on and below the diagonal only; none has U.
//!
//! The tile in row i and column j of tiles is updated by the tiles of the steps before min(i, j), and waits for them and,
//! beside the diagonal, for the diagonal tile of its own step; of a symmetric front by the tiles of rows i and j in the columns
//! of the steps before j. The kernels cut fronts in the same way
//! (`luge_gpu_kernels::frontal::large`).

use std::iter::once;
use std::ops::Range;

use crate::storage::Storage;

/// A front cut into tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiling {
    pivots: u32,
    rows: u32,
    /// Rows of a tile at most.
    side: u32,
    of_pivots: u32,
    sides: u32,
    /// Whether there is nothing above the diagonal.
    is_lower: bool,
}

/// A tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tile {
    /// Its row among the rows of tiles.
    pub row: u32,
    /// Its column among the columns of tiles.
    pub column: u32,
    /// Its number in the front, by rows of a square: also that of its flag.
    pub number: u32,
    /// How many steps update it; in its own step, if it is not part of the element, it is eliminated or solved for.
    pub step: u32,
}

impl Tiling {
    /// A front of `pivots` pivots and `below` rows below them, cut into tiles of `side` rows and columns.
    pub fn new(pivots: u32, below: u32, side: u32) -> Self {
        let of_pivots = pivots.div_ceil(side);
        Self {
            pivots,
            rows: pivots + below,
            side,
            of_pivots,
            sides: of_pivots + below.div_ceil(side),
            is_lower: false,
        }
    }

    /// Those of the tiles that a kind of factorization works on.
    pub fn stored_as<S: Storage>(self) -> Self {
        Self {
            is_lower: S::SYMMETRIC,
            ..self
        }
    }

    /// A front of so many rows as one tile, with its element.
    pub fn uncut(rows: u32) -> Self {
        Self::new(rows, 0, rows.max(1))
    }

    /// Steps: tiles of pivots along a side.
    pub fn steps(&self) -> u32 {
        self.of_pivots
    }

    /// Tiles along a side.
    pub fn sides(&self) -> u32 {
        self.sides
    }

    /// Number of tiles.
    pub fn len(&self) -> u32 {
        self.square(self.sides)
    }

    /// Number of flags: one for each place of a tile in a square, whether there is such a tile or not.
    pub fn num_flags(&self) -> u32 {
        self.sides * self.sides
    }

    /// Number of tiles of the element.
    pub fn num_element_tiles(&self) -> u32 {
        self.square(self.sides - self.of_pivots)
    }

    /// Number of tiles of a square of so many tiles a side.
    fn square(&self, sides: u32) -> u32 {
        if self.is_lower {
            sides * (sides + 1) / 2
        } else {
            sides * sides
        }
    }

    /// Whether a tile is part of the element.
    pub fn is_of_element(&self, tile: Tile) -> bool {
        tile.step == self.of_pivots
    }

    /// First row of the tiles in row `t` of tiles.
    pub fn start(&self, t: u32) -> u32 {
        if t < self.of_pivots {
            t * self.side
        } else {
            self.pivots + (t - self.of_pivots) * self.side
        }
    }

    /// Rows of the tiles in row `t` of tiles.
    pub fn range(&self, t: u32) -> Range<u32> {
        let start = self.start(t);
        let end = if t < self.of_pivots {
            self.pivots
        } else {
            self.rows
        };
        start..end.min(start + self.side)
    }

    /// All tiles, each after those that it waits for.
    pub fn tiles(self) -> impl Iterator<Item = Tile> {
        let Self {
            of_pivots,
            sides,
            is_lower,
            ..
        } = self;
        let of_step = move |step: u32| {
            let below = (step + 1..sides).map(move |t| (t, step));
            let end = if is_lower { step + 1 } else { sides };
            let right = (step + 1..end).map(move |t| (step, t));
            once((step, step)).chain(below).chain(right)
        };
        let element = (of_pivots..sides).flat_map(move |column| {
            let first = if is_lower { column } else { of_pivots };
            (first..sides).map(move |row| (row, column))
        });
        let places = (0..of_pivots).flat_map(of_step).chain(element);
        places.map(move |(row, column)| Tile {
            row,
            column,
            number: row * sides + column,
            step: row.min(column).min(of_pivots),
        })
    }

    /// The tile that comes last.
    pub fn last(&self) -> Tile {
        let at = self.sides.saturating_sub(1);
        Tile {
            row: at,
            column: at,
            number: at * self.sides + at,
            step: at.min(self.of_pivots),
        }
    }

    /// How often tiles are updated, eliminated or solved for, in all: each step concerns the tiles that are left.
    pub fn num_updates(&self) -> u64 {
        let left = (0..self.of_pivots).map(|step| self.sides - step);
        left.map(|sides| u64::from(self.square(sides))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Full, Lower};

    #[test]
    fn pivots_and_rows_below_are_cut_by_themselves() {
        let tiling = Tiling::new(10, 9, 4);
        assert_eq!((tiling.steps(), tiling.sides(), tiling.len()), (3, 6, 36));
        let ranges: Vec<_> = (0..6).map(|t| tiling.range(t)).collect();
        assert_eq!(ranges, [0..4, 4..8, 8..10, 10..14, 14..18, 18..19]);
        assert_eq!(tiling.num_element_tiles(), 9);
        let whole = Tiling::uncut(19);
        assert_eq!(
            (whole.steps(), whole.sides(), whole.range(0)),
            (1, 1, 0..19)
        );
        assert_eq!(whole.num_element_tiles(), 0);
    }

    #[test]
    fn steps_come_one_after_another_and_the_element_last() {
        let place = |tile: Tile| (tile.row, tile.column, tile.step);
        let places: Vec<_> = Tiling::new(5, 6, 4).tiles().map(place).collect();
        let expected = [
            (0, 0, 0),
            (1, 0, 0),
            (2, 0, 0),
            (3, 0, 0),
            (0, 1, 0),
            (0, 2, 0),
            (0, 3, 0),
            (1, 1, 1),
            (2, 1, 1),
            (3, 1, 1),
            (1, 2, 1),
            (1, 3, 1),
            (2, 2, 2),
            (3, 2, 2),
            (2, 3, 2),
            (3, 3, 2),
        ];
        assert_eq!(places, expected);
        assert_eq!(
            Tiling::uncut(7).tiles().map(place).collect::<Vec<_>>(),
            [(0, 0, 0)]
        );
    }

    #[test]
    fn of_a_symmetric_front_there_are_the_lower_tiles() {
        let place = |tile: Tile| (tile.row, tile.column, tile.step);
        let tiling = Tiling::new(5, 6, 4).stored_as::<Lower>();
        let places: Vec<_> = tiling.tiles().map(place).collect();
        let expected = [
            (0, 0, 0),
            (1, 0, 0),
            (2, 0, 0),
            (3, 0, 0),
            (1, 1, 1),
            (2, 1, 1),
            (3, 1, 1),
            (2, 2, 2),
            (3, 2, 2),
            (3, 3, 2),
        ];
        assert_eq!(places, expected);
        assert_eq!((tiling.len(), tiling.num_flags()), (10, 16));
        assert_eq!((tiling.num_updates(), tiling.num_element_tiles()), (16, 3));
    }

    /// Whatever the sizes: tiles cover the front, each comes once and behind those that it waits for, and updates are
    /// counted tile by tile.
    #[test]
    fn tiles_of_fronts_of_every_size() {
        let sizes = || (0..14).flat_map(|k| (0..14).map(move |c| (k, c)));
        for (pivots, below) in sizes() {
            check_tiles::<Full>(pivots, below);
            check_tiles::<Lower>(pivots, below);
        }
    }

    fn check_tiles<S: Storage>(pivots: u32, below: u32) {
        let tiling = Tiling::new(pivots, below, 4).stored_as::<S>();
        let rows: Vec<u32> = (0..tiling.sides()).flat_map(|t| tiling.range(t)).collect();
        assert_eq!(rows, (0..pivots + below).collect::<Vec<_>>());
        let mut is_done = vec![false; tiling.num_flags() as usize];
        let (mut updates, mut of_element, mut count) = (0, 0, 0);
        for tile in tiling.tiles() {
            let number = |row: u32, column: u32| (row * tiling.sides() + column) as usize;
            let Tile {
                row, column, step, ..
            } = tile;
            assert!(!S::SYMMETRIC || row >= column);
            count += 1;
            for before in 0..step {
                let right = if S::SYMMETRIC {
                    number(column, before)
                } else {
                    number(before, column)
                };
                assert!(is_done[number(row, before)] && is_done[right]);
            }
            let is_of_element = row >= tiling.steps() && column >= tiling.steps();
            assert_eq!(tiling.is_of_element(tile), is_of_element);
            assert!(is_of_element || row == column || is_done[number(step, step)]);
            assert_eq!(tile.number as usize, number(row, column));
            assert!(!std::mem::replace(&mut is_done[number(row, column)], true));
            updates += u64::from(step + u32::from(!is_of_element));
            of_element += u32::from(is_of_element);
        }
        assert_eq!(tiling.len(), count);
        let last = tiling.tiles().last();
        assert!(last.is_none_or(|last| last == tiling.last()));
        assert_eq!(tiling.num_updates(), updates);
        assert_eq!(tiling.num_element_tiles(), of_element);
    }
}
