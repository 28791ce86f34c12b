//! `cargo xtask doctor`: what is here, and how to get what is not. Needs nothing to be installed.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::manifest::Manifest;
use crate::process::output;
use crate::ptxas;
use crate::sources;
use crate::toolchain;
use crate::workspace::{KERNEL_CRATES, Workspace};

/// Prints one line for each thing that a command here may need.
pub fn doctor(workspace: &Workspace) -> Result<ExitCode> {
    rust();
    c_interface();
    mpi();
    kernel_toolchain();
    committed_ptx(workspace);
    assembler(workspace);
    driver();
    corpus(workspace);
    Ok(ExitCode::SUCCESS)
}

fn line(what: &str, found: impl AsRef<str>) {
    let mut found = found.as_ref().lines();
    println!("{what:17} {}", found.next().unwrap_or_default());
    for more in found {
        println!("{:17} {more}", "");
    }
}

fn rust() {
    for (what, tool) in [
        ("rustc", "rustc"),
        ("cargo", "cargo"),
        ("rustfmt", "rustfmt"),
        ("clippy", "cargo-clippy"),
    ] {
        let found = output(Command::new(tool).arg("--version"));
        line(what, found.as_deref().unwrap_or("not found"));
    }
}

/// What the tests of the C interface compile its examples with.
fn c_interface() {
    for tool in ["cc", "c++", "pkg-config", "cmake"] {
        let found = output(Command::new(tool).arg("--version"));
        let missing = "not found (only the tests of the C interface need it)";
        line(tool, found.as_deref().map_or(missing, first_line));
    }
}

/// What `cargo xtask mpi-test` takes.
fn mpi() {
    for tool in ["mpirun", "mpicc"] {
        let found = output(Command::new(tool).arg("--version"));
        let missing = "not found (only the feature mpi needs it)";
        line(tool, found.as_deref().map_or(missing, first_line));
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn kernel_toolchain() {
    let found = toolchain::find();
    if found.usable.is_empty() {
        line(
            "kernel toolchain",
            format!(
                "none (only `cargo xtask ptx` needs one)\n{}",
                toolchain::how_to_get_one()
            ),
        );
    }
    for usable in &found.usable {
        line(
            "kernel toolchain",
            format!("{}: {}", usable.name, usable.version),
        );
    }
    for (name, reason) in &found.unusable {
        line("  not usable", format!("{name}: {reason}"));
    }
}

fn committed_ptx(workspace: &Workspace) {
    for kernels in KERNEL_CRATES {
        let state = match Manifest::read(&workspace.ptx(kernels)) {
            Err(error) => format!("{error:#}"),
            Ok(manifest) => {
                let agrees = match sources::hash(&workspace.root, &kernels.sources()) {
                    Ok(hash) if hash == manifest.sources_sha256 => "made from the sources here",
                    Ok(_) => "OLDER than the sources here: run `cargo xtask ptx`",
                    Err(_) => "the sources cannot be read",
                };
                let images: Vec<_> = manifest.images.keys().map(String::as_str).collect();
                format!(
                    "{}, {agrees}, by {}",
                    images.join(" and "),
                    manifest.compiler
                )
            }
        };
        line("committed PTX", format!("{}: {state}", kernels.package));
    }
}

fn assembler(workspace: &Workspace) {
    let state = match ptxas::installed(workspace) {
        Some(path) => path.display().to_string(),
        None => match output(Command::new("python3").args(["-m", "pip", "--version"])) {
            Some(_) => "not installed; `cargo xtask ptx --check` fetches it with pip".to_owned(),
            None => "not installed, and no python3 with pip to fetch it \
                     (only `cargo xtask ptx --check` needs it)"
                .to_owned(),
        },
    };
    line("ptxas", state);
}

fn driver() {
    let library = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib/wsl/lib",
    ]
    .iter()
    .map(|folder| Path::new(folder).join("libcuda.so.1"))
    .find(|path| path.exists())
    .map(|path| path.display().to_string())
    .or_else(|| {
        let list = output(Command::new("ldconfig").arg("-p"))
            .or_else(|| output(Command::new("/sbin/ldconfig").arg("-p")))?;
        let line = list
            .lines()
            .find(|line| line.trim_start().starts_with("libcuda.so.1 "))?;
        Some(line.rsplit("=> ").next().unwrap_or(line).to_owned())
    });
    line(
        "NVIDIA driver",
        library.unwrap_or_else(|| {
            "no libcuda.so.1: solving works on the CPU, and kernels run on the simulator".to_owned()
        }),
    );
    let devices = output(Command::new("nvidia-smi").args([
        "--query-gpu=name,compute_cap,memory.total,driver_version",
        "--format=csv,noheader",
    ]));
    line(
        "GPU",
        devices
            .as_deref()
            .unwrap_or("none (nvidia-smi does not answer)"),
    );
}

fn corpus(workspace: &Workspace) {
    let folder = workspace.corpus();
    let state = match count_matrices(&folder) {
        0 => format!(
            "no matrices in {}: tests that need them are skipped; set LUGE_CORPUS",
            folder.display()
        ),
        count => format!("{count} matrices in {}", folder.display()),
    };
    line("corpus", state);
}

fn count_matrices(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| {
            let path = entry.path();
            let name = path.to_string_lossy();
            match path.is_dir() {
                true => count_matrices(&path),
                false => usize::from(name.ends_with(".mtx") || name.ends_with(".mtx.gz")),
            }
        })
        .sum()
}
