//! The name by which programs look for the shared library: `LUGE_KLU_SONAME`, as `cargo xtask klu` sets it, or one that is ours.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LUGE_KLU_SONAME");
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if !matches!(target.as_str(), "linux" | "freebsd" | "android") {
        return;
    }
    let version = |part| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
    // Before version 1 each minor version may change what is there beside KLU's ABI.
    let own = match version("MAJOR").as_str() {
        "0" => format!("libluge_klu.so.0.{}", version("MINOR")),
        major => format!("libluge_klu.so.{major}"),
    };
    let soname = std::env::var("LUGE_KLU_SONAME").unwrap_or(own);
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
}
