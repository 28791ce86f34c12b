//! Factors of fronts in parts that are written down and put together again.
//!
//! What follows from the tree is left out: how many rows a front has, which fronts received columns, which labels stand where.
//! [`FrontStore::from_parts`] goes up the tree and refuses whatever the solves and refactorizations could not rely on, since
//! they read labels and panels without a check.

use std::borrow::Cow;

use luge_sparse::etree::NONE;
use luge_sparse::{OutOfMemory, Reservation, Scalar, in_large_pages};

use crate::factorize::{DelayedPanels, FrontState, FrontStore};
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::AssemblyTree;

/// The factors of all fronts of a [`Symbolic`] factorization.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontParts<'a, F: Scalar> {
    /// The panels of all fronts where the symbolic factorization has room for them:
    /// [`slot_entries`](Symbolic::slot_entries) entries. Those of a front that received columns are not among them.
    pub values: Cow<'a, [F]>,
    /// Pivots of each front; its other columns went to the parent.
    pub pivots: Vec<u32>,
    /// For each front whether rows or columns moved when it was eliminated.
    pub moved: Vec<bool>,
    /// Where the columns of each front stood before it was eliminated, its own before those that it received; one front
    /// after another.
    pub columns: Vec<u32>,
    /// The same of the rows; empty if these are permuted as the columns are.
    pub rows: Vec<u32>,
    /// The panels of each front that received columns, in the order of the fronts.
    pub delayed: Vec<Cow<'a, [F]>>,
}

/// Why parts are the factors of no matrix of this kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// They contradict each other, or the symbolic factorization.
    #[error("{what} of the factors")]
    Unsound {
        /// What is not as it can be.
        what: &'static str,
    },
    /// The memory limit does not allow them.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

pub(crate) const fn unsound(what: &'static str) -> PartsError {
    PartsError::Unsound { what }
}

impl<S: Storage> Symbolic<S> {
    /// Entries of the panels of all fronts, as long as no column is delayed.
    pub fn slot_entries(&self) -> u64 {
        self.layout.slots
    }
}

