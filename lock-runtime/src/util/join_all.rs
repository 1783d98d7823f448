//! Awaits several futures in one task.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

enum MaybeDone<F: Future> {
    Pending(Pin<Box<F>>),
    Done(F::Output),
}

/// Waits until all futures have completed. Returns their outputs in the same order.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let begin = |future| MaybeDone::Pending(Box::pin(future));
    let mut works: Vec<MaybeDone<F>> = futures.into_iter().map(begin).collect();
    poll_fn(|context| {
        let mut left = 0;
        for work in &mut works {
            if let MaybeDone::Pending(future) = work {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *work = MaybeDone::Done(output),
                    Poll::Pending => left += 1,
                }
            }
        }
        match left {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    let output = |work| match work {
        MaybeDone::Done(output) => Some(output),
        MaybeDone::Pending(_) => None,
    };
    works.into_iter().filter_map(output).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Barrier;

    /// Each future waits at a barrier for all others.
    #[tokio::test]
    async fn futures_run_concurrently() {
        let barrier = Barrier::new(5);
        let outputs = join_all((0..5).map(|n| {
            let barrier = &barrier;
            async move {
                if n % 2 == 0 {
                    tokio::task::yield_now().await;
                }
                barrier.wait().await;
                n
            }
        }));
        assert_eq!(outputs.await, [0, 1, 2, 3, 4]);
    }
}
