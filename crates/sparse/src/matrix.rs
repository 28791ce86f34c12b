//! A borrowed sparse matrix.

use crate::pattern::CompressedPattern;
use crate::scalar::Scalar;

/// A sparse matrix that is looked at: a pattern, one value per entry, and which way both are stored.
#[derive(Debug, Clone, Copy)]
pub struct MatrixView<'a, T> {
    pattern: &'a CompressedPattern,
    values: &'a [T],
    by_columns: bool,
}

impl<'a, T: Scalar> MatrixView<'a, T> {
    /// A matrix stored by rows.
    ///
    /// # Panics
    ///
    /// If there is not one value per entry.
    #[track_caller]
    pub fn by_rows(pattern: &'a CompressedPattern, values: &'a [T]) -> Self {
        assert_eq!(pattern.nnz(), values.len(), "one value per entry");
        Self {
            pattern,
            values,
            by_columns: false,
        }
    }

    /// A matrix stored by columns.
    ///
    /// # Panics
    ///
    /// If there is not one value per entry.
    #[track_caller]
    pub fn by_columns(pattern: &'a CompressedPattern, values: &'a [T]) -> Self {
        Self::by_rows(pattern, values).transpose()
    }

    /// The transpose, which is the same storage seen the other way.
    pub fn transpose(self) -> Self {
        Self {
            by_columns: !self.by_columns,
            ..self
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        if self.by_columns {
            self.pattern.minor_dim()
        } else {
            self.pattern.major_dim()
        }
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.transpose().rows()
    }

    /// The values in stored order.
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// Whether columns are stored one after another.
    pub fn is_by_columns(&self) -> bool {
        self.by_columns
    }

    /// The stored rows, or columns: their indices and values.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = (&'a [u32], &'a [T])> + use<'a, T> {
        let (pattern, values) = (self.pattern, self.values);
        (0..pattern.major_dim()).map(move |line| {
            let range = pattern.range(line);
            (&pattern.idx()[range.clone()], &values[range])
        })
    }

    /// Calls `visit(row, column, value)` for every entry in stored order.
    pub fn for_each(&self, mut visit: impl FnMut(usize, usize, T)) {
        for (outer, (indices, values)) in self.lines().enumerate() {
            for (&inner, &value) in indices.iter().zip(values) {
                if self.by_columns {
                    visit(inner as usize, outer, value);
                } else {
                    visit(outer, inner as usize, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_storages_and_transposes_show_the_same_entries() {
        // 1 . 2
        // . 3 .
        let rows = CompressedPattern::new(3, vec![0, 2, 3], vec![0, 2, 1]).unwrap();
        let cols = CompressedPattern::new(2, vec![0, 1, 2, 3], vec![0, 1, 0]).unwrap();
        let by_rows = MatrixView::by_rows(&rows, &[1.0, 2.0, 3.0]);
        let by_columns = MatrixView::by_columns(&cols, &[1.0, 3.0, 2.0]);
        let entries = |view: MatrixView<'_, f64>| {
            let mut entries = Vec::new();
            view.for_each(|i, j, v| entries.push((i, j, v as i32)));
            entries.sort_unstable();
            entries
        };
        let expected = [(0, 0, 1), (0, 2, 2), (1, 1, 3)];
        assert_eq!(entries(by_rows), expected);
        assert_eq!(entries(by_columns), expected);
        assert_eq!((by_columns.rows(), by_columns.cols()), (2, 3));
        assert_eq!(
            entries(by_rows.transpose()),
            [(0, 0, 1), (1, 1, 3), (2, 0, 2)]
        );
    }
}
