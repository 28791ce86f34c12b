//! What the tables that people read are made of, as Markdown.

use comfy_table::{CellAlignment, Table, presets};

use crate::report::SolverInfo;

/// An empty table in which all columns behind the first `words` hold numbers.
pub fn table<S: ToString>(header: &[S], words: usize) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::ASCII_MARKDOWN)
        .set_header(header.iter().map(ToString::to_string));
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

pub(crate) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

pub(crate) fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// With two places, or a dash.
pub(crate) fn ratio(value: Option<f64>) -> String {
    or_dash(value.map(|ratio| format!("{ratio:.2}")))
}

pub(crate) fn milliseconds(value: Option<f64>) -> String {
    or_dash(value.map(|seconds| {
        let ms = seconds * 1e3;
        match ms {
            ms if ms < 0.1 => format!("{ms:.4}"),
            ms if ms < 10.0 => format!("{ms:.3}"),
            ms => format!("{ms:.1}"),
        }
    }))
}

/// An error with one digit, or a dash.
pub fn error(value: Option<f64>) -> String {
    or_dash(value.map(|error| {
        if error == f64::MAX {
            "not finite".to_owned()
        } else {
            format!("{error:.0e}")
        }
    }))
}

pub(crate) fn mebibytes(value: Option<u64>) -> String {
    or_dash(value.map(|bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20))))
}

/// The solvers: versions, threads, notes; the missing ones too.
pub fn solvers(solvers: &[SolverInfo]) -> String {
    let mut table = table(&strings(&["solver", "version", "threads", "notes"]), 4);
    for solver in solvers {
        let threads: Vec<String> = solver.threads.iter().map(usize::to_string).collect();
        let notes = match &solver.missing {
            Some(reason) => format!("MISSING: {reason}"),
            None => solver.notes.join("; "),
        };
        table.add_row([&solver.name, &solver.version, &threads.join(", "), &notes]);
    }
    table.to_string()
}
