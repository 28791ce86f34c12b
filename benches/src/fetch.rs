//! Matrices of the SuiteSparse collection, downloaded and checked.
//!
//! An archive is taken only if its SHA-512 is the one that is known: of the matrices of [`KNOWN`], or given by the
//! caller. Without a network, [`FetchError::NoNetwork`] says so.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha512};

use crate::progress::Progress;

/// A matrix of the collection whose archive is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its group in the collection.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it comes from.
    pub about: &'static str,
    /// Bytes of the archive.
    pub bytes: u64,
    /// SHA-512 of the archive, in hexadecimal.
    pub sha512: &'static str,
}

const fn known(
    group: &'static str,
    name: &'static str,
    about: &'static str,
    bytes: u64,
    sha512: &'static str,
) -> Known {
    Known {
        group,
        name,
        about,
        bytes,
        sha512,
    }
}

/// The matrices that are known. Sizes and checksums are those that Gentoo's package of rocSPARSE, whose tests use
/// these archives, has of them.
pub const KNOWN: &[Known] = &[
    known(
        "HB",
        "nos1",
        "beam, Lanczos method",
        3_025,
        "6eb5b65ba2230bb2468d93526990772ce7508faffe0fa5b0c5767859cd0fb0acbdc2d94dab3e5097a4a47dc4d7b0313891037d8a29720eb803cfaf26ae529495",
    ),
    known(
        "HB",
        "nos2",
        "beam, Lanczos method",
        10_313,
        "2e50b3bf99e2bedb1eabf58d0293bf9484713204340b2f68ae919d9e842a8c6e4ca917b7d61d4e171ae9e4002ced034913d83c5de6e75f16dae9079467cc424a",
    ),
    known(
        "HB",
        "nos3",
        "plate, Lanczos method",
        34_282,
        "cb260dec5947765004f497249c0b46d15271e2dd69e99bc2925352d52ac75d27bb9635b1d4bb445b1d79de03aa6803a219a5c80a242fcf7ff74c7e80c0f8f59c",
    ),
    known(
        "HB",
        "nos5",
        "building, Lanczos method",
        13_125,
        "6151b9de84498495f3e03d11ff26d7013b5109068474abbee6018b3fe90a5e518823a06a9cc8c62013cd61925061b45d3f5aabaa01da61286665039d8cb06655",
    ),
    known(
        "HB",
        "nos6",
        "Poisson's equation on an L",
        7_644,
        "22dbbb825648948fd3d2eb7a2ca8c45d6746b5b386406b1dacbeb575f1ebeeb14ff49f62e5fbdc8a784def398c319f810537991180740f6efffe4e94fdb15aef",
    ),
    known(
        "HB",
        "nos7",
        "diffusion in a cube, badly conditioned",
        9_639,
        "39109bbe3d0d791a0a2eeb272f2359bad34332191c53db7487a01770ac4c7ea1af2cc5e05a0ff5744f413113b7fcbe493a36cfc880436af274fe7dc6c39d6e11",
    ),
    known(
        "Hamm",
        "scircuit",
        "circuit",
        8_635_362,
        "4949c869c17a66f19660cbe21b61615fb468d5afb1a773f9d6fe09cbc45b4c6245b647148dbab102b45599c53acaf4ed96ab815e17e538068c927a4d25b9bd2a",
    ),
    known(
        "Sandia",
        "ASIC_320k",
        "circuit with dense rows and columns",
        11_301_444,
        "1db3af391c30a371c1ac0087436e266721474273a39d5b2b6d56408d950dcbbee004750e4dce4e3dbc4cb512f38f6d945676d7f29b62c52fd5a7fed0fe789e03",
    ),
    known(
        "Williams",
        "mac_econ_fwd500",
        "economic model",
        12_051_668,
        "f279d2d71c92456bb0a5168bf3d8bc77eb991f4cbef6eea2c98d038be9ab2f2b576480e081099f766fe888480e91026a619a8de9d04758c26ee316ac4a09fdb5",
    ),
    known(
        "Williams",
        "mc2depi",
        "epidemic as a Markov chain",
        10_874_561,
        "82e5bd935d5d6fb83801b5a7848bf7dc636459ba7b14b327a135c5e88528bdc47e4822927aa44c8e21316b538e5f6563024152253c5deb606dbaec77ff986594",
    ),
    known(
        "Bova",
        "rma10",
        "flow in a harbour",
        19_466_055,
        "c8ce8fc8fa7192ba2ac240439c90701080a590945dfb92bb80886f513205a0360ff8e5fd19819ad97d1eb58c3d83b57e5482e5361199cc9626e2afee8d84f4ac",
    ),
    known(
        "DNVS",
        "shipsec1",
        "section of a ship, structure",
        22_175_245,
        "e027097e74f8ffc058339855b1c38cab52c68b661058318b429487e7188e11e907f6734894f9c71d1e38d262986525fba8d0f165bc0a1b4632d7e25be8db4f17",
    ),
    known(
        "GHS_psdef",
        "bmwcra_1",
        "crankshaft, structure",
        67_958_791,
        "049722d3524fb7397c4f00ce9a034e75612b839353bbbd7b963900ec19eeb5a4ec54a780882b4929fc4dd6932efb2f676432d444c3d256f9b57d5f392e5241ca",
    ),
];

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
        let group = group.or(listed.map(|known| known.group));
        let Some(group) = group else {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            return Err(format!(
                "{name} is none of {}; others are called GROUP/NAME",
                names.join(", ")
            ));
        };
        let sha512 = sha512.or(listed.map(|known| known.sha512));
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
    let progress = Progress::of_bytes(answer.body().content_length());
    progress.begin(name);
    let mut stream = answer.body_mut().as_reader().take(MOST_BYTES);
    let mut archive = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(archive);
        }
        archive.extend_from_slice(&chunk[..count]);
        progress.advance(count);
    }
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
        for known in KNOWN {
            assert!(
                known.sha512.len() == 128 && known.bytes > 0,
                "{}",
                known.name
            );
        }
    }
}
