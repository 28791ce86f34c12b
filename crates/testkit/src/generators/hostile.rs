//! Hostile systems for a campaign: small patterns of every kind, and values that no application has.
//!
//! A [`Skeleton`] is a pattern; [`Skeleton::values`] fills it, as often as wanted, with values of another [`Kind`]. Some
//! kinds make the matrix exactly singular whatever the pattern is: they say so, and
//! [`rank_modulo_primes`] proves it in the tests. Stored zeros are part of the game.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use sprs::CsMat;

use super::log_uniform;

/// How large and small values may become: what the type of the matrix takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Rows and columns are scaled by at most 10^±decades each.
    pub decades: f64,
    /// Powers of two that keep small integers exact: at most 2^±powers for a row, and for a column.
    pub powers: i32,
    /// The largest value.
    pub huge: f64,
    /// A denormal value of many bits.
    pub denormal: f64,
}

impl Range {
    /// Of `f64`.
    pub const DOUBLE: Self = Self {
        decades: 150.0,
        powers: 400,
        huge: 1e300,
        denormal: 1e-310,
    };
    /// Of `f32`.
    pub const SINGLE: Self = Self {
        decades: 17.0,
        powers: 40,
        huge: 1e36,
        denormal: 1e-39,
    };
}

/// A pattern, and what it models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skeleton {
    /// What it models.
    pub name: &'static str,
    /// Order.
    pub n: usize,
    /// Row and column of every entry, by rows, none twice.
    pub entries: Vec<(usize, usize)>,
    /// Rows i, j and k, if the entries of row i are those of rows j and k together.
    pub sum_of_rows: Option<[usize; 3]>,
}

/// What values are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// In words.
    pub name: &'static str,
    /// Whether the matrix is singular in exact arithmetic, by construction.
    pub is_singular: bool,
}

const PATTERNS: [fn(&mut StdRng, usize) -> Skeleton; 16] = [
    tiny,
    tiny,
    circuit_with_rails,
    circuit_with_rails,
    grid,
    grid_3d,
    kkt,
    block_triangular,
    block_triangular,
    dense_lines,
    random,
    random,
    arrow,
    skew,
    permuted_triangular,
    full,
];

impl Skeleton {
    /// A pattern of order up to `max_n`.
    pub fn draw(rng: &mut StdRng, max_n: usize) -> Self {
        let make = PATTERNS[rng.random_range(0..PATTERNS.len())];
        // Small ones are cheap and show most; now and then one on which threads and fronts have something to do.
        let limit = match rng.random_range(0..100) {
            0..55 => 16,
            55..85 => 32,
            85..98 => 60,
            _ => 400,
        };
        let limit = limit.min(max_n).max(2);
        let n = rng.random_range(1..=limit);
        let mut skeleton = make(rng, n);
        if skeleton.n >= 3 && rng.random_bool(0.15) {
            skeleton.join_rows(rng);
        }
        skeleton
    }

    fn new(name: &'static str, n: usize, mut entries: Vec<(usize, usize)>) -> Self {
        entries.sort_unstable();
        entries.dedup();
        Self {
            name,
            n,
            entries,
            sum_of_rows: None,
        }
    }

    /// Gives one row the entries of two others.
    fn join_rows(&mut self, rng: &mut StdRng) {
        let mut rows: Vec<usize> = (0..self.n).collect();
        let (chosen, _) = rows.partial_shuffle(rng, 3);
        let [i, j, k] = [chosen[0], chosen[1], chosen[2]];
        let of_both = self.entries.iter().filter(|e| e.0 == j || e.0 == k);
        let joined: Vec<_> = of_both.map(|e| (i, e.1)).collect();
        self.entries.retain(|e| e.0 != i);
        self.entries.extend(joined);
        self.entries.sort_unstable();
        self.entries.dedup();
        self.sum_of_rows = Some([i, j, k]);
    }

    /// The same with every entry's counterpart across the diagonal.
    #[must_use]
    pub fn symmetric(mut self) -> Self {
        let counterparts: Vec<_> = self.entries.iter().map(|&(i, j)| (j, i)).collect();
        self.entries.extend(counterparts);
        self.entries.sort_unstable();
        self.entries.dedup();
        self.sum_of_rows = None;
        self
    }

