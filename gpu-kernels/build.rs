//! Compresses the committed PTX, which is text and shrinks to a sixth.

#[cfg(feature = "ptx")]
fn main() -> std::io::Result<()> {
    use std::env::var_os;
    use std::fs::{self, File};
    use std::io::{Error, Write};
    use std::path::Path;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    let out = var_os("OUT_DIR").ok_or_else(|| Error::other("cargo names no OUT_DIR"))?;
    println!("cargo::rerun-if-changed=build.rs");
    for image in ["sm_80.ptx", "sm_90.ptx"] {
        let text = Path::new("ptx").join(image);
        println!("cargo::rerun-if-changed={}", text.display());
        let file = File::create(Path::new(&out).join(format!("{image}.zlib")))?;
        let mut encoder = ZlibEncoder::new(file, Compression::best());
        encoder.write_all(&fs::read(text)?)?;
        encoder.finish()?;
    }
    Ok(())
}

#[cfg(not(feature = "ptx"))]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
