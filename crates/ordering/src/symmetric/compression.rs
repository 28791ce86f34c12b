//! Orders in which a pair can be eliminated as one pivot, or one after the other.
//!
//! To be one pivot of order 2, the two must stand together. They are contracted to one vertex, and the smaller graph is
//! ordered (Duff and Pralet 2005, section 5). Here the contracted graph is written as the graph of all vertices in which
//! both of a pair are joined to each other and to all that one of them is joined to: the fill-reducing methods find such
//! vertices and make them one.
//!
//! A pair with a large diagonal entry needs less: if that pivot is taken first, its elimination gives the other one a
//! diagonal entry of at least the matched entry's size. As the mates of vertices are distinct, this also holds for many
//! of them together, which it would not for any other neighbour.

use std::ops::Range;

use luge_sparse::etree::EliminationForest;
use luge_sparse::{CancelFlag, Cancelled, ColPerm, CompressedPattern};

use super::pairs::Pairs;
use crate::elimination::symmetric_postorder;
use crate::matching::NONE;
use crate::parts::{by_parts, joined_lists};

/// Rows that a thread makes at least.
const LEAST_PART: usize = 512;

/// Rows between two looks at the cancel flag.
const STRIDE: usize = 1 << 10;

/// What is asked of an order.
pub(super) struct Demands {
    /// The vertex that each one must stand beside, or itself.
    pub beside: Vec<u32>,
    /// The vertex that each one must come after, or itself. None comes after two others, or before two others.
    pub after: Vec<u32>,
}

impl Demands {
    /// That all pairs stand together.
    pub fn all_together(pairs: &Pairs) -> Self {
        Self {
            beside: pairs.mate.clone(),
            after: (0..pairs.mate.len() as u32).collect(),
        }
    }

    /// That only pairs without a large diagonal entry stand together. Of the others the smaller one comes later. None if
    /// there are no others.
    pub fn as_few_as_can_be(pairs: &Pairs) -> Option<Self> {
        let mut beside = pairs.mate.clone();
        let mut after: Vec<u32> = (0..beside.len() as u32).collect();
        let mut is_any_loose = false;
        for (v, &mate) in (0..).zip(&pairs.mate) {
            if v == mate || !pairs.is_loose(v) {
                continue;
            }
            is_any_loose = true;
            beside[v as usize] = v;
            if pairs.diagonal[v as usize] < pairs.diagonal[mate as usize] {
                after[v as usize] = mate;
            }
        }
        is_any_loose.then_some(Self { beside, after })
    }

    /// Which vertices must come after another one.
    pub fn waits(&self) -> Vec<bool> {
        let after = (0..).zip(&self.after);
        after.map(|(v, &other): (u32, &u32)| v != other).collect()
    }

    /// An order of the [`paired_pattern`], new to old, with vertices moved so that it does what is asked. Of two that
    /// stand together the one with the larger `diagonal` comes first.
    ///
    /// To move a vertex up to the one that it stands beside costs no fill in that pattern: when one of the two is
    /// eliminated, the rest of both lists become a clique. One that comes too early is moved to where it just does not.
    fn applied(&self, order: &[u32], diagonal: &[f64]) -> Vec<u32> {
        let n = order.len();
        let mut moved: Vec<u32> = Vec::with_capacity(n);
        let mut is_placed = vec![false; n];
        // By vertex: the one that came too early and waits for it.
        let mut waiting = vec![NONE; n];
        for &v in order {
            if is_placed[v as usize] {
                continue;
            }
            let earlier = self.after[v as usize];
            if earlier != v && !is_placed[earlier as usize] {
                waiting[earlier as usize] = v;
                continue;
            }
            let start = moved.len();
            let beside = self.beside[v as usize];
            if beside == v {
                moved.push(v);
            } else if diagonal[beside as usize] > diagonal[v as usize] {
                moved.extend([beside, v]);
            } else {
                moved.extend([v, beside]);
            }
            moved.extend(Some(waiting[v as usize]).filter(|&w| w != NONE));
            for &v in &moved[start..] {
                is_placed[v as usize] = true;
            }
        }
        moved
    }
}

