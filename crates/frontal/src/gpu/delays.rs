//! Where columns go for which a search found no acceptable pivot.
//!
//! What a search says of a front is worth something where nothing failed below it: the columns that failed there are
//! missing. So in each round the lowest fronts with failures are acted on, and those above them are searched again; after
//! some rounds all are.
//!
//! A column of a front that is not cut has been compared with all candidates, so it goes to the parent. In a front of
//! several tiles candidates are those of one tile: the columns of a tile that is not the last are mixed with those of the
//! last one at the end of the front, once; in a root again and again, in another order each time, since there is nowhere
//! else to go. The last tile of a root has no row that a pivot could be too small for.

use luge_sparse::etree::NONE;

use super::classes::{FrontClass, Limits, Shape};
use crate::symbolic::Symbolic;
use crate::tree::{Front, Move};
use crate::{AssemblyTree, Lower};

/// Rounds after which all fronts with failures are acted on.
const PATIENCE: u32 = 8;

/// Rounds after which columns go twice as far up as before.
const ROUNDS_A_STRIDE: u32 = 6;

/// Rounds at most.
const ROUNDS: u32 = 100;

/// The columns that were moved in the rounds of one search for pivots.
#[derive(Debug, Default)]
pub(super) struct Delays {
    round: u32,
    /// Columns of the pattern that were at the end of their front once.
    was_last: Vec<bool>,
    /// Fronts that columns have gone up, summed over all columns.
    pub num_delayed: usize,
}

impl Delays {
    /// Where the columns `failed` go, by their places in the order of elimination, ascending; `None` if that leads nowhere.
    pub fn moves(
        &mut self,
        symbolic: &Symbolic<Lower>,
        limits: &Limits,
        failed: &[u32],
    ) -> Option<Vec<Move>> {
        let tree = symbolic.tree();
        let fronts = tree.fronts();
        let classes = FrontClass::of_tree(tree, limits);
        self.was_last.resize(tree.n(), false);
        let mut has_failed_below = vec![false; fronts.len()];
        let mut moves = Vec::new();
        let mut failed = failed;
        for (s, front) in fronts.iter().enumerate() {
            let end = front.start + front.pivots;
            let count = failed.partition_point(|&pivot| pivot < end);
            let (own, rest) = failed.split_at(count);
            failed = rest;
            if front.parent != NONE {
                has_failed_below[front.parent as usize] |= has_failed_below[s] || !own.is_empty();
            }
            let is_sure = !has_failed_below[s] || self.round >= PATIENCE;
            if own.is_empty() || !is_sure {
                continue;
            }
            if classes[s].is_cut() {
                self.leave_tiles(tree, front, classes[s], own, &mut moves);
            } else {
                self.leave(tree, front, own, &mut moves);
            }
        }
        self.round += 1;
        (!moves.is_empty() && self.round < ROUNDS).then_some(moves)
    }

    /// Moves columns out of a front, if there is one above.
    fn leave(
        &mut self,
        tree: &AssemblyTree,
        front: &Front,
        columns: &[u32],
        moves: &mut Vec<Move>,
    ) {
        let most = 1 << (self.round / ROUNDS_A_STRIDE).min(16);
        let (mut up, mut above) = (0, front.parent);
        while above != NONE && up < most {
            above = tree.fronts()[above as usize].parent;
            up += 1;
        }
        if up > 0 {
            self.num_delayed += up as usize * columns.len();
            moves.extend(columns.iter().map(|&pivot| Move { pivot, up }));
            for &pivot in columns {
                self.was_last[tree.perm()[pivot as usize] as usize] = false;
            }
        }
    }

    /// Moves columns of a front of several tiles.
    fn leave_tiles(
        &mut self,
        tree: &AssemblyTree,
        front: &Front,
        class: FrontClass,
        columns: &[u32],
        moves: &mut Vec<Move>,
    ) {
        let tiling = class.tiling(Shape::from(front));
        let last = front.start + tiling.start(tiling.steps() - 1);
        let in_last = columns.partition_point(|&pivot| pivot < last);
        let (before, in_last) = columns.split_at(in_last);
        if before.is_empty() {
            self.leave(tree, front, in_last, moves);
            return;
        }
        let column = |pivot: u32| tree.perm()[pivot as usize] as usize;
        let is_root = front.parent == NONE;
        let is_again = |pivot: &u32| !is_root && self.was_last[column(*pivot)];
        let (again, mut to_end): (Vec<u32>, Vec<u32>) = before.iter().copied().partition(is_again);
        self.leave(tree, front, &again, moves);
        if to_end.is_empty() {
            return;
        }
        for &pivot in &to_end {
            self.was_last[column(pivot)] = true;
        }
        // What the last tile has said is worth nothing without these columns.
        to_end.extend(last..front.start + front.pivots);
        to_end.sort_by_key(|&pivot| mixed(u64::from(self.round) << 32 | column(pivot) as u64));
        moves.extend(to_end.into_iter().map(|pivot| Move { pivot, up: 0 }));
    }
}

