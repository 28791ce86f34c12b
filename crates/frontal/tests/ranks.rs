//! Factors that are spread over ranks are those of one, bit for bit, and solve to the same bits.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use luge_comm::{Collectives, Comm, CommError, Team, Threads};
use luge_frontal::{
    FrontalError, FrontalLdlt, FrontalLu, FrontalScalar, Lower, Options, RankOptions, Storage,
    Symbolic, TreeOptions,
};
use luge_sparse::{
    CancelFlag, CompressedPattern, Form, MemoryBudget, PivotPolicy, Quality, Scalar,
};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::applications::convection_diffusion_2d;
use num_complex::Complex;
use proptest::prelude::*;
use sprs::{CsMat, TriMat};

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

/// Does `work` on so many ranks, in less time than a hang takes.
fn on_ranks<R: Send>(size: usize, work: impl Fn(RankOptions) -> R + Sync) -> Vec<R> {
    let start = Instant::now();
    let results = Threads::run(size, |comm| {
        work(RankOptions {
            team: Team::new(Arc::new(comm)),
            least_seconds: 0.0,
        })
    });
    assert!(start.elapsed() < Duration::from_secs(60), "a rank waits");
    results
}

/// All that factors tell: solutions, pivots, quality.
#[derive(Debug, PartialEq)]
struct Told {
    /// Bits of solutions, of pivots and of whatever else is a number.
    bits: Vec<u64>,
    counts: Vec<usize>,
    quality: String,
}

fn bits<F: Scalar>(values: &[F]) -> Vec<u64> {
    let mut bits = Vec::new();
    for value in values {
        value.map_components(|component| {
            bits.push(component.widen().to_bits());
            component
        });
    }
    bits
}

fn right_hand_sides<F: Scalar>(n: usize, nrhs: usize) -> Vec<F> {
    let value = |i: usize| {
        let part = ((i * 37 + 11) % 101) as f64 - 50.0;
        F::from_components(|c| F::Real::narrow(part * (1.0 + c as f64)))
    };
    (0..n * nrhs).map(value).collect()
}

fn told_by_lu<F: FrontalScalar>(factors: &FrontalLu<F>, quality: &Quality) -> Told {
    let n = factors.n();
    let never = CancelFlag::new();
    let mut all = Vec::new();
    for nrhs in [1, 3, 20] {
        for transpose in [false, true] {
            let mut x = right_hand_sides::<F>(n, nrhs);
            let solved = if transpose {
                factors.solve_transpose_within(&mut x, n, nrhs, 1, &never)
            } else {
                factors.solve_within(&mut x, n, nrhs, 1, &never)
            };
            solved.unwrap();
            all.extend(bits(&x));
        }
    }
    let mut counts = vec![
        factors.num_delayed(),
        factors.lnz() as usize,
        factors.unz() as usize,
    ];
    for (row, col, pivot) in factors.pivots() {
        counts.extend([row, col]);
        all.extend(bits(&[pivot]));
    }
    all.extend(bits(factors.products()));
    let weights: Vec<f64> = (0..n).map(|i| 1.0 + (i % 7) as f64).collect();
    all.extend(bits(&factors.largest_weights(&weights)));
    all.push(
        factors
            .product_norm(&weights, &weights, 1, &never)
            .unwrap()
            .to_bits(),
    );
    Told {
        bits: all,
        counts,
        quality: format!("{quality:?}"),
    }
}

