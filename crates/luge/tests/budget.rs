//! The memory that a solver and what it makes hold on the heap, counted by the allocator, stays within
//! `Options::max_host_bytes` at every moment.

use std::sync::Mutex;

use luge::{BackendChoice, CpuEngine, Error, MatrixKind, Options, Solver};
use luge_testkit::allocator::{Counting, measure};
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::applications::elasticity_3d;
use luge_testkit::generators::mixed::darcy;
use luge_testkit::generators::{Sample, for_memory};
use sprs::CsMat;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests that count run one after another.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Debug, Clone, Copy)]
struct Case {
    threads: usize,
    engine: CpuEngine,
    kind: MatrixKind,
    limit: Option<u64>,
}

/// Analyzes, factorizes, refactorizes and solves. The most bytes that were live beyond those before, and what came of it.
fn peak_of(a: &CsMat<f64>, other: &CsMat<f64>, b: &[f64], case: Case) -> (u64, Result<u64, Error>) {
    let run = || {
        let solver = Solver::new(
            Options::default()
                .backend(BackendChoice::Cpu)
                .threads(Some(case.threads))
                .engine(case.engine)
                .kind(case.kind)
                .max_host_bytes(case.limit),
        )?;
        let analysis = solver.analyze(a)?;
        let predicted = analysis.inform().predicted_host_bytes.unwrap();
        let mut factors = analysis.factorize(a)?;
        factors.refactorize(other)?;
        factors.solve(b)?;
        factors.solve_transpose(b)?;
        let mut x = b.to_vec();
        factors.solve_in_place(&mut x)?;
        Ok(predicted)
    };
    let measured = measure(run);
    (measured.peak, measured.result)
}

/// Runs a matrix within limits of these shares of what it takes without one. Gives back the smallest share that served.
fn ladder(name: &str, a: &CsMat<f64>, case: Case, shares: &[f64]) -> Option<f64> {
    let other = a.map(|v| 1.25 * v);
    let b: Vec<f64> = (0..a.rows()).map(|i| (i % 17) as f64 - 8.0).collect();
    let (peak, result) = peak_of(a, &other, &b, case);
    let predicted = result.unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut least = None;
    let limits = shares.iter().map(|share| (share * peak as f64) as u64);
    for limit in limits.chain([predicted]) {
        let limited = Case {
            limit: Some(limit),
            ..case
        };
        let (found, result) = peak_of(a, &other, &b, limited);
        assert!(
            found <= limit,
            "{name}, {case:?}: {found} bytes at once, {limit} allowed, {peak} without a limit, {result:?}"
        );
        match result {
            Ok(_) if limit != predicted => {
                let share = limit as f64 / peak as f64;
                least = Some(least.map_or(share, |least: f64| least.min(share)));
            }
            Ok(_) => {}
            Err(Error::OutOfMemory {
                asked, available, ..
            }) => {
                assert!(
                    asked > available && available == limit,
                    "{name}: {asked} of {available}"
                );
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
    println!(
        "{name:24} {:?} {:?} {} threads: {:8.1} KiB, predicted {:5.2}, enough: {least:?}",
        case.kind,
        case.engine,
        case.threads,
        peak as f64 / 1024.0,
        predicted as f64 / peak as f64
    );
    least
}

/// A matrix whose values across the diagonal are equal, bit for bit.
fn symmetric(a: &CsMat<f64>) -> CsMat<f64> {
    let transposed = a.transpose_view().to_csr();
    let sum = a + &transposed;
    sum.map(|v| v / 2.0)
}

const ENGINES: [CpuEngine; 3] = [CpuEngine::Auto, CpuEngine::Columns, CpuEngine::Fronts];

#[test]
fn limits_are_kept_for_symmetric_matrices() {
    let _alone = ALONE.lock();
    let all = for_memory(1).into_iter();
    let all = all.map(|Sample { name, matrix }| (name, matrix));
    let some = all.filter(|(name, _)| ["laplacian 2d", "kkt", "saddle point"].contains(name));
    let others = [
        ("darcy", darcy(35, 30, 1)),
        ("elasticity", elasticity_3d(10, 5, 5, 2)),
    ];
    for (name, a) in some.chain(others) {
        for (kind, threads) in [
            (MatrixKind::Symmetric, 1),
            (MatrixKind::Symmetric, 2),
            (MatrixKind::Auto, 1),
        ] {
            let case = Case {
                threads,
                engine: CpuEngine::Auto,
                kind,
                limit: None,
            };
            let enough = if threads == 1 { 1.5 } else { 2.5 };
            let shares = [0.1, 0.4, 0.7, 0.9, 1.0, enough];
            let least = ladder(name, &symmetric(&a), case, &shares);
            assert!(least.is_some(), "{name}, {case:?}");
        }
    }
}

#[test]
fn limits_are_kept_and_not_much_more_than_needed_is_enough() {
    let _alone = ALONE.lock();
    for (number, Sample { name, matrix: a }) in for_memory(1).into_iter().enumerate() {
        let engine = ENGINES[number % 3];
        for threads in [1, 2] {
            let case = Case {
                threads,
                engine,
                kind: MatrixKind::General,
                limit: None,
            };
            // What threads hold at once depends on who is first; what they may hold is counted.
            let enough = if threads == 1 { 1.5 } else { 2.5 };
            let least = ladder(name, &a, case, &[0.1, 0.4, 0.7, 0.9, 1.0, enough]);
            assert!(least.is_some(), "{name}, {case:?}");
        }
    }
}

#[test]
#[ignore = "minutes; more matrices with a corpus"]
fn limits_are_kept_on_many_matrices() {
    let _alone = ALONE.lock();
    let mut matrices = for_memory(2);
    if let Some(corpus) = Corpus::open_or_skip(0) {
        for name in [
            "pgrid_small_op",
            "opf_case9241pegase_mu1",
            "rcbus_64_t1",
            "sram_64x64_t1",
        ] {
            let a = corpus
                .find(name)
                .unwrap()
                .read()
                .unwrap()
                .into_real()
                .unwrap();
            matrices.push(Sample { name, matrix: a });
        }
    }
    let shares = [
        0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0,
    ];
    let (mut budgets, mut worst) = (0, 0.0f64);
    for (number, Sample { name, matrix: a }) in matrices.iter().enumerate() {
        // Every other one by columns.
        let a = if number % 2 == 0 {
            a.to_csr()
        } else {
            a.to_csc()
        };
        for engine in ENGINES {
            for threads in [1, 2] {
                let case = Case {
                    threads,
                    engine,
                    kind: MatrixKind::General,
                    limit: None,
                };
                let least = ladder(name, &a, case, &shares);
                budgets += shares.len() + 1;
                worst = worst.max(least.unwrap_or(f64::INFINITY));
            }
        }
    }
    println!("{budgets} budgets; {worst:.2} times what is needed was enough everywhere");
    assert!(budgets >= 300 && worst <= 1.5);
}
