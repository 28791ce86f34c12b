//! Writes what a kernel expands to.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Expr, Ident};

use crate::parse::{Kernel, Param, ParamKind};

/// The whole expansion.
pub fn expand(kernel: &Kernel) -> TokenStream {
    let item = &kernel.item;
    let host = host_module(kernel);
    let device = device_module(kernel);
    quote! {
        #[cfg_attr(target_arch = "nvptx64", inline(always))]
        #[allow(clippy::missing_safety_doc, clippy::too_many_arguments)]
        #item
        #host
        #device
    }
}

/// An instance: the type of the kernel's parameter, if it has one, and the entry point.
struct Instance<'a> {
    ty: Option<&'a Ident>,
    entry: Ident,
}

fn instances(kernel: &Kernel) -> Vec<Instance<'_>> {
    let name = &kernel.item.sig.ident;
    match &kernel.generic {
        None => vec![Instance {
            ty: None,
            entry: name.clone(),
        }],
        Some(generic) => generic
            .instances
            .iter()
            .map(|ty| Instance {
                ty: Some(ty),
                entry: format_ident!("{name}_{ty}"),
            })
            .collect(),
    }
}

/// `type T = f64;`, where the kernel has a type parameter.
fn alias(kernel: &Kernel, instance: &Instance) -> TokenStream {
    match (&kernel.generic, instance.ty) {
        (Some(generic), Some(ty)) => {
            let name = &generic.name;
            quote! { #[allow(dead_code)] type #name = #ty; }
        }
        _ => TokenStream::new(),
    }
}

fn docs(kernel: &Kernel) -> Vec<&Attribute> {
    kernel
        .item
        .attrs
        .iter()
        .filter(|a| a.path().is_ident("doc"))
        .collect()
}

/// Host: descriptions and launcher.
fn host_module(kernel: &Kernel) -> TokenStream {
    let name = &kernel.item.sig.ident;
    let vis = &kernel.item.vis;
    let docs = docs(kernel);
    let instances = instances(kernel);
    let launch = launcher(kernel);
    let statics: Vec<_> = instances
        .iter()
        .map(|i| format_ident!("{}", i.entry.to_string().to_uppercase()))
        .collect();
    let descs = instances.iter().zip(&statics).map(|(instance, name)| {
        let desc = desc(kernel, instance);
        quote! { static #name: ::luge_kernel::host::KernelDesc = #desc; }
    });
    let access = match &kernel.generic {
        None => {
            let only = &statics[0];
            quote! {
                /// Describes the kernel.
                pub fn desc() -> &'static ::luge_kernel::host::KernelDesc {
                    &#only
                }
            }
        }
        Some(generic) => {
            let bounds = &generic.bounds;
            let types = &generic.instances;
            quote! {
                /// A type that the kernel is compiled for.
                pub trait Instance:
                    #bounds + ::luge_kernel::mem::Element + ::core::convert::Into<::luge_kernel::host::KernelArg>
                {
                    /// Describes the kernel for this type.
                    fn desc() -> &'static ::luge_kernel::host::KernelDesc;
                }
                #(
                    impl Instance for #types {
                        fn desc() -> &'static ::luge_kernel::host::KernelDesc {
                            &#statics
                        }
                    }
                )*
                /// Describes the kernel for `T`.
                pub fn desc<T: Instance>() -> &'static ::luge_kernel::host::KernelDesc {
                    T::desc()
                }
            }
        }
    };
    let summary = format!("Descriptions and launcher of the kernel [`{name}`](fn@super::{name}).");
    let rule = "\n\nThe kernel:\n\n";
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #summary]
        #[doc = #rule]
        #(#docs)*
        #[allow(rustdoc::private_intra_doc_links)]
        #vis mod #name {
            #[allow(unused_imports)]
            use super::*;

            #(#descs)*

            /// The instances of the kernel.
            pub static DESCS: &[&::luge_kernel::host::KernelDesc] = &[#(&#statics),*];

            #access

            #launch
        }
    }
}

