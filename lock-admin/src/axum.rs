//! The page in axum.

use crate::admin::Admin;
use crate::folder::to_folder;
use crate::security::{BODY_LIMIT, plain};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, Request};
use axum::response::Response;
use http::StatusCode;

impl Admin {
    /// Returns a router, to be nested as a service at any path, with the layers of the service around it.
    /// After `nest` in place of `nest_service`, axum finds nothing at the path with a `/` at its end.
    ///
    /// ```
    /// use axum::Router;
    /// use lock_admin::Admin;
    /// # use lock_runtime::LockManager;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let admin = Admin::new(locks);
    /// let app: Router = Router::new().nest_service("/locks", admin.axum()); // .layer(auth)
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "axum")))]
    pub fn axum<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        let admin = self.clone();
        Router::new().fallback(move |request: Request| answer(admin.clone(), request))
    }
}

async fn answer(admin: Admin, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let original = parts.extensions.get::<OriginalUri>();
    let original = original.map_or(parts.uri.path(), |it| it.0.path());
    if parts.uri.path() == "/"
        && let Some(redirect) = to_folder(original)
    {
        return redirect.map(Body::new);
    }
    let Ok(body) = to_bytes(body, BODY_LIMIT).await else {
        let response = plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n");
        return response.map(Body::new);
    };
    let response = admin.handle(http::Request::from_parts(parts, body)).await;
    response.map(Body::new)
}
