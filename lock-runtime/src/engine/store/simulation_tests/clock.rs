//! A server's clock that is set while processes do nothing but write.

use crate::engine::request::EnqueueReply;
use crate::engine::store::simulation_tests::client::{Habits, Process, Use};
use crate::engine::store::simulation_tests::server::{LOCK, Server};
use crate::engine::store::simulation_tests::witness::Witness;
use crate::engine::traits::Engine;
use crate::util::runtime_clock::RuntimeClock;
use crate::util::time::deadline_in;
use lock_test_support::rng::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// The looks for asks show it twice a second.
#[tokio::test(start_paused = true)]
async fn lease_that_begins_after_a_clock_was_set_forward_does_not_end_by_that() {
    let _clock = RuntimeClock::of(&Handle::current());
    let (server, witness) = (Server::faultless(), Arc::<Witness>::default());
    let habits = Habits {
        draw_numbers: false,
        pause: 0,
    };
    let [holder, other] = [(); 2].map(|()| Process::new(&server, &witness, 1.0, habits));
    let mut rng = Rng::random();
    let mut wait = async |process: &Process| {
        let claim = process.claim(&mut rng, Use::Exclusive);
        let waits = process
            .engine
            .enqueue(&claim, None, deadline_in(2 * SECOND));
        waits.await.unwrap()
    };
    holder.engine.listen();
    holder
        .engine
        .views(&[LOCK.into()], 1, deadline_in(SECOND))
        .await
        .unwrap();
    server.set_by.store(3600, Relaxed);
    sleep(2 * SECOND).await;
    assert!(matches!(wait(&holder).await, EnqueueReply::Granted(_)));
    assert!(
        matches!(wait(&other).await, EnqueueReply::Queued(_)),
        "the lease has begun just now"
    );
}