/// The `KernelDesc` of an instance, as a constant expression.
fn desc(kernel: &Kernel, instance: &Instance) -> TokenStream {
    let name = &kernel.item.sig.ident;
    let entry_name = instance.entry.to_string();
    let alias = alias(kernel, instance);
    let params = kernel.params.iter().map(|Param { name, kind }| {
        let name = name.to_string();
        let kind = match kind {
            ParamKind::Scalar(ty) => quote! { Scalar(ElementKind::of::<#ty>()) },
            ParamKind::Global(ty) => {
                quote! { Buffer { element: ElementKind::of::<#ty>(), writable: false } }
            }
            ParamKind::GlobalMut(ty) => {
                quote! { Buffer { element: ElementKind::of::<#ty>(), writable: true } }
            }
        };
        quote! { ParamDesc { name: #name, kind: ParamKind::#kind } }
    });
    let shared = kernel.shared.iter().map(|site| {
        let (name, element, len) = (&site.name, &site.element, &site.len);
        quote! { SharedDesc { name: #name, element: ElementKind::of::<#element>(), len: #len } }
    });
    let arguments = kernel
        .params
        .iter()
        .enumerate()
        .map(|(i, p)| match &p.kind {
            ParamKind::Scalar(ty) => quote! { args.scalar::<#ty>(#i) },
            ParamKind::Global(ty) => quote! { args.global::<#ty>(#i) },
            ParamKind::GlobalMut(ty) => quote! { args.global_mut::<#ty>(#i) },
        });
    let generics = instance.ty.map(|ty| quote! { ::<#ty> });
    let (max_threads, min_blocks) = (kernel.max_threads, kernel.min_blocks);
    quote! {{
        use ::luge_kernel::host::{ElementKind, KernelDesc, ParamDesc, ParamKind, SharedDesc};
        #alias
        #[allow(unused_variables)]
        unsafe fn entry(args: &::luge_kernel::__private::ArgReader) {
            // SAFETY: the launch that started this thread vouched for the preconditions.
            unsafe { super::#name #generics(#(#arguments),*) }
        }
        KernelDesc {
            name: #entry_name,
            module: &crate::MODULE,
            params: &[#(#params),*],
            shared: &[#(#shared),*],
            max_threads: #max_threads,
            min_blocks: #min_blocks,
            entry: ::luge_kernel::__private::simulated(entry),
        }
    }}
}

/// The typed launcher.
fn launcher(kernel: &Kernel) -> TokenStream {
    let name = kernel.item.sig.ident.to_string();
    let params = kernel.params.iter().map(|Param { name, kind }| match kind {
        ParamKind::Scalar(ty) => quote! { #name: #ty },
        ParamKind::Global(ty) => quote! { #name: &impl ::luge_kernel::host::KernelBuffer<#ty> },
        ParamKind::GlobalMut(ty) => {
            quote! { #name: &mut impl ::luge_kernel::host::KernelBufferMut<#ty> }
        }
    });
    let arguments = kernel.params.iter().map(|Param { name, kind }| match kind {
        ParamKind::Scalar(_) => {
            quote! { ::core::convert::Into::<::luge_kernel::host::KernelArg>::into(#name) }
        }
        ParamKind::Global(_) => quote! { ::luge_kernel::host::KernelBuffer::kernel_arg(#name) },
        ParamKind::GlobalMut(_) => {
            quote! { ::luge_kernel::host::KernelBufferMut::kernel_arg_mut(#name) }
        }
    });
    let checks = kernel.require.iter().map(|condition: &Expr| {
        let text = quote!(#condition).to_string();
        let message = format!("launch of `{name}`: its precondition does not hold: {text}");
        quote! { ::core::assert!(#condition, "{}", #message); }
    });
    let max_threads = u64::from(kernel.max_threads);
    let too_large =
        format!("launch of `{name}`: a block of {{}} threads, where at most {max_threads} fit");
    let (generics, described) = match &kernel.generic {
        None => (quote! {}, quote! { desc() }),
        Some(generic) => {
            let t = &generic.name;
            (quote! { #t: Instance, }, quote! { desc::<#t>() })
        }
    };
    quote! {
        /// Launches the kernel on `target`.
        ///
        /// # Errors
        ///
        /// Those of the target.
        ///
        /// # Panics
        ///
        /// At the caller's line, if a precondition under `require` does not hold, or the block has
        /// more threads than the kernel allows.
        ///
        /// # Safety
        ///
        /// The kernel's preconditions hold: on the chip no index is checked and no race is seen.
        #[allow(clippy::too_many_arguments)]
        #[track_caller]
        pub unsafe fn launch<#generics __S: ::luge_kernel::host::LaunchTarget>(
            target: &__S,
            config: &::luge_kernel::host::LaunchConfig,
            #(#params),*
        ) -> ::core::result::Result<(), __S::Error> {
            #(#checks)*
            ::core::assert!(
                config.threads_per_block() <= #max_threads,
                #too_large,
                config.threads_per_block()
            );
            target.launch(#described, config, &[#(#arguments),*])
        }
    }
}

/// nvptx64: shared arrays and entry points.
fn device_module(kernel: &Kernel) -> TokenStream {
    let name = &kernel.item.sig.ident;
    let vis = &kernel.item.vis;
    let shared = kernel.shared.iter().map(|site| {
        let (element, len) = (&site.element, &site.len);
        // Both instances of a generic kernel share the declaration: sized for the larger.
        let size = if site.generic {
            quote! { 8 }
        } else {
            quote! { ::core::mem::size_of::<#element>() }
        };
        let declaration = format!(".shared .align 16 .b8 {}[{{n}}];", site.symbol);
        quote! { ::core::arch::global_asm!(#declaration, n = const (#len) * #size); }
    });
    let entries = instances(kernel)
        .into_iter()
        .map(|instance| entry(kernel, &instance));
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[doc(hidden)]
        #vis mod #name {
            #[allow(unused_imports)]
            use super::*;

            #(#shared)*

            #(#entries)*
        }
    }
}

/// One entry point, in a scope of its own for the type alias.
fn entry(kernel: &Kernel, instance: &Instance) -> TokenStream {
    let name = &kernel.item.sig.ident;
    let entry = &instance.entry;
    let alias = alias(kernel, instance);
    let scope = format_ident!("__entry_{entry}");
    let params = kernel.params.iter().map(|Param { name, kind }| {
        let (ptr, len) = (format_ident!("{name}_ptr"), format_ident!("{name}_len"));
        match kind {
            ParamKind::Scalar(ty) => quote! { #name: #ty },
            ParamKind::Global(ty) => quote! { #ptr: *const #ty, #len: u64 },
            ParamKind::GlobalMut(ty) => quote! { #ptr: *mut #ty, #len: u64 },
        }
    });
    let arguments = kernel.params.iter().map(|Param { name, kind }| {
        let (ptr, len) = (format_ident!("{name}_ptr"), format_ident!("{name}_len"));
        match kind {
            ParamKind::Scalar(_) => quote! { #name },
            ParamKind::Global(_) => quote! { ::luge_kernel::__private::global(#ptr, #len) },
            ParamKind::GlobalMut(_) => quote! { ::luge_kernel::__private::global_mut(#ptr, #len) },
        }
    });
    let generics = instance.ty.map(|ty| quote! { ::<#ty> });
    // rustc has no attribute for launch bounds: `cargo xtask ptx` makes directives of this comment.
    let bounds = format!(
        "// luge-kernel {entry} max_threads={} min_blocks={}",
        kernel.max_threads, kernel.min_blocks
    );
    quote! {
        #[doc(hidden)]
        pub mod #scope {
            #[allow(unused_imports)]
            use super::super::*;
            #alias

            ::core::arch::global_asm!(#bounds);

            #[doc(hidden)]
            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn #entry(#(#params),*) {
                // SAFETY: the launcher passed buffers of these lengths, and its caller vouched for
                // the kernel's preconditions.
                unsafe { super::super::#name #generics(#(#arguments),*) }
            }
        }
    }
}
