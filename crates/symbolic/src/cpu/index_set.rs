//! A set of indices that gives them back in order without comparing them.

/// A bit per index, a bit per word of those that is not empty, and a bit per word of these in turn.
///
/// Insertion is O(1); draining is O(members + n / 2¹⁸), in increasing order.
pub(super) struct IndexSet {
    members: Vec<u64>,
    words: Vec<u64>,
    groups: Vec<u64>,
}

impl IndexSet {
    /// The empty set of indices below `n`.
    pub(super) fn new(n: usize) -> Self {
        let members = n.div_ceil(64);
        let words = members.div_ceil(64);
        Self {
            members: vec![0; members],
            words: vec![0; words],
            groups: vec![0; words.div_ceil(64)],
        }
    }

    /// Inserts all of `indices`; how many of them were not members before.
    pub(super) fn insert_all(&mut self, indices: &[u32]) -> usize {
        let mut added = 0;
        for &index in indices {
            let w = index as usize / 64;
            let bit = 1u64 << (index % 64);
            let word = &mut self.members[w];
            if *word == 0 {
                let upper = &mut self.words[w / 64];
                if *upper == 0 {
                    self.groups[w / 4096] |= 1 << (w / 64 % 64);
                }
                *upper |= 1 << (w % 64);
            }
            added += usize::from(*word & bit == 0);
            *word |= bit;
        }
        added
    }

    /// Removes everything, given indices of which at least one lies beside every member in its word:
    /// the members themselves, for one.
    pub(super) fn clear_all(&mut self, indices: &[u32]) {
        for &index in indices {
            let w = index as usize / 64;
            self.members[w] = 0;
            self.words[w / 64] = 0;
            self.groups[w / 4096] = 0;
        }
    }

    /// Appends the members to `out` in increasing order and empties the set.
    pub(super) fn drain_into(&mut self, out: &mut Vec<u32>) {
        for g in 0..self.groups.len() {
            for v in ones(std::mem::take(&mut self.groups[g])) {
                let v = g * 64 + v as usize;
                for w in ones(std::mem::take(&mut self.words[v])) {
                    let w = v * 64 + w as usize;
                    let word = std::mem::take(&mut self.members[w]);
                    out.extend(ones(word).map(|bit| w as u32 * 64 + bit));
                }
            }
        }
    }
}

/// Positions of the ones of `word`, increasing.
fn ones(word: u64) -> Ones {
    Ones(word)
}

struct Ones(u64);

impl Iterator for Ones {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.0.count_ones() as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Ones {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_once_and_in_order() {
        for n in [1u32, 64, 65, 4096, 4097, 600_000] {
            let mut set = IndexSet::new(n as usize);
            let mut out = vec![7];
            for _ in 0..2 {
                assert_eq!(
                    set.insert_all(&[n - 1, n / 2, n - 1]),
                    1 + usize::from(n > 1)
                );
                assert_eq!(set.insert_all(&[0]), usize::from(n > 1));
                out.truncate(1);
                set.drain_into(&mut out);
                let mut expected = vec![7, 0, n / 2, n - 1];
                expected.dedup();
                if n == 1 {
                    expected.truncate(2);
                }
                assert_eq!(out, expected);
            }
            set.insert_all(&[n - 1, n / 3]);
            set.clear_all(&[n / 3, n - 1]);
            out.clear();
            set.drain_into(&mut out);
            assert_eq!(out, []);
        }
        let mut none = IndexSet::new(0);
        none.drain_into(&mut Vec::new());
        assert_eq!(none.insert_all(&[]), 0);
    }
}
