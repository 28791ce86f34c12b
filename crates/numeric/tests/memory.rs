//! Figures of memory against what the allocator counts.

use std::sync::Arc;

use luge_numeric::NumericError;
use luge_numeric::cpu::blocks::{BlockLu, BlockPlan, Engine, Options};
use luge_numeric::cpu::columns::{self, ColumnLu};
use luge_sparse::{CancelFlag, CompressedPattern, Limits, MemoryBudget, PivotPolicy, Quality};
use luge_testkit::allocator::{Counting, Measured, measure, smallest_budget};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::applications::{convection_diffusion_2d, random_unsymmetric};
use sprs::CsMat;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The columns of a matrix: those of B by columns are the rows of Bᵀ.
fn columns_of(b: &CsMat<f64>) -> (CompressedPattern, Vec<f64>) {
    let transpose = b.to_csc().transpose_into();
    (pattern_of(&transpose), transpose.data().to_vec())
}

/// Three blocks of a third each, with as many entries above them, as many columns by themselves.
fn blocks() -> (CompressedPattern, Vec<f64>, Vec<usize>) {
    let grid = convection_diffusion_2d(20, 20, 4.0);
    let (n, size) = (1600, 400);
    let (mut ptr, mut idx, mut values) = (vec![0u64], Vec::new(), Vec::new());
    let (cols, of_grid) = columns_of(&grid);
    for j in 0..n {
        let first = j / size * size;
        for i in (0..first).filter(|i| (7 * i + 3 * j) % 97 == 0) {
            idx.push(i as u32);
            values.push(0.125);
        }
        if first == 3 * size {
            idx.push(j as u32);
            values.push(2.0);
        } else {
            for p in cols.range(j - first) {
                idx.push(cols.idx()[p] + first as u32);
                values.push(of_grid[p]);
            }
        }
        ptr.push(idx.len() as u64);
    }
    let ends = [0, 400, 800].into_iter().chain(1200..=1600).collect();
    (CompressedPattern::new(n, ptr, idx).unwrap(), values, ends)
}

/// Renews factors for two sets of values of which only two entries change.
fn change_twice(
    lu: &mut BlockLu<f64>,
    values: &[f64],
    options: &Options,
) -> Result<(), NumericError> {
    let mut values = values.to_vec();
    let entries = [values.len() as u32 / 3, values.len() as u32 / 3 + 1];
    for _ in 0..2 {
        entries.iter().for_each(|&at| values[at as usize] *= 1.25);
        let mut quality = Quality::default();
        lu.refactorize_changed(&values[..], &entries, options, &mut quality)?;
    }
    Ok(())
}

/// `told` is what is held, to within some per cent.
#[track_caller]
fn assert_told<R>(told: u64, measured: &Measured<R>, tolerance: f64) {
    let ratio = told as f64 / measured.held as f64;
    assert!(
        (ratio - 1.0).abs() <= tolerance,
        "{told} bytes are told, {} are held",
        measured.held
    );
}

