//! Fronts without pivots, which add up elements of very many children for a front.
//!
//! One block assembles a front on a device, and one task gathers what its children leave in a solve. A front with tens of
//! thousands of children, as a dense row of the matrix makes one, keeps all others waiting, and so does one with hundreds of
//! children that have far more entries together than it has itself; groups of its children are assembled side by side.

use luge_sparse::etree::NONE;

use super::parts::{Parts, list_children};
use super::{AssemblyTree, Front, Structure};
use crate::error::FrontalError;

/// When children of a front are assembled by groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gathering {
    /// Children that a front may have without groups.
    pub most_children: u32,
    /// Children of a group at most.
    pub group: u32,
    /// Rows below the pivots of such a child at most.
    pub most_rows: u32,
    /// Fewer children are assembled by groups if they have more entries, all together, than this,
    pub most_entries: u64,
    /// and more than so many times those of their parent.
    pub most_times: u64,
}

impl Default for Gathering {
    /// What it costs to wait for one more front on the path to the root is less than what is gained.
    fn default() -> Self {
        Self {
            most_children: 1024,
            group: 128,
            most_rows: 16,
            most_entries: 1 << 16,
            most_times: 16,
        }
    }
}

/// Children of a front, by their places among its children.
struct Group {
    front: u32,
    children: std::ops::Range<usize>,
    /// The rows of all of them, ascending.
    rows: Vec<u32>,
}

/// Entries of an element, or of a front: of both triangles, for all that matters is what is more.
fn entries(rows: u32) -> u64 {
    u64::from(rows) * u64::from(rows)
}

/// Which children of a front are put together.
enum Rule {
    /// So many that have so many rows below their pivots at most.
    Count { group: usize, most_rows: u32 },
    /// Until they have about so many entries; none that has an eighth of that.
    Entries(u64),
}

/// A child that has more than one in so many of the entries of a group is added up by its parent: others would wait for it.
const SMALL_SHARE: u64 = 8;

impl Rule {
    /// That of a front, if its children are put together at all.
    fn of(tree: &AssemblyTree, s: usize, gathering: &Gathering) -> Option<Self> {
        let front = &tree.fronts[s];
        if front.num_children > gathering.most_children {
            return Some(Self::Count {
                group: gathering.group as usize,
                most_rows: gathering.most_rows,
            });
        }
        let own = entries(front.size());
        // A front of two children, as most are, has more entries than a quarter of theirs.
        let children = tree.children(s);
        let below = |&child: &u32| tree.fronts[child as usize].below;
        let all: u64 = children.iter().map(|child| entries(below(child))).sum();
        if all <= gathering.most_entries.max(gathering.most_times * own) {
            return None;
        }
        // The groups, side by side, and then their sums take the least time if both have as many entries.
        Some(Self::Entries((all as f64 * own as f64).sqrt() as u64))
    }

    /// Whether a child may be in a group.
    fn takes(&self, below: u32) -> bool {
        match *self {
            Self::Count { most_rows, .. } => below <= most_rows,
            Self::Entries(group) => SMALL_SHARE * entries(below) <= group,
        }
    }

    /// Whether a group of so many children with so many entries is large enough.
    fn is_full(&self, children: usize, of_children: u64) -> bool {
        match *self {
            Self::Count { group, .. } => children >= group,
            Self::Entries(group) => of_children >= group,
        }
    }
}

/// The groups of the children of fronts that have too many, in the order of the last child of each.
fn groups(tree: &AssemblyTree, gathering: &Gathering) -> Vec<Group> {
    let mut groups = Vec::new();
    for s in 0..tree.fronts.len() {
        let Some(rule) = Rule::of(tree, s, gathering) else {
            continue;
        };
        let children = tree.children(s);
        let below = |at: usize| tree.fronts[children[at] as usize].below;
        let mut first = 0;
        while first < children.len() {
            // Side by side in postorder, so that a group is a subtree.
            let (mut end, mut of_children) = (first, 0);
            while end < children.len()
                && rule.takes(below(end))
                && !rule.is_full(end - first, of_children)
            {
                of_children += entries(below(end));
                end += 1;
            }
            let group = first..end;
            first = end.max(first + 1);
            let rows = group
                .clone()
                .flat_map(|at| tree.rows_below(children[at] as usize));
            let mut rows: Vec<u32> = rows.copied().collect();
            rows.sort_unstable();
            rows.dedup();
            // Where children share few rows there is nothing to add up.
            if group.len() > 1 && 2 * entries(rows.len() as u32) <= of_children {
                groups.push(Group {
                    front: s as u32,
                    children: group,
                    rows,
                });
            }
        }
    }
    groups.sort_by_key(|group| last_child(tree, group));
    groups
}

fn last_child(tree: &AssemblyTree, group: &Group) -> u32 {
    tree.children(group.front as usize)[group.children.end - 1]
}