    /// Gives each entry above the diagonal the value of its counterpart below it.
    pub fn mirror(&self, values: &mut [f64]) {
        for at in 0..self.entries.len() {
            let (i, j) = self.entries[at];
            if let (true, Ok(below)) = (i < j, self.entries.binary_search(&(j, i))) {
                values[at] = values[below];
            }
        }
    }

    /// The matrix with these values, one for each entry.
    pub fn matrix(&self, values: &[f64]) -> CsMat<f64> {
        let mut ptr = vec![0; self.n + 1];
        self.entries.iter().for_each(|e| ptr[e.0 + 1] += 1);
        (0..self.n).for_each(|i| ptr[i + 1] += ptr[i]);
        let columns = self.entries.iter().map(|e| e.1).collect();
        CsMat::new((self.n, self.n), ptr, columns, values.to_vec())
    }

    /// Values of some kind.
    pub fn values(&self, rng: &mut StdRng, range: Range) -> (Kind, Vec<f64>) {
        if rng.random_bool(0.25)
            && let Some(singular) = self.singular_values(rng, range)
        {
            return singular;
        }
        self.regular_values(rng, range)
    }

    /// Values that are not made to be singular, which does not keep them from it.
    pub fn regular_values(&self, rng: &mut StdRng, range: Range) -> (Kind, Vec<f64>) {
        let n = self.n;
        let decades = range.decades;
        let mut values: Vec<f64> = self.entries.iter().map(|_| normal(rng)).collect();
        let kinds = 19;
        let name = match rng.random_range(0..kinds) {
            0 | 1 => "normal",
            2 => {
                self.dominate(&mut values, rng);
                "dominant diagonal"
            }
            3 => {
                let factors = [powers_of_ten(rng, n, decades), powers_of_ten(rng, n, 0.0)];
                self.scale(&mut values, &factors);
                "scaled rows"
            }
            4 => {
                let factors = [powers_of_ten(rng, n, 0.0), powers_of_ten(rng, n, decades)];
                self.scale(&mut values, &factors);
                "scaled columns"
            }
            5 => {
                let factors = [
                    powers_of_ten(rng, n, decades),
                    powers_of_ten(rng, n, decades),
                ];
                self.scale(&mut values, &factors);
                "scaled rows and columns"
            }
            6 => {
                let tiny = if rng.random_bool(0.5) { 0.0 } else { 1e-30 };
                self.for_diagonal(&mut values, |v| *v = tiny);
                if tiny == 0.0 {
                    "zero diagonal"
                } else {
                    "diagonal of 1e-30"
                }
            }
            7 => {
                let share = rng.random_range(0.05..0.6);
                for value in &mut values {
                    if rng.random_bool(share) {
                        *value = if rng.random_bool(0.5) { 0.0 } else { 1e-30 };
                    }
                }
                "some entries 0 or 1e-30"
            }
            8 => {
                // A large entry in each row, somewhere.
                for i in 0..n {
                    let row: Vec<usize> = (0..values.len())
                        .filter(|&p| self.entries[p].0 == i)
                        .collect();
                    if !row.is_empty() {
                        values[row[rng.random_range(0..row.len())]] *= 1e8;
                    }
                }
                "permuted diagonal"
            }
            9 => {
                for value in &mut values {
                    if rng.random_bool(0.2) {
                        *value *= range.denormal;
                    }
                }
                "some denormal entries"
            }
            10 => {
                values.iter_mut().for_each(|v| *v *= range.denormal);
                "denormal"
            }
            11 => {
                values.iter_mut().for_each(|v| *v *= range.huge);
                "huge"
            }
            12 => {
                for value in &mut values {
                    if rng.random_bool(0.2) {
                        *value *= range.huge;
                    }
                }
                "some huge entries"
            }
            13 => {
                // Rows that nearly cancel.
                let rest = 10f64.powf(rng.random_range(-22.0..-8.0));
                self.cancel_rows(&mut values, rest);
                "nearly cancelling rows"
            }
            14 => {
                let steepness = rng.random_range(0.0..decades) / n as f64;
                for (value, &(i, j)) in values.iter_mut().zip(&self.entries) {
                    *value *= 10f64.powf(-steepness * (i + j) as f64);
                }
                "graded"
            }
            15 => {
                values.iter_mut().for_each(|v| *v = v.signum());
                "signs"
            }
            16 => {
                let spread = rng.random_range(1.0..decades);
                for value in &mut values {
                    *value *= 10f64.powf(rng.random_range(-spread..spread));
                }
                "wild"
            }
            17 => {
                for value in &mut values {
                    *value = value.signum() * log_uniform(rng, 1e-28, 1.0);
                }
                "down to 1e-28"
            }
            _ => {
                values.iter_mut().for_each(|v| *v = (*v * 3.0).round());
                "small integers"
            }
        };
        let is_singular = false;
        (Kind { name, is_singular }, values)
    }

