//! What events say of a call: where it is in the code, and what it is for.

use std::sync::mpsc::{Receiver, channel};

use lock_runtime::{Config, LockError, LockEvent, LockManager, distributed_lock};

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
