//! Where things lie.

use std::path::PathBuf;

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;

/// A crate of kernels with the PTX that is made of it.
#[derive(Clone, Copy)]
pub struct KernelCrate {
    /// Its package.
    pub package: &'static str,
    /// Its folder.
    folder: &'static str,
}

/// The crates of kernels: those that ship, and those of the tests.
pub const KERNEL_CRATES: [KernelCrate; 2] = [
    KernelCrate {
        package: "luge-gpu-kernels",
        folder: "gpu-kernels",
    },
    KernelCrate {
        package: "luge-test-kernels",
        folder: "tests/kernels",
    },
];

impl KernelCrate {
    /// The folder of its sources, below the workspace's root.
    pub fn sources(&self) -> String {
        format!("{}/src", self.folder)
    }
}

/// The folders the commands work in.
pub struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub root: PathBuf,
    /// Cargo's target folder, where everything generated and not committed goes.
    pub target: PathBuf,
}

impl Workspace {
    /// The workspace this program was built from.
    pub fn find() -> Result<Self> {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let metadata = MetadataCommand::new()
            .manifest_path(manifest)
            .no_deps()
            .exec()
            .context("cargo metadata does not answer for this workspace")?;
        Ok(Self {
            root: metadata.workspace_root.into_std_path_buf(),
            target: metadata.target_directory.into_std_path_buf(),
        })
    }

    /// The folder of the committed PTX of a crate of kernels.
    pub fn ptx(&self, kernels: KernelCrate) -> PathBuf {
        self.root.join(kernels.folder).join("ptx")
    }

    /// The folder of test matrices: `LUGE_CORPUS`, or `shared/corpus` beside the workspace.
    pub fn corpus(&self) -> PathBuf {
        match std::env::var_os("LUGE_CORPUS") {
            Some(path) => PathBuf::from(path),
            None => self.root.join("../shared/corpus"),
        }
    }
}
