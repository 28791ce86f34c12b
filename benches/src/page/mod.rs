//! The report: the results of benchmarks as one page that needs nothing else.
//!
//! | module | what it has |
//! |---|---|
//! | [`field`] | who is compared with whom, and on what |
//! | [`charts`] | the charts, and the performance profile |
//! | [`html`] | tables, legends, the frame of the page |
//! | [`pattern`] | pictures of one matrix, its factors, its supernodes and levels |
//!
//! The page is written for a reader who has never seen the project, says what is lost as plainly as what is won, and
//! leaves nobody out: a missing peer is listed with the reason, and a matrix that a solver refused counts against it.

pub mod charts;
pub mod field;
pub mod html;
pub mod pattern;

use std::collections::BTreeSet;

use charts::{Axes, Bar, Ceiling, Series};
use field::{Contender, compared_phases, contenders, ratios, seconds, stacked_phases};
use html::{Cell, escaped, figure, legend, table};
use luge_plot::DrawingFailed;

use crate::report::{LUGE, Outcome, SolverInfo};
use crate::results::{Benchmark, MatrixResult, Phase, Precision, Results, Run};

/// Results with the name of their file.
#[derive(Debug, Clone)]
pub struct Named {
    /// The file's name, without its folder.
    pub file: String,
    /// What it holds.
    pub results: Results,
}

/// Most bars of a stacked chart: the matrices that take longest.
const BARS: usize = 36;

/// Most contenders in a chart: each has a colour of its own. The tables have all.
const DRAWN: usize = luge_plot::palette::SERIES;

/// Largest factor of a performance profile, as a power of two.
const PROFILE: f64 = 6.0;

/// The page.
///
/// # Errors
///
/// Those of the drawings.
pub fn page(all: &[Named], pictures: Option<&pattern::Pictures>) -> Result<String, DrawingFailed> {
    let mut body = introduction(all, pictures.is_some());
    for (number, named) in all.iter().enumerate() {
        body.push_str(&section(number, named)?);
    }
    if let Some(pictures) = pictures {
        body.push_str(&pictures.section());
    }
    body.push_str(GLOSSARY);
    Ok(html::page("Luge: measured results", &body))
}

fn introduction(all: &[Named], has_pictures: bool) -> String {
    let mut html = String::from(
        "<h1>Luge: measured results</h1>\
         <p>Luge solves systems of linear equations A·x = b whose matrix A is sparse and unsymmetric, as circuit, \
         power-grid, flow and structural problems make them. It factorizes A into triangular matrices L and U, on a \
         GPU or on a CPU. Other solvers that do the same are its <em>peers</em>.</p>\
         <p>A <em>ratio</em> on this page is Luge's time divided by the peer's on the same matrix, on the same \
         machine, in the same run. <span class=\"win\">Below 1 Luge is faster</span>, \
         <span class=\"loss\">above 1 the peer is</span>. Means of ratios are geometric. A solver whose solution is \
         wrong has no time. <a href=\"#words\">The last section explains the words.</a></p><nav><ul>",
    );
    for (number, named) in all.iter().enumerate() {
        html.push_str(&format!(
            "<li><a href=\"#run-{number}\">{}</a>: {} matrices, {}</li>",
            escaped(named.results.benchmark.title()),
            named.results.matrices.len(),
            escaped(place(&named.results)),
        ));
    }
    if has_pictures {
        html.push_str("<li><a href=\"#pictures\">A matrix and its factors, drawn</a></li>");
    }
    html.push_str("</ul></nav>");
    html
}

/// The chip that matters.
fn place(results: &Results) -> String {
    match &results.device {
        Some(device) => device.name.clone(),
        None => results.machine.cpu.clone(),
    }
}

