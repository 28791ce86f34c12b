//! The dependency edges that ARCHITECTURE.md promises, read from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// The phases in pipeline order. A phase may depend on those before it, never on one after it.
const PHASES: [&str; 9] = [
    "luge-matrix-io",
    "luge-ordering",
    "luge-symbolic",
    "luge-supernode",
    "luge-levelize",
    "luge-dense",
    "luge-frontal",
    "luge-numeric",
    "luge-solve",
];

/// Packages that are not shipped: they may depend on anything.
const UNSHIPPED: [&str; 6] = [
    "luge-test-kernels",
    "luge-testkit",
    "luge-tests",
    "luge-benches",
    "luge-peers",
    "xtask",
];

/// Normal (not dev, not build) dependencies of every workspace package.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata answers");
    metadata
        .packages
        .iter()
        .map(|package| {
            let normal = package
                .dependencies
                .iter()
                .filter(|d| d.kind == DependencyKind::Normal)
                .map(|d| d.name.clone())
                .collect();
            (package.name.to_string(), normal)
        })
        .collect()
}

fn workspace_edges(package: &str) -> BTreeSet<String> {
    let all = dependencies();
    all[package]
        .iter()
        .filter(|d| all.contains_key(*d))
        .cloned()
        .collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&n| n.to_owned()).collect()
}

#[test]
fn gpu_kernels_depend_on_the_dsl_alone() {
    assert_eq!(dependencies()["luge-gpu-kernels"], names(&["luge-kernel"]));
    assert_eq!(
        workspace_edges("luge-kernel"),
        names(&["luge-kernel-macros"])
    );
}

#[test]
fn the_reference_depends_on_the_shared_types_alone() {
    assert_eq!(dependencies()["luge-reference"], names(&["luge-sparse"]));
    assert_eq!(workspace_edges("luge-sparse"), BTreeSet::new());
}

#[test]
fn the_c_interface_depends_on_the_facade_alone() {
    assert_eq!(dependencies()["luge-c"], names(&["luge"]));
}

#[test]
fn the_interface_of_klu_depends_on_phases_alone() {
    let phases = [
        "luge-frontal",
        "luge-numeric",
        "luge-ordering",
        "luge-solve",
    ];
    let mut expected = names(&phases);
    expected.insert("luge-sparse".to_owned());
    assert_eq!(workspace_edges("luge-klu"), expected);
}

#[test]
fn no_phase_depends_on_a_later_one() {
    for (position, phase) in PHASES.iter().enumerate() {
        let edges = workspace_edges(phase);
        for later in &PHASES[position + 1..] {
            assert!(
                !edges.contains(*later),
                "{phase} depends on the later {later}"
            );
        }
        assert!(!edges.contains("luge"), "{phase} depends on the facade");
    }
}

#[test]
fn only_the_device_crate_touches_the_driver() {
    for (package, edges) in dependencies() {
        assert!(
            package == "luge-device" || !edges.contains("cudarc"),
            "{package} depends on cudarc"
        );
        // Benchmarks load other solvers at run time.
        assert!(
            package == "luge-device"
                || UNSHIPPED.contains(&package.as_str())
                || !edges.contains("libloading"),
            "{package} depends on libloading"
        );
    }
}

#[test]
fn only_the_command_line_draws() {
    for (package, edges) in dependencies() {
        if UNSHIPPED.contains(&package.as_str()) {
            continue;
        }
        assert!(
            package == "luge-plot" || !edges.contains("plotters"),
            "{package} depends on plotters"
        );
        assert!(
            package == "luge" || !edges.contains("luge-plot"),
            "{package} depends on luge-plot"
        );
    }
    let manifest = include_str!("../../../crates/luge/Cargo.toml");
    let optional = "luge-plot = { workspace = true, optional = true }";
    assert!(
        manifest.contains(optional),
        "whoever wants the library alone need not draw"
    );
}

#[test]
fn no_shipped_crate_depends_on_the_testkit_or_the_reference() {
    for (package, edges) in dependencies() {
        if UNSHIPPED.contains(&package.as_str()) {
            continue;
        }
        for test_only in [
            "luge-testkit",
            "luge-reference",
            "luge-test-kernels",
            "luge-tests",
            "luge-benches",
            "luge-peers",
        ] {
            assert!(
                !edges.contains(test_only),
                "{package} depends on {test_only}"
            );
        }
    }
}

#[test]
fn every_crate_has_code() {
    // A crate that only documents itself has no public item.
    for package in dependencies().keys() {
        let folder = match package.as_str() {
            "luge-gpu-kernels" => "gpu-kernels".to_owned(),
            "luge-test-kernels" => "tests/kernels".to_owned(),
            "luge-tests" => "tests".to_owned(),
            "luge-benches" => "benches".to_owned(),
            "luge-peers" => "benches/peers".to_owned(),
            "xtask" => "xtask".to_owned(),
            "luge" => "crates/luge".to_owned(),
            "luge-c" => "bindings/c".to_owned(),
            "luge-klu" => "bindings/klu".to_owned(),
            "luge-hsl" => "bindings/hsl".to_owned(),
            prefixed => format!("crates/{}", prefixed.trim_start_matches("luge-")),
        };
        let source = format!("{}/../{folder}/src", env!("CARGO_MANIFEST_DIR"));
        let functions = count_functions(source.as_ref());
        assert!(functions > 0, "{package} has no function in {folder}/src");
    }
}

fn count_functions(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| entry.expect("the folder is readable").path())
        .map(|path| {
            if path.is_dir() {
                count_functions(&path)
            } else {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                text.matches("fn ").count()
            }
        })
        .sum()
}

/// The oldest Rust that is promised: clippy sees to what is used of the standard library, this test to what others use.
#[test]
fn no_shipped_dependency_asks_for_a_newer_rust_than_is_promised() {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .other_options(["--locked".to_owned()])
        .exec()
        .expect("cargo metadata answers");
    let graph = &metadata.resolve.as_ref().expect("a resolved graph").nodes;
    let package_of =
        |id: &cargo_metadata::PackageId| metadata.packages.iter().find(|package| package.id == *id);
    let own = |package: &cargo_metadata::Package| package.source.is_none();
    let promised = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == "luge")
        .and_then(|package| package.rust_version.clone())
        .expect("luge promises a version");
    let mut reached = BTreeSet::new();
    let mut next: Vec<_> = graph
        .iter()
        .filter(|node| {
            let package = package_of(&node.id).expect("a package for each node");
            own(package) && !UNSHIPPED.contains(&package.name.as_str())
        })
        .collect();
    while let Some(node) = next.pop() {
        if !reached.insert(&node.id) {
            continue;
        }
        let shipped = node.deps.iter().filter(|dependency| {
            let mut kinds = dependency.dep_kinds.iter();
            kinds.any(|kind| kind.kind != DependencyKind::Development)
        });
        next.extend(
            shipped.filter_map(|dependency| graph.iter().find(|node| node.id == dependency.pkg)),
        );
    }
    assert!(reached.len() > 30, "{} packages", reached.len());
    for id in reached {
        let package = package_of(id).expect("a package for each node");
        if let Some(asked) = &package.rust_version {
            assert!(*asked <= promised, "{} asks for Rust {asked}", package.name);
        }
    }
}
