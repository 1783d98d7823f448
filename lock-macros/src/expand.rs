//! Expands an annotated function into the same function with the lock around its body.
//!
//! The expansion is one item that contains each of the user's tokens once. Its variables are all named
//! `__distributed_lock`. The body can't see them, but in a pattern that name would refer to a user's constant
//! of the same name: a function declared before them shadows it.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt, quote, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, PatIdent, Signature, Stmt, Token, parse2, token};

use crate::args::Args;
use crate::function::{Body, Function, find_async_block};
use crate::return_type::ReturnType;
use crate::tokens::respan;

pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    // The braces of a block that such a function takes from a macro's call look unnecessary in the expansion.
    let lints = has_metavariable(&item).then(|| quote!(#[allow(unused_braces)]));
    let expanded = match (parse2::<Args>(args), parse2::<Function>(item.clone())) {
        (Ok(args), Ok(function)) => {
            expand_function(&args, function).map(|function| quote!(#lints #function))
        }
        (Err(mut errors), Err(error)) => {
            errors.combine(error);
            Err(errors)
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    expanded.unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#item #error)
    })
}

fn expand_function(args: &Args, function: Function) -> syn::Result<TokenStream> {
    let Function {
        attributes,
        visibility,
        signature,
        brace,
        inner_attributes,
        body,
    } = function;
    let body = match body {
        Body::Async(tokens) => {
            args.check_names(&argument_names(&signature))?;
            let returns = ReturnType::from_async_fn(&signature);
            wrap_body((args, &signature.ident), &returns, &brace, tokens)
        }
        Body::AsyncBlock(mut statements) => {
            let returns = ReturnType::from_future_fn(&signature);
            if let Some(block) = find_async_block(&mut statements) {
                let inner = &block.block;
                let mut body = TokenStream::new();
                body.append_all(&inner.stmts);
                let wrapped =
                    wrap_body((args, &signature.ident), &returns, &inner.brace_token, body);
                // The block evaluates the key, so it must own the arguments.
                block.capture = Some(<Token![move]>::default());
                block.block.stmts = vec![Stmt::Expr(Expr::Verbatim(wrapped), None)];
            }
            quote!(#(#statements)*)
        }
    };
    let mut tokens = quote!(#(#attributes)* #visibility #signature);
    brace.surround(&mut tokens, |tokens| {
        tokens.append_all(inner_attributes);
        tokens.extend(body);
    });
    Ok(tokens)
}

/// Returns code that acquires the lock and runs `body` under it.
fn wrap_body(
    (args, function): (&Args, &Ident),
    returns: &ReturnType,
    brace: &token::Brace,
    body: TokenStream,
) -> TokenStream {
    let Args { krate, options, .. } = args;
    let mixed = Span::mixed_site();
    let lock = args.lock_expr(function);
    let failed = match &options.or_else {
        Some(or_else) => or_else.to_token_stream(),
        None => respan(
            quote!(|__distributed_lock| #krate::FromLockError::from_lock_error(__distributed_lock)),
            returns.span.resolved_at(mixed),
        ),
    };
    let anchor = returns.type_anchor();
    let guard = options
        .guard
        .as_ref()
        .map(|name| quote_spanned!(mixed=> let #name: &#krate::LockGuard = __distributed_lock;));
    let block = body_block(brace, body);

    let ended = quote_spanned! {mixed=>
        ::core::result::Result::unwrap_or_else(
            match __distributed_lock {
                ::core::result::Result::Ok(ref __distributed_lock) => {
                    #krate::__private::Guarded::new(__distributed_lock, async move { #anchor #guard #block }).await
                }
                ::core::result::Result::Err(__distributed_lock) => ::core::result::Result::Err(__distributed_lock),
            },
            #failed,
        )
    };
    let value = match &options.on_busy {
        None => ended,
        // A `match`, since a diverging arm makes no code after it unreachable.
        Some(busy) => quote_spanned! {mixed=>
            match __distributed_lock {
                ::core::result::Result::Err(ref __distributed_lock) if __distributed_lock.is_busy() => #busy,
                _ => #ended,
            }
        },
    };
    // A function that never returns must not contain `return`.
    let last = if returns.is_never() {
        value
    } else {
        quote_spanned!(mixed=> return #value;)
    };
    quote_spanned! {mixed=>
        const fn __distributed_lock() {}
        let __distributed_lock = #lock;
        let __distributed_lock = #krate::__private::acquire(__distributed_lock).await;
        #last
    }
}

/// Returns the body as a block with the location of the user's braces, for errors about the body's value, but not with
/// their hygiene, which would trigger `unused_braces`.
fn body_block(brace: &token::Brace, body: TokenStream) -> TokenStream {
    let mut block = Group::new(Delimiter::Brace, body);
    block.set_span(brace.span.join().resolved_at(Span::mixed_site()));
    TokenTree::from(block).into()
}

/// Returns `true` if the tokens contain the value of a `macro_rules!` metavariable.
fn has_metavariable(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => {
            group.delimiter() == Delimiter::None || has_metavariable(&group.stream())
        }
        _ => false,
    })
}

/// Returns the names that a function's signature binds to values.
fn argument_names(signature: &Signature) -> Vec<String> {
    struct CollectNames(Vec<String>);
    impl VisitMut for CollectNames {
        fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
            self.0.push(pattern.ident.to_string());
            visit_mut::visit_pat_ident_mut(self, pattern);
        }
    }
    let mut names = CollectNames(Vec::new());
    names.visit_signature_mut(&mut signature.clone());
    names.0
}
