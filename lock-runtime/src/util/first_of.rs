//! Awaits the first of two futures.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Waits for the future, or for the other if that is ready first.
pub(crate) async fn first_of<A: Future, B: Future>(
    one: A,
    other: B,
) -> Result<A::Output, B::Output> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => other.as_mut().poll(context).map(Err),
    })
    .await
}
