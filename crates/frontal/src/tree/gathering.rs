//! Fronts without pivots, which add up elements of very many children for a front.
//!
//! One warp or block assembles a front on a device, one child after the other, and one task gathers what its children leave in a
//! solve. A front with tens of thousands of children, as a dense row of the matrix makes one, keeps all others waiting; groups of
//! its children are assembled side by side, and groups of these, until it has few.
//!
//! What matters is how often in a row the memory is asked and waited for: a *trip* takes 0.5 to 1 µs, whatever it brings.

use luge_gpu_kernels::frontal::plan::{GATHERED, SMALL_FRONT, TILE, WHOLE_FRONT};
use luge_sparse::etree::NONE;

use super::parts::{Parts, list_children};
use super::{AssemblyTree, Front, Structure};
use crate::error::FrontalError;

/// When children of a front are assembled by groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gathering {
    /// Trips to the memory, one after the other, that a front may need for all of its children without groups.
    pub most_trips: f64,
    /// Those of a group.
    pub group: f64,
}

impl Default for Gathering {
    /// A front more on the path to the root takes about as long as five trips.
    fn default() -> Self {
        Self {
            most_trips: 40.0,
            group: 16.0,
        }
    }
}

/// Rows of an element up to which a warp reads it in one trip; larger ones of small fronts take two.
const ONE_TRIP: u32 = 8;

/// Entries that a block adds one by one in a trip: eight for each thread.
const ENTRIES_A_TRIP: f64 = 2048.0;

/// Columns of a larger element that a block reads in a trip.
const COLUMNS_A_TRIP: u32 = 32;

/// Trips for an element with so many rows, where a front of so many is assembled.
fn trips(front: u32, below: u32) -> f64 {
    if front <= SMALL_FRONT {
        return if below <= ONE_TRIP { 1.0 } else { 2.0 };
    }
    let of_block = if below <= GATHERED {
        entries(below) as f64 / ENTRIES_A_TRIP
    } else {
        f64::from(below.div_ceil(COLUMNS_A_TRIP))
    };
    // Of a front that is cut into tiles each block adds what is in its own.
    let side_by_side = if front <= WHOLE_FRONT {
        1
    } else {
        front.div_ceil(TILE)
    };
    of_block / f64::from(side_by_side)
}

/// Trips for elements with so many rows each.
fn all_trips(front: &Front, below: impl Iterator<Item = u32>) -> f64 {
    below.map(|below| trips(front.size(), below)).sum()
}

/// Entries of an element: of both triangles, for all that matters is what is more.
fn entries(rows: u32) -> u64 {
    u64::from(rows) * u64::from(rows)
}

/// Children of a front that are put together.
struct Group {
    front: u32,
    /// Their places among the children of that front, those of groups within it included.
    children: std::ops::Range<usize>,
    /// The rows of all of them, ascending.
    rows: Vec<u32>,
    /// The group that this one is in.
    above: Option<usize>,
}

/// What a front, or a group, adds up: a child, or a group of children.
struct Addend {
    children: std::ops::Range<usize>,
    group: Option<usize>,
    below: u32,
}

/// Groups of the children of fronts.
struct Grouping<'a> {
    tree: &'a AssemblyTree,
    gathering: Gathering,
    /// Groups stand behind those within them.
    groups: Vec<Group>,
    /// Of each row the last run of addends that it was seen in, once there was one, and how many runs there were.
    seen_in: Vec<u32>,
    runs: u32,
}

impl<'a> Grouping<'a> {
    fn new(tree: &'a AssemblyTree, gathering: Gathering) -> Self {
        Self {
            tree,
            gathering,
            groups: Vec::new(),
            seen_in: Vec::new(),
            runs: 0,
        }
    }

    /// Puts children of front `s` together until it has to wait for few.
    fn group_children(&mut self, s: usize) {
        let front = &self.tree.fronts[s];
        let children = self.tree.children(s);
        let below = |&child: &u32| self.tree.fronts[child as usize].below;
        let most = self.gathering.most_trips;
        if all_trips(front, children.iter().map(below)) <= most {
            return;
        }
        let alone = |(at, child)| Addend {
            children: at..at + 1,
            group: None,
            below: below(child),
        };
        let mut addends: Vec<Addend> = children.iter().enumerate().map(alone).collect();
        while all_trips(front, addends.iter().map(|addend| addend.below)) > most {
            let before = addends.len();
            addends = self.grouped(s, addends);
            if addends.len() == before {
                break;
            }
        }
    }

