//! Block triangular matrices whose blocks go to both engines, against dense arithmetic.

use std::sync::Arc;

use luge_numeric::NumericError;
use luge_numeric::cpu::blocks::{BlockLu, BlockPlan, Engine, Options};
use luge_sparse::{CancelFlag, CompressedPattern, Limits, MemoryBudget, PivotPolicy, Quality};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const ENGINES: [Engine; 3] = [Engine::Auto, Engine::Columns, Engine::Fronts];

/// B by columns, and where its diagonal blocks begin.
struct Blocks {
    cols: CompressedPattern,
    values: Vec<f64>,
    ptr: Vec<usize>,
}

impl Blocks {
    /// Runs of columns alone, blocks of every kind, and entries above all of them. Values are eighths, so that their
    /// sums are exact. The diagonal of the sparse blocks is weak, so that rows are exchanged there.
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        // A full block of 90 has enough operations for fronts, one of 24 is too small for them.
        let sizes = [1, 1, 24, 90, 1, 40, 1, 1, 12, 33, 1];
        let mut ptr = vec![0];
        sizes
            .iter()
            .for_each(|size| ptr.push(ptr[ptr.len() - 1] + size));
        let mut col_ptr = vec![0];
        let (mut idx, mut values) = (Vec::new(), Vec::new());
        let mut eighths = |limit: i32| loop {
            let value = rng.random_range(-limit..=limit);
            if value != 0 {
                break f64::from(value) / 8.0;
            }
        };
        for ends in ptr.windows(2) {
            let size = ends[1] - ends[0];
            let is_full = size == 24 || size == 90;
            for j in ends[0]..ends[1] {
                for i in 0..ends[1] {
                    let next = ends[0] + (j + 1 - ends[0]) % size;
                    let value = if i == j {
                        eighths(if is_full || size == 1 { 8 } else { 1 })
                    } else if i >= ends[0] && (is_full || i == next || (7 * i + j) % 9 == 0) {
                        eighths(16)
                    } else if i < ends[0] && (5 * i + 3 * j) % 13 == 0 {
                        eighths(8)
                    } else {
                        continue;
                    };
                    idx.push(i as u32);
                    values.push(value);
                }
                col_ptr.push(idx.len() as u64);
            }
        }
        let n = ptr[ptr.len() - 1];
        Self {
            cols: CompressedPattern::new(n, col_ptr, idx).unwrap(),
            values,
            ptr,
        }
    }

    fn n(&self) -> usize {
        self.cols.major_dim()
    }

    fn plan(&self, engine: Engine) -> Arc<BlockPlan> {
        let limits = Limits::none();
        Arc::new(BlockPlan::new(&self.cols, &self.ptr, engine, |_| None, 1, &limits).unwrap())
    }

    /// Row, column and value of each entry.
    fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        (0..self.n()).flat_map(move |j| {
            let range = self.cols.range(j);
            range.map(move |p| (self.cols.idx()[p] as usize, j, self.values[p]))
        })
    }

    /// The largest entry of B·x − b, or of Bᵀ·x − b, for entries of x near one.
    fn residual(&self, x: &[f64], b: &[f64], transpose: bool) -> f64 {
        let mut r = b.to_vec();
        for (i, j, value) in self.entries() {
            let (i, j) = if transpose { (j, i) } else { (i, j) };
            r[i] -= value * x[j];
        }
        r.iter().fold(0.0, |max, r| r.abs().max(max))
    }

    /// Values of the plan's entries.
    fn planned(&self, plan: &BlockPlan) -> Vec<f64> {
        plan.source()
            .iter()
            .map(|&p| self.values[p as usize])
            .collect()
    }
}

fn options(threads: usize) -> Options {
    Options {
        pivots: PivotPolicy::threshold(0.1),
        threads,
        max_bytes: None,
        memory: MemoryBudget::unlimited(),
        cancel: CancelFlag::new(),
        ranks: None,
    }
}

fn refactorize(
    lu: &mut BlockLu<f64>,
    values: &[f64],
    options: &Options,
) -> Result<Quality, NumericError> {
    let mut quality = Quality::default();
    lu.refactorize(values, options, &mut quality)?;
    Ok(quality)
}

