//! Orders of fixed matrices, to the last place.
//!
//! An order that is a little worse is still an order, and no other test sees it. Here every choice shows: the
//! predicted size and cost, and a hash of both permutations. Who changes a choice on purpose puts in the new
//! numbers, which the test prints, and says in the commit what became better.

use std::sync::Arc;

use luge_ordering::{Costs, Matching, Method, MethodUsed, OrderingOptions, TreeCost, order};
use luge_sparse::CompressedPattern;
use luge_sparse::etree::EliminationForest;
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::adversaries::{ArrowHead, arrow, badly_scaled, permuted_diagonal};
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_2d, convection_diffusion_3d, interior_point_kkt,
    power_flow_jacobian, power_grid, random_unsymmetric, staged_columns,
};

/// FNV-1a over the numbers.
fn hash(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0xcbf2_9ce4_8422_2325, |hash, number| {
        (hash ^ number).wrapping_mul(0x100_0000_01b3)
    })
}

fn matrices() -> Vec<(&'static str, CompressedPattern, Vec<f64>)> {
    let named = [
        ("grid", convection_diffusion_2d(40, 31, 10.0)),
        ("box", convection_diffusion_3d(11, 10, 9, 5.0)),
        ("circuit", circuit(1200, 4)),
        ("supply", power_grid(2, 18, 18, 3)),
        ("flow", power_flow_jacobian(500, 1)),
        ("random", random_unsymmetric(300, 3, 2)),
        ("kkt", interior_point_kkt(400, 160, 1e-3, 4)),
        ("staged", staged_columns(30, 6, 3, 5)),
        ("arrow", arrow(700, ArrowHead::First)),
        ("shuffled", permuted_diagonal(300, 7)),
        ("scaled", badly_scaled(200, 6.0, 8)),
    ];
    let parts = named.map(|(name, a)| (name, pattern_of(&a), a.data().to_vec()));
    parts.into()
}

fn options(method: Method) -> OrderingOptions {
    OrderingOptions::default().method(method)
}

/// Name, entries, operations, fronts, blocks, hash of the permutations, hash of the scaling.
fn line(name: &str, a: &CompressedPattern, values: &[f64], options: &OrderingOptions) -> String {
    let ordering = order(a, Some(values), options).unwrap();
    let (rows, cols) = (ordering.row_perm.as_slice(), ordering.col_perm.as_slice());
    let permutations = hash(rows.iter().chain(cols).map(|&i| u64::from(i)));
    // The last digits may differ between processors: exponents to a sixteenth.
    let factors = ordering.scaling.rows.iter().chain(&ordering.scaling.cols);
    let scaling = hash(factors.map(|factor| (16.0 * factor.log2()).round() as i64 as u64));
    format!(
        "{name} {} {} {} {} {permutations:x} {scaling:x}",
        ordering.predicted.factor_nnz(a.major_dim()),
        ordering.predicted.flops,
        ordering.predicted.fronts,
        ordering.block_ptr.len() - 1,
    )
}

#[track_caller]
fn check(options: &OrderingOptions, expected: &str) {
    let lines = matrices()
        .into_iter()
        .map(|(name, a, values)| line(name, &a, &values, options) + "\n");
    let found: String = lines.collect();
    assert!(
        found == expected.trim_start(),
        "{:?}:\n{found}",
        options.method
    );
}

#[test]
fn minimum_degree() {
    check(
        &options(Method::Amd),
        "
grid 29374 651177 942 1 f6897043f8186efd 1687da5bae191ec5
box 65616 5381159 691 1 ca12173da72ba8f9 3e068fcb064f5055
circuit 18622 145327 1010 122 2f0a2776e2334ef1 5f2aec6c1a07dc55
supply 18166 425161 498 9 d17b0f429270e611 367b679f36666085
flow 11152 77795 461 1 a364bfe0e434aa35 4b3eff9f0b88abe5
random 7122 220622 237 50 cbb67bcf566145e7 cbdefa46d3612fd6
kkt 25656 1678796 411 8 71ee0a97896e5c39 35d1e379642f00d1
staged 14669 81737 853 30 c294c447925456c9 8d27ea26e0d900d
arrow 2098 2097 700 1 9de7f50c41ff270d d54b853b2bf9d545
shuffled 300 0 300 300 e1e925c3e2cfd301 86d519025f0cea8a
scaled 8456 344428 125 6 315b0bfd105d79a9 276b2cbe7ead127c
",
    );
}

