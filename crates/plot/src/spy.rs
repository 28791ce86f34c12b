//! Where a pattern has entries.
//!
//! The matrix is divided into at most [`CELLS`] × [`CELLS`] cells. A cell with an entry is drawn, in one of four
//! strengths by the share of its places that have one, on a logarithmic scale: one entry in a large cell is still
//! seen. Cells of one strength beside each other are one rectangle.

use luge_sparse::CompressedPattern;
use plotters::prelude::*;

use crate::palette::{Role, colour};
use crate::{Canvas, Drawing, DrawingFailed};

/// Most cells of a drawing in each direction.
pub const CELLS: usize = 180;

/// Strengths of colour.
const STRENGTHS: [f64; 4] = [0.4, 0.6, 0.8, 1.0];

/// Most frames that are drawn, the largest ones.
const FRAMES: usize = 60;

/// What is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Spy<'a> {
    /// The pattern, by rows.
    pub rows: &'a CompressedPattern,
    /// What stands above it.
    pub title: &'a str,
    /// What stands below it.
    pub caption: &'a str,
    /// Where diagonal blocks begin, and where the last one ends; empty for none. Those that are wide enough to be
    /// seen are framed.
    pub blocks: &'a [u32],
    /// Whether entries below and above the diagonal have colours of their own, as L and U.
    pub is_factors: bool,
}

/// A run of cells of one row and one strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    row: usize,
    cols: [usize; 2],
    strength: usize,
    below: bool,
}

/// The runs of cells that have entries, and the numbers of cells by rows and columns.
fn runs(rows: &CompressedPattern, apart: bool) -> (Vec<Run>, [usize; 2]) {
    let (nrows, ncols) = (rows.major_dim(), rows.minor_dim());
    let cells = [nrows.min(CELLS), ncols.min(CELLS)];
    let mut runs = Vec::new();
    let mut counts = vec![[0u32; 2]; cells[1]];
    for cell in 0..cells[0] {
        let first = (cell * nrows).div_ceil(cells[0]);
        let end = ((cell + 1) * nrows).div_ceil(cells[0]);
        counts.fill([0; 2]);
        for i in first..end {
            for &j in rows.line(i) {
                let below = usize::from(apart && (j as usize) < i);
                counts[j as usize * cells[1] / ncols][below] += 1;
            }
        }
        let places = (end - first) as f64 * ncols as f64 / cells[1] as f64;
        for (col, &[above, below]) in counts.iter().enumerate() {
            let count = above + below;
            if count == 0 {
                continue;
            }
            // A thousandth of a cell and less is the weakest, a full one the strongest.
            let share = (f64::from(count) / places).min(1.0).log10() / 3.0 + 1.0;
            let strength = (share * STRENGTHS.len() as f64).clamp(0.0, 3.0) as usize;
            let next = Run {
                row: cell,
                cols: [col, col + 1],
                strength,
                below: below > above,
            };
            match runs.last_mut() {
                Some(Run {
                    row,
                    cols,
                    strength,
                    below,
                }) if (*row, cols[1], *strength, *below)
                    == (next.row, col, next.strength, next.below) =>
                {
                    cols[1] += 1;
                }
                _ => runs.push(next),
            }
        }
    }
    (runs, cells)
}

/// Draws on a part of a canvas.
///
/// # Errors
///
/// Those of `plotters`.
pub fn draw(canvas: &Canvas<'_>, spy: &Spy<'_>) -> Result<(), DrawingFailed> {
    canvas.fill(&colour(Role::Background))?;
    let (width, height) = canvas.dim_in_pixel();
    let text = |size: u32, role: Role| ("sans-serif", size).into_font().color(&colour(role));
    let title = Text::new(spy.title, (10, 8), text(17, Role::Ink));
    canvas.draw(&title)?;
    let caption = Text::new(spy.caption, (10, height as i32 - 20), text(13, Role::Muted));
    canvas.draw(&caption)?;

    let (nrows, ncols) = (spy.rows.major_dim(), spy.rows.minor_dim());
    let (left, top) = (10.0, 34.0);
    let room = f64::min(f64::from(width) - 20.0, f64::from(height) - 62.0).max(1.0);
    let most = nrows.max(ncols).max(1) as f64;
    let (wide, high) = (room * ncols as f64 / most, room * nrows as f64 / most);
    let (runs, cells) = runs(spy.rows, spy.is_factors);
    let x = |col: usize| (left + wide * col as f64 / cells[1].max(1) as f64).round() as i32;
    let y = |row: usize| (top + high * row as f64 / cells[0].max(1) as f64).round() as i32;
    for run in &runs {
        let series = Role::Series(usize::from(run.below));
        let style = colour(series).mix(STRENGTHS[run.strength]).filled();
        let corners = [
            (x(run.cols[0]), y(run.row)),
            (x(run.cols[1]), y(run.row + 1)),
        ];
        // A cell of less than a pixel is drawn as one.
        let end = (
            corners[1].0.max(corners[0].0 + 1),
            corners[1].1.max(corners[0].1 + 1),
        );
        let cell = Rectangle::new([corners[0], end], style);
        canvas.draw(&cell)?;
    }

    let mut blocks: Vec<[u32; 2]> = spy.blocks.windows(2).map(|w| [w[0], w[1]]).collect();
    blocks.sort_by_key(|[first, end]| first.abs_diff(*end));
    let at = |index: u32| f64::from(index) / most * room;
    for &[first, end] in blocks.iter().rev().take(FRAMES) {
        let (from, to) = (at(first), at(end));
        if to - from < 3.0 {
            break;
        }
        let corner = |d: f64| ((left + d).round() as i32, (top + d).round() as i32);
        let style = colour(Role::Ink).stroke_width(1);
        let frame = Rectangle::new([corner(from), corner(to)], style);
        canvas.draw(&frame)?;
    }
    let corners = [
        (left as i32 - 1, top as i32 - 1),
        ((left + wide) as i32 + 1, (top + high) as i32 + 1),
    ];
    let frame = Rectangle::new(corners, colour(Role::Muted).stroke_width(1));
    Ok(canvas.draw(&frame)?)
}

