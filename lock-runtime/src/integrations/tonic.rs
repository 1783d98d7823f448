//! [`LockError`] as a gRPC status.

use crate::error::LockError;
use std::sync::Arc;
use tonic::{Code, Status};

/// `Busy` is `ABORTED`, `Unavailable` and `ShuttingDown` are `UNAVAILABLE`, all other errors are `INTERNAL`:
/// see the [status codes of gRPC](https://grpc.github.io/grpc/core/md_doc_statuscodes.html). The message
/// reveals no internals; the error is the status's source, which is not sent.
impl From<LockError> for Status {
    fn from(error: LockError) -> Status {
        let (code, message) = match error {
            LockError::Busy { .. } => (Code::Aborted, "locked"),
            LockError::Unavailable { .. } | LockError::ShuttingDown { .. } => {
                (Code::Unavailable, "service unavailable")
            }
            _ => (Code::Internal, "internal error"),
        };
        let mut status = Status::new(code, message);
        status.set_source(Arc::new(error));
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LostCause;
    use std::error::Error;

    #[test]
    fn a_status_reveals_no_internals() {
        for (error, code) in [
            (LockError::busy("order:42"), Code::Aborted),
            (
                LockError::unavailable("order:42", "refused"),
                Code::Unavailable,
            ),
            (
                LockError::lost("order:42", LostCause::Expired),
                Code::Internal,
            ),
            (
                LockError::ShuttingDown {
                    key: Some("order:42".into()),
                },
                Code::Unavailable,
            ),
            (LockError::NotInitialized, Code::Internal),
        ] {
            let text = error.to_string();
            let status = Status::from(error);
            assert_eq!(status.code(), code);
            assert!(!status.message().contains("order:42"));
            assert_eq!(status.source().unwrap().to_string(), text);
        }
    }
}
