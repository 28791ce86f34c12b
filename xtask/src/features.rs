//! `cargo xtask features`: what can be left out compiles when it is, and the default build has no C in it.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::process;
use crate::workspace::Workspace;

/// The crate that users name features of.
const FACADE: &str = "luge";

/// The C interface, which has the feature `gpu` of the facade.
const C_INTERFACE: &str = "luge-c";

/// The feature that takes an installation of MPI.
const MPI: &str = "mpi";

/// The feature of the command, which others add to.
const COMMAND: &str = "cli";

/// Crates that compile C or C++.
const C_COMPILERS: [&str; 3] = ["cc", "cmake", "bindgen"];

/// Checks all shipped crates without their features, the facade with each of its features alone (those of the command with the
/// command), and that no build script of the default build calls a C compiler.
pub fn features(workspace: &Workspace) -> Result<ExitCode> {
    let metadata = MetadataCommand::new()
        .manifest_path(workspace.root.join("Cargo.toml"))
        .no_deps()
        .exec()?;
    let shipped = shipped(&metadata);
    let check = |packages: &[&str], features: Option<&str>| {
        let mut command = process::cargo(&workspace.root);
        command.args(["clippy", "--quiet", "--locked", "--no-default-features"]);
        for package in packages {
            command.args(["--package", package]);
        }
        if let Some(features) = features {
            // What it is made of is linted without features and, by whoever lints the workspace, with all of them.
            command.args(["--no-deps", "--features", features]);
        }
        println!(
            "{}: {}",
            packages.join(", "),
            features.unwrap_or("no features")
        );
        // Not by RUSTFLAGS, with which all dependencies would be checked anew.
        process::run(command.args(["--", "-D", "warnings"]))
    };
    // Together they would turn on each other's features, but for those that nobody has by default.
    let names: Vec<&str> = shipped
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    check(&names, None)?;
    let mut of_command = vec![COMMAND];
    for (feature, enables) in features_of(&metadata, FACADE)? {
        let is_of_command = enables.iter().any(|enabled| enabled == COMMAND);
        let has_mpi = || process::output(Command::new("mpicc").arg("--version")).is_some();
        if feature == MPI && !has_mpi() {
            println!(
                "{FACADE}: {feature} is left out, for there is no mpicc (Debian: libopenmpi-dev)"
            );
            continue;
        }
        // Half of MPI's is the command's.
        if feature == MPI || is_of_command {
            of_command.push(feature);
            continue;
        }
        // Where a feature is something to another package, both are linted with it: of dependencies there are as many features then.
        let mut packages = vec![FACADE];
        packages.extend(forwarded_to(enables));
        check(&packages, Some(&format!("{FACADE}/{feature}")))?;
    }
    check(&[FACADE], Some(&of_command.join(",")))?;
    let tree = process::output(
        process::cargo(&workspace.root)
            .args(["tree", "--locked", "--package", FACADE, "--prefix", "none"])
            .args(["--edges", "normal,build", "--format", "{p}"]),
    )
    .context("cargo tree does not answer")?;
    if let Some(compiler) = c_compiler(&tree) {
        bail!("the default build of {FACADE} needs {compiler}");
    }
    println!("the default build of {FACADE} needs no C compiler");
    Ok(ExitCode::SUCCESS)
}

/// The packages that are published, and the one that is installed as a library for C.
fn shipped(metadata: &Metadata) -> Vec<&Package> {
    let packages = metadata.workspace_packages().into_iter();
    let is_published = |package: &Package| package.publish.as_ref().is_none_or(|to| !to.is_empty());
    packages
        .filter(|package| is_published(package) || package.name.as_str() == C_INTERFACE)
        .collect()
}

/// The features of a package but for `default`, with what each of them enables.
fn features_of<'a>(metadata: &'a Metadata, package: &str) -> Result<Vec<(&'a str, &'a [String])>> {
    let packages = metadata.workspace_packages().into_iter();
    let found = packages
        .filter(|found| found.name.as_str() == package)
        .flat_map(|found| &found.features)
        .filter(|(feature, _)| *feature != "default");
    let found: Vec<_> = found
        .map(|(feature, enables)| (feature.as_str(), enables.as_slice()))
        .collect();
    if found.is_empty() {
        bail!("{package} has no features");
    }
    Ok(found)
}

/// The package whose feature is all that is enabled, if one is.
fn forwarded_to(enables: &[String]) -> Option<&str> {
    match enables {
        [only] => only.split_once('/').map(|(package, _)| package),
        _ => None,
    }
}

/// The first package of a listing of `cargo tree` that calls a compiler of C.
fn c_compiler(tree: &str) -> Option<&str> {
    let mut packages = tree.lines().filter_map(|line| line.split(' ').next());
    packages.find(|package| C_COMPILERS.contains(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_package_is_told_is_forwarded() {
        let of = |enables: &[&str]| {
            let enables: Vec<String> = enables.iter().map(|&text| text.to_owned()).collect();
            forwarded_to(&enables).map(str::to_owned)
        };
        assert_eq!(of(&["luge-sparse/faer"]).as_deref(), Some("luge-sparse"));
        assert_eq!(of(&["gpu", "luge-device/simulator"]), None);
        assert_eq!(of(&["dep:clap"]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn compilers_of_c_are_found_by_their_whole_name() {
        assert_eq!(
            c_compiler("luge v0.1.0\nccc v1.0.0\nsprs v0.11.6 (*)"),
            None
        );
        let tree = "luge v0.1.0\nmetis-sys v0.3.2\ncc v1.11.1 (*)\n";
        assert_eq!(c_compiler(tree), Some("cc"));
        assert_eq!(c_compiler("cmake"), Some("cmake"));
    }
}
