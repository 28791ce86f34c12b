//! `luge info`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::{Table, presets};
use luge::CancelFlag;
use luge::ordering::{block_triangular, maximum_cardinality};
use luge_matrix_io::{Matrix, MatrixData, read};
use luge_sparse::CompressedPattern;

#[cfg(feature = "plot")]
use super::files::Files;
use super::report::grouped;
use super::{Failure, memory, print};

#[derive(Args)]
pub(crate) struct Arguments {
    /// File of the matrix: Matrix Market, Rutherford-Boeing or Harwell-Boeing, plain or gzip, or SciPy's .npz; told apart
    /// by what they contain. Any field, any shape.
    #[arg(value_name = "A.mtx")]
    matrix: PathBuf,
    /// Draw where it has entries, as SVG.
    #[cfg(feature = "plot")]
    #[arg(long, value_name = "FILE.svg", value_parser = super::plot::file)]
    plot: Option<PathBuf>,
    /// Overwrite files that exist.
    #[cfg(feature = "plot")]
    #[arg(long)]
    force: bool,
}

/// Bytes that the description takes for each row and column, roughly.
const BYTES_PER_ROW: u64 = 40;

/// A row or column with more entries than this times √n, and more than 16, counts as dense: the
/// rule of AMD.
const DENSE_FACTOR: f64 = 10.0;

