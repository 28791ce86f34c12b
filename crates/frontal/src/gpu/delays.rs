//! Where columns go for which a search found no acceptable pivot, whatever the kind of the factorization.
//!
//! What a search says of a front is worth something where nothing failed below it: the columns that failed there are
//! missing. So in the first round the lowest fronts with failures are acted on, and those above them are searched again. But
//! each round costs a plan and a search, and mostly few columns fail: from the second round on all fronts are acted on, and
//! columns go farther from round to round; where very few fail, all go at once, and far.
//!
//! A column of a front that is not cut has been compared with all candidates, so it goes to the parent. In a front of
//! several tiles candidates are those of one tile: the columns of a tile that is not the last go to the end of the front,
//! once; in a root again and again, in another order each time, since there is nowhere else to go. The last tile of a root
//! has no row that a pivot could be too small for. Pivots of order 2 that were found there stay in one tile, though
//! columns before them have gone: otherwise as many would fail in the next round as in this one.
//!
//! A row goes with the column of the same number, of unsymmetric matrices too. There a column that fails takes along those that
//! have each other's rows with it ([`closed`]), so the rows that stay are those of the columns that stay.

use std::sync::Arc;

use luge_gpu_kernels::frontal::plan::{TILE, kind};
use luge_sparse::IndexOverflow;
use luge_sparse::etree::NONE;

use super::DeviceFrontalError;
use super::classes::{FrontClass, Limits, Shape};
use super::tree::DeviceTree;
use crate::AssemblyTree;
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::{Front, Gathering, Move, keep_in_tiles};

/// Rounds after which all fronts with failures are acted on, those above others too.
const PATIENCE: u32 = 1;

/// After a round in which at most one in so many columns failed, columns go twice as far up as before; after two others.
const FEW: usize = 128;

/// Where at most one in so many columns fails, all go four fronts up at once, from fronts of several tiles too, unless that is
/// a root: a few columns that go too far cost less than a round.
const VERY_FEW: usize = 1024;

/// How far these go, as twice a power of two.
const REACH_OF_VERY_FEW: u32 = 4;

/// Rounds at most.
const ROUNDS: u32 = 100;

/// Makes a tree in which columns have moved, and copies it to the device, as
/// [`DeviceTree::upload`](super::DeviceTree::upload) does for the placement of the tree that it is made of: the pattern is
/// the same.
pub type UploadTree<'a, S> =
    dyn Fn(MovedTree<'_, S>) -> Result<DeviceTree<S>, DeviceFrontalError> + 'a;

/// A tree some of whose columns are to be eliminated later.
#[derive(Debug, Clone, Copy)]
pub struct MovedTree<'a, S: Storage> {
    before: &'a Symbolic<S>,
    moves: &'a [Move],
}

impl<S: Storage> MovedTree<'_, S> {
    /// The tree, with children that are [added up by groups](Symbolic::gathered). With `threads` above 1, those of the current
    /// rayon pool share the work.
    ///
    /// # Errors
    ///
    /// [`IndexOverflow`] if a front exceeds 32-bit positions.
    pub fn symbolic(&self, threads: usize) -> Result<Arc<Symbolic<S>>, IndexOverflow> {
        let moved = self.before.moved(self.moves, threads)?;
        let gathered = moved.gathered(&Gathering::default(), threads)?;
        Ok(Arc::new(gathered))
    }
}

/// Places of rows that stay where they are.
pub(super) fn in_order<S: Storage>(symbolic: &Symbolic<S>) -> Vec<u32> {
    let mut places = Vec::with_capacity(symbolic.n());
    for front in symbolic.tree().fronts() {
        places.extend(0..front.pivots);
    }
    places
}

/// The columns that have to go with those that `failed`, ascending, these among them: where row i of a front stands in place
/// `row_places[i]`, column `row_places[i]` has that row, so columns that exchange rows with each other go together.
pub(super) fn closed(tree: &AssemblyTree, row_places: &[u32], failed: &[bool]) -> Vec<u32> {
    let mut goes = failed.to_vec();
    for front in tree.fronts() {
        for first in front.pivot_range().filter(|&e| failed[e]) {
            let next = |e: usize| (front.start + row_places[e]) as usize;
            let mut e = next(first);
            while !goes[e] {
                goes[e] = true;
                e = next(e);
            }
        }
    }
    let pivots = 0..tree.n() as u32;
    pivots.filter(|&pivot| goes[pivot as usize]).collect()
}

