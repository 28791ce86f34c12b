//! What ranks are given: whether it is the same, and how parts of it become a whole.

use std::hash::{DefaultHasher, Hasher};

use luge_comm::{Collectives, Operation, Plain};
use luge_sparse::{Compression, Index, MatrixRef, Scalar};

use super::Ranks;
use super::error::{RankError, Shared};

/// The rows of a matrix that one rank has.
///
/// Row `rows[i]` of the matrix has the entries `row_ptr[i]..row_ptr[i + 1]` of `col_idx` and `values`, whose columns increase.
#[derive(Debug, Clone, Copy)]
pub struct RowBlock<'a, T> {
    /// Numbers of the rows in the matrix, in any order.
    pub rows: &'a [u64],
    /// Where the entries of each row begin, and where those of the last end.
    pub row_ptr: &'a [u64],
    /// Columns in the matrix.
    pub col_idx: &'a [u64],
    /// Values of the entries.
    pub values: &'a [T],
}

/// A matrix by rows that was brought together from all ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct GatheredMatrix<T> {
    /// Where the entries of each row begin, and where those of the last end.
    pub row_ptr: Vec<u64>,
    /// Columns of the entries.
    pub col_idx: Vec<u64>,
    /// Values of the entries.
    pub values: Vec<T>,
}

impl<T: Scalar> GatheredMatrix<T> {
    /// The matrix, for the calls that take one, which check it.
    pub fn view(&self) -> MatrixRef<'_, T, u64> {
        let n = self.row_ptr.len() - 1;
        MatrixRef::by_rows(n, n, &self.row_ptr, &self.col_idx, &self.values)
    }
}

/// Where the rows of all ranks are: of each the rank and the place there.
type Places = Vec<(u32, u32)>;

