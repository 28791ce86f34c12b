//! The filled pattern of an LU factorization without pivoting.
//!
//! With every diagonal entry taken as present and no cancellation, entry (i, j) of L+U is
//! structurally nonzero under five equivalent statements, one function each. All take the rows of a
//! square pattern and all answer the same [`FilledPattern`], with the diagonal present even where
//! the matrix lacks it.

use luge_sparse::{CompressedPattern, FilledPattern};

use crate::primitives::exclusive_prefix_sum;

/// The largest value of `max_id`: no path has been found.
const NO_PATH: u32 = u32::MAX;

#[track_caller]
fn order(a: &CompressedPattern) -> usize {
    assert_eq!(a.major_dim(), a.minor_dim(), "the pattern must be square");
    a.major_dim()
}

/// Sorts the rows and makes a filled pattern of them; each must hold its diagonal.
fn filled_of(rows: Vec<Vec<u32>>) -> FilledPattern {
    let n = rows.len();
    let counts: Vec<u32> = rows.iter().map(|r| r.len() as u32).collect();
    let mut idx = Vec::new();
    for mut row in rows {
        row.sort_unstable();
        idx.extend(row);
    }
    let rows = CompressedPattern::new(n, exclusive_prefix_sum(&counts), idx)
        .expect("each row lists a column once");
    FilledPattern::new(rows).expect("each row lists its diagonal")
}

/// Elimination of a matrix of zeros and ones: at step k every row below k with an entry in column k
/// receives the entries of row k right of k. O(n³) time, n² bytes.
///
/// # Panics
///
/// If the pattern is not square.
#[track_caller]
pub fn dense_boolean_elimination(a: &CompressedPattern) -> FilledPattern {
    let n = order(a);
    let mut present = vec![vec![false; n]; n];
    for i in 0..n {
        present[i][i] = true;
        for &j in a.line(i) {
            present[i][j as usize] = true;
        }
    }
    for k in 0..n {
        for i in k + 1..n {
            if present[i][k] {
                for j in k + 1..n {
                    present[i][j] |= present[k][j];
                }
            }
        }
    }
    let columns = |row: Vec<bool>| (0..n as u32).filter(|&j| row[j as usize]).collect();
    filled_of(present.into_iter().map(columns).collect())
}

/// Theorem 1 of gSoFa (Rose and Tarjan), tried for every pair: (i, j) is in L+U iff i = j or G(A) has
/// a directed path from i to j whose inner vertices are all smaller than min(i, j). O(n²·nnz) time.
///
/// # Panics
///
/// If the pattern is not square.
#[track_caller]
pub fn fill_by_path_theorem(a: &CompressedPattern) -> FilledPattern {
    let n = order(a);
    let row = |i| {
        (0..n)
            .filter(|&j| i == j || has_path(a, i, j))
            .map(|j| j as u32)
            .collect()
    };
    filled_of((0..n).map(row).collect())
}

/// Whether a path leads from `i` to `j` over vertices smaller than both.
fn has_path(a: &CompressedPattern, i: usize, j: usize) -> bool {
    let mut reached = vec![false; i.min(j)];
    let mut open = vec![i];
    while let Some(v) = open.pop() {
        for &w in a.line(v) {
            let w = w as usize;
            if w == j {
                return true;
            }
            if w < i.min(j) && !reached[w] {
                reached[w] = true;
                open.push(w);
            }
        }
    }
    false
}

/// fill1 (Rose and Tarjan; gSoFa, Figure 3a): row `src` holds what can be reached from `src` over
/// the rows of U already found, passing only through vertices smaller than `src`.
///
/// # Panics
///
/// If the pattern is not square.
#[track_caller]
pub fn fill1(a: &CompressedPattern) -> FilledPattern {
    let n = order(a);
    let mut rows: Vec<Vec<u32>> = Vec::with_capacity(n);
    // fill[v] == Some(src): v is known to be in row src.
    let mut fill = vec![None; n];
    for src in 0..n {
        fill[src] = Some(src);
        let mut row = vec![src as u32];
        let mut frontier_queue = Vec::new();
        for &v in a.line(src) {
            if fill[v as usize] != Some(src) {
                fill[v as usize] = Some(src);
                row.push(v);
                if (v as usize) < src {
                    frontier_queue.push(v);
                }
            }
        }
        while !frontier_queue.is_empty() {
            let mut new_frontier_queue = Vec::new();
            for &frontier in &frontier_queue {
                for &neighbor in rows[frontier as usize].iter().filter(|&&v| v > frontier) {
                    if fill[neighbor as usize] != Some(src) {
                        fill[neighbor as usize] = Some(src);
                        row.push(neighbor);
                        if (neighbor as usize) < src {
                            new_frontier_queue.push(neighbor);
                        }
                    }
                }
            }
            frontier_queue = new_frontier_queue;
        }
        rows.push(row);
    }
    filled_of(rows)
}

