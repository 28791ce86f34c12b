//! Factors that a device has no room for, in the memory of the host: the answers of those that have room, bit for bit.

use luge::{
    BackendChoice, DealOut, DeviceEngine, Error, Factors, MatrixKind, Options, Scalar, Solver,
};
use num_complex::Complex;
use sprs::CsMat;

use crate::dealt::{answers, factorized, problems, scaled, star};

fn on_device(kind: MatrixKind, bytes: Option<u64>) -> Options {
    Options::default()
        .backend(BackendChoice::Simulator { seed: 3 })
        .device_engine(DeviceEngine::Tree)
        .kind(kind)
        .max_device_bytes(bytes)
}

/// Bytes by which the devices of the tests are too small: less than the factors of one of the three large blocks, for which there is
/// room twice.
const LACKING: u64 = 70_000;

fn refused<T: Scalar>(a: &CsMat<T>, options: Options) -> (u64, u64) {
    match Solver::new(options).unwrap().analyze(a) {
        Err(Error::OutOfMemory {
            asked, available, ..
        }) => (asked, available),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

fn assert_answers_are_those_of_factors_on_the_device<T: Scalar>() {
    let lacking = LACKING * T::COMPONENTS as u64;
    for (a, kind, others) in problems::<T>() {
        let a = &a;
        let (expected, there) = factorized(a, on_device(kind, None), &others);
        let whole = there.inform();
        assert_eq!(whole.host_factor_bytes, None);
        let asked = whole.predicted_device_bytes.unwrap();
        let options = || on_device(kind, Some(asked - lacking));
        let (found, elsewhere) = factorized(a, options(), &others);
        let inform = elsewhere.inform();
        assert_eq!(found, expected, "{kind:?}");
        assert!(inform.predicted_device_bytes.unwrap() <= asked - lacking);
        assert!(inform.host_factor_bytes.unwrap() > lacking);
        assert_eq!(inform.peer_factor_bytes, Some(0));
        let path = inform.code_path.last().unwrap();
        assert!(path.ends_with("factors kept elsewhere"), "{path}");

        let determinant = |factors: &Factors<T>| format!("{:?}", factors.determinant().unwrap());
        assert_eq!(determinant(&elsewhere), determinant(&there));

        // Not wanted there.
        let refused = refused(a, options().host_factors(false));
        assert_eq!(refused, (asked, asked - lacking));
    }
}

#[test]
fn answers_are_those_of_factors_on_the_device() {
    assert_answers_are_those_of_factors_on_the_device::<f64>();
}

#[test]
fn complex_answers_are_those_of_factors_on_the_device() {
    assert_answers_are_those_of_factors_on_the_device::<Complex<f64>>();
}

#[test]
fn other_devices_keep_them_first() {
    let a = star();
    let others = scaled(&a);
    let (expected, whole) = answers(&a, on_device(MatrixKind::General, None), &others);
    let bytes = whole.predicted_device_bytes.unwrap() - LACKING;
    for deal_out in [DealOut::Never, DealOut::Always] {
        let options = on_device(MatrixKind::General, Some(bytes))
            .backend(BackendChoice::Simulators { seed: 3, count: 2 })
            .deal_out(deal_out);
        let (found, inform) = answers(&a, options, &others);
        assert_eq!(found, expected, "{deal_out:?}");
        assert_eq!(inform.num_devices, Some(1));
        // The element of one front is all that the host has.
        assert!(inform.peer_factor_bytes.unwrap() > LACKING);
        assert!(inform.host_factor_bytes.unwrap() < LACKING / 8);
    }
}

#[test]
fn what_has_no_room_anywhere_is_refused() {
    let a = star();
    let solver = Solver::new(on_device(MatrixKind::General, None)).unwrap();
    let analysis = solver.analyze(&a).unwrap();
    let asked = analysis.inform().predicted_device_bytes.unwrap();
    // The largest front alone takes more.
    let least = asked - 300_000;
    let options = on_device(MatrixKind::General, Some(least));
    assert_eq!(refused(&a, options), (asked, least));
    // Nor has the host for as many as if they were on the device.
    let kept_on_host = |bytes| {
        let options = on_device(MatrixKind::General, bytes).max_host_bytes(Some(2_500_000));
        let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
        let mut kept = Vec::new();
        loop {
            match analysis.factorize(&a) {
                Ok(factors) if kept.len() < 100 => kept.push(factors),
                Ok(_) => return kept.len(),
                Err(Error::OutOfMemory { phase, .. }) => {
                    assert_eq!(phase, "numeric");
                    let count = kept.len();
                    kept.pop();
                    analysis.factorize(&a).unwrap();
                    return count;
                }
                Err(other) => panic!("{other}"),
            }
        }
    };
    let (elsewhere, there) = (kept_on_host(Some(asked - LACKING)), kept_on_host(None));
    assert!(
        0 < elsewhere && elsewhere < there,
        "{elsewhere} and {there}"
    );
}
