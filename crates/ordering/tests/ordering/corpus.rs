//! Spot checks on real matrices; skipped, and said so, when the corpus is not there.

use crate::common::fill_entries;
use luge_ordering::{
    Costs, Matching, Method, OrderingError, OrderingOptions, SymmetricOptions, maximum_product,
    order, order_symmetric,
};
use luge_sparse::{CancelFlag, CompressedPattern};
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;

fn load(corpus: &Corpus, name: &str) -> (CompressedPattern, Vec<f64>) {
    let entry = corpus
        .find(name)
        .unwrap_or_else(|| panic!("{name} is not in the corpus"));
    let a = entry.read().unwrap().into_real().unwrap();
    (pattern_of(&a), a.data().to_vec())
}

fn assert_scaled(a: &CompressedPattern, values: &[f64], name: &str) {
    let matching = maximum_product(a, values, &CancelFlag::new()).unwrap();
    for row in 0..a.major_dim() {
        for p in a.range(row) {
            let col = a.idx()[p] as usize;
            let scaled = matching.scaling.apply(row, col, values[p]).abs();
            assert!(scaled <= 1.0 + 1e-11, "{name} ({row}, {col}): {scaled}");
            if matching.row_of_col[col] as usize == row {
                assert!(
                    (scaled - 1.0).abs() <= 1e-11,
                    "{name} ({row}, {col}): {scaled}"
                );
            }
        }
    }
}

/// Entries of L + U after matching, block triangular form and AMD. Upper limits leave room for
/// other ties: 10 % above what was found on 2026-11-21.
#[test]
fn fill_after_matching_and_minimum_degree() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    for (name, found) in [
        ("bayer10", 334_132),
        ("memplus", 126_152),
        ("opf_case9241pegase_mu1", 1_009_872),
        ("pf_ACTIVSg10k_J", 255_007),
        ("distill_12x60x5", 148_856),
    ] {
        let (a, values) = load(&corpus, name);
        assert_scaled(&a, &values, name);
        let options = OrderingOptions::default()
            .method(Method::Amd)
            .matching(Matching::Always);
        let ordering = order(&a, Some(&values), &options).unwrap();
        let fill = fill_entries(
            &a,
            ordering.row_perm.as_slice(),
            ordering.col_perm.as_slice(),
        );
        assert!(
            fill >= a.nnz() as u64 && fill <= found * 11 / 10,
            "{name}: {fill}"
        );
    }
}

#[test]
fn dissection_wins_on_power_grids_and_circuits_with_long_wires() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let (a, values) = load(&corpus, "pgrid_small_t1");
    let cost = |method| {
        let options = OrderingOptions::default().method(method).costs(Costs {
            factorizations: f64::INFINITY,
            ..Costs::default()
        });
        order(&a, Some(&values), &options).unwrap().predicted
    };
    let (auto, amd) = (cost(Method::Auto), cost(Method::Amd));
    assert!(auto.flops < 0.5 * amd.flops, "{auto:?} against {amd:?}");
}

#[test]
fn degenerate_matrices_get_the_answer_they_deserve() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let run = |name| {
        let (a, values) = load(&corpus, name);
        let n = a.major_dim();
        (n, order(&a, Some(&values), &OrderingOptions::default()))
    };
    for name in ["struct_singular", "empty_row", "empty_col"] {
        match run(name) {
            (
                n,
                Err(OrderingError::StructurallySingular {
                    rank,
                    unmatched_rows,
                    unmatched_cols,
                }),
            ) => {
                assert_eq!(rank, n - 1, "{name}");
                assert_eq!(
                    (unmatched_rows.len(), unmatched_cols.len()),
                    (1, 1),
                    "{name}"
                );
            }
            (_, other) => panic!("{name}: {other:?}"),
        }
    }
    let (n, zeros) = run("stored_zero_col");
    assert!(
        matches!(&zeros, Err(OrderingError::NumericallySingular { rank, .. }) if *rank == n - 1),
        "{zeros:?}"
    );
    let (n, none) = run("no_entries");
    assert!(
        matches!(&none, Err(OrderingError::StructurallySingular { rank: 0, unmatched_rows, .. }) if unmatched_rows.len() == n),
        "{none:?}"
    );
    for name in ["nan_value", "inf_value"] {
        let result = run(name).1;
        assert!(
            matches!(result, Err(OrderingError::NotFinite { .. })),
            "{name}: {result:?}"
        );
    }
    for name in ["lower_triangular", "diagonal", "antidiagonal"] {
        let (n, ordering) = run(name);
        assert_eq!(ordering.unwrap().block_ptr.len(), n + 1, "{name}");
    }
    let (n, arrow) = run("dense_row_col");
    assert_eq!(arrow.unwrap().predicted.factor_nnz(n), 3 * n as u64 - 2);
    for name in [
        "row_scale_400_orders",
        "row_col_scale",
        "denormal",
        "zero_diagonal",
        "tiny_pivots",
        "saddle",
    ] {
        let (a, values) = load(&corpus, name);
        assert_scaled(&a, &values, name);
        assert!(run(name).1.is_ok(), "{name}");
    }
    assert_eq!(run("zero_by_zero").1.unwrap().block_ptr, [0]);
}

/// The largest matrices. The matching's seconds appear with `--nocapture`; the limit only catches
/// a search that became quadratic.
#[test]
fn large_matrices_are_matched_quickly() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    for name in [
        "G3_circuit",
        "mult48_nor_op",
        "sram_200x208_op",
        "mm_boyd1_kkt",
    ] {
        let (a, values) = load(&corpus, name);
        let clock = std::time::Instant::now();
        let matching = maximum_product(&a, &values, &CancelFlag::new()).unwrap();
        let seconds = clock.elapsed().as_secs_f64();
        println!(
            "{name}: n {}, nnz {}, matched in {seconds:.3} s",
            a.major_dim(),
            a.nnz()
        );
        assert_eq!(matching.num_matched, a.major_dim());
        assert!(seconds < 30.0, "{name}: {seconds} s");
    }
}

/// Entries of L of symmetric matrices, with what pairs take. Upper limits leave room for other ties: 10 % above what was
/// found on 2026-11-24.
#[test]
fn fill_of_symmetric_matrices() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let many = Costs {
        factorizations: f64::INFINITY,
        ..Costs::default()
    };
    for (name, is_paired, found) in [
        ("bcsstk16", false, 711_967),
        ("maxwell_n0", false, 9_714_785),
        ("mm_cont_200_kkt", true, 3_631_908),
        ("mm_cvxqp3_l_kkt", true, 4_993_806),
        ("opf_case9241pegase_mu1", true, 547_621),
        ("pdeco_p1", true, 3_266_898),
        ("mm_aug2d_kkt", true, 265_975),
    ] {
        let (a, values) = load(&corpus, name);
        let options = SymmetricOptions::default().costs(many);
        let ordering = order_symmetric(&a, Some(&values), &options).unwrap();
        assert_eq!(ordering.pairs > 0, is_paired, "{name}");
        assert_eq!(ordering.matching_used, is_paired, "{name}");
        let lnz = ordering.predicted.lnz;
        assert!(lnz <= found * 11 / 10, "{name}: {lnz}");
    }
}
