//! `cargo xtask ptx`: builds the kernels to PTX, and checks the committed PTX.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::check_images;
use crate::manifest::{Image, Manifest};
use crate::process;
use crate::ptxas;
use crate::sources;
use crate::toolchain::{self, Toolchain};
use crate::workspace::{KERNEL_CRATES, KernelCrate, Workspace};

/// Arguments of `cargo xtask ptx`.
#[derive(clap::Args)]
pub struct Args {
    /// Change nothing: fail if sources and PTX disagree, or a kernel spills without a listed reason.
    #[arg(long)]
    pub check: bool,
    /// Rebuild this image alone (as `sm_90`), and assemble it for its own target alone, which takes a third of the time. Sources,
    /// flags and the files of all images are compared with the manifest as ever.
    #[arg(long, requires = "check")]
    pub image: Option<String>,
}

/// The images, and the targets each is assembled for by the check. An image serves every later
/// target, so the newest image stands for the chips that came after it.
const IMAGES: [(&str, &[&str]); 2] = [("sm_80", &["sm_80"]), ("sm_90", &["sm_90", "sm_120"])];

/// What makes rustc's output right for a machine that runs threads in step.
///
/// The optimisation of MIR called jump threading copies what stands between two tests of the same
/// condition into both arms, barriers among it: it does not know that all threads of a warp must
/// meet at one and the same barrier, and a block whose threads wait at two copies waits for ever.
/// (LLVM's optimisations do know.)
const SAFE_FOR_BARRIERS: &str = "-Zmir-enable-passes=-JumpThreading";

/// The profile the kernels are built with. Fat link-time optimisation in one unit makes the emitted
/// assembly whole, so that there is nothing left to link.
const PROFILE: [(&str, &str); 7] = [
    ("OPT_LEVEL", "3"),
    ("LTO", "fat"),
    ("CODEGEN_UNITS", "1"),
    ("PANIC", "abort"),
    ("DEBUG", "false"),
    ("DEBUG_ASSERTIONS", "false"),
    ("OVERFLOW_CHECKS", "false"),
];

