//! The files the PTX is made from, and their hash.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The folders whose sources end up in the PTX of every crate of kernels, beside its own.
const FOLDERS: [&str; 2] = ["crates/kernel-macros/src", "crates/kernel/src"];

/// The parts of the DSL that exist on the host only.
const HOST_ONLY: [&str; 4] = [
    "crates/kernel/src/host",
    "crates/kernel/src/host.rs",
    "crates/kernel/src/sim",
    "crates/kernel/src/sim.rs",
];

/// SHA-256, in hexadecimal, over the sources of the kernels in the folder `own`: for each file in order of its path, the
/// path, the length and the code. See [`code`].
pub fn hash(root: &Path, own: &str) -> Result<String> {
    let mut files = Vec::new();
    for folder in FOLDERS.into_iter().chain([own]) {
        collect(root, Path::new(folder), &mut files)?;
    }
    files.sort();
    let mut hasher = Sha256::new();
    for name in files {
        let text = fs::read_to_string(root.join(&name))
            .with_context(|| format!("{name} cannot be read"))?;
        let code = code(&text);
        hasher.update(format!("{name}\n{}\n", code.len()));
        hasher.update(code);
    }
    Ok(hex(&hasher.finalize()))
}

/// The lines that are not empty and not a comment, without the space around them and each with a
/// line feed: a better comment does not make the PTX old.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for line in text.lines().map(str::trim) {
        if !line.is_empty() && !line.starts_with("//") {
            code += line;
            code.push('\n');
        }
    }
    code
}

/// Adds the `.rs` files below `folder`, as paths relative to `root` with forward slashes.
fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<()> {
    let entries = fs::read_dir(root.join(folder))
        .with_context(|| format!("{} cannot be read", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path: PathBuf = folder.join(entry.file_name());
        let name = path.to_string_lossy().replace('\\', "/");
        if HOST_ONLY.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else if name.ends_with(".rs") {
            files.push(name);
        }
    }
    Ok(())
}

/// SHA-256 of `text`, in hexadecimal.
pub fn hash_text(text: &str) -> String {
    hash_bytes(text.as_bytes())
}

/// SHA-256 of `bytes`, in hexadecimal.
pub fn hash_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "gpu-kernels/src";

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in FOLDERS.into_iter().chain([OWN]) {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn hash_follows_the_kernel_sources_and_nothing_else() {
        let base = [
            ("gpu-kernels/src/a.rs", "x\n"),
            ("crates/kernel/src/sim/mod.rs", "1"),
        ];
        let hash_of = |files: &[(&str, &str)]| hash(tree(files).path(), OWN).unwrap();
        let expected = hash_of(&base);
        assert_eq!(
            expected,
            hash_of(&[base[0], ("crates/kernel/src/sim/mod.rs", "2")])
        );
        let same = "//! Head.\r\n\r\n    x\r\n    // Note.\r\n";
        assert_eq!(
            expected,
            hash_of(&[("gpu-kernels/src/a.rs", same), base[1]])
        );
        assert_ne!(
            expected,
            hash_of(&[("gpu-kernels/src/a.rs", "x x\n"), base[1]])
        );
        assert_ne!(
            expected,
            hash_of(&[("gpu-kernels/src/a.rs", "y\n"), base[1]])
        );
        assert_ne!(
            expected,
            hash_of(&[("gpu-kernels/src/b.rs", "x\n"), base[1]])
        );
        assert_ne!(
            expected,
            hash_of(&[base[0], ("crates/kernel/src/nvptx/mod.rs", "")])
        );
        assert_ne!(
            expected,
            hash_of(&[base[0], ("crates/kernel-macros/src/lib.rs", "")])
        );
    }

    #[test]
    fn hash_of_text_is_sha256() {
        assert_eq!(
            hash_text("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