/// fill2 (Rose and Tarjan; gSoFa, Figure 3b): for each row, thresholds in increasing order; from each
/// threshold the search over G(A) continues through vertices not above it, and a vertex above it
/// that it meets for the first time is an entry of the row.
///
/// # Panics
///
/// If the pattern is not square.
#[track_caller]
pub fn fill2(a: &CompressedPattern) -> FilledPattern {
    let n = order(a);
    let mut rows = Vec::with_capacity(n);
    // fill[v] == Some(src): v was met in the search from src.
    let mut fill = vec![None; n];
    for src in 0..n {
        fill[src] = Some(src);
        let mut row = vec![src as u32];
        for &v in a.line(src) {
            if fill[v as usize] != Some(src) {
                fill[v as usize] = Some(src);
                row.push(v);
            }
        }
        for threshold in 0..src {
            if fill[threshold] != Some(src) {
                continue;
            }
            let mut frontier_queue = vec![threshold];
            while !frontier_queue.is_empty() {
                let mut new_frontier_queue = Vec::new();
                for &frontier in &frontier_queue {
                    for &neighbor in a.line(frontier) {
                        let neighbor = neighbor as usize;
                        if fill[neighbor] != Some(src) {
                            fill[neighbor] = Some(src);
                            if neighbor > threshold {
                                row.push(neighbor as u32);
                            } else {
                                new_frontier_queue.push(neighbor);
                            }
                        }
                    }
                }
                frontier_queue = new_frontier_queue;
            }
        }
        rows.push(row);
    }
    filled_of(rows)
}

/// gSoFa's Figure 6 executed by one thread, row `src` of it: unsorted columns, the diagonal first.
///
/// `max_id[v]` falls towards the smallest value, over all paths from `src` to `v` through vertices
/// below `src`, of the largest inner vertex. Two lines of the figure cannot be meant as printed and
/// are read as its text has them: line 6 puts `v`, not `src`, into the queue, and line 5 marks `v` as
/// found.
fn max_id_row(
    a: &CompressedPattern,
    src: usize,
    max_id: &mut [u32],
    fill: &mut [bool],
) -> Vec<u32> {
    max_id.fill(NO_PATH);
    fill.fill(false);
    max_id[src] = 0;
    fill[src] = true;
    let mut row = vec![src as u32];
    let mut frontier_queue = Vec::new();
    for &v in a.line(src).iter().filter(|&&v| v as usize != src) {
        max_id[v as usize] = 0;
        fill[v as usize] = true;
        row.push(v);
        if (v as usize) < src {
            frontier_queue.push(v);
        }
    }
    while !frontier_queue.is_empty() {
        let mut new_frontier_queue = Vec::new();
        for &frontier in &frontier_queue {
            let new_max_id = frontier.max(max_id[frontier as usize]);
            for &neighbor in a.line(frontier as usize) {
                let v = neighbor as usize;
                let old_max_id = max_id[v];
                max_id[v] = old_max_id.min(new_max_id);
                if old_max_id <= new_max_id {
                    continue;
                }
                if neighbor > new_max_id {
                    let found_before = fill[v];
                    fill[v] = true;
                    if found_before {
                        // Paths through v have v itself as largest inner vertex, as before.
                        continue;
                    }
                    row.push(neighbor);
                }
                if v < src {
                    new_frontier_queue.push(neighbor);
                }
            }
        }
        frontier_queue = new_frontier_queue;
    }
    row
}

/// fill2 with `max_id` and revisits (gSoFa, Figure 6), executed by one thread.
///
/// # Panics
///
/// If the pattern is not square.
#[track_caller]
pub fn fill2_max_id(a: &CompressedPattern) -> FilledPattern {
    let n = order(a);
    let (mut max_id, mut fill) = (vec![0; n], vec![false; n]);
    filled_of(
        (0..n)
            .map(|src| max_id_row(a, src, &mut max_id, &mut fill))
            .collect(),
    )
}

/// The counting stage of fill2: entries of L+U in each row, the diagonal included.
///
/// # Panics
///
/// If the pattern is not square.
#[track_caller]
pub fn fill2_count(a: &CompressedPattern) -> Vec<u32> {
    let n = order(a);
    let (mut max_id, mut fill) = (vec![0; n], vec![false; n]);
    (0..n)
        .map(|src| max_id_row(a, src, &mut max_id, &mut fill).len() as u32)
        .collect()
}

