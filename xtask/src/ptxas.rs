//! NVIDIA's assembler, which says what a kernel costs on a chip and needs none to say it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// The package on PyPI that carries ptxas. Version 13.0 knows sm_75 to sm_121.
const PACKAGE: &str = "nvidia-cuda-nvcc==13.0.*";

/// What one kernel uses on one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Entry point.
    pub kernel: String,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of stack a thread.
    pub stack_bytes: u64,
    /// Bytes of spill stores.
    pub spill_store_bytes: u64,
    /// Bytes of spill loads.
    pub spill_load_bytes: u64,
    /// Static shared memory of a block in bytes.
    pub shared_bytes: u64,
}

/// The ptxas that lies under the target folder, if it was installed there.
pub fn installed(workspace: &Workspace) -> Option<PathBuf> {
    find_file(&folder(workspace), "ptxas")
}

/// The ptxas under the target folder; installs it there with pip if need be.
pub fn install(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(path) = installed(workspace) {
        return Ok(path);
    }
    let folder = folder(workspace);
    println!("installing {PACKAGE} into {}", folder.display());
    process::run(
        Command::new("python3")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
            ])
            .arg("--target")
            .arg(&folder)
            .arg(PACKAGE)
            // pip warns root of what it could do to the system's packages; it installs apart here.
            .env("PIP_ROOT_USER_ACTION", "ignore"),
    )
    .context("ptxas comes from PyPI: python3 with pip and a network are needed")?;
    installed(workspace)
        .with_context(|| format!("{PACKAGE} put no ptxas into {}", folder.display()))
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("nvcc")
}

fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find_file(&path, name) {
                return Some(found);
            }
        } else if path.file_stem().is_some_and(|stem| stem == name) {
            return Some(path);
        }
    }
    None
}

/// What ptxas says of its version, as `Cuda compilation tools, release 13.0, V13.0.88`.
pub fn version(ptxas: &Path) -> Result<String> {
    let answer = process::output(Command::new(ptxas).arg("--version"));
    let answer = answer.with_context(|| format!("{} does not start", ptxas.display()))?;
    let line = answer.lines().find(|line| line.contains("release"));
    Ok(line.context("ptxas tells no version")?.to_owned())
}

/// Assembles `ptx` for `target` (as `sm_90`) into the file `binary`, and answers what each kernel uses, by name.
pub fn assemble(ptxas: &Path, ptx: &Path, target: &str, binary: &Path) -> Result<Vec<Usage>> {
    let output = Command::new(ptxas)
        .args(["-v", "-arch", target, "-o"])
        .arg(binary)
        .arg(ptx)
        .output()
        .with_context(|| format!("{} does not start", ptxas.display()))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("ptxas refuses {} for {target}:\n{text}", ptx.display());
    }
    let mut usages = parse(&text);
    usages.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    Ok(usages)
}

/// Reads the report of `ptxas -v`.
fn parse(report: &str) -> Vec<Usage> {
    let mut usages: Vec<Usage> = Vec::new();
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            usages.push(Usage {
                kernel: rest.split('\'').next().unwrap_or_default().to_owned(),
                registers: 0,
                stack_bytes: 0,
                spill_store_bytes: 0,
                spill_load_bytes: 0,
                shared_bytes: 0,
            });
        }
        let Some(usage) = usages.last_mut() else {
            continue;
        };
        // Both lines are lists of `<number> <words>`, separated by commas.
        let facts = line.rsplit_once("Used").map_or(line, |(_, facts)| facts);
        for fact in facts.split(',') {
            let Some((number, what)) = fact.trim().split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what.trim() {
                "registers" => usage.registers = number as u32,
                "bytes stack frame" => usage.stack_bytes = number,
                "bytes spill stores" => usage.spill_store_bytes = number,
                "bytes spill loads" => usage.spill_load_bytes = number,
                "bytes smem" => usage.shared_bytes = number,
                _ => {}
            }
        }
    }
    usages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_read() {
        let report = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_90'
ptxas info    : Function properties for a
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 36 registers, used 1 barriers, 8 bytes cumulative stack size, 1088 bytes smem
ptxas info    : Compile time = 31.460 ms
ptxas info    : Compiling entry function 'b' for 'sm_90'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 7 registers, used 0 barriers
";
        let usage = |kernel: &str, registers, stack, stores, loads, shared| Usage {
            kernel: kernel.into(),
            registers,
            stack_bytes: stack,
            spill_store_bytes: stores,
            spill_load_bytes: loads,
            shared_bytes: shared,
        };
        assert_eq!(
            parse(report),
            [usage("a", 36, 8, 4, 12, 1088), usage("b", 7, 0, 0, 0, 0)]
        );
    }
}
