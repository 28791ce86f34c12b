//! Installing files below a prefix.

use std::fs;
use std::path::{Component, Path, PathBuf};

#[cfg(not(unix))]
use anyhow::bail;
use anyhow::{Context, Result, ensure};

/// The folder of libraries that an option names, which must be one below the prefix.
pub fn library_folder(libdir: &str) -> Result<&Path> {
    let folder = Path::new(libdir);
    let mut parts = folder.components();
    ensure!(
        parts.clone().count() > 0 && parts.all(|part| matches!(part, Component::Normal(_))),
        "--libdir is a folder below the prefix"
    );
    Ok(folder)
}

/// Files below a prefix. What is there is replaced.
pub struct Install<'a> {
    /// The folder that everything goes below.
    pub prefix: &'a Path,
}

impl Install<'_> {
    /// The whole path of a file, whose folder is made and which is not there.
    fn place(&self, to: &Path) -> Result<PathBuf> {
        let path = self.prefix.join(to);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        if path.symlink_metadata().is_ok() {
            // Not overwritten: a program that runs may have it mapped.
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
        println!("{}", path.display());
        Ok(path)
    }

    /// Copies a file.
    pub fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let path = self.place(to)?;
        fs::copy(from, &path)
            .with_context(|| format!("{} to {}", from.display(), path.display()))?;
        Ok(())
    }

    /// Writes a text.
    pub fn write(&self, text: &str, to: &Path) -> Result<()> {
        let path = self.place(to)?;
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Makes a link to a file beside it.
    #[cfg(unix)]
    pub fn link(&self, target: &str, to: &Path) -> Result<()> {
        let path = self.place(to)?;
        std::os::unix::fs::symlink(target, &path).with_context(|| path.display().to_string())
    }

    /// There are no links.
    #[cfg(not(unix))]
    pub fn link(&self, _target: &str, _to: &Path) -> Result<()> {
        bail!("this system has no links")
    }
}
