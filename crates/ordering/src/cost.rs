//! What a factorization is predicted to take.
//!
//! The unit is the front: a run of columns of L with the same rows below the run. The counts are those
//! of a symbolic Cholesky factorization of B + Bᵀ, so for an unsymmetric block they are bounds.

use luge_sparse::etree::EliminationForest;
use serde::Serialize;

/// What the steps of a factorization take on the machine, in seconds. Only ratios matter to the choice
/// of an order.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    /// Column by column: an operation.
    pub column_flop: f64,
    /// Column by column: an entry of L + U.
    pub column_entry: f64,
    /// In fronts: an operation in a large front.
    pub front_flop: f64,
    /// In fronts: a front with p pivots takes `1 + front_overhead / p` times as long for an operation.
    pub front_overhead: f64,
    /// In fronts: an entry of a front that is assembled.
    pub front_entry: f64,
    /// In fronts: a front, whatever its size.
    pub front: f64,
    /// Nested dissection: an entry of the graph, times the binary logarithm of the number of vertices.
    pub dissection_entry: f64,
    /// Minimum degree: an entry of the graph.
    pub minimum_degree_entry: f64,
    /// How many factorizations the order will serve; infinite: the ordering costs nothing.
    pub factorizations: f64,
}

impl Default for Costs {
    /// One core of a server of 2021; one factorization.
    fn default() -> Self {
        Self {
            column_flop: 0.8e-9,
            column_entry: 25e-9,
            front_flop: 0.04e-9,
            front_overhead: 24.0,
            front_entry: 1.5e-9,
            front: 0.5e-6,
            dissection_entry: 35e-9,
            minimum_degree_entry: 25e-9,
            factorizations: 1.0,
        }
    }
}

impl Costs {
    /// Seconds of a nested dissection of a graph with `n` vertices and so many entries.
    pub(crate) fn dissection_seconds(&self, n: usize, entries: usize) -> f64 {
        entries as f64 * (n as f64).log2() * self.dissection_entry
    }

    /// Seconds of minimum degree on a graph with so many entries.
    pub(crate) fn minimum_degree_seconds(&self, entries: usize) -> f64 {
        entries as f64 * self.minimum_degree_entry
    }
}

/// Predicts what a factorization takes where its tree decides, as on a device with room for much of it at once.
pub trait TreeCost: std::fmt::Debug + Send + Sync {
    /// Seconds of a factorization with this elimination forest, and of what comes with each factorization. Depends on
    /// the forest alone.
    fn seconds(&self, forest: &EliminationForest) -> f64;

    /// About as many, found in less time: whether it is worth it to look for another order is decided by them.
    fn estimate(&self, forest: &EliminationForest) -> f64 {
        self.seconds(forest)
    }
}

/// Predicted size and cost of the factors, diagonal pivots assumed: the exact counts of a symbolic
/// Cholesky factorization of B + Bᵀ in each diagonal block, which bound those of B = L·U there.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Prediction {
    /// Entries of L in the diagonal blocks, its unit diagonal included.
    pub lnz: u64,
    /// Entries of U in the diagonal blocks, its diagonal included.
    pub unz: u64,
    /// Entries of A above the diagonal blocks. They are only copied if the blocks are factorized
    /// one by one; in a factorization of the whole matrix they fill, which is not predicted.
    pub off_diagonal_nnz: u64,
    /// Operations: for each pivot one division per entry of L below it, and a multiplication and
    /// an addition for each pair of an entry of L below it and one of U to its right.
    pub flops: f64,
    /// Fronts of the diagonal blocks.
    pub fronts: u64,
    /// Entries of all fronts, each a square matrix.
    pub front_entries: f64,
    /// Operations, those in fronts with p pivots divided by p.
    pub flops_per_pivot: f64,
}

