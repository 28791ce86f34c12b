//! The charts of the report. Legends are in the page, beside them.

use luge_plot::palette::{Role, colour};
use luge_plot::{Drawing, DrawingFailed};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;

/// Width of a chart that has a row for itself.
const WIDE: u32 = 1140;
/// Width of a chart beside another one.
const HALF: u32 = 560;

/// A data series: which colour it has, and its points.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Number of the colour.
    pub colour: usize,
    /// Points; the meaning of the axes is the chart's.
    pub points: Vec<(f64, f64)>,
}

/// A level that is drawn across a chart, with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling {
    /// The name.
    pub name: String,
    /// Where.
    pub value: f64,
}

/// What the axes of a chart say.
#[derive(Debug, Clone, Copy)]
pub struct Axes<'a> {
    /// Below.
    pub x: &'a str,
    /// On the left.
    pub y: &'a str,
}

/// `1/4`, `1`, `4`: a power of two as people say it.
fn power_of_two(exponent: f64) -> String {
    let exponent = exponent.round() as i32;
    if exponent < 0 {
        format!("1/{}", 1u64 << exponent.unsigned_abs().min(63))
    } else {
        format!("{}", 1u64 << exponent.min(63))
    }
}

/// `1`, `10 k`, `1 M`: a power of ten as people say it; smaller ones than 1 with their exponent.
fn power_of_ten(exponent: f64) -> String {
    let exponent = exponent.round() as i32;
    let names = ["", " k", " M", " G", " T", " P"];
    match usize::try_from(exponent) {
        Ok(exponent) if exponent / 3 < names.len() => {
            let digits = ["1", "10", "100"][exponent % 3];
            format!("{digits}{}", names[exponent / 3])
        }
        _ => format!("1e{exponent}"),
    }
}

/// An axis with marks at given places.
#[derive(Debug, Clone, PartialEq)]
struct Scale {
    low: f64,
    high: f64,
    marks: Vec<f64>,
}

impl Scale {
    fn new(low: f64, high: f64, marks: &[f64]) -> Self {
        Self {
            low,
            high,
            marks: marks.to_vec(),
        }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        first + (f64::from(last - first) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.marks.clone()
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

/// Whole numbers from below `low` to above `high`, at most about ten of them.
fn whole(low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let (low, mut high) = (low.floor(), high.ceil());
    if high <= low {
        high = low + 1.0;
    }
    let step = ((high - low) / 10.0).ceil().max(1.0);
    let count = ((high - low) / step).ceil() as usize;
    let marks: Vec<f64> = (0..=count).map(|k| low + step * k as f64).collect();
    let last = marks.last().copied().unwrap_or(high);
    (low, last, marks)
}

/// The least and the largest of finite numbers.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |extent, v| {
        let (low, high) = extent.unwrap_or((v, v));
        Some((low.min(v), high.max(v)))
    })
}

/// Ratios of each series in increasing order, on a scale of powers of two. Below 1 Luge is faster. `None` if there
/// is nothing to draw.
///
/// # Errors
///
/// Those of `plotters`.
pub fn sorted_ratios(series: &[Series]) -> Result<Option<Drawing>, DrawingFailed> {
    let logs = || series.iter().flat_map(|s| &s.points).map(|(_, r)| r.log2());
    let Some((low, high)) = extent(logs().chain([0.0])).filter(|_| logs().next().is_some()) else {
        return Ok(None);
    };
    let (low, high, marks) = whole(low.max(-12.0), high.min(12.0));
    let most = series
        .iter()
        .map(|s| s.points.len())
        .max()
        .unwrap_or(1)
        .max(2);
    let drawing = Drawing::new(HALF, 330, |canvas| {
        canvas.fill(&colour(Role::Background))?;
        let label = ("sans-serif", 13).into_font().color(&colour(Role::Ink));
        let mut chart = ChartBuilder::on(canvas)
            .margin(8)
            .margin_right(22)
            .x_label_area_size(36)
            .y_label_area_size(52)
            .build_cartesian_2d(0.5..most as f64 + 0.5, Scale::new(low, high, &marks))?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(colour(Role::Background))
            .bold_line_style(colour(Role::Grid))
            .axis_style(colour(Role::Muted))
            .label_style(label)
            .x_desc("matrices, the best ratio first")
            .y_desc("Luge's time / the other's")
            .x_label_formatter(&|rank| format!("{rank:.0}"))
            .y_label_formatter(&|exponent| power_of_two(*exponent))
            .draw()?;
        let equal = [(0.5, 0.0), (most as f64 + 0.5, 0.0)];
        chart.draw_series(LineSeries::new(equal, colour(Role::Ink).stroke_width(1)))?;
        for one in series {
            let mut ratios: Vec<f64> = one.points.iter().map(|(_, r)| *r).collect();
            ratios.sort_by(f64::total_cmp);
            let at =
                |(rank, ratio): (usize, &f64)| (rank as f64 + 1.0, ratio.log2().clamp(low, high));
            let points: Vec<(f64, f64)> = ratios.iter().enumerate().map(at).collect();
            let role = colour(Role::Series(one.colour));
            chart.draw_series(LineSeries::new(points.clone(), role.stroke_width(2)))?;
            chart.draw_series(points.into_iter().map(|p| Circle::new(p, 2, role.filled())))?;
        }
        Ok(())
    })?;
    Ok(Some(drawing))
}

