//! Sequences of matrices.

use super::*;

/// Four matrices of one pattern, the last of them with other pivots; a right-hand side for each, of the solutions 1 to 4.
fn sequence() -> (tempfile::TempDir, Vec<PathBuf>, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let a = random_unsymmetric(40, 3, 7);
    let (mut matrices, mut rhs) = (Vec::new(), Vec::new());
    for step in 0..4 {
        let scale = f64::from(step) + 1.0;
        let mut next = a.map(|v| v * scale + 0.01 * scale);
        if step == 3 {
            // What was large is small.
            next = a.map(|v| 1e-6 / (v + 0.01));
        }
        let x = vec![scale; 40];
        let of_row = |row: usize| {
            next.outer_view(row)
                .unwrap()
                .iter()
                .map(|(j, v)| v * x[j])
                .sum::<f64>()
        };
        let b = DenseMatrix::from_vector((0..40).map(of_row).collect());
        matrices.push(folder.path().join(format!("a{step}.mtx")));
        rhs.push(folder.path().join(format!("b{step}.mtx")));
        write(
            &matrices[step as usize],
            &next.view(),
            &WriteOptions::default(),
        )
        .unwrap();
        write_dense(&rhs[step as usize], &b, &WriteOptions::default()).unwrap();
    }
    (folder, matrices, rhs)
}

#[test]
fn a_sequence_is_analyzed_once_and_refactorized() {
    let (folder, matrices, rhs) = sequence();
    let (json, x) = (folder.path().join("r.json"), folder.path().join("x.mtx"));
    let mut arguments = vec![
        "solve",
        as_str(&matrices[0]),
        "--backend",
        "cpu",
        "--repeat",
    ];
    arguments.extend(matrices[1..].iter().map(|path| as_str(path)));
    for b in &rhs {
        arguments.extend(["--rhs", as_str(b)]);
    }
    arguments.extend(["--json", as_str(&json), "--out", as_str(&x)]);
    let output = luge(&arguments);
    expect_code(&output, 0);
    // The solution of the last one.
    for value in read_vector(&x).unwrap() {
        assert!((value - 4.0).abs() <= 1e-6, "{value}");
    }
    let printed = text(&output.stdout);
    for words in [
        "a0.mtx",
        "a3.mtx",
        "factorized",
        "4 matrices",
        "3 refactorizations",
    ] {
        assert!(printed.contains(words), "{words} in {printed}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["status"], "solved");
    assert_eq!(report["name"], as_str(&matrices[0]));
    let steps = report["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 4);
    assert_eq!(steps[0]["factors"], "factorized");
    assert_eq!(steps[1]["factors"], "reused");
    assert_eq!(steps[3]["factors"], "repivoted");
    assert!(steps[3]["reason"].is_string() && steps[1]["reason"].is_null());
    for (step, path) in steps.iter().zip(&matrices) {
        assert_eq!(step["matrix"], as_str(path));
        assert!(step["backward_error"].as_f64().unwrap() <= 1e-12, "{step}");
        assert!(step["error"].is_null(), "nothing is known of the solution");
        assert!(step["seconds_factors"].as_f64().unwrap() > 0.0);
    }
    let summary = &report["summary"];
    assert_eq!(summary["matrices"], 4);
    assert_eq!(
        summary["reused"].as_u64().unwrap() + summary["repivoted"].as_u64().unwrap(),
        3
    );
    let sum: f64 = steps[1..]
        .iter()
        .map(|s| s["seconds_factors"].as_f64().unwrap())
        .sum();
    let told = summary["seconds_refactorize"].as_f64().unwrap();
    assert!((told - sum).abs() <= 1e-9 * sum);
    assert!(report["inform"]["backward_error"].is_number());
}

#[test]
fn a_sequence_needs_no_first_matrix_and_no_right_hand_side() {
    let (folder, matrices, rhs) = sequence();
    let json = folder.path().join("r.json");
    let mut arguments = vec!["solve", "--repeat"];
    arguments.extend(matrices[..3].iter().map(|path| as_str(path)));
    arguments.extend(["--backend", "cpu", "--json", as_str(&json)]);
    expect_code(&luge(&arguments), 0);
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let steps = report["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 3);
    for step in steps {
        assert!(step["error"].as_f64().unwrap() <= 1e-6, "{step}");
    }
    // One right-hand side for all.
    arguments.extend(["--rhs", as_str(&rhs[0]), "--force"]);
    expect_code(&luge(&arguments), 0);
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    for step in report["steps"].as_array().expect("steps") {
        assert!(step["rhs"].as_str().unwrap().contains("b0.mtx"), "{step}");
    }
    // A single solve has no steps.
    let single = [
        "solve",
        as_str(&matrices[0]),
        "--backend",
        "cpu",
        "--json",
        as_str(&json),
        "--force",
    ];
    expect_code(&luge(&single), 0);
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert!(report.get("steps").is_none() && report.get("summary").is_none());
}

#[test]
fn what_does_not_fit_a_sequence_is_refused_by_its_name() {
    let (folder, matrices, rhs) = sequence();
    let first = as_str(&matrices[0]);
    let solve = |rest: &[&str]| {
        let mut arguments = vec!["solve", first, "--backend", "cpu"];
        arguments.extend(rest);
        luge(&arguments)
    };
    let two = ["--rhs", as_str(&rhs[0]), "--rhs", as_str(&rhs[1])];
    expect_refused(&solve(&two), "--rhs is given 2 times for 1 matrix");
    let mut three = vec!["--repeat", as_str(&matrices[1]), as_str(&matrices[2])];
    three.extend(two);
    expect_refused(&solve(&three), "--rhs is given 2 times for 3 matrices");

    // An entry that the first one does not have.
    let a = random_unsymmetric(40, 3, 7);
    let mut more = sprs::TriMat::new((40, 40));
    for (&value, (i, j)) in a.iter() {
        more.add_triplet(i, j, value);
    }
    let row = (0..40).find(|&i| a.get(i, 0).is_none()).expect("a gap");
    more.add_triplet(row, 0, 1.0);
    let other: sprs::CsMat<f64> = more.to_csr();
    let json = folder.path().join("r.json");
    let path = folder.path().join("other.mtx");
    write(&path, &other.view(), &WriteOptions::default()).unwrap();
    let sequence = [
        "--repeat",
        as_str(&matrices[1]),
        as_str(&path),
        "--json",
        as_str(&json),
    ];
    let output = solve(&sequence);
    expect_refused(&output, "other.mtx: ");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["status"], "extra_entry");
    assert_eq!(
        report["steps"].as_array().expect("as far as it came").len(),
        2
    );

    let small = folder.path().join("small.mtx");
    write(
        &small,
        &random_unsymmetric(30, 3, 4).view(),
        &WriteOptions::default(),
    )
    .unwrap();
    expect_refused(&solve(&["--repeat", as_str(&small)]), "small.mtx: ");
    expect_refused(&solve(&["--repeat", "no/such.mtx"]), "no/such.mtx");
    let out = [
        "--repeat",
        as_str(&matrices[1]),
        "--out",
        as_str(&matrices[1]),
        "--force",
    ];
    expect_refused(&solve(&out), "which would be overwritten");
    expect_code(&luge(&["solve", "--sample", "grid", "--repeat", first]), 2);
}
