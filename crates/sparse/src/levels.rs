//! Level sets of columns.

/// Columns grouped by level: a column depends only on columns of smaller levels, so the columns of
/// one level can be eliminated at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    level_of: Vec<u32>,
    level_ptr: Vec<u64>,
    level_cols: Vec<u32>,
}

impl Levels {
    /// Groups columns by their level; within a level they stand in increasing order.
    ///
    /// # Panics
    ///
    /// If a level below the largest is empty.
    #[track_caller]
    pub fn from_level_of(level_of: Vec<u32>) -> Self {
        let num_levels = level_of.iter().max().map_or(0, |&l| l as usize + 1);
        let mut level_ptr = vec![0u64; num_levels + 1];
        for &level in &level_of {
            level_ptr[level as usize + 1] += 1;
        }
        for level in 0..num_levels {
            assert!(level_ptr[level + 1] > 0, "level {level} has no column");
            level_ptr[level + 1] += level_ptr[level];
        }
        let mut next = level_ptr.clone();
        let mut level_cols = vec![0u32; level_of.len()];
        for (col, &level) in level_of.iter().enumerate() {
            level_cols[next[level as usize] as usize] = col as u32;
            next[level as usize] += 1;
        }
        Self {
            level_of,
            level_ptr,
            level_cols,
        }
    }

    /// Number of columns.
    pub fn n(&self) -> usize {
        self.level_of.len()
    }

    /// Number of levels.
    pub fn num_levels(&self) -> usize {
        self.level_ptr.len() - 1
    }

    /// Level of each column.
    pub fn level_of(&self) -> &[u32] {
        &self.level_of
    }

    /// Offsets of the levels in [`level_cols`](Self::level_cols), one more than there are levels.
    pub fn level_ptr(&self) -> &[u64] {
        &self.level_ptr
    }

    /// Columns in order of level, then of index.
    pub fn level_cols(&self) -> &[u32] {
        &self.level_cols
    }

    /// Columns of one level, in increasing order.
    pub fn level(&self, level: usize) -> &[u32] {
        &self.level_cols[self.level_ptr[level] as usize..self.level_ptr[level + 1] as usize]
    }

    /// Number of columns of the widest level.
    pub fn max_width(&self) -> usize {
        self.level_ptr
            .windows(2)
            .map(|w| (w[1] - w[0]) as usize)
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_grouped_in_order() {
        let levels = Levels::from_level_of(vec![0, 1, 0, 2, 1]);
        assert_eq!(levels.num_levels(), 3);
        assert_eq!(levels.level(0), [0, 2]);
        assert_eq!(levels.level(1), [1, 4]);
        assert_eq!(levels.level_ptr(), [0, 2, 4, 5]);
        assert_eq!(levels.max_width(), 2);
        assert_eq!(Levels::from_level_of(vec![]).num_levels(), 0);
    }

    #[test]
    #[should_panic(expected = "level 1 has no column")]
    fn gaps_are_refused() {
        Levels::from_level_of(vec![0, 2]);
    }
}
