//! The examples of SUNDIALS that use KLU, with KLU and with this library preloaded: what they print is the same, letter for letter.
//!
//! The outputs that come with the examples are from another machine. Those of the stiff kinetics differ in the last steps with libklu
//! itself, since there the size of a step hangs on the last bit.

use std::path::PathBuf;
use std::process::Command;

use luge_testkit::process::run;

use crate::api::{compiler, klu, ours};

/// Library of SUNDIALS, folder, name, arguments, and a text that the output has.
const EXAMPLES: [(&str, &str, &str, &[&str], &str); 12] = [
    (
        "cvode",
        "cvode/serial",
        "cvRoberts_klu",
        &[],
        "3-species kinetics",
    ),
    (
        "cvode",
        "cvode/serial",
        "cvRoberts_block_klu",
        &[],
        "3-species kinetics",
    ),
    (
        "cvodes",
        "cvodes/serial",
        "cvsRoberts_klu",
        &[],
        "3-species kinetics",
    ),
    (
        "cvodes",
        "cvodes/serial",
        "cvsRoberts_ASAi_klu",
        &[],
        "dG/dp",
    ),
    (
        "cvodes",
        "cvodes/serial",
        "cvsRoberts_FSA_klu",
        &["-sensi", "stg1", "t"],
        "Sensitivity 3",
    ),
    ("ida", "ida/serial", "idaHeat2D_klu", &[], "Heat equation"),
    ("ida", "ida/serial", "idaRoberts_klu", &[], "Robertson"),
    ("idas", "idas/serial", "idasRoberts_klu", &[], "Robertson"),
    ("idas", "idas/serial", "idasRoberts_ASAi_klu", &[], "dG/dp"),
    (
        "idas",
        "idas/serial",
        "idasRoberts_FSA_klu",
        &["-sensi", "stg", "t"],
        "Sensitivity 3",
    ),
    ("kinsol", "kinsol/serial", "kinFerTron_klu", &[], "Ferraris"),
    (
        "arkode",
        "arkode/C_serial",
        "ark_brusselator1D_klu",
        &[],
        "Brusselator",
    ),
];

/// Examples whose output is the same on all machines that were tried.
const AS_EXPECTED: [&str; 3] = ["idaHeat2D_klu", "kinFerTron_klu", "ark_brusselator1D_klu"];

/// The words of a text: how wide its columns are does not matter.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// A prefix below which a file is: `LUGE_SUNDIALS`, or that of the system.
fn prefix(file: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("LUGE_SUNDIALS").map(PathBuf::from);
    let folders = folders.into_iter().chain([PathBuf::from("/usr")]);
    let mut there = folders.filter(|folder| folder.join(file).exists());
    there.next()
}

#[test]
fn examples_print_the_same() {
    let examples = "share/doc/libsundials-dev/examples";
    let Some(prefix) = prefix(&format!("{examples}/cvode/serial/cvRoberts_klu.c")) else {
        eprintln!("SKIPPED: there are no examples of SUNDIALS (Debian: libsundials-dev)");
        return;
    };
    let (Some(_), Some(_)) = (compiler(), klu::<i64>(false)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let libraries = prefix
        .join("lib")
        .join(format!("{}-linux-gnu", std::env::consts::ARCH));
    for (library, subfolder, name, arguments, text) in EXAMPLES {
        let program = folder.path().join(name);
        let sources = prefix.join(examples).join(subfolder);
        let source = sources.join(name).with_extension("c");
        let mut compiler = compiler().unwrap();
        run(compiler
            .arg("-w")
            .arg("-isystem")
            .arg(prefix.join("include"))
            .arg(source)
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(&libraries)
            .arg(format!("-lsundials_{library}"))
            .args(["-lsundials_nvecserial", "-lsundials_sunmatrixsparse"])
            .args([
                "-lsundials_sunlinsolklu",
                "-Wl,--allow-shlib-undefined",
                "-lm",
            ]));
        let printed = |preload: Option<PathBuf>| {
            let mut command = Command::new(&program);
            command
                .args(arguments)
                .current_dir(folder.path())
                .env("LD_LIBRARY_PATH", &libraries);
            if let Some(preload) = preload {
                command.env("LD_PRELOAD", preload);
            }
            run(&mut command)
        };
        let with_klu = printed(None);
        assert!(with_klu.contains(text), "{name}: {with_klu}");
        assert_eq!(printed(Some(ours())), with_klu, "{name}");
        if AS_EXPECTED.contains(&name) {
            let expected = sources.join(name).with_extension("out");
            let expected = std::fs::read_to_string(expected).unwrap();
            assert_eq!(words(&with_klu), words(&expected), "{name}");
        }
    }
}
