//! [`LockError`] as an actix-web response.

use crate::problem::Problem;
use crate::{FromLockError, LockError};
use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpResponse, ResponseError};

/// Busy is 423 with `Retry-After`, unavailable and shutting down 503, the rest 500; the body is
/// `application/problem+json` and tells no internals.
impl ResponseError for LockError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(Problem::of(self).status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let problem = Problem::of(self);
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