/// The position stage of fill2: the columns of row `i` of L+U, sorted, at
/// `row_ptr[i]..row_ptr[i + 1]` of the result, with `row_ptr` the prefix sums of
/// [`fill2_count`].
///
/// # Panics
///
/// If the pattern is not square or `row_ptr` are not the offsets of its filled rows.
#[track_caller]
pub fn fill2_positions(a: &CompressedPattern, row_ptr: &[u64]) -> Vec<u32> {
    let n = order(a);
    assert_eq!(row_ptr.len(), n + 1, "one offset more than there are rows");
    let (mut max_id, mut fill) = (vec![0; n], vec![false; n]);
    let mut col_idx = vec![0; row_ptr[n] as usize];
    for src in 0..n {
        let mut row = max_id_row(a, src, &mut max_id, &mut fill);
        row.sort_unstable();
        col_idx[row_ptr[src] as usize..row_ptr[src + 1] as usize].copy_from_slice(&row);
    }
    col_idx
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::{pattern_of, patterns};
    use proptest::prelude::*;

    /// The matrix of gSoFa's Figure 1: row 8 fills at 3, 4 and 5 as section 2 tells it.
    #[test]
    fn row_8_of_the_papers_example_fills_at_3_4_and_5() {
        // Only the edges that the text names: 8→{1,2,7,9}, 1→{0}, 0→5, 2→{3,5,7}, 3→4, 5→3, 7→{2,4}.
        let a = pattern_of(
            10,
            [
                (8, 1),
                (8, 2),
                (8, 7),
                (8, 9),
                (1, 0),
                (0, 5),
                (2, 3),
                (2, 5),
                (2, 7),
                (3, 4),
                (5, 3),
                (7, 2),
                (7, 4),
            ],
        );
        for filled in every_definition(&a) {
            // 0 is reached only over 1, which is larger, so (8, 0) stays empty.
            assert_eq!(filled.lower(8), [1, 2, 3, 4, 5, 7]);
            assert_eq!(filled.upper(8), [9]);
            assert_eq!(filled.upper(1), [5]);
        }
    }

    fn every_definition(a: &CompressedPattern) -> [FilledPattern; 5] {
        [
            dense_boolean_elimination(a),
            fill_by_path_theorem(a),
            fill1(a),
            fill2(a),
            fill2_max_id(a),
        ]
    }

    #[test]
    fn an_arrow_fills_completely_one_way_and_not_at_all_the_other() {
        for n in [1u32, 2, 31, 32, 33] {
            let first = |i| [(0, i), (i, 0), (i, i)];
            let head_first = pattern_of(n as usize, (0..n).flat_map(first));
            let last = |i| [(n - 1, i), (i, n - 1), (i, i)];
            let head_last = pattern_of(n as usize, (0..n).flat_map(last));
            for filled in every_definition(&head_first) {
                assert_eq!(filled.nnz(), (n * n) as usize);
            }
            for filled in every_definition(&head_last) {
                assert_eq!(filled.rows(), &head_last);
            }
        }
    }

    #[test]
    fn a_long_chain_has_no_fill() {
        let n = 1025u32;
        let chain = (0..n).flat_map(|i| [(i, i), (i, (i + 1).min(n - 1)), ((i + 1).min(n - 1), i)]);
        let a = pattern_of(n as usize, chain);
        assert_eq!(fill1(&a).rows(), &a);
        assert_eq!(fill2(&a).rows(), &a);
        assert_eq!(fill2_max_id(&a).rows(), &a);
    }

    #[test]
    fn nothing_and_a_single_empty_row() {
        for filled in every_definition(&pattern_of(0, [])) {
            assert_eq!((filled.n(), filled.nnz()), (0, 0));
        }
        for filled in every_definition(&pattern_of(1, [])) {
            assert_eq!((filled.n(), filled.nnz()), (1, 1));
        }
    }

    #[test]
    #[should_panic(expected = "square")]
    fn a_rectangle_is_refused() {
        fill1(&CompressedPattern::new(2, vec![0, 1], vec![1]).unwrap());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn all_definitions_agree(a in patterns(40)) {
            let [elimination, others @ ..] = every_definition(&a);
            for other in others {
                prop_assert_eq!(&elimination, &other);
            }
        }

        #[test]
        fn the_two_stages_make_the_pattern(a in patterns(40)) {
            let filled = dense_boolean_elimination(&a);
            let row_ptr = exclusive_prefix_sum(&fill2_count(&a));
            prop_assert_eq!(filled.rows().ptr(), &row_ptr[..]);
            prop_assert_eq!(filled.rows().idx(), &fill2_positions(&a, &row_ptr)[..]);
        }

        #[test]
        fn filling_twice_adds_nothing(a in patterns(40)) {
            let filled = fill1(&a);
            prop_assert_eq!(&fill1(filled.rows()), &filled);
        }
    }
}