fn told_by_ldlt<F: FrontalScalar>(factors: &FrontalLdlt<F>, quality: &dyn Debug) -> Told {
    let n = factors.n();
    let never = CancelFlag::new();
    let mut all = Vec::new();
    for nrhs in [1, 3, 20] {
        let mut x = right_hand_sides::<F>(n, nrhs);
        factors.solve(&mut x, nrhs, 1, &never).unwrap();
        all.extend(bits(&x));
        let mut x = right_hand_sides::<F>(n, nrhs);
        factors.solve_lower(&mut x, nrhs, 1, &never).unwrap();
        all.extend(bits(&x));
        factors.solve_diagonal(&mut x, nrhs, 1, &never).unwrap();
        all.extend(bits(&x));
        factors.solve_upper(&mut x, nrhs, 1, &never).unwrap();
        all.extend(bits(&x));
    }
    let mut counts = factors.elimination_order();
    counts.extend([factors.num_delayed(), factors.num_two(), factors.rank()]);
    counts.extend(
        factors
            .perturbed()
            .unwrap_or_default()
            .iter()
            .map(|&c| c as usize),
    );
    all.extend(bits(&factors.d()));
    let weights: Vec<f64> = (0..n).map(|i| 1.0 + (i % 7) as f64).collect();
    let norm = factors.product_norm(&weights, 1, &never).unwrap();
    all.push(norm.to_bits());
    Told {
        bits: all,
        counts,
        quality: format!("{quality:?} {:?}", factors.inertia()),
    }
}

/// A tree whose fronts are hardly merged, so that there are many of them.
fn symbolic<S: Storage>(cols: &CompressedPattern) -> Arc<Symbolic<S>> {
    let options = TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    };
    Arc::new(Symbolic::analyze(cols, &options).unwrap())
}

/// The first and another matrix of one pattern.
fn other_values<F: Scalar>(values: &[F]) -> Vec<F> {
    let value = |(i, &v): (usize, &F)| {
        v * F::from_components(|c| {
            F::Real::narrow(if c == 0 {
                1.0 + ((i % 5) as f64) / 100.0
            } else {
                0.0
            })
        })
    };
    values.iter().enumerate().map(value).collect()
}

fn check_lu<F: FrontalScalar>(
    cols: &CompressedPattern,
    values: &[F],
    options: &Options,
    sizes: &[usize],
) {
    let symbolic = symbolic(cols);
    let others = other_values(values);
    let run = |options: &Options| -> Result<[Told; 2], FrontalError> {
        let (mut factors, quality) = FrontalLu::factorize(&symbolic, values, options)?;
        let first = told_by_lu(&factors, &quality);
        let quality = factors.refactorize(&others, options)?;
        Ok([first, told_by_lu(&factors, &quality)])
    };
    let alone = run(options);
    for &size in sizes {
        for (rank, together) in on_ranks(size, |ranks| {
            run(&Options {
                ranks: Some(ranks),
                ..options.clone()
            })
        })
        .into_iter()
        .enumerate()
        {
            assert!(
                together == alone,
                "rank {rank} of {size} has other factors, or another error"
            );
        }
    }
}

fn check_ldlt<F: FrontalScalar>(
    cols: &CompressedPattern,
    values: &[F],
    options: &Options,
    sizes: &[usize],
) {
    let symbolic = symbolic::<Lower>(cols);
    let others = other_values(values);
    let run = |options: &Options| -> Result<[Told; 2], FrontalError> {
        let (mut factors, quality) = FrontalLdlt::factorize(&symbolic, values, options)?;
        let first = told_by_ldlt(&factors, &quality);
        let quality = factors.refactorize(&others, options)?;
        Ok([first, told_by_ldlt(&factors, &quality)])
    };
    let alone = run(options);
    for &size in sizes {
        for (rank, together) in on_ranks(size, |ranks| {
            run(&Options {
                ranks: Some(ranks),
                ..options.clone()
            })
        })
        .into_iter()
        .enumerate()
        {
            assert!(
                together == alone,
                "rank {rank} of {size} has other factors, or another error"
            );
        }
    }
}

const SIZES: [usize; 5] = [1, 2, 3, 4, 5];

