//! Several keys, held together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_runtime::{LockError, LockGuard, LockManager, distributed_lock};
use tokio::task::JoinSet;

use super::fixture::{Fixture, is_refused};
use lock_test_support::manager::until_renewed;
use lock_test_support::time::{PATIENCE, begin, millis, soon};

const LONG: Duration = Duration::from_secs(60);

fn keys(fixture: &Fixture, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| fixture.key(name)).collect()
}

fn sorted(guard: &LockGuard) -> Vec<&str> {
    let mut keys: Vec<_> = guard.keys().collect();
    keys.sort_unstable();
    keys
}

pub async fn all_keys_are_held_and_released(fixture: Fixture) {
    let names = keys(&fixture, &["c", "a", "b", "a"]);
    let guard = fixture.locks().lock_all(&names).acquire().await.unwrap();
    assert_eq!(sorted(&guard), keys(&fixture, &["a", "b", "c"]));
    assert!(guard.is_valid() && guard.ensure_valid_for(millis(100)).is_ok());
    for name in &names {
        assert!(fixture.is_held(name).await);
    }
    guard.release().await.unwrap();
    for name in &names {
        fixture.until_free(name).await;
    }
    let body = fixture.locks().lock_all(&names).run(async |guard| {
        assert!(fixture.is_held(guard.key()).await);
    });
    body.await.unwrap();
    for name in &names {
        fixture.until_free(name).await;
    }
}

#[distributed_lock(key = ["<prefix>:<from>", "<prefix>:<to>"], manager = locks, wait = "60s")]
async fn transfer(
    locks: &LockManager,
    accounts: &Mutex<HashMap<u64, i64>>,
    prefix: &str,
    (from, to): (u64, u64),
) -> Result<(), LockError> {
    let read = |account| accounts.lock().unwrap()[&account];
    let (mine, theirs) = (read(from), read(to));
    tokio::time::sleep(millis(1)).await;
    if from != to {
        let mut accounts = accounts.lock().unwrap();
        accounts.insert(from, mine - 1);
        accounts.insert(to, theirs + 1);
    }
    Ok(())
}

pub async fn common_keys_never_deadlock(fixture: Fixture) {
    let prefix = fixture.key("account");
    let accounts: HashMap<u64, i64> = (0..4).map(|account| (account, 100)).collect();
    let accounts = Arc::new(Mutex::new(accounts));
    let mut tasks = JoinSet::new();
    for n in 0..8_u64 {
        let (locks, prefix) = (fixture.both()[n as usize % 2].clone(), prefix.clone());
        let accounts = accounts.clone();
        tasks.spawn(async move {
            for round in 0..6 {
                let pair = ((n + round) % 4, (n * 3 + round * 2) % 4);
                transfer(&locks, &accounts, &prefix, pair).await.unwrap();
            }
        });
    }
    soon(tasks.join_all()).await;
    let sum: i64 = accounts.lock().unwrap().values().sum();
    assert_eq!(sum, 400, "money was lost");
}

/// The waits for several keys add up, so a call for them is not preferred by local handoff, however long that
/// may last.
pub async fn call_for_several_keys_passes_no_waiter(fixture: Fixture) {
    if !fixture.has_queue() {
        return;
    }
    let [a, b] = [fixture.key("a"), fixture.key("b")];
    let ours = fixture
        .connect(fixture.config().local_handoff(1000, LONG))
        .await;
    let held = ours.lock(&*a).acquire().await.unwrap();
    let waiter = tokio::spawn(fixture.other().lock(&*a).acquire());
    fixture.until_waiting(&a, 1).await;
    let both = tokio::spawn(ours.lock_all([&a, &b]).acquire());
    tokio::time::sleep(millis(200)).await;
    held.release().await.unwrap();
    let waiter = soon(waiter).await.unwrap().unwrap();
    assert!(!both.is_finished());
    waiter.release().await.unwrap();
    let both = soon(both).await.unwrap().unwrap();
    both.release().await.unwrap();
    fixture.until_free(&a).await;
    ours.shutdown().await;
}

pub async fn busy_key_releases_the_others(fixture: Fixture) {
    let names = keys(&fixture, &["a", "b", "c"]);
    let holder = fixture.other().lock(&names[1]).acquire().await.unwrap();
    let all = || fixture.locks().lock_all(&names);
    match all().try_acquire().await {
        Ok(guard) => assert!(guard.is_none()),
        // A quorum whose votes are split.
        Err(error) => assert!(error.is_unavailable() && !fixture.has_queue(), "{error}"),
    }
    for wait in [Duration::ZERO, millis(200)] {
        let busy = all().wait(wait).acquire().await.unwrap_err();
        // The votes of a quorum may be split, and a slow server may not reply in that time.
        let unknown = busy.is_unavailable() && (!fixture.has_queue() || !wait.is_zero());
        let named = busy.is_busy() && busy.key() == Some(&*names[1]);
        assert!(unknown || named, "{busy}");
        fixture.until_free(&names[0]).await;
        fixture.until_free(&names[2]).await;
    }
    let waits = tokio::spawn(all().acquire());
    fixture.until_waiting(&names[1], 1).await;
    holder.release().await.unwrap();
    let guard = soon(waits).await.unwrap().unwrap();
    drop(guard);
    for name in &names {
        fixture.until_free(name).await;
    }
}

