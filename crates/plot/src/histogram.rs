//! How many columns each level has: the shape of the work that goes level by level.
//!
//! More levels than bars share bars, whose height is then the mean of theirs. The scale of the heights is
//! logarithmic, for the first levels of a circuit have thousands of columns and the last ones one each.

use luge_sparse::Levels;
use plotters::prelude::*;

use crate::palette::{Role, colour};
use crate::{Canvas, Drawing, DrawingFailed};

/// Most bars.
const BARS: usize = 240;

/// First level, end, and mean number of columns of each bar.
fn bars(levels: &Levels) -> Vec<(usize, usize, f64)> {
    let count = levels.num_levels();
    let bars = count.min(BARS);
    (0..bars)
        .map(|bar| {
            let (first, end) = (bar * count / bars, (bar + 1) * count / bars);
            let columns: usize = (first..end).map(|level| levels.level(level).len()).sum();
            (first, end, columns as f64 / (end - first) as f64)
        })
        .collect()
}

/// Draws on a part of a canvas.
///
/// # Errors
///
/// Those of `plotters`.
pub fn draw(canvas: &Canvas<'_>, levels: &Levels) -> Result<(), DrawingFailed> {
    canvas.fill(&colour(Role::Background))?;
    let ink = colour(Role::Ink);
    let text = |size: u32| ("sans-serif", size).into_font().color(&ink);
    let (count, widest) = (levels.num_levels(), levels.max_width());
    let title = format!("{count} levels, the widest of {widest} columns");
    let mut chart = ChartBuilder::on(canvas)
        .caption(title, text(17))
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d(
            0.0..count.max(1) as f64,
            (0.8..1.3 * widest.max(1) as f64).log_scale(),
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(colour(Role::Background))
        .bold_line_style(colour(Role::Grid))
        .axis_style(colour(Role::Muted))
        .label_style(text(13))
        .x_desc("level")
        .y_desc("columns")
        .x_label_formatter(&|level| format!("{level:.0}"))
        .y_label_formatter(&|columns| format!("{columns:.0}"))
        .draw()?;
    let style = colour(Role::Series(0)).filled();
    let bars = bars(levels);
    chart.draw_series(bars.into_iter().map(|(first, end, columns)| {
        Rectangle::new([(first as f64, 0.8), (end as f64, columns.max(0.8))], style)
    }))?;
    Ok(())
}

/// A picture of its own.
///
/// # Errors
///
/// Those of `plotters`.
pub fn drawing(levels: &Levels) -> Result<Drawing, DrawingFailed> {
    Drawing::new(560, 360, |canvas| draw(canvas, levels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_all_levels_and_all_columns() {
        for count in [1, 2, BARS, BARS + 1, 5 * BARS + 3] {
            // Level l has 1 + l mod 3 columns.
            let levels = (0..count).flat_map(|level| vec![level as u32; 1 + level % 3]);
            let levels = Levels::from_level_of(levels.collect());
            let bars = bars(&levels);
            assert!(bars.len() <= BARS);
            assert_eq!((bars[0].0, bars[bars.len() - 1].1), (0, count));
            assert!(bars.windows(2).all(|pair| pair[0].1 == pair[1].0));
            let columns = bars
                .iter()
                .map(|(first, end, mean)| (end - first) as f64 * mean);
            let all: f64 = columns.sum();
            assert!((all - levels.n() as f64).abs() < 1e-6, "{count}: {all}");
        }
    }

    #[test]
    fn a_drawing_tells_the_numbers() {
        let levels = Levels::from_level_of(vec![0, 0, 0, 1, 2]);
        let svg = drawing(&levels).expect("it is plain").standalone();
        assert!(svg.contains("3 levels, the widest of 3 columns"), "{svg}");
        let none = drawing(&Levels::from_level_of(Vec::new()));
        assert!(none.is_ok());
    }
}
