//! A program that calls everything that klu.h declares, with libklu and with this library in its place.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use luge_testkit::process::run;

use crate::api::{compiler, klu, ours};

/// Builds the program against a library, by the name of its file.
fn build(program: &Path, library: &str, folder: &Path) -> Option<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/klu_demo.c");
    run(compiler()?
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror"])
        .arg(source)
        .arg("-o")
        .arg(program)
        .arg("-L")
        .arg(folder)
        .args([&format!("-l:{library}"), "-lm"]));
    Some(())
}

#[test]
fn a_program_prints_the_same_with_either_library() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("lib");
    std::fs::create_dir(&here).unwrap();
    // By its own name, and by that of KLU, which programs that are linked to KLU look for.
    let own = format!(
        "libluge_klu.so.{}.{}",
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR")
    );
    for name in [&own, "libklu.so.1"] {
        symlink(ours(), here.join(name)).unwrap();
    }
    let program = folder.path().join("with_luge");
    if build(&program, &own, &here).is_none() {
        return;
    }
    let printed = run(Command::new(&program).env("LD_LIBRARY_PATH", &here));
    assert!(printed.ends_with("\n0 wrong\n"), "{printed}");
    assert_eq!(printed.matches("solve 1: 1.000000 2.000000").count(), 16);
    if klu::<i32>(false).is_none() {
        return;
    }
    let program = folder.path().join("with_klu");
    build(&program, "libklu.so.1", Path::new("/usr/lib"));
    assert_eq!(run(&mut Command::new(&program)), printed);
    let preloaded = run(Command::new(&program).env("LD_PRELOAD", ours()));
    assert_eq!(preloaded, printed);
    let exchanged = run(Command::new(&program).env("LD_LIBRARY_PATH", &here));
    assert_eq!(exchanged, printed);
}
