//! The key: a template with `<expr>` and `{expr}` placeholders, or any `Display` expression; or a list of
//! them.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, Lit, LitStr, Path};

use crate::suggest::closest_match;
use crate::tokens::{borrow, error, inner, literal, respan};

pub(crate) enum Key {
    /// A template without placeholders, which `format!` accepts unchanged.
    Literal(LitStr),
    /// A template, split into a format string and its values.
    Template {
        source: LitStr,
        format: LitStr,
        values: Vec<Value>,
    },
    Expr(Expr),
    /// Several keys that are acquired together.
    List(Vec<Key>),
}

impl Parse for Key {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let value: Expr = input.parse()?;
        match inner(&value) {
            Expr::Array(list) if list.elems.is_empty() => Err(error(
                list.span(),
                "the list of keys is empty",
                "name at least one lock, as in `[\"account:<from>\", \"account:<to>\"]`",
            )),
            Expr::Array(list) => {
                let keys = list.elems.iter().map(Self::from_expr);
                Ok(Self::List(keys.collect::<syn::Result<_>>()?))
            }
            _ => Self::from_expr(&value),
        }
    }
}

pub(crate) struct Value {
    expr: TokenStream,
    has_spec: bool,
}

/// What a call is for: a template or an expression like a key, but any text.
pub(crate) struct Label(Key);

impl Parse for Label {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let value: Expr = input.parse()?;
        Ok(Self(match literal(&value) {
            Some(Lit::Str(literal)) => Key::from_template(literal.clone())?,
            _ => Key::Expr(value),
        }))
    }
}

impl Label {
    /// Rejects a misspelled name.
    pub(crate) fn check_names(&self, arguments: &[String]) -> syn::Result<()> {
        self.0.check_names(arguments)
    }

    /// Returns an expression for the text of one call, which only borrows its operands.
    pub(crate) fn value_expr(&self, krate: &Path) -> TokenStream {
        self.0.value_expr(krate)
    }
}

impl Key {
    /// Returns one key, which is not a list.
    fn from_expr(value: &Expr) -> syn::Result<Self> {
        match literal(value) {
            Some(Lit::Str(literal)) => Self::from_literal(literal.clone()),
            _ => Ok(Self::Expr(value.clone())),
        }
    }

    /// Returns `true` if there may be several keys.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }

    fn from_literal(source: LitStr) -> syn::Result<Self> {
        let text = source.value();
        let parts = parse_template(&text).map_err(|problem| Error::new(source.span(), problem))?;
        if parts.is_empty() {
            return Err(error(
                source.span(),
                "the key is empty",
                "name the lock, as in `\"order:<id>\"`",
            ));
        }
        if let Some(Part::Text(first)) = parts.first()
            && first.starts_with(':')
        {
            return Err(error(
                source.span(),
                "the key begins with `:`",
                "such keys are reserved; choose another first character, as in `\"order:<id>\"`",
            ));
        }
        Self::from_template(source)
    }

    /// Returns any text with placeholders.
    fn from_template(source: LitStr) -> syn::Result<Self> {
        let text = source.value();
        let parts = parse_template(&text).map_err(|problem| Error::new(source.span(), problem))?;
        if parts.iter().all(|part| matches!(part, Part::Text(_))) && !text.contains("<<") {
            return Ok(Self::Literal(source));
        }
        let mut format = String::new();
        let mut values = Vec::new();
        for part in parts {
            match part {
                Part::Text(text) => format += &text.replace('{', "{{").replace('}', "}}"),
                Part::Placeholder { expr, spec } => {
                    format.push_str(if spec.is_empty() { "{" } else { "{:" });
                    format.push_str(spec);
                    format.push('}');
                    values.push(Value {
                        expr: respan(syn::parse_str(expr)?, source.span()),
                        has_spec: !spec.is_empty(),
                    });
                }
            }
        }
        let format = LitStr::new(&format, source.span());
        Ok(Self::Template {
            source,
            format,
            values,
        })
    }