    /// Values that became of others as they do in a sequence of matrices, only worse. Returns in words how.
    pub fn changed(
        &self,
        rng: &mut StdRng,
        range: Range,
        last: &[f64],
    ) -> (&'static str, Vec<f64>) {
        let n = self.n;
        let mut values = last.to_vec();
        let half = range.decades / 2.0;
        let name = match rng.random_range(0..9) {
            0 => {
                let factors = [powers_of_ten(rng, n, half), powers_of_ten(rng, n, 0.0)];
                self.scale(&mut values, &factors);
                "rows rescaled"
            }
            1 => {
                let factors = [powers_of_ten(rng, n, 0.0), powers_of_ten(rng, n, half)];
                self.scale(&mut values, &factors);
                "columns rescaled"
            }
            2 => {
                let row = rng.random_range(0..n);
                let by = 10f64.powf(rng.random_range(-40.0..40.0));
                let entries = values.iter_mut().zip(&self.entries);
                entries
                    .filter(|(_, e)| e.0 == row)
                    .for_each(|(v, _)| *v *= by);
                "one row rescaled"
            }
            3 => {
                let by = [0.0, 1e-20, 1e-30][rng.random_range(0..3)];
                let share = rng.random_range(0.1..=1.0);
                let chosen: Vec<bool> = (0..n).map(|_| rng.random_bool(share)).collect();
                for (value, e) in values.iter_mut().zip(&self.entries) {
                    if e.0 == e.1 && chosen[e.0] {
                        *value *= by;
                    }
                }
                "vanishing pivots"
            }
            4 => {
                values.shuffle(rng);
                "values shuffled"
            }
            5 => {
                let by = 10f64.powf(range.huge.log10() * rng.random_range(-1.0..1.0));
                values.iter_mut().for_each(|v| *v *= by);
                "all rescaled"
            }
            6 => {
                for value in &mut values {
                    *value *= 1.0 + 0.1 * normal(rng);
                }
                "slightly changed"
            }
            7 => {
                values.iter_mut().for_each(|v| *v *= normal(rng));
                "randomly changed"
            }
            _ => {
                for value in &mut values {
                    if rng.random_bool(0.1) {
                        *value *= 10f64.powf(rng.random_range(-half..half));
                    }
                }
                "some entries rescaled"
            }
        };
        let largest = range.huge * 1e7;
        values
            .iter_mut()
            .for_each(|v| *v = v.clamp(-largest, largest));
        (name, values)
    }

