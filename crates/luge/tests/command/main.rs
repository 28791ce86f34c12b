//! The command `luge` as a user runs it: exit codes, messages, files.

mod formats;
mod repeat;
mod saved;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use luge_matrix_io::{DenseMatrix, WriteOptions, read_vector, write, write_dense};
use luge_testkit::generators::applications::random_unsymmetric;
use serde_json::Value;

fn luge(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_luge"))
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn expect_code(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Bad input that is told of in one line, and nothing else.
#[track_caller]
fn expect_refused(output: &Output, message: &str) {
    expect_code(output, 2);
    let printed = text(&output.stderr);
    assert!(
        printed.starts_with("luge: ") && printed.contains(message),
        "{message} in {printed}"
    );
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}

/// A file in a fresh folder that lives as long as the guard.
fn file(name: &str, content: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("the file is written");
    (folder, path)
}

fn as_str(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_sample_solves_without_a_file() {
    for sample in ["grid", "circuit"] {
        let output = luge(&[
            "solve",
            "--backend",
            "cpu",
            "--sample",
            sample,
            "--size",
            "40",
        ]);
        expect_code(&output, 0);
        let printed = text(&output.stdout);
        for word in [
            "ordering",
            "symbolic",
            "numeric",
            "backward error",
            "CPU",
            "A·1",
        ] {
            assert!(printed.contains(word), "{word} in {printed}");
        }
    }
}

#[test]
fn the_json_report_says_what_ran() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("report.json");
    let output = luge(&[
        "solve",
        "--backend",
        "cpu",
        "--size",
        "10",
        "--json",
        as_str(&json),
    ]);
    expect_code(&output, 0);
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["status"], "solved");
    assert_eq!(report["exit_code"], 0);
    assert_eq!(report["matrix"]["rows"], 100);
    assert_eq!(report["inform"]["backend"], "cpu");
    assert!(report["inform"]["backward_error"].as_f64().unwrap() <= 1e-12);
    assert!(report["inform"]["seconds"]["numeric"].as_f64().unwrap() >= 0.0);
    drop(folder);
}

#[test]
fn right_hand_sides_go_in_and_solutions_come_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let a = random_unsymmetric(30, 3, 4);
    write(at("a.mtx.gz"), &a.view(), &WriteOptions::default()).unwrap();
    let x: Vec<f64> = (0..30).map(|i| f64::from(i) - 7.0).collect();
    let b: Vec<f64> = (0..30)
        .map(|i| a.outer_view(i).unwrap().iter().map(|(j, v)| v * x[j]).sum())
        .collect();
    let b = DenseMatrix::from_vector(b);
    write_dense(at("b.mtx"), &b, &WriteOptions::default()).unwrap();
    let output = luge(&[
        "solve",
        as_str(&at("a.mtx.gz")),
        "--rhs",
        as_str(&at("b.mtx")),
        "--out",
        as_str(&at("x.mtx")),
        "--backend",
        "cpu",
    ]);
    expect_code(&output, 0);
    let found = read_vector(at("x.mtx")).unwrap();
    for (found, x) in found.iter().zip(&x) {
        assert!((found - x).abs() <= 1e-9, "{found} for {x}");
    }

    let short = DenseMatrix::from_vector(vec![1.0; 29]);
    write_dense(at("short.mtx"), &short, &WriteOptions::default()).unwrap();
    let output = luge(&[
        "solve",
        as_str(&at("a.mtx.gz")),
        "--rhs",
        as_str(&at("short.mtx")),
        "--backend",
        "cpu",
    ]);
    expect_code(&output, 2);
    assert!(
        text(&output.stderr).contains("the right-hand side has 29 rows; the matrix has order 30")
    );
}

