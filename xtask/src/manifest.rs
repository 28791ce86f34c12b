//! `ptx/manifest.json` of a crate of kernels: what its committed PTX was made from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::check_images::Entries;
use crate::toolchain::CompilerVersion;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The compiler that made the images.
    pub compiler: CompilerVersion,
    /// The flags and profile settings that matter for the output; `<sm>` stands for the image's name.
    pub flags: Vec<String>,
    /// The hash of the sources the images were made from; see `sources::hash`.
    pub sources_sha256: String,
    /// The images by name (`sm_80`).
    pub images: BTreeMap<String, Image>,
    /// The binaries made of one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binaries: Option<Binaries>,
    /// Spills that are known and accepted. Written by hand; kept when the PTX is made anew.
    #[serde(default)]
    pub allowed_spills: Vec<AllowedSpill>,
}

/// One image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// File name, beside the manifest.
    pub file: String,
    /// SHA-256 of its text.
    pub sha256: String,
    /// Entry points and the types of their parameters.
    pub entries: Entries,
}

/// Binaries of kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binaries {
    /// File name, beside the manifest.
    pub file: String,
    /// SHA-256 of what it unpacks to.
    pub sha256: String,
    /// The assembler that made them.
    pub assembler: String,
    /// The kernels, in order.
    pub kernels: Vec<String>,
}

/// A kernel that may spill registers to memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllowedSpill {
    /// Entry point.
    pub kernel: String,
    /// Target (`sm_90`), or `*` for all.
    pub target: String,
    /// Most bytes of spill stores and loads together.
    pub max_bytes: u64,
    /// Why this is accepted.
    pub reason: String,
}

impl Manifest {
    /// Reads the manifest of `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("manifest.json");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not valid", path.display()))
    }

    /// Writes the manifest of `folder`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        let path = folder.join("manifest.json");
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Whether `kernel` may spill `bytes` on `target`.
    pub fn allows_spill(&self, kernel: &str, target: &str, bytes: u64) -> bool {
        self.allowed_spills.iter().any(|allowed| {
            allowed.kernel == kernel
                && (allowed.target == target || allowed.target == "*")
                && bytes <= allowed.max_bytes
                && !allowed.reason.trim().is_empty()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(reason: &str) -> Manifest {
        Manifest {
            compiler: CompilerVersion {
                rustc: "rustc 1".into(),
                llvm: "2".into(),
            },
            flags: vec![],
            sources_sha256: String::new(),
            images: BTreeMap::new(),
            binaries: None,
            allowed_spills: vec![AllowedSpill {
                kernel: "k".into(),
                target: "sm_80".into(),
                max_bytes: 16,
                reason: reason.into(),
            }],
        }
    }

    #[test]
    fn spills_are_allowed_by_kernel_target_size_and_reason() {
        let listed = manifest("one double a thread, outside the loop");
        assert!(listed.allows_spill("k", "sm_80", 16));
        assert!(!listed.allows_spill("k", "sm_80", 17));
        assert!(!listed.allows_spill("k", "sm_90", 16));
        assert!(!listed.allows_spill("l", "sm_80", 16));
        assert!(!manifest(" ").allows_spill("k", "sm_80", 16));
    }

    #[test]
    fn a_manifest_reads_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let listed = manifest("x");
        listed.write(folder.path()).unwrap();
        assert_eq!(Manifest::read(folder.path()).unwrap(), listed);
    }
}
