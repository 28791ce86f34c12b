//! Symmetric matrices that tests want.

use std::sync::Arc;

use luge_frontal::{Lower, Symbolic, TreeOptions};
use luge_sparse::{CompressedPattern, Form, Scalar};
use num_complex::Complex;

/// One triangle of a symmetric or Hermitian matrix by columns, each entry in either triangle.
#[derive(Debug, Clone)]
pub struct Matrix<W = f64> {
    pub cols: CompressedPattern,
    pub values: Vec<W>,
    pub form: Form,
}

impl Matrix {
    /// The lower triangle of a dense symmetric matrix, zeros included.
    pub fn full(n: usize, mut value: impl FnMut(usize, usize) -> f64) -> Self {
        let places = (0..n).flat_map(|j| (j..n).map(move |i| (i, j)));
        Self::from_entries(n, places.map(|(i, j)| (i, j, value(i, j))))
    }

    pub fn from_sprs(a: &sprs::CsMat<f64>) -> Self {
        Self::from_entries(a.rows(), a.iter().map(|(&v, (i, j))| (i, j, v)))
    }

    /// U·A·Uᵀ, or U·A·Uᴴ as a Hermitian matrix, for a diagonal U of numbers of absolute value 1: entries have the absolute values of
    /// A's, and so have exact pivots.
    pub fn turned(&self, form: Form, turn: Turn) -> Matrix<Complex<f64>> {
        let entries = self.entries().map(|(i, j, v)| {
            let value = turn.of(i) * form.counterpart(turn.of(j)) * v;
            (
                i,
                j,
                if i == j {
                    form.on_diagonal(value)
                } else {
                    value
                },
            )
        });
        Matrix {
            form,
            ..Matrix::from_entries(self.n(), entries.collect::<Vec<_>>())
        }
    }

    /// The same as a complex matrix of this form.
    pub fn as_complex(&self, form: Form) -> Matrix<Complex<f64>> {
        Matrix {
            cols: self.cols.clone(),
            values: self.values.iter().map(|&v| Complex::from(v)).collect(),
            form,
        }
    }
}

/// Numbers of absolute value 1.
#[derive(Debug, Clone, Copy)]
pub enum Turn {
    /// Powers of i, with which products are exact.
    Quarters,
    /// Others.
    Angles,
}

impl Turn {
    fn of(self, i: usize) -> Complex<f64> {
        match self {
            Self::Quarters => Complex::i().powu((i * i + i / 3) as u32 % 4),
            Self::Angles => Complex::from_polar(1.0, 0.7 * (i * i % 97) as f64),
        }
    }
}

impl<W: Scalar<Real = f64>> Matrix<W> {
    /// Of entries anywhere; of those with the same unordered pair of row and column the first counts.
    pub fn from_entries(n: usize, entries: impl IntoIterator<Item = (usize, usize, W)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by_key(|&(i, j, _)| (i.min(j), i.max(j)));
        entries.dedup_by_key(|&mut (i, j, _)| (i.min(j), i.max(j)));
        entries.sort_by_key(|&(i, j, _)| (j, i));
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
            form: Form::Symmetric,
        }
    }

    /// The same with the entries of some columns in the other triangle.
    pub fn mixed(&self, random: &mut Random) -> Self {
        let entries: Vec<_> = self.entries().collect();
        let moved = entries.into_iter().map(|(i, j, v)| {
            if random.next() < 0.0 {
                (j, i, self.form.counterpart(v))
            } else {
                (i, j, v)
            }
        });
        Self {
            form: self.form,
            ..Self::from_entries(self.n(), moved)
        }
    }

    pub fn n(&self) -> usize {
        self.cols.major_dim()
    }

    /// Those that are stored.
    pub fn entries(&self) -> impl Iterator<Item = (usize, usize, W)> + '_ {
        (0..self.n()).flat_map(move |j| {
            self.cols
                .range(j)
                .map(move |p| (self.cols.idx()[p] as usize, j, self.values[p]))
        })
    }

    /// Those of both triangles.
    pub fn all_entries(&self) -> impl Iterator<Item = (usize, usize, W)> + '_ {
        self.entries().flat_map(|(i, j, v)| {
            let other = (i != j).then_some((j, i, self.form.counterpart(v)));
            std::iter::once((i, j, v)).chain(other)
        })
    }

    pub fn dense(&self) -> Vec<Vec<W>> {
        let mut dense = vec![vec![W::zero(); self.n()]; self.n()];
        for (i, j, v) in self.all_entries() {
            dense[i][j] = v;
        }
        dense
    }

    pub fn multiply(&self, x: &[W]) -> Vec<W> {
        let mut y = vec![W::zero(); self.n()];
        for (i, j, v) in self.all_entries() {
            y[i] += v * x[j];
        }
        y
    }

    pub fn column_norms(&self) -> Vec<f64> {
        let mut norms = vec![0.0; self.n()];
        for (_, j, v) in self.all_entries() {
            norms[j] += v.magnitude();
        }
        norms
    }

    pub fn symbolic(&self, options: &TreeOptions) -> Arc<Symbolic<Lower>> {
        Arc::new(Symbolic::analyze(&self.cols, options).unwrap())
    }

    pub fn cast<F: Scalar<Wide = W>>(&self) -> Vec<F> {
        self.values.iter().map(|&v| F::narrow(v)).collect()
    }
}