#[test]
fn complex_systems_go_in_and_their_solutions_come_out() {
    // 2i 1
    // 0  1-i     times (1, 2i) is (4i, 2+2i)
    let matrix =
        "%%MatrixMarket matrix coordinate complex general\n2 2 3\n1 1 0 2\n1 2 1 0\n2 2 1 -1\n";
    let (_folder, path) = file("a.mtx", matrix);
    let at = |name: &str| path.with_file_name(name);
    let complex = "%%MatrixMarket matrix array complex general\n2 1\n0 4\n2 2\n";
    let real = "%%MatrixMarket matrix array real general\n2 1\n0\n2\n";
    std::fs::write(at("complex.mtx"), complex).unwrap();
    std::fs::write(at("real.mtx"), real).unwrap();
    let c = luge::num_complex::Complex::new;
    for (name, expected) in [
        ("complex.mtx", [c(1.0, 0.0), c(0.0, 2.0)]),
        // The second unknown is 2/(1-i) = 1+i, the first -(1+i)/2i = -1/2 + i/2.
        ("real.mtx", [c(-0.5, 0.5), c(1.0, 1.0)]),
    ] {
        let (out, report) = (at(&format!("x_{name}")), at(&format!("{name}.json")));
        let output = luge(&[
            "solve",
            as_str(&path),
            "--rhs",
            as_str(&at(name)),
            "--out",
            as_str(&out),
            "--json",
            as_str(&report),
            "--determinant",
        ]);
        expect_code(&output, 0);
        // 2i(1-i)
        assert!(text(&output.stdout).contains("determinant: (2.000000+2.000000i)e0"));
        let x = luge_matrix_io::read_dense_complex(&out).unwrap();
        for (x, expected) in x.values().iter().zip(expected) {
            assert!((x - expected).norm() < 1e-15, "{name}: {x}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
        assert_eq!(json["inform"]["precision"], "complex f64");
        assert_eq!(json["matrix"]["kind"], "complex general");
    }
    // Without a right-hand side the solution is 1 everywhere.
    for backend in [
        &["cpu"][..],
        &["sim"],
        &["sim", "--device-engine", "columns"],
    ] {
        let output = luge(&[&["solve", as_str(&path), "--backend"], backend].concat());
        expect_code(&output, 0);
        assert!(text(&output.stdout).contains("largest error of the solution"));
    }
    expect_code(&luge(&["analyze", as_str(&path)]), 0);
    // A real matrix has no complex right-hand sides.
    let real = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 2 1\n";
    std::fs::write(at("r.mtx"), real).unwrap();
    let output = luge(&[
        "solve",
        as_str(&at("r.mtx")),
        "--rhs",
        as_str(&at("complex.mtx")),
    ]);
    expect_code(&output, 2);
    assert!(text(&output.stderr).contains("complex"));
}

/// Files of each symmetry, by the kind that they have, and as it is found.
#[test]
fn complex_symmetric_and_hermitian_files_are_solved_as_what_they_are() {
    let lower = |symmetry: &str, diagonal: &str| {
        format!(
            "%%MatrixMarket matrix coordinate complex {symmetry}\n3 3 5\n1 1 {diagonal}\n2 1 1 2\n2 2 -3 0\n3 2 0 1\n3 3 2 0\n"
        )
    };
    for (symmetry, diagonal, kind, share) in [
        (
            "symmetric",
            "4 1",
            "symmetric",
            "numeric 1.000, Hermitian 0.000",
        ),
        (
            "hermitian",
            "4 0",
            "Hermitian",
            "numeric 0.000, Hermitian 1.000",
        ),
    ] {
        let (_folder, path) = file("a.mtx", &lower(symmetry, diagonal));
        let report = path.with_file_name("report.json");
        let output = luge(&["info", as_str(&path)]);
        expect_code(&output, 0);
        let info = text(&output.stdout);
        assert!(info.contains(share), "{info}");
        for option in [kind.to_lowercase().as_str(), "auto", "general"] {
            let arguments = ["solve", as_str(&path), "--kind", option, "--backend", "cpu"];
            let output = luge(&[&arguments[..], &["--json", as_str(&report), "--force"]].concat());
            expect_code(&output, 0);
            let json: serde_json::Value =
                serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
            let expected = if option == "general" { option } else { kind };
            assert_eq!(json["inform"]["kind"], expected, "{option}");
            assert!(json["inform"]["backward_error"].as_f64().unwrap() <= 1e-15);
            let has_signs = expected == "Hermitian";
            assert_eq!(json["inform"]["num_neg"].is_u64(), has_signs);
        }
        let other = if symmetry == "symmetric" {
            "hermitian"
        } else {
            "symmetric"
        };
        let output = luge(&["solve", as_str(&path), "--kind", other]);
        expect_code(&output, 2);
        let message = text(&output.stderr).to_lowercase();
        assert!(message.contains(&format!("not {other}")), "{message}");
    }
}

#[test]
fn bad_input_is_code_2_with_one_line() {
    let cases = [
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 1\n",
            "line 3, column 3",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1\n",
            "2 by 3",
        ),
        (
            "%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1\n",
            "pattern",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 nan\n",
            "not a number",
        ),
    ];
    for (content, word) in cases {
        let (_folder, path) = file("a.mtx", content);
        let output = luge(&["solve", as_str(&path), "--backend", "cpu"]);
        expect_code(&output, 2);
        let message = text(&output.stderr);
        assert!(
            message.starts_with("luge: ") && message.contains(word),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
        assert_eq!(message.matches(word).count(), 1, "{message}");
    }
    let missing = luge(&["solve", "/no/such/file.mtx"]);
    expect_code(&missing, 2);
    assert!(text(&missing.stderr).contains("/no/such/file.mtx"));
    let wide = "%%MatrixMarket matrix coordinate real general\n1 4294967295 0\n";
    let (_folder, wide) = file("a.mtx", wide);
    let message = text(&luge(&["info", as_str(&wide)]).stderr);
    assert_eq!(
        message.matches("4294967295, more than").count(),
        1,
        "{message}"
    );
    expect_code(&luge(&["solve", "--pivoting", "hopeful"]), 2);
}

#[test]
fn singular_is_code_3_and_reported() {
    let cases = [
        ("2 2 2\n1 1 1\n2 1 1\n", "structurally_singular"),
        (
            "2 2 4\n1 1 1\n1 2 1\n2 1 1\n2 2 1\n",
            "numerically_singular",
        ),
        ("2 2 3\n1 1 1\n1 2 1\n2 2 0\n", "numerically_singular"),
    ];
    for (entries, status) in cases {
        let content = format!("%%MatrixMarket matrix coordinate real general\n{entries}");
        let (folder, path) = file("a.mtx", &content);
        let json = folder.path().join("report.json");
        let output = luge(&[
            "solve",
            as_str(&path),
            "--backend",
            "cpu",
            "--json",
            as_str(&json),
        ]);
        expect_code(&output, 3);
        let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        assert_eq!(report["status"], status);
        assert!(report["error"].as_str().unwrap().contains("singular"));
    }
}

#[test]
fn a_missed_target_is_code_3() {
    let output = luge(&[
        "solve",
        "--backend",
        "cpu",
        "--size",
        "12",
        "--target",
        "1e-300",
    ]);
    expect_code(&output, 3);
    assert!(text(&output.stdout).contains("above the target"));
}

/// Where there is a GPU this solves; elsewhere it must say what is missing.
#[cfg(feature = "gpu")]
#[test]
fn a_missing_gpu_is_code_4() {
    let output = luge(&["solve", "--backend", "gpu", "--size", "5"]);
    if output.status.code() == Some(0) {
        assert!(text(&output.stdout).contains("kernel load"));
        return;
    }
    expect_code(&output, 4);
    let message = text(&output.stderr);
    let cause = message.strip_prefix("luge: the device cannot be used: ");
    let cause = cause.unwrap_or_else(|| panic!("{message}")).trim();
    assert!(cause.to_lowercase().contains("cuda"), "{message}");
    assert_eq!(message.matches(cause).count(), 1, "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[cfg(feature = "simulator")]
#[test]
fn the_simulator_solves() {
    let output = luge(&["solve", "--backend", "sim", "--seed", "3", "--size", "5"]);
    expect_code(&output, 0);
    assert!(text(&output.stdout).contains("imulator"));
}

#[cfg(feature = "simulator")]
#[test]
fn symmetric_matrices_are_solved_on_the_simulator() {
    // 4 1 . / 1 -3 2 / . 2 5, as one triangle.
    let matrix = "%%MatrixMarket matrix coordinate real symmetric\n3 3 5\n1 1 4\n2 1 1\n2 2 -3\n3 2 2\n3 3 5\n";
    let (folder, path) = file("a.mtx", matrix);
    for kind in ["symmetric", "auto"] {
        let json = folder.path().join(format!("{kind}.json"));
        let output = luge(&[
            "solve",
            as_str(&path),
            "--kind",
            kind,
            "--backend",
            "sim",
            "--json",
            as_str(&json),
        ]);
        expect_code(&output, 0);
        let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        let inform = &report["inform"];
        assert_eq!(inform["kind"], "symmetric");
        assert_eq!(
            (&inform["backend"], &inform["num_neg"]),
            (&"simulator".into(), &1.into())
        );
        assert!(inform["backward_error"].as_f64().unwrap() <= 1e-12);
    }
    let output = luge(&["solve", as_str(&path), "--kind", "spd", "--backend", "sim"]);
    assert!(!output.status.success());
    let printed = text(&output.stderr);
    assert!(printed.contains("not positive definite"), "{printed}");
}

#[test]
fn every_option_of_the_ordering_solves() {
    let (folder, reversed) = file(
        "order.txt",
        &(1..=36).rev().map(|i| format!("{i}\n")).collect::<String>(),
    );
    for ordering in ["auto", "amd", "colamd", "nd", "natural", "file"] {
        let mut arguments = vec![
            "solve",
            "--backend",
            "cpu",
            "--size",
            "6",
            "--ordering",
            ordering,
        ];
        if ordering == "file" {
            arguments.extend(["--permutation", as_str(&reversed)]);
        }
        expect_code(&luge(&arguments), 0);
    }
    let plain = [
        "--no-matching",
        "--no-scaling",
        "--no-blocks",
        "--precision",
        "f32",
    ];
    let arguments = [&["solve", "--backend", "cpu", "--size", "6"], &plain[..]].concat();
    expect_code(&luge(&arguments), 0);

    let twice = folder.path().join("twice.txt");
    std::fs::write(&twice, "1\n1\n").unwrap();
    let output = luge(&[
        "analyze",
        "--size",
        "6",
        "--backend",
        "cpu",
        "--ordering",
        "file",
        "--permutation",
        as_str(&twice),
    ]);
    expect_code(&output, 2);
    assert!(text(&output.stderr).contains("2 lines for a matrix of order 36"));
}

#[test]
fn analyze_predicts_and_does_not_factorize() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("report.json");
    let output = luge(&[
        "analyze",
        "--backend",
        "cpu",
        "--size",
        "15",
        "--json",
        as_str(&json),
    ]);
    expect_code(&output, 0);
    assert!(text(&output.stdout).contains("predicted"));
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["status"], "analyzed");
    assert!(report["inform"]["lnz"].as_u64().unwrap() > 0);
    assert!(report["inform"]["predicted_host_bytes"].as_u64().unwrap() > 0);
    assert!(report["inform"]["seconds"]["numeric"].is_null());
}

#[cfg(feature = "plot")]
#[test]
fn pictures_are_drawn_of_the_matrix_and_of_its_factors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.mtx");
    let a = random_unsymmetric(300, 3, 5);
    write(&path, &a.view(), &WriteOptions::default()).expect("it is written");
    let picture = folder.path().join("a.svg");
    let drawn = || {
        let svg = std::fs::read_to_string(&picture).expect("there is a picture");
        assert!(svg.starts_with("<svg") && svg.contains("prefers-color-scheme:dark"));
        svg
    };
    let info = ["info", as_str(&path), "--plot", as_str(&picture)];
    expect_code(&luge(&info), 0);
    assert!(drawn().contains("300 rows, 300 columns"));
    expect_refused(&luge(&info), "a.svg exists; --force overwrites it");
    expect_code(&luge(&[&info[..], &["--force"]].concat()), 0);
    let analyze = ["analyze", "--backend", "cpu", as_str(&path), "--plot"];
    let named = [&analyze[..], &[as_str(&picture)]].concat();
    expect_refused(&luge(&named), "a.svg exists; --force overwrites it");
    let named = [&named[..], &["--force"]].concat();
    expect_code(&luge(&named), 0);
    let svg = drawn();
    assert!(svg.contains("L and U:") && svg.contains(" levels, the widest of "));

    // Without a name, after the matrix, where the command runs.
    let output = Command::new(env!("CARGO_BIN_EXE_luge"))
        .args(analyze)
        .current_dir(folder.path())
        .output()
        .expect("the command starts");
    expect_code(&output, 0);
    assert!(folder.path().join("a.analysis.svg").exists());
    let again = Command::new(env!("CARGO_BIN_EXE_luge"))
        .args(analyze)
        .current_dir(folder.path())
        .output()
        .expect("the command starts");
    expect_refused(
        &again,
        "--plot a.analysis.svg exists; --force overwrites it",
    );

    // A matrix behind the option is not overwritten.
    let before = std::fs::read(&path).expect("it is there");
    expect_code(&luge(&["analyze", "--plot", as_str(&path)]), 2);
    assert_eq!(std::fs::read(&path).expect("it is still there"), before);
}

#[test]
fn info_describes_what_no_solver_takes() {
    let content = "%%MatrixMarket matrix coordinate real general\n\
                   3 3 5\n1 1 2\n1 2 -4\n2 1 -4\n2 2 0\n3 1 nan\n";
    let (_folder, path) = file("a.mtx", content);
    let output = luge(&["info", as_str(&path)]);
    expect_code(&output, 0);
    let printed = text(&output.stdout);
    for fact in [
        "3 × 3",
        "5, 5 stored",
        "coordinate real general",
        "structural 0.667, numeric 0.667",
        "1 not stored, 1 stored zeros",
        "2.00e0 to 4.00e0, 1 stored zeros, 1 NaN",
        "structural rank",
    ] {
        assert!(printed.contains(fact), "{fact} in {printed}");
    }
    let (_folder, path) = file(
        "p.mtx",
        "%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 1\n2 3\n",
    );
    expect_code(&luge(&["info", as_str(&path)]), 0);
    expect_code(&luge(&["info", "/no/such/file.mtx"]), 2);
}

/// A pipe that nobody reads.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn a_closed_pipe_ends_the_printing_and_not_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let a = random_unsymmetric(30, 3, 4);
    write(at("a.mtx"), &a.view(), &WriteOptions::default()).unwrap();
    let (a, x, json) = (at("a.mtx"), at("x.mtx"), at("report.json"));
    let solve = ["solve", as_str(&a), "--backend", "cpu"];
    let kept = ["--out", as_str(&x), "--json", as_str(&json)];
    let kept = [&solve[..], &kept].concat();
    let to_stdout = ["--json", "/dev/stdout", "--out", "/dev/stdout"];
    let to_stdout = [&solve[..], &to_stdout].concat();
    let missed = [&solve[..], &["--target", "1e-300"]].concat();
    let analyze = ["analyze", as_str(&a), "--backend", "cpu"];
    let mut cases = vec![
        (vec!["info", as_str(&a)], 0),
        (analyze.to_vec(), 0),
        (kept, 0),
        (missed, 3),
        (vec!["--help"], 0),
        (vec!["info", "/no/such/file.mtx"], 2),
        (vec!["solve", "--no-such-option"], 2),
    ];
    if cfg!(unix) {
        cases.push((to_stdout, 0));
    }
    for (arguments, code) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_luge"))
            .args(&arguments)
            .stdout(closed_pipe())
            .stderr(Stdio::piped())
            .output()
            .expect("the command starts");
        expect_code(&output, code);
        if code != 2 {
            assert_eq!(text(&output.stderr), "", "{arguments:?}");
        }
        let unheard = Command::new(env!("CARGO_BIN_EXE_luge"))
            .args(&arguments)
            .arg("--force")
            .stdout(closed_pipe())
            .stderr(closed_pipe())
            .status()
            .expect("the command starts");
        // `info` and `--help` may not know the option.
        assert!(matches!(unheard.code(), Some(found) if found == code || found == 2));
    }
    assert_eq!(read_vector(&x).unwrap().len(), 30);
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["status"], "solved");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_a_failure() {
    let (_folder, path) = file(
        "a.mtx",
        "%%MatrixMarket matrix array real general\n1 1\n1\n",
    );
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let output = Command::new(env!("CARGO_BIN_EXE_luge"))
        .args(["info", as_str(&path)])
        .stdout(full.unwrap())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    expect_code(&output, 1);
    assert!(text(&output.stderr).starts_with("luge: standard output: "));
}

