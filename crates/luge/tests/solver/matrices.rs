//! Matrices as callers hold them: any storage, any integers, parts of a pattern, values alone, and arrays that are wrong.

use luge::sprs::CsMat;
use luge::{
    BackendChoice, Compression, DeviceEngine, Error, Factors, MatrixError, MatrixRef, Options,
    PatternRef, Refactorized, Solver,
};
use luge_testkit::generators::applications::{circuit, random_unsymmetric};

fn everywhere() -> [Options; 3] {
    let device = |engine| {
        Options::default()
            .backend(BackendChoice::Simulator { seed: 1 })
            .device_engine(engine)
    };
    [
        Options::default().backend(BackendChoice::Cpu).threads(1),
        device(DeviceEngine::Tree),
        device(DeviceEngine::Columns),
    ]
}

fn solution(factors: &Factors<f64>) -> Vec<f64> {
    let b: Vec<f64> = (0..factors.n()).map(|i| 1.0 + (i % 7) as f64).collect();
    let solution = factors.solve(&b).unwrap();
    assert!(solution.inform.backward_error.unwrap() < 1e-12);
    solution.x
}

fn converted<I: TryFrom<usize>>(numbers: &[usize]) -> Vec<I> {
    let convert = |&i: &usize| I::try_from(i).unwrap_or_else(|_| panic!("{i} fits"));
    numbers.iter().map(convert).collect()
}

/// Whether the matrix with these integers is factorized and renewed with the same bits.
fn integers_make_no_difference<I>(a: &CsMat<f64>, options: &Options)
where
    I: luge::Index + TryFrom<usize>,
{
    let n = a.rows();
    let offsets = converted::<I>(a.indptr().raw_storage());
    let indices = converted::<I>(a.indices());
    let taken = if a.is_csr() {
        MatrixRef::by_rows(n, n, &offsets, &indices, a.data())
    } else {
        MatrixRef::by_columns(n, n, &offsets, &indices, a.data())
    };
    let solver = Solver::new(options.clone()).unwrap();
    let expected = solution(&solver.analyze(a).unwrap().factorize(a).unwrap());
    let analysis = solver.analyze(taken).unwrap();
    let mut factors = analysis.factorize(taken).unwrap();
    assert_eq!(solution(&factors), expected);
    factors.refactorize(a).unwrap();
    assert_eq!(solution(&factors), expected);
    factors.refactorize(taken).unwrap();
    assert_eq!(solution(&factors), expected);
}

#[test]
fn any_integers_and_both_storages_are_taken() {
    let by_rows = random_unsymmetric(60, 4, 8);
    for options in everywhere() {
        for a in [by_rows.clone(), by_rows.to_csc()] {
            integers_make_no_difference::<u32>(&a, &options);
            integers_make_no_difference::<i32>(&a, &options);
            integers_make_no_difference::<u64>(&a, &options);
            integers_make_no_difference::<i64>(&a, &options);
            integers_make_no_difference::<usize>(&a, &options);
        }
    }
}

#[test]
fn views_and_parts_of_a_matrix_are_taken_without_a_copy() {
    let a = random_unsymmetric(30, 4, 8);
    let solver = Solver::new(everywhere()[0].clone()).unwrap();
    let expected = solution(&solver.analyze(&a).unwrap().factorize(&a).unwrap());
    let view = a.view();
    let factors = solver.analyze(view).unwrap().factorize(view).unwrap();
    assert_eq!(solution(&factors), expected);
    // The transpose of a transpose is the same storage.
    let transposed = a.transpose_view();
    let analysis = solver.analyze(transposed).unwrap();
    assert_eq!(analysis.inform().nnz, a.nnz());
}

/// `a` without its entries that are `wanted` not, in the same storage.
fn part_of(a: &CsMat<f64>, wanted: impl Fn(usize, usize) -> bool) -> CsMat<f64> {
    let mut triplets = sprs::TriMat::new(a.shape());
    for (&v, (i, j)) in a.iter() {
        if wanted(i, j) {
            triplets.add_triplet(i, j, v);
        }
    }
    if a.is_csr() {
        triplets.to_csr()
    } else {
        triplets.to_csc()
    }
}