    /// What is left of the addends of front `s` once runs of them are groups. Those that are next to each other stand side by side
    /// in postorder, so that a group is a subtree.
    fn grouped(&mut self, s: usize, addends: Vec<Addend>) -> Vec<Addend> {
        let mut left = Vec::with_capacity(addends.len());
        let mut addends = addends.into_iter().peekable();
        let mut run: Vec<Addend> = Vec::new();
        while let Some(first) = addends.next() {
            self.runs += 1;
            run.clear();
            let mut rows = Vec::new();
            // By how many rows a warp would add it up, or a block.
            let (mut of_warp, mut of_block) = (0.0, 0.0);
            let mut of_addends = 0;
            let mut next = Some(first);
            while let Some(addend) = next {
                self.add_rows(s, &addend, &mut rows);
                of_warp += trips(SMALL_FRONT, addend.below);
                of_block += trips(WHOLE_FRONT, addend.below);
                of_addends += entries(addend.below);
                run.push(addend);
                let in_all = if rows.len() <= SMALL_FRONT as usize {
                    of_warp
                } else {
                    of_block
                };
                let is_full = in_all >= self.gathering.group;
                // One that takes more than half of a group is added up by the front itself.
                let may_follow =
                    |of: &Addend| 2.0 * trips(WHOLE_FRONT, of.below) <= self.gathering.group;
                let goes_on = !is_full && run.last().is_some_and(&may_follow);
                next = if goes_on {
                    addends.next_if(may_follow)
                } else {
                    None
                };
            }
            // Where they share few rows there is nothing to add up.
            if run.len() > 1 && 2 * entries(rows.len() as u32) <= of_addends {
                left.push(self.put_together(s, &run, rows));
            } else {
                left.append(&mut run);
            }
        }
        left
    }

    /// Adds those rows of an addend of front `s` that no other one of this run has.
    fn add_rows(&mut self, s: usize, addend: &Addend, rows: &mut Vec<u32>) {
        let own = match addend.group {
            Some(group) => &self.groups[group].rows,
            None => {
                let child = self.tree.children(s)[addend.children.start];
                self.tree.rows_below(child as usize)
            }
        };
        self.seen_in.resize(self.tree.n(), 0);
        for &row in own {
            let seen_in = std::mem::replace(&mut self.seen_in[row as usize], self.runs);
            if seen_in != self.runs {
                rows.push(row);
            }
        }
    }

    /// Makes a group of addends of front `s`, which have these rows.
    fn put_together(&mut self, s: usize, run: &[Addend], mut rows: Vec<u32>) -> Addend {
        let number = self.groups.len();
        rows.sort_unstable();
        for group in run.iter().filter_map(|addend| addend.group) {
            self.groups[group].above = Some(number);
        }
        let children = run[0].children.start..run[run.len() - 1].children.end;
        let below = rows.len() as u32;
        self.groups.push(Group {
            front: s as u32,
            children: children.clone(),
            rows,
            above: None,
        });
        Addend {
            children,
            group: Some(number),
            below,
        }
    }
}

/// The tree in which groups of children have a front without pivots between them and their parent, with what `beside` makes of
/// it before its relative indices are known; `None` if no front has so many children.
pub(crate) fn gathered<R: Send>(
    tree: &AssemblyTree,
    gathering: &Gathering,
    threads: usize,
    beside: impl FnOnce(Structure<'_>) -> Result<R, FrontalError> + Send,
) -> Result<Option<(AssemblyTree, R)>, FrontalError> {
    let mut grouping = Grouping::new(tree, *gathering);
    (0..tree.fronts.len()).for_each(|s| grouping.group_children(s));
    let groups = grouping.groups;
    if groups.is_empty() {
        return Ok(None);
    }
    // The innermost group that each is in.
    let mut group_of = vec![NONE; tree.fronts.len()];
    for (number, group) in (0u32..).zip(&groups) {
        for &child in &tree.children(group.front as usize)[group.children.clone()] {
            let group = &mut group_of[child as usize];
            *group = number.min(*group);
        }
    }
    let more_rows: usize = groups.iter().map(|group| group.rows.len()).sum();
    let mut fronts: Vec<Front> = Vec::with_capacity(tree.fronts.len() + groups.len());
    let mut rows = Vec::with_capacity(tree.rows.len() + more_rows);
    // A group stands behind the last of its children, and behind groups within it that end with that one, too.
    let last_child = |group: &Group| tree.children(group.front as usize)[group.children.end - 1];
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&group| last_child(&groups[group]));
    let mut order = order.into_iter().peekable();
    // New numbers of fronts and of groups.
    let mut numbers = Vec::with_capacity(tree.fronts.len());
    let mut group_numbers = vec![NONE; groups.len()];
    for (s, front) in tree.fronts.iter().enumerate() {
        numbers.push(fronts.len() as u32);
        fronts.push(Front {
            rows: rows.len() as u64,
            ..*front
        });
        rows.extend_from_slice(tree.rows_below(s));
        while let Some(number) = order.next_if(|&group| last_child(&groups[group]) == s as u32) {
            let group = &groups[number];
            group_numbers[number] = fronts.len() as u32;
            fronts.push(Front {
                start: front.start + front.pivots,
                pivots: 0,
                below: group.rows.len() as u32,
                rows: rows.len() as u64,
                ..*front
            });
            rows.extend_from_slice(&group.rows);
        }
    }
    for (s, front) in tree.fronts.iter().enumerate() {
        fronts[numbers[s] as usize].parent = match (group_of[s], front.parent) {
            (NONE, NONE) => NONE,
            (NONE, parent) => numbers[parent as usize],
            (group, _) => group_numbers[group as usize],
        };
    }
    for (group, &number) in groups.iter().zip(&group_numbers) {
        fronts[number as usize].parent = match group.above {
            Some(above) => group_numbers[above],
            None => numbers[group.front as usize],
        };
    }
    let parts = Parts {
        perm: tree.perm.to_vec(),
        children: list_children(&mut fronts),
        fronts,
        rows,
    };
    let made = parts.for_pattern_of(tree, threads, beside)?;
    Ok(Some(made))
}