#[cfg(unix)]
#[test]
fn a_report_on_standard_output_comes_after_the_table() {
    let output = luge(&[
        "solve",
        "--backend",
        "cpu",
        "--size",
        "4",
        "--json",
        "/dev/stdout",
    ]);
    expect_code(&output, 0);
    let printed = text(&output.stdout);
    let (table, report) = printed.split_at(printed.find("{\n").expect("a report"));
    assert!(table.contains("backward error"), "{table}");
    let report: Value = serde_json::from_str(report).unwrap();
    assert_eq!(report["status"], "solved");
}

#[test]
fn sizes_that_no_sample_can_have_are_refused() {
    let solve = |sample: &str, size: &str| {
        luge(&[
            "solve",
            "--backend",
            "cpu",
            "--sample",
            sample,
            "--size",
            size,
        ])
    };
    for sample in ["grid", "circuit"] {
        for size in ["0", "-1", "1.5", "18446744073709551616", ""] {
            expect_code(&solve(sample, size), 2);
        }
        for size in ["4294967296", "18446744073709551615"] {
            let message =
                format!("--size {size}: a {sample} of that size has more than 4294967294 rows");
            expect_refused(&solve(sample, size), &message);
        }
        expect_code(&solve(sample, "1"), 0);
        expect_code(&solve(sample, "2"), 0);
    }
    expect_refused(
        &solve("grid", "65536"),
        "--size 65536: a grid of that size has more than 4294967294 rows",
    );
}

