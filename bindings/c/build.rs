//! The name by which programs look for the shared library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let version = |part| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
    let (major, minor) = (version("MAJOR"), version("MINOR"));
    // Before version 1 each minor version may change the ABI.
    let abi = if major == "0" {
        format!("{major}.{minor}")
    } else {
        major
    };
    match target.as_str() {
        "linux" | "freebsd" | "android" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libluge.so.{abi}");
        }
        "macos" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libluge.{abi}.dylib")
        }
        _ => {}
    }
}
