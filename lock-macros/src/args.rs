//! The options of the attribute.

use std::time::Duration;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, Path, Token, parse_quote};

use crate::duration;
use crate::key::Key;
use crate::suggest::closest_match;
use crate::tokens::{borrow, error, ungrouped};

const OPTIONS: [&str; 18] = [
    "key",
    "mode",
    "permits",
    "ttl",
    "wait",
    "max_hold",
    "min_hold",
    "max_waiters",
    "reentrant",
    "renew",
    "replicas",
    "release",
    "on_lost",
    "on_busy",
    "or_else",
    "guard",
    "manager",
    "crate",
];

/// The greatest number of permits.
const MAX_PERMITS: u32 = 2046;

pub(crate) struct Args {
    pub(crate) key: Key,
    pub(crate) krate: Path,
    pub(crate) options: Options,
}

#[derive(Default)]
pub(crate) struct Options {
    key: Option<Key>,
    krate: Option<Path>,
    read: Option<bool>,
    permits: Option<Expr>,
    ttl: Option<DurationArg>,
    wait: Option<DurationArg>,
    max_hold: Option<DurationArg>,
    min_hold: Option<DurationArg>,
    max_waiters: Option<Expr>,
    reentrant: Option<bool>,
    renew: Option<bool>,
    replicas: Option<Expr>,
    background_release: Option<bool>,
    continue_on_lost: Option<bool>,
    pub(crate) on_busy: Option<Expr>,
    pub(crate) or_else: Option<Expr>,
    pub(crate) guard: Option<Ident>,
    manager: Option<Expr>,
}

impl Parse for Args {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut options = Options::default();
        let mut seen = Vec::new();
        let mut errors: Option<Error> = None;
        while !input.is_empty() {
            if let Err(error) = options.parse(input, &mut seen) {
                match &mut errors {
                    Some(errors) => errors.combine(error),
                    None => errors = Some(error),
                }
                while !input.is_empty() && !input.peek(Token![,]) {
                    input.parse::<TokenTree>()?;
                }
            } else if !input.is_empty() && !input.peek(Token![,]) {
                return Err(input.error("expected `,`\nhelp: options are separated by commas"));
            }
            input.parse::<Option<Token![,]>>()?;
        }
        if let Some(errors) = errors {
            return Err(errors);
        }
        options.check()?;
        let key = options.key.take().ok_or_else(|| {
            error(
                Span::call_site(),
                "`#[distributed_lock]` needs a `key`",
                "name the lock: `key = \"order:<id>\"`, where `id` is an argument of the function",
            )
        })?;
        let krate = options
            .krate
            .take()
            .unwrap_or_else(|| parse_quote!(::lock_runtime));
        Ok(Self {
            key,
            krate,
            options,
        })
    }
}

impl Args {
    /// Returns an expression for the `Lock` to acquire.
    pub(crate) fn lock_expr(&self) -> TokenStream {
        let Self {
            key,
            krate,
            options,
        } = self;
        let mixed = Span::mixed_site();
        let template = key.template_tokens();
        let value = key.value_expr(krate);
        let calls = options.builder_calls(krate);
        let (on, global) = match key.is_list() {
            true => ("lock_all_on", "global_lock_all"),
            false => ("lock_on", "global_lock"),
        };
        let (on, global) = (Ident::new(on, mixed), Ident::new(global, mixed));
        match &options.manager {
            // Bound without a type first, so that any value that dereferences to a manager is accepted.
            Some(manager) => {
                let span = manager.span().resolved_at(mixed);
                let manager = borrow(manager);
                let name = Ident::new("__distributed_lock", span);
                quote_spanned! {mixed=>
                    match #manager { #name => #krate::__private::#on(#name, #template, #value) #calls }
                }
            }
            None => {
                quote_spanned!(mixed=> #krate::__private::#global(#template, #value) #calls)
            }
        }
    }
}

impl Options {
    fn parse(&mut self, input: ParseStream, seen: &mut Vec<Ident>) -> syn::Result<()> {
        if input.peek(Lit) {
            return Err(
                input.error("an option without its name\nhelp: the key is given as `key = \"…\"`")
            );
        }
        let name = input.call(Ident::parse_any)?;
        if !OPTIONS.iter().any(|option| name == option) {
            return Err(unknown_option(&name));
        }
        if seen.contains(&name) {
            return Err(error(
                name.span(),
                format!("`{name}` is given twice"),
                "keep one of the two",
            ));
        }
        let assigned = input.parse::<Option<Token![=]>>()?.is_some();
        if !assigned || input.is_empty() || input.peek(Token![,]) {
            return Err(error(
                name.span(),
                format!("`{name}` has no value"),
                &format!("write `{name} = …`"),
            ));
        }
        match &*name.to_string() {
            "key" => self.key = Some(input.parse()?),
            "ttl" => self.ttl = Some(DurationArg::parse(input, &name)?),
            "wait" => self.wait = Some(DurationArg::parse(input, &name)?),
            "max_hold" => self.max_hold = Some(DurationArg::parse(input, &name)?),
            "min_hold" => self.min_hold = Some(DurationArg::parse(input, &name)?),
            "mode" => self.read = Some(parse_choice(input, &name, ["\"write\"", "\"read\""])?),
            "permits" => self.permits = Some(parse_permits(input, &name)?),
            "max_waiters" => self.max_waiters = Some(parse_count(input, &name)?),
            "reentrant" => {
                self.reentrant = Some(parse_choice(input, &name, ["false", "true"])?);
            }
            "renew" => self.renew = Some(parse_choice(input, &name, ["false", "true"])?),
            "replicas" => self.replicas = Some(parse_count(input, &name)?),
            "release" => {
                let words = ["\"confirmed\"", "\"background\""];
                self.background_release = Some(parse_choice(input, &name, words)?);
            }
            "on_lost" => {
                self.continue_on_lost =
                    Some(parse_choice(input, &name, ["\"cancel\"", "\"continue\""])?)
            }
            "on_busy" => self.on_busy = Some(input.parse()?),
            "or_else" => self.or_else = Some(input.parse()?),
            "guard" => self.guard = Some(input.parse()?),
            "manager" => self.manager = Some(input.parse()?),
            _ => self.krate = Some(input.call(Path::parse_mod_style)?),
        }
        seen.push(name);
        Ok(())
    }

