//! What a kernel needs: `use luge_kernel::prelude::*;`.

pub use crate::KernelArgs;
pub use crate::atomic::{Atomic, Ordering, Scope};
pub use crate::fence;
pub use crate::inlined;
pub use crate::kernel;
pub use crate::math::{Complex, Field, Real};
pub use crate::matrix;
pub use crate::mem::{
    AtomicElement, Element, Global, GlobalMut, IntElement, Shared, dynamic_shared,
};
pub use crate::record::{OfLanes, Record, Records, Words};
pub use crate::shared_array;
pub use crate::spin::spin_wait;
pub use crate::thread;
pub use crate::warp;
