//! Files of older formats, brought into the current one.
//!
//! | format | benchmark | what differs |
//! |---|---|---|
//! | `luge-bench-cpu/1` | cpu | no device; the careful solve was called checked |
//! | `luge-bench-numeric/1` | numeric | the device by name alone, memory beside the run, the number of samples at the top |
//! | none | symbolic | a record for each mode, without samples and solvers |

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use super::SCHEMA;

/// The same results in the current format.
///
/// # Errors
///
/// If they are in none that is known.
pub fn current(mut value: Value) -> anyhow::Result<Value> {
    let schema = value
        .get("schema")
        .and_then(Value::as_str)
        .map(str::to_owned);
    match schema.as_deref() {
        Some(SCHEMA) => return Ok(value),
        Some("luge-bench-cpu/1") => from_cpu(&mut value)?,
        Some("luge-bench-numeric/1") => from_numeric(&mut value)?,
        None if value.get("ceilings").is_some() => from_symbolic(&mut value)?,
        Some(other) => bail!("the format {other} is not known"),
        None => bail!("there is no format"),
    }
    value["schema"] = json!(SCHEMA);
    Ok(value)
}

fn objects<'a>(
    value: &'a mut Value,
    list: &str,
) -> anyhow::Result<impl Iterator<Item = &'a mut Map<String, Value>>> {
    let items = value.get_mut(list).and_then(Value::as_array_mut);
    let items = items.with_context(|| format!("there are no {list}"))?;
    Ok(items.iter_mut().filter_map(Value::as_object_mut))
}

fn rename(object: Option<&mut Value>, from: &str, to: &str) {
    let object = object.and_then(Value::as_object_mut);
    if let Some(object) = object
        && let Some(value) = object.remove(from)
    {
        object.insert(to.to_owned(), value);
    }
}

fn device(name: &Value) -> Value {
    json!({ "name": name, "driver": null, "memory_bytes": null })
}

fn from_cpu(value: &mut Value) -> anyhow::Result<()> {
    value["benchmark"] = json!("cpu");
    value["device"] = Value::Null;
    for matrix in value["matrices"].as_array_mut().context("no matrices")? {
        for run in objects(matrix, "runs")? {
            rename(run.get_mut("phases"), "solve_checked", "solve_refined");
            rename(run.get_mut("errors"), "checked", "refined");
        }
    }
    Ok(())
}

fn from_numeric(value: &mut Value) -> anyhow::Result<()> {
    value["benchmark"] = json!("numeric");
    value["device"] = device(&value["device"]);
    let samples = value["samples"].clone();
    value["settings"] = settings(&samples);
    let cores = value["machine"]["cores"].clone();
    for matrix in value["matrices"].as_array_mut().context("no matrices")? {
        for run in objects(matrix, "runs")? {
            let is_klu = run.get("solver") == Some(&json!("klu"));
            let threads = if is_klu { json!(1) } else { cores.clone() };
            run.insert("threads".to_owned(), threads);
            rename(run.get_mut("errors"), "factorized", "known");
            let memory = json!({
                "reported": run.remove("peak_host_bytes"),
                "device": run.remove("peak_device_bytes"),
            });
            run.insert("memory".to_owned(), memory);
            let levels = run
                .get("inform")
                .and_then(|inform| inform.get("num_levels"));
            let levels = levels.cloned().unwrap_or_default();
            run.insert("num_levels".to_owned(), levels);
        }
    }
    Ok(())
}

fn settings(samples: &Value) -> Value {
    json!({
        "time_limit": 0.0,
        "budget": 0.0,
        "min_rounds": samples,
        "max_rounds": samples,
        "statistic": "median",
    })
}

/// A run that gave one number, the median of samples that were not kept.
fn run(variant: &str, threads: u64, phase: &str, seconds: &Value, more: &Value) -> Value {
    let samples = json!({ "seconds": [seconds], "median": seconds, "minimum": seconds });
    let mut run = json!({
        "solver": "luge",
        "variant": variant,
        "threads": threads,
        "outcome": { "kind": "measured" },
        "phases": { phase: samples },
        "factor_entries": null,
        "flops": null,
    });
    if let (Some(run), Some(more)) = (run.as_object_mut(), more.as_object()) {
        run.extend(more.clone());
    }
    run
}