/// A stream of numbers, the same in every run.
pub struct Random(pub u64);

impl Random {
    /// From −1 to 1.
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

/// A grid of nx × ny points in its natural order, with `diagonal` on the diagonal: definite from 4 on, beyond 8 for sure.
pub fn grid(nx: usize, ny: usize, diagonal: f64, random: &mut Random) -> Matrix {
    let mut entries = Vec::new();
    let at = |x: usize, y: usize| x * ny + y;
    for x in 0..nx {
        for y in 0..ny {
            entries.push((at(x, y), at(x, y), diagonal + random.next()));
            if x + 1 < nx {
                entries.push((at(x, y), at(x + 1, y), -1.0 + 0.5 * random.next()));
            }
            if y + 1 < ny {
                entries.push((at(x, y), at(x, y + 1), -1.0 + 0.5 * random.next()));
            }
        }
    }
    Matrix::from_entries(nx * ny, entries)
}

/// A random pattern and values, about `per_column` entries off the diagonal in a column; `diagonal` times a random number
/// on the diagonal.
pub fn random_matrix(n: usize, per_column: usize, diagonal: f64, random: &mut Random) -> Matrix {
    let mut entries = Vec::new();
    for j in 0..n {
        entries.push((j, j, diagonal * random.next()));
        for _ in 0..per_column.div_ceil(2) {
            let i = random.below(n);
            if i != j {
                entries.push((i, j, random.next()));
            }
        }
    }
    Matrix::from_entries(n, entries)
}

/// [H Aᵀ; A 0] in an order that meets zero diagonals first.
pub fn saddle(n: usize, m: usize, random: &mut Random) -> Matrix {
    let mut entries = Vec::new();
    for i in 0..n {
        entries.push((m + i, m + i, 2.0 + random.next()));
        if i + 1 < n {
            entries.push((m + i, m + i + 1, random.next()));
        }
    }
    for c in 0..m {
        entries.push((c, c, 0.0));
        for t in 0..3 {
            let i = (c * n / m + t * 2 + random.below(2)) % n;
            entries.push((c, m + i, 1.0 + random.next()));
        }
    }
    Matrix::from_entries(n + m, entries)
}

/// The Laplacian of a random tree whose vertices come before their parents: singular, and every pivot of its elimination
/// in that order is exactly 1 but the last, which is 0.
pub fn tree_laplacian(n: usize, random: &mut Random) -> Matrix {
    let mut degrees = vec![0.0; n];
    let mut entries = Vec::new();
    for i in 0..n - 1 {
        let parent = i + 1 + random.below((n - 1 - i).min(5));
        degrees[i] += 1.0;
        degrees[parent] += 1.0;
        entries.push((i, parent, -1.0));
    }
    entries.extend(degrees.into_iter().enumerate().map(|(i, d)| (i, i, d)));
    Matrix::from_entries(n, entries)
}
