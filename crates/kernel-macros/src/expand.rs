//! Writes what a kernel expands to.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Expr, Ident, Type};

use crate::entry::{self, Entries};
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
    ty: Option<&'a Type>,
    entry: Ident,
    min_blocks: u32,
}

fn instances(kernel: &Kernel) -> Vec<Instance<'_>> {
    let name = &kernel.item.sig.ident;
    match &kernel.generic {
        None => vec![Instance {
            ty: None,
            entry: name.clone(),
            min_blocks: kernel.min_blocks,
        }],
        Some(generic) => generic
            .instances
            .iter()
            .map(|instance| Instance {
                ty: Some(&instance.ty),
                entry: format_ident!("{name}_{}", instance.suffix),
                min_blocks: instance.min_blocks.unwrap_or(kernel.min_blocks),
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
            let types = generic.instances.iter().map(|instance| &instance.ty);
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
    let params = kernel.params.iter().map(|p| p.kind.description(&p.name));
    let shared = kernel.shared.iter().map(|site| {
        let (name, element, len) = (&site.name, &site.element, &site.len);
        quote! { SharedDesc { name: #name, element: ElementKind::of::<#element>(), len: #len } }
    });
    let arguments = kernel.params.iter().map(|p| p.kind.take());
    let generics = instance.ty.map(|ty| quote! { ::<#ty> });
    let (max_threads, min_blocks) = (kernel.max_threads, instance.min_blocks);
    quote! {{
        use ::luge_kernel::host::{ElementKind, KernelDesc, ParamDesc, ParamKind, SharedDesc};
        #alias
        #[allow(unused_variables)]
        unsafe fn entry(arguments: &mut ::luge_kernel::__private::Arguments<'_>) {
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
    let params = kernel.params.iter().map(|Param { name, kind, .. }| {
        let ty = match kind {
            // Not behind `dyn`, so that the type of the elements is inferred from the buffer.
            ParamKind::Global(ty) => quote! { &impl ::luge_kernel::host::KernelBuffer<#ty> },
            ParamKind::GlobalMut(ty) => {
                quote! { &mut impl ::luge_kernel::host::KernelBufferMut<#ty> }
            }
            other => other.host_type(&quote! { '_ }),
        };
        quote! { #name: #ty }
    });
    let structs: Vec<_> = kernel
        .params
        .iter()
        .filter_map(|param| match &param.kind {
            ParamKind::Struct(path) => Some(path),
            _ => None,
        })
        .collect();
    let arguments = if structs.is_empty() {
        let arguments = kernel.params.iter().map(|p| p.kind.lend(&p.name));
        quote! { [#(#arguments),*] }
    } else {
        let others = kernel.params.len() - structs.len();
        let push = kernel.params.iter().map(|Param { name, kind, .. }| match kind {
            ParamKind::Struct(path) => {
                quote! { <#path as ::luge_kernel::host::KernelArgs>::lend(#name, &mut arguments); }
            }
            other => {
                let argument = other.lend(name);
                quote! { arguments.push(#argument); }
            }
        });
        quote! {{
            let mut arguments = ::luge_kernel::__private::Vec::with_capacity(
                #others #(+ <#structs as ::luge_kernel::host::KernelArgs>::FIELDS.len())*
            );
            #(#push)*
            arguments
        }}
    };
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
            target.launch(#described, config, &#arguments)
        }
    }
}

/// nvptx64: shared arrays and entry points.
fn device_module(kernel: &Kernel) -> TokenStream {
    let name = &kernel.item.sig.ident;
    let vis = &kernel.item.vis;
    let instances = instances(kernel);
    let shared = kernel.shared.iter().map(|site| {
        let (element, len) = (&site.element, &site.len);
        // All instances of a generic kernel share the declaration: sized for the largest.
        let size = if site.generic {
            let aliases = instances.iter().map(|instance| alias(kernel, instance));
            quote! {{
                let mut largest = 0;
                #({
                    #aliases
                    let size = ::core::mem::size_of::<#element>();
                    if size > largest {
                        largest = size;
                    }
                })*
                largest
            }}
        } else {
            quote! { ::core::mem::size_of::<#element>() }
        };
        let declaration = format!(".shared .align 16 .b8 {}[{{n}}];", site.symbol);
        quote! { ::core::arch::global_asm!(#declaration, n = const (#len) * #size); }
    });
    let named = instances.iter();
    let entries = Entries::new(
        kernel,
        named
            .map(|instance| entry::Instance {
                ty: instance.ty.cloned(),
                entry: instance.entry.clone(),
                min_blocks: instance.min_blocks,
            })
            .collect(),
    )
    .expand();
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[doc(hidden)]
        #vis mod #name {
            #[allow(unused_imports)]
            use super::*;

            #(#shared)*

            #entries
        }
    }
}
