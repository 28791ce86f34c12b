//! Analyses and factors that are saved and loaded.

use super::*;

#[test]
fn a_saved_analysis_orders_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let a = random_unsymmetric(300, 4, 4);
    write(at("a.mtx"), &a.view(), &WriteOptions::default()).unwrap();
    let (matrix, order, json) = (at("a.mtx"), at("a.luge"), at("r.json"));
    let save = || {
        luge(&[
            "analyze",
            as_str(&matrix),
            "--save-analysis",
            as_str(&order),
            "--backend",
            "cpu",
        ])
    };
    expect_code(&save(), 0);
    let solve = |more: &[&str], out: &str| {
        let out = at(out);
        let mut arguments = vec![
            "solve",
            as_str(&matrix),
            "--backend",
            "cpu",
            "--force",
            "--json",
            as_str(&json),
        ];
        arguments.extend(["--out", as_str(&out)]);
        arguments.extend(more);
        expect_code(&luge(&arguments), 0);
        let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        (
            read_vector(&out).unwrap(),
            report["inform"]["seconds"]["ordering"].as_f64().unwrap(),
        )
    };
    let (x, searched) = solve(&[], "x.mtx");
    let (loaded, nothing) = solve(&["--load-analysis", as_str(&order)], "y.mtx");
    assert!(x == loaded, "the same bits");
    assert!(searched > 0.0 && nothing == 0.0);
    // For a sequence, too.
    let repeat = [
        "--load-analysis",
        as_str(&order),
        "--repeat",
        as_str(&matrix),
    ];
    assert_eq!(solve(&repeat, "z.mtx").1, 0.0);

    // Nothing is overwritten, and nothing but an analysis of this matrix is loaded.
    expect_refused(&save(), "exists; --force overwrites it");
    let loads = |file: &Path| {
        luge(&[
            "solve",
            as_str(&matrix),
            "--load-analysis",
            as_str(file),
            "--backend",
            "cpu",
        ])
    };
    expect_refused(
        &loads(&matrix),
        "a.mtx: saved file: the file is no saved analysis",
    );
    expect_refused(&loads(&at("missing")), "missing");
    let mut bytes = std::fs::read(&order).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(at("damaged"), bytes).unwrap();
    expect_refused(&loads(&at("damaged")), "its checksum is another one");
    let other = random_unsymmetric(300, 4, 5);
    write(at("a.mtx"), &other.view(), &WriteOptions::default()).unwrap();
    expect_refused(&loads(&order), "for another pattern");
}

#[test]
fn saved_factors_are_solved_with_or_refactorized() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let a = random_unsymmetric(300, 4, 4);
    write(at("a.mtx"), &a.view(), &WriteOptions::default()).unwrap();
    let others = a.map(|v| 1.5 * v);
    write(at("b.mtx"), &others.view(), &WriteOptions::default()).unwrap();
    let (factors, json) = (at("a.factors"), at("r.json"));
    let solve = |matrix: &str, more: &[&str]| {
        let (matrix, out) = (at(matrix), at("x.mtx"));
        let mut arguments = vec!["solve", as_str(&matrix), "--backend", "cpu", "--force"];
        arguments.extend(["--json", as_str(&json), "--out", as_str(&out)]);
        arguments.extend(more);
        let run = luge(&arguments);
        let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        (run, read_vector(&out), report)
    };
    let (run, x, _) = solve("a.mtx", &["--save-factors", as_str(&factors)]);
    expect_code(&run, 0);
    let (run, y, report) = solve("a.mtx", &["--load-factors", as_str(&factors)]);
    expect_code(&run, 0);
    assert!(x.unwrap() == y.unwrap(), "the same bits");
    assert!(
        report["inform"]["seconds"]["numeric"].is_null(),
        "nothing was factorized"
    );
    // Other values are refactorized, and their solution is 1 everywhere, too.
    let (run, y, report) = solve("b.mtx", &["--load-factors", as_str(&factors)]);
    expect_code(&run, 0);
    assert!(y.unwrap().iter().all(|v: &f64| (v - 1.0).abs() < 1e-8));
    assert!(report["inform"]["seconds"]["numeric"].is_number());
    // Nothing but factors of this pattern is loaded, nor what was made with other options.
    let expect = |more: &[&str], text: &str| {
        let mut arguments = vec!["--load-factors", as_str(&factors)];
        arguments.extend(more);
        expect_refused(&solve("a.mtx", &arguments).0, text);
    };
    expect(
        &["--precision", "f32"],
        "made with precision double; here it is single",
    );
    expect(
        &["--pivoting", "threshold=0.5"],
        "made with pivoting Auto; here it is Threshold",
    );
    std::fs::write(at("a.factors"), b"%%MatrixMarket").unwrap();
    expect(&[], "a.factors: saved file: the file has no saved factors");
}
