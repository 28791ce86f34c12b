//! `cargo xtask ptx`: builds the kernels to PTX, and checks the committed PTX.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::binaries;
use crate::check_images;
use crate::images;
use crate::manifest::{Image, Manifest};
use crate::pack;
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
    let mut texts = BTreeMap::new();
    for (name, _) in IMAGES {
        let text = build(workspace, kernels, &toolchain, name)?;
        texts.insert(name.to_owned(), text);
    }
    fs::create_dir_all(&folder)?;
    images::write(&folder, &texts)?;
    let described = describe(&texts);
    for image in described.values() {
        println!("{}: {} entry points", image.file, image.entries.len());
    }
    let assembled = binaries::assemble(workspace, kernels, &texts[binaries::IMAGE])?;
    let binaries = binaries::write(workspace, kernels, &assembled)?;
    let manifest = Manifest {
        binaries,
        compiler: toolchain.version,
        flags: recorded_flags(),
        sources_sha256,
        images: described,
        allowed_spills: previous
            .map(|manifest| manifest.allowed_spills)
            .unwrap_or_default(),
    };
    manifest.write(&folder)?;
    let mut failures = Vec::new();
    check_usage(
        workspace,
        kernels,
        (&manifest, &texts),
        &IMAGES,
        (assembled.usages, &mut failures),
    )?;
    if !failures.is_empty() {
        bail!("the PTX is written, but\n  {}", failures.join("\n  "));
    }
    Ok(())
}

/// What the manifest says of images with these texts.
fn describe(texts: &BTreeMap<String, String>) -> BTreeMap<String, Image> {
    let images = texts.iter().map(|(name, text)| {
        let image = Image {
            file: images::file(name),
            sha256: sources::hash_text(text),
            entries: check_images::entries(text),
        };
        (name.clone(), image)
    });
    images.collect()
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
    Ok(pack::without_comments(&text))
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
    let texts = images::read(&folder, IMAGES.map(|(name, _)| name))?;
    check_texts(&texts, &manifest, &mut failures);
    if !failures.is_empty() {
        bail!(
            "{}\n  `cargo xtask ptx` makes it anew",
            failures.join("\n  ")
        );
    }
    println!("manifest: sources, flags and images agree");

    let toolchain = toolchain::choose(Some(&manifest.compiler))?;
    println!(
        "kernel toolchain: {} ({})",
        toolchain.name, toolchain.version
    );
    for (name, _) in images {
        let text = build(workspace, kernels, &toolchain, name)?;
        let same_compiler = toolchain.version == manifest.compiler;
        check_rebuild(
            (&texts[*name], &text),
            &manifest.images[*name],
            same_compiler,
            &mut failures,
        );
    }
    let mut usages = Vec::new();
    if images.iter().any(|(name, _)| *name == binaries::IMAGE) {
        let assembled = binaries::assemble(workspace, kernels, &texts[binaries::IMAGE])?;
        binaries::check(workspace, kernels, manifest.binaries.as_ref(), &assembled)?;
        usages = assembled.usages;
    }
    check_usage(
        workspace,
        kernels,
        (&manifest, &texts),
        images,
        (usages, &mut failures),
    )?;
    if !failures.is_empty() {
        bail!(
            "the committed PTX does not pass:\n  {}",
            failures.join("\n  ")
        );
    }
    Ok(())
}

/// Whether the committed texts are those of the manifest.
fn check_texts(texts: &BTreeMap<String, String>, manifest: &Manifest, failures: &mut Vec<String>) {
    for (name, image) in describe(texts) {
        match manifest.images.get(&name) {
            None => failures.push(format!("the manifest lists no {name}")),
            Some(listed) if *listed != image => {
                failures.push(format!("{} is not the file of the manifest", image.file));
            }
            Some(_) => {}
        }
    }
    if manifest.images.len() > texts.len() {
        failures.push("the manifest lists images that are not built any more".to_owned());
    }
}