/// The share of matrices on which a solver takes at most τ times the time of the fastest.
///
/// A row has the times of all solvers on one matrix; `None` for one that has no solution. Gives for each solver the
/// corners of its step function: (log₂ τ, share), to τ = 2^`most`.
pub fn performance_profile(rows: &[Vec<Option<f64>>], most: f64) -> Vec<Vec<(f64, f64)>> {
    let solvers = rows.first().map_or(0, Vec::len);
    let best = |row: &[Option<f64>]| row.iter().flatten().copied().min_by(f64::total_cmp);
    let rows: Vec<(&Vec<Option<f64>>, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, best(row).filter(|&best| best > 0.0)?)))
        .collect();
    let count = rows.len().max(1) as f64;
    (0..solvers)
        .map(|solver| {
            let mut factors: Vec<f64> = rows
                .iter()
                .filter_map(|(row, best)| Some((row[solver]? / best).log2()))
                .collect();
            factors.sort_by(f64::total_cmp);
            let mut corners = vec![(0.0, 0.0)];
            for (number, &factor) in factors.iter().enumerate() {
                if factor > most {
                    break;
                }
                corners.push((factor, number as f64 / count));
                corners.push((factor, (number + 1) as f64 / count));
            }
            let last = corners.last().map_or(0.0, |corner| corner.1);
            corners.push((most, last));
            corners
        })
        .collect()
}

/// Dolan and Moré's performance profile; the points are those of [`performance_profile`].
///
/// # Errors
///
/// Those of `plotters`.
pub fn profile(series: &[Series], most: f64) -> Result<Drawing, DrawingFailed> {
    let (_, _, marks) = whole(0.0, most);
    Drawing::new(HALF, 330, |canvas| {
        canvas.fill(&colour(Role::Background))?;
        let label = ("sans-serif", 13).into_font().color(&colour(Role::Ink));
        let shares: Vec<f64> = (0..=5).map(|fifth| f64::from(fifth) / 5.0).collect();
        let mut chart = ChartBuilder::on(canvas)
            .margin(8)
            .margin_right(22)
            .x_label_area_size(36)
            .y_label_area_size(52)
            .build_cartesian_2d(
                Scale::new(0.0, most, &marks),
                Scale::new(0.0, 1.02, &shares),
            )?;
        chart
            .configure_mesh()
            .light_line_style(colour(Role::Background))
            .bold_line_style(colour(Role::Grid))
            .axis_style(colour(Role::Muted))
            .label_style(label)
            .x_desc("within this factor of the fastest")
            .y_desc("share of the matrices")
            .x_label_formatter(&|exponent| power_of_two(*exponent))
            .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
            .draw()?;
        for one in series {
            let role = colour(Role::Series(one.colour)).stroke_width(2);
            chart.draw_series(LineSeries::new(one.points.iter().copied(), role))?;
        }
        Ok(())
    })
}

/// Points on logarithmic scales, with levels that nothing can exceed. `None` if there is no point.
///
/// # Errors
///
/// Those of `plotters`.
pub fn scatter(
    axes: Axes<'_>,
    series: &[Series],
    ceilings: &[Ceiling],
) -> Result<Option<Drawing>, DrawingFailed> {
    let drawable = |(x, y): &&(f64, f64)| *x > 0.0 && *y > 0.0;
    let points = || series.iter().flat_map(|s| &s.points).filter(drawable);
    let levels = ceilings.iter().map(|ceiling| ceiling.value.log10());
    let (Some((left, right)), Some((low, high))) = (
        extent(points().map(|(x, _)| x.log10())),
        extent(points().map(|(_, y)| y.log10()).chain(levels)),
    ) else {
        return Ok(None);
    };
    if points().next().is_none() {
        return Ok(None);
    }
    let (left, right, x_marks) = whole(left, right);
    let (low, high, y_marks) = whole(low, high);
    let drawing = Drawing::new(HALF, 360, |canvas| {
        canvas.fill(&colour(Role::Background))?;
        let label = ("sans-serif", 13).into_font().color(&colour(Role::Ink));
        let mut chart = ChartBuilder::on(canvas)
            .margin(8)
            .margin_right(22)
            .x_label_area_size(36)
            .y_label_area_size(62)
            .build_cartesian_2d(
                Scale::new(left, right, &x_marks),
                Scale::new(low, high, &y_marks),
            )?;
        chart
            .configure_mesh()
            .light_line_style(colour(Role::Background))
            .bold_line_style(colour(Role::Grid))
            .axis_style(colour(Role::Muted))
            .label_style(label)
            .x_desc(axes.x)
            .y_desc(axes.y)
            .x_label_formatter(&|exponent| power_of_ten(*exponent))
            .y_label_formatter(&|exponent| power_of_ten(*exponent))
            .draw()?;
        for ceiling in ceilings {
            let y = ceiling.value.log10();
            let line = [(left, y), (right, y)];
            chart.draw_series(LineSeries::new(line, colour(Role::Ink).stroke_width(1)))?;
            let style = ("sans-serif", 12).into_font().color(&colour(Role::Ink));
            let at = (left + 0.02 * (right - left), y + 0.045 * (high - low));
            chart.draw_series([Text::new(ceiling.name.clone(), at, style)])?;
        }
        for one in series {
            let role = colour(Role::Series(one.colour)).mix(0.8).filled();
            let points = one.points.iter().filter(drawable);
            chart.draw_series(points.map(|(x, y)| Circle::new((x.log10(), y.log10()), 4, role)))?;
        }
        Ok(())
    })?;
    Ok(Some(drawing))
}