#[test]
fn column_minimum_degree() {
    check(
        &options(Method::Colamd),
        "
grid 44206 1226309 727 1 a2a34640c22c71fd 1687da5bae191ec5
box 125254 13736368 466 1 6c175a75f08fe091 3e068fcb064f5055
circuit 25820 307864 879 122 289688bc387e2547 5f2aec6c1a07dc55
supply 28954 908115 364 9 68ca4b0e397c3bad 367b679f36666085
flow 15282 163618 425 1 32d8be30610380e9 4b3eff9f0b88abe5
random 8514 323418 226 50 667970a3fd3a23e1 cbdefa46d3612fd6
kkt 57682 7387675 341 8 38e96a3426e50f97 35d1e379642f00d1
staged 16209 102171 704 30 5e9113b9cfd4be19 8d27ea26e0d900d
arrow 2098 2097 699 1 962d49cb31c9ddd d54b853b2bf9d545
shuffled 300 0 300 300 e1e925c3e2cfd301 86d519025f0cea8a
scaled 11462 640989 107 6 5dda81df12e6d7a1 276b2cbe7ead127c
",
    );
}

#[test]
fn nested_dissection() {
    check(
        &options(Method::NestedDissection),
        "
grid 28926 609713 949 1 5b72bd3af9ef66bd 1687da5bae191ec5
box 54138 3152402 696 1 e93ccc948d8fcec1 3e068fcb064f5055
circuit 18562 142949 991 122 b9e710682d648b7f 5f2aec6c1a07dc55
supply 18512 444060 480 9 49bc9f0871515e25 367b679f36666085
flow 11076 77257 460 1 fa421f311c541c65 4b3eff9f0b88abe5
random 7160 219347 236 50 b2bc478bd97ba7dd cbdefa46d3612fd6
kkt 25340 1546082 412 8 694a7550191061d5 35d1e379642f00d1
staged 15883 98706 819 30 b13cb860e3fb1883 8d27ea26e0d900d
arrow 2098 2097 699 1 962d49cb31c9ddd d54b853b2bf9d545
shuffled 300 0 300 300 e1e925c3e2cfd301 86d519025f0cea8a
scaled 8602 352547 126 6 d445b9a099592e0d 276b2cbe7ead127c
",
    );
}

#[test]
fn matched_by_value_in_one_block() {
    let options = options(Method::Auto)
        .matching(Matching::Always)
        .block_triangular(false);
    check(
        &options,
        "
grid 29374 651177 942 1 f6897043f8186efd 3c507f224fc6d957
box 65616 5381159 691 1 ca12173da72ba8f9 95d7af24d48df706
circuit 24238 272939 904 1 59f8518195a8773d 5f2aec6c1a07dc55
supply 17990 412843 496 1 1784711003fbcddd d8fc61c0212c3364
flow 11156 77829 461 1 7413d142db66721 f0ae9f7135bcca34
random 8722 309929 230 1 771301d3731e6c37 cbdefa46d3612fd6
kkt 25656 1678796 411 1 71ee0a97896e5c39 35d1e379642f00d1
staged 16562 104021 930 1 141ab37d3eba0a03 8d27ea26e0d900d
arrow 2098 2097 700 1 9de7f50c41ff270d 69b12b3b0d78c20d
shuffled 300 0 300 1 e1e925c3e2cfd301 86d519025f0cea8a
scaled 9020 394018 122 1 6f0c6cce7d8b72c9 276b2cbe7ead127c
",
    );
}

/// Rows are moved back from the matching where that saves enough.
#[test]
fn matched_by_value_or_not() {
    let options = options(Method::Auto)
        .matching(Matching::Always)
        .diagonal_threshold(1e-3);
    check(
        &options,
        "
grid 29374 651177 942 1 f6897043f8186efd 3c507f224fc6d957
box 65616 5381159 691 1 ca12173da72ba8f9 95d7af24d48df706
circuit 18622 145327 1010 122 2f0a2776e2334ef1 5f2aec6c1a07dc55
supply 18166 425161 498 9 d17b0f429270e611 d8fc61c0212c3364
flow 11156 77829 461 1 7413d142db66721 f0ae9f7135bcca34
random 7122 220622 237 50 cbb67bcf566145e7 cbdefa46d3612fd6
kkt 25656 1678796 411 8 71ee0a97896e5c39 35d1e379642f00d1
staged 14669 81737 853 30 c294c447925456c9 8d27ea26e0d900d
arrow 2098 2097 700 1 9de7f50c41ff270d 69b12b3b0d78c20d
shuffled 300 0 300 300 e1e925c3e2cfd301 86d519025f0cea8a
scaled 8456 344428 125 6 315b0bfd105d79a9 276b2cbe7ead127c
",
    );
}

