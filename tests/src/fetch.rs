//! Matrices of the SuiteSparse collection, downloaded and checked.
//!
//! An archive is taken only if its SHA-512 is the one that is known: of the matrices of [`KNOWN`], or given by the
//! caller. Without a network, [`FetchError::NoNetwork`] says so.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use sha2::{Digest, Sha512};

/// A matrix of the collection whose archive is known.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Known {
    /// Its group in the collection.
    pub group: String,
    /// Its name.
    pub name: String,
    /// What it comes from.
    pub about: String,
    /// Bytes of the archive.
    pub bytes: u64,
    /// SHA-512 of the archive, in hexadecimal.
    pub sha512: String,
}

/// The matrices that are known. Sizes and checksums are those that Gentoo's package of rocSPARSE, whose tests use
/// these archives, has of them.
pub static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("known-matrices.json"))
        .unwrap_or_else(|error| unreachable!("a test reads it: {error}"))
});

/// Where the collection is.
pub const COLLECTION: &str = "https://suitesparse-collection-website.herokuapp.com/MM";

/// Largest archive that is taken.
const MOST_BYTES: u64 = 4 << 30;

/// Why a matrix was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The collection cannot be reached.
    #[error(
        "no network, or the collection does not answer ({0}); matrices of the same kinds are made by `cargo xtask corpus generate`"
    )]
    NoNetwork(String),
    /// The collection has no such matrix.
    #[error("the collection answers {status} for {url}")]
    Refused {
        /// Status of the answer.
        status: u16,
        /// What was asked for.
        url: String,
    },
    /// The archive is not the one that is known.
    #[error(
        "the archive of {name} has the SHA-512\n  {found}\nand not\n  {expected}\nso it is not taken"
    )]
    OtherChecksum {
        /// The matrix.
        name: String,
        /// What it has.
        found: String,
        /// What it must have.
        expected: String,
    },
    /// Nothing is known of the archive.
    #[error(
        "no checksum is known of {name}; its archive has the SHA-512\n  {found}\nGive it with --sha512 to take that one"
    )]
    NoChecksum {
        /// The matrix.
        name: String,
        /// What it has.
        found: String,
    },
    /// The archive has no such file.
    #[error("the archive of {0} has no file {0}.mtx")]
    NotInArchive(String),
    /// A file or the stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A matrix that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its group.
    pub group: String,
    /// Its name.
    pub name: String,
    /// SHA-512 that its archive must have, if that is known.
    pub sha512: Option<String>,
}

impl Wanted {
    /// `NAME` of one that is known, or `GROUP/NAME`.
    ///
    /// # Errors
    ///
    /// In words, if there is no such name, or none that is a name.
    pub fn parse(words: &str, sha512: Option<&str>) -> Result<Self, String> {
        let is_name = |word: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-+".contains(c);
            !word.is_empty() && word.chars().all(plain)
        };
        let (group, name) = match words.split_once('/') {
            Some((group, name)) => (Some(group), name),
            None => (None, words),
        };
        if !is_name(name) || !group.is_none_or(is_name) {
            return Err(format!("{words} is no NAME and no GROUP/NAME"));
        }
        let listed = KNOWN.iter().find(|known| known.name == name);
        let listed = listed.filter(|known| group.is_none_or(|group| group == known.group));
        let group = group.or(listed.map(|known| known.group.as_str()));
        let Some(group) = group else {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name.as_str()).collect();
            return Err(format!(
                "{name} is none of {}; others are called GROUP/NAME",
                names.join(", ")
            ));
        };
        let sha512 = sha512.or(listed.map(|known| known.sha512.as_str()));
        Ok(Self {
            group: group.to_owned(),
            name: name.to_owned(),
            sha512: sha512.map(str::to_lowercase),
        })
    }

    /// Where its archive is in a collection.
    fn url(&self, collection: &str) -> String {
        format!("{collection}/{}/{}.tar.gz", self.group, self.name)
    }
}

/// Downloads a matrix to `folder`, as `NAME.mtx.gz`, unless it is there already. Gives the file, and whether it is new.
///
/// # Errors
///
/// [`FetchError`]; then there is no file.
pub fn fetch(
    collection: &str,
    wanted: &Wanted,
    folder: &Path,
) -> Result<(PathBuf, bool), FetchError> {
    let path = folder.join(format!("{}.mtx.gz", wanted.name));
    if path.is_file() {
        return Ok((path, false));
    }
    let archive = download(&wanted.url(collection), &wanted.name)?;
    let found: String = Sha512::digest(&archive)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = wanted.name.clone();
    match &wanted.sha512 {
        None => return Err(FetchError::NoChecksum { name, found }),
        Some(expected) if *expected != found => {
            return Err(FetchError::OtherChecksum {
                name,
                found,
                expected: expected.clone(),
            });
        }
        Some(_) => {}
    }
    fs::create_dir_all(folder)?;
    // Under another name until it is complete.
    let partial = folder.join(format!("{}.partial", wanted.name));
    let written = unpack(&archive, &wanted.name, &partial);
    if written.is_err() && partial.exists() {
        fs::remove_file(&partial)?;
    }
    written?;
    fs::rename(&partial, &path)?;
    Ok((path, true))
}