/// What needs more memory than a machine has is refused before it is begun. A machine that has it would go to work.
#[cfg(target_os = "linux")]
#[test]
fn what_does_not_fit_the_memory_is_refused_before_it_is_begun() {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.split_whitespace().nth(1).unwrap();
    let bytes = 1024 * total.parse::<u64>().unwrap();
    let content = "%%MatrixMarket matrix coordinate real general\n1 4294967294 1\n1 1 1\n";
    let (_folder, wide) = file("wide.mtx", content);
    let sample = [
        "analyze",
        "--backend",
        "cpu",
        "--json",
        "/dev/null",
        "--size",
        "65535",
    ];
    let cases: [(&[&str], u64, &str); 2] = [
        (
            &sample,
            893_325_934_800,
            "--size 65535: the sample needs 893,325,934,800 bytes of memory, and ",
        ),
        (
            &["info", as_str(&wide)],
            171_798_691_800,
            "a matrix of 1 × 4,294,967,294 needs 171,798,691,800 bytes of memory, and ",
        ),
    ];
    for (arguments, needed, message) in cases {
        if bytes < needed {
            expect_refused(&luge(arguments), message);
        } else {
            eprintln!("skipped: this machine has memory for {arguments:?}");
        }
    }
}

/// A system of order 3 in two files.
fn small_system() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (folder, a) = file(
        "a.mtx",
        "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 1 2\n2 2 4\n3 3 8\n",
    );
    let b = folder.path().join("b.mtx");
    let three = DenseMatrix::from_vector(vec![2.0, 4.0, 8.0]);
    write_dense(&b, &three, &WriteOptions::default()).unwrap();
    (folder, a, b)
}

