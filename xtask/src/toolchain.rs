//! The compiler that turns kernels into PTX.
//!
//! Building for `nvptx64-nvidia-cuda` takes a rustc whose library sources are installed, because
//! `core` is compiled along (`-Zbuild-std=core`). Two kinds have them: Debian's packages, and a
//! rustup toolchain with the component `rust-src`. Unstable options are allowed on either by
//! `RUSTC_BOOTSTRAP`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::output;

/// The oldest compiler whose LLVM knows the intrinsics the DSL uses.
const OLDEST: (u32, u32) = (1, 95);

/// A compiler that can build the kernels.
pub struct Toolchain {
    /// What to call it in messages.
    pub name: String,
    /// Its cargo.
    pub cargo: PathBuf,
    /// Its rustc.
    pub rustc: PathBuf,
    /// Its sysroot, which holds `core`'s source.
    pub sysroot: PathBuf,
    /// What identifies the compiler: the answer of `rustc --version` and its LLVM's version.
    pub version: CompilerVersion,
}

/// What identifies a compiler's output.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CompilerVersion {
    /// The answer of `rustc --version`.
    pub rustc: String,
    /// The version of its LLVM.
    pub llvm: String,
}

impl std::fmt::Display for CompilerVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, LLVM {}", self.rustc, self.llvm)
    }
}

/// Every usable compiler here, and why the others are not.
pub struct Found {
    /// The compilers that can build kernels.
    pub usable: Vec<Toolchain>,
    /// For each one that cannot: its name and the reason.
    pub unusable: Vec<(String, String)>,
}

impl Found {
    /// Adds the compiler `name` to those that can build kernels, or to those that cannot.
    fn consider(&mut self, name: String, cargo: PathBuf, rustc: PathBuf) {
        match inspect(&cargo, &rustc) {
            Ok((sysroot, version)) => self.usable.push(Toolchain {
                name,
                cargo,
                rustc,
                sysroot,
                version,
            }),
            Err(reason) => self.unusable.push((name, reason)),
        }
    }
}

/// Looks at the system's compiler and at every rustup toolchain.
pub fn find() -> Found {
    let mut found = Found {
        usable: Vec::new(),
        unusable: Vec::new(),
    };
    if Path::new("/usr/bin/rustc").exists() {
        found.consider(
            "the system's rustc".into(),
            "/usr/bin/cargo".into(),
            "/usr/bin/rustc".into(),
        );
    }
    let list = output(Command::new("rustup").args(["toolchain", "list", "--quiet"]))
        .or_else(|| output(Command::new("rustup").args(["toolchain", "list"])))
        .unwrap_or_default();
    for name in list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
    {
        let tool = |tool| output(Command::new("rustup").args(["which", "--toolchain", name, tool]));
        match (tool("cargo"), tool("rustc")) {
            (Some(cargo), Some(rustc)) => {
                found.consider(
                    format!("rustup toolchain {name}"),
                    cargo.into(),
                    rustc.into(),
                );
            }
            _ => found.unusable.push((
                format!("rustup toolchain {name}"),
                "rustup does not find its cargo and rustc".into(),
            )),
        }
    }
    found
}

/// The sysroot and version of a compiler that can build kernels, or why it cannot.
fn inspect(cargo: &Path, rustc: &Path) -> Result<(PathBuf, CompilerVersion), String> {
    let verbose = output(Command::new(rustc).arg("-vV")).ok_or("it does not run")?;
    let field = |name: &str| {
        verbose
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|value| value.trim().to_owned())
    };
    let release = field("release:").ok_or("it does not say its version")?;
    let mut numbers = release
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST {
        return Err(format!("{release} is older than {}.{}", OLDEST.0, OLDEST.1));
    }
    if output(Command::new(cargo).arg("-V")).is_none() {
        return Err(format!("there is no cargo at {}", cargo.display()));
    }
    let sysroot = output(Command::new(rustc).args(["--print", "sysroot"]))
        .map(PathBuf::from)
        .ok_or("it has no sysroot")?;
    if !sysroot
        .join("lib/rustlib/src/rust/library/core/src/lib.rs")
        .exists()
    {
        return Err("the source of core (rust-src) is not installed".into());
    }
    let version = CompilerVersion {
        rustc: verbose.lines().next().unwrap_or_default().to_owned(),
        llvm: field("LLVM version:").unwrap_or_else(|| "unknown".into()),
    };
    Ok((sysroot, version))
}

/// The compiler to build kernels with: the one that made the committed PTX if it is here, else the
/// first that can.
pub fn choose(preferred: Option<&CompilerVersion>) -> Result<Toolchain> {
    let Found {
        mut usable,
        unusable,
    } = find();
    if usable.is_empty() {
        let mut message = String::from("no compiler here can build the kernels\n");
        for (name, reason) in unusable {
            message += &format!("  {name}: {reason}\n");
        }
        message += &how_to_get_one();
        bail!(message);
    }
    let position = preferred.and_then(|version| {
        usable
            .iter()
            .position(|toolchain| toolchain.version == *version)
    });
    Ok(usable.swap_remove(position.unwrap_or(0)))
}

/// How to install a compiler that can build kernels.
pub fn how_to_get_one() -> String {
    let rustup = "rustup toolchain install 1.96.0 --component rust-src";
    if Path::new("/etc/debian_version").exists() {
        format!(
            "install one with\n  apt-get install --no-install-recommends rustc-web cargo-web \
             rust-web-src\nor with\n  {rustup}"
        )
    } else {
        format!("install one with\n  {rustup}")
    }
}
