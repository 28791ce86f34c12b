//! Kernels for tests, and the PTX generated from them: no shipped crate has them.
//!
//! As `luge-gpu-kernels`: `ptx/` holds what `cargo xtask ptx` makes of this crate.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod dsl;
pub mod fields;

/// This crate's kernels, for the device.
#[cfg(not(target_arch = "nvptx64"))]
pub static MODULE: luge_kernel::host::KernelModule = luge_kernel::host::KernelModule {
    name: "luge-test-kernels",
    images: &IMAGES,
};

#[cfg(not(target_arch = "nvptx64"))]
static IMAGES: [luge_kernel::host::PtxImage; 2] = {
    use luge_kernel::host::{Ptx, PtxImage};
    [
        PtxImage {
            sm: 80,
            ptx: Ptx::compressed(include_bytes!("../ptx/sm_80.br")),
            binaries: None,
        },
        PtxImage {
            sm: 90,
            ptx: Ptx::compressed(include_bytes!("../ptx/sm_90.br")),
            binaries: None,
        },
    ]
};
