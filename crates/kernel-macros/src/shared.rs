//! Resolves the `shared_array!`s of a kernel's body.
//!
//! Each call site gets a number. On the host it becomes a look-up in the block's table of static
//! arrays (laid out from the `SharedDesc`s of the kernel); on nvptx64 it becomes the address of a
//! module-scope `.shared` array named after kernel and number.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::{Error, Expr, Type, TypeArray};

use crate::qualified::qualified;

/// One `shared_array![T; N]`.
pub struct SharedSite {
    /// Name of the variable it is bound to, or `shared_array#k`.
    pub name: String,
    /// Element type as written.
    pub element: Type,
    /// Length as written.
    pub len: Expr,
    /// Whether the element type names the kernel's type parameter.
    pub generic: bool,
    /// The `.shared` symbol on nvptx64.
    pub symbol: String,
}

/// Rewrites `body`, collecting its sites.
pub fn rewrite(
    kernel: &Ident,
    generic: Option<&Ident>,
    body: TokenStream,
) -> syn::Result<(TokenStream, Vec<SharedSite>)> {
    let mut sites = Vec::new();
    let body = rewrite_stream(kernel, generic, body, &mut sites)?;
    Ok((body, sites))
}

fn rewrite_stream(
    kernel: &Ident,
    generic: Option<&Ident>,
    stream: TokenStream,
    sites: &mut Vec<SharedSite>,
) -> syn::Result<TokenStream> {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut out = TokenStream::new();
    let mut i = 0;
    while i < tokens.len() {
        if let (TokenTree::Ident(name), Some(TokenTree::Punct(bang)), Some(TokenTree::Group(args))) =
            (&tokens[i], tokens.get(i + 1), tokens.get(i + 2))
            && name == "shared_array"
            && bang.as_char() == '!'
        {
            let k = sites.len();
            let mut group = Group::new(Delimiter::Bracket, args.stream());
            group.set_span(args.span());
            let array: TypeArray = syn::parse2(TokenTree::Group(group).into())
                .map_err(|_| Error::new(args.span(), "expected `shared_array![T; N]`"))?;
            let site = SharedSite {
                name: binding(&tokens[..i]).unwrap_or_else(|| format!("shared_array#{k}")),
                generic: generic.is_some_and(|g| mentions(&array.elem, g)),
                element: qualified(&array.elem, generic)?,
                len: array.len,
                symbol: format!("__luge_shared_{kernel}_{k}"),
            };
            out.extend(site_expression(k, &site));
            sites.push(site);
            i += 3;
            continue;
        }
        out.extend([match &tokens[i] {
            TokenTree::Group(group) => {
                let inner = rewrite_stream(kernel, generic, group.stream(), sites)?;
                let mut rewritten = Group::new(group.delimiter(), inner);
                rewritten.set_span(group.span());
                TokenTree::Group(rewritten)
            }
            other => other.clone(),
        }]);
        i += 1;
    }
    Ok(out)
}

/// The name in the `let name … =` that the tokens end with.
fn binding(before: &[TokenTree]) -> Option<String> {
    match before.last()? {
        TokenTree::Punct(p) if p.as_char() == '=' => {}
        _ => return None,
    }
    let start = before
        .iter()
        .rposition(|t| matches!(t, TokenTree::Ident(i) if i == "let"))?;
    before[start + 1..].iter().find_map(|t| match t {
        TokenTree::Ident(i) if i != "mut" => Some(i.to_string()),
        _ => None,
    })
}

/// Whether `ty` names `ident` anywhere.
fn mentions(ty: &Type, ident: &Ident) -> bool {
    fn in_stream(stream: TokenStream, ident: &Ident) -> bool {
        stream.into_iter().any(|t| match t {
            TokenTree::Ident(i) => i == *ident,
            TokenTree::Group(g) => in_stream(g.stream(), ident),
            _ => false,
        })
    }
    in_stream(quote!(#ty), ident)
}

/// What stands in the place of the macro call.
fn site_expression(k: usize, site: &SharedSite) -> TokenStream {
    let SharedSite { element, len, .. } = site;
    let address = format!("mov.u32 {{0}}, {};", site.symbol);
    let variable = format_ident!("__shared_{k}");
    quote! {{
        #[cfg(target_arch = "nvptx64")]
        let #variable = {
            let address: u32;
            // SAFETY: takes the address of a symbol that this crate declares.
            unsafe {
                ::core::arch::asm!(
                    #address,
                    out(reg32) address,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            // SAFETY: the symbol is declared with this length, or longer.
            unsafe { ::luge_kernel::__private::static_shared::<#element>(address, #len) }
        };
        #[cfg(not(target_arch = "nvptx64"))]
        let #variable = ::luge_kernel::__private::static_shared::<#element>(#k, #len);
        #variable
    }}
}
