//! Nested dissection: low trees, the same order on any number of threads.

use crate::common::{fill_entries, grid, pattern, random_pattern};
use luge_ordering::{
    Matching, Method, MethodUsed, Ordering, OrderingOptions, OrderingSeconds, SymmetricOptions,
    order, order_symmetric,
};
use luge_sparse::{CompressedPattern, etree};
use luge_testkit::strategies::pattern_from;

/// Calls `work` in a pool of so many threads.
fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.unwrap().install(work)
}

fn ordered(a: &CompressedPattern, method: Method) -> Ordering {
    let options = OrderingOptions::default()
        .method(method)
        .matching(Matching::Never);
    order(a, None, &options).unwrap()
}

/// The columns on the longest path of the elimination tree of a symmetric pattern.
fn height(a: &CompressedPattern, ordering: &Ordering) -> usize {
    let order = ordering.col_perm.as_slice();
    let new_index = ordering.col_perm.inverse();
    let joined = |k: u32| {
        let line = a.line(order[k as usize] as usize);
        line.iter().map(|&w| new_index[w as usize])
    };
    let parent = etree::elimination_tree(order.len(), joined);
    let mut height = vec![1; parent.len()];
    for (k, &up) in parent.iter().enumerate() {
        if let Some(&below) = height.get(k).filter(|_| (up as usize) < parent.len()) {
            height[up as usize] = height[up as usize].max(below + 1);
        }
    }
    height.into_iter().max().unwrap_or(0)
}

/// A ring of `cells` cliques of so many vertices, each joined to the next by all of its vertices.
fn ring(cells: usize, size: usize) -> CompressedPattern {
    let n = cells * size;
    let rows: Vec<Vec<u32>> = (0..n)
        .map(|v| {
            let cell = v / size;
            [cell + cells - 1, cell, cell + 1]
                .iter()
                .flat_map(|&cell| (0..size).map(move |k| (cell % cells * size + k) as u32))
                .collect()
        })
        .collect();
    pattern(n, &rows)
}

#[test]
fn a_ring_gets_a_tree_of_logarithmic_height() {
    for cells in [1000, 100_000] {
        let a = ring(cells, 1);
        let found = ordered(&a, Method::NestedDissection);
        assert_eq!(found.method_used, MethodUsed::NestedDissection);
        let bound = 3.0 * (cells as f64).log2();
        let height = height(&a, &found);
        assert!(height as f64 <= bound, "{height} of {cells} cells");
    }
}

#[test]
fn a_ring_of_dense_cells_is_divided() {
    // Degrees are too high for the reduction.
    let (cells, size) = (2000, 7);
    let a = ring(cells, size);
    let height = height(&a, &ordered(&a, Method::NestedDissection));
    let bound = 3.0 * size as f64 * (cells as f64).log2();
    assert!(height as f64 <= bound, "{height}");
}

#[cfg(feature = "metis")]
#[test]
fn trees_and_fill_of_grids_are_as_with_metis() {
    for (nx, ny) in [(60, 60), (150, 100), (40, 400)] {
        let a = grid(nx, ny);
        let metis = ordered(&a, Method::Metis);
        let found = ordered(&a, Method::NestedDissection);
        let (by_metis, ours) = (height(&a, &metis), height(&a, &found));
        assert!(
            ours as f64 <= 1.3 * by_metis as f64,
            "{ours} and {by_metis}"
        );
        assert!(found.predicted.lnz as f64 <= 1.15 * metis.predicted.lnz as f64);
        // Diagonal pivots of a symmetric pattern: the prediction is exact.
        let (rows, cols) = (found.row_perm.as_slice(), found.col_perm.as_slice());
        let entries = fill_entries(&a, rows, cols);
        assert_eq!(found.predicted.factor_nnz(nx * ny), entries);
    }
}

#[test]
fn the_order_is_the_same_on_any_number_of_threads() {
    let patterns = [
        grid(200, 150),
        ring(3000, 7),
        random_pattern(4000, 2, true, 7),
    ];
    for a in &patterns {
        let on = |threads: usize| {
            let options = OrderingOptions::default()
                .method(Method::NestedDissection)
                .threads(threads);
            on_threads(threads, || order(a, None, &options).unwrap().col_perm)
        };
        let first = on(1);
        assert!(first == on(2) && first == on(4));
    }
}

/// Blocks of all small sizes, pairs with and without a diagonal among them, beside a large one.
#[test]
fn small_blocks_are_ordered_alike_on_any_number_of_threads() {
    let large = grid(30, 20);
    let mut edges: Vec<(u32, u32)> = Vec::new();
    for (i, line) in large.lines().enumerate() {
        edges.extend(line.iter().map(|&j| (i as u32, j)));
    }
    let mut n = large.major_dim() as u32;
    for block in 0..500u32 {
        let size = 1 + block % 7;
        let has_diagonal = block % 3 != 0 || size != 2;
        for i in (0..size).filter(|_| has_diagonal) {
            edges.push((n + i, n + i));
        }
        // A path whose ends are not the first and last numbers.
        let vertex = |k: u32| n + (k * 3 + block) % size;
        let steps = (1..size).filter(|_| size % 3 != 0);
        let star = (1..size).filter(|_| size % 3 == 0).map(|k| (n, n + k));
        for (v, w) in steps.map(|k| (vertex(k - 1), vertex(k))).chain(star) {
            edges.extend([(v, w), (w, v)]);
        }
        n += size;
    }
    let a = pattern_from(n as usize, edges);
    for method in [Method::Auto, Method::Amd] {
        let on = |threads: usize| {
            let options = OrderingOptions::default()
                .method(method.clone())
                .matching(Matching::Never)
                .threads(threads);
            let found = on_threads(threads, || order(&a, None, &options).unwrap());
            assert!(found.block_ptr.len() > 500);
            (found.col_perm, found.predicted, found.blocks)
        };
        let first = on(1);
        assert!(first == on(2) && first == on(4));
        let by_symmetry = |threads: usize| {
            let options = SymmetricOptions::default()
                .method(method.clone())
                .matching(Matching::Never)
                .threads(threads);
            let found = on_threads(threads, || order_symmetric(&a, None, &options).unwrap());
            (found.perm, found.predicted)
        };
        let first = by_symmetry(1);
        assert!(first == by_symmetry(2) && first == by_symmetry(4));
    }
}

