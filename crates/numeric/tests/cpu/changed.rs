//! Columns that follow from entries that changed.

use luge_numeric::cpu::columns::{ColumnLu, Options};
use luge_sparse::CompressedPattern;

/// A tridiagonal matrix with this diagonal of order n, by columns.
fn tridiagonal(n: usize) -> (CompressedPattern, Vec<f64>) {
    let (mut ptr, mut idx, mut values) = (vec![0], Vec::new(), Vec::new());
    for j in 0..n {
        for i in j.saturating_sub(1)..(j + 2).min(n) {
            idx.push(i as u32);
            values.push(if i == j { 4.0 } else { 1.0 });
        }
        ptr.push(idx.len() as u64);
    }
    (CompressedPattern::new(n, ptr, idx).unwrap(), values)
}

#[test]
fn columns_from_the_first_change_on_are_computed() {
    let (cols, mut values) = tridiagonal(100);
    let options = Options::default();
    let (mut told, _) = ColumnLu::factorize(&cols, &values, &options).unwrap();
    let mut whole = told.clone();
    for column in [50usize, 50, 70, 99, 0] {
        let range = cols.range(column);
        let changed: Vec<u32> = (range.start as u32..range.end as u32).collect();
        changed.iter().for_each(|&p| values[p as usize] *= 1.25);
        let expected = whole.refactorize(&cols, &values, &options).unwrap();
        let quality = told
            .refactorize_changed(&cols, &values, &changed, &options)
            .unwrap();
        assert_eq!(quality, expected);
        assert!(told.pivots() == whole.pivots());
        for j in 0..100 {
            assert!(told.lower(j) == whole.lower(j) && told.upper(j) == whole.upper(j));
        }
    }
}