/// What a search found, by the places of columns in the order of elimination.
pub(super) struct Found<'a> {
    /// Where each column went within its front.
    pub places: &'a [u32],
    /// The kinds of the pivots there.
    pub kinds: &'a [u32],
    /// The columns without an acceptable pivot, ascending.
    pub failed: &'a [u32],
}

impl Found<'_> {
    /// Where the columns of `after` go within their fronts, and the kinds of the pivots there, as far as these were found in
    /// `before`: columns stay in the order in which they were found, those that failed behind the others, and pivots of order
    /// 2 stay if nothing comes between.
    pub fn carried(
        &self,
        before: &AssemblyTree,
        after: &AssemblyTree,
        limits: &Limits,
    ) -> (Vec<u32>, Vec<u32>) {
        let n = before.n();
        // By columns: where they were found, those that failed behind all others.
        let mut position = vec![0; n];
        for front in before.fronts() {
            for e in front.pivot_range() {
                position[before.perm()[e] as usize] = front.start + self.places[e];
            }
        }
        for &pivot in self.failed {
            position[before.perm()[pivot as usize] as usize] = NONE;
        }
        let is_pair = |first: u32, second: u32| {
            second != NONE
                && first + 1 == second
                && self.kinds[first as usize] == kind::FIRST_OF_TWO
                && self.kinds[second as usize] == kind::SECOND_OF_TWO
        };
        let (mut places, mut kinds) = (vec![0; n], vec![kind::ONE; n]);
        let classes = FrontClass::of_tree(after, limits);
        let mut order: Vec<(u32, usize)> = Vec::new();
        for (front, class) in after.fronts().iter().zip(classes) {
            let side = if class.is_cut() {
                class.tiling(Shape::from(front)).start(1)
            } else {
                front.pivots
            };
            let mut first = 0;
            // Of a front of several tiles, each tile by itself.
            while first < front.pivots {
                let end = front.pivots.min(first + side);
                let start = front.start as usize;
                order.clear();
                let own = start + first as usize..start + end as usize;
                order.extend(own.map(|e| (position[after.perm()[e] as usize], e)));
                order.sort_unstable();
                for (at, &(_, e)) in order.iter().enumerate() {
                    places[e] = first + at as u32;
                }
                for (at, pair) in order.windows(2).enumerate() {
                    if is_pair(pair[0].0, pair[1].0) {
                        let at = start + first as usize + at;
                        kinds[at] = kind::FIRST_OF_TWO;
                        kinds[at + 1] = kind::SECOND_OF_TWO;
                    }
                }
                first = end;
            }
        }
        (places, kinds)
    }
}

/// The columns that were moved in the rounds of one search for pivots.
#[derive(Debug, Default)]
pub(super) struct Delays {
    round: u32,
    /// Columns go up as many fronts as half of this says, as a power of two.
    reach: u32,
    /// Columns of the pattern that were at the end of their front once.
    was_last: Vec<bool>,
    /// Fronts that columns have gone up, summed over all columns.
    pub num_delayed: usize,
}

impl Delays {
    /// The tree in which the columns have moved that a search on `before` failed at.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::NoPivots`] if there is nowhere to go; those of `upload`.
    pub fn tree<S: Storage>(
        &mut self,
        before: &DeviceTree<S>,
        found: &Found<'_>,
        upload: &UploadTree<'_, S>,
    ) -> Result<Arc<DeviceTree<S>>, DeviceFrontalError> {
        let symbolic = &before.symbolic;
        let Some(moves) = self.moves(symbolic, &before.limits, found) else {
            let first = found.failed.first();
            let column = first.map(|&pivot| before.columns[pivot as usize] as usize);
            return Err(DeviceFrontalError::NoPivots { column });
        };
        let moved = MovedTree {
            before: symbolic,
            moves: &moves,
        };
        upload(moved).map(Arc::new)
    }