/// Whether a build from the sources gives the committed text: byte for byte with the manifest's
/// compiler, in entry points and parameters with another.
fn check_rebuild(
    (committed, built): (&str, &str),
    image: &Image,
    same_compiler: bool,
    failures: &mut Vec<String>,
) {
    if same_compiler {
        match first_difference(committed, built) {
            None => println!("{}: rebuilt, the same text", image.file),
            Some(difference) => failures.push(format!("{}, {difference}", image.file)),
        }
        return;
    }
    println!(
        "{} was made by another compiler: comparing entry points and parameters, not bytes",
        image.file
    );
    let found = check_images::differences(&image.entries, &check_images::entries(built));
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
/// manifest does not list. What those with binaries use on their target is known already.
fn check_usage(
    workspace: &Workspace,
    kernels: KernelCrate,
    (manifest, texts): (&Manifest, &BTreeMap<String, String>),
    images: &[(&str, &[&str])],
    (of_binaries, failures): (Vec<ptxas::Usage>, &mut Vec<String>),
) -> Result<()> {
    let mut of_binaries = Some(of_binaries);
    let ptxas = ptxas::install(workspace)?;
    let scratch = workspace.target.join("ptx");
    let mut rows: BTreeMap<String, Vec<ptxas::Usage>> = BTreeMap::new();
    let mut targets = Vec::new();
    for &(name, image_targets) in images {
        let file = scratch.join(format!("{}-{name}.ptx", kernels.package));
        for target in image_targets {
            targets.push(*target);
            let binary = scratch.join(format!("{target}.cubin"));
            let (known, left) = if *target == binaries::IMAGE {
                let is_left = |entry: &str| !binaries::of(kernels).contains(&entry);
                let known = of_binaries.take().unwrap_or_default();
                (known, check_images::only(&texts[name], is_left))
            } else {
                (Vec::new(), texts[name].clone())
            };
            fs::write(&file, left)?;
            let assembled = ptxas::assemble(&ptxas, &file, target, &binary)?;
            for usage in assembled.into_iter().chain(known) {
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
    fn a_changed_image_is_found() {
        let text = ".visible .entry k()\n{\n}\n".to_owned();
        let mut texts: BTreeMap<_, _> = IMAGES
            .map(|(name, _)| (name.to_owned(), text.clone()))
            .into();
        let mut manifest = Manifest {
            binaries: None,
            compiler: toolchain::CompilerVersion {
                rustc: String::new(),
                llvm: String::new(),
            },
            flags: recorded_flags(),
            sources_sha256: String::new(),
            images: describe(&texts),
            allowed_spills: vec![],
        };
        let failures = |texts: &_, manifest: &_| {
            let mut failures = Vec::new();
            check_texts(texts, manifest, &mut failures);
            failures
        };
        assert!(failures(&texts, &manifest).is_empty());
        texts.insert("sm_90".to_owned(), text.replace('k', "l"));
        let changed = ["sm_90.br is not the file of the manifest"];
        assert_eq!(failures(&texts, &manifest), changed);
        texts.insert("sm_90".to_owned(), text);
        let listed = manifest.images.remove("sm_80").unwrap();
        assert_eq!(failures(&texts, &manifest), ["the manifest lists no sm_80"]);
        for name in ["sm_80", "sm_70"] {
            manifest.images.insert(name.to_owned(), listed.clone());
        }
        let old = ["the manifest lists images that are not built any more"];
        assert_eq!(failures(&texts, &manifest), old);
    }

    #[test]
    fn builds_are_compared_as_their_compilers_allow() {
        let text = ".visible .entry k()\n{\n}\n";
        let texts = BTreeMap::from([("sm_90".to_owned(), text.to_owned())]);
        let image = &describe(&texts)["sm_90"];
        let failures = |built: &str, same_compiler| {
            let mut failures = Vec::new();
            check_rebuild((text, built), image, same_compiler, &mut failures);
            failures.len()
        };
        let other_body = text.replace('{', "{\n\tret;");
        let other_name = text.replace('k', "l");
        assert_eq!([failures(text, true), failures(text, false)], [0, 0]);
        assert_eq!(failures(&other_body, true), 1);
        assert_eq!(failures(&other_body, false), 0);
        assert!(failures(&other_name, false) > 0);
    }
}
