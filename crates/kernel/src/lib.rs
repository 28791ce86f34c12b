//! The kernel DSL of Luge: PTX on nvptx64, a checking simulator on the host.
//!
//! A kernel is one ordinary Rust function under [`kernel`](macro@kernel), written against
//! [`prelude`]. The names follow rust-cuda's `cuda_std`. Two machines run it:
//!
//! * compiled for `nvptx64-nvidia-cuda`, the attribute makes a PTX entry point and everything here
//!   is an intrinsic or a line of inline PTX;
//! * compiled for any other target, the attribute makes a typed launcher (see [`host`]) and a
//!   simulated kernel (see [`sim`]): each thread is a coroutine, each access is checked.
//!
//! ```
//! use luge_kernel::prelude::*;
//!
//! # pub static MODULE: luge_kernel::host::KernelModule =
//! #     luge_kernel::host::KernelModule { name: "doc", images: &[] };
//! /// y := a·x + y, one element an iteration of a grid-stride loop.
//! #[kernel(T = [f32, f64], require(x.len() == y.len()))]
//! pub unsafe fn axpy<T: Real>(a: T, x: Global<T>, y: GlobalMut<T>) {
//!     for i in thread::grid_stride(y.len()) {
//!         y.set(i, a.mul_add(x.get(i), y.get(i)));
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! # Types
//!
//! | trait | types | what they have |
//! |---|---|---|
//! | [`Element`](mem::Element) | `u32` `i32` `u64` `i64` `f32` `f64` `Complex<f32>` `Complex<f64>` | parameters, global and shared memory, shuffles |
//! | [`AtomicElement`](mem::AtomicElement) | all but the complex ones | order; [`atomic`] accesses |
//! | [`IntElement`](mem::IntElement) | `u32` `i32` `u64` `i64` | all atomics |
//! | [`Field`](math::Field) | `f32` `f64` `Complex<f32>` `Complex<f64>` | arithmetic, magnitudes; [`warp::reduce_sum`] |
//! | [`Real`](math::Real) | `f32` `f64` | what orders and measures numbers |
//!
//! `Complex` is that of the crate `num_complex`, so what the host has is uploaded as it is. An element is one access,
//! also where it is two words: `ld.v2` and `st.v2` on the chip, one element to the simulator. Complex numbers have no
//! atomics, and an attempt does not compile.
//!
//! # What orders what
//!
//! The order between the accesses of different threads is that of the chip, and nothing more:
//!
//! | edge | orders |
//! |---|---|
//! | [`thread::sync_threads`] and its counting kin | all threads of the block |
//! | a warp collective ([`warp`], [`matrix`]) | the lanes of its mask |
//! | release → acquire on one location (or [`fence::fence`] with relaxed atomics) | the two threads, when the scope of each side includes the other |
//! | the end of a launch | everything after it on the same stream |
//!
//! # Features
//!
//! `simulator` (on by default): the simulator runs kernels. Without it a launch on the simulator is refused, and programs
//! are smaller by the code of all kernels and by a crate for coroutines.
//!
//! # Architecture invariant
//!
//! This is the only crate with intrinsics or inline PTX; kernels see safe methods on handles. The
//! handles ([`mem::Global`], [`mem::GlobalMut`], [`mem::Shared`]) are made by a launch alone and
//! are not checked on the chip, which is why kernels are `unsafe fn`: who launches one vouches for
//! its preconditions. The simulator checks every access, always.

#![no_std]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        stdarch_nvptx,
        asm_experimental_arch,
        core_float_math,
        abi_unadjusted,
        link_llvm_intrinsics
    )
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

