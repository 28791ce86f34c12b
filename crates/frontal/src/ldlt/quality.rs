//! What a factorization of a symmetric matrix measured of itself.

use luge_sparse::{Inertia, Scalar, enlarge, larger, lessen};

use crate::factorize::Report;

/// How far the factors L·D·Lᵀ of a symmetric B can be trusted, and exact counts of their pivots.
///
/// The growth bounds the error of the factorization and of every solve with it (Higham, *Accuracy and Stability of
/// Numerical Algorithms*, theorem 11.3 and section 11.1.2).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SymmetricQuality {
    /// Eigenvalues of D by their signs: by Sylvester's law those of B. Zero are the accepted zero pivots. Of a complex symmetric
    /// matrix, whose eigenvalues have no signs, these alone are counted.
    pub inertia: Inertia,
    /// Pivots of order 2.
    pub num_two: usize,
    /// Columns delayed to a parent, counted once for every front they were put off.
    pub num_delayed: usize,
    /// Pivots that were replaced because they had not the [expected sign](luge_sparse::PivotKind::Signed), or were not to be
    /// [delayed again](luge_sparse::SmallPivots::Limited).
    pub num_perturbed: usize,
    /// The first column of the pattern whose pivot was.
    pub first_perturbed: Option<usize>,
    /// Columns accepted as zero pivots.
    pub num_zero: usize,
    /// The first column of the pattern that was accepted as a zero pivot.
    pub first_zero: Option<usize>,
    /// Largest magnitude in L below its unit diagonal: at most 1/u, but for rounding, except in a definite matrix, and where signs
    /// are expected or delays limited.
    pub max_l: f64,
    /// Smallest absolute value of an eigenvalue of D, or of a complex symmetric one of a singular value; accepted zero pivots do not count. Infinite if there is none.
    pub min_pivot: f64,
    /// Largest of them.
    pub max_pivot: f64,
    /// Smallest quotient of what `min_pivot` is the smallest of and ‖ |L|·|D|·|Lᵀ|·e_k ‖₁, the larger one of the two columns of a
    /// pivot of order 2: what cancellation left of the pivot, as
    /// [`Quality::min_relative_pivot`](luge_sparse::Quality::min_relative_pivot) of L·U. Infinite if there is none.
    pub min_relative_pivot: f64,
    /// max over columns k of ‖ |L|·|D|·|Lᵀ|·e_k ‖₁ / ‖B·e_k‖₁, with |D| entry by entry; at least 1. Columns of zeros do
    /// not count. It is summed up exactly while the fronts are at hand, at a multiplication and two additions for each
    /// entry of L: what [`Quality::growth`](luge_sparse::Quality::growth) is for L·U.
    pub growth: f64,
    /// Largest ‖ |L|·|D|·|Lᵀ|·e_k ‖₁ of a column.
    pub max_product: f64,
    /// Smallest ‖B·e_k‖₁ of a column; infinite if there is none.
    pub min_norm: f64,
    /// Largest of them.
    pub max_norm: f64,
    /// Pivot columns found by blocks, by a posteriori pivoting or, in a definite matrix, without a search.
    pub num_first_pass: usize,
    /// Pivot columns found one by one, by threshold partial pivoting.
    pub num_second_pass: usize,
}

impl Default for SymmetricQuality {
    /// That of an empty matrix.
    fn default() -> Self {
        Self {
            inertia: Inertia::default(),
            num_two: 0,
            num_delayed: 0,
            num_perturbed: 0,
            first_perturbed: None,
            num_zero: 0,
            first_zero: None,
            max_l: 0.0,
            min_pivot: f64::INFINITY,
            max_pivot: 0.0,
            min_relative_pivot: f64::INFINITY,
            growth: 1.0,
            max_product: 0.0,
            min_norm: f64::INFINITY,
            max_norm: 0.0,
            num_first_pass: 0,
            num_second_pass: 0,
        }
    }
}

impl SymmetricQuality {
    /// Takes in a pivot of order 1, and gives its absolute value.
    pub(super) fn add_one(&mut self, d: f64) -> f64 {
        if d > 0.0 {
            self.inertia.positive += 1;
        } else {
            self.inertia.negative += 1;
        }
        self.add_range(d.abs())
    }

    /// Takes in the absolute value of a pivot of order 1, and gives it.
    pub(super) fn add_range(&mut self, size: f64) -> f64 {
        lessen(&mut self.min_pivot, size);
        enlarge(&mut self.max_pivot, size);
        size
    }

    /// Takes in the smallest absolute value of a pivot, and the norm of its column of |L|·|D|·|Lᵀ|.
    #[inline(always)]
    pub(super) fn add_relative(&mut self, size: f64, product: f64) {
        // Divided only where it matters.
        if size < self.min_relative_pivot * product {
            lessen(&mut self.min_relative_pivot, size / product);
        }
    }

    /// Takes in a column that was accepted as a zero pivot.
    pub(super) fn add_zero(&mut self, column: usize) {
        self.inertia.zero += 1;
        self.num_zero += 1;
        self.first_zero = Some(self.first_zero.map_or(column, |first| first.min(column)));
    }

    /// Takes in a pivot of order 2 of a real or Hermitian matrix, whose entries off the diagonal have the absolute value |`d21`|,
    /// and gives the smaller absolute value of an eigenvalue.
    pub(super) fn add_two(&mut self, d11: f64, d21: f64, d22: f64) -> f64 {
        // Scaled, so that no product of two entries overflows.
        let size = d11.abs().max(d21.abs()).max(d22.abs());
        let determinant = (d11 / size) * d22 - (d21 / size) * d21;
        if determinant < 0.0 {
            self.inertia.positive += 1;
            self.inertia.negative += 1;
        } else if d11 > 0.0 {
            self.inertia.positive += 2;
        } else {
            self.inertia.negative += 2;
        }
        let mean = d11 / 2.0 + d22 / 2.0;
        let large = mean.abs() + (d11 / 2.0 - d22 / 2.0).hypot(d21);
        enlarge(&mut self.max_pivot, large);
        // The product of the eigenvalues is the determinant.
        let small = determinant.abs() * (size / large);
        lessen(&mut self.min_pivot, small);
        small
    }