    /// Values of small integers, times powers of two, for which the matrix is exactly singular; `None` if the pattern
    /// has no room for the kind that was drawn.
    pub fn singular_values(&self, rng: &mut StdRng, range: Range) -> Option<(Kind, Vec<f64>)> {
        let n = self.n;
        let mut values: Vec<f64> = self
            .entries
            .iter()
            .map(|_| {
                f64::from(rng.random_range(1..10)) * if rng.random_bool(0.5) { 1.0 } else { -1.0 }
            })
            .collect();
        let name = match rng.random_range(0..9) {
            0 | 1 => {
                self.balance(&mut values, |e| e.0);
                "rows sum to zero"
            }
            2 => {
                self.balance(&mut values, |e| e.1);
                "columns sum to zero"
            }
            3 => {
                let [i, j, k] = self.sum_of_rows?;
                let row = |row: usize| {
                    let mut dense = vec![0.0; n];
                    let entries = self.entries.iter().zip(&values);
                    entries
                        .filter(|(e, _)| e.0 == row)
                        .for_each(|(e, v)| dense[e.1] = *v);
                    dense
                };
                let (first, second) = (row(j), row(k));
                for (value, e) in values.iter_mut().zip(&self.entries) {
                    if e.0 == i {
                        *value = first[e.1] + second[e.1];
                    }
                }
                "a row is the sum of two"
            }
            4 | 5 => {
                if n < 2 {
                    return None;
                }
                let by_columns = rng.random_bool(0.5);
                let first = rng.random_range(0..n);
                let second = (first + rng.random_range(1..n)) % n;
                self.duplicate(&mut values, by_columns, first, second);
                if by_columns {
                    "two columns are proportional"
                } else {
                    "two rows are proportional"
                }
            }
            6 => {
                // u·vᵀ where there are entries is of rank one only if all of them are there.
                if self.entries.len() != n * n || n < 2 {
                    return None;
                }
                let rank = rng.random_range(1..n.min(4));
                values.fill(0.0);
                for _ in 0..rank {
                    let mut vector = || -> Vec<f64> {
                        (0..n)
                            .map(|_| f64::from(rng.random_range(-3..=3)))
                            .collect()
                    };
                    let (u, v) = (vector(), vector());
                    for (value, &(i, j)) in values.iter_mut().zip(&self.entries) {
                        *value += u[i] * v[j];
                    }
                }
                "low rank"
            }
            7 => {
                if n.is_multiple_of(2) {
                    return None;
                }
                let at = |i: usize, j: usize| self.entries.binary_search(&(i, j)).ok();
                for (p, &(i, j)) in self.entries.iter().enumerate() {
                    match at(j, i) {
                        Some(_) if i == j => values[p] = 0.0,
                        Some(q) => values[q] = -values[p],
                        None => values[p] = 0.0,
                    }
                }
                "skew-symmetric of odd order"
            }
            _ => {
                // Zeros in p rows and q columns with p + q > n.
                let p = rng.random_range(1..=n);
                let q = n + 1 - p;
                for (value, &(i, j)) in values.iter_mut().zip(&self.entries) {
                    if i < p && j < q {
                        *value = 0.0;
                    }
                }
                "a block of zeros"
            }
        };
        match rng.random_range(0..4) {
            0 | 1 => {}
            2 => self.scale_by_powers(&mut values, rng, 20),
            _ => self.scale_by_powers(&mut values, rng, range.powers),
        }
        let is_singular = true;
        Some((Kind { name, is_singular }, values))
    }

    fn scale_by_powers(&self, values: &mut [f64], rng: &mut StdRng, most: i32) {
        let mut powers = || -> Vec<f64> {
            (0..self.n)
                .map(|_| 2f64.powi(rng.random_range(-most..=most)))
                .collect()
        };
        let factors = [powers(), powers()];
        self.scale(values, &factors);
    }

    fn scale(&self, values: &mut [f64], [rows, cols]: &[Vec<f64>; 2]) {
        for (value, &(i, j)) in values.iter_mut().zip(&self.entries) {
            *value *= rows[i] * cols[j];
        }
    }

    fn for_diagonal(&self, values: &mut [f64], change: impl Fn(&mut f64)) {
        let entries = values.iter_mut().zip(&self.entries);
        entries
            .filter(|(_, e)| e.0 == e.1)
            .for_each(|(v, _)| change(v));
    }

    fn dominate(&self, values: &mut [f64], rng: &mut StdRng) {
        let by = rng.random_range(1.0..100.0) * self.n as f64;
        self.for_diagonal(values, |v| *v += by.copysign(*v));
    }