/// The matrix of a grid of squares, eliminated by nested dissection.
fn grid(nx: usize, ny: usize) -> CsMat<f64> {
    fn dissect(
        x: std::ops::Range<usize>,
        y: std::ops::Range<usize>,
        order: &mut Vec<(usize, usize)>,
    ) {
        if x.len().max(y.len()) <= 2 {
            order.extend(x.flat_map(|i| y.clone().map(move |j| (i, j))));
        } else if x.len() >= y.len() {
            let middle = x.start + x.len() / 2;
            dissect(x.start..middle, y.clone(), order);
            dissect(middle + 1..x.end, y.clone(), order);
            order.extend(y.map(|j| (middle, j)));
        } else {
            let middle = y.start + y.len() / 2;
            dissect(x.clone(), y.start..middle, order);
            dissect(x.clone(), middle + 1..y.end, order);
            order.extend(x.map(|i| (i, middle)));
        }
    }
    let mut order = Vec::new();
    dissect(0..nx, 0..ny, &mut order);
    let mut new = vec![0; nx * ny];
    for (at, (i, j)) in order.into_iter().enumerate() {
        new[i + j * nx] = at;
    }
    let mut permuted = TriMat::new((nx * ny, nx * ny));
    for (&value, (i, j)) in &convection_diffusion_2d(nx, ny, 4.0) {
        permuted.add_triplet(new[i], new[j], value);
    }
    permuted.to_csr()
}

/// A matrix whose elimination tree has these parents, each vertex a block of some columns: of blocks (columns, parent). With
/// `hard`, parts of the diagonal are zeros or small, so that columns are delayed.
fn of_tree(blocks: &[(usize, usize)], seed: u64, hard: bool, symmetric: bool) -> CsMat<f64> {
    let mut start = vec![0];
    for (columns, _) in blocks {
        start.push(start[start.len() - 1] + columns);
    }
    let n = start[blocks.len()];
    let mut state = seed;
    let mut draw = move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let mut a = TriMat::new((n, n));
    for (block, &(columns, parent)) in blocks.iter().enumerate() {
        let own = start[block]..start[block] + columns;
        let above = if parent < blocks.len() {
            start[parent]..start[parent + 1]
        } else {
            0..0
        };
        let grandparent = blocks.get(parent).map_or(usize::MAX, |&(_, above)| above);
        let far = start
            .get(grandparent)
            .filter(|_| grandparent < blocks.len())
            .copied();
        for j in own.clone() {
            for i in (j + 1..own.end).chain(above.clone()).chain(far) {
                if draw() < 0.8 {
                    let value = draw() - 0.5;
                    a.add_triplet(i, j, value);
                    a.add_triplet(j, i, if symmetric { value } else { draw() - 0.5 });
                }
            }
            let diagonal = match draw() {
                part if hard && part < 0.3 => 0.0,
                part if hard && part < 0.5 => 1e-7,
                part => 2.0 + part,
            };
            a.add_triplet(j, j, diagonal);
        }
    }
    a.to_csr()
}

/// Blocks of a forest: each has a parent behind it, or none.
fn forests() -> impl Strategy<Value = Vec<(usize, usize)>> {
    proptest::collection::vec((1usize..6, 1usize..5), 2..14).prop_map(|blocks| {
        let count = blocks.len();
        let parent = |(at, (columns, up)): (usize, (usize, usize))| {
            // Far parents beside near ones, so that the tree has branches.
            (
                columns,
                if up == 4 { count - 1 } else { at + up }.max(at + 1),
            )
        };
        blocks.into_iter().enumerate().map(parent).collect()
    })
}

/// Complete binary trees of blocks in postorder.
fn binary(depth: usize, columns: usize) -> Vec<(usize, usize)> {
    fn add(depth: usize, columns: usize, blocks: &mut Vec<(usize, usize)>) -> usize {
        let below: Vec<usize> = if depth == 0 {
            Vec::new()
        } else {
            (0..2).map(|_| add(depth - 1, columns, blocks)).collect()
        };
        for child in below {
            blocks[child].1 = blocks.len();
        }
        blocks.push((columns, usize::MAX));
        blocks.len() - 1
    }
    let mut blocks = Vec::new();
    add(depth, columns, &mut blocks);
    blocks
}