/// Builds the PTX, or checks it.
pub fn ptx(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let images: Vec<(&str, &[&str])> = match &args.image {
        None => IMAGES.to_vec(),
        Some(image) => {
            let named = IMAGES.iter().filter(|(name, _)| name == image);
            named
                .map(|(name, targets)| (*name, &targets[..1]))
                .collect()
        }
    };
    if let (true, Some(image)) = (images.is_empty(), &args.image) {
        bail!(
            "no image {image}: there are {}",
            IMAGES.map(|(name, _)| name).join(", ")
        );
    }
    for kernels in KERNEL_CRATES {
        println!("{}", kernels.package);
        if args.check {
            check(workspace, kernels, &images)
        } else {
            generate(workspace, kernels)
        }?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds all images and writes them with their manifest; fails after that if a kernel spills without a listed reason.
fn generate(workspace: &Workspace, kernels: KernelCrate) -> Result<()> {
    let folder = workspace.ptx(kernels);
    let previous = Manifest::read(&folder).ok();
    let toolchain = toolchain::choose(previous.as_ref().map(|manifest| &manifest.compiler))?;
    println!(
        "kernel toolchain: {} ({})",
        toolchain.name, toolchain.version
    );
    let sources_sha256 = sources::hash(&workspace.root, &kernels.sources())?;
    let mut images = BTreeMap::new();
    fs::create_dir_all(&folder)?;
    for (name, _) in IMAGES {
        let text = build(workspace, kernels, &toolchain, name)?;
        let file = format!("{name}.ptx");
        fs::write(folder.join(&file), &text)?;
        let image = describe(file, &text);
        println!("{}: {} entry points", image.file, image.entries.len());
        images.insert(name.to_owned(), image);
    }
    let manifest = Manifest {
        compiler: toolchain.version,
        flags: recorded_flags(),
        sources_sha256,
        images,
        allowed_spills: previous
            .map(|manifest| manifest.allowed_spills)
            .unwrap_or_default(),
    };
    manifest.write(&folder)?;
    let mut failures = Vec::new();
    check_usage(workspace, kernels, &manifest, &IMAGES, &mut failures)?;
    if !failures.is_empty() {
        bail!("the PTX is written, but\n  {}", failures.join("\n  "));
    }
    Ok(())
}

fn describe(file: String, text: &str) -> Image {
    Image {
        file,
        sha256: sources::hash_text(text),
        entries: check_images::entries(text),
    }
}

fn recorded_flags() -> Vec<String> {
    let mut flags = vec![
        "-Zbuild-std=core".to_owned(),
        SAFE_FOR_BARRIERS.to_owned(),
        "-C target-cpu=<sm>".to_owned(),
    ];
    flags.extend(
        PROFILE.map(|(name, value)| format!("{}={value}", name.to_lowercase().replace('_', "-"))),
    );
    flags
}

/// Compiles a crate of kernels for one image and answers with its text.
fn build(
    workspace: &Workspace,
    kernels: KernelCrate,
    toolchain: &Toolchain,
    image: &str,
) -> Result<String> {
    let target = workspace.target.join("ptx");
    fs::create_dir_all(&target)?;
    let out = target.join(format!("{}-{image}.s", kernels.package));
    // Cargo knows nothing of this file: if it is gone, what makes it must not count as fresh.
    if !out.exists() {
        process::run(
            cargo(workspace, toolchain)
                .args([
                    "clean",
                    "--quiet",
                    "--release",
                    "--package",
                    kernels.package,
                ])
                .args(["--target", "nvptx64-nvidia-cuda", "--target-dir"])
                .arg(&target),
        )?;
    }
    // The linker of this target is not packaged everywhere; since the assembly is whole, a command
    // that does nothing stands in for it.
    let flags = [
        "-C".to_owned(),
        format!("target-cpu={image}"),
        "-C".to_owned(),
        "linker=true".to_owned(),
        SAFE_FOR_BARRIERS.to_owned(),
        format!("--remap-path-prefix={}=luge", workspace.root.display()),
        format!("--remap-path-prefix={}=rust", toolchain.sysroot.display()),
    ];
    let mut command = cargo(workspace, toolchain);
    command
        .args([
            "rustc",
            "--quiet",
            "--locked",
            "--release",
            "--package",
            kernels.package,
            // Which embeds the PTX that is being made.
            "--no-default-features",
        ])
        .args([
            "--lib",
            "--crate-type",
            "cdylib",
            "--target",
            "nvptx64-nvidia-cuda",
        ])
        .args(["-Zbuild-std=core", "--target-dir"])
        .arg(&target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    for (name, value) in PROFILE {
        command.env(format!("CARGO_PROFILE_RELEASE_{name}"), value);
    }
    command
        .arg("--")
        .arg(format!("--emit=asm={}", out.display()));
    process::run(&mut command).with_context(|| format!("the kernels do not build for {image}"))?;
    let text = fs::read_to_string(&out)
        .with_context(|| format!("the compiler left no {}", out.display()))?;
    let text = check_images::apply_launch_bounds(&text)?;
    if check_images::entries(&text).is_empty() {
        bail!("the compiler made no entry point for {image}");
    }
    let leftovers = check_images::leftovers(&text);
    if !leftovers.is_empty() {
        bail!(
            "{image} contains what a kernel must not:\n  {}",
            leftovers.join("\n  ")
        );
    }
    Ok(text)
}

/// The toolchain's cargo, without what the cargo around this program told its children.
fn cargo(workspace: &Workspace, toolchain: &Toolchain) -> Command {
    let mut command = Command::new(&toolchain.cargo);
    command
        .current_dir(&workspace.root)
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_BOOTSTRAP", "1");
    for name in [
        "CARGO",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
        "LD_LIBRARY_PATH",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
    ] {
        command.env_remove(name);
    }
    command
}

/// Checks the committed PTX against the sources, and `images` against a fresh build and ptxas.
fn check(workspace: &Workspace, kernels: KernelCrate, images: &[(&str, &[&str])]) -> Result<()> {
    let folder = workspace.ptx(kernels);
    let manifest = Manifest::read(&folder)?;
    let mut failures = Vec::new();
    let sources = sources::hash(&workspace.root, &kernels.sources())?;
    if sources != manifest.sources_sha256 {
        failures.push("the kernels' sources changed since the PTX was made".to_owned());
    }
    if manifest.flags != recorded_flags() {
        failures.push("the flags changed since the PTX was made".to_owned());
    }
    check_files(&folder, &manifest, &mut failures)?;
    if !failures.is_empty() {
        bail!(
            "{}\n  `cargo xtask ptx` makes it anew",
            failures.join("\n  ")
        );
    }
    println!("manifest: sources, flags and files agree");

    let toolchain = toolchain::choose(Some(&manifest.compiler))?;
    println!(
        "kernel toolchain: {} ({})",
        toolchain.name, toolchain.version
    );
    for (name, _) in images {
        check_rebuild(
            workspace,
            kernels,
            &manifest,
            &toolchain,
            name,
            &mut failures,
        )?;
    }
    check_usage(workspace, kernels, &manifest, images, &mut failures)?;
    if !failures.is_empty() {
        bail!(
            "the committed PTX does not pass:\n  {}",
            failures.join("\n  ")
        );
    }
    Ok(())
}

/// Whether the files are those of the manifest.
fn check_files(folder: &Path, manifest: &Manifest, failures: &mut Vec<String>) -> Result<()> {
    for (name, _) in IMAGES {
        let Some(image) = manifest.images.get(name) else {
            failures.push(format!("the manifest lists no {name}"));
            continue;
        };
        let text = fs::read_to_string(folder.join(&image.file))
            .with_context(|| format!("{} cannot be read", image.file))?;
        if describe(image.file.clone(), &text) != *image {
            failures.push(format!("{} is not the file of the manifest", image.file));
        }
    }
    if manifest.images.len() > IMAGES.len() {
        failures.push("the manifest lists images that are not built any more".to_owned());
    }
    Ok(())
}

/// Whether a build from the sources gives the committed file: byte for byte with the manifest's
/// compiler, in entry points and parameters with another.
fn check_rebuild(
    workspace: &Workspace,
    kernels: KernelCrate,
    manifest: &Manifest,
    toolchain: &Toolchain,
    name: &str,
    failures: &mut Vec<String>,
) -> Result<()> {
    let same_compiler = toolchain.version == manifest.compiler;
    if !same_compiler {
        println!(
            "the PTX was made by another compiler ({}): comparing entry points and parameters, not bytes",
            manifest.compiler
        );
    }
    let image = &manifest.images[name];
    let text = build(workspace, kernels, toolchain, name)?;
    if same_compiler {
        let committed = fs::read_to_string(workspace.ptx(kernels).join(&image.file))?;
        match first_difference(&committed, &text) {
            None => println!("{}: rebuilt, the same bytes", image.file),
            Some(difference) => failures.push(format!("{}, {difference}", image.file)),
        }
        return Ok(());
    }
    let found = check_images::differences(&image.entries, &check_images::entries(&text));
    if found.is_empty() {
        println!(
            "{}: rebuilt, the same entry points and parameters",
            image.file
        );
    }
    failures.extend(
        found
            .into_iter()
            .map(|what| format!("{}: {what}", image.file)),
    );
    Ok(())
}

fn first_difference(committed: &str, built: &str) -> Option<String> {
    if committed == built {
        return None;
    }
    let (mut old, mut new) = (committed.lines(), built.lines());
    for line in 1.. {
        match (old.next(), new.next()) {
            (Some(a), Some(b)) if a == b => {}
            (a, b) => {
                let end = "the end of the file";
                return Some(format!(
                    "line {line}: committed is `{}`, built is `{}`",
                    a.unwrap_or(end).trim(),
                    b.unwrap_or(end).trim()
                ));
            }
        }
    }
    None
}

/// Assembles images for their targets, prints what the kernels use, and finds spills that the
/// manifest does not list.
fn check_usage(
    workspace: &Workspace,
    kernels: KernelCrate,
    manifest: &Manifest,
    images: &[(&str, &[&str])],
    failures: &mut Vec<String>,
) -> Result<()> {
    let ptxas = ptxas::install(workspace)?;
    let scratch = workspace.target.join("ptx");
    let mut rows: BTreeMap<String, Vec<ptxas::Usage>> = BTreeMap::new();
    let mut targets = Vec::new();
    for &(name, image_targets) in images {
        let file = workspace.ptx(kernels).join(&manifest.images[name].file);
        for target in image_targets {
            targets.push(*target);
            for usage in ptxas::assemble(&ptxas, &file, target, &scratch)? {
                let spilled = usage.spill_store_bytes + usage.spill_load_bytes;
                if spilled > 0 && !manifest.allows_spill(&usage.kernel, target, spilled) {
                    failures.push(format!(
                        "{} spills {spilled} bytes on {target}, and the manifest lists no reason",
                        usage.kernel
                    ));
                }
                rows.entry(usage.kernel.clone()).or_default().push(usage);
            }
        }
    }
    print_usage(&targets, &rows);
    for allowed in &manifest.allowed_spills {
        println!(
            "allowed to spill: {} on {}: {}",
            allowed.kernel, allowed.target, allowed.reason
        );
    }
    Ok(())
}

/// One line a kernel; for each target registers, bytes spilled (stores + loads), shared bytes.
fn print_usage(targets: &[&str], rows: &BTreeMap<String, Vec<ptxas::Usage>>) {
    let width = rows
        .keys()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("kernel".len());
    print!("{:width$}", "kernel");
    for target in targets {
        print!("  {target:>6}: reg spill shared");
    }
    println!();
    for (kernel, usages) in rows {
        print!("{kernel:width$}");
        for usage in usages {
            print!(
                "  {:>11} {:>5} {:>6}",
                usage.registers,
                usage.spill_store_bytes + usage.spill_load_bytes,
                usage.shared_bytes
            );
        }
        println!();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_difference_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let text = first_difference("a\nb\n", "a\nc\n").unwrap();
        assert!(
            text.contains("line 2") && text.contains("`b`") && text.contains("`c`"),
            "{text}"
        );
        assert!(
            first_difference("a\n", "a\nb\n")
                .unwrap()
                .contains("the end of the file")
        );
    }

    #[test]
    fn a_changed_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let text = ".visible .entry k()\n{\n}\n";
        let mut images = BTreeMap::new();
        for (name, _) in IMAGES {
            let file = format!("{name}.ptx");
            fs::write(folder.path().join(&file), text).unwrap();
            images.insert(name.to_owned(), describe(file, text));
        }
        let manifest = Manifest {
            compiler: toolchain::CompilerVersion {
                rustc: String::new(),
                llvm: String::new(),
            },
            flags: recorded_flags(),
            sources_sha256: String::new(),
            images,
            allowed_spills: vec![],
        };
        let mut failures = Vec::new();
        check_files(folder.path(), &manifest, &mut failures).unwrap();
        assert!(failures.is_empty(), "{failures:?}");
        fs::write(
            folder.path().join("sm_90.ptx"),
            ".visible .entry l()\n{\n}\n",
        )
        .unwrap();
        check_files(folder.path(), &manifest, &mut failures).unwrap();
        assert_eq!(failures, ["sm_90.ptx is not the file of the manifest"]);
    }
}