fn section(number: usize, named: &Named) -> Result<String, DrawingFailed> {
    let results = &named.results;
    let all = contenders(results);
    let mut html = format!(
        "<section id=\"run-{number}\"><h2>{}</h2><p>{}</p>",
        escaped(results.benchmark.title()),
        meaning(results.benchmark)
    );
    html.push_str(&conditions(named));
    html.push_str("<h3>Who took part</h3>");
    html.push_str(&solvers(&results.solvers));
    let Some((luge, others)) = all.split_first().filter(|(luge, _)| luge.solver == LUGE) else {
        html.push_str(
            "<p class=\"alarm\">Luge did not take part: there is nothing to compare.</p></section>",
        );
        return Ok(html);
    };
    html.push_str(&wrong(results));
    html.push_str("<h3>In short</h3>");
    html.push_str(&summary(results, luge, others));
    let drawn = &all[..all.len().min(DRAWN)];
    if drawn.len() < all.len() {
        html.push_str(&format!(
            "<p class=\"muted\">The charts show {DRAWN} of the {} that took part, the tables all.</p>",
            all.len()
        ));
    }
    let parts = [
        (
            "Matrix by matrix",
            ratio_charts(results, luge, &drawn[1..])?,
        ),
        ("How often close to the fastest", profiles(results, drawn)?),
        ("Where the time goes", stacks(results, drawn)?),
        ("Rates and fill", rates(results, drawn)?),
    ];
    for (title, charts) in parts {
        if charts.contains("<svg") {
            html.push_str(&format!("<h3>{title}</h3>{charts}"));
        }
    }
    html.push_str(&every_matrix(results, &all));
    html.push_str("</section>");
    Ok(html)
}

fn meaning(benchmark: Benchmark) -> &'static str {
    match benchmark {
        Benchmark::Cpu => {
            "All solvers run on the CPU, in one process, in turn, round after round: what disturbs the machine \
             disturbs all of them. They are compared on one thread."
        }
        Benchmark::Symbolic => {
            "Before anything is computed, the solver finds out where L and U will have entries. Luge does that on the \
             GPU in several ways; each result is compared, entry for entry, with that of its CPU path. Ratios to the \
             CPU compare two chips."
        }
        Benchmark::Numeric => {
            "The whole solution through Luge's public interface on a GPU, beside solvers on the same GPU and on the \
             CPU beside it. Matrices and vectors lie in the host's memory, and their way to the GPU and back counts, \
             unless a phase is called <em>on device</em>. Ratios to a solver on the CPU compare two chips."
        }
        Benchmark::EndToEnd => {
            "What a user waits for who has a matrix in memory and wants its solution: analysis, factorization and one \
             solve together. All solvers run in turn, round after round, each with its default options."
        }
    }
}

fn conditions(named: &Named) -> String {
    let results = &named.results;
    let machine = &results.machine;
    let mut facts = vec![(
        "machine",
        escaped(format!(
            "{}, {} cores, {} GiB, {}",
            machine.cpu, machine.cores, machine.memory_gib, machine.system
        )),
    )];
    if let Some(device) = &results.device {
        let mut words = device.name.clone();
        if let Some(driver) = &device.driver {
            words.push_str(&format!(", driver for CUDA {driver}"));
        }
        if let Some(bytes) = device.memory_bytes {
            words.push_str(&format!(", {} GiB", bytes >> 30));
        }
        facts.push(("device", escaped(words)));
    }
    let samples = match (results.settings.min_rounds, results.settings.max_rounds) {
        (least, most) if least == most => format!("{most}"),
        (least, most) => format!("{least} to {most}"),
    };
    facts.push((
        "when",
        escaped(format!("{}, commit {}", results.date, results.commit)),
    ));
    facts.push((
        "how",
        escaped(format!(
            "{} of {samples} samples of each phase, {} build",
            match results.settings.statistic {
                crate::statistics::Statistic::Median => "median",
                crate::statistics::Statistic::Minimum => "minimum",
            },
            results.profile
        )),
    ));
    let words = results.command.iter();
    let words: Vec<String> = words
        .map(|word| format!("<span>{}</span>", escaped(word)))
        .collect();
    facts.push(("command", format!("<code>{}</code>", words.join(" "))));
    facts.push(("raw data", format!("<code>{}</code>", escaped(&named.file))));
    let list = facts.iter();
    let list: String = list
        .map(|(what, words)| format!("<dt>{what}</dt><dd>{words}</dd>"))
        .collect();
    format!("<dl>{list}</dl>")
}

