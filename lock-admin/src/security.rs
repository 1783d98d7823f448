//! What a browser may do with the page, and which requests change something.

use crate::body::Body;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{Response, StatusCode};

/// No code and no style but the page's own files, and no other site around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'none'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The greatest size of a request's body.
pub(crate) const BODY_LIMIT: usize = 8 * 1024;

/// How long a response is kept.
#[derive(Clone, Copy)]
pub(crate) enum Keep {
    Never,
    /// Its name changes with its content.
    Forever,
}

/// Returns a response with the headers that each of them has.
pub(crate) fn respond(
    status: StatusCode,
    content_type: &'static str,
    keep: Keep,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let keep = match keep {
        Keep::Never => "no-store",
        Keep::Forever => "public, max-age=31536000, immutable",
    };
    let headers: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, keep),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns a short plain answer.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    respond(status, "text/plain; charset=utf-8", Keep::Never, text)
}

/// Returns `true` if a page of this origin has sent the request: browsers say so, and no page can say it for
/// another.
pub(crate) fn is_same_origin(parts: &Parts) -> bool {
    let header = |name: &str| {
        let mut values = parts.headers.get_all(name).iter();
        let only = values.next().and_then(|value| value.to_str().ok());
        only.filter(|_| values.next().is_none())
    };
    if parts.headers.contains_key("sec-fetch-site") {
        return header("sec-fetch-site") == Some("same-origin");
    }
    // HTTP/2 has the host in the URI.
    let host = match parts.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => header(HOST.as_str()),
    };
    let origin = header(ORIGIN.as_str()).and_then(|it| {
        let rest = it.strip_prefix("https://");
        rest.or_else(|| it.strip_prefix("http://"))
    });
    matches!((origin, host), (Some(origin), Some(host)) if !host.is_empty() && origin.eq_ignore_ascii_case(host))
}

/// Returns `true` if the body is a form, which is what only a form of a page sends.
pub(crate) fn is_form(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::post("/revoke");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("valid").into_parts().0
    }

    #[test]
    fn another_origin_is_recognized() {
        for (headers, is_same) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "none")], false),
            // The newer header decides.
            (
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "http://a:1"),
                    ("host", "a:1"),
                ],
                false,
            ),
            (
                &[
                    ("sec-fetch-site", "same-origin"),
                    ("sec-fetch-site", "cross-site"),
                ],
                false,
            ),
            (&[("origin", "http://a:1"), ("host", "a:1")], true),
            (&[("origin", "https://A"), ("host", "a")], true),
            (&[("origin", "http://a:1"), ("host", "a:2")], false),
            (&[("origin", "http://a.evil"), ("host", "a")], false),
            (&[("origin", "null"), ("host", "null")], false),
            (&[("origin", "http://"), ("host", "")], false),
            (&[("host", "a")], false),
            (&[("origin", "http://a")], false),
            (&[], false),
        ] {
            assert_eq!(is_same_origin(&parts(headers)), is_same, "{headers:?}");
        }
    }

    #[test]
    fn only_a_form_is_a_form() {
        for (kind, expected) in [
            ("application/x-www-form-urlencoded", true),
            ("application/x-www-form-urlencoded; charset=UTF-8", true),
            ("text/plain", false),
            ("multipart/form-data", false),
        ] {
            assert_eq!(
                is_form(&parts(&[("content-type", kind)])),
                expected,
                "{kind}"
            );
        }
        assert!(!is_form(&parts(&[])));
    }
}
