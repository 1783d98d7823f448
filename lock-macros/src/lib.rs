//! The `#[distributed_lock]` attribute. Use it through `lock-runtime`, which re-exports it and
//! carries its manual: the expansion names that crate, in the very same version.

mod args;
mod duration;
mod expand;
mod item;
mod key;
mod nearest;
mod output;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

#[expect(
    missing_docs,
    reason = "`lock-runtime` has the manual, whose examples need it"
)]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into()).into()
}

/// An error that says what is wrong and what to write instead.
fn error(span: proc_macro2::Span, what: impl std::fmt::Display, help: &str) -> syn::Error {
    syn::Error::new(span, format!("{what}\nhelp: {help}"))
}
