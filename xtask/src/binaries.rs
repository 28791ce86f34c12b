//! Binaries of the kernels that drivers take longest to compile: the first process on a machine would wait seconds for them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use luge_kernel::host;

use crate::check_images;
use crate::images;
use crate::manifest::Binaries;
use crate::ptxas::{self, Usage};
use crate::sources;
use crate::workspace::{KernelCrate, Workspace};

/// The image whose PTX they are made of, and the target they are for.
pub const IMAGE: &str = "sm_90";

/// The kernels of a symbolic phase, and those of `f64` and of complex circuits, that take ptxas 0.4 s or more.
const KERNELS: [&str; 24] = [
    "eliminate_panels",
    "fill2_count",
    "fill2_positions",
    "ldlt_fronts_f64",
    "ldlt_fronts_search_f64",
    "ldlt_fronts_signed_f64",
    "lu_fronts_complex_f64",
    "lu_fronts_f64",
    "lu_fronts_search_complex_f64",
    "lu_fronts_search_f64",
    "lu_wide_fronts_f64",
    "lu_wide_fronts_search_f64",
    "offset_rows",
    "plant_forest",
    "residuals_f64",
    "solve_fronts_many_f64",
    "solve_fronts_single_complex_f64",
    "solve_fronts_single_f64",
    "solve_fronts_symmetric_many_f64",
    "solve_fronts_symmetric_single_f64",
    "solve_wide_fronts_many_f64",
    "solve_wide_fronts_single_f64",
    "solve_wide_fronts_symmetric_many_f64",
    "solve_wide_fronts_symmetric_single_f64",
];

/// The file of the binaries, beside the manifest.
const FILE: &str = "sm_90.bin.br";

/// The kernels of a crate that have binaries.
pub fn of(kernels: KernelCrate) -> &'static [&'static str] {
    match kernels.package {
        "luge-gpu-kernels" => &KERNELS,
        _ => &[],
    }
}

/// Binaries as they are before they are compressed, and what their kernels use.
pub struct Assembled {
    /// What [`host::Binaries`] unpacks to.
    unpacked: Vec<u8>,
    /// Of each kernel.
    pub usages: Vec<Usage>,
}

/// Assembles the kernels of an image with this text, each by itself.
pub fn assemble(workspace: &Workspace, kernels: KernelCrate, text: &str) -> Result<Assembled> {
    let ptxas = ptxas::install(workspace)?;
    let scratch = workspace.target.join("ptx");
    let (mut unpacked, mut usages) = (Vec::new(), Vec::new());
    for name in of(kernels) {
        let ptx = scratch.join(format!("{name}.ptx"));
        fs::write(&ptx, check_images::only(text, |entry| entry == *name))?;
        let binary = scratch.join(format!("{name}.cubin"));
        let usage = ptxas::assemble(&ptxas, &ptx, IMAGE, &binary)?;
        if usage.is_empty() {
            bail!("{IMAGE} has no kernel {name} to make a binary of");
        }
        usages.extend(usage);
        let binary = fs::read(binary)?;
        unpacked.extend_from_slice(format!("{name}\n{}\n", binary.len()).as_bytes());
        unpacked.extend_from_slice(&binary);
    }
    Ok(Assembled { unpacked, usages })
}

/// Writes binaries, and describes them.
pub fn write(
    workspace: &Workspace,
    kernels: KernelCrate,
    assembled: &Assembled,
) -> Result<Option<Binaries>> {
    let names = of(kernels);
    if names.is_empty() {
        return Ok(None);
    }
    let stream = images::compressed(&assembled.unpacked)?;
    fs::write(path(workspace, kernels), stream)?;
    println!("{FILE}: {} binaries", names.len());
    Ok(Some(Binaries {
        file: FILE.to_owned(),
        sha256: sources::hash_bytes(&assembled.unpacked),
        assembler: ptxas::version(&ptxas::install(workspace)?)?,
        kernels: names.iter().map(|&name| name.to_owned()).collect(),
    }))
}

/// Compares the committed binaries with the manifest, and with those of a new assembly of the image if the assembler is the same.
pub fn check(
    workspace: &Workspace,
    kernels: KernelCrate,
    listed: Option<&Binaries>,
    assembled: &Assembled,
) -> Result<()> {
    let Some(listed) = listed else {
        if !of(kernels).is_empty() {
            bail!("the manifest lists no binaries");
        }
        return Ok(());
    };
    let file = path(workspace, kernels);
    let stream = fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    let mut unpacked = Vec::new();
    brotli::BrotliDecompress(&mut &*stream, &mut unpacked)
        .with_context(|| format!("{FILE} is damaged"))?;
    if sources::hash_bytes(&unpacked) != listed.sha256 {
        bail!("{FILE} is not the file of the manifest");
    }
    // Embedded binaries are never given back either.
    let committed = host::Binaries::compressed(stream.leak());
    let names = committed.all(|_| Some(unpacked.clone()));
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    if names != of(kernels) || listed.kernels != names {
        bail!("{FILE} has other kernels than it should have");
    }
    let version = ptxas::version(&ptxas::install(workspace)?)?;
    if version != listed.assembler {
        println!(
            "{FILE} was made by another assembler, {}: comparing names, not bytes",
            listed.assembler
        );
        return Ok(());
    }
    if assembled.unpacked != unpacked {
        bail!("{FILE} is not what {version} makes of {IMAGE}");
    }
    println!("{FILE}: assembled, the same bytes");
    Ok(())
}

fn path(workspace: &Workspace, kernels: KernelCrate) -> PathBuf {
    workspace.ptx(kernels).join(FILE)
}