fn download(url: &str, name: &str) -> Result<Vec<u8>, FetchError> {
    let mut answer = match ureq::get(url).call() {
        Ok(answer) => answer,
        Err(ureq::Error::StatusCode(status)) => {
            let url = url.to_owned();
            return Err(FetchError::Refused { status, url });
        }
        Err(error) => return Err(FetchError::NoNetwork(error.to_string())),
    };
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {eta} {msg}");
    let progress = answer
        .body()
        .content_length()
        .map_or_else(ProgressBar::no_length, ProgressBar::new);
    if let Ok(style) = style {
        progress.set_style(style);
    }
    progress.set_message(name.to_owned());
    let stream = answer.body_mut().as_reader().take(MOST_BYTES);
    let mut archive = Vec::new();
    progress.wrap_read(stream).read_to_end(&mut archive)?;
    progress.finish_and_clear();
    Ok(archive)
}

/// Writes `NAME/NAME.mtx` of an archive to a file, compressed.
fn unpack(archive: &[u8], name: &str, to: &Path) -> Result<(), FetchError> {
    let mut entries = tar::Archive::new(GzDecoder::new(archive));
    let wanted = Path::new(name).join(format!("{name}.mtx"));
    for entry in entries.entries()? {
        let mut entry = entry?;
        if entry.path()? == wanted {
            let mut file = GzEncoder::new(fs::File::create(to)?, flate2::Compression::default());
            io::copy(&mut entry, &mut file)?;
            file.finish()?.flush()?;
            return Ok(());
        }
    }
    Err(FetchError::NotInArchive(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    const MATRIX: &str = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2.5\n";

    fn archive(file: &str) -> Vec<u8> {
        let mut builder =
            tar::Builder::new(GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(MATRIX.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder
            .append_data(&mut header, file, MATRIX.as_bytes())
            .expect("in memory");
        builder
            .into_inner()
            .and_then(GzEncoder::finish)
            .expect("in memory")
    }

    fn sha512(bytes: &[u8]) -> String {
        Sha512::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// A collection that answers one request, on this machine.
    fn collection(status: &'static str, body: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a request");
            let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).expect("the client reads");
            stream.write_all(&body).expect("the client reads");
        });
        format!("http://{address}/MM")
    }

    fn wanted(sha512: Option<String>) -> Wanted {
        Wanted {
            group: "Group".to_owned(),
            name: "one".to_owned(),
            sha512,
        }
    }

    #[test]
    fn a_matrix_is_fetched_checked_and_not_fetched_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = archive("one/one.mtx");
        let wanted = wanted(Some(sha512(&archive)));
        let at = collection("200 OK", archive);
        let (path, is_new) = fetch(&at, &wanted, folder.path()).expect("it is fetched");
        assert!(is_new);
        let read = luge_matrix_io::read(&path).expect("a matrix");
        assert_eq!((read.shape(), read.nnz()), ((1, 1), 1));
        // Nobody answers a second request.
        let (again, is_new) = fetch(&at, &wanted, folder.path()).expect("it is there");
        assert_eq!((again, is_new), (path, false));
    }

    #[test]
    fn what_is_not_the_known_archive_is_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = archive("one/one.mtx");
        let mut damaged = archive.clone();
        damaged[30] ^= 1;
        let known = wanted(Some(sha512(&archive)));
        let other = fetch(&collection("200 OK", damaged), &known, folder.path());
        assert!(
            matches!(other, Err(FetchError::OtherChecksum { .. })),
            "{other:?}"
        );
        let unknown = fetch(
            &collection("200 OK", archive.clone()),
            &wanted(None),
            folder.path(),
        );
        let Err(FetchError::NoChecksum { found, .. }) = unknown else {
            panic!("{unknown:?}");
        };
        assert_eq!(found, sha512(&archive));
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn refusals_and_a_missing_network_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let refused = fetch(
            &collection("404 Not Found", Vec::new()),
            &wanted(None),
            folder.path(),
        );
        assert!(
            matches!(refused, Err(FetchError::Refused { status: 404, .. })),
            "{refused:?}"
        );
        // A port that was just given back: nobody listens.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .expect("a port");
        let nobody = fetch(&format!("http://{port}/MM"), &wanted(None), folder.path());
        let Err(error) = nobody else {
            panic!("nobody answers");
        };
        assert!(error.to_string().starts_with("no network"), "{error}");
        let archive = archive("one/two.mtx");
        let wanted = wanted(Some(sha512(&archive)));
        let empty = fetch(&collection("200 OK", archive), &wanted, folder.path());
        assert!(
            matches!(empty, Err(FetchError::NotInArchive(_))),
            "{empty:?}"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn names_are_of_known_matrices_or_have_a_group() {
        let scircuit = Wanted::parse("scircuit", None).expect("it is known");
        assert_eq!(
            scircuit,
            Wanted::parse("Hamm/scircuit", None).expect("it is known")
        );
        assert_eq!(scircuit.sha512.map(|hash| hash.len()), Some(128));
        let other = Wanted::parse("AMD/G3_circuit", Some("AB")).expect("a group");
        assert_eq!(other.sha512.as_deref(), Some("ab"));
        assert_eq!(
            Wanted::parse("Other/scircuit", None)
                .expect("a group")
                .sha512,
            None
        );
        for wrong in ["nobody", "", "../x", "a/b/c", "a/..", "Hamm/"] {
            assert!(Wanted::parse(wrong, None).is_err(), "{wrong}");
        }
        for known in KNOWN.iter() {
            assert!(
                known.sha512.len() == 128 && known.bytes > 0,
                "{}",
                known.name
            );
        }
    }
}