// What a machine must offer. `imp` is the module below that the shared surface dispatches to; both
// machines offer exactly this set. `E` is `T: Element`, `A` is `T: AtomicElement`, `I` is `T: IntElement`.
//
// | item | meaning |
// |---|---|
// | `trait ElementImp: Copy` | per-type hooks, implemented for u32 i32 u64 i64 f32 f64 and complex numbers of the last two; supertrait of `Element`; content is the machine's own |
// | `trait AtomicElementImp: ElementImp` | hooks of what has atomics, supertrait of `AtomicElement`; for all but complex numbers |
// | `trait IntElementImp: AtomicElementImp` | hooks of integers, supertrait of `IntElement`; for u32 i32 u64 i64 |
// | `trait RealImp: ElementImp` | `mul_add(self, b: Self, c: Self) -> Self` (one rounding: self·b + c), `sqrt`, `abs`, `reciprocal` `(self) -> Self`, `max`, `min` `(self, o: Self) -> Self` (a NaN loses); for f32 f64 |
// | `struct RawGlobal<E>: Copy` | `len(self) -> usize`, `get(self, i: usize) -> T` |
// | `struct RawGlobalMut<E>: Copy` | `len`, `get`, `set(self, i: usize, v: T)`; for A `atomic(self, i: usize) -> RawAtomic<T>` |
// | `struct RawShared<E>: Copy` | the same four |
// | `struct RawAtomic<A>: Copy` | `load(self, Ordering, Scope) -> T`, `store(self, T, Ordering, Scope)`, `swap`, `fetch_add` `(self, T, Ordering, Scope) -> T`, `reduce_add(self, T, Ordering, Scope)` |
// | `impl RawAtomic<I>` | `fetch_sub`, `fetch_min`, `fetch_max`, `fetch_and`, `fetch_or`, `fetch_xor` `(self, T, Ordering, Scope) -> T`, `compare_exchange(self, current: T, new: T, Ordering, Scope) -> T` |
// | `thread_idx_x/_y/_z`, `block_idx_x/_y/_z`, `block_dim_x/_y/_z`, `grid_dim_x/_y/_z` | `fn() -> u32` |
// | `lane_id`, `warp_id` | `fn() -> u32`; warp_id is the linear thread index / 32 |
// | `sync_threads` | `fn()` |
// | `sync_threads_count` | `fn(bool) -> u32` |
// | `sync_threads_and`, `sync_threads_or` | `fn(bool) -> bool` |
// | `nanosleep` | `fn(u32)` |
// | `active_mask` | `fn() -> u32` |
// | `sync_warp` | `fn(mask: u32)` |
// | `shuffle<E>` | `fn(kind: warp::ShuffleKind, mask: u32, v: T, operand: u32) -> T` |
// | `vote_any`, `vote_all` | `fn(mask: u32, bool) -> bool` |
// | `ballot` | `fn(mask: u32, bool) -> u32` |
// | `match_any` | `fn(mask: u32, v: u32) -> u32` |
// | `fold<E>` | `fn(lanes: u32, v: T, f: impl Fn(T, T) -> T) -> T` |
// | `redux_u32` | `fn(op: warp::ReduceOp, mask: u32, v: u32) -> u32` |
// | `redux_i32` | `fn(op: warp::ReduceOp, mask: u32, v: i32) -> i32` |
// | `fence` | `fn(Scope)` |
// | `spin_wait` | `fn(impl FnMut() -> bool)` |
// | `mma_m8n8k4_f64` | `fn(a: f64, b: f64, c: [f64; 2]) -> [f64; 2]` |
// | `mma_m16n8k8_f64` | `fn(a: &[[f64; 4]; M], b: &[[f64; 2]; N], c: &mut [[[f64; 4]; N]; M])` |
// | `dynamic_shared<E>` | `fn(byte_offset: usize, len: usize) -> RawShared<T>` |
// | nvptx only: `RawGlobal::from_parts(*const T, u64)`, `RawGlobalMut::from_parts(*mut T, u64)`, `RawShared::from_parts(addr: u32, len: usize)` | `unsafe`, called by what `#[kernel]` generates, through `__private` |
//
// A load takes Relaxed or Acquire, a store Relaxed or Release; another ordering panics on the
// simulator and must behave as at least the stronger of the two on the chip.
#[cfg(target_arch = "nvptx64")]
mod nvptx;
#[cfg(target_arch = "nvptx64")]
use nvptx as imp;

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;
#[cfg(not(target_arch = "nvptx64"))]
pub mod host;
#[cfg(not(target_arch = "nvptx64"))]
pub mod sim;
#[cfg(not(target_arch = "nvptx64"))]
use sim::imp;

pub mod atomic;
mod element;
pub mod fence;
pub mod math;
pub mod matrix;
pub mod mem;
pub mod prelude;
pub mod record;
pub mod spin;
pub mod thread;
pub mod warp;

