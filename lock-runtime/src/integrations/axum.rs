//! [`LockError`] as an axum response.

use crate::api::from_lock_error::FromLockError;
use crate::error::LockError;
use crate::integrations::http_problem::Problem;
use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

/// `Busy` is 423 with `Retry-After: 1`, `Unavailable` and `ShuttingDown` are 503 with `Retry-After: 1`, all
/// other errors are 500. The body is `application/problem+json` and reveals no internals.
impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        let problem = Problem::from_error(&self);
        let mut response = Response::new(Body::from(problem.body()));
        *response.status_mut() =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static(Problem::CONTENT_TYPE),
        );
        if let Some(seconds) = problem.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl FromLockError for Response {
    fn from_lock_error(error: LockError) -> Self {
        error.into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_423_with_retry_after() {
        let response = LockError::busy("order:42").into_response();
        assert_eq!(response.status(), StatusCode::LOCKED);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }

    #[test]
    fn not_initialized_is_500() {
        let response = Response::from_lock_error(LockError::NotInitialized);
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!response.headers().contains_key(RETRY_AFTER));
    }
}