    /// Makes the first entry of each line the negative of the sum of the others.
    fn balance(&self, values: &mut [f64], line: impl Fn(&(usize, usize)) -> usize) {
        let mut first = vec![None; self.n];
        let mut sums = vec![0.0; self.n];
        for (p, e) in self.entries.iter().enumerate() {
            match first[line(e)] {
                None => first[line(e)] = Some(p),
                Some(_) => sums[line(e)] += values[p],
            }
        }
        for (first, sum) in first.into_iter().zip(sums) {
            if let Some(p) = first {
                values[p] = -sum;
            }
        }
    }

    /// As [`balance`](Self::balance) for rows, but for `rest` times the largest entry.
    fn cancel_rows(&self, values: &mut [f64], rest: f64) {
        self.balance(values, |e| e.0);
        self.for_diagonal(values, |v| *v *= 1.0 + rest);
    }

    /// Makes a row (a column) 2^±k times another one: entries that only one of them has become zero.
    fn duplicate(&self, values: &mut [f64], by_columns: bool, first: usize, second: usize) {
        let place = |line: usize, at: usize| {
            let entry = if by_columns { (at, line) } else { (line, at) };
            self.entries.binary_search(&entry).ok()
        };
        for at in 0..self.n {
            match (place(first, at), place(second, at)) {
                (Some(p), Some(q)) => values[q] = 4.0 * values[p],
                (Some(p), None) | (None, Some(p)) => values[p] = 0.0,
                (None, None) => {}
            }
        }
    }
}

/// Normally distributed, near enough: the sum of twelve uniform numbers.
fn normal(rng: &mut StdRng) -> f64 {
    (0..12).map(|_| rng.random_range(-0.5..0.5)).sum()
}

fn powers_of_ten(rng: &mut StdRng, n: usize, decades: f64) -> Vec<f64> {
    let most = rng.random_range(0.0..=decades);
    (0..n)
        .map(|_| 10f64.powf(rng.random_range(-most..=most)))
        .collect()
}

fn tiny(rng: &mut StdRng, n: usize) -> Skeleton {
    let n = n.min(4);
    let share = rng.random_range(0.4..1.0);
    let mut entries: Vec<_> = (0..n).map(|i| (i, i)).collect();
    for i in 0..n {
        for j in 0..n {
            if rng.random_bool(share) {
                entries.push((i, j));
            }
        }
    }
    if n > 1 && rng.random_bool(0.2) {
        entries.remove(rng.random_range(0..n));
    }
    Skeleton::new("tiny", n, entries)
}

fn full(rng: &mut StdRng, n: usize) -> Skeleton {
    let n = n.min(2 + rng.random_range(0..30));
    let all = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    Skeleton::new("full", n, all.collect())
}

/// Nodes with a few neighbours each, one or two rails that many nodes are connected to, and voltage sources, whose rows
/// have no diagonal.
fn circuit_with_rails(rng: &mut StdRng, n: usize) -> Skeleton {
    let sources = rng.random_range(0..=n / 4);
    let nodes = n - sources;
    let mut entries: Vec<_> = (0..nodes).map(|i| (i, i)).collect();
    let mut connect = |i: usize, j: usize| entries.extend([(i, j), (j, i)]);
    for i in 1..nodes {
        connect(i, rng.random_range(0..i));
        if rng.random_bool(0.5) {
            connect(i, rng.random_range(0..nodes));
        }
        if rng.random_bool(0.3) {
            connect(i, 0);
        }
    }
    for k in 0..sources {
        // The first end is the source's own, so that there is a matching.
        connect(nodes + k, k % nodes.max(1));
        if rng.random_bool(0.5) {
            connect(nodes + k, rng.random_range(0..nodes));
        }
    }
    for _ in 0..rng.random_range(0..=n / 3) {
        // Controlled sources are not symmetric.
        entries.push((rng.random_range(0..n), rng.random_range(0..n)));
    }
    Skeleton::new("circuit", n, entries)
}

fn grid(rng: &mut StdRng, n: usize) -> Skeleton {
    let width = rng.random_range(1..=((n as f64).sqrt() as usize).max(1));
    let mut entries: Vec<_> = (0..n).map(|i| (i, i)).collect();
    for i in 0..n {
        if i + 1 < n && !(i + 1).is_multiple_of(width) {
            entries.extend([(i, i + 1), (i + 1, i)]);
        }
        if i + width < n {
            entries.extend([(i, i + width), (i + width, i)]);
        }
    }
    Skeleton::new("grid", n, entries)
}

