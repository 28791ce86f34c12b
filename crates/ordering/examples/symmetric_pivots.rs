//! How many pivots of symmetric matrices of the corpus are delayed, with and without pairs.
//!
//! `cargo run --release -p luge-ordering --example symmetric_pivots -- mm_laser_kkt opf_case9241pegase_mu1`
//!
//! Every matrix is ordered, scaled, and factorized in the fronts of the predicted forest, with threshold pivoting (u = 0.01)
//! by pivots of order 1 and 2 within each front. What finds no pivot goes to the parent. The elimination is dense and
//! simple: it counts, and is not fast.

use std::collections::HashMap;

use luge_ordering::{
    Matching, SymmetricOptions, SymmetricOrdering, SymmetricScaling, order_symmetric,
};
use luge_sparse::CompressedPattern;
use luge_sparse::etree::NONE;
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;

/// Entries of L are at most the inverse of this.
const THRESHOLD: f64 = 0.01;

/// Columns of scaled matrices whose entries are all below this are zero.
const NEGLIGIBLE: f64 = 1e-14;

/// What a factorization took.
#[derive(Default)]
struct Counts {
    lnz: u64,
    flops: f64,
    num_delayed: usize,
    num_two: usize,
    num_zero: usize,
}

impl Counts {
    /// So many columns of L with so many entries below them.
    fn add(&mut self, pivots: u64, below: usize) {
        let m = below as f64;
        self.lnz += pivots * (below as u64 + 1) + (pivots - 1);
        self.flops += pivots as f64 * (m + m * (m + 1.0));
    }
}

/// What a front leaves for its parent: rows, of which the first ones are delayed, and their entries.
struct Left {
    rows: Vec<usize>,
    num_delayed: usize,
    values: Vec<f64>,
}

/// A front while it is factorized.
struct Front {
    rows: Vec<usize>,
    num_pivots: usize,
    values: Vec<f64>,
    /// Places of rows that are not eliminated.
    rest: Vec<usize>,
}

impl Front {
    fn value(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.rows.len() + j]
    }

    /// The largest entry of a column but for the given rows.
    fn largest(&self, column: usize, without: [usize; 2]) -> f64 {
        let others = self.rest.iter().filter(|r| !without.contains(r));
        others.fold(0.0, |max, &r| f64::max(max, self.value(r, column).abs()))
    }

    /// A pivot with column `p`: none, itself, or itself and another one.
    fn pivot(&self, p: usize) -> Option<(usize, Option<usize>)> {
        let diagonal = self.value(p, p).abs();
        if diagonal > NEGLIGIBLE && diagonal >= THRESHOLD * self.largest(p, [p, p]) {
            return Some((p, None));
        }
        let candidates = self.rest.iter().copied();
        let candidates = candidates.filter(|&q| q < self.num_pivots && q != p);
        let size = |q: &usize| self.value(p, *q).abs();
        let q = candidates.max_by(|q, r| size(q).total_cmp(&size(r)))?;
        let (a, b, c) = (self.value(p, p), self.value(p, q), self.value(q, q));
        let determinant = (a * c - b * b).abs();
        let (of_p, of_q) = (self.largest(p, [p, q]), self.largest(q, [p, q]));
        let first = c.abs() * of_p + b.abs() * of_q;
        let second = b.abs() * of_p + a.abs() * of_q;
        let is_accepted = determinant > f64::max(1e-12 * b * b, NEGLIGIBLE * NEGLIGIBLE)
            && first.max(second) * THRESHOLD <= determinant;
        is_accepted.then_some((p, Some(q)))
    }

    fn eliminate(&mut self, p: usize, q: Option<usize>) {
        let size = self.rows.len();
        self.rest.retain(|&r| r != p && Some(r) != q);
        let (a, b, c) = q.map_or((self.value(p, p), 0.0, 1.0), |q| {
            (self.value(p, p), self.value(p, q), self.value(q, q))
        });
        let determinant = a * c - b * b;
        for &r in &self.rest {
            let (x, y) = (self.value(r, p), q.map_or(0.0, |q| self.value(r, q)));
            let (first, second) = ((c * x - b * y) / determinant, (a * y - b * x) / determinant);
            if first == 0.0 && second == 0.0 {
                continue;
            }
            for &s in &self.rest {
                let of_q = q.map_or(0.0, |q| self.values[q * size + s]);
                self.values[r * size + s] -= first * self.values[p * size + s] + second * of_q;
            }
        }
    }

    /// Takes pivots as long as there are any.
    fn factorize(&mut self, counts: &mut Counts) {
        let mut i = 0;
        while let Some(&p) = self.rest.get(i).filter(|&&p| p < self.num_pivots) {
            if self.largest(p, [p, p]) <= NEGLIGIBLE && self.value(p, p).abs() <= NEGLIGIBLE {
                counts.num_zero += 1;
                self.rest.remove(i);
                continue;
            }
            let Some((p, q)) = self.pivot(p) else {
                i += 1;
                continue;
            };
            self.eliminate(p, q);
            counts.num_two += usize::from(q.is_some());
            counts.add(if q.is_some() { 2 } else { 1 }, self.rest.len());
            i = 0;
        }
    }
}

