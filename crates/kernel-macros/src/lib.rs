//! The macros of Luge's kernel DSL: `#[kernel]`, `#[inlined]`, `#[derive(KernelArgs)]` and `#[derive(Record)]`;
//! their documentation stands in `luge_kernel`, which re-exports them.
//!
//! Into `#[kernel]` goes one function. Out come, for both machines, the function itself with its
//! `shared_array!`s resolved, and a module of the same name: on the host the instances'
//! `KernelDesc`s and the typed launcher, on nvptx64 the entry points.

use proc_macro::TokenStream;

mod args;
mod entry;
mod expand;
mod parse;
mod qualified;
mod record;
mod shared;

/// See `luge_kernel::kernel`.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let kernel = parse::kernel(attribute.into(), item.into());
    tokens(kernel.map(|kernel| expand::expand(&kernel)))
}

/// See `luge_kernel::inlined`.
#[proc_macro_attribute]
pub fn inlined(_: TokenStream, item: TokenStream) -> TokenStream {
    let item = proc_macro2::TokenStream::from(item);
    quote::quote!(#[cfg_attr(target_arch = "nvptx64", inline(always))] #item).into()
}

/// See `luge_kernel::KernelArgs`.
#[proc_macro_derive(KernelArgs)]
pub fn kernel_args(input: TokenStream) -> TokenStream {
    tokens(args::derive(input.into()))
}

/// See `luge_kernel::record`.
#[proc_macro_derive(Record)]
pub fn record(input: TokenStream) -> TokenStream {
    tokens(record::derive(input.into()))
}

/// What `#[kernel]` and `#[derive(KernelArgs)]` make entry points with; see the module `entry`.
#[doc(hidden)]
#[proc_macro]
pub fn entry(input: TokenStream) -> TokenStream {
    tokens(entry::entry(input.into()))
}

fn tokens(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|e| e.to_compile_error()).into()
}
