//! What events say of a call: where it is in the code, what it is for, and how its guard came and ended.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};

use lock_runtime::testing::Locks;
use lock_runtime::{
    Config, LockError, LockEvent, LockManager, LostCause, Outcome, distributed_lock,
};

/// The site of a call, and its label.
type Told = (String, Option<&'static str>, u32, Option<String>);

async fn connected() -> (LockManager, Receiver<Told>) {
    let (told, events) = channel();
    let config = Config::new("memory://").on_event(move |event| {
        if let LockEvent::Acquired {
            site: Some(site),
            label,
            ..
        } = event
        {
            assert!(site.file().ends_with("events.rs"), "{site}");
            let label = label.map(str::to_owned);
            let _ = told.send((site.template().into(), site.function(), site.line(), label));
        }
    });
    (LockManager::connect(config).await.unwrap(), events)
}

struct Shop(LockManager);

impl Shop {
    #[distributed_lock(key = "cart:<id>", label = "user <user:?>", manager = self.0)]
    async fn order(&self, id: u64, user: &str) -> Result<(), LockError> {
        let _ = (id, user);
        Ok(())
    }

    #[distributed_lock(key = ["a:<id>", "b:<id>"], label = user, manager = self.0)]
    async fn move_all<T: Send + 'static>(
        &self,
        id: u64,
        user: String,
        _: T,
    ) -> Result<(), LockError> {
        Ok(())
    }
}

#[tokio::test]
async fn an_annotated_function_names_its_site_and_its_label() {
    let (locks, events) = connected().await;
    let shop = Shop(locks);
    shop.order(7, "ann").await.unwrap();
    let (template, function, line, label) = events.recv().unwrap();
    assert_eq!(template, "cart:<id>");
    assert_eq!(function, Some(concat!(module_path!(), "::order")));
    assert_eq!(label.as_deref(), Some("user \"ann\""));
    assert!((20..60).contains(&line), "{line}");

    shop.move_all(7, "bob".into(), 1_u8).await.unwrap();
    let (template, function, _, label) = events.recv().unwrap();
    assert_eq!(template, "a:<id> b:<id>");
    assert_eq!(function, Some(concat!(module_path!(), "::move_all")));
    assert_eq!(label.as_deref(), Some("bob"));
}

#[tokio::test]
async fn a_call_names_its_own_site() {
    let (locks, events) = connected().await;
    let line = line!() + 1;
    let stock = || locks.lock("stock:7").template("stock:<sku>").label("r1");
    drop(stock().acquire().await.unwrap());
    let expected = ("stock:<sku>".to_owned(), None, line, Some("r1".to_owned()));
    assert_eq!(events.recv().unwrap(), expected);
    drop(locks.lock("stock:8").acquire().await.unwrap());
    assert!(
        events.try_recv().is_err(),
        "a call without a template has no site"
    );
}

/// A lock that is lost before its caller has the guard is reported as lost at once, not with the end of the
/// guard.
#[tokio::test(start_paused = true)]
async fn a_loss_during_the_acquisition_is_told_at_once() {
    let locks = Arc::new(OnceLock::<Locks>::new());
    let of_handler = locks.clone();
    let config = Config::new("memory://").on_event(move |event| {
        if let LockEvent::Acquired { key, .. } = event {
            of_handler.get().unwrap().lose(key, LostCause::Expired);
        }
    });
    let locks = locks.get_or_init(|| Locks::with(config));
    let guard = locks.lock("row").acquire().await.unwrap();
    assert!(!guard.is_valid());
    assert_eq!((locks.stats().held, locks.stats().lost), (0, 1));
    drop(guard);
    assert_eq!(locks.history(), ["acquired `row`", "lost `row`: expired"]);
}

/// A call for several keys is local if it needed no request for any of them.
#[tokio::test(start_paused = true)]
async fn a_call_that_joins_one_hold_of_several_is_not_local() {
    let locks = Locks::new();
    let read = |keys: &[&str]| locks.lock_all(keys.to_vec()).read().acquire();
    let one = read(&["a"]).await.unwrap();
    let both = read(&["a", "b"]).await.unwrap();
    assert_eq!(locks.stats().acquired_locally, 0);
    let again = read(&["a", "b"]).await.unwrap();
    assert_eq!(locks.stats().acquired_locally, 1);
    drop((one, both, again));
}

/// A handler may log the key, however long an invalid one is.
#[tokio::test]
async fn a_key_that_is_too_long_is_told_in_short() {
    let (told, events) = channel();
    let config = Config::new("memory://").on_event(move |event| {
        if let LockEvent::NotAcquired { key, outcome, .. } = event {
            let _ = told.send((key.len(), *outcome));
        }
    });
    let locks = LockManager::connect(config).await.unwrap();
    let long = [":", &"k".repeat(100_000)].concat();
    assert!(locks.lock(long).acquire().await.is_err());
    assert_eq!(events.recv().unwrap(), (64, Outcome::Rejected));
}

/// The turns of nested calls are turns, too.
#[tokio::test]
async fn nested_calls_that_wait_for_their_turn_are_counted() {
    let locks = Locks::new();
    let nested = || locks.lock("row").reentrant(true);
    let body = nested().run(async |_| {
        let first = nested().acquire().await.unwrap();
        let mut second = Box::pin(nested().acquire());
        let soon = std::time::Duration::from_millis(1);
        assert!(tokio::time::timeout(soon, &mut second).await.is_err());
        let waiting = locks.stats().waiting;
        drop(first);
        drop(second.await.unwrap());
        waiting
    });
    assert_eq!(body.await.unwrap(), 1);
    assert_eq!((locks.stats().waiting, locks.stats().held), (0, 0));
}
