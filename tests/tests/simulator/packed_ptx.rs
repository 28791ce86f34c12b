//! PTX is packed by `cargo xtask ptx` and read by `luge_kernel::host`: what comes out is what went in.

use brotli::enc::BrotliEncoderParams;
use luge_kernel::host::{Binaries, KernelModule, Ptx, PtxImage};
use proptest::prelude::*;

#[path = "../../../xtask/src/pack.rs"]
mod pack;

/// A module with these packed images.
fn module(images: &[(u32, &str)]) -> KernelModule {
    let images = images.iter().map(|&(sm, packed)| {
        let params = BrotliEncoderParams {
            quality: 1,
            ..BrotliEncoderParams::default()
        };
        let mut stream = Vec::new();
        brotli::BrotliCompress(&mut packed.as_bytes(), &mut stream, &params).unwrap();
        PtxImage {
            sm,
            ptx: Ptx::compressed(stream.leak()),
            binaries: None,
        }
    });
    KernelModule {
        name: "packed",
        images: images.collect::<Vec<_>>().leak(),
    }
}

/// The text in a Brotli stream.
pub fn decompressed(stream: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    brotli::BrotliDecompress(&mut &*stream, &mut text).ok()?;
    String::from_utf8(text).ok()
}

/// The PTX of an image of the module.
fn read(module: &KernelModule, image: usize) -> Option<String> {
    let text = module.ptx(&module.images[image], decompressed)?;
    Some(text.read(text.as_packed())?.into_owned())
}

/// Lines as they stand in PTX, and some that do not.
fn line() -> impl Strategy<Value = String> {
    let register = || (prop::sample::select(vec!["r", "rd", "p", "fd"]), 0_u32..40);
    prop_oneof![
        8 => (register(), register())
            .prop_map(|((a, i), (b, j))| format!("\tadd \t%{a}{i}, %{b}{j};\n")),
        1 => Just("}\n".to_owned()),
        1 => Just("+3\n".to_owned()),
        1 => Just("=0 5\n".to_owned()),
        1 => Just("\tmov.u32 %r1, %tid.x; .reg .b32 %r<9>; % %%5 %SPL \u{e9}\n".to_owned()),
        1 => Just("@%p3 bra $L_7".to_owned()),
    ]
}

proptest! {
    #[test]
    fn packed_images_come_back(
        base in prop::collection::vec(line(), 0..60),
        own in prop::collection::vec(line(), 0..10),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 4),
    ) {
        // A text with runs of the base in other places, and lines of its own between them.
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(base.len() + 1)).collect();
        let run = |a: usize, b: usize| &base[a.min(b)..a.max(b)];
        let text = [run(cuts[0], cuts[1]), &own, run(cuts[2], cuts[3]), &own].concat().concat();
        let base = base.concat();
        let packed = [pack::whole(&base).unwrap(), pack::patch(&text, 90, &base).unwrap()];
        let module = module(&[(90, &packed[0]), (80, &packed[1])]);
        prop_assert_eq!(read(&module, 0), Some(base));
        prop_assert_eq!(read(&module, 1), Some(text));
    }
}

/// Lines in common are told by their place, wherever they stand.
#[test]
fn a_patch_is_short() {
    let lines: Vec<String> = (0..1000)
        .map(|i| format!("\tadd \t%r{i}, %r{};\n", i * i % 71))
        .collect();
    let base = lines.concat();
    let text = [&lines[500..], &["\tret;\n".to_owned()], &lines[..500]]
        .concat()
        .concat();
    let packed = pack::patch(&text, 90, &base).unwrap();
    assert!(packed.lines().count() < 20, "{packed}");
}

#[test]
fn comments_are_whole_lines() {
    let text = "//\n\tadd; // kept\n\t// begin\n}\n";
    assert_eq!(pack::without_comments(text), "\tadd; // kept\n}\n");
}

#[test]
fn what_cannot_be_packed_is_refused() {
    for text in ["%r007", "%r99999999999999999999", "%r-1"] {
        assert!(pack::whole(text).is_err(), "{text}");
        assert!(pack::patch("", 90, text).is_err(), "{text}");
        assert!(pack::patch(text, 90, "").is_err(), "{text}");
    }
}

#[test]
fn images_without_their_base_are_refused() {
    let whole = "whole\na\n";
    let patch = "patch 90\n=0 1\n";
    assert_eq!(
        read(&module(&[(90, whole), (80, patch)]), 1).as_deref(),
        Some("a\n")
    );
    assert_eq!(
        read(&module(&[(80, patch), (90, whole)]), 0).as_deref(),
        Some("a\n")
    );
    for (case, images) in [
        ("no base", [(86, whole), (80, patch)]),
        ("a patch of a patch", [(90, patch), (80, patch)]),
        ("no head", [(90, "a\n"), (80, patch)]),
        (
            "a run out of range",
            [(90, whole), (80, "patch 90\n=0 2\n")],
        ),
        ("a number below 0", [(90, whole), (80, "whole\n%r-1\n")]),
    ] {
        assert_eq!(read(&module(&images), 1), None, "{case}");
    }
    let plain = PtxImage {
        sm: 90,
        ptx: Ptx::Text("a\n"),
        binaries: None,
    };
    let images = vec![
        plain,
        PtxImage {
            sm: 80,
            ptx: Ptx::compressed(b"no stream"),
            binaries: None,
        },
    ]
    .leak();
    let module = KernelModule {
        name: "plain",
        images,
    };
    assert_eq!(read(&module, 0).as_deref(), Some("a\n"));
    assert_eq!(read(&module, 1), None);
}

