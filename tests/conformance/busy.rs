//! The error of a call that did not get the lock says who holds it.

use std::time::{Duration, SystemTime};

use lock_runtime::{Holder, LockError, LockManager};

use super::fixture::Fixture;
use lock_test_support::time::{millis, soon};

/// Tries once, then waits in vain. Returns both errors.
async fn refusals(locks: &LockManager, key: &str) -> [LockError; 2] {
    let refusal = async |wait| {
        loop {
            let error = locks.lock(key).wait(wait).acquire().await.unwrap_err();
            // The time may be over before the server's reply.
            if !error.is_unavailable() {
                return error;
            }
        }
    };
    [refusal(Duration::ZERO).await, refusal(millis(500)).await]
}

fn holder(error: &LockError) -> Holder {
    match error {
        LockError::Busy { holder, .. } => holder.clone(),
        // It had no reply in its time.
        LockError::Unavailable { .. } => Holder::AnotherClient,
        _ => panic!("{error}"),
    }
}

/// The guard may be the caller's own.
pub async fn busy_names_this_process(fixture: Fixture) {
    let door = fixture.key("door");
    let guard = fixture.locks().lock(&*door).acquire().await.unwrap();
    for error in refusals(fixture.locks(), &door).await {
        assert_eq!(holder(&error), Holder::ThisProcess, "{error}");
        let text = error.to_string();
        assert!(text.contains("held by this process: by another call, by a guard"));
    }
    guard.release().await.unwrap();
}

pub async fn busy_names_this_process_for_the_rest_of_min_hold(fixture: Fixture) {
    let job = fixture.key("job");
    let lock = fixture.locks().lock(&*job).min_hold(millis(10_000));
    lock.acquire().await.unwrap().release().await.unwrap();
    for error in refusals(fixture.locks(), &job).await {
        assert_eq!(holder(&error), Holder::ThisProcess, "{error}");
    }
}

pub async fn busy_names_the_task_that_holds_the_lock(fixture: Fixture) {
    let door = fixture.key("door");
    let lock = |key: &str| fixture.locks().lock(key).wait(Duration::ZERO);
    let nested = lock(&door).run(async |_| lock(&door).acquire().await.map(drop));
    let error = nested.await.unwrap().unwrap_err();
    assert_eq!(holder(&error), Holder::ThisTask, "{error}");
    let text = error.to_string();
    assert!(text.contains("held by the task that asks for it; call the inner"));
}

/// A single try is not told; a call that has waited knows which process it is, and since when that asked.
pub async fn busy_names_the_process_that_holds_the_lock(fixture: Fixture) {
    if !fixture.has_processes() {
        return;
    }
    let door = fixture.key("door");
    let before = SystemTime::now() - millis(1);
    let guard = fixture.other().lock(&*door).acquire().await.unwrap();
    let after = SystemTime::now();
    let [once, mut waited] = refusals(fixture.locks(), &door).await;
    assert_eq!(holder(&once), Holder::AnotherClient, "{once}");
    assert!(once.to_string().contains("held by another client; retry"));
    // A slow server has not told it to the first.
    while !matches!(holder(&waited), Holder::Process { .. }) {
        [_, waited] = refusals(fixture.locks(), &door).await;
    }
    let Holder::Process { id, since, .. } = holder(&waited) else {
        unreachable!();
    };
    assert_eq!(id, fixture.other().process_id());
    assert!(
        before <= since && since <= after,
        "{since:?}, not {before:?} to {after:?}"
    );
    let text = waited.to_string();
    assert!(
        text.contains("is held by ") && text.contains(&format!("process `{id}`")),
        "{text}"
    );
    guard.release().await.unwrap();
}

pub async fn busy_names_the_service_after_a_second(fixture: Fixture) {
    let door = fixture.key("door");
    let config = fixture.config().service("orders").version("2.3.1");
    let orders = fixture.connect(config).await;
    let guard = orders.lock(&*door).acquire().await.unwrap();
    let named = async {
        loop {
            let call = fixture.locks().lock(&*door).wait(millis(1200)).acquire();
            let busy = call.await.unwrap_err();
            if let Holder::Process {
                info: Some(info), ..
            } = holder(&busy)
            {
                return (info, busy);
            }
        }
    };
    let (info, busy) = soon(named).await;
    assert_eq!((info.id(), info.service()), (orders.process_id(), "orders"));
    let text = format!(
        "held by {info} (process `{}`), which asked for it ",
        orders.process_id()
    );
    assert!(busy.to_string().contains(&text), "{busy}");
    guard.release().await.unwrap();
    orders.shutdown().await;
}
