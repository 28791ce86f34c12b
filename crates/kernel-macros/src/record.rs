//! `#[derive(Record)]`: a struct of words that the host writes and a kernel reads by the names of its fields.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Meta, Token, Type, punctuated::Punctuated};

/// Derives `Record`.
pub fn derive(input: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let span = input.span();
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(span, "a record is a struct"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(span, "a record's fields have names"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(span, "a record is not generic"));
    }
    if !is_repr_c(&input)? {
        return Err(Error::new(
            span,
            "a record is `#[repr(C)]`, or `#[repr(C, packed(4))]` if it has 64-bit fields",
        ));
    }
    let (name, vis) = (&input.ident, &input.vis);
    let view = format_ident!("{name}In");
    let summary = format!("A [`{name}`] in words `W`: a field is read when it is asked for.");
    let mut methods = TokenStream::new();
    let mut sizes = Vec::new();
    for field in &fields.named {
        let field_name = field.ident.as_ref().expect("a named field");
        let docs = field.attrs.iter().filter(|a| a.path().is_ident("doc"));
        let vis = &field.vis;
        let ty = &field.ty;
        sizes.push(quote! { ::core::mem::size_of::<#ty>() });
        let offset = quote! { (::core::mem::offset_of!(#name, #field_name) / 4) as u32 };
        let method = match ty {
            Type::Path(path) if path.path.is_ident("u32") => quote! {
                #vis fn #field_name(self) -> u32 {
                    ::luge_kernel::record::Words::word(self.0, #offset)
                }
            },
            Type::Path(path) if path.path.is_ident("u64") => quote! {
                #vis fn #field_name(self) -> u64 {
                    let low = ::luge_kernel::record::Words::word(self.0, #offset);
                    let high = ::luge_kernel::record::Words::word(self.0, #offset + 1);
                    u64::from(low) | u64::from(high) << 32
                }
            },
            Type::Array(array) if matches!(&*array.elem, Type::Path(p) if p.path.is_ident("u32")) =>
            {
                quote! {
                    #vis fn #field_name(self, i: u32) -> u32 {
                        ::luge_kernel::record::Words::word(self.0, #offset + i)
                    }
                }
            }
            other => {
                return Err(Error::new(
                    other.span(),
                    "a record's field is a `u32`, a `u64` or a `[u32; N]`",
                ));
            }
        };
        methods.extend(quote! {
            #(#docs)*
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            #method
        });
    }
    Ok(quote! {
        const _: () = ::core::assert!(
            ::core::mem::align_of::<#name>() == 4
                && ::core::mem::size_of::<#name>() == 0 #(+ #sizes)*,
            "a record is words without gaps: `#[repr(C, packed(4))]`"
        );

        // SAFETY: the assertion above: the struct is words, and nothing between them.
        unsafe impl ::luge_kernel::record::Record for #name {
            type In<W: ::luge_kernel::record::Words> = #view<W>;

            #[inline(always)]
            fn within<W: ::luge_kernel::record::Words>(words: W) -> #view<W> {
                #view(words)
            }
        }

        #[doc = #summary]
        #[derive(Clone, Copy)]
        #vis struct #view<W>(W);

        #[allow(clippy::len_without_is_empty, reason = "a field `len` is not the length of its record")]
        impl<W: ::luge_kernel::record::Words> #view<W> {
            #methods
        }
    })
}

fn is_repr_c(input: &DeriveInput) -> syn::Result<bool> {
    for attribute in &input.attrs {
        if attribute.path().is_ident("repr") {
            let list: Punctuated<Meta, Token![,]> =
                attribute.parse_args_with(Punctuated::parse_terminated)?;
            return Ok(list.iter().any(|meta| meta.path().is_ident("C")));
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_is_refused() {
        for (input, message) in [
            (quote! { #[repr(C)] enum A { B } }, "is a struct"),
            (quote! { #[repr(C)] struct A(u32); }, "have names"),
            (quote! { #[repr(C)] struct A<T> { a: T } }, "not generic"),
            (quote! { struct A { a: u32 } }, "repr(C)"),
            (quote! { #[repr(packed)] struct A { a: u32 } }, "repr(C)"),
            (
                quote! { #[repr(C)] struct A { a: u16 } },
                "a `u32`, a `u64`",
            ),
            (
                quote! { #[repr(C)] struct A { a: [u64; 2] } },
                "a `u32`, a `u64`",
            ),
        ] {
            let got = derive(input).expect_err("accepted").to_string();
            assert!(got.contains(message), "{got}");
        }
    }
}
