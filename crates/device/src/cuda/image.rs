//! PTX cut into its kernels, so that the driver compiles no more than is asked for.
//!
//! LLVM writes an entry as lines from `.visible .entry NAME(` to a `}`, both at the start of a line. Everything else
//! (version, target, shared memory, functions that entries call) is kept for each of them; what no entry uses
//! costs nothing.

use std::collections::HashMap;
use std::ffi::{CString, NulError};
use std::io::Read;

use brotli_decompressor::Decompressor;
use luge_kernel::host::PtxText;

/// What is read of a stream at a time, in bytes.
const BUFFER: usize = 1 << 16;

/// Why an entry cannot be cut out of an image.
#[derive(Debug, thiserror::Error)]
pub(super) enum CutError {
    /// The driver takes a text that ends with a NUL.
    #[error("the PTX contains a NUL")]
    Nul(#[from] NulError),
    /// The image was not packed from PTX.
    #[error("the PTX has numbers of registers out of range")]
    Numbers,
}

/// A PTX text and where its entries are.
#[derive(Debug)]
pub(super) struct Image<'a> {
    ptx: PtxText<'a>,
    /// What stands before the entry of the same number; at last, what stands behind all of them.
    outside: Vec<&'a str>,
    /// The entries in the order of the text.
    entries: Vec<&'a str>,
    by_name: HashMap<&'a str, usize>,
}

impl<'a> Image<'a> {
    /// Finds the entries in one pass over the text.
    pub(super) fn new(ptx: PtxText<'a>) -> Self {
        let mut image = Self {
            ptx,
            outside: Vec::new(),
            entries: Vec::new(),
            by_name: HashMap::new(),
        };
        // Where the text begins that is not assigned yet, and the entry it belongs to.
        let (mut begin, mut within) = (0, None);
        let mut end = 0;
        let ptx = ptx.as_packed();
        for line in ptx.split_inclusive('\n') {
            let start = end;
            end += line.len();
            match within {
                None => {
                    if let Some(name) = entry_name(line) {
                        image.outside.push(&ptx[begin..start]);
                        (begin, within) = (start, Some(name));
                    }
                }
                Some(name) if line.starts_with('}') => {
                    image.add(name, &ptx[begin..end]);
                    (begin, within) = (end, None);
                }
                Some(_) => {}
            }
        }
        match within {
            // The driver tells what is wrong with an entry that does not end.
            Some(name) => {
                image.add(name, &ptx[begin..]);
                image.outside.push("");
            }
            None => image.outside.push(&ptx[begin..]),
        }
        image
    }