#[test]
fn rows_that_move_by_value_are_ordered_alike_on_any_number_of_threads() {
    let a = grid(60, 50);
    let n = a.major_dim();
    // The diagonal as a fraction of the rest: good; poor, but the best there is; worse than a neighbour in some rows.
    for (fraction, swaps, moves) in [(10.0, 0, false), (1e-4, 0, false), (1e-4, 200, true)] {
        let mut values = Vec::with_capacity(a.nnz());
        for (i, line) in a.lines().enumerate() {
            values.extend(line.iter().map(|&j| match j as usize {
                j if j == i => fraction,
                // Pairs of neighbours whose entries off the diagonal are the large ones.
                j if j ^ 1 == i && i < swaps => 1e3,
                // One sided: no permutation gains by it.
                j if j > i => 1.0,
                _ => 1e-12,
            }));
        }
        let on = |threads: usize| {
            let options = OrderingOptions::default()
                .matching(Matching::Always)
                .threads(threads);
            on_threads(threads, || order(&a, Some(&values), &options).unwrap())
        };
        let first = on(1);
        assert_eq!(first.rows_matched, moves, "{fraction} {swaps}");
        assert_eq!(first.row_perm.len(), n);
        for threads in [2, 4] {
            let other = on(threads);
            assert!(first.col_perm == other.col_perm && first.row_perm == other.row_perm);
            assert!(first.scaling == other.scaling && first.blocks == other.blocks);
        }
    }
}

#[test]
fn rows_that_fill_holes_are_ordered_alike_on_any_number_of_threads() {
    let full = grid(60, 50);
    let n = full.major_dim();
    let has_hole = |i: usize| i.is_multiple_of(100);
    // Where the diagonal has holes, and which entries are zero: none; some that nothing depends on; those by which the
    // pattern alone would fill the holes; holes that are zeros.
    type IsZero = fn(usize, usize) -> bool;
    let none: IsZero = |_, _| false;
    let few: IsZero = |i, j| i == 7 && j != 7;
    let first_of_holes: IsZero = |i, j| i.is_multiple_of(100) && (j == i + 1 || i == j + 1);
    let on_diagonal: IsZero = |i, j| i == j && i.is_multiple_of(100);
    for (holes, is_zero) in [
        (true, none),
        (true, few),
        (true, first_of_holes),
        (false, on_diagonal),
    ] {
        let (mut ptr, mut idx, mut values) = (vec![0], Vec::new(), Vec::new());
        for (i, line) in full.lines().enumerate() {
            let kept = |&&j: &&u32| !(holes && has_hole(i) && j as usize == i);
            for &j in line.iter().filter(kept) {
                idx.push(j);
                values.push(match j as usize {
                    j if is_zero(i, j) => 0.0,
                    j if j == i => 4.0,
                    _ => 1.0,
                });
            }
            ptr.push(idx.len() as u64);
        }
        let a = CompressedPattern::new(n, ptr, idx).unwrap();
        let on = |threads: usize| {
            let options = OrderingOptions::default().threads(threads);
            let found = on_threads(threads, || order(&a, Some(&values), &options).unwrap());
            Ordering {
                seconds: OrderingSeconds::default(),
                ..found
            }
        };
        let first = on(1);
        assert!(first.rows_matched && first.log10_matching_product.is_none());
        for (&row, &col) in first
            .row_perm
            .as_slice()
            .iter()
            .zip(first.col_perm.as_slice())
        {
            let k = a.line(row as usize).binary_search(&col).unwrap();
            assert_ne!(values[a.range(row as usize).start + k], 0.0);
        }
        assert_eq!(on(2), first);
        assert_eq!(on(4), first);
    }
}

#[test]
fn hubs_and_pieces_are_ordered() {
    // Hubs below the degree of dense vertices, over pieces that are joined to nothing else: no separator
    // is small, and no growing part stays connected.
    let n = 20_000u32;
    let mut rows: Vec<Vec<u32>> = (0..n)
        .map(|v| {
            let piece = v / 50 * 50;
            let mut row: Vec<u32> = (0..14).map(|k| piece + (v * 7 + k * k + 1) % 50).collect();
            row.extend([v, v % 1000 / 50 * 50]);
            row
        })
        .collect();
    for v in 0..n {
        for u in rows[v as usize].clone() {
            rows[u as usize].push(v);
        }
    }
    let a = pattern(n as usize, &rows);
    let found = ordered(&a, Method::NestedDissection);
    let (rows, cols) = (found.row_perm.as_slice(), found.col_perm.as_slice());
    assert_eq!(
        found.predicted.factor_nnz(n as usize),
        fill_entries(&a, rows, cols)
    );
    let amd = ordered(&a, Method::Amd);
    assert!(found.predicted.lnz < 2 * amd.predicted.lnz);
}
