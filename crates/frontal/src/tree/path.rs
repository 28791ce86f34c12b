//! When fronts end where as many are worked on side by side as there are: what merging fronts does to the longest path.
//!
//! A small front goes on from that of its children which ends last, since whoever worked on that goes on with it; all others are
//! waited for. A large front waits for all of its children, and so is every front above it.

use super::supernodes::Supernode;
use luge_sparse::etree::NONE;

/// What fronts take on the longest path of a tree, in seconds. All are positive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathCosts {
    /// Rows up to which a front is small, if those below it are.
    pub small_rows: u32,
    /// A small front, whatever its size.
    pub small_front: f64,
    /// A pivot of a small front.
    pub small_pivot: f64,
    /// A large front, whatever its size.
    pub large_front: f64,
    /// A pivot of a large front.
    pub large_pivot: f64,
    /// From the end of a front to the beginning of its parent, if that has to wait for it.
    pub join: f64,
}

/// When a front ends, and whether it is large.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct End {
    pub seconds: f64,
    pub is_large: bool,
}

/// When the children of a front end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ends {
    /// The last small one, and the last but one.
    small: [f64; 2],
    /// The last large one; zero if there is none.
    large: f64,
}

impl Ends {
    pub fn add(&mut self, child: End) {
        if child.is_large {
            self.large = self.large.max(child.seconds);
        } else {
            self.add_small(child.seconds);
        }
    }

    /// Those and others.
    pub fn and(mut self, others: &Self) -> Self {
        self.large = self.large.max(others.large);
        others.small.iter().for_each(|&end| self.add_small(end));
        self
    }

    /// When the front can begin that these are the children of, if it waits `join` seconds longer for those that it has to wait for.
    pub fn begin(&self, is_large: bool, join: f64) -> f64 {
        let [last, second] = self.small;
        let (goes_on, waited_for) = if is_large {
            (0.0, last.max(self.large))
        } else {
            (last, second)
        };
        if waited_for > 0.0 {
            goes_on.max(waited_for + join)
        } else {
            goes_on
        }
    }

    fn add_small(&mut self, end: f64) {
        if end > self.small[0] {
            self.small = [end, self.small[0]];
        } else {
            self.small[1] = self.small[1].max(end);
        }
    }
}

/// [`End`] and [`Ends`] of a front, the first negated if it is large. An array of zeros, which `vec!` asks the system for, is not
/// written to before a front is: by the thread that comes to it.
pub(super) type Path = [f64; 4];

/// Of a front with this end, whose children have these.
pub(super) fn packed(end: End, children: &Ends) -> Path {
    let seconds = if end.is_large {
        -end.seconds
    } else {
        end.seconds
    };
    [
        seconds,
        children.small[0],
        children.small[1],
        children.large,
    ]
}

/// The end of a front, and those of its children.
pub(super) fn unpacked(path: &Path) -> (End, Ends) {
    let &[seconds, last, second, large] = path;
    let end = End {
        seconds: seconds.abs(),
        is_large: seconds.is_sign_negative(),
    };
    let small = [last, second];
    (end, Ends { small, large })
}

impl PathCosts {
    /// Seconds of a front alone.
    fn own_seconds(&self, pivots: u32, is_large: bool) -> f64 {
        let (front, pivot) = if is_large {
            (self.large_front, self.large_pivot)
        } else {
            (self.small_front, self.small_pivot)
        };
        front + f64::from(pivots) * pivot
    }

    /// When a front ends whose children do so.
    pub(super) fn end(&self, pivots: u32, below: u32, children: &Ends) -> End {
        let is_large = pivots + below > self.small_rows || children.large > 0.0;
        let begin = children.begin(is_large, self.join);
        End {
            seconds: begin + self.own_seconds(pivots, is_large),
            is_large,
        }
    }