/// Solutions for right-hand sides of which x = (1, −1, …) and others near it are the solutions.
fn check_solves(b: &Blocks, lu: &BlockLu<f64>, threads: usize) {
    let n = b.n();
    let rows: Vec<usize> = match lu.row_perm() {
        Some(perm) => perm.as_slice().iter().map(|&i| i as usize).collect(),
        None => (0..n).collect(),
    };
    for nrhs in [1, 3] {
        for transpose in [false, true] {
            let known = |k: usize, j: usize| {
                if (j * (k + 1)).is_multiple_of(3) {
                    1.0
                } else {
                    -0.5
                }
            };
            let mut sides = vec![0.0; n * nrhs];
            for k in 0..nrhs {
                for (i, j, value) in b.entries() {
                    let (i, j) = if transpose { (j, i) } else { (i, j) };
                    sides[k * n + i] += value * known(k, j);
                }
            }
            let mut x = sides.clone();
            if transpose {
                lu.solve_transpose(&mut x, nrhs, threads, &CancelFlag::new())
                    .unwrap();
            } else {
                for k in 0..nrhs {
                    (0..n).for_each(|i| x[k * n + i] = sides[k * n + rows[i]]);
                }
                lu.solve(&mut x, nrhs, threads, &CancelFlag::new()).unwrap();
            }
            for k in 0..nrhs {
                let mut solution = x[k * n..(k + 1) * n].to_vec();
                if transpose {
                    (0..n).for_each(|i| solution[rows[i]] = x[k * n + i]);
                }
                let size = solution.iter().fold(1.0, |max: f64, x| x.abs().max(max));
                let residual = b.residual(&solution, &sides[k * n..(k + 1) * n], transpose);
                assert!(
                    residual <= 1e-11 * size,
                    "side {k} of {nrhs}, transpose {transpose}: {residual:e} for {size:e}"
                );
            }
        }
    }
}

#[test]
fn blocks_go_where_they_belong() {
    let b = Blocks::new(1);
    let columns = |engine| b.plan(engine).front_sizes().columns;
    assert_eq!(columns(Engine::Columns), 0);
    assert_eq!(columns(Engine::Auto), 90);
    assert_eq!(columns(Engine::Fronts), 24 + 90 + 40 + 12 + 33);
    for engine in ENGINES {
        let mut plan = b.plan(engine);
        assert_eq!(plan.n(), b.n());
        let mut source = plan.source().to_vec();
        let entries: Vec<u32> = (0..b.cols.nnz() as u32).collect();
        source.sort_unstable();
        assert_eq!(source, entries, "{engine:?}");
        let mut sums = vec![0.0; b.n()];
        b.entries().for_each(|(_, j, value)| sums[j] += value.abs());
        let norm = sums.into_iter().fold(0.0, f64::max);
        assert_eq!(plan.norm1(&b.planned(&plan)), norm, "{engine:?}");
        let before = plan.source().to_vec();
        Arc::get_mut(&mut plan).unwrap().compose(|p| 2 * p + 1);
        let composed = before.iter().map(|p| 2 * p + 1);
        assert!(composed.eq(plan.source().iter().copied()));
    }
}

#[test]
fn both_engines_solve_through_the_blocks() {
    for seed in 0..3 {
        let b = Blocks::new(seed);
        for engine in ENGINES {
            let plan = b.plan(engine);
            let values = b.planned(&plan);
            let mut reports: Vec<Quality> = Vec::new();
            for threads in [1, 2] {
                let options = options(threads);
                let (mut lu, quality) = BlockLu::factorize(&plan, &values, &options).unwrap();
                assert!(quality.checksum < 1e-13, "{engine:?}: {quality:?}");
                check_solves(&b, &lu, threads);
                let again = refactorize(&mut lu, &values, &options).unwrap();
                assert_eq!(
                    (again.min_pivot_ratio, again.max_pivot_ratio),
                    (1.0, 1.0),
                    "{engine:?}"
                );
                assert!((again.growth / quality.growth - 1.0).abs() < 1e-12);
                check_solves(&b, &lu, threads);
                reports.push(quality);
                let names = lu.code_path();
                assert_eq!(
                    names.contains(&"numeric: multifrontal"),
                    engine != Engine::Columns
                );
                assert!(names.contains(&"numeric: left-looking columns"));
            }
            assert_eq!(reports[0], reports[1], "{engine:?}");
        }
    }
}