#[test]
fn lu_has_the_same_bits_on_any_number_of_ranks() {
    let easy = grid(23, 17);
    // Columns are delayed beyond the subtrees that are dealt out.
    let hard = of_tree(&binary(4, 5), 7, true, false);
    for a in [&easy, &hard] {
        let (cols, values) = columns_of(a);
        let options = Options::default();
        check_lu(&cols, &values, &options, &SIZES);
        let threads = Options {
            threads: 2,
            ..options.clone()
        };
        check_lu(&cols, &values, &threads, &[3]);
        let single: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        check_lu(&cols, &single, &options, &[3]);
        let complex: Vec<Complex<f64>> =
            values.iter().map(|&v| Complex::new(v, -v / 3.0)).collect();
        check_lu(&cols, &complex, &options, &[4]);
    }
}

#[test]
fn ldlt_has_the_same_bits_on_any_number_of_ranks() {
    let a = of_tree(&binary(4, 5), 3, true, true);
    let (cols, values) = triangle_of(&a);
    let indefinite = Options {
        pivots: PivotPolicy::symmetric(0.1),
        ..Options::default()
    };
    check_ldlt(&cols, &values, &indefinite, &SIZES);
    let hermitian = Options {
        form: Form::Hermitian,
        ..indefinite.clone()
    };
    let complex: Vec<Complex<f64>> = values.iter().map(|&v| Complex::new(v, v / 3.0)).collect();
    check_ldlt(&cols, &complex, &hermitian, &[3]);
    check_ldlt(&cols, &complex, &indefinite, &[2]);
    // Pivots that are replaced are told to all.
    let n = cols.major_dim();
    let signed = Options {
        pivots: PivotPolicy::signed(0.5),
        expected: Some(
            (0..n)
                .map(|i| if i % 3 == 0 { -1.0 } else { 1.0 })
                .collect(),
        ),
        ..Options::default()
    };
    check_ldlt(&cols, &values, &signed, &[4]);
}

#[test]
fn cholesky_has_the_same_bits_on_any_number_of_ranks() {
    let (cols, mut values) = triangle_of(&grid(23, 17));
    // Of one triangle the matrix is diagonally dominant with a positive diagonal.
    for (j, rows) in cols.lines().enumerate() {
        for (&i, value) in rows.iter().zip(&mut values[cols.range(j)]) {
            *value = if i as usize == j { 5.0 } else { -1.0 };
        }
    }
    let definite = Options {
        pivots: PivotPolicy::DEFINITE,
        ..Options::default()
    };
    check_ldlt(&cols, &values, &definite, &SIZES);
    // One that is not definite names the same column, which is another's.
    let at = (0..cols.major_dim())
        .rev()
        .find(|&j| cols.line(j)[0] as usize == j)
        .unwrap()
        / 3;
    let first = cols.range(at).start;
    values[first] = -1.0;
    check_ldlt(&cols, &values, &definite, &SIZES);
}

#[test]
fn most_of_the_factors_is_on_other_ranks() {
    let (cols, values) = columns_of(&grid(60, 60));
    let symbolic = symbolic(&cols);
    let options = Options::default();
    let (alone, _) = FrontalLu::factorize(&symbolic, &values, &options).unwrap();
    let bytes = on_ranks(4, |ranks| {
        let options = Options {
            ranks: Some(ranks),
            ..Options::default()
        };
        let (factors, _) = FrontalLu::<f64>::factorize(&symbolic, &values, &options).unwrap();
        factors.bytes()
    });
    assert!(
        bytes.iter().all(|&of_rank| of_rank < alone.bytes() / 2),
        "{bytes:?} of {}",
        alone.bytes()
    );
}

