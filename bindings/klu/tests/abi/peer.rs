//! Circuits of the corpus with KLU and with this library: solutions, condition, growth, operations.

use luge_klu::layout::Integer;
use luge_testkit::corpus::{Corpus, Kind};
use sprs::CsMat;

use crate::api::{Api, Solver, klu, ours};

/// Largest order.
const MAX_N: u64 = 3000;

/// The worse of both solutions may be this much worse than that of KLU, and is as good as any below [`GOOD`].
const WORSE: f64 = 10.0;
const GOOD: f64 = 1e-13;

/// What one library finds for a matrix.
struct Found {
    /// Normwise backward errors with A and its transpose.
    errors: [f64; 2],
    rcond: f64,
    condest: f64,
    rgrowth: f64,
    flops: f64,
    blocks: usize,
}

fn max_abs(values: impl Iterator<Item = f64>) -> f64 {
    values.map(f64::abs).fold(0.0, f64::max)
}

/// ‖b − A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞), where `a` is by columns.
fn backward_error(a: &CsMat<f64>, x: &[f64], b: &[f64], transpose: bool) -> f64 {
    let (mut residual, mut norms) = (b.to_vec(), vec![0.0f64; b.len()]);
    for (&value, (i, j)) in a.iter() {
        let (to, from) = if transpose { (j, i) } else { (i, j) };
        residual[to] -= value * x[from];
        norms[to] += value.abs();
    }
    let of = |v: &[f64]| max_abs(v.iter().copied());
    of(&residual) / (of(&norms) * of(x) + of(b))
}

fn find<I: Integer>(api: &Api<I>, a: &CsMat<f64>) -> Option<Found> {
    let ptr: Vec<I> = a.indptr().raw_storage().iter().map(|&p| I::of(p)).collect();
    let idx: Vec<I> = a.indices().iter().map(|&i| I::of(i)).collect();
    let mut solver = Solver::new(api);
    if !solver.analyze(&ptr, &idx) || !solver.factor(&ptr, &idx, a.data()) {
        return None;
    }
    // Other values, and these again, on the same pivots.
    let others: Vec<f64> = a.data().iter().map(|value| value * 1.25).collect();
    assert!(solver.refactor(&ptr, &idx, &others) && solver.refactor(&ptr, &idx, a.data()));
    let b: Vec<f64> = (0..a.rows()).map(|i| 1.0 + (i % 7) as f64).collect();
    let errors = [false, true].map(|transpose| {
        let mut x = b.clone();
        assert!(solver.solve(&mut x, transpose));
        backward_error(a, &x, &b, transpose)
    });
    solver.ask(&ptr, &idx, a.data());
    // SAFETY: the object is there.
    let blocks = unsafe { (*solver.symbolic).nblocks };
    Some(Found {
        errors,
        rcond: solver.common.rcond,
        condest: solver.common.condest,
        rgrowth: solver.common.rgrowth,
        flops: solver.common.flops,
        blocks: blocks.to_usize().unwrap(),
    })
}

/// Whether two positive numbers are within this factor of each other.
fn are_within(factor: f64, a: f64, b: f64) -> bool {
    a <= factor * b && b <= factor * a
}

#[test]
fn answers_are_those_of_klu() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let Some(klu) = klu::<i32>(false) else {
        return;
    };
    let max_n = std::env::var("LUGE_KLU_MAX_N").map_or(MAX_N, |n| n.parse().unwrap());
    let ours: Api<i32> = Api::load(&ours(), false).unwrap();
    let (mut compared, mut num_near, mut refused) = (0, 0, 0);
    let mut ratios = [0.0; 2];
    for entry in corpus.square_real(max_n) {
        if !matches!(entry.kind(), Kind::Circuit | Kind::Power) {
            continue;
        }
        let name = &entry.name;
        let matrix = entry.read().unwrap();
        let luge_matrix_io::MatrixData::Real(a) = matrix.data else {
            unreachable!("a real matrix")
        };
        let a = a.to_csc();
        let (theirs, ours) = (find(&klu, &a), find(&ours, &a));
        let (Some(theirs), Some(ours)) = (&theirs, &ours) else {
            // What is singular to rounding KLU may take for regular.
            let may_be = theirs.as_ref().is_none_or(|found| found.condest > 1e15);
            assert!(ours.is_none() && may_be, "{name}");
            refused += 1;
            continue;
        };
        let numbers = |found: &Found| {
            format!(
                "errors {:.1e} {:.1e}, rcond {:.1e}, condest {:.1e}, rgrowth {:.1e}, flops {:.2e}, {} blocks",
                found.errors[0],
                found.errors[1],
                found.rcond,
                found.condest,
                found.rgrowth,
                found.flops,
                found.blocks
            )
        };
        println!(
            "{name}, order {}\n  klu  {}\n  luge {}",
            a.rows(),
            numbers(theirs),
            numbers(ours)
        );
        let [of_ours, of_theirs] = [ours, theirs].map(|found| found.errors[0].max(found.errors[1]));
        let is_good = of_ours <= GOOD.max(WORSE * of_theirs);
        assert!(is_good, "{name}: {of_ours:e} {of_theirs:e}");
        assert_eq!(ours.blocks, theirs.blocks, "{name}");
        // Estimates of the same number, where rounding leaves it a digit.
        let is_known = theirs.condest < 1e15;
        assert!(
            !is_known || are_within(2.0, ours.condest, theirs.condest),
            "{name}"
        );
        // Pivots depend on the order: where one library lets entries grow, its pivots are small.
        let is_alike = is_known && are_within(10.0, ours.rgrowth, theirs.rgrowth);
        let is_near = are_within(10.0, ours.rcond, theirs.rcond);
        assert!(!is_alike || is_near, "{name}");
        num_near += usize::from(is_near);
        assert!(ours.flops <= 2.0 * theirs.flops, "{name}");
        compared += 1;
        for (ratio, (ours, theirs)) in ratios
            .iter_mut()
            .zip([(ours.flops, theirs.flops), (ours.rgrowth, theirs.rgrowth)])
        {
            *ratio += (ours / theirs).ln();
        }
    }
    let [flops, rgrowth] = ratios.map(|sum| (sum / compared as f64).exp());
    println!(
        "{compared} compared, {refused} refused; rcond within a factor of ten in {num_near}; operations {flops:.2}, \
         reciprocal growth {rgrowth:.2} of those of KLU"
    );
    assert!(compared >= 10, "{compared} matrices compared");
    assert!((0.5..1.5).contains(&flops), "{flops}");
}
