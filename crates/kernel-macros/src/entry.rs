//! The entry points of a kernel on nvptx64.
//!
//! A parameter of the PTX is a number or a pointer: the compiler infers the address space of a pointer only if it comes
//! as a parameter of its own, not as part of a struct. So structs are taken apart into their fields here, and put
//! together by the entry point.
//!
//! The fields of a struct are known to the macro that `#[derive(KernelArgs)]` made for it alone. So an expansion goes
//! back and forth: `#[kernel]` writes down what it knows of the entry points, calls the macro of the first struct with
//! it, and that calls `entry!` with its fields before it; which calls the macro of the next struct, or is done.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, LitInt, Path, Token, Type, braced, bracketed};

use crate::args::substitute;
use crate::parse::{Kernel, ParamKind, type_argument};

/// What is known of a kernel's entry points.
pub struct Entries {
    name: Ident,
    /// The kernel's type parameter.
    generic: Option<Ident>,
    instances: Vec<Instance>,
    max_threads: u32,
    params: Vec<Param>,
}

struct Param {
    name: Ident,
    ty: Type,
    /// Those of a struct, once its macro told them.
    fields: Option<Vec<(Ident, Type)>>,
}

impl Entries {
    pub fn new(kernel: &Kernel, instances: Vec<Instance>) -> Self {
        Self {
            name: kernel.item.sig.ident.clone(),
            generic: kernel.generic.as_ref().map(|g| g.name.clone()),
            instances,
            max_threads: kernel.max_threads,
            params: kernel
                .params
                .iter()
                .map(|param| Param {
                    name: param.name.clone(),
                    ty: param.ty.clone(),
                    fields: None,
                })
                .collect(),
        }
    }