#[cfg(test)]
mod tests {
    use luge_testkit::strategies::pattern_from;

    use super::super::moved::tests::check;
    use super::*;
    use crate::Symbolic;
    use crate::storage::Lower;
    use crate::tree::{Move, TreeOptions};

    /// Parent, pivots and rows below of the fronts of a tree of `n` columns with these entries.
    fn fronts_of(
        n: usize,
        entries: impl Iterator<Item = (u32, u32)>,
        gathering: Gathering,
    ) -> Vec<(u32, u32, u32)> {
        let options = TreeOptions {
            zero_fraction: 0.0,
            tiny_zero_fraction: 0.0,
            ..TreeOptions::default()
        };
        let cols = pattern_from(n, entries.collect::<Vec<_>>());
        let symbolic = Symbolic::<Lower>::analyze(&cols, &options).unwrap();
        let symbolic = symbolic.gathered(&gathering, 1).unwrap();
        let fronts = symbolic.tree().fronts().iter();
        fronts.map(|f| (f.parent, f.pivots, f.below)).collect()
    }

    /// Where ten columns have entries in the last two, and so has one more, which is eliminated with these.
    fn gathered(gathering: Gathering) -> Vec<(u32, u32, u32)> {
        let entries = (0..11).flat_map(|j| [(j, j), (j, 11), (j, 12)]);
        let entries = entries.chain([(11, 11), (11, 12), (12, 12)]);
        fronts_of(13, entries, gathering)
    }

    #[test]
    fn children_are_added_up_by_groups() {
        let mut expected = Vec::new();
        for (group, count) in [(4, 4), (9, 4), (12, 2)] {
            expected.extend(vec![(group, 1, 2); count]);
            expected.push((13, 0, 2));
        }
        expected.push((NONE, 3, 0));
        let gathering = Gathering {
            most_trips: 9.0,
            group: 4.0,
        };
        assert_eq!(gathered(gathering), expected);
    }

    #[test]
    fn groups_are_added_up_by_groups_until_there_are_few() {
        // Pairs, pairs of these, and one of these: what is left are two.
        let parents = [
            2, 2, 6, 5, 5, 6, 14, 9, 9, 13, 12, 12, 13, 14, 18, 17, 17, 18, NONE,
        ];
        let gathering = Gathering {
            most_trips: 2.0,
            group: 2.0,
        };
        let fronts = gathered(gathering);
        let found: Vec<u32> = fronts.iter().map(|front| front.0).collect();
        assert_eq!(found, parents);
        let without_pivots = (0..18).filter(|&s| fronts[s].1 == 0);
        assert_eq!(
            without_pivots.collect::<Vec<_>>(),
            [2, 5, 6, 9, 12, 13, 14, 17]
        );
    }

    #[test]
    fn few_children_are_added_up_by_their_parent() {
        let mut expected = vec![(10, 1, 2); 10];
        expected.push((NONE, 3, 0));
        let gathering = Gathering {
            most_trips: 10.0,
            group: 4.0,
        };
        assert_eq!(gathered(gathering), expected);
    }

    /// So many columns with entries in the first of the last twenty and each in so many others, each time so many further on.
    fn of_rows(
        columns: u32,
        (others, step): (impl Fn(u32) -> u32, u32),
        gathering: Gathering,
    ) -> Vec<(u32, u32, u32)> {
        let rows = |j: u32| (0..others(j)).map(move |i| columns + 1 + (j * step + i) % 19);
        let leaves = (0..columns).flat_map(|j| rows(j).chain([j, columns]).map(move |i| (i, j)));
        let last = columns..columns + 20;
        let last = last.clone().flat_map(|j| last.clone().map(move |i| (i, j)));
        fronts_of(columns as usize + 20, leaves.chain(last), gathering)
    }

