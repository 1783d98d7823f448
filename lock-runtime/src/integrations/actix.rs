//! [`LockError`] as an actix-web response.

use crate::api::from_lock_error::FromLockError;
use crate::error::LockError;
use crate::integrations::http_problem::Problem;
use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpResponse, ResponseError};

/// `Busy` is 423 with `Retry-After: 1`, `Unavailable` and `ShuttingDown` are 503 with `Retry-After: 1`, all
/// other errors are 500. The body is `application/problem+json` and reveals no internals.
impl ResponseError for LockError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(Problem::from_error(self).status)
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let problem = Problem::from_error(self);
        let mut response = HttpResponse::build(self.status_code());
        if let Some(seconds) = problem.retry_after {
            response.insert_header((RETRY_AFTER, seconds));
        }
        response
            .content_type(Problem::CONTENT_TYPE)
            .body(problem.body())
    }
}

impl FromLockError for HttpResponse {
    fn from_lock_error(error: LockError) -> Self {
        error.error_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::CONTENT_TYPE;

    #[test]
    fn busy_is_423_with_retry_after() {
        let response = LockError::busy("order:42").error_response();
        assert_eq!(response.status(), StatusCode::LOCKED);
        assert_eq!(response.headers().get(RETRY_AFTER).unwrap(), "1");
        let content_type = response.headers().get(CONTENT_TYPE).unwrap();
        assert_eq!(content_type, "application/problem+json");
    }

    #[test]
    fn not_initialized_is_500() {
        let response = HttpResponse::from_lock_error(LockError::NotInitialized);
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!response.headers().contains_key(RETRY_AFTER));
    }
}