    /// Rejects options that exclude each other.
    fn check(&self) -> syn::Result<()> {
        if let (Some(true), Some(permits)) = (self.read, &self.permits) {
            return Err(error(
                permits.span(),
                "a reader has no `permits`",
                "any number of readers share the lock; leave out `permits`, or `mode = \"read\"`",
            ));
        }
        if let (Some(min_hold), Some(max_hold)) = (&self.min_hold, &self.max_hold)
            && let (DurationArg::Literal(least, span), DurationArg::Literal(most, _)) =
                (min_hold, max_hold)
            && least > most
        {
            return Err(error(
                *span,
                "`min_hold` is longer than `max_hold`",
                "the lock cannot be held for longer than `max_hold`; lower one or raise the other",
            ));
        }
        if let (Some(false), Some(min_hold), Some(ttl)) = (self.renew, &self.min_hold, &self.ttl)
            && let (DurationArg::Literal(least, span), DurationArg::Literal(ttl, _)) =
                (min_hold, ttl)
            && least > ttl
        {
            return Err(error(
                *span,
                "`min_hold` is longer than `ttl`, and the lease is not renewed",
                "lower `min_hold`, raise `ttl`, or leave out `renew = false`",
            ));
        }
        Ok(())
    }

    /// Returns the calls that set the options on a `Lock`.
    fn builder_calls(&self, krate: &Path) -> TokenStream {
        let mixed = Span::mixed_site();
        let lengths = [
            ("ttl", &self.ttl),
            ("wait", &self.wait),
            ("max_hold", &self.max_hold),
            ("min_hold", &self.min_hold),
        ];
        let mut calls: TokenStream = lengths
            .into_iter()
            .filter_map(|(name, length)| {
                Some((Ident::new(name, mixed), length.as_ref()?.to_tokens(krate)))
            })
            .map(|(name, length)| quote_spanned!(mixed=> .#name(#length)))
            .collect();
        if let Some(true) = self.read {
            calls.extend(quote_spanned!(mixed=> .read()));
        }
        if let Some(permits) = &self.permits {
            calls.extend(quote_spanned!(mixed=> .permits(#permits)));
        }
        if let Some(max_waiters) = &self.max_waiters {
            calls.extend(quote_spanned!(mixed=> .max_waiters(#max_waiters)));
        }
        if let Some(reentrant) = self.reentrant {
            calls.extend(quote_spanned!(mixed=> .reentrant(#reentrant)));
        }
        if let Some(renew) = self.renew {
            calls.extend(quote_spanned!(mixed=> .renew(#renew)));
        }
        if let Some(replicas) = &self.replicas {
            calls.extend(quote_spanned!(mixed=> .replicas(#replicas)));
        }
        if let Some(background_release) = self.background_release {
            let choice = Ident::new(
                if background_release {
                    "Background"
                } else {
                    "Confirmed"
                },
                mixed,
            );
            calls.extend(quote_spanned!(mixed=> .release(#krate::ReleaseMode::#choice)));
        }
        if let Some(continue_on_lost) = self.continue_on_lost {
            let choice = Ident::new(
                if continue_on_lost {
                    "Continue"
                } else {
                    "Cancel"
                },
                mixed,
            );
            calls.extend(quote_spanned!(mixed=> .on_lost(#krate::OnLost::#choice)));
        }
        calls
    }
}

enum DurationArg {
    Literal(Duration, Span),
    Expr(Expr),
}

impl DurationArg {
    fn parse(input: ParseStream, name: &Ident) -> syn::Result<Self> {
        let literal = match ungrouped(input.parse()?) {
            Expr::Lit(ExprLit {
                lit: Lit::Str(literal),
                ..
            }) => literal,
            Expr::Lit(other) => {
                return Err(error(
                    other.span(),
                    format!("`{name}` needs a unit"),
                    DURATION_HELP,
                ));
            }
            value => return Ok(Self::Expr(value)),
        };
        let text = literal.value();
        if name == "wait" && text == "forever" {
            return Ok(Self::Literal(Duration::MAX, literal.span()));
        }
        let length = duration::parse(&text)
            .map_err(|problem| error(literal.span(), problem, DURATION_HELP))?;
        let too_short = |help| {
            Err(error(
                literal.span(),
                format!("`{name} = \"{text}\"` is too short"),
                help,
            ))
        };
        if name == "ttl" && length < Duration::from_millis(10) {
            too_short(
                "a lease lasts at least 10ms, and is renewed while the body runs: `ttl = \"30s\"` suits most",
            )
        } else if name == "max_hold" && length.is_zero() {
            too_short("`max_hold` limits the time of the body; without it there is no limit")
        } else if name == "min_hold" && length < Duration::from_millis(10) {
            too_short("`min_hold` is at least 10ms; without it the lock is free after the body")
        } else {
            Ok(Self::Literal(length, literal.span()))
        }
    }

    fn to_tokens(&self, krate: &Path) -> TokenStream {
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

const DURATION_HELP: &str = "write for example `\"250ms\"`, `\"30s\"`, `\"1m 30s\"` or `\"2h\"`";

/// Parses a number, or an expression that may evaluate to one.
fn parse_count(input: ParseStream, name: &Ident) -> syn::Result<Expr> {
    let value = ungrouped(input.parse()?);
    let is_count = match &value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => number.base10_parse::<u32>().is_ok(),
        Expr::Lit(_) => false,
        Expr::Unary(negated) => !matches!(*negated.expr, Expr::Lit(_)),
        _ => true,
    };
    match is_count {
        true => Ok(value),
        false => Err(error(
            value.span(),
            format!("`{name}` is a whole number"),
            &format!("write for example `{name} = 1`"),
        )),
    }
}

/// Parses the number of permits, or an expression that may evaluate to one.
fn parse_permits(input: ParseStream, name: &Ident) -> syn::Result<Expr> {
    let value = parse_count(input, name)?;
    if let Expr::Lit(ExprLit {
        lit: Lit::Int(number),
        ..
    }) = &value
        && !number
            .base10_parse()
            .is_ok_and(|permits: u32| (1..=MAX_PERMITS).contains(&permits))
    {
        return Err(error(
            value.span(),
            format!("`permits = {number}` is out of range"),
            &format!("a lock has from 1 to {MAX_PERMITS} permits"),
        ));
    }
    Ok(value)
}

/// Parses one of two words. Returns `true` if it is the second.
fn parse_choice(input: ParseStream, name: &Ident, words: [&str; 2]) -> syn::Result<bool> {
    let value: Expr = input.parse()?;
    let word = ungrouped(value.clone()).to_token_stream().to_string();
    words
        .iter()
        .position(|known| *known == word)
        .map(|at| at == 1)
        .ok_or_else(|| {
            let [first, second] = words;
            error(
                value.span(),
                format!("`{name}` cannot be `{word}`"),
                &format!("write `{name} = {first}` or `{name} = {second}`"),
            )
        })
}

fn unknown_option(name: &Ident) -> Error {
    let help = match closest_match(&name.to_string(), &OPTIONS) {
        Some(option) => format!("did you mean `{option}`?"),
        None => format!("the options are `{}`", OPTIONS.join("`, `")),
    };
    error(
        name.span(),
        format!("`{name}` is not an option of `#[distributed_lock]`"),
        &help,
    )
}
