//! The corpus: what is in it, what the solver makes of it, and more of its kind; run by `cargo xtask corpus` and
//! `cargo xtask verify`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use luge_benches::tables::{or_dash, table};
use luge_matrix_io::{Value, WriteOptions, write};
use luge_testkit::corpus::{Corpus, Entry, Group, Kind};
use luge_testkit::generators::families::{COMPLEX_FAMILIES, FAMILIES, Family};
use luge_tests::fetch::{COLLECTION, KNOWN, Wanted, fetch};
use luge_tests::verify::{self, made, verify};

/// Lists and verifies the corpus, generates matrices of its kinds at any size, downloads some of the SuiteSparse collection.
#[derive(Debug, Parser)]
#[command(name = "luge-corpus")]
struct Arguments {
    /// Folder of the corpus.
    #[arg(long, global = true)]
    corpus: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take every matrix through every phase and measure each result.
    Verify(Box<verify::Arguments>),
    /// List the matrices of the corpus, with what a solver must make of each.
    List {
        /// Of these kinds only.
        #[arg(long, value_delimiter = ',')]
        kinds: Vec<Kind>,
        /// The degenerate ones only.
        #[arg(long)]
        degenerate: bool,
    },
    /// Download matrices of the SuiteSparse collection, each checked by the SHA-512 of its archive.
    Fetch {
        /// Matrices by NAME, or GROUP/NAME; without any, those whose checksums are known are listed.
        matrices: Vec<String>,
        /// SHA-512 of the archive, in hexadecimal, for one matrix that is not listed.
        #[arg(long, value_name = "HEX")]
        sha512: Option<String>,
        /// Folder for the files. Default: `collection` in the corpus.
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
        /// Where the collection is.
        #[arg(long, value_name = "URL", default_value = COLLECTION)]
        from: String,
    },
    /// List the families that can be generated.
    Families,
    /// Generate a matrix of a family and write it as Matrix Market.
    Generate {
        /// The family; `families` lists them.
        family: String,
        /// Its order, about.
        #[arg(long, default_value_t = 10_000)]
        size: usize,
        /// Another seed, another matrix.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The file; its name ends in `.mtx` or `.mtx.gz`. Default: FAMILY_N.mtx here.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Verify(options) => verify(&options, arguments.corpus.as_deref()),
        Command::List { kinds, degenerate } => {
            list(arguments.corpus.as_deref(), &kinds, degenerate)
        }
        Command::Fetch {
            matrices,
            sha512,
            to,
            from,
        } => {
            let corpus = arguments.corpus.map(|corpus| corpus.join("collection"));
            fetch_all(&matrices, sha512.as_deref(), to.or(corpus), &from)
        }
        Command::Families => {
            println!("{}", families());
            Ok(ExitCode::SUCCESS)
        }
        Command::Generate {
            family,
            size,
            seed,
            out,
        } => generate(&family, size, seed, out),
    }
}

fn list(folder: Option<&Path>, kinds: &[Kind], degenerate: bool) -> anyhow::Result<ExitCode> {
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        let folder = folder.unwrap_or(Path::new("none given"));
        bail!(
            "no corpus ({}): set LUGE_CORPUS, or make matrices with `cargo xtask corpus generate`",
            folder.display()
        );
    };
    let corpus =
        Corpus::open_at(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let wanted = |entry: &&Entry| {
        (kinds.is_empty() || kinds.contains(&entry.kind()))
            && (!degenerate || entry.group == Group::Degenerate)
    };
    let header = [
        "name",
        "group",
        "kind",
        "n",
        "stored",
        "field",
        "symmetry",
        "a solver must",
    ];
    let mut table = table(header, 3);
    let mut count = 0;
    for entry in corpus.entries().iter().filter(wanted) {
        let header = |of: fn(luge_testkit::corpus::FileHeader) -> String| or_dash(entry.header, of);
        let expected: Vec<String> = entry
            .expectations()
            .iter()
            .map(ToString::to_string)
            .collect();
        table.add_row([
            entry.name.clone(),
            entry.group.to_string(),
            entry.kind().to_string(),
            header(|h| match h.nrows == h.ncols {
                true => h.nrows.to_string(),
                false => format!("{} × {}", h.nrows, h.ncols),
            }),
            header(|h| h.stored.to_string()),
            header(|h| h.field.to_string()),
            header(|h| h.symmetry.to_string()),
            expected.join(", or "),
        ]);
        count += 1;
    }
    println!("{table}\n\n{count} files in {}", folder.display());
    Ok(if count > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn fetch_all(
    names: &[String],
    sha512: Option<&str>,
    folder: Option<PathBuf>,
    collection: &str,
) -> anyhow::Result<ExitCode> {
    if names.is_empty() {
        let mut table = table(["matrix", "group", "what it is", "MiB"], 3);
        for known in KNOWN.iter() {
            let mib = format!("{:.2}", known.bytes as f64 / f64::from(1 << 20));
            table.add_row([&known.name, &known.group, &known.about, &mib]);
        }
        println!("{table}");
        return Ok(ExitCode::SUCCESS);
    }
    if sha512.is_some() && names.len() > 1 {
        bail!("one checksum is that of one matrix");
    }
    let folder = folder.context("where to? --to FOLDER")?;
    let wanted = names.iter().map(|name| Wanted::parse(name, sha512));
    let wanted: Vec<Wanted> = wanted
        .collect::<Result<_, _>>()
        .map_err(anyhow::Error::msg)?;
    for matrix in &wanted {
        let (path, is_new) = fetch(collection, matrix, &folder)?;
        let words = if is_new {
            "fetched, checksum as expected"
        } else {
            "is there already"
        };
        println!("{}: {words}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn families() -> String {
    let mut table = table(["family", "kind", "what it is"], 3);
    for family in FAMILIES {
        let kind = match family.is_adversarial {
            true => "adversarial".to_owned(),
            false => family.kind.to_string(),
        };
        table.add_row([family.name, &kind, family.about]);
    }
    for family in COMPLEX_FAMILIES {
        let kind = format!("{}, complex", family.kind);
        table.add_row([family.name, &kind, family.about]);
    }
    table.to_string()
}

fn generate(name: &str, size: usize, seed: u64, out: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    if let Some(family) = Family::find(name) {
        return generate_of(family, size, seed, out);
    }
    let Some(family) = Family::find_complex(name) else {
        bail!("there is no family {name}; there are\n{}", families());
    };
    generate_of(family, size, seed, out)
}

fn generate_of<V: Value + std::fmt::Debug>(
    family: &Family<V>,
    size: usize,
    seed: u64,
    out: Option<PathBuf>,
) -> anyhow::Result<ExitCode> {
    let name = family.name;
    let a = made(family, size.max(1), seed).map_err(|unread| anyhow::anyhow!(unread.reason))?;
    let path = out.unwrap_or_else(|| PathBuf::from(format!("{name}_{}.mtx", a.rows())));
    let options = WriteOptions {
        comments: vec![
            family.about.to_owned(),
            format!(
                "generated by `cargo xtask corpus generate {name} --size {size} --seed {seed}`"
            ),
        ],
        ..WriteOptions::default()
    };
    write(&path, &a.view(), &options)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!(
        "{}: {name}, order {}, {} entries",
        path.display(),
        a.rows(),
        a.nnz()
    );
    Ok(ExitCode::SUCCESS)
}
