//! Growth and checksum of a factorization, column by column.
//!
//! With w a vector of ±1, s_j = Σ_i |L(i,j)| and t_j = Σ_i w_i·L(i,j), both with the unit diagonal, column
//! k of |L|·|U| sums up to Σ_j s_j·|U(j,k)|, and wᵀ·(B − L·U)·e_k = wᵀ·B·e_k − Σ_j t_j·U(j,k): two
//! multiplications and additions for each entry of U, two additions for each of L.

use luge_sparse::Quality;

/// `value` times ±1, pseudo-random by row: a bit of a Weyl sequence goes to the sign.
#[inline(always)]
pub(super) fn weighted(row: u32, value: f64) -> f64 {
    let sign = u64::from(row).wrapping_mul(0x9E37_79B9_7F4A_7C15) & (1 << 63);
    f64::from_bits(value.to_bits() ^ sign)
}

/// Whether `weighted` changes the sign in this row: 0 or 1.
pub(super) fn is_negative(row: u32) -> u32 {
    u32::from(weighted(row, 1.0) < 0.0)
}

/// What is known of column j of L once it is done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    /// s_j.
    pub(super) magnitude: f64,
    /// t_j.
    pub(super) weighted: f64,
}

impl Sums {
    /// Those of a column that is but its unit diagonal.
    #[inline(always)]
    pub(super) fn unit(row: u32) -> Self {
        Self {
            magnitude: 1.0,
            weighted: weighted(row, 1.0),
        }
    }

    /// Entry `value` of L in row `row`.
    #[inline(always)]
    pub(super) fn entry(&mut self, row: u32, value: f64) {
        self.magnitude += value.abs();
        self.weighted += weighted(row, value);
    }
}

/// What is summed up over column k of U while it is computed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ColumnCheck {
    /// ‖B·e_k‖₁.
    pub(super) norm: f64,
    /// ‖|L|·|U|·e_k‖₁.
    pub(super) growth: f64,
    /// wᵀ·(B − L·U)·e_k.
    pub(super) residual: f64,
}

impl ColumnCheck {
    /// Entry `value` of B in row `row`.
    #[inline(always)]
    pub(super) fn entry(&mut self, row: u32, value: f64) {
        self.norm += value.abs();
        self.residual += weighted(row, value);
    }

    /// As [`entry`](Self::entry), for a row with weight −1 if the lowest bit of `negative` is set.
    #[inline(always)]
    pub(super) fn entry_signed(&mut self, negative: u32, value: f64) {
        self.norm += value.abs();
        self.residual += f64::from_bits(value.to_bits() ^ (u64::from(negative) << 63));
    }

    /// Entry U(j, k), where `sums` are those of column j of L.
    #[inline(always)]
    pub(super) fn upper(&mut self, sums: Sums, u: f64) {
        self.growth += sums.magnitude * u.abs();
        self.residual -= sums.weighted * u;
    }
}

/// The report, as it grows. Columns may come in any order: the outcome is the same.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// Without what is in `most` and `least`.
    quality: Quality,
    /// max_product, max_residual, max_norm, max_pivot: side by side, since every column is compared with all of them.
    most: [f64; 4],
    /// min_norm, min_pivot.
    least: [f64; 2],
    /// NaN once a sum was infinite or not a number, else zero.
    poison: f64,
    /// First column whose pivot is zero.
    pub(super) zero_pivot: Option<usize>,
}

/// Enlarges each of `most` to the number beside it.
#[inline(always)]
fn enlarge<const N: usize>(most: &mut [f64; N], numbers: [f64; N]) {
    for (most, number) in most.iter_mut().zip(numbers) {
        *most = if number > *most { number } else { *most };
    }
}

/// Likewise to the smaller number.
#[inline(always)]
fn lessen<const N: usize>(least: &mut [f64; N], numbers: [f64; N]) {
    for (least, number) in least.iter_mut().zip(numbers) {
        *least = if number < *least { number } else { *least };
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
            most: [0.0; 4],
            least: [f64::INFINITY; 2],
            poison: 0.0,
            zero_pivot: None,
        }
    }

    /// Column `k` is done; `check` includes its pivot.
    #[inline(always)]
    pub(super) fn column(&mut self, k: usize, check: &ColumnCheck, pivot: f64) {
        let quality = &mut self.quality;
        let (residual, pivot) = (check.residual.abs(), pivot.abs());
        self.poison += (check.growth + residual) * 0.0;
        let most = [check.growth, residual, check.norm, pivot];
        enlarge(&mut self.most, most);
        lessen(&mut self.least, [check.norm, pivot]);
        // Divided, and looked at one by one, only where it matters.
        let is_news = (check.growth >= quality.growth * check.norm)
            | (residual > quality.checksum * check.norm)
            | (pivot < quality.min_relative_pivot * check.growth);
        if is_news {
            self.relate(k, check, pivot);
        }
    }

    /// What is relative to column `k`, if it is worse than in all before.
    #[cold]
    fn relate(&mut self, k: usize, check: &ColumnCheck, pivot: f64) {
        let quality = &mut self.quality;
        let growth = check.growth / check.norm;
        if growth > quality.growth || (growth == quality.growth && k < quality.worst_column) {
            quality.growth = growth;
            quality.worst_column = k;
        }
        quality.checksum = quality.checksum.max(check.residual.abs() / check.norm);
        quality.min_relative_pivot = quality.min_relative_pivot.min(pivot / check.growth);
    }

    /// Magnitudes of the pivot of a refactorization and of the pivot that was there before.
    #[inline(always)]
    pub(super) fn renewed(&mut self, new: f64, old: f64) {
        let quality = &mut self.quality;
        if new < quality.min_pivot_ratio * old {
            quality.min_pivot_ratio = quality.min_pivot_ratio.min(new / old);
        }
        if new > quality.max_pivot_ratio * old {
            quality.max_pivot_ratio = quality.max_pivot_ratio.max(new / old);
        }
    }

    /// A pivot was replaced.
    #[cold]
    pub(super) fn perturbed(&mut self, k: usize) {
        let quality = &mut self.quality;
        quality.num_perturbed += 1;
        let first = quality.first_perturbed.map_or(k, |first| first.min(k));
        quality.first_perturbed = Some(first);
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
        self.quality.merge(&other.quality, 0);
        if tie {
            self.quality.worst_column = first_worst.min(other.quality.worst_column);
        }
        self.quality.first_perturbed = match (first_perturbed, other.quality.first_perturbed) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.poison += other.poison;
        enlarge(&mut self.most, other.most);
        lessen(&mut self.least, other.least);
        self.zero_pivot = match (self.zero_pivot, other.zero_pivot) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// The report on a matrix of `n` columns.
    pub(super) fn finish(mut self, n: usize) -> Quality {
        let quality = &mut self.quality;
        [
            quality.max_product,
            quality.max_residual,
            quality.max_norm,
            quality.max_pivot,
        ] = self.most;
        [quality.min_norm, quality.min_pivot] = self.least;
        if n == 0 {
            self.quality.growth = 1.0;
        }
        if self.poison.is_nan() {
            self.quality.growth = f64::NAN;
            self.quality.checksum = f64::NAN;
        }
        self.quality
    }
}
