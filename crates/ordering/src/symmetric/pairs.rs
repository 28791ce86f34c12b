//! Cycles of a matching broken into pairs and single vertices.
//!
//! A matching of a symmetric matrix is a permutation that sends row i to column j, so its cycles run through vertices of
//! the graph (I. S. Duff and S. Pralet, "Strategies for scaling and pivoting for sparse symmetric indefinite problems",
//! SIAM J. Matrix Anal. Appl. 27 (2005)). Consecutive vertices of a cycle may become a pair, a pivot of order 2; what is
//! left stays a pivot of order 1. Of all ways to cut a cycle the one is taken whose diagonal blocks have the largest
//! product of determinants, with as few zeros among these as can be. That is found by dynamic programming in time linear
//! in the length.

use std::ops::Range;

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};
use smallvec::{SmallVec, smallvec};

use crate::matching::NONE;
use crate::parts::by_parts;

/// A diagonal entry of at least this size in the scaled matrix, where no entry is above one, is a pivot of order 1. A pair
/// of two such is none, and the order has more freedom.
const LARGE_DIAGONAL: f64 = 1.0 / 32.0;

/// Cycles between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

/// Vertices or cycles that a thread looks at, at least. Few in tests, so that small matrices are shared.
pub(super) const LEAST_PART: usize = if cfg!(test) { 2 } else { 512 };

/// Where pairs start in a cycle. Most cycles are short.
type Starts = SmallVec<[usize; 8]>;

/// What a way to cut a cycle, or a part of it, is worth.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Worth {
    /// Diagonal blocks that are singular.
    num_singular: u32,
    /// log2 of the product of the determinants of the others.
    log: f64,
}

impl Worth {
    fn of(determinant: f64) -> Self {
        if determinant == 0.0 {
            Self {
                num_singular: 1,
                log: 0.0,
            }
        } else {
            Self {
                num_singular: 0,
                log: determinant.abs().log2(),
            }
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            num_singular: self.num_singular + other.num_singular,
            log: self.log + other.log,
        }
    }

    fn is_better(self, other: Self) -> bool {
        self.num_singular < other.num_singular
            || self.num_singular == other.num_singular && self.log > other.log
    }
}

/// The best way to cut consecutive vertices of a cycle, from what each is worth alone and with the next one (of one
/// less): the places at which pairs start, from the last one on. Pairs only where they are better.
fn cut_path(single: &[Worth], pair: &[Worth]) -> (Worth, Starts) {
    let n = single.len();
    // Of the first vertices, so many.
    let mut best: SmallVec<[Worth; 8]> = smallvec![Worth::default(); n + 1];
    let mut ends_pair: SmallVec<[bool; 8]> = smallvec![false; n + 1];
    for k in 1..=n {
        best[k] = best[k - 1].and(single[k - 1]);
        if k > 1 {
            let paired = best[k - 2].and(pair[k - 2]);
            if paired.is_better(best[k]) {
                best[k] = paired;
                ends_pair[k] = true;
            }
        }
    }
    let mut starts = Starts::new();
    let mut k = n;
    while k > 0 {
        if ends_pair[k] {
            starts.push(k - 2);
            k -= 2;
        } else {
            k -= 1;
        }
    }
    (best[n], starts)
}

/// The best way to cut a cycle, from what each vertex is worth alone and with the next one, the last with the first:
/// the places at which pairs start.
fn cut_cycle(single: &[Worth], pair: &[Worth]) -> Starts {
    let n = single.len();
    if n < 2 {
        return Starts::new();
    }
    let (open, starts) = cut_path(single, &pair[..n - 1]);
    if n == 2 {
        return starts;
    }
    // The last with the first, and the others between them.
    let (between, starts_between) = cut_path(&single[1..n - 1], &pair[1..n - 2]);
    if between.and(pair[n - 1]).is_better(open) {
        let mut starts: Starts = starts_between.iter().map(|k| k + 1).collect();
        starts.push(n - 1);
        starts
    } else {
        starts
    }
}

/// The entry (i, j) of the matrix scaled by factors with these logarithms; zero if there is none.
pub(super) fn scaled_entry(
    a: &CompressedPattern,
    values: &[f64],
    log_scale: &[f64],
    i: u32,
    j: u32,
) -> f64 {
    let (row, col) = (i as usize, j as usize);
    let value = a.line(row).binary_search(&j);
    let value = value.map_or(0.0, |k| values[a.range(row).start + k]);
    if value == 0.0 {
        return 0.0;
    }
    let log = value.abs().log2() + log_scale[row] + log_scale[col];
    log.exp2().copysign(value)
}