    fn add(&mut self, name: &'a str, text: &'a str) {
        self.by_name.insert(name, self.entries.len());
        self.entries.push(text);
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Names of the entries and their numbers, in no order.
    pub(super) fn names(&self) -> impl Iterator<Item = (&'a str, usize)> {
        self.by_name.iter().map(|(&name, &entry)| (name, entry))
    }

    /// The number of the entry of this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Bytes of one entry alone, as it is kept.
    pub(super) fn entry_bytes(&self, entry: usize) -> usize {
        self.entries[entry].len()
    }

    /// The text without the other entries.
    pub(super) fn cut(&self, entry: usize) -> Result<CString, CutError> {
        let (before, behind) = self.outside.split_at(entry + 1);
        let bytes: usize = self.outside.iter().map(|piece| piece.len()).sum();
        // Room for the NUL too.
        let mut text = Vec::with_capacity(bytes + self.entries[entry].len() + 1);
        for piece in before.iter().chain([&self.entries[entry]]).chain(behind) {
            let piece = self.ptx.read(piece).ok_or(CutError::Numbers)?;
            text.extend_from_slice(piece.as_bytes());
        }
        Ok(CString::new(text)?)
    }
}

/// The bytes in a Brotli stream.
pub(super) fn decompressed_bytes(stream: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    Decompressor::new(stream, BUFFER)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

/// The text in a Brotli stream.
pub(super) fn decompressed(stream: &[u8]) -> Option<String> {
    // Committed PTX, packed, shrinks to a twelfth.
    let mut text = String::with_capacity(12 * stream.len());
    Decompressor::new(stream, BUFFER)
        .read_to_string(&mut text)
        .ok()?;
    tracing::debug!(bytes = text.len(), "PTX decompressed");
    Some(text)
}

/// The name of the entry that begins with this line.
fn entry_name(line: &str) -> Option<&str> {
    // Most lines are instructions, which are indented.
    if !line.starts_with('.') {
        return None;
    }
    let linked = [".visible ", ".weak "]
        .iter()
        .find_map(|linkage| line.strip_prefix(linkage));
    let name = linked.unwrap_or(line).strip_prefix(".entry ")?.trim_start();
    let end = name
        .find(|c: char| c == '(' || c.is_whitespace())
        .unwrap_or(name.len());
    Some(&name[..end])
}

#[cfg(test)]
mod tests {
    use luge_kernel::host::{KernelModule, Ptx, PtxImage};

    use super::*;

    const PTX: &str = "//
// Generated by LLVM NVPTX Back-End
//

.version 7.0
.target sm_80
.address_size 64

\t// .globl\tsort_rows
.shared .align 16 .b8 __luge_shared_sort_rows_0[8192];
.extern .shared .align 16 .b8 __luge_dynamic_shared[];

.visible .entry sort_rows(
\t.param .u64 sort_rows_param_0
)
.maxntid 256, 1, 1
{
\t{ // a scope
\tadd.u32 \t%r1, %r1, 1;
\t}
\tret;

}
\t// .globl\tsort_rows_u64
.visible .entry sort_rows_u64(
)
{
\tadd.u64 \t%rd1, %rd1, 2;
\tret;
}
.func helper()
{
\tret;
}
.entry lu_fronts_f64()
{
\tadd.f64 \t%fd1, %fd1, %fd2;
}
.weak .entry lu_fronts
()
{
\tmul.f64 \t%fd1, %fd1, %fd2;
}
// the end
";

    /// What marks the body of each entry.
    const MARKS: [(&str, &str); 4] = [
        ("sort_rows", "add.u32"),
        ("sort_rows_u64", "add.u64"),
        ("lu_fronts_f64", "add.f64"),
        ("lu_fronts", "mul.f64"),
    ];

    fn cut(ptx: &str, name: &str) -> String {
        let image = Image::new(PtxText::plain(ptx));
        let entry = image.find(name).unwrap();
        image.cut(entry).unwrap().into_string().unwrap()
    }

    #[test]
    fn one_entry_is_left_and_all_that_is_outside() {
        assert_eq!(Image::new(PtxText::plain(PTX)).len(), MARKS.len());
        // The text without any entry, made by hand.
        let outside: Vec<&str> = {
            let lines: Vec<&str> = PTX.lines().collect();
            let line = |text| lines.iter().position(|&l| l == text).unwrap();
            [
                &lines[..line(".visible .entry sort_rows(")],
                &lines[line("\t// .globl\tsort_rows_u64")..line(".visible .entry sort_rows_u64(")],
                &lines[line(".func helper()")..line(".entry lu_fronts_f64()")],
                &lines[line("// the end")..],
            ]
            .concat()
        };
        for (name, mark) in MARKS {
            let text = cut(PTX, name);
            for (other, its_mark) in MARKS {
                assert_eq!(
                    text.contains(its_mark),
                    its_mark == mark,
                    "{other} in {name}"
                );
            }
            assert_eq!(text.matches(".entry ").count(), 1, "{name}");
            let mut left = text.lines();
            for line in &outside {
                assert!(left.any(|l| l == *line), "{line:?} is missing from {name}");
            }
            let entry_lines = text.lines().count() - outside.len();
            let image = Image::new(PtxText::plain(PTX));
            let entry = image.entries[image.find(name).unwrap()];
            assert_eq!(entry_lines, entry.lines().count(), "{name}");
            assert!(text.contains(entry), "{name} is whole");
        }
    }

    #[test]
    fn the_pieces_are_the_text() {
        for ptx in [
            PTX,
            "",
            ".version 7.0",
            ".entry a()\n{",
            "\n\n.entry a(\n)\n{\n}",
        ] {
            let image = Image::new(PtxText::plain(ptx));
            assert_eq!(image.outside.len(), image.entries.len() + 1, "{ptx:?}");
            let mut whole = String::new();
            for (i, outside) in image.outside.iter().enumerate() {
                whole += outside;
                whole += image.entries.get(i).unwrap_or(&"");
            }
            assert_eq!(whole, ptx);
        }
    }

    #[test]
    fn names_are_compared_whole() {
        let image = Image::new(PtxText::plain(PTX));
        for name in [
            "sort",
            "sort_rows_",
            "sort_rows_u6",
            "lu_fronts_f",
            "helper",
            "",
            "(",
        ] {
            assert_eq!(image.find(name), None, "{name}");
        }
        let mut names: Vec<_> = image.names().collect();
        names.sort_by_key(|&(_, entry)| entry);
        assert_eq!(
            names,
            MARKS.map(|(name, _)| (name, image.find(name).unwrap()))
        );
    }

    /// A Brotli stream of this text.
    fn compressed(text: &str) -> Vec<u8> {
        let mut stream = Vec::new();
        let params = brotli::enc::BrotliEncoderParams::default();
        brotli::BrotliCompress(&mut text.as_bytes(), &mut stream, &params).unwrap();
        stream
    }

    #[test]
    fn an_entry_of_a_packed_image_has_its_own_numbers() {
        let packed = "whole\n.version 7.0\n.entry a()\n{\n%r5 %r1\n}\n.entry b()\n{\n%r2 %r-1\n}\n.entry c()\n{\n%r-1\n}\n";
        let image = PtxImage {
            sm: 80,
            ptx: Ptx::compressed(compressed(packed).leak()),
            binaries: None,
        };
        let module = KernelModule {
            name: "packed",
            images: vec![image].leak(),
        };
        let image = Image::new(module.ptx(&module.images[0], decompressed).unwrap());
        let cut = |name| image.cut(image.find(name).unwrap());
        let b = c".version 7.0\n.entry b()\n{\n%r2 %r1\n}\n";
        assert_eq!(cut("b").unwrap().as_c_str(), b);
        assert!(matches!(cut("c"), Err(CutError::Numbers)));
    }

    #[test]
    fn compressed_text_comes_back_and_anything_else_does_not() {
        let stream = compressed(PTX);
        assert_eq!(decompressed(&stream).as_deref(), Some(PTX));
        assert_eq!(decompressed(&stream[..stream.len() - 1]), None);
        assert_eq!(decompressed(b"no stream"), None);
        assert_eq!(decompressed(b""), None);
    }

    #[test]
    fn a_nul_is_refused() {
        let image = Image::new(PtxText::plain(".version 7.0 \0\n.entry a()\n{\n}\n"));
        assert!(matches!(image.cut(0), Err(CutError::Nul(_))));
    }
}