fn grid_3d(_: &mut StdRng, n: usize) -> Skeleton {
    let side = (1..).find(|s| (s + 1) * (s + 1) * (s + 1) > n).unwrap_or(1);
    let n = side * side * side;
    let mut entries: Vec<_> = (0..n).map(|i| (i, i)).collect();
    for i in 0..n {
        let place = [i % side, i / side % side, i / (side * side)];
        for (axis, step) in [1, side, side * side].into_iter().enumerate() {
            if place[axis] + 1 < side {
                entries.extend([(i, i + step), (i + step, i)]);
            }
        }
    }
    Skeleton::new("grid 3d", n, entries)
}

/// A symmetric block with its diagonal, and fewer constraints than it has rows, without one.
fn kkt(rng: &mut StdRng, n: usize) -> Skeleton {
    let constraints = rng.random_range(0..=n / 3);
    let m = n - constraints;
    let mut entries: Vec<_> = (0..m).map(|i| (i, i)).collect();
    for i in 0..m {
        if rng.random_bool(0.5) {
            let j = rng.random_range(0..m);
            entries.extend([(i, j), (j, i)]);
        }
    }
    for k in 0..constraints {
        for j in [k, rng.random_range(0..m), rng.random_range(0..m)] {
            entries.extend([(m + k, j), (j, m + k)]);
        }
        if rng.random_bool(0.3) {
            entries.push((m + k, m + k));
        }
    }
    Skeleton::new("kkt", n, entries)
}

/// Many diagonal blocks with entries above them, rows and columns shuffled.
fn block_triangular(rng: &mut StdRng, n: usize) -> Skeleton {
    let mut entries = Vec::new();
    let mut first = 0;
    while first < n {
        let order = rng.random_range(1..=8usize).min(n - first);
        for i in 0..order {
            entries.push((first + i, first + i));
            if order > 1 {
                entries.push((first + i, first + (i + 1) % order));
            }
            for _ in 0..2 {
                entries.push((first + i, first + rng.random_range(0..order)));
                if first + order < n && rng.random_bool(0.4) {
                    entries.push((first + i, rng.random_range(first + order..n)));
                }
            }
        }
        first += order;
    }
    shuffled(rng, "block triangular", n, entries)
}

fn dense_lines(rng: &mut StdRng, n: usize) -> Skeleton {
    let mut entries: Vec<_> = (0..n).map(|i| (i, i)).collect();
    for i in 1..n {
        entries.push((i, rng.random_range(0..i)));
        entries.push((rng.random_range(0..i), i));
    }
    for _ in 0..rng.random_range(1..=2) {
        let line = rng.random_range(0..n);
        if rng.random_bool(0.6) {
            entries.extend((0..n).map(|k| (line, k)));
        }
        if rng.random_bool(0.6) {
            entries.extend((0..n).map(|k| (k, line)));
        }
    }
    Skeleton::new("dense lines", n, entries)
}

fn random(rng: &mut StdRng, n: usize) -> Skeleton {
    let per_row = rng.random_range(1..=4);
    let mut entries: Vec<_> = (0..n).map(|i| (i, i)).collect();
    for i in 0..n {
        entries.extend((0..per_row).map(|_| (i, rng.random_range(0..n))));
    }
    if rng.random_bool(0.5) {
        return shuffled(rng, "random", n, entries);
    }
    if rng.random_bool(0.1) {
        // Perhaps without a matching.
        entries.retain(|_| rng.random_bool(0.7));
        if entries.is_empty() {
            entries.push((0, 0));
        }
    }
    Skeleton::new("random", n, entries)
}

fn arrow(rng: &mut StdRng, n: usize) -> Skeleton {
    let head = if rng.random_bool(0.5) { 0 } else { n - 1 };
    let mut entries: Vec<_> = (0..n).map(|i| (i, i)).collect();
    entries.extend((0..n).flat_map(|i| [(i, head), (head, i)]));
    Skeleton::new("arrow", n, entries)
}