/// The bits of a number mixed (G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use luge_testkit::strategies::pattern_from;

    use super::*;
    use crate::tree::TreeOptions;

    /// A path of fronts with these numbers of pivots, each with a row for the first pivot of the next.
    fn path(pivots: &[u32]) -> Symbolic<Lower> {
        let mut entries = Vec::new();
        let mut start = 0;
        for &k in pivots {
            let end = start + k;
            let last = pivots.iter().sum::<u32>();
            let rows = start..(end + 1).min(last);
            entries.extend(
                rows.clone()
                    .flat_map(|j| (j..rows.end).map(move |i| (j, i))),
            );
            start = end;
        }
        let options = TreeOptions {
            zero_fraction: 0.0,
            tiny_zero_fraction: 0.0,
            ..TreeOptions::default()
        };
        let symbolic = Symbolic::analyze(&pattern_from(start as usize, entries), &options).unwrap();
        let found = symbolic.tree().fronts().iter().map(|front| front.pivots);
        assert!(found.eq(pivots.iter().copied()));
        symbolic
    }

    fn up(moves: Option<Vec<Move>>) -> Vec<(u32, u32)> {
        let moves = moves.into_iter().flatten();
        moves.map(|Move { pivot, up }| (pivot, up)).collect()
    }

    #[test]
    fn the_lowest_fronts_are_acted_on_first() {
        let symbolic = path(&[2, 2, 2, 2, 2, 2]);
        let limits = Limits::default();
        let mut delays = Delays::default();
        let mut moves = |failed: &[u32]| up(delays.moves(&symbolic, &limits, failed));
        assert_eq!(moves(&[3, 5, 6, 7]), [(3, 1)]);
        assert_eq!(moves(&[8, 9]), [(8, 1), (9, 1)]);
        for _ in 2..ROUNDS_A_STRIDE {
            assert_eq!(moves(&[0, 2]), [(0, 1)]);
        }
        // Farther, but not beyond the root.
        assert_eq!(moves(&[0, 2]), [(0, 2)]);
        assert_eq!(moves(&[9]), [(9, 1)]);
        assert_eq!(moves(&[0, 2]), [(0, 2), (2, 2)]);
        // From a root nothing goes anywhere.
        assert_eq!(moves(&[10]), []);
        assert_eq!(delays.num_delayed, 3 + 4 + 2 + 1 + 4);
    }

    #[test]
    fn columns_of_tiles_are_mixed_with_the_last_one_before_they_leave() {
        let symbolic = path(&[150, 100]);
        let limits = Limits {
            small_front: 0,
            whole_front: 0,
            ..Limits::default()
        };
        let mut delays = Delays::default();
        let mut moves = |failed: &[u32]| up(delays.moves(&symbolic, &limits, failed));
        let sorted = |mut moves: Vec<(u32, u32)>| {
            moves.sort_unstable();
            moves
        };
        let last = |first: &[u32]| -> Vec<(u32, u32)> {
            let last = first.iter().copied().chain(128..150);
            last.map(|pivot| (pivot, 0)).collect()
        };
        assert_eq!(moves(&[130, 149]), [(130, 1), (149, 1)]);
        let mixed = moves(&[3, 70, 140, 200]);
        assert!(!mixed.is_sorted());
        assert_eq!(sorted(mixed), last(&[3, 70]));
        // A second time they leave.
        let (leave, stay): (Vec<_>, Vec<_>) =
            moves(&[3, 71]).into_iter().partition(|&(_, up)| up > 0);
        assert_eq!((leave, sorted(stay)), (vec![(3, 1)], last(&[71])));
        assert_eq!(moves(&[70]), [(70, 1)]);
        // At a root they are mixed in ever other orders.
        let at_root = |moves: Vec<(u32, u32)>| {
            assert!(
                moves
                    .iter()
                    .all(|&(pivot, up)| up == 0 && (pivot == 150 || pivot >= 214))
            );
            assert_eq!(moves.len(), 1 + 36);
            moves
        };
        let (one, other) = (at_root(moves(&[150])), at_root(moves(&[150, 220])));
        assert_ne!(one, other);
        assert_eq!(delays.num_delayed, 4);
    }

    /// A column that has left a front is new in the next one.
    #[test]
    fn columns_that_have_left_are_mixed_once_more() {
        let symbolic = path(&[150, 150, 100]);
        let limits = Limits {
            small_front: 0,
            whole_front: 0,
            ..Limits::default()
        };
        let mut delays = Delays::default();
        let mut stays = |pivot: u32| {
            let moves = up(delays.moves(&symbolic, &limits, &[pivot]));
            moves
                .into_iter()
                .any(|(moved, up)| moved == pivot && up == 0)
        };
        assert_eq!([stays(3), stays(3), stays(3)], [true, false, true]);
    }

    #[test]
    fn there_is_an_end_of_rounds() {
        let symbolic = path(&[100]);
        let limits = Limits {
            whole_front: 0,
            ..Limits::default()
        };
        let mut delays = Delays::default();
        let rounds =
            (0..2 * ROUNDS).take_while(|_| delays.moves(&symbolic, &limits, &[5]).is_some());
        assert_eq!(rounds.count() as u32, ROUNDS - 1);
    }
}
