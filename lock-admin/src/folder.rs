//! The page is in a folder where it is mounted, so that its links are relative.

use crate::body::Body;
use crate::page::OVERVIEW;
use crate::security::plain;
use http::header::{HeaderValue, LOCATION};
use http::{Response, StatusCode};

/// Returns the way to the page from the path where it is mounted, if that does not end with `/`.
pub(crate) fn to_folder(path: &str) -> Option<Response<Body>> {
    if path.ends_with('/') {
        return None;
    }
    let last = path.rsplit('/').next()?;
    let location = HeaderValue::from_str(&format!("./{last}/{OVERVIEW}")).ok()?;
    let mut response = plain(StatusCode::PERMANENT_REDIRECT, "");
    response.headers_mut().insert(LOCATION, location);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_without_a_slash_is_redirected() {
        let location = |path| {
            let response = to_folder(path)?;
            Some(response.headers()[LOCATION].to_str().ok()?.to_owned())
        };
        assert_eq!(
            location("/admin/locks"),
            Some("./locks/overview".to_owned())
        );
        assert_eq!(location("//evil"), Some("./evil/overview".to_owned()));
        assert_eq!(location("/locks/"), None);
        assert_eq!(location("/"), None);
    }
}
