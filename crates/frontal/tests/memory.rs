//! Figures of memory against what the allocator counts.

use std::sync::Arc;

use luge_frontal::{FrontalLdlt, FrontalLu, Lower, Options, Symbolic, TreeOptions};
use luge_sparse::{CompressedPattern, MemoryBudget, PivotKind, PivotPolicy, SymmetricPivoting};
use luge_testkit::allocator::{Counting, measure, smallest_budget};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::applications::{
    convection_diffusion_2d, interior_point_kkt, laplacian_2d,
};
use sprs::CsMat;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The columns of a matrix: those of B by columns are the rows of Bᵀ.
fn columns_of(b: &CsMat<f64>) -> (CompressedPattern, Vec<f64>) {
    let transpose = b.to_csc().transpose_into();
    (pattern_of(&transpose), transpose.data().to_vec())
}

/// The lower triangle of a symmetric matrix.
fn triangle_of(b: &CsMat<f64>) -> (CompressedPattern, Vec<f64>) {
    let mut lower = sprs::TriMat::new((b.rows(), b.cols()));
    for (&value, (i, j)) in b.iter().filter(|(_, (i, j))| i >= j) {
        lower.add_triplet(i, j, value);
    }
    columns_of(&lower.to_csr())
}

fn limited(memory: &MemoryBudget) -> Options {
    Options {
        memory: memory.clone(),
        ..Options::default()
    }
}

// One test, since the allocator counts for the process.
#[test]
fn bytes_are_those_that_are_held() {
    unsymmetric();
    symmetric();
    fronts_that_are_tried_twice();
}

fn unsymmetric() {
    // Nothing is delayed in the first, much in the second.
    let grid = convection_diffusion_2d(40, 40, 4.0);
    let saddle = interior_point_kkt(400, 200, 1e-8, 3);
    for (a, delays) in [(&grid, false), (&saddle, true)] {
        let (cols, values) = columns_of(a);
        let symbolic =
            measure(|| Arc::new(Symbolic::analyze(&cols, &TreeOptions::default()).unwrap()));
        let ratio = symbolic.result.bytes() as f64 / symbolic.held as f64;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
        let symbolic = symbolic.result;

        let factorized = measure(|| {
            FrontalLu::<f64>::factorize(&symbolic, &values, &Options::default()).unwrap()
        });
        let peak = factorized.peak;
        let (lu, quality) = factorized.result;
        assert_eq!(quality.num_delayed > 0, delays);
        let ratio = lu.bytes() as f64 / factorized.held as f64;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
        if !delays {
            let ratio = symbolic.peak_bytes(8, 1) as f64 / peak as f64;
            assert!((0.95..1.05).contains(&ratio), "{ratio}");
        }
        drop(lu);

        // No smaller budget is enough than what is really taken.
        let runs = |budget: &MemoryBudget| {
            let run = || FrontalLu::<f64>::factorize(&symbolic, &values, &limited(budget)).is_ok();
            let run = measure(run);
            (run.result, run.peak)
        };
        let smallest = smallest_budget(|budget| runs(budget).0);
        let (_, peak) = runs(&MemoryBudget::new(smallest));
        assert!(
            (peak..peak * 4 / 3).contains(&smallest),
            "{smallest}, {peak}"
        );
    }
}

/// Leaves whose pivots are too small beside the clique that they hang on: small fronts that are tried in one go, and then step by
/// step, leave nothing on the stacks by the first.
fn fronts_that_are_tried_twice() {
    const LEAVES: usize = 400;
    const CLIQUE: usize = 16;
    let n = LEAVES + CLIQUE;
    let mut entries = sprs::TriMat::new((n, n));
    for j in 0..n {
        entries.add_triplet(j, j, if j < LEAVES { 1e-6 } else { 3.0 });
        for i in (j + 1).max(LEAVES)..n {
            let value = 1.0 + ((7 * i + 13 * j) % 31) as f64 / 31.0;
            entries.add_triplet(i, j, value);
            entries.add_triplet(j, i, value);
        }
    }
    let (cols, values) = triangle_of(&entries.to_csr());
    let unmerged = TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    };
    let symbolic = Arc::new(Symbolic::<Lower>::analyze(&cols, &unmerged).unwrap());
    let peak = |method| {
        let kind = PivotKind::Symmetric {
            threshold: 0.01,
            method,
        };
        let options = Options {
            pivots: PivotPolicy {
                kind,
                ..PivotPolicy::symmetric(0.01)
            },
            ..Options::default()
        };
        let made = measure(|| FrontalLdlt::factorize(&symbolic, &values, &options).unwrap());
        assert!(made.result.1.num_delayed >= LEAVES - 1);
        made.peak
    };
    let (in_one_go, step_by_step) = (
        peak(SymmetricPivoting::Blocks),
        peak(SymmetricPivoting::Columns),
    );
    assert!(
        in_one_go <= step_by_step + step_by_step / 50,
        "{in_one_go} of {step_by_step}"
    );
}

fn symmetric() {
    // Nothing is delayed in the first, much in the second.
    let grid = laplacian_2d(40, 40);
    let saddle = interior_point_kkt(400, 200, 1e-8, 3);
    for (a, delays) in [(&grid, false), (&saddle, true)] {
        let (cols, values) = triangle_of(a);
        let analyze = || Symbolic::<Lower>::analyze(&cols, &TreeOptions::default()).unwrap();
        let symbolic = measure(|| Arc::new(analyze()));
        let ratio = symbolic.result.bytes() as f64 / symbolic.held as f64;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
        let symbolic = symbolic.result;
        let options = Options {
            pivots: PivotPolicy::symmetric(0.01),
            ..Options::default()
        };

        let factorized = measure(|| FrontalLdlt::factorize(&symbolic, &values, &options).unwrap());
        let peak = factorized.peak;
        let (mut ldlt, quality) = factorized.result;
        assert_eq!(quality.num_delayed > 0, delays);
        let ratio = ldlt.bytes() as f64 / factorized.held as f64;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
        if !delays {
            let ratio = symbolic.peak_bytes(8, 1) as f64 / peak as f64;
            assert!((0.95..1.05).contains(&ratio), "{ratio}");
        }
        // The memory is used again.
        let again = measure(|| ldlt.refactorize(&values, &options).unwrap());
        assert_eq!(again.held, 0);
        drop(ldlt);

        // No smaller budget is enough than what is really taken.
        let runs = |budget: &MemoryBudget| {
            let options = Options {
                memory: budget.clone(),
                ..options.clone()
            };
            let run = || FrontalLdlt::factorize(&symbolic, &values, &options).is_ok();
            let run = measure(run);
            (run.result, run.peak)
        };
        let smallest = smallest_budget(|budget| runs(budget).0);
        let (_, peak) = runs(&MemoryBudget::new(smallest));
        assert!(
            (peak..peak * 4 / 3).contains(&smallest),
            "{smallest}, {peak}"
        );
    }
}
