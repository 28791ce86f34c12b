//! Installs the C interface into a folder, builds the examples against it by pkg-config and by CMake, with the shared and with
//! the static library, and runs them. Each example measures its own solutions and fails if they are wrong.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use luge_testkit::process::run;
use tempfile::TempDir;

const C_EXAMPLES: [&str; 4] = ["first_solve", "newton", "saddle_point", "on_device"];
const CPP_EXAMPLES: [&str; 1] = ["poisson"];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn example(name: &str, ending: &str) -> PathBuf {
    folder().join("examples").join(name).with_extension(ending)
}

/// The folder that everything is installed in, once for all tests. It is moved after that: files find each other wherever
/// they are.
fn prefix() -> &'static Path {
    static INSTALLED: OnceLock<TempDir> = OnceLock::new();
    let folder = INSTALLED.get_or_init(|| {
        // Cargo has built the libraries for these tests, and left them beside them.
        let tests = std::env::current_exe().unwrap();
        let built = tests.parent().unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let first = temporary.path().join("first");
        run(Command::new(env!("CARGO"))
            .current_dir(folder())
            .args([
                "run",
                "--quiet",
                "--package",
                "xtask",
                "--",
                "capi",
                "--built",
            ])
            .arg(built)
            .arg("--prefix")
            .arg(&first));
        std::fs::rename(first, temporary.path().join("prefix")).unwrap();
        temporary
    });
    Box::leak(folder.path().join("prefix").into_boxed_path())
}

fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let output = run(Command::new("pkg-config")
        .args(arguments)
        .arg("luge")
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")));
    output.split_whitespace().map(str::to_owned).collect()
}

/// What an example printed.
fn run_example(program: &Path) -> String {
    run(Command::new(program).env("LD_LIBRARY_PATH", prefix().join("lib")))
}

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

#[test]
fn examples_run_by_pkg_config() {
    assert_eq!(pkg_config(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let temporary = tempfile::tempdir().unwrap();
    let compile = |compiler: &str, standard: &str, source: PathBuf, flags: &[String]| {
        let program = temporary.path().join(source.file_stem().unwrap());
        run(Command::new(compiler)
            .arg(format!("-std={standard}"))
            .args(WARNINGS)
            .arg(source)
            .args(flags)
            .args(["-lm", "-o"])
            .arg(&program));
        run_example(&program)
    };
    let shared = pkg_config(&["--cflags", "--libs"]);
    let printed = C_EXAMPLES.map(|name| compile("cc", "c99", example(name, "c"), &shared));
    assert!(printed[0].contains("determinant 114"), "{}", printed[0]);
    assert!(printed[1].contains("new pivots 0 times"), "{}", printed[1]);
    assert!(printed[2].contains("300 positive, 100 negative, 0 zero"));
    // It says itself that it is skipped where there is no GPU.
    let on_device = [
        "10 refactorizations on the device",
        "skipped: the device cannot be used",
    ];
    assert!(
        on_device.iter().any(|begin| printed[3].starts_with(begin)),
        "{}",
        printed[3]
    );
    println!("on_device: {}", printed[3].trim());
    let printed = CPP_EXAMPLES.map(|name| compile("c++", "c++17", example(name, "cpp"), &shared));
    assert!(printed[0].contains("refused: the matrix is not positive definite"));
    // The static library, and nothing of the shared one.
    let mut flags = pkg_config(&["--cflags", "--libs", "--static"]);
    for flag in &mut flags {
        if flag == "-lluge" {
            *flag = "-l:libluge.a".to_owned();
        }
    }
    let printed = compile("cc", "c99", example("first_solve", "c"), &flags);
    assert!(printed.contains("determinant 114"), "{printed}");
    let program = temporary.path().join("first_solve");
    let needed = run(Command::new("readelf").arg("-d").arg(program));
    assert!(!needed.contains("libluge"), "{needed}");
}

#[test]
fn programs_ask_for_the_library_of_this_abi() {
    let library = prefix().join("lib/libluge.so");
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    let expected = format!(
        "[libluge.so.{}.{}]",
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR")
    );
    let soname = dynamic.lines().find(|line| line.contains("(SONAME)"));
    assert!(
        soname.is_some_and(|line| line.contains(&expected)),
        "{dynamic}"
    );
    // Nothing but the interface is visible.
    let symbols = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(&library));
    let names: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    let others: Vec<&&str> = names
        .iter()
        .filter(|name| !name.starts_with("luge_"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let header = std::fs::read_to_string(prefix().join("include/luge.h")).unwrap();
    for name in &names {
        assert!(
            header.contains(&format!("{name}(")),
            "{name} is not declared"
        );
    }
    assert!(names.len() > 50, "{names:?}");
}

#[test]
fn examples_run_by_cmake() {
    if Command::new("cmake").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no cmake, so nothing is known of find_package(Luge)");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut project = String::from(
        "cmake_minimum_required(VERSION 3.16)\nproject(examples C CXX)\n\
         find_package(Luge 0.1 REQUIRED)\n\
         find_package(Luge 99 QUIET)\nif(Luge_FOUND)\n  message(FATAL_ERROR \"99 is not there\")\nendif()\n\
         find_package(Luge REQUIRED)\n",
    );
    let mut programs = Vec::new();
    let sources = C_EXAMPLES.map(|name| (name, "c"));
    for (name, ending) in sources
        .into_iter()
        .chain(CPP_EXAMPLES.map(|name| (name, "cpp")))
    {
        let source = example(name, ending);
        for target in ["luge", "luge_static"] {
            // One with the static library is enough: it is large.
            if target == "luge_static" && name != "poisson" {
                continue;
            }
            let program = format!("{name}_{target}");
            project += &format!(
                "add_executable({program} \"{}\")\ntarget_link_libraries({program} PRIVATE Luge::{target} m)\n",
                source.display()
            );
            programs.push(program);
        }
    }
    std::fs::write(temporary.path().join("CMakeLists.txt"), project).unwrap();
    let build = temporary.path().join("build");
    run(Command::new("cmake")
        .args(["-DCMAKE_CXX_STANDARD=17", "-S"])
        .arg(temporary.path())
        .arg("-B")
        .arg(&build)
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display())));
    run(Command::new("cmake")
        .arg("--build")
        .arg(&build)
        .arg("--parallel"));
    for program in programs {
        let printed = run_example(&build.join(&program));
        assert!(!printed.is_empty(), "{program}");
    }
}