impl Prediction {
    /// Adds a front of so many pivots, with so many rows and columns beyond them.
    pub(crate) fn add_front(&mut self, pivots: u32, beyond: u32) {
        let (p, b) = (f64::from(pivots), f64::from(beyond));
        let (sum, squares) = sums_below(p, b);
        let flops = sum + 2.0 * squares;
        self.lnz += sum as u64 + u64::from(pivots);
        self.unz = self.lnz;
        self.flops += flops;
        self.fronts += 1;
        self.front_entries += (p + b) * (p + b);
        self.flops_per_pivot += flops / p;
    }

    /// As [`add_front`](Self::add_front), of a symmetric matrix: half of the operations, one triangle of the front, and
    /// in the place of U the diagonal matrix D.
    fn add_symmetric_front(&mut self, pivots: u32, beyond: u32) {
        let (p, b) = (f64::from(pivots), f64::from(beyond));
        let (sum, squares) = sums_below(p, b);
        let flops = 2.0 * sum + squares;
        self.lnz += sum as u64 + u64::from(pivots);
        self.unz += u64::from(pivots);
        self.flops += flops;
        self.fronts += 1;
        self.front_entries += (p + b) * (p + b + 1.0) / 2.0;
        self.flops_per_pivot += flops / p;
    }

    /// Of the diagonal blocks, from the number of entries of each column of L and the columns' parents
    /// in the elimination tree, numbered in postorder.
    pub(crate) fn from_counts(counts: &[u32], parent: &[u32]) -> Self {
        let mut prediction = Self::default();
        for_fronts(counts, parent, |p, b| prediction.add_front(p, b));
        prediction
    }

    /// Of L·D·Lᵀ with this forest.
    pub(crate) fn symmetric(forest: &EliminationForest) -> Self {
        let mut prediction = Self::default();
        for_fronts(&forest.counts, &forest.parent, |p, b| {
            prediction.add_symmetric_front(p, b);
        });
        prediction
    }

    /// Of the diagonal blocks with this forest.
    pub(crate) fn of_forest(forest: &EliminationForest) -> Self {
        Self::from_counts(&forest.counts, &forest.parent)
    }

    /// Entries of L + U, the diagonal counted once, with the entries above the diagonal blocks.
    pub fn factor_nnz(&self, n: usize) -> u64 {
        self.lnz + self.unz - n as u64 + self.off_diagonal_nnz
    }

    /// Seconds of a factorization column by column.
    pub fn column_seconds(&self, costs: &Costs) -> f64 {
        self.flops * costs.column_flop + (self.lnz + self.unz) as f64 * costs.column_entry
    }

    /// Seconds of a factorization in fronts.
    pub fn front_seconds(&self, costs: &Costs) -> f64 {
        (self.flops + self.flops_per_pivot * costs.front_overhead) * costs.front_flop
            + self.front_entries * costs.front_entry
            + self.fronts as f64 * costs.front
    }

    /// Seconds of a factorization the faster way.
    pub fn seconds(&self, costs: &Costs) -> f64 {
        self.column_seconds(costs).min(self.front_seconds(costs))
    }
}

/// Sums over `p` pivots of m and of m², where m = b..b + p counts what is below one.
fn sums_below(p: f64, b: f64) -> (f64, f64) {
    let sum = p * b + p * (p - 1.0) / 2.0;
    let squares = p * b * b + b * p * (p - 1.0) + (p - 1.0) * p * (2.0 * p - 1.0) / 6.0;
    (sum, squares)
}

/// Calls `add` for each front with its number of pivots and of rows beyond them.
fn for_fronts(counts: &[u32], parent: &[u32], mut add: impl FnMut(u32, u32)) {
    let mut first = 0;
    for j in 0..counts.len() {
        let goes_on = parent[j] as usize == j + 1 && counts[j] == counts[j + 1] + 1;
        if !goes_on {
            add((j + 1 - first) as u32, counts[j] - 1);
            first = j + 1;
        }
    }
}