/// The tree in which groups of children have a front without pivots between them and their parent, with what `beside` makes of
/// it before its relative indices are known; `None` if no front has so many children.
pub(crate) fn gathered<R: Send>(
    tree: &AssemblyTree,
    gathering: &Gathering,
    threads: usize,
    beside: impl FnOnce(Structure<'_>) -> Result<R, FrontalError> + Send,
) -> Result<Option<(AssemblyTree, R)>, FrontalError> {
    let groups = groups(tree, gathering);
    if groups.is_empty() {
        return Ok(None);
    }
    // The front that each is added to: of children in a group that of the group, by its number among the groups.
    let mut group_of = vec![NONE; tree.fronts.len()];
    for (number, group) in groups.iter().enumerate() {
        for &child in &tree.children(group.front as usize)[group.children.clone()] {
            group_of[child as usize] = number as u32;
        }
    }
    let more_rows: usize = groups.iter().map(|group| group.rows.len()).sum();
    let mut fronts: Vec<Front> = Vec::with_capacity(tree.fronts.len() + groups.len());
    let mut rows = Vec::with_capacity(tree.rows.len() + more_rows);
    // New numbers of fronts and of groups.
    let mut numbers = Vec::with_capacity(tree.fronts.len());
    let mut group_numbers = Vec::with_capacity(groups.len());
    let mut groups = groups.into_iter().peekable();
    for (s, front) in tree.fronts.iter().enumerate() {
        numbers.push(fronts.len() as u32);
        fronts.push(Front {
            rows: rows.len() as u64,
            ..*front
        });
        rows.extend_from_slice(tree.rows_below(s));
        while let Some(group) = groups.next_if(|group| last_child(tree, group) == s as u32) {
            group_numbers.push(fronts.len() as u32);
            fronts.push(Front {
                start: front.start + front.pivots,
                pivots: 0,
                below: group.rows.len() as u32,
                rows: rows.len() as u64,
                // Of the tree before, as those of all others.
                parent: group.front,
                ..*front
            });
            rows.extend(group.rows);
        }
    }
    for (&number, &group) in numbers.iter().zip(&group_of) {
        let front = &mut fronts[number as usize];
        front.parent = match front.parent {
            NONE => NONE,
            _ if group != NONE => group_numbers[group as usize],
            parent => numbers[parent as usize],
        };
    }
    for number in group_numbers {
        let front = &mut fronts[number as usize];
        front.parent = numbers[front.parent as usize];
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

    /// No groups.
    const NEVER: Gathering = Gathering {
        most_children: u32::MAX,
        group: 0,
        most_rows: 0,
        most_entries: u64::MAX,
        most_times: 0,
    };

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
        let gathering = Gathering {
            most_children: 9,
            group: 4,
            most_rows: 2,
            ..NEVER
        };
        let mut expected = Vec::new();
        for (group, count) in [(4, 4), (9, 4), (12, 2)] {
            expected.extend(vec![(group, 1, 2); count]);
            expected.push((13, 0, 2));
        }
        expected.push((NONE, 3, 0));
        assert_eq!(gathered(gathering), expected);
    }

    #[test]
    fn few_children_and_large_ones_are_added_up_by_their_parent() {
        let mut expected = vec![(10, 1, 2); 10];
        expected.push((NONE, 3, 0));
        for (most_children, most_rows) in [(10, 2), (9, 1)] {
            let gathering = Gathering {
                most_children,
                group: 4,
                most_rows,
                ..NEVER
            };
            assert_eq!(gathered(gathering), expected);
        }
    }

    /// Forty columns have entries in two of the last eight, and a front of seven in four of these: 40·4 + 16 entries for a front of
    /// 64. Groups of √(176·64) entries are 27 columns; the front of seven has more than an eighth of that.
    #[test]
    fn children_with_far_more_entries_than_their_parent_are_added_up_by_groups() {
        let leaves = (0..40).flat_map(|j| [(j, j), (j, 47), (j, 48)]);
        let large = (40..47).flat_map(|j| (40..51).map(move |i| (j, i)));
        let last = (47..55).flat_map(|j| (47..55).map(move |i| (j, i)));
        let entries: Vec<(u32, u32)> = leaves.chain(large).chain(last).collect();
        let of = |most_entries, most_times| {
            let gathering = Gathering {
                most_entries,
                most_times,
                ..NEVER
            };
            let fronts = fronts_of(55, entries.iter().copied(), gathering);
            let groups = (0..fronts.len()).filter(|&s| fronts[s].1 == 0);
            let children = |s: usize| fronts.iter().filter(|front| front.0 == s as u32).count();
            groups.map(children).collect::<Vec<_>>()
        };
        assert_eq!(of(175, 3), [0usize; 0]);
        assert_eq!(of(176, 2), [0usize; 0]);
        for (most_entries, most_times) in [(175, 2), (0, 2)] {
            assert_eq!(of(most_entries, most_times), [27, 13]);
        }
    }

    /// Each of ten columns has an entry in another one of the last ten.
    #[test]
    fn children_that_share_no_row_are_added_up_by_their_parent() {
        let entries = (0..10).flat_map(|j| [(j, j), (j, 10 + j)]);
        let last = (10..20).flat_map(|j| (10..=j).map(move |i| (i, j)));
        let gathering = Gathering {
            most_children: 5,
            group: 4,
            most_rows: 2,
            ..NEVER
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
            most_children: 5,
            group: 4,
            most_rows: 3,
            ..NEVER
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
