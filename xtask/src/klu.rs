//! `cargo xtask klu`: builds KLU's interface on Luge and installs it, by its own name or in the place of libklu.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::install::{Install, library_folder};
use crate::process;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask klu`.
#[derive(clap::Args)]
pub struct Args {
    /// The folder that lib/ is made in.
    #[arg(long)]
    prefix: PathBuf,
    /// The folder of the library below that: lib64, lib/x86_64-linux-gnu.
    #[arg(long, default_value = "lib")]
    libdir: String,
    /// The name that programs look for: libklu.so.1 or libklu.so.2 to take the place of KLU.
    #[arg(long)]
    soname: Option<String>,
    /// Build with the dev profile: quickly, and slow.
    #[arg(long)]
    debug: bool,
}

/// The package, and what cargo calls its library.
const PACKAGE: &str = "luge-klu";
const BUILT: &str = "libluge_klu.so";

/// What the build script of the package takes for the name in the library.
const SONAME: &str = "LUGE_KLU_SONAME";

/// Builds and installs.
pub fn klu(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    ensure!(
        cfg!(target_os = "linux"),
        "this command knows the names of libraries on Linux"
    );
    let libdir = library_folder(&args.libdir)?;
    let names = Names::of(env!("CARGO_PKG_VERSION"), args.soname.as_deref())?;
    let mut command = process::cargo(&workspace.root);
    // A named type, because the one for tests keeps cargo from optimizing across crates.
    command.args(["rustc", "--locked", "--package", PACKAGE, "--lib"]);
    command.args(["--crate-type", "cdylib"]);
    let (profile, folder) = if args.debug {
        ("dev", "debug")
    } else {
        ("release", "release")
    };
    command.args(["--profile", profile]);
    // Most of the library is for debuggers.
    command.args(["--", "-C", "strip=debuginfo"]);
    command.env(SONAME, &names.soname);
    process::run(&mut command)?;
    let install = Install {
        prefix: &args.prefix,
    };
    let built = workspace.target.join(folder).join(BUILT);
    install.copy(&built, &libdir.join(&names.file))?;
    install.link(&names.file, &libdir.join(&names.soname))?;
    install.link(&names.soname, &libdir.join(&names.linked))?;
    Ok(ExitCode::SUCCESS)
}

/// The names of what is installed.
struct Names {
    /// The file.
    file: String,
    /// What programs look for when they start.
    soname: String,
    /// What they are linked with.
    linked: String,
}

impl Names {
    fn of(version: &str, soname: Option<&str>) -> Result<Self> {
        // As in the package's build script: before version 1 each minor version may change the ABI.
        let mut parts = version.split('.');
        let own = match (parts.next(), parts.next()) {
            (Some("0"), Some(minor)) => format!("{BUILT}.0.{minor}"),
            (major, _) => format!("{BUILT}.{}", major.unwrap_or(version)),
        };
        let soname = soname.unwrap_or(&own).to_owned();
        let is_name = |name: &str| !name.contains('/') && name.starts_with("lib");
        ensure!(
            soname.contains(".so.") && is_name(&soname),
            "--soname is the name of a library with its version, as libklu.so.1"
        );
        let linked = soname.split(".so.").next().map(|name| format!("{name}.so"));
        Ok(Self {
            file: format!("{BUILT}.{version}"),
            linked: linked.unwrap_or_default(),
            soname,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_its_own_name_or_that_of_klu() {
        let names = |version, soname| {
            let names = Names::of(version, soname).unwrap();
            [names.file, names.soname, names.linked]
        };
        let own = [
            "libluge_klu.so.0.3.1",
            "libluge_klu.so.0.3",
            "libluge_klu.so",
        ];
        assert_eq!(names("0.3.1", None), own);
        let own = ["libluge_klu.so.2.0.0", "libluge_klu.so.2", "libluge_klu.so"];
        assert_eq!(names("2.0.0", None), own);
        let of_klu = ["libluge_klu.so.0.3.1", "libklu.so.1", "libklu.so"];
        assert_eq!(names("0.3.1", Some("libklu.so.1")), of_klu);
        for wrong in ["klu", "libklu.so", "../libklu.so.1"] {
            assert!(Names::of("0.3.1", Some(wrong)).is_err(), "{wrong}");
        }
    }
}
