//! The table on the terminal and the JSON file.

use std::path::Path;

use comfy_table::{CellAlignment, Table, TableComponent, presets};
use luge::Inform;
use serde::Serialize;

use super::input::Source;
use super::repeat::{Step, Summary};
use super::{Failure, files};

/// The JSON report of a command, also of one that failed.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    pub command: &'static str,
    pub version: &'static str,
    /// `"solved"`, `"analyzed"`, `"target_missed"`, or the kind of failure.
    pub status: &'static str,
    pub exit_code: u8,
    pub error: Option<String>,
    pub name: String,
    pub matrix: Option<&'a Source>,
    pub rhs: Option<String>,
    /// Of a sequence of matrices, that of the last one.
    pub inform: Option<&'a Inform>,
    /// A sequence of matrices, as far as it came.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub steps: &'a [Step],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

impl Report<'_> {
    /// Writes the report, if a file was asked for.
    pub(crate) fn write(&self, path: Option<&Path>) -> Result<(), Failure> {
        let Some(path) = path else {
            return Ok(());
        };
        let mut json = serde_json::to_string_pretty(self).map_err(Failure::other)?;
        json.push('\n');
        files::write(path, |to| to.put(&json))
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

fn flops(flops: f64) -> String {
    match flops {
        f if f < 1e6 => format!("{f:.0} flop"),
        f if f < 1e9 => format!("{:.1} Mflop", f / 1e6),
        f => format!("{:.1} Gflop", f / 1e9),
    }
}

pub(crate) fn plural(count: usize, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{} {word}", grouped(count as u64))
}

/// The phases with their times and what they found.
pub(crate) fn phases(source: &Source, inform: &Inform) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_style(TableComponent::HeaderLines, '─');
    table.set_style(TableComponent::MiddleHeaderIntersections, '─');
    table.set_header(["phase", "time", "found"]);
    let mut total = 0.0;
    let mut row = |phase: &str, time: Option<f64>, found: String| {
        if let Some(time) = time {
            total += time;
            table.add_row([phase.to_owned(), seconds(time), found]);
        }
    };
    let times = &inform.seconds;
    row(
        "read",
        Some(source.seconds),
        format!(
            "{} × {}, {} entries, {}",
            grouped(source.rows as u64),
            grouped(source.cols as u64),
            grouped(source.nnz as u64),
            source.kind
        ),
    );
    let mut ordering = vec![
        inform.ordering.to_owned(),
        plural(inform.num_blocks, "block", "blocks"),
    ];
    ordering.extend(inform.matched.then(|| "rows matched".to_owned()));
    ordering.extend(inform.scaled.then(|| "scaled".to_owned()));
    row("ordering", Some(times.ordering), ordering.join(", "));
    row(
        "symbolic",
        Some(times.symbolic),
        format!(
            "L {}, U {} entries; {:.1} × those of A",
            grouped(inform.lnz),
            grouped(inform.unz),
            (inform.lnz + inform.unz).saturating_sub(inform.n as u64) as f64
                / inform.nnz.max(1) as f64
        ),
    );
    row(
        "levelize",
        times.levelize,
        format!(
            "{}, the widest of {}",
            plural(inform.num_levels.unwrap_or(0), "level", "levels"),
            plural(inform.max_level_width.unwrap_or(0), "column", "columns")
        ),
    );
    row(
        "pivot search",
        times.pivot_search,
        format!(
            "{} off the diagonal",
            plural(inform.num_off_diagonal.unwrap_or(0), "pivot", "pivots")
        ),
    );
    row("numeric", times.numeric, numeric(inform));
    row(
        "probe",
        times.probe,
        inform
            .rcond
            .map_or_else(String::new, |rcond| format!("1/condition {rcond:.1e}")),
    );
    row(
        "solve",
        times.solve,
        format!(
            "{}, backward error {:.1e}, componentwise {:.1e}",
            plural(
                inform.refinement_steps.unwrap_or(0),
                "refinement step",
                "refinement steps"
            ),
            inform.backward_error.unwrap_or(f64::NAN),
            inform.componentwise_error.unwrap_or(f64::NAN)
        ),
    );
    if let Some(load) = times.module_load {
        total += load;
        table.add_row(["kernel load".to_owned(), seconds(load), String::new()]);
    }
    if let Some(transfer) = times.transfer {
        table.add_row([
            "transfers".to_owned(),
            seconds(transfer),
            "within the phases above".to_owned(),
        ]);
    }
    table.add_row(["total".to_owned(), seconds(total), String::new()]);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What the factorization found.
fn numeric(inform: &Inform) -> String {
    let of_pivots = match (inform.num_two, inform.num_neg, inform.rank) {
        (Some(two), Some(negative), Some(rank)) => format!(
            "{}, {} of order 2, {} delayed, eigenvalues {} > 0, {} < 0, {} = 0",
            inform.kind,
            plural(two, "pivot", "pivots"),
            grouped(inform.num_delay.unwrap_or(0) as u64),
            grouped((rank - negative) as u64),
            grouped(negative as u64),
            grouped((inform.n - rank) as u64),
        ),
        _ => format!(
            "{} pivots, {} off the diagonal, {} perturbed",
            inform.pivoting.unwrap_or("no"),
            grouped(inform.num_off_diagonal.unwrap_or(0) as u64),
            inform.num_perturbed.unwrap_or(0),
        ),
    };
    format!(
        "{} in {}, {of_pivots}, growth {:.1e}",
        flops(inform.flops),
        inform.precision,
        inform.growth.unwrap_or(1.0)
    )
}

/// The lines below the table.
pub(crate) fn footer(inform: &Inform) -> Vec<String> {
    let mut lines = vec![format!("device: {}", inform.device)];
    if !inform.code_path.is_empty() {
        lines.push(format!("ran: {}", inform.code_path.join("; ")));
    }
    lines.push(format!(
        "host memory: {} bytes",
        grouped(inform.peak_host_bytes)
    ));
    if let Some(bytes) = inform.peak_device_bytes {
        lines.push(format!("device memory: {} bytes", grouped(bytes)));
    }
    lines.extend(inform.warnings.iter().map(|w| format!("warning: {w}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(seconds(2.5e-5), "25 µs");
        assert_eq!(seconds(0.25), "250.0 ms");
        assert_eq!(seconds(12.0), "12.00 s");
        assert_eq!(flops(2.5e9), "2.5 Gflop");
        assert_eq!(plural(1, "block", "blocks"), "1 block");
    }
}
