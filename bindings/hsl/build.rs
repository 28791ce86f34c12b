//! Keeps the library in the process once it is loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Ipopt closes the library with each of its solvers; threads that the library started, and what it keeps for arrays that
    // are still there, must outlive that.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
