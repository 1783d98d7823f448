//! The `#[distributed_lock]` attribute. Use it through `lock-runtime`, which re-exports and documents it: the
//! expansion refers to items of that crate, in exactly the same version.

mod args;
mod arguments;
mod duration;
mod expand;
mod function;
#[cfg(test)]
mod fuzzing;
mod key;
mod return_type;
mod suggest;
#[cfg(test)]
mod tests;
mod tokens;
mod values;

use proc_macro::TokenStream;

#[expect(
    missing_docs,
    reason = "`lock-runtime` contains the manual, whose examples need that crate"
)]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into()).into()
}
