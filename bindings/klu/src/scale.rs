//! Row scaling: `klu_scale`, and the scale factors of factorizations.

use crate::call::{Field, guarded};
use crate::input::{Columns, array, array_mut};
use crate::layout::{Common, Integer};

/// What rows are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scaling {
    None,
    /// The sum of the magnitudes of a row.
    Sum,
    /// The largest magnitude of a row.
    Largest,
}

impl Scaling {
    /// As `klu_common->scale` says it.
    pub(crate) fn of(scale: i64) -> Self {
        match scale {
            ..=0 => Self::None,
            1 => Self::Sum,
            _ => Self::Largest,
        }
    }

    pub(crate) fn is_wanted(self) -> bool {
        self != Self::None
    }
}

/// What the rows of a matrix are divided by: 1 for a row of zeros.
pub(crate) fn scale_factors<I: Integer, F: Field>(
    scaling: Scaling,
    columns: Columns<'_, I>,
    values: &[F],
) -> Vec<f64> {
    let mut factors = vec![0.0; columns.n()];
    for (row, value) in columns.idx.iter().zip(values) {
        let factor: &mut f64 = &mut factors[row.to_i64() as usize];
        let size = value.modulus();
        match scaling {
            Scaling::Sum => *factor += size,
            // NaN is in no maximum; the search for pivots finds it.
            _ if size > *factor => *factor = size,
            _ => {}
        }
    }
    for factor in &mut factors {
        if *factor == 0.0 {
            *factor = 1.0;
        }
    }
    factors
}

/// `klu_scale`: checks a matrix and finds the scale factors of its rows.
///
/// # Safety
///
/// `common` as [`Control::new`](crate::call::Control::new); the arrays as [`Columns::new`], with a value for each entry; `rs` is
/// null or room for n numbers.
pub(crate) unsafe fn scale<I: Integer, F: Field>(
    (scale, n): (I, I),
    (ap, ai, ax): (*const I, *const I, *const F),
    (rs, work): (*mut f64, *mut I),
    common: *mut Common<I>,
) -> I {
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, I::of_code(0), |_| {
            if scale.to_i64() < 0 {
                return Ok(I::of_code(1));
            }
            let columns = Columns::new(n, ap, ai)?;
            let values = array(ax, columns.idx.len())?;
            let scaling = Scaling::of(scale.to_i64());
            if !work.is_null() {
                // Entries that come twice are looked for where there is room to do so, as in KLU.
                columns.sorted()?;
            }
            if scaling.is_wanted() {
                let rs = array_mut(rs, columns.n())?;
                rs.copy_from_slice(&scale_factors(scaling, columns, values));
            }
            Ok(I::of_code(1))
        })
    }
}