/// A bar of shares.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What it is of.
    pub name: String,
    /// What stands behind it.
    pub total: String,
    /// The parts; their sum is the whole bar.
    pub parts: Vec<f64>,
}

/// Stacked bars, each of the same length, its parts in the colours of their place.
///
/// # Errors
///
/// Those of `plotters`.
pub fn stacked(bars: &[Bar]) -> Result<Drawing, DrawingFailed> {
    const ROW: i32 = 19;
    const LEFT: i32 = 230;
    const LENGTH: f64 = 800.0;
    let height = (ROW * bars.len() as i32 + 10).max(ROW) as u32;
    Drawing::new(WIDE, height, |canvas| {
        canvas.fill(&colour(Role::Background))?;
        let label = |role: Role| ("sans-serif", 13).into_font().color(&colour(role));
        for (number, bar) in bars.iter().enumerate() {
            let top = 5 + ROW * number as i32;
            canvas.draw(&Text::new(
                bar.name.as_str(),
                (4, top + 3),
                label(Role::Ink),
            ))?;
            let sum: f64 = bar.parts.iter().sum();
            let mut before = 0.0;
            for (part, &length) in bar.parts.iter().enumerate() {
                let at =
                    |done: f64| LEFT + (LENGTH * done / sum.max(f64::MIN_POSITIVE)).round() as i32;
                let corners = [(at(before), top), (at(before + length), top + ROW - 4)];
                before += length;
                let style = colour(Role::Series(part)).filled();
                canvas.draw(&Rectangle::new(corners, style))?;
            }
            let end = LEFT + LENGTH as i32 + 10;
            canvas.draw(&Text::new(
                bar.total.as_str(),
                (end, top + 3),
                label(Role::Muted),
            ))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_whole_and_cover_everything() {
        for (low, high) in [(-0.3, 0.2), (0.0, 0.0), (-11.0, 12.0), (3.0, 4.0)] {
            let (from, to, marks) = whole(low, high);
            assert!(from <= low && to >= high && from < to);
            assert!(
                marks.len() <= 12 && marks.iter().all(|m| m.fract() == 0.0),
                "{marks:?}"
            );
            assert_eq!((marks[0], marks[marks.len() - 1]), (from, to));
        }
    }

    #[test]
    fn powers_are_said_as_people_say_them() {
        assert_eq!([-2.0, 0.0, 5.0].map(power_of_two), ["1/4", "1", "32"]);
        assert_eq!(
            [0.0, 1.0, 3.0, 5.0, 6.0, 12.0, -2.0].map(power_of_ten),
            ["1", "10", "1 k", "100 k", "1 M", "1 T", "1e-2"]
        );
    }

    #[test]
    fn a_performance_profile_is_what_dolan_and_more_define() {
        let rows = [
            vec![Some(1.0), Some(2.0), None],
            vec![Some(4.0), Some(1.0), None],
            vec![Some(1.0), Some(1.0), Some(64.0)],
            vec![None, None, None],
        ];
        let profile = performance_profile(&rows, 5.0);
        let at = |solver: usize, log: f64| {
            let corners = profile[solver].iter().filter(|corner| corner.0 <= log);
            corners.map(|corner| corner.1).fold(0.0, f64::max)
        };
        // Of the three that somebody solves.
        assert_eq!(
            [at(0, 0.0), at(0, 1.9), at(0, 2.0)],
            [2.0 / 3.0, 2.0 / 3.0, 1.0]
        );
        assert_eq!([at(1, 0.0), at(1, 1.0)], [2.0 / 3.0, 1.0]);
        assert_eq!(at(2, 5.0), 0.0, "64 times as slow is beyond the chart");
        for corners in &profile {
            assert!(
                corners
                    .windows(2)
                    .all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1)
            );
            assert_eq!(corners.last().map(|c| c.0), Some(5.0));
        }
    }

    #[test]
    fn nothing_is_no_chart() {
        assert_eq!(sorted_ratios(&[]), Ok(None));
        let axes = Axes { x: "x", y: "y" };
        let empty = Series {
            colour: 0,
            points: vec![(0.0, 1.0), (1.0, f64::NAN)],
        };
        assert_eq!(scatter(axes, &[empty], &[]), Ok(None));
        let one = Series {
            colour: 0,
            points: vec![(1.0, 0.5)],
        };
        assert!(sorted_ratios(&[one]).is_ok_and(|drawing| drawing.is_some()));
    }
}
