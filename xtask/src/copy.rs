//! A copy of the workspace, in which kernels and host code are changed and built.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Writes a file, unless it is the same already, so that cargo builds only what changed.
pub fn write_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// Makes `tree` the same as the files of `root` that git tracks or would track and that are `copied`; others keep what
/// they have. Files that are equal are not touched, so that cargo builds only what changed.
pub fn copy_tree(root: &Path, tree: &Path, copied: impl Fn(&str) -> bool) -> Result<()> {
    let mut command = Command::new("git");
    command
        .current_dir(root)
        .args(["ls-files", "-co", "--exclude-standard", "--deduplicate"]);
    let files = process::output(&mut command).context("git does not list the workspace's files")?;
    let mut wanted = BTreeSet::new();
    for name in files.lines() {
        let (from, to) = (root.join(name), tree.join(name));
        // A file that is deleted and not committed yet is still listed.
        let Ok(bytes) = fs::read(&from) else {
            continue;
        };
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        if copied(name) {
            write_changed(&to, &bytes)?;
        }
        wanted.insert(to);
    }
    remove_others(tree, &wanted)
}

/// Removes the files below `folder` that are not `wanted`.
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_follows_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let (root, tree) = (folder.path().join("root"), folder.path().join("tree"));
        fs::create_dir_all(root.join("src")).unwrap();
        process::run(Command::new("git").args(["init", "--quiet"]).arg(&root)).unwrap();
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        write(".gitignore", "/ignored\n");
        write("ignored", "1");
        write("src/a", "1");
        write("src/b", "2");
        copy_tree(&root, &tree, |_| true).unwrap();
        let read = |name: &str| fs::read_to_string(tree.join(name)).ok();
        assert_eq!(read("src/a").as_deref(), Some("1"));
        assert_eq!(read("ignored"), None);

        let before = fs::metadata(tree.join("src/a"))
            .unwrap()
            .modified()
            .unwrap();
        fs::write(tree.join("src/b"), "a mutant that was left there").unwrap();
        fs::remove_file(root.join(".gitignore")).unwrap();
        fs::remove_file(root.join("ignored")).unwrap();
        copy_tree(&root, &tree, |_| true).unwrap();
        assert_eq!(read("src/b").as_deref(), Some("2"));
        assert_eq!(read(".gitignore"), None);
        let after = fs::metadata(tree.join("src/a"))
            .unwrap()
            .modified()
            .unwrap();
        assert_eq!(before, after);

        write("src/a", "3");
        write("src/b", "4");
        copy_tree(&root, &tree, |file| file != "src/a").unwrap();
        assert_eq!(read("src/a").as_deref(), Some("1"));
        assert_eq!(read("src/b").as_deref(), Some("4"));
    }
}
