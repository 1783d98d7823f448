//! A request whose reply is lost may have been executed. No lock may stay without a holder, and no
//! acquisition may be executed after its own release.

use std::pin::pin;

use lock_runtime::LockError;

use super::fixture::{COMMAND_TIMEOUT, Fixture};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, begin, millis, soon, within};

pub async fn unanswered_acquire_is_retried_and_held_once(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let row = fixture.key("row");
    network.each(Proxy::lose_next_reply);
    let guard = soon(locks.lock(&*row).acquire());
    let guard = guard.await.unwrap();
    assert!(network.count(Proxy::lost_replies) > 0);
    assert!(guard.is_valid() && fixture.is_held(&row).await);
    drop(guard);
    fixture.until_free(&row).await;
    locks.shutdown().await;
}

pub async fn unanswered_release_is_retried(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    for awaits in [false, true] {
        let row = fixture.key(&format!("row:{awaits}"));
        let guard = locks.lock(&*row).acquire().await.unwrap();
        let lost = network.count(Proxy::lost_replies);
        network.each(Proxy::lose_next_reply);
        if awaits {
            // It reports that it could not be confirmed, but never a loss.
            let released = soon(guard.release()).await;
            let is_fine = |error: &LockError| error.is_unavailable();
            assert!(released.as_ref().err().is_none_or(is_fine), "{released:?}");
        } else {
            drop(guard);
        }
        network.until_more_than(lost, Proxy::lost_replies).await;
        fixture.until_free(&row).await;
    }
    locks.shutdown().await;
}

/// Its request or its reply is on its way when the caller leaves.
pub async fn acquire_answered_after_its_caller_was_dropped_is_released(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let row = fixture.key("row");
    let faults: [fn(&Proxy); 2] = [Proxy::black_hole, Proxy::hold_replies];
    let counts: [fn(&Proxy) -> usize; 2] = [Proxy::held, Proxy::held_replies];
    for (fault, held) in faults.into_iter().zip(counts) {
        let before = network.count(held);
        network.each(fault);
        {
            let mut acquire = pin!(locks.lock(&*row).acquire());
            assert!(begin(&mut acquire).is_pending());
            tokio::select! {
                _ = &mut acquire => panic!("no reply came"),
                () = network.until_more_than(before, held) => {}
            }
        }
        network.each(Proxy::heal);
        fixture.until_free(&row).await;
    }
    soon(locks.shutdown()).await;
}

/// A request is delayed, and arrives long after its process has gone to another connection and released the
/// lock there.
pub async fn acquire_arriving_after_its_connection_was_replaced_is_released(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let (row, given_up) = (fixture.key("row"), fixture.key("given-up"));
    let (held, ended) = (network.count(Proxy::held), network.count(Proxy::ended));
    network.each(Proxy::strand);
    let gave_up = locks.lock(&*given_up).wait(COMMAND_TIMEOUT).acquire();
    drop(soon(gave_up).await);
    assert!(network.count(Proxy::held) > held);
    // Later requests are not stuck.
    let guard = soon(locks.lock(&*row).acquire()).await;
    drop(guard.unwrap());
    fixture.until_free(&row).await;
    network.each(Proxy::heal);
    network.until_more_than(ended, Proxy::ended).await;
    soon(locks.shutdown()).await;
    fixture.until_free(&given_up).await;
}

/// It arrives when its lease would have ended, had it been granted at once.
pub async fn acquire_arriving_after_its_ttl_leaves_no_lock(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let (row, ttl) = (fixture.key("row"), millis(3000));
    network.each(Proxy::hold_requests);
    let acquire = locks.lock(&*row).ttl(ttl).wait(millis(300)).acquire();
    assert!(acquire.await.unwrap_err().is_unavailable());
    tokio::time::sleep(ttl).await;
    let ended = network.count(Proxy::ended);
    network.each(Proxy::heal);
    network.until_more_than(ended, Proxy::ended).await;
    // Unless it was released, it is held for its ttl.
    within(ttl - NOISE, fixture.until_free(&row)).await;
    locks.shutdown().await;
}

pub async fn timed_out_acquire_leaves_no_lock(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let row = fixture.key("row");
    for hole in [Proxy::black_hole, Proxy::hold_replies] {
        network.each(hole);
        let acquire = locks.lock(&*row).wait(millis(400)).acquire();
        let error = soon(acquire).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        network.each(Proxy::heal);
        let guard = soon(locks.lock(&*row).acquire()).await;
        drop(guard.unwrap());
        fixture.until_free(&row).await;
    }
    soon(locks.shutdown()).await;
}
