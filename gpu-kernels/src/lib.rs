//! The GPU kernels of Luge, and the PTX generated from them.
//!
//! One module a phase; the kernels are ordinary Rust against [`luge_kernel`], which is this crate's
//! only dependency. `ptx/` holds the PTX that `cargo xtask ptx` makes of this crate, packed
//! and compressed, with `manifest.json` saying from what; it is committed, so that building Luge takes neither a CUDA
//! toolkit nor a compiler that knows nvptx. On the simulator the same functions run as they are.
//!
//! Kernels are launched through the module beside each function (`fill2_count::launch`), which
//! checks what can be checked; the rest are the preconditions in the kernel's documentation.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod arithmetic;
mod bits;
pub mod filled;
pub mod frontal;
pub mod grid;
pub mod levelize;
pub mod long;
mod maxima;
pub mod memory;
pub mod numeric;
pub mod refine;
pub mod scan;
mod search;
pub mod solve;
pub mod sort;
pub mod supernode;
pub mod symbolic;
pub mod transpose;

/// This crate's kernels, for the device: an image serves its compute capability and later ones.
#[cfg(not(target_arch = "nvptx64"))]
pub static MODULE: luge_kernel::host::KernelModule = luge_kernel::host::KernelModule {
    name: "luge-gpu-kernels",
    images: &IMAGES,
};

/// Each is decompressed once a process, whichever device asks for it.
#[cfg(all(feature = "ptx", not(target_arch = "nvptx64")))]
static IMAGES: [luge_kernel::host::PtxImage; 2] = {
    use luge_kernel::host::{Binaries, Ptx, PtxImage};
    [
        PtxImage {
            sm: 80,
            ptx: Ptx::compressed(include_bytes!("../ptx/sm_80.br")),
            binaries: None,
        },
        PtxImage {
            sm: 90,
            ptx: Ptx::compressed(include_bytes!("../ptx/sm_90.br")),
            binaries: Some(Binaries::compressed(include_bytes!("../ptx/sm_90.bin.br"))),
        },
    ]
};

#[cfg(not(any(feature = "ptx", target_arch = "nvptx64")))]
static IMAGES: [luge_kernel::host::PtxImage; 0] = [];