#[test]
fn an_output_that_is_an_input_is_refused_under_any_name() {
    let (folder, a, b) = small_system();
    let before = [&a, &b].map(|path| std::fs::read(path).unwrap());
    let order = folder.path().join("order.txt");
    std::fs::write(&order, "1\n2\n3\n").unwrap();
    let mut names = vec![
        (a.clone(), "the matrix"),
        (b.clone(), "--rhs"),
        (order.clone(), "--permutation"),
        (folder.path().join(".").join("a.mtx"), "the matrix"),
        (
            folder
                .path()
                .join("..")
                .join(folder.path().file_name().unwrap())
                .join("b.mtx"),
            "--rhs",
        ),
    ];
    let hard = folder.path().join("hard.mtx");
    std::fs::hard_link(&a, &hard).unwrap();
    names.push((hard, "the matrix"));
    #[cfg(unix)]
    {
        let soft = folder.path().join("soft.mtx");
        std::os::unix::fs::symlink("b.mtx", &soft).unwrap();
        names.push((soft, "--rhs"));
        let elsewhere = folder.path().join("elsewhere");
        std::os::unix::fs::symlink(folder.path(), &elsewhere).unwrap();
        names.push((elsewhere.join("a.mtx"), "the matrix"));
    }
    for (name, input) in &names {
        for option in ["--out", "--json"] {
            for force in [&[][..], &["--force"]] {
                let arguments = [
                    "solve",
                    as_str(&a),
                    "--rhs",
                    as_str(&b),
                    "--backend",
                    "cpu",
                    "--ordering",
                    "file",
                    "--permutation",
                    as_str(&order),
                    option,
                    as_str(name),
                ];
                let output = luge(&[&arguments[..], force].concat());
                expect_refused(&output, &format!("{option} {} is {input}", name.display()));
                assert!(text(&output.stderr).contains("would be overwritten"));
            }
        }
    }
    assert_eq!([&a, &b].map(|path| std::fs::read(path).unwrap()), before);
    assert_eq!(std::fs::read(&order).unwrap(), b"1\n2\n3\n");
}

