//! Arbitrary bytes as a matrix file, whose format is told from its content: no reader panics or reserves memory that it does not need,
//! all readers agree on whether the text is well formed, and what was read survives being written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use luge_matrix_io::{
    MatrixData, ReadErrorKind, ReadOptions, Value, WriteOptions, read_bytes, read_dense_from,
    read_from_with, write_dense_to, write_rutherford_boeing_to, write_to,
};

fn written<V: Value>(matrix: &sprs::CsMat<V>) -> Vec<u8> {
    let mut text = Vec::new();
    write_to(&mut text, &matrix.view(), &WriteOptions::default()).expect("memory takes everything");
    text
}

fn written_by_columns<V: Value>(matrix: &sprs::CsMat<V>) -> Vec<u8> {
    let mut text = Vec::new();
    let options = WriteOptions::default();
    write_rutherford_boeing_to(&mut text, &matrix.view(), &options)
        .expect("memory takes everything");
    text
}

/// All but NaN are equal to themselves; the text of a matrix is, with NaN too.
fn survives<V: Value>(matrix: &sprs::CsMat<V>) {
    let text = written(matrix);
    for file in [&text, &written_by_columns(matrix)] {
        let again = match read_bytes(file).expect("just written").data {
            MatrixData::Real(matrix) => written(&matrix),
            MatrixData::Complex(matrix) => written(&matrix),
            MatrixData::Pattern(_) => panic!("values were written"),
        };
        assert_eq!(text, again);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let full = read_bytes(bytes);
    let lower = ReadOptions {
        expand_symmetry: false,
    };
    assert_eq!(
        full.is_ok(),
        read_from_with(bytes, &lower).is_ok(),
        "both triangles or one, the text is the same"
    );
    // A dense matrix is refused for its field or its size, if the sparse one is accepted.
    match read_dense_from(bytes) {
        Ok(dense) => {
            let mut text = Vec::new();
            write_dense_to(&mut text, &dense, &WriteOptions::default())
                .expect("memory takes everything");
            let again = read_dense_from(text.as_slice()).expect("just written");
            assert_eq!(
                (dense.nrows(), dense.ncols()),
                (again.nrows(), again.ncols())
            );
            let bits = |v: &f64| if v.is_nan() { None } else { Some(v.to_bits()) };
            assert!(
                dense
                    .values()
                    .iter()
                    .map(bits)
                    .eq(again.values().iter().map(bits))
            );
        }
        Err(error) => assert!(
            full.is_err()
                || matches!(
                    error.kind,
                    ReadErrorKind::NotReal(_)
                        | ReadErrorKind::ImplausibleSize { .. }
                        | ReadErrorKind::NoRightHandSides { .. }
                ),
            "{error}"
        ),
    }
    if let Ok(matrix) = full {
        match &matrix.data {
            MatrixData::Real(a) => survives(a),
            MatrixData::Complex(a) => survives(a),
            MatrixData::Pattern(_) => {}
        }
    }
});
