//! `#[derive(KernelArgs)]`: a struct of handles and scalars, and what it is on the host.
//!
//! One struct goes in. On the host the derive makes `<Name>Buffers<'a>`, the same fields with device memory in the
//! place of handles, and the `KernelArgs` that leads from the one to the other. On nvptx64 it makes a macro of the
//! struct's name, which hands the fields to `entry!`: an attribute on a function cannot see the fields of its
//! parameters' types.

use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, GenericParam, Ident, Type, TypeParam, Visibility,
};

use crate::parse::ParamKind;
use crate::qualified::qualified;

/// A struct of arguments, understood.
struct Args {
    name: Ident,
    vis: Visibility,
    generic: Option<TypeParam>,
    fields: Vec<Field>,
}

struct Field {
    name: Ident,
    vis: Visibility,
    docs: Vec<Attribute>,
    ty: Type,
    kind: ParamKind,
}

/// Derives `KernelArgs`.
pub fn derive(input: TokenStream) -> syn::Result<TokenStream> {
    let args = read(syn::parse2(input)?)?;
    let host = host(&args);
    let device = device(&args);
    Ok(quote! { #host #device })
}

fn read(input: DeriveInput) -> syn::Result<Args> {
    let span = input.span();
    let Data::Struct(data) = input.data else {
        return Err(Error::new(span, "arguments of a kernel are a struct"));
    };
    let Fields::Named(fields) = data.fields else {
        return Err(Error::new(span, "arguments of a kernel have names"));
    };
    if let Some(clause) = &input.generics.where_clause {
        return Err(Error::new(
            clause.span(),
            "write the bounds of the type parameter at the parameter",
        ));
    }
    let mut params = input.generics.params.into_iter();
    let generic = match (params.next(), params.next()) {
        (None, _) => None,
        (Some(GenericParam::Type(param)), None) => Some(param),
        _ => {
            return Err(Error::new(
                span,
                "arguments of a kernel are generic over at most one type and nothing else",
            ));
        }
    };
    let fields = fields
        .named
        .into_iter()
        .map(|field| {
            let generic = generic.as_ref().map(|g: &TypeParam| &g.ident);
            let ty = qualified(&field.ty, generic)?;
            let kind = ParamKind::of(&ty, generic);
            if matches!(kind, ParamKind::Struct(_)) {
                return Err(Error::new(
                    field.ty.span(),
                    "a field is a scalar or a handle: a kernel takes several structs beside each other",
                ));
            }
            let name = field.ident.expect("a named field");
            let docs = field.attrs.into_iter();
            Ok(Field {
                name,
                vis: field.vis,
                docs: docs.filter(|a| a.path().is_ident("doc")).collect(),
                ty,
                kind,
            })
        })
        .collect::<syn::Result<Vec<_>>>()?;
    Ok(Args {
        name: input.ident,
        vis: input.vis,
        generic,
        fields,
    })
}

/// The struct of buffers, and `KernelArgs`.
fn host(args: &Args) -> TokenStream {
    let Args {
        name, vis, generic, ..
    } = args;
    let buffers = format_ident!("{name}Buffers");
    let summary =
        format!("[`{name}`] as the host makes it: device memory in the place of handles.");
    let fields = args.fields.iter().map(|field| {
        let Field {
            name, vis, docs, ..
        } = field;
        let ty = field.kind.host_type(&quote! { 'a });
        quote! { #(#docs)* #vis #name: #ty }
    });
    let names: Vec<&Ident> = args.fields.iter().map(|field| &field.name).collect();
    let descriptions = args.fields.iter().map(|f| f.kind.description(&f.name));
    let lend = args.fields.iter().map(|field| field.kind.lend(&field.name));
    let take = args.fields.iter().map(|field| field.kind.take());
    // Where a struct has nothing to borrow, its twin has no use for the lifetime.
    let borrows = args
        .fields
        .iter()
        .any(|f| !matches!(f.kind, ParamKind::Scalar(_)));
    let lifetime = borrows.then(|| quote! { 'a, });
    let used = borrows.then(|| quote! { '__a, });
    let parameter = generic.as_ref().map(|g| quote! { #g });
    let argument = generic.as_ref().map(|g| {
        let ident = &g.ident;
        quote! { #ident }
    });
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #summary]
        #[allow(rustdoc::private_intra_doc_links)]
        #vis struct #buffers<#lifetime #parameter> {
            #(#fields,)*
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl<#parameter> ::luge_kernel::host::KernelArgs for #name<#argument> {
            type Buffers<'__a> = #buffers<#used #argument>;

            const FIELDS: &'static [::luge_kernel::host::ParamDesc] = {
                use ::luge_kernel::host::{ElementKind, ParamDesc, ParamKind};
                &[#(#descriptions),*]
            };

            fn lend(
                buffers: Self::Buffers<'_>,
                arguments: &mut ::luge_kernel::__private::Vec<::luge_kernel::host::KernelArg>,
            ) {
                let #buffers { #(#names),* } = buffers;
                #(arguments.push(#lend);)*
            }

            fn take(arguments: &mut ::luge_kernel::__private::Arguments<'_>) -> Self {
                // Fields are evaluated in the order in which they are written.
                Self { #(#names: #take),* }
            }
        }
    }
}

/// The macro that tells `entry!` the fields.
fn device(args: &Args) -> TokenStream {
    let Args { name, vis, .. } = args;
    let hidden = format_ident!("__args_of_{name}");
    let generic = args.generic.as_ref().map(|g| &g.ident);
    let (names, types): (Vec<_>, Vec<_>) = args.fields.iter().map(|f| (&f.name, &f.ty)).unzip();
    // What a macro re-exports is visible within its crate at most, as its kernels are.
    let reach = match vis {
        Visibility::Public(_) => quote! { pub(crate) },
        other => quote! { #other },
    };
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[doc(hidden)]
        #[allow(unused_macros)]
        macro_rules! #hidden {
            ($($state:tt)*) => {
                ::luge_kernel::__private::entry! { [#generic] { #(#names: #types,)* } $($state)* }
            };
        }
        #[cfg(target_arch = "nvptx64")]
        #[doc(hidden)]
        #[allow(unused_imports)]
        #reach use #hidden as #name;
    }
}

/// `tokens` with `argument` in the place of the identifier `parameter`.
pub fn substitute(tokens: TokenStream, parameter: &Ident, argument: &TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(ident) if ident == *parameter => argument.clone(),
            TokenTree::Group(group) => {
                let inner = substitute(group.stream(), parameter, argument);
                TokenTree::Group(proc_macro2::Group::new(group.delimiter(), inner)).into()
            }
            other => other.into(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(input: TokenStream) -> String {
        derive(input).expect_err("accepted").to_string()
    }

    #[test]
    fn what_is_no_struct_of_arguments_is_refused() {
        for (input, message) in [
            (quote! { enum A { B } }, "are a struct"),
            (quote! { struct A(u32); }, "have names"),
            (
                quote! { struct A<T> where T: Real { a: T } },
                "at the parameter",
            ),
            (
                quote! { struct A<T: Real, U: Real> { a: T, b: U } },
                "at most one type",
            ),
            (
                quote! { struct A<'a> { a: Global<u32> } },
                "at most one type",
            ),
            (quote! { struct A { a: Other } }, "a scalar or a handle"),
            (
                quote! { struct A { a: Other<u32> } },
                "a scalar or a handle",
            ),
        ] {
            let got = error(input);
            assert!(got.contains(message), "{got}");
        }
    }

    #[test]
    fn a_type_parameter_is_substituted_wherever_it_stands() {
        let tokens = quote! { a: Global<T>, b: (T, Tiny), t: u32 };
        let name = format_ident!("T");
        let got = substitute(tokens, &name, &quote! { f64 }).to_string();
        let expected = quote! { a: Global<f64>, b: (f64, Tiny), t: u32 };
        assert_eq!(got, expected.to_string());
    }
}