/// Turns one `unsafe fn` into a PTX entry point, a simulated kernel and a typed launcher.
///
/// ```text
/// #[kernel]                                       entry point `name`
/// #[kernel(T = [f32, f64])]                       generic over T: entry points `name_f32`, `name_f64`
/// #[kernel(T = [f64, Complex<f64>])]              entry points `name_f64`, `name_complex_f64`
/// #[kernel(T = [f64, Complex<f64>: min_blocks(1)])]   with blocks of a multiprocessor of its own
/// #[kernel(require(y.len() == x.len(), n > 0))]   checked by the launcher, panics at its caller's line
/// #[kernel(max_threads(256))]                     the launcher refuses larger blocks; default 1024
/// ```
///
/// The options combine. The function must be a module-level `unsafe fn` without a return value,
/// generic over at most one type; its parameters are
///
/// * scalars of an [`Element`](mem::Element) type, `T::Real` of a `T` over a [`Field`](math::Field) among them;
/// * handles: [`Global<T>`](mem::Global), [`GlobalMut<T>`](mem::GlobalMut), and
///   [`Records<R>`](record::Records) of a [`Record`](record);
/// * structs of scalars and handles under [`KernelArgs`](derive@KernelArgs).
///
/// The macro knows scalars and handles by the names of their types (`Complex<…>` is a scalar); what is neither is a struct.
/// Preconditions under `require` may name the parameters and their fields; buffers have `.len()`, a `usize`.
///
/// On the host it generates a module of the function's name with
///
/// * `launch(target, config, args…) -> Result<(), S::Error>` (generic kernels:
///   `launch::<T, _>(…)` with `T: Instance`), buffers passed as `&impl KernelBuffer<T>` and
///   `&mut impl KernelBufferMut<T>`, a struct `Name` as its `NameBuffers`;
/// * `desc() -> &'static KernelDesc` (generic: `desc::<T>()`) and `DESCS`, one for each instance.
///
/// The calling crate must have `pub static MODULE: luge_kernel::host::KernelModule` at its root
/// (host only).
///
/// `shared_array![T; N]` is understood directly in the body (not in a device function that the
/// kernel calls): `T` and `N` must be nameable outside the function (`T` may be the kernel's type
/// parameter). `let tile = shared_array![…]` names the array for the simulator's reports.
///
/// # On nvptx64
///
/// Generates `#[unsafe(no_mangle)] pub unsafe extern "ptx-kernel" fn ENTRY(…)`, where each buffer
/// is flattened to (pointer, len: u64) and each struct to its fields in their order, and for the k-th shared array of a kernel a module-scope
/// `.shared .align 16 .b8 __luge_shared_<kernel>_<k>[bytes]`, sized for the largest
/// instance where the element type depends on the kernel's type parameter. A complex number by value is a parameter of 8 or 16 bytes. The crate needs `#![feature(abi_ptx,
/// asm_experimental_arch)]` there. Launch bounds are left as a comment in the assembly (`// luge-kernel
/// <entry> max_threads=<n> min_blocks=<m>`), which `cargo xtask ptx` turns into `.maxntid` and
/// `.minnctapersm`: rustc has no attribute for them.
pub use luge_kernel_macros::kernel;

/// A function that is part of every kernel that calls it, and a call on the simulator.
///
/// On a GPU values that a function takes or returns by reference stay in registers only if it is inlined, and so are all that
/// are called more often than once a launch. On the host the copies are worth nothing: the kernels of fronts alone took the
/// compiler a minute and a half with them, and take ten seconds without.
pub use luge_kernel_macros::inlined;

