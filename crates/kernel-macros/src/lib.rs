//! The `#[kernel]` attribute of Luge's kernel DSL; its documentation stands at
//! `luge_kernel::kernel`, which re-exports it.
//!
//! One function goes in. Out come, for both machines, the function itself with its
//! `shared_array!`s resolved, and a module of the same name: on the host the instances'
//! `KernelDesc`s and the typed launcher, on nvptx64 the entry points.

use proc_macro::TokenStream;

mod expand;
mod parse;
mod shared;

/// See `luge_kernel::kernel`.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    parse::kernel(attribute.into(), item.into())
        .map(|kernel| expand::expand(&kernel))
        .unwrap_or_else(|e| e.to_compile_error())
        .into()
}
