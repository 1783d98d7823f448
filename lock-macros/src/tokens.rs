//! Errors, and tokens whose spans errors can point at.

use std::fmt::Display;

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Error, Expr, Lit};

/// Returns an error with a problem and a remedy.
pub(crate) fn error(span: Span, problem: impl Display, help: &str) -> Error {
    Error::new(span, format!("{problem}\nhelp: {help}"))
}

/// Returns `&(expr)` with the span of the expression on the `&`, so that errors about it point there.
pub(crate) fn borrow(expr: &Expr) -> TokenStream {
    quote_spanned!(expr.span().resolved_at(Span::mixed_site())=> &(#expr))
}

/// Returns the same tokens, all with `span` but for a `$crate`.
pub(crate) fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            if let TokenTree::Group(group) = &mut token {
                *group = Group::new(group.delimiter(), respan(group.stream(), span));
            }
            // `$crate` means the crate of its span.
            if !matches!(&token, TokenTree::Ident(ident) if ident == "$crate") {
                token.set_span(span);
            }
            token
        })
        .collect()
}

/// Returns the expression within parentheses, and within the invisible group around the value of a
/// `macro_rules!` metavariable.
pub(crate) fn inner(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => inner(&group.expr),
        Expr::Paren(paren) => inner(&paren.expr),
        expr => expr,
    }
}

/// Returns the literal that an expression is.
pub(crate) fn literal(expr: &Expr) -> Option<&Lit> {
    match inner(expr) {
        Expr::Lit(literal) => Some(&literal.lit),
        _ => None,
    }
}