#[test]
fn two_outputs_of_one_name_are_refused() {
    let (folder, a, _) = small_system();
    let at = |name: &str| folder.path().join(name);
    for force in [&[][..], &["--force"]] {
        for exists in [false, true] {
            let (one, other) = (at("r"), at(".").join("r"));
            if exists {
                std::fs::write(&one, "mine").unwrap();
            }
            let arguments = ["solve", as_str(&a), "--backend", "cpu", "--out"];
            let outputs = [as_str(&one), "--json", as_str(&other)];
            let output = luge(&[&arguments[..], &outputs, force].concat());
            if exists && force.is_empty() {
                expect_refused(&output, "exists; --force overwrites it");
            } else {
                expect_refused(&output, "are the same file");
            }
            assert_eq!(one.exists(), exists);
            let _ = std::fs::remove_file(&one);
        }
    }
    #[cfg(feature = "plot")]
    {
        let svg = at("p.svg");
        let arguments = ["analyze", as_str(&a), "--backend", "cpu"];
        let outputs = ["--json", as_str(&svg), "--plot", as_str(&svg)];
        let output = luge(&[&arguments[..], &outputs].concat());
        expect_refused(&output, "are the same file");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_work() {
    let (folder, _, _) = small_system();
    let at = |name: &str| as_str(&folder.path().join(name)).to_owned();
    std::fs::create_dir(at("folder")).unwrap();
    let mut cases = vec![
        (at("no/x.mtx"), "folder"),
        (at("folder"), "it is a folder"),
        (at("folder/"), "it is a folder"),
        (at("x/"), "it names no file"),
        (at("a.mtx/x.mtx"), "cannot be written"),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("no/x.mtx", at("dangling")).unwrap();
        cases.push((at("dangling"), "it is a link to a file that is not there"));
    }
    #[cfg(target_os = "linux")]
    cases.push(("/proc/x.mtx".to_owned(), "cannot be written"));
    // Whoever reads the matrix first says that it is missing.
    let missing = at("missing.mtx");
    for (path, message) in &cases {
        for option in ["--out", "--json"] {
            let output = luge(&["solve", &missing, "--force", option, path]);
            expect_refused(&output, message);
            assert!(text(&output.stderr).contains(&format!("{option} {path} cannot be written")));
        }
    }
    #[cfg(feature = "plot")]
    for command in ["info", "analyze"] {
        let output = luge(&[command, &missing, "--plot", &at("no/x.svg")]);
        expect_refused(&output, "cannot be written");
    }
}

#[test]
fn files_that_exist_are_overwritten_as_a_whole_and_only_by_force() {
    let (folder, a, _) = small_system();
    let at = |name: &str| folder.path().join(name);
    let (x, json) = (at("x.mtx.gz"), at("report.json"));
    let solve = |matrix: &Path, more: &[&str]| {
        let arguments = ["solve", as_str(matrix), "--backend", "cpu"];
        let outputs = ["--out", as_str(&x), "--json", as_str(&json)];
        luge(&[&arguments[..], &outputs, more].concat())
    };
    expect_code(&solve(&a, &[]), 0);
    assert_eq!(read_vector(&x).unwrap(), [1.0; 3]);
    std::fs::write(&x, "mine").unwrap();
    expect_refused(&solve(&a, &[]), "report.json exists; --force overwrites it");
    let report = std::fs::read(&json).unwrap();
    std::fs::remove_file(&json).unwrap();

    expect_refused(&solve(&a, &[]), "x.mtx.gz exists; --force overwrites it");
    assert!(!json.exists());
    assert_eq!(std::fs::read(&x).unwrap(), b"mine");

    // A run that fails leaves the solution as it is, and writes its report.
    let singular = at("singular.mtx");
    let content = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 1 1\n";
    std::fs::write(&singular, content).unwrap();
    expect_code(&solve(&singular, &["--force"]), 3);
    assert_eq!(std::fs::read(&x).unwrap(), b"mine");
    assert_ne!(std::fs::read(&json).unwrap(), report);

    expect_code(&solve(&a, &["--force"]), 0);
    assert_eq!(read_vector(&x).unwrap(), [1.0; 3]);
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = ["a.mtx", "b.mtx", "report.json", "singular.mtx", "x.mtx.gz"];
    assert_eq!(names, expected, "nothing unfinished is left");
}

#[cfg(unix)]
#[test]
fn a_file_that_is_overwritten_keeps_its_permissions_and_its_links() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, a, _) = small_system();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("x.mtx"), "mine").unwrap();
    std::fs::set_permissions(at("x.mtx"), PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("x.mtx", at("link.mtx")).unwrap();
    let link = at("link.mtx");
    let output = luge(&[
        "solve",
        as_str(&a),
        "--backend",
        "cpu",
        "--out",
        as_str(&link),
        "--force",
    ]);
    expect_code(&output, 0);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read_vector(at("x.mtx")).unwrap(), [1.0; 3]);
    let mode = std::fs::metadata(at("x.mtx")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn sizes_and_numbers_of_a_right_hand_side_are_checked_before_the_work() {
    let (folder, a, b) = small_system();
    let put = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("%%MatrixMarket matrix {content}")).unwrap();
        path
    };
    let wide = put("wide.mtx", "coordinate real general\n2 3 1\n1 1 1\n");
    let short = put("short.mtx", "array real general\n2 1\n1\n1\n");
    let nan = put("nan.mtx", "array real general\n3 2\n1\n1\n1\n1\nnan\n1\n");
    let none = put("none.mtx", "array real general\n3 0\n");
    let huge = put(
        "huge.mtx",
        "coordinate real general\n2 2 3\n1 1 1e308\n1 2 1e308\n2 2 1\n",
    );
    let named = |path: &Path, message: &str| format!("luge: {}: {message}\n", path.display());
    let cases = [
        (
            &wide,
            Some(&b),
            named(
                &wide,
                "the matrix is 2 by 3, and only square systems are solved",
            ),
        ),
        (
            &a,
            Some(&short),
            named(
                &short,
                "the right-hand side has 2 rows; the matrix has order 3",
            ),
        ),
        (
            &a,
            Some(&nan),
            named(
                &nan,
                "the value of the right-hand side in row 1, column 1 is infinite or not a number",
            ),
        ),
        (
            &a,
            Some(&none),
            named(&none, "the right-hand side has no columns"),
        ),
        (
            &huge,
            None,
            "luge: the right-hand side A·1 overflows in row 0; --rhs gives another one\n"
                .to_owned(),
        ),
    ];
    for (matrix, rhs, message) in cases {
        let mut arguments = vec!["solve", as_str(matrix), "--backend", "cpu"];
        arguments.extend(rhs.iter().flat_map(|path| ["--rhs", as_str(path)]));
        let output = luge(&arguments);
        expect_code(&output, 2);
        assert_eq!(text(&output.stderr), message);
    }
}

