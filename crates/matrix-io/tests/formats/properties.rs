//! Round trips, and bytes of all kinds.

use luge_matrix_io::{
    DenseMatrix, Matrix, MatrixData, ReadOptions, Symmetry, WriteOptions, read_bytes,
    read_dense_from, read_from_with, write_dense_to, write_pattern, write_to,
};
use num_complex::Complex64;
use proptest::collection::vec;
use proptest::prelude::*;
use sprs::CsMat;

/// Doubles of every size: all bit patterns but NaN, whose payload a text does not keep.
fn double() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        (-1000i32..1000).prop_map(f64::from),
        (-100_000i64..100_000).prop_map(|v| v as f64 / 1000.0),
        Just(-0.0),
    ]
    .prop_filter("not NaN", |v| !v.is_nan())
}

/// Sizes and distinct positions with values, sorted by rows.
fn entries<V: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = V> + Clone,
) -> impl Strategy<Value = (usize, usize, Vec<(usize, usize, V)>)> {
    (1usize..40, 1usize..40).prop_flat_map(move |(m, n)| {
        vec((0..m, 0..n, value.clone()), 0..120).prop_map(move |mut list| {
            list.sort_by_key(|&(i, j, _)| (i, j));
            list.dedup_by_key(|&mut (i, j, _)| (i, j));
            (m, n, list)
        })
    })
}

fn csr<V: Clone>(m: usize, n: usize, list: &[(usize, usize, V)]) -> CsMat<V> {
    let mut ptr = vec![0; m + 1];
    for (i, _, _) in list {
        ptr[i + 1] += 1;
    }
    for i in 0..m {
        ptr[i + 1] += ptr[i];
    }
    let (idx, values) = list.iter().map(|(_, j, v)| (*j, v.clone())).unzip();
    CsMat::new((m, n), ptr, idx, values)
}

fn bits(a: &CsMat<f64>) -> Vec<(usize, usize, u64)> {
    a.iter().map(|(v, (i, j))| (i, j, v.to_bits())).collect()
}

fn read_real(text: &[u8]) -> CsMat<f64> {
    read_bytes(text)
        .expect("just written")
        .into_real()
        .expect("real")
}

/// Each reader, on bytes that may be anything.
fn read_all(bytes: &[u8]) -> Option<Matrix> {
    let _ = read_dense_from(bytes);
    let lower = ReadOptions {
        expand_symmetry: false,
    };
    let lower = read_from_with(bytes, &lower);
    let full = read_bytes(bytes);
    assert_eq!(lower.is_ok(), full.is_ok());
    full.ok()
}

const SAMPLES: [&str; 6] = [
    "%%MatrixMarket matrix coordinate real general\n% c\n3 3 4\n1 1 1.5\n2 1 -2e-3\n3 3 1D2\n1 3 nan\n",
    "%%MatrixMarket matrix coordinate complex hermitian\n3 3 3\n1 1 1 0\n2 1 1 2\n3 2 -1.0 +.5\n",
    "%%MatrixMarket matrix coordinate pattern symmetric\r\n3 3 2\r\n2 1\r\n3 3\r\n",
    "%%MatrixMarket matrix coordinate integer skew-symmetric\n3 3 2\n2 1 5\n3 1 -12\n",
    "%%MatrixMarket matrix array real general\n2 2\n1\n2\n\n3.25\n4\n",
    "%%MatrixMarket matrix array complex skew-symmetric\n3 3\n1 2\n3 4\n5 6\n",
];