    /// Where columns go after a search that failed at some; `None` if that leads nowhere.
    fn moves<S: Storage>(
        &mut self,
        symbolic: &Symbolic<S>,
        limits: &Limits,
        found: &Found<'_>,
    ) -> Option<Vec<Move>> {
        let tree = symbolic.tree();
        let fronts = tree.fronts();
        let classes = FrontClass::of_tree(tree, limits);
        self.was_last.resize(tree.n(), false);
        let are_very_few = VERY_FEW * found.failed.len() <= tree.n();
        if are_very_few {
            self.reach = self.reach.max(REACH_OF_VERY_FEW);
        }
        let mut has_failed_below = vec![false; fronts.len()];
        let mut moves = Vec::new();
        let mut failed = found.failed;
        for (s, front) in fronts.iter().enumerate() {
            let end = front.start + front.pivots;
            let count = failed.partition_point(|&pivot| pivot < end);
            let (own, rest) = failed.split_at(count);
            failed = rest;
            if front.parent != NONE {
                has_failed_below[front.parent as usize] |= has_failed_below[s] || !own.is_empty();
            }
            let is_sure = !has_failed_below[s] || self.round >= PATIENCE || are_very_few;
            if own.is_empty() || !is_sure {
                continue;
            }
            if classes[s].is_cut() {
                self.leave_tiles(tree, front, (found, are_very_few), own, &mut moves);
            } else {
                self.leave(tree, front, own, &mut moves);
            }
        }
        self.round += 1;
        self.reach += if FEW * found.failed.len() <= tree.n() {
            2
        } else {
            1
        };
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
        let most = 1 << (self.reach / 2).min(16);
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

    /// Moves columns of a front of several tiles, if `at_once` out of it before they were at its end.
    fn leave_tiles(
        &mut self,
        tree: &AssemblyTree,
        front: &Front,
        (found, at_once): (&Found<'_>, bool),
        columns: &[u32],
        moves: &mut Vec<Move>,
    ) {
        // In wide fronts candidates are those of half a tile.
        let last = front.start + (front.pivots - 1) / TILE * TILE;
        let in_last = columns.partition_point(|&pivot| pivot < last);
        let (before, in_last) = columns.split_at(in_last);
        if before.is_empty() {
            self.leave(tree, front, in_last, moves);
            return;
        }
        let column = |pivot: u32| tree.perm()[pivot as usize] as usize;
        let is_root = front.parent == NONE;
        let is_again = |pivot: &u32| !is_root && (at_once || self.was_last[column(*pivot)]);
        let (mut leaving, mut to_end): (Vec<u32>, Vec<u32>) =
            before.iter().copied().partition(is_again);
        if to_end.is_empty() {
            leaving.extend(in_last);
        } else {
            for &pivot in &to_end {
                self.was_last[column(pivot)] = true;
            }
            // What the last tile has said is worth nothing without these columns.
            to_end.extend(in_last);
            to_end.sort_by_key(|&pivot| mixed(u64::from(self.round) << 32 | column(pivot) as u64));
        }
        self.leave(tree, front, &leaving, moves);
        let order = rearranged(front, found, &to_end);
        moves.extend(order.into_iter().map(|pivot| Move { pivot, up: 0 }));
    }
}

/// The columns of a front of several tiles that have acceptable pivots, in the order in which these were found,
/// and behind them those that go `to_end`. A column that fails leaves a gap, and the columns behind it come to lie
/// in other tiles, where pivots of order 2 stay in one.
fn rearranged(front: &Front, found: &Found<'_>, to_end: &[u32]) -> Vec<u32> {
    let (start, k) = (front.start as usize, front.pivots as usize);
    let mut order = vec![0; k];
    for e in front.pivot_range() {
        order[found.places[e] as usize] = e as u32;
    }
    let has_failed = |pivot: u32| found.failed.binary_search(&pivot).is_ok();
    order.retain(|&pivot| !has_failed(pivot));
    order.extend(to_end);
    keep_in_tiles(&mut order, TILE, |first, second| {
        let place = found.places[first as usize];
        place + 1 == found.places[second as usize]
            && found.kinds[start + place as usize] == kind::FIRST_OF_TWO
            && !has_failed(first)
            && !has_failed(second)
    });
    order
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
    use crate::storage::{Full, Lower};
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

    /// Where columns go, and how many fronts up, if a search found all others where they were, as pivots of order 1.
    fn moved(
        delays: &mut Delays,
        symbolic: &Symbolic<Lower>,
        limits: &Limits,
        failed: &[u32],
    ) -> Option<Vec<(u32, u32)>> {
        let fronts = symbolic.tree().fronts().iter();
        let places: Vec<u32> = fronts.flat_map(|front| 0..front.pivots).collect();
        let kinds = vec![kind::ONE; places.len()];
        let found = Found {
            places: &places,
            kinds: &kinds,
            failed,
        };
        let moves = delays.moves(symbolic, limits, &found)?;
        let pairs = moves.into_iter().map(|Move { pivot, up }| (pivot, up));
        Some(pairs.collect())
    }

    #[test]
    fn the_lowest_fronts_are_acted_on_first() {
        let symbolic = path(&[2, 2, 2, 2, 2, 2]);
        let limits = Limits::default();
        let mut delays = Delays::default();
        let mut moves =
            |failed: &[u32]| moved(&mut delays, &symbolic, &limits, failed).unwrap_or_default();
        assert_eq!(moves(&[3, 5, 6, 7]), [(3, 1)]);
        assert_eq!(moves(&[8, 9]), [(8, 1), (9, 1)]);
        // All, and farther, but not beyond the root.
        assert_eq!(moves(&[0, 2]), [(0, 2), (2, 2)]);
        assert_eq!(moves(&[9]), [(9, 1)]);
        assert_eq!(moves(&[0, 4]), [(0, 4), (4, 3)]);
        // From a root nothing goes anywhere.
        assert_eq!(moves(&[10]), []);
        assert_eq!(delays.num_delayed, 3 + 4 + 1 + 7);
    }

    #[test]
    fn columns_of_tiles_go_to_the_end_before_they_leave() {
        let symbolic = path(&[150, 100]);
        let limits = Limits {
            small_front: 0,
            whole_front: 0,
            ..Limits::default()
        };
        let mut delays = Delays::default();
        let mut moves =
            |failed: &[u32]| moved(&mut delays, &symbolic, &limits, failed).unwrap_or_default();
        // All others as they were, and then these in any order.
        let check = |moves: &[(u32, u32)], columns: std::ops::Range<u32>, end: &[u32]| {
            assert!(moves.iter().all(|&(_, up)| up == 0));
            let order: Vec<u32> = moves.iter().map(|&(pivot, _)| pivot).collect();
            let (first, last) = order.split_at(order.len() - end.len());
            let others = columns.filter(|pivot| !end.contains(pivot));
            assert!(others.eq(first.iter().copied()));
            let mut last = last.to_vec();
            last.sort_unstable();
            assert_eq!(last, end);
        };
        assert_eq!(moves(&[130, 149]), [(130, 1), (149, 1)]);
        check(&moves(&[3, 70, 140]), 0..150, &[3, 70, 140]);
        // A second time they leave.
        let again = moves(&[3, 71]);
        assert_eq!(again[0], (3, 1));
        assert_eq!(again.len(), 150);
        assert_eq!(again[149], (71, 0));
        assert!(
            again[1..149]
                .iter()
                .all(|&(pivot, up)| up == 0 && pivot != 3)
        );
        // Those of the last tile too, if none goes to the end; the others keep their order.
        let again = moves(&[70, 140]);
        assert_eq!(again[..2], [(70, 1), (140, 1)]);
        let stay = (0..150).filter(|pivot| ![70, 140].contains(pivot));
        assert!(stay.map(|pivot| (pivot, 0)).eq(again[2..].iter().copied()));
        // At a root they go there again and again, in ever other orders.
        let end: Vec<u32> = (150..180).collect();
        let (one, other) = (moves(&end), moves(&end));
        check(&one, 150..250, &end);
        check(&other, 150..250, &end);
        assert_ne!(one, other);
        assert_eq!(delays.num_delayed, 5);
    }

    /// Candidates of wide fronts are those of half a tile: the first half of the last tile is not at the end.
    #[test]
    fn columns_of_half_a_wide_tile_go_to_the_end() {
        let symbolic = path(&[250, 100]);
        let limits = Limits {
            small_front: 0,
            whole_front: 0,
            tiled_front: 0,
            ..Limits::default()
        };
        let mut delays = Delays::default();
        assert_eq!(
            moved(&mut delays, &symbolic, &limits, &[192, 249]).unwrap(),
            [(192, 1), (249, 1)]
        );
        let moves = moved(&mut delays, &symbolic, &limits, &[191]).unwrap();
        assert_eq!((moves.len(), moves[249]), (250, (191, 0)));
        // In a root too.
        let moves = moved(&mut delays, &symbolic, &limits, &[300]).unwrap();
        assert_eq!((moves.len(), moves[99]), (100, (300, 0)));
    }

    /// Columns that have each other's rows go together, those with rows of their own alone.
    #[test]
    fn columns_go_with_those_that_have_their_rows() {
        let pattern = pattern_from(7, (0..7).flat_map(|j| (0..7).map(move |i| (j, i))));
        let symbolic = Symbolic::<Full>::analyze(&pattern, &TreeOptions::default()).unwrap();
        let tree = symbolic.tree();
        // Cycles 0, 3, 1 and 2, 5; 4 and 6 stay.
        let row_places = [3, 0, 5, 1, 4, 2, 6];
        let goes = |columns: &[usize]| {
            let failed: Vec<bool> = (0..7).map(|e| columns.contains(&e)).collect();
            closed(tree, &row_places, &failed)
        };
        assert_eq!(goes(&[]), []);
        assert_eq!(goes(&[3]), [0, 1, 3]);
        assert_eq!(goes(&[0, 3]), [0, 1, 3]);
        assert_eq!(goes(&[4, 5]), [2, 4, 5]);
        assert_eq!(goes(&[1, 2, 6]), [0, 1, 2, 3, 5, 6]);
    }

    /// What was found stays as far as it can when columns move.
    #[test]
    fn found_pivots_are_carried_to_another_tree() {
        let symbolic = path(&[4, 5, 3]);
        let limits = Limits::default();
        // Within their fronts: two pivots of order 2; the columns 8, 4 and 5 (a pivot of order 2), 7, 6; and 9 to 11.
        let places = [2, 3, 0, 1, 1, 2, 4, 3, 0, 0, 1, 2];
        let [one, first, second] = [kind::ONE, kind::FIRST_OF_TWO, kind::SECOND_OF_TWO];
        let mut kinds = [
            first, second, first, second, one, first, second, one, one, one, first, second,
        ];
        let carried = |kinds: &[u32], failed: &[u32]| {
            let found = Found {
                places: &places,
                kinds,
                failed,
            };
            let moves: Vec<Move> = failed.iter().map(|&pivot| Move { pivot, up: 1 }).collect();
            let after = symbolic.moved(&moves, 1).unwrap();
            let order = after.tree().perm().to_vec();
            let (places, kinds) = found.carried(symbolic.tree(), after.tree(), &limits);
            // The columns by where they are.
            let mut at = vec![u32::MAX; order.len()];
            for front in after.tree().fronts() {
                for e in front.pivot_range() {
                    at[(front.start + places[e]) as usize] = order[e];
                }
            }
            (at, kinds)
        };
        // Nothing moves.
        let (at, found) = carried(&kinds, &[]);
        assert_eq!(at, [2, 3, 0, 1, 8, 4, 5, 7, 6, 9, 10, 11]);
        assert_eq!(found, kinds);
        // Column 7 goes up, behind those that are there.
        let (at, found) = carried(&kinds, &[7]);
        assert_eq!(at, [2, 3, 0, 1, 8, 4, 5, 6, 9, 10, 11, 7]);
        let expected = [first, second, first, second, one, first, second, one];
        assert_eq!(found[..8], expected);
        assert_eq!(found[8..], [one, first, second, one]);
        // A pivot of order 2 that has failed is none.
        kinds[5] = kind::NONE;
        kinds[6] = kind::NONE;
        let (at, found) = carried(&kinds, &[4, 5]);
        assert_eq!(at, [2, 3, 0, 1, 8, 7, 6, 9, 10, 11, 4, 5]);
        assert_eq!(found[4..], [one, one, one, one, first, second, one, one]);
        // Tiles are carried each by itself.
        let symbolic = path(&[130, 10]);
        let limits = Limits {
            small_front: 0,
            whole_front: 0,
            ..limits
        };
        let mut places: Vec<u32> = (0..130).chain(0..10).collect();
        places[..64].reverse();
        let kinds = vec![one; 140];
        let found = Found {
            places: &places,
            kinds: &kinds,
            failed: &[],
        };
        let carried = found.carried(symbolic.tree(), symbolic.tree(), &limits);
        assert_eq!(carried.0[..130], places[..130]);
    }

    /// Where few columns fail, they go twice as far from round to round.
    #[test]
    fn few_columns_go_farther_sooner() {
        let symbolic = path(&[2; FEW / 2]);
        let limits = Limits::default();
        let ups = |failed: &[u32]| {
            let mut delays = Delays::default();
            let rounds = (0..4).map(|_| {
                let moves = moved(&mut delays, &symbolic, &limits, failed);
                moves.unwrap_or_default()[0].1
            });
            rounds.collect::<Vec<_>>()
        };
        assert_eq!(ups(&[0]), [1, 2, 4, 8]);
        assert_eq!(ups(&[0, 1]), [1, 1, 2, 2]);
    }

    /// Columns that come to lie where tiles meet.
    #[test]
    fn pivots_of_order_two_stay_in_one_tile() {
        let symbolic = path(&[200, 100]);
        let front = symbolic.tree().fronts()[0];
        let places: Vec<u32> = (0..300).collect();
        // Found in the order 1, 0, 2, 3, ...
        let mut swapped = places.clone();
        swapped.swap(0, 1);
        let rearranged = |kinds: &[u32], places: &[u32], failed: &[u32]| {
            let found = Found {
                places,
                kinds,
                failed,
            };
            rearranged(&front, &found, failed)
        };
        let ones = vec![kind::ONE; 300];
        let of_ones = rearranged(&ones, &swapped, &[5]);
        assert_eq!(of_ones[..6], [1, 0, 2, 3, 4, 6]);
        assert_eq!(of_ones[198..], [199, 5]);
        // Pairs but for the first four columns, column 150 and the last one.
        let mut kinds = ones;
        let firsts = (4..150).step_by(2).chain((151..199).step_by(2));
        for p in firsts {
            kinds[p] = kind::FIRST_OF_TWO;
            kinds[p + 1] = kind::SECOND_OF_TWO;
        }
        let is_uncut = |order: &[u32]| {
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..200));
            let is_first = |&pivot: &u32| kinds[pivot as usize] == kind::FIRST_OF_TWO;
            let firsts = (0..200).filter(|&at| is_first(&order[at]));
            firsts
                .map(|at| {
                    assert_eq!(order[at + 1], order[at] + 1);
                    at % 64
                })
                .all(|at| at != 63)
        };
        let order = rearranged(&kinds, &places, &[3]);
        // Without column 3 one of them would be at places 63 and 64.
        assert_eq!((order[63], order[199]), (150, 3));
        assert!(is_uncut(&order));
        // Where there is no other one, one of those that failed.
        let order = rearranged(&kinds, &places, &[3, 150, 199]);
        assert_eq!((order[63], &order[198..]), (3, &[150, 199][..]));
        assert!(is_uncut(&order));
        // Of a pivot that failed both columns go to the end.
        let order = rearranged(&kinds, &places, &[10, 11]);
        assert_eq!(order[198..], [10, 11]);
    }