/// What is read of an image that is whole, packed so.
fn numbered(packed: &str) -> Option<String> {
    read(&module(&[(90, &format!("whole\n{packed}"))]), 0)
}

/// What is read of an image that these runs make of another one.
fn patched(base: &str, runs: &str) -> Option<String> {
    let images = [format!("whole\n{base}"), format!("patch 90\n{runs}")];
    read(&module(&[(90, &images[0]), (80, &images[1])]), 1)
}

#[test]
fn numbers_are_sums_of_differences_by_class() {
    let packed = "add.s64 %rd7, %rd2, %rd-2;\nmov.u32 %r3, %tid.x; .reg .b32 %r<4>; @%p1 bra; 5 % %SPL %r0\n";
    let text =
        "add.s64 %rd7, %rd9, %rd7;\nmov.u32 %r3, %tid.x; .reg .b32 %r<4>; @%p1 bra; 5 % %SPL %r3\n";
    assert_eq!(numbered(packed).as_deref(), Some(text));
    assert_eq!(numbered("").as_deref(), Some(""));
    assert_eq!(
        numbered("%r5 }\n} %r5 %r-1\n}").as_deref(),
        Some("%r5 }\n} %r5 %r4\n}")
    );
    let largest = "%r18446744073709551615";
    assert_eq!(numbered(largest).as_deref(), Some(largest));
}

#[test]
fn numbers_out_of_range_are_refused() {
    for text in [
        "%r-1",
        "%r5 %r-6",
        "%r18446744073709551615 %r1",
        "%r18446744073709551616",
    ] {
        assert_eq!(numbered(text), None, "{text}");
    }
}

#[test]
fn a_patch_takes_lines_of_the_base_and_its_own() {
    let base = "a\nb\nc\nd";
    let runs = "=1 2\n+2\nx\n=9 9\n=-3 1\n=2 1\n";
    assert_eq!(patched(base, runs).as_deref(), Some("b\nc\nx\n=9 9\na\nd"));
    assert_eq!(patched(base, "").as_deref(), Some(""));
    assert_eq!(patched("", "+1\nlast").as_deref(), Some("last"));
}

#[test]
fn runs_that_do_not_fit_are_refused() {
    for runs in [
        "=0 5\n",
        "=5 0\n",
        "=-1 1\n",
        "=1 18446744073709551615\n",
        "=0\n",
        "=0 1",
        "=x 1\n",
        "+2\nx\n",
        "+-1\n",
        "a\n",
        "\n",
    ] {
        assert_eq!(patched("a\nb\nc\nd", runs), None, "{runs:?}");
    }
}

#[test]
fn the_first_line_says_what_follows() {
    let base = "whole\na\n";
    assert_eq!(read(&module(&[(90, base)]), 0).as_deref(), Some("a\n"));
    let of_patch = |packed| read(&module(&[(90, base), (80, packed)]), 1);
    assert_eq!(of_patch("patch 90\n=0 1\n").as_deref(), Some("a\n"));
    for packed in ["", "whole", "Whole\n", "patch\n", "patch x\n", "patch -1\n"] {
        assert_eq!(of_patch(packed), None, "{packed:?}");
    }
}

#[test]
fn binaries_are_read_up_to_the_first_that_is_not_whole() {
    let read = |unpacked: Option<&[u8]>| {
        let binaries = Binaries::compressed(b"stream");
        let decompress = |stream: &[u8]| {
            assert_eq!(stream, b"stream");
            unpacked.map(<[u8]>::to_vec)
        };
        let owned = |(name, binary): (&str, &[u8])| (name.to_owned(), binary.to_vec());
        let found: Vec<_> = binaries.all(decompress).map(owned).collect();
        // What is unpacked once is not unpacked again.
        let again = binaries.all(|_| panic!("unpacked twice")).map(owned);
        assert_eq!(again.collect::<Vec<_>>(), found);
        found
    };
    let [first, second] = [("lu", b"\n\0\n"), ("solve", b"1\n2")]
        .map(|(name, binary)| (name.to_owned(), binary.to_vec()));
    let whole = b"lu\n3\n\n\0\nsolve\n3\n1\n2";
    assert_eq!(read(Some(whole)), [first.clone(), second]);
    for damaged in [
        &whole[..whole.len() - 1],
        b"lu\n3\n\n\0\nsolve\nthree\n1\n2",
        b"lu\n3\n\n\0\nsolve",
        b"lu\n3\n\n\0\n\xff\n1\n1",
    ] {
        assert_eq!(
            read(Some(damaged)),
            std::slice::from_ref(&first),
            "{damaged:?}"
        );
    }
    assert_eq!(read(Some(b"")), []);
    assert_eq!(read(None), []);
}
