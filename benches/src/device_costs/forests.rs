//! Matrices whose assembly trees are known beforehand, front by front.
//!
//! The first pivot of a front has an entry in each row and column of the front, the others have their diagonal alone: that
//! fills the front, and is about as sparse as matrices of circuits. The diagonal dominates, so no rows are exchanged.

use std::sync::Arc;

use anyhow::ensure;
use luge_frontal::{Symbolic, TreeOptions};
use luge_sparse::CompressedPattern;

/// A front of a [`Forest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Front {
    /// The number of its parent, if it is no root.
    pub parent: Option<usize>,
    /// Number of pivots.
    pub pivots: u32,
    /// Rows below them: the first ones of the parent's front.
    pub below: u32,
}

impl Front {
    /// Rows of the front.
    pub fn rows(&self) -> u32 {
        self.pivots + self.below
    }
}

/// Fronts in postorder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forest {
    /// The fronts.
    pub fronts: Vec<Front>,
}

impl Forest {
    /// `count` fronts that have nothing to do with each other.
    pub fn alone(count: usize, pivots: u32) -> Self {
        let front = Front {
            parent: None,
            pivots,
            below: 0,
        };
        Self {
            fronts: vec![front; count],
        }
    }

    /// `count` fronts, each the only child of the next. The root has as many rows as the others, all of them pivots.
    pub fn chain(count: usize, pivots: u32, below: u32) -> Self {
        let front = |s: usize| Front {
            parent: Some(s + 1),
            pivots,
            below,
        };
        let mut fronts: Vec<Front> = (0..count.saturating_sub(1)).map(front).collect();
        fronts.extend(Self::alone(1, pivots + below).fronts);
        Self { fronts }
    }

    /// `trees` complete binary trees of `levels` levels, with roots as in [`chain`](Self::chain).
    pub fn binary_trees(trees: usize, levels: u32, pivots: u32, below: u32) -> Self {
        let mut forest = Self::default();
        for _ in 0..trees {
            let root = forest.push_subtree(levels, pivots, below);
            let root = &mut forest.fronts[root];
            (root.pivots, root.below) = (pivots + below, 0);
        }
        forest
    }

    /// Appends a complete binary tree and returns the number of its root, which has no parent yet.
    fn push_subtree(&mut self, levels: u32, pivots: u32, below: u32) -> usize {
        let children = if levels > 1 {
            [0; 2].map(|_| Some(self.push_subtree(levels - 1, pivots, below)))
        } else {
            [None; 2]
        };
        let root = self.fronts.len();
        for child in children.into_iter().flatten() {
            self.fronts[child].parent = Some(root);
        }
        self.fronts.push(Front {
            parent: None,
            pivots,
            below,
        });
        root
    }