    /// When the fronts of a forest, each after its children, may end at the latest if the longest path is not to become longer;
    /// `paths` say when each does.
    pub(super) fn latest_ends(&self, fronts: &[Supernode], paths: &[Path]) -> Vec<f64> {
        let end = |s: usize| unpacked(&paths[s]).0;
        // Of the children of each front, the first of those that end last.
        let mut last_child = vec![NONE; fronts.len()];
        let mut longest = 0.0f64;
        for (s, front) in fronts.iter().enumerate() {
            let End { seconds, .. } = end(s);
            if front.parent == NONE {
                longest = longest.max(seconds);
                continue;
            }
            let last = &mut last_child[front.parent as usize];
            if *last == NONE || seconds > end(*last as usize).seconds {
                *last = s as u32;
            }
        }
        let mut latest = vec![longest; fronts.len()];
        for (s, front) in fronts.iter().enumerate().rev() {
            if front.parent != NONE {
                let above = front.parent as usize;
                let is_large = end(above).is_large;
                let begin = latest[above] - self.own_seconds(fronts[above].pivots, is_large);
                let goes_on = !is_large && last_child[above] as usize == s;
                latest[s] = if goes_on { begin } else { begin - self.join };
            }
        }
        latest
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Supernodes;
    use super::*;

    impl PathCosts {
        /// When each of these ends, and its children.
        pub(crate) fn paths(&self, fronts: &[Supernode]) -> Vec<Path> {
            let mut children = vec![Ends::default(); fronts.len()];
            let mut paths = Vec::new();
            for (s, front) in fronts.iter().enumerate() {
                let end = self.end(front.pivots, front.below, &children[s]);
                paths.push(packed(end, &children[s]));
                if front.parent != NONE {
                    children[front.parent as usize].add(end);
                }
            }
            paths
        }

        /// When the last front ends.
        pub(crate) fn longest(&self, of: &Supernodes) -> f64 {
            let paths = self.paths(&of.groups);
            let ends = paths.iter().map(|path| unpacked(path).0.seconds);
            ends.fold(0.0, f64::max)
        }
    }

    /// Of numbers with which sums are exact.
    pub const COSTS: PathCosts = PathCosts {
        small_rows: 16,
        small_front: 1.0,
        small_pivot: 0.25,
        large_front: 3.0,
        large_pivot: 0.125,
        join: 0.5,
    };

    #[test]
    fn fronts_wait_for_all_children_but_the_last_small_one() {
        let mut children = Ends::default();
        assert_eq!(COSTS.end(2, 14, &children).seconds, 1.5);
        assert_eq!(COSTS.end(2, 15, &children).seconds, 3.25);
        let small = |seconds| End {
            seconds,
            is_large: false,
        };
        children.add(small(1.25));
        assert_eq!(COSTS.end(2, 0, &children).seconds, 1.25 + 1.5);
        children.add(small(2.0));
        assert_eq!(COSTS.end(2, 0, &children).seconds, 2.0 + 1.5);
        assert_eq!(COSTS.end(2, 20, &children).seconds, 2.0 + 0.5 + 3.25);
        let others = children.and(&children);
        assert_eq!(COSTS.end(2, 0, &others).seconds, 2.0 + 0.5 + 1.5);
        children.add(End {
            seconds: 4.0,
            is_large: true,
        });
        let end = COSTS.end(2, 0, &children);
        assert_eq!((end.seconds, end.is_large), (4.0 + 0.5 + 3.25, true));
        assert_eq!(COSTS.end(2, 0, &Ends::default().and(&children)), end);
    }

    #[test]
    fn latest_ends_leave_the_longest_path_as_it_is() {
        // 0 of one pivot and 1 of four under 2 of two; 3 alone, of eight; 4 of one under the large 5, of two and 20 below.
        let parent = [2, 2, NONE, NONE, 5, NONE];
        let pivots = [1, 4, 2, 8, 1, 2];
        let below = [2, 2, 0, 0, 2, 20];
        // The longest is the last: 1.25, 0.5, 3.25.
        let fronts: Vec<Supernode> = (0..6)
            .map(|s| Supernode::new(s as u32, parent[s], pivots[s], below[s]))
            .collect();
        let latest = COSTS.latest_ends(&fronts, &COSTS.paths(&fronts));
        assert_eq!(latest, [3.0, 3.5, 5.0, 5.0, 1.25, 5.0]);
        // Of two that end at the same time the first is gone on from.
        let fronts = [(0, 2, 1, 2), (1, 2, 1, 2), (2, NONE, 2, 0)]
            .map(|(s, parent, pivots, below)| Supernode::new(s, parent, pivots, below));
        let latest = COSTS.latest_ends(&fronts, &COSTS.paths(&fronts));
        assert_eq!(latest, [1.75, 1.25, 3.25]);
    }
}
