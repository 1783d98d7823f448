//! The `#[distributed_lock]` attribute. Use it through `lock-runtime`, which re-exports it and
//! carries its manual: the expansion names that crate, in the very same version.

mod args;
mod duration;
mod expand;
mod function;
mod key;
mod return_type;
mod suggest;
#[cfg(test)]
mod tests;
mod tokens;

use proc_macro::TokenStream;

#[expect(
    missing_docs,
    reason = "`lock-runtime` has the manual, whose examples need it"
)]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into()).into()
}
