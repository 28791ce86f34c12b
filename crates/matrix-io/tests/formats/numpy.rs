//! Files of NumPy and SciPy: those of the folder `scipy`, which its `make.py` wrote, and others made by definition.

use std::path::PathBuf;

use luge_matrix_io::{
    ArrayProblem, DenseMatrix, Field, FileFormat, ReadErrorKind, WriteOptions, read, read_bytes,
    read_dense, read_dense_from, write_dense,
};
use proptest::prelude::*;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/scipy")
        .join(name)
}

/// An array by its definition: version 1 of the format, its header padded to 64 bytes.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let len = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((len as u16).to_le_bytes());
    bytes.extend(format!("{header:<width$}\n", width = len - 1).bytes());
    bytes.extend(data);
    bytes
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[track_caller]
fn refused(bytes: &[u8]) -> String {
    read_dense_from(bytes).expect_err("refused").to_string()
}

#[test]
fn arrays_of_numpy_are_right_hand_sides() {
    let vector = read_dense(file("vector.npy")).expect("read");
    assert_eq!((vector.nrows(), vector.ncols()), (3, 1));
    assert_eq!(vector.values(), [1.5, -2.0, 3.25]);
    for name in ["rows.npy", "columns.npy"] {
        let b = read_dense(file(name)).expect(name);
        assert_eq!((b.nrows(), b.ncols()), (3, 2), "{name}");
        assert_eq!(b.values(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "{name}");
    }
    let single = read_dense(file("float32.npy")).expect("read");
    assert_eq!(single.values(), [f64::from(0.1f32), f64::from(0.2f32)]);
    let whole = read_dense(file("int32.npy")).expect("read");
    assert_eq!((whole.nrows(), whole.values()), (1, &[1.0, -2.0][..]));

    // As a sparse matrix, without its zeros.
    let b = npy(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }",
        &doubles(&[0.0, 3.0, -0.0, 4.0]),
    );
    let matrix = read_bytes(&b).expect("read");
    assert_eq!(matrix.header.file, FileFormat::Npy);
    assert_eq!(matrix.nnz(), 2);
    let a = matrix.into_real().expect("real");
    assert_eq!((a.get(0, 1), a.get(1, 1)), (Some(&3.0), Some(&4.0)));
    // A dense one keeps the sign of its zeros.
    let dense = read_dense_from(&b[..]).expect("read");
    assert_eq!(dense.values()[1].to_bits(), (-0.0f64).to_bits());
}