/// Vertices in pairs.
pub(super) struct Pairs {
    /// The other one of each vertex's pair, or the vertex itself if it is single.
    pub mate: Vec<u32>,
    /// Sizes of the diagonal entries of paired vertices in the scaled matrix; zero for others.
    pub diagonal: Vec<f64>,
}

impl Pairs {
    /// Whether one of the two is a pivot of order 1, at most, and so is what it leaves of the other.
    pub fn is_loose(&self, v: u32) -> bool {
        [v, self.mate[v as usize]]
            .iter()
            .any(|&v| self.diagonal[v as usize] >= LARGE_DIAGONAL)
    }
}

/// The pairs of a matching, if there are any.
///
/// `row_of_col` is the matching, of nonzero entries, of those columns that are not [`NONE`], which are also the matched
/// rows; `log_scale` has the logarithms of the factors that bring matched entries to one. On the current rayon pool
/// if `parallel`.
///
/// # Errors
///
/// [`Cancelled`].
pub(super) fn pairs(
    a: &CompressedPattern,
    values: &[f64],
    row_of_col: &[u32],
    log_scale: &[f64],
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<Option<Pairs>, Cancelled> {
    let n = a.major_dim();
    let (cycle_ptr, vertices) = cycles(row_of_col, cancel)?;
    let of_cycles = |range: Range<usize>| {
        let mut found = Vec::new();
        for (number, ends) in range
            .clone()
            .zip(cycle_ptr[range.start..=range.end].windows(2))
        {
            if number.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let cycle = &vertices[ends[0]..ends[1]];
            cut(a, values, log_scale, cycle, |pair| found.push(pair));
        }
        Ok(found)
    };
    let found = by_parts(cycle_ptr.len() - 1, LEAST_PART, parallel, of_cycles).into_iter();
    let found: Vec<Vec<Pair>> = found.collect::<Result<_, Cancelled>>()?;
    if found.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    let mut pairs = Pairs {
        mate: (0..n as u32).collect(),
        diagonal: vec![0.0; n],
    };
    for [(v, of_v), (w, of_w)] in found.into_iter().flatten() {
        pairs.mate[v as usize] = w;
        pairs.mate[w as usize] = v;
        pairs.diagonal[v as usize] = of_v;
        pairs.diagonal[w as usize] = of_w;
    }
    Ok(Some(pairs))
}

/// The cycles of more than one vertex, one behind the other, and where each starts, and the end of the last.
fn cycles(row_of_col: &[u32], cancel: &CancelFlag) -> Result<(Vec<usize>, Vec<u32>), Cancelled> {
    let mut is_seen = vec![false; row_of_col.len()];
    let (mut ptr, mut vertices) = (vec![0], Vec::new());
    for (start, &next) in row_of_col.iter().enumerate() {
        if start.is_multiple_of(STRIDE) {
            cancel.check()?;
        }
        if is_seen[start] || next == NONE || next as usize == start {
            continue;
        }
        let mut v = start as u32;
        while !std::mem::replace(&mut is_seen[v as usize], true) {
            vertices.push(v);
            v = row_of_col[v as usize];
        }
        ptr.push(vertices.len());
    }
    Ok((ptr, vertices))
}

/// Two vertices of a pair, with the sizes of their diagonal entries in the scaled matrix.
type Pair = [(u32, f64); 2];

/// Cuts a cycle, and gives its pairs to `found`.
fn cut(
    a: &CompressedPattern,
    values: &[f64],
    log_scale: &[f64],
    cycle: &[u32],
    mut found: impl FnMut(Pair),
) {
    let scaled = |i: u32, j: u32| scaled_entry(a, values, log_scale, i, j);
    let diagonal: SmallVec<[f64; 8]> = cycle.iter().map(|&v| scaled(v, v)).collect();
    let single: SmallVec<[Worth; 8]> = diagonal.iter().map(|&d| Worth::of(d)).collect();
    let next = |k: usize| (k + 1) % cycle.len();
    let of_pair = |k: usize| {
        let off_diagonal = scaled(cycle[k], cycle[next(k)]);
        Worth::of(diagonal[k] * diagonal[next(k)] - off_diagonal * off_diagonal)
    };
    let pair: SmallVec<[Worth; 8]> = (0..cycle.len()).map(of_pair).collect();
    for k in cut_cycle(&single, &pair) {
        let ends = [k, next(k)];
        if ends.iter().any(|&k| diagonal[k].abs() < LARGE_DIAGONAL) {
            found(ends.map(|k| (cycle[k], diagonal[k].abs())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// What the cut with these pairs is worth.
    fn worth(single: &[Worth], pair: &[Worth], starts: &[usize]) -> Worth {
        let n = single.len();
        let mut is_single = vec![true; n];
        let mut sum = Worth::default();
        for &k in starts {
            for v in [k, (k + 1) % n] {
                assert!(std::mem::replace(&mut is_single[v], false), "{starts:?}");
            }
            sum = sum.and(pair[k]);
        }
        let alone = (0..n).filter(|&k| is_single[k]);
        alone.fold(sum, |sum, k| sum.and(single[k]))
    }

    /// The best of all sets of pairs that have no vertex in common.
    fn best_of_all(single: &[Worth], pair: &[Worth]) -> Worth {
        let n = single.len();
        let num_edges = if n < 3 { n - 1 } else { n };
        let mut best: Option<Worth> = None;
        for set in 0u32..1 << num_edges {
            let starts: Vec<usize> = (0..num_edges).filter(|k| set >> k & 1 == 1).collect();
            let is_apart = |&k: &usize| n < 3 || set >> ((k + 1) % n) & 1 == 0;
            if starts.iter().all(is_apart) {
                let found = worth(single, pair, &starts);
                if best.is_none_or(|best| found.is_better(best)) {
                    best = Some(found);
                }
            }
        }
        best.unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn cycles_are_cut_as_well_as_can_be(
            n in 1usize..8,
            diagonal in vec(prop_oneof![Just(0.0), -1.0..1.0f64, Just(1.0)], 7),
            off_diagonal in vec(prop_oneof![Just(1.0), 0.0..1.0f64], 7),
        ) {
            let single: Vec<Worth> = diagonal[..n].iter().map(|&d| Worth::of(d)).collect();
            let of_pair = |k: usize| {
                let b = off_diagonal[k];
                Worth::of(diagonal[k] * diagonal[(k + 1) % n] - b * b)
            };
            let pair: Vec<Worth> = (0..n).map(of_pair).collect();
            let found = worth(&single, &pair, &cut_cycle(&single, &pair));
            let best = best_of_all(&single, &pair);
            prop_assert_eq!(found.num_singular, best.num_singular);
            prop_assert!((found.log - best.log).abs() < 1e-12, "{found:?} {best:?}");
        }
    }

    #[test]
    fn cuts_of_cycles_without_a_diagonal() {
        let starts = |n: usize| {
            let mut starts = cut_cycle(&vec![Worth::of(0.0); n], &vec![Worth::of(-1.0); n]);
            starts.sort_unstable();
            starts
        };
        assert_eq!(starts(1)[..], [0usize; 0]);
        assert_eq!(starts(2)[..], [0]);
        assert_eq!(starts(4)[..], [0, 2]);
        assert_eq!(starts(6)[..], [0, 2, 4]);
        for n in [3, 5, 7] {
            assert_eq!(starts(n).len(), n / 2);
        }
    }

    #[test]
    fn an_odd_cycle_leaves_its_best_diagonal_entry_alone() {
        for n in [3, 5, 7] {
            for best in 0..n {
                let single: Vec<Worth> = (0..n)
                    .map(|k| Worth::of(if k == best { 0.5 } else { 0.25 }))
                    .collect();
                let starts = cut_cycle(&single, &vec![Worth::of(-1.0); n]);
                let is_alone = |k| !starts.contains(&k) && !starts.contains(&((k + n - 1) % n));
                let alone: Vec<usize> = (0..n).filter(|&k| is_alone(k)).collect();
                assert_eq!(alone, [best]);
            }
        }
    }

    #[test]
    fn an_even_cycle_is_cut_at_either_parity() {
        let single = [Worth::of(0.0); 4];
        let pair = |large: usize| -> Vec<Worth> {
            let value = |k: usize| if k % 2 == large { 1.0 } else { 0.5 };
            (0..4).map(|k| Worth::of(value(k))).collect()
        };
        for large in [0, 1] {
            let mut starts = cut_cycle(&single, &pair(large));
            starts.sort_unstable();
            assert_eq!(starts[..], [large, large + 2]);
        }
    }
}