pub(crate) fn describe(arguments: &Arguments) -> Result<ExitCode, Failure> {
    #[cfg(feature = "plot")]
    Files::default()
        .read("the matrix", Some(&arguments.matrix))
        .written("--plot", arguments.plot.as_deref())
        .check(arguments.force)?;
    let matrix = read(&arguments.matrix).map_err(Failure::bad_input)?;
    let (nrows, ncols) = matrix.shape();
    let bytes = (nrows as u64 + ncols as u64) * BYTES_PER_ROW;
    let size = format!(
        "a matrix of {} × {}",
        grouped(nrows as u64),
        grouped(ncols as u64)
    );
    memory::check(&size, bytes)?;
    let rows = matrix.pattern();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (what, value) in facts(&matrix, &rows) {
        table.add_row([what, &value]);
    }
    print::line(arguments.matrix.display())?;
    print::line(table)?;
    #[cfg(feature = "plot")]
    if let Some(path) = &arguments.plot {
        super::plot::matrix(path, &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Values as pairs of real and imaginary part, in the order of the rows; none for a pattern.
fn values(matrix: &Matrix) -> Option<Vec<[f64; 2]>> {
    match &matrix.data {
        MatrixData::Real(a) => Some(a.data().iter().map(|&v| [v, 0.0]).collect()),
        MatrixData::Complex(a) => Some(a.data().iter().map(|v| [v.re, v.im]).collect()),
        MatrixData::Pattern(_) => None,
    }
}

fn facts(matrix: &Matrix, rows: &CompressedPattern) -> Vec<(&'static str, String)> {
    let (nrows, ncols) = matrix.shape();
    let cols = rows.transpose();
    let values = values(matrix);
    let mut facts = vec![
        (
            "size",
            format!("{} × {}", grouped(nrows as u64), grouped(ncols as u64)),
        ),
        (
            "entries",
            format!(
                "{}, {} stored in the file",
                grouped(rows.nnz() as u64),
                grouped(matrix.stored)
            ),
        ),
        ("file", matrix.header.file.to_string()),
        (
            "kind",
            format!(
                "{} {} {}",
                matrix.header.format, matrix.header.field, matrix.header.symmetry
            ),
        ),
        ("rows", lines(rows)),
        ("columns", lines(&cols)),
    ];
    if nrows == ncols {
        facts.push(("symmetry", symmetry(rows, values.as_deref())));
        facts.push(("diagonal", diagonal(rows, values.as_deref())));
    }
    if let Some(values) = &values {
        facts.push(("magnitudes", magnitudes(values)));
    }
    facts.push(("structural rank", structural_rank(rows)));
    if let Some(b) = &matrix.rhs {
        facts.push(("right-hand sides", grouped(b.ncols() as u64)));
    }
    facts
}

/// Empty, dense and longest lines of a pattern.
fn lines(pattern: &CompressedPattern) -> String {
    let longest = pattern.lines().map(<[u32]>::len).max().unwrap_or(0);
    let empty = pattern.lines().filter(|line| line.is_empty()).count();
    let dense = f64::max(16.0, DENSE_FACTOR * (pattern.minor_dim() as f64).sqrt()) as usize;
    let num_dense = pattern.lines().filter(|line| line.len() > dense).count();
    format!(
        "longest {}, {} empty, {} dense (more than {} entries)",
        grouped(longest as u64),
        grouped(empty as u64),
        grouped(num_dense as u64),
        grouped(dense as u64)
    )
}

/// Shares of the off-diagonal entries that have a mirror image, an equal one, and in a complex matrix a conjugate one.
fn symmetry(rows: &CompressedPattern, values: Option<&[[f64; 2]]>) -> String {
    let (mut off_diagonal, mut mirrored, mut equal, mut conjugate) = (0u64, 0u64, 0u64, 0u64);
    for (i, row) in rows.lines().enumerate() {
        for (&j, p) in row.iter().zip(rows.range(i)) {
            if j as usize == i {
                continue;
            }
            off_diagonal += 1;
            if let Ok(at) = rows.line(j as usize).binary_search(&(i as u32)) {
                mirrored += 1;
                let mirror = rows.range(j as usize).start + at;
                equal += u64::from(values.is_some_and(|v| v[p] == v[mirror]));
                let is_conjugate = |v: &[[f64; 2]]| v[p] == [v[mirror][0], -v[mirror][1]];
                conjugate += u64::from(values.is_some_and(is_conjugate));
            }
        }
    }
    let share = |count: u64| {
        if off_diagonal == 0 {
            1.0
        } else {
            count as f64 / off_diagonal as f64
        }
    };
    let mut shares = format!("structural {:.3}", share(mirrored));
    if values.is_some() {
        shares += &format!(", numeric {:.3}", share(equal));
    }
    if values.is_some_and(|values| values.iter().any(|v| v[1] != 0.0)) {
        shares += &format!(", Hermitian {:.3}", share(conjugate));
    }
    shares
}

fn diagonal(rows: &CompressedPattern, values: Option<&[[f64; 2]]>) -> String {
    let (mut missing, mut zero) = (0u64, 0u64);
    for (i, row) in rows.lines().enumerate() {
        match row.binary_search(&(i as u32)) {
            Err(_) => missing += 1,
            Ok(at) => {
                let p = rows.range(i).start + at;
                zero += u64::from(values.is_some_and(|v| v[p] == [0.0, 0.0]));
            }
        }
    }
    format!(
        "{} not stored, {} stored zeros",
        grouped(missing),
        grouped(zero)
    )
}

fn magnitudes(values: &[[f64; 2]]) -> String {
    let (mut zeros, mut bad) = (0u64, 0u64);
    let (mut smallest, mut largest) = (f64::INFINITY, 0.0f64);
    for &[re, im] in values {
        let magnitude = re.hypot(im);
        if !magnitude.is_finite() {
            bad += 1;
        } else if magnitude == 0.0 {
            zeros += 1;
        } else {
            smallest = smallest.min(magnitude);
            largest = largest.max(magnitude);
        }
    }
    let range = if largest > 0.0 {
        format!("{smallest:.2e} to {largest:.2e}")
    } else {
        "none".into()
    };
    format!(
        "{range}, {} stored zeros, {} NaN or infinite",
        grouped(zeros),
        grouped(bad)
    )
}

fn structural_rank(rows: &CompressedPattern) -> String {
    let matching = maximum_cardinality(rows, &CancelFlag::new())
        .unwrap_or_else(|_| unreachable!("nobody else holds the flag"));
    let rank = matching.num_matched();
    match matching.into_perfect() {
        Some(row_of_col) => {
            let blocks = block_triangular(rows, &row_of_col).block_ptr.len() - 1;
            format!(
                "{}, full; {} diagonal blocks",
                grouped(rank as u64),
                grouped(blocks as u64)
            )
        }
        None => grouped(rank as u64),
    }
}
