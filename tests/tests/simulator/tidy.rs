//! How long functions and files may be, read from the text of the sources without their unit tests. What is longer is on a list with
//! its reason, and comes off it when it is shorter.
//!
//! And that unit tests stand where they are built: a library with `test = false` has none.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const LINES_OF_A_FILE: usize = 800;
const LINES_OF_A_FUNCTION: usize = 120;

/// Files, by their path from the root of the workspace.
const LONG_FILES: [(&str, &str); 9] = [
    (
        "xtask/src/slips/list.rs",
        "a list: what is replaced by what, and which tests must notice",
    ),
    (
        "crates/device/src/stream.rs",
        "every call of a stream, each of a few lines with its page of documentation",
    ),
    (
        "crates/luge/src/factors.rs",
        "the public calls of one type, two thirds of them documentation and variants of a solve",
    ),
    (
        "crates/luge/src/host.rs",
        "plan and factors of the CPU path, which scale and permute in the same loops",
    ),
    ("crates/device/src/cuda/tests.rs", "unit tests"),
    (
        "crates/numeric/src/cpu/columns/factorize.rs",
        "one elimination: its state and everything that touches it, with the reasons of its unchecked accesses",
    ),
    (
        "benches/src/campaign/step.rs",
        "one step of the campaign: a call of each kind and how it is judged",
    ),
    (
        "crates/testkit/src/generators/hostile.rs",
        "a list of kinds of hostile matrices",
    ),
    (
        "crates/ordering/src/minimum_degree.rs",
        "one quotient graph and everything that changes it",
    ),
];

/// Functions, by file and name.
const LONG_FUNCTIONS: [(&str, &str, &str); 11] = [
    (
        "gpu-kernels/src/symbolic/fill2/traversal.rs",
        "run",
        "one loop between barriers of the grid, which all threads must reach together",
    ),
    (
        "crates/ordering/src/order.rs",
        "order",
        "two searches run side by side, and each may make the other's order useless",
    ),
    (
        "crates/ordering/src/btf.rs",
        "joined_in_pairs",
        "Tarjan's algorithm without recursion: one loop over one stack",
    ),
    (
        "crates/ordering/src/column_degree.rs",
        "column_minimum_degree",
        "the steps of an elimination share a dozen arrays",
    ),
    (
        "crates/numeric/src/cpu/columns/factorize.rs",
        "column",
        "the innermost loop of the column engine, whose state stays in registers",
    ),
    (
        "crates/ordering/src/candidate.rs",
        "candidate",
        "a case for each size of block, which append to the same lists",
    ),
    (
        "crates/ordering/src/minimum_degree.rs",
        "run",
        "the steps of an elimination share the quotient graph",
    ),
    (
        "gpu-kernels/src/refine.rs",
        "residuals",
        "rows of every length by one kernel: the cases share a block's memory",
    ),
    (
        "gpu-kernels/src/symbolic/etree.rs",
        "plant_forest",
        "one loop between barriers of the grid",
    ),
    (
        "crates/ordering/src/matching/cardinality.rs",
        "completed",
        "a search without recursion: one loop over one stack",
    ),
    (
        "crates/testkit/src/generators/hostile.rs",
        "regular_values",
        "a list of kinds of values",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources of all packages, tests and build scripts left out.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for package in [
        "gpu-kernels",
        "xtask",
        "benches",
        "benches/peers",
        "bindings/c",
        "bindings/klu",
        "bindings/hsl",
    ] {
        collect(&root().join(package).join("src"), &mut found);
    }
    for entry in fs::read_dir(root().join("crates")).expect("the folder of crates") {
        let folder = entry.expect("a crate").path();
        collect(&folder.join("src"), &mut found);
    }
    assert!(found.len() > 200, "{} sources", found.len());
    found
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn name_of(path: &Path) -> String {
    let root = root();
    let name = path.strip_prefix(&root).expect("a path below the root");
    name.to_string_lossy().replace('\\', "/")
}

/// The lines of a file before its unit tests.
fn code(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a source file");
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().map(str::to_owned).collect()
}

/// The name of the function whose head begins in a line, and how far that is indented.
fn head(line: &str) -> Option<(&str, usize)> {
    let text = line.trim_start();
    let (before, after) = text.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        matches!(word, "const" | "unsafe" | "extern")
            || word.starts_with("pub")
            || word.starts_with('"')
    };
    let in_path = |word: &str| word == "in" || word.ends_with(')');
    if !before
        .split_whitespace()
        .all(|word| is_qualifier(word) || in_path(word))
    {
        return None;
    }
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (end > 0).then(|| (&after[..end], line.len() - text.len()))
}

/// Functions and their numbers of lines: a formatted body ends with a brace below its head.
fn functions(lines: &[String]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some((name, indent)) = head(line) else {
            continue;
        };
        for (number, line) in lines[first..].iter().enumerate() {
            let text = line.trim_start();
            let is_outer = line.len() - text.len() == indent;
            if is_outer && text == "}" {
                found.push((name.to_owned(), number + 1));
                break;
            }
            // A head without a body, or a body in its line.
            if is_outer && (text.ends_with(';') || text.ends_with('}')) {
                break;
            }
        }
    }
    found
}

