//! The header: generated from the sources, and clean C and C++.

use std::path::{Path, PathBuf};
use std::process::Command;

/// In the order in which a reader wants them.
const SOURCES: [&str; 9] = [
    "version", "status", "options", "matrix", "solver", "report", "factors", "solve", "device",
];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> PathBuf {
    folder().join("include/luge.h")
}

fn generated() -> String {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).unwrap();
    let builder = SOURCES
        .iter()
        .map(|source| folder().join("src").join(source).with_extension("rs"))
        .fold(
            cbindgen::Builder::new().with_config(config),
            |builder, source| builder.with_src(source),
        );
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

/// What the environment variable that renews the header is called.
const RENEW: &str = "LUGE_RENEW_HEADER";

#[test]
fn the_header_is_what_the_sources_say() {
    let generated = generated();
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(header(), &generated).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(header()).unwrap();
    let differs = committed
        .lines()
        .zip(generated.lines())
        .position(|(a, b)| a != b);
    assert!(
        committed == generated,
        "include/luge.h is not what the sources say, from line {} on; renew it by\n  \
         {RENEW}=1 cargo test -p luge-c --test header",
        1 + differs.unwrap_or(committed.lines().count().min(generated.lines().count()))
    );
}

#[test]
fn every_exported_function_is_declared_and_documented() {
    let header = std::fs::read_to_string(header()).unwrap();
    let mut functions = 0;
    for source in SOURCES {
        let path = folder().join("src").join(source).with_extension("rs");
        let text = std::fs::read_to_string(path).unwrap();
        for part in text.split("#[unsafe(no_mangle)]").skip(1) {
            let signature = part.trim_start();
            let name = signature.split("fn ").nth(1).unwrap();
            let name = &name[..name.find('(').unwrap()];
            let at = header
                .find(&format!("{name}("))
                .unwrap_or_else(|| panic!("{name}"));
            let before = header[..at].rfind("*/").unwrap();
            let between = &header[before + 2..at];
            assert!(
                !between.contains(';'),
                "{name} has no documentation of its own in the header"
            );
            functions += 1;
        }
    }
    let begins = ["luge_status luge_", "int32_t luge_", "const char *luge_"];
    let declares = |line: &&str| begins.iter().any(|begin| line.starts_with(begin));
    let declared = header.lines().filter(declares).count();
    assert_eq!(functions, declared, "the header declares others, too");
    assert!(functions > 40, "{functions}");
}

/// Compiles the header alone, and with the wrapper for C++.
#[test]
fn the_header_is_clean_c_and_cpp() {
    let temporary = tempfile::tempdir().unwrap();
    let compile = |compiler: &str, standard: &str, name: &str, text: &str| {
        let source = temporary.path().join(name);
        std::fs::write(&source, text).unwrap();
        let compiled = Command::new(compiler)
            .args([
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-Wconversion",
                "-c",
            ])
            .arg(format!("-std={standard}"))
            .arg("-I")
            .arg(folder().join("include"))
            .arg(&source)
            .arg("-o")
            .arg(temporary.path().join("out.o"))
            .output()
            .unwrap_or_else(|error| panic!("{compiler} does not start: {error}"));
        assert!(
            compiled.status.success(),
            "{compiler} -std={standard}:\n{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
    };
    let plain = "#include <luge.h>\n#include <luge.h>\nint luge_test(void);\n\
                 int luge_test(void) { return luge_version() == LUGE_VERSION_MAJOR ? LUGE_OK : LUGE_ERROR_NULL; }\n";
    for standard in ["c99", "c11"] {
        compile("cc", standard, "plain.c", plain);
    }
    for standard in ["c++11", "c++17"] {
        compile("c++", standard, "plain.cpp", plain);
    }
    let wrapper =
        "#include <luge.hpp>\nint luge_test();\nint luge_test() { return luge::version(); }\n";
    for standard in ["c++17", "c++20"] {
        compile("c++", standard, "wrapper.cpp", wrapper);
    }
}
