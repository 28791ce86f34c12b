//! Reads the attribute and the function into what the expansion needs.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Error, Expr, FnArg, GenericArgument, GenericParam, Ident, ItemFn, LitInt, Pat, PathArguments,
    ReturnType, Token, Type, TypeParamBound, bracketed, parenthesized,
};

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
    pub instances: Vec<Ident>,
}

/// A parameter of a kernel.
pub struct Param {
    pub name: Ident,
    pub kind: ParamKind,
}

/// What a parameter is, with its type or element type.
pub enum ParamKind {
    Scalar(Type),
    Global(Type),
    GlobalMut(Type),
}

/// The arguments of the attribute.
#[derive(Default)]
struct Attribute {
    instances: Option<(Ident, Vec<Ident>)>,
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
                let types = Punctuated::<Ident, Token![,]>::parse_terminated(&list)?;
                if types.is_empty() {
                    return Err(Error::new(key.span(), "a kernel needs an instance"));
                }
                if attribute.instances.is_some() {
                    return Err(Error::new(key.span(), "a kernel has one type parameter"));
                }
                attribute.instances = Some((key, types.into_iter().collect()));
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
        .map(param)
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
fn generic(item: &ItemFn, instances: Option<(Ident, Vec<Ident>)>) -> syn::Result<Option<Generic>> {
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
fn param(arg: &FnArg) -> syn::Result<Param> {
    let FnArg::Typed(arg) = arg else {
        return Err(Error::new(arg.span(), "a kernel has no `self`"));
    };
    let Pat::Ident(name) = &*arg.pat else {
        return Err(Error::new(
            arg.pat.span(),
            "a kernel's parameter is a plain name",
        ));
    };
    let kind = match handle(&arg.ty) {
        Some((handle, element)) if handle == "Global" => ParamKind::Global(element),
        Some((handle, element)) if handle == "GlobalMut" => ParamKind::GlobalMut(element),
        _ => ParamKind::Scalar((*arg.ty).clone()),
    };
    Ok(Param {
        name: name.ident.clone(),
        kind,
    })
}

/// `Name<T>` as its last path segment and `T`.
fn handle(ty: &Type) -> Option<(Ident, Type)> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(element) => Some((segment.ident.clone(), element.clone())),
        _ => None,
    }
}