/// The sign of the determinant by Gaussian elimination with partial pivoting.
fn is_negative(b: &Blocks) -> bool {
    let n = b.n();
    let mut dense = vec![vec![0.0; n]; n];
    b.entries().for_each(|(i, j, value)| dense[i][j] = value);
    let mut negative = false;
    for k in 0..n {
        let pivot = (k..n).max_by(|&x, &y| dense[x][k].abs().total_cmp(&dense[y][k].abs()));
        let pivot = pivot.unwrap();
        negative ^= pivot != k;
        dense.swap(k, pivot);
        negative ^= dense[k][k] < 0.0;
        let (above, below) = dense.split_at_mut(k + 1);
        let row = &above[k];
        for other in below {
            let factor = other[k] / row[k];
            (k..n).for_each(|j| other[j] -= factor * row[j]);
        }
    }
    negative
}

#[test]
fn pivots_and_exchanges_make_the_determinant() {
    for seed in 0..4 {
        let b = Blocks::new(seed);
        let expected = is_negative(&b);
        for engine in ENGINES {
            let plan = b.plan(engine);
            let (lu, _) = BlockLu::factorize(&plan, &b.planned(&plan), &options(1)).unwrap();
            let mut count = 0;
            let mut negative = lu.exchanges_are_odd();
            lu.for_each_pivot(|pivot| {
                count += 1;
                negative ^= pivot < 0.0;
            });
            negative ^= lu.row_perm().is_some_and(|perm| perm.is_odd());
            assert_eq!(
                (count, negative),
                (b.n(), expected),
                "{engine:?}, seed {seed}"
            );
        }
    }
}

/// Of a triangular matrix nothing is eliminated.
fn product_norm(lu: &BlockLu<f64>, rows: &[f64], cols: &[f64]) -> f64 {
    lu.product_norm(rows, cols, 1, &CancelFlag::new()).unwrap()
}

/// |L|·|U| of 2 1 0 / 1 ¼ 1 / 0 1 4, whose second pivot is −¼, is 2 1 0 / 1 ¾ 1 / 0 1 12.
#[test]
fn products_of_magnitudes_are_weighted_by_row_and_column() {
    let b = Blocks {
        cols: CompressedPattern::new(3, vec![0, 2, 5, 7], vec![0, 1, 0, 1, 2, 1, 2]).unwrap(),
        values: vec![2.0, 1.0, 1.0, 0.25, 1.0, 1.0, 4.0],
        ptr: vec![0, 3],
    };
    for engine in [Engine::Columns, Engine::Fronts] {
        let plan = b.plan(engine);
        let (lu, _) = BlockLu::factorize(&plan, &b.planned(&plan)[..], &options(1)).unwrap();
        let rows = [1.0, 0.5, 0.25];
        for (cols, norm) in [
            ([8.0, 1.0, 1.0], 8.0 * (2.0 + 0.5)),
            ([1.0, 8.0, 1.0], 8.0 * (1.0 + 0.375 + 0.25)),
            ([1.0, 1.0, 8.0], 8.0 * (0.5 + 3.0)),
        ] {
            assert_eq!(
                product_norm(&lu, &rows, &cols),
                norm,
                "{engine:?}, {cols:?}"
            );
        }
        assert!(product_norm(&lu, &[f64::NAN, 1.0, 1.0], &[1.0; 3]).is_nan());
        // Its columns add up to 3, 2¾ and 13. The last has no entry in the first row, which a front does not see.
        for (weights, product) in [([8.0, 1.0, 1.0], 24.0), ([1.0, 8.0, 1.0], 22.0)] {
            assert_eq!(lu.weighted_product(&weights), product, "{engine:?}");
        }
        assert_eq!(lu.weighted_product(&[1.0; 3]), 13.0);
        assert!(lu.weighted_product(&[1.0, f64::NAN, 1.0]).is_nan());
        let of_last = if engine == Engine::Columns { 0.5 } else { 1.0 };
        assert_eq!(lu.largest_weights(&rows), [1.0, 1.0, of_last]);
    }
}

