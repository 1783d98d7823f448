//! Values in a query, or in a form.

/// Returns the only value of that name, if it is not empty.
pub(crate) fn value(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut values = pairs.filter(|(key, _)| key == name);
    let value = values.next().map(|(_, value)| value.into_owned());
    value.filter(|value| !value.is_empty() && values.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_decoded_and_unique() {
        assert_eq!(
            value(Some("a=1&key=x%3A+y"), "key"),
            Some("x: y".to_owned())
        );
        for query in ["", "key=", "key=1&key=2", "keys=1"] {
            assert_eq!(value(Some(query), "key"), None, "{query}");
        }
        assert_eq!(value(None, "key"), None);
    }
}