#[test]
fn options_out_of_their_range_are_code_2() {
    let cases: [(&[&str], &str); 9] = [
        (&["--target", "2"], "target_backward_error is 2.0"),
        (&["--target", "nan"], "expected a positive number"),
        (&["--target", "0"], "expected a positive number"),
        (&["--perturbation", "1.5"], "perturbation is 1.5"),
        (&["--perturbation", "-1"], "'-1'"),
        (&["--pivoting", "threshold=nan"], "not between 0 and 1"),
        (&["--threads", "0"], "1..=1024"),
        (&["--threads", "1025"], "1..=1024"),
        (&["--threads", "100000"], "1..=1024"),
    ];
    for (options, message) in cases {
        let small = ["solve", "--backend", "cpu", "--size", "3"];
        let output = luge(&[&small[..], options].concat());
        expect_code(&output, 2);
        let printed = text(&output.stderr);
        assert!(printed.contains(message), "{message} in {printed}");
    }
}

/// A pseudo-random sequence (SplitMix64).
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// Arguments that a user may come up with, good and bad ones, for files of the folder where the command runs.
fn random_arguments(random: &mut Sequence) -> Vec<&'static str> {
    const FILES: [&str; 17] = [
        "good.mtx",
        "good.mtx",
        "good.mtx",
        "good.mtx",
        "good.mtx",
        "good.mtx",
        "good.mtx",
        "b.mtx",
        "wide.mtx",
        "nan.mtx",
        "singular.mtx",
        "order.txt",
        "empty",
        "garbage",
        "huge.mtx",
        "folder",
        "missing",
    ];
    const OUTPUTS: [&str; 12] = [
        "new",
        "new",
        "new.svg",
        "new.mtx.gz",
        "old.svg",
        "good.mtx",
        "./b.mtx",
        "no/x",
        "folder",
        "folder/",
        "/dev/null",
        "",
    ];
    const NUMBERS: [&str; 13] = [
        "0",
        "1",
        "2",
        "3",
        "7",
        "1e-3",
        "0.5",
        "-1",
        "nan",
        "inf",
        "4294967296",
        "18446744073709551615",
        "many",
    ];
    let words: &[(&str, &[&str])] = &[
        ("--rhs", &FILES),
        ("--repeat", &FILES),
        ("--load-analysis", &FILES),
        ("--save-analysis", &OUTPUTS),
        ("--out", &OUTPUTS),
        ("--json", &OUTPUTS),
        ("--plot", &OUTPUTS),
        ("--sample", &["grid", "circuit", "ring"]),
        ("--target", &["0.5", "1e-9", "1e-300", "0", "nan", "7"]),
        ("--perturbation", &["0.5", "1e-9", "1e-300", "-1", "inf"]),
        (
            "--refinement-steps",
            &["0", "1", "18446744073709551615", "x"],
        ),
        ("--threads", &["1", "2", "3", "0", "1025", "many"]),
        (
            "--max-bytes",
            &["0", "10000000", "18446744073709551615", "x"],
        ),
        ("--max-device-bytes", &["0", "10000000", "nan"]),
        ("--seed", &NUMBERS),
        ("--device", &NUMBERS),
        (
            "--pivoting",
            &[
                "auto",
                "static",
                "threshold",
                "threshold=0",
                "threshold=nan",
                "x",
            ],
        ),
        (
            "--ordering",
            &["amd", "colamd", "nd", "natural", "file", "x"],
        ),
        ("--permutation", &FILES),
        ("--no-matching", &[]),
        ("--no-scaling", &[]),
        ("--no-blocks", &[]),
        ("--condition", &[]),
        ("--determinant", &[]),
        ("--engine", &["auto", "columns", "fronts", "x"]),
        ("--device-engine", &["auto", "columns", "tree", "x"]),
        ("--precision", &["f32", "f64", "f16"]),
        ("--help", &[]),
        ("--", &[]),
        ("--no-such-option", &NUMBERS),
    ];
    let mut arguments = vec![random.one_of(&["solve", "solve", "solve", "analyze", "info"])];
    if arguments[0] == "info" || random.below(3) > 0 {
        arguments.push(random.one_of(&FILES));
    } else {
        let sizes = ["1", "2", "3", "5", "7", random.one_of(&NUMBERS)];
        arguments.extend(["--size", random.one_of(&sizes)]);
    }
    if arguments[0] != "info" {
        let backends = ["cpu", "cpu", "cpu", "cpu", "cpu", "cpu", "sim", "x"];
        arguments.extend(["--backend", random.one_of(&backends)]);
    }
    // `info` knows little; most lists with more are refused at once.
    let most = if arguments[0] == "info" { 2 } else { 5 };
    for _ in 0..random.below(most) {
        let (option, values) = words[random.below(words.len())];
        arguments.push(option);
        if !values.is_empty() {
            arguments.push(random.one_of(values));
        }
    }
    if arguments[0] != "info" && random.below(2) == 0 {
        arguments.push("--force");
    }
    arguments
}

