//! Equilibration.

use crate::common::{pattern, random_pattern, random_values};
use luge_ordering::{OrderingError, equilibrate};
use luge_sparse::{CompressedPattern, Scaling};

fn maxima(a: &CompressedPattern, values: &[f64], scaling: &Scaling) -> (Vec<f64>, Vec<f64>) {
    let mut rows = vec![0.0; a.major_dim()];
    let mut cols = vec![0.0; a.minor_dim()];
    for (i, row_max) in rows.iter_mut().enumerate() {
        for p in a.range(i) {
            let j = a.idx()[p] as usize;
            let size = scaling.apply(i, j, values[p]).abs();
            *row_max = f64::max(*row_max, size);
            cols[j] = f64::max(cols[j], size);
        }
    }
    (rows, cols)
}

fn is_power_of_two(x: f64) -> bool {
    x > 0.0 && x.is_normal() && x.to_bits() & ((1 << 52) - 1) == 0
}

#[test]
fn maxima_come_near_one_by_powers_of_two() {
    for n in [1, 31, 32, 33, 1025] {
        for decades in [0.0, 3.0, 100.0] {
            let a = random_pattern(n, 4, true, n as u64);
            let values = random_values(&a, decades, 7);
            let scaling = equilibrate(&a, &values).unwrap();
            assert!(
                scaling
                    .rows
                    .iter()
                    .chain(&scaling.cols)
                    .all(|&x| is_power_of_two(x))
            );
            let (rows, cols) = maxima(&a, &values, &scaling);
            for max in rows.iter().chain(&cols) {
                assert!(
                    (0.25..=4.0).contains(max),
                    "n {n}, decades {decades}: {max}"
                );
            }
        }
    }
}

#[test]
fn rows_four_hundred_orders_apart_are_balanced() {
    let n = 101;
    let a = random_pattern(n, 5, true, 3);
    let mut values = random_values(&a, 1.0, 4);
    for i in 0..n {
        let size = 10f64.powi(-200 + 4 * i as i32);
        for p in a.range(i) {
            values[p] *= size;
        }
    }
    let (rows, cols) = maxima(&a, &values, &equilibrate(&a, &values).unwrap());
    assert!(
        rows.iter()
            .chain(&cols)
            .all(|max| (0.25..=4.0).contains(max))
    );
}

#[test]
fn a_symmetric_matrix_stays_symmetric() {
    let a = crate::common::grid(9, 7);
    let mut values = random_values(&a, 40.0, 9);
    for i in 0..a.major_dim() {
        for p in a.range(i) {
            let j = a.idx()[p] as usize;
            if j < i {
                let k = a.line(j).binary_search(&(i as u32)).unwrap();
                values[p] = values[a.range(j).start + k];
            }
        }
    }
    let scaling = equilibrate(&a, &values).unwrap();
    assert_eq!(scaling.rows, scaling.cols);
}

#[test]
fn nothing_to_scale_keeps_one() {
    let empty = equilibrate(&pattern(0, &[]), &[]).unwrap();
    assert_eq!(empty, Scaling::identity(0, 0));
    // An empty row, a row of stored zeros and an empty column; two by three.
    let a = pattern(3, &[vec![], vec![0, 2], vec![0]]);
    let scaling = equilibrate(&a, &[0.0, -0.0, 64.0]).unwrap();
    assert_eq!(scaling.rows[..2], [1.0, 1.0]);
    assert_eq!(scaling.cols[1..], [1.0, 1.0]);
    assert!((0.25..=4.0).contains(&scaling.apply(2, 0, 64.0)));
    let tiny = equilibrate(&pattern(1, &[vec![0]]), &[5e-324]).unwrap();
    assert!((0.25..=4.0).contains(&tiny.apply(0, 0, 5e-324)));
}

#[test]
fn values_that_are_not_finite_are_named() {
    let a = pattern(2, &[vec![0, 1], vec![1]]);
    assert_eq!(
        equilibrate(&a, &[1.0, 2.0, f64::NAN]),
        Err(OrderingError::NotFinite { row: 1, column: 1 })
    );
}
