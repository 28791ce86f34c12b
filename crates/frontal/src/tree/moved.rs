//! Trees some of whose columns are eliminated later: at the end of their front, or in a front above.

use luge_sparse::etree::{NONE, inverse};

use super::parts::{Parts, list_children};
use super::{AssemblyTree, Front, Structure};
use crate::error::FrontalError;

/// A column that is eliminated later than planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Move {
    /// Its place in the order of elimination.
    pub pivot: u32,
    /// How many fronts up it goes, to the root at most; none: it stays in its own.
    pub up: u32,
}

/// Where columns go.
struct Destinations {
    /// The front of each column, by its place in the order of elimination, or [`NONE`] if it stays.
    of_pivot: Vec<u32>,
    /// The columns that arrive in each front and those that go to its end: ascending by front, in the order of the moves.
    arrivals: Vec<(u32, u32)>,
    /// The columns that fronts get as rows below their pivots, ascending by front.
    rows: Vec<(u32, u32)>,
}

impl Destinations {
    #[track_caller]
    fn new(fronts: &[Front], n: usize, moves: &[Move]) -> Self {
        let mut of_pivot = vec![NONE; n];
        let mut arrivals = Vec::with_capacity(moves.len());
        let mut rows = Vec::new();
        for &Move { pivot, up } in moves {
            let mut to = fronts.partition_point(|front| front.start <= pivot) as u32 - 1;
            for _ in 0..up {
                let parent = fronts[to as usize].parent;
                if parent == NONE {
                    break;
                }
                rows.push((to, pivot));
                to = parent;
            }
            let before = std::mem::replace(&mut of_pivot[pivot as usize], to);
            assert_eq!(before, NONE, "a column moves once");
            arrivals.push((to, pivot));
        }
        arrivals.sort_by_key(|&(to, _)| to);
        rows.sort_unstable();
        Self {
            of_pivot,
            arrivals,
            rows,
        }
    }
}

/// What a list sorted by fronts has for front `s`, and what comes behind it.
fn of_front<'a>(s: usize, list: &mut &'a [(u32, u32)]) -> impl Iterator<Item = u32> + 'a {
    let count = list.partition_point(|&(front, _)| front as usize <= s);
    let (own, rest) = list.split_at(count);
    *list = rest;
    own.iter().map(|&(_, pivot)| pivot)
}

