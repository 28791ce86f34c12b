//! What a static factorization reports of its pivots.

use luge_sparse::RealScalar;

/// What a factorization saw of its pivots.
#[derive(Debug, Clone, PartialEq)]
pub struct PivotReport {
    /// Pivots that were replaced.
    pub num_perturbed: usize,
    /// First column whose pivot was replaced.
    pub first_perturbed: Option<usize>,
    /// Element growth max|U| / max|B|; 1 for an empty matrix. L has no part in it, so it is not the
    /// [growth](luge_sparse::Quality::growth) that bounds errors.
    pub element_growth: f64,
    /// Smallest magnitude of a pivot; infinite for an empty matrix.
    pub min_pivot: f64,
    /// Largest magnitude of a pivot.
    pub max_pivot: f64,
}

/// The numeric factors: one value for each entry of a [`LuPattern`](crate::LuPattern).
#[derive(Debug, Clone, PartialEq)]
pub struct LuValues<T> {
    /// U on and above the diagonal, L below it.
    pub values: Vec<T>,
    /// What happened to the pivots.
    pub pivots: PivotReport,
}

/// Collects a [`PivotReport`] column by column.
pub(crate) struct PivotMonitor {
    max_b: f64,
    max_u: f64,
    report: PivotReport,
}

impl PivotMonitor {
    pub(crate) fn new<T: RealScalar>(b: &[T]) -> Self {
        Self {
            max_b: b
                .iter()
                .fold(0.0, |max, &v| f64::max(max, v.to_f64().abs())),
            max_u: 0.0,
            report: PivotReport {
                num_perturbed: 0,
                first_perturbed: None,
                element_growth: 1.0,
                min_pivot: f64::INFINITY,
                max_pivot: 0.0,
            },
        }
    }

    /// Largest magnitude in B.
    pub(crate) fn max_b(&self) -> f64 {
        self.max_b
    }

    pub(crate) fn upper<T: RealScalar>(&mut self, value: T) {
        self.max_u = self.max_u.max(value.to_f64().abs());
    }

    pub(crate) fn pivot<T: RealScalar>(&mut self, pivot: T) {
        self.upper(pivot);
        let magnitude = pivot.to_f64().abs();
        self.report.min_pivot = self.report.min_pivot.min(magnitude);
        self.report.max_pivot = self.report.max_pivot.max(magnitude);
    }

    pub(crate) fn perturbed(&mut self, column: usize) {
        self.report.num_perturbed += 1;
        self.report.first_perturbed.get_or_insert(column);
    }

    pub(crate) fn finish(mut self) -> PivotReport {
        if self.max_b > 0.0 {
            self.report.element_growth = self.max_u / self.max_b;
        }
        self.report
    }
}