#[test]
fn no_list_of_arguments_makes_the_command_panic_or_changes_its_inputs() {
    const SEED: u64 = 20_261_122;
    const RUNS: usize = 200;
    const LONGEST: Duration = Duration::from_secs(120);
    let folder = tempfile::tempdir().unwrap();
    let a = random_unsymmetric(7, 3, 4);
    let good = folder.path().join("good.mtx");
    write(&good, &a.view(), &WriteOptions::default()).unwrap();
    let b = DenseMatrix::new(7, 2, vec![1.0; 14]);
    write_dense(folder.path().join("b.mtx"), &b, &WriteOptions::default()).unwrap();
    let banner = "%%MatrixMarket matrix coordinate real general\n";
    for (name, content) in [
        ("wide.mtx", format!("{banner}2 3 1\n1 1 1\n")),
        ("nan.mtx", format!("{banner}2 2 2\n1 1 nan\n2 2 1\n")),
        ("singular.mtx", format!("{banner}2 2 2\n1 1 1\n2 1 1\n")),
        (
            "huge.mtx",
            format!("{banner}4294967296 4294967296 1\n1 1 1\n"),
        ),
        ("order.txt", "7\n6\n5\n4\n3\n2\n1\n".to_owned()),
        ("empty", String::new()),
        ("old.svg", "old".to_owned()),
    ] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let noise: Vec<u8> = (0..4000u32).map(|i| (i * i / 7) as u8).collect();
    std::fs::write(folder.path().join("garbage"), noise).unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    let inputs = ["good.mtx", "b.mtx", "order.txt", "garbage"].map(|name| {
        let path = folder.path().join(name);
        let content = std::fs::read(&path).unwrap();
        (name, path, content)
    });
    let place = tempfile::tempdir().unwrap();
    let (printed, said) = (place.path().join("out"), place.path().join("err"));

    let mut random = Sequence(SEED);
    let mut codes = [0; 5];
    for run in 0..RUNS {
        let arguments = random_arguments(&mut random);
        let at = format!("run {run} of seed {SEED}: luge {}", arguments.join(" "));
        let stdout = if random.below(4) == 0 {
            closed_pipe()
        } else {
            std::fs::File::create(&printed).unwrap().into()
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_luge"))
            .args(&arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(std::fs::File::create(&said).unwrap())
            .spawn()
            .expect("the command starts");
        let start = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if start.elapsed() > LONGEST => {
                    child.kill().unwrap();
                    panic!("{at}: still running after {LONGEST:?}");
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let said = text(&std::fs::read(&said).unwrap());
        let code = status.code().filter(|code| (0..=4).contains(code));
        let code = code.unwrap_or_else(|| panic!("{at}: {status}\n{said}"));
        assert!(!said.contains("panicked"), "{at}: {said}");
        assert_eq!(
            code != 0 && code != 3,
            !said.is_empty() && code != 3,
            "{at}"
        );
        codes[code as usize] += 1;
        for (name, path, before) in &inputs {
            if std::fs::read(path).unwrap() == *before {
                continue;
            }
            let is_read = |pair: &[&str]| {
                pair[1] == *name && !["--out", "--json", "--plot"].contains(&pair[0])
            };
            assert!(
                arguments.contains(&"--force") && !arguments.windows(2).any(is_read),
                "{at}: {name} is not what it was"
            );
            std::fs::write(path, before).unwrap();
        }
    }
    // Lists that all end alike would show little.
    assert!(codes[0] > RUNS / 5 && codes[2] > RUNS / 5, "{codes:?}");
    println!("{RUNS} runs of seed {SEED}, by exit code: {codes:?}");
}