impl std::ops::AddAssign for Prediction {
    fn add_assign(&mut self, other: Self) {
        self.lnz += other.lnz;
        self.unz += other.unz;
        self.off_diagonal_nnz += other.off_diagonal_nnz;
        self.flops += other.flops;
        self.fronts += other.fronts;
        self.front_entries += other.front_entries;
        self.flops_per_pivot += other.flops_per_pivot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_counts_what_its_pivots_do() {
        // Two pivots with three rows beyond: 4 and 3 entries below the diagonal.
        let mut prediction = Prediction::default();
        prediction.add_front(2, 3);
        let expected = Prediction {
            lnz: 5 + 4,
            unz: 5 + 4,
            off_diagonal_nnz: 0,
            flops: (4.0 + 2.0 * 16.0) + (3.0 + 2.0 * 9.0),
            fronts: 1,
            front_entries: 25.0,
            flops_per_pivot: 57.0 / 2.0,
        };
        assert_eq!(prediction, expected);
        prediction.add_front(1, 0);
        assert_eq!((prediction.lnz, prediction.fronts), (10, 2));
        assert_eq!(prediction.front_entries, 26.0);
        assert_eq!((prediction.flops, prediction.flops_per_pivot), (57.0, 28.5));
    }

    #[test]
    fn columns_of_equal_structure_are_one_front() {
        // Columns 0 and 1 have one entry below the diagonal each, in row 2. Columns 2 and 3 are full.
        let prediction = Prediction::from_counts(&[2, 2, 2, 1], &[2, 2, 3, u32::MAX]);
        let expected = Prediction {
            lnz: 7,
            unz: 7,
            off_diagonal_nnz: 0,
            flops: 3.0 + 3.0 + 3.0,
            fronts: 3,
            front_entries: 4.0 + 4.0 + 4.0,
            flops_per_pivot: 3.0 + 3.0 + 1.5,
        };
        assert_eq!(prediction, expected);
    }

    #[test]
    fn predictions_of_two_blocks_are_summed() {
        let mut sum = Prediction {
            lnz: 1,
            unz: 2,
            off_diagonal_nnz: 3,
            flops: 4.0,
            fronts: 5,
            front_entries: 6.0,
            flops_per_pivot: 7.0,
        };
        sum += Prediction {
            lnz: 10,
            unz: 20,
            off_diagonal_nnz: 30,
            flops: 40.0,
            fronts: 50,
            front_entries: 60.0,
            flops_per_pivot: 70.0,
        };
        let expected = Prediction {
            lnz: 11,
            unz: 22,
            off_diagonal_nnz: 33,
            flops: 44.0,
            fronts: 55,
            front_entries: 66.0,
            flops_per_pivot: 77.0,
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn seconds_are_counts_times_costs() {
        let costs = Costs {
            column_flop: 2.0,
            column_entry: 3.0,
            front_flop: 5.0,
            front_overhead: 7.0,
            front_entry: 11.0,
            front: 13.0,
            dissection_entry: 0.5,
            minimum_degree_entry: 0.25,
            factorizations: 1.0,
        };
        let prediction = Prediction::from_counts(&[2, 2, 2, 1], &[2, 2, 3, u32::MAX]);
        assert_eq!(prediction.column_seconds(&costs), 9.0 * 2.0 + 14.0 * 3.0);
        let fronts = (9.0 + 7.5 * 7.0) * 5.0 + 12.0 * 11.0 + 3.0 * 13.0;
        assert_eq!(prediction.front_seconds(&costs), fronts);
        assert_eq!(prediction.seconds(&costs), 60.0);
        let slow_columns = Costs {
            column_flop: 200.0,
            ..costs
        };
        assert_eq!(prediction.seconds(&slow_columns), fronts);

        // A graph of 8 vertices is halved 3 times.
        assert_eq!(costs.dissection_seconds(8, 10), 15.0);
        assert_eq!(costs.minimum_degree_seconds(10), 2.5);
    }
}
