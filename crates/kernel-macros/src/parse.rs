//! Reads the attribute and the function into what the expansion needs.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Error, Expr, FnArg, GenericArgument, GenericParam, Ident, ItemFn, LitInt, Pat, Path,
    PathArguments, ReturnType, Token, Type, TypeParamBound, bracketed, parenthesized,
};

use crate::qualified::qualified;
use crate::shared::{self, SharedSite};

/// A kernel, understood.
pub struct Kernel {
    /// The function with its body rewritten (see [`shared`]).
    pub item: ItemFn,
    /// The type parameter, its bounds and its instances.
    pub generic: Option<Generic>,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Preconditions that the launcher checks.
    pub require: Vec<Expr>,
    /// Largest block.
    pub max_threads: u32,
    /// Blocks that should fit on a multiprocessor together; 0 if not said.
    pub min_blocks: u32,
    /// Static shared arrays in the order of the source.
    pub shared: Vec<SharedSite>,
}

/// The type parameter of a kernel.
pub struct Generic {
    pub name: Ident,
    pub bounds: Punctuated<TypeParamBound, Token![+]>,
    pub instances: Vec<Instance>,
}

/// An instance of a kernel with a type parameter.
pub struct Instance {
    pub ty: Type,
    /// What it adds to the name of the entry point.
    pub suffix: String,
    /// Blocks that should fit on a multiprocessor together, where it has a number of its own.
    pub min_blocks: Option<u32>,
}

impl Parse for Instance {
    /// `f64`, or `Complex<f64>: min_blocks(1)`.
    fn parse(input: ParseStream) -> syn::Result<Instance> {
        let ty: Type = input.parse()?;
        let mut min_blocks = None;
        if input.peek(Token![:]) {
            input.parse::<Token![:]>()?;
            let key: Ident = input.parse()?;
            if key != "min_blocks" {
                return Err(Error::new(key.span(), "expected `min_blocks(N)`"));
            }
            let content;
            parenthesized!(content in input);
            min_blocks = Some(content.parse::<LitInt>()?.base10_parse()?);
        }
        Ok(Instance {
            suffix: suffix(&ty)?,
            ty,
            min_blocks,
        })
    }
}

/// A parameter of a kernel.
pub struct Param {
    pub name: Ident,
    pub ty: Type,
    pub kind: ParamKind,
}

/// What a parameter or a field of a struct of parameters is, with its type, or the type of its elements or records.
pub enum ParamKind {
    Scalar(Type),
    Global(Type),
    GlobalMut(Type),
    Records(Type),
    /// Under `#[derive(KernelArgs)]`.
    Struct(Path),
}

/// The types of scalars, besides a type parameter, what belongs to it, and `Complex<…>`.
const SCALARS: [&str; 6] = ["u32", "i32", "u64", "i64", "f32", "f64"];

/// What an instance of type `ty` adds to the name of its entry point: `f64`, `complex_f64`.
fn suffix(ty: &Type) -> syn::Result<String> {
    let refused = || {
        Error::new(
            ty.span(),
            "an instance is a type such as `f64` or `Complex<f64>`",
        )
    };
    let Type::Path(path) = ty else {
        return Err(refused());
    };
    if let Some(name) = path.path.get_ident() {
        return Ok(name.to_string());
    }
    match (path.path.segments.last(), type_argument(ty)) {
        (Some(last), Some(argument)) if last.ident == "Complex" => {
            Ok(format!("complex_{}", suffix(argument)?))
        }
        _ => Err(refused()),
    }
}

impl ParamKind {
    /// By the name of the type: handles and scalars are known by theirs, everything else is a struct.
    pub fn of(ty: &Type, generic: Option<&Ident>) -> ParamKind {
        let Type::Path(path) = ty else {
            return ParamKind::Scalar(ty.clone());
        };
        let is_scalar = path.path.get_ident().is_some_and(|name| {
            generic == Some(name) || SCALARS.iter().any(|scalar| name == scalar)
        });
        // A type that belongs to another one is that of its magnitudes.
        if is_scalar || path.qself.is_some() {
            return ParamKind::Scalar(ty.clone());
        }
        let name = path.path.segments.last().map(|last| last.ident.to_string());
        match (name.as_deref(), type_argument(ty)) {
            (Some("Complex"), Some(_)) => ParamKind::Scalar(ty.clone()),
            (Some("Global"), Some(element)) => ParamKind::Global(element.clone()),
            (Some("GlobalMut"), Some(element)) => ParamKind::GlobalMut(element.clone()),
            (Some("Records"), Some(record)) => ParamKind::Records(record.clone()),
            _ => ParamKind::Struct(path.path.clone()),
        }
    }