    /// The matrix by columns, and its values.
    ///
    /// # Errors
    ///
    /// If there are 2³² rows.
    pub fn matrix(&self) -> anyhow::Result<(CompressedPattern, Vec<f64>)> {
        let mut starts = Vec::with_capacity(self.fronts.len());
        let mut n = 0u32;
        for front in &self.fronts {
            starts.push(n);
            let next = n.checked_add(front.pivots);
            n = next.ok_or_else(|| anyhow::anyhow!("there are 2³² rows"))?;
        }
        // Rows of each front, parents first: each takes its rows below from its parent.
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.fronts.len()];
        let mut entries: Vec<(u32, u32)> = (0..n).map(|j| (j, j)).collect();
        for (s, front) in self.fronts.iter().enumerate().rev() {
            let mut own: Vec<u32> = (starts[s]..starts[s] + front.pivots).collect();
            let above = front.parent.map_or(&[][..], |parent| &rows[parent]);
            own.extend(&above[..front.below as usize]);
            for &row in &own[1..] {
                entries.extend([(own[0], row), (row, own[0])]);
            }
            rows[s] = own;
        }
        entries.sort_unstable();
        let mut ptr = vec![0u64; n as usize + 1];
        for &(column, _) in &entries {
            ptr[column as usize + 1] += 1;
        }
        for j in 0..n as usize {
            ptr[j + 1] += ptr[j];
        }
        let value = |&(column, row): &(u32, u32)| {
            let entries = ptr[column as usize + 1] - ptr[column as usize];
            if column == row { entries as f64 } else { -1.0 }
        };
        let values = entries.iter().map(value).collect();
        let idx = entries.iter().map(|&(_, row)| row).collect();
        Ok((CompressedPattern::new(n as usize, ptr, idx)?, values))
    }

    /// The symbolic factorization of a [`matrix`](Self::matrix), and the matrix's values.
    ///
    /// # Errors
    ///
    /// If its tree has other fronts than these.
    pub fn symbolic(&self) -> anyhow::Result<(Arc<Symbolic>, Vec<f64>)> {
        let (pattern, values) = self.matrix()?;
        let options = TreeOptions {
            zero_fraction: 0.0,
            tiny_zero_fraction: 0.0,
            ..TreeOptions::default()
        };
        let symbolic: Symbolic = Symbolic::analyze(&pattern, &options)?;
        let found = symbolic.tree().fronts();
        let is_expected = |(found, expected): (&luge_frontal::Front, &Front)| {
            let parent = expected.parent.map_or(u32::MAX, |parent| parent as u32);
            (found.parent, found.pivots, found.below) == (parent, expected.pivots, expected.below)
        };
        ensure!(
            found.len() == self.fronts.len() && found.iter().zip(&self.fronts).all(is_expected),
            "the analysis found other fronts than those that the matrix was made of"
        );
        Ok((Arc::new(symbolic), values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(forest: &Forest) -> Vec<(Option<usize>, u32, u32)> {
        let shape = |front: &Front| (front.parent, front.pivots, front.below);
        forest.fronts.iter().map(shape).collect()
    }

    #[test]
    fn forests_are_those_that_are_asked_for() {
        let chain = Forest::chain(3, 2, 5);
        let expected = [(Some(1), 2, 5), (Some(2), 2, 5), (None, 7, 0)];
        assert_eq!(shapes(&chain), expected);
        let trees = Forest::binary_trees(2, 2, 1, 3);
        let expected = [
            (Some(2), 1, 3),
            (Some(2), 1, 3),
            (None, 4, 0),
            (Some(5), 1, 3),
            (Some(5), 1, 3),
            (None, 4, 0),
        ];
        assert_eq!(shapes(&trees), expected);
        assert_eq!(Forest::binary_trees(1, 5, 2, 2).fronts.len(), 31);
    }

    #[test]
    fn an_analysis_finds_the_fronts_of_a_forest() {
        for forest in [
            Forest::alone(3, 20),
            Forest::alone(2, 1),
            Forest::chain(5, 1, 7),
            Forest::chain(4, 16, 16),
            Forest::binary_trees(2, 4, 3, 5),
        ] {
            let (symbolic, values) = forest.symbolic().unwrap();
            assert_eq!(symbolic.tree().nnz(), values.len());
        }
        // More rows below than the parent has besides its pivots: the analysis makes one front of both.
        let merged = Forest {
            fronts: vec![
                Front {
                    parent: Some(1),
                    pivots: 2,
                    below: 3,
                },
                Front {
                    parent: None,
                    pivots: 3,
                    below: 0,
                },
            ],
        };
        assert!(merged.symbolic().is_err());
    }

    #[test]
    fn the_diagonal_dominates() {
        let (pattern, values) = Forest::binary_trees(1, 3, 2, 3).matrix().unwrap();
        for j in 0..pattern.major_dim() {
            let entries = pattern.range(j).map(|p| (pattern.idx()[p], values[p]));
            let (mut diagonal, mut others) = (0.0, 0.0);
            for (row, value) in entries {
                if row as usize == j {
                    diagonal += value;
                } else {
                    others += f64::abs(value);
                }
            }
            assert!(diagonal > others, "column {j}");
        }
    }
}
