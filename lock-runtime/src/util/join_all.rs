//! Awaits several futures in one task.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::task::Poll;

/// The greatest number of futures that run at once. Each wake-up polls all of these.
const AT_ONCE: usize = 128;

/// Waits until all futures have completed, of which a limited number runs at once. Returns their outputs in
/// the same order.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: VecDeque<_> = futures.into_iter().map(Box::pin).collect();
    let mut running = Vec::new();
    let mut outputs: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    let mut places = outputs.iter_mut();
    poll_fn(|context| {
        loop {
            let free = AT_ONCE.saturating_sub(running.len()).min(waiting.len());
            running.extend(waiting.drain(..free).zip(places.by_ref()));
            let before = running.len();
            running.retain_mut(|(future, place)| match future.as_mut().poll(context) {
                Poll::Ready(output) => {
                    **place = Some(output);
                    false
                }
                Poll::Pending => true,
            });
            if running.is_empty() && waiting.is_empty() {
                return Poll::Ready(());
            }
            if running.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    drop(running);
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
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

    #[tokio::test]
    async fn a_limited_number_of_futures_runs_at_once() {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outputs = join_all((0..1000).map(|n| {
            let (running, most) = (&running, &most);
            async move {
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, SeqCst);
                n
            }
        }));
        assert!(outputs.await.into_iter().eq(0..1000));
        assert_eq!(most.into_inner(), AT_ONCE);
    }
}
