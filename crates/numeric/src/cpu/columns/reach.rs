//! A set of column numbers that gives its smallest element at once.

/// A bit for each number, and two levels of bits above them that say which words are not empty, so
/// that the next element is found in a few steps however far away it is.
///
/// Between uses it is empty.
#[derive(Default)]
pub(super) struct Reach {
    /// The words, behind them bit w of the groups: word w may hold a bit, behind those bit g of the tops:
    /// group g may hold a bit.
    bits: Vec<u64>,
    /// Where groups and tops begin.
    groups: usize,
    tops: usize,
    /// The word where the search goes on.
    at: usize,
}

impl Reach {
    /// An empty set of numbers below `n`.
    pub(super) fn new(n: usize) -> Self {
        let words = n.div_ceil(64);
        let groups = words.div_ceil(64);
        Self {
            bits: vec![0; words + groups + groups.div_ceil(64)],
            groups: words,
            tops: words + groups,
            at: 0,
        }
    }

    /// Adds `i`, which must not be below an element that was taken since [`start`](Self::start).
    ///
    /// # Safety
    ///
    /// `i` is below the `n` of [`new`](Self::new).
    #[inline(always)]
    pub(super) unsafe fn insert(&mut self, i: u32) {
        let i = i as usize;
        let bits = self.bits.as_mut_ptr();
        // SAFETY: i < n, so i / 64, i / 64² and i / 64³ are within the three levels.
        unsafe {
            *bits.add(i >> 6) |= 1 << (i & 63);
            *bits.add(self.groups + (i >> 12)) |= 1 << ((i >> 6) & 63);
            *bits.add(self.tops + (i >> 18)) |= 1 << ((i >> 12) & 63);
        }
    }

    /// Begins the search at `i`: no element is smaller.
    #[inline(always)]
    pub(super) fn start(&mut self, i: u32) {
        self.at = i as usize >> 6;
    }

    /// Takes the smallest element out.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<u32> {
        loop {
            let word = &mut self.bits[self.at];
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(((self.at as u32) << 6) | bit);
            }
            if !self.advance() {
                return None;
            }
        }
    }

    /// Moves on to the next word that may hold a bit; false if there is none.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        let (groups, tops) = self.bits[self.groups..].split_at_mut(self.tops - self.groups);
        let group = self.at >> 6;
        groups[group] &= !(1 << (self.at & 63));
        if groups[group] != 0 {
            self.at = (group << 6) | groups[group].trailing_zeros() as usize;
            return true;
        }
        let mut top = group >> 6;
        tops[top] &= !(1 << (group & 63));
        while tops[top] == 0 {
            top += 1;
            if top == tops.len() {
                return false;
            }
        }
        let group = (top << 6) | tops[top].trailing_zeros() as usize;
        self.at = (group << 6) | groups[group].trailing_zeros() as usize;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_in_order_while_others_are_added() {
        for n in [1, 63, 64, 65, 4095, 4097, 300_000] {
            let mut set = Reach::new(n);
            for round in 0..3u32 {
                let first = (round as usize * 7).min(n - 1) as u32;
                // SAFETY: first < n.
                unsafe { set.insert(first) };
                set.start(first);
                let mut expected = first;
                while let Some(i) = set.pop() {
                    assert_eq!(i, expected);
                    let next = i as usize * 2 + 1 + (i as usize % 3);
                    expected = next as u32;
                    if next < n {
                        // SAFETY: just compared; twice is once.
                        unsafe {
                            set.insert(next as u32);
                            set.insert(next as u32);
                        }
                    }
                }
                assert!(expected as usize >= n);
                assert!(set.bits[..set.groups].iter().all(|&w| w == 0));
            }
        }
    }
}
