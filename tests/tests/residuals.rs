//! Residuals on the device are those of the definition.

use luge_device::Stream;
use luge_solve::backward_error::{Residual, RowNorms, max_abs};
use luge_solve::gpu::{DevicePattern, correct, residuals};
use luge_sparse::{CompressedPattern, MatrixView};

mod chain;
use chain::{noise, seeded_streams, streams};

/// Small integers: sums are exact in any order.
fn integer(seed: u64, i: usize) -> f64 {
    (noise(seed, i) % 17) as f64 - 8.0
}

/// Few entries a row, some rows empty, and one row and one column that are full.
fn pattern(n: usize) -> CompressedPattern {
    let (mut ptr, mut idx) = (vec![0], Vec::new());
    for i in 0..n {
        for j in 0..n {
            let is_full = i == n / 2 || (j == n / 3 && i % 7 != 3);
            if is_full || (i % 7 != 3 && noise(1, i * n + j) % n as u64 * 10 < 20) {
                idx.push(j as u32);
            }
        }
        ptr.push(idx.len() as u64);
    }
    CompressedPattern::new(n, ptr, idx).unwrap()
}

fn check(stream: &Stream, n: usize, nrhs: usize) {
    let pattern = pattern(n);
    let values: Vec<f64> = (0..pattern.nnz()).map(|p| integer(2, p)).collect();
    let x: Vec<f64> = (0..n * nrhs).map(|i| integer(3, i)).collect();
    // Some zeros: rows that are measured by their norms.
    let b: Vec<f64> = (0..n * nrhs)
        .map(|i| if i % 5 == 0 { 0.0 } else { integer(4, i) })
        .collect();
    let on_device = stream.upload(&values).unwrap();
    let (x_there, b_there) = (stream.upload(&x).unwrap(), stream.upload(&b).unwrap());
    for by_rows in [true, false] {
        let there = DevicePattern::upload(stream, &pattern, by_rows).unwrap();
        let stored = if by_rows {
            MatrixView::by_rows(&pattern, &values)
        } else {
            MatrixView::by_columns(&pattern, &values)
        };
        for transpose in [false, true] {
            let a = if transpose {
                stored.transpose()
            } else {
                stored
            };
            let norms = RowNorms::new(a);
            let mut r = stream.alloc(n * nrhs).unwrap();
            let measured = residuals(
                stream, &there, &on_device, &x_there, &b_there, &mut r, nrhs, transpose,
            )
            .unwrap();
            let r = stream.download(&r).unwrap();
            assert_eq!(measured.len(), nrhs);
            for (rhs, measured) in measured.iter().enumerate() {
                let range = rhs * n..(rhs + 1) * n;
                let (x, b) = (&x[range.clone()], &b[range.clone()]);
                let expected = Residual::new(a, x, b);
                assert_eq!(r[range], expected.residual, "n {n}");
                assert_eq!(measured.norm_x, max_abs(x));
                assert_eq!(measured.norm_b, max_abs(b));
                assert_eq!(measured.norm_a, norms.infinity_norm());
                let normwise = expected.normwise(norms.infinity_norm(), x, b);
                assert_eq!(measured.normwise(), normwise, "n {n}");
                let componentwise = expected.componentwise(&norms, x, b);
                assert_eq!(measured.componentwise, componentwise, "n {n}");
            }
        }
    }
}

#[test]
fn residuals_match_the_definition() {
    for stream in seeded_streams() {
        for n in [0, 1, 31, 32, 33, 100] {
            for nrhs in [1, 2, 5] {
                check(&stream, n, nrhs);
            }
        }
    }
    check(&streams()[streams().len() - 1], 1025, 1);
}

#[test]
fn what_is_not_a_number_is_measured() {
    let stream = &seeded_streams()[0];
    let n = 70;
    let pattern = pattern(n);
    let there = DevicePattern::upload(stream, &pattern, true).unwrap();
    let values = stream.upload(&vec![1.0; pattern.nnz()]).unwrap();
    let mut x = vec![1.0; 2 * n];
    x[n + 5] = f64::NAN;
    let b = stream.upload(&vec![1.0; 2 * n]).unwrap();
    let mut r = stream.alloc(2 * n).unwrap();
    let x = stream.upload(&x).unwrap();
    let measured = residuals(stream, &there, &values, &x, &b, &mut r, 2, false).unwrap();
    assert!(measured[0].normwise().is_finite());
    assert!(measured[1].norm_x.is_nan() && measured[1].normwise().is_nan());
    assert!(measured[1].componentwise[1].is_nan());
}

#[test]
fn corrections_are_added() {
    for stream in seeded_streams() {
        for n in [0, 1, 31, 32, 33, 1025] {
            let x: Vec<f64> = (0..n).map(|i| integer(5, i)).collect();
            let correction: Vec<f64> = (0..n).map(|i| integer(6, i)).collect();
            let mut there = stream.upload(&x).unwrap();
            correct(&stream, &stream.upload(&correction).unwrap(), &mut there).unwrap();
            let expected: Vec<f64> = x.iter().zip(&correction).map(|(x, d)| x + d).collect();
            assert_eq!(stream.download(&there).unwrap(), expected);
        }
    }
}