fn solvers(solvers: &[SolverInfo]) -> String {
    let headings = ["solver", "version", "threads", "notes"].map(str::to_owned);
    let row = |solver: &SolverInfo| {
        let threads: Vec<String> = solver.threads.iter().map(usize::to_string).collect();
        let notes = match &solver.missing {
            Some(reason) => Cell::Alarm(format!("missing: {reason}")),
            None => Cell::Words(solver.notes.join("; ")),
        };
        vec![
            Cell::Words(solver.name.clone()),
            Cell::Words(solver.version.clone()),
            Cell::Words(threads.join(", ")),
            notes,
        ]
    };
    table(&headings, &solvers.iter().map(row).collect::<Vec<_>>())
}

/// Solutions that are wrong, whosever they are.
fn wrong(results: &Results) -> String {
    let mut lines = Vec::new();
    for matrix in &results.matrices {
        for run in &matrix.runs {
            for wrong in run.wrong_solutions() {
                let name = escaped(format!(
                    "{} on {}: {wrong}",
                    Contender::label(&of(run)),
                    matrix.name
                ));
                lines.push(format!("<li>{name}</li>"));
            }
            if run.equal == Some(false) {
                let name = escaped(format!(
                    "{} on {}: not the expected result",
                    run.variant, matrix.name
                ));
                lines.push(format!("<li>{name}</li>"));
            }
        }
    }
    if lines.is_empty() {
        return String::from("<p>No solver gave a wrong solution.</p>");
    }
    format!(
        "<details><summary class=\"alarm\">{} wrong solutions; their times do not count</summary><ul>{}</ul></details>",
        lines.len(),
        lines.concat()
    )
}

fn of(run: &Run) -> Contender {
    Contender {
        solver: run.solver.clone(),
        variant: run.variant.clone(),
        precision: run.precision,
        threads: run.threads,
    }
}

fn ratio_cell(ratio: f64) -> Cell {
    let words = match ratio {
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        r if r >= 0.1 => format!("{r:.2}"),
        r if r >= 0.001 => format!("{r:.3}"),
        r => format!("{r:.0e}"),
    };
    if ratio < 0.995 {
        Cell::Win(words)
    } else if ratio > 1.005 {
        Cell::Loss(words)
    } else {
        Cell::Number(words)
    }
}

/// The phase of the other one that a phase of Luge's is compared with, and whether there is anything to compare.
fn comparable<'a>(
    results: &'a Results,
    luge: &'a Contender,
    other: &'a Contender,
) -> impl Iterator<Item = (Phase, crate::statistics::Ratios)> + 'a {
    let phases = compared_phases(results.benchmark).iter();
    phases
        .map(move |&phase| (phase, ratios(results, luge, other, phase)))
        .filter(|(_, ratios)| !ratios.of.is_empty() || !ratios.refused.is_empty())
}

fn summary(results: &Results, luge: &Contender, others: &[Contender]) -> String {
    let headings = [
        "compared with",
        "phase",
        "mean ratio",
        "matrices",
        "Luge faster on",
        "worst ratio",
        "on",
        "best ratio",
        "only the other solves",
    ]
    .map(str::to_owned);
    let mut rows = Vec::new();
    for other in others
        .iter()
        .filter(|other| other.precision == luge.precision)
    {
        for (phase, ratios) in comparable(results, luge, other) {
            let count = ratios.of.len();
            let faster = ratios.of.iter().filter(|(_, ratio)| *ratio < 1.0).count();
            let number =
                |ratio: Option<f64>| ratio.map_or(Cell::Number("-".to_owned()), ratio_cell);
            let worst = ratios.extreme(false);
            let best = ratios.extreme(true).map(|(_, ratio)| ratio);
            rows.push(vec![
                Cell::Words(other.label()),
                Cell::Words(phase.title().to_owned()),
                number(ratios.mean()),
                Cell::Number(count.to_string()),
                Cell::Number(faster.to_string()),
                number(worst.as_ref().map(|(_, ratio)| *ratio)),
                Cell::Words(worst.map(|(name, _)| name).unwrap_or_default()),
                number(best),
                match ratios.refused.is_empty() {
                    true => Cell::Words("none".to_owned()),
                    false => Cell::Alarm(ratios.refused.join(", ")),
                },
            ]);
        }
    }
    let mut html = table(&headings, &rows);
    let missing: Vec<String> = results
        .solvers
        .iter()
        .filter(|solver| solver.missing.is_some())
        .map(|solver| escaped(&solver.name))
        .collect();
    if !missing.is_empty() {
        html.push_str(&format!(
            "<p class=\"alarm\">Missing, so not compared: {}.</p>",
            missing.join(", ")
        ));
    }
    if rows.is_empty() {
        html.push_str("<p class=\"alarm\">There is nothing to compare Luge with in this run.</p>");
    }
    html
}

