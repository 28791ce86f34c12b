//! Version and features of the library.

use std::ffi::c_char;

/// Major version of this header. While it is 0, a new minor version may change the ABI.
pub const LUGE_VERSION_MAJOR: i32 = 0;
/// Minor version of this header.
pub const LUGE_VERSION_MINOR: i32 = 1;
/// Patch version of this header.
pub const LUGE_VERSION_PATCH: i32 = 0;

/// The version of the library that is linked, 10000 * major + 100 * minor + patch.
#[unsafe(no_mangle)]
pub extern "C" fn luge_version() -> i32 {
    10000 * LUGE_VERSION_MAJOR + 100 * LUGE_VERSION_MINOR + LUGE_VERSION_PATCH
}

/// The version of the library that is linked, as text: "0.1.0". The text belongs to the library and is always valid.
#[unsafe(no_mangle)]
pub extern "C" fn luge_version_string() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// 1 if the library was built with the code for NVIDIA GPUs, otherwise 0. Whether there is a driver and a GPU,
/// luge_solver_create tells.
#[unsafe(no_mangle)]
pub extern "C" fn luge_has_gpu() -> i32 {
    i32::from(cfg!(feature = "gpu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_version_of_the_package() {
        let [major, minor, patch] = [LUGE_VERSION_MAJOR, LUGE_VERSION_MINOR, LUGE_VERSION_PATCH];
        assert_eq!(
            format!("{major}.{minor}.{patch}"),
            env!("CARGO_PKG_VERSION")
        );
    }
}
