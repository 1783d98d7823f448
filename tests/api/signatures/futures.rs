//! Functions that return a future without being async themselves.

#![allow(clippy::manual_async_fn, reason = "they are what is tested")]

use std::num::ParseIntError;
use std::pin::Pin;

use lock_runtime::{LockError, distributed_lock};

use super::{body, under};

#[derive(Debug)]
struct Failure;

impl From<LockError> for Failure {
    fn from(_: LockError) -> Self {
        Self
    }
}

impl From<ParseIntError> for Failure {
    fn from(_: ParseIntError) -> Self {
        Self
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[distributed_lock(key = "opaque_future:<text>")]
fn opaque_future(text: &str) -> impl Future<Output = Result<u64, Failure>> + Send {
    async move {
        body("opaque_future:1").await;
        Ok(text.parse()?)
    }
}

#[distributed_lock(key = "boxed_future:<text>")]
fn boxed_future<'a>(text: &'a str) -> Pin<Box<dyn Future<Output = Result<u64, Failure>> + 'a>> {
    Box::pin(async move {
        body("boxed_future:1").await;
        Ok(text.parse()?)
    })
}

#[distributed_lock(key = "aliased_future:<text>:<length>")]
fn aliased_future(text: &str) -> BoxFuture<'_, Result<u64, Failure>> {
    let length = text.len();
    Box::pin(async move {
        body("aliased_future:1:1").await;
        Ok(text.parse()?)
    })
}

#[distributed_lock(key = "borrowing_future:<text>")]
fn borrowing_future(text: &'static str) -> impl Future<Output = Result<u64, Failure>> {
    let _ = text;
    async {
        body("borrowing_future:1").await;
        Ok(1)
    }
}

#[tokio::test]
async fn functions_returning_futures_are_accepted() -> Result<(), Failure> {
    assert_eq!(under("opaque_future:1", opaque_future("1")).await?, 1);
    assert_eq!(under("boxed_future:1", boxed_future("1")).await?, 1);
    assert_eq!(under("aliased_future:1:1", aliased_future("1")).await?, 1);
    assert_eq!(under("borrowing_future:1", borrowing_future("1")).await?, 1);
    Ok(())
}
