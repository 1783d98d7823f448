//! The page in actix.

use crate::admin::Admin;
use crate::folder::to_folder;
use crate::operator::Operator;
use crate::security::{BODY_LIMIT, plain};
use actix_web::http::StatusCode;
use actix_web::web::{self, Bytes, PayloadConfig};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, HttpResponseBuilder, Scope};

impl Admin {
    /// Returns a scope at that path, with the layers of the service around it. Clone the page into each
    /// worker: they share it.
    ///
    /// ```
    /// use actix_web::App;
    /// use lock_admin::Admin;
    /// # use lock_runtime::LockManager;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let admin = Admin::new(locks);
    /// let app = App::new().service(admin.actix("/locks")); // .wrap(auth)
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "actix")))]
    pub fn actix(&self, path: &str) -> Scope {
        let admin = self.clone();
        // A scope whose path ends with `/` does not match without it.
        web::scope(path.trim_end_matches('/'))
            .app_data(PayloadConfig::new(BODY_LIMIT))
            .default_service(web::to(move |request: HttpRequest, body: Bytes| {
                answer(admin.clone(), request, body)
            }))
    }
}

async fn answer(admin: Admin, request: HttpRequest, body: Bytes) -> HttpResponse {
    let rest = request.match_info().unprocessed();
    // It is decoded, and no path of the page needs that.
    if !request.uri().path().ends_with(rest) {
        return converted(plain(
            http::StatusCode::NOT_FOUND,
            "there is no such page\n",
        ));
    }
    let path = format!("/{}", rest.strip_prefix('/').unwrap_or(rest));
    if path == "/"
        && let Some(redirect) = to_folder(request.path())
    {
        return converted(redirect);
    }
    match requested(&request, &path, body) {
        Ok(request) => converted(admin.handle(request).await),
        Err(_) => converted(plain(http::StatusCode::BAD_REQUEST, "not understood\n")),
    }
}

/// Returns a request of actix, whose types are of an earlier `http`.
fn requested(
    request: &HttpRequest,
    path: &str,
    body: Bytes,
) -> Result<http::Request<Bytes>, http::Error> {
    let uri = match request.query_string() {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    };
    let mut converted = http::Request::builder()
        .method(request.method().as_str())
        .uri(uri);
    for (name, value) in request.headers() {
        converted = converted.header(name.as_str(), value.as_bytes());
    }
    if request.headers().get("host").is_none() {
        // HTTP/2 has it in the URI.
        if let Some(authority) = request.uri().authority() {
            converted = converted.header("host", authority.as_str());
        }
    }
    if let Some(operator) = request.extensions().get::<Operator>() {
        converted = converted.extension(operator.clone());
    }
    converted.body(body)
}

fn converted(response: http::Response<crate::body::Body>) -> HttpResponse {
    let (parts, body) = response.into_parts();
    let status = StatusCode::from_u16(parts.status.as_u16());
    let mut converted =
        HttpResponseBuilder::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    for (name, value) in &parts.headers {
        converted.append_header((name.as_str(), value.as_bytes()));
    }
    converted.body(body)
}