pub async fn dropped_call_frees_all_keys(fixture: Fixture) {
    let names = keys(&fixture, &["a", "b"]);
    let all = || fixture.locks().lock_all(&names);
    let holder = fixture.other().lock(&names[1]).acquire().await.unwrap();
    for pause in [0, 5, 50] {
        let mut call = Box::pin(all().acquire());
        let _ = begin(&mut call);
        let _ = tokio::time::timeout(millis(pause), &mut call).await;
        drop(call);
        fixture.until_free(&names[0]).await;
    }
    holder.release().await.unwrap();
    fixture.until_free(&names[1]).await;
}

pub async fn lost_key_loses_the_guard(fixture: Fixture) {
    let names = keys(&fixture, &["a", "b", "c"]);
    let lock = fixture
        .locks()
        .lock_all(&names)
        .ttl(fixture.renewed_lease());
    let guard = lock.acquire().await.unwrap();
    if !fixture.deleted(&names[2]) {
        return;
    }
    let loss = soon(guard.lost()).await;
    assert!(loss.is_lost() && loss.key() == Some(&*names[2]), "{loss}");
    assert!(!guard.is_valid() && guard.ensure_valid_for(millis(1)).is_err());
    assert!(guard.release().await.is_err());
    for name in &names {
        fixture.until_free(name).await;
    }
}

/// A successor has the lock of one key already, whichever key that is.
pub async fn overtaken_holder_of_several_keys_gets_no_fencing_token(fixture: Fixture) {
    for stolen in 0..3 {
        let names = keys(&fixture, &["a", "b", "c"]);
        let guard = fixture.locks().lock_all(&names).acquire().await.unwrap();
        if !fixture.deleted(&names[stolen]) {
            return;
        }
        let successor = fixture.other().lock(&names[stolen]);
        let successor = successor.acquire().await.unwrap();
        let token = successor.fencing_token().await.unwrap();
        match guard.fencing_token().await {
            Err(error) => assert!(error.is_lost() || error.is_unavailable(), "{error}"),
            Ok(late) => assert!(late < token, "{late} is not below {token}"),
        }
        drop(guard);
        successor.release().await.unwrap();
        for name in &names {
            fixture.until_free(name).await;
        }
    }
}

pub async fn nested_calls_for_several_keys_run(fixture: Fixture) {
    let names = keys(&fixture, &["a", "b"]);
    let all = || fixture.locks().lock_all(&names).reentrant(true);
    let one = |n: usize| fixture.locks().lock(&names[n]).reentrant(true);
    let outer = all().run(async |outer| {
        let token = outer.fencing_token().await.unwrap();
        let inner = all().run(async |inner| inner.fencing_token().await.unwrap());
        assert_eq!(inner.await.unwrap(), token);
        let chain =
            one(0).run(async |_| one(1).run(async |_| one(0).run(async |_| ()).await).await);
        chain.await.unwrap().unwrap().unwrap();
        let held = one(0).acquire().await.unwrap();
        one(1).acquire().await.unwrap().release().await.unwrap();
        held.release().await.unwrap();
    });
    soon(outer).await.unwrap();
    for name in &names {
        fixture.until_free(name).await;
    }
}

pub async fn keys_of_a_failed_call_are_free_despite_min_hold(fixture: Fixture) {
    let names = keys(&fixture, &["a", "b"]);
    let holder = fixture.other().lock(&names[1]).acquire().await.unwrap();
    let all = fixture.locks().lock_all(&names).min_hold(LONG);
    assert!(all.wait(millis(100)).acquire().await.is_err());
    fixture.until_free(&names[0]).await;
    holder.release().await.unwrap();
    fixture.until_free(&names[1]).await;
}

pub async fn keys_are_validated(fixture: Fixture) {
    let lock = |keys: &[&str]| fixture.locks().lock_all(keys.iter().copied()).acquire();
    for keys in [&[][..], &[""], &["a", ":b"]] {
        let refused = lock(keys).await.unwrap_err();
        assert!(matches!(refused, LockError::InvalidKey { .. }), "{refused}");
    }
}

pub async fn several_keys_have_one_fencing_token(fixture: Fixture) {
    let names = keys(&fixture, &["a", "b", "c", "d"]);
    let mut last = 0;
    for n in 0..6 {
        let several = fixture.both()[n % 2].lock_all(&names[n % 3..]);
        let guard = several.acquire().await.unwrap();
        let token = guard.fencing_token().await.unwrap();
        assert!(token > last, "{token} after {last}");
        assert_eq!(guard.fencing_token().await.unwrap(), token);
        last = token;
        guard.release().await.unwrap();
        let one = fixture.other().lock(&names[3]).acquire();
        let one = one.await.unwrap();
        let token = one.fencing_token().await.unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        one.release().await.unwrap();
    }
}

pub async fn thousand_keys_are_renewed_until_each_is_released(fixture: Fixture) {
    let names: Vec<_> = (0..1000).map(|n| fixture.key(&n.to_string())).collect();
    let all = fixture.locks().lock_all(&names).wait(PATIENCE * 4);
    let guard = all.acquire().await.unwrap();
    until_renewed([&guard]).await;
    soon(guard.release()).await.unwrap();
    fixture.until_free(&names[0]).await;
    fixture.until_free(&names[999]).await;
}

/// A key that is named twice counts once.
pub async fn too_many_keys_are_refused(fixture: Fixture) {
    let twice = (0..1001).map(|n| fixture.key(&(n % 2).to_string()));
    let both = fixture.locks().lock_all(twice).acquire().await.unwrap();
    assert_eq!(both.keys().count(), 2);
    both.release().await.unwrap();
    let names = (0..1001).map(|n| fixture.key(&n.to_string()));
    let refused = fixture.locks().lock_all(names).acquire().await.unwrap_err();
    assert!(is_refused(&refused, "key"), "{refused}");
}