/// A picture of its own.
///
/// # Errors
///
/// Those of `plotters`.
pub fn drawing(spy: &Spy<'_>) -> Result<Drawing, DrawingFailed> {
    Drawing::new(560, 602, |canvas| draw(canvas, spy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(n: usize, entries: &[(usize, u32)]) -> CompressedPattern {
        let mut ptr = vec![0u64];
        let mut idx = Vec::new();
        for i in 0..n {
            idx.extend(entries.iter().filter(|(row, _)| *row == i).map(|(_, j)| *j));
            ptr.push(idx.len() as u64);
        }
        CompressedPattern::new(n, ptr, idx).expect("sorted rows")
    }

    #[test]
    fn every_entry_of_a_small_matrix_is_a_cell() {
        let a = pattern(4, &[(0, 0), (0, 1), (1, 1), (2, 0), (3, 3)]);
        let (found, cells) = runs(&a, false);
        assert_eq!(cells, [4, 4]);
        let at: Vec<(usize, [usize; 2])> = found.iter().map(|run| (run.row, run.cols)).collect();
        assert_eq!(at, [(0, [0, 2]), (1, [1, 2]), (2, [0, 1]), (3, [3, 4])]);
        assert!(
            found.iter().all(|run| run.strength == 3),
            "each place has its entry"
        );
        let (apart, _) = runs(&a, true);
        assert_eq!(apart.iter().filter(|run| run.below).count(), 1);
    }

    #[test]
    fn one_entry_among_many_is_still_seen() {
        let a = pattern(5000, &[(4999, 4321)]);
        let (found, cells) = runs(&a, false);
        assert_eq!(cells, [CELLS, CELLS]);
        let [run] = found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (run.row, run.cols[0], run.strength),
            (CELLS - 1, 4321 * CELLS / 5000, 0)
        );
    }

    #[test]
    fn every_entry_falls_into_a_cell_that_is_drawn() {
        for n in [1, 2, CELLS - 1, CELLS, CELLS + 1, 2 * CELLS + 1, 1000] {
            let diagonal: Vec<(usize, u32)> = (0..n).map(|i| (i, i as u32)).collect();
            let (found, cells) = runs(&pattern(n, &diagonal), false);
            for run in &found {
                assert!(
                    run.cols[1] <= cells[1] && run.row < cells[0],
                    "{n}: {run:?}"
                );
                assert!(run.row.abs_diff(run.cols[0]) <= 1, "{n}: on the diagonal");
            }
            assert!(found.len() >= cells[0], "{n}");
        }
        assert!(runs(&pattern(0, &[]), false).0.is_empty());
    }

    #[test]
    fn blocks_are_framed_where_they_can_be_seen() {
        let entries: Vec<(usize, u32)> = (0..100).map(|i| (i, i as u32)).collect();
        let a = pattern(100, &entries);
        let frames = |blocks: &[u32]| {
            let spy = Spy {
                rows: &a,
                title: "A",
                caption: "n = 100",
                blocks,
                is_factors: false,
            };
            let svg = drawing(&spy).expect("it is plain").standalone();
            assert!(svg.contains("n = 100"));
            svg.matches("stroke=\"var(--luge-ink)\"").count()
        };
        assert_eq!(frames(&[]), 0);
        assert_eq!(frames(&[0, 50, 100]), 2);
    }
}