    /// What a launcher takes.
    pub fn host_type(&self, lifetime: &TokenStream) -> TokenStream {
        match self {
            ParamKind::Scalar(ty) => quote! { #ty },
            ParamKind::Global(ty) | ParamKind::Records(ty) => quote! {
                &#lifetime (dyn ::luge_kernel::host::KernelBuffer<#ty> + #lifetime)
            },
            ParamKind::GlobalMut(ty) => quote! {
                &#lifetime mut (dyn ::luge_kernel::host::KernelBufferMut<#ty> + #lifetime)
            },
            ParamKind::Struct(path) => quote! {
                <#path as ::luge_kernel::host::KernelArgs>::Buffers<#lifetime>
            },
        }
    }

    /// The `KernelArg` of what a launcher took under `name`; not of a struct.
    pub fn lend(&self, name: &Ident) -> TokenStream {
        match self {
            ParamKind::Scalar(_) => {
                quote! { ::core::convert::Into::<::luge_kernel::host::KernelArg>::into(#name) }
            }
            ParamKind::Global(_) | ParamKind::Records(_) => {
                quote! { ::luge_kernel::host::KernelBuffer::kernel_arg(#name) }
            }
            ParamKind::GlobalMut(_) => {
                quote! { ::luge_kernel::host::KernelBufferMut::kernel_arg_mut(#name) }
            }
            ParamKind::Struct(_) => unreachable!("a struct lends each field by itself"),
        }
    }

    /// What a simulated thread takes from `arguments`.
    pub fn take(&self) -> TokenStream {
        match self {
            ParamKind::Scalar(ty) => quote! { arguments.scalar::<#ty>() },
            ParamKind::Global(ty) => quote! { arguments.global::<#ty>() },
            ParamKind::GlobalMut(ty) => quote! { arguments.global_mut::<#ty>() },
            ParamKind::Records(_) => {
                quote! { ::luge_kernel::record::Records::of(arguments.global::<u32>()) }
            }
            ParamKind::Struct(path) => {
                quote! { <#path as ::luge_kernel::host::KernelArgs>::take(arguments) }
            }
        }
    }

    /// The `ParamDesc`, where `ParamDesc`, `ParamKind` and `ElementKind` are in scope.
    pub fn description(&self, name: &Ident) -> TokenStream {
        let name = name.to_string();
        let buffer = |ty: &dyn ToTokens, writable: bool| {
            let ty = ty.to_token_stream();
            quote! { Buffer { element: ElementKind::of::<#ty>(), writable: #writable } }
        };
        let kind = match self {
            ParamKind::Scalar(ty) => quote! { Scalar(ElementKind::of::<#ty>()) },
            ParamKind::Global(ty) => buffer(ty, false),
            ParamKind::GlobalMut(ty) => buffer(ty, true),
            ParamKind::Records(_) => buffer(&quote! { u32 }, false),
            ParamKind::Struct(path) => {
                quote! { Struct(<#path as ::luge_kernel::host::KernelArgs>::FIELDS) }
            }
        };
        quote! { ParamDesc { name: #name, kind: ParamKind::#kind } }
    }
}

/// The arguments of the attribute.
#[derive(Default)]
struct Attribute {
    instances: Option<(Ident, Vec<Instance>)>,
    require: Vec<Expr>,
    max_threads: Option<u32>,
    min_blocks: Option<u32>,
}

impl Parse for Attribute {
    fn parse(input: ParseStream) -> syn::Result<Attribute> {
        let mut attribute = Attribute::default();
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            if input.peek(Token![=]) {
                input.parse::<Token![=]>()?;
                let list;
                bracketed!(list in input);
                let instances = Punctuated::<Instance, Token![,]>::parse_terminated(&list)?;
                if instances.is_empty() {
                    return Err(Error::new(key.span(), "a kernel needs an instance"));
                }
                if attribute.instances.is_some() {
                    return Err(Error::new(key.span(), "a kernel has one type parameter"));
                }
                attribute.instances = Some((key, instances.into_iter().collect()));
            } else {
                let content;
                parenthesized!(content in input);
                match key.to_string().as_str() {
                    "require" => attribute
                        .require
                        .extend(Punctuated::<Expr, Token![,]>::parse_terminated(&content)?),
                    "max_threads" => {
                        let n: LitInt = content.parse()?;
                        let value: u32 = n.base10_parse()?;
                        if !(1..=1024).contains(&value) {
                            return Err(Error::new(n.span(), "a block has 1 to 1024 threads"));
                        }
                        attribute.max_threads = Some(value);
                    }
                    "min_blocks" => {
                        attribute.min_blocks = Some(content.parse::<LitInt>()?.base10_parse()?);
                    }
                    _ => {
                        return Err(Error::new(
                            key.span(),
                            "expected `T = [types]`, `require(…)`, `max_threads(N)` or `min_blocks(N)`",
                        ));
                    }
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(attribute)
    }
}

/// Reads `#[kernel(attribute)] item`.
pub fn kernel(attribute: TokenStream, item: TokenStream) -> syn::Result<Kernel> {
    let attribute: Attribute = syn::parse2(attribute)?;
    let mut item: ItemFn = syn::parse2(item)?;
    let sig = &item.sig;
    if sig.unsafety.is_none() {
        return Err(Error::new(
            sig.fn_token.span(),
            "a kernel is an `unsafe fn`: its handles are not checked on the chip",
        ));
    }
    if let Some(token) = sig.asyncness.map(|t| t.span()).or(sig
        .constness
        .map(|t| t.span())
        .or(sig.abi.as_ref().map(Spanned::span)))
    {
        return Err(Error::new(token, "a kernel is a plain `unsafe fn`"));
    }
    if !matches!(sig.output, ReturnType::Default) {
        return Err(Error::new(sig.output.span(), "a kernel returns nothing"));
    }
    if let Some(clause) = &sig.generics.where_clause {
        return Err(Error::new(
            clause.span(),
            "write the bounds of a kernel's type parameter at the parameter",
        ));
    }

    let generic = generic(&item, attribute.instances)?;
    let params = sig
        .inputs
        .iter()
        .map(|arg| param(arg, generic.as_ref().map(|g| &g.name)))
        .collect::<syn::Result<Vec<_>>>()?;
    for param in &params {
        if param.name == "target" || param.name == "config" {
            return Err(Error::new(
                param.name.span(),
                "`target` and `config` are parameters of the launcher",
            ));
        }
    }
    let (block, shared) = shared::rewrite(
        &sig.ident,
        generic.as_ref().map(|g| &g.name),
        item.block.to_token_stream(),
    )?;
    item.block = syn::parse2(block)?;
    Ok(Kernel {
        item,
        generic,
        params,
        require: attribute.require,
        max_threads: attribute.max_threads.unwrap_or(1024),
        min_blocks: attribute.min_blocks.unwrap_or(0),
        shared,
    })
}

/// Matches the function's type parameter with the attribute's instances.
fn generic(
    item: &ItemFn,
    instances: Option<(Ident, Vec<Instance>)>,
) -> syn::Result<Option<Generic>> {
    let generics = &item.sig.generics;
    let span = generics.span();
    let mut params = generics.params.iter();
    match (params.next(), params.next(), instances) {
        (None, _, None) => Ok(None),
        (None, _, Some((name, _))) => Err(Error::new(
            name.span(),
            "the function has no type parameter of this name",
        )),
        (Some(_), _, None) => Err(Error::new(
            span,
            "a generic kernel names its instances: `#[kernel(T = [f32, f64])]`",
        )),
        (Some(GenericParam::Type(param)), None, Some((name, instances))) => {
            if param.ident != name {
                return Err(Error::new(
                    name.span(),
                    format!("the function's type parameter is `{}`", param.ident),
                ));
            }
            Ok(Some(Generic {
                name,
                bounds: param.bounds.clone(),
                instances,
            }))
        }
        _ => Err(Error::new(
            span,
            "a kernel is generic over at most one type and nothing else",
        )),
    }
}

/// Reads one parameter.
fn param(arg: &FnArg, generic: Option<&Ident>) -> syn::Result<Param> {
    let FnArg::Typed(arg) = arg else {
        return Err(Error::new(arg.span(), "a kernel has no `self`"));
    };
    let Pat::Ident(name) = &*arg.pat else {
        return Err(Error::new(
            arg.pat.span(),
            "a kernel's parameter is a plain name",
        ));
    };
    let ty = qualified(&arg.ty, generic)?;
    Ok(Param {
        name: name.ident.clone(),
        kind: ParamKind::of(&ty, generic),
        ty,
    })
}

/// `T` of `Name<T>`.
pub fn type_argument(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(element) => Some(element),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(attribute: TokenStream, item: TokenStream) -> String {
        match kernel(attribute, item) {
            Ok(_) => panic!("accepted"),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let plain = quote! { unsafe fn k(n: u32) {} };
        let generic = quote! { unsafe fn k<T: Real>(n: T) {} };
        for (attribute, item, message) in [
            (quote!(), quote! { fn k() {} }, "unsafe fn"),
            (
                quote!(),
                quote! { unsafe fn k() -> u32 { 0 } },
                "returns nothing",
            ),
            (quote!(), quote! { async unsafe fn k() {} }, "plain"),
            (quote!(), quote! { unsafe extern "C" fn k() {} }, "plain"),
            (
                quote!(),
                quote! { unsafe fn k((a, b): (u32, u32)) {} },
                "plain name",
            ),
            (quote!(), quote! { unsafe fn k(target: u32) {} }, "launcher"),
            (
                quote!(),
                quote! { unsafe fn k<T>(n: T) where T: Real {} },
                "at the parameter",
            ),
            (quote!(), generic.clone(), "names its instances"),
            (quote!(U = [f32]), generic.clone(), "type parameter is `T`"),
            (quote!(T = []), generic.clone(), "needs an instance"),
            (quote!(T = [&f32]), generic.clone(), "such as `f64`"),
            (quote!(T = [Vec<f32>]), generic.clone(), "such as `f64`"),
            (quote!(T = [f32], T = [f64]), generic, "one type parameter"),
            (quote!(T = [f32]), plain.clone(), "no type parameter"),
            (quote!(threads(3)), plain.clone(), "expected"),
            (quote!(max_threads(0)), plain.clone(), "1 to 1024"),
            (quote!(max_threads(1025)), plain, "1 to 1024"),
            (
                quote!(),
                quote! { unsafe fn k() { let x = shared_array![u32, 3]; } },
                "shared_array![T; N]",
            ),
        ] {
            let got = error(attribute, item);
            assert!(got.contains(message), "{got}");
        }
    }

    #[test]
    fn options_parameters_and_shared_arrays_are_read() {
        let kernel = kernel(
            quote!(
                T = [f32, f64],
                require(n > 0, y.len() == n as usize),
                max_threads(96),
                min_blocks(2)
            ),
            quote! {
                unsafe fn k<T: Real>(n: u32, x: Global<T>, y: luge_kernel::mem::GlobalMut<u64>) {
                    let mut a: Shared<T> = shared_array![T; N * 2];
                    if n > 0 {
                        use_it(shared_array![u32; 5]);
                    }
                }
            },
        )
        .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((kernel.max_threads, kernel.min_blocks), (96, 2));
        assert_eq!(kernel.require.len(), 2);
        assert!(matches!(
            kernel.params.iter().map(|p| &p.kind).collect::<Vec<_>>()[..],
            [
                ParamKind::Scalar(_),
                ParamKind::Global(_),
                ParamKind::GlobalMut(_)
            ]
        ));
        let names: Vec<_> = kernel
            .shared
            .iter()
            .map(|s| (&*s.name, s.generic))
            .collect();
        assert_eq!(names, [("a", true), ("shared_array#1", false)]);
        assert_eq!(kernel.shared[1].symbol, "__luge_shared_k_1");
    }

    #[test]
    fn complex_numbers_and_what_belongs_to_a_field_are_scalars() {
        let kernel = kernel(
            quote!(T = [f32, luge_kernel::math::Complex<f64>]),
            quote! {
                unsafe fn k<T: Field>(a: T::Real, b: Complex<f32>, x: Global<T::Real>) {}
            },
        )
        .unwrap_or_else(|e| panic!("{e}"));
        let suffixes = kernel.generic.expect("a type parameter").instances;
        let suffixes: Vec<String> = suffixes
            .into_iter()
            .map(|instance| instance.suffix)
            .collect();
        assert_eq!(suffixes, ["f32", "complex_f64"]);
        let real = quote! { <T as ::luge_kernel::math::Field>::Real }.to_string();
        let kinds: Vec<_> = (kernel.params.iter())
            .map(|param| match &param.kind {
                ParamKind::Scalar(ty) => ("scalar", quote!(#ty).to_string()),
                ParamKind::Global(ty) => ("buffer", quote!(#ty).to_string()),
                _ => ("other", String::new()),
            })
            .collect();
        assert_eq!(
            kinds,
            [
                ("scalar", real.clone()),
                ("scalar", quote!(Complex<f32>).to_string()),
                ("buffer", real),
            ]
        );
    }
}
