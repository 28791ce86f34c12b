//! Types that belong to a kernel's type parameter, written so that they mean the same where that is an alias.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Ident, Type};

/// `ty` with `<T as Field>::Name` in the place of each `T::Name`, for the type parameter `generic` of the name `T`: in
/// what is generated `T` is an alias, which the short form cannot begin with.
pub fn qualified(ty: &Type, generic: Option<&Ident>) -> syn::Result<Type> {
    fn in_stream(stream: TokenStream, generic: &Ident) -> TokenStream {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let is_colon =
            |i: usize| matches!(tokens.get(i), Some(TokenTree::Punct(p)) if p.as_char() == ':');
        (tokens.iter().enumerate())
            .flat_map(|(i, token)| match token {
                TokenTree::Ident(ident)
                    if ident == generic && is_colon(i + 1) && is_colon(i + 2) =>
                {
                    quote! { <#ident as ::luge_kernel::math::Field> }
                }
                TokenTree::Group(group) => {
                    let inner = in_stream(group.stream(), generic);
                    TokenTree::Group(Group::new(group.delimiter(), inner)).into()
                }
                other => other.clone().into(),
            })
            .collect()
    }
    match generic {
        Some(generic) => syn::parse2(in_stream(ty.to_token_stream(), generic)),
        None => Ok(ty.clone()),
    }
}
