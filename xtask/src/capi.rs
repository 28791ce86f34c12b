//! `cargo xtask capi`: builds the C interface and installs it: header, libraries, pkg-config file, CMake package.
//!
//! The layout is that of cargo-c (`cargo cinstall -p luge-c`), for machines that have none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::install::{Install, library_folder};
use crate::process;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask capi`.
#[derive(clap::Args)]
pub struct Args {
    /// The folder that include/ and lib/ are made in.
    #[arg(long)]
    prefix: PathBuf,
    /// The folder of the libraries below that: lib64, lib/x86_64-linux-gnu.
    #[arg(long, default_value = "lib")]
    libdir: String,
    /// Build with the dev profile: quickly, and slow.
    #[arg(long)]
    debug: bool,
    /// Leave out the code for GPUs.
    #[arg(long)]
    no_gpu: bool,
    /// Build nothing: install the libraries that cargo left in this folder.
    #[arg(long, conflicts_with_all = ["debug", "no_gpu"])]
    built: Option<PathBuf>,
}

/// The package, and what cargo calls its libraries.
const PACKAGE: &str = "luge-c";
const BUILT: &str = "libluge_c";

/// What a program takes that links the static library on Linux: `rustc --print native-static-libs`.
const PRIVATE_LIBS: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

/// Builds and installs.
pub fn capi(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    ensure!(
        cfg!(target_os = "linux"),
        "this command knows the names of libraries on Linux; elsewhere take cargo-c: cargo cinstall -p {PACKAGE}"
    );
    let built = match &args.built {
        Some(folder) => folder.clone(),
        None => build(workspace, args)?,
    };
    let libdir = library_folder(&args.libdir)?;
    let names = Names::of(env!("CARGO_PKG_VERSION"), &args.libdir);
    let sources = workspace.root.join("bindings/c");
    let install = Install {
        prefix: &args.prefix,
    };
    for header in ["luge.h", "luge.hpp"] {
        install.copy(
            &sources.join("include").join(header),
            &Path::new("include").join(header),
        )?;
    }
    let built = |ending: &str| built.join(BUILT).with_extension(ending);
    install.copy(&built("a"), &libdir.join("libluge.a"))?;
    install.copy(&built("so"), &libdir.join(&names.shared))?;
    install.link(&names.shared, &libdir.join(&names.soname))?;
    install.link(&names.soname, &libdir.join("libluge.so"))?;
    for (template, to) in [
        ("pkgconfig/luge.pc.in", "pkgconfig/luge.pc"),
        ("cmake/LugeConfig.cmake.in", "cmake/Luge/LugeConfig.cmake"),
        (
            "cmake/LugeConfigVersion.cmake.in",
            "cmake/Luge/LugeConfigVersion.cmake",
        ),
    ] {
        let template = sources.join(template);
        let text = fs::read_to_string(&template).with_context(|| template.display().to_string())?;
        install.write(&names.filled(&text)?, &libdir.join(to))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds both libraries, and answers with their folder.
fn build(workspace: &Workspace, args: &Args) -> Result<PathBuf> {
    let mut command = process::cargo(&workspace.root);
    // Named types, because the one for tests keeps cargo from optimizing across crates.
    command.args(["rustc", "--locked", "--package", PACKAGE, "--lib"]);
    command.args(["--crate-type", "cdylib,staticlib"]);
    if args.no_gpu {
        command.arg("--no-default-features");
    }
    let profile = if args.debug { "dev" } else { "release" };
    command.args(["--profile", profile]);
    // Of the shared library five sixths are for debuggers.
    command.args(["--", "-C", "strip=debuginfo"]);
    process::run(&mut command)?;
    let folder = if args.debug { "debug" } else { "release" };
    Ok(workspace.target.join(folder))
}

/// The names of what is installed.
struct Names {
    version: String,
    /// The part of the version that the ABI goes by.
    abi: String,
    shared: String,
    soname: String,
    libdir: String,
}

impl Names {
    fn of(version: &str, libdir: &str) -> Self {
        // As in the package's build script: before version 1 each minor version may change the ABI.
        let mut parts = version.split('.');
        let major = parts.next().unwrap_or(version);
        let abi = match (major, parts.next()) {
            ("0", Some(minor)) => format!("0.{minor}"),
            _ => major.to_owned(),
        };
        Self {
            version: version.to_owned(),
            shared: format!("libluge.so.{version}"),
            soname: format!("libluge.so.{abi}"),
            abi,
            libdir: libdir.trim_matches('/').to_owned(),
        }
    }

    /// A template with its names filled in.
    fn filled(&self, template: &str) -> Result<String> {
        // From the folder of the file, which is one below that of the libraries, to the prefix.
        let up = vec![".."; self.libdir.split('/').count() + 1].join("/");
        let libs: Vec<&str> = PRIVATE_LIBS
            .split(' ')
            .map(|lib| lib.trim_start_matches("-l"))
            .collect();
        let mut text = template.to_owned();
        for (name, value) in [
            ("@VERSION@", self.version.as_str()),
            ("@ABI@", &self.abi),
            ("@ABI_PATTERN@", &self.abi.replace('.', "\\\\.")),
            ("@SHARED@", &self.shared),
            ("@SONAME@", &self.soname),
            ("@STATIC@", "libluge.a"),
            ("@LIBDIR@", &self.libdir),
            ("@UP@", &up),
            ("@PRIVATE_LIBS@", PRIVATE_LIBS),
            ("@CMAKE_PRIVATE_LIBS@", &libs.join(";")),
        ] {
            text = text.replace(name, value);
        }
        if text.contains('@') {
            bail!("a template has a name between @ that nothing is known of:\n{text}");
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_abi_is_the_minor_version_before_version_one() {
        let names = |version| {
            let names = Names::of(version, "lib");
            (names.shared, names.soname)
        };
        let both = |shared: &str, soname: &str| (shared.to_owned(), soname.to_owned());
        assert_eq!(names("0.1.2"), both("libluge.so.0.1.2", "libluge.so.0.1"));
        assert_eq!(names("1.4.0"), both("libluge.so.1.4.0", "libluge.so.1"));
    }

    #[test]
    fn templates_find_the_prefix_from_any_folder() {
        let text = "@UP@ @LIBDIR@ @ABI_PATTERN@ @CMAKE_PRIVATE_LIBS@";
        let filled = |libdir| Names::of("0.1.0", libdir).filled(text).unwrap();
        assert_eq!(
            filled("lib"),
            "../.. lib 0\\\\.1 gcc_s;util;rt;pthread;m;dl;c"
        );
        assert!(filled("lib/x86_64-linux-gnu").starts_with("../../.. lib/x86_64-linux-gnu "));
        assert!(Names::of("0.1.0", "lib").filled("@UNKNOWN@").is_err());
    }
}