/// Makes a struct a parameter of kernels.
///
/// ```
/// use luge_kernel::prelude::*;
///
/// /// A vector, and what it is multiplied with.
/// #[derive(Clone, Copy, KernelArgs)]
/// pub struct Scaled<T: Real> {
///     /// The factor.
///     pub factor: T,
///     /// The vector.
///     pub x: Global<T>,
/// }
///
/// # pub static MODULE: luge_kernel::host::KernelModule =
/// #     luge_kernel::host::KernelModule { name: "doc", images: &[] };
/// /// y := a·x + y.
/// #[kernel(T = [f32, f64], require(scaled.x.len() == y.len()))]
/// pub unsafe fn add<T: Real>(scaled: Scaled<T>, y: GlobalMut<T>) {
///     for i in thread::grid_stride(y.len()) {
///         y.set(i, scaled.factor.mul_add(scaled.x.get(i), y.get(i)));
///     }
/// }
///
/// # #[cfg(not(target_arch = "nvptx64"))]
/// fn main() {
///     use luge_kernel::host::LaunchConfig;
///     use luge_kernel::sim::{Buffer, Simulator};
///
///     let x = Buffer::from_slice("x", &[1.0, 2.0, 3.0]);
///     let mut y = Buffer::from_slice("y", &[10.0, 20.0, 30.0]);
///     let (target, config) = (Simulator::default(), LaunchConfig::linear(1, 32));
///     let scaled = ScaledBuffers { factor: 0.5, x: &x };
///     // SAFETY: the lengths agree.
///     unsafe { add::launch::<f64, _>(&target, &config, scaled, &mut y) }.unwrap();
///     assert_eq!(y.to_vec(), [10.5, 21.0, 31.5]);
/// }
/// ```
///
/// The fields are scalars and handles, generic over at most one type. A struct is passed by value, and its fields are
/// parameters of the kernel as if each stood for itself: PTX and simulator see no struct, the simulator's reports name
/// `scaled.x`.
///
/// On the host the derive makes `<Name>Buffers<'a>` (without `'a` if all fields are scalars), public as the struct is:
/// the same fields with `&dyn KernelBuffer<T>` for a `Global<T>`, `&mut dyn KernelBufferMut<T>` for a `GlobalMut<T>`,
/// `&dyn KernelBuffer<R>` for `Records<R>`. On nvptx64 it makes a macro of the struct's name, so a kernel that takes
/// the struct is in the same crate, and imports it by this name.
pub use luge_kernel_macros::KernelArgs;

/// Static shared memory: `shared_array![T; N]` is a [`Shared<T>`](mem::Shared) of `N` elements.
///
/// Only directly in a `#[kernel]` function, which rewrites it; see [`kernel`](macro@kernel).
/// Its content is undefined at the start of the block.
#[macro_export]
macro_rules! shared_array {
    ($($tokens:tt)*) => {
        ::core::compile_error!(
            "shared_array! works only directly in the body of a #[kernel] function"
        )
    };
}

/// What `#[kernel]` generates code against. Not part of the interface.
#[doc(hidden)]
pub mod __private {
    #[cfg(target_arch = "nvptx64")]
    pub use luge_kernel_macros::entry;

    #[cfg(target_arch = "nvptx64")]
    mod machine {
        use crate::imp;
        use crate::mem::{Element, Global, GlobalMut, Shared};

        /// # Safety
        /// `ptr` is valid for reads of `len` elements during the launch.
        #[inline(always)]
        pub unsafe fn global<T: Element>(ptr: *const T, len: u64) -> Global<T> {
            // SAFETY: the caller's promise is the callee's.
            Global(unsafe { imp::RawGlobal::from_parts(ptr, len) })
        }

        /// # Safety
        /// `ptr` is valid for reads and writes of `len` elements during the launch.
        #[inline(always)]
        pub unsafe fn global_mut<T: Element>(ptr: *mut T, len: u64) -> GlobalMut<T> {
            // SAFETY: the caller's promise is the callee's.
            GlobalMut(unsafe { imp::RawGlobalMut::from_parts(ptr, len) })
        }

        /// # Safety
        /// `addr` is the address in the shared window of an array of `len` elements.
        #[inline(always)]
        pub unsafe fn static_shared<T: Element>(addr: u32, len: usize) -> Shared<T> {
            // SAFETY: the caller's promise is the callee's.
            Shared(unsafe { imp::RawShared::from_parts(addr, len) })
        }
    }

    #[cfg(not(target_arch = "nvptx64"))]
    mod machine {
        use crate::imp;
        use crate::mem::{Element, Shared};

        pub use std::vec::Vec;

        pub use crate::sim::Arguments;

        /// What runs a simulated thread of a kernel.
        pub type SimulatedEntry = unsafe fn(&mut Arguments<'_>);

        /// The entry where the simulator can run it; without the feature `simulator` the code of the kernel is left out
        /// of the program.
        #[cfg(feature = "simulator")]
        pub const fn simulated(entry: SimulatedEntry) -> SimulatedEntry {
            entry
        }

        #[cfg(not(feature = "simulator"))]
        pub const fn simulated(_entry: SimulatedEntry) -> SimulatedEntry {
            |_| unreachable!("nothing is simulated without the feature `simulator`")
        }

        /// The `site`-th static shared array of the running kernel.
        #[track_caller]
        pub fn static_shared<T: Element>(site: usize, len: usize) -> Shared<T> {
            Shared(imp::static_shared(site, len))
        }
    }

    pub use machine::*;
}