#[test]
fn what_is_no_array_of_numbers_is_refused() {
    for (name, message) in [
        (
            "complex.npy",
            "real values are needed, but the field of this matrix is complex",
        ),
        (
            "cube.npy",
            "the array: the shape is [1, 1, 1], but one or two dimensions are due",
        ),
        ("words.npy", "the array: it holds text, but numbers are due"),
        (
            "record.npy",
            "the array: elements of the type \"a record\" are not read, only whole numbers, f4, f8, c8, c16 and bool",
        ),
    ] {
        let error = read_dense(file(name)).expect_err(name).kind;
        assert_eq!(error.to_string(), message);
    }
    let header = |descr: &str, shape: &str| {
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}")
    };
    let two = doubles(&[1.0, 2.0]);
    assert!(read_dense_from(&npy(&header("<f8", "(2,)"), &two)[..]).is_ok());
    for (bytes, message) in [
        (
            npy(&header("<f8", "(3,)"), &two),
            "it ends after 2 of 3 elements",
        ),
        (
            npy(&header("<f8", "(1,)"), &two),
            "it goes on after the 1 elements announced",
        ),
        (
            npy(&header("<f2", "(1,)"), &two),
            "type \"<f2\" are not read",
        ),
        (
            npy(&header("<f16", "(1,)"), &two),
            "type \"<f16\" are not read",
        ),
        (npy(&header("f8", "(1,)"), &two), "type \"f8\" are not read"),
        (
            npy(&header("<f8", "(5000000000,)"), &two),
            "number of rows is 5000000000",
        ),
        (
            npy(&header("<f8", "(4000000000, 4000000000)"), &two),
            "it ends after 2 of 16000000000000000000 elements",
        ),
        (npy(&header("<f8", "2"), &two), "'(' is expected"),
        (
            npy("{'descr': '<f8', 'shape': (2,)}", &two),
            "a key is missing",
        ),
        (
            npy("{'descr': '<f8', 'order': 3}", &two),
            "unknown key order",
        ),
        (npy("{'descr': '<f8", &two), "a string is expected"),
        (b"\x93NUMPY\x07\x00".to_vec(), "version 7.0"),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(),
            "it is too long",
        ),
        (b"\x93NUMPY\x01".to_vec(), "it is not an array of NumPy"),
        (
            npy(&header("<i8", "(1,)"), &i64::MAX.to_le_bytes()),
            "element 0: 9223372036854775807 has no exact",
        ),
    ] {
        let error = refused(&bytes);
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn an_array_without_rows_or_columns_is_empty() {
    for (shape, sizes) in [("(0, 3)", (0, 3)), ("(3, 0)", (3, 0)), ("(0,)", (0, 1))] {
        let bytes = npy(
            &format!("{{'descr': '<f8', 'fortran_order': True, 'shape': {shape}}}"),
            &[],
        );
        let b = read_dense_from(&bytes[..]).expect(shape);
        assert_eq!((b.nrows(), b.ncols()), sizes);
    }
}

#[test]
fn a_dense_matrix_is_written_as_an_array() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("x.npy");
    let column = DenseMatrix::from_vector(vec![1.5, -2.0, 3.25]);
    write_dense(&path, &column, &WriteOptions::default()).expect("written");
    let of_numpy = std::fs::read(file("vector.npy")).expect("there");
    assert_eq!(std::fs::read(&path).expect("there"), of_numpy);
    for (nrows, ncols) in [(2, 3), (0, 2), (1, 0)] {
        let values = (0..nrows * ncols).map(|k| k as f64).collect();
        let matrix = DenseMatrix::new(nrows, ncols, values);
        write_dense(&path, &matrix, &WriteOptions::default()).expect("written");
        assert_eq!(read_dense(&path).expect("read"), matrix);
    }
}

#[test]
fn harwell_boeing_of_scipy_is_read() {
    let a = read(file("harwell.rua")).expect("read");
    assert_eq!(a.data, read(file("harwell.mtx")).expect("read").data);
}

#[cfg(not(feature = "npz"))]
#[test]
fn archives_are_refused_by_the_feature_that_is_off() {
    let error = read(file("csr.npz")).expect_err("off").kind;
    assert!(matches!(error, ReadErrorKind::NpzOff));
}

#[cfg(feature = "npz")]
mod npz {
    use std::io::{Cursor, Write};

    use luge_matrix_io::Matrix;
    use zip::write::SimpleFileOptions;

    use super::*;

    #[test]
    fn every_matrix_of_scipy_is_what_its_matrix_market_file_says() {
        for name in [
            "csr",
            "csr_stored",
            "csr_array",
            "csc",
            "csc_array",
            "coo",
            "coo_array",
            "coords",
            "dia",
            "bsr",
            "float32",
            "complex64",
            "complex128",
            "int8",
            "int64",
            "uint16",
            "bool",
            "indices64",
            "big_endian",
            "empty",
            "duplicates",
            "room",
        ] {
            let matrix = read(file(&format!("{name}.npz"))).unwrap_or_else(|e| panic!("{e}"));
            let golden = read(file(&format!("{name}.mtx"))).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(matrix.data, golden.data, "{name}");
            assert_eq!(matrix.header.field, golden.header.field, "{name}");
            assert_eq!(matrix.stored, golden.stored, "{name}");
            assert_eq!(matrix.header.file, FileFormat::Npz);
            assert!(matrix.nnz() > 0 || name == "empty");
        }
        // A sparse matrix made dense.
        let dense = read_dense(file("duplicates.npz")).expect("read");
        assert_eq!(dense.values(), [0.0, 4.0, 3.0, 0.0]);
        let error = read_dense(file("complex64.npz")).expect_err("complex").kind;
        assert!(matches!(error, ReadErrorKind::NotReal(_)));
    }

