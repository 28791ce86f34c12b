//! Matrices whose subtrees are dealt out to a group of devices: the answers of one device, bit for bit, and one device where
//! there is nothing to gain or no room.

use luge::{BackendChoice, DealOut, Factors, Inform, MatrixKind, Options, Regularization, Solver};
use luge_testkit::generators::applications::convection_diffusion_2d;
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

pub fn scaled(a: &CsMat<f64>) -> Vec<f64> {
    let values = a.data().iter().enumerate();
    values
        .map(|(p, v)| v * (1.0 + (p % 5) as f64 / 1024.0))
        .collect()
}

fn bits(x: &[f64]) -> Vec<u64> {
    x.iter().map(|v| v.to_bits()).collect()
}

/// Solutions with A, and with other values of its pattern; and the report on the analysis.
pub fn answers(a: &CsMat<f64>, options: Options, others: &[f64]) -> ([Vec<u64>; 2], Inform) {
    let solver = Solver::new(options).unwrap();
    let analysis = solver.analyze(a).unwrap();
    let mut factors = analysis.factorize(a).unwrap();
    let b: Vec<f64> = (0..a.rows()).map(|i| 1.0 + (i % 3) as f64).collect();
    let solved = |factors: &Factors<f64>| bits(&factors.solve(&b).unwrap().x);
    let first = solved(&factors);
    factors.refactorize_values(others).unwrap();
    ([first, solved(&factors)], factors.inform().clone())
}

#[test]
fn answers_are_those_of_one_device() {
    let general = star();
    let symmetric = symmetric(&general);
    for (a, kind, counts) in [
        (&general, MatrixKind::General, &[2, 5][..]),
        (&symmetric, MatrixKind::Symmetric, &[3]),
        (&symmetric, MatrixKind::PositiveDefinite, &[2]),
    ] {
        let others: Vec<f64> = match kind {
            MatrixKind::General => scaled(a),
            _ => a.data().iter().map(|v| v * 1.25).collect(),
        };
        let one = group(1, DealOut::Always).kind(kind);
        let (expected, alone) = answers(a, one, &others);
        assert_eq!((alone.num_devices, alone.predicted_speedup), (None, None));
        for &count in counts {
            let options = group(count, DealOut::Always).kind(kind);
            let (found, inform) = answers(a, options, &others);
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
