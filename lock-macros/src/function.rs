//! Parses the annotated function. Its body stays unparsed, so that any tokens are accepted.

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Attribute, Block, Expr, LitStr, Signature, Stmt, Token, Visibility, braced, token};

use crate::tokens::error;

pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) brace: token::Brace,
    pub(crate) inner_attributes: Vec<Attribute>,
    pub(crate) body: Body,
}

pub(crate) enum Body {
    /// The body of an `async fn`.
    Async(TokenStream),
    /// The body of a `fn` that ends in an async block, as `#[async_trait]` generates it.
    AsyncBlock(Vec<Stmt>),
}

impl Parse for Function {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if !is_function(input) {
            let start = input.span();
            input.parse::<TokenStream>()?;
            return Err(error(
                start,
                "expected an `async fn`",
                "put `#[distributed_lock]` on each function that needs the lock",
            ));
        }
        let signature: Signature = input.parse()?;
        if let Some(semicolon) = input.parse::<Option<Token![;]>>()? {
            return Err(error(
                semicolon.span,
                "`#[distributed_lock]` needs a function body",
                "annotate the method in the `impl`, not its declaration in the trait",
            ));
        }
        let content;
        let brace = braced!(content in input);
        let inner_attributes = content.call(Attribute::parse_inner)?;
        let body = Body::new(&signature, content.parse()?)?;
        Ok(Self {
            attributes,
            visibility,
            signature,
            brace,
            inner_attributes,
            body,
        })
    }
}

fn is_function(input: ParseStream) -> bool {
    let ahead = input.fork();
    let qualified = |ahead: ParseStream| {
        ahead.peek(Token![const])
            || ahead.peek(Token![async])
            || ahead.peek(Token![unsafe])
            || ahead.peek(Token![extern])
            || ahead.peek(LitStr)
    };
    while qualified(&ahead) && ahead.parse::<TokenTree>().is_ok() {}
    ahead.peek(Token![fn])
}

impl Body {
    fn new(signature: &Signature, tokens: TokenStream) -> syn::Result<Self> {
        if let Some(token) = &signature.constness {
            return Err(error(
                token.span,
                "a `const fn` cannot wait for a lock",
                "remove `const`",
            ));
        }
        if let Some(abi) = &signature.abi {
            return Err(error(
                abi.extern_token.span,
                "an `extern fn` cannot wait for a lock",
                "move the code that needs the lock into a separate `async fn`",
            ));
        }
        if signature.asyncness.is_some() {
            return Ok(Self::Async(tokens));
        }
        if let Ok(mut statements) = Block::parse_within.parse2(tokens)
            && find_async_block(&mut statements).is_some()
        {
            return Ok(Self::AsyncBlock(statements));
        }
        Err(error(
            signature.fn_token.span,
            "`#[distributed_lock]` needs an `async fn`",
            "if another attribute removes `async`, as `#[tokio::main]` does, put `#[distributed_lock]` above it",
        ))
    }
}

/// Returns the async block in `Box::pin(async move { … })`, `async move { … }.boxed()` or
/// `async move { … }`, if that is the last expression.
pub(crate) fn find_async_block(statements: &mut [Stmt]) -> Option<&mut syn::ExprAsync> {
    fn find_in(expr: &mut Expr) -> Option<&mut syn::ExprAsync> {
        match expr {
            Expr::Async(block) => Some(block),
            Expr::Call(call) => match &*call.func {
                Expr::Path(path) if path.path.segments.last()?.ident == "pin" => {
                    find_in(call.args.first_mut()?)
                }
                _ => None,
            },
            Expr::MethodCall(call) if call.method == "boxed" || call.method == "boxed_local" => {
                find_in(&mut call.receiver)
            }
            _ => None,
        }
    }
    match statements.last_mut()? {
        Stmt::Expr(expr, None) => find_in(expr),
        _ => None,
    }
}
