//! The options of the attribute.

mod conflicts;

use std::ops::RangeInclusive;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, Lit, Path, Token, parse_quote};

use crate::key::{Key, Label};
use crate::suggest::closest_match;
use crate::tokens::{borrow, error};
use crate::values::{DurationArg, parse_choice, parse_count};

const OPTIONS: [&str; 19] = [
    "key",
    "label",
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

const BOOLEANS: [(&str, bool); 2] = [("false", false), ("true", true)];

/// The numbers of permits, as `lock_runtime` checks them.
const PERMITS: RangeInclusive<u64> = 1..=2046;

pub(crate) struct Args {
    pub(crate) key: Key,
    pub(crate) krate: Path,
    pub(crate) options: Options,
}

#[derive(Default)]
pub(crate) struct Options {
    key: Option<Key>,
    label: Option<Label>,
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
    release: Option<Release>,
    on_lost: Option<&'static str>,
    pub(crate) on_busy: Option<Expr>,
    pub(crate) or_else: Option<Expr>,
    pub(crate) guard: Option<Ident>,
    manager: Option<Expr>,
}

/// A variant of `ReleaseMode`, and the place of the user's word for it.
struct Release {
    variant: &'static str,
    span: Span,
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
    /// Rejects names in templates that are none of the function's arguments.
    pub(crate) fn check_names(&self, arguments: &[String]) -> syn::Result<()> {
        self.key.check_names(arguments)?;
        let label = self.options.label.as_ref();
        label.map_or(Ok(()), |label| label.check_names(arguments))
    }

    /// Returns an expression for the `Lock` to acquire in that function.
    pub(crate) fn lock_expr(&self, function: &Ident) -> TokenStream {
        let Self {
            key,
            krate,
            options,
        } = self;
        let mixed = Span::mixed_site();
        let site = site_expr(krate, key, function);
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
                    match #manager { #name => #krate::__private::#on(#name, #site, #value) #calls }
                }
            }
            None => {
                quote_spanned!(mixed=> #krate::__private::#global(#site, #value) #calls)
            }
        }
    }
}

/// Returns an expression for the function's `Site`.
fn site_expr(krate: &Path, key: &Key, function: &Ident) -> TokenStream {
    let template = key.template_tokens();
    let function = format!("::{}", function.unraw());
    quote_spanned! {Span::mixed_site()=>
        const {
            &#krate::__private::site(
                #template,
                ::core::concat!(::core::module_path!(), #function),
                ::core::file!(),
                ::core::line!(),
            )
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
            "label" => self.label = Some(input.parse()?),
            "ttl" => self.ttl = Some(DurationArg::parse(input, &name)?),
            "wait" => self.wait = Some(DurationArg::parse(input, &name)?),
            "max_hold" => self.max_hold = Some(DurationArg::parse(input, &name)?),
            "min_hold" => self.min_hold = Some(DurationArg::parse(input, &name)?),
            "mode" => {
                let words = [("\"write\"", false), ("\"read\"", true)];
                self.read = Some(parse_choice(input, &name, &words)?);
            }
            "permits" => self.permits = Some(parse_count(input, &name, PERMITS)?),
            "max_waiters" => self.max_waiters = Some(parse_count(input, &name, 0..=u64::MAX)?),
            "reentrant" => self.reentrant = Some(parse_choice(input, &name, &BOOLEANS)?),
            "renew" => self.renew = Some(parse_choice(input, &name, &BOOLEANS)?),
            "replicas" => {
                self.replicas = Some(parse_count(input, &name, 0..=u32::MAX.into())?);
            }
            "release" => {
                let words = [
                    ("\"confirmed\"", "Confirmed"),
                    ("\"background\"", "Background"),
                    ("\"lazy\"", "Lazy"),
                ];
                let span = input.span();
                let variant = parse_choice(input, &name, &words)?;
                self.release = Some(Release { variant, span });
            }
            "on_lost" => {
                let words = [("\"cancel\"", "Cancel"), ("\"continue\"", "Continue")];
                self.on_lost = Some(parse_choice(input, &name, &words)?);
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
        if let Some(label) = &self.label {
            let label = label.value_expr(krate);
            calls.extend(quote_spanned!(mixed=> .label(#label)));
        }
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
        if let Some(Release { variant, .. }) = self.release {
            let variant = Ident::new(variant, mixed);
            calls.extend(quote_spanned!(mixed=> .release_mode(#krate::ReleaseMode::#variant)));
        }
        if let Some(variant) = self.on_lost {
            let variant = Ident::new(variant, mixed);
            calls.extend(quote_spanned!(mixed=> .on_lost(#krate::OnLost::#variant)));
        }
        calls
    }
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
