//! The errors of the service.

use lock_runtime::LockError;
use std::error::Error;
use std::fmt;

#[derive(Debug)]
pub enum OrderError {
    Unknown(i64),
    Shipped(i64),
    Lock(LockError),
    Internal(Box<dyn Error + Send + Sync>),
}

/// The only requirement of `#[distributed_lock]` on a handler's error type.
impl From<LockError> for OrderError {
    fn from(error: LockError) -> OrderError {
        OrderError::Lock(error)
    }
}

impl From<std::io::Error> for OrderError {
    fn from(error: std::io::Error) -> OrderError {
        OrderError::Internal(error.into())
    }
}

impl From<tokio::task::JoinError> for OrderError {
    fn from(error: tokio::task::JoinError) -> OrderError {
        OrderError::Internal(error.into())
    }
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderError::Unknown(id) => write!(f, "there is no order {id}"),
            OrderError::Shipped(id) => write!(f, "order {id} has been shipped"),
            OrderError::Lock(error) => error.fmt(f),
            OrderError::Internal(_) => write!(f, "something went wrong on our side"),
        }
    }
}
