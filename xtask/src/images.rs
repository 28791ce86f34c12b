//! The committed images of a crate of kernels, packed and compressed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use brotli::enc::BrotliEncoderParams;
use luge_kernel::host::{KernelModule, Ptx, PtxImage};

use crate::pack;

/// The image that the others are patches of: devices that run it, the newer ones, unpack no other.
const BASE: &str = "sm_90";

/// The file of an image, beside the manifest.
pub fn file(name: &str) -> String {
    format!("{name}.br")
}

/// Writes the texts of images, by their names.
pub fn write(folder: &Path, texts: &BTreeMap<String, String>) -> Result<()> {
    let base = texts.get(BASE).with_context(|| format!("no {BASE}"))?;
    for (name, text) in texts {
        let packed = if name == BASE {
            pack::whole(text)
        } else {
            pack::patch(text, compute_capability(BASE)?, base)
        };
        let packed = packed
            .map_err(anyhow::Error::msg)
            .with_context(|| name.clone())?;
        fs::write(folder.join(file(name)), compressed(packed.as_bytes())?)?;
    }
    Ok(())
}

/// Reads the texts of these images, as a program does that has them embedded.
pub fn read<'a>(
    folder: &Path,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, String>> {
    let mut images = Vec::new();
    let mut read = Vec::new();
    for name in names {
        let file = folder.join(file(name));
        let stream =
            fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        // Embedded images are never given back either.
        let ptx = Ptx::compressed(stream.leak());
        let sm = compute_capability(name)?;
        images.push(PtxImage {
            sm,
            ptx,
            binaries: None,
        });
        read.push(name);
    }
    let module = KernelModule {
        name: "committed",
        images: images.leak(),
    };
    let texts = read.iter().zip(module.images).map(|(&name, image)| {
        let text = module.ptx(image, decompressed);
        let text = text.and_then(|text| Some(text.read(text.as_packed())?.into_owned()));
        let text = text.with_context(|| format!("{} is damaged", file(name)))?;
        Ok((name.to_owned(), text))
    });
    texts.collect()
}

/// As in `sm_80`: 80.
fn compute_capability(name: &str) -> Result<u32> {
    let digits = name.strip_prefix("sm_").unwrap_or_default();
    let parsed = digits.parse();
    parsed.with_context(|| format!("{name} names no compute capability"))
}

/// The smallest Brotli stream of a text or of other bytes.
pub fn compressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let params = BrotliEncoderParams {
        quality: 11,
        lgwin: 24,
        size_hint: bytes.len(),
        ..BrotliEncoderParams::default()
    };
    let mut stream = Vec::new();
    brotli::BrotliCompress(&mut &*bytes, &mut stream, &params)?;
    Ok(stream)
}

/// The text in a Brotli stream.
fn decompressed(stream: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    brotli::BrotliDecompress(&mut &*stream, &mut text).ok()?;
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["sm_80", "sm_90"];

    #[test]
    fn images_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let lines: String = (0..500)
            .map(|i| format!("\tadd.s32 \t%r{i}, %r{};\n", i * i % 83))
            .collect();
        let texts = BTreeMap::from([
            ("sm_80".to_owned(), format!("{lines}\tret;\n")),
            ("sm_90".to_owned(), lines),
        ]);
        write(folder.path(), &texts).unwrap();
        assert_eq!(read(folder.path(), NAMES).unwrap(), texts);
        // One is a patch of the other.
        let alone = read(folder.path(), ["sm_80"]).unwrap_err().to_string();
        assert!(alone.contains("sm_80.br"), "{alone}");
        let bytes = |name| fs::metadata(folder.path().join(file(name))).unwrap().len();
        assert!(bytes("sm_80") < 100 && bytes("sm_90") > 100);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = read(folder.path(), NAMES).unwrap_err();
        assert!(format!("{missing:#}").contains("sm_80.br"), "{missing:#}");
        let texts = BTreeMap::from(NAMES.map(|name| (name.to_owned(), "\tret;\n".to_owned())));
        write(folder.path(), &texts).unwrap();
        fs::write(folder.path().join("sm_90.br"), b"\x15no stream").unwrap();
        let damaged = read(folder.path(), ["sm_90"]).unwrap_err().to_string();
        assert_eq!(damaged, "sm_90.br is damaged");
        let unnamed = write(folder.path(), &BTreeMap::new())
            .unwrap_err()
            .to_string();
        assert_eq!(unnamed, "no sm_90");
    }
}
