//! Packs and compresses the committed PTX, which is text and shrinks to a twelfth.

#[cfg(feature = "ptx")]
mod pack;

/// The image that the other one is a patch of: devices that run it, the newer ones, unpack no other.
#[cfg(feature = "ptx")]
const BASE: u32 = 90;

#[cfg(feature = "ptx")]
fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=pack.rs");
    let base = committed(BASE)?;
    compress(BASE, pack::whole(&base))?;
    compress(80, pack::patch(&committed(80)?, BASE, &base))
}

/// The committed image for a compute capability, without comments.
#[cfg(feature = "ptx")]
fn committed(sm: u32) -> std::io::Result<String> {
    let file = format!("ptx/sm_{sm}.ptx");
    println!("cargo::rerun-if-changed={file}");
    Ok(pack::without_comments(&std::fs::read_to_string(file)?))
}

/// Writes an image as `src/lib.rs` embeds it.
#[cfg(feature = "ptx")]
fn compress(sm: u32, packed: Result<String, String>) -> std::io::Result<()> {
    use std::io::{Error, Write};

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    let packed = packed.map_err(|error| Error::other(format!("ptx/sm_{sm}.ptx: {error}")))?;
    let out = std::env::var_os("OUT_DIR").ok_or_else(|| Error::other("cargo names no OUT_DIR"))?;
    let file = std::path::Path::new(&out).join(format!("sm_{sm}.ptx.zlib"));
    let mut encoder = ZlibEncoder::new(std::fs::File::create(file)?, Compression::best());
    encoder.write_all(packed.as_bytes())?;
    encoder.finish()?;
    Ok(())
}

#[cfg(not(feature = "ptx"))]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