    /// The arrays of a small matrix, which a test changes.
    struct Arrays(Vec<(&'static str, Vec<u8>)>);

    impl Arrays {
        fn csr() -> Self {
            let whole = |values: &[i32]| {
                let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                npy(
                    &format!(
                        "{{'descr': '<i4', 'fortran_order': False, 'shape': ({},)}}",
                        values.len()
                    ),
                    &data,
                )
            };
            let data = npy(
                "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}",
                &doubles(&[1.0, 2.0, 3.0]),
            );
            Self(vec![
                (
                    "format",
                    npy(
                        "{'descr': '|S3', 'fortran_order': False, 'shape': ()}",
                        b"csr",
                    ),
                ),
                ("shape", whole(&[2, 3])),
                ("indptr", whole(&[0, 2, 3])),
                ("indices", whole(&[0, 2, 1])),
                ("data", data),
            ])
        }

        fn with(mut self, name: &str, array: Option<Vec<u8>>) -> Self {
            self.0
                .retain(|(other, _)| *other != name || array.is_some());
            for (other, bytes) in &mut self.0 {
                if let Some(array) = array.as_ref().filter(|_| *other == name) {
                    bytes.clone_from(array);
                }
            }
            self
        }

        fn whole(self, name: &str, values: &[i32]) -> Self {
            let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let header = format!(
                "{{'descr': '<i4', 'fortran_order': False, 'shape': ({},)}}",
                values.len()
            );
            self.with(name, Some(npy(&header, &data)))
        }

        fn zip(&self) -> Vec<u8> {
            let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
            for (name, bytes) in &self.0 {
                let options =
                    SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
                zip.start_file(format!("{name}.npy"), options)
                    .expect("a file");
                zip.write_all(bytes).expect("written");
            }
            zip.finish().expect("finished").into_inner()
        }

        fn read(&self) -> Result<Matrix, luge_matrix_io::ReadError> {
            read_bytes(&self.zip())
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_array_and_element() {
        assert_eq!(Arrays::csr().read().expect("read").nnz(), 3);
        let csr = Arrays::csr;
        for (arrays, message) in [
            (
                csr().whole("indices", &[0, 3, 1]),
                "indices, element 1: the column index is 3, but the matrix has 3",
            ),
            (
                csr().whole("indices", &[0, -1, 1]),
                "indices, element 1: the column index is -1, but the matrix has 3",
            ),
            (
                csr().whole("indices", &[0, 2]),
                "indices: it has 2 elements, but 3 are due",
            ),
            (
                csr().whole("indptr", &[0, 2]),
                "indptr: it has 2 elements, but 3 are due",
            ),
            (
                csr().whole("indptr", &[1, 2, 3]),
                "indptr, element 0: the pointer is 1; the first must be 0, and none less than the one before it, here 0",
            ),
            (
                csr().whole("indptr", &[0, 2, 1]),
                "indptr, element 2: the pointer is 1; the first must be 0, and none less than the one before it, here 2",
            ),
            (
                csr().whole("indptr", &[0, 2, 4]),
                "indices: it has 3 elements, but 4 are due",
            ),
            (
                csr().whole("shape", &[2, 3, 1]),
                "shape: the shape is [3], but two sizes are due",
            ),
            (
                csr().whole("shape", &[2, -3]),
                "shape, element 1: an index or a size must be a whole number, and a size not negative",
            ),
            (
                csr().with("indptr", None),
                "indptr: the archive has no array of this name; it is none of scipy.sparse.save_npz",
            ),
            (
                csr().with(
                    "format",
                    Some(npy(
                        "{'descr': '|S3', 'fortran_order': False, 'shape': ()}",
                        b"lil",
                    )),
                ),
                "format: unknown sparse format \"lil\", expected csr, csc, coo, bsr or dia",
            ),
            (
                csr().with(
                    "format",
                    Some(npy(
                        "{'descr': '<f8', 'fortran_order': False, 'shape': ()}",
                        b"12345678",
                    )),
                ),
                "format: it holds numbers, but text is due",
            ),
            (
                csr().with(
                    "data",
                    Some(npy(
                        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 3)}",
                        &[0; 24],
                    )),
                ),
                "data: the shape is [1, 3], but one dimension are due",
            ),
        ] {
            let error = arrays.read().expect_err(message);
            assert_eq!(error.to_string(), message);
        }
        let floats = npy(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}",
            &doubles(&[0.0, 2.0, 1.0]),
        );
        let error = csr()
            .with("indices", Some(floats))
            .read()
            .expect_err("indices that are not whole");
        assert!(matches!(
            error.kind,
            ReadErrorKind::Array {
                element: Some(0),
                what: ArrayProblem::NotAnIndex,
                ..
            }
        ));
        let error = read(file("no_matrix.npz")).expect_err("no matrix").kind;
        assert!(
            error
                .to_string()
                .starts_with("format: the archive has no array"),
            "{error}"
        );
        let error = read_bytes(b"PK\x03\x04 and nothing else")
            .expect_err("no archive")
            .kind;
        assert!(matches!(error, ReadErrorKind::Archive(_)));
    }

    #[test]
    fn sizes_that_no_entries_back_are_refused() {
        let wide = Arrays::csr().with(
            "format",
            Some(npy(
                "{'descr': '|S3', 'fortran_order': False, 'shape': ()}",
                b"coo",
            )),
        );
        let mut wide = wide.whole("shape", &[i32::MAX, 3]);
        for name in ["row", "col"] {
            wide.0.push((name, Vec::new()));
            wide = wide.whole(name, &[0, 1, 2]);
        }
        let error = wide.read().expect_err("rows without entries");
        assert!(
            matches!(error.kind, ReadErrorKind::ImplausibleSize { .. }),
            "{error}"
        );
        wide = wide.whole("shape", &[3, 3]);
        assert_eq!(wide.read().expect("read").nnz(), 3);
        wide = wide.whole("col", &[0, 1]);
        let error = wide.read().expect_err("a column is missing");
        assert_eq!(error.to_string(), "col: it has 2 elements, but 3 are due");
    }

    proptest! {
        #[test]
        fn no_change_of_an_archive_makes_the_reader_panic(
            changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..5),
            name in prop::sample::select(vec!["csr_stored", "bsr", "dia", "coords", "coo"]),
            cut in any::<u16>(),
        ) {
            let mut bytes = std::fs::read(file(&format!("{name}.npz"))).expect("there");
            for (at, byte) in changes {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            let _ = read_bytes(&bytes);
            let _ = read_dense_from(&bytes[..]);
            let _ = read_bytes(&bytes[..usize::from(cut) % bytes.len()]);
        }

        #[test]
        fn no_change_of_an_array_of_an_archive_does(
            changes in prop::collection::vec((0usize..5, any::<u8>(), prop_oneof![
                any::<u8>(), prop::sample::select(b"0123456789(),'<>fiucb \x00\x01\xff".to_vec())
            ]), 1..6),
            format in prop::sample::select(vec!["csr", "csc", "coo", "bsr", "dia"]),
        ) {
            let header = "{'descr': '|S3', 'fortran_order': False, 'shape': ()}";
            let mut arrays = Arrays::csr().with("format", Some(npy(header, format.as_bytes())));
            for name in ["row", "col", "offsets"] {
                arrays.0.push((name, Vec::new()));
                arrays = arrays.whole(name, &[0, 1, 1]);
            }
            if matches!(format, "bsr" | "dia") {
                let shape = if format == "bsr" { "(3, 1, 1)" } else { "(3, 1)" };
                let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}");
                arrays = arrays.with("data", Some(npy(&header, &doubles(&[1.0, 2.0, 3.0]))));
            }
            for (which, at, byte) in changes {
                let array = &mut arrays.0[which].1;
                let at = usize::from(at) % array.len();
                array[at] = byte;
            }
            let _ = arrays.read();
        }
    }
}

#[test]
fn whole_numbers_are_of_the_field_of_whole_numbers() {
    let matrix = read(file("int32.npy")).expect("read");
    assert_eq!(matrix.header.field, Field::Integer);
    assert_eq!(matrix.nnz(), 2);
    assert!(matches!(
        read_dense(file("words.npy")).expect_err("text").kind,
        ReadErrorKind::Array {
            what: ArrayProblem::NotNumbers,
            ..
        }
    ));
}

proptest! {
    #[test]
    fn no_change_of_an_array_makes_the_reader_panic(
        changes in prop::collection::vec((any::<u8>(), prop_oneof![
            any::<u8>(), prop::sample::select(b"0123456789(),'<>fiucb{}TrueFals\x00\x01\xff".to_vec())
        ]), 1..6),
    ) {
        let mut bytes = npy(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }",
            &doubles(&[0.0, 3.0, -0.0, 4.0]),
        );
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        let sparse = read_bytes(&bytes).is_ok();
        prop_assert!(sparse || read_dense_from(&bytes[..]).is_err());
    }
}