// One test, since the allocator counts for the process.
#[test]
fn bytes_are_those_that_are_held() {
    let (cols, values, ends) = blocks();
    let options = Options {
        pivots: PivotPolicy::threshold(0.1),
        threads: 1,
        max_bytes: None,
        memory: MemoryBudget::unlimited(),
        cancel: CancelFlag::new(),
        ranks: None,
    };
    for engine in [Engine::Columns, Engine::Fronts] {
        let plan = measure(|| {
            let limits = Limits::none();
            Arc::new(BlockPlan::new(&cols, &ends, engine, |_| None, 1, &limits).unwrap())
        });
        assert_told(plan.result.bytes(), &plan, 0.1);
        let plan = plan.result;
        let values: Vec<f64> = plan.source().iter().map(|&p| values[p as usize]).collect();
        let lu = measure(|| BlockLu::<f64>::factorize(&plan, &values[..], &options).unwrap());
        assert_told(lu.result.0.bytes(), &lu, 0.02);
        let before = lu.held;
        let mut lu = lu.result.0;
        let again = measure(|| {
            let mut quality = Quality::default();
            lu.refactorize(&values[..], &options, &mut quality).unwrap();
        });
        assert_told(
            lu.bytes(),
            &Measured {
                held: before + again.held,
                ..again
            },
            0.02,
        );
        let some = measure(|| change_twice(&mut lu, &values, &options).unwrap());
        assert!(lu.refactorized_part() < 0.5, "{engine:?}");
        assert_told(
            lu.bytes(),
            &Measured {
                held: before + again.held + some.held,
                ..some
            },
            0.04,
        );
        drop(lu);

        // No smaller budget is enough than what is really taken.
        let runs = |budget: &MemoryBudget| {
            let options = Options {
                memory: budget.clone(),
                ..options.clone()
            };
            let run = measure(|| {
                let (mut lu, _) = BlockLu::<f64>::factorize(&plan, &values[..], &options)?;
                let mut quality = Quality::default();
                lu.refactorize(&values[..], &options, &mut quality)?;
                Ok::<_, NumericError>(lu)
            });
            let used = budget.limit().unwrap() - budget.available();
            if run.result.is_ok() {
                assert!(
                    (run.held..run.held * 4 / 3).contains(&used),
                    "{used}, {}",
                    run.held
                );
            }
            (run.result.is_ok(), run.peak)
        };
        let smallest = smallest_budget(|budget| runs(budget).0);
        let (_, peak) = runs(&MemoryBudget::new(smallest));
        assert!(
            (peak..peak * 4 / 3).contains(&smallest),
            "{smallest}, {peak}"
        );
        // Where there is no room to keep what partial refactorizations want, they are whole ones.
        let limited = |budget: &MemoryBudget| Options {
            memory: budget.clone(),
            ..options.clone()
        };
        let twice = |budget: &MemoryBudget| {
            let options = limited(budget);
            let (mut lu, _) = BlockLu::<f64>::factorize(&plan, &values[..], &options)?;
            let mut quality = Quality::default();
            lu.refactorize(&values[..], &options, &mut quality)?;
            lu.refactorize(&values[..], &options, &mut quality)
        };
        let least = smallest_budget(|budget| twice(budget).is_ok());
        let options = limited(&MemoryBudget::new(least));
        let run = measure(|| {
            let (mut lu, _) = BlockLu::<f64>::factorize(&plan, &values[..], &options).unwrap();
            change_twice(&mut lu, &values, &options).unwrap();
        });
        assert!(run.peak <= least, "{}, {least}", run.peak);
    }

    let (cols, values) = columns_of(&random_unsymmetric(900, 4, 3));
    let lu = measure(|| ColumnLu::factorize(&cols, &values, &columns::Options::default()).unwrap());
    let (l, u) = (lu.result.0.lnz() as u64, lu.result.0.unz() as u64);
    assert_told(ColumnLu::<f64>::estimate_bytes(900, l, u), &lu, 0.04);

    // A bidiagonal matrix has short columns, whose entries are listed for solves.
    let ends = (0..=900u64).map(|j| (2 * j).saturating_sub(1));
    let rows = (0..900u32).flat_map(|j| [j.wrapping_sub(1), j]).skip(1);
    let short = CompressedPattern::new(900, ends.collect(), rows.collect()).unwrap();
    let of_short = vec![2.0; short.nnz()];
    for (lu, most) in [
        (lu.result.0, 8 * 900),
        (
            ColumnLu::factorize(&short, &of_short, &columns::Options::default())
                .unwrap()
                .0,
            8 * 900 + 4 * 899,
        ),
    ] {
        let told = lu.solve_bytes();
        let mut x = vec![1.0; 900];
        let first = measure(|| lu.solve_range(0..900, &mut x, 900, 1));
        assert_eq!((told, first.held), (most, most));
        assert_eq!(lu.solve_bytes(), 0);
    }
}