/// The pattern with both rows, and both columns, of every pair made alike; `mate` is the other one of each vertex's
/// pair, or itself. On the current rayon pool if `parallel`.
///
/// # Errors
///
/// [`Cancelled`].
pub(super) fn paired_pattern(
    a: &CompressedPattern,
    mate: &[u32],
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<CompressedPattern, Cancelled> {
    let n = a.major_dim();
    let make = |range: Range<usize>| {
        let mut idx = Vec::with_capacity(2 * (a.ptr()[range.end] - a.ptr()[range.start]) as usize);
        let mut ends = Vec::with_capacity(range.len());
        let mut line: Vec<u32> = Vec::new();
        for v in range {
            if v.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            line.clear();
            let other = mate[v] as usize;
            let of_other = if other == v { &[][..] } else { a.line(other) };
            for &w in a.line(v).iter().chain(of_other) {
                line.push(w);
                if mate[w as usize] != w {
                    line.push(mate[w as usize]);
                }
            }
            line.sort_unstable();
            line.dedup();
            idx.extend_from_slice(&line);
            ends.push(idx.len());
        }
        Ok((idx, ends))
    };
    let parts = by_parts(n, LEAST_PART, parallel, make).into_iter();
    let (ptr, idx) = joined_lists(parts.collect::<Result<Vec<_>, Cancelled>>()?);
    let ptr = ptr.into_iter().map(|p| p as u64).collect();
    let pattern = CompressedPattern::new(n, ptr, idx);
    Ok(pattern.expect("sorted lists of vertices are a pattern"))
}

/// An order that does what is asked of it, with the forest of [`SymmetricOrdering`](super::SymmetricOrdering).
pub(super) struct PairedOrder {
    pub perm: ColPerm,
    pub forest: EliminationForest,
    /// The places of the first ones of vertices that stand together.
    pub pair_starts: Vec<u32>,
}

impl PairedOrder {
    /// From an order of the [`paired_pattern`].
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn new(
        a: &CompressedPattern,
        order: &[u32],
        demands: &Demands,
        diagonal: &[f64],
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let mut moved = demands.applied(order, diagonal);
        // Of two that stand together the first is a child of the second, and the last one, so they stay together. One that
        // comes after another is its ancestor, and stays after it.
        let mut forest = symmetric_postorder(a, &mut moved, cancel)?;
        let starts_pair = |k: &u32| {
            let v = moved[*k as usize];
            let beside = demands.beside[v as usize];
            beside != v && moved.get(*k as usize + 1) == Some(&beside)
        };
        let pair_starts: Vec<u32> = (0..order.len() as u32).filter(starts_pair).collect();
        join_pairs(&mut forest, &pair_starts);
        let perm = ColPerm::new(moved).expect("every vertex is placed once");
        Ok(Self {
            perm,
            forest,
            pair_starts,
        })
    }
}

/// Gives the first of every two columns, of which the second is the parent, the rows of both. The second has them
/// already, and so have all that come after it: but for the children of the second, which become those of the first, the
/// forest stays as it is.
fn join_pairs(forest: &mut EliminationForest, pair_starts: &[u32]) {
    let mut is_second = vec![false; forest.parent.len()];
    for &k in pair_starts {
        is_second[k as usize + 1] = true;
        forest.counts[k as usize] = forest.counts[k as usize + 1] + 1;
    }
    for (k, parent) in (0..).zip(&mut forest.parent) {
        if is_second.get(*parent as usize) == Some(&true) && *parent != k + 1 {
            *parent -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_testkit::strategies::col_perms_of;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn orders_do_what_is_asked(
            order in col_perms_of(20),
            numbers in col_perms_of(20),
            num_pairs in 0usize..=10,
            diagonal in vec(prop_oneof![Just(0.0), Just(0.02), 0.03..0.2f64], 20),
        ) {
            let mut mate: Vec<u32> = (0..20).collect();
            for pair in numbers.as_slice().chunks(2).take(num_pairs) {
                mate[pair[0] as usize] = pair[1];
                mate[pair[1] as usize] = pair[0];
            }
            let pairs = Pairs { mate, diagonal };
            let is_pair = |v: u32| pairs.mate[v as usize] != v;
            let few = Demands::as_few_as_can_be(&pairs);
            prop_assert_eq!(few.is_some(), (0..20).any(|v| is_pair(v) && pairs.is_loose(v)));
            let all = Demands::all_together(&pairs);
            prop_assert!(!all.waits().contains(&true));
            for (demands, is_few) in [(Some(all), false), (few, true)] {
                let Some(demands) = demands else { continue };
                let moved = demands.applied(order.as_slice(), &pairs.diagonal);
                let moved = ColPerm::new(moved).unwrap();
                let place = moved.inverse();
                for v in (0..20).filter(|&v| is_pair(v)) {
                    let mate = pairs.mate[v as usize];
                    let (own, other) = (place[v as usize], place[mate as usize]);
                    let is_smaller = pairs.diagonal[v as usize] < pairs.diagonal[mate as usize];
                    if is_smaller {
                        prop_assert!(own > other);
                    }
                    if !is_few || !pairs.is_loose(v) {
                        prop_assert_eq!(own.abs_diff(other), 1);
                    }
                }
            }
        }
    }

    #[test]
    fn an_order_that_does_already_stays() {
        let pairs = Pairs {
            mate: vec![1, 0, 2, 4, 3],
            diagonal: vec![0.0, 0.0, 0.0, 0.5, 0.0],
        };
        let demands = Demands::as_few_as_can_be(&pairs).unwrap();
        assert_eq!(demands.waits(), [false, false, false, false, true]);
        for order in [[3, 0, 1, 2, 4], [2, 1, 0, 3, 4]] {
            assert_eq!(demands.applied(&order, &pairs.diagonal), order);
        }
        // 4 is moved behind 3, and 1 up to 0.
        let order = [4, 0, 2, 1, 3];
        assert_eq!(demands.applied(&order, &pairs.diagonal), [0, 1, 2, 3, 4]);
    }
}
