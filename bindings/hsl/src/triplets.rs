//! A symmetric matrix as MA57 takes it, by triplets of one triangle or of both mixed, as the lower triangle by columns.

use luge::MatrixRef;

/// Where a triplet goes whose indices are out of range: nowhere.
const IGNORED: u32 = u32::MAX;

/// The lower triangle by columns, and where each triplet is in it.
pub(crate) struct Triangle {
    n: usize,
    col_ptr: Vec<u32>,
    row_idx: Vec<u32>,
    /// For each triplet the number of its entry, or [`IGNORED`].
    place: Vec<u32>,
}

/// What was seen of the triplets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Survey {
    /// Triplets with an index below 1 or above n; they are ignored.
    pub out_of_range: usize,
    /// Triplets beyond the first at a place; they are added up.
    pub duplicates: usize,
}

impl Triangle {
    /// Sorts the triplets, whose indices count from 1, in time proportional to n and their number. An entry above the diagonal
    /// stands for its counterpart below.
    pub(crate) fn new(n: usize, irn: &[i32], jcn: &[i32]) -> (Self, Survey) {
        let lower = |k: usize| {
            let in_range = |index: i32| index >= 1 && index as usize <= n;
            let (i, j) = (irn[k], jcn[k]);
            (in_range(i) && in_range(j)).then(|| [i.max(j) as usize - 1, i.min(j) as usize - 1])
        };
        let kept = || (0..irn.len()).filter_map(|k| lower(k).map(|place| (k, place)));
        // By rows, then by columns: the rows of each column ascend.
        let by_row = sorted(n, kept().map(|(k, [row, _])| (row, k)));
        let column = |k: usize| lower(k).map_or(0, |[_, column]| column);
        let by_column = sorted(n, by_row.iter().map(|&k| (column(k as usize), k as usize)));

        let mut survey = Survey {
            out_of_range: irn.len() - by_column.len(),
            duplicates: 0,
        };
        let mut triangle = Self {
            n,
            col_ptr: vec![0; n + 1],
            row_idx: Vec::with_capacity(by_column.len()),
            place: vec![IGNORED; irn.len()],
        };
        let mut last = None;
        for k in by_column {
            let place = lower(k as usize);
            if place == last {
                survey.duplicates += 1;
            } else if let Some([row, column]) = place {
                triangle.row_idx.push(row as u32);
                triangle.col_ptr[column + 1] += 1;
            }
            last = place;
            triangle.place[k as usize] = triangle.row_idx.len() as u32 - 1;
        }
        for column in 0..n {
            triangle.col_ptr[column + 1] += triangle.col_ptr[column];
        }
        (triangle, survey)
    }

    /// Order of the matrix.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Entries of the triangle.
    pub(crate) fn nnz(&self) -> usize {
        self.row_idx.len()
    }

    /// The matrix with these values of its entries.
    pub(crate) fn with<'a>(&'a self, values: &'a [f64]) -> MatrixRef<'a, f64, u32> {
        MatrixRef::by_columns(self.n, self.n, &self.col_ptr, &self.row_idx, values)
    }

    /// The value of each entry, given those of the triplets.
    pub(crate) fn gather(&self, a: &[f64], values: &mut Vec<f64>) {
        values.clear();
        values.resize(self.nnz(), 0.0);
        for (&place, &value) in self.place.iter().zip(a) {
            if place != IGNORED {
                values[place as usize] += value;
            }
        }
    }
}

/// The numbers of items by ascending keys below `n`, items of one key in the order in which they come.
fn sorted(n: usize, items: impl Iterator<Item = (usize, usize)> + Clone) -> Vec<u32> {
    let mut next = vec![0; n + 1];
    let mut count = 0;
    for (key, _) in items.clone() {
        next[key + 1] += 1;
        count += 1;
    }
    for key in 0..n {
        next[key + 1] += next[key];
    }
    let mut order = vec![0; count];
    for (key, item) in items {
        order[next[key]] = item as u32;
        next[key] += 1;
    }
    order
}
