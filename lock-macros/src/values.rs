//! The values of options. A literal that `lock_runtime` would refuse is refused here already.

use std::ops::RangeInclusive;
use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Expr, ExprUnary, Ident, Lit, Path, UnOp};

use crate::duration;
use crate::tokens::{error, inner, literal};

const DURATION_HELP: &str = "write for example `\"250ms\"`, `\"30s\"`, `\"1m 30s\"` or `\"2h\"`";

/// The range of all durations but `wait`, as `lock_runtime` checks it.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(crate) enum DurationArg {
    Literal(Duration, Span),
    Expr(Expr),
}

impl DurationArg {
    pub(crate) fn parse(input: ParseStream, name: &Ident) -> syn::Result<Self> {
        let value: Expr = input.parse()?;
        let text = match literal(&value) {
            Some(Lit::Str(text)) => text,
            Some(other) => {
                return Err(error(
                    other.span(),
                    format!("`{name}` needs a unit"),
                    DURATION_HELP,
                ));
            }
            None => return Ok(Self::Expr(value)),
        };
        let (text, span) = (text.value(), text.span());
        if name == "wait" && text == "forever" {
            return Ok(Self::Literal(Duration::MAX, span));
        }
        let length =
            duration::parse(&text).map_err(|problem| error(span, problem, DURATION_HELP))?;
        if name == "wait" || (SHORTEST..=LONGEST).contains(&length) {
            return Ok(Self::Literal(length, span));
        }
        let how = if length < SHORTEST { "short" } else { "long" };
        let why = match &*name.to_string() {
            "ttl" => "the lease is renewed while the body runs: `ttl = \"30s\"` suits most",
            "max_hold" => "`max_hold` limits the time of the body; without it there is no limit",
            _ => "`min_hold` keeps the lock after the body; without it the lock is free then",
        };
        Err(error(
            span,
            format!("`{name} = \"{text}\"` is too {how}"),
            &format!("choose from 10ms to 365 days; {why}"),
        ))
    }

    pub(crate) fn to_tokens(&self, krate: &Path) -> TokenStream {
        let mixed = Span::mixed_site();
        match self {
            Self::Literal(Duration::MAX, _) => {
                quote_spanned!(mixed=> #krate::__private::Duration::MAX)
            }
            Self::Literal(length, _) => {
                let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
                quote_spanned!(mixed=> #krate::__private::Duration::from_millis(#millis))
            }
            Self::Expr(value) => quote_spanned!(mixed=> #value),
        }
    }
}

/// Parses a number in a range, or an expression that may evaluate to one.
pub(crate) fn parse_count(
    input: ParseStream,
    name: &Ident,
    range: RangeInclusive<u64>,
) -> syn::Result<Expr> {
    let value: Expr = input.parse()?;
    let (problem, help) = match literal(&value) {
        Some(Lit::Int(number)) => match number.base10_parse() {
            Ok(number) if range.contains(&number) => return Ok(value),
            _ => (
                format!("`{name} = {number}` is out of range"),
                format!("choose from {} to {}", range.start(), range.end()),
            ),
        },
        None if !is_negative(&value) => return Ok(value),
        _ => (
            format!("`{name}` is a whole number"),
            format!("write for example `{name} = 1`"),
        ),
    };
    Err(error(value.span(), problem, &help))
}

fn is_negative(value: &Expr) -> bool {
    matches!(value, Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) if literal(expr).is_some())
}

/// Parses one of several words, each of which stands for a value.
pub(crate) fn parse_choice<T: Copy>(
    input: ParseStream,
    name: &Ident,
    words: &[(&str, T)],
) -> syn::Result<T> {
    let value: Expr = input.parse()?;
    let word = inner(&value).to_token_stream().to_string();
    if let Some((_, choice)) = words.iter().find(|(known, _)| *known == word) {
        return Ok(*choice);
    }
    let ways: Vec<_> = words
        .iter()
        .map(|(word, _)| format!("`{name} = {word}`"))
        .collect();
    let ways = match &ways[..] {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        ways => ways.concat(),
    };
    Err(error(
        value.span(),
        format!("`{name}` cannot be `{word}`"),
        &format!("write {ways}"),
    ))
}
