//! Residuals on the device are those of the definition.

use luge_device::{Buffer, Stream};
use luge_kernel::math::Complex;
use luge_solve::backward_error::{Residual, RowNorms, max_abs};
use luge_solve::gpu::{
    DeviceMatrix, DevicePattern, NotFinite, RefineScalar, correct, refine, residuals,
    set_known_solution,
};
use luge_sparse::{CompressedPattern, MatrixView};

use crate::chain::{noise, seeded_streams, streams};

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

/// Likewise with both components.
fn integers(seed: u64, i: usize) -> Complex<f64> {
    Complex::new(integer(seed, i), integer(seed + 10, i))
}

fn check<W: RefineScalar>(
    stream: &Stream,
    (n, nrhs): (usize, usize),
    number: impl Fn(u64, usize) -> W,
) {
    let pattern = pattern(n);
    let values: Vec<W> = (0..pattern.nnz()).map(|p| number(2, p)).collect();
    let x: Vec<W> = (0..n * nrhs).map(|i| number(3, i)).collect();
    // Some zeros: rows that are measured by their norms.
    let b: Vec<W> = (0..n * nrhs)
        .map(|i| {
            if i % 5 == 0 {
                W::default()
            } else {
                number(4, i)
            }
        })
        .collect();
    let on_device = stream.upload(&values).unwrap();
    let (x_there, b_there) = (stream.upload(&x).unwrap(), stream.upload(&b).unwrap());
    for by_rows in [true, false] {
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
            let there = DeviceMatrix {
                pattern: &DevicePattern::upload(stream, &pattern, by_rows, transpose).unwrap(),
                values: &on_device,
            };
            let mut r = stream.alloc(n * nrhs).unwrap();
            let measured = residuals(stream, there, &x_there, &b_there, &mut r, nrhs).unwrap();
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
                check(&stream, (n, nrhs), integer);
                check(&stream, (n, nrhs), integers);
            }
        }
    }
    // The full row and column come in segments from 257 entries on, sums of four right-hand sides at a time.
    let stream = &streams()[streams().len() - 1];
    for (n, nrhs) in [(256, 1), (257, 5), (1025, 1), (1025, 4)] {
        check(stream, (n, nrhs), integer);
        check(stream, (n, nrhs), integers);
    }
}

#[test]
fn entries_may_share_a_value() {
    // All entries of a row have the value of that row; every other value belongs to nobody.
    for stream in seeded_streams() {
        for n in [1, 33, 300] {
            let rows = pattern(n);
            let of_rows: Vec<f64> = (0..2 * n).map(|p| integer(2, p)).collect();
            let lines = (0..n).flat_map(|i| rows.line(i).iter().map(move |_| 2 * i as u32));
            let entries: Vec<u32> = lines.collect();
            let values: Vec<f64> = entries.iter().map(|&p| of_rows[p as usize]).collect();
            let a = MatrixView::by_rows(&rows, &values);
            let x: Vec<f64> = (0..n).map(|i| integer(3, i)).collect();
            let b: Vec<f64> = (0..n).map(|i| integer(4, i)).collect();
            let there = DeviceMatrix {
                pattern: &DevicePattern::upload_mapped(&stream, &rows, &entries, 2 * n).unwrap(),
                values: &stream.upload(&of_rows).unwrap(),
            };
            let mut r = stream.alloc(n).unwrap();
            let (x_there, b_there) = (stream.upload(&x).unwrap(), stream.upload(&b).unwrap());
            let measured = residuals(&stream, there, &x_there, &b_there, &mut r, 1).unwrap();
            let expected = Residual::new(a, &x, &b);
            assert_eq!(stream.download(&r).unwrap(), expected.residual, "n {n}");
            let norm = RowNorms::new(a).infinity_norm();
            assert_eq!(measured[0].norm_a, norm, "n {n}");
        }
    }
}

#[test]
fn what_is_not_a_number_is_measured() {
    let stream = &seeded_streams()[0];
    let n = 70;
    let pattern = pattern(n);
    let values = stream.upload(&vec![1.0; pattern.nnz()]).unwrap();
    let there = DeviceMatrix {
        pattern: &DevicePattern::upload(stream, &pattern, true, false).unwrap(),
        values: &values,
    };
    let mut x = vec![1.0; 2 * n];
    x[n + 5] = f64::NAN;
    let b = stream.upload(&vec![1.0; 2 * n]).unwrap();
    let mut r = stream.alloc(2 * n).unwrap();
    let x = stream.upload(&x).unwrap();
    let measured = residuals(stream, there, &x, &b, &mut r, 2).unwrap();
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

#[test]
fn find_not_finite_names_the_first() {
    for stream in seeded_streams() {
        let mut search = NotFinite::new(&stream).unwrap();
        for n in [0, 1, 31, 32, 33, 1025] {
            let clean: Vec<f64> = (0..n).map(|i| f64::MAX / 8.0 * integer(7, i)).collect();
            let mut first = |x: &[f64]| {
                search.enqueue(&stream, &stream.upload(x).unwrap()).unwrap();
                search.first().unwrap()
            };
            assert_eq!(first(&clean), None);
            for at in [0, n / 2, n.saturating_sub(1)] {
                for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    let mut x = clean.clone();
                    if n > 0 {
                        (x[at], x[n - 1]) = (bad, bad);
                        assert_eq!(first(&x), Some(at));
                    }
                }
            }
            // The next search knows nothing of the last.
            assert_eq!(first(&clean), None);
            let largest = clean.iter().fold(0.0, |max: f64, v| max.max(v.abs()));
            assert_eq!(search.largest().unwrap(), largest);
        }
    }
}

