//! Results of benchmarks as one page that needs nothing else; run by `cargo xtask report`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use luge_benches::arguments::html_file;
use luge_benches::page::pattern::Pictures;
use luge_benches::page::{Named, page};
use luge_benches::report::write_text;
use luge_benches::results::Results;

/// Makes a page of tables and charts out of the results of benchmarks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask report")]
struct Arguments {
    /// Results that `cargo xtask bench … --json` wrote, each of any benchmark.
    #[arg(required = true, value_name = "RESULTS.json")]
    results: Vec<PathBuf>,
    /// The page.
    #[arg(long, value_name = "FILE.html", value_parser = html_file)]
    out: PathBuf,
    /// The matrix to draw: a Matrix Market file, or one of the results by name. Default: the one of the first results
    /// whose order is closest to 5,000.
    #[arg(long, value_name = "FILE|NAME")]
    matrix: Option<String>,
    /// Draw no matrix.
    #[arg(long, conflicts_with = "matrix")]
    no_matrix: bool,
    /// Folder of the corpus, where matrices are found by name.
    #[arg(long)]
    corpus: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let read = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        Ok(Named {
            file: name.to_string_lossy().into_owned(),
            results: Results::read(path)?,
        })
    };
    let all: Vec<Named> = arguments
        .results
        .iter()
        .map(read)
        .collect::<anyhow::Result<_>>()?;
    let corpus = arguments.corpus.as_deref();
    let pictures = match &arguments.matrix {
        _ if arguments.no_matrix => None,
        Some(wanted) => Some(Pictures::of_named(wanted, corpus)?),
        None => Pictures::of_usual(&all, corpus),
    };
    let html = page(&all, pictures.as_ref())?;
    write_text(&arguments.out, &html)?;
    println!(
        "{}: {} results, {} KiB",
        arguments.out.display(),
        all.len(),
        html.len() >> 10
    );
    Ok(ExitCode::SUCCESS)
}
