//! What a front costs: entries, operations, seconds.
//!
//! The seconds are those of one core of a server of about 2020 with 512-bit vectors. What matters is
//! their relation to each other, which decides when fronts are merged, which subtrees become tasks,
//! and whether a block is worth fronts at all.

/// Operations of the elimination of `pivots` columns of a front with `below` further rows: a
/// division for each entry of L below the diagonal, and a multiplication and an addition for each
/// pair of an entry of L below a pivot and one of U to its right.
pub(crate) fn front_flops(pivots: u32, below: u32) -> f64 {
    let (k, c) = (f64::from(pivots), f64::from(below));
    // Sum over r = c .. c + k − 1 of r + 2 r².
    let linear = k * c + k * (k - 1.0) / 2.0;
    let square = k * c * c + c * k * (k - 1.0) + (k - 1.0) * k * (2.0 * k - 1.0) / 6.0;
    linear + 2.0 * square
}

/// Entries of L and U in a front, the diagonal counted once.
pub(crate) fn front_entries(pivots: u32, below: u32) -> u64 {
    let (k, c) = (u64::from(pivots), u64::from(below));
    k * (k + 2 * c)
}

/// As [`front_flops`], of a symmetric front: a division for each entry of L below the diagonal, and a multiplication and
/// an addition for each entry of the lower triangle behind a pivot.
pub(crate) fn lower_flops(pivots: u32, below: u32) -> f64 {
    let (k, c) = (f64::from(pivots), f64::from(below));
    // Sum over r = c .. c + k − 1 of r + r (r + 1).
    let linear = k * c + k * (k - 1.0) / 2.0;
    let square = k * c * c + c * k * (k - 1.0) + (k - 1.0) * k * (2.0 * k - 1.0) / 6.0;
    2.0 * linear + square
}

/// Entries of L in a front, with the diagonal.
pub(crate) fn lower_entries(pivots: u32, below: u32) -> u64 {
    let (k, c) = (u64::from(pivots), u64::from(below));
    k * (k + 1) / 2 + k * c
}

/// Seconds a front takes, fitted to measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// Of every front: reading its description, calls, loops that hardly run.
    pub per_front: f64,
    /// Of every pivot: the search, the reciprocal, short vectors.
    pub per_pivot: f64,
    /// Of every entry of L and U: zeroing, the check, the memory.
    pub per_entry: f64,
    /// Of every entry handed to the parent: zeroing, extend-add.
    pub per_update_entry: f64,
    /// Of every operation.
    pub per_flop: f64,
}

impl Default for CostModel {
    fn default() -> Self {
        Self {
            per_front: 120e-9,
            per_pivot: 25e-9,
            per_entry: 0.9e-9,
            per_update_entry: 1.6e-9,
            per_flop: 0.022e-9,
        }
    }
}

impl CostModel {
    /// Seconds to assemble and eliminate one front, f64.
    pub fn front_seconds(&self, pivots: u32, below: u32) -> f64 {
        let update = f64::from(below) * f64::from(below);
        self.per_front
            + f64::from(pivots) * self.per_pivot
            + front_entries(pivots, below) as f64 * self.per_entry
            + update * self.per_update_entry
            + front_flops(pivots, below) * self.per_flop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_a_front_are_its_counts_times_what_each_costs() {
        let model = CostModel {
            per_front: 1.0,
            per_pivot: 10.0,
            per_entry: 100.0,
            per_update_entry: 1000.0,
            per_flop: 10_000.0,
        };
        // Below the diagonal are 4 and 3 entries: 9 + 7 of L and U, 4 + 2·16 and 3 + 2·9 operations, and 3·3 entries
        // for the parent.
        let expected = 1.0 + 2.0 * 10.0 + 16.0 * 100.0 + 9.0 * 1000.0 + 57.0 * 10_000.0;
        assert_eq!(model.front_seconds(2, 3), expected);
    }

    #[test]
    fn flops_and_entries_are_the_sums_they_stand_for() {
        for k in 0..7u32 {
            for c in 0..7u32 {
                let mut flops = 0.0;
                let mut entries = 0;
                for j in 0..k {
                    let r = f64::from(k - 1 - j + c);
                    flops += r + 2.0 * r * r;
                    entries += 1 + 2 * u64::from(k - 1 - j + c);
                }
                assert_eq!(front_flops(k, c), flops, "{k} {c}");
                let lower = (0..k).map(|j| u64::from(k - 1 - j + c));
                let of_rows = lower.clone().map(|r| (r + r * (r + 1)) as f64);
                assert_eq!(lower_flops(k, c), of_rows.sum::<f64>(), "{k} {c}");
                assert_eq!(lower_entries(k, c), lower.map(|r| 1 + r).sum::<u64>());
                assert_eq!(front_entries(k, c), entries, "{k} {c}");
            }
        }
    }
}
