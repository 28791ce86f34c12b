//! `cargo xtask publish --dry-run`: packs every crate that is published and compiles it from its package, in the order in
//! which they would be published.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cargo_metadata::{MetadataCommand, Package};

use crate::process;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask publish`.
#[derive(clap::Args)]
pub struct Args {
    /// Upload nothing. Required: publishing is done by hand.
    #[arg(long, required = true)]
    dry_run: bool,
    /// Pack without compiling what was packed.
    #[arg(long)]
    no_verify: bool,
}

/// What a package must have beside its sources.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Checks what the registry and a reader expect of each manifest, then packs all. Cargo finds the order, and takes for a
/// crate that the registry does not know the package that it has just made.
pub fn publish(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    debug_assert!(args.dry_run);
    let metadata = MetadataCommand::new()
        .manifest_path(workspace.root.join("Cargo.toml"))
        .no_deps()
        .exec()?;
    let packages = metadata.workspace_packages().into_iter();
    let published: Vec<&Package> = packages
        .filter(|package| package.publish.as_ref().is_none_or(|to| !to.is_empty()))
        .collect();
    let missing: Vec<String> = published
        .iter()
        .flat_map(|package| {
            let missing = missing_in(package).into_iter();
            missing.map(|what| format!("{}: {what}", package.name))
        })
        .collect();
    if !missing.is_empty() {
        bail!("not ready to be published:\n  {}", missing.join("\n  "));
    }
    let mut command = process::cargo(&workspace.root);
    // Not `publish --dry-run`, which asks the registry whether the version is free.
    command.args(["package", "--locked", "--allow-dirty"]);
    for package in &published {
        command.args(["--package", package.name.as_str()]);
    }
    if args.no_verify {
        command.arg("--no-verify");
    }
    process::run(&mut command)?;
    for package in published {
        let name = format!("{}-{}.crate", package.name, package.version);
        let file = workspace.target.join("package").join(name);
        let size = fs::metadata(&file)
            .with_context(|| format!("cargo left no {}", file.display()))?
            .len();
        println!("{:20} {:6} KiB", package.name, size.div_ceil(1024));
    }
    Ok(ExitCode::SUCCESS)
}

/// What a package lacks.
fn missing_in(package: &Package) -> Vec<String> {
    let mut missing = Vec::new();
    let mut require = |is_there: bool, what: &str| {
        if !is_there {
            missing.push(what.to_owned());
        }
    };
    require(package.description.is_some(), "a description");
    require(package.license.is_some(), "a licence");
    require(!package.keywords.is_empty(), "keywords");
    require(!package.categories.is_empty(), "categories");
    require(package.rust_version.is_some(), "a rust-version");
    require(
        package.readme().is_some_and(|file| file.exists()),
        "a readme",
    );
    if let Some(folder) = package.manifest_path.parent() {
        for file in LICENCES {
            require(folder.join(file).exists(), file);
        }
    }
    missing
}