fn factorized(a: &CompressedPattern, values: &[f64], ordering: &SymmetricOrdering) -> Counts {
    let perm = ordering.perm.as_slice();
    let place = ordering.perm.inverse();
    let forest = ordering.forest.as_ref().expect("the order is a postorder");
    let n = perm.len();
    let mut counts = Counts::default();
    let mut from_children: HashMap<usize, Vec<Left>> = HashMap::new();
    let mut front_of = vec![0; n];
    let mut start = 0;
    let goes_on = |k: usize| {
        k + 1 < n
            && forest.parent[k] as usize == k + 1
            && forest.counts[k] == forest.counts[k + 1] + 1
    };
    // Numbered by their first columns.
    for (k, front) in front_of.iter_mut().enumerate() {
        *front = start;
        start = if goes_on(k) { start } else { k + 1 };
    }
    start = 0;
    while start < n {
        let mut end = start + 1;
        while goes_on(end - 1) {
            end += 1;
        }
        let children = from_children.remove(&start).unwrap_or_default();
        let delayed = children
            .iter()
            .flat_map(|left| &left.rows[..left.num_delayed]);
        let mut rows: Vec<usize> = delayed.copied().chain(start..end).collect();
        let num_pivots = rows.len();
        let own = perm[start..end].iter().flat_map(|&v| a.line(v as usize));
        let own = own.map(|&w| place[w as usize] as usize);
        let others = children
            .iter()
            .flat_map(|left| &left.rows[left.num_delayed..]);
        let mut below: Vec<usize> = own.chain(others.copied()).filter(|&r| r >= end).collect();
        below.sort_unstable();
        below.dedup();
        rows.extend(below);
        let size = rows.len();
        let at: HashMap<usize, usize> = rows.iter().enumerate().map(|(i, &r)| (r, i)).collect();
        let mut front = Front {
            num_pivots,
            values: vec![0.0; size * size],
            rest: (0..size).collect(),
            rows,
        };
        for k in start..end {
            let v = perm[k] as usize;
            for p in a.range(v) {
                let w = a.idx()[p] as usize;
                let Some(&j) = at
                    .get(&(place[w] as usize))
                    .filter(|_| place[w] as usize >= start)
                else {
                    continue;
                };
                let value = ordering.scaling.apply(v, w, values[p]);
                front.values[at[&k] * size + j] = value;
                front.values[j * size + at[&k]] = value;
            }
        }
        for left in children {
            let places: Vec<usize> = left.rows.iter().map(|r| at[r]).collect();
            for (row, &i) in left.values.chunks(places.len()).zip(&places) {
                for (x, &j) in row.iter().zip(&places) {
                    front.values[i * size + j] += x;
                }
            }
        }
        front.factorize(&mut counts);
        let num_delayed = front.rest.iter().filter(|&&r| r < num_pivots).count();
        counts.num_delayed += num_delayed;
        let parent = forest.parent[end - 1];
        if parent != NONE && !front.rest.is_empty() {
            let entries = front
                .rest
                .iter()
                .flat_map(|&r| front.rest.iter().map(move |&s| (r, s)));
            let left = Left {
                rows: front.rest.iter().map(|&r| front.rows[r]).collect(),
                num_delayed,
                values: entries.map(|(r, s)| front.value(r, s)).collect(),
            };
            from_children
                .entry(front_of[parent as usize])
                .or_default()
                .push(left);
        }
        start = end;
    }
    counts
}

fn main() {
    let corpus = Corpus::open().expect("a corpus");
    println!(
        "| matrix | order | scaling | pairs | predicted entries | operations | entries | operations | delayed | pivots of order 2 | zero pivots |"
    );
    println!("|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for name in std::env::args().skip(1) {
        let entry = corpus.find(&name).expect("a matrix of the corpus");
        let matrix = entry
            .read()
            .expect("a file")
            .into_real()
            .expect("real values");
        let (a, values) = (pattern_of(&matrix), matrix.data());
        for (order, matching, scaling) in [
            (
                "without pairs",
                Matching::Never,
                SymmetricScaling::Equilibrate,
            ),
            ("without pairs", Matching::Never, SymmetricScaling::Matching),
            ("with pairs", Matching::Always, SymmetricScaling::Matching),
        ] {
            let of_scaling = format!("{scaling:?}").to_lowercase();
            let options = SymmetricOptions::default()
                .matching(matching)
                .scaling(scaling);
            let ordering = order_symmetric(&a, Some(values), &options).expect("an order");
            let counts = factorized(&a, values, &ordering);
            println!(
                "| {name} | {order} | {of_scaling} | {} | {} | {:.2e} | {} | {:.2e} | {} | {} | {} |",
                ordering.pairs,
                ordering.predicted.lnz,
                ordering.predicted.flops,
                counts.lnz,
                counts.flops,
                counts.num_delayed,
                counts.num_two,
                counts.num_zero,
            );
        }
    }
}
