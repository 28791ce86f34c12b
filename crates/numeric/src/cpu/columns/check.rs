//! Growth and checksum of a factorization, column by column.
//!
//! With w a vector of ±1, s_j = Σ_i |L(i,j)| and t_j = Σ_i w_i·L(i,j), both with the unit diagonal, column
//! k of |L|·|U| sums up to Σ_j s_j·|U(j,k)|, and wᵀ·(B − L·U)·e_k = wᵀ·B·e_k − Σ_j t_j·U(j,k): two
//! multiplications and additions for each entry of U, two additions for each of L.

use luge_sparse::{Quality, RealScalar, Scalar, enlarge, lessen};
use rayon::prelude::*;

use super::changed::Measured;

/// `value` times ±1, pseudo-random by row: a bit of a Weyl sequence goes to the sign.
#[inline(always)]
pub(super) fn weighted<W: Scalar>(row: u32, value: W) -> W {
    value.negated_by(u64::from(row).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Whether `weighted` changes the sign in this row: 0 or 1.
pub(super) fn is_negative(row: u32) -> u32 {
    u32::from(weighted(row, 1.0) < 0.0)
}

/// What is known of column j of L once it is done. `W`: the [wide](Scalar::Wide) type of its field.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums<W> {
    /// s_j.
    pub(super) magnitude: f64,
    /// t_j.
    pub(super) weighted: W,
}

impl<W: Scalar<Real = f64>> Sums<W> {
    /// Those of a column that is but its unit diagonal.
    #[inline(always)]
    pub(super) fn unit(row: u32) -> Self {
        Self {
            magnitude: 1.0,
            weighted: weighted(row, W::one()),
        }
    }

    /// Entry `value` of L in row `row`.
    #[inline(always)]
    pub(super) fn entry(&mut self, row: u32, value: W) {
        self.magnitude += value.magnitude();
        self.weighted += weighted(row, value);
    }
}

/// What is summed up over column k of U while it is computed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ColumnCheck<W> {
    /// ‖B·e_k‖₁.
    pub(super) norm: f64,
    /// ‖|L|·|U|·e_k‖₁.
    pub(super) product: f64,
    /// wᵀ·(B − L·U)·e_k.
    pub(super) residual: W,
}

impl<W: Scalar<Real = f64>> ColumnCheck<W> {
    /// Entry `value` of B in row `row`.
    #[inline(always)]
    pub(super) fn entry(&mut self, row: u32, value: W) {
        self.norm += value.magnitude();
        self.residual += weighted(row, value);
    }

    /// As [`entry`](Self::entry), for a row with weight −1 if the lowest bit of `negative` is set.
    #[inline(always)]
    pub(super) fn entry_signed(&mut self, negative: u32, value: W) {
        self.norm += value.magnitude();
        self.residual += value.negated_by(u64::from(negative) << 63);
    }

    /// Entry U(j, k), where `sums` are those of column j of L.
    #[inline(always)]
    pub(super) fn upper(&mut self, sums: Sums<W>, u: W) {
        self.product += sums.magnitude * u.magnitude();
        self.residual -= sums.weighted * u;
    }
}

/// The report, as it grows. Columns may come in any order: the outcome is the same.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// Without what is in [`Extremes`], which the columns leave behind.
    quality: Quality,
    /// First column whose pivot is zero.
    pub(super) zero_pivot: Option<usize>,
}

/// Columns that are looked through side by side.
const LANES: usize = 8;

/// Columns that a thread looks through at a time.
const STRETCH: usize = 1 << 14;

/// What tells of all columns once they are done: a pass through two numbers of each takes less than to compare them while
/// the columns are computed.
struct Extremes {
    max_product: [f64; LANES],
    max_pivot: [f64; LANES],
    min_pivot: [f64; LANES],
    min_relative_pivot: f64,
}

impl Extremes {
    /// Those of columns with these ‖|L|·|U|·e_k‖₁ and pivots, in any order.
    fn of<F: Scalar>(products: &[f64], pivots: &[F]) -> Self {
        let mut extremes = Self {
            max_product: [0.0; LANES],
            max_pivot: [0.0; LANES],
            min_pivot: [f64::INFINITY; LANES],
            min_relative_pivot: f64::INFINITY,
        };
        let (products, last_products) = products.as_chunks::<LANES>();
        let (pivots, last_pivots) = pivots.as_chunks::<LANES>();
        for (products, pivots) in products.iter().zip(pivots) {
            extremes.add(products, pivots.map(|pivot| pivot.magnitude().to_f64()));
        }
        for (&product, pivot) in last_products.iter().zip(last_pivots) {
            extremes.add(&[product], [pivot.magnitude().to_f64()]);
        }
        extremes
    }

    /// Takes in as many columns as there are lanes, or fewer.
    #[inline(always)]
    fn add<const N: usize>(&mut self, products: &[f64; N], pivots: [f64; N]) {
        let least = self.min_relative_pivot;
        let mut is_news = false;
        for lane in 0..N {
            let (product, pivot) = (products[lane], pivots[lane]);
            enlarge(&mut self.max_product[lane], product);
            enlarge(&mut self.max_pivot[lane], pivot);
            lessen(&mut self.min_pivot[lane], pivot);
            is_news |= pivot < least * product;
        }
        // Divided only where it matters.
        if is_news {
            for (product, pivot) in products.iter().zip(pivots) {
                self.min_relative_pivot = self.min_relative_pivot.min(pivot / product);
            }
        }
    }