/// Nested dissection is tried where so many factorizations pay for it, and taken where
/// it needs fewer operations.
#[test]
fn dissected_for_many_factorizations() {
    let dissected = |factorizations: f64| {
        let mut found = Vec::new();
        for (name, a, values) in matrices() {
            let options = options(Method::Auto).costs(Costs {
                factorizations,
                ..Costs::default()
            });
            let ordering = order(&a, Some(&values), &options).unwrap();
            let is_tried = ordering.seconds.nested_dissection > 0.0;
            match ordering.method_used {
                MethodUsed::Amd => found.extend(is_tried.then(|| format!("{name} in vain"))),
                method => found.push(format!("{name} {method:?}")),
            }
        }
        found.join(", ")
    };
    let found = [0.0, 1.0, 10.0, 100.0, f64::INFINITY].map(dissected);
    let few = "box NestedDissection, kkt NestedDissection";
    let many = "grid NestedDissection, box NestedDissection, circuit NestedDissection, \
                supply in vain, flow NestedDissection, kkt NestedDissection, arrow NestedDissection";
    assert_eq!(found, ["", "", few, many, many]);
}

/// A nanosecond for each entry of a column.
#[derive(Debug)]
struct ByEntries;

impl TreeCost for ByEntries {
    fn seconds(&self, forest: &EliminationForest) -> f64 {
        1e-9 * f64::from(forest.counts.iter().sum::<u32>())
    }
}

const ONCE: &str = "
grid 28926 609713 949 1 5b72bd3af9ef66bd 1687da5bae191ec5
box 54138 3152402 696 1 e93ccc948d8fcec1 3e068fcb064f5055
circuit 18562 142949 991 122 b9e710682d648b7f 5f2aec6c1a07dc55
supply 18512 444060 480 9 49bc9f0871515e25 367b679f36666085
flow 11076 77257 460 1 fa421f311c541c65 4b3eff9f0b88abe5
random 7122 220622 237 50 8c2df7f828442c43 cbdefa46d3612fd6
kkt 25340 1546082 412 8 694a7550191061d5 35d1e379642f00d1
staged 14579 80454 896 30 e1027015a04747db 8d27ea26e0d900d
arrow 2098 2097 699 1 962d49cb31c9ddd d54b853b2bf9d545
shuffled 300 0 300 300 e1e925c3e2cfd301 86d519025f0cea8a
scaled 8456 344428 125 6 800f05e5b5c67d9 276b2cbe7ead127c
";

const OFTEN: &str = "
grid 28926 609713 949 1 5b72bd3af9ef66bd 1687da5bae191ec5
box 54138 3152402 696 1 e93ccc948d8fcec1 3e068fcb064f5055
circuit 18562 142949 991 122 b9e710682d648b7f 5f2aec6c1a07dc55
supply 18166 425161 498 9 d17b0f429270e611 367b679f36666085
flow 11076 77257 460 1 fa421f311c541c65 4b3eff9f0b88abe5
random 7122 220622 237 50 8c2df7f828442c43 cbdefa46d3612fd6
kkt 25340 1546082 412 8 694a7550191061d5 35d1e379642f00d1
staged 14579 80454 896 30 e1027015a04747db 8d27ea26e0d900d
arrow 2098 2097 699 1 962d49cb31c9ddd d54b853b2bf9d545
shuffled 300 0 300 300 e1e925c3e2cfd301 86d519025f0cea8a
scaled 8456 344428 125 6 800f05e5b5c67d9 276b2cbe7ead127c
";

#[test]
fn by_the_tree_for_one_factorization_or_many() {
    for factorizations in [1.0, 1e6] {
        let options = options(Method::Auto)
            .tree_cost(Some(Arc::new(ByEntries)))
            .costs(Costs {
                factorizations,
                ..Costs::default()
            });
        check(&options, if factorizations == 1.0 { ONCE } else { OFTEN });
    }
}

/// Two full blocks of three, one block of two, one column alone.
#[test]
fn the_forest_has_the_trees_of_all_blocks() {
    let ends = [0usize, 3, 6, 8, 9];
    let (mut ptr, mut idx) = (vec![0], Vec::new());
    for block in ends.windows(2) {
        for _ in block[0]..block[1] {
            idx.extend((block[0] as u32)..block[1] as u32);
            ptr.push(idx.len() as u64);
        }
    }
    let a = CompressedPattern::new(9, ptr, idx).unwrap();
    let options = options(Method::Amd).tree_cost(Some(Arc::new(ByEntries)));
    let ordering = order(&a, None, &options).unwrap();
    let (mut parent, mut counts) = (Vec::new(), Vec::new());
    for block in ordering.block_ptr.windows(2) {
        for k in block[0]..block[1] {
            let is_root = k + 1 == block[1];
            parent.push(if is_root { u32::MAX } else { k as u32 + 1 });
            counts.push((block[1] - k) as u32);
        }
    }
    let forest = ordering.forest.unwrap();
    assert_eq!((forest.parent, forest.counts), (parent, counts));
}

#[test]
fn an_estimate_is_the_prediction_where_there_is_no_other() {
    let forest = EliminationForest {
        parent: vec![1, 2, u32::MAX],
        counts: vec![3, 2, 1],
    };
    assert_eq!(ByEntries.seconds(&forest), 1e-9 * 6.0);
    assert_eq!(ByEntries.estimate(&forest), ByEntries.seconds(&forest));
}