/// Relative to the columns of B it is the growth, and weights undo powers of two in the rows.
#[test]
fn products_of_magnitudes_follow_the_rows_where_pivots_moved_them() {
    for seed in 0..4 {
        let b = Blocks::new(seed);
        let n = b.n();
        let block_of = |i: usize| b.ptr.partition_point(|&first| first <= i);
        let mut norms = vec![0.0f64; n];
        for (i, j, value) in b.entries() {
            if block_of(i) == block_of(j) {
                norms[j] += value.abs();
            }
        }
        let cols: Vec<f64> = norms.iter().map(|norm| 1.0 / norm).collect();
        let factor = |i: usize| 2f64.powi((7 * i % 31) as i32 - 15);
        let scaled = Blocks {
            values: b.entries().map(|(i, _, value)| value * factor(i)).collect(),
            cols: b.cols.clone(),
            ptr: b.ptr.clone(),
        };
        for engine in ENGINES {
            let plan = b.plan(engine);
            let values = b.planned(&plan);
            let (mut lu, quality) = BlockLu::factorize(&plan, &values[..], &options(1)).unwrap();
            let norm = product_norm(&lu, &vec![1.0; n], &cols);
            let difference = (norm - quality.growth).abs();
            assert!(
                difference <= 1e-13 * norm,
                "{engine:?}: {norm} and {quality:?}"
            );
            refactorize(&mut lu, &values, &options(1)).unwrap();
            let norm = product_norm(&lu, &vec![1.0; n], &cols);
            refactorize(&mut lu, &scaled.planned(&plan), &options(1)).unwrap();
            let rows: Vec<f64> = match lu.row_perm() {
                Some(perm) => perm
                    .as_slice()
                    .iter()
                    .map(|&i| 1.0 / factor(i as usize))
                    .collect(),
                None => (0..n).map(|i| 1.0 / factor(i)).collect(),
            };
            let difference = (product_norm(&lu, &rows, &cols) - norm).abs();
            assert!(difference <= 1e-13 * norm, "{engine:?}: {norm}");
            // With the largest weight of each column it is no less, and with the smallest no more.
            let of_columns = |rows: &[f64]| {
                let weights = lu.largest_weights(rows).into_iter().zip(&cols);
                let weights: Vec<f64> = weights.map(|(row, col)| row * col).collect();
                lu.weighted_product(&weights)
            };
            assert!(
                of_columns(&rows) >= norm * (1.0 - 1e-13),
                "{engine:?}: {norm}"
            );
            let least = rows.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(of_columns(&vec![least; n]) <= norm * (1.0 + 1e-13));
        }
    }
}

#[test]
fn operations_of_columns_count() {
    let cols = CompressedPattern::new(2, vec![0, 2, 4], vec![0, 1, 0, 1]).unwrap();
    let limits = Limits::none();
    let plan = BlockPlan::new(&cols, &[0, 2], Engine::Columns, |_| None, 1, &limits).unwrap();
    let (lu, _) = BlockLu::factorize(&Arc::new(plan), &[4.0, 1.0, 1.0, 4.0], &options(1)).unwrap();
    // One division, one product, one difference.
    assert_eq!(lu.flops(), 3.0);
}

#[test]
fn columns_alone_are_divided_by() {
    let cols = CompressedPattern::new(3, vec![0, 1, 3, 6], vec![0, 0, 1, 0, 1, 2]).unwrap();
    let values = [2.0, 3.0, 4.0, -1.0, 5.0, 8.0];
    let limits = Limits::none();
    for engine in ENGINES {
        let plan = BlockPlan::new(&cols, &[0, 1, 2, 3], engine, |_| None, 1, &limits).unwrap();
        let planned: Vec<f64> = plan.source().iter().map(|&p| values[p as usize]).collect();
        assert_eq!(plan.norm1(&planned), 14.0);
        let plan = Arc::new(plan);
        let (lu, quality) = BlockLu::factorize(&plan, &planned, &options(1)).unwrap();
        assert_eq!((lu.lnz(), lu.unz(), lu.flops()), (3, 6, 0.0));
        assert_eq!((quality.min_pivot, quality.max_pivot), (2.0, 8.0));
        // One right-hand side is solved where it is, four others beside it.
        assert_eq!(lu.solve_scratch_bytes(1, 1), 0);
        assert_eq!(lu.solve_scratch_bytes(2, 1), 3 * 4 * 8);
        // B·(1, 2, 3) and Bᵀ·(1, 2, 3).
        let mut x = [5.0, 23.0, 24.0];
        lu.solve(&mut x, 1, 1, &CancelFlag::new()).unwrap();
        assert_eq!(x, [1.0, 2.0, 3.0]);
        let mut x = [2.0, 11.0, 33.0];
        lu.solve_transpose(&mut x, 1, 1, &CancelFlag::new())
            .unwrap();
        assert_eq!(x, [1.0, 2.0, 3.0]);
    }
}