    #[test]
    fn large_children_are_added_up_by_their_parent() {
        // One trip each.
        let of = |group| {
            let gathering = Gathering {
                most_trips: 12.0,
                group,
            };
            let fronts = of_rows(24, (|_| 16, 0), gathering);
            fronts.iter().filter(|front| front.1 == 0).count()
        };
        assert_eq!([of(2.0), of(1.9)], [12, 0]);
        // Nor do small ones follow it.
        let gathering = Gathering {
            most_trips: 1.0,
            group: 1.9,
        };
        let fronts = of_rows(40, (|j| if j == 0 { 16 } else { 11 }, 0), gathering);
        assert!(fronts.iter().all(|front| front.1 > 0));
    }

    #[test]
    fn trips_are_those_of_a_warp_or_of_a_block() {
        assert_eq!(
            [4, 8, 9, 16].map(|below| trips(16, below)),
            [1.0, 1.0, 2.0, 2.0]
        );
        assert_eq!([8, 16].map(|below| trips(17, below)), [0.03125, 0.125]);
        assert_eq!(
            [17, 32, 33, 95].map(|below| trips(95, below)),
            [1.0, 1.0, 2.0, 3.0]
        );
        // Of two tiles, and three, on the diagonal.
        assert_eq!(
            [96, 128, 129].map(|front| trips(front, 64)),
            [1.0, 1.0, 2.0 / 3.0]
        );
    }

    /// A group of few rows is added up by a warp, one with more by a block, which takes less for each child.
    #[test]
    fn groups_of_more_rows_are_larger() {
        let gathering = Gathering {
            most_trips: 1.0,
            group: 12.0,
        };
        let children = |columns, others, step| {
            let fronts = of_rows(columns, (|_| others, step), gathering);
            let groups = (0..fronts.len()).filter(|&s| fronts[s].1 == 0);
            let children = |s: usize| fronts.iter().filter(|front| front.0 == s as u32).count();
            groups.map(children).collect::<Vec<_>>()
        };
        assert_eq!(children(24, 11, 0), [6; 4]);
        assert_eq!(children(24, 15, 0), [6; 4]);
        // 171 times 12² entries, in trips of 2,048, and the groups one trip each.
        assert_eq!(children(360, 11, 8), [171, 171, 18, 3]);
    }

    /// Each of ten columns has an entry in another one of the last ten.
    #[test]
    fn children_that_share_no_row_are_added_up_by_their_parent() {
        let entries = (0..10).flat_map(|j| [(j, j), (j, 10 + j)]);
        let last = (10..20).flat_map(|j| (10..=j).map(move |i| (i, j)));
        let gathering = Gathering {
            most_trips: 5.0,
            group: 4.0,
        };
        let fronts = fronts_of(20, entries.chain(last), gathering);
        assert!(fronts.iter().all(|&(_, pivots, _)| pivots > 0));
        let children = |front: u32| fronts.iter().filter(|child| child.0 == front).count();
        assert!((0..fronts.len() as u32).any(|front| children(front) > 5));
    }

    /// The children of a front that vanishes are those of the next one above, and may stand before a subtree with groups.
    #[test]
    fn groups_stand_in_the_order_of_their_last_children() {
        // Leaves of two fronts of which columns 7 and 15 are in, below the last four columns.
        let leaves = (0..7).flat_map(|j| [(j, j), (j, 7), (j, 16), (j, 17)]);
        let others = (8..15).flat_map(|j| [(j, j), (j, 15), (j, 16)]);
        let above = [7, 15].into_iter().flat_map(|j| [(j, j), (j, 16), (j, 17)]);
        let last = (16..20).flat_map(|j| (16..=j).map(move |i| (i, j)));
        let entries: Vec<(u32, u32)> = leaves.chain(others).chain(above).chain(last).collect();
        let options = TreeOptions {
            zero_fraction: 0.0,
            tiny_zero_fraction: 0.0,
            ..TreeOptions::default()
        };
        let symbolic = Symbolic::<Lower>::analyze(&pattern_from(20, entries), &options).unwrap();
        let tree = symbolic.tree();
        let first = tree.fronts().iter().find(|front| front.num_children > 5);
        let moves: Vec<Move> = first
            .unwrap()
            .pivot_range()
            .map(|e| Move {
                pivot: e as u32,
                up: 1,
            })
            .collect();
        let gathering = Gathering {
            most_trips: 5.0,
            group: 4.0,
        };
        let moved = symbolic.moved(&moves, 1).unwrap();
        let gathered = moved.gathered(&gathering, 1).unwrap();
        check(&gathered);
        let groups = gathered
            .tree()
            .fronts()
            .iter()
            .filter(|front| front.pivots == 0);
        let parents: Vec<u32> = groups.map(|front| front.parent).collect();
        assert!(parents.len() > 2 && !parents.is_sorted(), "{parents:?}");
    }
}