#[test]
fn long_files_have_a_reason() {
    let mut reasons: BTreeMap<&str, bool> = LONG_FILES
        .iter()
        .map(|&(file, reason)| {
            assert!(!reason.is_empty(), "{file} has no reason");
            (file, false)
        })
        .collect();
    for path in sources() {
        let (file, lines) = (name_of(&path), code(&path).len());
        if lines > LINES_OF_A_FILE {
            let listed = reasons.get_mut(file.as_str());
            *listed.unwrap_or_else(|| panic!("{file} has {lines} lines")) = true;
        }
    }
    reasons.retain(|_, is_long| !*is_long);
    assert!(reasons.is_empty(), "no longer too long: {reasons:?}");
}

#[test]
fn long_functions_have_a_reason() {
    let mut reasons: BTreeMap<(String, String), bool> = LONG_FUNCTIONS
        .iter()
        .map(|&(file, function, reason)| {
            assert!(!reason.is_empty(), "{file}: {function} has no reason");
            ((file.to_owned(), function.to_owned()), false)
        })
        .collect();
    for path in sources() {
        let file = name_of(&path);
        for (function, lines) in functions(&code(&path)) {
            if lines > LINES_OF_A_FUNCTION {
                let message = format!("{file}: {function} has {lines} lines");
                let listed = reasons.get_mut(&(file.clone(), function));
                *listed.unwrap_or_else(|| panic!("{message}")) = true;
            }
        }
    }
    reasons.retain(|_, is_long| !*is_long);
    assert!(reasons.is_empty(), "no longer too long: {reasons:?}");
}

/// Whether the library of a manifest is built without its unit tests.
fn leaves_out_unit_tests(manifest: &str) -> bool {
    let lib = manifest.split_once("[lib]\n").map_or("", |(_, lib)| lib);
    let lib = lib.split("\n[").next().unwrap_or_default();
    lib.lines().any(|line| line == "test = false")
}

#[test]
fn libraries_that_are_not_tested_have_no_unit_tests() {
    let mut left_out = 0;
    for path in sources() {
        let package = path
            .ancestors()
            .find(|folder| folder.join("Cargo.toml").exists());
        let manifest = package.expect("a package").join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("a manifest");
        if leaves_out_unit_tests(&manifest) {
            left_out += 1;
            let text = fs::read_to_string(&path).expect("a source file");
            let is_test = |line: &str| line.trim_start().starts_with("#[test]");
            assert!(
                !text.lines().any(is_test),
                "{} has unit tests that nobody builds",
                name_of(&path)
            );
        }
    }
    assert!(left_out > 0, "there are such libraries");
}

#[test]
fn manifests_say_whether_unit_tests_are_left_out() {
    assert!(leaves_out_unit_tests(
        "[package]\n\n[lib]\ntest = false\n\n[lints]\n"
    ));
    assert!(!leaves_out_unit_tests(
        "[lib]\ndoctest = false\n\n[[bin]]\ntest = false\n"
    ));
    assert!(!leaves_out_unit_tests("[[bin]]\ntest = false\n"));
}

#[test]
fn functions_are_found_with_their_lengths() {
    let text = "\
fn one() {
    two();
}

pub(in crate::cpu) const unsafe fn two<T>(
    x: T,
) -> T {
    x
}

trait Three {
    fn without_a_body(&self);
    fn in_a_line(&self) {}

    extern \"C\" fn four() {
        if true {
        }
    }
}
let not_fn = \"a fn in words\";
";
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let found = functions(&lines);
    let expected = [("one", 3), ("two", 5), ("four", 4)];
    assert_eq!(
        found,
        expected.map(|(name, lines)| (name.to_owned(), lines))
    );
}
