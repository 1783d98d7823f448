//! What the services on HTTP share: their requests, and errors as problem details (RFC 9457).

use super::orders::OrderError;
use serde::Serialize;

pub const REQUESTS: &str = "\
Requests:
  POST /orders            {\"item\": \"teapot\"}
  GET  /orders/<id>
  POST /orders/<id>/ship
  GET  /ready             whether orders can be shipped now
  GET  /live              whether the process answers
  GET  /metrics           what the locks do, for Prometheus";

#[derive(Serialize)]
pub struct Problem {
    pub status: u16,
    pub title: String,
}

impl Problem {
    pub const CONTENT_TYPE: &str = "application/problem+json";

    /// Returns the response to an error of the service itself; a lock error is a response already.
    pub fn from_error(error: &OrderError) -> Problem {
        let status = match error {
            OrderError::Unknown(_) => 404,
            OrderError::Shipped(_) => 409,
            OrderError::Lock(_) => 500,
            OrderError::Internal(cause) => {
                eprintln!("{cause}");
                500
            }
        };
        let title = error.to_string();
        Problem { status, title }
    }
}
