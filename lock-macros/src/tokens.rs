//! Tokens and errors with the spans that errors need.

use std::fmt::Display;

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Expr};

/// An error that says what is wrong and what to write instead.
pub(crate) fn error(span: Span, problem: impl Display, help: &str) -> Error {
    Error::new(span, format!("{problem}\nhelp: {help}"))
}

/// `&expr`, with the `&` where the expression is: an error about it points there.
pub(crate) fn borrow(expr: &Expr) -> TokenStream {
    let by_ref = quote_spanned!(expr.span().resolved_at(Span::mixed_site())=> &);
    quote!(#by_ref #expr)
}

/// The same tokens, all with that span.
pub(crate) fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            if let TokenTree::Group(group) = &mut token {
                *group = Group::new(group.delimiter(), respan(group.stream(), span));
            }
            token.set_span(span);
            token
        })
        .collect()
}

/// Removes the invisible group around what a `macro_rules!` metavariable holds.
pub(crate) fn ungrouped(expr: Expr) -> Expr {
    match expr {
        Expr::Group(group) => ungrouped(*group.expr),
        expr => expr,
    }
}
