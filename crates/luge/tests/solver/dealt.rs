//! Matrices whose subtrees are dealt out to a group of devices: the answers of one device, bit for bit, and one device where
//! there is nothing to gain or no room.

use luge::{
    BackendChoice, DealOut, Factors, Inform, MatrixKind, Options, Regularization, Scalar, Solver,
};
use luge_sparse::Form;
use luge_testkit::convert::{turned, turned_in_form};
use luge_testkit::generators::applications::convection_diffusion_2d;
use num_complex::Complex;
use sprs::{CsMat, TriMat};

fn group(count: usize, deal_out: DealOut) -> Options {
    Options::default()
        .backend(BackendChoice::Simulators { seed: 3, count })
        .deal_out(deal_out)
}

/// Full blocks of a hundred rows, each of which is a front in tiles, below a full block of twelve.
pub fn star() -> CsMat<f64> {
    let n = 3 * 100 + 12;
    let mut entries = TriMat::new((n, n));
    for i in 0..n {
        for j in 0..n {
            if i / 100 == j / 100 || i.max(j) >= 300 {
                let value = ((i * 7 + j * 3) % 11) as f64 / 4.0 - 1.0;
                entries.add_triplet(i, j, if i == j { 500.0 } else { value });
            }
        }
    }
    entries.to_csr()
}

pub fn symmetric(a: &CsMat<f64>) -> CsMat<f64> {
    let transposed = a.transpose_view().to_csr();
    &a.to_csr() + &transposed
}

/// A matrix for each kind that a device factorizes over the field, with other values of its pattern.
pub fn problems<T: Scalar>() -> Vec<(CsMat<T>, MatrixKind, Vec<T>)> {
    let general = star();
    let lower = symmetric(&general);
    let others = |a: &CsMat<T>| -> Vec<T> {
        let values = a.data().iter();
        values
            .map(|v| T::narrow(v.widen().scaled_by(1.25)))
            .collect()
    };
    let general = turned::<T>(&general);
    let symmetric = turned_in_form::<T>(&lower, Form::Symmetric);
    let mut problems = vec![
        (general.clone(), MatrixKind::General, scaled(&general)),
        (symmetric.clone(), MatrixKind::Symmetric, others(&symmetric)),
    ];
    if T::COMPONENTS == 1 {
        let others = others(&symmetric);
        problems.push((symmetric, MatrixKind::PositiveDefinite, others));
    }
    problems
}

pub fn scaled<T: Scalar>(a: &CsMat<T>) -> Vec<T> {
    let values = a.data().iter().enumerate();
    let scaled = |(p, v): (usize, &T)| v.widen().scaled_by(1.0 + (p % 5) as f64 / 1024.0);
    values.map(scaled).map(T::narrow).collect()
}

fn bits<T: Scalar>(x: &[T]) -> Vec<u64> {
    let mut bits = Vec::new();
    for v in x {
        v.widen().map_components(|component| {
            bits.push(component.to_bits());
            component
        });
    }
    bits
}

/// Solutions with A, and with other values of its pattern; and the factors for these.
pub fn factorized<T: Scalar>(
    a: &CsMat<T>,
    options: Options,
    others: &[T],
) -> ([Vec<u64>; 2], Factors<T>) {
    let solver = Solver::new(options).unwrap();
    let analysis = solver.analyze(a).unwrap();
    let mut factors = analysis.factorize(a).unwrap();
    let b: Vec<T> = (0..a.rows())
        .map(|i| T::narrow(Scalar::from_real(1.0 + (i % 3) as f64)))
        .collect();
    let solved = |factors: &Factors<T>| bits(&factors.solve(&b).unwrap().x);
    let first = solved(&factors);
    factors.refactorize_values(others).unwrap();
    ([first, solved(&factors)], factors)
}

/// These solutions, and the report on the factors.
pub fn answers<T: Scalar>(a: &CsMat<T>, options: Options, others: &[T]) -> ([Vec<u64>; 2], Inform) {
    let (solutions, factors) = factorized(a, options, others);
    (solutions, factors.inform().clone())
}