/// Refactorizes both, compares them, and returns whether that succeeded.
fn change(
    told: &mut BlockLu<f64>,
    whole: &mut BlockLu<f64>,
    values: &[f64],
    changed: &[u32],
    options: &Options,
) -> bool {
    let mut quality = Quality::default();
    let outcome = told.refactorize_changed(values, changed, options, &mut quality);
    let expected = refactorize(whole, values, options);
    let outcome = outcome.map(|()| quality).map_err(|e| e.to_string());
    assert_eq!(outcome, expected.map_err(|e| e.to_string()));
    if outcome.is_ok() {
        let pivots = |lu: &BlockLu<f64>| {
            let mut pivots = Vec::new();
            lu.for_each_pivot(|pivot| pivots.push(pivot.to_bits()));
            pivots
        };
        assert!(pivots(told) == pivots(whole));
    }
    outcome.is_ok()
}

/// What is told of changes counts from the values that were factorized last; after a failure everything is factorized.
#[test]
fn changes_leave_what_a_whole_refactorization_leaves_after_failures_too() {
    let b = Blocks::new(6);
    for (engine, threads) in ENGINES.into_iter().flat_map(|e| [(e, 1), (e, 2)]) {
        let plan = b.plan(engine);
        let mut values = b.planned(&plan);
        let options = options(threads);
        let [mut told, mut whole] =
            [0, 1].map(|_| BlockLu::factorize(&plan, &values, &options).unwrap().0);
        let mut least = f64::INFINITY;
        for first in (0..values.len()).step_by(97) {
            let changed = [
                first as u32,
                (first as u32 + 3).min(values.len() as u32 - 1),
            ];
            let changed = if changed[0] == changed[1] {
                &changed[..1]
            } else {
                &changed[..]
            };
            changed.iter().for_each(|&p| values[p as usize] *= 1.125);
            assert!(change(&mut told, &mut whole, &values, changed, &options));
            least = least.min(told.refactorized_part());
        }
        assert!(least < 0.2, "{engine:?}: {least}");
        for ends in b.ptr.windows(2) {
            // A column of zeros of a block: the engines that come before it have other values by then.
            let range = b.cols.range(ends[0]);
            let mut empty = values.clone();
            let mut changed = vec![0];
            for (number, &p) in plan.source().iter().enumerate() {
                if range.contains(&(p as usize)) {
                    empty[number] = 0.0;
                    changed.push(number as u32);
                }
            }
            empty[0] *= 1.5;
            changed.dedup();
            assert!(!change(&mut told, &mut whole, &empty, &changed, &options));
            assert!(change(&mut told, &mut whole, &values, &[5], &options));
            assert_eq!(told.refactorized_part(), 1.0);
        }
    }
}

