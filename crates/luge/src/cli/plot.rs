//! `--plot`: pictures of a matrix and of its factors, as SVG.

use std::path::{Path, PathBuf};

use luge::{FilledPattern, Levels};
use luge_plot::spy::Spy;
use luge_plot::{Drawing, DrawingFailed, histogram, spy};
use luge_sparse::CompressedPattern;

use super::report::grouped;
use super::{Failure, files, print};

/// A file for a picture. That its name must end in `.svg` keeps a matrix that stands behind `--plot` from being
/// overwritten.
pub(crate) fn file(name: &str) -> Result<PathBuf, String> {
    if name.is_empty() || name.ends_with(".svg") {
        Ok(PathBuf::from(name))
    } else {
        Err("the name of a picture ends in .svg".to_owned())
    }
}

/// The file that is named, or if none is, one here that is named after the matrix.
pub(crate) fn file_or_after(path: &Path, matrix: Option<&Path>) -> PathBuf {
    if !path.as_os_str().is_empty() {
        return path.to_path_buf();
    }
    let name = matrix
        .and_then(Path::file_name)
        .unwrap_or("sample".as_ref());
    let name = name.to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let suffixes = [".mtx", ".rb", ".hb", ".npz"];
    let stem = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
    let name = stem.unwrap_or(name);
    PathBuf::from(format!("{name}.analysis.svg"))
}

fn write(path: &Path, drawing: Result<Drawing, DrawingFailed>) -> Result<(), Failure> {
    let drawing = drawing.map_err(Failure::other)?;
    let svg = drawing.standalone();
    files::write(path, |to| to.put(&svg))?;
    print::line(format_args!("picture: {}", path.display()))
}

/// Draws where a matrix has entries.
pub(crate) fn matrix(path: &Path, rows: &CompressedPattern) -> Result<(), Failure> {
    let count = grouped(rows.nnz() as u64);
    let caption = format!(
        "{} rows, {} columns, {count} entries",
        grouped(rows.major_dim() as u64),
        grouped(rows.minor_dim() as u64)
    );
    let drawing = spy::drawing(&Spy {
        rows,
        title: "A",
        caption: &caption,
        blocks: &[],
        is_factors: false,
    });
    write(path, drawing)
}

/// Draws where the factors have entries, with the supernodes, and how many columns each level has.
pub(crate) fn analysis(
    path: &Path,
    nnz: usize,
    filled: &FilledPattern,
    levels: &Levels,
) -> Result<(), Failure> {
    let options = luge_supernode::Options::default();
    let supernodes = luge_supernode::cpu::supernodes(filled, &options);
    let fill = filled.nnz() as f64 / nnz.max(1) as f64;
    let title = format!(
        "L and U: {} entries, {fill:.1} times those of A",
        grouped(filled.nnz() as u64)
    );
    let caption = format!(
        "L below the diagonal, U above; {} supernodes, those wide enough to be seen framed",
        grouped(supernodes.len() as u64)
    );
    let drawing = Drawing::new(1140, 602, |canvas| {
        let (left, right) = canvas.split_horizontally(560);
        spy::draw(
            &left,
            &Spy {
                rows: filled.rows(),
                title: &title,
                caption: &caption,
                blocks: supernodes.ptr(),
                is_factors: true,
            },
        )?;
        histogram::draw(&right, levels)
    });
    write(path, drawing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_no_picture() {
        assert!(file("A.mtx").is_err());
        assert_eq!(file("a.svg"), Ok(PathBuf::from("a.svg")));
        assert_eq!(file(""), Ok(PathBuf::new()));
    }

    #[test]
    fn a_picture_without_a_name_is_named_after_the_matrix() {
        let named = |path: &str, matrix: Option<&str>| {
            file_or_after(Path::new(path), matrix.map(Path::new))
        };
        assert_eq!(named("p.svg", Some("x/A.mtx")), Path::new("p.svg"));
        assert_eq!(named("", Some("x/A.mtx.gz")), Path::new("A.analysis.svg"));
        assert_eq!(named("", None), Path::new("sample.analysis.svg"));
    }
}