    /// From all fronts, those of several tiles and those above others that fail too.
    #[test]
    fn very_few_columns_go_far_at_once() {
        let mut pivots = vec![2; VERY_FEW];
        pivots.extend([150, 100]);
        let symbolic = path(&pivots);
        let in_tiles = 2 * VERY_FEW as u32 + 3;
        let in_root = in_tiles + 150;
        let limits = Limits::default();
        let delayed = |failed: &[u32]| {
            let moves = moved(&mut Delays::default(), &symbolic, &limits, failed);
            let moves = moves.unwrap_or_default().into_iter();
            moves.filter(|&(_, up)| up > 0).collect::<Vec<_>>()
        };
        assert_eq!(delayed(&[0, 7]), [(0, 4), (7, 4)]);
        assert_eq!(delayed(&[0, 7, 9]), [(0, 1)]);
        assert_eq!(delayed(&[0, in_tiles]), [(0, 4), (in_tiles, 1)]);
        // Within a root there is nowhere to go but its end.
        let moves = moved(&mut Delays::default(), &symbolic, &limits, &[in_root]);
        assert_eq!(moves.unwrap_or_default().last(), Some(&(in_root, 0)));
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
            let moves = moved(&mut delays, &symbolic, &limits, &[pivot]).unwrap_or_default();
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
            (0..2 * ROUNDS).take_while(|_| moved(&mut delays, &symbolic, &limits, &[5]).is_some());
        assert_eq!(rounds.count() as u32, ROUNDS - 1);
    }
}
