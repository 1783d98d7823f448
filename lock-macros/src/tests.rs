//! Snapshots of expanded functions, which `UPDATE_EXPECT=1 cargo test` updates, and the templates that
//! `tests/parsers` has found.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use expect_test::{ExpectFile, expect_file};

use crate::expand::expand;
use crate::fuzzing::key_templates;

fn check(args: &str, item: &str, snapshot: ExpectFile) {
    let expanded = expand(args.parse().unwrap(), item.parse().unwrap());
    snapshot.assert_eq(&prettyplease::unparse(&syn::parse2(expanded).unwrap()));
}

#[test]
fn function() {
    check(
        r#"key = "order:{id}""#,
        "/// Pays.
        pub async fn pay(Path(id): Path<u64>) -> Result<Order, Error> {
            #![allow(dead_code)]
            let order = load(id).await?;
            Ok(order.pay())
        }",
        expect_file!["snapshots/function.rs"],
    );
}

#[test]
fn method() {
    check(
        r#"
            key = "<self.tenant>:<order.id():08>",
            ttl = "1m 30s",
            wait = "forever",
            max_hold = MAX_HOLD,
            renew = false,
            label = "tenant <self.tenant>",
            replicas = 2,
            on_lost = "continue",
            on_busy = Ok(Paid::Already),
            or_else = |error| Err(Error::lock(error)),
            guard = lock,
            manager = self.locks,
            crate = crate::lock_runtime,
        "#,
        "async fn pay(&mut self, order: Order) -> Result<Paid, Error> {
            self.paid.insert(order.id(), lock.fencing_token().await?);
            Ok(Paid::Now)
        }",
        expect_file!["snapshots/method.rs"],
    );
}

#[test]
fn kinds() {
    check(
        r#"
            key = ["account:<from>", "account:{to}", ledger()],
            mode = "read",
            min_hold = "5s",
            max_waiters = LIMITS.waiters,
            reentrant = true,
        "#,
        "async fn transfer(from: u64, to: u64) -> Result<(), Error> {
            Ok(())
        }",
        expect_file!["snapshots/kinds.rs"],
    );
    check(
        r#"key = "partner", permits = self.permits, manager = self.locks"#,
        "async fn call(&self) -> Result<(), Error> {
            Ok(())
        }",
        expect_file!["snapshots/permits.rs"],
    );
}

#[test]
fn release() {
    check(
        r#"key = "partition:<id>", release = "lazy", on_lost = "cancel""#,
        "async fn consume(id: u32) -> Result<(), Error> {
            Ok(())
        }",
        expect_file!["snapshots/release.rs"],
    );
}

#[test]
fn impl_trait() {
    check(
        "key = order_key(&ids)",
        "async fn pay<'a, const N: usize>(ids: &'a [u64; N]) -> Result<impl Iterator<Item = u64> + 'a, Error> {
            Ok(ids.iter().copied())
        }",
        expect_file!["snapshots/impl_trait.rs"],
    );
}

#[test]
fn async_trait() {
    check(
        r#"key = "order:{id}""#,
        "#[must_use]
        fn pay<'life0, 'async_trait>(&'life0 self, id: u64) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'async_trait>>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(async move {
                let __self = self;
                let id = id;
                __self.store(id).await
            })
        }",
        expect_file!["snapshots/async_trait.rs"],
    );
}

#[test]
fn errors() {
    check(
        r#"kye = "order:{id}", ttl = 30"#,
        "pub fn pay(id: u64) -> u64 { id }",
        expect_file!["snapshots/errors.rs"],
    );
}

#[test]
fn templates_that_were_found_are_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/parsers/corpus");
    let files = fs::read_dir(corpus.join("key_templates")).unwrap();
    let inputs = files.map(|file| file.unwrap().path());
    let inputs: Vec<_> = inputs.collect();
    assert!(!inputs.is_empty());
    for input in inputs {
        let bytes = fs::read(&input).unwrap();
        let read = catch_unwind(|| key_templates(&bytes));
        assert!(read.is_ok(), "{}", input.display());
    }
}
