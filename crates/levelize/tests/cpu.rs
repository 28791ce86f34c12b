//! The CPU path against the reference.

use luge_levelize::cpu::levels;
use luge_reference::levelize as reference;
use luge_reference::symbolic::fill2;
use luge_sparse::FilledPattern;
use luge_testkit::compare::assert_same_levels;
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::gallery;
use luge_testkit::strategies::patterns;
use proptest::prelude::*;

fn check(filled: &FilledPattern) {
    let expected = reference::levels(&reference::relaxed_dependencies(filled));
    assert_same_levels(&levels(filled), &expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn levels_match_reference(a in patterns(40)) {
        check(&fill2(&a));
    }

    /// The relaxed rule waits for every dependency of the exact one.
    #[test]
    fn levels_respect_double_u(a in patterns(30)) {
        let filled = fill2(&a);
        let levels = levels(&filled);
        for exact in [
            reference::double_u_dependencies(&filled),
            reference::look_up_dependencies(&filled),
        ] {
            for (k, earlier) in exact.lines().enumerate() {
                for &i in earlier {
                    prop_assert!(levels.level_of()[i as usize] < levels.level_of()[k]);
                }
            }
        }
    }
}

#[test]
fn levels_match_reference_on_the_gallery() {
    for sample in gallery(3) {
        check(&fill2(&pattern_of(&sample.matrix)));
    }
}
