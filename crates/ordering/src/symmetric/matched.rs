//! A matching of largest product of a symmetric matrix, also of a structurally singular one.

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};

use crate::matching::{
    NONE, ProductMatching, find_product_matching, logarithms, maximum_cardinality_where,
};

/// The matching, and the symmetric scaling that comes with it.
pub(super) struct Matched {
    /// The row matched to each column, or [`NONE`]. The columns that are matched are also the rows that are.
    pub row_of_col: Vec<u32>,
    /// Logarithms of factors that bring matched entries to one, and none above.
    pub log_scale: Vec<f64>,
    /// Matched columns: the structural rank of the nonzero values.
    pub rank: usize,
    /// Decimal logarithm of the product of the matched entries.
    pub log10_product: f64,
    /// Whether factors outgrew `f64`, so that they do not do what they should.
    pub is_clamped: bool,
}

/// [`Matching::Auto`](crate::Matching::Auto) does not use a matching whose factors, and those of the equilibration, have
/// quotients further apart than 2 to this power.
const WILDEST_SPAN: f64 = 100.0;

impl Matched {
    /// Whether the factors differ so much from those with these logarithms, which equilibrate the matrix, that what is
    /// small in a row of the one scaled matrix would be large in a row of the other.
    pub fn is_wild(&self, equilibrated: &[f64]) -> bool {
        let quotients = self.log_scale.iter().zip(equilibrated).map(|(x, y)| x - y);
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (least, most) = quotients.fold(ends, |(least, most), log| {
            (f64::min(least, log), f64::max(most, log))
        });
        most - least > WILDEST_SPAN
    }
}

/// The geometric means of row and column factors (Duff and Pralet 2005, section 3).
fn symmetrized(matching: &ProductMatching) -> Vec<f64> {
    let scaling = &matching.scaling;
    let factors = scaling.rows.iter().zip(&scaling.cols);
    factors.map(|(r, c)| (r.log2() + c.log2()) / 2.0).collect()
}

/// Matches the symmetric matrix of finite values. If it is structurally singular, the matching of largest product is that
/// of A(I, I), where I are the rows of a matching of largest cardinality: this block is structurally nonsingular (Duff and
/// Pralet 2005, property 4.2). The factors of the other rows make their largest entry one. None if that block has no
/// matching, since the values are not symmetric.
///
/// # Errors
///
/// [`Cancelled`].
pub(super) fn matched(
    a: &CompressedPattern,
    values: &[f64],
    parallel: bool,
    cancel: &CancelFlag,
) -> Result<Option<Matched>, Cancelled> {
    if let Some(found) = find_product_matching(a, values, parallel, cancel)? {
        return Ok(Some(Matched {
            log_scale: symmetrized(&found),
            rank: found.num_matched,
            log10_product: found.log10_product,
            is_clamped: found.num_clamped > 0,
            row_of_col: found.row_of_col,
        }));
    }
    let n = a.major_dim();
    let largest = maximum_cardinality_where(a, |p| values[p] != 0.0, cancel)?;
    let is_matched = |row: &u32| largest.col_of_row(*row as usize).is_some();
    let rows: Vec<u32> = (0..n as u32).filter(is_matched).collect();
    let (block, block_values) = principal_block(a, values, &rows);
    let Some(found) = find_product_matching(&block, &block_values, parallel, cancel)? else {
        return Ok(None);
    };
    let mut row_of_col = vec![NONE; n];
    let mut log_scale = vec![f64::NAN; n];
    for ((&col, &row), log) in rows.iter().zip(&found.row_of_col).zip(symmetrized(&found)) {
        row_of_col[col as usize] = rows[row as usize];
        log_scale[col as usize] = log;
    }
    scale_others(a, values, &mut log_scale);
    Ok(Some(Matched {
        row_of_col,
        log_scale,
        rank: rows.len(),
        log10_product: found.log10_product,
        is_clamped: found.num_clamped > 0,
    }))
}

/// The rows and columns `rows`, which are increasing.
fn principal_block(
    a: &CompressedPattern,
    values: &[f64],
    rows: &[u32],
) -> (CompressedPattern, Vec<f64>) {
    let mut new_index = vec![NONE; a.major_dim()];
    for (new, &old) in (0..).zip(rows) {
        new_index[old as usize] = new;
    }
    let (mut ptr, mut idx, mut kept) = (vec![0], Vec::new(), Vec::new());
    for &row in rows {
        for p in a.range(row as usize) {
            let col = new_index[a.idx()[p] as usize];
            if col != NONE {
                idx.push(col);
                kept.push(values[p]);
            }
        }
        ptr.push(idx.len() as u64);
    }
    let block = CompressedPattern::new(rows.len(), ptr, idx);
    (block.expect("a part of a pattern is a pattern"), kept)
}

/// Gives each row without a factor (NaN) the largest with which none of its entries is above one.
fn scale_others(a: &CompressedPattern, values: &[f64], log_scale: &mut [f64]) {
    let mut logs = Vec::new();
    for row in 0..a.major_dim() {
        if !log_scale[row].is_nan() {
            continue;
        }
        let range = a.range(row);
        logs.resize(range.len(), 0.0);
        logarithms(&values[range.clone()], &mut logs);
        let mut largest = f64::NEG_INFINITY;
        for (&col, &log) in a.idx()[range].iter().zip(&logs) {
            let with = if col as usize == row {
                log / 2.0
            } else {
                // Not a number, and so no maximum, if that row gets its factor later.
                log + log_scale[col as usize]
            };
            largest = largest.max(with);
        }
        log_scale[row] = if largest.is_finite() { -largest } else { 0.0 };
    }
}
