//! Lock errors as problem details (RFC 9457) for the clients of a web service.

use crate::error::LockError;

pub(crate) struct Problem {
    pub(crate) status: u16,
    title: &'static str,
    /// In seconds.
    pub(crate) retry_after: Option<u64>,
}

impl Problem {
    pub(crate) const CONTENT_TYPE: &'static str = "application/problem+json";

    pub(crate) fn from_error(error: &LockError) -> Problem {
        let (status, title, retry_after) = match error {
            LockError::Busy { .. } => (423, "Locked", Some(1)),
            LockError::Unavailable { .. } | LockError::ShuttingDown { .. } => {
                (503, "Service Unavailable", Some(1))
            }
            _ => (500, "Internal Server Error", None),
        };
        Problem {
            status,
            title,
            retry_after,
        }
    }

    pub(crate) fn body(&self) -> String {
        format!(
            r#"{{"type":"about:blank","title":"{}","status":{}}}"#,
            self.title, self.status
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reveals_no_internals() {
        let problem = Problem::from_error(&LockError::busy("order:42"));
        assert_eq!(
            problem.body(),
            r#"{"type":"about:blank","title":"Locked","status":423}"#
        );
    }
}