impl Ranks {
    /// Brings together a matrix of order `n` of which each rank has some rows: each row is on one rank. All ranks have all of it
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`RankError`] that names the rank and the row: a row is twice there, or is no row of the matrix; of one that is nowhere
    /// rank 0 is named. Also if the arrays of a rank do not go together.
    pub fn gather_rows<T: Scalar + Plain>(
        &self,
        n: usize,
        own: &RowBlock<'_, T>,
    ) -> Result<GatheredMatrix<T>, RankError> {
        self.together(|| own.check())?;
        self.together(|| {
            let places = self.places(n, own.rows)?;
            let lengths = own.row_ptr.windows(2).map(|ends| ends[1] - ends[0]);
            let lengths = self.team.all_gather(&lengths.collect::<Vec<u64>>())?;
            let columns = self.team.all_gather(own.col_idx)?;
            let values = self.team.all_gather(own.values)?;
            let starts = |lengths: &Vec<u64>| {
                let mut start = 0;
                let starts = lengths.iter().map(move |&length| {
                    start += length as usize;
                    start - length as usize
                });
                starts.collect::<Vec<usize>>()
            };
            let starts: Vec<Vec<usize>> = lengths.iter().map(starts).collect();
            let mut all = GatheredMatrix {
                row_ptr: vec![0],
                col_idx: Vec::new(),
                values: Vec::new(),
            };
            for (rank, at) in places {
                let (rank, at) = (rank as usize, at as usize);
                let start = starts[rank][at];
                let entries = start..start + lengths[rank][at] as usize;
                all.col_idx.extend(&columns[rank][entries.clone()]);
                all.values.extend(&values[rank][entries]);
                all.row_ptr.push(all.values.len() as u64);
            }
            Ok::<_, Shared>(all)
        })
    }

    /// Brings together a vector of `n` values of which each rank has those of some `rows`, in their order.
    ///
    /// # Errors
    ///
    /// As [`gather_rows`](Self::gather_rows).
    pub fn gather_values<T: Scalar + Plain>(
        &self,
        n: usize,
        rows: &[u64],
        values: &[T],
    ) -> Result<Vec<T>, RankError> {
        self.together(|| {
            if rows.len() == values.len() {
                return Ok(());
            }
            Err(format!(
                "it was given {} values for {} rows",
                values.len(),
                rows.len()
            ))
        })?;
        self.together(|| {
            let places = self.places(n, rows)?;
            let values = self.team.all_gather(values)?;
            let value = |(rank, at): (u32, u32)| values[rank as usize][at as usize];
            Ok::<_, Shared>(places.into_iter().map(value).collect())
        })
    }

    /// Where each of `n` rows is.
    fn places(&self, n: usize, rows: &[u64]) -> Result<Places, Shared> {
        self.team.enter(Operation::Input);
        let all: Vec<Vec<u64>> = self.team.all_gather(rows)?;
        let mut places: Vec<Option<(u32, u32)>> = vec![None; n];
        let wrong = |rank: usize, what: String| {
            self.team.blame(rank);
            Err(Shared::Input(what))
        };
        for (rank, rows) in all.iter().enumerate() {
            for (at, &row) in rows.iter().enumerate() {
                let Some(place) = places.get_mut(row as usize) else {
                    return wrong(rank, format!("row {row} of a matrix of order {n}"));
                };
                if let Some((first, _)) = place {
                    return wrong(rank, format!("row {row}, which rank {first} has already"));
                }
                *place = Some((rank as u32, at as u32));
            }
        }
        match places.iter().position(Option::is_none) {
            Some(row) => wrong(
                0,
                format!("rows of which none is row {row}, nor were the others"),
            ),
            None => Ok(places.into_iter().flatten().collect()),
        }
    }

    /// Agrees that all ranks have the same matrix.
    pub(super) fn same_matrix<T: Scalar, I: Index>(
        &self,
        a: &MatrixRef<'_, T, I>,
    ) -> Result<(), RankError> {
        let mut hasher = DefaultHasher::new();
        // One that is not valid is refused by the call.
        if a.check().is_ok() {
            let pattern = a.pattern();
            hasher.write_usize(a.rows());
            hasher.write_usize(a.cols());
            hasher.write_u8(u8::from(pattern.compression() == Compression::Rows));
            let lines = match pattern.compression() {
                Compression::Rows => a.rows(),
                Compression::Columns => a.cols(),
            };
            for line in 0..lines {
                let range = pattern.range(line);
                hasher.write_usize(range.len());
                for &index in &pattern.indices()[range.clone()] {
                    hasher.write_u64(index.to_u64());
                }
                hash_values(&a.values()[range], &mut hasher);
            }
        }
        self.same(hasher.finish(), "another matrix than rank 0")
    }

    /// Agrees that all ranks have the same values.
    pub(super) fn same_values<T: Scalar>(&self, values: &[T]) -> Result<(), RankError> {
        let mut hasher = DefaultHasher::new();
        hasher.write_usize(values.len());
        hash_values(values, &mut hasher);
        self.same(hasher.finish(), "another right-hand side than rank 0")
    }

    /// Agrees that all ranks have the same checksum, or were given `what`.
    pub(super) fn same(&self, own: u64, what: &'static str) -> Result<(), RankError> {
        self.together(|| {
            self.team.enter(Operation::Input);
            let all: Vec<Vec<u64>> = self.team.all_gather(&[own])?;
            let Some(rank) = all.iter().position(|of_rank| *of_rank != all[0]) else {
                return Ok(());
            };
            self.team.blame(rank);
            Err(Shared::Input(what.to_owned()))
        })
    }
}

fn hash_values<T: Scalar>(values: &[T], hasher: &mut DefaultHasher) {
    for value in values {
        value.map_components(|component| {
            let wide: f64 = component.widen();
            hasher.write_u64(wide.to_bits());
            component
        });
    }
}

impl<T> RowBlock<'_, T> {
    fn check(&self) -> Result<(), String> {
        let (rows, entries) = (self.rows.len(), self.values.len() as u64);
        let is_sound = self.row_ptr.len() == rows + 1
            && self.row_ptr.is_sorted()
            && (self.row_ptr[0], self.row_ptr[rows]) == (0, entries)
            && self.col_idx.len() as u64 == entries;
        if is_sound {
            return Ok(());
        }
        Err(format!(
            "it was given {rows} rows, {} offsets, {} columns and {entries} values, which do not go together",
            self.row_ptr.len(),
            self.col_idx.len()
        ))
    }
}
