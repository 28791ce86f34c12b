//! The CPU path against the reference.

use luge_reference::supernode as reference;
use luge_reference::symbolic::fill2;
use luge_sparse::FilledPattern;
use luge_supernode::cpu::supernodes;
use luge_supernode::{Options, Relaxation, Tier};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::gallery;
use luge_testkit::strategies::{pattern_from, patterns};
use proptest::prelude::*;

fn relaxation(tiers: [(u32, u32); 4]) -> Relaxation {
    let tier = |(max_rows, max_zeros)| Tier {
        max_rows,
        max_zeros,
    };
    Relaxation {
        tiers: tiers.map(tier),
    }
}

/// Compares both kinds of supernodes; the answer is how many rows were merged by relaxing.
fn check(filled: &FilledPattern, max_size: u32, relax: Relaxation) -> usize {
    let t3 = reference::supernodes_by_definition(filled, max_size as usize);
    let mut options = Options {
        max_size,
        relax: None,
    };
    let found = supernodes(filled, &options);
    assert_eq!(found.ptr(), t3);
    assert_eq!(found.zeros(), 0);

    let tiers = relax
        .tiers
        .map(|tier| (tier.max_rows as usize, tier.max_zeros.into()));
    let relaxed = reference::relaxed_supernodes(filled, &t3, max_size as usize, &tiers);
    options.relax = Some(relax);
    let found = supernodes(filled, &options);
    assert_eq!(found.ptr(), relaxed);
    let zeros = relaxed
        .windows(2)
        .map(|ends| reference::dense_block(filled, ends[0] as usize, ends[1] as usize).zeros);
    assert_eq!(found.zeros(), zeros.sum::<u64>());
    t3.len() - relaxed.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn supernodes_match_reference(
        a in patterns(50),
        max_size in 1u32..40,
        limits in [0u32..=1000, 0..=1000, 0..=1000],
    ) {
        let filled = fill2(&a);
        let [small, middle, large] = limits;
        check(&filled, max_size, relaxation([(3, small), (7, middle), (20, large), (25, 10)]));
        check(&filled, max_size, Relaxation::default());
    }
}

#[test]
fn supernodes_match_reference_on_the_gallery() {
    let mut merged = 0;
    for sample in gallery(3) {
        let filled = fill2(&pattern_of(&sample.matrix));
        for max_size in [1, 2, 32, 128] {
            merged += check(&filled, max_size, Relaxation::default());
        }
    }
    assert!(merged > 0, "relaxing has merged something");
}

#[test]
fn supernodes_match_reference_at_the_sizes() {
    for n in [0usize, 1, 31, 32, 33, 1025] {
        let diagonal = fill2(&pattern_from(n, []));
        // Row i has i−1 and i+1, so that only the last two rows are alike.
        let chain = (1..n as u32).flat_map(|i| [(i, i - 1), (i - 1, i)]);
        let chain = fill2(&pattern_from(n, chain));
        for max_size in [1, 2, 32, 128] {
            let merged = check(&diagonal, max_size, Relaxation::default());
            assert_eq!(merged, 0);
            let merged = check(&chain, max_size, Relaxation::default());
            assert!(merged > 0 || max_size == 1 || n < 4);
        }
    }
    for n in [31, 33, 200] {
        for head in [ArrowHead::First, ArrowHead::Last] {
            check(
                &fill2(&pattern_of(&arrow(n, head))),
                128,
                Relaxation::default(),
            );
        }
    }
}
