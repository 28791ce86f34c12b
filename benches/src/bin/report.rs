//! Results of benchmarks as one page that needs nothing else; run by `cargo xtask report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use luge_benches::page::pattern::Pictures;
use luge_benches::page::{Named, page};
use luge_benches::report::write_text;
use luge_benches::results::Results;
use luge_benches::systems::Source;
use luge_testkit::corpus::Corpus;

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

/// A page's name, which cannot be that of results.
fn html_file(name: &str) -> Result<PathBuf, String> {
    if name.ends_with(".html") {
        Ok(PathBuf::from(name))
    } else {
        Err("the name of a page ends in .html".to_owned())
    }
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
    let pictures = match &arguments.matrix {
        _ if arguments.no_matrix => None,
        Some(wanted) => Some(pictures(&arguments, wanted)?),
        None => match usual_matrix(&all) {
            None => None,
            Some(name) => match pictures(&arguments, &name) {
                Ok(pictures) => Some(pictures),
                Err(error) => {
                    eprintln!("no matrix is drawn: {error:#}; --matrix names a file");
                    None
                }
            },
        },
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

/// A matrix that is large enough to look at, and small enough to see something.
fn usual_matrix(all: &[Named]) -> Option<String> {
    let matrices = &all.first()?.results.matrices;
    let closest = matrices.iter().min_by_key(|matrix| matrix.n.abs_diff(5000));
    closest.map(|matrix| matrix.name.clone())
}

fn pictures(arguments: &Arguments, wanted: &str) -> anyhow::Result<Pictures> {
    let source = match Source::of_generator(wanted) {
        Some(generated) => generated,
        None if Path::new(wanted).is_file() => Source::of_file(Path::new(wanted)),
        None => {
            let folder = arguments.corpus.as_deref().filter(|folder| folder.is_dir());
            let Some(folder) = folder else {
                bail!("{wanted} is no file, and there is no corpus to look for it");
            };
            let corpus = Corpus::open_at(folder)?;
            let entry = corpus.find(wanted);
            let entry = entry.with_context(|| format!("there is no matrix {wanted}"))?;
            Source::of_file(&entry.path)
        }
    };
    Pictures::of(&source.name, source.read()?.rows())
}