    /// Rejects a misspelled name, since rustc would suggest to replace the whole template by the right one.
    pub(crate) fn check_names(&self, arguments: &[String]) -> syn::Result<()> {
        let (source, values) = match self {
            Self::Template { source, values, .. } => (source, values),
            Self::List(keys) => return keys.iter().try_for_each(|key| key.check_names(arguments)),
            _ => return Ok(()),
        };
        let mut names = values.iter().filter_map(|value| leading_name(&value.expr));
        let unknown = names.find(|name| {
            let is_constant = name.trim_start_matches('_').starts_with(char::is_uppercase);
            !is_constant && !arguments.contains(name)
        });
        let Some(name) = unknown else { return Ok(()) };
        let help = match closest_match(&name, arguments) {
            Some(argument) => format!("did you mean `{argument}`?"),
            None if arguments.is_empty() => "the function has no arguments".into(),
            None => format!("the arguments are `{}`", arguments.join("`, `")),
        };
        Err(error(
            source.span(),
            format!("`{name}` is not an argument of the function"),
            &help,
        ))
    }

    /// Returns the key as written in the source, which is the same for every call.
    pub(crate) fn template_tokens(&self) -> TokenStream {
        match self {
            Self::Literal(source) | Self::Template { source, .. } => {
                // Mixed-site: in a user's string, clippy takes `{id}` for a forgotten `format!`.
                let span = source.span().resolved_at(Span::mixed_site());
                LitStr::new(&source.value(), span).to_token_stream()
            }
            Self::Expr(value) => quote!(::core::stringify!(#value)),
            Self::List(keys) => {
                let mut keys = keys.iter().map(Self::template_tokens);
                let first = keys.next();
                quote!(::core::concat!(#first #(, " ", #keys)*))
            }
        }
    }

    /// Returns an expression for the key of one call, or for the list of its keys.
    pub(crate) fn value_expr(&self, krate: &Path) -> TokenStream {
        match self {
            Self::List(keys) => {
                let keys = keys.iter().map(|key| key.key_expr(krate));
                quote_spanned!(Span::mixed_site()=> [#(#keys),*])
            }
            key => key.key_expr(krate),
        }
    }

    /// Returns an expression for one key of one call. It only borrows its operands.
    fn key_expr(&self, krate: &Path) -> TokenStream {
        let mixed = Span::mixed_site();
        match self {
            Self::Literal(format) => quote_spanned!(mixed=> #krate::__private::format!(#format)),
            Self::Template { format, values, .. } => {
                let values = values
                    .iter()
                    .map(|value| value.operand(krate, format.span()));
                quote_spanned!(mixed=> #krate::__private::format!(#format, #(#values),*))
            }
            Self::Expr(value) => {
                let value = borrow(value);
                quote_spanned!(mixed=> #krate::__private::key(#value))
            }
            Self::List(_) => self.value_expr(krate),
        }
    }
}

impl Value {
    /// Returns an argument of `format!`. If its type can't be shown, the error says how to name what is in
    /// it.
    fn operand(&self, krate: &Path, span: Span) -> TokenStream {
        let expr = &self.expr;
        match self.has_spec {
            true => expr.clone(),
            false => {
                quote_spanned!(span.resolved_at(Span::mixed_site())=> #krate::__private::value(&&(#expr)))
            }
        }
    }
}

/// Returns `order` for `order`, `order.id()` and `order[0]`.
fn leading_name(value: &TokenStream) -> Option<String> {
    let mut tokens = value.clone().into_iter();
    let name = syn::parse2::<Ident>(tokens.next()?.into()).ok()?;
    let is_value = match tokens.next() {
        None => true,
        Some(TokenTree::Punct(punct)) => punct.as_char() == '.',
        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Bracket,
        Some(_) => false,
    };
    is_value.then(|| name.to_string())
}

#[derive(Debug, PartialEq)]
enum Part<'a> {
    Text(String),
    Placeholder { expr: &'a str, spec: &'a str },
}

/// Splits a template into its parts. Returns the problem and a remedy as the error.
fn parse_template(template: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(open) = rest.chars().next() {
        rest = &rest[open.len_utf8()..];
        match open {
            '<' | '{' if rest.starts_with(open) => rest = &rest[1..],
            '}' if rest.starts_with('}') => rest = &rest[1..],
            '}' => return Err("a `}` without its `{`\nhelp: a brace that belongs to the key is written twice: `}}`".into()),
            '<' | '{' => {
                let (value, after) = parse_placeholder(open, rest)?;
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(value);
                rest = after;
                continue;
            }
            _ => {}
        }
        text.push(open);
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

/// Parses one placeholder. It ends at the first closing bracket after a complete expression, so
/// `<Id::<u8>::of(x)>` and `{of("}")}` work without counting brackets.
fn parse_placeholder(open: char, rest: &str) -> Result<(Part<'_>, &str), String> {
    let close = if open == '<' { '>' } else { '}' };
    let ends = || rest.match_indices(close).map(|(at, _)| at);
    for at in ends() {
        if let Some((expr, spec)) = split_format_spec(&rest[..at]) {
            return Ok((Part::Placeholder { expr, spec }, &rest[at + 1..]));
        }
    }
    let Some(at) = ends().next() else {
        return Err(format!(
            "the placeholder `{open}{rest}` is not closed\nhelp: close it with `{close}`; a `{open}` that belongs to the key is written twice: `{open}{open}`"
        ));
    };
    let inside = &rest[..at];
    Err(if inside.trim().is_empty() {
        format!(
            "the placeholder `{open}{inside}{close}` is empty\nhelp: name an argument, as in `{open}id{close}`; a `{open}` that belongs to the key is written twice: `{open}{open}`"
        )
    } else {
        format!(
            "the placeholder `{open}{inside}{close}` does not hold an expression\nhelp: use an argument or an expression, as in `{open}id{close}` or `{open}order.id(){close}`"
        )
    })
}

/// Splits `expr:spec`, if `expr` is an expression that may differ between calls.
fn split_format_spec(inside: &str) -> Option<(&str, &str)> {
    let is_value =
        |text: &str| syn::parse_str::<Expr>(text).is_ok_and(|expr| !matches!(expr, Expr::Lit(_)));
    // A brace would begin or end a placeholder of `format!`.
    let is_spec =
        |text: &str| !text.is_empty() && !text.starts_with(':') && !text.contains(['{', '}']);
    if is_value(inside) {
        return Some((inside.trim(), ""));
    }
    inside
        .match_indices(':')
        .map(|(at, _)| (&inside[..at], &inside[at + 1..]))
        .find(|(expr, spec)| is_spec(spec) && is_value(expr))
        .map(|(expr, spec)| (expr.trim(), spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the arguments of `format!` for a template.
    fn formatted(template: &str) -> Result<(String, Vec<String>), String> {
        match Key::from_literal(LitStr::new(template, Span::call_site())) {
            Ok(Key::Literal(literal)) => Ok((literal.value(), Vec::new())),
            Ok(Key::Template { format, values, .. }) => Ok((
                format.value(),
                values
                    .iter()
                    .map(|value| unspaced(&value.expr.to_string()))
                    .collect(),
            )),
            Ok(Key::Expr(_) | Key::List(_)) => unreachable!("a literal is a template"),
            Err(error) => Err(error.to_string()),
        }
    }

    fn unspaced(text: &str) -> String {
        text.split_whitespace().collect()
    }

    #[test]
    fn valid_templates_are_parsed() {
        for (template, format, values) in [
            // Unchanged.
            ("nightly:{{x}}", "nightly:{{x}}", &[][..]),
            ("a>b>>c", "a>b>>c", &[]),
            // Names and expressions.
            ("order:{id}", "order:{}", &["id"]),
            ("{id:08}:{{x}}", "{:08}:{{x}}", &["id"]),
            ("{self}", "{}", &["self"]),
            ("order:<id>", "order:{}", &["id"]),
            ("<a>{b}", "{}{}", &["a", "b"]),
            ("< a >", "{}", &["a"]),
            (
                "<order.tenant>:<order.id()>",
                "{}:{}",
                &["order.tenant", "order.id()"],
            ),
            ("<path.0>", "{}", &["path.0"]),
            ("{self.tenant}", "{}", &["self.tenant"]),
            ("{items.len()}", "{}", &["items.len()"]),
            ("<r#type>", "{}", &["r#type"]),
            ("<Foo::bar(x)>", "{}", &["Foo::bar(x)"]),
            // A placeholder ends where its expression is complete.
            ("<Id::<u8>::of(x)>", "{}", &["Id::<u8>::of(x)"]),
            ("<max(a, |x| x > 3)>", "{}", &["max(a, |x| x > 3)"]),
            ("{of(\"}\")}", "{}", &["of(\"}\")"]),
            ("{Id { x: 1 }.x}", "{}", &["Id { x: 1 }.x"]),
            ("{a > b}", "{}", &["a > b"]),
            ("<a < b>", "{}", &["a < b"]),
            ("<a>>", "{}>", &["a"]),
            ("{<T as Id>::OF}", "{}", &["<T as Id>::OF"]),
            // Format specs.
            ("<id:08>", "{:08}", &["id"]),
            ("<id:>8>", "{:>8}", &["id"]),
            ("{order.id:?}", "{:?}", &["order.id"]),
            ("<Foo::bar(x):x>", "{:x}", &["Foo::bar(x)"]),
            ("<x as u8:width$>", "{:width$}", &["x as u8"]),
            // Literal brackets.
            ("<<a<<b", "<a<b", &[]),
            ("{{user:<id>}}:cart", "{{user:{}}}:cart", &["id"]),
            ("{{{id.0}}}", "{{{}}}", &["id.0"]),
            ("<<<id>", "<{}", &["id"]),
            ("å<id>→", "å{}→", &["id"]),
        ] {
            let values = values.iter().map(|value| unspaced(value)).collect();
            assert_eq!(
                formatted(template),
                Ok((format.into(), values)),
                "{template}"
            );
        }
    }

    #[test]
    fn invalid_templates_are_rejected() {
        for (template, error) in [
            ("", "the key is empty"),
            ("order:<id", "the placeholder `<id` is not closed"),
            ("order:{id", "the placeholder `{id` is not closed"),
            ("order:<", "the placeholder `<` is not closed"),
            ("order:<id}", "the placeholder `<id}` is not closed"),
            ("<>", "the placeholder `<>` is empty"),
            ("{}", "the placeholder `{}` is empty"),
            ("{ }", "the placeholder `{ }` is empty"),
            ("a}b", "a `}` without its `{`"),
            ("{id}}", "a `}` without its `{`"),
            ("{0}", "the placeholder `{0}` does not hold an expression"),
            (
                "{\"id\"}",
                "the placeholder `{\"id\"}` does not hold an expression",
            ),
            (
                "<a b>",
                "the placeholder `<a b>` does not hold an expression",
            ),
            (
                "<id:>",
                "the placeholder `<id:>` does not hold an expression",
            ),
            (
                "<:08>",
                "the placeholder `<:08>` does not hold an expression",
            ),
            (
                "<type>",
                "the placeholder `<type>` does not hold an expression",
            ),
            (
                "{id:{a}",
                "the placeholder `{id:{a}` does not hold an expression",
            ),
            (
                "<id:}>",
                "the placeholder `<id:}>` does not hold an expression",
            ),
        ] {
            let found = formatted(template).expect_err(template);
            assert_eq!(
                found.split_once("\nhelp: ").map(|(what, _)| what),
                Some(error),
                "{template}"
            );
        }
    }
}
