//! Pairs of columns that stay in one tile of their front.

/// Columns of a symmetric matrix that were matched with each other, to be pivots of order 2. Where a front is eliminated by
/// tiles, and a column is compared with those of its tile alone, the two of a pair that stand in different tiles may both
/// have no acceptable pivot.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    /// The first column of each pair; the next column is the other one.
    pub starts: &'a [u32],
    /// Pivots of a tile.
    pub tile: u32,
}

impl Pairs<'_> {
    /// Whether the second of two columns, of so many, is the other one of the pair that begins with the first.
    pub(super) fn among(&self, n: usize) -> impl Fn(u32, u32) -> bool + use<> {
        let mut starts = vec![false; n];
        for &column in self.starts {
            starts[column as usize] = true;
        }
        move |first, second| starts[first as usize] && first + 1 == second
    }
}

/// Changes the order of the `columns` of a front so that no pair is cut at a multiple of `tile`, as long as there is a single
/// column that can be put before such a pair: the next one is. Single columns keep their order among themselves, and so do
/// pairs. `is_pair` tells of two columns that follow each other whether they are one.
pub(crate) fn keep_in_tiles(columns: &mut [u32], tile: u32, is_pair: impl Fn(u32, u32) -> bool) {
    let tile = tile as usize;
    let starts_pair = |columns: &[u32], at: usize| match columns[at..] {
        [first, second, ..] => is_pair(first, second),
        _ => false,
    };
    let mut at = 0;
    while at < columns.len() {
        if !starts_pair(columns, at) {
            at += 1;
            continue;
        }
        if at % tile == tile - 1 {
            let mut single = at;
            while single < columns.len() && starts_pair(columns, single) {
                single += 2;
            }
            if single == columns.len() {
                return;
            }
            columns[at..=single].rotate_right(1);
            at += 1;
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn kept(len: u32, tile: u32, starts: &[u32]) -> Vec<u32> {
        let mut columns: Vec<u32> = (0..len).collect();
        let pairs = Pairs { starts, tile };
        keep_in_tiles(&mut columns, tile, pairs.among(len as usize));
        columns
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn pairs_are_cut_where_no_single_column_is_left(
            items in vec(any::<bool>(), 0..60),
            tile in 2u32..9,
        ) {
            let (mut starts, mut singles, mut len) = (Vec::new(), Vec::new(), 0);
            for is_pair in items {
                let list = if is_pair { &mut starts } else { &mut singles };
                list.push(len);
                len += if is_pair { 2 } else { 1 };
            }
            let columns = kept(len, tile, &starts);
            let of = |list: &[u32]| -> Vec<u32> {
                columns.iter().copied().filter(|c| list.contains(c)).collect()
            };
            prop_assert_eq!(of(&starts), &starts[..]);
            prop_assert_eq!(of(&singles), &singles[..]);
            prop_assert_eq!(columns.len(), len as usize);
            let last_single = columns.iter().rposition(|c| singles.contains(c));
            for (at, column) in columns.iter().enumerate().filter(|(_, c)| starts.contains(c)) {
                prop_assert_eq!(columns[at + 1], column + 1);
                if (at as u32 + 1).is_multiple_of(tile) {
                    // Nothing could be put before it.
                    prop_assert!(last_single.is_none_or(|last| last < at));
                }
            }
        }
    }

    #[test]
    fn the_next_single_column_goes_before_a_pair_that_would_be_cut() {
        assert_eq!(kept(8, 4, &[0, 2, 5]), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(kept(8, 4, &[0, 3, 6]), [0, 1, 2, 5, 3, 4, 6, 7]);
        assert_eq!(kept(9, 4, &[0, 3, 5]), [0, 1, 2, 7, 3, 4, 5, 6, 8]);
    }

    #[test]
    fn a_column_whose_other_one_is_in_another_front_is_single() {
        let pairs = Pairs {
            starts: &[0, 4, 7],
            tile: 4,
        };
        let is_pair = pairs.among(9);
        let mut columns = [2, 3, 5, 4, 7, 0, 1];
        keep_in_tiles(&mut columns, pairs.tile, is_pair);
        assert_eq!(columns, [2, 3, 5, 4, 7, 0, 1]);
        columns = [2, 3, 5, 0, 1, 4, 7];
        keep_in_tiles(&mut columns, pairs.tile, pairs.among(9));
        assert_eq!(columns, [2, 3, 5, 4, 0, 1, 7]);
    }
}