#[test]
fn all_ranks_have_the_error_of_the_first_front() {
    let blocks = binary(4, 5);
    let a = of_tree(&blocks, 11, false, false);
    let (cols, values) = columns_of(&a);
    let symbolic = symbolic(&cols);
    let n = cols.major_dim();
    let mut culprits = Vec::new();
    // A column of zeros, wherever it is.
    for column in [0, n / 3, n / 2, n - 1] {
        let mut values = values.clone();
        values[cols.range(column)].fill(0.0);
        let options = Options {
            pivots: PivotPolicy::replacing(0.0),
            ..Options::default()
        };
        for pivots in [options.pivots, PivotPolicy::threshold(0.1)] {
            let options = Options {
                pivots,
                ..options.clone()
            };
            let alone = FrontalLu::<f64>::factorize(&symbolic, &values, &options).map(|_| ());
            for size in SIZES {
                let errors = on_ranks(size, |ranks| {
                    let team = ranks.team.clone();
                    let options = Options {
                        ranks: Some(ranks),
                        ..options.clone()
                    };
                    let error = FrontalLu::<f64>::factorize(&symbolic, &values, &options);
                    (error.map(|_| ()), team.culprit())
                });
                assert!(errors.iter().all(|(error, _)| *error == alone));
                if alone.is_err() && size > 1 {
                    let named = errors[0].1;
                    assert!(errors.iter().all(|&(_, culprit)| culprit == named));
                    culprits.push(named);
                }
            }
        }
    }
    culprits.sort_unstable();
    culprits.dedup();
    assert!(
        culprits.len() > 1,
        "ranks other than 0 are named: {culprits:?}"
    );
}

#[test]
fn a_rank_without_memory_is_named_by_all() {
    let (cols, values) = columns_of(&grid(30, 30));
    let symbolic = symbolic(&cols);
    let mut some_failed = false;
    for available in (0..400_000).step_by(40_000) {
        let errors = on_ranks(3, |ranks| {
            let team = ranks.team.clone();
            let mut options = Options {
                ranks: Some(ranks),
                ..Options::default()
            };
            if team.rank() == 1 {
                options.memory = MemoryBudget::new(available);
            }
            let made = FrontalLu::<f64>::factorize(&symbolic, &values, &options);
            // They go on together.
            assert_eq!(team.agree(None).map(|all| all.len()), Ok(3));
            (made.map(|_| ()).err(), available)
        });
        let first = errors[0].clone();
        assert!(errors.iter().all(|error| *error == first), "{errors:?}");
        some_failed |= matches!(first.0, Some(FrontalError::OutOfMemory { .. }));
    }
    assert!(some_failed);
}

#[test]
fn a_rank_that_leaves_ends_the_calls_of_all() {
    let (cols, values) = columns_of(&grid(30, 30));
    let symbolic = symbolic(&cols);
    for at in 0..3 {
        let outcomes = on_ranks(4, |ranks| {
            let team = ranks.team.clone();
            let options = Options {
                ranks: Some(ranks),
                ..Options::default()
            };
            if team.rank() == 2 && at == 0 {
                return None;
            }
            let factors = FrontalLu::<f64>::factorize(&symbolic, &values, &options);
            if team.rank() == 2 && at == 1 {
                return None;
            }
            let solved = factors.and_then(|(factors, _)| {
                let mut x = values[..factors.n()].to_vec();
                let never = CancelFlag::new();
                Ok(factors.solve_within(&mut x, factors.n(), 1, 1, &never)?)
            });
            // Who finds that a rank left ends the calls that others are still in, so all have solved before it leaves.
            let met = team.barrier();
            if team.rank() == 2 {
                return None;
            }
            let later = met.and_then(|()| team.barrier());
            Some((solved.is_err(), team.failure().or(later.err())))
        });
        for (rank, outcome) in outcomes.into_iter().enumerate() {
            let expected = (at < 2, Some(CommError::Left { rank: 2 }));
            assert_eq!(outcome, (rank != 2).then_some(expected), "at {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_forest_has_the_same_bits(blocks in forests(), seed: u64, size in 2usize..6, hard: bool) {
        let (cols, values) = columns_of(&of_tree(&blocks, seed, hard, false));
        check_lu(&cols, &values, &Options::default(), &[size]);
        let (cols, values) = triangle_of(&of_tree(&blocks, seed, hard, true));
        let options = Options { pivots: PivotPolicy::symmetric(0.1), ..Options::default() };
        check_ldlt(&cols, &values, &options, &[size]);
    }
}
