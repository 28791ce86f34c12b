//! `luge analyze`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use luge::{Inform, Solver};

use super::input::{AnyMatrix, Loaded, MatrixArguments, Number, Source, check_square};
use super::print;
use super::progress::Progress;
use super::report::{Report, footer, grouped, phases};
use super::{Failure, SolverArguments};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    matrix: MatrixArguments,
    #[command(flatten)]
    solver: SolverArguments,
    /// Draw where the factors have entries, with their supernodes, and how many columns each level has, as SVG.
    /// Without a name the file is named after the matrix. Finds the whole pattern of the factors.
    #[cfg(feature = "plot")]
    #[arg(long, value_name = "FILE.svg", num_args = 0..=1, default_missing_value = "", value_parser = super::plot::file)]
    plot: Option<PathBuf>,
}

impl Arguments {
    /// Where the picture goes, if one was asked for.
    fn plot_file(&self) -> Option<PathBuf> {
        #[cfg(feature = "plot")]
        let plot = self.plot.as_deref();
        #[cfg(feature = "plot")]
        let plot = plot.map(|path| super::plot::file_or_after(path, self.matrix.path()));
        #[cfg(not(feature = "plot"))]
        let plot = None;
        plot
    }
}

/// Analyzes and reports; the JSON report is written on failure too, unless the files do not go together.
pub(crate) fn analyze(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let plot = arguments.plot_file();
    arguments
        .solver
        .files()
        .read("the matrix", arguments.matrix.path())
        .written("--plot", plot.as_deref())
        .check(arguments.solver.force)?;
    let mut source = None;
    let outcome = analyze_and_print(arguments, &mut source);
    let report = Report {
        command: "analyze",
        version: env!("CARGO_PKG_VERSION"),
        status: outcome.as_ref().err().map_or("analyzed", |f| f.kind),
        exit_code: outcome.as_ref().err().map_or(0, |f| f.code),
        error: outcome.as_ref().err().map(Failure::message),
        name: arguments.matrix.name(),
        matrix: source.as_ref(),
        rhs: None,
        inform: outcome.as_ref().ok(),
        steps: &[],
        summary: None,
    };
    let written = report.write(arguments.solver.json.as_deref());
    outcome?;
    written?;
    Ok(ExitCode::SUCCESS)
}

fn analyze_and_print(
    arguments: &Arguments,
    source: &mut Option<Source>,
) -> Result<Inform, Failure> {
    let progress = Progress::start();
    match arguments.matrix.load()? {
        AnyMatrix::Real(matrix) => analyze_over(&matrix, source, arguments, progress),
        AnyMatrix::Complex(matrix) => analyze_over(&matrix, source, arguments, progress),
    }
}

fn analyze_over<T: Number>(
    matrix: &Loaded<T>,
    source: &mut Option<Source>,
    arguments: &Arguments,
    progress: Progress,
) -> Result<Inform, Failure> {
    let (a, read) = (&matrix.a, &matrix.source);
    *source = Some(read.clone());
    check_square(read)?;
    let solver = Solver::new(arguments.solver.options(a.rows())?)?;
    let analysis = arguments.solver.analyze(&solver, a)?;
    let inform = analysis.inform().clone();
    drop(progress);

    print::line(&read.name)?;
    print::line(phases(read, &inform))?;
    let value_bytes = match inform.precision {
        "f32" => 4,
        "complex f64" => 16,
        _ => 8,
    };
    let entries = (inform.lnz + inform.unz).saturating_sub(inform.n as u64);
    let bytes = inform
        .predicted_host_bytes
        .unwrap_or(entries * (value_bytes + 4));
    print::line(format_args!(
        "predicted for the factors: {:.3e} operations, {} bytes",
        inform.flops,
        grouped(bytes)
    ))?;
    for line in footer(&inform) {
        print::line(line)?;
    }
    #[cfg(feature = "plot")]
    if let Some(path) = arguments.plot_file() {
        let (filled, levels) = analysis.structure()?;
        super::plot::analysis(&path, a.nnz(), &filled, &levels)?;
    }
    Ok(inform)
}