fn from_symbolic(value: &mut Value) -> anyhow::Result<()> {
    value["benchmark"] = json!("symbolic");
    value["device"] = device(&value["device"]);
    value["profile"] = json!("release");
    value["settings"] = settings(&json!(1));
    value["solvers"] = json!([{
        "name": "luge",
        "version": "0.1.0",
        "threads": [1],
        "notes": [],
        "missing": null,
    }]);
    for matrix in objects(value, "matrices")? {
        let filled = matrix.remove("filled").unwrap_or_default();
        let entries = json!({ "factor_entries": filled });
        let mut runs = vec![run("cpu", 1, "symbolic", &matrix["cpu_seconds"], &entries)];
        let of_device = |of: &Value| {
            json!({
                "factor_entries": filled,
                "equal": of["equal"],
                "inform": of["report"],
            })
        };
        let panels = &matrix["panels"];
        runs.push(run(
            "panels",
            1,
            "symbolic",
            &panels["seconds"],
            &of_device(panels),
        ));
        for walk in matrix["fill2"].as_array().into_iter().flatten() {
            let mode = walk["mode"].as_str().unwrap_or("unknown");
            let mib = walk["budget_bytes"].as_u64().unwrap_or(0) >> 20;
            let variant = match walk["smallest"] == json!(true) {
                true => format!("fill2 {mode}, the smallest budget"),
                false => format!("fill2 {mode}, {mib} MiB"),
            };
            runs.push(run(
                &variant,
                1,
                "symbolic",
                &walk["seconds"],
                &of_device(walk),
            ));
        }
        let supernodes = &matrix["supernodes"];
        let equal = json!({ "equal": supernodes["equal"] });
        runs.push(run(
            "supernodes",
            1,
            "supernodes",
            &supernodes["seconds"],
            &equal,
        ));
        matrix.insert("kind".to_owned(), json!("unknown"));
        matrix.insert("runs".to_owned(), json!(runs));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Benchmark, Phase, Precision, Results};
    use std::path::Path;

    fn committed(file: &str) -> Results {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        Results::read(&folder.join(file)).unwrap_or_else(|e| panic!("{file}: {e:#}"))
    }

    #[test]
    fn the_committed_results_of_the_cpu_are_read() {
        let results = committed("2026-11-21-cpu-xeon/circuits.json");
        assert_eq!(results.benchmark, Benchmark::Cpu);
        assert_eq!(results.matrices.len(), 67);
        let matrix = &results.matrices[0];
        let run = results.run(matrix, "luge", 1).expect("Luge on one thread");
        assert!(run.seconds(Phase::SolveRefined).is_some());
        assert!(run.errors.refined.is_some() && run.errors.known.is_some());
        assert!(run.phases[&Phase::Analyze].seconds.len() > 3, "raw samples");
    }

    #[test]
    fn the_committed_results_of_the_device_are_read() {
        let results = committed("2026-11-22-h200-numeric/checked.json");
        assert_eq!(results.benchmark, Benchmark::Numeric);
        assert_eq!(
            results.device.as_ref().map(|d| d.name.as_str()),
            Some("NVIDIA H200")
        );
        assert_eq!(results.settings.max_rounds, 7);
        let matrix = &results.matrices[0];
        let luge = matrix.run("luge", Precision::F64).expect("Luge");
        assert!(luge.memory.device.is_some() && luge.errors.known.is_some());
        assert!(luge.inform.is_some());
        assert_eq!(
            matrix.run("klu", Precision::F64).map(|run| run.threads),
            Some(1)
        );
        assert!(
            matrix
                .run("cudss", Precision::F64)
                .is_some_and(|run| run.threads > 1)
        );
    }

    #[test]
    fn the_committed_results_of_the_symbolic_phase_are_read() {
        let results = committed("2026-11-21-h200-symbolic/large.json");
        assert_eq!(results.benchmark, Benchmark::Symbolic);
        assert!(results.ceilings.copy.is_some_and(|rate| rate > 1e12));
        for matrix in &results.matrices {
            assert!(matrix.filled() > Some(matrix.nnz as u64));
            let variants: Vec<&str> = matrix.runs.iter().map(|run| run.variant.as_str()).collect();
            assert_eq!(variants[..2], ["cpu", "panels"]);
            assert!(matrix.runs[1].equal == Some(true));
            assert!(matrix.runs.iter().all(|run| !run.phases.is_empty()));
        }
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "{}",
            "[]",
            "{\"schema\":\"luge-verify/1\"}",
            "{\"schema\":\"luge-bench/3\"}",
        ] {
            let value = serde_json::from_str(text).expect("JSON");
            assert!(super::current(value).is_err(), "{text}");
        }
    }
}
