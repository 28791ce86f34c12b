//! Growth and checksum of a factorization, column by column.
//!
//! With w a vector of ±1, s_j = Σ_i |L(i,j)| and t_j = Σ_i w_i·L(i,j), both with the unit diagonal, column
//! k of |L|·|U| sums up to Σ_j s_j·|U(j,k)|, and wᵀ·(B − L·U)·e_k = wᵀ·B·e_k − Σ_j t_j·U(j,k): two
//! multiplications and additions for each entry of U, two additions for each of L.

use luge_sparse::Quality;

/// ±1, pseudo-random by row.
#[inline(always)]
pub(super) fn weight(row: u32) -> f64 {
    let mixed = row.wrapping_mul(0x9E37_79B1);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85EB_CA77);
    // The sign bit of 1.0.
    f64::from_bits(1.0f64.to_bits() | (u64::from(mixed >> 31) << 63))
}

/// What is known of column j of L once it is done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    /// s_j.
    pub(super) magnitude: f64,
    /// t_j.
    pub(super) weighted: f64,
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
        self.residual += weight(row) * value;
    }

    /// Entry U(j, k), where `sums` are those of column j of L.
    #[inline(always)]
    pub(super) fn upper(&mut self, sums: Sums, u: f64) {
        self.growth += sums.magnitude * u.abs();
        self.residual -= sums.weighted * u;
    }
}

/// The report, as it grows.
pub(super) struct Report(pub(super) Quality);

impl Report {
    /// That of no columns: any growth is larger.
    pub(super) fn new() -> Self {
        Self(Quality {
            growth: 0.0,
            ..Quality::default()
        })
    }

    /// Column `k` is done; `check` includes its pivot.
    #[inline(always)]
    pub(super) fn column(&mut self, k: usize, check: &ColumnCheck, pivot: f64) {
        let quality = &mut self.0;
        // A column of zeros without factors is no growth at all.
        let norm = if check.norm == 0.0 {
            f64::MIN_POSITIVE
        } else {
            check.norm
        };
        let growth = check.growth / norm;
        let checksum = check.residual.abs() / norm;
        if is_worse(growth, quality.growth) {
            quality.growth = growth;
            quality.worst_column = k;
        }
        if is_worse(checksum, quality.checksum) {
            quality.checksum = checksum;
        }
        quality.min_pivot = quality.min_pivot.min(pivot.abs());
        quality.max_pivot = quality.max_pivot.max(pivot.abs());
    }

    /// |new pivot| / |old pivot| of a refactorization.
    #[inline(always)]
    pub(super) fn pivot_ratio(&mut self, ratio: f64) {
        let quality = &mut self.0;
        quality.min_pivot_ratio = quality.min_pivot_ratio.min(ratio);
        quality.max_pivot_ratio = quality.max_pivot_ratio.max(ratio);
    }

    /// A pivot was replaced.
    pub(super) fn perturbed(&mut self, k: usize) {
        self.0.num_perturbed += 1;
        self.0.first_perturbed.get_or_insert(k);
    }

    /// The report on a matrix of `n` columns.
    pub(super) fn finish(mut self, n: usize) -> Quality {
        if n == 0 {
            self.0.growth = 1.0;
        }
        self.0
    }
}

/// Whether `new` is larger than `old`; a NaN is larger than every number.
#[inline(always)]
fn is_worse(new: f64, old: f64) -> bool {
    new > old || (new.is_nan() && !old.is_nan())
}
