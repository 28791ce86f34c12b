//! The modules of a crate import each other in one direction: a circle of modules is one module in several files.
//!
//! The modules are those at the top of a crate; one that lies in a folder counts as one. Read from the text of the sources,
//! without their tests and comments. The crate's root may name whatever there is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Circles that are there, each with its reason. One that is gone must be taken off the list.
const KNOWN: [(&str, &[&str], &str); 2] = [
    (
        "device",
        &[
            "arena", "buffer", "device", "event", "graph", "memory", "pinned", "stream",
        ],
        "memory goes back to the device and on the stream that it came from, and a stream is made by a device",
    ),
    (
        "kernel",
        &["host", "sim"],
        "a kernel's description names what the simulator runs",
    ),
];

/// For each module of the crate in `folder`, the others that it names.
fn edges(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let entries = fs::read_dir(folder).expect("the sources of a crate");
    for entry in entries.map(|entry| entry.expect("an entry of the folder").path()) {
        let module = entry.file_stem().expect("a name").to_string_lossy();
        if module == "lib" || module == "main" {
            continue;
        }
        let names = named.entry(module.into_owned()).or_default();
        let mut text = String::new();
        read(&entry, &mut text);
        names.extend(names_of(&text));
    }
    let modules: BTreeSet<String> = named.keys().cloned().collect();
    for (module, names) in &mut named {
        names.retain(|name| name != module && modules.contains(name));
    }
    named
}

/// Appends the code of a file, or of all files of a folder, without tests and comments.
fn read(path: &Path, text: &mut String) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder of sources") {
            read(&entry.expect("an entry of the folder").path(), text);
        }
        return;
    }
    if path.extension().is_none_or(|extension| extension != "rs") {
        return;
    }
    let file = fs::read_to_string(path).expect("a source file");
    let code = file.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    for line in code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
    {
        text.push_str(line);
        text.push('\n');
    }
}

/// What stands behind `crate::`, each name of a list in braces included.
fn names_of(text: &str) -> BTreeSet<String> {
    let first_name = |text: &str| -> String {
        let name = text.trim_start().chars();
        name.take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let mut names = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => drop(names.insert(first_name(rest))),
            Some(list) => {
                let list = list.split(['}', ';']).next().unwrap_or_default();
                names.extend(list.split(',').map(first_name));
            }
        }
    }
    names
}

/// Sets of modules each of which leads to all others of its set.
fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reached_from = |module: &String| {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = edges[module].iter().collect();
        while let Some(next) = open.pop() {
            if reached.insert(next.clone()) {
                open.extend(&edges[next]);
            }
        }
        reached
    };
    let reached: BTreeMap<_, _> = edges.keys().map(|m| (m, reached_from(m))).collect();
    let circle_of = |module: &String| -> BTreeSet<String> {
        let others = reached[module].iter();
        others
            .filter(|other| reached[other].contains(module))
            .cloned()
            .collect()
    };
    edges
        .keys()
        .map(circle_of)
        .filter(|circle| !circle.is_empty())
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn no_crate_has_a_circle_of_modules_that_is_not_on_the_list() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&crates).expect("the folder of crates") {
        let entry = entry.expect("an entry of the folder");
        let name = entry.file_name().to_string_lossy().into_owned();
        let circles = circles(&edges(&entry.path().join("src")));
        found.extend(circles.into_iter().map(|circle| (name.clone(), circle)));
    }
    let known = KNOWN.iter().map(|(name, modules, reason)| {
        assert!(!reason.is_empty());
        ((*name).to_owned(), set(modules))
    });
    assert_eq!(found, known.collect::<BTreeSet<_>>());
}

/// The assembly tree serves every kind of factorization, so it knows none.
#[test]
fn the_tree_imports_no_factorization() {
    let frontal = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/frontal/src");
    assert_eq!(
        edges(&frontal)["tree"],
        set(&["error", "grouped", "shares"])
    );
}

#[test]
fn names_and_circles_are_found() {
    let text = "use crate::a::X;\nuse crate::{b::Y, c};\nlet x = crate::d();";
    assert_eq!(names_of(text), set(&["a", "b", "c", "d"]));
    let edges = |of: &[(&str, &[&str])]| {
        of.iter()
            .map(|(name, to)| ((*name).to_owned(), set(to)))
            .collect()
    };
    let tree = edges(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert!(circles(&tree).is_empty());
    let circle = edges(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
    assert_eq!(circles(&circle), BTreeSet::from([set(&["b", "c"])]));
}