    /// The entry points, or the call of the macro of a struct whose fields are not known.
    pub fn expand(&self) -> TokenStream {
        let unknown = self.params.iter().find_map(|param| {
            match ParamKind::of(&param.ty, self.generic.as_ref()) {
                ParamKind::Struct(path) if param.fields.is_none() => Some(path),
                _ => None,
            }
        });
        match unknown {
            Some(path) => {
                let path = without_arguments(&path);
                quote! { #path! { #self } }
            }
            None => self.instances.iter().map(|i| self.entry(i)).collect(),
        }
    }

    /// One entry point, in a scope of its own for the type alias.
    fn entry(&self, instance: &Instance) -> TokenStream {
        let Instance {
            ty,
            entry,
            min_blocks,
        } = instance;
        let name = &self.name;
        let alias = match (&self.generic, ty) {
            (Some(generic), Some(ty)) => quote! { #[allow(dead_code)] type #generic = #ty; },
            _ => TokenStream::new(),
        };
        let scope = format_ident!("__entry_{entry}");
        let mut params = TokenStream::new();
        let arguments: Vec<TokenStream> = self
            .params
            .iter()
            .map(|param| match &param.fields {
                None => self.leaf(&param.name, &param.ty, &mut params),
                Some(fields) => {
                    let path = match ParamKind::of(&param.ty, self.generic.as_ref()) {
                        ParamKind::Struct(path) => without_arguments(&path),
                        _ => unreachable!("a struct alone has fields"),
                    };
                    let fields = fields.iter().map(|(field, ty)| {
                        let name = format_ident!("{}_{field}", param.name);
                        let value = self.leaf(&name, ty, &mut params);
                        quote! { #field: #value }
                    });
                    quote! { #path { #(#fields),* } }
                }
            })
            .collect();
        let generics = ty.as_ref().map(|ty| quote! { ::<#ty> });
        // rustc has no attribute for launch bounds: `cargo xtask ptx` makes directives of this comment.
        let bounds = format!(
            "// luge-kernel {entry} max_threads={} min_blocks={min_blocks}",
            self.max_threads
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
                pub unsafe extern "ptx-kernel" fn #entry(#params) {
                    // SAFETY: the launcher passed buffers of these lengths, and its caller vouched for
                    // the kernel's preconditions.
                    unsafe { super::super::#name #generics(#(#arguments),*) }
                }
            }
        }
    }

    /// Adds the parameters of a number or a handle; what is made of them.
    fn leaf(&self, name: &Ident, ty: &Type, params: &mut TokenStream) -> TokenStream {
        let (ptr, len) = (format_ident!("{name}_ptr"), format_ident!("{name}_len"));
        let (param, value) = match ParamKind::of(ty, self.generic.as_ref()) {
            ParamKind::Scalar(ty) => (quote! { #name: #ty, }, quote! { #name }),
            ParamKind::Global(ty) => (
                quote! { #ptr: *const #ty, #len: u64, },
                quote! { ::luge_kernel::__private::global(#ptr, #len) },
            ),
            ParamKind::GlobalMut(ty) => (
                quote! { #ptr: *mut #ty, #len: u64, },
                quote! { ::luge_kernel::__private::global_mut(#ptr, #len) },
            ),
            ParamKind::Records(_) => (
                quote! { #ptr: *const u32, #len: u64, },
                quote! { ::luge_kernel::record::Records::of(::luge_kernel::__private::global(#ptr, #len)) },
            ),
            ParamKind::Struct(_) => unreachable!("structs are taken apart before"),
        };
        params.extend(param);
        value
    }
}

/// The path without the arguments of its last segment.
fn without_arguments(path: &Path) -> Path {
    let mut path = path.clone();
    if let Some(last) = path.segments.last_mut() {
        last.arguments = syn::PathArguments::None;
    }
    path
}

impl ToTokens for Entries {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self {
            name,
            generic,
            max_threads,
            ..
        } = self;
        let instances = self.instances.iter().map(|instance| {
            let Instance {
                ty,
                entry,
                min_blocks,
            } = instance;
            match ty {
                Some(ty) => quote! { #ty #entry #min_blocks },
                None => quote! { _ #entry #min_blocks },
            }
        });
        let params = self.params.iter().map(|Param { name, ty, fields }| {
            let fields = fields.as_ref().map(|fields| {
                let fields = fields.iter().map(|(name, ty)| quote! { #name: #ty });
                quote! { { #(#fields),* } }
            });
            quote! { #name: #ty #fields }
        });
        tokens.extend(quote! {
            #name [#generic] [#(#instances),*] #max_threads { #(#params),* }
        });
    }
}

impl Parse for Entries {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name = input.parse()?;
        let generic = parse_generic(input)?;
        let list;
        bracketed!(list in input);
        let instances = Punctuated::<Instance, Token![,]>::parse_terminated(&list)?;
        let max_threads = input.parse::<LitInt>()?.base10_parse()?;
        let list;
        braced!(list in input);
        let params = Punctuated::<Param, Token![,]>::parse_terminated(&list)?;
        Ok(Self {
            name,
            generic,
            instances: instances.into_iter().collect(),
            max_threads,
            params: params.into_iter().collect(),
        })
    }
}

/// An entry point.
#[derive(Clone)]
pub struct Instance {
    /// If the kernel is generic.
    pub ty: Option<Type>,
    /// Its name.
    pub entry: Ident,
    /// Blocks that should fit on a multiprocessor together; 0 if not said.
    pub min_blocks: u32,
}

impl Parse for Instance {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let ty = if input.peek(Token![_]) {
            input.parse::<Token![_]>()?;
            None
        } else {
            Some(input.parse()?)
        };
        Ok(Self {
            ty,
            entry: input.parse()?,
            min_blocks: input.parse::<LitInt>()?.base10_parse()?,
        })
    }
}

fn parse_generic(input: ParseStream) -> syn::Result<Option<Ident>> {
    let content;
    bracketed!(content in input);
    if content.is_empty() {
        Ok(None)
    } else {
        content.parse().map(Some)
    }
}

struct NamedType {
    name: Ident,
    ty: Type,
}

impl Parse for NamedType {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Self {
            name,
            ty: input.parse()?,
        })
    }
}

fn parse_fields(input: ParseStream) -> syn::Result<Vec<NamedType>> {
    let content;
    braced!(content in input);
    let fields = Punctuated::<NamedType, Token![,]>::parse_terminated(&content)?;
    Ok(fields.into_iter().collect())
}

impl Parse for Param {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let NamedType { name, ty } = input.parse()?;
        let fields = if input.peek(syn::token::Brace) {
            let fields = parse_fields(input)?;
            Some(fields.into_iter().map(|f| (f.name, f.ty)).collect())
        } else {
            None
        };
        Ok(Self { name, ty, fields })
    }
}

/// What the macro of a struct calls `entry!` with: its type parameter, its fields, and what it was called with.
struct Told {
    generic: Option<Ident>,
    fields: Vec<NamedType>,
    entries: Entries,
}

impl Parse for Told {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        Ok(Self {
            generic: parse_generic(input)?,
            fields: parse_fields(input)?,
            entries: input.parse()?,
        })
    }
}

/// Goes on with the fields of the first struct whose fields were not known.
pub fn entry(input: TokenStream) -> syn::Result<TokenStream> {
    let Told {
        generic,
        fields,
        mut entries,
    } = syn::parse2(input)?;
    let kernel_generic = entries.generic.clone();
    let struct_param = entries.params.iter_mut().find(|param| {
        let kind = ParamKind::of(&param.ty, kernel_generic.as_ref());
        param.fields.is_none() && matches!(kind, ParamKind::Struct(_))
    });
    let param = struct_param.expect("the macro of a struct is called for a parameter");
    let argument = type_argument(&param.ty).map(ToTokens::into_token_stream);
    let fields = fields
        .into_iter()
        .map(|NamedType { name, ty }| {
            let ty = match (&generic, &argument) {
                (Some(generic), Some(argument)) => {
                    syn::parse2(substitute(ty.into_token_stream(), generic, argument))?
                }
                _ => ty,
            };
            Ok((name, ty))
        })
        .collect::<syn::Result<Vec<_>>>()?;
    param.fields = Some(fields);
    Ok(entries.expand())
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;
    use crate::parse::kernel;

    /// What `#[kernel]` and the macros of the structs `A<U> { n: u32, x: Global<U>, y: GlobalMut<T> }` and
    /// `B { r: Records<R> }` make of it together.
    #[test]
    fn structs_are_taken_apart_one_after_the_other() {
        let kernel = kernel(
            quote!(T = [f32, Complex<f64>: min_blocks(1)], max_threads(96), min_blocks(2)),
            quote! { unsafe fn k<T: Field>(s: T, a: A<T>, b: B, z: Global<u64>) {} },
        )
        .unwrap_or_else(|e| panic!("{e}"));
        let instance = |ty, entry: &str, min_blocks| Instance {
            ty: Some(ty),
            entry: format_ident!("{entry}"),
            min_blocks,
        };
        let instances = [
            instance(parse_quote!(f32), "k_f32", 2),
            instance(parse_quote!(Complex<f64>), "k_complex_f64", 1),
        ];
        let first = Entries::new(&kernel, instances.to_vec())
            .expand()
            .to_string();
        let state = first
            .strip_prefix("A ! {")
            .and_then(|rest| rest.strip_suffix('}'));
        let state: TokenStream = state.expect("a call of A's macro").parse().unwrap();

        let second = entry(quote! { [U] { n: u32, x: Global<U>, y: GlobalMut<U>, } #state });
        let second = second.unwrap().to_string();
        let state = second
            .strip_prefix("B ! {")
            .and_then(|rest| rest.strip_suffix('}'));
        let state: TokenStream = state.expect("a call of B's macro").parse().unwrap();

        let done = entry(quote! { [] { r: Records<R>, } #state })
            .unwrap()
            .to_string();
        let params = quote! {
            s: T, a_n: u32, a_x_ptr: *const T, a_x_len: u64, a_y_ptr: *mut T, a_y_len: u64,
            b_r_ptr: *const u32, b_r_len: u64, z_ptr: *const u64, z_len: u64,
        };
        for entry in ["k_f32", "k_complex_f64"] {
            let entry = format_ident!("{entry}");
            let head = quote! { pub unsafe extern "ptx-kernel" fn #entry(#params) }.to_string();
            assert!(done.contains(&head), "{done}");
        }
        let call = quote! {
            A { n: a_n,
                x: ::luge_kernel::__private::global(a_x_ptr, a_x_len),
                y: ::luge_kernel::__private::global_mut(a_y_ptr, a_y_len) },
            B { r: ::luge_kernel::record::Records::of(::luge_kernel::__private::global(b_r_ptr, b_r_len)) },
            ::luge_kernel::__private::global(z_ptr, z_len)
        };
        assert!(done.contains(&call.to_string()), "{done}");
        let call = quote! { super::super::k::<Complex<f64> > }.to_string();
        assert!(done.contains(&call), "{done}");
        for bounds in [
            "k_f32 max_threads=96 min_blocks=2",
            "k_complex_f64 max_threads=96 min_blocks=1",
        ] {
            assert!(done.contains(bounds), "{done}");
        }
    }
}
