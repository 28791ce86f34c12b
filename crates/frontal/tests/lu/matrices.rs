//! Matrices that tests want.

use std::sync::Arc;

use luge_frontal::{Symbolic, TreeOptions};
use luge_sparse::{CompressedPattern, Scalar};
use num_complex::Complex;

/// A square matrix by columns.
#[derive(Debug, Clone)]
pub struct Matrix<V = f64> {
    pub cols: CompressedPattern,
    pub values: Vec<V>,
}

impl Matrix {
    pub fn from_entries(n: usize, mut entries: Vec<(usize, usize, f64)>) -> Self {
        entries.sort_by_key(|&(i, j, _)| (j, i));
        entries.dedup_by_key(|&mut (i, j, _)| (i, j));
        let mut ptr = vec![0u64; n + 1];
        for &(_, j, _) in &entries {
            ptr[j + 1] += 1;
        }
        for j in 0..n {
            ptr[j + 1] += ptr[j];
        }
        let idx = entries.iter().map(|e| e.0 as u32).collect();
        Self {
            cols: CompressedPattern::new(n, ptr, idx).unwrap(),
            values: entries.iter().map(|e| e.2).collect(),
        }
    }

    pub fn from_sprs(a: &sprs::CsMat<f64>) -> Self {
        let entries = a.iter().map(|(&v, (i, j))| (i, j, v)).collect();
        Self::from_entries(a.rows(), entries)
    }

    /// With each row and each column times a complex number of absolute value 1.
    pub fn turned(&self) -> Matrix<Complex<f64>> {
        let turn = |at: usize| Complex::from_polar(1.0, 1.0 + 2.4 * at as f64);
        let turned = self
            .entries()
            .map(|(i, j, v)| turn(3 * i) * turn(5 * j + 1) * v);
        Matrix {
            cols: self.cols.clone(),
            values: turned.collect(),
        }
    }
}

impl<V: Scalar<Real = f64>> Matrix<V> {
    pub fn n(&self) -> usize {
        self.cols.major_dim()
    }

    pub fn entries(&self) -> impl Iterator<Item = (usize, usize, V)> + '_ {
        (0..self.n()).flat_map(move |j| {
            self.cols
                .range(j)
                .map(move |p| (self.cols.idx()[p] as usize, j, self.values[p]))
        })
    }

    pub fn dense(&self) -> Vec<Vec<V>> {
        let mut dense = vec![vec![V::zero(); self.n()]; self.n()];
        for (i, j, v) in self.entries() {
            dense[i][j] = v;
        }
        dense
    }

    pub fn multiply(&self, x: &[V], transpose: bool) -> Vec<V> {
        let mut y = vec![V::zero(); self.n()];
        for (i, j, v) in self.entries() {
            if transpose {
                y[j] += v * x[i];
            } else {
                y[i] += v * x[j];
            }
        }
        y
    }

    pub fn column_norms(&self) -> Vec<f64> {
        let mut norms = vec![0.0; self.n()];
        for (_, j, v) in self.entries() {
            norms[j] += v.magnitude();
        }
        norms
    }

    pub fn symbolic(&self, options: &TreeOptions) -> Arc<Symbolic> {
        Arc::new(Symbolic::analyze(&self.cols, options).unwrap())
    }
}

/// A stream of numbers, the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 / (1u64 << 53) as f64) * 2.0 - 1.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() + 1.0) / 2.0 * n as f64) as usize % n
    }
}

/// A grid of nx × ny points in its natural order, which gives bands and wide fronts. The diagonal is
/// about `diagonal`; beyond 7 it dominates rows and columns.
pub fn grid_with(nx: usize, ny: usize, diagonal: f64, random: &mut Random) -> Matrix {
    let mut entries = Vec::new();
    let at = |x: usize, y: usize| x * ny + y;
    for x in 0..nx {
        for y in 0..ny {
            entries.push((at(x, y), at(x, y), diagonal + random.next()));
            let mut edge = |a: usize, b: usize| {
                entries.push((a, b, -1.0 + 0.5 * random.next()));
                entries.push((b, a, -1.0 + 0.5 * random.next()));
            };
            if x + 1 < nx {
                edge(at(x, y), at(x + 1, y));
            }
            if y + 1 < ny {
                edge(at(x, y), at(x, y + 1));
            }
        }
    }
    Matrix::from_entries(nx * ny, entries)
}

/// A grid whose diagonal does not dominate, so that some pivots come out small.
pub fn grid(nx: usize, ny: usize, random: &mut Random) -> Matrix {
    grid_with(nx, ny, 4.0, random)
}

/// Unsymmetric, with a dominant diagonal, or with its large entries anywhere if shuffled.
pub fn random_matrix(n: usize, per_column: usize, shuffle: bool, random: &mut Random) -> Matrix {
    let mut image: Vec<usize> = (0..n).collect();
    if shuffle {
        for i in (1..n).rev() {
            image.swap(i, random.below(i + 1));
        }
    }
    let mut entries = Vec::new();
    for (j, &large) in image.iter().enumerate() {
        entries.push((large, j, 3.0 * per_column as f64));
        for _ in 0..per_column {
            let i = random.below(n);
            if i != large {
                entries.push((i, j, random.next()));
            }
        }
    }
    Matrix::from_entries(n, entries)
}

/// The Laplacian of a random tree whose vertices come before their parents: singular, and every
/// pivot of its elimination is exactly 1 but the last, which is 0.
pub fn tree_laplacian(n: usize, random: &mut Random) -> Matrix {
    let mut degrees = vec![0.0; n];
    let mut entries = Vec::new();
    for i in 0..n - 1 {
        let parent = i + 1 + random.below((n - 1 - i).min(5));
        degrees[i] += 1.0;
        degrees[parent] += 1.0;
        entries.push((i, parent, -1.0));
        entries.push((parent, i, -1.0));
    }
    entries.extend(degrees.into_iter().enumerate().map(|(i, d)| (i, i, d)));
    Matrix::from_entries(n, entries)
}

/// [H Aᵀ; A 0] in an order that meets zero diagonals first.
pub fn saddle(n: usize, m: usize, random: &mut Random) -> Matrix {
    let mut entries = Vec::new();
    for i in 0..n {
        entries.push((m + i, m + i, 2.0 + random.next()));
        if i + 1 < n {
            let v = random.next();
            entries.push((m + i, m + i + 1, v));
            entries.push((m + i + 1, m + i, v));
        }
    }
    for c in 0..m {
        entries.push((c, c, 0.0));
        for t in 0..3 {
            let i = (c * n / m + t * 2 + random.below(2)) % n;
            let v = 1.0 + random.next();
            entries.push((c, m + i, v));
            entries.push((m + i, c, v));
        }
    }
    Matrix::from_entries(n + m, entries)
}
