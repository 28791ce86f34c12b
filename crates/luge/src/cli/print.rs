//! What the command prints.
//!
//! Who reads it may stop at any time, as in `luge info A.mtx | head -1`. A closed pipe ends the printing and nothing else:
//! files are still written, and the exit code says what became of the work.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use super::Failure;

/// Prints a line to standard output.
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    to_stdout(|out| writeln!(out, "{text}"))
}

/// Writes to standard output.
pub(crate) fn to_stdout(
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    or_closed(body(&mut out).and_then(|()| out.flush()))
        .map_err(|error| Failure::other(anyhow::anyhow!("standard output: {error}")))
}

/// Prints why the command failed, on standard error. If nobody reads that either, the exit code is left to tell.
pub(crate) fn failure(failure: &Failure) {
    let _ = writeln!(io::stderr().lock(), "luge: {}", failure.message());
}

fn or_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
        assert!(or_closed(Ok(())).is_ok());
        assert!(or_closed(Err(ErrorKind::BrokenPipe.into())).is_ok());
        assert!(or_closed(Err(ErrorKind::StorageFull.into())).is_err());
    }
}
