//! The parser of templates, as a function that `tests/parsers` calls with any bytes.

use proc_macro2::Span;
use quote::ToTokens;
use syn::{LitStr, parse_quote, parse2};

use crate::key::Key;

/// Parses a template. Panics if the parser does, or if one is accepted whose format string has not as many
/// placeholders as there are values.
pub(crate) fn key_templates(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let literal = LitStr::new(text, Span::call_site());
    let Ok(key) = parse2::<Key>(literal.to_token_stream()) else {
        return;
    };
    let _ = key.check_names(&["id".to_owned()]);
    key.template_tokens();
    key.value_expr(&parse_quote!(lock_runtime));
    if let Key::Template { format, values, .. } = key {
        let format = format.value();
        assert_eq!(placeholders(&format), Some(values.len()), "{format:?}");
    }
}

/// Returns the number of placeholders in a format string; `None` if its braces do not match.
fn placeholders(format: &str) -> Option<usize> {
    let (mut count, mut rest) = (0, format);
    while let Some(at) = rest.find(['{', '}']) {
        rest = &rest[at..];
        if let Some(after) = ["{{", "}}"].iter().find_map(|it| rest.strip_prefix(it)) {
            rest = after;
            continue;
        }
        let (inside, after) = rest.strip_prefix('{')?.split_once('}')?;
        (count, rest) = (count + 1, after);
        if inside.contains('{') {
            return None;
        }
    }
    Some(count)
}