    fn join(mut self, other: Self) -> Self {
        for lane in 0..LANES {
            enlarge(&mut self.max_product[lane], other.max_product[lane]);
            enlarge(&mut self.max_pivot[lane], other.max_pivot[lane]);
            lessen(&mut self.min_pivot[lane], other.min_pivot[lane]);
        }
        self.min_relative_pivot = self.min_relative_pivot.min(other.min_relative_pivot);
        self
    }

    fn tell(&self, quality: &mut Quality) {
        quality.max_product = self.max_product.into_iter().fold(0.0, f64::max);
        quality.max_pivot = self.max_pivot.into_iter().fold(0.0, f64::max);
        quality.min_pivot = self.min_pivot.into_iter().fold(f64::INFINITY, f64::min);
        quality.min_relative_pivot = self.min_relative_pivot;
    }
}

impl Report {
    /// That of no columns: any growth is larger.
    pub(super) fn new() -> Self {
        Self {
            quality: Quality {
                growth: 0.0,
                ..Quality::default()
            },
            zero_pivot: None,
        }
    }

    /// Column `k` is done; `check` includes its pivot.
    #[inline(always)]
    pub(super) fn column<W: Scalar<Real = f64>>(&mut self, k: usize, check: &ColumnCheck<W>) {
        let residual = check.residual.magnitude();
        self.quality
            .add_column(k, check.norm, check.product, residual);
    }

    /// Magnitudes of the pivot of a refactorization and of the pivot that was there before.
    #[inline(always)]
    pub(super) fn renewed(&mut self, new: f64, old: f64) {
        self.quality.add_pivot_ratio(new, old);
    }

    /// A pivot was replaced.
    #[cold]
    pub(super) fn perturbed(&mut self, k: usize) {
        self.quality.add_perturbed(k);
    }

    /// A pivot is zero.
    #[cold]
    pub(super) fn zero_pivot(&mut self, k: usize) {
        self.zero_pivot = Some(self.zero_pivot.map_or(k, |first| first.min(k)));
    }

    /// A pivot was not taken from the diagonal.
    #[cold]
    pub(super) fn off_diagonal(&mut self) {
        self.quality.num_off_diagonal += 1;
    }

    /// Takes over the report on other columns of the matrix.
    pub(super) fn join(&mut self, other: &Self) {
        let (first_worst, first_perturbed) =
            (self.quality.worst_column, self.quality.first_perturbed);
        let tie = self.quality.growth == other.quality.growth;
        self.quality.merge(&other.quality, |column| column);
        if tie {
            self.quality.worst_column = first_worst.min(other.quality.worst_column);
        }
        self.quality.first_perturbed = match (first_perturbed, other.quality.first_perturbed) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.zero_pivot = match (self.zero_pivot, other.zero_pivot) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// The report on a matrix whose columns have these ‖|L|·|U|·e_k‖₁ and pivots; `measured` is the rest, if it was
    /// kept and not [reported](Self::column) of each.
    pub(super) fn finish<F: Scalar>(
        mut self,
        products: &[f64],
        pivots: &[F],
        measured: Option<&[Measured]>,
        threads: usize,
    ) -> Quality {
        let measured = measured
            .unwrap_or_default()
            .iter()
            .zip(products)
            .enumerate();
        for (k, (&Measured { norm, residual }, &product)) in measured {
            self.quality.add_column(k, norm, product, residual);
        }
        let extremes = if threads > 1 && products.len() > STRETCH {
            let products = products.par_chunks(STRETCH);
            let stretches = products.zip(pivots.par_chunks(STRETCH));
            stretches
                .map(|(products, pivots)| Extremes::of(products, pivots))
                .reduce(|| Extremes::of::<F>(&[], &[]), Extremes::join)
        } else {
            Extremes::of(products, pivots)
        };
        extremes.tell(&mut self.quality);
        if products.is_empty() {
            self.quality.growth = 1.0;
        }
        self.quality
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(norm: f64, product: f64, residual: f64) -> ColumnCheck<f64> {
        ColumnCheck {
            norm,
            product,
            residual,
        }
    }

    #[test]
    fn what_overflows_is_told_even_where_the_norm_does_too() {
        let mut report = Report::new();
        report.column(0, &check(2.0, 4.0, 1e-16));
        report.column(1, &check(f64::INFINITY, f64::INFINITY, 0.0));
        assert!(
            !report
                .finish(&[4.0, f64::INFINITY], &[2.0, 1.0], None, 1)
                .is_finite()
        );
    }

    #[test]
    fn extremes_are_those_of_all_columns() {
        // More than a stretch, and some beside the lanes.
        for n in [1, 7, 8, 13, 2 * STRETCH + 5] {
            for at in [0, n / 2, n - 1] {
                let (mut products, mut pivots) = (vec![3.0; n], vec![-2.0; n]);
                (products[at], pivots[at]) = (6.0, 1.5);
                for threads in [1, 2] {
                    let quality = Report::new().finish(&products, &pivots, None, threads);
                    let largest = if n == 1 { 1.5 } else { 2.0 };
                    assert_eq!(quality.max_product, 6.0, "{n}, {at}");
                    assert_eq!((quality.min_pivot, quality.max_pivot), (1.5, largest));
                    assert_eq!(quality.min_relative_pivot, 0.25);
                }
            }
        }
        let empty = Report::new().finish::<f64>(&[], &[], None, 1);
        assert_eq!(empty, Quality::default());
    }
}