impl<F: Scalar> FrontStore<F> {
    /// The parts that these factors are made of.
    pub(crate) fn parts<S: Storage>(&self, symbolic: &Symbolic<S>) -> FrontParts<'_, F> {
        let tree = &symbolic.tree;
        let mut parts = FrontParts {
            values: Cow::Borrowed(&self.values[..]),
            pivots: self.records.iter().map(|record| record.pivots).collect(),
            moved: self.records.iter().map(|record| record.moved).collect(),
            columns: Vec::with_capacity(tree.n()),
            rows: Vec::with_capacity(self.rows.len()),
            delayed: Vec::new(),
        };
        for (s, front) in tree.fronts.iter().enumerate() {
            if let Some(panels) = self.delayed.get(s).and_then(Option::as_deref) {
                parts.columns.extend(&panels.col_from);
                parts.rows.extend(&panels.row_from);
                parts.delayed.push(Cow::Borrowed(&panels.values[..]));
                continue;
            }
            let from = |labels: &u32| labels - front.start;
            let own = front.pivot_range();
            parts
                .columns
                .extend(self.cols[own.clone()].iter().map(from));
            if !S::SYMMETRIC {
                parts.rows.extend(self.rows[own].iter().map(from));
            }
        }
        parts
    }

    /// Puts parts together, if they are what a factorization may have left, but for the values of the panels.
    /// `memory` holds what is reserved for [`Symbolic::factor_bytes`]; what delayed columns take beyond is added to it.
    pub(crate) fn from_parts<S: Storage>(
        symbolic: &Symbolic<S>,
        parts: FrontParts<'_, F>,
        memory: &mut Reservation,
    ) -> Result<Self, PartsError> {
        let tree = &symbolic.tree;
        let num_fronts = tree.num_supernodes();
        let FrontParts {
            values,
            pivots,
            moved,
            columns,
            rows,
            delayed,
        } = parts;
        if values.len() as u64 != symbolic.layout.slots {
            return Err(unsound("the size"));
        }
        if pivots.len() != num_fronts || moved.len() != num_fronts {
            return Err(unsound("the number of fronts"));
        }
        let mut store = Self {
            values: in_large_pages(values.into_owned()),
            records: Vec::with_capacity(num_fronts),
            rows: vec![0; if S::SYMMETRIC { 0 } else { tree.n() }],
            cols: vec![0; tree.n()],
            delayed: Vec::new(),
        };
        let mut columns = Positions::new(&columns);
        let mut rows = Positions::new(&rows);
        let mut panels = delayed.into_iter();
        for (s, front) in tree.fronts.iter().enumerate() {
            let children = &tree.children[front.child_range()];
            let received = children.iter().map(|&child| {
                let record: &FrontState = &store.records[child as usize];
                (record.k - record.pivots) as usize
            });
            let received: usize = received.sum();
            let own = front.pivots as usize;
            let k = own + received;
            let state = FrontState {
                k: k as u32,
                pivots: pivots[s],
                moved: moved[s],
            };
            // A root has nobody to delay a column to.
            if state.pivots > state.k || (front.parent == NONE && state.pivots < state.k) {
                return Err(unsound("the number of pivots"));
            }
            let col_from = columns.next(k).ok_or(unsound("the order of the columns"))?;
            let row_from = if S::SYMMETRIC {
                &[][..]
            } else {
                rows.next(k).ok_or(unsound("the order of the rows"))?
            };
            let stays = |from: &[u32]| from.iter().enumerate().all(|(j, &at)| at as usize == j);
            if !(state.moved || stays(col_from) && stays(row_from)) {
                return Err(unsound("the order of rows and columns"));
            }
            store.records.push(state);
            if received == 0 {
                let label = |(to, &from): (&mut u32, &u32)| *to = front.start + from;
                store.cols[front.pivot_range()]
                    .iter_mut()
                    .zip(col_from)
                    .for_each(label);
                if !S::SYMMETRIC {
                    store.rows[front.pivot_range()]
                        .iter_mut()
                        .zip(row_from)
                        .for_each(label);
                }
                continue;
            }
            let values = panels.next().ok_or(unsound("the delayed columns"))?;
            let entries = S::slot_entries(k as u32, front.below) as usize;
            if values.len() != entries {
                return Err(unsound("the delayed columns"));
            }
            memory.grow(DelayedPanels::<F>::bytes(entries, k))?;
            let labels = store.received_labels(front.start, own, children, S::SYMMETRIC, tree);
            let labelled = |labels: &[u32], from: &[u32]| {
                let label = |&at: &u32| labels[at as usize];
                from.iter().map(label).collect::<Vec<u32>>()
            };
            let panels = DelayedPanels {
                values: values.into_owned(),
                rows: labelled(&labels[0], row_from),
                cols: labelled(&labels[1], col_from),
                row_from: row_from.to_vec(),
                col_from: col_from.to_vec(),
            };
            if store.delayed.is_empty() {
                memory.grow((num_fronts * size_of::<Option<Box<DelayedPanels<F>>>>()) as u64)?;
                store.delayed.resize_with(num_fronts, || None);
            }
            store.delayed[s] = Some(Box::new(panels));
        }
        if !columns.is_at_end() || !rows.is_at_end() || panels.next().is_some() {
            return Err(unsound("the size"));
        }
        Ok(store)
    }

    /// Labels of the rows and of the columns of a front with these children before it was eliminated: its own, then those
    /// that they delayed. No rows if these are permuted as the columns are.
    fn received_labels(
        &self,
        start: u32,
        own: usize,
        children: &[u32],
        is_symmetric: bool,
        tree: &AssemblyTree,
    ) -> [Vec<u32>; 2] {
        let cols: Vec<u32> = (start..start + own as u32).collect();
        let mut labels = [
            if is_symmetric {
                Vec::new()
            } else {
                cols.clone()
            },
            cols,
        ];
        for &child in children {
            let child = child as usize;
            let record = &self.records[child];
            let late = record.pivots as usize..record.k as usize;
            let [rows, cols] = match self.delayed.get(child).and_then(Option::as_deref) {
                Some(panels) => [&panels.rows[..], &panels.cols[..]],
                None => {
                    let own = tree.fronts[child].pivot_range();
                    let rows = if is_symmetric {
                        &[]
                    } else {
                        &self.rows[own.clone()]
                    };
                    [rows, &self.cols[own]]
                }
            };
            if !is_symmetric {
                labels[0].extend(&rows[late.clone()]);
            }
            labels[1].extend(&cols[late]);
        }
        labels
    }
}

/// Permutations that stand one after another.
struct Positions<'a> {
    rest: &'a [u32],
    seen: Vec<bool>,
}

impl<'a> Positions<'a> {
    fn new(all: &'a [u32]) -> Self {
        Self {
            rest: all,
            seen: Vec::new(),
        }
    }

    /// The next one, of this length, if it is there and is one.
    fn next(&mut self, len: usize) -> Option<&'a [u32]> {
        let (next, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        self.seen.clear();
        self.seen.resize(len, false);
        let mut is_new = |&at: &u32| {
            let seen = self.seen.get_mut(at as usize);
            seen.is_some_and(|seen| !std::mem::replace(seen, true))
        };
        next.iter().all(&mut is_new).then_some(next)
    }

    fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use luge_sparse::{CompressedPattern, PivotPolicy};

    use super::*;
    use crate::lu::FrontalLu;
    use crate::options::Options;
    use crate::tree::TreeOptions;

    /// Factors of an arrow of two fronts below a third one, one of whose columns is delayed to it.
    fn factorized() -> FrontalLu<f64> {
        // Columns 0 to 2 and 3 to 5 have the rows of their own and of 6 and 7.
        let (mut ptr, mut idx, mut values) = (vec![0u64], Vec::new(), Vec::new());
        for j in 0..8u32 {
            let own = if j < 6 {
                j / 3 * 3..j / 3 * 3 + 3
            } else {
                0..6
            };
            for i in own.chain(6..8) {
                idx.push(i);
                let is_small = j == 4 && i < 6;
                let size = if is_small { 1e-9 } else { 1.0 };
                values.push(
                    size * f64::from(1 + (3 * i + 5 * j) % 7)
                        + f64::from(u8::from(i == j && !is_small)) * 9.0,
                );
            }
            ptr.push(idx.len() as u64);
        }
        let cols = CompressedPattern::new(8, ptr, idx).unwrap();
        let tree = TreeOptions {
            zero_fraction: 0.0,
            tiny_zero_fraction: 0.0,
            ..TreeOptions::default()
        };
        let symbolic = Arc::new(Symbolic::analyze(&cols, &tree).unwrap());
        assert!(symbolic.tree().num_supernodes() > 1);
        let options = Options {
            pivots: PivotPolicy::threshold(0.5),
            ..Options::default()
        };
        let (lu, _) = FrontalLu::factorize(&symbolic, &values, &options).unwrap();
        assert!(lu.num_delayed() > 0);
        lu
    }

    fn changed(
        lu: &FrontalLu<f64>,
        change: impl FnOnce(&mut FrontParts<'_, f64>),
    ) -> Result<FrontalLu<f64>, String> {
        let mut parts = lu.parts();
        change(&mut parts);
        let (products, quality) = (lu.products().to_vec(), *lu.quality());
        let memory = Reservation::default();
        let made = FrontalLu::from_parts(lu.symbolic(), parts, products, quality, memory);
        made.map_err(|error| error.to_string())
    }

    #[test]
    fn parts_make_the_same_factors() {
        let lu = factorized();
        let again = changed(&lu, |_| ()).unwrap();
        assert_eq!(again.parts(), lu.parts());
        assert_eq!(again.num_delayed(), lu.num_delayed());
        assert_eq!(again.bytes(), lu.bytes());
        let pivots = |lu: &FrontalLu<f64>| lu.pivots().collect::<Vec<_>>();
        assert_eq!(pivots(&again), pivots(&lu));
    }

    #[test]
    fn parts_that_are_no_factors_are_refused() {
        let lu = factorized();
        let last = lu.symbolic().tree().num_supernodes() - 1;
        let refused = |what: &str, change: &dyn Fn(&mut FrontParts<'_, f64>)| {
            let message = changed(&lu, change).unwrap_err();
            assert_eq!(message, format!("{what} of the factors"));
        };
        refused("the size", &|p| p.values.to_mut().push(0.0));
        refused("the number of fronts", &|p| {
            p.pivots.pop();
        });
        refused("the number of fronts", &|p| p.moved.push(false));
        refused("the number of pivots", &|p| p.pivots[0] = 9);
        // The root delays nothing.
        refused("the number of pivots", &|p| p.pivots[last] -= 1);
        refused("the order of the columns", &|p| p.columns[0] = 7);
        refused("the order of the columns", &|p| p.columns[0] = p.columns[1]);
        refused("the order of the rows", &|p| p.rows[0] = p.rows[1]);
        refused("the order of the columns", &|p| {
            p.columns.pop();
        });
        refused("the size", &|p| p.rows.push(0));
        refused("the order of rows and columns", &|p| p.moved.fill(false));
        refused("the delayed columns", &|p| {
            p.delayed.pop();
        });
        refused("the delayed columns", &|p| p.delayed[0].to_mut().push(0.0));
        refused("the size", &|p| p.delayed.push(Cow::Owned(Vec::new())));
        // No column was delayed, says this one, so that one of the root is left over.
        refused("the size", &|p| {
            let own = lu.symbolic().tree().fronts();
            let own = own.iter().map(|front| front.pivots);
            p.pivots = own.collect();
        });
        let parts = lu.parts();
        let made = FrontalLu::from_parts(
            lu.symbolic(),
            parts,
            vec![0.0; 3],
            *lu.quality(),
            Reservation::default(),
        );
        assert!(made.is_err());
    }
}