    /// Takes in a pivot of order 2 of a complex symmetric matrix, and gives its smaller singular value.
    pub(super) fn add_complex_two<W: Scalar<Real = f64>>(
        &mut self,
        [d11, d21, d22]: [W; 3],
    ) -> f64 {
        // Scaled, so that no product of two entries overflows.
        let size = d11.modulus().max(d21.modulus()).max(d22.modulus());
        let [a, b, c] = [d11, d21, d22].map(|d| d.over_real(size));
        let determinant = (a * c - b * b).modulus();
        // The product of the singular values is |det|, the sum of their squares that of all entries.
        let squares = [a, b, b, c]
            .map(|d| d.modulus().powi(2))
            .iter()
            .sum::<f64>();
        let difference = (squares * squares - 4.0 * determinant * determinant).max(0.0);
        let large = ((squares + difference.sqrt()) / 2.0).sqrt();
        self.add_range(size * large);
        self.add_range(size * (determinant / large))
    }

    /// Takes in ‖ |L|·|D|·|Lᵀ|·e_k ‖₁ and ‖B·e_k‖₁ of a column.
    #[inline(always)]
    pub(super) fn add_column(&mut self, product: f64, norm: f64) {
        lessen(&mut self.min_norm, norm);
        enlarge(&mut self.max_norm, norm);
        enlarge(&mut self.max_product, product);
        // Divided only where it matters: what is not a number compares as neither.
        let is_usual = product <= self.growth * norm;
        if !is_usual && norm > 0.0 {
            // Overflowed sums tell nothing.
            let growth = if product.is_finite() {
                product / norm
            } else {
                f64::NAN
            };
            self.growth = larger(self.growth, growth);
        }
    }

    /// Adds what was measured of another part of a matrix, where `column` tells which column here is one of that part's.
    pub fn merge(&mut self, part: &Self, column: impl Fn(usize) -> usize) {
        self.inertia.merge(&part.inertia);
        self.num_two += part.num_two;
        self.num_delayed += part.num_delayed;
        self.num_zero += part.num_zero;
        let first = [self.first_zero, part.first_zero.map(column)];
        self.first_zero = first.into_iter().flatten().min();
        self.max_l = larger(self.max_l, part.max_l);
        self.min_pivot = self.min_pivot.min(part.min_pivot);
        self.max_pivot = self.max_pivot.max(part.max_pivot);
        self.min_relative_pivot = self.min_relative_pivot.min(part.min_relative_pivot);
        self.growth = larger(self.growth, part.growth);
        self.max_product = larger(self.max_product, part.max_product);
        self.min_norm = self.min_norm.min(part.min_norm);
        self.max_norm = self.max_norm.max(part.max_norm);
        self.num_first_pass += part.num_first_pass;
        self.num_second_pass += part.num_second_pass;
    }
}

impl Report for SymmetricQuality {
    fn encode(&self) -> Vec<u64> {
        let Self {
            inertia,
            num_two,
            num_delayed,
            num_perturbed,
            first_perturbed,
            num_zero,
            first_zero,
            max_l,
            min_pivot,
            max_pivot,
            min_relative_pivot,
            growth,
            max_product,
            min_norm,
            max_norm,
            num_first_pass,
            num_second_pass,
        } = *self;
        let sizes = [
            max_l,
            min_pivot,
            max_pivot,
            min_relative_pivot,
            growth,
            max_product,
            min_norm,
            max_norm,
        ];
        let counts = [
            inertia.positive,
            inertia.negative,
            inertia.zero,
            num_two,
            num_delayed,
            num_perturbed,
            first_perturbed.unwrap_or(usize::MAX),
            num_zero,
            first_zero.unwrap_or(usize::MAX),
            num_first_pass,
            num_second_pass,
        ];
        let sizes = sizes.iter().map(|size| size.to_bits());
        sizes.chain(counts.map(|count| count as u64)).collect()
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let (sizes, counts) = words.split_first_chunk::<8>()?;
        let counts: &[u64; 11] = counts.try_into().ok()?;
        let column = |word: u64| (word != u64::MAX).then_some(word as usize);
        let [first_perturbed, first_zero] = [counts[6], counts[8]].map(column);
        let sizes = sizes.map(f64::from_bits);
        let counts = counts.map(|count| count as usize);
        Some(Self {
            inertia: Inertia {
                positive: counts[0],
                negative: counts[1],
                zero: counts[2],
            },
            num_two: counts[3],
            num_delayed: counts[4],
            num_perturbed: counts[5],
            first_perturbed,
            num_zero: counts[7],
            first_zero,
            max_l: sizes[0],
            min_pivot: sizes[1],
            max_pivot: sizes[2],
            min_relative_pivot: sizes[3],
            growth: sizes[4],
            max_product: sizes[5],
            min_norm: sizes[6],
            max_norm: sizes[7],
            num_first_pass: counts[9],
            num_second_pass: counts[10],
        })
    }

    fn merge_fronts(&mut self, part: &Self) {
        self.merge(part, |column| column);
    }

    fn keep(&mut self) {}

    fn delays_and_growth(&self) -> (usize, f64) {
        (self.num_delayed, self.growth)
    }
}