fn assert_answers_are_those_of_one_device<T: Scalar>() {
    for (a, kind, others) in problems::<T>() {
        let counts: &[usize] = match kind {
            MatrixKind::General if T::COMPONENTS == 1 => &[2, 5],
            MatrixKind::Symmetric => &[3],
            _ => &[2],
        };
        let one = group(1, DealOut::Always).kind(kind);
        let (expected, alone) = answers(&a, one, &others);
        assert_eq!((alone.num_devices, alone.predicted_speedup), (None, None));
        for &count in counts {
            let options = group(count, DealOut::Always).kind(kind);
            let (found, inform) = answers(&a, options, &others);
            assert_eq!(found, expected, "{kind:?} on {count}");
            let devices = inform.num_devices.unwrap();
            assert!(
                (2..=count).contains(&devices),
                "{kind:?}: {devices} of {count}"
            );
            assert!(inform.predicted_speedup.is_some());
            let path = inform.code_path.last().unwrap();
            assert!(path.contains("subtrees on several devices"), "{path}");
        }
    }
}

#[test]
fn answers_are_those_of_one_device() {
    assert_answers_are_those_of_one_device::<f64>();
}

#[test]
fn complex_answers_are_those_of_one_device() {
    assert_answers_are_those_of_one_device::<Complex<f64>>();
}

#[test]
fn small_matrices_are_left_to_one_device() {
    let others = scaled(&star());
    let (expected, _) = answers(&star(), group(1, DealOut::Auto), &others);
    for deal_out in [DealOut::Auto, DealOut::Never] {
        let (found, inform) = answers(&star(), group(2, deal_out), &others);
        assert_eq!(found, expected);
        assert_eq!(inform.num_devices, Some(1), "{deal_out:?}");
        let speedup = inform.predicted_speedup.unwrap();
        assert!(speedup < 1.0 / 0.9, "{speedup}");
    }
    // In which no front has tiles.
    let a = convection_diffusion_2d(9, 9, 1.0);
    let (_, inform) = answers(&a, group(2, DealOut::Always), &scaled(&a));
    assert_eq!(
        (inform.num_devices, inform.predicted_speedup),
        (Some(1), None)
    );
}

#[test]
fn without_room_for_parts_one_device_factorizes() {
    let a = star();
    let analyzed = |deal_out, bytes| {
        let options = group(2, deal_out).max_device_bytes(bytes);
        let solver = Solver::new(options).unwrap();
        let inform = solver.analyze(&a).unwrap().inform().clone();
        (inform.num_devices, inform.predicted_device_bytes.unwrap())
    };
    let (_, alone) = analyzed(DealOut::Never, None);
    let (devices, dealt) = analyzed(DealOut::Always, None);
    assert_eq!(devices, Some(2));
    assert!(alone < dealt, "{alone} bytes, {dealt} with parts");
    assert_eq!(analyzed(DealOut::Always, Some(dealt)), (Some(2), dealt));
    assert_eq!(analyzed(DealOut::Always, Some(alone)), (Some(1), alone));
    let options = group(2, DealOut::Always).max_device_bytes(Some(alone));
    let (found, _) = answers(&a, options, &scaled(&a));
    let (expected, _) = answers(&a, group(1, DealOut::Auto), &scaled(&a));
    assert_eq!(found, expected);
}

#[test]
fn batches_and_expected_signs_are_left_to_single_devices() {
    let a = star();
    let solver = Solver::new(group(2, DealOut::Always)).unwrap();
    let analysis = solver.analyze(&a).unwrap();
    assert_eq!(analysis.inform().num_devices, Some(2));
    let values = [a.data(), &scaled(&a)].concat();
    let batch = analysis.factorize_batch(&values, 2).unwrap();
    let b = vec![1.0; 2 * a.rows()];
    let solved: Vec<_> = batch.solve(&b, 1).into_iter().map(Result::unwrap).collect();
    for (system, values) in values.chunks(a.nnz()).enumerate() {
        let factors = analysis.factorize_values(values).unwrap();
        let expected = factors.solve(&b[..a.rows()]).unwrap();
        assert_eq!(bits(&solved[system].x), bits(&expected.x), "{system}");
    }

    let a = symmetric(&a);
    let signs = Regularization::new(vec![1; a.rows()], 1e-8);
    let options = group(2, DealOut::Always)
        .kind(MatrixKind::Symmetric)
        .regularization(Some(signs));
    let (_, inform) = answers(&a, options, a.data());
    assert_eq!(
        (inform.num_devices, inform.predicted_speedup),
        (Some(1), None)
    );
}