#[test]
fn a_missing_entry_is_zero() {
    let by_rows = circuit(40, 3);
    for options in everywhere() {
        for a in [by_rows.clone(), by_rows.to_csc()] {
            // Every seventh entry beside the diagonal is not there.
            let wanted = |i: usize, j: usize| i == j || !(i + 3 * j).is_multiple_of(7);
            let part = part_of(&a, wanted);
            assert!(part.nnz() < a.nnz());
            let mut zeros = a.clone();
            let place = |k: usize| {
                let (outer, inner) = (
                    a.indptr().raw_storage().partition_point(|&p| p <= k) - 1,
                    a.indices()[k],
                );
                if a.is_csr() {
                    (outer, inner)
                } else {
                    (inner, outer)
                }
            };
            for (k, value) in zeros.data_mut().iter_mut().enumerate() {
                let (i, j) = place(k);
                if !wanted(i, j) {
                    *value = 0.0;
                }
            }
            let analysis = Solver::new(options.clone()).unwrap().analyze(&a).unwrap();
            let expected = solution(&analysis.factorize(&zeros).unwrap());
            let mut factors = analysis.factorize(&part).unwrap();
            assert_eq!(solution(&factors), expected);
            factors.refactorize(&a).unwrap();
            let other_way = if part.is_csr() {
                part.to_csc()
            } else {
                part.to_csr()
            };
            for part in [&part, &other_way] {
                factors.refactorize(&a).unwrap();
                assert_ne!(solution(&factors), expected);
                assert!(matches!(
                    factors.refactorize(part),
                    Ok(Refactorized::Reused { .. })
                ));
                assert_eq!(solution(&factors), expected);
            }
        }
    }
}

#[test]
fn an_extra_entry_is_named_by_row_and_column() {
    let a: CsMat<f64> = CsMat::eye(4);
    let mut more = sprs::TriMat::new((4, 4));
    (0..4).for_each(|i| more.add_triplet(i, i, 2.0));
    more.add_triplet(1, 3, 1.0);
    for options in everywhere() {
        let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
        let mut factors = analysis.factorize(&a).unwrap();
        for more in [more.to_csr::<usize>(), more.to_csc()] {
            for refused in [
                analysis.factorize(&more).unwrap_err(),
                factors.refactorize(&more).unwrap_err(),
            ] {
                assert!(matches!(refused, Error::ExtraEntry { row: 1, column: 3 }));
                assert_eq!(
                    refused.to_string(),
                    "the matrix has an entry in row 1, column 3, and the matrix that was analyzed has none there"
                );
            }
        }
        // It is still the old matrix.
        assert_eq!(factors.solve(&[1.0; 4]).unwrap().x, [1.0; 4]);
        // As many entries as there were, one of them elsewhere.
        let moved = part_of(&more.to_csr(), |i, j| (i, j) != (2, 2));
        assert!(matches!(
            factors.refactorize(&moved),
            Err(Error::ExtraEntry { row: 1, column: 3 })
        ));
    }
}

#[test]
fn values_alone_are_in_stored_order() {
    let by_rows = random_unsymmetric(40, 4, 8);
    let doubled = |a: &CsMat<f64>| a.map(|v| 2.0 * v);
    for options in everywhere() {
        for a in [by_rows.clone(), by_rows.to_csc()] {
            let analysis = Solver::new(options.clone()).unwrap().analyze(&a).unwrap();
            let mut expected = analysis.factorize(&a).unwrap();
            let mut factors = analysis.factorize_values(a.data()).unwrap();
            assert_eq!(solution(&factors), solution(&expected));
            let other = doubled(&a);
            assert_eq!(
                factors.refactorize_values(other.data()).unwrap(),
                expected.refactorize(&other).unwrap()
            );
            assert_eq!(solution(&factors), solution(&expected));
            let mut bad = a.data().to_vec();
            bad[5] = f64::NAN;
            assert!(matches!(
                factors.refactorize_values(&bad),
                Err(Error::NotFinite { .. })
            ));
            assert!(matches!(
                analysis.factorize_values(&bad),
                Err(Error::NotFinite { .. })
            ));
            assert_eq!(solution(&factors), solution(&expected));
        }
    }
}

#[test]
#[should_panic(expected = "there are 3 values; the matrix has 4 entries")]
fn another_number_of_values_is_a_broken_call() {
    let solver = Solver::new(everywhere()[0].clone()).unwrap();
    let analysis = solver.analyze(&CsMat::<f64>::eye(4)).unwrap();
    let _ = analysis.factorize_values(&[1.0; 3]);
}

#[test]
fn a_pattern_serves_for_values_that_come_later() {
    for options in everywhere() {
        let solver = Solver::new(options).unwrap();
        for a in [circuit(40, 1), circuit(40, 1).to_csc()] {
            let analysis = solver.analyze_pattern(&a).unwrap();
            assert_eq!(analysis.inform().nnz, a.nnz());
            let mut factors = analysis.factorize(&a).unwrap();
            solution(&factors);
            factors.refactorize(&a.map(|v| 3.0 * v)).unwrap();
            solution(&factors);
        }
    }
}

