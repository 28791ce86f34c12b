//! How long functions and files may be, read from the text of the sources without their unit tests.
//!
//! What is longer is on a list with its reason, and comes off it when it is shorter.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const LINES_OF_A_FILE: usize = 800;
const LINES_OF_A_FUNCTION: usize = 120;

/// Files, by their path from the root of the workspace.
const LONG_FILES: [(&str, &str); 0] = [];

/// Functions, by file and name.
const LONG_FUNCTIONS: [(&str, &str, &str); 0] = [];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources of all packages, tests and build scripts left out.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for package in ["gpu-kernels", "xtask", "benches", "benches/peers"] {
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
        matches!(word, "const" | "unsafe" | "extern") || word.starts_with("pub") || word.starts_with('"')
    };
    let in_path = |word: &str| word == "in" || word.ends_with(')');
    if !before.split_whitespace().all(|word| is_qualifier(word) || in_path(word)) {
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
    let mut reasons: BTreeMap<(&str, &str), bool> = LONG_FUNCTIONS
        .iter()
        .map(|&(file, function, reason)| {
            assert!(!reason.is_empty(), "{file}: {function} has no reason");
            ((file, function), false)
        })
        .collect();
    for path in sources() {
        let file = name_of(&path);
        for (function, lines) in functions(&code(&path)) {
            if lines > LINES_OF_A_FUNCTION {
                let listed = reasons.get_mut(&(file.as_str(), function.as_str()));
                *listed.unwrap_or_else(|| panic!("{file}: {function} has {lines} lines")) = true;
            }
        }
    }
    reasons.retain(|_, is_long| !*is_long);
    assert!(reasons.is_empty(), "no longer too long: {reasons:?}");
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
    assert_eq!(found, expected.map(|(name, lines)| (name.to_owned(), lines)));
}