proptest! {
    #[test]
    fn real_matrices_survive((m, n, list) in entries(double())) {
        let a = csr(m, n, &list);
        for a in [a.clone(), a.to_csc()] {
            let mut text = Vec::new();
            write_to(&mut text, &a.view(), &WriteOptions::default()).expect("written");
            let back = read_real(&text);
            prop_assert_eq!(back.shape(), (m, n));
            prop_assert_eq!(bits(&back), bits(&a.to_csr()));
        }
    }

    #[test]
    fn complex_matrices_survive((m, n, list) in entries((double(), double()))) {
        let list: Vec<_> = list
            .into_iter()
            .map(|(i, j, (re, im))| (i, j, Complex64::new(re, im)))
            .collect();
        let a = csr(m, n, &list);
        let mut text = Vec::new();
        write_to(&mut text, &a.view(), &WriteOptions::default()).expect("written");
        let back = read_bytes(&text).expect("just written");
        prop_assert_eq!(back.data, MatrixData::Complex(a));
    }

    #[test]
    fn symmetric_matrices_survive((m, _, list) in entries(double())) {
        for symmetry in [Symmetry::Symmetric, Symmetry::SkewSymmetric] {
            // Keep the lower triangle and mirror it.
            let mut full = Vec::new();
            for &(i, j, v) in list.iter().filter(|&&(i, j, _)| j < m && i >= j) {
                match symmetry {
                    Symmetry::Symmetric if i == j => full.push((i, j, v)),
                    Symmetry::Symmetric => full.extend([(i, j, v), (j, i, v)]),
                    _ if i != j => full.extend([(i, j, v), (j, i, -v)]),
                    _ => {}
                }
            }
            full.sort_by_key(|&(i, j, _)| (i, j));
            let a = csr(m, m, &full);
            let mut text = Vec::new();
            let options = WriteOptions { symmetry, ..WriteOptions::default() };
            write_to(&mut text, &a.view(), &options).expect("symmetric");
            prop_assert_eq!(bits(&read_real(&text)), bits(&a));
        }
    }

    #[test]
    fn patterns_survive((m, n, list) in entries(Just(()))) {
        let a = csr(m, n, &list);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.mtx");
        let mut text = format!("%%MatrixMarket matrix coordinate pattern general\n{m} {n} {}\n", a.nnz());
        for (i, j, ()) in list.iter().rev() {
            text += &format!("{} {}\n", i + 1, j + 1);
        }
        let pattern = read_bytes(text.as_bytes()).expect("well formed").pattern();
        let ptr = a.indptr();
        let ptr = ptr.raw_storage().iter().map(|&p| p as u64);
        prop_assert!(pattern.ptr().iter().copied().eq(ptr));
        let columns = a.indices().iter().map(|&j| j as u32);
        prop_assert!(pattern.idx().iter().copied().eq(columns));
        write_pattern(&path, &pattern, &WriteOptions::default()).expect("written");
        prop_assert_eq!(luge_matrix_io::read(&path).expect("read").pattern(), pattern);
    }

    #[test]
    fn dense_matrices_survive(m in 0usize..20, n in 0usize..5, seed in vec(double(), 100)) {
        let a = DenseMatrix::new(m, n, seed[..m * n].to_vec());
        let mut text = Vec::new();
        write_dense_to(&mut text, &a, &WriteOptions::default()).expect("written");
        let back = read_dense_from(text.as_slice()).expect("just written");
        prop_assert_eq!((back.nrows(), back.ncols()), (m, n));
        let bits = |a: &DenseMatrix| a.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&back), bits(&a));
    }

    #[test]
    fn any_order_of_entries_gives_the_sum_by_definition(
        m in 1usize..12,
        n in 1usize..12,
        // Small whole numbers: their sums are exact in any order.
        list in vec((0usize..12, 0usize..12, -50i32..50), 0..200),
    ) {
        let mut text = String::new();
        let mut expected = vec![None; m * n];
        let mut count = 0;
        for &(i, j, v) in list.iter().filter(|&&(i, j, _)| i < m && j < n) {
            text += &format!("{} {} {v}\n", i + 1, j + 1);
            *expected[i * n + j].get_or_insert(0.0) += f64::from(v);
            count += 1;
        }
        let text = format!("%%MatrixMarket matrix coordinate real general\n{m} {n} {count}\n{text}");
        let a = read_real(text.as_bytes());
        for i in 0..m {
            for j in 0..n {
                prop_assert_eq!(a.get(i, j).copied(), expected[i * n + j]);
            }
        }
    }

    #[test]
    fn mutations_never_panic(
        sample in 0..SAMPLES.len(),
        edits in vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 0..8),
    ) {
        let mut bytes = SAMPLES[sample].as_bytes().to_vec();
        if edits.is_empty() {
            prop_assert!(read_all(&bytes).is_some());
        }
        for (at, byte, edit) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            // Mostly digits and blanks, which get further than other bytes.
            let byte = match byte {
                0..100 => b"0123456789 \n\r\t-+.eEdD%"[byte as usize % 22],
                _ => byte,
            };
            match edit {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => { bytes.remove(at); }
            }
        }
        read_all(&bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
        let mut gzip = vec![0x1f, 0x8b, 8];
        gzip.extend(bytes);
        read_all(&gzip);
    }
}