#[test]
fn a_pattern_is_scaled_for_the_values_that_come() {
    let solver = Solver::new(everywhere()[0].clone()).unwrap();
    // So many entries that each column has some beside those rows, and each row some beside those columns.
    let a = random_unsymmetric(60, 10, 8);
    for mut a in [a.clone(), a.to_csc()] {
        let analysis = solver.analyze_pattern(&a).unwrap();
        // Some rows, or columns, whose entries would lose digits in the products of an elimination.
        let offsets = a.indptr().raw_storage().to_vec();
        for outer in (0..a.rows()).step_by(3) {
            let range = offsets[outer]..offsets[outer + 1];
            a.data_mut()[range].iter_mut().for_each(|v| *v *= 1e-300);
        }
        let factors = analysis.factorize(&a).unwrap();
        let searched = factors.inform().seconds.pivot_search;
        assert_eq!(searched, None, "the old order serves");
        let x = factors.solve(&vec![1.0; factors.n()]).unwrap();
        assert!(x.inform.backward_error.unwrap() < 1e-12);
    }
}

#[test]
fn a_pattern_is_refused_as_a_matrix_is() {
    let solver = Solver::new(everywhere()[0].clone()).unwrap();
    let wide = PatternRef::by_rows(1, 2, &[0, 1], &[1]);
    assert!(matches!(
        solver.analyze_pattern::<f64, i32>(wide),
        Err(Error::NotSquare { rows: 1, cols: 2 })
    ));
    let empty_row = PatternRef::by_rows(2, 2, &[0, 1, 1], &[1]);
    assert!(matches!(
        solver.analyze_pattern::<f64, i32>(empty_row),
        Err(Error::StructurallySingular { rank: 1, .. })
    ));
    // Values that are zero are found when they are there.
    let full = PatternRef::by_rows(2, 2, &[0, 2, 4], &[0, 1, 0, 1]);
    let analysis = solver.analyze_pattern(full).unwrap();
    assert!(matches!(
        analysis.factorize_values(&[1.0, 2.0, 2.0, 4.0]),
        Err(Error::ZeroPivot { .. } | Error::SingularToRounding { .. })
    ));
    assert!(matches!(
        analysis.factorize_values(&[0.0, 1.0, 0.0, 2.0]),
        Err(Error::ZeroPivot { .. } | Error::ZerosOnly { .. })
    ));
}

#[test]
fn arrays_that_are_no_matrix_are_refused_with_the_place() {
    let solver = Solver::new(everywhere()[0].clone()).unwrap();
    let refused = |offsets: &[i64], indices: &[i64], values: &[f64]| {
        let rows = MatrixRef::by_rows(2, 2, offsets, indices, values);
        match solver.analyze(rows) {
            Err(Error::InvalidMatrix(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let compression = Compression::Rows;
    assert_eq!(
        refused(&[0, 1, 3], &[0, 1, 0], &[1.0; 3]),
        MatrixError::NotSorted {
            compression,
            at: 1,
            index: 0
        }
    );
    assert_eq!(
        refused(&[0, 2, 3], &[1, 1, 0], &[1.0; 3]),
        MatrixError::NotSorted {
            compression,
            at: 0,
            index: 1
        }
    );
    for beyond in [2, -1, 1 << 32, i64::MIN] {
        let error = refused(&[0, 1, 3], &[0, 0, beyond], &[1.0; 3]);
        let expected = MatrixError::OutOfRange {
            compression,
            at: 1,
            size: 2,
        };
        assert_eq!(error, expected, "{beyond}");
    }
    assert_eq!(
        refused(&[0, 2, 1], &[0], &[1.0]),
        MatrixError::DecreasingOffset { compression, at: 1 }
    );
    assert_eq!(
        refused(&[0, 1], &[0], &[1.0]),
        MatrixError::OffsetCount {
            compression,
            found: 2,
            count: 2
        }
    );
    assert_eq!(
        refused(&[0, 1, 2], &[0, 1], &[1.0]),
        MatrixError::ValueCount {
            entries: 2,
            values: 1
        }
    );
    // A factorization and a refactorization look, too.
    let a: CsMat<f64> = CsMat::eye(2);
    let analysis = solver.analyze(&a).unwrap();
    let unsorted = MatrixRef::by_rows(2, 2, &[0u32, 1, 3], &[0, 1, 0], &[1.0; 3]);
    assert!(matches!(
        analysis.factorize(unsorted),
        Err(Error::InvalidMatrix(MatrixError::NotSorted { at: 1, .. }))
    ));
    let mut factors = analysis.factorize(&a).unwrap();
    let short = MatrixRef::by_rows(2, 2, &[0u32, 1, 2], &[0, 1], &[1.0]);
    assert!(matches!(
        factors.refactorize(short),
        Err(Error::InvalidMatrix(MatrixError::ValueCount { .. }))
    ));
}
