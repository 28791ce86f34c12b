//! What a caller chooses.

/// The most rows that a supernode may be allowed: squares of it fit in 32 bits.
pub const LARGEST_SUPERNODE: u32 = (1 << 16) - 1;

#[cfg(feature = "gpu")]
const _: () = assert!(LARGEST_SUPERNODE == luge_gpu_kernels::supernode::LARGEST_SUPERNODE);

/// Which rows form a supernode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Most rows of a supernode, relaxed or not; from 1 to [`LARGEST_SUPERNODE`].
    pub max_size: u32,
    /// Whether and where neighbours are merged.
    pub relax: Option<Relaxation>,
}

impl Default for Options {
    /// At most 128 rows, as in the paper; not relaxed.
    fn default() -> Self {
        Self {
            max_size: 128,
            relax: None,
        }
    }
}

impl Options {
    #[track_caller]
    pub(crate) fn check(&self) {
        assert!(
            (1..=LARGEST_SUPERNODE).contains(&self.max_size),
            "a supernode has between 1 and {LARGEST_SUPERNODE} rows, not {}",
            self.max_size
        );
        if let Some(relax) = &self.relax {
            assert!(
                relax.tiers.is_sorted_by_key(|tier| tier.max_rows),
                "tiers come by increasing rows"
            );
        }
    }
}

/// When two neighbouring supernodes, rows a..b and b..c, become one:
///
/// 1. c − a is at most [`Options::max_size`];
/// 2. the parent of row b − 1, the first row below it in its column of L, is among rows b..c. Then the
///    first supernode adds no column to what the second stores right of row c − 1;
/// 3. the block of all c − a rows, (c − a) · (c − a + nnz(U(c−1, c..))) places, has no more zeros than
///    the first of the tiers with `max_rows` ≥ c − a allows. Beyond the last tier nothing is merged.
///
/// Each sweep numbers the pairs of neighbours from 0. Pairs with even numbers merge if they may, those with
/// odd numbers if they may and the pairs on both sides may not. A sweep that merges nothing is the last, and
/// then no two neighbours may merge. Of a pair that may merge one half grows in every sweep, so there
/// are at most `max_size` sweeps.
///
/// The tiers are those of CHOLMOD (`nrelax`, `zrelax`), with zeros of L counted too. It goes through the
/// supernodes from the last to the first; here the merges of a sweep are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relaxation {
    /// By increasing [`max_rows`](Tier::max_rows).
    pub tiers: [Tier; 4],
}

/// How many zeros a relaxed supernode may store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// Supernodes of at most this many rows.
    pub max_rows: u32,
    /// Zeros among 1000 places.
    pub max_zeros: u32,
}

impl Default for Relaxation {
    /// Up to 4 rows always, up to 16 with 80 % zeros, up to 48 with 10 %, larger ones with 5 %.
    fn default() -> Self {
        let tier = |max_rows, max_zeros| Tier {
            max_rows,
            max_zeros,
        };
        Self {
            tiers: [
                tier(4, 1000),
                tier(16, 800),
                tier(48, 100),
                tier(u32::MAX, 50),
            ],
        }
    }
}

impl Relaxation {
    /// Whether a block of `rows` rows and `stored` places may hold `zeros` zeros.
    pub(crate) fn allows(&self, rows: u32, zeros: u64, stored: u64) -> bool {
        let tier = self.tiers.iter().find(|tier| rows <= tier.max_rows);
        tier.is_some_and(|tier| zeros * 1000 <= u64::from(tier.max_zeros) * stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tier_that_fits_decides() {
        let relax = Relaxation::default();
        assert!(relax.allows(4, 100, 100));
        assert!(relax.allows(5, 80, 100));
        assert!(!relax.allows(5, 81, 100));
        assert!(relax.allows(48, 1, 10));
        assert!(!relax.allows(49, 1, 10));
        assert!(relax.allows(u32::MAX, 1, 20));
        let small = Relaxation {
            tiers: [Tier {
                max_rows: 4,
                max_zeros: 1000,
            }; 4],
        };
        assert!(!small.allows(5, 0, 100));
    }

    #[test]
    #[should_panic(expected = "not 0")]
    fn a_supernode_has_a_row() {
        let none = Options {
            max_size: 0,
            ..Options::default()
        };
        none.check();
    }

    #[test]
    #[should_panic(expected = "increasing")]
    fn tiers_increase() {
        let mut relax = Relaxation::default();
        relax.tiers.reverse();
        let reversed = Options {
            relax: Some(relax),
            ..Options::default()
        };
        reversed.check();
    }
}
