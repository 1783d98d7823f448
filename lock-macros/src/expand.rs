//! Expands an annotated function into the same function with the lock around its body.
//!
//! The expansion is one item that contains each of the user's tokens once. Its variables are all named
//! `__distributed_lock`. The body can't see them, but in a pattern that name would refer to a user's constant
//! of the same name: a function declared before them shadows it.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt, quote, quote_spanned};
use syn::{Expr, Stmt, Token, parse2, token};

use crate::args::Args;
use crate::arguments::{Own, capture, mentions, names};
use crate::function::{Body, Function, find_async_block};
use crate::return_type::ReturnType;
use crate::tokens::{error, respan};

pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    // The braces of a block that such a function takes from a macro's call look unnecessary in the expansion.
    let lints = has_metavariable(&item).then(|| quote!(#[allow(unused_braces)]));
    let expanded = match (
        parse2::<Args>(args.clone()),
        parse2::<Function>(item.clone()),
    ) {
        (Ok(options), Ok(function)) => {
            expand_function((&options, &args), function).map(|function| quote!(#lints #function))
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

/// `given` are the tokens of the arguments.
fn expand_function(
    (args, given): (&Args, &TokenStream),
    function: Function,
) -> syn::Result<TokenStream> {
    let Function {
        attributes,
        visibility,
        mut signature,
        brace,
        inner_attributes,
        body,
    } = function;
    let names = names(&signature);
    let uses = |body: &TokenStream, name: &Ident| mentions(body, name) || mentions(given, name);
    // That must outlive the body.
    let or_else = args.options.or_else.to_token_stream();
    let body = match body {
        Body::Async(tokens) => {
            args.check_names(&names.iter().map(Ident::to_string).collect::<Vec<_>>())?;
            let returns = ReturnType::from_async_fn(&signature);
            let own = Own {
                body: &tokens,
                given,
                or_else: &or_else,
                attributes: &attributes,
            };
            let inputs = signature.inputs.iter_mut().enumerate();
            let owned = inputs.map(|(number, input)| own.argument(number, input));
            let owned = owned.collect();
            let receiver = signature.receiver();
            let changes_self = receiver.is_some_and(|it| it.mutability.is_some());
            wrap_body(
                (args, &signature.ident),
                &returns,
                &brace,
                (owned, changes_self),
                tokens,
            )?
        }
        Body::AsyncBlock(mut statements) => {
            let returns = ReturnType::from_future_fn(&signature);
            if let Some(block) = find_async_block(&mut statements) {
                let inner = &block.block;
                let mut body = TokenStream::new();
                body.append_all(&inner.stmts);
                let owned = names.iter().rev();
                let owned = owned.filter(|it| uses(&body, it) && !mentions(&or_else, it));
                let owned = owned.map(capture).collect();
                let function = (args, &signature.ident);
                let brace = &inner.brace_token;
                let wrapped = wrap_body(function, &returns, brace, (owned, false), body)?;
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

/// Returns code that acquires the lock and runs `body` under it, after the statements that capture what it
/// owns.
fn wrap_body(
    (args, function): (&Args, &Ident),
    returns: &ReturnType,
    brace: &token::Brace,
    (owned, changes_self): (TokenStream, bool),
    body: TokenStream,
) -> syn::Result<TokenStream> {
    let Args { krate, options, .. } = args;
    let mixed = Span::mixed_site();
    let lock = args.lock_expr(function);
    let failed = match &options.or_else {
        Some(or_else) => or_else.to_token_stream(),
        None if returns.is_nothing() => {
            return Err(error(
                returns.span,
                format!("`{function}` returns nothing, so it cannot return a lock error"),
                "return `Result<(), LockError>`, or handle the error: `or_else = |error| eprintln!(\"{error}\")`",
            ));
        }
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
    let lints = match changes_self {
        // It can't be bound anew, so it looks as if nothing read what the body assigns to its fields.
        true => quote!(#[allow(unused_assignments, unused_braces)]),
        false => quote!(#[allow(unused_braces)]),
    };

    let ended = quote_spanned! {mixed=>
        ::core::result::Result::unwrap_or_else(
            match __distributed_lock {
                ::core::result::Result::Ok(ref __distributed_lock) => {
                    #krate::__private::Guarded::new(__distributed_lock, async move { #owned #anchor #guard #lints #block }).await
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
    Ok(quote_spanned! {mixed=>
        const fn __distributed_lock() {}
        let __distributed_lock = #lock;
        let __distributed_lock = #krate::__private::acquire(__distributed_lock).await;
        #last
    })
}

/// Returns a block that counts as the user's: errors about the body's value are there, and the user's edition
/// says when the temporaries of its last expression are dropped.
fn body_block(brace: &token::Brace, body: TokenStream) -> TokenStream {
    let mut block = Group::new(Delimiter::Brace, body);
    block.set_span(brace.span.join());
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
