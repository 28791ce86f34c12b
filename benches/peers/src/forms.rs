//! The forms of a matrix that solvers of symmetric systems take, made when the first one asks and kept.

use std::sync::{Arc, OnceLock};

use sprs::CsMat;

/// A matrix, or a triangle of one, by rows with 32-bit indices. The upper triangle by rows of a symmetric matrix is its
/// lower triangle by columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Compressed<T = f64> {
    /// Where each row starts in the other two; n + 1 of them.
    pub ptr: Vec<u32>,
    /// Column indices, ascending within a row.
    pub idx: Vec<u32>,
    /// Values, as `idx`.
    pub values: Vec<T>,
}

/// Where the entries of a matrix by rows, or of its upper triangle, are; the first row and column are 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinates {
    /// The row of each entry.
    pub rows: Vec<u32>,
    /// Its column.
    pub columns: Vec<u32>,
}

/// Which entries a form has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All.
    Whole,
    /// Those of the upper triangle, the diagonal included.
    Upper,
    /// As `Upper`, and a zero for each entry of the diagonal that is not there.
    UpperWithDiagonal,
}

/// All forms of a matrix that anybody asked for.
#[derive(Debug, Clone)]
pub(crate) struct Forms<T> {
    compressed: [OnceLock<Arc<Compressed<T>>>; 3],
    coordinates: [OnceLock<Coordinates>; 3],
    upper_rows: OnceLock<CsMat<T>>,
}

impl<T> Default for Forms<T> {
    fn default() -> Self {
        Self {
            compressed: std::array::from_fn(|_| OnceLock::new()),
            coordinates: std::array::from_fn(|_| OnceLock::new()),
            upper_rows: OnceLock::new(),
        }
    }
}

impl<T: Copy + Default> Forms<T> {
    /// That part of the matrix `rows`, whose indices fit signed 32-bit integers.
    pub fn compressed(&self, rows: &CsMat<T>, part: Part) -> &Arc<Compressed<T>> {
        self.compressed[part as usize].get_or_init(|| Arc::new(Compressed::of(rows, part)))
    }

    /// Where the entries of that part are.
    pub fn coordinates(&self, rows: &CsMat<T>, part: Part) -> &Coordinates {
        self.coordinates[part as usize].get_or_init(|| {
            let form = self.compressed(rows, part);
            let of_row = |i: usize| (form.ptr[i + 1] - form.ptr[i]) as usize;
            let each = (0..rows.rows()).flat_map(|i| std::iter::repeat_n(i as u32 + 1, of_row(i)));
            Coordinates {
                rows: each.collect(),
                columns: form.idx.iter().map(|&j| j + 1).collect(),
            }
        })
    }

    /// The upper triangle as `sprs` has it.
    pub fn upper_rows(&self, rows: &CsMat<T>) -> &CsMat<T> {
        self.upper_rows.get_or_init(|| {
            let form = self.compressed(rows, Part::Upper);
            let wide = |indices: &[u32]| indices.iter().map(|&i| i as usize).collect();
            CsMat::new(
                rows.shape(),
                wide(&form.ptr),
                wide(&form.idx),
                form.values.clone(),
            )
        })
    }
}

impl<T: Copy + Default> Compressed<T> {
    fn of(rows: &CsMat<T>, part: Part) -> Self {
        let mut form = Self {
            ptr: vec![0],
            idx: Vec::new(),
            values: Vec::new(),
        };
        for (i, row) in rows.outer_iterator().enumerate() {
            let diagonal = row.indices().partition_point(|&j| j < i);
            let first = if part == Part::Whole { 0 } else { diagonal };
            let is_missing = row.indices().get(diagonal) != Some(&i);
            if is_missing && part == Part::UpperWithDiagonal {
                form.idx.push(i as u32);
                form.values.push(T::default());
            }
            form.idx
                .extend(row.indices()[first..].iter().map(|&j| j as u32));
            form.values.extend_from_slice(&row.data()[first..]);
            form.ptr.push(form.idx.len() as u32);
        }
        form
    }
}