/// The tree whose columns have moved, with what `beside` makes of it before its relative indices are known. The columns
/// that arrive in a front follow its own, in the order of `moves`.
///
/// Fronts on the way of a column get a row for it, and keep those they have. A front that has no column left is no front any
/// more; its children are those of the next one above that there is. Linear in the rows of all fronts, but for sorting each
/// front's. With `threads` above 1, those of the current rayon pool share a part of the work.
///
/// # Panics
///
/// If a column moves twice.
#[track_caller]
pub(crate) fn moved<R: Send>(
    tree: &AssemblyTree,
    moves: &[Move],
    threads: usize,
    beside: impl FnOnce(Structure<'_>) -> Result<R, FrontalError> + Send,
) -> Result<(AssemblyTree, R), FrontalError> {
    let Destinations {
        of_pivot,
        arrivals,
        rows: more_rows,
    } = Destinations::new(&tree.fronts, tree.n(), moves);
    // The order of elimination, new to old, and the new number of each front.
    let mut order = Vec::with_capacity(tree.n());
    let mut numbers = vec![NONE; tree.fronts.len()];
    let mut fronts: Vec<Front> = Vec::with_capacity(tree.fronts.len());
    let mut arrivals = &arrivals[..];
    for (s, front) in tree.fronts.iter().enumerate() {
        let start = order.len() as u32;
        let stay = front.pivot_range().filter(|&e| of_pivot[e] == NONE);
        order.extend(stay.map(|e| e as u32));
        order.extend(of_front(s, &mut arrivals));
        let pivots = order.len() as u32 - start;
        if pivots > 0 {
            numbers[s] = fronts.len() as u32;
            fronts.push(Front {
                start,
                pivots,
                ..*front
            });
        }
    }
    let position = inverse(&order);
    let rows = rows_of_fronts(tree, &position, &more_rows, &numbers, &mut fronts);
    let children = link(&tree.fronts, &mut numbers, &mut fronts);
    let parts = Parts {
        perm: order.iter().map(|&e| tree.perm[e as usize]).collect(),
        fronts,
        children,
        rows,
    };
    parts.for_pattern_of(tree, threads, beside)
}

/// The rows of all fronts that there still are, which learn how many they have: those of before and `more_rows`, in the
/// order of elimination.
fn rows_of_fronts(
    tree: &AssemblyTree,
    position: &[u32],
    mut more_rows: &[(u32, u32)],
    numbers: &[u32],
    fronts: &mut [Front],
) -> Vec<u32> {
    let mut rows = Vec::with_capacity(tree.rows.len() + more_rows.len());
    for (s, &number) in numbers.iter().enumerate() {
        let more = of_front(s, &mut more_rows);
        let Some(front) = fronts.get_mut(number as usize) else {
            continue;
        };
        let first = rows.len();
        let before = tree.rows_below(s).iter().copied();
        rows.extend(before.chain(more).map(|e| position[e as usize]));
        rows[first..].sort_unstable();
        front.rows = first as u64;
        front.below = (rows.len() - first) as u32;
    }
    rows
}

/// Tells fronts of their parents, depths and children; returns the list of children. `numbers` are the new numbers of the
/// fronts, and become those of the next that there is above one that there is no more.
fn link(before: &[Front], numbers: &mut [u32], fronts: &mut [Front]) -> Vec<u32> {
    for (s, old) in before.iter().enumerate().rev() {
        // Parents come behind their children, so theirs is known.
        let above = match old.parent {
            NONE => NONE,
            parent => numbers[parent as usize],
        };
        if numbers[s] == NONE {
            numbers[s] = above;
        } else {
            fronts[numbers[s] as usize].parent = above;
        }
    }
    list_children(fronts)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use luge_sparse::{CancelFlag, CompressedPattern, PivotPolicy};
    use luge_testkit::strategies::{pattern_from, symmetric_matrices};
    use proptest::prelude::*;
    use sprs::CsMat;

    use super::*;
    use crate::tree::{Gathering, TreeOptions};
    use crate::{FrontalLdlt, Full, Lower, Options, Storage, Symbolic};

    /// Structures of the columns of the factor of this pattern, in the order of elimination.
    fn filled(cols: &CompressedPattern, perm: &[u32]) -> Vec<Vec<bool>> {
        let n = perm.len();
        let place = inverse(perm);
        let mut filled = vec![vec![false; n]; n];
        for (j, line) in cols.lines().enumerate() {
            for &i in line {
                let (i, j) = (place[i as usize] as usize, place[j] as usize);
                filled[i.min(j)][i.max(j)] = true;
            }
        }
        for e in 0..n {
            let below: Vec<usize> = (e + 1..n).filter(|&i| filled[e][i]).collect();
            for &j in &below {
                for &i in below.iter().filter(|&&i| i >= j) {
                    filled[j][i] = true;
                }
            }
        }
        filled
    }

    /// Checks a tree by the definitions.
    pub fn check<S: Storage>(symbolic: &Symbolic<S>) {
        let tree = symbolic.tree();
        let fronts = tree.fronts();
        let mut order = tree.perm().to_vec();
        let filled = filled(&tree.pattern, &order);
        order.sort_unstable();
        assert_eq!(order, (0..tree.n() as u32).collect::<Vec<_>>());
        let (mut start, mut rows, mut entries, mut children) = (0, 0, 0, 0);
        for (s, front) in fronts.iter().enumerate() {
            assert!(front.pivots > 0 || front.num_children > 1);
            assert_eq!((front.start, front.rows), (start, rows));
            start += front.pivots;
            rows += u64::from(front.below);
            entries += S::factor_entries(front.pivots, front.below);
            let below = tree.rows_below(s);
            assert!(below.is_sorted_by(|a, b| a < b));
            assert!(below.first().is_none_or(|&first| first >= start));
            for e in front.pivot_range() {
                for i in (start as usize..tree.n()).filter(|&i| filled[e][i]) {
                    assert!(below.contains(&(i as u32)), "row {i} of front {s}");
                }
            }
            let of_parent = |parent: &&u32| **parent == s as u32;
            let parents: Vec<u32> = fronts.iter().map(|front| front.parent).collect();
            let own: Vec<u32> = (0..s as u32)
                .filter(|&c| of_parent(&&parents[c as usize]))
                .collect();
            assert_eq!(tree.children(s), own);
            children += own.len();
            let Some(parent) = fronts.get(front.parent as usize) else {
                assert!(below.is_empty());
                continue;
            };
            assert!(front.parent as usize > s && front.depth == parent.depth + 1);
            let of_parent = parent.pivot_range().map(|e| e as u32);
            let of_parent: Vec<u32> = of_parent
                .chain(tree.rows_below(front.parent as usize).iter().copied())
                .collect();
            let relative = &tree.relative[front.row_range()];
            let through: Vec<u32> = relative.iter().map(|&at| of_parent[at as usize]).collect();
            assert_eq!(through, below);
            let in_pivots = relative.iter().filter(|&&at| at < parent.pivots);
            assert_eq!(in_pivots.count() as u32, front.pivots_in_parent);
        }
        assert_eq!((start as usize, rows as usize), (tree.n(), tree.rows.len()));
        assert_eq!(children, tree.children.len());
        assert_eq!(symbolic.factor_entries(), entries);
        assert_eq!(
            tree.max_front(),
            fronts.iter().map(Front::size).max().unwrap_or(0) as usize
        );
        let mut sources = symbolic.layout.source.clone();
        sources.sort_unstable();
        assert_eq!(sources, (0..tree.nnz() as u32).collect::<Vec<_>>());
        for (s, front) in fronts.iter().enumerate() {
            let range = symbolic.layout.entry_ptr[s]..symbolic.layout.entry_ptr[s + 1];
            let targets = &symbolic.layout.target[range.start as usize..range.end as usize];
            let slot = S::slot_entries(front.pivots, front.below);
            assert!(targets.iter().all(|&place| u64::from(place) < slot));
        }
    }

    /// One triangle of a matrix by columns, in either triangle, with its values.
    fn triangle(a: &CsMat<f64>) -> (CompressedPattern, Vec<f64>) {
        let is_upper = |i: usize, j: usize| i == j || (i < j) == (i + j).is_multiple_of(3);
        let mut entries: Vec<_> = a.iter().map(|(&v, (i, j))| (j, i, v)).collect();
        entries.retain(|&(j, i, _)| is_upper(i, j));
        entries.sort_by_key(|&(j, i, _)| (j, i));
        let pattern = pattern_from(
            a.rows(),
            entries.iter().map(|&(j, i, _)| (j as u32, i as u32)),
        );
        (pattern, entries.into_iter().map(|(.., v)| v).collect())
    }

    #[test]
    fn columns_go_to_the_end_of_their_front_and_up() {
        // Two fronts of two columns below one of three.
        let blocks: [&[u32]; 3] = [&[0, 1, 4, 5], &[2, 3, 4, 6], &[4, 5, 6]];
        let entries = blocks.iter().flat_map(|block| {
            block
                .iter()
                .flat_map(|&i| block.iter().map(move |&j| (i, j)))
        });
        let cols = pattern_from(7, entries.filter(|(i, j)| i <= j).collect::<Vec<_>>());
        let options = TreeOptions {
            zero_fraction: 0.0,
            tiny_zero_fraction: 0.0,
            ..TreeOptions::default()
        };
        let symbolic = Symbolic::<Lower>::analyze(&cols, &options).unwrap();
        let shapes = |symbolic: &Symbolic<Lower>| -> Vec<(u32, u32, u32)> {
            let fronts = symbolic.tree().fronts().iter();
            fronts.map(|f| (f.parent, f.pivots, f.below)).collect()
        };
        assert_eq!(shapes(&symbolic), [(2, 2, 2), (2, 2, 2), (NONE, 3, 0)]);
        let perm = symbolic.tree().perm().to_vec();
        let moved = |moves: &[(u32, u32)]| {
            let moves: Vec<Move> = moves
                .iter()
                .map(|&(pivot, up)| Move { pivot, up })
                .collect();
            let moved = symbolic.moved(&moves, 1).unwrap();
            check(&moved);
            let place = inverse(&perm);
            let order = moved.tree().perm().iter();
            let order: Vec<u32> = order.map(|&column| place[column as usize]).collect();
            (shapes(&moved), order)
        };
        let (fronts, order) = moved(&[]);
        assert_eq!((fronts, order), (shapes(&symbolic), (0..7).collect()));
        let (fronts, order) = moved(&[(0, 0), (5, 0), (4, 7)]);
        assert_eq!(fronts, shapes(&symbolic));
        assert_eq!(order, [1, 0, 2, 3, 6, 5, 4]);
        let (fronts, order) = moved(&[(3, 1), (1, 1), (4, 0)]);
        assert_eq!(fronts, [(2, 1, 3), (2, 1, 3), (NONE, 5, 0)]);
        assert_eq!(order, [0, 2, 5, 6, 3, 1, 4]);
        // A front without columns is none.
        let (fronts, order) = moved(&[(0, 1), (1, 2)]);
        assert_eq!(fronts, [(1, 2, 2), (NONE, 5, 0)]);
        assert_eq!(order, [2, 3, 4, 5, 6, 0, 1]);
    }

    #[test]
    #[should_panic(expected = "moves once")]
    fn a_column_that_moves_twice_is_refused() {
        let symbolic =
            Symbolic::<Lower>::analyze(&pattern_from(1, [(0, 0)]), &TreeOptions::default())
                .unwrap();
        let once = Move { pivot: 0, up: 1 };
        symbolic.moved(&[once, once], 1).unwrap();
    }

    proptest! {
        /// Again and again, and children be added up by groups, the factors being those of the same matrix.
        #[test]
        fn any_columns_of_any_tree_may_move(
            a in symmetric_matrices(40),
            rounds in proptest::collection::vec(
                proptest::collection::btree_map(0u32..40, 0u32..4, 0..12), 1..4),
            merge in prop_oneof![Just(0.0), Just(0.3)],
            (most_trips, group) in (0.0..5.0f64, 1.0..5.0f64),
        ) {
            let gathering = Gathering { most_trips, group };
            let options = TreeOptions {
                zero_fraction: merge,
                tiny_zero_fraction: merge,
                ..TreeOptions::default()
            };
            let n = a.rows();
            let (cols, mut values) = triangle(&a);
            // Definite, so that solutions can be compared.
            for j in 0..n {
                for p in cols.range(j) {
                    if cols.idx()[p] as usize == j {
                        values[p] = 100.0 * n as f64;
                    }
                }
            }
            let mut symbolic = Symbolic::<Lower>::analyze(&cols, &options).unwrap();
            let mut full = Symbolic::<Full>::analyze(&cols, &options).unwrap();
            check(&symbolic);
            for moves in rounds {
                let moves = moves.into_iter().filter(|&(pivot, _)| (pivot as usize) < n);
                let moves: Vec<Move> = moves.map(|(pivot, up)| Move { pivot, up }).collect();
                symbolic = symbolic.moved(&moves, 1).unwrap();
                full = full.moved(&moves, 1).unwrap();
                check(&symbolic);
                check(&full);
                symbolic = symbolic.gathered(&gathering, 1).unwrap();
                full = full.gathered(&gathering, 1).unwrap();
                check(&symbolic);
                check(&full);
            }
            let known: Vec<f64> = (0..n).map(|i| 1.0 + (i % 5) as f64).collect();
            let mut x = vec![0.0; n];
            for (j, line) in cols.lines().enumerate() {
                for (&i, p) in line.iter().zip(cols.range(j)) {
                    x[i as usize] += values[p] * known[j];
                    if i as usize != j {
                        x[j] += values[p] * known[i as usize];
                    }
                }
            }
            let options = Options { pivots: PivotPolicy::symmetric(0.01), ..Options::default() };
            let symbolic = Arc::new(symbolic);
            let (factors, _) = FrontalLdlt::factorize(&symbolic, &values, &options).unwrap();
            factors.solve(&mut x, 1, 1, &CancelFlag::new()).unwrap();
            for (found, known) in x.iter().zip(&known) {
                prop_assert!((found - known).abs() < 1e-12, "{found} for {known}");
            }
        }
    }
}