/// Errors and reports name columns of B, whatever engine a block is with, and the next values are factorized as
/// if nothing had been.
#[test]
fn columns_are_those_of_the_whole_matrix() {
    let b = Blocks::new(5);
    for engine in ENGINES {
        let plan = b.plan(engine);
        let good = b.planned(&plan);
        for threads in [1, 2] {
            let (mut lu, quality) = BlockLu::factorize(&plan, &good, &options(threads)).unwrap();
            for ends in b.ptr.windows(2) {
                for column in [ends[0], ends[1] - 1] {
                    let range = b.cols.range(column);
                    let with = |value: f64| {
                        let source = plan.source().iter();
                        let values = source.map(|&p| match range.contains(&(p as usize)) {
                            true => value,
                            false => b.values[p as usize],
                        });
                        values.collect::<Vec<f64>>()
                    };
                    // An empty column may leave another one of its block without a pivot.
                    for result in [
                        BlockLu::factorize(&plan, &with(0.0), &options(threads)).map(|_| ()),
                        refactorize(&mut lu, &with(0.0), &options(threads)).map(|_| ()),
                    ] {
                        assert!(
                            matches!(
                                result,
                                Err(NumericError::ZeroPivot { column }) if (ends[0]..ends[1]).contains(&column)
                            ),
                            "{engine:?}, column {column}: {result:?}"
                        );
                    }
                    let result = BlockLu::factorize(&plan, &with(f64::NAN), &options(threads));
                    assert!(
                        matches!(
                            result,
                            Err(NumericError::NotFinite { column }) if (ends[0]..ends[1]).contains(&column)
                        ),
                        "{engine:?}, column {column}: {:?}",
                        result.map(|_| ())
                    );
                }
            }
            let again = refactorize(&mut lu, &good, &options(threads)).unwrap();
            assert!((again.growth / quality.growth - 1.0).abs() < 1e-12);
            assert!(again.checksum < 1e-13);
            check_solves(&b, &lu, threads);

            // The pivot of a column alone is replaced.
            let column = b.ptr[4];
            let zero = |p: &u32| match b.cols.range(column).contains(&(*p as usize)) {
                true => 0.0,
                false => b.values[*p as usize],
            };
            let values: Vec<f64> = plan.source().iter().map(zero).collect();
            let options = Options {
                pivots: PivotPolicy::replacing(1e-20),
                ..options(threads)
            };
            let (_, quality) = BlockLu::factorize(&plan, &values, &options).unwrap();
            assert_eq!(
                (quality.num_perturbed, quality.first_perturbed),
                (1, Some(column))
            );
        }
    }
}

/// Relative to the largest entry, in either engine.
#[test]
fn a_tiny_pivot_becomes_a_fraction_of_the_largest_entry() {
    let b = Blocks {
        cols: CompressedPattern::new(2, vec![0, 2, 4], vec![0, 1, 0, 1]).unwrap(),
        values: vec![0.0, 0.5, 8.0, 1.0],
        ptr: vec![0, 2],
    };
    let options = Options {
        pivots: PivotPolicy::replacing(0.125),
        ..options(1)
    };
    for engine in [Engine::Columns, Engine::Fronts] {
        let plan = b.plan(engine);
        let (lu, quality) = BlockLu::factorize(&plan, &b.planned(&plan)[..], &options).unwrap();
        let mut pivots = Vec::new();
        lu.for_each_pivot(|pivot| pivots.push(pivot));
        assert_eq!(pivots.iter().map(|p| p.abs()).fold(f64::MAX, f64::min), 1.0);
        assert_eq!(quality.num_perturbed, 1, "{engine:?}, {pivots:?}");
    }
}

#[test]
fn the_flag_stops_plan_and_factors() {
    let b = Blocks::new(6);
    for engine in ENGINES {
        let raised = CancelFlag::new();
        raised.cancel();
        let plan = BlockPlan::new(
            &b.cols,
            &b.ptr,
            engine,
            |_| None,
            1,
            &Limits::of_flag(&raised),
        );
        assert!(matches!(plan, Err(NumericError::Cancelled(_))));
        let plan = b.plan(engine);
        let values = b.planned(&plan);
        for threads in [1, 2] {
            let cancelled = Options {
                cancel: raised.clone(),
                ..options(threads)
            };
            let (mut lu, _) = BlockLu::factorize(&plan, &values, &options(threads)).unwrap();
            let first = BlockLu::factorize(&plan, &values, &cancelled).map(|_| ());
            let second = refactorize(&mut lu, &values, &cancelled).map(|_| ());
            for result in [first, second] {
                assert!(
                    matches!(result, Err(NumericError::Cancelled(_))),
                    "{result:?}"
                );
            }
            refactorize(&mut lu, &values, &options(threads)).unwrap();
            check_solves(&b, &lu, threads);
        }
    }
}

#[test]
#[should_panic(expected = "an entry below its diagonal block")]
fn an_entry_below_the_blocks_is_a_broken_call() {
    let cols = CompressedPattern::new(2, vec![0, 2, 3], vec![0, 1, 1]).unwrap();
    let limits = Limits::none();
    let _ = BlockPlan::new(&cols, &[0, 1, 2], Engine::Auto, |_| None, 1, &limits);
}
