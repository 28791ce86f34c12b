//! The files that a command reads and writes: checked before the work, written as a whole or not at all.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Failure, print};

/// A file of the command line, and what it is there.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    /// The option, or `the matrix`.
    pub what: &'static str,
    pub path: &'a Path,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.path.display())
    }
}

/// The files of a command, those that were asked for.
#[derive(Default)]
pub(crate) struct Files<'a> {
    inputs: Vec<Named<'a>>,
    outputs: Vec<Named<'a>>,
}

impl<'a> Files<'a> {
    /// Adds a file that is read.
    pub(crate) fn read(mut self, what: &'static str, path: Option<&'a Path>) -> Self {
        self.inputs.extend(path.map(|path| Named { what, path }));
        self
    }

    /// Adds a file that is written.
    pub(crate) fn written(mut self, what: &'static str, path: Option<&'a Path>) -> Self {
        self.outputs.extend(path.map(|path| Named { what, path }));
        self
    }

    /// Refuses outputs that are inputs or each other, under whatever name; that exist, unless `force` says to overwrite
    /// them; and that cannot be written. What is neither a file nor a folder, such as a pipe, is only opened when it is
    /// written.
    pub(crate) fn check(&self, force: bool) -> Result<(), Failure> {
        let refuse = |message: String| Err(Failure::bad_input(anyhow::anyhow!(message)));
        let mut targets: Vec<(Named<'_>, PathBuf)> = Vec::new();
        for &output in &self.outputs {
            let cannot = |error: io::Error| {
                Failure::bad_input(anyhow::anyhow!("{output} cannot be written: {error}"))
            };
            let Target::File(file) = Target::of(output.path).map_err(cannot)? else {
                continue;
            };
            if let Some(input) = self.inputs.iter().find(|i| is_same(i.path, &file)) {
                return refuse(format!("{output} is {input}, which would be overwritten"));
            }
            let other = targets
                .iter()
                .find(|(_, f)| *f == file || is_same(f, &file));
            if let Some((other, _)) = other {
                return refuse(format!("{other} and {output} are the same file"));
            }
            if file.exists() {
                if !force {
                    return refuse(format!("{output} exists; --force overwrites it"));
                }
                OpenOptions::new().write(true).open(&file).map_err(cannot)?;
            }
            Unfinished::beside(&file).map_err(cannot)?;
            targets.push((output, file));
        }
        Ok(())
    }
}

/// Where the contents of a file go.
pub(crate) enum Destination<'a> {
    /// To a file of this name, with the extension that was asked for.
    Path(&'a Path),
    Stdout(&'a mut dyn Write),
}

impl Destination<'_> {
    /// Writes all of it.
    pub(crate) fn put(self, contents: &str) -> io::Result<()> {
        match self {
            Self::Path(path) => fs::write(path, contents),
            Self::Stdout(out) => out.write_all(contents.as_bytes()),
        }
    }
}

/// Writes the file `path`. It has all that `body` writes, or is as it was before.
pub(crate) fn write(
    path: &Path,
    body: impl FnOnce(Destination<'_>) -> io::Result<()>,
) -> Result<(), Failure> {
    let named = |error: io::Error| Failure::other(anyhow::anyhow!("{}: {error}", path.display()));
    match Target::of(path).map_err(named)? {
        Target::Stdout => print::to_stdout(|out| body(Destination::Stdout(out))),
        Target::Stream => body(Destination::Path(path)).map_err(named),
        Target::File(file) => {
            let unfinished = Unfinished::beside(&file).map_err(named)?;
            body(Destination::Path(&unfinished.path)).map_err(named)?;
            unfinished.finish(&file).map_err(named)
        }
    }
}

/// What a path leads to.
enum Target {
    /// The standard output of this process. Opened once more by its name, it would lose what was printed to a file
    /// before, and fail where the pipe is closed.
    Stdout,
    /// A pipe or a device.
    Stream,
    /// A file by its one absolute name without links, there or not.
    File(PathBuf),
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        let names_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(io::Error::other("it is a folder")),
            Ok(found) if is_stdout(&found) => Ok(Self::Stdout),
            Ok(found) if !found.is_file() => Ok(Self::Stream),
            Ok(_) => fs::canonicalize(path).map(Self::File),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(io::Error::other("it is a link to a file that is not there"));
                }
                let (Some(name), false) = (path.file_name(), names_folder) else {
                    return Err(io::Error::other("it names no file"));
                };
                let folder = fs::canonicalize(folder_of(path)).map_err(|error| {
                    let folder = folder_of(path).display();
                    io::Error::new(error.kind(), format!("folder {folder}: {error}"))
                })?;
                Ok(Self::File(folder.join(name)))
            }
            Err(error) => Err(error),
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether both are there and are one file, by links of either kind or by name.
#[cfg(unix)]
fn is_same(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) else {
        return false;
    };
    identity(&one) == identity(&other)
}

#[cfg(not(unix))]
fn is_same(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (fs::canonicalize(one), fs::canonicalize(other)) else {
        return false;
    };
    one == other
}

#[cfg(unix)]
fn identity(found: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (found.dev(), found.ino())
}

#[cfg(unix)]
fn is_stdout(found: &fs::Metadata) -> bool {
    use std::os::fd::AsFd;
    let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    stdout
        .and_then(|stdout| stdout.metadata())
        .is_ok_and(|stdout| identity(&stdout) == identity(found))
}

#[cfg(not(unix))]
fn is_stdout(_: &fs::Metadata) -> bool {
    false
}

/// A file that is not finished, beside the one that it is to be. It goes away unless it is finished.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    fn beside(file: &Path) -> io::Result<Self> {
        /// Numbers of the unfinished files of this process.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let mut name = OsString::from(format!(".luge-{}-{number}", std::process::id()));
            // What is written depends on it.
            if let Some(extension) = file.extension() {
                name.push(".");
                name.push(extension);
            }
            let path = file.with_file_name(name);
            match File::create_new(&path) {
                Ok(_) => return Ok(Self { path }),
                // Left behind by a process of the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Becomes `file`, with the permissions of what was there before.
    fn finish(self, file: &Path) -> io::Result<()> {
        if let Ok(before) = fs::metadata(file) {
            fs::set_permissions(&self.path, before.permissions())?;
        }
        fs::rename(&self.path, file)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It is gone if it was finished.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_finished_leaves_what_was_there() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x.txt");
        let half = |to: Destination<'_>| {
            to.put("half")?;
            Err(io::Error::other("the disk is full"))
        };
        for before in [None, Some("mine")] {
            if let Some(before) = before {
                fs::write(&path, before).expect("it is written");
            }
            let failure = write(&path, half).expect_err("it fails");
            assert_eq!(failure.code, 1);
            assert!(failure.message().contains("x.txt: the disk is full"));
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), before);
            let left = fs::read_dir(folder.path()).expect("it is there").count();
            assert_eq!(left, usize::from(before.is_some()));
        }
        write(&path, |to| to.put("whole")).expect("it is written");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "whole");
    }
}