fn ratio_charts(
    results: &Results,
    luge: &Contender,
    others: &[Contender],
) -> Result<String, DrawingFailed> {
    let mut html = String::from("<div class=\"pair\">");
    for other in others
        .iter()
        .filter(|other| other.precision == luge.precision)
    {
        let mut names = Vec::new();
        let mut series = Vec::new();
        for (colour, (phase, ratios)) in comparable(results, luge, other).enumerate() {
            names.push((colour, phase.title().to_owned()));
            let ranked = ratios.of.iter().enumerate();
            let points = ranked
                .map(|(rank, (_, ratio))| (rank as f64, *ratio))
                .collect();
            series.push(Series { colour, points });
        }
        if let Some(drawing) = charts::sorted_ratios(&series)? {
            let title = format!("{} against {}.", luge.label(), other.label());
            let explanation =
                "Each line has its ratios sorted; below the line at 1 Luge is faster.";
            let svg = drawing.inline(&format!("{title} {explanation}"));
            html.push_str(&figure(&title, explanation, &legend(names), &svg));
        }
    }
    html.push_str("</div>");
    Ok(html)
}

fn profiles(results: &Results, all: &[Contender]) -> Result<String, DrawingFailed> {
    let statistic = results.settings.statistic;
    let mut html = String::from(
        "<p>A performance profile (Dolan and Moré) shows on which share of the matrices a solver is within a factor \
         of the fastest one. The left edge says how often it is the fastest, the right end how often it gets there \
         at all: a higher line is better.</p><div class=\"pair\">",
    );
    let first = all.first().map(|luge| luge.precision);
    let all: Vec<&Contender> = all
        .iter()
        .filter(|one| Some(one.precision) == first)
        .collect();
    for &phase in compared_phases(results.benchmark) {
        let has = |contender: &&&Contender| {
            let mut runs = results.matrices.iter().filter_map(|m| contender.run(m));
            runs.any(|run| run.phases.contains_key(&phase))
        };
        let who: Vec<&Contender> = all.iter().filter(has).copied().collect();
        if who.len() < 2 {
            continue;
        }
        let row = |matrix: &MatrixResult| -> Vec<Option<f64>> {
            let time = |c: &&Contender| seconds(c.run(matrix)?, phase, statistic);
            who.iter().map(time).collect()
        };
        let rows: Vec<Vec<Option<f64>>> = results.matrices.iter().map(row).collect();
        let profile = charts::performance_profile(&rows, PROFILE);
        let colour_of = |c: &Contender| all.iter().position(|one| *one == c).unwrap_or(0);
        let names = who.iter().map(|c| (colour_of(c), c.label()));
        let with_colour = who.iter().zip(profile);
        let series: Vec<Series> = with_colour
            .map(|(c, points)| Series {
                colour: colour_of(c),
                points,
            })
            .collect();
        let title = format!("Performance profile: {}.", phase.title());
        let explanation = "";
        let svg = charts::profile(&series, PROFILE)?.inline(&format!("{title} {explanation}"));
        html.push_str(&figure(&title, explanation, &legend(names), &svg));
    }
    html.push_str("</div>");
    Ok(html)
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 0.1 => format!("{:.2} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

fn stacks(results: &Results, all: &[Contender]) -> Result<String, DrawingFailed> {
    let statistic = results.settings.statistic;
    let mut html = String::new();
    for contender in all.iter().filter(|c| c.precision == Precision::F64) {
        let phases = stacked_phases(contender, results);
        if phases.len() < 2 {
            continue;
        }
        let bar = |matrix: &MatrixResult| {
            let run = contender.run(matrix)?;
            let parts: Option<Vec<f64>> = phases
                .iter()
                .map(|&phase| seconds(run, phase, statistic))
                .collect();
            let parts = parts?;
            Some((parts.iter().sum::<f64>(), matrix.name.clone(), parts))
        };
        let mut bars: Vec<(f64, String, Vec<f64>)> =
            results.matrices.iter().filter_map(bar).collect();
        bars.sort_by(|a, b| b.0.total_cmp(&a.0));
        let left_out = bars.len().saturating_sub(BARS);
        bars.truncate(BARS);
        if bars.is_empty() {
            continue;
        }
        let bars: Vec<Bar> = bars
            .into_iter()
            .map(|(total, name, parts)| Bar {
                name,
                total: duration(total),
                parts,
            })
            .collect();
        let names = phases
            .iter()
            .map(|phase| phase.title().to_owned())
            .enumerate();
        let title = format!("{}: parts of a first solution.", contender.label());
        let mut explanation =
            String::from("The time in all stands behind each bar, the longest first.");
        if left_out > 0 {
            explanation.push_str(&format!(
                " {left_out} matrices that take less are left out."
            ));
        }
        let svg = charts::stacked(&bars)?.inline(&format!("{title} {explanation}"));
        let drawn = figure(&title, &explanation, &legend(names), &svg);
        if contender.solver == LUGE {
            html.push_str(&drawn);
        } else {
            let label = escaped(contender.label());
            html.push_str(&format!(
                "<details><summary>The same of {label}</summary>{drawn}</details>"
            ));
        }
    }
    Ok(html)
}

/// A point for each matrix of each contender.
fn points(
    results: &Results,
    all: &[Contender],
    of: impl Fn(&MatrixResult, &Run) -> Option<(f64, f64)>,
) -> (Vec<Series>, Vec<(usize, String)>) {
    let (mut series, mut names) = (Vec::new(), Vec::new());
    for (colour, contender) in all.iter().enumerate().take(luge_plot::palette::SERIES) {
        let measured = |matrix: &MatrixResult| {
            let run = contender.run(matrix)?;
            (run.outcome == Outcome::Measured).then(|| of(matrix, run))?
        };
        let points: Vec<(f64, f64)> = results.matrices.iter().filter_map(measured).collect();
        if !points.is_empty() {
            series.push(Series { colour, points });
            names.push((colour, contender.label()));
        }
    }
    (series, names)
}

fn ceiling(name: &str, value: Option<f64>) -> Option<Ceiling> {
    let giga = |value: f64| format!("{name}: {:.0} G/s", value / 1e9);
    value.map(|value| Ceiling {
        name: giga(value),
        value,
    })
}

fn rates(results: &Results, all: &[Contender]) -> Result<String, DrawingFailed> {
    let c = &results.ceilings;
    let is_on_device = results.device.is_some();
    // Those of the host with as many threads as are compared.
    let (cores, copy, product) = match results.benchmark {
        Benchmark::Cpu => ("one thread", c.host_copy, c.host_flops),
        _ => ("all cores", c.host_copy_all, c.host_flops_all),
    };
    let mut bandwidths = Vec::from_iter(ceiling(&format!("host memory, {cores}, measured"), copy));
    let mut flops = Vec::from_iter(ceiling(
        &format!("host arithmetic, {cores}, measured"),
        product,
    ));
    if is_on_device {
        bandwidths.extend(ceiling("device memory, measured", c.copy));
        flops.extend(ceiling("device arithmetic, measured", c.device_flops));
    }
    let factorizes = if is_on_device {
        Phase::Refactorize
    } else {
        Phase::Factorize
    };
    let entries = |run: &Run| Some(run.factor_entries? as f64);
    let of_matrix = Axes {
        x: "entries of L and U",
        y: "bytes a second",
    };
    let mut html = String::from("<div class=\"pair\">");
    let mut add = |title: &str,
                   explanation: &str,
                   axes: Axes<'_>,
                   ceilings: &[Ceiling],
                   found: (Vec<Series>, Vec<(usize, String)>)|
     -> Result<bool, DrawingFailed> {
        let Some(drawing) = charts::scatter(axes, &found.0, ceilings)? else {
            return Ok(false);
        };
        let svg = drawing.inline(&format!("{title} {explanation}"));
        html.push_str(&figure(title, explanation, &legend(found.1), &svg));
        Ok(true)
    };
    let found = points(results, all, |_, run| {
        Some((entries(run)?, run.flop_rate(factorizes)?))
    });
    let title = format!("Operations a second, {}.", factorizes.title());
    let axes = Axes {
        y: "operations a second",
        ..of_matrix
    };
    add(
        &title,
        "As the solver counts its operations; some count none. The lines are products of dense matrices.",
        axes,
        &flops,
        found,
    )?;
    let found = points(results, all, |matrix, run| {
        Some((entries(run)?, run.factor_byte_rate(factorizes, matrix.nnz)?))
    });
    let title = format!("Bytes a second, {}.", factorizes.title());
    add(
        &title,
        "The least that must move: each entry of A read, each entry of L and U written, once.",
        of_matrix,
        &bandwidths,
        found,
    )?;
    let found = points(results, all, |_, run| {
        Some((entries(run)?, run.solve_byte_rate()?))
    });
    add(
        "Bytes a second, solve.",
        "The least that must move: each entry of L and U read once. Factors that fit a cache can exceed the memory's line.",
        of_matrix,
        &bandwidths,
        found,
    )?;
    let found = points(results, all, |matrix, run| {
        Some((matrix.nnz as f64, entries(run)? / matrix.nnz.max(1) as f64))
    });
    let axes = Axes {
        x: "entries of A",
        y: "entries of L and U for each of A",
    };
    add(
        "Fill.",
        "How many entries L and U have for each one of A: less is better, for memory and for time.",
        axes,
        &[],
        found,
    )?;
    let found = points(results, all, |matrix, run| {
        Some((matrix.n as f64, run.num_levels? as f64))
    });
    let axes = Axes {
        x: "columns",
        y: "levels",
    };
    let has_levels = add(
        "Levels.",
        "Columns of one level do not wait for each other; levels come one after another.",
        axes,
        &[],
        found,
    )?;
    html.push_str("</div>");
    if !has_levels {
        html.push_str("<p class=\"muted\">No solver of this run works level by level, so there are no levels to show.</p>");
    }
    if bandwidths.is_empty() && flops.is_empty() {
        html.push_str(
            "<p class=\"muted\">The ceilings of the hardware were not measured in this run.</p>",
        );
    } else if is_on_device {
        html.push_str("<p class=\"muted\">The arithmetic of the device is not measured: the line is the host's.</p>");
    }
    Ok(html)
}

fn every_matrix(results: &Results, all: &[Contender]) -> String {
    let phases: Vec<Phase> = {
        let runs = results.matrices.iter().flat_map(|matrix| &matrix.runs);
        let found: BTreeSet<Phase> = runs.flat_map(|run| run.phases.keys().copied()).collect();
        found.into_iter().collect()
    };
    let mut headings: Vec<String> = [
        "matrix", "kind", "n", "entries", "solver", "threads", "L and U",
    ]
    .map(str::to_owned)
    .into();
    headings.extend(phases.iter().map(|phase| phase.title().to_owned()));
    headings.extend(["spread", "backward error", "remarks"].map(str::to_owned));
    let mut rows = Vec::new();
    for matrix in &results.matrices {
        for run in &matrix.runs {
            let known = all.iter().position(|c| c.is_of(run));
            let name = known.map_or_else(|| of(run).label(), |at| all[at].label());
            let mut row = vec![
                Cell::Words(matrix.name.clone()),
                Cell::Words(matrix.kind.clone()),
                Cell::Number(matrix.n.to_string()),
                Cell::Number(matrix.nnz.to_string()),
                Cell::Words(name),
                Cell::Number(run.threads.to_string()),
                Cell::Number(run.factor_entries.map_or("-".to_owned(), |e| e.to_string())),
            ];
            row.extend(phases.iter().map(|phase| {
                let samples = run.phases.get(phase);
                let time = samples.map(|s| duration(s.get(results.settings.statistic)));
                Cell::Number(time.unwrap_or_else(|| "-".to_owned()))
            }));
            row.push(Cell::Number(spread(run)));
            let errors = &run.errors;
            let error = errors.solve().or(errors.refined);
            row.push(Cell::Number(crate::table::error(error)));
            row.push(remarks(run));
            rows.push(row);
        }
    }
    format!(
        "<details><summary>Every matrix and every solver: times, spread, errors</summary>\
         <p>The spread is the largest, over the phases, of the range from the first to the third quarter of the \
         samples, as a share of the median.</p>{}</details>",
        table(&headings, &rows)
    )
}

fn spread(run: &Run) -> String {
    let spreads = run
        .phases
        .values()
        .filter(|samples| samples.seconds.len() > 2);
    let largest = spreads
        .map(crate::statistics::Samples::spread)
        .max_by(f64::total_cmp);
    largest.map_or("-".to_owned(), |spread| format!("{:.0} %", spread * 100.0))
}

fn remarks(run: &Run) -> Cell {
    let mut words = match &run.outcome {
        Outcome::Measured => Vec::new(),
        Outcome::TooSlow { seconds } => vec![format!("stopped after {seconds} s")],
        Outcome::Failed { reason } => vec![format!("failed: {reason}")],
    };
    words.extend(
        run.wrong_solutions()
            .into_iter()
            .map(|wrong| format!("wrong: {wrong}")),
    );
    if run.failed_steps > 0 {
        words.push(format!("failed steps: {}", run.details.join("; ")));
    }
    words.extend(
        run.refactorize_error
            .iter()
            .map(|e| format!("no refactorization: {e}")),
    );
    if run.equal == Some(false) {
        words.push("not equal to the CPU path's".to_owned());
    }
    if words.is_empty() {
        let quiet = run.num_perturbed.filter(|&count| count > 0);
        Cell::Words(quiet.map_or(String::new(), |count| format!("{count} pivots replaced")))
    } else {
        Cell::Alarm(words.join("; "))
    }
}

const GLOSSARY: &str = "\
<section id=\"words\"><h2>The words</h2><dl>\
<dt>A, L, U</dt><dd>the matrix of the system, and the lower and upper triangular matrices whose product it is, up to the order of rows and columns</dd>\
<dt>analyze</dt><dd>find an order of rows and columns in which L and U have few entries, and where these are; done once for a pattern of entries</dd>\
<dt>ordering, symbolic</dt><dd>the two parts of that</dd>\
<dt>factorize</dt><dd>compute L and U, with a search for pivots where the solver does one</dd>\
<dt>refactorize</dt><dd>compute L and U of other values in the same places, with what is known from before; simulators do this thousands of times</dd>\
<dt>solve</dt><dd>compute x from b with L and U; <em>solve 16</em>: for sixteen right-hand sides at once</dd>\
<dt>first solve</dt><dd>analyze, factorize and solve</dd>\
<dt>on device</dt><dd>values, right-hand sides and solutions stay in the GPU's memory</dd>\
<dt>fill</dt><dd>entries of L and U where A has none</dd>\
<dt>level</dt><dd>columns that can be worked on side by side</dd>\
<dt>supernode</dt><dd>neighbouring rows with the same structure, worked on as one dense block</dd>\
<dt>backward error</dt><dd>how much A and b would have to change, relatively, for x to be exact: ‖b − A·x‖ / (‖A‖·‖x‖ + ‖b‖); 1e-16 is as good as it gets in double precision; above 1e-8 a solution counts as wrong</dd>\
<dt>pivot replaced</dt><dd>a divisor was too small and was made larger; refinement repairs that</dd>\
<dt>geometric mean</dt><dd>the mean for ratios: twice as fast on one matrix and half as fast on another is 1</dd>\
</dl></section>";

#[cfg(test)]
mod tests;