#[test]
fn set_known_solution_has_no_pattern() {
    for stream in seeded_streams() {
        for n in [0, 1, 33, 1025] {
            let mut x: Buffer<f64> = stream.alloc(n).unwrap();
            set_known_solution(&stream, &mut x).unwrap();
            let x = stream.download(&x).unwrap();
            assert!(x.iter().all(|v| (1.0..2.0).contains(&v.abs())));
            let distinct: std::collections::HashSet<u64> =
                x.iter().map(|v| v.abs().to_bits()).collect();
            assert_eq!(distinct.len(), n);
            for stride in [1, 2, 3, 32] {
                let sum: f64 = x.iter().step_by(stride).sum();
                assert!(
                    sum.abs() <= 8.0 + n as f64 / stride as f64 / 4.0,
                    "{n} {stride} {sum}"
                );
            }
        }
    }
}

/// The inverse of diag(2, 5), wrong by a factor of each right-hand side and call. What a right-hand side has beyond its last
/// call is as in that one.
fn inexact<'a>(
    stream: &'a Stream,
    factors: &'a [&'a [f64]],
) -> impl FnMut(&mut luge_device::Buffer<f64>) -> Result<(), luge_solve::SolveError> + 'a {
    let mut call = 0;
    move |r| {
        let mut x = stream.download(r)?;
        for (x, factors) in x.chunks_mut(2).zip(factors) {
            let factor = factors[call.min(factors.len() - 1)];
            (x[0], x[1]) = (x[0] / 2.0 * factor, x[1] / 5.0 * factor);
        }
        call += 1;
        stream.copy_from_host(r, &x)?;
        Ok(())
    }
}

#[test]
fn refinement_on_the_device_is_that_of_the_host() {
    use luge_solve::refine as host;
    let pattern = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
    let values = [2.0, 5.0];
    let a = MatrixView::by_rows(&pattern, &values);
    let norms = RowNorms::new(a);
    let b = [2.0, 10.0];
    // From a million times the solution to −3 times: worse in both errors, and right after one more.
    let overshoot = (1e6 + 3.0) / (1e6 - 1.0);
    // Good, exact, one that makes it worse from the first correction on, slow, worse once, worse after that too.
    let factors: [&[f64]; 6] = [
        &[1.0 - 1e-4],
        &[1.0],
        &[-7.0],
        &[0.6],
        &[1e6, overshoot, 1.0],
        &[1e6, overshoot, -7.0],
    ];
    let nrhs = factors.len();
    for stream in seeded_streams() {
        let on_device = stream.upload(&values).unwrap();
        let matrix = DeviceMatrix {
            pattern: &DevicePattern::upload(&stream, &pattern, true, false).unwrap(),
            values: &on_device,
        };
        for max_steps in [0, 1, 10] {
            let options = host::Options {
                enough: None,
                max_steps,
                target: 1e-15,
                epsilon: f64::EPSILON,
                cancel: luge_sparse::CancelFlag::new(),
            };
            let there = stream.upload(&b.repeat(nrhs)).unwrap();
            let mut x = stream.upload(&b.repeat(nrhs)).unwrap();
            let mut solve = inexact(&stream, &factors);
            solve(&mut x).unwrap();
            let refined = refine(&stream, matrix, &there, &mut x, nrhs, solve, &options).unwrap();
            let x = stream.download(&x).unwrap();
            if max_steps == 10 {
                assert_eq!(refined[4].steps, 2);
                assert_eq!(refined[5].steps, 0);
            }
            for (rhs, factors) in factors.iter().enumerate() {
                let mut call = 0;
                let solve = |r: &[f64]| {
                    let factor = factors[call.min(factors.len() - 1)];
                    call += 1;
                    Ok::<_, luge_solve::SolveError>(vec![r[0] / 2.0 * factor, r[1] / 5.0 * factor])
                };
                let expected = host::refine(a, &norms, &b, solve, &options).unwrap();
                assert_eq!(x[2 * rhs..2 * rhs + 2], expected.x, "{factors:?}");
                assert_eq!(refined[rhs].steps, expected.steps);
                assert_eq!(refined[rhs].measures.componentwise, expected.componentwise);
                assert_eq!(refined[rhs].measures.normwise(), expected.normwise);
            }
        }
    }
}

#[test]
fn refinement_names_what_is_not_finite_and_obeys_the_flag() {
    let pattern = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
    let stream = &seeded_streams()[0];
    let values = stream.upload(&[2.0, 5.0]).unwrap();
    let matrix = DeviceMatrix {
        pattern: &DevicePattern::upload(stream, &pattern, true, false).unwrap(),
        values: &values,
    };
    let b = stream.upload(&[1.0; 4]).unwrap();
    let options = luge_solve::refine::Options {
        enough: None,
        max_steps: 3,
        target: 1e-15,
        epsilon: f64::EPSILON,
        cancel: luge_sparse::CancelFlag::new(),
    };
    let refined = |x: [f64; 4], options: &luge_solve::refine::Options| {
        let mut x = stream.upload(&x).unwrap();
        let solve = inexact(stream, &[&[0.9], &[0.9]]);
        refine(stream, matrix, &b, &mut x, 2, solve, options)
    };
    assert!(matches!(
        refined([1.0, 1.0, 1.0, f64::NAN], &options),
        Err(luge_solve::SolveError::NotFinite { row: 1 })
    ));
    options.cancel.cancel();
    assert!(matches!(
        refined([1.0; 4], &options),
        Err(luge_solve::SolveError::Cancelled(_))
    ));
}