/// Symmetric in pattern, mostly without a diagonal.
fn skew(rng: &mut StdRng, n: usize) -> Skeleton {
    let has_diagonal = rng.random_bool(0.3);
    let mut entries: Vec<_> = (0..n)
        .filter(|_| has_diagonal || n == 1)
        .map(|i| (i, i))
        .collect();
    for i in 0..n {
        let j = (i + 1) % n;
        if i != j {
            entries.extend([(i, j), (j, i)]);
        }
        let j = rng.random_range(0..n);
        if i != j && rng.random_bool(0.6) {
            entries.extend([(i, j), (j, i)]);
        }
    }
    Skeleton::new("skew", n, entries)
}

fn permuted_triangular(rng: &mut StdRng, n: usize) -> Skeleton {
    let mut entries: Vec<_> = (0..n).map(|i| (i, i)).collect();
    for i in 1..n {
        for _ in 0..3 {
            entries.push((i, rng.random_range(0..i)));
        }
    }
    if rng.random_bool(0.3) {
        entries.push((0, n - 1));
    }
    shuffled(rng, "permuted triangular", n, entries)
}

/// The pattern with its rows and its columns in another order each.
fn shuffled(
    rng: &mut StdRng,
    name: &'static str,
    n: usize,
    mut entries: Vec<(usize, usize)>,
) -> Skeleton {
    let (mut rows, mut cols): (Vec<usize>, Vec<usize>) = ((0..n).collect(), (0..n).collect());
    rows.shuffle(rng);
    if rng.random_bool(0.7) {
        cols.shuffle(rng);
    } else {
        cols.clone_from(&rows);
    }
    entries.iter_mut().for_each(|e| *e = (rows[e.0], cols[e.1]));
    Skeleton::new(name, n, entries)
}

/// The rank of a matrix of integers modulo two primes near 2³¹, the larger of both: at most the rank, and less only by an
/// accident of one in 10⁹ in both.
///
/// # Panics
///
/// If a value is not an integer below 2⁵³.
#[track_caller]
pub fn rank_modulo_primes(a: &CsMat<f64>) -> usize {
    [2_147_483_647u64, 2_147_483_629]
        .into_iter()
        .map(|prime| rank_modulo(a, prime))
        .max()
        .unwrap_or(0)
}

#[track_caller]
fn rank_modulo(a: &CsMat<f64>, prime: u64) -> usize {
    let (nrows, ncols) = a.shape();
    let mut dense = vec![vec![0u64; ncols]; nrows];
    for (&value, (i, j)) in a {
        assert!(
            value.fract() == 0.0 && value.abs() < 2f64.powi(53),
            "{value} is no small integer"
        );
        dense[i][j] = (value as i64).rem_euclid(prime as i64) as u64;
    }
    let mut rank = 0;
    for j in 0..ncols {
        let Some(pivot) = (rank..nrows).find(|&i| dense[i][j] != 0) else {
            continue;
        };
        dense.swap(rank, pivot);
        let inverse = power_modulo(dense[rank][j], prime - 2, prime);
        let (above, below) = dense.split_at_mut(rank + 1);
        let pivot = &above[rank];
        for row in below {
            let factor = row[j] * inverse % prime;
            for (value, &p) in row.iter_mut().zip(pivot) {
                *value = (*value + prime - factor * p % prime) % prime;
            }
        }
        rank += 1;
    }
    rank
}

