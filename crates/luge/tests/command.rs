//! The command `luge` as a user runs it: exit codes, messages, files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
    let (folder, json) = file("report.json", "");
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
    assert!(text(&output.stderr).contains("29 rows, the matrix 30"));
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
            "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 0\n",
            "complex",
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
    }
    let missing = luge(&["solve", "/no/such/file.mtx"]);
    expect_code(&missing, 2);
    assert!(text(&missing.stderr).contains("/no/such/file.mtx"));
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
#[test]
fn a_missing_gpu_is_code_4() {
    let output = luge(&["solve", "--backend", "gpu", "--size", "5"]);
    if output.status.code() == Some(0) {
        assert!(text(&output.stdout).contains("kernel load"));
        return;
    }
    expect_code(&output, 4);
    let message = text(&output.stderr);
    assert!(message.to_lowercase().contains("cuda"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn the_simulator_solves() {
    let output = luge(&["solve", "--backend", "sim", "--seed", "3", "--size", "5"]);
    expect_code(&output, 0);
    assert!(text(&output.stdout).contains("imulator"));
}

#[test]
fn every_option_of_the_ordering_solves() {
    let (folder, reversed) = file(
        "order.txt",
        &(1..=36).rev().map(|i| format!("{i}\n")).collect::<String>(),
    );
    for ordering in [
        "auto",
        "amd",
        "colamd",
        "nd",
        "reduced-nd",
        "natural",
        "file",
    ] {
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
    let (_folder, json) = file("report.json", "");
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
    expect_code(
        &luge(&["info", as_str(&path), "--plot", as_str(&picture)]),
        0,
    );
    assert!(drawn().contains("300 rows, 300 columns"));
    let analyze = ["analyze", "--backend", "cpu", as_str(&path), "--plot"];
    let named = [&analyze[..], &[as_str(&picture)]].concat();
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