fn power_modulo(mut base: u64, mut exponent: u64, prime: u64) -> u64 {
    let mut power = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power * base % prime;
        }
        base = base * base % prime;
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::WideMatrix;
    use crate::generators::rng;
    use std::collections::BTreeMap;

    /// The largest powers of two that divide whole rows, then columns, taken out.
    fn without_powers(a: &CsMat<f64>) -> CsMat<f64> {
        let exponent = |v: f64| {
            // The power of two of the last bit that is set.
            let (bits, biased) = (v.to_bits() & ((1 << 52) - 1), v.to_bits() >> 52 & 0x7ff);
            biased as i32 - 1023 - 52 + (bits | 1 << 52).trailing_zeros() as i32
        };
        let mut a = a.clone();
        for by_columns in [false, true] {
            let mut least = vec![i32::MAX; a.rows()];
            for (&v, (i, j)) in &a {
                let at = if by_columns { j } else { i };
                if v != 0.0 {
                    least[at] = least[at].min(exponent(v));
                }
            }
            let places: Vec<(usize, usize)> = a.iter().map(|(_, at)| at).collect();
            for (v, (i, j)) in a.data_mut().iter_mut().zip(places) {
                let by = least[if by_columns { j } else { i }];
                if *v != 0.0 {
                    *v = *v * 2f64.powi(-by / 2) * 2f64.powi(-(by - by / 2));
                }
            }
        }
        a
    }

    #[test]
    fn what_is_called_singular_is() {
        let mut rng = rng(3);
        let mut kinds = BTreeMap::new();
        for _ in 0..6000 {
            let skeleton = Skeleton::draw(&mut rng, 24);
            for range in [Range::DOUBLE, Range::SINGLE] {
                let Some((kind, values)) =
                    skeleton.singular_values(&mut rng, Range { powers: 3, ..range })
                else {
                    continue;
                };
                assert!(kind.is_singular);
                let a = skeleton.matrix(&values);
                // Small powers of two leave integers once they are made large enough.
                let integers = a.map(|v| v * 2f64.powi(40));
                let rank = rank_modulo_primes(&without_powers(&integers));
                assert!(rank < skeleton.n, "{} on {}", kind.name, skeleton.name);
                *kinds.entry(kind.name).or_insert(0) += 1;
            }
        }
        assert_eq!(kinds.len(), 8, "{kinds:?}");
        assert!(kinds.values().all(|&count| count > 20), "{kinds:?}");
    }

    #[test]
    fn powers_of_two_leave_them_singular() {
        let mut rng = rng(5);
        let mut count = 0;
        for _ in 0..600 {
            let skeleton = Skeleton::draw(&mut rng, 10);
            if let Some((kind, values)) = skeleton.singular_values(&mut rng, Range::DOUBLE) {
                let a = WideMatrix::new(&skeleton.matrix(&values));
                let distance = a.distance_to_singular();
                assert!(distance < 1e-25, "{}: {distance:e}", kind.name);
                count += 1;
            }
        }
        assert!(count > 200);
    }

    #[test]
    fn values_stay_in_range() {
        let mut rng = rng(4);
        let mut patterns = BTreeMap::new();
        let mut kinds = BTreeMap::new();
        for _ in 0..4000 {
            let skeleton = Skeleton::draw(&mut rng, 40);
            assert!(skeleton.entries.is_sorted() && (1..=40).contains(&skeleton.n));
            *patterns.entry(skeleton.name).or_insert(0) += 1;
            let (kind, values) = skeleton.values(&mut rng, Range::DOUBLE);
            *kinds.entry(kind.name).or_insert(0) += 1;
            assert!(values.iter().all(|v| v.is_finite()), "{}", kind.name);
            let (name, values) = skeleton.changed(&mut rng, Range::DOUBLE, &values);
            assert!(values.iter().all(|v| v.is_finite()), "{name}");
            let (kind, values) = skeleton.values(&mut rng, Range::SINGLE);
            let fits = |v: &f64| (*v as f32).is_finite();
            assert!(values.iter().all(fits), "{}", kind.name);
        }
        assert_eq!(patterns.len(), 12, "{patterns:?}");
        assert_eq!(kinds.len(), 19 + 8, "{kinds:?}");
    }

    #[test]
    fn ranks_of_integers() {
        let full: Vec<f64> = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0];
        let skeleton = Skeleton::new("full", 3, (0..9).map(|k| (k / 3, k % 3)).collect());
        assert_eq!(rank_modulo_primes(&skeleton.matrix(&full)), 3);
        let mut less = full;
        less[8] = 9.0;
        assert_eq!(rank_modulo_primes(&skeleton.matrix(&less)), 2);
        assert_eq!(rank_modulo_primes(&skeleton.matrix(&[0.0; 9])), 0);
    }
}
